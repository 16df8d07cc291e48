//! The program under test, and other programs that tests start.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use rustix::process::{Pid, Signal, kill_process};

/// Returns the path of the program under test, which Cargo has put beside the directory of the
/// test's own program.
pub fn program() -> &'static str {
    static PROGRAM: LazyLock<String> = LazyLock::new(|| {
        let test = std::env::current_exe().unwrap();
        let program = test.ancestors().nth(2).unwrap().join("penstock");
        assert!(program.is_file(), "no program at {}: test package penstock", program.display());
        program.into_os_string().into_string().unwrap()
    });
    &PROGRAM
}

/// Returns a command of the program under test, without the variables of a user's environment that
/// would steer it.
pub fn penstock() -> Command {
    let mut command = Command::new(program());
    command.env_remove("PENSTOCK_DIR").env("NO_COLOR", "1").stdin(Stdio::null());
    command
}

/// Returns the program for other users: where the repository lies in a private directory, a copy in
/// `base`, which others can reach.
pub fn program_of_others(base: &Path) -> PathBuf {
    let is_open = |directory: &Path| fs::metadata(directory).unwrap().mode() & 0o001 != 0;
    if Path::new(program()).ancestors().skip(1).all(is_open) {
        return PathBuf::from(program());
    }
    let copy = base.join("program-of-others");
    if !copy.exists() {
        fs::copy(program(), &copy).unwrap();
    }
    copy
}

/// Formats how a command ended and all that it printed, for the message of a failed test.
pub fn told(output: &Output) -> String {
    format!(
        "{}\n--- stdout\n{}--- stderr\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Runs a program that must succeed; returns its standard output.
pub fn tool(program: &str, args: &[&dyn AsRef<OsStr>]) -> Vec<u8> {
    let mut command = Command::new(program);
    command.args(args.iter().map(|arg| arg.as_ref())).env("LC_ALL", "C").env("TZ", "UTC");
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", told(&output));
    output.stdout
}

/// Returns whether the test runs as root; prints that it is skipped if not.
pub fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        println!("SKIPPED: {test} needs root, for mounts or other users");
    }
    root
}

/// Returns whether strace(1) is here and may trace; prints that the test is skipped if not.
pub fn can_trace(test: &str) -> bool {
    let traced = traced(&[]).arg("true").output();
    let can = traced.is_ok_and(|output| output.status.success());
    if !can {
        println!("SKIPPED: {test} needs strace, which is not here or may not trace");
    }
    can
}

/// Returns a command of strace(1) that injects `faults`, such as `flock:error=ENOLCK`, into the
/// program that follows.
pub fn traced(faults: &[&str]) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null"]);
    let calls: Vec<_> =
        faults.iter().map(|fault| fault.split(':').next().unwrap_or_default()).collect();
    let calls = if calls.is_empty() { "none".to_owned() } else { calls.join(",") };
    command.arg("-e").arg(format!("trace={calls}"));
    for fault in faults {
        command.arg("-e").arg(format!("inject={fault}"));
    }
    command
}

/// Sends a signal to a process, which must be there.
pub fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process.cast_signed()).unwrap(), signal).unwrap();
}

/// Returns the number of a line of `/proc/PID/status`, in KiB if it is of memory; 0 for a process
/// that has ended.
pub fn status_of(process: u32, line: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let found = status.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':'));
    found.map_or(0, |text| text.trim().trim_end_matches(" kB").parse().unwrap())
}

/// Counts the threads of a process, as a number or `self`, whose names begin with `name`.
pub fn threads_named(process: &str, name: &str) -> usize {
    let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten();
    let names = threads.filter_map(|thread| fs::read_to_string(thread.path().join("comm")).ok());
    names.filter(|found| found.starts_with(name)).count()
}
