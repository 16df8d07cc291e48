//! The cause that limits the rate of a transfer, from the time that threads spend on each activity.
//!
//! The activity of the target's lanes is examined first, since each lane either works or waits:
//!
//! ```text
//! sleeps under a limit            → the limit
//! nothing left to ask for         → the scan, the comparison, or the controller
//! … until epochs are durable      → syncs, or names, by the time of the publisher
//! waits for bytes                 → source or network, by the lanes of the source
//! opens, compares, writes         → the target
//! ```
//!
//! A wait for bytes has two parts. The source accounts for the time in which its lanes read, hash
//! and seal. The rest is the network: its capacity, or a round trip. A side whose threads use, or
//! wait for, nearly all of its processors is limited by these, whatever else the threads do. The
//! exception is the work per file: more processors would only hide it.
//!
//! Peers are examined one by one ([`peers::PeerWindow`]) for the processors of those that still
//! work, and for one that is clearly slower.
//!
//! Lanes that are idle while others work, or that wait for a buffer, are not counted.

pub mod peers;

use std::collections::VecDeque;
use std::time::Duration;

use penstock_proto::time_use::bottleneck::{BottleneckCode, Side};
use penstock_proto::time_use::{Activity, TimeUse};
use penstock_proto::units::Instant;

use Activity::{
    Compare, Cpu, CpuWait, Hash, Metadata, Open, Other, Publish, Read, Receive, Seal, Send, Sync,
    WaitDisk, WaitGrant, WaitLimit, WaitMemory, WaitSource, WaitTarget, Write,
};

/// Period of which the present bottleneck is found.
pub const WINDOW: Duration = Duration::from_secs(10);
/// Interval of samples within it.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);
/// Least time of all lanes together from which anything is found.
const LEAST: u64 = 50_000_000;
/// Share of a side's processors from which on they are the bottleneck.
const SATURATED: f64 = 0.75;

/// The time of the threads of one side: sums of all its peers, since the transfer began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideTime {
    /// Time of its lanes.
    pub lanes: TimeUse,
    /// Time of the threads that sync and name the files of lanes; none at a source.
    pub publishers: TimeUse,
    /// Processors that its peers may use, of those that work now; 0 if that is not known.
    pub cores: u32,
}

impl SideTime {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            lanes: self.lanes.since(&earlier.lanes),
            publishers: self.publishers.since(&earlier.publishers),
            cores: self.cores,
        }
    }

    /// Returns the share of its processors that its threads use or wait for; at most 1.
    fn load(&self, elapsed: Duration) -> f64 {
        let used = self.lanes.of(&[Cpu, CpuWait]);
        let used = used.saturating_add(self.publishers.of(&[Cpu, CpuWait]));
        let there = elapsed.as_nanos() as f64 * f64::from(self.cores);
        if there > 0.0 { (used as f64 / there).min(1.0) } else { 0.0 }
    }
}

/// The time of both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideTimes {
    /// The source; `None` if it reports none.
    pub source: Option<SideTime>,
    /// The target.
    pub target: SideTime,
    /// True if one thread reads and writes, at one host: the processor time of both sides is then
    /// in `target`.
    pub is_local: bool,
}

impl SideTimes {
    fn since(&self, earlier: &Self) -> Self {
        let before = earlier.source.unwrap_or_default();
        Self {
            source: self.source.map(|source| source.since(&before)),
            target: self.target.since(&earlier.target),
            is_local: self.is_local,
        }
    }
}

/// The reason for which a controller has no work to grant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Supply {
    /// The list of the source is complete, or its state is not known.
    #[default]
    Whole,
    /// The source is still listed.
    Scanning,
    /// Files at the target are compared with those of the source.
    Comparing,
}

/// A bottleneck.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cause {
    /// The cause.
    pub code: BottleneckCode,
    /// The side of it; `None` where it is between both, or of neither.
    pub at: Option<Side>,
    /// The part of the lanes' time that the cause takes, from 0 to 1. Of processors: the part of
    /// these that is used or waited for.
    pub share: f64,
}

/// Finds the cause that limited a transfer within `elapsed`, in which both sides spent `crews`.
/// Returns `None` if lanes have accounted for next to no time.
pub fn find(crews: &SideTimes, elapsed: Duration, supply: Supply) -> Option<Cause> {
    Diagnosis { crews, elapsed, supply }.find()
}

struct Diagnosis<'a> {
    crews: &'a SideTimes,
    elapsed: Duration,
    supply: Supply,
}

