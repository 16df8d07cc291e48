//! The names of each file with several (B6): a table on disk, so that memory does not grow with
//! them.
//!
//! The key is the device number and the inode, as this host sees them now. It is never stored
//! beyond the scan, because another host or another boot numbers devices differently. A file leaves
//! the table when all its names were seen. A table that a crash leaves is discarded: a resumed scan
//! fills the table again from its sealed pages.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use penstock_store::Meta;
use rusqlite::{Connection, OptionalExtension as _, params};

/// Memory that the table may use, in KiB; the rest is on disk.
const CACHE_KIB: i64 = 8 * 1024;

/// The table.
pub(super) struct LinkTable {
    connection: Connection,
    path: PathBuf,
}

impl LinkTable {
    /// Creates an empty table at `path`.
    pub(super) fn open(path: &Path) -> rusqlite::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(rusqlite::Error::InvalidPath(path.to_owned()));
            }
            _ => {}
        }
        let connection = Connection::open(path)?;
        // The database need not survive a crash: no journal, no sync, one transaction that never
        // ends. Content beyond the cache is spilled to the file.
        connection.pragma_update(None, "journal_mode", "off")?;
        connection.pragma_update(None, "synchronous", "off")?;
        connection.pragma_update(None, "locking_mode", "exclusive")?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.execute_batch(
            "CREATE TABLE link (device INTEGER, inode INTEGER, size INTEGER, seconds INTEGER,
                 nanoseconds INTEGER, seen INTEGER, path BLOB, PRIMARY KEY (device, inode))
                 WITHOUT ROWID;
             BEGIN",
        )?;
        Ok(Self { connection, path: path.to_owned() })
    }

    /// Notes a name of a file that has several. Returns the path of its first name, if this is not
    /// it. An inode with another size or time is another file than the noted one: the number was
    /// reused, or the file is being written.
    pub(super) fn note(&mut self, meta: &Meta, path: &[u8]) -> rusqlite::Result<Option<Vec<u8>>> {
        let (device, inode) = (meta.device.cast_signed(), meta.inode.cast_signed());
        let version =
            (meta.size.cast_signed(), meta.mtime.seconds, i64::from(meta.mtime.nanoseconds));
        let known = self
            .connection
            .prepare_cached(
                "SELECT path, seen, size, seconds, nanoseconds FROM link
                 WHERE device = ?1 AND inode = ?2",
            )?
            .query_row(params![device, inode], |row| {
                let version: (i64, i64, i64) = (row.get(2)?, row.get(3)?, row.get(4)?);
                Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, u32>(1)?, version))
            })
            .optional()?;
        match known {
            Some((primary, seen, found)) if found == version && primary != path => {
                if seen + 1 >= meta.links {
                    self.connection
                        .prepare_cached("DELETE FROM link WHERE device = ?1 AND inode = ?2")?
                        .execute(params![device, inode])?;
                } else {
                    self.connection
                        .prepare_cached(
                            "UPDATE link SET seen = seen + 1 WHERE device = ?1 AND inode = ?2",
                        )?
                        .execute(params![device, inode])?;
                }
                Ok(Some(primary))
            }
            _ => {
                self.connection
                    .prepare_cached(
                        "INSERT OR REPLACE INTO link VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6)",
                    )?
                    .execute(params![device, inode, version.0, version.1, version.2, path])?;
                Ok(None)
            }
        }
    }

    #[cfg(test)]
    fn len(&self) -> i64 {
        self.connection.query_row("SELECT count(*) FROM link", [], |row| row.get(0)).unwrap()
    }
}

impl Drop for LinkTable {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_proto::attributes::{DeviceNumber, Owner};
    use penstock_proto::units::FileTime;
    use penstock_store::Kind;

    fn meta(device: u64, inode: u64, links: u32) -> Meta {
        Meta {
            kind: Kind::File,
            size: 5,
            mode: 0o644,
            owner: Owner::default(),
            special: DeviceNumber::default(),
            mtime: FileTime::default(),
            ctime: FileTime::default(),
            inode,
            blocks: 8,
            links,
            device,
            made: false,
        }
    }

    /// B6: names of one inode are one group. A reused number, or the same number on another disk,
    /// is another group. A group whose names were all seen uses no more room.
    #[test]
    fn b6_a_group_is_kept_until_all_its_names_were_seen() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("links");
        fs::write(&path, "left by a crash").unwrap();
        let mut table = LinkTable::open(&path).unwrap();
        let mut note = |meta: &Meta, path: &str| {
            let primary = table.note(meta, path.as_bytes()).unwrap();
            (primary.map(|path| String::from_utf8(path).unwrap()), table.len())
        };
        let (file, other) = (meta(1, u64::MAX, 3), meta(2, u64::MAX, 2));
        assert_eq!(note(&file, "a"), (None, 1));
        assert_eq!(note(&other, "b"), (None, 2), "another disk");
        assert_eq!(note(&file, "c"), (Some("a".to_owned()), 2));
        assert_eq!(note(&file, "d"), (Some("a".to_owned()), 1), "all were seen");
        assert_eq!(note(&Meta { size: 6, ..other }, "e"), (None, 1), "the number was used again");
        assert_eq!(note(&Meta { size: 6, ..other }, "f"), (Some("e".to_owned()), 0));
        drop(table);
        assert!(!path.exists());
    }
}
