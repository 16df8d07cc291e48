//! A long way: 800 ms of round trip, with and without a bottleneck.

use std::fs;
use std::time::Duration;

use penstock_testkit::{Arrival, ProxiedPair, assert_same_files, random_file, seed};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

/// Long beside all that a busy machine adds, so that what is waited for can be told from that.
const ONE_WAY: Duration = Duration::from_millis(400);
const ROUND_TRIP: Duration = Duration::from_millis(800);

/// The arrivals between two shares of all bytes.
fn middle(arrivals: &[Arrival], from: f64, to: f64) -> &[Arrival] {
    let total: u64 = arrivals.iter().map(|arrival| arrival.bytes).sum();
    let at = |share: f64| {
        let mut left = (total as f64 * share) as u64;
        arrivals.iter().position(|arrival| {
            let reached = arrival.bytes >= left;
            left = left.saturating_sub(arrival.bytes);
            reached
        })
    };
    &arrivals[at(from).unwrap()..=at(to).unwrap()]
}

/// Decision 1: requests are pipelined over the bandwidth-delay product, 4 MB here, so that a long
/// round trip does not idle the link. Judged by how often the proxy's own bottleneck had nothing to
/// do for half a round trip, in the middle of the transfer: who has too little on the way waits so
/// in every round trip, a machine that stands still makes one such gap. How much of the time the
/// link is used, is shown by benchmarks, and by the simulation.
#[test]
fn a_long_way_does_not_idle_the_link() {
    const RATE: f64 = 40e6;
    let seed = seed();
    let world = ProxiedPair::start();
    let source = world.a.store.join("large.bin");
    random_file(&source, 64 << 20, &mut ChaCha8Rng::seed_from_u64(seed));
    for proxy in world.proxies() {
        proxy.set_delay(ONE_WAY);
        proxy.set_rate(Some(RATE));
    }
    world.proxy_a.take_arrivals();
    let id = world.b.submit(&["a:data/large.bin", "b:data/large.bin"]);
    let summary = world.b.wait_done(&id);
    let arrivals = world.proxy_a.take_arrivals();
    let mut passed = 0;
    for (number, arrival) in arrivals.iter().enumerate() {
        passed += arrival.bytes;
        if number % 200 == 0 {
            println!("after {:?}: {passed} bytes", arrival.at - arrivals[0].at);
        }
    }
    let steady = middle(&arrivals, 0.15, 0.9);
    let idle: Duration = steady[1..].iter().map(|arrival| arrival.idle).sum();
    let longest = steady[1..].iter().map(|arrival| arrival.idle).max().unwrap();
    let took = steady[steady.len() - 1].at - steady[0].at;
    let used = 1.0 - idle.as_secs_f64() / took.as_secs_f64();
    let gaps = steady[1..].iter().filter(|arrival| arrival.idle > ROUND_TRIP / 2).count();
    println!(
        "{:.1} s in all; {gaps} gaps, longest {longest:?}, link used {:.0} %",
        summary["seconds"],
        used * 100.0
    );
    assert!(gaps <= 5, "the link was idle {gaps} times, once for {longest:?}");
    assert_eq!(fs::read(source).unwrap(), fs::read(world.b.store.join("large.bin")).unwrap());
}

/// Decision 1, promise of small files: 2,000 files of 4 KiB cost a few round trips in all, not one
/// each, nor one for each lane and pack.
#[test]
fn small_files_cost_few_round_trips() {
    let mut rng = ChaCha8Rng::seed_from_u64(seed());
    let world = ProxiedPair::start();
    for number in 0..2000 {
        let path = world.a.store.join(format!("src/{}/{number}", number % 10));
        random_file(&path, 4096, &mut rng);
    }
    world.proxies().iter().for_each(|proxy| proxy.set_delay(ONE_WAY));
    world.proxy_a.take_arrivals();
    let id = world.b.submit(&["a:data/src/", "b:data/dst"]);
    let summary = world.b.wait_done(&id);
    let arrivals = world.proxy_a.take_arrivals();
    // What waits for an answer to its answer comes no sooner than a round trip later.
    let waits = arrivals.windows(2).filter(|pair| pair[1].at - pair[0].at >= ROUND_TRIP * 9 / 10);
    let waits = waits.count();
    println!("{waits} round trips of silence, {:.1} s", summary["seconds"]);
    assert!(waits <= 12, "{waits} round trips of silence");
    assert_same_files(&world.a.store.join("src"), &world.b.store.join("dst"));
}

/// Promise: the first page of small files does not wait for a connection to speed up: what a far
/// site sends beside its lanes is a small part of its pages, here 71 bytes a file.
#[test]
fn pages_of_a_far_site_come_compressed() {
    const FILES: u64 = 4000;
    let mut world = ProxiedPair::start();
    // Whether a site is far is judged by its quickest answer, and there was one without delay.
    world.b.stop();
    world.proxies().iter().for_each(|proxy| proxy.set_delay(Duration::from_millis(50)));
    world.proxy_b.set_upstream(world.b.start());
    fs::create_dir(world.a.store.join("src")).unwrap();
    for number in 0..FILES {
        fs::write(world.a.store.join(format!("src/{number}")), []).unwrap();
    }
    world.proxy_a.take_arrivals();
    let id = world.b.submit(&["a:data/src/", "b:data/dst"]);
    world.b.wait_done(&id);
    let passed: u64 = world.proxy_a.take_arrivals().iter().map(|arrival| arrival.bytes).sum();
    let beside = passed - world.proxy_a.lane_bytes();
    assert!(beside < FILES * 71 / 3, "{beside} bytes beside the lanes, of {passed}");
    assert_same_files(&world.a.store.join("src"), &world.b.store.join("dst"));
}

/// Promise: a daemon that is told to end while it waits for another site ends in order: it says
/// nothing of panics. The source hears of the end of a transfer after the user does.
#[test]
fn ending_while_another_site_is_asked_breaks_nothing() {
    let mut world = ProxiedPair::start();
    fs::write(world.a.store.join("one"), b"1").unwrap();
    world.proxies().iter().for_each(|proxy| proxy.set_delay(ONE_WAY));
    let id = world.b.submit(&["a:data/one", "b:data/one"]);
    world.b.wait_done(&id);
    world.b.stop();
    let log = world.b.log_text();
    assert!(log.contains("SIGTERM: ending") && !log.contains("panicked"), "{log}");
}
