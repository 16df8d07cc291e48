//! Problems as replies: in the form that peers and sites pass on, and as the problem details that
//! a user gets (RFC 9457).

use axum::body::{Body, to_bytes};
use axum::extract::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use penstock_api::problem::{Problem, ProblemCode, ProblemDocument};
use penstock_proto::text;

use super::problem_page;

/// The media type of problems (RFC 9457, 6.1).
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");
/// Longest problem of a peer that is read, in bytes.
const PROBLEM_BYTES_MAX: usize = 64 << 10;
/// Characters of a reply without a problem that are shown.
const QUOTED_BYTES: usize = 200;

/// A problem as an HTTP reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProblemReply(pub(crate) Problem);

impl From<Problem> for ProblemReply {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for ProblemReply {
    fn into_response(self) -> Response {
        let status =
            StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, Json(&self.0)).into_response();
        response.headers_mut().insert(header::CONTENT_TYPE, PROBLEM_JSON);
        response.extensions_mut().insert(self.0);
        response
    }
}

/// The request that is answered.
#[derive(Clone, Debug)]
pub(crate) struct Answered {
    /// Its id.
    pub(crate) id: String,
    /// Its method.
    pub(crate) method: String,
    /// Its path.
    pub(crate) path: String,
    /// True if a person reads the answer, as a page.
    pub(crate) wants_page: bool,
}

/// Turns an error into the problem details that a user gets, for each origin: a handler, a layer
/// around it, or another peer. A fault of this site is logged with the id of the request. Any other
/// reply stays as it is.
pub(crate) async fn detailed(response: Response, answered: &Answered) -> Response {
    let status = response.status();
    // An error with a body of JSON has a form of its own, as RFC 8628 asks for.
    let kind = response.headers().get(header::CONTENT_TYPE);
    let has_form = kind.is_some_and(|kind| kind.as_bytes() == b"application/json");
    if (!status.is_client_error() && !status.is_server_error()) || has_form {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let problem = match parts.extensions.remove::<Problem>() {
        Some(problem) => problem,
        None => read_problem(status, body).await,
    };
    let Answered { id, method, path, wants_page } = answered;
    if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
        tracing::error!(request = id, method, path, %problem, "request failed");
    } else {
        tracing::debug!(request = id, method, path, %problem, "request refused");
    }
    let document = ProblemDocument::of(problem, id, path);
    if let Some(seconds) = document.retry_after_s {
        parts.headers.insert(header::RETRY_AFTER, seconds.into());
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    if *wants_page {
        return problem_page::response(parts, &document.details, id);
    }
    parts.headers.insert(header::CONTENT_TYPE, PROBLEM_JSON);
    // Our own types always have a JSON form.
    let body = serde_json::to_vec(&document).unwrap_or_default();
    Response::from_parts(parts, Body::from(body))
}

/// Returns the problem in the reply of another peer, or one that explains the status.
async fn read_problem(status: StatusCode, body: Body) -> Problem {
    let body = to_bytes(body, PROBLEM_BYTES_MAX).await.unwrap_or_default();
    if let Ok(problem) = serde_json::from_slice::<Problem>(&body) {
        return problem;
    }
    let code = match status {
        StatusCode::NOT_FOUND => ProblemCode::NotFound,
        StatusCode::METHOD_NOT_ALLOWED => ProblemCode::MethodUnknown,
        StatusCode::PAYLOAD_TOO_LARGE => ProblemCode::TooLong,
        StatusCode::UNSUPPORTED_MEDIA_TYPE => ProblemCode::MediaType,
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => ProblemCode::HeadTooLong,
        _ if status.is_client_error() => ProblemCode::Request,
        _ => ProblemCode::Internal,
    };
    let said = text::field(&String::from_utf8_lossy(&body[..body.len().min(QUOTED_BYTES)]));
    Problem::new(code, format!("the request was answered with HTTP status {}", status.as_u16()))
        .status(status.as_u16())
        .because(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered() -> Answered {
        let (id, method, path) = ("7f".into(), "GET".into(), "/x".into());
        Answered { id, method, path, wants_page: false }
    }

    async fn document(response: Response) -> (Response, ProblemDocument) {
        let (parts, body) = detailed(response, &answered()).await.into_parts();
        let body = to_bytes(body, PROBLEM_BYTES_MAX).await.unwrap();
        let document = serde_json::from_slice(&body).unwrap();
        (Response::from_parts(parts, Body::empty()), document)
    }

    /// Promise: every error is one of RFC 9457, also one that no handler wrote, and keeps its other
    /// headers.
    #[tokio::test]
    async fn every_error_has_problem_details() {
        let bare = (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET")], "no").into_response();
        let (response, found) = document(bare).await;
        let details = &found.details;
        assert_eq!((&details.code, details.status), (&ProblemCode::MethodUnknown, 405));
        assert_eq!(response.headers()[header::ALLOW], "GET");
        assert_eq!(response.headers()[header::CONTENT_TYPE], PROBLEM_JSON);
        assert_eq!(found.request_id.as_deref(), Some("7f"));
        assert_eq!(found.instance.as_deref(), Some("/x"));
        let fine = detailed("ok".into_response(), &answered()).await;
        assert_eq!(to_bytes(fine.into_body(), 10).await.unwrap(), "ok");
    }

    /// Promise: a problem of another peer reaches the user unchanged, and a temporary one has the
    /// time of the next attempt.
    #[tokio::test]
    async fn the_problem_of_another_peer_is_kept() {
        let problem = Problem::new(ProblemCode::Busy, "too much to do").hint("wait");
        let body = serde_json::to_vec(&problem).unwrap();
        let passed_on = (StatusCode::SERVICE_UNAVAILABLE, body).into_response();
        let (response, found) = document(passed_on).await;
        assert_eq!(response.headers()[header::RETRY_AFTER], "2");
        assert_eq!((&*found.details.detail, &*found.details.hint), ("too much to do", "wait"));
        let (_, found) = document(ProblemReply(problem.clone()).into_response()).await;
        assert_eq!(found.details.code, problem.code);
    }
}
