//! The doors of a running daemon: what is cut when a right ends, and what people without
//! credentials may take from others.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use futures_util::{StreamExt as _, stream};
use penstock_net::trust::{
    PairingToken, Purpose, SiteAuthority, pairing_client_config, pairing_exporter,
    peer_server_name, preferred_suites,
};
use penstock_net::{LaneStream, LocalBind, SocketOptions, Wake};
use penstock_proto::digest::DigestKind;
use penstock_proto::frame::{self, FrameKind, Framing, Header, Hello};
use penstock_proto::id::LaneId;
use penstock_sys::EventFd;
use penstock_testkit::{
    LOOK, Moment, PATIENCE, ProxiedPair, Scratch, Site, make_set, seed, status_of, told, walk,
};
use rustls::client::Resumption;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, StreamOwned};

use crate::crowd::{Crowd, Kinds};
use crate::trust::{capability, name, now};

/// How soon a connection must be gone whose right has ended. A busy machine is allowed for.
pub(super) const CUT_MAX: Duration = Duration::from_secs(5);

/// A connection to the site API that is kept: HTTP/1.1, one request after the other.
pub(super) struct Kept(StreamOwned<ClientConnection, TcpStream>);

impl Kept {
    pub(super) fn open(config: &Arc<ClientConfig>, address: SocketAddr) -> io::Result<Self> {
        let mut config = (**config).clone();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self::over(&Arc::new(config), TcpStream::connect(address)?)
    }

    fn over(config: &Arc<ClientConfig>, tcp: TcpStream) -> io::Result<Self> {
        tcp.set_read_timeout(Some(Duration::from_secs(20)))?;
        let connection = ClientConnection::new(Arc::clone(config), peer_server_name()).unwrap();
        let mut kept = Self(StreamOwned::new(connection, tcp));
        while kept.0.conn.is_handshaking() {
            kept.0.conn.complete_io(&mut kept.0.sock)?;
        }
        Ok(kept)
    }

    /// Asks for something, and gives the status of the reply.
    pub(super) fn get(&mut self, path: &str) -> io::Result<u16> {
        self.ask("GET", path, "")
    }

    pub(super) fn ask(&mut self, method: &str, path: &str, body: &str) -> io::Result<u16> {
        let length = body.len();
        let text = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\npenstock-site-version: 1\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.0.write_all(text.as_bytes())?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte)?;
            head.push(byte[0]);
        }
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        self.0.read_exact(&mut vec![0; length.map_or(0, |length| length.parse().unwrap())])?;
        Ok(head.split(' ').nth(1).unwrap().parse().unwrap())
    }

    /// How long it takes until the other end has closed.
    pub(super) fn until_cut(mut self) -> Duration {
        let began = Instant::now();
        match self.0.read(&mut [0]) {
            Ok(0) => {}
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {}
            other => panic!("not cut within {:?}: {other:?}", began.elapsed()),
        }
        began.elapsed()
    }
}

/// How long a short transfer, or a pairing, may take beside a crowd. Alone they take a second on a
/// machine with nothing else to do.
const UNHINDERED: Duration = Duration::from_secs(10);

/// Two running sites, `a` and `b`, that reach each other without anything between.
pub(super) fn sites(root: &std::path::Path) -> (Site, Site, SocketAddr) {
    let (mut a, mut b) = (Site::init(root, "a", None), Site::init(root, "b", None));
    let address = a.start();
    b.start();
    (a, b, address)
}

/// Something that only a paired site gets an answer to.
pub(super) const FOR_PAIRED: &str = "/site/v1/stores/data/peers";

