//! The file that takes the place of an output when it is complete.
//!
//! A successor lies in the directory of the output, so that one rename(2) replaces the old file. It
//! has no name while it is written, where the file system takes such files (`O_TMPFILE`). Elsewhere
//! it has an [own name](penstock_proto::name::own) of the kind [`OwnKind::Output`], which no copy
//! takes for a user's file. Its writer holds a lock on it; a name that a killed command left is not
//! locked, and the next command for the same output removes it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_proto::name::{OWN_HASH_BYTES, OwnKind, RunTag, own_name};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, linkat, openat, renameat};
use rustix::io::Errno;

/// How many commands at a time may write the same output under names.
const NAMES_MAX: u32 = 64;
/// Bytes of one step when a file is written over.
const STEP_BYTES: usize = 1 << 20;

/// The file that takes the place of another, or of nothing.
#[derive(Debug)]
pub(crate) struct Successor {
    file: Arc<File>,
    directory: File,
    leaf: OsString,
    /// Its name until then, if it has one.
    temporary: Option<OsString>,
    old: Option<Old>,
}

/// The file that is replaced: open for writing, and its attributes when it was opened.
#[derive(Debug)]
pub(super) struct Old {
    pub(super) file: File,
    pub(super) meta: Box<Metadata>,
}

impl Drop for Successor {
    fn drop(&mut self) {
        if let Some(name) = &self.temporary {
            let _ = rustix::fs::unlinkat(&self.directory, name, AtFlags::empty());
        }
    }
}

impl Successor {
    /// Makes the successor of the file at `path`, with `mode` less the umask. `old` is that file,
    /// if it exists and is to be replaced with its mode and owner.
    ///
    /// # Errors
    /// The directory takes no new file; `old` comes back then.
    pub(super) fn of(
        path: &Path,
        old: Option<Old>,
        mode: u32,
    ) -> Result<Self, (io::Error, Option<Old>)> {
        match Self::make(path, mode) {
            Ok((directory, leaf, file, temporary)) => {
                Ok(Self { file: Arc::new(file), directory, leaf, temporary, old })
            }
            Err(error) => Err((error, old)),
        }
    }

    /// Makes a file that gets the name `path` in the end, with `mode` less the umask, in the place
    /// of whatever file, link or pipe is there then.
    ///
    /// # Errors
    /// The directory takes no new file.
    pub(crate) fn at(path: &Path, mode: u32) -> io::Result<Self> {
        Self::of(path, None, mode).map_err(|(error, _)| error)
    }

