//! A short run of every fuzz target in `fuzz/`, with the features of a stable compiler.
//!
//! The targets are made for cargo-fuzz, which needs a nightly compiler for its address sanitizer.
//! The coverage that guides libFuzzer needs none, and our decoders have no unsafe code for the
//! sanitizer. So this module builds the targets with the same coverage flags and runs them
//! directly.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail};

const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cdebug-assertions -Coverflow-checks -Ccodegen-units=1";

/// Builds the targets and runs each for `seconds`, starting from `fuzz/corpus/TARGET` if there.
///
/// # Errors
/// A target does not build, or fails: libFuzzer has printed the input and where it is kept.
pub(crate) fn smoke(root: &Path, seconds: u32) -> anyhow::Result<()> {
    let fuzz = root.join("fuzz");
    let targets = targets(&fuzz)?;
    if targets.is_empty() {
        println!("skipped: there are no fuzz targets");
        return Ok(());
    }
    let host = host()?;
    // With a target named, the flags do not reach build scripts and procedural macros.
    let status = Command::new("cargo")
        .args(["build", "--locked", "--release", "--bins", "--target", &host])
        .env("RUSTFLAGS", COVERAGE)
        .env("CARGO_TARGET_DIR", fuzz.join("target"))
        .current_dir(&fuzz)
        .status()
        .context("start cargo")?;
    if !status.success() {
        bail!("the fuzz targets do not build: {status}");
    }
    let failed = Mutex::new(Vec::new());
    let (programs, next) = (fuzz.join("target").join(&host).join("release"), AtomicUsize::new(0));
    let work = || {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let is_good = run(&fuzz, &programs.join(target), target, seconds)
                .inspect_err(|error| println!("error: {error:#}"));
            if !is_good.unwrap_or(false) {
                failed.lock().unwrap_or_else(PoisonError::into_inner).push(target.clone());
            }
        }
    };
    // Each target keeps one processor busy.
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..processors).for_each(|_| drop(scope.spawn(work))));
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if !failed.is_empty() {
        bail!("fuzz targets failed: {}", failed.join(" "));
    }
    Ok(())
}

/// Runs one target, and prints its output; false if it found a failing input, which is then beneath
/// `artifacts`.
fn run(fuzz: &Path, program: &Path, target: &str, seconds: u32) -> anyhow::Result<bool> {
    let artifacts = fuzz.join("target/artifacts").join(target);
    let found = fuzz.join("target/found").join(target);
    for directory in [&artifacts, &found] {
        fs::create_dir_all(directory)
            .with_context(|| format!("make directory {}", directory.display()))?;
    }
    let mut command = Command::new(program);
    // The first directory receives new inputs, so the committed corpus must not be it.
    command.arg(&found);
    let corpus = fuzz.join("corpus").join(target);
    if corpus.is_dir() {
        command.arg(corpus);
    }
    let output = command
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-rss_limit_mb=2048", "-timeout=10", "-print_final_stats=1", "-verbosity=0"])
        .output()
        .with_context(|| format!("start {}", program.display()))?;
    let said = [output.stdout, output.stderr].concat();
    println!("-- {target}, {seconds} s\n{}", String::from_utf8_lossy(&said));
    Ok(output.status.success())
}

/// Names of the programs in `fuzz/fuzz_targets`, sorted.
fn targets(fuzz: &Path) -> anyhow::Result<Vec<String>> {
    let directory = fuzz.join("fuzz_targets");
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).context("list fuzz/fuzz_targets")? {
        let path = entry.context("list fuzz/fuzz_targets")?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// Returns the platform this compiler builds for by itself.
fn host() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("start rustc")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc -vV names no host")
}
