//! The lists of the overview.

use penstock_api::operate::{Level, PeerView, Presence};
use penstock_api::rest::TransferSummary;
use penstock_api::transfer::TransferState;
use penstock_proto::id::TransferId;
use penstock_proto::units::{format_bytes, format_rate};
use ratatui::style::Style;
use ratatui::text::Line;

use super::body::Body;
use super::header::day_clock;
use crate::commands::peer::{in_hand, lasting, peer_state};
use crate::output::duration;
use crate::terminal::line::{LineBuilder, heading, wrapped};
use crate::terminal::theme::Theme;
use crate::top::entry::{Entry, Section};
use crate::top::model::Model;
use crate::top::rows::Row;
use crate::top::sections::{Alert, Sections, chosen, name_of};

/// Columns of the cursor and of an id.
const ID_COLUMNS: usize = 11;
/// Lines of an alert at most.
const ALERT_LINES: usize = 2;

/// Returns the lines of the page.
pub(super) fn body(model: &Model, theme: Theme, width: usize) -> Body {
    let sections = Sections::of(model);
    let entries = sections.entries();
    let mut page = Overview {
        model,
        theme,
        width,
        chosen: chosen(model, &entries).map(|(entry, _)| entry),
        body: Body::default(),
    };
    page.filter();
    page.alerts(&sections);
    page.running(&sections.running);
    page.waiting(&sections.waiting);
    page.ended(&sections.ended);
    page.peers();
    page.body
}

struct Overview<'a> {
    model: &'a Model,
    theme: Theme,
    width: usize,
    chosen: Option<Entry>,
    body: Body,
}

