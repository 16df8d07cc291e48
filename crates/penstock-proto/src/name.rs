//! Paths and names are bytes (promise (j)): any byte but NUL, and `/` only between components.

mod own;

use crate::wire::DecodeError;

pub use own::{OWN_HASH_BYTES, Own, OwnKind, OwnName, RunTag, STORE_PRIVATE_NAME, own, own_name};

/// Longest name of one directory entry on Linux, in bytes (`NAME_MAX`, limits.h).
pub const NAME_BYTES_MAX: usize = 255;
/// Longest relative path that a page may hold, in bytes. Paths longer than the kernel's 4,096
/// are walked component by component, so this is a bound on memory, not on depth.
pub const PATH_BYTES_MAX: usize = 64 * 1024;
/// Whether `name` can be one directory entry: not empty, not `.` or `..`, no `/`, no NUL, at most
/// 255 bytes.
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

/// Writes a path for people and logs: valid UTF-8 as it is, control characters, backslashes and
/// other bytes as `\n`, `\t`, `\\` or `\xHH`. Unambiguous, never mangled; [`unescape`] reverses it.
pub fn escape(path: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(path.len());
    for chunk in path.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\n' => text.push_str("\\n"),
                '\t' => text.push_str("\\t"),
                '\r' => text.push_str("\\r"),
                '\\' => text.push_str("\\\\"),
                control if control.is_control() => {
                    let mut encoded = [0; 4];
                    for byte in control.encode_utf8(&mut encoded).bytes() {
                        let _ = write!(text, "\\x{byte:02x}");
                    }
                }
                plain => text.push(plain),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// Reads what [`escape`] wrote; `None` if an escape is not complete.
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

    proptest! {
        /// Promise (j): any bytes survive the way to a person's screen or list and back.
        #[test]
        fn escaping_loses_nothing(path in proptest::collection::vec(any::<u8>(), 0..64)) {
            let text = escape(&path);
            prop_assert!(!text.contains('\n'));
            prop_assert_eq!(unescape(&text), Some(path));
        }
    }
}
