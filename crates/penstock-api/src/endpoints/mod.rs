//! The endpoints of the API `/api/v1`: one table, which the daemon serves and forwards by, and by
//! which its clients call.
//!
//! `docs/api.md` is written from the table by `cargo xtask reference`.

mod table;

use std::fmt::{Display, Write as _};

pub use table::*;

use crate::access::Right;

/// Method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads.
    Get,
    /// Gives an order, or makes something.
    Post,
    /// Makes or replaces something under a name that the caller chooses.
    Put,
    /// Changes parts of something.
    Patch,
    /// Removes something.
    Delete,
}

impl Method {
    /// Returns its name in HTTP.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }
}

/// The peer of a site that answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnsweredBy {
    /// Any peer answers for the site, also while there is no controller.
    AnyPeer,
    /// The controller answers; any other peer hands the request to it.
    Controller,
    /// The peer that is asked answers for its own host.
    ThisPeer,
}

impl AnsweredBy {
    /// Returns the words of the reference.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AnyPeer => "any peer",
            Self::Controller => "controller",
            Self::ThisPeer => "this peer",
        }
    }
}

/// What comes of a request that is sent twice, because its answer was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// The request only reads.
    Safe,
    /// The second one finds done what it asks for, or makes something that nobody hears of.
    Idempotent,
    /// The request carries the id of what it makes: the second one finds it made.
    ByClientId,
    /// The second one may do more than the first: it is not sent again.
    Once,
}

impl Repeat {
    /// Returns whether a request may be sent again when its answer was lost.
    pub fn is_allowed(self) -> bool {
        self != Self::Once
    }

    /// Returns the words of the reference.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Safe => "safe",
            Self::Idempotent => "idempotent",
            Self::ByClientId => "by client id",
            Self::Once => "once",
        }
    }
}

/// An endpoint, and all that is to be known of it outside its handler.
#[derive(Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name of its constant here; in small letters it is the operation's id.
    pub name: &'static str,
    /// The method.
    pub method: Method,
    /// The path, with placeholders in braces.
    pub path: &'static str,
    /// The peer that answers.
    pub answered_by: AnsweredBy,
    /// Effect of a repetition.
    pub repeat: Repeat,
    /// The right that a caller needs.
    pub right: Right,
    /// Purpose, in one sentence.
    pub summary: &'static str,
}

/// Endpoints of one area, in the order of the reference.
#[derive(Debug)]
pub struct EndpointGroup {
    /// The area.
    pub name: &'static str,
    /// Its endpoints.
    pub endpoints: &'static [&'static Endpoint],
}

/// The address of a request to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointUri {
    /// The endpoint.
    pub endpoint: &'static Endpoint,
    text: String,
}

/// Longest body of a request that names paths: of a transfer or a plan.
const LONG_BODY_BYTES: usize = 64 << 20;
/// Longest body of any other request, in bytes.
pub const BODY_BYTES: usize = 64 << 10;

impl Endpoint {
    /// Returns the longest body of a request, in bytes.
    pub fn body_bytes_max(&self) -> usize {
        let names_paths = self.right == Right::Submit && self.answered_by == AnsweredBy::Controller;
        if names_paths { LONG_BODY_BYTES } else { BODY_BYTES }
    }

    /// Returns the address with these values in place of the placeholders, in order.
    pub fn uri(&'static self, values: &[&dyn Display]) -> EndpointUri {
        let mut values = values.iter();
        let mut text = String::new();
        for segment in self.path.split('/').skip(1) {
            text.push('/');
            if is_placeholder(segment) {
                let value = values.next().map(ToString::to_string);
                debug_assert!(value.is_some(), "`{}` lacks a value", self.path);
                encode(&value.unwrap_or_default(), &mut text);
            } else {
                text.push_str(segment);
            }
        }
        debug_assert!(values.next().is_none(), "`{}` has no place for a value", self.path);
        EndpointUri { endpoint: self, text }
    }
}

impl EndpointUri {
    /// Adds a parameter to the query.
    #[must_use]
    pub fn query(mut self, name: &str, value: impl Display) -> Self {
        self.text.push(if self.text.contains('?') { '&' } else { '?' });
        self.text.push_str(name);
        self.text.push('=');
        encode(&value.to_string(), &mut self.text);
        self
    }

    /// Returns the path and the query.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Returns the endpoint of a request, and the values in its path as they stand there.
pub fn find<'a>(method: &str, path: &'a str) -> Option<(&'static Endpoint, Vec<&'a str>)> {
    let mut all = TABLE.iter().flat_map(|group| group.endpoints).copied();
    all.find_map(|endpoint| {
        let (ours, theirs) = (endpoint.path.split('/'), path.split('/'));
        if endpoint.method.as_str() != method || ours.clone().count() != theirs.clone().count() {
            return None;
        }
        let mut values = Vec::new();
        for (ours, theirs) in ours.zip(theirs) {
            if is_placeholder(ours) {
                values.push(theirs);
            } else if ours != theirs {
                return None;
            }
        }
        Some((endpoint, values))
    })
}

/// Returns whether a segment of a path stands for a value.
fn is_placeholder(segment: &str) -> bool {
    segment.starts_with('{')
}

