//! The directory of a selftest in a store of this host, with a data set of awkward names.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use penstock_exit::{self as exit, Failure};

/// Bytes of the large file: some seconds at the rate of the checks that interrupt.
const LARGE_BYTES: usize = 32 << 20;
/// Small files.
const SMALL_FILES: usize = 64;

/// A directory that is removed with all that is in it.
pub(super) struct Scratch {
    root: PathBuf,
    /// User and group of the store, whose daemon has to read and write here.
    owner: (u32, u32),
}

impl Scratch {
    /// Makes a directory with the data set `set` in it; the directory must not exist.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn make(store: &Path, name: &str) -> Result<Self, Failure> {
        let failed =
            |error| Failure::io(format!("make a data set in `{}`", store.display()), error);
        let meta = fs::metadata(store).map_err(failed)?;
        let root = store.join(name);
        fs::create_dir(&root).map_err(failed)?;
        let scratch = Self { root, owner: (meta.uid(), meta.gid()) };
        if let Err(error) = scratch.own(&scratch.root).and_then(|()| scratch.fill()) {
            if let Err(error) = fs::remove_dir_all(&scratch.root) {
                exit::warn(&format!("`{}` stays: {error}", scratch.root.display()));
            }
            return Err(failed(error));
        }
        Ok(scratch)
    }

    /// Returns the directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    fn own(&self, path: &Path) -> io::Result<()> {
        let meta = fs::symlink_metadata(path)?;
        if (meta.uid(), meta.gid()) == self.owner {
            return Ok(());
        }
        chown(path, Some(self.owner.0), Some(self.owner.1))
    }

    /// Makes a directory in it.
    pub(super) fn directory(&self, name: impl AsRef<Path>) -> io::Result<PathBuf> {
        let path = self.root.join(name);
        fs::create_dir(&path)?;
        self.own(&path)?;
        Ok(path)
    }

    /// Makes a link in it that leads anywhere.
    pub(super) fn link(&self, name: &str, to: &str) -> io::Result<()> {
        symlink(to, self.root.join(name))
    }

    fn file(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        File::create_new(path)?.write_all(bytes)?;
        self.own(path)
    }

    fn fill(&self) -> io::Result<()> {
        let set = self.directory("set")?;
        let mut large = vec![0; LARGE_BYTES];
        blake3::Hasher::new().update(b"penstock selftest").finalize_xof().fill(&mut large);
        self.file(&set.join("large.bin"), &large)?;
        self.file(&set.join("empty"), b"")?;
        let awkward = self.directory("set/awkward")?;
        for name in [b"new\nline".to_vec(), b"\xff\xfe".to_vec(), vec![b'x'; 255]] {
            self.file(&awkward.join(OsString::from_vec(name)), b"a name is bytes")?;
        }
        let small = self.directory("set/small")?;
        for (at, bytes) in large.chunks(4096).take(SMALL_FILES).enumerate() {
            self.file(&small.join(at.to_string()), bytes)?;
        }
        Ok(())
    }

    /// Changes a bit in the middle of a file, and leaves its size.
    pub(super) fn flip(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let file = File::options().read(true).write(true).open(self.root.join(path))?;
        let at = file.metadata()?.len() / 2;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at)?;
        file.write_all_at(&[byte[0] ^ 1], at)?;
        file.sync_all()
    }

    /// Removes it with all that is in it.
    pub(super) fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.root)
    }
}

/// Returns the first difference between two trees: names, kinds, contents.
///
/// # Errors
/// One of them cannot be read.
pub(super) fn difference(a: &Path, b: &Path) -> io::Result<Option<String>> {
    let (in_a, in_b) = (names(a)?, names(b)?);
    if let Some(name) = in_a.iter().find(|name| !in_b.contains(name)) {
        return Ok(Some(format!("`{}` is missing", a.join(name).display())));
    }
    if let Some(name) = in_b.iter().find(|name| !in_a.contains(name)) {
        return Ok(Some(format!("`{}` is too much", b.join(name).display())));
    }
    for name in &in_a {
        let (a, b) = (a.join(name), b.join(name));
        let (kind_a, kind_b) = (fs::symlink_metadata(&a)?, fs::symlink_metadata(&b)?);
        let found = match (kind_a.is_dir(), kind_b.is_dir()) {
            (true, true) => difference(&a, &b)?,
            (false, false) if read(&a)? == read(&b)? => None,
            _ => Some(format!("`{}` differs", b.display())),
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

fn names(directory: &Path) -> io::Result<Vec<OsString>> {
    let names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns whether a tree has a file under a temporary name of transfers.
///
/// # Errors
/// It cannot be read.
pub(super) fn has_temporary(directory: &Path) -> io::Result<bool> {
    for name in names(directory)? {
        let path = directory.join(&name);
        let is_temporary = |name: &OsStr| name.as_encoded_bytes().starts_with(b".pst-");
        if is_temporary(&name) || fs::symlink_metadata(&path)?.is_dir() && has_temporary(&path)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: two equal trees have no difference, and a bit, a name or a directory more is one;
    /// all goes at the end.
    #[test]
    fn differences_are_found() {
        let store = tempfile::tempdir().unwrap();
        let a = Scratch::make(store.path(), "a").unwrap();
        let b = Scratch::make(store.path(), "b").unwrap();
        let found = || difference(a.root(), b.root()).unwrap();
        assert_eq!(found(), None);
        b.flip("set/large.bin").unwrap();
        assert!(found().unwrap().contains("large.bin` differs"));
        b.flip("set/large.bin").unwrap();
        fs::remove_file(b.root().join("set/small/3")).unwrap();
        assert!(found().unwrap().contains("small/3` is missing"));
        a.directory("set/more").unwrap();
        assert!(found().unwrap().contains("more` is missing"));
        assert!(!has_temporary(a.root()).unwrap());
        fs::write(a.root().join("set/more/.pst-1"), "x").unwrap();
        assert!(has_temporary(a.root()).unwrap());
        assert!(Scratch::make(store.path(), "a").is_err());
        a.remove().unwrap();
        assert!(!a.root().exists());
    }
}
