//! The messages of an endpoint: what a request carries, and what each answer does.

use schemars::{Schema, SchemaGenerator};

use crate::endpoints::{Endpoint, EndpointGroup};

/// Maker of the schema of a type.
pub type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Media type of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// One JSON value.
    Json,
    /// A JSON value in each line.
    JsonLines,
    /// Server-sent events, each of which has a JSON value as its data (WHATWG HTML, 9.2).
    Events,
    /// Fields of a form (WHATWG URL, 5).
    Form,
    /// A table with a line for its head (RFC 4180).
    Csv,
    /// Text for people or other programs.
    Text,
    /// Bytes of any kind.
    Bytes,
}

impl Media {
    /// Returns the name of the type in headers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::JsonLines => "application/jsonl",
            Self::Events => "text/event-stream",
            Self::Form => "application/x-www-form-urlencoded",
            Self::Csv => "text/csv",
            Self::Text => "text/plain",
            Self::Bytes => "application/octet-stream",
        }
    }
}

/// A body.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Its media type.
    pub media: Media,
    /// The schema of its value, or of each of its values.
    pub schema: SchemaOf,
}

/// The messages of an endpoint.
#[derive(Debug)]
pub struct Operation {
    /// The endpoint.
    pub endpoint: &'static Endpoint,
    /// Types of the placeholders in its path, in their order.
    pub path: &'static [SchemaOf],
    /// The parameters of the query: the schema of an object.
    pub query: Option<SchemaOf>,
    /// Names of headers that it reads.
    pub headers: &'static [&'static str],
    /// The body of a request.
    pub body: Option<Message>,
    /// The answers that are no problems: status, and body if there is one.
    pub answers: &'static [(u16, Option<Message>)],
    /// True if a later release removes it.
    pub is_deprecated: bool,
}

/// Returns whether these are the messages of all endpoints of a table, in its order. A constant
/// that asserts this keeps a program from being compiled while an endpoint lacks its messages.
pub const fn are_complete(operations: &[Operation], table: &[EndpointGroup]) -> bool {
    let (mut at, mut group) = (0, 0);
    while group < table.len() {
        let endpoints = table[group].endpoints;
        let mut index = 0;
        while index < endpoints.len() {
            if at >= operations.len() || !same(operations[at].endpoint.name, endpoints[index].name)
            {
                return false;
            }
            (at, index) = (at + 1, index + 1);
        }
        group += 1;
    }
    at == operations.len()
}

const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoints::{CHECK_LIFE, LIST_PEERS};

    const fn of(endpoint: &'static Endpoint) -> Operation {
        Operation {
            endpoint,
            path: &[],
            query: None,
            headers: &[],
            body: None,
            answers: &[],
            is_deprecated: false,
        }
    }

    /// Promise: an endpoint without messages, messages without an endpoint, and another order are
    /// found.
    #[test]
    fn messages_and_table_fit_each_other() {
        static TABLE: [EndpointGroup; 1] =
            [EndpointGroup { name: "", endpoints: &[&CHECK_LIFE, &LIST_PEERS] }];
        let (life, peers) = (|| of(&CHECK_LIFE), || of(&LIST_PEERS));
        assert!(are_complete(&[life(), peers()], &TABLE));
        assert!(!are_complete(&[life()], &TABLE));
        assert!(!are_complete(&[peers(), life()], &TABLE));
        assert!(!are_complete(&[life(), peers(), peers()], &TABLE));
    }
}
