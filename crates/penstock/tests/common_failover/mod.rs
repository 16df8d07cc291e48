//! Transfers between sites of several peers in the project's laboratory, broken in the middle: a
//! shared way to begin one, to see how it goes on, and to judge how it ended.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use penstock_lab::Lab;
use serde_json::Value;
use tempfile::TempDir;

use crate::common_net::still::{Moment, Still, cpu_time};
use crate::common_net::{assert_same, make_set, scratch, seed, walk};

pub const MIB: u64 = 1 << 20;
/// What transfers of these tests are limited to, in bytes per second: one interface carries that
/// alone, and two cores are not what limits.
pub const RATE: u64 = 8 * MIB;
/// Longest that a transfer may take, failure included.
const PATIENCE: Duration = Duration::from_secs(180);
/// Longest that the ledger may stand still after a failure of one part.
pub const GAP_MAX: Duration = Duration::from_secs(10);
/// Longest until a dead or crawling path is emptied.
const GIVEN_UP_MAX: Duration = Duration::from_secs(3);
/// What lanes may have in hand: what is asked for ahead on both paths of a peer, 6 MiB each.
pub const IN_FLIGHT: u64 = 12 * MIB;
/// How many bytes are there when something is lost: so many that to begin again from zero would
/// break every bound on what may be sent twice.
pub const THERE: u64 = 4 * IN_FLIGHT;
/// MiB of the large file in most cases: as much comes after the loss as takes four seconds.
const LARGE_MIB: usize = 80;
/// Longest that an event may take to be told: a lease ends first, a silent peer is asked for 2 s.
const TOLD: Duration = Duration::from_secs(40);
/// Share of this machine's processors that the daemons and etcds of a lab may use in a transfer:
/// links are to limit it.
const LOAD_MAX: f64 = 0.7;
/// A machine that stands still for so long may cost a controller its lease.
const LEASE_MIN: Duration = Duration::from_secs(1);
/// Two networks for data, for labs that want nothing else.
const NETWORK: [&str; 6] = ["--nics", "2", "--nic-rate", "100m", "--rtt", "2ms"];

/// An event of a transfer, and when it was heard.
type Heard = (Instant, Value);

/// A transfer under way.
pub struct World {
    pub lab: Lab,
    pub id: String,
    /// The host at which it is looked at.
    pub at: String,
    heard: Arc<Mutex<Vec<Heard>>>,
    listener: Option<JoinHandle<()>>,
    waiter: Option<Child>,
    /// CPU time of this machine, in all and idle, at the beginning.
    cpu: (u64, u64),
    /// When the transfer was submitted, what daemons and etcds had used of the processors then, and
    /// the share that they have used when it has ended.
    begun: Instant,
    used: Duration,
    share: f64,
    /// When the machine stood still.
    still: Still,
    /// The same moment in milliseconds since 1970: events before it are of the lab's beginning.
    since_ms: u64,
    /// Bytes over the data interfaces of the target at the beginning.
    wire: u64,
    /// Bytes that were there when something was lost.
    there: u64,
    _root: TempDir,
}

/// Brings a lab up and starts a transfer of large and small files from site a to site b, submitted
/// and followed at the host `at`. `None`, loudly, where labs cannot be made.
pub fn begin(test: &str, at: &str, options: &[&str]) -> Option<World> {
    begin_of(test, at, LARGE_MIB, options)
}

/// The same with a large file of so many MiB, for what takes its time.
pub fn begin_of(test: &str, at: &str, large_mib: usize, options: &[&str]) -> Option<World> {
    let mut world = bring_up(test, at, options)?;
    make_set(&world.lab.store('a').join("set"), large_mib, 300, seed());
    world.submit();
    Some(world)
}

