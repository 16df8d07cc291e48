//! Webhooks: HTTPS requests by which a site tells other programs that a transfer has ended.
//!
//! A request follows Standard Webhooks 1.0 (standardwebhooks.com): the headers `webhook-id`,
//! `webhook-timestamp` and `webhook-signature`, the latter of HMAC-SHA256. Each end of a transfer
//! is delivered at least once; the id tells a receiver which ones it has had.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64;
use penstock_proto::id::{Name, TransferId};
use serde::{Deserialize, Serialize};

use crate::place::Location;
use crate::problem::Exit;
use crate::timestamp::Timestamp;
use crate::transfer::TransferState;

/// Name under which `notify.command` of the configuration is listed; no webhook can have it.
pub const NOTIFY_COMMAND: &str = "notify-command";
/// Seconds for which the former secret of a webhook signs too, after another one was made.
pub const SECRET_OVERLAP_SECONDS: u64 = 24 * 3600;
/// Beginning of every secret.
const SECRET_PREFIX: &str = "whsec_";
/// Random bytes of a secret.
const SECRET_BYTES: usize = 32;

/// The kind of an event that a webhook tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub enum WebhookKind {
    /// A transfer is done.
    #[serde(rename = "transfer.done")]
    Done,
    /// A transfer has ended with failures.
    #[serde(rename = "transfer.failed")]
    Failed,
    /// A transfer was given up by a user.
    #[serde(rename = "transfer.cancelled")]
    Cancelled,
    /// A test that an operator has asked for.
    #[serde(rename = "webhook.test")]
    Test,
}

impl WebhookKind {
    /// The kinds that a webhook may choose from.
    pub const CHOICES: [Self; 3] = [Self::Done, Self::Failed, Self::Cancelled];

    /// Returns the name of the kind, as JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "transfer.done",
            Self::Failed => "transfer.failed",
            Self::Cancelled => "transfer.cancelled",
            Self::Test => "webhook.test",
        }
    }

    /// Returns the kind of a state; `None` if a transfer in it has not ended.
    pub fn of(state: TransferState) -> Option<Self> {
        match state {
            TransferState::Done => Some(Self::Done),
            TransferState::Failed => Some(Self::Failed),
            TransferState::Cancelled => Some(Self::Cancelled),
            TransferState::Queued | TransferState::Running | TransferState::Paused => None,
        }
    }
}

impl fmt::Display for WebhookKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for WebhookKind {
    type Err = String;

    /// Reads a kind that a webhook may choose, with or without `transfer.` before it.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let short = text.strip_prefix("transfer.").unwrap_or(text);
        let is = |kind: &Self| kind.as_str().strip_prefix("transfer.") == Some(short);
        Self::CHOICES.into_iter().find(is).ok_or_else(|| {
            format!("`{text}` is not an event of a webhook: done, failed or cancelled")
        })
    }
}

/// The secret that signs the requests of a webhook, as `whsec_` and base64. Its debug form hides
/// it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WebhookSecret([u8; SECRET_BYTES]);

impl WebhookSecret {
    /// Returns the secret of these random bytes.
    pub fn new(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(bytes)
    }

    /// Returns the key of the HMAC.
    pub fn key(&self) -> &[u8] {
        &self.0
    }

    /// Returns the whole text: a secret.
    pub fn expose(&self) -> String {
        format!("{SECRET_PREFIX}{}", BASE64.encode(&self.0))
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret(whsec_…)")
    }
}

/// Error: a text is no secret of a webhook. It does not repeat the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the text is not the secret of a webhook: `whsec_` and 32 bytes in base64")]
pub struct ParseSecretError;

impl TryFrom<String> for WebhookSecret {
    type Error = ParseSecretError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let encoded = text.strip_prefix(SECRET_PREFIX).ok_or(ParseSecretError)?;
        let bytes = BASE64.decode(encoded.as_bytes()).map_err(|_| ParseSecretError)?;
        bytes.try_into().map(Self).map_err(|_| ParseSecretError)
    }
}

impl From<WebhookSecret> for String {
    fn from(secret: WebhookSecret) -> Self {
        secret.expose()
    }
}

/// A webhook, as the site's state keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Webhook {
    /// The name.
    pub name: Name,
    /// Its settings.
    pub settings: WebhookSettings,
    /// The secret that signs.
    pub secret: WebhookSecret,
    /// The secret before, and the end of its use in seconds since 1970.
    #[serde(default)]
    pub former: Option<(WebhookSecret, u64)>,
    /// Time of its creation, in seconds since 1970.
    pub created: u64,
    /// Milliseconds since 1970: every transfer that ended before is delivered or given up.
    pub delivered_ms: u64,
}

/// Settings of a webhook: the body of `PUT /webhooks/{name}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct WebhookSettings {
    /// The address. It must lie below an entry of `webhook.allow` in the configuration.
    pub url: String,
    /// The events to tell; empty means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<WebhookKind>,
    /// Tell only of transfers of this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Name>,
    /// Include the paths of source and target.
    #[serde(default)]
    pub include_paths: bool,
    /// True while it tells nothing.
    #[serde(default)]
    pub disabled: bool,
}

