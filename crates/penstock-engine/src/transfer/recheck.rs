//! Questions to the source about entries that have changed during the transfer (C1, C2).
//!
//! A page is immutable. An entry that has changed at the source comes as an entry of a further
//! page, whose temporary names are different (B1). When all pages are closed and some hold entries
//! that had changed before they were read, or are to be examined again, the machine waits in
//! [`Phase::Asking`]. The edge asks the source about a batch of them, and reports the new number of
//! pages; the further ones are moved like all others. Each page is asked about once, so that the
//! rounds end: the edge asks nothing about pages of the last round.

use penstock_proto::journal::{Amendment, JournalRecord};

use super::{Phase, TransferMachine};

impl TransferMachine {
    /// Makes the machine wait for the answers of the source about changes before the last phases
    /// begin.
    pub fn wait_for_answers(&mut self) {
        self.asks = true;
    }

    pub(super) fn has_to_ask(&self) -> bool {
        self.asks && self.closed.has_to_ask()
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
    pub fn handle_amended(&mut self, page: u32, amendment: Amendment) {
        if self.open.get(page).is_some() {
            self.open.change(page, |open| open.ledger.amend(amendment));
        } else {
            self.closed.change(page, |standing, log| {
                standing.failures = standing.failures.saturating_sub(amendment.failures.into());
                standing.files = standing.files.saturating_sub(amendment.files.into());
                standing.bytes = standing.bytes.saturating_sub(amendment.bytes);
                JournalRecord::Amended(amendment).append_to(log);
            });
        }
    }
}
