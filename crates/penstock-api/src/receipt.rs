//! Receipts: what was moved, and what was proved of it, signed by both sites.
//!
//! A receipt is one JSON object: a [`ReceiptBody`] and signatures of it. What is signed is defined
//! in docs/protocol.md ("Receipts"), so that others can check it: [`signed_bytes`] makes those
//! bytes. The contract has no keys; `penstock_io::trust` signs and checks.

use penstock_proto::checksum::ChecksumKind;
use penstock_proto::digest::DigestKind;
use penstock_proto::id::{Name, TransferId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::outcome::FailedItem;
use crate::place::{Location, PathText};
use crate::problem::{Exit, Problem};
use crate::transfer::TransferState;

/// Version of the format.
pub const RECEIPT_VERSION: u32 = 1;
/// Longest receipt that is read.
pub const RECEIPT_BYTES_MAX: usize = 64 << 20;
/// What every signature of a receipt begins with, so that it means nothing else.
const DOMAIN: &[u8] = b"penstock receipt 1\n";
/// The same of an authority's signature of a receipt key.
const KEY_DOMAIN: &[u8] = b"penstock receipt key 1\n";

/// A receipt, as it is kept and handed out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Receipt {
    /// What is said.
    pub receipt: ReceiptBody,
    /// By whom.
    pub signatures: Vec<ReceiptSignature>,
}

/// What a receipt says. All counts are of payload; all times are seconds since 1970.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptBody {
    /// [`RECEIPT_VERSION`].
    pub version: u32,
    /// Release of the program that made it.
    pub program: String,
    /// The transfer.
    pub id: TransferId,
    /// How it ended.
    pub state: TransferState,
    /// How the command ended.
    pub exit: Exit,
    /// From where.
    pub source: Location,
    /// To where.
    pub target: Location,
    /// The root of the data set within the target's store: what the source became.
    pub root: PathText,
    /// What was asked for, as [`crate::transfer::TransferOptions`] were written then: a later
    /// release may know more of them.
    pub options: Value,
    /// When it was submitted.
    pub submitted: u64,
    /// When it ended.
    pub ended: u64,
    /// How long it took, pauses left out.
    pub milliseconds: u64,
    /// How the data was made durable, in words.
    pub durable_by: String,
    /// What the ledger says.
    pub facts: ReceiptFacts,
    /// The first failed items.
    pub failures: Vec<FailedItem>,
    /// Attributes that were not kept, by class and reason ([`NotKept::key`]), and of how many
    /// entries.
    ///
    /// [`NotKept::key`]: crate::preserve::NotKept::key
    pub withheld: std::collections::BTreeMap<String, u64>,
}

/// What the ledger says when a run has ended.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptFacts {
    /// Root of the Merkle tree over the digests of all files (docs/protocol.md, "Root digest"), in
    /// hex; none where the digest that verified them gives none of files.
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
    /// Items that were passed over, or left as they were at the target.
    pub skipped: u64,
    /// Items that failed.
    pub failed: u64,
    /// Items removed at the source, where that was asked for.
    #[serde(default)]
    pub removed: u64,
    /// Items that stay there all the same.
    #[serde(default)]
    pub stayed: u64,
    /// What was verified, how and when.
    pub verified: Vec<Verified>,
    /// Over which addresses the lanes of the last run went, and what protected them, in words.
    pub paths: Vec<String>,
    /// Lists of checksums that were made.
    pub catalogue: Vec<CatalogueList>,
}

/// One way in which the data was verified.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verified {
    /// `arrival`: each piece against its source's digest, before it was written; `readback`: each
    /// file from storage, after its sync; `again`: each file from the target's file system.
    pub what: String,
    /// By which hash.
    pub digest: DigestKind,
    /// How many bytes.
    pub bytes: u64,
    /// Of these, by direct I/O; of the others the page cache was dropped.
    pub bytes_direct: u64,
    /// When the last of them was verified.
    pub until: u64,
}

/// One list of checksums.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueList {
    /// Of which kind.
    pub kind: ChecksumKind,
    /// Lines, one for each file.
    pub lines: u64,
    /// BLAKE3 of the list as it was written, in hex.
    pub list_digest: String,
}

/// On which side a signer was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It served the data.
    Source,
    /// It owned the transfer.
    Target,
}

impl Role {
    /// What a signer of this role has looked at itself.
    pub fn vouches(self) -> Vec<String> {
        let words: &[&str] = match self {
            Self::Source => &["id", "source", "pages", "manifest_digest", "entries_found"],
            Self::Target => &["all"],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }
}

/// One signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiptSignature {
    /// On which side the signer was.
    pub role: Role,
    /// Its site; `local` for a user's own copy.
    pub site: Name,
    /// Fields that the signer has looked at itself.
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

/// Signs receipts for a site, or for a user.
pub trait ReceiptSigner: Send + Sync {
    /// Signs in a role.
    ///
    /// # Errors
    /// The key cannot be used.
    fn sign(&self, body: &ReceiptBody, role: Role) -> Result<ReceiptSignature, Problem>;
}

/// What a signature is over: a domain, then [`canonical`] of the object
/// `{"receipt": body, "signature": signature without its own value}`.
///
/// # Errors
/// A value that JSON cannot say; none of ours is.
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

/// What an authority signs of a receipt key.
pub fn key_bytes(site: &Name, key: &str) -> Vec<u8> {
    let mut bytes = KEY_DOMAIN.to_vec();
    canonical(&serde_json::json!({ "key": key, "site": site.as_str() }), &mut bytes);
    bytes
}

/// A problem of a receipt that cannot be written.
pub fn cannot_write(error: &serde_json::Error) -> Problem {
    Problem::new(Exit::Unclassified, "receipt", "a receipt cannot be written").because(error)
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