/// The lab alone.
pub fn bring_up(test: &str, at: &str, options: &[&str]) -> Option<World> {
    if let Err(why) = penstock_lab::can_run() {
        println!("SKIPPED: {test} {why}");
        return None;
    }
    let root = scratch();
    let name = format!("f{}{test}", std::process::id());
    let directory = root.path().join("lab");
    let penstock = env!("CARGO_BIN_EXE_penstock");
    let fixed = ["--name", &name, "--root", directory.to_str().unwrap(), "--penstock", penstock];
    let network = if options.contains(&"--nics") { &[][..] } else { &NETWORK[..] };
    let began = Instant::now();
    let lab = Lab::up(&[&fixed[..], network, options].concat()).unwrap();
    println!("the lab is up after {:.1} s", began.elapsed().as_secs_f64());
    let heard = Arc::default();
    let (listener, waiter) = (None, None);
    let (id, at, cpu) = (String::new(), at.to_owned(), cpu_time());
    let (begun, used, share, since_ms) = (Instant::now(), Duration::ZERO, 0.0, 0);
    let (wire, there, _root, still) = (0, 0, root, Still::watch());
    Some(World {
        lab,
        id,
        at,
        heard,
        listener,
        waiter,
        cpu,
        begun,
        used,
        share,
        still,
        since_ms,
        wire,
        there,
        _root,
    })
}

/// Bytes over both data interfaces of a host, by their own counters.
pub fn carried(lab: &Lab, host: &str) -> u64 {
    ["net1", "net2"].map(|device| lab.bytes(host, device).unwrap()).iter().sum()
}

/// A number of an event or a summary, 0 if it has none.
pub fn number(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or(0)
}

fn carried_by_target(lab: &Lab) -> u64 {
    lab.hosts('b').iter().map(|host| carried(lab, host)).sum()
}

impl World {
    /// Starts the transfer of `set`.
    pub fn submit(&mut self) {
        self.submit_with(&["--bwlimit=8MiB/s", "--piece-size=1M"]);
    }

    /// The same with other options.
    pub fn submit_with(&mut self, options: &[&str]) {
        let words = ["transfer", "submit", "a:data/set", "b:data/"];
        (self.cpu, self.wire) = (cpu_time(), carried_by_target(&self.lab));
        (self.begun, self.used) = (Instant::now(), self.lab.cpu_time());
        self.since_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        let id = self.lab.call(&self.at, &[&words[..], options].concat()).unwrap();
        self.id = id.trim().to_owned();
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let mut watch = self.lab.penstock(&self.at, &["transfer", "watch", &self.id, "--json"]);
        let mut watch =
            watch.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("watch a transfer");
        let (heard, lines) = (Arc::clone(&self.heard), watch.stdout.take().unwrap());
        self.listener = Some(std::thread::spawn(move || {
            use std::io::BufRead as _;
            for line in std::io::BufReader::new(lines).lines().map_while(Result::ok) {
                let event: Value = serde_json::from_str(&line).unwrap();
                heard.lock().unwrap_or_else(PoisonError::into_inner).push((Instant::now(), event));
            }
            let _ = watch.wait();
        }));
        let mut wait = self.lab.penstock(&self.at, &["transfer", "wait", &self.id]);
        let wait = wait.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.waiter = Some(wait.expect("wait for a transfer"));
    }

    /// All events so far.
    pub fn events(&self) -> Vec<Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The last event so far that tells how the transfer stands.
    pub fn last(&self) -> Value {
        let events = self.events();
        let told = events.iter().rev().find(|(_, event)| event["type"] != "error");
        told.map(|(_, event)| event.clone()).unwrap_or_default()
    }

