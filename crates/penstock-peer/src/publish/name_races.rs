//! Names that another peer has just given, or that this host gave while the reply was lost (B5,
//! B6).
//!
//! A client of a network file system answers from its cache, which may deny a name for up to 30 s
//! (nfs(5), `acdirmax`). A request whose reply was lost is sent again, so that a completed rename
//! reports its old name as missing. Before an entry fails for either reason, its name is looked up
//! through a directory that is opened again.

use std::thread;
use std::time::Duration;

use penstock_store::{Dir, DurabilityMethod, Kind, Meta, StoreError, Target};

/// Waits between look-ups of a first name that is not visible; each is twice the one before.
const LOOKS: u32 = 5;
const LOOK_WAIT: Duration = Duration::from_millis(100);
/// Longest wait of a task in all. A name that is still invisible then counts as missing.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The time that a task has spent waiting for names of other peers.
#[derive(Default)]
pub(crate) struct NameWaits(Duration);

impl NameWaits {
    /// Returns the entry under a name that should exist, with the directory in which it was found.
    /// In a `shared` store another peer may have given the name, so the look-up is repeated for a
    /// while.
    ///
    /// # Errors
    /// `BadPath`; `Io`.
    pub(crate) fn look(
        &mut self,
        target: &Target,
        dir: Dir,
        leaf: &[u8],
        shared: bool,
    ) -> Result<Option<(Dir, Meta)>, StoreError> {
        if let Some(there) = target.meta(&dir, leaf)? {
            return Ok(Some((dir, there)));
        }
        if !shared || !is_network(&dir) {
            return Ok(None);
        }
        let mut wait = LOOK_WAIT;
        for _ in 0..LOOKS {
            if let Some(found) = look_anew(target, &dir, leaf)? {
                return Ok(Some(found));
            }
            if self.0 >= WAIT_MAX {
                break;
            }
            thread::sleep(wait);
            self.0 += wait;
            wait *= 2;
        }
        look_anew(target, &dir, leaf)
    }
}

/// Returns the present attributes of a file that another peer may have finished. Opens the file,
/// since a client keeps old attributes for up to a minute (nfs(5), `acregmax`).
pub(crate) fn refreshed(target: &Target, dir: &Dir, leaf: &[u8], there: Meta) -> Meta {
    if there.kind != Kind::File || !is_network(dir) {
        return there;
    }
    target.open_read(dir, leaf).and_then(|file| file.meta()).unwrap_or(there)
}

fn is_network(dir: &Dir) -> bool {
    matches!(dir.durability(), DurabilityMethod::Fsync(kind) if kind.is_network())
}

/// Returns the entry under a name through a new handle of its directory, which asks the server.
fn look_anew(target: &Target, dir: &Dir, leaf: &[u8]) -> Result<Option<(Dir, Meta)>, StoreError> {
    let dir = match target.open_dir(dir.path()) {
        Ok(dir) => dir,
        Err(error) if error.is_vanished() => return Ok(None),
        Err(error) => return Err(error),
    };
    let there = target.meta(&dir, leaf)?;
    Ok(there.map(|there| (dir, there)))
}

/// Returns the result of a rename. If the temporary name is reported missing and `is_it` holds for
/// the entry under the final name, the rename succeeded and only its reply was lost.
pub(crate) fn settled(
    outcome: Result<(), StoreError>,
    target: &Target,
    (dir, leaf): (&Dir, &[u8]),
    is_it: impl Fn(&Dir, &Meta) -> bool,
) -> Result<(), StoreError> {
    match outcome {
        Err(error) if error.is_vanished() => match look_anew(target, dir, leaf) {
            Ok(Some((dir, there))) if is_it(&dir, &there) => Ok(()),
            _ => Err(error),
        },
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_store::{PosixOptions, PosixStore};

    /// B6: a rename that finds no source has succeeded before if the file is under its final name;
    /// another file there does not count.
    #[test]
    fn b6_a_name_that_was_given_counts_whatever_the_answer() {
        let directory = tempfile::tempdir().unwrap();
        let store = PosixStore::open(directory.path(), PosixOptions::default()).unwrap();
        let target = Target::Posix(store);
        let dir = target.open_dir(b"").unwrap();
        target.make_symlink(&dir, b"final", b"there").unwrap();
        let gone = || target.publish(&dir, b".pst-gone", b"final", true);
        assert!(gone().is_err_and(|error| error.is_vanished()));
        let leads = |to: &'static [u8]| {
            let target = &target;
            move |dir: &Dir, _: &Meta| target.read_link(dir, b"final").is_ok_and(|it| it == to)
        };
        assert!(settled(gone(), &target, (&dir, b"final"), leads(b"there")).is_ok());
        let other = settled(gone(), &target, (&dir, b"final"), leads(b"elsewhere"));
        assert!(other.is_err_and(|error| error.is_vanished()));
        let nothing = settled(gone(), &target, (&dir, b"nothing"), |_, _| true);
        assert!(nothing.is_err_and(|error| error.is_vanished()));
    }
}