impl Overview<'_> {
    /// Adds the lines of a transfer in a list.
    fn add(&mut self, section: Section, id: TransferId, lines: Vec<Line<'static>>) {
        let start = self.body.lines.len();
        self.body.lines.extend(lines);
        if self.chosen == Some(Entry { section, id }) {
            self.body.chosen = Some((start, self.body.lines.len()));
        }
    }

    fn heading(&mut self, words: &str, more: &str) {
        let line = heading(self.theme, words, more, self.width);
        self.body.lines.push(line);
    }

    fn note(&mut self, text: &str) {
        let text = self.theme.cut(&format!("  {text}"), self.width);
        self.body.lines.push(Line::styled(text, self.theme.faint()));
    }

    /// Begins a line of a transfer.
    fn line(&self, section: Section, id: TransferId) -> LineBuilder {
        let is_chosen = self.chosen == Some(Entry { section, id });
        let mark = if is_chosen { self.theme.marks.cursor } else { " " };
        let mut line = LineBuilder::new(self.theme);
        line.text(&format!("{mark} "), Style::new());
        line.text(&format!("{} ", id.short()), self.theme.faint());
        line
    }

    /// Says that not all is shown.
    fn filter(&mut self) {
        if !self.model.filter.is_empty() && self.model.filter_edit.is_none() {
            let text = format!(" only with `{}`: Esc shows all", self.model.filter);
            let text = self.theme.cut(&text, self.width);
            self.body.lines.push(Line::styled(text, self.theme.warning()));
        }
    }

    fn alerts(&mut self, sections: &Sections) {
        if sections.alerts.is_empty() && sections.failed_long_ago == 0 {
            return;
        }
        let count = sections.alerts.len() + sections.alerts_hidden;
        self.heading(&format!("NEEDS ATTENTION {count}"), "");
        for alert in &sections.alerts {
            let lines = self.alert_lines(alert);
            match alert.id {
                Some(id) => self.add(Section::Attention, id, lines),
                None => self.body.lines.extend(lines),
            }
        }
        if sections.alerts_hidden > 0 {
            self.note(&format!("and {} more: `a` shows all", sections.alerts_hidden));
        }
        if sections.failed_long_ago > 0 {
            self.note(&format!(
                "{} failed more than a day ago: penstock transfer list --attention",
                sections.failed_long_ago
            ));
        }
    }

    fn alert_lines(&self, alert: &Alert) -> Vec<Line<'static>> {
        let theme = self.theme;
        let is_chosen = alert
            .id
            .is_some_and(|id| self.chosen == Some(Entry { section: Section::Attention, id }));
        let cursor = if is_chosen { theme.marks.cursor } else { " " };
        let (mark, style) = match alert.level {
            Level::Bad => (theme.marks.bad, theme.bad()),
            _ => (theme.marks.warning, theme.warning()),
        };
        let name = if alert.name.is_empty() { String::new() } else { format!("{}: ", alert.name) };
        let text = format!("{name}{}", alert.text);
        let mut lines = wrapped(&text, self.width, &format!("{cursor} {mark} "), "    ");
        if lines.len() > ALERT_LINES {
            lines.truncate(ALERT_LINES);
            let last = lines.pop().unwrap_or_default() + theme.marks.ellipsis;
            let kept = theme.cut(&last, self.width);
            lines.push(kept);
        }
        lines.into_iter().map(|line| Line::styled(theme.cut(&line, self.width), style)).collect()
    }

    fn running(&mut self, ids: &[TransferId]) {
        let sort = if ids.len() > 1 { self.model.sort.words() } else { "" };
        self.heading(&format!("RUNNING {}", ids.len()), sort);
        for id in ids {
            if let Some(row) = self.model.rows.get(*id) {
                let lines = vec![self.running_line(row), self.second_line(&row.summary)];
                self.add(Section::Running, *id, lines);
            }
        }
        if ids.is_empty() {
            self.note("none");
        }
    }

    fn running_line(&self, row: &Row) -> Line<'static> {
        let (theme, width, summary) = (self.theme, self.width, &row.summary);
        let bar = match width {
            0..60 => 0,
            60..100 => 14,
            100..140 => 20,
            _ => 32,
        };
        let (bytes, owner) = (if width >= 110 { 24 } else { 0 }, if width >= 140 { 12 } else { 0 });
        let fixed = ID_COLUMNS + bar + 6 + 15 + 11 + bytes + owner + 1;
        let mut line = self.line(Section::Running, summary.id);
        line.cell(&name_of(summary), width.saturating_sub(fixed).max(8), theme.strong());
        if owner > 0 {
            let name = summary.owner.as_ref().map(ToString::to_string).unwrap_or_default();
            line.cell(&format!(" {name}"), owner, Style::new());
        }
        line.gap(1);
        let share = row.share_done();
        line.bar(share, bar);
        let percent = share.map(|share| format!("{:.0} %", (share * 100.0).floor()));
        line.number(&percent.unwrap_or_default(), 6, theme.strong());
        if bytes > 0 {
            let found = format_bytes(summary.progress.bytes_found);
            let more = if summary.progress.scan_complete { "" } else { "+" };
            let text = format!("{} of {found}{more}", format_bytes(row.bytes_moved()));
            line.number(&text, bytes, Style::new());
        }
        line.number(&format_rate(row.rate_bits_per_s()), 15, Style::new());
        let left = match row.seconds_left() {
            Some(seconds) => duration::exact(seconds),
            None if !summary.progress.scan_complete => "scanning".to_owned(),
            None => String::new(),
        };
        line.number(&left, 11, Style::new());
        line.finish(width)
    }

    /// Returns the way of a transfer, and what it waits for or is limited by.
    fn second_line(&self, summary: &TransferSummary) -> Line<'static> {
        let (theme, width) = (self.theme, self.width);
        let mut line = LineBuilder::new(theme);
        line.gap(ID_COLUMNS);
        let why = state_words(summary, self.model.now_ms);
        let room = width.saturating_sub(ID_COLUMNS);
        let why_columns = console::measure_text_width(&why) + 3;
        let way = route(theme, summary);
        // The reason is worth more than the end of the way.
        let way_columns = room.saturating_sub(why_columns).max(room / 3);
        let is_named = !summary.label.is_empty();
        let way = if is_named { way } else { format!("{} {}", theme.marks.arrow, summary.target) };
        line.text(&theme.cut(&way, way_columns), theme.faint());
        if !why.is_empty() {
            line.text(&format!(" {} {why}", theme.marks.dot), theme.faint());
        }
        if summary.failures.count > 0 {
            line.text(
                &format!(" {} {} failed", theme.marks.dot, summary.failures.count),
                theme.bad(),
            );
        }
        line.finish(width)
    }

    fn waiting(&mut self, ids: &[TransferId]) {
        let queue = self.model.queue.as_ref().filter(|_| self.model.filter.is_empty());
        let queued = queue.map(|queue| queue.waiting);
        let more = if self.model.more_wait && queued.is_none() { "+" } else { "" };
        let count = queued.map_or(ids.len(), |queued| ids.len().max(queued as usize));
        if count == 0 {
            return;
        }
        self.heading(&format!("WAITING {count}{more}"), "");
        for id in ids {
            if let Some(row) = self.model.rows.get(*id) {
                let line = self.waiting_line(&row.summary);
                self.add(Section::Waiting, *id, vec![line]);
            }
        }
        if count > ids.len() {
            self.note(&format!("and {} more: penstock queue show", count - ids.len()));
        }
    }

    fn waiting_line(&self, summary: &TransferSummary) -> Line<'static> {
        let (theme, width) = (self.theme, self.width);
        let name_columns = (width / 4).clamp(8, 32);
        let mut line = self.line(Section::Waiting, summary.id);
        line.cell(&name_of(summary), name_columns, theme.strong());
        if width >= 120 {
            line.cell(&format!("  {}", route(theme, summary)), width / 4, theme.faint());
        }
        let start = self.forecast(summary.id);
        let why = state_words(summary, self.model.now_ms);
        let room = width.saturating_sub(line.width() + start.len() + 4);
        line.text(&format!("  {}", theme.cut(&why, room)), Style::new());
        line.right(&start, width, theme.faint());
        line.finish(width)
    }

    /// Returns the forecast start of a transfer that waits, in words; empty if there is none.
    fn forecast(&self, id: TransferId) -> String {
        let entries = self.model.queue.iter().flat_map(|queue| &queue.transfers);
        let entry = entries.into_iter().find(|entry| entry.id == id);
        let Some(at) = entry.and_then(|entry| entry.forecast_start) else { return String::new() };
        format!("starts {}", day_clock(at.ms(), self.model.now_ms))
    }

    fn ended(&mut self, ids: &[TransferId]) {
        if ids.is_empty() {
            return;
        }
        self.heading("ENDED", "");
        for id in ids {
            if let Some(row) = self.model.rows.get(*id) {
                let line = self.ended_line(&row.summary);
                self.add(Section::Ended, *id, vec![line]);
            }
        }
    }

    fn ended_line(&self, summary: &TransferSummary) -> Line<'static> {
        let (theme, width) = (self.theme, self.width);
        let (mark, style) = match summary.state {
            TransferState::Done => (theme.marks.good, theme.good()),
            TransferState::Failed => (theme.marks.bad, theme.bad()),
            _ => (theme.marks.dot, theme.faint()),
        };
        let mut line = self.line(Section::Ended, summary.id);
        line.cell(&name_of(summary), (width / 4).clamp(8, 32), theme.strong());
        line.cell(&format!("  {mark} {}", summary.state.as_str()), 14, style);
        if summary.progress.bytes > 0 || summary.state == TransferState::Done {
            line.number(&format_bytes(summary.progress.bytes), 11, Style::new());
        }
        let ago = summary.ended_at.map(|at| self.model.now_ms.saturating_sub(at.ms()) / 1000);
        let ago = ago.map(|seconds| format!("{} ago", lasting(seconds))).unwrap_or_default();
        let why = if summary.state == TransferState::Done {
            format!("  {}", route(theme, summary))
        } else {
            format!("  {}", summary.reason)
        };
        let room = width.saturating_sub(line.width() + ago.len() + 3);
        line.text(&theme.cut(&why, room), theme.faint());
        line.right(&ago, width, theme.faint());
        line.finish(width)
    }

    fn peers(&mut self) {
        let Some(health) = &self.model.health else { return };
        let names = health.peers.peers.iter().map(|peer| peer.peer.as_str().len());
        let columns = names.max().unwrap_or(0).min(24) + 2;
        let lines: Vec<_> =
            health.peers.peers.iter().map(|peer| self.peer_line(peer, columns)).collect();
        self.heading(&format!("PEERS {}", lines.len()), "");
        self.body.lines.extend(lines);
    }

    fn peer_line(&self, peer: &PeerView, columns: usize) -> Line<'static> {
        let theme = self.theme;
        let (mark, style) = peer_mark(theme, peer);
        let mut line = LineBuilder::new(theme);
        line.text(&format!("  {mark} "), style);
        line.cell(peer.peer.as_str(), columns, theme.strong());
        line.text(&peer_state(peer, self.model.now_ms / 1000), style);
        line.text(&format!(" {} {}", theme.marks.dot, in_hand(peer)), theme.faint());
        line.finish(self.width)
    }
}

