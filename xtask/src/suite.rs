//! All tests: builds the programs that hold them, and runs two programs at a time.
//!
//! `cargo test` runs one after the other. Tests of several hosts wait most of their time, for
//! leases, grants and time-outs of real daemons, and leave the processors to those that compute:
//! so there are two lanes, one for each kind, and the lane that is done first helps the other.
//!
//! A test of real processes that fails in such company runs once more, alone. If it passes then, it
//! is called *unstable* in the last lines, for whoever is to find out why. Few may be. What was
//! skipped, or not judged, stands there as well ([`remarks`]).

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::remarks::{self, Remark};

/// Programs whose tests wait more than they compute; the longest first.
const WAITING: [&str; 6] = ["peers", "failover", "own_etcd", "network", "sites", "stores"];
/// Of the others the one that takes longest, so that it does not begin last.
const LONGEST: &str = "copies";
/// Where tests of real processes lie, which share the machine's time with whatever else runs. A
/// unit test that fails has failed.
const REAL_PROCESSES: &str = "crates/penstock/tests";
/// Tests of one such program that run at a time for each processor. They wait for most of their time:
/// of `copies`, two at a time, half a processor was busy, and of the other programs a third.
const REAL_TESTS_PER_PROCESSOR: usize = 2;
/// More tests than this that fail in one run are no accident.
const UNSTABLE_MAX: usize = 2;

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

impl Program {
    /// Returns whether its tests are of real processes.
    fn is_of_processes(&self) -> bool {
        self.source.starts_with(REAL_PROCESSES)
    }

    /// Returns how many of its tests run at a time.
    fn tests_at_a_time(&self) -> usize {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        processors * if self.is_of_processes() { REAL_TESTS_PER_PROCESSOR } else { 1 }
    }
}

/// Builds and runs everything that `cargo test --workspace` does but tests in documentation: `tidy`
/// allows none.
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
    let logs = Logs { directory: logs, remarks: Mutex::default() };
    let (mut failed, unstable) = once_more(run_all(programs, &logs), &logs);
    failed.extend(tell(&logs));
    for test in unstable {
        println!("UNSTABLE: {test}: failed beside others and passed alone: find out why");
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(())
}

/// What the programs have said.
#[derive(Default)]
struct Logs {
    directory: PathBuf,
    remarks: Mutex<Vec<Remark>>,
}

/// Prints what tests have said of themselves; gives how that fails a gate, if it does.
fn tell(logs: &Logs) -> Option<String> {
    let mut remarks = lock(&logs.remarks);
    // A test that ran once more has said it twice.
    remarks.sort();
    remarks.dedup();
    for remark in remarks.iter() {
        println!("{remark}");
    }
    let may_lack = std::env::var(remarks::MAY_LACK_TOO).unwrap_or_default();
    let skipped = remarks.iter().filter(|remark| remark.is_failure(&may_lack)).count();
    (super::is_ci() && skipped > 0).then(|| {
        format!("{skipped} times SKIPPED what must run here: {} excepts", remarks::MAY_LACK_TOO)
    })
}

/// A program that failed.
struct Failure {
    program: Program,
    /// Its tests that did, as far as it came to say so.
    tests: Vec<String>,
    why: String,
}

impl Failure {
    /// Whether it is to be seen if it fails alone as well.
    fn may_be_unstable(&self) -> bool {
        self.program.is_of_processes() && !self.tests.is_empty()
    }
}

/// Runs tests that failed once more, each alone, if they may be unstable and are few; gives in
/// words what failed then or was not run again, and what passed.
fn once_more(failures: Vec<Failure>, logs: &Logs) -> (Vec<String>, Vec<String>) {
    let are_few = failures.iter().map(|failure| failure.tests.len()).sum::<usize>() <= UNSTABLE_MAX;
    let (mut failed, mut unstable) = (Vec::new(), Vec::new());
    for failure in failures {
        let source = failure.program.source.display().to_string();
        if !are_few || !failure.may_be_unstable() {
            let named = match failure.tests.is_empty() {
                true => "it names no test that failed".to_owned(),
                false => failure.tests.join(", "),
            };
            failed.push(format!("{source}: {}: {named}", failure.why));
            continue;
        }
        for test in &failure.tests {
            match passes_alone(&failure.program, test, logs) {
                Ok(()) => unstable.push(format!("{source}: {test}")),
                Err(why) => failed.push(format!("{source}: {why}: {test}")),
            }
        }
    }
    (failed, unstable)
}

