//! The command of a fault, with its log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use crate::shell_command::ShellCommand;

/// A command that runs.
pub(super) struct FaultCommand(ShellCommand);

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
        let output = open().map_or_else(
            |_| (Stdio::null(), Stdio::null()),
            |(out, errors)| (out.into(), errors.into()),
        );
        let environment = environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let timeout = Duration::from_secs(timeout_seconds);
        ShellCommand::start(command, environment, output, timeout).map(Self)
    }

    /// Returns how the command ended, or none while it runs. One that takes too long is killed,
    /// with all that it started in its process group.
    pub(super) fn poll(&mut self) -> Option<Result<(), String>> {
        Some(self.0.poll()?.map_err(of_fault))
    }

    /// Waits for the end of the command.
    pub(super) fn wait(self) -> Result<(), String> {
        self.0.wait().map_err(of_fault)
    }
}

fn of_fault(failure: String) -> String {
    format!("its command {failure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the output of a command is kept, beside the command, and its failure is told.
    #[test]
    fn commands_end() {
        let scratch = tempfile::tempdir().unwrap();
        let log = scratch.path().join("log");
        let run = |command: &str| {
            let environment = [("WORD".to_owned(), "said".to_owned())];
            FaultCommand::start(command, &environment, 60, &log).unwrap().wait()
        };
        assert_eq!(run("echo $WORD"), Ok(()));
        assert!(run("exit 3").unwrap_err().starts_with("its command ended with"));
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
