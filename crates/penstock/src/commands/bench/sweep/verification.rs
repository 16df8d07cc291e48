//! Whether what a cell has moved is right, after the transfer has verified it itself.

use penstock_api::endpoints::GET_RECEIPT;
use penstock_api::place::{Location, PathText};
use penstock_api::receipt::Receipt;
use penstock_api::transfer::{TransferOptions, TransferState};
use penstock_api::update::{CompareBy, UpdateOptions};
use penstock_daemon::access::receipt_keys::check_signature;
use penstock_proto::id::TransferId;

use super::matrix::VerifyBy;
use super::record::{Dataset, Verified};
use crate::commands::bench::mover::Mover;

/// Fetches the receipt of a transfer, as it is.
///
/// # Errors
/// What the daemon answers.
pub(super) fn receipt(mover: &Mover<'_>, id: TransferId) -> anyhow::Result<Vec<u8>> {
    mover.ask_patiently(|client| {
        let mut text = Vec::new();
        client.get_into(&GET_RECEIPT.uri(&[&id]), &mut text)?;
        Ok(text)
    })
}

/// Checks the signatures of a receipt, and that it has moved a data set as a whole. Whose keys they
/// are is for `penstock receipt check --trust` to say.
///
/// # Errors
/// The first thing that is wrong, in words.
pub(super) fn check_receipt(text: &[u8], dataset: &Dataset) -> Result<(), String> {
    let value: serde_json::Value =
        serde_json::from_slice(text).map_err(|error| format!("the receipt is no JSON: {error}"))?;
    let body = value.get("receipt").cloned().unwrap_or_default();
    let receipt: Receipt = serde_json::from_value(value)
        .map_err(|error| format!("the receipt cannot be read: {error}"))?;
    if receipt.signatures.is_empty() {
        return Err("the receipt has no signature".to_owned());
    }
    for signature in &receipt.signatures {
        check_signature(&body, signature)
            .map_err(|error| format!("the signature of site {}: {error}", signature.site))?;
    }
    let said = &receipt.receipt;
    if said.state != TransferState::Done || said.facts.failed > 0 {
        return Err(format!("the receipt says {}", said.state.as_str()));
    }
    let (files, bytes) = (said.facts.files, said.facts.bytes);
    if (files, bytes) != (dataset.files, dataset.bytes) {
        let (wanted, of) = (dataset.files, dataset.bytes);
        return Err(format!(
            "the receipt has {files} files with {bytes} bytes, the data set {wanted} with {of}"
        ));
    }
    Ok(())
}

/// Has files of both ends read again and compared, as far as `how` says, by a transfer that finds
/// nothing to move.
///
/// # Errors
/// As [`Mover::run`]; the transfer failed. A file that differs is no error, but `ok` is false then.
pub(super) fn compare(
    mover: &Mover<'_>,
    how: VerifyBy,
    (source, target): (Location, Location),
    dataset: &Dataset,
    sample: &[PathText],
) -> anyhow::Result<Verified> {
    let how_text = how.as_str().to_owned();
    let (files_from, wanted) = match how {
        VerifyBy::Receipt => {
            let (files, bytes) = (dataset.files, dataset.bytes);
            return Ok(Verified { how: how_text, ok: true, files, bytes });
        }
        VerifyBy::Sample => (sample.to_vec(), sample.len() as u64),
        VerifyBy::All => (Vec::new(), dataset.files),
    };
    let update =
        UpdateOptions { sync: true, compare: CompareBy::Digest, ..UpdateOptions::default() };
    let options = TransferOptions { files_from, update, ..TransferOptions::default() };
    let compared = mover.run("verifies", source, target, options)?;
    if let Some(error) = compared.error() {
        return Err(error);
    }
    let progress = &compared.view.progress;
    let ok = progress.files == 0 && progress.files_found == wanted;
    let files = wanted.saturating_sub(progress.files);
    Ok(Verified { how: how_text, ok, files, bytes: progress.bytes_skipped })
}
