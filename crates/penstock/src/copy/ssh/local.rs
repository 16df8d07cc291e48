//! The end where the command was typed.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use penstock_api::plan::PlanUse;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::site::OpenScan;
use penstock_api::transfer::{PathText, TransferOptions};
use penstock_controller::runner::{self, RunControl, RunOutcome, RunView};

use super::arguments::SshArgs;
use super::client::{Ssh, Starting};
use super::destination::Remote;
use super::ends::{self, SourceEnd, SourceServer, TargetParts};
use super::lanes::{
    self, ADDRESSES_MAX, Keys, Listening, PROBE_MAX, ProbeError, Token, Way, draw_ports, probe,
    source_name, token_of, token_text,
};
use super::link::{ANSWER_MAX, Incoming, Link, missing, unexpected};
use super::message::{Begin, Begun, Message, Open, Opened, Outcome, Role, RunFile, View};
use crate::copy::job::{Copy, Job, Papers, check_kind, run_at, scan_request};
use crate::copy::places::{self, SourceFacts, SourcePlace, TargetPlace};
use crate::copy::state::State;
use crate::output::progress::Mode;
use penstock_exit::{self as exit, ExitCode, Failure, failure};

/// How long the far end may take to begin: it may have to wait for an earlier run to let go, and
/// then looks at a store.
const OPEN_MAX: Duration = Duration::from_secs(120);
/// How long the far end may take to stop in order.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// How long the far end is looked for from here before it is told to look for us.
const HEAD_START: Duration = Duration::from_millis(800);

/// What is to be copied.
pub(crate) struct Wish {
    pub(crate) source: PathBuf,
    pub(crate) target: PathBuf,
    /// Whichever of the two is at another host.
    pub(crate) remote: Remote,
    pub(crate) push: bool,
    pub(crate) options: TransferOptions,
    pub(crate) ssh: SshArgs,
    /// Most CPUs that each end may keep busy.
    pub(crate) cpus: Option<u32>,
    pub(crate) mode: Mode,
    pub(crate) papers: Papers,
}

impl Wish {
    /// Whether only a plan is wanted.
    fn dry_run(&self) -> bool {
        self.options.plan == Some(PlanUse::Make)
    }

    /// From where and to where, as it was written.
    fn places(&self) -> (PathText, PathText) {
        let text = |path: &Path| PathText(path.as_os_str().as_encoded_bytes().to_vec());
        (text(&self.source), text(&self.target))
    }
}

/// Copies; blocks until it has ended or is interrupted.
///
/// # Errors
/// How it ended, if not well.
pub(crate) fn run(wish: Wish) -> anyhow::Result<ExitCode> {
    exit::start_log("error");
    // What is wrong here is said before anybody logs in.
    let place = wish.push.then(|| SourcePlace::find(&wish.source)).transpose()?;
    let starting = Starting::watch()?;
    let started = Ssh::start(&wish.ssh, &wish.remote.destination, &starting);
    let (ssh, input, output) = started.map_err(|error| starting.why(error))?;
    let (link, incoming) =
        Link::start(output, input, Box::new(ssh.killer())).map_err(Failure::no_thread)?;
    let ports = wish.ssh.ports.unwrap_or_else(draw_ports);
    let token = rand::random();
    let mut session = Session { wish, ssh, link, rtt: None, ports, token };
    let done = session.copy(place, incoming, &starting);
    session.link.close();
    session.ssh.end();
    done.map_err(|error| starting.why(error))
}

struct Session {
    wish: Wish,
    ssh: Ssh,
    link: Arc<Link>,
    /// Where lanes lead through ssh.
    rtt: Option<Duration>,
    /// Ports that the far end may listen at.
    ports: (u16, u16),
    /// What connections that this end makes begin with.
    token: Token,
}

/// How lanes come about: this end's way, and the port here that the far end dials if it is to.
type Ways = (Way, Option<u16>);

/// The reason why no lane can be made in some way.
#[derive(Debug, thiserror::Error)]
enum NoWay {
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error("to {there}; from there to {back}")]
    Neither { there: ProbeError, back: Box<Self> },
    /// The other end does not listen.
    #[error("{why}; from there to {back}")]
    NoDoor { why: String, back: Box<Self> },
    #[error("this host finds no address of its name; from there to {back}")]
    NoAddress { back: Box<Self> },
    #[error("here: ssh does not say from where it came")]
    NoClient,
    #[error("{0}: ssh does not lead there from this host")]
    Elsewhere(IpAddr),
    #[error("{at}: cannot listen there: {cause}")]
    Listen { at: IpAddr, cause: io::Error },
    /// The other end says why it has not reached this one.
    #[error("{0}")]
    Unreached(String),
    #[error("{0}")]
    Tunnel(io::Error),
    /// The other end cannot be asked.
    #[error(transparent)]
    Asked(#[from] Problem),
}

