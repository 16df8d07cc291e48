//! Asks other peers of the own site over HTTP/2 and mutual TLS.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::task::{PEER_API_VERSION, PEER_VERSION_HEADER, check_peer_answer};
use penstock_net::trust::{Purpose, client_config};
use reqwest::{Body, Method, Response};
use serde::de::DeserializeOwned;

use crate::http;
use crate::site::context::Site;
use penstock_exit::cause::innermost;

/// The time that a connection to another peer may take.
const CONNECT: Duration = Duration::from_secs(3);
/// The idle time after which a connection is pinged, and the time for the answer.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(3), Duration::from_secs(5));
/// Flow-control window of a reply: a page in one round trip (RFC 9113, 5.2).
const WINDOW_BYTES: u32 = 4 << 20;
/// Longest reply that is kept in memory.
const REPLY_BYTES_MAX: usize = 32 << 20;

/// Addresses that did not answer when they were asked last.
#[derive(Default)]
struct Silent(Mutex<HashSet<SocketAddr>>);

impl Silent {
    fn note(&self, address: SocketAddr, answered: bool) {
        let mut silent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = if answered { silent.remove(&address) } else { silent.insert(address) };
    }

    /// Returns the addresses with those last that did not answer their last request. Otherwise
    /// their order stays.
    fn last(&self, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
        let silent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ordered = addresses.to_vec();
        ordered.sort_by_key(|address| silent.contains(address));
        ordered
    }
}

/// A client for the other peers of this site: one connection to each.
#[derive(Clone)]
pub(crate) struct PeerClient {
    client: reqwest::Client,
    silent: Arc<Silent>,
}

impl PeerClient {
    /// # Errors
    /// TLS cannot be set up.
    pub(crate) fn new(own: &Site) -> anyhow::Result<Self> {
        let site = Some(own.config.site.clone());
        let tls = client_config(Purpose::SiteApi, &own.identity, &own.trust, site, &own.suites)?;
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured((*tls).clone())
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT)
            .http2_initial_stream_window_size(WINDOW_BYTES)
            .http2_initial_connection_window_size(4 * WINDOW_BYTES)
            .http2_keep_alive_interval(KEEP_ALIVE.0)
            .http2_keep_alive_timeout(KEEP_ALIVE.1)
            .build()?;
        Ok(Self { client, silent: Arc::default() })
    }

    /// Returns the client for requests that are forwarded.
    pub(crate) fn plain(&self) -> &reqwest::Client {
        &self.client
    }

    /// Returns a peer's addresses in the best order: recently silent ones are last, so that a dead
    /// address costs its time once, not with each request.
    pub(crate) fn in_order(&self, addresses: &[SocketAddr]) -> Vec<SocketAddr> {
        self.silent.last(addresses)
    }

    /// Sends a request to a peer, whose answer is to begin within `patience`; returns the answer if
    /// it is a success.
    ///
    /// # Errors
    /// The peer cannot be reached, speaks another version, or answers with a problem.
    pub(crate) async fn send(
        &self,
        address: SocketAddr,
        method: Method,
        path: &str,
        body: Body,
        patience: Duration,
    ) -> Result<Response, Problem> {
        let sent = self.try_send(address, method, path, body, patience).await;
        let answered =
            !matches!(&sent, Err(problem) if problem.code == ProblemCode::PeerUnreachable);
        self.silent.note(address, answered);
        sent
    }

    /// Records that an address has begun an answer and not ended it.
    pub(crate) fn note_silent(&self, address: SocketAddr) {
        self.silent.note(address, false);
    }

    async fn try_send(
        &self,
        address: SocketAddr,
        method: Method,
        path: &str,
        body: Body,
        patience: Duration,
    ) -> Result<Response, Problem> {
        let request = self
            .client
            .request(method, format!("https://{address}{path}"))
            .header(PEER_VERSION_HEADER, PEER_API_VERSION)
            .header("content-type", "application/octet-stream")
            .body(body)
            .send();
        let answer = tokio::time::timeout(patience, request).await;
        let answer = answer.map_err(|_| unreachable_peer(address, "no answer in time"))?;
        let answer = answer.map_err(|error| unreachable_peer(address, innermost(&error)))?;
        let status = answer.status();
        let version = answer.headers().get(PEER_VERSION_HEADER).cloned();
        let version = version.as_ref().and_then(|text| text.to_str().ok());
        if status.is_success() {
            return check_peer_answer(address, version).map(|()| answer);
        }
        let bytes = read(answer, address).await?;
        // A peer sends the reason, perhaps in a version of its own; another program may send any
        // text.
        Err(serde_json::from_slice(&bytes).unwrap_or_else(|_| {
            let other = check_peer_answer(address, version).err();
            other.unwrap_or_else(|| http::problem_of(status.as_u16(), &bytes))
        }))
    }

    /// Asks the first of a peer's addresses that answers for a value in JSON, with `patience` for
    /// the whole answer of each.
    ///
    /// # Errors
    /// As [`PeerClient::send`].
    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        addresses: &[SocketAddr],
        path: &str,
        patience: Duration,
    ) -> Result<T, Problem> {
        let mut last = None;
        for address in self.in_order(addresses) {
            let ask = async {
                let body = Body::default();
                let answer = self.send(address, Method::GET, path, body, patience).await?;
                read(answer, address).await
            };
            let answer = tokio::time::timeout(patience, ask).await;
            match answer.unwrap_or_else(|_| Err(unreachable_peer(address, "no answer in time"))) {
                Err(problem) if problem.code == ProblemCode::PeerUnreachable => {
                    self.note_silent(address);
                    last = Some(problem);
                }
                answer => return http::decode(&answer?),
            }
        }
        let nowhere =
            || Problem::new(ProblemCode::PeerUnreachable, "the peer has no known address");
        Err(last.unwrap_or_else(nowhere))
    }
}

/// Returns the problem of a peer that cannot be reached now.
pub(crate) fn unreachable_peer(address: SocketAddr, why: impl std::fmt::Display) -> Problem {
    let title = format!("the peer at {address} cannot be reached");
    Problem::new(ProblemCode::PeerUnreachable, title).because(why)
}

async fn read(mut answer: Response, address: SocketAddr) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    loop {
        match answer.chunk().await {
            Ok(Some(part)) if bytes.len() + part.len() <= REPLY_BYTES_MAX => bytes.extend(part),
            Ok(Some(_)) => {
                let title = format!("the answer of the peer at {address} is too long");
                return Err(Problem::new(ProblemCode::Reply, title));
            }
            Ok(None) => return Ok(bytes),
            Err(error) => return Err(unreachable_peer(address, innermost(&error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: an address that is dead is asked first only until another one has answered.
    #[test]
    fn who_was_silent_is_asked_last() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let all = [address(1), address(2), address(3)];
        let silent = Silent::default();
        assert_eq!(silent.last(&all), all);
        silent.note(address(1), false);
        assert_eq!(silent.last(&all), [address(2), address(3), address(1)]);
        silent.note(address(2), false);
        assert_eq!(silent.last(&all), [address(3), address(1), address(2)]);
        silent.note(address(1), true);
        assert_eq!(silent.last(&all), [address(1), address(3), address(2)]);
    }
}
