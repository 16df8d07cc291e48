//! Figures: those of this peer for Prometheus; series of transfers and of peers, as JSON or as a
//! table, and their summaries.

use std::sync::Arc;

use axum::extract::{Json, Path, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use penstock_api::openapi::Media;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::statistics::{PeerSeries, SeriesQuery, TransferStatistics};
use penstock_proto::id::Name;
use serde::Serialize;

use super::state::{Leading, User};
use crate::http::reply::{ProblemReply, Reply, blocking, name_silent};
use crate::http::request::Params;
use crate::metrics::{Format, Metrics};
use crate::operations::statistics::SiteSeries;
use crate::statistics::csv;

/// Returns all figures in the format that the client accepts.
pub(super) async fn metrics(
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

pub(super) async fn series(
    Leading(manager): Leading,
    User(caller): User,
    State(desk): State<SiteSeries>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Params(query): Params<SeriesQuery>,
) -> Result<Response, ProblemReply> {
    let is_table = wants_table(&query, &headers)?;
    let series = blocking(move || {
        let id = manager.resolve(&id, &caller)?;
        manager.show(id, &caller)?;
        desk.series(id, &query)
    });
    let series = series.await?;
    Ok(answer(&series, &series.peers, &series.silent, is_table))
}

pub(super) async fn summary(
    Leading(manager): Leading,
    User(caller): User,
    State(desk): State<SiteSeries>,
    Path(id): Path<String>,
) -> Reply<TransferStatistics> {
    let summary = blocking(move || {
        let id = manager.resolve(&id, &caller)?;
        manager.show(id, &caller)?;
        desk.summary(id)
    });
    summary.await.map(Json)
}

pub(super) async fn peers(
    State(desk): State<SiteSeries>,
    headers: HeaderMap,
    Params(query): Params<SeriesQuery>,
) -> Result<Response, ProblemReply> {
    let is_table = wants_table(&query, &headers)?;
    let history = blocking(move || desk.history(&query)).await?;
    let series: Vec<PeerSeries> = history.peers.iter().map(|peer| peer.series.clone()).collect();
    Ok(answer(&history, &series, &history.silent, is_table))
}

/// Returns whether a request wants a table: by `format`, else by its header `Accept`.
///
/// # Errors
/// Code `query`: there is no such format.
fn wants_table(query: &SeriesQuery, headers: &HeaderMap) -> Result<bool, Problem> {
    match query.format.as_str() {
        "csv" => Ok(true),
        "json" => Ok(false),
        "" => {
            let accepts = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
            Ok(accepts.is_some_and(|accepts| accepts.starts_with(Media::Csv.as_str())))
        }
        format => {
            let title = format!("format `{format}` does not exist");
            let problem = Problem::new(ProblemCode::Query, title).at("?format");
            Err(problem.hint("there are: json, csv"))
        }
    }
}

fn answer(
    whole: &impl Serialize,
    series: &[PeerSeries],
    silent: &[Name],
    is_table: bool,
) -> Response {
    if !is_table {
        return Json(whole).into_response();
    }
    let kind = [(header::CONTENT_TYPE, Media::Csv.as_str())];
    let mut response = (kind, csv::table(series)).into_response();
    name_silent(&mut response, silent);
    response
}

#[cfg(test)]
mod tests {
    use penstock_api::rest::SILENT_HEADER;

    use super::*;

    /// Promise: a table of statistics names the peers whose part is missing, and has no such header
    /// where none is.
    #[test]
    fn a_table_names_silent_peers() {
        let header_of = |silent: &[&str]| {
            let silent: Vec<Name> = silent.iter().map(|name| name.parse().unwrap()).collect();
            let response = answer(&(), &[], &silent, true);
            response.headers().get(SILENT_HEADER).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(header_of(&["h2", "h3"]).as_deref(), Some("h2,h3"));
        assert_eq!(header_of(&[]), None);
    }
}
