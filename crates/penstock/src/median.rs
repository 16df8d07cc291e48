//! The median of values.

/// Returns the middle one of sorted values, or the mean of the two; none of no values.
pub(crate) fn of_sorted(values: &[f64]) -> Option<f64> {
    let upper = *values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// Returns the median of values in any order; none of no values.
pub(crate) fn of(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    of_sorted(&values)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a median is the middle value, or the mean of the two, and no values have none.
    #[test]
    fn medians_are_right() {
        assert_eq!(of(vec![]), None);
        assert_eq!(of(vec![3.0]), Some(3.0));
        assert_eq!(of(vec![3.0, 1.0, 9.0]), Some(3.0));
        assert_eq!(of(vec![3.0, 1.0, 2.0, 9.0]), Some(2.5));
    }
}
