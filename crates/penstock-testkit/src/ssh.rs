//! An sshd of the test's own, at 127.0.0.1, with own keys, a home directory of the test and nothing
//! of the machine's configuration; and `penstock copy` by way of it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::program::{program, tool};
use crate::run::{Ended, Run};
use crate::scratch::Scratch;
use crate::site::free_port;
use crate::wait::Wait;

/// A host that is reached by ssh.
pub struct SshHost {
    work: Scratch,
    port: u16,
    sshd: Child,
}

/// Particulars of a host.
#[derive(Default)]
pub struct SshOptions {
    /// More lines for sshd's configuration.
    pub sshd: &'static str,
    /// Commands that the user's shell reads first.
    pub profile: &'static str,
}

impl SshHost {
    /// Starts a host.
    pub fn start(options: &SshOptions) -> Self {
        let work = Scratch::on_disk();
        let root = work.path().canonicalize().unwrap();
        for directory in ["home", "bin", "local"] {
            fs::create_dir(root.join(directory)).unwrap();
        }
        for key in ["host", "user", "other"] {
            tool("ssh-keygen", &[&"-q", &"-t", &"ed25519", &"-N", &"", &"-f", &root.join(key)]);
        }
        fs::copy(root.join("user.pub"), root.join("authorized")).unwrap();
        fs::write(root.join("home/.bashrc"), options.profile).unwrap();
        // sshd of Debian wants it if it is root, and its service makes it.
        let _ = fs::create_dir("/run/sshd");
        let port = free_port();
        let at = root.display();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host\nPidFile none\n\
             AuthorizedKeysFile {at}/authorized\nStrictModes no\nUsePAM no\n\
             PermitRootLogin yes\nMaxStartups 100\n\
             SetEnv HOME={at}/home PATH={at}/bin:/usr/bin:/bin\n{}\n",
            options.sshd
        );
        fs::write(root.join("sshd_config"), config).unwrap();
        let mut sshd = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(root.join("sshd_config"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("the test needs sshd: scripts/setup.sh installs it");
        let mut lines = BufReader::new(sshd.stderr.take().unwrap()).lines();
        let ready = lines.by_ref().map_while(Result::ok).any(|line| line.contains("listening on"));
        assert!(ready, "sshd does not listen");
        // Its other words are of no use, but must not fill the pipe.
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
        let public = fs::read_to_string(root.join("host.pub")).unwrap();
        fs::write(root.join("known"), format!("[127.0.0.1]:{port} {public}")).unwrap();
        Self { work, port, sshd }
    }

    /// Returns a path below the host's own directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.work.path().canonicalize().unwrap().join(name)
    }

    /// Returns `127.0.0.1:PATH`, below the host's own directory.
    pub fn remote(&self, name: &str) -> String {
        format!("127.0.0.1:{}", self.path(name).display())
    }

    /// Puts the program into the host's `PATH`, under a path by which its processes are known.
    pub fn install(&self) {
        std::os::unix::fs::symlink(program(), self.path("bin/penstock")).unwrap();
    }

    /// Returns the command that logs in.
    pub fn ssh(&self) -> String {
        self.ssh_with("user", "known")
    }

    /// Returns the command that logs in with another key or list of known hosts.
    pub fn ssh_with(&self, key: &str, known: &str) -> String {
        let (key, known) = (self.path(key), self.path(known));
        format!(
            "ssh -F none -p {} -o BatchMode=yes -o IdentitiesOnly=yes -i '{}' \
             -o 'UserKnownHostsFile={}'",
            self.port,
            key.display(),
            known.display()
        )
    }

    /// Returns the command of a copy by ssh.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(["copy", "--json", "--ssh", &self.ssh()]).args(arguments);
        self.place(&mut command);
        command
    }

    /// Has a command run in the local user's home.
    pub fn place(&self, command: &mut Command) {
        command.env("HOME", self.path("local")).current_dir(self.path("local"));
        for unwanted in ["PENSTOCK_STATE_HOME", "XDG_STATE_HOME", "SSH_AUTH_SOCK"] {
            command.env_remove(unwanted);
        }
        command.env("XDG_RUNTIME_DIR", self.path("local"));
    }

    /// Starts a copy by ssh.
    pub fn spawn(&self, arguments: &[&str]) -> Run {
        Run::spawn(&mut self.command(arguments))
    }

    /// Runs a copy by ssh to its end.
    pub fn run(&self, arguments: &[&str]) -> Ended {
        self.spawn(arguments).end()
    }

    /// Returns the numbers of processes whose command line holds `text` and a path of this test.
    pub fn processes(&self, text: &str) -> Vec<u32> {
        let own = self.path("").display().to_string();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Ok(id) = entry.file_name().to_string_lossy().parse() else { continue };
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            if line.contains(&own) && line.contains(text) {
                found.push(id);
            }
        }
        found
    }

    /// Asserts that no process is left and nothing is kept for a resume, at either end.
    pub fn assert_nothing_left(&self) {
        self.assert_nothing_runs();
        for home in ["home", "local"] {
            let copies = self.path(home).join(".local/state/penstock/copy");
            let left = fs::read_dir(copies).map(|entries| entries.count());
            assert_eq!(left.unwrap_or(0), 0, "state is left in {home}");
        }
        let names = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let left: Vec<String> =
            fs::read_dir(self.path("local")).unwrap().flatten().map(names).collect();
        assert!(!left.iter().any(|name| name.starts_with("penstock-ssh")), "{left:?}");
    }

    /// Waits until no far end and no ssh of ours is left. An end that stops waits up to 10 s for
    /// the sync of its writes, and no signal ends a system call under way.
    pub fn assert_nothing_runs(&self) {
        Wait::new("the end of processes").until(|| {
            let left = [self.processes("ssh-serve"), self.processes("ControlPersist")].concat();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
    }

    /// Waits for a process whose command line holds `text`.
    pub fn wait_for_process(&self, text: &str) -> u32 {
        let wait = Wait::new(format!("a process `{text}`")).every(Duration::from_millis(5));
        wait.some(|| self.processes(text).first().copied())
    }
}

impl Drop for SshHost {
    fn drop(&mut self) {
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
    }
}
