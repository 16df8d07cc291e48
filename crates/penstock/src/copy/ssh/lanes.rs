//! Lanes of a copy over ssh: one-time identities, the door where one end listens, and who dials.
//!
//! Each end makes an authority and a certificate for this copy alone, in memory; the ssh channel
//! carries the authorities' certificates, so that whoever could log in is whom lanes trust. From
//! there on lanes are those between paired sites: TLS 1.3 at both ends, a capability in the hello.
//!
//! Which end dials is a matter of the socket: the target is the TLS client and says the hello,
//! also on a connection that the source dialled because the target asked it to. A connection
//! begins with a token, so that strangers neither take the place of a lane nor are mistaken for the
//! other end by a probe. The end that dials has made the token, and knows by itself which host it
//! dials: the other end chooses neither an address nor a byte that is sent before the handshake.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use penstock_api::problem::{Problem, ProblemCode};
use penstock_net::trust::{
    PeerCertificate, Purpose, SiteAuthority, TrustError, TrustStore, client_config,
    preferred_suites, server_config, verify_capability,
};
use penstock_net::{ConnectError, Dialled, LANE_STACK_BYTES, LocalBind, SocketOptions};
use penstock_peer::{
    LaneConfig, LaneConnect, LaneRight, LaneVerifier, SourceMemory, SourceService,
};
use penstock_proto::capability::Capability;
use penstock_proto::id::{Name, PeerId, TransferId};
use penstock_sys::now_seconds;
use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;

use super::link::Link;
use super::message::Message;
use crate::copy::job::target_name;

/// How long a probe may take: on any path on which a copy makes sense it is far less.
pub(super) const PROBE_MAX: Duration = Duration::from_secs(3);
/// Most addresses of a host that are tried.
pub(super) const ADDRESSES_MAX: usize = 16;
/// How long a connection may take to say its token.
const TOKEN_MAX: Duration = Duration::from_secs(10);
/// Connections that have not said their token yet; more are closed.
const STRANGERS_MAX: usize = 64;
/// How long a TLS handshake and a hello may take.
const HELLO_MAX: Duration = Duration::from_secs(15);
/// How long the right to read is good: no copy by hand takes longer.
const CAPABILITY_SECONDS: u64 = 90 * 24 * 3600;

/// Behind the token: the connection is to be a lane.
const FOR_LANE: u8 = b'L';
/// Behind the token: only whether one gets through; the token is said back.
const FOR_PROBE: u8 = b'P';

pub(super) const TOKEN_BYTES: usize = 32;
pub(super) type Token = [u8; TOKEN_BYTES];

/// This end's identity, for one copy.
pub(super) struct Keys {
    authority: SiteAuthority,
    identity: PeerCertificate,
    trust: Arc<TrustStore>,
    pub(super) other: Name,
}

/// Problem: keys cannot be made or used.
fn keys_failed(error: impl std::fmt::Display) -> Problem {
    Problem::new(ProblemCode::SshKeys, "the one-time certificates cannot be used").because(error)
}

/// Name of the end where the command was typed.
pub(super) fn local() -> Result<Name, Problem> {
    "local".parse().map_err(keys_failed)
}

/// Name of the end that ssh has started.
pub(super) fn far() -> Result<Name, Problem> {
    "far".parse().map_err(keys_failed)
}

impl Keys {
    /// Fresh keys for the end called `own`.
    ///
    /// # Errors
    /// The cryptographic library fails.
    pub(super) fn new(own: Name, other: Name) -> Result<Self, Problem> {
        let make = || -> Result<Self, TrustError> {
            let authority = SiteAuthority::create(own.clone())?;
            let peer = own.clone();
            let identity = authority.issue_peer(&PeerId { site: own, peer })?;
            let trust = Arc::new(TrustStore::new(authority.certificate().clone())?);
            Ok(Self { authority, identity, trust, other })
        };
        make().map_err(keys_failed)
    }

    pub(super) fn certificate(&self) -> String {
        data_encoding::HEXLOWER.encode(self.authority.certificate())
    }

    pub(super) fn peer(&self) -> &PeerId {
        self.identity.peer()
    }

    /// Trusts the other end's authority, which came over ssh.
    ///
    /// # Errors
    /// It is none, or of another end.
    pub(super) fn trust(&self, certificate: &str) -> Result<(), Problem> {
        let der = data_encoding::HEXLOWER.decode(certificate.as_bytes()).map_err(keys_failed)?;
        let site = self.trust.pin(CertificateDer::from(der)).map_err(keys_failed)?;
        if site == self.other {
            return Ok(());
        }
        Err(keys_failed(format!("it is of `{site}`, not of `{}`", self.other)))
    }

