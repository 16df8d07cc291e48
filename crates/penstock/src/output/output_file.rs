//! Files that a command writes for its user: opened before the work begins, so that one that cannot
//! be written fails at once, and whole when the command has ended.
//!
//! A regular file is replaced when the new one is complete; until then the old one stays, also when
//! the command is killed or the disk is full. A file in a directory that takes no new file is
//! written over at the end. Whatever is no regular file (a device, a pipe, the
//! standard output by one of its names) is written into, as by the shell's `>`, and never replaced.
//! Links are followed. `-` is the standard output.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::OFlags;

use self::successor::{Old, Successor, spool, write_over};
use penstock_exit::{self as exit, ExitCode, Failure};

pub(crate) mod successor;

/// Most links that lead from the name of an output to its place, as the kernel allows them.
const LINKS_MAX: usize = 40;
/// How often a named pipe is tried until a reader opens it.
const READER_LOOK: Duration = Duration::from_millis(100);
/// Number of the device `/dev/null`: major 1, minor 3.
const NULL_DEVICE: u64 = 1 << 8 | 3;
/// Mode of a new output, less the umask.
const MODE: u32 = 0o666;
/// Bytes that are gathered before they are written.
const BUFFER_BYTES: usize = 1 << 18;

/// One output of a command.
#[derive(Debug)]
pub(crate) struct OutputFile {
    /// As the user wrote it.
    name: PathBuf,
    place: Place,
    identity: Identity,
}

#[derive(Debug)]
enum Place {
    /// The standard output, or another open descriptor, a device, a pipe.
    Direct(File),
    /// A named pipe that nobody reads yet.
    Pipe(PathBuf),
    /// A regular file in a directory that takes no new file: it is written over at the end, from
    /// the second file.
    Kept(File, File),
    /// A regular file, or nothing yet.
    Replaced(Successor),
}

/// What two outputs have in common if they would overwrite each other.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    /// The null device, which several may write to.
    Shared,
    /// Something that exists: device and inode.
    Existing(u64, u64),
    /// A name in a directory.
    Named(u64, u64, OsString),
}

