//! The paths of a host: what is known of each, what its lanes show of it, and dialling over it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use penstock_api::task::TaskSpec;
use penstock_engine::paths::{
    LocalEnd, PATHS_MAX, Pairs, PathEnds, PathId, PathSight, PathSpec, PathState, pair_further,
};
use penstock_io::net::{
    self, ConnectError, LaneCloser, LaneStream, LocalBind, SocketOptions, Welcome,
};
use penstock_io::sys;
use penstock_proto::frame::Hello;
use penstock_proto::id::{LaneId, Name, TransferId};
use penstock_proto::network::DataAddress;
use penstock_proto::units::Instant;
use penstock_proto::version;

use crate::lane::preconnect::Ahead;
use crate::lane::standing::{Endings, Standing};
use crate::stores::pacer::Pacer;
use crate::target::LaneConnect;
use crate::task::{Shared, State};

/// Longest that opening one lane may take: three round trips and a slow start.
pub(crate) const DIAL_MAX: Duration = Duration::from_secs(15);
/// The same where another path carries meanwhile: four seconds are twenty of the longest round
/// trips, or a lost SYN and what follows it.
const DIAL_BESIDE_MAX: Duration = Duration::from_secs(4);
/// TCP asks this often whether a path still lives over which nothing else goes.
const PROBE: Duration = Duration::from_secs(1);
/// Paths are looked at this often.
const LOOK: Duration = Duration::from_millis(200);
/// A lane that takes longer than this for one stride waits for this host's storage.
const STUCK: Duration = Duration::from_millis(500);
/// Paths of which something is remembered; beyond that all is forgotten and learnt anew.
const REMEMBERED_MAX: usize = 4096;

/// Gives where lanes may leave from at this moment: interfaces come and go.
pub type LocalEnds = Arc<dyn Fn() -> Vec<LocalEnd> + Send + Sync>;

/// What is known of a path since the daemon started.
#[derive(Clone, Debug)]
pub struct PathNote {
    /// Between which addresses.
    pub ends: PathEnds,
    /// Least round trip that was seen.
    pub rtt: Option<Duration>,
    /// What it carried when that was last looked at, in bytes per second.
    pub rate: f64,
    /// How it stood in the last transfer that used it.
    pub state: PathState,
    /// Since when, in seconds since 1970.
    pub since: u64,
    /// Why it does not carry, if it does not.
    pub why: String,
}

/// Where lanes may leave from now; without anybody who knows, the routes choose.
pub(crate) fn locals(ends: Option<&LocalEnds>) -> Vec<LocalEnd> {
    ends.map_or_else(|| vec![LocalEnd::default()], |ends| ends())
}

pub(crate) type Key = (Name, Option<IpAddr>, Option<String>, SocketAddr);

/// What has become of a path of a transfer.
#[derive(Clone, Debug)]
pub struct PathNews {
    /// The transfer.
    pub transfer: TransferId,
    /// The other site.
    pub site: Name,
    /// The path as it was before.
    pub was: PathState,
    /// The path as it is now.
    pub note: PathNote,
}

/// Is told what becomes of paths. Must not block.
pub type PathListener = Arc<dyn Fn(&PathNews) + Send + Sync>;

/// Remembers paths from one transfer to the next: one over a long path opens all its lanes at once.
#[derive(Default)]
pub(crate) struct PathBook {
    notes: Mutex<BTreeMap<Key, PathNote>>,
    listener: OnceLock<PathListener>,
    /// How many links to a site were left out at most, and the log was told so.
    left_out: Mutex<BTreeMap<Name, usize>>,
    /// Connections that wait for a lane.
    pub(crate) ahead: Ahead,
    /// Lanes that are open, and what ends them.
    pub(crate) standing: Standing,
    pub(crate) endings: Arc<Endings>,
}

impl PathBook {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Key, PathNote>> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells somebody what becomes of paths from now on; the first one is told only.
    pub(crate) fn listen(&self, listener: PathListener) {
        let _ = self.listener.set(listener);
    }

