//! The Unix socket for accounts of the host. Each account has a bounded number of connections, and
//! its requests have the rights of the user that it represents.

use std::collections::HashMap;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{Extension, Request, State};
use axum::http::Method;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::serve::{IncomingStream, Listener};
use penstock_api::access::Principal;
use penstock_api::endpoints::LOG_IN;
use penstock_api::problem::{Problem, ProblemCode};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};

use super::{LocalUsers, PeerUser};
use crate::access::audit_log::AuditLog;
use crate::access::login::accounts::LocalAccounts;
use crate::http::client::{IsValid, identify, record, run_within_places};
use crate::http::reply::ProblemReply;
use crate::metrics::heartbeat::Heartbeat;
use crate::site::context::Site;

/// Connections of one account at a time; further ones are closed.
const CONNECTIONS_OF_ACCOUNT_MAX: u32 = 128;
/// Connections of all accounts at a time.
const CONNECTIONS_MAX: u32 = 2048;

/// The service for accounts of the host.
#[derive(Clone)]
pub(crate) struct AccountService {
    /// The local API, with the layers of this service.
    router: Router,
    site: Arc<Site>,
}

/// The parts that find the principal of a request.
#[derive(Clone)]
struct Judge {
    site: Arc<Site>,
    users: LocalUsers,
    accounts: Arc<LocalAccounts>,
}

impl AccountService {
    /// Returns the service of a router. Root and the daemon's own user have the same rights as at
    /// their own socket.
    pub(crate) fn new(
        router: Router,
        site: &Arc<Site>,
        users: LocalUsers,
        audit: Arc<AuditLog>,
    ) -> Self {
        let accounts = Arc::new(LocalAccounts::new(Arc::clone(site)));
        let judge = Judge { site: Arc::clone(site), users, accounts };
        let router = router
            .layer(from_fn_with_state(judge, authenticate))
            .layer(from_fn_with_state(audit, record))
            .layer(from_fn(identify));
        Self { router, site: Arc::clone(site) }
    }

    /// Serves connections until `shutdown` resolves.
    ///
    /// # Errors
    /// The listener fails.
    pub(crate) async fn serve(
        self,
        listener: UnixListener,
        heartbeat: Heartbeat,
        shutdown: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let (places, site) = (Places::default(), self.site);
        let listener = BoundedListener { inner: listener, heartbeat, places, site };
        axum::serve(listener, self.router.into_make_service_with_connect_info::<PeerUser>())
            .with_graceful_shutdown(shutdown)
            .await
    }
}

/// Finds the principal of a request by the account at the other end.
async fn authenticate(
    State(judge): State<Judge>,
    Extension(ConnectInfo(PeerUser(user))): Extension<ConnectInfo<PeerUser>>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(uid) = user else {
        let title = "the kernel does not name the user at the other end of the socket";
        return ProblemReply(Problem::new(ProblemCode::NotAuthorised, title)).into_response();
    };
    if let Some(principal) = judge.users.principal(uid) {
        request.extensions_mut().insert(principal.clone());
        let mut response = next.run(request).await;
        response.extensions_mut().insert(principal);
        return response;
    }
    let principal = match judge.accounts.principal_of(uid).await {
        Ok(principal) => principal,
        Err(problem) => {
            judge.site.authentication.note_refused_account();
            tracing::debug!(uid, %problem, "an account of this host was refused");
            return ProblemReply(problem).into_response();
        }
    };
    // Attempts at passwords are limited by the address of the client, and there is none here.
    if request.method() == Method::POST && request.uri().path() == LOG_IN.path {
        let title = "nobody logs in by a password at this socket";
        return ProblemReply(Problem::new(ProblemCode::LoginOff, title)).into_response();
    }
    let is_valid = still_is(&judge, uid, &principal);
    run_within_places(principal, &judge.site, request, next, is_valid).await
}

/// Returns a check whether a user number still represents a principal. While the name service does
/// not answer, the rights of the user count alone.
fn still_is(judge: &Judge, uid: u32, principal: &Principal) -> IsValid {
    let (judge, principal) = (judge.clone(), principal.clone());
    Box::new(move || {
        let (judge, principal) = (judge.clone(), principal.clone());
        Box::pin(async move {
            match judge.accounts.principal_of(uid).await {
                Ok(found) => found == principal,
                Err(problem) if problem.code == ProblemCode::AccountUnknown => {
                    let renewed = judge.site.authentication.renewed(principal.clone());
                    renewed.is_ok_and(|renewed| renewed == principal)
                }
                Err(_) => false,
            }
        })
    })
}

/// Connections by user number.
#[derive(Clone, Debug, Default)]
struct Places(Arc<Mutex<HashMap<u32, u32>>>);

/// The place of one connection, which is free when it is dropped.
#[derive(Debug)]
struct Place {
    places: Places,
    uid: u32,
}

impl Places {
    /// Returns a place for a connection; `None` if its account has too many, or all have.
    fn take(&self, uid: u32) -> Option<Place> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.values().sum::<u32>() >= CONNECTIONS_MAX {
            return None;
        }
        let of_account = taken.entry(uid).or_default();
        if *of_account >= CONNECTIONS_OF_ACCOUNT_MAX {
            return None;
        }
        *of_account += 1;
        Some(Place { places: self.clone(), uid })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = taken.get_mut(&self.uid) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.uid);
            }
        }
    }
}

/// The listener. It closes connections of accounts that have too many.
struct BoundedListener {
    inner: UnixListener,
    heartbeat: Heartbeat,
    places: Places,
    site: Arc<Site>,
}

/// A connection and its place.
struct BoundedStream {
    inner: UnixStream,
    _place: Place,
}

impl Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BoundedStream, SocketAddr) {
        loop {
            let accepted = self.heartbeat.during(Listener::accept(&mut self.inner)).await;
            let (inner, address) = accepted;
            let Ok(credentials) = inner.peer_cred() else { continue };
            match self.places.take(credentials.uid()) {
                Some(place) => return (BoundedStream { inner, _place: place }, address),
                None => self.site.authentication.note_crowded_account(),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

impl Connected<IncomingStream<'_, BoundedListener>> for PeerUser {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Self {
        Self(stream.io().inner.peer_cred().ok().map(|credentials| credentials.uid()))
    }
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: one account takes a bounded number of connections, and those of another one are
    /// free; a connection that ends makes room.
    #[test]
    fn an_account_has_a_bounded_number_of_connections() {
        let places = Places::default();
        let max = CONNECTIONS_OF_ACCOUNT_MAX;
        let mut taken: Vec<_> = (0..max).map(|_| places.take(1001).unwrap()).collect();
        assert!(places.take(1001).is_none());
        let other = places.take(1002).unwrap();
        taken.pop();
        assert!(places.take(1001).is_some());
        drop((taken, other));
        assert!(places.0.lock().unwrap().is_empty());
        let all: Vec<_> = (0..CONNECTIONS_MAX).map(|number| places.take(number).unwrap()).collect();
        assert!(places.take(9999).is_none(), "{}", all.len());
    }
}