/// D4: when a site is unpaired and another one of the same name is paired, the old keys open
/// nothing: neither over a connection that stands, which is cut, nor by a session that is resumed,
/// nor by a fresh handshake.
#[test]
fn d4_old_keys_are_never_the_new_site() {
    let root = Scratch::in_memory();
    let (a, mut b, address) = sites(root.path());
    a.pair(&b);
    let old = b.tls_towards(&a, Purpose::SiteApi);
    let mut resuming = (*old).clone();
    resuming.alpn_protocols = vec![b"http/1.1".to_vec()];
    resuming.resumption = Resumption::in_memory_sessions(8);
    let resuming = Arc::new(resuming);
    let with_ticket = || Kept::over(&resuming, TcpStream::connect(address).unwrap());
    let mut standing = Kept::open(&old, address).unwrap();
    assert_eq!(standing.get(FOR_PAIRED).unwrap(), 200);
    assert_eq!(with_ticket().unwrap().get(FOR_PAIRED).unwrap(), 200);
    let mut again = with_ticket().unwrap();
    assert_eq!(again.0.conn.handshake_kind(), Some(HandshakeKind::Full), "a session was resumed");
    assert_eq!(again.get(FOR_PAIRED).unwrap(), 200);
    b.kill();
    let elsewhere = Scratch::in_memory();
    let mut anew = Site::init(elsewhere.path(), "b", None);
    anew.start();
    a.ok(&["site", "unpair", "b"]);
    a.pair(&anew);
    let took = standing.until_cut();
    println!("cut after {took:?}");
    assert!(took < CUT_MAX);
    let refused = |kept: io::Result<Kept>| kept.and_then(|mut kept| kept.get(FOR_PAIRED));
    assert!(refused(with_ticket()).is_err(), "a ticket of the old keys is the new site");
    assert!(refused(Kept::open(&old, address)).is_err(), "the old keys are the new site");
    let new = anew.tls_towards(&a, Purpose::SiteApi);
    assert_eq!(Kept::open(&new, address).unwrap().get(FOR_PAIRED).unwrap(), 200);
}

/// A lane of `b` to `a` for a transfer that runs, by a capability that is good for `seconds`.
fn lane_for(world: &ProxiedPair, id: &str, seconds: u64) -> LaneStream {
    let transfer = id.parse().unwrap();
    let key = world.a.authority();
    let hello = Hello {
        protocol: penstock_proto::version::VersionRange::FIRST,
        lane: LaneId(900),
        transfer,
        framing: Framing::Tls,
        digest: DigestKind::Blake3,
        capability: capability(key.capability_key(), transfer, "b", now() + seconds),
    };
    let config = world.b.tls_towards(&world.a, Purpose::Lane);
    let (bind, options) = (LocalBind::default(), SocketOptions::default());
    let (site, limit) = (name("a"), Duration::from_secs(20));
    let address = world.proxy_a.upstream();
    penstock_net::connect(address, &bind, &config, &site, &hello, limit, &options).unwrap().0
}

/// Pings over a lane until it ends, and gives how long that took.
fn until_lane_ends(mut lane: LaneStream) -> Duration {
    let (began, never) = (Instant::now(), EventFd::new().unwrap());
    let mut body = Vec::new();
    let mut ping = || -> Result<(), penstock_net::LaneError> {
        let stamp = frame::encode_stamp(7);
        lane.send(&Header::of(FrameKind::Ping, 0, &stamp), &stamp, &[])?;
        // An end wakes as well as an answer.
        let woken = lane.wait(std::os::fd::AsFd::as_fd(&never), PATIENCE)?;
        assert_eq!(woken, Wake::Readable);
        lane.recv_header(&mut body)?;
        std::thread::sleep(LOOK);
        Ok(())
    };
    while ping().is_ok() {
        assert!(began.elapsed() < PATIENCE, "the lane stands");
    }
    began.elapsed()
}

/// A transfer from `a` to `b` that is slow enough to be looked at.
fn under_way() -> (ProxiedPair, String) {
    let world = ProxiedPair::start();
    make_set(&world.a.store.join("src"), 24, 50, seed());
    world.proxy_a.set_rate(Some(8e6));
    let id = world.b.submit(&["a:data/src/", "b:data/dst"]);
    world.b.show_until(&id, |view| view["progress"]["bytes_verified"].as_u64() > Some(0));
    (world, id)
}

/// C4: a lane ends with the right under which it was opened, however busy it is: when its
/// capability has expired, and when its site is unpaired.
#[test]
fn c4_a_lane_ends_with_its_right() {
    let (world, id) = under_way();
    let took = until_lane_ends(lane_for(&world, &id, 4));
    println!("4 s of a capability: the lane ended after {took:?}");
    assert!(took >= Duration::from_secs(2), "it ended before its time");
    assert!(took < Duration::from_secs(5) + CUT_MAX);
    let lane = lane_for(&world, &id, 3600);
    world.a.ok(&["site", "unpair", "b"]);
    let took = until_lane_ends(lane);
    println!("unpaired: the lane ended after {took:?}");
    assert!(took < CUT_MAX);
}

/// D4: a target takes nothing more from a site that it has unpaired, over lanes that stand neither.
#[test]
fn d4_a_target_cuts_the_lanes_of_a_site_that_it_unpairs() {
    let (world, id) = under_way();
    let written = || {
        let mut bytes = 0;
        walk(&world.b.store, &mut |path| {
            use std::os::unix::fs::MetadataExt as _;
            bytes += path.metadata().map_or(0, |metadata| metadata.blocks());
        });
        bytes
    };
    world.b.ok(&["site", "unpair", "a"]);
    // On a busy machine it takes longer than CUT_MAX until the lanes are cut.
    world.b.show_until(&id, |view| view["progress"]["lanes"] == 0);
    let before = written();
    std::thread::sleep(Duration::from_secs(2));
    assert_eq!(written(), before, "{}", world.b.show(&id));
    assert!(world.b.show(&id)["progress"]["bytes_verified"].as_u64() < Some(24 << 20));
}

