//! The hosts with a vote in the site's own etcd, as its last controller knew them. The journal
//! holds them for a host that must continue alone and may have missed members that joined while it
//! was away (B4).
//!
//! ```text
//! JOURNAL/voters.json     the members; its time is when a controller has confirmed them last
//! ```

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::journal::SharedJournal;

const VOTERS: &str = "voters.json";

/// A member of etcd as clients and other members reach it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownMember {
    /// Its name: that of the peer on its host.
    pub name: String,
    /// The address for clients.
    pub client_url: String,
    /// The address for other members.
    pub peer_url: String,
}

impl SharedJournal {
    /// Records the members with a vote, which the controller has just read. Blocks on storage;
    /// writing an unchanged list only sets its time.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn confirm_voters(&self, voters: &[KnownMember]) -> io::Result<()> {
        let path = self.path(VOTERS);
        let text = serde_json::to_vec_pretty(voters)?;
        if fs::read(&path).is_ok_and(|known| known == text) {
            return File::options().write(true).open(&path)?.set_modified(SystemTime::now());
        }
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&new, &path)
    }

    /// Returns the members with a vote, and when a controller last confirmed them; `None` if none
    /// ever has. Blocks on storage.
    ///
    /// # Errors
    /// The journal cannot be read, or its list of members is damaged.
    pub fn voters(&self) -> io::Result<Option<(Vec<KnownMember>, SystemTime)>> {
        let path = self.path(VOTERS);
        // A network file system asks for a file's times again when it is opened.
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let confirmed = file.metadata()?.modified()?;
        Ok(Some((serde_json::from_reader(io::BufReader::new(file))?, confirmed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B4: the voters that a controller has confirmed are known to every host that reaches the
    /// journal, with the time of its last record. A damaged file proves nothing.
    #[test]
    fn b4_the_last_controllers_voters_are_known() {
        let directory = tempfile::tempdir().unwrap();
        let journal = SharedJournal::new(directory.path());
        assert_eq!(journal.voters().unwrap(), None);
        let member = |name: &str| KnownMember {
            name: name.to_owned(),
            client_url: format!("https://{name}:7445"),
            peer_url: format!("https://{name}:7446"),
        };
        journal.confirm_voters(&[member("h1")]).unwrap();
        journal.confirm_voters(&[member("h1"), member("h2")]).unwrap();
        let (voters, confirmed) = journal.voters().unwrap().unwrap();
        assert_eq!(voters, [member("h1"), member("h2")]);
        let path = directory.path().join(VOTERS);
        let long_ago = SystemTime::UNIX_EPOCH;
        File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
        assert_eq!(journal.voters().unwrap().unwrap().1, long_ago);
        journal.confirm_voters(&voters).unwrap();
        assert!(journal.voters().unwrap().unwrap().1 >= confirmed);
        fs::write(&path, "[{").unwrap();
        assert!(journal.voters().is_err());
    }
}
