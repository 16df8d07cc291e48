//! Cases of a transfer that several target peers share: one of them is killed, stopped past its
//! grant, added, drained, or loses the store.

use std::fs;
use std::path::Path;
use std::time::Instant;

use penstock_lab::Lab;
use penstock_testkit::{make_set, seed, stamps};
use serde_json::Value;

use crate::transfer::{IN_FLIGHT, LabTransfer, MIB, RATE, THERE, begin_of, bring_up, carried};

/// Three target peers, whose grants are over soon.
const SHARED: [&str; 4] = ["--peers", "1,3", "--grant-seconds", "5"];
/// What a lost target peer may cost: what it had in flight, and what it had written since its last
/// sync epoch (2 s) and commit (1.5 s), at half the rate that three share.
const LOST: u64 = RATE / 2 * 7 / 2 + IN_FLIGHT;

/// MiB of the large file: enough that all peers have a share before it is over.
const LARGE_MIB: usize = 128;
/// More than half of it: to fetch all that again would break every bound.
const MOST: u64 = 72 * MIB;
/// Options of a transfer that is slow until something has happened, however long that takes.
const SLOW: [&str; 2] = ["--bwlimit=2MiB/s", "--piece-size=1M"];

/// Sets the limit of the transfer.
fn limit(world: &LabTransfer, rate: &str) {
    let rate = format!("--bwlimit={rate}");
    world.lab.call("b0", &["transfer", "limit", &world.id, &rate]).unwrap();
}

/// Lets a slow transfer bring what makes a bound mean something, and has it slow again.
fn hasten(world: &mut LabTransfer) {
    limit(world, "8MiB/s");
    world.until_there(THERE);
    limit(world, "2MiB/s");
}

/// Whether a peer has verified so much of a transfer, as an event tells it.
fn has_share(host: &str, bytes: u64) -> impl Fn(&Value) -> bool {
    move |event| {
        let shares = event["peers"].as_array().into_iter().flatten();
        shares
            .filter(|share| share["peer"] == host)
            .any(|share| share["bytes_verified"].as_u64().is_some_and(|verified| verified >= bytes))
    }
}

/// Starts a transfer that is followed at b1, and waits until a peer has a share of it that neither
/// leads nor is b1, and so much is `there`; gives its name.
fn begin_with_a_busy_follower(test: &str, there: u64) -> Option<(LabTransfer, String)> {
    let mut world = begin_of(test, "b1", LARGE_MIB, &SHARED)?;
    let leader = world.wait_for("a controller", |lab| lab.leader("b1"));
    let other = ["b0", "b2"].into_iter().find(|host| *host != leader).unwrap().to_owned();
    world.until("a follower has a share", has_share(&other, 4 * MIB));
    world.until_there(there);
    Some((world, other))
}

/// An event says that a peer is lost, one why, and that its part of the transfer goes to others.
fn assert_told_of_loss(world: &LabTransfer, lost: &str) {
    world.told("b1", "peer-lost", &[&format!("`{lost}` is lost"), "lease"]);
    let out = format!("`{lost}` is out");
    let told = world.told(
        "b1",
        "peer-out",
        &[&out, "is lost: ", "goes to the 2 other peers", "check its last writes"],
    );
    assert_eq!(told["transfer"], *world.id, "{told}");
}

/// Wakes a daemon that was stopped, and asserts that it follows the others and changes nothing.
fn wake_and_compare(world: &LabTransfer, host: &str) {
    let before = stamps(&world.lab.store('b'));
    world.lab.continue_daemon(host).unwrap();
    let is_back = |lab: &Lab| {
        let status = lab.status(host);
        let peers = status["cluster"]["peers"].as_array()?.clone();
        peers.iter().any(|peer| peer["peer"] == *host).then_some(())
    };
    world.wait_for("it takes part again", is_back);
    // It hears that its task is another's now, and gives up what it had in hand.
    world.wait_for("its threads have woken", |lab| {
        let threads = format!("/proc/{}/task", lab.process_id(host).unwrap());
        let names = fs::read_dir(threads)
            .unwrap()
            .flatten()
            .filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
        (!names.into_iter().any(|name| name.trim() == "publisher")).then_some(())
    });
    assert_eq!(stamps(&world.lab.store('b')), before, "something stale has landed");
    world.assert_whole();
}

