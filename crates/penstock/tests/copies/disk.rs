//! Target disks that are full, read-only or gone, sources that are taken away, and a host that runs
//! short. Needs root.

use std::fs;
use std::process::Command;

use penstock_testkit::{
    Copy, Mount, Scratch, Slowly, assert_finals_right, assert_same, bytes_below, figure,
    files_below, is_root, make_files, rng, two_sites,
};
use serde_json::Value;

const MIB: usize = 1 << 20;

fn reason_has(view: &Value, text: &str) -> bool {
    view["reason"].as_str().is_some_and(|reason| reason.contains(text))
}

/// A copy into a disk that is too small, until somebody makes room.
fn copy_into_full(test: &str, disk: &Mount, base: &std::path::Path) {
    let mut rng = rng(test);
    let source = base.join("src");
    make_files(&mut rng, &source, 400, 200_000, &[60 * MIB, 40 * MIB]);
    let ballast = disk.path.join("ballast");
    let room = bytes_below(&source) * 6 / 10;
    let space = rustix::fs::statvfs(&disk.path).unwrap();
    let free = space.f_bavail * space.f_frsize;
    fill(&ballast, free - room);
    let (copy, target) = (Copy::new(base), disk.path.join("dst"));
    let contents = format!("{}/", source.display());
    let full = copy.run(&contents, &target).expect(5);
    assert!(full.errors.contains("the target is full"), "{}", full.errors);
    assert!(full.errors.contains("hint: "), "{}", full.errors);
    assert_eq!(full.last["exit"], "temporary", "{}", full.last);
    assert_eq!(full.figure("errors"), 0, "a full disk is no item's fault: {}", full.last);
    println!("{} files complete on the full disk", assert_finals_right(&source, &target));
    // Still full: it says so again, and breaks nothing.
    copy.run(&contents, &target).expect(5);
    assert_finals_right(&source, &target);
    fs::remove_file(ballast).unwrap();
    let last = copy.run(&contents, &target).expect(0);
    println!("{} resumed", last.figure("bytes_resumed"));
    assert!(last.figure("bytes_resumed") > 0, "what was written before it was full counts");
    assert_same(&source, &target);
    copy.assert_no_state();
}

fn fill(path: &std::path::Path, bytes: u64) {
    let mut file = fs::File::create(path).unwrap();
    std::io::copy(&mut std::io::Read::take(std::io::repeat(7), bytes), &mut file).unwrap();
    file.sync_all().unwrap();
}

/// Promise: a full target ends a copy with exit 5 and a clear error; every final name is complete;
/// the same command finishes once there is room.
#[test]
fn a_copy_into_a_full_target_says_so_and_goes_on_later() {
    if !is_root("full target") {
        return;
    }
    for kind in ["tmpfs", "ext4", "xfs"] {
        let base = Scratch::on_disk();
        let disk = match kind {
            "tmpfs" => Mount::tmpfs(base.path(), "disk", 300),
            _ => Mount::on_loop(base.path(), "disk", kind, 400),
        };
        copy_into_full(&format!("full {kind}"), &disk, base.path());
    }
}

/// Promise: a transfer into a full target waits and says why, and finishes by itself once there is
/// room.
#[test]
fn a_transfer_into_a_full_target_waits_for_room() {
    if !is_root("full target") {
        return;
    }
    let mut rng = rng("transfer into full");
    let base = Scratch::on_disk();
    let disk = Mount::on_loop(base.path(), "disk", "ext4", 200);
    let (data_a, data_b) = (base.path().join("data-a"), disk.path.clone());
    let source = data_a.join("set");
    make_files(&mut rng, &source, 300, 200_000, &[60 * MIB]);
    let ballast = disk.path.join("ballast");
    fill(&ballast, 140 << 20);
    let (_a, b) = two_sites(base.path(), &data_a, &data_b);
    let id = b.submit(&["a:data/set/", "b:data/set/"]);
    let view = b.show_until(&id, |view| reason_has(view, "the target is full"));
    assert_eq!(view["state"], "queued", "{view}");
    assert!(reason_has(&view, " free; ") && reason_has(&view, "still to be written"), "{view}");
    assert_eq!(figure(&view["progress"], "errors"), 0, "{view}");
    println!("{}", view["reason"]);
    assert_finals_right(&source, &data_b.join("set"));
    fs::remove_file(ballast).unwrap();
    b.follow(&id).expect(0);
    assert_same(&source, &data_b.join("set"));
}

