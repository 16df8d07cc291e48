//! A problem, as parts of the program, peers and sites pass it to each other.

use serde::{Deserialize, Serialize};

use super::code::ProblemCode;
use super::context::{FieldFault, ObjectKind, ObjectRef, ProblemContext};
use super::exit::Exit;
use crate::options::deadline::DeadlineOutlook;

/// An error that reaches a user: what failed, why, and what to do next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
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
    /// The faulty fields of the request, the object, and the request itself, where one is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<ProblemContext>>,
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
            context: None,
        }
    }

    /// Sets another exit status than that of the code, for codes whose cause decides whether
    /// waiting helps. The HTTP status is 503 if it does. It stays that of the code if it does not,
    /// unless the code means a passing fault.
    #[must_use]
    pub fn exit(mut self, exit: Exit) -> Self {
        let facts = self.code.facts();
        self.exit = exit;
        self.status = match exit {
            _ if exit == facts.exit => facts.status,
            Exit::Temporary => exit.http_status(),
            _ if facts.status == Exit::Temporary.http_status() => exit.http_status(),
            _ => facts.status,
        };
        self
    }

    /// Adds a field of the request that is at fault. The pointer names it in the body, as in
    /// `/options/lanes` (RFC 6901). Its detail is the title of the problem.
    #[must_use]
    pub fn at(self, pointer: impl Into<String>) -> Self {
        let detail = self.title.clone();
        let fault =
            FieldFault { pointer: pointer.into(), code: self.code.as_str().to_owned(), detail };
        self.with_fault(fault)
    }

    /// Adds a field of the request that is at fault.
    #[must_use]
    pub fn with_fault(mut self, fault: FieldFault) -> Self {
        self.context.get_or_insert_default().errors.push(fault);
        self
    }

    /// Names the object that the problem is about.
    #[must_use]
    pub fn about(mut self, kind: ObjectKind, name: impl std::fmt::Display) -> Self {
        let object = ObjectRef { kind, name: name.to_string() };
        self.context.get_or_insert_default().object = Some(object);
        self
    }

    /// Adds the figures of a deadline that cannot be promised.
    #[must_use]
    pub fn with_deadline(mut self, outlook: DeadlineOutlook) -> Self {
        self.context.get_or_insert_default().deadline = Some(outlook);
        self
    }

    /// Returns the figures of a deadline that cannot be promised.
    pub fn deadline(&self) -> Option<&DeadlineOutlook> {
        self.context.as_ref()?.deadline.as_ref()
    }

    /// Sets the least time after which the same request may be sent again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.context.get_or_insert_default().retry_after_s = Some(seconds);
        self
    }

    /// Returns the id of the request whose answer carried the problem, if that is known.
    pub fn request_id(&self) -> Option<&str> {
        self.context.as_ref()?.request_id.as_deref()
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
