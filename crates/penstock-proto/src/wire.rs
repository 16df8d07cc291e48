//! Little-endian encoding shared by frames, pages and journal records.
//!
//! A [`Writer`] appends to a byte vector; a [`Reader`] consumes a slice and fails with
//! [`DecodeError`] instead of reading past its end. Lengths from outside are checked against the
//! remaining bytes *before* memory is allocated for them.

/// Error: bytes could not be decoded. The text names the field, so that a log line alone is enough
/// to find the place in `docs/protocol.md`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes ended inside the named field.
    #[error("message ended inside `{0}`")]
    Truncated(&'static str),
    /// The named field holds a value that the protocol does not allow.
    #[error("`{0}` holds a value that is not allowed")]
    Invalid(&'static str),
    /// A checksum over the record did not match.
    #[error("checksum of `{0}` does not match")]
    Checksum(&'static str),
    /// The record is sound, and this build does not know it: a later build wrote it.
    #[error("`{0}` is of a version that is not known here")]
    Unknown(&'static str),
    /// The message was decoded completely, but bytes follow it.
    #[error("{0} bytes are left over behind the message")]
    TrailingBytes(usize),
}

/// Appends little-endian fields to a byte vector.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// Returns a writer over an empty vector.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a writer that appends to `bytes`; its capacity is kept.
    pub fn over(bytes: Vec<u8>) -> Self {
        Self { bytes }
    }

    /// Returns the bytes written so far.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the number of bytes in the vector.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Appends two bytes.
    pub fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends four bytes.
    pub fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends eight bytes, two's complement.
    pub fn i64(&mut self, value: i64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends raw bytes; their number must follow from the message.
    pub fn raw(&mut self, value: &[u8]) {
        self.bytes.extend_from_slice(value);
    }

    /// Appends a 32-bit length and the bytes.
    ///
    /// # Panics
    /// If `value` is longer than 4 GiB, which no message of ours holds.
    pub fn bytes(&mut self, value: &[u8]) {
        self.u32(u32::try_from(value.len()).expect("a field is under 4 GiB"));
        self.raw(value);
    }
}

/// Consumes little-endian fields from a slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Returns a reader over all of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns the number of remaining bytes.
    pub fn remaining(&self) -> usize {
        self.bytes.len()
    }

    /// Takes `length` raw bytes.
    pub fn raw(&mut self, length: usize, field: &'static str) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) =
            self.bytes.split_at_checked(length).ok_or(DecodeError::Truncated(field))?;
        self.bytes = rest;
        Ok(taken)
    }

    /// Takes an array of known size.
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], DecodeError> {
        let (taken, rest) =
            self.bytes.split_first_chunk::<N>().ok_or(DecodeError::Truncated(field))?;
        self.bytes = rest;
        Ok(*taken)
    }

    /// Takes one byte.
    pub fn u8(&mut self, field: &'static str) -> Result<u8, DecodeError> {
        self.array::<1>(field).map(|[byte]| byte)
    }

    /// Takes two bytes.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, DecodeError> {
        self.array(field).map(u16::from_le_bytes)
    }

    /// Takes four bytes.
    pub fn u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        self.array(field).map(u32::from_le_bytes)
    }

    /// Takes eight bytes.
    pub fn u64(&mut self, field: &'static str) -> Result<u64, DecodeError> {
        self.array(field).map(u64::from_le_bytes)
    }

    /// Takes eight bytes, two's complement.
    pub fn i64(&mut self, field: &'static str) -> Result<i64, DecodeError> {
        self.array(field).map(i64::from_le_bytes)
    }

    /// Takes a 32-bit length, at most `length_max`, and that many bytes.
    pub fn bytes(
        &mut self,
        length_max: usize,
        field: &'static str,
    ) -> Result<&'a [u8], DecodeError> {
        let length = self.u32(field)? as usize;
        if length > length_max {
            return Err(DecodeError::Invalid(field));
        }
        self.raw(length, field)
    }

    /// Takes UTF-8 text with a 32-bit length, at most `length_max` bytes.
    pub fn text(&mut self, length_max: usize, field: &'static str) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes(length_max, field)?).map_err(|_| DecodeError::Invalid(field))
    }

    /// Fails if bytes remain.
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.bytes.len() {
            0 => Ok(()),
            left => Err(DecodeError::TrailingBytes(left)),
        }
    }
}
