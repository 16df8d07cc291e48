//! Owner, mode, extended attributes, ACLs and times: sets them in an order in which none undoes
//! another, and reads those of an entry.
//!
//! The order is B2's: data, chown (which removes setuid bits and capabilities), chmod, extended
//! attributes and ACLs (whose mask is part of the mode), times. No attribute is set that a new file
//! has anyway. A plain tree of the process's own user so costs no call more than its times.
//!
//! Attributes that the system rejects are returned as [`NotSet`] rather than as an error: the
//! caller decides whether that fails an item. A class that a file system or the process's rights
//! reject as a whole is tried once per mount (`Refusals`).

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

use penstock_proto::attributes::{
    ACL_ACCESS, AttributeClass, ClassSet, Owner, Xattrs, acl_group_bits, class_of,
};
use penstock_proto::units::FileTime;
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags,
    chmod, chownat, fremovexattr, fsetxattr, fstat, futimens, listxattr, removexattr, setxattr,
    utimensat,
};
use rustix::io::Errno;

use crate::dir::Dir;
use crate::error::StoreError;
use crate::item::check_item_name;
use crate::meta::Kind;
use crate::posix::file_system::mount::Mount;
use crate::posix::file_system::{mode, stamps};
use crate::posix::read::xattrs::whole;
use crate::posix::sandbox::{is_path_only, open_component};
use crate::posix::stat::wrong_kind;
use crate::posix::store::PosixStore;

const SETUID: u32 = 0o4000;
const SETGID: u32 = 0o2000;

/// The attributes that an entry receives.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes<'a> {
    /// Permission bits, `0o7777` at most; `None` leaves those that the system sets.
    pub mode: Option<u32>,
    /// Time of last modification; `None` leaves it.
    pub mtime: Option<FileTime>,
    /// User, if it is to be set.
    pub uid: Option<u32>,
    /// Group, if it is to be set.
    pub gid: Option<u32>,
    /// Extended attributes, ACLs among them.
    pub xattrs: Xattrs<'a>,
    /// The classes of extended attributes that are wanted; others are neither set nor removed.
    pub classes: ClassSet,
}

impl Attributes<'_> {
    /// Returns attributes with mode and time alone.
    pub fn plain(mode: u32, mtime: FileTime) -> Self {
        Self { mode: Some(mode & 0o7777), mtime: Some(mtime), ..Self::default() }
    }

    pub(crate) fn wants(&self, class: AttributeClass) -> bool {
        self.classes.contains(class)
    }
}

/// Classes that could not be set, with errno(3); empty if all is as it was wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotSet(Vec<(AttributeClass, i32)>);

impl NotSet {
    /// Returns each class once, with its first error.
    pub fn iter(&self) -> impl Iterator<Item = (AttributeClass, i32)> + '_ {
        self.0.iter().copied()
    }

    fn add(&mut self, class: AttributeClass, errno: Errno) {
        if self.0.iter().all(|(known, _)| *known != class) {
            self.0.push((class, errno.raw_os_error()));
        }
    }
}

/// An entry whose attributes are set.
pub(crate) struct Node<'a> {
    /// Open for reading or writing, or with `O_PATH` if `path_only`.
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) path_only: bool,
    pub(crate) mount: Option<&'a Mount>,
    /// User and group that it has.
    pub(crate) owner: Owner,
    /// The mode that it has, if that is known.
    pub(crate) mode: Option<u32>,
    /// Set if the entry may have inherited an ACL of its directory.
    pub(crate) inherits: bool,
    /// Set if the entry existed before, perhaps with attributes that the source's does not have.
    pub(crate) existed: bool,
    pub(crate) kind: NodeKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeKind {
    File,
    Directory,
    Symlink,
    Other,
}

