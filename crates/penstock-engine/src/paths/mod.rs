//! Choice of the paths that carry a task's lanes, and treatment of paths that do not work.
//!
//! A path is a pair of addresses ([`pair()`]). Each has a [`LaneMachine`] of its own, which decides
//! the number of its lanes. Lanes pull requests as they drain, so that a faster path carries more
//! without further control.
//!
//! - *Dead* is a path that cannot be dialled, or whose TCP has heard nothing, not even the
//!   acknowledgement of a probe, while another path is heard. Its lanes are cut, so that other
//!   lanes ask for their items. The path is dialled again at intervals: with one lane, with
//!   growing, jittered pauses.
//! - *Crawling* is a path that is heard but brings a small share of its earlier rate, or has never
//!   brought a notable one, while others keep their rates. If all slow down, the source or the
//!   target is slow. Its lanes are cut, too. Later it gets one lane and small requests *on trial*,
//!   since a successful dial does not prove its rate. From then on it is compared with its rate on
//!   trial. A path whose lanes wait under a limit of the rate does not crawl: it is not the
//!   bottleneck.
//! - *Slow* is no state: a path that has always been slow beside others keeps its share, in which
//!   little is asked of it ([`crate::fetch`]).
//! - *Standby* is a path whose link another path carries already.
//!
//! A single path is never cut: no better path exists for its items. All limits have a margin of
//! some round trips, so that a long path with losses is not affected.
//!
//! This module reads no clock, opens no socket and knows no addresses beyond [`pair()`].

mod pair;
mod spread;

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use penstock_proto::id::LaneId;
use penstock_proto::units::{Instant, MIB};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

pub use self::pair::{LocalEnd, PATHS_MAX, Pairs, PathEnds, pair, pair_further};
use crate::lanes::{LaneAction, LaneDecision, LaneLimits, LaneMachine};
use crate::retry::Backoff;

/// Number of a path within its task: the index in the task's list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u16);

/// State of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// No lane was open over it yet.
    Untried,
    /// Lanes are open over it.
    Carrying,
    /// The link is carried by another of its paths.
    Standby,
    /// The path was crawling; one lane tests whether it still does.
    Trial,
    /// The path brought next to nothing.
    Crawling,
    /// The path cannot be dialled, or nothing is heard over it.
    Dead,
}

impl PathState {
    /// Returns its name, one word or two.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Untried => "untried",
            Self::Carrying => "carrying",
            Self::Standby => "standby",
            Self::Trial => "on trial",
            Self::Crawling => "crawling",
            Self::Dead => "dead",
        }
    }
}

/// Action for the edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathAction {
    /// Dial a new lane over a path, then call [`PathMachine::handle_up`] or
    /// [`PathMachine::handle_down`].
    Dial(LaneId, PathId),
    /// Let a lane finish its requests, then close it.
    Drain(LaneId),
    /// End a lane at once; its items are to be asked for over other lanes.
    Cut(LaneId),
}

/// Observation of a path with open lanes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathSight {
    /// Time for which TCP has heard nothing on any lane, including acknowledgements of probes.
    pub silence: Duration,
    /// Bytes that were asked for and have not come.
    pub owed_bytes: u64,
    /// Bytes that TCP has received since the last look, approximately, in order or not. Reads from
    /// a lane come in strides, each of which takes a slow path seconds.
    pub arrived_bytes: u64,
    /// True if this host is slow in taking bytes that have come: the path is not the bottleneck.
    pub stuck: bool,
    /// Share of its lanes with outstanding requests that wait at this moment for a limit of the
    /// rate, from 0 to 1.
    pub held: f64,
}

/// Facts about a path before anything is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathSpec {
    /// See [`PathEnds::link`].
    pub link: u16,
    /// Rate of its interfaces, if configured.
    pub rate_bits_per_s: Option<u64>,
}

