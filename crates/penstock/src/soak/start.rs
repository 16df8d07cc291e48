//! The start of a soak: checks, the question, the directory in the target store, and the end.

use std::path::Path;
use std::time::{Duration, Instant};

use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::Location;
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::benchmark::BenchmarkOperation;
use penstock_proto::id::{Name, TransferId};

use super::arguments::SoakArgs;
use super::course::{Course, worked};
use super::daemon::Daemon;
use super::directory::{Directory, Records};
use super::ends;
use super::faults::FaultSet;
use super::injector::{Injector, heal_left};
use super::own_directory::OwnDirectory;
use super::proof::Proof;
use super::record::{Measured, RECORD_VERSION, STALL_SECONDS, SoakRecord};
use super::report::Report;
use super::until::Until;
use crate::client::Client;
use crate::commands::transfer::measured::{rate_near, usable};
use crate::consent;
use crate::signals;

/// Files of the proof, in the directory of a soak: the page, and the same as JSON.
const PROOF_PAGE: &str = "proof.md";
const PROOF: &str = "proof.json";

/// The wish of a user.
pub(super) struct Wish<'a> {
    pub(super) source: &'a Location,
    pub(super) target: &'a Location,
    pub(super) until: Until,
    pub(super) out: &'a Path,
}

/// Begins a soak, or continues it, until its end; writes the result.
///
/// # Errors
/// As [`super::run`].
pub(super) fn run(args: &SoakArgs, wish: &Wish<'_>) -> anyhow::Result<ExitCode> {
    let opened = Directory::resume(wish.out)?;
    let stop = signals::flag()?;
    let earlier = match &opened {
        Some(directory) => {
            heal_left(directory)?;
            directory.records()?
        }
        None => None,
    };
    let faults = args.faults.as_deref().map(FaultSet::read).transpose()?.unwrap_or_default();
    let daemon = Daemon::of(Client::new(&args.directory.directory)?)?;
    let others = args.watch.iter().map(|path| Daemon::of(Client::local(path)?));
    let others = others.collect::<anyhow::Result<Vec<_>>>()?;
    let is_null = match (ends::look(&daemon, wish.source, wish.target), &earlier) {
        // A soak that continues waits for what is away for a while.
        (Err(error), Some(earlier)) if exit::code_of(&error) == ExitCode::Temporary => {
            exit::warn(&format!("source and target cannot be looked at now: {error:#}"));
            earlier.soak.is_null
        }
        (looked, _) => looked?.is_null,
    };
    check(args, &faults, is_null)?;
    let rounds = earlier.as_ref().map(|it| it.rounds.clone()).unwrap_or_default();
    let mut record = match earlier {
        Some(earlier) => continued(args, wish, earlier)?,
        None => begun(args, wish, is_null),
    };
    if !faults.is_empty() && !args.yes && !is_confirmed(&faults, args.every)? {
        return Err(Failure::new(ExitCode::Refused, "no fault is injected").into());
    }
    let directory = opened.map_or_else(|| Directory::begin(wish.out), Ok)?;
    record.every_seconds = (!faults.is_empty()).then_some(args.every);
    record.left = (!is_null).then(|| OwnDirectory(&record).held(wish.out));
    record.starts += 1;
    directory.save(&record)?;
    // A proof of an earlier end does not speak for what follows.
    directory.remove(PROOF_PAGE)?;
    directory.remove(PROOF)?;
    if !is_null {
        OwnDirectory(&record).make(&daemon)?;
    }
    let report = Report::new(args.json);
    let pace = (record.seed, Duration::from_secs(args.every));
    let mut course = Course {
        report,
        injector: Injector::new(&directory, report, faults, pace),
        worked: worked(&rounds, record.seconds),
        root_digest: rounds
            .iter()
            .filter(|round| round.is_good)
            .find_map(|round| round.root_digest.clone()),
        stop: &stop,
        began: Instant::now(),
        earlier_seconds: record.seconds,
        sampled: None,
        directory: &directory,
        daemon,
        others,
        record,
    };
    let ended = course.run();
    finish(course, &directory, ended.is_ok())?;
    ended?;
    conclude(&directory, args.json)
}

fn check(args: &SoakArgs, faults: &FaultSet, is_null: bool) -> anyhow::Result<()> {
    let at_rest = faults.all().iter().find(|(_, fault)| fault.at_rest);
    let title = match at_rest {
        Some((name, _)) if is_null => {
            format!("fault `{name}` damages data at rest, and the target store keeps none")
        }
        None if is_null && args.compare => {
            "the target store keeps nothing that could be compared".to_owned()
        }
        _ => return Ok(()),
    };
    let hint = "take another target, or leave the fault or `--compare` out";
    Err(Failure::new(ExitCode::Usage, title).hint(hint).into())
}

