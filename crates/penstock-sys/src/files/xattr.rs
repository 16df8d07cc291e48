//! Lists of extended attributes by directory and name, in one call.

use std::ffi::CString;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

/// The number of `listxattrat`, the same on all architectures (Linux 6.13,
/// include/uapi/asm-generic/unistd.h); libc has no name for it yet.
const LISTXATTRAT: libc::c_long = 465;

/// Set once the kernel, or a container's filter, has answered that there is no such call.
static MISSING: AtomicBool = AtomicBool::new(false);

/// Writes the names of the extended attributes of `name` in `dir` to `list`, each with a NUL behind
/// it, and returns their length. The empty name is `dir` itself. Links are not followed. `None`
/// where the system has no such call (before Linux 6.13): the caller then asks by a path.
///
/// A look-up by a path below `/proc/self/fd` costs 4 µs on the machine of docs/design/0008, this
/// less than one.
///
/// # Errors
/// Those of listxattr(2); `ERANGE` if `list` is too short.
pub fn list_xattrs_at(
    dir: BorrowedFd<'_>,
    name: &[u8],
    list: &mut [u8],
) -> Option<Result<usize, Errno>> {
    if MISSING.load(Ordering::Relaxed) {
        return None;
    }
    let Ok(name) = CString::new(name) else { return Some(Err(Errno::INVAL)) };
    let flags = libc::AT_SYMLINK_NOFOLLOW | if name.is_empty() { libc::AT_EMPTY_PATH } else { 0 };
    // SAFETY: `dir` and `name` live for the call, and the kernel writes at most `list.len()` bytes
    // to `list`. The arguments are those of linux/syscalls.h: int, const char *, unsigned, char *,
    // size_t.
    let told = unsafe {
        libc::syscall(
            LISTXATTRAT,
            dir.as_raw_fd(),
            name.as_ptr(),
            flags,
            list.as_mut_ptr(),
            list.len(),
        )
    };
    match usize::try_from(told) {
        Ok(length) => Some(Ok(length)),
        Err(_) => match Errno::from_io_error(&std::io::Error::last_os_error()) {
            // Filters that do not know a call answer EPERM; listing itself never does.
            Some(Errno::NOSYS | Errno::PERM) => {
                MISSING.store(true, Ordering::Relaxed);
                None
            }
            errno => Some(Err(errno.unwrap_or(Errno::IO))),
        },
    }
}

#[cfg(test)]
// The output of the test says which part was skipped.
#[allow(clippy::print_stderr)]
mod tests {
    use super::*;
    use rustix::fs::{XattrFlags, setxattr};
    use std::os::fd::AsFd as _;

    /// Promise: the new call, where there is one, lists the same as the old one: attributes of a
    /// file, of the directory itself, and of a link rather than of its target.
    #[test]
    fn names_are_listed_as_by_the_older_call() {
        let base = tempfile::tempdir().unwrap();
        let file = base.path().join("file");
        std::fs::write(&file, b"x").unwrap();
        std::os::unix::fs::symlink("file", base.path().join("link")).unwrap();
        if setxattr(&file, "user.one", b"1", XattrFlags::empty()).is_err() {
            eprintln!("SKIPPED: no extended attributes in {}", base.path().display());
            return;
        }
        setxattr(base.path(), "user.two", b"2", XattrFlags::empty()).unwrap();
        let dir = std::fs::File::open(base.path()).unwrap();
        let listed = |name: &[u8]| {
            let mut list = [0; 256];
            let told = list_xattrs_at(dir.as_fd(), name, &mut list)?;
            Some(list[..told.unwrap()].to_vec())
        };
        let Some(of_file) = listed(b"file") else {
            eprintln!("SKIPPED: this kernel has no listxattrat");
            return;
        };
        let has = |list: &[u8], name: &[u8]| list.split(|byte| *byte == 0).any(|key| key == name);
        assert!(has(&of_file, b"user.one"));
        let of_dir = listed(b"").unwrap();
        assert!(has(&of_dir, b"user.two") && !has(&of_dir, b"user.one"));
        assert!(!has(&listed(b"link").unwrap(), b"user.one"));
        let missing = list_xattrs_at(dir.as_fd(), b"none", &mut [0; 8]).unwrap();
        assert_eq!(missing, Err(Errno::NOENT));
        assert_eq!(list_xattrs_at(dir.as_fd(), b"file", &mut [0; 2]), Some(Err(Errno::RANGE)));
    }
}