/// How many connections there are to be: those of the measurement, or fewer.
fn kinds() -> Kinds {
    match std::env::var_os("PENSTOCK_TEST_CROWD") {
        Some(_) => Kinds { half_open: 3000, trickling: 2000, idle: 64 },
        None => Kinds { half_open: 1100, trickling: 200, idle: 64 },
    }
}

/// D4: a crowd without credentials keeps nobody from transferring or pairing, wherever it comes
/// from: another address, or the very one from which sites come.
#[test]
fn d4_a_crowd_stops_neither_transfers_nor_pairing() {
    let root = Scratch::in_memory();
    let (a, b, address) = sites(root.path());
    a.pair(&b);
    let mut c = Site::init(root.path(), "c", None);
    c.start();
    make_set(&a.store.join("src"), 0, 20, seed());
    for (number, from) in ["127.0.0.66", "127.0.0.1"].into_iter().enumerate() {
        let crowd = Crowd::start(from.parse().unwrap(), address, &a, kinds());
        let (from_a, to_b) = ("a:data/src/", format!("b:data/{number}"));
        let began = Moment::now();
        b.ok(&["transfer", "submit", from_a, &to_b, "--wait"]);
        let transferred = began.assert_within(UNHINDERED, "a transfer beside a crowd");
        let began = Moment::now();
        a.pair(&c);
        let paired = began.assert_within(UNHINDERED, "pairing beside a crowd");
        println!(
            "beside a crowd from {from} ({} connections opened): transferred in {transferred:?}, \
             paired in {paired:?}",
            crowd.opened()
        );
        a.ok(&["site", "unpair", "c"]);
        c.ok(&["site", "unpair", "a"]);
    }
}

/// D4: connections without a certificate take little memory, however many requests each of them
/// begins and never ends.
#[test]
fn d4_anonymous_bodies_take_little_memory() {
    let root = Scratch::in_memory();
    let mut a = Site::init(root.path(), "a", None);
    let address = a.start();
    // A token that is open: otherwise nothing of a body would be read.
    a.ok(&["site", "pair"]);
    let tls = pairing_client_config(a.authority().fingerprint(), &preferred_suites());
    let tls = tls.unwrap();
    let before = status_of(a.process(), "VmRSS");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let grown = runtime.block_on(async {
        for _ in 0..24 {
            let client = reqwest::Client::builder()
                .tls_backend_preconfigured((*tls).clone())
                .no_proxy()
                .local_address(IpAddr::from([127, 0, 0, 66]))
                .build()
                .unwrap();
            // One connection for all: without it each request begins with one of its own. The site
            // may end it, to make room for a newer one.
            let health = client.get(format!("https://{address}/site/v1/health"));
            let _ = health.send().await;
            for _ in 0..100 {
                let body = stream::iter([Ok::<_, io::Error>(vec![b' '; 48 << 10])]);
                let body = reqwest::Body::wrap_stream(body.chain(stream::pending()));
                let request = client.post(format!("https://{address}/site/v1/pair")).body(body);
                let request = request.header("content-type", "application/json");
                tokio::spawn(request.header("penstock-site-version", "1").send());
            }
        }
        let mut most = 0;
        for _ in 0..40 {
            tokio::time::sleep(LOOK).await;
            most = most.max(status_of(a.process(), "VmRSS"));
        }
        most.saturating_sub(before)
    });
    println!("24 connections with 100 requests each: {grown} KiB more than {before} KiB");
    assert!(grown < 48 << 10, "{grown} KiB");
}

/// D4: the log has a line for the first refusal of an address, and a count of the rest.
#[test]
fn d4_refusals_are_counted_in_the_log() {
    let root = Scratch::in_memory();
    let mut a = Site::init(root.path(), "a", None);
    let address = a.start();
    for _ in 0..300 {
        let mut tcp = TcpStream::connect(address).unwrap();
        tcp.set_read_timeout(Some(PATIENCE)).unwrap();
        let _ = tcp.write_all(b"GET / HTTP/1.0\r\n\r\n");
        // Until the other end has refused it.
        let _ = tcp.read_to_end(&mut Vec::new());
    }
    a.stop();
    let log = a.log_text();
    let of_it: Vec<_> = log.lines().filter(|line| line.contains("127.0.0.1")).collect();
    assert!(of_it.len() < 10, "{} lines: {:?}", of_it.len(), &of_it[..10]);
    let first = of_it.iter().any(|line| line.contains("connection refused; further ones"));
    assert!(first && log.contains("count=299"), "{log}");
}