    /// What is known of one path.
    pub(crate) fn get(&self, site: &Name, ends: &PathEnds) -> Option<PathNote> {
        self.lock().get(&key_of(site, ends)).cloned()
    }

    /// Changes what is known of one path.
    pub(crate) fn note(&self, site: &Name, ends: &PathEnds, change: impl FnOnce(&mut PathNote)) {
        let mut notes = self.lock();
        if notes.len() >= REMEMBERED_MAX {
            notes.clear();
        }
        let fresh = || PathNote {
            ends: ends.clone(),
            rtt: None,
            rate: 0.0,
            state: PathState::Untried,
            since: now_seconds(),
            why: String::new(),
        };
        let note = notes.entry(key_of(site, ends)).or_insert_with(fresh);
        // What is not of its key may be another than last time.
        note.ends = ends.clone();
        change(note);
    }

    fn rtt(&self, site: &Name, ends: &PathEnds) -> Option<Duration> {
        self.lock().get(&key_of(site, ends))?.rtt
    }

    /// So many links to a site are left out. Whether that is to be told: not if as many were.
    fn is_news(&self, site: &Name, links: usize) -> bool {
        let mut left_out = self.left_out.lock().unwrap_or_else(PoisonError::into_inner);
        let told = left_out.entry(site.clone()).or_default();
        let more = links > *told;
        *told = links.max(*told);
        more
    }

    /// Gives the paths to a site; tells the log, once, if links are left out.
    pub(crate) fn take_up(&self, site: &Name, pairs: Pairs) -> Vec<PathEnds> {
        let left_out = pairs.links_left_out;
        if left_out > 0 && self.is_news(site, left_out) {
            tracing::warn!(
                %site, left_out,
                "more pairs of network cards lead there than the {PATHS_MAX} that are tried; give \
                 networks that reach each other one name at both sites, and `role = \"control\"` \
                 to those that are not for data"
            );
        }
        pairs.paths
    }

    /// All that is known of paths to a site.
    pub(crate) fn of_site(&self, site: &Name) -> Vec<PathNote> {
        let notes = self.lock();
        notes.iter().filter(|((of, ..), _)| of == site).map(|(_, note)| note.clone()).collect()
    }
}

/// What tells paths to a site apart.
pub(crate) fn key_of(site: &Name, ends: &PathEnds) -> Key {
    let PathEnds { local, remote, .. } = ends;
    (site.clone(), local.address, local.device.clone(), remote.address)
}

fn now_seconds() -> u64 {
    u64::try_from(sys::wall_clock_now().seconds).unwrap_or(0)
}

/// Dials lanes to one site.
pub(crate) struct Dialer {
    pub(crate) connect: Option<LaneConnect>,
    /// The round trip, where connections lead through a tunnel and their TCP does not know it.
    pub(crate) rtt: Option<Duration>,
    pub(crate) config: Arc<rustls::ClientConfig>,
    pub(crate) site: Name,
    pub(crate) options: SocketOptions,
    pub(crate) local_ends: Option<LocalEnds>,
    pub(crate) capability: Vec<u8>,
    /// Paths have the numbers that they have here; more of them come, and none goes.
    pub(crate) paths: RwLock<Vec<Arc<PathEnds>>>,
    pub(crate) book: Arc<PathBook>,
}

