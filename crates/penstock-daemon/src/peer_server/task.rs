//! One task that runs here for a controller on another host: its side of the conversation.
//!
//! The task calls [`TaskControl`] as if the controller were here. Its messages go into the session,
//! which keeps them until the controller has received them (A7). Its questions wait for answers,
//! for a limited time. Connections may break. Without a connection the task continues the work that
//! it holds, until its grant is over. The same holds while another controller leads, until that one
//! starts a task here, which adopts the writes of this one ([`Hosted::detach`]).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::rpc::task::{ControllerMessage, EncodedPage, PeerMessage};
use penstock_api::task::{
    Adopted, LeaseStatus, Report, Task, TaskControl, TaskFigures, TaskPage, TaskSpec, WorkReply,
};
use penstock_proto::id::TransferId;
use penstock_proto::journal::Incarnation;
use penstock_proto::manifest::{Page, page_digest};
use penstock_proto::session::Session;
use penstock_proto::wire::DecodeError;
use tokio::sync::Notify;

/// The time for which a task waits for an answer to its question for work. Work that arrives later
/// is there at the next question.
const WANT_WAIT: Duration = Duration::from_millis(15);
/// The time that the controller has to acknowledge that the task lives: over an open connection,
/// and without one.
const ALIVE_WAIT: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(200));
/// The time that a page, or an answer about failures, may take: over a new connection, if need be.
const PAGE_WAIT: Duration = Duration::from_secs(60);
/// Reports of an earlier task's writes in one message, with about as many digests.
const ADOPTED_BATCH: usize = 8192;
/// The interval at which changed figures are sent.
const FIGURES_INTERVAL: Duration = Duration::from_millis(300);

/// A task, and the state of its conversation with its controller.
pub(crate) struct Hosted {
    pub(crate) number: u64,
    pub(crate) epoch: u64,
    pub(crate) transfer: TransferId,
    /// Without a word of the controller for so long the task ends.
    pub(crate) grant: Duration,
    talk: Mutex<Talk>,
    changed: Condvar,
    /// Wakes the sender.
    pub(crate) output: Notify,
    /// Until it has ended: it holds this in turn.
    task: Mutex<Option<Arc<dyn Task>>>,
}

#[derive(Default)]
struct Talk {
    session: Session,
    /// The connection that carries the conversation: an older one is no longer used.
    connection: u64,
    connected: bool,
    /// The time of the controller's last message.
    heard: Option<Instant>,
    tickets: u64,
    /// Work that the task has not taken yet.
    work: Vec<WorkReply>,
    /// A question for work that was not answered yet: its ticket, and for how many bytes.
    wanting: Option<(u64, u64)>,
    alive: Option<(u64, LeaseStatus)>,
    /// Pages that threads wait for; a thread that takes one keeps it.
    pages: BTreeMap<u32, Waited>,
    failed: HashMap<u64, bool>,
    /// True if any item has failed, once that is known.
    any_failed: Option<bool>,
    figures: TaskFigures,
    figured: Option<Instant>,
    /// The controller has abandoned the task.
    over: bool,
    /// The controller was deposed, and its messages no longer count.
    detached: bool,
    /// The number of messages that reported an earlier task's writes.
    adopted: u32,
    /// Under which the task began.
    incarnation: Incarnation,
    stopping: bool,
    ended: bool,
}

#[derive(Default)]
struct Waited {
    waiting: usize,
    come: Option<Result<EncodedPage, Problem>>,
}