    /// The right of the other end to read one data set, in hex (C4).
    pub(super) fn capability(&self, transfer: TransferId, store: Name, root: Vec<u8>) -> String {
        let capability = Capability {
            transfer,
            source: self.authority.site().clone(),
            target: self.other.clone(),
            store,
            root,
            remove: false,
            expires: now_seconds() + CAPABILITY_SECONDS,
        };
        data_encoding::HEXLOWER.encode(&self.authority.capability_key().sign(&capability))
    }

    /// Checks capabilities that this end has signed.
    pub(super) fn verifier(&self) -> LaneVerifier {
        let key = self.authority.capability_key().public_key();
        Arc::new(move |_, bytes| {
            let now = u64::try_from(penstock_sys::wall_clock_now().seconds).unwrap_or(0);
            let capability = verify_capability(bytes, &key, now)?;
            Ok(LaneRight { capability, holds: Box::new(|| Ok(())), may_be_clear: true })
        })
    }

    /// TLS for lanes that this end, as the target, opens.
    ///
    /// # Errors
    /// The keys do not fit, which does not happen.
    pub(super) fn lane_config(&self) -> Result<LaneConfig, Problem> {
        let other = Some(self.other.clone());
        let suites = preferred_suites();
        let config = client_config(Purpose::Lane, &self.identity, &self.trust, other, &suites);
        let config = config.map_err(keys_failed)?;
        Ok(Arc::new(move |_: &Name, _| Ok(Arc::clone(&config))))
    }

    /// TLS for lanes that this end, as the source, serves.
    ///
    /// # Errors
    /// As [`Keys::lane_config`].
    pub(super) fn server_config(&self) -> Result<Arc<ServerConfig>, Problem> {
        server_config(Purpose::Lane, &self.identity, &self.trust, &preferred_suites())
            .map_err(keys_failed)
    }
}

/// Ports of which the far end may take one, where the user names none: so few, and drawn anew each
/// time, that it cannot have the local end dial a service of its choice.
pub(super) fn draw_ports() -> (u16, u16) {
    const COUNT: u16 = 64;
    // As net.ipv4.ip_local_port_range has them.
    let first = 32_768 + rand::random::<u16>() % (60_999 - 32_768 - COUNT);
    (first, first + COUNT - 1)
}

/// A token in hex, for the end that listens.
pub(super) fn token_text(token: &Token) -> String {
    data_encoding::HEXLOWER.encode(token)
}

/// The token that the other end has made, for connections that come from there.
pub(super) fn token_of(text: &str) -> Result<Token, Problem> {
    let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).map_err(keys_failed)?;
    bytes.try_into().map_err(|_| keys_failed("a token has the wrong length"))
}

/// Where this end listens. Connections that show the token come out of `connections`.
pub(super) struct Listening {
    token: Token,
    give: mpsc::Sender<TcpStream>,
    strangers: Arc<AtomicUsize>,
    pub(super) connections: Receiver<TcpStream>,
}

impl Listening {
    /// For connections that begin with `token`, which the end that dials has made.
    pub(super) fn new(token: Token) -> Self {
        let (give, connections) = mpsc::channel();
        Self { token, give, strangers: Arc::default(), connections }
    }

    /// Listens at a free port of `ports`, or at any, and returns the address.
    ///
    /// # Errors
    /// No port of the range is free, or the address is not of this host.
    pub(super) fn open(
        &self,
        address: IpAddr,
        ports: Option<(u16, u16)>,
    ) -> std::io::Result<SocketAddr> {
        let listener = bind(address, ports)?;
        penstock_net::begin_unpaced(&listener);
        let at = listener.local_addr()?;
        let (token, give) = (self.token, self.give.clone());
        let strangers = Arc::clone(&self.strangers);
        std::thread::Builder::new().name("door".to_owned()).spawn(move || {
            for tcp in listener.incoming() {
                match tcp {
                    Ok(tcp) => greet(tcp, token, &give, &strangers),
                    // Out of descriptors, mostly: others will be closed meanwhile.
                    Err(_) => std::thread::sleep(Duration::from_millis(100)),
                }
            }
        })?;
        Ok(at)
    }
}

