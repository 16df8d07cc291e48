//! The nouns of Penstock and their bytes, on the wire and on disk.
//!
//! Everything here is plain data: no I/O, no clock, no threads. A value that arrives from another
//! peer or from a disk is parsed into these types once, at the edge, and is valid from then on;
//! every decoder takes hostile bytes and answers with a [`wire::DecodeError`], never with a panic.
//!
//! | module | what it names |
//! |---|---|
//! | [`units`] | byte counts, rates, points in time of a file system |
//! | [`id`] | transfers, sites, peers, stores, lanes |
//! | [`network`] | what networks are for, where peers take lanes |
//! | [`name`] | paths and names, which are bytes |
//! | [`attributes`] | owners, devices, extended attributes of entries |
//! | [`manifest`] | entries and pages of a data set |
//! | [`listing`] | what one peer lists for another of its site |
//! | [`select`] | which paths of a data set are wanted: patterns and rules |
//! | [`slicing`] | how a page is cut into pieces, stored in the page itself |
//! | [`digest`] | stride digests and how they merge into the BLAKE3 of a file |
//! | [`checksum`] | checksums that catalogues and other tools know, and lists of them |
//! | [`frame`] | the messages of a lane (normative text: `docs/protocol.md`) |
//! | [`capability`] | the signed right to read one data set |
//! | [`compared`] | what stays as it is at the target |
//! | [`journal`] | the records of the ledger's page logs on disk |
//! | [`task`] | work and reports between a controller and its peers |
//! | [`session`] | a conversation of two hosts that outlives its connections |
//! | [`version`] | which versions a build knows, and how two that differ find one |
//! | [`wire`] | the little-endian reader and writer that all of them use |

#![forbid(unsafe_code)]

pub mod attributes;
pub mod capability;
pub mod checksum;
pub mod compared;
pub mod digest;
pub mod frame;
pub mod id;
pub mod journal;
pub mod listing;
pub mod manifest;
pub mod name;
pub mod network;
pub mod select;
pub mod session;
pub mod slicing;
pub mod task;
mod task_bytes;
pub mod units;
pub mod version;
pub mod wire;
