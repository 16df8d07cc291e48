//! One task at a peer on another host: the controller's side of its conversation.
//!
//! A thread answers the task's questions, as if the task were here. Broken connections are made
//! again. The task is lost when its peer was silent for as long as its grant, or reports that it
//! does not know the task.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use penstock_api::limits::Share;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::task::{ControllerMessage, EncodedPage, OpenTask, PeerMessage, TaskOpened};
use penstock_api::task::{Adopted, Task, TaskControl, TaskFigures, TaskSpec, WorkReply};
use penstock_engine::lease::lapse_after;
use penstock_proto::journal::Incarnation;
use penstock_proto::network::DataAddress;
use penstock_proto::session::Session;
use penstock_proto::wire::Writer;
use reqwest::{Body, Method, Response};
use tokio::sync::Notify;

use super::client::unreachable_peer;
use super::peer::{RemotePeer, travelling};
use crate::http;
use penstock_exit::cause::innermost;

/// The time that a peer has to start a task: it first ends an older task of the transfer.
const START: Duration = Duration::from_secs(60);
/// The time that a new connection to a running task may take.
const CONNECT: Duration = Duration::from_secs(5);
/// Wait before a connection is made again.
const AGAIN: Duration = Duration::from_millis(200);
/// The time after which received messages are acknowledged, if no other message is sent.
const IDLE: Duration = Duration::from_millis(300);
/// The time that a question for work may stay open.
const WANT_MAX: Duration = Duration::from_secs(1);
/// The intervals at which an open question looks for work, at first and at last.
const LOOK: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(20));
/// The time that a peer may be silent whose task has no stated grant.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The time that a task may take to end: its own patience, and some for the network. A silent task
/// may write until its grant is over, so the end waits until then.
const STOP_MAX: Duration = Duration::from_secs(40);
/// The time for which the controller waits for a peer's report of writes for an earlier controller.
const ADOPTED_MAX: Duration = Duration::from_secs(10);
/// A silence that is shown to the user.
const SILENCE_SHOWN: Duration = Duration::from_secs(3);
/// Encoded pages that are kept for further questions.
const PAGES_KEPT: usize = 2;

/// A task at another host.
pub(super) struct RemoteTask {
    shared: Arc<Shared>,
}

struct Shared {
    peer: RemotePeer,
    number: u64,
    grant: Duration,
    control: Arc<dyn TaskControl>,
    talk: Mutex<Talk>,
    changed: Condvar,
    output: Notify,
}

#[derive(Default)]
struct Talk {
    session: Session,
    connection: u64,
    connected: bool,
    heard: Option<Instant>,
    figures: TaskFigures,
    /// The task has reported that its threads have ended.
    ended: bool,
    /// The reason why the task is lost, if it is.
    lost: Option<Problem>,
    /// The task's handle was dropped: no further messages are wanted.
    dropped: bool,
    /// The writes of an earlier task there, and the parts of that report: received, and in all.
    adopted: Adopted,
    adopted_parts: (u32, u32),
    incarnation: Incarnation,
    /// The number of batches of reports that the peer knows to be committed.
    committed: u64,
    /// Wakes the thread that answers its questions; `None` once the conversation is over.
    wake: Option<Sender<Heard>>,
}

/// An input of the thread that answers a task: a message, or `None` where there may be work for it.
type Heard = Option<PeerMessage>;

impl Talk {
    fn is_over(&self) -> bool {
        self.ended || self.dropped || self.lost.is_some()
    }
}

