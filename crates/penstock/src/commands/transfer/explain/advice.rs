//! The next step for each reason of a wait, each kind of failed item and each bottleneck.

use penstock_api::bottleneck::BottleneckCode;
use penstock_api::problem::ProblemCode;

/// The next step for each code of a wait.
const WAITS: &[(&str, &str)] = &[
    ("turn", "wait, or ask an operator for a higher limit: `penstock queue show`"),
    ("share", "wait: other users are served first"),
    ("pause-rule", "ask the operator that made the hold"),
    ("window", "wait until the window opens: `penstock queue show` lists windows"),
    ("not-before", "wait, or change it: `penstock transfer set ID --not-before TIME`"),
    ("retry", "put that right; `penstock transfer retry ID` retries now"),
    ("room", "free space at the target store, or cancel the transfer"),
    ("store-offline", "mount the store; `penstock doctor` helps"),
    ("store-hung", "look at its file system on the named peer"),
    ("site-unreachable", "try `penstock doctor --pair SITE`"),
    ("no-path", "open the data port: `penstock site paths SITE`"),
    ("no-peer", "start a daemon of the site, or end a drain"),
    ("no-controller", "wait for the election: `penstock peer list`"),
    ("certificate", "renew it; `penstock doctor` names it"),
    ("drain", "wait for the drain, or undo it: `penstock peer drain --undo`"),
    ("user", "`penstock transfer resume ID` resumes it"),
    ("plan-stale", "make the plan again: `penstock transfer plan`"),
];

/// Returns the next step for a wait under a code.
pub(super) fn of_wait(code: &str) -> Option<&'static str> {
    WAITS.iter().find(|(known, _)| *known == code).map(|(_, advice)| *advice)
}

/// Returns the next step for items that failed with a code, which it begins with.
pub(super) fn of_item(code: &str) -> String {
    let advice = match code {
        "denied" => {
            "let the account that the transfer uses read the source and write the target; \
             then `penstock transfer retry ID`"
        }
        "vanished" => "these items went away during the transfer; submit it again",
        "changed" => "let the programs that write to the source end, then retry",
        "read" | "scan" => "look at the kernel log of the source's host for I/O errors",
        "write" | "publish" => "look at the target's file system, its room and its quotas",
        "digest" | "readback" => {
            "bytes differed from what was sent: check memory and disks of both hosts"
        }
        "exists" => "choose another target, or `--if-exists`",
        "link" => "the other name of these items failed, or links are not possible there",
        "delete" | "remove" => "look at the rights and the flags of these items",
        _ => "look at the messages: `penstock transfer show ID`",
    };
    format!("{code}: {advice}")
}

/// Returns the next step for a problem that ended an attempt.
pub(super) fn of_problem(code: &str) -> Option<&'static str> {
    let known = ProblemCode::TABLE.iter().flat_map(|group| group.codes);
    known.into_iter().find(|facts| facts.code == code).map(|facts| facts.advice)
}

/// Returns what would make a transfer faster that this part limits.
pub(super) fn of_bottleneck(code: BottleneckCode) -> Option<&'static str> {
    match code {
        BottleneckCode::Scan => {
            Some("listing the source limits: many small files, or a slow file system at the source")
        }
        BottleneckCode::Metadata => {
            Some("many small files limit: disks with little latency help, and more peers")
        }
        BottleneckCode::Read => {
            Some("the source's disks limit: `penstock doctor` there, or other work on them")
        }
        BottleneckCode::Cpu => Some("the processors limit: more of them, or more peers"),
        BottleneckCode::Limit => {
            Some("a limit holds it back: `penstock transfer limit ID --bwlimit none` lifts its own")
        }
        BottleneckCode::Link | BottleneckCode::NetworkOrSource => {
            Some("`penstock doctor --pair SITE` tests the network between the sites, both ways")
        }
        BottleneckCode::Compare => {
            Some("`--compare digest` reads what is at both sides; another `--compare` reads less")
        }
        BottleneckCode::FormerPeer => Some(
            "a peer that took part before may still write: `penstock peer list` shows whether it \
             is there",
        ),
        BottleneckCode::Write | BottleneckCode::Durability | BottleneckCode::Readback => {
            Some("the target's disks limit: `penstock doctor` there, or other work on them")
        }
        BottleneckCode::Grant | BottleneckCode::Several => None,
    }
}

#[cfg(test)]
mod tests {
    use penstock_api::rest::WaitingView;

    use super::*;

    /// Promise: advice exists for every code that a transfer may wait for or fail with, and names
    /// no code that problems do not have.
    #[test]
    fn codes_have_advice() {
        for (code, advice) in WAITS {
            assert!(WaitingView::words_of(code).is_some() && !advice.is_empty(), "{code}");
        }
        assert_eq!(of_wait("from-the-future"), None);
        let other = of_item("from-the-future");
        let other = other.strip_prefix("from-the-future: ").unwrap();
        for code in ["vanished", "changed", "denied", "scan", "readback", "remove", "publish"] {
            let advice = of_item(code);
            assert!(advice.starts_with(&format!("{code}: ")), "{advice}");
            assert!(!advice.ends_with(other), "{advice}");
        }
        assert!(of_problem(ProblemCode::StoreOffline.as_str()).is_some());
        assert_eq!(of_problem("from-the-future"), None);
    }
}
