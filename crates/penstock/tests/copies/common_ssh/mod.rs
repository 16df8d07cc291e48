//! An sshd of the test's own, at 127.0.0.1, with own keys, a home directory of the test and nothing
//! of the machine's configuration; and `penstock copy` by way of it.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::common_crash::{BINARY, Ended, PATIENCE, Run, scratch, tool};

/// A host that is reached by ssh.
pub(crate) struct Host {
    pub(crate) work: tempfile::TempDir,
    port: u16,
    sshd: Child,
}

/// What is special about a host.
#[derive(Default)]
pub(crate) struct Special {
    /// More lines for sshd's configuration.
    pub(crate) sshd: &'static str,
    /// What the user's shell reads first.
    pub(crate) profile: &'static str,
}

impl Host {
    pub(crate) fn start(special: &Special) -> Self {
        let work = scratch();
        let root = work.path().canonicalize().unwrap();
        for directory in ["home", "bin", "local"] {
            fs::create_dir(root.join(directory)).unwrap();
        }
        for key in ["host", "user", "other"] {
            tool("ssh-keygen", &[&"-q", &"-t", &"ed25519", &"-N", &"", &"-f", &root.join(key)]);
        }
        fs::copy(root.join("user.pub"), root.join("authorized")).unwrap();
        fs::write(root.join("home/.bashrc"), special.profile).unwrap();
        // sshd of Debian wants it if it is root, and its service makes it.
        let _ = fs::create_dir("/run/sshd");
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let at = root.display();
        let config = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host\nPidFile none\n\
             AuthorizedKeysFile {at}/authorized\nStrictModes no\nUsePAM no\n\
             PermitRootLogin yes\nMaxStartups 100\n\
             SetEnv HOME={at}/home PATH={at}/bin:/usr/bin:/bin\n{}\n",
            special.sshd
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

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.work.path().canonicalize().unwrap().join(name)
    }

    /// `127.0.0.1:PATH`, below the host's own directory.
    pub(crate) fn remote(&self, name: &str) -> String {
        format!("127.0.0.1:{}", self.path(name).display())
    }

    /// Puts the program into the host's `PATH`, under a path by which its processes are known.
    pub(crate) fn install(&self) {
        std::os::unix::fs::symlink(BINARY, self.path("bin/penstock")).unwrap();
    }

    /// The command that logs in.
    pub(crate) fn ssh(&self) -> String {
        self.ssh_with("user", "known")
    }

    pub(crate) fn ssh_with(&self, key: &str, known: &str) -> String {
        let (key, known) = (self.path(key), self.path(known));
        format!(
            "ssh -F none -p {} -o BatchMode=yes -o IdentitiesOnly=yes -i '{}' \
             -o 'UserKnownHostsFile={}'",
            self.port,
            key.display(),
            known.display()
        )
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.args(["copy", "--json", "--ssh", &self.ssh()]).args(arguments);
        self.place(&mut command);
        command
    }

    pub(crate) fn place(&self, command: &mut Command) {
        command.env("HOME", self.path("local")).current_dir(self.path("local"));
        for unwanted in ["PENSTOCK_STATE_HOME", "XDG_STATE_HOME", "SSH_AUTH_SOCK"] {
            command.env_remove(unwanted);
        }
        command.env("XDG_RUNTIME_DIR", self.path("local"));
    }

    pub(crate) fn spawn(&self, arguments: &[&str]) -> Run {
        Run::spawn(&mut self.command(arguments))
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.spawn(arguments).end()
    }

    /// Process ids whose command line holds `text` and a path of this test.
    pub(crate) fn processes(&self, text: &str) -> Vec<u32> {
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

    /// Nothing runs any more and nothing is kept for a resume, at either end.
    pub(crate) fn assert_nothing_left(&self) {
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

    /// No far end, and no ssh of ours, as soon as what was written is synced: an end that stops
    /// gives that 10 s, and a system call under way is not ended by anybody.
    pub(crate) fn assert_nothing_runs(&self) {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let left = [self.processes("ssh-serve"), self.processes("ControlPersist")].concat();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "processes are left: {left:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A process whose command line holds `text`, once it is there.
    pub(crate) fn wait_for_process(&self, text: &str) -> u32 {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(id) = self.processes(text).first() {
                return *id;
            }
            assert!(Instant::now() < until, "no process `{text}`");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
    }
}

/// A small tree with what a tree may have.
pub(crate) fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("sub/empty")).unwrap();
    for number in 0..200 {
        fs::write(root.join(format!("sub/file{number}")), format!("{number}\n")).unwrap();
    }
    let large: Vec<u8> = (0..5_000_000u32).map(|at| (at % 251) as u8).collect();
    fs::write(root.join("large"), large).unwrap();
    fs::write(root.join("odd \n \u{e4}'\""), "odd").unwrap();
    std::os::unix::fs::symlink("sub/file1", root.join("link")).unwrap();
}

/// `diff` says that two trees are the same.
pub(crate) fn assert_same_tree(one: &Path, other: &Path) {
    tool("diff", &[&"-r", &"--no-dereference", &one, &other]);
}
