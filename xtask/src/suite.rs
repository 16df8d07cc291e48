//! All tests: builds the programs that hold them, and runs two programs at a time.
//!
//! `cargo test` runs one after the other. Tests of several hosts wait most of their time, for
//! leases, grants and time-outs of real daemons, and leave the processors to those that compute:
//! so there are two lanes, one for each kind, and the lane that is done first helps the other.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::Value;

/// Programs whose tests wait more than they compute; the longest first.
const WAITING: [&str; 7] =
    ["failover", "own_etcd", "network", "peers", "cluster", "sharing", "remote_target"];
/// Of the others the one that takes longest, so that it does not begin last.
const LONGEST: &str = "copies";

/// A program that holds tests.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    /// Name of its target, as `cargo test --test` takes it.
    target: String,
    /// Its source, for people.
    source: PathBuf,
    executable: PathBuf,
    /// Directory of its package, which is where it runs.
    directory: PathBuf,
}

/// Builds and runs everything that `cargo test --workspace` does.
///
/// # Errors
/// Something does not build, or tests failed: their output has been printed.
pub(crate) fn run(root: &Path) -> anyhow::Result<()> {
    let programs: Vec<_> = build(root)?.iter().filter_map(|told| holder(root, told)).collect();
    if programs.is_empty() {
        bail!("cargo names no program with tests");
    }
    let logs = root.join("target/test-logs");
    fs::create_dir_all(&logs).with_context(|| format!("make {}", logs.display()))?;
    let failed = run_all(programs, &logs);
    let documented = super::cargo(&["test", "--workspace", "--locked", "--quiet", "--doc"], &[]);
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    documented
}

