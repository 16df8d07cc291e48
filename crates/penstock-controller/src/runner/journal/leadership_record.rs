//! The last controller of this transfer and the writer that was its own peer, recorded for the next
//! controller.
//!
//! The own peer of a controller has no grant. Its right to write ends with the tenure of its
//! controller, and a new controller is elected only after that (B4). So no controller waits for an
//! own peer to fall silent. A peer with a grant is different: the new controller does not know how
//! long that peer still writes (B3).
//!
//! An own peer that did not end in order may be stopped in the middle of a call, which completes
//! when its process wakes. Files begun by then are therefore checked again (B1). Only the next
//! controller believes the peer's reports of what it wrote. A later controller would not know which
//! peers got its extents since.
//!
//! Of other writers the record says which certainly write no more for any controller: writers that
//! ended in order, whose process has ended, or whose grant has expired. A peer that is lost for
//! good delays the run in which it is lost, and no later one.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use penstock_api::problem::Problem;
use penstock_proto::id::WriterId;
use serde::{Deserialize, Serialize};

use super::error::failed;
use super::names::{beside, last as last_of, own, remove_earlier};

/// Each controller has a file of its own: late records of a deposed controller do not count (B4).
const NAME: &str = "own-writer";

/// The record of a controller about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeadershipRecord {
    /// Its own peer, if that has been at work.
    pub(crate) writer: Option<WriterId>,
    /// The epoch of its tenure.
    pub(crate) epoch: u64,
    /// Writers that write no more. A writer that gets work is removed from the set first.
    #[serde(default)]
    pub(crate) settled: BTreeSet<WriterId>,
}

/// The last controller that led this transfer.
///
/// # Errors
/// The journal store cannot be read.
pub(crate) fn last(journal: &Path) -> Result<LeadershipRecord, Problem> {
    let path = last_of(&journal.join(NAME));
    match fs::read(&path) {
        Ok(text) => {
            let led = serde_json::from_slice(&text);
            led.map_err(|cause| failed("read", &path, &cause.into()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(LeadershipRecord::default()),
        Err(error) => Err(failed("read", &path, &error)),
    }
}

/// Records that this controller leads now, durably. The caller records it before any peer gets
/// work. It records it again before its own peer does, whose earlier task has ended, and whenever a
/// further writer writes no more.
///
/// # Errors
/// The journal store cannot be written.
pub(crate) fn note(journal: &Path, led: &LeadershipRecord) -> Result<(), Problem> {
    let path = own(&journal.join(NAME), led.epoch);
    let new = beside(&path, ".new");
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(led)?)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(journal)?.sync_all()
    };
    write().map_err(|cause| failed("write", &path, &cause))?;
    remove_earlier(&journal.join(NAME), led.epoch);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the next controller waits for those alone that may still write (B3, B4).
    #[test]
    fn b4_the_own_peer_of_the_last_controller_is_known() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(last(directory.path()).unwrap(), LeadershipRecord::default());
        for (writer, epoch) in [(None, 3), (Some(WriterId(7)), 3), (Some(WriterId(9)), 4)] {
            let led = LeadershipRecord { writer, epoch, settled: [WriterId(epoch)].into() };
            note(directory.path(), &led).unwrap();
            assert_eq!(last(directory.path()).unwrap(), led);
        }
        fs::write(own(&directory.path().join(NAME), 4), "{").unwrap();
        assert!(last(directory.path()).is_err(), "a file that cannot be read names nobody");
    }

    /// B3, B4: a controller that was deposed and wakes between its fence and its note does not
    /// have its successor's successor believe its own peer, nor wait for that of the successor.
    #[test]
    fn b4_a_deposed_controller_names_no_writer() {
        let directory = tempfile::tempdir().unwrap();
        let led = |writer, epoch| {
            let writer = Some(WriterId(writer));
            LeadershipRecord { writer, epoch, settled: BTreeSet::new() }
        };
        note(directory.path(), &led(7, 3)).unwrap();
        note(directory.path(), &led(9, 4)).unwrap();
        note(directory.path(), &led(7, 3)).unwrap();
        assert_eq!(last(directory.path()).unwrap(), led(9, 4));
        note(directory.path(), &led(5, 6)).unwrap();
        assert_eq!(last(directory.path()).unwrap(), led(5, 6));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "only the last is kept");
    }
}
