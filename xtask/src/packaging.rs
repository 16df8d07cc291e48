//! Tests of `packaging/tests`: the service under a real systemd, and containers.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::{python, sdk};

/// The tests, below the root.
const TESTS: &str = "packaging/tests";
/// The pinned libraries that they use, within them.
const PINNED: &str = "requirements.txt";
/// The environment of Python for them, below the root.
const BUILT: &str = "target/packaging";

/// Runs some files of tests, against the program under test. Skipped where the pinned packages
/// cannot be installed, except in CI; tests skip themselves where the machine lacks what they need.
///
/// # Errors
/// A test failed; its output has been printed. In CI also if one cannot run.
pub(crate) fn check(root: &Path, files: &[&str]) -> anyhow::Result<()> {
    let program = program(root)?;
    let tests = root.join(TESTS);
    let environment = match environment(root) {
        Ok(environment) => environment,
        Err(error) => return sdk::skip_or_fail(error),
    };
    let python = environment.join("bin/python");
    println!("$ python -m pytest {}", files.join(" "));
    let status = Command::new(&python)
        // The output has the reasons of skipped tests.
        .args(["-m", "pytest", "-rs", "--durations=5"])
        .args(files)
        .env("PENSTOCK_BIN", program)
        .current_dir(&tests)
        .status()
        .context("start python")?;
    if !status.success() {
        bail!("`python -m pytest` failed: {status}");
    }
    Ok(())
}

/// Checks the types of the tests, with the tools of the Python client.
///
/// # Errors
/// A type is wrong; the place has been printed. Or the tools cannot be installed.
pub(crate) fn check_types(root: &Path) -> anyhow::Result<()> {
    let environment = match environment(root) {
        Ok(environment) => environment,
        Err(error) => return sdk::skip_or_fail(error),
    };
    let python = environment.join("bin/python");
    let python = python.to_str().context("the path of the work tree is not UTF-8")?;
    sdk::tool(root, &["pyright", "--project", "../../packaging/tests", "--pythonpath", python])
}

/// Returns the program that `PENSTOCK_BIN` names, or else builds one.
fn program(root: &Path) -> anyhow::Result<PathBuf> {
    if let Some(program) = std::env::var_os("PENSTOCK_BIN") {
        return Ok(PathBuf::from(program));
    }
    crate::cargo(&["build", "--locked", "--package", "penstock"], &[])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    Ok(root.join(target).join("debug/penstock"))
}

/// Returns the environment, made if it is missing.
fn environment(root: &Path) -> anyhow::Result<PathBuf> {
    let environment = root.join(BUILT).join("venv");
    let pinned = root.join(TESTS).join(PINNED);
    let what = "what tests of packaging use";
    python::install(what, &pinned, &environment, &root.join(BUILT).join("wheels"))?;
    Ok(environment)
}
