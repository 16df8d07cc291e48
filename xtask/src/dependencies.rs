//! Checks of dependencies: licences, bans and sources always, advisories where a database is.
//!
//! The database of advisories comes from the network, and a gate may have none. Then a copy of at
//! most 90 days serves (`maximum-db-staleness` in `deny.toml`). Without one the check is reported
//! as not judged, which fails nothing.

use std::path::Path;
use std::process::Command;

use anyhow::bail;

/// Checks the dependencies with cargo-deny. Skipped without it, except in CI, where a check that
/// does not run must not look like one that passed.
///
/// # Errors
/// A dependency breaks a rule of `deny.toml` or has an advisory; cargo-deny has printed which one.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    if !is_installed() {
        if super::is_ci() {
            bail!("cargo-deny is not installed; scripts/setup.sh test installs it");
        }
        println!("skipped: cargo-deny is not installed; `scripts/setup.sh test` installs it");
        return Ok(());
    }
    super::cargo(&["deny", "--workspace", "check", "licenses", "bans", "sources"], &[])?;
    let fetched = fetch_advisories(root);
    if !fetched && !has_advisories(root) {
        println!("NOT JUDGED: advisories of dependencies: their database cannot be fetched");
        return Ok(());
    }
    let offline: &[&str] = if fetched { &[] } else { &["--offline"] };
    super::cargo(&[&["deny", "--workspace"], offline, &["check", "advisories"]].concat(), &[])
}

fn is_installed() -> bool {
    let version = Command::new("cargo").args(["deny", "--version"]).output();
    version.is_ok_and(|output| output.status.success())
}

/// Fetches the database, and returns whether that succeeded. Blocks for 60 s at most.
fn fetch_advisories(root: &Path) -> bool {
    let fetch = ["60", "cargo", "deny", "fetch", "db"];
    let output = Command::new("timeout").args(fetch).current_dir(root).output();
    output.is_ok_and(|output| output.status.success())
}

/// Returns whether an earlier run left a database that cargo-deny still takes.
fn has_advisories(root: &Path) -> bool {
    let home = std::env::var_os("CARGO_HOME").map(std::path::PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo")));
    let databases = home.map(|home| home.join("advisory-dbs"));
    let Some(entries) = databases.and_then(|path| std::fs::read_dir(path).ok()) else {
        return false;
    };
    // A fetch that failed leaves a lock and no database.
    let mut databases = entries.flatten().filter(|entry| entry.path().join(".git").exists());
    databases.any(|database| is_recent(&database.path().join(".git"), root))
}

/// Returns whether the newest commit of a database is recent enough for `deny.toml`.
fn is_recent(git: &Path, root: &Path) -> bool {
    const STALE_AFTER: &str = "90 days ago";
    let since = format!("--since={STALE_AFTER}");
    let log = Command::new("git")
        .arg("--git-dir")
        .arg(git)
        .args(["log", "-1", "--format=%h", &since, "--all"])
        .current_dir(root)
        .output();
    log.is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
}
