//! Keys and certificates as PEM files: written whole, synced and renamed, keys for their owner
//! only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use data_encoding::BASE64;
use zeroize::Zeroizing;

use super::TrustError;

/// Characters of base64 on one line of PEM (RFC 7468, section 2).
const PEM_LINE: usize = 64;

/// Returns a PEM section.
pub(super) fn pem(label: &str, der: &[u8]) -> Zeroizing<String> {
    let body = Zeroizing::new(BASE64.encode(der));
    let mut text = Zeroizing::new(format!("-----BEGIN {label}-----\n"));
    // Base64 is ASCII, so any byte index is a character border.
    let mut rest = body.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(PEM_LINE));
        text.push_str(line);
        text.push('\n');
        rest = behind;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

/// Makes a directory for secrets; one that exists is left as it is.
pub(super) fn make_directory(path: &Path) -> Result<(), TrustError> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|source| {
        TrustError::File { action: "make directory", path: path.to_owned(), source }
    })
}

/// Writes a file so that a crash leaves the old or the new one, never a part.
pub(super) fn write_file(path: &Path, mode: u32, content: &[u8]) -> Result<(), TrustError> {
    let replace = || -> io::Result<()> {
        let parent = path.parent().unwrap_or(Path::new("."));
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let temporary = parent.join(name);
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(parent)?.sync_all()
    };
    replace().map_err(|source| TrustError::File { action: "write", path: path.to_owned(), source })
}

/// Reads a file that all users may read.
pub(super) fn read_public(path: &Path) -> Result<Vec<u8>, TrustError> {
    fs::read(path).map_err(|source| TrustError::File {
        action: "read",
        path: path.to_owned(),
        source,
    })
}

/// Reads a private key, which only its owner may be able to read.
pub(super) fn read_private(path: &Path) -> Result<Zeroizing<Vec<u8>>, TrustError> {
    let metadata = fs::metadata(path).map_err(|source| TrustError::File {
        action: "look at",
        path: path.to_owned(),
        source,
    })?;
    let mode = metadata.mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(TrustError::KeyExposed { path: path.to_owned(), mode });
    }
    read_public(path).map(Zeroizing::new)
}
