//! The open pages, and the sums over them that are read frequently.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use penstock_proto::id::PeerNumber;
use penstock_proto::journal::Incarnation;
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::{Work, WorkReply};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::commit::PageCommit;
use crate::page::{PageLedger, PieceState, Stale};

/// Least bytes for which a piece counts in a request for work.
pub(super) const PIECE_BYTES_FLOOR: u64 = 4096;

/// Peers that may check a piece that was written and is not known to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Under {
    /// Any peer, in doubt.
    Anyone,
    /// Any peer; one that writes under this incarnation need not doubt it, unless its writer was
    /// lost. Then a failed sync may be unreported, and only another's page cache can be trusted
    /// (A4, A9).
    Writer { incarnation: Incarnation, lost: bool },
}

/// Pieces of a page that are to be checked again.
#[derive(Debug)]
pub(super) struct Rechecks {
    pub(super) under: Under,
    pub(super) work: VecDeque<Work>,
}

#[derive(Debug)]
pub(super) struct OpenPage {
    pub(super) ledger: PageLedger,
    /// Missing pieces in random order; taken from the end. Some may no longer be missing.
    pub(super) missing: Vec<u32>,
    /// Missing pieces that may not be handed out before the log records how the page was cut.
    pub(super) held: Vec<u32>,
    /// Missing extents of files that may not be begun yet (E3), by finish piece, and their worth.
    pub(super) aside: BTreeMap<u32, Vec<u32>>,
    pub(super) aside_bytes: u64,
    /// Missing extents of files that a peer is about to make, for other peers.
    pub(super) unmade: Vec<u32>,
    /// Missing pieces that may not be handed out before the log records that they are missing.
    pub(super) barred: BTreeSet<u32>,
    pub(super) rechecks: Vec<Rechecks>,
    /// Pieces that count as resumed, and are checked again; the check may not find them.
    pub(super) resumed: BTreeSet<u32>,
    /// Pieces of lost peers that wait until the log was read, and the peers that may check them
    /// then.
    pub(super) unread: BTreeMap<u32, Under>,
    /// True if the page is among those from which work is drawn.
    listed: bool,
}

impl OpenPage {
    pub(super) fn new(ledger: PageLedger) -> Self {
        Self {
            ledger,
            missing: Vec::new(),
            held: Vec::new(),
            aside: BTreeMap::new(),
            aside_bytes: 0,
            unmade: Vec::new(),
            barred: BTreeSet::new(),
            rechecks: Vec::new(),
            resumed: BTreeSet::new(),
            unread: BTreeMap::new(),
            listed: false,
        }
    }

    /// Returns the bytes that can be handed out of it at some time without anything else being
    /// finished.
    fn ahead_bytes(&self) -> u64 {
        self.ledger.missing_bytes().saturating_sub(self.aside_bytes)
    }

    fn recheck_count(&self) -> usize {
        self.rechecks.iter().map(|rechecks| rechecks.work.len()).sum()
    }

    pub(super) fn add_recheck(&mut self, under: Under, work: Work) {
        match self.rechecks.iter_mut().find(|rechecks| rechecks.under == under) {
            Some(rechecks) => rechecks.work.push_back(work),
            None => self.rechecks.push(Rechecks { under, work: VecDeque::from([work]) }),
        }
    }

    /// Hands out pieces to be checked again, up to `bytes` together with what was `given`; returns
    /// their worth.
    pub(super) fn hand_over(
        &mut self,
        at: usize,
        peer: PeerNumber,
        doubts: bool,
        bytes: u64,
        given: u64,
        reply: &mut WorkReply,
    ) -> u64 {
        let mut worth = 0;
        while given + worth < bytes {
            let Some(mut work) = self.rechecks[at].work.pop_front() else { break };
            if let Work::Recheck { piece, doubt, .. } = &mut work {
                *doubt = doubts;
                self.ledger.own(piece.piece, peer);
                let size = self.ledger.pieces()[piece.piece as usize].bytes();
                worth += size.max(PIECE_BYTES_FLOOR);
            }
            reply.work.push(work);
        }
        worth
    }

    /// Returns the worth of the piece that is handed out next.
    pub(super) fn next_worth(&self) -> u64 {
        self.missing.last().map_or(0, |piece| self.ledger.worth_of(*piece))
    }

