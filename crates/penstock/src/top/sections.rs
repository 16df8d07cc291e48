//! The lists of the overview: what is in each, and in which order.

use std::collections::BTreeMap;

use penstock_api::deadline::Promise;
use penstock_api::operate::{Finding, Level};
use penstock_api::rest::TransferSummary;
use penstock_api::transfer::TransferState;
use penstock_proto::id::TransferId;

use super::entry::{Entry, Section, Sort};
use super::model::Model;
use super::rows::Row;

/// Age after which a failed transfer is counted only, in milliseconds.
const OLD_MS: u64 = 86_400_000;
/// Alerts that are shown unless the user asks for all.
const ALERTS_MAX: usize = 5;
/// Ended transfers that are shown.
const ENDED_MAX: usize = 20;

/// A matter that needs attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Alert {
    pub(super) level: Level,
    /// The transfer that it is about, if it is about one.
    pub(super) id: Option<TransferId>,
    /// The object in a word or two; may be empty.
    pub(super) name: String,
    pub(super) text: String,
}

/// The lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sections {
    /// Alerts, the gravest first.
    pub(super) alerts: Vec<Alert>,
    /// Alerts that are not among them.
    pub(super) alerts_hidden: usize,
    /// Transfers that have failed long ago.
    pub(super) failed_long_ago: usize,
    pub(super) running: Vec<TransferId>,
    pub(super) waiting: Vec<TransferId>,
    pub(super) ended: Vec<TransferId>,
}

impl Sections {
    /// Returns the lists of a state.
    pub(super) fn of(model: &Model) -> Self {
        let fits = |row: &&Row| is_chosen(&model.filter, &row.summary);
        let mut running: Vec<&Row> = model.rows.iter().filter(|row| row.runs()).collect();
        running.retain(fits);
        sort_running(&mut running, model.sort);
        let waits =
            |row: &&Row| matches!(row.summary.state, TransferState::Queued | TransferState::Paused);
        let mut waiting: Vec<&Row> = model.rows.iter().filter(waits).filter(fits).collect();
        let places = places_in_queue(model);
        waiting.sort_by_key(|row| {
            let place = places.get(&row.summary.id).copied();
            let is_paused = row.summary.state == TransferState::Paused;
            (is_paused, place.unwrap_or(usize::MAX), row.summary.created_at)
        });
        let ended = |row: &&Row| row.summary.state.is_ended();
        let mut ended: Vec<&Row> = model.rows.iter().filter(ended).filter(fits).collect();
        ended.sort_by_key(|row| std::cmp::Reverse((row.summary.ended_at, row.summary.created_at)));
        ended.truncate(ENDED_MAX);
        let ids = |rows: Vec<&Row>| rows.iter().map(|row| row.summary.id).collect();
        let (alerts, failed_long_ago) = alerts_of(model);
        let mut sections = Self {
            alerts,
            alerts_hidden: 0,
            failed_long_ago,
            running: ids(running),
            waiting: ids(waiting),
            ended: ids(ended),
        };
        if !model.shows_all_alerts && sections.alerts.len() > ALERTS_MAX {
            sections.alerts_hidden = sections.alerts.len() - ALERTS_MAX;
            sections.alerts.truncate(ALERTS_MAX);
        }
        sections
    }

    /// Returns the transfers of all lists, from the top to the bottom.
    pub(super) fn entries(&self) -> Vec<Entry> {
        let of = |section, ids: &[TransferId]| {
            ids.iter().map(|id| Entry { section, id: *id }).collect::<Vec<_>>()
        };
        let alerts: Vec<_> = self.alerts.iter().filter_map(|alert| alert.id).collect();
        [
            of(Section::Attention, &alerts),
            of(Section::Running, &self.running),
            of(Section::Waiting, &self.waiting),
            of(Section::Ended, &self.ended),
        ]
        .concat()
    }
}

/// Returns the entry that keys act on, with its place: the one that the user chose, wherever it has
/// moved, else the one that has its place now.
pub(super) fn chosen(model: &Model, entries: &[Entry]) -> Option<(Entry, usize)> {
    let last = entries.len().checked_sub(1)?;
    let (wanted, place) = match model.cursor {
        Some(cursor) => cursor,
        None => return Some((entries[0], 0)),
    };
    let exact = entries.iter().position(|entry| *entry == wanted);
    let moved = || entries.iter().rposition(|entry| entry.id == wanted.id);
    let place = exact.or_else(moved).unwrap_or(place.min(last));
    Some((entries[place], place))
}

fn places_in_queue(model: &Model) -> BTreeMap<TransferId, usize> {
    let entries = model.queue.iter().flat_map(|queue| &queue.transfers);
    entries.enumerate().map(|(place, entry)| (entry.id, place)).collect()
}

