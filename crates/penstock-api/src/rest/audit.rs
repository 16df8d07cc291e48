//! The audit log as users read it: lines of all peers, newest first, selected and in parts.

use std::collections::BTreeMap;

use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

use crate::access::AuditLine;
use crate::endpoints;
use crate::timestamp::Timestamp;

/// Most lines in one answer, and their number unless a request says another.
pub const AUDIT_LINES_MAX: u32 = 500;

/// Header of a stream or a table with the names of peers whose part is missing, with commas between
/// them; absent if there are none.
pub const SILENT_HEADER: &str = "penstock-silent-peers";

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum AuditResult {
    /// It was carried out.
    Done,
    /// The user lacked a right to it.
    Refused,
    /// It failed for another reason.
    Failed,
}

impl AuditResult {
    /// Returns the result that an HTTP status says.
    pub fn of(status: u16) -> Self {
        match status {
            ..=399 => Self::Done,
            401 | 403 => Self::Refused,
            _ => Self::Failed,
        }
    }

    /// Returns the word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Failed => "failed",
        }
    }
}

/// A line of the audit log of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AuditEntry {
    /// Time of the request.
    pub at: Timestamp,
    /// The peer that took the request.
    pub peer: Name,
    /// The user.
    pub actor: Name,
    /// The user id at the socket, or the token.
    #[serde(deserialize_with = "crate::text::field")]
    pub via: String,
    /// Address of the client; empty for the socket.
    #[serde(deserialize_with = "crate::text::field")]
    pub from: String,
    /// Id of the operation, such as `submit_transfer`; empty if the API has no such operation.
    #[serde(deserialize_with = "crate::text::field")]
    pub action: String,
    /// Names in the path of the request, joined by `/`, such as a user or a transfer; empty if it
    /// has none.
    #[serde(deserialize_with = "crate::text::field")]
    pub object: String,
    /// The result.
    pub result: AuditResult,
    /// HTTP status of the answer.
    pub status: u16,
    /// Method and path of the request.
    #[serde(deserialize_with = "crate::text::field")]
    pub request: String,
    /// Identifier of the request, as the client was told.
    #[serde(deserialize_with = "crate::text::field")]
    pub request_id: String,
    /// Digest of the line in the chain of that peer.
    #[serde(deserialize_with = "crate::text::field")]
    pub digest: String,
}

/// A part of the audit log, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct AuditList {
    /// The lines. A rare selection gives fewer than were asked for, perhaps none.
    pub items: Vec<AuditEntry>,
    /// Value of `cursor` for the next part; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Peers that did not answer: their lines are missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<Name>,
}

/// Request for a part of the audit log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct AuditQuery {
    /// Only requests of this user.
    #[serde(default)]
    pub actor: Option<Name>,
    /// Only this operation, by its id.
    #[serde(default)]
    pub action: Option<String>,
    /// Only requests whose path names this object.
    #[serde(default)]
    pub object: Option<String>,
    /// Only requests with this result.
    #[serde(default)]
    pub result: Option<AuditResult>,
    /// Only requests at this time or later.
    #[serde(default)]
    pub since: Option<Timestamp>,
    /// Only requests before this time.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// `next` of the part before, with the same selection; absent for the first one.
    #[serde(default)]
    pub cursor: Option<String>,
    /// Most lines in the answer, 1 to [`AUDIT_LINES_MAX`].
    #[serde(default)]
    pub limit: Option<u32>,
}

/// The selection of a request, as peers ask each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditFilter {
    /// See [`AuditQuery::actor`].
    pub actor: Option<Name>,
    /// See [`AuditQuery::action`].
    pub action: Option<String>,
    /// See [`AuditQuery::object`].
    pub object: Option<String>,
    /// See [`AuditQuery::result`].
    pub result: Option<AuditResult>,
    /// The first time, in milliseconds since 1970.
    pub since_ms: Option<u64>,
    /// The time before which they were, in milliseconds since 1970.
    pub until_ms: Option<u64>,
}

/// A place in the audit log of one peer: between two lines. It stays the same when the file is put
/// aside.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AuditPosition {
    /// First digits of the digest of the file's first line.
    pub file: String,
    /// Bytes before the place.
    pub offset: u64,
}

/// Places in the logs of several peers. A log ends at its place; one without a place is read from
/// its end, and one whose place is `None` was read to its begin.
pub type AuditPlaces = BTreeMap<Name, Option<AuditPosition>>;

/// Request of a peer for lines of another peer's log that are older than a place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditAsk {
    /// The selection.
    pub filter: AuditFilter,
    /// The places of all peers.
    pub before: AuditPlaces,
    /// Most lines.
    pub limit: u32,
}

