//! Requests of users about transfers.

use penstock_proto::id::{Name, TransferId};
use serde::{Deserialize, Deserializer, Serialize};

use crate::deadline::Deadline;
use crate::endpoints::{EndpointUri, LIST_TRANSFERS};
use crate::limits::LimitRequest;
use crate::place::{Location, requested};
use crate::timestamp::Timestamp;
use crate::transfer::{TransferOptions, TransferRequest};

/// Request of a user for a transfer, or for the plan of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SubmitRequest {
    /// Chosen by the client, so that a repeated submission is the same transfer: 32 hexadecimal
    /// digits.
    pub id: TransferId,
    /// Source.
    #[serde(deserialize_with = "requested")]
    pub source: Location,
    /// Target.
    #[serde(deserialize_with = "requested")]
    pub target: Location,
    /// Options.
    #[serde(default)]
    pub options: TransferOptions,
    /// Note of its user, up to 200 characters.
    #[cfg_attr(feature = "openapi", schemars(length(max = 200)))]
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Priority among the transfers of one user, 0 to 100; 50 if it is not given.
    #[cfg_attr(feature = "openapi", schemars(range(max = 100)))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Earliest start; milliseconds are left out. At most a year from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Timestamp>,
    /// Time by which it has to be done. At most a year from now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Deadline>,
    /// Start before all fair shares. For operators.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub urgent: bool,
    /// Seconds without any progress after which an attempt ends, 10 to 86,400; 600 if it is not
    /// given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_timeout_s: Option<u32>,
    /// Most attempts in a row that fail for a reason that may pass, and move nothing. Without a
    /// limit the transfer is retried until it is cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts_max: Option<u32>,
}

impl From<SubmitRequest> for TransferRequest {
    fn from(request: SubmitRequest) -> Self {
        Self {
            id: request.id,
            source: request.source,
            target: request.target,
            options: request.options,
            label: request.label,
            priority: request.priority,
            not_before: request.not_before.map(Timestamp::seconds),
            deadline: request.deadline,
            urgent: request.urgent,
            progress_timeout_s: request.progress_timeout_s,
            attempts_max: request.attempts_max,
        }
    }
}

impl From<TransferRequest> for SubmitRequest {
    fn from(request: TransferRequest) -> Self {
        Self {
            id: request.id,
            source: request.source,
            target: request.target,
            options: request.options,
            label: request.label,
            priority: request.priority,
            not_before: request.not_before.map(Timestamp::of_seconds),
            deadline: request.deadline,
            urgent: request.urgent,
            progress_timeout_s: request.progress_timeout_s,
            attempts_max: request.attempts_max,
        }
    }
}

/// Change of a transfer: a JSON Merge Patch (RFC 7396). An absent field stays as it is; `null`
/// gives it its default.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct TransferPatch {
    /// Note of its user, up to 200 characters; `null` for none.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub label: Option<Option<String>>,
    /// Priority among the transfers of one user, 0 to 100; `null` for the usual one, 50.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub priority: Option<Option<u8>>,
    /// Limits; `null` for none.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub limits: Option<Option<LimitsPatch>>,
    /// Earliest start; `null` for now. It changes nothing once the transfer has started.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Option<Timestamp>>,
}

/// Change of the limits of a transfer, within a [`TransferPatch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LimitsPatch {
    /// Most bits of file content per second; `null` for no limit.
    #[serde(deserialize_with = "given", skip_serializing_if = "Option::is_none")]
    pub rate_bits_per_s: Option<Option<u64>>,
}

/// Reads a field that is there: `null` is a value too.
fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl TransferPatch {
    /// Returns a request as it is after the change.
    #[must_use]
    pub fn applied_to(&self, mut request: TransferRequest) -> TransferRequest {
        if let Some(label) = &self.label {
            request.label = label.clone().unwrap_or_default();
        }
        if let Some(priority) = self.priority {
            request.priority = priority;
        }
        if let Some(start) = self.not_before {
            request.not_before = start.map(Timestamp::seconds);
        }
        if let Some(rate) = self.rate() {
            request.options.limits.rate_bits_per_s = rate;
        }
        request
    }

    /// Returns the new limit of the rate in bits per second, if it changes; `None` within for no
    /// limit.
    pub fn rate(&self) -> Option<Option<u64>> {
        match self.limits? {
            Some(limits) => limits.rate_bits_per_s,
            None => Some(None),
        }
    }

    /// Returns whether nothing but limits changes.
    pub fn is_of_limits(&self) -> bool {
        self.label.is_none() && self.priority.is_none() && self.not_before.is_none()
    }
}