impl OutputFile {
    /// Opens the output `name`, and changes nothing yet.
    ///
    /// # Errors
    /// It cannot be written: exit 2 for a directory or a socket, else as the error says.
    pub(crate) fn open(name: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            let hint = "give a file in a directory that exists and can be written";
            Failure::io(format!("write `{}`", name.display()), error).hint(hint)
        };
        let (place, identity) = if name == Path::new("-") {
            direct(io::stdout()).map_err(failed)?
        } else {
            let path = followed(name).map_err(failed)?;
            match fs::metadata(&path) {
                // Whatever it is: a shell has opened it, and a socket cannot be opened again.
                Ok(meta) if is_same_file(io::stdout(), &meta) => {
                    direct(io::stdout()).map_err(failed)?
                }
                Ok(meta) if is_same_file(io::stderr(), &meta) => {
                    direct(io::stderr()).map_err(failed)?
                }
                Ok(meta) if meta.is_dir() => return Err(not_a_file(name, "a directory")),
                Ok(meta) if meta.file_type().is_socket() => {
                    return Err(not_a_file(name, "a socket"));
                }
                Ok(meta) => existing(&path, meta).map_err(failed)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let successor = Successor::at(&path, MODE).map_err(failed)?;
                    let (device, inode, leaf) = successor.place().map_err(failed)?;
                    let identity = Identity::Named(device, inode, leaf);
                    (Place::Replaced(successor), identity)
                }
                Err(error) => return Err(failed(error)),
            }
        };
        Ok(Self { name: name.to_owned(), place, identity })
    }

    /// Opens several outputs, each with the option that names it.
    ///
    /// # Errors
    /// As [`OutputFile::open`]; two of them are the same file: exit 2.
    pub(crate) fn open_all(
        wanted: impl IntoIterator<Item = (&'static str, PathBuf)>,
    ) -> Result<Vec<Self>, Failure> {
        let mut opened: Vec<(&str, Self)> = Vec::new();
        for (option, path) in wanted {
            let output = Self::open(&path)?;
            let same = |other: &&(&str, Self)| other.1.is_same(&output);
            if let Some((other, _)) = opened.iter().find(same) {
                let message = format!("{other} and {option} would both write `{}`", path.display());
                return Err(
                    Failure::new(ExitCode::Usage, message).hint("give each output a separate file")
                );
            }
            opened.push((option, output));
        }
        Ok(opened.into_iter().map(|(_, output)| output).collect())
    }

    /// Whether both would overwrite each other.
    fn is_same(&self, other: &Self) -> bool {
        self.identity != Identity::Shared && self.identity == other.identity
    }

    /// Whether it is the standard output, under whatever name.
    pub(crate) fn is_standard_output(&self) -> bool {
        let standard = rustix::fs::fstat(io::stdout());
        let Ok(standard) = standard else { return self.name == Path::new("-") };
        self.name == Path::new("-")
            || self.identity == Identity::Existing(standard.st_dev, standard.st_ino)
    }

    /// Whether it would replace the file at `path`.
    pub(crate) fn replaces(&self, path: &Path) -> bool {
        let of = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
        match &self.identity {
            Identity::Shared => false,
            Identity::Existing(device, inode) => of(path) == Some((*device, *inode)),
            Identity::Named(device, inode, leaf) => {
                path.file_name() == Some(leaf)
                    && path.parent().and_then(of) == Some((*device, *inode))
            }
        }
    }

    /// Whether it is a regular file, or will be one.
    pub(crate) fn is_regular(&self) -> bool {
        matches!(self.place, Place::Kept(..) | Place::Replaced(_))
    }

    /// As the user wrote it.
    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    /// Writes all of it, with `fill`, and puts it in its place. Blocks until a named pipe has a
    /// reader, and says so, unless `stop` is set.
    ///
    /// # Errors
    /// What `fill` returns; it cannot be written.
    pub(crate) fn write(
        self,
        stop: &AtomicBool,
        fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.write_if(stop, |out| fill(out).map(|()| true))
    }

    /// As [`OutputFile::write`]; where `fill` returns `false`, a file that would be replaced stays.
    ///
    /// # Errors
    /// As [`OutputFile::write`].
    pub(crate) fn write_if(
        self,
        stop: &AtomicBool,
        fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let name = self.name;
        let standard = name == Path::new("-");
        let failed = |error| Failure::io(format!("write `{}`", name.display()), error);
        let written = || -> anyhow::Result<()> {
            let place = match self.place {
                Place::Pipe(path) => Place::Direct(await_reader(&path, &name, stop)?),
                place => place,
            };
            let file = match &place {
                Place::Direct(file) | Place::Kept(_, file) => Arc::new(file.try_clone()?),
                Place::Replaced(successor) => successor.file(),
                Place::Pipe(_) => return Err(io::Error::from(io::ErrorKind::NotConnected).into()),
            };
            let shown = file.is_terminal();
            let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
            let wanted = if shown {
                let mut out = exit::Shown::new(&mut out, "");
                let wanted = fill(&mut out)?;
                out.flush()?;
                wanted
            } else {
                fill(&mut out)?
            };
            out.flush()?;
            drop(out);
            match place {
                Place::Kept(old, new) if wanted => Ok(write_over(&new, &old)?),
                Place::Replaced(successor) if wanted => Ok(successor.take_place()?),
                _ => Ok(()),
            }
        }();
        match written.map_err(anyhow::Error::downcast::<io::Error>) {
            Ok(()) => Ok(()),
            // A reader that has gone away, as in `| head`, has all it wants.
            Err(Ok(error)) if standard && error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            Err(Ok(error)) => Err(failed(error).into()),
            Err(Err(error)) => Err(error),
        }
    }
}

fn not_a_file(name: &Path, what: &str) -> Failure {
    let message = format!("cannot write `{}`: it is {what}", name.display());
    Failure::new(ExitCode::Usage, message).hint("give the name of a file")
}

