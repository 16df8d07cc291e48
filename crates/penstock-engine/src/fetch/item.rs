//! The unit of a request: a part of a piece.

use penstock_proto::slicing::PieceRef;

/// A part of a piece that is asked for at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// The piece.
    pub piece: PieceRef,
    /// Attempt at the file.
    pub generation: u32,
    /// The temporary file is to be made here: nobody has written to this attempt at the file yet.
    /// True of all items of a pack, and of those of an extent until one has failed.
    pub fresh: bool,
    /// First entry.
    pub first_entry: u32,
    /// One behind the last entry.
    pub end_entry: u32,
    /// Start of the extent; 0 for whole files.
    pub offset: u64,
    /// Bytes of the extent; 0 for whole files.
    pub length: u64,
    /// Bytes expected.
    pub bytes: u64,
    /// Which attempt this is, from 1.
    pub attempt: u8,
}

/// An item that is asked for now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number on the lane's wire; unique within the task.
    pub request: u32,
    /// What to ask.
    pub item: Item,
}
