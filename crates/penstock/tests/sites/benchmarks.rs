//! Benchmarks of stores: real daemons measure, keep the result, and leave nothing behind.

use std::fs;
use std::path::Path;

use penstock_testkit::{Etcd, Scratch, Site, Wait, make_set, seed};
use serde_json::Value;

/// A short benchmark: two sizes of files, and names.
const SHORT: [&str; 6] = ["--sizes", "4KiB,1MiB", "--seconds", "1", "--repeats", "1"];

/// Measures a store, and returns the result.
fn measure(site: &Site, options: &[&str]) -> Value {
    let args: Vec<&str> =
        ["bench", "storage", "data", "--json"].iter().chain(options).copied().collect();
    serde_json::from_str(&site.ok(&args)).unwrap()
}

/// Directories of benchmarks in a store, and their records at a peer.
fn left(site: &Site) -> usize {
    let count = |directory: &Path, is: fn(&str) -> bool| {
        let Ok(names) = fs::read_dir(directory) else { return 0 };
        names.filter(|name| is(&name.as_ref().unwrap().file_name().to_string_lossy())).count()
    };
    count(&site.store, |name| name.starts_with(".penstock-bench-"))
        + count(&site.dir.join("benchmarks"), |_| true)
}

fn point<'a>(result: &'a Value, operation: &str, size: u64) -> &'a Value {
    let points = result["points"].as_array().unwrap();
    let is = |point: &&Value| point["operation"] == operation && point["size_bytes"] == size;
    points.iter().find(is).unwrap_or_else(|| panic!("no {operation} of {size}: {result}"))
}

/// Checks that a result has all points, and rates that are not zero.
fn check(result: &Value, peers: usize) {
    assert_eq!(result["state"], "done", "{result}");
    assert_eq!(result["peers"].as_array().unwrap().len(), peers);
    for (operation, size) in [
        ("write", 4096),
        ("read", 4096),
        ("write", 1 << 20),
        ("read", 1 << 20),
        ("create", 0),
        ("rename", 0),
        ("stat", 0),
        ("list", 0),
        ("unlink", 0),
    ] {
        let point = point(result, operation, size);
        assert_eq!(point["runs"].as_array().unwrap().len(), 1, "{point}");
        assert!(point["files_per_s"]["median"].as_f64().unwrap() > 0.0, "{point}");
        let is_short = point["runs"][0]["first_done_s"].as_f64().unwrap() < 5.0;
        assert!(!is_short || point["marks"][0] == "short", "{point}");
    }
    let written = &point(result, "write", 1 << 20)["runs"][0];
    let bytes = written["bytes"].as_u64().unwrap();
    assert_eq!(bytes, written["files"].as_u64().unwrap() << 20);
    let time = |name: &str| written[name].as_f64().unwrap();
    assert!(time("first_done_s") <= time("last_done_s"));
    assert!(time("last_done_s") <= time("durable_s"));
    assert!(point(result, "read", 4096)["runs"][0]["cache"].is_string());
}

/// Checks the layers of a result against the disk of its store, if that is on one: each run has the
/// work of the devices of the peer, and the nearest to the file system carried what was written.
fn check_layers(result: &Value, store: &Path, text: &str) {
    let devices = result["peers"][0]["devices"].as_array();
    let known = penstock_sys::device_of(store).unwrap().is_some();
    let has_title = text.contains("Layers of the largest files");
    assert_eq!((devices.is_some(), has_title), (known, known), "{text} {result}");
    let Some(devices) = devices else { return };
    let names: Vec<&str> = devices.iter().map(|device| device["name"].as_str().unwrap()).collect();
    assert!(devices[0]["depth"] == 0 && text.contains(&format!("  {} (", names[0])), "{text}");
    for point in result["points"].as_array().unwrap() {
        let traffic = point["runs"][0]["traffic"].as_array().unwrap();
        assert!(traffic.iter().all(|work| names.contains(&work["device"].as_str().unwrap())));
    }
    let run = &point(result, "write", 1 << 20)["runs"][0];
    let nearest: u64 = run["traffic"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|work| devices.iter().any(|it| it["depth"] == 0 && it["name"] == work["device"]))
        .map(|work| work["written_bytes"].as_u64().unwrap())
        .sum();
    assert!(nearest >= run["bytes"].as_u64().unwrap(), "all was durable: {run}");
}

