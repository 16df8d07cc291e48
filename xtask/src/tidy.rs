//! Limits that keep the source readable: no line, function or file grows past them.
//!
//! The limits are a ratchet. There is no list of exceptions, so a part that was split stays split.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::{documents, layers, ratchet, source};

/// Columns of a line, as in rustfmt.toml.
const LINE_COLUMNS_MAX: usize = 100;
/// Lines of a function, from `fn` to its closing brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Lines of a file, its tests included.
const FILE_LINES_MAX: usize = 1_000;
/// Ways to a terminal that escape nothing; put together here as [`UNDONE`] is.
const RAW_OUTPUT: [&str; 6] = [
    concat!("print", "ln!("),
    concat!("pri", "nt!("),
    concat!("stdout", "().lock"),
    concat!("stdout", "().write"),
    concat!("stderr", "().lock"),
    concat!("stderr", "().write"),
];
/// The file of the program through which all text goes to a terminal.
const OUTPUT: &str = "crates/penstock-exit/src/lib.rs";
/// Words that mark work left undone; put together here so that this file passes its own check.
const UNDONE: [&str; 5] = [
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("d", "bg!("),
    concat!("FIX", "ME"),
    concat!("TO", "DO"),
];

/// Languages of blocks of code in documentation that rustdoc takes for tests.
const TESTED: [&str; 5] = ["", "rust", "no_run", "should_panic", "compile_fail"];

/// Checks every Rust source, shell script and Markdown document of the project. `with_places` lists
/// the places that the figures of [`ratchet`] count.
///
/// # Errors
/// A limit is exceeded; each place has been printed as `path:line: what`.
pub(crate) fn check(root: &Path, with_places: bool) -> anyhow::Result<()> {
    let mut files = Vec::new();
    for part in ["crates", "lab", "packaging", "xtask", "fuzz", "scripts"] {
        collect(&root.join(part), &mut files)?;
    }
    files.sort();
    let mut complaints = layers::check(root)?;
    complaints.extend(ratchet::check(root, with_places)?);
    complaints.extend(documents::check(root)?);
    for file in &files {
        let text = fs::read_to_string(file).with_context(|| format!("read {}", file.display()))?;
        let name = file.strip_prefix(root).unwrap_or(file).display();
        complaints.extend(complain(&text).into_iter().map(|one| format!("{name}:{one}")));
        let path = name.to_string();
        if path.starts_with("crates/penstock/src/") && path != OUTPUT {
            complaints.extend(raw_output(&text).into_iter().map(|one| format!("{name}:{one}")));
        }
    }
    for complaint in &complaints {
        println!("{complaint}");
    }
    if !complaints.is_empty() {
        bail!("{} places are over their limit", complaints.len());
    }
    println!("{} files are within their limits", files.len());
    Ok(())
}

pub(crate) fn collect(dir: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if !dir.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(dir).with_context(|| format!("list {}", dir.display()))? {
        let path = entry.with_context(|| format!("list {}", dir.display()))?.path();
        if path.is_dir() && !path.ends_with("target") {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|name| name == "rs" || name == "sh") {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the breaches of limits in one file, as `line: what`.
fn complain(text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut is_block = false;
    for (line, content) in (1..).zip(text.lines()) {
        let columns = content.chars().count();
        // The row of a table in documentation cannot be broken.
        let table = content.trim_start().starts_with("//! |") || content.contains("/// |");
        if columns > LINE_COLUMNS_MAX && !table {
            complaints.push(format!("{line}: {columns} columns, at most {LINE_COLUMNS_MAX}"));
        }
        if let Some(language) = doc_fence(content) {
            if !is_block && TESTED.contains(&language) {
                let what = "a block of code is a test, and no step runs it: name its language";
                complaints.push(format!("{line}: {what}"));
            }
            is_block = !is_block;
        }
        if let Some(word) = UNDONE.iter().find(|&&word| content.contains(word)) {
            complaints.push(format!("{line}: `{word}` marks work left undone"));
        }
    }
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        complaints.push(format!("1: {lines} lines, at most {FILE_LINES_MAX}"));
    }
    for function in source::functions(&source::mask(text)) {
        let (first, length) = (*function.lines.start(), function.lines.count());
        if length > FUNCTION_LINES_MAX {
            let name = function.name;
            complaints.push(format!(
                "{first}: function `{name}` has {length} lines, at most {FUNCTION_LINES_MAX}"
            ));
        }
    }
    complaints
}

/// Returns the language of a block of code in documentation that begins in a line, or the end of
/// one.
fn doc_fence(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let text = text.strip_prefix("///").or_else(|| text.strip_prefix("//!"))?;
    text.trim_start().strip_prefix("```").map(str::trim)
}

/// Returns places that write text past the module which escapes unsafe characters for a terminal.
fn raw_output(text: &str) -> Vec<String> {
    let masked = source::mask(text);
    let lines = (1..).zip(masked.lines());
    let raw = lines.filter(|(_, line)| RAW_OUTPUT.iter().any(|word| line.contains(word)));
    raw.map(|(line, _)| format!("{line}: prints unescaped; use the functions of {OUTPUT}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: exactly the breaches of a limit are reported, with their lines.
    #[test]
    fn limits_are_exact() {
        let function = |lines: usize| format!("fn a() {{\n{}}}\n", "    b();\n".repeat(lines - 2));
        assert!(complain(&function(70)).is_empty());
        assert_eq!(complain(&function(71)), ["1: function `a` has 71 lines, at most 70"]);
        assert!(complain(&"é".repeat(100)).is_empty());
        assert!(complain(&format!("//! | {} |", "é".repeat(101))).is_empty());
        assert_eq!(complain(&"é".repeat(101)), ["1: 101 columns, at most 100"]);
        assert!(complain(&"\n".repeat(1_000)).is_empty());
        assert_eq!(complain(&"\n".repeat(1_001)), ["1: 1001 lines, at most 1000"]);
        assert_eq!(complain(&format!("\n// {} later", UNDONE[3])).len(), 1);
        assert!(complain("/// ```text\n/// a\n/// ```\n").is_empty());
        assert_eq!(complain("//! ```\n//! a\n//! ```\n").len(), 1);
    }

    /// Promise: the program prints by the functions that escape, and by no others.
    #[test]
    fn raw_output_is_refused() {
        for word in RAW_OUTPUT {
            let complaints = raw_output(&format!("fn a() {{\n    {word}\n}}\n"));
            assert_eq!(complaints.len(), 1, "{word}");
            assert!(raw_output(&format!("// {word}\n")).is_empty());
        }
    }
}
