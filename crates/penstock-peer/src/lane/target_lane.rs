//! One lane at the target: one thread that asks, receives, checks and writes.
//!
//! ```text
//! dial → [ ask for requests → wait for a frame → receive → write ]* → bye.
//! ```
//! A stride is received into a hot buffer and run to completion before the next one. When the lane
//! breaks, its requests are asked for again over another lane.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use penstock_engine::fetch::Request;
use penstock_engine::paths::PathId;
use penstock_net::trust::{has_no_common_suite, is_distrust};
use penstock_net::{ConnectError, LANE_STACK_BYTES, LaneError, LaneStream, Wake};
use penstock_proto::frame::{self, Data, FrameKind, Header, Refusal};
use penstock_proto::id::{LaneId, Name};
use penstock_proto::time_use::{Activity, LaneTimes, TimeUse};
use penstock_proto::version;
use penstock_sys::EventFd;

use crate::lane::breach::{is_breach, is_breach_of_opening};
use crate::lane::byte_tally::ByteTally;
use crate::lane::dialer::{Dialer, note_failure};
use crate::lane::lane_handle::{LaneHandle, Working};
use crate::lane::local::{self, fetch_of};
use crate::lane::thread_time::{ThreadTime, TimeKeeper};
use crate::stores::chain;
use crate::stores::errors::Cause;
use crate::task::context::{Pieces, TaskContext};
use crate::task::error::TaskError;
use crate::task::reach::Reach;
use crate::write::PieceWriter;

/// Interval of pings on a silent lane. A lane that owes nothing else and does not answer within the
/// same time is dead. Its death must be found before it takes over the work of another dead lane.
const PING: Duration = Duration::from_secs(5);

/// Starts the thread of a lane.
///
/// # Errors
/// No more threads can be started now.
pub(crate) fn spawn(
    shared: &Arc<TaskContext>,
    (lane, path): (LaneId, PathId),
    waker: Arc<EventFd>,
) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    let thread = std::thread::Builder::new().name(format!("lane-{}", lane.0));
    thread.stack_size(LANE_STACK_BYTES).spawn(move || match &shared.reach {
        Reach::Local { source, root, guard, digests } => {
            local::run(&shared, lane, (source.clone(), root.clone(), *digests), guard);
        }
        Reach::Remote { dialer } => run(&shared, (lane, path), dialer, &waker),
    })
}

/// Notes that the thread of a lane could not be started. If no other lane runs, ends the task:
/// nothing would ever move, and the controller tries again or reports it.
pub(crate) fn is_none_left(
    shared: &TaskContext,
    lane: LaneId,
    threads: &Mutex<Vec<JoinHandle<()>>>,
    cause: io::Error,
) -> bool {
    shared.lane_down(lane, Some(format!("no thread: {cause}")));
    let threads = threads.lock().unwrap_or_else(PoisonError::into_inner);
    let none = threads.iter().all(JoinHandle::is_finished);
    if none {
        shared.broken(TaskError::Thread(cause));
    }
    none
}

/// Runs one lane from dialling to its end.
pub(crate) fn run(
    shared: &Arc<TaskContext>,
    (lane, path): (LaneId, PathId),
    dialer: &Dialer,
    waker: &EventFd,
) {
    let Some(ends) = dialer.ends(path) else {
        shared.lane_down(lane, Some("the source has no peer to dial".to_owned()));
        return;
    };
    let (begun, beside) = (Instant::now(), shared.has_other_path(path));
    let say_rtt = |rtt| shared.path_known(path, rtt);
    let right = dialer.book.endings.right(&dialer.site);
    let (stream, welcome) = match dialer.dial(&shared.spec, lane, &ends, beside, say_rtt) {
        Ok(open) => open,
        Err(error) => {
            let why = chain(&error);
            shared.traffic.count_failed_dial();
            note_failure(dialer, &ends, &why);
            // An answer from one address of several proves nothing about the others. Another site
            // may use the address now, or that peer may not know of a pairing yet, or run another
            // release.
            let (others, has_opened) = {
                let state = shared.lock();
                (state.lanes.may_have_other(path), state.cipher.is_some())
            };
            let suite_is_new = shared.spec.cipher_suite.is_some() && !has_opened;
            let verdict = verdict(&error, &dialer.site, suite_is_new).filter(|_| !others);
            if let Some(error) = verdict {
                shared.broken(error);
            } else if is_breach_of_opening(&error) {
                shared.note_breach(&why);
            }
            shared.lane_down(lane, Some(why));
            return;
        }
    };
    let closer = stream.closer().ok();
    let _open_lane = closer.map(|closer| dialer.book.open_lanes.enter(closer, right));
    let rtt = dialer.rtt_of(&stream).unwrap_or_else(|| begun.elapsed() / 3);
    let (_counted, working) = (shared.traffic.open_lane(), Working::default());
    let closer = LaneHandle::new(&stream, &working).ok();
    shared.note_path(&stream, &ends);
    shared.lane_up((lane, path), rtt, closer);
    let mut worker = Worker::new(shared, lane, (stream, welcome.protocol), working);
    let outcome = worker.run(waker);
    worker.settle();
    let carried = worker.stream.bytes_received();
    worker.tally.flush(shared, carried);
    match outcome {
        Ok(()) => shared.lane_down(lane, None),
        Err(_) if shared.is_stopping() => shared.lane_down(lane, None),
        Err(error) => {
            let why = format!("lane from {ends}: {}", chain(&error));
            note_failure(dialer, &ends, &why);
            shared.traffic.count_lane_lost();
            tracing::info!(lane = lane.0, carried, %why, "lane lost");
            if is_breach(&error) {
                shared.note_breach(&why);
            }
            shared.lane_down(lane, Some(why));
        }
    }
}

