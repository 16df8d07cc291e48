//! Seeds through all scenarios. `PENSTOCK_SIM_SEEDS=N` runs N seeds, `PENSTOCK_SIM_SEED=S` one.

use penstock_sim::{SCENARIOS, SEVERAL, Scenario, Stats, run};

/// Number of broken worlds that are printed.
const SHOWN: usize = 8;
/// Number of seeds that `cargo test` runs.
const SEEDS: u64 = 390;
/// Number of seeds for worlds of several target peers.
const SEVERAL_SEEDS: u64 = 100;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// Promises (a) to (e) and (h), hard cases A1 to A9 and B1: under all faults, nothing is called
/// durable that is not, no broken file has a name, done means done, and every world ends.
#[test]
fn every_world_keeps_its_promises() {
    let ends = run_all(SCENARIOS, SEEDS);
    if ends.len() as u64 >= SEEDS {
        let met = |figure: fn(&Stats) -> u64| ends.iter().map(figure).sum::<u64>() > 0;
        assert!(met(|stats| stats.doubts) && met(|stats| stats.rollbacks), "A5 was met");
        assert!(met(|stats| stats.syncs_failed), "A4 was met");
        assert!(met(|stats| stats.rechecks) && met(|stats| stats.bytes_again), "A2, A7 were met");
        assert!(met(|stats| stats.late_writes), "B1 was met");
        assert!(met(|stats| stats.zombies), "(h) was met");
        assert!(met(|stats| stats.lanes_cut), "silent lanes were met");
    }
}

/// Promise: the same holds where several target peers share a transfer. In addition, no piece is
/// written by two of them at a time (B3), and data of a lost peer is trusted only when another has
/// checked it (A9). The loss of peers and controllers costs only data that was not durable (A7). A
/// peer that wakes after its grant changes no finished file (B1, 1b).
#[test]
fn b3_every_world_of_several_peers_keeps_its_promises() {
    let ends = run_all(SEVERAL, SEVERAL_SEEDS);
    if ends.len() as u64 >= SEVERAL_SEEDS {
        let met = |figure: fn(&Stats) -> u64| ends.iter().map(figure).sum::<u64>() > 0;
        assert!(met(|stats| stats.syncs_failed), "A4 was met");
        assert!(met(|stats| stats.rechecks) && met(|stats| stats.bytes_again), "A9, A7 were met");
        assert!(met(|stats| stats.late_writes), "B1 was met");
        assert!(met(|stats| stats.peers_lost), "grants lapsed");
        assert!(met(|stats| stats.given_back), "peers gave back what others could do");
        assert!(met(|stats| stats.adopted), "A7: what no commit had taken up was adopted");
    }
}

/// Runs `seeds` worlds, or as many as the environment asks for, and fails with those that broke.
fn run_all(scenarios: &'static [Scenario], seeds: u64) -> Vec<Stats> {
    let (first, count) = match number("PENSTOCK_SIM_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("PENSTOCK_SIM_SEEDS").unwrap_or(seeds)),
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let ends: Vec<Result<Stats, String>> = std::thread::scope(|scope| {
        let work = |thread: u64| {
            move || {
                let mine = (first..first + count).filter(move |seed| seed % threads == thread);
                mine.map(|seed| world(seed, scenarios)).collect::<Vec<_>>()
            }
        };
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(work(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });
    let broken: Vec<_> = ends.iter().filter_map(|end| end.as_ref().err()).collect();
    let shown: Vec<_> = broken.iter().take(SHOWN).collect();
    assert!(broken.is_empty(), "{} worlds of {count} broke: {shown:#?}", broken.len());
    ends.into_iter().flatten().collect()
}

fn world(seed: u64, scenarios: &[Scenario]) -> Result<Stats, String> {
    let scenario = &scenarios[(seed % scenarios.len() as u64) as usize];
    let caught = std::panic::catch_unwind(|| run(seed, scenario));
    match caught {
        Ok(result) => result.map_err(|violation| violation.to_string()),
        Err(_) => Err(format!("seed {seed}, scenario {}: a panic", scenario.name)),
    }
}
