//! The sweep itself: prepares, runs the cells that are missing, cleans up.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use penstock_api::endpoints::{GET_SERIES, GET_STATISTICS};
use penstock_api::place::Location;
use penstock_api::rest::TransferView;
use penstock_api::statistics::{POINTS_MAX, PeerHistory, TransferSeries, TransferStatistics};
use penstock_api::time_use::PeerTime;
use penstock_api::transfer::{Durability, Encryption};
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::id::{Name, TransferId};
use penstock_proto::units::{counted, format_rate};

use super::datasets::{Counted, Directories, check_makable, check_room, count, room};
use super::ends::Ends;
use super::facts;
use super::matrix::{self, Matrix};
use super::measurement::{self, Observed};
use super::modes::Mode;
use super::record::{Before, Cell, CellError, Dataset, FORMAT, Peers, Rates, Run};
use super::run_directory::{RunDirectory, read_cells, read_retried};
use super::schedule::{Planned, schedule};
use super::table::table;
use super::verification;
use crate::commands::bench::interruption::Interruption;
use crate::commands::bench::mover::{Moved, Mover, Refused, now, patiently};

/// Time after which the peers have recorded the last second of a transfer.
const LAST_SECOND: Duration = Duration::from_millis(1200);
/// Most seconds of a cool-down over which the load is looked at, and the fewest that tell anything.
const LOAD_SECONDS: u64 = 5;
const LOAD_SECONDS_MIN: u64 = 3;

/// A sweep as the command line names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'a> {
    pub(super) matrix: &'a Path,
    /// Directory of the results.
    pub(super) out: &'a Path,
    /// Whether cells that have failed are run again.
    pub(super) retry_failed: bool,
    /// Site directory of the daemon.
    pub(super) directory: &'a Path,
}

/// Runs a sweep, or continues it.
///
/// # Errors
/// The matrix has faults; the sites cannot be used; the directory has another sweep; exit 130. What
/// fails in a cell is in its line.
pub(super) fn run(request: Request<'_>) -> anyhow::Result<ExitCode> {
    let (matrix, text) = matrix::read(request.matrix)?;
    let resumed = RunDirectory::resume(request.out, &matrix)?;
    let drawn = || u64::from(rand::random::<u32>());
    let seed = resumed.as_ref().map(|resumed| resumed.run.seed);
    let seed = seed.or(matrix.seed).unwrap_or_else(drawn);
    let ask = || {
        let ends = Ends::ask(&matrix, request.directory)?;
        let sets = check(&ends, &matrix, seed, resumed.is_none())?;
        anyhow::Ok((ends, sets))
    };
    let (ends, sets) = match resumed {
        // A mistake in a new sweep is told at once; the daemon of another one may be restarted.
        None => ask()?,
        Some(_) => patiently(
            |time| {
                thread::sleep(time);
                Ok(())
            },
            ask,
        )?,
    };
    let modes = matrix.modes.all();
    let cells = schedule(&matrix, &modes, seed);
    let datasets: Vec<Dataset> = sets.iter().map(|counted| counted.dataset.clone()).collect();
    let run = match resumed {
        Some(mut resumed) => {
            check_same(&resumed, &ends, &datasets)?;
            resumed.keep_matrix(&text)?;
            if request.retry_failed {
                let failed = counted(resumed.retry_failed()? as u64, "failed cell");
                exit::warn(&format!("{failed} to run again"));
            }
            resumed
        }
        None => {
            check_makable(&ends, &matrix)?;
            let run = new_run(&ends, &matrix, (seed, &cells), (&modes, datasets));
            RunDirectory::begin(request.out, &text, run)?
        }
    };
    let (done, all) = (run.done(), cells.len());
    exit::warn(&format!("sweep {}, seed {seed}: {done} of {all} cells are done", run.run.id));
    let interruption = Interruption::catch()?;
    let directories = Directories { ends: &ends, id: run.run.id.clone() };
    let (label, stall) = (run.run.label(), Duration::from_secs(matrix.stall_s.into()));
    let mover = Mover { client: ends.client()?, interruption: &interruption, label, stall };
    let mut sweep =
        Sweep { ends: &ends, matrix, modes, counted: sets, run, directories, mover, rtt: None };
    if sweep.run.run.ended.is_none() {
        sweep.work(&cells).map_err(|error| with_next_step(&error, &sweep.run))?;
    }
    outcome(&sweep.run)
}

