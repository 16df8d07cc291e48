//! Receipts: what was moved, and what was proved of it, signed by both sites.
//!
//! A receipt is one JSON object: a [`ReceiptBody`] and signatures of it. docs/protocol.md
//! ("Receipts") defines the signed bytes, so that others can check them; [`signed_bytes`] makes
//! them. This crate has no keys; `penstock_net::trust` signs and checks.

use penstock_proto::checksum::ChecksumKind;
use penstock_proto::digest::DigestKind;
use penstock_proto::id::{Name, TransferId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outcome::FailedItem;
use crate::place::{Location, PathText};
use crate::problem::{Exit, Problem, ProblemCode};
use crate::transfer::TransferState;

/// Version of the format.
pub const RECEIPT_VERSION: u32 = 1;
/// Longest receipt that is read.
pub const RECEIPT_BYTES_MAX: usize = 64 << 20;
/// Prefix of the signed bytes of every receipt, so that a signature means nothing else.
const DOMAIN: &[u8] = b"penstock receipt 1\n";
/// Prefix of the bytes that an authority signs for a receipt key.
const KEY_DOMAIN: &[u8] = b"penstock receipt key 1\n";

/// A receipt, as it is stored and handed out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// The statement.
    pub receipt: ReceiptBody,
    /// Signatures of the statement.
    pub signatures: Vec<ReceiptSignature>,
}

/// Statement of a receipt. All counts are of payload; all times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReceiptBody {
    /// [`RECEIPT_VERSION`].
    pub version: u32,
    /// Release of the program that made it.
    pub program: String,
    /// The transfer.
    pub id: TransferId,
    /// Final state.
    pub state: TransferState,
    /// Exit status of the command.
    pub exit: Exit,
    /// Source.
    pub source: Location,
    /// Target.
    pub target: Location,
    /// The root of the data set within the target's store, which the source became.
    pub root: PathText,
    /// Options of the request, as [`crate::transfer::TransferOptions`] were written then: a later
    /// release may know more of them.
    pub options: Value,
    /// Time of submission.
    pub submitted: u64,
    /// Time of the end.
    pub ended: u64,
    /// Duration, pauses excluded.
    pub milliseconds: u64,
    /// Method by which the data was made durable, in words.
    pub durable_by: String,
    /// Facts from the ledger.
    pub facts: ReceiptFacts,
    /// The first failed items.
    pub failures: Vec<FailedItem>,
    /// Attributes that were not kept, by class and reason ([`NotKept::key`]), and of how many
    /// entries.
    ///
    /// [`NotKept::key`]: crate::preserve::NotKept::key
    pub withheld: std::collections::BTreeMap<String, u64>,
}

/// Facts from the ledger when a run has ended.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReceiptFacts {
    /// Root of the Merkle tree over the digests of all files (docs/protocol.md, "Root digest"), in
    /// hex. None if the transfer's digest gives no digests of files.
    pub root_digest: Option<String>,
    /// Files below that root.
    pub root_files: u64,
    /// Bytes of these.
    pub root_bytes: u64,
    /// Files that were verified, and have no standard digest: their holes were not hashed (D2).
    pub sparse_files: u64,
    /// Pages of the manifest.
    pub pages: u32,
    /// BLAKE3 over the digests of the pages, in order, in hex.
    pub manifest_digest: String,
    /// Entries that the scan found.
    pub entries_found: u64,
    /// Files among these.
    pub files_found: u64,
    /// Bytes of these.
    pub bytes_found: u64,
    /// Files verified and written.
    pub files: u64,
    /// Bytes verified and written.
    pub bytes: u64,
    /// Items that were passed over, or stay as they were at the target.
    pub skipped: u64,
    /// Items that failed.
    pub failed: u64,
    /// Items removed at the source, where that was asked for.
    #[serde(default)]
    pub removed: u64,
    /// Items that stay at the source although they were to be removed.
    #[serde(default)]
    pub stayed: u64,
    /// Verifications: method, hash and time.
    pub verified: Vec<Verified>,
    /// Addresses over which the lanes of the last run went, and their protection, in words.
    pub paths: Vec<String>,
    /// Lists of checksums that were made.
    pub catalogue: Vec<CatalogueList>,
}

