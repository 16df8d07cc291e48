//! The client of a request of the API: its principal, its address, the id of its request.
//!
//! Layers lie around the router, from the outside: [`identify`] sets the id of each request,
//! [`super::origin`] finds the address and the host, [`record`] writes the audit log, and
//! [`authenticate`] finds the principal. The rights of the principal are checked by the route
//! itself.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use data_encoding::HEXLOWER;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use penstock_api::access::{AuditLine, Principal, SESSION_COOKIE, SessionCookie, Via};
use penstock_api::endpoints::{BEGIN_OIDC, BODY_BYTES, END_OIDC, FINISH_OIDC, GET_METRICS};
use penstock_api::problem::{Problem, ProblemCode};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::origin::check_page;
use super::reply::ProblemReply;
use super::reply::held_body::held_body;
use super::reply::problem_reply::{Answered, detailed};
use crate::access::admission::RefusedKind;
use crate::access::audit_log::AuditLog;
use crate::access::authentication::unauthenticated;
use crate::access::login::ClientOrigin;
use crate::events::log::now_ms;
use crate::site::context::Site;

/// Header with the id of a request, which its answer repeats.
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
/// Header with the release of this daemon.
const VERSION: HeaderName = HeaderName::from_static("penstock-version");
/// Longest id that is taken over from a client.
const REQUEST_ID_MAX: usize = 64;
/// Most bytes of the head of a request, of its names and values.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// Interval at which the token or session of a stream of events is checked again.
const TOKEN_LOOK: Duration = Duration::from_secs(1);
/// Most characters of the path of a request in the audit log.
const PATH_CHARS_MAX: usize = 256;

/// Attributes of the cookie: no script reads it, it goes over HTTPS only, to this host only, and
/// with requests of this site's own pages only (RFC 6265bis, 4.1.2).
const ATTRIBUTES: &str = "Path=/; Secure; HttpOnly; SameSite=Strict";

/// The id of a request.
#[derive(Clone, Debug)]
pub(crate) struct RequestId(String);

/// Mark of a request from an address that may read metrics without a token (`metrics_from`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetricsReader;

/// The client at the other end of an HTTPS connection.
#[derive(Clone, Debug)]
pub(crate) struct WebClient {
    /// Set once a request over the connection carried an accepted token or cookie.
    pub(crate) proof: Proof,
}

/// Proof that a connection has carried accepted credentials: its place among the connections of the
/// first user whose they were.
#[derive(Clone, Debug)]
pub(crate) struct Proof(watch::Sender<Option<Arc<OwnedSemaphorePermit>>>);

impl Default for Proof {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Proof {
    fn is_given(&self) -> bool {
        self.0.borrow().is_some()
    }

    fn give(&self, place: OwnedSemaphorePermit) {
        self.0.send_replace(Some(Arc::new(place)));
    }

    /// Waits until it is given.
    pub(crate) async fn given(&self) {
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }
}

/// Sets the id of a request: its own, if that is valid. Every answer has that id, the release of
/// this daemon, and, if it is an error, problem details (RFC 9457).
pub(crate) async fn identify(mut request: Request, next: Next) -> Response {
    let sane = |value: &&str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        (1..=REQUEST_ID_MAX).contains(&value.len()) && value.bytes().all(allowed)
    };
    let own = request.headers().get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let id = own.filter(sane).map_or_else(random_id, str::to_owned);
    let answered = Answered {
        id: id.clone(),
        method: request.method().to_string(),
        path: request.uri().path().chars().take(PATH_CHARS_MAX).collect(),
        wants_page: wants_page(&request),
    };
    if let Ok(value) = HeaderValue::from_str(&id) {
        // The controller logs the request under the same id.
        request.headers_mut().insert(REQUEST_ID, value);
    }
    request.extensions_mut().insert(RequestId(id.clone()));
    let response = match check_head(&request) {
        Ok(()) => next.run(request).await,
        Err(problem) => ProblemReply(problem).into_response(),
    };
    let mut response = detailed(response, &answered).await;
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value);
    }
    headers.insert(VERSION, HeaderValue::from_static(env!("CARGO_PKG_VERSION")));
    let never = HeaderValue::from_static("no-store");
    headers.entry(header::CACHE_CONTROL).or_insert(never);
    response
}

/// Returns whether a person reads the answer: a browser opens an address of a log-in.
fn wants_page(request: &Request) -> bool {
    let pages = [&BEGIN_OIDC, &FINISH_OIDC, &END_OIDC];
    let accepts = request.headers().get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let accepts_page = accepts.is_some_and(|accepts| accepts.contains("text/html"));
    accepts_page && pages.iter().any(|page| page.path == request.uri().path())
}

