//! Serves the local API on a Unix socket, to root and the daemon's own user alone.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{Extension, Request};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::serve::{IncomingStream, Listener};
use penstock_api::access::{AccountName, Principal};
use penstock_api::problem::{Problem, ProblemCode};
use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};

use super::client::identify;
use super::reply::ProblemReply;
use crate::metrics::heartbeat::Heartbeat;

/// The user at the other end, according to the kernel (SO_PEERCRED, unix(7)).
#[derive(Clone, Debug)]
struct PeerUser(Option<u32>);

/// The listener, whose loop beats while it waits for connections.
struct BeatingListener {
    inner: UnixListener,
    heartbeat: Heartbeat,
}

impl Listener for BeatingListener {
    type Io = UnixStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (UnixStream, SocketAddr) {
        self.heartbeat.during(Listener::accept(&mut self.inner)).await
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }
}

impl Connected<IncomingStream<'_, BeatingListener>> for PeerUser {
    fn connect_info(stream: IncomingStream<'_, BeatingListener>) -> Self {
        Self(stream.io().peer_cred().ok().map(|credentials| credentials.uid()))
    }
}

/// Serves `router` until `shutdown` resolves; root and `own_user` alone are let in.
///
/// # Errors
/// The listener fails.
pub(crate) async fn serve(
    (listener, heartbeat): (UnixListener, Heartbeat),
    router: Router,
    own_user: u32,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let account = |uid: u32| {
        let name = String::from_utf8(penstock_sys::user_name(uid)?).ok()?;
        Some((uid, name.parse().ok()?))
    };
    let accounts: Arc<[(u32, AccountName)]> =
        [0, own_user].into_iter().filter_map(account).collect();
    let admission = middleware::from_fn(move |user, request, next| {
        admit(user, request, next, own_user, Arc::clone(&accounts))
    });
    let guarded = router.layer(admission).layer(middleware::from_fn(identify));
    let listener = BeatingListener { inner: listener, heartbeat };
    axum::serve(listener, guarded.into_make_service_with_connect_info::<PeerUser>())
        .with_graceful_shutdown(shutdown)
        .await
}

async fn admit(
    Extension(ConnectInfo(PeerUser(user))): Extension<ConnectInfo<PeerUser>>,
    mut request: Request,
    next: Next,
    own_user: u32,
    accounts: Arc<[(u32, AccountName)]>,
) -> Response {
    if let Some(uid) = user.filter(|uid| *uid == 0 || *uid == own_user) {
        let account = accounts.iter().find(|known| known.0 == uid);
        let account = account.map(|(_, name)| name.clone());
        request.extensions_mut().insert(Principal::local(uid, account));
        return next.run(request).await;
    }
    let title = "only root and the daemon's own user may use its socket";
    ProblemReply(Problem::new(ProblemCode::NotAuthorised, title)).into_response()
}
