//! The documents of the project, in Markdown: width, links, and the places that they name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::markdown;

/// Tables that `bench/` writes.
const WRITTEN_BY_BENCH: &str = "bench/runs";
/// Documents that link to everything that lies beside them.
const INDEXES: [&str; 2] = ["docs/design/README.md", "bench/runs/README.md"];
/// The document whose code spans name folders of crates.
const MAP: &str = "ARCHITECTURE.md";

/// Returns the faults of the documents below `root`, as `path:line: what`.
///
/// # Errors
/// A document cannot be read.
pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut complaints = Vec::new();
    for path in documents(root)? {
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let name = path.strip_prefix(root).unwrap_or(&path);
        let mut found = Vec::new();
        if !is_written_by_bench(name) {
            found.extend(markdown::complain(&text));
        }
        found.extend(broken_links(&path, &text));
        if INDEXES.iter().any(|index| name == Path::new(index)) {
            found.extend(unlisted(&path, &text)?);
        }
        if name.starts_with("docs/design") && !name.ends_with("README.md") {
            let has_status = text.lines().any(|line| line.starts_with("Status: "));
            found.extend((!has_status).then(|| "1: a decision without `Status: `".to_owned()));
        }
        if name == Path::new(MAP) {
            found.extend(wrong_places(root, &text));
        }
        complaints.extend(found.into_iter().map(|one| format!("{}:{one}", name.display())));
    }
    Ok(complaints)
}

/// Wraps the documents that are too wide.
///
/// # Errors
/// A document cannot be read or written.
pub(crate) fn wrap(root: &Path) -> anyhow::Result<()> {
    for path in documents(root)? {
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let wrapped = markdown::wrap(&text);
        let name = path.strip_prefix(root).unwrap_or(&path);
        if wrapped != text && !is_written_by_bench(name) {
            fs::write(&path, wrapped).with_context(|| format!("write {}", path.display()))?;
            println!("wrapped {}", name.display());
        }
    }
    Ok(())
}

fn is_written_by_bench(name: &Path) -> bool {
    name.starts_with(WRITTEN_BY_BENCH) && !name.ends_with("README.md")
}

fn documents(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut documents = Vec::new();
    for part in ["", "docs", "bench", "crates", "lab", "fuzz", "packaging", "sdk", "xtask"] {
        collect(&root.join(part), !part.is_empty(), &mut documents)?;
    }
    documents.sort();
    Ok(documents)
}

fn collect(dir: &Path, deep: bool, documents: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let path = entry.with_context(|| format!("list {}", dir.display()))?.path();
        if path.is_dir() {
            if deep && !path.ends_with("target") {
                collect(&path, deep, documents)?;
            }
        } else if path.extension().is_some_and(|name| name == "md") {
            documents.push(path);
        }
    }
    Ok(())
}

/// Returns the documents that lie beside an index and are not linked in it, as `line: what`.
fn unlisted(index: &Path, text: &str) -> anyhow::Result<Vec<String>> {
    let directory = index.parent().unwrap_or(Path::new(""));
    let mut complaints = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("list {}", directory.display()))? {
        let name = entry.with_context(|| format!("list {}", directory.display()))?.file_name();
        let name = name.to_string_lossy();
        if name != "README.md" && !text.contains(&format!("]({name})")) {
            complaints.push(format!("1: `{name}` has no line here"));
        }
    }
    complaints.sort();
    Ok(complaints)
}

/// Links of a document to files or headings of the project that are not there, as `line: what`.
fn broken_links(document: &Path, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (line, target) in links(text) {
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = match file {
            "" => document.to_path_buf(),
            _ => document.parent().unwrap_or(Path::new("")).join(file),
        };
        let is_markdown = path.extension().is_some_and(|name| name == "md");
        let found = match fs::read_to_string(&path) {
            Ok(text) if is_markdown && !heading.is_empty() => anchors(&text).contains(heading),
            Ok(_) => true,
            Err(_) => path.exists(),
        };
        if !found {
            complaints.push(format!("{line}: the link `{target}` leads nowhere"));
        }
    }
    complaints
}

/// Returns the relative links of a document, with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut links = Vec::new();
    for ((number, line), is_fenced) in (1..).zip(text.lines()).zip(markdown::fenced(text)) {
        if is_fenced || line.starts_with("    ") {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            let target = &rest[..rest.find(')').unwrap_or(rest.len())];
            // An odd number of marks before it: within a code span.
            let in_span = line[..at].matches('`').count() % 2 == 1;
            if !in_span && !target.contains("://") && !target.contains(' ') {
                links.push((number, target));
            }
        }
    }
    links
}

/// Returns the anchors of the headings of a document, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let lines = text.lines().zip(markdown::fenced(text));
    let headings = lines.filter(|(line, is_fenced)| !is_fenced && line.starts_with('#'));
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|one| one.is_alphanumeric() || " -_".contains(*one));
        kept.map(|one| if one == ' ' { '-' } else { one }).collect()
    };
    headings.map(|(line, _)| anchor(line)).collect()
}

/// Returns the code spans such as `peer/scan` that name no folder or file of that crate, as `line:
/// what`.
fn wrong_places(root: &Path, text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for span in line.split('`').skip(1).step_by(2) {
            let Some((short, rest)) = span.split_once('/').filter(|(_, rest)| is_place(rest))
            else {
                continue;
            };
            let name = if short == "penstock" { short } else { &format!("penstock-{short}") };
            let source = root.join("crates").join(name).join("src").join(rest);
            if is_place(short) && !source.is_dir() && !source.with_extension("rs").exists() {
                complaints.push(format!("{number}: there is no `{span}`"));
            }
        }
    }
    complaints
}

fn is_place(text: &str) -> bool {
    let is_lower = |one: char| one.is_ascii_lowercase() || "_/".contains(one);
    !text.is_empty() && !text.ends_with('/') && text.chars().all(is_lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a link to a file or a heading that is not there is reported with its line.
    #[test]
    fn broken_links_are_found() {
        let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("document.md");
        let text = "# A `b` c\n[a](src/documents.rs) [b](#a-b-c)\n[c](none.md) `[d](none)`\n\
                    [e](#none) [f](https://none)\n```\n[g](none)\n```\n";
        assert_eq!(anchors(text), BTreeSet::from(["a-b-c".to_owned()]));
        let found: Vec<_> = links(text).into_iter().map(|(_, target)| target).collect();
        assert_eq!(found, ["src/documents.rs", "#a-b-c", "none.md", "#none"]);
        let text = text.replace("#a-b-c", "src");
        assert_eq!(
            broken_links(&document, &text),
            ["3: the link `none.md` leads nowhere", "4: the link `#none` leads nowhere"]
        );
    }

    /// Promise: an index that leaves something out is reported.
    #[test]
    fn unlisted_neighbours_are_found() {
        let index = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        assert_eq!(
            unlisted(&index, "[a](Cargo.toml)").unwrap(),
            ["1: `src` has no line here".to_owned()]
        );
    }

    /// Promise: a place of a crate that is not there is reported, and nothing else is.
    #[test]
    fn wrong_places_are_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = "`proto/manifest` `penstock/commands` `proto/none`\n`lab/` `a::b` `docs/x.md`\n";
        assert_eq!(wrong_places(&root, text), ["1: there is no `proto/none`"]);
    }
}
