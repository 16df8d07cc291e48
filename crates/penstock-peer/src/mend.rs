//! Looks again at finished files that a peer which was given up may have written to since (B1).
//!
//! Its late write repeats the bytes that are there, since it only has files of one generation open;
//! but it moves the file's time, and takes special bits away. What has another size than it was
//! made with is somebody else's by now, and is left alone.

use penstock_api::problem::Problem;
use penstock_api::task::TaskSpec;
use penstock_io::store::{StoreError, Target};
use penstock_proto::compared::EntrySet;
use penstock_proto::manifest::{Entry, Page};

use crate::keep::Keeper;
use crate::read::place;
use crate::stores::chain;
use crate::task::{full_problem, is_of_store};

/// Sets the attributes of `entries` again where they are not as they were made; gives of how many
/// files that was so.
///
/// # Errors
/// The store is at fault.
pub(crate) fn mend(
    target: &Target,
    spec: &TaskSpec,
    keeper: &Keeper,
    page: &Page,
    entries: &EntrySet,
) -> Result<u64, Problem> {
    let mut mended = 0;
    for entry in entries.iter().filter_map(|index| page.entries().get(index as usize)) {
        match mend_file(target, spec, keeper, page, entry) {
            Ok(changed) => mended += u64::from(changed),
            Err(error) if is_of_store(target, &error) => return Err(full_problem(&error)),
            Err(error) => {
                tracing::warn!(error = %chain(&error), "attributes could not be looked at again");
            }
        }
    }
    Ok(mended)
}

fn mend_file(
    target: &Target,
    spec: &TaskSpec,
    keeper: &Keeper,
    page: &Page,
    entry: &Entry,
) -> Result<bool, StoreError> {
    let (parent, leaf) = place(&spec.root.0, page, entry);
    let dir = target.open_dir(&parent)?;
    let Some(there) = target.meta(&dir, &leaf)? else { return Ok(false) };
    let time = !keeper.sets_times() || there.mtime == entry.mtime;
    let mode = keeper.mode(page, entry).is_none_or(|mode| mode == there.mode);
    if there.size != entry.size || (time && mode) {
        return Ok(false);
    }
    let file = target.open_written(&dir, &leaf)?;
    let sync = file.dir().durability().is_per_file();
    let not_set = file.finish(&keeper.attributes(page, entry), sync)?;
    keeper.settle(&page.path(entry), &not_set)?;
    Ok(true)
}
