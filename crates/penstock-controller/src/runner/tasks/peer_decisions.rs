//! The decisions of a run's peers, as their figures show them, for the flight recorder.
//!
//! Figures arrive several times a second. An unchanged figure is no decision. The part that limits
//! the rate is an exception: its repetitions are counted.

use std::collections::BTreeMap;

use penstock_api::limits::Share;
use penstock_api::rest::FlightKind;
use penstock_api::task::{TaskDecisionKind, TaskFigures};
use penstock_proto::id::PeerNumber;
use penstock_proto::units::format_rate;

use crate::flight::{FlightRecorder, Grants};

/// The last figures of each peer that takes part.
#[derive(Debug, Default)]
pub(super) struct PeerDecisions {
    seen: BTreeMap<PeerNumber, Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    lanes: u32,
    /// Number of the last decision of the task that is recorded.
    serial: u64,
}

impl PeerDecisions {
    /// Records changes in the figures of a peer, and the work that it got since the last call.
    pub(super) fn handle_figures(
        &mut self,
        (number, peer): (PeerNumber, &str),
        figures: &TaskFigures,
        grants: Grants,
        flight: &FlightRecorder,
    ) {
        let seen = self.seen.entry(number).or_default();
        flight.add_grants(peer, grants);
        for decision in figures.decisions.iter().filter(|it| it.serial > seen.serial) {
            let kind = match decision.kind {
                TaskDecisionKind::Lanes => FlightKind::Lanes,
                TaskDecisionKind::Path => FlightKind::Path,
                TaskDecisionKind::Other => FlightKind::Other,
            };
            flight.add(kind, peer, &decision.text);
        }
        let serials = figures.decisions.iter().map(|decision| decision.serial);
        seen.serial = serials.max().unwrap_or_default().max(seen.serial);
        if figures.lanes != seen.lanes {
            let text = format!("open lanes: {}, before that {}", figures.lanes, seen.lanes);
            flight.add(FlightKind::Lanes, peer, &text);
            seen.lanes = figures.lanes;
        }
        if !figures.waiting.is_empty() {
            flight.add(FlightKind::Wait, peer, &figures.waiting);
        }
    }

    /// Forgets a peer that has left the run.
    pub(super) fn handle_left(&mut self, number: PeerNumber) {
        self.seen.remove(&number);
    }
}

/// Returns a share of the limits in words.
pub(super) fn share_text(share: &Share) -> String {
    let mut parts = Vec::new();
    parts.extend(share.rate_bits_per_s.map(|rate| format_rate(rate as f64)));
    parts.extend(share.metadata_ops_per_s.map(|most| format!("{most} metadata operations/s")));
    let lanes = if share.lanes > 0 { share.lanes } else { share.lanes_max };
    parts.extend((lanes > 0).then(|| format!("{lanes} lanes")));
    match parts.is_empty() {
        true => "its share has no limit".to_owned(),
        false => format!("its share of the limits: {}", parts.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use penstock_api::task::TaskDecision;

    use super::*;

    fn decision(serial: u64, text: &str) -> TaskDecision {
        TaskDecision { serial, kind: TaskDecisionKind::Lanes, text: text.to_owned() }
    }

    /// Promise: each decision of a task is recorded once, however often its figures repeat it. The
    /// decisions of a restarted task are recorded from the beginning.
    #[test]
    fn a_decision_is_recorded_once() {
        let (mut decisions, flight) = (PeerDecisions::default(), FlightRecorder::default());
        let peer = (PeerNumber(1), "h1");
        let mut figures = TaskFigures {
            lanes: 2,
            decisions: vec![decision(1, "first"), decision(2, "second")],
            ..TaskFigures::default()
        };
        for _ in 0..3 {
            decisions.handle_figures(peer, &figures, Grants::default(), &flight);
        }
        figures.decisions = vec![decision(2, "second"), decision(3, "third")];
        decisions.handle_figures(peer, &figures, Grants::default(), &flight);
        let texts = || flight.texts().into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        let expected = ["first", "second", "open lanes: 2, before that 0", "third"];
        assert_eq!(texts(), expected);
        decisions.handle_left(PeerNumber(1));
        figures.decisions = vec![decision(1, "of another task")];
        decisions.handle_figures((PeerNumber(2), "h1"), &figures, Grants::default(), &flight);
        assert!(texts().contains(&"of another task".to_owned()));
    }

    /// Promise: the text of a share names its limits, and no others.
    #[test]
    fn a_share_names_its_limits() {
        assert_eq!(share_text(&Share::default()), "its share has no limit");
        let share = Share { rate_bits_per_s: Some(50_000_000), lanes_max: 4, ..Share::default() };
        assert_eq!(share_text(&share), "its share of the limits: 50.00 Mbit/s, 4 lanes");
    }
}
