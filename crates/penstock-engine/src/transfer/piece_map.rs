//! The piece map of a transfer: its bytes in planned order, in a fixed number of buckets.
//!
//! Pages are in the order of the source's list, and pieces in that of their page, so that a
//! directory is a stretch of the map. Closed pages have sums only: finished bytes come first in
//! them. Listed bytes that are in no page yet come last. Where a later page has a newer version of
//! a file, the older one is not counted.

use super::closed::ClosedPages;
use super::open::OpenPages;
use crate::page::shares::{Share, ShareBytes};

/// A bucket of a piece map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MapBucket {
    /// Bytes by share.
    pub bytes: ShareBytes,
    /// Entries that failed. Those of a closed page are in the bucket in which the page begins.
    pub failures: u64,
}

/// The bytes of a transfer in buckets of equal size, up to one byte, in planned order.
#[derive(Debug)]
pub(super) struct PieceMap {
    total: u64,
    at: u64,
    /// The bucket at `at`, and where it ends.
    index: usize,
    end: u64,
    buckets: Vec<MapBucket>,
}

impl PieceMap {
    /// Returns a map of `total` bytes, with no more buckets than bytes, and one at least.
    fn new(total: u64, buckets: usize) -> Self {
        let most = usize::try_from(total).unwrap_or(usize::MAX);
        let buckets = vec![MapBucket::default(); buckets.min(most).max(1)];
        let mut map = Self { total, at: 0, index: 0, end: 0, buckets };
        map.end = map.end_of(0);
        map
    }

    fn end_of(&self, index: usize) -> u64 {
        let of = u128::from(self.total) * (index as u128 + 1) / self.buckets.len() as u128;
        u64::try_from(of).unwrap_or(u64::MAX)
    }

    /// Adds the next bytes, and entries that failed in them. More bytes than the total are counted
    /// in the last bucket.
    fn add(&mut self, share: Share, mut bytes: u64, failures: u64) {
        self.skip_full();
        self.buckets[self.index].failures += failures;
        while bytes > 0 {
            self.skip_full();
            let is_last = self.index + 1 == self.buckets.len();
            let room = if is_last { bytes } else { self.end - self.at };
            let part = bytes.min(room);
            self.buckets[self.index].bytes[share as usize] += part;
            self.at += part;
            bytes -= part;
        }
    }

    /// Steps to the bucket with room for the next byte; the last one is never full.
    fn skip_full(&mut self) {
        while self.at >= self.end && self.index + 1 < self.buckets.len() {
            self.index += 1;
            self.end = self.end_of(self.index);
        }
    }
}

/// Returns the map of a transfer of which the scan has found this many bytes.
pub(super) fn map_of(
    (closed, open): (&ClosedPages, &OpenPages),
    found: u64,
    buckets: usize,
) -> Vec<MapBucket> {
    let in_closed = closed.shares().map(|(_, done, failed, _)| done + failed);
    let in_open = open.iter().flat_map(|(_, page)| page.ledger.spans()).map(|span| span.bytes);
    let known = in_closed.sum::<u64>() + in_open.sum::<u64>();
    let mut map = PieceMap::new(known.max(found), buckets);
    let mut closed = closed.shares().peekable();
    for (number, page) in open.iter() {
        while let Some(done) = closed.next_if(|(closed, ..)| closed < number) {
            add_closed(&mut map, done);
        }
        for span in page.ledger.spans() {
            map.add(span.share, span.bytes, span.failures);
        }
    }
    closed.for_each(|done| add_closed(&mut map, done));
    map.add(Share::Left, found.saturating_sub(known), 0);
    map.buckets
}

fn add_closed(map: &mut PieceMap, (_, done, failed, failures): (u32, u64, u64, u64)) {
    map.add(Share::Done, done, failures);
    map.add(Share::Failed, failed, 0);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Promise: buckets have equal sizes up to one byte, and added bytes are in order, for any
    /// total.
    #[test]
    fn buckets_have_equal_sizes() {
        let mut map = PieceMap::new(10, 4);
        map.add(Share::Done, 3, 0);
        map.add(Share::InHand, 0, 2);
        map.add(Share::Left, 7, 0);
        let of = |share: Share| map.buckets.iter().map(move |it| it.bytes[share as usize]);
        assert_eq!(of(Share::Done).collect::<Vec<_>>(), [2, 1, 0, 0]);
        assert_eq!(of(Share::Left).collect::<Vec<_>>(), [0, 2, 2, 3]);
        assert_eq!(map.buckets.iter().map(|it| it.failures).collect::<Vec<_>>(), [0, 2, 0, 0]);
        let mut empty = PieceMap::new(0, 4);
        empty.add(Share::Failed, 0, 1);
        assert_eq!(empty.buckets, [MapBucket { failures: 1, ..MapBucket::default() }]);
        let mut more = PieceMap::new(1, 4);
        more.add(Share::Done, 5, 0);
        assert_eq!(more.buckets.len(), 1);
        assert_eq!(more.buckets[0].bytes[Share::Done as usize], 5);
    }

    proptest! {
        /// Promise: no byte is lost or doubled, and buckets differ by one byte at most.
        #[test]
        fn no_byte_is_lost(
            parts in prop::collection::vec(0_u64..1 << 40, 1..50),
            count in 1_usize..200,
        ) {
            let total: u64 = parts.iter().sum();
            let mut map = PieceMap::new(total, count);
            for (at, part) in parts.iter().enumerate() {
                map.add([Share::Done, Share::Again, Share::Left][at % 3], *part, 1);
            }
            let sizes = map.buckets.iter().map(|it| it.bytes.iter().sum::<u64>());
            let (least, most) = (sizes.clone().min().unwrap(), sizes.clone().max().unwrap());
            prop_assert_eq!(sizes.sum::<u64>(), total);
            prop_assert!(most - least <= 1, "{} to {}", least, most);
            let failures: u64 = map.buckets.iter().map(|it| it.failures).sum();
            prop_assert_eq!(failures, parts.len() as u64);
        }
    }
}