/// Returns the error of the task if a failed dial means that no dial will ever succeed.
/// `suite_is_new`: the transfer asks for a cipher suite, and no lane of the task has opened with
/// it. Then the source does not allow this suite; later the cause may be damage on the way.
fn verdict(error: &ConnectError, site: &Name, suite_is_new: bool) -> Option<TaskError> {
    match error {
        ConnectError::Refused(refusal) => TaskError::of_refusal(refusal),
        ConnectError::WrongPeer { .. } => Some(TaskError::WrongPeer(Cause::of(error))),
        ConnectError::Lane { source: LaneError::Trust(_), .. } => {
            Some(TaskError::Distrust(Cause::of(error)))
        }
        ConnectError::Lane { source: LaneError::Handshake(cause), .. } if is_distrust(cause) => {
            Some(TaskError::Distrust(Cause::of(error)))
        }
        ConnectError::Lane { source: LaneError::Handshake(cause), .. }
            if suite_is_new && has_no_common_suite(cause) =>
        {
            Some(TaskError::NoLanes { site: site.clone(), source: Cause::of(error) })
        }
        _ => None,
    }
}

struct Worker<'a> {
    shared: &'a TaskContext,
    lane: LaneId,
    stream: LaneStream,
    /// The version that both ends speak.
    protocol: u16,
    time: ThreadTime,
    keeper: TimeKeeper,
    writer: PieceWriter,
    asked: BTreeMap<u32, Request>,
    /// The request that is being answered, and its page.
    current: Option<(Request, Arc<Pieces>)>,
    /// Set after a ping, until anything arrives.
    pinged: bool,
    body: Vec<u8>,
    tally: ByteTally,
    working: Working,
}

impl<'a> Worker<'a> {
    fn new(
        shared: &'a TaskContext,
        lane: LaneId,
        (stream, protocol): (LaneStream, u16),
        working: Working,
    ) -> Self {
        let time = ThreadTime::default();
        Self {
            shared,
            lane,
            stream,
            protocol,
            keeper: TimeKeeper::new(&time),
            writer: PieceWriter::new(shared.tree.clone(), Arc::clone(&shared.large), true, &time),
            time,
            asked: BTreeMap::new(),
            current: None,
            pinged: false,
            body: Vec::new(),
            tally: ByteTally::new(lane),
            working,
        }
    }

    fn run(&mut self, waker: &EventFd) -> Result<(), LaneError> {
        loop {
            if self.shared.is_stopping() {
                return self.part();
            }
            self.ask()?;
            if self.asked.is_empty() && self.shared.is_draining(self.lane) {
                return self.part();
            }
            let waits_for = match self.asked.is_empty() {
                true => self.shared.idle_reason(),
                false => Activity::WaitSource,
            };
            let Self { time, stream, .. } = self;
            let wake = time.measure(waits_for, || stream.wait(waker.as_fd(), PING))?;
            match wake {
                Wake::Readable => self.receive()?,
                Wake::Interrupted => {
                    waker.clear();
                }
                Wake::Timeout if !self.pinged => {
                    self.pinged = true;
                    let stamp = frame::encode_stamp(0);
                    self.stream.send(&Header::of(FrameKind::Ping, 0, &stamp), &stamp, &[])?;
                }
                Wake::Timeout if self.asked.is_empty() => return Err(LaneError::TimedOut),
                // The fetch machine gives a lane that owes an answer more time.
                Wake::Timeout => {}
            }
            if self.keeper.is_due() {
                self.settle();
            }
        }
    }

    /// Hands on the time of the lane.
    fn settle(&mut self) {
        let spent = self.keeper.settle(self.stream.take_work(), &TimeUse::default());
        self.shared.add_lane_time(&spent);
    }