    /// Hands out a piece, and those of its neighbours for which `may` is true, worth about `bytes`
    /// together.
    pub(super) fn grant_run(
        &mut self,
        index: u32,
        may: Option<&dyn Fn(u32) -> bool>,
        (peer, bytes): (PeerNumber, u64),
        work: &mut Vec<Work>,
    ) -> u64 {
        let run = if may.is_some() { self.ledger.run_of(index) } else { index..index + 1 };
        let goes = |piece: &u32| *piece != index && may.is_some_and(|may| may(*piece));
        let mut given = 0;
        for piece in std::iter::once(index).chain(run.filter(goes)) {
            if given >= bytes || self.barred.contains(&piece) {
                break;
            }
            if let Some(granted) = self.ledger.grant(piece, peer) {
                let size = self.ledger.pieces()[piece as usize].bytes();
                given += size.max(PIECE_BYTES_FLOOR);
                work.push(granted);
            }
        }
        given
    }

    /// Puts an extent aside whose file may not be begun yet; returns whether it is the first.
    pub(super) fn put_aside(&mut self, finish: u32, piece: u32) -> bool {
        self.aside_bytes += self.ledger.worth_of(piece);
        let pieces = self.aside.entry(finish).or_default();
        pieces.push(piece);
        pieces.len() == 1
    }

    /// Allows the extents of a file to be handed out; returns whether there are any.
    pub(super) fn take_up(&mut self, finish: u32) -> bool {
        let pieces = self.aside.remove(&finish).unwrap_or_default();
        self.aside_bytes -= pieces.iter().map(|piece| self.ledger.worth_of(*piece)).sum::<u64>();
        let before = self.missing.len();
        let missing = |piece: &u32| self.ledger.state(*piece) == PieceState::Missing;
        self.missing.extend(pieces.into_iter().filter(missing));
        self.missing.len() > before
    }
}

/// Work that a peer holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InHand {
    pub(super) pieces: u64,
    pub(super) bytes: u64,
}

/// The open pages by number.
#[derive(Debug, Default)]
pub(super) struct OpenPages {
    pages: BTreeMap<u32, OpenPage>,
    /// Pieces of all of them.
    pub(super) pieces: usize,
    pub(super) ahead_bytes: u64,
    /// Missing bytes of files that may not be begun yet.
    pub(super) aside_bytes: u64,
    /// Pieces that wait for a peer to check them again.
    pub(super) rechecks: usize,
    /// Pages of these, by the peers that may check them: few are different.
    waiting: Vec<(Under, BTreeSet<u32>)>,
    /// Pages with missing pieces, and perhaps some without.
    listed: Vec<u32>,
    in_hand: Vec<InHand>,
    /// Attempts at files that peers are to forget, with the number of the page.
    stale: Vec<(u32, Stale)>,
    /// The greatest attempt number of any file of pages that were open.
    generation_max: u32,
}

impl OpenPages {
    pub(super) fn insert(&mut self, number: u32, page: OpenPage) {
        debug_assert!(!self.pages.contains_key(&number), "page {number} is opened twice");
        self.pieces += page.ledger.pieces().len();
        self.ahead_bytes += page.ahead_bytes();
        self.aside_bytes += page.aside_bytes;
        self.rechecks += page.recheck_count();
        self.pages.insert(number, page);
        self.change(number, |_| ());
    }

    pub(super) fn remove(&mut self, number: u32) {
        if let Some(page) = self.pages.remove(&number) {
            self.generation_max = self.generation_max.max(page.ledger.generation_max());
            self.pieces -= page.ledger.pieces().len();
            self.ahead_bytes -= page.ahead_bytes();
            self.aside_bytes -= page.aside_bytes;
            self.rechecks -= page.recheck_count();
            note_waiting(&mut self.waiting, number, &[]);
        }
    }

    /// Returns the greatest attempt number of any file of pages that are open, or were.
    pub(super) fn generation_max(&self) -> u32 {
        let open = self.pages.values().map(|page| page.ledger.generation_max());
        open.fold(self.generation_max, u32::max)
    }

