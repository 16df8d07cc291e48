//! The HTTPS listener of the API, for users on other hosts.
//!
//! It serves the same router as the Unix socket. A client proves its user by a token or a cookie in
//! each request, never by a certificate. Until a connection has carried an accepted one it holds
//! one of the few places that strangers have, and the oldest of them makes room for a newer one
//! ([`crate::access::admission`]).

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tower::Layer as _;

use crate::access::admission::RefusedKind;
use crate::access::admission::{Admission, Stage};
use crate::http::client::{Proof, WebClient};
use crate::http::origin::FarEnd;
use crate::metrics::heartbeat::Heartbeat;

/// Connections at a time; further ones wait in the queue of the kernel.
pub(crate) const CONNECTIONS_MAX: usize = 4096;
/// The time that a client has for its handshake.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
/// The time that a client has for the head of a request, from its connection or last answer on.
const HEAD_DEADLINE: Duration = Duration::from_secs(30);
/// Bytes of the head of a request.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// The time that a client may stay without an accepted token or cookie.
const STRANGER_DEADLINE: Duration = Duration::from_secs(60);
/// Requests at a time over one HTTP/2 connection, and the bytes that are kept for it.
const STREAMS_MAX: u32 = 128;
const WINDOW_BYTES: u32 = 512 << 10;
const SEND_BYTES_MAX: usize = 128 << 10;
/// Interval at which an idle HTTP/2 connection is checked, and the time that it may take.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The HTTPS listener.
#[derive(Clone)]
pub(crate) struct WebListener {
    tls: TlsAcceptor,
    router: Router,
    admission: Arc<Admission>,
    places: Arc<Semaphore>,
}

impl WebListener {
    /// Creates a listener whose connections each take one of `places`.
    pub(crate) fn new(
        tls: Arc<ServerConfig>,
        router: Router,
        admission: Arc<Admission>,
        places: Arc<Semaphore>,
    ) -> Self {
        Self { tls: TlsAcceptor::from(tls), router, admission, places }
    }

    /// Accepts connections until `stop` changes.
    pub(crate) async fn serve(
        self,
        listener: TcpListener,
        heartbeat: Heartbeat,
        mut stop: watch::Receiver<bool>,
    ) {
        loop {
            let next = async {
                let place = Arc::clone(&self.places).acquire_owned().await;
                (listener.accept().await, place)
            };
            let (accepted, place) = tokio::select! {
                next = heartbeat.during(next) => next,
                _ = stop.changed() => return,
            };
            match accepted {
                Ok((tcp, from)) => {
                    let (own, stop) = (self.clone(), stop.clone());
                    tokio::spawn(async move {
                        own.attend(tcp, from, stop).await;
                        drop(place);
                    });
                }
                Err(error) => {
                    // Descriptors run out, mostly: others close meanwhile.
                    tracing::warn!(%error, "accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Serves one connection to its end.
    async fn attend(self, tcp: TcpStream, from: SocketAddr, mut stop: watch::Receiver<bool>) {
        let Some(wait) = self.admission.take_turn(from.ip()) else {
            return self.admission.note_refused(
                from.ip(),
                RefusedKind::Https,
                &"too many handshakes",
            );
        };
        tokio::time::sleep(wait).await;
        let mut place = self.admission.enter(Stage::Handshake, from.ip());
        // Without it answers wait for the client's acknowledgements (tcp(7)).
        let _ = tcp.set_nodelay(true);
        let done = tokio::time::timeout(HANDSHAKE_DEADLINE, self.tls.accept(tcp));
        let tls = tokio::select! {
            done = done => done,
            () = place.lost() => return,
        };
        let Ok(Ok(tls)) = tls else {
            return self.admission.note_refused(from.ip(), RefusedKind::Https, &"no TLS handshake");
        };
        drop(place);
        let mut place = self.admission.enter(Stage::Anonymous, from.ip());
        let proof = Proof::default();
        let client = WebClient { proof: proof.clone() };
        // `Router::layer` copies all routes, 100 KiB a connection; a layer around it copies none.
        let service = (Extension(client), Extension(FarEnd(from))).layer(self.router.clone());
        let builder = builder();
        let served = builder
            .serve_connection_with_upgrades(TokioIo::new(tls), TowerToHyperService::new(service));
        tokio::pin!(served);
        let stranger = async {
            tokio::select! {
                () = proof.given() => {}
                () = place.lost() => return,
                () = tokio::time::sleep(STRANGER_DEADLINE) => return,
            }
            drop(place);
            std::future::pending::<()>().await;
        };
        let result = tokio::select! {
            result = served.as_mut() => result,
            () = stranger => return,
            _ = stop.changed() => {
                served.as_mut().graceful_shutdown();
                served.await
            }
        };
        if let Err(error) = result {
            tracing::debug!(%from, %error, "connection ended");
        }
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_DEADLINE)
        .max_buf_size(HEAD_BYTES_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .max_concurrent_streams(STREAMS_MAX)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_send_buf_size(SEND_BYTES_MAX);
    builder
}
