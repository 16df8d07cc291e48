//! End of a task's work: a slow path starts nothing that others bring sooner, and its outstanding
//! requests are repeated elsewhere.

use std::time::Duration;

use penstock_proto::id::LaneId;
use penstock_proto::units::Instant;

use super::FetchMachine;
use crate::flow::Flow;
use crate::paths::PathId;

/// Factor by which another path must be faster for a path to leave requests to it: the fastest path
/// never leaves any.
const FASTER: f64 = 2.0;
/// Differences of less than this do not count.
const SOONER: Duration = Duration::from_millis(200);
/// Time for which others must have had nothing to do before a slow path loses its requests.
const IDLE: Duration = Duration::from_millis(500);
/// Margin for taking requests from a slow path. They are taken if others would bring them in half
/// the time that the slow path still needs, and this much less. Its lanes are cut, and the bytes
/// that have come of a request are lost.
const LATE: Duration = Duration::from_millis(500);
/// Time that a path with unknown rate has.
const UNKNOWN: Duration = Duration::from_millis(1500);
/// Time for which a path that was late starts nothing, if nothing more is granted.
const RESTS: Duration = Duration::from_secs(10);

impl FetchMachine {
    /// Sets whether this peer wanted more work at this moment than the controller had.
    pub fn handle_dry(&mut self, now: Instant, dry: bool) {
        if dry {
            self.dry.get_or_insert(now);
        } else if self.dry.take().is_some() {
            self.flows.values_mut().for_each(|flow| flow.is_late = false);
        }
    }

    /// Returns whether `path` leaves the next request, for up to `bytes`, to others that bring it,
    /// and everything else, sooner. That ends when the path could have brought it itself: even if
    /// the others are kept from it, it is not delayed for ever.
    pub(super) fn leaves_to_others(&self, now: Instant, path: PathId, bytes: u64) -> bool {
        let (Some(dry), Some(own)) = (self.dry, self.flows.get(&path)) else { return false };
        let others = || self.others_of(path);
        let fastest = others().map(|(_, flow)| flow.rate()).fold(0.0, f64::max);
        if own.is_late && fastest > 0.0 {
            return now.since(dry) < RESTS;
        }
        // A path that brings nothing, as where no file can be read, is left to none that does not
        // bring more: rates of 0 would compare as any other.
        if !own.is_known() || fastest <= 0.0 || fastest < own.rate() * FASTER {
            return false;
        }
        let here = (own.asked_bytes + bytes.min(self.cut_bytes)) as f64 / own.rate();
        let asked: u64 = others().map(|(_, flow)| flow.asked_bytes).sum();
        let rate: f64 = others().map(|(_, flow)| flow.rate()).sum();
        let there = (asked + self.queued_bytes) as f64 / rate;
        here > there + SOONER.as_secs_f64() && now.since(dry).as_secs_f64() < here
    }

    /// Returns the lanes whose answers are the last outstanding ones, if another path has been idle
    /// for some time and would bring them in less than half the time. The edge cuts them. Their
    /// path then starts nothing more.
    pub fn poll_late_lanes(&mut self, now: Instant) -> Vec<LaneId> {
        let Some(dry) = self.dry else { return Vec::new() };
        let idle = now.since(dry);
        if idle < IDLE || !self.queue.is_empty() || !self.retries.is_empty() {
            return Vec::new();
        }
        let late = |(path, own): (&PathId, &Flow)| {
            let free = self.others_of(*path).filter(|(_, flow)| flow.asked_bytes == 0);
            let fastest = free.max_by(|(_, a), (_, b)| a.rate().total_cmp(&b.rate()));
            let (_, other) = fastest.filter(|(_, flow)| flow.rate() > 0.0)?;
            let lanes = self.lanes.values().filter(|load| load.path == *path);
            let arrived: u64 = lanes.map(|load| load.arrived).sum();
            let left = own.asked_bytes.saturating_sub(arrived) as f64;
            let there = left / other.rate() + other.rtt().unwrap_or_default().as_secs_f64();
            let is_late = match own.is_known() {
                true => left / own.rate() > 2.0 * (there + LATE.as_secs_f64()),
                false => idle >= UNKNOWN,
            };
            (own.asked_bytes > 0 && is_late && !own.is_late).then_some(*path)
        };
        let late: Vec<PathId> = self.flows.iter().filter_map(late).collect();
        if late.is_empty() {
            return Vec::new();
        }
        self.dry = Some(now);
        for path in &late {
            if let Some(flow) = self.flows.get_mut(path) {
                flow.is_late = true;
            }
        }
        let owes = |lane: &&LaneId| {
            self.lanes.get(*lane).is_some_and(|load| load.requests > 0 && late.contains(&load.path))
        };
        self.lanes.keys().filter(owes).copied().collect()
    }

