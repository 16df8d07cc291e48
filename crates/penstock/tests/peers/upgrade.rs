//! Hosts are upgraded one at a time while transfers run: daemons of this version and of the next
//! one work together, with a real etcd. The next version is this program with an option that only
//! builds with debug assertions have; it speaks one version more of everything, and cuts pages
//! otherwise.
//! Needs no privileges; skips, loudly, where etcd is not installed.

use std::fs;
use std::path::{Path, PathBuf};

use penstock_testkit::{
    Etcd, Scratch, Site, assert_same_files, make_set, seed, told, verified_at_least,
};
use serde_json::Value;

const MIB: u64 = 1 << 20;
const NEXT: &[&str] = &["--next-version"];

/// Ends a daemon in order and starts the next version in its place, at another port.
fn upgrade(site: &mut Site) {
    site.stop();
    site.start_with(NEXT);
}

/// Which way of cutting the pages of a journal have: a number behind magic, transfer, page number
/// and round (docs/protocol.md, 7.1).
fn slicers(journal: &Path, id: &str) -> Vec<u16> {
    let pages = fs::read_dir(journal.join(id).join("pages")).unwrap();
    let pages = pages.map(|page| page.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|end| end == "page"));
    let version = |path: PathBuf| {
        let page = fs::read(path).unwrap();
        u16::from_le_bytes([page[29], page[30]])
    };
    pages.map(version).collect()
}

fn knows_next(status: &Value, peer: &str) -> bool {
    let cards = status["cluster"]["peers"].as_array().cloned().unwrap_or_default();
    cards.iter().any(|card| card["peer"] == peer && card["formats"] == "1-2")
        && !status["cluster"]["leader"].is_null()
}

/// Issue 5 (9), A10: the three hosts of a site are upgraded one by one while a transfer runs, then
/// the other site while the next one runs: each goes on, no page is cut anew, and what is new is
/// used once all know it. A host that was left behind then takes no part, and says why.
#[test]
fn a10_hosts_are_upgraded_one_at_a_time_while_transfers_run() {
    let root = Scratch::in_memory();
    let Some(etcd) = Etcd::start(root.path(), 1) else { return };
    let mut h1 = Site::first_peer(root.path(), "hpc", &etcd);
    let mut h2 = h1.join(root.path(), "h2");
    let mut h3 = h1.join(root.path(), "h3");
    let mut lab = Site::init(root.path(), "lab", None);
    let address = lab.start().to_string();
    lab.pair(&h2);
    let journal = root.path().join("journal-hpc").join("journal");
    let seed = seed();
    for (number, set) in ["one", "two", "three", "four"].into_iter().enumerate() {
        make_set(&lab.store.join(set), 24, 300, seed.wrapping_add(number as u64));
    }
    let same =
        |set: &str, at: &Site| assert_same_files(&lab_set(root.path(), set), &at.store.join(set));

    // The controller's host is neither the first nor the last one.
    let first = submit(&h2, "one");
    h2.watch(&first).until(verified_at_least(2 * MIB));
    upgrade(&mut h3);
    h3.status_until(|status| knows_next(status, "h3"));
    upgrade(&mut h1);
    h1.status_until(|status| knows_next(status, "h1"));
    assert_eq!(h3.show(&first)["state"], "running", "it is too fast for this test");
    upgrade(&mut h2);
    let status = h2.status_until(|status| knows_next(status, "h2"));
    assert_eq!(status["cluster"]["format"], 1, "no host can have settled: {status}");
    h2.watch(&first).until(verified_at_least(4 * MIB));
    assert!(slicers(&journal, &first).iter().all(|version| *version == 1));
    h3.wait_done(&first);
    same("one", &h3);

    // All hosts of this site know it; the other site does not.
    h1.status_until(|status| status["cluster"]["format"] == 2);
    let second = submit(&h1, "two");
    h1.watch(&second).until(verified_at_least(2 * MIB));
    lab.stop();
    lab.start_with(&[NEXT, &["--listen", &address]].concat());
    h1.watch(&second).until(verified_at_least(4 * MIB));
    assert!(slicers(&journal, &second).iter().all(|version| *version == 1));
    h1.wait_done(&second);
    same("two", &h1);

    let third = submit(&lab, "three");
    h2.watch(&third).until(verified_at_least(2 * MIB));
    let cut = slicers(&journal, &third);
    assert!(!cut.is_empty() && cut.iter().all(|version| *version == 2), "{cut:?}");
    // Another host goes on with pages that were cut in the new way.
    let leader = [&mut h1, &mut h2, &mut h3].into_iter().find(|site| leads(site));
    upgrade(leader.unwrap());
    lab.wait_done(&third);
    same("three", &h2);

    assert_told_of_upgrade(&h1);
    h3.stop();
    one_host_is_left_behind(&mut h1, &mut h2);
    same("four", &h2);
}

/// Events say which hosts came back, who led, and what all know now. A host that is back before the
/// others look again was not seen to leave.
fn assert_told_of_upgrade(at: &Site) {
    let text = at.ok(&["site", "events", "--limit", "1000"]);
    println!("{text}");
    let told = [
        "`h3` is up, version",
        "`h1` is up, version",
        "is the controller, epoch",
        "records are of format 2 from now on, not 1",
    ];
    for words in told {
        assert!(text.contains(words), "`{words}` is not told: {text}");
    }
}

fn submit(at: &Site, set: &str) -> String {
    let (from, rate) = (format!("lab:data/{set}"), "--bwlimit=1000KiB/s");
    at.submit(&[&from, "hpc:data/", rate, "--piece-size=1M"])
}

fn leads(site: &Site) -> bool {
    site.status_until(|_| true)["cluster"]["is_leader"] == true
}

/// The first host goes back to the older release, too late.
fn one_host_is_left_behind(h1: &mut Site, h2: &mut Site) {
    h1.stop();
    h2.stop();
    h1.start();
    let trouble = h1.status_until(|status| {
        status["cluster"]["trouble"].as_str().is_some_and(|text| text.contains("format 2"))
    });
    assert_eq!(trouble["cluster"]["is_leader"], false, "{trouble}");
    assert!(trouble["cluster"]["leader"].is_null(), "{trouble}");
    h2.start_with(NEXT);
    // The other site does not know yet where this one is after all of it has moved.
    let fourth = submit(h2, "four");
    h2.wait_done(&fourth);
    assert!(leads(h2));
}

fn lab_set(root: &Path, set: &str) -> PathBuf {
    root.join("store-lab").join(set)
}

/// A release that is too old for what a site of one host has written refuses to start, says so, and
/// leaves it alone.
#[test]
fn an_older_release_leaves_a_newer_state_alone() {
    let root = Scratch::in_memory();
    let mut lab = Site::init(root.path(), "lab", None);
    lab.start_with(NEXT);
    lab.stop();
    let output = lab.run(&["daemon"]);
    assert_eq!(output.status.code(), Some(7), "{}", told(&output));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("is of format 2") && said.contains("knows up to 1"), "{said}");
    assert!(said.contains("install the release that wrote it"), "{said}");
    lab.start_with(NEXT);
}
