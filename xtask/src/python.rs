//! Environments of Python with pinned packages.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// Installs the pinned packages into an environment, unless they are there, from a folder of wheels
/// that it fills first.
///
/// # Errors
/// There is no Python with `venv`, or pip fails: the message has the last lines of its output.
pub(crate) fn install(
    what: &str,
    pinned: &Path,
    environment: &Path,
    wheels: &Path,
) -> anyhow::Result<()> {
    let wanted = fs::read(pinned).with_context(|| format!("read {}", pinned.display()))?;
    let marker = environment.join("installed");
    let python = environment.join("bin/python");
    let is_there = fs::read(&marker).is_ok_and(|installed| installed == wanted);
    if is_there && wheels.is_dir() && works(&python) {
        return Ok(());
    }
    let hint = || {
        format!(
            "{what} cannot be installed; `scripts/setup.sh test` installs python3-venv, and pip \
             needs an index"
        )
    };
    if wheels.is_dir() {
        fs::remove_dir_all(wheels).with_context(|| format!("remove {}", wheels.display()))?;
    }
    output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment))
        .with_context(hint)?;
    let pip = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]).args(arguments);
        command.args(["--require-hashes", "--only-binary", ":all:", "-r"]).arg(pinned);
        command
    };
    output(&mut pip(&["download", "--dest", super::package::text(wheels)?])).with_context(hint)?;
    output(&mut pip(&["install", "--no-index", "--find-links", super::package::text(wheels)?]))
        .with_context(hint)?;
    fs::write(&marker, wanted).with_context(|| format!("write {}", marker.display()))
}

/// Returns whether an environment works: it does not after an upgrade of the Python it is made of.
fn works(python: &Path) -> bool {
    let output = Command::new(python).args(["-c", "import pip"]).output();
    output.is_ok_and(|output| output.status.success())
}

/// Runs a command silently.
///
/// # Errors
/// The command fails; the message has the end of its output.
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
