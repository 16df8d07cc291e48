//! Limits hold, say so, and change nothing else: rate, lanes, metadata operations, CPUs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use penstock_testkit::{
    Copy, Run, Scratch, Signal, Site, assert_same, is_root, make_files, program, program_of_others,
    rng, threads_named, tool, two_sites,
};
use serde_json::Value;

const MIB: usize = 1 << 20;

/// Starts a copy of `src` to `dst`.
fn copying(base: &Path, arguments: &[&str]) -> Run {
    let mut command = Copy::new(base).command(base.join("src/"), base.join("dst"));
    Run::spawn(command.args(arguments))
}

/// The summary of a copy, after a good end.
fn summary(copy: Run) -> Value {
    copy.end().expect(0).last
}

fn large_source(base: &Path, bytes: usize) {
    make_files(&mut rng("limits"), &base.join("src"), 0, 0, &[bytes]);
}

/// Asserts that a summary's mean rate is never 2 % above the limit. How close it comes depends on
/// what else the machine does.
fn assert_rate(summary: &Value, limit: f64) {
    let bits = summary["bytes_verified"].as_f64().unwrap() * 8.0;
    let seconds = summary["seconds"].as_f64().unwrap();
    let rate = bits / seconds;
    println!("{:.2} Mbit/s of {:.2} in {seconds:.3} s", rate / 1e6, limit / 1e6);
    assert!(rate <= limit * 1.02, "{rate} is above {limit}");
}

/// Promise: a copy moves at the rate that was set, and says that this is what limits it.
#[test]
fn a_copy_holds_its_rate_and_says_so() {
    let base = Scratch::on_disk();
    large_source(base.path(), 25 * MIB);
    let mut copy = copying(base.path(), &["--bwlimit", "80Mbit/s"]);
    copy.until(|event| event["limit"] == "the limit that was set");
    copy.until(|event| event["bottleneck"]["code"] == "limit");
    assert_rate(&summary(copy), 80e6);
    assert_same(&base.path().join("src"), &base.path().join("dst"));
}

/// Promise: many small files are held like a large one.
#[test]
fn small_files_hold_the_rate() {
    let base = Scratch::on_disk();
    make_files(&mut rng("limits"), &base.path().join("src"), 600, 40_000, &[]);
    let copy = copying(base.path(), &["--bwlimit", "5MB/s", "--durability", "none"]);
    assert_rate(&summary(copy), 40e6);
}