/// The path that the links at `name` lead to, whether there is something or not. A link of the
/// proc file system stands for an open file, not for a path, and is not followed.
fn followed(name: &Path) -> io::Result<PathBuf> {
    let mut path = name.to_owned();
    for _ in 0..LINKS_MAX {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new(".")).to_owned();
        if parent.canonicalize().is_ok_and(|parent| parent.starts_with("/proc")) {
            return Ok(path);
        }
        match fs::read_link(&path) {
            Ok(link) => path = parent.join(link),
            // No link, or nothing: what is wrong with it is told when it is opened.
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidFilename, "its links lead in a circle"))
}

/// A descriptor that is open already.
fn direct(open: impl AsFd) -> io::Result<(Place, Identity)> {
    let file = File::from(open.as_fd().try_clone_to_owned()?);
    let meta = file.metadata()?;
    Ok((Place::Direct(file), Identity::of(&meta)))
}

impl Identity {
    /// Several may write to a device that forgets what it gets; a terminal is one for all.
    fn of(meta: &Metadata) -> Self {
        let forgets = meta.file_type().is_char_device() && meta.rdev() == NULL_DEVICE;
        if forgets { Self::Shared } else { Self::Existing(meta.dev(), meta.ino()) }
    }
}

/// The place of an output that exists.
fn existing(path: &Path, meta: Metadata) -> io::Result<(Place, Identity)> {
    let (identity, kind) = (Identity::of(&meta), meta.file_type());
    let writing = |flags: OFlags| {
        let mut options = File::options();
        options.write(true).custom_flags(flags.bits().cast_signed());
        options.open(path)
    };
    if kind.is_fifo() {
        return match writing(OFlags::NONBLOCK) {
            Ok(file) => {
                let flags = rustix::fs::fcntl_getfl(&file)?;
                rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
                Ok((Place::Direct(file), identity))
            }
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {
                Ok((Place::Pipe(path.to_owned()), identity))
            }
            Err(error) => Err(error),
        };
    }
    if !kind.is_file() {
        return Ok((Place::Direct(writing(OFlags::NOCTTY)?), identity));
    }
    let parent = path.parent().unwrap_or(Path::new("."));
    if parent.canonicalize().is_ok_and(|parent| parent.starts_with("/proc")) {
        return Ok((Place::Direct(writing(OFlags::APPEND)?), identity));
    }
    // What may not be written is not replaced either.
    let file = writing(OFlags::empty())?;
    let old = Old { file, meta: Box::new(meta) };
    Ok(match Successor::of(path, Some(old), MODE) {
        Err((_, Some(old))) => (Place::Kept(old.file, spool()?), identity),
        Err((error, None)) => return Err(error),
        Ok(successor) => (Place::Replaced(successor), identity),
    })
}

fn is_same_file(open: impl AsFd, meta: &Metadata) -> bool {
    rustix::fs::fstat(open).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (meta.dev(), meta.ino()))
}

/// Waits for the reader of a named pipe.
fn await_reader(path: &Path, name: &Path, stop: &AtomicBool) -> anyhow::Result<File> {
    let mut told = false;
    loop {
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        match File::options().write(true).custom_flags(flags).open(path) {
            Ok(file) => {
                let flags = rustix::fs::fcntl_getfl(&file).map_err(io::Error::from)?;
                rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK)
                    .map_err(io::Error::from)?;
                return Ok(file);
            }
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NXIO.raw_os_error()) => {}
            Err(error) => return Err(error.into()),
        }
        if stop.load(Ordering::Acquire) {
            let message = format!("no process reads the named pipe `{}`", name.display());
            return Err(Failure::new(ExitCode::Interrupted, message).into());
        }
        if !told {
            exit::warn(&format!("waiting for a reader of the named pipe `{}`", name.display()));
            told = true;
        }
        std::thread::sleep(READER_LOOK);
    }
}
