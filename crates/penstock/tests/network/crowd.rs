//! A crowd of connections without credentials, which is opened anew as fast as it is displaced.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use penstock_net::trust::{pairing_client_config, peer_server_name, preferred_suites};
use penstock_net::{LocalBind, SocketOptions};
use penstock_testkit::Site;
use rustls::{ClientConfig, ClientConnection};

/// A TLS record that promises a ClientHello of 508 bytes, and its first bytes.
const HELLO_BEGINS: [u8; 9] = [22, 3, 1, 2, 0, 1, 0, 1, 252];
/// A crowd ends by itself after this long.
const LIFE_MAX: Duration = Duration::from_secs(300);

/// How many connections of each kind there are to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kinds {
    /// They have sent the beginning of a ClientHello.
    pub(super) half_open: usize,
    /// They send a byte of one every 200 ms.
    pub(super) trickling: usize,
    /// Their handshake is done, without a certificate, and they ask nothing.
    pub(super) idle: usize,
}

/// Connections that are kept up until it is dropped.
pub(super) struct Crowd {
    stop: Arc<AtomicBool>,
    opened: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

/// One member of the crowd: the socket, and the bytes that it has trickled.
struct Member(Option<TcpStream>, usize);

impl Crowd {
    /// Connects from one address to a site, and returns when all have been opened once.
    pub(super) fn start(from: IpAddr, to: SocketAddr, site: &Site, kinds: Kinds) -> Self {
        penstock_sys::raise_file_limit();
        let fingerprint = site.authority().fingerprint();
        let tls = pairing_client_config(fingerprint, &preferred_suites()).unwrap();
        let mut crowd = Self { stop: Arc::default(), opened: Arc::default(), threads: Vec::new() };
        let (all, ready) = std::sync::mpsc::channel();
        let runs = [(kinds.half_open, 0), (kinds.trickling, 1), (kinds.idle, 2)];
        let threads = runs.map(|(count, kind)| {
            let (stop, opened) = (Arc::clone(&crowd.stop), Arc::clone(&crowd.opened));
            let (tls, all) = (Arc::clone(&tls), all.clone());
            std::thread::spawn(move || {
                let mut members: Vec<Member> = (0..count).map(|_| Member(None, 0)).collect();
                let began = Instant::now();
                while !stop.load(Ordering::Relaxed) && began.elapsed() < LIFE_MAX {
                    for member in &mut members {
                        member.tend(kind, (from, to), &tls, &opened);
                    }
                    let _ = all.send(());
                    std::thread::sleep(Duration::from_millis(200));
                }
            })
        });
        drop(all);
        let mut rounds = 0;
        while rounds < 2 * threads.len() && ready.recv().is_ok() {
            rounds += 1;
        }
        crowd.threads = threads.into();
        crowd
    }

    /// How many connections were opened, those that replace others among them.
    pub(super) fn opened(&self) -> u64 {
        self.opened.load(Ordering::Relaxed)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Member {
    fn tend(
        &mut self,
        kind: usize,
        (from, to): (IpAddr, SocketAddr),
        tls: &Arc<ClientConfig>,
        opened: &AtomicU64,
    ) {
        if self.is_gone() {
            self.0 = open(kind, from, to, tls);
            self.1 = 0;
            opened.fetch_add(1, Ordering::Relaxed);
        } else if kind == 1
            && let Some(tcp) = &mut self.0
        {
            let byte = HELLO_BEGINS.get(self.1).copied().unwrap_or(0);
            self.1 += 1;
            let _ = tcp.write(&[byte]);
        }
    }

    fn is_gone(&mut self) -> bool {
        let Some(tcp) = &mut self.0 else { return true };
        !matches!(tcp.read(&mut [0; 512]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }
}

fn open(kind: usize, from: IpAddr, to: SocketAddr, tls: &Arc<ClientConfig>) -> Option<TcpStream> {
    let bind = LocalBind { address: Some(from), device: None };
    let limit = Duration::from_millis(500);
    let mut tcp = penstock_net::dial(to, &bind, limit, &SocketOptions::default()).ok()?.into_tcp();
    if kind == 0 {
        tcp.write_all(&HELLO_BEGINS).ok()?;
    }
    if kind == 2 {
        tcp.set_read_timeout(Some(limit)).ok()?;
        let mut connection = ClientConnection::new(Arc::clone(tls), peer_server_name()).ok()?;
        while connection.is_handshaking() {
            connection.complete_io(&mut tcp).ok()?;
        }
    }
    tcp.set_nonblocking(true).ok()?;
    Some(tcp)
}
