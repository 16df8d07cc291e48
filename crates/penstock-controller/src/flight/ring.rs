//! The records of one transfer, and which decisions are repetitions.

use std::collections::{HashMap, VecDeque};

use penstock_api::rest::{FLIGHT_KIND_MAX, FLIGHT_RECORDS_MAX, FlightKind, FlightRecord};
use penstock_api::timestamp::Timestamp;

/// Bytes of the text of a record. The rest of a longer one, as of a problem with a long path, is
/// cut.
const TEXT_BYTES_MAX: usize = 256;
/// Milliseconds after which the same decision is news again.
const REPEAT_WITHIN_MS: u64 = 60_000;
/// Milliseconds that a record of a frequent decision covers.
const SPAN_MS: u64 = 60_000;

/// A decision that is about to be recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision<'a> {
    pub(super) at_ms: u64,
    pub(super) attempt: u32,
    pub(super) kind: FlightKind,
    /// The peer; empty for the whole transfer.
    pub(super) peer: &'a str,
    /// The code of the problem that led to it; empty if there was none.
    pub(super) code: &'a str,
    /// Number of decisions that these words describe.
    pub(super) count: u64,
    /// Pieces of work that were granted.
    pub(super) pieces: u64,
    /// Bytes of these pieces, at most.
    pub(super) bytes: u64,
    pub(super) text: &'a str,
}

/// The last decisions, in the order of their first time.
#[derive(Debug, Default)]
pub(super) struct FlightRing {
    records: VecDeque<FlightRecord>,
}

impl FlightRing {
    /// Returns a ring with records of earlier attempts.
    pub(super) fn of(records: Vec<FlightRecord>) -> Self {
        let surplus = records.len().saturating_sub(FLIGHT_RECORDS_MAX);
        Self { records: records.into_iter().skip(surplus).collect() }
    }

    /// Returns the records.
    pub(super) fn records(&self) -> impl Iterator<Item = &FlightRecord> {
        self.records.iter()
    }

    /// Records a decision, or counts it as a repetition. Returns whether it has a record of its
    /// own. A repetition allocates nothing unless its numbers differ.
    pub(super) fn add(&mut self, decision: Decision<'_>) -> bool {
        let end = (0..=TEXT_BYTES_MAX).rfind(|&at| decision.text.is_char_boundary(at)).unwrap_or(0);
        let text = &decision.text[..end];
        let decision = Decision { text, ..decision };
        let mut latest = self.records.iter_mut().rev();
        if let Some(record) = latest.find(|record| is_repeated_by(record, &decision)) {
            record.count += decision.count;
            record.pieces += decision.pieces;
            record.bytes += decision.bytes;
            record.until = Some(Timestamp::of_ms(decision.at_ms));
            if record.text != decision.text {
                decision.text.clone_into(&mut record.text);
            }
            return false;
        }
        self.make_room(decision.kind);
        self.records.push_back(FlightRecord {
            at: Timestamp::of_ms(decision.at_ms),
            until: None,
            count: decision.count,
            attempt: decision.attempt,
            kind: decision.kind,
            peer: decision.peer.to_owned(),
            code: decision.code.to_owned(),
            pieces: decision.pieces,
            bytes: decision.bytes,
            text: decision.text.to_owned(),
        });
        true
    }

    /// Removes the oldest record of a kind that has its full share; else, if the ring is full, the
    /// oldest of the kind that has most.
    fn make_room(&mut self, kind: FlightKind) {
        let is_it = |record: &FlightRecord| record.kind == kind;
        if self.records.iter().filter(|record| is_it(record)).count() >= FLIGHT_KIND_MAX {
            if let Some(oldest) = self.records.iter().position(is_it) {
                self.records.remove(oldest);
            }
        } else if self.records.len() >= FLIGHT_RECORDS_MAX {
            let mut counts: HashMap<FlightKind, usize> = HashMap::new();
            self.records.iter().for_each(|record| *counts.entry(record.kind).or_default() += 1);
            let most = counts.values().copied().max();
            let has_most = |record: &FlightRecord| counts.get(&record.kind).copied() == most;
            if let Some(oldest) = self.records.iter().position(has_most) {
                self.records.remove(oldest);
            }
        }
    }
}

/// Returns whether a decision repeats that of a record. Numbers within waits, failures and shares
/// change all the time and make no other decision.
fn is_repeated_by(record: &FlightRecord, decision: &Decision<'_>) -> bool {
    if (record.kind, record.attempt) != (decision.kind, decision.attempt)
        || (record.peer.as_str(), record.code.as_str()) != (decision.peer, decision.code)
    {
        return false;
    }
    let is_same = match decision.kind {
        FlightKind::Grant => true,
        FlightKind::Wait | FlightKind::PeerOut | FlightKind::Share => {
            without_digits(&record.text).eq(without_digits(decision.text))
        }
        FlightKind::AttemptBegin | FlightKind::AttemptEnd | FlightKind::Phase => false,
        _ => record.text == decision.text,
    };
    let is_frequent = matches!(decision.kind, FlightKind::Grant | FlightKind::Share);
    let since = |time: Timestamp| decision.at_ms.saturating_sub(time.ms());
    is_same
        && since(record.last_at()) <= REPEAT_WITHIN_MS
        && (!is_frequent || since(record.at) <= SPAN_MS)
}

