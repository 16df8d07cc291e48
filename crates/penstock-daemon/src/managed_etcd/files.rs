//! Files of the site's own etcd at a host: `etcd/` in the site directory.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

pub use penstock_cluster::state::KnownMember;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Its name.
pub const DIRECTORY: &str = "etcd";
/// In it: the password that all peers of the site know.
pub const PASSWORD: &str = "password";
/// In it: the members as they were seen last, so that one is found again.
pub const MEMBERS: &str = "members.json";
const MEMBER: &str = "member.json";
/// In it: the password that is to follow, while it is changed.
const NEXT_PASSWORD: &str = "password.next";
/// In it: the authority that etcd's certificates are of. No other site trusts it.
pub const AUTHORITY: [&str; 3] = ["authority.pem", "authority.key", "capability.key"];

/// The directory.
#[derive(Clone, Debug)]
pub struct Files(PathBuf);

/// The facts that this host records about its own member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemberNote {
    /// The member is to be the first one of a new etcd, and has not run yet.
    pub begins: bool,
    /// Its number, once it has one; 0 before.
    pub id: u64,
    /// The others have removed it.
    pub removed: bool,
}

impl Files {
    /// Returns the files of a site directory.
    pub fn of(site: &Path) -> Self {
        Self(site.join(DIRECTORY))
    }

    pub(super) fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.0.join("lock")
    }

    pub(super) fn log(&self) -> PathBuf {
        self.0.join("etcd.log")
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.0.join("server.pem")
    }

    pub(super) fn key(&self) -> PathBuf {
        self.0.join("server.key")
    }

    /// Returns whether the member has stored any data.
    pub(super) fn has_data(&self) -> bool {
        self.data().join("member/wal").is_dir()
    }

    /// Puts the member's data aside: it can never be used by a member again.
    pub(super) fn discard(&self) -> io::Result<()> {
        let old = self.0.join("data.removed");
        match fs::remove_dir_all(&old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        match fs::rename(self.data(), old) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            renamed => renamed,
        }
    }

    /// Returns the recorded facts about the own member.
    pub fn note(&self) -> MemberNote {
        self.read(MEMBER).unwrap_or_default()
    }

    /// Records facts of the own member, durably.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_note(&self, note: &MemberNote) -> io::Result<()> {
        self.write(MEMBER, &serde_json::to_vec_pretty(note)?)
    }

    /// Returns the members that were known last.
    pub fn members(&self) -> Vec<KnownMember> {
        self.read(MEMBERS).unwrap_or_default()
    }

    /// Records the members that are known, durably.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_members(&self, members: &[KnownMember]) -> io::Result<()> {
        self.write(MEMBERS, &serde_json::to_vec_pretty(members)?)
    }

    /// Records the password of the site's user of etcd, durably, for its owner alone.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_password(&self, password: &str) -> io::Result<()> {
        self.write(PASSWORD, password.as_bytes())
    }

    /// Returns the passwords that etcd may ask for: two while it is changed, the newer one first.
    pub fn passwords(&self) -> Vec<String> {
        let read = |name: &str| fs::read_to_string(self.0.join(name)).ok();
        let found = [NEXT_PASSWORD, PASSWORD].into_iter().filter_map(read);
        found.map(|text| text.trim_end().to_owned()).collect()
    }

    /// Returns the password that is to follow, if one was staged: etcd may have it already.
    pub fn next_password(&self) -> Option<String> {
        fs::read_to_string(self.0.join(NEXT_PASSWORD)).ok()
    }

    /// Keeps the password that is to follow.
    pub fn stage_password(&self, password: &str) -> io::Result<()> {
        self.write(NEXT_PASSWORD, password.as_bytes())
    }

    /// Makes the staged password the present one.
    pub fn commit_password(&self) -> io::Result<()> {
        match fs::rename(self.0.join(NEXT_PASSWORD), self.0.join(PASSWORD)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            renamed => renamed.and_then(|()| fs::File::open(&self.0)?.sync_all()),
        }
    }

    /// Returns the certificate of etcd's authority.
    pub(super) fn authority(&self) -> PathBuf {
        self.0.join(AUTHORITY[0])
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(&fs::read(self.0.join(name)).ok()?).ok()
    }

    /// Writes a file so that a crash leaves the old or the new one.
    fn write(&self, name: &str, content: &[u8]) -> io::Result<()> {
        fs::create_dir_all(&self.0)?;
        let (path, new) = (self.0.join(name), self.0.join(format!("{name}.new")));
        let mut file =
            fs::File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(new, path)?;
        fs::File::open(&self.0)?.sync_all()
    }
}
