//! This host as a peer of a controller on another host of its site: as a target, and as a source.
//!
//! `POST /peer/v1/task` carries the conversation of one task: the request's body has the messages
//! of the controller, the answer's those of the task, both as a stream. `POST /peer/v1/call` is a
//! request with one reply ([`calls`]). Before any work this host asks the caller whether it is the
//! controller ([`remote_leases`]), and ends the work of an older controller here (B4).

mod calls;
mod remote_leases;
pub(crate) mod task;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::HeaderValue;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt as _;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::task::{
    Caller, OpenTask, PEER_API_VERSION, PEER_VERSION_HEADER, TaskOpened, check_peer_version,
};
use penstock_api::task::{TargetPeer as _, TaskControl, TaskSpec};
use penstock_cluster::membership::ClusterNow;
use penstock_peer::{SourceService, TargetService};
use penstock_proto::id::TransferId;
use penstock_proto::version;
use penstock_proto::wire::Writer;
use remote_leases::{RemoteLeases, is_older};
use task::Hosted;
use tokio::sync::{Semaphore, watch};

use super::peer_client::client::PeerClient;
use crate::http;
use crate::http::reply::{ProblemReply, blocking};

/// Longest description of a task.
const HEAD_BYTES_MAX: usize = 8 << 20;
/// The time that the beginning of a request may take.
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
/// The time after which received messages are acknowledged, if no other message is sent; also the
/// interval at which figures are read.
const IDLE: Duration = Duration::from_millis(300);
/// The interval at which this host checks whether a task has lost its controller.
const LOOK: Duration = Duration::from_millis(500);
/// The time for which a task without a stated grant runs without a message of its controller.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Most that is done at a time, each by a thread; more is refused for a while.
const AT_A_TIME: usize = 16;
/// The time for which an ended task waits until its controller has received the end.
const LINGER: Duration = Duration::from_secs(30);

/// The tasks and requests that run here for controllers on other hosts.
pub(crate) struct Host {
    target: Arc<TargetService>,
    source: Arc<SourceService>,
    leases: Arc<RemoteLeases>,
    now: watch::Receiver<Arc<ClusterNow>>,
    tasks: Mutex<HashMap<u64, Entry>>,
    /// Permits of requests that read files, list or delete.
    places: Arc<Semaphore>,
}

#[derive(Clone)]
struct Entry {
    hosted: Arc<Hosted>,
    /// The result of the start; `None` while the task is starting.
    begun: watch::Receiver<Option<Result<(), Problem>>>,
}

impl Host {
    pub(crate) fn new(
        (target, source): (Arc<TargetService>, Arc<SourceService>),
        client: PeerClient,
        now: watch::Receiver<Arc<ClusterNow>>,
    ) -> Arc<Self> {
        let leases = RemoteLeases::new(client, now.clone());
        let places = Arc::new(Semaphore::new(AT_A_TIME));
        Arc::new(Self { target, source, leases, now, tasks: Mutex::default(), places })
    }

    /// Returns the places for calls of a controller: those that are taken, and all.
    pub(crate) fn calls(&self) -> (usize, usize) {
        (AT_A_TIME.saturating_sub(self.places.available_permits()), AT_A_TIME)
    }

