//! Lanes on loopback: round trips, other TLS stacks, wrong peers, silence, waking.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use penstock_proto::capability::CAPABILITY_BYTES_MAX;
use penstock_proto::digest::DigestKind;
use penstock_proto::frame::{
    CipherSuite, FrameKind, Framing, HEADER_BYTES, Header, Hello, HelloReply, Refusal, RefusalCode,
};
use penstock_proto::id::{LaneId, TransferId};
use penstock_proto::version::VersionRange;
use rustls::{ClientConnection, ServerConnection, StreamOwned};

use super::*;
use crate::trust::tests::{Site, name, paired, peer};
use crate::trust::{Purpose, client_config, peer_server_name};

mod openssl;

const DEADLINE: Duration = Duration::from_secs(20);
const KIB: usize = 1024;
/// Around every border of records and reads.
const SIZES: [usize; 13] = [
    0,
    1,
    100,
    4 * KIB - 1,
    16 * KIB - 100,
    16 * KIB - 1,
    16 * KIB,
    16 * KIB + 1,
    32 * KIB,
    256 * KIB + 7,
    512 * KIB,
    KIB * KIB - 1,
    KIB * KIB,
];

fn hello(framing: Framing) -> Hello {
    Hello {
        protocol: VersionRange::FIRST,
        lane: LaneId(7),
        transfer: TransferId([5; 16]),
        framing,
        digest: DigestKind::Blake3,
        capability: b"capability".to_vec(),
    }
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn accept_one(
    listener: &TcpListener,
    site: &Site,
    deadline: Duration,
) -> Result<PendingLane, LaneError> {
    let (tcp, _) = listener.accept().unwrap();
    accept_blocking(tcp, &site.server(Purpose::Lane), deadline, &SocketOptions::default())
}

fn dial(
    address: SocketAddr,
    site: &Site,
    hello: &Hello,
) -> Result<(LaneStream, Welcome), ConnectError> {
    dial_with(address, site, hello, &LocalBind::default(), &SocketOptions::default())
}

fn dial_with(
    address: SocketAddr,
    site: &Site,
    hello: &Hello,
    bind: &LocalBind,
    options: &SocketOptions,
) -> Result<(LaneStream, Welcome), ConnectError> {
    let config = site.client(Purpose::Lane, None);
    connect(address, bind, &config, &name("hpc"), hello, DEADLINE, options)
}

/// Returns an open lane: the target's end at `lab`, the source's at `hpc`.
fn open(framing: Framing) -> (LaneStream, LaneStream) {
    let (lab, hpc) = paired("lab", "hpc");
    open_between(&lab, &hpc, framing)
}

fn open_between(lab: &Site, hpc: &Site, framing: Framing) -> (LaneStream, LaneStream) {
    let (listener, address) = listen();
    thread::scope(|scope| {
        let source = scope.spawn(|| {
            let pending = accept_one(&listener, hpc, DEADLINE).unwrap();
            assert_eq!(pending.peer(), &peer("lab", "dtn1"));
            assert_eq!(pending.hello(), &hello(framing));
            pending.welcome(1, &peer("hpc", "dtn1")).unwrap()
        });
        let (target, welcome) = dial(address, lab, &hello(framing)).unwrap();
        assert_eq!(welcome, Welcome { protocol: 1, source: peer("hpc", "dtn1") });
        assert_eq!((target.framing(), target.lane()), (framing, LaneId(7)));
        (target, source.join().unwrap())
    })
}

fn pattern(length: usize, salt: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(31) >> 3) as u8 ^ (at + salt) as u8).collect()
}

fn data(request: u32, body: &[u8], payload: usize) -> Header {
    let header = Header::of(FrameKind::Data, request, body);
    Header { payload_bytes: payload as u32, ..header }
}

/// Returns the frame of `pattern`s that the tests send: its body depends on its size too.
fn frame(size: usize) -> (Header, Vec<u8>, Vec<u8>) {
    let body = pattern(size % 70_000, 1);
    (data(size as u32, &body, size), body, pattern(size, 2))
}