/// Issue 5 (1), A9: a target peer is killed: what it had not made durable is fetched by the others,
/// and nothing stands still.
#[test]
fn a9_a_target_peer_is_killed() {
    let Some((mut world, lost)) = begin_with_a_busy_follower("d1", MOST) else { return };
    let begun = Instant::now();
    world.lab.kill_daemon(&lost).unwrap();
    let summary = world.finish();
    world.assert_no_gap(begun);
    world.assert_sent_twice(&summary, LOST);
    assert_told_of_loss(&world, &lost);
}

/// Issue 5 (1b), B1: a target peer is stopped in mid-write past its grant, the others finish its
/// files, and it wakes: nothing of it lands.
#[test]
fn b1_a_target_peer_is_stopped_past_its_grant_and_wakes() {
    let Some((mut world, stopped)) = begin_with_a_busy_follower("d1b", MOST) else { return };
    let begun = Instant::now();
    world.lab.stop_daemon(&stopped).unwrap();
    let summary = world.finish();
    world.assert_no_gap(begun);
    world.assert_sent_twice(&summary, LOST);
    assert_told_of_loss(&world, &stopped);
    wake_and_compare(&world, &stopped);
    world.told("b1", "peer-joined", &[&format!("`{stopped}` is up")]);
}

/// Writes a file anew with other content, in place, as a program does that knows nothing of us.
fn rewrite(path: &Path) {
    let mut content = fs::read(path).unwrap();
    content.iter_mut().for_each(|byte| *byte = !*byte);
    fs::write(path, content).unwrap();
}

/// Issue 5 (1c), B1: the same, and the large file is written anew at the source meanwhile: the
/// newer version arrives, and the one who wakes puts no byte of the older one into it.
#[test]
fn b1_a_target_peer_wakes_after_the_source_file_was_rewritten() {
    let Some((mut world, stopped)) = begin_with_a_busy_follower("d1c", 0) else { return };
    let begun = Instant::now();
    world.lab.stop_daemon(&stopped).unwrap();
    rewrite(&world.lab.store('a').join("set/large.bin"));
    let summary = world.finish();
    world.assert_no_gap(begun);
    assert_eq!(summary["errors"], 0, "{summary}");
    assert_told_of_loss(&world, &stopped);
    wake_and_compare(&world, &stopped);
}

