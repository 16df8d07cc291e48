//! Keys and certificates as PEM files: written whole, synced and renamed, keys for their owner
//! only.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use data_encoding::BASE64;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use zeroize::Zeroizing;

use super::error::TrustError;

/// Characters of base64 on one line of PEM (RFC 7468, section 2).
const PEM_LINE: usize = 64;

/// Returns a PEM section.
pub(super) fn section(label: &str, der: &[u8]) -> Zeroizing<String> {
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

/// Reads a file with a secret, which only its owner may be able to read.
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

/// Writes a private key that only its owner may read.
pub(super) fn write_key(path: &Path, pkcs8: &[u8]) -> Result<(), TrustError> {
    write_file(path, 0o600, section("PRIVATE KEY", pkcs8).as_bytes())
}

/// Reads a private key, which only its owner may be able to read.
pub(super) fn read_key(path: &Path) -> Result<PrivatePkcs8KeyDer<'static>, TrustError> {
    let text = read_private(path)?;
    PrivatePkcs8KeyDer::from_pem_slice(&text)
        .map_err(|_| TrustError::Content { path: path.to_owned(), what: "private key" })
}

/// Reads a private key in any of the usual forms, which only its owner may be able to read.
pub(super) fn read_any_key(path: &Path) -> Result<PrivateKeyDer<'static>, TrustError> {
    let text = read_private(path)?;
    PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| TrustError::Content { path: path.to_owned(), what: "private key" })
}

/// Reads the certificates of a file that all users may read: at least one.
pub(super) fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    let text = read_public(path)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => Err(TrustError::Content { path: path.to_owned(), what: "certificate" }),
    }
}