fn send_sizes(lane: &mut LaneStream) {
    for size in SIZES {
        let (header, body, payload) = frame(size);
        lane.send(&header, &body, &[&payload]).unwrap();
        // The same in slices, with empty ones and borders of every kind.
        let (first, rest) = payload.split_at(size / 3);
        let slices: Vec<&[u8]> = [&[], first, &[]].into_iter().chain(rest.chunks(5001)).collect();
        lane.send(&header, &body, &slices).unwrap();
    }
}

fn receive_sizes(lane: &mut LaneStream) {
    let mut body = Vec::new();
    for size in SIZES {
        let expected = frame(size);
        for piece in [size.max(1), 10_007] {
            assert_eq!(lane.recv_header(&mut body).unwrap(), expected.0);
            assert!(body == expected.1, "body of {size}");
            let mut payload = vec![0; size];
            for part in payload.chunks_mut(piece) {
                lane.recv_payload(part).unwrap();
            }
            assert!(payload == expected.2, "payload of {size}");
        }
    }
}

/// Every size of payload arrives as it was sent, whichever way, under both framings.
#[test]
fn all_sizes_travel_both_ways() {
    for framing in [Framing::Tls, Framing::Clear] {
        let (mut target, mut source) = open(framing);
        thread::scope(|scope| {
            scope.spawn(|| {
                send_sizes(&mut source);
                receive_sizes(&mut source);
                source.close().unwrap();
                assert!(source.bytes_sent() > 6 * 1024 * 1024);
            });
            receive_sizes(&mut target);
            send_sizes(&mut target);
            let error = target.recv_header(&mut Vec::new()).unwrap_err();
            assert!(matches!(error, LaneError::Closed), "{error}");
        });
        assert_eq!(target.bytes_sent(), source.bytes_received(), "{framing:?}");
        assert_eq!(target.bytes_received(), source.bytes_sent(), "{framing:?}");
    }
}

/// Each cipher suite that an operator may choose works with our records.
#[test]
fn all_suites_work() {
    let suites = [CipherSuite::Aes128Gcm, CipherSuite::Aes256Gcm, CipherSuite::Chacha20Poly1305];
    for suite in suites {
        let (lab, hpc) = paired("lab", "hpc");
        let (listener, address) = listen();
        thread::scope(|scope| {
            scope.spawn(|| {
                let pending = accept_one(&listener, &hpc, DEADLINE).unwrap();
                send_sizes(&mut pending.welcome(1, &peer("hpc", "dtn1")).unwrap());
            });
            let config =
                client_config(Purpose::Lane, &lab.identity, &lab.trust, None, &[suite]).unwrap();
            let (bind, options) = (LocalBind::default(), SocketOptions::default());
            let hello = hello(Framing::Tls);
            let lane = connect(address, &bind, &config, &name("hpc"), &hello, DEADLINE, &options);
            receive_sizes(&mut lane.unwrap().0);
        });
    }
}

fn write_plain(stream: &mut impl std::io::Write, header: &Header, rest: &[&[u8]]) {
    stream.write_all(&header.encode()).unwrap();
    for part in rest {
        stream.write_all(part).unwrap();
    }
    stream.flush().unwrap();
}

fn read_plain(stream: &mut impl std::io::Read) -> (Header, Vec<u8>, Vec<u8>) {
    let mut bytes = [0; HEADER_BYTES];
    stream.read_exact(&mut bytes).unwrap();
    let header = Header::decode(&bytes).unwrap();
    let mut body = vec![0; header.body_bytes as usize];
    stream.read_exact(&mut body).unwrap();
    let mut payload = vec![0; header.payload_bytes as usize];
    stream.read_exact(&mut payload).unwrap();
    (header, body, payload)
}

/// Sends and receives all sizes through a plain rustls connection.
fn speak_plainly(stream: &mut (impl std::io::Read + std::io::Write)) {
    for size in SIZES {
        let (header, body, payload) = frame(size);
        for _ in 0..2 {
            write_plain(stream, &header, &[&body, &payload]);
        }
    }
    for size in SIZES {
        for _ in 0..2 {
            assert!(read_plain(stream) == frame(size), "{size}");
        }
    }
    let mut rest = Vec::new();
    assert_eq!(stream.read_to_end(&mut rest).unwrap(), 0, "close_notify is understood");
}

