//! Transfers, what becomes of them, and plans.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Json, Path, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use penstock_api::limits::LimitRequest;
use penstock_api::openapi::Media;
use penstock_api::operate::TransferPaths;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::proof::Document;
use penstock_api::rest::{
    Action, LIST_DEFAULT, Orphan, Page, PauseQuery, PieceMap, Steering, SubmitRequest,
    TransferPatch, TransferQuery, TransferSummary, TransferView,
};
use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::{TransferReport, TransferState};
use penstock_cluster::state::ListOrder;
use penstock_controller::manager::{Manager, TransferFilter};
use penstock_proto::id::{Name, ParseIdError};
use schemars::JsonSchema;
use serde::Deserialize;

use super::state::{Leading, User};
use crate::http::reply::entity_tag::{EntityTag, IfMatch};
use crate::http::reply::{ProblemReply, Reply, blocking, stream_file};
use crate::http::request::{Params, PlanQuery, StrictBody, checksum_kind, parsed};
use crate::operations::Operate;

pub(super) async fn list(
    Leading(manager): Leading,
    User(caller): User,
    Params(query): Params<TransferQuery>,
) -> Reply<Page<TransferSummary>> {
    let (cursor, limit) = (query.cursor.clone(), query.limit.unwrap_or(LIST_DEFAULT));
    let filter = filter_of(query)?;
    blocking(move || manager.list(&filter, cursor.as_deref(), limit, &caller)).await.map(Json)
}

/// Returns the filter of a query.
///
/// # Errors
/// Code `query`: a state or an order does not exist.
fn filter_of(query: TransferQuery) -> Result<TransferFilter, Problem> {
    let wrong = |title: String, at: &str| Problem::new(ProblemCode::Query, title).at(at);
    let named = query.state.split(',').filter(|name| !name.is_empty());
    let state_of = |name: &str| {
        let state = TransferState::ALL.into_iter().find(|state| state.as_str() == name);
        state.ok_or_else(|| {
            let known = TransferState::ALL.map(TransferState::as_str).join(", ");
            wrong(format!("state `{name}` does not exist"), "?state")
                .hint(format!("there are: {known}"))
        })
    };
    Ok(TransferFilter {
        states: named.map(state_of).collect::<Result<_, _>>()?,
        site: query.site,
        store: query.store,
        owner: query.owner,
        label: query.label,
        since_ms: query.since.map(Timestamp::ms),
        until_ms: query.until.map(Timestamp::ms),
        needs_attention: query.attention,
        order: match query.sort.as_str() {
            "" | "-created" => ListOrder::NewestFirst,
            "created" => ListOrder::OldestFirst,
            sort => {
                return Err(wrong(format!("order `{sort}` does not exist"), "?sort")
                    .hint("there are: -created, created"));
            }
        },
    })
}

/// A transfer with the tag of what a user may change of it.
pub(super) type Shown = ([(HeaderName, HeaderValue); 1], Json<TransferView>);

/// Time since which `POST …/limits` is deprecated: 2026-11-26, as RFC 9745 writes it.
const LIMITS_DEPRECATED: &str = "@1795651200";

pub(super) fn shown(report: TransferReport, manager: &Manager) -> Shown {
    let tag = tag_of(&report);
    with_tag(&tag, TransferView::of(report, manager.site()))
}

fn with_tag(tag: &EntityTag, view: TransferView) -> Shown {
    ([(header::ETAG, tag.header())], Json(view))
}

/// Returns the tag of the fields that `PATCH` changes.
fn tag_of(report: &TransferReport) -> EntityTag {
    EntityTag::of(&(&report.label, report.priority, report.options.limits, report.not_before))
}

pub(super) async fn submit(
    Leading(manager): Leading,
    User(caller): User,
    StrictBody(request): StrictBody<SubmitRequest>,
) -> Result<(StatusCode, Shown), ProblemReply> {
    let done = blocking(move || {
        let (report, new) = manager.submit(&request.into(), &caller)?;
        Ok((shown(report, &manager), new))
    });
    let (shown, new) = done.await?;
    Ok((if new { StatusCode::CREATED } else { StatusCode::OK }, shown))
}

