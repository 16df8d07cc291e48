//! What operators of a site of several peers do and see: `peer list`, `peer drain`, `site status`,
//! events, the shares of a transfer. Real daemons, a real etcd.

use std::fs;
use std::time::Instant;

use penstock_testkit::{
    Etcd, Scratch, Signal, Site, Wait, assert_same_files, make_set, penstock, seed, told,
    verified_at_least,
};
use serde_json::Value;

const MIB: u64 = 1 << 20;

/// A site `hpc` of two peers, `h1` and `h2`, the first of which leads, and a site `lab` of one.
struct World {
    h1: Site,
    h2: Site,
    lab: Site,
    etcd: Etcd,
    root: Scratch,
}

impl World {
    fn new() -> Option<Self> {
        let root = Scratch::in_memory();
        let etcd = Etcd::start(root.path(), 1)?;
        let h1 = Site::first_peer(root.path(), "hpc", &etcd);
        let h2 = h1.join(root.path(), "h2");
        let lab = h1.paired_lab(root.path());
        Some(Self { h1, h2, lab, etcd, root })
    }
}

fn peer(at: &Site, name: &str) -> Value {
    let found = at.peers().into_iter().find(|peer| peer["peer"] == name);
    found.unwrap_or_else(|| panic!("there is no peer {name}"))
}

fn has_event(at: &Site, kind: &str, subject: &str) -> bool {
    let of = |event: &Value| {
        event["kind"] == kind && event["subject"].as_str().unwrap().starts_with(subject)
    };
    at.events().iter().any(of)
}

/// Promise: whichever peer is asked, `peer list` names all with their stores, which are the same
/// everywhere; one that is killed is lost, which is an event and a warning of `site status`, and
/// all is well when it is back.
#[test]
fn a_lost_peer_is_seen_and_one_that_is_back() {
    let Some(mut world) = World::new() else { return };
    fs::create_dir_all(world.h1.store.join("x")).unwrap();
    make_set(&world.lab.store.join("tiny"), 1, 3, seed());
    let id = world.h1.submit(&["lab:data/tiny", "hpc:data/x/"]);
    world.h1.wait_done(&id);
    // Stores have identities by now; each peer looks again now and then.
    Wait::new("both peers to reach the store").some(|| {
        let all = world.h2.peers();
        all.iter().all(|peer| peer["stores"][0]["is"] == "same").then_some(())
    });
    for at in [&world.h1, &world.h2] {
        let all = at.peers();
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[0]["controller_since"].as_u64().unwrap() > 0, "{}", all[0]);
        assert_eq!(all[1]["controller_since"], 0);
        assert!(all.iter().all(|peer| peer["presence"] == "up"), "{all:?}");
        assert!(all.iter().all(|peer| peer["load"]["tasks"].is_array()), "{all:?}");
        let text = at.ok(&["peer", "list"]);
        assert!(text.lines().count() == 3 && text.contains("controller"), "{text}");
    }
    let well = world.h2.run(&["site", "status"]);
    assert!(well.status.success(), "{}", told(&well));
    println!("{}", told(&well));

    world.h2.kill();
    let lost = Wait::new("the lost peer").some(|| {
        Some(peer(&world.h1, "h2")).filter(|peer| peer["presence"] == "lost" && peer["since"] != 0)
    });
    println!("{lost}");
    let status = world.h1.run(&["site", "status"]);
    assert_eq!(status.status.code(), Some(3), "{}", told(&status));
    let text = told(&status);
    assert!(text.contains("it works, with 1 warning") && text.contains("h2"), "{text}");
    println!("{text}\n{}", world.h1.ok(&["peer", "list"]));
    Wait::new("the event").is(|| has_event(&world.h1, "peer-lost", "h2"));

    world.h2.start();
    Wait::new("all to be well").is(|| world.h1.run(&["site", "status"]).status.success());
    Wait::new("the event").is(|| has_event(&world.h1, "peer-joined", "h2"));
    println!("{}", world.h1.ok(&["site", "events"]));
}

