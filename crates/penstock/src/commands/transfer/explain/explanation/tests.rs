use penstock_api::bottleneck::Side;
use penstock_api::queue::{
    LimitKind, PauseRule, PauseRuleView, QueueEntry, QueueFilter, QueueLimit, QueueLimitView,
};
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::{
    Attempts, FailedItem, PathText, Pause, PeerShare, Progress, TransferReport, Waiting,
};
use penstock_proto::id::Name;

use super::*;

const NOW_MS: u64 = 1_795_342_649_000;

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn report(state: TransferState) -> TransferReport {
    TransferReport {
        id: TransferId([0x9f; 16]),
        source: "lab:raw/run7".parse().unwrap(),
        target: "hpc:scratch/".parse().unwrap(),
        options: Default::default(),
        files_from_count: 0,
        owner: None,
        label: String::new(),
        priority: None,
        not_before: None,
        urgent: false,
        deadline: None,
        state,
        waiting: None,
        reason: String::new(),
        created: NOW_MS / 1000 - 3600,
        attempts: Attempts { count: 1, ..Attempts::default() },
        progress: Progress::default(),
        exit: None,
        failures: Vec::new(),
        durable_by: String::new(),
    }
}

fn facts(report: TransferReport) -> Facts {
    Facts {
        view: TransferView::of(report, &name("hpc")),
        queue: None,
        flight: Vec::new(),
        failed: BTreeMap::new(),
        failed_is_cut: false,
        measured: Vec::new(),
        now: Timestamp::of_ms(NOW_MS),
    }
}

fn waiting(code: &str, on: &str) -> TransferReport {
    let waiting = Waiting {
        code: code.to_owned(),
        since_ms: NOW_MS - 600_000,
        until_ms: None,
        on: on.to_owned(),
        position: None,
    };
    TransferReport { waiting: Some(waiting), ..report(TransferState::Queued) }
}

fn record(kind: FlightKind, count: u64, code: &str, text: &str) -> FlightRecord {
    FlightRecord {
        at: Timestamp::of_ms(NOW_MS - 5000),
        until: None,
        count,
        attempt: 1,
        kind,
        peer: String::new(),
        code: code.to_owned(),
        pieces: 0,
        bytes: 0,
        text: text.to_owned(),
    }
}

fn evidence(of: &Explanation, about: &str) -> String {
    let found = of.evidence.iter().filter(|evidence| evidence.about == about);
    found.map(|evidence| evidence.text.as_str()).collect::<Vec<_>>().join(" | ")
}

/// Promise: a transfer that waits at a full limit says how many are before it, which these are,
/// and which limit is full.
#[test]
fn a_wait_at_a_limit_names_the_limit_and_those_ahead() {
    let mut report = waiting("turn", "lab");
    report.waiting.as_mut().unwrap().position = Some(1);
    let mut facts = facts(report);
    let entry = |id: TransferId, owner| QueueEntry {
        id,
        owner,
        label: "run 6".to_owned(),
        source: "lab:raw/run6".parse().unwrap(),
        target: "hpc:scratch/".parse().unwrap(),
        waiting: facts.view.waiting.clone().unwrap(),
        urgent: false,
        deadline: None,
        forecast_start: Some(Timestamp::of_ms(NOW_MS + 60_000)),
        forecast_end: None,
    };
    let limit = QueueLimit {
        kind: LimitKind::Pair,
        name: "lab".to_owned(),
        running: Some(2),
        rate_bits_per_s: None,
    };
    facts.queue = Some(QueueView {
        transfers: vec![
            entry(TransferId([0x2b; 16]), Some(name("anna"))),
            entry(TransferId([0x9f; 16]), None),
        ],
        limits: vec![QueueLimitView {
            limit,
            running_now: 2,
            rate_now_bits_per_s: 0,
            by_window: None,
        }],
        ..QueueView::default()
    });
    let told = explain(&facts);
    let expected = "The transfer has waited for its turn (`lab`) for 10 min. 1 transfer starts \
                    before it.";
    assert_eq!(told.summary, expected);
    assert_eq!(evidence(&told, "ahead"), "2b2b2b2b of anna [run 6]");
    assert_eq!(evidence(&told, "limit"), "pair `lab`: 2 of at most 2 run");
    assert!(evidence(&told, "forecast").starts_with("expected to start at 2026-11-22 10:18:29"));
    assert!(told.advice[0].contains("penstock queue show"), "{told:?}");
}

