//! The explanation of a transfer: a paragraph, evidence, advice and the last decisions.

use std::collections::BTreeMap;

use penstock_api::bottleneck::{Bottleneck, BottleneckCode};
use penstock_api::queue::{LimitKind, QueueLimit, QueueLimitView, QueueView};
use penstock_api::rest::{FlightKind, FlightRecord, TransferView, WaitingView};
use penstock_api::transfer::TransferState;
use penstock_proto::id::TransferId;
use penstock_proto::units::{format_bytes, format_rate};
use serde::Serialize;

use super::advice;
use super::facts::Facts;
use crate::commands::peer::lasting;
use crate::output::time::second;

/// Transfers that are named which start before one.
const AHEAD_NAMED: usize = 3;
/// Peers that are named which take no part.
const PEERS_NAMED: usize = 4;

/// The explanation of a transfer.
#[derive(Debug, Serialize)]
pub(super) struct Explanation {
    /// The transfer.
    pub(super) id: TransferId,
    /// Its state.
    pub(super) state: TransferState,
    /// Why it is where it is, in a sentence or three.
    pub(super) summary: String,
    /// The facts behind that.
    pub(super) evidence: Vec<Evidence>,
    /// What a user or an operator can do.
    pub(super) advice: Vec<String>,
    /// The decisions that the flight recorder keeps, oldest first.
    pub(super) decisions: Vec<FlightRecord>,
}

/// A fact.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Evidence {
    /// Its subject, in a word or two.
    pub(super) about: &'static str,
    /// The fact, in words.
    pub(super) text: String,
}

/// Returns the explanation that follows from the facts.
pub(super) fn explain(facts: &Facts) -> Explanation {
    let view = &facts.view;
    let mut it = Explaining { facts, evidence: Vec::new(), advice: Vec::new() };
    let summary = match view.state {
        TransferState::Queued => it.waits(),
        TransferState::Paused => it.is_paused(),
        TransferState::Running => it.runs(),
        TransferState::Done => it.is_done(),
        TransferState::Failed => it.has_failed(),
        TransferState::Cancelled => it.is_cancelled(),
    };
    it.add_failed_items();
    let Explaining { evidence, advice, .. } = it;
    let advice = advice.into_iter().map(|advice| filled(&advice, view)).collect();
    let (id, state, decisions) = (view.id, view.state, facts.flight.clone());
    Explanation { id, state, summary, evidence, advice, decisions }
}

/// An explanation in the making.
struct Explaining<'a> {
    facts: &'a Facts,
    evidence: Vec<Evidence>,
    advice: Vec<String>,
}