/// The peers of a site, as `peer list` says at one of them.
fn peers(world: &LabTransfer, at: &str) -> Vec<Value> {
    let text = world.lab.call(at, &["peer", "list", "--json"]).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What a peer has in hand of transfers, as `peer list` says at another one.
fn tasks(world: &LabTransfer, at: &str, peer: &str) -> usize {
    let view = peers(world, at).into_iter().find(|view| view["peer"] == peer).unwrap();
    view["load"]["tasks"].as_array().unwrap_or_else(|| panic!("{view}")).len()
}

/// Issue 5 (10): a peer that joins in the middle gets a share; one that is drained gives its own
/// back, and has nothing in hand while the others go on: nothing is lost, left behind, or sent
/// twice beyond what was in flight.
#[test]
fn a_peer_is_added_and_one_is_drained() {
    let options = [&SHARED[..], &["--joined", "1,2"]].concat();
    let Some(mut world) = bring_up("d10", "b0", &options) else { return };
    make_set(&world.lab.store('a').join("set"), LARGE_MIB, 300, seed());
    // Slow until one is there and the other is gone.
    world.submit_with(&SLOW);
    world.until_bytes(2 * MIB);
    world.lab.join("b2").unwrap();
    world.until("the new peer has a share", has_share("b2", 2 * MIB));
    world.until("the other one has a share", has_share("b1", 2 * MIB));
    hasten(&mut world);
    world.lab.call("b0", &["peer", "drain", "b1", "--wait"]).unwrap();
    assert_eq!(tasks(&world, "b0", "b1"), 0, "it has something in hand");
    let (rest, before) = (world.last(), carried(&world.lab, "b1"));
    assert_eq!(rest["state"], "running", "it was drained too late to prove anything: {rest}");
    limit(&world, "8MiB/s");
    let summary = world.finish();
    let after = carried(&world.lab, "b1") - before;
    assert!(after < MIB, "it carried {after} bytes after it was drained");
    world.assert_sent_twice(&summary, IN_FLIGHT);
    world.told("b0", "peer-joined", &["`b2` is up"]);
    let joined = world.told("b0", "peer-in", &["`b2` takes part", "a share"]);
    assert_eq!(joined["transfer"], *world.id, "{joined}");
    world.told("b0", "drain", &["`b1` is draining"]);
    world.told("b0", "peer-out", &["`b1` is drained", "durable", "has no work"]);
}

/// Issue 5 (10): a peer that joins the source in the middle, or comes back with it, serves what is
/// under way: every target peer opens lanes to it, the controller's own one and others.
#[test]
fn a_source_peer_is_added() {
    let options = ["--peers", "2,2", "--joined", "1,2"];
    let Some(mut world) = bring_up("d10s", "b0", &options) else { return };
    make_set(&world.lab.store('a').join("set"), LARGE_MIB, 300, seed());
    // Slow until it serves.
    world.submit_with(&SLOW);
    for target in ["b0", "b1"] {
        world.until("it has a share", has_share(target, MIB));
    }
    hasten(&mut world);
    world.lab.join("a1").unwrap();
    for target in ["b0", "b1"] {
        world.said(target, "there are further paths to the source");
    }
    world.wait_for("a1 has a share", |lab| (carried(lab, "a1") > 2 * MIB).then_some(()));
    assert_eq!(world.last()["state"], "running", "it ended too early to prove anything");
    let shown = world.lab.call("b0", &["transfer", "show", &world.id, "--json"]).unwrap();
    assert!(shown.contains("\"a1\""), "its paths are not shown: {shown}");
    limit(&world, "8MiB/s");
    let summary = world.finish();
    world.assert_sent_twice(&summary, IN_FLIGHT);
}

/// Issue 5 (11), A5: the store is unmounted at one target peer: it writes nothing into the empty
/// directory, the others go on, and no item fails.
#[test]
fn a5_the_store_is_unmounted_at_one_target_peer() {
    let Some((mut world, lost)) = begin_with_a_busy_follower("d11t", MOST) else { return };
    let begun = Instant::now();
    world.lab.unmount(&lost).unwrap();
    let summary = world.finish();
    world.assert_no_gap(begun);
    world.assert_sent_twice(&summary, LOST);
    assert_eq!(summary["errors"], Value::from(0), "{summary}");
    world.told("b1", "store-offline", &["store `data` is offline"]);
    world.told("b1", "peer-out", &[&format!("`{lost}` is out"), "offline", "other peers"]);
    let nothing_beneath = |world: &LabTransfer| {
        let beneath = fs::read_dir(world.lab.root().join("mnt-b")).unwrap().count();
        assert_eq!(beneath, 0, "something was written where the store was not");
    };
    nothing_beneath(&world);
    // The controller has lost it too when another transfer begins: it makes no new one there.
    let leader = world.wait_for("a controller", |lab| lab.leader("b1"));
    world.lab.unmount(&leader).unwrap();
    let card_of = |view: &Value| view["peer"] == *leader && view["stores"][0]["is"] == "offline";
    world.wait_for("its card tells", |_| peers(&world, "b1").iter().any(card_of).then_some(()));
    world.submit();
    world.finish();
    nothing_beneath(&world);
}