pub(super) async fn make_plan(
    Leading(manager): Leading,
    User(caller): User,
    StrictBody(request): StrictBody<SubmitRequest>,
) -> Result<Response, ProblemReply> {
    let file = blocking(move || manager.plan(&request.into(), &caller)).await?;
    Ok(stream_file(file, Media::JsonLines.as_str()))
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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ShowQuery {
    /// `options`, for the paths of the request.
    #[serde(default)]
    #[schemars(extend("enum" = ["", "options"]))]
    include: String,
}

pub(super) async fn show(
    Leading(manager): Leading,
    User(caller): User,
    Path(id): Path<String>,
    Params(query): Params<ShowQuery>,
) -> Result<Shown, ProblemReply> {
    let shows = match query.include.as_str() {
        "" => TransferView::of,
        "options" => TransferView::with_paths,
        part => {
            let title = format!("`{part}` cannot be included");
            let problem = Problem::new(ProblemCode::Query, title).at("?include");
            return Err(problem.hint("there is: options").into());
        }
    };
    blocking(move || {
        let report = manager.show(manager.resolve(&id, &caller)?, &caller)?;
        let tag = tag_of(&report);
        Ok(with_tag(&tag, shows(report, manager.site())))
    })
    .await
}

pub(super) async fn pause(
    leading: Leading,
    user: User,
    id: Path<String>,
    Params(PauseQuery { until }): Params<PauseQuery>,
) -> Result<Shown, ProblemReply> {
    act(leading, user, id, Steering { action: Action::Pause, until }).await
}

pub(super) async fn resume(
    leading: Leading,
    user: User,
    id: Path<String>,
) -> Result<Shown, ProblemReply> {
    act(leading, user, id, Action::Resume.into()).await
}

pub(super) async fn cancel(
    leading: Leading,
    user: User,
    id: Path<String>,
) -> Result<Shown, ProblemReply> {
    act(leading, user, id, Action::Cancel.into()).await
}

pub(super) async fn retry(
    leading: Leading,
    user: User,
    id: Path<String>,
) -> Result<Shown, ProblemReply> {
    act(leading, user, id, Action::Retry.into()).await
}

async fn act(
    Leading(manager): Leading,
    User(caller): User,
    Path(id): Path<String>,
    steering: Steering,
) -> Result<Shown, ProblemReply> {
    blocking(move || {
        let report = manager.act(manager.resolve(&id, &caller)?, steering, &caller)?;
        Ok(shown(report, &manager))
    })
    .await
}

pub(super) async fn change(
    Leading(manager): Leading,
    User(caller): User,
    Path(id): Path<String>,
    condition: IfMatch,
    StrictBody(patch): StrictBody<TransferPatch>,
) -> Result<Shown, ProblemReply> {
    blocking(move || {
        let id = manager.resolve(&id, &caller)?;
        let is_current = |report: &TransferReport| condition.is_met_by(Some(&tag_of(report)));
        Ok(shown(manager.change(id, &patch, &is_current, &caller)?, &manager))
    })
    .await
}

/// Changes limits as the first releases did. The answer says that `PATCH` does it now (RFC 9745).
pub(super) async fn limit(
    Leading(manager): Leading,
    User(caller): User,
    Path(id): Path<String>,
    StrictBody(limit): StrictBody<LimitRequest>,
) -> Result<Response, ProblemReply> {
    let shown = blocking(move || {
        let id = manager.resolve(&id, &caller)?;
        Ok(shown(manager.change(id, &limit.into(), &|_| true, &caller)?, &manager))
    });
    let mut response = shown.await?.into_response();
    let since = HeaderValue::from_static(LIMITS_DEPRECATED);
    response.headers_mut().insert("deprecation", since);
    Ok(response)
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

pub(super) async fn flight(
    leading: Leading,
    user: User,
    Path(id): Path<String>,
) -> Result<Response, ProblemReply> {
    document(leading, user, id, Document::Flight).await
}

pub(super) async fn pieces(
    Leading(manager): Leading,
    User(caller): User,
    Path(id): Path<String>,
) -> Reply<PieceMap> {
    blocking(move || manager.piece_map(manager.resolve(&id, &caller)?, &caller)).await.map(Json)
}

async fn document(
    Leading(manager): Leading,
    User(caller): User,
    id: String,
    document: Document,
) -> Result<Response, ProblemReply> {
    let media = match document {
        Document::Failures | Document::Flight => Media::JsonLines,
        Document::Receipt => Media::Json,
        Document::Digests | Document::Checksums(_) => Media::Text,
    };
    let file =
        blocking(move || manager.document(manager.resolve(&id, &caller)?, document, &caller))
            .await?;
    Ok(stream_file(file, media.as_str()))
}

#[derive(Deserialize, JsonSchema)]
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

pub(super) async fn orphans(Leading(manager): Leading) -> Reply<Page<Orphan>> {
    blocking(move || manager.orphans(false).map(Page::whole)).await.map(Json)
}

pub(super) async fn remove_orphans(Leading(manager): Leading) -> Reply<Page<Orphan>> {
    blocking(move || manager.orphans(true).map(Page::whole)).await.map(Json)
}
