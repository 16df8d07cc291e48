//! Sealing and opening of records, by the library that is faster on this CPU.
//!
//! Penstock uses aws-lc-rs for all work with keys, except for this one step, which is done to every
//! byte. aws-lc seals AES-GCM with AVX-512 where a CPU has it. Elsewhere it uses the AES
//! instructions of 2010, 16 bytes at a time. CPUs with VAES and VPCLMULQDQ but without AVX-512 take
//! 32 bytes at a time: AMD Zen 3, Intel's client CPUs since Alder Lake, many virtual machines. ring
//! has the code for that, at half the cost there, the copy that its interface requires included
//! (docs/design/0039). The bytes on the wire are the same.
//!
//! Nothing here blocks; only making a key allocates.

use aws_lc_rs::aead as aws;
use penstock_sys::Wiped;
use ring::aead as ring;

/// Bytes of a nonce, of all three ciphers (RFC 5116, RFC 8439).
pub const NONCE_BYTES: usize = 12;
/// Bytes of a tag, of all three ciphers.
pub const TAG_BYTES: usize = 16;

/// A cipher that TLS 1.3 knows (RFC 8446, appendix B.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cipher {
    /// AES-128-GCM.
    Aes128Gcm,
    /// AES-256-GCM.
    Aes256Gcm,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305,
}

impl Cipher {
    /// Returns the name of the library, as users read it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128Gcm => "AES-128-GCM",
            Self::Aes256Gcm => "AES-256-GCM",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
        }
    }
}

/// The library that seals and opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// aws-lc-rs.
    AwsLc,
    /// ring.
    Ring,
}

impl Library {
    /// Returns the faster one for a cipher on this CPU: ring where it has wide AES-GCM and aws-lc
    /// has not.
    #[must_use]
    pub fn fastest(cipher: Cipher) -> Self {
        if cipher != Cipher::ChaCha20Poly1305 && is_wide_without_avx512() {
            Self::Ring
        } else {
            Self::AwsLc
        }
    }
}

/// Returns whether the CPU has AES and carry-less multiplication of 32 bytes, but not the AVX-512
/// that aws-lc requires for them (`crypto_gcm_avx512_enabled` in its `gcm.c`).
#[cfg(target_arch = "x86_64")]
fn is_wide_without_avx512() -> bool {
    use std::arch::is_x86_feature_detected as has;
    let avx512 = has!("avx512f") && has!("avx512dq") && has!("avx512bw") && has!("avx512vl");
    has!("avx2") && has!("vaes") && has!("vpclmulqdq") && !avx512
}

#[cfg(not(target_arch = "x86_64"))]
fn is_wide_without_avx512() -> bool {
    false
}

/// The bytes were not sealed with this key, nonce and additional data; or a key or a buffer has the
/// wrong length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sealing or opening failed")]
pub struct Failed;

enum Inner {
    AwsLc(aws::LessSafeKey),
    /// Overwritten when it goes: aws-lc does that itself, ring does not.
    Ring(Wiped<ring::LessSafeKey>),
}

/// A key, ready for use.
///
/// That no nonce seals twice is for the caller to see to.
pub struct Key {
    inner: Inner,
    cipher: Cipher,
}

impl Key {
    /// Makes a key of its bytes, 16 or 32 of them as the cipher requires.
    ///
    /// # Errors
    /// The number of bytes is a different one.
    pub fn new(library: Library, cipher: Cipher, bytes: &[u8]) -> Result<Self, Failed> {
        let inner = match library {
            Library::AwsLc => {
                let algorithm = match cipher {
                    Cipher::Aes128Gcm => &aws::AES_128_GCM,
                    Cipher::Aes256Gcm => &aws::AES_256_GCM,
                    Cipher::ChaCha20Poly1305 => &aws::CHACHA20_POLY1305,
                };
                let key = aws::UnboundKey::new(algorithm, bytes).map_err(|_| Failed)?;
                Inner::AwsLc(aws::LessSafeKey::new(key))
            }
            Library::Ring => {
                let algorithm = match cipher {
                    Cipher::Aes128Gcm => &ring::AES_128_GCM,
                    Cipher::Aes256Gcm => &ring::AES_256_GCM,
                    Cipher::ChaCha20Poly1305 => &ring::CHACHA20_POLY1305,
                };
                let key = ring::UnboundKey::new(algorithm, bytes).map_err(|_| Failed)?;
                Inner::Ring(Wiped::new(ring::LessSafeKey::new(key)))
            }
        };
        Ok(Self { inner, cipher })
    }

