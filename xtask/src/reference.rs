//! What is written from the program itself: `docs/reference.md` and man pages.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::markdown;

const PLACE: &str = "docs/reference.md";

/// Writes `docs/reference.md`.
///
/// # Errors
/// The program does not build, or the file cannot be written.
pub(crate) fn write(root: &Path) -> anyhow::Result<()> {
    let text = wrapped(&program(root, &["reference"])?);
    fs::write(root.join(PLACE), text).with_context(|| format!("write {PLACE}"))?;
    println!("wrote {PLACE}");
    Ok(())
}

/// Checks that `docs/reference.md` is what the program says.
///
/// # Errors
/// It is not; the message says what to run.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let program = crate::suite::program_under_test(root)?;
    let output = Command::new(program).arg("reference").output().context("start penstock")?;
    if !output.status.success() {
        bail!("`penstock reference` failed: {}", output.status);
    }
    let wanted = wrapped(&output.stdout);
    let found = fs::read_to_string(root.join(PLACE)).unwrap_or_default();
    if found == wanted {
        return Ok(());
    }
    if let Some(line) = wanted.lines().find(|line| !found.lines().any(|known| known == *line)) {
        println!("missing: {line}");
    }
    bail!("{PLACE} is not what the code says: run `cargo xtask reference`, and commit it");
}

/// Writes a man page for each command into a directory.
///
/// # Errors
/// The program does not build, or the directory cannot be written.
pub(crate) fn man(root: &Path, directory: &str) -> anyhow::Result<()> {
    let directory = std::path::absolute(directory)?;
    let directory = directory.to_str().context("the directory's name is not UTF-8")?;
    program(root, &["reference", "--man", directory])?;
    println!("wrote {directory}/penstock*.1");
    Ok(())
}

/// Text that the program has printed, within the width of all documents.
fn wrapped(printed: &[u8]) -> String {
    markdown::wrap(&String::from_utf8_lossy(printed))
}

/// Builds the program, runs it, and gives what it prints.
fn program(root: &Path, arguments: &[&str]) -> anyhow::Result<Vec<u8>> {
    let output = Command::new("cargo")
        .args(["run", "--quiet", "--package", "penstock", "--locked", "--"])
        .args(arguments)
        .current_dir(root)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("start cargo")?;
    if !output.status.success() {
        bail!("`penstock {}` failed: {}", arguments.join(" "), output.status);
    }
    Ok(output.stdout)
}