/// Returns the mark of a peer's presence, with its style.
pub(super) fn peer_mark(theme: Theme, peer: &PeerView) -> (&'static str, Style) {
    match peer.presence {
        Presence::Up if peer.draining.is_some() => (theme.marks.warning, theme.warning()),
        Presence::Up => (theme.marks.good, theme.good()),
        Presence::Left => (theme.marks.dot, theme.faint()),
        Presence::Silent | Presence::Lost => (theme.marks.bad, theme.bad()),
    }
}

/// Returns source and target.
pub(super) fn route(theme: Theme, summary: &TransferSummary) -> String {
    format!("{} {} {}", summary.source, theme.marks.arrow, summary.target)
}

/// Returns what a transfer waits for, or is limited by, in words; empty if nothing is known.
pub(super) fn state_words(summary: &TransferSummary, now_ms: u64) -> String {
    let urgent = if summary.urgent { "urgent: " } else { "" };
    match (&summary.waiting, &summary.bottleneck) {
        (Some(waiting), _) if summary.state == TransferState::Paused => {
            let by = waiting.on.as_ref().map(|on| format!(" by {}", on.name));
            let (word, at) = match waiting.until {
                Some(until) => ("until", until),
                None => ("at", waiting.since),
            };
            let at = day_clock(at.ms(), now_ms);
            format!("paused{} {word} {at}", by.unwrap_or_default())
        }
        (Some(waiting), _) => format!("{urgent}waits for {}", waiting.text),
        _ if !summary.reason.is_empty() => summary.reason.clone(),
        (None, Some(bottleneck)) => format!("limited by {}", bottleneck.text),
        (None, None) => String::new(),
    }
}