impl Session {
    fn copy(
        &mut self,
        place: Option<SourcePlace>,
        incoming: Receiver<Incoming>,
        starting: &Starting,
    ) -> anyhow::Result<ExitCode> {
        let keys = Keys::new(lanes::local().map_err(failure)?, lanes::far().map_err(failure)?);
        let keys = keys.map_err(failure)?;
        let begun = self.begin(&keys, place.as_ref())?;
        let ways = self.find_way(&begun)?;
        match place {
            Some(place) => self.push(&keys, &place, ways, incoming, starting),
            None => self.pull(&keys, begun, ways, incoming, starting),
        }
    }

    fn ask(&self, message: &Message, deadline: Duration) -> Result<(Message, Vec<u8>), Failure> {
        self.link.ask(message, deadline).map_err(|problem| failure(self.there(problem)))
    }

    /// A problem of the far end, with where that is.
    fn there(&self, problem: Problem) -> Problem {
        at(&self.wish.remote, problem)
    }

    fn begin(&self, keys: &Keys, place: Option<&SourcePlace>) -> anyhow::Result<Begun> {
        let begin = Begin {
            far: if self.wish.push { Role::Target } else { Role::Source },
            path: PathText(self.wish.remote.path.clone()),
            facts: place.map(SourcePlace::facts),
            trace: place.map(|place| places::trace(&place.path)).unwrap_or_default(),
            authority: keys.certificate(),
            ports: self.ports,
            lane_addresses: self.lane_addresses()?,
            token: token_text(&self.token),
            cpus: self.wish.cpus,
            dry_run: self.wish.dry_run(),
            delete: self.wish.options.update.delete,
        };
        match self.ask(&Message::Begin(Box::new(begin)), ANSWER_MAX)?.0 {
            Message::Begun(begun) => {
                keys.trust(&begun.authority).map_err(failure)?;
                Ok(*begun)
            }
            other => Err(failure(unexpected(&other)).into()),
        }
    }

    /// The addresses of `--lane-address`.
    fn lane_addresses(&self) -> Result<Vec<IpAddr>, Failure> {
        let Some(host) = &self.wish.ssh.lane_address else { return Ok(Vec::new()) };
        let found = (host.as_str(), 0).to_socket_addrs().map_err(|error| {
            let message = format!("`--lane-address {host}` is no address of a host");
            Failure::new(ExitCode::Usage, message).caused_by(error)
        })?;
        Ok(found.map(|address| address.ip()).take(ADDRESSES_MAX).collect())
    }

    /// The far host's addresses as this end finds them: what the far end says has no part in it.
    fn far_hosts(&self) -> Vec<IpAddr> {
        let named = self.lane_addresses().unwrap_or_default();
        if !named.is_empty() {
            return named;
        }
        let host = self.ssh.host().unwrap_or_else(|| self.wish.remote.destination.host().into());
        let found = (host.as_str(), 0).to_socket_addrs().into_iter().flatten();
        found.map(|address| address.ip()).take(ADDRESSES_MAX).collect()
    }

    /// Finds out how lanes can be made: from here, from there, or through ssh.
    fn find_way(&mut self, begun: &Begun) -> anyhow::Result<Ways> {
        let hosts = self.far_hosts();
        let direct = match begun.port {
            Some(port) if port < self.ports.0 || port > self.ports.1 => {
                let title = format!("the other end offers port {port}, outside its range");
                return Err(failure(Problem::new(ProblemCode::SshProtocol, title)).into());
            }
            Some(port) => self.find_direct(port, &hosts, begun),
            None => self
                .find_back(begun, &hosts)
                .map_err(|back| NoWay::NoDoor { why: begun.no_door.clone(), back: Box::new(back) }),
        };
        let why = match direct {
            Ok(ways) => return Ok(ways),
            Err(why) => why,
        };
        let asked = Instant::now();
        let port = match self.ask(&Message::ListenInside, ANSWER_MAX)?.0 {
            Message::Inside { port } => port,
            other => return Err(failure(unexpected(&other)).into()),
        };
        self.rtt = Some(asked.elapsed());
        let forwarded = self.ssh.forward(port).map_err(NoWay::Tunnel);
        match forwarded.and_then(|address| Ok(probe(&[address], &self.token)?)) {
            Ok(address) => {
                exit::warn(&format!(
                    "direct lanes failed ({why}); moving through ssh, which costs about four times \
                     the CPU and seldom carries more than 3 Gbit/s. `--ports A-B` with ports that \
                     are open avoids it"
                ));
                Ok((Way::Dial(address, self.token), None))
            }
            Err(tunnel) => {
                let message = format!("no lane leads to {}", self.wish.remote.destination);
                Err(Failure::new(ExitCode::Fatal, message)
                    .caused_by(format!("direct: {why}; through ssh: {tunnel}"))
                    .hint(
                        "open ports and name them with --ports A-B, name an address of that host \
                         with --lane-address, or allow TCP forwarding there",
                    )
                    .into())
            }
        }
    }

