//! Number of lanes, and their replacement.
//!
//! Where the round trip is short, the CPU or the storage limits: one lane per worker is best. Over
//! distance a lane is limited by its window, and by losses that halve it. Lanes are therefore added
//! while each addition still brings rate, and removed when it does not. A lane that has lived long
//! is replaced *make before break*: the new one carries before the old one is drained (D6).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use penstock_proto::id::LaneId;
use penstock_proto::units::{GIB, Instant};
use rand::SeedableRng as _;
use rand_chacha::ChaCha8Rng;

use crate::retry::Backoff;

/// Bounds of the number and the life of lanes.
#[derive(Clone, Copy, Debug)]
pub struct LaneLimits {
    /// Initial number of lanes: one per worker.
    pub workers: u32,
    /// Most lanes at a time.
    pub lanes_max: u32,
    /// Bytes after which a lane is replaced; far below the bytes that one AEAD key may protect (RFC
    /// 8446, section 5.5: 2^24.5 full records are about 380 GiB).
    pub lane_bytes_max: u64,
    /// Age after which a lane is replaced.
    pub lane_age_max: Duration,
}

impl Default for LaneLimits {
    fn default() -> Self {
        Self {
            workers: 2,
            lanes_max: 1024,
            lane_bytes_max: 64 * GIB,
            lane_age_max: Duration::from_secs(600),
        }
    }
}

/// Action of the edge on lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneAction {
    /// Dial a new lane, then call [`LaneMachine::handle_up`] or [`LaneMachine::handle_down`].
    Dial(LaneId),
    /// Let a lane finish its requests, then close it.
    Drain(LaneId),
}

/// The reason for another number of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneReason {
    /// The round trip shows that the hosts are far from each other.
    Distance,
    /// The bounds of the number are others.
    Bounds,
    /// The machine tries whether more lanes bring more.
    Trial,
    /// The lanes that were tried have brought nothing.
    NoGain,
}

impl LaneReason {
    /// Returns the reason in words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Distance => "the hosts are far from each other",
            Self::Bounds => "the bounds of their number have changed",
            Self::Trial => "it is tried whether more of them bring more",
            Self::NoGain => "more of them have brought nothing",
        }
    }
}

/// A decision about the number of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneDecision {
    /// Number of lanes that were wanted before.
    pub before: u32,
    /// Number of lanes that are wanted now.
    pub wanted: u32,
    /// The reason.
    pub reason: LaneReason,
}

/// Decisions that wait for a reader. Without one the oldest go.
const DECISIONS_MAX: usize = 8;

/// Round trip below which two hosts count as one site: the network does not limit a lane.
const NEAR: Duration = Duration::from_millis(2);
/// Initial number of lanes over distance.
const FAR_LANES: u32 = 8;
/// Time before more lanes than at the beginning are tried: a new lane starts slowly, and the end of
/// a short transfer would wait for it.
const FIRST_PROBE: Duration = Duration::from_secs(5);
/// Time for which more lanes are tried. Rates are of the last two seconds, and the first bytes of a
/// new lane fill a buffer, and prove nothing.
const PROBE: Duration = Duration::from_secs(4);
/// Time after a useless trial during which the rate is still of the lanes that were tried.
const AFTER_PROBE: Duration = Duration::from_secs(3);
/// Pause after that until the next trial; it doubles each time.
const PAUSE: Duration = Duration::from_secs(4);
const PAUSE_DOUBLINGS: u32 = 4;
/// Factor by which added lanes must exceed the best rate of fewer lanes to be kept. Rates fluctuate
/// by more than that, and a comparison with a low moment proves no gain.
const GAIN: f64 = 1.08;
/// Bytes in flight of a lane below which it does not limit: four packets of Ethernet. Fewer packets
/// cannot detect a loss but by waiting (three repeated acknowledgements, RFC 5681), and BBR never
/// sends fewer (`bbr_cwnd_min_target` in Linux). More lanes only overrun the queue of such a path.
const UNDER_WAY_LEAST: f64 = 4.0 * 1448.0;
/// Factor by which the best rate of fewer lanes fades each time that more brought nothing: a path
/// may never repeat a rate that it had once.
const FADING: f64 = 0.8;
/// Pauses between failed dials.
const BACKOFF_LEAST: Duration = Duration::from_millis(100);
const BACKOFF_MOST: Duration = Duration::from_secs(15);

