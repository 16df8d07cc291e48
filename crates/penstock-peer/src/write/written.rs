//! Results of one request at the target.

use penstock_engine::fetch::ATTEMPTS_MAX;
use penstock_engine::fetch::{Item, Part};
use penstock_proto::journal::{EntryDigest, EntryFailure};
use penstock_store::StoreError;

use crate::stores::errors::StoreFault;

/// The results of one request, by entry.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Digests of whole files.
    pub(crate) digests: Vec<EntryDigest>,
    /// Digests of an extent, or of the requested part of it.
    pub(crate) part: Option<Part>,
    pub(crate) failures: Vec<EntryFailure>,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
    /// Set if the temporary file of a large file is gone.
    pub(crate) lost: bool,
    /// Error of a store that accepts no more work: the task must stop.
    pub(crate) fatal: Option<StoreError>,
    /// The host ran short of something, which is no entry's fault.
    pub(crate) short: Option<StoreError>,
    pub(crate) repairs: u64,
}

/// Returns the fault with which a task ends when an answer could not be written. Either the store
/// accepts no more work, or the host lacked a resource at every attempt at an entry.
pub(crate) fn of_answer(item: &Item, written: &Written) -> Option<StoreFault> {
    let last = item.attempt >= ATTEMPTS_MAX;
    let short = written.short.as_ref().filter(|_| last);
    let full = written.fatal.as_ref().map(StoreFault::of_store);
    full.or_else(|| short.map(StoreFault::short))
}

#[cfg(test)]
mod tests {
    use std::io;

    use penstock_proto::slicing::PieceRef;

    use super::*;

    /// Promise (c): a host without free descriptors fails no item, however often it tried. Its task
    /// ends with that reason, and is resumed later.
    #[test]
    fn c_what_a_host_is_short_of_ends_its_task_after_the_last_try() {
        let of = |attempt, errno| {
            let item = Item {
                piece: PieceRef { page: 0, piece: 0 },
                generation: 0,
                fresh: true,
                first_entry: 0,
                end_entry: 1,
                offset: 0,
                length: 0,
                bytes: 1,
                attempt,
            };
            let source = io::Error::from_raw_os_error(errno);
            let error = StoreError::Io { operation: "create", path: "f".into(), source };
            let short = error.is_passing().then_some(error);
            of_answer(&item, &Written { short, ..Written::default() })
        };
        let (eacces, emfile) = (13, 24);
        assert!(of(1, emfile).is_none() && of(ATTEMPTS_MAX, eacces).is_none());
        assert!(matches!(of(ATTEMPTS_MAX, emfile), Some(StoreFault::Short(_))));
    }
}
