//! Colours and marks. No fact is told by a colour alone, and a terminal without UTF-8 gets ASCII.

use ratatui::style::{Color, Modifier, Style};

/// The marks of a full-screen program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The line that keys act on.
    pub(crate) cursor: &'static str,
    /// A thing that does not work or has failed.
    pub(crate) bad: &'static str,
    /// A thing that needs a look.
    pub(crate) warning: &'static str,
    /// A thing that is well.
    pub(crate) good: &'static str,
    /// From source to target.
    pub(crate) arrow: &'static str,
    /// A rule between sections.
    pub(crate) rule: &'static str,
    /// Between facts of a line.
    pub(crate) dot: &'static str,
    /// The end of a text that was cut.
    pub(crate) ellipsis: &'static str,
    /// The filled and the empty part of a bar.
    pub(crate) bar: [&'static str; 2],
    /// Heights of a column of a chart, from the least to the greatest.
    pub(crate) levels: &'static [&'static str],
    /// A moment of a chart of which nothing is known.
    pub(crate) unknown: &'static str,
}

const UNICODE: Marks = Marks {
    cursor: "▸",
    bad: "✖",
    warning: "▲",
    good: "●",
    arrow: "→",
    rule: "─",
    dot: "·",
    ellipsis: "…",
    bar: ["█", "░"],
    levels: &["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
    unknown: "┊",
};

const ASCII: Marks = Marks {
    cursor: ">",
    bad: "X",
    warning: "!",
    good: "*",
    arrow: "->",
    rule: "-",
    dot: "-",
    ellipsis: "~",
    bar: ["#", "."],
    levels: &[".", ":", "-", "=", "+", "*", "%", "#"],
    unknown: "?",
};

/// The look of a full-screen program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Theme {
    is_coloured: bool,
    /// The marks.
    pub(crate) marks: &'static Marks,
}

impl Theme {
    /// Returns the theme that the environment wants: `NO_COLOR` (no-color.org) forbids colours, and
    /// a locale without UTF-8 (locale(7)) has ASCII alone.
    pub(crate) fn of_environment() -> Self {
        let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        Self::new(set("NO_COLOR").is_none(), &locale.unwrap_or_default())
    }

    /// Returns a theme with or without colours, for a locale.
    pub(crate) fn new(is_coloured: bool, locale: &str) -> Self {
        let locale = locale.to_ascii_lowercase();
        let has_unicode = locale.contains("utf-8") || locale.contains("utf8");
        Self { is_coloured, marks: if has_unicode { &UNICODE } else { &ASCII } }
    }

    fn colour(self, colour: Color) -> Style {
        if self.is_coloured { Style::new().fg(colour) } else { Style::new() }
    }

    /// Returns the style of things that do not work.
    pub(crate) fn bad(self) -> Style {
        self.colour(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// Returns the style of things that need a look.
    pub(crate) fn warning(self) -> Style {
        self.colour(Color::Yellow)
    }

    /// Returns the style of things that are well.
    pub(crate) fn good(self) -> Style {
        self.colour(Color::Green)
    }

    /// Returns the style of bars and charts.
    pub(crate) fn accent(self) -> Style {
        self.colour(Color::Cyan)
    }

    /// Returns the style of headings and names.
    pub(crate) fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Returns the style of things of less weight.
    pub(crate) fn faint(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// Returns the style of the line or the cell that keys act on.
    pub(crate) fn chosen(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    /// Returns a text of at most so many columns.
    pub(crate) fn cut(self, text: &str, columns: usize) -> String {
        if columns == 0 {
            return String::new();
        }
        console::truncate_str(text, columns, self.marks.ellipsis).into_owned()
    }

    /// Returns a text of exactly so many columns, with its end cut or blanks behind it.
    pub(crate) fn padded(self, text: &str, columns: usize) -> String {
        let text = self.cut(text, columns);
        let blanks = columns.saturating_sub(console::measure_text_width(&text));
        text + &" ".repeat(blanks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: without colours there is no colour, and without UTF-8 there is ASCII alone.
    #[test]
    fn a_terminal_gets_what_it_can_show() {
        let plain = Theme::new(false, "C");
        for style in [plain.bad(), plain.warning(), plain.good(), plain.accent(), plain.chosen()] {
            assert_eq!((style.fg, style.bg), (None, None));
        }
        let Marks { cursor, bad, warning, good, arrow, rule, dot, ellipsis, bar, levels, unknown } =
            *plain.marks;
        let all = [cursor, bad, warning, good, arrow, rule, dot, ellipsis, unknown];
        assert!(all.iter().chain(&bar).chain(levels).all(|mark| mark.is_ascii()));
        let full = Theme::new(true, "en_US.UTF-8");
        assert_eq!((full.bad().fg, full.marks.arrow), (Some(Color::Red), "→"));
    }

    /// Promise: a cell has its width, whatever is in it.
    #[test]
    fn cells_have_their_width() {
        let theme = Theme::new(true, "C.utf8");
        assert_eq!(theme.padded("run 8", 8), "run 8   ");
        assert_eq!(theme.padded("reading at lab", 8), "reading…");
        assert_eq!(theme.padded("日本語", 5), "日本…");
        assert_eq!(theme.padded("abc", 0), "");
    }
}
