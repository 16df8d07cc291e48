//! The opening of a lane: TCP, mutual TLS 1.3, hello and its reply; all under one deadline.
//!
//! The hello and the reply are TLS application data, through rustls. Then rustls hands over its
//! secrets, or the keys of the clear frames, and is dropped. The hazard there is a byte behind the
//! hello or the reply that rustls has read and that would be lost with it:
//!
//! - The target reads the reply record by record ([`Records`]), so that rustls never sees a byte
//!   behind it. The source may send at once.
//! - The source cannot do so, since its acceptor may have read ahead. There the protocol excludes
//!   it: the target sends nothing between its hello and the reply. A target that does is rejected
//!   where rustls shows it ([`check_nothing_buffered`]). Otherwise it harms only its own lane,
//!   whose next record or MAC does not fit.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::ops::DerefMut;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use penstock_proto::capability::CAPABILITY_BYTES_MAX;
use penstock_proto::frame::{
    FrameKind, Framing, HEADER_BYTES, Header, Hello, HelloReply, Refusal, TEXT_BYTES_MAX,
};
use penstock_proto::id::{LaneId, Name, PeerId};
use penstock_proto::wire::DecodeError;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustls::pki_types::CertificateDer;
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, ServerConfig, ServerConnection, SideData,
};

use super::bind::bind_to_device_or_tell;
use super::clear::mac_keys;
use super::control::{begin_unpaced, settle};
use super::error::{ConnectError, LaneError};
use super::lane::LaneStream;
use super::socket::{SocketError, SocketOptions};
use super::tcp_info::rtt_of;
use crate::trust::{TrustError, peer_id_of, peer_server_name};

/// Longest hello: a capability and 64 bytes, of which 29 are used.
const HELLO_BYTES_MAX: u32 = CAPABILITY_BYTES_MAX as u32 + 64;
/// Longest reply to a hello: a refusal's text and 64 bytes, or two names.
const REPLY_BYTES_MAX: u32 = TEXT_BYTES_MAX as u32 + 256;
/// Time for a rejected peer to read the reason before the connection is closed.
const LINGER: Duration = Duration::from_secs(1);

/// The local end of a lane; the default leaves the choice to the routes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalBind {
    /// The local address.
    pub address: Option<IpAddr>,
    /// The network interface. An address alone does not choose it (hard case E5).
    pub device: Option<String>,
}

/// The source's reply to the hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The protocol version that both speak.
    pub protocol: u16,
    /// The peer that answered, as its certificate names it.
    pub source: PeerId,
}

/// Opens a lane to a source peer: the target's side. Blocks for `deadline` at most: TCP, TLS and
/// hello cost three round trips. [`dial`] and [`Dialled::open`] in one.
///
/// # Errors
/// [`ConnectError`]: `Refused` is the source's word, all else concerns this connection.
/// # Panics
/// If `config` was not made for lanes by [`crate::trust::client_config`].
pub fn connect(
    address: SocketAddr,
    bind: &LocalBind,
    config: &Arc<ClientConfig>,
    expected_site: &Name,
    hello: &Hello,
    deadline: Duration,
    options: &SocketOptions,
) -> Result<(LaneStream, Welcome), ConnectError> {
    dial(address, bind, deadline, options)?.open(config, expected_site, hello)
}

/// A TCP connection to a source peer that is no lane yet, but knows the path already.
#[derive(Debug)]
pub struct Dialled {
    tcp: TcpStream,
    address: SocketAddr,
    until: Instant,
    options: SocketOptions,
}

impl Dialled {
    /// Takes over a connection that was made otherwise, where the source dials the target: from
    /// here on it is a lane like any other. `address` is for messages.
    ///
    /// # Errors
    /// `Socket` if an option cannot be set.
    pub fn over(
        tcp: TcpStream,
        address: SocketAddr,
        deadline: Duration,
        options: &SocketOptions,
    ) -> Result<Self, ConnectError> {
        let until = Instant::now() + deadline;
        options.apply(&tcp).map_err(|source| ConnectError::Socket { address, source })?;
        Ok(Self { tcp, address, until, options: options.clone() })
    }