impl WebhookSettings {
    /// Returns whether an event of this kind, about a transfer of this user, is to be told.
    pub fn wants(&self, kind: WebhookKind, owner: Option<&Name>) -> bool {
        let kind_fits = self.kinds.is_empty() || self.kinds.contains(&kind);
        !self.disabled && kind_fits && (self.user.is_none() || self.user.as_ref() == owner)
    }
}

/// A webhook, as operators see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WebhookView {
    /// The name.
    pub name: Name,
    /// Its settings.
    #[serde(flatten)]
    pub settings: WebhookSettings,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Messages that wait for their delivery.
    pub pending: u64,
    /// Failure of the last attempt; absent if it succeeded, or there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The secret, for the receiver to check signatures with: in the answer that made it, and
    /// nowhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
}

/// All webhooks of a site.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct WebhookList {
    /// The webhooks, by name.
    pub items: Vec<WebhookView>,
}

/// Result of an attempt to deliver a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum DeliveryResult {
    /// The receiver answered with a status of 200 to 299.
    Delivered,
    /// The attempt failed, and another one follows.
    Failed,
    /// The attempt failed, and no other one follows.
    GivenUp,
}

impl DeliveryResult {
    /// Returns the name of the result, as JSON has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Failed => "failed",
            Self::GivenUp => "given-up",
        }
    }
}

/// An attempt to deliver a message, as the peer that made it has recorded it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Delivery {
    /// The webhook.
    pub webhook: Name,
    /// Id of the message: `webhook-id`, the same for all attempts.
    pub id: String,
    /// The kind of the event.
    pub kind: WebhookKind,
    /// The transfer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer: Option<TransferId>,
    /// Time of the attempt.
    pub at: Timestamp,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The result.
    pub result: DeliveryResult,
    /// Status of the receiver's answer; absent if none came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Reason of a failure.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Milliseconds until the answer or the failure.
    pub took_ms: u64,
}

/// Attempts of one webhook, the newest first.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct DeliveryList {
    /// The attempts.
    pub items: Vec<Delivery>,
}

/// The body of a request of a webhook, and standard input of `notify.command`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebhookMessage {
    /// The kind.
    #[serde(rename = "type")]
    pub kind: WebhookKind,
    /// Time of the event.
    pub timestamp: Timestamp,
    /// The site that tells.
    pub site: Name,
    /// The transfer; absent in a test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<EndedTransfer>,
}

/// A transfer that has ended, as a webhook tells it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedTransfer {
    /// The transfer.
    pub id: TransferId,
    /// Its user; absent where another site submitted it, or the administrator of the host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Name>,
    /// Note of its user.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Source, as `SITE:STORE` or with the path if the webhook includes paths.
    pub source: String,
    /// Target, likewise.
    pub target: String,
    /// State in which it has ended.
    pub state: TransferState,
    /// Exit status of `--wait`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Reason of the state; without paths it is left out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Time of its submission.
    pub created_at: Timestamp,
    /// Time of its end.
    pub ended_at: Timestamp,
    /// Files verified and written.
    pub files: u64,
    /// Bytes verified and written.
    pub bytes: u64,
    /// Items that failed.
    pub errors: u64,
    /// Seconds for which it ran.
    pub seconds: f64,
    /// Mean rate of the last run, in bits per second.
    pub rate_bits_per_s: f64,
}

impl EndedTransfer {
    /// Returns a place for a message: whole, or without the path.
    pub fn place(location: &Location, include_path: bool) -> String {
        if include_path {
            return location.to_string();
        }
        format!("{}:{}", location.site, location.store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a secret is the text that Standard Webhooks libraries take, and no log shows it.
    #[test]
    fn a_secret_is_read_and_hidden() {
        let secret = WebhookSecret::new([7; 32]);
        let text = secret.expose();
        assert!(text.starts_with("whsec_BwcH"), "{text}");
        assert_eq!(WebhookSecret::try_from(text).unwrap(), secret);
        assert_eq!(format!("{secret:?}"), "WebhookSecret(whsec_…)");
        for bad in ["", "whsec_", "whsec_BwcH", "BwcH", "whsec_*"] {
            assert_eq!(WebhookSecret::try_from(bad.to_owned()), Err(ParseSecretError), "{bad}");
        }
    }

    /// Promise: a webhook tells of the kinds and the user that it names, and of nothing while it is
    /// disabled.
    #[test]
    fn settings_choose_events() {
        let anna: Name = "anna".parse().unwrap();
        let mut settings = WebhookSettings {
            url: String::new(),
            kinds: Vec::new(),
            user: None,
            include_paths: false,
            disabled: false,
        };
        assert!(settings.wants(WebhookKind::Done, None));
        settings.kinds.push("failed".parse().unwrap());
        assert!(!settings.wants(WebhookKind::Done, None));
        settings.user = Some(anna.clone());
        assert!(settings.wants(WebhookKind::Failed, Some(&anna)));
        assert!(!settings.wants(WebhookKind::Failed, None));
        settings.disabled = true;
        assert!(!settings.wants(WebhookKind::Failed, Some(&anna)));
        assert!("webhook.test".parse::<WebhookKind>().is_err());
    }
}
