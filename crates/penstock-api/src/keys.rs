//! The keys of a site, and the statements by which they are replaced.
//!
//! A statement makes another authority the site's. The authority before it signs the statement, so
//! that a paired site can follow by what it has pinned, and the new one signs it as well. Numbers
//! grow by one: the first statement with a number that a site accepts is the only one.

use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

use crate::site::JoinFile;

/// Header of each reply of the site API: the number of the keys of the site that answers.
pub const KEYS_HEADER: &str = "penstock-site-keys";
/// Most keys of peers that a statement revokes.
pub const REVOKED_MAX: usize = 1000;

/// The keys of a site from a moment on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyStatement {
    /// The site.
    pub site: Name,
    /// Its number: one more than that of the statement before; 1 for the first.
    pub sequence: u64,
    /// Seconds since 1970.
    pub made: u64,
    /// Certificate of the authority that it retires, DER in hex.
    pub previous: String,
    /// Certificate of the new authority, DER in hex.
    pub authority: String,
    /// Public key that checked capabilities before, in hex.
    pub previous_capability_key: String,
    /// Public key that checks capabilities from now on, in hex.
    pub capability_key: String,
    /// Keys of peers that are refused; with those of earlier statements.
    pub revoked: Vec<RevokedKey>,
}

/// A key of a peer that its site has revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RevokedKey {
    /// The peer. Its name is free for another host.
    pub peer: Name,
    /// SHA-256 of the public key of its certificate, in hex.
    pub key: String,
}

/// A statement as it is signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedKeys {
    /// A [`KeyStatement`] in JSON: these very bytes are signed.
    pub statement: String,
    /// Signature of the authority that is retired, in hex.
    pub by_previous: String,
    /// Signature of the new authority, in hex.
    pub by_new: String,
}

/// The statements that a site remembers: of its own keys in its trust directory, or for another
/// site that has not heard of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeysRecord {
    /// The last few, in ascending order of their numbers.
    pub statements: Vec<SignedKeys>,
}

/// The answer to statements: which keys of the site the other one trusts now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeysHeard {
    /// Number of the last statement that was accepted; 0 for the keys of the pairing.
    pub sequence: u64,
}

/// Hands the next keys of the own site to another peer of it. Secret.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageKeys {
    /// The files of its trust directory.
    pub files: Vec<JoinFile>,
    /// The next password of the etcd that the site runs; empty if it runs none.
    pub etcd_password: String,
}

/// Has a peer forgotten and shut out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ForgetRequest {
    /// Set if its host is in other hands. The peer may be up then, and peers that do not answer are
    /// left behind.
    pub stolen: bool,
}

/// The outcome of a rotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct RotateReply {
    /// Number of the new keys.
    pub sequence: u64,
    /// Fingerprint of the new authority.
    pub fingerprint: String,
    /// Peers of the own site that did not answer and have the old keys only.
    pub left_behind: Vec<Name>,
}
