//! The audit logs of all peers of the site as one list, newest first.
//!
//! Each peer has the lines of the requests that it took ([`crate::access::audit_log`]). The one
//! that is asked puts them together; a peer that is silent is named, as its lines are missing.

mod reader;

use std::collections::VecDeque;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRef, Json, State};
use axum::routing::post;
use data_encoding::BASE64URL_NOPAD;
use penstock_api::access::AuditLine;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::{
    AUDIT_LINES_MAX, AuditAsk, AuditEntry, AuditFilter, AuditList, AuditPart, AuditPlaces,
    AuditPosition,
};
use penstock_proto::id::Name;

use super::routes::OwnPeer;
use super::{ASK, Operate};
use crate::http::reply::{Reply, blocking};
use crate::http::request::Body;

/// The audit logs of the site.
#[derive(Clone)]
pub(crate) struct AuditTrail(pub(crate) Arc<Operate>);

impl FromRef<AuditTrail> for Arc<Operate> {
    fn from_ref(trail: &AuditTrail) -> Self {
        Arc::clone(&trail.0)
    }
}

impl AuditTrail {
    /// Returns the routes of requests that any peer answers for other peers of its site.
    pub(crate) fn remote(&self) -> Router {
        Router::new().route("/peer/v1/own/audit", post(own_part)).with_state(self.clone())
    }

    /// Returns a part of the list. Blocks for [`ASK`] at most, and on the own disk.
    ///
    /// # Errors
    /// `query`: the limit is out of range; `cursor`: it is of another selection, or none.
    pub(crate) fn list(
        &self,
        filter: &AuditFilter,
        cursor: Option<&str>,
        limit: Option<u32>,
    ) -> Result<AuditList, Problem> {
        let limit = limit.unwrap_or(AUDIT_LINES_MAX);
        if !(1..=AUDIT_LINES_MAX).contains(&limit) {
            let title = format!("the limit of lines is {limit}, not from 1 to {AUDIT_LINES_MAX}");
            return Err(Problem::new(ProblemCode::Query, title));
        }
        let before = match cursor {
            None => AuditPlaces::new(),
            Some(text) => decode(text, filter)?,
        };
        let ask = AuditAsk { filter: filter.clone(), before, limit };
        let mut parts = vec![(self.0.own().clone(), self.own_part(&ask)?)];
        let mut silent = Vec::new();
        let peers = &self.0.now().peers;
        for (peer, answer) in self.0.ask_all_with::<AuditPart>(peers, "/audit", &ask, ASK) {
            match answer {
                Ok((part, _)) => parts.push((peer, part)),
                Err(_) => silent.push(peer),
            }
        }
        let (items, next) = merge(parts, ask.before, limit as usize);
        let next = next.map(|places| encode(&places, filter));
        Ok(AuditList { items, next, silent })
    }

    /// Returns lines of this peer. Blocks on its disk.
    fn own_part(&self, ask: &AuditAsk) -> Result<AuditPart, Problem> {
        let place = ask.before.get(self.0.own());
        if place == Some(&None) {
            return Ok(AuditPart::default());
        }
        let place = place.and_then(Option::as_ref);
        let limit = ask.limit.min(AUDIT_LINES_MAX) as usize;
        let part = reader::lines_before(&self.0.site.directory, &ask.filter, place, limit);
        part.map_err(|error| {
            let title = "the audit log cannot be read";
            Problem::new(ProblemCode::AuditLog, title).because(error)
        })
    }
}

async fn own_part(
    State(trail): State<AuditTrail>,
    _: OwnPeer,
    Body(ask): Body<AuditAsk>,
) -> Reply<AuditPart> {
    blocking(move || trail.own_part(&ask)).await.map(Json)
}

/// A part of one peer while it is merged.
struct Source {
    peer: Name,
    lines: VecDeque<(AuditLine, AuditPosition)>,
    /// The place before which its next line is looked for.
    place: Option<AuditPosition>,
    /// The next such place, once all lines are taken.
    next: Option<AuditPosition>,
    is_untouched: bool,
}

