//! What the crash tests share: seeded randomness, data sets, runs that are watched by their JSON
//! lines, sites that are killed and started again, loop-mounted file systems, and judges of the
//! result that are not ours (`find`, `sha256sum`, `rsync`).

// Each test program uses its own part of this.
#![allow(dead_code)]

pub(crate) mod mounts;
pub(crate) mod sites;

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_penstock");
/// Nothing that is waited for in these tests takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// The randomness of a test; its seed is printed, and `PENSTOCK_TEST_SEED` repeats it.
pub(crate) fn rng(test: &str) -> ChaCha8Rng {
    let given = std::env::var("PENSTOCK_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = given.unwrap_or_else(rand::random::<u64>);
    println!("{test}: PENSTOCK_TEST_SEED={seed}");
    ChaCha8Rng::seed_from_u64(seed)
}

/// The program for other users: where the repository lies in a private directory, a copy in `base`,
/// which others can reach.
pub(crate) fn program_of_others(base: &Path) -> PathBuf {
    let is_open = |directory: &Path| fs::metadata(directory).unwrap().mode() & 0o001 != 0;
    if Path::new(BINARY).ancestors().skip(1).all(is_open) {
        return PathBuf::from(BINARY);
    }
    let program = base.join("program-of-others");
    if !program.exists() {
        fs::copy(BINARY, &program).unwrap();
    }
    program
}

/// Whether the test runs as root; says loudly that it is skipped if not.
pub(crate) fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED: {test} needs root, for mounts or other users");
    }
    root
}

/// Whether strace(1) is here, and may trace.
pub(crate) fn can_trace(test: &str) -> bool {
    let traced = traced(&[]).arg("true").output();
    let can = traced.is_ok_and(|output| output.status.success());
    if !can {
        eprintln!("SKIPPED: {test} needs strace, which is not here or may not trace");
    }
    can
}

/// strace(1), which gives errors in the place of system calls to the program that follows.
pub(crate) fn traced(faults: &[&str]) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null"]);
    let calls = faults.iter().map(|fault| fault.split(':').next().unwrap_or_default());
    let calls: Vec<_> = calls.collect();
    let calls = if calls.is_empty() { "none".to_owned() } else { calls.join(",") };
    command.arg("-e").arg(format!("trace={calls}"));
    for fault in faults {
        command.arg("-e").arg(format!("inject={fault}"));
    }
    command
}

/// A directory of its own on the disk of `TMPDIR`, removed at the end.
pub(crate) fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("penstock-test-").tempdir().unwrap()
}

/// As [`scratch`], in memory where there is room for it: for many files, whose names a disk takes
/// long to make and to remove.
pub(crate) fn scratch_in_memory(bytes: u64) -> tempfile::TempDir {
    let space = rustix::fs::statvfs("/dev/shm").map(|space| space.f_bavail * space.f_frsize);
    if space.is_ok_and(|free| free > bytes) {
        let builder = tempfile::Builder::new().prefix("penstock-test-").tempdir_in("/dev/shm");
        return builder.unwrap();
    }
    scratch()
}

/// Runs a program that must succeed; gives its standard output.
pub(crate) fn tool(program: &str, args: &[&dyn AsRef<OsStr>]) -> Vec<u8> {
    let mut command = Command::new(program);
    command.args(args.iter().map(|arg| arg.as_ref())).env("LC_ALL", "C").env("TZ", "UTC");
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    output.stdout
}

/// Makes files of random sizes in 8 directories: `files` of up to `small` bytes, then one of each
/// of `large`; an empty file and directory, and a link. The bytes are parts of one block of noise.
pub(crate) fn make_files(
    rng: &mut ChaCha8Rng,
    root: &Path,
    files: usize,
    small: usize,
    large: &[usize],
) {
    let mut noise = vec![0; 4 << 20];
    rng.fill_bytes(&mut noise);
    for at in 0..8 {
        fs::create_dir_all(root.join(format!("dir{at}"))).unwrap();
    }
    for at in 0..files {
        let size = rng.random_range(0..=small);
        let from = rng.random_range(0..noise.len() - size);
        let path = root.join(format!("dir{}/small{at}", at % 8));
        fs::write(path, &noise[from..from + size]).unwrap();
    }
    for (at, size) in large.iter().enumerate() {
        let path = root.join(format!("dir{}/large{at}", at % 8));
        let mut file = File::create(path).unwrap();
        let mut left = *size;
        while left > 0 {
            let from = rng.random_range(0..noise.len() - 1);
            let part = left.min(noise.len() - from);
            file.write_all(&noise[from..from + part]).unwrap();
            left -= part;
        }
    }
    fs::create_dir(root.join("empty")).unwrap();
    fs::write(root.join("nothing"), b"").unwrap();
    std::os::unix::fs::symlink("dir0/small0", root.join("link")).unwrap();
}

