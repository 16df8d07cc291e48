//! How the program ends: the exit codes, and the lines on standard error that explain a failure.
//!
//! A command returns `anyhow::Result<ExitCode>`. Whoever knows what an error means for the user
//! puts a [`Failure`] into the chain: it carries the exit code and, where something helps, a hint.
//! An error without one ends with code 1.

use penstock_api::problem::{Exit, Problem};
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process;

/// What the exit status of `penstock` says, so that scripts can act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ExitCode {
    /// Every planned item was done and verified.
    Done = 0,
    /// An error of none of the other kinds.
    Unclassified = 1,
    /// The command line was wrong; nothing was begun.
    Usage = 2,
    /// Some items failed, the others were done; the failed ones are listed.
    SomeFailed = 3,
    /// A source changed or vanished.
    SourceChanged = 4,
    /// A failure that may pass.
    Temporary = 5,
    /// A guard refused, to protect data.
    Refused = 6,
    /// A failure that trying again will not cure.
    Fatal = 7,
    /// Bytes were not what their digest says.
    Integrity = 8,
    /// The other side does not allow it.
    NotAuthorised = 12,
    /// Interrupted by a signal; how to go on was printed.
    Interrupted = 130,
}

impl ExitCode {
    /// Every code, in ascending order.
    pub(crate) const ALL: [Self; 11] = [
        Self::Done,
        Self::Unclassified,
        Self::Usage,
        Self::SomeFailed,
        Self::SourceChanged,
        Self::Temporary,
        Self::Refused,
        Self::Fatal,
        Self::Integrity,
        Self::NotAuthorised,
        Self::Interrupted,
    ];

    /// The code that suits an error of the operating system on a local path.
    pub(crate) fn of_io(error: &io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::NotFound
            | Kind::PermissionDenied
            | Kind::StorageFull
            | Kind::QuotaExceeded
            | Kind::ReadOnlyFilesystem
            | Kind::NotADirectory
            | Kind::IsADirectory
            | Kind::FileTooLarge
            | Kind::InvalidFilename => Self::Fatal,
            Kind::Interrupted | Kind::TimedOut | Kind::ResourceBusy => Self::Temporary,
            _ => Self::Unclassified,
        }
    }

    fn meaning(self) -> &'static str {
        match self {
            Self::Done => "every planned item done and verified",
            Self::Unclassified => "an error of no other kind",
            Self::Usage => "wrong command line",
            Self::SomeFailed => "some items failed; they are listed",
            Self::SourceChanged => "a source changed or vanished",
            Self::Temporary => "a failure that may pass; try again",
            Self::Refused => "refused by a safety guard",
            Self::Fatal => "fatal; trying again will not help",
            Self::Integrity => "integrity failure",
            Self::NotAuthorised => "not authorised",
            Self::Interrupted => "interrupted; how to go on is printed",
        }
    }
}

impl From<ExitCode> for process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

/// The section on exit codes that ends a command's `--help`.
pub(crate) fn help(codes: &[ExitCode]) -> String {
    let mut text = String::from("Exit codes:");
    for &code in codes {
        text.push_str(&format!("\n  {:>3}  {}", code as u8, code.meaning()));
    }
    text
}

/// An error that knows its exit code and, where something helps, says what.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    exit: ExitCode,
    hint: Option<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// A failure described by `message`: lower case, no full stop, paths in back-quotes.
    pub(crate) fn new(exit: ExitCode, message: impl Into<String>) -> Self {
        Self { message: message.into(), exit, hint: None, source: None }
    }

    /// A failed operation on a local path, such as "write `/x`": what could not be done, as an
    /// infinitive. The exit code follows the kind of `source`.
    pub(crate) fn io(what: impl fmt::Display, source: io::Error) -> Self {
        let message = format!("cannot {what}");
        Self::new(ExitCode::of_io(&source), message).caused_by(source)
    }

    /// A thread that cannot be started; see [`penstock_api::problem::Problem::no_thread`].
    pub(crate) fn no_thread(source: io::Error) -> Self {
        failure(Problem::no_thread(source))
    }

    /// Adds one sentence on what the user can do.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the error beneath this one.
    pub(crate) fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}

