//! The directory of a selftest in a store of this host, with a data set of awkward names.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, FileTimes};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use penstock_exit::{self as exit, Failure};

/// Bytes of the large file: some seconds at the rate of the checks that interrupt.
const LARGE_BYTES: usize = 32 << 20;
/// Small files.
const SMALL_FILES: usize = 64;
/// Name of the large file in the data set.
pub(super) const LARGE: &str = "large.bin";

/// A directory that is removed with all that is in it.
pub(super) struct Scratch {
    root: PathBuf,
    /// User and group of the store, whose daemon has to read and write here.
    owner: (u32, u32),
    /// The files of the data set `set`, as they were made.
    files: BTreeMap<PathBuf, Vec<u8>>,
}

/// Returns the files of the data set, by their paths within it.
fn data_set() -> BTreeMap<PathBuf, Vec<u8>> {
    let mut large = vec![0; LARGE_BYTES];
    blake3::Hasher::new().update(b"penstock selftest").finalize_xof().fill(&mut large);
    let small = large.chunks(4096).take(SMALL_FILES).enumerate();
    let small = small.map(|(at, bytes)| (Path::new("small").join(at.to_string()), bytes.to_vec()));
    let mut files: BTreeMap<_, _> = small.collect();
    for name in [b"new\nline".to_vec(), b"\xff\xfe".to_vec(), vec![b'x'; 255]] {
        let path = Path::new("awkward").join(OsString::from_vec(name));
        files.insert(path, b"a name is bytes".to_vec());
    }
    files.insert("empty".into(), Vec::new());
    files.insert(LARGE.into(), large);
    files
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
        let scratch = Self { root, owner: (meta.uid(), meta.gid()), files: data_set() };
        if let Err(error) = scratch.own(&scratch.root).and_then(|()| scratch.fill()) {
            if let Err(error) = fs::remove_dir_all(&scratch.root) {
                exit::warn(&format!("`{}` stays: {error}", scratch.root.display()));
            }
            return Err(failed(error));
        }
        Ok(scratch)
    }

    /// Returns the number of files of the data set, and their bytes.
    pub(super) fn sums(&self) -> (u64, u64) {
        let bytes = self.files.values().map(|bytes| bytes.len() as u64).sum();
        (self.files.len() as u64, bytes)
    }

    /// Returns the directory.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Gives a path to the owner of the store, who has to read and write there.
    pub(super) fn own(&self, path: &Path) -> io::Result<()> {
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

    /// Makes a file in it.
    pub(super) fn file(&self, name: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        let path = self.root.join(name);
        File::create_new(&path)?.write_all(bytes)?;
        self.own(&path)
    }

    fn fill(&self) -> io::Result<()> {
        for directory in ["set", "set/awkward", "set/small"] {
            self.directory(directory)?;
        }
        self.files
            .iter()
            .try_for_each(|(path, bytes)| self.file(Path::new("set").join(path), bytes))
    }

    /// Changes a bit in the middle of a file, and leaves its size and its time: only its content
    /// tells.
    pub(super) fn flip(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let file = File::options().read(true).write(true).open(self.root.join(path))?;
        let meta = file.metadata()?;
        let at = meta.len() / 2;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at)?;
        file.write_all_at(&[byte[0] ^ 1], at)?;
        let times = FileTimes::new().set_accessed(meta.accessed()?).set_modified(meta.modified()?);
        file.set_times(times)?;
        file.sync_all()
    }

    /// Returns what is wrong with a copy of the data set, or with the data set itself: a file that
    /// is missing, too much, of another kind or of other bytes.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn fault_of(&self, copy: &str) -> io::Result<Option<String>> {
        let root = self.root.join(copy);
        let mut found = Vec::new();
        if let Some(fault) = self.faults_below(&root, Path::new(""), &mut found)? {
            return Ok(Some(fault));
        }
        let missing = self.files.keys().find(|path| !found.contains(path));
        Ok(missing.map(|path| format!("`{}` is missing", root.join(path).display())))
    }

    /// Returns the files of the data set whose names a copy lacks now.
    ///
    /// # Errors
    /// It cannot be looked at.
    pub(super) fn absent_from(&self, copy: &str) -> io::Result<Vec<&Path>> {
        let root = self.root.join(copy);
        let mut listed = BTreeMap::new();
        let mut absent = Vec::new();
        for name in self.files.keys() {
            // A client of NFS may remember for a while that a name was missing, but lists the
            // directory anew.
            let parent = name.parent().unwrap_or(Path::new(""));
            if !listed.contains_key(parent) {
                let names = found(names(&root.join(parent)))?;
                listed.insert(parent, names.unwrap_or_default());
            }
            let is_there = name.file_name().is_some_and(|name| {
                listed[parent].binary_search_by(|other| other.as_os_str().cmp(name)).is_ok()
            });
            if !is_there {
                absent.push(name.as_path());
            }
        }
        Ok(absent)
    }

    /// Returns the fault of a file that has its name in a copy, at any moment of a transfer: it is
    /// not whole. A file that has no name yet, or none any more, is no fault.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn fault_of_names(&self, copy: &str) -> io::Result<Option<String>> {
        let root = self.root.join(copy);
        for (name, bytes) in &self.files {
            let path = root.join(name);
            let Some(meta) = found(fs::symlink_metadata(&path))? else { continue };
            let shown = path.display();
            if !meta.is_file() {
                return Ok(Some(format!("`{shown}` is no file")));
            }
            if meta.len() != bytes.len() as u64 {
                let (has, of) = (meta.len(), bytes.len());
                return Ok(Some(format!("`{shown}` has {has} of {of} bytes")));
            }
            if found(fs::read(&path))?.is_some_and(|read| read != *bytes) {
                return Ok(Some(format!("`{shown}` differs")));
            }
        }
        Ok(None)
    }

    fn faults_below(
        &self,
        root: &Path,
        within: &Path,
        found: &mut Vec<PathBuf>,
    ) -> io::Result<Option<String>> {
        for name in names(&root.join(within))? {
            let below = within.join(&name);
            let path = root.join(&below);
            let shown = path.display();
            let meta = fs::symlink_metadata(&path)?;
            let is_directory = self.files.keys().any(|file| file.parent() == Some(below.as_path()));
            let fault = match self.files.get(&below) {
                _ if is_temporary(&name) => Some(format!("`{shown}` is left, a temporary file")),
                None if is_directory && meta.is_dir() => self.faults_below(root, &below, found)?,
                None if !is_directory => Some(format!("`{shown}` is too much")),
                Some(bytes) if meta.is_file() && meta.nlink() == 1 => {
                    (fs::read(&path)? != *bytes).then(|| format!("`{shown}` differs"))
                }
                _ => Some(format!("`{shown}` is no file or directory of its own")),
            };
            if fault.is_some() {
                return Ok(fault);
            }
            found.push(below);
        }
        Ok(None)
    }

    /// Returns whether a place has a file or anything else but directories.
    ///
    /// # Errors
    /// It cannot be read.
    pub(super) fn has_items(&self, place: &Path) -> io::Result<bool> {
        let path = self.root.join(place);
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
            Ok(meta) if !meta.is_dir() => Ok(true),
            Ok(_) => {
                for name in names(&path)? {
                    if self.has_items(&path.join(name))? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Removes it with all that is in it.
    pub(super) fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.root)
    }
}