/// Modes, times, sizes and links of a tree, as `find` sees them, then what `sha256sum` makes of its
/// files. The private directory, which is a store's own, is left out.
pub(crate) fn listing(root: &Path) -> String {
    let script = r#"cd -- "$1" && find . -path "./.penstock-store-*" -prune -o \( \
        -type d -printf 'd %m %T@ %P\0' -o -type f -printf 'f %m %T@ %s %P\0' \
        -o -printf '%y %T@ %l %P\0' \) | sort -z | tr '\0' '\n' \
        && find . -path "./.penstock-store-*" -prune -o -type f -print0 \
        | sort -z | xargs -0r sha256sum"#;
    let listed = tool("bash", &[&"-o", &"pipefail", &"-c", &script, &"bash", &root]);
    String::from_utf8_lossy(&listed).into_owned()
}

/// Judges by tools that are not ours that two trees are the same, and that nothing temporary is
/// left in `target`.
pub(crate) fn assert_same(source: &Path, target: &Path) {
    assert_no_leftovers(target);
    let (left, right) = (listing(source), listing(target));
    if left != right {
        let ours: std::collections::BTreeSet<_> = left.lines().collect();
        let theirs: std::collections::BTreeSet<_> = right.lines().collect();
        let only: Vec<_> = ours.symmetric_difference(&theirs).take(20).collect();
        panic!("{} and {} differ: {only:#?}", source.display(), target.display());
    }
    if Command::new("rsync").arg("--version").stdout(Stdio::null()).status().is_ok() {
        let (from, to) = (format!("{}/", source.display()), format!("{}/", target.display()));
        let flags =
            ["-rlptn", "--checksum", "--delete", "--exclude=/.penstock-store-7q2mv0kd9j", "-i"];
        let [a, b, c, d, e] = flags;
        let changes = tool("rsync", &[&a, &b, &c, &d, &e, &from, &to]);
        assert_eq!(String::from_utf8_lossy(&changes), "", "rsync would change something");
    }
}

/// Copies the contents of `source` with more options.
pub(crate) fn copy_with(copy: &Copy, source: &Path, target: &Path, options: &[&str]) -> Ended {
    let contents = format!("{}/", source.display());
    Run::spawn(copy.command(contents, target).args(options)).end()
}