    fn make(path: &Path, mode: u32) -> io::Result<(File, OsString, File, Option<OsString>)> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = open_directory(parent.unwrap_or(Path::new(".")))?;
        let leaf = path.file_name().filter(|_| !ends_in_slash(path));
        let leaf = leaf.ok_or(io::ErrorKind::IsADirectory)?.to_owned();
        match rustix::fs::statat(&directory, &leaf, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) | Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let (file, temporary) = match openat(&directory, ".", flags, Mode::from_raw_mode(mode)) {
            Ok(file) => (File::from(file), None),
            // Kernels and file systems without it name the reason in different ways.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS | Errno::NOENT) => {
                let (file, name) = make_named(&directory, &leaf, mode)?;
                (file, Some(name))
            }
            Err(error) => return Err(error.into()),
        };
        Ok((directory, leaf, file, temporary))
    }

    /// The file to be written.
    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Device and inode of its directory, and its name there.
    pub(super) fn place(&self) -> io::Result<(u64, u64, OsString)> {
        let meta = self.directory.metadata()?;
        Ok((meta.dev(), meta.ino(), self.leaf.clone()))
    }

    /// Gets the name, with mode and owner of its predecessor as far as that is allowed, durably.
    ///
    /// # Errors
    /// It cannot be made durable or get its name. The old file is whole then, unless it could not
    /// be replaced by name, and writing over it failed beyond the first step.
    pub(crate) fn take_place(mut self) -> io::Result<()> {
        if let Some(Old { meta, .. }) = &self.old {
            let chown = std::os::unix::fs::fchown::<&File>;
            if chown(&self.file, Some(meta.uid()), Some(meta.gid())).is_err() {
                let _ = chown(&self.file, None, Some(meta.gid()));
            }
            // A bit that lets a program run as its owner is not for a file of another owner.
            self.file.set_permissions(Permissions::from_mode(meta.mode() & 0o777))?;
        }
        self.file.sync_all()?;
        if self.temporary.is_none() && self.old.is_none() && self.link(&self.leaf)? == Linked::Yes {
            return self.sync_directory();
        }
        let name = match self.temporary.clone() {
            Some(name) => name,
            None => self.get_name()?,
        };
        match (renameat(&self.directory, &name, &self.directory, &self.leaf), &self.old) {
            (Ok(()), _) => {
                self.temporary = None;
                self.sync_directory()
            }
            // A mount point, or a file of others in a sticky directory, cannot be replaced.
            (Err(Errno::BUSY | Errno::PERM | Errno::ACCESS | Errno::XDEV), Some(old)) => {
                write_over(&self.file, &old.file)
            }
            (Err(error), _) => Err(error.into()),
        }
    }

    /// Gives it an own name beside its place.
    fn get_name(&mut self) -> io::Result<OsString> {
        let _ = flock(&self.file, FlockOperation::NonBlockingLockExclusive);
        for number in 0..NAMES_MAX {
            let name = temporary_name(&self.leaf, number);
            let linked = match self.link(&name)? {
                Linked::Exists if remove_left_over(&self.directory, &name) => self.link(&name)?,
                linked => linked,
            };
            match linked {
                Linked::Yes => {
                    self.temporary = Some(name.clone());
                    return Ok(name);
                }
                Linked::Exists => {}
                Linked::Cannot => return self.copy_to_name(),
            }
        }
        Err(io::Error::new(io::ErrorKind::AlreadyExists, "all its temporary names are taken"))
    }

    /// Names the file, by whichever way there is: its descriptor alone, or `/proc`.
    fn link(&self, name: &OsStr) -> io::Result<Linked> {
        let linked = match linkat(&*self.file, "", &self.directory, name, AtFlags::EMPTY_PATH) {
            Err(Errno::NOENT | Errno::PERM | Errno::ACCESS | Errno::INVAL) => {
                let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
                let follow = AtFlags::SYMLINK_FOLLOW;
                linkat(rustix::fs::CWD, open, &self.directory, name, follow)
            }
            linked => linked,
        };
        match linked {
            Ok(()) => Ok(Linked::Yes),
            Err(Errno::EXIST) => Ok(Linked::Exists),
            // No /proc, or a file system that names no file without a name.
            Err(
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::PERM
                | Errno::ACCESS
                | Errno::XDEV
                | Errno::OPNOTSUPP
                | Errno::NOSYS
                | Errno::INVAL,
            ) => Ok(Linked::Cannot),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes all of it once more, to a file that has a name.
    fn copy_to_name(&mut self) -> io::Result<OsString> {
        let meta = self.file.metadata()?;
        let (file, name) = make_named(&self.directory, &self.leaf, meta.mode() & 0o777)?;
        self.temporary = Some(name.clone());
        copy_range(&self.file, &file, 0..meta.len())?;
        let _ = std::os::unix::fs::fchown(&file, Some(meta.uid()), Some(meta.gid()));
        file.set_permissions(Permissions::from_mode(meta.mode() & 0o777))?;
        file.sync_all()?;
        self.file = Arc::new(file);
        Ok(name)
    }

    /// Makes its name durable, where directories can be synced at all.
    fn sync_directory(&self) -> io::Result<()> {
        match rustix::fs::fsync(&self.directory) {
            // A directory that may not be read, or a file system that syncs no directories.
            Err(Errno::BADF | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
            synced => Ok(synced?),
        }
    }
}

/// Outcome of naming a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linked {
    Yes,
    Exists,
    /// Files without a name cannot be named here.
    Cannot,
}

/// A directory in which names are made; one that may not be read is enough.
fn open_directory(path: &Path) -> io::Result<File> {
    let open = |flags: OFlags| {
        let flags = (flags | OFlags::DIRECTORY).bits().cast_signed();
        File::options().read(true).custom_flags(flags).open(path)
    };
    match open(OFlags::empty()) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => open(OFlags::PATH),
        opened => opened,
    }
}

