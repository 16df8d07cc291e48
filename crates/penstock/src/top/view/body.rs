//! The lines of a page, and the part of them that is shown.

use ratatui::text::Line;

/// Lines of a page, and those of them that the cursor is on.
#[derive(Default)]
pub(super) struct Body {
    pub(super) lines: Vec<Line<'static>>,
    /// The first line and the one behind the last.
    pub(super) chosen: Option<(usize, usize)>,
    /// The first line to show where no line is chosen.
    pub(super) scroll: usize,
}

impl Body {
    /// Returns the first line to show of a page of so many: the chosen lines are on it.
    pub(super) fn first(&self, height: usize) -> usize {
        let most = self.lines.len().saturating_sub(height);
        let Some((start, end)) = self.chosen else { return self.scroll.min(most) };
        if end <= height {
            return 0;
        }
        start.saturating_sub(height / 2).min(most)
    }
}