/// Promise: two peers measure a store together; the site keeps the result after the loss of its
/// controller; nothing is left in the store.
#[test]
fn two_peers_measure_and_the_site_keeps_the_result() {
    let root = Scratch::in_memory();
    let Some(etcd) = Etcd::start(root.path(), 1) else { return };
    let mut h1 = Site::first_peer(root.path(), "hpc", &etcd);
    let h2 = h1.join(root.path(), "h2");
    // Any peer takes the request.
    let result = measure(&h2, &SHORT);
    check(&result, 2);
    assert_eq!((left(&h1), left(&h2)), (0, 0));
    h1.kill();
    h2.status_until(|status| status["cluster"]["is_leader"] == true);
    let [kept] = &h2.lines(&["bench", "show", "data", "--json"])[..] else {
        panic!("one result is kept");
    };
    assert_eq!(kept["id"], result["id"]);
    assert_eq!(kept["points"], result["points"]);
    assert!(kept["stale"].is_null(), "{kept}");
}

/// Promise: a site of one peer keeps its results over a restart, and refuses a benchmark for which
/// there is too little room, one of a store that it has not, and a second one at a time.
#[test]
fn one_peer_measures_and_refuses_what_would_do_harm() {
    let root = Scratch::in_memory();
    let mut site = Site::init(root.path(), "lab", None);
    site.start();
    let result = measure(&site, &SHORT);
    check(&result, 1);
    let text = site.ok(&["bench", "show", "data"]);
    assert!(text.contains("1.0 MiB") && text.contains("unlink"), "{text}");
    check_layers(&result, &site.store, &text);
    site.stop();
    site.start();
    let kept = &site.lines(&["bench", "show", "--json"])[0];
    assert_eq!(kept["points"], result["points"]);
    let said = site.fails(6, &["bench", "storage", "data", "--budget", "1000T"]);
    assert!(said.contains("too little room") && said.contains("1.2 times"), "{said}");
    assert_eq!(left(&site), 0);
    let said = site.fails(2, &["bench", "storage", "data:nowhere"]);
    assert!(said.contains("has no directory `nowhere`"), "{said}");
    let said = site.fails(2, &["bench", "clean", "data:nowhere"]);
    assert!(said.contains("has no directory `nowhere`") && said.contains("mkdir"), "{said}");
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let said = site.fails(2, &["bench", "storage", "data", "--out", file.to_str().unwrap()]);
    assert!(said.contains("is not a directory") && said.contains("--out"), "{said}");
    for words in ["storage", "show"] {
        let said = site.fails(2, &["bench", words, "typo"]);
        assert!(said.contains("has no store `typo`"), "{said}");
    }
    let mut long = site.command(&["bench", "storage", "data", "--seconds", "60", "--ops", "meta"]);
    let mut long = long.spawn().unwrap();
    let runs = || site.lines(&["bench", "show", "data", "--json"])[0]["state"] == "running";
    Wait::new("the benchmark runs").is(runs);
    let said = site.fails(6, &["bench", "storage", "data"]);
    assert!(said.contains("benchmark") && said.contains("runs"), "{said}");
    site.ok(&["bench", "cancel", "data"]);
    assert_eq!(long.wait().unwrap().code(), Some(130));
    let newest = &site.lines(&["bench", "show", "data", "--json"])[0];
    assert_eq!(newest["state"], "cancelled");
    assert_eq!(left(&site), 0);
}

/// Promise: the devices below a store are named, with what each carried in each run.
#[test]
fn layers_below_a_store_are_measured() {
    let root = Scratch::on_disk();
    let mut site = Site::init(root.path(), "lab", None);
    site.start();
    let bytes = ["--ops", "write,read", "--budget", "64MiB"];
    let result = measure(&site, &[&SHORT[..], &bytes].concat());
    assert_eq!(result["state"], "done", "{result}");
    check_layers(&result, &site.store, &site.ok(&["bench", "show", "data"]));
    assert_eq!(left(&site), 0);
}

/// Promise: each number of threads is measured by itself, and the result names them.
#[test]
fn numbers_of_threads_are_measured() {
    let root = Scratch::in_memory();
    let mut site = Site::init(root.path(), "lab", None);
    site.start();
    let steps = ["--sizes", "4KiB", "--seconds", "1", "--repeats", "1", "--budget", "64MiB"];
    let result = measure(&site, &[&steps[..], &["--threads", "1-2"]].concat());
    assert_eq!(result["state"], "done", "{result}");
    assert_eq!(result["threads_asked"], serde_json::json!([1, 2]));
    let points = result["points"].as_array().unwrap();
    for operation in ["write", "read", "create", "rename", "stat", "list", "unlink"] {
        let its = points.iter().filter(|point| point["operation"] == operation);
        let threads: Vec<u64> = its.map(|point| point["threads"].as_u64().unwrap()).collect();
        assert_eq!(threads, [1, 2], "{operation}");
    }
    let text = site.ok(&["bench", "show", "data"]);
    assert!(text.contains("done, with --threads 1,2") && text.contains("THREADS"), "{text}");
    let said = site.fails(2, &["bench", "storage", "data", "--threads", "0"]);
    assert!(said.contains("numbers from 1 to 256"), "{said}");
    assert_eq!(left(&site), 0);
}