/// Puts parts of several peers together, newest first, up to `limit` lines. Returns the places of
/// the next part too; none if no peer has older lines. A peer whose lines are all taken and that
/// may have older ones ends the part, so that no later line comes before an earlier one.
fn merge(
    parts: Vec<(Name, AuditPart)>,
    mut places: AuditPlaces,
    limit: usize,
) -> (Vec<AuditEntry>, Option<AuditPlaces>) {
    let source = |(peer, part): (Name, AuditPart)| Source {
        place: places.get(&peer).cloned().flatten(),
        is_untouched: !places.contains_key(&peer),
        peer,
        lines: part.lines.into(),
        next: part.next,
    };
    let mut sources: Vec<_> = parts.into_iter().map(source).collect();
    let mut items = Vec::new();
    while items.len() < limit {
        let has_more = |source: &Source| source.lines.is_empty() && source.next.is_some();
        if sources.iter().any(has_more) {
            break;
        }
        let head = |source: &Source| source.lines.front().map(|(line, _)| line.at_ms);
        let newest = sources.iter_mut().filter(|source| !source.lines.is_empty());
        let Some(newest) = newest.max_by_key(|source| head(source)) else { break };
        let Some((line, place)) = newest.lines.pop_front() else { break };
        newest.place = Some(place);
        newest.is_untouched = false;
        items.push(AuditEntry::of(&newest.peer, line));
    }
    let mut is_end = true;
    for source in sources {
        let place = match source.lines.is_empty() {
            true => source.next,
            false if source.is_untouched => {
                is_end = false;
                continue;
            }
            false => source.place,
        };
        is_end &= place.is_none();
        places.insert(source.peer, place);
    }
    (items, (!is_end).then_some(places))
}

/// Returns the mark of a selection.
fn mark(filter: &AuditFilter) -> String {
    let text = serde_json::to_vec(filter).unwrap_or_default();
    blake3::hash(&text).to_hex()[..MARK_DIGITS].to_owned()
}

/// Digits of the mark of a selection.
const MARK_DIGITS: usize = 16;

fn encode(places: &AuditPlaces, filter: &AuditFilter) -> String {
    // Names and numbers always have a JSON form.
    let text = serde_json::to_vec(&(mark(filter), places)).unwrap_or_default();
    BASE64URL_NOPAD.encode(&text)
}

fn decode(text: &str, filter: &AuditFilter) -> Result<AuditPlaces, Problem> {
    let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).ok();
    let read = bytes.and_then(|bytes| serde_json::from_slice::<(String, AuditPlaces)>(&bytes).ok());
    let wrong = |title| {
        Problem::new(ProblemCode::Cursor, title).hint("read the audit log again from its end")
    };
    match read {
        None => Err(wrong("the cursor is not one that the audit log gave")),
        Some((of, _)) if of != mark(filter) => Err(wrong("the cursor is of another selection")),
        Some((_, places)) => Ok(places),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(times: &[u64], next: Option<u64>) -> AuditPart {
        let line = |at_ms: &u64| AuditLine {
            at_ms: *at_ms,
            user: "anna".parse().unwrap(),
            via: String::new(),
            from: String::new(),
            request: String::new(),
            status: 200,
            request_id: at_ms.to_string(),
            previous: String::new(),
            digest: String::new(),
        };
        let lines = times.iter().map(|at| (line(at), position(*at))).collect();
        AuditPart { lines, next: next.map(position) }
    }

    fn position(offset: u64) -> AuditPosition {
        AuditPosition { file: "f".to_owned(), offset }
    }

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    /// Promise (C9): lines of several peers are in the order of time, and none is lost at the end
    /// of a part. A peer that has read little holds back older lines of the others.
    #[test]
    fn c9_lines_of_peers_are_put_together() {
        let ids = |items: &[AuditEntry]| {
            items.iter().map(|item| item.request_id.clone()).collect::<Vec<_>>().join(" ")
        };
        let both = |limit| {
            let parts =
                vec![(name("a"), part(&[9, 5, 4], None)), (name("b"), part(&[8, 7, 1], Some(1)))];
            let (items, next) = merge(parts, AuditPlaces::new(), limit);
            (ids(&items), next)
        };
        let (items, next) = both(3);
        assert_eq!(items, "9 8 7");
        let expected = [(name("a"), Some(position(9))), (name("b"), Some(position(7)))];
        assert_eq!(next, Some(expected.into()));
        let (items, next) = both(9);
        assert_eq!(items, "9 8 7 5 4 1");
        assert_eq!(next, Some([(name("a"), None), (name("b"), Some(position(1)))].into()));
        let (items, next) = both(1);
        assert_eq!(items, "9");
        assert_eq!(next, Some([(name("a"), Some(position(9)))].into()), "b begins at its end");
        let parts = vec![(name("a"), part(&[9], None)), (name("b"), part(&[], Some(3)))];
        let (items, next) = merge(parts, AuditPlaces::new(), 9);
        assert_eq!((items.len(), next), (0, Some([(name("b"), Some(position(3)))].into())));
        let parts = vec![(name("a"), part(&[9], None)), (name("b"), part(&[], None))];
        let (items, next) = merge(parts, AuditPlaces::new(), 9);
        assert_eq!((items.len(), next), (1, None));
        let filter = AuditFilter::default();
        let places = AuditPlaces::from([(name("a"), None), (name("b"), Some(position(3)))]);
        let text = encode(&places, &filter);
        assert_eq!(decode(&text, &filter), Ok(places));
        let other = AuditFilter { since_ms: Some(1), ..filter };
        assert_eq!(decode(&text, &other).unwrap_err().code, ProblemCode::Cursor);
    }
}
