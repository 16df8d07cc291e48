//! The part of a copy's state that belongs to its source: the lists of a scan, and the record of a
//! removal.

use std::path::{Path, PathBuf};

use penstock_proto::id::TransferId;

/// Returns the directory below `state` in which a source in this process keeps its lists.
pub(super) fn source_in(state: &Path) -> PathBuf {
    state.join("source")
}

/// Returns whether the source of the copy `id`, whose state is in `state`, has begun to remove what
/// was moved.
pub(super) fn source_has_begun_to_remove(state: &Path, id: TransferId) -> bool {
    penstock_peer::has_begun_to_remove(&source_in(state), id)
}
