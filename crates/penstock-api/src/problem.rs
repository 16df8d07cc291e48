//! Errors as users and programs see them: RFC 9457 problem details with a stable `code`.

mod code;
mod exit;

use serde::{Deserialize, Serialize};

pub use code::{ProblemCode, ProblemFacts, ProblemGroup, Retry};
pub use exit::Exit;

/// An error that reaches a user: what failed, why, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{title}{}{}", if detail.is_empty() { "" } else { ": " }, detail)]
pub struct Problem {
    /// The kind of the problem, for programs.
    pub code: ProblemCode,
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
    /// Returns a problem with neither detail nor hint, and the exit and HTTP status of its code.
    pub fn new(code: ProblemCode, title: impl Into<String>) -> Self {
        let facts = code.facts();
        Self {
            code,
            title: title.into(),
            detail: String::new(),
            hint: String::new(),
            exit: facts.exit,
            status: facts.status,
        }
    }

    /// Sets another exit status than that of the code, and the HTTP status that belongs to it: for
    /// codes whose cause decides whether waiting helps.
    #[must_use]
    pub fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self.status = exit.http_status();
        self
    }

    /// Sets the detail.
    #[must_use]
    pub fn because(mut self, detail: impl std::fmt::Display) -> Self {
        self.detail = detail.to_string();
        self
    }

    /// Returns the problem of a thread that cannot be started, because the host, its service
    /// manager or a container limits their number. It may pass.
    pub fn no_thread(cause: impl std::fmt::Display) -> Self {
        Self::new(ProblemCode::Threads, "cannot start a thread").because(cause).hint(
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

    /// Sets another HTTP status than that of the code, 413 for example.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }
}
