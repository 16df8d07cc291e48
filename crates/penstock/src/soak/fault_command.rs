//! A command of a fault: `sh -c`, in a process group of its own, so that an interrupt of the soak
//! does not reach what it starts.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Interval at which the end of a command is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// A command that runs.
pub(super) struct FaultCommand {
    child: Child,
    kill_at: Instant,
    timeout: Duration,
}

impl FaultCommand {
    /// Starts a command; its output goes to the end of `log`. Where that cannot be written, as on a
    /// full disk that the command makes room on, the output is lost.
    ///
    /// # Errors
    /// There is no `sh`, or no room for a process.
    pub(super) fn start(
        command: &str,
        environment: &[(String, String)],
        timeout_seconds: u64,
        log: &Path,
    ) -> io::Result<Self> {
        let open = || -> io::Result<(File, File)> {
            let mut out = OpenOptions::new().create(true).append(true).open(log)?;
            writeln!(out, "$ {command}")?;
            Ok((out.try_clone()?, out))
        };
        let (out, errors) = open().map_or_else(
            |_| (Stdio::null(), Stdio::null()),
            |(out, errors)| (out.into(), errors.into()),
        );
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).envs(environment.iter().cloned());
        shell.stdin(Stdio::null()).stdout(out).stderr(errors).process_group(0);
        let timeout = Duration::from_secs(timeout_seconds);
        Ok(Self { child: shell.spawn()?, kill_at: Instant::now() + timeout, timeout })
    }

    /// Returns how the command ended, or none while it runs. One that takes too long is killed,
    /// with all that it started in its process group.
    pub(super) fn poll(&mut self) -> Option<Result<(), String>> {
        match self.child.try_wait() {
            Ok(Some(status)) if status.success() => Some(Ok(())),
            Ok(Some(status)) => Some(Err(format!("its command ended with {status}"))),
            Ok(None) if Instant::now() < self.kill_at => None,
            Ok(None) => {
                let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
                if let Some(pid) = pid {
                    // The group may be gone by now.
                    let _ = kill_process_group(pid, Signal::KILL);
                }
                let _ = self.child.wait();
                let seconds = self.timeout.as_secs();
                Some(Err(format!("its command was killed after {seconds} s")))
            }
            Err(error) => Some(Err(format!("its command cannot be waited for: {error}"))),
        }
    }

    /// Waits for the end of the command.
    pub(super) fn wait(mut self) -> Result<(), String> {
        loop {
            if let Some(ended) = self.poll() {
                return ended;
            }
            thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a command sees the variables, its output is kept, its failure is told, and one that
    /// does not end is killed with what it has started.
    #[test]
    fn commands_end() {
        let scratch = tempfile::tempdir().unwrap();
        let log = scratch.path().join("log");
        let run = |command: &str, timeout| {
            let environment = [("WORD".to_owned(), "said".to_owned())];
            FaultCommand::start(command, &environment, timeout, &log).unwrap().wait()
        };
        assert_eq!(run("echo $WORD", 60), Ok(()));
        assert!(run("exit 3", 60).unwrap_err().contains("3"));
        assert!(run("sleep 1000; true", 0).unwrap_err().contains("killed after 0 s"));
        let kept = std::fs::read_to_string(&log).unwrap();
        assert!(kept.contains("$ echo $WORD\nsaid\n"), "{kept}");
    }

    /// Promise: a command runs where its log cannot be written, as on a full disk: it may be the
    /// one that makes room.
    #[test]
    fn a_command_needs_no_log() {
        let scratch = tempfile::tempdir().unwrap();
        let (full, missing) = (Path::new("/dev/full"), scratch.path().join("no/log"));
        for log in [full, &missing] {
            let made = scratch.path().join("made");
            let command = format!("echo said; mkdir '{}'", made.display());
            assert_eq!(FaultCommand::start(&command, &[], 60, log).unwrap().wait(), Ok(()));
            std::fs::remove_dir(made).unwrap();
        }
    }
}
