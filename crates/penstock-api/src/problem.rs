//! Errors as users and programs see them: RFC 9457 problem details with a stable `code`.

use serde::{Deserialize, Serialize};

/// Exit status of a command. The numbers are part of the interface (README, *Watch and steer*).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// 0: every planned item is verified.
    Done,
    /// 1: unclassified.
    Unclassified,
    /// 2: the command line or configuration is wrong.
    Usage,
    /// 3: some items failed; a list of them was written.
    SomeFailed,
    /// 4: a source changed or vanished.
    SourceChanged,
    /// 5: temporary, a retry may help.
    Temporary,
    /// 6: refused by a safety guard.
    Refused,
    /// 7: fatal, a retry will not help.
    Fatal,
    /// 8: integrity failure.
    Integrity,
    /// 12: not authorised.
    NotAuthorised,
    /// 130: interrupted.
    Interrupted,
}

impl Exit {
    /// Returns the process exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Unclassified => 1,
            Self::Usage => 2,
            Self::SomeFailed => 3,
            Self::SourceChanged => 4,
            Self::Temporary => 5,
            Self::Refused => 6,
            Self::Fatal => 7,
            Self::Integrity => 8,
            Self::NotAuthorised => 12,
            Self::Interrupted => 130,
        }
    }
}

/// An error that reaches a user: what failed, why, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{title}{}{}", if detail.is_empty() { "" } else { ": " }, detail)]
pub struct Problem {
    /// Stable, for programs: `store-unknown`, `overlap`, `not-authorised`, …
    #[serde(deserialize_with = "crate::text::field")]
    pub code: String,
    /// Operation that failed and its subject, in one line.
    #[serde(deserialize_with = "crate::text::field")]
    pub title: String,
    /// Reason; the chain of causes in one line. May be empty.
    #[serde(default)]
    #[serde(deserialize_with = "crate::text::field")]
    pub detail: String,
    /// Next step for the user. May be empty.
    #[serde(default)]
    #[serde(deserialize_with = "crate::text::field")]
    pub hint: String,
    /// Exit status of a command that meets this problem.
    pub exit: Exit,
    /// HTTP status.
    pub status: u16,
}

impl Problem {
    /// Returns a problem with neither detail nor hint; the status follows from the exit code.
    pub fn new(exit: Exit, code: &str, title: impl Into<String>) -> Self {
        let status = match exit {
            Exit::Usage => 400,
            Exit::NotAuthorised => 403,
            Exit::Refused => 409,
            Exit::Temporary => 503,
            _ => 500,
        };
        Self {
            code: code.to_owned(),
            title: title.into(),
            detail: String::new(),
            hint: String::new(),
            exit,
            status,
        }
    }

    /// Sets the detail.
    #[must_use]
    pub fn because(mut self, detail: impl std::fmt::Display) -> Self {
        self.detail = detail.to_string();
        self
    }

    /// The code of [`Problem::no_thread`].
    pub const NO_THREAD: &str = "threads";

    /// Returns the problem of a thread that cannot be started, because the host, its service
    /// manager or a container limits their number. It may pass.
    pub fn no_thread(cause: impl std::fmt::Display) -> Self {
        Self::new(Exit::Temporary, Self::NO_THREAD, "cannot start a thread").because(cause).hint(
            "raise the limit of processes and threads (`ulimit -u`, `TasksMax`, `pids.max`), or \
             end other programs",
        )
    }

    /// Sets the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Sets another HTTP status, 404 for example.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }
}