/// Makes a new file with an own name beside `leaf`, and locks it.
fn make_named(directory: &File, leaf: &OsStr, mode: u32) -> io::Result<(File, OsString)> {
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
    for number in 0..NAMES_MAX {
        let name = temporary_name(leaf, number);
        let make = || openat(directory, &name, flags, Mode::from_raw_mode(mode));
        let made = match make() {
            Err(Errno::EXIST) if remove_left_over(directory, &name) => make(),
            made => made,
        };
        match made {
            Ok(file) => {
                let _ = flock(&file, FlockOperation::NonBlockingLockExclusive);
                return Ok((File::from(file), name));
            }
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "all its temporary names are taken"))
}

/// Removes a file that a killed command has left: a regular one of this user, which nobody locks.
/// Returns whether the name is free now.
fn remove_left_over(directory: &File, name: &OsStr) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(directory, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(error) => return error == Errno::NOENT,
    };
    let own = rustix::process::geteuid().as_raw();
    let is_own = file.metadata().is_ok_and(|meta| meta.is_file() && meta.uid() == own);
    let is_free = || flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    is_own
        && is_free()
        && matches!(
            rustix::fs::unlinkat(directory, name, AtFlags::empty()),
            Ok(()) | Err(Errno::NOENT)
        )
}

/// Whether a command is writing the output whose own name is `path`, as far as a lock tells; `None`
/// where that cannot be found out.
pub(crate) fn is_being_written(path: &Path) -> Option<bool> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    match flock(file.ok()?, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Some(false),
        Err(Errno::WOULDBLOCK) => Some(true),
        Err(_) => None,
    }
}

/// The name of the successor of `leaf`: the same for each command, so that the next one finds a
/// file that was left.
fn temporary_name(leaf: &OsStr, number: u32) -> OsString {
    let key = [leaf.as_bytes(), &number.to_le_bytes()].concat();
    let key = blake3::derive_key("penstock 2026 name of an output", &key);
    let (mut tag, mut hash) = ([0; 4], [0; OWN_HASH_BYTES]);
    tag.copy_from_slice(&key[..4]);
    hash.copy_from_slice(&key[4..4 + OWN_HASH_BYTES]);
    OsString::from(OsStr::from_bytes(&own_name(OwnKind::Output, RunTag(tag), hash)))
}

/// A file without a name in the directory for temporary files, for an output whose own directory
/// takes no new file.
///
/// # Errors
/// There is no such directory, or it takes no file.
pub(super) fn spool() -> io::Result<File> {
    let directory = std::env::temp_dir();
    let failed = |error: io::Error| {
        let message = format!(
            "its directory cannot be written, and `{}` takes no temporary file: {error}",
            directory.display()
        );
        io::Error::new(error.kind(), message)
    };
    let nameless = File::options()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(OFlags::TMPFILE.bits().cast_signed())
        .open(&directory);
    let Err(_) = nameless else { return nameless };
    let name: PathBuf = directory.join(format!("penstock-{:032x}", rand::random::<u128>()));
    let mut options = File::options();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&name);
    let file = file.map_err(failed)?;
    fs::remove_file(&name)?;
    Ok(file)
}

