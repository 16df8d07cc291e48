//! The transfers that are known: from lists, and from events that come in between.

use std::collections::BTreeMap;
use std::time::Instant;

use penstock_api::bottleneck::Bottleneck;
use penstock_api::queue::QueueEntry;
use penstock_api::rest::{
    Direction, FailureCount, ProgressSummary, TransferEvent, TransferSummary, WaitingView,
};
use penstock_api::transfer::{Progress, TransferState};
use penstock_proto::id::{Name, TransferId};

use super::moment::Moment;
use super::rate_history::RateHistory;
use crate::output::pace::Pace;

/// Ended transfers that are kept.
const ENDED_MAX: usize = 50;

/// A transfer.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The transfer as the last list has it, with later events worked in.
    pub(super) summary: TransferSummary,
    /// Figures of the last event; none before the first, and none of other sites' transfers.
    pub(super) progress: Option<Progress>,
    /// Rates since this program looks.
    pub(super) rates: RateHistory,
    pace: Pace,
    /// Time of the last event.
    heard_at: Option<Instant>,
}

impl Row {
    fn new(summary: TransferSummary) -> Self {
        let (rates, pace) = (RateHistory::default(), Pace::default());
        Self { summary, progress: None, rates, pace, heard_at: None }
    }

    fn handle_event(&mut self, event: &TransferEvent, now: Moment) {
        let (summary, progress) = (&mut self.summary, &event.progress);
        // Another attempt counts anew.
        let begins_anew = self.progress.as_ref().is_some_and(|last| {
            last.seconds > progress.seconds || last.bytes_found > progress.bytes_found
        });
        if summary.state != event.state || begins_anew {
            self.pace = Pace::default();
        }
        self.pace.add(now.at, progress);
        if summary.state != event.state {
            summary.waiting = None;
            summary.ended_at = event.state.is_ended().then_some(now.timestamp());
        }
        summary.state = event.state;
        summary.reason.clone_from(&event.reason);
        summary.exit = event.exit;
        summary.failures.count = progress.errors;
        summary.progress = ProgressSummary::of(progress, event.state);
        let runs = event.state == TransferState::Running;
        let bottleneck = progress.bottleneck.clone();
        let bottleneck = bottleneck.or_else(|| Bottleneck::of(&progress.limit));
        summary.bottleneck = bottleneck.filter(|_| runs);
        self.progress = Some(progress.clone());
        self.heard_at = Some(now.at);
    }

    /// Returns whether it runs.
    pub(super) fn runs(&self) -> bool {
        self.summary.state == TransferState::Running
    }

    /// Returns its rate, steady enough to read, in bits per second; 0 if it does not run.
    pub(super) fn rate_bits_per_s(&self) -> f64 {
        match (self.runs(), &self.progress) {
            (false, _) => 0.0,
            (true, Some(_)) if self.pace.is_known() => self.pace.bytes_per_s() * 8.0,
            (true, _) => self.summary.progress.rate_bits_per_s,
        }
    }

    /// Returns the rate of the last second or so, in bits per second; 0 if it does not run.
    fn rate_now_bits_per_s(&self) -> f64 {
        if self.runs() { self.summary.progress.rate_bits_per_s } else { 0.0 }
    }

    /// Returns the seconds until its end, where they are known.
    pub(super) fn seconds_left(&self) -> Option<u64> {
        match &self.progress {
            _ if !self.runs() => None,
            Some(progress) if self.pace.is_known() => self.pace.seconds_left(progress),
            _ => self.summary.progress.eta_seconds,
        }
    }

    /// Returns the bytes that have come, in this run and before.
    pub(super) fn bytes_moved(&self) -> u64 {
        match &self.progress {
            Some(progress) => self.pace.moved(progress),
            None => self.summary.progress.bytes,
        }
    }

    /// Returns the part that is done, from 0 to 1; `None` while the total is not known. The whole
    /// is reached with the last verified byte only.
    pub(super) fn share_done(&self) -> Option<f64> {
        let progress = &self.summary.progress;
        if self.summary.state == TransferState::Done {
            return Some(1.0);
        }
        if !progress.scan_complete {
            return None;
        }
        if progress.bytes_found == 0 {
            let whole = progress.files >= progress.files_found;
            return Some(if whole { 1.0 } else { 0.0 });
        }
        let settled = match &self.progress {
            Some(_) => self.pace.settled,
            // An earlier release does not tell it.
            None => progress.bytes_settled.max(progress.bytes),
        };
        let skipped = self.progress.as_ref().map_or(0, |now| now.bytes_skipped);
        let is_whole = progress.bytes + skipped >= progress.bytes_found;
        let share = settled.min(progress.bytes_found) as f64 / progress.bytes_found as f64;
        Some(if is_whole { share } else { share.min(0.999) })
    }
}

