//! This host as a source peer of a controller on another host of its site, which has not got the
//! store: `POST /peer/v1/source` ([`penstock_api::rpc::source`]).

use std::sync::Arc;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use penstock_api::problem::Problem;
use penstock_api::rpc::source::{SourceCall, SourceRequest};
use penstock_api::scan::{ScanRequest, SourcePeer};
use penstock_peer::OrderedSource;

use super::{Host, SOURCE_BYTES_MAX, read_whole};
use crate::http;
use crate::http::reply::{ProblemReply, blocking};

impl Host {
    /// Answers a question, by an order that is asked about for as long as anybody works by it.
    pub(super) async fn serve_source(&self, body: Body) -> Result<Response, Problem> {
        let asked = read_whole(body, SOURCE_BYTES_MAX).await?;
        let SourceRequest { caller, order, question } = http::decode(&asked)?;
        let fence = self.tenures.standing(&caller, order).await?;
        let source = OrderedSource::new(Arc::clone(&self.source), order, fence);
        let answer = blocking(move || answer(&source, question)).await;
        answer.map(IntoResponse::into_response).map_err(|ProblemReply(problem)| problem)
    }
}

fn answer(source: &dyn SourcePeer, question: SourceCall) -> Result<Vec<u8>, Problem> {
    Ok(match question {
        SourceCall::Open { scan, owner_names } => {
            let request = ScanRequest { owner_names, ..ScanRequest::from(*scan) };
            http::encode(&source.open_scan(&request)?)?
        }
        SourceCall::Page { transfer, number, wait_ms } => {
            source.page(transfer, number, wait_ms)?.encode()
        }
        SourceCall::Ask { transfer, question } => http::encode(&source.ask(transfer, &question)?)?,
        SourceCall::Digests { transfer, wish, wait_ms } => {
            http::encode(&source.digests(transfer, &wish, wait_ms)?)?
        }
        SourceCall::Remove { transfer, order } => http::encode(&source.remove(transfer, &order)?)?,
        SourceCall::Release { transfer } => {
            source.release(transfer);
            Vec::new()
        }
    })
}