    /// Returns the classes of peers for which pieces wait to be checked.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Under> + '_ {
        self.waiting.iter().map(|(under, _)| *under)
    }

    /// Returns the first page from `from` on with pieces that wait under a class for which `may` is
    /// true.
    pub(super) fn next_waiting(&self, from: u32, may: impl Fn(Under) -> bool) -> Option<u32> {
        let pages = self.waiting.iter().filter(|(under, _)| may(*under)).map(|(_, pages)| pages);
        pages.filter_map(|pages| pages.range(from..).next().copied()).min()
    }

    pub(super) fn get(&self, number: u32) -> Option<&OpenPage> {
        self.pages.get(&number)
    }

    pub(super) fn numbers(&self) -> Vec<u32> {
        self.pages.keys().copied().collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&u32, &OpenPage)> {
        self.pages.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.pages.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Changes a page, and the sums with it; `None` if it is not open.
    pub(super) fn change<R>(
        &mut self,
        number: u32,
        change: impl FnOnce(&mut OpenPage) -> R,
    ) -> Option<R> {
        let page = self.pages.get_mut(&number)?;
        let (ahead_bytes, rechecks) = (page.ahead_bytes(), page.recheck_count());
        let (aside_bytes, waited) = (page.aside_bytes, !page.rechecks.is_empty());
        let result = change(page);
        if waited || !page.rechecks.is_empty() {
            note_waiting(&mut self.waiting, number, &page.rechecks);
        }
        self.aside_bytes = self.aside_bytes - aside_bytes + page.aside_bytes;
        self.ahead_bytes = self.ahead_bytes - ahead_bytes + page.ahead_bytes();
        self.rechecks = self.rechecks - rechecks + page.recheck_count();
        for handed in page.ledger.take_handed() {
            let at = usize::from(handed.peer.0);
            if at >= self.in_hand.len() {
                self.in_hand.resize(at + 1, InHand::default());
            }
            let has = &mut self.in_hand[at];
            if handed.taken {
                has.pieces += 1;
                has.bytes += handed.bytes;
            } else {
                debug_assert!(has.pieces > 0, "{} loses a piece that it had not", handed.peer);
                has.pieces -= 1;
                has.bytes -= handed.bytes;
            }
        }
        self.stale.extend(page.ledger.take_stale().map(|stale| (number, stale)));
        if !page.listed && !page.missing.is_empty() {
            page.listed = true;
            self.listed.push(number);
        }
        Some(result)
    }

    /// Asserts that the sums are those over all pages.
    fn check(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let pages = self.pages.values();
        assert_eq!(
            self.pieces,
            pages.clone().map(|page| page.ledger.pieces().len()).sum::<usize>()
        );
        assert_eq!(self.ahead_bytes, pages.clone().map(OpenPage::ahead_bytes).sum::<u64>());
        assert_eq!(self.aside_bytes, pages.clone().map(|page| page.aside_bytes).sum::<u64>());
        assert_eq!(self.rechecks, pages.map(OpenPage::recheck_count).sum::<usize>());
        let is_open = |number: &u32| self.pages.contains_key(number);
        let waiting = self.waiting.iter().flat_map(|(_, pages)| pages);
        assert!(waiting.into_iter().all(is_open), "a page that is not open waits for a check");
    }

    /// Takes the commits of the pages with changes.
    pub(super) fn take_commits(&mut self) -> Vec<PageCommit> {
        self.check();
        let mut commits = Vec::new();
        for (number, page) in &mut self.pages {
            let complete = page.ledger.is_settled();
            if !page.ledger.has_log() && !complete {
                continue;
            }
            let (append, log_bytes) = page.ledger.take_log();
            let (files, bytes, _, failures) = page.ledger.counts();
            let (kept, kept_bytes) = page.ledger.kept();
            commits.push(PageCommit {
                page: *number,
                digest: page.ledger.digest(),
                append,
                log_bytes,
                complete,
                files,
                bytes,
                failures,
                kept,
                kept_bytes,
                asks: page.ledger.asks(),
            });
        }
        commits
    }

    /// Returns a random page that may have missing pieces to hand out.
    pub(super) fn random_page(&mut self, rng: &mut ChaCha8Rng) -> Option<u32> {
        while !self.listed.is_empty() {
            let at = rng.random_range(0..self.listed.len());
            let number = self.listed[at];
            let page = self.pages.get_mut(&number);
            if let Some(page) = page {
                if !page.missing.is_empty() {
                    return Some(number);
                }
                page.listed = false;
            }
            self.listed.swap_remove(at);
        }
        None
    }

    pub(super) fn in_hand(&self, peer: PeerNumber) -> InHand {
        self.in_hand.get(usize::from(peer.0)).copied().unwrap_or_default()
    }

    pub(super) fn take_stale(&mut self) -> Vec<(u32, Stale)> {
        std::mem::take(&mut self.stale)
    }
}