/// All transfers that are known.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    rows: BTreeMap<TransferId, Row>,
}

impl Rows {
    /// Returns a transfer.
    pub(super) fn get(&self, id: TransferId) -> Option<&Row> {
        self.rows.get(&id)
    }

    /// Returns all of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    /// Works an event in. Returns whether lists are needed: the transfer is not known, or has
    /// another state now.
    pub(super) fn handle_event(&mut self, event: &TransferEvent, now: Moment) -> bool {
        let Some(row) = self.rows.get_mut(&event.id) else { return true };
        let is_news = row.summary.state != event.state;
        row.handle_event(event, now);
        is_news
    }

    /// Takes a list of the transfers in some states, which was asked for at a time. If it is
    /// complete, others that were in these states are not any more.
    pub(super) fn replace(
        &mut self,
        states: &[TransferState],
        list: Vec<TransferSummary>,
        is_complete: bool,
        asked_at: Instant,
    ) {
        if is_complete {
            self.rows.retain(|id, row| {
                let is_newer = row.heard_at.is_some_and(|heard| heard >= asked_at);
                let stays = is_newer || list.iter().any(|summary| summary.id == *id);
                stays || !states.contains(&row.summary.state)
            });
        }
        list.into_iter().for_each(|summary| self.add(summary, asked_at));
    }

    /// Adds a transfer, or what a list has of it. Events that came after the question count more.
    pub(super) fn add(&mut self, summary: TransferSummary, asked_at: Instant) {
        let Some(row) = self.rows.get_mut(&summary.id) else {
            self.rows.insert(summary.id, Row::new(summary));
            return;
        };
        let is_newer = row.heard_at.is_some_and(|heard| heard >= asked_at);
        if is_newer && row.summary.state != summary.state {
            return;
        }
        let progress = row.summary.progress.clone();
        let is_fed = row.progress.is_some() && row.summary.state == summary.state;
        row.summary = summary;
        if is_fed {
            row.summary.progress = progress;
        }
    }

    /// Adds transfers of the queue that no list has had.
    pub(super) fn add_waiting(&mut self, entries: &[QueueEntry], own: &Name) {
        for entry in entries {
            let row = self.rows.entry(entry.id).or_insert_with(|| Row::new(summary_of(entry, own)));
            if row.summary.state == TransferState::Queued {
                row.summary.waiting = Some(entry.waiting.clone());
            }
        }
    }

    /// Adds the rate of another second to each history; `None` without contact.
    pub(super) fn add_rates(&mut self, has_contact: bool) {
        for row in self.rows.values_mut().filter(|row| row.runs() || row.rates.seconds() > 0) {
            row.rates.add(has_contact.then(|| row.rate_now_bits_per_s()));
        }
    }

    /// Returns the rate of all transfers in some directions together, in bits per second.
    pub(super) fn rate_bits_per_s(&self, directions: &[Direction]) -> f64 {
        let fit = |row: &&Row| directions.contains(&row.summary.direction);
        self.iter().filter(fit).map(Row::rate_bits_per_s).sum()
    }

    /// Removes ended transfers but for the latest ones, and those that `is_needed`.
    pub(super) fn prune(&mut self, is_needed: impl Fn(TransferId) -> bool) {
        let ended = self.iter().filter(|row| row.summary.state.is_ended());
        let mut ended: Vec<_> = ended.map(|row| (row.summary.ended_at, row.summary.id)).collect();
        ended.sort_unstable_by(|one, other| other.cmp(one));
        for (_, id) in ended.into_iter().skip(ENDED_MAX).filter(|(_, id)| !is_needed(*id)) {
            self.rows.remove(&id);
        }
    }
}

/// Returns what the queue tells of a transfer.
fn summary_of(entry: &QueueEntry, own: &Name) -> TransferSummary {
    let direction = match (entry.source.site == *own, entry.target.site == *own) {
        (true, true) => Direction::Within,
        (true, false) => Direction::Out,
        (false, _) => Direction::In,
    };
    let waiting: WaitingView = entry.waiting.clone();
    TransferSummary {
        id: entry.id,
        label: entry.label.clone(),
        owner: entry.owner.clone(),
        source: entry.source.clone(),
        target: entry.target.clone(),
        direction,
        state: TransferState::Queued,
        reason: String::new(),
        created_at: waiting.since,
        waiting: Some(waiting),
        started_at: None,
        ended_at: None,
        not_before: None,
        priority: None,
        urgent: entry.urgent,
        deadline: entry.deadline,
        attempt: 0,
        progress: ProgressSummary::default(),
        bottleneck: None,
        failures: FailureCount::default(),
        files_from_count: 0,
        exit: None,
    }
}