/// Our records are standard TLS 1.3: rustls is the source, our records the target.
#[test]
fn our_target_speaks_with_plain_rustls() {
    let (lab, hpc) = paired("lab", "hpc");
    let (listener, address) = listen();
    thread::scope(|scope| {
        scope.spawn(|| {
            let (tcp, _) = listener.accept().unwrap();
            let connection = ServerConnection::new(hpc.server(Purpose::Lane)).unwrap();
            let mut stream = StreamOwned::new(connection, tcp);
            assert_eq!(read_plain(&mut stream).0.kind, FrameKind::Hello);
            let reply = HelloReply::Welcome { protocol: 1, source: peer("hpc", "dtn1") }.encode();
            write_plain(&mut stream, &Header::of(FrameKind::HelloReply, 0, &reply), &[&reply]);
            speak_plainly(&mut stream);
        });
        let (mut lane, _) = dial(address, &lab, &hello(Framing::Tls)).unwrap();
        receive_sizes(&mut lane);
        send_sizes(&mut lane);
        lane.close().unwrap();
        let error = lane.recv_header(&mut Vec::new()).unwrap_err();
        assert!(matches!(error, LaneError::Closed), "{error}");
    });
}

fn plain_client(address: SocketAddr, site: &Site) -> StreamOwned<ClientConnection, TcpStream> {
    let config = site.client(Purpose::Lane, Some("hpc"));
    let connection = ClientConnection::new(config, peer_server_name()).unwrap();
    StreamOwned::new(connection, TcpStream::connect(address).unwrap())
}

/// Our records are standard TLS 1.3: rustls is the target, our records the source.
#[test]
fn our_source_speaks_with_plain_rustls() {
    let (lab, hpc) = paired("lab", "hpc");
    let (listener, address) = listen();
    thread::scope(|scope| {
        scope.spawn(|| {
            let pending = accept_one(&listener, &hpc, DEADLINE).unwrap();
            let mut lane = pending.welcome(1, &peer("hpc", "dtn1")).unwrap();
            receive_sizes(&mut lane);
            send_sizes(&mut lane);
            lane.close().unwrap();
        });
        let mut stream = plain_client(address, &lab);
        let body = hello(Framing::Tls).encode();
        write_plain(&mut stream, &Header::of(FrameKind::Hello, 0, &body), &[&body]);
        let (_, reply, _) = read_plain(&mut stream);
        assert!(matches!(HelloReply::decode(&reply), Ok(HelloReply::Welcome { .. })));
        speak_plainly(&mut stream);
    });
}

/// A target that asks before it is welcomed would have its bytes lost in rustls: it is refused.
#[test]
fn a_target_that_speaks_out_of_turn_is_refused() {
    let (lab, hpc) = paired("lab", "hpc");
    for framing in [Framing::Tls, Framing::Clear] {
        let (listener, address) = listen();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut stream = plain_client(address, &lab);
                let body = hello(framing).encode();
                let ping = Header::of(FrameKind::Ping, 0, &[]).encode();
                let header = Header::of(FrameKind::Hello, 0, &body).encode();
                stream.write_all(&[&header[..], &body, &ping].concat()).unwrap();
                let _ = stream.flush();
                let _ = stream.read(&mut [0; 1]);
            });
            let error = accept_one(&listener, &hpc, DEADLINE).unwrap_err();
            assert!(error.to_string().contains("out of turn"), "{error}");
        });
    }
}

/// Promise: rustls follows another stack that updates its keys around the hello. The lane continues
/// with the keys of that moment.
#[test]
fn a_key_update_around_the_hello_is_followed() {
    let (lab, hpc) = paired("lab", "hpc");
    let (listener, address) = listen();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = plain_client(address, &lab);
            stream.conn.complete_io(&mut stream.sock).unwrap();
            let body = hello(Framing::Tls).encode();
            let header = Header::of(FrameKind::Hello, 0, &body).encode();
            stream.conn.refresh_traffic_keys().unwrap();
            stream.conn.writer().write_all(&[&header[..], &body].concat()).unwrap();
            stream.conn.refresh_traffic_keys().unwrap();
            let mut flight = Vec::new();
            while stream.conn.wants_write() {
                stream.conn.write_tls(&mut flight).unwrap();
            }
            stream.sock.write_all(&flight).unwrap();
            assert_eq!(read_plain(&mut stream).0.kind, FrameKind::HelloReply);
            speak_plainly(&mut stream);
        });
        let pending = accept_one(&listener, &hpc, DEADLINE).unwrap();
        let mut lane = pending.welcome(1, &peer("hpc", "dtn1")).unwrap();
        receive_sizes(&mut lane);
        send_sizes(&mut lane);
        lane.close().unwrap();
    });
}