/// Prints the results of a sweep that is complete.
fn outcome(run: &RunDirectory) -> anyhow::Result<ExitCode> {
    let cells = read_cells(run.path())?;
    exit::print(&table(&run.run, &cells, &read_retried(run.path())?))?;
    if cells.iter().any(Cell::is_retriable) {
        exit::warn("the same command with `--retry-failed` runs failed cells again");
    }
    Ok(match () {
        () if cells.iter().any(Cell::is_wrong) => ExitCode::Integrity,
        () if cells.iter().any(|cell| cell.error.is_some()) => ExitCode::SomeFailed,
        () => ExitCode::Done,
    })
}

/// Adds to an error in the middle of a sweep how to continue, and how to remove what the sweep has
/// made.
fn with_next_step(error: &anyhow::Error, run: &RunDirectory) -> anyhow::Error {
    let code = exit::code_of(error);
    let hint = match exit::hint_of(error) {
        Some(hint) => hint,
        None if code == ExitCode::Interrupted => {
            "the same command continues, and repeats the cell that was running"
        }
        None => "the same command continues",
    };
    let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
    let hint = run.run.with_removal(hint, run.path());
    let failure = Failure::new(code, error.to_string()).hint(hint);
    match causes.is_empty() {
        true => failure.into(),
        false => failure.caused_by(causes.join(": ")).into(),
    }
}

/// Checks what can be checked before anything is changed; returns the data sets. `is_new` tells
/// that nothing of the sweep is there yet.
///
/// # Errors
/// A directory is missing; a store has too little room; a data set cannot be listed.
pub(super) fn check(
    ends: &Ends,
    matrix: &Matrix,
    seed: u64,
    is_new: bool,
) -> anyhow::Result<Vec<Counted>> {
    for (end, what) in [(&ends.source, "`source`"), (&ends.target, "`target`")] {
        ends.check_directory(end, &end.dir, &format!("the directory of {what}"))?;
    }
    let counted = matrix.datasets.iter().map(|name| count(ends, name, seed));
    let counted: Vec<Counted> = counted.collect::<anyhow::Result<_>>()?;
    if is_new {
        let sets: Vec<Dataset> = counted.iter().map(|counted| counted.dataset.clone()).collect();
        for (end, needed) in [&ends.source, &ends.target].into_iter().zip(room(matrix, &sets)) {
            check_room(&end.shown(), needed, end.space.as_ref())?;
        }
    }
    Ok(counted)
}

fn check_same(its: &RunDirectory, ends: &Ends, datasets: &[Dataset]) -> anyhow::Result<()> {
    let run = &its.run;
    ends.check_site(run)?;
    let mut pairs = run.datasets.iter().zip(datasets);
    let Some((before, _)) = pairs.find(|(before, now)| before != now) else { return Ok(()) };
    let message = format!("data set `{}` has changed since the sweep began", before.name);
    let hint = "its figures could not be compared: begin another one in a new directory";
    Err(Failure::new(ExitCode::Refused, message).hint(run.with_removal(hint, its.path())).into())
}