    /// Returns the other paths that may carry.
    fn others_of(&self, path: PathId) -> impl Iterator<Item = (&PathId, &Flow)> {
        let may = move |flow: &Flow| flow.lanes > 0 && !flow.on_trial && !flow.is_late;
        self.flows.iter().filter(move |(other, flow)| **other != path && may(flow))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, VecDeque};

    use penstock_proto::slicing::PieceRef;
    use penstock_proto::units::MIB;
    use proptest::prelude::*;

    use super::*;
    use crate::fetch::{Item, Request};

    const STEP: Duration = Duration::from_millis(10);
    const STRIDE: u64 = MIB / 2;
    const PIECE: u64 = 16 * MIB;

    fn extent(piece: u32) -> Item {
        Item {
            piece: PieceRef { page: 0, piece },
            generation: 0,
            fresh: false,
            first_entry: 0,
            end_entry: 1,
            offset: u64::from(piece) * PIECE,
            length: PIECE,
            bytes: PIECE,
            attempt: 1,
        }
    }

    /// Requests of a lane, each with its time and the bytes that have come of it.
    type Asked = VecDeque<(Request, Instant, f64)>;

    /// Paths that carry so many bytes a second, with so many lanes each.
    struct World {
        machine: FetchMachine,
        now: Instant,
        rtt: Duration,
        rates: Vec<f64>,
        lanes: BTreeMap<LaneId, (usize, Asked)>,
        /// Lanes that were cut, and when they are open again.
        cut: Vec<(Instant, usize)>,
        next: u32,
        left: u32,
        carried: Vec<f64>,
        stolen: usize,
    }

    impl World {
        fn new(rates: &[f64], lanes: usize, rtt: Duration, pieces: u32) -> Self {
            let mut machine = FetchMachine::new();
            machine.cut_from(STRIDE);
            machine.expect_paths(rates.len());
            let mut world = Self {
                machine,
                now: Instant(1),
                rtt,
                rates: rates.to_vec(),
                lanes: BTreeMap::new(),
                cut: Vec::new(),
                next: 0,
                left: pieces,
                carried: vec![0.0; rates.len()],
                stolen: 0,
            };
            for path in 0..rates.len() {
                world.machine.handle_rtt_of(PathId(path as u16), rtt);
                (0..lanes).for_each(|_| world.open(path));
            }
            world
        }

        fn open(&mut self, path: usize) {
            let lane = LaneId(self.next);
            self.next += 1;
            self.machine.handle_lane_up_on(self.now, lane, PathId(path as u16));
            self.lanes.insert(lane, (path, Asked::new()));
        }

        fn grant(&mut self) {
            let wanted = self.machine.wanted_bytes();
            let given = self.left.min(wanted.div_ceil(PIECE) as u32);
            for _ in 0..given {
                self.left -= 1;
                self.machine.handle_granted(extent(self.left));
            }
            if wanted > 0 {
                self.machine.handle_dry(self.now, given == 0);
            }
        }

        fn flow(&mut self, path: usize) {
            let of_path = |(_, lane): &(&LaneId, &(usize, Asked))| {
                let begun = lane.1.front().is_some_and(|asked| self.now.since(asked.1) >= self.rtt);
                lane.0 == path && begun
            };
            let busy: Vec<LaneId> = self.lanes.iter().filter(of_path).map(|(id, _)| *id).collect();
            let share = self.rates[path] * STEP.as_secs_f64() / busy.len().max(1) as f64;
            for lane in busy {
                let mut budget = share;
                while budget > 0.0 {
                    budget = self.carry(path, lane, budget);
                }
            }
        }

        /// Carries at most so many bytes of a lane's first requests; returns the rest.
        fn carry(&mut self, path: usize, lane: LaneId, budget: f64) -> f64 {
            let Some((_, asked)) = self.lanes.get_mut(&lane) else { return 0.0 };
            let Some((request, _, come)) = asked.front_mut() else { return 0.0 };
            let (number, bytes, before) = (request.request, request.item.bytes, *come);
            *come = (before + budget).min(bytes as f64);
            let strides = |bytes: f64| (bytes / STRIDE as f64).floor() as u64;
            let (new, over) = (strides(*come) - strides(before), *come);
            self.carried[path] += over - before;
            if new > 0 {
                self.machine.handle_bytes(self.now, lane, new * STRIDE);
            }
            if over < bytes as f64 {
                return 0.0;
            }
            asked.pop_front();
            self.machine.handle_answered(self.now, number, vec![], vec![], bytes);
            // A near lane asks again within the step.
            if self.rtt < STEP {
                self.ask(lane);
            }
            budget - (over - before)
        }

