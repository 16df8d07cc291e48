//! Real sites over a bad network: two daemons, with a proxy of ours in front of each that damages,
//! delays, limits, cuts and swallows what passes. Needs no privileges, but for the tests in
//! namespaces.
//!
//! One program for all of these tests, as each program costs seconds to compile and to link.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "seeds, and what was seen when a test fails")]

mod budgets;
mod crowd;
mod distance;
mod doctor;
mod doors;
mod faces;
mod hostile;
mod hostile_text;
mod login;
mod networks;
mod queue;
mod rotation;
mod secret;
mod selftest;
mod settings;
mod steer;
mod stores;
mod trust;
mod users;
mod webhooks;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use penstock_testkit::{
    FlipPlan, Part, ProxiedPair, assert_same_files, flips_in, flips_in_records, make_set,
    random_file, seed,
};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

/// Moves a set from `a` to `b` while bits are flipped, and gives the flips and the summary.
fn move_damaged(plan: FlipPlan, options: &[&str]) -> (u64, serde_json::Value) {
    let seed = seed();
    let world = ProxiedPair::start();
    make_set(&world.a.store.join("src"), 24, 300, seed);
    world.proxy_a.set_flips(Some(plan), seed);
    let args: Vec<_> = ["a:data/src/", "b:data/dst"].iter().chain(options).copied().collect();
    let id = world.b.submit(&args);
    let summary = world.b.wait_done(&id);
    let flips = world.proxy_a.flips();
    println!("{flips} bits flipped; {} lanes", world.proxy_a.counts().lanes.load(Ordering::SeqCst));
    assert!(flips > 0, "nothing was damaged");
    assert_same_files(&world.a.store.join("src"), &world.b.store.join("dst"));
    (flips, summary)
}

/// Promises (c) and (d), decision 5: bits flipped in TLS records cost lanes, not correctness.
#[test]
fn flipped_bits_on_tls_lanes_are_repaired() {
    let (_, summary) = move_damaged(flips_in_records(1 << 20, 16), &[]);
    assert!(summary["bytes_resent"].as_u64().unwrap() > 0, "{summary}");
}

/// Promise (d): a bit flipped within the handshake of a lane, or in the site API, is no wrong
/// certificate: it passes, and the transfer goes on by itself.
#[test]
fn flipped_bits_in_handshakes_and_requests_pass() {
    let plan = FlipPlan { spared: 0, ..flips_in_records(700, 4) };
    move_damaged(plan, &[]);
    // Each request and each answer of the site API is a few hundred bytes.
    move_damaged(FlipPlan { lanes: false, spared: 4000, ..flips_in_records(700, 3) }, &[]);
    move_damaged(FlipPlan { lanes: false, spared: 0, ..flips_in_records(700, 4) }, &[]);
}

/// Promise (c), decision 5, D3: a bit flipped in the payload of a clear lane is found by its
/// BLAKE3 digest, and costs one repair, not the lane.
#[test]
fn d3_flipped_payload_on_clear_lanes_is_repaired_with_blake3() {
    let options = ["--encryption", "off"];
    let (_, summary) = move_damaged(flips_in(Part::Payload, 3 << 20, 8), &options);
    assert!(summary["repairs"].as_u64().unwrap() > 0, "{summary}");
}

/// The same with XXH3-128, which is there for exactly such accidents.
#[test]
fn d3_flipped_payload_on_clear_lanes_is_repaired_with_xxh3() {
    let options = ["--encryption", "off", "--digest", "xxh3-128"];
    let (_, summary) = move_damaged(flips_in(Part::Payload, 3 << 20, 8), &options);
    assert!(summary["repairs"].as_u64().unwrap() > 0, "{summary}");
}