impl Node<'_> {
    /// Sets all attributes except the time ([`Node::set_time`]). An error is one of the store;
    /// rejected attributes are in the result.
    pub(crate) fn set(&mut self, wanted: &Attributes<'_>) -> Result<NotSet, Errno> {
        let mut not_set = NotSet::default();
        self.set_owner(wanted, &mut not_set)?;
        if self.kind != NodeKind::Symlink {
            if !self.existed && self.inherits && wanted.wants(AttributeClass::Acls) {
                // Before the mode, whose group bits would admit all users that this ACL names.
                let _ = self.remove_xattr(ACL_ACCESS);
            }
            self.set_mode(wanted, &mut not_set)?;
        }
        if self.existed {
            self.remove_others(wanted, &mut not_set);
        }
        for (name, value) in wanted.xattrs {
            let Some(class) = class_of(name).filter(|class| wanted.wants(*class)) else { continue };
            self.set_class(class, name, value, &mut not_set)?;
        }
        Ok(not_set)
    }

    fn refused(&self, class: AttributeClass) -> Option<Errno> {
        self.mount.and_then(|mount| mount.refusals().of(class))
    }

    fn set_owner(&mut self, wanted: &Attributes<'_>, not_set: &mut NotSet) -> Result<(), Errno> {
        let uid = wanted.uid.filter(|uid| *uid != self.owner.uid);
        let gid = wanted.gid.filter(|gid| *gid != self.owner.gid);
        if uid.is_none() && gid.is_none() {
            return Ok(());
        }
        let class = AttributeClass::Owner;
        if let (Some(uid), None) = (uid, self.refused(class)) {
            match self.chown(Some(uid), gid) {
                Ok(()) => {
                    self.owner = Owner { uid, gid: gid.unwrap_or(self.owner.gid) };
                    self.forget_special_mode();
                    return Ok(());
                }
                // An entry that existed before may be immutable (chattr(1)), which concerns that
                // entry only.
                Err(errno) if self.existed && is_refusal(errno) => not_set.add(class, errno),
                Err(errno) if is_refusal(errno) => {
                    self.note(class, errno, not_set);
                }
                Err(Errno::INVAL) => not_set.add(class, Errno::INVAL),
                Err(errno) => return Err(errno),
            }
        } else if uid.is_some() {
            not_set.add(class, self.refused(class).unwrap_or(Errno::PERM));
        }
        let Some(gid) = gid else { return Ok(()) };
        if self.mount.is_some_and(|mount| mount.refusals().refuses_group(gid)) {
            not_set.add(class, Errno::PERM);
            return Ok(());
        }
        match self.chown(None, Some(gid)) {
            Ok(()) => {
                self.owner.gid = gid;
                self.forget_special_mode();
            }
            Err(errno) if self.existed && is_refusal(errno) => not_set.add(class, errno),
            Err(errno) if is_refusal(errno) || errno == Errno::INVAL => {
                if let Some(mount) = self.mount {
                    mount.refusals().note_group(gid);
                }
                not_set.add(class, errno);
            }
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    /// Forgets these bits after a chown(2): a file may have lost them, a directory has not.
    fn forget_special_mode(&mut self) {
        self.mode = self.mode.filter(|mode| mode & (SETUID | SETGID) == 0);
    }

    fn chown(&self, uid: Option<u32>, gid: Option<u32>) -> Result<(), Errno> {
        let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
        chownat(self.fd, c"", uid, gid, AtFlags::EMPTY_PATH)
    }

    /// Sets the mode. A program that would run with its owner's rights never runs with those of
    /// another one: where the owner could not be set, the setuid and setgid bits are not set (as in
    /// cp(1)).
    fn set_mode(&mut self, wanted: &Attributes<'_>, not_set: &mut NotSet) -> Result<(), Errno> {
        let Some(mut mode) = wanted.mode else {
            let given = mode::of_new_file();
            return if self.mode.is_some() || self.kind == NodeKind::Directory {
                Ok(())
            } else {
                self.change_mode(given, not_set)
            };
        };
        if self.kind == NodeKind::File {
            let before = mode;
            if wanted.uid.is_some_and(|uid| uid != self.owner.uid) {
                mode &= !SETUID;
            }
            if wanted.gid.is_some_and(|gid| gid != self.owner.gid) {
                mode &= !SETGID;
            }
            if mode != before {
                not_set.add(AttributeClass::SpecialMode, Errno::PERM);
            }
        }
        // With an ACL the group bits are its mask. Until it is set, and where it cannot be, the
        // group gets the rights that the ACL grants to it.
        let acl = wanted.xattrs.get(ACL_ACCESS);
        if let Some(group) =
            acl.filter(|_| wanted.wants(AttributeClass::Acls)).and_then(acl_group_bits)
        {
            mode = mode & !0o070 | group << 3;
        }
        if self.mode == Some(mode) { Ok(()) } else { self.change_mode(mode, not_set) }
    }

    /// Sets the mode. Entries of other users keep their mode, and some file systems have no modes
    /// (FAT; D9).
    fn change_mode(&self, mode: u32, not_set: &mut NotSet) -> Result<(), Errno> {
        match self.chmod(mode) {
            Err(errno) if is_refusal(errno) => not_set.add(AttributeClass::Mode, errno),
            outcome => return outcome,
        }
        Ok(())
    }

    /// Sets the time of last modification by `set`, after all other attributes. `read` returns the
    /// time that it has then. It is called only for times that file systems may not be able to
    /// keep.
    pub(crate) fn set_time(
        &self,
        wanted: FileTime,
        not_set: &mut NotSet,
        set: impl FnOnce(&Timestamps) -> Result<(), Errno>,
        read: impl FnOnce() -> Result<Stat, Errno>,
    ) -> Result<(), Errno> {
        let class = match self.kind {
            NodeKind::Directory => AttributeClass::DirectoryTimes,
            _ => AttributeClass::Times,
        };
        if let Some(errno) = self.refused(class) {
            not_set.add(class, errno);
            return Ok(());
        }
        match set(&modified_at(wanted)) {
            Ok(()) if stamps::may_not_fit(wanted) => {
                let told = read()?;
                let nanoseconds = u32::try_from(told.st_mtime_nsec).unwrap_or(0);
                let found = FileTime { seconds: told.st_mtime, nanoseconds };
                if !stamps::is_kept(wanted, found) {
                    not_set.add(class, Errno::RANGE);
                }
            }
            Ok(()) => {}
            // A file that this process made is its own: the file system sets no times at all.
            Err(errno) if is_refusal(errno) && !self.existed && self.kind == NodeKind::File => {
                self.note(class, errno, not_set);
            }
            // Some servers do not take a time that they cannot keep.
            Err(errno) if is_refusal(errno) || errno == Errno::INVAL => not_set.add(class, errno),
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    fn chmod(&self, mode: u32) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(mode & 0o7777);
        if self.path_only {
            return chmod(self.by_proc().as_slice(), mode);
        }
        rustix::fs::fchmod(self.fd, mode)
    }

    fn by_proc(&self) -> Vec<u8> {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd()).into_bytes()
    }

    fn set_class(
        &self,
        class: AttributeClass,
        name: &[u8],
        value: &[u8],
        not_set: &mut NotSet,
    ) -> Result<(), Errno> {
        if let Some(errno) = self.refused(class) {
            not_set.add(class, errno);
            return Ok(());
        }
        let flags = XattrFlags::empty();
        let outcome = if self.path_only {
            setxattr(self.by_proc().as_slice(), name, value, flags)
        } else {
            fsetxattr(self.fd, name, value, flags)
        };
        match outcome {
            Ok(()) => return Ok(()),
            // A pipe or a link takes no user attributes anywhere, and an ACL of another version
            // none at all: that proves nothing about the mount.
            Err(errno @ Errno::OPNOTSUPP)
                if !self.path_only
                    && (class != AttributeClass::Acls || acl_group_bits(value).is_some()) =>
            {
                self.note(class, errno, not_set);
            }
            Err(errno @ Errno::PERM) if class == AttributeClass::TrustedXattrs && !self.existed => {
                self.note(class, errno, not_set);
            }
            // The inode has no room for the attribute, or the file system rejects the value.
            Err(
                errno @ (Errno::OPNOTSUPP
                | Errno::PERM
                | Errno::ACCESS
                | Errno::INVAL
                | Errno::RANGE
                | Errno::TOOBIG
                | Errno::NOSPC
                | Errno::DQUOT),
            ) => not_set.add(class, errno),
            Err(errno) => return Err(errno),
        }
        Ok(())
    }

    fn note(&self, class: AttributeClass, errno: Errno, not_set: &mut NotSet) {
        if let Some(mount) = self.mount {
            mount.refusals().note(class, errno);
        }
        not_set.add(class, errno);
    }

    fn remove_xattr(&self, name: &[u8]) -> Result<(), Errno> {
        if self.path_only {
            removexattr(self.by_proc().as_slice(), name)
        } else {
            fremovexattr(self.fd, name)
        }
    }

    /// Removes attributes of an earlier entry that the source's entry does not have.
    fn remove_others(&self, wanted: &Attributes<'_>, not_set: &mut NotSet) {
        if wanted.classes.is_empty() {
            return;
        }
        let path = self.by_proc();
        let Ok(names) = whole(|buffer| listxattr(path.as_slice(), buffer)) else { return };
        for name in names.split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
            let Some(class) = class_of(name).filter(|class| wanted.wants(*class)) else { continue };
            if wanted.xattrs.get(name).is_none()
                && let Err(errno) = self.remove_xattr(name)
                && errno != Errno::NODATA
            {
                not_set.add(class, errno);
            }
        }
    }
}

