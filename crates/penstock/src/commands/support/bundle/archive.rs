//! The archive: a tar of gzip with a manifest, for its owner alone.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use penstock_exit::{ExitCode, Failure};

use super::collected::Collected;
use super::pseudonyms::Pseudonyms;

/// Directory of all files in the archive.
const TOP: &str = "penstock-support";

/// Checks that a bundle replaces nothing.
///
/// # Errors
/// The file exists.
pub(super) fn refuse_existing(path: &Path) -> Result<(), Failure> {
    match path.symlink_metadata() {
        Ok(_) => Err(exists(path)),
        Err(_) => Ok(()),
    }
}

fn exists(path: &Path) -> Failure {
    let title = format!("`{}` exists: a bundle replaces no file", path.display());
    Failure::new(ExitCode::Refused, title)
        .hint("give another name with `--output`, or remove the file")
}

/// An archive that is being written. Without [`Archive::finish`] its file is removed.
#[derive(Debug)]
pub(super) struct Archive {
    path: PathBuf,
    file: Option<File>,
}

impl Archive {
    /// Makes the file, with mode 0600.
    ///
    /// # Errors
    /// It exists, or cannot be made.
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let mut options = OpenOptions::new();
        let made = options.write(true).create_new(true).mode(0o600).open(path);
        let file = made.map_err(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                return exists(path);
            }
            Failure::io(format!("make the file `{}`", path.display()), error)
        })?;
        Ok(Self { path: path.to_owned(), file: Some(file) })
    }

    /// Writes all files, the manifest first. Returns the length of the archive in bytes.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn finish(
        mut self,
        collected: &Collected,
        removed: usize,
        pseudonyms: Option<&Pseudonyms>,
    ) -> Result<u64, Failure> {
        let Some(file) = self.file.take() else { return Ok(0) };
        let manifest = manifest(collected, removed, pseudonyms);
        let written = write(&file, &manifest, collected).and_then(|()| file.sync_all());
        let bytes = written.and_then(|()| Ok(file.metadata()?.len()));
        bytes.map_err(|error| {
            self.file = Some(file);
            Failure::io(format!("write `{}`", self.path.display()), error)
        })
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        if self.file.is_some() {
            // Half an archive helps nobody.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn write(file: &File, manifest: &str, collected: &Collected) -> io::Result<()> {
    let mut tar = tar::Builder::new(GzEncoder::new(file, Compression::default()));
    let files = collected.files.iter().map(|file| (file.name.as_str(), file.text.as_str()));
    for (name, text) in std::iter::once(("MANIFEST", manifest)).chain(files) {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(penstock_sys::now_seconds());
        tar.append_data(&mut header, format!("{TOP}/{name}"), text.as_bytes())?;
    }
    tar.into_inner()?.finish()?.flush()
}

fn manifest(collected: &Collected, removed: usize, pseudonyms: Option<&Pseudonyms>) -> String {
    let names = match pseudonyms {
        Some(it) if it.is_of_site() => {
            "Names of files, users and labels are pseudonyms, the same in all bundles of the site \
             until its\nkeys change. Names of one or two letters, and names that no field shows, \
             may be left in texts."
        }
        Some(_) => {
            "Names of files, users and labels are pseudonyms of this bundle alone, by a random \
             key: the\nsite's key could not be read. Names of one or two letters, and names that \
             no field shows, may be\nleft in texts."
        }
        None => "It names files and users: `--redact-names` replaces these by pseudonyms.",
    };
    let mut text = format!(
        "A support bundle of penstock {}.\n\nPasswords, tokens, keys, codes and addresses with \
         credentials are taken out: {removed} places\nsay `[removed]` instead. The audit log, \
         the state database and all key files are not in it.\n{names}\nLook through it before \
         you send it; each file is plain text.\n\n",
        env!("CARGO_PKG_VERSION")
    );
    for file in &collected.files {
        text += &format!("{:<28} {:>9} bytes  {}\n", file.name, file.text.len(), file.about);
    }
    if !collected.missing.is_empty() {
        text += "\nWhat could not be had:\n";
    }
    for (name, why) in &collected.missing {
        text += &format!("{name:<28} {why}\n");
    }
    text
}
