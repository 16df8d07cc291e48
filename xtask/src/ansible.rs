//! The playbooks of `packaging/ansible`: their rules, and a run on hosts of real systemd.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::{python, sdk};

/// The role and the playbooks, below the root.
const PLAYBOOKS: &str = "packaging/ansible";
/// The pinned tools, within them.
const PINNED: &str = "requirements-dev.txt";
/// The tests, below the root.
const TESTS: &str = "packaging/tests";
/// The environment of Python for them, below the root.
const BUILT: &str = "target/ansible";

/// Lints the playbooks, and runs them on hosts in namespaces. Skipped where the pinned tools cannot
/// be installed, except in CI; the tests skip themselves where the machine lacks what hosts need.
///
/// # Errors
/// A rule is broken or a test failed; the output has been printed. In CI also if they cannot run.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let program = crate::suite::program_under_test(root)?;
    let built = root.join(BUILT);
    let environment = built.join("venv");
    let pinned = root.join(PLAYBOOKS).join(PINNED);
    if let Err(error) = python::install("Ansible", &pinned, &environment, &built.join("wheels")) {
        return sdk::skip_or_fail(error);
    }
    let tools = environment.join("bin");
    // ansible-lint starts its tools by their names.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::iter::once(tools.clone()).chain(std::env::split_paths(&path));
    let path = std::env::join_paths(path).context("the path of the work tree has a colon")?;
    let run = |directory: &str, name: &str, words: &[&str]| {
        println!("$ {name} {}", words.join(" "));
        let mut command = Command::new(tools.join(name));
        command.args(words).current_dir(root.join(directory));
        command.env("PATH", &path).env("PENSTOCK_BIN", &program);
        let status = command.status().with_context(|| format!("start {name}"))?;
        if !status.success() {
            bail!("`{name}` failed: {status}");
        }
        Ok(())
    };
    run(PLAYBOOKS, "ansible-lint", &["--offline", "-q"])?;
    run(TESTS, "python", &["-m", "pytest", "-rs", "--durations=5", "test_ansible.py"])
}
