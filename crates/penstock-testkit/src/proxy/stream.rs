//! Looks into the bytes of one direction of a connection: finds the frames of clear lanes, flips
//! bits by a plan, and searches for plaintext.

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const HEADER_BYTES: usize = 16;
const MAC_BYTES: usize = 16;

/// Place of a byte from the source of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A byte of a TLS record: the handshake of any lane, and all of an encrypted one.
    Record,
    /// A byte of header, body or MAC of a clear frame.
    Framing,
    /// Payload of a clear frame.
    Payload,
}

/// Tells the parts of a lane apart. Frame kinds are below 10, TLS content types above 19, so that
/// the first byte behind a TLS record shows whether frames in clear have begun.
#[derive(Debug, Default)]
pub(super) struct Framer {
    clear: bool,
    header: Vec<u8>,
    /// Bytes of the current frame or record that are still to come, in order.
    left: Vec<(Part, usize)>,
}

impl Framer {
    /// Calls `each` with every run of bytes of one part.
    pub(super) fn feed<'a>(
        &mut self,
        mut bytes: &'a mut [u8],
        mut each: impl FnMut(Part, &'a mut [u8]),
    ) {
        while !bytes.is_empty() {
            if let Some((part, left)) = self.left.first_mut() {
                let count = bytes.len().min(*left);
                let (run, rest) = bytes.split_at_mut(count);
                let part = *part;
                *left -= count;
                if *left == 0 {
                    self.left.remove(0);
                }
                each(part, run);
                bytes = rest;
                continue;
            }
            if self.header.is_empty() {
                self.clear = bytes[0] < 10;
            }
            let wanted = if self.clear { HEADER_BYTES } else { 5 } - self.header.len();
            let (run, rest) = bytes.split_at_mut(wanted.min(bytes.len()));
            self.header.extend_from_slice(run);
            each(if self.clear { Part::Framing } else { Part::Record }, run);
            bytes = rest;
            self.begin();
        }
    }

    fn begin(&mut self) {
        let header = &self.header;
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap()) as usize;
        if self.clear && header.len() == HEADER_BYTES {
            let (body, payload) = (word(8), word(12));
            self.left = vec![(Part::Framing, body + MAC_BYTES), (Part::Payload, payload)];
        } else if !self.clear && header.len() == 5 {
            let length = usize::from(header[3]) << 8 | usize::from(header[4]);
            self.left = vec![(Part::Record, length)];
        } else {
            return;
        }
        self.left.retain(|(_, left)| *left > 0);
        self.header.clear();
    }
}

/// Places where bits are flipped, how often, and how many at most.
#[derive(Clone, Copy, Debug)]
pub struct FlipPlan {
    /// On lanes; else on all other connections.
    pub lanes: bool,
    /// The part that is hit.
    pub part: Part,
    /// Bytes of that part at the beginning of each connection that are spared: its handshake.
    pub spared: u64,
    /// Mean distance in bytes of that part.
    pub every: u64,
    /// Flips in all.
    pub most: u64,
}

/// Flips bits of one connection.
#[derive(Debug)]
pub(super) struct Flipper {
    plan: FlipPlan,
    rng: ChaCha8Rng,
    /// Bytes of the part until the next flip.
    next: u64,
}

impl Flipper {
    /// Flips by a plan; the seed determines where.
    pub(super) fn new(plan: FlipPlan, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let next = plan.spared + rng.random_range(0..plan.every * 2);
        Self { plan, rng, next }
    }

    /// Flips the due bits in a run of bytes, while `permit` allows.
    pub(super) fn run(&mut self, part: Part, bytes: &mut [u8], mut permit: impl FnMut() -> bool) {
        if part != self.plan.part {
            return;
        }
        let mut from = 0;
        while self.next < (bytes.len() - from) as u64 {
            let at = from + self.next as usize;
            if permit() {
                bytes[at] ^= 1 << (self.rng.next_u32() % 8);
            }
            from = at;
            self.next = self.rng.random_range(1..self.plan.every * 2);
        }
        self.next -= (bytes.len() - from) as u64;
    }
}

/// Finds a pattern in a stream, also over the borders of its chunks.
#[derive(Debug, Default)]
pub(super) struct Searcher {
    tail: Vec<u8>,
}

impl Searcher {
    /// Counts how often `pattern` ends in these bytes.
    pub(super) fn feed(&mut self, bytes: &[u8], pattern: &[u8]) -> u64 {
        let mut text = std::mem::take(&mut self.tail);
        text.extend_from_slice(bytes);
        let (first, mut found, mut at) = (pattern[0], 0, 0);
        while let Some(next) = text[at..].iter().position(|&byte| byte == first) {
            at += next;
            found += u64::from(text[at..].starts_with(pattern));
            at += 1;
        }
        let keep = text.len().min(pattern.len() - 1);
        self.tail = text.split_off(text.len() - keep);
        found
    }
}