impl From<LimitRequest> for TransferPatch {
    fn from(limit: LimitRequest) -> Self {
        let limits = LimitsPatch { rate_bits_per_s: Some(limit.rate_bits_per_s) };
        Self { limits: Some(Some(limits)), ..Self::default() }
    }
}

/// Query of a list of transfers. An empty text or an absent value lets all transfers through.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct TransferQuery {
    /// States, with commas between them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// A site that is source or target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<Name>,
    /// The name of a store that is source or target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<Name>,
    /// The user that submitted it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Name>,
    /// Part of the label, in any case.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Earliest submission.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Submissions before this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// True for those that have failed, or that wait for what does not come by itself.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub attention: bool,
    /// `-created` for the newest first, which is the default, or `created`.
    #[cfg_attr(
        feature = "openapi",
        schemars(extend("enum" = ["", "-created", "created"]))
    )]
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sort: String,
    /// Value of `next` of the part before. It holds for the same filter and order only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// Most transfers in the answer: 1 to 500, 100 by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl TransferQuery {
    /// Returns the address of the list.
    pub fn uri(&self) -> EndpointUri {
        // Our own types always have a JSON form, of plain values here.
        let fields = serde_json::to_value(self).unwrap_or_default();
        let fields = fields.as_object().cloned().unwrap_or_default();
        fields.into_iter().fold(LIST_TRANSFERS.uri(&[]), |uri, (name, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            uri.query(&name, text)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a patch changes what it names, and `null` takes it away (RFC 7396).
    #[test]
    fn a_patch_changes_what_it_names() {
        let (source, target) = ("lab:raw/a".parse().unwrap(), "hpc:s/a".parse().unwrap());
        let mut request =
            TransferRequest::new(TransferId([7; 16]), source, target, Default::default());
        request.priority = Some(9);
        request.label = "old".to_owned();
        let patched = |json: &str| {
            let patch: TransferPatch = serde_json::from_str(json).unwrap();
            patch.applied_to(request.clone())
        };
        assert_eq!(patched("{}"), request);
        assert_eq!(patched(r#"{"priority": null}"#).priority, None);
        assert_eq!(patched(r#"{"label": "new"}"#).label, "new");
        let slow = patched(r#"{"limits": {"rate_bits_per_s": 9000000}}"#);
        assert_eq!(slow.options.limits.rate_bits_per_s, Some(9_000_000));
        assert_eq!(patched(r#"{"limits": null}"#), request);
        assert_eq!(patched(r#"{"not_before": "1970-01-01T00:00:05Z"}"#).not_before, Some(5));
        assert!(serde_json::from_str::<TransferPatch>(r#"{"source": "a:b/c"}"#).is_err());
        let again = TransferPatch { label: Some(None), ..TransferPatch::default() };
        assert_eq!(serde_json::to_string(&again).unwrap(), r#"{"label":null}"#);
    }

    /// Promise: a query asks for what it names, and for nothing else.
    #[test]
    fn a_query_is_an_address() {
        assert_eq!(TransferQuery::default().uri().as_str(), "/api/v1/transfers");
        let query = TransferQuery {
            state: "queued,running".to_owned(),
            since: Some(Timestamp::of_ms(0)),
            attention: true,
            limit: Some(5),
            ..TransferQuery::default()
        };
        let uri = query.uri();
        for part in [
            "state=queued%2Crunning",
            "since=1970-01-01T00%3A00%3A00.000Z",
            "attention=true",
            "limit=5",
        ] {
            assert!(uri.as_str().contains(part), "{}", uri.as_str());
        }
    }
}
