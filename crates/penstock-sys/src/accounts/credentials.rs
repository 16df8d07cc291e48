//! Credentials of threads for files, and those of the process.

use std::io;
use std::sync::OnceLock;

use rustix::fs::Gid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_thread_groups,
};

/// Attempts to return to the daemon's own credentials: the kernel may lack memory for a moment.
const RETURN_TRIES: u32 = 100;
/// An argument that is no user or group: setfsuid(2) then only returns the present one.
const NOBODY: u32 = u32::MAX;

/// The numbers by which the kernel judges a thread's rights to files.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// All groups, as setgroups(2) takes them.
    pub(super) groups: Vec<Gid>,
}

impl Credentials {
    /// Sets the credentials of this thread.
    fn set(&self) -> io::Result<()> {
        set_thread_groups(&self.groups)?;
        set_fs_group(self.gid);
        set_fs_user(self.uid);
        // The calls tell no errors.
        if present() == (self.uid, self.gid) {
            Ok(())
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
}

/// The credentials of this process, which all its threads have unless they act as an account.
#[derive(Debug)]
pub(super) struct Own {
    files: Credentials,
    sets: CapabilitySets,
}

static OWN: OnceLock<Own> = OnceLock::new();

impl Own {
    /// Returns the credentials of this process. The first call is made before any thread acts as an
    /// account, since there is no [`Account`] yet.
    pub(super) fn get() -> &'static Self {
        OWN.get_or_init(|| {
            let none = CapabilitySet::empty();
            let nothing = CapabilitySets { effective: none, permitted: none, inheritable: none };
            let (uid, gid) = present();
            let groups = rustix::process::getgroups().unwrap_or_default();
            let sets = capabilities(None).unwrap_or(nothing);
            Self { files: Credentials { uid, gid, groups }, sets }
        })
    }

    pub(super) fn uid(&self) -> u32 {
        self.files.uid
    }

    /// Returns whether threads may take the credentials of any account.
    pub(super) fn may_change(&self) -> bool {
        self.sets.effective.contains(CapabilitySet::SETUID | CapabilitySet::SETGID)
    }

    /// Sets other credentials of this thread for files, and no effective capability.
    pub(super) fn take(&self, other: &Credentials) -> io::Result<()> {
        other.set()?;
        let effective = CapabilitySet::empty();
        Ok(set_capabilities(None, CapabilitySets { effective, ..self.sets })?)
    }

    /// Sets this thread's credentials to those of the process.
    fn become_own(&self) -> io::Result<()> {
        set_capabilities(None, self.sets)?;
        self.files.set()?;
        // User 0 gets all permitted capabilities for files with its number (setfsuid(2)).
        Ok(set_capabilities(None, self.sets)?)
    }

    /// Returns to the credentials of the process, or ends it: a thread that keeps those of a user
    /// would do the daemon's own work with them. Running transfers resume from their ledgers.
    pub(super) fn restore(&self) {
        for _ in 0..RETURN_TRIES {
            if self.become_own().is_ok() {
                return;
            }
            std::thread::yield_now();
        }
        end("a thread cannot return to the credentials of the daemon");
    }
}

/// Returns whether threads of this process may act as accounts of other users.
pub fn may_act_as_others() -> bool {
    Own::get().may_change()
}

/// Sets the credentials of a new thread to the daemon's, if a thread that acts as an account
/// started it. Call this first in threads of a pool.
pub fn leave_inherited_account() {
    if let Some(own) = OWN.get()
        && present() != (own.files.uid, own.files.gid)
    {
        own.restore();
    }
}

/// Ends the process: a thread has the wrong rights. A panic may be caught, and the thread then be
/// used for something else.
#[expect(clippy::disallowed_methods, reason = "a panic may be caught")]
pub(super) fn end(why: &str) -> ! {
    tracing::error!("{why}");
    std::process::abort();
}

/// Returns the user and group of this thread for files.
fn present() -> (u32, u32) {
    (set_fs_user(NOBODY), set_fs_group(NOBODY))
}

/// Sets the user for files of this thread, if it may; returns the one before.
fn set_fs_user(uid: u32) -> u32 {
    // SAFETY: setfsuid(2) takes a number and changes nothing in memory. The wrapper of a C library
    // is passed by, since it may concern all threads.
    let before = unsafe { libc::syscall(libc::SYS_setfsuid, libc::c_long::from(uid)) };
    before as u32
}

/// Sets the group for files of this thread, if it may; returns the one before.
fn set_fs_group(gid: u32) -> u32 {
    // SAFETY: as in `set_fs_user` (setfsgid(2)).
    let before = unsafe { libc::syscall(libc::SYS_setfsgid, libc::c_long::from(gid)) };
    before as u32
}
