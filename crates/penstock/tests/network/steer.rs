//! Many transfers at once, seen and steered from both sites.

use std::io::Write as _;
use std::time::{Duration, Instant};

use penstock_testkit::{PATIENCE, ProxiedPair, Wait, assert_same_files, make_set, seed};
use serde_json::Value;

/// Promise: peers are symmetric. Transfers run in both directions at once, submitted at either
/// site, a few at a time; both sites list and show all of them alike, and all arrive.
#[test]
fn many_transfers_run_both_ways_and_both_sites_show_them() {
    let seed = seed();
    let world = ProxiedPair::start();
    for (number, site) in [&world.a, &world.b].into_iter().enumerate() {
        for set in 0..6 {
            make_set(
                &site.store.join(format!("src{set}")),
                1,
                30,
                seed + number as u64 * 100 + set,
            );
        }
    }
    // Slow until all are submitted and were looked at, however long that takes.
    world.proxies().iter().for_each(|proxy| proxy.set_rate(Some(4e6)));
    let mut ids = Vec::new();
    for set in 0..6 {
        let at = if set % 2 == 0 { &world.a } else { &world.b };
        for (from, to) in [("a", "b"), ("b", "a")] {
            let (from, to) = (format!("{from}:data/src{set}/"), format!("{to}:data/dst{set}"));
            ids.push(at.submit(&[&from, &to]));
        }
    }
    let is_waiting =
        |view: &Value| view["reason"].as_str().unwrap().contains("waiting for its turn");
    let waiting = world.b.list().iter().filter(|view| is_waiting(view)).count();
    println!("{waiting} wait for their turn");
    assert!(waiting > 0, "six transfers to one site run at once: the queue has no limit");
    world.proxies().iter().for_each(|proxy| proxy.set_rate(Some(80e6)));
    for id in &ids {
        let (at_a, at_b) = (world.a.wait_done(id), world.b.wait_done(id));
        assert_eq!(at_a["files"], at_b["files"]);
        assert_eq!(at_a["files"], 35, "{at_a}");
    }
    for site in [&world.a, &world.b] {
        let listed: Vec<_> = site.list().iter().map(|view| view["id"].clone()).collect();
        assert_eq!(listed.len(), ids.len());
        assert!(ids.iter().all(|id| listed.iter().any(|listed| listed == id)), "{listed:?}");
        assert_eq!(site.leftovers(), Vec::<std::path::PathBuf>::new());
    }
    for set in 0..6 {
        let (src, dst) = (format!("src{set}"), format!("dst{set}"));
        assert_same_files(&world.a.store.join(&src), &world.b.store.join(&dst));
        assert_same_files(&world.b.store.join(&src), &world.a.store.join(&dst));
    }
}

/// Promise: pause stops a transfer in mid-flight, so that nothing more passes, and keeps what is
/// done; resume goes on with the rest.
#[test]
fn a_paused_transfer_stands_still_and_goes_on() {
    let seed = seed();
    let world = ProxiedPair::start();
    make_set(&world.a.store.join("src"), 40, 100, seed);
    world.proxy_a.set_rate(Some(40e6));
    let id = world.b.submit(&["a:data/src/", "b:data/dst"]);
    // A whole extent is what a ledger can keep.
    world.b.show_until(&id, |view| view["progress"]["bytes"].as_u64() > Some(0));
    let mut events = world.b.watch(&id);
    world.a.ok(&["transfer", "pause", &id]);
    events.until(|event| event["state"] == "paused");
    let view = world.a.show(&id);
    assert_eq!(view["state"], "paused", "{view}");
    let done = view["progress"]["bytes"].as_u64().unwrap();
    // What was on the way when the lanes were closed passes; what moves on would pass to its end.
    let mut passed = 0;
    Wait::new("a paused transfer to move no data").every(Duration::from_millis(500)).is(|| {
        let before = passed;
        passed = world.proxy_a.lane_bytes();
        passed == before
    });
    assert!(passed < 40 << 20, "a paused transfer has moved its data: {passed} bytes");
    world.proxy_a.set_rate(None);
    world.b.ok(&["transfer", "resume", &id]);
    let summary = world.b.wait_done(&id);
    assert!(summary["bytes_resumed"].as_u64().unwrap() >= done, "{done} before, {summary}");
    assert_same_files(&world.a.store.join("src"), &world.b.store.join("dst"));
}

/// Promise: a cancelled transfer leaves nothing behind: no temporary file, no marker, no ledger,
/// nothing that `orphans` would have to find. In mid-flight, at either site, and while paused.
#[test]
fn a_cancelled_transfer_leaves_nothing() {
    let seed = seed();
    let world = ProxiedPair::start();
    make_set(&world.a.store.join("src"), 40, 400, seed);
    for (number, paused) in [(0, false), (1, true)] {
        world.proxy_a.set_rate(Some(40e6));
        let id = world.b.submit(&["a:data/src/", &format!("b:data/dst{number}")]);
        world.b.show_until(&id, |view| view["progress"]["bytes_verified"].as_u64() > Some(9 << 20));
        assert!(!world.b.leftovers().is_empty(), "nothing is temporary: this test proves nothing");
        let mut events = world.a.watch(&id);
        if paused {
            world.b.ok(&["transfer", "pause", &id]);
            events.until(|event| event["state"] == "paused");
        }
        world.a.ok(&["transfer", "cancel", &id]);
        let summary = events.until(|event| event["type"] == "summary");
        assert_eq!(summary["state"], "cancelled", "{summary}");
        for site in [&world.a, &world.b] {
            let orphans = site.run(&["transfer", "orphans", "--json"]);
            assert!(orphans.status.success() && orphans.stdout.is_empty(), "{orphans:?}");
        }
        assert_eq!(world.b.leftovers(), Vec::<std::path::PathBuf>::new());
        assert_eq!(world.b.run(&["transfer", "wait", &id]).status.code(), Some(130));
    }
    let scans = world.a.dir.join("source");
    let began = Instant::now();
    while std::fs::read_dir(&scans).is_ok_and(|mut scans| scans.next().is_some()) {
        assert!(began.elapsed() < PATIENCE, "the source keeps the pages of a cancelled transfer");
    }
}

/// Promise: totals, and with them percent and time left, are shown as soon as the scan has ended,
/// however much of the data set the target has no room for yet.
#[test]
fn totals_are_known_when_the_scan_has_ended() {
    let world = ProxiedPair::start();
    let block = vec![7; 1 << 20];
    let mut file = std::fs::File::create(world.a.store.join("large")).unwrap();
    // More than the 256 MiB that are granted ahead.
    for _ in 0..400 {
        file.write_all(&block).unwrap();
    }
    world.proxy_a.set_rate(Some(100e6));
    let id = world.b.submit(&["a:data/large", "b:data/"]);
    let view =
        world.b.show_until(&id, |view| view["progress"]["bytes_verified"].as_u64() > Some(2 << 20));
    assert_eq!(view["progress"]["scan_complete"], true, "{view}");
    assert_eq!(view["progress"]["bytes_found"], 400 << 20, "{view}");
    world.b.ok(&["transfer", "cancel", &id]);
}
