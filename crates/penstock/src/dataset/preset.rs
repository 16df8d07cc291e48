//! Published shapes of data sets, and how they shrink to a given number of bytes.
//!
//! A shape is a list of classes of equal files, as (number, size). A set of `B` bytes keeps of
//! each class its *share of the bytes*, so the accumulated size keeps its curve. With `r` = `B` /
//! published bytes, a class of `n` files keeps `max(1, n × r^k)` of them, each the share divided
//! by that number. `k` says what shrinks:
//!
//! | preset | published | k | what shrinks |
//! |---|---|---|---|
//! | `esnet` | 7,936 files, 2.04 TiB, mean 270 MiB, 0 B to 461 GiB | 1/3 | number by the cube root, size by the rest |
//! | `slac-losf` | 200,000 files of 8 KiB to 4 MiB, uniform, 391.6 GiB | 1 | the number only |
//! | `slac-large` | sets of equal files of 1, 5, 10, 20, 30, 50, 100, 300, 500 GiB | 0 | the size only |
//! | `jpcs` | 20,000 × 50 MiB, 2,000 × 500 MiB, 400 × 5 GiB, 1,000,000 × 1 MiB | 1 | the number, until one file is left |
//!
//! Files of `esnet` below 512 KiB (1,885 files, 5.6 MiB in all) keep number and size while they
//! are at most 1 % of `B`, which holds from 562 MiB on; below that their number shrinks. For
//! `slac-large` the number of files per set is not published; it is taken such that each set has
//! about the bytes of its largest file: 500, 100, 50, 25, 17, 10, 5, 2 and 1. A set larger than
//! the published one repeats it: the number grows and sizes stay.
//!
//! So at 3 GiB `esnet` has 2,573 files: 1,885 of 0 B to 500 KB as published, and 688 larger ones
//! of which the largest has 0.7 GiB.

use penstock_proto::units::{GIB, KIB, MIB};

/// Fewest bytes a preset is scaled to: beneath it no shape is left.
pub(crate) const BYTES_MIN: u64 = MIB;

/// Which published shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Preset {
    /// ESnet production transfers: 7,936 files, 2.04 TiB. Number of files shrinks by the cube
    /// root, sizes by the rest; files below 512 KiB stay as published
    Esnet,
    /// SLAC, lots of small files: 200,000 of 8 KiB to 4 MiB, 391.6 GiB. Only the number shrinks
    SlacLosf,
    /// SLAC, large files: sets of equal files of 1 to 500 GiB. Only sizes shrink
    SlacLarge,
    /// JPCS: 20,000 x 50 MiB, 2,000 x 500 MiB, 400 x 5 GiB, 1,000,000 x 1 MiB. The number shrinks
    Jpcs,
}

/// Files of one size in a published set.
#[derive(Clone, Copy, Debug)]
struct Class {
    files: u64,
    size: u64,
}

const fn class(files: u64, size: u64) -> Class {
    Class { files, size }
}

/// Classes of `esnet` that keep number and size. The published histogram gives for each class its
/// lower bound, number and accumulated size; the size here is the mean that follows.
const ESNET_KEPT: [Class; 10] = [
    class(1, 0),
    class(626, 1_000),
    class(626, 2_000),
    class(626, 5_000),
    class(1, 10_000),
    class(1, 20_000),
    class(1, 50_000),
    class(1, 100_000),
    class(1, 200_000),
    class(1, 500_000),
];

/// Classes of `esnet` from 512 KiB on; see [`ESNET_KEPT`].
const ESNET_SCALED: [Class; 18] = [
    class(627, 1_000_000),
    class(626, 2_000_000),
    class(626, 5_000_000),
    class(747, 10_000_000),
    class(716, 20_000_000),
    class(627, 50_000_000),
    class(627, 100_000_000),
    class(626, 200_000_000),
    class(626, 500_000_000),
    class(2, 1_000_000_000),
    class(141, 1_303_000_000),
    class(27, 3_709_000_000),
    class(12, 5_966_000_000),
    class(2, 10_000_000_000),
    class(12, 21_800_000_000),
    class(2, 50_000_000_000),
    class(4, 105 * GIB),
    class(1, 461 * GIB),
];

