//! Lanes with OpenSSL at the far end: `openssl s_server` and `s_client` as pipes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use penstock_proto::frame::{CipherSuite, FrameKind, Framing, Header, HelloReply};

use super::{
    DEADLINE, SIZES, accept_one, frame, hello, listen, read_plain, receive_sizes, send_sizes,
    write_plain,
};
use crate::trust::tests::{Site, name, paired, peer};
use crate::trust::{Purpose, client_config};
use crate::{ConnectError, LaneError, LaneStream, LocalBind, SocketOptions, connect};

/// Suites as OpenSSL and as this project call them.
const SUITES: [(&str, CipherSuite); 3] = [
    ("TLS_AES_128_GCM_SHA256", CipherSuite::Aes128Gcm),
    ("TLS_AES_256_GCM_SHA384", CipherSuite::Aes256Gcm),
    ("TLS_CHACHA20_POLY1305_SHA256", CipherSuite::Chacha20Poly1305),
];
/// Most content of the records that OpenSSL sends: its smallest limit, an odd one, the protocol's.
const RECORD_LIMITS: [&str; 3] = ["512", "4097", "16384"];

/// Returns whether the machine has the program.
#[expect(clippy::print_stderr, reason = "tells what is not tested")]
fn has_openssl() -> bool {
    let found = Command::new("openssl").arg("version").output();
    let has = found.is_ok_and(|output| output.status.success());
    if !has {
        eprintln!("SKIPPED: needs the program openssl");
    }
    has
}

/// A TLS connection of OpenSSL: it seals its input and prints the plaintext that it receives.
struct Pipe {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Pipe {
    fn start(role: &[&str], directory: &Path, site: &Site, suite: &str, limit: &str) -> Self {
        site.identity.save(directory).unwrap();
        let chain = fs::read_to_string(directory.join("peer.pem")).unwrap();
        let authority = chain.rfind("-----BEGIN").unwrap();
        fs::write(directory.join("authority.pem"), &chain[authority..]).unwrap();
        let mut command = Command::new("openssl");
        command
            .args(role)
            .args(["-tls1_3", "-alpn", "penstock-lane/1", "-ciphersuites", suite])
            .args(["-max_send_frag", limit, "-cert", "peer.pem", "-key", "peer.key"])
            .args(["-cert_chain", "authority.pem"])
            .current_dir(directory);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output }
    }

    /// Starts `s_client` as a target peer of `site`.
    fn client(to: SocketAddr, directory: &Path, site: &Site, suite: &str, limit: &str) -> Self {
        let role = ["s_client", "-quiet", "-connect", &to.to_string()];
        Self::start(&role, directory, site, suite, limit)
    }

