//! What is checked of the transfer of a round: its state, its receipt, and the counts in it.

use penstock_api::receipt::{Receipt, ReceiptFacts, Role};
use penstock_api::rest::TransferView;
use penstock_api::transfer::TransferState;

use super::record::{RoundBegun, RoundRecord};
use crate::receipt;

/// Judges the transfer of a round that has ended. `first` is the root digest of the first good
/// round, if there was one.
pub(super) fn judge(
    begun: &mut RoundBegun,
    view: &TransferView,
    text: Option<&[u8]>,
    first: Option<&str>,
) -> RoundRecord {
    let (mut is_good, mut failures) = (text.is_some(), std::mem::take(&mut begun.failures));
    let mut record = RoundRecord {
        round: begun.number,
        transfer: begun.transfer,
        began: begun.began,
        at_seconds: 0.0,
        seconds: view.progress.seconds,
        is_good: false,
        files: 0,
        bytes: 0,
        attempts: view.attempt,
        retries: begun.retries,
        repairs: view.progress.repairs,
        faults: 0,
        sent_again: Vec::new(),
        root_digest: None,
        is_countersigned: false,
        compared: None,
        failures: Vec::new(),
    };
    match text.map(receipt::sound) {
        None => {}
        Some(Err(why)) => {
            failures.push(format!("the receipt proves nothing: {why}"));
            is_good = false;
        }
        Some(Ok(receipt)) => {
            let wrong = wrong_counts(&receipt, view, first);
            is_good &= wrong.is_empty();
            failures.extend(wrong);
            let is_source = |role: Role| role == Role::Source;
            record.is_countersigned = receipt.signatures.iter().any(|it| is_source(it.role));
            let body = receipt.receipt;
            record.seconds = match (view.started_at, view.ended_at) {
                (Some(started), Some(ended)) if !begun.is_continued => {
                    ended.ms().saturating_sub(started.ms()) as f64 / 1000.0
                }
                _ => body.milliseconds as f64 / 1000.0,
            };
            (record.files, record.bytes) = (body.facts.files, body.facts.bytes);
            record.root_digest = body.facts.root_digest;
        }
    }
    (record.is_good, record.failures) = (is_good, failures);
    record
}

/// Returns what a receipt says that is not as it should be.
fn wrong_counts(receipt: &Receipt, view: &TransferView, first: Option<&str>) -> Vec<String> {
    let body = &receipt.receipt;
    let mut wrong = Vec::new();
    if body.id != view.id || body.state != TransferState::Done {
        let (id, state) = (body.id.short(), body.state.as_str());
        wrong.push(format!("the receipt is of transfer {id}, {state}"));
    }
    wrong.extend(wrong_facts(&body.facts, view.progress.bytes_skipped, first));
    wrong
}

/// Returns what facts are not as they should be. `bytes_kept` are those of files that stay as they
/// are at the target.
fn wrong_facts(facts: &ReceiptFacts, bytes_kept: u64, first: Option<&str>) -> Vec<String> {
    let mut wrong = Vec::new();
    if facts.failed > 0 {
        wrong.push(format!("{} items failed", facts.failed));
    }
    if facts.files_found == 0 {
        wrong.push("the source has no file".to_owned());
    }
    // Of what was skipped, sockets and the like are not among the files found, kept files are.
    let files_least = facts.files_found.saturating_sub(facts.skipped);
    let is_whole = (files_least..=facts.files_found).contains(&facts.files)
        && facts.bytes + bytes_kept == facts.bytes_found;
    if !is_whole {
        wrong.push(format!(
            "{} of {} files were verified, {} of {} bytes",
            facts.files, facts.files_found, facts.bytes, facts.bytes_found
        ));
    }
    match (facts.root_digest.as_deref(), first) {
        (None, _) => wrong.push("the receipt has no root digest".to_owned()),
        (Some(root), Some(first)) if root != first => {
            wrong.push("the root digest is not that of the first good round".to_owned());
        }
        _ => {}
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: facts are right only with a root digest, that of the first good round, and with
    /// all bytes of a source that has files; a skipped socket hides no file that is missing.
    #[test]
    fn facts_are_judged() {
        let facts = || ReceiptFacts {
            root_digest: Some("aa".to_owned()),
            files_found: 3,
            bytes_found: 30,
            files: 3,
            bytes: 30,
            ..ReceiptFacts::default()
        };
        let wrong = |facts: ReceiptFacts| wrong_facts(&facts, 0, Some("aa")).join("; ");
        assert_eq!(wrong(facts()), "");
        assert_eq!(wrong_facts(&facts(), 0, None), [""; 0]);
        assert_eq!(wrong(ReceiptFacts { skipped: 1, ..facts() }), "");
        let kept = ReceiptFacts { skipped: 1, files: 2, bytes: 20, ..facts() };
        assert_eq!(wrong_facts(&kept, 10, None), [""; 0]);
        assert_eq!(wrong(kept), "2 of 3 files were verified, 20 of 30 bytes");
        let missing = ReceiptFacts { skipped: 1, files: 1, ..facts() };
        assert_eq!(wrong(missing), "1 of 3 files were verified, 30 of 30 bytes");
        assert_eq!(wrong(ReceiptFacts { failed: 2, ..facts() }), "2 items failed");
        let unnamed = ReceiptFacts { root_digest: None, ..facts() };
        assert_eq!(wrong(unnamed), "the receipt has no root digest");
        let other = ReceiptFacts { root_digest: Some("bb".to_owned()), ..facts() };
        assert_eq!(wrong(other), "the root digest is not that of the first good round");
        let none = ReceiptFacts { root_digest: Some("aa".to_owned()), ..ReceiptFacts::default() };
        assert_eq!(wrong(none), "the source has no file");
    }
}
