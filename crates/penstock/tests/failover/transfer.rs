//! Transfers between sites of several peers in the project's laboratory, broken in the middle: a
//! shared way to begin one, to see how it goes on, and to judge how it ended.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use penstock_testkit::{
    Lab, Moment, Run, Scratch, Still, Wait, assert_no_leftovers, assert_same_files, can_run_lab,
    cpu_time, event_ms, make_set, number, print_tail, program, seed,
};
use serde_json::Value;

pub(super) const MIB: u64 = 1 << 20;
/// What transfers of these tests are limited to, in bytes per second: one interface carries that
/// alone, and two cores are not what limits.
pub(super) const RATE: u64 = 8 * MIB;
/// Longest that a transfer may take, failure included.
const PATIENCE: Duration = Duration::from_secs(180);
/// Longest that the ledger may stand still after a failure of one part.
pub(super) const GAP_MAX: Duration = Duration::from_secs(10);
/// Longest until a dead or crawling path is emptied.
const GIVEN_UP_MAX: Duration = Duration::from_secs(3);
/// What lanes may have in hand: what is asked for ahead on both paths of a peer, 6 MiB each.
pub(super) const IN_FLIGHT: u64 = 12 * MIB;
/// How many bytes are there when something is lost: so many that to begin again from zero would
/// break every bound on what may be sent twice.
pub(super) const THERE: u64 = 4 * IN_FLIGHT;
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

/// A transfer under way.
pub(super) struct LabTransfer {
    pub(super) lab: Lab,
    pub(super) id: String,
    /// The host at which it is looked at.
    pub(super) at: String,
    /// `transfer watch`, and `transfer wait`.
    watch: Option<RefCell<Run>>,
    client: Option<Run>,
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
    _root: Scratch,
}

/// Brings a lab up and starts a transfer of large and small files from site a to site b, submitted
/// and followed at the host `at`. `None`, loudly, where labs cannot be made.
pub(super) fn begin(test: &str, at: &str, options: &[&str]) -> Option<LabTransfer> {
    begin_of(test, at, LARGE_MIB, options)
}

/// The same with a large file of so many MiB, for what takes its time.
pub(super) fn begin_of(
    test: &str,
    at: &str,
    large_mib: usize,
    options: &[&str],
) -> Option<LabTransfer> {
    let mut world = bring_up(test, at, options)?;
    make_set(&world.lab.store('a').join("set"), large_mib, 300, seed());
    world.submit();
    Some(world)
}

/// The lab alone.
pub(super) fn bring_up(test: &str, at: &str, options: &[&str]) -> Option<LabTransfer> {
    if !can_run_lab(test) {
        return None;
    }
    let root = Scratch::in_memory();
    let name = format!("f{}{test}", std::process::id());
    let directory = root.path().join("lab");
    let fixed = ["--name", &name, "--root", directory.to_str().unwrap(), "--penstock", program()];
    let network = if options.contains(&"--nics") { &[][..] } else { &NETWORK[..] };
    let began = Instant::now();
    let lab = Lab::up(&[&fixed[..], network, options].concat()).unwrap();
    println!("the lab is up after {:.1} s", began.elapsed().as_secs_f64());
    Some(LabTransfer {
        lab,
        id: String::new(),
        at: at.to_owned(),
        watch: None,
        client: None,
        cpu: cpu_time(),
        begun: Instant::now(),
        used: Duration::ZERO,
        share: 0.0,
        still: Still::watch(),
        since_ms: 0,
        wire: 0,
        there: 0,
        _root: root,
    })
}

/// Bytes over both data interfaces of a host, by their own counters.
pub(super) fn carried(lab: &Lab, host: &str) -> u64 {
    ["net1", "net2"].map(|device| lab.bytes(host, device).unwrap()).iter().sum()
}

fn carried_by_target(lab: &Lab) -> u64 {
    lab.hosts('b').iter().map(|host| carried(lab, host)).sum()
}

impl LabTransfer {
    /// Starts the transfer of `set`.
    pub(super) fn submit(&mut self) {
        self.submit_with(&["--bwlimit=8MiB/s", "--piece-size=1M"]);
    }

    /// The same with other options.
    pub(super) fn submit_with(&mut self, options: &[&str]) {
        let words = ["transfer", "submit", "a:data/set", "b:data/"];
        (self.cpu, self.wire) = (cpu_time(), carried_by_target(&self.lab));
        (self.begun, self.used) = (Instant::now(), self.lab.cpu_time());
        self.since_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
        let id = self.lab.call(&self.at, &[&words[..], options].concat()).unwrap();
        self.id = id.trim().to_owned();
        let run = |words: &[&str]| Run::spawn(&mut self.lab.penstock(&self.at, words));
        self.watch = Some(RefCell::new(run(&["transfer", "watch", &self.id, "--json"])));
        self.client = Some(run(&["transfer", "wait", &self.id, "--json"]));
    }

    /// All events so far, and when they came.
    pub(super) fn events(&self) -> Vec<(Instant, Value)> {
        let watch = self.watch.as_ref().expect("a transfer was submitted");
        watch.borrow_mut().seen().iter().cloned().collect()
    }

    /// The last event so far that tells how the transfer stands.
    pub(super) fn last(&self) -> Value {
        let events = self.events();
        let told = events.iter().rev().find(|(_, event)| event["type"] != "error");
        told.map(|(_, event)| event.clone()).unwrap_or_default()
    }