    /// Starts `s_server` as a source peer of `site`, for one connection.
    fn server(directory: &Path, site: &Site, suite: &str, limit: &str) -> (Self, SocketAddr) {
        // The port is free again once the listener is gone: no connection was made to it.
        let address = listen().1;
        let port = address.port().to_string();
        let role = ["s_server", "-quiet", "-Verify", "1", "-naccept", "1", "-accept"];
        let role: Vec<_> = role.into_iter().chain([port.as_str()]).collect();
        let pipe = Self::start(&role, directory, site, suite, limit);
        (pipe, address)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Opens a lane as soon as the far end listens.
fn dial_soon(address: SocketAddr, site: &Site, suite: CipherSuite) -> LaneStream {
    let config = client_config(Purpose::Lane, &site.identity, &site.trust, None, &[suite]).unwrap();
    let (bind, options) = (LocalBind::default(), SocketOptions::default());
    let (hello, started) = (hello(Framing::Tls), Instant::now());
    loop {
        match connect(address, &bind, &config, &name("hpc"), &hello, DEADLINE, &options) {
            Ok((lane, _)) => return lane,
            Err(ConnectError::Unreachable { .. }) if started.elapsed() < DEADLINE => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
        }
    }
}

/// Sends and receives all sizes through OpenSSL, at the same time: a pipe holds 64 KiB.
fn speak(input: &mut ChildStdin, output: &mut ChildStdout) {
    thread::scope(|scope| {
        scope.spawn(|| {
            for size in SIZES {
                let (header, body, payload) = frame(size);
                for _ in 0..2 {
                    write_plain(input, &header, &[&body, &payload]);
                }
            }
        });
        for size in SIZES {
            for _ in 0..2 {
                assert!(read_plain(output) == frame(size), "{size}");
            }
        }
    });
}

/// Promise: a lane to a source that uses OpenSSL carries frames of all sizes both ways, for each
/// suite and for records of several sizes. Each end learns that the other one closed.
#[test]
fn our_target_speaks_with_openssl() {
    if !has_openssl() {
        return;
    }
    for (suite, ours) in SUITES {
        for limit in RECORD_LIMITS {
            let (lab, hpc) = paired("lab", "hpc");
            let directory = tempfile::tempdir().unwrap();
            let (mut pipe, address) = Pipe::server(directory.path(), &hpc, suite, limit);
            // The reply travels in a record of its own, which OpenSSL makes of each read.
            let (opened, is_open) = mpsc::channel();
            thread::scope(|scope| {
                scope.spawn(move || {
                    assert_eq!(read_plain(&mut pipe.output).0.kind, FrameKind::Hello);
                    let source = peer("hpc", "dtn1");
                    let reply = HelloReply::Welcome { protocol: 1, source }.encode();
                    let header = Header::of(FrameKind::HelloReply, 0, &reply);
                    write_plain(&mut pipe.input, &header, &[&reply]);
                    is_open.recv().unwrap();
                    speak(&mut pipe.input, &mut pipe.output);
                    let mut rest = Vec::new();
                    pipe.output.read_to_end(&mut rest).unwrap();
                    assert!(rest.is_empty(), "OpenSSL takes close_notify for the end");
                });
                let mut lane = dial_soon(address, &lab, ours);
                opened.send(()).unwrap();
                receive_sizes(&mut lane);
                send_sizes(&mut lane);
                lane.close().unwrap();
                let error = lane.recv_header(&mut Vec::new()).unwrap_err();
                assert!(matches!(error, LaneError::Closed), "{suite}, {limit}: {error}");
            });
        }
    }
}

/// Promise: the same with OpenSSL as the target.
#[test]
fn our_source_speaks_with_openssl() {
    if !has_openssl() {
        return;
    }
    for (suite, _) in SUITES {
        for limit in RECORD_LIMITS {
            let (lab, hpc) = paired("lab", "hpc");
            let (listener, address) = listen();
            let directory = tempfile::tempdir().unwrap();
            thread::scope(|scope| {
                scope.spawn(|| {
                    let pending = accept_one(&listener, &hpc, DEADLINE).unwrap();
                    let mut lane = pending.welcome(1, &peer("hpc", "dtn1")).unwrap();
                    receive_sizes(&mut lane);
                    send_sizes(&mut lane);
                    lane.close().unwrap();
                });
                let mut pipe = Pipe::client(address, directory.path(), &lab, suite, limit);
                let body = hello(Framing::Tls).encode();
                write_plain(&mut pipe.input, &Header::of(FrameKind::Hello, 0, &body), &[&body]);
                assert_eq!(read_plain(&mut pipe.output).0.kind, FrameKind::HelloReply);
                speak(&mut pipe.input, &mut pipe.output);
                let mut rest = Vec::new();
                pipe.output.read_to_end(&mut rest).unwrap();
                assert!(
                    rest.is_empty(),
                    "{suite}, {limit}: OpenSSL takes close_notify for the end"
                );
            });
        }
    }
}

/// Promise: records of one byte, as OpenSSL seals a byte that is written alone, arrive.
#[test]
fn records_of_one_byte_arrive() {
    if !has_openssl() {
        return;
    }
    let (lab, hpc) = paired("lab", "hpc");
    let (listener, address) = listen();
    let directory = tempfile::tempdir().unwrap();
    let (arrived, arrival) = mpsc::channel();
    thread::scope(|scope| {
        let source = scope.spawn(move || {
            let pending = accept_one(&listener, &hpc, DEADLINE).unwrap();
            let mut lane = pending.welcome(1, &peer("hpc", "dtn1")).unwrap();
            let mut body = Vec::new();
            assert_eq!(lane.recv_header(&mut body).unwrap().kind, FrameKind::Ping);
            assert_eq!(body, [1; 8]);
            arrived.send(()).unwrap();
            lane.recv_header(&mut body).unwrap_err()
        });
        let mut pipe = Pipe::client(address, directory.path(), &lab, SUITES[0].0, "512");
        let body = hello(Framing::Tls).encode();
        write_plain(&mut pipe.input, &Header::of(FrameKind::Hello, 0, &body), &[&body]);
        assert_eq!(read_plain(&mut pipe.output).0.kind, FrameKind::HelloReply);
        let ping = [&Header::of(FrameKind::Ping, 0, &[1; 8]).encode()[..], &[1; 8]].concat();
        for byte in ping {
            pipe.input.write_all(&[byte]).unwrap();
            // OpenSSL seals the bytes of one read; this leaves it the time to read this byte alone.
            thread::sleep(Duration::from_millis(2));
        }
        arrival.recv_timeout(DEADLINE).unwrap();
        // Killed: the stream ends at the border of a frame and without `close_notify`.
        drop(pipe);
        let error = source.join().unwrap();
        assert!(matches!(error, LaneError::Closed | LaneError::Io(_)), "{error:?}");
    });
}

/// Promise: a key update ends the lane with an error that names it. The protocol excludes it, as a
/// lane is replaced long before its key is used up.
#[test]
fn a_key_update_of_openssl_ends_the_lane() {
    if !has_openssl() {
        return;
    }
    for command in [b"k\n", b"K\n"] {
        let (lab, hpc) = paired("lab", "hpc");
        let (listener, address) = listen();
        let directory = tempfile::tempdir().unwrap();
        thread::scope(|scope| {
            let source = scope.spawn(|| {
                let pending = accept_one(&listener, &hpc, DEADLINE).unwrap();
                let mut lane = pending.welcome(1, &peer("hpc", "dtn1")).unwrap();
                lane.recv_header(&mut Vec::new()).unwrap_err()
            });
            // Not quiet: its commands are understood.
            let role = ["s_client", "-connect", &address.to_string()];
            let mut pipe = Pipe::start(&role, directory.path(), &lab, SUITES[0].0, "16384");
            let body = hello(Framing::Tls).encode();
            write_plain(&mut pipe.input, &Header::of(FrameKind::Hello, 0, &body), &[&body]);
            // The reply follows OpenSSL's own words about the connection.
            let reply = HelloReply::Welcome { protocol: 1, source: peer("hpc", "dtn1") }.encode();
            let mut said = Vec::new();
            while !said.ends_with(&reply) {
                let mut byte = [0];
                pipe.output.read_exact(&mut byte).unwrap();
                said.push(byte[0]);
            }
            pipe.input.write_all(command).unwrap();
            let error = source.join().unwrap();
            assert!(error.to_string().contains("do not update keys"), "{error}");
        });
    }
}