/// The longest hello that the protocol allows arrives: more than rustls buffers by itself.
#[test]
fn the_longest_hello_arrives() {
    let (lab, hpc) = paired("lab", "hpc");
    let (listener, address) = listen();
    let long = Hello { capability: pattern(CAPABILITY_BYTES_MAX, 3), ..hello(Framing::Clear) };
    thread::scope(|scope| {
        scope.spawn(|| {
            let pending = accept_one(&listener, &hpc, DEADLINE).unwrap();
            assert!(*pending.hello() == long);
            pending.welcome(1, &peer("hpc", "dtn1")).unwrap();
        });
        dial(address, &lab, &long).unwrap();
    });
}

/// The source's reason reaches the target as it was given.
#[test]
fn a_refusal_gives_its_reason() {
    let (lab, hpc) = paired("lab", "hpc");
    let (listener, address) = listen();
    let reason = Refusal {
        code: RefusalCode::Capability,
        retry_after_ms: 0,
        text: "the capability expired 7 s ago".to_owned(),
    };
    thread::scope(|scope| {
        scope.spawn(|| accept_one(&listener, &hpc, DEADLINE).unwrap().refuse(reason.clone()));
        match dial(address, &lab, &hello(Framing::Tls)) {
            Err(ConnectError::Refused(found)) => assert_eq!(found, reason),
            other => panic!("{other:?}"),
        }
    });
}

/// D4: a target learns that its certificate is refused, a source whose it was, and neither sends
/// anything of the transfer.
#[test]
fn d4_lanes_of_strangers_do_not_open() {
    let (_, hpc) = paired("lab", "hpc");
    let stranger = Site::new("stranger");
    stranger.trust.pin(hpc.authority.certificate().clone()).unwrap();
    let (listener, address) = listen();
    thread::scope(|scope| {
        let source = scope.spawn(|| accept_one(&listener, &hpc, DEADLINE).unwrap_err());
        let error = dial(address, &stranger, &hello(Framing::Tls)).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("refuses our certificate"), "{error}: {cause}");
        let error = source.join().unwrap().to_string();
        assert!(error.contains("`stranger` is not paired"), "{error}");
    });
}

/// A lane to a peer of another site than the grant names does not open, paired or not.
#[test]
fn a_lane_to_the_wrong_site_does_not_open() {
    let (lab, hpc) = paired("lab", "hpc");
    let (listener, address) = listen();
    thread::scope(|scope| {
        scope.spawn(|| accept_one(&listener, &hpc, DEADLINE).unwrap_err());
        let config = lab.client(Purpose::Lane, None);
        let (bind, options) = (LocalBind::default(), SocketOptions::default());
        let hello = hello(Framing::Tls);
        let result = connect(address, &bind, &config, &name("cloud"), &hello, DEADLINE, &options);
        match result.map(|_| ()) {
            Err(ConnectError::WrongPeer { source, .. }) => {
                assert!(source.to_string().contains("found `hpc/dtn1`"), "{source}");
            }
            other => panic!("{other:?}"),
        }
    });
}

