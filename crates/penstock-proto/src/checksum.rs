//! Checksums of whole files in the formats of catalogues and other tools, and the lists that hold
//! them.
//!
//! A list has a line for each file, in one of two forms. A name that holds a backslash or a line
//! break is escaped (`\\`, `\n`, `\r`), and its line then begins with a backslash:
//! ```text
//! d3b07384d113edec49eaa6238ad5ff00  name            md5sum, sha256sum, b3sum, xxhsum
//! SHA256 (name) = b5bb9d8014a0f9b1…                 the same with --tag, and the BSDs
//! ```
//! The first form does not say which checksum it holds: its length allows one to three kinds, see
//! [`ChecksumKind::candidates`]. This module does not hash; `penstock_store::checksum` does.
//!
//! Sources: coreutils 9.1, `src/digest.c` (`split_3`, `filename_unescape`); b3sum 1.2, `main.rs`;
//! xxhsum(1).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::name;

/// A checksum of a whole file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ChecksumKind {
    /// BLAKE3, 256 bits.
    Blake3,
    /// SHA-256.
    Sha256,
    /// SHA-512.
    Sha512,
    /// SHA-1: broken against attackers, kept for catalogues that have nothing else.
    Sha1,
    /// MD5: broken against attackers, kept for catalogues that have nothing else.
    Md5,
    /// XXH3, 128 bits: against accidents.
    Xxh128,
    /// XXH3, 64 bits: against accidents.
    Xxh3,
    /// XXH64: against accidents.
    Xxh64,
    /// CRC-32 of IEEE 802.3, as in zip and gzip: against accidents.
    Crc32,
    /// CRC-32C (Castagnoli), as in iSCSI and Google's stores: against accidents.
    Crc32c,
    /// Adler-32, as in zlib and most catalogues of physics: against accidents, weak for files
    /// below some hundred bytes.
    Adler32,
}

impl ChecksumKind {
    /// Every kind, strongest first.
    pub const ALL: [Self; 11] = [
        Self::Blake3,
        Self::Sha256,
        Self::Sha512,
        Self::Sha1,
        Self::Md5,
        Self::Xxh128,
        Self::Xxh3,
        Self::Xxh64,
        Self::Crc32,
        Self::Crc32c,
        Self::Adler32,
    ];

    /// Returns its name in options, JSON and the endings of lists.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Blake3 => "blake3",
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
            Self::Sha1 => "sha1",
            Self::Md5 => "md5",
            Self::Xxh128 => "xxh128",
            Self::Xxh3 => "xxh3",
            Self::Xxh64 => "xxh64",
            Self::Crc32 => "crc32",
            Self::Crc32c => "crc32c",
            Self::Adler32 => "adler32",
        }
    }

    /// Returns the bytes of its value; a list holds two digits for each.
    pub fn value_bytes(self) -> usize {
        match self {
            Self::Sha512 => 64,
            Self::Blake3 | Self::Sha256 => 32,
            Self::Sha1 => 20,
            Self::Md5 | Self::Xxh128 => 16,
            Self::Xxh3 | Self::Xxh64 => 8,
            Self::Crc32 | Self::Crc32c | Self::Adler32 => 4,
        }
    }

    /// Returns whether no other file with the same checksum can be made, as far as is known.
    pub fn withstands_attackers(self) -> bool {
        matches!(self, Self::Blake3 | Self::Sha256 | Self::Sha512)
    }

    /// Returns the kinds that a value of this length can be, likeliest first; none if no kind has
    /// that length.
    pub fn candidates(value_bytes: usize) -> Vec<Self> {
        Self::ALL.into_iter().filter(|kind| kind.value_bytes() == value_bytes).collect()
    }

    /// Returns the kind that a tag of the BSD form names; `None` for an unknown tag.
    fn of_tag(tag: &[u8]) -> Option<Self> {
        Some(match tag {
            b"BLAKE3" => Self::Blake3,
            b"SHA256" | b"SHA2-256" => Self::Sha256,
            b"SHA512" | b"SHA2-512" => Self::Sha512,
            b"SHA1" => Self::Sha1,
            b"MD5" => Self::Md5,
            b"XXH128" | b"XXH3_128" => Self::Xxh128,
            b"XXH3" | b"XXH3_64" => Self::Xxh3,
            b"XXH64" => Self::Xxh64,
            b"CRC32" | b"CRC32B" => Self::Crc32,
            b"CRC32C" => Self::Crc32c,
            b"ADLER32" => Self::Adler32,
            _ => return None,
        })
    }
}

