//! The first minute of a user: `make demo`, and the set-up of `make test`, on a bare Debian.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// The releases that are tried: those whose own packages have a Rust that is new enough.
const RELEASES: [&str; 2] = ["bookworm", "trixie"];

/// Tries each release with a clone of the commit that is checked out. Needs root, mmdebstrap, the
/// mirrors of Debian and crates.io, and many minutes.
///
/// # Errors
/// In one of them a goal failed, or something that `scripts/bare.sh` needs is missing.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    for release in RELEASES {
        let status = Command::new("scripts/bare.sh")
            .arg(release)
            .current_dir(root)
            .status()
            .context("start scripts/bare.sh")?;
        if !status.success() {
            bail!("`scripts/bare.sh {release}` failed: {status}");
        }
    }
    Ok(())
}
