//! The view of a state. Pure: a state and a size make the cells of a frame.
//!
//! | module | what it owns |
//! |---|---|
//! | `body` | the lines of a page, and the part that is shown |
//! | `chart` | charts of rates |
//! | `header` | the site, the contact with it, the rates in and out |
//! | `overview` | the lists of transfers and peers |
//! | `transfer` | one transfer |
//! | `peers` | the peers, each with its work |
//! | `overlay` | the help, and questions |

mod body;
mod chart;
mod header;
mod overlay;
mod overview;
mod peers;
mod transfer;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

use self::body::Body;
use super::model::{Model, Overlay, Page};
use crate::terminal::line::LineBuilder;
use crate::terminal::theme::Theme;

/// Returns the lines of the page.
fn body_of(model: &Model, theme: Theme, width: usize) -> Body {
    match (model.page, &model.detail) {
        (Page::Transfer, Some(detail)) => transfer::body(model, detail, theme, width),
        (Page::Peers, _) => peers::body(model, theme, width),
        _ => overview::body(model, theme, width),
    }
}

/// Paints a frame; returns the greatest line that a page without a cursor can begin with.
pub(super) fn paint(model: &Model, theme: Theme, area: Rect, buffer: &mut Buffer) -> usize {
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let header = header::lines(model, theme, width, height);
    let body = body_of(model, theme, width);
    let room = height.saturating_sub(header.len() + 1);
    let first = body.first(room);
    let count = body.lines.len();
    let behind = count.saturating_sub(first + room);
    let is_stale = !model.is_live() && model.contact != super::model::Contact::Opening;
    let mut y = area.y;
    let mut put = |line: &Line<'_>, style: Style| {
        if y < area.bottom() {
            buffer.set_line(area.x, y, line, area.width);
            buffer.set_style(Rect { x: area.x, y, width: area.width, height: 1 }, style);
            y += 1;
        }
    };
    header.iter().for_each(|line| put(line, Style::new()));
    let faint = if is_stale { Style::new().add_modifier(Modifier::DIM) } else { Style::new() };
    for (at, line) in body.lines.iter().enumerate().skip(first).take(room) {
        let is_chosen = body.chosen.is_some_and(|(start, end)| (start..end).contains(&at));
        put(line, if is_chosen { faint.patch(theme.chosen()) } else { faint });
    }
    let footer = Rect { y: area.bottom().saturating_sub(1), height: 1.min(area.height), ..area };
    if !footer.is_empty() {
        let line = footer_line(model, theme, width, (first, behind));
        buffer.set_line(footer.x, footer.y, &line, footer.width);
    }
    match model.overlay {
        Some(Overlay::Help) => overlay::paint(&overlay::help(), "Keys", theme, area, buffer),
        Some(Overlay::Cancel(id)) => {
            overlay::paint(&overlay::cancel(model, id), "Cancel", theme, area, buffer);
        }
        None => {}
    }
    count.saturating_sub(room)
}

/// Returns a page as plain text, of the whole height that it needs.
pub(super) fn text(model: &Model, theme: Theme, width: usize) -> String {
    let header = header::plain_lines(model, theme, width);
    let body = overview::body(model, theme, width);
    let lines = header.iter().chain(&body.lines);
    let text = lines.map(|line| line.to_string().trim_end().to_owned());
    text.collect::<Vec<_>>().join("\n")
}

/// Returns the last line: a text that is typed, a notice, or the keys; and how much more there is.
fn footer_line(
    model: &Model,
    theme: Theme,
    width: usize,
    (before, behind): (usize, usize),
) -> Line<'static> {
    let more = match (before, behind) {
        (0, 0) => String::new(),
        (0, behind) => format!("{behind} more below"),
        (before, 0) => format!("{before} more above"),
        (before, behind) => format!("{before} above, {behind} below"),
    };
    let room = width.saturating_sub(more.len() + 2);
    let mut line = LineBuilder::new(theme);
    if let Some(edit) = &model.filter_edit {
        let [before, at, behind] = edit.window(room.saturating_sub(9));
        line.text(" filter: ", theme.strong());
        line.text(&before, Style::new());
        line.text(&at, theme.chosen());
        line.text(&behind, Style::new());
        line.text("   Enter keeps it, Esc clears it", theme.faint());
    } else if let Some(notice) = &model.notice {
        let style = if notice.is_bad { theme.bad() } else { theme.good() };
        let mark = if notice.is_bad { theme.marks.bad } else { theme.marks.good };
        line.text(&theme.cut(&format!(" {mark} {}", notice.text), room), style);
    } else {
        for (key, what) in keys_of(model) {
            // The last keys are left out where there is no room for them.
            if line.width() + key.len() + what.len() + 4 > room {
                break;
            }
            line.text(&format!(" {key}"), theme.strong());
            line.text(&format!(" {what} "), theme.faint());
        }
    }
    line.right(&more, width, theme.faint());
    line.finish(width)
}

/// Returns the keys of the page, the most needed first.
fn keys_of(model: &Model) -> &'static [(&'static str, &'static str)] {
    match model.page {
        Page::Overview => &[
            ("q", "quit"),
            ("?", "keys"),
            ("Enter", "open"),
            ("p", "pause"),
            ("c", "cancel"),
            ("/", "filter"),
            ("s", "sort"),
            ("Tab", "peers"),
            ("r", "retry"),
        ],
        Page::Transfer => &[
            ("q", "quit"),
            ("?", "keys"),
            ("Esc", "back"),
            ("p", "pause"),
            ("c", "cancel"),
            ("r", "retry"),
            ("j k", "scroll"),
        ],
        Page::Peers => &[("q", "quit"), ("?", "keys"), ("Tab", "transfers"), ("j k", "scroll")],
    }
}
