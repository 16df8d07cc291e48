//! Mounts within a directory tree.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, StatxFlags, statx};

/// A file system that is mounted within a tree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MountWithin {
    /// Path of the mount point, relative to the tree's root.
    pub at: PathBuf,
    /// Its type, as the kernel calls it.
    pub kind: String,
}

/// Returns the mounts below `root` in this process's view, in the order of paths. A mount at `root`
/// itself is not among them. Reads `/proc/self/mountinfo` (proc_pid_mountinfo(5)) and resolves
/// `root`; a file system that hangs is not touched otherwise. Without `/proc`, as in some chroot
/// environments, no mount is known, and none is returned.
///
/// # Errors
/// The root is not there, or the table cannot be read.
pub fn mounts_within(root: &Path) -> io::Result<Vec<MountWithin>> {
    let root = root.canonicalize()?;
    match std::fs::read("/proc/self/mountinfo") {
        Ok(table) => Ok(within(&root, &table)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Returns the options of the file system that `file` is on: of the mount and of the file system
/// itself, with commas between. Reads `/proc/self/mountinfo`.
///
/// # Errors
/// `/proc` is not there, or does not list the mount.
pub fn mount_options(file: &std::fs::File) -> io::Result<String> {
    let told = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    let table = std::fs::read_to_string("/proc/self/mountinfo")?;
    let number = told.stx_mnt_id.to_string();
    let mut lines = table.lines();
    let line = lines.find(|line| line.split(' ').next() == Some(&number));
    line.and_then(options_in).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Returns the sixth field, and the last one.
fn options_in(line: &str) -> Option<String> {
    Some([line.split(' ').nth(5)?, line.rsplit(' ').next()?].join(","))
}

fn within(root: &Path, table: &[u8]) -> Vec<MountWithin> {
    let mut found: Vec<_> = table.split(|byte| *byte == b'\n').filter_map(parse).collect();
    found.retain_mut(|mount| match mount.at.strip_prefix(root) {
        Ok(at) if !at.as_os_str().is_empty() => {
            mount.at = at.to_owned();
            true
        }
        _ => false,
    });
    found.sort();
    found.dedup();
    found
}

/// Parses a line. The fifth field is the mount point; the type follows a dash behind optional
/// fields.
fn parse(line: &[u8]) -> Option<MountWithin> {
    let mut fields = line.split(|byte| *byte == b' ');
    let at = PathBuf::from(OsString::from_vec(unescape(fields.nth(4)?)));
    let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
    Some(MountWithin { at, kind: String::from_utf8_lossy(kind).into_owned() })
}

/// Decodes a field, in which blanks, tabs, ends of lines and backslashes are written as `\` and
/// three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(field.len()), field);
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..3).filter(|_| *first == b'\\');
        let octal = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &behind[3..];
            }
            None => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    /// Promise (j), C3: a mount within a store is found under its name, of any bytes. A neighbour
    /// whose name only has the same beginning is no part of the store.
    #[test]
    fn c3_mounts_within_a_tree_are_found() {
        let table = b"22 1 0:1 / / rw - ext4 /dev/vda rw\n\
            30 22 0:2 / /data rw shared:1 - xfs /dev/vdb rw\n\
            31 30 0:3 / /data/b\\040b rw,nosuid shared:2 master:1 - nfs4 a:/b rw\n\
            32 30 0:4 / /data/\\377/x rw - tmpfs - rw\n\
            33 22 0:5 / /data2/c rw - tmpfs tmpfs rw\n\
            damaged\n";
        let mount = |at: &[u8], kind: &str| MountWithin {
            at: PathBuf::from(OsString::from_vec(at.to_vec())),
            kind: kind.to_owned(),
        };
        let expected = vec![mount(b"b b", "nfs4"), mount(b"\xff/x", "tmpfs")];
        assert_eq!(within(Path::new("/data"), table), expected);
        assert_eq!(within(Path::new("/"), table).len(), 4);
        assert_eq!(expected[0].at.as_os_str().as_bytes(), b"b b");
    }

    /// Promise (A8): the options that show whether a server keeps locks are found.
    #[test]
    fn a8_options_of_a_mount_are_found() {
        let line = "31 30 0:3 / /h rw,nosuid shared:2 - nfs4 a:/b rw,vers=4.2,local_lock=none";
        let options = options_in(line).unwrap();
        assert!(options.split(',').any(|option| option == "local_lock=none"));
        assert!(options.starts_with("rw,nosuid,"));
        mount_options(&std::fs::File::open("/").unwrap()).unwrap();
    }

    /// Promise: the table of this very host can be read.
    #[test]
    fn this_hosts_mounts_are_found() {
        let found = mounts_within(Path::new("/")).unwrap();
        assert!(found.iter().any(|mount| mount.at == Path::new("proc") && mount.kind == "proc"));
    }
}
