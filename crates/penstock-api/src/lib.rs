//! The contract between controller and peer, and between Penstock and its users.
//!
//! Controller and peer never name each other; both name this crate, and the binary connects them.
//!
//! | module | between: about |
//! |---|---|
//! | [`access`] | users, daemon: users, roles, rights, tokens |
//! | [`place`] | all: paths, and places in stores |
//! | [`outcome`] | all: failed items, and when a file counts as durable |
//! | [`transfer`] | users, controller: requests, options, states, progress, summaries |
//! | [`update`] | users, controller: treatment of what exists at the target |
//! | [`deadline`] | users, controller: times by which transfers have to be done |
//! | [`limits`] | users, controller: limits to what a transfer may use |
//! | [`select`] | users, source site: selection of the items of a source |
//! | [`plan`] | users, controller, peers: plans, and transfers that follow them |
//! | [`preserve`] | all: attributes that are preserved, and those that were not |
//! | [`scan`] | controller, source site: opening a data set, pulling its pages |
//! | [`task`] | controller, its peers: grants, reports, sync epochs |
//! | [`delete`] | controller, its peers: deleting what is not at the source |
//! | [`peers`] | controller, its peers: the peers that take part in a run |
//! | [`fence`] | controller, its peers: the right of a controller to act |
//! | [`request`] | controller, its peers: requests with one reply |
//! | [`rpc`] | controller, peers on other hosts: the same requests over the network |
//! | [`removal`] | controller, source site: removing what was moved |
//! | [`cluster`] | peers of one site: what peers publish of themselves |
//! | [`operate`] | operators, daemon: peers, their work, events, findings |
//! | [`io_problem`] | controller, source site: errors of the journal store |
//! | [`heads`] | controller, state database: committed state of a ledger |
//! | [`proof`] | users, controller, peers: reading again, checksums, receipts |
//! | [`receipt`] | sites, later readers: what was moved and proved, signed |
//! | [`endpoints`] | users, daemon, its peers: the table of all endpoints of `/api/v1` |
//! | [`queue`] | users, controller: rules of the queue, deadlines, actions on many transfers |
//! | `openapi` | users, daemon: the OpenAPI document of `/api/v1`; with the feature `openapi` |
//! | [`rest`] | users, daemon: events, sites, stores, audit log; reading of requests |
//! | [`paths`] | users, daemon, sites: addresses that reach each other |
//! | [`settings`] | operators, daemon: the configuration and its faults |
//! | [`statistics`] | users, peers of one site: figures over time, and summaries of them |
//! | [`mod@benchmark`] | operators, daemon: benchmarks of stores and their results |
//! | [`site`] | sites: opening a data set, pairing |
//! | [`keys`] | sites, peers of one site: replacing the keys of a site |
//! | [`webhook`] | users, daemon, receivers: requests that tell of ended transfers |
//! | [`text`] | every API: reading of fields for people |
//! | [`timestamp`] | users, daemon: times |
//! | [`bottleneck`] | users, peers: the cause that limits the rate of a transfer |
//! | [`time_use`] | users, controller, its peers: time of a transfer's threads by activity |
//! | [`problem`] | every API, its client: problems, and their RFC 9457 form |

#![forbid(unsafe_code)]

pub mod access;
pub mod bottleneck;
pub mod cluster;
pub mod endpoints;
pub mod io_problem;
pub mod keys;
#[cfg(feature = "openapi")]
pub mod openapi;
pub mod operate;
mod options;
pub mod outcome;
pub mod paths;
pub mod place;
pub mod plan;
pub mod problem;
pub mod proof;
pub mod queue;
pub mod receipt;
pub mod rest;
pub mod rpc;
mod run;
pub mod site;
pub mod text;
pub mod time_use;
pub mod timestamp;
pub mod transfer;

pub use operate::{benchmark, settings, statistics, webhook};
pub use options::{deadline, limits, preserve, select, update};
pub use run::{delete, fence, heads, peers, removal, request, scan, task};
