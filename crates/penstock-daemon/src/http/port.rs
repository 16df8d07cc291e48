//! The data port: one listener, two protocols, distinguished by ALPN in the client's first message.
//!
//! `penstock-lane/1` goes to the peer crate as a std stream with its TLS state; anything else is
//! the site API over HTTP. Every stage of a connection has a deadline. Connections without a
//! certificate are counted by their source (`access::admission`), the use of a paired site by its
//! name (`access::budget`).

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Extension, Request};
use axum::middleware::{from_fn_with_state, map_request};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use penstock_net::LANE_STACK_BYTES;
use penstock_net::trust::{ALPN_LANE, Vouched, explain, pairing_exporter};
use penstock_proto::network::Role;
use rustls::server::Acceptor;
use rustls::{ServerConfig, ServerConnection};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{LazyConfigAcceptor, StartHandshake};

use super::connection::Connection;
use super::request_budget::keep_within;
use crate::access::admission::RefusedKind;
use crate::access::admission::{Metered, Stage};
use crate::access::budget::{Duty, LanePlace};
use crate::metrics::heartbeat::Heartbeat;
use crate::site::context::Site;

/// The time that a connection may be silent: connections made ahead wait for their lane.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The time that a client has for its ClientHello, from the first byte on.
const HELLO_DEADLINE: Duration = Duration::from_secs(3);
/// The time that a client has for the rest of its handshake.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
/// Bytes that a client may send until its handshake is done: some ten times of its need.
const HANDSHAKE_BYTES_MAX: u64 = 32 << 10;
/// The time that a connection without a certificate has for its first request, and in all.
const FIRST_REQUEST: Duration = Duration::from_secs(5);
const ANONYMOUS_DEADLINE: Duration = Duration::from_secs(30);
/// Bytes that it may send in all: a pairing takes some four thousand.
const ANONYMOUS_BYTES_MAX: u64 = 64 << 10;
/// Its requests at a time over HTTP/2, and the bytes of one that are taken ahead.
const ANONYMOUS_STREAMS_MAX: u32 = 1;
const ANONYMOUS_WINDOW_BYTES: u32 = 16 << 10;
/// Requests of a paired site at a time over one HTTP/2 connection, and the bytes of their bodies
/// and answers that are kept for it.
const STREAMS_MAX: u32 = 128;
const WINDOW_BYTES: u32 = 512 << 10;
const SEND_BYTES_MAX: usize = 128 << 10;
/// The idle time after which an HTTP/2 connection is pinged, and the time for the answer.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A connection whose handshake is done.
type Tls = TlsStream<Metered<TcpStream>>;

/// The reason that a connection gets which has to make room.
const CROWDED: &str = "it has made room for a newer one";

/// The reason why a connection is refused before its handshake is done.
#[derive(Debug, thiserror::Error)]
enum GreetError {
    #[error("{}", CROWDED)]
    Crowded,
    #[error("too many handshakes at a time")]
    Busy,
    #[error("no ClientHello in time")]
    HelloLate,
    #[error("no TLS handshake in time")]
    HandshakeLate,
    /// The connection broke, or one end rejected the handshake.
    #[error("{}", reason(.0))]
    Handshake(#[from] io::Error),
}

/// Accepts a lane whose TLS handshake is done, or refuses it if no place is free. Called on a
/// thread of its own, which it may keep.
pub(crate) type LaneHandler =
    Arc<dyn Fn(std::net::TcpStream, ServerConnection, Option<LanePlace>) + Send + Sync>;

/// The parts that serve the port.
#[derive(Clone)]
pub(crate) struct Port {
    site_tls: Arc<ServerConfig>,
    lane_tls: Arc<ServerConfig>,
    router: Router,
    lane: LaneHandler,
    site: Arc<Site>,
    /// Beaten by the loops that accept connections.
    heartbeat: Heartbeat,
}

impl Port {
    /// Creates the port of a site, with the TLS configurations of its API and of lanes.
    pub(crate) fn new(
        (site_tls, lane_tls): (Arc<ServerConfig>, Arc<ServerConfig>),
        (router, lane): (Router, LaneHandler),
        site: &Arc<Site>,
        heartbeat: Heartbeat,
    ) -> Self {
        Self { site_tls, lane_tls, router, lane, site: Arc::clone(site), heartbeat }
    }

