//! Users and groups of the host, as its name service knows them.

use std::ffi::{CStr, CString};
use std::io;

/// First size of the memory that holds one record, in bytes; doubled while it does not do.
const RECORD_BYTES: usize = 1024;
/// Most bytes of one record: a group with very many members.
const RECORD_BYTES_MAX: usize = 1024 * 1024;
/// Groups of one user that the kernel takes (`NGROUPS_MAX`, linux/limits.h).
const GROUPS_MAX: usize = 65_536;

/// A user of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostUser {
    /// The name.
    pub name: Vec<u8>,
    /// Numbers of all its groups, its main one among them.
    pub groups: Vec<u32>,
}

/// Returns the user of a number with its groups; `None` if the name service knows none. Blocks: the
/// name service may ask a server.
///
/// # Errors
/// Those of getpwuid_r(3) and getgrouplist(3): the name service cannot be asked now.
pub fn host_user(uid: u32) -> io::Result<Option<HostUser>> {
    let Some((entry, _memory)) = user_of_number(uid)? else { return Ok(None) };
    let name = name_of(entry.pw_name);
    let groups = groups_of(&CString::new(name.clone())?, entry.pw_gid)?;
    Ok(Some(HostUser { name, groups }))
}

/// Returns the numbers of a user and of its main group; `None` if the name service knows none of
/// that name. Blocks: the name service may ask a server.
///
/// # Errors
/// Those of getpwnam_r(3): the name service cannot be asked now.
pub fn find_user(name: &[u8]) -> io::Result<Option<(u32, u32)>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    let found = search(|entry: &mut libc::passwd, memory, found| {
        // SAFETY: as in `user_of_number`; `name` ends with a NUL (getpwnam_r(3)).
        unsafe {
            let memory_start = memory.as_mut_ptr().cast();
            libc::getpwnam_r(name.as_ptr(), entry, memory_start, memory.len(), found)
        }
    })?;
    Ok(found.map(|(entry, _memory)| (entry.pw_uid, entry.pw_gid)))
}

/// Returns the number of a group; `None` if the name service knows none of that name. Blocks: the
/// name service may ask a server.
///
/// # Errors
/// Those of getgrnam_r(3): the name service cannot be asked now.
pub fn find_group(name: &[u8]) -> io::Result<Option<u32>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    let found = search(|entry: &mut libc::group, memory, found| {
        // SAFETY: as in `find_user` (getgrnam_r(3)).
        unsafe {
            let memory_start = memory.as_mut_ptr().cast();
            libc::getgrnam_r(name.as_ptr(), entry, memory_start, memory.len(), found)
        }
    })?;
    Ok(found.map(|(entry, _memory)| entry.gr_gid))
}

/// Returns the name of a user. Blocks: the name service may ask a server.
pub fn user_name(uid: u32) -> Option<Vec<u8>> {
    let found = user_of_number(uid).ok().flatten();
    found.map(|(entry, _memory)| name_of(entry.pw_name))
}

fn user_of_number(uid: u32) -> io::Result<Option<(libc::passwd, Vec<u8>)>> {
    search(|entry: &mut libc::passwd, memory, found| {
        // SAFETY: `entry`, `memory` and `found` are valid for the call, `memory.len()` is its true
        // length (getpwuid_r(3)); covered by `numbers_and_names_agree`.
        unsafe { libc::getpwuid_r(uid, entry, memory.as_mut_ptr().cast(), memory.len(), found) }
    })
}

/// Returns the number of a user. Blocks: the name service may ask a server.
pub fn user_number(name: &[u8]) -> Option<u32> {
    user_numbers(name).map(|(user, _)| user)
}

/// Returns the numbers of a user and of its primary group. Blocks: the name service may ask a
/// server.
pub fn user_numbers(name: &[u8]) -> Option<(u32, u32)> {
    find_user(name).ok().flatten()
}

/// Returns the name of a group. Blocks: the name service may ask a server.
pub fn group_name(gid: u32) -> Option<Vec<u8>> {
    let found = search(|entry: &mut libc::group, memory, found| {
        // SAFETY: as in `user_of_number` (getgrgid_r(3)).
        unsafe { libc::getgrgid_r(gid, entry, memory.as_mut_ptr().cast(), memory.len(), found) }
    });
    found.ok().flatten().map(|(entry, _memory)| name_of(entry.gr_name))
}

/// Returns the number of a group. Blocks: the name service may ask a server.
pub fn group_number(name: &[u8]) -> Option<u32> {
    find_group(name).ok().flatten()
}

/// Returns the numbers of all groups of a user, whose main one is `gid`. Blocks: the name service
/// may ask a server.
///
/// # Errors
/// The user has more groups than the kernel accepts.
pub(crate) fn groups_of(name: &CStr, gid: u32) -> io::Result<Vec<u32>> {
    let mut room = 64;
    loop {
        let mut groups: Vec<libc::gid_t> = vec![0; room];
        let mut count = room as libc::c_int;
        // SAFETY: `name` ends with a NUL, and `count` is the number of elements of `groups`
        // (getgrouplist(3)); covered by `a_user_has_its_groups`.
        let filled =
            unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
        let count = usize::try_from(count).unwrap_or(0);
        if filled >= 0 {
            groups.truncate(count);
            return Ok(groups);
        }
        if room >= GROUPS_MAX {
            return Err(io::Error::other("it has more groups than the system takes"));
        }
        room = count.max(room * 2).min(GROUPS_MAX);
    }
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
            // Some services return this error for an unknown name (getpwnam_r(3), notes).
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

    /// Promise: the user of a number has its name and its groups. An unknown number is no user, and
    /// no error.
    #[test]
    fn a_user_has_its_groups() {
        let root = host_user(0).unwrap().unwrap();
        assert_eq!(root.name, b"root");
        assert!(root.groups.contains(&0));
        assert_eq!(host_user(0xffff_fff0).unwrap(), None);
        assert_eq!(find_group(b"no such group").unwrap(), None);
    }
}
