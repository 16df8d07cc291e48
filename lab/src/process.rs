//! Processes of a lab, known by their ids, so that a later command finds them again.

use std::fs;
use std::process::{Child, ChildStdout, Command};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

/// How long a process that was killed may take to be gone: one that waits for a disk takes longer.
const END: Duration = Duration::from_secs(20);
/// How often it is looked at where it is not a child of this process.
const LOOK: Duration = Duration::from_millis(5);
/// In /proc/PID/stat, behind the name: the state, and the time of the start.
const FIELD_STATE: usize = 0;
const FIELD_START: usize = 19;

/// A process that was started into the lab.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Process {
    id: i32,
    /// When it was started, as the kernel counts: an id is given again to another one.
    started: u64,
    /// It is a child of this very process, and is waited for.
    #[serde(skip)]
    child: Option<Child>,
}

impl Process {
    /// Starts a command in a process group of its own, so that Ctrl-C at a terminal spares it; its
    /// standard output, where `command` wants a pipe.
    ///
    /// # Errors
    /// It cannot be started, or ends at once.
    pub(crate) fn start(command: &mut Command) -> anyhow::Result<(Self, Option<ChildStdout>)> {
        use std::os::unix::process::CommandExt as _;
        let child = command.process_group(0).spawn();
        let mut child = child.with_context(|| format!("start {command:?}"))?;
        let id = i32::try_from(child.id()).context("its process id")?;
        let started = start_of(id).with_context(|| format!("{command:?} has ended at once"))?;
        let output = child.stdout.take();
        Ok((Self { id, started, child: Some(child) }, output))
    }

    /// Its process id.
    pub(crate) fn id(&self) -> i32 {
        self.id
    }

    /// Whether it runs, or is stopped.
    pub(crate) fn is_there(&self) -> bool {
        start_of(self.id) == Some(self.started)
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// It has ended.
    pub(crate) fn signal(&self, signal: Signal) -> anyhow::Result<()> {
        let pid = Pid::from_raw(self.id).filter(|_| self.is_there());
        let Some(pid) = pid else { bail!("process {} has ended", self.id) };
        rustix::process::kill_process(pid, signal).context("send a signal")
    }

    /// `kill -9`, and waits until it is gone; nothing if it is gone.
    ///
    /// # Errors
    /// It does not go.
    pub(crate) fn kill(&mut self) -> anyhow::Result<()> {
        if self.is_there() {
            self.signal(Signal::KILL)?;
        }
        if let Some(mut child) = self.child.take() {
            child.wait().context("wait for a process that was killed")?;
            return Ok(());
        }
        let until = Instant::now() + END;
        while self.is_there() {
            if Instant::now() > until {
                bail!("process {} was killed and does not go", self.id);
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }
}

/// When a process was started; none if it is not there, or only waits to be buried.
fn start_of(id: i32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // Its name may hold anything, and ends at the last parenthesis.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    if fields.get(FIELD_STATE).is_none_or(|state| *state == "Z") {
        return None;
    }
    fields.get(FIELD_START)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a process is known again by its id and start, and one that has ended is nobody
    /// else.
    #[test]
    fn a_process_is_known_until_it_ends() {
        let (mut process, _) = Process::start(Command::new("sleep").arg("60")).unwrap();
        let text = serde_json::to_string(&process).unwrap();
        let known: Process = serde_json::from_str(&text).unwrap();
        assert!(known.is_there());
        process.kill().unwrap();
        assert!(!known.is_there());
        assert!(known.signal(Signal::TERM).is_err());
    }
}
