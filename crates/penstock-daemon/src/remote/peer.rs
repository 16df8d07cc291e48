//! A target peer on another host: how it is reached and asked.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::task::{Caller, EncodedPage, PeerCall, PeerRequest};
use penstock_api::task::TaskPage;
use penstock_proto::compared::{Comparison, EntrySet};
use penstock_proto::id::Name;
use penstock_proto::manifest::{Page, page_digest};
use penstock_proto::wire::{DecodeError, Reader, Writer};
use reqwest::Method;
use tokio::runtime::Handle;

use super::client::PeerClient;
use super::orders::Orders;
use crate::http;

/// A target peer on another host.
#[derive(Clone)]
pub(crate) struct RemotePeer {
    pub(crate) name: Name,
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) client: PeerClient,
    pub(crate) runtime: Handle,
    /// The controller on whose behalf this host asks.
    pub(crate) caller: Caller,
    /// The deletions that were ordered.
    pub(crate) orders: Arc<Orders>,
}

impl RemotePeer {
    /// Asks one question, whose answer fits a reply. Blocks for `patience` at most.
    pub(super) fn ask(
        &self,
        question: PeerCall,
        page: Option<&EncodedPage>,
        patience: Duration,
    ) -> Result<Vec<u8>, Problem> {
        let head = http::encode(&PeerRequest { caller: self.caller.clone(), question })?;
        let mut body = Writer::new();
        body.bytes(&head);
        if let Some(page) = page {
            page.encode(&mut body);
        }
        let body = body.into_bytes();
        let path = "/peer/v1/target";
        let answer = self.client.ask(&self.addresses, Method::POST, path, &body, patience);
        self.runtime.block_on(answer).map_err(|problem| self.named(problem))
    }

    /// The problem, with the name of the peer in its title.
    pub(super) fn named(&self, problem: Problem) -> Problem {
        Problem { title: format!("peer `{}`: {}", self.name, problem.title), ..problem }
    }
}

/// A page and the entries of it that stay as they are, as they travel.
pub(super) fn encoded(page: &Page, left: &EntrySet) -> EncodedPage {
    let bytes = page.encode();
    EncodedPage { digest: page_digest(&bytes), left: left.clone(), bytes }
}

/// Reads the answer to a comparison.
pub(super) fn compared_of(answer: &[u8]) -> Result<Comparison, Problem> {
    let mut input = Reader::new(answer);
    let mut compared = Comparison::decode(&mut input).map_err(unreadable)?;
    compared.in_the_way = input.u32("in the way").map_err(unreadable)?;
    Ok(compared)
}

/// An answer of another release.
pub(super) fn unreadable(error: DecodeError) -> Problem {
    let title = "a peer's answer is not what this release understands";
    Problem::new(ProblemCode::PeerReply, title).because(error)
}

/// A page as it travels, kept while several peers ask for it.
pub(super) fn travelling(page: &TaskPage) -> EncodedPage {
    EncodedPage { digest: page.digest, left: (*page.left).clone(), bytes: page.page.encode() }
}
