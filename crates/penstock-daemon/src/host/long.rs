//! What may take this host long, asked by a controller on another host of its site:
//! `POST /peer/v1/long`, answered by a stream of parts ([`penstock_api::rpc::streaming`]).
//!
//! A thread does the work. Twice a second it is told how far it is, which also shows whether
//! anybody listens still: if not, it ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::response::Response;
use penstock_api::delete::Surplus;
use penstock_api::fence::Fence;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::proof::{ProofProgress, ProofRequest};
use penstock_api::rpc::streaming::{
    Deleted, PATH_BYTES_FULL, StreamCall, StreamPart, StreamRequest, encode_proof,
};
use penstock_api::task::{TargetPeer as _, TaskPage, TaskSpec};
use penstock_peer::{Dealt, TargetService};
use penstock_proto::journal::{EntryDigest, decode_digests};
use penstock_proto::manifest::{Page, page_digest};
use penstock_proto::wire::{Reader, Writer};
use tokio::sync::mpsc;

use super::{
    AT_A_TIME, EncodedPage, HEAD_BYTES_MAX, Host, QUESTION_BYTES_MAX, read_whole, unreadable,
};
use crate::http;

/// How often it is told how far something is.
const ALIVE: Duration = Duration::from_millis(500);
/// How long an order to delete is worked on before it is answered.
const SLICE: Duration = Duration::from_secs(2);
/// Things that are found, and told together.
const FOUND_MAX: usize = 4096;
/// Parts of an answer that wait to be sent.
const WAITING_PARTS: usize = 4;

/// What goes with a question.
struct Asking {
    page: Option<EncodedPage>,
    digests: Vec<EntryDigest>,
}

/// Where an answer goes.
struct Answering {
    parts: mpsc::Sender<Bytes>,
    progress: Arc<ProofProgress>,
}

impl Host {
    /// Answers a question that may take long.
    pub(super) async fn serve_long(&self, body: Body) -> Result<Response, Problem> {
        let whole = read_whole(body, QUESTION_BYTES_MAX).await?;
        let mut input = Reader::new(&whole);
        let head = input.bytes(HEAD_BYTES_MAX, "question").map_err(unreadable)?;
        let StreamRequest { caller, question } = http::decode(head)?;
        let mut asking = Asking { page: None, digests: Vec::new() };
        if input.remaining() > 0 {
            asking.page = Some(EncodedPage::decode(&mut input).map_err(unreadable)?);
            asking.digests = decode_digests(&mut input).map_err(unreadable)?;
        }
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            let title = format!("this peer does {AT_A_TIME} things for its controller already");
            Problem::new(ProblemCode::Busy, title)
        })?;
        let mut fence = self.tenures.fence(&caller).await?;
        if let StreamCall::Delete { order, .. } = &question {
            fence = self.tenures.order(&caller, *order, fence).await?;
        }
        let (parts, mut stream) = mpsc::channel::<Bytes>(WAITING_PARTS);
        let progress = Arc::new(ProofProgress::default());
        tokio::spawn(tell(parts.downgrade(), Arc::clone(&progress)));
        let target = Arc::clone(&self.target);
        tokio::task::spawn_blocking(move || {
            let _place = place;
            let answering = Answering { parts, progress };
            let last = match answering.answer(&target, question, &asking, &fence) {
                Ok(bytes) => StreamPart::Done(bytes),
                Err(problem) => StreamPart::Failed(problem),
            };
            answering.say(&last);
        });
        let parts = futures_util::stream::poll_fn(move |context| {
            stream.poll_recv(context).map(|part| part.map(Ok::<_, std::convert::Infallible>))
        });
        Ok(Response::new(Body::from_stream(parts)))
    }
}

/// Says how far it is, until it is done; has it end when nobody listens.
async fn tell(parts: mpsc::WeakSender<Bytes>, progress: Arc<ProofProgress>) {
    loop {
        tokio::time::sleep(ALIVE).await;
        let Some(parts) = parts.upgrade() else { return };
        let alive = StreamPart::Alive(progress.bytes.load(Ordering::Relaxed));
        if parts.send(alive.encode_framed().into()).await.is_err() {
            progress.stop.store(true, Ordering::Release);
            return;
        }
    }
}

impl Answering {
    /// Blocks until it is taken; `false` if nobody listens.
    fn say(&self, part: &StreamPart) -> bool {
        self.parts.blocking_send(part.encode_framed().into()).is_ok()
    }

    fn answer(
        &self,
        target: &TargetService,
        question: StreamCall,
        asking: &Asking,
        fence: &Fence,
    ) -> Result<Vec<u8>, Problem> {
        let fenced = |spec: Box<TaskSpec>| {
            let spec = *spec;
            TaskSpec { fence: fence.clone(), ..spec }
        };
        match question {
            StreamCall::List { spec, directories } => {
                let (mut found, mut bytes) = (Vec::new(), 0);
                target.list_for(&fenced(spec), directories, &mut |surplus| {
                    bytes += surplus.path.0.len();
                    found.push(surplus);
                    if found.len() >= FOUND_MAX || bytes >= PATH_BYTES_FULL {
                        bytes = 0;
                        self.say_found(std::mem::take(&mut found))?;
                    }
                    Ok(())
                })?;
                self.say_found(found)?;
                Ok(Vec::new())
            }
            StreamCall::Delete { spec, items, .. } => {
                http::encode(&self.delete(target, &fenced(spec), items)?)
            }
            StreamCall::Prove { spec, readback, also } => {
                let page = page_of(asking)?;
                let request = ProofRequest {
                    page: &page,
                    digests: &asking.digests,
                    readback,
                    also: &also,
                    progress: &self.progress,
                };
                Ok(encode_proof(&target.prove(&fenced(spec), &request)?))
            }
            StreamCall::CompareContents { spec, digests } => {
                let page = page_of(asking)?.page;
                let progress = &*self.progress;
                let compared = target.compare_contents(&fenced(spec), &page, &digests, progress)?;
                let mut out = Writer::new();
                compared.encode(&mut out);
                out.u32(compared.in_the_way);
                Ok(out.into_bytes())
            }
        }
    }

    fn say_found(&self, found: Vec<Surplus>) -> Result<(), Problem> {
        if !found.is_empty() && !self.say(&StreamPart::Found(found)) {
            return Err(Problem::new(ProblemCode::Stopped, "nobody listens any more"));
        }
        Ok(())
    }

    fn delete(
        &self,
        target: &TargetService,
        spec: &TaskSpec,
        items: Vec<Surplus>,
    ) -> Result<Deleted, Problem> {
        let began = Instant::now();
        let goes_on =
            || spec.fence.holds() && began.elapsed() < SLICE && !self.progress.is_stopped();
        let mut told = Deleted::default();
        let dealt = target.delete_for(spec, items, &goes_on, &mut |dealt| match dealt {
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

/// The page that came with a question.
fn page_of(asking: &Asking) -> Result<TaskPage, Problem> {
    let encoded = asking.page.as_ref().ok_or_else(|| unreadable("there is no page with it"))?;
    if page_digest(&encoded.bytes) != encoded.digest {
        return Err(unreadable("its page is another one"));
    }
    let page = Arc::new(Page::decode(&encoded.bytes).map_err(unreadable)?);
    Ok(TaskPage { page, digest: encoded.digest, left: Arc::new(encoded.left.clone()) })
}
