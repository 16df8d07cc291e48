//! The stores that a data set can go to, behind one set of operations.

use std::ops::ControlFlow;

use penstock_proto::attributes::DeviceNumber;
use penstock_proto::id::{TransferId, WriterId};
use penstock_proto::name;
use penstock_proto::units::FileTime;
use penstock_sys::{Account, Acting, act_as_daemon};
use rustix::io::Errno;

use crate::dir::Dir;
use crate::error::{StoreError, StoreOffline};
use crate::item::{check_item_name, check_item_path};
use crate::meta::{DirEntry, Kind, Meta};
use crate::posix::file_system::durability_method::DurabilityMethod;
use crate::posix::identity::StoreIdentity;
use crate::posix::read::read_back::{ReadBackFile, open_read_back};
use crate::posix::read::xattrs;
use crate::posix::remove::seen::{self, Removal};
use crate::posix::store::{Gate, PosixStore, Space};
use crate::posix::write::attributes::{Attributes, NotSet};
use crate::posix::write::create::LeftOver;
use crate::posix::write::file::WriteFile;
use crate::posix::write::{attributes, nodes};
use crate::read_file::{ListBuffer, ReadFile};

/// A store that is written. Clones are the same store; all methods block, and may be called from
/// many threads at once.
#[derive(Clone, Debug)]
pub enum Target {
    /// A directory tree.
    Posix(PosixStore),
    /// `null:`, which accepts everything and keeps nothing.
    Null,
}

/// The identity of `null:`.
const NULL_IDENTITY: StoreIdentity = StoreIdentity { id: [0; 16], created_seconds: 0 };

impl Target {
    /// See [`PosixStore::acting_as`]; a store without files has no rights to judge.
    ///
    /// # Errors
    /// `Io`.
    pub fn acting_as(&self, account: &Account) -> Result<Self, StoreError> {
        match self {
            Self::Posix(store) => store.acting_as(account).map(Self::Posix),
            Self::Null => Ok(Self::Null),
        }
    }

    /// See [`PosixStore::account`].
    pub fn account(&self) -> Option<&Account> {
        match self {
            Self::Posix(store) => store.account(),
            Self::Null => None,
        }
    }

    /// See [`PosixStore::act`].
    ///
    /// # Errors
    /// `Io`.
    pub fn act(&self) -> Result<Acting, StoreError> {
        match self {
            Self::Posix(store) => store.act(),
            Self::Null => Ok(act_as_daemon()),
        }
    }

    /// See [`PosixStore::for_data_set`].
    pub fn for_data_set(&self, root: &[u8], sets_modes: bool, replaces_special: bool) -> Self {
        match self {
            Self::Posix(store) => {
                Self::Posix(store.for_data_set(root, sets_modes, replaces_special))
            }
            Self::Null => Self::Null,
        }
    }

    /// See [`PosixStore::guarded`].
    pub fn guarded(&self, gate: Gate) -> Self {
        match self {
            Self::Posix(store) => Self::Posix(store.guarded(gate)),
            Self::Null => Self::Null,
        }
    }

    /// See [`PosixStore::granted`].
    pub fn granted(&self, grant: Gate) -> Self {
        match self {
            Self::Posix(store) => Self::Posix(store.granted(grant)),
            Self::Null => Self::Null,
        }
    }

