//! Orders about the site's etcd, which every peer takes itself: there may be no controller.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Json, Path, State};
use axum::http::StatusCode;
use axum::routing::{delete, post};
use penstock_api::cluster::{RecoverRequest, RecoveredView, TakeoverRequest};
use penstock_proto::id::Name;

use crate::cluster::member::Member;
use crate::http::reply::{ProblemReply, blocking};
use crate::http::request::Body;

/// The routes, for users of the local API.
pub(crate) fn router(member: &Arc<Member>) -> Router {
    Router::new()
        .route("/api/v1/cluster/takeover", post(takeover))
        .route("/api/v1/cluster/recover", post(recover))
        .route("/api/v1/cluster/hosts/{host}", delete(remove))
        .with_state(Arc::clone(member))
}

async fn takeover(
    State(member): State<Arc<Member>>,
    Body(request): Body<TakeoverRequest>,
) -> Result<Json<RecoveredView>, ProblemReply> {
    blocking(move || member.take_over(&request)).await.map(Json)
}

async fn recover(
    State(member): State<Arc<Member>>,
    Body(request): Body<RecoverRequest>,
) -> Result<Json<RecoveredView>, ProblemReply> {
    blocking(move || member.recover(&request)).await.map(Json)
}

async fn remove(
    State(member): State<Arc<Member>>,
    Path(host): Path<Name>,
) -> Result<StatusCode, ProblemReply> {
    blocking(move || member.remove_host(&host)).await.map(|()| StatusCode::NO_CONTENT)
}