/// What rsync would still change at the target, with more options; a line for each item.
pub(crate) fn rsync_would(source: &Path, target: &Path, options: &[&str]) -> String {
    let (from, to) = (format!("{}/", source.display()), format!("{}/", target.display()));
    let mut command = Command::new("rsync");
    command.args(["-aHn", "--checksum", "-i"]).args(options).arg(from).arg(to);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Every final name below `target` is complete and right: its bytes and times are those of the
/// same name below `source` (promise (b)). Gives the number of files looked at.
pub(crate) fn assert_finals_right(source: &Path, target: &Path) -> usize {
    let mut looked_at = 0;
    for path in files_below(target) {
        let relative = path.strip_prefix(target).unwrap();
        let hidden = relative.starts_with(".penstock-store-7q2mv0kd9j");
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if hidden || name.starts_with(".pst-") {
            continue;
        }
        let expected = source.join(relative);
        let same = fs::read(&path).unwrap() == fs::read(&expected).unwrap();
        assert!(same, "{} has its name but not its bytes", path.display());
        let times = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(times(&path), times(&expected), "{}", path.display());
        looked_at += 1;
    }
    looked_at
}

/// Regular files below a directory.
pub(crate) fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() {
                open.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found
}

/// No temporary file is left below `root`.
pub(crate) fn assert_no_leftovers(root: &Path) {
    let found = tool("find", &[&root, &"-name", &".pst-*"]);
    assert_eq!(String::from_utf8_lossy(&found), "", "temporary files are left");
}

/// Sum of the sizes of regular files.
pub(crate) fn bytes_below(root: &Path) -> u64 {
    files_below(root).iter().map(|path| fs::metadata(path).unwrap().len()).sum()
}

/// A number of a status line or summary.
pub(crate) fn figure(event: &Value, name: &str) -> u64 {
    event[name].as_u64().unwrap_or_else(|| panic!("no `{name}` in {event}"))
}

/// Lets a process run for a small part of the time, so that fast disks leave time to break things.
/// It runs freely again, and can be waited for or killed, once this is dropped.
pub(crate) struct Slowly {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Slowly {
    pub(crate) fn new(process: u32) -> Self {
        Self::with_stops(process, Duration::from_millis(57))
    }

    /// Stops it for `stops` at a time, for some milliseconds between.
    pub(crate) fn with_stops(process: u32, stops: Duration) -> Self {
        use rustix::process::{Pid, Signal, kill_process};
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, id) = (Arc::clone(&stop), Pid::from_raw(process as i32).unwrap());
        let thread = std::thread::spawn(move || {
            while !asked.load(Ordering::Acquire) {
                // A process that has ended is a zombie until the test has waited for it.
                let _ = kill_process(id, Signal::STOP);
                std::thread::sleep(stops);
                let _ = kill_process(id, Signal::CONT);
                std::thread::sleep(Duration::from_millis(3));
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Slowly {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A running command that prints JSON lines.
pub(crate) struct Run {
    child: Child,
    lines: Receiver<Value>,
    errors: Option<JoinHandle<String>>,
    /// When each line came.
    pub(crate) seen: VecDeque<(Instant, Value)>,
}

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Exit code; 128 and the signal's number after a signal.
    pub(crate) code: i32,
    /// The last line of standard output; null if there was none.
    pub(crate) last: Value,
    /// Standard error.
    pub(crate) errors: String,
    /// All lines, and when they came.
    pub(crate) seen: VecDeque<(Instant, Value)>,
}

impl Ended {
    /// Fails the test unless the command ended with `code`.
    pub(crate) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{}", self.last, self.errors);
        self
    }

    pub(crate) fn figure(&self, name: &str) -> u64 {
        figure(&self.last, name)
    }
}

impl Run {
    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null()).spawn();
        let child_ref = child.as_mut().unwrap();
        let stdout = BufReader::new(child_ref.stdout.take().unwrap());
        let mut stderr = child_ref.stderr.take().unwrap();
        let (send, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                // A line that a kill has cut short is no line.
                if let Ok(value) = serde_json::from_str(&line) {
                    let _ = send.send(value);
                }
            }
        });
        let errors = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Self { child: child.unwrap(), lines, errors: Some(errors), seen: VecDeque::new() }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line; `None` at the end of the output.
    pub(crate) fn next(&mut self) -> Option<Value> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(value) => {
                self.seen.push_back((Instant::now(), value.clone()));
                Some(value)
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no status line for {PATIENCE:?}"),
        }
    }

    /// Waits for a line; `None` if the output ends before it.
    pub(crate) fn wait_for(&mut self, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        let until = Instant::now() + PATIENCE;
        while let Some(value) = self.next() {
            if wanted(&value) {
                return Some(value);
            }
            assert!(Instant::now() < until, "waited in vain; the last line: {value}");
        }
        None
    }

    /// Reads lines until `time` has passed; `false` if the output ended before.
    pub(crate) fn watch_for(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(value) => self.seen.push_back((Instant::now(), value)),
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// `kill -9`, and what was seen until then.
    pub(crate) fn kill(mut self) -> Ended {
        self.child.kill().unwrap();
        self.end()
    }

    /// Waits for the end.
    pub(crate) fn end(mut self) -> Ended {
        while self.next().is_some() {}
        let status = self.child.wait().unwrap();
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        let errors = self.errors.take().map(|errors| errors.join().unwrap());
        let last = self.seen.back().map(|(_, value)| value.clone()).unwrap_or(Value::Null);
        let seen = std::mem::take(&mut self.seen);
        Ended { code, last, errors: errors.unwrap_or_default(), seen }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `penstock copy`, with its state in a directory of the test.
pub(crate) struct Copy {
    pub(crate) base: PathBuf,
}

impl Copy {
    pub(crate) fn new(base: &Path) -> Self {
        Self { base: base.to_owned() }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.base.join("state")
    }

    pub(crate) fn command(&self, source: impl AsRef<OsStr>, target: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(BINARY);
        command.args(["copy", "--json"]).arg(source).arg(target);
        self.place(&mut command);
        command
    }

    /// In a process that may have so many descriptors.
    pub(crate) fn command_with_descriptors(
        &self,
        most: u32,
        source: impl AsRef<OsStr>,
        target: impl AsRef<OsStr>,
    ) -> Command {
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={most}:{most}")).args([BINARY, "copy", "--json"]);
        command.arg(source).arg(target);
        self.place(&mut command);
        command
    }

    /// As the user `nobody`, who must be able to reach what it is about.
    pub(crate) fn command_as_nobody(&self, source: &Path, target: &Path) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(program_of_others(&self.base)).args(["copy", "--json"]);
        command.arg(source).arg(target);
        self.place(&mut command);
        command
    }

    /// As a user of this number, who needs no account.
    pub(crate) fn command_as(&self, user: u32, source: &str, target: &Path) -> Command {
        let mut command = Command::new(program_of_others(&self.base));
        command.args(["copy", "--json", source]).arg(target).uid(user).gid(user);
        self.place(&mut command);
        command
    }

    /// With errors that strace(1) puts in the place of system calls, as `flock:error=ENOLCK`.
    pub(crate) fn command_with_faults(
        &self,
        faults: &[&str],
        source: impl AsRef<OsStr>,
        target: impl AsRef<OsStr>,
    ) -> Command {
        let mut command = traced(faults);
        command.args([BINARY, "copy", "--json"]).arg(source).arg(target);
        self.place(&mut command);
        command
    }

    fn place(&self, command: &mut Command) {
        command.env("PENSTOCK_STATE_HOME", self.state()).current_dir(&self.base);
    }

    pub(crate) fn spawn(&self, source: impl AsRef<OsStr>, target: impl AsRef<OsStr>) -> Run {
        Run::spawn(&mut self.command(source, target))
    }

    pub(crate) fn run(&self, source: impl AsRef<OsStr>, target: impl AsRef<OsStr>) -> Ended {
        self.spawn(source, target).end()
    }

    /// A copy that has ended keeps no state.
    pub(crate) fn assert_no_state(&self) {
        let left = fs::read_dir(self.state().join("copy")).map(|entries| entries.count());
        assert_eq!(left.unwrap_or(0), 0, "state of a copy is left");
    }
}
