//! Requests of a controller on another host of the site, `POST /peer/v1/call`: each is answered by
//! a stream of parts ([`penstock_api::rpc::call`]).
//!
//! A thread does the work. Twice a second the thread reports its progress to the controller, which
//! also shows whether the controller still listens: if not, the work ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::response::Response;
use penstock_api::delete::{Deleted, Surplus};
use penstock_api::fence::Fence;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::proof::ProofProgress;
use penstock_api::request::{PATH_BYTES_FULL, PeerReply, PeerRequest, TargetRequest};
use penstock_api::rpc::call::{AnswerPart, CALL_BYTES_MAX, PeerCall};
use penstock_api::rpc::task::Caller;
use penstock_api::scan::SourcePeer as _;
use penstock_api::task::{TargetPeer as _, TaskSpec};
use penstock_peer::{Dealt, LeasedSource, SourceService, TargetService};
use tokio::sync::mpsc;

use super::{AT_A_TIME, HEAD_PATIENCE, Host, unreadable};

/// Time for which the bytes of a call may take to arrive.
const CALL_PATIENCE: Duration = HEAD_PATIENCE.saturating_mul(3);
/// Interval at which the progress of a request is reported.
const ALIVE: Duration = Duration::from_millis(500);
/// Time for which a request to delete is worked on before it is answered.
const SLICE: Duration = Duration::from_secs(2);
/// Most items of a listing that are sent together.
const FOUND_MAX: usize = 4096;
/// Most parts of an answer that wait to be sent.
const WAITING_PARTS: usize = 4;

/// A request that is being answered.
struct Answering {
    target: Arc<TargetService>,
    source: Arc<SourceService>,
    parts: mpsc::Sender<Bytes>,
    progress: Arc<ProofProgress>,
    lease: u64,
    fence: Fence,
}

/// Returns whether a request may take minutes, so that few of its kind are at work at a time.
fn takes_long(request: &PeerRequest<'_>) -> bool {
    match request {
        PeerRequest::List { .. } | PeerRequest::Delete { .. } => true,
        PeerRequest::Target(request) => {
            matches!(request, TargetRequest::Prove { .. } | TargetRequest::CompareContents { .. })
        }
        PeerRequest::Source(_) => false,
    }
}

impl Host {
    /// Answers a request. The answer begins when the controller's right is known.
    pub(super) async fn serve_call(&self, body: Body) -> Result<Response, Problem> {
        let whole = tokio::time::timeout(CALL_PATIENCE, axum::body::to_bytes(body, CALL_BYTES_MAX));
        let whole = whole.await.map_err(|_| unreadable("it does not come"))?;
        let call = PeerCall::decode(&whole.map_err(unreadable)?).map_err(unreadable)?;
        let PeerCall { caller, lease, mut request } = call;
        let place = match takes_long(&request) {
            false => None,
            true => Some(Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
                let title = format!("this peer does {AT_A_TIME} things for its controller already");
                Problem::new(ProblemCode::Busy, title)
            })?),
        };
        let fence = self.fence_of(&caller, lease, &request).await?;
        request.set_fence(fence.clone());
        let (parts, mut stream) = mpsc::channel::<Bytes>(WAITING_PARTS);
        let progress = Arc::new(ProofProgress::default());
        tokio::spawn(tell(parts.downgrade(), Arc::clone(&progress)));
        let (target, source) = (Arc::clone(&self.target), Arc::clone(&self.source));
        let lease = lease.unwrap_or(0);
        let answering = Answering { target, source, parts, progress, lease, fence };
        tokio::task::spawn_blocking(move || {
            let _place = place;
            let last = match answering.answer(request) {
                Ok(reply) => AnswerPart::Done(Box::new(reply)),
                Err(problem) => AnswerPart::Failed(problem),
            };
            answering.say(&last);
        });
        let parts = futures_util::stream::poll_fn(move |context| {
            stream.poll_recv(context).map(|part| part.map(Ok::<_, std::convert::Infallible>))
        });
        Ok(Response::new(Body::from_stream(parts)))
    }

    /// Returns the right by which a request acts: the caller's tenure, and its lease if the request
    /// needs one.
    async fn fence_of(
        &self,
        caller: &Caller,
        lease: Option<u64>,
        request: &PeerRequest<'_>,
    ) -> Result<Fence, Problem> {
        let lease = || lease.ok_or_else(|| unreadable("it names no lease"));
        match request {
            PeerRequest::Target(_) | PeerRequest::List { .. } => self.leases.tenure(caller).await,
            PeerRequest::Source(_) => self.leases.lease(caller, lease()?).await,
            PeerRequest::Delete { .. } => self.leases.lease_once(caller, lease()?).await,
        }
    }
}

/// Reports the progress until the request is done. Stops the request when no caller listens.
async fn tell(parts: mpsc::WeakSender<Bytes>, progress: Arc<ProofProgress>) {
    loop {
        tokio::time::sleep(ALIVE).await;
        let Some(parts) = parts.upgrade() else { return };
        let alive = AnswerPart::Alive(progress.bytes.load(Ordering::Relaxed));
        if parts.send(alive.encode_framed().into()).await.is_err() {
            progress.stop.store(true, Ordering::Release);
            return;
        }
    }
}

impl Answering {
    /// Sends a part. Blocks until it is accepted; returns false if no caller listens.
    fn say(&self, part: &AnswerPart) -> bool {
        self.parts.blocking_send(part.encode_framed().into()).is_ok()
    }

    /// Carries out a request. Blocks.
    fn answer(&self, request: PeerRequest<'_>) -> Result<PeerReply, Problem> {
        match request {
            PeerRequest::Target(request) => self.target.call(request, &self.progress),
            PeerRequest::Source(request) => {
                let source = Arc::clone(&self.source);
                LeasedSource::new(source, self.lease, self.fence.clone()).call(request)
            }
            PeerRequest::List { spec, directories } => {
                let (mut found, mut bytes) = (Vec::new(), 0);
                self.target.list_for(&spec, directories, &mut |surplus| {
                    bytes += surplus.path.0.len();
                    found.push(surplus);
                    if found.len() >= FOUND_MAX || bytes >= PATH_BYTES_FULL {
                        bytes = 0;
                        self.say_found(std::mem::take(&mut found))?;
                    }
                    Ok(())
                })?;
                self.say_found(found)?;
                Ok(PeerReply::Done)
            }
            PeerRequest::Delete { spec, items } => {
                self.delete(&spec, items.into_owned()).map(PeerReply::Deleted)
            }
        }
    }

    fn say_found(&self, found: Vec<Surplus>) -> Result<(), Problem> {
        if !found.is_empty() && !self.say(&AnswerPart::Found(found)) {
            return Err(Problem::new(
                ProblemCode::Stopped,
                "the caller no longer waits for the answer",
            ));
        }
        Ok(())
    }

    fn delete(&self, spec: &TaskSpec, items: Vec<Surplus>) -> Result<Deleted, Problem> {
        let began = Instant::now();
        let goes_on =
            || spec.fence.holds() && began.elapsed() < SLICE && !self.progress.is_stopped();
        let mut told = Deleted::default();
        let dealt = self.target.delete_for(spec, items, &goes_on, &mut |dealt| match dealt {
            Dealt::Deleted => {
                told.deleted += 1;
                self.progress.bytes.store(told.deleted, Ordering::Relaxed);
            }
            Dealt::Gone => {}
            Dealt::Failed(item) => told.failed.push(item),
        })?;
        told.dealt = dealt as u64;
        Ok(told)
    }
}
