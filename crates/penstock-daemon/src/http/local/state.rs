//! The state that the handlers of the local API share.

use std::sync::Arc;

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use axum::response::Response;
use penstock_api::access::Principal;
use penstock_api::fence::not_controller;
use penstock_controller::manager::{Caller, Manager};

use crate::access::login::Logins;
use crate::access::users::Users;
use crate::cluster::member::Member;
use crate::http::client::no_principal;
use crate::http::reply::ProblemReply;
use crate::metrics::Metrics;
use crate::operations::Operate;
use crate::operations::audit::AuditTrail;
use crate::operations::benchmarks::Benchmarks;
use crate::operations::statistics::SiteSeries;
use crate::operations::stores::StoreBrowser;
use crate::site::admin::Admin;
use crate::webhooks::Webhooks;

/// The parts that answer.
#[derive(Clone)]
pub(crate) struct LocalApi {
    pub(crate) member: Arc<Member>,
    pub(crate) admin: Arc<Admin>,
    pub(crate) operate: Arc<Operate>,
    pub(crate) users: Arc<Users>,
    pub(crate) webhooks: Arc<Webhooks>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) logins: Arc<Logins>,
    pub(crate) stores: Arc<StoreBrowser>,
    pub(crate) benchmarks: Arc<Benchmarks>,
    pub(crate) audit: AuditTrail,
    pub(crate) statistics: SiteSeries,
}

impl FromRef<LocalApi> for Arc<Metrics> {
    fn from_ref(api: &LocalApi) -> Self {
        Arc::clone(&api.metrics)
    }
}

impl FromRef<LocalApi> for Arc<Logins> {
    fn from_ref(api: &LocalApi) -> Self {
        Arc::clone(&api.logins)
    }
}

impl FromRef<LocalApi> for Arc<StoreBrowser> {
    fn from_ref(api: &LocalApi) -> Self {
        Arc::clone(&api.stores)
    }
}

impl FromRef<LocalApi> for Arc<Benchmarks> {
    fn from_ref(api: &LocalApi) -> Self {
        Arc::clone(&api.benchmarks)
    }
}

impl FromRef<LocalApi> for AuditTrail {
    fn from_ref(api: &LocalApi) -> Self {
        api.audit.clone()
    }
}

impl FromRef<LocalApi> for SiteSeries {
    fn from_ref(api: &LocalApi) -> Self {
        api.statistics.clone()
    }
}

impl FromRef<LocalApi> for Arc<Users> {
    fn from_ref(api: &LocalApi) -> Self {
        Arc::clone(&api.users)
    }
}

impl FromRef<LocalApi> for Arc<Webhooks> {
    fn from_ref(api: &LocalApi) -> Self {
        Arc::clone(&api.webhooks)
    }
}

impl FromRef<LocalApi> for Arc<Member> {
    fn from_ref(api: &LocalApi) -> Self {
        Arc::clone(&api.member)
    }
}

impl FromRef<LocalApi> for Arc<Admin> {
    fn from_ref(api: &LocalApi) -> Self {
        Arc::clone(&api.admin)
    }
}

impl FromRef<LocalApi> for Arc<Operate> {
    fn from_ref(api: &LocalApi) -> Self {
        Arc::clone(&api.operate)
    }
}

/// The user that makes a request.
pub(super) struct User(pub(super) Caller);

impl<S: Send + Sync> FromRequestParts<S> for User {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let principal = parts.extensions.get::<Principal>();
        principal.map(|user| Self(Caller::User(user.clone()))).ok_or_else(no_principal)
    }
}

/// The site's transfers, which the controller alone has.
pub(super) struct Leading(pub(super) Arc<Manager>);

impl FromRequestParts<LocalApi> for Leading {
    type Rejection = ProblemReply;

    async fn from_request_parts(_: &mut Parts, api: &LocalApi) -> Result<Self, Self::Rejection> {
        let controller = api.member.controller().ok_or_else(not_controller)?;
        Ok(Self(controller.manager))
    }
}
