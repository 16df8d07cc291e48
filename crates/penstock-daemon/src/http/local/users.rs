//! The caller itself, users, tokens.

use std::sync::Arc;

use axum::extract::{Extension, Json, Path, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use penstock_api::access::{MeView, Principal, TokenRequest, TokenView, UserRequest, UserView};
use penstock_api::rest::Page;
use penstock_controller::manager::Manager;
use penstock_proto::id::Name;
use schemars::JsonSchema;
use serde::Deserialize;

use super::state::Leading;
use crate::access::users::Users;
use crate::http::reply::entity_tag::{EntityTag, IfMatch};
use crate::http::reply::{ProblemReply, Reply, blocking};
use crate::http::request::{Params, StrictBody, parsed};

type Caller = Extension<Principal>;

pub(super) async fn me(Extension(caller): Caller) -> Json<MeView> {
    Json(MeView::of(&caller))
}

pub(super) async fn list(State(users): State<Arc<Users>>) -> Json<Page<UserView>> {
    Json(Page::whole(users.list()))
}

pub(super) async fn show(
    State(users): State<Arc<Users>>,
    Path(name): Path<String>,
) -> Result<Shown, ProblemReply> {
    Ok(with_tag(users.show(&parsed(&name)?)?))
}

/// A user with the tag of what `PUT` changes of it.
type Shown = ([(HeaderName, HeaderValue); 1], Json<UserView>);

fn with_tag(view: UserView) -> Shown {
    ([(header::ETAG, tag_of(&view).header())], Json(view))
}

fn tag_of(view: &UserView) -> EntityTag {
    let UserView { role, disabled, grants, account, group, identity, .. } = view;
    EntityTag::of(&(role, disabled, grants, account, group, identity))
}

pub(super) async fn put(
    Leading(manager): Leading,
    State(users): State<Arc<Users>>,
    Path(name): Path<String>,
    condition: IfMatch,
    StrictBody(request): StrictBody<UserRequest>,
) -> Result<(StatusCode, Shown), ProblemReply> {
    let done = blocking(move || {
        let is_current = |known: Option<&UserView>| condition.is_met_by(known.map(tag_of).as_ref());
        let done = users.put(&parsed(&name)?, request, is_current)?;
        follow_groups(&manager);
        Ok(done)
    });
    let (view, is_new) = done.await?;
    Ok((if is_new { StatusCode::CREATED } else { StatusCode::OK }, with_tag(view)))
}

pub(super) async fn remove(
    Leading(manager): Leading,
    State(users): State<Arc<Users>>,
    Path(name): Path<String>,
) -> Result<StatusCode, ProblemReply> {
    let remove = move || {
        users.remove(&parsed(&name)?)?;
        follow_groups(&manager);
        Ok(())
    };
    blocking(remove).await.map(|()| StatusCode::NO_CONTENT)
}

/// Has the queue follow a change of users that is stored already: it can no longer fail.
fn follow_groups(manager: &Manager) {
    if let Err(problem) = manager.follow_groups() {
        tracing::warn!(%problem, "the queue does not know the groups of users");
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TokensQuery {
    /// The user whose tokens are listed.
    user: Option<Name>,
}

pub(super) async fn tokens(
    State(users): State<Arc<Users>>,
    Extension(caller): Caller,
    Params(query): Params<TokensQuery>,
) -> Reply<Page<TokenView>> {
    Ok(Json(Page::whole(users.tokens(&caller, query.user.as_ref())?)))
}

pub(super) async fn create_token(
    _: Leading,
    State(users): State<Arc<Users>>,
    Extension(caller): Caller,
    StrictBody(request): StrictBody<TokenRequest>,
) -> Result<(StatusCode, Json<TokenView>), ProblemReply> {
    let view = blocking(move || users.create_token(&caller, &request)).await?;
    Ok((StatusCode::CREATED, Json(view)))
}

pub(super) async fn revoke_token(
    _: Leading,
    State(users): State<Arc<Users>>,
    Extension(caller): Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, ProblemReply> {
    blocking(move || users.revoke(&caller, parsed(&id)?)).await.map(|()| StatusCode::NO_CONTENT)
}
