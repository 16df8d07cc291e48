//! The identity and the fingerprint of a store, which show whether it is still the same (A5, C3).
//!
//! A writable store that is registered holds a random id, made once, in the file `store` of its
//! private directory. A store of one transfer only (`penstock copy`) may be a directory of others.
//! No file is put there to identify it, and the file system's own marks must do, as for a store
//! that is only read. The transfer's sync marker shows which data was synced there (`marker.rs`).

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fmt, io};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use penstock_proto::name;
use penstock_proto::name::STORE_PRIVATE_NAME;
use penstock_sys::{FileSystemKind, act_as_daemon, is_mount_root, mount_identity};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, StatxFlags, fstat, fstatfs, fstatvfs, fsync, linkat,
    mkdirat, openat, renameat_with, statx, unlinkat,
};
use rustix::io::Errno;

use crate::error::{StoreError, StoreOffline};
use crate::posix::file_system::mount::sync_names;
use crate::posix::sandbox::{create_component, open_component, open_listable};
use crate::posix::store::PosixStore;

pub(crate) const IDENTITY_NAME: &[u8] = b"store";
/// Further tries to make an identity while others leave the store.
const IDENTITY_TRIES: u32 = 3;
/// Prefix of the name of an identity that is being made.
const DRAFT_PREFIX: &[u8] = b"store-";
const IDENTITY_HEADING: &str = "penstock-store 1";
/// Longest identity file that is read.
const IDENTITY_BYTES_MAX: u64 = 4096;

/// The identity of a writable store.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreIdentity {
    /// 128 random bits.
    pub id: [u8; 16],
    /// Time when the bits were made, in seconds since 1970.
    pub created_seconds: u64,
}

impl StoreIdentity {
    /// Returns the identity of a store that has no other than its fingerprint.
    fn of(fingerprint: &StoreFingerprint) -> Self {
        let hash = blake3::hash(fingerprint.to_string().as_bytes());
        let mut id = [0; 16];
        id.copy_from_slice(&hash.as_bytes()[..16]);
        Self { id, created_seconds: 0 }
    }

    /// Returns the id as 32 hexadecimal digits.
    pub fn id_hex(&self) -> String {
        HEXLOWER.encode(&self.id)
    }

    fn encode(&self) -> String {
        let body =
            format!("{IDENTITY_HEADING}\nid {}\ncreated {}\n", self.id_hex(), self.created_seconds);
        let check = HEXLOWER.encode(&blake3::hash(body.as_bytes()).as_bytes()[..8]);
        format!("{body}check {check}\n")
    }

    fn decode(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        if lines.next() != Some(IDENTITY_HEADING) {
            return None;
        }
        let id = HEXLOWER_PERMISSIVE.decode(lines.next()?.strip_prefix("id ")?.as_bytes()).ok()?;
        let created_seconds = lines.next()?.strip_prefix("created ")?.parse().ok()?;
        let identity = Self { id: id.try_into().ok()?, created_seconds };
        (identity.encode() == text).then_some(identity)
    }
}

impl fmt::Debug for StoreIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreIdentity({})", self.id_hex())
    }
}

/// The mount at the root of a store, as far as the file system shows: type, file-system id, inode
/// and birth time of the root (C3). Written and read as hexadecimal numbers joined by `-`: three,
/// and a fourth if the file system, ext4, XFS or Btrfs, reports when the root was made.
///
/// The fingerprint stays the same over reboots on disk file systems; on some network file systems
/// the id is 0 and on tmpfs it is new for each mount. A directory that is removed and made again
/// may get the inode number of the old one, as on ext4. The birth time distinguishes the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreFingerprint {
    /// `f_type` of statfs(2).
    pub file_system_type: u32,
    /// `f_fsid` of statvfs(3).
    pub file_system_id: u64,
    /// Inode number of the root directory.
    pub root_inode: u64,
    /// `stx_btime` of statx(2) of the root directory, in nanoseconds since 1970. `None` where the
    /// file system does not report it or may change it, and in a fingerprint that was recorded
    /// without it.
    pub root_birth_ns: Option<u64>,
}