    /// Waits until `is` holds of an event from now on.
    pub fn until(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let (began, mut from) = (Instant::now(), self.events().len().saturating_sub(1));
        loop {
            let events = self.events();
            if let Some((_, event)) = events[from..].iter().find(|(_, event)| is(event)) {
                return event.clone();
            }
            from = events.len();
            let ended = events.last().is_some_and(|(_, event)| event["type"] == "summary");
            let in_time = began.elapsed() < PATIENCE;
            assert!(!ended && in_time, "{what}: waited in vain: {}", self.last());
            // Events of another process, whose reader tells nobody.
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until so many bytes are verified and written.
    pub fn until_bytes(&self, bytes: u64) -> Value {
        self.until("bytes", |event| event["bytes"].as_u64().unwrap_or(0) >= bytes)
    }

    /// Waits until so many bytes are there, before something is lost; gives the moment.
    pub fn until_there(&mut self, bytes: u64) -> Instant {
        self.there = number(&self.until_bytes(bytes), "bytes");
        Instant::now()
    }

    /// Waits until `look` gives something.
    pub fn wait_for<T>(&self, what: &str, mut look: impl FnMut(&Lab) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            if let Some(found) = look(&self.lab) {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "{what}: waited in vain");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits for the end of the transfer: exit 0, the tree whole, nothing temporary left. Gives the
    /// summary.
    pub fn finish(&mut self) -> Value {
        let began = Instant::now();
        let waiter = self.waiter.as_mut().expect("a transfer was submitted");
        let status = loop {
            if let Some(status) = waiter.try_wait().unwrap() {
                break status;
            }
            assert!(began.elapsed() < PATIENCE, "it does not end: {}", self.last());
            std::thread::sleep(Duration::from_millis(20));
        };
        assert!(status.success(), "exit code {:?}: {}", status.code(), self.last());
        self.listener.take().expect("a transfer was submitted").join().unwrap();
        let summary = self.last();
        assert_eq!((&summary["type"], &summary["state"]), (&"summary".into(), &"done".into()));
        self.assert_whole();
        let (all, idle) = cpu_time();
        let (all, idle) = (all - self.cpu.0, idle - self.cpu.1);
        let used = self.lab.cpu_time().saturating_sub(self.used).as_secs_f64();
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        self.share = used / (self.begun.elapsed().as_secs_f64() * processors);
        println!(
            "load of this machine: {} %, of it by what is tested {:.0} %",
            (all - idle) * 100 / all.max(1),
            self.share * 100.0
        );
        summary
    }

    /// Asserts by the interfaces' own counters that no more than `bound` was sent twice, headers
    /// and requests being under a twentieth (a fiftieth, as a rule); and that it would be more if
    /// all had begun again from zero.
    pub fn assert_sent_twice(&self, summary: &Value, bound: u64) {
        let wire = carried_by_target(&self.lab) - self.wire;
        let payload = summary["bytes"].as_u64().unwrap();
        let (beyond, most) = (wire.saturating_sub(payload), payload / 20 + bound);
        println!("{beyond} bytes on the wire beyond {payload}; {most} may be");
        println!("resent {}, of {} that were there", summary["bytes_resent"], self.there);
        assert!(self.there > most, "{} and {most} bytes prove nothing", self.there);
        assert!(beyond <= most, "{wire} bytes on the wire: {summary}");
    }

    /// Both trees are the same, and nothing temporary is left.
    pub fn assert_whole(&self) {
        let target = self.lab.store('b');
        assert_same(&self.lab.store('a').join("set"), &target.join("set"));
        let mut left = Vec::new();
        walk(&target, &mut |path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            left.extend(name.starts_with(".pst-").then(|| path.to_owned()));
        });
        assert_eq!(left, Vec::<PathBuf>::new(), "temporary files are left");
    }

    /// The longest time after `from` in which the ledger did not move, until all bytes were there,
    /// but for that in which the machine itself stood still.
    pub fn longest_gap(&self, from: Instant) -> Duration {
        let events = self.events();
        let (mut last, mut before, mut longest) = (from, 0, Duration::ZERO);
        for (at, event) in events.iter().filter(|(_, event)| event["type"] != "error") {
            let (bytes, durable) = (number(event, "bytes"), number(event, "bytes_durable"));
            // A new controller begins with what was committed, and a little less may be there.
            let moved = bytes + durable != before;
            before = bytes + durable;
            if *at < from || !moved {
                continue;
            }
            if *at - last > longest {
                longest = longest.max((*at - last).saturating_sub(self.still.between(last, *at)));
            }
            last = *at;
        }
        println!("the ledger stood still for {:.1} s at most", longest.as_secs_f64());
        longest
    }

    /// Asserts that the ledger never stood still for longer than is allowed, where links have
    /// limited the transfer and not the processors: else that would prove little, and it is said.
    pub fn assert_no_gap(&self, from: Instant) {
        let longest = self.longest_gap(from);
        if self.share > LOAD_MAX {
            let share = self.share * 100.0;
            println!("NOT JUDGED: {share:.0} % of all processors were used by what is tested");
            return;
        }
        assert!(longest <= GAP_MAX, "the ledger stood still for {longest:?}");
    }

    /// Whether the machine stood still for so long since a moment that leases may have ended by it;
    /// says so.
    pub fn lost_leases(&self, from: Instant) -> bool {
        self.still.between(from, Instant::now()) >= LEASE_MIN
    }

    /// What the site of a host has seen since the transfer was submitted, as that host tells it.
    pub fn site_events(&self, host: &str) -> Vec<Value> {
        let words = ["site", "events", "--json", "--limit", "1000"];
        let text = self.lab.call(host, &words).unwrap_or_default();
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["at_ms"].as_u64().unwrap() >= self.since_ms).collect()
    }

    /// Waits until the site of a host tells an event of a kind whose text has all of these words;
    /// gives the event.
    pub fn told(&self, host: &str, kind: &str, words: &[&str]) -> Value {
        let began = Instant::now();
        loop {
            let events = self.site_events(host);
            let is = |event: &&Value| {
                let text = event["text"].as_str().unwrap_or_default();
                event["kind"] == kind && words.iter().all(|word| text.contains(word))
            };
            if let Some(event) = events.iter().find(is) {
                let transfer = &event["transfer"];
                assert!(transfer.is_null() || *transfer == *self.id, "{event}");
                println!("event of {host}: {kind}: {}", event["text"].as_str().unwrap());
                return event.clone();
            }
            let texts: Vec<_> = events.iter().map(|event| event["text"].clone()).collect();
            assert!(began.elapsed() < TOLD, "{host} tells no `{kind}` with {words:?}: {texts:#?}");
            // Events of other processes, which tell nobody.
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Asserts that a path was given up, as an event tells that was heard just now, as soon as is
    /// promised after a moment.
    pub fn assert_given_up(&self, from: &Moment, event: &Value) {
        self.still.assert_soon(from, number(event, "at_ms"), GIVEN_UP_MAX);
    }

    /// Waits until the daemon of a host has said `words` in its log.
    pub fn said(&self, host: &str, words: &str) {
        self.wait_for(&format!("{host} says `{words}`"), |lab| {
            lab.log(host).contains(words).then_some(())
        });
    }

    /// Whether any daemon of these hosts has said `words`.
    pub fn any_said(&self, hosts: &[&str], words: &str) -> bool {
        hosts.iter().any(|host| self.lab.log(host).contains(words))
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(mut waiter) = self.waiter.take() {
            let _ = waiter.kill();
            let _ = waiter.wait();
        }
        if std::thread::panicking() || std::env::var_os("PENSTOCK_TEST_LOG").is_some() {
            show_logs(self.lab.root());
        }
    }
}

/// The ends of all logs of a lab.
fn show_logs(root: &Path) {
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let log = fs::read_to_string(&path).unwrap_or_default();
            let lines: Vec<_> = log.lines().collect();
            let tail = lines[lines.len().saturating_sub(30)..].join("\n");
            println!("--- {}\n{tail}", path.display());
        }
    }
}

/// Every file with what would tell that somebody has touched it.
pub fn stamps(root: &Path) -> std::collections::BTreeMap<PathBuf, (u64, i64, i64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let mut stamps = std::collections::BTreeMap::new();
    walk(root, &mut |path| {
        // The sync marker of a transfer goes when it ends.
        if !path.components().any(|part| part.as_os_str() == ".penstock-store-7q2mv0kd9j") {
            let meta = fs::symlink_metadata(path).unwrap();
            let stamp = (meta.ino(), meta.ctime(), meta.ctime_nsec(), meta.len());
            stamps.insert(path.to_owned(), stamp);
        }
    });
    stamps
}

/// Runs a program to its end, which must be good.
pub fn ran(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", crate::common_net::told(&output));
}
