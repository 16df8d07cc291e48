//! Reasons why a store of this host cannot be used now, or at all.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::task::MountSeen;
use penstock_proto::id::Name;
use penstock_proto::name::escape;
use penstock_store::{StoreError, StoreOffline};
use penstock_sys::AccountError;

use super::errors::{Cause, problem_of};

/// The reason why a store cannot be used. No item is at fault.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum AccessError {
    #[error("store `{store}` does not exist here")]
    Unknown { store: Name, known: Vec<Name> },
    /// The kind of the store does not allow the use.
    #[error("store `{store}` does not fit")]
    Kind { store: Name, source: Cause },
    #[error("store `{0}` is configured as read-only")]
    ReadOnly(Name),
    /// The store is mapped, and no account for its use is configured.
    #[error("store `{0}` is used as accounts of users, and the request has none")]
    NoAccount(Name),
    /// The store is mapped, and this host cannot use it as the account.
    #[error("cannot use store `{store}` as the account of the request")]
    Account { store: Name, source: Arc<AccountError> },
    /// The store is absent now; the transfer waits for it.
    #[error("store `{store}` is offline")]
    Offline { store: Name, source: Absence },
    /// This user may not open the store. A site waits for the right; a copy, whose stores are
    /// `ephemeral`, ends.
    #[error("no permission to open store `{store}`")]
    Denied { store: Name, ephemeral: bool, source: Cause },
    /// This host has no descriptor for the store. That passes, and proves nothing about the store.
    #[error("this host is short of descriptors or memory for store `{store}`")]
    Short { store: Name, source: Cause },
    /// A call to the store has not returned.
    #[error("store `{0}` does not answer: a call to it hangs")]
    Hung(Name),
    /// There is no thread for a call to the store.
    #[error("cannot start a thread")]
    Thread(#[source] Arc<io::Error>),
    #[error("asking store `{0}` broke an assumption of ours")]
    Panicked(Name),
}

/// The reason why a store counts as offline.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Absence {
    /// Its marks show that.
    #[error(transparent)]
    Marks(StoreOffline),
    /// A call to it failed.
    #[error(transparent)]
    Call(Cause),
    #[error(
        "no file system is mounted at {}, where one was; if that is meant, restart the daemon",
        .0.display()
    )]
    NotMounted(PathBuf),
    #[error("`{at}` ({kind}) was mounted within it before, and is not now",
        at = escape(&.0.at.0), kind = .0.kind)]
    MountGone(MountSeen),
    #[error("another file system is at `{}` now", escape(.0))]
    OtherFileSystem(Vec<u8>),
    #[error("the directory `{}` is not there now", escape(.0))]
    DirectoryGone(Vec<u8>),
    #[error("the directory that `{}` lay in is not there now", escape(.0))]
    ParentGone(Vec<u8>),
    #[error("the store's identity is not there: is it mounted?")]
    IdentityGone,
    #[error("something else is mounted there than when the data set was listed")]
    OtherThanListed,
    #[error("another store is mounted there than the one the transfer writes to")]
    OtherThanWritten,
    #[error("no listed item is here, of {0} examined: is it another one?")]
    NothingListed(usize),
}

impl AccessError {
    /// Returns the error of a store that is offline, and why.
    pub(crate) fn offline(store: &Name, source: Absence) -> Self {
        Self::Offline { store: store.clone(), source }
    }

    /// Returns the error of a store that this error of a call shows to be offline.
    pub(crate) fn unanswered(store: &Name, error: &dyn std::error::Error) -> Self {
        Self::offline(store, Absence::Call(Cause::of(error)))
    }

    /// Returns the error of a store whose marks are not there now, or cannot be examined for lack
    /// of descriptors.
    pub(crate) fn gone(store: &Name, offline: StoreOffline) -> Self {
        let store = store.clone();
        match offline {
            StoreOffline::Short { .. } => Self::Short { store, source: Cause::of(&offline) },
            StoreOffline::Denied { .. } => {
                Self::Denied { store, ephemeral: false, source: Cause::of(&offline) }
            }
            offline => Self::Offline { store, source: Absence::Marks(offline) },
        }
    }

