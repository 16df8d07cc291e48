//! The local API `/api/v1` of a daemon, for the command line and any other program.
//!
//! Errors are RFC 9457 problem details. A process that may open the socket, and is root or the
//! daemon's own user, may do everything; no other process may do anything.

pub(crate) mod admin;
pub(crate) mod events;

use admin::RestParts;
use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Json, Path, Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{delete, get, post};
use penstock_api::limits::LimitRequest;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::proof::Document;
use penstock_api::rest::{
    JoinReply, JoinRequest, LIST_MAX, OrphanList, SiteView, StatusView, StoreView, TokenReply,
    TransferList,
};
use penstock_api::transfer::{TransferRequest, TransferView};
use penstock_controller::manager::Caller;
use penstock_proto::id::{Name, TransferId};
use serde::Deserialize;

use super::reply::{ProblemReply, blocking, not_found, stream_file};
use super::request::{BODY_BYTES_MAX, Body, PlanQuery, checksum_kind};

/// The routes of the local API.
pub(crate) fn router(parts: RestParts) -> Router {
    let api = Router::new()
        .route("/transfers", get(list).post(submit))
        .route("/transfers/{id}", get(show))
        .route("/transfers/{id}/{action}", post(act))
        .route("/transfers/{id}/limits", post(limit))
        .route("/transfers/{id}/failures", get(failures))
        .route("/transfers/{id}/digests", get(digests))
        .route("/transfers/{id}/checksums/{kind}", get(checksums))
        .route("/transfers/{id}/receipt", get(receipt))
        .route("/transfers/{id}/events", get(events::one))
        .route("/events", get(events::all))
        .route("/plans", post(plan))
        .route("/plans/{id}", post(put_plan))
        .route("/orphans", get(orphans).delete(orphans_remove))
        .route("/status", get(status))
        .route("/stores", get(stores))
        .route("/sites", get(sites))
        .route("/sites/token", post(token))
        .route("/sites/join", post(join))
        .route("/peers/token", post(invite))
        .route("/sites/{site}", delete(unpair))
        .method_not_allowed_fallback(not_found);
    Router::new()
        .nest("/api/v1", api)
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/metrics", get(metrics))
        .fallback(not_found)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(parts)
}

type Reply<T> = Result<Json<T>, ProblemReply>;

#[derive(Deserialize)]
struct ListQuery {
    cursor: Option<String>,
    limit: Option<usize>,
}