    /// Sends bytes ahead of everything else, which show the other end the use of the connection.
    /// Blocks for no longer than the rest of the deadline.
    ///
    /// # Errors
    /// `TimedOut`, `Unreachable`.
    pub fn send_ahead(&mut self, bytes: &[u8]) -> Result<(), ConnectError> {
        let address = self.address;
        let mut timed = Timed { tcp: &self.tcp, until: self.until };
        timed.write_all(bytes).map_err(|source| match source.kind() {
            io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
                ConnectError::TimedOut { address }
            }
            _ => ConnectError::Unreachable { address, source },
        })
    }

    /// Continues with a connection that has waited as if it were dialled now: with these options,
    /// and to be a lane within `deadline`. Does not block.
    ///
    /// # Errors
    /// `Unreachable` if the other end has closed it, or has sent something, which it never does
    /// first; `Socket`.
    pub fn go_on(self, deadline: Duration, options: &SocketOptions) -> Result<Self, ConnectError> {
        let (tcp, address) = (self.tcp, self.address);
        let mut seen = [PollFd::new(&tcp, PollFlags::IN | PollFlags::RDHUP)];
        if rustix::event::poll(&mut seen, Some(&Timespec::default())).map_or(true, |seen| seen > 0)
        {
            let source = io::ErrorKind::ConnectionReset.into();
            return Err(ConnectError::Unreachable { address, source });
        }
        Self::over(tcp, address, deadline, options)
    }

    /// Returns the bare connection, for a source that dials: it answers on it as if it had accepted
    /// it.
    pub fn into_tcp(self) -> TcpStream {
        self.tcp
    }

    /// Returns the round trip that opening the connection took.
    ///
    /// # Errors
    /// None in practice; the kernel's if it has no TCP_INFO.
    pub fn rtt(&self) -> io::Result<Duration> {
        Ok(rtt_of(&self.tcp)?.min)
    }

    /// Makes it a lane. Blocks for the rest of the deadline, usually two round trips.
    ///
    /// # Errors
    /// The errors of [`connect`].
    /// # Panics
    /// As [`connect`] does.
    pub fn open(
        self,
        config: &Arc<ClientConfig>,
        expected_site: &Name,
        hello: &Hello,
    ) -> Result<(LaneStream, Welcome), ConnectError> {
        assert!(config.enable_secret_extraction, "a configuration made for lanes");
        let Self { tcp, address, until, options } = self;
        let failed = |error: LaneError| match error {
            LaneError::TimedOut => ConnectError::TimedOut { address },
            source => ConnectError::Lane { address, source },
        };
        let mut connection = ClientConnection::new(Arc::clone(config), peer_server_name())
            .map_err(|error| failed(LaneError::Handshake(error)))?;
        finish_handshake(&mut connection, &tcp, until).map_err(failed)?;
        let peer = peer_of(&connection).map_err(failed)?;
        if peer.site != *expected_site {
            let source = TrustError::WrongSite { expected: expected_site.clone(), found: peer };
            return Err(ConnectError::WrongPeer { address, source });
        }
        let welcome = match greet(&mut connection, &tcp, until, hello).map_err(failed)? {
            HelloReply::Refused(refusal) => return Err(ConnectError::Refused(refusal)),
            HelloReply::Welcome { protocol, source } => Welcome { protocol, source },
        };
        let sound = welcome.source == peer && hello.protocol.contains(welcome.protocol);
        if !sound {
            return Err(failed(DecodeError::Invalid("welcome").into()));
        }
        check_nothing_buffered(&mut connection).map_err(failed)?;
        options.fit(&tcp);
        let stream = match hello.framing {
            Framing::Tls => connection
                .dangerous_extract_secrets()
                .map_err(LaneError::Handshake)
                .and_then(|secrets| LaneStream::tls(tcp, secrets, peer, hello.lane, &options)),
            Framing::Clear => mac_keys(&connection, hello.lane)
                .map_err(LaneError::Handshake)
                .and_then(|(target, source)| {
                    LaneStream::clear(tcp, (target, source), peer, hello.lane, &options)
                }),
        };
        Ok((stream.map_err(failed)?, welcome))
    }
}

