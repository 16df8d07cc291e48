//! The account as which a thread uses files.
//!
//! Credentials belong to a thread (credentials(7)): the C library keeps those of all threads equal,
//! the system calls do not. A thread acts as an account while it holds an [`Acting`]. It then has
//! the account's file system user and groups (setfsuid(2), setfsgid(2), setgroups(2)) and no
//! effective capability, so that neither CAP_DAC_OVERRIDE nor CAP_SETFCAP or CAP_SYS_RESOURCE helps
//! it. When the value is dropped, by a panic as well, the thread gets the daemon's own credentials
//! again.
//!
//! A new thread inherits the credentials of the thread that starts it. Within an [`Acting`] a
//! thread starts none but those of its own work. Pools, which start threads when they please, call
//! [`leave_inherited_account`](super::leave_inherited_account) in each new thread.

use std::cell::RefCell;
use std::io;
use std::marker::PhantomData;

use super::account::Account;
use super::credentials::{Own, end, leave_inherited_account};

/// Attempts to return to an account: the kernel may lack memory for a moment.
const RETURN_TRIES: u32 = 100;

thread_local! {
    /// The account as which this thread acts. A new thread begins with the daemon's credentials.
    static NOW: RefCell<Option<Account>> = {
        leave_inherited_account();
        RefCell::new(None)
    };
}

/// Time in which a thread acts as an account, or as the daemon within such a time. The earlier
/// state returns when this value is dropped, in the reverse order of the values' making.
#[derive(Debug)]
#[must_use = "the thread acts so until this is dropped"]
pub struct Acting {
    /// The account to return to; `None` if nothing was changed.
    before: Option<Option<Account>>,
    /// Credentials belong to a thread.
    _not_send: PhantomData<*const ()>,
}

impl Acting {
    /// Changes nothing, at no cost.
    const SAME: Self = Self { before: None, _not_send: PhantomData };
}

impl Account {
    /// Has this thread act as the account. Costs a comparison if the thread does so already, or if
    /// the account is the daemon's own and the thread acts as none. Otherwise it costs about ten
    /// system calls, and again at the end.
    ///
    /// # Errors
    /// The kernel has no memory for it, or the process has lost a capability: then nothing is
    /// changed.
    pub fn act(&self) -> io::Result<Acting> {
        if self.is_own() {
            return Ok(act_as_daemon());
        }
        NOW.with(|now| {
            let mut now = now.borrow_mut();
            if now.as_ref().is_some_and(|account| account.is(self)) {
                return Ok(Acting::SAME);
            }
            let own = Own::get();
            if now.is_some() {
                own.restore();
            }
            let before = now.take();
            if let Err(error) = own.take(self.credentials()) {
                resume(before.as_ref());
                *now = before;
                return Err(error);
            }
            *now = Some(self.clone());
            Ok(Acting { before: Some(before), _not_send: PhantomData })
        })
    }
}

/// Has this thread act as the daemon, for files of its own. Costs a comparison if it acts as no
/// account.
pub fn act_as_daemon() -> Acting {
    let before = NOW.try_with(|now| {
        let before = now.borrow_mut().take();
        if before.is_some() {
            Own::get().restore();
        }
        before
    });
    match before {
        Ok(Some(account)) => Acting { before: Some(Some(account)), _not_send: PhantomData },
        // The thread acts as none, or is about to end.
        _ => Acting::SAME,
    }
}

/// Returns the user and group of new files of this thread, unless a directory determines others:
/// those of the account that it acts as, or of this process.
pub fn own_numbers() -> (u32, u32) {
    let acting = NOW.try_with(|now| now.borrow().as_ref().map(Account::numbers)).ok().flatten();
    let own = || (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    acting.unwrap_or_else(own)
}

impl Drop for Acting {
    fn drop(&mut self) {
        let Some(before) = self.before.take() else { return };
        let changed = NOW.try_with(|now| {
            resume(before.as_ref());
            *now.borrow_mut() = before;
        });
        if changed.is_err() {
            Own::get().restore();
        }
    }
}

/// Returns to an account, or to the daemon's own credentials.
fn resume(account: Option<&Account>) {
    let own = Own::get();
    own.restore();
    let Some(account) = account else { return };
    for _ in 0..RETURN_TRIES {
        if own.take(account.credentials()).is_ok() {
            return;
        }
        own.restore();
    }
    end(&format!("a thread cannot act as {account:?} again"));
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Returns accounts that each host has, and that no person uses: tests act as them.
    fn accounts() -> Option<(Account, Account)> {
        if !rustix::process::geteuid().is_root() {
            #[expect(clippy::print_stderr, reason = "a skipped test must say so")]
            {
                eprintln!("SKIPPED: acting as an account needs root");
            }
            return None;
        }
        Some((Account::of_name("daemon").unwrap(), Account::of_name("nobody").unwrap()))
    }

    /// Returns the uid, gid and effective capabilities of this thread for files, as the kernel
    /// shows them.
    fn credentials() -> (u32, u32, String) {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        let last = |key: &str| line(key).split_whitespace().nth(3).unwrap().parse().unwrap();
        (last("Uid:"), last("Gid:"), line("CapEff:").trim().to_owned())
    }

    /// Promise: a thread that acts as an account makes files of that account, and reads none of
    /// others. The end restores the earlier state, in any nesting.
    #[test]
    fn a_thread_acts_as_an_account_until_its_end() {
        let Some((one, other)) = accounts() else { return };
        let before = credentials();
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let path = |name: &str| directory.path().join(name);
        {
            let _acting = one.act().unwrap();
            assert_eq!(credentials().2, "0000000000000000");
            fs::write(path("one"), "x").unwrap();
            fs::set_permissions(path("one"), fs::Permissions::from_mode(0o600)).unwrap();
            {
                let _again = one.act().unwrap();
                let _acting = other.act().unwrap();
                assert!(fs::read(path("one")).is_err());
                let _daemon = act_as_daemon();
                assert_eq!(credentials(), before);
                assert!(fs::read(path("one")).is_ok());
            }
            assert_eq!((credentials().0, credentials().1), one.numbers());
            assert_eq!(crate::own_numbers(), one.numbers());
        }
        assert_eq!(credentials(), before);
        let made = fs::metadata(path("one")).unwrap();
        assert_eq!((made.uid(), made.gid()), one.numbers());
    }

    /// Promise: a panic within the work of an account returns the thread to its pool with its
    /// earlier account.
    #[test]
    fn a_panic_returns_the_thread() {
        let Some((one, _)) = accounts() else { return };
        let before = credentials();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _acting = one.act().unwrap();
            panic!("the work fails");
        }));
        assert!(panicked.is_err());
        assert_eq!(credentials(), before);
    }

    /// Promise: a thread that was started meanwhile does not keep the account.
    #[test]
    fn a_thread_started_meanwhile_leaves_the_account() {
        let Some((one, other)) = accounts() else { return };
        let before = credentials();
        let _acting = one.act().unwrap();
        let started = std::thread::spawn(move || {
            let inherited = credentials();
            leave_inherited_account();
            (inherited.0, credentials())
        });
        assert_eq!(started.join().unwrap(), (one.numbers().0, before.clone()));
        let started = std::thread::spawn(move || {
            drop(other.act().unwrap());
            credentials()
        });
        assert_eq!(started.join().unwrap(), before);
    }
}
