//! Flow over one path: its rate, and the bytes that may be asked for ahead.

use std::collections::VecDeque;
use std::time::Duration;

use penstock_proto::units::{Instant, MIB};

/// Least bytes that may be asked for at a time where the path is unknown, or short.
const ASKED_BYTES_FLOOR: u64 = 32 * MIB;
/// Least bytes over distance: as many as half a round trip at 1 Gbit/s and 90 ms carries.
const FAR_ASKED_BYTES_FLOOR: u64 = 6 * MIB;
/// Bytes to ask for over distance, in bandwidth-delay products, beside one request per lane: while
/// the rate still follows, and when it does not. Measured in docs/design/0007.
const FAR_GAIN_GROWING: f64 = 1.6;
const FAR_GAIN: f64 = 1.5;
/// Limit of these together, for any number of lanes: with the path's queue as deep as it should be
/// (one product), nothing is dropped below 2.
const FAR_GAIN_MOST: f64 = 1.8;
/// Bytes to ask for over distance, in products of the last tenth of a second, while a path rises
/// for the first time: as much as comes if it doubles once more, as in TCP's start.
const FAR_GAIN_RISING: f64 = 2.0;
/// Bytes to ask for in addition, in products, if all bytes that come wait for lost segments: they
/// are at the receiver, and neither path nor queue hold them. A lost segment comes again a round
/// trip and up to a quarter later (RFC 8985). With less, the rate falls, and with it the bytes
/// asked for (docs/design/0007).
const FAR_GAIN_BEHIND: f64 = 1.0;
/// Least round trip at which asking is limited.
const FAR: Duration = Duration::from_millis(2);
/// Requests into which a lane's share is cut over distance, if they are not too small then.
const SHARE_CUTS: u64 = 8;
/// Most that may be asked for at a time: twice 400 Gbit/s over 200 ms.
const ASKED_BYTES_CEILING: u64 = 20_000 * MIB;
/// Duration of a request where there are several near paths: it has the bytes that its path carries
/// in this time, so that no path has a long request at the end.
const NEAR_CUT: Duration = Duration::from_millis(25);
/// Time ahead for which is asked there, at least [`NEAR_AHEAD_BYTES`].
const NEAR_AHEAD: Duration = Duration::from_millis(100);
const NEAR_AHEAD_BYTES: u64 = 4 * MIB;
/// Time ahead for which is asked at most, near or far, where there are several paths and the rate
/// is known; one request of each lane comes on top. A slow path must not delay the end with bytes
/// that a fast one would have brought.
const SLOW_AHEAD: Duration = Duration::from_secs(1);
/// Time whose bytes each of several target peers holds, and half as much again; it asks for the
/// bytes of the second time. The rest may be given to others, so that no limit and no slow path
/// makes them wait for pieces that a peer holds and does not fetch (B3).
const SHARED_HELD: Duration = Duration::from_millis(1500);
const SHARED_AHEAD: Duration = Duration::from_millis(250);
/// Least bytes of each, on all paths together.
const SHARED_HELD_FLOOR: u64 = 2 * MIB;
const SHARED_AHEAD_FLOOR: u64 = MIB;
/// Bytes of each before the rate is known.
const SHARED_HELD_FIRST: u64 = 8 * MIB;
const SHARED_AHEAD_FIRST: u64 = 4 * MIB;
/// Requests at a time on a path that is on trial.
const TRIAL_REQUESTS: usize = 2;

/// State of one path for the requests over it.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    rtt: Option<Duration>,
    rate: RateMeter,
    /// Bytes that are asked for and have not come.
    pub(crate) asked_bytes: u64,
    asked: u64,
    /// Lanes that are open.
    pub(crate) lanes: u64,
    /// Share of the bytes that came lately and had to wait for a lost segment.
    behind: f64,
    pub(crate) on_trial: bool,
    /// True if other peers could do the work held here.
    pub(crate) is_shared: bool,
    /// True if its requests were taken from it, as others bring the rest sooner.
    pub(crate) is_late: bool,
}

impl Flow {
    pub(crate) fn new(is_shared: bool) -> Self {
        Self { is_shared, ..Self::default() }
    }

    pub(crate) fn handle_rtt(&mut self, rtt: Duration) {
        self.rtt = Some(self.rtt.map_or(rtt, |known| known.min(rtt)));
    }

    pub(crate) fn handle_order(&mut self, segments: u64, behind: u64) {
        if segments > 0 {
            let part = (behind as f64 / segments as f64).min(1.0);
            self.behind += (part - self.behind) / 2.0;
        }
    }

    pub(crate) fn handle_bytes(&mut self, now: Instant, bytes: u64) {
        self.rate.add(now, bytes, self.rtt.unwrap_or_default());
    }