/// Sends the hello and receives the source's reply to it.
fn greet(
    connection: &mut ClientConnection,
    tcp: &TcpStream,
    until: Instant,
    hello: &Hello,
) -> Result<HelloReply, LaneError> {
    write_frame(connection, tcp, until, FrameKind::Hello, &hello.encode())?;
    let mut records = Records::new(Timed { tcp, until });
    let body = read_frame(connection, &mut records, FrameKind::HelloReply, REPLY_BYTES_MAX)?;
    Ok(HelloReply::decode(&body)?)
}

/// Makes the TCP connection of a lane, bound and set up before its first packet; the lane is to be
/// open within `deadline` from now. Blocks for a round trip.
///
/// # Errors
/// `Socket`, `TimedOut`, `Unreachable`.
pub fn dial(
    address: SocketAddr,
    bind: &LocalBind,
    deadline: Duration,
    options: &SocketOptions,
) -> Result<Dialled, ConnectError> {
    let until = Instant::now() + deadline;
    let prepare = || -> Result<TcpStream, SocketError> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)
            .map_err(|source| SocketError::new("make a socket", source))?;
        if let Some(device) = &bind.device {
            bind_to_device_or_tell(socket.as_fd(), device, bind.address)?;
        }
        if let Some(local) = bind.address {
            rustix::net::bind(&socket, &SocketAddr::new(local, 0))
                .map_err(|source| SocketError::new(format!("bind to {local}"), source))?;
        }
        if options.congestion.is_none() {
            begin_unpaced(&socket);
        }
        options.apply(&socket)?;
        let tcp = TcpStream::from(socket);
        // On Linux the send time limit is also that of a blocking connect (socket(7)).
        tcp.set_write_timeout(Some(deadline))
            .map_err(|source| SocketError::new("set the time limit", source))?;
        Ok(tcp)
    };
    let tcp = prepare().map_err(|source| ConnectError::Socket { address, source })?;
    match rustix::net::connect(&tcp, &address) {
        Ok(()) => {
            if options.congestion.is_none() {
                settle(&tcp);
            }
            Ok(Dialled { tcp, address, until, options: options.clone() })
        }
        Err(rustix::io::Errno::INPROGRESS | rustix::io::Errno::AGAIN) => {
            Err(ConnectError::TimedOut { address })
        }
        Err(error) => Err(ConnectError::Unreachable { address, source: error.into() }),
    }
}

/// A lane whose hello has come and whose target waits for the answer.
pub struct PendingLane {
    tcp: TcpStream,
    connection: ServerConnection,
    hello: Hello,
    peer: PeerId,
    until: Instant,
    options: SocketOptions,
}

/// Takes over a connection whose TLS handshake is complete, as an acceptor made it, and receives
/// the hello. Blocks for `deadline` at most.
///
/// # Errors
/// `TimedOut` if no hello arrives; otherwise the fault of the hello. The target gets no reply: it
/// has sent no hello that could be answered.
/// # Panics
/// If the handshake is not complete.
pub fn accept(
    tcp: TcpStream,
    mut connection: ServerConnection,
    deadline: Duration,
    options: &SocketOptions,
) -> Result<PendingLane, LaneError> {
    assert!(!connection.is_handshaking(), "the acceptor completes the handshake");
    let until = Instant::now() + deadline;
    tcp.set_nonblocking(false)?;
    options.apply(&tcp)?;
    let peer = peer_of(&connection)?;
    let mut timed = Timed { tcp: &tcp, until };
    let body = read_frame(&mut connection, &mut timed, FrameKind::Hello, HELLO_BYTES_MAX)?;
    let hello = Hello::decode(&body)?;
    check_nothing_buffered(&mut connection)?;
    Ok(PendingLane { tcp, connection, hello, peer, until, options: options.clone() })
}

