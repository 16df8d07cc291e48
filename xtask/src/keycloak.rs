//! A log-in at Keycloak, really started.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

const VERSION: &str = "26.7.3";

/// Fetches Keycloak by Maven into `target/keycloak`, and runs the test that needs it. Needs a Java
/// of version 21 or later, in `PATH` or `JAVA_HOME`.
///
/// # Errors
/// Keycloak cannot be had, or the test fails.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let home = fetch(&root.join("target/keycloak"))?;
    let test = ["test", "-p", "penstock", "--test", "sites", "--", "--ignored", "c8_keycloak"];
    let home = home.to_str().context("the path of the repository is no UTF-8")?;
    crate::cargo(&test, &[("PENSTOCK_KEYCLOAK", home)])
}

fn fetch(place: &Path) -> anyhow::Result<PathBuf> {
    let home = place.join(format!("keycloak-{VERSION}"));
    if !home.exists() {
        std::fs::create_dir_all(place)?;
        let artifact = format!("-Dartifact=org.keycloak:keycloak-quarkus-dist:{VERSION}:zip");
        let to = format!("-DoutputDirectory={}", place.display());
        run(Command::new("mvn")
            .args(["-q", "dependency:copy", &artifact, &to])
            .current_dir(place))?;
        let archive = format!("keycloak-quarkus-dist-{VERSION}.zip");
        run(Command::new("unzip").args(["-q", &archive]).current_dir(place))?;
    }
    Ok(home)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| format!("start {program}"))?;
    if !status.success() {
        bail!("`{program}` failed: {status}");
    }
    Ok(())
}
