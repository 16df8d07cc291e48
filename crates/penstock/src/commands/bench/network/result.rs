//! The figures of a measurement of the network, and their table.

use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::{Encryption, Location};
use penstock_proto::id::{Name, TransferId};
use penstock_proto::units::{format_bytes, format_rate};
use serde::Serialize;

use super::cards::{Carried, shares};
use super::iperf3::Iperf3Run;
use crate::forecast::cost_model::{CostModel, Observation};
use crate::median;
use crate::output::duration;
use crate::output::table::aligned;

/// Factor between mean sizes of files from which on a line tells files from bytes.
const APART: f64 = 2.0;

/// One transfer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct NetworkRun {
    pub(super) transfer: TransferId,
    pub(super) source: Location,
    pub(super) target: Location,
    pub(super) is_outward: bool,
    /// The only network that its lanes may use; `None` for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) network: Option<Name>,
    /// From 1 on; 0 of a warm-up.
    pub(super) repeat: u32,
    pub(super) files: u64,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// Bytes of the cards of the site that was asked.
    pub(super) cards: Vec<Carried>,
}

impl NetworkRun {
    fn bits_per_s(&self) -> f64 {
        self.bytes as f64 * 8.0 / self.seconds
    }
}

/// All transfers of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct NetworkResult {
    /// The second word of the labels of its transfers.
    pub(super) id: String,
    /// The site that was asked.
    pub(super) site: Name,
    pub(super) other: Name,
    pub(super) encryption: Encryption,
    pub(super) began: Timestamp,
    pub(super) runs: Vec<NetworkRun>,
    pub(super) iperf3: Vec<Iperf3Run>,
}

/// A median with both ends.
struct Spread {
    median: f64,
    least: f64,
    greatest: f64,
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let (least, greatest) = (*values.first()?, *values.last()?);
        Some(Self { median: median::of_sorted(&values)?, least, greatest })
    }
}

impl NetworkResult {
    /// Returns the table: a row for each way and network, one for each direction of iperf3. Below
    /// are the share of single networks that all together reach, and the cost of a file where files
    /// of several sizes were moved.
    pub(super) fn text(&self) -> String {
        let heads = ["WAY", "FILES", "SIZE", "RATE", "LEAST", "GREATEST", "FILES/S", "CARDS"];
        let mut rows = vec![heads.map(str::to_owned)];
        rows.extend(self.ways().iter().map(|runs| way_row(runs)));
        rows.extend([true, false].into_iter().filter_map(|is_outward| self.iperf3_row(is_outward)));
        let right = [false, true, true, true, true, true, true, false];
        let costs = [true, false].into_iter().filter_map(|is_outward| self.cost(is_outward));
        let mut lines = vec![aligned(&rows, &right)];
        lines.extend(self.sums_of_networks());
        lines.extend(costs);
        lines.join("\n")
    }

    /// Returns the runs of each way, in the order in which they were measured first.
    fn ways(&self) -> Vec<Vec<&NetworkRun>> {
        let mut ways: Vec<Vec<&NetworkRun>> = Vec::new();
        for run in &self.runs {
            let is_same = |way: &&mut Vec<&NetworkRun>| {
                let first = way[0];
                (&first.source, &first.target, &first.network)
                    == (&run.source, &run.target, &run.network)
            };
            match ways.iter_mut().find(is_same) {
                Some(way) => way.push(run),
                None => ways.push(vec![run]),
            }
        }
        ways
    }

    /// Returns a line for each way of which networks were measured alone: the rate over all of them
    /// beside the sum of their rates.
    fn sums_of_networks(&self) -> Vec<String> {
        let rate = |runs: &[&NetworkRun]| {
            Spread::of(runs.iter().map(|run| run.bits_per_s())).map_or(0.0, |spread| spread.median)
        };
        let ways = self.ways();
        let together = ways.iter().filter(|runs| runs[0].network.is_none());
        let line = |runs: &Vec<&NetworkRun>| {
            let NetworkRun { source, target, .. } = runs[0];
            let alone = ways.iter().filter(|other| {
                let first = other[0];
                first.network.is_some() && (&first.source, &first.target) == (source, target)
            });
            let sum: f64 = alone.map(|runs| rate(runs)).sum();
            let share = rate(runs) / sum * 100.0;
            (sum > 0.0).then(|| {
                let sum = format_rate(sum);
                format!(
                    "{source} to {target}: all networks together reach {share:.0} % of {sum}, the \
                     sum of each alone"
                )
            })
        };
        together.filter_map(line).collect()
    }

    fn iperf3_row(&self, is_outward: bool) -> Option<[String; 8]> {
        let runs = self.iperf3.iter().filter(|run| run.is_outward == is_outward);
        let spread = Spread::of(runs.map(|run| run.bits_per_s))?;
        let (from, to) = self.direction(is_outward);
        let none = || "-".to_owned();
        let [rate, least, greatest] = rates(&spread);
        Some([
            format!("{from} to {to}, iperf3"),
            none(),
            none(),
            rate,
            least,
            greatest,
            none(),
            none(),
        ])
    }

    fn direction(&self, is_outward: bool) -> (&Name, &Name) {
        match is_outward {
            true => (&self.site, &self.other),
            false => (&self.other, &self.site),
        }
    }