impl RemoteTask {
    /// Begins a task at a peer. Blocks until it has begun.
    ///
    /// # Errors
    /// The peer cannot be reached, speaks another version, or cannot begin.
    pub(super) fn start(
        peer: &RemotePeer,
        spec: &TaskSpec,
        control: Arc<dyn TaskControl>,
    ) -> Result<Self, Problem> {
        let shared = Arc::new(Shared {
            peer: peer.clone(),
            number: rand::random(),
            grant: spec.grant.unwrap_or(SILENCE_MAX),
            control,
            talk: Mutex::default(),
            changed: Condvar::new(),
            output: Notify::new(),
        });
        let (inbox, heard) = channel();
        let opened = peer.runtime.block_on(async {
            let mut last = None;
            for address in peer.client.in_order(&peer.addresses) {
                match shared.open(address, Some(spec), START).await {
                    Err(problem) if problem.code == ProblemCode::PeerUnreachable => {
                        last = Some(problem)
                    }
                    other => return other.map(|opened| (address, opened)),
                }
            }
            let title = format!("peer `{}` has no address", peer.name);
            Err(last.unwrap_or_else(|| Problem::new(ProblemCode::PeerUnreachable, title)))
        });
        let (address, (connection, answer)) = opened.map_err(|problem| shared.named(problem))?;
        let attending = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("remote-task".to_owned());
        thread.spawn(move || Attendant::new(attending).run(&heard)).map_err(Problem::no_thread)?;
        shared.lock().wake = Some(inbox.clone());
        let conversing = Arc::clone(&shared);
        peer.runtime.spawn(async move {
            Arc::clone(&conversing).converse(address, connection, answer, inbox).await;
            conversing.lock().wake = None;
        });
        shared.wait_for_adopted();
        Ok(Self { shared })
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn named(&self, problem: Problem) -> Problem {
        Problem { title: format!("peer `{}`: {}", self.peer.name, problem.title), ..problem }
    }

    fn say(&self, said: &ControllerMessage) {
        self.lock().session.push(said.encode());
        self.output.notify_one();
    }

    /// Waits for the report of an earlier task's writes there. Pieces that are not reported in time
    /// are fetched again.
    fn wait_for_adopted(&self) {
        let missing = |talk: &Talk| talk.adopted_parts.0 < talk.adopted_parts.1;
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), ADOPTED_MAX, |talk| missing(talk) && !talk.is_over());
        let (talk, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if missing(&talk) {
            tracing::warn!(peer = %self.peer.name, "the list of its earlier writes did not arrive \
                                                    in time");
        }
    }

    /// Opens a connection for the conversation; returns its number and the answer, whose beginning
    /// is read.
    async fn open(
        self: &Arc<Self>,
        address: std::net::SocketAddr,
        spec: Option<&TaskSpec>,
        patience: Duration,
    ) -> Result<(u64, Answer), Problem> {
        let (connection, heard) = {
            let mut talk = self.lock();
            talk.connection += 1;
            talk.connected = false;
            (talk.connection, talk.session.heard())
        };
        let open = OpenTask {
            task: self.number,
            caller: self.peer.caller.clone(),
            heard,
            spec: spec.cloned(),
        };
        let mut head = Writer::new();
        head.bytes(&http::encode(&open)?);
        let head = head.into_bytes();
        let first = futures_util::stream::once(async move { Ok(head) });
        let shared = Arc::clone(self);
        let said = futures_util::stream::unfold(shared, move |shared| async move {
            let said = shared.next_output(connection).await?;
            Some((Ok::<_, std::io::Error>(said), shared))
        });
        let body = Body::wrap_stream(first.chain(said));
        let client = &self.peer.client;
        let answer = client.send(address, Method::POST, "/peer/v1/task", body, patience).await?;
        let mut answer = Answer { response: answer, bytes: Vec::new() };
        let opened = tokio::time::timeout(CONNECT, answer.opened(address)).await;
        let opened = opened.map_err(|_| unreachable_peer(address, "no answer in time"))??;
        let mut talk = self.lock();
        talk.session.connect(opened.heard).map_err(not_understood)?;
        talk.connected = true;
        talk.heard = Some(Instant::now());
        talk.adopted_parts.1 = opened.adopted;
        talk.incarnation = opened.incarnation;
        drop(talk);
        self.output.notify_one();
        Ok((connection, answer))
    }

    /// Waits for bytes to send over a connection; `None` if it is to end.
    async fn next_output(&self, connection: u64) -> Option<Vec<u8>> {
        let mut idle = false;
        loop {
            {
                let mut talk = self.lock();
                if talk.connection != connection || talk.dropped || talk.lost.is_some() {
                    return None;
                }
                // No message is sent before the other side has reported the messages that it
                // received.
                if talk.connected {
                    let ended = talk.ended;
                    if let Some(bytes) = talk.session.poll_output(idle || ended) {
                        return Some(bytes);
                    }
                    if ended {
                        return None;
                    }
                }
            }
            idle = tokio::time::timeout(IDLE, self.output.notified()).await.is_err();
        }
    }

