//! `penstock soak --clean`: removes what a soak that was not continued has left in the target
//! store.
//!
//! The transfers of the round under way are cancelled first. The records stay, and so does the
//! right to continue: the round that was under way is then done anew.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use penstock_api::place::PathText;
use penstock_api::problem::ProblemCode;
use penstock_api::rest::TransferView;
use penstock_api::transfer::{Location, TransferState};
use penstock_exit::{self as exit, ExitCode, Failure, failure};

use super::OwnDirectory;
use crate::client::Client;
use crate::signals;
use crate::soak::course::step::{Purpose, Step};
use crate::soak::course::wait_watch::{HIDDEN_WORK, WaitWatch};
use crate::soak::daemon::Daemon;
use crate::soak::directory::{Directory, no_soak, read};
use crate::soak::ends;
use crate::soak::injector::heal_left;
use crate::soak::record::SoakRecord;
use crate::soak::report::Report;

/// Interval at which a transfer is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// Longest time that a cancelled transfer may take to end without progress.
const CANCEL_MOST: Duration = Duration::from_secs(60);

/// Undoes the fault that a soak has left open, and removes what it has left in the target store.
/// Blocks until that is done.
///
/// # Errors
/// The directory has no soak, or a soak works in it; the fault cannot be undone; no daemon of the
/// target's site answers; the directory cannot be emptied.
pub(crate) fn clean(path: &Path, client: Client, report: Report) -> anyhow::Result<ExitCode> {
    if read(path)?.is_none() {
        return Err(no_soak(path).into());
    }
    let Some(directory) = Directory::resume(path)? else { return Err(no_soak(path).into()) };
    let stop = signals::flag()?;
    heal_left(&directory)?;
    let Some(records) = directory.records()? else { return Err(no_soak(path).into()) };
    let daemon = Daemon::of(client)?;
    ends::check_site(&daemon, &records.soak.target)?;
    let mut record = records.soak;
    let last = records.rounds.last().map_or(0, |round| round.round);
    let cleaning = Cleaning { daemon: &daemon, report, stop: &stop, path };
    cleaning.cancel_all(&record, last)?;
    begin_anew(&mut record, last);
    directory.save(&record)?;
    let is_there = !record.is_null && cleaning.empty(&record, last)?;
    record.left = is_there.then(|| OwnDirectory(&record).remove(&daemon)).flatten();
    directory.save(&record)?;
    report.cleaned(&record.target, record.left.as_deref())?;
    Ok(ExitCode::Done)
}

/// Gives up the round under way, whose transfer is cancelled. Its failures stay.
fn begin_anew(record: &mut SoakRecord, last: u64) {
    record.cleanings += 1;
    let Some(round) = record.round.take().filter(|round| round.number > last) else { return };
    record.is_given_up = true;
    let number = round.number;
    let failures = round.failures.into_iter();
    record
        .failures
        .extend(failures.map(|text| format!("round {number}, which was not completed: {text}")));
}

struct Cleaning<'a> {
    daemon: &'a Daemon,
    report: Report,
    stop: &'a AtomicBool,
    /// The directory of the records.
    path: &'a Path,
}

impl Cleaning<'_> {
    /// Cancels the transfers that the last starts have left, and waits for their ends.
    fn cancel_all(&self, record: &SoakRecord, last: u64) -> anyhow::Result<()> {
        for round in [last, last + 1] {
            for purpose in Purpose::ALL {
                let step = Step { round, purpose };
                let id = step.transfer_id(record);
                match self.daemon.transfer(id) {
                    Ok(view) if view.state.is_ended() => {}
                    Ok(_) => {
                        let view = self.daemon.cancel(id)?;
                        self.ended(step, view, WaitWatch::new(CANCEL_MOST))?;
                    }
                    Err(error) if exit::code_of(&error) == ExitCode::Usage => {
                        tracing::debug!(%step, "the site knows no such transfer");
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Removes what rounds have put into the soak's directory. Returns whether there is one.
    fn empty(&self, record: &SoakRecord, last: u64) -> anyhow::Result<bool> {
        let own = OwnDirectory(record);
        if self.has_entries(&own.place())?.is_none() {
            return Ok(false);
        }
        if self.has_entries(&own.set())? != Some(true) {
            return Ok(true);
        }
        own.make(self.daemon)?;
        let step = Step { round: last, purpose: Purpose::Clean };
        let view = self.daemon.submit(own.emptying(step))?;
        let stall = Duration::from_secs(record.stall_seconds);
        let watch = WaitWatch::new(stall).with_hidden_work(stall * HIDDEN_WORK);
        let view = self.ended(step, view, watch)?;
        if view.state == TransferState::Done {
            return Ok(true);
        }
        let title = format!("`{}` cannot be emptied: {}", own.place(), view.reason);
        Err(Failure::new(ExitCode::SomeFailed, title).hint(self.hint()).into())
    }

    /// Returns whether a directory has an entry, or may have one that the user may not see; none
    /// if there is no such directory.
    fn has_entries(&self, place: &Location) -> anyhow::Result<Option<bool>> {
        match self.daemon.look(place, &PathText::default())? {
            Ok(list) => Ok(Some(!list.items.is_empty() || list.next.is_some())),
            Err(problem) if problem.code == ProblemCode::EntryUnknown => Ok(None),
            Err(problem) if ends::is_beyond_rights(&problem) => Ok(Some(true)),
            Err(problem) => Err(failure(problem).into()),
        }
    }

    /// Waits for the end of a transfer.
    ///
    /// # Errors
    /// It stalls; the user has interrupted the command; the daemon does not answer.
    fn ended(
        &self,
        step: Step,
        mut view: TransferView,
        mut watch: WaitWatch,
    ) -> anyhow::Result<TransferView> {
        loop {
            if let Some(news) = watch.see(&view) {
                self.report.wait(step, &view, &news)?;
            }
            if view.state.is_ended() {
                return Ok(view);
            }
            if let Some(stall) = watch.stall() {
                let title = format!("the {step} has not ended: {stall}");
                return Err(Failure::new(ExitCode::Temporary, title).hint(self.hint()).into());
            }
            if self.stop.load(Ordering::Acquire) {
                let interrupted = Failure::new(ExitCode::Interrupted, "interrupted");
                return Err(interrupted.hint(self.hint()).into());
            }
            thread::sleep(LOOK);
            watch.pass(LOOK);
            view = self.daemon.transfer(view.id)?;
        }
    }

    fn hint(&self) -> String {
        format!("`penstock soak --clean {}` continues", self.path.display())
    }
}
