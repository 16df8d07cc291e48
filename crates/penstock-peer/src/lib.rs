//! One host's data plane at run time: scan, serve, fetch, verify, write, publish.
//!
//! The machines of `penstock-engine` decide, and `penstock-net` and `penstock-store` make the
//! calls of the system; this crate holds the threads between them. Nothing in this crate is async.
//! A lane is one thread that blocks on its socket and takes a hot buffer when bytes are there. It
//! runs each stride to completion (receive, open, hash, compare, write) before the next
//! (docs/design/0003).
//!
//! - `stores`: the stores that this host reaches, calls on them that may hang, and their errors.
//! - `entries`: entries of a directory of a store, for users who look into it.
//! - `scan`: lists a data set in parallel, into pages on disk, alone or with other peers.
//! - `source`: the source side. It holds the registry of scans, served lanes, and removal.
//! - `lane`: the target's end of a lane, with dialling, path choice and the receiving loop.
//! - `write`: checks received files, and writes them with their attributes under temporary names.
//! - `publish`: syncs, renames, links, directories, and the check of each entry afterwards.
//! - `target`: the target side. It holds tasks, comparison, deletion, read-back and repair.
//! - `traffic`: counters of lanes by site.
//! - `served_transfers`: counters of transfers that are read here.
//! - `benchmark`: this host's part in a benchmark of a store.
//! - `task`: one task with its machines, its threads, its reports and its end.
//! - [`verify`]: compares trees, and trees with lists of checksums, without a ledger.
//!
//! The page of each folder describes its modules.

#![forbid(unsafe_code)]

mod benchmark;
mod entries;
mod lane;
mod publish;
mod scan;
mod served_transfers;
mod source;
mod stores;
mod target;
mod task;
mod traffic;
pub mod verify;
mod write;

pub use benchmark::BenchmarkHost;
pub use entries::{list_entries, make_directory, store_space};
pub use lane::breach::{Breaches, Held, is_breach};
pub use lane::dialer::LaneConnect;
pub use lane::open_lanes::{NoRight, RightHolds};
pub use lane::path_notes::{LocalEnds, PathListener, PathNews, PathNote};
pub use penstock_engine::fetch::ResentBytes;
pub use penstock_engine::paths::{LocalEnd, PathEnds, PathState, pair};
pub use scan::{Helpers, Listing, ScanOptions};
pub use served_transfers::TransferTraffic;
pub use source::interrupted_removal::has_begun_to_remove;
pub use source::leased_source::LeasedSource;
pub use source::{LaneRight, LaneVerifier, SourceMemory, SourceService};
pub use stores::{StoreFigures, StoreKind, StoreSpec, Stores};
pub use target::cleanup::{Cleaner, LeftOver, clean_below};
pub use target::extraneous::{
    Dealt, LIST_DIRECTORIES_MAX, TakeSurplus, TargetLister, each_listed, find_surplus_with,
};
pub use target::{LaneConfig, TargetService};
pub use task::load::{SourceFigures, TargetFigures, TaskQueues};
pub use traffic::TrafficFigures;