impl Hosted {
    pub(crate) fn new(number: u64, epoch: u64, spec: &TaskSpec, grant: Duration) -> Self {
        let talk = Talk { heard: Some(Instant::now()), ..Talk::default() };
        Self {
            number,
            epoch,
            transfer: spec.transfer,
            grant,
            talk: Mutex::new(talk),
            changed: Condvar::new(),
            output: Notify::new(),
            task: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Talk> {
        self.talk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Handles the start of the task.
    pub(crate) fn set_task(&self, task: Arc<dyn Task>) {
        self.lock().incarnation = task.incarnation();
        *self.task.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Handles the end of the task, whose threads are joined.
    pub(crate) fn drop_task(&self) {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn task(&self) -> Option<Arc<dyn Task>> {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn say(&self, talk: &mut Talk, said: &PeerMessage) {
        talk.session.push(said.encode());
        self.output.notify_one();
    }

    /// Handles the start of a connection, whose controller has received so many messages. Returns
    /// its number, and the number of messages received here.
    ///
    /// # Errors
    /// The connection belongs to another conversation.
    pub(crate) fn connect(&self, heard: u64) -> Result<(u64, u64), DecodeError> {
        let mut talk = self.lock();
        talk.session.connect(heard)?;
        talk.connection += 1;
        talk.connected = true;
        talk.heard = Some(Instant::now());
        self.output.notify_one();
        Ok((talk.connection, talk.session.heard()))
    }

    /// Reports to the controller the writes of an earlier task here for another one.
    pub(crate) fn tell_adopted(&self, adopted: Adopted) {
        let Adopted { epoch, granted, reports } = adopted;
        let (mut part, mut weight) = (Vec::new(), 0);
        let mut talk = self.lock();
        let mut tell = |reports: Vec<Report>| {
            talk.adopted += 1;
            self.say(&mut talk, &PeerMessage::Adopted(Adopted { epoch, granted, reports }));
        };
        for report in reports {
            weight += match &report {
                Report::Written { digests, .. } => 1 + digests.len(),
                _ => 1,
            };
            part.push(report);
            if weight >= ADOPTED_BATCH {
                weight = 0;
                tell(std::mem::take(&mut part));
            }
        }
        if !part.is_empty() {
            tell(part);
        }
    }

    /// Returns the number of messages of that report.
    pub(crate) fn adopted(&self) -> u32 {
        self.lock().adopted
    }

    /// Returns the circumstances under which the task writes.
    pub(crate) fn incarnation(&self) -> Incarnation {
        self.lock().incarnation
    }

    /// Detaches the task from its controller, as another one leads: its messages no longer count
    /// (B4). The task completes the work that it holds, as its grant allows. Its questions get no
    /// answers.
    pub(crate) fn detach(&self) {
        let mut talk = self.lock();
        (talk.detached, talk.connected) = (true, false);
        talk.connection += 1;
        drop(talk);
        self.changed.notify_all();
        self.output.notify_one();
    }

    /// Returns whether another controller leads.
    pub(crate) fn is_detached(&self) -> bool {
        self.lock().detached
    }

    /// Handles the end of a connection.
    pub(crate) fn disconnect(&self, connection: u64) {
        let mut talk = self.lock();
        if talk.connection == connection {
            talk.connected = false;
        }
    }

    /// Returns the bytes to send over a connection now. Returns an error if another connection
    /// carries the conversation, or all messages were sent.
    pub(crate) fn output(&self, connection: u64, idle: bool) -> Result<Option<Vec<u8>>, ()> {
        let figures = self.new_figures();
        let mut talk = self.lock();
        if talk.connection != connection || !talk.connected {
            return Err(());
        }
        if let Some(figures) = figures.filter(|figures| *figures != talk.figures) {
            talk.session.push(PeerMessage::Figures(figures.clone()).encode());
            talk.figures = figures;
        }
        let out = talk.session.poll_output(idle);
        if out.is_none() && talk.ended && talk.session.is_heard() {
            return Err(());
        }
        Ok(out)
    }

    /// Returns the figures, if it is time for them.
    fn new_figures(&self) -> Option<TaskFigures> {
        let task = self.task()?;
        let mut talk = self.lock();
        let due = talk.figured.is_none_or(|told| told.elapsed() >= FIGURES_INTERVAL);
        if !due || talk.ended {
            return None;
        }
        talk.figured = Some(Instant::now());
        drop(talk);
        Some(task.figures())
    }

    /// Handles bytes of the controller; returns whether the task is to be stopped now, and how.
    ///
    /// # Errors
    /// The bytes are no valid part of a conversation, which cannot continue.
    pub(crate) fn input(&self, connection: u64, bytes: &[u8]) -> Result<Option<bool>, DecodeError> {
        let mut talk = self.lock();
        if talk.connection != connection {
            return Ok(None);
        }
        let messages = talk.session.handle_input(bytes)?;
        talk.heard = Some(Instant::now());
        let (mut stop, mut steered, mut work) = (None, Vec::new(), false);
        for message in messages {
            let message = ControllerMessage::decode(&message)?;
            match message {
                ControllerMessage::Work { ticket, reply } => {
                    talk.wanting.take_if(|(asked, _)| *asked == ticket);
                    if reply != WorkReply::default() {
                        talk.work.push(reply);
                        work = true;
                    }
                }
                ControllerMessage::Alive { ticket, standing } => {
                    talk.over |= standing == LeaseStatus::Over;
                    talk.alive = Some((ticket, standing));
                }
                ControllerMessage::Page { number, page } => {
                    if let Some(waited) = talk.pages.get_mut(&number) {
                        waited.come = Some(page);
                    }
                }
                ControllerMessage::HasFailed { ticket, failed, any } => {
                    talk.failed.insert(ticket, failed);
                    talk.any_failed = Some(any);
                }
                ControllerMessage::Stop { discard } if !talk.stopping => {
                    talk.stopping = true;
                    stop = Some(discard);
                }
                ControllerMessage::Stop { .. } => {}
                ControllerMessage::DoubtIsOver
                | ControllerMessage::SetShare(_)
                | ControllerMessage::SourcePeers(_)
                | ControllerMessage::Committed { .. } => steered.push(message),
            }
        }
        drop(talk);
        self.changed.notify_all();
        for order in steered {
            match order {
                ControllerMessage::DoubtIsOver => self.with_task(|task| task.doubt_is_over()),
                ControllerMessage::SetShare(share) => self.with_task(|task| task.set_share(&share)),
                ControllerMessage::SourcePeers(peers) => {
                    self.with_task(|task| task.set_source_peers(&peers))
                }
                ControllerMessage::Committed { batches } => {
                    self.with_task(|task| task.committed(batches))
                }
                _ => {}
            }
        }
        if work {
            // The thread that asked may no longer wait.
            self.with_task(|task| task.wake());
        }
        Ok(stop)
    }

    fn with_task(&self, act: impl FnOnce(&dyn Task)) {
        if let Some(task) = self.task() {
            act(&*task);
        }
    }

    /// Ends the task, and reports that. Blocks until its threads are joined.
    pub(crate) fn stop(&self, discard: bool) {
        {
            let mut talk = self.lock();
            talk.stopping = true;
            talk.over |= discard;
        }
        let task = self.task();
        if let Some(task) = &task {
            task.stop(discard);
        }
        let mut talk = self.lock();
        if !talk.ended {
            let figures = task.map(|task| task.figures()).unwrap_or_default();
            self.say(&mut talk, &PeerMessage::Figures(figures));
            talk.ended = true;
            self.say(&mut talk, &PeerMessage::Ended);
        }
        drop(talk);
        self.drop_task();
        self.changed.notify_all();
    }

    /// Abandons the task: its results are no longer wanted. Callers that wait for an answer get
    /// none.
    pub(crate) fn abandon(&self) {
        self.lock().over = true;
        self.changed.notify_all();
    }

    /// Returns whether its threads have ended and reported that.
    pub(crate) fn has_ended(&self) -> bool {
        self.lock().ended
    }

    /// Returns whether its controller has received the end as well.
    pub(crate) fn is_done(&self) -> bool {
        let talk = self.lock();
        talk.ended && talk.session.is_heard()
    }

    /// Returns whether a caller ends the task already.
    pub(crate) fn is_stopping(&self) -> bool {
        self.lock().stopping
    }

    /// Returns the time since the controller's last message.
    pub(crate) fn silence(&self) -> Duration {
        self.lock().heard.map_or(Duration::MAX, |heard| heard.elapsed())
    }

    /// Waits until `done` returns a value, at most so long, or until no controller can answer.
    fn wait_for<T>(
        &self,
        talk: MutexGuard<'_, Talk>,
        most: Duration,
        mut done: impl FnMut(&mut Talk) -> Option<T>,
    ) -> Option<T> {
        let mut found = None;
        let waited = self.changed.wait_timeout_while(talk, most, |talk| {
            found = done(talk);
            found.is_none() && !talk.over && !talk.detached
        });
        drop(waited);
        found
    }
}

impl TaskControl for Hosted {
    fn want(&self, bytes: u64) -> WorkReply {
        let mut talk = self.lock();
        // A question for nothing, which renews the grant, is no reason to wait with one for work.
        let asked = talk.wanting.is_some_and(|(_, asked)| asked > 0 || bytes == 0);
        if talk.work.is_empty() && !asked && !talk.over {
            talk.tickets += 1;
            let ticket = talk.tickets;
            talk.wanting = Some((ticket, bytes));
            self.say(&mut talk, &PeerMessage::Want { ticket, bytes });
        }
        let wait = if bytes == 0 { Duration::ZERO } else { WANT_WAIT };
        let come =
            self.wait_for(talk, wait, |talk| (!talk.work.is_empty()).then(|| talk.work.remove(0)));
        come.unwrap_or_default()
    }

    fn page(&self, number: u32) -> Result<TaskPage, Problem> {
        let mut talk = self.lock();
        let waited = talk.pages.entry(number).or_default();
        waited.waiting += 1;
        if waited.waiting == 1 {
            self.say(&mut talk, &PeerMessage::Page { number });
        }
        let come = self.wait_for(talk, PAGE_WAIT, |talk| {
            talk.pages.get(&number).and_then(|waited| waited.come.clone())
        });
        let mut talk = self.lock();
        if let Some(waited) = talk.pages.get_mut(&number) {
            waited.waiting -= 1;
            if waited.waiting == 0 {
                talk.pages.remove(&number);
            }
        }
        drop(talk);
        let silent = || {
            let title = format!("the controller does not give page {number}");
            Problem::new(ProblemCode::PeerPage, title)
        };
        decode_page(number, come.ok_or_else(silent)??)
    }

    fn has_failed(&self, path: &[u8]) -> bool {
        let mut talk = self.lock();
        if talk.any_failed == Some(false) {
            return false;
        }
        talk.tickets += 1;
        let ticket = talk.tickets;
        self.say(&mut talk, &PeerMessage::HasFailed { ticket, path: path.to_vec() });
        // No further name is made for a file that may have failed (B6).
        self.wait_for(talk, PAGE_WAIT, |talk| talk.failed.remove(&ticket)).unwrap_or(true)
    }

    fn may_have_failed(&self) -> bool {
        self.lock().any_failed != Some(false)
    }

    fn report(&self, reports: Vec<Report>) {
        let mut talk = self.lock();
        self.say(&mut talk, &PeerMessage::Reports(reports));
    }

    fn broken(&self, problem: Problem) {
        let mut talk = self.lock();
        self.say(&mut talk, &PeerMessage::Broken(problem));
    }

    fn alive(&self) -> LeaseStatus {
        let mut talk = self.lock();
        if talk.over {
            return LeaseStatus::Over;
        }
        if talk.detached {
            return LeaseStatus::Unheard;
        }
        talk.tickets += 1;
        let ticket = talk.tickets;
        self.say(&mut talk, &PeerMessage::Alive { ticket });
        let heard = |talk: &mut Talk| {
            talk.alive.filter(|(answered, _)| *answered >= ticket).map(|(_, standing)| standing)
        };
        let wait = if talk.connected { ALIVE_WAIT.0 } else { ALIVE_WAIT.1 };
        let standing = self.wait_for(talk, wait, heard);
        standing.unwrap_or_else(|| match self.lock().over {
            true => LeaseStatus::Over,
            false => LeaseStatus::Unheard,
        })
    }
}

fn decode_page(number: u32, encoded: EncodedPage) -> Result<TaskPage, Problem> {
    let EncodedPage { digest, left, bytes } = encoded;
    let other = || {
        let title = format!("the controller gave another page than number {number}");
        Problem::new(ProblemCode::Manifest, title)
    };
    if page_digest(&bytes) != digest {
        return Err(other());
    }
    let page = Page::decode(&bytes).map_err(|cause| other().because(cause))?;
    if page.number != number {
        return Err(other());
    }
    Ok(TaskPage { page: Arc::new(page), digest, left: Arc::new(left) })
}

#[cfg(test)]
mod tests;