/// Checks that the head of a request is not too long.
fn check_head(request: &Request) -> Result<(), Problem> {
    let headers = request.headers().iter();
    let headers: usize = headers.map(|(name, value)| name.as_str().len() + value.len()).sum();
    let line = request.uri().path_and_query().map_or(0, |path| path.as_str().len());
    if headers + line <= HEAD_BYTES_MAX {
        return Ok(());
    }
    let title = format!("the head of a request has at most {} KiB", HEAD_BYTES_MAX >> 10);
    Err(Problem::new(ProblemCode::HeadTooLong, title))
}

fn random_id() -> String {
    HEXLOWER.encode(&rand::random::<[u8; 8]>())
}

/// Finds the principal of a request over HTTPS. A request without credentials has none, and reaches
/// public routes alone.
pub(crate) async fn authenticate(
    State(site): State<Arc<Site>>,
    request: Request,
    next: Next,
) -> Response {
    let found = match site.authentication.prove(request.headers()) {
        Ok(found) => found,
        Err(problem) => {
            if let Some(from) = origin_of(&request).from {
                site.admission.note_refused(from, RefusedKind::Token, &problem.detail);
            }
            return challenge(ProblemReply(problem).into_response());
        }
    };
    let has_cookie = found.as_ref().is_some_and(|user| matches!(user.via, Via::Session { .. }));
    if let Err(problem) = check_page(&request, has_cookie) {
        let mut response = ProblemReply(problem).into_response();
        found.map(|principal| response.extensions_mut().insert(principal));
        return response;
    }
    match found {
        Some(principal) => run_as(principal, site, request, next).await,
        None => run_without(&site, request, next).await,
    }
}

/// Runs a request without credentials; one from an address that may read metrics may do that.
async fn run_without(site: &Site, mut request: Request, next: Next) -> Response {
    let config = site.settings.now();
    let web = config.web.as_ref();
    let may_read = |from: IpAddr| web.is_some_and(|web| web.may_read_metrics(from));
    let from = origin_of(&request).from;
    if request.uri().path() == GET_METRICS.path && from.is_some_and(may_read) {
        request.extensions_mut().insert(MetricsReader);
        let client = request.extensions().get::<WebClient>();
        if let Some(client) = client.filter(|client| !client.proof.is_given()) {
            let Some(place) = site.authentication.reader_place() else {
                return too_many("connections");
            };
            client.proof.give(place);
        }
    }
    next.run(request).await
}

/// Runs a request of a principal, within the places of its user.
async fn run_as(principal: Principal, site: Arc<Site>, request: Request, next: Next) -> Response {
    if let Some(client) = request.extensions().get::<WebClient>()
        && !client.proof.is_given()
    {
        let Some(place) = site.authentication.connection_place(&principal.user) else {
            return too_many("connections");
        };
        client.proof.give(place);
    }
    let headers = request.headers().clone();
    let (judge, credentials, expected) = (Arc::clone(&site), headers.clone(), principal.clone());
    let is_valid: IsValid = Box::new(move || {
        let found = judge.authentication.prove(&credentials).ok().flatten();
        let is_same = found.as_ref() == Some(&expected);
        Box::pin(std::future::ready(is_same))
    });
    let mut response = run_within_places(principal.clone(), &site, request, next, is_valid).await;
    let by_session = matches!(principal.via, Via::Session { .. });
    if by_session
        && !response.headers().contains_key(header::SET_COOKIE)
        && let Some((cookie, left)) = site.authentication.renewed_cookie(&headers)
    {
        response.headers_mut().insert(header::SET_COOKIE, set_cookie(&cookie, left));
    }
    response
}

/// Checks whether the principal of a stream still has the rights that it had at its begin.
pub(crate) type IsValid = Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

/// Runs a request of a principal within the places of its user, and names the principal in the
/// answer. A stream of events ends when `is_valid` says no.
pub(crate) async fn run_within_places(
    principal: Principal,
    site: &Site,
    mut request: Request,
    next: Next,
    is_valid: IsValid,
) -> Response {
    let is_long = is_long(request.body().size_hint().upper());
    let Some(place) = site.authentication.request_place(&principal.user, is_long) else {
        return too_many("requests under way");
    };
    request.extensions_mut().insert(principal.clone());
    let response = next.run(request).await;
    let mut response = while_valid(response, is_valid, place);
    // A log-in has a principal of its own.
    if response.extensions().get::<Principal>().is_none() {
        response.extensions_mut().insert(principal);
    }
    response
}

/// Returns whether a body of at most so many bytes counts as a long one; an unknown number does.
fn is_long(most: Option<u64>) -> bool {
    most.is_none_or(|most| most > BODY_BYTES as u64)
}

/// Returns the origin of a request; an empty one at the Unix socket.
pub(crate) fn origin_of(request: &Request) -> ClientOrigin {
    request.extensions().get::<ClientOrigin>().cloned().unwrap_or_default()
}

