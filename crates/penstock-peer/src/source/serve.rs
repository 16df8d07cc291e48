//! One lane at the source: checks the peer and its rights, then answers requests in turn.
//!
//! The source keeps no state for a request except the request itself, which waits in the socket. A
//! page that was read for one request is kept for the next (soft state, C5). The capability in the
//! hello fixes the lane's rights: the data set of one transfer, whose pages this site made itself.
//! A request names a page by its digest and entries by their index, never a path.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use penstock_net::trust::CapabilityError;
use penstock_net::{LaneError, LaneStream, PendingLane, Wake};
use penstock_proto::digest::DigestKind;
use penstock_proto::frame::{
    self, Data, Fetch, FrameKind, Framing, Header, Hello, Record, Refusal, RefusalCode,
};
use penstock_proto::time_use::{Activity, LaneTimes, TimeUse};
use penstock_proto::version;
use penstock_store::Source;

use crate::lane::breach::is_breach;
use crate::lane::open_lanes::RightHolds;
use crate::lane::slow_start::FAR;
use crate::lane::thread_time::{ThreadTime, TimeKeeper};
use crate::served_transfers::ServedTransfer;
use crate::source::page_cache::KeptPage;
use crate::source::read::{FrameSink, PieceReader, ServeError};
use crate::source::{LaneRight, OpenScan, SourceMemory, SourceService};
use crate::stores::access::AccessError;
use crate::stores::chain;
use crate::stores::guard::Guard;
use crate::traffic::SiteTraffic;

/// Time without a request after which a lane is closed; the target pings more often.
const IDLE_MAX: Duration = Duration::from_secs(120);
/// Interval at which an idle lane checks whether its peer drains.
const DRAIN_LOOK: Duration = Duration::from_secs(2);

/// Returns how the target broke the protocol, if that ended the lane.
///
/// # Errors
/// The lane was refused.
pub(crate) fn serve(
    service: &Arc<SourceService>,
    pending: PendingLane,
    memory: &SourceMemory,
) -> Result<Option<LaneError>, Refusal> {
    let hello = pending.hello().clone();
    let Admitted { open, protocol, holds } = match admit(service, &pending, &hello) {
        Ok(admitted) => admitted,
        Err(refusal) => {
            pending.refuse(refusal.clone());
            return Err(refusal);
        }
    };
    let peer = pending.peer().clone();
    let served = pending.welcome(protocol, &service.peer).and_then(|lane| {
        let _served = Served::one(&service.lanes);
        let traffic = service.traffic.of(Some(&peer.site));
        let _counted = traffic.open_lane();
        let _open_lane = service.open_lanes.enter(lane.closer()?, holds);
        let served = service.served.open_lane(hello.transfer, lane.cipher());
        let counters = (&*traffic, &*served);
        let lane = (lane, protocol);
        let server = Server::new((service, counters), open, lane, (hello.digest, memory));
        server.and_then(|mut server| {
            let served = server.run().inspect_err(|_| traffic.count_lane_lost());
            server.account.settle(&mut server.lane);
            served
        })
    });
    match served {
        Ok(()) => tracing::debug!(%peer, transfer = %hello.transfer, "lane closed"),
        Err(error) => {
            tracing::info!(%peer, transfer = %hello.transfer, %error, "lane ended");
            return Ok(Some(error).filter(is_breach));
        }
    }
    Ok(None)
}

/// A lane that may be served.
struct Admitted {
    open: Arc<OpenScan>,
    protocol: u16,
    holds: RightHolds,
}

/// Counts a lane while it is served.
struct Served<'a>(&'a AtomicU32);

impl<'a> Served<'a> {
    fn one(lanes: &'a AtomicU32) -> Self {
        lanes.fetch_add(1, Ordering::Relaxed);
        Self(lanes)
    }
}

impl Drop for Served<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns the error of a lane that ends because its store is at fault.
fn of_store(error: &dyn std::error::Error) -> LaneError {
    LaneError::Io(std::io::Error::other(chain(error)))
}

fn refusal(code: RefusalCode, text: impl Into<String>) -> Refusal {
    let retry_after_ms = if code.is_temporary() { 1000 } else { 0 };
    Refusal { code, retry_after_ms, text: text.into() }
}

