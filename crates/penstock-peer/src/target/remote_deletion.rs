//! This host's part in a deletion by a controller on another host: it lists directories, and
//! deletes the entries that it is sent. The controller finds the extraneous ones
//! ([`crate::target::extraneous`]).

use penstock_api::delete::Surplus;
use penstock_api::problem::Problem;
use penstock_api::task::TaskSpec;
use penstock_api::transfer::PathText;

use crate::target::TargetService;
use crate::target::extraneous::{self, Dealt, TakeSurplus};

impl TargetService {
    /// Lists directories of a target, like [`crate::TargetLister::list`]. The store is checked
    /// before and after, so that a missing mount never looks like an empty directory (A5). Blocks
    /// for a look at everything in them.
    ///
    /// # Errors
    /// The store is offline, or not the one of `spec`; a directory cannot be listed completely; an
    /// error of `take`.
    pub fn list_for(
        &self,
        spec: &TaskSpec,
        directories: Vec<PathText>,
        take: TakeSurplus<'_>,
    ) -> Result<(), Problem> {
        self.identify_if_known(spec)?;
        extraneous::list_for(&self.target(spec)?, spec, directories, take)?;
        Ok(self.identify_if_known(spec)?)
    }

    /// Deletes entries that are unchanged since they were found, or moves them to the backup
    /// directory. Works on one after the other while `goes_on` allows it. Returns the number of
    /// items handled. An item that was not deleted because `spec.fence` was shut is not counted.
    /// Blocks.
    ///
    /// # Errors
    /// The store is offline, or not the one of `spec`; the store accepts no changes.
    pub fn delete_for(
        &self,
        spec: &TaskSpec,
        items: Vec<Surplus>,
        goes_on: &dyn Fn() -> bool,
        take: &mut dyn FnMut(Dealt),
    ) -> Result<usize, Problem> {
        self.identify(spec)?;
        Ok(extraneous::delete_for(&self.target(spec)?, spec, items, goes_on, take)?)
    }
}
