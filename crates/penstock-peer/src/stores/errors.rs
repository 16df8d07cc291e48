//! Errors at a target that are no item's fault: who meets one ends with its problem, and what met
//! it is tried again.

use penstock_api::problem::{Exit, Problem};
use penstock_engine::fetch::{ATTEMPTS_MAX, Item};
use penstock_io::store::{StoreError, Target};

use crate::stores::chain;
use crate::task::{full_problem, is_of_store};
use crate::write::Written;

/// The problem of an error that is of the whole store, or passes; `None` if it is the item's. Asks
/// the store after an I/O error, and so may block.
pub(crate) fn of_no_item(target: &Target, error: &StoreError) -> Option<Problem> {
    if error.is_passing() {
        return Some(short_problem(error));
    }
    is_of_store(target, error).then(|| full_problem(error))
}

/// The problem with which a task ends when an answer could not be written: the store takes no more,
/// or the host was short of something at every try of an entry.
pub(crate) fn of_answer(item: &Item, written: &Written) -> Option<Problem> {
    let last = item.attempt >= ATTEMPTS_MAX;
    let short = written.short.as_ref().filter(|_| last);
    written.fatal.as_ref().map(full_problem).or_else(|| short.map(short_problem))
}

/// The host has run short of something: it passes.
pub(crate) fn short_problem(error: &StoreError) -> Problem {
    let title = "the target host has run out of memory or descriptors";
    Problem::new(Exit::Temporary, "host-short", title)
        .because(chain(error))
        .hint("raise the limit of open files there (`ulimit -n`), or end other programs")
}

#[cfg(test)]
mod tests {
    use std::io;

    use penstock_io::store::{PosixOptions, PosixStore};
    use penstock_proto::journal::{EntryFailure, FailurePhase};
    use penstock_proto::slicing::PieceRef;

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

    /// Promise (c): a host that has no descriptors left has failed no item, however often it tried:
    /// its task ends with that, and goes on later.
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
        assert_eq!(of(ATTEMPTS_MAX, emfile).unwrap().code, "host-short");
    }

    /// A11: what a store says may pass, or is of the way to it, a controller that has the number
    /// alone knows for such; nothing else is tried again.
    #[test]
    fn a11_both_ends_agree_on_what_may_pass() {
        for errno in 1..=133 {
            let source = io::Error::from_raw_os_error(errno);
            let error = StoreError::Io { operation: "write", path: "f".into(), source };
            let mild = error.is_passing() || error.is_io_failure() || error.is_vanished();
            let (in_use, phase) = (errno == 16, FailurePhase::Write);
            let failure = EntryFailure { entry: 0, phase, errno: errno as u16 };
            assert_eq!(failure.may_pass(), mild || in_use, "{error:?}");
        }
    }
}
