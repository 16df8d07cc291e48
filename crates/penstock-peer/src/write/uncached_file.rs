//! A file of the target that is read past the cache, to see the writes of other hosts.
//!
//! A page that this host has read stays in its cache when another host writes to the file
//! afterwards. The host would see the old bytes, zeros for example, at its own next check, which
//! would then fetch right bytes again. Users would see them too, after the file has its name (A9,
//! docs/design/0025). The cache of such a file is therefore dropped before reading and after it. A
//! site with one peer keeps the cache: no other host writes, and the pages may be wanted.

use std::ops::Deref;

use penstock_store::ReadFile;

/// An open file whose pages leave the cache with it.
pub(crate) struct UncachedFile {
    file: ReadFile,
    shared: bool,
}

impl UncachedFile {
    /// Begins a check. `shared` is true if other hosts write to this store too.
    pub(crate) fn at(file: ReadFile, shared: bool) -> Self {
        if shared {
            file.drop_cache();
        }
        Self { file, shared }
    }
}

impl Deref for UncachedFile {
    type Target = ReadFile;

    fn deref(&self) -> &ReadFile {
        &self.file
    }
}

impl Drop for UncachedFile {
    fn drop(&mut self) {
        if self.shared {
            self.file.drop_cache();
        }
    }
}