const SLAC_LARGE: [Class; 9] = [
    class(500, GIB),
    class(100, 5 * GIB),
    class(50, 10 * GIB),
    class(25, 20 * GIB),
    class(17, 30 * GIB),
    class(10, 50 * GIB),
    class(5, 100 * GIB),
    class(2, 300 * GIB),
    class(1, 500 * GIB),
];

const JPCS: [Class; 4] =
    [class(1_000_000, MIB), class(20_000, 50 * MIB), class(2_000, 500 * MIB), class(400, 5 * GIB)];

impl Preset {
    /// The sizes of the files of this shape that have `bytes` bytes together, class by class.
    ///
    /// The sum is `bytes` exactly, but for `slac-losf`, where it is within 1 % from 8 MiB on.
    /// Deterministic. `bytes` is at least [`BYTES_MIN`].
    pub(crate) fn sizes(self, bytes: u64) -> Vec<u64> {
        assert!(bytes >= BYTES_MIN, "the caller refuses smaller sets");
        match self {
            Self::Esnet => scale(&ESNET_KEPT, &ESNET_SCALED, 1.0 / 3.0, bytes),
            Self::SlacLosf => spread(8 * KIB, 4 * MIB, bytes),
            Self::SlacLarge => scale(&[], &SLAC_LARGE, 0.0, bytes),
            Self::Jpcs => scale(&[], &JPCS, 1.0, bytes),
        }
    }
}

fn sum(classes: &[Class]) -> u64 {
    classes.iter().map(|class| class.files * class.size).sum()
}

/// Applies the rule of the module's head to `scaled`, after `kept` took at most 1 %.
fn scale(kept: &[Class], scaled: &[Class], exponent: f64, bytes: u64) -> Vec<u64> {
    let (kept_bytes, scaled_bytes) = (sum(kept), sum(scaled));
    let ratio = bytes as f64 / (kept_bytes + scaled_bytes) as f64;
    let (kept_factor, factor) = if ratio >= 1.0 {
        (ratio, ratio)
    } else {
        let fits = bytes as f64 / 100.0 / kept_bytes.max(1) as f64;
        (fits.min(1.0), ratio.powf(exponent))
    };
    let times = |files: u64, factor: f64| (files as f64 * factor).round() as u64;

    let mut sizes = Vec::new();
    for class in kept {
        let files = times(class.files, kept_factor);
        sizes.extend(std::iter::repeat_n(class.size, files as usize));
    }
    let rest = bytes - sizes.iter().sum::<u64>();
    let mut published = 0;
    let mut given = 0;
    for class in scaled {
        published += class.files * class.size;
        // Rounded on the accumulated size, so that the shares add up to the rest.
        let until = (u128::from(rest) * u128::from(published) / u128::from(scaled_bytes)) as u64;
        split(until - given, times(class.files, factor).max(1), &mut sizes);
        given = until;
    }
    sizes
}

/// Appends `files` sizes that differ by at most one byte and have `bytes` together.
fn split(bytes: u64, files: u64, sizes: &mut Vec<u64>) {
    let larger = bytes % files;
    sizes.extend((0..files).map(|file| bytes / files + u64::from(file < larger)));
}

