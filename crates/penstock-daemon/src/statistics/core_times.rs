//! How busy each processor was, as a distribution over seconds. Pure.
//!
//! The kernel counts in hundredths of a second, so a second has a whole percent. A distribution is
//! the number of seconds for each of them: it is as exact after a week as after a minute, and its
//! size does not grow.

use std::collections::BTreeMap;

use penstock_api::statistics::{CoreSpread, Spread};

use super::spread::spread_of;

/// Whole percents from 0 to 100.
const BINS: usize = 101;
/// Bytes of one processor in the archive.
const CORE_BYTES: usize = 4 + 8 + 4 * BINS;

/// Distributions of the busy times of all processors, by their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CoreTimes(BTreeMap<u32, Distribution>);

#[derive(Clone, Debug, PartialEq)]
struct Distribution {
    /// Sum of all values, in percent, which are not rounded.
    sum: f64,
    /// Seconds of each whole percent.
    counts: [u32; BINS],
}

impl CoreTimes {
    /// Adds a second in which a processor was busy for so many percent.
    pub(crate) fn add(&mut self, core: u32, percent: f64) {
        let empty = || Distribution { sum: 0.0, counts: [0; BINS] };
        let of = self.0.entry(core).or_insert_with(empty);
        let percent = percent.clamp(0.0, 100.0);
        of.sum += percent;
        let count = &mut of.counts[percent.round() as usize];
        *count = count.saturating_add(1);
    }

    /// Returns the spread of each processor.
    pub(crate) fn spreads(&self) -> Vec<CoreSpread> {
        let spread = |(core, of): (&u32, &Distribution)| {
            let values = of.counts.iter().enumerate();
            let values = values.map(|(percent, count)| (percent as f64, u64::from(*count)));
            let spread = spread_of(values.collect())?;
            let busy_percent = Spread { mean: of.sum / spread.seconds as f64, ..spread };
            Some(CoreSpread { core: *core, busy_percent })
        };
        self.0.iter().filter_map(spread).collect()
    }

    /// Returns its bytes, for the archive.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.0.len() * CORE_BYTES);
        for (core, of) in &self.0 {
            bytes.extend(core.to_le_bytes());
            bytes.extend(of.sum.to_le_bytes());
            of.counts.iter().for_each(|count| bytes.extend(count.to_le_bytes()));
        }
        bytes
    }

    /// Reads the bytes of [`CoreTimes::encode`]. Bytes that are no whole processor are left out.
    pub(crate) fn decode(bytes: &[u8]) -> Self {
        let mut cores = BTreeMap::new();
        for bytes in bytes.chunks_exact(CORE_BYTES) {
            let (core, rest) = bytes.split_at(4);
            let (sum, counts) = rest.split_at(8);
            let Ok(sum) = sum.try_into().map(f64::from_le_bytes) else { continue };
            let number = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
            let mut of = Distribution { sum, counts: [0; BINS] };
            for (count, bytes) in of.counts.iter_mut().zip(counts.chunks_exact(4)) {
                *count = number(bytes);
            }
            cores.insert(number(core), of);
        }
        Self(cores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: the spread of a processor is that of its seconds, after a restart too.
    #[test]
    fn busy_seconds_are_distributed() {
        let mut cores = CoreTimes::default();
        (0..=100).for_each(|percent| cores.add(3, f64::from(percent)));
        cores.add(0, 250.0);
        cores.add(0, -1.0);
        let read = CoreTimes::decode(&cores.encode());
        assert_eq!(read, cores);
        let spreads = read.spreads();
        let [first, second] = &spreads[..] else { panic!("{spreads:?}") };
        let busy = first.busy_percent;
        assert_eq!((first.core, busy.seconds, busy.min, busy.max), (0, 2, 0.0, 100.0));
        let busy = second.busy_percent;
        assert_eq!((second.core, busy.seconds, busy.mean), (3, 101, 50.0));
        assert_eq!(
            [busy.p5, busy.q1, busy.median, busy.q3, busy.p95],
            [5.0, 25.0, 50.0, 75.0, 95.0]
        );
        let cut = cores.encode();
        assert_eq!(CoreTimes::decode(&cut[..cut.len() - 1]).spreads().len(), 1);
    }
}
