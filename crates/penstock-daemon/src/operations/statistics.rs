//! Statistics of all peers of the site as one answer.
//!
//! Each peer has its own samples ([`crate::statistics`]). The peer that gets the request merges the
//! parts, and names silent peers, whose parts are missing.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRef, Json, State};
use axum::routing::post;
use penstock_api::cluster::PeerCard;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::statistics::{
    POINTS_DEFAULT, POINTS_MAX, PeerHistory, PeerSeries, PeerStatistics, SeriesQuery,
    SiteStatistics, TransferSeries, TransferStatistics,
};
use penstock_api::timestamp::Timestamp;
use penstock_proto::id::{Name, TransferId};
use penstock_sys::now_seconds;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::routes::OwnPeer;
use super::{ASK, Operate};
use crate::http::reply::{Reply, blocking};
use crate::http::request::Body;
use crate::statistics::Recorder;
use crate::statistics::views::Window;

/// Time before now that an answer about peers covers unless the request sets another, in seconds.
const HISTORY_SECONDS: u64 = 3600;

/// The statistics of the site.
#[derive(Clone)]
pub(crate) struct SiteSeries {
    pub(crate) operate: Arc<Operate>,
    pub(crate) recorder: Arc<Recorder>,
}

impl FromRef<SiteSeries> for Arc<Operate> {
    fn from_ref(desk: &SiteSeries) -> Self {
        Arc::clone(&desk.operate)
    }
}

/// Parts of peers, and those that are silent.
type Parts<T> = (Vec<T>, Vec<Name>);

impl SiteSeries {
    /// Returns the routes of requests that any peer answers for other peers of its site.
    pub(crate) fn remote(&self) -> Router {
        Router::new()
            .route("/peer/v1/own/series", post(own_series))
            .route("/peer/v1/own/history", post(own_history))
            .route("/peer/v1/own/summary", post(own_summary))
            .with_state(self.clone())
    }

    /// Returns the figures of a transfer over time. Blocks for [`ASK`] at most, and on the own
    /// disk.
    ///
    /// # Errors
    /// Code `query`: the request makes no sense; `peer-unknown`; `state`: the own archive cannot be
    /// read.
    pub(crate) fn series(
        &self,
        transfer: TransferId,
        query: &SeriesQuery,
    ) -> Result<TransferSeries, Problem> {
        let window = window_of(Some(transfer), query)?;
        let own = || self.recorder.series(self.operate.own(), &window);
        let (peers, silent) =
            self.ask::<Option<PeerSeries>>(query.peer.as_ref(), "/series", &window, own)?;
        Ok(TransferSeries { transfer, peers: peers.into_iter().flatten().collect(), silent })
    }

    /// Returns the summary of a transfer. Blocks as [`SiteSeries::series`] does.
    ///
    /// # Errors
    /// Code `state`: the own archive cannot be read.
    pub(crate) fn summary(&self, transfer: TransferId) -> Result<TransferStatistics, Problem> {
        let own = || self.recorder.summary(self.operate.own(), transfer);
        let (peers, silent) =
            self.ask::<Option<PeerStatistics>>(None, "/summary", &transfer, own)?;
        Ok(TransferStatistics { transfer, peers: peers.into_iter().flatten().collect(), silent })
    }

    /// Returns the peers over time. Blocks as [`SiteSeries::series`] does.
    ///
    /// # Errors
    /// As of [`SiteSeries::series`].
    pub(crate) fn history(&self, query: &SeriesQuery) -> Result<SiteStatistics, Problem> {
        let window = window_of(None, query)?;
        let own = || self.recorder.history(self.operate.own(), &window);
        let (peers, silent) =
            self.ask::<PeerHistory>(query.peer.as_ref(), "/history", &window, own)?;
        Ok(SiteStatistics { site: self.operate.site.config.site.clone(), peers, silent })
    }

