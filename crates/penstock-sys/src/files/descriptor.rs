//! Closing a descriptor and reading the result, which dropping it does not.

use std::io;
use std::os::fd::{IntoRawFd as _, OwnedFd};

/// Closes `fd` and returns the result of close(2): NFS and quotas report lost writes there. Blocks
/// while the file system writes them.
///
/// # Errors
/// Those of close(2). The descriptor is closed in any case.
pub fn close_file(fd: OwnedFd) -> io::Result<()> {
    // SAFETY: the descriptor was owned by `fd`, which released it. It is closed once, here, in any
    // case (Linux frees the number even on an error).
    match unsafe { libc::close(fd.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
