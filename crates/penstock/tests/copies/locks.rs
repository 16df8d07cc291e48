//! State on file systems that have no locks: Lustre without `flock`, NFS without a lock service.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use penstock_testkit::{
    Copy, Run, Scratch, Signal, Site, assert_same, can_trace, files_below, is_root, make_files,
    program, rng, signal, traced,
};

const MIB: usize = 1 << 20;
/// Neither sort of lock; all else that the program asks of fcntl(2) is refused with it.
const NEITHER: [&str; 2] = ["flock:error=ENOSYS", "fcntl:error=ENOLCK"];

fn claims(copy: &Copy) -> Vec<PathBuf> {
    let mut found = files_below(&copy.state());
    found.retain(|path| path.to_string_lossy().contains(".claim."));
    found
}

/// Kills the program that strace runs, not strace alone.
fn kill_traced(copy: &Copy) {
    let claim = claims(copy).pop().expect("a claim");
    let name = claim.file_name().unwrap().to_string_lossy().into_owned();
    let number = name.split('.').nth(2).unwrap().parse().unwrap();
    signal(number, Signal::KILL);
}

/// Promise: a copy whose state lies where locks cannot be had works as any other; a lock that
/// cannot be had is none that is held.
#[test]
fn a_copy_keeps_its_state_where_there_are_no_locks() {
    if !can_trace("a file system without locks") {
        return;
    }
    let base = Scratch::on_disk();
    let source = base.path().join("src");
    make_files(&mut rng("no locks"), &source, 20, 5_000, &[]);
    let cases: [&[&str]; 5] = [
        &["flock:error=ENOSYS"],
        &["flock:error=ENOLCK"],
        &["flock:error=EOPNOTSUPP"],
        &["fcntl:error=ENOLCK"],
        &NEITHER,
    ];
    for (number, faults) in cases.into_iter().enumerate() {
        let (copy, target) = (Copy::new(base.path()), base.path().join(format!("dst{number}")));
        let contents = format!("{}/", source.display());
        Run::spawn(&mut copy.command_with_faults(faults, contents, &target)).end().expect(0);
        assert_same(&source, &target);
        // A directory cannot be emptied where fdopendir(3), which asks fcntl(2), is refused.
        if !faults.contains(&"fcntl:error=ENOLCK") {
            copy.assert_no_state();
        }
        let _ = fs::remove_dir_all(copy.state());
    }
}

/// Promise: without locks too the same copy runs once at a time, and the second is told which
/// process has it; one that was killed is resumed, and the claim of another host is respected.
#[test]
fn copies_exclude_each_other_without_locks() {
    if !can_trace("a file system without locks") {
        return;
    }
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng("claims"), &source, 20, 5_000, &[60 * MIB]);
    let (copy, contents) = (Copy::new(base.path()), format!("{}/", source.display()));
    let start = |rate: &str| {
        let mut command = copy.command_with_faults(&NEITHER, &contents, &target);
        Run::spawn(command.args(["--bwlimit", rate]))
    };
    let mut first = start("20Mbit/s");
    first.wait_for(|line| line["bytes_durable"].as_u64().unwrap_or(0) > 0).expect("it ended");
    let second = start("1Gbit/s").end().expect(5);
    assert!(second.errors.contains("the same copy is running already"), "{}", second.errors);
    assert!(second.errors.contains("(process "), "{}", second.errors);
    kill_traced(&copy);
    first.end();
    // That of another host: nothing is known of its process.
    let held = claims(&copy).pop().unwrap();
    let name = held.file_name().unwrap().to_string_lossy().into_owned();
    let mut parts: Vec<_> = name.split('.').collect();
    let boot = "0123456789abcdef".repeat(2);
    (parts[5], parts[7]) = (&boot, "far-away");
    let other = held.with_file_name(parts.join("."));
    fs::write(&other, "").unwrap();
    let refused = start("1Gbit/s").end().expect(5);
    for word in ["far-away", parts[2], &other.display().to_string()] {
        assert!(refused.errors.contains(word), "{word}: {}", refused.errors);
    }
    fs::remove_file(other).unwrap();
    let last = start("1Gbit/s").end().expect(0);
    assert!(last.figure("bytes_resumed") > 0, "{}", last.last);
    assert_same(&source, &target);
}

