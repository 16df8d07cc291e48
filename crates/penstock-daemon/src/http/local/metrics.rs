//! The figures of this peer.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use penstock_api::problem::{Problem, ProblemCode};

use crate::http::reply::ProblemReply;
use crate::metrics::{Format, Metrics};

/// Returns all figures in the format that the client accepts.
pub(super) async fn show(
    State(metrics): State<Arc<Metrics>>,
    headers: HeaderMap,
) -> Result<Response, ProblemReply> {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let format = Format::of(accept.unwrap_or_default());
    let text = metrics.scrape(format).await.map_err(|error| {
        Problem::new(ProblemCode::Internal, "the figures cannot be written").because(error)
    })?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], text).into_response())
}
