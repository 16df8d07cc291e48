//! Six slow places, planted one at a time: each is named as what limits the transfer, while it runs
//! and after its end. Shares and rates are printed and not judged: the machine may be busy.

use std::path::Path;
use std::time::Duration;

use penstock_testkit::{
    Copy, Fuse, ProxiedPair, Run, Scratch, assert_same, can_trace, make_files, rng, two_sites,
};
use serde_json::Value;

const MIB: usize = 1 << 20;

/// Makes files of so many bytes in `src`.
fn large_source(base: &Path, sizes: &[usize]) {
    make_files(&mut rng("bottleneck"), &base.join("src"), 0, 0, sizes);
}

/// Returns the cause and its side, as `write at target`.
fn cause_of(bottleneck: &Value) -> String {
    let word = |key: &str| bottleneck[key].as_str().unwrap_or("neither").to_owned();
    format!("{} at {}", word("code"), word("at"))
}

/// Asserts that a copy that has ended was limited by one of some causes.
fn assert_cause(copy: Run, causes: &[&str]) {
    let summary = copy.end().expect(0).last;
    println!("{}: {}", summary["bottleneck"]["text"], summary["time"]);
    let cause = cause_of(&summary["bottleneck"]);
    assert!(causes.contains(&&*cause), "{cause}: {summary}");
}

/// Returns a copy of `src` by one thread, in which a call of the system takes a tenth of a second
/// more. The ledger makes some of these calls too, so there are far more of the copy's own.
fn slow_copy(base: &Path, call: &str) -> Run {
    let fault = format!("{call}:delay_enter=100000");
    let copy = Copy::new(base);
    let mut command = copy.command_with_faults(&[&fault], base.join("src/"), base.join("dst"));
    Run::spawn(command.args(["--max-lanes", "1"]))
}

/// Promise: where the disk of the source is slow, reading is named; of one host.
#[test]
fn a_slow_disk_of_the_source_is_named() {
    if !can_trace("a slow disk") {
        return;
    }
    let base = Scratch::on_disk();
    large_source(base.path(), &[20 * MIB, 20 * MIB]);
    assert_cause(slow_copy(base.path(), "pread64"), &["read at source"]);
}

/// Promise: where the disk of the target is slow, it is named: by what lanes write, or by the
/// ledger, which this disk slows as well.
#[test]
fn a_slow_disk_of_the_target_is_named() {
    if !can_trace("a slow disk") {
        return;
    }
    let base = Scratch::on_disk();
    large_source(base.path(), &[20 * MIB, 20 * MIB]);
    let slow = slow_copy(base.path(), "pwrite64");
    assert_cause(slow, &["write at target", "durability at target"]);
}

/// Promise: a process of one processor that has nothing to wait for is limited by that.
#[test]
fn one_processor_is_named() {
    let base = Scratch::in_memory();
    large_source(base.path(), &[60 * MIB, 60 * MIB]);
    let mut command = Copy::new(base.path()).command(base.path().join("src/"), "dst");
    assert_cause(Run::spawn(command.args(["--cpus", "1"])), &["cpu at neither"]);
}

/// Promise: where files are so small that making them takes the time, that is named.
#[test]
fn the_metadata_of_small_files_is_named() {
    let base = Scratch::in_memory();
    make_files(&mut rng("bottleneck"), &base.path().join("src"), 20_000, 4, &[]);
    let copy = Copy::new(base.path()).spawn(base.path().join("src/"), base.path().join("dst"));
    assert_cause(copy, &["metadata at target"]);
}

/// Promise (E17): between two sites too a slow disk of the source is named, though the target only
/// ever waits for bytes; a transfer that has ended can still be explained, by side and peer.
#[test]
fn a_slow_disk_of_a_far_source_is_named() {
    let base = Scratch::on_disk();
    let tree = base.path().join("tree");
    make_files(&mut rng("bottleneck"), &tree.join("set"), 0, 0, &[8 * MIB, 8 * MIB]);
    let Some(fuse) = Fuse::mount(&tree, &base.path().join("mount"), 0) else { return };
    fuse.latency.set_read(Duration::from_millis(100));
    let target = base.path().join("b");
    let (a, b) = two_sites(base.path(), &fuse.path, &target);
    let id = b.submit(&["a:data/set", "b:data/"]);
    let is_named = |view: &Value| cause_of(&view["bottleneck"]) == "read at source";
    let view = b.show_until(&id, |view| view["state"] == "running" && is_named(view));
    println!("{}", view["bottleneck"]["text"]);
    fuse.latency.set_read(Duration::from_millis(20));
    b.wait_done(&id);
    let view = b.show(&id);
    assert!(is_named(&view), "{view}");
    assert!(is_named(&a.show(&id)), "the other site");
    let time = &view["progress"]["time"];
    let (source, target) = (&time["source"][0], &time["target"][0]);
    println!("{time}");
    assert_eq!(source["peer"], "dtn1");
    let spent = |side: &Value, activity: &str| side["lanes"][activity].as_f64().unwrap();
    assert!(spent(source, "read") > spent(source, "hash"), "{time}");
    assert!(spent(target, "wait_source") > spent(target, "write"), "{time}");
    let told = b.ok(&["transfer", "show", &id]);
    let is_line = |line: &str, side: &str| line.starts_with(side) && line.contains(" % ");
    for side in ["  source ", "  target "] {
        assert!(told.lines().any(|line| is_line(line, side)), "{told}");
    }
    assert!(told.contains("reading at the source"), "{told}");
    assert_same(&tree.join("set"), &base.path().join("b/set"));
}

/// Promise (E17): a slow network is named, and neither of the sites that wait for it.
#[test]
fn a_slow_network_is_named() {
    let world = ProxiedPair::start();
    make_files(&mut rng("bottleneck"), &world.a.store.join("set"), 0, 0, &[12 * MIB]);
    world.proxies().iter().for_each(|proxy| proxy.set_rate(Some(24e6)));
    let id = world.b.submit(&["a:data/set", "b:data/"]);
    let is_named = |view: &Value| cause_of(&view["bottleneck"]) == "link at neither";
    world.b.show_until(&id, |view| view["state"] == "running" && is_named(view));
    world.b.wait_done(&id);
    let view = world.b.show(&id);
    println!("{}: {}", view["bottleneck"]["text"], view["progress"]["time"]);
    assert!(is_named(&view), "{view}");
}
