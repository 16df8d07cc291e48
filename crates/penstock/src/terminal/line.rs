//! Lines of cells, and texts in lines.

use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::theme::Theme;

/// A line that is put together from the left.
pub(crate) struct LineBuilder {
    theme: Theme,
    spans: Vec<Span<'static>>,
    width: usize,
}

impl LineBuilder {
    /// Returns an empty line.
    pub(crate) fn new(theme: Theme) -> Self {
        Self { theme, spans: Vec::new(), width: 0 }
    }

    /// Returns the columns that are taken.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Adds a text.
    pub(crate) fn text(&mut self, text: &str, style: Style) {
        self.width += console::measure_text_width(text);
        self.spans.push(Span::styled(text.to_owned(), style));
    }

    /// Adds a text in a cell of a width, at its left.
    pub(crate) fn cell(&mut self, text: &str, columns: usize, style: Style) {
        let text = self.theme.padded(text, columns);
        self.text(&text, style);
    }

    /// Adds a text in a cell of a width, at its right.
    pub(crate) fn number(&mut self, text: &str, columns: usize, style: Style) {
        let text = self.theme.cut(text, columns);
        let blanks = columns.saturating_sub(console::measure_text_width(&text));
        self.text(&format!("{}{text}", " ".repeat(blanks)), style);
    }

    /// Adds blanks.
    pub(crate) fn gap(&mut self, columns: usize) {
        self.text(&" ".repeat(columns), Style::new());
    }

    /// Adds a text that ends one column before that of `end`, behind what is there; cuts it where
    /// it has no room.
    pub(crate) fn right(&mut self, text: &str, end: usize, style: Style) {
        let room = end.saturating_sub(self.width + 1);
        let text = self.theme.cut(text, room.saturating_sub(1));
        let blanks = room.saturating_sub(console::measure_text_width(&text));
        self.gap(blanks);
        self.text(&text, style);
    }

    /// Adds a bar of a width; an empty one where the share is not known.
    pub(crate) fn bar(&mut self, share: Option<f64>, columns: usize) {
        let filled = (share.unwrap_or(0.0).clamp(0.0, 1.0) * columns as f64) as usize;
        let [full, empty] = self.theme.marks.bar;
        self.text(&full.repeat(filled), self.theme.accent());
        self.text(&empty.repeat(columns - filled), self.theme.faint());
    }

    /// Returns the line, cut at a width.
    pub(crate) fn finish(self, width: usize) -> Line<'static> {
        let mut left = width;
        let mut spans = Vec::new();
        for span in self.spans {
            let text = self.theme.cut(&span.content, left);
            left -= console::measure_text_width(&text).min(left);
            spans.push(Span::styled(text, span.style));
        }
        Line::from(spans)
    }
}

/// Returns a heading: words in a rule as wide as the page.
pub(crate) fn heading(theme: Theme, words: &str, more: &str, width: usize) -> Line<'static> {
    let mut line = LineBuilder::new(theme);
    line.text(&theme.marks.rule.repeat(2), theme.faint());
    line.text(&format!(" {words}"), theme.strong());
    if !more.is_empty() {
        line.text(&format!(" {more}"), theme.faint());
    }
    line.text(" ", theme.faint());
    let rest = width.saturating_sub(line.width());
    line.text(&theme.marks.rule.repeat(rest), theme.faint());
    line.finish(width)
}

/// Returns a text in lines of a width, the first behind `first` and the others behind `next`.
pub(crate) fn wrapped(text: &str, width: usize, first: &str, next: &str) -> Vec<String> {
    let mut lines = vec![first.to_owned()];
    let mut is_fresh = true;
    for word in text.split_whitespace() {
        let last = lines.last().map_or(0, |line| console::measure_text_width(line));
        let gap = usize::from(!is_fresh);
        if !is_fresh && last + gap + console::measure_text_width(word) > width {
            lines.push(next.to_owned());
            is_fresh = true;
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(if is_fresh { "" } else { " " });
            line.push_str(word);
        }
        is_fresh = false;
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a line has no more than its columns, and its right part stays behind the left one.
    #[test]
    fn a_line_fits() {
        let theme = Theme::new(false, "C.UTF-8");
        for width in 0..30 {
            let mut line = LineBuilder::new(theme);
            line.cell("9f31ab12", 10, Style::new());
            line.bar(Some(0.5), 4);
            line.right("93 Gbit/s", width, Style::new());
            let line = line.finish(width);
            assert!(line.width() <= width, "{width}: {line}");
        }
        let lines = wrapped("no contact since noon: refused", 16, "! ", "  ");
        assert_eq!(lines, ["! no contact", "  since noon:", "  refused"]);
    }
}
