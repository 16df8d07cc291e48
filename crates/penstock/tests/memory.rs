//! Promise (g): memory does not grow with the number of files.

// Seeds, figures and what is skipped are told to whoever reads the test's output.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod common_crash;

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common_crash::{BINARY, Copy, Ended, Run, scratch, scratch_in_memory};

const MIB: u64 = 1 << 20;

/// Runs a copy and gives the most memory that it had resident, in bytes.
fn peak_of(copy: &Copy, source: &str, target: &str) -> (u64, Ended) {
    let run = Run::spawn(&mut copy.command(source, target));
    let path = format!("/proc/{}/status", run.id());
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let watch = std::thread::spawn(move || {
        let mut peak = 0;
        while !ended.load(Ordering::Acquire) {
            let status = fs::read_to_string(&path).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|rest| rest.trim().strip_suffix("kB"));
            peak = peak.max(kib.and_then(|text| text.trim().parse::<u64>().ok()).unwrap_or(0));
            // The kernel has no event for it; the figure never falls.
            std::thread::sleep(Duration::from_millis(10));
        }
        peak * 1024
    });
    let outcome = run.end();
    over.store(true, Ordering::Release);
    let peak = watch.join().unwrap();
    let outcome = outcome.expect(0);
    let (files, seconds) = (outcome.figure("files"), outcome.last["seconds"].as_f64().unwrap());
    println!(
        "{source}: {files} files in {seconds:.1} s, {:.0} a second, {} MiB resident",
        files as f64 / seconds,
        peak / MIB
    );
    (peak, outcome)
}

fn copy_small_files(files: u64) {
    // Two trees, and some KiB of a file system in memory for each file.
    let base = scratch_in_memory(files * 16 * 1024);
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    let mut make = Command::new(BINARY);
    make.args(["dataset", "make"]).arg(&source).args(["--layout", "tree", "--seed", "1"]);
    make.args(["--files", &files.to_string(), "--size", "64"]);
    assert!(make.output().unwrap().status.success());
    let copy = Copy::new(base.path());
    let (source, target) = (format!("{}/", source.display()), target.display().to_string());
    let (peak, ended) = peak_of(&copy, &source, &target);
    assert_eq!(ended.figure("files"), files);
    assert!(peak > 0 && peak < 256 * MIB, "{} MiB resident", peak / MIB);
}

/// Promise (g): 100,000 small files move with less than 256 MiB resident.
#[test]
fn g_memory_is_bounded_for_100_000_files() {
    copy_small_files(100_000);
}

/// Promise (g): `mem:` to `null:` at ten times the entries costs at most 64 MiB more. What is open
/// at a time is bounded, and the bound is reached at some millions of entries.
#[test]
fn g_memory_does_not_grow_with_generated_entries() {
    let base = scratch();
    let copy = Copy::new(base.path());
    let small = if is_scale() { 1_000_000 } else { 20_000 };
    let generated = |files: u64| format!("mem:files={files},size=16,dirs={}", files / 1000);
    let (before, _) = peak_of(&copy, &generated(small), "null:");
    let (peak, _) = peak_of(&copy, &generated(small * 10), "null:");
    assert!(peak <= before + 64 * MIB, "{} MiB against {} MiB", peak / MIB, before / MIB);
}

/// Promise (g): 1,000,000 small files; with `PENSTOCK_TEST_SCALE=1` only, as it takes minutes.
#[test]
fn g_memory_is_bounded_for_1_000_000_files() {
    if !is_scale() {
        eprintln!("SKIPPED: set PENSTOCK_TEST_SCALE=1 to copy 1,000,000 files");
        return;
    }
    copy_small_files(1_000_000);
}

fn is_scale() -> bool {
    std::env::var_os("PENSTOCK_TEST_SCALE").is_some_and(|value| value == "1")
}