/// Promise: a benchmark is refused beside a transfer of its store, and measures beside one on
/// request; one that begins while it measures does not end it, and shows in the result.
#[test]
fn transfers_beside_a_benchmark_are_named() {
    let root = Scratch::in_memory();
    let mut site = Site::init(root.path(), "lab", None);
    site.start();
    make_set(&site.store.join("set"), 24, 10, seed());
    let slow = |to: &str| {
        let options = ["--bwlimit=1MiB/s", "--piece-size=1M"];
        let id = site.submit(&[&["lab:data/set", to], &options[..]].concat());
        Wait::new("the transfer runs").is(|| site.show(&id)["state"] == "running");
        id
    };
    let steps = ["--ops", "write", "--sizes", "4KiB", "--seconds", "2", "--budget", "64MiB"];
    let id = slow("lab:data/one/");
    let said = site.fails(6, &["bench", "storage", "data"]);
    assert!(said.contains("a transfer reads from store `data`"), "{said}");
    let beside = measure(&site, &[&steps[..], &["--repeats", "1", "--with-load"]].concat());
    assert_eq!(beside["with_load"], true, "{beside}");
    site.ok(&["transfer", "cancel", &id]);
    site.wait(&id);
    let mut long = site.command(&["bench", "storage", "data"]);
    let mut long = long.args(steps).args(["--repeats", "4"]).spawn().unwrap();
    let newest = || site.lines(&["bench", "show", "data", "--json"]).swap_remove(0);
    Wait::new("a step runs").is(|| {
        let newest = newest();
        newest["state"] == "running" && newest["step"] != "preparing"
    });
    let id = slow("lab:data/two/");
    assert!(long.wait().unwrap().success());
    let newest = newest();
    assert_eq!((&newest["state"], &newest["with_load"]), (&"done".into(), &true.into()));
    let text = site.ok(&["bench", "show", "data"]);
    assert!(text.contains("done, beside transfers"), "{text}");
    site.ok(&["transfer", "cancel", &id]);
}

/// Promise: a daemon that is stopped in the middle leaves nothing, and the result says why it has
/// ended.
#[test]
fn a_stopped_daemon_removes_its_files() {
    let root = Scratch::in_memory();
    let mut site = Site::init(root.path(), "lab", None);
    site.start();
    let mut running = site.command(&["bench", "storage", "data", "--budget", "64MiB"]);
    let mut running = running.spawn().unwrap();
    Wait::new("files are written").is(|| left(&site) == 2);
    site.stop();
    running.wait().unwrap();
    assert_eq!(left(&site), 0);
    site.start();
    let kept = &site.lines(&["bench", "show", "data", "--json"])[0];
    assert_eq!(kept["state"], "failed", "{kept}");
    assert!(kept["problem"].as_str().unwrap().contains("was stopped"), "{kept}");
}

/// Promise: after `kill -9` in the middle nothing is left of a benchmark once the daemon runs
/// again; `clean` removes what no record names.
#[test]
fn nothing_is_left_of_a_killed_benchmark() {
    let root = Scratch::in_memory();
    let mut site = Site::init(root.path(), "lab", None);
    site.start();
    let mut running = site.command(&["bench", "storage", "data", "--seconds", "60"]);
    let mut running = running.spawn().unwrap();
    Wait::new("files are written").is(|| left(&site) == 2);
    site.kill();
    running.wait().unwrap();
    assert_eq!(left(&site), 2, "the killed daemon has left its files and their record");
    site.start();
    Wait::new("the files are removed").is(|| left(&site) == 0);
    let lost = site.store.join(".penstock-bench-00112233445566778899aabbccddeeff/p0/w");
    fs::create_dir_all(&lost).unwrap();
    fs::write(lost.join("f0000000000"), b"x").unwrap();
    let said = site.ok(&["bench", "clean", "data"]);
    assert!(said.contains("removed 1 file and 3 directories"), "{said}");
    assert_eq!(left(&site), 0);
}
