//! What one site sends into one network: shapers, queues that drop at their tail, random loss and
//! delay.
//!
//! A packet passes up to three wires: of the interface it leaves by, of its site's uplink, and of
//! the interface it arrives at; each may have a rate, or none. Packets lie in one flat ring, first
//! in, first out, so that none is copied or allocated for; what is due first is delivered first,
//! and two packets of one interface to another keep their order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::packet::{self, PACKET_BYTES_MAX, Packet, VNET_BYTES};

const NANOS_PER_SECOND: u128 = 1_000_000_000;
const BITS_PER_BYTE: u128 = 8;
/// 2^64: chances are kept as shares of it.
const CERTAIN: f64 = 18_446_744_073_709_551_616.0;

/// Live settings and counters of one direction. The control thread writes settings, the link's
/// thread reads them; counters go the other way.
#[derive(Debug, Default)]
pub(crate) struct Direction {
    /// Bits a second; 0: no limit.
    pub(crate) rate_bits_per_s: AtomicU64,
    /// Nanoseconds that a packet travels: half of the round trip.
    pub(crate) delay_ns: AtomicU64,
    /// Chance that a segment is lost, times 2^64.
    pub(crate) loss: AtomicU64,
    /// Chance that a bit of a segment's payload is flipped, unseen by checksums, times 2^64.
    pub(crate) corruption: AtomicU64,
    /// Bytes that wait for the wire at most; what comes then is dropped.
    pub(crate) buffer_bytes: AtomicU64,
    /// Changes when settings do.
    pub(crate) version: AtomicU64,
    /// For each site, whether nothing arrives there, silently.
    pub(crate) cut: Vec<AtomicBool>,
    /// Segments taken up.
    pub(crate) segments: AtomicU64,
    /// Bytes delivered, framing counted.
    pub(crate) wire_bytes: AtomicU64,
    /// Segments lost at random.
    pub(crate) lost: AtomicU64,
    /// Segments dropped as the queue was full.
    pub(crate) dropped: AtomicU64,
    /// Segments with a flipped bit.
    pub(crate) corrupted: AtomicU64,
}

/// A chance from 0 to 1 as a share of 2^64.
pub(crate) fn chance(probability: f64) -> u64 {
    (probability * CERTAIN) as u64
}

/// A host's interface at one network.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) device: OwnedFd,
    pub(crate) site: usize,
    pub(crate) addresses: [IpAddr; 2],
    /// Neither sends nor receives.
    pub(crate) cut: AtomicBool,
    /// Bits a second, each way, to and from other sites; 0: no limit.
    pub(crate) rate_bits_per_s: AtomicU64,
    /// Nanoseconds that a packet travels longer, from here or to here.
    pub(crate) delay_ns: AtomicU64,
    /// Chance that a segment is lost here, either way, times 2^64.
    pub(crate) loss: AtomicU64,
    /// When the last bit that was sent has left. Only the link of its site writes it.
    pub(crate) sent_ns: AtomicU64,
    /// When the last bit for it has arrived. Links of all other sites write it.
    pub(crate) arrived_ns: AtomicU64,
}

impl Port {
    /// An interface that nothing limits.
    pub(crate) fn new(device: OwnedFd, site: usize, addresses: [IpAddr; 2]) -> Self {
        Self {
            device,
            site,
            addresses,
            cut: AtomicBool::new(false),
            rate_bits_per_s: AtomicU64::new(0),
            delay_ns: AtomicU64::new(0),
            loss: AtomicU64::new(0),
            sent_ns: AtomicU64::new(0),
            arrived_ns: AtomicU64::new(0),
        }
    }
}

/// A packet in the ring.
#[derive(Clone, Copy, Debug)]
struct Queued {
    offset: usize,
    length: usize,
    port: usize,
    wire_bytes: usize,
    segments: usize,
    /// How long it takes on the wire before that of the interface it arrives at.
    wire_ns: u64,
    /// It has passed the wire of the interface it arrives at, or waits for that.
    booked: bool,
    delivered: bool,
}

/// How a packet passes one wire.
#[derive(Clone, Copy, Debug)]
struct Passed {
    /// When its last bit is through.
    last_ns: u64,
    /// How long all of it takes.
    wire_ns: u64,
    /// Bytes that wait for that wire before it.
    backlog_bytes: u64,
}

