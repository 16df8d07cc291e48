//! Sites of real daemons.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Instant;

use penstock_api::timestamp::Timestamp;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::program::{penstock, signal, told};
use crate::run::{Ended, Run};
use crate::tree::walk;
use crate::wait::{LOOK, PATIENCE, Wait};

mod port;

pub use port::free_port;

/// Lines of a daemon's log that a failed test prints.
const LOG_LINES: usize = 60;

/// A peer of a site, often the only one: its directory, its store `data`, and its daemon while
/// that runs.
pub struct Site {
    /// Name of the site.
    pub name: &'static str,
    /// Directory of the peer.
    pub dir: PathBuf,
    /// Root of the store `data`.
    pub store: PathBuf,
    /// More variables for the daemon.
    pub environment: Vec<(&'static str, String)>,
    /// First words of the command that starts the daemon, as in a namespace.
    launcher: Vec<OsString>,
    /// The log lies outside the site, which may be on a disk that the test removes.
    log: NamedTempFile,
    daemon: Option<(Child, BufReader<ChildStdout>)>,
    address: Option<SocketAddr>,
}

impl Site {
    /// Makes a site below `root` that listens on any port, and advertises another address if one is
    /// given.
    pub fn init(root: &Path, name: &'static str, advertise: Option<SocketAddr>) -> Self {
        let store = root.join(format!("store-{name}"));
        let advertise = advertise.map(|address| format!("--advertise={address}"));
        let listen = ["--listen", "127.0.0.1:0"].into_iter();
        let options: Vec<_> = listen.chain(advertise.as_deref()).collect();
        Self::create(root, name, &store, &options)
    }

    /// Makes a site below `root` whose store is at `store`, and which listens on the same free port
    /// at each of its starts.
    pub fn at_port(root: &Path, name: &'static str, store: &Path) -> Self {
        let listen = format!("127.0.0.1:{}", free_port());
        Self::create(root, name, store, &["--listen", &listen])
    }

    /// Makes a site below `root` with more options of `site init`, which others may write to.
    pub fn create(root: &Path, name: &'static str, store: &Path, options: &[&str]) -> Self {
        fs::create_dir_all(store).unwrap();
        let site = Self::adopt(name, root.join(format!("site-{name}")), store.to_owned());
        site.init_with(options);
        site
    }

    /// Runs `site init` for this directory and store, with more options.
    pub fn init_with(&self, options: &[&str]) {
        let store = format!("--store=data={}", self.store.display());
        let init = ["site", "init", "--name", self.name, "--write=*", "--delete=*", &store];
        self.ok(&[&init[..], options].concat());
    }

    /// Returns the site of a directory that was made otherwise.
    pub fn adopt(name: &'static str, dir: PathBuf, store: PathBuf) -> Self {
        let log = tempfile::Builder::new().prefix("penstock-test-log-").tempfile().unwrap();
        let (environment, launcher) = (Vec::new(), Vec::new());
        Self { name, dir, store, environment, launcher, log, daemon: None, address: None }
    }

    /// Makes another peer of this site, with more options of `site join`; its daemon is not
    /// started.
    pub fn add_peer(&self, dir: PathBuf, peer: &str, options: &[&str]) -> Self {
        let token = self.ok(&["site", "join"]);
        let site = Self::adopt(self.name, dir, self.store.clone());
        site.ok(&[&["site", "join", token.trim(), "--peer", peer], options].concat());
        site
    }

    /// Has a command start the daemon, which ends in a program of its own, as `ip netns exec` does.
    pub fn launch_by(&mut self, command: &Command) {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        self.launcher = words.map(OsString::from).collect();
    }

    /// Returns the text of the configuration.
    pub fn config(&self) -> String {
        fs::read_to_string(self.dir.join("penstock.toml")).unwrap()
    }

    /// Writes another configuration.
    pub fn set_config(&self, text: &str) {
        fs::write(self.dir.join("penstock.toml"), text).unwrap();
    }

    /// Replaces `from`, which must be there, by `to` in the configuration.
    pub fn reconfigure(&self, from: &str, to: &str) {
        let text = self.config();
        assert!(text.contains(from), "no `{from}` in {text}");
        self.set_config(&text.replace(from, to));
    }

    /// Returns the process number of the daemon.
    pub fn process(&self) -> u32 {
        self.daemon.as_ref().expect("the daemon runs").0.id()
    }