fn new_run(
    ends: &Ends,
    matrix: &Matrix,
    (seed, cells): (u64, &[Planned]),
    (modes, datasets): (&[Mode], Vec<Dataset>),
) -> Run {
    Run {
        format: FORMAT,
        id: format!("{:016x}", rand::random::<u64>()),
        title: matrix.title.clone(),
        begun: now(),
        ended: None,
        seed,
        penstock: env!("CARGO_PKG_VERSION").to_owned(),
        api: "v1".to_owned(),
        source: ends.source.shown(),
        target: ends.target.shown(),
        asked: ends.own.to_string(),
        repeats: matrix.repeats,
        warmup: matrix.warmup,
        cool_down_s: matrix.cool_down_s,
        verify: matrix.verify.as_str().to_owned(),
        directions: matrix.direction.all().to_vec(),
        datasets,
        modes: modes.to_vec(),
        cells: cells.iter().map(|cell| cell.id.clone()).collect(),
    }
}

struct Sweep<'a> {
    ends: &'a Ends,
    matrix: Matrix,
    modes: Vec<Mode>,
    counted: Vec<Counted>,
    run: RunDirectory,
    directories: Directories<'a>,
    mover: Mover<'a>,
    /// Round trip in milliseconds, and the block in which it was measured.
    rtt: Option<((u32, bool), Option<f64>)>,
}

