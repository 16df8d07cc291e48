//! The tree for `make install`, which `scripts/install.sh` copies onto the host.

use std::path::Path;

use anyhow::bail;

use super::tree::{Content, Layout, Tree};
use super::{Source, bill, dependency};

/// List of the installed files, below the prefix.
const LIST: &str = "share/penstock/installed";
/// The usual prefix.
const PREFIX: &str = "/usr/local";

/// Writes the tree of a program that was built into a directory, with the list of its files.
///
/// # Errors
/// The program is not built; a part is missing; a file cannot be written.
pub(crate) fn stage(root: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let [prefix, program, out] = super::values(arguments, ["--prefix", "--program", "--out"])?;
    let layout = Layout::below(prefix.unwrap_or(PREFIX))?;
    let program = match program {
        Some(program) => std::path::absolute(program)?,
        None => root.join("target/release/penstock"),
    };
    if !program.is_file() {
        bail!("there is no {}: `make build` builds it", program.display());
    }
    let source = Source::read_from(root)?;
    let out = match out {
        Some(out) => std::path::absolute(out)?,
        None => source.work("install"),
    };
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let notices = bill::notices(&dependency::all(root, &triple)?)?;
    let mut tree = Tree::collect(root, &layout, &program, &program, &notices)?;
    let list: String = tree.entries.iter().map(|entry| format!("{}\n", entry.path)).collect();
    tree.add(layout.place(LIST), 0o644, Content::Bytes(list.into_bytes()));
    tree.write(&out, source.system_time())
}