#[derive(Debug)]
struct Lane {
    up_since: Option<Instant>,
    bytes: u64,
    draining: bool,
}

/// Decides the number of lanes.
#[derive(Debug)]
pub struct LaneMachine {
    limits: LaneLimits,
    lanes: BTreeMap<LaneId, Lane>,
    next: u32,
    wanted: u32,
    rtt: Option<Duration>,
    backoff: Backoff,
    dial_after: Instant,
    rng: ChaCha8Rng,
    probe_at: Option<Instant>,
    probe: Option<Probe>,
    /// The best rate of lanes that were kept, fading.
    best: f64,
    /// Time until which rates are not of lanes that were kept.
    best_from: Instant,
    /// Number of times that more lanes brought nothing.
    settled: u32,
    /// Decisions that were not read yet.
    decisions: VecDeque<LaneDecision>,
}

#[derive(Debug)]
struct Probe {
    /// Number of lanes before.
    before: u32,
}

impl LaneMachine {
    /// Returns a machine without lanes.
    pub fn new(limits: LaneLimits, seed: u64) -> Self {
        Self {
            limits,
            lanes: BTreeMap::new(),
            next: 0,
            wanted: limits.workers.clamp(1, limits.lanes_max.max(1)),
            rtt: None,
            backoff: Backoff::new(BACKOFF_LEAST, BACKOFF_MOST),
            dial_after: Instant(0),
            rng: ChaCha8Rng::seed_from_u64(seed),
            probe_at: None,
            probe: None,
            best: 0.0,
            best_from: Instant(0),
            settled: 0,
            decisions: VecDeque::new(),
        }
    }

    /// Handles a measured round trip.
    pub fn handle_rtt(&mut self, rtt: Duration) {
        let far_before = self.rtt.is_some_and(|known| known >= NEAR);
        let least = self.rtt.map_or(rtt, |known| known.min(rtt));
        self.rtt = Some(least);
        if least >= NEAR && !far_before {
            let wanted = self.wanted.max(FAR_LANES).min(self.limits.lanes_max);
            self.want(wanted, LaneReason::Distance);
        }
    }

    fn want(&mut self, wanted: u32, reason: LaneReason) {
        let before = std::mem::replace(&mut self.wanted, wanted);
        if before != wanted {
            self.decisions.push_back(LaneDecision { before, wanted, reason });
        }
        if self.decisions.len() > DECISIONS_MAX {
            self.decisions.pop_front();
        }
    }

    /// Returns the next decision about the number of lanes that was not read yet.
    pub(crate) fn poll_decision(&mut self) -> Option<LaneDecision> {
        self.decisions.pop_front()
    }

    /// Sets other bounds: lanes above them are drained; no lane remains if `lanes_max` is 0.
    pub(crate) fn handle_limits(&mut self, limits: LaneLimits) {
        let (before, most) = (self.limits, limits.lanes_max);
        if (before.workers, before.lanes_max) == (limits.workers, most) {
            return;
        }
        self.limits = limits;
        // Lanes that have not proved useful yet are dropped.
        let kept = self.probe.take().map_or(self.wanted, |probe| probe.before);
        self.best = 0.0;
        let begin = limits.workers.min(most);
        let far = self.rtt.is_some_and(|rtt| rtt >= NEAR);
        // The result of earlier trials on a path is kept.
        let found = if far && before.lanes_max > 1 { kept.max(FAR_LANES) } else { 0 };
        let begin = if far { begin.max(FAR_LANES) } else { begin };
        self.want(begin.max(found).min(most), LaneReason::Bounds);
    }

    /// Sets the longest delay before a failed dial is repeated.
    pub(crate) fn set_patience(&mut self, most: Duration) {
        self.backoff = Backoff::new(BACKOFF_LEAST, most);
    }