impl Sweep<'_> {
    /// Does what is left of the sweep.
    fn work(&mut self, cells: &[Planned]) -> anyhow::Result<()> {
        self.mover.cancel_abandoned()?;
        if cells.iter().any(|cell| !self.run.is_done(&cell.id)) {
            self.directories.prepare(&self.matrix, &self.mover, self.run.run.seed)?;
        }
        if !self.run.has("facts.json") {
            self.run.write_json("facts.json", &facts::facts(self.ends))?;
            facts::write_kept(self.ends, &self.run)?;
        }
        self.measure_storage("before")?;
        for planned in cells {
            if self.run.is_done(&planned.id) {
                continue;
            }
            exit::warn(&format!("cell {} of {}: {}", planned.order, cells.len(), planned.id));
            let cell = self.cell(planned)?;
            let told = match (&cell.error, &cell.rate) {
                (Some(error), _) => format!("failed: {}", error.text),
                (None, Some(rates)) => format_rate(rates.effective * 8.0),
                (None, None) => String::new(),
            };
            self.run.add(cell)?;
            exit::warn(&told);
        }
        self.measure_storage("after")?;
        self.directories.remove(&self.mover)?;
        self.run.run.ended = Some(now());
        self.run.write_run()
    }

    fn measure_storage(&self, when: &str) -> anyhow::Result<()> {
        let wish = &self.matrix.storage;
        if !wish.measure {
            return Ok(());
        }
        if facts::is_to_measure(self.ends, &self.run, when) {
            self.clear_targets()?;
        }
        facts::measure(self.ends, &self.run, wish, when, self.mover.interruption)
    }

    /// Removes the copies of the last cells, which would take the room of a storage benchmark.
    fn clear_targets(&self) -> anyhow::Result<()> {
        let mut directions = self.matrix.direction.all().iter();
        directions.try_for_each(|direction| self.directories.clear(*direction, &self.mover))
    }

    /// Runs one cell. An error ends the sweep; what fails in the cell is in the record.
    fn cell(&mut self, planned: &Planned) -> anyhow::Result<Cell> {
        self.directories.clear(planned.direction, &self.mover)?;
        let cool_down = u64::from(self.matrix.cool_down_s);
        self.mover.interruption.sleep(Duration::from_secs(cool_down))?;
        let mut cell = self.blank(planned);
        let source =
            self.directories.source(&self.matrix.datasets[planned.dataset], planned.direction);
        let target = self.directories.target(&planned.id, planned.direction);
        let options = self.modes[planned.mode].options();
        let before = facts::use_of_processors(self.ends, cool_down.min(LOAD_SECONDS));
        if cool_down >= LOAD_SECONDS_MIN {
            cell.before = Before { busy_cores: measurement::busy_cores(&before) };
        }
        let begun = now();
        let moved = match self.mover.run(&planned.id, source.clone(), target.clone(), options) {
            Ok(moved) => moved,
            Err(error) => match error.downcast::<Refused>() {
                Ok(Refused(refused)) => {
                    cell.t.submitted = Some(begun);
                    cell.error = Some(CellError::of(&refused));
                    return Ok(cell);
                }
                Err(error) => return Err(error),
            },
        };
        let after = facts::use_of_processors(self.ends, 0);
        self.mover.interruption.sleep(LAST_SECOND)?;
        let observed = self.observe(moved.view.id, &cell, [&before, &after]);
        self.write_observed(&cell, &moved, &observed)?;
        fill(&mut cell, &moved, &observed);
        if let Some(error) = moved.error() {
            fail(&mut cell, &error);
            return Ok(cell);
        }
        if let Err(error) = self.verify(&mut cell, planned, (source, target), moved.view.id) {
            self.mover.interruption.check()?;
            fail(&mut cell, &error);
        }
        Ok(cell)
    }

    /// Returns the record of a cell of which nothing is known but the plan.
    fn blank(&mut self, planned: &Planned) -> Cell {
        let block = (planned.block, planned.is_warmup);
        let rtt_ms = match self.rtt {
            Some((known, rtt)) if known == block => rtt,
            _ => facts::round_trip_ms(self.ends),
        };
        self.rtt = Some((block, rtt_ms));
        let name = &self.matrix.datasets[planned.dataset];
        Cell {
            id: planned.id.clone(),
            block: planned.block,
            order: planned.order,
            repeat: planned.block,
            warmup: planned.is_warmup,
            dataset: self.counted[planned.dataset].dataset.clone(),
            direction: planned.direction,
            source: self.directories.source(name, planned.direction).to_string(),
            target: self.directories.target(&planned.id, planned.direction).to_string(),
            mode: self.modes[planned.mode].clone(),
            peers: Peers::default(),
            rtt_ms,
            t: Default::default(),
            bytes: None,
            files: None,
            rate: None,
            files_per_s: None,
            resent_bytes: None,
            retries: None,
            cpu: Default::default(),
            peak_rss: Default::default(),
            before: Before::default(),
            time: Default::default(),
            bottleneck: None,
            flags: Vec::new(),
            verify: None,
            error: None,
            transfer: None,
            penstock: self.ends.version.clone(),
        }
    }

    /// Returns what the peers of each site that can be asked have seen of a transfer; `ends` are
    /// their counters before and after it.
    fn observe(
        &self,
        id: TransferId,
        cell: &Cell,
        ends: [&BTreeMap<Name, Vec<PeerHistory>>; 2],
    ) -> Vec<Observed> {
        let (from, to) = self.ends.of(cell.direction);
        let mut all = Vec::new();
        for (site, client) in &self.ends.clients {
            if *site != from.site && *site != to.site {
                continue;
            }
            let [before, after] = ends.map(|end| end.get(site).map_or(&[][..], Vec::as_slice));
            let uri = GET_SERIES.uri(&[&id]).query("points", POINTS_MAX);
            let series: anyhow::Result<TransferSeries> = client.get(&uri);
            let statistics: anyhow::Result<TransferStatistics> =
                client.get(&GET_STATISTICS.uri(&[&id]));
            all.push(Observed {
                site: site.to_string(),
                is_target: *site == to.site,
                series: series.map(|series| series.peers).unwrap_or_default(),
                statistics: statistics.map(|statistics| statistics.peers).unwrap_or_default(),
                processors: measurement::processor_time(before, after),
            });
        }
        all
    }

    fn write_observed(
        &self,
        cell: &Cell,
        moved: &Moved,
        observed: &[Observed],
    ) -> anyhow::Result<()> {
        let submitted = moved.times.submitted.unwrap_or_else(now);
        let mut lines = Vec::new();
        for sample in measurement::samples(observed, submitted) {
            serde_json::to_writer(&mut lines, &sample)?;
            lines.push(b'\n');
        }
        if !lines.is_empty() {
            self.run.write(&format!("series/{}.jsonl", cell.id), &lines)?;
        }
        let site =
            |site: &Observed| serde_json::json!({"site": site.site, "peers": site.statistics});
        let sites: Vec<_> = observed.iter().map(site).collect();
        let name = format!("statistics/{}.json", cell.id);
        self.run.write_json(&name, &serde_json::json!({"sites": sites}))
    }

    fn verify(
        &self,
        cell: &mut Cell,
        planned: &Planned,
        places: (Location, Location),
        id: TransferId,
    ) -> anyhow::Result<()> {
        let receipt = verification::receipt(&self.mover, id)?;
        self.run.write(&format!("receipts/{}.json", cell.id), &receipt)?;
        let wrong = |why: String| {
            Failure::new(ExitCode::Integrity, "what was moved is not what was asked for")
                .caused_by(why)
        };
        let how = self.matrix.verify;
        let sample = &self.counted[planned.dataset].sample;
        let checked = verification::check_receipt(&receipt, &cell.dataset);
        let mut verified = verification::compare(&self.mover, how, places, &cell.dataset, sample)?;
        let differs = !verified.ok;
        verified.ok &= checked.is_ok();
        cell.verify = Some(verified);
        checked.map_err(wrong)?;
        if differs {
            return Err(wrong("files differ at the two ends".to_owned()).into());
        }
        Ok(())
    }
}

