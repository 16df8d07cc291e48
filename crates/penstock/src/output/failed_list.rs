//! The list of failed items that a command leaves, for `--files-from`: complete, and written as it
//! is read, so that memory does not grow with it.
//!
//! Its name can be foreseen, and other users may write into its directory. So the list is a new
//! file that only this user reads, or replaces a regular file of this user; links are never
//! followed. It gets its name when it is complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use penstock_api::transfer::FailedItem;
use penstock_proto::name;

use crate::output::output_file::successor::Successor;
use penstock_exit as exit;

/// Failed items that are named on standard error; the list has all.
const TOLD_MAX: usize = 5;
/// Longest line that is read: the longest path, each byte escaped, and a message.
const LINE_BYTES_MAX: usize = 8 * name::PATH_BYTES_MAX;

/// A list of at least one failed item.
pub(crate) struct FailedList {
    /// Where it is; `None` if it cannot be written, which standard error has then said.
    path: Option<PathBuf>,
    /// How many items have failed.
    pub(crate) items: u64,
}

impl FailedList {
    /// Says where the list is and what it is for; `part` stands before "the failed items".
    pub(crate) fn hint(&self, part: &str) -> String {
        match &self.path {
            Some(path) => {
                format!("`{}` lists{part} the failed items, for --files-from", path.display())
            }
            None => "the list of failed items could not be written".to_owned(),
        }
    }
}

/// Writes `penstock-failed-SHORT.txt` into the working directory or, where that cannot be written,
/// a file of a random name into the directory for temporary files, and names the first items on
/// standard error. `fill` writes JSON of a [`FailedItem`] a line. `top` is what the root of the
/// data set is called. Returns `None` if no item has failed: then no file is made.
///
/// # Errors
/// What `fill` returns.
pub(crate) fn write(
    short: &str,
    top: &str,
    fill: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<Option<FailedList>> {
    let mut lines =
        Lines { short, output: Output::Unopened, line: Vec::new(), items: 0, first: Vec::new() };
    fill(&mut lines)?;
    lines.end()?;
    let path = lines.output.close();
    for item in &lines.first {
        let path = item.path.to_string();
        let path = if path.is_empty() { top } else { &path };
        exit::warn(&format!("failed: {path}: {}", item.message));
    }
    Ok((lines.items > 0).then_some(FailedList { path, items: lines.items }))
}

/// Where the list goes.
enum Output {
    /// No item has failed yet.
    Unopened,
    Open(Box<(BufWriter<Arc<File>>, Successor)>, PathBuf),
    /// It cannot be written.
    Lost,
}

impl Output {
    fn open(short: &str) -> Self {
        let name = format!("penstock-failed-{short}.txt");
        let here = Path::new(&name);
        if let Ok(list) = create(here) {
            return Self::Open(Box::new(list), here.to_owned());
        }
        let name = format!("penstock-failed-{short}-{:08x}.txt", rand::random::<u32>());
        let path = std::env::temp_dir().join(name);
        match create(&path) {
            Ok(list) => Self::Open(Box::new(list), path),
            Err(error) => Self::lost(&path, &error),
        }
    }

    fn lost(path: &Path, error: &io::Error) -> Self {
        exit::warn(&format!("cannot write the list `{}`: {error}", path.display()));
        Self::Lost
    }

    fn write(&mut self, line: &str) {
        let Self::Open(list, path) = self else { return };
        let out = &mut list.0;
        if let Err(error) = out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n")) {
            *self = Self::lost(path, &error);
        }
    }

    fn close(self) -> Option<PathBuf> {
        let Self::Open(list, path) = self else { return None };
        let (mut out, successor) = *list;
        let flushed = out.flush();
        drop(out);
        if let Err(error) = flushed.and_then(|()| successor.take_place()) {
            Self::lost(&path, &error);
            return None;
        }
        Some(path)
    }
}

/// Makes the list that gets the name `path`, in the place of nothing or of a regular file of this
/// user.
fn create(path: &Path) -> io::Result<(BufWriter<Arc<File>>, Successor)> {
    let own = rustix::process::geteuid().as_raw();
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() || meta.uid() != own => {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(_) | Err(_) => {}
    }
    let successor = Successor::at(path, 0o600)?;
    Ok((BufWriter::new(successor.file()), successor))
}

/// Takes lines of JSON, and writes the paths in them as `--files-from` reads them.
struct Lines<'a> {
    short: &'a str,
    output: Output,
    line: Vec<u8>,
    items: u64,
    first: Vec<FailedItem>,
}

impl Lines<'_> {
    fn end(&mut self) -> io::Result<()> {
        if self.line.is_empty() {
            return Ok(());
        }
        let item: FailedItem = serde_json::from_slice(&self.line)?;
        self.line.clear();
        if let Output::Unopened = self.output {
            self.output = Output::open(self.short);
        }
        self.output.write(&name::escape_in_list(&item.path.0));
        self.items += 1;
        if self.first.len() < TOLD_MAX {
            self.first.push(item);
        }
        Ok(())
    }
}

impl Write for Lines<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else {
            if self.line.len() + bytes.len() > LINE_BYTES_MAX {
                let message = "a line of the list of failed items is too long";
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            self.line.extend_from_slice(bytes);
            return Ok(bytes.len());
        };
        self.line.extend_from_slice(&bytes[..end]);
        self.end()?;
        Ok(end + 1)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    fn make(path: &Path) -> io::Result<()> {
        let (mut out, successor) = create(path)?;
        out.write_all(b"new\n")?;
        out.flush()?;
        drop(out);
        successor.take_place()
    }

    /// Promise: a list follows no link that stands under its name, replaces no file of another
    /// user, and is for its user alone, also in the place of a list that was open to others.
    #[test]
    fn a_list_takes_the_place_of_own_files_only() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("victim"), "precious").unwrap();
        symlink(at("victim"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        for link in ["link", "dangling"] {
            assert_eq!(make(&at(link)).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        }
        assert_eq!(fs::read(at("victim")).unwrap(), b"precious");
        assert!(!at("nothing").exists());
        fs::write(at("own"), "old").unwrap();
        fs::set_permissions(at("own"), fs::Permissions::from_mode(0o666)).unwrap();
        for name in ["own", "fresh"] {
            make(&at(name)).unwrap();
            assert_eq!(fs::read(at(name)).unwrap(), b"new\n");
            assert_eq!(fs::metadata(at(name)).unwrap().permissions().mode() & 0o777, 0o600);
        }
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(at("victim"), Some(65_534), None).unwrap();
            assert_eq!(make(&at("victim")).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read(at("victim")).unwrap(), b"precious");
        }
    }
}