/// Returns nothing for a file that does not exist.
fn found<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        looked => looked.map(Some),
    }
}

fn names(directory: &Path) -> io::Result<Vec<OsString>> {
    let names = fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name()));
    let mut names = names.collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Returns whether a name is a temporary one of transfers.
fn is_temporary(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".pst-")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a copy of the data set has no fault only as long as it has all files of it, as
    /// files of their own, with their bytes, and nothing else; all goes at the end.
    #[test]
    fn faults_of_a_copy_are_found() {
        let store = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(store.path(), "a").unwrap();
        let (set, fault) = (scratch.root().join("set"), || scratch.fault_of("set").unwrap());
        let told = |words: &str| assert!(fault().unwrap().ends_with(words), "{:?}", fault());
        assert_eq!(fault(), None);
        assert_eq!(scratch.sums().0, 3 + 1 + 1 + 64);
        scratch.flip("set/large.bin").unwrap();
        told("large.bin` differs");
        scratch.flip("set/large.bin").unwrap();
        let small = set.join("small/3");
        let bytes = fs::read(&small).unwrap();
        fs::rename(&small, scratch.root().join("away")).unwrap();
        told("small/3` is missing");
        symlink(scratch.root().join("away"), &small).unwrap();
        told("small/3` is no file or directory of its own");
        fs::remove_file(&small).unwrap();
        fs::hard_link(scratch.root().join("away"), &small).unwrap();
        told("small/3` is no file or directory of its own");
        fs::remove_file(&small).unwrap();
        fs::create_dir(&small).unwrap();
        told("small/3` is no file or directory of its own");
        fs::remove_dir(&small).unwrap();
        scratch.file("set/small/3", &bytes).unwrap();
        assert_eq!(fault(), None);
        scratch.directory("set/more").unwrap();
        told("more` is too much");
        fs::remove_dir(set.join("more")).unwrap();
        scratch.file("set/small/.pst-1", b"").unwrap();
        told("is left, a temporary file");
        assert!(Scratch::make(store.path(), "a").is_err());
        scratch.remove().unwrap();
        assert!(!scratch.root().exists());
    }

    /// Promise (b): a file is judged from the moment at which it has its name, and not before; one
    /// with too few bytes, other bytes, or of another kind is a fault.
    #[test]
    fn b_names_of_incomplete_files_are_found() {
        let store = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(store.path(), "a").unwrap();
        let (copy, fault) =
            (scratch.root().join("copy"), || scratch.fault_of_names("copy").unwrap());
        let told = |words: &str| assert!(fault().unwrap().ends_with(words), "{:?}", fault());
        let absent = || scratch.absent_from("copy").unwrap().len();
        assert_eq!((fault(), absent()), (None, scratch.files.len()));
        fs::create_dir(&copy).unwrap();
        let (temporary, large) = (copy.join(".pst-1"), copy.join(LARGE));
        fs::write(&temporary, b"part").unwrap();
        assert_eq!((fault(), absent()), (None, scratch.files.len()));
        fs::rename(&temporary, &large).unwrap();
        assert_eq!(absent(), scratch.files.len() - 1);
        told("large.bin` has 4 of 33554432 bytes");
        fs::write(&large, vec![0; LARGE_BYTES]).unwrap();
        told("large.bin` differs");
        fs::copy(scratch.root().join("set").join(LARGE), &large).unwrap();
        assert_eq!(fault(), None);
        symlink(&large, copy.join("empty")).unwrap();
        told("empty` is no file");
    }

    /// Promise: damage by [`Scratch::flip`] shows in nothing but the content: a mover that compares
    /// sizes and times does not find it.
    #[test]
    fn a_flipped_bit_shows_in_the_content_alone() {
        let store = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(store.path(), "a").unwrap();
        let path = scratch.root().join("set/small/7");
        let look = || {
            let meta = fs::metadata(&path).unwrap();
            (meta.len(), meta.modified().unwrap(), fs::read(&path).unwrap())
        };
        let before = look();
        scratch.flip("set/small/7").unwrap();
        let after = look();
        assert_eq!((after.0, after.1), (before.0, before.1));
        let differ = before.2.iter().zip(&after.2).filter(|(a, b)| a != b);
        assert_eq!(differ.count(), 1);
    }

    /// Promise: a place with anything but directories has items, and one that is not there none.
    #[test]
    fn items_are_found() {
        let store = tempfile::tempdir().unwrap();
        let scratch = Scratch::make(store.path(), "a").unwrap();
        let has = || scratch.has_items(Path::new("more")).unwrap();
        assert!(!has());
        scratch.directory("more").unwrap();
        scratch.directory("more/within").unwrap();
        assert!(!has());
        scratch.link("more/within/link", "/").unwrap();
        assert!(has());
    }
}
