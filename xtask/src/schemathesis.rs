//! Requests of all kinds to a real daemon, made from its OpenAPI document.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// Seconds for each role.
const SECONDS: u32 = 300;

/// Runs `scripts/schemathesis.sh`. Needs Python with `venv`, and a package index.
///
/// # Errors
/// An answer does not match the document, or a tool that the script needs is missing.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let program = crate::suite::program_under_test(root)?;
    let status = Command::new("scripts/schemathesis.sh")
        .arg(SECONDS.to_string())
        .env("PENSTOCK_BIN", program)
        .current_dir(root)
        .status()
        .context("start scripts/schemathesis.sh")?;
    if !status.success() {
        bail!("`scripts/schemathesis.sh {SECONDS}` failed: {status}");
    }
    Ok(())
}
