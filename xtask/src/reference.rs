//! What is written from the program itself: `docs/reference.md` and man pages.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

const PLACE: &str = "docs/reference.md";

/// Writes `docs/reference.md`.
///
/// # Errors
/// The program does not build, or the file cannot be written.
pub(crate) fn write(root: &Path) -> anyhow::Result<()> {
    let text = program(root, &["reference"])?;
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
    let wanted = output.stdout;
    let found = fs::read(root.join(PLACE)).unwrap_or_default();
    if found == wanted {
        return Ok(());
    }
    let (wanted, found) = (String::from_utf8_lossy(&wanted), String::from_utf8_lossy(&found));
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
