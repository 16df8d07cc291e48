//! How checks ended, for people and as JUnit XML.

use std::fmt::Write as _;
use std::time::Duration;

/// The end of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The promise was kept; with what was seen.
    Pass(String),
    /// The promise was broken; with what was seen.
    Fail(String),
    /// The check cannot be run here; with the reason.
    NotRun(String),
}

impl Outcome {
    /// Returns the word and the text of it.
    pub(super) fn parts(&self) -> (&'static str, &str) {
        match self {
            Self::Pass(text) => ("PASS", text),
            Self::Fail(text) => ("FAIL", text),
            Self::NotRun(text) => ("NOT RUN", text),
        }
    }
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

/// Returns checks as JUnit XML, as test servers read it (the schema of Jenkins' xunit plugin).
pub(super) fn junit(site: &str, ended: &[Ended]) -> String {
    let count = |is: fn(&Outcome) -> bool| ended.iter().filter(|it| is(&it.outcome)).count();
    let failures = count(|outcome| matches!(outcome, Outcome::Fail(_)));
    let skipped = count(|outcome| matches!(outcome, Outcome::NotRun(_)));
    let mut text = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "<testsuite name=\"penstock selftest of {}\" tests=\"{}\" failures=\"{failures}\" \
         skipped=\"{skipped}\">",
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

    /// Promise: each end is what a test server takes it for, whatever characters a reason has.
    #[test]
    fn junit_has_all_ends() {
        let ended = |outcome| Ended {
            name: "flipped-bit",
            promise: "(c) <verified>",
            outcome,
            took: Duration::from_millis(1500),
        };
        let text = junit(
            "a",
            &[
                ended(Outcome::Pass("1 file".to_owned())),
                ended(Outcome::Fail("`x` & \"y\"\n\u{1}".to_owned())),
                ended(Outcome::NotRun("no --kill".to_owned())),
            ],
        );
        for part in [
            "tests=\"3\" failures=\"1\" skipped=\"1\"",
            "classname=\"(c) &lt;verified&gt;\" time=\"1.500\"><system-out>1 file</system-out>",
            "<failure message=\"`x` &amp; &quot;y&quot; \u{fffd}\"/>",
            "<skipped message=\"no --kill\"/>",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