/// Runs one test; whether that passed is what the program says of it, not that nothing failed: a
/// name that there is not fails nothing either.
fn passes_alone(program: &Program, test: &str, logs: &Logs) -> Result<(), String> {
    let (status, said) = end_of(program, Some(test), logs).map_err(|error| format!("{error:#}"))?;
    if status.success() && said.contains("test result: ok. 1 passed;") {
        return Ok(());
    }
    Err(status.to_string())
}

/// The tests that a program says have failed: its last list of them, if it has as many as the
/// program counts. What others write to the same log may have come between.
fn failed_tests(said: &str) -> Vec<String> {
    let Some((_, list)) = said.rsplit_once("\nfailures:\n") else { return Vec::new() };
    let names = list.lines().map_while(|line| line.strip_prefix("    "));
    let names: Vec<_> = names.map(str::to_owned).collect();
    if list.contains(&format!("; {} failed;", names.len())) { names } else { Vec::new() }
}

/// Runs all of them, two at a time; gives those that failed.
fn run_all(programs: Vec<Program>, logs: &Logs) -> Vec<Failure> {
    let (lanes, failed) = (Mutex::new(lanes(programs)), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for lane in 0..2 {
            let (lanes, failed) = (&lanes, &failed);
            scope.spawn(move || {
                loop {
                    // No lock is held while a program runs: neither here nor for `failed`.
                    let next = lock(lanes).next(lane);
                    let Some(program) = next else { break };
                    let failure = run_one(&program, logs);
                    lock(failed).extend(failure);
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

/// Runs one program; gives how it failed, if it did.
fn run_one(program: &Program, logs: &Logs) -> Option<Failure> {
    let (tests, why) = match end_of(program, None, logs) {
        Ok((status, _)) if status.success() => return None,
        Ok((status, said)) => (failed_tests(&said), status.to_string()),
        Err(error) => (Vec::new(), format!("{error:#}")),
    };
    Some(Failure { program: program.clone(), tests, why })
}

/// Runs one program, or one test of it, and when it has ended prints what it said, but what tests
/// that passed have printed: that is in the log.
fn end_of(
    program: &Program,
    test: Option<&str>,
    logs: &Logs,
) -> anyhow::Result<(ExitStatus, String)> {
    let mut place = program.executable.file_name().context("a program without a name")?.to_owned();
    if let Some(test) = test {
        place.push(format!(".{}.alone", test.replace("::", "-")));
    }
    place.push(".log");
    let place = logs.directory.join(place);
    let log = File::create(&place).with_context(|| format!("write {}", place.display()))?;
    let begun = Instant::now();
    // What waits for leases and time-outs is to be served at once, not after what computes.
    let niceness = if WAITING.contains(&program.target.as_str()) { "0" } else { "5" };
    let status = Command::new("nice")
        .args(["-n", niceness])
        .arg(&program.executable)
        .arg("--show-output")
        .arg(format!("--test-threads={}", program.tests_at_a_time()))
        .args(test.iter().flat_map(|test| [test, "--exact"]))
        .current_dir(&program.directory)
        .env("CARGO_MANIFEST_DIR", &program.directory)
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("open a log twice")?)
        .stderr(log)
        .status()
        .with_context(|| format!("start {}", program.executable.display()))?;
    let said = fs::read(&place).with_context(|| format!("read {}", place.display()))?;
    let said = String::from_utf8_lossy(&said).into_owned();
    let (source, seconds) = (program.source.display(), begun.elapsed().as_secs_f64());
    lock(&logs.remarks).extend(remarks::of(&source.to_string(), &said));
    // One call, so that the output of two programs is not mixed.
    let shown = remarks::brief(&said);
    println!("-- {source}\n{shown}-- {source}: {status} after {seconds:.1} s");
    Ok((status, said))
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
        let mut lanes = lanes(programs(&["lab", "sites", "copies", "failover", "adopting"]));
        let mut next = |lane| lanes.next(lane).map(|program| program.target);
        assert_eq!(next(0).as_deref(), Some("failover"));
        assert_eq!(next(1).as_deref(), Some("copies"));
        assert_eq!(next(1).as_deref(), Some("lab"));
        assert_eq!(next(1).as_deref(), Some("adopting"));
        assert_eq!(next(1).as_deref(), Some("sites"));
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
        let kept = Logs { directory: logs.clone(), ..Logs::default() };
        let (failed, _) = once_more(run_all(programs.to_vec(), &kept), &kept);
        assert_eq!(failed, ["false: exit status: 1: it names no test that failed"]);
        assert!(logs.join("true.log").is_file());
        fs::remove_dir_all(&logs).expect("remove what was made");
    }

    /// A program whose one test fails, always or the first time only, and is told of as by libtest.
    fn fails(source: &str, name: &str, logs: &Path, first_time_only: bool) -> Program {
        let executable = logs.join(name);
        let alone = match first_time_only {
            true => format!("{name}::one --exact"),
            false => "never".to_owned(),
        };
        let script = format!(
            "#!/bin/sh\n\
             case \"$*\" in\n\
             *'{alone}') echo 'test result: ok. 1 passed; 0 failed;'; exit 0;;\n\
             *--exact) echo 'test result: ok. 0 passed; 0 failed;'; exit 0;;\n\
             esac\n\
             printf '\\nfailures:\\n\\n---- {name}::one stdout ----\\nfailures:\\n'\n\
             printf '\\nfailures:\\n    {name}::one\\n\\n'\n\
             echo 'test result: FAILED. 0 passed; 1 failed;'\nexit 101\n"
        );
        // By another process: a file that this one has open while it forks cannot be run.
        let write = "printf %s \"$1\" > \"$2\" && chmod 755 \"$2\"";
        let written =
            Command::new("sh").args(["-c", write, "sh", &script]).arg(&executable).status();
        assert!(written.expect("start sh").success());
        Program { target: name.into(), source: source.into(), executable, directory: logs.into() }
    }

    /// Promise: a test of real processes that fails beside others and passes alone fails nothing;
    /// one that fails twice, a unit test that fails once, and many that fail at once do.
    #[test]
    fn what_fails_beside_others_runs_once_more_alone() {
        let logs = std::env::temp_dir().join(format!("penstock-again-{}", std::process::id()));
        fs::create_dir(&logs).expect("a new directory");
        let real = format!("{REAL_PROCESSES}/x.rs");
        let [once, second, third] =
            ["once", "second", "third"].map(|name| fails(&real, name, &logs, true));
        let ever = fails(&real, "ever", &logs, false);
        let unit = fails("crates/a/src/lib.rs", "unit", &logs, true);
        let kept = Logs { directory: logs.clone(), ..Logs::default() };
        let ends = |programs: &[&Program]| {
            let programs = programs.iter().map(|program| (*program).clone()).collect();
            once_more(run_all(programs, &kept), &kept)
        };
        assert_eq!(ends(&[&once]), (vec![], vec![format!("{real}: once::one")]));
        assert!(logs.join("once.once-one.alone.log").is_file());
        // The program ends well, as libtest does where there is no test of that name.
        assert_eq!(ends(&[&ever]), (vec![format!("{real}: exit status: 0: ever::one")], vec![]));
        let failed = "crates/a/src/lib.rs: exit status: 101: unit::one".to_owned();
        assert_eq!(ends(&[&unit]), (vec![failed], vec![]));
        assert_eq!(ends(&[&once, &second]).1.len(), 2);
        assert_eq!(ends(&[&once, &second, &third]).0.len(), 3);
        let cut = "\nfailures:\n    a::one\nnoise\n    a::two\n\nFAILED. 0 passed; 2 failed;";
        assert_eq!(failed_tests(cut), Vec::<String>::new(), "one of two is not all of them");
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