    /// Accepts connections until `stop` is true.
    pub(crate) async fn serve(self, listener: TcpListener, mut stop: watch::Receiver<bool>) {
        loop {
            let accepted = tokio::select! {
                accepted = self.heartbeat.during(listener.accept()) => accepted,
                _ = stop.changed() => return,
            };
            match accepted {
                Ok((tcp, from)) => drop(tokio::spawn(self.clone().attend(tcp, from, stop.clone()))),
                Err(error) => {
                    // Out of descriptors, mostly: others will be closed meanwhile.
                    tracing::warn!(%error, "accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Serves one connection to its end, or hands it on.
    async fn attend(self, tcp: TcpStream, from: SocketAddr, stop: watch::Receiver<bool>) {
        if self.is_never(&tcp) {
            let why = "it came over a network for `never`";
            return self.note_refused(from, &why);
        }
        penstock_net::settle(&tcp);
        match self.greet(tcp, from).await {
            Ok(Some((tls, true))) => self.give_lane(tls, from),
            Ok(Some((tls, false))) => self.serve_http(tls, from, stop).await,
            Ok(None) => tracing::debug!(%from, "connection closed without a request"),
            Err(why) => self.note_refused(from, &why),
        }
    }

    fn note_refused(&self, from: SocketAddr, why: &dyn fmt::Display) {
        self.site.admission.note_refused(from.ip(), RefusedKind::Connection, why);
    }

    /// Returns whether a connection arrived over a network with the role `never`.
    fn is_never(&self, tcp: &TcpStream) -> bool {
        let local = tcp.local_addr().ok().filter(|_| !self.site.settings.now().networks.is_empty());
        local.is_some_and(|local| self.site.networks().role_of(local.ip()).0 == Role::Never)
    }

    /// Performs the handshake with a client that has sent a whole ClientHello; returns the
    /// connection, and whether it is a lane. `None` if the connection ends in silence, as some of
    /// those do that are made ahead (`penstock_peer::lane::preconnect`). The error has the reason
    /// of a refusal.
    async fn greet(
        &self,
        tcp: TcpStream,
        from: SocketAddr,
    ) -> Result<Option<(Tls, bool)>, GreetError> {
        let admission = &self.site.admission;
        let mut place = admission.enter(Stage::Silent, from.ip());
        let start = tokio::select! {
            start = hello(tcp) => start?,
            () = place.lost() => return Err(GreetError::Crowded),
        };
        let Some(start) = start else { return Ok(None) };
        let Some(wait) = admission.take_turn(from.ip()) else {
            return Err(GreetError::Busy);
        };
        if !wait.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = place.lost() => return Err(GreetError::Crowded),
            }
        }
        drop(place);
        let mut place = admission.enter(Stage::Handshake, from.ip());
        let lane = start
            .client_hello()
            .alpn()
            .is_some_and(|mut offered| offered.any(|protocol| protocol == ALPN_LANE));
        let config = if lane { &self.lane_tls } else { &self.site_tls };
        let done = start.into_stream(Arc::clone(config));
        let tls = tokio::select! {
            done = tokio::time::timeout(HANDSHAKE_DEADLINE, done) => done,
            () = place.lost() => return Err(GreetError::Crowded),
        };
        Ok(Some((tls.map_err(|_| GreetError::HandshakeLate)??, lane)))
    }

    /// Hands a lane to the peer crate, on a thread of its own.
    fn give_lane(&self, tls: Tls, from: SocketAddr) {
        let chain = tls.get_ref().1.peer_certificates();
        let peer = match chain.map(|chain| self.site.trust.vouched(chain)).transpose() {
            Ok(Some(peer)) => peer,
            Ok(None) => return self.note_refused(from, &"a lane without a certificate"),
            Err(error) => return self.note_refused(from, &error),
        };
        self.site.admission.note_known(from.ip(), &peer.peer.site);
        let budget = self.site.budgets.of(&peer.peer.site);
        let place = budget.lane(&peer.peer);
        let refusing = if place.is_none() { budget.try_enter(Duty::Refusal) } else { None };
        if place.is_none() && refusing.is_none() {
            let why = format!("site `{}` has too many lanes", peer.peer.site);
            return self.note_refused(from, &why);
        }
        let (tcp, connection) = tls.into_inner();
        let handler = Arc::clone(&self.lane);
        let blocking = tcp.into_inner().into_std().and_then(|tcp| {
            tcp.set_nonblocking(false)?;
            std::thread::Builder::new().name("lane".to_owned()).stack_size(LANE_STACK_BYTES).spawn(
                move || {
                    handler(tcp, connection, place);
                    drop(refusing);
                },
            )
        });
        if let Err(error) = blocking {
            tracing::warn!(%from, %error, "lane not served");
        }
    }

    async fn serve_http(&self, mut tls: Tls, from: SocketAddr, stop: watch::Receiver<bool>) {
        let session = tls.get_ref().1;
        let news = self.site.trust_news();
        let Ok(exporter) = pairing_exporter(session) else { return };
        // The pairing may have ended since the handshake verified the certificate.
        let chain = session.peer_certificates();
        let peer = match chain.map(|chain| self.site.trust.vouched(chain)).transpose() {
            Ok(peer) => peer,
            Err(error) => return self.note_refused(from, &error),
        };
        let connection = Connection { peer: peer.clone(), exporter, from };
        let Some(peer) = peer else {
            tls.get_mut().0.allow(Some(ANONYMOUS_BYTES_MAX));
            return self.serve_anonymous(tls, connection, stop).await;
        };
        tls.get_mut().0.allow(None);
        self.site.admission.note_known(from.ip(), &peer.peer.site);
        let budget = self.site.budgets.of(&peer.peer.site);
        let Some(_place) = budget.try_enter(Duty::Connection) else {
            let why = format!("site `{}` has too many connections", peer.peer.site);
            return self.note_refused(from, &why);
        };
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new());
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE);
        if peer.peer.site != self.site.config.site {
            builder
                .http2()
                .max_concurrent_streams(STREAMS_MAX)
                .initial_stream_window_size(WINDOW_BYTES)
                .initial_connection_window_size(WINDOW_BYTES)
                .max_send_buf_size(SEND_BYTES_MAX);
        }
        let within = from_fn_with_state(Arc::clone(&self.site), keep_within);
        let router = self.router.clone().layer(within).layer(Extension(connection));
        let ended = self.until_unpaired(&peer, news);
        if let Some(why) = answer((tls, from), &builder, router, stop, ended).await {
            tracing::info!(%from, peer = %peer.peer, why, "connection cut");
        }
    }

    /// Waits until the authority of a connection is no longer that of a paired site.
    async fn until_unpaired(&self, peer: &Vouched, mut news: watch::Receiver<()>) -> &'static str {
        while self.site.trust.vouches(peer) && news.changed().await.is_ok() {}
        "its certificate is no longer trusted"
    }

