//! Messages that wait for their delivery to one receiver: a pure machine, driven by the dispatcher.
//!
//! A failed attempt is repeated after 5 s, 30 s, 2 min, 10 min, 1 h, and then every 2 h. After a
//! day since the first attempt the message is dropped. When the receiver answers again, every
//! message that waits becomes due at once.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

/// Attempts under way at one receiver.
pub(super) const PARALLEL_MAX: usize = 4;
/// Messages that wait for one receiver; beyond them the oldest is dropped.
pub(super) const WAITING_MAX: usize = 10_000;
/// Time from the first attempt after which a message is dropped.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// Delays after the attempts, in seconds; the last one repeats.
const DELAYS_SECONDS: [u64; 6] = [5, 30, 120, 600, 3600, 7200];
/// Longest delay that a receiver may ask for.
pub(super) const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);

/// A message that waits.
#[derive(Debug)]
struct Waiting<M> {
    message: M,
    /// Time of the event, in milliseconds since 1970.
    ended_ms: u64,
    attempts: u32,
    first: Option<Instant>,
    due: Instant,
    is_under_way: bool,
}

/// Messages of type `M`, by their ids.
#[derive(Debug)]
pub(super) struct Outbox<M> {
    waiting: BTreeMap<String, Waiting<M>>,
    /// Times of events that are delivered or dropped, by the ids of their messages, back to the
    /// stored mark. These messages are not delivered again when the events are read again.
    settled: BTreeMap<String, u64>,
    /// Time of the newest event that was ever added, in milliseconds since 1970.
    newest_ms: u64,
}

/// The next step after an attempt that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterFailure {
    /// A further attempt follows.
    Retry,
    /// The message is dropped.
    GivenUp,
}

impl<M: Clone> Outbox<M> {
    /// Returns an outbox in which every event up to `delivered_ms` is delivered.
    pub(super) fn new(delivered_ms: u64) -> Self {
        let (waiting, settled) = (BTreeMap::new(), BTreeMap::new());
        Self { waiting, settled, newest_ms: delivered_ms }
    }

    /// Drops all messages that wait, so that they can be added again with other settings.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Adds a message about an event of `ended_ms`, unless its id waits or is settled already.
    /// Returns the id of a message that is dropped for it.
    pub(super) fn add(
        &mut self,
        id: String,
        message: M,
        ended_ms: u64,
        now: Instant,
    ) -> Option<String> {
        self.pass(ended_ms);
        if self.settled.contains_key(&id) {
            return None;
        }
        self.waiting.entry(id).or_insert(Waiting {
            message,
            ended_ms,
            attempts: 0,
            first: None,
            due: now,
            is_under_way: false,
        });
        if self.waiting.len() <= WAITING_MAX {
            return None;
        }
        let idle = self.waiting.iter().filter(|(_, waiting)| !waiting.is_under_way);
        let oldest = idle.min_by_key(|(_, waiting)| waiting.ended_ms).map(|(id, _)| id.clone())?;
        self.settle(&oldest);
        Some(oldest)
    }

    /// Records an event of `ended_ms` that needs no message.
    pub(super) fn pass(&mut self, ended_ms: u64) {
        self.newest_ms = self.newest_ms.max(ended_ms);
    }

