//! The caller itself, users, tokens.

use std::sync::Arc;

use axum::extract::{Extension, Json, Path, State};
use axum::http::StatusCode;
use penstock_api::access::{MeView, Principal, TokenRequest, TokenView, UserRequest, UserView};
use penstock_proto::id::Name;
use serde::Deserialize;

use super::state::Leading;
use crate::access::users::Users;
use crate::http::reply::{ProblemReply, Reply, blocking};
use crate::http::request::{Params, StrictBody, parsed};

type Caller = Extension<Principal>;

pub(super) async fn me(Extension(caller): Caller) -> Json<MeView> {
    Json(MeView::of(&caller))
}

pub(super) async fn list(State(users): State<Arc<Users>>) -> Json<Vec<UserView>> {
    Json(users.list())
}

pub(super) async fn show(
    State(users): State<Arc<Users>>,
    Path(name): Path<String>,
) -> Reply<UserView> {
    Ok(Json(users.show(&parsed(&name)?)?))
}

pub(super) async fn put(
    _: Leading,
    State(users): State<Arc<Users>>,
    Path(name): Path<String>,
    StrictBody(request): StrictBody<UserRequest>,
) -> Result<(StatusCode, Json<UserView>), ProblemReply> {
    let (view, is_new) = blocking(move || users.put(&parsed(&name)?, request)).await?;
    Ok((if is_new { StatusCode::CREATED } else { StatusCode::OK }, Json(view)))
}

pub(super) async fn remove(
    _: Leading,
    State(users): State<Arc<Users>>,
    Path(name): Path<String>,
) -> Result<StatusCode, ProblemReply> {
    blocking(move || users.remove(&parsed(&name)?)).await.map(|()| StatusCode::NO_CONTENT)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TokensQuery {
    /// The user whose tokens are listed.
    user: Option<Name>,
}

pub(super) async fn tokens(
    State(users): State<Arc<Users>>,
    Extension(caller): Caller,
    Params(query): Params<TokensQuery>,
) -> Reply<Vec<TokenView>> {
    Ok(Json(users.tokens(&caller, query.user.as_ref())?))
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