impl Explaining<'_> {
    fn add(&mut self, about: &'static str, text: impl Into<String>) {
        let text = text.into();
        if !text.is_empty() {
            self.evidence.push(Evidence { about, text });
        }
    }

    fn advise(&mut self, advice: Option<&str>) {
        let advice = advice.map(str::to_owned).filter(|new| !self.advice.contains(new));
        self.advice.extend(advice);
    }

    /// A transfer that waits in the queue.
    fn waits(&mut self) -> String {
        let view = &self.facts.view;
        let Some(waiting) = &view.waiting else {
            return "The transfer waits, and the queue has not said for what yet.".to_owned();
        };
        let mut summary = wait_text(waiting, self.facts.now.ms());
        match waiting.code.as_str() {
            "retry" => {
                summary += &format!(" {}", self.last_failure());
                let code = self.last_end().map(|it| it.code.clone()).unwrap_or_default();
                self.advise(advice::of_problem(&code));
            }
            "turn" | "not-before" => {}
            _ => self.add("reason", view.reason.clone()),
        }
        if let Some(queue) = &self.facts.queue {
            self.add_queue(queue, waiting);
        }
        if let Some(deadline) = &view.deadline {
            self.add("deadline", crate::commands::queue::deadline_text(deadline));
        }
        self.advise(advice::of_wait(&waiting.code));
        summary
    }

    /// Adds what the queue says of a transfer that waits: who is ahead, which rule holds it, and
    /// when it is expected to start.
    fn add_queue(&mut self, queue: &QueueView, waiting: &WaitingView) {
        let id = self.facts.view.id;
        let on = waiting.on.as_ref().map(|on| on.name.as_str()).unwrap_or_default();
        let at = queue.transfers.iter().position(|entry| entry.id == id);
        let ahead: Vec<_> = queue.transfers.iter().take(at.unwrap_or(0)).collect();
        if waiting.code == "turn" {
            let named = ahead.iter().take(AHEAD_NAMED).map(|entry| {
                let of = entry.owner.as_ref().map(|owner| format!(" of {owner}"));
                let label = Some(&entry.label).filter(|label| !label.is_empty());
                let label = label.map(|label| format!(" [{label}]")).unwrap_or_default();
                format!("{}{}{label}", entry.id.short(), of.unwrap_or_default())
            });
            let more = ahead.len().saturating_sub(AHEAD_NAMED);
            let more = (more > 0).then(|| format!("and {more} more"));
            self.add("ahead", named.chain(more).collect::<Vec<_>>().join(", "));
            let holds = |limit: &&QueueLimitView| match on.is_empty() {
                true => limit.limit.kind == LimitKind::Site,
                false => limit.limit.name == on,
            };
            for limit in queue.limits.iter().filter(holds) {
                let QueueLimit { kind, name, running, .. } = &limit.limit;
                let (kind, now) = (kind.as_str(), limit.running_now);
                let most = running.map(|most| format!(" of at most {most}")).unwrap_or_default();
                self.add("limit", format!("{kind} `{name}`: {now}{most} run"));
            }
        }
        for rule in queue.pause_rules.iter().filter(|rule| rule.rule.name.as_str() == on) {
            let rule = &rule.rule;
            self.add("hold", format!("`{}` by {}: {}", rule.name, rule.by, rule.reason));
        }
        let entry = at.and_then(|at| queue.transfers.get(at));
        let expected = entry.and_then(|entry| Some((entry.forecast_start?, entry.forecast_end)));
        if let Some((start, end)) = expected {
            let end = end.map(|end| format!(", and to end at {}", second(end.ms())));
            let end = end.unwrap_or_default();
            self.add("forecast", format!("expected to start at {} UTC{end}", second(start.ms())));
        }
    }

    fn is_paused(&mut self) -> String {
        let waiting = self.facts.view.waiting.as_ref();
        let by = waiting.and_then(|waiting| waiting.on.as_ref()).map(|on| on.name.as_str());
        let by = by.map_or_else(|| "a user".to_owned(), |user| format!("`{user}`"));
        let since = waiting.map(|it| format!(" for {}", self.lasting(it.since.ms())));
        let end = match waiting.and_then(|waiting| waiting.until) {
            Some(until) => format!("resumes at {} UTC", second(until.ms())),
            None => "waits until a user resumes it".to_owned(),
        };
        self.add("progress", self.done_text());
        self.advise(advice::of_wait("user"));
        format!(
            "The transfer has been paused by {by}{}: it keeps its progress, and {end}.",
            since.unwrap_or_default()
        )
    }

    fn runs(&mut self) -> String {
        let view = &self.facts.view;
        let progress = &view.progress;
        let rate = format_rate(progress.rate_bits_per_s);
        let mut summary = match &view.bottleneck {
            _ if progress.rate_bits_per_s <= 0.0 => {
                "The transfer runs and moves nothing now".into()
            }
            Some(Bottleneck { code, text, .. }) => {
                self.advise(advice::of_bottleneck(*code));
                match code {
                    BottleneckCode::Several => {
                        format!("The transfer runs at {rate}. Its peers are limited by: {text}")
                    }
                    _ => format!("The transfer runs at {rate}, limited by {text}"),
                }
            }
            None => format!("The transfer runs at {rate}"),
        };
        match view.reason.is_empty() {
            true => summary.push('.'),
            false => summary += &format!(". It waits: {}.", view.reason.trim_end_matches('.')),
        }
        self.add("progress", self.done_text());
        let eta = view.eta_seconds.map(|seconds| format!("{} at this rate", lasting(seconds)));
        self.add("left", eta.unwrap_or_default());
        for sentence in &self.facts.measured {
            self.add("measured", sentence.clone());
        }
        if let Some(limit) = view.limits.rate_bits_per_s {
            self.add("own limit", format_rate(limit as f64));
        }
        let rate_rule = self.facts.flight.iter().rfind(|it| it.kind == FlightKind::Rate);
        self.add("rate rule", rate_rule.map(|it| it.text.clone()).unwrap_or_default());
        let away = self.add_peers();
        if away > 0 {
            let peers =
                if away == 1 { "1 peer takes".into() } else { format!("{away} peers take") };
            summary += &format!(" {peers} no part, and will be asked again.");
        }
        self.add("slowed by", bottleneck_shares(&self.facts.flight, view.attempt));
        if view.attempt > 1 {
            self.add(
                "attempts",
                format!("this is attempt {}. {}", view.attempt, self.last_failure()),
            );
        }
        summary
    }

    /// Adds the peers that take no part. Returns their number.
    fn add_peers(&mut self) -> usize {
        let is_away = |state: &str| {
            ["out", "left out", "leaving"].iter().any(|word| state.starts_with(&format!("{word}:")))
        };
        let peers = &self.facts.view.progress.peers;
        let away: Vec<_> = peers.iter().filter(|peer| is_away(&peer.state)).collect();
        for peer in away.iter().take(PEERS_NAMED) {
            self.add("peer", format!("{}: {}", peer.peer, peer.state));
        }
        let resting = peers.iter().filter(|peer| peer.state.starts_with("resting:"));
        for peer in resting.take(PEERS_NAMED) {
            self.add("peer", format!("{}: {}", peer.peer, peer.state));
        }
        away.len()
    }

    fn is_done(&mut self) -> String {
        let view = &self.facts.view;
        let progress = &view.progress;
        let moved = progress.bytes_verified;
        let mean = if progress.seconds > 0.0 { moved as f64 * 8.0 / progress.seconds } else { 0.0 };
        self.add("slowed by", bottleneck_shares(&self.facts.flight, view.attempt));
        let most = format_rate(progress.rate_max_bits_per_s);
        self.add("rate", format!("{} on average, {most} at most", format_rate(mean)));
        if progress.bytes_resumed + progress.bytes_skipped > 0 {
            let (resumed, skipped) = (progress.bytes_resumed, progress.bytes_skipped);
            let texts = (format_bytes(resumed), format_bytes(skipped));
            let text = format!("{} from earlier attempts, {} left as they were", texts.0, texts.1);
            self.add("not moved", text);
        }
        if view.attempt > 1 {
            self.add("attempts", view.attempt.to_string());
        }
        self.add("remark", view.reason.clone());
        let by = view.bottleneck.as_ref();
        let by = by.map(|by| format!(" Its rate was limited by {}.", by.text));
        format!(
            "The transfer is done: {} in {}, {} on average.{}",
            format_bytes(moved),
            took(progress.seconds),
            format_rate(mean),
            by.unwrap_or_default()
        )
    }

    fn has_failed(&mut self) -> String {
        let view = &self.facts.view;
        let attempts = match view.attempt {
            0 | 1 => String::new(),
            attempts => format!(" after {attempts} attempts"),
        };
        self.add("progress", self.done_text());
        let code = self.last_end().map(|it| it.code.clone()).unwrap_or_default();
        self.advise(advice::of_problem(&code));
        format!("The transfer has failed{attempts}: {}.", view.reason.trim_end_matches('.'))
    }

    fn is_cancelled(&mut self) -> String {
        let reason = self.facts.view.reason.trim_end_matches('.');
        match reason.is_empty() {
            true => "The transfer was cancelled.".to_owned(),
            false => format!("The transfer was cancelled: {reason}."),
        }
    }

    /// Adds the failed items by code, with the next step for each.
    fn add_failed_items(&mut self) {
        let mut codes: Vec<_> = self.facts.failed.iter().collect();
        codes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        for (code, count) in codes {
            let like = self.facts.view.failures.first.iter().find(|item| item.code == *code);
            let like = like.map(|item| {
                // A transfer of a single file has a path without a name.
                let name = if item.path.0.is_empty() { "." } else { &item.path.to_string() };
                format!(", as `{name}`: {}", item.message)
            });
            let items = if *count == 1 { "item" } else { "items" };
            let least = if self.facts.failed_is_cut { "at least " } else { "" };
            let like = like.unwrap_or_default();
            self.add("failed", format!("{least}{count} {items}, {code}{like}"));
            self.advise(Some(&advice::of_item(code)));
        }
    }

    /// Returns what the transfer has of what it has found.
    fn done_text(&self) -> String {
        let progress = &self.facts.view.progress;
        let more = if progress.scan_complete { "" } else { " found so far" };
        format!(
            "{} of {} files, {} of {}{more}",
            progress.files,
            progress.files_found,
            format_bytes(progress.bytes),
            format_bytes(progress.bytes_found)
        )
    }

    /// Returns the end of the present attempt or of the one before. An attempt that was killed has
    /// none, and that of an earlier one would tell another story.
    fn last_end(&self) -> Option<&FlightRecord> {
        let least = self.facts.view.attempt.saturating_sub(1);
        let is_end = |it: &&FlightRecord| it.kind == FlightKind::AttemptEnd && it.attempt >= least;
        self.facts.flight.iter().rfind(is_end)
    }

    /// Returns why the last attempt ended: as recorded, else the reason of the transfer.
    fn last_failure(&self) -> String {
        let ended = self.last_end().map(|it| {
            // That it is queued again is known.
            let text = it.text.strip_prefix("queued: ").unwrap_or(&it.text);
            format!("The last one ended: {text}.")
        });
        let reason = &self.facts.view.reason;
        let reason = (!reason.is_empty()).then(|| format!("The last one failed: {reason}."));
        ended.or(reason).unwrap_or_default()
    }

    fn lasting(&self, since_ms: u64) -> String {
        lasting(self.facts.now.ms().saturating_sub(since_ms) / 1000)
    }
}