    /// Receives the task's messages, over one connection after the other, until the task is over.
    async fn converse(
        self: Arc<Self>,
        mut address: std::net::SocketAddr,
        mut connection: u64,
        mut answer: Answer,
        inbox: Sender<Heard>,
    ) {
        loop {
            let mut why = self.listen(connection, &mut answer, &inbox).await;
            self.lock().connected = false;
            if self.lock().is_over() {
                return;
            }
            (address, connection, answer) = loop {
                if let Some(problem) = self.loss(&why) {
                    self.lose(problem);
                    return;
                }
                tokio::time::sleep(AGAIN).await;
                if self.lock().is_over() {
                    return;
                }
                if why.code == ProblemCode::PeerNotUnderstood {
                    continue;
                }
                match self.open(address, None, CONNECT).await {
                    Ok((connection, answer)) => break (address, connection, answer),
                    Err(problem) => why = problem,
                }
                address = self.next_address(address);
            };
        }
    }

    fn next_address(&self, address: std::net::SocketAddr) -> std::net::SocketAddr {
        let all = &self.peer.addresses;
        let at = all.iter().position(|known| *known == address).unwrap_or(0);
        all[(at + 1) % all.len()]
    }

    /// Returns whether the task is lost, if a connection broke for this reason.
    fn loss(&self, why: &Problem) -> Option<Problem> {
        // A peer with any other answer, or an unknown one, may write until its grant is over.
        let gone = why.code == ProblemCode::TaskUnknown;
        let silence = self.lock().heard.map_or(Duration::MAX, |heard| heard.elapsed());
        if !gone && may_write(silence, self.grant) {
            return None;
        }
        let code = if gone { ProblemCode::TaskUnknown } else { ProblemCode::PeerLost };
        let title = format!("peer `{}` is lost", self.peer.name);
        Some(Problem::new(code, title).because(why))
    }

    fn lose(&self, problem: Problem) {
        {
            let mut talk = self.lock();
            talk.lost.get_or_insert_with(|| problem.clone());
        }
        self.changed.notify_all();
        self.output.notify_one();
        self.control.broken(problem);
    }

    /// Receives messages over one connection; returns the reason why it broke.
    async fn listen(&self, connection: u64, answer: &mut Answer, inbox: &Sender<Heard>) -> Problem {
        loop {
            let bytes = std::mem::take(&mut answer.bytes);
            if let Err(error) = self.input(connection, &bytes, inbox) {
                return not_understood(error);
            }
            if self.lock().is_over() {
                return not_understood("it is over");
            }
            // A peer without other messages sends a sign of life several times in its grant.
            let next = tokio::time::timeout(self.grant, answer.response.chunk()).await;
            match next {
                Ok(Ok(Some(part))) => answer.bytes = part.to_vec(),
                Ok(Ok(None)) => return broken("the connection was closed"),
                Ok(Err(error)) => return broken(innermost(&error)),
                Err(_) => return broken("it is silent"),
            }
        }
    }

    fn input(
        &self,
        connection: u64,
        bytes: &[u8],
        inbox: &Sender<Heard>,
    ) -> Result<(), penstock_proto::wire::DecodeError> {
        let mut talk = self.lock();
        if talk.connection != connection {
            return Ok(());
        }
        let messages = talk.session.handle_input(bytes)?;
        if !bytes.is_empty() {
            talk.heard = Some(Instant::now());
        }
        for message in messages {
            match PeerMessage::decode(&message)? {
                PeerMessage::Figures(figures) => talk.figures = figures,
                PeerMessage::Adopted(Adopted { epoch, granted, reports }) => {
                    (talk.adopted.epoch, talk.adopted.granted) = (epoch, granted);
                    talk.adopted.reports.extend(reports);
                    talk.adopted_parts.0 += 1;
                    self.changed.notify_all();
                }
                // The thread handles earlier messages first.
                said => drop(inbox.send(Some(said))),
            }
        }
        Ok(())
    }
}