    /// Looks for the far end's port at its host, and soon has the far end look for one here.
    fn find_direct(&self, port: u16, hosts: &[IpAddr], begun: &Begun) -> Result<Ways, NoWay> {
        if hosts.is_empty() {
            let back = self.find_back(begun, hosts);
            return back.map_err(|back| NoWay::NoAddress { back: Box::new(back) });
        }
        let addresses: Vec<_> = hosts.iter().map(|host| SocketAddr::new(*host, port)).collect();
        let (tell, found) = mpsc::channel();
        let token = self.token;
        std::thread::Builder::new()
            .name("look".to_owned())
            .spawn(move || tell.send(probe(&addresses, &token)))
            .map_err(ProbeError::Thread)?;
        let here = |address| Ok((Way::Dial(address, token), None));
        let first = found.recv_timeout(HEAD_START);
        if let Ok(Ok(address)) = first {
            return here(address);
        }
        let back = self.find_back(begun, hosts);
        let most = PROBE_MAX + HEAD_START;
        let direct = first.or_else(|_| found.recv_timeout(most));
        let direct = direct.unwrap_or(Err(ProbeError::TimedOut));
        match (direct, back) {
            (Ok(address), _) => here(address),
            (Err(_), Ok(ways)) => Ok(ways),
            (Err(there), Err(back)) => Err(NoWay::Neither { there, back: Box::new(back) }),
        }
    }

    /// Listens here and has the far end look.
    fn find_back(&self, begun: &Begun, hosts: &[IpAddr]) -> Result<Ways, NoWay> {
        let client = begun.client.ok_or(NoWay::NoClient)?;
        // A far end elsewhere would find itself there. Where only ssh knows its name, nothing
        // tells.
        let elsewhere = !hosts.is_empty() && !hosts.iter().any(IpAddr::is_loopback);
        let inside = client.is_loopback() && elsewhere;
        if client.is_unspecified() || client.is_multicast() || inside {
            return Err(NoWay::Elsewhere(client));
        }
        let listening = Listening::new(token_of(&begun.token)?);
        let at = listening
            .open(client, self.wish.ssh.ports)
            .map_err(|cause| NoWay::Listen { at: client, cause })?;
        let probe = Message::Probe { port: at.port() };
        let (answer, _) = self.link.ask(&probe, ANSWER_MAX)?;
        match answer {
            Message::Probed { reached: true, .. } => {
                Ok((Way::Wait(listening.connections), Some(at.port())))
            }
            Message::Probed { why, .. } => Err(NoWay::Unreached(why)),
            other => Err(unexpected(&other).into()),
        }
    }

    fn open(
        &self,
        state: &State,
        dial: Option<u16>,
        scan: Option<OpenScan>,
        capability: String,
    ) -> anyhow::Result<Opened> {
        let open = Open {
            id: state.id,
            options: self.wish.options.clone(),
            listing: state.listing,
            dial,
            rtt_ms: self.rtt.map(|rtt| rtt.as_millis().try_into().unwrap_or(u64::MAX)),
            scan,
            capability,
            places: self.wish.places(),
        };
        match self.ask(&Message::Open(Box::new(open)), OPEN_MAX)?.0 {
            Message::Opened(opened) => Ok(*opened),
            other => Err(failure(unexpected(&other)).into()),
        }
    }
}

