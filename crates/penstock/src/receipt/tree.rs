//! What a receipt is compared with: files as they are on the disk now.

use std::fs::File;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use penstock_peer::verify::{Finding, Hashed, VerifyFigures, hash_tree, verify_list};
use penstock_proto::checksum::ChecksumKind;
use penstock_proto::digest::Digest;
use penstock_proto::name;
use penstock_proto::units::format_bytes;

use super::findings::Findings;
use penstock_exit::{ExitCode, Failure};

/// Files that are shown by name of each kind of finding.
const SHOWN_MAX: u64 = 100;

/// Files of a tree, all of which were read.
#[derive(Default)]
pub(super) struct TreeFound {
    pub(super) bytes: u64,
    /// The first error: of a file that cannot be read, or of what takes the digests.
    pub(super) problem: Option<std::io::Error>,
    /// Files of copies that have not finished, which are left out; the first of them.
    pub(super) unfinished: u64,
    pub(super) first: String,
}

/// Reads all files below `path` and gives the digest of each to `add`. Blocks.
///
/// # Errors
/// The tree cannot be listed.
pub(super) fn read_tree(
    path: &Path,
    add: &mut (dyn FnMut(&[u8], Digest) -> std::io::Result<()> + Send),
) -> anyhow::Result<TreeFound> {
    let mut tree = TreeFound::default();
    let workers = penstock_sys::available_cpus().clamp(2, 32);
    let hashed = hash_tree(path, workers, &mut |found: Hashed<'_>| match found {
        Hashed::File { path, digest, size } => {
            tree.bytes += size;
            if let Err(error) = add(path, digest) {
                tree.problem.get_or_insert(error);
            }
        }
        Hashed::Unfinished { path, run } => {
            tree.unfinished += 1;
            if tree.unfinished == 1 {
                tree.first = format!("`{}`, of copy {run}", name::escape(path));
            }
        }
        Hashed::Unreadable { path, why } => {
            let message = format!("`{}`: {why}", name::escape(path));
            tree.problem.get_or_insert(std::io::Error::other(message));
        }
    });
    hashed.map_err(|error| {
        Failure::new(ExitCode::Fatal, format!("cannot read `{}`", path.display()))
            .caused_by(error)
            .hint("give the directory, or the single file, that was received")
    })?;
    Ok(tree)
}

/// Compares the directory with the list: what is not in the list is not covered by the receipt.
/// Blocks.
///
/// # Errors
/// Something cannot be read, or standard output is gone.
pub(super) fn compare_tree(
    findings: &mut Findings,
    list: &mut File,
    directory: &Path,
) -> anyhow::Result<()> {
    let figures = VerifyFigures::default();
    let lines = Mutex::new(Vec::new());
    let tell = |finding: Finding, path: &[u8], message: &str| {
        if figures.count(finding) <= SHOWN_MAX {
            let line = (finding, format!("`{}` {message}", name::escape(path)));
            lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    };
    let workers = penstock_sys::available_cpus().clamp(2, 32);
    let kind = Some(ChecksumKind::Blake3);
    verify_list(list, directory, kind, workers, &figures, &tell).map_err(|problem| {
        let message = format!("cannot compare `{}` with the list", directory.display());
        Failure::new(ExitCode::Fatal, message)
            .caused_by(problem)
            .hint("give the directory that was received, and the list of its transfer")
    })?;
    for (finding, line) in lines.into_inner().unwrap_or_else(PoisonError::into_inner) {
        let line = line.trim_end();
        match finding {
            Finding::Extra => findings.note(&format!("not covered: {line}"))?,
            Finding::Unreadable | Finding::Changed => {
                findings.unknown(&format!("content: {} {line}", finding.as_str()))?;
            }
            _ => findings.wrong(&format!("content: {} {line}", finding.as_str()))?,
        }
    }
    let count = |finding| figures.count(finding);
    let (files, bytes) = (
        figures.files.load(std::sync::atomic::Ordering::Relaxed),
        figures.bytes.load(std::sync::atomic::Ordering::Relaxed),
    );
    let bad: u64 = [Finding::Differs, Finding::Missing, Finding::Unreadable, Finding::Changed]
        .into_iter()
        .map(count)
        .sum();
    let text = format!(
        "content: {} of {files} files in `{}`, {}, are as the list says; {bad} are not; {} more \
         are not covered by the receipt",
        files.saturating_sub(count(Finding::Differs)),
        directory.display(),
        format_bytes(bytes),
        count(Finding::Extra)
    );
    if bad == 0 {
        findings.good(&text)?
    } else {
        findings.note(&text)?
    }
    Ok(())
}
