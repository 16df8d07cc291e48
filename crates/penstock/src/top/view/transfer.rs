//! One transfer: its figures, the history of its rate, its peers, failures and events.

use penstock_api::rest::TransferView;
use penstock_api::transfer::{Progress, TransferState};
use penstock_proto::name;
use penstock_proto::units::{counted, format_bytes, format_rate};
use ratatui::style::Style;
use ratatui::text::Line;

use super::body::Body;
use super::chart::chart;
use super::header::clock;
use crate::commands::queue::deadline_text;
use crate::output::duration;
use crate::output::time::minute;
use crate::terminal::line::{LineBuilder, heading, wrapped};
use crate::terminal::theme::Theme;
use crate::top::model::{Detail, Model};
use crate::top::rows::Row;

/// Rows of the chart.
const CHART_ROWS: usize = 4;
/// Columns of the names of figures.
const NAME_COLUMNS: usize = 12;

/// Returns the lines of the page.
pub(super) fn body(model: &Model, detail: &Detail, theme: Theme, width: usize) -> Body {
    let row = model.rows.get(detail.id);
    let Some(view) = &detail.view else {
        let text = format!("  asking for {} …", detail.id.short());
        return Body { lines: vec![Line::styled(text, theme.faint())], ..Body::default() };
    };
    let mut page = Page { theme, width, view, row, lines: Vec::new() };
    page.title();
    page.figures();
    page.chart();
    page.peers();
    page.failures();
    page.events(detail);
    Body { lines: page.lines, chosen: None, scroll: model.scroll }
}

struct Page<'a> {
    theme: Theme,
    width: usize,
    view: &'a TransferView,
    /// Fresher figures, while events come.
    row: Option<&'a Row>,
    lines: Vec<Line<'static>>,
}

