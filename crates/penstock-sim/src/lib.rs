//! A seeded world that drives the machines of `penstock-engine` through everything that goes wrong.
//!
//! One number decides everything: the data set, the order and the delays of all events, which lane
//! breaks, when the host loses power and what of the page cache survives. Machines, pages and
//! journal records are the real ones; threads, sockets and files are not: the peer's edge, the
//! network, the source and the disk are small models, and time is a number.
//!
//! | module | what it is |
//! |---|---|
//! | `source` | the data set, whose bytes are symbolic, and its troubles |
//! | `disk` | page cache and platters, syncs that fail, power cuts (A1, A4, A9) |
//! | `journal` | page logs and heads, torn tails, the fence of the controller (A2, A8) |
//! | `outside` | time, chance, network |
//! | `peer` | the target peer's edge around fetch, lanes and epochs |
//! | `world` | the controller's edge, faults, the loop |
//! | `several` | the same where several target peers share a transfer |
//! | `oracle` | the promises of the design: (a) to (e) and (h), and that every world ends |
//!
//! # What is not modelled
//! A process that dies between the return of a failed sync and the commit that tells of it: Linux
//! reports the failure once, so nobody can know afterwards. Late writes do not change a file's
//! times (hard case B1 (3)). The journal store has one writer at a time, as its lock ensures; a
//! controller that was replaced is fenced at the heads alone. One source. Scans are not
//! interrupted. Where several peers share a transfer: names and attributes are stable when the call
//! returns, as on NFS; requests and answers between peers and controller are lost together with one
//! of them, and come late otherwise; a new controller has every task begun anew.

#![forbid(unsafe_code)]

mod disk;
mod journal;
mod oracle;
mod outside;
mod peer;
mod scenario;
mod several;
mod source;
mod world;

use std::fmt;

pub use scenario::{Fault, SCENARIOS, SEVERAL, Scenario};

/// What happened in a world that kept all promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events that took place.
    pub events: u64,
    /// Milliseconds that passed in the world.
    pub milliseconds: u64,
    /// Entries of the data set.
    pub entries: u64,
    /// Faults that took place.
    pub faults: u64,
    /// Times that a daemon was started.
    pub starts: u64,
    /// Starts that found the store older than the ledger (A5).
    pub doubts: u64,
    /// Snapshots that the store was put back to.
    pub rollbacks: u64,
    /// Pieces that were handed out to be fetched.
    pub fetches: u64,
    /// Pieces that were looked at again after a restart.
    pub rechecks: u64,
    /// Syncs, and those that failed.
    pub syncs: u64,
    /// See `syncs`.
    pub syncs_failed: u64,
    /// Commits of the ledger.
    pub commits: u64,
    /// Lanes cut for their silence.
    pub lanes_cut: u64,
    /// Bytes written that came over the network.
    pub bytes_fetched: u64,
    /// Bytes of pieces that came more than once.
    pub bytes_again: u64,
    /// Writes of processes that were gone already.
    pub late_writes: u64,
    /// Replaced controllers that tried to commit.
    pub zombies: u64,
    /// Temporary files that were left over in the end.
    pub orphans: u64,
    /// Peers whose grants lapsed, or that were known to be dead.
    pub peers_lost: u64,
    /// Pieces that a peer gave back for another.
    pub given_back: u64,
    /// Bytes that a new controller took over from what peers wrote for the one before.
    pub adopted: u64,
}

/// A promise was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The world's seed.
    pub seed: u64,
    /// The scenario's name.
    pub scenario: &'static str,
    /// When, in milliseconds of the world.
    pub milliseconds: u64,
    /// Which promise, and how.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, scenario, milliseconds, what } = self;
        write!(f, "seed {seed}, scenario {scenario}, at {milliseconds} ms: {what}")
    }
}

impl std::error::Error for Violation {}

/// Runs the world of `seed` until its transfer is done. Takes some milliseconds.
///
/// # Errors
/// The first promise that was broken.
pub fn run(seed: u64, scenario: &Scenario) -> Result<Stats, Violation> {
    match scenario.several {
        true => several::World::new(seed, scenario).run(seed),
        false => world::World::new(seed, scenario).run(seed),
    }
}