    /// Waits until `is` holds of an event from now on.
    pub(super) fn until(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        let mut from = self.events().len().saturating_sub(1);
        self.wait(what).until(|| {
            let events = self.events();
            if let Some((_, event)) = events[from..].iter().find(|(_, event)| is(event)) {
                return Ok(event.clone());
            }
            from = events.len();
            let ended = events.last().is_some_and(|(_, event)| event["type"] == "summary");
            assert!(!ended, "{what}: it has ended: {}", self.last());
            Err(self.last())
        })
    }

    fn wait(&self, what: &str) -> Wait {
        Wait::new(what).at_most(PATIENCE).every(Duration::from_millis(20))
    }

    /// Waits until so many bytes are verified and written.
    pub(super) fn until_bytes(&self, bytes: u64) -> Value {
        self.until("bytes", |event| event["bytes"].as_u64().unwrap_or(0) >= bytes)
    }

    /// Waits until so many bytes are there, before something is lost; gives the moment.
    pub(super) fn until_there(&mut self, bytes: u64) -> Instant {
        self.there = number(&self.until_bytes(bytes), "bytes");
        Instant::now()
    }

    /// Waits until `look` gives something.
    pub(super) fn wait_for<T>(&self, what: &str, mut look: impl FnMut(&Lab) -> Option<T>) -> T {
        self.wait(what).some(|| look(&self.lab))
    }

    /// Waits for the end of the transfer: exit 0, the tree whole, nothing temporary left. Gives the
    /// summary.
    pub(super) fn finish(&mut self) -> Value {
        let summary = self.until("the end", |event| event["type"] == "summary");
        assert_eq!(summary["state"], "done", "{summary}");
        self.client.take().expect("a transfer was submitted").end().expect(0);
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
    pub(super) fn assert_sent_twice(&self, summary: &Value, bound: u64) {
        let wire = carried_by_target(&self.lab) - self.wire;
        let payload = summary["bytes"].as_u64().unwrap();
        let (beyond, most) = (wire.saturating_sub(payload), payload / 20 + bound);
        println!("{beyond} bytes on the wire beyond {payload}; {most} may be");
        println!("resent {}, of {} that were there", summary["bytes_resent"], self.there);
        assert!(self.there > most, "{} and {most} bytes prove nothing", self.there);
        assert!(beyond <= most, "{wire} bytes on the wire: {summary}");
    }

    /// Both trees are the same, and nothing temporary is left.
    pub(super) fn assert_whole(&self) {
        let target = self.lab.store('b');
        assert_same_files(&self.lab.store('a').join("set"), &target.join("set"));
        assert_no_leftovers(&target);
    }

    /// The longest time after `from` in which the ledger did not move, until all bytes were there,
    /// but for that in which the machine itself stood still.
    pub(super) fn longest_gap(&self, from: Instant) -> Duration {
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
    pub(super) fn assert_no_gap(&self, from: Instant) {
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
    pub(super) fn lost_leases(&self, from: Instant) -> bool {
        self.still.between(from, Instant::now()) >= LEASE_MIN
    }

    /// What the site of a host has seen since the transfer was submitted, as that host tells it.
    pub(super) fn site_events(&self, host: &str) -> Vec<Value> {
        let words = ["site", "events", "--json", "--limit", "1000"];
        let text = self.lab.call(host, &words).unwrap_or_default();
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event_ms(event) >= self.since_ms).collect()
    }

    /// Waits until the site of a host tells an event of a kind whose text has all of these words;
    /// gives the event.
    pub(super) fn told(&self, host: &str, kind: &str, words: &[&str]) -> Value {
        let wait = Wait::new(format!("`{kind}` with {words:?} at {host}")).at_most(TOLD);
        let event = wait.until(|| {
            let events = self.site_events(host);
            let is = |event: &&Value| {
                let text = event["text"].as_str().unwrap_or_default();
                event["kind"] == kind && words.iter().all(|word| text.contains(word))
            };
            let texts = || events.iter().map(|event| event["text"].to_string() + "\n").collect();
            events.iter().find(is).cloned().ok_or_else::<String, _>(texts)
        });
        let transfer = &event["transfer"];
        assert!(transfer.is_null() || *transfer == *self.id, "{event}");
        println!("event of {host}: {kind}: {}", event["text"].as_str().unwrap());
        event
    }

    /// Asserts that a path was given up, as an event tells that was heard just now, as soon as is
    /// promised after a moment.
    pub(super) fn assert_given_up(&self, from: &Moment, event: &Value) {
        self.still.assert_soon(from, event_ms(event), GIVEN_UP_MAX);
    }

    /// Waits until the daemon of a host has said `words` in its log.
    pub(super) fn said(&self, host: &str, words: &str) {
        self.wait_for(&format!("{host} says `{words}`"), |lab| {
            lab.log(host).contains(words).then_some(())
        });
    }

    /// Whether any daemon of these hosts has said `words`.
    pub(super) fn any_said(&self, hosts: &[&str], words: &str) -> bool {
        hosts.iter().any(|host| self.lab.log(host).contains(words))
    }
}

impl Drop for LabTransfer {
    fn drop(&mut self) {
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
            print_tail(&path, 30);
        }
    }
}