impl Dialer {
    fn all(&self) -> Vec<Arc<PathEnds>> {
        self.paths.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the engine is to know of the paths.
    pub(crate) fn specs(&self) -> Vec<PathSpec> {
        self.all().iter().map(|ends| spec_of(ends)).collect()
    }

    /// The addresses of a path.
    pub(crate) fn ends(&self, path: PathId) -> Option<Arc<PathEnds>> {
        let paths = self.paths.read().unwrap_or_else(PoisonError::into_inner);
        paths.get(usize::from(path.0)).cloned()
    }

    /// The least round trip of each path that was dialled before.
    pub(crate) fn known_rtts(&self) -> Vec<(PathId, Duration)> {
        let known = |ends: &PathEnds| self.rtt.or_else(|| self.book.rtt(&self.site, ends));
        let paths = self.all().into_iter().enumerate();
        paths.filter_map(|(at, ends)| Some((PathId(at as u16), known(&ends)?))).collect()
    }

    /// Paths from `locals` to `peers` that were not known: gives what the engine is to know of
    /// those alone.
    fn find_further(&self, locals: &[LocalEnd], peers: &[DataAddress]) -> Vec<PathSpec> {
        let mut paths = self.paths.write().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<PathEnds> = paths.iter().map(|ends| PathEnds::clone(ends)).collect();
        let further = self.book.take_up(&self.site, pair_further(&known, locals, peers));
        let specs = further.iter().map(spec_of).collect();
        paths.extend(further.into_iter().map(Arc::new));
        specs
    }

    /// The round trip of an open lane.
    pub(crate) fn rtt_of(&self, stream: &LaneStream) -> Option<Duration> {
        self.rtt.or_else(|| stream.rtt().ok().map(|rtt| rtt.min))
    }

    /// Opens one lane over a path; blocks for [`DIAL_MAX`] at most, less `beside` another path that
    /// carries. Says the round trip as soon as it is known: over distance more lanes are wanted,
    /// and need not wait until this one is open.
    pub(crate) fn dial(
        &self,
        spec: &TaskSpec,
        lane: LaneId,
        ends: &PathEnds,
        beside: bool,
        say_rtt: impl FnOnce(Duration),
    ) -> Result<(LaneStream, Welcome), ConnectError> {
        let hello = Hello {
            protocol: version::known().lane,
            lane,
            transfer: spec.transfer,
            framing: spec.framing,
            digest: spec.digest,
            capability: self.capability.clone(),
        };
        let most = if beside { DIAL_BESIDE_MAX } else { DIAL_MAX };
        // Also where there is one path only: another one may come.
        let options = SocketOptions { probe_after: Some(PROBE), ..self.options.clone() };
        let address = ends.remote.address;
        let dialled = match &self.connect {
            Some(connect) => connect(address, most, &options)?,
            None => match self.book.ahead.take(&self.site, ends, most, &options) {
                Ok(dialled) => dialled,
                Err(left) => net::dial(address, &bind_of(&ends.local), left, &options)?,
            },
        };
        if let Some(rtt) = self.rtt {
            say_rtt(rtt);
        } else if let Ok(rtt) = dialled.rtt() {
            self.book.note(&self.site, ends, |note| {
                note.rtt = Some(note.rtt.map_or(rtt, |least| least.min(rtt)));
            });
            say_rtt(rtt);
        }
        dialled.open(&self.config, &self.site, &hello)
    }
}

fn spec_of(ends: &PathEnds) -> PathSpec {
    PathSpec { link: ends.link, rate_bits_per_s: ends.rate_bits_per_s() }
}

impl State {
    /// Takes up what is known of all paths before anything is tried.
    pub(crate) fn learn_paths(&mut self, dialer: &Dialer) {
        self.fetch.expect_paths(self.lanes.links());
        for (path, rtt) in dialer.known_rtts() {
            self.fetch.handle_rtt_of(path, rtt);
            self.lanes.handle_rtt(path, rtt);
        }
    }

