//! A file of the target that is read, to look at what other hosts have written there.
//!
//! A page that this host has read stays in its cache when another host writes there afterwards: it
//! would show it as it was, zeros say, to its own next look, which fetches again what is right, and
//! to users after the file has its name (A9, docs/design/0025). So the cache of such a file is
//! dropped before it is read and after. With one peer per site it is not: nobody else writes, and
//! the pages may be wanted.

use std::ops::Deref;

use penstock_io::store::ReadFile;

/// An open file whose pages leave the cache with it.
pub(crate) struct UncachedFile {
    file: ReadFile,
    shared: bool,
}

impl UncachedFile {
    /// Begins to look; `shared` tells whether other hosts write to this store too.
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
