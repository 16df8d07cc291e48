//! The far end: what ssh starts at the other host (`penstock ssh-serve`). It speaks on standard
//! input and output and ends with them; what it keeps for a resume is below its state home.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_controller::runner::{RunControl, RunOutcome};
use penstock_proto::name;

use super::bootstrap::own_digest;
use super::ends::{SourceEnd, SourceServer, TargetParts};
use super::lanes::{self, Keys, Listening, ProbeError, Token, Way, probe, token_of, token_text};
use super::link::{Incoming, Link, missing, unexpected};
use super::message::{
    self, Begin, Begun, Message, Open, Opened, Outcome, PART_BYTES, READY, Role, RunFile, View,
};
use crate::copy::job::run_at;
use crate::copy::places::{self, SourcePlace, TargetPlace};
use crate::copy::state::State;
use crate::options::limits::bind_to_cpus;
use penstock_exit::{self as exit, ExitCode, Failure, problem_of};

/// How often the local end is told how it stands.
const VIEW: Duration = Duration::from_millis(200);
/// How long a run may take to commit its ledger once the local end is gone. Then the process ends
/// all the same, for a store may hang; the ledger allows that at any time.
const STOP_MAX: Duration = Duration::from_secs(45);
/// How long an earlier run of the same copy, whose local end is gone, is waited for.
const EARLIER_MAX: Duration = Duration::from_secs(50);

/// The far end of a copy over ssh; started by `penstock copy`
#[derive(clap::Args)]
pub(crate) struct ServeArgs {
    /// Only say, by the exit status, whether this is that release
    #[arg(long, value_name = "VERSION")]
    check: Option<String>,
    /// With --check: and whether this program has that BLAKE3 digest
    #[arg(long, value_name = "HEX", requires = "check")]
    digest: Option<String>,
}

/// Runs until the local end has gone.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    if let Some(version) = &args.check {
        let digest = args.digest.as_ref();
        let same = *version == message::version()
            && digest.is_none_or(|digest| own_digest().is_ok_and(|own| own == *digest));
        return Ok(if same { ExitCode::Done } else { ExitCode::Usage });
    }
    penstock_sys::raise_file_limit();
    exit::start_log("error");
    // Where ssh starts programs, whatever start-up files have made of it. Without a home directory
    // only absolute paths mean something.
    if let Some(home) = std::env::var_os("HOME") {
        let _ = std::env::set_current_dir(home);
    }
    let mut out = std::io::stdout();
    writeln!(out, "\n{}{READY} {}", message::MAGIC, message::version())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::io("write to standard output", error))?;
    let control = Arc::new(RunControl::default());
    let stopping = Arc::clone(&control);
    let on_lost = Box::new(move || stopping.pause());
    let (link, incoming) =
        Link::start(std::io::stdin(), out, on_lost).map_err(Failure::no_thread)?;
    let mut far = Far { link, control, listening: None, begun: None, end: End::Nothing };
    far.serve(&incoming);
    Ok(ExitCode::Done)
}

