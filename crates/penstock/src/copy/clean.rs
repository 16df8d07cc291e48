//! `penstock copy --clean DIR`: removes what dead runs have left.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use penstock_peer::{Cleaner, LeftOver, clean_below};
use penstock_proto::id::TransferId;
use penstock_proto::name::{self, OwnKind, RunTag, STORE_PRIVATE_NAME};
use penstock_proto::units::format_bytes;
use penstock_store::StoreError;
use penstock_sys::LockFile;
use serde_json::json;

use super::state::{has_begun_to_remove, remove_state, state_home};
use crate::output::output_file::successor::is_being_written;
use penstock_exit::failure;
use penstock_exit::{self as exit, ExitCode, Failure};

/// A file of a run that is not known here goes if nothing about it has changed for so long, in
/// seconds: the run may be at work under another user or at another host.
const UNKNOWN_AGE_S: i64 = 24 * 3600;

/// How it is shown.
#[derive(Clone, Copy)]
pub(crate) struct Show {
    /// Only show what would be removed.
    pub(crate) dry_run: bool,
    /// As JSON Lines.
    pub(crate) json: bool,
    /// Also remove files of unknown runs in stores of daemons.
    pub(crate) in_stores: bool,
}

/// Removes what dead runs have left below `directory`; blocks until all of it is looked through.
///
/// # Errors
/// The directory cannot be opened.
pub(crate) fn run(directory: &Path, show: Show) -> anyhow::Result<ExitCode> {
    let runs = Runs::of_user()?;
    let (now, shown) = (i64::try_from(penstock_sys::now_seconds()).unwrap_or(i64::MAX), Ok(()));
    // A path that cannot be resolved is told as one that cannot be opened.
    let top = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let (removed, bytes, kept, failed) = (0, 0, 0, 0);
    let mut clean = Clean { top, runs, show, now, removed, bytes, kept, failed, shown };
    clean_below(directory, &mut clean).map_err(failure)?;
    clean.end()
}

/// The runs whose state this user keeps.
#[derive(Default)]
struct Runs {
    alive: HashSet<RunTag>,
    dead: HashMap<RunTag, DeadRun>,
}

/// A run that has ended before its copy was done. It cannot be resumed while it is looked at.
struct DeadRun {
    state: PathBuf,
    id: TransferId,
    /// Whether a file of it was removed: then its ledger is not true any more.
    cleaned: bool,
    _lock: LockFile,
}

impl Runs {
    fn of_user() -> anyhow::Result<Self> {
        let mut runs = Self::default();
        let copies = state_home()?.join("copy");
        for entry in fs::read_dir(copies).into_iter().flatten().flatten() {
            let text = fs::read_to_string(entry.path().join("id")).unwrap_or_default();
            let id = text.split_whitespace().next().and_then(|id| id.parse::<TransferId>().ok());
            let Some(id) = id else { continue };
            // One that cannot be had is held, or nobody knows.
            match LockFile::acquire(&entry.path().join("lock")) {
                Ok(lock) => {
                    let run = DeadRun { state: entry.path(), id, cleaned: false, _lock: lock };
                    runs.dead.insert(RunTag::of(id), run);
                }
                Err(_) => drop(runs.alive.insert(RunTag::of(id))),
            }
        }
        Ok(runs)
    }
}

struct Clean {
    /// The directory that is looked through, absolute.
    top: PathBuf,
    runs: Runs,
    show: Show,
    /// Seconds since 1970.
    now: i64,
    removed: u64,
    bytes: u64,
    kept: u64,
    failed: u64,
    shown: Result<(), Failure>,
}

