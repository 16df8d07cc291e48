//! The walk of everything below the data set's root at the target, here or at another host. It
//! leaves out protected entries:
//!
//! - Entries that the user's rules exclude, at either side.
//! - Entries at a place where the source left out a mount, and, with `--one-file-system`, mounts at
//!   the target.
//! - The backup directory.
//! - State of runs, files of other runs, and directories that hold any.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;

use penstock_api::delete::Surplus;
use penstock_api::problem::Problem;
use penstock_api::transfer::PathText;
use penstock_proto::name;
use penstock_proto::select::{Selector, Verdict};
use penstock_store::{Kind, ListBuffer, Meta, StoreError, Target};

use super::path_hash::{PathHash, Wish, spill_failed};
use super::record::{key_of, own_at, surplus_of};
use crate::scan::path_stack::PathStack;
use crate::stores::errors::{Cause, StoreFault};
use crate::task::error::TaskError;

/// Most directories that are listed at a time, by one request to another host.
pub const LIST_DIRECTORIES_MAX: usize = 64;

/// Takes one entry after the other.
pub type TakeSurplus<'a> = &'a mut dyn FnMut(Surplus) -> Result<(), Problem>;

/// Lists directories of a target, wherever that is.
pub trait TargetLister {
    /// Lists up to [`LIST_DIRECTORIES_MAX`] directories, given relative to the data set's root.
    /// `take` gets each entry once, except for protected ones. An own entry comes as
    /// [`SurplusKind::Own`](penstock_api::delete::SurplusKind::Own). A path that is no longer a
    /// directory holds nothing.
    ///
    /// # Errors
    /// One of them cannot be listed completely; errors of `take`.
    fn list(&mut self, directories: Vec<PathText>, take: TakeSurplus<'_>) -> Result<(), Problem>;
}

/// Reports everything that is not protected, and not below an unlisted directory of the data set.
/// Waiting directories are kept in `scratch` if they are many.
pub(super) fn walk(
    lister: &mut dyn TargetLister,
    unlisted: &HashSet<PathHash>,
    scratch: &Path,
    visit: TakeSurplus<'_>,
) -> Result<(), TaskError> {
    let mut stack = PathStack::new(scratch);
    stack.push(Vec::new());
    loop {
        let mut directories = Vec::new();
        while directories.len() < LIST_DIRECTORIES_MAX {
            let next = stack.pop().map_err(|cause| spill_failed(scratch, cause))?;
            let Some(directory) = next else { break };
            directories.push(PathText(directory));
        }
        if directories.is_empty() {
            return Ok(());
        }
        lister.list(directories, &mut |surplus| {
            if surplus.is_directory() && !unlisted.contains(&key_of(&surplus)) {
                stack.push(surplus.path.0.clone());
            }
            visit(surplus)
        })?;
    }
}

/// The target of this host.
pub(super) struct Here<'a> {
    target: &'a Target,
    root: &'a [u8],
    backup: Option<&'a [u8]>,
    /// [`UpdateOptions::kept_state`](penstock_api::update::UpdateOptions::kept_state).
    state: Option<&'a [u8]>,
    selector: Selector,
    /// The root's file system, where others are passed over; none before it was looked at.
    device: Option<u64>,
    buffer: ListBuffer,
}

impl<'a> Here<'a> {
    pub(super) fn new(target: &'a Target, wish: Wish<'a>) -> Result<Self, TaskError> {
        let Wish { root, update, select } = wish;
        let selector = select.compile().map_err(TaskError::Select)?;
        let backup = update.backup_dir.as_ref().map(|path| path.0.as_slice());
        let state = update.kept_state.as_ref().map(|path| path.0.as_slice());
        let (device, buffer) = (None, ListBuffer::new());
        Ok(Self { target, root, backup, state, selector, device, buffer })
    }

    /// Returns whether an entry and all below it are passed over.
    fn is_protected(&self, path: &[u8], meta: &Meta) -> bool {
        let directory = meta.kind == Kind::Directory;
        self.backup == Some(path)
            || self.selector.verdict_here(path, directory) == Verdict::Excluded
            || self.device.is_some_and(|device| directory && device != meta.device)
    }

    fn look_at_root(&mut self) -> Result<(), TaskError> {
        if !self.selector.one_file_system || self.device.is_some() {
            return Ok(());
        }
        let device = match self.target.open_dir(self.root) {
            Ok(dir) => self.target.meta(&dir, b"").map(|root| root.map(|root| root.device)),
            Err(error) if error.is_vanished() => Ok(None),
            Err(StoreError::NotDirectory { .. }) => Ok(None),
            Err(error) => Err(error),
        };
        self.device = device.map_err(|error| failed(self.target, &error))?;
        Ok(())
    }

    fn list_one(&mut self, directory: &[u8], take: TakeSurplus<'_>) -> Result<(), TaskError> {
        let target = self.target;
        let dir = match target.open_dir(&name::join(self.root, directory)) {
            Ok(dir) => dir,
            Err(error) if error.is_vanished() => return Ok(()),
            // The root itself is a file or link: there is nothing below it.
            Err(StoreError::NotDirectory { .. }) if directory.is_empty() => return Ok(()),
            Err(error) => return Err(failed(target, &error)),
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut outcome = Ok(());
        let listed = target.list(&dir, &mut buffer, &mut |entry| {
            let path = name::join(directory, entry.name);
            // Files of other runs, and own state, are never extraneous.
            if entry.own.is_some() || self.state == Some(&path) {
                outcome = take(own_at(path)).map_err(TaskError::from);
                return match outcome {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                };
            }
            let meta = match target.meta(&dir, entry.name) {
                Ok(Some(meta)) => meta,
                Ok(None) => return ControlFlow::Continue(()),
                Err(error) => {
                    outcome = Err(failed(target, &error));
                    return ControlFlow::Break(());
                }
            };
            if self.is_protected(&path, &meta) {
                return ControlFlow::Continue(());
            }
            outcome = take(surplus_of(path, &meta)).map_err(TaskError::from);
            if outcome.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        self.buffer = buffer;
        outcome?;
        listed.map_err(|error| failed(target, &error))
    }
}

impl TargetLister for Here<'_> {
    fn list(&mut self, directories: Vec<PathText>, take: TakeSurplus<'_>) -> Result<(), Problem> {
        self.look_at_root()?;
        for directory in directories {
            self.list_one(&directory.0, take)?;
        }
        Ok(())
    }
}

/// Returns the error of a directory that cannot be listed. Errors that concern the store are waited
/// for; any other error refuses the whole deletion (C3).
fn failed(target: &Target, error: &StoreError) -> TaskError {
    let fault = StoreFault::of(target, error);
    fault.map_or_else(|| TaskError::Unlisted(Cause::of(error)), TaskError::from)
}
