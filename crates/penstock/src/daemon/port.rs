//! The data port: one listener, two protocols, told apart by ALPN in the client's first message.
//!
//! `penstock-lane/1` goes to the peer crate as a std stream with its TLS state; anything else is
//! the site API over HTTP. Every handshake has a deadline, and so many may be under way at a time;
//! connections beyond that wait in the kernel's backlog. Of connections to the site API, so many of
//! each site are kept, and so many without a certificate, these for a short while only.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::Extension;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use penstock_io::net::{self, LANE_STACK_BYTES};
use penstock_io::trust::{ALPN_LANE, Vouched, explain, pairing_exporter};
use penstock_proto::id::Name;
use penstock_proto::network::Role;
use rustls::ServerConfig;
use rustls::server::Acceptor;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::site::Site;
use crate::wiring::LaneHandler;

/// How long a client may take for its TLS handshake.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(10);
/// Connections at a time that have not finished their handshake, or have said nothing yet.
const SILENT_MAX: usize = 1024;
/// Handshakes under way at a time.
const HANDSHAKES_MAX: usize = 256;
/// Connections to the site API without a certificate at a time: those of sites that pair.
const ANONYMOUS_MAX: usize = 64;
/// How long such a connection may last in all.
const ANONYMOUS_DEADLINE: Duration = Duration::from_secs(30);
/// Connections to the site API of one site at a time.
const PER_SITE_MAX: usize = 64;
/// Connections of other peers of the own site at a time: some of each.
const OWN_SITE_MAX: usize = 1024;
/// How often an idle HTTP/2 connection is asked whether it still lives, and how long it may take.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What is known of the connection that a request came over.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The peer at the other end and the authority that vouched for it, which counts at each use;
    /// none if it showed no certificate.
    pub(crate) peer: Option<Vouched>,
    /// Value that only the two ends of this connection know (D5).
    pub(crate) exporter: [u8; 32],
    /// From where.
    pub(crate) from: SocketAddr,
}

/// Counts the connections to the site API.
#[derive(Clone)]
pub(crate) struct Limits {
    own: Name,
    kept: Arc<Mutex<HashMap<Option<Name>, Arc<Semaphore>>>>,
}

impl Limits {
    /// Those of a site of this name.
    pub(crate) fn of(own: &Name) -> Self {
        Self { own: own.clone(), kept: Arc::default() }
    }

    /// A place for one more connection of a site, or without a certificate; `None` if all are
    /// taken. Free again when it is dropped.
    fn enter(&self, site: Option<&Name>) -> Option<OwnedSemaphorePermit> {
        let most = match site {
            Some(site) if *site == self.own => OWN_SITE_MAX,
            Some(_) => PER_SITE_MAX,
            None => ANONYMOUS_MAX,
        };
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // Only sites that are paired, and so have been let in, are in the map: it stays small.
        let places = kept.entry(site.cloned()).or_insert_with(|| Arc::new(Semaphore::new(most)));
        Arc::clone(places).try_acquire_owned().ok()
    }
}

/// What serves the port.
#[derive(Clone)]
pub(crate) struct Port {
    pub(crate) site_tls: Arc<ServerConfig>,
    pub(crate) lane_tls: Arc<ServerConfig>,
    pub(crate) router: Router,
    pub(crate) lane: LaneHandler,
    pub(crate) limits: Limits,
    pub(crate) site: Arc<Site>,
}

