//! Listing for another peer of the site: `/peer/v1/list/ID`, its two ends.
//!
//! The controller's host posts the paths to list, and receives a stream of parts
//! ([`penstock_proto::listing`]). The scan, its options and its guard are found in the shared
//! journal, so a request names paths only. A request whose connection is closed, or whose answer is
//! not read, ends at the next part.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::task::{PEER_VERSION_HEADER, check_peer_version};
use penstock_cluster::membership::ClusterNow;
use penstock_peer::{Helpers, Listing, SourceService};
use penstock_proto::id::{Name, TransferId};
use penstock_proto::listing::{LIST_REQUEST_BYTES_MAX, ListPart, ListWork, PartBuffer};
use reqwest::Method;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};

use crate::http::reply::ProblemReply;
use crate::peer_client::client::PeerClient;
use crate::peer_server::with_version;
use penstock_exit::cause::innermost;

/// Path of requests to list, before the transfer's id.
pub(crate) const LIST: &str = "/peer/v1/list/";
/// Requests that are served at a time, each by a thread; more are refused for a while.
const SERVED_MAX: usize = 64;
/// The time that the beginning of an answer may take; the requester gives up sooner.
const PATIENCE: Duration = Duration::from_secs(20);
/// Parts of an answer that wait to be sent.
const WAITING_PARTS: usize = 4;

/// Lists for other peers of this site.
#[derive(Clone)]
pub(crate) struct Lister {
    service: Arc<SourceService>,
    places: Arc<Semaphore>,
}

impl Lister {
    pub(crate) fn new(service: Arc<SourceService>) -> Self {
        Self { service, places: Arc::new(Semaphore::new(SERVED_MAX)) }
    }

    /// Returns the places for requests to list: those that are taken, and all.
    pub(crate) fn places(&self) -> (usize, usize) {
        (SERVED_MAX.saturating_sub(self.places.available_permits()), SERVED_MAX)
    }

    /// Answers a request of a peer of this site.
    pub(crate) async fn serve(&self, request: Request) -> Response {
        let refused = |problem: Problem| with_version(ProblemReply(problem).into_response());
        let version = request.headers().get(PEER_VERSION_HEADER).cloned();
        let version = version.as_ref().and_then(|text| text.to_str().ok());
        if let Err(problem) = check_peer_version(version) {
            return refused(problem);
        }
        let path = request.uri().path().to_owned();
        let transfer = path.strip_prefix(LIST).and_then(|id| id.parse::<TransferId>().ok());
        let Some(transfer) = transfer else {
            let title = "the request does not name a transfer";
            return refused(Problem::new(ProblemCode::Request, title));
        };
        let body = axum::body::to_bytes(request.into_body(), LIST_REQUEST_BYTES_MAX).await;
        let work = body
            .map_err(|error| error.to_string())
            .and_then(|body| ListWork::decode(&body).map_err(|error| error.to_string()));
        let work = match work {
            Ok(work) => work,
            Err(why) => {
                let title = "what is to be listed cannot be read: are the releases the same?";
                return refused(Problem::new(ProblemCode::Request, title).because(why));
            }
        };
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let title = format!("this peer lists for {SERVED_MAX} requests already");
            return refused(Problem::new(ProblemCode::Busy, title));
        };
        let (parts, stream) = mpsc::channel::<Bytes>(WAITING_PARTS);
        let service = Arc::clone(&self.service);
        tokio::task::spawn_blocking(move || {
            let _place = place;
            let mut emit =
                |part: ListPart| parts.blocking_send(part.encode_framed(Vec::new()).into()).is_ok();
            if let Err(problem) = service.list_for(transfer, &work, &mut emit) {
                emit(ListPart::Ended { why: problem.to_string() });
            }
        });
        let parts = stream::unfold(stream, |mut stream| async move {
            let part = stream.recv().await?;
            Some((Ok::<_, std::convert::Infallible>(part), stream))
        });
        with_version(Response::new(Body::from_stream(parts)))
    }
}

