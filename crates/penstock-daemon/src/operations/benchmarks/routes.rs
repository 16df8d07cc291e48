//! The path under which the controller asks this peer for its part in a benchmark.

use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRef, Json, State};
use axum::routing::post;
use penstock_api::rpc::benchmark::{BenchmarkOrder, BenchmarkReply};
use penstock_peer::BenchmarkHost;
use penstock_proto::id::TransferId;

use super::super::Operate;
use super::super::routes::OwnPeer;
use super::Benchmarks;
use crate::http::reply::{Reply, blocking};
use crate::http::request::Body;

#[derive(Clone)]
struct Shared(Arc<Benchmarks>);

impl FromRef<Shared> for Arc<Operate> {
    fn from_ref(shared: &Shared) -> Self {
        Arc::clone(&shared.0.operate)
    }
}

impl Benchmarks {
    /// Returns the routes of requests that any peer answers for the controller of its site.
    pub(crate) fn remote(self: &Arc<Self>) -> Router {
        Router::new()
            .route("/peer/v1/own/benchmark", post(order))
            .with_state(Shared(Arc::clone(self)))
    }
}

/// Stops a step, or its preparation, when no caller waits for the reply.
struct StopsUnheard {
    host: Arc<BenchmarkHost>,
    id: Option<TransferId>,
}

impl Drop for StopsUnheard {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.host.cancel(id);
        }
    }
}

async fn order(
    State(Shared(benchmarks)): State<Shared>,
    _: OwnPeer,
    Body(order): Body<BenchmarkOrder>,
) -> Reply<BenchmarkReply> {
    let host = Arc::clone(&benchmarks.host);
    let id = match &order {
        BenchmarkOrder::Prepare(id, _) | BenchmarkOrder::Run(id) => Some(*id),
        _ => None,
    };
    let mut unheard = StopsUnheard { host: Arc::clone(&host), id };
    let reply = blocking(move || host.handle(order)).await;
    unheard.id = None;
    reply.map(Json)
}
