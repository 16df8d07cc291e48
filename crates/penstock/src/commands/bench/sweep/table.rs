//! The results of a sweep as a table in Markdown, which reads well on a terminal too.

use std::collections::{BTreeMap, BTreeSet};

use penstock_proto::units::format_rate;

use super::matrix::Direction;
use super::record::{Cell, Run};
use super::statistics::Median;

const HEADS: [&str; 8] =
    ["data set", "direction", "mode", "runs", "rate", "least–greatest", "files/s", "ratio"];
/// Columns of numbers.
const RIGHT: [bool; 8] = [false, false, false, true, true, true, true, true];

/// Returns the table, with notes below it. `retried` are failed cells that were to be run again.
pub(super) fn table(run: &Run, cells: &[Cell], retried: &[Cell]) -> String {
    let counted: Vec<&Cell> = cells.iter().filter(|cell| !cell.warmup).collect();
    let mut rows = vec![HEADS.map(str::to_owned)];
    for dataset in &run.datasets {
        for direction in &run.directions {
            for (at, mode) in run.modes.iter().enumerate() {
                let of = |name: &str| Group::of(&counted, &dataset.name, *direction, name);
                let group = of(&mode.name);
                let baseline = (at > 0).then(|| of(&run.modes[0].name));
                let names = [dataset.name.as_str(), direction.as_str(), &mode.name];
                rows.push(row(names, &group, baseline.as_ref()));
            }
        }
    }
    let mut text = markdown(&rows);
    for line in notes(run, cells, retried) {
        text.push_str(&format!("\n{line}"));
    }
    text
}

/// The cells of one data set, direction and mode.
struct Group {
    rates: BTreeMap<u32, f64>,
    files: Vec<f64>,
    runs: usize,
    failed: usize,
}

impl Group {
    fn of(cells: &[&Cell], dataset: &str, direction: Direction, mode: &str) -> Self {
        let is = |cell: &&&Cell| {
            (cell.dataset.name.as_str(), cell.direction, cell.mode.name.as_str())
                == (dataset, direction, mode)
        };
        let cells: Vec<&&Cell> = cells.iter().filter(is).collect();
        let rate = |cell: &&&Cell| Some((cell.block, cell.rate?.effective));
        Self {
            rates: cells.iter().filter_map(rate).collect(),
            files: cells.iter().filter_map(|cell| cell.files_per_s).collect(),
            runs: cells.len(),
            failed: cells.iter().filter(|cell| cell.error.is_some()).count(),
        }
    }

    /// Returns the median of the ratios of each block to another group, in logarithms: half as fast
    /// and twice as fast have the middle 1.
    fn ratio(&self, baseline: &Self) -> Option<Median> {
        let pairs = self.rates.iter().filter_map(|(block, rate)| {
            let other = baseline.rates.get(block)?;
            (*rate > 0.0 && *other > 0.0).then(|| (rate / other).ln())
        });
        let logs = Median::of(&pairs.collect::<Vec<_>>())?;
        Some(Median {
            value: logs.value.exp(),
            least: logs.least.exp(),
            greatest: logs.greatest.exp(),
            interval: logs.interval.map(|(low, high)| (low.exp(), high.exp())),
        })
    }
}

fn row(names: [&str; 3], group: &Group, baseline: Option<&Group>) -> [String; 8] {
    let none = || "-".to_owned();
    let bits = |bytes: f64| format_rate(bytes * 8.0);
    let rates = Median::of(&group.rates.values().copied().collect::<Vec<_>>());
    let files = Median::of(&group.files);
    let runs = match group.failed {
        0 => group.runs.to_string(),
        failed => format!("{} ({failed} failed)", group.runs),
    };
    let ratio = match baseline {
        None => "1".to_owned(),
        Some(baseline) => group.ratio(baseline).map_or_else(none, |ratio| match ratio.interval {
            Some((low, high)) => format!("{:.3} [{low:.3}, {high:.3}]", ratio.value),
            None => format!("{:.3}", ratio.value),
        }),
    };
    let [dataset, direction, mode] = names.map(str::to_owned);
    [
        dataset,
        direction,
        mode,
        runs,
        rates.map_or_else(none, |rates| bits(rates.value)),
        rates.map_or_else(none, |rates| format!("{}–{}", bits(rates.least), bits(rates.greatest))),
        files.map_or_else(none, |files| format!("{:.1}", files.value)),
        ratio,
    ]
}