/// Prints the error of `result`, if it is one, and gives the status to end the process with.
pub(crate) fn finish(result: anyhow::Result<ExitCode>) -> process::ExitCode {
    let code = result.unwrap_or_else(|error| {
        let (text, code) = explain(&error);
        warn(&text);
        code
    });
    code.into()
}

/// The exit code that an error ends the program with.
pub(crate) fn code_of(error: &anyhow::Error) -> ExitCode {
    explain(error).1
}

/// The hint for the user in the chain of `error`, if there is one.
pub(crate) fn hint_of(error: &anyhow::Error) -> Option<&str> {
    let known = error.chain().find_map(|link| link.downcast_ref::<Failure>());
    known.and_then(|failure| failure.hint.as_deref())
}

/// The chain of `error` as `error:`, `cause:` and `hint:` lines, and its exit code.
fn explain(error: &anyhow::Error) -> (String, ExitCode) {
    let mut text = format!("error: {error}");
    for cause in error.chain().skip(1) {
        text.push_str(&format!("\ncause: {cause}"));
    }
    let known = error.chain().find_map(|link| link.downcast_ref::<Failure>());
    if let Some(hint) = known.and_then(|failure| failure.hint.as_deref()) {
        text.push_str(&format!("\nhint:  {hint}"));
    }
    (text, known.map_or(ExitCode::Unclassified, |failure| failure.exit))
}

/// A problem as this program reports it.
pub(crate) fn failure(problem: Problem) -> Failure {
    let failure = Failure::new(exit_code(problem.exit), problem.title);
    let failure = if problem.hint.is_empty() { failure } else { failure.hint(problem.hint) };
    if problem.detail.is_empty() { failure } else { failure.caused_by(problem.detail) }
}

/// The exit code of a problem or a transfer.
pub(crate) fn exit_code(exit: Exit) -> ExitCode {
    match exit {
        Exit::Done => ExitCode::Done,
        Exit::Unclassified => ExitCode::Unclassified,
        Exit::Usage => ExitCode::Usage,
        Exit::SomeFailed => ExitCode::SomeFailed,
        Exit::SourceChanged => ExitCode::SourceChanged,
        Exit::Temporary => ExitCode::Temporary,
        Exit::Refused => ExitCode::Refused,
        Exit::Fatal => ExitCode::Fatal,
        Exit::Integrity => ExitCode::Integrity,
        Exit::NotAuthorised => ExitCode::NotAuthorised,
        Exit::Interrupted => ExitCode::Interrupted,
    }
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

/// Writes lines of talk to standard error; a closed standard error is no reason to stop.
pub(crate) fn warn(text: &str) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Writes lines of data to standard output. A reader that has gone away, as in `| head`, has all
/// it wants: that is no error.
///
/// # Errors
/// Standard output cannot be written for another reason, such as a full disk.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::io("write to standard output", error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: an error is told once per link of its chain, with the hint and the exit code of
    /// the failure in it, however deep the failure sits.
    #[test]
    fn a_chain_is_explained_line_by_line() {
        let beneath = io::Error::from(io::ErrorKind::StorageFull);
        let failure = Failure::io("write `/x`", beneath).hint("free some space");
        let error = anyhow::Error::from(failure).context("cannot make the data set");
        let (text, code) = explain(&error);
        assert_eq!(
            text,
            "error: cannot make the data set\ncause: cannot write `/x`\ncause: no storage space\n\
             hint:  free some space"
        );
        assert_eq!(code, ExitCode::Fatal);
    }

    /// Promise: an error that nobody classified ends with code 1.
    #[test]
    fn an_unknown_error_ends_with_one() {
        let (text, code) = explain(&anyhow::anyhow!("odd"));
        assert_eq!((text.as_str(), code), ("error: odd", ExitCode::Unclassified));
    }
}
