//! The places of replaced and deleted entries that are kept (`--backup-dir`).

use penstock_proto::name;

/// Returns the place for the old version of an entry: the same path below the backup directory.
pub(crate) fn backup_path(root: &[u8], backup: &[u8], path: &[u8]) -> Vec<u8> {
    name::join(&name::join(root, backup), path)
}
