//! The last events of a manager, numbered, so that a reader notices missed events.
//!
//! Events stay until [`EVENTS_MAX`] newer ones have come. A slower reader, or one that asks for an
//! event which is gone, gets one notice and continues with the oldest event that is left. The ring
//! never waits for a reader. Another manager, after a restart or at another peer, has another ring:
//! its incarnation differs, and positions of an earlier one are gone.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use penstock_api::rest::Event;
use penstock_proto::id::Name;
use tokio::sync::watch;

/// Events that are kept.
const EVENTS_MAX: usize = 8192;

/// The position of an event: the incarnation of the ring, and a number that rises by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventId {
    incarnation: u32,
    number: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{}", self.incarnation, self.number)
    }
}

impl FromStr for EventId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("`{text}` is not the id of an event");
        let (incarnation, number) = text.split_once('-').ok_or_else(wrong)?;
        Ok(Self {
            incarnation: u32::from_str_radix(incarnation, 16).map_err(|_| wrong())?,
            number: number.parse().map_err(|_| wrong())?,
        })
    }
}

/// An event, or the fact that some were missed.
#[derive(Clone, Debug, PartialEq)]
pub enum NextEvent {
    /// The next event.
    Event(EventId, Arc<OwnedEvent>),
    /// Events before the next one are gone.
    Missed,
}

/// An event, and the user whose transfer it concerns.
#[derive(Clone, Debug, PartialEq)]
pub struct OwnedEvent {
    /// The user; `None` where another site submitted it, or the administrator of the host.
    pub owner: Option<Name>,
    /// The event.
    pub event: Event,
    json: OnceLock<Box<str>>,
}

impl OwnedEvent {
    fn new(owner: Option<Name>, event: Event) -> Arc<Self> {
        Arc::new(Self { owner, event, json: OnceLock::new() })
    }

    /// Returns the event as JSON, without line breaks. It is made once for all readers.
    pub fn json(&self) -> &str {
        // Our own types always have a JSON form.
        self.json
            .get_or_init(|| serde_json::to_string(&self.event).unwrap_or_default().into_boxed_str())
    }
}

/// The writing end. Readers come to their end when it is dropped.
#[derive(Debug)]
pub(super) struct EventRing {
    ring: Arc<Mutex<Ring>>,
    /// The number of the next event.
    news: watch::Sender<u64>,
}

#[derive(Debug)]
struct Ring {
    incarnation: u32,
    /// Number of the first event that is kept.
    first: u64,
    events: VecDeque<Arc<OwnedEvent>>,
    /// Number of notices of lost events.
    resets: u64,
}

/// Events, and their readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventFigures {
    /// Events since the manager began.
    pub events: u64,
    /// Readers now; the log and the webhooks of the daemon are two.
    pub readers: usize,
    /// Number of notices to readers that they have missed events.
    pub resets: u64,
}

/// A reader of events.
#[derive(Clone, Debug)]
pub struct EventReader {
    ring: Arc<Mutex<Ring>>,
    news: watch::Receiver<u64>,
    next: u64,
    /// Set if the position that the reader began at is gone.
    missed: bool,
}

fn lock(ring: &Mutex<Ring>) -> MutexGuard<'_, Ring> {
    ring.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EventRing {
    pub(super) fn new(incarnation: u32) -> Self {
        let ring = Ring { incarnation, first: 0, events: VecDeque::new(), resets: 0 };
        Self { ring: Arc::new(Mutex::new(ring)), news: watch::Sender::new(0) }
    }

    pub(super) fn add(&self, owner: Option<Name>, event: Event) {
        self.add_all([(owner, event)]);
    }

    /// Adds events that come at the same time: each reader wakes once for all of them.
    pub(super) fn add_all(&self, events: impl IntoIterator<Item = (Option<Name>, Event)>) {
        let events: Vec<_> =
            events.into_iter().map(|(owner, event)| OwnedEvent::new(owner, event)).collect();
        let mut ring = lock(&self.ring);
        ring.events.extend(events);
        let surplus = ring.events.len().saturating_sub(EVENTS_MAX);
        ring.events.drain(..surplus);
        ring.first += surplus as u64;
        let next = ring.first + ring.events.len() as u64;
        drop(ring);
        self.news.send_replace(next);
    }

    pub(super) fn figures(&self) -> EventFigures {
        let ring = lock(&self.ring);
        let events = ring.first + ring.events.len() as u64;
        EventFigures { events, readers: self.news.receiver_count(), resets: ring.resets }
    }

    /// Returns a reader of the events after `after`; of all from now on if that is `None`.
    pub(super) fn reader(&self, after: Option<EventId>) -> EventReader {
        let ring = lock(&self.ring);
        let end = ring.first + ring.events.len() as u64;
        let next = after.map_or(end, |after| after.number.saturating_add(1));
        let known = after.is_none_or(|after| after.incarnation == ring.incarnation);
        let missed = !known || !(ring.first..=end).contains(&next);
        let next = if missed { end } else { next };
        drop(ring);
        EventReader { ring: Arc::clone(&self.ring), news: self.news.subscribe(), next, missed }
    }
}