/// Promise: a window says until when; a hold says whose and why; a store that is offline says
/// which.
#[test]
fn windows_holds_and_stores_are_named() {
    let mut report = waiting("window", "night");
    report.waiting.as_mut().unwrap().until_ms = Some(NOW_MS + 3_600_000);
    let told = explain(&facts(report));
    assert!(told.summary.contains("its window to open (`night`)"), "{}", told.summary);
    assert!(told.summary.contains("until 2026-11-22 11:17:29 UTC"), "{}", told.summary);

    let mut held = facts(waiting("pause-rule", "upgrade"));
    let rule = PauseRule {
        name: name("upgrade"),
        filter: QueueFilter::default(),
        reason: "file system upgrade".to_owned(),
        until: None,
        by: name("olga"),
        since: Timestamp::of_ms(NOW_MS),
    };
    held.queue = Some(QueueView {
        pause_rules: vec![PauseRuleView { rule, in_force: true, holds: 1 }],
        ..QueueView::default()
    });
    let told = explain(&held);
    assert!(told.summary.contains("the end of a hold (`upgrade`)"), "{}", told.summary);
    assert_eq!(evidence(&told, "hold"), "`upgrade` by olga: file system upgrade");

    let mut offline = waiting("store-offline", "scratch");
    offline.reason = "store `scratch` is not mounted".to_owned();
    let told = explain(&facts(offline));
    assert!(told.summary.contains("a store that is offline (`scratch`)"), "{}", told.summary);
    assert_eq!(evidence(&told, "reason"), "store `scratch` is not mounted");
    assert!(told.advice[0].contains("mount"), "{told:?}");

    let told = explain(&facts(waiting("from-the-future", "")));
    assert!(told.summary.contains("waited for from-the-future"), "{}", told.summary);
}

/// Promise: a paused transfer says who paused it and how it is resumed.
#[test]
fn a_pause_names_its_user() {
    let mut paused = report(TransferState::Paused);
    paused.attempts.pause =
        Some(Pause { since_ms: NOW_MS - 120_000, by: "anna".to_owned(), until_ms: None });
    let told = explain(&facts(paused));
    assert!(told.summary.contains("paused by `anna` for 2 min"), "{}", told.summary);
    assert_eq!(told.advice, ["`penstock transfer resume 9f9f9f9f` resumes it"]);
    let pause = Pause { since_ms: NOW_MS, by: "anna".to_owned(), until_ms: Some(NOW_MS + 60_000) };
    let mut report = report(TransferState::Paused);
    report.attempts.pause = Some(pause);
    let told = explain(&facts(report));
    assert!(told.summary.contains("its progress, and resumes at "), "{}", told.summary);
}

/// Promise: a transfer at a limit says so, and which limit; the share of the time comes from the
/// recorded decisions.
#[test]
fn a_limit_is_named() {
    let mut report = report(TransferState::Running);
    report.options.limits.rate_bits_per_s = Some(50_000_000);
    report.progress.rate_bits_per_s = 49e6;
    let limit = Bottleneck::measured(BottleneckCode::Limit, None, 0.87);
    report.progress.bottleneck = Some(limit);
    let mut facts = facts(report);
    facts.flight = vec![
        record(FlightKind::Bottleneck, 90, "", &BottleneckCode::Limit.text(None)),
        record(FlightKind::Bottleneck, 10, "", &BottleneckCode::Scan.text(None)),
    ];
    let told = explain(&facts);
    let expected = "The transfer runs at 49.00 Mbit/s, limited by the limit that was set, 87 % of \
                    the time.";
    assert_eq!(told.summary, expected);
    assert_eq!(evidence(&told, "own limit"), "50.00 Mbit/s");
    let shares = "the limit that was set for 90 % of the time; the scan for 10 % of the time";
    assert_eq!(evidence(&told, "slowed by"), shares);
    assert!(told.advice[0].contains("transfer limit 9f9f9f9f --bwlimit none"), "{told:?}");
}

