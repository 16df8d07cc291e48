//! The contract: what controller and peer say to each other, and what users see of a transfer.
//!
//! Controller and peer never name each other; both name this crate. The binary puts them together.
//!
//! | module | between whom |
//! |---|---|
//! | [`place`] | all of them: paths, and places in stores |
//! | [`outcome`] | all of them: failed items, and when a file counts as durable |
//! | [`transfer`] | users and the controller: requests, options, states, progress, summaries |
//! | [`update`] | the same: how what is at the target already is treated |
//! | [`limits`] | users, and who moves their data: how much of the world it may use |
//! | [`select`] | users and a source site: what of a source belongs to a data set |
//! | [`plan`] | users, controller and peers: what a transfer would do, and a transfer that does just that |
//! | [`preserve`] | all of them: which attributes are kept, and which were not |
//! | [`scan`] | a target's controller and a source site: open a data set, pull its pages |
//! | [`task`] | a target's controller and its peers: grants, reports, sync epochs |
//! | [`rpc::task`] | the same, where the peer is another host of the site |
//! | [`rpc::streaming`] | the same, for requests that take the peer long |
//! | [`delete`] | the same: deleting what is not at the source |
//! | [`peers`] | the same: who takes part in a run |
//! | [`fence`] | the same: whether a controller, or a peer, may still act |
//! | [`rpc::source`] | a source's controller and a peer on another host that has the store |
//! | [`removal`] | a target's controller and a source: removing what was moved |
//! | [`cluster`] | peers of one site: what they tell of themselves |
//! | [`operate`] | operators and the daemon: peers, what they have in hand, events, findings |
//! | [`journal`] | the same, and what a source keeps: what an error of the journal store means |
//! | [`heads`] | the controller and its state database: what of a ledger is committed |
//! | [`proof`] | users, controller and peers: reading again, checksums, receipts |
//! | [`receipt`] | sites, and whoever checks later: what was moved and proved, signed |
//! | [`rest`] | users and the daemon: events, sites, pairing, stores |
//! | [`paths`] | users and the daemon, and sites: which addresses reach each other |
//! | [`site`] | sites with each other: open a data set, pair |
//! | [`problem`] | every API and its client: RFC 9457 problem details |

#![forbid(unsafe_code)]

pub mod cluster;
pub mod delete;
pub mod fence;
pub mod heads;
pub mod journal;
pub mod limits;
pub mod operate;
pub mod outcome;
pub mod paths;
pub mod peers;
pub mod place;
pub mod plan;
mod plan_use;
pub mod preserve;
pub mod problem;
pub mod proof;
pub mod receipt;
pub mod removal;
pub mod rest;
pub mod rpc;
pub mod scan;
pub mod select;
pub mod site;
pub mod task;
mod task_page;
pub mod transfer;
pub mod update;
