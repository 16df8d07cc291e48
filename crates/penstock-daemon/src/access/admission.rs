//! Admission at the data port: limits to connections without credentials, counted by the address of
//! the client.
//!
//! A connection passes through stages: it is silent, it shakes hands, and without a certificate it
//! may ask to pair. Each stage has places, some for each source: an IPv4 address, or an IPv6 prefix
//! of 64 bits, which one host has for itself. A new connection always gets a place. If all places
//! are taken, the oldest connection of the same source is closed for it, or of the source with the
//! most. A crowd from one source thus displaces itself. Sources of paired sites have places apart,
//! which strangers cannot take: their addresses, and those from which a valid certificate was
//! shown.
//!
//! Handshakes cost a processor most before a certificate is known. Their rate is limited by source,
//! and for sources from which a paired site has shown its certificate by that site as well. A
//! handshake beyond the limit waits, and is refused where it would wait for more than 3 s. Other
//! peers of the own site have no such limit.
//!
//! The log gets a line for the first refusal of a source in a minute, and a count of the rest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use penstock_engine::token_bucket::{TokenBuckets, TokenLimit};
use penstock_proto::id::Name;
use penstock_proto::units::Instant;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{oneshot, watch};

/// The interval at which counts of refusals are reported.
const REPORT: Duration = Duration::from_secs(60);
/// Sources and reasons that have counts of their own within that time; further ones are counted
/// together.
const REASONS_MAX: usize = 256;
/// Sources with a valid certificate that are remembered.
const SEEN_MAX: usize = 4096;

/// Handshakes of one source, and of one paired site. A large site opens a thousand lanes at a time,
/// and again when a network is back.
const OF_SOURCE: TokenLimit = TokenLimit { per_second: 100, burst: 2048, patience: HANDSHAKE_WAIT };
const OF_SITE: TokenLimit = TokenLimit { per_second: 200, burst: 4096, patience: HANDSHAKE_WAIT };
/// Longest wait of a handshake for its turn: less than a client waits for its answer.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(3);

/// A source of connections: one host, as far as an address shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// The first 64 bits.
    V6(u64),
}

impl Source {
    /// Returns the source of an address.
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(address) => address.fmt(f),
            Self::V6(prefix) => {
                write!(f, "{}/64", Ipv6Addr::from_bits(u128::from(*prefix) << 64))
            }
        }
    }
}

/// The progress of a connection without credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The client has not sent a whole ClientHello.
    Silent,
    /// Its handshake is under way.
    Handshake,
    /// The client has shown no certificate, and may ask to pair.
    Anonymous,
}

/// The places of one stage: for strangers and for sources of paired sites, in all and for one.
struct Places {
    strangers: (usize, usize),
    known: (usize, usize),
}

impl Stage {
    const ALL: [Self; 3] = [Self::Silent, Self::Handshake, Self::Anonymous];

    fn as_str(self) -> &'static str {
        match self {
            Self::Silent => "silent",
            Self::Handshake => "handshake",
            Self::Anonymous => "anonymous",
        }
    }

    fn places(self) -> Places {
        match self {
            // A large site opens a thousand lanes at a time.
            Self::Silent => Places { strangers: (1024, 256), known: (2048, 1024) },
            Self::Handshake => Places { strangers: (256, 64), known: (2048, 1024) },
            Self::Anonymous => Places { strangers: (64, 16), known: (64, 16) },
        }
    }
}

/// The places of one stage for one kind of source.
struct Room {
    most: usize,
    most_of_one: usize,
    next: u64,
    all: BTreeMap<u64, (Source, oneshot::Sender<()>)>,
    by_source: HashMap<Source, BTreeSet<u64>>,
}

impl Room {
    fn new((most, most_of_one): (usize, usize)) -> Self {
        let (all, by_source) = (BTreeMap::new(), HashMap::new());
        Self { most, most_of_one, next: 0, all, by_source }
    }

    /// Takes a place. If none is left, ends the oldest connection of a source.
    fn enter(&mut self, source: Source) -> (u64, oneshot::Receiver<()>) {
        let own = self.by_source.get(&source).map_or(0, BTreeSet::len);
        if own >= self.most_of_one {
            self.end_oldest(source);
        } else if self.all.len() >= self.most {
            let crowd = |(_, places): &(&Source, &BTreeSet<u64>)| {
                (places.len(), Reverse(places.first().copied()))
            };
            if let Some(source) = self.by_source.iter().max_by_key(crowd).map(|(source, _)| *source)
            {
                self.end_oldest(source);
            }
        }
        let (number, (end, ended)) = (self.next, oneshot::channel());
        self.next += 1;
        self.all.insert(number, (source, end));
        self.by_source.entry(source).or_default().insert(number);
        (number, ended)
    }