    fn tasks(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Answers a request of a peer of the own site.
    pub(crate) async fn answer(self: Arc<Self>, request: axum::extract::Request) -> Response {
        let version = request.headers().get(PEER_VERSION_HEADER).cloned();
        let version = version.as_ref().and_then(|text| text.to_str().ok());
        let spoken = check_peer_version(version).and_then(|()| self.check_format());
        let answer = match (spoken, request.uri().path()) {
            (Err(problem), _) => Err(problem),
            (_, "/peer/v1/task") => self.serve_task(request.into_body()).await,
            (_, "/peer/v1/call") => self.serve_call(request.into_body()).await,
            _ => Err(Problem::new(ProblemCode::Path, "the path does not exist")),
        };
        with_version(answer.unwrap_or_else(|problem| ProblemReply(problem).into_response()))
    }

    /// Refuses work whose pages a release that is too old for its site cannot read.
    fn check_format(&self) -> Result<(), Problem> {
        let (format, known) = (self.now.borrow().format, version::known().formats());
        if format == 0 || known.contains(format) {
            return Ok(());
        }
        let title =
            format!("the site's records are of format {format}, this peer's release knows {known}");
        Err(Problem::new(ProblemCode::PeerVersion, title)
            .hint("install the release of the other peers"))
    }

    async fn serve_task(self: Arc<Self>, body: Body) -> Result<Response, Problem> {
        let mut body = body.into_data_stream();
        let head = tokio::time::timeout(HEAD_PATIENCE, read_head(&mut body)).await;
        let (head, rest) = head.map_err(|_| unreadable("it does not come"))??;
        let open: OpenTask = http::decode(&head)?;
        let mut entry = self.entry(open.task, open.caller, open.spec).await?;
        let begun = entry.begun.wait_for(Option::is_some).await;
        let begun = begun.map_err(|_| unknown())?.clone();
        begun.unwrap_or_else(|| Err(unknown()))?;
        let hosted = entry.hosted;
        if hosted.is_detached() {
            return Err(unknown());
        }
        let (connection, heard) = hosted.connect(open.heard).map_err(unreadable)?;
        let listened = Arc::clone(&hosted);
        tokio::spawn(async move {
            listen(&listened, connection, rest, body).await;
            listened.disconnect(connection);
        });
        let (adopted, incarnation) = (hosted.adopted(), hosted.incarnation());
        let opened = http::encode(&TaskOpened { heard, adopted, incarnation })?;
        let mut head = Writer::new();
        head.bytes(&opened);
        let first = futures_util::stream::once(async move { Ok(Bytes::from(head.into_bytes())) });
        let said =
            futures_util::stream::unfold((hosted, false), move |(hosted, idle)| async move {
                let said = next_output(&hosted, connection, idle).await?;
                Some((Ok::<_, std::io::Error>(Bytes::from(said)), (hosted, false)))
            });
        Ok(Body::from_stream(first.chain(said)).into_response())
    }

    /// Returns the task of this number, begun if it is new.
    async fn entry(
        self: &Arc<Self>,
        number: u64,
        caller: Caller,
        spec: Option<TaskSpec>,
    ) -> Result<Entry, Problem> {
        if let Some(entry) = self.tasks().get(&number).cloned() {
            return Ok(entry);
        }
        let spec = spec.ok_or_else(unknown)?;
        let fence = self.leases.tenure(&caller).await?;
        let grant = spec.grant.unwrap_or(SILENCE_MAX);
        let spec = TaskSpec { fence, ..spec };
        let hosted = Arc::new(Hosted::new(number, caller.epoch, &spec, grant));
        let (begun, told) = watch::channel(None);
        let entry = Entry { hosted: Arc::clone(&hosted), begun: told };
        match self.tasks().entry(number) {
            std::collections::hash_map::Entry::Occupied(known) => return Ok(known.get().clone()),
            std::collections::hash_map::Entry::Vacant(free) => free.insert(entry.clone()),
        };
        let host = Arc::clone(self);
        // The caller may disconnect meanwhile: another connection then finds the result.
        tokio::spawn(async move {
            let starting = Arc::clone(&host);
            let control = Arc::clone(&hosted);
            let started = blocking(move || starting.start(&spec, &control)).await;
            let outcome = started.map_err(|ProblemReply(problem)| problem);
            let failed = outcome.is_err();
            begun.send_replace(Some(outcome));
            if failed {
                host.tasks().remove(&number);
            } else {
                host.watch_over(hosted).await;
            }
        });
        Ok(entry)
    }

    /// Starts a task. An earlier task of the same transfer ends before, and hands over its
    /// uncommitted writes (A7): two tasks of one transfer never run at a time. Blocks.
    fn start(&self, spec: &TaskSpec, hosted: &Arc<Hosted>) -> Result<(), Problem> {
        let (transfer, epoch) = (spec.transfer, hosted.epoch);
        let others = self.others(transfer, hosted.number);
        // Threads that wait for an answer of an earlier controller are released.
        others.iter().for_each(|other| other.detach());
        let control = Arc::clone(hosted) as Arc<dyn TaskControl>;
        let task = self.target.start(spec, control)?;
        for other in others {
            tracing::info!(%transfer, epoch = other.epoch, "an earlier task has ended");
            other.abandon();
            other.stop(false);
            self.tasks().remove(&other.number);
        }
        if let Some(adopted) = task.take_adopted() {
            let (pieces, under) = (adopted.reports.len(), adopted.epoch);
            tracing::info!(%transfer, pieces, under, "what was written for another controller");
            hosted.tell_adopted(adopted);
        }
        tracing::info!(%transfer, epoch, "a task has started for a controller");
        hosted.set_task(Arc::clone(&task));
        if hosted.is_stopping() {
            // The next one of this transfer has come while this one began.
            task.stop(false);
            hosted.drop_task();
            return Err(unknown());
        }
        Ok(())
    }

    /// Returns the tasks of a transfer that an earlier attempt, or an earlier controller, has
    /// started here.
    fn others(&self, transfer: TransferId, number: u64) -> Vec<Arc<Hosted>> {
        let tasks = self.tasks();
        let others = tasks.values().map(|entry| &entry.hosted);
        let others = others.filter(|hosted| hosted.transfer == transfer);
        others.filter(|hosted| hosted.number != number).cloned().collect()
    }

    /// Ends a task whose controller is silent for longer than the grant. If another controller
    /// leads, the task continues until that one starts a task, or the grant is over.
    async fn watch_over(self: Arc<Self>, hosted: Arc<Hosted>) {
        let mut ended = None;
        loop {
            tokio::time::sleep(LOOK).await;
            if !self.tasks().contains_key(&hosted.number) {
                return;
            }
            if hosted.has_ended() {
                let since = *ended.get_or_insert_with(std::time::Instant::now);
                if hosted.is_done() || since.elapsed() >= LINGER {
                    break;
                }
                continue;
            }
            let (transfer, epoch) = (hosted.transfer, hosted.epoch);
            if !hosted.is_detached() && is_older(epoch, &self.now.borrow()) {
                tracing::info!(%transfer, epoch, "another controller leads: the task waits for it");
                hosted.detach();
            }
            if hosted.is_stopping() || hosted.silence() < hosted.grant {
                continue;
            }
            tracing::warn!(%transfer, epoch, "task ends: its controller is silent");
            hosted.abandon();
            let stopped = Arc::clone(&hosted);
            // The task ends, or hangs in a system call and is then abandoned.
            let _ = tokio::task::spawn_blocking(move || stopped.stop(false)).await;
        }
        self.tasks().remove(&hosted.number);
    }

    /// Ends all tasks: the daemon goes. Blocks until their threads are joined, or `deadline`.
    pub(crate) fn leave(&self, deadline: Duration) {
        let all: Vec<_> = self.tasks().values().map(|entry| Arc::clone(&entry.hosted)).collect();
        let stop = |hosted: Arc<Hosted>| {
            let stopped = Arc::clone(&hosted);
            let thread = std::thread::Builder::new().spawn(move || stopped.stop(false));
            // Without a thread of its own it is stopped here, before the others.
            thread.inspect_err(|_| hosted.stop(false)).ok()
        };
        let stopping: Vec<_> = all.into_iter().filter_map(stop).collect();
        let until = std::time::Instant::now() + deadline;
        while stopping.iter().any(|thread| !thread.is_finished()) {
            if std::time::Instant::now() >= until {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Reads the beginning of a body: a length and so many bytes; also returns the bytes after it.
async fn read_head(body: &mut BodyDataStream) -> Result<(Vec<u8>, Vec<u8>), Problem> {
    let mut bytes = Vec::new();
    loop {
        if let Some(length) = bytes.first_chunk::<4>() {
            let end = u32::from_le_bytes(*length) as usize + 4;
            if end > HEAD_BYTES_MAX {
                return Err(unreadable("it is too long"));
            }
            if bytes.len() >= end {
                let rest = bytes.split_off(end);
                bytes.drain(..4);
                return Ok((bytes, rest));
            }
        }
        let part = body.next().await.ok_or_else(|| unreadable("it was cut short"))?;
        bytes.extend_from_slice(&part.map_err(unreadable)?);
    }
}

/// Receives the controller's messages over one connection, until that breaks.
async fn listen(hosted: &Arc<Hosted>, connection: u64, first: Vec<u8>, mut body: BodyDataStream) {
    let mut part = Bytes::from(first);
    loop {
        match hosted.input(connection, &part) {
            Ok(None) => {}
            Ok(Some(discard)) => {
                let stopped = Arc::clone(hosted);
                tokio::task::spawn_blocking(move || stopped.stop(discard));
            }
            Err(error) => {
                let transfer = hosted.transfer;
                tracing::warn!(%transfer, %error, "a controller is not understood");
                hosted.abandon();
                return;
            }
        }
        match body.next().await {
            Some(Ok(next)) => part = next,
            _ => return,
        }
    }
}

/// Waits for bytes to send; `None` if the connection is to end.
async fn next_output(hosted: &Hosted, connection: u64, mut idle: bool) -> Option<Vec<u8>> {
    loop {
        if let Some(bytes) = hosted.output(connection, idle).ok()? {
            return Some(bytes);
        }
        idle = tokio::time::timeout(IDLE, hosted.output.notified()).await.is_err();
    }
}

/// Says which version this peer speaks.
pub(crate) fn with_version(mut response: Response) -> Response {
    let version = HeaderValue::from(PEER_API_VERSION);
    response.headers_mut().insert(PEER_VERSION_HEADER, version);
    response
}

fn unknown() -> Problem {
    let title = "the peer has no such task, or has ended it";
    Problem::new(ProblemCode::TaskUnknown, title)
}

fn unreadable(why: impl std::fmt::Display) -> Problem {
    Problem::new(ProblemCode::RequestUnreadable, "a controller's request cannot be read")
        .because(why)
}
