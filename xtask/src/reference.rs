//! Papers that are written from the program itself: the references of commands, of problems and of
//! the API, its OpenAPI document, and man pages.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::markdown;

/// The reference of problems.
const PROBLEMS: &str = "docs/problems.md";
/// The codes of problems for the Python client.
const PYTHON_CODES: &str = "sdk/python/src/penstock/_codes.py";
/// The OpenAPI document of the API.
const OPENAPI: &str = "openapi/penstock-v1.json";
/// The references, and the arguments of the program that prints each.
const REFERENCES: [(&str, &[&str]); 4] = [
    ("docs/reference.md", &["reference"]),
    (PROBLEMS, &["reference", "--problems"]),
    ("docs/api.md", &["reference", "--endpoints"]),
    (OPENAPI, &["reference", "--openapi"]),
];

/// Writes the references.
///
/// # Errors
/// The program does not build, or a file cannot be written.
pub(crate) fn write(root: &Path) -> anyhow::Result<()> {
    for (place, text) in texts(|arguments| program(root, arguments))? {
        fs::write(root.join(place), text).with_context(|| format!("write {place}"))?;
        println!("wrote {place}");
    }
    Ok(())
}

/// Checks that the references equal the output of the program.
///
/// # Errors
/// One of them differs; the message names the command that writes it.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let program = crate::suite::program_under_test(root)?;
    let printed = |arguments: &[&str]| {
        let output = Command::new(&program).args(arguments).output().context("start penstock")?;
        if !output.status.success() {
            bail!("`penstock {}` failed: {}", arguments.join(" "), output.status);
        }
        Ok(output.stdout)
    };
    for (place, text) in texts(printed)? {
        let found = fs::read_to_string(root.join(place)).unwrap_or_default();
        compare(place, &text, &found)?;
    }
    Ok(())
}

/// Returns each file and its text, from the output of the program for some arguments.
///
/// # Errors
/// Those of `printed`.
fn texts(
    printed: impl Fn(&[&str]) -> anyhow::Result<Vec<u8>>,
) -> anyhow::Result<Vec<(&'static str, String)>> {
    let mut texts = Vec::new();
    for (place, arguments) in REFERENCES {
        let printed = printed(arguments)?;
        let text = match place {
            OPENAPI => String::from_utf8_lossy(&printed).into_owned(),
            _ => wrapped(&printed),
        };
        if place == PROBLEMS {
            texts.push((PYTHON_CODES, python_codes(&text)));
        }
        texts.push((place, text));
    }
    Ok(texts)
}

/// Returns the module of the Python client that holds the codes of the reference of problems.
fn python_codes(problems: &str) -> String {
    let (mut area, mut areas, mut later) = ("", String::new(), String::new());
    for line in problems.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            area = heading;
        }
        let Some((code, row)) = line.strip_prefix("| `").and_then(|row| row.split_once("` |"))
        else {
            continue;
        };
        areas += &format!("    \"{code}\": \"{area}\",\n");
        if row.split('|').nth(2).is_some_and(|retry| retry.trim() == "later") {
            later += &format!("        \"{code}\",\n");
        }
    }
    format!(
        "# Written by `cargo xtask reference` from docs/problems.md.\n\
         \"\"\"Codes of problems.\"\"\"\n\n\
         AREAS = {{\n{areas}}}\n\
         \"\"\"The area of each code.\"\"\"\n\n\
         RETRIED_LATER = frozenset(\n    {{\n{later}    }}\n)\n\
         \"\"\"Codes of problems that may pass without a change.\"\"\"\n"
    )
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

/// Returns the text that the program has printed, within the width of all documents.
fn wrapped(printed: &[u8]) -> String {
    markdown::wrap(&String::from_utf8_lossy(printed))
}

/// Builds the program, runs it, and returns its output.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the Python client knows each code of the reference, its area, and whether to retry.
    #[test]
    fn python_has_the_codes_of_the_reference() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let read = |place| fs::read_to_string(root.join(place)).unwrap();
        let codes = python_codes(&read(PROBLEMS));
        assert!(codes.contains("    \"store-offline\": \"Stores and targets\",\n"), "{codes}");
        assert!(codes.contains("        \"store-offline\",\n"), "{codes}");
        assert!(!codes.contains("        \"store-read-only\",\n"), "{codes}");
        compare(PYTHON_CODES, &codes, &read(PYTHON_CODES)).unwrap();
    }
}
