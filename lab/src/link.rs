//! What one site sends into one network: a shaper, a queue that drops at its tail, random loss and
//! a constant delay.
//!
//! Packets lie in one flat ring, first in, first out, so that none is copied or allocated for; as
//! the delay is constant, the order of arrival is the order of delivery, and nothing is reordered.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use crate::packet::{self, PACKET_BYTES_MAX, Packet, VNET_BYTES};

const NANOS_PER_SECOND: u128 = 1_000_000_000;
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
}

/// A packet in the ring.
#[derive(Debug)]
struct Queued {
    due_ns: u64,
    offset: usize,
    length: usize,
    port: usize,
    wire_bytes: usize,
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
    queue: VecDeque<Queued>,
    /// When the last bit that was taken up has left.
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
        let (source, port_of) = (&self.ports[from], &self.ports[port]);
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
        let fits = self.fits(now_ns, &packet);
        if self.loss_gap < segments || fits < packet.segments {
            self.push_rest(now_ns, length, port, &packet, fits);
            return;
        }
        if self.loss_gap != u64::MAX {
            self.loss_gap -= segments;
        }
        self.push(now_ns, length, port, packet.wire_bytes, packet.segments);
    }

    /// How many of a packet's segments the queue still takes.
    fn fits(&self, now_ns: u64, packet: &Packet) -> usize {
        let rate = u128::from(self.direction.rate_bits_per_s.load(Relaxed));
        if rate == 0 {
            return packet.segments;
        }
        let wait_ns = u128::from(self.wire_free_ns.saturating_sub(now_ns));
        let backlog = (wait_ns * rate / 8 / NANOS_PER_SECOND) as u64;
        let left = self.direction.buffer_bytes.load(Relaxed).saturating_sub(backlog) as usize;
        if left >= packet.wire_bytes {
            return packet.segments;
        }
        left / (packet.wire_bytes / packet.segments).max(1)
    }

    /// Some segment is lost or dropped: passes the rest on, as smaller super-packets.
    fn push_rest(&mut self, now_ns: u64, length: usize, port: usize, packet: &Packet, fits: usize) {
        let kept = self.draw_kept(packet.segments, fits);
        if kept.is_empty() {
            return;
        }
        let whole = self.ring[self.tail..self.tail + length].to_vec();
        for (first, end) in kept {
            let mut scratch = std::mem::take(&mut self.scratch);
            packet::slice(&whole, packet, first, end, &mut scratch);
            if let Some(room) = self.room() {
                room[..scratch.len()].copy_from_slice(&scratch);
                let wire_bytes = packet.wire_bytes / packet.segments * (end - first);
                self.push(now_ns, scratch.len(), port, wire_bytes, end - first);
            }
            self.scratch = scratch;
        }
    }

    /// Draws which segments are lost, of those that fit; the runs of those that are left.
    fn draw_kept(&mut self, segments: usize, fits: usize) -> Vec<(usize, usize)> {
        let (mut kept, mut from) = (Vec::new(), 0);
        for at in 0..segments {
            let lost = self.loss_gap == 0;
            if lost {
                self.loss_gap = self.random.gap(self.direction.loss.load(Relaxed));
                self.direction.lost.fetch_add(1, Relaxed);
            } else if self.loss_gap != u64::MAX {
                self.loss_gap -= 1;
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

    /// Books the packet at the ring's tail on the wire, and queues it until it arrives.
    fn push(
        &mut self,
        now_ns: u64,
        length: usize,
        port: usize,
        wire_bytes: usize,
        segments: usize,
    ) {
        let rate = u128::from(self.direction.rate_bits_per_s.load(Relaxed));
        let wire_ns = (wire_bytes as u128 * 8 * NANOS_PER_SECOND).checked_div(rate);
        self.wire_free_ns =
            wire_ns.map_or(now_ns, |wire_ns| self.wire_free_ns.max(now_ns) + wire_ns as u64);
        let due_ns = self.wire_free_ns + self.direction.delay_ns.load(Relaxed);
        self.direction.segments.fetch_add(segments as u64, Relaxed);
        let offset = self.tail;
        if due_ns <= now_ns && self.queue.is_empty() {
            self.direction.wire_bytes.fetch_add(wire_bytes as u64, Relaxed);
            write_packet(&self.ports[port].device, &self.ring[offset..offset + length]);
            return;
        }
        self.queue.push_back(Queued { due_ns, offset, length, port, wire_bytes });
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
        while let Some(packet) = self.queue.front() {
            if packet.due_ns > now_ns {
                return Some(packet.due_ns);
            }
            let port = &self.ports[packet.port];
            if !self.direction.cut[port.site].load(Relaxed) && !port.cut.load(Relaxed) {
                let bytes = &self.ring[packet.offset..packet.offset + packet.length];
                write_packet(&port.device, bytes);
                self.direction.wire_bytes.fetch_add(packet.wire_bytes as u64, Relaxed);
            }
            self.queue.pop_front();
        }
        None
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
        assert_eq!(link.fits(0, &packet), 4);
        for _ in 0..2 {
            link.push(0, 1000, 0, 4_000, 4);
        }
        assert_eq!(link.queue.back().map(|packet| packet.due_ns), Some(8_000_000));
        assert_eq!(link.fits(0, &packet), 2, "2,000 of 10,000 bytes are left");
        assert_eq!(link.fits(2_000_000, &packet), 4, "2,000 bytes have left since");
        assert_eq!(link.draw_kept(4, 2), [(0, 2)]);
        assert_eq!(direction.dropped.load(Relaxed), 2);
    }
}
