//! The benchmarks of `bench/`: the full comparison on demand, and a smoke run at every gate.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The program of all benchmarks.
const PROGRAM: &str = "bench/penstock-bench";
/// The commands of a smoke run: rivals on one host, our targets, the load of many clients.
const SMOKE: [&str; 3] = ["rivals", "loopback", "load"];

/// Builds the release binary and runs the comparison with it; `arguments` are the harness's own.
///
/// # Errors
/// The build or the harness failed, or a run of Penstock was not verified.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    super::cargo(&["build", "--release", "--locked", "--package", "penstock"], &[])?;
    let primitives = ["build", "--release", "--locked", "--package", "penstock-net"];
    super::cargo(&[primitives.as_slice(), &["--example", "primitives"]].concat(), &[])?;
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    harness(root, "loopback", &root.join(target).join("release/penstock"), arguments)
}

/// Runs the unit tests of the benchmarks, and moves a few MiB with each of three, so that they keep
/// working. Uses the build of the tests. Skipped on a machine without Python, except in CI, where a
/// check that does not run must not look like one that passed.
///
/// # Errors
/// As for [`run`]; or a unit test failed.
pub(crate) fn smoke(root: &Path) -> anyhow::Result<()> {
    let python = Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|output| output.status.success()) {
        if crate::is_ci() {
            bail!("python3 is not installed");
        }
        println!("skipped: python3 is not installed");
        return Ok(());
    }
    let binary = crate::suite::program_under_test(root)?;
    let tests = ["-B", "-m", "unittest", "discover", "--start-directory", "bench/tests"];
    python3(root, &[&tests[..], &["--top-level-directory", "."]].concat())?;
    SMOKE.iter().try_for_each(|command| harness(root, command, &binary, &["--quick"]))
}

/// Runs a benchmark with a binary, its output shown.
fn harness(root: &Path, command: &str, binary: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let binary = binary.to_str().context("the path of the binary is no UTF-8")?;
    python3(root, &[&[PROGRAM, command, "--penstock", binary], arguments].concat())
}

/// Runs Python in the root of the project, its output shown.
fn python3(root: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    println!("$ python3 {}", arguments.join(" "));
    let status = Command::new("python3")
        .args(arguments)
        .current_dir(root)
        .status()
        .context("start python3")?;
    if !status.success() {
        bail!("`python3 {}` failed: {status}", arguments.join(" "));
    }
    Ok(())
}