/// Records that a cell has failed: it has no rates.
fn fail(cell: &mut Cell, error: &anyhow::Error) {
    cell.error = Some(CellError::of(error));
    (cell.rate, cell.files_per_s) = (None, None);
}

/// Writes the figures of a transfer to the record of its cell.
fn fill(cell: &mut Cell, moved: &Moved, observed: &[Observed]) {
    let TransferView { progress, source, target, .. } = &moved.view;
    let mut times = moved.times.clone();
    let submitted = times.submitted.unwrap_or_else(now);
    if let Some((first, last)) = measurement::last_bytes(observed, submitted) {
        // Samples end at the end of a second, which may be later.
        let end = times.done.unwrap_or(last);
        (times.first_done, times.last_byte) = (Some(first.min(end)), Some(last.min(end)));
    }
    if cell.mode.durability == Durability::None {
        times.durable = None;
    }
    let sites = [source.site.as_str(), target.site.as_str()];
    let names = |peers: &[PeerTime], site: &str| {
        let named = peers.iter().map(|peer| measurement::peer_name(peer, site, observed));
        let mut names: Vec<String> = named.collect();
        names.sort();
        names.dedup();
        names
    };
    let time = &progress.time;
    let peers =
        Peers { source: names(&time.source, sites[0]), target: names(&time.target, sites[1]) };
    if let Some(seconds) = times.done.filter(|seconds| *seconds > 0.0) {
        let effective = progress.bytes as f64 / seconds;
        let max_1s = (progress.rate_max_bits_per_s / 8.0).max(effective);
        cell.rate = Some(Rates { effective, steady_20_80: measurement::steady(observed), max_1s });
        cell.files_per_s = Some(progress.files as f64 / seconds);
    }
    cell.mode.suite = match cell.mode.encryption {
        Encryption::Off => Some("clear".to_owned()),
        Encryption::Tls => measurement::suite(observed),
    };
    cell.peers = peers;
    cell.t = times;
    cell.bytes = Some(progress.bytes);
    cell.files = Some(progress.files);
    cell.resent_bytes = Some(progress.bytes_resent);
    cell.retries = Some(moved.view.attempt.saturating_sub(1));
    cell.cpu = measurement::cpu(observed, time, sites);
    cell.peak_rss = measurement::peak_memory(observed);
    cell.time = measurement::side_seconds(time);
    cell.bottleneck = moved.view.bottleneck.as_ref().map(|bottleneck| bottleneck.text.clone());
    cell.flags = measurement::flags(observed, &cell.before.busy_cores);
    cell.flags.extend(measurement::suite_flag(&cell.mode));
    if let Some(retries) = cell.retries.filter(|retries| *retries > 0) {
        cell.flags.push(format!("retries of the transfer: {retries}"));
    }
    cell.transfer = Some(moved.view.id);
}