impl fmt::Display for ChecksumKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Error: no checksum has that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not one of blake3, sha256, sha512, sha1, md5, xxh128, xxh3, xxh64, crc32, crc32c, \
     adler32"
)]
pub struct UnknownChecksum(String);

impl FromStr for ChecksumKind {
    type Err = UnknownChecksum;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "b3" => return Ok(Self::Blake3),
            "xxh3-128" => return Ok(Self::Xxh128),
            _ => {}
        }
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == text)
            .ok_or_else(|| UnknownChecksum(text.to_owned()))
    }
}

/// The checksum of one file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    /// Kind.
    pub kind: ChecksumKind,
    value: [u8; 64],
}

impl Checksum {
    /// Returns a checksum of `kind`.
    ///
    /// # Panics
    /// If `value` has not the length of its kind: values of lists are checked when they are read.
    pub fn new(kind: ChecksumKind, value: &[u8]) -> Self {
        assert_eq!(value.len(), kind.value_bytes(), "a value of its kind");
        let mut padded = [0; 64];
        padded[..value.len()].copy_from_slice(value);
        Self { kind, value: padded }
    }

    /// Returns its value, most significant byte first.
    pub fn value(&self) -> &[u8] {
        &self.value[..self.kind.value_bytes()]
    }

    /// Returns its value as lists write it: hexadecimal, for XXH3 after `XXH3_`, as `xxhsum` does.
    pub fn to_text(self) -> String {
        let digits = data_encoding::HEXLOWER.encode(self.value());
        if self.kind == ChecksumKind::Xxh3 { format!("XXH3_{digits}") } else { digits }
    }
}

impl fmt::Debug for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.to_text())
    }
}

/// A line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListLine {
    /// Kind of the checksum, if the line names it.
    pub kind: Option<ChecksumKind>,
    /// Its value.
    pub value: Vec<u8>,
    /// The file's name as it was given: a path of any bytes.
    pub name: Vec<u8>,
}

/// Error: a line of a list cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line has neither form.
    #[error("it is neither `CHECKSUM  NAME` nor `KIND (NAME) = CHECKSUM`")]
    Form,
    /// The tag names an unknown checksum.
    #[error("`{0}` is a checksum that is not known here")]
    Kind(String),
    /// The value has not the length of its kind, or of any kind.
    #[error("no checksum that is known here has {0} hexadecimal digits")]
    Length(usize),
}

/// Reads one line of a list, without its line break; a byte order mark before it is ignored. `None`
/// for an empty line and for a comment (`#`).
///
/// # Errors
/// [`LineError`] for text that is not a line of a list.
pub fn parse_line(line: &[u8]) -> Result<Option<ListLine>, LineError> {
    let line = line.strip_prefix(name::BYTE_ORDER_MARK).unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.is_empty() || line.starts_with(b"#") {
        return Ok(None);
    }
    let (escaped, line) = match line.strip_prefix(b"\\") {
        Some(rest) => (true, rest),
        None => (false, line),
    };
    let (kind, digits, name) = match split_plain(line) {
        Some((kind, digits, name)) => (kind, digits, name),
        None => split_tagged(line)?,
    };
    let name = if escaped { unescape(name).ok_or(LineError::Form)? } else { name.to_vec() };
    let value = data_encoding::HEXLOWER_PERMISSIVE.decode(digits).map_err(|_| LineError::Form)?;
    let fits = match kind {
        Some(kind) => kind.value_bytes() == value.len(),
        None => !ChecksumKind::candidates(value.len()).is_empty(),
    };
    if !fits {
        return Err(LineError::Length(digits.len()));
    }
    if name.is_empty() {
        return Err(LineError::Form);
    }
    Ok(Some(ListLine { kind, value, name }))
}

type Parts<'a> = (Option<ChecksumKind>, &'a [u8], &'a [u8]);

/// Splits a line `DIGITS  NAME` or `DIGITS *NAME`.
fn split_plain(line: &[u8]) -> Option<Parts<'_>> {
    let (kind, line) = match line.strip_prefix(b"XXH3_") {
        Some(rest) => (Some(ChecksumKind::Xxh3), rest),
        None => (None, line),
    };
    let end = line.iter().position(|byte| !byte.is_ascii_hexdigit())?;
    let name = line[end..].strip_prefix(b"  ").or_else(|| line[end..].strip_prefix(b" *"))?;
    (end > 0).then_some((kind, &line[..end], name))
}