/// As many sizes between `low` and `high`, uniformly spread, as have `bytes` together.
fn spread(low: u64, high: u64, bytes: u64) -> Vec<u64> {
    let files = (bytes as f64 / ((low + high) as f64 / 2.0)).round().max(1.0) as u64;
    let even = |file: u64| {
        let part = u128::from(high - low) * u128::from(2 * file + 1) / u128::from(2 * files);
        low + part as u64
    };
    let total: u64 = (0..files).map(even).sum();
    // The number was rounded; each file carries its part of the difference.
    let shift = (bytes as i64 - total as i64) / files as i64;
    (0..files).map(|file| even(file).saturating_add_signed(shift).clamp(low, high)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of files by the power of two at or below their size.
    fn histogram(sizes: &[u64]) -> Vec<(u64, u64)> {
        let mut classes = std::collections::BTreeMap::new();
        for &size in sizes {
            *classes.entry(size.checked_ilog2().map_or(0, |power| 1 << power)).or_insert(0) += 1;
        }
        classes.into_iter().collect()
    }

    /// Promise: unscaled, `esnet` is the published histogram.
    #[test]
    fn esnet_at_full_size_is_as_published() {
        let sizes = Preset::Esnet.sizes(sum(&ESNET_KEPT) + sum(&ESNET_SCALED));
        assert_eq!(sizes.len(), 7_936);
        let total = sizes.iter().sum::<u64>() as f64;
        assert!((total / 1_024f64.powi(4) - 2.04).abs() < 0.005, "{total} bytes are not 2.04 TiB");
        assert!((total / 7_936.0 / MIB as f64 - 270.0).abs() < 1.0, "mean is not 270 MiB");
        let (k, m, g) = (KIB, MIB, GIB);
        let expected = [
            (0, 1),
            (512, 626),
            (k, 626),
            (4 * k, 626),
            (8 * k, 1),
            (16 * k, 1),
            (32 * k, 1),
            (64 * k, 1),
            (128 * k, 1),
            (256 * k, 1),
            (512 * k, 627),
            (m, 626),
            (4 * m, 626),
            (8 * m, 747),
            (16 * m, 716),
            (32 * m, 627),
            (64 * m, 627),
            (128 * m, 626),
            (256 * m, 626),
            (512 * m, 2),
            (g, 141),
            (2 * g, 27),
            (4 * g, 12),
            (8 * g, 2),
            (16 * g, 12),
            (32 * g, 2),
            (64 * g, 4),
            (256 * g, 1),
        ];
        assert_eq!(histogram(&sizes), expected);
    }

    /// Promise: whatever `--bytes` is, a preset has that many, within 1 %.
    #[test]
    fn totals_are_what_was_asked_for() {
        let presets = [Preset::Esnet, Preset::SlacLosf, Preset::SlacLarge, Preset::Jpcs];
        for preset in presets {
            for bytes in [8 * MIB, 9_999_999, 123 * MIB, 3 * GIB, 200 * GIB, 3 * 1_024 * GIB] {
                let total: u64 = preset.sizes(bytes).iter().sum();
                let off = total.abs_diff(bytes) as f64 / bytes as f64;
                assert!(off < 0.01, "{preset:?} of {bytes} bytes has {total}");
            }
            assert!(!preset.sizes(BYTES_MIN).is_empty());
        }
    }

    /// Promise: at 3 GiB `esnet` has the small files as published and each class its share of
    /// the bytes.
    #[test]
    fn esnet_keeps_its_small_files_and_its_shares() {
        let sizes = Preset::Esnet.sizes(3 * GIB);
        assert_eq!(sizes.len(), 2_573);
        assert_eq!(sizes.iter().filter(|&&size| size == 5_000).count(), 626);
        let largest = sizes.iter().max().copied().unwrap_or(0) as f64;
        let share = (461 * GIB) as f64 / sum(&ESNET_SCALED) as f64;
        assert!((largest / (3 * GIB) as f64 - share).abs() < 0.005, "largest has {largest}");
    }

    /// Promise: the number shrinks, not the sizes, where the preset says so.
    #[test]
    fn presets_of_fixed_size_keep_it() {
        let losf = Preset::SlacLosf.sizes(20_000 * MIB);
        assert!(losf.iter().all(|&size| (8 * KIB..=4 * MIB).contains(&size)));
        assert!((9_900..10_100).contains(&losf.len()), "{} files", losf.len());
        let jpcs = Preset::Jpcs.sizes(100 * GIB);
        let near = |size: u64| jpcs.iter().filter(|&&s| s.abs_diff(size) * 50 < size).count();
        assert_eq!(near(MIB), 20_285);
        assert_eq!(near(50 * MIB), 406);
        let large = Preset::SlacLarge.sizes(GIB);
        assert_eq!(large.len(), 710);
    }
}
