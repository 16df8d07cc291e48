//! A request that is handed to the controller: at the first of its addresses that takes it, and
//! never twice if it may be done once only.

use std::net::SocketAddr;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method};
use data_encoding::HEXLOWER;
use penstock_api::keys::KEYS_HEADER;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::site::{SPEAKS_HEADER, VERSION_HEADER};
use penstock_net::trust::{Fingerprint, Vouched};
use penstock_proto::id::PeerId;

use crate::http::request::BODY_BYTES_MAX;
use penstock_exit::cause::innermost;

/// Headers that are passed on with a request, and with its reply.
pub(crate) const PASSED_ON: [&str; 4] =
    ["content-type", VERSION_HEADER, SPEAKS_HEADER, KEYS_HEADER];
/// Paths of requests that another peer of the own site hands over.
pub(crate) const LOCAL: &str = "/peer/v1/local";

/// For whom a peer of the own site speaks: a `penstock://` URI.
const CALLER_HEADER: HeaderName = HeaderName::from_static("penstock-caller");
/// The fingerprint of the authority that vouched for the caller, in hex.
const AUTHORITY_HEADER: HeaderName = HeaderName::from_static("penstock-caller-authority");
/// The fingerprint of the key of the caller's certificate, in hex.
const KEY_HEADER: HeaderName = HeaderName::from_static("penstock-caller-key");

/// For whom a request is that another peer of this site hands over; `None` if it does not say.
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

/// A request of this peer's users, or of a paired site.
pub(crate) struct Forwarded {
    /// Under which path another peer takes it.
    face: String,
    /// For whom, if it is not for users of this peer.
    caller: Option<Vouched>,
    parts: Parts,
    body: Bytes,
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ForwardError {
    /// At no address was a connection to be had: it was not done.
    NotSent(String),
    /// The connection broke before the answer came: it may have been done.
    MaybeDone(String),
}

/// What its user is told who must see for himself whether it was done.
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
    pub(crate) async fn of(
        face: &str,
        caller: Option<Vouched>,
        request: Request,
    ) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, BODY_BYTES_MAX).await.map_err(|error| {
            let title = "the request's body cannot be taken";
            Problem::new(ProblemCode::Body, title).because(error)
        })?;
        Ok(Self { face: face.to_owned(), caller, parts, body })
    }

    /// As it came.
    pub(crate) fn request(&self) -> Request {
        Request::from_parts(self.parts.clone(), Body::from(self.body.clone()))
    }

    /// Whether it is of this peer's users.
    pub(crate) fn is_local(&self) -> bool {
        self.face == LOCAL
    }

    /// Whether it may be done twice. Sites ask for nothing that may not; of what users ask for, all
    /// that only looks, sets or removes, and what names what it begins.
    pub(crate) fn may_repeat(&self) -> bool {
        let path = self.parts.uri.path();
        let named = ["/transfers", "/plans", "/pause", "/resume", "/cancel", "/limits", "/token"];
        !self.is_local()
            || self.parts.method != Method::POST
            || path.starts_with("/api/v1/plans/")
            || path.starts_with("/api/v1/orders/")
            || named.iter().any(|end| path.ends_with(end))
    }

    /// Sends it to the first of `addresses` that takes connections; gives that one, and its answer.
    ///
    /// # Errors
    /// None does; or the connection broke.
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
        let url = format!("{scheme}://{address}{}{path}", self.face);
        let mut call = client.request(self.parts.method.clone(), url).body(self.body.clone());
        for name in PASSED_ON {
            if let Some(value) = self.parts.headers.get(name) {
                call = call.header(name, value.clone());
            }
        }
        match &self.caller {
            Some(caller) => call
                .header(CALLER_HEADER, caller.peer.uri())
                .header(AUTHORITY_HEADER, HEXLOWER.encode(&caller.authority.0))
                .header(KEY_HEADER, HEXLOWER.encode(&caller.key.0)),
            None => call,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    async fn forwarded(method: Method, path: &str) -> Forwarded {
        let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
        Forwarded::of(LOCAL, None, request).await.unwrap()
    }

    /// A server that answers each connection so, or ends it.
    fn server(answer: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // It ends with the process of the tests.
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
        let request = forwarded(Method::GET, "/api/v1/transfers").await;
        let (address, reply) = request.send(&client, "http", &[dead, good]).await.unwrap();
        assert_eq!((address, reply.status().as_u16()), (good, 204));
        let lost = request.send(&client, "http", &[dead, broken, good]).await.unwrap_err();
        assert!(matches!(lost, ForwardError::MaybeDone(_)), "{lost:?}");
        let lost = request.send(&client, "http", &[dead]).await.unwrap_err();
        assert!(matches!(lost, ForwardError::NotSent(_)), "{lost:?}");
    }

    /// Promise: what may not be done twice is not repeated when an answer is lost; all that may is.
    #[tokio::test]
    async fn only_what_may_be_done_twice_is_repeated() {
        for path in ["transfers", "transfers/7f/pause", "plans", "plans/7f", "orders/drain/h2"] {
            assert!(
                forwarded(Method::POST, &format!("/api/v1/{path}")).await.may_repeat(),
                "{path}"
            );
        }
        assert!(forwarded(Method::DELETE, "/api/v1/sites/lab").await.may_repeat());
        for path in ["sites/join", "transfers/7f/retry"] {
            assert!(
                !forwarded(Method::POST, &format!("/api/v1/{path}")).await.may_repeat(),
                "{path}"
            );
        }
    }
}