/// Returns whether a peer that was silent for so long may still be in a write under its grant. Adds
/// the margin to the grant, as everywhere (B4).
fn may_write(silence: Duration, grant: Duration) -> bool {
    silence < lapse_after(grant)
}

fn broken(why: impl std::fmt::Display) -> Problem {
    Problem::new(ProblemCode::PeerUnreachable, "its connection broke").because(why)
}

fn not_understood(why: impl std::fmt::Display) -> Problem {
    let title = "the peer sent a message that is not understood";
    Problem::new(ProblemCode::PeerNotUnderstood, title).because(why)
}

/// A peer's answer as it comes.
struct Answer {
    response: Response,
    bytes: Vec<u8>,
}

impl Answer {
    async fn opened(&mut self, address: std::net::SocketAddr) -> Result<TaskOpened, Problem> {
        loop {
            if let Some(length) = self.bytes.first_chunk::<4>() {
                let end = (u32::from_le_bytes(*length) as usize).saturating_add(4);
                if self.bytes.len() >= end {
                    let rest = self.bytes.split_off(end);
                    let opened = http::decode(&self.bytes[4..]);
                    self.bytes = rest;
                    return opened;
                }
            }
            match self.response.chunk().await {
                Ok(Some(part)) => self.bytes.extend_from_slice(&part),
                Ok(None) => return Err(unreachable_peer(address, "its answer was cut short")),
                Err(error) => return Err(unreachable_peer(address, innermost(&error))),
            }
        }
    }
}

/// Answers the task's questions, on a thread of its own: the answers take locks and read files of
/// the machine and the journal.
struct Attendant {
    shared: Arc<Shared>,
    /// A question for work that has no answer yet: its ticket, how much, since when.
    wanted: Option<(u64, u64, Instant)>,
    look: Duration,
    pages: VecDeque<(u32, EncodedPage)>,
}

impl Attendant {
    fn new(shared: Arc<Shared>) -> Self {
        Self { shared, wanted: None, look: LOOK.0, pages: VecDeque::new() }
    }

    fn run(&mut self, heard: &Receiver<Heard>) {
        loop {
            let wait = if self.wanted.is_some() { self.look } else { WANT_MAX };
            match heard.recv_timeout(wait) {
                Ok(Some(PeerMessage::Ended)) => {
                    self.shared.lock().ended = true;
                    self.shared.changed.notify_all();
                    self.shared.output.notify_one();
                    return;
                }
                Ok(Some(said)) => self.handle(said),
                Ok(None) => self.look = LOOK.0,
                Err(RecvTimeoutError::Timeout) => self.look = (self.look * 2).min(LOOK.1),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.give_work();
        }
    }

    fn handle(&mut self, said: PeerMessage) {
        let control = &self.shared.control;
        match said {
            PeerMessage::Want { ticket, bytes } => {
                self.wanted = Some((ticket, bytes, Instant::now()));
                self.look = LOOK.0;
            }
            PeerMessage::Reports(reports) => control.report(reports),
            PeerMessage::Alive { ticket } => {
                let standing = control.alive();
                self.shared.say(&ControllerMessage::Alive { ticket, standing });
            }
            PeerMessage::Page { number } => {
                let page = self.page(number);
                self.shared.say(&ControllerMessage::Page { number, page });
            }
            PeerMessage::HasFailed { ticket, path } => {
                let failed = control.has_failed(&path);
                let any = control.may_have_failed();
                self.shared.say(&ControllerMessage::HasFailed { ticket, failed, any });
            }
            PeerMessage::Broken(problem) => control.broken(self.shared.named(problem)),
            // Handled where they are received.
            PeerMessage::Figures(_) | PeerMessage::Adopted(_) | PeerMessage::Ended => {}
        }
    }

    /// Answers a question for work as soon as there is any.
    fn give_work(&mut self) {
        let Some((ticket, bytes, since)) = self.wanted else { return };
        if !self.shared.lock().connected {
            // Work would wait here, and no other peer would get it.
            return;
        }
        let reply = self.shared.control.want(bytes);
        let nothing = reply == WorkReply::default();
        if nothing && bytes > 0 && since.elapsed() < WANT_MAX {
            return;
        }
        self.wanted = None;
        self.shared.say(&ControllerMessage::Work { ticket, reply });
    }

    fn page(&mut self, number: u32) -> Result<EncodedPage, Problem> {
        if let Some((_, page)) = self.pages.iter().find(|(known, _)| *known == number) {
            return Ok(page.clone());
        }
        let page = travelling(&self.shared.control.page(number)?);
        self.pages.push_back((number, page.clone()));
        if self.pages.len() > PAGES_KEPT {
            self.pages.pop_front();
        }
        Ok(page)
    }
}

impl Task for RemoteTask {
    fn figures(&self) -> TaskFigures {
        let talk = self.shared.lock();
        let mut figures = talk.figures.clone();
        if talk.is_over() {
            figures.lanes = 0;
            return figures;
        }
        let silence = talk.heard.map_or(Duration::ZERO, |heard| heard.elapsed());
        if silence >= SILENCE_SHOWN {
            figures.waiting = format!(
                "peer `{}` has not answered for {} s; its share is given to others in {} s",
                self.shared.peer.name,
                silence.as_secs(),
                lapse_after(self.shared.grant).saturating_sub(silence).as_secs()
            );
        }
        figures
    }