impl Clean {
    /// Why a file stays; `None` if it goes.
    fn stays(&self, found: &LeftOver<'_>) -> Option<&'static str> {
        if found.own.kind == OwnKind::Aside {
            return Some("a move has put it aside; the same move again finishes it");
        }
        if self.runs.alive.contains(&found.own.run) {
            return Some("its copy is running");
        }
        if found.own.kind == OwnKind::Output {
            let path = self.top.join(OsStr::from_bytes(found.path));
            if let Some(written) = is_being_written(&path) {
                return written.then_some("a command is writing it");
            }
        }
        let known = self.runs.dead.contains_key(&found.own.run);
        if !known && !self.show.in_stores && self.is_in_store(found.path) {
            return Some(
                "it is in a store of a daemon, whose transfer may need it; `transfer cancel` or \
                 `--clean-stores` removes it",
            );
        }
        let young = self.now.saturating_sub(found.meta.ctime.seconds) < UNKNOWN_AGE_S;
        (!known && young).then_some("its copy is not known here, and may be running elsewhere")
    }

    /// Returns whether a path below the root lies in a store that a daemon has registered.
    fn is_in_store(&self, path: &[u8]) -> bool {
        let path = self.top.join(OsStr::from_bytes(path));
        let private = OsStr::from_bytes(STORE_PRIVATE_NAME);
        path.ancestors().skip(1).any(|directory| directory.join(private).is_dir())
    }

    fn tell(&mut self, action: &str, found: &LeftOver<'_>, why: &str) {
        let (path, run) = (name::escape(found.path), found.own.run.to_string());
        let bytes = found.meta.size;
        let line = if self.show.json {
            let line = json!({
                "type": "left-over", "v": 1, "action": action, "path": path, "run": run,
                "bytes": bytes, "why": why,
            });
            line.to_string()
        } else {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            let of = match found.own.kind {
                OwnKind::Output => "output of a command".to_owned(),
                _ => format!("copy {run}"),
            };
            format!("{action:<8} {path}  ({}, {of}){why}", format_bytes(bytes))
        };
        if self.shown.is_ok() {
            self.shown = exit::print(&line);
        }
    }

    fn count(&mut self, found: &LeftOver<'_>, action: &str) {
        self.removed += 1;
        self.bytes += found.meta.size;
        if let Some(run) = self.runs.dead.get_mut(&found.own.run) {
            run.cleaned = true;
        }
        self.tell(action, found, "");
    }

    fn end(self) -> anyhow::Result<ExitCode> {
        let cleaned = self.runs.dead.values().filter(|run| run.cleaned && !self.show.dry_run);
        // What a move has put aside at its source only its state can name.
        let over = cleaned.filter(|run| !has_begun_to_remove(&run.state, run.id));
        over.for_each(|run| remove_state(&run.state));
        self.shown?;
        let code = if self.failed > 0 { ExitCode::SomeFailed } else { ExitCode::Done };
        if self.show.json {
            let summary = json!({
                "type": "summary", "v": 1, "exit": code as u8, "dry_run": self.show.dry_run,
                "removed": self.removed, "bytes": self.bytes, "kept": self.kept,
                "errors": self.failed,
            });
            exit::print(&summary.to_string())?;
            return Ok(code);
        }
        let done = if self.show.dry_run { "would be removed" } else { "removed" };
        let (removed, bytes) = (self.removed, format_bytes(self.bytes));
        exit::warn(&format!("{removed} left-over files {done}, {bytes}; {} kept", self.kept));
        Ok(code)
    }
}

/// Removes the unfinished files of one run below `target`, by the tag in their names. A file that
/// cannot be removed is logged. Blocks while the whole tree is listed.
pub(crate) fn remove_unfinished(target: &Path, run: RunTag) {
    if let Err(problem) = clean_below(target, &mut OneRun(run)) {
        tracing::warn!(target = %target.display(), %problem, "unfinished files may be left");
    }
}

/// Chooses the unfinished files of one run.
struct OneRun(RunTag);

impl Cleaner for OneRun {
    fn goes(&mut self, found: &LeftOver<'_>) -> bool {
        found.own.kind == OwnKind::File && found.own.run == self.0
    }

    fn removed(&mut self, _found: &LeftOver<'_>) {}

    fn failed(&mut self, path: &[u8], error: &StoreError) {
        tracing::warn!(path = name::escape(path), %error, "an unfinished file may be left");
    }
}

impl Cleaner for Clean {
    fn goes(&mut self, found: &LeftOver<'_>) -> bool {
        if let Some(why) = self.stays(found) {
            self.kept += 1;
            self.tell("keep", found, why);
            return false;
        }
        if self.show.dry_run {
            self.count(found, "remove");
        }
        !self.show.dry_run
    }

    fn removed(&mut self, found: &LeftOver<'_>) {
        self.count(found, "removed");
    }

    fn failed(&mut self, path: &[u8], error: &StoreError) {
        self.failed += 1;
        let path = if path.is_empty() { ".".to_owned() } else { name::escape(path) };
        exit::warn(&format!("failed: {path}: {error}"));
    }
}
