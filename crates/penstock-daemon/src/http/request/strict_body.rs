//! Bodies of users' requests: JSON, of which each field has to exist.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::request_body;
use serde::de::DeserializeOwned;

use crate::http::reply::ProblemReply;

/// A JSON body of a user's request. A faulty one is answered with a problem that points at the
/// fault; the type has to reject unknown fields.
#[derive(Clone, Debug)]
pub(crate) struct StrictBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for StrictBody<T> {
    type Rejection = ProblemReply;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        check_media_type(request.headers())?;
        let bytes = Bytes::from_request(request, state).await.map_err(unread)?;
        Ok(Self(request_body::parse(&bytes)?))
    }
}

fn check_media_type(headers: &HeaderMap) -> Result<(), Problem> {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = value.and_then(|value| value.split(';').next()).unwrap_or_default().trim();
    let media_type = media_type.to_ascii_lowercase();
    let is_json = media_type == "application/json"
        || media_type.starts_with("application/") && media_type.ends_with("+json");
    if is_json {
        return Ok(());
    }
    let title = match media_type.is_empty() {
        true => "the request does not say that its body is JSON".to_owned(),
        false => format!("the body of the request is `{media_type}`, not JSON"),
    };
    Err(Problem::new(ProblemCode::MediaType, title).hint("send `Content-Type: application/json`"))
}

fn unread(rejection: BytesRejection) -> Problem {
    let code = match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => ProblemCode::TooLong,
        _ => ProblemCode::Body,
    };
    Problem::new(code, "the request's body cannot be taken").because(rejection.body_text())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a body that is not labelled as JSON does not count as JSON.
    #[test]
    fn a_body_says_that_it_is_json() {
        let check = |value: &'static str| {
            let headers = [(header::CONTENT_TYPE, value.parse().unwrap())];
            check_media_type(&HeaderMap::from_iter(headers))
        };
        assert!(check("application/json; charset=utf-8").is_ok());
        assert!(check("application/merge-patch+json").is_ok());
        assert_eq!(check("text/plain").unwrap_err().status, 415);
        assert_eq!(check_media_type(&HeaderMap::new()).unwrap_err().status, 415);
    }
}