/// Appends a text as a part of a URI: all but unreserved characters are encoded (RFC 3986, 2.3).
fn encode(text: &str, to: &mut String) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                to.push(char::from(byte));
            }
            // Writing to a String does not fail.
            _ => drop(write!(to, "%{byte:02X}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = &'static Endpoint> {
        TABLE.iter().flat_map(|group| group.endpoints).copied()
    }

    fn segments(endpoint: &Endpoint) -> impl Iterator<Item = &'static str> {
        endpoint.path.split('/').skip(1)
    }

    /// Promise: an operation has one id, one method and one path.
    #[test]
    fn each_operation_is_there_once() {
        for (at, endpoint) in all().enumerate() {
            let path = endpoint.path;
            let outside = path.starts_with("/auth/oidc/")
                || ["/healthz", "/readyz", "/metrics"].contains(&path);
            assert!(path.starts_with("/api/v1/") || outside, "{path}");
            for other in all().skip(at + 1) {
                assert_ne!(endpoint.name, other.name);
                assert!((endpoint.method, path) != (other.method, other.path), "{path}");
            }
        }
    }

    /// Promise: whatever a site, a peer or a transfer is called, its path is no other one.
    #[test]
    fn no_name_hides_a_path() {
        for (one, other) in all().flat_map(|one| all().map(move |other| (one, other))) {
            let pairs: Vec<_> = segments(one).zip(segments(other)).collect();
            let apart = pairs.iter().find(|(one, other)| one != other);
            let hides =
                apart.is_some_and(|(one, other)| is_placeholder(one) || is_placeholder(other));
            assert!(!hides, "`{}` and `{}`", one.path, other.path);
        }
    }

    /// Promise: what only reads is safe, and what is safe only reads. Orders to one host are for
    /// its root alone, but to check and reload the files that root has written. Nobody changes
    /// anything without credentials but to log in.
    #[test]
    fn the_facts_of_an_endpoint_fit_each_other() {
        for endpoint in all() {
            let (path, is_get) = (endpoint.path, endpoint.method == Method::Get);
            // The code of a provider is good once, and comes by the address that a browser opens.
            let is_safe = is_get && *endpoint != FINISH_OIDC;
            assert_eq!(is_safe, endpoint.repeat == Repeat::Safe, "{path}");
            let orders_host = endpoint.answered_by == AnsweredBy::ThisPeer && !is_get;
            let right = match [&CHECK_SETTINGS, &RELOAD_SETTINGS].contains(&endpoint) {
                true => Right::Administer,
                false => Right::LocalRoot,
            };
            assert!(!orders_host || endpoint.right == right, "{path}");
            let logs_in = [&LOG_IN, &SET_UP, &ACCEPT_INVITATION, &BEGIN_DEVICE, &GET_DEVICE_TOKEN];
            assert_eq!(!is_get && endpoint.right == Right::Public, logs_in.contains(&endpoint));
        }
    }

    /// Promise: what may do more the second time is not repeated when an answer is lost; all that
    /// names what it begins, sets, removes or only looks is.
    #[test]
    fn only_what_may_be_done_twice_is_repeated() {
        let of_log_ins = [&SET_UP, &ACCEPT_INVITATION, &GET_DEVICE_TOKEN, &FINISH_OIDC];
        let of_many = [&RETRY_TRANSFER, &ACT_ON_TRANSFERS, &PAIR, &TAKE_OVER, &RECOVER];
        let of_webhooks = [&TEST_WEBHOOK, &ROTATE_WEBHOOK, &REDELIVER];
        let once = [&of_many[..], &of_log_ins, &of_webhooks, &[&START_BENCHMARK]].concat();
        for endpoint in all() {
            assert_eq!(!endpoint.repeat.is_allowed(), once.contains(&endpoint), "{endpoint:?}");
        }
    }

    /// Promise: a value stands in a path as it is, whatever is in it.
    #[test]
    fn values_are_encoded() {
        let uri = SHOW_TRANSFER.uri(&[&"7f"]);
        assert_eq!(uri.as_str(), "/api/v1/transfers/7f");
        let uri = GET_CHECKSUMS.uri(&[&"a/b c", &"sha-256"]).query("x", "1&2").query("y", 3);
        assert_eq!(uri.as_str(), "/api/v1/transfers/a%2Fb%20c/checksums/sha-256?x=1%262&y=3");
    }

    /// Promise: a request is found by its method and path, with the names in it.
    #[test]
    fn requests_are_found() {
        let found = find("POST", "/api/v1/transfers/7f/pause").unwrap();
        assert_eq!(found, (&PAUSE_TRANSFER, vec!["7f"]));
        assert_eq!(find("GET", "/api/v1/users").unwrap(), (&LIST_USERS, vec![]));
        assert!(find("POST", "/api/v1/users").is_none() && find("GET", "/api/v1").is_none());
    }

    /// Promise: a path of the API that a document names is one of the table.
    #[test]
    fn documents_name_no_other_paths() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let mut named = 0;
        for text in documents(&docs) {
            for (at, _) in text.match_indices("/api/v1/") {
                let ends = |found: char| found.is_whitespace() || "`'\"?),;|…".contains(found);
                let path = text[at..].split(ends).next().unwrap().trim_end_matches('.');
                let known = |endpoint: &Endpoint| {
                    endpoint.path == path
                        || segments(endpoint).count() == path.split('/').skip(1).count()
                            && segments(endpoint)
                                .zip(path.split('/').skip(1))
                                .all(|(ours, theirs)| is_placeholder(ours) || ours == theirs)
                };
                assert!(all().any(known), "`{path}` is not in the table");
                named += 1;
            }
        }
        assert!(named >= all().count() - 5, "docs/api.md lists all: {named}");
    }

    fn documents(directory: &std::path::Path) -> Vec<String> {
        let mut texts = Vec::new();
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                texts.extend(documents(&path));
            } else if path.extension().is_some_and(|end| end == "md") {
                texts.push(std::fs::read_to_string(path).unwrap());
            }
        }
        texts
    }
}