    fn end_oldest(&mut self, source: Source) {
        let oldest = self.by_source.get(&source).and_then(BTreeSet::first).copied();
        // Its owner learns that as the sender is dropped.
        oldest.into_iter().for_each(|number| self.leave(number));
    }

    fn leave(&mut self, number: u64) {
        let Some((source, _)) = self.all.remove(&number) else { return };
        if let Some(places) = self.by_source.get_mut(&source) {
            places.remove(&number);
            if places.is_empty() {
                self.by_source.remove(&source);
            }
        }
    }
}

/// The sources that belong to paired sites.
#[derive(Default)]
struct Known {
    told: HashSet<Source>,
    next: u64,
    /// Sources that have shown a valid certificate, with its site and a number that grows with
    /// time.
    seen: HashMap<Source, (u64, Name)>,
}

/// Counts of refusals within the present minute.
#[derive(Default)]
struct Refused {
    counts: HashMap<(Source, RefusedKind), u64>,
    /// Refusals of further sources.
    others: u64,
}

/// The kind of an attempt that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RefusedKind {
    /// A connection of another site or peer.
    Connection,
    /// A connection to the HTTPS API.
    Https,
    /// A lane.
    Lane,
    /// A token of a user.
    Token,
    /// A name and password.
    Login,
    /// A pairing.
    Pairing,
    /// A host that wants to join the site.
    Joining,
}

impl RefusedKind {
    /// All kinds, in the order in which figures show them.
    const ALL: [Self; 7] = [
        Self::Connection,
        Self::Https,
        Self::Lane,
        Self::Token,
        Self::Login,
        Self::Pairing,
        Self::Joining,
    ];

    /// Returns the label of its figure.
    fn label(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Https => "https",
            Self::Lane => "lane",
            Self::Token => "token",
            Self::Login => "login",
            Self::Pairing => "pairing",
            Self::Joining => "joining",
        }
    }

    /// Returns the words of the log.
    fn words(self) -> &'static str {
        match self {
            Self::Connection => "connection refused",
            Self::Https => "HTTPS refused",
            Self::Lane => "lane refused",
            Self::Token => "token refused",
            Self::Login => "log-in refused",
            Self::Pairing => "not paired",
            Self::Joining => "not joined",
        }
    }
}

/// The rates of handshakes.
struct Handshakes {
    of_source: TokenBuckets<Source>,
    of_site: TokenBuckets<Name>,
}

