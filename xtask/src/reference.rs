//! Papers that are written from the program itself: the references of commands, of problems and of
//! the API, and man pages.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::markdown;

/// The references, and the arguments of the program that prints each.
const REFERENCES: [(&str, &[&str]); 3] = [
    ("docs/reference.md", &["reference"]),
    ("docs/problems.md", &["reference", "--problems"]),
    ("docs/api.md", &["reference", "--endpoints"]),
];

/// Writes the references.
///
/// # Errors
/// The program does not build, or a file cannot be written.
pub(crate) fn write(root: &Path) -> anyhow::Result<()> {
    for (place, arguments) in REFERENCES {
        let text = wrapped(&program(root, arguments)?);
        fs::write(root.join(place), text).with_context(|| format!("write {place}"))?;
        println!("wrote {place}");
    }
    Ok(())
}

/// Checks that the references are what the program prints.
///
/// # Errors
/// One of them differs; the message names the command that writes it.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let program = crate::suite::program_under_test(root)?;
    for (place, arguments) in REFERENCES {
        let output = Command::new(&program).args(arguments).output().context("start penstock")?;
        if !output.status.success() {
            bail!("`penstock {}` failed: {}", arguments.join(" "), output.status);
        }
        let found = fs::read_to_string(root.join(place)).unwrap_or_default();
        compare(place, &wrapped(&output.stdout), &found)?;
    }
    Ok(())
}

fn compare(place: &str, wanted: &str, found: &str) -> anyhow::Result<()> {
    if found == wanted {
        return Ok(());
    }
    if let Some(line) = wanted.lines().find(|line| !found.lines().any(|known| known == *line)) {
        println!("missing: {line}");
    }
    bail!("{place} differs from the code: run `cargo xtask reference`, and commit the file");
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