/// The work of a lane at either side.
const WORK: [Activity; 10] = [Read, Hash, Seal, Send, Open, Compare, Write, Metadata, Sync, Other];
/// The work of a lane at the source, but for sending.
const SOURCE_WORK: [Activity; 5] = [Read, Hash, Seal, Metadata, Other];
/// The work that a processor does in any case.
const COMPUTING: [Activity; 4] = [Hash, Seal, Open, Compare];

impl Diagnosis<'_> {
    fn find(&self) -> Option<Cause> {
        let lanes = &self.crews.target.lanes;
        let local = self.crews.source.filter(|_| self.crews.is_local).unwrap_or_default().lanes;
        // While more bytes are expected, written data becomes durable during the wait.
        let (supply, disk) = match self.supply {
            Supply::Whole => (lanes[WaitGrant], lanes[WaitDisk]),
            _ => (lanes.of(&[WaitGrant, WaitDisk]), 0),
        };
        let classes = [
            (lanes[WaitLimit], Class::Limit),
            (supply, Class::Supply),
            (disk, Class::Disk),
            (lanes.of(&[WaitSource, Receive]), Class::Bytes),
            (lanes.of(&WORK).saturating_add(local.of(&WORK)), Class::Work),
        ];
        let all = classes.iter().fold(0, |sum: u64, (time, _)| sum.saturating_add(*time));
        let &(time, class) = classes.iter().max_by_key(|(time, _)| *time)?;
        if all < LEAST {
            return None;
        }
        let share = time as f64 / all as f64;
        match class {
            Class::Limit => Some(Cause { code: BottleneckCode::Limit, at: None, share }),
            Class::Supply if self.publishers_work() => Some(self.disk(share)),
            Class::Supply => Some(Cause { code: self.supply(), at: None, share }),
            Class::Disk => Some(self.disk(share)),
            Class::Bytes => self.bytes(time, share),
            Class::Work if self.crews.is_local => self.local(&local, all),
            Class::Work => self.work(&self.crews.target, Side::Target, all),
        }
    }

    /// Returns whether lanes have no work as names are made beside them, of links and directories.
    fn publishers_work(&self) -> bool {
        let busy = Duration::from_nanos(self.crews.target.publishers.of(&[Publish, Sync]));
        self.supply == Supply::Whole && busy >= self.elapsed / 2
    }

    /// Judges a target whose lanes wait, for a `share` of their time, for the threads that make
    /// durable and name.
    fn disk(&self, share: f64) -> Cause {
        let publishers = &self.crews.target.publishers;
        let causes = [
            (publishers[Sync], BottleneckCode::Durability, Some(Side::Target)),
            (publishers[Publish], BottleneckCode::Metadata, Some(Side::Target)),
            (publishers[WaitLimit], BottleneckCode::Limit, None),
        ];
        let (_, code, at) = greatest(causes);
        Cause { code, at, share }
    }

    fn supply(&self) -> BottleneckCode {
        match self.supply {
            Supply::Whole => BottleneckCode::Grant,
            Supply::Scanning => BottleneckCode::Scan,
            Supply::Comparing => BottleneckCode::Compare,
        }
    }

    /// Judges a target that waits for bytes for `waits` nanoseconds, a `share` of its lanes' time.
    fn bytes(&self, waits: u64, share: f64) -> Option<Cause> {
        let or_source = Cause { code: BottleneckCode::NetworkOrSource, at: None, share };
        let Some(source) = &self.crews.source else { return Some(or_source) };
        let (works, sends) = (source.lanes.of(&SOURCE_WORK), source.lanes[Send]);
        let (asked, held) = (source.lanes[WaitTarget], source.lanes[WaitMemory]);
        if works.max(sends).max(asked).max(held) == 0 {
            // A lane of the source accounts for a call once it returns: this one may hang.
            return Some(or_source);
        }
        // The time of a round trip is in none of them.
        let accounted = works.saturating_add(sends).saturating_add(held);
        let on_the_way = waits.saturating_sub(accounted);
        let network = sends.saturating_add(on_the_way);
        if works >= network {
            return self.work(source, Side::Source, works.saturating_add(network));
        }
        // Two hosts without a free processor wait for each other as over a slow network.
        let sides = [(source, Side::Source), (&self.crews.target, Side::Target)];
        let loads = sides.map(|(crew, side)| (crew.load(self.elapsed), side));
        let full = loads.into_iter().filter(|(load, _)| *load >= SATURATED);
        Some(match full.max_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((load, side)) => Cause { code: BottleneckCode::Cpu, at: Some(side), share: load },
            None => Cause { code: BottleneckCode::Link, at: None, share },
        })
    }

    /// Judges a side whose lanes work, of `all` nanoseconds in which lanes work or wait.
    fn work(&self, crew: &SideTime, side: Side, all: u64) -> Option<Cause> {
        let lanes = &crew.lanes;
        let causes = [
            (lanes[Read], BottleneckCode::Read, Some(Side::Source)),
            (lanes[Write], BottleneckCode::Write, Some(Side::Target)),
            (lanes[Sync], BottleneckCode::Durability, Some(Side::Target)),
            (lanes[Metadata], BottleneckCode::Metadata, Some(side)),
            (lanes.of(&COMPUTING), BottleneckCode::Cpu, Some(side)),
        ];
        Self::of_work(causes, all, (crew.load(self.elapsed), Some(side)))
    }

    /// Judges lanes that read and write at one host; `source` is their time at its source.
    fn local(&self, source: &TimeUse, all: u64) -> Option<Cause> {
        let crew = &self.crews.target;
        let lanes = &crew.lanes;
        let more = if source[Metadata] > lanes[Metadata] { Side::Source } else { Side::Target };
        let metadata = source[Metadata].saturating_add(lanes[Metadata]);
        let causes = [
            (source[Read], BottleneckCode::Read, Some(Side::Source)),
            (lanes[Write], BottleneckCode::Write, Some(Side::Target)),
            (lanes[Sync], BottleneckCode::Durability, Some(Side::Target)),
            (metadata, BottleneckCode::Metadata, Some(more)),
            (source[Hash], BottleneckCode::Cpu, None),
        ];
        Self::of_work(causes, all, (crew.load(self.elapsed), None))
    }

    /// Returns the greatest of some causes. Where the `load` of the processors `of` a side is full,
    /// these are the cause, but for work per file. `None` if no cause took any time.
    fn of_work(causes: [Candidate; 5], all: u64, (load, of): (f64, Option<Side>)) -> Option<Cause> {
        let (time, code, at) = greatest(causes);
        if load >= SATURATED && code != BottleneckCode::Metadata {
            return Some(Cause { code: BottleneckCode::Cpu, at: of, share: load });
        }
        let share = time as f64 / all.max(1) as f64;
        (time > 0).then_some(Cause { code, at, share })
    }
}

