//! The site and its peers: their states, their events, and orders to them.

use std::sync::Arc;

use axum::extract::{Extension, Json, Path, State};
use penstock_api::access::Principal;
use penstock_api::keys::{ForgetRequest, RotateReply};
use penstock_api::operate::{
    DrainRequest, EVENTS_SHOWN_MAX, Finding, PeerView, PeersView, SiteEventView, SiteHealthView,
};
use penstock_api::rest::{Page, StatusView, TokenReply};
use penstock_proto::id::TransferId;
use schemars::JsonSchema;
use serde::Deserialize;

use super::state::Leading;
use crate::cluster::member::Member;
use crate::http::reply::{ProblemReply, Reply, blocking};
use crate::http::request::{Params, StrictBody, parsed};
use crate::operations::Operate;
use crate::site::admin::Admin;

pub(super) async fn list(
    State(operate): State<Arc<Operate>>,
    Extension(caller): Extension<Principal>,
) -> Reply<PeersView> {
    let Json(mut view) = blocking(move || Ok(operate.peers())).await.map(Json)?;
    hide_transfers(&mut view, &caller);
    Ok(Json(view))
}

/// Removes the work of the peers where the caller sees its own transfers only: it names those of
/// others.
fn hide_transfers(view: &mut PeersView, caller: &Principal) {
    if !caller.sees_all_transfers() {
        let loads = view.peers.iter_mut().filter_map(|peer| peer.load.as_mut());
        loads.for_each(|load| load.tasks.clear());
    }
}

/// Answers without a look at a store or etcd, so that it may be asked each second.
pub(super) async fn ready(State(member): State<Arc<Member>>) -> Result<&'static str, ProblemReply> {
    Ok(member.check_ready().map(|()| "ok\n")?)
}

pub(super) async fn invite(_: Leading, State(admin): State<Arc<Admin>>) -> Reply<TokenReply> {
    blocking(move || admin.invite()).await.map(Json)
}

pub(super) async fn drain(
    State(operate): State<Arc<Operate>>,
    Path(peer): Path<String>,
    StrictBody(request): StrictBody<DrainRequest>,
) -> Reply<PeerView> {
    blocking(move || operate.drain(&parsed(&peer)?, request)).await.map(Json)
}

pub(super) async fn forget(
    State(operate): State<Arc<Operate>>,
    Path(peer): Path<String>,
    StrictBody(request): StrictBody<ForgetRequest>,
) -> Reply<RotateReply> {
    blocking(move || operate.forget(&parsed(&peer)?, request.stolen)).await.map(Json)
}

pub(super) async fn status(State(admin): State<Arc<Admin>>) -> Reply<StatusView> {
    blocking(move || Ok(admin.status())).await.map(Json)
}

pub(super) async fn health(
    State(operate): State<Arc<Operate>>,
    Extension(caller): Extension<Principal>,
) -> Reply<SiteHealthView> {
    let Json(mut view) = blocking(move || Ok(operate.health())).await.map(Json)?;
    hide_transfers(&mut view.peers, &caller);
    Ok(Json(view))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsQuery {
    /// The transfer that the events concern; without it all events are listed.
    transfer: Option<TransferId>,
    /// Most events of the answer, the last ones.
    limit: Option<usize>,
}

pub(super) async fn events(
    State(operate): State<Arc<Operate>>,
    Extension(caller): Extension<Principal>,
    Params(query): Params<EventsQuery>,
) -> Reply<Page<SiteEventView>> {
    let most = query.limit.unwrap_or(EVENTS_SHOWN_MAX);
    let events = blocking(move || Ok(operate.site_events(query.transfer, most)));
    let Json(mut events) = events.await.map(Json)?;
    if !caller.sees_all_transfers() {
        events.retain(|event| event.transfer.is_none());
    }
    Ok(Json(Page::whole(events.into_iter().map(SiteEventView::from).collect())))
}

pub(super) async fn rotate(State(operate): State<Arc<Operate>>) -> Reply<RotateReply> {
    blocking(move || operate.rotate()).await.map(Json)
}

pub(super) async fn doctor(State(operate): State<Arc<Operate>>) -> Reply<Page<Finding>> {
    blocking(move || Ok(Page::whole(operate.doctor()))).await.map(Json)
}