    /// Asks this peer, and the others at once, or one of them; the answers by the names of peers.
    fn ask<T: DeserializeOwned + Send + 'static>(
        &self,
        peer: Option<&Name>,
        path: &str,
        body: &impl Serialize,
        own: impl FnOnce() -> Result<T, Problem>,
    ) -> Result<Parts<T>, Problem> {
        let is_asked = |name: &Name| peer.is_none_or(|peer| peer == name);
        let now = self.operate.now();
        let asked = now.peers.iter().filter(|card| is_asked(&card.peer)).cloned();
        let asked: Vec<PeerCard> = asked.collect();
        let here = self.operate.own();
        let away = now.known.iter().map(|known| &known.peer).filter(|name| {
            is_asked(name) && *name != here && asked.iter().all(|card| card.peer != **name)
        });
        let mut silent: Vec<Name> = away.cloned().collect();
        let is_nobody = asked.is_empty() && silent.is_empty() && !is_asked(here);
        if let Some(peer) = peer.filter(|_| is_nobody) {
            let title = format!("peer `{peer}` is not there");
            return Err(Problem::new(ProblemCode::PeerUnknown, title).at("?peer"));
        }
        let mut parts = Vec::new();
        if is_asked(here) {
            parts.push((here.clone(), own()?));
        }
        for (name, answer) in self.operate.ask_all_with::<T>(&asked, path, body, ASK) {
            match answer {
                Ok((part, _)) => parts.push((name, part)),
                Err(_) => silent.push(name),
            }
        }
        parts.sort_by(|(a, _), (b, _)| a.cmp(b));
        silent.sort();
        Ok((parts.into_iter().map(|(_, part)| part).collect(), silent))
    }
}

/// Returns the part of a series that a query wants.
///
/// # Errors
/// Code `query`: the number of points is out of range, or the time ends before it begins.
fn window_of(transfer: Option<TransferId>, query: &SeriesQuery) -> Result<Window, Problem> {
    let points = query.points.unwrap_or(POINTS_DEFAULT);
    if !(1..=POINTS_MAX).contains(&points) {
        let title = format!("the number of points is {points}, not from 1 to {POINTS_MAX}");
        return Err(Problem::new(ProblemCode::Query, title).at("?points"));
    }
    let earliest = match transfer {
        Some(_) => 0,
        None => now_seconds().saturating_sub(HISTORY_SECONDS),
    };
    let since = query.since.map_or(earliest, Timestamp::seconds);
    let until = query.until.map_or(u64::MAX, Timestamp::seconds);
    if until < since {
        let title = "the time ends before it begins";
        return Err(Problem::new(ProblemCode::Query, title).at("?until"));
    }
    let columns = query.columns.split(',').filter(|name| !name.is_empty());
    let columns = columns.map(str::to_owned).collect();
    Ok(Window { transfer, since, until, points, columns })
}

async fn own_series(
    State(desk): State<SiteSeries>,
    _: OwnPeer,
    Body(window): Body<Window>,
) -> Reply<Option<PeerSeries>> {
    blocking(move || desk.recorder.series(desk.operate.own(), &window.bounded())).await.map(Json)
}

async fn own_history(
    State(desk): State<SiteSeries>,
    _: OwnPeer,
    Body(window): Body<Window>,
) -> Reply<PeerHistory> {
    blocking(move || desk.recorder.history(desk.operate.own(), &window.bounded())).await.map(Json)
}

async fn own_summary(
    State(desk): State<SiteSeries>,
    _: OwnPeer,
    Body(transfer): Body<TransferId>,
) -> Reply<Option<PeerStatistics>> {
    blocking(move || desk.recorder.summary(desk.operate.own(), transfer)).await.map(Json)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: an invalid request is refused with the name of its fault. A request without fields
    /// asks for all of a transfer, and for an hour of peers.
    #[test]
    fn queries_become_windows() {
        let plain = SeriesQuery::default();
        let all = window_of(Some(TransferId([7; 16])), &plain).unwrap();
        assert_eq!((all.since, all.until, all.points), (0, u64::MAX, POINTS_DEFAULT));
        let hour = window_of(None, &plain).unwrap();
        assert!(now_seconds().abs_diff(hour.since + HISTORY_SECONDS) < 60);
        let columns = "lanes,,rate_bits_per_s".to_owned();
        let some = window_of(None, &SeriesQuery { columns, ..plain.clone() }).unwrap();
        assert_eq!(some.columns, ["lanes", "rate_bits_per_s"]);
        for points in [0, POINTS_MAX + 1] {
            let wrong = SeriesQuery { points: Some(points), ..plain.clone() };
            assert_eq!(window_of(None, &wrong).unwrap_err().code, ProblemCode::Query);
        }
        let (since, until) = (Some(Timestamp::of_ms(5000)), Some(Timestamp::of_ms(4000)));
        let wrong = SeriesQuery { since, until, ..plain };
        assert_eq!(window_of(None, &wrong).unwrap_err().code, ProblemCode::Query);
    }
}
