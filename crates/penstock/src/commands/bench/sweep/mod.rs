//! `penstock bench sweep`: transfers of a matrix of data sets, modes and directions, measured in
//! randomised blocks, as a client of the API.
//!
//! | module | what it owns |
//! |---|---|
//! | `matrix` | what is asked for, read from TOML |
//! | `modes` | the combinations of options of transfers |
//! | `schedule` | the cells and their order |
//! | `record` | the forms of the records of a run directory |
//! | `run_directory` | the files of a run, and how it continues |
//! | `ends` | both sites and stores, as daemons see them |
//! | `datasets` | data sets and directories of a sweep in stores, and the room for them |
//! | `measurement` | figures of a transfer from the samples of its peers |
//! | `verification` | whether what was moved is right |
//! | `facts` | hosts, settings and measured storage |
//! | `running` | the sweep from begin to end |
//! | `removal` | the removal of what an abandoned sweep has left in the stores |
//! | `estimate` | the time that a sweep will take |
//! | `statistics` | medians and their intervals |
//! | `table` | the results in Markdown |

mod datasets;
mod ends;
mod estimate;
mod facts;
mod matrix;
mod measurement;
mod modes;
mod record;
mod removal;
mod run_directory;
mod running;
mod schedule;
mod statistics;
mod table;
mod verification;

use std::path::{Path, PathBuf};

use penstock_api::benchmark::Benchmark;
use penstock_exit::{self as exit, ExitCode};
use penstock_proto::benchmark::BenchmarkOperation;
use penstock_proto::units::{counted, format_bytes};

use datasets::{Counted, check_makable, room};
use ends::Ends;
use matrix::{Direction, Matrix};
use schedule::{Planned, schedule};

use crate::output::duration;

/// Arguments of `penstock bench sweep`.
#[derive(clap::Args)]
#[command(after_help = exit::help_of(&[
    (ExitCode::Done, "all cells are measured"),
    (ExitCode::Unclassified, ""),
    (ExitCode::Usage, "wrong command line, or a fault in the matrix"),
    (ExitCode::SomeFailed, "some cells failed; their lines say why"),
    (ExitCode::Temporary, "a daemon does not answer; the same command continues"),
    (ExitCode::Refused, "refused: the directory has something else, or the sites are not paired"),
    (ExitCode::Fatal, "too little room"),
    (ExitCode::Integrity, "what was moved differs from what was asked for"),
    (ExitCode::NotAuthorised, ""),
    (ExitCode::Interrupted, "interrupted; the same command continues"),
]))]
pub(super) struct SweepArgs {
    /// The matrix: places, data sets, modes, repeats, in TOML (docs/evaluation.md)
    #[arg(required_unless_present_any = ["show", "clean"])]
    matrix: Option<PathBuf>,
    /// Directory for the results
    #[arg(long, value_name = "DIR", required_unless_present_any = ["plan", "show", "clean"])]
    out: Option<PathBuf>,
    /// Print the cells, the room that they need and an estimate of the time, and change nothing
    #[arg(long)]
    plan: bool,
    /// Print the results in a directory instead
    #[arg(long, value_name = "DIR", conflicts_with_all = ["matrix", "out", "plan"])]
    show: Option<PathBuf>,
    /// Run cells that have failed again; `retried.jsonl` gets the lines that they had
    #[arg(long, conflicts_with_all = ["plan", "show", "clean"])]
    retry_failed: bool,
    /// Remove all that a sweep has left in both stores; DIR has its results, which stay
    #[arg(long, value_name = "DIR", conflicts_with_all = ["matrix", "out", "plan", "show"])]
    clean: Option<PathBuf>,
}

