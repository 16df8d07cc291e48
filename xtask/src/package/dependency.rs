//! The parts of a program: crates of the registry, and packages of npm within the web page.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::Value;

use super::command::output;

/// A crate or an npm package that is part of the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) version: String,
    /// An expression of SPDX; empty if its author states none.
    pub(crate) licence: String,
    /// Its address in the form of package-url.
    pub(crate) purl: String,
    /// Algorithm, as CycloneDX names it, and digest in hexadecimal of the registry's file.
    pub(crate) digest: Option<(&'static str, String)>,
    /// Its sources on this machine; none for npm.
    pub(crate) directory: Option<PathBuf>,
    /// Addresses of the dependencies that it uses in turn.
    pub(crate) uses: BTreeSet<String>,
}

impl Dependency {
    /// Returns whether it is a crate of this workspace.
    pub(crate) fn is_own(&self) -> bool {
        self.digest.is_none()
    }
}

/// Returns all that the program has within it for a target, in the order of addresses.
///
/// # Errors
/// cargo or a lock file cannot be read.
pub(crate) fn all(root: &Path, target: &str) -> anyhow::Result<Vec<Dependency>> {
    let mut found = crates(root, target)?;
    found.extend(packages(root)?);
    found.sort_by(|a, b| a.purl.cmp(&b.purl));
    Ok(found)
}

/// Returns the crates within the program.
///
/// # Errors
/// cargo fails.
fn crates(root: &Path, target: &str) -> anyhow::Result<Vec<Dependency>> {
    let manifest = root.join("Cargo.toml");
    let common = ["--locked", "--manifest-path", super::text(&manifest)?];
    let tree = ["tree", "-p", "penstock", "-e", "normal", "--prefix", "none", "-f", "{p}"];
    let tree = output("cargo", &[&tree[..], &["--target", target], &common].concat(), &[])?;
    let linked: BTreeSet<(&str, &str)> = tree.lines().filter_map(name_and_version).collect();
    let metadata = ["metadata", "--format-version=1", "--filter-platform", target];
    let metadata = output("cargo", &[&metadata[..], &common].concat(), &[])?;
    let metadata: Value = serde_json::from_str(&metadata).context("read what cargo prints")?;
    let digests = digests(&root.join("Cargo.lock"))?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut known = BTreeMap::new();
    for package in list(&metadata["packages"]) {
        let (name, version) = (string(&package["name"]), string(&package["version"]));
        if !linked.contains(&(&name, &version)) {
            continue;
        }
        let manifest = PathBuf::from(string(&package["manifest_path"]));
        let purl = format!("pkg:cargo/{name}@{version}");
        let digest = digests.get(&(name.clone(), version.clone()));
        let dependency = Dependency {
            digest: digest.map(|digest| ("SHA-256", digest.clone())),
            licence: string(&package["license"]).replace('/', " OR "),
            directory: manifest.parent().map(Path::to_owned),
            uses: BTreeSet::new(),
            name,
            version,
            purl,
        };
        known.insert(string(&package["id"]), dependency);
    }
    let purls: BTreeMap<_, _> =
        known.iter().map(|(id, known)| (id.clone(), known.purl.clone())).collect();
    for node in list(&metadata["resolve"]["nodes"]) {
        let Some(known) = known.get_mut(&string(&node["id"])) else { continue };
        let is_normal = |used: &Value| list(&used["dep_kinds"]).iter().any(|k| k["kind"].is_null());
        let used = list(&node["deps"]).into_iter().filter(is_normal);
        known.uses = used.filter_map(|used| purls.get(&string(&used["pkg"])).cloned()).collect();
    }
    Ok(known.into_values().collect())
}

/// Returns name and version in a line of `cargo tree`: `serde v1.0.229 (*)`.
fn name_and_version(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace();
    Some((words.next()?, words.next()?.strip_prefix('v')?))
}

/// Returns the digest of each crate of the registry, by name and version.
///
/// # Errors
/// The lock file cannot be read.
fn digests(lock: &Path) -> anyhow::Result<BTreeMap<(String, String), String>> {
    let text = fs::read_to_string(lock).with_context(|| format!("read {}", lock.display()))?;
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key));
        line.map(|line| line.trim_matches([' ', '=', '"']).to_owned())
    };
    let read = |block: &str| {
        let key = (value(block, "name = ")?, value(block, "version = ")?);
        Some((key, value(block, "checksum = ")?))
    };
    Ok(text.split("[[package]]").filter_map(read).collect())
}

/// Returns the packages of npm within the web page.
///
/// # Errors
/// The lock file cannot be read.
fn packages(root: &Path) -> anyhow::Result<Vec<Dependency>> {
    let lock = root.join("web/package-lock.json");
    let text = fs::read_to_string(&lock).with_context(|| format!("read {}", lock.display()))?;
    let lock: Value = serde_json::from_str(&text).context("read the lock file of the web page")?;
    let packages = lock["packages"].as_object().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for (place, package) in packages {
        let Some((_, name)) = place.rsplit_once("node_modules/") else { continue };
        // Types are for the compiler alone.
        if package["dev"] == true || name.starts_with("@types/") {
            continue;
        }
        let version = package["version"].as_str().unwrap_or_default();
        let digest = package["integrity"].as_str().and_then(|text| text.strip_prefix("sha512-"));
        found.push(Dependency {
            name: name.to_owned(),
            version: version.to_owned(),
            licence: package["license"].as_str().unwrap_or_default().to_owned(),
            purl: format!("pkg:npm/{}@{version}", name.replace('@', "%40")),
            digest: digest.map(|text| ("SHA-512", hexadecimal(text))),
            directory: None,
            uses: BTreeSet::new(),
        });
    }
    Ok(found)
}

/// Returns the bytes of a text in base64 as hexadecimal.
fn hexadecimal(base64: &str) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut bits, mut count, mut text) = (0_u32, 0, String::new());
    for byte in base64.bytes() {
        let Some(value) = ALPHABET.iter().position(|&letter| letter == byte) else { break };
        bits = bits << 6 | value as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            text += &format!("{:02x}", bits >> count & 0xff);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: digests of npm are written as others write digests.
    #[test]
    fn base64_becomes_hexadecimal() {
        assert_eq!(hexadecimal("AP+q"), "00ffaa");
        assert_eq!(hexadecimal("AP8="), "00ff");
        assert_eq!(hexadecimal("AA=="), "00");
    }

    /// Promise: the program's parts are named with the registry's facts about each, and no crate of
    /// tests is among them.
    #[test]
    fn parts_of_the_program_are_known() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let found = all(&root, "x86_64-unknown-linux-gnu").unwrap();
        let named = |name: &str| found.iter().find(|one| one.name == name);
        let rustls = named("rustls").unwrap();
        assert_eq!(rustls.digest.as_ref().unwrap().1.len(), 64);
        assert!(rustls.uses.iter().any(|used| used.starts_with("pkg:cargo/rustls-webpki@")));
        assert!(named("penstock-engine").unwrap().is_own());
        assert_eq!(named("react").unwrap().digest.as_ref().unwrap().1.len(), 128);
        assert!(named("penstock-testkit").is_none());
        assert!(named("criterion").is_none());
        assert!(found.iter().all(|one| !one.licence.is_empty()));
    }
}