/// Sends `bytes` over a wire of `rate` bits a second, 0 being no limit, that is busy until
/// `busy_ns`; its first bit is there at `first_ns`, its last one at `now_ns`.
fn pass(busy_ns: u64, first_ns: u64, now_ns: u64, rate: u64, bytes: usize) -> Passed {
    let (rate, waits) = (u128::from(rate), u128::from(busy_ns.saturating_sub(first_ns)));
    let Some(wire) = (bytes as u128 * BITS_PER_BYTE * NANOS_PER_SECOND).checked_div(rate) else {
        return Passed { last_ns: now_ns, wire_ns: 0, backlog_bytes: 0 };
    };
    let wire_ns = wire as u64;
    Passed {
        last_ns: (busy_ns.max(first_ns) + wire_ns).max(now_ns),
        wire_ns,
        backlog_bytes: (waits * rate / BITS_PER_BYTE / NANOS_PER_SECOND) as u64,
    }
}

/// When a packet leaves the interface it is sent by and its site's uplink, and when its last bit is
/// at the interface it arrives at. That one's wire is another matter: packets pass it in the order
/// in which they come, not in which they were sent, for each has waited elsewhere before.
#[derive(Clone, Copy, Debug)]
struct Way {
    sent_ns: u64,
    uplink_ns: u64,
    due_ns: u64,
    /// How long it takes on the last of these wires.
    wire_ns: u64,
    /// The longest of the queues that it meets.
    backlog_bytes: u64,
}

/// splitmix64: good enough to lose packets by, and the same for the same seed.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Segments that pass before the next hit, where each is hit with the same chance.
    fn gap(&mut self, chance: u64) -> u64 {
        if chance == 0 {
            return u64::MAX;
        }
        let uniform = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        let probability = chance as f64 / CERTAIN;
        ((1.0 - uniform).ln() / (-probability).ln_1p()) as u64
    }
}

/// One direction's queue and wire; owned by the one thread that moves its packets.
#[derive(Debug)]
pub(crate) struct Link<'a> {
    direction: &'a Direction,
    ports: &'a [Port],
    ring: Vec<u8>,
    tail: usize,
    /// In the order in which they lie in the ring.
    queue: VecDeque<Queued>,
    /// Number of the first packet in the queue.
    first: u64,
    /// When packets are due, with their numbers.
    due: BinaryHeap<Reverse<(u64, u64)>>,
    /// When the last bit that was taken up has left the site's uplink.
    wire_free_ns: u64,
    random: Random,
    loss_gap: u64,
    corruption_gap: u64,
    version: u64,
    scratch: Vec<u8>,
}

impl<'a> Link<'a> {
    /// A link without packets; `ring_bytes` bounds those on their way and those that wait.
    pub(crate) fn new(
        direction: &'a Direction,
        ports: &'a [Port],
        ring_bytes: usize,
        seed: u64,
    ) -> Self {
        let mut link = Self {
            direction,
            ports,
            ring: vec![0; ring_bytes.max(4 * PACKET_BYTES_MAX)],
            tail: 0,
            queue: VecDeque::with_capacity(1 << 16),
            first: 0,
            due: BinaryHeap::with_capacity(1 << 16),
            wire_free_ns: 0,
            random: Random(seed),
            loss_gap: 0,
            corruption_gap: 0,
            version: u64::MAX,
            scratch: Vec::with_capacity(PACKET_BYTES_MAX),
        };
        link.refresh();
        link
    }

    /// Takes up changed settings.
    pub(crate) fn refresh(&mut self) {
        let version = self.direction.version.load(Relaxed);
        if version != self.version {
            self.version = version;
            self.loss_gap = self.random.gap(self.direction.loss.load(Relaxed));
            self.corruption_gap = self.random.gap(self.direction.corruption.load(Relaxed));
        }
    }

