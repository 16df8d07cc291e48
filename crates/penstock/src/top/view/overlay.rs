//! Boxes over a page: the help, and questions.

use penstock_proto::id::TransferId;
use penstock_proto::units::format_bytes;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::{Clear, Widget as _};

use crate::terminal::theme::Theme;
use crate::top::model::Model;
use crate::top::sections::name_of;

/// The keys, and what each does.
const KEYS: [(&str, &str); 16] = [
    ("j k, arrows", "move to the next or former transfer; scroll"),
    ("g G, PgUp PgDn", "move to the top or the bottom, or by ten"),
    ("Enter", "open the transfer"),
    ("Esc", "go back; in the overview: clear the filter"),
    ("p", "pause the transfer, or resume it if it is paused"),
    ("c", "cancel the transfer, after a question"),
    ("r", "retry a failed transfer"),
    ("/", "show only transfers with a text in label, id, place,"),
    ("", "user, state or reason"),
    ("s", "sort those that run: newest, rate, time left, share"),
    ("a", "show all that needs attention, or the first five"),
    ("Tab", "go to the peers, and back"),
    ("Ctrl-L", "paint the screen anew"),
    ("Ctrl-Z", "stop this program; `fg` continues it"),
    ("q, Ctrl-C", "quit; transfers continue"),
    ("", "All times are UTC."),
];

/// Returns the lines of the help.
pub(super) fn help() -> Vec<String> {
    let line = |(key, what): &(&str, &str)| format!("{key:<16}{what}");
    KEYS.iter().map(line).collect()
}

/// Returns the lines of the question whether to cancel a transfer.
pub(super) fn cancel(model: &Model, id: TransferId) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(row) = model.rows.get(id) {
        let summary = &row.summary;
        lines.push(format!("Cancel {} ({})?", name_of(summary), id.short()));
        lines.push(String::new());
        lines.push(format!("{} of it have come.", format_bytes(row.bytes_moved())));
    } else {
        lines.push(format!("Cancel {}?", id.short()));
        lines.push(String::new());
    }
    lines.push("Files that are complete stay at the target.".to_owned());
    lines.push("What is begun is removed, and cannot be resumed.".to_owned());
    lines.push(String::new());
    lines.push("y  cancel the transfer     any other key  keep it".to_owned());
    lines
}

/// Paints lines in a box in the middle of an area.
pub(super) fn paint(lines: &[String], title: &str, theme: Theme, area: Rect, buffer: &mut Buffer) {
    let widest = lines.iter().map(|line| console::measure_text_width(line)).max().unwrap_or(0);
    let fit = |wanted: usize, most: u16| u16::try_from(wanted).unwrap_or(most).min(most);
    let (width, height) = (fit(widest + 4, area.width), fit(lines.len() + 2, area.height));
    let place = Rect {
        x: area.x + (area.width - width) / 2,
        y: area.y + (area.height - height) / 2,
        width,
        height,
    };
    if place.is_empty() {
        return;
    }
    Clear.render(place, buffer);
    let columns = usize::from(width);
    let top = theme.padded(&format!("  {title}"), columns);
    buffer.set_stringn(place.x, place.y, &top, columns, theme.chosen().patch(theme.strong()));
    for (line, y) in lines.iter().zip(place.y + 1..place.bottom()) {
        let text = theme.padded(&format!("  {line}"), columns);
        buffer.set_stringn(place.x, y, &text, columns, Style::new());
    }
    if usize::from(height) > lines.len() + 1 {
        let rule = theme.marks.rule.repeat(columns);
        buffer.set_stringn(place.x, place.bottom() - 1, &rule, columns, theme.faint());
    }
}
