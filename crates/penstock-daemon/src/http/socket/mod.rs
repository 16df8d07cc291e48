//! Serves the local API on Unix sockets: on that of the site directory to root and the daemon's own
//! user alone, and on another one to accounts of the host.

pub(crate) mod accounts;

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::connect_info::{ConnectInfo, Connected};
use axum::extract::{Extension, Request, State};
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

/// Root and the daemon's own user, who have every right.
#[derive(Clone)]
pub(crate) struct LocalUsers(Arc<[(u32, Option<AccountName>)]>);

impl LocalUsers {
    /// Returns them, with their names. Blocks: the name service may ask a server.
    pub(crate) fn of_process() -> Self {
        let own_user = rustix::process::getuid().as_raw();
        let account = |uid: u32| {
            let name = String::from_utf8(penstock_sys::user_name(uid)?).ok()?;
            name.parse().ok()
        };
        Self([0, own_user].map(|uid| (uid, account(uid))).into())
    }

    /// Returns the principal of a user number that is one of the two.
    fn principal(&self, uid: u32) -> Option<Principal> {
        let known = self.0.iter().find(|known| known.0 == uid);
        known.map(|(uid, account)| Principal::local(*uid, account.clone()))
    }
}

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

/// Serves `router` until `shutdown` resolves; `users` alone are let in.
///
/// # Errors
/// The listener fails.
pub(crate) async fn serve(
    (listener, heartbeat): (UnixListener, Heartbeat),
    router: Router,
    users: LocalUsers,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let admission = middleware::from_fn_with_state(users, admit);
    let guarded = router.layer(admission).layer(middleware::from_fn(identify));
    let listener = BeatingListener { inner: listener, heartbeat };
    axum::serve(listener, guarded.into_make_service_with_connect_info::<PeerUser>())
        .with_graceful_shutdown(shutdown)
        .await
}

async fn admit(
    State(users): State<LocalUsers>,
    Extension(ConnectInfo(PeerUser(user))): Extension<ConnectInfo<PeerUser>>,
    mut request: Request,
    next: Next,
) -> Response {
    if let Some(principal) = user.and_then(|uid| users.principal(uid)) {
        request.extensions_mut().insert(principal);
        return next.run(request).await;
    }
    let title = "only root and the daemon's own user may use its socket";
    ProblemReply(Problem::new(ProblemCode::NotAuthorised, title)).into_response()
}
