//! The rules of which crate may use which, and which may contain `unsafe`.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::modules;

/// For each crate, the crates of ours it may depend on. The binary may use all but the simulator,
/// and no crate the helpers of tests: those are a dependency of tests alone.
const MAY_USE: [(&str, &[&str]); 14] = [
    ("penstock-proto", &[]),
    ("penstock-engine", &["proto"]),
    ("penstock-sys", &["proto"]),
    ("penstock-net", &["sys", "proto"]),
    ("penstock-store", &["sys", "proto"]),
    ("penstock-api", &["proto"]),
    ("penstock-peer", &["engine", "net", "store", "sys", "api", "proto"]),
    ("penstock-cluster", &["engine", "api", "proto"]),
    ("penstock-controller", &["cluster", "engine", "api", "proto"]),
    ("penstock-sim", &["engine", "proto"]),
    ("penstock-exit", &["api", "proto"]),
    (
        "penstock-daemon",
        &["exit", "peer", "controller", "cluster", "api", "net", "store", "sys", "engine", "proto"],
    ),
    (
        "penstock",
        &["daemon", "exit", "peer", "controller", "cluster", "api", "net", "store", "sys", "proto"],
    ),
    (
        "penstock-testkit",
        &["lab", "peer", "controller", "cluster", "api", "net", "store", "sys", "proto"],
    ),
];

/// Crates whose use the modules of the binary and of the daemon divide among them.
const DIVIDED: [&str; 3] = ["peer", "controller", "cluster"];

/// For modules of these crates and those below them, which of [`DIVIDED`] they may name; the
/// longest path counts. No module names both peer and controller: they meet in the traits of
/// `penstock_api`, which `wiring` and `copy` pass from one to the other.
const MODULES_MAY_USE: [(&str, &str, &[&str]); 35] = [
    ("penstock", "commands::site", &["controller"]),
    ("penstock", "commands::verify", &["peer"]),
    ("penstock", "copy", &[]),
    ("penstock", "copy::clean", &["peer"]),
    ("penstock", "copy::job", &["controller"]),
    ("penstock", "copy::local", &["peer"]),
    ("penstock", "copy::places", &["peer"]),
    ("penstock", "copy::source_lists", &["peer"]),
    ("penstock", "copy::ssh", &["controller"]),
    ("penstock", "copy::ssh::ends", &["peer"]),
    ("penstock", "copy::ssh::lanes", &["peer"]),
    ("penstock", "copy::state", &["cluster", "controller"]),
    ("penstock", "receipt", &["controller"]),
    ("penstock", "receipt::tree", &["peer"]),
    ("penstock-daemon", "", &["cluster"]),
    ("penstock-daemon", "access", &["cluster", "peer"]),
    ("penstock-daemon", "checks", &["cluster"]),
    ("penstock-daemon", "cluster", &["cluster", "peer"]),
    ("penstock-daemon", "cluster::controller", &["cluster", "controller"]),
    ("penstock-daemon", "cluster::target_side", &["controller"]),
    ("penstock-daemon", "config", &["controller"]),
    ("penstock-daemon", "events::paths", &["peer"]),
    ("penstock-daemon", "events::transfers", &["controller"]),
    ("penstock-daemon", "webhooks", &["cluster", "controller"]),
    ("penstock-daemon", "peer_server", &["cluster", "peer"]),
    ("penstock-daemon", "http", &["cluster", "controller"]),
    ("penstock-daemon", "http::router", &["cluster", "peer"]),
    ("penstock-daemon", "metrics::data_plane", &["peer"]),
    ("penstock-daemon", "metrics::transfers", &["controller"]),
    ("penstock-daemon", "networks", &["peer"]),
    ("penstock-daemon", "operations", &["cluster", "peer"]),
    ("penstock-daemon", "peer_client", &["cluster", "peer"]),
    ("penstock-daemon", "site", &["cluster", "controller"]),
    ("penstock-daemon", "statistics::work", &["peer"]),
    ("penstock-daemon", "wiring", &["cluster", "peer"]),
];

/// Returns the breaches of the order of the crates, as `path:line: what`.
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
    // The lab is not shipped; TUN devices need ioctl(2), which it allows to one file.
    let lab = fs::read_to_string(root.join("lab/src/lib.rs")).context("read lab/src/lib.rs")?;
    if !lab.contains("#![deny(unsafe_code)]") || lab.matches("allow(unsafe_code").count() != 1 {
        let what = "#![deny(unsafe_code)] and one allow(unsafe_code), for `mod tun`, are wanted";
        complaints.push(format!("lab/src/lib.rs:1: {what}"));
    }
    complaints.extend(check_modules(root)?);
    Ok(complaints)
}

/// Finds modules that name a crate which is not theirs to name.
fn check_modules(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for crate_name in ["penstock", "penstock-daemon"] {
        for (module, file) in modules::modules(&root.join("crates").join(crate_name).join("src"))? {
            let shown = file.strip_prefix(root).unwrap_or(&file).display().to_string();
            let text = fs::read_to_string(&file).with_context(|| format!("read {shown}"))?;
            let module = module.join("::");
            let allowed = allowed_to(crate_name, &module);
            for used in modules::crates_named(&text).with_context(|| format!("parse {shown}"))? {
                let Some(used) = used.strip_prefix("penstock_") else { continue };
                if DIVIDED.contains(&used) && !allowed.contains(&used) {
                    complaints.push(format!("{shown}:1: `{module}` may not name penstock_{used}"));
                }
            }
        }
    }
    Ok(complaints)
}

/// Returns the crates of [`DIVIDED`] that a module of a crate may name.
fn allowed_to(crate_name: &str, module: &str) -> &'static [&'static str] {
    let holds = |prefix: &str| {
        let rest = module.strip_prefix(prefix);
        rest.is_some_and(|rest| prefix.is_empty() || rest.is_empty() || rest.starts_with("::"))
    };
    let rows = MODULES_MAY_USE.iter().filter(|(of, prefix, _)| *of == crate_name && holds(prefix));
    rows.max_by_key(|(_, prefix, _)| prefix.len()).map_or(&[], |(_, _, allowed)| allowed)
}

/// Returns the line and short name of each crate of ours in the `[dependencies]` of a manifest.
/// Tests may use any crate, so other sections do not count.
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
    /// Promise: the longest path of the table that contains a module decides which crates it may
    /// name. A module in no path may name none of the divided crates.
    #[test]
    fn the_longest_path_of_a_module_counts() {
        let daemon = |module| allowed_to("penstock-daemon", module);
        assert_eq!(daemon("http::local::events"), ["cluster", "controller"]);
        assert_eq!(daemon("http::router"), ["cluster", "peer"]);
        assert_eq!(daemon("http::router_of_others"), ["cluster", "controller"]);
        assert_eq!(daemon("managed_etcd"), ["cluster"]);
        assert!(allowed_to("penstock", "client").is_empty());
    }

    /// Promise: no row lets a module name both peer and controller.
    #[test]
    fn no_module_may_name_both_peer_and_controller() {
        for (_, module, allowed) in MODULES_MAY_USE {
            let both = allowed.contains(&"peer") && allowed.contains(&"controller");
            assert!(!both, "{module}");
        }
    }
}