/// Checks whether the lane may be served, and in which version: version, capability (C4), transfer.
fn admit(
    service: &SourceService,
    pending: &PendingLane,
    hello: &Hello,
) -> Result<Admitted, Refusal> {
    let (ours, theirs) = (version::known().lane, hello.protocol);
    let protocol = ours.common(theirs).ok_or_else(|| {
        let text = format!("this peer speaks lane protocol {ours}, the target {theirs}");
        refusal(RefusalCode::Version, text)
    })?;
    if service.draining.load(Ordering::Relaxed) {
        let text = format!("peer `{}` is draining: another peer of its site serves", service.peer);
        return Err(refusal(RefusalCode::Busy, text));
    }
    let void = |text: &str| refusal(RefusalCode::Capability, text);
    let verifier = service.verifier.as_ref().ok_or_else(|| void("this peer serves no lanes"))?;
    let granted = verifier(pending.certificates(), &hello.capability);
    let LaneRight { capability, holds, may_be_clear } =
        granted.map_err(|why| void(&why.to_string()))?;
    if capability.transfer != hello.transfer {
        return Err(void("the capability is for another transfer"));
    }
    if capability.target != pending.peer().site {
        return Err(void("the capability is for another site"));
    }
    if capability.source != service.peer.site {
        return Err(void("the capability is of another site"));
    }
    if hello.framing == Framing::Clear && !may_be_clear {
        let site = &service.peer.site;
        let text = format!("`{site}:{}` is read over encrypted lanes only", capability.store);
        return Err(refusal(RefusalCode::Policy, text));
    }
    let expires = capability.expires;
    let holds: RightHolds = Box::new(move || {
        let seconds = penstock_sys::now_seconds().checked_sub(expires);
        seconds.map_or(Ok(()), |seconds| Err(CapabilityError::Expired { seconds }))?;
        holds()
    });
    holds().map_err(|why| void(&why.to_string()))?;
    let open = service
        .scan(hello.transfer)
        .map_err(|error| refusal(RefusalCode::StoreOffline, chain(&error)))?
        .ok_or_else(|| refusal(RefusalCode::UnknownPage, "the transfer is not known here"))?;
    // A missing disk would look like missing files (C3).
    service
        .check(hello.transfer, &open)
        .map_err(|error| refusal(RefusalCode::StoreOffline, chain(&error)))?;
    if open.store != capability.store || open.scan.root() != capability.root {
        return Err(void("the capability is for another data set"));
    }
    Ok(Admitted { open, protocol, holds })
}

struct Server<'a> {
    service: &'a SourceService,
    traffic: &'a SiteTraffic,
    served: &'a ServedTransfer,
    lane: LaneStream,
    time: ThreadTime,
    account: LaneAccount<'a>,
    open: Arc<OpenScan>,
    source: Source,
    memory: &'a SourceMemory,
    reader: PieceReader,
    body: Vec<u8>,
    interrupt: penstock_sys::EventFd,
    /// Number of refused requests.
    refused: u64,
}

