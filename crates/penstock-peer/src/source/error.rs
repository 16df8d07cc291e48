//! Reasons why a scan, or another request to the source side, fails. No item is at fault.
//!
//! An error of a scan is kept and handed to each waiter, and so can be cloned.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_api::io_problem;
use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::select::SelectError;
use penstock_proto::id::{Name, TransferId};
use penstock_proto::name::escape;
use penstock_proto::wire::DecodeError;
use penstock_store::StoreError;

use crate::stores::access::AccessError;
use crate::stores::errors::{Cause, problem_of};
use crate::stores::guard::is_missing;
use crate::stores::single_flight::Busy;

/// The reason why a scan ends, or a request to the source side fails.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum SourceError {
    /// A store cannot be used.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The right to act is over, or another caller failed.
    #[error(transparent)]
    Caller(#[from] Problem),
    #[error("cannot start a thread")]
    Thread(#[source] Arc<io::Error>),
    #[error(transparent)]
    Busy(#[from] Busy),

    /// This peer alone cannot open the scan again. A controller that can answers with the same
    /// code, temporary.
    #[error("the scan of transfer {} is not known here", .0.short())]
    UnknownScan(TransferId),
    #[error("the scan of transfer {} is being opened", .0.short())]
    Opening(TransferId),
    #[error("the scan was stopped while it was opened")]
    GivenUp,
    #[error("the transfer is known here with another data set")]
    OtherDataSet,
    #[error("opening a scan broke an assumption of ours")]
    OpeningPanicked,
    #[error("listing a data set broke an assumption of ours")]
    ListingPanicked,
    #[error("a filter cannot be read")]
    Select(#[source] SelectError),

    /// A file of the manifest. Where another controller's scan replaces this one (`AlreadyExists`,
    /// `StaleNetworkFileHandle`), the next attempt uses that scan.
    #[error("cannot keep the manifest at {}", .path.display())]
    Manifest { path: PathBuf, source: Arc<io::Error> },
    #[error("cannot write {}", .path.display())]
    Record { path: PathBuf, source: Arc<io::Error> },
    #[error("the page {} is damaged", .path.display())]
    PageDamaged { path: PathBuf, source: DecodeError },

    /// The root of the data set is nothing that can be moved.
    #[error("`{}` {fault}", escape(.root))]
    Unfit { root: Vec<u8>, fault: Unfit },
    #[error("cannot examine the source `{}`", escape(.root))]
    Root { root: Vec<u8>, fault: RootFault, source: Cause },
    /// This user may enter the root and not list it.
    #[error("cannot list the source{}", named(.root))]
    Unlisted { root: Vec<u8>, source: Cause },

    #[error("the scan is not complete, so changes since it began are not known")]
    Incomplete,
    #[error("the request asks about too many entries")]
    TooMuchAsked,
    #[error("a page that is asked about is not known")]
    UnknownPageAsked,
    #[error("what is asked about is no file of its page")]
    NoFileAsked,
    #[error("the controller asked for digests of entries that are not files")]
    NoFilesWished,
    #[error("page {0} is not known here")]
    WishedPageUnknown(u32),

    #[error("transfer {} may not remove anything here", .0.short())]
    RemoveNotAllowed(TransferId),
    #[error("an order to remove names entries that do not exist")]
    NoSuchEntries,
    #[error("page {0} is not known here")]
    OrderedPageDiffers(u32),
    #[error("page {page} is damaged here")]
    OrderedPageDamaged { page: u32, source: DecodeError },
    #[error("cannot remove items from store `{0}`: its data is generated")]
    Generated(Name),
    #[error("cannot remove items from store `{0}`: it discards all data")]
    Discards(Name),
    #[error("cannot sync store `{store}`")]
    Sync { store: Name, source: Cause },
}

/// The reason why the root of a data set cannot be moved.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("is a file that a copy has not finished")]
    Unfinished,
    #[error("is state of penstock")]
    OwnState,
    #[error("is a socket")]
    Socket,
}

/// The kinds of errors of the root of a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RootFault {
    Missing,
    Denied,
    /// A dead server or client, a disk that fails, a limit of this host: it may be put right.
    Passing,
    Unreadable,
    /// The names of its extended attributes cannot be listed.
    TooManyAttributes,
}

fn named(root: &[u8]) -> String {
    match root {
        b"" => String::new(),
        root => format!(" `{}`", escape(root)),
    }
}

impl SourceError {
    /// Returns the error of a thread that cannot be started.
    pub(crate) fn thread(cause: io::Error) -> Self {
        Self::Thread(Arc::new(cause))
    }

    /// Returns the error of a file in which a scan keeps its pages or its state.
    pub(crate) fn manifest(path: &Path, cause: io::Error) -> Self {
        Self::Manifest { path: path.to_owned(), source: Arc::new(cause) }
    }

    /// Returns the error of a root that cannot be examined.
    pub(crate) fn root(root: &[u8], error: &StoreError) -> Self {
        let mut source = Cause::of(error);
        let fault = if is_missing(error) {
            RootFault::Missing
        } else if error.is_denied() {
            RootFault::Denied
        } else if error.is_passing() || error.is_io_failure() || error.is_offline() {
            RootFault::Passing
        } else if error.is_endless() {
            let why = "its file system does not report its length, and reading it found no end \
                       within 64 MiB (64 GiB on FUSE), or waited for 10 s";
            source = Cause(why.to_owned());
            RootFault::Unreadable
        } else if error.has_too_many_attributes() {
            let why = "the names of its extended attributes take more than 64 KiB, which the \
                       kernel does not list";
            source = Cause(why.to_owned());
            RootFault::TooManyAttributes
        } else {
            RootFault::Unreadable
        };
        Self::Root { root: root.to_vec(), fault, source }
    }

    /// Returns the error of a root that this user may enter and not list.
    pub(crate) fn unlisted(root: &[u8], error: &StoreError) -> Self {
        let why = error.errno().map(io::Error::from_raw_os_error);
        let source = why.map_or_else(|| Cause::of(error), |why| Cause::of(&why));
        Self::Unlisted { root: root.to_vec(), source }
    }

    /// Returns the code by which programs know the error.
    pub(crate) fn code(&self) -> ProblemCode {
        match self {
            Self::Access(error) => error.code(),
            Self::Caller(problem) => problem.code.clone(),
            Self::Thread(_) => ProblemCode::Threads,
            Self::Busy(_) => ProblemCode::ScanBusy,
            Self::UnknownScan(_) => ProblemCode::ScanUnknown,
            Self::Opening(_) => ProblemCode::ScanOpening,
            Self::GivenUp => ProblemCode::ScanGivenUp,
            Self::OtherDataSet => ProblemCode::ScanKnown,
            Self::OpeningPanicked | Self::ListingPanicked => ProblemCode::Internal,
            Self::Select(_) => ProblemCode::Select,
            Self::Manifest { .. } | Self::Record { .. } => ProblemCode::State,
            Self::PageDamaged { .. } | Self::OrderedPageDamaged { .. } => ProblemCode::PageDamaged,
            Self::Unfit { .. } => ProblemCode::SourceKind,
            Self::Root { fault, .. } => match fault {
                RootFault::Missing => ProblemCode::SourceMissing,
                RootFault::Denied => ProblemCode::SourceDenied,
                RootFault::Passing => ProblemCode::Source,
                RootFault::Unreadable | RootFault::TooManyAttributes => {
                    ProblemCode::SourceUnreadable
                }
            },
            Self::Unlisted { .. } => ProblemCode::SourceUnlisted,
            Self::Incomplete => ProblemCode::ScanIncomplete,
            Self::TooMuchAsked | Self::UnknownPageAsked | Self::NoFileAsked => ProblemCode::Asked,
            Self::NoFilesWished => ProblemCode::Wish,
            Self::WishedPageUnknown(_) => ProblemCode::PageUnknown,
            Self::RemoveNotAllowed(_) => ProblemCode::RemoveNotAllowed,
            Self::NoSuchEntries => ProblemCode::Request,
            Self::OrderedPageDiffers(_) => ProblemCode::PageDiffers,
            Self::Generated(_) | Self::Discards(_) => ProblemCode::StoreKind,
            Self::Sync { .. } => ProblemCode::SourceSync,
        }
    }

    fn hint(&self) -> &'static str {
        match self {
            Self::Busy(_) => "if this persists, the source store hangs: check its disk or server",
            Self::Opening(_) => "the transfer continues by itself",
            Self::Unfit { fault: Unfit::Unfinished, .. } => "copy what it is made from",
            Self::Unfit { fault: Unfit::OwnState, .. } => "give a path outside of it",
            Self::Root { fault: RootFault::Missing, .. } => "correct the path of the source",
            Self::Root { fault: RootFault::Denied, .. } => "ask its owner for the right to read it",
            Self::Root { fault: RootFault::TooManyAttributes, .. } => {
                "`--no-preserve xattrs` copies it without them"
            }
            Self::Unlisted { .. } => {
                "ask its owner for the right to read it, or name what is in it by `--files-from`"
            }
            Self::Generated(_) => "leave out `--remove-source`",
            _ => "",
        }
    }
}