impl StoreFingerprint {
    /// Takes the birth time only where it never changes: overlayfs stamps a new one when the first
    /// write copies a directory up, and exFAT when an entry is renamed into a directory.
    fn of(root: impl AsFd) -> io::Result<Self> {
        let file_system_type = fstatfs(&root)?.f_type as u32;
        let keeps_births = matches!(
            FileSystemKind::from_f_type(file_system_type),
            FileSystemKind::Ext4 | FileSystemKind::Xfs | FileSystemKind::Btrfs
        );
        let told = statx(&root, c"", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)?;
        let reports = StatxFlags::from_bits_retain(told.stx_mask).contains(StatxFlags::BTIME);
        let birth = told.stx_btime;
        let birth_ns = || u64::try_from(birth.tv_sec).ok()?.checked_mul(1_000_000_000);
        let birth_ns = birth_ns().and_then(|ns| ns.checked_add(birth.tv_nsec.into()));
        Ok(Self {
            file_system_type,
            file_system_id: fstatvfs(&root)?.f_fsid,
            root_inode: told.stx_ino,
            root_birth_ns: birth_ns.filter(|ns| keeps_births && reports && *ns > 0),
        })
    }

    /// Returns whether two fingerprints may be of the same root. Birth times are compared only if
    /// both have one.
    pub fn is_of_same(&self, other: &Self) -> bool {
        let births = self.root_birth_ns.zip(other.root_birth_ns);
        self.without_birth() == other.without_birth() && births.is_none_or(|(one, two)| one == two)
    }

    fn without_birth(&self) -> Self {
        Self { root_birth_ns: None, ..*self }
    }
}

impl fmt::Display for StoreFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}-{:x}-{:x}", self.file_system_type, self.file_system_id, self.root_inode)?;
        self.root_birth_ns.map_or(Ok(()), |birth| write!(f, "-{birth:x}"))
    }
}

/// The reason why a text is not a fingerprint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a store fingerprint: three or four hexadecimal numbers joined by `-`")]
pub struct ParseFingerprintError(String);

impl FromStr for StoreFingerprint {
    type Err = ParseFingerprintError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let numbers = text.split('-').map(|part| u64::from_str_radix(part, 16).ok());
            let numbers = numbers.collect::<Option<Vec<_>>>()?;
            let (file_system_type, file_system_id, root_inode, root_birth_ns) = match numbers[..] {
                [kind, id, inode] => (kind, id, inode, None),
                [kind, id, inode, birth] => (kind, id, inode, Some(birth)),
                _ => return None,
            };
            let file_system_type = u32::try_from(file_system_type).ok()?;
            Some(Self { file_system_type, file_system_id, root_inode, root_birth_ns })
        };
        parse().ok_or_else(|| ParseFingerprintError(text.to_owned()))
    }
}

impl PosixStore {
    /// Reads the store's identity, or makes one. For the first use of a target only: callers that
    /// expect an identity call [`PosixStore::check_identity`], which never makes one. An ephemeral
    /// store gets none: its fingerprint is its identity.
    ///
    /// Several peers may do so at once: one id wins, and all get it.
    ///
    /// # Errors
    /// `Offline` if the identity is damaged; `ReadOnly`; `Io`.
    pub fn open_or_init_identity(&self) -> Result<StoreIdentity, StoreError> {
        let _daemon = act_as_daemon();
        if self.is_ephemeral() {
            return Ok(self.identity()?);
        }
        let root = self.root().own_fd()?;
        if let Some(identity) = self.read_identity(root)? {
            return Ok(identity);
        }
        self.check_writable("make identity", STORE_PRIVATE_NAME)?;
        // A process that removes the store's private files at this moment also removes a draft that
        // is not placed yet.
        let is_gone = |made: &io::Result<()>| {
            made.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        };
        let mut made = make_identity(root);
        for _ in 0..IDENTITY_TRIES {
            if is_gone(&made) {
                made = make_identity(root);
            }
        }
        made.map_err(|error| StoreError::io("make identity", STORE_PRIVATE_NAME, error))?;
        self.read_identity(root)?.ok_or_else(|| self.identity_missing().into())
    }