/// Promise: a rate without its unit is refused, and the message says how to write one.
#[test]
fn a_bare_number_is_no_rate() {
    for bad in ["60", "60M", "1kbit/s"] {
        let output =
            Command::new(program()).args(["copy", "a", "b", "--bwlimit", bad]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{told}");
        assert!(told.contains("bit/s"), "{told}");
    }
}

/// Promise (d): a copy that was interrupted goes on under another limit: limits are no part of what
/// it is.
#[test]
fn d_another_limit_resumes_the_same_copy() {
    let base = Scratch::on_disk();
    large_source(base.path(), 100 * MIB);
    let mut slow = copying(base.path(), &["--bwlimit", "160Mbit/s", "--max-lanes", "1"]);
    slow.until(|event| event["bytes_durable"].as_u64() > Some(20 << 20));
    slow.signal(Signal::INT);
    slow.end().expect(130);
    let summary = summary(copying(base.path(), &[]));
    assert!(summary["bytes_resumed"].as_u64() >= Some(20 << 20), "{summary}");
    assert_same(&base.path().join("src"), &base.path().join("dst"));
}

/// Promise: `--max-lanes` bounds the threads that read and write, `--cpus` all that the process may
/// run on.
#[test]
fn lanes_and_cpus_are_bounded() {
    let base = Scratch::on_disk();
    large_source(base.path(), 64 * MIB);
    let arguments = ["--bwlimit", "200Mbit/s", "--max-lanes", "1", "--cpus", "1"];
    let mut copy = copying(base.path(), &arguments);
    copy.until(|event| event["bytes"].as_u64() > Some(MIB as u64));
    assert_eq!(threads_named(&copy.id().to_string(), "lane-"), 1);
    let status = fs::read_to_string(format!("/proc/{}/status", copy.id())).unwrap();
    let allowed = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap();
    assert!(!allowed.contains(['-', ',']), "more than one CPU: {allowed}");
    summary(copy);
}

/// Promise: `--max-metadata-ops` bounds what is looked up at the source and made at the target.
#[test]
fn metadata_operations_are_bounded() {
    let base = Scratch::on_disk();
    make_files(&mut rng("limits"), &base.path().join("src"), 60, 100, &[]);
    let begun = Instant::now();
    let summary = summary(copying(base.path(), &["--max-metadata-ops", "30"]));
    let seconds = begun.elapsed().as_secs_f64();
    println!("60 files at 30 operations/s took {seconds:.2} s");
    // 60 look-ups, then 60 files made and named, but for one burst each.
    assert!(seconds >= 3.8, "{seconds}: {summary}");
    assert_same(&base.path().join("src"), &base.path().join("dst"));
}

/// Promise: a daemon keeps to the CPUs that its configuration grants it.
#[test]
fn a_daemon_keeps_to_its_cpus() {
    let base = Scratch::on_disk();
    let mut site = Site::at_port(base.path(), "a", &base.path().join("data"));
    site.set_config(&format!("cpus = 1\n{}", site.config()));
    site.start();
    let status = fs::read_to_string(format!("/proc/{}/status", site.process())).unwrap();
    let allowed = status.lines().find(|line| line.starts_with("Cpus_allowed_list")).unwrap();
    assert!(!allowed.contains(['-', ',']), "more than one CPU: {allowed}");
}

fn submit(b: &Site, arguments: &[&str]) -> String {
    b.submit(&[&["a:data/set", "b:data/"], arguments].concat())
}

/// Promise: a transfer between sites holds its rate, by either encryption.
#[test]
fn a_transfer_holds_its_rate() {
    let base = Scratch::on_disk();
    let data = |name: &str| base.path().join(name);
    make_files(&mut rng("limits"), &data("a").join("set"), 0, 0, &[25 * MIB]);
    let (_a, b) = two_sites(base.path(), &data("a"), &data("b"));
    let id = submit(&b, &["--bwlimit", "10MB/s", "--max-lanes", "2", "--max-metadata-ops", "500"]);
    b.show_until(&id, |view| view["progress"]["limit"] == "the limit that was set");
    let view = b.show_until(&id, |view| view["state"] == "done");
    assert_eq!(view["bottleneck"]["code"], "limit", "{}", view["progress"]["time"]);
    assert_rate(&view["progress"], 80e6);
}

/// Promise: `transfer limit` changes a transfer that runs, from the other site too; the limit is
/// kept over a restart, and another one ends it.
#[test]
fn a_limit_changes_while_the_transfer_runs() {
    let base = Scratch::on_disk();
    let data = |name: &str| base.path().join(name);
    make_files(&mut rng("limits"), &data("a").join("set"), 0, 0, &[120 * MIB]);
    let (a, mut b) = two_sites(base.path(), &data("a"), &data("b"));
    let id = submit(&b, &["--bwlimit", "8Mbit/s"]);
    b.show_until(&id, |view| view["progress"]["bytes"].as_u64() > Some(0));
    a.ok(&["transfer", "limit", &id, "--bwlimit", "12Mbit/s"]);
    let kept = |view: &Value| view["options"]["limits"]["rate_bits_per_s"] == 12_000_000;
    assert!(kept(&b.show(&id)));
    // The same submission again is the same transfer, whatever its limit is by now.
    assert_eq!(submit(&b, &["--bwlimit", "8Mbit/s", "--id", &id]), id);
    assert!(kept(&b.show(&id)));
    b.kill();
    b.start();
    assert!(kept(&b.show(&id)));
    b.show_until(&id, |view| view["progress"]["bytes_verified"].as_u64() > Some(0));
    let begun = Instant::now();
    let refused = b.run(&["transfer", "limit", &id, "--bwlimit", "24"]);
    assert_eq!(refused.status.code(), Some(2));
    b.ok(&["transfer", "limit", &id, "--bwlimit", "none"]);
    b.show_until(&id, |view| view["state"] == "done");
    // At 12 Mbit/s the rest would have taken more than a minute.
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
    assert_same(&data("a").join("set"), &data("b").join("set"));
    let ended = b.run(&["transfer", "limit", &id, "--bwlimit", "none"]);
    assert_eq!(ended.status.code(), Some(6));
}

/// Promise: whatever number of threads a user may have, a copy ends: with a clear error and a hint
/// as long as there are too few, and well from some number on. It never waits for a thread that
/// will not come.
#[test]
fn any_number_of_threads_is_enough_or_an_error() {
    if !is_root("a limit of processes of another user") {
        return;
    }
    // A user whom no other test has, as the limit counts all processes of a user.
    const USER: &str = "54322";
    let base = Scratch::on_disk();
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let source = base.path().join("src");
    make_files(&mut rng("threads"), &source, 20, 5_000, &[12 << 20]);
    tool("chown", &[&"-R", &USER, &source]);
    let contents = format!("{}/", source.display());
    let kinds: [&[&str]; 3] =
        [&[], &["--sync", "--delete", "--compare", "digest"], &["--write-digests", "list"]];
    for options in kinds {
        let mut last = None;
        for most in 1..=14 {
            let home = base.path().join("home");
            let target = base.path().join("dst");
            for directory in [&home, &target] {
                let _ = fs::remove_dir_all(directory);
            }
            let mut command = Command::new("timeout");
            command.args(["60", "setpriv"]);
            command.args([&format!("--reuid={USER}"), &format!("--regid={USER}")]);
            command.args(["--clear-groups", "prlimit", &format!("--nproc={most}:{most}")]);
            command.arg(program_of_others(base.path())).args(["copy", &contents]);
            command
                .arg(&target)
                .args(options)
                .env("PENSTOCK_STATE_HOME", &home)
                .current_dir(base.path());
            let output = command.output().unwrap();
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            let code = output.status.code();
            println!("{options:?}, {most} threads: {code:?}");
            if code != Some(0) {
                assert!(matches!(code, Some(5 | 7)), "{most}: {code:?} {errors}");
                assert!(errors.contains("cannot start a thread"), "{most}: {errors}");
                assert!(errors.contains("ulimit -u"), "{most}: {errors}");
            }
            last = code;
        }
        assert_eq!(last, Some(0), "{options:?}");
    }
}

/// Promise: a copy of more directories than the process may have descriptors works, with 48 of
/// them; with too few to begin it says so at once.
#[test]
fn few_descriptors_are_enough() {
    let base = Scratch::on_disk();
    let source = base.path().join("src");
    for at in 0..300 {
        let directory = source.join(format!("s{at}"));
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("f"), format!("{at}")).unwrap();
    }
    let copy = Copy::new(base.path());
    let contents = format!("{}/", source.display());
    for descriptors in [48, 64, 80, 96, 256] {
        let target = base.path().join(format!("to{descriptors}"));
        let mut command = copy.command_with_descriptors(descriptors, &contents, &target);
        Run::spawn(&mut command).end().expect(0);
        assert_same(&source, &target);
    }
    for descriptors in [20, 32, 39] {
        let target = base.path().join(format!("to{descriptors}"));
        let mut command = copy.command_with_descriptors(descriptors, &contents, &target);
        let ended = Run::spawn(&mut command).end().expect(5);
        assert!(ended.errors.contains("a copy needs 40 descriptors"), "{}", ended.errors);
        assert!(!target.exists());
    }
}

