//! The last phases: links, made by all peers, and directories, in order and therefore by one peer.
//!
//! A page that is done counts when its maker has synced. Until then it is remembered (a few
//! seconds' worth of pages), and done again if that peer is lost or its sync fails. The directories
//! of a page get their times after everything below them was made. Pages therefore go backwards,
//! and are handed out again from the first one that is in doubt.

use std::collections::BTreeSet;

use penstock_proto::id::PeerNumber;
use penstock_proto::journal::{EntryFailure, JournalRecord};
use penstock_proto::task::{Work, WorkReply};
use penstock_proto::units::Instant;

use super::{Phase, TransferMachine};

/// Pages that a peer is given at a time while links are made and directories get their attributes.
const TAIL_PAGES: usize = 8;

impl TransferMachine {
    pub(super) fn poll_tail(
        &mut self,
        peer: PeerNumber,
        takes: bool,
        now: Instant,
        reply: &mut WorkReply,
    ) {
        let total = self.pages_total.unwrap_or(0);
        if takes && self.phase == Phase::Directories {
            self.director.get_or_insert(peer);
        }
        let may = takes && (self.phase == Phase::Links || self.director == Some(peer));
        let mut again = self.untaken_links(peer, now);
        let Some(asks) = self.peers.get_mut(&peer) else { return };
        while may && asks.tail_out.len() < TAIL_PAGES {
            let page = match self.phase {
                Phase::Links if !again.is_empty() => again.pop_first(),
                Phase::Links if self.tail_next < total => {
                    self.tail_next += 1;
                    Some(self.tail_next - 1)
                }
                Phase::Directories if self.tail_next > 0 => {
                    self.tail_next -= 1;
                    Some(self.tail_next)
                }
                _ => None,
            };
            let Some(page) = page else { break };
            self.tail_again.remove(&page);
            asks.tail_out.insert(page);
            reply.work.push(match self.phase {
                Phase::Links => Work::Links { page },
                _ => Work::Directories { page },
            });
        }
        reply.flush = reply.work.is_empty() && asks.tail_out.is_empty();
    }

    pub(super) fn handle_tail(
        &mut self,
        peer: PeerNumber,
        phase: Phase,
        page: u32,
        failures: &[EntryFailure],
        (epoch, now): (u64, Instant),
    ) {
        let Some(by) = self.peers.get_mut(&peer) else { return };
        if self.phase != phase || !by.tail_out.remove(&page) {
            return;
        }
        if epoch > by.synced {
            by.tail_unsynced.push((epoch, page));
        }
        let again = phase == Phase::Links && self.is_tail_tried_again(peer, page, failures, now);
        if again {
            self.tail_again.insert(page);
        }
        for failure in failures.iter().filter(|failure| !again || !failure.may_pass()) {
            if !self.tail_failed.insert((page, failure.entry)) {
                continue;
            }
            self.closed.change(page, |standing, log| {
                standing.failures += 1;
                JournalRecord::Failed(*failure).append_to(log);
            });
            self.failures_news.push((page, *failure));
        }
    }

    /// Repeats the pages of the last phases that a peer had in hand, or had not made durable.
    pub(super) fn tail_again(&mut self, out: BTreeSet<u32>, unsynced: Vec<(u64, u32)>) {
        let again = out.into_iter().chain(unsynced.into_iter().map(|(_, page)| page));
        match self.phase {
            Phase::Links => self.tail_again.extend(again),
            Phase::Directories => {
                let first = again.map(|page| page + 1).max().unwrap_or(0);
                if first > 0 {
                    self.tail_next = self.tail_next.max(first);
                    self.director = None;
                }
            }
            _ => {}
        }
    }

    /// Handles the end of a peer: if it set the attributes of directories, another one continues,
    /// even if none of its work was in doubt.
    pub(super) fn end_director(&mut self, peer: PeerNumber) {
        self.director.take_if(|director| *director == peer);
    }

    pub(super) fn begin_tail(&mut self, phase: Phase) {
        self.phase = phase;
        self.director = None;
        self.tail_again.clear();
        self.tail_next = match phase {
            Phase::Directories => self.pages_total.unwrap_or(0),
            _ => 0,
        };
        self.advance_empty();
    }

    /// Returns whether all pages of the phase are done, and durable.
    fn tail_is_over(&self) -> bool {
        let handed_out = match self.phase {
            Phase::Directories => self.tail_next == 0,
            _ => self.tail_next >= self.pages_total.unwrap_or(0) && self.tail_again.is_empty(),
        };
        handed_out
            && self
                .peers
                .values()
                .all(|peer| peer.tail_out.is_empty() && peer.tail_unsynced.is_empty())
    }

    /// Ends a transfer without pages, which has nothing to do in the last phases.
    fn advance_empty(&mut self) {
        if self.pages_total == Some(0) {
            self.phase = Phase::Done;
        }
    }

    /// Moves on to the next phase when the present one is over.
    pub(super) fn advance(&mut self) {
        let Some(total) = self.pages_total else { return };
        match self.phase {
            Phase::Moving => {
                let all_closed =
                    self.open.is_empty() && self.closed.len() as u64 >= u64::from(total);
                if all_closed && self.has_to_ask() {
                    self.phase = Phase::Asking;
                } else if all_closed {
                    self.begin_tail(Phase::Links);
                }
            }
            Phase::Links if self.tail_is_over() => match self.deletes {
                true => self.phase = Phase::Deleting,
                false => self.begin_tail(Phase::Directories),
            },
            Phase::Directories if self.tail_is_over() => self.phase = Phase::Done,
            _ => {}
        }
    }

    /// Makes the machine wait, when all files and links are durable, until the edge has deleted the
    /// items that are not in the data set: the attributes of directories come after.
    pub fn wait_for_deletion(&mut self) {
        self.deletes = true;
    }

    /// Handles the end of the deletion, or the decision against it.
    pub fn handle_deleted(&mut self) {
        if self.phase == Phase::Deleting {
            self.begin_tail(Phase::Directories);
            self.advance();
        }
    }
}