    fn incarnation(&self) -> Incarnation {
        self.shared.lock().incarnation
    }

    fn take_adopted(&self) -> Option<Adopted> {
        let adopted = std::mem::take(&mut self.shared.lock().adopted);
        (!adopted.reports.is_empty()).then_some(adopted)
    }

    fn committed(&self, batches: u64) {
        let news = std::mem::replace(&mut self.shared.lock().committed, batches) < batches;
        if news {
            self.shared.say(&ControllerMessage::Committed { batches });
        }
    }

    fn wake(&self) {
        if let Some(wake) = &self.shared.lock().wake {
            // A thread that has ended answers nothing more.
            let _ = wake.send(None);
        }
    }

    fn leave(&self) {
        // The task continues the work that it holds until its grant is over, or the next task
        // begins.
        self.shared.lock().dropped = true;
        self.shared.changed.notify_all();
        self.shared.output.notify_one();
    }

    fn hangs_for(&self) -> Duration {
        let talk = self.shared.lock();
        if talk.is_over() { Duration::ZERO } else { Duration::from_secs(talk.figures.hangs_s) }
    }

    fn doubt_is_over(&self) {
        self.shared.say(&ControllerMessage::DoubtIsOver);
    }

    fn set_share(&self, share: &Share) {
        self.shared.say(&ControllerMessage::SetShare(*share));
    }

    fn set_source_peers(&self, peers: &[DataAddress]) {
        self.shared.say(&ControllerMessage::SourcePeers(peers.to_vec()));
    }

    fn stop(&self, discard: bool) {
        let shared = &self.shared;
        if !shared.lock().is_over() {
            shared.say(&ControllerMessage::Stop { discard });
        }
        let talk = shared.lock();
        let most = STOP_MAX.max(shared.grant + shared.grant / 4);
        let waited = shared.changed.wait_timeout_while(talk, most, |talk| !talk.is_over());
        let (talk, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(talk);
        if waited.timed_out() {
            tracing::error!(peer = %shared.peer.name, "a task at another host does not end");
            let title = format!("peer `{}` does not end its task", shared.peer.name);
            shared.lose(Problem::new(ProblemCode::TaskHangs, title));
        }
    }
}

impl Drop for RemoteTask {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B4: no other peer gets the work of a silent one before its grant is over, with the margin
    /// for its clock and its last write.
    #[test]
    fn b4_a_silent_peer_is_not_lost_within_the_margin() {
        for grant in [Duration::from_millis(1500), SILENCE_MAX] {
            assert!(may_write(grant, grant) && may_write(grant + grant / 9, grant));
            assert!(!may_write(grant + grant / 4, grant));
        }
    }
}