    /// Returns the error of a store that cannot be opened. A store that this user may not open, or
    /// for which this host lacks descriptors, is not offline.
    pub(crate) fn unopened(store: &Name, ephemeral: bool, error: &StoreError) -> Self {
        if error.is_denied() {
            return Self::Denied { store: store.clone(), ephemeral, source: Cause::of(error) };
        }
        if error.is_passing() {
            return Self::Short { store: store.clone(), source: Cause::of(error) };
        }
        Self::unanswered(store, error)
    }

    pub(crate) fn code(&self) -> ProblemCode {
        match self {
            Self::Unknown { .. } => ProblemCode::StoreUnknown,
            Self::Kind { .. } => ProblemCode::StoreKind,
            Self::ReadOnly(_) => ProblemCode::StoreReadOnly,
            Self::NoAccount(_) => ProblemCode::AccountMissing,
            Self::Account { source, .. } => match **source {
                AccountError::Unknown(_) => ProblemCode::AccountMissing,
                AccountError::Unanswered { .. } => ProblemCode::AccountUnknown,
                AccountError::HiddenRoot(_) | AccountError::NotPermitted { .. } => {
                    ProblemCode::AccountRefused
                }
            },
            Self::Offline { .. } => ProblemCode::StoreOffline,
            Self::Denied { .. } => ProblemCode::StoreDenied,
            Self::Short { .. } => ProblemCode::HostShort,
            Self::Hung(_) => ProblemCode::StoreHung,
            Self::Thread(_) => ProblemCode::Threads,
            Self::Panicked(_) => ProblemCode::Internal,
        }
    }

    fn hint(&self) -> String {
        let hint = match self {
            Self::Unknown { known, .. } => {
                let known: Vec<_> = known.iter().map(Name::as_str).collect();
                return format!("known stores: {}", known.join(", "));
            }
            Self::Offline { source: Absence::MountGone(_), .. } => {
                "mount it; the transfer then resumes. If it is gone for good, cancel the transfer \
                 and submit it again"
            }
            Self::Offline { .. } => {
                "mount it, or correct its path in the configuration; the transfer then resumes"
            }
            Self::NoAccount(_) => {
                "an administrator maps the user, `penstock user set NAME --account ACCOUNT`, or \
                 the paired site, under `[accounts]` of the configuration"
            }
            Self::Account { source, .. } => match **source {
                AccountError::Unknown(_) => {
                    "make the account on this host, or map the user to another one"
                }
                AccountError::Unanswered { .. } => "check it: `getent passwd ACCOUNT`",
                AccountError::HiddenRoot(_) => "map the user to an account without root's number",
                AccountError::NotPermitted { .. } => {
                    "run the daemon as root, or with both capabilities; or set `account = \
                     \"daemon\"` for the store"
                }
            },
            Self::Denied { .. } => {
                "give the user of the daemon the right to enter that directory and those above it"
            }
            Self::Short { .. } => {
                "raise the limit of open files (`ulimit -n`), or end other programs"
            }
            Self::Hung(_) => {
                "check its disk or server; the transfer resumes when the store answers"
            }
            _ => "",
        };
        hint.to_owned()
    }
}

impl From<AccessError> for Problem {
    fn from(error: AccessError) -> Self {
        let problem = match &error {
            AccessError::Thread(cause) => return Self::no_thread(cause),
            _ => problem_of(error.code(), &error).hint(error.hint()),
        };
        match error {
            AccessError::Denied { ephemeral: true, .. } => problem.exit(Exit::Fatal),
            AccessError::Denied { .. } => problem.exit(Exit::Temporary),
            _ => problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a store that a user may not open ends a copy at once, since the right cannot appear
    /// meanwhile; a transfer of a site waits for it.
    #[test]
    fn a_right_is_waited_for_by_sites_alone() {
        let exit = |ephemeral| {
            let (store, source) = ("data".parse().unwrap(), Cause("EACCES".to_owned()));
            let problem = Problem::from(AccessError::Denied { store, ephemeral, source });
            (problem.code, problem.exit, problem.status, problem.detail)
        };
        let denied = ProblemCode::StoreDenied;
        assert_eq!(exit(false), (denied.clone(), Exit::Temporary, 503, "EACCES".to_owned()));
        assert_eq!(exit(true), (denied, Exit::Fatal, 500, "EACCES".to_owned()));
    }
}
