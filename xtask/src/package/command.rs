//! Programs of the host that make packages.

use std::process::Command;

use anyhow::{Context, bail};

/// Variables of a command's environment.
pub(crate) type Variables<'a> = [(&'a str, &'a str)];

/// Runs a program silently, and returns its output.
///
/// # Errors
/// The program does not start, or fails: the message has its output.
pub(crate) fn output(
    program: &str,
    words: &[&str],
    variables: &Variables<'_>,
) -> anyhow::Result<String> {
    let output = Command::new(program)
        .args(words)
        .env("LC_ALL", "C.UTF-8")
        .envs(variables.iter().copied())
        .output()
        .with_context(|| format!("start {program}"))?;
    if !output.status.success() {
        let printed = [output.stdout, output.stderr].concat();
        bail!("`{program}` failed: {}\n{}", output.status, String::from_utf8_lossy(&printed));
    }
    String::from_utf8(output.stdout).with_context(|| format!("read what {program} prints"))
}

/// Runs a program with its output shown.
///
/// # Errors
/// The program does not start, or fails.
pub(crate) fn run(program: &str, words: &[&str], variables: &Variables<'_>) -> anyhow::Result<()> {
    println!("$ {program} {}", words.join(" "));
    let status = Command::new(program)
        .args(words)
        .envs(variables.iter().copied())
        .status()
        .with_context(|| format!("start {program}"))?;
    if !status.success() {
        bail!("`{program}` failed: {status}");
    }
    Ok(())
}
