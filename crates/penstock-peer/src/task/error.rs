//! Reasons why a task, or another request to the target side, fails as a whole. No item is at
//! fault.

use std::io;
use std::path::PathBuf;

use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::select::SelectError;
use penstock_api::transfer::PathText;
use penstock_proto::frame::{Refusal, RefusalCode};
use penstock_proto::id::Name;

use crate::stores::access::AccessError;
use crate::stores::errors::{Cause, StoreFault, problem_of};

/// The reason why a task ends, or a request to the target side fails.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskError {
    /// A store cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The target's store or host accepts no more work.
    #[error(transparent)]
    Fault(#[from] StoreFault),
    /// The controller, or another caller, failed.
    #[error(transparent)]
    Caller(#[from] Problem),
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// The task reads its own store, and its request names entries that the page does not have.
    #[error("a request does not fit its page")]
    Misfit(#[source] Cause),

    #[error("cannot open lanes to site `{site}`")]
    NoLanes { site: Name, source: Cause },
    #[error("no data path leads to site `{site}`")]
    NoPath { site: Name, source: NoPair },
    /// The address belongs to another site.
    #[error("another site than expected answers")]
    WrongPeer(#[source] Cause),
    /// A peer may not know yet that sites were paired a moment ago. The next attempt asks the
    /// source's controller, which decides whether the sites are still paired.
    #[error("the sites do not trust each other")]
    Distrust(#[source] Cause),
    /// The capability expires, and its key may be changed. The next attempt asks the source's
    /// controller for another one, which decides whether the right to it still exists.
    #[error("the source refuses the lane")]
    LaneRefused { code: RefusalCode, source: Cause },
    #[error("the source breaks the lane protocol repeatedly")]
    Breaches(#[source] Cause),

    #[error("cannot write to store `{store}`")]
    NotWritable { store: Name, source: Cause },
    #[error("store `{0}` discards all data, so a move would lose it")]
    MoveLoses(Name),
    #[error("store `{0}` discards all data, so nothing can be read back")]
    NothingToReadBack(Name),
    #[error("cannot examine `{path}` in store `{store}`")]
    Unexamined { store: Name, path: PathText, source: Cause },
    #[error("--owner-map: the target's host knows no {kind} `{name}`")]
    UnknownOwner { kind: &'static str, name: String },
    #[error("a filter cannot be read")]
    Select(#[source] SelectError),
    #[error("comparing contents was stopped")]
    CompareStopped,

    #[error("stopped while looking at the target")]
    WalkStopped,
    #[error("cannot keep `{}`", .path.display())]
    Spill { path: PathBuf, source: io::Error },
    #[error("`{}` is damaged", .path.display())]
    ListDamaged { path: PathBuf, source: serde_json::Error },
    #[error("the target cannot be listed, so nothing is deleted")]
    Unlisted(#[source] Cause),
    #[error("more than {0} mounts were left out at the source")]
    TooManyMounts(u64),
    #[error("more than {0} directories are in the way of files")]
    TooManyObstacles(u64),

    #[error("the controller granted a piece that does not exist")]
    NoSuchPiece,
    /// `waiting` names the object of the wait.
    #[error("nothing has moved for {seconds} s")]
    Stalled { seconds: u64, source: Cause },
    #[error("the controller did not confirm its tenure in time")]
    TenureOver,
    #[error("the controller has not answered within the grant of this peer")]
    GrantOver,
    #[error("a thread of the task hangs in store `{0}`")]
    Hangs(Name),
}

/// The reason why no local address can be paired with one of a site.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum NoPair {
    #[error("the peer has no known address for data")]
    NotThere,
    #[error("this host has no address on a network for data")]
    NotHere,
    #[error("no address for data here is of the family of one there")]
    OtherFamily,
    #[error("no path there leads over a network that the transfer names")]
    OtherNetworks,
}

impl TaskError {
    /// Returns the error of a refusal that lasts; `None` if the lane may be dialled again soon.
    pub(crate) fn of_refusal(refusal: &Refusal) -> Option<Self> {
        let source = Cause(refusal.text.clone());
        let lasts = !refusal.code.is_temporary();
        lasts.then_some(Self::LaneRefused { code: refusal.code, source })
    }

    /// Returns the code by which programs know the error.
    pub(crate) fn code(&self) -> ProblemCode {
        match self {
            Self::Access(error) => error.code(),
            Self::Fault(fault) => fault.code(),
            Self::Caller(problem) => problem.code.clone(),
            Self::Thread(_) => ProblemCode::Threads,
            Self::Misfit(_) | Self::Breaches(_) => ProblemCode::Protocol,
            Self::NoLanes { .. } => ProblemCode::Lanes,
            Self::NoPath { .. } => ProblemCode::NoPath,
            Self::WrongPeer(_) => ProblemCode::WrongPeer,
            Self::Distrust(_) => ProblemCode::LaneDistrust,
            Self::LaneRefused { code, .. } => match code {
                RefusalCode::Capability => ProblemCode::LaneCapability,
                RefusalCode::Version => ProblemCode::LaneVersion,
                RefusalCode::Policy => ProblemCode::Policy,
                _ => ProblemCode::Protocol,
            },
            Self::NotWritable { .. } => ProblemCode::TargetReadOnly,
            Self::MoveLoses(_) => ProblemCode::StoreKind,
            Self::NothingToReadBack(_) => ProblemCode::Proof,
            Self::Unexamined { .. } => ProblemCode::Target,
            Self::UnknownOwner { .. } => ProblemCode::OwnerMap,
            Self::Select(_) => ProblemCode::Select,
            Self::CompareStopped | Self::WalkStopped => ProblemCode::Stopped,
            Self::Spill { .. } => ProblemCode::Journal,
            Self::ListDamaged { .. } => ProblemCode::JournalDamaged,
            Self::Unlisted(_) | Self::TooManyMounts(_) | Self::TooManyObstacles(_) => {
                ProblemCode::DeleteRefused
            }
            Self::NoSuchPiece => ProblemCode::Grant,
            Self::Stalled { .. } => ProblemCode::Stalled,
            Self::TenureOver => ProblemCode::TenureOver,
            Self::GrantOver => ProblemCode::GrantOver,
            Self::Hangs(_) => ProblemCode::TaskHangs,
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::NoPath { .. } => "`penstock site paths` shows the addresses of both ends",
            Self::WrongPeer(_) => "check the addresses of the pairing, or pair the sites again",
            Self::Distrust(_) => "if that stays so, pair the sites again: `penstock site pair`",
            Self::LaneRefused { code: RefusalCode::Policy, .. } => {
                "submit the transfer again without `--encryption off`"
            }
            Self::Breaches(_) => {
                "the software or memory of the other site is faulty: ask its operators, then run \
                 `penstock transfer retry`"
            }
            Self::NotWritable { .. } => "choose a directory that this user may write to",
            Self::MoveLoses(_) => "leave out `--remove-source`",
            Self::NothingToReadBack(_) => "leave out `--readback` and `--also-digest`",
            Self::UnknownOwner { .. } => "name an account of the target host, or give its number",
            Self::TooManyObstacles(_) => "check that the target is right, and remove them by hand",
            _ => "",
        }
    }
}

impl From<TaskError> for Problem {
    fn from(error: TaskError) -> Self {
        match error {
            TaskError::Access(error) => error.into(),
            TaskError::Fault(fault) => fault.into(),
            TaskError::Caller(problem) => problem,
            TaskError::Thread(cause) => Self::no_thread(cause),
            error => {
                let problem = problem_of(error.code(), &error).hint(error.hint());
                // The transfer compares again in its next attempt.
                let again = matches!(error, TaskError::CompareStopped);
                if again { problem.exit(Exit::Temporary) } else { problem }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: an error has the failed action, the reason, and the next step, each in its field.
    #[test]
    fn a_problem_has_the_cause_and_the_next_step_apart() {
        let (site, source) = ("far".parse().unwrap(), NoPair::OtherFamily);
        let problem = Problem::from(TaskError::NoPath { site, source });
        assert_eq!(problem.title, "no data path leads to site `far`");
        assert_eq!(problem.detail, "no address for data here is of the family of one there");
        assert!(problem.hint.contains("`penstock site paths`"));
        assert_eq!((problem.code, problem.exit), (ProblemCode::NoPath, Exit::Temporary));
        let problem = Problem::from(TaskError::TenureOver);
        assert_eq!((problem.detail, problem.hint), (String::new(), String::new()));
    }

    /// Promise: a comparison that was stopped is made again, while a deletion that was stopped ends
    /// as an interrupted command does.
    #[test]
    fn a_stopped_comparison_is_made_again() {
        let of = |error: TaskError| {
            let problem = Problem::from(error);
            (problem.code, problem.exit, problem.status)
        };
        let stopped = ProblemCode::Stopped;
        assert_eq!(of(TaskError::CompareStopped), (stopped.clone(), Exit::Temporary, 503));
        assert_eq!(of(TaskError::WalkStopped), (stopped, Exit::Interrupted, 409));
    }
}