/// Runs it; blocks until all cells are run.
///
/// # Errors
/// As [`running::run`] and [`removal::run`]; the directory to show has no sweep.
pub(super) fn run(args: &SweepArgs, directory: &Path) -> anyhow::Result<ExitCode> {
    if let Some(show) = &args.show {
        let run = run_directory::read_run(show)?;
        let cells = run_directory::read_cells(show)?;
        exit::print(&table::table(&run, &cells, &run_directory::read_retried(show)?))?;
        return Ok(ExitCode::Done);
    }
    if let Some(clean) = &args.clean {
        return removal::run(clean, directory);
    }
    match (&args.matrix, &args.out) {
        (Some(matrix), _) if args.plan => plan(matrix, directory),
        (Some(matrix), Some(out)) => {
            let retry_failed = args.retry_failed;
            running::run(running::Request { matrix, out, retry_failed, directory })
        }
        // The command line asks for both.
        _ => Ok(ExitCode::Usage),
    }
}

/// Prints what a sweep would do.
fn plan(path: &Path, directory: &Path) -> anyhow::Result<ExitCode> {
    let (matrix, _) = matrix::read(path)?;
    let ends = Ends::ask(&matrix, directory)?;
    let modes = matrix.modes.all();
    let seed = matrix.seed.unwrap_or(0);
    let cells = schedule(&matrix, &modes, seed);
    let sets = running::check(&ends, &matrix, seed, true)?;
    for cell in &cells {
        let set = &sets[cell.dataset].dataset;
        let (files, bytes) = (counted(set.files, "file"), format_bytes(set.bytes));
        exit::print(&format!("{:>4}  {}  {files}, {bytes}", cell.order, cell.id))?;
    }
    let bytes = cells.iter().map(|cell| sets[cell.dataset].dataset.bytes).sum();
    let drawn = if matrix.seed.is_some() { "" } else { "; the seed will be drawn: another order" };
    exit::print(&format!(
        "{}, {} to move{drawn}",
        counted(cells.len() as u64, "cell"),
        format_bytes(bytes)
    ))?;
    let numbers: Vec<_> = sets.iter().map(|set| set.dataset.clone()).collect();
    for (end, needed) in [&ends.source, &ends.target].into_iter().zip(room(&matrix, &numbers)) {
        let free = end.space.map_or_else(
            || "free room is not known".to_owned(),
            |space| format!("{} are free", format_bytes(space.free_bytes)),
        );
        let needed = format_bytes(needed.bytes);
        exit::print(&format!("{}: needs {needed} at a time, {free}", end.shown()))?;
    }
    if let Err(failure) = check_makable(&ends, &matrix) {
        let error = anyhow::Error::from(failure);
        let hint = exit::hint_of(&error).unwrap_or_default();
        exit::warn(&format!("{error:#}: {hint}"));
    }
    exit::print(&time(&ends, &matrix, &cells, &sets))?;
    Ok(ExitCode::Done)
}

/// Returns the estimate of the time in words.
fn time(ends: &Ends, matrix: &Matrix, cells: &[Planned], sets: &[Counted]) -> String {
    let kept = [facts::newest(ends, &ends.source), facts::newest(ends, &ends.target)];
    let beside = cells.len() as f64 * (estimate::CELL_SECONDS + f64::from(matrix.cool_down_s));
    let moving = cells.iter().map(|cell| {
        let (from, to): (Option<&Benchmark>, Option<&Benchmark>) = match cell.direction {
            Direction::Forward => (kept[0].as_ref(), kept[1].as_ref()),
            Direction::Reverse => (kept[1].as_ref(), kept[0].as_ref()),
        };
        let histogram = &sets[cell.dataset].dataset.histogram;
        let read = estimate::seconds(histogram, from, BenchmarkOperation::Read);
        let write = estimate::seconds(histogram, to, BenchmarkOperation::Write);
        match (read, write) {
            (Some(read), Some(write)) => Some(read.max(write)),
            (one, other) => one.or(other),
        }
    });
    match moving.sum::<Option<f64>>() {
        Some(moving) => format!(
            "at least {} by the measured storage, {} of it beside the transfers",
            duration::estimated(moving + beside),
            duration::estimated(beside)
        ),
        None => format!(
            "at least {} beside the transfers; `penstock bench storage` at both sites lets their \
             time be told",
            duration::estimated(beside)
        ),
    }
}