    fn part(&mut self) -> Result<(), LaneError> {
        self.stream.send(&Header::of(FrameKind::Bye, 0, &[]), &[], &[])?;
        self.stream.close()
    }

    fn ask(&mut self) -> Result<(), LaneError> {
        while let Some(request) = self.shared.next_request(self.lane) {
            let pieces = match self.shared.page(request.item.piece.page) {
                Ok(pieces) => pieces,
                // No answer would ever come, and a lane that answers pings is never cut.
                Err(error) => {
                    self.shared.broken(error);
                    return Ok(());
                }
            };
            let body = fetch_of(&request, &pieces).encode();
            let header = Header::of(FrameKind::Fetch, request.request, &body);
            self.asked.insert(request.request, request);
            self.stream.send(&header, &body, &[])?;
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<(), LaneError> {
        let mut body = std::mem::take(&mut self.body);
        let header = self.stream.recv_header(&mut body)?;
        self.pinged = false;
        if header.kind == FrameKind::Data {
            // Sleeps before the payload is taken from the socket: reported bytes were paid.
            let Self { working, shared, time, keeper, stream, .. } = self;
            working.take(&shared.pace, header.payload_bytes.into(), |slept| {
                time.add(Activity::WaitLimit, slept);
                if keeper.is_due() {
                    let spent = keeper.settle(stream.take_work(), &TimeUse::default());
                    shared.add_lane_time(&spent);
                }
            });
        }
        match header.kind {
            FrameKind::Data => self.data(&header, &body)?,
            FrameKind::Refusal => self.refusal(&header, &body)?,
            FrameKind::Times if self.protocol >= version::LANE_WITH_TIMES => {
                let times = LaneTimes::decode(&body)?;
                self.shared.times.add_source(&self.stream.peer().peer, &times);
            }
            FrameKind::Pong => {}
            FrameKind::Bye => return Err(LaneError::Closed),
            other => return Err(LaneError::OutOfTurn(other)),
        }
        self.body = body;
        Ok(())
    }

    fn data(&mut self, header: &Header, body: &[u8]) -> Result<(), LaneError> {
        let data = Data::decode(body, header.payload_bytes)?;
        let mut buffer = self.time.measure(Activity::WaitMemory, || self.shared.pool.take());
        let payload = &mut buffer[..header.payload_bytes as usize];
        self.stream.recv_payload(payload)?;
        if self.current.as_ref().is_none_or(|(current, _)| current.request != header.request) {
            self.begin(header.request)?;
        }
        let Some((request, pieces)) = self.current.as_ref() else {
            return Err(LaneError::OutOfTurn(FrameKind::Data));
        };
        self.working.begin();
        self.writer.frame(&pieces.page, &request.item, &data.records, payload);
        let bytes = u64::from(header.payload_bytes);
        self.tally.add(self.shared, bytes, self.stream.bytes_received());
        if header.last
            && let Some((request, pieces)) = self.current.take()
        {
            self.asked.remove(&request.request);
            self.tally.flush(self.shared, self.stream.bytes_received());
            let written = self.writer.finish(&pieces.page, &request.item);
            self.shared.handle_answered(request, &pieces, written);
        }
        self.working.end();
        Ok(())
    }

    /// Checks the first frame of another reply: frames of two replies do not mix on version 1
    /// lanes.
    fn begin(&mut self, request: u32) -> Result<(), LaneError> {
        if self.current.is_some() {
            return Err(LaneError::OutOfTurn(FrameKind::Data));
        }
        let out_of_turn = || LaneError::OutOfTurn(FrameKind::Data);
        let request = *self.asked.get(&request).ok_or_else(out_of_turn)?;
        let pieces = self.shared.page(request.item.piece.page).map_err(|_| out_of_turn())?;
        self.writer.abandon();
        self.shared.handle_begun(request.request);
        self.current = Some((request, pieces));
        Ok(())
    }

    fn refusal(&mut self, header: &Header, body: &[u8]) -> Result<(), LaneError> {
        let refusal = Refusal::decode(body)?;
        let out_of_turn = LaneError::OutOfTurn(FrameKind::Refusal);
        let Some(request) = self.asked.remove(&header.request) else { return Err(out_of_turn) };
        self.current = None;
        self.writer.abandon();
        self.shared.traffic.count_refusal();
        if let Some(error) = TaskError::of_refusal(&refusal) {
            self.shared.broken(error);
            return Ok(());
        }
        let delay = Duration::from_millis(u64::from(refusal.retry_after_ms.clamp(100, 60_000)));
        self.shared.handle_refused(request, delay, refusal.to_string());
        Ok(())
    }
}
