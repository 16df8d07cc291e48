//! Pairings with other sites, the paths to them, and the stores of this one.

use std::sync::Arc;

use axum::extract::{Extension, Json, Path, State};
use axum::http::StatusCode;
use penstock_api::access::{Access, Principal, Role};
use penstock_api::paths::{PairReport, PathsView};
use penstock_api::rest::{JoinReply, JoinRequest, Page, SiteView, StoreView, TokenReply};

use super::state::Leading;
use crate::http::reply::{ProblemReply, Reply, blocking};
use crate::http::request::{StrictBody, parsed};
use crate::operations::Operate;
use crate::site::admin::Admin;

pub(super) async fn list(_: Leading, State(admin): State<Arc<Admin>>) -> Reply<Page<SiteView>> {
    blocking(move || admin.sites().map(Page::whole)).await.map(Json)
}

pub(super) async fn unpair(
    _: Leading,
    State(admin): State<Arc<Admin>>,
    Path(site): Path<String>,
) -> Result<StatusCode, ProblemReply> {
    blocking(move || admin.unpair(&parsed(&site)?)).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn offer(_: Leading, State(admin): State<Arc<Admin>>) -> Reply<TokenReply> {
    blocking(move || admin.offer()).await.map(Json)
}

pub(super) async fn pair(
    _: Leading,
    State(admin): State<Arc<Admin>>,
    StrictBody(request): StrictBody<JoinRequest>,
) -> Reply<JoinReply> {
    blocking(move || admin.join(&request)).await.map(Json)
}

pub(super) async fn paths(
    State(operate): State<Arc<Operate>>,
    Path(site): Path<String>,
) -> Reply<PathsView> {
    blocking(move || Ok(operate.paths(&parsed(&site)?)?.0)).await.map(Json)
}

pub(super) async fn doctor(
    State(operate): State<Arc<Operate>>,
    Path(site): Path<String>,
) -> Reply<PairReport> {
    blocking(move || operate.doctor_pair(&parsed(&site)?)).await.map(Json)
}

pub(super) async fn stores(
    State(admin): State<Arc<Admin>>,
    Extension(caller): Extension<Principal>,
) -> Json<Page<StoreView>> {
    let mut stores = admin.stores();
    if caller.role == Role::User {
        let uses = [Access::List, Access::Read, Access::Write];
        stores.retain(|store| uses.into_iter().any(|access| caller.may_use(&store.name, access)));
    }
    Json(Page::whole(stores))
}
