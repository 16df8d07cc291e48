//! Addresses that webhooks may have: those below an entry of `webhook.allow`.
//!
//! The list is in the configuration and not in the API. A user of the API therefore cannot make the
//! daemon send requests into the network of its host (server-side request forgery).

use penstock_api::problem::{Problem, ProblemCode};
use reqwest::Url;

/// Longest address of a webhook, in bytes.
const URL_BYTES_MAX: usize = 2048;

/// The addresses that are allowed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Destinations {
    allowed: Vec<Url>,
}

/// Error: an entry of `webhook.allow` is no address that requests could go below.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not the beginning of an address, such as `https://hooks.example.org/`")]
pub struct EntryError(String);

impl Destinations {
    /// Returns the addresses below `entries`.
    ///
    /// # Errors
    /// One of them is no address of HTTP or HTTPS with a host, or has a query or a user.
    pub(crate) fn new(entries: &[String]) -> Result<Self, EntryError> {
        let allowed = entries.iter().map(|entry| {
            let url = Url::parse(entry).ok().filter(is_plain);
            url.filter(|url| url.query().is_none()).ok_or_else(|| EntryError(entry.clone()))
        });
        allowed.collect::<Result<_, _>>().map(|allowed| Self { allowed })
    }

    /// Returns an address if it is allowed.
    ///
    /// # Errors
    /// Code `request` if the text is no address; `webhook-address` if no entry allows it.
    pub(crate) fn check(&self, text: &str) -> Result<Url, Problem> {
        let wrong = || {
            let title = "the URL of a webhook is `https://HOST/PATH`, without user and fragment";
            Problem::new(ProblemCode::Request, title)
        };
        let url = Url::parse(text).ok().filter(is_plain).ok_or_else(wrong)?;
        if text.len() > URL_BYTES_MAX {
            return Err(wrong());
        }
        if self.allowed.iter().any(|entry| is_below(&url, entry)) {
            return Ok(url);
        }
        // A query often is a credential of the receiver: the message leaves it out.
        let place = url.origin().ascii_serialization() + url.path();
        let title = format!("this peer does not allow webhooks to `{place}`");
        let known: Vec<_> = self.allowed.iter().map(Url::as_str).collect();
        let problem = Problem::new(ProblemCode::WebhookAddress, title);
        Err(match known.as_slice() {
            [] => problem.because("`webhook.allow` in penstock.toml is empty"),
            known => problem.because(format!("`webhook.allow` has {}", known.join(", "))),
        }
        .hint(
            "add the beginning of the address to `allow` under `[webhook]` in penstock.toml of \
             every peer, and restart the daemons",
        ))
    }
}

/// Returns whether an address is one of HTTP or HTTPS with a host, and has neither user nor
/// fragment.
fn is_plain(url: &Url) -> bool {
    let has_user = !url.username().is_empty() || url.password().is_some();
    matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && !has_user
        && url.fragment().is_none()
}

/// Returns whether an address lies below another: the same scheme, host and port, and a path that
/// has all segments of the other one.
fn is_below(url: &Url, entry: &Url) -> bool {
    let Some(segments) = entry.path_segments() else { return false };
    let entry_segments: Vec<_> = segments.filter(|segment| !segment.is_empty()).collect();
    let mut segments = url.path_segments().into_iter().flatten();
    url.origin() == entry.origin()
        && entry_segments.into_iter().all(|segment| segments.next() == Some(segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: requests go below the entries of the configuration alone, however an address is
    /// spelt.
    #[test]
    fn only_addresses_below_an_entry_are_allowed() {
        let entries = ["https://hooks.lab.example/penstock", "http://127.0.0.1:9000"];
        let destinations = Destinations::new(&entries.map(str::to_owned)).unwrap();
        let allowed = |url: &str| destinations.check(url).map(drop).map_err(|found| found.code);
        for good in [
            "https://hooks.lab.example/penstock",
            "https://hooks.lab.example/penstock/a?key=1",
            "https://HOOKS.lab.example:443/penstock/",
            "http://127.0.0.1:9000/anything",
        ] {
            assert_eq!(allowed(good), Ok(()), "{good}");
        }
        for other in [
            "https://hooks.lab.example/",
            "https://hooks.lab.example/penstock2",
            "https://hooks.lab.example/penstock/../admin",
            "https://hooks.lab.example/penstock/%2e%2e/admin",
            "http://hooks.lab.example/penstock",
            "https://hooks.lab.example.evil.example/penstock",
            "https://hooks.lab.example:8443/penstock",
            "http://127.0.0.1:9001/",
            "http://169.254.169.254/latest",
        ] {
            assert_eq!(allowed(other), Err(ProblemCode::WebhookAddress), "{other}");
        }
        for wrong in [
            "hooks.lab.example/penstock",
            "file:///etc/passwd",
            "https://anna:secret@hooks.lab.example/penstock",
            "https://hooks.lab.example/penstock#part",
        ] {
            assert_eq!(allowed(wrong), Err(ProblemCode::Request), "{wrong}");
        }
    }

    /// Promise: an entry that allows nothing is reported at the start, and not at the first
    /// webhook.
    #[test]
    fn faulty_entries_are_refused() {
        for bad in ["hooks.lab.example", "*", "ftp://hooks.lab.example/", "https://a/?b"] {
            assert!(Destinations::new(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
