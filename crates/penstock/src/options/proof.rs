//! Options about proof beyond the digests that every byte is checked by.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use penstock_api::proof::Proof;
use penstock_proto::checksum::ChecksumKind;

use crate::output::output_file::OutputFile;
use crate::output::progress::Mode;
use penstock_exit::{ExitCode, Failure};

/// What `copy` and `transfer submit` are asked to prove.
#[derive(clap::Args)]
#[command(next_help_heading = "Proof")]
pub(crate) struct ProofArgs {
    /// Read every file back from storage, past the page cache, when all is durable, and compare it
    /// with its digest. Damaged files are sent again
    #[arg(long)]
    readback: bool,
    /// Also compute these checksums of every file, for catalogues: md5, sha1, sha256, sha512,
    /// xxh128, xxh3, xxh64, crc32, crc32c, adler32. Each list is written to the file of
    /// --write-digests with the name of the checksum appended. Reads all data at the target once
    /// more, mostly from memory
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "write_digests",
        value_parser = also_digest)]
    also_digest: Vec<ChecksumKind>,
    /// Write the signed receipt to FILE at the end
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
}

impl ProofArgs {
    /// Where the receipt goes.
    pub(crate) fn receipt(&self) -> Option<&Path> {
        self.receipt.as_deref()
    }

    /// What is asked for.
    ///
    /// # Errors
    /// A checksum is named twice.
    pub(crate) fn read(&self) -> anyhow::Result<Proof> {
        let mut also_digests = self.also_digest.clone();
        also_digests.sort_unstable();
        also_digests.dedup();
        if also_digests.len() < self.also_digest.len() {
            let message = "--also-digest names a checksum twice";
            return Err(Failure::new(ExitCode::Usage, message).into());
        }
        Ok(Proof { readback: self.readback, also_digests, receipt: self.receipt.is_some() })
    }
}

/// Reads a checksum beside the digest.
fn also_digest(text: &str) -> Result<ChecksumKind, String> {
    match text.parse() {
        Ok(ChecksumKind::Blake3) => Err("--write-digests writes BLAKE3 anyway".to_owned()),
        Ok(kind) => Ok(kind),
        Err(_) => {
            let others = ChecksumKind::ALL.iter().filter(|kind| **kind != ChecksumKind::Blake3);
            let names: Vec<_> = others.map(|kind| kind.as_str()).collect();
            Err(format!("one of {}", names.join(", ")))
        }
    }
}

/// The files of `--write-digests` and `--also-digest`.
#[derive(Debug)]
pub(crate) struct DigestOutputs {
    digests: OutputFile,
    also: Vec<(ChecksumKind, OutputFile)>,
}

impl DigestOutputs {
    /// All of them.
    pub(crate) fn files(&self) -> impl Iterator<Item = &OutputFile> {
        std::iter::once(&self.digests).chain(self.also.iter().map(|(_, file)| file))
    }

    /// The name that the user gave the list of digests.
    pub(crate) fn name(&self) -> &Path {
        self.digests.name()
    }

    /// Writes each with `fill`, which is told the checksum, or `None` for the digests.
    ///
    /// # Errors
    /// As [`OutputFile::write`].
    pub(crate) fn write(
        self,
        stop: &AtomicBool,
        mut fill: impl FnMut(Option<ChecksumKind>, &mut dyn Write) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.digests.write(stop, |out| fill(None, out))?;
        for (kind, file) in self.also {
            file.write(stop, |out| fill(Some(kind), out))?;
        }
        Ok(())
    }
}

/// Opens what a transfer is to leave: the lists of digests, and the receipt.
///
/// # Errors
/// As [`OutputFile::open_all`]; standard output has another use already.
pub(crate) fn open_papers(
    digests: Option<&Path>,
    also: &[ChecksumKind],
    receipt: Option<&Path>,
    mode: Mode,
) -> anyhow::Result<(Option<DigestOutputs>, Option<OutputFile>)> {
    let lists = digests.map(|path| ("--write-digests", path.to_owned()));
    let beside = |kind: &ChecksumKind| {
        let mut path = OsString::from(digests?);
        path.push(format!(".{kind}"));
        Some(("--also-digest", path.into()))
    };
    let wanted = lists.into_iter().chain(also.iter().filter_map(beside));
    let wanted = wanted.chain(receipt.map(|path| ("--receipt", path.to_owned())));
    let mut opened = OutputFile::open_all(wanted)?.into_iter();
    if mode == Mode::Json && opened.as_slice().iter().any(OutputFile::is_standard_output) {
        let message = "--json writes to standard output already";
        return Err(Failure::new(ExitCode::Usage, message)
            .hint("give a file instead of `-`")
            .into());
    }
    let list = digests.and_then(|_| opened.next());
    if let Some(list) = list.as_ref().filter(|list| !also.is_empty() && !list.is_regular()) {
        let message =
            format!("`{}` is no file that others can be named after", list.name().display());
        return Err(Failure::new(ExitCode::Usage, message)
            .hint("--also-digest writes beside --write-digests: give that a file")
            .into());
    }
    let lists = list.map(|digests| {
        let also = also.iter().copied().zip(opened.by_ref().take(also.len())).collect();
        DigestOutputs { digests, also }
    });
    Ok((lists, opened.next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the checksums that an error offers are those that the option takes.
    #[test]
    fn what_is_offered_is_taken() {
        let offered = also_digest("sha3").unwrap_err();
        let names = offered.strip_prefix("one of ").unwrap().split(", ");
        assert!(names.clone().all(|name| also_digest(name).is_ok()), "{offered}");
        assert_eq!(names.count(), ChecksumKind::ALL.len() - 1);
        assert!(also_digest("blake3").unwrap_err().contains("--write-digests"));
    }
}
