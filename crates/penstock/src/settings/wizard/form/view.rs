//! The view of the form. Pure: a form and a size make the cells of a frame.

use penstock_api::settings::FaultLevel;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;

use super::model::{Field, Form, Review};
use crate::terminal::line::{LineBuilder, wrapped};
use crate::terminal::theme::Theme;

/// Columns before a field.
const INDENT: usize = 2;
/// Widest text, as longer lines are hard to read.
const WIDTH_MAX: usize = 100;

/// Paints a frame; returns the greatest line that the review can begin with.
pub(super) fn paint(form: &Form<'_>, theme: Theme, area: Rect, buffer: &mut Buffer) -> usize {
    let width = usize::from(area.width).min(WIDTH_MAX);
    let height = usize::from(area.height);
    let mut lines = head(form, theme, width);
    let room = height.saturating_sub(lines.len() + 1);
    let (body, focus) = match &form.review {
        Some(review) if form.is_at_review() => (review_lines(review, theme, width), 0),
        _ => field_lines(form, theme, width),
    };
    let scroll_max = body.len().saturating_sub(room);
    // A low terminal shows the part with the cursor.
    let first = match form.is_at_review() {
        true => form.scroll.min(scroll_max),
        false => focus.saturating_sub(room.saturating_sub(3)).min(scroll_max),
    };
    lines.extend(body.into_iter().skip(first).take(room));
    for (line, y) in lines.iter().zip(area.y..area.bottom().saturating_sub(1)) {
        buffer.set_line(area.x, y, line, area.width);
    }
    if area.height > 0 {
        let line = footer(form, theme, width, scroll_max > first);
        buffer.set_line(area.x, area.bottom() - 1, &line, area.width);
    }
    scroll_max
}

/// Returns the file and the screens, the present one marked.
fn head(form: &Form<'_>, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let mut title = LineBuilder::new(theme);
    title.text(" Configuration  ", theme.strong());
    let room = width.saturating_sub(title.width());
    title.text(&theme.cut(&form.path, room), theme.faint());
    let mut steps = LineBuilder::new(theme);
    let titles = form.groups.iter().map(|group| group.title()).chain(["Review"]);
    for (at, title) in titles.enumerate() {
        let text = format!(" {} {title} ", at + 1);
        match at.cmp(&form.screen) {
            std::cmp::Ordering::Less => steps.text(&text, theme.good()),
            std::cmp::Ordering::Equal => steps.text(&text, theme.chosen().patch(theme.strong())),
            std::cmp::Ordering::Greater => steps.text(&text, theme.faint()),
        }
        steps.gap(1);
    }
    let rule = Line::styled(theme.marks.rule.repeat(width), theme.faint());
    vec![title.finish(width), steps.finish(width), rule]
}

/// Returns the lines of the fields, and the one with the cursor.
fn field_lines(form: &Form<'_>, theme: Theme, width: usize) -> (Vec<Line<'static>>, usize) {
    let (mut lines, mut focus) = (vec![Line::default()], 0);
    for at in form.shown() {
        let (field, has_focus) = (&form.fields[at], at == form.focus);
        let style = if has_focus { theme.strong() } else { Style::new() };
        lines.push(Line::styled(format!("{}{}", " ".repeat(INDENT), field.question.text), style));
        if has_focus {
            focus = lines.len();
        }
        lines.push(input_line(field, has_focus, theme, width));
        let indent = " ".repeat(INDENT + 2);
        let faults = field.fault.iter().flat_map(|why| {
            wrapped(why, width, &format!("{indent}{} ", theme.marks.bad), &format!("{indent}  "))
        });
        lines.extend(faults.map(|text| Line::styled(text, theme.bad())));
        let help = help_of(field);
        if has_focus && !help.is_empty() {
            let help = wrapped(&help, width.saturating_sub(1), &indent, &indent);
            lines.extend(help.into_iter().map(|text| Line::styled(text, theme.faint())));
        }
        lines.push(Line::default());
    }
    (lines, focus)
}

fn help_of(field: &Field<'_>) -> String {
    let question = field.question;
    let default = if question.default == field.line.text().trim() {
        String::new()
    } else {
        format!("Default: {}", question.default)
    };
    let mut help = question.help.clone();
    if let Some(first) = help.get(..1) {
        help = first.to_uppercase() + &help[1..];
    }
    match (help.is_empty(), default.is_empty()) {
        (_, true) => help,
        (true, false) => default,
        (false, false) => format!("{help}. {default}"),
    }
}

fn input_line(field: &Field<'_>, has_focus: bool, theme: Theme, width: usize) -> Line<'static> {
    let mut line = LineBuilder::new(theme);
    line.gap(INDENT);
    let room = width.saturating_sub(INDENT + 3);
    if has_focus {
        let [before, at, behind] = field.line.window(room);
        line.text(&format!("{} ", theme.marks.cursor), theme.accent());
        line.text(&before, theme.accent());
        line.text(&at, theme.chosen());
        line.text(&behind, theme.accent());
    } else {
        line.text("  ", Style::new());
        line.text(&theme.cut(&field.line.text(), room), Style::new());
    }
    line.finish(width)
}

/// Returns the difference and the faults.
fn review_lines(review: &Review, theme: Theme, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default()];
    for (level, text) in &review.faults {
        let (mark, style) = match level {
            FaultLevel::Error => (theme.marks.bad, theme.bad()),
            FaultLevel::Warning => (theme.marks.warning, theme.warning()),
        };
        let (first, place) = text.split_once('\n').unwrap_or((text, ""));
        let first = wrapped(first, width, &format!("  {mark} "), "    ");
        lines.extend(first.into_iter().map(|text| Line::styled(text, style)));
        // The marks below a line of the file keep their columns.
        let place = place.lines().map(|text| theme.cut(&format!("  {text}"), width));
        lines.extend(place.map(|text| Line::styled(text, theme.faint())));
    }
    if !review.faults.is_empty() {
        lines.push(Line::default());
    }
    for text in &review.lines {
        let style = match text.as_bytes().first() {
            Some(b'+') => theme.good(),
            Some(b'-') => theme.bad(),
            _ => theme.faint(),
        };
        lines.push(Line::styled(theme.cut(&format!("  {text}"), width), style));
    }
    lines
}

/// Returns the keys.
fn footer(form: &Form<'_>, theme: Theme, width: usize, has_more: bool) -> Line<'static> {
    let keys: &[(&str, &str)] = match &form.review {
        Some(review) if form.is_at_review() && !review.is_sound => {
            &[("Esc", "back, to mend it"), ("Ctrl-C", "leave, write nothing")]
        }
        Some(_) if form.is_at_review() && form.is_dry_run => {
            &[("Enter", "end, without writing"), ("Esc", "back")]
        }
        Some(_) if form.is_at_review() => {
            &[("Enter", "write it"), ("Esc", "back"), ("Ctrl-C", "leave, write nothing")]
        }
        _ => &[
            ("Enter", "next"),
            ("Esc", "former screen"),
            ("Ctrl-C", "leave"),
            ("Ctrl-R", "default"),
            ("Shift-Tab", "back"),
        ],
    };
    let mut line = LineBuilder::new(theme);
    for (key, what) in keys {
        // The last keys are left out where there is no room for them.
        if line.width() + key.len() + what.len() + 3 > width {
            break;
        }
        line.text(&format!(" {key}"), theme.strong());
        line.text(&format!(" {what} "), theme.faint());
    }
    if has_more {
        line.right("more below", width, theme.faint());
    }
    line.finish(width)
}
