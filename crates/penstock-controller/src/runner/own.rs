//! Who wrote as the controller's own peer, for the controller that comes after it.
//!
//! Such a peer has no grant: what it writes ends with the tenure of its controller, and a new one
//! is elected only when that is over (B4). So nobody waits for it to fall silent, as for a peer
//! with a grant, of which the new controller does not know how long it still writes (B3).

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use penstock_api::problem::Problem;
use penstock_proto::id::WriterId;

use super::journal::failed;

const NAME: &str = "own-writer";

/// The own peer of the last controller that had one at work on this transfer.
///
/// # Errors
/// The journal store cannot be read.
pub(super) fn last(journal: &Path) -> Result<Option<WriterId>, Problem> {
    let path = journal.join(NAME);
    match fs::read(&path) {
        Ok(text) => {
            let writer = serde_json::from_slice(&text);
            writer.map(Some).map_err(|cause| failed("read", &path, &cause.into()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", &path, &error)),
    }
}

/// Notes the own peer of this one, whose earlier task has ended: before it gets any work.
/// Durable.
///
/// # Errors
/// The journal store cannot be written.
pub(super) fn note(journal: &Path, writer: WriterId) -> Result<(), Problem> {
    let (path, new) = (journal.join(NAME), journal.join("own-writer.new"));
    let write = || {
        let mut file = File::create(&new)?;
        file.write_all(&serde_json::to_vec(&writer)?)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(journal)?.sync_all()
    };
    write().map_err(|cause| failed("write", &path, &cause))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the next controller waits for those alone that may still write (B3, B4).
    #[test]
    fn b4_the_own_peer_of_the_last_controller_is_known() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(last(directory.path()).unwrap(), None);
        for writer in [WriterId(7), WriterId(9)] {
            note(directory.path(), writer).unwrap();
            assert_eq!(last(directory.path()).unwrap(), Some(writer));
        }
        fs::write(directory.path().join(NAME), "{").unwrap();
        assert!(last(directory.path()).is_err(), "a file that cannot be read names nobody");
    }
}
