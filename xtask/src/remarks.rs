//! Remarks of tests that pass: that they were skipped, or did not judge a figure.
//!
//! A test that cannot run prints a line with `SKIPPED: ` and the reason, and passes. A test that
//! ran while the machine was busy prints one with `NOT JUDGED: `. The end of a run shows both. In
//! CI a check that did not run must not look like a success. There a skipped test fails the run,
//! unless it is allowed.

use std::fmt;

/// Reasons that may skip a test on a gate: features that a gate need not have.
const MAY_LACK: [&str; 8] = [
    // Takes minutes: it is asked for.
    "PENSTOCK_TEST_SCALE",
    // Features of the kernel: newer than the oldest supported one, or not built in.
    "listxattrat",
    "kTLS",
    "netem",
    "qdisc fq",
    "Docker",
    // Features of the file systems below temporary files; the test asserts that one of two has
    // them.
    "no ACLs there",
    "needs temporary files on ext4 or XFS",
];
/// Further ones of this machine, with commas between them.
pub(crate) const MAY_LACK_TOO: &str = "PENSTOCK_TEST_MAY_LACK";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Skipped,
    NotJudged,
}

/// A test, or a part of one, that was not done.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Remark {
    kind: Kind,
    source: String,
    /// Name of the test; empty if the output was not kept apart by tests.
    test: String,
    why: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Skipped => "SKIPPED",
            Kind::NotJudged => "NOT JUDGED",
        };
        write!(to, "{kind}: {}: ", self.source)?;
        if !self.test.is_empty() {
            write!(to, "{}: ", self.test)?;
        }
        to.write_str(&self.why)
    }
}

impl Remark {
    /// Returns whether the remark fails a gate on a machine that may also lack the parts named in
    /// `too`.
    pub(crate) fn is_failure(&self, too: &str) -> bool {
        let too = too.split(',').map(str::trim).filter(|name| !name.is_empty());
        let mut may_lack = MAY_LACK.into_iter().chain(too);
        self.kind == Kind::Skipped && !may_lack.any(|name| self.why.contains(name))
    }
}

/// Returns the remarks in the output of a program's tests, which includes that of passed tests.
pub(crate) fn of(source: &str, said: &str) -> Vec<Remark> {
    let mut test = "";
    let mut remarks = Vec::new();
    for line in said.lines() {
        if let Some(named) = line.strip_prefix("---- ").and_then(|line| line.split(' ').next()) {
            test = named;
        } else if line == "successes:" || line == "failures:" {
            test = "";
        }
        // Not at the start of a line only: immediate output may follow the name of a test.
        for (kind, mark) in [(Kind::Skipped, "SKIPPED: "), (Kind::NotJudged, "NOT JUDGED: ")] {
            if let Some((_, why)) = line.split_once(mark) {
                let (source, test, why) = (source.to_owned(), test.to_owned(), why.to_owned());
                remarks.push(Remark { kind, source, test, why });
            }
        }
    }
    remarks
}

/// Returns the output without that of passed tests, which the log has.
pub(crate) fn brief(said: &str) -> String {
    let cut = || {
        let (before, shown) = said.split_once("\nsuccesses:\n")?;
        let (_, list) = shown.split_once("successes:\n    ")?;
        let (_, rest) = list.split_once("\n\n")?;
        Some(format!("{before}\n{rest}"))
    };
    cut().unwrap_or_else(|| said.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "\nrunning 3 tests\ntest a::one ... ok\ntest two ... ok\n\
        test three ... FAILED\n\nsuccesses:\n\n\
        ---- a::one stdout ----\nseed 7\nSKIPPED: there is no mfsmaster\n\n\
        ---- two stdout ----\nNOT JUDGED: 61 % of all processors were used\n\n\n\
        successes:\n    a::one\n    two\n\nfailures:\n\n---- three stdout ----\nwhy it failed\n\n\
        \nfailures:\n    three\n\ntest result: FAILED. 2 passed; 1 failed;\n";

    /// Promise: a run names the tests that have proved nothing. Without that one in which no gap
    /// was judged, or MooseFS, FUSE or etcd was missing, looks like one in which all of it held.
    #[test]
    fn what_was_not_tested_is_told_with_its_test() {
        let told: Vec<_> = of("x.rs", SAID).iter().map(Remark::to_string).collect();
        let gap = "NOT JUDGED: x.rs: two: 61 % of all processors were used";
        assert_eq!(told, ["SKIPPED: x.rs: a::one: there is no mfsmaster", gap]);
        let at_once = of("x.rs", "test one ... SKIPPED: needs root\nok\n");
        assert_eq!(at_once[0].to_string(), "SKIPPED: x.rs: needs root");
        assert_eq!(of("x.rs", "test a_test_that_is_SKIPPED ... ok\n"), []);
    }

    /// Promise: a gate fails by tests that could not run. It does not fail by features that its
    /// machine need not have, nor by tests that could not judge there.
    #[test]
    fn a_gate_fails_by_what_it_should_have_run() {
        let fails = |why: &str, too: &str| of("x.rs", why)[0].is_failure(too);
        assert!(fails("SKIPPED: there is no etcd", ""));
        assert!(fails("SKIPPED: there is no etcd", "mfsmaster, ,"));
        assert!(!fails("SKIPPED: there is no mfsmaster", "etcd, mfsmaster"));
        assert!(!fails("SKIPPED: set PENSTOCK_TEST_SCALE=1 to copy 1,000,000 files", ""));
        assert!(!fails("SKIPPED: this kernel has no kTLS", ""));
        assert!(!fails("NOT JUDGED: 61 % of all processors were used", ""));
    }

    /// Promise: the terminal shows failures, and is not flooded by successes.
    #[test]
    fn output_of_what_passed_stays_in_the_log() {
        let brief = brief(SAID);
        assert!(brief.contains("three ... FAILED\n\nfailures:\n\n---- three"), "{brief}");
        assert!(brief.ends_with("1 failed;\n") && !brief.contains("seed 7"), "{brief}");
        assert_eq!(super::brief("killed\n"), "killed\n");
    }
}
