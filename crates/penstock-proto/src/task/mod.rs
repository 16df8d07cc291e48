//! Messages of a target's controller and its peers about pieces: work and reports.
//!
//! Both are plain data, so that the same types serve a peer in the controller's own process and one
//! across the network. The traits that carry them are `penstock_api::task`.

mod bytes;

use crate::journal::{EntryDigest, EntryFailure};
use crate::slicing::PieceRef;

/// A unit of work for a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Fetch a piece, check it, write it.
    Fetch {
        /// The piece.
        piece: PieceRef,
        /// Attempt at the file (hard case B1).
        generation: u32,
        /// True if no extent of the file was ever written in this generation: its temporary file is
        /// to be made again. Always true for packs.
        fresh: bool,
    },
    /// Check a piece that was written before a restart. With `doubt` its bytes are read back and
    /// compared with `digests`; without, they count as written just now (A2, A5).
    Recheck {
        /// The piece.
        piece: PieceRef,
        /// Attempt at the file.
        generation: u32,
        /// True if a power cut, another mount or another store may have lost it.
        doubt: bool,
        /// Digests of its files or its extent that the ledger knows.
        digests: Vec<EntryDigest>,
        /// Entries of it that failed for good.
        failures: Vec<EntryFailure>,
    },
    /// Set the attributes and the name of a file whose extents are all durable (A6).
    Finish {
        /// The finish piece of the file.
        piece: PieceRef,
        /// Attempt at the file.
        generation: u32,
    },
    /// Remove the temporary file of a file that failed.
    Discard {
        /// Number of the page.
        page: u32,
        /// Index of the entry.
        entry: u32,
        /// Attempt at the file.
        generation: u32,
    },
    /// Make the directories and links of a page; its files are all there.
    Links {
        /// Number of the page.
        page: u32,
    },
    /// Set the attributes of the directories of a page, last to first.
    Directories {
        /// Number of the page.
        page: u32,
    },
}

/// Result of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A piece is written (or was found written), under temporary names.
    Written {
        /// The piece.
        piece: PieceRef,
        /// Attempt at the file.
        generation: u32,
        /// The sync epoch in which the last of its writes returned.
        epoch: u64,
        /// Digests of its files, or of its extent.
        digests: Vec<EntryDigest>,
        /// Entries of it that failed for good.
        failures: Vec<EntryFailure>,
        /// True if its bytes came over the network now, rather than being found.
        fetched: bool,
    },
    /// A piece, or a finished file, is missing again. Either it could not be fetched, or the peer
    /// returned it before any of it was asked for or written. The peer no longer writes to it,
    /// whatever still arrives (B3).
    Returned {
        /// The piece.
        piece: PieceRef,
        /// Attempt at the file.
        generation: u32,
    },
    /// The temporary file of a large file is gone: all its extents are missing.
    Lost {
        /// Number of the page.
        page: u32,
        /// Index of the entry.
        entry: u32,
        /// Attempt at the file.
        generation: u32,
    },
    /// The files of a pack, or a finished large file, have their names.
    Published {
        /// The piece.
        piece: PieceRef,
        /// Attempt at the file.
        generation: u32,
        /// The sync epoch in which the last rename returned.
        epoch: u64,
        /// Entries that could not get their name or attributes.
        failures: Vec<EntryFailure>,
    },
    /// All writes and renames of epochs up to this one are on stable storage.
    Synced {
        /// The epoch.
        epoch: u64,
    },
    /// Syncing failed: only data that was durable before can be trusted (A4).
    SyncFailed {
        /// The epoch.
        epoch: u64,
        /// errno(3).
        errno: u16,
    },
    /// The links of a page are made.
    LinksDone {
        /// Number of the page.
        page: u32,
        /// Entries that failed.
        failures: Vec<EntryFailure>,
        /// The sync epoch in which the last of them was made.
        epoch: u64,
    },
    /// The directories of a page have their attributes.
    DirectoriesDone {
        /// Number of the page.
        page: u32,
        /// Entries that failed.
        failures: Vec<EntryFailure>,
        /// The sync epoch in which the last of them was set.
        epoch: u64,
    },
}

/// Answer to a peer that asks for work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkReply {
    /// Work to do now.
    pub work: Vec<Work>,
    /// True if nothing more can be fetched until the written data is durable: seal the sync epoch
    /// now.
    pub flush: bool,
    /// Bytes of work to return, because another peer could do it: pieces that are not asked for
    /// yet, worth about so many bytes. The last of the peer's queue are first, each with
    /// [`Report::Returned`]. 0 for none; `u64::MAX` for all, because the peer is to leave. Pieces
    /// that have begun are kept: no piece is written by two peers at a time (B3).
    pub give_back: u64,
}