    pub(crate) fn handle_asked(&mut self, now: Instant, bytes: u64) {
        if self.asked == 0 {
            self.rate.rest_until(now);
        }
        self.asked_bytes += bytes;
        self.asked += 1;
    }

    pub(crate) fn handle_answered(&mut self, bytes: u64) {
        debug_assert!(self.asked > 0 && bytes <= self.asked_bytes, "what was not asked for came");
        self.asked_bytes -= bytes;
        self.asked -= 1;
    }

    /// Handles a lane that is lost with its requests.
    pub(crate) fn handle_lane_down(&mut self, bytes: u64, requests: usize) {
        debug_assert!(self.lanes > 0, "a path loses a lane that it did not have");
        debug_assert!(requests as u64 <= self.asked && bytes <= self.asked_bytes);
        self.lanes = self.lanes.saturating_sub(1);
        self.asked_bytes -= bytes;
        self.asked -= requests as u64;
        if self.lanes == 0 {
            // The earlier rate does not predict the later one.
            self.rate = RateMeter::default();
        }
    }

    pub(crate) fn rtt(&self) -> Option<Duration> {
        self.rtt
    }

    /// Returns whether its rate is known.
    pub(crate) fn is_known(&self) -> bool {
        self.rate.is_known()
    }

    /// Returns the bytes per second, mean over the last windows.
    pub(crate) fn rate(&self) -> f64 {
        self.rate.mean()
    }

    /// Returns the bytes that may be asked for at a time over this path, one of `flows`. Over
    /// distance these are the path's content and one request per lane, or twice as much while the
    /// rate still follows.
    pub(crate) fn asked_bytes_max(&self, flows: u64) -> u64 {
        if !self.is_far() {
            let ahead = self.shared_ahead(flows).unwrap_or(u64::MAX);
            return self.ahead_bytes_max(flows).min(ahead);
        }
        // After a lost segment the rate seems to rise, and does not.
        if let Some(rate) = self.rate.rises().filter(|_| self.behind == 0.0) {
            let ahead = self.path_bytes(FAR_GAIN_RISING, rate);
            return ahead.clamp(self.far_floor(flows), ASKED_BYTES_CEILING);
        }
        let gain = if self.rate.follows() { FAR_GAIN_GROWING } else { FAR_GAIN };
        let waits = FAR_GAIN_BEHIND * self.behind;
        let path = |gain: f64| self.path_bytes(gain + waits, self.rate.held());
        // While a lane receives one answer, the request for the next is on its way.
        let request = self.asked_bytes / self.asked.max(1);
        let ahead = path(gain) + request * self.lanes;
        let ahead = ahead.min(path(FAR_GAIN_MOST));
        ahead.clamp(self.far_floor(flows), ASKED_BYTES_CEILING)
    }

    /// Returns the least bytes to ask for over distance. Where others could do the work, this is no
    /// more than arrives in a round trip and a short time. It suffices to find out whether more
    /// would come.
    fn far_floor(&self, flows: u64) -> u64 {
        let ahead = self.shared_ahead(flows).map(|near| near + self.path_bytes(1.0, self.top()));
        let level = flows > 1 && self.rate.is_known() && !self.rate.follows();
        let slow = level.then(|| self.slow_ahead() + self.path_bytes(FAR_GAIN_MOST, self.top()));
        ahead.or(slow).unwrap_or(u64::MAX).min(FAR_ASKED_BYTES_FLOOR)
    }

    /// Returns the bytes that it brings in [`SLOW_AHEAD`].
    fn slow_ahead(&self) -> u64 {
        (self.rate() * SLOW_AHEAD.as_secs_f64()) as u64
    }

    /// Returns the bytes that may be asked for ahead of a path for the sake of others; `None` if
    /// there are no others.
    fn shared_ahead(&self, flows: u64) -> Option<u64> {
        let brings = (self.top() * SHARED_AHEAD.as_secs_f64()) as u64;
        self.is_shared.then(|| match self.rate.is_known() {
            true => brings.max(SHARED_AHEAD_FLOOR / flows),
            false => SHARED_AHEAD_FIRST / flows,
        })
    }

    /// Returns the bytes of pieces that are held for this path, asked for or not. Never less than
    /// the bytes asked for, so that none of many paths with many lanes finds the queue empty.
    pub(crate) fn held_bytes_max(&self, flows: u64) -> u64 {
        self.ahead_bytes_max(flows).max(self.asked_bytes)
    }

    /// Returns the bytes held, independent of those asked for: near, these follow it.
    fn ahead_bytes_max(&self, flows: u64) -> u64 {
        let path = self.path_bytes(2.0, self.top());
        let most = match (self.is_shared, self.rate.is_known()) {
            (false, _) => ASKED_BYTES_FLOOR / flows,
            (true, false) => SHARED_HELD_FIRST / flows,
            (true, true) => {
                let brings = (self.top() * SHARED_HELD.as_secs_f64()) as u64;
                brings.max(SHARED_HELD_FLOOR / flows).min(ASKED_BYTES_FLOOR / flows)
            }
        };
        (most + path).min(ASKED_BYTES_CEILING)
    }