impl<'a> Server<'a> {
    fn new(
        (service, (traffic, served)): (&'a SourceService, (&'a SiteTraffic, &'a ServedTransfer)),
        open: Arc<OpenScan>,
        (lane, protocol): (LaneStream, u16),
        (kind, memory): (DigestKind, &'a SourceMemory),
    ) -> Result<Self, LaneError> {
        let source = service.source_of(&open).map_err(|error| of_store(&error))?;
        let root = open.scan.root().to_vec();
        let time = ThreadTime::default();
        let buffers = memory.buffers.clone();
        let mut reader = PieceReader::new(source.clone(), root, kind, buffers, &time);
        if lane.rtt().is_ok_and(|rtt| rtt.min >= FAR) {
            reader.begin_small();
        }
        Ok(Self {
            service,
            traffic,
            served,
            lane,
            account: LaneAccount::new(&time, traffic, protocol >= version::LANE_WITH_TIMES),
            time,
            open,
            source,
            memory,
            reader,
            body: Vec::new(),
            interrupt: penstock_sys::EventFd::new().map_err(LaneError::Io)?,
            refused: 0,
        })
    }

    fn run(&mut self) -> Result<(), LaneError> {
        let mut idle = Duration::ZERO;
        loop {
            // Further requests of the lane are repeated at another peer.
            if self.service.draining.load(Ordering::Relaxed) {
                return Ok(());
            }
            let Self { time, lane, interrupt, .. } = self;
            let wait = || lane.wait(interrupt.as_fd(), DRAIN_LOOK);
            match time.measure(Activity::WaitTarget, wait)? {
                Wake::Readable => idle = Duration::ZERO,
                Wake::Timeout if idle < IDLE_MAX => {
                    idle += DRAIN_LOOK;
                    continue;
                }
                Wake::Interrupted | Wake::Timeout => return Ok(()),
            }
            let mut body = std::mem::take(&mut self.body);
            let header = self.lane.recv_header(&mut body)?;
            let goes_on = self.handle(&header, &body)?;
            self.body = body;
            if !goes_on {
                return Ok(());
            }
        }
    }

    /// Handles one frame; returns `false` to end the lane in order.
    fn handle(&mut self, header: &Header, body: &[u8]) -> Result<bool, LaneError> {
        match header.kind {
            FrameKind::Fetch => {
                let fetch = Fetch::decode(body)?;
                self.answer(header.request, &fetch)?;
            }
            FrameKind::Ping => {
                let stamp = frame::decode_stamp(body)?;
                let pong = frame::encode_stamp(stamp);
                self.lane.send(&Header::of(FrameKind::Pong, 0, &pong), &pong, &[])?;
            }
            FrameKind::Bye => return Ok(false),
            kind => return Err(LaneError::OutOfTurn(kind)),
        }
        Ok(true)
    }

    fn answer(&mut self, request: u32, fetch: &Fetch) -> Result<(), LaneError> {
        if request == 0 {
            return Err(LaneError::OutOfTurn(FrameKind::Fetch));
        }
        let page = match self.page(fetch) {
            Ok(Some(page)) => page,
            Ok(None) => {
                let text = format!("page {} is not known here", fetch.page);
                return self.refuse(request, refusal(RefusalCode::UnknownPage, text));
            }
            // The lane ends: its requests are repeated at another peer.
            Err(error) => return Err(of_store(&error)),
        };
        let guard = &self.open.guard;
        let (lane, account) = (&mut self.lane, &mut self.account);
        let mut sink = LaneSink { lane, account, request, body: Vec::new(), guard, sent: 0 };
        let read = self.reader.read(&page, fetch, &mut sink);
        self.traffic.count_bytes(sink.sent);
        self.served.count_bytes(sink.sent);
        if read.is_ok() && (self.account.is_due() || !self.account.is_begun) {
            self.account.report(&mut self.lane)?;
        }
        match read {
            Ok(()) => Ok(()),
            Err(ServeError::Sink(error)) => Err(error),
            Err(ServeError::Request(error)) => {
                self.refuse(request, refusal(RefusalCode::Protocol, error.to_string()))
            }
        }
    }

    fn refuse(&mut self, request: u32, refusal: Refusal) -> Result<(), LaneError> {
        // Logged once: a lane may ask for very many missing pages.
        if self.refused == 0 {
            tracing::info!(%refusal, "a request was rejected; further rejections on this lane are \
                                      not logged");
        }
        self.refused += 1;
        self.traffic.count_refusal();
        let body = refusal.encode();
        self.lane.send(&Header::of(FrameKind::Refusal, request, &body), &body, &[])?;
        Ok(())
    }

    /// Returns the page that a request names: by number, but only if its digest is the right one.
    fn page(&self, fetch: &Fetch) -> Result<Option<Arc<KeptPage>>, AccessError> {
        // A page that cannot be read now is asked for again, like one that does not exist yet.
        let read = || self.open.scan.sealed_page(fetch.page).ok().flatten();
        let asked = (fetch.page, fetch.page_digest);
        let memory = &self.memory.pages;
        self.open.pages.get(asked, memory, read, |page| self.open.see(&self.source, page))
    }
}

/// The account of the lane's time, for this host and for the target.
struct LaneAccount<'a> {
    keeper: TimeKeeper,
    traffic: &'a SiteTraffic,
    /// Set if the target wants to know it.
    is_wanted: bool,
    /// Set once the target was sent any: it waits for the first one no longer than for an answer.
    is_begun: bool,
    cores: u16,
}

impl<'a> LaneAccount<'a> {
    fn new(time: &ThreadTime, traffic: &'a SiteTraffic, is_wanted: bool) -> Self {
        let cores = u16::try_from(penstock_sys::available_cpus()).unwrap_or(u16::MAX);
        Self { keeper: TimeKeeper::new(time), traffic, is_wanted, is_begun: false, cores }
    }

    fn settle(&mut self, lane: &mut LaneStream) -> TimeUse {
        let time = self.keeper.settle(lane.take_work(), &TimeUse::default());
        self.traffic.count_time(&time);
        time
    }

    fn is_due(&self) -> bool {
        self.keeper.is_due()
    }

    /// Counts the time since the last report, and sends it to the target.
    fn report(&mut self, lane: &mut LaneStream) -> Result<(), LaneError> {
        let time = self.settle(lane);
        self.is_begun = true;
        if self.is_wanted {
            let body = LaneTimes { cores: self.cores, time }.encode();
            lane.send(&Header::of(FrameKind::Times, 0, &body), &body, &[])?;
        }
        Ok(())
    }
}

struct LaneSink<'a, 'b> {
    lane: &'a mut LaneStream,
    account: &'a mut LaneAccount<'b>,
    request: u32,
    body: Vec<u8>,
    guard: &'a Guard,
    /// Bytes of payload of this reply so far.
    sent: u64,
}

impl FrameSink for LaneSink<'_, '_> {
    type Error = LaneError;

    fn frame(&mut self, records: &[Record], payload: &[u8], last: bool) -> Result<(), LaneError> {
        self.guard.check_records(records).map_err(|error| of_store(&error))?;
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        self.body = Data::encode_into(records, body);
        let header = Header {
            kind: FrameKind::Data,
            last,
            request: self.request,
            body_bytes: self.body.len() as u32,
            payload_bytes: payload.len() as u32,
        };
        self.lane.send(&header, &self.body, &[payload])?;
        self.sent += payload.len() as u64;
        if self.account.is_due() { self.account.report(self.lane) } else { Ok(()) }
    }
}
