//! A TCP proxy that delays, limits, damages, cuts and drops traffic.
//!
//! Each connection has a reader and a writer per direction with a queue between them, so that a
//! delay does not limit the bytes on the way. The links of all connections of a proxy share one
//! rate per direction, as behind one bottleneck.

mod stream;

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use stream::{FlipPlan, Part};
use stream::{Flipper, Framer, Searcher};

use crate::scratch::Scratch;
use crate::site::Site;

const CHUNK_BYTES: usize = 64 * 1024;
/// Chunks on the way per direction of a connection.
const CHUNKS_MAX: usize = 4096;
/// Most that waits in front of a bottleneck, as time.
const BACKLOG: Duration = Duration::from_millis(30);
/// The lanes' protocol in the ClientHello.
const ALPN_LANE: &[u8] = b"penstock-lane/1";
const TICK: Duration = Duration::from_millis(5);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A chunk that came to a link.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// The moment.
    pub at: Instant,
    /// Its length.
    pub bytes: u64,
    /// Time in which the bottleneck had nothing to do before.
    pub idle: Duration,
}

#[derive(Debug)]
struct LinkState {
    delay: Duration,
    bytes_per_s: Option<f64>,
    free_at: Instant,
    arrivals: Vec<Arrival>,
}

/// A direction.
#[derive(Debug)]
struct Link(Mutex<LinkState>);

impl Link {
    fn new() -> Self {
        let (delay, free_at) = (Duration::ZERO, Instant::now());
        Self(Mutex::new(LinkState { delay, bytes_per_s: None, free_at, arrivals: Vec::new() }))
    }

    /// Waits while more than [`BACKLOG`] is in front of the bottleneck.
    fn wait_for_room(&self) {
        loop {
            let ahead = lock(&self.0).free_at.saturating_duration_since(Instant::now());
            if ahead <= BACKLOG {
                return;
            }
            thread::sleep(ahead - BACKLOG);
        }
    }

    /// Returns when bytes that come now reach the other end.
    fn pass(&self, bytes: usize) -> Instant {
        let mut state = lock(&self.0);
        let now = Instant::now();
        let idle = now.saturating_duration_since(state.free_at);
        state.arrivals.push(Arrival { at: now, bytes: bytes as u64, idle });
        let takes = state.bytes_per_s.map_or(0.0, |rate| bytes as f64 / rate);
        state.free_at = state.free_at.max(now) + Duration::from_secs_f64(takes);
        state.free_at + state.delay
    }
}

/// Counts of the traffic that has passed.
#[derive(Debug, Default)]
pub struct Counts {
    /// Bytes from the dialled side on lanes.
    pub lane_bytes: AtomicU64,
    /// Lanes that were dialled.
    pub lanes: AtomicU64,
    /// Bits that were flipped.
    pub flips: AtomicU64,
    /// Finds of the pattern on lanes.
    pub found_on_lanes: AtomicU64,
    /// Finds of the pattern elsewhere.
    pub found_elsewhere: AtomicU64,
}

struct Conn {
    client: TcpStream,
    server: TcpStream,
    lane: AtomicBool,
    holed: AtomicBool,
    number: u64,
}

