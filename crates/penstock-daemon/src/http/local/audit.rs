//! The audit log: as a part of the list, or as a stream of lines.

use axum::body::{Body, Bytes};
use axum::extract::{Extension, Json, State};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use penstock_api::access::{Principal, Right};
use penstock_api::rest::{AUDIT_LINES_MAX, AuditFilter, AuditList, AuditQuery};

use crate::http::reply::{ProblemReply, blocking, name_silent};
use crate::http::request::Params;
use crate::operations::audit::AuditTrail;

/// Media type of JSON Lines.
const LINES: &str = "application/jsonl";

/// Lists the lines that the query selects. Without the right to the audit log a user sees its own.
pub(super) async fn list(
    State(trail): State<AuditTrail>,
    Extension(caller): Extension<Principal>,
    headers: HeaderMap,
    Params(mut query): Params<AuditQuery>,
) -> Result<Response, ProblemReply> {
    if caller.check(Right::Audit).is_err() {
        if query.actor.as_ref().is_some_and(|actor| *actor != caller.user) {
            caller.require(Right::Audit)?;
        }
        query.actor = Some(caller.user);
    }
    let filter = query.filter();
    let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let is_stream = accepts.is_some_and(|accepts| accepts.contains(LINES));
    if !is_stream {
        let (cursor, limit) = (query.cursor, query.limit);
        let list = blocking(move || trail.list(&filter, cursor.as_deref(), limit)).await?;
        return Ok(Json(list).into_response());
    }
    lines(trail, filter, query.cursor, query.limit).await
}

/// Streams all lines, or `limit` of them; reads on as they are taken.
async fn lines(
    trail: AuditTrail,
    filter: AuditFilter,
    cursor: Option<String>,
    limit: Option<u32>,
) -> Result<Response, ProblemReply> {
    let reading = Reading { trail, filter, left: limit };
    let first = reading.part(cursor).await?;
    let silent = first.silent.clone();
    let state = Some((reading, first));
    let parts = stream::unfold(state, async |state| {
        let (mut reading, part) = state?;
        let mut text = Vec::new();
        for entry in &part.items {
            // Our own types always have a JSON form.
            text.extend(serde_json::to_vec(entry).unwrap_or_default());
            text.push(b'\n');
        }
        reading.left = reading.left.map(|left| left.saturating_sub(part.items.len() as u32));
        let next = match part.next {
            Some(next) if reading.left != Some(0) => match reading.part(Some(next)).await {
                Ok(part) => Some((reading, part)),
                Err(ProblemReply(problem)) => {
                    return Some((Err(std::io::Error::other(problem)), None));
                }
            },
            _ => None,
        };
        Some((Ok(Bytes::from(text)), next))
    });
    let mut response = Body::from_stream(parts).into_response();
    let kind = HeaderValue::from_static(LINES);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    name_silent(&mut response, &silent);
    Ok(response)
}

struct Reading {
    trail: AuditTrail,
    filter: AuditFilter,
    /// Lines that may still be sent; none if that is not limited.
    left: Option<u32>,
}

impl Reading {
    async fn part(&self, cursor: Option<String>) -> Result<AuditList, ProblemReply> {
        let (trail, filter) = (self.trail.clone(), self.filter.clone());
        let limit = self.left.map_or(AUDIT_LINES_MAX, |left| left.clamp(1, AUDIT_LINES_MAX));
        blocking(move || trail.list(&filter, cursor.as_deref(), Some(limit))).await
    }
}
