//! The laboratory of networks in `lab/`: sites of peers, joined by slow and lossy links.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

/// Builds the lab's program, and for `up` the daemon's, and runs it with `arguments`, which are its
/// own. In release, as the program moves every packet and shares the cores with the tested
/// programs.
///
/// # Errors
/// The build or the program failed.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let mut build = vec!["build", "--release", "--locked", "--quiet", "--package", "penstock-lab"];
    let own_daemon = arguments.iter().any(|word| ["--bare", "--penstock"].contains(word));
    if arguments.first() == Some(&"up") && !own_daemon {
        build.extend(["--package", "penstock"]);
    }
    super::cargo(&build, &[])?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), |directory| {
        // The target directory of cargo is relative to the current directory.
        root.join(directory)
    });
    let program = target.join("release/penstock-lab");
    let status = Command::new(&program)
        .args(arguments)
        .status()
        .with_context(|| format!("start {}", program.display()))?;
    if !status.success() {
        bail!("`penstock-lab {}` failed: {status}", arguments.join(" "));
    }
    Ok(())
}