/// Promise: a place that this user may not open, or not write to, is called that, and never an
/// offline store that is to be mounted.
#[test]
fn what_is_denied_is_not_offline() {
    if !is_root("other users") {
        return;
    }
    let base = Scratch::on_disk();
    let copy = Copy::new(base.path());
    let open = |path: &Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    open(base.path(), 0o777);
    for name in ["closed", "closed/in", "own"] {
        fs::create_dir(base.path().join(name)).unwrap();
    }
    fs::write(base.path().join("f"), "1").unwrap();
    open(&base.path().join("f"), 0o644);
    open(&base.path().join("closed"), 0o700);
    tool("chown", &[&"65534:65534", &base.path().join("own")]);
    for (source, target) in [
        ("closed", "own/a"),
        ("closed/", "own/b"),
        ("closed/in", "own/c"),
        ("f", "closed/x"),
        ("f", "closed/in/x"),
        ("f", "/etc/penstock-test-denied"),
    ] {
        for options in [&[][..], &["-n"]] {
            let from = base.path().join(source);
            let to = base.path().join(target);
            let ended = Run::spawn(copy.command_as_nobody(&from, &to).args(options)).end();
            println!("{source} {target} {options:?}: {} {}", ended.code, ended.errors);
            assert!(!ended.errors.contains("offline"), "{}", ended.errors);
            if options.is_empty() || source != "f" {
                assert!(ended.errors.contains("ermission denied"), "{}", ended.errors);
                ended.expect(7);
            }
        }
    }
}