/// Returns the duration of a transfer in words.
fn took(seconds: f64) -> String {
    if seconds < 60.0 { format!("{seconds:.1} s") } else { lasting(seconds as u64) }
}

/// Returns what a transfer waits for, since when and until when.
fn wait_text(waiting: &WaitingView, now_ms: u64) -> String {
    let awaited = WaitingView::words_of(&waiting.code).unwrap_or(&waiting.text);
    let on = waiting.on.as_ref().map(|on| format!(" (`{}`)", on.name)).unwrap_or_default();
    let since = lasting(now_ms.saturating_sub(waiting.since.ms()) / 1000);
    let until = waiting.until.map(|until| format!(", until {} UTC", second(until.ms())));
    let before = match waiting.position {
        Some(1) => " 1 transfer starts before it.".to_owned(),
        Some(before @ 2..) => format!(" {before} transfers start before it."),
        _ => String::new(),
    };
    let until = until.unwrap_or_default();
    format!("The transfer has waited for {awaited}{on} for {since}{until}.{before}")
}

/// Returns the parts that limited the rate of an attempt, the greatest first, each with its share
/// of the recorded time.
fn bottleneck_shares(flight: &[FlightRecord], attempt: u32) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let of_attempt =
        flight.iter().filter(|it| it.kind == FlightKind::Bottleneck && it.attempt == attempt);
    for record in of_attempt {
        *counts.entry(&record.text).or_default() += record.count;
    }
    let all = counts.values().sum::<u64>().max(1);
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let share = |count: u64| (count as f64 * 100.0 / all as f64).round();
    let named = counts.iter().filter(|(_, count)| share(*count) >= 1.0);
    let named = named.map(|(text, count)| format!("{text} for {:.0} % of the time", share(*count)));
    named.collect::<Vec<_>>().join("; ")
}

