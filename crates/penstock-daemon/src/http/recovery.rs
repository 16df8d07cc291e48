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
    let lacks = "there is no etcd to take over";
    let instead = "restart the daemon if it does not work: it resumes from the site directory";
    blocking(move || member.election_for(lacks, instead)?.take_over(&request)).await.map(Json)
}

async fn recover(
    State(member): State<Arc<Member>>,
    Body(request): Body<RecoverRequest>,
) -> Result<Json<RecoveredView>, ProblemReply> {
    let lacks = "there is no etcd to recover";
    let instead =
        "if `state.db` in the site directory is lost, restore the directory from a backup";
    blocking(move || member.election_for(lacks, instead)?.recover(&request)).await.map(Json)
}

async fn remove(
    State(member): State<Arc<Member>>,
    Path(host): Path<Name>,
) -> Result<StatusCode, ProblemReply> {
    let lacks = "no host runs etcd for it";
    let instead = "`penstock site grow` turns it into a site of several peers";
    blocking(move || member.election_for(lacks, instead)?.remove_host(&host))
        .await
        .map(|()| StatusCode::NO_CONTENT)
}