/// Writes `new` over `old`, which cannot be replaced by name. What is longer than the old file is
/// written first: where there is no room for it, the old file stays as it was.
///
/// # Errors
/// One of the files cannot be read, written or synced.
pub(super) fn write_over(new: &File, old: &File) -> io::Result<()> {
    let (had, has) = (old.metadata()?.len(), new.metadata()?.len());
    let grown = copy_range(new, old, had..has).and_then(|()| old.sync_all());
    if let Err(error) = grown {
        old.set_len(had)?;
        return Err(error);
    }
    copy_range(new, old, 0..had.min(has))?;
    old.set_len(has)?;
    old.sync_all()
}

fn copy_range(from: &File, to: &File, range: std::ops::Range<u64>) -> io::Result<()> {
    let mut buffer = vec![0; STEP_BYTES];
    let mut at = range.start;
    while at < range.end {
        let most = (range.end - at).min(STEP_BYTES as u64) as usize;
        let count = from.read_at(&mut buffer[..most], at)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        to.write_all_at(&buffer[..count], at)?;
        at += count as u64;
    }
    Ok(())
}

fn ends_in_slash(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use penstock_proto::name::own;

    use super::*;

    fn names(directory: &Path) -> Vec<OsString> {
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    /// Promise (E8): a name that a killed command has left is an own one, and goes when the same
    /// output is written again; that of a command at work stays, and so does whatever is no file.
    #[test]
    fn e8_left_over_names_are_found_again() {
        let base = tempfile::tempdir().unwrap();
        let directory = open_directory(base.path()).unwrap();
        let make = || make_named(&directory, OsStr::new("r"), 0o600).unwrap();
        let (held, first) = make();
        assert_eq!(own(first.as_bytes()).map(|own| own.kind), Some(OwnKind::Output));
        assert_eq!(is_being_written(&base.path().join(&first)), Some(true));
        let (_other, second) = make();
        assert_ne!(first, second);
        // Its process has ended.
        drop(held);
        assert_eq!(is_being_written(&base.path().join(&first)), Some(false));
        let (again, third) = make();
        assert_eq!((&third, names(base.path()).len()), (&first, 2));
        drop(again);
        fs::remove_file(base.path().join(&first)).unwrap();
        symlink("elsewhere", base.path().join(&first)).unwrap();
        let (_last, fourth) = make();
        assert!(fourth != first && fourth != second);
        assert!(!base.path().join("elsewhere").exists());
    }

    /// Promise (E8): without a name, with one from the start, or copied to one at the end, it takes
    /// the place of the old file with its mode, and leaves nothing beside it.
    #[test]
    fn e8_a_successor_takes_the_place_of_the_old_file() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("r");
        for way in 0..3 {
            fs::write(&path, "old").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            let old = Old { file, meta: Box::new(fs::metadata(&path).unwrap()) };
            let mut successor = Successor::of(&path, Some(old), 0o666).unwrap();
            if way == 1 {
                let (file, name) =
                    make_named(&successor.directory, OsStr::new("r"), 0o666).unwrap();
                (successor.file, successor.temporary) = (Arc::new(file), Some(name));
            }
            (&*successor.file).write_all(b"new").unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"old");
            if way == 2 {
                successor.copy_to_name().unwrap();
            }
            successor.take_place().unwrap();
            assert_eq!(fs::read(&path).unwrap(), b"new");
            assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
            assert_eq!(names(base.path()), ["r"]);
        }
    }

    /// Promise (E8): a file that is written over is as long as the new one, however long it was.
    #[test]
    fn e8_a_file_is_written_over() {
        for (had, has) in [(0, 3 << 20), (3 << 20, 17), (17, 17), (5, 0)] {
            let (new, old) = (spool().unwrap(), spool().unwrap());
            (&new).write_all(&vec![b'n'; has]).unwrap();
            (&old).write_all(&vec![b'o'; had]).unwrap();
            write_over(&new, &old).unwrap();
            let mut read = vec![0; has + 1];
            assert_eq!(old.metadata().unwrap().len(), has as u64);
            old.read_exact_at(&mut read[..has], 0).unwrap();
            assert!(read[..has].iter().all(|&byte| byte == b'n'));
        }
    }
}
