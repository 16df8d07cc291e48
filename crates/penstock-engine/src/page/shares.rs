//! The states of the bytes of a page, for the piece map.

use std::collections::BTreeMap;

use penstock_proto::manifest::{EntryKind, Page};

use super::{PageLedger, PieceState};
use crate::slice::{Piece, travels_whole};

/// The state of a byte of the data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// At the target, on stable storage; or at the target before, and unchanged.
    Done,
    /// Written, and not durable yet; or written before a restart, and to be checked again.
    Written,
    /// In the hands of a peer: it fetches them, or is to.
    InHand,
    /// Missing again after a peer had them: returned, lost, damaged, or changed at the source.
    Again,
    /// Failed for good.
    Failed,
    /// Not asked for yet.
    Left,
}

/// The number of shares.
pub const SHARES: usize = 6;

/// Bytes by share, in the order of [`Share`].
pub type ShareBytes = [u64; SHARES];

/// A part of a page whose bytes have one share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) share: Share,
    pub(crate) bytes: u64,
    /// Entries that failed in it.
    pub(crate) failures: u64,
}

/// Subtracts `taken` from `from`, as far as that goes, and returns the result; `taken` keeps the
/// rest.
fn take(from: u64, taken: &mut u64) -> u64 {
    let part = from.min(*taken);
    *taken -= part;
    from - part
}

impl PageLedger {
    /// Returns the share of a piece.
    fn share(&self, piece: u32) -> Share {
        match self.state(piece) {
            PieceState::Missing if self.again[piece as usize] => Share::Again,
            PieceState::Missing => Share::Left,
            PieceState::Granted if self.rechecking.contains(&piece) => Share::Written,
            PieceState::Granted => Share::InHand,
            PieceState::Written | PieceState::Published => Share::Written,
            PieceState::Durable => Share::Done,
            PieceState::Excepted => Share::Failed,
        }
    }

    /// Returns the entries that failed in a piece; those of a large file are of its finish.
    fn failures_in(&self, piece: u32) -> u64 {
        let is_finish = matches!(self.pieces[piece as usize], Piece::Finish { .. });
        let lost = is_finish && self.state(piece) == PieceState::Excepted;
        self.failed.get(&piece).copied().unwrap_or(0) + u64::from(lost)
    }

    /// Returns the parts of the page in the order of its pieces, after those that are in no piece.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let pieces = (0..self.pieces.len() as u32).map(|piece| Span {
            share: self.share(piece),
            bytes: self.pieces[piece as usize].bytes(),
            failures: self.failures_in(piece),
        });
        let mut pieces: Vec<Span> = pieces.collect();
        let left_bytes = self.take_replaced(&mut pieces);
        let placed = pieces.iter().map(|span| span.failures).sum();
        let failures = self.counts().3.saturating_sub(placed);
        let mut spans = vec![
            Span { share: Share::Failed, bytes: self.refused_bytes(), failures },
            Span { share: Share::Done, bytes: left_bytes, failures: 0 },
        ];
        for span in pieces {
            match spans.last_mut() {
                Some(last) if last.share == span.share && span.failures == 0 => {
                    last.bytes += span.bytes;
                }
                _ => spans.push(span),
            }
        }
        spans
    }

    /// Removes the entries that later pages replace from the bytes and failures of pieces. Returns
    /// the bytes of files in no piece without them. For files in packs only the sums are exact.
    fn take_replaced(&self, pieces: &mut [Span]) -> u64 {
        let (mut bytes, mut failures) = (self.amended.bytes, u64::from(self.amended.failures));
        for file in self.amended.entries.iter().filter_map(|entry| self.large.get(entry)) {
            file.extents().for_each(|piece| pieces[piece as usize].bytes = 0);
            pieces[file.finish as usize].failures = 0;
            match file.failed {
                true => failures = failures.saturating_sub(1),
                false => bytes = bytes.saturating_sub(file.bytes),
            }
        }
        let left_bytes = take(self.left_bytes, &mut bytes);
        for (span, piece) in pieces.iter_mut().zip(&self.pieces) {
            if matches!(piece, Piece::Pack { .. }) {
                span.bytes = take(span.bytes, &mut bytes);
                span.failures = take(span.failures, &mut failures);
            }
        }
        left_bytes
    }

    /// Returns the bytes of the files that failed when the page was compared, and that no later
    /// page replaces.
    fn refused_bytes(&self) -> u64 {
        let counts = |entry: &u32| self.amended.entries.binary_search(entry).is_err();
        self.refused.iter().filter(|(entry, _)| counts(entry)).map(|(_, bytes)| bytes).sum()
    }

    /// Returns the bytes that have failed for good.
    pub(crate) fn excepted_bytes(&self) -> u64 {
        let spans = self.spans();
        spans.iter().filter(|span| span.share == Share::Failed).map(|span| span.bytes).sum()
    }

    /// Returns the shares of each file of the page, which must be that of the ledger, by entry.
    /// Files that are in no piece are done. A file that failed in a pack has the share of its pack.
    pub(crate) fn file_shares(&self, page: &Page) -> BTreeMap<u32, ShareBytes> {
        let mut files: BTreeMap<u32, ShareBytes> = BTreeMap::new();
        for (index, piece) in self.pieces.iter().enumerate() {
            let share = self.share(index as u32) as usize;
            match *piece {
                Piece::Extent { entry, length, .. } => {
                    files.entry(entry).or_default()[share] += length;
                }
                Piece::Pack { first, end, .. } => {
                    for entry in first..end {
                        let Ok(of) = page.entry(entry) else { continue };
                        if travels_whole(&page.slicing, of) {
                            files.entry(entry).or_default()[share] += of.size;
                        }
                    }
                }
                Piece::Finish { .. } => {}
            }
        }
        for (entry, of) in (0..).zip(page.entries()) {
            if of.kind == EntryKind::File && !files.contains_key(&entry) {
                files.entry(entry).or_default()[Share::Done as usize] = of.size;
            }
        }
        files
    }
}
