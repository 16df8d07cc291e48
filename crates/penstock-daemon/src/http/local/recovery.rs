//! Orders about the site's etcd, which every peer takes itself: there may be no controller.

use std::sync::Arc;

use axum::extract::{Json, Path, State};
use axum::http::StatusCode;
use penstock_api::cluster::{RecoverRequest, RecoveredView, TakeoverRequest};

use crate::cluster::member::Member;
use crate::http::reply::{ProblemReply, Reply, blocking};
use crate::http::request::{StrictBody, parsed};

pub(super) async fn take_over(
    State(member): State<Arc<Member>>,
    StrictBody(request): StrictBody<TakeoverRequest>,
) -> Reply<RecoveredView> {
    let lacks = "there is no etcd to take over";
    let instead = "restart the daemon if it does not work: it resumes from the site directory";
    blocking(move || member.election_for(lacks, instead)?.take_over(&request)).await.map(Json)
}

pub(super) async fn recover(
    State(member): State<Arc<Member>>,
    StrictBody(request): StrictBody<RecoverRequest>,
) -> Reply<RecoveredView> {
    let lacks = "there is no etcd to recover";
    let instead =
        "if `state.db` in the site directory is lost, restore the directory from a backup";
    blocking(move || member.election_for(lacks, instead)?.recover(&request)).await.map(Json)
}

pub(super) async fn remove(
    State(member): State<Arc<Member>>,
    Path(host): Path<String>,
) -> Result<StatusCode, ProblemReply> {
    let lacks = "no host runs etcd for it";
    let instead = "`penstock site grow` turns it into a site of several peers";
    blocking(move || member.election_for(lacks, instead)?.remove_host(&parsed(&host)?))
        .await
        .map(|()| StatusCode::NO_CONTENT)
}