impl Conn {
    /// Ends it with a reset at both sides: connect(2) with AF_UNSPEC disconnects.
    fn reset(&self) {
        for socket in [&self.client, &self.server] {
            let _ = rustix::net::connect_unspec(socket);
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

struct Inner {
    address: SocketAddr,
    upstream: Mutex<Option<SocketAddr>>,
    refusing: AtomicBool,
    stop: AtomicBool,
    up: Link,
    down: Link,
    conns: Mutex<Vec<Arc<Conn>>>,
    dialled: AtomicU64,
    flips: Mutex<Option<(FlipPlan, u64)>>,
    pattern: Mutex<Vec<u8>>,
    counts: Counts,
}

/// A proxy in front of one site.
pub struct Proxy(Arc<Inner>);

impl Proxy {
    /// Starts to take connections; they are held until the proxy knows where to.
    pub fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let inner = Arc::new(Inner {
            address: listener.local_addr().unwrap(),
            upstream: Mutex::new(None),
            refusing: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            up: Link::new(),
            down: Link::new(),
            conns: Mutex::default(),
            dialled: AtomicU64::new(0),
            flips: Mutex::new(None),
            pattern: Mutex::default(),
            counts: Counts::default(),
        });
        let acceptor = Arc::clone(&inner);
        thread::spawn(move || acceptor.accept(Some(listener)));
        Self(inner)
    }

    /// Returns where it listens.
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Sets where connections lead.
    pub fn set_upstream(&self, address: SocketAddr) {
        *lock(&self.0.upstream) = Some(address);
    }

    /// Returns where connections lead.
    pub fn upstream(&self) -> SocketAddr {
        lock(&self.0.upstream).unwrap()
    }

    /// Sets the delay of each direction, for all that passes from now on.
    pub fn set_delay(&self, delay: Duration) {
        lock(&self.0.up.0).delay = delay;
        lock(&self.0.down.0).delay = delay;
    }

    /// Sets the bits per second of each direction; `None` is no limit.
    pub fn set_rate(&self, bits_per_s: Option<f64>) {
        for link in [&self.0.up, &self.0.down] {
            let mut state = lock(&link.0);
            state.bytes_per_s = bits_per_s.map(|rate| rate / 8.0);
            // Waits that were computed at the old rate are dropped.
            state.free_at = Instant::now();
        }
    }

    /// Damages the traffic of lanes from now on.
    pub fn set_flips(&self, plan: Option<FlipPlan>, seed: u64) {
        *lock(&self.0.flips) = plan.map(|plan| (plan, seed));
    }

    /// Counts how often `pattern` passes on new connections.
    pub fn search(&self, pattern: &[u8]) {
        *lock(&self.0.pattern) = pattern.to_vec();
    }

    /// Resets every connection and refuses new ones.
    pub fn cut(&self) {
        self.0.refusing.store(true, Ordering::SeqCst);
        self.reset();
    }

    /// Resets every connection; new ones are welcome.
    pub fn reset(&self) {
        for conn in std::mem::take(&mut *lock(&self.0.conns)) {
            conn.reset();
        }
    }

    /// Drops the traffic on the present connections, without an error. New ones live.
    pub fn swallow(&self) {
        lock(&self.0.conns).iter().for_each(|conn| conn.holed.store(true, Ordering::SeqCst));
    }

    /// Takes connections again.
    pub fn heal(&self) {
        self.0.refusing.store(false, Ordering::SeqCst);
    }

    /// Returns the counts of the traffic that has passed.
    pub fn counts(&self) -> &Counts {
        &self.0.counts
    }

    /// Returns the bytes from the dialled side on lanes.
    pub fn lane_bytes(&self) -> u64 {
        self.0.counts.lane_bytes.load(Ordering::SeqCst)
    }

    /// Returns how many bits were flipped.
    pub fn flips(&self) -> u64 {
        self.0.counts.flips.load(Ordering::SeqCst)
    }

    /// Returns the arrivals from the dialled side since the last call.
    pub fn take_arrivals(&self) -> Vec<Arrival> {
        std::mem::take(&mut lock(&self.0.down.0).arrivals)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::SeqCst);
        self.reset();
    }
}

impl Inner {
    fn accept(self: Arc<Self>, mut listener: Option<TcpListener>) {
        while !self.stop.load(Ordering::SeqCst) {
            thread::sleep(TICK);
            if self.refusing.load(Ordering::SeqCst) {
                listener = None;
                continue;
            }
            let Some(open) = &listener else {
                listener = TcpListener::bind(self.address).ok();
                continue;
            };
            open.set_nonblocking(true).unwrap();
            while let Ok((client, _)) = open.accept() {
                client.set_nonblocking(false).unwrap();
                let Some(upstream) = *lock(&self.upstream) else { continue };
                if let Ok(server) = TcpStream::connect(upstream) {
                    self.begin(client, server);
                }
            }
        }
    }

    fn begin(self: &Arc<Self>, client: TcpStream, server: TcpStream) {
        client.set_nodelay(true).unwrap();
        server.set_nodelay(true).unwrap();
        let number = self.dialled.fetch_add(1, Ordering::SeqCst);
        let holed = AtomicBool::new(false);
        let conn = Conn { client, server, lane: AtomicBool::new(false), holed, number };
        let conn = Arc::new(conn);
        lock(&self.conns).push(Arc::clone(&conn));
        for down in [false, true] {
            let (sender, receiver) = sync_channel(CHUNKS_MAX);
            let (inner, from) = (Arc::clone(self), Arc::clone(&conn));
            thread::spawn(move || inner.read(&from, down, &sender));
            let to = Arc::clone(&conn);
            thread::spawn(move || write(&to, down, &receiver));
        }
    }

