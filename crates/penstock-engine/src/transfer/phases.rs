//! The phases of a transfer after its pieces have moved, and the way from one to the next.
//!
//! A page is immutable. An entry that has changed at the source comes as an entry of a further
//! page, whose temporary names are different (B1). When all pages are closed and some hold entries
//! that had changed before they were read, or are to be examined again, the machine waits in
//! [`Phase::Asking`] (C1, C2). The edge asks the source about a batch of them, and reports the new
//! number of pages; the further ones are moved like all others. Each page is asked about once, so
//! that the rounds end: the edge asks nothing about pages of the last round.

use penstock_proto::id::PeerNumber;
use penstock_proto::journal::{Amendment, EntryFailure, JournalRecord};
use penstock_proto::slicing::PieceRef;
use penstock_proto::task::{Work, WorkReply};
use penstock_proto::units::Instant;

use super::retry_list::LINKS;
use super::{Phase, TransferMachine};

/// Pages that a peer is given at a time while links are made and directories get their attributes.
const TAIL_PAGES: usize = 8;

impl TransferMachine {
    /// Makes the machine wait for the answers of the source about changes before the last phases
    /// begin.
    pub fn wait_for_answers(&mut self) {
        self.asks = true;
    }

    /// Returns at most `pages_max` pages about which the source is to be asked now, with the
    /// lengths of their logs, all of which are committed.
    pub fn asking(&self, pages_max: usize) -> Vec<(u32, u64)> {
        if self.phase != Phase::Asking {
            return Vec::new();
        }
        self.closed.asking().take(pages_max).collect()
    }

    /// Handles the answer of the source about `asked`; it has `pages` pages now. That number is to
    /// be committed together with the records that this appends.
    pub fn handle_asked(&mut self, asked: impl IntoIterator<Item = u32>, pages: u32) {
        for number in asked {
            self.closed.change(number, |standing, log| {
                if std::mem::replace(&mut standing.asks, false) {
                    JournalRecord::Asked.append_to(log);
                }
            });
        }
        self.phase = Phase::Moving;
        self.pages_total = Some(pages);
        self.advance();
    }

    /// Handles a further page, opened just now, that has newer versions of entries of `page`.
    /// `failed_bytes` are those of the replaced entries that failed as large files, or were
    /// refused: the piece map no longer counts them as failed.
    pub fn handle_amended(&mut self, page: u32, amendment: Amendment, failed_bytes: u64) {
        self.further = true;
        if self.open.get(page).is_some() {
            self.open.change(page, |open| open.ledger.amend(amendment));
        } else {
            self.closed.change(page, |standing, log| {
                standing.failures = standing.failures.saturating_sub(amendment.failures.into());
                standing.files = standing.files.saturating_sub(amendment.files.into());
                standing.bytes = standing.bytes.saturating_sub(amendment.bytes);
                JournalRecord::Amended(amendment).append_to(log);
            });
            self.closed.change_failed_bytes(page, |bytes| bytes.saturating_sub(failed_bytes));
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

    /// Moves on to the next phase when the present one is over.
    pub(super) fn advance(&mut self) {
        let Some(total) = self.pages_total else { return };
        match self.phase {
            Phase::Moving => {
                let all_closed =
                    self.open.is_empty() && self.closed.len() as u64 >= u64::from(total);
                if all_closed && self.asks && self.closed.has_to_ask() {
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

    fn begin_tail(&mut self, phase: Phase) {
        let total = self.pages_total.unwrap_or(0);
        match phase {
            Phase::Directories => self.tail.begin_directories(total),
            _ => self.tail.begin_links(total),
        }
        // A transfer without pages has nothing to do in the last phases.
        self.phase = if self.pages_total == Some(0) { Phase::Done } else { phase };
    }

    /// Returns whether all pages of the phase are done, and durable.
    fn tail_is_over(&self) -> bool {
        let mut peers = self.peers.values();
        self.tail.is_handed_out()
            && peers.all(|peer| peer.tail_out.is_empty() && peer.tail_unsynced.is_empty())
    }

    /// Hands out pages of the last phases.
    pub(super) fn poll_tail(
        &mut self,
        peer: PeerNumber,
        takes: bool,
        now: Instant,
        reply: &mut WorkReply,
    ) {
        let may = self.tail.may_have(peer, takes);
        let has_another = |links| self.untaken.has_another(&self.peers, links, None);
        let Some(writer) = self.peers.get(&peer).map(|it| it.incarnation.writer) else { return };
        let may_again = |page: u32| {
            let links = PieceRef { page, piece: LINKS };
            self.untaken.is_for(writer, links, now, || has_another(links))
        };
        let mut pages = Vec::new();
        let has = self.peers[&peer].tail_out.len();
        while may && has + pages.len() < TAIL_PAGES {
            let Some(page) = self.tail.take_next(may_again) else { break };
            pages.push(page);
            reply.work.push(match self.phase {
                Phase::Links => Work::Links { page },
                _ => Work::Directories { page },
            });
        }
        let Some(asks) = self.peers.get_mut(&peer) else { return };
        asks.tail_out.extend(pages);
        reply.flush = reply.work.is_empty() && asks.tail_out.is_empty();
    }

    /// Handles a page of a last phase that a peer has done.
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
        let (links, writer) = (PieceRef { page, piece: LINKS }, by.incarnation.writer);
        let again = phase == Phase::Links && self.untaken.may_retry(links, failures);
        if again {
            self.untaken.note(links, writer, now);
            self.tail.retry(page);
        }
        for failure in failures.iter().filter(|failure| !again || !failure.may_pass()) {
            if !self.tail.handle_failed(page, failure.entry) {
                continue;
            }
            self.closed.change(page, |standing, log| {
                standing.failures += 1;
                JournalRecord::Failed(*failure).append_to(log);
            });
            self.failures_news.push((page, *failure));
        }
    }

    /// Has the pages of the last phases done again that a peer held, or had not made durable.
    pub(super) fn repeat_tail(
        &mut self,
        out: impl IntoIterator<Item = u32>,
        unsynced: impl IntoIterator<Item = (u64, u32)>,
    ) {
        if matches!(self.phase, Phase::Links | Phase::Directories) {
            let unsynced = unsynced.into_iter().map(|(_, page)| page);
            self.tail.handle_undone(out.into_iter().chain(unsynced));
        }
    }
}
