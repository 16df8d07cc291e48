//! JSON Schemas of types whose form in JSON no attribute of serde tells.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::access::{AccountName, Scope, SessionId, TokenId, UserCode};
use crate::deadline::Factor;
use crate::problem::ProblemCode;
use crate::queue::TimeOfDay;
use crate::timestamp::Timestamp;

/// The id of a transfer in a path: its first digits do, as long as no other transfer has them.
#[derive(Debug)]
pub struct TransferKey;

impl JsonSchema for TransferKey {
    fn schema_name() -> Cow<'static, str> {
        "TransferKey".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "The id of a transfer, or its first digits if no other one has them.",
            "pattern": "^[0-9a-f]{1,32}$",
            "examples": ["7f3a90c25be14d068a1e52c7f0b94d11"],
        })
    }
}

impl JsonSchema for Timestamp {
    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A time (RFC 3339), in answers in UTC and with milliseconds.",
            "format": "date-time",
            "examples": ["2026-11-26T07:08:09.000Z"],
        })
    }
}

impl JsonSchema for AccountName {
    fn schema_name() -> Cow<'static, str> {
        "AccountName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "The name of an account of a host, or of each of several hosts.",
            "minLength": 1,
            "maxLength": 256,
            "examples": ["am17"],
        })
    }
}

impl JsonSchema for Factor {
    fn schema_name() -> Cow<'static, str> {
        "Factor".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "description": "A ratio.", "minimum": 0 })
    }
}

impl JsonSchema for TimeOfDay {
    fn schema_name() -> Cow<'static, str> {
        "TimeOfDay".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "A time of day by the wall clock, to the minute.",
            "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$",
            "examples": ["18:00"],
        })
    }
}

impl JsonSchema for TokenId {
    fn schema_name() -> Cow<'static, str> {
        "TokenId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Identifier of a token. It is no secret.",
            "pattern": "^[0-9a-f]{16}$",
            "examples": ["9b1c5e07d2a84f36"],
        })
    }
}

impl JsonSchema for SessionId {
    fn schema_name() -> Cow<'static, str> {
        "SessionId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "Identifier of a session. It is no secret.",
            "pattern": "^[0-9a-f]{16}$",
            "examples": ["5d0c9e1b73a2f648"],
        })
    }
}

impl JsonSchema for UserCode {
    fn schema_name() -> Cow<'static, str> {
        "UserCode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "The code that a program shows to its user: eight letters.",
            "examples": ["CMGR-HMLT"],
        })
    }
}

impl JsonSchema for Scope {
    fn schema_name() -> Cow<'static, str> {
        "Scope".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let scopes = Self::ALL.map(Self::as_str);
        json_schema!({ "type": "string", "description": "A scope of a token.", "enum": scopes })
    }
}

impl JsonSchema for ProblemCode {
    fn schema_name() -> Cow<'static, str> {
        "ProblemCode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let codes: Vec<_> =
            Self::TABLE.iter().flat_map(|group| group.codes).map(|facts| facts.code).collect();
        json_schema!({
            "type": "string",
            "description": "The kind of a problem, for programs. docs/problems.md explains each.",
            "enum": codes,
        })
    }
}