/// Promise (f): a peer that connects and sends nothing, or too little, costs its deadline and no
/// more, on either side.
#[test]
fn silent_peers_time_out() {
    let (lab, hpc) = paired("lab", "hpc");
    let short = Duration::from_millis(200);
    let (listener, address) = listen();

    // No thread accepts: the kernel completes TCP, and no answer follows.
    let started = Instant::now();
    let config = lab.client(Purpose::Lane, None);
    let (bind, options) = (LocalBind::default(), SocketOptions::default());
    let hello = hello(Framing::Tls);
    let result = connect(address, &bind, &config, &name("hpc"), &hello, short, &options);
    assert!(matches!(result, Err(ConnectError::TimedOut { .. })), "{result:?}");
    assert!(started.elapsed() < DEADLINE / 2);
    drop(listener);

    let (listener, address) = listen();
    let _mute = TcpStream::connect(address).unwrap();
    let error = accept_one(&listener, &hpc, short).unwrap_err();
    assert!(matches!(error, LaneError::TimedOut), "{error}");

    // A peer that sends a byte at a time does not extend the deadline.
    let mut slow = TcpStream::connect(address).unwrap();
    thread::scope(|scope| {
        scope.spawn(move || {
            // The start of a client hello of 512 bytes.
            for byte in [22, 3, 1, 2, 0, 1, 0, 1, 252].into_iter().chain(std::iter::repeat(0)) {
                thread::sleep(Duration::from_millis(20));
                if slow.write_all(&[byte]).is_err() {
                    break;
                }
            }
        });
        let started = Instant::now();
        let error = accept_one(&listener, &hpc, short).unwrap_err();
        assert!(matches!(error, LaneError::TimedOut), "{error}");
        assert!(started.elapsed() < DEADLINE / 2);
    });
    // Handshake, and then no hello.
    thread::scope(|scope| {
        let client = scope.spawn(|| {
            let mut stream = plain_client(address, &lab);
            stream.conn.complete_io(&mut stream.sock).unwrap();
            let _ = stream.read(&mut [0; 1]);
        });
        let error = accept_one(&listener, &hpc, short).unwrap_err();
        assert!(matches!(error, LaneError::TimedOut), "{error}");
        client.join().unwrap();
    });
    // An open lane on which nothing comes.
    let (target, _source) = open_between(&lab, &hpc, Framing::Clear);
    let mut target = target;
    target.set_io_timeout(short).unwrap();
    let error = target.recv_header(&mut Vec::new()).unwrap_err();
    assert!(matches!(error, LaneError::TimedOut), "{error}");
}

/// A target that stops reading stops its source for the time limit and no longer.
#[test]
fn a_target_that_does_not_read_ends_the_lane() {
    for framing in [Framing::Tls, Framing::Clear] {
        let (_target, mut source) = open(framing);
        source.set_io_timeout(Duration::from_millis(200)).unwrap();
        let (header, body, payload) = frame(1024 * 1024);
        let error = (0..100).find_map(|_| source.send(&header, &body, &[&payload]).err()).unwrap();
        assert!(matches!(error, LaneError::TimedOut), "{framing:?}: {error}");
    }
}

fn event() -> OwnedFd {
    rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap()
}

/// The owner of a lane is woken by data, by other threads, and by frames that came together with
/// earlier ones and no longer lie in the socket.
#[test]
fn waiting_sees_sockets_buffers_and_interrupts() {
    for framing in [Framing::Tls, Framing::Clear] {
        let (mut target, mut source) = open(framing);
        let interrupt = event();
        let moment = Duration::from_millis(10);
        assert_eq!(target.wait(interrupt.as_fd(), moment).unwrap(), Wake::Timeout);

        let ping = Header::of(FrameKind::Ping, 0, &[1; 8]);
        for _ in 0..3 {
            source.send(&ping, &[1; 8], &[]).unwrap();
        }
        let mut body = Vec::new();
        for _ in 0..3 {
            assert_eq!(target.wait(interrupt.as_fd(), DEADLINE).unwrap(), Wake::Readable);
            assert_eq!(target.recv_header(&mut body).unwrap(), ping);
        }
        assert_eq!(target.wait(interrupt.as_fd(), moment).unwrap(), Wake::Timeout);

        source.send(&ping, &[1; 8], &[]).unwrap();
        rustix::io::write(&interrupt, &1u64.to_ne_bytes()).unwrap();
        assert_eq!(target.wait(interrupt.as_fd(), DEADLINE).unwrap(), Wake::Interrupted);
        rustix::io::read(&interrupt, &mut [0u8; 8]).unwrap();
        assert_eq!(target.wait(interrupt.as_fd(), DEADLINE).unwrap(), Wake::Readable);
        target.recv_header(&mut body).unwrap();

        thread::scope(|scope| {
            scope.spawn(|| rustix::io::write(&interrupt, &1u64.to_ne_bytes()).unwrap());
            assert_eq!(target.wait(interrupt.as_fd(), DEADLINE).unwrap(), Wake::Interrupted);
        });
        rustix::io::read(&interrupt, &mut [0u8; 8]).unwrap();
        drop(source);
        assert_eq!(target.wait(interrupt.as_fd(), DEADLINE).unwrap(), Wake::Readable);
        let error = target.recv_header(&mut body).unwrap_err();
        assert!(matches!(error, LaneError::Closed), "{error}");
    }
}

