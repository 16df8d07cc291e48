//! The Python client in `sdk/python`: checks and tests, with tools in an environment of their own.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// The project, below the root.
const PROJECT: &str = "sdk/python";
/// The pinned tools and libraries, within the project.
const PINNED: &str = "requirements-dev.txt";
/// The oldest libraries that it works with, and the tool that tests it, within the project.
const LOWEST: &str = "requirements-lowest.txt";
/// What is made of the project, below the root.
const BUILT: &str = "target/sdk";
/// Text of pip where a file is another than the pinned one.
const OTHER_FILE: &str = "DO NOT MATCH THE HASHES";

/// Checks the format, the rules and the types of the client, runs its tests, those against daemons
/// included, and makes its documentation. Skipped where the pinned packages cannot be installed,
/// except in CI.
///
/// # Errors
/// A check or a test failed; its output has been printed. In CI also if they cannot run.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let program = crate::suite::program_under_test(root)?;
    let built = root.join(BUILT);
    let environment = built.join("venv");
    let wheels = built.join("wheels");
    if let Err(error) = install(&root.join(PROJECT).join(PINNED), &environment, &wheels) {
        return skip_or_fail(error);
    }
    let python = environment.join("bin/python");
    let (docs, trees) = (built.join("docs"), built.join("doctrees"));
    let [python, docs, trees] = [text(&python)?, text(&docs)?, text(&trees)?];
    let run = |arguments: &[&str]| run(root, python, &program, arguments);
    run(&["ruff", "format", "--check", "--quiet", "."])?;
    run(&["ruff", "check", "--quiet", "."])?;
    run(&["pyright", "--pythonpath", python])?;
    let sphinx = ["sphinx", "--fail-on-warning", "--keep-going", "--quiet", "--fresh-env"];
    run(&[&sphinx[..], &["-d", trees, "docs", docs]].concat())?;
    run(&["pytest"])
}

/// Runs the tests of the client with the oldest libraries that it works with. Skipped where these
/// cannot be installed, except in CI.
///
/// # Errors
/// A test failed; its output has been printed. In CI also if they cannot run.
pub(crate) fn check_lowest(root: &Path) -> anyhow::Result<()> {
    let program = crate::suite::program_under_test(root)?;
    let built = root.join(BUILT).join("lowest");
    let environment = built.join("venv");
    if let Err(error) =
        install(&root.join(PROJECT).join(LOWEST), &environment, &built.join("wheels"))
    {
        return skip_or_fail(error);
    }
    run(root, text(&environment.join("bin/python"))?, &program, &["pytest", "-m", "not tools"])
}

/// Runs a module of Python in the project, against a program.
///
/// # Errors
/// It fails; its output has been printed.
fn run(root: &Path, python: &str, program: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    println!("$ python -m {}", arguments.join(" "));
    let status = Command::new(python)
        .arg("-m")
        .args(arguments)
        .env("PENSTOCK_BIN", program)
        .current_dir(root.join(PROJECT))
        .status()
        .context("start python")?;
    if !status.success() {
        bail!("`python -m {}` failed: {status}", arguments.join(" "));
    }
    Ok(())
}

fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().context("the path of the work tree is not UTF-8")
}

/// Prints why the pinned packages are not there.
///
/// # Errors
/// In CI, or where the index has another file than the pinned one: the error itself.
fn skip_or_fail(error: anyhow::Error) -> anyhow::Result<()> {
    if super::is_ci() || format!("{error:#}").contains(OTHER_FILE) {
        return Err(error);
    }
    println!("SKIPPED: {error:#}");
    Ok(())
}

/// Installs the pinned packages into an environment, unless they are there, from a folder of wheels
/// that it fills first.
///
/// # Errors
/// There is no Python with `venv`, or pip fails: the message has the last lines of its output.
fn install(pinned: &Path, environment: &Path, wheels: &Path) -> anyhow::Result<()> {
    let wanted = fs::read(pinned).with_context(|| format!("read {}", pinned.display()))?;
    let marker = environment.join("installed");
    let python = environment.join("bin/python");
    let is_there = fs::read(&marker).is_ok_and(|installed| installed == wanted);
    if is_there && wheels.is_dir() && works(&python) {
        return Ok(());
    }
    let hint = "the tools of the Python client cannot be installed; `scripts/setup.sh test` \
                installs python3-venv, and pip needs an index";
    if wheels.is_dir() {
        fs::remove_dir_all(wheels).with_context(|| format!("remove {}", wheels.display()))?;
    }
    output(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment))
        .context(hint)?;
    let pip = |arguments: &[&str]| {
        let mut command = Command::new(&python);
        command.args(["-m", "pip", "--quiet", "--disable-pip-version-check"]).args(arguments);
        command.args(["--require-hashes", "--only-binary", ":all:", "-r"]).arg(pinned);
        command
    };
    output(&mut pip(&["download", "--dest", text(wheels)?])).context(hint)?;
    output(&mut pip(&["install", "--no-index", "--find-links", text(wheels)?])).context(hint)?;
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