impl Page<'_> {
    fn state(&self) -> TransferState {
        self.row.map_or(self.view.state, |row| row.summary.state)
    }

    fn progress(&self) -> &Progress {
        let fresh = self.row.and_then(|row| row.progress.as_ref());
        fresh.unwrap_or(&self.view.progress)
    }

    fn heading(&mut self, words: &str, more: &str) {
        let line = heading(self.theme, words, more, self.width);
        self.lines.push(line);
    }

    fn figure(&mut self, name: &str, value: &str, style: Style) {
        if value.is_empty() {
            return;
        }
        let room = self.width.saturating_sub(NAME_COLUMNS + 2);
        for (at, text) in wrapped(value, room, "", "").into_iter().enumerate() {
            let mut line = LineBuilder::new(self.theme);
            line.gap(1);
            line.cell(if at == 0 { name } else { "" }, NAME_COLUMNS, self.theme.faint());
            line.text(&text, style);
            self.lines.push(line.finish(self.width));
        }
    }

    fn title(&mut self) {
        let (theme, view) = (self.theme, self.view);
        let state = self.state();
        let style = match state {
            TransferState::Failed => theme.bad(),
            TransferState::Done => theme.good(),
            _ => theme.strong(),
        };
        let mut line = LineBuilder::new(theme);
        line.text(&format!(" {} ", state.as_str().to_uppercase()), style.patch(theme.chosen()));
        line.text(&format!(" {}", view.id.short()), theme.strong());
        if !view.label.is_empty() {
            line.text(&format!("  {}", view.label), theme.strong());
        }
        let owner = view.owner.as_ref().map(|owner| format!("  of {owner}")).unwrap_or_default();
        line.text(&owner, theme.faint());
        self.lines.push(line.finish(self.width));
        let way = format!("{} {} {}", view.source, theme.marks.arrow, view.target);
        self.figure("way", &way, Style::new());
    }

    fn figures(&mut self) {
        let theme = self.theme;
        self.bar_line();
        let now = self.progress().clone();
        let more = if now.scan_complete { "" } else { " found so far" };
        let moved = self.row.map_or(now.bytes, Row::bytes_moved);
        let bytes = format!(
            "{} of {}{more}, {} durable",
            format_bytes(moved),
            format_bytes(now.bytes_found),
            format_bytes(now.bytes_durable)
        );
        self.figure("bytes", &bytes, Style::new());
        let files = format!("{} of {}{more}", now.files, counted(now.files_found, "file"));
        self.figure("files", &files, Style::new());
        if self.state() == TransferState::Running {
            self.figure("rate", &self.rate_words(&now), theme.strong());
            let limit = now.bottleneck.as_ref().map_or(&now.limit, |it| &it.text);
            self.figure("limited by", limit, Style::new());
        }
        let summary = self.row.map(|row| &row.summary);
        let waiting = summary.map_or(&self.view.waiting, |summary| &summary.waiting);
        let waits = waiting.as_ref().map(|waiting| {
            let until = waiting.until.map(|until| format!(", until {}", minute(until.seconds())));
            format!(
                "{}, since {}{}",
                waiting.text,
                clock(waiting.since.ms()),
                until.unwrap_or_default()
            )
        });
        self.figure("waits for", &waits.unwrap_or_default(), theme.warning());
        let reason = summary.map_or(&self.view.reason, |summary| &summary.reason).clone();
        let is_bad = self.state() == TransferState::Failed;
        self.figure("reason", &reason, if is_bad { theme.bad() } else { Style::new() });
        self.times();
        let rest = self.remarks(&now);
        self.figure("also", &rest, Style::new());
    }

    fn bar_line(&mut self) {
        let share = match self.row {
            Some(row) => row.share_done(),
            None => (self.state() == TransferState::Done).then_some(1.0),
        };
        let mut line = LineBuilder::new(self.theme);
        line.gap(1);
        line.bar(share, self.width.saturating_sub(9));
        let percent = share.map(|share| format!("{:.0} %", (share * 100.0).floor()));
        line.number(&percent.unwrap_or_default(), 6, self.theme.strong());
        self.lines.push(line.finish(self.width));
    }

    fn rate_words(&self, now: &Progress) -> String {
        let rate = self.row.map_or(now.rate_bits_per_s, Row::rate_bits_per_s);
        let left = self.row.and_then(Row::seconds_left).map(duration::exact);
        let left = left.map(|left| format!(", {left} left")).unwrap_or_default();
        let lanes = counted(u64::from(now.lanes), "lane");
        let max = now.rate_max_bits_per_s;
        let max = (max > 0.0).then(|| format!(", at most {} so far", format_rate(max)));
        format!("{}{left}, {lanes}{}", format_rate(rate), max.unwrap_or_default())
    }

    fn times(&mut self) {
        let view = self.view;
        let mut text = format!("submitted {}", minute(view.created_at.seconds()));
        for (what, at) in [("started", view.started_at), ("ended", view.ended_at)] {
            if let Some(at) = at {
                text += &format!(", {what} {}", minute(at.seconds()));
            }
        }
        text += " UTC";
        if view.attempt > 1 {
            text += &format!(", attempt {}", view.attempt);
        }
        self.figure("times", &text, Style::new());
        let deadline = view.deadline.as_ref().map(deadline_text).unwrap_or_default();
        self.figure("deadline", &deadline, Style::new());
        let limit = view.limits.rate_bits_per_s;
        let limit = limit.map(|rate| format_rate(rate as f64)).unwrap_or_default();
        self.figure("rate limit", &limit, Style::new());
    }

    fn remarks(&self, now: &Progress) -> String {
        let mut parts = Vec::new();
        for (bytes, what) in [(now.bytes_resumed, "resumed"), (now.bytes_resent, "sent again")] {
            if bytes > 0 {
                parts.push(format!("{} {what}", format_bytes(bytes)));
            }
        }
        for (count, thing, what) in [
            (now.repairs, "piece", "repaired"),
            (now.skipped, "item", "skipped"),
            (now.deleted, "item", "deleted"),
            (now.removed, "item", "removed at the source"),
        ] {
            if count > 0 {
                parts.push(format!("{} {what}", counted(count, thing)));
            }
        }
        parts.join(", ")
    }

    fn chart(&mut self) {
        let Some(row) = self.row.filter(|row| row.rates.seconds() > 1) else { return };
        let span = duration::exact(row.rates.seconds() as u64);
        let more = format!("last {span}, up to {}", format_rate(row.rates.max()));
        self.heading("RATE", &more);
        for text in chart(self.theme, &row.rates, self.width.saturating_sub(2), CHART_ROWS) {
            self.lines.push(Line::styled(format!(" {text}"), self.theme.accent()));
        }
    }

    fn peers(&mut self) {
        let peers = self.progress().peers.clone();
        if peers.is_empty() || self.state() != TransferState::Running {
            return;
        }
        self.heading(&format!("PEERS {}", peers.len()), "");
        for share in peers {
            let verified = format_bytes(share.bytes_verified);
            let lanes = counted(u64::from(share.lanes), "lane");
            let mut text = format!("{}, {verified} verified, {lanes}", share.state);
            if !share.waiting.is_empty() {
                text += &format!("; {}", share.waiting);
            }
            self.figure(&share.peer, &text, Style::new());
        }
    }

    fn failures(&mut self) {
        let count = self.progress().errors;
        if count == 0 {
            return;
        }
        let first = &self.view.failures.first;
        let words = if (first.len() as u64) < count { "the first of them" } else { "" };
        self.heading(&format!("FAILED {count}"), words);
        for item in first {
            let text = format!("{}: {}", name::escape_in_list(&item.path.0), item.message);
            let mut line = LineBuilder::new(self.theme);
            line.text(&format!(" {} ", self.theme.marks.bad), self.theme.bad());
            line.text(&self.theme.cut(&text, self.width.saturating_sub(4)), Style::new());
            self.lines.push(line.finish(self.width));
        }
    }

    /// Adds the events, the latest one first.
    fn events(&mut self, detail: &Detail) {
        if detail.events.is_empty() {
            return;
        }
        self.heading("EVENTS", "the latest first");
        let mut events: Vec<_> = detail.events.iter().collect();
        events.sort_by_key(|event| std::cmp::Reverse(event.at));
        for event in events {
            let first = format!(" {} {} ", clock(event.at.ms()), event.peer);
            let next = " ".repeat(first.len());
            let text = format!("{}: {}", event.kind, event.text);
            for line in wrapped(&text, self.width, &first, &next) {
                self.lines.push(Line::raw(self.theme.cut(&line, self.width)));
            }
        }
    }
}