    /// Serves a connection without a certificate: little, and for a short while.
    async fn serve_anonymous(&self, tls: Tls, connection: Connection, stop: watch::Receiver<bool>) {
        let from = connection.from;
        let mut place = self.site.admission.enter(Stage::Anonymous, from.ip());
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(FIRST_REQUEST);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(ANONYMOUS_STREAMS_MAX)
            .initial_stream_window_size(ANONYMOUS_WINDOW_BYTES)
            .initial_connection_window_size(ANONYMOUS_WINDOW_BYTES);
        let asked = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&asked);
        let note = map_request(move |request: Request| {
            noted.store(true, Ordering::Relaxed);
            std::future::ready(request)
        });
        let router = self.router.clone().layer(Extension(connection)).layer(note);
        let too_long = async {
            tokio::time::sleep(FIRST_REQUEST).await;
            if asked.load(Ordering::Relaxed) {
                tokio::time::sleep(ANONYMOUS_DEADLINE - FIRST_REQUEST).await;
            }
            "it showed no certificate, and took too long"
        };
        let ended = async {
            tokio::select! {
                why = too_long => why,
                () = place.lost() => CROWDED,
            }
        };
        if let Some(why) = answer((tls, from), &builder, router, stop, ended).await {
            self.note_refused(from, &why);
        }
    }
}

/// Receives a whole ClientHello; `None` if the client sends nothing.
async fn hello(tcp: TcpStream) -> Result<Option<StartHandshake<Metered<TcpStream>>>, GreetError> {
    tcp.set_nodelay(true)?;
    match tokio::time::timeout(SILENCE_MAX, tcp.peek(&mut [0])).await {
        Ok(Ok(0)) | Err(_) => return Ok(None),
        Ok(said) => said?,
    };
    let tcp = Metered::new(tcp, HANDSHAKE_BYTES_MAX);
    let hello = LazyConfigAcceptor::new(Acceptor::default(), tcp);
    let hello = tokio::time::timeout(HELLO_DEADLINE, hello).await;
    Ok(Some(hello.map_err(|_| GreetError::HelloLate)??))
}

/// Returns the reason why a handshake failed, in an operator's words.
fn reason(error: &io::Error) -> String {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    inner.map_or_else(|| error.to_string(), explain)
}

/// Answers the requests of a connection until it ends, or `ended` has a reason to end it; returns
/// that reason.
async fn answer(
    (tls, from): (Tls, SocketAddr),
    builder: &auto::Builder<TokioExecutor>,
    router: Router,
    mut stop: watch::Receiver<bool>,
    ended: impl Future<Output = &'static str>,
) -> Option<&'static str> {
    let served = builder.serve_connection(TokioIo::new(tls), TowerToHyperService::new(router));
    tokio::pin!(served);
    let result = tokio::select! {
        result = served.as_mut() => result,
        why = ended => {
            tracing::debug!(%from, why, "connection cut");
            return Some(why);
        }
        _ = stop.changed() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%from, %error, "connection ended");
    }
    None
}