/// Accepts a lane as [`accept`] does, with the TLS handshake before it, both within `deadline`, for
/// callers without a runtime. A client whose certificate is rejected receives an alert.
///
/// # Errors
/// `Handshake` names the certificate that was rejected and the reason; otherwise the errors of
/// [`accept`].
pub fn accept_blocking(
    tcp: TcpStream,
    config: &Arc<ServerConfig>,
    deadline: Duration,
    options: &SocketOptions,
) -> Result<PendingLane, LaneError> {
    let until = Instant::now() + deadline;
    tcp.set_nonblocking(false)?;
    let mut connection = ServerConnection::new(Arc::clone(config)).map_err(LaneError::Handshake)?;
    if let Err(error) = finish_handshake(&mut connection, &tcp, until) {
        part(&mut connection, &tcp, until);
        return Err(error);
    }
    accept(tcp, connection, until.saturating_duration_since(Instant::now()), options)
}

impl PendingLane {
    /// Returns the request of the target.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Returns the certificates that the target has shown, its own first; the handshake verified
    /// them.
    pub fn certificates(&self) -> &[CertificateDer<'static>] {
        self.connection.peer_certificates().unwrap_or_default()
    }

    /// Returns the peer that asks, by its certificate.
    pub fn peer(&self) -> &PeerId {
        &self.peer
    }

    /// Opens the lane: `protocol` is the version chosen from the hello's range, `source` is this
    /// peer, as its certificate names it. The rest of the deadline applies.
    ///
    /// # Errors
    /// If the target is gone.
    pub fn welcome(mut self, protocol: u16, source: &PeerId) -> Result<LaneStream, LaneError> {
        let reply = HelloReply::Welcome { protocol, source: source.clone() };
        let body = reply.encode();
        let (tcp, until) = (self.tcp, self.until);
        write_frame(&mut self.connection, &tcp, until, FrameKind::HelloReply, &body)?;
        self.options.fit(&tcp);
        match self.hello.framing {
            Framing::Tls => {
                let secrets =
                    self.connection.dangerous_extract_secrets().map_err(LaneError::Handshake)?;
                LaneStream::tls(tcp, secrets, self.peer, self.hello.lane, &self.options)
            }
            Framing::Clear => {
                let (target, source) =
                    mac_keys(&self.connection, self.hello.lane).map_err(LaneError::Handshake)?;
                let keys = (source, target);
                LaneStream::clear(tcp, keys, self.peer, self.hello.lane, &self.options)
            }
        }
    }

    /// Sends the target the reason why there will be no lane, and closes the connection. Blocks for
    /// a second at most. Ignores a target that is gone already.
    pub fn refuse(mut self, refusal: Refusal) {
        let body = HelloReply::Refused(refusal).encode();
        let until = Instant::now() + LINGER;
        let _ = write_frame(&mut self.connection, &self.tcp, until, FrameKind::HelloReply, &body);
        part(&mut self.connection, &self.tcp, until);
    }
}

impl fmt::Debug for PendingLane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lane: LaneId = self.hello.lane;
        f.debug_struct("PendingLane")
            .field("peer", &self.peer)
            .field("lane", &lane)
            .finish_non_exhaustive()
    }
}

/// A socket each of whose calls ends at one common time, so that a peer that trickles bytes gains
/// nothing.
struct Timed<'a> {
    tcp: &'a TcpStream,
    until: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.tcp.set_read_timeout(self.left()?)?;
        self.tcp.read(buf)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.tcp.set_write_timeout(self.left()?)?;
        self.tcp.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads from a socket no further than to the end of the TLS record that is being read.
struct Records<'a> {
    timed: Timed<'a>,
    header: [u8; 5],
    /// Bytes of `header` that were passed on.
    given: usize,
    /// Bytes of the record's body that are not read yet.
    left: usize,
}

