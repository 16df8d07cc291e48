//! Makes a plan.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::Path;

use penstock_api::plan::{Forecast, PLAN_VERSION, PlanEnd, PlanHead, PlanItem, PlanWriter};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::scan::ScanSummary;
use penstock_cluster::clock::now_seconds;

use super::look::Looker;
use crate::runner::input::{RunInput, RunOutcome};
use crate::runner::journal::{failed, plan_path};
use crate::runner::pages::unlisted;
use crate::runner::phases::deletion_guards::check_amount;

/// Number of items that could not be listed and that a plan names.
const UNLISTED_NAMED: usize = 100;

/// Writes the actions that a transfer would take to `plan.jsonl` in its journal directory. Blocks
/// for as long as both sides take to be walked. A plan by which some items would fail, or by which
/// nothing may be deleted, is a valid plan, and its end records that.
pub(crate) fn make(mut input: RunInput) -> RunOutcome {
    match try_make(&mut input) {
        Ok(true) => RunOutcome::Done,
        Ok(false) => RunOutcome::Paused,
        Err(problem) => RunOutcome::Failed(problem),
    }
}

fn try_make(input: &mut RunInput) -> Result<bool, Problem> {
    let path = plan_path(&input.journal);
    let lost = |cause: io::Error| failed("write", &path, &cause);
    let store = input.peer().store_id(&input.store)?;
    let head = head_of(input, store);
    let (rate, limit) = (input.known_rate, input.options.limits.rate_bits_per_s);
    let mut looker = Looker::new(input, store)?;
    let mut out = BufWriter::new(File::create(&path).map_err(lost)?);
    let mut writer = PlanWriter::begin(&mut out, head).map_err(lost)?;
    let Some(scan) = looker.entries(&mut |item| writer.add(item).map_err(lost))? else {
        return Ok(false);
    };
    let mut refused = None;
    if looker.spec.update.delete {
        match deletions(&looker, &scan, &mut |item| writer.add(item).map_err(lost)) {
            Err(problem) if problem.code == ProblemCode::DeleteRefused => refused = Some(problem),
            outcome => outcome?,
        }
    }
    let end = PlanEnd {
        forecast: forecast(writer.totals().bytes_moved(), limit, rate),
        not_carried: scan.skipped,
        not_chosen: scan.excluded,
        unlisted: scan.errors,
        unlisted_items: unlisted::first_of(looker.input.pages.as_mut(), &scan, UNLISTED_NAMED)?,
        own_state: scan.own_state,
        refused,
        ..PlanEnd::default()
    };
    writer.end(end).map_err(lost)?;
    Ok(true)
}

fn head_of(input: &RunInput, store: Option<u64>) -> PlanHead {
    let mut options = input.options.clone();
    options.plan = None;
    let (source, target) = input.places.clone();
    PlanHead {
        v: PLAN_VERSION,
        source,
        target,
        root: input.root.clone(),
        store: store.map(|id| format!("{id:016x}")),
        made: now_seconds(),
        options,
    }
}

/// Reports the entries that would be deleted, if all guards agree.
fn deletions(
    looker: &Looker<'_>,
    scan: &ScanSummary,
    add: &mut dyn FnMut(PlanItem) -> Result<(), Problem>,
) -> Result<(), Problem> {
    // How many they are is known when all are found: they are kept until then.
    let path = looker.journal.directory().join("deletions.jsonl");
    let mut out = BufWriter::new(create(&path)?);
    let mut found = 0;
    looker.surplus(scan, &mut |item| {
        found += 1;
        let line = serde_json::to_string(&item).unwrap_or_default();
        writeln!(out, "{line}").map_err(|cause| failed("write", &path, &cause))?;
        Ok(false)
    })?;
    out.flush().map_err(|cause| failed("write", &path, &cause))?;
    check_amount(&looker.spec.update, found, looker.existed)?;
    let file = File::open(&path).map_err(|cause| failed("read", &path, &cause))?;
    for line in BufReader::new(file).lines() {
        let line = line.map_err(|cause| failed("read", &path, &cause))?;
        let item = serde_json::from_str(&line).map_err(|cause| {
            failed("read", &path, &io::Error::new(io::ErrorKind::InvalidData, cause))
        })?;
        add(item)?;
    }
    Ok(())
}

fn create(path: &Path) -> Result<File, Problem> {
    File::create(path).map_err(|cause| failed("write", path, &cause))
}

/// Returns the duration for `bytes` at the known rate, or at the limit if that is lower.
fn forecast(bytes: u64, limit: Option<u64>, measured: Option<f64>) -> Option<Forecast> {
    let limit = limit.map(|limit| limit as f64);
    let (rate, basis) = match (limit, measured) {
        (None, None) => return None,
        (Some(limit), measured) if measured.is_none_or(|rate| rate >= limit) => {
            (limit, "the limit that was set")
        }
        (_, measured) => (measured?, "the last transfer between these stores"),
    };
    let seconds = bytes as f64 * 8.0 / rate;
    Some(Forecast { seconds, rate_bits_per_s: rate, basis: basis.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a forecast names its basis, and none is invented.
    #[test]
    fn a_forecast_goes_by_what_is_known() {
        assert_eq!(forecast(1000, None, None), None);
        let measured = forecast(1000, None, Some(8000.0)).unwrap();
        assert_eq!((measured.seconds, measured.rate_bits_per_s), (1.0, 8000.0));
        let limited = forecast(1000, Some(800), Some(8000.0)).unwrap();
        assert_eq!((limited.seconds, limited.basis.as_str()), (10.0, "the limit that was set"));
        assert!(forecast(1, Some(9000), Some(8000.0)).unwrap().basis.contains("last transfer"));
        assert_eq!(forecast(0, Some(8), None).unwrap().seconds, 0.0);
    }
}
