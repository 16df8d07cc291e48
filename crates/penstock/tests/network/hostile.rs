//! A paired site that takes all it can: its requests, its lanes, and its way to be a source.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use penstock_net::trust::{PeerCertificate, Purpose, TrustStore, preferred_suites, server_config};
use penstock_net::{ConnectError, LaneStream, LocalBind, SocketOptions};
use penstock_proto::digest::DigestKind;
use penstock_proto::frame::{Fetch, FrameKind, Framing, Header, Hello};
use penstock_proto::id::{LaneId, TransferId};
use penstock_proto::manifest::{Page, page_digest};
use penstock_proto::slicing::Slicing;
use penstock_testkit::{PATIENCE, Site};
use reqwest::{Body, Client, RequestBuilder, Response};
use rustls::server::Acceptor;
use serde_json::{Value, json};

use crate::trust::{capability, name, now};

/// Site `b`, or whichever has these keys, as the enemy of `a`.
pub(super) struct Hostile<'a> {
    site: &'a Site,
    a: &'a Site,
    address: SocketAddr,
}

impl<'a> Hostile<'a> {
    pub(super) fn new(site: &'a Site, a: &'a Site, address: SocketAddr) -> Self {
        penstock_sys::raise_file_limit();
        Self { site, a, address }
    }

    /// A client with a connection of its own.
    pub(super) fn client(&self) -> Client {
        let tls = self.site.tls_towards(self.a, Purpose::SiteApi);
        let client = Client::builder().tls_backend_preconfigured((*tls).clone()).no_proxy();
        client.build().unwrap()
    }

    /// A client whose connection is open: requests at a time would open more.
    pub(super) async fn connected(&self) -> Client {
        let client = self.client();
        let reply = self.get(&client, "/stores/data/peers").send().await.unwrap();
        assert_eq!(reply.status(), 200);
        client
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("https://{}/site/v1{path}", self.address)
    }

    pub(super) fn post(&self, client: &Client, path: &str) -> RequestBuilder {
        let request = client.post(self.url(path)).header("content-type", "application/json");
        request.header("penstock-site-version", "1")
    }

    pub(super) fn get(&self, client: &Client, path: &str) -> RequestBuilder {
        client.get(self.url(path)).header("penstock-site-version", "1")
    }

    /// Opens a scan of a data set that looks up so many names per second.
    pub(super) async fn open_scan(
        &self,
        client: &Client,
        id: TransferId,
        root: &str,
        lookups: Option<u32>,
    ) -> Response {
        let slicing = Slicing { stride_bytes: 1 << 20, ..Slicing::default() };
        let open = json!({
            "transfer": id.to_string(),
            "store": "data",
            "root": root,
            "slicing": {
                "version": slicing.version,
                "stride_bytes": slicing.stride_bytes,
                "extent_bytes": slicing.extent_bytes,
                "pack_bytes": slicing.pack_bytes,
                "pack_files": slicing.pack_files,
            },
            "metadata_ops_per_s": lookups,
        });
        self.post(client, "/scans").body(open.to_string()).send().await.unwrap()
    }

    /// A page of a scan, encoded; waits for it.
    pub(super) async fn page(&self, client: &Client, id: TransferId, number: u32) -> Vec<u8> {
        let path = format!("/scans/{id}/pages/{number}?wait_ms=20000");
        let reply = self.get(client, &path).send().await.unwrap();
        assert_eq!(reply.status(), 200);
        reply.bytes().await.unwrap().to_vec()
    }

    /// A lane for a transfer whose scan is open.
    pub(super) fn lane(&self, id: TransferId, lane: u32) -> Result<LaneStream, ConnectError> {
        let key = self.a.authority();
        let hello = Hello {
            protocol: penstock_proto::version::VersionRange::FIRST,
            lane: LaneId(lane),
            transfer: id,
            framing: Framing::Tls,
            digest: DigestKind::Blake3,
            capability: capability(key.capability_key(), id, self.site.name, now() + 3600),
        };
        let config = self.site.tls_towards(self.a, Purpose::Lane);
        let (bind, options) = (LocalBind::default(), SocketOptions::default());
        penstock_net::connect(self.address, &bind, &config, &name("a"), &hello, PATIENCE, &options)
            .map(|(lane, _)| lane)
    }
}

/// Asks over a lane for all that one page has of its largest file, and takes nothing of it.
pub(super) fn ask_for_largest(lane: &mut LaneStream, request: u32, encoded: &[u8]) {
    let page = Page::decode(encoded).unwrap();
    let largest = page.entries().iter().enumerate().max_by_key(|(_, entry)| entry.size).unwrap();
    let mut digest = [0; 16];
    digest.copy_from_slice(&page_digest(encoded).0[..16]);
    let first_entry = largest.0 as u32;
    let fetch = Fetch {
        page: 0,
        page_digest: digest,
        first_entry,
        end_entry: first_entry + 1,
        generation: 0,
        offset: 0,
        length: largest.1.size,
    };
    let body = fetch.encode();
    lane.send(&Header::of(FrameKind::Fetch, request, &body), &body, &[]).unwrap();
}

