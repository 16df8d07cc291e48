//! Log-ins: passwords, sessions, one-time links, the provider, programs without a browser.

use std::sync::Arc;

use axum::extract::rejection::FormRejection;
use axum::extract::{Extension, Form, FromRequestParts, Json, Path, State};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use penstock_api::access::{
    AuthMethods, DeviceApproval, DeviceError, DeviceErrorCode, DeviceRequest, DeviceTokenRequest,
    DeviceView, InvitationRequest, LinkView, PasswordRequest, Principal, Secret, SessionRequest,
    SessionView, SetUpRequest, UserCode, Via,
};
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::Page;
use penstock_proto::id::Name;
use schemars::JsonSchema;
use serde::Deserialize;

use super::state::Leading;
use crate::access::login::devices::DeviceRefusal;
use crate::access::login::oidc::{LOG_IN_MAX, ProviderAnswer};
use crate::access::login::sessions::Begun;
use crate::access::login::{ClientOrigin, Logins};
use crate::http::client::{remove_cookie, set_cookie};
use crate::http::origin::set_login_cookie;
use crate::http::reply::{ProblemReply, Reply, blocking};
use crate::http::request::{Params, StrictBody, parsed};

type Caller = Extension<Principal>;
type LoginsState = State<Arc<Logins>>;

/// The origin of a request; an empty one at the Unix socket.
pub(super) struct CameFrom(ClientOrigin);

impl<S: Send + Sync> FromRequestParts<S> for CameFrom {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self(parts.extensions.get::<ClientOrigin>().cloned().unwrap_or_default()))
    }
}

pub(super) async fn methods(State(logins): LoginsState) -> Json<AuthMethods> {
    let password = logins.site.settings.now().auth.password;
    let (oidc, url) = (logins.oidc.method(), logins.site.web_url());
    Json(AuthMethods { password, device: true, oidc, url })
}

pub(super) async fn log_in(
    _: Leading,
    State(logins): LoginsState,
    CameFrom(origin): CameFrom,
    StrictBody(request): StrictBody<SessionRequest>,
) -> Result<Response, ProblemReply> {
    Ok(with_cookie(logins.sessions.log_in(request, origin).await?))
}

pub(super) async fn set_up(
    _: Leading,
    State(logins): LoginsState,
    CameFrom(origin): CameFrom,
    StrictBody(request): StrictBody<SetUpRequest>,
) -> Result<Response, ProblemReply> {
    Ok(with_cookie(logins.links.set_up(request, origin).await?))
}

