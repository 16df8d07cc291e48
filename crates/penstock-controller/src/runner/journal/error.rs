//! Errors of the journal store.

use std::io;
use std::path::Path;

use penstock_api::problem::{Problem, ProblemCode};

/// Returns an error of the journal store: nothing more can be committed, so the attempt ends.
pub(crate) fn failed(what: &str, path: &Path, cause: &io::Error) -> Problem {
    penstock_api::io_problem::failed(
        ProblemCode::Journal,
        format!("cannot {what} {}", path.display()),
        cause,
    )
}