    /// Where the next packet may be read to; none while the ring is full.
    pub(crate) fn room(&mut self) -> Option<&mut [u8]> {
        match self.queue.front().map(|packet| packet.offset) {
            None => self.tail = 0,
            Some(head) if head >= self.tail => {
                if head - self.tail <= PACKET_BYTES_MAX {
                    return None;
                }
            }
            Some(head) => {
                if self.ring.len() - self.tail < PACKET_BYTES_MAX {
                    if head <= PACKET_BYTES_MAX {
                        return None;
                    }
                    self.tail = 0;
                }
            }
        }
        let tail = self.tail;
        Some(&mut self.ring[tail..tail + PACKET_BYTES_MAX])
    }

    /// A packet of `length` bytes that the port `from` sent has been read to [`Self::room`].
    pub(crate) fn handle_packet(&mut self, now_ns: u64, length: usize, from: usize) {
        let bytes = &self.ring[self.tail..self.tail + length];
        let Some(packet) = packet::parse(bytes) else { return };
        let target = packet.target;
        let Some(port) = self.ports.iter().position(|port| port.addresses.contains(&target)) else {
            return;
        };
        let ports = self.ports;
        let (source, port_of) = (&ports[from], &ports[port]);
        if source.cut.load(Relaxed) || port_of.cut.load(Relaxed) {
            return;
        }
        if source.site == port_of.site {
            write_packet(&port_of.device, bytes);
            return;
        }
        if self.direction.cut[port_of.site].load(Relaxed) {
            return;
        }
        let segments = packet.segments as u64;
        if self.corruption_gap < segments {
            self.corrupt(length, &packet);
        } else if self.corruption_gap != u64::MAX {
            self.corruption_gap -= segments;
        }
        let fits = self.fits(now_ns, from, port, &packet);
        let here = source.loss.load(Relaxed).saturating_add(port_of.loss.load(Relaxed));
        if self.loss_gap < segments || fits < packet.segments || here > 0 {
            let ends = (from, port);
            self.push_rest(now_ns, length, ends, &packet, fits, here);
            return;
        }
        if self.loss_gap != u64::MAX {
            self.loss_gap -= segments;
        }
        self.push(now_ns, length, (from, port), packet.wire_bytes, packet.segments);
    }

    /// How a packet of `bytes` that is there now comes from one port to another.
    fn way(&self, now_ns: u64, (from, to): (usize, usize), bytes: usize) -> Way {
        let (Some(source), Some(target)) = (self.ports.get(from), self.ports.get(to)) else {
            let rate = self.direction.rate_bits_per_s.load(Relaxed);
            let uplink = pass(self.wire_free_ns, now_ns, now_ns, rate, bytes);
            let due_ns = uplink.last_ns + self.direction.delay_ns.load(Relaxed);
            let (wire_ns, backlog_bytes) = (uplink.wire_ns, uplink.backlog_bytes);
            let uplink_ns = uplink.last_ns;
            return Way { sent_ns: now_ns, uplink_ns, due_ns, wire_ns, backlog_bytes };
        };
        let rate = |rate: &AtomicU64| rate.load(Relaxed);
        let sent =
            pass(rate(&source.sent_ns), now_ns, now_ns, rate(&source.rate_bits_per_s), bytes);
        let uplink = pass(
            self.wire_free_ns,
            sent.last_ns,
            sent.last_ns,
            rate(&self.direction.rate_bits_per_s),
            bytes,
        );
        let delay_ns =
            rate(&self.direction.delay_ns) + rate(&source.delay_ns) + rate(&target.delay_ns);
        Way {
            sent_ns: sent.last_ns,
            uplink_ns: uplink.last_ns,
            due_ns: uplink.last_ns + delay_ns,
            wire_ns: if uplink.wire_ns > 0 { uplink.wire_ns } else { sent.wire_ns },
            backlog_bytes: sent.backlog_bytes.max(uplink.backlog_bytes),
        }
    }

    /// How many of a packet's segments the queues still take.
    fn fits(&self, now_ns: u64, from: usize, port: usize, packet: &Packet) -> usize {
        let backlog = self.way(now_ns, (from, port), packet.wire_bytes).backlog_bytes;
        self.room_behind(backlog, packet.wire_bytes, packet.segments)
    }

