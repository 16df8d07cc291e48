//! Options about proof beyond the digests that every byte is checked by.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use penstock_api::proof::Proof;
use penstock_proto::checksum::ChecksumKind;

use crate::exit::{ExitCode, Failure};

/// What `copy` and `transfer submit` are asked to prove.
#[derive(clap::Args)]
#[command(next_help_heading = "Proof")]
pub(crate) struct ProofArgs {
    /// When all is durable, read every file again from storage, past the page cache, and compare it
    /// with its digest; what is not right is fetched again
    #[arg(long)]
    readback: bool,
    /// Compute these checksums of every file too, for catalogues, and write each to the file of
    /// --write-digests with its name behind: md5, sha1, sha256, sha512, xxh128, xxh3, xxh64, crc32,
    /// crc32c, adler32. Costs one more read of all data at the target, mostly from memory
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "write_digests")]
    also_digest: Vec<ChecksumKind>,
    /// When it has ended, write its signed receipt here
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
    /// A checksum is named twice, or is the digest itself.
    pub(crate) fn read(&self) -> anyhow::Result<Proof> {
        let mut also_digests = self.also_digest.clone();
        also_digests.sort_unstable();
        also_digests.dedup();
        if also_digests.len() < self.also_digest.len() {
            let message = "--also-digest names a checksum twice";
            return Err(Failure::new(ExitCode::Usage, message).into());
        }
        if also_digests.contains(&ChecksumKind::Blake3) {
            let message = "--also-digest blake3: BLAKE3 is what --write-digests writes anyway";
            return Err(Failure::new(ExitCode::Usage, message).into());
        }
        Ok(Proof { readback: self.readback, also_digests, receipt: self.receipt.is_some() })
    }
}

/// Where the list of another checksum goes, beside that of `--write-digests`.
pub(crate) fn list_beside(list: &Path, kind: ChecksumKind) -> PathBuf {
    let mut path = OsString::from(list);
    path.push(format!(".{kind}"));
    path.into()
}
