//! Messages about transfers that have ended.

use std::sync::Arc;

use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::TransferReport;
use penstock_api::webhook::{EndedTransfer, Webhook, WebhookKind, WebhookMessage};
use penstock_proto::id::{Name, TransferId};

/// Longest reason in a message, in characters.
const REASON_CHARS_MAX: usize = 1000;

/// A message for one receiver.
#[derive(Clone, Debug)]
pub(super) struct Message {
    /// Header `webhook-id`: the same whichever controller sends it, and however often.
    pub(super) id: String,
    pub(super) kind: WebhookKind,
    pub(super) transfer: Option<TransferId>,
    /// The body, JSON.
    pub(super) body: Arc<[u8]>,
}

impl Message {
    /// Returns the message about a transfer; `None` if the transfer has not ended, or the receiver
    /// does not want this message.
    pub(super) fn of(site: &Name, hook: &Webhook, view: &TransferReport) -> Option<Self> {
        let kind = WebhookKind::of(view.state)?;
        hook.settings.wants(kind, view.owner.as_ref()).then(|| Self::about(site, hook, kind, view))
    }

    /// Returns the message about a transfer, without regard to the receiver's choice; `None` if the
    /// transfer has not ended.
    pub(super) fn again(site: &Name, hook: &Webhook, view: &TransferReport) -> Option<Self> {
        WebhookKind::of(view.state).map(|kind| Self::about(site, hook, kind, view))
    }

    fn about(site: &Name, hook: &Webhook, kind: WebhookKind, view: &TransferReport) -> Self {
        let paths = hook.settings.include_paths;
        let reason = if paths { view.reason.as_str() } else { "" };
        let data = EndedTransfer {
            id: view.id,
            owner: view.owner.clone(),
            label: view.label.clone(),
            source: EndedTransfer::place(&view.source, paths),
            target: EndedTransfer::place(&view.target, paths),
            state: view.state,
            exit: view.exit,
            reason: reason.chars().take(REASON_CHARS_MAX).collect(),
            created_at: Timestamp::of_seconds(view.created),
            ended_at: Timestamp::of_ms(ended_ms(view)),
            files: view.progress.files,
            bytes: view.progress.bytes,
            errors: view.progress.errors,
            seconds: view.progress.seconds,
            rate_bits_per_s: view.progress.mean_bits_per_s(),
        };
        let ended_ms = ended_ms(view);
        let id = format!("msg_{}_{}_{ended_ms}", view.id, view.state.as_str());
        let message = WebhookMessage {
            kind,
            timestamp: Timestamp::of_ms(ended_ms),
            site: site.clone(),
            data: Some(data),
        };
        Self { id, kind, transfer: Some(view.id), body: body_of(&message) }
    }

    /// Returns a test message of this moment, in seconds since 1970.
    pub(super) fn test(site: &Name, now: u64) -> Self {
        let kind = WebhookKind::Test;
        let timestamp = Timestamp::of_seconds(now);
        let message = WebhookMessage { kind, timestamp, site: site.clone(), data: None };
        let id = format!("msg_test_{:016x}", rand::random::<u64>());
        Self { id, kind, transfer: None, body: body_of(&message) }
    }

    /// Returns the transfer that the id of a message names.
    pub(super) fn transfer_of(id: &str) -> Option<TransferId> {
        id.strip_prefix("msg_")?.split('_').next()?.parse().ok()
    }
}

/// Returns the time at which a transfer ended, in milliseconds since 1970.
pub(super) fn ended_ms(view: &TransferReport) -> u64 {
    view.attempts.ended_ms.unwrap_or(view.created.saturating_mul(1000))
}

fn body_of(message: &WebhookMessage) -> Arc<[u8]> {
    // Texts and numbers alone: their serialisation does not fail.
    serde_json::to_vec(message).unwrap_or_default().into()
}
