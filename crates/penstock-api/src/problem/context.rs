//! The request and the object that a problem is about.

use serde::{Deserialize, Serialize};

use crate::options::deadline::DeadlineOutlook;

/// A field of a request that is at fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct FieldFault {
    /// The field, as a JSON Pointer into the body (RFC 6901), such as `/options/lanes`. For a
    /// parameter of the query it is `?` and the name.
    #[serde(deserialize_with = "crate::text::field")]
    pub pointer: String,
    /// The kind of the fault, for programs: `unknown-field`, or the code of the problem.
    #[serde(deserialize_with = "crate::text::field")]
    pub code: String,
    /// The fault, for people.
    #[serde(deserialize_with = "crate::text::field")]
    pub detail: String,
}

/// Kind of an object of the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ObjectKind {
    /// A peer of the site.
    Peer,
    /// A rule of an operator.
    Rule,
    /// A site.
    Site,
    /// A store of the site.
    Store,
    /// A token.
    Token,
    /// A transfer.
    Transfer,
    /// A user.
    User,
    /// A thing of another kind, or of one that a later release has.
    #[serde(other)]
    Other,
}

/// An object that a problem or a wait is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ObjectRef {
    /// Its kind.
    pub kind: ObjectKind,
    /// Its name or id.
    #[serde(deserialize_with = "crate::text::field")]
    pub name: String,
}

/// The request and the object that a problem is about, as far as they are known.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ProblemContext {
    /// Fields of the request that are at fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldFault>,
    /// The object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// The figures of a deadline that cannot be promised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DeadlineOutlook>,
    /// Least time in seconds after which the same request may be sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_s: Option<u32>,
    /// Id of the request, as the header `Request-Id` of its answer has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}
