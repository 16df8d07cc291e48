//! The root of a data set: its search, and the kinds that are rejected.

use penstock_api::scan::RootKind;
use penstock_proto::name::{self, Own};
use penstock_store::{Dir, Kind, Meta, Source, StoreError};

use crate::source::error::{SourceError, Unfit};

/// Finds a path. Returns its directory, its name there, and its attributes.
pub(crate) fn look(source: &Source, path: &[u8]) -> Result<(Dir, Vec<u8>, Meta), StoreError> {
    let (parent, leaf) = name::split(path).unwrap_or((b"", b""));
    let dir = source.open_dir(parent)?;
    let meta = source.stat(&dir, leaf)?;
    Ok((dir, leaf.to_vec(), meta))
}

/// Returns the kind of the root of a data set.
pub(crate) fn root_kind(source: &Source, root: &[u8]) -> Result<RootKind, SourceError> {
    if let Some(own) = own_within(root) {
        let fault = if own.kind.holds_data() { Unfit::Unfinished } else { Unfit::OwnState };
        return Err(SourceError::Unfit { root: root.to_vec(), fault });
    }
    let (_, _, meta) = look(source, root).map_err(|error| SourceError::root(root, &error))?;
    match meta.kind {
        Kind::Directory => Ok(RootKind::Directory),
        Kind::File | Kind::Symlink | Kind::Fifo | Kind::CharDevice | Kind::BlockDevice => {
            Ok(RootKind::Single)
        }
        Kind::Other => Err(SourceError::Unfit { root: root.to_vec(), fault: Unfit::Socket }),
    }
}

/// Returns the first component of `path` that is an own name.
pub(super) fn own_within(path: &[u8]) -> Option<Own> {
    path.split(|&byte| byte == b'/').find_map(name::own)
}