    fn read(&self, conn: &Conn, down: bool, queue: &SyncSender<(Instant, Vec<u8>)>) {
        let mut from = if down { &conn.server } else { &conn.client };
        let link = if down { &self.down } else { &self.up };
        let mut look = Look::default();
        loop {
            link.wait_for_room();
            let mut chunk = vec![0; CHUNK_BYTES];
            let Ok(count) = from.read(&mut chunk) else { return conn.reset() };
            chunk.truncate(count);
            while conn.holed.load(Ordering::SeqCst) {
                if self.stop.load(Ordering::SeqCst) {
                    return;
                }
                thread::sleep(TICK);
            }
            self.look(conn, down, &mut look, &mut chunk);
            if queue.send((link.pass(count), chunk)).is_err() || count == 0 {
                return;
            }
        }
    }

    fn look(&self, conn: &Conn, down: bool, look: &mut Look, chunk: &mut [u8]) {
        let counts = &self.counts;
        if !down && look.passed < 4096 && !conn.lane.load(Ordering::SeqCst) {
            look.passed += chunk.len();
            if look.hello.feed(chunk, ALPN_LANE) > 0 {
                conn.lane.store(true, Ordering::SeqCst);
                counts.lanes.fetch_add(1, Ordering::SeqCst);
            }
        }
        let lane = conn.lane.load(Ordering::SeqCst);
        if down && lane {
            counts.lane_bytes.fetch_add(chunk.len() as u64, Ordering::SeqCst);
        }
        if down {
            let plan = lock(&self.flips).filter(|(plan, _)| plan.lanes == lane);
            if look.flipper.is_none() {
                look.flipper = plan.map(|(plan, seed)| Flipper::new(plan, seed ^ conn.number));
            }
            let flipper = &mut look.flipper;
            look.framer.feed(chunk, |part, bytes| {
                if let (Some(flipper), Some((plan, _))) = (flipper.as_mut(), plan) {
                    flipper.run(part, bytes, || self.permit(plan.most));
                }
            });
        }
        let pattern = lock(&self.pattern).clone();
        if !pattern.is_empty() {
            let found = look.searcher.feed(chunk, &pattern);
            let counter = if lane { &counts.found_on_lanes } else { &counts.found_elsewhere };
            counter.fetch_add(found, Ordering::SeqCst);
        }
    }

    fn permit(&self, most: u64) -> bool {
        let more = |flips: u64| (flips < most).then_some(flips + 1);
        self.counts.flips.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }
}

#[derive(Default)]
struct Look {
    passed: usize,
    hello: Searcher,
    framer: Framer,
    flipper: Option<Flipper>,
    searcher: Searcher,
}

fn write(conn: &Conn, down: bool, queue: &Receiver<(Instant, Vec<u8>)>) {
    let mut to = if down { &conn.client } else { &conn.server };
    while let Ok((at, chunk)) = queue.recv() {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        if conn.holed.load(Ordering::SeqCst) {
            continue;
        }
        if chunk.is_empty() {
            let _ = to.shutdown(Shutdown::Write);
            return;
        }
        if to.write_all(&chunk).is_err() {
            return conn.reset();
        }
    }
}

/// Returns a plan for lanes under TLS: anywhere behind the handshake.
pub fn flips_in_records(every: u64, most: u64) -> FlipPlan {
    FlipPlan { lanes: true, part: Part::Record, spared: 32 * 1024, every, most }
}

/// Returns a plan for clear lanes.
pub fn flips_in(part: Part, every: u64, most: u64) -> FlipPlan {
    FlipPlan { lanes: true, part, spared: 0, every, most }
}

/// Two sites, `a` and `b`, paired through the proxies that each of them advertises.
pub struct ProxiedPair {
    /// The first site.
    pub a: Site,
    /// The second site.
    pub b: Site,
    /// The proxy in front of `a`.
    pub proxy_a: Proxy,
    /// The proxy in front of `b`.
    pub proxy_b: Proxy,
    /// The directory of all.
    pub root: Scratch,
}

impl ProxiedPair {
    /// Makes and starts all.
    pub fn start() -> Self {
        let root = Scratch::in_memory();
        let (proxy_a, proxy_b) = (Proxy::start(), Proxy::start());
        let mut a = Site::init(root.path(), "a", Some(proxy_a.address()));
        let mut b = Site::init(root.path(), "b", Some(proxy_b.address()));
        proxy_a.set_upstream(a.start());
        proxy_b.set_upstream(b.start());
        a.pair(&b);
        Self { a, b, proxy_a, proxy_b, root }
    }

    /// Returns both proxies.
    pub fn proxies(&self) -> [&Proxy; 2] {
        [&self.proxy_a, &self.proxy_b]
    }
}