/// D3: whatever the digest, header, body and MAC of clear frames are authenticated: a bit flipped
/// there ends the lane, and what it had in hand is fetched over another one.
#[test]
fn d3_flipped_framing_ends_a_clear_lane() {
    let options = ["--encryption", "off", "--digest", "xxh3-128"];
    let (_, summary) = move_damaged(flips_in(Part::Framing, 2000, 5), &options);
    assert!(summary["bytes_resent"].as_u64().unwrap() > 0, "{summary}");
    assert_eq!(summary["repairs"], 0, "{summary}");
}

/// A transfer of which 4 MiB have come, over a network that is slow enough to be in its way.
fn under_way() -> (ProxiedPair, String) {
    let seed = seed();
    let world = ProxiedPair::start();
    make_set(&world.a.store.join("src"), 40, 300, seed);
    world.proxy_a.set_rate(Some(40e6));
    let id = world.b.submit(&["a:data/src/", "b:data/dst"]);
    world.b.show_until(&id, |view| view["progress"]["bytes_verified"].as_u64() > Some(4 << 20));
    (world, id)
}

/// Promise (d), (f): a network that is cut makes the transfer wait with a reason that says when it
/// tries again, and goes on by itself when it heals.
#[test]
fn a_cut_network_heals_by_itself() {
    let (world, id) = under_way();
    world.proxies().iter().for_each(|proxy| proxy.cut());
    let cut = Instant::now();
    let view = world.b.show_until(&id, |view| {
        let reason = view["reason"].as_str().unwrap_or_default();
        reason.contains("next try in") || reason.contains("next attempt in")
    });
    println!("while cut: {}", view["reason"]);
    std::thread::sleep(Duration::from_secs(3).saturating_sub(cut.elapsed()));
    world.proxies().iter().for_each(|proxy| proxy.heal());
    let healed = Instant::now();
    world.proxy_a.set_rate(None);
    let summary = world.b.wait_done(&id);
    println!("done {:.1} s after it healed", healed.elapsed().as_secs_f64());
    assert!(healed.elapsed() < Duration::from_secs(90), "it was slow to notice");
    assert_same_files(&world.a.store.join("src"), &world.b.store.join("dst"));
    let resent = summary["bytes_resent"].as_u64().unwrap();
    assert!(resent < 40 << 20, "{resent} bytes sent again: more than was in flight");
}

/// Promise (f): lanes that swallow everything without a word are cut after a deadline, the reason
/// is shown meanwhile, and the transfer goes on over others.
#[test]
fn a_silent_black_hole_is_noticed() {
    let (world, id) = under_way();
    world.proxies().iter().for_each(|proxy| proxy.swallow());
    let holed = Instant::now();
    let view =
        world.b.show_until(&id, |view| view["reason"].as_str().is_some_and(|r| !r.is_empty()));
    println!("after {:.1} s: {}", holed.elapsed().as_secs_f64(), view["reason"]);
    assert!(!world.b.log_text().contains("lane lost"), "nothing was said before lanes were cut");
    world.proxy_a.set_rate(None);
    world.b.wait_done(&id);
    println!("done after {:.1} s", holed.elapsed().as_secs_f64());
    assert!(holed.elapsed() < Duration::from_secs(110), "it was slow to notice");
    assert_same_files(&world.a.store.join("src"), &world.b.store.join("dst"));
}

/// Promise (f): a lane that needs longer for one stride than silence is allowed is slow, not dead.
#[test]
fn a_slow_link_is_not_taken_for_a_dead_one() {
    let seed = seed();
    let world = ProxiedPair::start();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    random_file(&world.a.store.join("src/file"), 700 << 10, &mut rng);
    // A stride of 512 KiB takes 23 s, beyond the 20 s of silence that end a lane.
    world.proxy_a.set_rate(Some(180e3));
    let id = world.b.submit(&["a:data/src/", "b:data/dst"]);
    let summary = world.b.wait_done(&id);
    println!("{:.1} s", summary["seconds"]);
    assert_eq!(summary["bytes_resent"], 0, "a living lane was cut: {summary}");
    assert_same_files(&world.a.store.join("src"), &world.b.store.join("dst"));
}
