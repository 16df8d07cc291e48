//! What tests that pass say of themselves: that they were skipped, or did not judge something.
//!
//! A test that cannot run prints a line with `SKIPPED: ` and why, and passes; one that ran, and
//! whose time was not its own, prints one with `NOT JUDGED: `. Both are told at the end of a run.
//! In CI a check that does not run must not look like one that passed: there what is skipped has
//! failed, unless it may be.

use std::fmt;

/// Names in its reason whatever no test of a gate may count on.
const MAY_LACK: [&str; 8] = [
    // Takes minutes: it is asked for.
    "PENSTOCK_TEST_SCALE",
    // Of the kernel: newer than what is supported, or not built into it.
    "listxattrat",
    "kTLS",
    "netem",
    "qdisc fq",
    "Docker",
    // Of the file systems below temporary files; the test asserts that one of two has them.
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

/// One thing that was not tested.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Remark {
    kind: Kind,
    source: String,
    /// Empty where what was printed was not kept apart by tests.
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
    /// Whether it fails a gate on a machine that may lack what `too` names as well.
    pub(crate) fn is_failure(&self, too: &str) -> bool {
        let too = too.split(',').map(str::trim).filter(|name| !name.is_empty());
        let mut may_lack = MAY_LACK.into_iter().chain(too);
        self.kind == Kind::Skipped && !may_lack.any(|name| self.why.contains(name))
    }
}

/// What the tests of a program have said, which shows the output of those that passed too.
pub(crate) fn of(source: &str, said: &str) -> Vec<Remark> {
    let mut test = "";
    let mut remarks = Vec::new();
    for line in said.lines() {
        if let Some(named) = line.strip_prefix("---- ").and_then(|line| line.split(' ').next()) {
            test = named;
        } else if line == "successes:" || line == "failures:" {
            test = "";
        }
        // Not at the start of a line only: what is printed at once may follow the name of a test.
        for (kind, mark) in [(Kind::Skipped, "SKIPPED: "), (Kind::NotJudged, "NOT JUDGED: ")] {
            if let Some((_, why)) = line.split_once(mark) {
                let (source, test, why) = (source.to_owned(), test.to_owned(), why.to_owned());
                remarks.push(Remark { kind, source, test, why });
            }
        }
    }
    remarks
}

/// The same without the output of tests that passed, which the log has.
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

    /// Promise: a run says which tests have proved nothing. Without that one in which no gap was
    /// judged, or MooseFS, FUSE or etcd was missing, looks like one in which all of it held.
    #[test]
    fn what_was_not_tested_is_told_with_its_test() {
        let told: Vec<_> = of("x.rs", SAID).iter().map(Remark::to_string).collect();
        let gap = "NOT JUDGED: x.rs: two: 61 % of all processors were used";
        assert_eq!(told, ["SKIPPED: x.rs: a::one: there is no mfsmaster", gap]);
        let at_once = of("x.rs", "test one ... SKIPPED: needs root\nok\n");
        assert_eq!(at_once[0].to_string(), "SKIPPED: x.rs: needs root");
        assert_eq!(of("x.rs", "test a_test_that_is_SKIPPED ... ok\n"), []);
    }

    /// Promise: a gate fails by what could not run, and not by what its machine need not have, nor
    /// by what could not be judged there.
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

    /// Promise: the terminal shows what failed, and is not flooded by what did not.
    #[test]
    fn output_of_what_passed_stays_in_the_log() {
        let brief = brief(SAID);
        assert!(brief.contains("three ... FAILED\n\nfailures:\n\n---- three"), "{brief}");
        assert!(brief.ends_with("1 failed;\n") && !brief.contains("seed 7"), "{brief}");
        assert_eq!(super::brief("killed\n"), "killed\n");
    }
}