    /// Returns the greatest rate of the last windows.
    fn top(&self) -> f64 {
        self.rate.greatest()
    }

    /// Returns the bytes that each of `lanes` may ask for at a time, and the most bytes of a
    /// request. Requests are multiples of `floor`, or whole pieces.
    pub(crate) fn share_of_lane(&self, lanes: u64, flows: u64, floor: u64) -> (u64, u64) {
        let whole = |bytes: u64| (bytes / floor * floor).max(floor);
        let share = self.asked_bytes_max(flows) / lanes;
        if self.on_trial {
            return (share, floor);
        }
        if self.is_far() {
            return (share, whole(share / SHARE_CUTS));
        }
        // The mean is used: a queue that fills at the start is no rate.
        let carries = |time: Duration| (self.rate() * time.as_secs_f64()) as u64 / lanes;
        if flows == 1 {
            // Slow lanes do one piece together rather than one each.
            let cut = if self.is_shared { whole(carries(SHARED_AHEAD)) } else { u64::MAX };
            return (share, cut);
        }
        let least = if self.is_known() { self.slow_ahead() } else { u64::MAX };
        let least = least.min(NEAR_AHEAD_BYTES) / lanes;
        (carries(NEAR_AHEAD).max(least).min(share), whole(carries(NEAR_CUT)))
    }

    /// Returns whether a lane with open `requests` for `bytes` has enough, if the next request is
    /// for `next` bytes. `flows` is the number of paths. With several paths, one long request is
    /// enough for a near lane, since another path can take the rest.
    pub(crate) fn is_deep(
        &self,
        (requests, bytes): (usize, u64),
        next: u64,
        share: u64,
        flows: u64,
    ) -> bool {
        if self.on_trial {
            requests >= TRIAL_REQUESTS
        } else if self.is_far() {
            requests >= 1 && bytes + next / 2 > share
        } else {
            requests >= if flows > 1 || self.is_shared { 1 } else { 2 } && bytes >= share
        }
    }

    fn path_bytes(&self, gain: f64, rate: f64) -> u64 {
        (gain * rate * self.rtt.unwrap_or_default().as_secs_f64()) as u64
    }

    fn is_far(&self) -> bool {
        self.rtt.is_some_and(|rtt| rtt >= FAR)
    }
}

/// Rates of the last windows, each of 100 ms, one round trip or more, without the time in which
/// nothing was asked for.
#[derive(Debug, Default)]
pub(crate) struct RateMeter {
    since: Option<Instant>,
    /// Time at which bytes came last.
    last: Option<Instant>,
    bytes: u64,
    windows: VecDeque<f64>,
    /// Length of each window, in seconds.
    lengths: VecDeque<f64>,
    /// The rate that a later one must beat by a quarter to be called growth.
    base: f64,
    /// Windows in a row without growth.
    level: u32,
    /// True if it was level once.
    has_risen: bool,
}

impl RateMeter {
    const WINDOW: Duration = Duration::from_millis(100);
    const WINDOWS: usize = 20;
    /// Least growth that counts (as in BBR's start-up, draft-ietf-ccwg-bbr, section 5.3.1.2); three
    /// windows without it end the start.
    const GROWTH: f64 = 1.25;
    const LEVEL: u32 = 3;
    /// Growth of a window over the one before that shows that the path still doubles.
    const RISE: f64 = 1.4;

    pub(crate) fn add(&mut self, now: Instant, bytes: u64, rtt: Duration) {
        let since = *self.since.get_or_insert(now);
        self.last = Some(now);
        self.bytes += bytes;
        let passed = now.since(since);
        if passed < Self::WINDOW.max(rtt) {
            return;
        }
        self.windows.push_back(self.bytes as f64 / passed.as_secs_f64());
        self.lengths.push_back(passed.as_secs_f64());
        if self.windows.len() > Self::WINDOWS {
            self.windows.pop_front();
            self.lengths.pop_front();
        }
        let held = self.held();
        if held >= self.base * Self::GROWTH {
            (self.base, self.level) = (held, 0);
        } else {
            self.level += 1;
            self.has_risen |= !self.follows();
        }
        self.since = Some(now);
        self.bytes = 0;
    }

    /// Skips the time from the last byte until now, in which nothing was asked for.
    fn rest_until(&mut self, now: Instant) {
        if let (Some(since), Some(last)) = (self.since, self.last)
            && now > last
        {
            self.since = Some(since.plus(now.since(last)));
            self.last = Some(now);
        }
    }

    /// Returns whether a window has passed.
    pub(crate) fn is_known(&self) -> bool {
        !self.windows.is_empty()
    }