impl Port {
    /// Accepts connections until `stop` says so.
    pub(crate) async fn serve(self, listener: TcpListener, mut stop: watch::Receiver<bool>) {
        let handshakes = Arc::new(Semaphore::new(HANDSHAKES_MAX));
        let silent = Arc::new(Semaphore::new(SILENT_MAX));
        loop {
            let Ok(permit) = Arc::clone(&silent).acquire_owned().await else { return };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.changed() => return,
            };
            let (tcp, from) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, mostly: others will be closed meanwhile.
                    tracing::warn!(%error, "accept");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            if self.is_never(&tcp) {
                tracing::info!(%from, "connection dropped: it came over a network for `never`");
                continue;
            }
            net::settle(&tcp);
            let (port, stop) = (self.clone(), stop.clone());
            let handshakes = Arc::clone(&handshakes);
            tokio::spawn(async move {
                let greeted = port.greet(tcp, &handshakes);
                let greeted = tokio::time::timeout(HANDSHAKE_DEADLINE, greeted).await;
                drop(permit);
                match greeted {
                    Ok(Ok(Some((tls, true)))) => port.give_lane(tls, from),
                    Ok(Ok(Some((tls, false)))) => port.serve_http(tls, from, stop).await,
                    Ok(Ok(None)) => tracing::debug!(%from, "connection closed, nothing was said"),
                    Ok(Err(error)) => {
                        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
                        let why = inner.map_or_else(|| error.to_string(), explain);
                        tracing::info!(%from, why, "connection refused");
                    }
                    Err(_) => tracing::info!(%from, "no TLS handshake in time"),
                }
            });
        }
    }

    /// Whether a connection has come over a network on which nothing of ours is wanted.
    fn is_never(&self, tcp: &TcpStream) -> bool {
        let local = tcp.local_addr().ok().filter(|_| !self.site.config.networks.is_empty());
        local.is_some_and(|local| self.site.networks().role_of(local.ip()).0 == Role::Never)
    }

    /// Shakes hands as soon as anything is said and there is a place; gives the connection, and
    /// whether it is a lane. `None` if it ends in silence, as of those that are made ahead
    /// (`penstock_peer::ahead`) some do.
    async fn greet(
        &self,
        tcp: TcpStream,
        handshakes: &Semaphore,
    ) -> std::io::Result<Option<(TlsStream<TcpStream>, bool)>> {
        tcp.set_nodelay(true)?;
        if tcp.peek(&mut [0]).await? == 0 {
            return Ok(None);
        }
        let Ok(_place) = handshakes.acquire().await else { return Ok(None) };
        let start = LazyConfigAcceptor::new(Acceptor::default(), tcp).await?;
        let lane = start
            .client_hello()
            .alpn()
            .is_some_and(|mut offered| offered.any(|protocol| protocol == ALPN_LANE));
        let config = if lane { &self.lane_tls } else { &self.site_tls };
        Ok(Some((start.into_stream(Arc::clone(config)).await?, lane)))
    }

    /// Hands a lane to the peer crate, on a thread of its own.
    fn give_lane(&self, tls: TlsStream<TcpStream>, from: SocketAddr) {
        let (tcp, connection) = tls.into_inner();
        let handler = Arc::clone(&self.lane);
        let blocking = tcp.into_std().and_then(|tcp| {
            tcp.set_nonblocking(false)?;
            std::thread::Builder::new()
                .name("lane".to_owned())
                .stack_size(LANE_STACK_BYTES)
                .spawn(move || handler(tcp, connection))
        });
        if let Err(error) = blocking {
            tracing::warn!(%from, %error, "lane not served");
        }
    }

    async fn serve_http(
        &self,
        tls: TlsStream<TcpStream>,
        from: SocketAddr,
        mut stop: watch::Receiver<bool>,
    ) {
        let session = tls.get_ref().1;
        let mut news = self.site.trust_news();
        let Ok(exporter) = pairing_exporter(session) else { return };
        let peer = match session.peer_certificates() {
            // The pairing may have ended since the handshake verified it.
            Some(chain) => match self.site.trust.vouched(chain) {
                Ok(peer) => Some(peer),
                Err(error) => {
                    tracing::info!(%from, %error, "connection refused");
                    return;
                }
            },
            None => None,
        };
        let Some(_place) = self.limits.enter(peer.as_ref().map(|peer| &peer.peer.site)) else {
            tracing::info!(%from, ?peer, "connection refused: too many at a time");
            return;
        };
        let vouched = peer.clone();
        let connection = Connection { peer, exporter, from };
        let service = TowerToHyperService::new(self.router.clone().layer(Extension(connection)));
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new());
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE);
        let served = builder.serve_connection(TokioIo::new(tls), service);
        tokio::pin!(served);
        let ended = async {
            let Some(vouched) = &vouched else {
                tokio::time::sleep(ANONYMOUS_DEADLINE).await;
                return "it showed no certificate, and took too long";
            };
            while self.site.trust.vouches(vouched) && news.changed().await.is_ok() {}
            "its site is not paired any more"
        };
        let result = tokio::select! {
            result = served.as_mut() => result,
            why = ended => {
                tracing::info!(%from, why, "connection cut");
                return;
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// D4: neither strangers nor one site can use up the connections of the others.
    #[test]
    fn d4_connections_are_counted_by_who_makes_them() {
        let limits = Limits::of(&"own".parse().unwrap());
        let (lab, hpc): (Name, Name) = ("lab".parse().unwrap(), "hpc".parse().unwrap());
        let mut kept: Vec<_> = (0..ANONYMOUS_MAX).map(|_| limits.enter(None).unwrap()).collect();
        assert!(limits.enter(None).is_none());
        let of_lab: Vec<_> = (0..PER_SITE_MAX).map(|_| limits.enter(Some(&lab)).unwrap()).collect();
        assert!(limits.enter(Some(&lab)).is_none());
        assert!(limits.enter(Some(&hpc)).is_some());
        kept.pop();
        assert!(limits.enter(None).is_some(), "a place is free again");
        drop(of_lab);
        assert!(limits.enter(Some(&lab)).is_some());
    }
}