    /// How many segments of a packet a queue still takes in which so many bytes wait.
    fn room_behind(&self, backlog: u64, wire_bytes: usize, segments: usize) -> usize {
        if backlog == 0 {
            return segments;
        }
        let left = self.direction.buffer_bytes.load(Relaxed).saturating_sub(backlog) as usize;
        if left >= wire_bytes {
            return segments;
        }
        left / (wire_bytes / segments).max(1)
    }

    /// Some segment is lost or dropped: passes the rest on, as smaller super-packets.
    fn push_rest(
        &mut self,
        now_ns: u64,
        length: usize,
        ends: (usize, usize),
        packet: &Packet,
        fits: usize,
        here: u64,
    ) {
        let kept = self.draw_kept(packet.segments, fits, here);
        if kept.is_empty() {
            return;
        }
        if kept == [(0, packet.segments)] {
            self.push(now_ns, length, ends, packet.wire_bytes, packet.segments);
            return;
        }
        let whole = self.ring[self.tail..self.tail + length].to_vec();
        for (first, end) in kept {
            let mut scratch = std::mem::take(&mut self.scratch);
            packet::slice(&whole, packet, first, end, &mut scratch);
            if let Some(room) = self.room() {
                room[..scratch.len()].copy_from_slice(&scratch);
                let wire_bytes = packet.wire_bytes / packet.segments * (end - first);
                self.push(now_ns, scratch.len(), ends, wire_bytes, end - first);
            }
            self.scratch = scratch;
        }
    }

    /// Draws which segments are lost, of those that fit, `here` being the chance at the interfaces;
    /// the runs of those that are left.
    fn draw_kept(&mut self, segments: usize, fits: usize, here: u64) -> Vec<(usize, usize)> {
        let (mut kept, mut from) = (Vec::new(), 0);
        for at in 0..segments {
            let on_the_way = self.loss_gap == 0;
            if on_the_way {
                self.loss_gap = self.random.gap(self.direction.loss.load(Relaxed));
            } else if self.loss_gap != u64::MAX {
                self.loss_gap -= 1;
            }
            let lost = on_the_way || here > 0 && self.random.next() < here;
            if lost {
                self.direction.lost.fetch_add(1, Relaxed);
            }
            if !lost && at >= fits {
                self.direction.dropped.fetch_add(1, Relaxed);
            }
            if lost || at >= fits {
                if from < at {
                    kept.push((from, at));
                }
                from = at + 1;
            }
        }
        if from < segments {
            kept.push((from, segments));
        }
        kept
    }

    /// Books the packet at the ring's tail on its wires, and queues it until it arrives.
    fn push(
        &mut self,
        now_ns: u64,
        length: usize,
        ends: (usize, usize),
        wire_bytes: usize,
        segments: usize,
    ) {
        let way = self.way(now_ns, ends, wire_bytes);
        self.wire_free_ns = way.uplink_ns;
        let (from, port) = ends;
        if let Some(source) = self.ports.get(from) {
            source.sent_ns.store(way.sent_ns, Relaxed);
        }
        let is_limited =
            self.ports.get(port).is_some_and(|target| target.rate_bits_per_s.load(Relaxed) > 0);
        self.direction.segments.fetch_add(segments as u64, Relaxed);
        let offset = self.tail;
        if way.due_ns <= now_ns && self.due.is_empty() && !is_limited {
            self.direction.wire_bytes.fetch_add(wire_bytes as u64, Relaxed);
            write_packet(&self.ports[port].device, &self.ring[offset..offset + length]);
            return;
        }
        self.due.push(Reverse((way.due_ns, self.first + self.queue.len() as u64)));
        let (wire_ns, booked, delivered) = (way.wire_ns, false, false);
        self.queue.push_back(Queued {
            offset,
            length,
            port,
            wire_bytes,
            segments,
            wire_ns,
            booked,
            delivered,
        });
        self.tail = offset + length.next_multiple_of(64);
    }

    /// Flips one bit of the payload, where the checksum is partial and so made up for it later.
    fn corrupt(&mut self, length: usize, packet: &Packet) {
        self.corruption_gap = self.random.gap(self.direction.corruption.load(Relaxed));
        let start = VNET_BYTES + packet.header_bytes;
        if packet.header_bytes > 0 && length > start {
            let at = start + self.random.next() as usize % (length - start);
            self.ring[self.tail + at] ^= 1 << (self.random.next() & 7);
            self.direction.corrupted.fetch_add(1, Relaxed);
        }
    }