    /// Returns where the daemon has listened last.
    pub fn address(&self) -> SocketAddr {
        self.address.expect("the daemon was started")
    }

    /// Sends a signal to the daemon.
    pub fn signal(&self, name: Signal) {
        signal(self.process(), name);
    }

    /// Returns the text that the daemon has logged.
    pub fn log_text(&self) -> String {
        fs::read_to_string(self.log.path()).unwrap()
    }

    /// Starts the daemon and waits until it is ready; returns where it listens.
    pub fn start(&mut self) -> SocketAddr {
        self.start_with(&[])
    }

    /// Starts the daemon with options and waits until it is ready; returns where it listens.
    pub fn start_with(&mut self, options: &[&str]) -> SocketAddr {
        let began = Instant::now();
        loop {
            let line = self.launch(options);
            let address = line.strip_prefix("ready: ").and_then(|line| line.split(' ').next_back());
            if let Some(address) = address.and_then(|word| word.trim().parse().ok()) {
                self.address = Some(address);
                return address;
            }
            // Another process may have taken the port since it was chosen.
            let is_taken = self.log_text().contains("in use") && began.elapsed() < PATIENCE;
            assert!(is_taken, "site {} is not ready: {line}", self.name);
            std::thread::sleep(LOOK);
        }
    }

    /// Starts the daemon; returns the first line that it prints.
    fn launch(&mut self, options: &[&str]) -> String {
        let log = File::options().append(true).open(self.log.path()).unwrap();
        let mut command = penstock();
        if let Some((program, words)) = self.launcher.split_first() {
            command = Command::new(program);
            command.args(words).stdin(Stdio::null());
        }
        command.arg("daemon").arg("--dir").arg(&self.dir).args(options);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        self.daemon = Some((child, out));
        line
    }

    /// Ends the daemon in order.
    pub fn stop(&mut self) {
        if let Some((mut child, _)) = self.daemon.take() {
            signal(child.id(), Signal::TERM);
            let status = child.wait().unwrap();
            assert!(status.success(), "site {} ended by {status}: {}", self.name, self.log_text());
        }
    }

    /// Kills the daemon by `kill -9`, as a crash would.
    pub fn kill(&mut self) {
        if let Some((mut child, _)) = self.daemon.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Returns a command for this site.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = penstock();
        command.args(args).arg("--dir").arg(&self.dir).current_dir(self.dir.parent().unwrap());
        command
    }