/// Implements [`Target::set_node_attributes`] for a directory tree.
///
/// [`Target::set_node_attributes`]: crate::Target::set_node_attributes
pub(crate) fn set_node_attributes(
    store: &PosixStore,
    dir: &Dir,
    name: &[u8],
    wanted: &Attributes<'_>,
) -> Result<NotSet, StoreError> {
    check_item_name(dir, name)?;
    store.check_item_writable("set attributes", dir, name)?;
    let failed = |errno| dir.error("set attributes", name, errno);
    let parent = dir.fd()?;
    let fd = open_component(parent.as_fd(), name, OFlags::PATH).map_err(failed)?;
    let told = fstat(&fd).map_err(failed)?;
    let kind = match rustix::fs::FileType::from_raw_mode(told.st_mode) {
        rustix::fs::FileType::Symlink => NodeKind::Symlink,
        // Another process has put a different entry there: that entry does not get the attributes
        // of a link.
        rustix::fs::FileType::RegularFile => return Err(wrong_kind(dir, name, Kind::File)),
        rustix::fs::FileType::Directory => return Err(wrong_kind(dir, name, Kind::Directory)),
        _ => NodeKind::Other,
    };
    let mut node = Node {
        fd: fd.as_fd(),
        path_only: true,
        mount: dir.mount(),
        owner: Owner { uid: told.st_uid, gid: told.st_gid },
        mode: Some(told.st_mode & 0o7777),
        inherits: !dir.inherits_nothing(),
        existed: false,
        kind,
    };
    let mut not_set = node.set(wanted).map_err(failed)?;
    if let Some(mtime) = wanted.mtime {
        let (at, flags) = (parent.as_fd(), AtFlags::SYMLINK_NOFOLLOW);
        let set = |times: &Timestamps| utimensat(at, name, times, flags);
        node.set_time(mtime, &mut not_set, set, || fstat(&fd)).map_err(failed)?;
    }
    Ok(not_set)
}