/// Promise: a site whose journal and state database have no room left fails no transfer: it waits,
/// says why, and goes on by itself when there is room.
#[test]
fn a_transfer_waits_for_room_in_the_journal() {
    if !is_root("full journal") {
        return;
    }
    let mut rng = rng("full journal");
    let base = Scratch::on_disk();
    // All that the target's site keeps is on it.
    let disk = Mount::tmpfs(base.path(), "site-b", 64);
    let (data_a, data_b) = (base.path().join("data-a"), base.path().join("data-b"));
    let source = data_a.join("set");
    make_files(&mut rng, &source, 8000, 1000, &[]);
    let (_a, b) = two_sites(base.path(), &data_a, &data_b);
    let ballast = disk.path.join("ballast");
    let space = rustix::fs::statvfs(&disk.path).unwrap();
    fill(&ballast, space.f_bavail * space.f_frsize - (200 << 10));
    let id = b.submit(&["a:data/set/", "b:data/set/"]);
    let full = |view: &Value| {
        let told = reason_has(view, "No space left") || reason_has(view, "disk is full");
        told && view["state"] == "queued"
    };
    let view = b.show_until(&id, full);
    println!("{}", view["reason"]);
    assert_eq!(figure(&view["progress"], "errors"), 0, "{view}");
    fs::remove_file(ballast).unwrap();
    b.follow(&id).expect(0);
    assert_same(&source, &data_b.join("set"));
}

