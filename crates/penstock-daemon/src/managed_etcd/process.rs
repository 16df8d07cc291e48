//! The process of a member: its start, a search for it after a restart, its supervision, its end.
//!
//! etcd is a child of the daemon that outlives a daemon which crashes: a majority is not lost
//! because daemons die of one and the same bug. etcd has a process group of its own, so that a
//! Ctrl-C meant for the daemon does not reach it. Its standard input is a locked file (a lock of
//! flock(2) belongs to the open file, which etcd shares). As long as that lock is held, etcd runs,
//! whichever daemon started it, and no second one is started.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use penstock_sys::{LockError, LockFile};
use rustix::process::{Pid, Signal, kill_process};

/// Bytes of its log above which the log is emptied.
const LOG_BYTES_MAX: u64 = 16 << 20;
/// The interval at which the end of a process that was asked to end is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// A member's process, if it runs.
pub(super) struct Process {
    child: Option<Child>,
    lock: PathBuf,
    log: PathBuf,
    /// An argument that no other etcd has.
    mark: OsString,
}

impl Process {
    pub(super) fn new(lock: PathBuf, log: PathBuf, data: &Path) -> Self {
        let mut mark = OsString::from("--data-dir=");
        mark.push(data);
        Self { child: None, lock, log, mark }
    }

    /// Returns whether the process runs now, started by this daemon or by one before it.
    ///
    /// # Errors
    /// The lock cannot be looked at.
    pub(super) fn is_running(&mut self) -> io::Result<bool> {
        if let Some(child) = &mut self.child
            && let Some(status) = child.try_wait()?
        {
            tracing::warn!(%status, log = %self.log.display(), "etcd has ended");
            self.child = None;
        }
        match LockFile::acquire(&self.lock) {
            Ok(_) => Ok(false),
            Err(LockError::Held { .. }) => Ok(true),
            Err(LockError::Io { source, .. }) => Err(source),
            Err(other) => Err(io::Error::other(other)),
        }
    }

    /// Starts it; it must not run.
    ///
    /// # Errors
    /// The process cannot be started, or runs already.
    pub(super) fn start(&mut self, mut command: Command) -> io::Result<()> {
        let lock = LockFile::acquire(&self.lock).map_err(io::Error::other)?;
        self.trim_log()?;
        let log = File::options().create(true).append(true).mode(0o600).open(&self.log)?;
        command.stdin(Stdio::from(lock.share()?)).stdout(log.try_clone()?).stderr(log);
        command.process_group(0);
        self.child = Some(command.spawn()?);
        Ok(())
    }

    /// Returns the arguments with which the process was started, if they can be read.
    pub(super) fn arguments(&self) -> Option<Vec<OsString>> {
        let id = self.id()?;
        let line = fs::read(format!("/proc/{id}/cmdline")).ok()?;
        Some(words(&line).skip(1).collect())
    }

    /// Returns whether its program was replaced since the process started, as by a newer release.
    pub(super) fn is_outdated(&self) -> bool {
        let program = self.id().and_then(|id| fs::read_link(format!("/proc/{id}/exe")).ok());
        program
            .is_some_and(|program| program.as_os_str().as_encoded_bytes().ends_with(b" (deleted)"))
    }

    /// Ends the process in order: it hands the leadership of etcd over. Confirmed data is on disk
    /// at any moment, so a process that does not end in time is killed. Blocks.
    ///
    /// # Errors
    /// The process does not end.
    pub(super) fn stop(&mut self, patience: Duration) -> io::Result<()> {
        for (signal, patience) in [(Signal::TERM, patience), (Signal::KILL, patience)] {
            if !self.is_running()? {
                return Ok(());
            }
            if let Some(id) = self.id().and_then(Pid::from_raw) {
                // The process may have ended this moment.
                let _ = kill_process(id, signal);
            }
            let until = Instant::now() + patience;
            while Instant::now() < until {
                if !self.is_running()? {
                    return Ok(());
                }
                std::thread::sleep(LOOK);
            }
        }
        Err(io::Error::new(io::ErrorKind::TimedOut, "etcd does not end"))
    }

