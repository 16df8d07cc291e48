//! Lists and receipts of transfers that have ended, of this site and of others.

use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::sync::Arc;

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::proof::Document;
use penstock_api::rest::PieceMap;
use penstock_api::transfer::TransferReport;
use penstock_proto::id::{Name, TransferId};

use super::journal_directory::{JournalDirectory, journal_failed};
use crate::runner::piece_map_of_totals;
use crate::sites::SiteClient;

/// Bytes that a list of another site may have, some 10 million entries, and its receipt.
const FAR_LIST_BYTES_MAX: u64 = 4 << 30;
const FAR_RECEIPT_BYTES_MAX: u64 = 64 << 20;
/// Bytes that the last decisions of another site about a transfer may have.
const FAR_FLIGHT_BYTES_MAX: u64 = 4 << 20;

/// The documents of transfers.
pub(super) struct Documents {
    /// The own site.
    site: Name,
    sites: Arc<dyn SiteClient>,
    journal: JournalDirectory,
}

/// A file that another site fills, up to a limit.
struct Bounded<W> {
    out: W,
    left: u64,
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if part.len() as u64 > self.left {
            return Err(io::Error::other("it is longer than any list or receipt may be"));
        }
        let written = self.out.write(part)?;
        self.left -= written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Documents {
    pub(super) fn new(site: Name, sites: Arc<dyn SiteClient>, journal: JournalDirectory) -> Self {
        Self { site, sites, journal }
    }

    /// Returns a document of a transfer that has ended; that of another site's transfer is fetched
    /// into a file without a name.
    ///
    /// # Errors
    /// The transfer has not ended, or was not asked for this document; another site fails to send
    /// it.
    pub(super) fn open(&self, view: &TransferReport, document: Document) -> Result<File, Problem> {
        let id = view.id;
        if view.target.site != self.site {
            return self.fetch(&view.target.site, id, document);
        }
        if document == Document::Flight {
            // A transfer that never ran has none.
            let path = self.journal.flight(id);
            return match File::open(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    let title = format!("cannot read {}", path.display());
                    Err(penstock_api::io_problem::failed(ProblemCode::Journal, title, &error))
                }
                opened => opened.or_else(|_| self.journal.nameless()),
            };
        }
        let files = self.journal.files(id)?;
        if document == Document::Failures {
            return File::open(&files.failures).or_else(|_| self.first_failures(view));
        }
        let (path, code, what, hint) = match document {
            Document::Digests => {
                let hint = "submit with `--write-digests FILE`, and wait for its end";
                (files.digests, ProblemCode::NoDigestList, "digest list", hint)
            }
            Document::Checksums(kind) => {
                let hint = "submit with `--also-digest LIST`, and wait for its end";
                (files.checksums(kind)?, ProblemCode::NoChecksums, "such list", hint)
            }
            Document::Receipt | Document::Failures | Document::Flight => {
                let hint =
                    "wait for its end; it has none if it failed before the source was listed";
                (self.journal.receipt(id), ProblemCode::NoReceipt, "receipt", hint)
            }
        };
        File::open(&path).map_err(|error| {
            if error.kind() != std::io::ErrorKind::NotFound {
                let title = format!("cannot read {}", path.display());
                return penstock_api::io_problem::failed(ProblemCode::Journal, title, &error);
            }
            let title = format!("transfer {} has no {what}", id.short());
            Problem::new(code, title).hint(hint).status(404)
        })
    }

    /// Returns the piece map of a transfer that does not run here: as its last attempt left it,
    /// else by its totals. That of another site's transfer is fetched.
    ///
    /// # Errors
    /// Another site does not send it.
    pub(super) fn piece_map(&self, view: &TransferReport) -> Result<PieceMap, Problem> {
        if view.target.site != self.site {
            return self.sites.piece_map(&view.target.site, view.id);
        }
        let kept = self.journal.files(view.id).ok().and_then(|files| files.piece_map());
        Ok(kept.unwrap_or_else(|| piece_map_of_totals(&view.progress, view.state)))
    }

    fn fetch(&self, site: &Name, id: TransferId, document: Document) -> Result<File, Problem> {
        let left = match document {
            Document::Receipt => FAR_RECEIPT_BYTES_MAX,
            Document::Flight => FAR_FLIGHT_BYTES_MAX,
            _ => FAR_LIST_BYTES_MAX,
        };
        let mut out = Bounded { out: self.journal.nameless()?, left };
        self.sites.document(site, id, document, &mut out)?;
        let mut file = out.out;
        file.rewind().map_err(journal_failed)?;
        Ok(file)
    }

    /// Returns the failed items of a transfer that has written no list of them: those that are
    /// shown.
    fn first_failures(&self, view: &TransferReport) -> Result<File, Problem> {
        let mut file = self.journal.nameless()?;
        for item in &view.failures {
            let line = serde_json::to_string(item).unwrap_or_default();
            writeln!(file, "{line}").map_err(journal_failed)?;
        }
        file.rewind().map_err(journal_failed)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: another site cannot fill the disk with a document.
    #[test]
    fn a_document_of_another_site_has_a_bound() {
        let mut out = Bounded { out: Vec::new(), left: 5 };
        out.write_all(b"12345").unwrap();
        assert!(out.write_all(b"6").is_err());
        assert_eq!(out.out, b"12345");
    }
}
