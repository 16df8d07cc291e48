//! The check that tries to begin a second daemon in the site directory.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use penstock_api::endpoints::SHOW_STATUS;
use penstock_api::rest::StatusView;
use penstock_daemon::config::Config;
use penstock_sys::{LockError, LockFile};

use super::outcome::{Outcome, broken, not_run, passed, unknown};
use super::trial::Trial;

/// Tries to acquire the lock of the site directory, as a daemon does before anything else. No
/// daemon is started: one that is not refused would change the state of the site.
pub(super) fn second_daemon(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    // A user at the socket for accounts sees no site directory.
    let directory = trial.client.site_directory();
    let Some(directory) = directory.filter(|directory| Config::found(directory).exists()) else {
        return not_run("it needs an account that may open the site directory");
    };
    let process = || anyhow::Ok(trial.client.get::<StatusView>(&SHOW_STATUS.uri(&[]))?.pid);
    let before = process()?;
    match attempt(directory) {
        Attempt::Refused(why) => passed(why),
        Attempt::Unknown(why) => unknown(why),
        // A daemon that ends or starts at this moment has no lock.
        Attempt::Taken(_) if process()? != before => {
            unknown("the daemon was restarted meanwhile: run this check again")
        }
        Attempt::Taken(how) => broken(format!("{how}; restart this one, which locks it again")),
    }
}

/// The end of an attempt to acquire the lock.
#[derive(Debug)]
enum Attempt {
    /// The lock is held by another process; in words.
    Refused(String),
    /// The lock was free, or there is none; in words.
    Taken(String),
    /// The lock cannot be acquired for another reason, which follows.
    Unknown(String),
}

/// Tries to acquire the lock, and releases it. A lock file that is missing is not made.
fn attempt(directory: &Path) -> Attempt {
    let path = directory.join("lock");
    let shown = path.display();
    match fs::metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let how = format!(
                "`{shown}` is gone: no lock keeps a second daemon from starting beside this one"
            );
            return Attempt::Taken(how);
        }
        Err(error) => return Attempt::Unknown(format!("cannot look at `{shown}`: {error}")),
        Ok(_) => {}
    }
    match LockFile::acquire(&path) {
        Ok(_released) => Attempt::Taken(format!(
            "`{shown}` was free: a second daemon would start beside this one"
        )),
        Err(error @ LockError::Io { .. }) => {
            let error = anyhow::Error::new(error);
            Attempt::Unknown(format!("cannot acquire the lock: {error:#}"))
        }
        Err(error) => Attempt::Refused(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (h): a lock that is held refuses a second daemon; one that is free or gone is found.
    /// No lock is made, and none is held afterwards.
    #[test]
    fn h_a_lock_that_does_not_hold_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let taken = |words: &str| {
            let attempt = attempt(directory.path());
            assert!(matches!(&attempt, Attempt::Taken(how) if how.contains(words)), "{attempt:?}");
        };
        taken("is gone");
        assert!(!path.exists());
        let held = LockFile::acquire(&path).unwrap();
        let own = std::process::id().to_string();
        let refused = attempt(directory.path());
        assert!(matches!(&refused, Attempt::Refused(why) if why.contains(&own)), "{refused:?}");
        drop(held);
        taken("was free");
        taken("was free");
    }
}
