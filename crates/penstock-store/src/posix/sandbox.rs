//! Walking a path beneath a root without ever leaving it (C5).

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, ResolveFlags, fcntl_getfl, openat, openat2};
use rustix::io::Errno;

/// Longest path passed to the kernel in one call: below PATH_MAX (4,096 with the final NUL).
const CALL_PATH_BYTES_MAX: usize = 4000;
/// Number of retries of a walk disturbed by renames (EAGAIN) before it goes stepwise.
const DISTURBED_TRIES: u32 = 16;

/// The way in which paths are resolved beneath the root. Both ways follow no link and never climb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// `openat2` with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS` (Linux 5.6): one call a path.
    Kernel,
    /// `openat` with `O_NOFOLLOW | O_DIRECTORY`, one call a component: older kernels, and
    /// containers whose seccomp filter refuses `openat2`.
    Stepwise,
}

impl Resolution {
    /// Determines the way that kernel and container allow.
    pub(crate) fn probe(root: BorrowedFd<'_>) -> Self {
        match beneath(root, b".", OFlags::PATH | OFlags::DIRECTORY) {
            Ok(_) => Self::Kernel,
            Err(_) => Self::Stepwise,
        }
    }

    /// Opens the directory at `path`, which is relative, checked and not empty, with `access`:
    /// `O_RDONLY` or `O_PATH`.
    ///
    /// # Errors
    /// `ELOOP`, `ENOTDIR` or `EXDEV` if something on the way is no directory.
    pub(crate) fn open_dir(
        self,
        start: BorrowedFd<'_>,
        path: &[u8],
        access: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let mut reached: Option<OwnedFd> = None;
        let mut rest = path;
        loop {
            let from = reached.as_ref().map_or(start, |fd| fd.as_fd());
            let (head, tail) = self.split(rest);
            let step = if tail.is_empty() { access } else { OFlags::PATH };
            let fd = self.step(from, head, step | OFlags::DIRECTORY)?;
            if tail.is_empty() {
                return Ok(fd);
            }
            reached = Some(fd);
            rest = tail;
        }
    }

    fn step(self, from: BorrowedFd<'_>, head: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        if self == Self::Stepwise {
            return open_component(from, head, flags);
        }
        for _ in 0..DISTURBED_TRIES {
            match beneath(from, head, flags) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                outcome => return outcome,
            }
        }
        if flags.contains(OFlags::PATH) {
            // Reached only within paths longer than the kernel takes; the caller tries again.
            return Err(Errno::AGAIN);
        }
        Self::Stepwise.open_dir(from, head, OFlags::RDONLY)
    }

    /// Returns the part that one call walks, and the rest after it.
    fn split(self, path: &[u8]) -> (&[u8], &[u8]) {
        let is_slash = |&byte: &u8| byte == b'/';
        let at = match self {
            Self::Stepwise => path.iter().position(is_slash),
            Self::Kernel if path.len() <= CALL_PATH_BYTES_MAX => None,
            // Components have at most 255 bytes, so there is a slash in any 4,000.
            Self::Kernel => path[..CALL_PATH_BYTES_MAX].iter().rposition(is_slash),
        };
        match at {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (path, &[]),
        }
    }
}

/// Waits before a retry of an open that found no descriptor: 0.2 s in all.
const SHORTAGE_WAITS_MS: [u64; 5] = [1, 4, 16, 64, 128];
/// Number of opens that found no descriptor.
static SHORTAGES: AtomicU64 = AtomicU64::new(0);

/// Returns how many opens of this process found no descriptor: caches drop theirs when it grows.
pub(crate) fn shortages() -> u64 {
    SHORTAGES.load(Ordering::Relaxed)
}

/// Repeats an open that finds no descriptor, of this process or of the host, while others may
/// close some. Blocks.
///
/// # Errors
/// Those of `open`; `EMFILE` or `ENFILE` after the last wait.
pub(crate) fn when_there_are_descriptors(
    mut open: impl FnMut() -> Result<OwnedFd, Errno>,
) -> Result<OwnedFd, Errno> {
    for wait in SHORTAGE_WAITS_MS {
        match open() {
            Err(Errno::MFILE | Errno::NFILE) => {
                SHORTAGES.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(wait));
            }
            outcome => return outcome,
        }
    }
    open()
}

/// Opens a directory by `open` for reading; one that may be entered and not listed with `O_PATH`.
pub(crate) fn open_listable(
    mut open: impl FnMut(OFlags) -> Result<OwnedFd, Errno>,
) -> Result<OwnedFd, Errno> {
    match when_there_are_descriptors(|| open(OFlags::RDONLY)) {
        Err(Errno::ACCESS) => when_there_are_descriptors(|| open(OFlags::PATH)),
        opened => opened,
    }
}

/// Returns whether a descriptor was opened with `O_PATH`, so that only names below it can be
/// reached.
pub(crate) fn is_path_only(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::PATH))
}

fn beneath(from: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let flags = flags | OFlags::CLOEXEC;
    when_there_are_descriptors(|| openat2(from, path, flags, Mode::empty(), resolve))
}

/// Opens one component of a directory without following a link. `O_NONBLOCK` keeps a pipe that
/// took the place of a file from blocking us; regular files ignore it.
pub(crate) fn open_component(
    from: BorrowedFd<'_>,
    component: &[u8],
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    create_component(from, component, flags, Mode::empty())
}

/// Opens a component as [`open_component`] does, with the mode for `O_CREAT`.
pub(crate) fn create_component(
    from: BorrowedFd<'_>,
    component: &[u8],
    flags: OFlags,
    mode: Mode,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    when_there_are_descriptors(|| {
        loop {
            match openat(from, component, flags, mode) {
                Err(Errno::INTR) => {}
                outcome => return outcome,
            }
        }
    })
}
