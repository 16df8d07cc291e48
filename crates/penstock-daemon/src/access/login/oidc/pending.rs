//! Log-ins that browsers have begun and not yet finished, at the controller.
//!
//! They are in memory: with another controller their users begin again. Each belongs to the browser
//! that has its cookie and is good once, for ten minutes.

use std::collections::HashMap;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use penstock_api::access::Secret;
use penstock_proto::units::Instant;

use crate::access::admission::Source;

/// Time that a user has at the provider.
pub(crate) const LOG_IN_MAX: Duration = Duration::from_secs(600);
/// Log-ins at a time. A further one ends the oldest of the source with the most.
const PENDING_MAX: usize = 1000;
/// Log-ins at a time from one source. A further one ends the oldest of them.
const OF_SOURCE_MAX: usize = 100;

/// Returns a random text of 256 bits.
pub(super) fn random_text() -> String {
    BASE64URL_NOPAD.encode(&rand::random::<[u8; 32]>())
}

/// A log-in that a browser has begun.
#[derive(Debug)]
pub(super) struct Pending {
    /// BLAKE3 of the cookie of its browser.
    browser: blake3::Hash,
    /// The value that the provider's token must repeat (OpenID Connect Core 1.0, 3.1.2.1).
    pub(super) nonce: String,
    /// The secret of which the provider has the digest (RFC 7636).
    pub(super) verifier: Secret,
    /// Address of this site to which the provider sends the browser.
    pub(super) redirect: String,
    /// Path of this site at which the log-in ends.
    pub(super) return_to: String,
    source: Option<Source>,
    begun: Instant,
}

impl Pending {
    pub(super) fn new(
        browser: &Secret,
        redirect: String,
        return_to: String,
        (source, now): (Option<Source>, Instant),
    ) -> Self {
        let browser = blake3::hash(browser.expose().as_bytes());
        let (nonce, verifier) = (random_text(), Secret::new(random_text()));
        Self { browser, nonce, verifier, redirect, return_to, source, begun: now }
    }
}

/// The reason why no log-in is finished by a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PendingFault {
    /// No log-in waits for that state: it was never issued, was used, or its time is over.
    Unknown,
    /// The log-in was started in a different browser.
    OtherBrowser,
}

/// All log-ins that are under way, by the BLAKE3 of their states.
#[derive(Debug, Default)]
pub(super) struct PendingLogins(HashMap<blake3::Hash, Pending>);

impl PendingLogins {
    /// Adds a log-in, and returns its state.
    pub(super) fn add(&mut self, pending: Pending) -> String {
        let now = pending.begun;
        self.0.retain(|_, entry| now.since(entry.begun) < LOG_IN_MAX);
        if self.of(pending.source) >= OF_SOURCE_MAX {
            self.end_oldest(pending.source);
        } else if self.0.len() >= PENDING_MAX {
            let mut counts: HashMap<Option<Source>, usize> = HashMap::new();
            self.0.values().for_each(|entry| *counts.entry(entry.source).or_default() += 1);
            let most = counts.into_iter().max_by_key(|(_, count)| *count);
            most.into_iter().for_each(|(source, _)| self.end_oldest(source));
        }
        let state = random_text();
        self.0.insert(blake3::hash(state.as_bytes()), pending);
        state
    }

    /// Takes the log-in of a state. That of another browser stays.
    ///
    /// # Errors
    /// There is no such log-in, its time is over, or another browser has begun it.
    pub(super) fn take(
        &mut self,
        state: &str,
        browser: Option<&Secret>,
        now: Instant,
    ) -> Result<Pending, PendingFault> {
        let key = blake3::hash(state.as_bytes());
        let found = self.0.get(&key).filter(|entry| now.since(entry.begun) < LOG_IN_MAX);
        let found = found.ok_or(PendingFault::Unknown)?;
        // The comparison of hashes takes the same time wherever they differ.
        if browser.is_none_or(|own| blake3::hash(own.expose().as_bytes()) != found.browser) {
            return Err(PendingFault::OtherBrowser);
        }
        self.0.remove(&key).ok_or(PendingFault::Unknown)
    }

    fn of(&self, source: Option<Source>) -> usize {
        self.0.values().filter(|entry| entry.source == source).count()
    }

    fn end_oldest(&mut self, source: Option<Source>) {
        let of = self.0.iter().filter(|(_, entry)| entry.source == source);
        let oldest = of.min_by_key(|(_, entry)| entry.begun).map(|(key, _)| *key);
        oldest.map(|oldest| self.0.remove(&oldest));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant(0).plus(Duration::from_secs(seconds))
    }

    fn begin(logins: &mut PendingLogins, browser: &str, host: u8, seconds: u64) -> String {
        let source = Some(Source::of([10, 0, 0, host].into()));
        let (browser, path) = (Secret::new(browser), "/".to_owned());
        logins.add(Pending::new(&browser, String::new(), path, (source, at(seconds))))
    }

    /// Promise (C8): a log-in is finished once, in time, and by the browser that began it.
    #[test]
    fn c8_a_state_is_good_once_for_one_browser() {
        let mut logins = PendingLogins::default();
        let (own, other) = (Secret::new("own"), Secret::new("other"));
        let state = begin(&mut logins, "own", 1, 0);
        let fault = |taken: Result<Pending, PendingFault>| taken.unwrap_err();
        assert_eq!(fault(logins.take("x", Some(&own), at(1))), PendingFault::Unknown);
        for browser in [None, Some(&other)] {
            assert_eq!(fault(logins.take(&state, browser, at(1))), PendingFault::OtherBrowser);
        }
        assert_eq!(fault(logins.take(&state, Some(&own), at(600))), PendingFault::Unknown);
        let taken = logins.take(&state, Some(&own), at(599)).unwrap();
        assert_eq!((taken.return_to.as_str(), taken.nonce.len()), ("/", 43));
        assert_eq!(fault(logins.take(&state, Some(&own), at(599))), PendingFault::Unknown);
    }

    /// Promise (C8): a flood of log-ins takes bounded memory, and ends those of its own source.
    #[test]
    fn c8_log_ins_under_way_have_a_bound() {
        let mut logins = PendingLogins::default();
        let own = Secret::new("own");
        let state = begin(&mut logins, "own", 1, 1);
        for number in 0..2000 {
            begin(&mut logins, "flood", 2, number / 10);
        }
        assert_eq!(logins.0.len(), 1 + OF_SOURCE_MAX);
        for number in 0..3000_u64 {
            begin(&mut logins, "flood", 3 + (number % 100) as u8, 200);
        }
        assert_eq!(logins.0.len(), PENDING_MAX);
        assert!(logins.take(&state, Some(&own), at(201)).is_ok(), "others are not ended");
    }
}
