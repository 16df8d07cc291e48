//! Two real sites with a proxy in front of each, and what tests of the network do with them.

pub mod caller;
pub mod proxy;
pub mod still;
pub mod stream;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Lines};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;
use tempfile::TempDir;

use proxy::Proxy;

/// Longest that anything is waited for.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// How long to wait between two looks at what tells nobody when it changes. Each look is a process,
/// and those that are waited for want the processors.
pub const LOOK: Duration = Duration::from_millis(50);

/// Seed of a test's random choices: `PENSTOCK_TEST_SEED`, or another one each time. Printed, so
/// that a failure can be repeated.
pub fn seed() -> u64 {
    let given = std::env::var("PENSTOCK_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    println!("PENSTOCK_TEST_SEED={seed}");
    seed
}

/// A directory in memory where there is one: these tests are about the network.
pub fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let parent = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    tempfile::Builder::new().prefix("penstock-net").tempdir_in(parent).unwrap()
}

/// The program under test.
pub fn penstock() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_penstock"));
    command.env_remove("PENSTOCK_DIR").env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// What a command said, for a person who reads the failure of a test.
pub fn told(output: &Output) -> String {
    format!(
        "{}\n--- stdout\n{}--- stderr\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// A site directory, its one store `data`, and its daemon while it runs.
pub struct Site {
    pub name: &'static str,
    pub dir: PathBuf,
    pub store: PathBuf,
    daemon: Option<(Child, BufReader<ChildStdout>)>,
}

impl Site {
    /// Makes the site below `root`.
    pub fn init(root: &Path, name: &'static str, advertise: Option<SocketAddr>) -> Self {
        let (dir, store) = (root.join(format!("site-{name}")), root.join(format!("store-{name}")));
        fs::create_dir(&store).unwrap();
        let mut command = penstock();
        command.args(["site", "init", "--name", name, "--listen", "127.0.0.1:0"]);
        command.args(["--write=*", "--delete=*", "--dir"]);
        command.arg(&dir).arg(format!("--store=data={}", store.display()));
        if let Some(address) = advertise {
            command.arg(format!("--advertise={address}"));
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        Self { name, dir, store, daemon: None }
    }

    /// A site directory that was made otherwise.
    #[allow(dead_code, reason = "some test binaries have no use for it")]
    pub fn adopt(name: &'static str, dir: PathBuf, store: PathBuf) -> Self {
        Self { name, dir, store, daemon: None }
    }

    /// Process number of the daemon.
    #[allow(dead_code, reason = "some test binaries have no use for it")]
    pub fn process(&self) -> u32 {
        self.daemon.as_ref().unwrap().0.id()
    }

    fn log(&self) -> PathBuf {
        self.dir.join("daemon.log")
    }

    /// What the daemon has said.
    pub fn log_text(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Starts the daemon, and gives where it listens.
    pub fn start(&mut self) -> SocketAddr {
        self.start_with(&[])
    }

    /// The same, with options.
    pub fn start_with(&mut self, options: &[&str]) -> SocketAddr {
        let line = self.launch(penstock(), options);
        let address = line.trim().rsplit(' ').next().and_then(|word| word.parse().ok());
        address.unwrap_or_else(|| panic!("site {} is not ready: {line}", self.name))
    }

    /// Starts the daemon by a command that runs the program; gives the first line that it says.
    pub fn launch(&mut self, mut command: Command, options: &[&str]) -> String {
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        command.arg("daemon").arg("--dir").arg(&self.dir).args(options).env_remove("PENSTOCK_DIR");
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        self.daemon = Some((child, out));
        line
    }

    /// Ends the daemon in order.
    #[allow(dead_code, reason = "some test binaries have no use for it")]
    pub fn stop(&mut self) {
        if let Some((mut child, _)) = self.daemon.take() {
            let ended = Command::new("kill").arg(child.id().to_string()).status().unwrap();
            assert!(ended.success());
            let status = child.wait().unwrap();
            assert!(status.success(), "site {} ended by {status}: {}", self.name, self.log_text());
        }
    }

    /// Kills the daemon, as a crash would.
    pub fn kill(&mut self) {
        if let Some((mut child, _)) = self.daemon.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// A command for this site.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = penstock();
        command.args(args).arg("--dir").arg(&self.dir).current_dir(&self.dir);
        command
    }

    /// Runs a command for this site to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed, and gives its standard output.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?} at {}: {}", self.name, told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Submits a transfer here, and gives its id.
    pub fn submit(&self, args: &[&str]) -> String {
        let args: Vec<_> = ["transfer", "submit"].iter().chain(args).copied().collect();
        self.ok(&args).trim().to_owned()
    }

    /// How a transfer stands.
    pub fn show(&self, id: &str) -> Value {
        serde_json::from_str(&self.ok(&["transfer", "show", id, "--json"])).unwrap()
    }

    /// All transfers.
    pub fn list(&self) -> Vec<Value> {
        let text = self.ok(&["transfer", "list", "--json"]);
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The events of a transfer from now on.
    pub fn watch(&self, id: &str) -> Watch {
        let mut command = self.command(&["transfer", "watch", id, "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Watch { child, lines, id: id.to_owned() }
    }

    /// Waits until a transfer has ended, and gives its summary.
    pub fn wait(&self, id: &str) -> Value {
        self.watch(id).until(|event| event["type"] == "summary")
    }

    /// Waits for the end of a transfer, which must be `done`.
    pub fn wait_done(&self, id: &str) -> Value {
        let summary = self.wait(id);
        assert_eq!(summary["state"], "done", "{summary}");
        summary
    }

    /// Looks at a transfer again and again until `is` holds of it.
    pub fn show_until(&self, id: &str, is: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let view = self.show(id);
            if is(&view) {
                return view;
            }
            assert!(began.elapsed() < PATIENCE, "waited in vain: {view}");
            assert!(!has_ended(&view), "it ended meanwhile: {view}");
            std::thread::sleep(LOOK);
        }
    }

    /// What is left of transfers in this site's store and journal.
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
        if std::thread::panicking() || std::env::var_os("PENSTOCK_TEST_LOG").is_some() {
            let log = self.log_text();
            let lines: Vec<_> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(60)..].join("\n");
            println!("--- log of site {}\n{tail}", self.name);
        }
        if let Some((mut child, _)) = self.daemon.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whether a transfer has ended.
pub fn has_ended(view: &Value) -> bool {
    ["done", "failed", "cancelled"].iter().any(|state| view["state"] == *state)
}

/// A running `transfer watch --json`.
pub struct Watch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    id: String,
}

impl Watch {
    /// The next event.
    pub fn next(&mut self) -> Option<Value> {
        let line = self.lines.next()?.unwrap();
        Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}")))
    }

    /// Reads events until `is` holds of one.
    pub fn until(&mut self, is: impl Fn(&Value) -> bool) -> Value {
        self.until_within(PATIENCE, is)
    }

    /// The same, for what may take another time.
    pub fn until_within(&mut self, patience: Duration, is: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        let mut last = Value::Null;
        while let Some(event) = self.next() {
            if is(&event) {
                return event;
            }
            assert!(began.elapsed() < patience, "waited in vain: {event}");
            last = event;
        }
        panic!("the events of {} ended with {last}", self.id)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two sites, `a` and `b`, paired through the proxies that each of them advertises.
pub struct World {
    pub a: Site,
    pub b: Site,
    pub proxy_a: Proxy,
    pub proxy_b: Proxy,
    pub root: TempDir,
}

impl World {
    pub fn new() -> Self {
        let root = scratch();
        let (proxy_a, proxy_b) = (Proxy::start(), Proxy::start());
        let mut a = Site::init(root.path(), "a", Some(proxy_a.address()));
        let mut b = Site::init(root.path(), "b", Some(proxy_b.address()));
        proxy_a.set_upstream(a.start());
        proxy_b.set_upstream(b.start());
        pair(&a, &b);
        Self { a, b, proxy_a, proxy_b, root }
    }

    /// Both proxies.
    pub fn proxies(&self) -> [&Proxy; 2] {
        [&self.proxy_a, &self.proxy_b]
    }
}

/// Pairs two running sites.
pub fn pair(a: &Site, b: &Site) {
    let token = a.ok(&["site", "pair"]);
    b.ok(&["site", "pair", token.trim()]);
}

/// A running site `lab` of one peer, paired with the site of `at`.
pub fn lab(root: &Path, at: &Site) -> Site {
    let mut lab = Site::init(root, "lab", None);
    lab.start();
    pair(&lab, at);
    lab
}

/// Writes a file of `bytes` random bytes, with its directories.
pub fn random_file(path: &Path, bytes: usize, rng: &mut ChaCha8Rng) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut content = vec![0; bytes];
    rng.fill_bytes(&mut content);
    fs::write(path, content).unwrap();
}

/// Makes a data set of files of three sizes at `root`: `large` MiB in one, a few of 1 MiB, many
/// small ones.
pub fn make_set(root: &Path, large_mib: usize, small: usize, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    random_file(&root.join("large.bin"), large_mib << 20, &mut rng);
    for number in 0..4 {
        random_file(&root.join(format!("middle/{number}.bin")), 1 << 20, &mut rng);
    }
    for number in 0..small {
        let path = root.join(format!("small/{}/{number}.bin", number % 7));
        random_file(&path, 1 + number * 37 % 20_000, &mut rng);
    }
}

/// Calls `each` with everything below a directory.
pub fn walk(dir: &Path, each: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(dir).into_iter().flatten() {
        // It may vanish meanwhile: transfers run.
        let Ok(entry) = entry else { continue };
        each(&entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), each);
        }
    }
}

/// Every file below a directory, with the digest of its content.
pub fn tree(root: &Path) -> BTreeMap<PathBuf, blake3::Hash> {
    let mut files = BTreeMap::new();
    walk(root, &mut |path| {
        if path.is_file() {
            let content = fs::read(path).unwrap();
            files.insert(path.strip_prefix(root).unwrap().to_owned(), blake3::hash(&content));
        }
    });
    files
}

/// Two trees must hold the same files with the same content.
pub fn assert_same(from: &Path, to: &Path) {
    let (from_tree, to_tree) = (tree(from), tree(to));
    assert!(!from_tree.is_empty(), "{} is empty", from.display());
    for (path, hash) in &from_tree {
        let there = to_tree.get(path);
        assert_eq!(there, Some(hash), "`{}` differs or is missing", path.display());
    }
    assert_eq!(from_tree.len(), to_tree.len(), "there is more at {}", to.display());
}
