//! Reasons why a directory is not listed or made.

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::ENTRIES_MAX;
use penstock_proto::id::Name;
use penstock_proto::name::escape;
use penstock_store::StoreError;

use super::cursor::CursorError;
use crate::stores::access::AccessError;
use crate::stores::errors::{Cause, StoreFault, problem_of};
use crate::stores::guard::is_missing;

/// The reason why a directory is not listed or made.
#[derive(Debug, thiserror::Error)]
pub(super) enum EntriesError {
    /// The store cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The store accepts no more work.
    #[error(transparent)]
    Fault(#[from] StoreFault),
    #[error(transparent)]
    Cursor(#[from] CursorError),
    #[error("store `{0}` is used as accounts of users, and cannot be looked into")]
    Mapped(Name),
    #[error("the limit of entries is {0}, and not from 1 to {ENTRIES_MAX}")]
    Limit(u32),
    #[error("`{}` is not a path within a store", escape(.0))]
    Path(Vec<u8>),
    #[error("store `{store}` has no {}", named(.path))]
    Unknown { store: Name, path: Vec<u8> },
    #[error("{} of store `{store}` is not a directory that can be reached", named(.path))]
    Kind { store: Name, path: Vec<u8>, source: Cause },
    #[error("store `{store}` has a {} already", named(.path))]
    Exists { store: Name, path: Vec<u8> },
    #[error("no permission to use {} of store `{store}`", named(.path))]
    Denied { store: Name, path: Vec<u8>, source: Cause },
}

/// Returns a path in an error; the empty one is the root.
fn named(path: &[u8]) -> String {
    if path.is_empty() { "the root".to_owned() } else { format!("`{}`", escape(path)) }
}

impl EntriesError {
    /// Returns the error of a call for `path`. An error that nothing explains is one of the store.
    pub(super) fn of(store: &Name, path: &[u8], error: &StoreError) -> Self {
        let (source, store, path) = (Cause::of(error), store.clone(), path.to_vec());
        match error {
            StoreError::BadPath { .. } => Self::Path(path),
            StoreError::NotDirectory { .. } => Self::Kind { store, path, source },
            StoreError::Exists { .. } => Self::Exists { store, path },
            StoreError::ReadOnly { .. } => AccessError::ReadOnly(store).into(),
            error if is_missing(error) => Self::Unknown { store, path },
            error if error.is_denied() => Self::Denied { store, path, source },
            error if error.is_passing() => StoreFault::short(error).into(),
            error if error.is_out_of_space() || error.is_read_only() => {
                StoreFault::of_store(error).into()
            }
            error => AccessError::unanswered(&store, error).into(),
        }
    }
}

impl From<EntriesError> for Problem {
    fn from(error: EntriesError) -> Self {
        let (code, hint) = match error {
            EntriesError::Access(error) => return error.into(),
            EntriesError::Fault(error) => return error.into(),
            EntriesError::Cursor(_) => {
                (ProblemCode::Cursor, "list the directory again from its begin")
            }
            EntriesError::Mapped(_) => (ProblemCode::AccountMissing, ""),
            EntriesError::Limit(_) => (ProblemCode::Query, ""),
            EntriesError::Path(_) => {
                (ProblemCode::Query, "give a relative path without `.`, `..` and empty parts")
            }
            EntriesError::Unknown { .. } => (ProblemCode::EntryUnknown, ""),
            EntriesError::Kind { .. } => (ProblemCode::EntryKind, "links are never followed"),
            EntriesError::Exists { .. } => (ProblemCode::EntryExists, ""),
            EntriesError::Denied { .. } => (
                ProblemCode::EntryDenied,
                "give the user of the daemon the right to it at the host of the store",
            ),
        };
        problem_of(code, &error).hint(hint)
    }
}
