//! The figures of daemons at work, as Prometheus reads them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use penstock_daemon::metrics::{Family, ShownBy, TABLE};
use penstock_testkit::{
    Etcd, Fuse, Scratch, Site, Wait, figure, make_set, number, seed, verified_at_least,
};

const MIB: u64 = 1 << 20;

/// The answer to one scrape.
struct Scrape {
    text: String,
    series: BTreeMap<String, f64>,
}

impl Scrape {
    /// Reads the figures of a peer over its socket.
    fn of(site: &Site) -> Self {
        let mut socket = UnixStream::connect(site.dir.join("penstock.sock")).unwrap();
        let request = "GET /metrics HTTP/1.1\r\nHost: penstock\r\nConnection: close\r\n\r\n";
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("text/plain; version=0.0.4"), "{head}");
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let series = lines.map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            (series.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line}")))
        });
        Self { series: series.collect(), text: text.to_owned() }
    }

    /// Returns the sum of the series of a family that have all of these labels.
    fn sum(&self, family: &str, labels: &[&str]) -> f64 {
        let of = |series: &str| {
            let (name, rest) = series.split_once('{').unwrap_or((series, ""));
            name == family && labels.iter().all(|label| rest.contains(label))
        };
        self.series.iter().filter(|(series, _)| of(series)).map(|(_, value)| value).sum()
    }

    /// Returns the names of the families that have series.
    fn families(&self) -> BTreeSet<&str> {
        let name = |series: &'_ String| -> usize { series.find('{').unwrap_or(series.len()) };
        let of_histogram = |name: &str| {
            let stem = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            stem.map(str::len).filter(|length| {
                self.text.contains(&format!("# TYPE {} histogram", &name[..*length]))
            })
        };
        let families = self.series.keys().map(|series| {
            let name = &series[..name(series)];
            of_histogram(name).map_or(name, |length| &name[..length])
        });
        families.collect()
    }

    /// Has promtool judge names, help and types, if it is installed.
    fn check(&self) {
        let promtool = Command::new("promtool")
            .args(["check", "metrics"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut promtool) = promtool else {
            println!("SKIPPED: promtool is not installed (Debian: prometheus)");
            return;
        };
        promtool.stdin.take().unwrap().write_all(self.text.as_bytes()).unwrap();
        let judged = promtool.wait_with_output().unwrap();
        let told = String::from_utf8_lossy(&judged.stderr);
        assert!(judged.status.success() && told.is_empty(), "{told}\n{}", self.text);
    }
}

/// A site `hpc` of two peers, the first of which leads, and a site `lab` of one.
pub(super) struct World {
    pub(super) h1: Site,
    pub(super) h2: Site,
    pub(super) lab: Site,
    _etcd: Etcd,
    pub(super) root: Scratch,
}

impl World {
    pub(super) fn new() -> Option<Self> {
        let root = Scratch::in_memory();
        let etcd = Etcd::start(root.path(), 1)?;
        let h1 = Site::first_peer(root.path(), "hpc", &etcd);
        let h2 = h1.join(root.path(), "h2");
        let lab = h2.paired_lab(root.path());
        Some(Self { h1, h2, lab, _etcd: etcd, root })
    }

    fn scrapes(&self) -> [Scrape; 3] {
        [&self.h1, &self.h2, &self.lab].map(|site| {
            let scrape = Scrape::of(site);
            scrape.check();
            scrape
        })
    }
}

/// Returns whether this host can show a family: one has no network card beside the loop-back.
fn can_show(family: &Family) -> bool {
    let nics = fs::read_dir("/sys/class/net").map_or(0, Iterator::count);
    family.name != "penstock_nic_bytes_total" || nics > 1
}

/// Promise: a pair of sites at work shows each family of the table and no other, those of transfers
/// at the controller alone, as promtool wants them; the bytes are those of the transfer; and a
/// restart resets counters, and nothing else.
#[test]
fn the_families_of_peers_at_work_are_those_of_the_table() {
    let Some(mut world) = World::new() else { return };
    make_set(&world.lab.store.join("set"), 24, 300, seed());
    let id = world.h2.submit(&["lab:data/set", "hpc:data/", "--bwlimit=8MiB/s", "--piece-size=1M"]);
    world.h2.watch(&id).until(verified_at_least(8 * MIB));
    let mut scrapes = Vec::from(world.scrapes());
    let [h1, h2, lab] = &scrapes[..] else { unreachable!("three peers") };
    assert_eq!(h1.sum("penstock_transfers", &[r#"state="running""#]), 1.0);
    assert_eq!(
        (h1.sum("penstock_controller", &[]), h2.sum("penstock_controller", &[])),
        (1.0, 0.0)
    );
    assert!(lab.sum("penstock_lanes", &[r#"direction="out""#]) > 0.0, "{}", lab.text);
    for family in TABLE.iter().flat_map(|group| group.families) {
        let is_shown = h2.families().contains(family.name);
        assert!(family.shown_by != ShownBy::Controller || !is_shown, "{}", family.name);
    }
    let summary = world.h2.wait_done(&id);
    let done = world.scrapes();
    let came: f64 = done.iter().map(|it| it.sum("penstock_bytes_total", &[r#""in""#])).sum();
    let went: f64 = done.iter().map(|it| it.sum("penstock_bytes_total", &[r#""out""#])).sum();
    let again: f64 = done.iter().map(|it| it.sum("penstock_resent_bytes_total", &[])).sum();
    let moved = figure(&summary, "bytes") as f64;
    println!("{came} bytes came, {went} went, {again} again; the transfer has {moved}");
    assert_eq!(came, moved + again);
    assert!(went >= came, "{went} {came}");
    assert_eq!(number(&summary, "bytes_resent") as f64, again);
    scrapes.extend(done);
    let none = world.h2.submit(&["lab:data/none", "hpc:data/none"]);
    assert_eq!(world.h2.wait(&none)["state"], "failed");
    // A source that is gone is a reason to try again.
    world.lab.kill();
    world.h2.submit(&["lab:data/set", "hpc:data/again"]);
    Wait::new("a retry is counted")
        .is(|| Scrape::of(&world.h1).sum("penstock_retries_total", &[]) > 0.0);
    scrapes.push(Scrape::of(&world.h1));
    let shown: BTreeSet<&str> = scrapes.iter().flat_map(Scrape::families).collect();
    let families = TABLE.iter().flat_map(|group| group.families);
    let wanted = families.clone().filter(|family| can_show(family)).map(|family| family.name);
    let missing: Vec<_> = wanted.filter(|name| !shown.contains(name)).collect();
    assert!(missing.is_empty(), "never shown: {missing:?}");
    let known: BTreeSet<&str> = families.map(|family| family.name).collect();
    assert_eq!(shown.difference(&known).collect::<Vec<_>>(), Vec::<&&str>::new());
    let before = Scrape::of(&world.h2);
    world.h2.stop();
    world.h2.start();
    let after = Scrape::of(&world.h2);
    assert_eq!(after.sum("penstock_bytes_total", &[]), 0.0);
    let size = "penstock_store_size_bytes";
    Wait::new("its stores are there")
        .is(|| Scrape::of(&world.h2).sum(size, &[]) == before.sum(size, &[]));
}

/// Promise (E2): a scrape is answered while a store hangs, and says that the store does.
#[test]
fn e2_a_scrape_waits_for_no_store() {
    let root = Scratch::in_memory();
    let tree = root.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let Some(fuse) = Fuse::mount(&tree, &root.path().join("mount"), 7 << 40) else { return };
    let mut site = Site::init(root.path(), "hpc", None);
    let more = format!(
        "{}\n[[store]]\nname = \"slow\"\npath = \"{}\"\n",
        site.config(),
        root.path().join("mount").display()
    );
    site.set_config(&more);
    site.start();
    let up = |store: &str| Scrape::of(&site).sum("penstock_store_up", &[store]);
    Wait::new("both stores are up").is(|| up("data") + up("slow") == 2.0);
    fuse.latency.hang(true);
    let limit = Duration::from_secs(90);
    let mut longest = Duration::ZERO;
    Wait::new("the store is down").at_most(limit).every(Duration::from_millis(200)).is(|| {
        let asked = Instant::now();
        let is_down = up("slow") == 0.0;
        longest = longest.max(asked.elapsed());
        is_down
    });
    println!("the longest scrape took {longest:?}");
    assert_eq!(up("data"), 1.0);
    fuse.latency.hang(false);
    Wait::new("it is up again").at_most(limit).is(|| up("slow") == 1.0);
}
