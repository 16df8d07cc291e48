//! Checks of the files that are visible at both ends of a transfer that is not done.

use std::cell::{Cell, RefCell};
use std::path::Path;

use penstock_api::rest::TransferView;
use penstock_api::transfer::{TransferOptions, TransferRequest, TransferState};
use penstock_proto::id::TransferId;
use penstock_proto::units::MIB;

use super::outcome::{Outcome, broken, passed, unknown};
use super::trial::{Trial, check_copy, hurry, slow};

/// Bytes of the data set that come while its transfer is slow.
const SLOW_BYTES: u64 = 8 * MIB;

/// Compares the files that have their names in a copy that is made.
pub(super) fn final_names(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let request = trial.request("set", "named", slow());
    let looks = Watch::new(trial, "named", &|| check_names(trial, "named")).over(&request)?;
    check_copy(trial, "named", "the transfer is done, and")?;
    passed(format!("{looks} looks at an incomplete copy found no name of an incomplete file"))
}

/// Moves a copy of the data set away.
pub(super) fn source_removal(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    trial.moved("set", "given", TransferOptions::default())?;
    check_copy(trial, "given", "before the move")?;
    let options = TransferOptions { remove_source: true, ..slow() };
    let request = trial.request("given", "taken", options);
    let looks = Watch::new(trial, "taken", &|| check_removal(trial)).over(&request)?;
    check_copy(trial, "taken", "the move is done, and")?;
    if trial.scratch.has_items(Path::new("given"))? {
        return unknown("the move is done, and files stay at the source: removal does not work");
    }
    passed(format!(
        "{looks} looks at an incomplete move found each file at the source, or whole at the \
         target; the source is gone now"
    ))
}

fn check_names(trial: &Trial<'_>, copy: &str) -> anyhow::Result<()> {
    match trial.scratch.fault_of_names(copy)? {
        Some(fault) => broken(format!("a file has its name before it is whole: {fault}")),
        None => Ok(()),
    }
}

/// Checks that what the source of the move lacks is at the target. The source is looked at first: a
/// file that is gone from there has come before.
fn check_removal(trial: &Trial<'_>) -> anyhow::Result<()> {
    let gone = trial.scratch.absent_from("given")?;
    if gone.is_empty() {
        return Ok(());
    }
    let absent = trial.scratch.absent_from("taken")?;
    if let Some(lost) = gone.iter().find(|name| absent.contains(name)) {
        let lost = lost.display();
        return broken(format!("`{lost}` is gone from the source and is not at the target"));
    }
    check_names(trial, "taken")
}

/// A look at the files of a transfer, again and again until its end.
struct Watch<'a> {
    trial: &'a Trial<'a>,
    /// The copy that is made.
    copy: &'a str,
    look: &'a dyn Fn() -> anyhow::Result<()>,
    /// Looks at an incomplete copy of which bytes had come.
    looks: Cell<u32>,
    failed: RefCell<Option<anyhow::Error>>,
}

impl<'a> Watch<'a> {
    fn new(trial: &'a Trial<'a>, copy: &'a str, look: &'a dyn Fn() -> anyhow::Result<()>) -> Self {
        Self { trial, copy, look, looks: Cell::new(0), failed: RefCell::new(None) }
    }

    /// Submits a slow transfer, and looks until it is done: slowly first, so that there is time for
    /// looks. Returns the number of looks at an incomplete copy, which is not zero.
    fn over(&self, request: &TransferRequest) -> anyhow::Result<u32> {
        let id = self.trial.submit(request)?.id;
        let is_done = |view: &TransferView| view.state == TransferState::Done;
        self.until(id, |view| view.progress.bytes_verified > SLOW_BYTES || is_done(view))?;
        hurry(self.trial, id)?;
        self.until(id, is_done)?;
        match self.looks.get() {
            0 => unknown("the transfer was done before its files were looked at"),
            looks => Ok(looks),
        }
    }

    fn until(&self, id: TransferId, is: impl Fn(&TransferView) -> bool) -> anyhow::Result<()> {
        self.trial.until(id, |view| match self.look(view) {
            Ok(()) => is(view),
            Err(error) => {
                self.failed.replace(Some(error));
                true
            }
        })?;
        self.failed.take().map_or(Ok(()), Err)
    }

    fn look(&self, view: &TransferView) -> anyhow::Result<()> {
        (self.look)()?;
        if view.progress.bytes_verified > 0
            && !self.trial.scratch.absent_from(self.copy)?.is_empty()
        {
            self.looks.set(self.looks.get() + 1);
        }
        Ok(())
    }
}