/// The reason why the local end cannot be reached from here.
#[derive(Debug, thiserror::Error)]
enum BackError {
    #[error("no run has started")]
    NotBegun,
    #[error("ssh does not say from where")]
    NoClient,
    #[error(transparent)]
    Probe(#[from] ProbeError),
}

/// What became of `Begin`.
struct BegunState {
    keys: Keys,
    place: FarPlace,
    /// What connections that this end makes begin with.
    token: Token,
    /// Where the ssh connection came from: no other host is dialled.
    client: Option<IpAddr>,
}

impl BegunState {
    /// The local end's port, where this end dials it.
    fn back(&self, port: u16) -> Option<SocketAddr> {
        self.client.map(|client| SocketAddr::new(client, port))
    }
}

enum FarPlace {
    Source(SourcePlace),
    Target(TargetPlace),
}

/// What this end is.
enum End {
    Nothing,
    Source { server: SourceServer, state: State },
    Target { running: Running, state: State },
}

/// A run on a thread of its own.
struct Running {
    ended: Receiver<RunOutcome>,
    over: bool,
    shown: Instant,
}

struct Far {
    link: Arc<Link>,
    control: Arc<RunControl>,
    /// Until it is given to the lanes.
    listening: Option<Listening>,
    begun: Option<BegunState>,
    end: End,
}

impl Far {
    fn serve(&mut self, incoming: &Receiver<Incoming>) {
        loop {
            match incoming.recv_timeout(VIEW) {
                Ok(Incoming::Said(message)) => self.handle(message),
                Ok(Incoming::Lost) | Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.tell();
        }
        if let End::Target { running, .. } = &mut self.end
            && !running.over
        {
            // The local end is gone, and the run was asked to stop.
            let _ = running.ended.recv_timeout(STOP_MAX);
        }
    }

    fn handle(&mut self, message: Message) {
        let message = match &self.end {
            End::Source { server, .. } => match server.handle(message) {
                Some(message) => message,
                None => return,
            },
            _ => message,
        };
        let answer = match message {
            Message::Begin(begin) => {
                self.begin(*begin).map(|begun| Message::Begun(Box::new(begun)))
            }
            Message::ListenInside => self.listen_inside().map(|port| Message::Inside { port }),
            Message::Probe { port } => Ok(match self.probe_back(port) {
                Ok(_) => Message::Probed { reached: true, why: String::new() },
                Err(why) => Message::Probed { reached: false, why: why.to_string() },
            }),
            Message::Open(open) => self.open(*open).map(|opened| Message::Opened(Box::new(opened))),
            Message::File { which, offset } => return self.give_file(which, offset),
            Message::Leave => {
                self.leave();
                Ok(Message::Left)
            }
            Message::Pause => return self.control.pause(),
            other => Err(unexpected(&other)),
        };
        // If the local end is gone, the main loop hears of it next.
        let _ = match answer {
            Ok(answer) => self.link.answer(&answer, &[]),
            Err(problem) => self.link.answer(&Message::Failed(problem), &[]),
        };
    }

    fn begin(&mut self, begin: Begin) -> Result<Begun, Problem> {
        // All that will work hard is started by this thread, later.
        bind_to_cpus(begin.cpus).map_err(|failure| problem_of(&anyhow::Error::from(failure)))?;
        let keys = Keys::new(lanes::far()?, lanes::local()?)?;
        keys.trust(&begin.authority)?;
        let path = expand(begin.path.0)?;
        let (place, shown, facts, trace) = match (begin.far, &begin.facts) {
            (Role::Source, _) => {
                let place = SourcePlace::find(&path).map_err(|error| problem_of(&error))?;
                let (facts, trace) = (place.facts(), places::trace(&place.path));
                let shown = place.path.clone();
                (FarPlace::Source(place), shown, Some(facts), trace)
            }
            (Role::Target, Some(facts)) => {
                let apart = |to: &std::path::Path| places::check_traces(&begin.trace, to);
                let place = TargetPlace::find(&path, facts, &apart, !begin.dry_run, begin.delete)
                    .map_err(|error| problem_of(&error))?;
                let shown = place.path.clone();
                (FarPlace::Target(place), shown, None, Vec::new())
            }
            (Role::Target, None) => return Err(missing("what the source is")),
        };
        let (server, client) = connection();
        self.listening = Some(Listening::new(token_of(&begin.token)?));
        let (port, no_door) = self.listen_outside(server, &begin.lane_addresses, begin.ports);
        let authority = keys.certificate();
        let own: Token = rand::random();
        let token = token_text(&own);
        self.begun = Some(BegunState { keys, place, token: own, client });
        let path = penstock_api::transfer::PathText(shown.into_os_string().into_vec());
        Ok(Begun { authority, path, facts, trace, token, port, no_door, client })
    }

    /// Listens at an address of this host that the user wants, else at the one that ssh came in by:
    /// the local end can reach it, mostly.
    fn listen_outside(
        &self,
        server: Option<IpAddr>,
        wanted: &[IpAddr],
        ports: (u16, u16),
    ) -> (Option<u16>, String) {
        let Some(listening) = &self.listening else {
            return (None, "lanes are open already".to_owned());
        };
        let mut why = "ssh does not say by which address it came in".to_owned();
        for address in wanted.iter().copied().chain(server) {
            match listening.open(address, Some(ports)) {
                Ok(at) => return (Some(at.port()), String::new()),
                Err(error) => {
                    let (first, last) = ports;
                    why = format!(
                        "cannot listen at a port of {first}-{last} of {address} there: {error}"
                    );
                }
            }
        }
        (None, why)
    }

    /// Whether the local end can be reached from here.
    fn probe_back(&self, port: u16) -> Result<SocketAddr, BackError> {
        let begun = self.begun.as_ref().ok_or(BackError::NotBegun)?;
        Ok(probe(&[begun.back(port).ok_or(BackError::NoClient)?], &begun.token)?)
    }

    fn listen_inside(&self) -> Result<u16, Problem> {
        let failed = |cause: &dyn std::fmt::Display| {
            let title = "cannot listen at the loopback address";
            Problem::new(ProblemCode::SshListen, title).because(cause)
        };
        let listening = self.listening.as_ref().ok_or_else(|| failed(&"lanes are open already"))?;
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        listening.open(here, None).map(|at| at.port()).map_err(|error| failed(&error))
    }

    fn open(&mut self, open: Open) -> Result<Opened, Problem> {
        let Some(begun) = &self.begun else {
            return Err(missing("what is wanted"));
        };
        let state = claim(&open)?;
        let mut opened = Opened { kind: None, capability: String::new() };
        let way = match open.dial {
            Some(port) => {
                let address = begun.back(port).ok_or_else(|| missing("where to dial"))?;
                Way::Dial(address, begun.token)
            }
            None => {
                Way::Wait(self.listening.take().ok_or_else(|| missing("anything new"))?.connections)
            }
        };
        match (&begun.place, open.scan) {
            (FarPlace::Source(place), Some(scan)) => {
                let end = SourceEnd::open(place, &state, &begun.keys, scan.into())?;
                let server = end.serve(&begun.keys, way, &self.link)?;
                opened.kind = Some(end.kind);
                opened.capability.clone_from(&end.capability);
                self.end = End::Source { server, state };
            }
            (FarPlace::Target(place), _) => {
                let parts = TargetParts {
                    place,
                    state: &state,
                    options: &open.options,
                    keys: &begun.keys,
                    link: &self.link,
                    way,
                    rtt: open.rtt_ms.map(Duration::from_millis),
                    capability: &open.capability,
                    places: open.places,
                };
                let target = parts.place.path.clone();
                let input = parts.run_parts()?.input(Arc::clone(&self.control));
                let input = input.map_err(|error| problem_of(&error))?;
                let (tell, ended) = mpsc::channel();
                std::thread::Builder::new()
                    .name("run".to_owned())
                    .spawn(move || tell.send(run_at(input, &target)))
                    .map_err(Problem::no_thread)?;
                let running = Running { ended, over: false, shown: Instant::now() };
                self.end = End::Target { running, state };
            }
            (FarPlace::Source(_), None) => return Err(missing("what to scan")),
        }
        Ok(opened)
    }

    /// Tells the local end how the run stands, and once how it ended.
    fn tell(&mut self) {
        let End::Target { running, .. } = &mut self.end else { return };
        if running.over {
            return;
        }
        let ended = running.ended.try_recv().ok();
        if ended.is_none() && running.shown.elapsed() < VIEW {
            return;
        }
        running.shown = Instant::now();
        let seen = self.control.view();
        let view = Box::new(View {
            progress: seen.progress,
            reason: seen.reason,
            durable_by: seen.durable_by,
            failures: seen.failures,
        });
        let message = match ended {
            None => Message::View(view),
            Some(outcome) => {
                running.over = true;
                let outcome = match outcome {
                    RunOutcome::Done => Outcome::Done,
                    RunOutcome::Failed(problem) => Outcome::Failed(problem),
                    RunOutcome::Paused | RunOutcome::Cancelled => Outcome::Paused,
                };
                Message::Ended { view, outcome }
            }
        };
        // If the local end is gone, the main loop hears of it next.
        let _ = self.link.say(&message);
    }

    fn give_file(&self, which: RunFile, offset: u64) {
        let part = match &self.end {
            End::Target { state, .. } => which.path(&state.journal()).and_then(|path| {
                read_part(&path, offset, PART_BYTES).map_err(|error| {
                    let title = format!("cannot read `{}`", path.display());
                    Problem::new(ProblemCode::SshFile, title).because(error)
                })
            }),
            _ => Err(unexpected(&Message::File { which, offset })),
        };
        // If the local end is gone, the main loop hears of it next.
        let _ = match part {
            Ok(part) => self.link.answer(&Message::Part, &part),
            Err(problem) => self.link.answer(&Message::Failed(problem), &[]),
        };
    }

    /// Nothing will be resumed any more.
    fn leave(&mut self) {
        match std::mem::replace(&mut self.end, End::Nothing) {
            End::Nothing => {}
            End::Source { state, .. } => state.remove(),
            End::Target { state, .. } => state.remove(),
        }
    }
}

/// Takes the state of a copy, once an earlier run of it that has lost its local end has let go.
fn claim(open: &Open) -> Result<State, Problem> {
    let until = Instant::now() + EARLIER_MAX;
    loop {
        match State::of_id(open.id, open.listing) {
            Ok(state) => return Ok(state),
            Err(error) if Instant::now() >= until => return Err(problem_of(&error)),
            Err(error) => {
                let problem = problem_of(&error);
                if problem.exit != Exit::Temporary {
                    return Err(problem);
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// Up to `bytes_max` bytes of a file; none at its end or if there is no such file.
fn read_part(path: &Path, offset: u64, bytes_max: usize) -> std::io::Result<Vec<u8>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    file.seek(SeekFrom::Start(offset))?;
    let mut part = Vec::new();
    file.take(bytes_max as u64).read_to_end(&mut part)?;
    Ok(part)
}

/// The path at this host that was meant: relative to the home directory, where ssh starts
/// programs, with `~` for it as shells have it.
///
/// # Errors
/// It begins with `~user`, which only a shell looks up.
fn expand(path: Vec<u8>) -> Result<PathBuf, Problem> {
    let home = || std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let path = PathBuf::from(std::ffi::OsString::from_vec(path));
    let bytes = path.as_os_str().as_encoded_bytes();
    Ok(match path.strip_prefix("~") {
        Ok(rest) if rest.as_os_str().is_empty() => home().join(""),
        // Taken apart and put together, a path loses the slash at its end.
        Ok(rest) if bytes.ends_with(b"/") => home().join(rest).join(""),
        Ok(rest) => home().join(rest),
        Err(_) if bytes.is_empty() => PathBuf::from("."),
        Err(_) if bytes.starts_with(b"~") => {
            let title = format!("the home directory in `{}` is not looked up", name::escape(bytes));
            return Err(Problem::new(ProblemCode::SshPath, title).hint(
                "give the path from `/`; put `./` in front if the name does begin with a tilde",
            ));
        }
        Err(_) => path,
    })
}

/// The addresses of the ssh connection at this host and at the other, from sshd(8):
/// `SSH_CONNECTION` is client address and port, server address and port.
fn connection() -> (Option<IpAddr>, Option<IpAddr>) {
    let text = std::env::var("SSH_CONNECTION").unwrap_or_default();
    let words: Vec<&str> = text.split(' ').collect();
    let address = |at: usize| words.get(at)?.parse().ok();
    (address(2), address(0))
}
