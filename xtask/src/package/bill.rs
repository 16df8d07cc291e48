//! Two bills of the parts of the program: one for scanners, in the form of CycloneDX, and one for
//! people, with the texts of licences.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use super::dependency::Dependency;

/// Beginnings of names of files with a licence or a notice, in lower case.
const LICENCE_FILES: [&str; 6] =
    ["license", "licence", "copying", "notice", "unlicense", "copyright"];
/// The directory in its crate in which AWS-LC keeps the licences of its parts.
const WITHIN: &str = "aws-lc";

/// Returns the bill in the form of CycloneDX 1.5, by the schema of
/// <https://cyclonedx.org/docs/1.5/json/>. `time` is in RFC 3339.
///
/// # Errors
/// The bill cannot be written as JSON.
pub(crate) fn cyclone_dx(
    version: &str,
    time: &str,
    dependencies: &[Dependency],
) -> anyhow::Result<String> {
    let own = format!("pkg:cargo/penstock@{version}");
    let component = |one: &Dependency| {
        let mut component = json!({
            "type": "library",
            "bom-ref": one.purl,
            "name": one.name,
            "version": one.version,
            "purl": one.purl,
            "licenses": [{ "expression": one.licence }],
        });
        if let Some((algorithm, digest)) = &one.digest {
            component["hashes"] = json!([{ "alg": algorithm, "content": digest }]);
        }
        component
    };
    let components: Vec<Value> =
        dependencies.iter().filter(|one| one.purl != own).map(component).collect();
    // The page is within the program, so the program uses the parts of the page.
    let within_page: Vec<_> = dependencies.iter().filter(|one| one.directory.is_none()).collect();
    let edges: Vec<Value> = dependencies
        .iter()
        .map(|one| {
            let mut uses: Vec<&String> = one.uses.iter().collect();
            if one.purl == own {
                uses.extend(within_page.iter().map(|part| &part.purl));
            }
            json!({ "ref": one.purl, "dependsOn": uses })
        })
        .collect();
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": time,
            "tools": { "components": [{ "type": "application", "name": "cargo xtask package" }] },
            "component": {
                "type": "application",
                "bom-ref": own,
                "name": "penstock",
                "version": version,
                "purl": own,
                "licenses": [{ "expression": "Apache-2.0" }],
            },
        },
        "components": components,
        "dependencies": edges,
    });
    Ok(serde_json::to_string_pretty(&bill).context("write the bill")? + "\n")
}

/// Returns names, versions and licences of foreign parts, and each text of a licence once.
///
/// # Errors
/// Sources of a crate cannot be read.
pub(crate) fn notices(dependencies: &[Dependency]) -> anyhow::Result<String> {
    let mut text = "penstock contains the following, each under its own licence.\n\n".to_owned();
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in dependencies.iter().filter(|one| !one.is_own()) {
        let name = format!("{} {}", one.name, one.version);
        text += &format!("{name}: {}\n", one.licence);
        if let Some(directory) = &one.directory {
            for found in licences(directory)? {
                users.entry(found).or_default().push(name.clone());
            }
        }
    }
    text += "\nThe web page of the daemon has the texts of what it is made of, as licences.json.\n";
    for (licence, users) in users {
        let line = "-".repeat(80);
        text += &format!("\n{line}\n{}:\n\n{licence}\n", users.join(", "));
    }
    Ok(text)
}

/// Returns the texts of licences in the sources of a crate.
///
/// # Errors
/// The sources cannot be read.
fn licences(directory: &Path) -> anyhow::Result<Vec<String>> {
    let mut texts = Vec::new();
    for place in [directory.to_owned(), directory.join(WITHIN)] {
        let Ok(entries) = fs::read_dir(&place) else { continue };
        let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
            if path.is_file() && LICENCE_FILES.iter().any(|begin| name.starts_with(begin)) {
                let text = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
                let text = String::from_utf8_lossy(&text).replace('\r', "");
                texts.push(text.trim().to_owned());
            }
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::dependency;

    /// Promise: every edge of the bill leads to a part that it lists, and each foreign part has a
    /// digest.
    #[test]
    fn edges_lead_to_parts() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let parts = dependency::all(&root, "x86_64-unknown-linux-gnu").unwrap();
        let version = parts.iter().find(|one| one.name == "penstock").unwrap().version.clone();
        let bill = cyclone_dx(&version, "2026-01-01T00:00:00Z", &parts).unwrap();
        let bill: Value = serde_json::from_str(&bill).unwrap();
        let parts = bill["components"].as_array().unwrap();
        let listed: Vec<_> = parts.iter().map(|part| &part["bom-ref"]).collect();
        for edge in bill["dependencies"].as_array().unwrap() {
            for used in edge["dependsOn"].as_array().unwrap() {
                assert!(listed.contains(&used), "{used}");
            }
        }
        let own = |part: &Value| part["name"].as_str().unwrap().starts_with("penstock");
        assert!(parts.iter().all(|part| own(part) || part["hashes"].is_array()));
    }
}
