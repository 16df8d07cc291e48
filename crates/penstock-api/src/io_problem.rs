//! Classes of errors of the journal store: of the controller's ledger and state database, and of
//! the pages that a source stores there.
//!
//! Disks, servers and mounts come back, room is made, modes are corrected: a transfer waits for
//! that and continues, under any controller. Only an error that no waiting can cure ends it.

use std::io::{self, ErrorKind};

use crate::problem::{Exit, Problem, ProblemCode};

/// Returns whether an operation that failed with this error in the journal store may succeed later.
///
/// [`Exit::Fatal`] is damaged or truncated content (a decoder's error, which serde_json passes on
/// as such), and an error that no call of ours can cause. Everything else is [`Exit::Temporary`]. A
/// failed sync is temporary too, but nothing that it was to make durable counts: the next attempt
/// writes it anew, or reads what the disk holds (A4).
pub fn exit_of(cause: &io::Error) -> Exit {
    match cause.kind() {
        ErrorKind::InvalidData
        | ErrorKind::UnexpectedEof
        | ErrorKind::InvalidInput
        | ErrorKind::Unsupported => Exit::Fatal,
        _ => Exit::Temporary,
    }
}

/// Returns the problem of a file in the journal store; `title` says which operation failed. The
/// kind of the error decides whether waiting helps.
pub fn failed(code: ProblemCode, title: impl Into<String>, cause: &io::Error) -> Problem {
    Problem::new(code, title).exit(exit_of(cause)).because(cause).hint(hint_of(cause))
}

/// Returns what to do about an error of the journal store.
pub fn hint_of(cause: &io::Error) -> &'static str {
    match cause.kind() {
        _ if exit_of(cause) == Exit::Fatal => {
            "check the disk of the state directory; `transfer cancel`, and submit it again"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free space on the file system of the state directory, or of the journal; the transfer \
             then resumes"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "let the user of the daemon write to the state directory, or to the journal: check \
             owner, mode and mount; the transfer then resumes"
        }
        _ => {
            "check the disk, server or mount of the state directory, or of the journal; the \
             transfer then resumes"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A11, B4: a mount that fails for a while, a full disk, a page that another controller has
    /// just replaced or a mode that was changed end no transfer; damage does.
    #[test]
    fn what_may_pass_ends_no_transfer() {
        // EPERM, ENOENT, EIO, EAGAIN, EACCES, EBUSY, ENOSPC, EROFS, ETIMEDOUT, EHOSTDOWN, ESTALE,
        // EDQUOT, ECONNABORTED, ENOTCONN, ESHUTDOWN, of Linux.
        for errno in [1, 2, 5, 11, 13, 16, 28, 30, 110, 112, 116, 122, 103, 107, 108] {
            let problem =
                failed(ProblemCode::Journal, "cannot sync x", &io::Error::from_raw_os_error(errno));
            assert_eq!((problem.exit, problem.status), (Exit::Temporary, 503), "{problem}");
            assert!(problem.hint.ends_with("the transfer then resumes"), "{}", problem.hint);
        }
        for errno in [28, 122] {
            assert!(hint_of(&io::Error::from_raw_os_error(errno)).starts_with("free space"));
        }
        for errno in [1, 13, 30] {
            assert!(hint_of(&io::Error::from_raw_os_error(errno)).contains("owner, mode"));
        }
        let torn = serde_json::from_slice::<u32>(b"").unwrap_err();
        let other = serde_json::from_slice::<u32>(b"{}").unwrap_err();
        for damage in [torn.into(), other.into(), ErrorKind::InvalidData.into()] {
            assert_eq!(
                failed(ProblemCode::Journal, "cannot read x", &damage).exit,
                Exit::Fatal,
                "{damage}"
            );
        }
    }
}
