//! The Python client in `sdk/python`: checks and tests, with tools in an environment of their own.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// The project, below the root.
const PROJECT: &str = "sdk/python";
/// The pinned tools and libraries, within the project.
const PINNED: &str = "requirements-dev.txt";
/// The environment, below the root.
const ENVIRONMENT: &str = "target/sdk/venv";
/// Text of pip where a file is another than the pinned one.
const OTHER_FILE: &str = "DO NOT MATCH THE HASHES";

/// Checks the format, the rules and the types of the client, and runs its tests, those against
/// daemons included. Skipped where the pinned packages cannot be installed, except in CI.
///
/// # Errors
/// A check or a test failed; its output has been printed. In CI also if they cannot run.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let program = crate::suite::program_under_test(root)?;
    let environment = root.join(ENVIRONMENT);
    if let Err(error) = install(&root.join(PROJECT).join(PINNED), &environment) {
        if super::is_ci() || format!("{error:#}").contains(OTHER_FILE) {
            return Err(error);
        }
        println!("SKIPPED: {error:#}");
        return Ok(());
    }
    let python = environment.join("bin/python");
    let python = python.to_str().context("the path of the environment is not UTF-8")?;
    let run = |arguments: &[&str]| {
        println!("$ python -m {}", arguments.join(" "));
        let status = Command::new(python)
            .arg("-m")
            .args(arguments)
            .env("PENSTOCK_BIN", &program)
            .current_dir(root.join(PROJECT))
            .status()
            .context("start python")?;
        if !status.success() {
            bail!("`python -m {}` failed: {status}", arguments.join(" "));
        }
        Ok(())
    };
    run(&["ruff", "format", "--check", "--quiet", "."])?;
    run(&["ruff", "check", "--quiet", "."])?;
    run(&["pyright", "--pythonpath", python])?;
    run(&["pytest"])
}

/// Installs the pinned packages, unless they are there.
///
/// # Errors
/// There is no Python with `venv`, or pip fails: the message has the last lines of its output.
fn install(pinned: &Path, environment: &Path) -> anyhow::Result<()> {
    let wanted = fs::read(pinned).with_context(|| format!("read {}", pinned.display()))?;
    let marker = environment.join("installed");
    let python = environment.join("bin/python");
    if fs::read(&marker).is_ok_and(|installed| installed == wanted) && works(&python) {
        return Ok(());
    }
    let hint = "the tools of the Python client cannot be installed; `scripts/setup.sh test` \
                installs python3-venv, and pip needs an index";
    output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment))
        .context(hint)?;
    output(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
            .args(["--require-hashes", "--only-binary", ":all:", "-r"])
            .arg(pinned),
    )
    .context(hint)?;
    fs::write(&marker, wanted).with_context(|| format!("write {}", marker.display()))
}

/// Returns whether an environment works: it does not after an upgrade of the Python it is made of.
fn works(python: &Path) -> bool {
    let output = Command::new(python).args(["-c", "import pytest"]).output();
    output.is_ok_and(|output| output.status.success())
}

/// Runs a command silently.
///
/// # Errors
/// The command fails; the message has the end of what it printed.
fn output(command: &mut Command) -> anyhow::Result<()> {
    const LINES_SHOWN: usize = 20;
    let output = command.output().context("start python3")?;
    if output.status.success() {
        return Ok(());
    }
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed);
    let lines: Vec<_> = printed.lines().collect();
    bail!("{}", lines[lines.len().saturating_sub(LINES_SHOWN)..].join("\n"))
}
