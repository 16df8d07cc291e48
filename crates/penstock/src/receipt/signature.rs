//! One signature of a receipt: whether it is sound, and of which authority.

use penstock_api::receipt::{ReceiptSignature, key_bytes, signed_bytes};
use penstock_net::trust::verify_certification;

/// The site of a user's own copies.
pub(super) const USER_SITE: &str = "local";

/// Whose signature it is, if it is sound.
#[derive(Debug)]
pub(crate) struct Signed {
    /// Fingerprint of the site's authority; none for a user's own key.
    pub(crate) authority: Option<penstock_net::trust::Fingerprint>,
}

/// Checks one signature of a receipt's body, as it stands in its JSON.
///
/// # Errors
/// What is wrong with it, in words.
pub(crate) fn check_signature(
    body: &serde_json::Value,
    signature: &ReceiptSignature,
) -> Result<Signed, String> {
    if signature.algorithm != "ed25519" {
        return Err(format!("`{}` is no algorithm of receipts", signature.algorithm));
    }
    let hex = |text: &str, what: &str| {
        data_encoding::HEXLOWER
            .decode(text.as_bytes())
            .map_err(|_| format!("its {what} is damaged"))
    };
    let key = hex(&signature.key, "key")?;
    let bytes = signed_bytes(body, signature).map_err(|error| error.to_string())?;
    let sound = penstock_net::trust::verify_receipt_signature(
        &key,
        &bytes,
        &hex(&signature.signature, "signature")?,
    );
    if !sound {
        return Err("it does not fit what is signed: something was altered".to_owned());
    }
    if signature.authority.is_empty() && signature.certification.is_empty() {
        if signature.site.as_str() != USER_SITE {
            return Err("no authority certifies its key".to_owned());
        }
        return Ok(Signed { authority: None });
    }
    let authority = data_encoding::BASE64
        .decode(signature.authority.as_bytes())
        .map_err(|_| "its authority is damaged".to_owned())?;
    let statement = key_bytes(&signature.site, &signature.key);
    let certification = hex(&signature.certification, "certification")?;
    let facts = verify_certification(&authority, &statement, &certification)
        .map_err(|error| error.to_string())?;
    if facts.site != signature.site {
        return Err(format!("its authority is of site `{}`", facts.site));
    }
    Ok(Signed { authority: Some(facts.fingerprint) })
}
