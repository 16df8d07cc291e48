//! The Python client in `sdk/python` and the report of sweeps in `sdk/eval`: checks and tests, with
//! tools in environments of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::python;

/// The project, below the root.
const PROJECT: &str = "sdk/python";
/// The report of sweeps, below the root.
const EVALUATION: &str = "sdk/eval";
/// The pinned tools and libraries, within a project.
const PINNED: &str = "requirements-dev.txt";
/// The oldest libraries that it works with, and the tool that tests it, within the project.
const LOWEST: &str = "requirements-lowest.txt";
/// Tests of packages and of the service, written by the same rules, from the project.
const PACKAGING: &str = "../../packaging/tests";
/// The benchmarks, checked by most of the same rules.
const BENCH: &str = "../../bench";
/// Directory of the build products, below the root.
const BUILT: &str = "target/sdk";
/// Name of the installed tools, in words.
const TOOLS: &str = "the tools of the Python client";
/// Name of the tools for the report, in words.
const EVALUATION_TOOLS: &str = "the tools of penstock-eval";
/// Text of pip where a file is another than the pinned one.
const OTHER_FILE: &str = "DO NOT MATCH THE HASHES";

/// Checks the format, the rules and the types of the client and of the report, and runs their
/// tests. Skipped where the pinned packages cannot be installed, except in CI.
///
/// # Errors
/// A check or a test failed; its output has been printed. In CI also if they cannot run.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    check_evaluation(root)?;
    check_client(root)
}

/// Checks the report of sweeps. Its tests need no daemon.
fn check_evaluation(root: &Path) -> anyhow::Result<()> {
    let project = root.join(EVALUATION);
    let built = root.join(BUILT).join("eval");
    let environment = built.join("venv");
    let pinned = project.join(PINNED);
    let wheels = built.join("wheels");
    if let Err(error) = python::install(EVALUATION_TOOLS, &pinned, &environment, &wheels) {
        return skip_or_fail(error);
    }
    let python = environment.join("bin/python");
    let python = text(&python)?;
    let run = |arguments: &[&str]| run(&project, python, Path::new(""), arguments);
    run(&["ruff", "format", "--check", "--quiet", "."])?;
    run(&["ruff", "check", "--quiet", "."])?;
    run(&["pyright", "--pythonpath", python])?;
    run(&["pytest"])
}

/// Checks the client, runs its tests, those against daemons included, and makes its documentation.
fn check_client(root: &Path) -> anyhow::Result<()> {
    let program = crate::suite::program_under_test(root)?;
    let built = root.join(BUILT);
    let environment = built.join("venv");
    let wheels = built.join("wheels");
    if let Err(error) =
        python::install(TOOLS, &root.join(PROJECT).join(PINNED), &environment, &wheels)
    {
        return skip_or_fail(error);
    }
    let python = environment.join("bin/python");
    let (docs, trees) = (built.join("docs"), built.join("doctrees"));
    let [python, docs, trees] = [text(&python)?, text(&docs)?, text(&trees)?];
    let project = root.join(PROJECT);
    let run = |arguments: &[&str]| run(&project, python, &program, arguments);
    run(&["ruff", "format", "--check", "--quiet", ".", PACKAGING, BENCH])?;
    run(&["ruff", "check", "--quiet", ".", PACKAGING, BENCH])?;
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
    if let Err(error) = python::install(
        TOOLS,
        &root.join(PROJECT).join(LOWEST),
        &environment,
        &built.join("wheels"),
    ) {
        return skip_or_fail(error);
    }
    let python = environment.join("bin/python");
    run(&root.join(PROJECT), text(&python)?, &program, &["pytest", "-m", "not tools"])
}

/// Runs a tool that the project pins. Skipped where it cannot be installed, except in CI.
///
/// # Errors
/// The tool fails; its output has been printed. In CI also if it cannot run.
pub(crate) fn tool(root: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let built = root.join(BUILT);
    let environment = built.join("venv");
    let pinned = root.join(PROJECT).join(PINNED);
    if let Err(error) = python::install(TOOLS, &pinned, &environment, &built.join("wheels")) {
        return skip_or_fail(error);
    }
    let python = environment.join("bin/python");
    run(&root.join(PROJECT), text(&python)?, Path::new(""), arguments)
}

/// Makes wheels and source archives of the client and of the report in a directory, with the time
/// of `epoch`, and returns their paths.
///
/// # Errors
/// The tools cannot be installed, or hatchling fails: it has printed why.
pub(crate) fn package(root: &Path, out: &Path, epoch: &str) -> anyhow::Result<Vec<PathBuf>> {
    let built = root.join(BUILT);
    let environment = built.join("venv");
    let pinned = root.join(PROJECT).join(PINNED);
    python::install(TOOLS, &pinned, &environment, &built.join("wheels"))?;
    let python = environment.join("bin/python");
    let mut paths = Vec::new();
    for (project, made) in [(PROJECT, built.join("dist")), (EVALUATION, built.join("eval/dist"))] {
        build(&python, &root.join(project), &made, epoch)?;
        let failed = || format!("list {}", made.display());
        for entry in fs::read_dir(&made).with_context(failed)? {
            let entry = entry.with_context(failed)?;
            let path = out.join(entry.file_name());
            fs::copy(entry.path(), &path).with_context(|| format!("write {}", path.display()))?;
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Makes wheel and source archive of a project in a directory of their own.
///
/// # Errors
/// hatchling fails: it has printed why.
fn build(python: &Path, project: &Path, made: &Path, epoch: &str) -> anyhow::Result<()> {
    let status = Command::new(python)
        .args(["-m", "hatchling", "build", "--clean", "--directory", text(made)?])
        .env("SOURCE_DATE_EPOCH", epoch)
        .current_dir(project)
        .status()
        .context("start hatchling")?;
    if !status.success() {
        bail!("hatchling failed in {}: {status}", project.display());
    }
    Ok(())
}

/// Runs a module of Python in a project, against a program.
///
/// # Errors
/// The module fails; its output has been printed.
fn run(project: &Path, python: &str, program: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    println!("$ python -m {}", arguments.join(" "));
    let status = Command::new(python)
        .arg("-m")
        .args(arguments)
        .env("PENSTOCK_BIN", program)
        .current_dir(project)
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
pub(crate) fn skip_or_fail(error: anyhow::Error) -> anyhow::Result<()> {
    if super::is_ci() || format!("{error:#}").contains(OTHER_FILE) {
        return Err(error);
    }
    println!("SKIPPED: {error:#}");
    Ok(())
}
