//! A request that is handed to the controller: at the first of its addresses that takes it, and
//! never twice if the table of endpoints allows it once only.

use std::error::Error as _;
use std::net::SocketAddr;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::response::Builder;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use http_body_util::LengthLimitError;
use penstock_api::access::Principal;
use penstock_api::endpoints::Endpoint;
use penstock_api::keys::KEYS_HEADER;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::site::{SPEAKS_HEADER, VERSION_HEADER};
use penstock_net::trust::{Fingerprint, Vouched};
use penstock_proto::id::PeerId;

use crate::access::login::ClientOrigin;
use crate::http::request::BODY_BYTES_MAX;
use penstock_exit::cause::innermost;

/// Headers that are passed on with a request, and with its reply.
pub(crate) const PASSED_ON: [&str; 11] = [
    "allow",
    "content-type",
    "deprecation",
    "etag",
    "if-match",
    "last-event-id",
    "link",
    "request-id",
    VERSION_HEADER,
    SPEAKS_HEADER,
    KEYS_HEADER,
];
/// Headers that are passed on with a reply only.
const PASSED_BACK: [&str; 3] = ["location", "referrer-policy", "set-cookie"];
/// The path under which another peer of the own site hands requests of its users over, and the one
/// for requests of paired sites.
pub(crate) const LOCAL: &str = "/peer/v1/local";
pub(crate) const SITE: &str = "/peer/v1/site";

/// For whom a peer of the own site speaks: a `penstock://` URI.
const CALLER_HEADER: HeaderName = HeaderName::from_static("penstock-caller");
/// The user of a request that a peer of the own site forwards: a principal as JSON in base64url.
const PRINCIPAL_HEADER: HeaderName = HeaderName::from_static("penstock-principal");
/// The origin of a request as JSON in base64url.
const ORIGIN_HEADER: HeaderName = HeaderName::from_static("penstock-origin");
/// The fingerprint of the authority that vouched for the caller, in hex.
const AUTHORITY_HEADER: HeaderName = HeaderName::from_static("penstock-caller-authority");
/// The fingerprint of the key of the caller's certificate, in hex.
const KEY_HEADER: HeaderName = HeaderName::from_static("penstock-caller-key");

/// Returns the user of a request that another peer of this site forwards; `None` if that peer does
/// not name one.
pub(crate) fn caller_of(headers: &HeaderMap) -> Option<Vouched> {
    let text = |name| headers.get(name)?.to_str().ok();
    let peer = PeerId::from_uri(text(CALLER_HEADER)?)?;
    let fingerprint = |name| {
        let bytes = HEXLOWER.decode(text(name)?.as_bytes()).ok()?;
        Some(Fingerprint(bytes.try_into().ok()?))
    };
    let (authority, key) = (fingerprint(AUTHORITY_HEADER)?, fingerprint(KEY_HEADER)?);
    Some(Vouched { peer, authority, key })
}