    /// Handles a dialled lane that is open.
    pub fn handle_up(&mut self, now: Instant, lane: LaneId) {
        self.backoff.reset();
        if let Some(lane) = self.lanes.get_mut(&lane) {
            lane.up_since = Some(now);
        }
    }

    /// Handles a lane that could not be opened, or is closed. After a failure no lane is dialled
    /// for some time.
    pub fn handle_down(&mut self, now: Instant, lane: LaneId, failed: bool) {
        self.lanes.remove(&lane);
        if failed {
            self.dial_after = self.dial_after.max(now.plus(self.backoff.next(&mut self.rng)));
        }
    }

    /// Dials no lane before `until`.
    pub(crate) fn hold(&mut self, until: Instant) {
        self.dial_after = self.dial_after.max(until);
    }

    /// Sets the bytes that a lane has carried in all.
    pub fn handle_bytes(&mut self, lane: LaneId, bytes: u64) {
        if let Some(lane) = self.lanes.get_mut(&lane) {
            lane.bytes = bytes;
        }
    }

    /// Handles the rate over all lanes in bytes per second, the mean over about two seconds, while
    /// there was enough to fetch; called some times a second. Adds lanes over distance as long as
    /// that helps, and each has some packets in flight.
    pub fn handle_rate(&mut self, now: Instant, rate: f64) {
        let Some(rtt) = self.rtt.filter(|rtt| *rtt >= NEAR && rate > 0.0) else { return };
        if self.probe.is_none() && now >= self.best_from {
            self.best = self.best.max(rate);
        }
        let due = *self.probe_at.get_or_insert(now.plus(FIRST_PROBE));
        if now < due {
            return;
        }
        self.probe_at = Some(now.plus(PROBE));
        match self.probe.take() {
            Some(probe) if rate < self.best * GAIN => {
                self.want(probe.before, LaneReason::NoGain);
                (self.best, self.best_from) = (self.best * FADING, now.plus(AFTER_PROBE));
                let pause = PAUSE * 2u32.pow(self.settled.min(PAUSE_DOUBLINGS));
                self.probe_at = Some(now.plus(AFTER_PROBE + pause));
                self.settled += 1;
            }
            _ => {
                self.best = self.best.max(rate);
                if rate * rtt.as_secs_f64() < f64::from(self.wanted) * UNDER_WAY_LEAST {
                    return;
                }
                self.probe = Some(Probe { before: self.wanted });
                let more = self.wanted + self.wanted.div_ceil(2);
                self.want(more.min(self.limits.lanes_max.max(1)), LaneReason::Trial);
            }
        }
    }

    /// Returns the next action, if any. Call again until it returns `None`.
    pub fn poll_action(&mut self, now: Instant) -> Option<LaneAction> {
        let mut next = self.next;
        let action = self.poll_with(now, &mut next);
        self.next = next;
        action
    }

    /// Returns the next action, with the numbers of lanes drawn from `next`.
    pub(crate) fn poll_with(&mut self, now: Instant, next: &mut u32) -> Option<LaneAction> {
        let carrying = |lane: &&Lane| !lane.draining && !self.is_old(now, lane);
        let fresh = self.lanes.values().filter(carrying).count() as u32;
        if fresh < self.wanted && now >= self.dial_after {
            let lane = LaneId(*next);
            *next += 1;
            debug_assert!(!self.lanes.contains_key(&lane), "{lane:?} is dialled twice");
            self.lanes.insert(lane, Lane { up_since: None, bytes: 0, draining: false });
            return Some(LaneAction::Dial(lane));
        }
        let up =
            self.lanes.values().filter(|lane| carrying(lane) && lane.up_since.is_some()).count()
                as u32;
        let (limit, enough) = (self.limits, up >= self.wanted);
        let surplus = up > self.wanted;
        let drained = self.lanes.iter_mut().find(|(_, lane)| {
            let old = is_old(&limit, now, lane);
            !lane.draining && lane.up_since.is_some() && ((old && enough) || (!old && surplus))
        })?;
        drained.1.draining = true;
        Some(LaneAction::Drain(*drained.0))
    }