impl Session {
    /// The source is here.
    fn push(
        &self,
        keys: &Keys,
        place: &SourcePlace,
        (way, dial): Ways,
        incoming: Receiver<Incoming>,
        starting: &Starting,
    ) -> anyhow::Result<ExitCode> {
        let options = &self.wish.options;
        let to = PathBuf::from(self.wish.remote.to_string());
        let state = State::open(&place.path, &to, options)?;
        let store = source_name().map_err(failure)?;
        let request = scan_request(&state, store, PathText::default(), options, true);
        let end = SourceEnd::open(place, &state, keys, request).map_err(failure)?;
        check_kind(end.kind, options)?;
        let server = end.serve(keys, way, &self.link).map_err(failure)?;
        let capability = end.capability.clone();
        self.open(&state, dial, None, capability)?;
        let control = Arc::new(RunControl::default());
        let journal = state.journal();
        let follower = Follower {
            link: Arc::clone(&self.link),
            server,
            control: Arc::clone(&control),
            journal: journal.clone(),
            remote: self.wish.remote.clone(),
            options: options.clone(),
        };
        let link = Arc::clone(&self.link);
        let job = Job {
            run: Box::new(move || follower.follow(&incoming)),
            journal,
            leave: Box::new(move || leave(&link)),
        };
        let from = place.path.clone();
        let copy = Copy { from, to, options: options.clone(), state, control };
        starting.is_over();
        copy.run(job, self.wish.mode, &self.wish.papers)
    }

    /// The target is here.
    fn pull(
        &self,
        keys: &Keys,
        begun: Begun,
        (way, dial): Ways,
        incoming: Receiver<Incoming>,
        starting: &Starting,
    ) -> anyhow::Result<ExitCode> {
        let options = &self.wish.options;
        let facts: SourceFacts =
            begun.facts.ok_or_else(|| failure(missing("what the source is")))?;
        ends::check_asked(&self.wish.remote.path, &facts).map_err(failure)?;
        let apart = |to: &Path| places::check_traces(&begun.trace, to);
        let (make, delete) = (!self.wish.dry_run(), options.update.delete);
        let place = TargetPlace::find(&self.wish.target, &facts, &apart, make, delete)?;
        let from = PathBuf::from(self.wish.remote.to_string());
        let mut state = State::open(&from, &place.path, options)?;
        ends::leave_other_target(&place, &mut state)?;
        let opened = self.open_scan(&state, dial)?;
        let kind = opened.kind.ok_or_else(|| failure(missing("what the source is")))?;
        check_kind(kind, options)?;
        let control = Arc::new(RunControl::default());
        let parts = TargetParts {
            place: &place,
            state: &state,
            options,
            keys,
            link: &self.link,
            way,
            rtt: self.rtt,
            capability: &opened.capability,
            places: self.wish.places(),
        };
        let target = place.path.clone();
        let input = parts.run_parts().map_err(failure)?.input(Arc::clone(&control))?;
        let (link, watched) = (Arc::clone(&self.link), Arc::clone(&control));
        let (leaving, journal) = (Arc::clone(&self.link), input.journal.clone());
        let job = Job {
            run: Box::new(move || run_here((input, &target), &link, &watched, incoming)),
            journal,
            leave: Box::new(move || leave(&leaving)),
        };
        let to = place.path.clone();
        let copy = Copy { from, to, options: options.clone(), state, control };
        starting.is_over();
        copy.run(job, self.wish.mode, &self.wish.papers)
    }

    fn open_scan(&self, state: &State, dial: Option<u16>) -> anyhow::Result<Opened> {
        let store = source_name().map_err(failure)?;
        let request = scan_request(state, store, PathText::default(), &self.wish.options, true);
        let scan = Some(OpenScan::from(&request));
        self.open(state, dial, scan, String::new())
    }
}

/// Runs the target's end here; ends it when the far end is gone.
fn run_here(
    (input, target): (runner::RunInput, &Path),
    link: &Link,
    control: &Arc<RunControl>,
    incoming: Receiver<Incoming>,
) -> RunOutcome {
    let cut = Arc::new(AtomicBool::new(false));
    let (stopping, told) = (Arc::clone(control), Arc::clone(&cut));
    let watch = move || {
        // A source says nothing but that it is gone.
        while let Ok(Incoming::Said(_)) = incoming.recv() {}
        if !stopping.is_asked_to_stop() {
            told.store(true, Ordering::Release);
            stopping.pause();
        }
    };
    if let Err(cause) = std::thread::Builder::new().name("ssh".to_owned()).spawn(watch) {
        return RunOutcome::Failed(Problem::no_thread(cause));
    }
    match run_at(input, target) {
        RunOutcome::Paused if cut.load(Ordering::Acquire) => lost(link),
        outcome => outcome,
    }
}