    /// Hands over all packets that are due; gives when the next one is.
    pub(crate) fn deliver(&mut self, now_ns: u64) -> Option<u64> {
        while let Some(&Reverse((due_ns, number))) = self.due.peek() {
            if due_ns > now_ns {
                return Some(due_ns);
            }
            self.due.pop();
            if let Some(later_ns) = self.arrive(due_ns, number) {
                self.due.push(Reverse((later_ns, number)));
                continue;
            }
            let packet = &mut self.queue[(number - self.first) as usize];
            packet.delivered = true;
            let port = &self.ports[packet.port];
            if packet.length > 0
                && !self.direction.cut[port.site].load(Relaxed)
                && !port.cut.load(Relaxed)
            {
                let bytes = &self.ring[packet.offset..packet.offset + packet.length];
                write_packet(&port.device, bytes);
                self.direction.wire_bytes.fetch_add(packet.wire_bytes as u64, Relaxed);
            }
            while self.queue.front().is_some_and(|packet| packet.delivered) {
                self.queue.pop_front();
                self.first += 1;
            }
        }
        None
    }
}

impl Link<'_> {
    /// A packet's last bit is at the interface it arrives at: books it on that one's wire. Gives
    /// when it is through, if that is later; what its queue does not take is dropped.
    fn arrive(&mut self, due_ns: u64, number: u64) -> Option<u64> {
        let at = (number - self.first) as usize;
        let Queued { port, wire_bytes, segments, wire_ns, booked, .. } = self.queue[at];
        let target = self.ports.get(port).filter(|_| !booked)?;
        self.queue[at].booked = true;
        let rate = target.rate_bits_per_s.load(Relaxed);
        // Bits arrive one after the other, as they left the wire before.
        let first_ns = due_ns.saturating_sub(wire_ns);
        let (mut bytes, busy_ns) = (wire_bytes, target.arrived_ns.load(Relaxed));
        let backlog = pass(busy_ns, first_ns, due_ns, rate, bytes).backlog_bytes;
        let fits = self.room_behind(backlog, bytes, segments);
        if fits < segments {
            self.direction.dropped.fetch_add((segments - fits) as u64, Relaxed);
            self.cut_short(at, fits);
            bytes = self.queue[at].wire_bytes;
        }
        if bytes == 0 {
            return None;
        }
        let through_ns = pass(busy_ns, first_ns, due_ns, rate, bytes).last_ns;
        target.arrived_ns.fetch_max(through_ns, Relaxed);
        (through_ns > due_ns).then_some(through_ns)
    }

    /// Leaves the first segments of a packet that waits; none of it, if there are none.
    fn cut_short(&mut self, at: usize, segments: usize) {
        let Queued { offset, length, wire_bytes, segments: all, .. } = self.queue[at];
        let mut short = std::mem::take(&mut self.scratch);
        short.clear();
        let whole = &self.ring[offset..offset + length];
        if let Some(packet) = packet::parse(whole).filter(|_| segments > 0) {
            packet::slice(whole, &packet, 0, segments, &mut short);
        }
        self.ring[offset..offset + short.len()].copy_from_slice(&short);
        self.queue[at].length = short.len();
        self.queue[at].wire_bytes = wire_bytes / all * segments;
        self.scratch = short;
    }
}