/// A body that sends so many bytes of white space and then nothing more, for ever.
pub(super) fn endless(bytes: usize) -> Body {
    use futures_util::{StreamExt as _, stream};
    let part = move |sent: usize| async move {
        let length = (bytes - sent).min(64 << 10);
        (length > 0).then(|| (Ok::<_, io::Error>(vec![b' '; length]), sent + length))
    };
    Body::wrap_stream(stream::unfold(0, part).chain(stream::pending()))
}

/// A source with the keys of `a` whose lanes break the protocol; what is no lane is answered by
/// the daemon of `a`.
pub(super) struct BadSource {
    pub(super) address: SocketAddr,
    pub(super) lanes: Arc<AtomicUsize>,
}

impl BadSource {
    /// Listens from now on; `told` says where the daemon of `a` and its keys are, and whose lanes
    /// come, once that is known.
    pub(super) fn start(told: Arc<OnceLock<Told>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, lanes) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
        let counted = Arc::clone(&lanes);
        std::thread::spawn(move || {
            for tcp in listener.incoming().flatten() {
                let (told, counted) = (Arc::clone(&told), Arc::clone(&counted));
                std::thread::spawn(move || {
                    let Some(told) = told.get() else { return };
                    if is_lane(&tcp) {
                        counted.fetch_add(1, Ordering::SeqCst);
                        let _ = break_lane(tcp, told);
                    } else {
                        pass(tcp, told.upstream);
                    }
                });
            }
        });
        Self { address, lanes }
    }
}

/// What a bad source is told.
pub(super) struct Told {
    /// Where the daemon is whose part it plays.
    pub(super) upstream: SocketAddr,
    /// Directory of its keys.
    pub(super) keys: PathBuf,
    /// Certificate of the authority of the site that dials.
    pub(super) other: Vec<u8>,
}

/// Whether the ClientHello asks for a lane. Waits for all of it.
fn is_lane(tcp: &TcpStream) -> bool {
    let mut hello = [0; 4096];
    tcp.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    for _ in 0..100 {
        let Ok(length @ 1..) = tcp.peek(&mut hello) else { return false };
        let said = &hello[..length];
        if said.windows(14).any(|part| part == b"penstock-lane/") {
            return true;
        }
        if said.windows(8).any(|part| part == b"http/1.1") {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

fn pass(tcp: TcpStream, to: SocketAddr) {
    let Ok(other) = TcpStream::connect(to) else { return };
    tcp.set_read_timeout(None).unwrap();
    let (mut from, mut into) = (tcp.try_clone().unwrap(), other.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = io::copy(&mut from, &mut into);
        let _ = into.shutdown(std::net::Shutdown::Write);
    });
    let (mut from, mut into) = (other, tcp);
    let _ = io::copy(&mut from, &mut into);
    let _ = into.shutdown(std::net::Shutdown::Both);
}

/// Welcomes a lane and answers its first request with a frame that cannot be read.
fn break_lane(mut tcp: TcpStream, told: &Told) -> Result<(), Box<dyn std::error::Error>> {
    let identity = PeerCertificate::load(&told.keys)?;
    let trust = Arc::new(TrustStore::new(identity.authority().clone())?);
    trust.pin(told.other.clone().into())?;
    let suites = preferred_suites();
    let config = server_config(Purpose::Lane, &identity, &trust, &suites)?;
    let mut acceptor = Acceptor::default();
    let accepted = loop {
        acceptor.read_tls(&mut tcp)?;
        if let Some(accepted) = acceptor.accept().map_err(|(error, _)| error)? {
            break accepted;
        }
    };
    let mut connection = accepted.into_connection(config).map_err(|(error, _)| error)?;
    while connection.is_handshaking() {
        connection.complete_io(&mut tcp)?;
    }
    let options = SocketOptions::default();
    let pending = penstock_net::accept(tcp, connection, PATIENCE, &options)?;
    let mut lane = pending.welcome(1, identity.peer())?;
    let mut body = Vec::new();
    let asked = lane.recv_header(&mut body)?;
    let garbage = [0xff; 64];
    lane.send(&Header::of(FrameKind::Data, asked.request, &garbage), &garbage, &[])?;
    // Until the other end has had enough.
    let _ = lane.recv_header(&mut body);
    Ok(())
}

/// The problem in a reply.
pub(super) async fn problem(reply: Response) -> (u16, Value) {
    let status = reply.status().as_u16();
    (status, serde_json::from_slice(&reply.bytes().await.unwrap()).unwrap_or_default())
}