/// Issue 5 (10), B4: the controller is drained in the middle of a transfer, by an order at another
/// peer: the controllership moves, the transfer goes on and is whole, and `--wait` ends when the
/// drained peer has nothing in hand. The last peer is not drained without force; the mark outlives
/// its daemon; undone, the peer works again. However slow all commands are, the transfer is limited
/// until they are done: it does not end before.
#[test]
fn a_peer_is_drained_in_the_middle_of_a_transfer() {
    let Some(mut world) = World::new() else { return };
    make_set(&world.lab.store.join("set"), 96, 300, seed());
    let limits = ["--bwlimit=2MiB/s", "--piece-size=1M"];
    let id = world.h2.submit(&[&["lab:data/set", "hpc:data/"][..], &limits].concat());
    world.h2.watch(&id).until(verified_at_least(4 * MIB));
    let begun = Instant::now();
    let drained = world.h2.run(&["peer", "drain", "h1", "--wait", "--json"]);
    println!("drained in {:.1} s: {}", begun.elapsed().as_secs_f64(), told(&drained));
    assert!(drained.status.success(), "{}", told(&drained));
    let view: Value = serde_json::from_slice(&drained.stdout).unwrap();
    assert_eq!(view["controller_since"], 0, "{view}");
    assert!(view["load"]["tasks"].as_array().unwrap().is_empty(), "{view}");
    // Between two controllers, and until the drained one hears of the other, there is none.
    Wait::new("the other to lead")
        .some(|| (peer(&world.h1, "h2")["controller_since"].as_u64().unwrap() > 0).then_some(()));

    let refused = world.h1.run(&["peer", "drain", "h2"]);
    assert_eq!(refused.status.code(), Some(6), "{}", told(&refused));
    let text = told(&refused);
    assert!(text.contains("the last one that reaches store `data`"), "{text}");
    assert!(text.contains(&id), "{text}");
    world.h2.ok(&["transfer", "limit", &id, "--bwlimit", "none"]);
    let summary = world.h2.wait_done(&id);
    assert_same_files(&world.lab.store.join("set"), &world.h2.store.join("set"));
    println!("{} bytes sent again", summary["bytes_resent"]);
    assert!(summary["bytes_resumed"].as_u64().unwrap() > 0, "it goes on where it was: {summary}");

    // The mark is the site's, not the daemon's.
    world.h1.kill();
    world.h1.start();
    Wait::new("it to be there").some(|| {
        Some(peer(&world.h2, "h1")).filter(|h1| h1["presence"] == "up" && !h1["draining"].is_null())
    });
    world.h2.ok(&["peer", "drain", "h1", "--undo"]);
    Wait::new("the mark to be gone").is(|| peer(&world.h1, "h1")["draining"].is_null());
    let unknown = world.h2.run(&["peer", "drain", "h9"]);
    assert_eq!(unknown.status.code(), Some(2), "{}", told(&unknown));
    assert!(told(&unknown).contains("known peers: h1, h2"), "{}", told(&unknown));
    for kind in ["drain", "undrain", "controller"] {
        assert!(
            has_event(&world.h1, kind, if kind == "controller" { "h2" } else { "h1" }),
            "{kind}"
        );
    }
    println!("{}", world.h1.ok(&["transfer", "events", &id]));
}

/// Promise: a draining peer of the source serves no more: its lanes end, the transfer goes on by
/// the other peer's, and nothing is missing.
#[test]
fn a_source_peer_is_drained() {
    let Some(world) = World::new() else { return };
    make_set(&world.h1.store.join("back"), 96, 300, seed());
    // So that the store has an identity, which says that both peers reach the same.
    make_set(&world.lab.store.join("tiny"), 1, 3, seed());
    world.h1.wait_done(&world.h1.submit(&["lab:data/tiny", "hpc:data/"]));
    Wait::new("both peers to reach the store").some(|| {
        world.h2.peers().iter().all(|peer| peer["stores"][0]["is"] == "same").then_some(())
    });
    // The limit keeps it running until all is seen that is to be seen.
    let id =
        world.lab.submit(&["hpc:data/back", "lab:data/", "--bwlimit=2MiB/s", "--piece-size=1M"]);
    world.lab.watch(&id).until(verified_at_least(4 * MIB));
    println!("{}", world.lab.ok(&["transfer", "show", &id]));
    let served = |name: &str| peer(&world.h1, name)["load"]["lanes_served"].as_u64().unwrap();
    println!("h1 serves {} lanes, h2 {}", served("h1"), served("h2"));
    // The lab is the target: it has the paths, one to each peer here.
    Wait::new("a path to each peer").some(|| {
        let show = world.lab.show(&id);
        let paths = show["shares"][0]["paths"].as_array().cloned().unwrap_or_default();
        let carries = paths.iter().any(|path| path["state"] == "carrying");
        (paths.len() == 2 && carries).then_some(())
    });
    // And the source sees them too.
    Wait::new("the source to see the shares").some(|| {
        let view = world.h2.show(&id);
        view["shares"][0]["peer"].is_string().then_some(())
    });
    let drained = world.h1.run(&["peer", "drain", "h2", "--wait"]);
    assert!(drained.status.success(), "{}", told(&drained));
    assert_eq!(served("h2"), 0);
    world.lab.ok(&["transfer", "limit", &id, "--bwlimit", "none"]);
    world.lab.wait_done(&id);
    assert_same_files(&world.h1.store.join("back"), &world.lab.store.join("back"));
}

