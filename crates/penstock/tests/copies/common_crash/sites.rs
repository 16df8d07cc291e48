//! Sites whose daemons are killed and started again.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{BINARY, PATIENCE, Run};

/// One site with one store, `data`, and its daemon.
pub(crate) struct Site {
    pub(crate) name: &'static str,
    pub(crate) directory: PathBuf,
    pub(crate) data: PathBuf,
    port: u16,
    log: PathBuf,
    daemon: Option<Child>,
    /// Extra environment of the daemon.
    pub(crate) environment: Vec<(String, String)>,
}

impl Site {
    /// Makes a site whose store is at `data`; its daemon is not started.
    pub(crate) fn new(base: &Path, name: &'static str, data: &Path) -> Self {
        // Taken for a moment, to be the daemon's at each of its starts.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let directory = base.join(format!("site-{name}"));
        std::fs::create_dir_all(data).unwrap();
        // Not beside the site, which may be on a disk that is taken away.
        let logs = std::env::temp_dir();
        let log = logs.join(format!("penstock-test-{}-{port}-{name}.log", std::process::id()));
        let (data, environment) = (data.to_owned(), Vec::new());
        let site = Self { name, directory, data, port, log, daemon: None, environment };
        let listen = format!("127.0.0.1:{port}");
        let store = format!("data={}", site.data.display());
        let init = ["site", "init", "--name", name, "--listen", &listen, "--store", &store];
        site.ok(&[&init[..], &["--write=*", "--delete=*"]].concat());
        site
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.log.clone()
    }

    /// Starts the daemon and waits until it says that it is ready.
    pub(crate) fn start(&mut self) {
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            let mut command = Command::new(BINARY);
            command.args(["daemon", "--dir"]).arg(&self.directory).stdin(Stdio::null());
            command.envs(self.environment.iter().cloned());
            command.stdout(Stdio::piped()).stderr(log.try_clone().unwrap());
            let mut daemon = command.spawn().unwrap();
            let mut line = String::new();
            BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
            if line.starts_with("ready:") {
                self.daemon = Some(daemon);
                return;
            }
            let status = daemon.wait().unwrap();
            // The port may have been taken by a passer-by since it was chosen.
            assert!(Instant::now() < until, "no daemon: {status}, see {}", self.log().display());
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
    }

    pub(crate) fn daemon_id(&self) -> u32 {
        self.daemon.as_ref().unwrap().id()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BINARY);
        command.current_dir(std::env::temp_dir());
        command.args(args).arg("--dir").arg(&self.directory);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed; gives its standard output.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Pairs with another running site.
    pub(crate) fn join(&self, other: &Self) {
        let token = other.ok(&["site", "pair"]);
        self.ok(&["site", "pair", token.lines().last().unwrap().trim()]);
    }

    /// Submits a transfer and gives its id.
    pub(crate) fn submit(&self, source: &str, target: &str) -> String {
        self.ok(&["transfer", "submit", source, target]).trim().to_owned()
    }

    pub(crate) fn show(&self, id: &str) -> Value {
        serde_json::from_str(&self.ok(&["transfer", "show", id, "--json"])).unwrap()
    }

    /// Asks how a transfer stands, again and again, until it is as wanted. The daemon has no event
    /// for figures but once a second, and none at all while it is dead.
    pub(crate) fn wait_until(
        &self,
        id: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let view = self.show(id);
            if wanted(&view) {
                return view;
            }
            let ended = view["state"] == "failed" || view["state"] == "cancelled";
            assert!(!ended && Instant::now() < until, "waited for {what}: {view}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Follows a transfer until it ends.
    pub(crate) fn wait(&self, id: &str) -> super::Ended {
        Run::spawn(&mut self.command(&["transfer", "wait", id, "--json"])).end()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let text = std::fs::read_to_string(self.log()).unwrap_or_default();
            let lines: Vec<_> = text.lines().collect();
            let tail = lines[lines.len().saturating_sub(30)..].join("\n");
            eprintln!("--- log of site {}:\n{tail}", self.name);
        }
        let _ = std::fs::remove_file(&self.log);
    }
}

/// Two running sites, `a` and `b`, that trust each other.
pub(crate) fn pair(base: &Path, data_a: &Path, data_b: &Path) -> (Site, Site) {
    let (mut a, mut b) = (Site::new(base, "a", data_a), Site::new(base, "b", data_b));
    a.start();
    b.start();
    b.join(&a);
    (a, b)
}
