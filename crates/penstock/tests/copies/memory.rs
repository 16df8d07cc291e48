//! Promise (g): memory grows neither with the number of files nor with that of lanes.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use penstock_testkit::{
    Copy, Ended, Run, Scratch, Site, make_files, program, rng, status_of, tool, two_sites,
};

const MIB: u64 = 1 << 20;

/// Runs a copy and gives the most memory that it had resident, in bytes.
fn peak_of(copy: &Copy, source: &str, target: &str) -> (u64, Ended) {
    let run = Run::spawn(&mut copy.command(source, target));
    let process = run.id();
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let watch = std::thread::spawn(move || {
        let mut peak = 0;
        while !ended.load(Ordering::Acquire) {
            peak = peak.max(status_of(process, "VmHWM") * 1024);
            // The kernel has no event for it; the figure never falls.
            std::thread::sleep(Duration::from_millis(10));
        }
        peak
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
    let base = Scratch::in_memory_for(files * 16 * 1024);
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    let mut make = Command::new(program());
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
    let base = Scratch::on_disk();
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

/// Moves `src` over a thousand lanes; returns the most memory that each daemon had meanwhile.
fn peaks_over_lanes(a: &Site, b: &Site, target: &str, encryption: &str) -> (u64, u64) {
    const LANES: u64 = 1000;
    for site in [a, b] {
        // 5 sets the peak back to what is resident now (proc(5)).
        fs::write(format!("/proc/{}/clear_refs", site.process()), "5").unwrap();
    }
    let place = format!("b:data/{target}");
    let options = ["--lanes", "1000", "--piece-size", "1M", "--encryption", encryption];
    let id = b.submit(&[["a:data/src/", &place].as_slice(), &options].concat());
    let (started, all_up) = (Instant::now(), OnceCell::new());
    // The daemon tells its figures once a second, and no event says that all lanes are up.
    b.show_until(&id, |view| {
        if view["progress"]["lanes"] == LANES {
            all_up.get_or_init(|| started.elapsed());
        }
        view["state"] == "done"
    });
    // Without the pages of the program itself, which is several times as large in a debug build.
    let peak = |site: &Site| {
        let of = |line: &str| status_of(site.process(), line);
        of("VmHWM").saturating_sub(of("RssFile")) * 1024
    };
    let peaks = (peak(a), peak(b));
    println!(
        "{encryption}: {} MiB at the source, {} MiB at the target, lanes up after {all_up:?}, {:?}",
        peaks.0 / MIB,
        peaks.1 / MIB,
        started.elapsed()
    );
    assert!(all_up.get().is_some(), "the transfer ended before {LANES} lanes were up");
    let (source, target) = (a.store.join("src"), b.store.join(target));
    tool("diff", &[&"--recursive", &"--no-dereference", &source, &target]);
    fs::remove_dir_all(&target).unwrap();
    peaks
}

/// Returns the lanes of a log that the target cut after 20 s of silence. On a machine that starves
/// its threads, some of a thousand lanes are silent for that long, and their bytes are sent again.
fn lanes_cut_for_silence(log: &str) -> BTreeSet<&str> {
    let cut = log.lines().filter(|line| line.contains("a lane is silent and is cut"));
    cut.filter_map(lane_of).collect()
}

fn lane_of(line: &str) -> Option<&str> {
    line.split_whitespace().find(|word| word.starts_with("lane="))
}

/// Checks that no lane was refused or lost in a part of a log, except the few that were silent.
fn assert_lanes_kept(log: &str) {
    let cut = lanes_cut_for_silence(log);
    assert!(cut.len() <= 10, "{} lanes were silent", cut.len());
    // A dialler gives up a lane when the transfer ends, or when its handshake takes too long on a
    // busy machine.
    let given_up = ["unexpected end of file", "tls handshake eof"];
    let failed = |line: &&str| {
        ["refused", "lost", "not served"].iter().any(|word| line.contains(word))
            && !given_up.iter().any(|reason| line.contains(reason))
            && !lane_of(line).is_some_and(|lane| cut.contains(lane))
    };
    assert_eq!(log.lines().filter(failed).take(5).collect::<Vec<_>>(), Vec::<&str>::new());
}

/// Promise (g): a thousand lanes, encrypted or not, cost neither daemon more than 300 MiB, and all
/// of them come up. None is refused, and of a hundred one at most is lost, by silence.
#[test]
fn g_memory_is_bounded_for_1_000_lanes() {
    let base = Scratch::in_memory_for(4 << 30);
    let (data_a, data_b) = (base.path().join("a"), base.path().join("b"));
    fs::create_dir_all(data_a.join("src")).unwrap();
    let mut rng = rng("g_memory_is_bounded_for_1_000_lanes");
    // Small files take long for what they weigh: lanes come up before all is moved.
    make_files(&mut rng, &data_a.join("src"), 80_000, 200, &[30 << 20; 32]);
    let (a, b) = two_sites(base.path(), &data_a, &data_b);
    for encryption in ["tls", "off"] {
        let logged = [&a, &b].map(|site| site.log_text().len());
        let (at_source, at_target) = peaks_over_lanes(&a, &b, encryption, encryption);
        assert!(at_source > 0 && at_source <= 300 * MIB, "{} MiB", at_source / MIB);
        assert!(at_target > 0 && at_target <= 300 * MIB, "{} MiB", at_target / MIB);
        for (site, before) in [&a, &b].into_iter().zip(logged) {
            assert_lanes_kept(&site.log_text()[before..]);
        }
    }
}

fn is_scale() -> bool {
    std::env::var_os("PENSTOCK_TEST_SCALE").is_some_and(|value| value == "1")
}
