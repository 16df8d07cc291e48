//! What a soak prints while it works: lines for people, or JSON Lines.

use penstock_exit as exit;
use penstock_proto::units::{counted, format_bytes, format_rate};
use serde::Serialize;

use super::record::{FaultRecord, RoundRecord};

/// Prints rounds and faults as they end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    json: bool,
}

#[derive(Serialize)]
struct Line<'a, T> {
    #[serde(rename = "type")]
    kind: &'a str,
    v: u32,
    #[serde(flatten)]
    of: &'a T,
}

impl Report {
    /// Returns a report; `json` for JSON Lines on standard output.
    pub(super) fn new(json: bool) -> Self {
        Self { json }
    }

    fn line(self, kind: &str, of: &impl Serialize) -> anyhow::Result<()> {
        let line = Line { kind, v: super::record::RECORD_VERSION, of };
        Ok(exit::print(&serde_json::to_string(&line)?)?)
    }

    /// Reports the begin of a fault.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(super) fn fault_begins(self, fault: &FaultRecord) -> anyhow::Result<()> {
        if self.json {
            return self.line("fault-begins", fault);
        }
        exit::warn(&format!("fault {}: {}", fault.fault, fault.name));
        Ok(())
    }

    /// Reports a fault that is over.
    ///
    /// # Errors
    /// As [`Report::fault_begins`].
    pub(super) fn fault_over(self, fault: &FaultRecord) -> anyhow::Result<()> {
        if self.json {
            return self.line("fault", fault);
        }
        let progress = match (&fault.problem, fault.progress_seconds) {
            (Some(problem), _) => problem.clone(),
            (None, Some(seconds)) => format!("progress again {seconds:.1} s after its begin"),
            (None, None) if fault.at_rest => "the damage is looked for".to_owned(),
            (None, None) => "no progress was seen before the next one".to_owned(),
        };
        exit::warn(&format!("fault {}: {} is over; {progress}", fault.fault, fault.name));
        Ok(())
    }

    /// Reports a round.
    ///
    /// # Errors
    /// As [`Report::fault_begins`].
    pub(super) fn round(self, round: &RoundRecord) -> anyhow::Result<()> {
        if self.json {
            return self.line("round", round);
        }
        let state = if round.is_good { "verified" } else { "NOT GOOD" };
        let again: u64 = round.sent_again.iter().map(|it| it.bytes).sum();
        exit::warn(&format!(
            "round {}: {state}, {} in {:.1} s, {}, {}, {} sent again",
            round.round,
            format_bytes(round.bytes),
            round.seconds,
            format_rate(round.bytes as f64 * 8.0 / round.seconds.max(1e-3)),
            counted(round.faults, "fault"),
            format_bytes(again)
        ));
        for failure in &round.failures {
            exit::warn(&format!("round {}: {failure}", round.round));
        }
        Ok(())
    }
}