fn notes(run: &Run, cells: &[Cell], retried: &[Cell]) -> Vec<String> {
    let mut notes = Vec::new();
    let ratio = format!(
        "ratio: median of the ratios to mode {} within blocks, with the interval that covers the \
         true median in 95 % of cases at least; fewer than six pairs give none",
        run.modes.first().map_or("", |mode| &mode.name)
    );
    notes.push(format!("Rates are medians, from the submission to the durable end; {ratio}."));
    let has = |id: &&String| cells.iter().any(|cell| cell.id == **id);
    let missing = run.cells.iter().filter(|id| !has(id)).count();
    if missing > 0 {
        notes.push(format!("{missing} of {} cells have not been run yet.", run.cells.len()));
    }
    for (cells, when) in [(cells, ""), (retried, " before")] {
        for cell in cells {
            if let Some(error) = &cell.error {
                let text = error.text.replace('\n', " ");
                notes.push(format!("- {} failed{when}: {text}", cell.id));
            }
        }
    }
    let mut flags: BTreeMap<&str, usize> = BTreeMap::new();
    for cell in cells {
        // The first word is the kind.
        let kinds = cell.flags.iter().filter_map(|flag| flag.split(' ').next());
        for kind in kinds.collect::<BTreeSet<_>>() {
            *flags.entry(kind).or_default() += 1;
        }
    }
    for (kind, count) in flags {
        notes.push(format!(
            "- flagged for {kind}: {count} of {} cells, which are kept; `flags` in cells.jsonl \
             says where",
            cells.len()
        ));
    }
    notes
}

/// Returns rows as a table of Markdown, the first one as heads.
fn markdown<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |text: &str| text.chars().count();
    let widths: [usize; N] =
        std::array::from_fn(|at| rows.iter().map(|row| width(&row[at])).max().unwrap_or(0).max(3));
    let is_right = |at: usize| RIGHT.get(at).copied().unwrap_or(false);
    let mut lines = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().enumerate().map(|(at, cell)| match is_right(at) {
            true => format!("{cell:>width$}", width = widths[at]),
            false => format!("{cell:<width$}", width = widths[at]),
        });
        lines.push(format!("| {} |", cells.collect::<Vec<_>>().join(" | ")));
        if number == 0 {
            let rule = |at: usize| match is_right(at) {
                true => format!("{}:", "-".repeat(widths[at] - 1)),
                false => "-".repeat(widths[at]),
            };
            let rules: Vec<_> = (0..N).map(rule).collect();
            lines.push(format!("| {} |", rules.join(" | ")));
        }
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::super::record::CellError;
    use super::super::record::examples::{cell, run};
    use super::*;

    /// Promise: ratios are paired within blocks, warm-up rounds count for nothing, and what failed
    /// or is flagged is listed.
    #[test]
    fn the_table_pairs_within_blocks() {
        let mut run = run();
        run.repeats = 6;
        run.cells = vec!["b1-tls-blake3".to_owned(), "later".to_owned()];
        let mut cells = Vec::new();
        for block in 1..=6 {
            // The host slows down from block to block; the ratio does not.
            let rate = 1.25e6 / f64::from(block);
            cells.push(cell(&format!("b{block}-tls-blake3"), block, "1x1", "tls-blake3", rate));
            cells.push(cell(
                &format!("b{block}-off-blake3"),
                block,
                "1x1",
                "off-blake3",
                1.5 * rate,
            ));
        }
        let mut warm = cell("w1", 1, "1x1", "tls-blake3", 9e12);
        warm.warmup = true;
        cells.push(warm);
        cells[3].flags = vec!["steal 6.0 % at hpc/h1".to_owned()];
        let text = table(&run, &cells, &[]);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].contains("tls-blake3") && lines[2].ends_with(" 1 |"), "{text}");
        assert!(lines[2].contains("10.00 Mbit/s"), "{text}");
        assert!(lines[3].contains("1.500 [1.500, 1.500]"), "{text}");
        assert!(text.contains("95 %") && text.contains("1 of 2 cells"), "{text}");
        assert!(text.contains("- flagged for steal: 1 of 13 cells"), "{text}");
        assert!(!text.contains("Tbit"), "{text}");
        let width = lines[0].chars().count();
        assert!(lines[..4].iter().all(|line| line.chars().count() == width), "{text}");
        let (code, why) = ("fatal".to_owned(), "no room".to_owned());
        cells[0].error = Some(CellError { code, text: why });
        cells[0].rate = None;
        let text = table(&run, &cells[..2], &[]);
        assert!(text.contains("1 (1 failed)") && text.contains(" failed: no room"), "{text}");
        let text = table(&run, &cells[1..2], &cells[..1]);
        assert!(!text.contains("1 failed") && text.contains(" failed before: no room"), "{text}");
    }
}
