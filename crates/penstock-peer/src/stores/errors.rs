//! Errors caused by the target's store or host rather than by one item. Such an error ends the
//! task, and the affected item is tried again.

use penstock_api::problem::{Problem, ProblemCode};
use penstock_store::{StoreError, Target};

/// The text of an error and its causes, where the error itself is needed elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Cause(pub(crate) String);

impl Cause {
    pub(crate) fn of(error: &dyn std::error::Error) -> Self {
        Self(chain(error))
    }
}

/// Returns an error as users see it: its text, and the chain of its causes as the reason.
pub(crate) fn problem_of(code: ProblemCode, error: &dyn std::error::Error) -> Problem {
    Problem::new(code, error.to_string()).because(error.source().map_or_else(String::new, chain))
}

/// An error of the target's store or host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StoreFault {
    /// The host lacks a resource, which passes.
    #[error("the target host has run out of memory or descriptors")]
    Short(#[source] Cause),
    #[error("the target is full")]
    Full(#[source] Cause),
    #[error("the target is read-only")]
    ReadOnly(#[source] Cause),
    #[error("the target store is offline or failing")]
    Failing(#[source] Cause),
}

impl StoreFault {
    /// Returns the fault of a host that lacks a resource.
    pub(crate) fn short(error: &StoreError) -> Self {
        Self::Short(Cause::of(error))
    }

    /// Returns the fault of a store that accepts no more work.
    pub(crate) fn of_store(error: &StoreError) -> Self {
        let cause = Cause::of(error);
        if error.is_out_of_space() {
            return Self::Full(cause);
        }
        if error.is_read_only() { Self::ReadOnly(cause) } else { Self::Failing(cause) }
    }

    pub(crate) fn code(&self) -> ProblemCode {
        match self {
            Self::Short(_) => ProblemCode::HostShort,
            Self::Full(_) => ProblemCode::TargetFull,
            Self::ReadOnly(_) => ProblemCode::TargetReadOnly,
            Self::Failing(_) => ProblemCode::StoreOffline,
        }
    }

    /// Returns the fault behind an error that concerns the store or passes; `None` if the error is
    /// the item's. Asks the store after an I/O error, and so may block.
    pub(crate) fn of(target: &Target, error: &StoreError) -> Option<Self> {
        if error.is_passing() {
            return Some(Self::short(error));
        }
        is_of_store(target, error).then(|| Self::of_store(error))
    }
}

/// Returns whether an error concerns the whole store rather than one item. The task then ends, and
/// the affected item is tried again. After an I/O error the store itself is asked, since a store
/// that has shut down fails for every file.
pub(crate) fn is_of_store(target: &Target, error: &StoreError) -> bool {
    let certain = error.is_out_of_space() || error.is_read_only();
    let gone = error.is_offline();
    certain || gone || (error.is_io_failure() && target.identity().is_err())
}

impl From<StoreFault> for Problem {
    fn from(fault: StoreFault) -> Self {
        let hint = match fault {
            StoreFault::Short(_) => {
                "raise the limit of open files there (`ulimit -n`), or end other programs"
            }
            StoreFault::Full(_) => {
                "free space at the target; the transfer keeps its progress and resumes"
            }
            StoreFault::ReadOnly(_) => "mount it writable, then resume",
            StoreFault::Failing(_) => {
                "check the kernel log of the target host; the transfer resumes when the store \
                 works again"
            }
        };
        problem_of(fault.code(), &fault).hint(hint)
    }
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

    use penstock_api::problem::Exit;
    use penstock_proto::journal::{EntryFailure, FailurePhase};
    use penstock_store::{PosixOptions, PosixStore};

    use super::*;

    /// Promise (c), A5: temporary errors, and errors of the whole store, are charged to no item,
    /// and are retried. An I/O error belongs to the store only if the store does not answer either.
    #[test]
    fn a5_what_passes_is_no_items_fault() {
        let base = tempfile::tempdir().unwrap();
        let store = PosixStore::open(base.path(), PosixOptions::default()).unwrap();
        let target = Target::Posix(store);
        let of = |errno| {
            let source = io::Error::from_raw_os_error(errno);
            let error = StoreError::Io { operation: "stat", path: "f".into(), source };
            StoreFault::of(&target, &error)
        };
        let (eintr, eio, eacces, emfile) = (4, 5, 13, 24);
        let is_without_identity = of(eio).unwrap();
        assert!(matches!(is_without_identity, StoreFault::Failing(_)));
        target.open_or_init_identity().unwrap();
        assert!(of(eio).is_none() && of(eacces).is_none());
        for errno in [eintr, emfile] {
            let problem = Problem::from(of(errno).unwrap());
            assert_eq!((problem.exit, problem.code), (Exit::Temporary, ProblemCode::HostShort));
        }
    }

    /// A11: from the error number alone, a controller recognizes errors of a store, or of the way
    /// to it, that may pass; no others are retried.
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
