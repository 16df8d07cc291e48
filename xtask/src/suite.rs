//! All tests: builds the programs that hold them, and runs several tests at a time.
//!
//! `cargo test` runs one program after the other. Tests of real processes wait most of their time,
//! for leases, grants, time-outs and disks, and leave the processors to those that compute. So
//! there are two lanes, one for each kind, and the lane that finishes first helps the other. Each
//! of these tests is a process of its own: no test sees the open files or hanging threads of
//! another, and no lane waits for the slowest of a program. Unit tests run as whole programs.
//!
//! A test that fails in such company runs once more, alone. If it passes then, the last lines call
//! it *unstable*: some unit tests start etcd or open sockets too. The number of unstable tests is
//! limited. The last lines also name skipped tests, and those that did not judge ([`remarks`]).

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::remarks::{self, Remark};

/// Programs whose tests wait more than they compute.
const WAITING: [&str; 6] = ["peers", "failover", "own_etcd", "network", "sites", "stores"];
/// Directory of tests of real processes, which share the machine's time with all other work.
const REAL_PROCESSES: &str = "crates/penstock/tests";
/// Tests of a lane that run at a time for two processors. Two of `copies` kept half a processor
/// busy, two of any other program of real processes a third. With four in each of the two lanes,
/// tests failed that are to see something within seconds.
const TESTS_PER_TWO_PROCESSORS: usize = 3;
/// Most tests of a lane at a time: each has some daemons, and files in memory.
const TESTS_MAX: usize = 8;
/// Seed of property tests in CI, if none is set: their cases are those of every other run of the
/// same commit. Elsewhere a seed is drawn, so that further cases are tried.
const PROPERTY_SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "1");
/// More tests than this that fail in one run are no accident: 1 % of them. On a machine with other
/// work, four of 640 have failed beside others and passed alone.
const UNSTABLE_MAX: usize = 6;

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

    /// Returns the names of its tests.
    fn tests(&self) -> anyhow::Result<Vec<String>> {
        let shown = self.executable.display();
        let list = Command::new(&self.executable).args(["--list", "--format=terse"]).output();
        let list = list.with_context(|| format!("start {shown}"))?;
        if !list.status.success() {
            bail!("{shown} does not list its tests: {}", list.status);
        }
        let text = String::from_utf8(list.stdout).context("read the list of tests")?;
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
    }
}

/// A process that runs tests.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Job {
    program: Program,
    /// The test of the program, or `None` for all of them.
    test: Option<String>,
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
    let (mut failed, unstable) = once_more(run_all(jobs(programs)?, &logs), &logs);
    failed.extend(tell(&logs));
    for test in unstable {
        println!("UNSTABLE: {test}: failed beside others and passed alone: find out why");
    }
    if !failed.is_empty() {
        bail!("{}", failed.join("; "));
    }
    Ok(())
}

/// The output of the programs.
#[derive(Default)]
struct Logs {
    directory: PathBuf,
    remarks: Mutex<Vec<Remark>>,
}