fn sort_running(rows: &mut [&Row], sort: Sort) {
    rows.sort_by_key(|row| std::cmp::Reverse((row.summary.created_at, row.summary.id)));
    match sort {
        Sort::Newest => {}
        Sort::Rate => {
            rows.sort_by(|one, other| other.rate_bits_per_s().total_cmp(&one.rate_bits_per_s()));
        }
        Sort::Left => rows.sort_by_key(|row| row.seconds_left().unwrap_or(u64::MAX)),
        Sort::Done => {
            let share = |row: &Row| row.share_done().unwrap_or(-1.0);
            rows.sort_by(|one, other| share(other).total_cmp(&share(one)));
        }
    }
}

/// Returns whether a transfer has a text in its label, id, places, user, state or reason, in any
/// case.
fn is_chosen(filter: &str, summary: &TransferSummary) -> bool {
    let waits = summary.waiting.as_ref().map_or("", |waiting| waiting.text.as_str());
    let owner = summary.owner.as_ref().map(ToString::to_string).unwrap_or_default();
    let texts = [
        summary.label.clone(),
        summary.id.to_string(),
        summary.source.to_string(),
        summary.target.to_string(),
        owner,
        summary.state.as_str().to_owned(),
        summary.reason.clone(),
        waits.to_owned(),
    ];
    let filter = filter.to_lowercase();
    texts.iter().any(|text| text.to_lowercase().contains(&filter))
}

/// Returns the name of a transfer: its label, else its source.
pub(super) fn name_of(summary: &TransferSummary) -> String {
    if summary.label.is_empty() { summary.source.to_string() } else { summary.label.clone() }
}

/// Returns what needs attention, the gravest first, and the number of transfers that have failed
/// long ago.
fn alerts_of(model: &Model) -> (Vec<Alert>, usize) {
    // Without contact nothing is asked, and the head of the page says so.
    let troubles = model.troubles.iter().filter(|_| model.is_live());
    let mut alerts: Vec<Alert> = troubles.map(trouble).collect();
    let health = model.health.iter().flat_map(|health| &health.findings);
    alerts.extend(health.filter(|finding| finding.level >= Level::Warning).map(found));
    let mut failed_long_ago = 0;
    for row in model.rows.iter() {
        let summary = &row.summary;
        let is_old = |at: u64| model.now_ms.saturating_sub(at) > OLD_MS;
        let ended_ms = summary.ended_at.unwrap_or(summary.created_at).ms();
        if summary.state == TransferState::Failed && is_old(ended_ms) {
            failed_long_ago += usize::from(model.attention.contains(&summary.id));
            continue;
        }
        let alert = about(summary, model.attention.contains(&summary.id));
        alerts.extend(alert.map(|(level, text)| Alert {
            level,
            id: Some(summary.id),
            name: name_of(summary),
            text,
        }));
    }
    alerts.retain(|alert| {
        let text = format!("{} {}", alert.name, alert.text).to_lowercase();
        text.contains(&model.filter.to_lowercase())
    });
    alerts.sort_by_key(|alert| std::cmp::Reverse(alert.level));
    (alerts, failed_long_ago)
}

fn trouble((subject, why): (&super::looks::Subject, &String)) -> Alert {
    let text = format!("cannot {}: {why}", subject.words());
    Alert { level: Level::Warning, id: None, name: String::new(), text }
}

fn found(finding: &Finding) -> Alert {
    let next = match (finding.action.as_str(), finding.why.as_str()) {
        ("", "") => String::new(),
        ("", why) => format!(" ({why})"),
        (action, _) => format!(" ({action})"),
    };
    let text = format!("{}{next}", finding.what);
    Alert { level: finding.level, id: None, name: finding.peer.clone(), text }
}

/// Returns the reason for which a transfer needs attention.
fn about(summary: &TransferSummary, is_listed: bool) -> Option<(Level, String)> {
    let reason = || summary.reason.clone();
    if summary.state == TransferState::Failed {
        return Some((Level::Bad, format!("failed: {}", reason())));
    }
    if summary.state.is_ended() {
        return None;
    }
    let deadline = summary.deadline.map(|deadline| deadline.promise);
    if deadline == Some(Promise::Missed) {
        return Some((Level::Bad, "has missed its deadline".to_owned()));
    }
    if is_listed {
        let waits = summary.waiting.as_ref().map(|waiting| format!("waits for {}", waiting.text));
        return Some((Level::Warning, waits.unwrap_or_else(reason)));
    }
    if deadline == Some(Promise::AtRisk) {
        return Some((Level::Warning, "may miss its deadline".to_owned()));
    }
    let count = summary.failures.count;
    let items = if count == 1 { "item has" } else { "items have" };
    (count > 0).then(|| (Level::Warning, format!("{count} {items} failed so far")))
}
