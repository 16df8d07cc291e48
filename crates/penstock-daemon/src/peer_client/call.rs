//! A request to a peer on another host: its answer is a stream of parts
//! ([`penstock_api::rpc::call`]). A peer that is silent for a while is not waited for.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use penstock_api::delete::Surplus;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::request::{PeerReply, PeerRequest, SourceRequest, TargetRequest};
use penstock_api::rpc::call::{AnswerPart, AnswerParts, PeerCall};
use penstock_api::rpc::lease::LeaseId;
use reqwest::{Body, Method, Response};

use super::client::unreachable_peer;
use super::peer::{RemotePeer, unreadable};
use penstock_exit::cause::innermost;

/// Time for which an answer may take to begin.
const BEGIN: Duration = Duration::from_secs(30);
/// Time for which a peer at work may be silent.
const SILENT: Duration = Duration::from_secs(15);
/// Interval at which the caller's wish to stop is looked at.
const STOP_INTERVAL: Duration = Duration::from_millis(100);
/// Time for which a peer may take to look at a store, or at a data set's root.
const LOOK: Duration = Duration::from_secs(30);
/// Time for which it may take for the names of a page, or for changed entries, some of which it
/// reads again.
const PAGE: Duration = Duration::from_secs(300);
/// Time for which it may take to read large files of a page again that were written to late.
const MEND: Duration = Duration::from_secs(3600);
/// Time that a request may take beyond its stated wait.
const LATE: Duration = Duration::from_secs(12);
/// Time for which it may take to remove, which is worked on for two seconds and may end with a
/// sync.
const REMOVE: Duration = Duration::from_secs(240);
/// Time that a peer may take for the message that a transfer is over.
const RELEASE: Duration = Duration::from_secs(3);

/// Returns the longest time until the reply; `None` for a request that takes as long as the data
/// is large, and that its caller stops.
fn patience(request: &PeerRequest<'_>) -> Option<Duration> {
    let waited = |wait_ms: u32| LATE + Duration::from_millis(wait_ms.into());
    Some(match request {
        PeerRequest::List { .. } | PeerRequest::Delete { .. } => return None,
        PeerRequest::Target(request) => match request {
            TargetRequest::RootKind { .. }
            | TargetRequest::StoreId { .. }
            | TargetRequest::Room { .. }
            | TargetRequest::Prepare { .. } => LOOK,
            TargetRequest::Compare { .. }
            | TargetRequest::Look { .. }
            | TargetRequest::SameSize { .. }
            | TargetRequest::Confirm { .. }
            | TargetRequest::CleanPage { .. }
            | TargetRequest::CleanMarker { .. } => PAGE,
            TargetRequest::Mend { .. } => MEND,
            TargetRequest::CompareContents { .. } | TargetRequest::Prove { .. } => return None,
        },
        PeerRequest::Source(request) => match request {
            SourceRequest::OpenScan(_) => LOOK,
            SourceRequest::Page { wait_ms, .. } | SourceRequest::Digests { wait_ms, .. } => {
                waited(*wait_ms)
            }
            SourceRequest::Recheck { .. } => PAGE,
            SourceRequest::Remove { .. } => REMOVE,
            SourceRequest::Release { .. } => RELEASE,
        },
    })
}

/// The caller's side of a request at work.
pub(super) struct Waiting<'a> {
    /// Set to end the request early.
    pub(super) stop: &'a AtomicBool,
    /// Takes the progress, which never falls.
    pub(super) alive: &'a mut dyn FnMut(u64),
    /// Takes items of a listing.
    pub(super) found: &'a mut dyn FnMut(Vec<Surplus>) -> Result<(), Problem>,
}

impl RemotePeer {
    /// Sends a request, under a lease if it needs one, and returns the reply. Blocks until the
    /// peer has replied, the request's time is over, or its caller stops it.
    ///
    /// # Errors
    /// The peer's, or that of `waiting.found`. Code [`ProblemCode::Stopped`].
    /// [`ProblemCode::PeerUnreachable`]: the answer broke off.
    pub(super) fn send(
        &self,
        request: PeerRequest<'_>,
        lease: Option<LeaseId>,
        waiting: Waiting<'_>,
    ) -> Result<PeerReply, Problem> {
        let patience = patience(&request);
        let lease = lease.map(|lease| lease.number);
        let body = PeerCall { caller: self.caller.clone(), lease, request }.encode();
        let Waiting { stop, alive, found } = waiting;
        let answer = self.runtime.block_on(async {
            tokio::select! {
                answer = self.converse(&body, patience, alive, found) => answer,
                () = wished(stop) => {
                    Err(Problem::new(ProblemCode::Stopped, "the request was stopped"))
                }
            }
        });
        answer.map_err(|problem| self.named(problem))
    }

    /// Asks the first of the peer's addresses that answers. A request with a deadline is repeated
    /// at the next address if its answer breaks off; its effect occurs once.
    async fn converse(
        &self,
        body: &[u8],
        patience: Option<Duration>,
        alive: &mut dyn FnMut(u64),
        found: &mut dyn FnMut(Vec<Surplus>) -> Result<(), Problem>,
    ) -> Result<PeerReply, Problem> {
        let mut last = None;
        for address in self.client.in_order(&self.addresses) {
            let (body, path) = (Body::from(body.to_vec()), "/peer/v1/call");
            let begin = patience.map_or(BEGIN, |patience| patience.min(BEGIN));
            let whole = async {
                match self.client.send(address, Method::POST, path, body, begin).await {
                    Ok(answer) => (true, hear(answer, address, alive, found).await),
                    Err(problem) => (false, Err(problem)),
                }
            };
            let (begun, answer) = match patience {
                None => whole.await,
                Some(patience) => {
                    tokio::time::timeout(patience, whole).await.unwrap_or_else(|_| {
                        (false, Err(unreachable_peer(address, "no answer in time")))
                    })
                }
            };
            match answer {
                Err(problem) if problem.code == ProblemCode::PeerUnreachable => {
                    self.client.note_silent(address);
                    if begun && patience.is_none() {
                        return Err(problem);
                    }
                    last = Some(problem);
                }
                answer => return answer,
            }
        }
        let nowhere =
            || Problem::new(ProblemCode::PeerUnreachable, "the peer has no known address");
        Err(last.unwrap_or_else(nowhere))
    }
}

/// Returns when `stop` is set.
async fn wished(stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        tokio::time::sleep(STOP_INTERVAL).await;
    }
}

/// Hears an answer to its end.
async fn hear(
    mut answer: Response,
    address: SocketAddr,
    alive: &mut dyn FnMut(u64),
    found: &mut dyn FnMut(Vec<Surplus>) -> Result<(), Problem>,
) -> Result<PeerReply, Problem> {
    let mut parts = AnswerParts::default();
    loop {
        while let Some(part) = parts.next_part().map_err(unreadable)? {
            match part {
                AnswerPart::Done(reply) => return Ok(*reply),
                AnswerPart::Failed(problem) => return Err(problem),
                AnswerPart::Alive(progress) => alive(progress),
                AnswerPart::Found(items) => found(items)?,
            }
        }
        match tokio::time::timeout(SILENT, answer.chunk()).await {
            Ok(Ok(Some(bytes))) => parts.push(&bytes),
            Ok(Ok(None)) => return Err(unreachable_peer(address, "its answer was cut short")),
            Ok(Err(error)) => return Err(unreachable_peer(address, innermost(&error))),
            Err(_) => return Err(unreachable_peer(address, "it is silent")),
        }
    }
}
