//! Figures over time, in points that become longer as they become older. Pure.
//!
//! A sample is one second. Points of 1 s, 10 s, 1 min and 10 min are kept for longer each. A point
//! has the least, the mean and the greatest value of its seconds, so thinning loses neither totals
//! nor extremes. Borders between the lengths are whole points of both, so no second is in two
//! points of an answer and none is in no point.

use std::collections::BTreeMap;

/// Length of points, and the time for which they are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tier {
    /// Length of a point, in seconds.
    pub(crate) seconds: u64,
    /// Time before the newest sample for which such points are kept, in seconds.
    pub(crate) keep: u64,
}

pub(crate) const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// All lengths, each a multiple of the one before.
pub(crate) const TIERS: [Tier; 4] = [
    Tier { seconds: 1, keep: 600 },
    Tier { seconds: 10, keep: 6 * HOUR },
    Tier { seconds: 60, keep: 7 * DAY },
    Tier { seconds: 600, keep: 400 * DAY },
];

/// Lengths to which an answer is thinned further, in seconds.
const ANSWER_SECONDS: [u64; 8] = [1, 10, 60, 600, HOUR, 6 * HOUR, DAY, 7 * DAY];
/// Bytes of a cell in the archive.
const CELL_BYTES: usize = 16;

/// A figure within a point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cell {
    /// Seconds of the point in which the figure was known.
    pub(crate) seconds: u32,
    /// Least value.
    pub(crate) min: f32,
    /// Mean value.
    pub(crate) mean: f32,
    /// Greatest value.
    pub(crate) max: f32,
}

impl Cell {
    /// Returns the cell of a time in which the figure had one value.
    pub(crate) fn of(value: f64, seconds: u32) -> Self {
        let value = value as f32;
        Self { seconds, min: value, mean: value, max: value }
    }

    fn merged(self, other: Self) -> Self {
        let seconds = self.seconds.saturating_add(other.seconds);
        let total = f64::from(self.mean) * f64::from(self.seconds)
            + f64::from(other.mean) * f64::from(other.seconds);
        Self {
            seconds,
            min: self.min.min(other.min),
            mean: (total / f64::from(seconds)) as f32,
            max: self.max.max(other.max),
        }
    }
}

/// All figures within a time.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    /// Its begin, in seconds since 1970.
    pub(crate) at: u64,
    /// A cell for each column of the series; columns that came later may be missing at the end.
    pub(crate) cells: Vec<Option<Cell>>,
}

impl Point {
    /// Merges another point into this one, whose begin stays.
    pub(crate) fn merge(&mut self, other: &Self) {
        if self.cells.len() < other.cells.len() {
            self.cells.resize(other.cells.len(), None);
        }
        for (own, other) in self.cells.iter_mut().zip(&other.cells) {
            *own = match (*own, *other) {
                (Some(own), Some(other)) => Some(own.merged(other)),
                (own, other) => own.or(other),
            };
        }
    }

    /// Returns the bytes of its cells.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.cells.len() * CELL_BYTES);
        for cell in &self.cells {
            let cell = cell.unwrap_or(Cell { seconds: 0, min: 0.0, mean: 0.0, max: 0.0 });
            bytes.extend(cell.seconds.to_le_bytes());
            for value in [cell.min, cell.mean, cell.max] {
                bytes.extend(value.to_le_bytes());
            }
        }
        bytes
    }

    /// Reads the bytes of [`Point::encode`]. Bytes that are no whole cell are left out.
    pub(crate) fn decode(at: u64, bytes: &[u8]) -> Self {
        let cells = bytes.chunks_exact(CELL_BYTES).map(|bytes| {
            let word = |at: usize| {
                let mut word = [0; 4];
                word.copy_from_slice(&bytes[at..at + 4]);
                word
            };
            let value = |at| f32::from_le_bytes(word(at));
            let seconds = u32::from_le_bytes(word(0));
            (seconds > 0).then(|| Cell { seconds, min: value(4), mean: value(8), max: value(12) })
        });
        Self { at, cells: cells.collect() }
    }
}

/// Puts points together to points of `seconds`, ascending.
pub(crate) fn thin<'a>(points: impl IntoIterator<Item = &'a Point>, seconds: u64) -> Vec<Point> {
    let mut thinned: BTreeMap<u64, Point> = BTreeMap::new();
    for point in points {
        let at = point.at - point.at % seconds;
        let into = thinned.entry(at).or_insert_with(|| Point { at, cells: Vec::new() });
        into.merge(point);
    }
    thinned.into_values().collect()
}

/// Returns the begin of the time that each tier covers, where `last` is the newest sample. It ends
/// where that of the tier before begins.
pub(crate) fn begins(last: u64) -> [u64; 4] {
    std::array::from_fn(|at| {
        let whole = TIERS.get(at + 1).unwrap_or(&TIERS[at]).seconds;
        let begin = last.saturating_sub(TIERS[at].keep);
        begin - begin % whole
    })
}