fn bind(address: IpAddr, ports: Option<(u16, u16)>) -> std::io::Result<TcpListener> {
    let Some((first, last)) = ports else { return TcpListener::bind((address, 0)) };
    let count = u32::from(last - first) + 1;
    // Not always the same: copies that run at once would try all the ports of the others.
    let begin = rand::random::<u32>() % count;
    let mut failed = std::io::Error::from(std::io::ErrorKind::AddrInUse);
    for step in 0..count {
        let port = first + u16::try_from((begin + step) % count).unwrap_or(0);
        match TcpListener::bind((address, port)) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Reads the token of a connection, on a thread of its own.
fn greet(
    mut tcp: TcpStream,
    token: Token,
    give: &mpsc::Sender<TcpStream>,
    strangers: &Arc<AtomicUsize>,
) {
    if strangers.fetch_add(1, Ordering::AcqRel) >= STRANGERS_MAX {
        strangers.fetch_sub(1, Ordering::AcqRel);
        return;
    }
    let (give, strangers) = (give.clone(), Arc::clone(strangers));
    let greeting = move || {
        let mut said = [0; TOKEN_BYTES + 1];
        let heard = tcp
            .set_read_timeout(Some(TOKEN_MAX))
            .and_then(|()| tcp.read_exact(&mut said))
            .and_then(|()| tcp.set_read_timeout(None));
        strangers.fetch_sub(1, Ordering::AcqRel);
        // The token is no secret worth a comparison in constant time: TLS is what protects.
        if heard.is_err() || said[..TOKEN_BYTES] != token {
            tracing::info!(from = ?tcp.peer_addr().ok(), "a connection without the token");
            return;
        }
        match said[TOKEN_BYTES] {
            // Whoever probes and goes away has its answer.
            FOR_PROBE => drop(tcp.write_all(&token)),
            FOR_LANE => {
                penstock_net::settle(&tcp);
                let _ = give.send(tcp);
            }
            _ => {}
        }
    };
    let spawned = std::thread::Builder::new().name("greet".to_owned()).spawn(greeting);
    if let Err(error) = spawned {
        tracing::warn!(%error, "a connection is not served");
    }
}

/// Connects for a lane.
fn dial(
    address: SocketAddr,
    token: &Token,
    deadline: Duration,
    options: &SocketOptions,
) -> Result<Dialled, ConnectError> {
    let mut dialled = penstock_net::dial(address, &LocalBind::default(), deadline, options)?;
    let mut said = [FOR_LANE; TOKEN_BYTES + 1];
    said[..TOKEN_BYTES].copy_from_slice(token);
    dialled.send_ahead(&said)?;
    Ok(dialled)
}

/// The reason why the other end was reached at none of its addresses.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProbeError {
    #[error("no address is known")]
    NoAddress,
    #[error("{0}")]
    Thread(io::Error),
    #[error("{address}: {}", words(.cause))]
    Unreached { address: SocketAddr, cause: io::Error },
    #[error("{0}: something else answers there")]
    Stranger(SocketAddr),
    #[error("timed out")]
    TimedOut,
    /// Each address failed in its own way.
    #[error("{}", each(.0))]
    Each(Vec<Self>),
}

fn words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => "timed out".to_owned(),
        _ => error.to_string().split(" (os error").next().unwrap_or_default().to_lowercase(),
    }
}

