//! How checks ended, for people and as JUnit XML.

use std::fmt::Write as _;
use std::time::Duration;

use penstock_exit::{ExitCode, Failure};

/// A promise that a check has seen broken. Any other error of a check says nothing of the promise.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Broken(pub(super) String);

/// The end of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The promise was kept; with what was seen.
    Pass(String),
    /// The promise was broken; with what was seen.
    Fail(String),
    /// The check cannot be run here; with the reason.
    NotRun(String),
    /// The check has not come to its end, and nothing is known of the promise; with the reason.
    Error(String),
}

impl Outcome {
    /// Returns how a check has ended that was run.
    pub(super) fn of(ended: anyhow::Result<Self>) -> Self {
        ended.unwrap_or_else(|error| match error.downcast::<Broken>() {
            Ok(Broken(text)) => Self::Fail(text),
            Err(error) => Self::Error(format!("{error:#}")),
        })
    }

    /// Returns the word and the text of it.
    pub(super) fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Pass(text) => ("PASS", text),
            Self::Fail(text) => ("FAIL", text),
            Self::NotRun(text) => ("NOT RUN", text),
            Self::Error(text) => ("ERROR", text),
        }
    }
}

/// Returns that the promise was kept.
pub(super) fn passed(text: impl Into<String>) -> anyhow::Result<Outcome> {
    Ok(Outcome::Pass(text.into()))
}

/// Returns that the check cannot be run here.
pub(super) fn not_run(text: impl Into<String>) -> anyhow::Result<Outcome> {
    Ok(Outcome::NotRun(text.into()))
}

/// Returns that the promise was seen broken.
pub(super) fn broken<T>(text: impl Into<String>) -> anyhow::Result<T> {
    Err(Broken(text.into()).into())
}

/// Returns an error that says nothing of the promise.
pub(super) fn unknown<T>(text: impl Into<String>) -> anyhow::Result<T> {
    Err(Failure::new(ExitCode::Temporary, text).into())
}

/// A check that has ended.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    /// Its name.
    pub(super) name: &'static str,
    /// The promise.
    pub(super) promise: &'static str,
    /// How it ended.
    pub(super) outcome: Outcome,
    /// Its time.
    pub(super) took: Duration,
}

impl Ended {
    /// Returns it as a line for people.
    pub(super) fn line(&self) -> String {
        let (word, text) = self.outcome.parts();
        format!("{word:<7}  {:<17} {}: {text}", self.name, self.promise)
    }
}

/// Returns the exit code of a selftest: it is [`ExitCode::Done`] only where a promise was tried,
/// and every one that was tried was kept.
pub(super) fn exit_code(ended: &[Ended]) -> ExitCode {
    let has = |is: fn(&Outcome) -> bool| ended.iter().any(|it| is(&it.outcome));
    if has(|outcome| matches!(outcome, Outcome::Fail(_))) {
        ExitCode::SomeFailed
    } else if has(|outcome| matches!(outcome, Outcome::Error(_))) {
        ExitCode::Unclassified
    } else if has(|outcome| matches!(outcome, Outcome::Pass(_))) {
        ExitCode::Done
    } else {
        ExitCode::Unclassified
    }
}

/// Returns checks as JUnit XML, as test servers read it (the schema of Jenkins' xunit plugin).
pub(super) fn junit(site: &str, ended: &[Ended]) -> String {
    let count = |is: fn(&Outcome) -> bool| ended.iter().filter(|it| is(&it.outcome)).count();
    let failures = count(|outcome| matches!(outcome, Outcome::Fail(_)));
    let skipped = count(|outcome| matches!(outcome, Outcome::NotRun(_)));
    let errors = count(|outcome| matches!(outcome, Outcome::Error(_)));
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "<testsuite name=\"penstock selftest of {}\" tests=\"{}\" failures=\"{failures}\" \
         errors=\"{errors}\" skipped=\"{skipped}\">",
        escaped(site),
        ended.len()
    );
    for it in ended {
        let (name, promise, seconds) = (it.name, escaped(it.promise), it.took.as_secs_f64());
        let (_, why) = it.outcome.parts();
        let why = escaped(why);
        let inner = match it.outcome {
            Outcome::Pass(_) => format!("<system-out>{why}</system-out>"),
            Outcome::Fail(_) => format!("<failure message=\"{why}\"/>"),
            Outcome::NotRun(_) => format!("<skipped message=\"{why}\"/>"),
            Outcome::Error(_) => format!("<error message=\"{why}\"/>"),
        };
        let _ = writeln!(
            text,
            "  <testcase name=\"{name}\" classname=\"{promise}\" time=\"{seconds:.3}\">{inner}\
             </testcase>"
        );
    }
    text.push_str("</testsuite>\n");
    text
}

/// Returns a text as it stands in XML 1.0, which has no control characters but white space.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\r' | '\t' => out.push(' '),
            letter if letter.is_control() => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(outcome: Outcome) -> Ended {
        let (name, promise) = ("flipped-bit", "(c) <verified>");
        Ended { name, promise, outcome, took: Duration::from_millis(1500) }
    }

    fn word(text: &str) -> String {
        text.to_owned()
    }

    /// Promise: each end is what a test server takes it for, whatever characters a reason has.
    #[test]
    fn junit_has_all_ends() {
        let text = junit(
            "a",
            &[
                ended(Outcome::Pass(word("1 file"))),
                ended(Outcome::Fail(word("`x` & \"y\"\n\u{1}"))),
                ended(Outcome::NotRun(word("no --kill"))),
                ended(Outcome::Error(word("no daemon"))),
            ],
        );
        for part in [
            "tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\"",
            "classname=\"(c) &lt;verified&gt;\" time=\"1.500\"><system-out>1 file</system-out>",
            "<failure message=\"`x` &amp; &quot;y&quot; \u{fffd}\"/>",
            "<skipped message=\"no --kill\"/>",
            "<error message=\"no daemon\"/>",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }

    /// Promise: only a broken promise is a failure. A selftest that could not end a check, or that
    /// tried nothing, does not end as one that has found all in order.
    #[test]
    fn an_error_is_no_broken_promise() {
        let broken = Outcome::of(Err(Broken(word("a byte differs")).into()));
        assert_eq!(broken, Outcome::Fail(word("a byte differs")));
        let lost = Outcome::of(Err(anyhow::anyhow!("no answer").context("the daemon is lost")));
        assert_eq!(lost, Outcome::Error(word("the daemon is lost: no answer")));
        let code = |outcomes: &[&Outcome]| {
            let ended: Vec<_> = outcomes.iter().map(|it| ended(Outcome::clone(it))).collect();
            exit_code(&ended)
        };
        let (kept, skipped) = (Outcome::Pass(word("kept")), Outcome::NotRun(word("too large")));
        assert_eq!(code(&[&kept, &skipped]), ExitCode::Done);
        assert_eq!(code(&[&skipped]), ExitCode::Unclassified);
        assert_eq!(code(&[&kept, &lost]), ExitCode::Unclassified);
        assert_eq!(code(&[&lost, &broken, &kept]), ExitCode::SomeFailed);
    }
}
