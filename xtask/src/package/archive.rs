//! The archive for hosts without a package, with a static program.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::Source;
use super::program::Program;
use super::tree::{self, Content, Entry, Tree};

/// The directory in which users unpack the archive; its own paths begin below.
pub(crate) const PREFIX: &str = "/usr/local";

/// Makes the archive of a tree in a directory, and returns its path.
///
/// # Errors
/// The program needs libraries; a file cannot be read or written.
pub(crate) fn make(
    source: &Source,
    program: &Program,
    tree: &Tree,
    out: &Path,
) -> anyhow::Result<PathBuf> {
    if !program.is_static() {
        bail!("an archive is for any Linux, and this program needs libraries of its host");
    }
    let name = format!("penstock-{}-{}", source.version, program.machine.name());
    let mut archive = tar::Builder::new(Vec::new());
    for entry in tree.entries.iter().filter(|entry| entry.content != Content::Directory) {
        let bytes = read(entry)?;
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(entry.mode);
        header.set_mtime(source.time);
        let below = entry.path.strip_prefix(&PREFIX[1..]).unwrap_or(&entry.path);
        let path = format!("{name}/{}", below.trim_start_matches('/'));
        archive.append_data(&mut header, path, &*bytes).context("write the archive")?;
    }
    let archive = archive.into_inner().context("write the archive")?;
    let path = out.join(format!("{name}.tar.gz"));
    let compressed = tree::compressed(&archive)?;
    fs::write(&path, compressed).with_context(|| format!("write {}", path.display()))?;
    Ok(path)
}

fn read(entry: &Entry) -> anyhow::Result<Vec<u8>> {
    match &entry.content {
        Content::Copy(path) => fs::read(path).with_context(|| format!("read {}", path.display())),
        Content::Bytes(bytes) => Ok(bytes.clone()),
        Content::Directory => Ok(Vec::new()),
    }
}
