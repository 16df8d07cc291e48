//! Transfers, what becomes of them, and plans.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Json, Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use penstock_api::limits::LimitRequest;
use penstock_api::operate::TransferPaths;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::proof::Document;
use penstock_api::rest::{Action, LIST_MAX, OrphanList, QueueView, TransferList};
use penstock_api::transfer::{TransferRequest, TransferView};
use penstock_proto::id::{Name, ParseIdError};
use serde::Deserialize;

use super::state::{Leading, User};
use crate::http::reply::{ProblemReply, Reply, blocking, stream_file};
use crate::http::request::{Params, PlanQuery, StrictBody, checksum_kind, parsed};
use crate::operations::Operate;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    cursor: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn list(
    Leading(manager): Leading,
    User(caller): User,
    Params(query): Params<ListQuery>,
) -> Reply<TransferList> {
    let limit = query.limit.unwrap_or(LIST_MAX);
    blocking(move || manager.list(query.cursor.as_deref(), limit, &caller)).await.map(Json)
}

pub(super) async fn submit(
    Leading(manager): Leading,
    User(caller): User,
    StrictBody(request): StrictBody<TransferRequest>,
) -> Result<(StatusCode, Json<TransferView>), ProblemReply> {
    let (view, new) = blocking(move || manager.submit(&request, &caller)).await?;
    Ok((if new { StatusCode::CREATED } else { StatusCode::OK }, Json(view)))
}

pub(super) async fn make_plan(
    Leading(manager): Leading,
    User(caller): User,
    StrictBody(request): StrictBody<TransferRequest>,
) -> Result<Response, ProblemReply> {
    let file = blocking(move || manager.plan(&request, &caller)).await?;
    Ok(stream_file(file))
}

pub(super) async fn upload_plan(
    Leading(manager): Leading,
    User(caller): User,
    Path(id): Path<String>,
    Params(query): Params<PlanQuery>,
    part: Bytes,
) -> Result<StatusCode, ProblemReply> {
    blocking(move || {
        let id = id
            .parse()
            .map_err(|error: ParseIdError| Problem::new(ProblemCode::Id, error.to_string()))?;
        let site = query.site.unwrap_or_else(|| manager.site().clone());
        manager.put_plan((&site, &query.store), id, query.offset, &part, &caller)
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn show(
    Leading(manager): Leading,
    User(caller): User,
    Path(id): Path<String>,
) -> Reply<TransferView> {
    blocking(move || manager.show(manager.resolve(&id, &caller)?, &caller)).await.map(Json)
}

pub(super) async fn pause(leading: Leading, user: User, id: Path<String>) -> Reply<TransferView> {
    act(leading, user, id, Action::Pause).await
}

pub(super) async fn resume(leading: Leading, user: User, id: Path<String>) -> Reply<TransferView> {
    act(leading, user, id, Action::Resume).await
}

pub(super) async fn cancel(leading: Leading, user: User, id: Path<String>) -> Reply<TransferView> {
    act(leading, user, id, Action::Cancel).await
}

pub(super) async fn retry(leading: Leading, user: User, id: Path<String>) -> Reply<TransferView> {
    act(leading, user, id, Action::Retry).await
}

async fn act(
    Leading(manager): Leading,
    User(caller): User,
    Path(id): Path<String>,
    action: Action,
) -> Reply<TransferView> {
    blocking(move || manager.act(manager.resolve(&id, &caller)?, action, &caller)).await.map(Json)
}

pub(super) async fn limit(
    Leading(manager): Leading,
    User(caller): User,
    Path(id): Path<String>,
    StrictBody(limit): StrictBody<LimitRequest>,
) -> Reply<TransferView> {
    blocking(move || manager.limit(manager.resolve(&id, &caller)?, limit, &caller)).await.map(Json)
}

pub(super) async fn failures(
    leading: Leading,
    user: User,
    Path(id): Path<String>,
) -> Result<Response, ProblemReply> {
    document(leading, user, id, Document::Failures).await
}

pub(super) async fn digests(
    leading: Leading,
    user: User,
    Path(id): Path<String>,
) -> Result<Response, ProblemReply> {
    document(leading, user, id, Document::Digests).await
}

pub(super) async fn checksums(
    leading: Leading,
    user: User,
    Path((id, kind)): Path<(String, String)>,
) -> Result<Response, ProblemReply> {
    document(leading, user, id, Document::Checksums(checksum_kind(&kind)?)).await
}

pub(super) async fn receipt(
    leading: Leading,
    user: User,
    Path(id): Path<String>,
) -> Result<Response, ProblemReply> {
    document(leading, user, id, Document::Receipt).await
}

async fn document(
    Leading(manager): Leading,
    User(caller): User,
    id: String,
    document: Document,
) -> Result<Response, ProblemReply> {
    let file =
        blocking(move || manager.document(manager.resolve(&id, &caller)?, document, &caller))
            .await?;
    Ok(stream_file(file))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PathsQuery {
    /// The site that owns the transfer; this one if it is not said.
    owner: Option<Name>,
}

pub(super) async fn paths(
    Leading(manager): Leading,
    User(caller): User,
    State(operate): State<Arc<Operate>>,
    Path(id): Path<String>,
    Params(query): Params<PathsQuery>,
) -> Reply<TransferPaths> {
    blocking(move || {
        let id = parsed(&id)?;
        if !caller.sees_all_transfers() {
            manager.show(id, &caller)?;
        }
        match query.owner.filter(|owner| *owner != operate.site.config.site) {
            Some(owner) => operate.sites.transfer_paths(&owner, id),
            None => Ok(operate.transfer_paths(id)),
        }
    })
    .await
    .map(Json)
}

pub(super) async fn queue(Leading(manager): Leading) -> Reply<QueueView> {
    blocking(move || Ok(manager.queue())).await.map(Json)
}

pub(super) async fn orphans(Leading(manager): Leading) -> Reply<OrphanList> {
    blocking(move || manager.orphans(false)).await.map(Json)
}

pub(super) async fn remove_orphans(Leading(manager): Leading) -> Reply<OrphanList> {
    blocking(move || manager.orphans(true)).await.map(Json)
}

pub(super) async fn metrics(Leading(manager): Leading) -> String {
    let (running, queued) = manager.counts();
    format!(
        "# HELP penstock_transfers Transfers of this site by state.\n\
         # TYPE penstock_transfers gauge\n\
         penstock_transfers{{state=\"running\"}} {running}\n\
         penstock_transfers{{state=\"queued\"}} {queued}\n"
    )
}
