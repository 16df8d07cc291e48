//! The unit of a request: a part of a piece.

use penstock_proto::slicing::PieceRef;

/// A part of a piece that is asked for at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The piece.
    pub piece: PieceRef,
    /// Attempt at the file.
    pub generation: u32,
    /// True if the temporary file is to be made here: no peer has written to this attempt at the
    /// file yet. True for all items of a pack, and for those of an extent until one has failed.
    pub fresh: bool,
    /// First entry.
    pub first_entry: u32,
    /// Index behind the last entry.
    pub end_entry: u32,
    /// Start of the extent; 0 for whole files.
    pub offset: u64,
    /// Bytes of the extent; 0 for whole files.
    pub length: u64,
    /// Bytes expected.
    pub bytes: u64,
    /// Number of the attempt, from 1.
    pub attempt: u8,
}

/// An item that is asked for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number on the lane's wire; unique within the task.
    pub request: u32,
    /// The item to ask for.
    pub item: Item,
}
