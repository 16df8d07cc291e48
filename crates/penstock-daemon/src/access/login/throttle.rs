//! The wait after log-ins that failed: by account, and by the source from which they came.
//!
//! The first five failures cost nothing. After each further one the next try waits, for 12 s at
//! first and for a minute at most, so that nothing is ever locked. A try that comes too early is
//! refused and makes the wait no longer. Failures are forgotten after a quarter of an hour without
//! one. Each try counts as failed until it has succeeded, so that many at a time count too.
//!
//! Otherwise failures of strangers at an account would delay its user. So where a user has logged
//! in from a source before, tries from there are counted apart.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use penstock_proto::units::Instant;

use crate::access::admission::Source;

/// Failures without a wait.
const FREE: u32 = 5;
/// The wait after the first failure that is not free, added for each further one, and at most.
const WAIT: Duration = Duration::from_secs(12);
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Time without a failure after which the earlier ones are forgotten.
const FORGOTTEN: Duration = Duration::from_secs(900);
/// Subjects that have counts of their own. Beyond that, the one whose last failure is oldest is
/// forgotten.
const SUBJECTS_MAX: usize = 8192;
/// Sources from which users have logged in that are remembered.
const KNOWN_MAX: usize = 8192;

/// The one whose failures are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Subject {
    /// An account, from any source that is not known.
    Account(String),
    /// An account, from a source where it has logged in before.
    Known(String, Source),
    /// A source, for any account.
    Source(Source),
}

#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u32,
    last: Instant,
}

impl Failures {
    /// Returns the time left until the next try.
    fn wait(self, now: Instant) -> Duration {
        let over = self.count.saturating_sub(FREE - 1);
        let wait = WAIT.saturating_mul(over).min(WAIT_MAX);
        wait.saturating_sub(now.since(self.last))
    }

    fn settled(self, now: Instant) -> Self {
        if now.since(self.last) >= FORGOTTEN { Self::default() } else { self }
    }
}

/// Counts failures.
#[derive(Default)]
pub(super) struct Throttle(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    failures: HashMap<Subject, Failures>,
    known: HashMap<(String, Source), Instant>,
}

/// A try that is under way.
#[derive(Debug)]
pub(super) struct Attempt {
    account: String,
    source: Option<Source>,
    subjects: Vec<Subject>,
}

impl Throttle {
    /// Begins a try, which counts as failed from now on.
    ///
    /// # Errors
    /// The attempt is too early: returns the remaining wait.
    pub(super) fn begin(
        &self,
        now: Instant,
        account: &str,
        source: Option<Source>,
    ) -> Result<Attempt, Duration> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let account = account.to_owned();
        let known = source.filter(|at| counts.known.contains_key(&(account.clone(), *at)));
        let subjects = match known {
            Some(source) => vec![Subject::Known(account.clone(), source)],
            None => [Some(Subject::Account(account.clone())), source.map(Subject::Source)]
                .into_iter()
                .flatten()
                .collect(),
        };
        let of = |subject| counts.failures.get(subject).copied().unwrap_or_default().settled(now);
        let before: Vec<Failures> = subjects.iter().map(of).collect();
        let wait = before.iter().map(|failures| failures.wait(now)).max().unwrap_or_default();
        if !wait.is_zero() {
            return Err(wait);
        }
        for (subject, failures) in subjects.iter().zip(before) {
            make_room(&mut counts.failures, subject, SUBJECTS_MAX, |failures| failures.last);
            let failures = Failures { count: failures.count + 1, last: now };
            counts.failures.insert(subject.clone(), failures);
        }
        Ok(Attempt { account, source, subjects })
    }

    /// Records that an attempt has succeeded. Failures of its account are forgotten, and those of
    /// its source are one less. So a client with an account of its own tries others no faster.
    pub(super) fn succeeded(&self, now: Instant, attempt: Attempt) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for subject in &attempt.subjects {
            match subject {
                Subject::Source(_) => {
                    if let Some(failures) = counts.failures.get_mut(subject) {
                        failures.count = failures.count.saturating_sub(1);
                    }
                }
                Subject::Account(_) | Subject::Known(..) => drop(counts.failures.remove(subject)),
            }
        }
        if let Some(source) = attempt.source {
            let key = (attempt.account, source);
            make_room(&mut counts.known, &key, KNOWN_MAX, |last| *last);
            counts.known.insert(key, now);
        }
    }
}

/// Makes room for a key: where there are as many as there may be, the oldest one is removed.
fn make_room<K: Clone + Eq + Hash, V>(
    entries: &mut HashMap<K, V>,
    key: &K,
    most: usize,
    last: impl Fn(&V) -> Instant,
) {
    if entries.len() < most || entries.contains_key(key) {
        return;
    }
    let oldest = entries.iter().min_by_key(|(_, value)| last(value)).map(|(key, _)| key.clone());
    oldest.map(|oldest| entries.remove(&oldest));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant(0).plus(Duration::from_secs(10_000 + seconds))
    }

    fn from(host: u8) -> Option<Source> {
        Some(Source::of([10, 0, 0, host].into()))
    }

    /// Promise (C5): five tries are free; then each waits longer than the last one, but never for
    /// more than a minute, and tries that come too early make it no longer.
    #[test]
    fn c5_the_delay_grows_and_never_locks() {
        let throttle = Throttle::default();
        let mut now = at(0);
        (0..5).for_each(|_| drop(throttle.begin(now, "anna", from(1)).unwrap()));
        let mut waits = Vec::new();
        for _ in 0..8 {
            let wait = throttle.begin(now, "anna", from(1)).unwrap_err();
            assert_eq!(throttle.begin(now, "anna", from(1)).unwrap_err(), wait);
            waits.push(wait.as_secs());
            now = now.plus(wait);
            throttle.begin(now, "anna", from(1)).unwrap();
        }
        assert_eq!(waits, [12, 24, 36, 48, 60, 60, 60, 60]);
        let right = throttle.begin(now.plus(WAIT_MAX), "anna", from(1)).unwrap();
        throttle.succeeded(now, right);
        assert!(throttle.begin(now.plus(FORGOTTEN), "anna", from(1)).is_ok());
    }

    /// Promise (C5): an account is guarded from many sources, a source is held from many accounts,
    /// and the user of the account still gets in from where it was before.
    #[test]
    fn c5_strangers_hold_no_user_up() {
        let throttle = Throttle::default();
        let own = throttle.begin(at(0), "anna", from(1)).unwrap();
        throttle.succeeded(at(0), own);
        (10..15).for_each(|host| drop(throttle.begin(at(1), "anna", from(host)).unwrap()));
        assert!(throttle.begin(at(1), "anna", from(20)).is_err());
        let own = throttle.begin(at(1), "anna", from(1)).unwrap();
        throttle.succeeded(at(1), own);
        for name in ["a", "b", "c", "d", "e"] {
            drop(throttle.begin(at(2), name, from(30)).unwrap());
        }
        assert!(throttle.begin(at(2), "f", from(30)).is_err());
        assert!(throttle.begin(at(2), "f", from(31)).is_ok());
        assert!(throttle.begin(at(2), "f", None).is_ok());
    }

    /// Promise: a flood of names and sources takes bounded memory.
    #[test]
    fn subjects_have_a_bound() {
        let throttle = Throttle::default();
        for number in 0..SUBJECTS_MAX + 50 {
            drop(throttle.begin(at(number as u64), &number.to_string(), None).unwrap());
        }
        assert_eq!(throttle.0.lock().unwrap().failures.len(), SUBJECTS_MAX);
    }
}
