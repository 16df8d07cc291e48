//! Charts of rates.

use crate::terminal::theme::Theme;
use crate::top::rate_history::RateHistory;

/// Returns a chart of rates, the latest one at the right, as rows of texts from the top. A column
/// is as high as its rate is of the greatest one; without any rate it is the least mark.
pub(super) fn chart(theme: Theme, rates: &RateHistory, columns: usize, rows: usize) -> Vec<String> {
    let levels = theme.marks.levels;
    let (steps, max) = (rows * levels.len(), rates.max().max(f64::MIN_POSITIVE));
    let all = rates.columns(columns);
    let begin = all.iter().position(Option::is_some).unwrap_or(all.len());
    let cell = |(at, rate): (usize, &Option<f64>), row: usize| {
        let is_lowest = row + 1 == rows;
        let Some(rate) = rate else {
            return if is_lowest && at > begin { theme.marks.unknown } else { " " };
        };
        let height = (rate / max * steps as f64).ceil() as usize;
        let beneath = (rows - 1 - row) * levels.len();
        match height.saturating_sub(beneath).min(levels.len()) {
            0 if is_lowest => levels[0],
            0 => " ",
            level => levels[level - 1],
        }
    };
    (0..rows).map(|row| all.iter().enumerate().map(|column| cell(column, row)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a chart is as high as its greatest rate, and shows what is not known as such.
    #[test]
    fn a_chart_shows_rates_and_gaps() {
        let mut rates = RateHistory::default();
        for rate in [Some(0.0), Some(4.0), None, Some(8.0), Some(16.0)] {
            rates.add(rate);
        }
        let full = Theme::new(false, "C.UTF-8");
        assert_eq!(chart(full, &rates, 7, 1), ["  ▁▂┊▄█"]);
        assert_eq!(chart(full, &rates, 7, 2), ["      █", "  ▁▄┊██"]);
        assert_eq!(chart(Theme::new(false, "C"), &rates, 5, 1), [".:?=#"]);
        assert_eq!(chart(full, &RateHistory::default(), 3, 1), ["   "]);
        assert!(chart(full, &rates, 0, 0).is_empty());
    }
}
