//! Keeps the requests of paired sites within their budgets ([`crate::access::budget`]).

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_proto::id::Name;
use tokio::time::{Instant, timeout_at};

use super::connection::Connection;
use super::reply::ProblemReply;
use super::reply::held_body::held_body;
use super::request::BODY_BYTES_MAX;
use crate::access::budget::{Budget, Duty, Place, SHORT_BYTES_MAX};
use crate::site::context::Site;
use crate::site::grants::how_to_grant;

/// Seconds after which a client that got no place may ask again.
const RETRY_AFTER_S: u32 = 5;
/// The time that a body of at most [`SHORT_BYTES_MAX`] may take.
const SHORT_DEADLINE: Duration = Duration::from_secs(20);
/// The time that a list may take.
const LIST_DEADLINE: Duration = Duration::from_secs(60);
/// Items that a list may have: each takes memory of its own beside its bytes.
const ITEMS_MAX: usize = 2_000_000;

/// Keeps the requests of a paired site within its budget: each has a place until its answer is
/// sent. The body is read here, once there is room for it, and only for a site with any right to
/// read or write.
pub(crate) async fn keep_within(
    State(site): State<Arc<Site>>,
    request: Request,
    next: Next,
) -> Response {
    let connection = request.extensions().get::<Connection>();
    let peer = connection.and_then(|connection| connection.peer.as_ref());
    let Some(peer) = peer.filter(|peer| site.is_paired_by(peer)) else {
        return next.run(request).await;
    };
    let budget = site.budgets.of(&peer.peer.site);
    let reply = within(&site, &budget, request, next).await;
    let mut reply = reply.unwrap_or_else(|problem| ProblemReply(problem).into_response());
    if reply.status() == StatusCode::SERVICE_UNAVAILABLE {
        reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
    }
    reply
}

async fn within(
    site: &Site,
    budget: &Budget,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let place = budget.enter(Duty::Request).await?;
    let (request, _body) = if request.body().is_end_stream() {
        (request, None)
    } else {
        let bytes_max = longest(site, &budget.site, request.uri().path())?;
        let (request, body) = take_body(budget, bytes_max, request).await?;
        (request, Some(body))
    };
    let response = next.run(request).await;
    Ok(response.map(|inner| held_body(inner, place)))
}

/// Returns the longest body of a request of a site to this path.
///
/// # Errors
/// The site has no right to anything there: its body is not read.
fn longest(site: &Site, caller: &Name, path: &str) -> Result<usize, Problem> {
    let path = path.strip_prefix("/site/v1/").unwrap_or(path);
    let parts: Vec<_> = path.split('/').collect();
    let allowed = match parts[..] {
        ["transfers"] | ["plans", ..] => site.may_write_any(caller),
        ["scans"] => site.may_read_any(caller),
        ["scans", _, "receipt"] => true,
        _ => return Ok(SHORT_BYTES_MAX),
    };
    if allowed {
        return Ok(BODY_BYTES_MAX);
    }
    let own = &site.config.site;
    let refused = |title: String, hint| Problem::new(ProblemCode::NotExported, title).hint(hint);
    if parts[0] == "scans" {
        let title = format!("site `{caller}` may not read from any store of `{own}`");
        let hint = "an operator there can list the site under `read` of a store in penstock.toml";
        return Err(refused(title, hint.to_owned()));
    }
    let title = format!("site `{caller}` may not write to any store of `{own}`");
    Err(refused(title, how_to_grant(own, caller, "write", "STORE")))
}

/// Reads the body of a request, for which there is room then.
async fn take_body(
    budget: &Budget,
    bytes_max: usize,
    request: Request,
) -> Result<(Request, (Place, Option<Place>)), Problem> {
    let said = request.body().size_hint().exact().map(|bytes| bytes as usize);
    let too_long = || {
        let title = format!("the request's body is longer than {bytes_max} bytes");
        Problem::new(ProblemCode::Body, title).status(413)
    };
    if said.is_some_and(|bytes| bytes > bytes_max) {
        return Err(too_long());
    }
    // A body without a stated length may have the greatest one.
    let bytes = said.unwrap_or(bytes_max);
    let room = budget.bodies.enter(bytes).await.ok_or_else(|| budget.busy("bytes of requests"))?;
    let patience = if bytes > SHORT_BYTES_MAX { LIST_DEADLINE } else { SHORT_DEADLINE };
    let deadline = Instant::now() + patience;
    let (parts, body) = request.into_parts();
    let mut stream = body.into_data_stream();
    let mut taken = Vec::new();
    loop {
        let part = timeout_at(deadline, stream.next()).await.map_err(|_| {
            let title = format!("the request's body was not here within {} s", patience.as_secs());
            Problem::new(ProblemCode::Body, title).status(408)
        })?;
        let Some(part) = part else { break };
        let part = part.map_err(|error| {
            Problem::new(ProblemCode::Body, "the request's body broke off").because(error)
        })?;
        if taken.len() + part.len() > bytes {
            return Err(too_long());
        }
        if taken.capacity() == 0 {
            taken.reserve_exact(said.unwrap_or(0));
        }
        taken.extend_from_slice(&part);
    }
    let is_plan = parts.uri.path().contains("/plans/");
    if !is_plan && items_in(&taken) > ITEMS_MAX {
        let title = format!("the request's body has more than {ITEMS_MAX} items");
        return Err(Problem::new(ProblemCode::Body, title).status(413));
    }
    Ok((Request::from_parts(parts, Body::from(taken)), room))
}

/// Returns the number of items of the lists in a JSON text, or more: a comma within a name counts
/// too.
fn items_in(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte == b',').count()
}
