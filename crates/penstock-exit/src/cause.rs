//! The causes of an error.

use std::error::Error;

/// Returns the words of an error's first cause.
pub fn innermost(error: &dyn Error) -> String {
    let mut inner = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}