/// Returns a record as a row of a table.
pub(super) fn row(record: &FlightRecord) -> [String; 4] {
    let FlightRecord { kind, count, pieces, bytes, text, .. } = record;
    let kind_text = serde_json::to_value(kind).ok();
    let kind_text = kind_text.as_ref().and_then(|kind| kind.as_str()).unwrap_or_default();
    let text = match kind {
        FlightKind::Grant => format!("{text}: {pieces} pieces, {} at most", format_bytes(*bytes)),
        _ => text.clone(),
    };
    let span = (record.last_at().ms().saturating_sub(record.at.ms())) / 1000;
    let times = match count {
        0 | 1 => text,
        count => format!("{text} ({count} times in {})", lasting(span.max(1))),
    };
    let peer = if record.peer.is_empty() { "-".to_owned() } else { record.peer.clone() };
    [format!("  {}", second(record.at.ms())), peer, kind_text.to_owned(), times]
}

/// Returns advice with the id of the transfer and the name of its other site in their places.
fn filled(advice: &str, view: &TransferView) -> String {
    let site = match view.direction {
        penstock_api::rest::Direction::Out => &view.target.site,
        _ => &view.source.site,
    };
    advice.replace(" ID", &format!(" {}", view.id.short())).replace("SITE", site.as_str())
}

#[cfg(test)]
mod tests;