    /// Returns a message that is due, and the number of this attempt at it, from 1.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(String, M, u32)> {
        let under_way = self.waiting.values().filter(|waiting| waiting.is_under_way).count();
        if under_way >= PARALLEL_MAX {
            return None;
        }
        let due = self
            .waiting
            .iter_mut()
            .filter(|(_, waiting)| !waiting.is_under_way && waiting.due <= now);
        let (id, waiting) = due.min_by_key(|(_, waiting)| (waiting.due, waiting.ended_ms))?;
        waiting.is_under_way = true;
        waiting.attempts += 1;
        waiting.first.get_or_insert(now);
        Some((id.clone(), waiting.message.clone(), waiting.attempts))
    }

    /// Returns whether a message waits or is under way.
    pub(super) fn has(&self, id: &str) -> bool {
        self.waiting.contains_key(id)
    }

    /// Removes a message that is delivered. Messages that wait after a failure become due.
    pub(super) fn delivered(&mut self, id: &str, now: Instant) {
        self.settle(id);
        for waiting in self.waiting.values_mut() {
            waiting.due = waiting.due.min(now);
        }
    }

    /// Decides the next step after a failed attempt. `after` is the delay that the receiver asks
    /// for.
    pub(super) fn failed(
        &mut self,
        id: &str,
        now: Instant,
        after: Option<Duration>,
    ) -> AfterFailure {
        let Some(waiting) = self.waiting.get_mut(id) else { return AfterFailure::GivenUp };
        let at = (waiting.attempts.max(1) as usize - 1).min(DELAYS_SECONDS.len() - 1);
        let delay = Duration::from_secs(DELAYS_SECONDS[at])
            .max(after.unwrap_or_default().min(RETRY_AFTER_MAX));
        let first = waiting.first.unwrap_or(now);
        if now + delay > first + PATIENCE {
            self.settle(id);
            return AfterFailure::GivenUp;
        }
        waiting.is_under_way = false;
        waiting.due = now + delay;
        AfterFailure::Retry
    }

    fn settle(&mut self, id: &str) {
        let Some((id, waiting)) = self.waiting.remove_entry(id) else { return };
        self.settled.insert(id, waiting.ended_ms);
        if self.settled.len() > WAITING_MAX {
            // The oldest one is the first that a mark passes.
            let oldest = self.settled.iter().min_by_key(|(_, ended_ms)| **ended_ms);
            let oldest = oldest.map(|(id, _)| id.clone());
            oldest.and_then(|id| self.settled.remove(&id));
        }
    }

    /// Forgets settled events of before `ended_ms`, which are not read again.
    pub(super) fn forget_before(&mut self, ended_ms: u64) {
        self.settled.retain(|_, settled| *settled >= ended_ms);
    }

    /// Returns when the next message is due; `None` while none waits, or enough are under way.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let under_way = self.waiting.values().filter(|waiting| waiting.is_under_way).count();
        let idle = self.waiting.values().filter(|waiting| !waiting.is_under_way);
        idle.map(|waiting| waiting.due).min().filter(|_| under_way < PARALLEL_MAX)
    }

    /// Returns the number of messages that wait or are under way.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the time, in milliseconds since 1970, before which every event is delivered or
    /// dropped.
    pub(super) fn delivered_ms(&self) -> u64 {
        let oldest = self.waiting.values().map(|waiting| waiting.ended_ms).min();
        oldest.unwrap_or(self.newest_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn outbox(count: u64, now: Instant) -> Outbox<u64> {
        let mut outbox = Outbox::new(0);
        for at in 0..count {
            assert_eq!(outbox.add(format!("{at:05}"), at, 1000 + at, now), None);
        }
        outbox
    }

    /// Promise (Q6): a receiver that was away for six hours gets each message once it answers, and
    /// the mark that a later controller begins at passes none that waits.
    #[test]
    fn q6_each_message_arrives_after_an_outage() {
        let start = Instant::now();
        let mut outbox = outbox(100, start);
        let (mut now, mut failures) = (start, 0);
        while now < start + 6 * HOUR {
            while let Some((id, ..)) = outbox.take_due(now) {
                assert_eq!(outbox.failed(&id, now, None), AfterFailure::Retry);
                failures += 1;
            }
            assert_eq!(outbox.delivered_ms(), 1000);
            now = outbox.next_due().unwrap();
        }
        assert!((800..1000).contains(&failures), "{failures} attempts at 100 messages");
        let mut arrived = std::collections::BTreeSet::new();
        while let Some((id, message, _)) = outbox.take_due(now) {
            outbox.delivered(&id, now);
            assert!(arrived.insert(message));
        }
        assert_eq!((arrived.len(), outbox.len()), (100, 0));
        assert_eq!(outbox.delivered_ms(), 1099);
    }

    /// Promise: events that are read again, with the same or with other settings, are delivered
    /// once; those that waited wait again.
    #[test]
    fn a_settled_event_is_not_told_again() {
        let now = Instant::now();
        let mut outbox = outbox(2, now);
        let (id, ..) = outbox.take_due(now).unwrap();
        outbox.delivered(&id, now);
        outbox.clear();
        for at in 0..2 {
            outbox.add(format!("{at:05}"), at, 1000 + at, now);
        }
        let due: Vec<_> = std::iter::from_fn(|| outbox.take_due(now)).map(|due| due.0).collect();
        assert_eq!(due, ["00001"]);
        outbox.forget_before(1001);
        outbox.add(id.clone(), 0, 1000, now);
        assert!(outbox.has(&id), "no more is remembered than events that can be read again");
    }

    /// Promise: a receiver that is gone for good gets no more attempts after a day.
    #[test]
    fn a_message_is_given_up_after_a_day() {
        let start = Instant::now();
        let mut outbox = outbox(1, start);
        let mut now = start;
        loop {
            let (id, ..) = outbox.take_due(now).unwrap();
            if outbox.failed(&id, now, None) == AfterFailure::GivenUp {
                break;
            }
            now = outbox.next_due().unwrap();
        }
        assert!(now > start + 22 * HOUR && now <= start + 24 * HOUR);
        assert_eq!((outbox.len(), outbox.delivered_ms()), (0, 1000));
    }

    /// Promise (g): attempts at a time and messages in memory are bounded, a message is not under
    /// way twice, and a receiver cannot put an attempt off for ever.
    #[test]
    fn g_an_outbox_is_bounded() {
        let now = Instant::now();
        let mut outbox = outbox(WAITING_MAX as u64, now);
        let taken: Vec<_> = std::iter::from_fn(|| outbox.take_due(now)).map(|due| due.1).collect();
        assert_eq!(taken, [0, 1, 2, 3]);
        assert_eq!(outbox.next_due(), None);
        let gone = outbox.add("more".to_owned(), 0, 90_000, now);
        assert_eq!((gone.as_deref(), outbox.len()), (Some("00004"), WAITING_MAX));
        assert_eq!(outbox.failed("00000", now, Some(100 * HOUR)), AfterFailure::Retry);
        outbox.add("00001".to_owned(), 7, 1001, now);
        let ids: Vec<_> = std::iter::from_fn(|| outbox.take_due(now)).map(|due| due.0).collect();
        assert_eq!(ids, ["00005"]);
        for id in ["00001", "00002", "00003", "00005"] {
            outbox.failed(id, now, None);
        }
        let mut outbox = self::outbox(1, now);
        let (id, ..) = outbox.take_due(now).unwrap();
        outbox.failed(&id, now, Some(100 * HOUR));
        assert!(outbox.take_due(now + RETRY_AFTER_MAX - HOUR / 60).is_none());
        assert!(outbox.take_due(now + RETRY_AFTER_MAX).is_some());
    }
}
