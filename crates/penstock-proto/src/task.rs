//! What a target's controller and its peers say to each other about pieces: work and reports.
//!
//! Both are plain data, so that the same words serve a peer in the controller's own process and one
//! across the network. The traits that carry them are `penstock_api::task`.

use crate::journal::{EntryDigest, EntryFailure};
use crate::slicing::PieceRef;

/// One thing that a peer is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Fetch a piece, check it, write it.
    Fetch {
        /// Which.
        piece: PieceRef,
        /// Attempt at the file (hard case B1).
        generation: u32,
        /// No extent of the file was ever written in this generation: its temporary file is to be
        /// made anew. Always true of packs.
        fresh: bool,
    },
    /// The piece was written before a restart. With `doubt` its bytes are read back and compared
    /// with `digests`; without, they are as good as written just now (A2, A5).
    Recheck {
        /// Which.
        piece: PieceRef,
        /// Attempt at the file.
        generation: u32,
        /// Whether a power cut, another mount or another store may have lost it.
        doubt: bool,
        /// What the ledger knows of its files or its extent.
        digests: Vec<EntryDigest>,
        /// Entries of it that failed for good.
        failures: Vec<EntryFailure>,
    },
    /// All extents of a file are durable: give it its attributes and its name (A6).
    Finish {
        /// The finish piece of the file.
        piece: PieceRef,
        /// Attempt at the file.
        generation: u32,
    },
    /// Remove what was begun of a file that failed.
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

/// What a peer has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A piece is written (or was found written), under temporary names or none.
    Written {
        /// Which.
        piece: PieceRef,
        /// Attempt at the file.
        generation: u32,
        /// The sync epoch in which the last of its writes returned.
        epoch: u64,
        /// Digests of its files, or of its extent.
        digests: Vec<EntryDigest>,
        /// Entries of it that failed for good.
        failures: Vec<EntryFailure>,
        /// Whether its bytes came over the network now, rather than being found.
        fetched: bool,
    },
    /// A piece, or a finished file, is not there and could not be had, or it was given back before
    /// anything of it was asked for or written: it is missing again. The peer does not write to it
    /// any more, whatever still arrives (B3).
    Returned {
        /// Which.
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
        /// Which.
        piece: PieceRef,
        /// Attempt at the file.
        generation: u32,
        /// The sync epoch in which the last rename returned.
        epoch: u64,
        /// Entries that could not get their name or attributes.
        failures: Vec<EntryFailure>,
    },
    /// All that was written or renamed in epochs up to this one is on stable storage.
    Synced {
        /// The epoch.
        epoch: u64,
    },
    /// Syncing failed: nothing that was not durable before can be believed (A4).
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

/// What a peer gets when it asks for work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkReply {
    /// What to do now.
    pub work: Vec<Work>,
    /// Nothing more can be fetched until what was written is durable: seal the sync epoch now.
    pub flush: bool,
    /// Another peer could do some of what this one has in hand: pieces worth about so many bytes of
    /// which nothing is asked for yet are to be given back, the last of its queue first, each with
    /// [`Report::Returned`]. 0 for none; `u64::MAX` for all, because the peer is to go. What has
    /// begun is kept: no piece is written by two peers at a time (B3).
    pub give_back: u64,
}
