//! `notify.command`: a program on the controller's host that is run for each ended transfer.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use penstock_api::webhook::{NOTIFY_COMMAND, WebhookKind};
use penstock_proto::id::Name;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use crate::config::NotifyConfig;

/// Longest time of a run; the process group is killed after it.
const RUN_MAX: Duration = Duration::from_secs(60);
/// Bytes of its output that a failure quotes.
const OUTPUT_BYTES_MAX: u64 = 500;

/// The command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotifyCommand {
    name: Name,
    /// The program and its arguments; no shell reads them.
    words: Vec<String>,
    kinds: Vec<WebhookKind>,
    /// Numbers of the user and group that it runs as; `None` leaves those of the daemon.
    user: Option<(u32, u32)>,
    /// [`RUN_MAX`], but in tests.
    run_max: Duration,
}

impl NotifyCommand {
    /// Returns the command of a configuration. Blocks: the name service may ask a server.
    ///
    /// # Errors
    /// The account that it runs as does not exist.
    pub(super) fn of(config: &NotifyConfig) -> anyhow::Result<Self> {
        let name = NOTIFY_COMMAND.parse().context("the name of `notify.command`")?;
        let (words, kinds) = (config.command.clone(), config.kinds()?);
        Ok(Self { name, words, kinds, user: config.account()?, run_max: RUN_MAX })
    }

    pub(super) fn name(&self) -> &Name {
        &self.name
    }

    pub(super) fn kinds(&self) -> &[WebhookKind] {
        &self.kinds
    }

    pub(super) fn words(&self) -> String {
        self.words.join(" ")
    }

    /// Returns whether a webhook of this name represents the command.
    pub(super) fn is(&self, name: &Name) -> bool {
        self.name == *name
    }

    /// Runs it with a message on its standard input.
    ///
    /// # Errors
    /// The command cannot be started, ends with another status than 0, or does not end in time.
    pub(super) async fn run(&self, body: Arc<[u8]>) -> Result<(), String> {
        let command = self.clone();
        let run = tokio::task::spawn_blocking(move || command.run_here(&body));
        run.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    fn run_here(&self, body: &[u8]) -> Result<(), String> {
        let files = files(body).map_err(|error| format!("`{}`: {error}", self.words[0]))?;
        let (input, errors, read) = files;
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).current_dir("/").process_group(0);
        command.stdin(input).stdout(Stdio::null()).stderr(errors);
        if let Some((user, group)) = self.user {
            // The supplementary groups of a daemon that runs as root are dropped by this too.
            command.gid(group).uid(user);
        }
        let mut child = command.spawn().map_err(|error| format!("`{}`: {error}", self.words[0]))?;
        let ended = wait(&mut child, self.run_max);
        let status = ended.map_err(|error| format!("`{}`: {error}", self.words[0]))?;
        if status.success() {
            return Ok(());
        }
        let mut output = Vec::new();
        // Unreadable output is left out of the message.
        let _ = read.take(OUTPUT_BYTES_MAX).read_to_end(&mut output);
        let output = String::from_utf8_lossy(&output);
        Err(format!("`{}`: {status}: {}", self.words[0], output.trim()))
    }
}

/// Returns standard input with a message, standard error, and its beginning to read: files without
/// a name (memfd_create(2)), so that a command that reads or writes slowly delays no other work.
fn files(body: &[u8]) -> io::Result<(File, File, File)> {
    let file = |name: &str| memfd_create(name, MemfdFlags::CLOEXEC).map(File::from);
    let mut input = file("penstock-message")?;
    input.write_all(body)?;
    input.rewind()?;
    let errors = file("penstock-errors")?;
    // A descriptor of its own place: the command's writes do not move it.
    let read = File::open(format!("/proc/self/fd/{}", errors.as_raw_fd()))?;
    Ok((input, errors, read))
}

/// Waits for the end of a process, or kills its group after `run_max` (pidfd_open(2), poll(2)).
fn wait(child: &mut Child, run_max: Duration) -> Result<ExitStatus, String> {
    let pid = Pid::from_child(child);
    let failed = |error: Errno| format!("cannot be watched: {error}");
    let ended = pidfd_open(pid, PidfdFlags::empty()).map_err(failed)?;
    let end = Instant::now() + run_max;
    let is_late = loop {
        let left = end.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
        match poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&left)) {
            Ok(ready) => break ready == 0,
            Err(Errno::INTR) => {}
            Err(error) => return Err(failed(error)),
        }
    };
    if is_late {
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if is_late {
        Err(format!("did not end within {} s", run_max.as_secs_f64()))
    } else {
        Ok(status)
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

    use super::*;

    fn of(words: &[&str]) -> NotifyCommand {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        let (name, kinds, run_max) = ("n".parse().unwrap(), Vec::new(), RUN_MAX);
        NotifyCommand { name, words, kinds, user: None, run_max }
    }

    fn command(script: &str) -> NotifyCommand {
        of(&["/bin/sh", "-c", script])
    }

    /// Promise: the command gets the message on its standard input, and its failure is reported
    /// with its status and its output.
    #[test]
    fn a_command_is_run() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("message");
        let script = format!("cat > {}", file.display());
        command(&script).run_here(b"{\"a\":1}").unwrap();
        assert_eq!(std::fs::read(file).unwrap(), b"{\"a\":1}");
        let error = command("echo no mail here >&2; exit 3").run_here(b"").unwrap_err();
        assert!(error.contains("exit status: 3: no mail here"), "{error}");
        let error = of(&["/no/such/program"]).run_here(b"").unwrap_err();
        assert!(error.contains("/no/such/program") && error.contains("No such file"), "{error}");
    }

    /// Promise: a command that does not read its input, or ends before, is no fault of the daemon.
    #[test]
    fn a_command_may_leave_its_input() {
        let body = vec![b'x'; 64 << 10];
        command("exit 0").run_here(&body).unwrap();
    }

    /// Promise (f): a command that does not end is killed after its time, with all processes that
    /// it has started, and its failure names that.
    #[test]
    fn f_a_command_that_hangs_is_killed() {
        let directory = tempfile::tempdir().unwrap();
        let held = directory.path().join("held");
        mknodat(CWD, &held, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let mut end = File::options();
        end.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
        let mut end = end.open(&held).unwrap();
        // The process in the background holds the FIFO open for as long as it lives.
        let script = format!("sleep 600 > {} & wait", held.display());
        let hangs = NotifyCommand { run_max: Duration::from_millis(200), ..command(&script) };
        let error = hangs.run_here(b"").unwrap_err();
        assert_eq!(error, "`/bin/sh`: did not end within 0.2 s");
        loop {
            match end.read(&mut [0]) {
                Ok(bytes) => break assert_eq!(bytes, 0, "nobody writes"),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => panic!("{error}"),
            }
            let patience = Timespec { tv_sec: 60, tv_nsec: 0 };
            let ready = poll(&mut [PollFd::new(&end, PollFlags::IN)], Some(&patience)).unwrap();
            assert_eq!(ready, 1, "a process of the command lives on");
        }
        assert_eq!(RUN_MAX.as_secs(), 60, "docs/webhooks.md says so");
    }

    /// Promise: a command that writes much to standard error ends all the same.
    #[test]
    fn a_command_may_write_much() {
        let error = command("head -c 1000000 /dev/zero >&2; exit 3").run_here(b"").unwrap_err();
        assert!(error.contains("exit status: 3") && error.len() < 1000, "{}", error.len());
    }
}