impl From<SourceError> for Problem {
    fn from(error: SourceError) -> Self {
        let problem = problem_of(error.code(), &error).hint(error.hint());
        match error {
            SourceError::Access(error) => error.into(),
            SourceError::Caller(problem) => problem,
            SourceError::Thread(cause) => Self::no_thread(cause),
            SourceError::Manifest { source, .. } | SourceError::Record { source, .. } => {
                problem.exit(io_problem::exit_of(&source)).hint(io_problem::hint_of(&source))
            }
            SourceError::UnknownScan(_) => problem.exit(Exit::Fatal).status(404),
            SourceError::Opening(_) => {
                problem.because("its pages are being read again, or its store is slow")
            }
            _ => problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a full disk of the journal is waited for, and damage ends the transfer. A peer that
    /// does not know a scan reports that with a status that is no fault of its own.
    #[test]
    fn what_may_pass_is_told_from_what_does_not() {
        let manifest = |kind: io::ErrorKind| {
            let error = SourceError::manifest(Path::new("/j/00000000.page"), kind.into());
            (Problem::from(error.clone()), error.to_string())
        };
        let (full, title) = manifest(io::ErrorKind::StorageFull);
        assert_eq!((full.exit, full.status, &full.title), (Exit::Temporary, 503, &title));
        assert!(full.hint.starts_with("free space") && !full.detail.is_empty());
        assert_eq!(manifest(io::ErrorKind::InvalidData).0.exit, Exit::Fatal);
        let unknown = Problem::from(SourceError::UnknownScan(TransferId([1; 16])));
        assert_eq!((unknown.exit, unknown.status), (Exit::Fatal, 404));
    }
}