fn without_digits(text: &str) -> impl Iterator<Item = char> {
    text.chars().filter(|character| !character.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decision<'a>(at_ms: u64, kind: FlightKind, peer: &'a str, text: &'a str) -> Decision<'a> {
        Decision { at_ms, attempt: 1, kind, peer, code: "", count: 1, pieces: 0, bytes: 0, text }
    }

    fn counts(ring: &FlightRing) -> Vec<(String, u64)> {
        ring.records().map(|record| (record.text.clone(), record.count)).collect()
    }

    /// Promise: a fact that alternates between two states makes two records with counts, not a full
    /// ring. Another peer, another attempt and a long pause make other records.
    #[test]
    fn repetitions_are_counted() {
        let mut ring = FlightRing::default();
        let kind = FlightKind::Bottleneck;
        for at in 0..100 {
            let text = if at % 2 == 0 { "the scan" } else { "the target" };
            ring.add(decision(at * 200, kind, "h1", text));
        }
        let expected = [("the scan".to_owned(), 50), ("the target".to_owned(), 50)];
        assert_eq!(counts(&ring), expected);
        let first = ring.records().next().unwrap();
        assert_eq!((first.at.ms(), first.last_at().ms()), (0, 98 * 200));
        assert!(ring.add(decision(20_000, kind, "h2", "the scan")));
        assert!(ring.add(Decision { attempt: 2, ..decision(20_000, kind, "h1", "the scan") }));
        assert!(ring.add(decision(98 * 200 + REPEAT_WITHIN_MS + 1, kind, "h1", "the scan")));
    }

    /// Promise: a wait whose seconds count down is one record, with its last words; lanes of
    /// another number are another record.
    #[test]
    fn numbers_make_no_other_wait() {
        let mut ring = FlightRing::default();
        for left in (1..40).rev() {
            let text = format!("its share is given to others in {left} s");
            ring.add(decision(1000 * (40 - left), FlightKind::Wait, "h1", &text));
        }
        assert_eq!(counts(&ring), [("its share is given to others in 1 s".to_owned(), 39)]);
        assert!(ring.add(decision(50_000, FlightKind::Lanes, "h1", "8 lanes, before 2")));
        assert!(ring.add(decision(50_000, FlightKind::Lanes, "h1", "12 lanes, before 8")));
    }

    /// Promise: grants to a peer are summed by the minute, whatever decisions lie between them.
    #[test]
    fn grants_are_summed_by_the_minute() {
        let mut ring = FlightRing::default();
        for at in 0..600 {
            let peer = if at % 2 == 0 { "h1" } else { "h2" };
            let grant = decision(at * 200, FlightKind::Grant, peer, "work");
            ring.add(Decision { pieces: 3, ..grant });
        }
        let of_peer = |peer: &str| {
            let records = ring.records().filter(|record| record.peer == peer);
            let pieces: Vec<u64> = records.map(|record| record.pieces).collect();
            (pieces.len(), pieces.iter().sum::<u64>())
        };
        assert_eq!((of_peer("h1"), of_peer("h2")), ((2, 900), (2, 900)));
    }

    /// Promise: with many peers, each of which adds two decisions in turn, repetitions are counted
    /// all the same.
    #[test]
    fn many_peers_are_merged() {
        let mut ring = FlightRing::default();
        let peers: Vec<String> = (0..16).map(|number| format!("h{number}")).collect();
        for at in 0..250 {
            for peer in &peers {
                ring.add(decision(at * 200, FlightKind::Grant, peer, "it got work"));
                ring.add(decision(at * 200, FlightKind::Bottleneck, peer, "the target"));
            }
        }
        assert_eq!(ring.records().count(), 2 * peers.len());
        assert!(ring.records().all(|record| record.count == 250));
    }

    /// Promise (E15): the ring is bounded, and a frequent kind does not push out the rare ones.
    #[test]
    fn e15_a_frequent_kind_leaves_room_for_the_others() {
        let mut ring = FlightRing::default();
        ring.add(decision(0, FlightKind::PeerOut, "h1", "it hangs"));
        for at in 0..10_000 {
            let text = format!("{at} lanes");
            ring.add(decision(at, FlightKind::Lanes, "h1", &text));
        }
        assert_eq!(ring.records().count(), FLIGHT_KIND_MAX + 1);
        assert_eq!(ring.records().next().unwrap().text, "it hangs");
        for at in 0..10_000 {
            let kinds = [FlightKind::Path, FlightKind::Rate, FlightKind::Tenure, FlightKind::Stall];
            let text = format!("{at}");
            ring.add(decision(at, kinds[at as usize % 4], "", &text));
        }
        assert_eq!(ring.records().count(), FLIGHT_RECORDS_MAX);
        assert_eq!(ring.records().next().unwrap().text, "it hangs");
    }
}