/// Promise: a token need not be on a command line, where other users of the host can read it.
#[test]
fn a_token_is_read_from_standard_input_or_a_file() {
    let root = Scratch::in_memory();
    let (a, b, _) = sites(root.path());
    let token = a.ok(&["site", "pair"]);
    let mut command = b.command(&["site", "pair", "-"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(token.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let mut c = Site::init(root.path(), "c", None);
    c.start();
    let file = root.path().join("token");
    std::fs::write(&file, a.ok(&["site", "pair"])).unwrap();
    let file = file.to_str().unwrap();
    let output = c.run(&["site", "pair", "--token-file", file]);
    assert!(output.status.success(), "{}", told(&output));
    assert!(!told(&output).contains("other users of this host"), "{}", told(&output));
    std::fs::write(file, "\n").unwrap();
    let output = c.run(&["site", "pair", "--token-file", file]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("holds no token"), "{}", told(&output));
    let output = b.run(&["site", "pair", a.ok(&["site", "pair"]).trim()]);
    assert!(told(&output).contains("other users of this host"), "{}", told(&output));
}

/// Promise: no key of a daemon reaches a core file.
#[test]
fn a_daemon_leaves_no_core() {
    let root = Scratch::in_memory();
    let mut a = Site::init(root.path(), "a", None);
    a.start();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", a.process())).unwrap();
    let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
    let words: Vec<_> = core.split_whitespace().take(2).collect();
    assert_eq!(words, ["0", "0"]);
}

/// D5: the holder of a token pairs its own site, and no other whose authority it has seen.
#[test]
fn d5_a_token_enters_no_authority_of_another_site() {
    let root = Scratch::in_memory();
    let (a, b, address) = sites(root.path());
    let c = Site::init(root.path(), "c", None);
    let (issuer, thief, victim) = (a.authority(), b.authority(), c.authority());
    let token: PairingToken = a.ok(&["site", "pair"]).trim().parse().unwrap();
    let tls = pairing_client_config(issuer.fingerprint(), &preferred_suites()).unwrap();
    let enter = |shown: &SiteAuthority, signer: &SiteAuthority| {
        let mut kept = Kept::open(&tls, address).unwrap();
        let exporter = pairing_exporter(&kept.0.conn).unwrap();
        let proof = token.proof(&exporter, &shown.fingerprint());
        let signature = signer.sign_pairing(&exporter, &issuer.fingerprint()).unwrap();
        let half = serde_json::json!({
            "site": shown.site().as_str(),
            "ca": HEXLOWER.encode(shown.certificate()),
            "capability_key": HEXLOWER.encode(&thief.capability_key().public_key()),
            "addresses": ["127.0.0.1:9999"],
            "proof": HEXLOWER.encode(&proof),
            "signature": HEXLOWER.encode(&signature),
        });
        kept.ask("POST", "/site/v1/pair", &half.to_string()).unwrap()
    };
    assert_eq!(enter(&victim, &thief), 403);
    let listed = a.ok(&["site", "list"]);
    assert!(!listed.contains("9999"), "{listed}");
    assert_eq!(enter(&thief, &thief), 200, "what was refused before has not used up the token");
}

/// Promise: a source that wants encryption gets it: the target alone cannot do without.
#[test]
fn a_source_refuses_lanes_that_are_not_encrypted() {
    let root = Scratch::in_memory();
    let (mut a, mut b) = (Site::init(root.path(), "a", None), Site::init(root.path(), "b", None));
    a.set_config(&(a.config() + "encryption = \"required\"\n"));
    a.start();
    b.start();
    a.pair(&b);
    make_set(&a.store.join("src"), 0, 5, seed());
    let submit = |more: &[&str]| {
        let args = ["transfer", "submit", "a:data/src/", "b:data/dst", "--wait"];
        b.run(&[&args[..], more].concat())
    };
    let refused = submit(&["--encryption", "off"]);
    assert_eq!(refused.status.code(), Some(12), "{}", told(&refused));
    assert!(told(&refused).contains("over encrypted lanes only"), "{}", told(&refused));
    assert!(!b.store.join("dst/middle").exists());
    let done = submit(&[]);
    assert!(done.status.success(), "{}", told(&done));
}
