//! The time of transfers as a line in their files and bytes.
//!
//! Pure: the fit is a non-negative least squares of the logarithms of forecast by time, so that
//! twice as much and half as much are the same error. Squares of relative errors would make
//! forecasts too short: none errs by more than 100 % to that side. Each step is linear. With three
//! unknowns its optimum is the ordinary solution for one of seven sets of unknowns, so all are
//! tried (C. L. Lawson and R. J. Hanson, Solving Least Squares Problems, 1974, chapter 23, solves
//! it for many).

use serde::Serialize;

/// Unknowns of the line: a start, a cost of each file, a cost of each byte.
const UNKNOWNS: usize = 3;
/// Part of a unit column that has to be left beside the others, for its unknown to be determined.
const INDEPENDENT: f64 = 1e-5;
/// Most steps of a fit, and most halvings of one.
const STEPS_MAX: usize = 50;
const HALVINGS: i32 = 8;
/// Part of the error that a step has to save, for another one to follow.
const SETTLED: f64 = 1e-9;
/// Least part of a time that a forecast is taken to be, as zero has no logarithm.
const LEAST: f64 = 1e-3;

/// Files, bytes and time of a transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Observation {
    pub(crate) files: f64,
    pub(crate) bytes: f64,
    /// More than 0.
    pub(crate) seconds: f64,
}

/// The line: `start_s + file_s · files + byte_s · bytes`. No part is negative, so more files or
/// bytes never take less time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct CostModel {
    /// Seconds that each transfer takes.
    pub(crate) start_s: f64,
    /// Seconds of each file.
    pub(crate) file_s: f64,
    /// Seconds of each byte.
    pub(crate) byte_s: f64,
}

impl CostModel {
    /// Returns the line whose errors, as logarithms, have the least sum of squares; none without an
    /// observation.
    pub(crate) fn fit(observations: &[Observation]) -> Option<Self> {
        let times: Vec<(f64, f64)> = observations.iter().map(|of| (of.seconds, 1.0)).collect();
        let mut model = Self::step(observations, &times)?;
        let mut error = model.log_error(observations);
        for _ in 0..STEPS_MAX {
            // The logarithm of a time, linear about what the line says now (Gauss and Newton).
            let about = |of: &Observation| {
                let now = model.seconds(of.files, of.bytes).max(of.seconds * LEAST);
                (now, 1.0 + (of.seconds / now).ln())
            };
            let times: Vec<(f64, f64)> = observations.iter().map(about).collect();
            let full = Self::step(observations, &times)?;
            // Between two lines of non-negative parts there are such lines only.
            let nearer = (0..HALVINGS).map(|halving| model.towards(&full, 0.5_f64.powi(halving)));
            let better = nearer.map(|line| (line.log_error(observations), line));
            let Some((less, line)) = better.into_iter().find(|(less, _)| *less < error) else {
                return Some(model);
            };
            let is_settled = error - less <= error * SETTLED;
            (model, error) = (line, less);
            if is_settled {
                return Some(model);
            }
        }
        Some(model)
    }

    /// Returns the best line by errors in parts of `times`: a time, and what the line should have
    /// of it.
    fn step(observations: &[Observation], times: &[(f64, f64)]) -> Option<Self> {
        let all = || observations.iter().zip(times);
        let column = |value: fn(&Observation) -> f64| -> Vec<f64> {
            all().map(|(of, (time, _))| value(of) / time).collect()
        };
        let columns = [column(|_| 1.0), column(|of| of.files), column(|of| of.bytes)];
        let wanted: Vec<f64> = times.iter().map(|(_, part)| *part).collect();
        let sets = 1..1_u8 << UNKNOWNS;
        let solutions = sets.filter_map(|set| solve(&columns, &wanted, set));
        let solutions = solutions.filter(|solution| solution.iter().all(|part| *part >= 0.0));
        let best = solutions.min_by(|one, other| {
            residual(&columns, &wanted, one).total_cmp(&residual(&columns, &wanted, other))
        });
        let [start_s, file_s, byte_s] = best?;
        Some(Self { start_s, file_s, byte_s })
    }

    /// Returns the sum of the squares of the logarithms of forecast by time.
    fn log_error(&self, observations: &[Observation]) -> f64 {
        let of = |one: &Observation| {
            let now = self.seconds(one.files, one.bytes).max(one.seconds * LEAST);
            (now / one.seconds).ln().powi(2)
        };
        observations.iter().map(of).sum()
    }

    /// Returns a line between this one and another, as far as `part` of the way.
    fn towards(&self, other: &Self, part: f64) -> Self {
        let between = |from: f64, to: f64| from * (1.0 - part) + to * part;
        Self {
            start_s: between(self.start_s, other.start_s),
            file_s: between(self.file_s, other.file_s),
            byte_s: between(self.byte_s, other.byte_s),
        }
    }

    /// Returns the seconds for so many files and bytes.
    pub(crate) fn seconds(&self, files: f64, bytes: f64) -> f64 {
        self.start_s + self.file_s * files + self.byte_s * bytes
    }
}

fn dot(one: &[f64], other: &[f64]) -> f64 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

/// Returns the sum of the squares of the errors.
fn residual(columns: &[Vec<f64>; UNKNOWNS], wanted: &[f64], solution: &[f64; UNKNOWNS]) -> f64 {
    let error = |(at, wanted): (usize, &f64)| {
        let got: f64 = columns.iter().zip(solution).map(|(column, part)| column[at] * part).sum();
        (got - wanted) * (got - wanted)
    };
    wanted.iter().enumerate().map(error).sum()
}

