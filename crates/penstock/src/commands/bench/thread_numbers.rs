//! Numbers of threads that a storage benchmark measures, as users write them.

use penstock_api::benchmark::BENCHMARK_THREADS_MAX;

use super::file_sizes::{AUTOMATIC, list_or_range};

/// Numbers of threads of each peer; none where the site chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ThreadNumbers(Vec<u32>);

impl ThreadNumbers {
    /// Reads `auto`, a list as `1,2,4`, or a range as `1-8`: both ends and all powers of two
    /// between them.
    ///
    /// # Errors
    /// The text is none of these; the message says why.
    pub(super) fn of(text: &str) -> Result<Self, String> {
        if text == AUTOMATIC {
            return Ok(Self(Vec::new()));
        }
        let number = |text: &str| match text.parse::<u32>() {
            Ok(number @ 1..=BENCHMARK_THREADS_MAX) => Ok(number.into()),
            _ => Err(format!("give `{AUTOMATIC}`, or numbers from 1 to {BENCHMARK_THREADS_MAX}")),
        };
        let all = list_or_range(text, "number", number)?;
        Ok(Self(all.into_iter().map(|number| number as u32).collect()))
    }

    /// Returns the numbers; none where the site chooses.
    pub(super) fn numbers(&self) -> &[u32] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: numbers of threads are written as sizes are, and what makes no sense is refused.
    #[test]
    fn numbers_are_what_they_say() {
        let numbers = |text: &str| ThreadNumbers::of(text).map(|of| of.0);
        assert_eq!(numbers("auto"), Ok(Vec::new()));
        assert_eq!(numbers("3"), Ok(vec![3]));
        assert_eq!(numbers("1,2,4"), Ok(vec![1, 2, 4]));
        assert_eq!(numbers("1-8"), Ok(vec![1, 2, 4, 8]));
        assert_eq!(numbers("1-6"), Ok(vec![1, 2, 4, 6]));
        for wrong in ["", "0", "257", "8-1", "1,", "1-", "x", "-4"] {
            assert!(numbers(wrong).is_err(), "{wrong}");
        }
    }
}
