//! Pulling over a long path: the source of a rate-limited lane is never without a request.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use penstock_engine::fetch::{FetchMachine, Item};
use penstock_proto::id::LaneId;
use penstock_proto::slicing::PieceRef;
use penstock_proto::units::{Instant, MIB};

/// An event at one end of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Arrival {
    /// At the source: a request, with the bytes that it asks for.
    Request { lane: u32, request: u32, bytes: u64 },
    /// At the target: some bytes of an answer, and whether they are the last.
    Bytes { lane: u32, request: u32, bytes: u64, last: bool },
}

/// Returns the share of the time, after the first four seconds, in which the source had bytes to
/// send. The path has a round trip of `rtt`, of which the machine knows the `measured` value, and
/// `lanes` lanes that share `bits_per_second`.
fn utilisation(
    rtt: Duration,
    measured: Option<Duration>,
    bits_per_second: u64,
    lanes: u32,
    piece_bytes: u64,
) -> f64 {
    const FRAME: u64 = MIB;
    let half = rtt.as_nanos() as u64 / 2;
    let lane_rate = bits_per_second / 8 / u64::from(lanes);
    let (warm, end) = (4_000_000_000u64, 14_000_000_000u64);
    let mut machine = FetchMachine::new();
    measured.into_iter().for_each(|rtt| machine.handle_rtt(rtt));
    (0..lanes).for_each(|lane| machine.handle_lane_up(Instant(0), LaneId(lane)));
    let mut arrivals: BinaryHeap<Reverse<(u64, u64, Arrival)>> = BinaryHeap::new();
    let mut free_at = vec![0u64; lanes as usize];
    let (mut number, mut piece, mut now, mut busy) = (0, 0, 0, 0);
    let mut queue: VecDeque<(u64, Arrival)> = VecDeque::new();
    while now < end {
        while machine.wanted_bytes() > 0 {
            machine.handle_granted(item(piece, piece_bytes));
            piece += 1;
        }
        for lane in 0..lanes {
            while let Some(request) = machine.poll_request(Instant(now), LaneId(lane)) {
                let (request, bytes) = (request.request, request.item.bytes);
                queue.push_back((now + half, Arrival::Request { lane, request, bytes }));
            }
        }
        for (at, arrival) in queue.drain(..) {
            number += 1;
            arrivals.push(Reverse((at, number, arrival)));
        }
        let Some(Reverse((at, _, arrival))) = arrivals.pop() else { return 0.0 };
        now = at;
        match arrival {
            Arrival::Request { lane, request, bytes } => {
                let free = &mut free_at[lane as usize];
                let mut left = bytes;
                while left > 0 {
                    let bytes = left.min(FRAME);
                    left -= bytes;
                    let begin = now.max(*free);
                    *free = begin + bytes * 1_000_000_000 / lane_rate;
                    busy += free.min(&mut end.clone()).saturating_sub(begin.max(warm));
                    let last = left == 0;
                    queue.push_back((*free + half, Arrival::Bytes { lane, request, bytes, last }));
                }
            }
            Arrival::Bytes { lane, request, bytes, last } => {
                machine.handle_bytes(Instant(now), LaneId(lane), bytes);
                if last {
                    machine.handle_answered(Instant(now), request, vec![], vec![], bytes);
                }
            }
        }
    }
    busy as f64 / ((end - warm) * u64::from(lanes)) as f64
}

fn item(piece: u32, bytes: u64) -> Item {
    Item {
        piece: PieceRef { page: piece >> 12, piece: piece & 0xfff },
        generation: 0,
        fresh: true,
        first_entry: 0,
        end_entry: 1,
        offset: 0,
        length: 0,
        bytes,
        attempt: 1,
    }
}

/// Decision 1: requests are pipelined so that 200 ms of round trip does not idle a lane. That holds
/// for one lane or many, for slow and fast links, with pieces of any size.
#[test]
fn two_hundred_milliseconds_do_not_idle_a_lane() {
    let rtt = Duration::from_millis(200);
    for (gigabits, lanes, piece) in
        [(1, 1, 8 * MIB), (1, 8, MIB), (10, 1, 16 * MIB), (10, 8, 8 * MIB), (40, 16, 16 * MIB)]
    {
        let used = utilisation(rtt, Some(rtt), gigabits * 1_000_000_000, lanes, piece);
        assert!(used >= 0.95, "{gigabits} Gbit/s over {lanes} lanes: {used:.3} of the time busy");
    }
}

/// Decision 1 on a short path, where one round trip is a tenth of a millisecond.
#[test]
fn a_short_path_is_not_idle_either() {
    let rtt = Duration::from_micros(100);
    let used = utilisation(rtt, Some(rtt), 10_000_000_000, 2, 4 * MIB);
    assert!(used >= 0.95, "{used:.3} of the time busy");
}

/// Promise: the tests above can fail: they detect a machine that does not ask ahead.
#[test]
fn without_asking_ahead_the_lane_idles() {
    let rtt = Duration::from_millis(200);
    let used = utilisation(rtt, None, 10_000_000_000, 8, 4 * MIB);
    assert!(used < 0.5, "{used:.3} of the time busy");
}
