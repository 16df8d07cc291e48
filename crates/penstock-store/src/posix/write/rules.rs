//! Writes to directories of our own that reject them.
//!
//! A tree that was copied once has the modes of its source, 0555 among them. To write there again,
//! a user other than root has to add rights to the directory meanwhile; its attributes are set at
//! the end in any case (B5). Only directories of the data set are changed, only those that belong
//! to this process's user, and only when the system has rejected a write.
//!
//! Deleted entries lie in directories whose attributes are not set at the end, if they stay. So
//! each deletion restores the mode of such a directory at once. A kill between two calls leaves the
//! directory with the rights of its owner added (0755 for 0555). The next run with `--delete`
//! removes it, and a directory of the data set gets its attributes at the end of the next run.

use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use penstock_proto::name;
use rustix::fs::{Mode, OFlags, chmod, fchmod, fstat};
use rustix::io::Errno;

use crate::dir::Dir;
use crate::posix::sandbox::open_component;

/// The rules for one data set that is written.
#[derive(Debug)]
pub(crate) struct WriteRules {
    /// Its root: directories there and below may be unlocked. `None`: none may.
    root: Option<Vec<u8>>,
    /// Mode of a new directory until its own attributes are set at the end (B5).
    pub(crate) new_directory_mode: Mode,
    /// Set if devices, pipes and sockets are replaced by an entry of the same name.
    pub(crate) replaces_special: bool,
}

impl Default for WriteRules {
    fn default() -> Self {
        Self { root: None, new_directory_mode: Mode::RWXU, replaces_special: false }
    }
}

impl WriteRules {
    /// Returns the rules for the data set whose root is at `root`. Without `sets_modes` the modes
    /// of new directories are not set later: they get the bits that the umask leaves. With
    /// `replaces_special` devices, pipes and sockets are replaced by an entry of the same name.
    pub(crate) fn for_data_set(root: &[u8], sets_modes: bool, replaces_special: bool) -> Self {
        let new_directory_mode =
            if sets_modes { Mode::RWXU } else { Mode::RWXU | Mode::RWXG | Mode::RWXO };
        Self { root: Some(root.to_vec()), new_directory_mode, replaces_special }
    }

    /// Repeats a call that `dir` has rejected, after unlocking it.
    pub(crate) fn unlocked<T>(
        &self,
        dir: &Dir,
        mut attempt: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match attempt() {
            Err(Errno::ACCESS)
                if self.may_unlock(dir.path()) && dir.fd().is_ok_and(|fd| unlock(fd.as_fd())) =>
            {
                attempt()
            }
            outcome => outcome,
        }
    }

    /// Repeats a call that `dir` has rejected, where the attributes of `dir` are not set later. The
    /// directory is unlocked for this one attempt, and has its mode again afterwards.
    pub(crate) fn briefly_unlocked<T>(
        &self,
        dir: &Dir,
        mut attempt: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match attempt() {
            Err(Errno::ACCESS) if self.may_unlock(dir.path()) => {
                let dir_fd = dir.fd_raw()?;
                let fd = dir_fd.as_fd();
                let Some(before) = unlock_from(fd) else { return Err(Errno::ACCESS) };
                let outcome = attempt();
                let _ = change_mode(fd, before);
                outcome
            }
            outcome => outcome,
        }
    }

    /// Unlocks the directories on the way from `root`, the store's, to `path` and itself, as far as
    /// they exist. Returns whether any was unlocked.
    pub(crate) fn unlock_path(&self, root: &Dir, path: &[u8]) -> bool {
        let Ok(root) = root.fd() else { return false };
        let mut any = self.may_unlock(b"") && unlock(root.as_fd());
        let mut reached: Option<OwnedFd> = None;
        let mut walked = Vec::new();
        for component in path.split(|&byte| byte == b'/') {
            let from = reached.as_ref().map_or(root.as_fd(), |fd| fd.as_fd());
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            let Ok(next) = open_component(from, component, flags) else { break };
            walked = name::join(&walked, component);
            any |= self.may_unlock(&walked) && unlock(next.as_fd());
            reached = Some(next);
        }
        any
    }

    fn may_unlock(&self, path: &[u8]) -> bool {
        let Some(root) = &self.root else { return false };
        let below = path.strip_prefix(root.as_slice());
        below.is_some_and(|rest| rest.is_empty() || root.is_empty() || rest.starts_with(b"/"))
    }
}

/// Adds all rights of the owner to the directory `fd`, if this process is the owner and lacks some.
pub(crate) fn unlock(fd: BorrowedFd<'_>) -> bool {
    unlock_from(fd).is_some()
}

/// Unlocks a directory as [`unlock`] does; returns its mode before that.
fn unlock_from(fd: BorrowedFd<'_>) -> Option<Mode> {
    let told = fstat(fd).ok()?;
    let own = told.st_uid == penstock_sys::own_numbers().0;
    let mode = told.st_mode & 0o7777;
    if !own || mode & 0o700 == 0o700 {
        return None;
    }
    change_mode(fd, Mode::from_raw_mode(mode | 0o700)).ok()?;
    Some(Mode::from_raw_mode(mode))
}

fn change_mode(fd: BorrowedFd<'_>, mode: Mode) -> Result<(), Errno> {
    // A descriptor opened with O_PATH is changed by its path only.
    fchmod(fd, mode).or_else(|_| chmod(format!("/proc/self/fd/{}", fd.as_raw_fd()), mode))
}
