//! The nouns of Penstock and their bytes, on the wire and on disk.
//!
//! Everything here is plain data: no I/O, no clock, no threads. A value that arrives from another
//! peer or from a disk is parsed into these types once, at the edge, and is valid from then on.
//! Every decoder accepts hostile bytes and returns a [`wire::DecodeError`], never panics.
//!
//! - [`text`]: text from elsewhere, as people may see it
//! - [`units`]: byte counts, rates, file times
//! - [`id`]: transfers, sites, peers, stores, lanes
//! - [`network`]: purposes of networks, addresses of lanes
//! - [`name`]: paths and names, which are bytes
//! - [`attributes`]: owners, devices, extended attributes
//! - [`manifest`]: entries and pages of a data set
//! - [`listing`]: listings by one peer for another of its site
//! - [`select`]: patterns and rules that choose paths
//! - [`slicing`]: cutting of a page into pieces, stored in the page
//! - [`digest`]: stride digests and their merging into the BLAKE3 of a file
//! - [`checksum`]: checksums of catalogues and other tools, and lists of them
//! - [`frame`]: messages of a lane (normative text in `docs/protocol.md`)
//! - [`text`]: escaping of text that another host or user has written
//! - [`capability`]: the signed right to read one data set
//! - [`compared`]: entries that stay as they are at the target
//! - [`journal`]: records of the ledger's page logs on disk
//! - [`task`]: work and reports between a controller and its peers
//! - [`time_use`]: the time that threads spend on each activity, and what limits a transfer
//! - [`session`]: a conversation of two hosts that outlives its connections
//! - [`version`]: versions of a build, and the common one of two builds
//! - [`mod@benchmark`]: operations that a benchmark of a store measures
//! - [`wire`]: the little-endian reader and writer of all of them

#![forbid(unsafe_code)]

pub mod attributes;
pub mod benchmark;
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
#[cfg(feature = "openapi")]
mod schema;
pub mod select;
pub mod session;
pub mod slicing;
pub mod task;
pub mod text;
pub mod time_use;
pub mod units;
pub mod version;
pub mod wire;