/// Time of silence of TCP, plus some round trips, after which a path is dead. TCP probes once a
/// second where nothing else is in flight.
const SILENT: Duration = Duration::from_secs(2);
const SILENT_RTTS: u32 = 4;
/// Upper bound of that time: the lane's items are to be on other lanes within three seconds.
const SILENT_MOST: Duration = Duration::from_millis(2700);
/// Time within which a path must have been heard to be alive.
const ALIVE: Duration = Duration::from_millis(1600);
/// Time, plus some round trips, after which a path that was not heard may be dead, and does not
/// count as crawling.
const HEARD: Duration = Duration::from_millis(1200);
const HEARD_RTTS: u32 = 2;
/// Time, plus some round trips, over which rates are compared.
const COMPARED: Duration = Duration::from_millis(1800);
const COMPARED_RTTS: u32 = 4;
const COMPARED_MOST: Duration = Duration::from_millis(2300);
/// Additional time before a starting path is compared with others: TCP doubles its rate once a
/// round trip at best, and starts again where segments are lost.
const START: Duration = Duration::from_secs(2);
const START_RTTS: u32 = 20;
/// Crawling: the rate is below this share of the path's earlier rate ...
const CRAWL_OF_OWN: f64 = 0.1;
/// ... or never reached this share of the fastest other path's rate, and so many bytes a second: a
/// minute for a stride of a MiB ...
const CRAWL_OF_BEST: f64 = 0.01;
const CRAWL_BYTES: f64 = 16.0 * 1024.0;
/// ... while the others have at least this share of their earlier rates ...
const OTHERS_GO_ON: f64 = 0.5;
/// ... and its outstanding bytes would take it longer than this.
const CRAWL_OWED: Duration = Duration::from_secs(3);
/// Share of the time for which lanes with outstanding requests must wait to count as held back by a
/// limit. Lanes have turns of one length, so that the share is also the ratio of a path's rate to
/// the rate that the limit allows. A path that is held back brings more than one that crawls.
const HELD: f64 = CRAWL_OF_OWN;
/// Bytes that pass a trial, or share of the earlier rate that passes it, but at least a minimum.
const TRIAL_BYTES: u64 = 4 * MIB;
const TRIAL_SHARE: f64 = 0.3;
const TRIAL_BYTES_LEAST: u64 = 2 * CRAWL_BYTES as u64;
/// Least duration of a trial: bytes that a queue holds at its start are no rate.
const TRIAL_LEAST: Duration = Duration::from_millis(500);
/// Time, plus some round trips, with outstanding bytes after which a trial has failed.
const TRIAL: Duration = Duration::from_secs(2);
const TRIAL_RTTS: u32 = 10;
/// Pauses between dials of a dead path, and between trials of a crawling one.
const DEAD_PAUSE: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));
/// Factor for the former where no path carries: no path is known to be open then.
const NONE_CARRIES: u32 = 4;
const CRAWL_PAUSE: (Duration, Duration) = (Duration::from_secs(4), Duration::from_secs(60));
/// Pause before dialling a path that lost its lanes because others bring the rest sooner.
const LATE_PAUSE: Duration = Duration::from_secs(3);
/// Interval at which lanes are divided again by measured rates.
const SHARE_OUT: Duration = Duration::from_secs(5);
/// Factor by which an earlier rate fades: it counts for half after some minutes.
const FADING: f64 = 0.999;

/// Bytes that came in the last seconds.
#[derive(Debug, Default)]
struct Meter {
    total: u64,
    /// Sums of bytes at some moments.
    marks: VecDeque<(Instant, u64)>,
}

impl Meter {
    const MARK: Duration = Duration::from_millis(100);
    const MARKS: usize = 32;

    fn add(&mut self, now: Instant, bytes: u64) {
        self.total += bytes;
        if self.marks.back().is_none_or(|(at, _)| now.since(*at) >= Self::MARK) {
            self.marks.push_back((now, self.total));
        }
        if self.marks.len() > Self::MARKS {
            self.marks.pop_front();
        }
    }

    /// Returns the bytes per second over the last `time`, and since the last mark before that, so
    /// that rare calls do not see more.
    fn rate(&self, now: Instant, time: Duration) -> f64 {
        let before = self.marks.iter().rev().find(|(at, _)| now.since(*at) >= time);
        let Some((at, bytes)) = before.or(self.marks.front()) else { return 0.0 };
        (self.total - bytes) as f64 / now.since(*at).max(time).as_secs_f64()
    }
}

