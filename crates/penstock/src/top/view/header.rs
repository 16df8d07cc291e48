//! The head of each page: the site, the contact with it, the rates in and out.

use penstock_proto::units::format_rate;
use ratatui::style::Style;
use ratatui::text::Line;

use super::chart::chart;
use crate::output::time::utc;
use crate::terminal::line::{LineBuilder, wrapped};
use crate::terminal::theme::Theme;
use crate::top::model::{Contact, Model, Page};
use crate::top::rate_history::RateHistory;

/// Height from which charts have several rows.
const TALL: usize = 40;
/// Rows of a chart on a tall page.
const TALL_ROWS: usize = 3;
/// Columns of a rate.
const RATE_COLUMNS: usize = 13;

/// Milliseconds of a day.
const DAY_MS: u64 = 24 * 3600 * 1000;

/// Returns the time of day in UTC, as `12:03:11`.
pub(super) fn clock(ms: u64) -> String {
    utc(ms).get(11..19).unwrap_or_default().to_owned()
}

/// Returns a time in UTC to the minute, as `12:03`; with its day, as `2026-12-24 12:03`, if it is a
/// day or more from now.
pub(super) fn day_clock(ms: u64, now_ms: u64) -> String {
    let from = if ms.abs_diff(now_ms) < DAY_MS { 11 } else { 0 };
    utc(ms).get(from..16).unwrap_or_default().to_owned()
}

/// Returns the head for a page of a size.
pub(super) fn lines(
    model: &Model,
    theme: Theme,
    width: usize,
    height: usize,
) -> Vec<Line<'static>> {
    let mut lines = vec![first_line(model, theme, width)];
    lines.extend(banner(model, theme, width));
    if model.page != Page::Transfer {
        let rows = if height >= TALL { TALL_ROWS } else { 1 };
        lines.extend(rate_lines(model, theme, width, rows));
    }
    lines
}

/// Returns the head without charts, for a reader that sees one frame only.
pub(super) fn plain_lines(model: &Model, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let mut line = LineBuilder::new(theme);
    let rate = format_rate(model.receiving_bits_per_s());
    line.text(&format!(" in {rate}"), Style::new());
    vec![first_line(model, theme, width), line.finish(width)]
}

fn first_line(model: &Model, theme: Theme, width: usize) -> Line<'static> {
    let (mark, words, style) = match &model.contact {
        Contact::Opening => (theme.marks.dot, "opening", theme.faint()),
        Contact::Live => (theme.marks.good, "live", theme.good()),
        Contact::Lost { .. } => (theme.marks.bad, "NO CONTACT", theme.bad()),
    };
    let right = format!("{mark} {words}  {} UTC", clock(model.now_ms));
    let mut line = LineBuilder::new(theme);
    line.text(&format!(" {}", model.status.site.name), theme.strong());
    let dot = theme.marks.dot;
    let who = format!("  peer {} {dot} {} ({})", model.status.peer, model.me.user, model.me.role);
    let room = width.saturating_sub(line.width() + console::measure_text_width(&right) + 2);
    line.text(&theme.cut(&who, room), theme.faint());
    line.right(&right, width, style);
    line.finish(width)
}

/// Returns the lines that say that there is no contact, and since when.
fn banner(model: &Model, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let Contact::Lost { since_ms, why, retry_ms } = &model.contact else { return Vec::new() };
    let seconds = retry_ms.saturating_sub(model.now_ms).div_ceil(1000);
    let retry =
        if seconds == 0 { "Trying now".to_owned() } else { format!("Next try in {seconds} s") };
    let text = format!(
        "No contact since {}: {why}. What you see is from then. {retry}.",
        clock(*since_ms)
    );
    let lines = wrapped(&text, width, &format!(" {} ", theme.marks.bad), "   ");
    let style = theme.bad().patch(theme.chosen());
    let line = |text: String| Line::styled(theme.padded(&text, width), style);
    lines.into_iter().map(line).collect()
}

/// Returns the rates in and out, each with its chart.
fn rate_lines(model: &Model, theme: Theme, width: usize, rows: usize) -> Vec<Line<'static>> {
    let is_alone = model.health.as_ref().is_none_or(|health| health.peers.peers.len() < 2);
    // The others do not say what they send.
    let out = match is_alone {
        true => "out".to_owned(),
        false => format!("out of {}", model.status.peer),
    };
    let columns = out.len();
    let known = model.is_live();
    let rate_in = known.then(|| model.receiving_bits_per_s());
    let rate_out = model.sending_bits_per_s().filter(|_| known);
    let row = |name: &str, rate: Option<f64>, rates: &RateHistory| {
        let name = theme.padded(name, columns);
        // A flat line needs no height.
        let rows = if rates.max() > 0.0 { rows } else { 1 };
        rate_rows(theme, width, rows, (&name, rate, rates))
    };
    [row("in", rate_in, &model.rates_in), row(&out, rate_out, &model.rates_out)].concat()
}

fn rate_rows(
    theme: Theme,
    width: usize,
    rows: usize,
    (name, rate, rates): (&str, Option<f64>, &RateHistory),
) -> Vec<Line<'static>> {
    let labels = name.len() + RATE_COLUMNS + 4;
    let charts = chart(theme, rates, width.saturating_sub(labels + 1), rows);
    let line = |(at, chart): (usize, &String)| {
        let mut line = LineBuilder::new(theme);
        let is_last = at + 1 == rows;
        match rate {
            _ if !is_last => {
                let max = if at == 0 {
                    format!("max {}", format_rate(rates.max()))
                } else {
                    String::new()
                };
                line.number(&max, labels - 2, theme.faint());
            }
            Some(rate) => {
                line.text(&format!(" {name} "), theme.strong());
                line.number(&format_rate(rate), RATE_COLUMNS, theme.strong());
            }
            None => {
                line.text(&format!(" {name} "), theme.strong());
                line.number("not known", RATE_COLUMNS, theme.faint());
            }
        }
        line.gap(2);
        line.text(chart, theme.accent());
        line.finish(width)
    };
    charts.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a time of another day is shown with its day.
    #[test]
    fn a_far_time_has_its_day() {
        let now = 1_795_694_400_000;
        assert_eq!(day_clock(now + 20 * 3_600_000, now).len(), 5);
        let far = day_clock(now + 3 * DAY_MS, now);
        assert_eq!((far.as_str(), far.len()), (&utc(now + 3 * DAY_MS)[..16], 16));
    }
}
