//! A command that an operator wrote: `sh -c`, in a process group of its own, so that an interrupt
//! of this program does not reach what the command starts.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// Interval at which the end of a command is looked for.
const LOOK: Duration = Duration::from_millis(50);

/// Time in which a killed command ends, unless it runs as another user (`sudo`) or hangs in a call
/// to the kernel.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// A command that runs, for a limited time.
pub(crate) struct ShellCommand {
    child: Child,
    kill_at: Instant,
    timeout: Duration,
}

impl ShellCommand {
    /// Starts a command with further environment variables. Its input is empty, and its output and
    /// errors go to the files of `output`.
    ///
    /// # Errors
    /// There is no `sh`, or no room for a process.
    pub(crate) fn start<'v>(
        command: &str,
        environment: impl IntoIterator<Item = (&'v str, &'v str)>,
        output: (Stdio, Stdio),
        timeout: Duration,
    ) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).envs(environment);
        shell.stdin(Stdio::null()).stdout(output.0).stderr(output.1).process_group(0);
        Ok(Self { child: shell.spawn()?, kill_at: Instant::now() + timeout, timeout })
    }

    /// Returns how the command ended, or `None` while it runs; a failure reads as the end of a
    /// sentence about the command. One that takes too long is killed, with all that it started in
    /// its process group; a command that has left the group is killed alone.
    pub(crate) fn poll(&mut self) -> Option<Result<(), String>> {
        match self.child.try_wait() {
            Ok(Some(status)) if status.success() => Some(Ok(())),
            Ok(Some(status)) => Some(Err(format!("ended with {status}"))),
            Ok(None) if Instant::now() < self.kill_at => None,
            Ok(None) => Some(Err(self.kill())),
            Err(error) => Some(Err(format!("cannot be waited for: {error}"))),
        }
    }

    /// Kills the command with its process group, and returns the failure. The command itself is
    /// killed by its number too, as it may have left the group.
    fn kill(&mut self) -> String {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // The group may be gone by now.
            let _ = kill_process_group(pid, Signal::KILL);
        }
        // The wait below shows whether that succeeded.
        let _ = self.child.kill();
        let give_up = Instant::now() + KILL_PATIENCE;
        let seconds = self.timeout.as_secs();
        while Instant::now() < give_up {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return format!("was killed after {seconds} s");
            }
            thread::sleep(LOOK);
        }
        format!("did not end in {seconds} s and could not be killed: it still runs")
    }

    /// Waits for the end of the command.
    ///
    /// # Errors
    /// As [`ShellCommand::poll`].
    pub(crate) fn wait(mut self) -> Result<(), String> {
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
    use std::io::BufRead as _;

    use super::*;

    /// Promise: a command sees the variables, its failure is told, and one that does not end is
    /// killed with what it has started.
    #[test]
    fn commands_end() {
        let run = |command: &str, timeout| {
            let output = (Stdio::null(), Stdio::null());
            let timeout = Duration::from_secs(timeout);
            ShellCommand::start(command, [("WORD", "said")], output, timeout).unwrap().wait()
        };
        assert_eq!(run("test $WORD = said", 60), Ok(()));
        assert!(run("exit 3", 60).unwrap_err().contains("3"));
        assert_eq!(run("sleep 1000; true", 0).unwrap_err(), "was killed after 0 s");
    }

    /// Promise: a command that has left its process group, as for that of this program, is killed
    /// too, and does not count as one that cannot be killed.
    #[test]
    fn a_command_outside_its_group_is_killed() {
        let leave = "exec perl -e '$| = 1; setpgrp(0, getpgrp(getppid())) or die $!; \
                     print \"outside\\n\"; sleep 60'";
        let (said, output) = io::pipe().unwrap();
        let output = (output.into(), Stdio::inherit());
        let timeout = Duration::from_secs(60);
        let mut command = ShellCommand::start(leave, [], output, timeout).unwrap();
        let mut line = String::new();
        io::BufReader::new(said).read_line(&mut line).unwrap();
        assert_eq!(line, "outside\n");
        assert!(command.poll().is_none());
        command.kill_at = Instant::now();
        assert_eq!(command.poll(), Some(Err("was killed after 60 s".to_owned())));
    }
}
