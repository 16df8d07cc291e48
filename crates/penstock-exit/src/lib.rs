//! How the program ends and what it prints: the exit codes, and the lines that explain a failure.
//!
//! All that goes to a terminal or to the log goes through here, where characters that would steer
//! a terminal or hide are escaped, whoever has chosen them. `cargo xtask verify tidy` refuses other
//! ways out.
//!
//! A command returns `anyhow::Result<ExitCode>`. Whoever knows what an error means for the user
//! puts a [`Failure`] into the chain: it carries the exit code and, where something helps, a hint.
//! An error without one ends with code 1.

#![forbid(unsafe_code)]

pub mod cause;
mod log;

pub use log::{FilteredLog, LogLayer, check_log, set_log, start_log, start_log_with};

use penstock_api::problem::ProblemCode;
use std::error::Error;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::process;

use penstock_api::problem::{Exit, Problem};
use penstock_proto::text;

/// What the exit status of `penstock` says, so that scripts can act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitCode {
    /// Every planned item was done and verified.
    Done = 0,
    /// An error of none of the other kinds.
    Unclassified = 1,
    /// The command line was wrong; nothing was begun.
    Usage = 2,
    /// Some items failed, the others were done; the failed ones are listed.
    SomeFailed = 3,
    /// A source is missing, changed or vanished.
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
    pub const ALL: [Self; 11] = [
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
    pub fn of_io(error: &io::Error) -> Self {
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
            Self::SourceChanged => "a source is missing, changed or vanished",
            Self::Temporary => "temporary failure; retry later",
            Self::Refused => "refused by a safety guard",
            Self::Fatal => "fatal failure; a retry does not help",
            Self::Integrity => "integrity failure",
            Self::NotAuthorised => "not authorised",
            Self::Interrupted => "interrupted; the message says how to resume",
        }
    }
}

impl From<ExitCode> for process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code as u8)
    }
}

/// Returns the section on exit codes that ends a command's `--help`, with their usual meanings.
pub fn help(codes: &[ExitCode]) -> String {
    let codes: Vec<_> = codes.iter().map(|code| (*code, code.meaning())).collect();
    help_of(&codes)
}

/// Returns the section on exit codes of a command that gives them meanings of its own; an empty
/// text stands for the usual one.
pub fn help_of(codes: &[(ExitCode, &str)]) -> String {
    let mut text = String::from("Exit codes:");
    for (code, own) in codes {
        let meaning = if own.is_empty() { code.meaning() } else { own };
        text.push_str(&format!("\n  {:>3}  {meaning}", *code as u8));
    }
    text
}

/// An error that knows its exit code and, where something helps, says what.
#[derive(Debug)]
pub struct Failure {
    message: String,
    exit: ExitCode,
    hint: Option<String>,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// A failure described by `message`: lower case, no full stop, paths in back-quotes.
    pub fn new(exit: ExitCode, message: impl Into<String>) -> Self {
        Self { message: message.into(), exit, hint: None, source: None }
    }

    /// A failed operation on a local path, such as "write `/x`": what could not be done, as an
    /// infinitive. The exit code follows the kind of `source`.
    pub fn io(what: impl fmt::Display, source: io::Error) -> Self {
        let message = format!("cannot {what}");
        Self::new(ExitCode::of_io(&source), message).caused_by(source)
    }

    /// A thread that cannot be started; see [`penstock_api::problem::Problem::no_thread`].
    pub fn no_thread(source: io::Error) -> Self {
        failure(Problem::no_thread(source))
    }