pub(super) async fn accept_invitation(
    _: Leading,
    State(logins): LoginsState,
    CameFrom(origin): CameFrom,
    StrictBody(request): StrictBody<InvitationRequest>,
) -> Result<Response, ProblemReply> {
    Ok(with_cookie(logins.links.accept(request, origin).await?))
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReturnQuery {
    /// Path of the site at which the log-in ends. Default: `/`.
    #[serde(rename = "return")]
    return_to: Option<String>,
}

pub(super) async fn begin_oidc(
    _: Leading,
    State(logins): LoginsState,
    CameFrom(origin): CameFrom,
    Params(query): Params<ReturnQuery>,
) -> Result<Response, ProblemReply> {
    let departure = logins.oidc.begin(query.return_to, &origin).await?;
    let mut response = leave_for(&departure.url);
    let cookie = set_login_cookie(&departure.browser, LOG_IN_MAX.as_secs());
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    Ok(response)
}

/// The answer of a provider. It may have more parameters (RFC 6749, 4.1.2).
#[derive(Deserialize, JsonSchema)]
pub(super) struct CallbackQuery {
    /// The code, which is valid for one use.
    code: Option<String>,
    /// The value by which the log-in was begun.
    state: Option<String>,
    /// The provider (RFC 9207).
    iss: Option<String>,
    /// The reason of a refusal.
    error: Option<String>,
    /// The reason in words.
    error_description: Option<String>,
}

pub(super) async fn finish_oidc(
    _: Leading,
    State(logins): LoginsState,
    CameFrom(origin): CameFrom,
    Params(query): Params<CallbackQuery>,
) -> Result<Response, ProblemReply> {
    let CallbackQuery { code, state, iss: issuer, error, error_description } = query;
    let code = code.map(Secret::new);
    let answer = ProviderAnswer { code, state, issuer, error, error_description };
    let (begun, return_to) = logins.oidc.finish(answer, origin).await?;
    Ok(logged_in(leave_for(&return_to), begun))
}

pub(super) async fn end_oidc(
    _: Leading,
    State(logins): LoginsState,
    CameFrom(origin): CameFrom,
) -> Response {
    leave_for(&logins.oidc.end(&origin).await)
}

/// Returns the answer that leads a browser elsewhere, without the address of this page.
fn leave_for(url: &str) -> Response {
    let never = [(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"))];
    (never, Redirect::to(url)).into_response()
}

/// Returns the answer to a log-in: the session, and its cookie.
fn with_cookie(begun: Begun) -> Response {
    logged_in((StatusCode::CREATED, Json(&begun.view)).into_response(), begun)
}

fn logged_in(mut response: Response, begun: Begun) -> Response {
    let view = &begun.view;
    let seconds = view.expires_at.seconds().saturating_sub(view.created_at.seconds());
    let cookie = set_cookie(&begun.cookie, seconds);
    response.headers_mut().insert(header::SET_COOKIE, cookie);
    response.extensions_mut().insert(begun.principal);
    response
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SessionsQuery {
    /// The user whose sessions are listed.
    user: Option<Name>,
}

pub(super) async fn sessions(
    State(logins): LoginsState,
    Extension(caller): Caller,
    Params(query): Params<SessionsQuery>,
) -> Reply<Page<SessionView>> {
    Ok(Json(Page::whole(logins.sessions.list(&caller, query.user.as_ref())?)))
}

pub(super) async fn end_session(
    _: Leading,
    State(logins): LoginsState,
    Extension(caller): Caller,
    Path(id): Path<String>,
) -> Result<Response, ProblemReply> {
    let id = if id == "current" { None } else { Some(parsed(&id)?) };
    let is_own = id.is_none_or(|id| caller.via == Via::Session { id });
    blocking(move || logins.sessions.end(&caller, id)).await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    if is_own {
        response.headers_mut().insert(header::SET_COOKIE, remove_cookie());
    }
    Ok(response)
}

pub(super) async fn set_password(
    _: Leading,
    State(logins): LoginsState,
    Extension(caller): Caller,
    CameFrom(origin): CameFrom,
    Path(name): Path<String>,
    StrictBody(request): StrictBody<PasswordRequest>,
) -> Result<StatusCode, ProblemReply> {
    let name = parsed(&name)?;
    logins.passwords.set(&caller, &name, request, &origin).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn invite(
    _: Leading,
    State(logins): LoginsState,
    Path(name): Path<String>,
) -> Result<(StatusCode, Json<LinkView>), ProblemReply> {
    let name: Name = parsed(&name)?;
    let link = blocking(move || logins.links.invite(&name)).await?;
    Ok((StatusCode::CREATED, Json(link)))
}

pub(super) async fn make_setup_link(
    _: Leading,
    State(logins): LoginsState,
) -> Result<(StatusCode, Json<LinkView>), ProblemReply> {
    let link = blocking(move || logins.links.make_setup()).await?;
    Ok((StatusCode::CREATED, Json(link)))
}

pub(super) async fn begin_device(
    _: Leading,
    State(logins): LoginsState,
    CameFrom(origin): CameFrom,
    form: Result<Form<DeviceRequest>, FormRejection>,
) -> Response {
    let begun = form_of(form).and_then(|request| logins.devices.begin(&request, &origin));
    begun.map_or_else(device_refusal, |codes| Json(codes).into_response())
}

pub(super) async fn device_token(
    _: Leading,
    State(logins): LoginsState,
    form: Result<Form<DeviceTokenRequest>, FormRejection>,
) -> Response {
    let made = match form_of(form) {
        Ok(request) => logins.devices.token(&request).await,
        Err(refusal) => Err(refusal),
    };
    match made {
        Ok((token, principal)) => {
            let mut response = Json(token).into_response();
            response.extensions_mut().insert(principal);
            response
        }
        Err(refusal) => device_refusal(refusal),
    }
}

fn form_of<T>(form: Result<Form<T>, FormRejection>) -> Result<T, DeviceRefusal> {
    form.map(|Form(request)| request).map_err(|rejection| {
        DeviceRefusal::Named(DeviceErrorCode::InvalidRequest, rejection.body_text())
    })
}

fn device_refusal(refusal: DeviceRefusal) -> Response {
    match refusal {
        DeviceRefusal::Named(error, error_description) => {
            let body = Json(DeviceError { error, error_description });
            (StatusCode::BAD_REQUEST, body).into_response()
        }
        DeviceRefusal::Other(problem) => ProblemReply(problem).into_response(),
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DeviceQuery {
    /// The code that the program shows.
    user_code: String,
}

pub(super) async fn show_device(
    _: Leading,
    State(logins): LoginsState,
    Extension(caller): Caller,
    CameFrom(origin): CameFrom,
    Params(query): Params<DeviceQuery>,
) -> Result<Json<DeviceView>, ProblemReply> {
    let code: UserCode = query.user_code.parse().map_err(|error| {
        let title = format!("{error}");
        Problem::new(ProblemCode::Query, title)
    })?;
    Ok(Json(logins.devices.show(&caller, &code, &origin)?))
}

pub(super) async fn approve_device(
    _: Leading,
    State(logins): LoginsState,
    Extension(caller): Caller,
    CameFrom(origin): CameFrom,
    StrictBody(approval): StrictBody<DeviceApproval>,
) -> Result<StatusCode, ProblemReply> {
    logins.devices.decide(&caller, approval, &origin)?;
    Ok(StatusCode::NO_CONTENT)
}