    /// Runs a command for this site to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed; returns its standard output.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?} at {}: {}", self.name, told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must fail with `code`; returns its standard error.
    pub fn fails(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", told(&output));
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    /// Runs a command that must succeed; returns the JSON lines that it prints.
    pub fn lines(&self, args: &[&str]) -> Vec<Value> {
        let text = self.ok(args);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Pairs with another running site.
    pub fn pair(&self, other: &Self) {
        let token = self.ok(&["site", "pair"]);
        other.ok(&["site", "pair", token.lines().last().unwrap().trim()]);
    }

    /// Returns a site as `site list` shows it here.
    pub fn listed(&self, site: &str) -> Value {
        let all = self.lines(&["site", "list", "--json"]);
        all.into_iter().find(|listed| listed["name"] == site).unwrap()
    }

    /// Makes a running site `lab` of one peer, paired with this one.
    pub fn paired_lab(&self, root: &Path) -> Self {
        let mut lab = Self::init(root, "lab", None);
        lab.start();
        lab.pair(self);
        lab
    }

    /// Submits a transfer here; returns its id.
    pub fn submit(&self, args: &[&str]) -> String {
        self.ok(&[&["transfer", "submit"], args].concat()).trim().to_owned()
    }

    /// Returns the state of a transfer.
    pub fn show(&self, id: &str) -> Value {
        serde_json::from_str(&self.ok(&["transfer", "show", id, "--json"])).unwrap()
    }

    /// Returns all transfers.
    pub fn list(&self) -> Vec<Value> {
        self.lines(&["transfer", "list", "--json"])
    }

    /// Returns the peers of the site, as this one lists them.
    pub fn peers(&self) -> Vec<Value> {
        self.lines(&["peer", "list", "--json"])
    }

    /// Returns the last events of the site.
    pub fn events(&self) -> Vec<Value> {
        self.lines(&["site", "events", "--json", "--limit", "1000"])
    }

    /// Returns the paths to another site as this one sees them.
    pub fn paths(&self, other: &str) -> Value {
        serde_json::from_str(&self.ok(&["site", "paths", other, "--json"])).unwrap()
    }

    /// Follows the events of a transfer from now on.
    pub fn watch(&self, id: &str) -> Run {
        Run::spawn(&mut self.command(&["transfer", "watch", id, "--json"]))
    }

    /// Waits until a transfer has ended; returns its summary.
    pub fn wait(&self, id: &str) -> Value {
        self.watch(id).until(|event| event["type"] == "summary")
    }

    /// Waits for the end of a transfer, which must be `done`; returns its summary.
    pub fn wait_done(&self, id: &str) -> Value {
        let summary = self.wait(id);
        assert_eq!(summary["state"], "done", "{summary}");
        summary
    }

    /// Waits for the end of a transfer by `transfer wait`; returns how that ended.
    pub fn follow(&self, id: &str) -> Ended {
        Run::spawn(&mut self.command(&["transfer", "wait", id, "--json"])).end()
    }

    /// Looks at a transfer until `is` holds of it, which must be before it has ended otherwise. The
    /// daemon has an event for figures once a second only, and none at all while it is dead.
    pub fn show_until(&self, id: &str, is: impl Fn(&Value) -> bool) -> Value {
        Wait::new("a state of a transfer").until(|| {
            let view = self.show(id);
            if is(&view) {
                return Ok(view);
            }
            let has_ended = ["done", "failed", "cancelled"].iter().any(|end| view["state"] == *end);
            assert!(!has_ended, "it ended meanwhile: {view}");
            Err(view)
        })
    }

    /// Looks at the daemon's status until `is` holds of it.
    pub fn status_until(&self, is: impl Fn(&Value) -> bool) -> Value {
        Wait::new("a status").until(|| {
            let output = self.run(&["site", "status", "--json"]);
            let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
            if is(&status) { Ok(status) } else { Err(told(&output)) }
        })
    }

    /// Waits until the peers of the site are so many, and one of them leads.
    pub fn until_peers(&self, count: usize) -> Value {
        self.status_until(|status| {
            let cluster = &status["cluster"];
            cluster["peers"].as_array().is_some_and(|peers| peers.len() == count)
                && !cluster["leader"].is_null()
        })
    }

    /// Waits until the daemon's log holds some words.
    pub fn until_log(&self, words: &str) {
        Wait::new(format!("`{words}`")).until(|| {
            let log = self.log_text();
            if log.contains(words) { Ok(()) } else { Err(log) }
        });
    }

    /// Returns the remains of transfers in this site's store and journal.
    pub fn leftovers(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let temporary = |path: &Path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(".pst-") || path.parent().is_some_and(|dir| dir.ends_with("markers"))
        };
        walk(&self.store, &mut |path| found.extend(temporary(path).then(|| path.to_owned())));
        let journal = fs::read_dir(self.dir.join("journal"));
        found.extend(journal.into_iter().flatten().map(|entry| entry.unwrap().path()));
        found
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some((mut child, _)) = self.daemon.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() || std::env::var_os("PENSTOCK_TEST_LOG").is_some() {
            println!("site {}", self.name);
            print_tail(self.log.path(), LOG_LINES);
        }
    }
}

/// Prints the last lines of a log.
pub fn print_tail(log: &Path, lines: usize) {
    let text = fs::read_to_string(log).unwrap_or_default();
    let all: Vec<_> = text.lines().collect();
    println!("--- {}\n{}", log.display(), all[all.len().saturating_sub(lines)..].join("\n"));
}

/// Makes two running sites, `a` and `b`, that trust each other, with stores at these places.
pub fn two_sites(base: &Path, store_a: &Path, store_b: &Path) -> (Site, Site) {
    let (mut a, mut b) = (Site::at_port(base, "a", store_a), Site::at_port(base, "b", store_b));
    a.start();
    b.start();
    a.pair(&b);
    (a, b)
}

/// Returns the time of an event of a site, as `--json` prints it, in milliseconds since 1970.
///
/// # Panics
/// It has none.
pub fn event_ms(event: &Value) -> u64 {
    let time = event["at"].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    time.unwrap_or_else(|| panic!("an event without a time: {event}")).ms()
}