    /// See [`PosixStore::check_gate`].
    ///
    /// # Errors
    /// `Offline`.
    pub fn check_gate(&self) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => store.check_gate(),
            Self::Null => Ok(()),
        }
    }

    /// See [`PosixStore::unlock_root`].
    pub fn unlock_root(&self) -> bool {
        match self {
            Self::Posix(store) => store.unlock_root(),
            Self::Null => false,
        }
    }

    /// See [`PosixStore::make_dirs`].
    ///
    /// # Errors
    /// `BadPath`; `NotDirectory`; `ReadOnly`; `Io`.
    pub fn make_dirs(&self, path: &[u8]) -> Result<Dir, StoreError> {
        match self {
            Self::Posix(store) => store.make_dirs(path),
            Self::Null => check_item_path(path).map(|()| Dir::imagined(path)),
        }
    }

    /// See [`PosixStore::make_directory`].
    ///
    /// # Errors
    /// `BadPath`; `NotDirectory`; `Exists`; `ReadOnly`; `Io`.
    pub fn make_directory(&self, path: &[u8]) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => store.make_directory(path),
            Self::Null => check_item_path(path),
        }
    }

    /// Opens a directory that is there; see [`PosixStore::open_dir`].
    ///
    /// # Errors
    /// `BadPath`; `NotDirectory`; `Io`.
    pub fn open_dir(&self, path: &[u8]) -> Result<Dir, StoreError> {
        match self {
            Self::Posix(store) => store.open_dir(path),
            Self::Null => self.make_dirs(path),
        }
    }

    /// Returns the attributes of an entry; `None` if there is none. The empty name is `dir` itself.
    ///
    /// # Errors
    /// `BadPath`; `Io`.
    pub fn meta(&self, dir: &Dir, name: &[u8]) -> Result<Option<Meta>, StoreError> {
        match self {
            Self::Posix(store) => store.stat_if_exists(dir, name),
            Self::Null => Ok(None),
        }
    }

    /// Opens a file of the target for reading, under its temporary or its final name: for
    /// inspection after a crash, and for `--readback`.
    ///
    /// # Errors
    /// `BadPath`; `WrongKind`; `Io`.
    pub fn open_read(&self, dir: &Dir, name: &[u8]) -> Result<ReadFile, StoreError> {
        match self {
            Self::Posix(store) => store.open_read(dir, name),
            Self::Null => Err(dir.error("open", name, Errno::NOENT)),
        }
    }

    /// Opens the file `name` in `dir` to read back synced data. Links are not followed.
    ///
    /// # Errors
    /// `BadPath`; `WrongKind`; `Io`.
    pub fn open_read_back(&self, dir: &Dir, name: &[u8]) -> Result<ReadBackFile, StoreError> {
        match self {
            Self::Posix(_) => open_read_back(dir, name),
            Self::Null => Err(dir.error("open", name, Errno::NOENT)),
        }
    }

    /// Returns the target of the link `name`; see [`PosixStore::read_link`].
    ///
    /// # Errors
    /// `BadPath`; `Io`.
    pub fn read_link(&self, dir: &Dir, name: &[u8]) -> Result<Vec<u8>, StoreError> {
        match self {
            Self::Posix(store) => store.read_link(dir, name),
            Self::Null => Err(dir.error("read link", name, Errno::NOENT)),
        }
    }

    /// See [`PosixStore::create_temporary`].
    ///
    /// # Errors
    /// `BadPath`; `ReadOnly`; `WrongKind`; `Io`.
    pub fn create_temporary(
        &self,
        dir: &Dir,
        name: &[u8],
        left_over: LeftOver,
    ) -> Result<WriteFile, StoreError> {
        match self {
            Self::Posix(store) => store.create_temporary(dir, name, left_over),
            Self::Null => null_file(dir, name),
        }
    }

    /// See [`PosixStore::create_whole`].
    ///
    /// # Errors
    /// `BadPath`; `ReadOnly`; `WrongKind`; `Io`.
    pub fn create_whole(
        &self,
        dir: &Dir,
        name: &[u8],
        mode: Option<u32>,
        gid: Option<u32>,
    ) -> Result<WriteFile, StoreError> {
        match self {
            Self::Posix(store) => store.create_whole(dir, name, mode, gid),
            Self::Null => null_file(dir, name),
        }
    }

    /// See [`PosixStore::open_temporary`].
    ///
    /// # Errors
    /// `BadPath`; `ReadOnly`; `WrongKind`; `Io`, with `ENOENT` if it is finished or removed.
    pub fn open_temporary(&self, dir: &Dir, name: &[u8]) -> Result<WriteFile, StoreError> {
        match self {
            Self::Posix(store) => store.open_temporary(dir, name),
            Self::Null => null_file(dir, name),
        }
    }

    /// See [`PosixStore::open_written`].
    ///
    /// # Errors
    /// As [`Target::open_temporary`].
    pub fn open_written(&self, dir: &Dir, name: &[u8]) -> Result<WriteFile, StoreError> {
        match self {
            Self::Posix(store) => store.open_written(dir, name),
            Self::Null => null_file(dir, name),
        }
    }

    /// Makes the symbolic link `name` in `dir`, with any `target`; a left-over of that name is
    /// replaced. Then set its attributes and publish it.
    ///
    /// # Errors
    /// `BadPath`; `ReadOnly`; `Io`.
    pub fn make_symlink(&self, dir: &Dir, name: &[u8], target: &[u8]) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => nodes::make_symlink(store, dir, name, target),
            Self::Null => check_item_name(dir, name),
        }
    }

    /// Makes the pipe or device `name` in `dir`, mode 0600; a left-over of that name is replaced.
    /// Then set its attributes and publish it.
    ///
    /// # Errors
    /// `BadPath`, also for a kind that is neither; `ReadOnly`; `Io`, with `EPERM` for devices
    /// without the right to make them (mknod(2), `CAP_MKNOD`).
    pub fn make_node(
        &self,
        dir: &Dir,
        name: &[u8],
        kind: Kind,
        number: DeviceNumber,
    ) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => nodes::make_node(store, dir, name, kind, number),
            Self::Null => check_item_name(dir, name),
        }
    }

    /// Makes `name` in `dir` another name of `primary` in `of`, which is not followed if it is a
    /// link; a left-over is replaced. Publish it afterwards.
    ///
    /// A network file system may do it and lose the reply. To a repeated request the server answers
    /// `EEXIST`, or `ENOENT` if another process has moved the primary since (RFC 1813, 3.3.15). So
    /// the existing entry is checked before that counts as an answer.
    ///
    /// # Errors
    /// `BadPath`; `ReadOnly`; `Io`: `ENOENT` if there is no primary, `EMLINK` if it has as many
    /// names as its file system allows, `EXDEV` if it lies on another.
    pub fn make_hard_link(
        &self,
        of: &Dir,
        primary: &[u8],
        dir: &Dir,
        name: &[u8],
    ) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => nodes::make_hard_link(store, of, primary, dir, name),
            Self::Null => check_item_name(dir, name),
        }
    }

    /// Returns whether `name` in `dir` has exactly the wanted extended attributes of the wanted
    /// classes. Makes one call for an entry that has none.
    ///
    /// # Errors
    /// `BadPath`; `Io`.
    pub fn has_xattrs(
        &self,
        dir: &Dir,
        name: &[u8],
        wanted: &Attributes<'_>,
    ) -> Result<bool, StoreError> {
        match self {
            Self::Posix(_) => xattrs::has_xattrs(dir, name, wanted.xattrs, wanted.classes),
            Self::Null => Ok(true),
        }
    }

    /// Sets the attributes of the link, pipe or device `name` in `dir`, which was just made there
    /// under a temporary name. Publish it afterwards.
    ///
    /// # Errors
    /// `BadPath`; `ReadOnly`; `WrongKind` if a file or directory is there; `Io`.
    pub fn set_node_attributes(
        &self,
        dir: &Dir,
        name: &[u8],
        wanted: &Attributes<'_>,
    ) -> Result<NotSet, StoreError> {
        match self {
            Self::Posix(store) => attributes::set_node_attributes(store, dir, name, wanted),
            Self::Null => check_item_name(dir, name).map(|()| NotSet::default()),
        }
    }

    /// See [`PosixStore::publish`].
    ///
    /// # Errors
    /// `Exists`; `WrongKind`; `BadPath`; `ReadOnly`; `Io`.
    pub fn publish(
        &self,
        dir: &Dir,
        temporary: &[u8],
        name: &[u8],
        replace: bool,
    ) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => store.publish(dir, temporary, name, replace),
            Self::Null => check_item_name(dir, name),
        }
    }

    /// See [`PosixStore::remove`].
    ///
    /// # Errors
    /// `BadPath`; `ReadOnly`; `WrongKind`; `Io`.
    pub fn remove(&self, dir: &Dir, name: &[u8]) -> Result<bool, StoreError> {
        match self {
            Self::Posix(store) => store.remove(dir, name),
            Self::Null => check_item_name(dir, name).map(|()| false),
        }
    }

    /// Sets the attributes of the directory at `path`, after everything within it is done.
    ///
    /// # Errors
    /// `BadPath`; `NotDirectory`; `ReadOnly`; `Io`.
    pub fn set_dir_attributes(
        &self,
        path: &[u8],
        wanted: &Attributes<'_>,
    ) -> Result<NotSet, StoreError> {
        match self {
            Self::Posix(store) => attributes::set_dir_attributes(store, path, wanted),
            Self::Null => check_item_path(path).map(|()| NotSet::default()),
        }
    }

    /// See [`PosixStore::sync`].
    ///
    /// # Errors
    /// `Io`: everything since the last success is missing (A4).
    pub fn sync(&self) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => store.sync(),
            Self::Null => Ok(()),
        }
    }

    /// See [`PosixStore::sync_since`].
    ///
    /// # Errors
    /// `Io`: everything since the last success is missing (A4).
    pub fn sync_since(&self, since: u32) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => store.sync_since(since),
            Self::Null => Ok(()),
        }
    }

    /// See [`PosixStore::failed_syncs`].
    pub fn failed_syncs(&self) -> u32 {
        match self {
            Self::Posix(store) => store.failed_syncs(),
            Self::Null => 0,
        }
    }

    /// See [`PosixStore::note_failed_sync`].
    pub fn note_failed_sync(&self) {
        if let Self::Posix(store) = self {
            store.note_failed_sync();
        }
    }

    /// See [`PosixStore::sync_dir`].
    ///
    /// # Errors
    /// `Io`.
    pub fn sync_dir(&self, dir: &Dir) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => store.sync_dir(dir),
            Self::Null => Ok(()),
        }
    }

    /// Returns the methods that make data durable: that of the root, then those of mounts below it
    /// met so far.
    pub fn durability(&self) -> Vec<DurabilityMethod> {
        match self {
            Self::Posix(store) => store.durability(),
            Self::Null => vec![DurabilityMethod::Nothing],
        }
    }

    /// See [`PosixStore::writes_directly`].
    pub fn writes_directly(&self) -> bool {
        match self {
            Self::Posix(store) => store.writes_directly(),
            Self::Null => false,
        }
    }

    /// See [`PosixStore::reads_directly`].
    pub fn reads_directly(&self) -> bool {
        match self {
            Self::Posix(store) => store.reads_directly(),
            Self::Null => false,
        }
    }

    /// See [`PosixStore::space`]; `null:` has all the room there is.
    ///
    /// # Errors
    /// `Io`.
    pub fn space(&self) -> Result<Space, StoreError> {
        match self {
            Self::Posix(store) => store.space(),
            Self::Null => Ok(Space {
                free_bytes: u64::MAX,
                total_bytes: u64::MAX,
                free_inodes: None,
                read_only: false,
            }),
        }
    }

    /// See [`PosixStore::mount_identity`]; 0 for `null:`.
    ///
    /// # Errors
    /// `Io`.
    pub fn mount_identity(&self) -> Result<u64, StoreError> {
        match self {
            Self::Posix(store) => store.mount_identity(),
            Self::Null => Ok(0),
        }
    }

    /// See [`PosixStore::open_or_init_identity`].
    ///
    /// # Errors
    /// `Offline`; `ReadOnly`; `Io`.
    pub fn open_or_init_identity(&self) -> Result<StoreIdentity, StoreError> {
        match self {
            Self::Posix(store) => store.open_or_init_identity(),
            Self::Null => Ok(NULL_IDENTITY),
        }
    }

    /// See [`PosixStore::is_ephemeral`].
    pub fn is_ephemeral(&self) -> bool {
        matches!(self, Self::Posix(store) if store.is_ephemeral())
    }

    /// See [`PosixStore::identity`].
    ///
    /// # Errors
    /// `StoreOffline`.
    pub fn identity(&self) -> Result<StoreIdentity, StoreOffline> {
        match self {
            Self::Posix(store) => store.identity(),
            Self::Null => Ok(NULL_IDENTITY),
        }
    }

    /// See [`PosixStore::check_identity`].
    ///
    /// # Errors
    /// The way in which the store is offline.
    pub fn check_identity(&self, expected: &StoreIdentity) -> Result<(), StoreOffline> {
        match self {
            Self::Posix(store) => store.check_identity(expected),
            Self::Null => Ok(()),
        }
    }

    /// See [`PosixStore::reserve_marker`].
    ///
    /// # Errors
    /// `Offline`; `ReadOnly`; `Io`.
    pub fn reserve_marker(&self, of: (TransferId, WriterId)) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => store.reserve_marker(of),
            Self::Null => Ok(()),
        }
    }

    /// See [`PosixStore::write_marker`].
    ///
    /// # Errors
    /// `Offline`; `ReadOnly`; `Io`.
    pub fn write_marker(&self, of: (TransferId, WriterId), counter: u64) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => store.write_marker(of, counter),
            Self::Null => Ok(()),
        }
    }

    /// See [`PosixStore::read_marker`]. `null:` never lost anything: `u64::MAX`.
    ///
    /// # Errors
    /// `Io`.
    pub fn read_marker(&self, of: (TransferId, WriterId)) -> Result<Option<u64>, StoreError> {
        match self {
            Self::Posix(store) => store.read_marker(of),
            Self::Null => Ok(Some(u64::MAX)),
        }
    }

    /// See [`PosixStore::goes_without_marker`].
    pub fn goes_without_marker(&self) -> bool {
        match self {
            Self::Posix(store) => store.goes_without_marker(),
            Self::Null => false,
        }
    }

    /// See [`PosixStore::remove_marker`].
    ///
    /// # Errors
    /// `ReadOnly`; `Io`.
    pub fn remove_marker(&self, of: (TransferId, WriterId)) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => store.remove_marker(of),
            Self::Null => Ok(()),
        }
    }

    /// Removes `name` in `dir` if it is still the entry `seen`; a directory only if it is empty.
    /// Between the check and the removal is a moment, as short as two calls.
    ///
    /// # Errors
    /// `BadPath`, also for our own temporary names; `ReadOnly`; `Io`.
    pub fn remove_seen(&self, dir: &Dir, name: &[u8], seen: &Meta) -> Result<Removal, StoreError> {
        match self {
            Self::Posix(store) => seen::remove_seen(store, dir, name, seen),
            Self::Null => Ok(Removal::Vanished),
        }
    }

    /// Moves an entry, unless it is a directory, to `to`, with the checks of
    /// [`Target::remove_seen`]. An entry that has that name there is replaced.
    ///
    /// # Errors
    /// Those of [`Target::remove_seen`]; `Io` with `EXDEV` if `to` is on another file system.
    pub fn move_seen(
        &self,
        dir: &Dir,
        name: &[u8],
        seen: &Meta,
        to: (&Dir, &[u8]),
    ) -> Result<Removal, StoreError> {
        match self {
            Self::Posix(store) => seen::move_seen(store, dir, name, seen, to),
            Self::Null => Ok(Removal::Vanished),
        }
    }

    /// Links the entry at `name`, unless it is a directory, to the further name `to`, so that it
    /// stays when `name` is replaced. An entry at `to` is replaced, unless it was made there at
    /// `since` or later. In that case the entry at `to` is kept, and the one at `name` is not.
    /// Where a file system has no hard links the entry is moved, and for a moment no entry has its
    /// name.
    ///
    /// # Errors
    /// `BadPath`; `ReadOnly`; `Io`.
    pub fn keep_aside(
        &self,
        dir: &Dir,
        name: &[u8],
        to: (&Dir, &[u8]),
        since: FileTime,
    ) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => seen::keep_aside(store, dir, name, to, since),
            Self::Null => Ok(()),
        }
    }

    /// Lists a directory, see [`crate::Source::list`]; `null:` holds nothing.
    ///
    /// # Errors
    /// `Io`: the listing is not complete, and nothing may be deleted on its word (promise (e)).
    pub fn list(
        &self,
        dir: &Dir,
        buffer: &mut ListBuffer,
        visit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        match self {
            Self::Posix(store) => store.list(dir, buffer, visit),
            Self::Null => Ok(()),
        }
    }
}

fn null_file(dir: &Dir, item: &[u8]) -> Result<WriteFile, StoreError> {
    if !name::is_component(item) {
        return Err(StoreError::bad_path(&name::join(dir.path(), item)));
    }
    Ok(WriteFile::null(dir.clone(), item))
}