fn write_packet(device: &OwnedFd, bytes: &[u8]) {
    // A packet that is refused (device down, no memory) is lost, as on a real wire.
    let _ = rustix::io::write(device, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: segments are lost with the chance that was asked for, within 5 %.
    #[test]
    fn losses_come_as_often_as_asked() {
        for probability in [0.0001, 0.001, 0.1] {
            let mut random = Random(7);
            let hits = 20_000;
            let passed: u64 = (0..hits).map(|_| random.gap(chance(probability)) + 1).sum();
            let measured = f64::from(hits) / passed as f64;
            let off = (measured / probability - 1.0).abs();
            assert!(off < 0.05, "{measured} instead of {probability}");
        }
        assert_eq!(Random(7).gap(0), u64::MAX, "no chance, no loss");
    }

    /// Promise: a packet that meets a full queue keeps the segments that fit, and the shaper
    /// gives each the time that its bits need.
    #[test]
    fn a_full_queue_drops_its_tail() {
        let direction = Direction::default();
        direction.rate_bits_per_s.store(8_000_000, Relaxed);
        direction.buffer_bytes.store(10_000, Relaxed);
        let ports = [];
        let mut link = Link::new(&direction, &ports, 0, 1);
        let packet = Packet {
            target: IpAddr::from([10, 50, 2, 1]),
            header_bytes: 40,
            segment_bytes: 922,
            segments: 4,
            wire_bytes: 4_000,
        };
        let ends = (usize::MAX, usize::MAX);
        assert_eq!(link.fits(0, ends.0, ends.1, &packet), 4);
        for _ in 0..2 {
            link.push(0, 1000, ends, 4_000, 4);
        }
        assert_eq!(link.due.iter().map(|Reverse((due, _))| *due).max(), Some(8_000_000));
        let fits = |link: &Link<'_>, now| link.fits(now, ends.0, ends.1, &packet);
        assert_eq!(fits(&link, 0), 2, "2,000 of 10,000 bytes are left");
        assert_eq!(fits(&link, 2_000_000), 4, "2,000 bytes have left since");
        assert_eq!(link.draw_kept(4, 2, 0), [(0, 2)]);
        assert_eq!(direction.dropped.load(Relaxed), 2);
    }

    /// Promise: interfaces are wires of their own: two that send share the one that receives, each
    /// takes what it does, and a packet is not held up for a second time by a wire that is as fast.
    #[test]
    fn interfaces_limit_each_way() {
        let direction = Direction { cut: vec![false.into(), false.into()], ..Direction::default() };
        direction.buffer_bytes.store(1 << 20, Relaxed);
        direction.delay_ns.store(500, Relaxed);
        let port = |site| {
            let device = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
            let port = Port::new(device, site, [IpAddr::from([0; 4]), IpAddr::from([0; 16])]);
            port.rate_bits_per_s.store(8_000_000_000, Relaxed);
            port
        };
        let ports = [port(0), port(0), port(1)];
        let mut link = Link::new(&direction, &ports, 0, 1);
        for from in [0, 1, 0] {
            link.push(0, 100, (from, 2), 1_000, 1);
        }
        let mut due: Vec<u64> = link.due.iter().map(|Reverse((due, _))| *due).collect();
        due.sort_unstable();
        assert_eq!(due, [1_500, 1_500, 2_500], "where they arrive they wait for each other");
        assert_eq!(link.deliver(1_499), Some(1_500));
        assert_eq!(link.deliver(2_600), Some(3_500));
        assert_eq!(link.deliver(3_500), None);
        assert!(link.queue.is_empty());
        assert_eq!(direction.wire_bytes.load(Relaxed), 3_000);
    }

    /// Promise: what waits for the wire of one interface holds up nobody else's packets to the same
    /// host: they pass the wire that they meet there in the order in which they come.
    #[test]
    fn a_long_queue_elsewhere_holds_up_nobody() {
        let direction = Direction { cut: vec![false.into(), false.into()], ..Direction::default() };
        direction.buffer_bytes.store(20_000, Relaxed);
        let port = |site, rate| {
            let device = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
            let port = Port::new(device, site, [IpAddr::from([0; 4]), IpAddr::from([0; 16])]);
            port.rate_bits_per_s.store(rate, Relaxed);
            port
        };
        let ports = [port(0, 8_000_000), port(0, 80_000_000), port(1, 80_000_000)];
        let mut link = Link::new(&direction, &ports, 0, 1);
        // 10 ms of the slow one's wire.
        (0..10).for_each(|_| link.push(0, 100, (0, 2), 1_000, 1));
        link.push(0, 100, (1, 2), 1_000, 1);
        assert_eq!(link.deliver(150_000), Some(1_000_000));
        assert_eq!(direction.wire_bytes.load(Relaxed), 1_000, "the fast one's is there");
        assert_eq!(link.deliver(10_000_000), None);
        assert_eq!(direction.wire_bytes.load(Relaxed), 11_000);
        assert_eq!(direction.dropped.load(Relaxed), 0);
    }
}