#[derive(Debug)]
struct Path {
    spec: PathSpec,
    lanes: LaneMachine,
    state: PathState,
    rtt: Duration,
    meter: Meter,
    /// The greatest rate that it held, fading.
    usual: f64,
    /// Start of the time in which it has owed bytes without a break.
    owing: Option<Instant>,
    /// True if this host was slow in taking bytes that had come, at the last look.
    stuck: bool,
    /// Time for which its lanes have waited for a limit, in microseconds.
    waited: Meter,
    /// True if a limit holds it back.
    held: bool,
    /// Bytes that came while on trial, and the time in which bytes were owed then.
    tried: (u64, Duration),
    retry_at: Instant,
    /// Time until which its lanes, which were late, are not dialled again.
    late_until: Instant,
    /// True if it crawled, and has passed no trial since.
    crawled: bool,
    dead_pause: Backoff,
    crawl_pause: Backoff,
    /// Lanes to be cut, and lanes that are cut and have not ended.
    to_cut: Vec<LaneId>,
    cut: Vec<LaneId>,
}

impl Path {
    fn new(spec: PathSpec, limits: LaneLimits, seed: u64) -> Self {
        Self {
            spec,
            lanes: LaneMachine::new(limits, seed),
            state: PathState::Untried,
            rtt: Duration::ZERO,
            meter: Meter::default(),
            usual: 0.0,
            owing: None,
            stuck: false,
            waited: Meter::default(),
            held: false,
            tried: (0, Duration::ZERO),
            retry_at: Instant(0),
            late_until: Instant(0),
            crawled: false,
            dead_pause: Backoff::new(DEAD_PAUSE.0, DEAD_PAUSE.1),
            crawl_pause: Backoff::new(CRAWL_PAUSE.0, CRAWL_PAUSE.1),
            to_cut: Vec::new(),
            cut: Vec::new(),
        }
    }

    fn compared_over(&self) -> Duration {
        (COMPARED + self.rtt * COMPARED_RTTS).min(COMPARED_MOST)
    }

    fn rate(&self, now: Instant) -> f64 {
        self.meter.rate(now, self.compared_over())
    }

    fn is_given_up(&self) -> bool {
        matches!(self.state, PathState::Dead | PathState::Crawling | PathState::Trial)
    }

    fn carries(&self) -> bool {
        self.state == PathState::Carrying && self.lanes.open().next().is_some()
    }
}

/// Decides the paths of lanes.
#[derive(Debug)]
pub struct PathMachine {
    limits: LaneLimits,
    paths: Vec<Path>,
    next: u32,
    rng: ChaCha8Rng,
    told: Option<Instant>,
    share_at: Instant,
    news: VecDeque<(PathId, PathState)>,
}