/// Thins points of any lengths further until there are at most `most`, or as few as there can be.
/// Returns them with the length of each, in seconds.
pub(crate) fn fit(mut points: Vec<(u64, Point)>, most: usize) -> Vec<(u64, Point)> {
    for seconds in ANSWER_SECONDS {
        if points.len() <= most {
            break;
        }
        let mut thinned: Vec<(u64, Point)> = Vec::new();
        for (length, point) in points {
            let at = point.at - point.at % seconds;
            match thinned.last_mut() {
                Some((longest, last)) if last.at == at => {
                    last.merge(&point);
                    *longest = length.max(*longest);
                }
                _ => thinned.push((length.max(seconds), Point { at, ..point })),
            }
        }
        points = thinned;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt as _, SeedableRng as _};

    fn total(points: &[Point], column: usize) -> f64 {
        let cells = points.iter().filter_map(|point| *point.cells.get(column)?);
        cells.map(|cell| f64::from(cell.mean) * f64::from(cell.seconds)).sum()
    }

    fn extremes(points: &[Point], column: usize) -> (f32, f32) {
        let cells = points.iter().filter_map(|point| *point.cells.get(column)?);
        cells.fold((f32::MAX, f32::MIN), |(min, max), cell| (min.min(cell.min), max.max(cell.max)))
    }

    /// Promise (property): however points are thinned, in whatever steps, totals and extremes of
    /// each figure stay, also if the figure is unknown for a while or starts later.
    #[test]
    fn thinning_keeps_totals_and_extremes() {
        for seed in 0..40_u64 {
            let mut random = rand::rngs::StdRng::seed_from_u64(seed);
            let begin: u64 = random.random_range(0..10_000);
            let samples: Vec<Point> = (0..random.random_range(1..5000))
                .map(|second| {
                    let known = random.random_range(0..10) > 0;
                    let value = |top: f64, random: &mut rand::rngs::StdRng| {
                        Some(Cell::of(random.random_range(0.0..top), 1))
                    };
                    let mut cells = vec![known.then(|| value(1e11, &mut random)).flatten()];
                    if second > 100 {
                        cells.push(value(100.0, &mut random));
                    }
                    Point { at: begin + second, cells }
                })
                .collect();
            let ten = thin(&samples, 10);
            let steps = thin(&thin(&ten, 60), 600);
            let at_once = thin(&samples, 600);
            assert_eq!(steps.len(), at_once.len(), "seed {seed}");
            for column in 0..2 {
                for thinned in [&ten, &steps, &at_once] {
                    let (now, then) = (total(thinned, column), total(&samples, column));
                    assert!((now - then).abs() <= then * 1e-5, "seed {seed}: {now} of {then}");
                    let extremes_now = extremes(thinned, column);
                    assert_eq!(extremes_now, extremes(&samples, column), "seed {seed}");
                }
            }
        }
    }

    /// Promise: each second is in one tier: borders are whole points of both tiers, and older
    /// points are longer.
    #[test]
    fn tiers_meet_without_gap_or_overlap() {
        for last in [0, 5, 599, 600, 601, 12_345_678, 1_900_000_007] {
            let begins = begins(last);
            for (at, begin) in begins.iter().enumerate() {
                assert_eq!(begin % TIERS[at].seconds, 0);
                let older = TIERS.get(at + 1).map_or(1, |tier| tier.seconds);
                assert_eq!(begin % older, 0, "the tier after {at} has whole points before {begin}");
                assert!(*begin <= last.saturating_sub(TIERS[at].keep));
            }
            assert!(begins.is_sorted_by(|newer, older| newer >= older), "{begins:?}");
        }
    }

    /// Promise: an answer has no more points than were asked for, and their lengths are true.
    #[test]
    fn an_answer_fits() {
        let point = |at| Point { at, cells: vec![Some(Cell::of(at as f64, 1))] };
        let mut points: Vec<_> = (0..50).map(|number| (60, point(number * 60))).collect();
        points.extend((3000..3900).map(|at| (1, point(at))));
        let fitted = fit(points.clone(), 160);
        assert!(fitted.len() <= 160, "{}", fitted.len());
        assert_eq!(fitted[0].0, 60);
        assert_eq!(fitted.last().unwrap().0, 10);
        let only: Vec<_> = fitted.iter().map(|(_, point)| point.clone()).collect();
        let all: Vec<_> = points.iter().map(|(_, point)| point.clone()).collect();
        assert!((total(&only, 0) - total(&all, 0)).abs() < 1.0);
        assert_eq!(fit(points, 5000).len(), 950);
        assert_eq!(fit(Vec::new(), 1), Vec::new());
    }

    /// Promise: written points are read back, and a cut cell is ignored.
    #[test]
    fn points_are_read_as_they_are_written() {
        let point =
            Point { at: 7, cells: vec![Some(Cell::of(1.5, 1)), None, Some(Cell::of(-2.0, 1))] };
        let bytes = point.encode();
        assert_eq!(Point::decode(7, &bytes), point);
        assert_eq!(Point::decode(7, &bytes[..bytes.len() - 1]).cells.len(), 2);
    }
}