/// The site's other peers, as helpers of a scan of this one.
pub(crate) struct Allies {
    pub(crate) own: Name,
    pub(crate) client: PeerClient,
    pub(crate) now: watch::Receiver<Arc<ClusterNow>>,
    pub(crate) runtime: Handle,
}

impl Helpers for Allies {
    fn peers(&self, store: &Name) -> Vec<Name> {
        let now = Arc::clone(&self.now.borrow());
        let identity = |peer: &Name| {
            let card = now.peers.iter().find(|card| card.peer == *peer)?;
            let store = card.stores.iter().find(|card| card.store == *store)?;
            Some(store.identity.clone())
        };
        let own = identity(&self.own).unwrap_or_default();
        let others = now.peers.iter().filter(|card| card.peer != self.own);
        let same = others.filter(|card| {
            let theirs = identity(&card.peer);
            // If there is no identity yet, the peer's own view is asked for.
            theirs.is_some_and(|theirs| own.is_empty() || theirs.is_empty() || theirs == own)
        });
        same.map(|card| card.peer.clone()).collect()
    }

    fn list(&self, peer: &Name, transfer: TransferId, work: &ListWork) -> Box<dyn Listing> {
        let now = Arc::clone(&self.now.borrow());
        let card = now.peers.iter().find(|card| card.peer == *peer);
        let addresses = card.map(|card| self.client.in_order(&card.addresses));
        let address = addresses.and_then(|addresses| addresses.first().copied());
        let stage = match address {
            Some(address) => {
                let (client, path) = (self.client.clone(), format!("{LIST}{transfer}"));
                let body = work.encode();
                Stage::Asking(Box::pin(async move {
                    client.send(address, Method::POST, &path, body.into(), PATIENCE).await
                }))
            }
            None => Stage::Gone,
        };
        let parts = PartBuffer::default();
        Box::new(FarListing { peer: peer.clone(), runtime: self.runtime.clone(), stage, parts })
    }
}

type Asking = Pin<Box<dyn Future<Output = Result<reqwest::Response, Problem>> + Send>>;

enum Stage {
    Asking(Asking),
    Reading(reqwest::Response),
    /// The peer is not there, or the answer has come to its end.
    Gone,
}

struct FarListing {
    peer: Name,
    runtime: Handle,
    stage: Stage,
    parts: PartBuffer,
}

impl FarListing {
    fn lost(&self, why: impl std::fmt::Display) -> Problem {
        let title = format!("peer `{}` does not list", self.peer);
        Problem::new(ProblemCode::PeerLost, title).because(why)
    }

    /// Reads on until there is another part.
    async fn advance(&mut self) -> Result<ListPart, Problem> {
        loop {
            if let Some(part) = self.parts.next_part().map_err(|error| self.lost(error))? {
                return Ok(part);
            }
            match &mut self.stage {
                Stage::Asking(asking) => {
                    let reply = asking.await.map_err(|problem| self.lost(problem))?;
                    self.stage = Stage::Reading(reply);
                }
                Stage::Reading(reply) => match reply.chunk().await {
                    Ok(Some(bytes)) => self.parts.push(&bytes),
                    Ok(None) => self.stage = Stage::Gone,
                    Err(error) => return Err(self.lost(innermost(&error))),
                },
                Stage::Gone => return Err(self.lost("it has ended the answer, or is not there")),
            }
        }
    }
}

impl Listing for FarListing {
    fn next(&mut self, wait: Duration) -> Result<Option<ListPart>, Problem> {
        let runtime = self.runtime.clone();
        // The next call continues a wait that was interrupted by its time limit.
        let part = runtime.block_on(async { tokio::time::timeout(wait, self.advance()).await });
        part.map_or(Ok(None), |part| part.map(Some))
    }
}
