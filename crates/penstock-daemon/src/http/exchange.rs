//! One HTTP request over a stream that is already open: the daemon's Unix socket, or the TLS
//! connection of a pairing, whose exporter a general client would not give us.

use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::header::HeaderValue;
use hyper::{Method, Request, Response};
use hyper_util::rt::TokioIo;
use penstock_api::problem::{Exit, Problem, ProblemCode, ProblemDocument};
use penstock_api::site::{SPEAKS_HEADER, VERSION_HEADER};
use penstock_proto::{text, version};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};

/// Longest body that is taken into memory.
const BODY_BYTES_MAX: usize = 64 << 20;

/// Sends one request and returns the reply with its body still to be read.
///
/// # Errors
/// The connection fails: exit 5.
pub async fn send(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    method: Method,
    path: &str,
    body: Option<Vec<u8>>,
) -> Result<Response<Incoming>, Problem> {
    send_as(stream, method, path, body, ("penstock", &[])).await
}

/// Sends one request as [`send`] does, to a host of this name, with further headers; one of the
/// same name replaces a header of the API.
///
/// # Errors
/// Those of [`exchange`], and the problem that is answered.
pub async fn send_as(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    method: Method,
    path: &str,
    body: Option<Vec<u8>>,
    head: (&str, &[(&'static str, String)]),
) -> Result<Response<Incoming>, Problem> {
    let response = exchange(stream, method, path, body, head).await?;
    if response.status().is_success() {
        return Ok(response);
    }
    let status = response.status().as_u16();
    Err(problem_of(status, &read(response).await?))
}

/// Sends one request, and returns the reply, with any status.
///
/// # Errors
/// The connection fails: exit 5. The host or a header has invalid characters.
pub async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    method: Method,
    path: &str,
    body: Option<Vec<u8>>,
    (host, headers): (&str, &[(&'static str, String)]),
) -> Result<Response<Incoming>, Problem> {
    let lost = |error: hyper::Error| {
        Problem::new(ProblemCode::Connection, "the connection was lost").because(error)
    };
    let unfit = |error: &dyn std::fmt::Display| {
        Problem::new(ProblemCode::Request, "cannot encode the request").because(error)
    };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
    // The connection ends when the reply is read or dropped.
    tokio::spawn(connection);
    let known = version::known();
    // A host that pairs or joins knows nothing about the other end yet.
    let speaks = known.site_api(known.formats().newest);
    let request = Request::builder().method(method).uri(path).header("host", host);
    let mut request = request
        .header("content-type", "application/json")
        .header("user-agent", concat!("penstock/", env!("CARGO_PKG_VERSION")))
        .header(VERSION_HEADER, speaks.oldest)
        .header(SPEAKS_HEADER, speaks.to_string())
        .body(Full::new(Bytes::from(body.unwrap_or_default())))
        .map_err(|error| unfit(&error))?;
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).map_err(|error| unfit(&error))?;
        request.headers_mut().insert(*name, value);
    }
    sender.send_request(request).await.map_err(lost)
}

/// Returns the whole body of a reply, up to 64 MiB.
///
/// # Errors
/// The connection fails, or the body is longer.
pub async fn read(response: Response<Incoming>) -> Result<Bytes, Problem> {
    let body = Limited::new(response.into_body(), BODY_BYTES_MAX).collect().await;
    body.map(http_body_util::Collected::to_bytes).map_err(|error| {
        Problem::new(ProblemCode::Connection, "the reply broke off").because(error)
    })
}

/// Returns the problem in an error reply: of the local API, or of a peer or site.
pub fn problem_of(status: u16, body: &[u8]) -> Problem {
    if let Ok(document) = serde_json::from_slice::<ProblemDocument>(body) {
        return document.into();
    }
    serde_json::from_slice(body).unwrap_or_else(|_| {
        // A server that fails may recover.
        let exit = if status >= 500 { Exit::Temporary } else { Exit::Unclassified };
        let text = text::field(&String::from_utf8_lossy(&body[..body.len().min(200)]));
        Problem::new(ProblemCode::Http, format!("the reply has HTTP status {status}"))
            .exit(exit)
            .because(text)
    })
}

/// Returns a value as the body of a request.
pub fn encode(value: &impl Serialize) -> Result<Vec<u8>, Problem> {
    serde_json::to_vec(value).map_err(|error| {
        Problem::new(ProblemCode::Request, "cannot encode the request").because(error)
    })
}

/// Returns the value in a reply's body.
///
/// # Errors
/// The body has another form: another release answers.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        let title = "this release does not understand the reply";
        Problem::new(ProblemCode::ReplyUnreadable, title)
            .because(error)
            .hint("use the same release of penstock everywhere")
    })
}
