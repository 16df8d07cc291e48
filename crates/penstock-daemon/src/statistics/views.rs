//! Answers of this peer: series in columns, summaries, energy.

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::statistics::{
    CipherEnergy, ColumnSpread, Energy, POINTS_MAX, PeerHistory, PeerSeries, PeerStatistics,
    SeriesColumn,
};
use penstock_api::timestamp::Timestamp;
use penstock_proto::id::{Name, TransferId};
use penstock_proto::units::TIB;
use serde::{Deserialize, Serialize};

use super::Recorder;
use super::archive::{ArchiveError, Series, Subject, Totals};
use super::core_times::CoreTimes;
use super::host::processor_time;
use super::points::{Cell, Point, fit};
use super::sample::parts_of;
use super::spread::spread_of_column;

/// A part of a series, as one peer asks another for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Window {
    /// The transfer; `None` for the host.
    pub(crate) transfer: Option<TransferId>,
    /// Begin, in seconds since 1970.
    pub(crate) since: u64,
    /// End, in seconds since 1970.
    pub(crate) until: u64,
    /// Most points.
    pub(crate) points: u32,
    /// Names of the figures that are wanted; all if there is none.
    pub(crate) columns: Vec<String>,
}

impl Window {
    /// Returns the window with no more points than an answer may have.
    pub(crate) fn bounded(self) -> Self {
        Self { points: self.points.clamp(1, POINTS_MAX), ..self }
    }

    fn subject(&self) -> Subject {
        self.transfer.map_or(Subject::Host, Subject::Transfer)
    }

    fn wants(&self, name: &str) -> bool {
        self.columns.is_empty() || self.columns.iter().any(|wanted| wanted == name)
    }
}

fn unreadable(error: ArchiveError) -> Problem {
    Problem::new(ProblemCode::State, "the statistics of this peer cannot be read").because(error)
}

impl Recorder {
    /// Returns a series of this peer; `None` if it has seen nothing of the transfer. Blocks on the
    /// disk of the site directory.
    ///
    /// # Errors
    /// Code `state`: the archive cannot be read.
    pub(crate) fn series(
        &self,
        own: &Name,
        window: &Window,
    ) -> Result<Option<PeerSeries>, Problem> {
        let series = self.read(window)?;
        if series.points.is_empty() && window.transfer.is_some() {
            return Ok(None);
        }
        Ok(Some(in_columns(own, series, window)))
    }

    /// Returns the summary of a transfer at this peer; `None` if it has seen nothing of it. Blocks
    /// on the disk of the site directory.
    ///
    /// # Errors
    /// Code `state`: the archive cannot be read.
    pub(crate) fn summary(
        &self,
        own: &Name,
        transfer: TransferId,
    ) -> Result<Option<PeerStatistics>, Problem> {
        let (since, until) = (0, u64::MAX);
        let window =
            Window { transfer: Some(transfer), since, until, points: 0, columns: Vec::new() };
        let series = self.read(&window)?;
        let found = self.archive.totals(window.subject()).map_err(unreadable)?;
        let Some((cores, totals)) = found else { return Ok(None) };
        let (Some((_, first)), Some((length, last))) =
            (series.points.first(), series.points.last())
        else {
            return Ok(None);
        };
        Ok(Some(PeerStatistics {
            peer: own.clone(),
            cipher: totals.cipher.clone(),
            since: Timestamp::of_seconds(first.at),
            until: Timestamp::of_seconds(last.at + length - 1),
            columns: spreads(&series, &window),
            cores: cores.spreads(),
            energy: self.energy(vec![totals]),
        }))
    }

    /// Returns the host over a time. Blocks on the disk of the site directory.
    ///
    /// # Errors
    /// Code `state`: the archive cannot be read.
    pub(crate) fn history(&self, own: &Name, window: &Window) -> Result<PeerHistory, Problem> {
        let series = self.read(window)?;
        let ciphers = self.archive.energy_by_cipher().map_err(unreadable)?;
        let columns = spreads(&series, window);
        let cores: CoreTimes = self.last_cores();
        Ok(PeerHistory {
            series: in_columns(own, series, window),
            columns,
            cores: cores.spreads(),
            processors: processor_time(),
            energy: self.energy(ciphers),
        })
    }

    fn read(&self, window: &Window) -> Result<Series, Problem> {
        self.flush();
        let series = self.archive.series(window.subject(), window.since, window.until);
        series.map_err(unreadable)
    }

    /// Returns the energy of transfers with these sums. Measured energy is shown even if no energy
    /// is measured now.
    fn energy(&self, totals: Vec<Totals>) -> Energy {
        let why = self.no_energy().unwrap_or_default();
        let measured = totals.into_iter().filter(|totals| totals.package_joules.is_some());
        let ciphers: Vec<_> = measured.map(cipher_energy).collect();
        let is_available = why.is_empty() || !ciphers.is_empty();
        let why = if is_available { String::new() } else { why };
        Energy { is_available, why, ciphers }
    }
}

