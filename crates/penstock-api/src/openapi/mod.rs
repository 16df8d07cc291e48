//! The OpenAPI 3.1 document of the API, made from the table of endpoints and from the types of its
//! messages.
//!
//! Schemas come from `schemars`, which reads the attributes that serde obeys. A type has two: a
//! request may hold more than an answer does (docs/design/0048).
//!
//! | module | what it owns |
//! |---|---|
//! | `operation` | the messages of an endpoint |
//! | `document` | the document: paths, operations, answers |
//! | `components` | the schemas of both directions under one name each |
//! | `dialect` | the form of a schema that generators and validators agree on |
//! | `example` | examples of messages |
//! | `scalars` | schemas of types that serde writes by hand-made code |

mod components;
mod dialect;
mod document;
mod example;
mod operation;
mod scalars;

pub use document::document;
pub use operation::{Media, Message, Operation, SchemaOf, are_complete};
pub use scalars::TransferKey;