    /// Reads the store's identity from the current directory at the root's path; never makes one.
    ///
    /// # Errors
    /// The way in which the store is offline.
    pub fn identity(&self) -> Result<StoreIdentity, StoreOffline> {
        let root = self.reopen_root()?;
        if self.is_ephemeral() {
            let told = StoreFingerprint::of(&root).map_err(|error| self.unreachable(&error))?;
            return Ok(StoreIdentity::of(&told));
        }
        match self.read_identity(root.as_fd()) {
            Ok(Some(found)) => Ok(found),
            Ok(None) => Err(self.identity_missing()),
            Err(StoreError::Offline(offline)) => Err(offline),
            Err(error) => Err(self.unreachable(&error)),
        }
    }

    /// Checks that the root's path still leads to the directory that was opened, and that it is the
    /// store `expected`. Call it before work, on resume, and in each sync epoch (A5).
    ///
    /// # Errors
    /// The way in which the store is offline: quarantine it at this peer; no item has failed.
    pub fn check_identity(&self, expected: &StoreIdentity) -> Result<(), StoreOffline> {
        let found = self.identity()?;
        if found.id != expected.id {
            let (root, expected) = (self.root_text(), expected.id_hex());
            return Err(StoreOffline::OtherStore { root, expected, found: found.id_hex() });
        }
        Ok(())
    }

    /// Returns the fingerprint of the current mount at the root.
    ///
    /// # Errors
    /// `Offline` if the root's path leads elsewhere, or nowhere.
    pub fn fingerprint(&self) -> Result<StoreFingerprint, StoreOffline> {
        let root = self.reopen_root()?;
        StoreFingerprint::of(&root).map_err(|error| self.unreachable(&error))
    }

    /// Checks that the root matches the recorded fingerprint (C3): for stores that are only read.
    ///
    /// # Errors
    /// The way in which the store is offline.
    pub fn check_fingerprint(&self, expected: &StoreFingerprint) -> Result<(), StoreOffline> {
        let found = self.fingerprint()?;
        if found.is_of_same(expected) {
            return Ok(());
        }
        Err(StoreOffline::OtherMount { root: self.root_text(), found: found.to_string() })
    }

    /// Identifies the mount of the root, see [`mount_identity`].
    ///
    /// # Errors
    /// `Io`.
    pub fn mount_identity(&self) -> Result<u64, StoreError> {
        let told = mount_identity(self.root().own_fd()?);
        told.map_err(|error| StoreError::io("stat store", b"", error))
    }

    /// Returns whether the root is that of a mount, see [`is_mount_root`].
    pub fn is_mount_root(&self) -> bool {
        self.root().own_fd().is_ok_and(is_mount_root)
    }

    /// Opens the root's path again: it must lead to the directory that is open.
    fn reopen_root(&self) -> Result<OwnedFd, StoreOffline> {
        let _daemon = act_as_daemon();
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = self.root_path();
        let reopen = || -> io::Result<(OwnedFd, bool)> {
            let fd = open_listable(|access| openat(CWD, root, access | flags, Mode::empty()))?;
            let open = self.root().own_fd().map_err(io::Error::other)?;
            let (now, then) = (fstat(&fd)?, fstat(open)?);
            // Our descriptor keeps its file system alive, so no other can have its device number.
            Ok((fd, now.st_ino == then.st_ino && now.st_dev == then.st_dev))
        };
        let (fd, same) = reopen().map_err(|error| self.unreachable(&error))?;
        if same {
            return Ok(fd);
        }
        let found = StoreFingerprint::of(&fd).map_or_else(|e| e.to_string(), |f| f.to_string());
        Err(StoreOffline::OtherMount { root: self.root_text(), found })
    }