/// The time of a cause, and its side.
type Candidate = (u64, BottleneckCode, Option<Side>);

/// Returns the first of the causes that take the most time.
fn greatest<const COUNT: usize>(causes: [Candidate; COUNT]) -> Candidate {
    let first = causes[0];
    causes.into_iter().fold(first, |most, cause| if cause.0 > most.0 { cause } else { most })
}

/// The state of a target lane, by which the cause is looked for.
#[derive(Clone, Copy)]
enum Class {
    Limit,
    Supply,
    Disk,
    Bytes,
    Work,
}

/// The sums of the last [`WINDOW`], the bottleneck that was found in it, and those found before.
#[derive(Debug, Default)]
pub struct BottleneckWindow {
    /// Sums at some moments, oldest first.
    samples: VecDeque<(Instant, SideTimes)>,
    found: Option<Cause>,
    /// The last sums that are counted in `tally`. Lanes account for a long wait at its end, so a
    /// period without figures is counted with the next one.
    counted: Option<(Instant, SideTimes)>,
    /// Each cause that was found between two samples, with its mean share, and for how long.
    tally: Vec<(Cause, Duration)>,
}

impl BottleneckWindow {
    /// Takes the present sums, which may come at any interval. Returns the bottleneck of the
    /// window; the last one that was found, if no lane has accounted for anything since.
    pub fn handle_sums(&mut self, now: Instant, sums: &SideTimes, supply: Supply) -> Option<Cause> {
        match self.samples.back() {
            None => self.samples.push_back((now, *sums)),
            Some((at, _)) if now.since(*at) >= SAMPLE_INTERVAL => {
                self.count(now, sums, supply);
                self.samples.push_back((now, *sums));
            }
            Some(_) => {}
        }
        // The oldest one is at the beginning of the window, or before it.
        while self.samples.get(1).is_some_and(|(at, _)| now.since(*at) >= WINDOW) {
            self.samples.pop_front();
        }
        let (since, before) = self.samples.front()?;
        self.found = find(&sums.since(before), now.since(*since), supply).or(self.found);
        self.found
    }

