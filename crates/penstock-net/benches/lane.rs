//! The cost of a lane per frame: sealed, sent over loopback, received and opened, both ends on one
//! thread.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput};
use penstock_net::trust::{
    PeerCertificate, Purpose, SiteAuthority, TrustStore, client_config, server_config,
};
use penstock_net::{LaneStream, LocalBind, SocketOptions, accept_blocking, connect};
use penstock_proto::digest::DigestKind;
use penstock_proto::frame::{CipherSuite, FrameKind, Framing, Header, Hello};
use penstock_proto::id::{LaneId, Name, PeerId, TransferId};

const DEADLINE: Duration = Duration::from_secs(20);

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3))
        .configure_from_args();
    frames(&mut criterion);
    handshakes(&mut criterion);
    criterion.final_summary();
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

fn peer(site: &str) -> PeerId {
    PeerId { site: name(site), peer: name("dtn1") }
}

/// A site with one peer.
struct Site {
    authority: SiteAuthority,
    identity: PeerCertificate,
    trust: Arc<TrustStore>,
}

impl Site {
    fn new(site: &str) -> Self {
        let authority = SiteAuthority::create(name(site)).expect("an authority");
        let identity = authority.issue_peer(&peer(site)).expect("a certificate");
        let trust = TrustStore::new(authority.certificate().clone()).expect("a trust store");
        Self { authority, identity, trust: Arc::new(trust) }
    }

    fn pin(&self, other: &Self) {
        self.trust.pin(other.authority.certificate().clone()).expect("another authority");
    }
}

fn sites() -> (Site, Site) {
    let (lab, hpc) = (Site::new("lab"), Site::new("hpc"));
    lab.pin(&hpc);
    hpc.pin(&lab);
    (lab, hpc)
}

/// Returns an open lane: the target's end at `lab`, the source's at `hpc`. Both hold a whole frame
/// in their sockets, so that one thread can drive them.
fn open(
    (lab, hpc): &(Site, Site),
    framing: Framing,
    suite: CipherSuite,
) -> (LaneStream, LaneStream) {
    let options = SocketOptions {
        send_buffer_bytes: Some(2 << 20),
        receive_buffer_bytes: Some(2 << 20),
        ..SocketOptions::default()
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    options.apply(&listener).expect("buffers");
    let address = listener.local_addr().expect("an address");
    let hello = Hello {
        protocol: penstock_proto::version::VersionRange::FIRST,
        lane: LaneId(0),
        transfer: TransferId([5; 16]),
        framing,
        digest: DigestKind::Blake3,
        capability: b"capability".to_vec(),
    };
    thread::scope(|scope| {
        let source = scope.spawn(|| {
            let config = server_config(Purpose::Lane, &hpc.identity, &hpc.trust, &[suite]);
            let (tcp, _) = listener.accept().expect("a connection");
            let pending = accept_blocking(tcp, &config.expect("TLS"), DEADLINE, &options);
            pending.and_then(|pending| pending.welcome(1, &peer("hpc"))).expect("a lane")
        });
        let config = client_config(Purpose::Lane, &lab.identity, &lab.trust, None, &[suite]);
        let (config, site) = (config.expect("TLS"), name("hpc"));
        let bind = LocalBind::default();
        let lane = connect(address, &bind, &config, &site, &hello, DEADLINE, &options);
        (lane.expect("a lane").0, source.join().expect("no panic"))
    })
}

fn frames(criterion: &mut Criterion) {
    let sites = sites();
    let lanes = [
        ("clear", Framing::Clear, CipherSuite::Aes128Gcm),
        ("tls aes-128-gcm", Framing::Tls, CipherSuite::Aes128Gcm),
        ("tls aes-256-gcm", Framing::Tls, CipherSuite::Aes256Gcm),
        ("tls chacha20-poly1305", Framing::Tls, CipherSuite::Chacha20Poly1305),
    ];
    let mut group = criterion.benchmark_group("lane");
    for (name, framing, suite) in lanes {
        let (mut target, mut source) = open(&sites, framing, suite);
        let mut body = Vec::new();
        for bytes in [0, 4 << 10, 512 << 10] {
            let payload = vec![0x5a; bytes];
            let mut received = vec![0; bytes];
            let header = Header::of(FrameKind::Data, 1, &[0; 60]);
            let header = Header { payload_bytes: bytes as u32, ..header };
            group.throughput(Throughput::Bytes(bytes.max(76) as u64));
            group.bench_function(BenchmarkId::new(name, bytes), |bench| {
                bench.iter(|| {
                    source.send(&header, &[0; 60], &[&payload]).expect("sent");
                    target.recv_header(&mut body).expect("received");
                    target.recv_payload(&mut received).expect("received");
                });
            });
        }
    }
    group.finish();
}

/// Measures the opening of a whole lane: certificates, key exchange, hello and welcome, at both
/// ends.
fn handshakes(criterion: &mut Criterion) {
    let sites = sites();
    criterion.bench_function("lane/open", |bench| {
        bench.iter(|| open(&sites, Framing::Tls, CipherSuite::Aes128Gcm));
    });
}