    pub(crate) fn open_private(&self) -> Result<Option<OwnedFd>, StoreError> {
        let _daemon = act_as_daemon();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        match open_component(self.root().own_fd()?, STORE_PRIVATE_NAME, flags) {
            Ok(fd) => Ok(Some(fd)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(StoreError::io("open", STORE_PRIVATE_NAME, errno)),
        }
    }

    fn read_identity(&self, root: BorrowedFd<'_>) -> Result<Option<StoreIdentity>, StoreError> {
        let _daemon = act_as_daemon();
        let path = name::join(STORE_PRIVATE_NAME, IDENTITY_NAME);
        let failed = |error: io::Error| StoreError::io("read", &path, error);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let file = open_component(root, STORE_PRIVATE_NAME, flags)
            .and_then(|private| open_component(private.as_fd(), IDENTITY_NAME, OFlags::RDONLY));
        let file = match file {
            Ok(file) => std::fs::File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(failed(errno.into())),
        };
        let mut text = Vec::new();
        file.take(IDENTITY_BYTES_MAX).read_to_end(&mut text).map_err(failed)?;
        let identity = std::str::from_utf8(&text).ok().and_then(StoreIdentity::decode);
        match identity {
            Some(identity) => Ok(Some(identity)),
            None => Err(StoreOffline::IdentityDamaged { root: self.root_text() }.into()),
        }
    }

    fn root_text(&self) -> String {
        name::escape(self.root_path().as_os_str().as_bytes())
    }

    pub(crate) fn identity_missing(&self) -> StoreOffline {
        StoreOffline::IdentityMissing { root: self.root_text() }
    }

    fn unreachable(&self, error: &(dyn std::error::Error + 'static)) -> StoreOffline {
        let mut reason = error.to_string();
        if let Some(source) = error.source() {
            reason = format!("{reason}: {source}");
        }
        let root = self.root_text();
        let errno = match error.downcast_ref::<StoreError>() {
            Some(error) => error.errno().map(Errno::from_raw_os_error),
            None => error.downcast_ref::<io::Error>().and_then(Errno::from_io_error),
        };
        match errno {
            Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => {
                StoreOffline::Short { root, reason }
            }
            Some(Errno::ACCESS | Errno::PERM) => StoreOffline::Denied { root, reason },
            _ => StoreOffline::Unreachable { root, reason },
        }
    }
}

fn private_mode() -> Mode {
    Mode::RUSR | Mode::WUSR
}

/// Writes a new identity under a name of its own, then renames it to the final name, in which only
/// one process succeeds.
fn make_identity(root: BorrowedFd<'_>) -> io::Result<()> {
    match mkdirat(root, STORE_PRIVATE_NAME, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let private = open_component(root, STORE_PRIVATE_NAME, flags)?;
    let mut id = [0; 16];
    aws_lc_rs::rand::fill(&mut id).map_err(|_| io::Error::other("no random bytes"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let identity = StoreIdentity { id, created_seconds: now.map_or(0, |age| age.as_secs()) };
    let draft = [DRAFT_PREFIX, identity.id_hex().as_bytes()].concat();
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let file = create_component(private.as_fd(), &draft, flags, private_mode())?;
    let mut file = std::fs::File::from(file);
    let placed = file
        .write_all(identity.encode().as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| place_identity(private.as_fd(), &draft));
    match unlinkat(&private, draft, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => return placed.and(Err(errno.into())),
    }
    placed?;
    fsync(&private)?;
    Ok(sync_names(root, || None)?)
}

/// Names the draft, by link or by rename. The second of two concurrent callers changes nothing.
fn place_identity(private: BorrowedFd<'_>, draft: &[u8]) -> io::Result<()> {
    let linked = linkat(private, draft, private, IDENTITY_NAME, AtFlags::empty());
    let placed = match linked {
        Ok(()) | Err(Errno::EXIST) => linked,
        // No hard links here (some FUSE file systems, SMB).
        Err(_) => renameat_with(private, draft, private, IDENTITY_NAME, RenameFlags::NOREPLACE),
    };
    match placed {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