/// Promise: a process that gets a lock of the file system, and one that gets none, exclude each
/// other; so do processes of two containers, of which neither sees the other: the second one is
/// told which file to remove. What was killed is resumed in either way.
#[test]
fn copies_exclude_each_other_where_some_have_locks() {
    if !can_trace("a file system without locks") || !is_root("process number spaces") {
        return;
    }
    let base = Scratch::on_disk();
    let source = base.path().join("src");
    make_files(&mut rng("mixed locks"), &source, 20, 5_000, &[60 * MIB]);
    let (copy, contents) = (Copy::new(base.path()), format!("{}/", source.display()));
    let ways: [(&[&str], &[&str]); 2] = [(&[], &NEITHER), (&NEITHER, &[])];
    for (at, (one, other)) in ways.into_iter().enumerate() {
        let target = base.path().join(format!("dst{at}"));
        let command = |faults: &[&str], rate: &str| {
            let mut command = copy.command_with_faults(faults, &contents, &target);
            command.args(["--bwlimit", rate]);
            command
        };
        let mut first = Run::spawn(&mut command(one, "20Mbit/s"));
        first.wait_for(|line| line["bytes_durable"].as_u64().unwrap_or(0) > 0).expect("it ended");
        let second = Run::spawn(&mut command(other, "1Gbit/s")).end().expect(5);
        assert!(second.errors.contains("the same copy is running already"), "{}", second.errors);
        let inner = command(other, "1Gbit/s");
        let mut contained = Command::new("unshare");
        contained.args(["--pid", "--fork", "--mount-proc"]).arg(inner.get_program());
        contained.args(inner.get_args()).current_dir(base.path());
        contained.env("PENSTOCK_STATE_HOME", copy.state());
        let refused = Run::spawn(&mut contained).end().expect(5);
        let claim = claims(&copy).pop().expect("a claim");
        for word in ["remove", &claim.display().to_string()] {
            assert!(refused.errors.contains(word), "{word}: {}", refused.errors);
        }
        kill_traced(&copy);
        first.end();
        let last = Run::spawn(&mut command(other, "1Gbit/s")).end().expect(0);
        assert!(last.figure("bytes_resumed") > 0, "{}", last.last);
        assert_same(&source, &target);
        let _ = fs::remove_dir_all(copy.state());
    }
}

/// The first line that says that a daemon is ready.
fn is_ready(output: impl std::io::Read) -> bool {
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    line.starts_with("ready:")
}

fn run_daemon(directory: &Path) -> Command {
    let mut command = traced(&["flock:error=ENOLCK"]);
    command.args([program(), "daemon", "--dir"]).arg(directory);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Promise (h): a site directory without flock(2) has one daemon, and a second is told which.
#[test]
fn a_site_directory_without_locks_has_one_daemon() {
    if !can_trace("a file system without locks") {
        return;
    }
    let base = Scratch::on_disk();
    let data = base.path().join("data");
    fs::create_dir_all(data.join("src")).unwrap();
    fs::write(data.join("src/f"), "bytes").unwrap();
    let site = Site::at_port(base.path(), "a", &data);
    let directory = base.path().join("site-a");
    let mut first = run_daemon(&directory).spawn().unwrap();
    assert!(is_ready(first.stdout.take().unwrap()));
    let second = run_daemon(&directory).output().unwrap();
    let errors = String::from_utf8_lossy(&second.stderr).into_owned();
    assert_eq!(second.status.code(), Some(7), "{errors}");
    let number = fs::read_to_string(directory.join("lock")).unwrap();
    let number: u32 = number.trim().parse().unwrap();
    assert!(errors.contains(&format!("has a daemon already: process {number}")), "{errors}");
    let id = site.submit(&["a:data/src/", "a:data/dst/"]);
    site.follow(&id).expect(0);
    assert_eq!(fs::read(data.join("dst/f")).unwrap(), b"bytes");
    signal(number, Signal::TERM);
    first.wait().unwrap();
}