/// Counts the use by connections without credentials.
pub(crate) struct Admission {
    own: Name,
    handshakes: Mutex<Handshakes>,
    /// By stage, of strangers and of known sources.
    rooms: [[Mutex<Room>; 2]; 3],
    known: Mutex<Known>,
    refused: Mutex<Refused>,
    /// Refusals since the process began, in the order of [`RefusedKind::ALL`].
    refusals: [AtomicU64; RefusedKind::ALL.len()],
    /// Time that handshakes had to wait for their turn, since the process began.
    waited_ms: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Admission {
    /// Creates the admission of a peer of the site `own`.
    pub(crate) fn new(own: Name) -> Self {
        let rooms = Stage::ALL.map(|stage| {
            let places = stage.places();
            [places.strangers, places.known].map(|places| Mutex::new(Room::new(places)))
        });
        let handshakes = Handshakes {
            of_source: TokenBuckets::new(OF_SOURCE, SEEN_MAX),
            of_site: TokenBuckets::new(OF_SITE, SEEN_MAX),
        };
        let (known, refused, refusals, waited_ms) = Default::default();
        let handshakes = Mutex::new(handshakes);
        Self { own, handshakes, rooms, known, refused, refusals, waited_ms }
    }

    /// Takes the turn of a handshake. Returns the time until it; `None` if that is too far away.
    pub(crate) fn take_turn(&self, from: IpAddr) -> Option<Duration> {
        let turn = self.take_turn_at(penstock_sys::boottime_now(), from)?;
        self.waited_ms.fetch_add(turn.as_millis() as u64, Ordering::Relaxed);
        Some(turn)
    }

    fn take_turn_at(&self, now: Instant, from: IpAddr) -> Option<Duration> {
        let source = Source::of(from);
        let site = lock(&self.known).seen.get(&source).map(|(_, site)| site.clone());
        if site.as_ref() == Some(&self.own) {
            return Some(Duration::ZERO);
        }
        let mut handshakes = lock(&self.handshakes);
        let of_source = handshakes.of_source.take(now, source)?;
        match site {
            Some(site) => Some(of_source.max(handshakes.of_site.take(now, site)?)),
            None => Some(of_source),
        }
    }

    /// Takes a place for a connection. There always is one; see [`Place::lost`].
    pub(crate) fn enter(self: &Arc<Self>, stage: Stage, from: IpAddr) -> Place {
        let source = Source::of(from);
        let known = {
            let known = lock(&self.known);
            known.told.contains(&source) || known.seen.contains_key(&source)
        };
        let (number, ended) = lock(self.room(stage, known)).enter(source);
        Place { admission: Arc::clone(self), stage, known, number, ended }
    }

    fn room(&self, stage: Stage, known: bool) -> &Mutex<Room> {
        &self.rooms[stage as usize][usize::from(known)]
    }

    /// Sets the addresses that paired sites, and other peers, have sent.
    pub(crate) fn expect(&self, told: impl Iterator<Item = IpAddr>) {
        lock(&self.known).told = told.map(Source::of).collect();
    }

    /// Records that `from` has shown a valid certificate of a site.
    pub(crate) fn note_known(&self, from: IpAddr, site: &Name) {
        let mut known = lock(&self.known);
        let number = known.next;
        known.next += 1;
        known.seen.insert(Source::of(from), (number, site.clone()));
        if known.seen.len() > SEEN_MAX {
            let oldest = known.seen.iter().min_by_key(|(_, (number, _))| *number);
            let oldest = oldest.map(|(source, _)| *source);
            oldest.and_then(|source| known.seen.remove(&source));
        }
    }

    /// Counts a refusal. The first one of a source in a minute is logged at once, with `why`.
    pub(crate) fn note_refused(&self, from: IpAddr, what: RefusedKind, why: &dyn fmt::Display) {
        let source = Source::of(from);
        self.refusals[what as usize].fetch_add(1, Ordering::Relaxed);
        tracing::debug!(%from, %why, "{}", what.words());
        let mut refused = lock(&self.refused);
        if let Some(count) = refused.counts.get_mut(&(source, what)) {
            *count += 1;
        } else if refused.counts.len() >= REASONS_MAX {
            refused.others += 1;
        } else {
            refused.counts.insert((source, what), 0);
            tracing::info!(%from, %why, "{}; further ones are counted for a minute", what.words());
        }
    }

    /// Returns the time that handshakes had to wait for their turn, since the process began.
    pub(crate) fn waited(&self) -> Duration {
        Duration::from_millis(self.waited_ms.load(Ordering::Relaxed))
    }

    /// Returns the refusals since the process began, by kind.
    pub(crate) fn refusals(&self) -> Vec<(&'static str, u64)> {
        let counts = self.refusals.iter().map(|count| count.load(Ordering::Relaxed));
        RefusedKind::ALL.map(RefusedKind::label).into_iter().zip(counts).collect()
    }

    /// Returns the places that are taken, by stage, and by whether the source is known.
    pub(crate) fn places(&self) -> Vec<(&'static str, &'static str, usize)> {
        let stages = Stage::ALL.into_iter().zip(&self.rooms);
        let places = stages.flat_map(|(stage, rooms)| {
            let kinds = ["stranger", "known"].into_iter().zip(rooms);
            kinds.map(move |(kind, room)| (stage.as_str(), kind, lock(room).all.len()))
        });
        places.collect()
    }

    /// Logs the number of a source's refusals after the first, each minute until `stop` is true.
    pub(crate) async fn report(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        loop {
            let stopped = tokio::select! {
                () = tokio::time::sleep(REPORT) => false,
                _ = stop.changed() => true,
            };
            let refused = std::mem::take(&mut *lock(&self.refused));
            let counts = refused.counts.into_iter().filter(|(_, count)| *count > 0);
            for ((from, what), count) in counts {
                tracing::info!(%from, count, "{}, within the last minute", what.words());
            }
            if refused.others > 0 {
                tracing::info!(count = refused.others, "refused to further addresses");
            }
            if stopped {
                return;
            }
        }
    }
}

/// A place of a connection in a stage, until it is dropped.
pub(crate) struct Place {
    admission: Arc<Admission>,
    stage: Stage,
    known: bool,
    number: u64,
    ended: oneshot::Receiver<()>,
}

impl Place {
    /// Waits until the place is lost to a newer connection.
    pub(crate) async fn lost(&mut self) {
        // No value is ever sent.
        let _ = (&mut self.ended).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(self.admission.room(self.stage, self.known)).leave(self.number);
    }
}

/// A connection of which no more than so many bytes are read.
pub(crate) struct Metered<S> {
    inner: S,
    left: Option<u64>,
}

impl<S> Metered<S> {
    /// Wraps a stream. At most `bytes` are read, and those of one more call.
    pub(crate) fn new(inner: S, bytes: u64) -> Self {
        Self { inner, left: Some(bytes) }
    }