    /// There are further paths from now on.
    fn handle_further_paths(&mut self, dialer: &Dialer, further: &[PathSpec]) {
        self.lanes.handle_further(further);
        self.learn_paths(dialer);
        self.news = true;
    }
}

/// The source is to be reached at `peers` now: lanes go over further paths too, if there are any.
/// Those that lead to nobody any more are found to be dead, as any path is.
pub(crate) fn handle_peers(shared: &Shared, dialer: &Dialer, peers: &[DataAddress]) {
    let locals = locals(dialer.local_ends.as_ref());
    let mut state = shared.lock();
    let further = dialer.find_further(&locals, peers);
    if further.is_empty() {
        return;
    }
    tracing::info!(
        transfer = %shared.spec.transfer, site = %dialer.site, paths = further.len(),
        "there are further paths to the source"
    );
    state.handle_further_paths(dialer, &further);
    shared.wake.notify_all();
}

/// What other threads see of an open lane, and may do to it.
pub(crate) struct LaneHandle {
    closer: LaneCloser,
    working: Arc<AtomicU64>,
    held: Arc<AtomicBool>,
    /// All segments that had come when that was last looked at, and those behind a lost one.
    seen: [AtomicU32; 2],
}

impl LaneHandle {
    /// Of an open lane, whose thread tells by `working` when it works, or waits for a limit.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub(crate) fn new(stream: &LaneStream, working: &Working) -> std::io::Result<Self> {
        let closer = stream.closer()?;
        // What it took to open it is no payload.
        let seen = closer.segments().unwrap_or_default();
        let seen = [AtomicU32::new(seen.all), AtomicU32::new(seen.behind)];
        let (held, working) = (Arc::clone(&working.held), Arc::clone(&working.since));
        Ok(Self { closer, working, held, seen })
    }

    /// See [`LaneCloser::shutdown`].
    pub(crate) fn shutdown(&self) {
        self.closer.shutdown();
    }

    /// See [`LaneCloser::silence`].
    pub(crate) fn silence(&self) -> Duration {
        self.closer.silence()
    }

    /// What TCP has received since this was last asked.
    fn arrived(&self) -> Arrived {
        let Some(now) = self.closer.segments() else { return Arrived::default() };
        let since = |last: &AtomicU32, now: u32| {
            u64::from(now.wrapping_sub(last.swap(now, Ordering::Relaxed)))
        };
        let segments = since(&self.seen[0], now.all);
        let behind = since(&self.seen[1], now.behind);
        Arrived { segments, behind, bytes: segments * u64::from(now.bytes) }
    }

    fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    fn is_stuck(&self, now: Instant) -> bool {
        let since = self.working.load(Ordering::Relaxed);
        since > 0 && now.since(Instant(since)) >= STUCK
    }
}

/// What TCP has received of some lanes in a while.
#[derive(Clone, Copy, Default)]
struct Arrived {
    segments: u64,
    /// Those of them that came while an earlier one was missing.
    behind: u64,
    /// About so many bytes.
    bytes: u64,
}

impl Arrived {
    fn and(self, other: Self) -> Self {
        Self {
            segments: self.segments + other.segments,
            behind: self.behind + other.behind,
            bytes: self.bytes + other.bytes,
        }
    }
}

/// What the thread of a lane does.
#[derive(Default)]
pub(crate) struct Working {
    /// Since when it works on what has come; 0 while it waits for more.
    since: Arc<AtomicU64>,
    /// Whether it waits until a limit of the rate lets it go on.
    held: Arc<AtomicBool>,
}

impl Working {
    /// It begins.
    pub(crate) fn begin(&self) {
        self.since.store(sys::boottime_now().0, Ordering::Relaxed);
    }

    /// It has ended.
    pub(crate) fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// Takes bytes, and waits until they are paid.
    pub(crate) fn take(&self, pace: &Pacer, bytes: u64) {
        self.held.store(true, Ordering::Relaxed);
        pace.take(bytes);
        self.held.store(false, Ordering::Relaxed);
    }
}

/// Where a socket is to be bound to leave from there.
pub(crate) fn bind_of(local: &LocalEnd) -> LocalBind {
    LocalBind { address: local.address, device: local.device.clone() }
}