/// A way in which the data was verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Verified {
    /// `arrival`: each piece against its source's digest, before it was written; `readback`: each
    /// file from storage, after its sync; `again`: each file from the target's file system.
    pub what: String,
    /// Hash.
    pub digest: DigestKind,
    /// Number of bytes.
    pub bytes: u64,
    /// Bytes of these that were read by direct I/O; for the others the page cache was dropped.
    pub bytes_direct: u64,
    /// Time when the last of them was verified.
    pub until: u64,
}

/// A list of checksums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CatalogueList {
    /// Kind.
    pub kind: ChecksumKind,
    /// Lines, one for each file.
    pub lines: u64,
    /// BLAKE3 of the list as it was written, in hex.
    pub list_digest: String,
}

/// Side of a signer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "openapi", schemars(rename = "ReceiptRole"))]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The site served the data.
    Source,
    /// The site owned the transfer.
    Target,
}

impl Role {
    /// Returns the fields that a signer of this role has checked itself.
    pub fn vouches(self) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Source => &["id", "source", "pages", "manifest_digest", "entries_found"],
            Self::Target => &["all"],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }
}

/// A signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReceiptSignature {
    /// Side of the signer.
    pub role: Role,
    /// Its site; `local` for a user's own copy.
    pub site: Name,
    /// Fields that the signer has checked itself.
    pub vouches: Vec<String>,
    /// Always `ed25519`.
    pub algorithm: String,
    /// Public key that checks the signature, in hex.
    pub key: String,
    /// Certificate of the site's authority, DER in base64; empty for a user's own key.
    pub authority: String,
    /// The authority's signature (ECDSA P-256, SHA-256, DER) of [`key_bytes`], in hex; empty for a
    /// user's own key.
    pub certification: String,
    /// The signature of [`signed_bytes`], in hex.
    pub signature: String,
}

/// Signer of receipts for a site, or for a user.
pub trait ReceiptSigner: Send + Sync {
    /// Signs in a role.
    ///
    /// # Errors
    /// The key cannot be used.
    fn sign(&self, body: &ReceiptBody, role: Role) -> Result<ReceiptSignature, Problem>;
}

/// Returns the bytes that a signature covers: a domain, then [`canonical`] of the object
/// `{"receipt": body, "signature": signature without its own value}`.
///
/// # Errors
/// A value that JSON cannot express; none of ours is.
pub fn signed_bytes(
    body: &Value,
    signature: &ReceiptSignature,
) -> Result<Vec<u8>, serde_json::Error> {
    let unsigned = ReceiptSignature { signature: String::new(), ..signature.clone() };
    let signature = serde_json::to_value(unsigned)?;
    let mut bytes = DOMAIN.to_vec();
    canonical(&serde_json::json!({ "receipt": body, "signature": signature }), &mut bytes);
    Ok(bytes)
}

/// Returns the bytes that an authority signs for a receipt key.
pub fn key_bytes(site: &Name, key: &str) -> Vec<u8> {
    let mut bytes = KEY_DOMAIN.to_vec();
    canonical(&serde_json::json!({ "key": key, "site": site.as_str() }), &mut bytes);
    bytes
}

/// Returns the problem of a receipt that cannot be written.
pub fn cannot_write(error: &serde_json::Error) -> Problem {
    Problem::new(ProblemCode::Internal, "a receipt cannot be written").because(error)
}

/// Writes JSON in one way only: keys in the order of their bytes, no spaces, integers in full,
/// strings escaped as RFC 8785 says. Receipts hold no other numbers.
pub fn canonical(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(fields) => {
            let mut keys: Vec<_> = fields.keys().collect();
            keys.sort_unstable();
            out.push(b'{');
            for (at, key) in keys.into_iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                out.extend_from_slice(Value::String(key.clone()).to_string().as_bytes());
                out.push(b':');
                canonical(&fields[key], out);
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                canonical(item, out);
            }
            out.push(b']');
        }
        plain => out.extend_from_slice(plain.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the signed form of an object is one, however it was written.
    #[test]
    fn the_canonical_form_is_one() {
        let text = "{\"b\": [1, {\"y\":null,\"x\":\"\\u000a\\u00e9\"}], \"a\" : true}";
        let value: Value = serde_json::from_str(text).unwrap();
        let mut bytes = Vec::new();
        canonical(&value, &mut bytes);
        let expected = "{\"a\":true,\"b\":[1,{\"x\":\"\\n\u{e9}\",\"y\":null}]}";
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
    }
}