fn each(failed: &[ProbeError]) -> String {
    failed.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Returns the first of some addresses at which the other end listens, within [`PROBE_MAX`].
///
/// # Errors
/// It listens at none.
pub(super) fn probe(addresses: &[SocketAddr], token: &Token) -> Result<SocketAddr, ProbeError> {
    let token = *token;
    let (found, first) = mpsc::channel();
    let mut failed = Vec::new();
    for address in addresses.iter().take(ADDRESSES_MAX).copied() {
        let found = found.clone();
        let tried = std::thread::Builder::new()
            .name("probe".to_owned())
            .spawn(move || found.send(probe_one(address, &token).map(|()| address)));
        if let Err(error) = tried {
            failed.push(ProbeError::Thread(error));
        }
    }
    drop(found);
    while let Ok(result) = first.recv_timeout(PROBE_MAX + Duration::from_secs(1)) {
        match result {
            Ok(address) => return Ok(address),
            Err(error) => failed.push(error),
        }
    }
    Err(if failed.is_empty() { ProbeError::NoAddress } else { ProbeError::Each(failed) })
}

fn probe_one(address: SocketAddr, token: &Token) -> Result<(), ProbeError> {
    let unreached = |cause| ProbeError::Unreached { address, cause };
    let mut tcp = TcpStream::connect_timeout(&address, PROBE_MAX).map_err(unreached)?;
    let mut said = [FOR_PROBE; TOKEN_BYTES + 1];
    said[..TOKEN_BYTES].copy_from_slice(token);
    let mut answer = [0; TOKEN_BYTES];
    tcp.set_read_timeout(Some(PROBE_MAX)).map_err(unreached)?;
    tcp.write_all(&said).and_then(|()| tcp.read_exact(&mut answer)).map_err(unreached)?;
    if answer == *token { Ok(()) } else { Err(ProbeError::Stranger(address)) }
}

/// How an end comes by the connections of lanes.
pub(super) enum Way {
    /// It dials.
    Dial(SocketAddr, Token),
    /// The other end dials, and here they come out.
    Wait(Receiver<TcpStream>),
}

impl Way {
    /// The connections of a target's lanes, and the address for messages.
    pub(super) fn connect(self, link: Arc<Link>) -> (SocketAddr, LaneConnect) {
        match self {
            Self::Dial(address, token) => {
                let connect: LaneConnect =
                    Arc::new(move |address, most, options| dial(address, &token, most, options));
                (address, connect)
            }
            Self::Wait(connections) => {
                let connections = Mutex::new(connections);
                let connect: LaneConnect = Arc::new(move |address, most, options| {
                    // Without the channel nobody dials, and the wait says so.
                    let _ = link.say(&Message::Lane);
                    let connections = connections.lock().unwrap_or_else(PoisonError::into_inner);
                    let tcp = connections
                        .recv_timeout(most)
                        .map_err(|_| ConnectError::TimedOut { address })?;
                    drop(connections);
                    let from = tcp.peer_addr().unwrap_or(address);
                    Dialled::over(tcp, from, most, options)
                });
                (SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), connect)
            }
        }
    }
}

/// Serves lanes at the source.
pub(super) struct Server {
    service: Arc<SourceService>,
    config: Arc<ServerConfig>,
    dial: Option<(SocketAddr, Token)>,
    memory: SourceMemory,
}

impl Server {
    /// A server whose lanes come by `way`: those that the other end dials are served from now on.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn start(
        service: Arc<SourceService>,
        config: Arc<ServerConfig>,
        way: Way,
    ) -> std::io::Result<Arc<Self>> {
        let (dial, connections) = match way {
            Way::Dial(address, token) => (Some((address, token)), None),
            Way::Wait(connections) => (None, Some(connections)),
        };
        let server = Arc::new(Self { service, config, dial, memory: SourceMemory::default() });
        if let Some(connections) = connections {
            let serving = Arc::clone(&server);
            std::thread::Builder::new().name("lanes".to_owned()).spawn(move || {
                for tcp in connections {
                    serving.spawn(move |server| server.serve(tcp));
                }
            })?;
        }
        Ok(server)
    }

    /// The target wants one more lane.
    pub(super) fn handle_wanted(self: &Arc<Self>) {
        let Some((address, token)) = self.dial else { return };
        self.spawn(move |server| {
            match dial(address, &token, HELLO_MAX, &SocketOptions::default()) {
                Ok(dialled) => server.serve(dialled.into_tcp()),
                Err(error) => tracing::warn!(%error, "a lane cannot be dialled"),
            }
        });
    }

    fn spawn(self: &Arc<Self>, work: impl FnOnce(&Self) + Send + 'static) {
        let server = Arc::clone(self);
        let thread = std::thread::Builder::new().name("lane".to_owned());
        let spawned = thread.stack_size(LANE_STACK_BYTES).spawn(move || work(&server));
        if let Err(error) = spawned {
            tracing::warn!(%error, "a lane is not served");
        }
    }

    fn serve(&self, tcp: TcpStream) {
        let options = SocketOptions::default();
        match penstock_net::accept_blocking(tcp, &self.config, HELLO_MAX, &options) {
            Ok(pending) => {
                if let Err(refusal) = self.service.serve(pending, &self.memory) {
                    tracing::warn!(%refusal, "lane refused");
                }
            }
            Err(error) => tracing::warn!(%error, "a lane did not open"),
        }
    }
}

/// Name of the store that is read.
pub(super) fn source_name() -> Result<Name, Problem> {
    "source".parse().map_err(keys_failed)
}