/// Promise: without etcd `site status` still answers, at any peer, says what is wrong, and exits 7;
/// a peer that is stopped is silent, then lost.
#[test]
fn status_says_what_is_wrong_without_etcd() {
    let Some(mut world) = World::new() else { return };
    world.etcd.kill(0);
    let status = Wait::new("the loss to be seen").some(|| {
        let status = world.h2.run(&["site", "status"]);
        (status.status.code() == Some(7)).then_some(status)
    });
    let text = told(&status);
    println!("{text}");
    assert!(text.contains("etcd http://127.0.0.1") && text.contains("majority"), "{text}");
    world.etcd.resume(0);
    Wait::new("all to be well").is(|| world.h2.run(&["site", "status"]).status.success());
    world.h1.signal(Signal::STOP);
    Wait::new("it to be silent or lost").some(|| {
        let h1 = peer(&world.h2, "h1");
        ["silent", "lost"].iter().any(|state| h1["presence"] == *state).then_some(())
    });
    world.h1.signal(Signal::CONT);
    let back = |status: &Value| status["level"] == "ok" || status["level"] == "note";
    world.h2.status_until(back);
}

/// Promise: a peer that is gone for good can be forgotten, and one that is there cannot.
#[test]
fn a_peer_is_forgotten_only_when_it_is_gone() {
    let Some(mut world) = World::new() else { return };
    let refused = world.h1.run(&["peer", "forget", "h2"]);
    assert_eq!(refused.status.code(), Some(6), "{}", told(&refused));
    world.h2.kill();
    Wait::new("it to be lost").is(|| peer(&world.h1, "h2")["presence"] == "lost");
    world.h1.ok(&["peer", "forget", "h2"]);
    Wait::new("it to be forgotten").is(|| world.h1.peers().len() == 1);
    assert!(world.h1.run(&["site", "status"]).status.success());
}

/// E6, A8: `doctor` looks at the site's etcd too, and says without a daemon that it has none.
#[test]
fn doctor_looks_at_etcd_and_needs_no_daemon() {
    let Some(mut world) = World::new() else { return };
    let findings = |site: &Site| -> Vec<Value> {
        let output = site.run(&["doctor", "--json"]);
        assert!([0, 3, 7].contains(&output.status.code().unwrap()), "{}", told(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let has = |findings: &[Value], code: &str| findings.iter().any(|found| found["code"] == code);
    let with = findings(&world.h2);
    let codes = ["clock", "kernel", "nofile", "durability", "certificate", "etcd", "governor"];
    for code in codes.into_iter().chain(["buffers"]) {
        assert!(has(&with, code), "{code}: {with:?}");
    }
    assert!(!has(&with, "daemon"));
    println!("{}", told(&world.h2.run(&["doctor"])));
    world.h2.kill();
    let without = findings(&world.h2);
    assert!(has(&without, "daemon") && has(&without, "etcd"), "{without:?}");
    let bare = penstock()
        .args(["doctor", "--dir"])
        .arg(world.root.path().join("nothing"))
        .output()
        .unwrap();
    assert!(told(&bare).contains("is not a site directory"), "{}", told(&bare));
}