/// Returns the ordinary least squares for the unknowns of a set of bits, the others 0, by modified
/// Gram-Schmidt; none where the observations do not determine it.
fn solve(columns: &[Vec<f64>; UNKNOWNS], wanted: &[f64], set: u8) -> Option<[f64; UNKNOWNS]> {
    let of_set: Vec<usize> = (0..UNKNOWNS).filter(|at| set & (1 << at) != 0).collect();
    let mut base: Vec<Vec<f64>> = Vec::new();
    // Row by row, what each column has of each vector of the base.
    let mut parts: Vec<Vec<f64>> = Vec::new();
    for at in &of_set {
        let mut left = columns[*at].clone();
        let whole = dot(&left, &left).sqrt();
        let mut shares = Vec::new();
        for vector in &base {
            let share = dot(vector, &left);
            left.iter_mut().zip(vector).for_each(|(value, unit)| *value -= share * unit);
            shares.push(share);
        }
        let length = dot(&left, &left).sqrt();
        if length.is_nan() || length <= whole * INDEPENDENT {
            return None;
        }
        left.iter_mut().for_each(|value| *value /= length);
        shares.push(length);
        base.push(left);
        parts.push(shares);
    }
    let mut solution = [0.0; UNKNOWNS];
    for row in (0..of_set.len()).rev() {
        let known: f64 =
            (row + 1..of_set.len()).map(|at| parts[at][row] * solution[of_set[at]]).sum();
        solution[of_set[row]] = (dot(&base[row], wanted) - known) / parts[row][row];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn observed(files: f64, mean_bytes: f64, seconds: f64) -> Observation {
        Observation { files, bytes: files * mean_bytes, seconds }
    }

    /// Sets of files, from some small ones to many large ones, with any times.
    fn observations() -> impl Strategy<Value = Vec<Observation>> {
        let one = (0.0..5.0_f64, 1.0..9.0_f64, 0.01..1e5_f64).prop_map(|(files, size, seconds)| {
            observed(10_f64.powf(files), 10_f64.powf(size), seconds)
        });
        proptest::collection::vec(one, 1..12)
    }

    proptest! {
        /// Promise: no part of a fit is negative, whatever was observed, so it is monotone in files
        /// and bytes, and never negative.
        #[test]
        fn a_fit_is_never_negative(
            all in observations(),
            files in 0.0..1e6_f64,
            bytes in 0.0..1e12_f64,
            more in 0.0..1e6_f64,
        ) {
            let model = CostModel::fit(&all).unwrap();
            let parts = [model.start_s, model.file_s, model.byte_s];
            prop_assert!(parts.iter().all(|part| *part >= 0.0 && part.is_finite()), "{model:?}");
            let seconds = model.seconds(files, bytes);
            prop_assert!(seconds >= 0.0);
            prop_assert!(model.seconds(files + more, bytes) >= seconds);
            prop_assert!(model.seconds(files, bytes + more) >= seconds);
        }

        /// Promise: times that follow a line are forecast exactly.
        #[test]
        fn exact_data_give_the_line(
            start in 0.0..5.0_f64,
            file in 0.0..2e-3_f64,
            byte in 1e-10..1e-7_f64,
        ) {
            let line = CostModel { start_s: start, file_s: file, byte_s: byte };
            let sets = [(20_000.0, 4096.0), (40.0, 16e6), (2000.0, 1e6), (5000.0, 65_536.0)];
            let all = sets.map(|(files, mean)| {
                observed(files, mean, line.seconds(files, files * mean))
            });
            let model = CostModel::fit(&all).unwrap();
            for (files, bytes) in [(1.0, 1e3), (1e5, 1e9), (10.0, 1e11)] {
                let (expected, got) = (line.seconds(files, bytes), model.seconds(files, bytes));
                prop_assert!((got / expected - 1.0).abs() < 1e-6, "{got} {expected} {model:?}");
            }
        }

        /// Promise: no line of non-negative parts near the fit errs clearly less.
        #[test]
        fn a_fit_is_the_best(all in observations(), by in prop::array::uniform3(0.9..1.1_f64)) {
            let model = CostModel::fit(&all).unwrap();
            let other = CostModel {
                start_s: model.start_s * by[0],
                file_s: model.file_s * by[1],
                byte_s: model.byte_s * by[2],
            };
            let (least, error) = (model.log_error(&all), other.log_error(&all));
            prop_assert!(least <= error * 1.05 + 1e-6, "{model:?} {least}, {other:?} {error}");
        }
    }

    /// Promise: observations that cannot tell files from bytes give a line all the same, and none
    /// give none.
    #[test]
    fn equal_files_give_a_line() {
        let all = [observed(100.0, 1e6, 1.5), observed(200.0, 1e6, 2.5)];
        let model = CostModel::fit(&all).unwrap();
        assert!((model.seconds(400.0, 4e8) - 4.5).abs() < 1e-6, "{model:?}");
        let one = CostModel::fit(&all[..1]).unwrap();
        assert!((one.seconds(100.0, 1e8) - 1.5).abs() < 1e-9, "{one:?}");
        assert_eq!(CostModel::fit(&[]), None);
    }
}