/// Promise: a read-only target ends a copy with exit 7 and a clear error, at once if it is
/// read-only from the start, and in mid-copy if it becomes so; made writable, the copy goes on.
#[test]
fn a_read_only_target_is_a_clear_error() {
    if !is_root("read-only target") {
        return;
    }
    let mut rng = rng("read-only");
    let base = Scratch::on_disk();
    let disk = Mount::tmpfs(base.path(), "disk", 400);
    let (source, target) = (base.path().join("src"), disk.path.join("dst"));
    make_files(&mut rng, &source, 100, 200_000, &[80 * MIB, 60 * MIB]);
    let copy = Copy::new(base.path());
    let contents = format!("{}/", source.display());
    fs::create_dir(&target).unwrap();
    disk.remount("ro");
    let refused = copy.run(&contents, &target).expect(7);
    println!("{}", refused.errors);
    assert!(refused.errors.to_lowercase().contains("read-only"), "{}", refused.errors);
    disk.remount("rw");
    let mut run = copy.spawn(&contents, &target);
    let slowly = Slowly::new(run.id());
    run.wait_for(|line| figure(line, "bytes_verified") > 0);
    // No file may be open for writing at the moment of a remount: try until there is none.
    let remounted = (0..200).any(|_| {
        let mut command = std::process::Command::new("mount");
        command.args(["-o", "remount,ro"]).arg(&disk.path).stderr(std::process::Stdio::null());
        let done = command.status().unwrap().success();
        if !done {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        done
    });
    drop(slowly);
    let ended = run.end();
    println!("remounted: {remounted}; {}", ended.errors);
    if remounted && ended.code != 0 {
        let ended = ended.expect(7);
        assert!(ended.errors.to_lowercase().contains("read-only"), "{}", ended.errors);
        disk.remount("rw");
        copy.run(&contents, &target).expect(0);
    } else {
        let why = if remounted { "the copy was done by then" } else { "a file was always open" };
        println!("NOT JUDGED: the target was not made read-only in mid-copy: {why}");
    }
    assert_same(&source, &target);
}

/// A5: a target store that is not mounted when the daemon comes back is offline: nothing is
/// written into the empty mount point; mounted again, the transfer goes on by itself.
#[test]
fn a5_an_unmounted_target_store_is_offline_until_it_is_back() {
    if !is_root("unmounted store") {
        return;
    }
    let mut rng = rng("unmounted target");
    let base = Scratch::on_disk();
    let mut disk = Mount::on_loop(base.path(), "disk", "ext4", 500);
    let (data_a, data_b) = (base.path().join("data-a"), disk.path.clone());
    let source = data_a.join("set");
    make_files(&mut rng, &source, 300, 200_000, &[90 * MIB, 60 * MIB, 30 * MIB]);
    let (_a, mut b) = two_sites(base.path(), &data_a, &data_b);
    let id = b.submit(&["a:data/set/", "b:data/set/"]);
    let slowly = Slowly::new(b.process());
    let moving = |view: &Value| figure(&view["progress"], "bytes") > 0;
    b.show_until(&id, moving);
    drop(slowly);
    b.kill();
    disk.unmount();
    b.start();
    let view = b.show_until(&id, |view| reason_has(view, "offline"));
    println!("{}", view["reason"]);
    assert_ne!(view["state"], "failed", "{view}");
    assert_eq!(files_below(&disk.path).len(), 0, "something was written into the mount point");
    disk.mount();
    b.follow(&id).expect(0);
    assert_same(&source, &data_b.join("set"));
}

/// A5: a target store that is unmounted while the daemon runs: no final name goes astray, and the
/// transfer waits until it is back.
#[test]
fn a5_a_target_store_that_is_taken_away_in_mid_transfer() {
    if !is_root("unmounted store") {
        return;
    }
    let mut rng = rng("target taken away");
    let base = Scratch::on_disk();
    let mut disk = Mount::on_loop(base.path(), "disk", "ext4", 500);
    let (data_a, data_b) = (base.path().join("data-a"), disk.path.clone());
    let source = data_a.join("set");
    make_files(&mut rng, &source, 300, 200_000, &[90 * MIB, 60 * MIB, 30 * MIB]);
    let (_a, b) = two_sites(base.path(), &data_a, &data_b);
    let id = b.submit(&["a:data/set/", "b:data/set/"]);
    let slowly = Slowly::new(b.process());
    b.show_until(&id, |view| figure(&view["progress"], "bytes") > 0);
    disk.unmount_lazily();
    drop(slowly);
    let view = b.show_until(&id, |view| reason_has(view, "offline"));
    assert_eq!(figure(&view["progress"], "errors"), 0, "{view}");
    assert_eq!(files_below(&disk.path).len(), 0, "something was written into the mount point");
    disk.mount();
    b.follow(&id).expect(0);
    assert_same(&source, &data_b.join("set"));
}

/// C3: a source store that is not mounted when the source's daemon comes back is offline: no item
/// is said to have vanished; back again, the transfer goes on.
#[test]
fn c3_a_source_store_that_is_taken_away_fails_no_item() {
    if !is_root("unmounted store") {
        return;
    }
    let mut rng = rng("source taken away");
    let base = Scratch::on_disk();
    let mut disk = Mount::on_loop(base.path(), "disk", "ext4", 500);
    let (data_a, data_b) = (disk.path.clone(), base.path().join("data-b"));
    let source = data_a.join("set");
    make_files(&mut rng, &source, 400, 200_000, &[90 * MIB, 60 * MIB, 30 * MIB]);
    let (mut a, b) = two_sites(base.path(), &data_a, &data_b);
    let id = b.submit(&["a:data/set/", "b:data/set/"]);
    let slowly = Slowly::new(b.process());
    b.show_until(&id, |view| figure(&view["progress"], "bytes") > 0);
    a.kill();
    drop(slowly);
    disk.unmount();
    a.start();
    let view = b.show_until(&id, |view| reason_has(view, "offline"));
    println!("{}", view["reason"]);
    assert_eq!(figure(&view["progress"], "errors"), 0, "{view}");
    disk.mount();
    b.follow(&id).expect(0);
    assert_same(&source, &data_b.join("set"));
}

/// Promise (c): a target host that has no descriptors left for a while fails no item: the transfer
/// goes on by itself when there are some again.
#[test]
fn c_a_host_without_descriptors_fails_no_item() {
    let mut rng = rng("no descriptors");
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("data-a"), base.path().join("data-b"));
    let source = data_a.join("set");
    make_files(&mut rng, &source, 1500, 60_000, &[]);
    let (_a, b) = two_sites(base.path(), &data_a, &data_b);
    let daemon = b.process().to_string();
    let open_max = |most: &str| {
        let limit = format!("--nofile={most}:");
        let status = Command::new("prlimit").args(["--pid", &daemon, &limit]).status();
        assert!(status.unwrap().success());
    };
    let id = b.submit(&["a:data/set/", "b:data/set/", "--bwlimit", "100Mbit/s"]);
    b.show_until(&id, |view| figure(&view["progress"], "files") > 20);
    // Those that it has it keeps.
    open_max("8");
    // The log is all that it can still write to.
    b.until_log("Too many open files");
    open_max("4096");
    b.follow(&id).expect(0);
    assert_same(&source, &data_b.join("set"));
}
