//! The pages of the last phases: links, made by all peers, and directories, in order and therefore
//! by one peer.
//!
//! A page that is done counts when its maker has synced. Until then it is remembered (a few
//! seconds' worth of pages), and done again if that peer is lost or its sync fails. The directories
//! of a page get their times after everything below them was made. Pages therefore go backwards,
//! and are handed out again from the first one that is in doubt.

use std::collections::BTreeSet;

use penstock_proto::id::PeerNumber;

/// Order in which the pages of a phase are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Links: from the first page to the last, by all peers.
    Forwards,
    /// Directories: from the last page to the first, by one peer.
    Backwards,
}

/// The pages of a last phase that are still to be handed out.
#[derive(Debug)]
pub(super) struct Tail {
    order: Order,
    /// Number of pages.
    pages: u32,
    /// The next page forwards, or the page after the next one backwards.
    next: u32,
    /// Pages to be done again, forwards.
    again: BTreeSet<u32>,
    /// The peer that works backwards.
    director: Option<PeerNumber>,
    /// Links and directories that failed: (page, entry).
    failed: BTreeSet<(u32, u32)>,
}

impl Default for Tail {
    fn default() -> Self {
        let (again, failed) = (BTreeSet::new(), BTreeSet::new());
        Self { order: Order::Forwards, pages: 0, next: 0, again, director: None, failed }
    }
}

impl Tail {
    /// Begins with the links of so many pages.
    pub(super) fn begin_links(&mut self, pages: u32) {
        self.begin(Order::Forwards, pages, 0);
    }

    /// Begins with the directories of so many pages.
    pub(super) fn begin_directories(&mut self, pages: u32) {
        self.begin(Order::Backwards, pages, pages);
    }

    fn begin(&mut self, order: Order, pages: u32, next: u32) {
        (self.order, self.pages, self.next) = (order, pages, next);
        self.director = None;
        self.again.clear();
    }

    /// Returns whether a peer that `takes` work gets pages. The first one that asks for directories
    /// is the one that sets their attributes.
    pub(super) fn may_have(&mut self, peer: PeerNumber, takes: bool) -> bool {
        match self.order {
            Order::Forwards => takes,
            Order::Backwards if takes => *self.director.get_or_insert(peer) == peer,
            Order::Backwards => false,
        }
    }

    /// Takes the next page for a peer that may do again the pages for which `may_again` is true.
    pub(super) fn take_next(&mut self, may_again: impl Fn(u32) -> bool) -> Option<u32> {
        match self.order {
            Order::Forwards => {
                let again = self.again.iter().copied().find(|page| may_again(*page));
                if let Some(page) = again {
                    self.again.remove(&page);
                    return Some(page);
                }
                let page = Some(self.next).filter(|next| *next < self.pages)?;
                self.next += 1;
                Some(page)
            }
            Order::Backwards => {
                self.next = self.next.checked_sub(1)?;
                Some(self.next)
            }
        }
    }

    /// Has a page done again, because some of its links may succeed at another peer.
    pub(super) fn retry(&mut self, page: u32) {
        debug_assert_eq!(self.order, Order::Forwards, "attributes are not tried again");
        self.again.insert(page);
    }

    /// Has pages done again that a peer held, or had not made durable.
    pub(super) fn handle_undone(&mut self, pages: impl IntoIterator<Item = u32>) {
        match self.order {
            Order::Forwards => self.again.extend(pages),
            Order::Backwards => {
                let first = pages.into_iter().map(|page| page + 1).max().unwrap_or(0);
                if first > 0 {
                    self.next = self.next.max(first);
                    self.director = None;
                }
            }
        }
    }

    /// Handles the end of a peer: if it set the attributes of directories, another one continues,
    /// even if none of its work was in doubt.
    pub(super) fn handle_gone(&mut self, peer: PeerNumber) {
        self.director.take_if(|director| *director == peer);
    }

    /// Handles a link or directory that failed. Returns whether it is new.
    pub(super) fn handle_failed(&mut self, page: u32, entry: u32) -> bool {
        self.failed.insert((page, entry))
    }

    /// Returns whether all pages are handed out.
    pub(super) fn is_handed_out(&self) -> bool {
        match self.order {
            Order::Forwards => self.next >= self.pages && self.again.is_empty(),
            Order::Backwards => self.next == 0,
        }
    }

    /// Returns the peer that sets the attributes of directories.
    pub(super) fn director(&self) -> Option<PeerNumber> {
        self.director
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: PeerNumber = PeerNumber(1);
    const B: PeerNumber = PeerNumber(2);

    fn all(tail: &mut Tail) -> Vec<u32> {
        std::iter::from_fn(|| tail.take_next(|_| true)).collect()
    }

    /// Promise: each page's links are made, and again where a peer was lost or failed at them; a
    /// peer that failed waits for others.
    #[test]
    fn links_are_made_forwards_by_all() {
        let mut tail = Tail::default();
        tail.begin_links(3);
        assert!(tail.may_have(A, true) && tail.may_have(B, true) && !tail.may_have(A, false));
        assert_eq!(all(&mut tail), [0, 1, 2]);
        assert!(tail.is_handed_out());
        tail.handle_undone([1]);
        tail.retry(0);
        assert!(!tail.is_handed_out());
        assert_eq!(tail.take_next(|page| page != 0), Some(1));
        assert_eq!(tail.take_next(|page| page != 0), None, "it is for another peer");
        assert_eq!(all(&mut tail), [0]);
        assert!(tail.handle_failed(0, 4) && !tail.handle_failed(0, 4));
    }

    /// Promise: directories get their times after all below them, by one peer; from the first page
    /// in doubt on it is done again, in the same order (B5).
    #[test]
    fn b5_directories_are_set_backwards_by_one() {
        let mut tail = Tail::default();
        tail.begin_directories(4);
        assert!(tail.may_have(A, true) && !tail.may_have(B, true));
        assert_eq!([tail.take_next(|_| true), tail.take_next(|_| true)], [Some(3), Some(2)]);
        tail.handle_undone([3, 2]);
        assert!(tail.may_have(B, true) && !tail.may_have(A, true), "its sync failed");
        assert_eq!(all(&mut tail), [3, 2, 1, 0]);
        assert!(tail.is_handed_out());
        tail.handle_gone(A);
        assert_eq!(tail.director(), Some(B));
        tail.handle_gone(B);
        assert!(tail.may_have(A, true), "another one continues");
    }
}
