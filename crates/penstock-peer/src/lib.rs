//! One host's data plane at run time: scan, serve, fetch, verify, write, publish.
//!
//! The machines of `penstock-engine` decide, `penstock-io` makes the system calls; here are the
//! threads between them. Nothing in this crate is async: a lane is one thread that blocks on its
//! socket, takes a hot buffer when bytes are there, and runs each stride to completion (receive,
//! open, hash, compare, write) before it takes the next (docs/design/0003).
//!
//! | module | duty |
//! |---|---|
//! | `stores` | the stores that this host reaches, by name |
//! | `source` | the source side: scans, and the lanes it serves |
//! | `ordered` | by whose order it scans and removes |
//! | `scan` | lists a data set in parallel, into pages on disk |
//! | `read` | reads one request's bytes, hashes them, hands on frames |
//! | `serve` | one lane at the source |
//! | `sight` | whether this host sees what another has listed |
//! | `target` | the target side: tasks by transfer |
//! | `compare` | looks at what stands at the target before a page is opened |
//! | `look` | says what a transfer would do with a page |
//! | `surplus` | finds and deletes what is at the target and not in the data set |
//! | `far` | the same for a controller on another host |
//! | `task` | one task: its machines, its threads, its reports |
//! | `grant` | until when a task may write |
//! | `back` | what a task gives back |
//! | `lane` | one lane at the target |
//! | `large` | the open files of a task that several lanes write to, and perhaps several peers |
//! | `left` | how a task ends, and what it leaves for another controller |
//! | `write` | checks what arrives and writes it under temporary names |
//! | `load` | what this host has in hand, for those who look after it |
//! | `paths` | which addresses lanes go between, and what is known of them |
//! | `pacer` | puts threads to sleep so that a limit is held |
//! | `share` | what a task may use of the limits of its transfer |
//! | `publish` | syncs, renames, links, attributes, re-checks |
//! | `prove` | reads what was published again, for checksums and `--readback` |
//! | `mend` | sets attributes again that a late writer may have moved |
//! | `hashing` | reads files and hashes them, where no transfer does |
//! | [`verify`] | compares trees, and trees with lists of checksums, without a ledger |

#![forbid(unsafe_code)]

mod again;
mod back;
mod compare;
mod confirm;
mod ending;
mod far;
mod first_name;
mod grant;
mod guard;
mod hang;
mod hashing;
mod keep;
mod lane;
mod large;
mod left;
mod load;
mod local;
mod look;
mod looked;
mod mend;
mod mounted;
mod ordered;
mod prove;

mod pacer;
mod paths;
mod publish;
mod ramp;
mod read;
mod removal;
mod scan;
mod serve;
mod settle;
mod share;
mod sight;
mod source;
mod stores;
mod surplus;
mod target;
mod task;
pub mod verify;
mod waiting;
mod wished;
mod write;

pub use ordered::OrderedSource;
pub use paths::{LocalEnds, PathListener, PathNews, PathNote};
pub use penstock_engine::paths::{LocalEnd, PathEnds, PathState, pair};
pub use scan::{Helpers, Listing, ScanOptions};
pub use source::{LaneVerifier, SourceService};
pub use stores::{StoreKind, StoreSpec, Stores};
pub use surplus::{
    Dealt, LIST_DIRECTORIES_MAX, TakeSurplus, TargetLister, each_listed, find_surplus_with,
};
pub use target::{LaneConfig, LaneConnect, TargetService};
