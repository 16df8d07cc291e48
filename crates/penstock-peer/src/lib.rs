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
//! | `opening` | the table of scans, and how one is opened |
//! | `threads` | work by several threads, where there may be fewer |
//! | `turn` | one at a time, though a store may hang |
//! | `guard` | what a data set lies on, so that a store that is gone is told from vanished items |
//! | `ordered` | by whose order it scans and removes |
//! | `scan` | lists a data set in parallel, into pages on disk |
//! | `waiting` | directories that wait to be listed, in bounded memory |
//! | `read` | reads one request's bytes, hashes them, hands on frames |
//! | `again` | whether a file that was read is still what its page says |
//! | `ramp` | how large the first frames of a lane over distance are |
//! | `serve` | one lane at the source |
//! | `sight` | whether this host sees what another has listed |
//! | `wished` | digests of files that a target wishes to compare with its own |
//! | `removal` | removes at the source what its target has |
//! | `target` | the target side: tasks by transfer |
//! | `mounted` | what is mounted where a data set goes |
//! | `fault` | errors at a target that are no item's fault |
//! | `compare` | looks at what stands at the target before a page is opened |
//! | `look` | says what a transfer would do with a page |
//! | `surplus` | finds and deletes what is at the target and not in the data set |
//! | `far` | the same for a controller on another host |
//! | `task` | one task: its machines, its threads, its reports |
//! | `ending` | how a task ends, also where a thread of it does not |
//! | `hang` | whether a task's publisher hangs in a call to its store |
//! | `grant` | until when a task may write |
//! | `back` | what a task gives back |
//! | `lane` | one lane at the target |
//! | `local` | a lane without a network, between two stores of this host |
//! | `large` | the open files of a task that several lanes write to, and perhaps several peers |
//! | `held` | finished files that have no name yet |
//! | `left` | how a task ends, and what it leaves for another controller |
//! | `write` | checks what arrives and writes it under temporary names, or none |
//! | `keep` | what an entry gets at the target beside its bytes |
//! | `load` | what this host has in hand, for those who look after it |
//! | `paths` | which addresses lanes go between, and what is known of them |
//! | `pacer` | puts threads to sleep so that a limit is held |
//! | `share` | what a task may use of the limits of its transfer |
//! | `publish` | syncs, renames, links, attributes, re-checks |
//! | `first_name` | names that another peer has just given, or ours whose reply was lost |
//! | `settle` | gives files that several hosts have written their times late |
//! | `prove` | reads what was published again, for checksums and `--readback` |
//! | `confirm` | looks at what was moved once more, before it is removed at the source |
//! | `looked` | reads what other hosts have written, past what this host's cache keeps of it |
//! | `mend` | sets attributes again that a late writer may have moved |
//! | `hashing` | reads files and hashes them, where no transfer does |
//! | [`verify`] | compares trees, and trees with lists of checksums, without a ledger |

#![forbid(unsafe_code)]

mod lane;

mod publish;
mod scan;
mod source;
mod stores;
mod target;
mod task;
pub mod verify;
mod write;

pub use lane::paths::{LocalEnds, PathListener, PathNews, PathNote};
pub use lane::standing::RightHolds;
pub use penstock_engine::paths::{LocalEnd, PathEnds, PathState, pair};
pub use scan::{Helpers, Listing, ScanOptions};
pub use source::leased_source::OrderedSource;
pub use source::{LaneRight, LaneVerifier, SourceService};
pub use stores::{STORE_OFFLINE, StoreKind, StoreSpec, Stores};
pub use target::cleanup::{Cleaner, LeftOver, clean_below};
pub use target::extraneous::{
    Dealt, LIST_DIRECTORIES_MAX, TakeSurplus, TargetLister, each_listed, find_surplus_with,
};
pub use target::{LaneConfig, LaneConnect, TargetService};
