//! The facts for a receipt of a run, gathered page by page from the ledger when the run ends.

use std::io::Read as _;
use std::path::Path;

use penstock_api::heads::LedgerHead;
use penstock_api::problem::Problem;
use penstock_api::receipt::{CatalogueList, ReceiptFacts, Verified};
use penstock_api::scan::ScanSummary;
use penstock_api::task::TaskPage;
use penstock_api::transfer::Progress;
use penstock_cluster::clock::now_seconds;
use penstock_proto::checksum::format_line;
use penstock_proto::digest::DigestKind;
use penstock_proto::journal::{DigestForm, JournalRecord};

use super::checksum_list::each_line;
use super::readback::ProofTotals;
use crate::root::RootHasher;
use crate::runner::context::RunContext;
use crate::runner::journal::page_log::{digests_of, listed};
use crate::runner::journal::{failed, write_lines};
use crate::runner::tasks::TaskSet;

/// Gathers the facts and stores them in the journal, for the receipt. Blocks: reads all pages.
///
/// # Errors
/// The journal store cannot be read or written.
pub(crate) fn keep_facts(
    context: &RunContext,
    (tasks, proved): (&mut TaskSet, &ProofTotals),
    head: &LedgerHead,
    scan: &ScanSummary,
) -> Result<(), Problem> {
    let paths = tasks.figures().0.paths;
    let progress = context.control.view().progress;
    let mut facts = ReceiptFacts {
        pages: scan.pages,
        entries_found: scan.entries,
        files_found: scan.files,
        bytes_found: scan.bytes,
        files: progress.files,
        bytes: progress.bytes,
        skipped: progress.skipped,
        failed: progress.errors,
        removed: progress.removed,
        stayed: progress.stayed,
        verified: verified(context, proved, &progress),
        paths,
        ..ReceiptFacts::default()
    };
    add_digests(context, head, &mut facts)?;
    for kind in &context.options.proof.also_digests {
        let path = context.files().checksums(*kind)?;
        let (lines, list_digest) =
            digest_of_list(&path).map_err(|cause| failed("read", &path, &cause))?;
        facts.catalogue.push(CatalogueList { kind: *kind, lines, list_digest });
    }
    let path = context.files().facts;
    write_lines(&path, |out| {
        let text = serde_json::to_string(&facts).unwrap_or_default();
        out.write_all(text.as_bytes()).map_err(|cause| failed("write", &path, &cause))
    })
}

fn verified(context: &RunContext, proved: &ProofTotals, progress: &Progress) -> Vec<Verified> {
    let (digest, until) = (context.options.digest, now_seconds());
    let verified = |what: &str, bytes, bytes_direct| Verified {
        what: what.to_owned(),
        digest,
        bytes,
        bytes_direct,
        until,
    };
    let mut all = vec![verified("arrival", progress.bytes, 0)];
    if context.options.proof.reads_again() {
        let what = if context.options.proof.readback { "readback" } else { "again" };
        all.push(verified(what, proved.bytes, proved.bytes_direct));
    }
    all
}

fn add_digests(
    context: &RunContext,
    head: &LedgerHead,
    facts: &mut ReceiptFacts,
) -> Result<(), Problem> {
    let mut manifest = blake3::Hasher::new();
    let mut root = RootHasher::new(context.shared.journal().directory());
    let cannot = |cause: std::io::Error| {
        failed("keep leaves in", context.shared.journal().directory(), &cause)
    };
    for page_head in &head.pages {
        manifest.update(&page_head.digest.0);
    }
    let blake3 = context.options.digest == DigestKind::Blake3;
    let (mut sparse_files, mut bytes) = (0, 0_u64);
    let values = |_: &_, page: &TaskPage, log: &[JournalRecord]| {
        let digests = digests_of(page, log);
        sparse_files +=
            digests.iter().filter(|digest| digest.form == DigestForm::Sparse).count() as u64;
        listed(&digests)
    };
    let pages = if blake3 { &head.pages[..] } else { &[] };
    each_line(&context.shared, pages, &context.spec.root, values, |entry, name, digest| {
        bytes = bytes.saturating_add(entry.size);
        root.add_line(&format_line(digest, name)).map_err(cannot)
    })?;
    (facts.sparse_files, facts.root_bytes) = (sparse_files, bytes);
    facts.manifest_digest = manifest.finalize().to_hex().to_string();
    facts.root_files = root.count();
    if blake3 {
        facts.root_digest = Some(root.finish().map_err(cannot)?.to_hex());
    }
    Ok(())
}

/// Returns the number of lines and the BLAKE3 of a list.
fn digest_of_list(path: &Path) -> std::io::Result<(u64, String)> {
    let mut list = std::fs::File::open(path)?;
    let (mut hasher, mut lines) = (blake3::Hasher::new(), 0);
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = list.read(&mut buffer)?;
        if length == 0 {
            return Ok((lines, hasher.finalize().to_hex().to_string()));
        }
        hasher.update(&buffer[..length]);
        lines += buffer[..length].iter().filter(|byte| **byte == b'\n').count() as u64;
    }
}