/// Runs all of them, two at a time; gives those that failed, and how.
fn run_all(programs: Vec<Program>, logs: &Path) -> Vec<String> {
    let (lanes, failed) = (Mutex::new(lanes(programs)), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for lane in 0..2 {
            let (lanes, failed) = (&lanes, &failed);
            scope.spawn(move || {
                loop {
                    // Not in a `while let`, which would keep the lock as long as the program runs.
                    let next = lock(lanes).next(lane);
                    let Some(program) = next else { break };
                    if let Err(error) = run_one(&program, logs) {
                        lock(failed).push(format!("{}: {error:#}", program.source.display()));
                    }
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// What another thread has left by a panic is as good as it was.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The programs that are still to be run: those that wait, and those that compute.
struct Lanes([VecDeque<Program>; 2]);

impl Lanes {
    /// The next one for a lane: the first of its own, else the last of the other's.
    fn next(&mut self, lane: usize) -> Option<Program> {
        self.0[lane].pop_front().or_else(|| self.0[1 - lane].pop_back())
    }
}

fn lanes(programs: Vec<Program>) -> Lanes {
    let rank = |program: &Program| WAITING.iter().position(|name| *name == program.target);
    let (mut waiting, mut computing): (Vec<_>, Vec<_>) =
        programs.into_iter().partition(|program| rank(program).is_some());
    waiting.sort_by_key(rank);
    computing.sort_by_key(|program| program.target != LONGEST);
    Lanes([waiting.into(), computing.into()])
}

/// The program `penstock` as the tests have it, built if it is not. A build of that package alone
/// would be another one, with fewer features of its dependencies, and take a minute more.
///
/// # Errors
/// The tests do not build.
pub(crate) fn program_under_test(root: &Path) -> anyhow::Result<PathBuf> {
    let is_it = |told: &&Value| {
        let target = &told["target"];
        target["name"] == "penstock"
            && target["kind"][0] == "bin"
            && told["profile"]["test"] == false
    };
    let built = build(root)?;
    let executable = built.iter().find(is_it).and_then(|told| told["executable"].as_str());
    executable.map(PathBuf::from).context("cargo names no program `penstock`")
}

/// Builds everything, and gives what cargo tells of it; cargo has shown what does not build.
fn build(root: &Path) -> anyhow::Result<Vec<Value>> {
    let arguments = ["test", "--workspace", "--locked", "--no-run"];
    println!("$ cargo {}", arguments.join(" "));
    let output = Command::new("cargo")
        .args(arguments)
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("start cargo")?;
    if !output.status.success() {
        bail!("the tests do not build: {}", output.status);
    }
    let text = String::from_utf8(output.stdout).context("read what cargo prints")?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// The program that a message of cargo tells of, if it holds tests.
fn holder(root: &Path, told: &Value) -> Option<Program> {
    let is_test = told["reason"] == "compiler-artifact" && told["profile"]["test"] == true;
    let executable = told["executable"].as_str().filter(|_| is_test)?;
    let source = Path::new(told["target"]["src_path"].as_str()?);
    Some(Program {
        target: told["target"]["name"].as_str()?.to_owned(),
        source: source.strip_prefix(root).unwrap_or(source).to_owned(),
        executable: executable.into(),
        directory: Path::new(told["manifest_path"].as_str()?).parent()?.to_owned(),
    })
}

/// Runs one program, and prints what it said when it has ended.
fn run_one(program: &Program, logs: &Path) -> anyhow::Result<()> {
    let place = program.executable.file_name().context("a program without a name")?;
    let place = logs.join(place).with_extension("log");
    let log = File::create(&place).with_context(|| format!("write {}", place.display()))?;
    let begun = Instant::now();
    // What waits for leases and time-outs is to be served at once, not after what computes.
    let niceness = if WAITING.contains(&program.target.as_str()) { "0" } else { "5" };
    let status = Command::new("nice")
        .args(["-n", niceness])
        .arg(&program.executable)
        .current_dir(&program.directory)
        .env("CARGO_MANIFEST_DIR", &program.directory)
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("open a log twice")?)
        .stderr(log)
        .status()
        .with_context(|| format!("start {}", program.executable.display()))?;
    let said = fs::read(&place).with_context(|| format!("read {}", place.display()))?;
    let (source, seconds) = (program.source.display(), begun.elapsed().as_secs_f64());
    // One call, so that the output of two programs is not mixed.
    println!(
        "-- {source}\n{}-- {source}: {status} after {seconds:.1} s",
        String::from_utf8_lossy(&said)
    );
    if !status.success() {
        bail!("{status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn programs(targets: &[&str]) -> Vec<Program> {
        let program = |target: &&str| Program {
            target: (*target).to_owned(),
            source: PathBuf::new(),
            executable: PathBuf::new(),
            directory: PathBuf::new(),
        };
        targets.iter().map(program).collect()
    }

    /// Promise: every program runs once, and two lanes share them all.
    #[test]
    fn lanes_help_each_other_and_leave_nothing() {
        let mut lanes = lanes(programs(&["lab", "cluster", "copies", "failover", "shared"]));
        let mut next = |lane| lanes.next(lane).map(|program| program.target);
        assert_eq!(next(0).as_deref(), Some("failover"));
        assert_eq!(next(1).as_deref(), Some("copies"));
        assert_eq!(next(1).as_deref(), Some("lab"));
        assert_eq!(next(1).as_deref(), Some("shared"));
        assert_eq!(next(1).as_deref(), Some("cluster"));
        assert_eq!(next(0), None);
    }

    /// Promise: a program that fails does not keep the others from running, and fails the whole.
    #[test]
    fn all_programs_run_and_failures_are_named() {
        let logs = std::env::temp_dir().join(format!("penstock-suite-{}", std::process::id()));
        fs::create_dir(&logs).expect("a new directory");
        let programs = ["false", "true"].map(|name| Program {
            target: name.to_owned(),
            source: name.into(),
            executable: Path::new("/bin").join(name),
            directory: logs.clone(),
        });
        let failed = run_all(programs.to_vec(), &logs);
        assert_eq!(failed, ["false: exit status: 1"]);
        assert!(logs.join("true.log").is_file());
        fs::remove_dir_all(&logs).expect("remove what was made");
    }

    /// Promise: what cargo says of a test is understood, and what is no test is left out.
    #[test]
    fn programs_are_those_with_tests() {
        let message = |test: bool| {
            json!({
                "reason": "compiler-artifact", "executable": "/w/target/debug/deps/x-1",
                "manifest_path": "/w/crates/a/Cargo.toml", "profile": { "test": test },
                "target": { "name": "x", "src_path": "/w/crates/a/tests/x.rs" },
            })
        };
        let found = holder(Path::new("/w"), &message(true)).expect("a test");
        assert_eq!((found.target.as_str(), found.directory.to_str()), ("x", Some("/w/crates/a")));
        assert_eq!(found.source, Path::new("crates/a/tests/x.rs"));
        assert_eq!(holder(Path::new("/w"), &message(false)), None);
        assert_eq!(holder(Path::new("/w"), &json!({ "reason": "build-finished" })), None);
    }
}
