//! Errors caused by a store or host rather than by one item. Such an error ends the task with a
//! problem, and the affected item is tried again.

use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_proto::id::Name;
use penstock_store::{StoreError, StoreOffline, Target};

/// Returns the problem of an error that concerns the store or passes; `None` if it is the item's.
/// Asks the store after an I/O error, and so may block.
pub(crate) fn of_no_item(target: &Target, error: &StoreError) -> Option<Problem> {
    if error.is_passing() {
        return Some(short_problem(error));
    }
    is_of_store(target, error).then(|| full_problem(error))
}

/// Returns the problem of a host that lacks a resource, which passes.
pub(crate) fn short_problem(error: &StoreError) -> Problem {
    let title = "the target host has run out of memory or descriptors";
    Problem::new(ProblemCode::HostShort, title)
        .because(chain(error))
        .hint("raise the limit of open files there (`ulimit -n`), or end other programs")
}

/// Returns whether an error concerns the whole store rather than one item. The task then ends with
/// [`full_problem`], and the affected item is tried again. After an I/O error the store itself is
/// asked, since a store that has shut down fails for every file.
pub(crate) fn is_of_store(target: &Target, error: &StoreError) -> bool {
    let certain = error.is_out_of_space() || error.is_read_only();
    let gone = error.is_offline();
    certain || gone || (error.is_io_failure() && target.identity().is_err())
}

/// Returns the problem of a store that takes no more.
pub(crate) fn full_problem(error: &StoreError) -> Problem {
    if error.is_out_of_space() {
        return Problem::new(ProblemCode::TargetFull, "the target is full")
            .because(chain(error))
            .hint("free space at the target; the transfer keeps its progress and resumes");
    }
    if error.is_read_only() {
        return Problem::new(ProblemCode::TargetReadOnly, "the target is read-only")
            .because(chain(error))
            .hint("mount it writable, then resume");
    }
    Problem::new(ProblemCode::StoreOffline, "the target store is offline or failing")
        .because(chain(error))
        .hint(
            "check the kernel log of the target host; the transfer resumes when the store works \
               again",
        )
}

/// Returns the problem of an own request that does not fit its page.
pub(crate) fn protocol_problem(error: &dyn std::error::Error) -> Problem {
    Problem::new(ProblemCode::Protocol, "a request does not fit its page").because(chain(error))
}

pub(super) fn wrong_kind(name: &Name, why: &str) -> Problem {
    Problem::new(ProblemCode::StoreKind, format!("store `{name}` does not fit")).because(why)
}

/// Returns the problem of a store that is not there now; the transfer waits for it.
pub(crate) fn store_offline(name: &Name, why: impl std::fmt::Display) -> Problem {
    Problem::new(ProblemCode::StoreOffline, format!("store `{name}` is offline"))
        .because(why)
        .hint("mount it, or correct its path in the configuration; the transfer then resumes")
}

/// Returns the problem of a store that is not there now, or cannot be examined for lack of
/// descriptors.
pub(crate) fn store_gone(name: &Name, offline: &StoreOffline) -> Problem {
    match offline {
        StoreOffline::Short { .. } => host_short(name, offline),
        StoreOffline::Denied { .. } => denied(name, Exit::Temporary, offline),
        offline => store_offline(name, offline),
    }
}

/// Returns the problem of a store that this user may not open. A site waits for the right; a copy
/// ends.
fn denied(name: &Name, exit: Exit, why: impl std::fmt::Display) -> Problem {
    let title = format!("no permission to open store `{name}`");
    Problem::new(ProblemCode::StoreDenied, title)
        .exit(exit)
        .because(why)
        .hint("give the user of the daemon the right to enter that directory and those above it")
}

/// This host has no descriptor for a store: that passes, and says nothing of the store.
fn host_short(name: &Name, why: impl std::fmt::Display) -> Problem {
    let title = format!("this host is short of descriptors or memory for store `{name}`");
    Problem::new(ProblemCode::HostShort, title)
        .because(why)
        .hint("raise the limit of open files (`ulimit -n`), or end other programs")
}

/// Returns the problem of a call to the store that has not returned.
pub(super) fn store_hung(name: &Name) -> Problem {
    let title = format!("store `{name}` does not answer: a call to it hangs");
    Problem::new(ProblemCode::StoreHung, title)
        .hint("check its disk or server; the transfer resumes when the store answers")
}

/// Returns the problem of a store that cannot be opened. A store that this user may not open, or
/// for which this host lacks descriptors, is not offline. A site waits until either is corrected; a
/// copy ends.
pub(crate) fn store_unreachable(name: &Name, ephemeral: bool, error: &StoreError) -> Problem {
    if error.is_denied() {
        let exit = if ephemeral { Exit::Fatal } else { Exit::Temporary };
        return denied(name, exit, chain(error));
    }
    if error.is_passing() {
        return host_short(name, chain(error));
    }
    store_offline(name, chain(error))
}

/// Returns an error and its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use penstock_proto::journal::{EntryFailure, FailurePhase};
    use penstock_store::{PosixOptions, PosixStore};

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
        assert_eq!(is_without_identity.code, ProblemCode::StoreOffline);
        target.open_or_init_identity().unwrap();
        assert!(of(eio).is_none() && of(eacces).is_none());
        for errno in [eintr, emfile] {
            let problem = of(errno).unwrap();
            assert_eq!((problem.exit, &problem.code), (Exit::Temporary, &ProblemCode::HostShort));
        }
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
