//! Errors at a target that are no item's fault: who meets one ends with its problem, and what met
//! it is tried again.

use penstock_api::problem::{Exit, Problem};
use penstock_io::store::{StoreError, Target};

use crate::stores::chain;
use crate::task::{full_problem, is_of_store};

/// The problem of an error that is of the whole store, or passes; `None` if it is the item's. Asks
/// the store after an I/O error, and so may block.
pub(crate) fn of_no_item(target: &Target, error: &StoreError) -> Option<Problem> {
    if error.is_passing() {
        return Some(short_problem(error));
    }
    is_of_store(target, error).then(|| full_problem(error))
}

fn short_problem(error: &StoreError) -> Problem {
    let title = "the target host has run out of memory or descriptors";
    Problem::new(Exit::Temporary, "host-short", title)
        .because(chain(error))
        .hint("it goes on when there are some again")
}

#[cfg(test)]
mod tests {
    use std::io;

    use penstock_io::store::{PosixOptions, PosixStore};

    use super::*;

    /// Promise (c), A5: what passes, and what is of the whole store, is put on no item, and is
    /// tried again; an I/O error is of the store only if that does not answer either.
    #[test]
    fn a5_what_passes_is_no_items_fault() {
        let base = tempfile::tempdir().unwrap();
        let store = PosixStore::open(base.path(), PosixOptions::default()).unwrap();
        let target = Target::Posix(store);
        let of = |errno| {
            let source = io::Error::from_raw_os_error(errno);
            of_no_item(&target, &StoreError::Io { operation: "stat", path: "f".into(), source })
        };
        let (eintr, eio, eacces, emfile) = (4, 5, 13, 24);
        let is_without_identity = of(eio).unwrap();
        assert_eq!(is_without_identity.code, "store-offline");
        target.open_or_init_identity().unwrap();
        assert!(of(eio).is_none() && of(eacces).is_none());
        for errno in [eintr, emfile] {
            let problem = of(errno).unwrap();
            assert_eq!((problem.exit, problem.code.as_str()), (Exit::Temporary, "host-short"));
        }
    }
}