    /// Adds one sentence on what the user can do.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the error beneath this one.
    pub fn caused_by(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
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
pub fn finish(result: anyhow::Result<ExitCode>) -> process::ExitCode {
    let code = result.unwrap_or_else(|error| {
        let (text, code) = explain(&error);
        warn(&text);
        code
    });
    code.into()
}

/// The exit code that an error ends the program with.
pub fn code_of(error: &anyhow::Error) -> ExitCode {
    explain(error).1
}

/// The hint for the user in the chain of `error`, if there is one.
pub fn hint_of(error: &anyhow::Error) -> Option<&str> {
    let known = error.chain().find_map(|link| link.downcast_ref::<Failure>());
    known.and_then(|failure| failure.hint.as_deref())
}

/// The chain of `error` as `error:`, `cause:` and `hint:` lines, and its exit code. Further lines
/// of one link are indented: none can be taken for a line of its own.
fn explain(error: &anyhow::Error) -> (String, ExitCode) {
    let within = |text: String| text.trim_end().replace('\n', "\n       ");
    let mut text = format!("error: {}", within(error.to_string()));
    for cause in error.chain().skip(1) {
        text.push_str(&format!("\ncause: {}", within(cause.to_string())));
    }
    let known = error.chain().find_map(|link| link.downcast_ref::<Failure>());
    if let Some(hint) = known.and_then(|failure| failure.hint.as_deref()) {
        text.push_str(&format!("\nhint:  {}", within(hint.to_owned())));
    }
    (text, known.map_or(ExitCode::Unclassified, |failure| failure.exit))
}

/// A problem as this program reports it. Where the daemon is at fault, the hint names the request
/// as the daemon's log has it.
pub fn failure(problem: Problem) -> Failure {
    let mut hints = Vec::from_iter((!problem.hint.is_empty()).then(|| problem.hint.clone()));
    if let (500, Some(id)) = (problem.status, problem.request_id()) {
        hints.push(format!("the log of the daemon says more of request {id}"));
    }
    let failure = Failure::new(exit_code(problem.exit), problem.title);
    let failure = if hints.is_empty() { failure } else { failure.hint(hints.join("; ")) };
    if problem.detail.is_empty() { failure } else { failure.caused_by(problem.detail) }
}

/// An error of this program as the other end is told it.
pub fn problem_of(error: &anyhow::Error) -> Problem {
    let exit = match code_of(error) {
        ExitCode::Done => Exit::Done,
        ExitCode::Unclassified => Exit::Unclassified,
        ExitCode::Usage => Exit::Usage,
        ExitCode::SomeFailed => Exit::SomeFailed,
        ExitCode::SourceChanged => Exit::SourceChanged,
        ExitCode::Temporary => Exit::Temporary,
        ExitCode::Refused => Exit::Refused,
        ExitCode::Fatal => Exit::Fatal,
        ExitCode::Integrity => Exit::Integrity,
        ExitCode::NotAuthorised => Exit::NotAuthorised,
        ExitCode::Interrupted => Exit::Interrupted,
    };
    let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
    Problem::new(ProblemCode::Ssh, error.to_string())
        .exit(exit)
        .because(causes.join(": "))
        .hint(hint_of(error).unwrap_or_default())
}

/// The exit code of a problem or a transfer.
pub fn exit_code(exit: Exit) -> ExitCode {
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
pub fn chain(error: &dyn Error) -> String {
    let (mut text, mut source) = (error.to_string(), error.source());
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

/// Writes lines of talk to standard error; a closed standard error is no reason to stop.
pub fn warn(text: &str) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(io::stderr().lock(), "{}", text::lines(text));
}

/// Writes a prompt to standard error, where the user answers behind it.
pub fn prompt(text: &str) {
    let mut out = io::stderr().lock();
    // A terminal that takes no prompt may still give the answer.
    let _ = write!(out, "{}", text::line(text)).and_then(|()| out.flush());
}

/// Writes lines of data to standard output. A reader that has gone away, as in `| head`, has all
/// it wants: that is no error.
///
/// # Errors
/// Standard output cannot be written for another reason, such as a full disk.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{}", text::lines(text)).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::io("write to standard output", error))
        }
        _ => Ok(()),
    }
}

/// Standard output for many lines of data.
pub fn output() -> Shown<BufWriter<io::StdoutLock<'static>>> {
    Shown::new(BufWriter::new(io::stdout().lock()), "")
}

/// Longest line that [`Shown`] keeps until it is complete; a longer one is passed on in parts.
const SHOWN_BYTES_MAX: usize = 64 << 10;

/// Passes text on line by line, each escaped as [`print()`] does it, behind a mark. What is not
/// UTF-8 is replaced.
pub struct Shown<W: Write> {
    out: W,
    mark: &'static str,
    line: Vec<u8>,
}

impl<W: Write> Shown<W> {
    /// Writes to `out`, with `mark` before each line.
    pub fn new(out: W, mark: &'static str) -> Self {
        Self { out, mark, line: Vec::new() }
    }

    fn pass_on(&mut self) -> io::Result<()> {
        let line = String::from_utf8_lossy(&self.line);
        let line = line.strip_suffix('\r').unwrap_or(&line);
        writeln!(self.out, "{}{}", self.mark, text::line(line))?;
        self.line.clear();
        Ok(())
    }
}

impl<W: Write> Write for Shown<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = SHOWN_BYTES_MAX - self.line.len();
        let end = bytes.iter().take(room).position(|&byte| byte == b'\n');
        let count = end.unwrap_or(bytes.len().min(room));
        self.line.extend_from_slice(&bytes[..count]);
        if end.is_some() || self.line.len() >= SHOWN_BYTES_MAX {
            self.pass_on()?;
        }
        Ok(count + usize::from(end.is_some()))
    }

    /// Also passes on a line that has no end yet.
    fn flush(&mut self) -> io::Result<()> {
        if !self.line.is_empty() {
            self.pass_on()?;
        }
        self.out.flush()
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

    /// What would be seen of `text` as a line of an error.
    fn told(text: &str) -> String {
        let failure = Failure::new(ExitCode::Fatal, text).hint(text);
        text::lines(&explain(&anyhow::Error::from(failure)).0).into_owned()
    }

    /// Promise: a text from afar forges no line of an error, and steers no terminal.
    #[test]
    fn no_text_forges_a_line() {
        let told = told("x\nerror: y\nhint:  z\x1b[2J\u{202e}\u{9b}1m");
        let begins = told.lines().map(|line| line.get(..6).unwrap_or_default());
        assert_eq!(begins.filter(|begin| !begin.trim().is_empty()).count(), 2, "{told}");
        assert!(told.chars().all(|one| one == '\n' || text::is_shown(one)), "{told}");
    }

    /// Promise: lines that are passed on are marked and escaped, wherever a write ends.
    #[test]
    fn lines_are_kept_apart() {
        let text = "ok\r\nerror: f\u{fc}r \x1b]0;x\x07\nend".as_bytes();
        for at in 0..text.len() {
            let mut out = Vec::new();
            let mut shown = Shown::new(&mut out, "ssh: ");
            shown.write_all(&text[..at]).unwrap();
            shown.write_all(&text[at..]).unwrap();
            shown.flush().unwrap();
            let lines = "ssh: ok\nssh: error: f\u{fc}r \\u001b]0;x\\u0007\nssh: end\n";
            assert_eq!(String::from_utf8(out).unwrap(), lines);
        }
    }
}