    pub(crate) fn greatest(&self) -> f64 {
        self.windows.iter().copied().fold(0.0, f64::max)
    }

    /// Returns the mean over all windows: a slow path has short windows and long ones, as strides
    /// come.
    pub(crate) fn mean(&self) -> f64 {
        let time: f64 = self.lengths.iter().sum();
        let bytes = self.windows.iter().zip(&self.lengths).map(|(rate, time)| rate * time);
        if time > 0.0 { bytes.sum::<f64>() / time } else { 0.0 }
    }

    /// Returns the greatest rate that held: for two windows while it grows, for ten once it is
    /// level. Bytes that wait for a lost packet come all at once when it arrives. A single window
    /// would make them look like a faster path, and with losses in each round trip two would as
    /// well.
    pub(crate) fn held(&self) -> f64 {
        let known = self.windows.len();
        let length = if self.follows() { 2 } else { Self::WINDOWS / 2 }.min(known).max(1);
        let sum = |at: usize| self.windows.range(at..at + length).sum::<f64>();
        (0..(known + 1).saturating_sub(length)).map(sum).fold(0.0, f64::max) / length as f64
    }

    /// Returns the rate of the last window, if it was part of the first rise.
    pub(crate) fn rises(&self) -> Option<f64> {
        let mut latest = self.windows.iter().rev().copied();
        let (last, before) = (latest.next()?, latest.next()?);
        (!self.has_risen && last >= before * Self::RISE).then_some(last)
    }

    /// Returns whether the rate still grows with the bytes asked for.
    pub(crate) fn follows(&self) -> bool {
        self.level < Self::LEVEL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes asked for over a far path of 100 MB/s and 100 ms, in products.
    fn asked(behind: u64) -> f64 {
        let mut flow = Flow::new(false);
        flow.handle_rtt(Duration::from_millis(100));
        for tenth in 0..40 {
            flow.handle_bytes(Instant(tenth * 100_000_000), 10_000_000);
            flow.handle_order(7_000, behind);
        }
        flow.asked_bytes_max(1) as f64 / 10_000_000.0
    }

    /// Promise: the limit of requested bytes does not grow with the bytes requested. Lanes whose
    /// share is the mean of all would otherwise drive each other to gigabytes.
    #[test]
    fn asking_does_not_feed_itself() {
        for rtt in [Duration::from_micros(50), Duration::from_millis(100)] {
            let mut flow = Flow::new(false);
            flow.handle_rtt(rtt);
            flow.lanes = 8;
            (0..8).for_each(|_| flow.handle_asked(Instant(0), 16 * MIB));
            let before = flow.asked_bytes_max(1);
            (0..64).for_each(|_| flow.handle_asked(Instant(0), 16 * MIB));
            assert_eq!(flow.asked_bytes_max(1), before, "{rtt:?}");
        }
    }

    /// Promise: bytes that wait for a lost segment at the receiver are asked for in addition to
    /// those that path and queue hold. Otherwise the window follows the rate down. Without losses
    /// nothing is added, and never more than a product.
    #[test]
    fn what_waits_behind_losses_is_not_in_the_path() {
        let [none, half, all, wrong] = [0, 3_500, 7_000, 70_000].map(asked);
        assert!((none - FAR_GAIN).abs() < 0.01, "{none}");
        assert!((half - FAR_GAIN - 0.5).abs() < 0.01, "{half}");
        assert!((all - FAR_GAIN - 1.0).abs() < 0.01, "{all}");
        assert!((wrong - all).abs() < 0.01, "{wrong}");
    }

    /// Returns a path of 100 ms, and the bytes that may be asked for over it after windows of so
    /// many megabytes each.
    fn asked_after(windows: &[u64], behind: u64) -> u64 {
        let mut flow = Flow::new(false);
        flow.handle_rtt(Duration::from_millis(100));
        flow.handle_order(1_000, behind);
        for (tenth, megabytes) in (0..).zip([0].iter().chain(windows)) {
            flow.handle_bytes(Instant(tenth * 100_000_000), megabytes * 1_000_000);
        }
        flow.asked_bytes_max(1) / 1_000_000
    }

    /// Promise: a path whose rate still doubles has requests for its next rate. A burst on a level
    /// path, or after a loss, does not count as such growth.
    #[test]
    fn only_a_path_that_rises_is_asked_for_twice_what_it_brings() {
        assert_eq!(asked_after(&[10, 20], 0), 40);
        assert_eq!(asked_after(&[10, 20, 40], 0), 80);
        assert_eq!(asked_after(&[10, 20, 20], 0), 32);
        assert!(asked_after(&[10, 20, 20, 20, 20, 20, 40], 0) < 40);
        assert!(asked_after(&[10, 20], 10) < 40);
    }
}