/// Looks at the paths of a task: what TCP hears, what they owe, what has become of them.
pub(crate) fn look(shared: &Shared, dialer: &Dialer, now: Instant) {
    let mut guard = shared.lock();
    let state = &mut *guard;
    if now.since(state.looked) < LOOK {
        return;
    }
    state.looked = now;
    let State { lanes, fetch, closers, .. } = &mut *state;
    let mut open: BTreeMap<PathId, Vec<&LaneHandle>> = BTreeMap::new();
    // Lanes that owe something, and those of them that wait for the limit.
    let mut turns = BTreeMap::<PathId, (u32, u32)>::new();
    for (lane, closer) in closers.iter() {
        if let Some(path) = lanes.path_of_lane(*lane) {
            open.entry(path).or_default().push(closer);
            if fetch.owes(*lane) {
                let (owe, held) = turns.entry(path).or_insert((0, 0));
                (*owe, *held) = (*owe + 1, *held + u32::from(closer.is_held()));
            }
        }
    }
    let mut arrived = BTreeMap::new();
    for (path, closers) in &open {
        let sum = closers.iter().map(|lane| lane.arrived()).fold(Arrived::default(), Arrived::and);
        fetch.handle_order(*path, sum.segments, sum.behind);
        arrived.insert(*path, sum.bytes);
    }
    lanes.handle_tick(now, |path| {
        let closers = open.get(&path).map_or(&[][..], Vec::as_slice);
        PathSight {
            silence: closers.iter().map(|lane| lane.closer.unheard()).min().unwrap_or_default(),
            owed_bytes: fetch.asked_bytes_of(path),
            arrived_bytes: arrived.get(&path).copied().unwrap_or(0),
            stuck: closers.iter().any(|lane| lane.is_stuck(now)),
            held: turns.get(&path).map_or(0.0, |(owe, held)| f64::from(*held) / f64::from(*owe)),
        }
    });
    fetch.expect_paths(lanes.links());
    // Who holds lanes back, or has asked for all there is, learns nothing from more of them.
    if fetch.has_queue() && !shared.pace.is_in_debt() {
        lanes.handle_plenty(now);
    }
    if !lanes.has_several() {
        return;
    }
    for lane in fetch.poll_late_lanes(now) {
        tracing::info!(lane = lane.0, "others bring sooner what a slow path owes");
        lanes.handle_late(now, lane);
    }
    for path in lanes.ids() {
        if let (PathState::Carrying, Some(ends)) = (lanes.state(path), dialer.ends(path)) {
            let rate = fetch.rate_of(path);
            dialer.book.note(&dialer.site, &ends, |note| note.rate = rate);
        }
    }
    tell_news(state, dialer, shared.spec.transfer);
}

/// Tells the log and the book what has become of paths.
fn tell_news(state: &mut State, dialer: &Dialer, transfer: TransferId) {
    while let Some((path, news)) = state.lanes.poll_news() {
        state.fetch.handle_trial(path, news == PathState::Trial);
        let Some(ends) = dialer.ends(path) else { continue };
        let site = &dialer.site;
        match news {
            PathState::Dead | PathState::Crawling => {
                tracing::warn!(%site, %ends, state = news.as_str(), "path given up");
            }
            _ => tracing::info!(%site, %ends, state = news.as_str(), "path"),
        }
        let was = dialer.book.get(site, &ends).map_or(PathState::Untried, |note| note.state);
        dialer.book.note(site, &ends, |note| {
            (note.state, note.since) = (news, now_seconds());
            match news {
                PathState::Carrying => note.why.clear(),
                PathState::Crawling => "it brought next to nothing".clone_into(&mut note.why),
                PathState::Dead if note.why.is_empty() => {
                    "nothing was heard over it".clone_into(&mut note.why);
                }
                _ => {}
            }
        });
        if let (Some(listener), Some(note)) =
            (dialer.book.listener.get(), dialer.book.get(site, &ends))
        {
            listener(&PathNews { transfer, site: site.clone(), was, note });
        }
    }
}

/// Notes why a lane over a path was lost or did not open.
pub(crate) fn note_failure(dialer: &Dialer, ends: &PathEnds, why: &str) {
    dialer.book.note(&dialer.site, ends, |note| why.clone_into(&mut note.why));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: that links to a site are left out is told once, and again when there are more.
    #[test]
    fn what_is_left_out_is_told_once() {
        let book = PathBook::default();
        let [hpc, lab]: [Name; 2] = ["hpc", "lab"].map(|site| site.parse().unwrap());
        let told: Vec<bool> = [7, 7, 3, 7, 8].map(|links| book.is_news(&hpc, links)).into();
        assert_eq!(told, [true, false, false, false, true]);
        assert!(book.is_news(&lab, 1));
    }
}
