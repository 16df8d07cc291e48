//! Summaries of figures: least, greatest and mean value, and quantiles of type 7. Pure.

use penstock_api::statistics::Spread;

use super::points::{Cell, Point};

/// Returns a quantile of values in ascending order, each with how often it comes: that of type 7 of
/// Hyndman and Fan (1996), which is linear between the two values next to it.
fn quantile(sorted: &[(f64, u64)], count: u64, share: f64) -> f64 {
    let place = share * (count - 1) as f64;
    let (below, part) = (place.floor() as u64, place.fract());
    let mut before = 0;
    let mut values = sorted.iter();
    let Some((value, repeats)) = values.find(|(_, repeats)| {
        before += repeats;
        before > below
    }) else {
        return sorted.last().map_or(0.0, |(value, _)| *value);
    };
    debug_assert!(*repeats > 0);
    let next = if before > below + 1 { Some(value) } else { values.next().map(|(next, _)| next) };
    next.map_or(*value, |next| value + part * (next - value))
}

/// Returns the quantiles of values, each with how often it comes; `None` without any. Least,
/// greatest and mean value are those of the values too.
pub(crate) fn spread_of(mut values: Vec<(f64, u64)>) -> Option<Spread> {
    values.retain(|(_, repeats)| *repeats > 0);
    values.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let count: u64 = values.iter().map(|(_, repeats)| repeats).sum();
    let ((min, _), (max, _)) = (values.first()?, values.last()?);
    let total: f64 = values.iter().map(|(value, repeats)| value * *repeats as f64).sum();
    let at = |share| quantile(&values, count, share);
    Some(Spread {
        seconds: count,
        min: *min,
        p5: at(0.05),
        q1: at(0.25),
        median: at(0.5),
        q3: at(0.75),
        p95: at(0.95),
        p99: at(0.99),
        max: *max,
        mean: total / count as f64,
    })
}

/// Returns the spread of a column of points: quantiles of the means of the points, each as often
/// as it has seconds, and true extremes.
pub(crate) fn spread_of_column<'a>(
    points: impl Iterator<Item = &'a Point>,
    column: usize,
) -> Option<Spread> {
    let cells: Vec<Cell> =
        points.filter_map(|point| point.cells.get(column).copied().flatten()).collect();
    let values = cells.iter().map(|cell| (f64::from(cell.mean), cell.seconds.into()));
    let spread = spread_of(values.collect())?;
    let min = cells.iter().map(|cell| cell.min).fold(f32::MAX, f32::min);
    let max = cells.iter().map(|cell| cell.max).fold(f32::MIN, f32::max);
    Some(Spread { min: min.into(), max: max.into(), ..spread })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn once(values: &[f64]) -> Vec<(f64, u64)> {
        values.iter().map(|value| (*value, 1)).collect()
    }

    /// Promise: quantiles are those of `numpy.percentile` with its default method.
    #[test]
    fn quantiles_are_those_of_numpy() {
        let spread = spread_of(once(&[15.0, 20.0, 35.0, 40.0, 50.0])).unwrap();
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a} is not {b}");
        close(spread.p5, 16.0);
        close(spread.q1, 20.0);
        close(spread.median, 35.0);
        close(spread.q3, 40.0);
        close(spread.p95, 48.0);
        close(spread.p99, 49.6);
        close(spread.mean, 32.0);
        assert_eq!((spread.seconds, spread.min, spread.max), (5, 15.0, 50.0));
        let even = spread_of(once(&[4.0, 1.0, 3.0, 2.0])).unwrap();
        close(even.q1, 1.75);
        close(even.median, 2.5);
        close(even.q3, 3.25);
        let one = spread_of(once(&[7.0])).unwrap();
        assert_eq!([one.min, one.p5, one.median, one.p99, one.max], [7.0; 5]);
        assert_eq!(spread_of(Vec::new()), None);
    }

    /// Promise: a value that comes several times counts as often.
    #[test]
    fn repeated_values_count() {
        let repeated = spread_of(vec![(5.0, 3), (1.0, 2), (9.0, 0), (7.0, 1)]).unwrap();
        assert_eq!(repeated, spread_of(once(&[1.0, 1.0, 5.0, 5.0, 5.0, 7.0])).unwrap());
    }

    /// Promise: extremes within thinned points are those of the summary.
    #[test]
    fn extremes_survive_thinning() {
        let cell = Cell { seconds: 10, min: 1.0, mean: 4.0, max: 90.0 };
        let points = [
            Point { at: 0, cells: vec![Some(cell)] },
            Point { at: 10, cells: vec![None] },
            Point { at: 20, cells: vec![] },
        ];
        let spread = spread_of_column(points.iter(), 0).unwrap();
        assert_eq!((spread.seconds, spread.min, spread.median, spread.max), (10, 1.0, 4.0, 90.0));
        assert_eq!(spread_of_column(points.iter(), 1), None);
    }
}
