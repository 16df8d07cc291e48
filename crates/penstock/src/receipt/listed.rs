//! `penstock receipt check --digest-list`: a list that a receipt's root digest proves says of each
//! file whether it was moved, also in a directory that holds more than that.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _};
use std::path::Path;

use penstock_api::receipt::ReceiptBody;
use penstock_controller::root::RootHasher;
use penstock_proto::checksum::{ChecksumKind, LineError, parse_line};
use penstock_proto::digest::Digest;
use penstock_proto::units::counted;

use super::findings::Findings;
use super::tree::compare_tree;
use penstock_exit::Failure;

/// Judges a digest list by the root digest, and a directory by the list. Blocks.
///
/// # Errors
/// Something cannot be read, or standard output is gone.
pub(super) fn against_list(
    findings: &mut Findings,
    said: &ReceiptBody,
    list: &Path,
    directory: Option<&Path>,
) -> anyhow::Result<()> {
    let failed = |error| {
        Failure::io(format!("read the list `{}`", list.display()), error)
            .hint("give the list that --write-digests or `penstock transfer digests` has written")
    };
    let mut file = File::open(list).map_err(failed)?;
    let found = match root_of(&mut file).map_err(failed)? {
        Ok(found) => found,
        Err(why) => return Ok(findings.wrong(&format!("list: `{}`: {why}", list.display()))?),
    };
    if said.facts.root_digest.as_deref() != Some(found.to_hex().as_str()) {
        let text = format!(
            "list: `{}` is not the list of what was moved: its root digest is {}",
            list.display(),
            found.to_hex()
        );
        return Ok(findings.wrong(&text)?);
    }
    let files = counted(said.facts.root_files, "file");
    findings
        .good(&format!("list: `{}` has the root digest: {files} with digests", list.display()))?;
    let Some(directory) = directory else { return Ok(()) };
    file.rewind().map_err(failed)?;
    compare_tree(findings, &mut file, directory)
}

/// The reason why a list is none of ours.
#[derive(Debug, thiserror::Error)]
enum ForeignList {
    #[error("line {number}: {cause}")]
    Line { number: u64, cause: LineError },
    #[error("line {0} holds no BLAKE3 digest")]
    OtherDigest(u64),
}

/// The root digest of a list; or why it is none of ours.
fn root_of(file: &mut File) -> std::io::Result<Result<Digest, ForeignList>> {
    let mut root = RootHasher::new(&std::env::temp_dir());
    let mut input = BufReader::new(file);
    let mut line = Vec::new();
    for number in 1_u64.. {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let parsed = match parse_line(line.strip_suffix(b"\n").unwrap_or(&line)) {
            Ok(None) => continue,
            Ok(Some(parsed)) => parsed,
            Err(cause) => return Ok(Err(ForeignList::Line { number, cause })),
        };
        let blake3 = parsed.kind.is_none_or(|kind| kind == ChecksumKind::Blake3);
        let Some(digest) = parsed.value.try_into().ok().filter(|_| blake3) else {
            return Ok(Err(ForeignList::OtherDigest(number)));
        };
        root.add(Digest(digest), &parsed.name)?;
    }
    root.finish().map(Ok)
}
