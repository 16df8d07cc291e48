//! The removal of all that an abandoned sweep has left in the stores. Its results stay.

use std::path::Path;
use std::time::Duration;

use penstock_exit::{self as exit, ExitCode};

use super::datasets::{Directories, Remains};
use super::ends::Ends;
use super::run_directory::RunDirectory;
use crate::commands::bench::interruption::{Interruption, with_hint};
use crate::commands::bench::mover::Mover;

/// Cancels the transfers of the sweep whose results are in `path`, removes its directories from
/// both stores, and prints what has become of each. Blocks until that is done. A data set that has
/// changed is no obstacle.
///
/// # Errors
/// `path` has no sweep, or another process works in it; a store cannot be used; something cannot be
/// removed; exit 130.
pub(super) fn run(path: &Path, directory: &Path) -> anyhow::Result<ExitCode> {
    let (run, matrix) = RunDirectory::open(path)?;
    let ends = Ends::ask(&matrix, directory)?;
    ends.check_site(&run.run)?;
    let interruption = Interruption::catch()?;
    let mover = Mover {
        client: ends.client()?,
        interruption: &interruption,
        label: run.run.label(),
        stall: Duration::from_secs(matrix.stall_s.into()),
    };
    let directories = Directories { ends: &ends, id: run.run.id.clone() };
    let removed = mover.cancel_abandoned().and_then(|()| directories.remove(&mover));
    for (place, remains) in
        removed.map_err(|error| with_hint(error, "the same command continues"))?
    {
        match remains {
            Remains::Removed => exit::print(&format!("removed {place}"))?,
            Remains::NotThere => exit::print(&format!("{place} is not there"))?,
            // These were named already.
            Remains::EmptyDirectories => {}
        }
    }
    Ok(ExitCode::Done)
}