/// Promise: the rate is compared with what a store did when it was measured.
#[test]
fn measurements_of_stores_are_cited() {
    let mut facts = facts(report(TransferState::Running));
    let sentence = "72 % of the 381.5 MiB/s that store `data` wrote when it was measured today";
    facts.measured = vec![sentence.to_owned()];
    assert_eq!(evidence(&explain(&facts), "measured"), sentence);
}

/// Promise: a peer that is away is named with the reason and its next try.
#[test]
fn a_peer_that_is_away_is_named() {
    let mut report = report(TransferState::Running);
    report.progress.rate_bits_per_s = 8e9;
    report.progress.limit = BottleneckCode::NetworkOrSource.text(None);
    let peer = |peer: &str, state: &str| PeerShare {
        peer: peer.to_owned(),
        state: state.to_owned(),
        ..PeerShare::default()
    };
    report.progress.peers =
        vec![peer("h1", "working"), peer("h2", "out: peer `h2` is lost; next try in 5 s")];
    let told = explain(&facts(report));
    assert!(told.summary.ends_with("1 peer takes no part, and will be asked again."), "{told:?}");
    assert_eq!(evidence(&told, "peer"), "h2: out: peer `h2` is lost; next try in 5 s");
    assert!(told.advice[0].contains("penstock doctor --pair lab"), "{told:?}");
}

/// Promise: failed items are told by code and number, with an example and the next step; the
/// problem that ended the last attempt gives its advice too.
#[test]
fn a_failure_is_told_by_codes() {
    let mut report = report(TransferState::Failed);
    report.reason = "3 items failed".to_owned();
    report.progress.errors = 3;
    report.failures = vec![FailedItem {
        path: PathText(b"a/b".to_vec()),
        code: "denied".to_owned(),
        message: "cannot open: permission denied".to_owned(),
    }];
    let mut facts = facts(report);
    facts.failed = BTreeMap::from([("denied".to_owned(), 3)]);
    facts.flight = vec![record(FlightKind::AttemptEnd, 1, "some-failed", "failed")];
    let told = explain(&facts);
    assert_eq!(told.summary, "The transfer has failed: 3 items failed.");
    let expected = "3 items, denied, as `a/b`: cannot open: permission denied";
    assert_eq!(evidence(&told, "failed"), expected);
    assert!(told.advice.iter().any(|advice| advice.contains("let the account")), "{told:?}");
    assert!(told.advice.iter().any(|advice| advice.contains("retry 9f9f9f9f")), "{told:?}");
    facts.failed_is_cut = true;
    assert_eq!(evidence(&explain(&facts), "failed"), format!("at least {expected}"));
}

/// Promise: a transfer that is done says how fast it was, and what limited it.
#[test]
fn the_end_tells_the_rate_and_its_limit() {
    let mut report = report(TransferState::Done);
    let bottleneck = Bottleneck::measured(BottleneckCode::Write, Some(Side::Target), 0.7);
    report.progress = Progress {
        bottleneck: Some(bottleneck),
        bytes_verified: 1 << 30,
        bytes: 1 << 30,
        seconds: 10.0,
        rate_max_bits_per_s: 1e9,
        ..Progress::default()
    };
    let told = explain(&facts(report));
    let expected = "The transfer is done: 1.0 GiB in 10.0 s, 858.99 Mbit/s on average. Its rate \
                    was limited by writing at the target, 70 % of the time.";
    assert_eq!(told.summary, expected);
    assert!(told.advice.is_empty(), "{told:?}");
}

/// Promise: a wait between attempts says why the last one ended, and when the next one begins.
#[test]
fn a_retry_tells_why() {
    let mut report = waiting("retry", "");
    report.waiting.as_mut().unwrap().until_ms = Some(NOW_MS + 10_000);
    let mut facts = facts(report);
    let text = "queued: peer `h1` is lost; next attempt in 10 s";
    facts.flight = vec![record(FlightKind::AttemptEnd, 1, "peer-lost", text)];
    let told = explain(&facts);
    assert!(told.summary.contains("its next attempt for 10 min, until"), "{}", told.summary);
    assert!(told.summary.contains("The last one ended: peer `h1`"), "{}", told.summary);
}