    fn is_old(&self, now: Instant, lane: &Lane) -> bool {
        is_old(&self.limits, now, lane)
    }

    /// Returns when a lane may be dialled again, if dialling is delayed.
    pub fn dial_after(&self, now: Instant) -> Option<Instant> {
        (self.dial_after > now).then_some(self.dial_after)
    }

    /// Returns whether `lane` is one of its lanes.
    pub(crate) fn has(&self, lane: LaneId) -> bool {
        self.lanes.contains_key(&lane)
    }

    /// Returns whether it has no lane, open or being dialled.
    pub(crate) fn is_empty(&self) -> bool {
        self.lanes.is_empty()
    }

    /// Returns its lanes that are open.
    pub(crate) fn open(&self) -> impl Iterator<Item = LaneId> {
        self.lanes.iter().filter(|(_, lane)| lane.up_since.is_some()).map(|(lane, _)| *lane)
    }

    /// Returns the number of lanes that are open and not draining.
    pub fn up(&self) -> u32 {
        self.lanes.values().filter(|lane| lane.up_since.is_some() && !lane.draining).count() as u32
    }
}

fn is_old(limits: &LaneLimits, now: Instant, lane: &Lane) -> bool {
    lane.up_since.is_some_and(|since| {
        now.since(since) >= limits.lane_age_max || lane.bytes >= limits.lane_bytes_max
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Instant {
        Instant(seconds * 1_000_000_000)
    }

    fn dial_all(machine: &mut LaneMachine, now: Instant) -> Vec<LaneId> {
        let mut dialled = Vec::new();
        while let Some(action) = machine.poll_action(now) {
            match action {
                LaneAction::Dial(lane) => dialled.push(lane),
                LaneAction::Drain(lane) => panic!("{lane:?} drained"),
            }
        }
        dialled
    }

    /// D6: an old lane is drained only once its successor is up: make before break.
    #[test]
    fn d6_a_lane_is_replaced_make_before_break() {
        let limits = LaneLimits { workers: 1, ..LaneLimits::default() };
        let mut machine = LaneMachine::new(limits, 1);
        let [first] = dial_all(&mut machine, seconds(0))[..] else { panic!("one lane") };
        machine.handle_up(seconds(0), first);
        assert_eq!(machine.poll_action(seconds(599)), None);
        let [second] = dial_all(&mut machine, seconds(600))[..] else { panic!("one more") };
        assert_eq!(machine.poll_action(seconds(600)), None, "the successor is not up yet");
        machine.handle_up(seconds(601), second);
        assert_eq!(machine.poll_action(seconds(601)), Some(LaneAction::Drain(first)));
        assert_eq!(machine.poll_action(seconds(601)), None);
    }

    /// Promise (f): a source that refuses connections is dialled again, but not in a storm (E4).
    #[test]
    fn e4_failed_dials_are_spaced() {
        let mut machine = LaneMachine::new(LaneLimits::default(), 1);
        let mut now = seconds(0);
        let mut dials = 0;
        while now < seconds(60) {
            for lane in dial_all(&mut machine, now) {
                dials += 1;
                machine.handle_down(now, lane, true);
            }
            now = now.plus(Duration::from_millis(10));
        }
        assert!((5..200).contains(&dials), "{dials} dials in a minute");
    }

    /// Promise: equal bounds fix the number of lanes by hand, near and far, at any rates.
    #[test]
    fn a_fixed_number_of_lanes_is_kept() {
        for (lanes, rtt_us) in [(1, 100), (3, 90_000), (1000, 100), (1000, 90_000)] {
            let limits = LaneLimits { workers: lanes, lanes_max: lanes, ..LaneLimits::default() };
            let mut machine = LaneMachine::new(limits, 1);
            for second in 0..60 {
                for lane in dial_all_or_drain(&mut machine, seconds(second)) {
                    machine.handle_up(seconds(second), lane);
                    machine.handle_rtt(Duration::from_micros(rtt_us));
                }
                assert_eq!(machine.up(), lanes, "after {second} s");
                machine.handle_rate(seconds(second), (second * 10_000_000) as f64);
            }
        }
    }

    /// Promise: each change of the number of lanes has a reason, in order; unread decisions are
    /// bounded.
    #[test]
    fn another_number_of_lanes_has_a_reason() {
        let mut machine = LaneMachine::new(LaneLimits::default(), 1);
        machine.handle_rtt(Duration::from_millis(90));
        let mut reasons = Vec::new();
        for second in 0..40 {
            for lane in dial_all_or_drain(&mut machine, seconds(second)) {
                machine.handle_up(seconds(second), lane);
            }
            machine.handle_rate(seconds(second), 1e8);
            while let Some(decision) = machine.poll_decision() {
                assert_ne!(decision.before, decision.wanted);
                reasons.push(decision.reason);
            }
        }
        let first = [LaneReason::Distance, LaneReason::Trial, LaneReason::NoGain];
        assert_eq!(reasons[..3], first, "{reasons:?}");
        for most in 1..100 {
            let limits = LaneLimits { workers: most, lanes_max: most, ..LaneLimits::default() };
            machine.handle_limits(limits);
        }
        let left = std::iter::from_fn(|| machine.poll_decision()).count();
        assert_eq!(left, DECISIONS_MAX);
    }

    /// Lanes are added over distance while that brings rate, and the last step is undone.
    #[test]
    fn lanes_follow_the_gain() {
        let mut machine = LaneMachine::new(LaneLimits::default(), 1);
        machine.handle_rtt(Duration::from_millis(90));
        let mut now = seconds(0);
        for _ in 0..60 {
            for lane in dial_all_or_drain(&mut machine, now) {
                machine.handle_up(now, lane);
            }
            let rate = f64::from(machine.up().min(20)) * 10e6;
            machine.handle_rate(now, rate);
            now = now.plus(Duration::from_secs(1));
        }
        // More may be tried at this moment.
        let kept = machine.probe.as_ref().map_or(machine.wanted, |probe| probe.before);
        assert!((18..=40).contains(&kept), "{kept} lanes");
    }

    /// Promise: a slow path, whose lanes have only some packets under way each, gets no more lanes,
    /// however its rate varies: their packets would overrun its queue, and be sent again.
    #[test]
    fn a_slow_path_is_not_given_more_lanes() {
        let mut machine = LaneMachine::new(LaneLimits::default(), 1);
        machine.handle_rtt(Duration::from_millis(10));
        for second in 0..600 {
            for lane in dial_all(&mut machine, seconds(second)) {
                machine.handle_up(seconds(second), lane);
            }
            machine.handle_rate(seconds(second), 2e6 + (second % 9) as f64 * 2e5);
        }
        assert_eq!(machine.up(), FAR_LANES);
    }

    /// Promise: where the way has become worse, so that more lanes would bring more, they come,
    /// though the rate was better before.
    #[test]
    fn lanes_come_when_the_way_gets_worse() {
        let mut machine = LaneMachine::new(LaneLimits::default(), 1);
        machine.handle_rtt(Duration::from_millis(90));
        let mut rates = std::collections::VecDeque::from([0.0; 10]);
        for step in 0..5 * 300_u32 {
            let now = Instant(u64::from(step) * 200_000_000);
            for lane in dial_all_or_drain(&mut machine, now) {
                machine.handle_up(now, lane);
            }
            let (lane_rate, link) = if step < 5 * 10 { (20e6, 160e6) } else { (5e6, 160e6) };
            rates.push_back((f64::from(machine.up()) * lane_rate).min(link));
            rates.pop_front();
            machine.handle_rate(now, rates.iter().sum::<f64>() / 10.0);
        }
        assert!(machine.up() >= 27, "{} lanes", machine.up());
    }

    fn dial_all_or_drain(machine: &mut LaneMachine, now: Instant) -> Vec<LaneId> {
        let mut dialled = Vec::new();
        while let Some(action) = machine.poll_action(now) {
            match action {
                LaneAction::Dial(lane) => dialled.push(lane),
                LaneAction::Drain(lane) => machine.handle_down(now, lane, false),
            }
        }
        dialled
    }
}