impl EventReader {
    /// Returns the next event if there is one.
    pub fn try_next(&mut self) -> Option<NextEvent> {
        let mut ring = lock(&self.ring);
        if std::mem::take(&mut self.missed) || self.next < ring.first {
            self.next = self.next.max(ring.first);
            ring.resets += 1;
            return Some(NextEvent::Missed);
        }
        let event = ring.events.get((self.next - ring.first) as usize)?;
        let id = EventId { incarnation: ring.incarnation, number: self.next };
        self.next += 1;
        Some(NextEvent::Event(id, Arc::clone(event)))
    }

    /// Waits for the next event; `None` when no more will come. The future may be cancelled without
    /// a loss of events.
    pub async fn next(&mut self) -> Option<NextEvent> {
        loop {
            // Marked first, so that an event between the two calls is not slept through.
            self.news.borrow_and_update();
            if let Some(next) = self.try_next() {
                return Some(next);
            }
            self.news.changed().await.ok()?;
        }
    }
}

#[cfg(test)]
mod tests {
    use penstock_api::problem::{Problem, ProblemCode};
    use penstock_api::rest::ErrorEvent;
    use penstock_proto::id::TransferId;

    use super::*;

    fn event(number: u64) -> Event {
        let problem = Problem::new(ProblemCode::State, number.to_string());
        Event::Error(ErrorEvent { v: 1, id: TransferId([0; 16]), problem: problem.into() })
    }

    fn number(next: Option<NextEvent>) -> (Option<EventId>, String) {
        match next {
            Some(NextEvent::Event(id, event)) => match &event.event {
                Event::Error(error) => (Some(id), error.problem.detail.clone()),
                other => panic!("{other:?}"),
            },
            Some(NextEvent::Missed) => (None, "missed".to_owned()),
            None => (None, String::new()),
        }
    }

    /// Promise (X4): a reader that resumes after an event gets every later one, once and in order.
    #[test]
    fn x4_a_reader_resumes_without_loss() {
        let ring = EventRing::new(7);
        let mut first = ring.reader(None);
        (0..5).for_each(|at| ring.add(None, event(at)));
        assert_eq!(number(first.try_next()).1, "0");
        let (id, text) = number(first.try_next());
        assert_eq!((id.unwrap().to_string().as_str(), text.as_str()), ("00000007-1", "1"));
        drop(first);
        let mut again = ring.reader(id.unwrap().to_string().parse().ok());
        let texts: Vec<_> = (0..3).map(|_| number(again.try_next()).1).collect();
        assert_eq!(texts, ["2", "3", "4"]);
        assert_eq!(again.try_next(), None);
    }

    /// Promise (X4): a reader that has missed events gets one notice, and then continues.
    #[test]
    fn x4_a_loss_is_told() {
        let ring = EventRing::new(7);
        let mut slow = ring.reader(None);
        (0..EVENTS_MAX as u64 + 3).for_each(|at| ring.add(None, event(at)));
        assert_eq!(slow.try_next(), Some(NextEvent::Missed));
        assert_eq!(number(slow.try_next()).1, "3");
        assert_eq!((ring.figures().resets, ring.figures().readers), (1, 1));
        let positions = ["00000008-5", "00000007-0", "00000007-99999999"];
        for position in positions {
            let mut reader = ring.reader(Some(position.parse().unwrap()));
            assert_eq!(reader.try_next(), Some(NextEvent::Missed), "{position}");
            assert_eq!(reader.try_next(), None);
        }
        for wrong in ["", "7", "x-1", "7-"] {
            assert!(wrong.parse::<EventId>().is_err(), "`{wrong}`");
        }
    }

    /// Promise (X4): events that come together have numbers one after the other, and a ring that
    /// they overflow loses the oldest.
    #[test]
    fn x4_events_may_come_together() {
        let ring = EventRing::new(7);
        let mut reader = ring.reader(None);
        ring.add_all((0..3).map(|at| (None, event(at))));
        let seen: Vec<_> = (0..3).map(|_| number(reader.try_next()).0.unwrap().number).collect();
        assert_eq!(seen, [0, 1, 2]);
        ring.add_all((3..EVENTS_MAX as u64 + 5).map(|at| (None, event(at))));
        assert_eq!(reader.try_next(), Some(NextEvent::Missed));
        let next = reader.try_next();
        assert_eq!(number(next.clone()).1, "5");
        let Some(NextEvent::Event(_, told)) = next else { panic!("{next:?}") };
        assert_eq!(serde_json::from_str::<Event>(told.json()).unwrap(), told.event);
    }

    /// Promise: a reader that waits gets the next event, and its end when the manager ends.
    #[tokio::test]
    async fn a_reader_waits_for_news() {
        let ring = EventRing::new(7);
        let mut reader = ring.reader(None);
        let waits = tokio::spawn(async move { (reader.next().await, reader.next().await) });
        tokio::task::yield_now().await;
        ring.add(None, event(0));
        drop(ring);
        let (event, end) = waits.await.unwrap();
        assert_eq!(number(event).1, "0");
        assert_eq!(end, None);
    }
}
