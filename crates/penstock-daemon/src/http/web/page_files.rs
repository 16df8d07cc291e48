//! The files of the web page.
//!
//! `web/dist.tar` is what `cargo xtask web` has built and packed: each file compressed by gzip, as
//! browsers take it. The program contains it, so that a page and its API are of one release, and no
//! build needs Node.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::OnceLock;

use axum::body::Bytes;
use flate2::Compression;
use flate2::read::{GzDecoder, GzEncoder};
use tar::Archive;

/// The built page.
const ARCHIVE: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/dist.tar"));
/// Ending of the names in the archive.
const COMPRESSED: &str = ".gz";
/// Begin of a name of a file in the index.
const RELATIVE: &str = "\"./";
/// Bytes of the digest in an entity tag.
const TAG_BYTES: usize = 16;

/// The files of the page by their paths, as `assets/index-1a2b3c.js`.
#[derive(Debug)]
pub(crate) struct PageFiles(BTreeMap<String, PageFile>);

/// A file of the page.
#[derive(Debug)]
pub(crate) struct PageFile {
    /// Its bytes, compressed by gzip (RFC 1952).
    pub(crate) gzip: Bytes,
    /// Hexadecimal digits of the digest of its compressed form.
    pub(crate) digest: String,
    /// Its bytes as they are, once a client has asked for them.
    plain: OnceLock<Bytes>,
}

impl PageFiles {
    /// Returns the files that the program contains.
    ///
    /// # Errors
    /// The archive was damaged when the program was built.
    pub(crate) fn built_in() -> io::Result<Self> {
        let mut files = BTreeMap::new();
        for entry in Archive::new(ARCHIVE).entries()? {
            let mut entry = entry?;
            let name = entry.path()?.to_string_lossy().into_owned();
            let mut gzip = Vec::new();
            entry.read_to_end(&mut gzip)?;
            if let Some(path) = name.strip_suffix(COMPRESSED) {
                files.insert(path.to_owned(), PageFile::new(gzip));
            }
        }
        Ok(Self(files))
    }

    pub(crate) fn get(&self, path: &str) -> Option<&PageFile> {
        self.0.get(path)
    }
}

impl PageFile {
    fn new(gzip: Vec<u8>) -> Self {
        let digest = blake3::hash(&gzip).to_hex()[..2 * TAG_BYTES].to_owned();
        Self { gzip: gzip.into(), digest, plain: OnceLock::new() }
    }

    /// Returns its bytes as they are; takes some milliseconds the first time.
    ///
    /// # Errors
    /// The archive was damaged when the program was built.
    pub(crate) fn plain(&self) -> io::Result<Bytes> {
        if let Some(plain) = self.plain.get() {
            return Ok(plain.clone());
        }
        let mut plain = Vec::new();
        GzDecoder::new(&*self.gzip).read_to_end(&mut plain)?;
        Ok(self.plain.get_or_init(|| plain.into()).clone())
    }

    /// Returns the index for an address that lies some levels below the root of the page. It names
    /// files relative to that root, so that a proxy may serve the page below any path.
    ///
    /// # Errors
    /// The archive was damaged when the program was built.
    pub(crate) fn below(&self, levels: usize) -> io::Result<Self> {
        let plain = self.plain()?;
        let root = format!("\"{}", "../".repeat(levels));
        let text = String::from_utf8_lossy(&plain).replace(RELATIVE, &root);
        let mut gzip = Vec::new();
        GzEncoder::new(text.as_bytes(), Compression::fast()).read_to_end(&mut gzip)?;
        Ok(Self::new(gzip))
    }
}

#[cfg(debug_assertions)]
pub use from_directory::serve_page_from;

/// A page that is rebuilt while the daemon runs, for developers of the page.
#[cfg(debug_assertions)]
mod from_directory {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

    /// Serves the page from a directory, such as `web/dist`, in place of the one in the program.
    pub fn serve_page_from(directory: PathBuf) {
        // The command line sets it once, before anything is served.
        let _ = DIRECTORY.set(directory);
    }

    impl PageFiles {
        /// Returns the files of the directory that is served, if one is, as they are now.
        ///
        /// # Errors
        /// A file cannot be read.
        pub(crate) fn of_directory() -> io::Result<Option<Self>> {
            let Some(directory) = DIRECTORY.get() else { return Ok(None) };
            let mut files = BTreeMap::new();
            collect(directory, "", &mut files)?;
            Ok(Some(Self(files)))
        }
    }

    fn collect(at: &Path, name: &str, files: &mut BTreeMap<String, PageFile>) -> io::Result<()> {
        for entry in fs::read_dir(at)? {
            let entry = entry?;
            let name = format!("{name}{}", entry.file_name().to_string_lossy());
            if entry.file_type()?.is_dir() {
                collect(&entry.path(), &format!("{name}/"), files)?;
                continue;
            }
            let plain = fs::read(entry.path())?;
            let mut gzip = Vec::new();
            GzEncoder::new(&*plain, Compression::fast()).read_to_end(&mut gzip)?;
            files.insert(name, PageFile::new(gzip));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: all files that the page names are in the program, and can be inflated.
    #[test]
    fn the_page_is_whole() {
        let files = PageFiles::built_in().unwrap();
        let index = files.get("index.html").expect("index.html");
        let text = String::from_utf8(index.plain().unwrap().to_vec()).unwrap();
        let names = text.split('"').filter_map(|part| part.strip_prefix("./"));
        let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
        assert!(names.iter().any(|name| name.ends_with(".js")), "{text}");
        for name in names {
            let file = files.get(name).unwrap_or_else(|| panic!("{name} is missing"));
            assert!(!file.plain().unwrap().is_empty(), "{name}");
        }
    }

    /// Promise: the index of an address far below names the same files.
    #[test]
    fn an_index_names_its_files_from_wherever_it_is() {
        let files = PageFiles::built_in().unwrap();
        let index = files.get("index.html").unwrap();
        let text = |file: &PageFile| String::from_utf8(file.plain().unwrap().to_vec()).unwrap();
        let (root, below) = (text(index), text(&index.below(2).unwrap()));
        assert!(root.contains("\"./assets/") && !root.contains("\"/"), "{root}");
        assert_eq!(below.matches("\"../../").count(), root.matches(RELATIVE).count());
        assert_eq!(root.replace(RELATIVE, "\"../../"), below);
    }
}