/// Records the classes under which pieces of a page wait.
fn note_waiting(waiting: &mut Vec<(Under, BTreeSet<u32>)>, number: u32, rechecks: &[Rechecks]) {
    for (_, pages) in waiting.iter_mut() {
        pages.remove(&number);
    }
    for Rechecks { under, .. } in rechecks.iter().filter(|rechecks| !rechecks.work.is_empty()) {
        match waiting.iter_mut().find(|(of, _)| of == under) {
            Some((_, pages)) => drop(pages.insert(number)),
            None => waiting.push((*under, BTreeSet::from([number]))),
        }
    }
    waiting.retain(|(_, pages)| !pages.is_empty());
}

/// Returns the piece that is to be checked again.
pub(super) fn piece_of(recheck: &Work) -> Option<PieceRef> {
    match recheck {
        Work::Recheck { piece, .. } => Some(*piece),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_proto::compared::Comparison;
    use penstock_proto::digest::{Digest, DigestKind};
    use penstock_proto::id::{TransferId, WriterId};
    use penstock_proto::manifest::{EntryDraft, PageBuilder};
    use penstock_proto::slicing::Slicing;
    use rand::SeedableRng as _;

    fn under(writer: u64) -> Under {
        let incarnation = Incarnation { writer: WriterId(writer), ..Incarnation::default() };
        if writer == 0 { Under::Anyone } else { Under::Writer { incarnation, lost: false } }
    }

    fn page(number: u32) -> OpenPage {
        let mut builder = PageBuilder::new(TransferId([1; 16]), number, Slicing::default());
        builder.push(b"", &EntryDraft { name: b"a", size: 1, ..EntryDraft::default() });
        let (digest, compared) = (Digest::default(), Comparison::default());
        OpenPage::new(PageLedger::new(&builder.seal(), digest, DigestKind::Blake3, &compared))
    }

    /// Promise: a peer that asks finds the pieces that wait for it, and walks no page without such
    /// pieces: after a failover there are tens of thousands.
    #[test]
    // Its seed is printed.
    #[allow(clippy::print_stdout)]
    fn pages_with_something_to_look_at_are_found() {
        let seed = rand::random::<u64>();
        println!("seed {seed}");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut open = OpenPages::default();
        for _ in 0..500 {
            let (number, writer) = (rng.random_range(0..6), rng.random_range(0..3));
            match rng.random_range(0..5) {
                0 if open.get(number).is_none() => open.insert(number, page(number)),
                0 => open.remove(number),
                1 => drop(open.change(number, |page| page.rechecks.clear())),
                2 => drop(open.change(number, |page| {
                    page.rechecks.iter_mut().for_each(|it| drop(it.work.pop_front()));
                })),
                _ => drop(open.change(number, |page| {
                    let piece = PieceRef { page: number, piece: 0 };
                    let work = Work::Discard { page: piece.page, entry: 0, generation: 0 };
                    page.add_recheck(under(writer), work);
                })),
            }
            for writer in 0..3 {
                let waits = |page: &&OpenPage| {
                    let its = |it: &&Rechecks| it.under == under(writer) && !it.work.is_empty();
                    page.rechecks.iter().any(|it| its(&it))
                };
                let expected = open.iter().filter(|(_, page)| waits(page)).map(|(at, _)| *at);
                let mut found = Vec::new();
                let next = |from| open.next_waiting(from, |it| it == under(writer));
                while let Some(at) = next(found.last().map_or(0, |at| at + 1)) {
                    found.push(at);
                }
                assert_eq!(found, expected.collect::<Vec<_>>());
                assert_eq!(open.waiting().any(|it| it == under(writer)), !found.is_empty());
            }
        }
    }
}
