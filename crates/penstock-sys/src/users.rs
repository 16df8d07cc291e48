//! Names of users and groups, as the host's name service knows them.

use std::ffi::{CStr, CString};
use std::io;

/// First size of the memory that holds one record, in bytes; doubled while it does not do.
const RECORD_BYTES: usize = 1024;
/// Most bytes of one record: a group with very many members.
const RECORD_BYTES_MAX: usize = 1024 * 1024;

/// The name of a user. Blocks: the name service may ask a server.
pub fn user_name(uid: u32) -> Option<Vec<u8>> {
    record(|entry: &mut libc::passwd, memory, found| {
        // SAFETY: `entry`, `memory` and `found` are valid for the call, `memory.len()` is its true
        // length (getpwuid_r(3)); covered by `numbers_and_names_agree`.
        unsafe { libc::getpwuid_r(uid, entry, memory.as_mut_ptr().cast(), memory.len(), found) }
    })
    .map(|(entry, _memory)| name_of(entry.pw_name))
}

/// The number of a user. Blocks: the name service may ask a server.
pub fn user_number(name: &[u8]) -> Option<u32> {
    user_numbers(name).map(|(user, _)| user)
}

/// The numbers of a user and of its primary group. Blocks: the name service may ask a server.
pub fn user_numbers(name: &[u8]) -> Option<(u32, u32)> {
    match look_up_user(name) {
        Lookup::Found(numbers) => Some(numbers),
        Lookup::Missing | Lookup::Failed(_) => None,
    }
}

/// The name of a group. Blocks: the name service may ask a server.
pub fn group_name(gid: u32) -> Option<Vec<u8>> {
    record(|entry: &mut libc::group, memory, found| {
        // SAFETY: as in `user_name` (getgrgid_r(3)).
        unsafe { libc::getgrgid_r(gid, entry, memory.as_mut_ptr().cast(), memory.len(), found) }
    })
    .map(|(entry, _memory)| name_of(entry.gr_name))
}

/// The number of a group. Blocks: the name service may ask a server.
pub fn group_number(name: &[u8]) -> Option<u32> {
    let name = CString::new(name).ok()?;
    record(|entry: &mut libc::group, memory, found| {
        // SAFETY: as in `look_up_user` (getgrnam_r(3)).
        unsafe {
            let memory_start = memory.as_mut_ptr().cast();
            libc::getgrnam_r(name.as_ptr(), entry, memory_start, memory.len(), found)
        }
    })
    .map(|(entry, _memory)| entry.gr_gid)
}

/// The result of a search for a user.
pub(crate) enum Lookup {
    /// Its number, and that of its main group.
    Found((u32, u32)),
    Missing,
    /// The name service failed, so that nothing is known.
    Failed(io::Error),
}

/// Searches for a user by name. Blocks: the name service may ask a server.
pub(crate) fn look_up_user(name: &[u8]) -> Lookup {
    let Ok(name) = CString::new(name) else { return Lookup::Missing };
    let found = search(|entry: &mut libc::passwd, memory, found| {
        // SAFETY: as in `user_name`; `name` ends with a NUL (getpwnam_r(3)).
        unsafe {
            let memory_start = memory.as_mut_ptr().cast();
            libc::getpwnam_r(name.as_ptr(), entry, memory_start, memory.len(), found)
        }
    });
    match found {
        Ok(Some((entry, _memory))) => Lookup::Found((entry.pw_uid, entry.pw_gid)),
        Ok(None) => Lookup::Missing,
        Err(error) => Lookup::Failed(error),
    }
}

/// Returns the record as [`search`] does; a failed search finds none.
fn record<T>(
    ask: impl FnMut(&mut T, &mut [u8], *mut *mut T) -> libc::c_int,
) -> Option<(T, Vec<u8>)> {
    search(ask).ok().flatten()
}

/// Calls one of the `_r` functions with more memory until it suffices. Returns the record and the
/// memory that its texts lie in; `None` if there is no record.
///
/// # Errors
/// Those of getpwnam_r(3): the name service cannot be asked now.
fn search<T>(
    mut ask: impl FnMut(&mut T, &mut [u8], *mut *mut T) -> libc::c_int,
) -> io::Result<Option<(T, Vec<u8>)>> {
    let mut memory = vec![0; RECORD_BYTES];
    loop {
        // SAFETY: `passwd` and `group` are plain structures of numbers and pointers, for which all
        // zeros is a value; the call fills them in.
        let mut entry: T = unsafe { std::mem::zeroed() };
        let mut found: *mut T = std::ptr::null_mut();
        match ask(&mut entry, &mut memory, &mut found) {
            0 if !found.is_null() => return Ok(Some((entry, memory))),
            // Some services say so of a name that they do not know (getpwnam_r(3), notes).
            0 | libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            libc::EINTR => {}
            libc::ERANGE if memory.len() < RECORD_BYTES_MAX => memory.resize(memory.len() * 2, 0),
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

fn name_of(text: *const libc::c_char) -> Vec<u8> {
    if text.is_null() {
        return Vec::new();
    }
    // SAFETY: the name of a record that was found is a string with a NUL, in memory that the caller
    // still holds.
    unsafe { CStr::from_ptr(text) }.to_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (D7): an owner is mapped by name, both ways alike, and one that is not known is not
    /// guessed.
    #[test]
    fn numbers_and_names_agree() {
        assert_eq!(user_name(0).as_deref(), Some(&b"root"[..]));
        assert_eq!(user_number(b"root"), Some(0));
        let group = group_name(0).unwrap();
        assert_eq!(group_number(&group), Some(0));
        assert_eq!((user_name(0xffff_fff0), group_name(0xffff_fff0)), (None, None));
        assert_eq!((user_number(b"no such user"), group_number(b"a\0b")), (None, None));
    }
}
