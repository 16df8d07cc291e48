//! The signed right to read one data set, and perhaps to remove it (hard case C4).
//!
//! A source peer keeps no list of approved transfers. Its own controller signs one capability per
//! transfer, the target's peers show it in the hello of every lane, and any source peer can check
//! it alone. The signature is Ed25519 over [`Capability::encode`]; signing and checking are in
//! `penstock-net`, which has the keys.

use crate::id::{Name, TransferId};
use crate::name;
use crate::wire::{DecodeError, Reader, Writer};

/// Longest encoded capability with its signature.
pub const CAPABILITY_BYTES_MAX: usize = name::PATH_BYTES_MAX + 1024;

const MAGIC: &[u8; 8] = b"PSTCAPA2";

/// Rights of a target site at a source site, for one transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The transfer for which it was issued.
    pub transfer: TransferId,
    /// The site that issued it and will serve the data.
    pub source: Name,
    /// The only site whose peers may show it.
    pub target: Name,
    /// The store at the source.
    pub store: Name,
    /// The data set's root within the store: a relative path.
    pub root: Vec<u8>,
    /// True if moved items may be removed at the source, which is a separate right.
    pub remove: bool,
    /// Time after which it is void, in seconds since 1970.
    pub expires: u64,
}

impl Capability {
    /// Returns the bytes that are signed.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Writer::new();
        out.raw(MAGIC);
        self.transfer.encode(&mut out);
        out.bytes(self.source.as_str().as_bytes());
        out.bytes(self.target.as_str().as_bytes());
        out.bytes(self.store.as_str().as_bytes());
        out.bytes(&self.root);
        out.u8(u8::from(self.remove));
        out.u64(self.expires);
        out.into_bytes()
    }

    /// Reads the output of [`Capability::encode`].
    ///
    /// # Errors
    /// [`DecodeError`] for anything else.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(bytes);
        if input.array::<8>("capability magic")? != *MAGIC {
            return Err(DecodeError::Invalid("capability magic"));
        }
        let capability = Self {
            transfer: TransferId::decode(&mut input)?,
            source: decode_name(&mut input, "source")?,
            target: decode_name(&mut input, "target")?,
            store: decode_name(&mut input, "store")?,
            root: input.bytes(name::PATH_BYTES_MAX, "root")?.to_vec(),
            remove: match input.u8("remove")? {
                0 => false,
                1 => true,
                _ => return Err(DecodeError::Invalid("remove")),
            },
            expires: input.u64("expires")?,
        };
        name::check_relative(&capability.root)?;
        input.finish()?;
        Ok(capability)
    }
}

pub(crate) fn decode_name(
    input: &mut Reader<'_>,
    field: &'static str,
) -> Result<Name, DecodeError> {
    input.text(63, field)?.parse().map_err(|_| DecodeError::Invalid(field))
}