/// Lines of one peer's log, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditPart {
    /// The lines, each with the place before it.
    pub lines: Vec<(AuditLine, AuditPosition)>,
    /// The place before which older lines may be found; absent if there are none.
    pub next: Option<AuditPosition>,
}

impl AuditEntry {
    /// Returns a line of a peer's log as users see it.
    pub fn of(peer: &Name, line: AuditLine) -> Self {
        let (action, object) = named(&line.request);
        Self {
            at: Timestamp::of_ms(line.at_ms),
            peer: peer.clone(),
            actor: line.user,
            via: line.via,
            from: line.from,
            action,
            object,
            result: AuditResult::of(line.status),
            status: line.status,
            request: line.request,
            request_id: line.request_id,
            digest: line.digest,
        }
    }
}

/// Returns operation and object of the method and path of a request.
fn named(request: &str) -> (String, String) {
    let found = request.split_once(' ').and_then(|(method, path)| endpoints::find(method, path));
    let (endpoint, values) = found.unzip();
    let action = endpoint.map(|endpoint| endpoint.name.to_lowercase()).unwrap_or_default();
    (action, values.unwrap_or_default().join("/"))
}

impl AuditQuery {
    /// Returns the selection.
    pub fn filter(&self) -> AuditFilter {
        AuditFilter {
            actor: self.actor.clone(),
            action: self.action.clone(),
            object: self.object.clone(),
            result: self.result,
            since_ms: self.since.map(Timestamp::ms),
            until_ms: self.until.map(Timestamp::ms),
        }
    }
}

impl AuditFilter {
    /// Returns whether a line is selected.
    pub fn selects(&self, line: &AuditLine) -> bool {
        if self.actor.as_ref().is_some_and(|actor| *actor != line.user)
            || self.result.is_some_and(|result| result != AuditResult::of(line.status))
            || self.since_ms.is_some_and(|since| line.at_ms < since)
            || self.until_ms.is_some_and(|until| line.at_ms >= until)
        {
            return false;
        }
        if self.action.is_none() && self.object.is_none() {
            return true;
        }
        let (action, object) = named(&line.request);
        self.action.as_ref().is_none_or(|wanted| *wanted == action)
            && self.object.as_ref().is_none_or(|wanted| *wanted == object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(request: &str, status: u16) -> AuditLine {
        AuditLine {
            at_ms: 1000,
            user: "anna".parse().unwrap(),
            via: "token 0011223344556677".to_owned(),
            from: "10.0.0.1".to_owned(),
            request: request.to_owned(),
            status,
            request_id: "7".to_owned(),
            previous: String::new(),
            digest: "9f".to_owned(),
        }
    }

    /// Promise (C9): a line names operation, object and result in words, and a selection by each of
    /// them leaves out all others.
    #[test]
    fn c9_lines_are_selected_by_what_they_say() {
        let peer = "h1".parse().unwrap();
        let entry = AuditEntry::of(&peer, line("PUT /api/v1/users/ben", 200));
        assert_eq!((&*entry.action, &*entry.object), ("put_user", "ben"));
        assert_eq!((entry.at.ms(), entry.result), (1000, AuditResult::Done));
        let nothing = AuditEntry::of(&peer, line("BREW /pot", 404));
        assert_eq!((&*nothing.action, nothing.result), ("", AuditResult::Failed));
        let selects = |query: AuditQuery, of: &AuditLine| query.filter().selects(of);
        let refused = line("POST /api/v1/stores/raw/directories", 403);
        let of = |change: fn(&mut AuditQuery)| {
            let mut query = AuditQuery::default();
            change(&mut query);
            (selects(query.clone(), &refused), selects(query, &line("PUT /api/v1/users/ben", 200)))
        };
        assert_eq!(of(|_| ()), (true, true));
        assert_eq!(of(|query| query.action = Some("make_directory".to_owned())), (true, false));
        assert_eq!(of(|query| query.object = Some("ben".to_owned())), (false, true));
        assert_eq!(of(|query| query.result = Some(AuditResult::Refused)), (true, false));
        assert_eq!(of(|query| query.actor = Some("ben".parse().unwrap())), (false, false));
        let second = || Some(Timestamp::of_seconds(1));
        let times = |query: AuditQuery| selects(query, &refused);
        assert!(times(AuditQuery { since: second(), ..AuditQuery::default() }));
        assert!(!times(AuditQuery { until: second(), ..AuditQuery::default() }));
    }
}
