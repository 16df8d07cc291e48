//! Paths and names are bytes (promise (j)): any byte but NUL, and `/` only between components.

mod own;

use crate::text;
use crate::wire::DecodeError;

pub use own::{OWN_HASH_BYTES, Own, OwnKind, OwnName, RunTag, STORE_PRIVATE_NAME, own, own_name};

/// Longest name of one directory entry on Linux, in bytes (`NAME_MAX`, limits.h).
pub const NAME_BYTES_MAX: usize = 255;
/// Longest relative path that a page may hold, in bytes. Paths longer than the kernel's 4,096 are
/// walked component by component, so this bounds memory, not depth.
pub const PATH_BYTES_MAX: usize = 64 * 1024;

/// The three bytes that some editors put before a text.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Returns whether `name` can be one directory entry: not empty, not `.` or `..`, no `/`, no NUL,
/// at most 255 bytes.
pub fn is_component(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name != b"."
        && name != b".."
        && !name.iter().any(|byte| matches!(byte, b'/' | 0))
}

/// Checks a relative path of components joined by single `/`; the empty path is the root itself.
///
/// # Errors
/// `Invalid` if it is absolute, holds `.` or `..`, an empty component or a NUL, or is too long:
/// such a path can only come from a hostile or broken manifest (hard case C5).
pub fn check_relative(path: &[u8]) -> Result<(), DecodeError> {
    let sound = path.len() <= PATH_BYTES_MAX
        && (path.is_empty() || path.split(|&byte| byte == b'/').all(is_component));
    if sound { Ok(()) } else { Err(DecodeError::Invalid("path")) }
}

/// Joins two relative paths, either of which may be empty.
pub fn join(parent: &[u8], child: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(parent.len() + child.len() + 1);
    path.extend_from_slice(parent);
    if !parent.is_empty() && !child.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(child);
    path
}

/// Splits a relative path into its parent and its last component; `None` for the empty path.
pub fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.is_empty() {
        return None;
    }
    Some(match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&path[..0], path),
    })
}

/// Writes a path for people and logs: valid UTF-8 as it is; backslashes, other bytes, and
/// characters that steer a terminal or hide ([`text::is_shown`]) as `\n`, `\t`, `\\` or `\xHH`.
/// Unambiguous, never mangled; [`unescape`] reverses it.
pub fn escape(path: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '\\' => out.push_str("\\\\"),
                hidden if !text::is_shown(hidden) => {
                    let mut encoded = [0; 4];
                    for byte in hidden.encode_utf8(&mut encoded).bytes() {
                        let _ = write!(out, "\\x{byte:02x}");
                    }
                }
                plain => out.push(plain),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

/// Returns a path as a line of a list of paths: as [`escape`] writes it, and the empty path as `.`.
/// [`unescape_in_list`] reverses it, up to a path `.`, which is the empty one.
pub fn escape_in_list(path: &[u8]) -> String {
    if path.is_empty() { ".".to_owned() } else { escape(path) }
}

/// Reads a line of a list of paths, written by a program or a person. `\n`, `\t`, `\r`, `\\` and
/// `\xHH` are escapes, as [`escape`] writes them; any other backslash, and bytes that are not
/// UTF-8, are themselves.
pub fn unescape_in_list(line: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some((&byte, behind)) = rest.split_first() {
        let (byte, length) = if byte == b'\\' { escaped(behind) } else { (byte, 1) };
        path.push(byte);
        rest = &rest[length..];
    }
    path
}

/// Returns the byte that a backslash and the following bytes denote, and their number.
fn escaped(behind: &[u8]) -> (u8, usize) {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    match behind {
        [b'n', ..] => (b'\n', 2),
        [b't', ..] => (b'\t', 2),
        [b'r', ..] => (b'\r', 2),
        [b'\\', ..] => (b'\\', 2),
        [b'x', high, low, ..] => match (digit(*high), digit(*low)) {
            (Some(high), Some(low)) => ((high * 16 + low) as u8, 4),
            _ => (b'\\', 1),
        },
        _ => (b'\\', 1),
    }
}

/// Reads the output of [`escape`]; `None` if an escape is incomplete.
pub fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut path = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            path.push(byte);
            continue;
        }
        path.push(match bytes.next()? {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'\\' => b'\\',
            b'x' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(bytes.next()?)?, digit(bytes.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            _ => return None,
        });
    }
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Promise (i), C5: no relative path of a manifest can name anything outside its root.
    #[test]
    fn c5_paths_that_climb_are_refused() {
        for bad in [&b"/etc"[..], b"a/../b", b"..", b".", b"a//b", b"a/", b"a\0b"] {
            assert!(check_relative(bad).is_err(), "{} must be refused", escape(bad));
        }
        for good in [&b""[..], b"a", b"a/b", b"-rf", b"a\nb", b"\xff\xfe", b"..a", b"..."] {
            assert!(check_relative(good).is_ok(), "{} must be allowed", escape(good));
        }
    }

    /// Promise: a name shows its letters in their order, and marks the hidden ones.
    #[test]
    fn names_do_not_hide_what_they_are() {
        let name = "\u{202e}gnp.exe".as_bytes();
        assert_eq!(escape(name), "\\xe2\\x80\\xaegnp.exe");
        assert_eq!(unescape(&escape(name)).as_deref(), Some(name));
        assert_eq!(unescape_in_list(escape_in_list(name).as_bytes()), name);
    }

    proptest! {
        /// Promise (j): any bytes survive the way to a person's screen or list and back.
        #[test]
        fn escaping_loses_nothing(path in proptest::collection::vec(any::<u8>(), 0..64)) {
            let text = escape(&path);
            prop_assert!(text.chars().all(crate::text::is_shown));
            prop_assert_eq!(unescape(&text), Some(path));
        }

        /// Promise (j): for any name that has failed, its line in a list of failures is read as
        /// that name, and is no other list's byte order mark.
        #[test]
        fn lines_of_lists_lose_nothing(path in proptest::collection::vec(
            prop_oneof![any::<u8>(), Just(b'\\'), Just(b'x'), Just(b'n'), Just(b' '), Just(b'#')],
            1..64,
        ), marked in any::<bool>()) {
            let path = if marked { [BYTE_ORDER_MARK, &path].concat() } else { path };
            let line = escape_in_list(&path);
            prop_assert!(!line.contains(['\n', '\r']) && !line.is_empty());
            prop_assert!(!line.as_bytes().starts_with(BYTE_ORDER_MARK));
            prop_assert_eq!(unescape_in_list(line.as_bytes()), path);
        }
    }
}