    fn count(&mut self, now: Instant, sums: &SideTimes, supply: Supply) {
        let (at, before) = self.counted.unwrap_or_else(|| self.samples[0]);
        let since = now.since(at);
        if let Some(found) = find(&sums.since(&before), since, supply) {
            self.add(found, since);
            self.counted = Some((now, *sums));
        }
    }

    /// Counts a cause that held for some time, in an earlier round as well.
    pub fn add(&mut self, found: Cause, time: Duration) {
        let same =
            |(other, _): &&mut (Cause, Duration)| (other.code, other.at) == (found.code, found.at);
        match self.tally.iter_mut().find(same) {
            Some((known, so_far)) => {
                let (old, new) = (so_far.as_secs_f64(), time.as_secs_f64());
                known.share = (known.share * old + found.share * new) / (old + new).max(1e-9);
                *so_far += time;
            }
            None => self.tally.push((found, time)),
        }
    }

    /// Returns the cause that held for the longest time in all; `None` before the second sample.
    pub fn longest(&self) -> Option<Cause> {
        self.tally.iter().max_by_key(|(_, time)| *time).map(|(found, _)| *found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Activity::Idle;
    use BottleneckCode as Code;

    /// Ten seconds, in which each lane accounts for as much.
    const PERIOD: Duration = Duration::from_secs(10);

    /// Returns the time of some activities, in milliseconds.
    fn time(parts: &[(Activity, u64)]) -> TimeUse {
        let mut time = TimeUse::default();
        parts.iter().for_each(|(activity, ms)| time.add(*activity, ms * 1_000_000));
        time
    }

    fn crew(cores: u32, lanes: &[(Activity, u64)]) -> SideTime {
        SideTime { lanes: time(lanes), publishers: TimeUse::default(), cores }
    }

    /// Returns the times of two sites of eight processors each, and two lanes.
    fn between(source: &[(Activity, u64)], target: &[(Activity, u64)]) -> SideTimes {
        SideTimes { source: Some(crew(8, source)), target: crew(8, target), is_local: false }
    }

    fn local(source: &[(Activity, u64)], target: &[(Activity, u64)]) -> SideTimes {
        SideTimes { is_local: true, ..between(source, target) }
    }

    fn found(crews: &SideTimes) -> (Code, Option<Side>) {
        let finding = find(crews, PERIOD, Supply::Whole).unwrap();
        assert!(finding.share > 0.4 && finding.share <= 1.0, "{finding:?}");
        (finding.code, finding.at)
    }

    /// Promise: a source whose disk is slow is named, though its lanes are seldom asked and the
    /// target only ever waits.
    #[test]
    fn a_slow_source_disk() {
        let source = [(Read, 18_500), (Hash, 400), (Seal, 300), (Send, 200), (WaitTarget, 600)];
        let target =
            [(WaitSource, 18_800), (Receive, 500), (Open, 200), (Compare, 200), (Write, 300)];
        assert_eq!(found(&between(&source, &target)), (Code::Read, Some(Side::Source)));
        let one = [(Read, 17_000), (Hash, 400)];
        assert_eq!(found(&local(&one, &[(Write, 2_000)])), (Code::Read, Some(Side::Source)));
        // A lane beside one that waits for the disk has nothing to do, at both ends.
        let source = [(Read, 9_400), (Hash, 300), (WaitTarget, 10_300)];
        let target = [(WaitSource, 9_500), (Write, 300), (Idle, 10_200)];
        assert_eq!(found(&between(&source, &target)), (Code::Read, Some(Side::Source)));
    }

    /// Promise: a target whose disk is slow is named, by its writes or by its syncs.
    #[test]
    fn a_slow_target_disk() {
        let source = [(Read, 900), (Hash, 500), (Seal, 400), (Send, 14_000), (WaitTarget, 4_000)];
        let target = [(WaitSource, 700), (Receive, 400), (Compare, 400), (Write, 18_000)];
        assert_eq!(found(&between(&source, &target)), (Code::Write, Some(Side::Target)));
        let mut syncs = between(&source, &[(WaitSource, 700), (Write, 2_000), (WaitDisk, 17_000)]);
        syncs.target.publishers = time(&[(Sync, 9_400), (Publish, 300)]);
        assert_eq!(found(&syncs), (Code::Durability, Some(Side::Target)));
        let per_file = between(&source, &[(WaitSource, 700), (Write, 900), (Sync, 17_000)]);
        assert_eq!(found(&per_file), (Code::Durability, Some(Side::Target)));
        let one = local(&[(Read, 1_000), (Hash, 500)], &[(Write, 17_000)]);
        assert_eq!(found(&one), (Code::Write, Some(Side::Target)));
    }

    /// Promise: the network is named if it is full, and also if it is only slow to answer.
    #[test]
    fn a_slow_link() {
        let target = [(WaitSource, 12_000), (Receive, 6_500), (Open, 300), (Write, 600)];
        let thin = [(Read, 600), (Hash, 400), (Seal, 300), (Send, 18_000)];
        assert_eq!(found(&between(&thin, &target)), (Code::Link, None));
        let long = [(Read, 600), (Hash, 400), (Seal, 300), (Send, 400), (WaitTarget, 18_000)];
        assert_eq!(found(&between(&long, &target)), (Code::Link, None));
        let earlier = SideTimes { source: None, ..between(&[], &target) };
        assert_eq!(found(&earlier), (Code::NetworkOrSource, None));
    }

    /// Promise: the network is not blamed for a source that hangs, or whose lanes have no buffer.
    #[test]
    fn a_source_that_hangs_is_no_slow_link() {
        let target = [(WaitSource, 18_000), (Write, 600)];
        assert_eq!(found(&between(&[], &target)), (Code::NetworkOrSource, None));
        let no_buffer = [(WaitMemory, 15_000), (Read, 2_000), (Send, 300)];
        assert_eq!(found(&between(&no_buffer, &target)), (Code::Read, Some(Side::Source)));
    }

    /// Promise: links and directories, which threads beside the lanes make, are no wait for a
    /// grant; and where no cause took any time, none is named.
    #[test]
    fn names_beside_the_lanes_are_seen() {
        let mut names = between(&[(WaitTarget, 19_000)], &[(WaitGrant, 19_000)]);
        assert_eq!(found(&names), (Code::Grant, None));
        names.target.publishers = time(&[(Publish, 9_000), (Sync, 500)]);
        assert_eq!(found(&names), (Code::Metadata, Some(Side::Target)));
        let other = between(&[(WaitTarget, 19_000)], &[(Other, 19_000)]);
        assert_eq!(find(&other, PERIOD, Supply::Whole), None);
    }

    /// Promise: a long wait that lanes account for at its end counts as long as it lasted.
    #[test]
    fn a_long_wait_counts_in_full() {
        let mut window = BottleneckWindow::default();
        let (mut sums, mut at) = (between(&[], &[]), 0);
        let mut step = |sums: &SideTimes, ms: u64| {
            at += ms;
            window.handle_sums(Instant(at * 1_000_000), sums, Supply::Whole)
        };
        step(&sums, 0);
        for _ in 0..10 {
            sums.target.lanes.add(Write, 500_000_000);
            step(&sums, 500);
        }
        for _ in 0..2 {
            for _ in 0..9 {
                step(&sums, 500);
            }
            sums.target.lanes.add(WaitLimit, 5_000_000_000);
            step(&sums, 500);
        }
        let longest = window.longest().unwrap();
        assert_eq!((longest.code, longest.at), (Code::Limit, None));
    }

    /// Promise: one processor is named: at one host, at either of two, and of two daemons that
    /// share it, where each waits for the other as over a network.
    #[test]
    fn one_core() {
        let mut one = local(
            &[(Read, 6_000), (Hash, 5_000)],
            &[(Write, 8_000), (Cpu, 9_700), (CpuWait, 9_000)],
        );
        one.target.cores = 1;
        assert_eq!(found(&one), (Code::Cpu, None));
        let target = [(WaitSource, 15_000), (Receive, 1_500), (Compare, 1_000), (Write, 1_500)];
        let source = [
            (Read, 5_000),
            (Hash, 5_000),
            (Seal, 6_000),
            (Send, 3_000),
            (Cpu, 9_800),
            (CpuWait, 8_000),
        ];
        let mut far = between(&source, &target);
        far.source.as_mut().unwrap().cores = 1;
        assert_eq!(found(&far), (Code::Cpu, Some(Side::Source)));
        let source = [(Read, 2_000), (Hash, 2_000), (Send, 12_000), (Cpu, 4_900), (CpuWait, 6_000)];
        let target = [(WaitSource, 11_000), (Receive, 4_000), (Write, 4_000), (Cpu, 4_900)];
        let mut shared = between(&source, &target);
        shared.source.as_mut().unwrap().cores = 1;
        shared.target.cores = 1;
        assert_eq!(found(&shared), (Code::Cpu, Some(Side::Source)));
        // A lane alone does not fill eight processors; its thread computes nevertheless.
        let source = [(Read, 1_500), (Hash, 3_500), (Seal, 4_000), (Send, 600), (Cpu, 9_500)];
        let target = [(WaitSource, 8_500), (Receive, 500), (Compare, 300), (Write, 500)];
        assert_eq!(found(&between(&source, &target)), (Code::Cpu, Some(Side::Source)));
        let source = [(Read, 900), (Hash, 900), (Send, 7_000)];
        let target = [(WaitSource, 900), (Open, 4_000), (Compare, 4_000), (Write, 1_000)];
        assert_eq!(found(&between(&source, &target)), (Code::Cpu, Some(Side::Target)));
    }

    /// Promise: the work per file of many small ones is named, though it keeps processors busy: at
    /// either end, and in the thread that names them.
    #[test]
    fn small_files_metadata() {
        let mut one = local(
            &[(Read, 1_500), (Hash, 300), (Metadata, 3_500)],
            &[(Write, 2_000), (Metadata, 9_000), (Cpu, 15_000), (CpuWait, 2_000)],
        );
        one.target.cores = 1;
        assert_eq!(found(&one), (Code::Metadata, Some(Side::Target)));
        let source = [(Read, 3_000), (Hash, 500), (Metadata, 14_000), (WaitTarget, 2_000)];
        let target = [(WaitSource, 17_000), (Write, 500), (Metadata, 1_500)];
        assert_eq!(found(&between(&source, &target)), (Code::Metadata, Some(Side::Source)));
        let mut names = between(&[], &[(WaitSource, 2_000), (Metadata, 4_000), (WaitDisk, 13_000)]);
        names.target.publishers = time(&[(Sync, 2_000), (Publish, 7_500)]);
        assert_eq!(found(&names), (Code::Metadata, Some(Side::Target)));
    }

    /// Promise: a limit is named, whatever other work costs time.
    #[test]
    fn a_limit() {
        let source = [(Read, 400), (Send, 15_000), (WaitTarget, 3_000)];
        let target = [(WaitLimit, 16_000), (WaitSource, 1_500), (Write, 1_500), (Idle, 60_000)];
        assert_eq!(found(&between(&source, &target)), (Code::Limit, None));
        let local =
            local(&[(Read, 900)], &[(WaitLimit, 17_000), (Write, 900), (WaitMemory, 30_000)]);
        assert_eq!(found(&local), (Code::Limit, None));
    }

    /// Promise: lanes without work show the reason; the scan is blamed only while it runs.
    #[test]
    fn a_lack_of_work() {
        let crews = between(&[(WaitTarget, 20_000)], &[(WaitGrant, 18_000), (WaitSource, 1_000)]);
        let codes = [Supply::Scanning, Supply::Comparing, Supply::Whole]
            .map(|supply| find(&crews, PERIOD, supply).unwrap().code);
        assert_eq!(codes, [Code::Scan, Code::Compare, Code::Grant]);
        assert_eq!(find(&SideTimes::default(), PERIOD, Supply::Scanning), None);
    }

    /// Promise: the present bottleneck is that of the last seconds, and stays while a single long
    /// call accounts for nothing; the whole time may have another.
    #[test]
    fn the_window_forgets_what_is_over() {
        let at = |seconds: u64| Instant(seconds * 1_000_000_000);
        let mut window = BottleneckWindow::default();
        let mut sums = SideTimes { source: Some(crew(8, &[])), ..SideTimes::default() };
        assert_eq!(window.handle_sums(at(0), &sums, Supply::Whole), None);
        let mut last = None;
        for second in 1..=40 {
            sums.target.lanes += &time(&[(WaitLimit, 1_000)]);
            last = window.handle_sums(at(second), &sums, Supply::Whole);
        }
        assert_eq!(last.unwrap().code, Code::Limit);
        for second in 41..=52 {
            sums.target.lanes += &time(&[(Write, 1_000)]);
            last = window.handle_sums(at(second), &sums, Supply::Whole);
        }
        let last = last.unwrap();
        assert_eq!((last.code, last.share), (Code::Write, 1.0));
        assert!(window.samples.len() < 30);
        for second in 53..=90 {
            assert_eq!(window.handle_sums(at(second), &sums, Supply::Whole), Some(last));
        }
        assert_eq!(window.longest().unwrap().code, Code::Limit);
        window.add(last, Duration::from_secs(60));
        assert_eq!(window.longest().unwrap(), last);
    }
}
