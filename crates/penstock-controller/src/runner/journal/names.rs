//! Names of files of the journal that only one controller writes (B4).
//!
//! A deposed controller may still write, truncate and rename files until it learns of its end, and
//! no file system prevents that. Every file that is rewritten instead of appended to therefore has
//! its controller's epoch in its name: `NAME.EPOCH`, as the logs of pages. Of several such files,
//! the one with the greatest epoch counts. Where one daemon is the whole site (epoch 0) the name is
//! `NAME`.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Returns `path`, as only the controller under `epoch` writes it.
pub(crate) fn own(path: &Path, epoch: u64) -> PathBuf {
    if epoch == 0 { path.to_owned() } else { beside(path, &format!(".{epoch:016x}")) }
}

/// Returns `path` with `more` behind its name.
pub(crate) fn beside(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    PathBuf::from(name)
}

/// Returns all files that controllers have written as `path`, the last first. A deposed controller
/// may add further ones at any time, behind those that count.
///
/// # Errors
/// The directory cannot be read to its end: the last file may be among those that are not seen.
pub(crate) fn all(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(Vec::new());
    };
    let epoch_of = |found: &std::ffi::OsStr| {
        let behind = found.as_encoded_bytes().strip_prefix(name.as_encoded_bytes())?;
        match behind.strip_prefix(b".") {
            Some(digits) if digits.len() == 16 => {
                u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
            }
            _ => behind.is_empty().then_some(0),
        }
    };
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        found.extend(epoch_of(&entry.file_name()).map(|epoch| (epoch, entry.path())));
    }
    found.sort_by_key(|(epoch, _)| std::cmp::Reverse(*epoch));
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// Returns the file that counts among those that controllers wrote as `path`; `path` if none
/// exists.
///
/// # Errors
/// As [`all`].
pub(crate) fn last(path: &Path) -> io::Result<PathBuf> {
    Ok(all(path)?.into_iter().next().unwrap_or_else(|| path.to_owned()))
}

/// Removes the files that controllers before the one under `epoch` have written as `path`: that one
/// has written its own. Files that cannot be found or removed stay: they do not count.
pub(crate) fn remove_earlier(path: &Path, epoch: u64) {
    let own = own(path, epoch);
    for earlier in all(path).unwrap_or_default().into_iter().skip_while(|path| *path != own).skip(1)
    {
        let _ = fs::remove_file(earlier);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B4: the late files of a deposed controller rank below those of its successor. A name that
    /// only has the same beginning belongs to another file.
    #[test]
    fn b4_what_the_last_controller_wrote_counts() {
        let journal = tempfile::tempdir().unwrap();
        let path = journal.path().join("list");
        let all = |path: &Path| all(path).unwrap();
        assert_eq!((last(&path).unwrap(), all(&path).len()), (path.clone(), 0));
        for epoch in [9, 0x10, 0, 7] {
            fs::write(own(&path, epoch), epoch.to_string()).unwrap();
        }
        for other in ["list.new", "list.md5", "lists", "list.000000000000ffff.new"] {
            fs::write(journal.path().join(other), "").unwrap();
        }
        let found = all(&path).into_iter().map(|path| fs::read_to_string(path).unwrap());
        assert_eq!(found.collect::<Vec<_>>(), ["16", "9", "7", "0"]);
        remove_earlier(&path, 9);
        assert_eq!(all(&path), [own(&path, 16), own(&path, 9)], "a later one stays");
        assert_eq!(last(&path).unwrap(), own(&path, 16));
    }

    /// B4: a directory that cannot be read is no directory without files; one that was never made
    /// is.
    #[test]
    fn b4_a_directory_that_cannot_be_read_is_told() {
        let journal = tempfile::tempdir().unwrap();
        fs::write(journal.path().join("file"), "").unwrap();
        assert!(all(&journal.path().join("file/list")).is_err());
        assert_eq!(
            last(&journal.path().join("none/list")).unwrap(),
            journal.path().join("none/list")
        );
    }
}
