//! Errors as users and programs see them, with a stable `code`.
//!
//! A [`Problem`] is what parts of the program, peers and sites pass to each other. The answer to a
//! user's request carries it as a [`ProblemDocument`], the problem details of RFC 9457.

mod code;
mod context;
mod document;
mod exit;
mod occurrence;

pub use code::{ProblemCode, ProblemFacts, ProblemGroup, Retry};
pub use context::{FieldFault, ObjectKind, ObjectRef, ProblemContext};
pub use document::{ProblemDetails, ProblemDocument};
pub use exit::Exit;
pub use occurrence::Problem;
