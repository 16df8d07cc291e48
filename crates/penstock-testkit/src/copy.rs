//! `penstock copy`, with its state in a directory of the test.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::program::{program, program_of_others, traced};
use crate::run::{Ended, Run};

/// Copies the contents of `source` with more options.
pub fn copy_with(copy: &Copy, source: &Path, target: &Path, options: &[&str]) -> Ended {
    Run::spawn(copy.command(source.join(""), target).args(options)).end()
}

/// Copies that run in one directory, which also holds their state.
pub struct Copy {
    /// The directory.
    pub base: PathBuf,
}

impl Copy {
    /// Returns copies that run in `base`.
    pub fn new(base: &Path) -> Self {
        Self { base: base.to_owned() }
    }

    /// Returns the directory of the state.
    pub fn state(&self) -> PathBuf {
        self.base.join("state")
    }

    /// Returns the command that copies `source` to `target`.
    pub fn command(&self, source: impl AsRef<OsStr>, target: impl AsRef<OsStr>) -> Command {
        self.command_by(Command::new(program()), source, target)
    }

    /// Completes a command whose next arguments are those of `penstock`.
    fn command_by(
        &self,
        mut command: Command,
        source: impl AsRef<OsStr>,
        target: impl AsRef<OsStr>,
    ) -> Command {
        command.args(["copy", "--json"]).arg(source).arg(target);
        command.env("PENSTOCK_STATE_HOME", self.state()).current_dir(&self.base);
        command
    }

    /// Returns the command in a process that may have so many descriptors.
    pub fn command_with_descriptors(
        &self,
        most: u32,
        source: impl AsRef<OsStr>,
        target: impl AsRef<OsStr>,
    ) -> Command {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={most}:{most}")).arg(program());
        self.command_by(command, source, target)
    }

    /// Returns the command as the user `nobody`, who must be able to reach its source and target.
    pub fn command_as_nobody(&self, source: &Path, target: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(program_of_others(&self.base));
        self.command_by(command, source, target)
    }

    /// Returns the command as a user of this number, which needs no account.
    pub fn command_as(&self, user: u32, source: &str, target: &Path) -> Command {
        let mut command = Command::new(program_of_others(&self.base));
        command.uid(user).gid(user);
        self.command_by(command, source, target)
    }

    /// Returns the command with faults that strace(1) injects; see [`traced`].
    pub fn command_with_faults(
        &self,
        faults: &[&str],
        source: impl AsRef<OsStr>,
        target: impl AsRef<OsStr>,
    ) -> Command {
        let mut command = traced(faults);
        command.arg(program());
        self.command_by(command, source, target)
    }

    /// Starts a copy.
    pub fn spawn(&self, source: impl AsRef<OsStr>, target: impl AsRef<OsStr>) -> Run {
        Run::spawn(&mut self.command(source, target))
    }

    /// Runs a copy to its end.
    pub fn run(&self, source: impl AsRef<OsStr>, target: impl AsRef<OsStr>) -> Ended {
        self.spawn(source, target).end()
    }

    /// Asserts that no state is left, as after each copy that has ended.
    pub fn assert_no_state(&self) {
        let left = fs::read_dir(self.state().join("copy")).map(|entries| entries.count());
        assert_eq!(left.unwrap_or(0), 0, "state of a copy is left");
    }
}
