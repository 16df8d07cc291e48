//! The benchmarks of `bench/`: the full comparison on demand, and a smoke run at every gate.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

/// The comparison with rivals.
const LOOPBACK: &str = "bench/loopback.py";
/// The load of a site by many clients.
const LOAD: &str = "bench/load.py";

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
    harness(root, LOOPBACK, &root.join(target).join("release/penstock"), arguments)
}

/// A few MiB through every mode, once, and a small load of a site, so that the harnesses keep
/// working. Builds what the tests have built already. Skipped on a machine without Python, except
/// in CI, where a check that does not run must not look like one that passed.
///
/// # Errors
/// As for [`run`].
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
    [LOOPBACK, LOAD].iter().try_for_each(|script| harness(root, script, &binary, &["--quick"]))
}

/// Runs a harness with a binary, its output shown.
fn harness(root: &Path, script: &str, binary: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    println!("$ {script} --penstock {} {}", binary.display(), arguments.join(" "));
    let status = Command::new("python3")
        .arg(script)
        .arg("--penstock")
        .arg(binary)
        .args(arguments)
        .current_dir(root)
        .status()
        .context("start python3")?;
    if !status.success() {
        bail!("`{script}` failed: {status}");
    }
    Ok(())
}