async fn list(
    State(parts): State<RestParts>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Reply<TransferList> {
    let Query(query) = query.map_err(|rejection| {
        Problem::new(ProblemCode::Query, "the query is wrong").because(rejection.body_text())
    })?;
    blocking(move || parts.manager.list(query.cursor.as_deref(), query.limit.unwrap_or(LIST_MAX)))
        .await
        .map(Json)
}

async fn submit(
    State(parts): State<RestParts>,
    Body(request): Body<TransferRequest>,
) -> Result<(StatusCode, Json<TransferView>), ProblemReply> {
    let (view, new) = blocking(move || parts.manager.submit(&request, &Caller::User)).await?;
    Ok((if new { StatusCode::CREATED } else { StatusCode::OK }, Json(view)))
}

async fn plan(
    State(parts): State<RestParts>,
    Body(request): Body<TransferRequest>,
) -> Result<Response, ProblemReply> {
    let file = blocking(move || parts.manager.plan(&request, &Caller::User)).await?;
    Ok(stream_file(file))
}

async fn put_plan(
    State(parts): State<RestParts>,
    Path(id): Path<String>,
    Query(query): Query<PlanQuery>,
    part: axum::body::Bytes,
) -> Result<StatusCode, ProblemReply> {
    blocking(move || {
        let id = id.parse().map_err(|error: penstock_proto::id::ParseIdError| {
            Problem::new(ProblemCode::Id, error.to_string())
        })?;
        let site = query.site.unwrap_or_else(|| parts.manager.site().clone());
        parts.manager.put_plan(&site, &query.store, id, query.offset, &part)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn show(State(parts): State<RestParts>, Path(id): Path<String>) -> Reply<TransferView> {
    blocking(move || parts.manager.show(parts.manager.resolve(&id)?, &Caller::User)).await.map(Json)
}

async fn act(
    State(parts): State<RestParts>,
    Path((id, action)): Path<(String, String)>,
) -> Reply<TransferView> {
    blocking(move || {
        let action = action.parse()?;
        parts.manager.act(parts.manager.resolve(&id)?, action, &Caller::User)
    })
    .await
    .map(Json)
}

async fn limit(
    State(parts): State<RestParts>,
    Path(id): Path<String>,
    Body(limit): Body<LimitRequest>,
) -> Reply<TransferView> {
    blocking(move || parts.manager.limit(parts.manager.resolve(&id)?, limit, &Caller::User))
        .await
        .map(Json)
}

async fn failures(
    parts: State<RestParts>,
    Path(id): Path<String>,
) -> Result<Response, ProblemReply> {
    document(parts, id, Document::Failures).await
}

async fn digests(
    parts: State<RestParts>,
    Path(id): Path<String>,
) -> Result<Response, ProblemReply> {
    document(parts, id, Document::Digests).await
}

async fn checksums(
    parts: State<RestParts>,
    Path((id, kind)): Path<(String, String)>,
) -> Result<Response, ProblemReply> {
    document(parts, id, Document::Checksums(checksum_kind(&kind)?)).await
}

async fn receipt(
    parts: State<RestParts>,
    Path(id): Path<String>,
) -> Result<Response, ProblemReply> {
    document(parts, id, Document::Receipt).await
}

async fn document(
    State(parts): State<RestParts>,
    id: String,
    document: Document,
) -> Result<Response, ProblemReply> {
    let file = blocking(move || {
        let id: TransferId = parts.manager.resolve(&id)?;
        parts.manager.document(id, document, &Caller::User)
    })
    .await?;
    Ok(stream_file(file))
}

async fn orphans(State(parts): State<RestParts>) -> Reply<OrphanList> {
    blocking(move || parts.manager.orphans(false)).await.map(Json)
}

async fn orphans_remove(State(parts): State<RestParts>) -> Reply<OrphanList> {
    blocking(move || parts.manager.orphans(true)).await.map(Json)
}

async fn status(State(parts): State<RestParts>) -> Reply<StatusView> {
    let (running, queued) = parts.manager.counts();
    blocking(move || Ok(StatusView { running, queued, ..parts.admin.status() })).await.map(Json)
}

async fn stores(State(parts): State<RestParts>) -> Json<Vec<StoreView>> {
    Json(parts.admin.stores())
}

async fn sites(State(parts): State<RestParts>) -> Reply<Vec<SiteView>> {
    blocking(move || parts.admin.sites()).await.map(Json)
}

async fn token(State(parts): State<RestParts>) -> Reply<TokenReply> {
    blocking(move || parts.admin.offer()).await.map(Json)
}

async fn invite(State(parts): State<RestParts>) -> Reply<TokenReply> {
    blocking(move || parts.admin.invite()).await.map(Json)
}

async fn join(
    State(parts): State<RestParts>,
    Body(request): Body<JoinRequest>,
) -> Reply<JoinReply> {
    blocking(move || parts.admin.join(&request)).await.map(Json)
}

fn site_of(text: &str) -> Result<Name, Problem> {
    text.parse().map_err(|error: penstock_proto::id::ParseIdError| {
        Problem::new(ProblemCode::Name, error.to_string())
    })
}

async fn unpair(
    State(parts): State<RestParts>,
    Path(site): Path<String>,
) -> Result<StatusCode, ProblemReply> {
    blocking(move || {
        let site = site_of(&site)?;
        parts.admin.unpair(&site)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn metrics(State(parts): State<RestParts>) -> String {
    let (running, queued) = parts.manager.counts();
    format!(
        "# HELP penstock_transfers Transfers of this site by state.\n\
         # TYPE penstock_transfers gauge\n\
         penstock_transfers{{state=\"running\"}} {running}\n\
         penstock_transfers{{state=\"queued\"}} {queued}\n"
    )
}
