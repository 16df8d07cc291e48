//! Who may use whom among the crates, and who may be unsafe.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// For each crate, the crates of ours it may depend on. The binary may use all but the simulator.
const MAY_USE: [(&str, &[&str]); 10] = [
    ("penstock-proto", &[]),
    ("penstock-engine", &["proto"]),
    ("penstock-sys", &["proto"]),
    ("penstock-net", &["sys", "proto"]),
    ("penstock-store", &["sys", "proto"]),
    ("penstock-api", &["proto"]),
    ("penstock-peer", &["engine", "net", "store", "sys", "api", "proto"]),
    ("penstock-controller", &["engine", "api", "proto"]),
    ("penstock-sim", &["engine", "proto"]),
    ("penstock", &["peer", "controller", "api", "net", "store", "sys", "engine", "proto"]),
];

/// What breaks the order of the crates, as `path:line: what`.
///
/// # Errors
/// A manifest or a crate root cannot be read.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for (name, allowed) in MAY_USE {
        let path = format!("crates/{name}/Cargo.toml");
        let text = fs::read_to_string(root.join(&path)).with_context(|| format!("read {path}"))?;
        for (line, used) in uses(&text) {
            if !allowed.contains(&used.as_str()) {
                complaints.push(format!("{path}:{line}: {name} may not use penstock-{used}"));
            }
        }
        if name != "penstock-sys" && !forbids_unsafe(&root.join("crates").join(name))? {
            let what = "the crate root lacks #![forbid(unsafe_code)]";
            complaints.push(format!("crates/{name}/src:1: {what}"));
        }
    }
    // No part of what is shipped; TUN devices need ioctl(2), which it allows to one file.
    let lab = fs::read_to_string(root.join("lab/src/lib.rs")).context("read lab/src/lib.rs")?;
    if !lab.contains("#![deny(unsafe_code)]") || lab.matches("allow(unsafe_code").count() != 1 {
        let what = "#![deny(unsafe_code)] and one allow(unsafe_code), for `mod tun`, are wanted";
        complaints.push(format!("lab/src/lib.rs:1: {what}"));
    }
    Ok(complaints)
}

/// Line and short name of each crate of ours in the `[dependencies]` of a manifest. Tests may use
/// what they like, so other sections do not count.
fn uses(manifest: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut counts = false;
    for (line, text) in (1..).zip(manifest.lines()) {
        if text.starts_with('[') {
            counts = text.trim_end() == "[dependencies]";
        } else if let Some(rest) = text.strip_prefix("penstock-").filter(|_| counts) {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            found.push((line, rest[..end].to_owned()));
        }
    }
    found
}

fn forbids_unsafe(directory: &Path) -> anyhow::Result<bool> {
    for root in ["src/lib.rs", "src/main.rs"] {
        let path = directory.join(root);
        if path.exists() {
            let text = fs::read_to_string(&path);
            let text = text.with_context(|| format!("read {}", path.display()))?;
            return Ok(text.contains("#![forbid(unsafe_code)]"));
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: dependencies of ours are found in every spelling, those of tests are left out.
    #[test]
    fn dependencies_are_read() {
        let manifest = "[dependencies]\npenstock-net.workspace = true\nserde = \"1\"\n\
                        penstock-api = { path = \"x\" }\n\n[dev-dependencies]\npenstock-sim = 1\n";
        assert_eq!(uses(manifest), [(2, "net".to_owned()), (4, "api".to_owned())]);
    }
}
