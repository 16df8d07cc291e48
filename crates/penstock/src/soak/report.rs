//! What a soak prints while it works: lines for people, or JSON Lines.

use penstock_api::rest::TransferView;
use penstock_api::transfer::{Location, TransferState};
use penstock_exit as exit;
use penstock_proto::id::TransferId;
use penstock_proto::units::{counted, format_bytes, format_rate};
use serde::Serialize;

use super::course::step::Step;
use super::course::wait_watch::News;
use super::record::{FaultRecord, RoundRecord};
use crate::output::duration;

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

/// A transfer that waits or moves again.
#[derive(Serialize)]
struct WaitLine<'a> {
    round: u64,
    purpose: &'a str,
    transfer: TransferId,
    state: TransferState,
    /// The reason of the wait, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// Time without progress, with no fault open.
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
}

/// The end of a cleaning.
#[derive(Serialize)]
struct CleanedLine<'a> {
    target: &'a Location,
    left: Option<&'a str>,
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

    /// Reports a transfer that waits, or that moves again.
    ///
    /// # Errors
    /// As [`Report::fault_begins`].
    pub(super) fn wait(self, step: Step, view: &TransferView, news: &News) -> anyhow::Result<()> {
        let (kind, reason, seconds) = match news {
            News::Waits(reason) => ("waits", Some(reason.as_str()), None),
            News::Moves(after) => ("moves", None, Some(after.as_secs_f64())),
        };
        if self.json {
            let (round, purpose) = (step.round, step.purpose.as_str());
            let (transfer, state) = (view.id, view.state);
            let of = WaitLine { round, purpose, transfer, state, reason, seconds };
            return self.line(kind, &of);
        }
        match news {
            News::Waits(reason) => exit::warn(&format!("{step}: {reason}")),
            News::Moves(after) => {
                let after = duration::exact(after.as_secs());
                exit::warn(&format!("{step}: the transfer moves again after {after}"));
            }
        }
        Ok(())
    }

    /// Reports that the target store was cleaned; `left` has in words what stays there.
    ///
    /// # Errors
    /// As [`Report::fault_begins`].
    pub(super) fn cleaned(self, target: &Location, left: Option<&str>) -> anyhow::Result<()> {
        if self.json {
            return self.line("cleaned", &CleanedLine { target, left });
        }
        let nothing = || format!("The soak has left nothing in `{target}`.");
        Ok(exit::print(&left.map_or_else(nothing, str::to_owned))?)
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