    /// Returns the cipher of the key.
    #[must_use]
    pub const fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// Seals `content` and one byte behind it into `out`, which ends in the tag and has
    /// 1 + [`TAG_BYTES`] bytes more than `content`.
    ///
    /// # Errors
    /// `out` has another length.
    pub fn seal(
        &self,
        nonce: [u8; NONCE_BYTES],
        additional: &[u8],
        content: &[u8],
        last: u8,
        out: &mut [u8],
    ) -> Result<(), Failed> {
        if out.len() != content.len() + 1 + TAG_BYTES {
            return Err(Failed);
        }
        let (sealed, tail) = out.split_at_mut(content.len());
        match &self.inner {
            Inner::AwsLc(key) => {
                let nonce = aws::Nonce::assume_unique_for_key(nonce);
                let additional = aws::Aad::from(additional);
                key.seal_out_of_place_scatter(nonce, additional, content, sealed, &[last], tail)
                    .map_err(|_| Failed)
            }
            Inner::Ring(_) => {
                sealed.copy_from_slice(content);
                self.seal_in_place(nonce, additional, last, out)
            }
        }
    }

    /// Seals the content that `out` begins with and one byte behind it, in place. Behind the
    /// content there is room for 1 + [`TAG_BYTES`] bytes.
    ///
    /// # Errors
    /// `out` is shorter than that room.
    pub fn seal_in_place(
        &self,
        nonce: [u8; NONCE_BYTES],
        additional: &[u8],
        last: u8,
        out: &mut [u8],
    ) -> Result<(), Failed> {
        let content_bytes = out.len().checked_sub(1 + TAG_BYTES).ok_or(Failed)?;
        match &self.inner {
            Inner::AwsLc(key) => {
                let nonce = aws::Nonce::assume_unique_for_key(nonce);
                let additional = aws::Aad::from(additional);
                let (content, tail) = out.split_at_mut(content_bytes);
                key.seal_in_place_scatter(nonce, additional, content, &[last], tail)
                    .map_err(|_| Failed)
            }
            Inner::Ring(key) => {
                let nonce = ring::Nonce::assume_unique_for_key(nonce);
                let additional = ring::Aad::from(additional);
                out[content_bytes] = last;
                let (plain, tag) = out.split_at_mut(content_bytes + 1);
                let sum = key
                    .get()
                    .seal_in_place_separate_tag(nonce, additional, plain)
                    .map_err(|_| Failed)?;
                tag.copy_from_slice(sum.as_ref());
                Ok(())
            }
        }
    }

