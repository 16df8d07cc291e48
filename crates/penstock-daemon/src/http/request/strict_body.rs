//! Bodies of users' requests: JSON, of which each field has to exist.

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use penstock_api::problem::{FieldFault, Problem, ProblemCode};
use serde::de::DeserializeOwned;
use serde_path_to_error::{Path, Segment};

use super::unknown_field;
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
        Ok(Self(parse(&bytes)?))
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

/// Reads a body.
///
/// # Errors
/// Code `unknown-field`, or `body`; the field is in its errors.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let read = serde_path_to_error::deserialize(&mut json);
    let value = read.map_err(|error| {
        let (path, message) = (pointer_of(error.path()), error.inner().to_string());
        fault(&path, &message)
    })?;
    json.end().map_err(|error| fault("", &error.to_string()))?;
    Ok(value)
}

/// Returns the problem of a body with an error at a place.
fn fault(path: &str, message: &str) -> Problem {
    // The path may end with the field itself, or with the object that has it.
    let within = |name: &str| match path.rsplit_once('/') {
        Some((_, last)) if last == escape(name) => path.to_owned(),
        _ => format!("{path}/{}", escape(name)),
    };
    if let Some(problem) = unknown_field::problem_of(message, within) {
        return problem;
    }
    let missing = message.strip_prefix("missing field `").and_then(|rest| rest.split('`').next());
    let pointer = missing.map_or_else(|| path.to_owned(), within);
    let problem = Problem::new(ProblemCode::Body, "the request's body is wrong").because(message);
    let code = problem.code.as_str().to_owned();
    problem.with_fault(FieldFault { pointer, code, detail: message.to_owned() })
}

/// Returns a place as a JSON Pointer (RFC 6901).
fn pointer_of(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => pointer.push_str(&format!("/{index}")),
            Segment::Map { key } | Segment::Enum { variant: key } => {
                pointer.push_str(&format!("/{}", escape(key)));
            }
            Segment::Unknown => {}
        }
    }
    pointer
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use penstock_api::transfer::TransferOptions;

    use super::*;

    /// Promise: a request with a fault is told its place, as a JSON Pointer.
    #[test]
    fn a_fault_has_its_place() {
        let fault = |body: &str| {
            let problem = parse::<TransferOptions>(body.as_bytes()).unwrap_err();
            (problem.code, problem.context.unwrap().errors.remove(0).pointer)
        };
        let unknown = ProblemCode::UnknownField;
        assert_eq!(fault(r#"{"lanse": 1}"#), (unknown.clone(), "/lanse".to_owned()));
        let nested = r#"{"limits": {"rate": 1}}"#;
        assert_eq!(fault(nested), (unknown, "/limits/rate".to_owned()));
        assert_eq!(fault(r#"{"lanes": "2"}"#), (ProblemCode::Body, "/lanes".to_owned()));
        assert_eq!(fault("{").0, ProblemCode::Body);
        assert_eq!(fault("{} x"), (ProblemCode::Body, String::new()));
    }

    /// Promise: a body that is not said to be JSON is not taken for it.
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
