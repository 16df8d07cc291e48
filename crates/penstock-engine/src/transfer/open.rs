//! The open pages, and the sums over them that are asked for all the time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use penstock_proto::id::PeerNumber;
use penstock_proto::journal::Incarnation;
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::Work;
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

use super::PageCommit;
use crate::page::{PageLedger, Stale};

/// Who may look again at a piece that was written and is not known to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Under {
    /// Anybody, in doubt.
    Anyone,
    /// Who writes under this incarnation need not doubt it, unless its writer was lost: then a
    /// failed sync may be untold, and only another's page cache can be believed (A4, A9).
    Writer { incarnation: Incarnation, lost: bool },
}

/// Pieces of a page that are to be looked at again.
#[derive(Debug)]
pub(super) struct Rechecks {
    pub(super) under: Under,
    pub(super) work: VecDeque<Work>,
}

#[derive(Debug)]
pub(super) struct OpenPage {
    pub(super) ledger: PageLedger,
    /// Missing pieces in random order; taken from the end. Some may not be missing any more.
    pub(super) missing: Vec<u32>,
    /// Missing pieces that may not be handed out before the log says how the page was cut.
    pub(super) held: Vec<u32>,
    /// Missing extents of files that may not be begun yet (E3), by finish piece, and what they are
    /// worth.
    pub(super) aside: BTreeMap<u32, Vec<u32>>,
    pub(super) aside_bytes: u64,
    /// Missing extents of files that a peer is about to make, for others.
    pub(super) unmade: Vec<u32>,
    /// Missing pieces that may not be handed out before the log says that they are missing.
    pub(super) barred: BTreeSet<u32>,
    pub(super) rechecks: Vec<Rechecks>,
    /// Pieces of lost peers that wait until the log was read, and who may look at them then.
    pub(super) unread: BTreeMap<u32, Under>,
    /// Whether the page is among those that work is drawn from.
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
            unread: BTreeMap::new(),
            listed: false,
        }
    }

    /// What can be handed out of it sooner or later without anything else being finished.
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
}

/// What a peer has in hand.
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
    /// What is missing of files that may not be begun yet.
    pub(super) aside_bytes: u64,
    /// Pieces that wait for somebody to look at them again.
    pub(super) rechecks: usize,
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
        }
    }

    /// The greatest attempt number of any file of pages that are open, or were.
    pub(super) fn generation_max(&self) -> u32 {
        let open = self.pages.values().map(|page| page.ledger.generation_max());
        open.fold(self.generation_max, u32::max)
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
        let aside_bytes = page.aside_bytes;
        let result = change(page);
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

    /// What is to be committed of the pages with news.
    pub(super) fn take_commits(&mut self) -> Vec<PageCommit> {
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

    /// A random page that may have missing pieces to hand out.
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

/// The piece that is to be looked at again.
pub(super) fn piece_of(recheck: &Work) -> Option<PieceRef> {
    match recheck {
        Work::Recheck { piece, .. } => Some(*piece),
        _ => None,
    }
}