fn cipher_energy(totals: Totals) -> CipherEnergy {
    let per_tib = |joules: Option<f64>| {
        joules.filter(|_| totals.bytes >= 1.0).map(|joules| joules * TIB as f64 / totals.bytes)
    };
    CipherEnergy {
        package_joules_per_tib: per_tib(totals.package_joules),
        dram_joules_per_tib: per_tib(totals.dram_joules),
        cipher: totals.cipher,
        bytes: totals.bytes.round() as u64,
        seconds: totals.seconds,
        shared_seconds: totals.shared_seconds,
        package_joules: totals.package_joules,
        dram_joules: totals.dram_joules,
    }
}

/// Returns the spreads of the figures that are of a whole host or transfer.
fn spreads(series: &Series, window: &Window) -> Vec<ColumnSpread> {
    let columns = series.columns.iter().enumerate();
    let whole = columns.filter(|(_, name)| {
        let (name, of) = parts_of(name);
        of.is_empty() && window.wants(name)
    });
    let spread = |(at, name): (usize, &String)| {
        let spread = spread_of_column(series.points.iter().map(|(_, point)| point), at)?;
        Some(ColumnSpread { name: name.clone(), spread })
    };
    whole.filter_map(spread).collect()
}

/// Returns a series as charts take it: a list for each column.
fn in_columns(own: &Name, series: Series, window: &Window) -> PeerSeries {
    let points = fit(series.points, window.points.max(1) as usize);
    let column = |(at, name): (usize, &String)| {
        let (name, of) = parts_of(name);
        if !window.wants(name) {
            return None;
        }
        let values = |value: fn(&Cell) -> f32| {
            let cell = |(_, point): &(u64, Point)| point.cells.get(at).copied().flatten();
            points.iter().map(|point| cell(point).as_ref().map(value).map(shortest)).collect()
        };
        let column = SeriesColumn {
            name: name.to_owned(),
            of: of.to_owned(),
            min: values(|cell| cell.min),
            mean: values(|cell| cell.mean),
            max: values(|cell| cell.max),
        };
        column.mean.iter().any(Option::is_some).then_some(column)
    };
    PeerSeries {
        peer: own.clone(),
        columns: series.columns.iter().enumerate().filter_map(column).collect(),
        at: points.iter().map(|(_, point)| point.at).collect(),
        seconds: points.iter().map(|(length, _)| *length).collect(),
    }
}

/// Returns the value with the fewest digits that is the same in single precision.
fn shortest(value: f32) -> f64 {
    value.to_string().parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn series() -> Series {
        let point = |at: u64, values: &[Option<f64>]| {
            let cells = values.iter().map(|value| value.map(|value| Cell::of(value, 1)));
            (1, Point { at, cells: cells.collect() })
        };
        let columns = ["lanes", "card_in_bits_per_s:eth0", "gone"];
        Series {
            columns: columns.map(str::to_owned).to_vec(),
            points: vec![point(5, &[Some(0.1), None, None]), point(6, &[Some(3.0), Some(7.0)])],
        }
    }

    fn window(columns: &[&str]) -> Window {
        let columns = columns.iter().map(|name| (*name).to_owned()).collect();
        Window { transfer: None, since: 0, until: 9, points: 600, columns }
    }

    /// Promise: a series is in columns of one length, as charts take it; a figure of a card names
    /// it, and a column without any value is left out.
    #[test]
    fn series_are_in_columns() {
        let own: Name = "h1".parse().unwrap();
        let all = in_columns(&own, series(), &window(&[]));
        assert_eq!((all.at, all.seconds), (vec![5, 6], vec![1, 1]));
        let [lanes, card] = &all.columns[..] else { panic!("{:?}", all.columns) };
        assert_eq!(lanes.mean, [Some(0.1), Some(3.0)]);
        assert_eq!((card.name.as_str(), card.of.as_str()), ("card_in_bits_per_s", "eth0"));
        assert_eq!(card.max, [None, Some(7.0)]);
        let one = in_columns(&own, series(), &window(&["card_in_bits_per_s"]));
        assert_eq!(one.columns.len(), 1);
        let names: Vec<_> =
            spreads(&series(), &window(&[])).into_iter().map(|column| column.name).collect();
        assert_eq!(names, ["lanes"]);
    }

    /// Promise: each answer about a host has the time of its processors until then: no processor is
    /// busy for longer than it was there, and time passes.
    #[test]
    fn answers_have_the_time_of_all_processors() {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::open(directory.path(), Path::new("/nowhere")).unwrap();
        let own: Name = "h1".parse().unwrap();
        let look = || recorder.history(&own, &window(&[])).unwrap().processors.unwrap();
        let first = look();
        assert!(first.processors > 0 && first.busy_s > 0.0, "{first:?}");
        assert!(first.busy_s + first.iowait_s + first.steal_s < first.total_s, "{first:?}");
        // The counters grow by hundredths of a second.
        while look().total_s <= first.total_s {}
    }

    /// Promise: joules per TiB are those of the bytes that were moved, and none where none were.
    #[test]
    fn energy_is_by_payload() {
        let totals = Totals {
            cipher: "clear".to_owned(),
            bytes: TIB as f64 / 2.0,
            package_joules: Some(100.0),
            ..Totals::default()
        };
        let energy = cipher_energy(totals.clone());
        assert_eq!(energy.package_joules_per_tib, Some(200.0));
        assert_eq!(energy.dram_joules_per_tib, None);
        assert_eq!(cipher_energy(Totals { bytes: 0.0, ..totals }).package_joules_per_tib, None);
    }
}