/// Prints the remarks of tests; returns the reason if they fail a gate.
fn tell(logs: &Logs) -> Option<String> {
    let mut remarks = lock(&logs.remarks);
    // The output of a repeated test has the line twice.
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

/// A process that failed.
struct Failure {
    program: Program,
    /// Its tests that did, as far as it came to say so.
    tests: Vec<String>,
    why: String,
}

impl Failure {
    /// Returns whether the tests that failed are known, and can run alone.
    fn can_run_again(&self) -> bool {
        !self.tests.is_empty()
    }
}

/// Runs failed tests once more, each alone, if they are known and few. Returns in words the tests
/// that failed again or were not repeated, and those that passed.
fn once_more(failures: Vec<Failure>, logs: &Logs) -> (Vec<String>, Vec<String>) {
    let are_few = failures.iter().map(|failure| failure.tests.len()).sum::<usize>() <= UNSTABLE_MAX;
    let (mut failed, mut unstable) = (Vec::new(), Vec::new());
    for failure in failures {
        let source = failure.program.source.display().to_string();
        if !are_few || !failure.can_run_again() {
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

/// Runs one test. It has passed only if the program's output says so: an unknown name fails no test
/// either.
fn passes_alone(program: &Program, test: &str, logs: &Logs) -> Result<(), String> {
    let job = Job { program: program.clone(), test: Some(test.to_owned()) };
    let (status, said) = end_of(&job, true, logs).map_err(|error| format!("{error:#}"))?;
    if status.success() && said.contains("test result: ok. 1 passed;") {
        return Ok(());
    }
    Err(status.to_string())
}

/// Returns the failed tests by a program's output: its last list of them, if that has as many as
/// the program counts. Output of other processes in the same log may lie in between.
fn failed_tests(said: &str) -> Vec<String> {
    let Some((_, list)) = said.rsplit_once("\nfailures:\n") else { return Vec::new() };
    let names = list.lines().map_while(|line| line.strip_prefix("    "));
    let names: Vec<_> = names.map(str::to_owned).collect();
    if list.contains(&format!("; {} failed;", names.len())) { names } else { Vec::new() }
}

/// Splits programs of real processes into their tests.
///
/// # Errors
/// A program does not list its tests.
fn jobs(programs: Vec<Program>) -> anyhow::Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for program in programs {
        if !program.is_of_processes() {
            jobs.push(Job { program, test: None });
            continue;
        }
        let tests = program.tests()?.into_iter();
        jobs.extend(tests.map(|test| Job { program: program.clone(), test: Some(test) }));
    }
    Ok(jobs)
}

/// Runs all jobs, some at a time; returns the failures.
fn run_all(jobs: Vec<Job>, logs: &Logs) -> Vec<Failure> {
    let (lanes, failed) = (Mutex::new(lanes(jobs)), Mutex::new(Vec::new()));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let at_a_time = (processors * TESTS_PER_TWO_PROCESSORS / 2).clamp(1, TESTS_MAX);
    std::thread::scope(|scope| {
        for worker in 0..2 * at_a_time {
            let (lanes, failed) = (&lanes, &failed);
            scope.spawn(move || {
                loop {
                    // No lock is held while a process runs: neither here nor for `failed`.
                    let next = lock(lanes).next(worker % 2);
                    let Some(job) = next else { break };
                    let failure = run_one(&job, logs);
                    lock(failed).extend(failure);
                }
            });
        }
    });
    failed.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a mutex. The data is sound even if another thread panicked with the lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The jobs that are still to be run: those that wait, and those that compute.
struct Lanes([VecDeque<Job>; 2]);

impl Lanes {
    /// Returns the next job for a lane: the first of its own, else the last of the other's.
    fn next(&mut self, lane: usize) -> Option<Job> {
        self.0[lane].pop_front().or_else(|| self.0[1 - lane].pop_back())
    }
}

/// Divides jobs into lanes. In each the programs take turns: those of few tests, which are long
/// ones, are over first, and the tests of one that wait for each other are not all begun at once.
fn lanes(jobs: Vec<Job>) -> Lanes {
    let mut turns = BTreeMap::new();
    let mut lanes = [Vec::new(), Vec::new()];
    for job in jobs {
        let target = if job.test.is_some() { job.program.target.as_str() } else { "" };
        let turn = turns.entry(target.to_owned()).or_insert(0_usize);
        *turn += 1;
        lanes[usize::from(!WAITING.contains(&target))].push((*turn, job));
    }
    Lanes(lanes.map(|mut lane| {
        lane.sort_by_key(|(turn, _)| *turn);
        lane.into_iter().map(|(_, job)| job).collect()
    }))
}

/// Returns the program `penstock` as the tests have it, built if it is not. A build of that package
/// alone would be another one, with fewer features of its dependencies, and take a minute more.
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

/// Builds all programs, and returns cargo's messages; cargo has printed the errors of a failed
/// build.
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

/// Returns the program of a message of cargo, if it holds tests.
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

/// Runs one job; returns its failure, if it failed.
fn run_one(job: &Job, logs: &Logs) -> Option<Failure> {
    let (tests, why) = match end_of(job, false, logs) {
        Ok((status, _)) if status.success() => return None,
        Ok((status, said)) => (failed_tests(&said), status.to_string()),
        Err(error) => (Vec::new(), format!("{error:#}")),
    };
    Some(Failure { program: job.program.clone(), tests, why })
}

/// Runs one job, for the second time if it is `again`. Prints the output of the process when it has
/// ended, but for that of passed tests, which is in the log.
fn end_of(job: &Job, again: bool, logs: &Logs) -> anyhow::Result<(ExitStatus, String)> {
    let Job { program, test } = job;
    let mut place = program.executable.file_name().context("a program without a name")?.to_owned();
    if let Some(test) = test {
        place.push(format!(".{}", test.replace("::", "-")));
    }
    place.push(if again { ".alone.log" } else { ".log" });
    let place = logs.directory.join(place);
    let log = File::create(&place).with_context(|| format!("write {}", place.display()))?;
    let begun = Instant::now();
    // Tests that wait for leases and time-outs are to run at once, not after those that compute.
    let niceness = if WAITING.contains(&program.target.as_str()) { "0" } else { "5" };
    let (seed, fixed) = PROPERTY_SEED;
    let is_drawn = !crate::is_ci() || std::env::var_os(seed).is_some();
    let status = Command::new("nice")
        .args(["-n", niceness])
        .envs((!is_drawn).then_some((seed, fixed)))
        .arg(&program.executable)
        .arg("--show-output")
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
    let test = test.as_deref().unwrap_or("all");
    // One call, so that the output of two processes is not mixed.
    match status.success() && job.test.is_some() {
        true => println!("-- {source}: {test}: ok after {seconds:.1} s"),
        false => {
            let shown = remarks::brief(&said);
            println!("-- {source}: {test}\n{shown}-- {source}: {status} after {seconds:.1} s");
        }
    }
    Ok((status, said))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a job of each target; those of `stores` and `copies` are two tests each.
    fn some_jobs() -> Vec<Job> {
        let tests = |name: &str| match name {
            "stores" | "copies" => vec![Some("a".to_owned()), Some("b".to_owned())],
            "peers" => vec![Some("c".to_owned())],
            _ => vec![None],
        };
        let program = |name: &str| Program {
            target: name.to_owned(),
            source: PathBuf::new(),
            executable: PathBuf::new(),
            directory: PathBuf::new(),
        };
        let jobs =
            |name| tests(name).into_iter().map(move |test| Job { program: program(name), test });
        ["lab", "stores", "copies", "peers", "ledger"].into_iter().flat_map(jobs).collect()
    }

    /// Promise: every job runs once, and two lanes share them all; the programs of each take turns.
    #[test]
    fn lanes_help_each_other_and_leave_nothing() {
        let mut lanes = lanes(some_jobs());
        let mut next = |lane| {
            let job = lanes.next(lane)?;
            Some(format!("{} {}", job.program.target, job.test.unwrap_or_default()))
        };
        let waiting: Vec<_> = std::iter::repeat_with(|| next(0)).take(2).flatten().collect();
        assert_eq!(waiting, ["stores a", "peers c"]);
        let computing: Vec<_> = std::iter::repeat_with(|| next(1)).take(4).flatten().collect();
        assert_eq!(computing, ["lab ", "copies a", "copies b", "ledger "]);
        assert_eq!(next(1).as_deref(), Some("stores b"));
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
        let (failed, _) =
            once_more(run_all(jobs(programs.to_vec()).expect("no list"), &kept), &kept);
        assert_eq!(failed, ["false: exit status: 1: it names no test that failed"]);
        assert!(logs.join("true.log").is_file());
        fs::remove_dir_all(&logs).expect("remove what was made");
    }

    /// Makes a program whose one test fails, always or the first time only, with the output of
    /// libtest.
    fn fails(source: &str, name: &str, logs: &Path, first_time_only: bool) -> Program {
        let executable = logs.join(name);
        let passed = u8::from(first_time_only);
        let script = format!(
            "#!/bin/sh\n\
             case \"$*\" in --list*) echo '{name}::one: test'; exit 0;; esac\n\
             rm ran-{name} 2>&- && echo 'test result: ok. {passed} passed; 0 failed;' && exit 0\n\
             touch ran-{name}\n\
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

    /// Promise: a test that fails beside others and passes alone does not fail the run, be it one
    /// of real processes or a unit test. A test that fails twice, and many that fail at once, do.
    #[test]
    fn what_fails_beside_others_runs_once_more_alone() {
        let logs = std::env::temp_dir().join(format!("penstock-again-{}", std::process::id()));
        fs::create_dir(&logs).expect("a new directory");
        let real = format!("{REAL_PROCESSES}/x.rs");
        let once = fails(&real, "once", &logs, true);
        let many: Vec<Program> =
            (0..=UNSTABLE_MAX).map(|at| fails(&real, &format!("many{at}"), &logs, true)).collect();
        let ever = fails(&real, "ever", &logs, false);
        let unit = fails("crates/a/src/lib.rs", "unit", &logs, true);
        let kept = Logs { directory: logs.clone(), ..Logs::default() };
        let ends = |programs: &[&Program]| {
            let programs = programs.iter().map(|program| (*program).clone()).collect();
            once_more(run_all(jobs(programs).expect("they list their tests"), &kept), &kept)
        };
        assert_eq!(ends(&[&once]), (vec![], vec![format!("{real}: once::one")]));
        assert!(logs.join("once.once-one.alone.log").is_file());
        // The program ends well, as libtest does where there is no test of that name.
        assert_eq!(ends(&[&ever]), (vec![format!("{real}: exit status: 0: ever::one")], vec![]));
        let unstable = "crates/a/src/lib.rs: unit::one".to_owned();
        assert_eq!(ends(&[&unit]), (vec![], vec![unstable]));
        let many: Vec<&Program> = many.iter().collect();
        assert_eq!(ends(&many[1..]).1.len(), UNSTABLE_MAX);
        assert_eq!(ends(&many).0.len(), many.len());
        let cut = "\nfailures:\n    a::one\nnoise\n    a::two\n\nFAILED. 0 passed; 2 failed;";
        assert_eq!(failed_tests(cut), Vec::<String>::new(), "one of two is not all of them");
        fs::remove_dir_all(&logs).expect("remove what was made");
    }

    /// Promise: cargo's messages about tests are understood, and others are left out.
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