impl<'a> Records<'a> {
    fn new(timed: Timed<'a>) -> Self {
        Self { timed, header: [0; 5], given: 5, left: 0 }
    }
}

impl Read for Records<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        if self.given == self.header.len() && self.left == 0 {
            self.timed.read_exact(&mut self.header)?;
            self.left = usize::from(u16::from_be_bytes([self.header[3], self.header[4]]));
            self.given = 0;
        }
        if self.given < self.header.len() {
            let count = buf.len().min(self.header.len() - self.given);
            buf[..count].copy_from_slice(&self.header[self.given..self.given + count]);
            self.given += count;
            return Ok(count);
        }
        let count = buf.len().min(self.left);
        let count = self.timed.read(&mut buf[..count])?;
        self.left -= count;
        Ok(count)
    }
}

impl Write for Records<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.timed.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.timed.flush()
    }
}

fn finish_handshake<S: SideData>(
    connection: &mut ConnectionCommon<S>,
    tcp: &TcpStream,
    until: Instant,
) -> Result<(), LaneError> {
    let mut timed = Timed { tcp, until };
    while connection.is_handshaking() || connection.wants_write() {
        connection.complete_io(&mut timed)?;
    }
    Ok(())
}

fn peer_of<S: SideData>(connection: &ConnectionCommon<S>) -> Result<PeerId, LaneError> {
    Ok(peer_id_of(connection.peer_certificates().unwrap_or_default())?)
}

fn write_frame<C, S>(
    connection: &mut C,
    tcp: &TcpStream,
    until: Instant,
    kind: FrameKind,
    body: &[u8],
) -> Result<(), LaneError>
where
    C: DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    let mut timed = Timed { tcp, until };
    let mut stream = rustls::Stream { conn: connection, sock: &mut timed };
    stream.write_all(&Header::of(kind, 0, body).encode())?;
    stream.write_all(body)?;
    Ok(stream.flush()?)
}

/// Reads one frame without payload, of the one kind that has its place here.
fn read_frame<C, S>(
    connection: &mut C,
    socket: &mut (impl Read + Write),
    kind: FrameKind,
    body_bytes_max: u32,
) -> Result<Vec<u8>, LaneError>
where
    C: DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    let mut stream = rustls::Stream { conn: connection, sock: socket };
    let mut bytes = [0; HEADER_BYTES];
    stream.read_exact(&mut bytes)?;
    let header = Header::decode(&bytes)?;
    if header.kind != kind {
        return Err(LaneError::OutOfTurn(header.kind));
    }
    if header.body_bytes > body_bytes_max {
        return Err(DecodeError::Invalid("body bytes").into());
    }
    let mut body = vec![0; header.body_bytes as usize];
    stream.read_exact(&mut body)?;
    Ok(body)
}

/// Makes sure that rustls holds no byte that the lane would miss.
fn check_nothing_buffered<S: SideData>(
    connection: &mut ConnectionCommon<S>,
) -> Result<(), LaneError> {
    let state = connection.process_new_packets().map_err(LaneError::Handshake)?;
    // rustls has sent everything with the last frame, unless the other end asked for more.
    if state.plaintext_bytes_to_read() > 0 || state.peer_has_closed() || connection.wants_write() {
        return Err(LaneError::Tls13("the other end spoke out of turn"));
    }
    Ok(())
}

/// Sends the remaining bytes, and waits a moment for the other end to close. A close with unread
/// bytes would reset the connection and lose the reason on its way.
fn part<S: SideData>(connection: &mut ConnectionCommon<S>, tcp: &TcpStream, until: Instant) {
    let until = until.min(Instant::now() + LINGER);
    let mut timed = Timed { tcp, until };
    connection.send_close_notify();
    while connection.wants_write() {
        if connection.write_tls(&mut timed).is_err() {
            return;
        }
    }
    let _ = tcp.shutdown(Shutdown::Write);
    let mut scrap = [0; 4096];
    for _ in 0..64 {
        match timed.read(&mut scrap) {
            Ok(count) if count > 0 => {}
            _ => return,
        }
    }
}