fn lost(link: &Link) -> RunOutcome {
    let unknown = || Problem::new(ProblemCode::SshLost, "the ssh connection was lost");
    RunOutcome::Failed(link.lost().unwrap_or_else(unknown))
}

/// A problem of the far end, with where that is.
fn at(remote: &Remote, problem: Problem) -> Problem {
    if problem.code == ProblemCode::SshLost {
        return problem;
    }
    Problem { title: format!("at {}: {}", remote.destination, problem.title), ..problem }
}

/// Has the far end remove what it keeps for a resume.
fn leave(link: &Link) {
    if let Err(problem) = link.ask(&Message::Leave, ANSWER_MAX) {
        tracing::warn!(%problem, "state is left at the far end");
    }
}

/// Serves and watches a run at the far end.
struct Follower {
    link: Arc<Link>,
    server: SourceServer,
    control: Arc<RunControl>,
    /// Where the lists of the run go.
    journal: PathBuf,
    remote: Remote,
    options: TransferOptions,
}

impl Follower {
    fn follow(&self, incoming: &Receiver<Incoming>) -> RunOutcome {
        let mut pausing: Option<Instant> = None;
        loop {
            let message = match incoming.recv_timeout(Duration::from_millis(50)) {
                Ok(Incoming::Said(message)) => self.server.handle(message),
                Ok(Incoming::Lost) | Err(RecvTimeoutError::Disconnected) => {
                    return if pausing.is_some() { RunOutcome::Paused } else { lost(&self.link) };
                }
                Err(RecvTimeoutError::Timeout) => None,
            };
            match message {
                None => {}
                Some(Message::View(view)) => self.show(*view),
                Some(Message::Ended { view, outcome }) => {
                    self.show(*view);
                    return self.end(outcome);
                }
                Some(other) => return RunOutcome::Failed(unexpected(&other)),
            }
            match pausing {
                None if self.control.is_asked_to_stop() => {
                    pausing = Some(Instant::now());
                    if self.link.say(&Message::Pause).is_err() {
                        return RunOutcome::Paused;
                    }
                }
                // It stops all the same when the channel closes.
                Some(since) if since.elapsed() >= PAUSE_MAX => return RunOutcome::Paused,
                _ => {}
            }
        }
    }

    fn show(&self, view: View) {
        let View { progress, reason, durable_by, failures } = view;
        let seen = RunView { progress, reason, durable_by, failures, ..RunView::default() };
        self.control.show(seen);
    }

    fn end(&self, outcome: Outcome) -> RunOutcome {
        let outcome = match outcome {
            Outcome::Paused => return RunOutcome::Paused,
            Outcome::Done => RunOutcome::Done,
            Outcome::Failed(problem) => RunOutcome::Failed(at(&self.remote, problem)),
        };
        match self.fetch_lists(matches!(outcome, RunOutcome::Failed(_))) {
            Ok(()) => outcome,
            Err(problem) => RunOutcome::Failed(problem),
        }
    }

    /// Fetches the lists that are wanted: each costs a round trip.
    fn fetch_lists(&self, failed: bool) -> Result<(), Problem> {
        if self.options.plan == Some(PlanUse::Make) {
            return self.fetch(RunFile::Plan);
        }
        if failed {
            self.fetch(RunFile::Failures)?;
        }
        if self.options.digest_list {
            self.fetch(RunFile::Digests)?;
        }
        if self.options.proof.receipt {
            self.fetch(RunFile::Facts)?;
        }
        let mut kinds = self.options.proof.also_digests.iter();
        kinds.try_for_each(|kind| self.fetch(RunFile::Checksums(*kind)))
    }

    /// Fetches a list of the run; one that is not there is empty.
    fn fetch(&self, which: RunFile) -> Result<(), Problem> {
        let to = which.path(&self.journal)?;
        let failed = |error: std::io::Error| {
            let title = format!("cannot write `{}`", to.display());
            Problem::new(ProblemCode::SshFile, title).because(error)
        };
        fs::create_dir_all(&self.journal).map_err(failed)?;
        let mut file = File::create(&to).map_err(failed)?;
        let mut offset = 0;
        loop {
            match self.link.ask(&Message::File { which, offset }, ANSWER_MAX)? {
                (Message::Part, part) if part.is_empty() => return Ok(()),
                (Message::Part, part) => {
                    offset += part.len() as u64;
                    file.write_all(&part).map_err(failed)?;
                }
                (other, _) => return Err(unexpected(&other)),
            }
        }
    }
}