/// Splits a line `KIND (NAME) = DIGITS`.
fn split_tagged(line: &[u8]) -> Result<Parts<'_>, LineError> {
    let open = find(line, b" (").ok_or(LineError::Form)?;
    let close = line.windows(4).rposition(|part| part == b") = ").ok_or(LineError::Form)?;
    if close < open + 2 {
        return Err(LineError::Form);
    }
    let (tag, name, digits) = (&line[..open], &line[open + 2..close], &line[close + 4..]);
    let digits = digits.strip_prefix(b"XXH3_").unwrap_or(digits);
    let unknown = || LineError::Kind(String::from_utf8_lossy(tag).into_owned());
    Ok((Some(ChecksumKind::of_tag(tag).ok_or_else(unknown)?), digits, name))
}

fn find(line: &[u8], part: &[u8]) -> Option<usize> {
    line.windows(part.len()).position(|window| window == part)
}

fn unescape(name: &[u8]) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(name.len());
    let mut bytes = name.iter();
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next()? {
                b'\\' => b'\\',
                b'n' => b'\n',
                b'r' => b'\r',
                _ => return None,
            },
            other => *other,
        });
    }
    Some(plain)
}

/// Returns one line of a list, with its line break, as `b3sum`, coreutils and `xxhsum` write and
/// check it.
pub fn format_line(checksum: &str, name: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(checksum.len() + name.len() + 4);
    let special = name.iter().any(|byte| matches!(byte, b'\\' | b'\n' | b'\r'));
    if special {
        line.push(b'\\');
    }
    line.extend_from_slice(checksum.as_bytes());
    line.extend_from_slice(b"  ");
    for byte in name {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\n' => line.extend_from_slice(b"\\n"),
            b'\r' => line.extend_from_slice(b"\\r"),
            plain => line.push(*plain),
        }
    }
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";

    /// Promise: lists that other tools wrote are read as these tools mean them.
    #[test]
    fn lines_of_other_tools_are_read() {
        let sha = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb";
        for (text, kind, name) in [
            (format!("{MD5}  a b"), None, "a b"),
            (format!("{MD5} *binary"), None, "binary"),
            (format!("{}  A", MD5.to_uppercase()), None, "A"),
            (format!("\\{MD5}  n\\nl\\\\\\r"), None, "n\nl\\\r"),
            (format!("{MD5}  not\\nescaped"), None, "not\\nescaped"),
            (format!("{MD5}   leading space"), None, " leading space"),
            (format!("SHA256 (a) = {sha}"), Some(ChecksumKind::Sha256), "a"),
            (format!("\\SHA256 (n\\nl) = {sha}"), Some(ChecksumKind::Sha256), "n\nl"),
            (format!("MD5 (a) = b (c) = {MD5}"), Some(ChecksumKind::Md5), "a) = b (c"),
            ("XXH3_e6c632b61e964e1f  a".to_owned(), Some(ChecksumKind::Xxh3), "a"),
            ("0123abcd  a\r".to_owned(), None, "a"),
        ] {
            let line = parse_line(text.as_bytes()).unwrap().unwrap();
            assert_eq!((line.kind, line.name.as_slice()), (kind, name.as_bytes()), "{text}");
        }
        assert_eq!(parse_line(b""), Ok(None));
        assert_eq!(parse_line(b"# comment"), Ok(None));
    }

    /// Promise: a text that is no line of a list is reported, not guessed at.
    #[test]
    fn other_lines_are_refused() {
        for bad in ["hello", "abc  a", "d41d8cd98f  a", &format!("{MD5}  "), &format!("{MD5} a")] {
            assert!(parse_line(bad.as_bytes()).is_err(), "{bad}");
        }
        let short = format!("SHA256 (a) = {MD5}");
        assert_eq!(parse_line(short.as_bytes()), Err(LineError::Length(32)));
        let unknown = format!("WHIRLPOOL (a) = {MD5}");
        assert_eq!(parse_line(unknown.as_bytes()), Err(LineError::Kind("WHIRLPOOL".to_owned())));
    }

    proptest! {
        /// Promise (j): any name survives being listed.
        #[test]
        fn any_name_survives_a_list(name in proptest::collection::vec(any::<u8>(), 1..40)) {
            let line = format_line(MD5, &name);
            prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            let read = parse_line(&line[..line.len() - 1]).unwrap().unwrap();
            prop_assert_eq!(read.name, name);
        }

        /// Hostile lists end in an error, never a panic.
        #[test]
        fn any_line_is_borne(line in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = parse_line(&line);
        }
    }
}