/// Name of the store that is written.
pub(super) fn target_store() -> Result<Name, Problem> {
    target_name().map_err(keys_failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// Promise: a probe that succeeds has reached the other end, and nothing else that listens
    /// there; a range in which no port is free is an error at once.
    #[test]
    fn a_probe_finds_its_door_and_no_other() {
        let here = IpAddr::from(Ipv4Addr::LOCALHOST);
        let token = rand::random();
        let listening = Listening::new(token);
        let door = listening.open(here, None).unwrap();
        assert_eq!(probe(&[door], &token).unwrap(), door);
        probe(&[door], &rand::random()).unwrap_err();
        let taken = door.port();
        assert!(listening.open(here, Some((taken, taken))).is_err());
        let free = TcpListener::bind((here, 0)).unwrap().local_addr().unwrap().port();
        let chosen = listening.open(here, Some((free, free))).unwrap();
        assert_eq!(chosen.port(), free);
        let closed = TcpListener::bind((here, 0)).unwrap().local_addr().unwrap();
        let why = probe(&[closed], &token).unwrap_err().to_string();
        assert!(why.contains("refused"), "{why}");
    }

    /// Promise: ports that are drawn are never those of a service that a host knows by number.
    #[test]
    fn drawn_ports_are_of_no_service() {
        for _ in 0..1_000 {
            let (first, last) = draw_ports();
            assert!(first >= 32_768 && last <= 60_999 && last - first == 63, "{first}-{last}");
        }
    }

    /// Promise: a target takes only what showed the token for a lane.
    #[test]
    fn only_lanes_come_out_of_a_door() {
        let token = rand::random();
        let listening = Listening::new(token);
        let address = listening.open(IpAddr::from(Ipv4Addr::LOCALHOST), None).unwrap();
        let mut stranger = TcpStream::connect(address).unwrap();
        stranger.write_all(&[0; TOKEN_BYTES + 1]).unwrap();
        probe(&[address], &token).unwrap();
        let options = SocketOptions::default();
        let dialled = dial(address, &token, PROBE_MAX, &options).unwrap().into_tcp();
        let lane = listening.connections.recv_timeout(TOKEN_MAX).unwrap();
        assert_eq!(lane.peer_addr().unwrap(), dialled.local_addr().unwrap());
        assert!(listening.connections.try_recv().is_err());
    }

    /// Whether a lane opens from `target` to `source`, each with the keys given, over a connection
    /// that the source dials.
    fn opens(source: &Keys, target: &Keys) -> bool {
        use penstock_proto::digest::DigestKind;
        use penstock_proto::frame::{Framing, Hello};
        use penstock_proto::version;
        let options = SocketOptions::default();
        let token = rand::random();
        let listening = Listening::new(token);
        let address = listening.open(IpAddr::from(Ipv4Addr::LOCALHOST), None).unwrap();
        let config = source.server_config().unwrap();
        let peer = source.peer().clone();
        let served = std::thread::spawn(move || {
            let options = SocketOptions::default();
            let tcp = dial(address, &token, PROBE_MAX, &options).unwrap().into_tcp();
            let pending = penstock_net::accept_blocking(tcp, &config, HELLO_MAX, &options);
            let protocol = version::known().lane.newest;
            pending.and_then(|pending| pending.welcome(protocol, &peer)).is_ok()
        });
        let hello = Hello {
            protocol: version::known().lane,
            lane: penstock_proto::id::LaneId(1),
            transfer: TransferId([1; 16]),
            framing: Framing::Tls,
            digest: DigestKind::Blake3,
            capability: Vec::new(),
        };
        let tcp = listening.connections.recv_timeout(TOKEN_MAX).unwrap();
        let config = (target.lane_config().unwrap())(&target.other, None).unwrap();
        let lane = Dialled::over(tcp, address, HELLO_MAX, &options).unwrap().open(
            &config,
            &target.other,
            &hello,
        );
        served.join().unwrap() && lane.is_ok()
    }

    /// D4: the name of an end is nothing: only the authority that came over ssh counts, at either
    /// end, also where the source dials.
    #[test]
    fn d4_an_impostor_of_the_same_name_is_refused() {
        let end = |own: fn() -> Result<Name, Problem>, other: fn() -> Result<Name, Problem>| {
            Keys::new(own().unwrap(), other().unwrap()).unwrap()
        };
        let (here, there) = (end(local, far), end(far, local));
        here.trust(&there.certificate()).unwrap();
        there.trust(&here.certificate()).unwrap();
        assert!(opens(&here, &there));
        assert!(opens(&there, &here));
        let impostor = end(far, local);
        impostor.trust(&here.certificate()).unwrap();
        assert!(!opens(&here, &impostor), "as the target");
        assert!(!opens(&impostor, &here), "as the source");
        here.trust(&impostor.certificate()).unwrap_err();
    }
}