    /// Sets the limit to so many bytes; `None` means no limit.
    pub(crate) fn allow(&mut self, bytes: Option<u64>) {
        self.left = bytes;
    }

    pub(crate) fn into_inner(self) -> S {
        self.inner
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.left == Some(0) {
            return Poll::Ready(Err(io::Error::other("too many bytes without a certificate")));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(context, buffer);
        let bytes = (buffer.filled().len() - before) as u64;
        self.left = self.left.map(|left| left.saturating_sub(bytes));
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Name {
        name.parse().unwrap()
    }

    /// D4: handshakes of a source, and of a paired site from all its sources, have a limited rate.
    /// Those of others, and of the own site, do not wait for them.
    #[test]
    fn d4_handshakes_come_at_a_rate() {
        let admission = Admission::new(name("own"));
        let at = |number: u32| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + number));
        let free = |from: IpAddr, tries: u32| {
            let turns = (0..tries).map(|_| admission.take_turn_at(Instant(0), from));
            turns.filter(|turn| *turn == Some(Duration::ZERO)).count() as u32
        };
        assert_eq!(free(at(0), 5000), OF_SOURCE.burst);
        assert_eq!(admission.take_turn_at(Instant(0), at(0)), None);
        assert_eq!(free(at(1), 1), 1);
        (10..20).for_each(|number| admission.note_known(at(number), &name("lab")));
        let of_site: u32 = (10..20).map(|number| free(at(number), 1000)).sum();
        assert_eq!(of_site, OF_SITE.burst);
        admission.note_known(at(30), &name("own"));
        assert_eq!(free(at(30), 5000), 5000);
    }

    fn is_lost(place: &mut Place) -> bool {
        place.ended.try_recv() == Err(oneshot::error::TryRecvError::Closed)
    }

    /// D4: a crowd from one address, or from one IPv6 prefix, displaces only itself; the newest
    /// connection always has a place.
    #[test]
    fn d4_a_crowd_displaces_itself() {
        let admission = Arc::new(Admission::new(name("own")));
        let enter = |from: &str| admission.enter(Stage::Silent, from.parse().unwrap());
        let mut alone = enter("10.0.0.1");
        let mut crowd: Vec<_> = (0..300).map(|_| enter("10.0.0.2")).collect();
        let lost: Vec<_> = crowd.iter_mut().map(is_lost).collect();
        assert!(lost[..44].iter().all(|lost| *lost), "the oldest go first");
        assert!(lost[44..].iter().all(|lost| !*lost), "256 have places");
        let mut prefix: Vec<_> = (0..300).map(|at| enter(&format!("fd00:0:0:1::{at:x}"))).collect();
        assert_eq!(prefix.iter_mut().filter_map(|place| is_lost(place).then_some(())).count(), 44);
        assert!(!is_lost(&mut alone));
    }

    /// D4: where very many addresses take all places, those of paired sites are apart.
    #[test]
    fn d4_paired_sites_have_places_of_their_own() {
        let admission = Arc::new(Admission::new(name("own")));
        let enter = |from: IpAddr| admission.enter(Stage::Handshake, from);
        let site: IpAddr = "192.0.2.7".parse().unwrap();
        admission.expect(std::iter::once(site));
        let mut held = enter(site);
        let seen: IpAddr = "192.0.2.8".parse().unwrap();
        admission.note_known(seen, &name("lab"));
        let mut held_too = enter(seen);
        let from = |at: u32| IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0000 + at));
        let mut crowd: Vec<_> = (0..400).map(|at| enter(from(at))).collect();
        assert!(!is_lost(&mut held) && !is_lost(&mut held_too));
        assert_eq!(crowd.iter_mut().filter_map(|place| is_lost(place).then_some(())).count(), 144);
        assert!(!is_lost(crowd.last_mut().unwrap()), "the newest has a place");
        crowd.clear();
        assert!(lock(admission.room(Stage::Handshake, false)).by_source.is_empty());
    }
}