impl PathMachine {
    /// Returns a machine for these paths, of which there is at least one; `limits` are for all
    /// together.
    pub fn new(limits: LaneLimits, paths: &[PathSpec], seed: u64) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(seed);
        let one = [PathSpec::default()];
        let specs = if paths.is_empty() { &one } else { paths };
        let (next, told, share_at) = (0, None, Instant(0));
        let (paths, news) = (Vec::new(), VecDeque::new());
        let mut machine = Self { limits, paths, next, rng, told, share_at, news };
        machine.handle_further(specs);
        machine
    }

    /// Adds paths, numbered after the known ones. A path that was the only one may now be dropped
    /// in favour of the others.
    pub fn handle_further(&mut self, paths: &[PathSpec]) {
        for spec in paths {
            let seed = rand::RngExt::random(&mut self.rng);
            self.paths.push(Path::new(*spec, self.limits, seed));
        }
        if self.has_several() {
            for path in &mut self.paths {
                path.lanes.set_patience(DEAD_PAUSE.1 * NONE_CARRIES);
            }
        }
        self.share_out();
    }

    /// Handles a measured round trip over a path.
    pub fn handle_rtt(&mut self, path: PathId, rtt: Duration) {
        if let Some(path) = self.paths.get_mut(usize::from(path.0)) {
            path.rtt = if path.rtt.is_zero() { rtt } else { path.rtt.min(rtt) };
            path.lanes.handle_rtt(rtt);
        }
    }

    /// Sets other bounds of the number of lanes: lanes above them are drained.
    pub fn handle_lane_limits(&mut self, limits: LaneLimits) {
        self.limits = LaneLimits { lanes_max: limits.lanes_max.max(1), ..limits };
        match self.paths.as_mut_slice() {
            [only] => only.lanes.handle_limits(self.limits),
            _ => self.share_out(),
        }
    }

    /// Handles a dialled lane that is open.
    pub fn handle_up(&mut self, now: Instant, lane: LaneId) {
        let Some(at) = self.path_of(lane) else { return };
        let path = &mut self.paths[at];
        path.lanes.handle_up(now, lane);
        match path.state {
            PathState::Crawling => path.to_cut.push(lane),
            PathState::Trial | PathState::Carrying => {}
            PathState::Dead if path.crawled => self.set_state(at, PathState::Trial),
            PathState::Untried | PathState::Standby | PathState::Dead => {
                path.dead_pause.reset();
                path.owing = None;
                self.set_state(at, PathState::Carrying);
                self.share_out();
            }
        }
    }

    /// Handles a lane that could not be opened, or is closed. After a failure its path is not
    /// dialled for some time.
    pub fn handle_down(&mut self, now: Instant, lane: LaneId, failed: bool) {
        let Some(at) = self.path_of(lane) else { return };
        let several = self.paths.len() > 1;
        let path = &mut self.paths[at];
        path.to_cut.retain(|known| *known != lane);
        let ours = path.cut.iter().position(|known| *known == lane);
        if let Some(ours) = ours {
            path.cut.swap_remove(ours);
        }
        let last = path.lanes.open().all(|open| open == lane);
        if several && failed && ours.is_none() && last {
            path.lanes.handle_down(now, lane, false);
            // If several lanes were dialled at once, the last one counts.
            if path.state != PathState::Dead || path.lanes.is_empty() {
                self.give_up(now, at, PathState::Dead);
            }
        } else {
            path.lanes.handle_down(now, lane, failed && ours.is_none());
        }
    }

    /// Dials no lane over any path before `until`.
    pub fn hold(&mut self, until: Instant) {
        self.paths.iter_mut().for_each(|path| path.lanes.hold(until));
    }

    /// Sets the bytes that a lane has carried in all.
    pub fn handle_bytes(&mut self, lane: LaneId, carried: u64) {
        let Some(at) = self.path_of(lane) else { return };
        self.paths[at].lanes.handle_bytes(lane, carried);
    }

    /// Handles a late lane whose items others would bring sooner: it is cut, and its path is not
    /// dialled for some time, though nothing is wrong with it.
    pub fn handle_late(&mut self, now: Instant, lane: LaneId) {
        let Some(at) = self.path_of(lane) else { return };
        let path = &mut self.paths[at];
        if !path.cut.contains(&lane) && !path.to_cut.contains(&lane) {
            path.to_cut.push(lane);
            path.late_until = now.plus(LATE_PAUSE);
        }
    }

    /// Says that there is more to fetch than is asked for, so that the number of lanes may be the
    /// limit: see [`LaneMachine::handle_rate`]. The rate is that of TCP. Reads from a slow path
    /// come in strides, and one stride more or less in two seconds makes a greater difference than
    /// lanes do. Call it right after [`PathMachine::handle_tick`].
    pub fn handle_plenty(&mut self, now: Instant) {
        let limits = |path: &&mut Path| path.state == PathState::Carrying && !path.stuck;
        for path in self.paths.iter_mut().filter(limits) {
            let rate = path.rate(now);
            path.lanes.handle_rate(now, rate);
        }
    }

    /// Returns the number of links over which lanes go, or may go as far as is known.
    pub fn links(&self) -> usize {
        let lives = |path: &&Path| path.state != PathState::Dead;
        let links = self.paths.iter().filter(lives).map(|path| path.spec.link);
        links.collect::<BTreeSet<_>>().len()
    }

    /// Examines all paths; call it some times a second. `sight` returns the observation of a path
    /// that has open lanes.
    pub fn handle_tick(&mut self, now: Instant, mut sight: impl FnMut(PathId) -> PathSight) {
        let passed = self.told.map_or(Duration::ZERO, |told| now.since(told));
        self.told = Some(now);
        let sights: Vec<Option<PathSight>> = (0..self.paths.len())
            .map(|at| {
                let open = self.paths[at].lanes.open().next().is_some();
                open.then(|| sight(PathId(at as u16)))
            })
            .collect();
        for (path, seen) in self.paths.iter_mut().zip(&sights) {
            let arrived = seen.map_or(0, |seen| seen.arrived_bytes);
            path.meter.add(now, arrived);
            path.tried.0 += arrived;
            path.stuck = seen.is_some_and(|seen| seen.stuck);
            let waited = passed.as_secs_f64() * 1e6 * seen.map_or(0.0, |seen| seen.held);
            path.waited.add(now, waited as u64);
            path.held = path.waited.rate(now, path.compared_over()) >= HELD * 1e6;
        }
        if !self.has_several() {
            return;
        }
        for at in 0..self.paths.len() {
            match sights[at] {
                Some(seen) => self.judge(now, at, &seen, &sights, passed),
                None => self.paths[at].owing = None,
            }
            self.settle_for_less(now, at);
        }
        if now >= self.share_at {
            self.share_at = now.plus(SHARE_OUT);
            self.share_out();
        }
    }

    fn judge(
        &mut self,
        now: Instant,
        at: usize,
        seen: &PathSight,
        sights: &[Option<PathSight>],
        passed: Duration,
    ) {
        let path = &mut self.paths[at];
        if seen.owed_bytes == 0 || path.held {
            path.owing = None;
        } else {
            path.owing.get_or_insert(now);
        }
        let silent = (SILENT + path.rtt * SILENT_RTTS).min(SILENT_MOST);
        let heard = |(other, seen): (usize, &Option<PathSight>)| {
            other != at
                && self.paths[other].carries()
                && seen.is_some_and(|seen| seen.silence < ALIVE)
        };
        if seen.silence >= silent && sights.iter().enumerate().any(heard) {
            self.give_up(now, at, PathState::Dead);
            return;
        }
        let path = &mut self.paths[at];
        if path.state == PathState::Trial {
            if path.owing.is_some() && !seen.stuck {
                path.tried.1 += passed;
            }
            let enough = (path.usual * TRIAL.as_secs_f64() * TRIAL_SHARE) as u64;
            let (bytes, time) = path.tried;
            let enough = TRIAL_BYTES.min(enough).max(TRIAL_BYTES_LEAST);
            if bytes >= enough && time >= TRIAL_LEAST {
                // The rate before may never be reached again.
                path.usual = path.usual.min(bytes as f64 / time.as_secs_f64());
                path.crawled = false;
                self.set_state(at, PathState::Carrying);
                self.share_out();
            } else if path.tried.1 >= TRIAL + path.rtt * TRIAL_RTTS {
                self.give_up(now, at, PathState::Crawling);
            }
            return;
        }
        let over = path.compared_over();
        let Some(owing) = path.owing.map(|since| now.since(since)).filter(|time| *time >= over)
        else {
            return;
        };
        let rate = path.rate(now);
        if seen.stuck || seen.silence > HEARD + path.rtt * HEARD_RTTS {
            return;
        }
        if path.state == PathState::Carrying && self.crawls(now, at, rate, owing, seen.owed_bytes) {
            self.give_up(now, at, PathState::Crawling);
            return;
        }
        let path = &mut self.paths[at];
        path.usual = (path.usual * FADING).max(rate);
    }

    fn crawls(&self, now: Instant, at: usize, rate: f64, owing: Duration, owed: u64) -> bool {
        let path = &self.paths[at];
        let others = || {
            let others = self.paths.iter().enumerate().filter(|(other, _)| *other != at);
            others.map(|(_, path)| path).filter(|path| path.carries())
        };
        let best = others().map(|other| other.rate(now)).fold(0.0, f64::max);
        // A path that is held back by a limit continues, as far as it may.
        let usual: f64 = others().filter(|other| !other.held).map(|other| other.usual).sum();
        let sum: f64 = others().map(|other| other.rate(now)).sum();
        let started = owing >= path.compared_over() + START + path.rtt * START_RTTS;
        let least = CRAWL_BYTES.min(best * CRAWL_OF_BEST);
        let hardly_anything = started && rate.max(path.usual) < least;
        sum > 0.0
            && sum >= usual * OTHERS_GO_ON
            && (hardly_anything || rate < path.usual * CRAWL_OF_OWN)
            && owed as f64 > rate * CRAWL_OWED.as_secs_f64()
    }

    /// Accepts a crawling path where nothing else carries.
    fn settle_for_less(&mut self, now: Instant, at: usize) {
        if self.paths.iter().any(Path::carries) {
            return;
        }
        let path = &mut self.paths[at];
        match path.state {
            PathState::Crawling => path.retry_at = now,
            PathState::Trial if path.lanes.open().next().is_some() => {
                self.set_state(at, PathState::Carrying);
                self.share_out();
            }
            _ => {}
        }
    }

    fn give_up(&mut self, now: Instant, at: usize, state: PathState) {
        let others =
            self.paths.iter().enumerate().any(|(other, path)| other != at && path.carries());
        let path = &mut self.paths[at];
        path.crawled |= state == PathState::Crawling;
        let pause = if path.crawled { &mut path.crawl_pause } else { &mut path.dead_pause };
        let factor = if others || path.crawled { 1 } else { NONE_CARRIES };
        path.retry_at = now.plus(pause.next(&mut self.rng) * factor);
        path.owing = None;
        path.tried = (0, Duration::ZERO);
        path.to_cut = path.lanes.open().filter(|lane| !path.cut.contains(lane)).collect();
        self.set_state(at, state);
        self.share_out();
    }

    fn set_state(&mut self, at: usize, state: PathState) {
        let path = &mut self.paths[at];
        if path.state != state {
            path.state = state;
            self.news.push_back((PathId(at as u16), state));
        }
    }

    /// Assigns each path its share of the lanes: one for a trial if the path was dropped, none if
    /// another path of its link carries.
    fn share_out(&mut self) {
        if self.paths.len() < 2 {
            return;
        }
        let mut links = Vec::new();
        for at in 0..self.paths.len() {
            let path = &self.paths[at];
            let (link, state) = (path.spec.link, path.state);
            if path.is_given_up() {
                continue;
            }
            if links.contains(&link) {
                self.set_state(at, PathState::Standby);
            } else {
                links.push(link);
                if state == PathState::Standby {
                    self.set_state(at, PathState::Untried);
                }
            }
        }
        let mut usable: Vec<usize> = (0..self.paths.len())
            .filter(|at| matches!(self.paths[*at].state, PathState::Untried | PathState::Carrying))
            .collect();
        let weights = self.weights(&usable);
        let weight = |at: usize| weights.get(at).copied().unwrap_or(0.0);
        // Where there are fewer lanes than paths, the fastest get them.
        usable.sort_by(|a, b| weight(*b).total_cmp(&weight(*a)));
        let sum: f64 = usable.iter().map(|at| weight(*at)).sum();
        let LaneLimits { workers, lanes_max, .. } = self.limits;
        let count = usable.len().max(1) as u32;
        for at in 0..self.paths.len() {
            let place = usable.iter().position(|known| *known == at);
            let (workers, lanes_max) = match place {
                Some(place) => {
                    let extra = u32::from((place as u32) < lanes_max % count);
                    let most = lanes_max / count + extra;
                    let share = (f64::from(workers) * weight(at) / sum).round() as u32;
                    // Equal bounds mean that the number is fixed.
                    let share = if workers == lanes_max { most } else { share.max(1) };
                    (share.min(most), most)
                }
                None if self.paths[at].state == PathState::Standby => (0, 0),
                None => (1, 1),
            };
            let limits = LaneLimits { workers, lanes_max, ..self.limits };
            self.paths[at].lanes.handle_limits(limits);
        }
    }

    /// Returns the weights for sharing lanes: by configured rates, or by measured ones where the
    /// difference is too great to come from the number of lanes.
    fn weights(&self, usable: &[usize]) -> Vec<f64> {
        let said: Option<Vec<f64>> = self
            .paths
            .iter()
            .map(|path| path.spec.rate_bits_per_s.map(|rate| rate as f64))
            .collect();
        let per_lane = |path: &Path| path.usual / f64::from(path.lanes.up().max(1));
        let measured = || usable.iter().map(|at| per_lane(&self.paths[*at]));
        let (least, most) =
            measured().fold((f64::MAX, 0.0_f64), |(a, b), rate| (a.min(rate), b.max(rate)));
        if least > 0.0 && most >= 2.0 * least && most.is_finite() {
            return self.paths.iter().map(|path| path.usual.max(1.0)).collect();
        }
        said.unwrap_or_else(|| vec![1.0; self.paths.len()])
    }

    /// Returns the next action, if any. Call again until it returns `None`.
    pub fn poll_action(&mut self, now: Instant) -> Option<PathAction> {
        for at in 0..self.paths.len() {
            let path = &mut self.paths[at];
            if let Some(lane) = path.to_cut.pop() {
                path.cut.push(lane);
                return Some(PathAction::Cut(lane));
            }
            let resting = matches!(path.state, PathState::Dead | PathState::Crawling);
            let waits = resting && (now < path.retry_at || !path.cut.is_empty());
            if waits || now < path.late_until {
                continue;
            }
            match path.lanes.poll_with(now, &mut self.next) {
                Some(LaneAction::Dial(lane)) => {
                    if path.state == PathState::Crawling {
                        path.tried = (0, Duration::ZERO);
                        self.set_state(at, PathState::Trial);
                    }
                    return Some(PathAction::Dial(lane, PathId(at as u16)));
                }
                Some(LaneAction::Drain(lane)) => return Some(PathAction::Drain(lane)),
                None => {}
            }
        }
        None
    }

    /// Returns the next decision about the number of lanes of a path that was not read yet.
    pub fn poll_lane_decision(&mut self) -> Option<(PathId, LaneDecision)> {
        let mut paths = (0_u16..).zip(&mut self.paths);
        paths.find_map(|(at, path)| Some((PathId(at), path.lanes.poll_decision()?)))
    }

    /// Takes the next change of a path's state, if there is one.
    pub fn poll_news(&mut self) -> Option<(PathId, PathState)> {
        self.news.pop_front()
    }

    /// Returns when a lane may be dialled again, if dialling is delayed everywhere.
    pub fn dial_after(&self, now: Instant) -> Option<Instant> {
        let after = |path: &Path| {
            if matches!(path.state, PathState::Dead | PathState::Crawling) {
                return (path.retry_at > now).then_some(path.retry_at);
            }
            path.lanes.dial_after(now)
        };
        let all: Option<Vec<Instant>> = self.paths.iter().map(after).collect();
        all.and_then(|all| all.into_iter().min())
    }

    /// Returns whether a lane is open over any path but this one.
    pub fn has_other(&self, path: PathId) -> bool {
        let other = |(at, _): &(usize, &Path)| *at != usize::from(path.0);
        self.paths.iter().enumerate().filter(other).any(|(_, path)| path.carries())
    }

    /// Returns whether any path but this one may carry: it is open, or was not found to be dead.
    pub fn may_have_other(&self, path: PathId) -> bool {
        let others = self.paths.iter().enumerate().filter(|(at, _)| *at != usize::from(path.0));
        others.map(|(_, path)| path.state).any(|state| state != PathState::Dead)
    }

    /// Returns whether there are several paths.
    pub fn has_several(&self) -> bool {
        self.paths.len() > 1
    }

    /// Returns the state of a path.
    pub fn state(&self, path: PathId) -> PathState {
        self.paths.get(usize::from(path.0)).map_or(PathState::Dead, |path| path.state)
    }

    /// Returns the path of a lane, while it lives.
    pub fn path_of_lane(&self, lane: LaneId) -> Option<PathId> {
        self.path_of(lane).map(|at| PathId(at as u16))
    }

    /// Returns the number of lanes that are open and not draining.
    pub fn up(&self) -> u32 {
        self.paths.iter().map(|path| path.lanes.up()).sum()
    }

    /// Returns all paths, as numbers.
    pub fn ids(&self) -> impl Iterator<Item = PathId> + use<> {
        (0..self.paths.len() as u16).map(PathId)
    }

    fn path_of(&self, lane: LaneId) -> Option<usize> {
        self.paths.iter().position(|path| path.lanes.has(lane))
    }
}

#[cfg(test)]
mod tests;