/// Promise: a second thread ends a lane whose owner blocks on it.
#[test]
fn a_closer_ends_a_blocked_receive() {
    let (mut target, _source) = open(Framing::Tls);
    let closer = target.closer().unwrap();
    thread::scope(|scope| {
        let owner = scope.spawn(move || target.recv_header(&mut Vec::new()).unwrap_err());
        closer.shutdown();
        let error = owner.join().unwrap();
        assert!(matches!(error, LaneError::Closed), "{error}");
    });
}

/// A lane leaves from the address and the interface it is bound to (E5), with the buffers that
/// were asked for.
#[test]
fn socket_options_are_set() {
    let (lab, hpc) = paired("lab", "hpc");
    let (listener, address) = listen();
    let bind = LocalBind {
        address: Some(Ipv4Addr::new(127, 0, 0, 2).into()),
        device: Some("lo".to_owned()),
    };
    let options = SocketOptions {
        send_buffer_bytes: Some(64 * KIB),
        receive_buffer_bytes: Some(80 * KIB),
        congestion: Some("reno".to_owned()),
        ..SocketOptions::default()
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let pending = accept_one(&listener, &hpc, DEADLINE).unwrap();
            pending.welcome(1, &peer("hpc", "dtn1")).unwrap();
        });
        let hello = hello(Framing::Tls);
        let (lane, _) = dial_with(address, &lab, &hello, &bind, &options).unwrap();
        assert_eq!(lane.addresses().unwrap().0.ip(), Ipv4Addr::new(127, 0, 0, 2));
        use rustix::net::sockopt;
        assert_eq!(sockopt::socket_send_buffer_size(&lane).unwrap(), 128 * KIB);
        assert_eq!(sockopt::socket_recv_buffer_size(&lane).unwrap(), 160 * KIB);
        assert_eq!(sockopt::tcp_congestion(&lane).unwrap(), "reno");
        assert!(sockopt::tcp_nodelay(&lane).unwrap());
    });
    for (bind, options, expected) in [
        (
            LocalBind { device: Some("no-such-nic".to_owned()), address: None },
            SocketOptions::default(),
            "bind to network interface `no-such-nic`",
        ),
        (
            LocalBind::default(),
            SocketOptions { congestion: Some("no-such".to_owned()), ..SocketOptions::default() },
            "set congestion control `no-such`",
        ),
    ] {
        let error = dial_with(address, &lab, &hello(Framing::Tls), &bind, &options).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(cause, expected);
    }
}

/// The kernel's round-trip times are read at the right place of its structure.
#[test]
fn rtt_of_loopback_is_short() {
    let (mut target, mut source) = open(Framing::Clear);
    let ping = Header::of(FrameKind::Ping, 0, &[]);
    for _ in 0..10 {
        source.send(&ping, &[], &[]).unwrap();
        target.recv_header(&mut Vec::new()).unwrap();
        target.send(&ping, &[], &[]).unwrap();
        source.recv_header(&mut Vec::new()).unwrap();
    }
    let rtt = source.rtt().unwrap();
    assert!(rtt.min > Duration::ZERO && rtt.min <= rtt.smoothed * 2, "{rtt:?}");
    assert!(rtt.smoothed < Duration::from_secs(1), "{rtt:?}");
}

/// A peer that cannot be reached is named with the reason.
#[test]
fn an_unreachable_peer_is_named() {
    let (lab, _) = paired("lab", "hpc");
    let (listener, address) = listen();
    drop(listener);
    let error = dial(address, &lab, &hello(Framing::Tls)).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot connect to {address}"));
    assert!(matches!(error, ConnectError::Unreachable { .. }));
}
