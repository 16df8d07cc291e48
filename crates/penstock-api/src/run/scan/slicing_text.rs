//! Cutting rules of a page in JSON, for `#[serde(with)]` of a [`Slicing`].

use penstock_proto::slicing::Slicing;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The fields of a [`Slicing`].
#[derive(Serialize, Deserialize)]
struct SlicingText {
    version: u16,
    stride_bytes: u32,
    extent_bytes: u64,
    pack_bytes: u64,
    pack_files: u32,
}

/// Writes the rules.
///
/// # Errors
/// Errors of the serializer.
pub(crate) fn serialize<S: Serializer>(slicing: &Slicing, output: S) -> Result<S::Ok, S::Error> {
    let Slicing { version, stride_bytes, extent_bytes, pack_bytes, pack_files } = *slicing;
    SlicingText { version, stride_bytes, extent_bytes, pack_bytes, pack_files }.serialize(output)
}

/// Reads rules, and checks that they are sound.
///
/// # Errors
/// Errors of the deserializer; the rules are unsound.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Slicing, D::Error> {
    let SlicingText { version, stride_bytes, extent_bytes, pack_bytes, pack_files } =
        SlicingText::deserialize(input)?;
    let slicing = Slicing { version, stride_bytes, extent_bytes, pack_bytes, pack_files };
    slicing.check().map_err(serde::de::Error::custom)?;
    Ok(slicing)
}