    /// Returns what a file and a byte cost on the way, where files of several sizes tell.
    fn cost(&self, is_outward: bool) -> Option<String> {
        let is_of_all = |run: &&NetworkRun| run.is_outward == is_outward && run.network.is_none();
        let runs: Vec<&NetworkRun> = self.runs.iter().filter(is_of_all).collect();
        let means = || runs.iter().map(|run| run.bytes as f64 / run.files.max(1) as f64);
        let least = means().fold(f64::MAX, f64::min).max(1.0);
        if runs.len() < 3 || means().fold(0.0, f64::max) < least * APART {
            return None;
        }
        let observations: Vec<Observation> = runs
            .iter()
            .map(|run| Observation {
                files: run.files as f64,
                bytes: run.bytes as f64,
                seconds: run.seconds,
            })
            .collect();
        let CostModel { start_s, file_s, byte_s } = CostModel::fit(&observations)?;
        let (from, to) = self.direction(is_outward);
        let bytes = match byte_s > 0.0 {
            true => format!("{} of bytes", format_rate(8.0 / byte_s)),
            false => "no time for bytes beside that".to_owned(),
        };
        let (start, file) = (duration::estimated(start_s), duration::estimated(file_s));
        Some(format!("{from} to {to}: a start of {start}, {file} a file, {bytes}"))
    }
}

fn rates(of: &Spread) -> [String; 3] {
    [of.median, of.least, of.greatest].map(format_rate)
}

fn way_row(runs: &[&NetworkRun]) -> [String; 8] {
    let first = runs[0];
    let mean = first.bytes / first.files.max(1);
    let spread = Spread::of(runs.iter().map(|run| run.bits_per_s()));
    let [rate, least, greatest] = spread.as_ref().map(rates).unwrap_or_default();
    let files = Spread::of(runs.iter().map(|run| run.files as f64 / run.seconds));
    let cards: Vec<&[Carried]> = runs.iter().map(|run| &run.cards[..]).collect();
    let over = first.network.as_ref().map_or_else(String::new, |name| format!(" over {name}"));
    [
        format!("{} to {}{over}", first.source, first.target),
        first.files.to_string(),
        format_bytes(mean),
        rate,
        least,
        greatest,
        files.map_or_else(String::new, |files| format!("{:.0}", files.median)),
        shares(&cards),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(repeat: u32, store: &str, files: u64, bytes: u64, seconds: f64) -> NetworkRun {
        NetworkRun {
            transfer: TransferId([7; 16]),
            source: format!("lab:{store}").parse().unwrap(),
            target: "hpc:null".parse().unwrap(),
            is_outward: true,
            network: None,
            repeat,
            files,
            bytes,
            seconds,
            cards: Vec::new(),
        }
    }

    /// Promise: each way has one row with its median and both ends; the cost of a file is told
    /// where files of several sizes were moved, and nowhere else.
    #[test]
    fn a_way_has_one_row() {
        let runs = vec![
            run(1, "mem", 4, 4_000_000, 1.0),
            run(1, "small", 1000, 1000, 2.0),
            run(2, "mem", 4, 4_000_000, 4.0),
            run(2, "small", 1000, 1000, 2.0),
            run(3, "mem", 4, 4_000_000, 2.0),
        ];
        let mut result = NetworkResult {
            id: "0123abcd".to_owned(),
            site: "lab".parse().unwrap(),
            other: "hpc".parse().unwrap(),
            encryption: Encryption::Tls,
            began: Timestamp::of_ms(0),
            runs,
            iperf3: vec![Iperf3Run { is_outward: true, bits_per_s: 4e7 }],
        };
        let text = result.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        let words: Vec<&str> = lines[1].split_whitespace().collect();
        assert_eq!(words[3..6].join(" "), "4 976.6 KiB", "{text}");
        assert_eq!(words[6..12].join(" "), "16.00 Mbit/s 8.00 Mbit/s 32.00 Mbit/s", "{text}");
        assert!(lines[3].starts_with("lab to hpc, iperf3") && lines[3].contains("40.00 Mbit/s"));
        assert!(lines[4].starts_with("lab to hpc: a start of"), "{text}");
        result.runs.retain(|run| run.files == 4);
        result.iperf3.clear();
        assert_eq!(result.text().lines().count(), 2);
    }

    /// Promise: each network that was measured alone has a row, and a line compares their sum with
    /// all together. The cost of a file is that over all networks.
    #[test]
    fn networks_are_compared_with_their_sum() {
        let over = |network: &str, seconds: f64| NetworkRun {
            network: network.parse().ok(),
            ..run(1, "mem", 4, 4_000_000, seconds)
        };
        let result = NetworkResult {
            id: "0123abcd".to_owned(),
            site: "lab".parse().unwrap(),
            other: "hpc".parse().unwrap(),
            encryption: Encryption::Tls,
            began: Timestamp::of_ms(0),
            runs: vec![over("", 1.25), over("fast0", 2.0), over("fast1", 2.0)],
            iperf3: Vec::new(),
        };
        let text = result.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(!lines[1].contains("over") && lines[1].contains("25.60 Mbit/s"), "{text}");
        assert!(lines[2].starts_with("lab:mem/ to hpc:null/ over fast0"), "{text}");
        let share = "lab:mem/ to hpc:null/: all networks together reach 80 % of 32.00 Mbit/s";
        assert!(lines[4].starts_with(share), "{text}");
    }
}
