//! The files in which a scan keeps its pages and its state.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use crate::source::error::SourceError;

/// Returns the content of the file at `path`; `None` if there is none. A file that cannot be read
/// is an error.
pub(crate) fn read_kept(path: &Path) -> Result<Option<Vec<u8>>, SourceError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(SourceError::manifest(path, cause)),
    }
}

pub(super) fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&temporary, path)
}