/// Returns the principal of a request that another peer of this site hands over; `None` if it does
/// not name one.
pub(crate) fn principal_of(headers: &HeaderMap) -> Option<Principal> {
    let bytes = BASE64URL_NOPAD.decode(headers.get(PRINCIPAL_HEADER)?.as_bytes()).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Returns the origin of a request that another peer of this site hands over.
pub(crate) fn origin_of(headers: &HeaderMap) -> Option<ClientOrigin> {
    let bytes = BASE64URL_NOPAD.decode(headers.get(ORIGIN_HEADER)?.as_bytes()).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Returns whether a request names its user at all.
pub(crate) fn names_principal(headers: &HeaderMap) -> bool {
    headers.contains_key(PRINCIPAL_HEADER)
}

/// Returns a principal or an origin in a form that fits into a header.
fn header_text(value: &impl serde::Serialize) -> String {
    // Our own types always have a JSON form; an empty text is not one.
    BASE64URL_NOPAD.encode(&serde_json::to_vec(value).unwrap_or_default())
}

/// Writes the principal of a reply, as of a log-in, for the peer that it goes to.
pub(crate) fn tell_principal(mut response: Response) -> Response {
    let principal = response.extensions().get::<Principal>().map(header_text);
    if let Some(value) = principal.and_then(|text| HeaderValue::from_str(&text).ok()) {
        response.headers_mut().insert(PRINCIPAL_HEADER, value);
    }
    response
}

/// Returns the head of a reply of the controller as it goes to the client: status, headers, and the
/// principal of a log-in.
pub(crate) fn passed_back(reply: &reqwest::Response) -> Builder {
    let mut response = Response::builder().status(reply.status());
    for name in PASSED_ON.into_iter().chain(PASSED_BACK) {
        if let Some(value) = reply.headers().get(name) {
            response = response.header(name, value.clone());
        }
    }
    match principal_of(reply.headers()) {
        Some(principal) => response.extension(principal),
        None => response,
    }
}

/// The origin of a request that is the controller's to answer.
pub(crate) enum Origin {
    /// A user of this peer, at an endpoint of the local API.
    User(&'static Endpoint),
    /// A paired site.
    Site(Vouched),
}

/// A request that is the controller's to answer.
pub(crate) struct Forwarded {
    origin: Origin,
    parts: Parts,
    body: Bytes,
}

/// The time that the body of a request may take.
const BODY_DEADLINE: Duration = Duration::from_secs(60);

/// The reason why a forwarded request has no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ForwardError {
    /// At no address was a connection to be had: it was not done.
    NotSent(String),
    /// The connection broke before the answer came: it may have been done.
    MaybeDone(String),
}

/// Returns the problem for a request whose outcome is unknown. Its user must look at the result.
pub(crate) fn maybe_done(why: &str) -> Problem {
    let title = "the controller was lost before it answered; the request may or may not have been \
                 carried out";
    Problem::new(ProblemCode::MaybeDone, title).because(why).hint(
        "check `penstock transfer list` or `penstock site \
               list` before you repeat the command",
    )
}

impl Forwarded {
    /// # Errors
    /// Its body is too long, or breaks off.
    pub(crate) async fn of(origin: Origin, request: Request) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let most = match &origin {
            Origin::User(endpoint) => endpoint.body_bytes_max(),
            Origin::Site(_) => BODY_BYTES_MAX,
        };
        let unread = |code, error: &dyn std::fmt::Display| {
            Problem::new(code, "the request's body cannot be taken").because(error)
        };
        let body = tokio::time::timeout(BODY_DEADLINE, axum::body::to_bytes(body, most)).await;
        let body = body.map_err(|late| unread(ProblemCode::Body, &late).status(408))?;
        let body = body.map_err(|error| {
            let is_long = error.source().is_some_and(|cause| cause.is::<LengthLimitError>());
            let code = if is_long { ProblemCode::TooLong } else { ProblemCode::Body };
            unread(code, &error)
        })?;
        Ok(Self { origin, parts, body })
    }

    /// Returns the request as it arrived.
    pub(crate) fn request(&self) -> Request {
        Request::from_parts(self.parts.clone(), Body::from(self.body.clone()))
    }

    /// Returns whether it may be done twice. Sites ask for nothing that may not.
    pub(crate) fn may_repeat(&self) -> bool {
        match &self.origin {
            Origin::User(endpoint) => endpoint.repeat.is_allowed(),
            Origin::Site(_) => true,
        }
    }

    /// Returns the path under which another peer takes it.
    fn face(&self) -> &'static str {
        match &self.origin {
            Origin::User(_) => LOCAL,
            Origin::Site(_) => SITE,
        }
    }

    /// Sends the request to the first of `addresses` that accepts connections; returns that
    /// address, and its answer.
    ///
    /// # Errors
    /// No address accepts connections; or the connection broke.
    pub(crate) async fn send(
        &self,
        client: &reqwest::Client,
        scheme: &str,
        addresses: &[SocketAddr],
    ) -> Result<(SocketAddr, reqwest::Response), ForwardError> {
        let mut last = ForwardError::NotSent("the peer has no known address".to_owned());
        for address in addresses {
            match self.call(client, scheme, *address).send().await {
                Ok(reply) => return Ok((*address, reply)),
                Err(error) => {
                    let why = format!("{} ({address})", innermost(&error));
                    if !error.is_connect() {
                        return Err(ForwardError::MaybeDone(why));
                    }
                    last = ForwardError::NotSent(why);
                }
            }
        }
        Err(last)
    }

    fn call(
        &self,
        client: &reqwest::Client,
        scheme: &str,
        address: SocketAddr,
    ) -> reqwest::RequestBuilder {
        let path = self.parts.uri.path_and_query().map_or("/", |path| path.as_str());
        let url = format!("{scheme}://{address}{}{path}", self.face());
        let mut call = client.request(self.parts.method.clone(), url).body(self.body.clone());
        for name in PASSED_ON {
            if let Some(value) = self.parts.headers.get(name) {
                call = call.header(name, value.clone());
            }
        }
        match &self.origin {
            Origin::Site(caller) => call
                .header(CALLER_HEADER, caller.peer.uri())
                .header(AUTHORITY_HEADER, HEXLOWER.encode(&caller.authority.0))
                .header(KEY_HEADER, HEXLOWER.encode(&caller.key.0)),
            Origin::User(_) => {
                let extensions = &self.parts.extensions;
                if let Some(origin) = extensions.get::<ClientOrigin>() {
                    call = call.header(ORIGIN_HEADER, header_text(origin));
                }
                match extensions.get::<Principal>() {
                    Some(principal) => call.header(PRINCIPAL_HEADER, header_text(principal)),
                    None => call,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use penstock_api::endpoints::{LIST_TRANSFERS, RETRY_TRANSFER};

    use super::*;

    async fn forwarded(endpoint: &'static Endpoint) -> Forwarded {
        let method = endpoint.method.as_str();
        let request =
            Request::builder().method(method).uri(endpoint.path).body(Body::empty()).unwrap();
        Forwarded::of(Origin::User(endpoint), request).await.unwrap()
    }

    /// Starts a server that sends `answer` over each connection, or closes it; returns its address.
    fn server(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // The thread ends with the process of the tests.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        address
    }

    fn nobody() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    fn client() -> reqwest::Client {
        let tls = penstock_net::trust::web_client_config(None, None).unwrap();
        let client = reqwest::Client::builder().tls_backend_preconfigured((*tls).clone());
        client.no_proxy().build().unwrap()
    }

    /// Promise: a request reaches a controller of which one address is dead, and is sent nowhere
    /// else once it may have been done.
    #[tokio::test]
    async fn all_addresses_are_tried_until_one_takes_it() {
        let good = server("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
        let (dead, broken, client) = (nobody(), server(""), client());
        let request = forwarded(&LIST_TRANSFERS).await;
        let (address, reply) = request.send(&client, "http", &[dead, good]).await.unwrap();
        assert_eq!((address, reply.status().as_u16()), (good, 204));
        let lost = request.send(&client, "http", &[dead, broken, good]).await.unwrap_err();
        assert!(matches!(lost, ForwardError::MaybeDone(_)), "{lost:?}");
        let lost = request.send(&client, "http", &[dead]).await.unwrap_err();
        assert!(matches!(lost, ForwardError::NotSent(_)), "{lost:?}");
    }

    /// Promise: a request that may not be carried out twice is not repeated when an answer is lost.
    #[tokio::test]
    async fn only_what_may_be_done_twice_is_repeated() {
        assert!(forwarded(&LIST_TRANSFERS).await.may_repeat());
        assert!(!forwarded(&RETRY_TRANSFER).await.may_repeat());
    }
}