    /// Empties the log when it is long; its last part is kept beside it.
    pub(super) fn trim_log(&self) -> io::Result<()> {
        match fs::metadata(&self.log) {
            Ok(found) if found.len() > LOG_BYTES_MAX => {
                fs::copy(&self.log, self.log.with_extension("log.1"))?;
                // The process writes at the end, wherever that is.
                File::options().write(true).open(&self.log)?.set_len(0)
            }
            _ => Ok(()),
        }
    }

    /// Returns the process number: that of the child, or of the process that is called with its
    /// data directory.
    fn id(&self) -> Option<i32> {
        if let Some(child) = &self.child {
            return i32::try_from(child.id()).ok();
        }
        let own = |id: i32| {
            let line = fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
            words(&line).any(|word| word == self.mark).then_some(id)
        };
        let entries = fs::read_dir("/proc").ok()?;
        let ids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        ids.filter_map(own).next()
    }
}

/// Returns the words of a command line as /proc shows it: each ends with a zero.
fn words(line: &[u8]) -> impl Iterator<Item = OsString> + '_ {
    let line = line.strip_suffix(&[0]).unwrap_or(line);
    line.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()))
}

/// Returns whether a member that runs with `found` runs as `wanted`: the arguments of its first
/// start do not count.
pub(super) fn is_same(found: &[OsString], wanted: &[OsString]) -> bool {
    let lasting = |words: &[OsString]| {
        let begins = |word: &&OsString| {
            let bytes = OsStr::as_encoded_bytes(word);
            !bytes.starts_with(b"--initial-cluster") && !bytes.starts_with(b"--force-new-cluster")
        };
        words.iter().filter(begins).cloned().collect::<Vec<_>>()
    };
    lasting(found) == lasting(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a process that a daemon left behind when it crashed is found by the next one, no
    /// second one is started beside it, and it is ended in order.
    #[test]
    fn a_process_that_was_left_behind_is_found_again() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let data = at("data");
        let open = || Process::new(at("lock"), at("etcd.log"), &data);
        let mut first = open();
        assert!(!first.is_running().unwrap());
        let mut command = Command::new("sh");
        // The words behind the script are its own arguments. It starts no child, which would be
        // called like it for a moment, and does not outlive a test that fails for long.
        command.args(["-c", "ulimit -t 60; while :; do :; done", "etcd"]);
        let mut mark = OsString::from("--data-dir=");
        mark.push(&data);
        command.arg(&mark);
        first.start(command).unwrap();
        // The daemon is gone, without a word to its child.
        let mut child = first.child.take().unwrap();
        let mut second = open();
        assert!(second.is_running().unwrap());
        assert!(second.start(Command::new("true")).is_err(), "a second one beside it");
        // `spawn` returns before the kernel shows the words of the new program.
        let deadline = Instant::now() + Duration::from_secs(20);
        let words = loop {
            if let Some(words) = second.arguments() {
                break words;
            }
            assert!(Instant::now() < deadline, "it is not found");
            std::thread::sleep(LOOK);
        };
        assert!(words.contains(&mark));
        let reaper = std::thread::spawn(move || child.wait().unwrap());
        second.stop(Duration::from_secs(20)).unwrap();
        assert!(!second.is_running().unwrap());
        reaper.join().unwrap();
    }

    /// Promise: an etcd that is found again is left alone unless it is to run in another way.
    #[test]
    fn how_a_member_began_does_not_count() {
        let list = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let found = list(&["--name=h1", "--initial-cluster=h1=x", "--force-new-cluster=true"]);
        assert!(is_same(&found, &list(&["--name=h1", "--initial-cluster-state=existing"])));
        assert!(!is_same(&found, &list(&["--name=h2"])));
    }
}