/// Sets the attributes of the directory at `path`, after everything within it is done. Blocks.
///
/// # Errors
/// `BadPath`; `NotDirectory`; `ReadOnly`; `Io`.
pub fn set_dir_attributes(
    store: &PosixStore,
    path: &[u8],
    wanted: &Attributes<'_>,
) -> Result<NotSet, StoreError> {
    store.check_writable("set attributes", path)?;
    let dir = store.open_dir_unlocked(path)?;
    let failed = |errno| dir.error("set attributes", b"", errno);
    let dir_fd = dir.fd()?;
    let fd = dir_fd.as_fd();
    let told = fstat(fd).map_err(failed)?;
    let path_only = is_path_only(fd);
    let mut node = Node {
        fd,
        path_only,
        mount: dir.mount(),
        owner: Owner { uid: told.st_uid, gid: told.st_gid },
        mode: Some(told.st_mode & 0o7777),
        inherits: true,
        existed: true,
        kind: NodeKind::Directory,
    };
    let mut not_set = node.set(wanted).map_err(failed)?;
    if let Some(mtime) = wanted.mtime {
        let set = |times: &Timestamps| match path_only {
            true => utimensat(CWD, node.by_proc().as_slice(), times, AtFlags::empty()),
            false => futimens(fd, times),
        };
        node.set_time(mtime, &mut not_set, set, || fstat(fd)).map_err(failed)?;
    }
    Ok(not_set)
}

/// Returns whether an error means that an attribute may not, or cannot, be set on this item.
fn is_refusal(errno: Errno) -> bool {
    [Errno::PERM, Errno::ACCESS, Errno::OPNOTSUPP, Errno::NOSYS].contains(&errno)
}

pub(crate) fn modified_at(mtime: FileTime) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanoseconds.into() },
    }
}
