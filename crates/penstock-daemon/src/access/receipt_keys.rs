//! Keys of receipts: signing with one, and checking a signature and the authority behind it.

use std::path::Path;

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::receipt::{
    ReceiptBody, ReceiptSignature, ReceiptSigner, Role, cannot_write, key_bytes, signed_bytes,
};
use penstock_net::trust::{ReceiptKey, SiteAuthority, TrustError, verify_certification};
use penstock_proto::id::Name;

/// File of the key, in a site's trust directory and in a user's state directory.
pub const KEY_FILE: &str = "receipt.key";

/// The site of a user's own copies.
const USER_SITE: &str = "local";

/// The origin of a sound signature.
#[derive(Debug)]
pub struct Signed {
    /// Fingerprint of the site's authority; none for a user's own key.
    pub authority: Option<penstock_net::trust::Fingerprint>,
}

/// A fault of a signature.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// The signature was not made with an algorithm of receipts.
    #[error("`{0}` is no algorithm of receipts")]
    Algorithm(String),
    /// A part of it cannot be decoded.
    #[error("its {0} is damaged")]
    Damaged(&'static str),
    /// The bytes that were signed cannot be made.
    #[error("{0}")]
    Body(serde_json::Error),
    /// The signature belongs to other bytes, or to another key.
    #[error("it does not fit what is signed: something was altered")]
    Altered,
    /// The signature names a site and shows no authority.
    #[error("no authority certifies its key")]
    Uncertified,
    /// The authority that it shows did not certify its key.
    #[error("{0}")]
    Certification(TrustError),
    /// The authority that it shows is of another site.
    #[error("its authority is of site `{0}`")]
    AuthorityOf(Name),
    /// The signature is sound, and belongs to another site or role than expected.
    #[error("it is of another site or role")]
    Misplaced,
}

/// Checks one signature of a receipt's body, as the body is in its JSON.
///
/// # Errors
/// Its first fault.
pub fn check_signature(
    body: &serde_json::Value,
    signature: &ReceiptSignature,
) -> Result<Signed, SignatureError> {
    if signature.algorithm != "ed25519" {
        return Err(SignatureError::Algorithm(signature.algorithm.clone()));
    }
    let hex = |text: &str, part| {
        let decoded = data_encoding::HEXLOWER.decode(text.as_bytes());
        decoded.map_err(|_| SignatureError::Damaged(part))
    };
    let key = hex(&signature.key, "key")?;
    let bytes = signed_bytes(body, signature).map_err(SignatureError::Body)?;
    let sound = penstock_net::trust::verify_receipt_signature(
        &key,
        &bytes,
        &hex(&signature.signature, "signature")?,
    );
    if !sound {
        return Err(SignatureError::Altered);
    }
    if signature.authority.is_empty() && signature.certification.is_empty() {
        if signature.site.as_str() != USER_SITE {
            return Err(SignatureError::Uncertified);
        }
        return Ok(Signed { authority: None });
    }
    let authority = data_encoding::BASE64
        .decode(signature.authority.as_bytes())
        .map_err(|_| SignatureError::Damaged("authority"))?;
    let statement = key_bytes(&signature.site, &signature.key);
    let certification = hex(&signature.certification, "certification")?;
    let facts = verify_certification(&authority, &statement, &certification)
        .map_err(SignatureError::Certification)?;
    if facts.site != signature.site {
        return Err(SignatureError::AuthorityOf(facts.site));
    }
    Ok(Signed { authority: Some(facts.fingerprint) })
}

/// Signs receipts with one key.
pub struct Signer {
    key: ReceiptKey,
    site: Name,
    /// Certificate of the authority and its certification of the key; empty for a user's own.
    authority: String,
    certification: String,
}

impl Signer {
    /// Returns the signer for a site, with the key in its trust directory, which is made if it does
    /// not exist.
    ///
    /// # Errors
    /// The key cannot be read, written or certified.
    pub fn of_site(authority: &SiteAuthority, trust: &Path) -> anyhow::Result<Self> {
        let key = ReceiptKey::load_or_create(&trust.join(KEY_FILE))?;
        let text = data_encoding::HEXLOWER.encode(&key.public_key());
        let statement = key_bytes(authority.site(), &text);
        let certification = authority.certify_receipt_key(&statement)?;
        Ok(Self {
            key,
            site: authority.site().clone(),
            authority: data_encoding::BASE64.encode(authority.certificate()),
            certification: data_encoding::HEXLOWER.encode(&certification),
        })
    }

    /// Signs for a user, who copies on one host.
    ///
    /// # Errors
    /// The key cannot be read or written.
    pub fn of_user(state_home: &Path) -> anyhow::Result<Self> {
        let key = ReceiptKey::load_or_create(&state_home.join(KEY_FILE))?;
        let (authority, certification) = (String::new(), String::new());
        Ok(Self { key, site: USER_SITE.parse()?, authority, certification })
    }
}

impl ReceiptSigner for Signer {
    fn sign(&self, body: &ReceiptBody, role: Role) -> Result<ReceiptSignature, Problem> {
        let mut signature = ReceiptSignature {
            role,
            site: self.site.clone(),
            vouches: role.vouches(),
            algorithm: "ed25519".to_owned(),
            key: data_encoding::HEXLOWER.encode(&self.key.public_key()),
            authority: self.authority.clone(),
            certification: self.certification.clone(),
            signature: String::new(),
        };
        let body = serde_json::to_value(body).map_err(|error| cannot_write(&error))?;
        let bytes = signed_bytes(&body, &signature).map_err(|error| cannot_write(&error))?;
        signature.signature = data_encoding::HEXLOWER.encode(&self.key.sign(&bytes));
        Ok(signature)
    }
}

/// Checks another site's signature against the authority that is pinned for that site.
///
/// # Errors
/// The signature is not sound, or of another site or role.
pub fn check_countersignature(
    body: &ReceiptBody,
    signature: &ReceiptSignature,
    pinned: penstock_net::trust::Fingerprint,
) -> Result<(), Problem> {
    let value = serde_json::to_value(body).map_err(|error| cannot_write(&error))?;
    let refused = |why: SignatureError| {
        let title = format!("site `{}` gave a signature that is not good", body.source.site);
        Problem::new(ProblemCode::ReceiptSignature, title).because(why)
    };
    let signed = check_signature(&value, signature).map_err(refused)?;
    let fits = signature.role == Role::Source
        && signature.site == body.source.site
        && signed.authority == Some(pinned);
    if fits { Ok(()) } else { Err(refused(SignatureError::Misplaced)) }
}