    /// Opens `sealed`, which ends in the tag, into `out`, which is [`TAG_BYTES`] bytes shorter.
    ///
    /// # Errors
    /// `sealed` was sealed in another way, or `out` has another length; the content of `out` is
    /// then undefined.
    pub fn open(
        &self,
        nonce: [u8; NONCE_BYTES],
        additional: &[u8],
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<(), Failed> {
        let (sealed, tag) = sealed.split_last_chunk::<TAG_BYTES>().ok_or(Failed)?;
        if sealed.len() != out.len() {
            return Err(Failed);
        }
        match &self.inner {
            Inner::AwsLc(key) => {
                let nonce = aws::Nonce::assume_unique_for_key(nonce);
                let additional = aws::Aad::from(additional);
                key.open_separate_gather(nonce, additional, sealed, tag, out).map_err(|_| Failed)
            }
            Inner::Ring(key) => {
                let nonce = ring::Nonce::assume_unique_for_key(nonce);
                let additional = ring::Aad::from(additional);
                out.copy_from_slice(sealed);
                key.get()
                    .open_in_place_separate_tag(nonce, additional, (*tag).into(), out, 0..)
                    .map(|_| ())
                    .map_err(|_| Failed)
            }
        }
    }

    /// Opens the content of `sealed`, with the tag behind it, in place, and returns the content.
    ///
    /// # Errors
    /// The errors of [`Self::open`].
    pub fn open_in_place<'a>(
        &self,
        nonce: [u8; NONCE_BYTES],
        additional: &[u8],
        sealed: &'a mut [u8],
    ) -> Result<&'a mut [u8], Failed> {
        match &self.inner {
            Inner::AwsLc(key) => {
                let nonce = aws::Nonce::assume_unique_for_key(nonce);
                key.open_in_place(nonce, aws::Aad::from(additional), sealed).map_err(|_| Failed)
            }
            Inner::Ring(key) => {
                let nonce = ring::Nonce::assume_unique_for_key(nonce);
                key.get()
                    .open_in_place(nonce, ring::Aad::from(additional), sealed)
                    .map_err(|_| Failed)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CIPHERS: [(Cipher, usize); 3] =
        [(Cipher::Aes128Gcm, 16), (Cipher::Aes256Gcm, 32), (Cipher::ChaCha20Poly1305, 32)];
    const LIBRARIES: [Library; 2] = [Library::AwsLc, Library::Ring];

    fn key(library: Library, (cipher, bytes): (Cipher, usize)) -> Key {
        Key::new(library, cipher, &vec![7; bytes]).unwrap()
    }

    fn sealed(key: &Key, content: &[u8]) -> Vec<u8> {
        let mut out = vec![0; content.len() + 1 + TAG_BYTES];
        key.seal([9; NONCE_BYTES], b"head", content, 23, &mut out).unwrap();
        out
    }

    /// Two hosts need not have the same CPU: both libraries seal the same bytes, in place or not,
    /// and each opens the other's, in place or not.
    #[test]
    fn both_libraries_seal_the_same_bytes() {
        for cipher in CIPHERS {
            for length in [0, 1, 15, 16, 17, 31, 32, 127, 128, 129, 4095, 16 * 1024] {
                let content: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
                let expected = sealed(&key(Library::AwsLc, cipher), &content);
                for library in LIBRARIES {
                    let key = key(library, cipher);
                    assert_eq!(sealed(&key, &content), expected, "{library:?}, {length} bytes");
                    let mut in_place = content.clone();
                    in_place.resize(length + 1 + TAG_BYTES, 0);
                    key.seal_in_place([9; NONCE_BYTES], b"head", 23, &mut in_place).unwrap();
                    assert_eq!(in_place, expected, "{library:?}, {length} bytes in place");
                    let mut out = vec![0; length + 1];
                    key.open([9; NONCE_BYTES], b"head", &expected, &mut out).unwrap();
                    assert_eq!((&out[..length], out[length]), (&content[..], 23), "{library:?}");
                    let opened = key.open_in_place([9; NONCE_BYTES], b"head", &mut in_place);
                    assert_eq!(opened.unwrap(), out, "{library:?}, {length} bytes");
                }
            }
        }
    }

    /// A flipped bit of content, tag, nonce or additional data is found by both, and a buffer of
    /// the wrong length is an error and no panic.
    #[test]
    fn what_was_not_sealed_so_is_not_opened() {
        for (library, cipher) in LIBRARIES.iter().flat_map(|&l| CIPHERS.map(|c| (l, c))) {
            let key = key(library, cipher);
            let (good, nonce) = (sealed(&key, &[5; 300]), [9; NONCE_BYTES]);
            let mut out = vec![0; 301];
            for at in 0..good.len() {
                let mut bad = good.clone();
                bad[at] ^= 1 << (at % 8);
                assert_eq!(key.open(nonce, b"head", &bad, &mut out), Err(Failed), "byte {at}");
                assert!(key.open_in_place(nonce, b"head", &mut bad).is_err(), "byte {at}");
            }
            assert!(key.open(nonce, b"hear", &good, &mut out).is_err());
            assert!(key.open([8; NONCE_BYTES], b"head", &good, &mut out).is_err());
            assert!(key.open(nonce, b"head", &good, &mut out[1..]).is_err());
            assert!(key.open(nonce, b"head", &good[..TAG_BYTES - 1], &mut []).is_err());
            assert!(key.open_in_place(nonce, b"head", &mut [0; TAG_BYTES - 1]).is_err());
            for room in [299, 316, 318] {
                assert!(key.seal(nonce, b"head", &[5; 300], 23, &mut vec![0; room]).is_err());
            }
            assert!(key.seal_in_place(nonce, b"head", 23, &mut [0; TAG_BYTES]).is_err());
            assert!(Key::new(library, cipher.0, &[7; 15]).is_err());
        }
    }
}
