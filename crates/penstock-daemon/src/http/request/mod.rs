//! Bodies and parameters of requests.

mod strict_body;

use axum::extract::rejection::{JsonRejection, QueryRejection};
use axum::extract::{FromRequest, FromRequestParts, Json, Query, Request};
use axum::http::request::Parts;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rest::request_body;
use penstock_proto::checksum::{ChecksumKind, UnknownChecksum};
use penstock_proto::id::Name;
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::reply::ProblemReply;
pub(crate) use strict_body::StrictBody;

/// Longest body of a request that names paths: of a transfer or a scan.
pub(crate) const BODY_BYTES_MAX: usize = 64 << 20;

/// A JSON body; a faulty one is answered with a problem.
#[derive(Clone, Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ProblemReply;

    async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
        let Json(value) =
            Json::<T>::from_request(request, state).await.map_err(|rejection: JsonRejection| {
                let problem = Problem::new(ProblemCode::Body, "the request's body is wrong");
                ProblemReply(problem.because(rejection.body_text()))
            })?;
        Ok(Self(value))
    }
}

/// The parameters in the query; faulty ones are answered with a problem.
#[derive(Clone, Debug)]
pub(crate) struct Params<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = ProblemReply;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        let Query(value) = query.map_err(|rejection: QueryRejection| {
            let why = rejection.body_text();
            let known = request_body::unknown_field(&why, |name| format!("?{name}"));
            ProblemReply(known.unwrap_or_else(|| {
                Problem::new(ProblemCode::Query, "the query is wrong").because(why)
            }))
        })?;
        Ok(Self(value))
    }
}

/// The position of a part of a plan.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanQuery {
    /// The site that will own the transfer; `None` for this one.
    pub(crate) site: Option<Name>,
    /// The store that the transfer writes to.
    pub(crate) store: Name,
    /// Bytes of the plan before this part.
    pub(crate) offset: u64,
}

/// Returns the checksum that a path names.
///
/// # Errors
/// Status 404: there is none of that name.
pub(crate) fn checksum_kind(text: &str) -> Result<ChecksumKind, Problem> {
    text.parse()
        .map_err(|error: UnknownChecksum| Problem::new(ProblemCode::Checksum, error.to_string()))
}

/// Reads a name or an id in a path.
///
/// # Errors
/// Code `name`: it is none.
pub(crate) fn parsed<T: std::str::FromStr>(text: &str) -> Result<T, Problem>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error: T::Err| Problem::new(ProblemCode::Name, error.to_string()))
}