        /// Takes the requests that a lane may make now.
        fn ask(&mut self, lane: LaneId) {
            let Some((_, asked)) = self.lanes.get_mut(&lane) else { return };
            while let Some(request) = self.machine.poll_request(self.now, lane) {
                asked.push_back((request, self.now, 0.0));
            }
        }

        /// Runs one step; returns false at the end.
        fn step(&mut self) -> bool {
            self.now = self.now.plus(STEP);
            self.grant();
            for lane in self.machine.poll_late_lanes(self.now) {
                self.stolen += 1;
                self.machine.handle_lane_down(lane);
                let (path, _) = self.lanes.remove(&lane).unwrap();
                self.cut.push((self.now.plus(Duration::from_secs(3)), path));
            }
            let due: Vec<_> = self.cut.extract_if(.., |(at, _)| *at <= self.now).collect();
            due.into_iter().for_each(|(_, path)| self.open(path));
            let lanes: Vec<LaneId> = self.lanes.keys().copied().collect();
            lanes.into_iter().for_each(|lane| self.ask(lane));
            (0..self.rates.len()).for_each(|path| self.flow(path));
            self.left > 0 || !self.machine.is_idle()
        }

        fn run(&mut self) -> f64 {
            let most = Instant(600_000_000_000);
            while self.step() {
                assert!(self.now < most, "it never ends: {} pieces left", self.left);
            }
            self.now.0 as f64 / 1e9
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        /// Issue 5: a slow path beside a fast one, near or far, carries as much as it can all the
        /// time. Both together lose less than 1.5 s against paths that are always full. Of 600
        /// random cases the worst lost 1.0 s, and carried 0.97 of its slow path's capacity.
        #[test]
        fn a_slow_path_carries_its_share_and_holds_up_no_end(
            fast in 10.0..60.0f64, times in 1.0..50.0f64, far in any::<bool>(), lanes in 1..9usize,
        ) {
            let rates = [fast * 1e6 / times, fast * 1e6];
            let sum: f64 = rates.iter().sum();
            let rtt = if far { Duration::from_millis(20) } else { Duration::from_micros(300) };
            let pieces = (sum * 20.0 / PIECE as f64).ceil();
            let mut world = World::new(&rates, lanes, rtt, pieces as u32);
            let took = world.run();
            let ideal = pieces * PIECE as f64 / sum;
            prop_assert!(took < ideal + 1.5, "{took} s, {ideal} at best");
            let could = rates[0] * took;
            prop_assert!(world.carried[0] > 0.9 * could, "{} of {could}", world.carried[0]);
        }
    }

    /// Issue 5: sixteen paths of 25 Mbit/s that are equally fast are all filled, though each has
    /// eight lanes: more is held than all of them ask for. The rest is round trips, in which all
    /// lanes of this world wait at once.
    #[test]
    fn many_equal_paths_are_filled() {
        let mut world = World::new(&[3.125e6; 16], 8, Duration::from_millis(10), 24);
        while world.left > 0 {
            world.step();
        }
        let could = 3.125e6 * world.now.0 as f64 / 1e9;
        let used: Vec<f64> = world.carried.iter().map(|bytes| bytes / could).collect();
        assert!(used.iter().all(|used| *used > 0.95), "{used:?}");
    }

    /// Promise (f): requests that a slow path leaves to a fast one are not left for ever, even if
    /// the fast one is kept from them. Where more is granted meanwhile, the slow path leaves
    /// nothing.
    #[test]
    fn nothing_is_left_for_ever() {
        let mut world = World::new(&[0.2e6, 50e6], 1, Duration::from_micros(300), 32);
        while world.left > 0 {
            world.step();
        }
        world.machine.handle_dry(world.now, true);
        let slow = *world.lanes.iter().find(|(_, (path, _))| *path == 0).unwrap().0;
        // The slow lane has served its requests, and the fast one asks for no more.
        for (request, ..) in std::mem::take(&mut world.lanes.get_mut(&slow).unwrap().1) {
            let (number, bytes) = (request.request, request.item.bytes);
            world.machine.handle_answered(world.now, number, vec![], vec![], bytes);
        }
        assert!(world.machine.has_queue());
        assert_eq!(world.machine.poll_request(world.now, slow), None);
        let later = world.now.plus(Duration::from_secs(3));
        assert!(world.machine.poll_request(later, slow).is_some());
    }
}