fn begun(args: &SoakArgs, wish: &Wish<'_>, is_null: bool) -> SoakRecord {
    SoakRecord {
        v: RECORD_VERSION,
        id: TransferId(rand::random()),
        // A seed that JSON of any program can hold.
        seed: args.seed.unwrap_or_else(|| u64::from(rand::random::<u32>())),
        source: wish.source.clone(),
        target: wish.target.clone(),
        until: wish.until,
        every_seconds: None,
        stall_seconds: args.stall.unwrap_or(STALL_SECONDS),
        compares: args.compare,
        began: Timestamp::of_seconds(penstock_sys::now_seconds()),
        seconds: 0.0,
        starts: 0,
        faults: 0,
        is_null,
        round: None,
        failures: Vec::new(),
        left: None,
        is_given_up: false,
        cleanings: 0,
        versions: Vec::new(),
        measured: Vec::new(),
    }
}

/// Returns the record of an earlier start, whose rounds count on.
fn continued(args: &SoakArgs, wish: &Wish<'_>, earlier: Records) -> anyhow::Result<SoakRecord> {
    let mut record = earlier.soak;
    let is_other = record.source != *wish.source || record.target != *wish.target;
    if is_other || args.seed.is_some_and(|seed| seed != record.seed) {
        let title = format!(
            "`{}` has a soak of {} to {} with the seed {}",
            wish.out.display(),
            record.source,
            record.target,
            record.seed
        );
        return Err(Failure::new(ExitCode::Usage, title).hint("give another `--out`").into());
    }
    let last = earlier.rounds.last().map_or(0, |round| round.round);
    // It was recorded, and the soak was killed before it could say so.
    record.round = record.round.filter(|round| round.number > last);
    if let Some(round) = &mut record.round {
        round.is_continued = true;
    }
    record.until = wish.until;
    record.stall_seconds = args.stall.unwrap_or(record.stall_seconds);
    let keeps = if record.compares && !args.compare { ", and compares as before" } else { "" };
    record.compares |= args.compare;
    let id = record.id.short();
    exit::warn(&format!("soak {id} is continued after round {last}{keeps}"));
    Ok(record)
}

fn is_confirmed(faults: &FaultSet, every: u64) -> anyhow::Result<bool> {
    exit::warn(&format!("these commands run on this host, one every {every} s or so:"));
    for (name, fault) in faults.all() {
        exit::warn(&format!("  {name}: {}", fault.run));
        if let Some(heal) = &fault.heal {
            exit::warn(&format!("    undone after {} s: {heal}", fault.open_seconds));
        }
    }
    consent::ask("inject them?")
}

/// Notes measurements of the stores, and removes the soak's own directory where this host has it.
fn finish(mut course: Course<'_>, directory: &Directory, is_over: bool) -> anyhow::Result<()> {
    let (target, source) = (&course.record.target, &course.record.source);
    let mut ends = vec![(target.store.clone(), BenchmarkOperation::Write)];
    if source.site == target.site {
        ends.push((source.store.clone(), BenchmarkOperation::Read));
    }
    let records = directory.records()?;
    let last = records.as_ref().and_then(|it| it.rounds.last());
    let file_bytes = last.map_or(0, |round| round.bytes / round.files.max(1));
    course.record.measured =
        ends.into_iter().filter_map(|end| measured(&course.daemon, end, file_bytes)).collect();
    if is_over && !course.record.is_null {
        course.record.left = OwnDirectory(&course.record).remove(&course.daemon);
    }
    directory.save(&course.record)
}

fn measured(
    daemon: &Daemon,
    (store, operation): (Name, BenchmarkOperation),
    file_bytes: u64,
) -> Option<Measured> {
    // A site without measurements, or one that does not answer now, has no ratio.
    let list = daemon.benchmarks(&store).ok()?;
    let of = usable(&list.items)?;
    let bytes_per_s = rate_near(of, operation, file_bytes)?;
    Some(Measured { operation: operation.to_string(), bytes_per_s, at: of.began, store })
}

/// Writes the page, and returns how the soak ended.
fn conclude(directory: &Directory, json: bool) -> anyhow::Result<ExitCode> {
    let Some(records) = directory.records()? else { return Ok(ExitCode::Done) };
    let proof = Proof::of(&records);
    let page = proof.page();
    directory.write(PROOF_PAGE, page.trim_end().as_bytes())?;
    directory.write(PROOF, &serde_json::to_vec_pretty(&proof)?)?;
    if !json {
        exit::print(page.trim_end())?;
    }
    Ok(proof.exit())
}
