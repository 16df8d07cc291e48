//! A simulated world, made from a seed, that drives the machines of `penstock-engine` through all
//! modelled faults.
//!
//! The seed determines the whole world: the data set, the order and the delays of all events,
//! broken lanes, power cuts and the parts of the page cache that survive them. Machines, pages and
//! journal records are the real ones; threads, sockets and files are not. The peer's edge, the
//! network, the source and the disk are small models, and time is a number.
//!
//! | module | model |
//! |---|---|
//! | `source` | the data set, whose bytes are symbolic, and its faults. |
//! | `disk` | page cache and platters, syncs that fail, power cuts (A1, A4, A9). |
//! | `journal` | page logs and heads, torn tails, the fence of the controller (A2, A8). |
//! | `outside` | time, chance, network. |
//! | `peer` | the target peer's edge around fetch, lanes and epochs. |
//! | `world` | the controller's edge, faults, the loop. |
//! | `several` | a world in which several target peers share a transfer. |
//! | `oracle` | the promises (a) to (e) and (h) of the design, and the end of every world. |
//!
//! # What is not modelled
//! - A process that dies between the return of a failed sync and the commit that records it: Linux
//!   reports the failure once, so that it is lost.
//! - Late writes that change a file's times (hard case B1 (3)).
//! - Several writers of the journal store: its lock ensures that there is one. A controller that
//!   was replaced is fenced at the heads alone.
//! - Several sources, and interrupted scans.
//! - A host that is stopped again before it wakes.
//! - Where several peers share a transfer, names and attributes that are not stable when the call
//!   returns: they are as on NFS. Requests and answers between peers and controller are lost only
//!   together with one of them, and otherwise come late. A new controller starts every task again.

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

/// Statistics of a world that kept all promises.
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
    /// Snapshots to which the store was put back.
    pub rollbacks: u64,
    /// Pieces that were handed out to be fetched.
    pub fetches: u64,
    /// Pieces that were checked again after a restart.
    pub rechecks: u64,
    /// Syncs, including failed ones.
    pub syncs: u64,
    /// Syncs that failed.
    pub syncs_failed: u64,
    /// Commits of the ledger.
    pub commits: u64,
    /// Lanes cut for their silence.
    pub lanes_cut: u64,
    /// Bytes written that came over the network.
    pub bytes_fetched: u64,
    /// Bytes of pieces that came more than once.
    pub bytes_again: u64,
    /// Writes of processes that had already ended.
    pub late_writes: u64,
    /// Replaced controllers that tried to commit.
    pub zombies: u64,
    /// Temporary files that remained in the end.
    pub orphans: u64,
    /// Peers whose grants lapsed, or that were known to be dead.
    pub peers_lost: u64,
    /// Pieces that a peer returned for another.
    pub given_back: u64,
    /// Bytes that a new controller adopted from writes for the previous one.
    pub adopted: u64,
}

/// Violation of a promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The world's seed.
    pub seed: u64,
    /// The scenario's name.
    pub scenario: &'static str,
    /// Time, in milliseconds of the world.
    pub milliseconds: u64,
    /// The promise, and the violation.
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