/// Ends a stream of events when its principal has other rights than at its begin, or none. The
/// place of the request among those of its user is held until the body is sent.
fn while_valid(response: Response, is_valid: IsValid, place: OwnedSemaphorePermit) -> Response {
    let kind = response.headers().get(header::CONTENT_TYPE);
    let kind = kind.map_or(&b""[..], HeaderValue::as_bytes);
    let is_stream = [&b"text/event-stream"[..], b"application/jsonl"].contains(&kind);
    if !is_stream {
        return response.map(|body| held_body(body, place));
    }
    let changed = async move {
        let _place = place;
        loop {
            tokio::time::sleep(TOKEN_LOOK).await;
            if !is_valid().await {
                return;
            }
        }
    };
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(changed))))
}

/// Returns the answer to a request of a user that has too many connections or requests.
fn too_many(of: &str) -> Response {
    let title = format!("the user has too many {of}");
    let problem = Problem::new(ProblemCode::Busy, title).status(429).hint("wait for some to end");
    ProblemReply(problem).into_response()
}

/// Returns the answer to a request that needs a principal and has none.
pub(crate) fn no_principal() -> Response {
    challenge(ProblemReply(unauthenticated()).into_response())
}

fn challenge(mut response: Response) -> Response {
    let scheme = HeaderValue::from_static("Bearer realm=\"penstock\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
    response
}

/// Writes a line of the audit log for a request of a principal that changes something, or is
/// refused for want of a right. Requests that prove no identity are counted in the log of the
/// daemon instead, so that no stranger fills the disk.
pub(crate) async fn record(
    State(log): State<Arc<AuditLog>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    let reads = matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    // A browser returns from the provider by a request that begins a session.
    let changes = !reads || path == FINISH_OIDC.path;
    let path: String = path.chars().take(PATH_CHARS_MAX).collect();
    let text = format!("{} {path}", request.method());
    let from = origin_of(&request).address_text();
    let id = request.extensions().get::<RequestId>().cloned();
    let local = request.extensions().get::<Principal>().cloned();
    let work = async move {
        let response = next.run(request).await;
        let status = response.status();
        let found = response.extensions().get::<Principal>().cloned();
        let Some(principal) = local.or(found) else { return response };
        if changes || status == StatusCode::FORBIDDEN {
            let line = AuditLine {
                at_ms: now_ms(),
                user: principal.user.clone(),
                via: via_text(&principal.via),
                from,
                request: text,
                status: status.as_u16(),
                request_id: id.map(|id| id.0).unwrap_or_default(),
                previous: String::new(),
                digest: String::new(),
            };
            // A write to the page cache. The answer waits for the write, so that no change lacks
            // its line.
            let written = tokio::task::spawn_blocking(move || log.append(line)).await;
            if let Err(error) = written {
                tracing::error!(%error, "the audit log cannot be written");
            }
        }
        response
    };
    if !changes {
        return work.await;
    }
    // A client that hangs up does not end the change, nor its line.
    match tokio::spawn(work).await {
        Ok(response) => response,
        Err(error) => {
            tracing::error!(%error, "request handler");
            let title = "the daemon broke an assumption of ours";
            ProblemReply(Problem::new(ProblemCode::Internal, title)).into_response()
        }
    }
}

fn via_text(via: &Via) -> String {
    match via {
        Via::Socket { uid } => format!("socket uid {uid}"),
        Via::Account { uid, account, .. } => format!("socket uid {uid} ({account})"),
        Via::Token { id } => format!("token {id}"),
        Via::Session { id } => format!("session {id}"),
    }
}

/// Returns the value of `Set-Cookie` that sets a cookie for a time.
pub(crate) fn set_cookie(cookie: &SessionCookie, seconds: u64) -> HeaderValue {
    let text = format!("{SESSION_COOKIE}={}; Max-Age={seconds}; {ATTRIBUTES}", cookie.expose());
    let mut value = value_of(&text);
    value.set_sensitive(true);
    value
}

/// Returns the value of `Set-Cookie` that removes the cookie.
pub(crate) fn remove_cookie() -> HeaderValue {
    value_of(&format!("{SESSION_COOKIE}=; Max-Age=0; {ATTRIBUTES}"))
}

fn value_of(text: &str) -> HeaderValue {
    // Letters, digits and signs of ASCII are always a value.
    HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (g): a body that may be long, or of which nothing is known, counts as a long one.
    #[test]
    fn g_a_long_body_counts_as_one() {
        let most = BODY_BYTES as u64;
        assert!(!is_long(Some(0)) && !is_long(Some(most)));
        assert!(is_long(Some(most + 1)) && is_long(None));
    }
}
