//! A client of etcd 3.4 and later, over its JSON gateway (`/v3/…`).
//!
//! The gateway speaks HTTP with the client that sites use for each other already; gRPC would bring
//! a second stack and a compiler for its schemas (`docs/design/0019`). Keys and values are base64
//! there, 64-bit numbers are texts, and zero values are omitted.
//!
//! Each call goes to one endpoint, and to the next if that one does not answer; it ends within its
//! deadline. Calls block, from any thread. A thread of this client's own serves the network, so
//! that no other work of a daemon delays a lease.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock, mpsc};
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// Largest number of operations in a transaction; etcd accepts 128 by default.
pub const OPERATIONS_MAX: usize = 100;
/// Longest value that this client writes.
pub const VALUE_BYTES_MAX: usize = 64 << 10;

/// The reason why a call to etcd failed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EtcdError {
    /// No endpoint answered in time, or none has a majority behind it: it may have been done.
    #[error("no etcd endpoint answers: {0}")]
    Unavailable(String),
    /// The endpoint answered that the request cannot be done.
    #[error("etcd refuses: {0}")]
    Refused(String),
    /// The answer cannot be understood.
    #[error("etcd answers what this release does not understand: {0}")]
    Answer(String),
}

/// The configuration of the client.
#[derive(Clone)]
pub struct EtcdConfig {
    /// Addresses as `https://HOST:PORT`.
    pub endpoints: Vec<String>,
    /// The HTTP client, with the TLS configuration that the endpoints require.
    pub http: reqwest::Client,
    /// User and password, where etcd asks for them.
    pub user: Option<(String, String)>,
    /// The longest time that one endpoint may take for an answer.
    pub patience: Duration,
}

/// The client.
pub struct Etcd {
    pub(super) config: EtcdConfig,
    /// The client of the configuration, or its replacement.
    http: RwLock<reqwest::Client>,
    /// The endpoints of the configuration, or their replacement.
    endpoints: RwLock<Vec<String>>,
    /// The endpoint that answered last.
    current: AtomicUsize,
    /// Passwords of the configured user, the one that is good now first.
    passwords: Mutex<Vec<String>>,
    token: Mutex<Option<String>>,
    runtime: Option<Runtime>,
    transactions: AtomicU64,
    bytes: AtomicU64,
    /// Calls that no endpoint answered.
    unanswered: AtomicU64,
}

/// A key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: String,
    /// Its value.
    pub value: Vec<u8>,
    /// Revision at which it was made.
    pub created: u64,
    /// Revision at which it was last written.
    pub written: u64,
    /// Lease that it lives with; 0 for none.
    pub lease: u64,
}

/// A comparison of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The key was made at this revision; 0 for a key that does not exist.
    Created(String, u64),
    /// The key exists and has this value.
    Value(String, Vec<u8>),
}

/// An operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Writes a key, under a lease unless that is 0.
    Put(String, Vec<u8>, u64),
    /// Removes a key.
    Delete(String),
    /// Removes all keys that begin so.
    DeletePrefix(String),
    /// Reads a key.
    Get(String),
    /// Reads all keys that begin so.
    GetPrefix(String),
}

impl Operation {
    fn bytes(&self) -> usize {
        match self {
            Self::Put(key, value, _) => key.len() + value.len(),
            Self::Delete(key) | Self::DeletePrefix(key) => key.len(),
            Self::Get(_) | Self::GetPrefix(_) => 0,
        }
    }

    fn writes(&self) -> bool {
        !matches!(self, Self::Get(_) | Self::GetPrefix(_))
    }
}

/// The result of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Set if all comparisons held, and so all operations were done.
    pub succeeded: bool,
    /// Revision of the whole store afterwards.
    pub revision: u64,
    /// The keys that were read, one list for each operation.
    pub read: Vec<Vec<KeyValue>>,
}

impl Etcd {
    /// Returns a client; nothing is asked yet.
    ///
    /// # Errors
    /// Its thread cannot be started.
    pub fn new(config: EtcdConfig) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("etcd")
            .enable_all()
            .build()?;
        Ok(Self {
            endpoints: RwLock::new(config.endpoints.clone()),
            http: RwLock::new(config.http.clone()),
            passwords: Mutex::new(config.user.iter().map(|(_, word)| word.clone()).collect()),
            config,
            current: AtomicUsize::new(0),
            token: Mutex::default(),
            runtime: Some(runtime),
            transactions: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
        })
    }

    /// Returns the writing transactions so far, and bytes of keys and values in them.
    pub fn written(&self) -> (u64, u64) {
        (self.transactions.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed))
    }

    /// Calls so far that no endpoint answered in time.
    pub fn unanswered(&self) -> u64 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Runs a transaction: if all of `compare` holds, all of `operations` are done, else nothing.
    ///
    /// # Errors
    /// `Unavailable`: it may have been done all the same. `Refused`.
    ///
    /// # Panics
    /// On a value or a transaction beyond the limits of E6: a broken promise of our own.
    pub fn transact(
        &self,
        compare: &[Compare],
        operations: &[Operation],
        deadline: Duration,
    ) -> Result<Answer, EtcdError> {
        assert!(operations.len() <= OPERATIONS_MAX, "a transaction beyond its limit");
        let body = json!({
            "compare": compare.iter().map(compare_json).collect::<Vec<_>>(),
            "success": operations.iter().map(operation_json).collect::<Vec<_>>(),
        });
        let reply = self.call("/v3/kv/txn", &body, deadline)?;
        if operations.iter().any(Operation::writes) {
            self.transactions.fetch_add(1, Ordering::Relaxed);
            let bytes: usize = operations.iter().map(Operation::bytes).sum();
            self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        }
        let read = reply["responses"].as_array().into_iter().flatten();
        Ok(Answer {
            succeeded: reply["succeeded"].as_bool().unwrap_or(false),
            revision: number(&reply["header"]["revision"]),
            read: read
                .map(|one| key_values(&one["response_range"]["kvs"]))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Returns all keys that begin with `prefix`, in parts, so that no answer exceeds etcd's limit.
    ///
    /// # Errors
    /// `Unavailable`, `Refused`, `Answer`.
    pub fn list(&self, prefix: &str, deadline: Duration) -> Result<Vec<KeyValue>, EtcdError> {
        const PART: u64 = 500;
        let end = end_of(prefix);
        let (mut from, mut found) = (prefix.as_bytes().to_vec(), Vec::new());
        loop {
            let body = json!({
                "key": BASE64.encode(&from), "range_end": BASE64.encode(&end),
                "limit": PART.to_string(),
            });
            let reply = self.call("/v3/kv/range", &body, deadline)?;
            let part = key_values(&reply["kvs"])?;
            if let Some(last) = part.last() {
                from = last.key.as_bytes().to_vec();
                from.push(0);
            }
            found.extend(part);
            if !reply["more"].as_bool().unwrap_or(false) {
                return Ok(found);
            }
        }
    }

    /// Makes a new lease of about `seconds`. Returns its id and its actual seconds.
    ///
    /// # Errors
    /// `Unavailable`, `Refused`.
    pub fn grant(&self, seconds: u64, deadline: Duration) -> Result<(u64, u64), EtcdError> {
        let body = json!({ "TTL": seconds.to_string() });
        let reply = self.call("/v3/lease/grant", &body, deadline)?;
        Ok((number(&reply["ID"]), number(&reply["TTL"])))
    }

    /// Prolongs a lease. Returns its seconds from the moment that etcd received the request, 0 if
    /// it has ended.
    ///
    /// # Errors
    /// `Unavailable`, `Refused`.
    pub fn keep_alive(&self, lease: u64, deadline: Duration) -> Result<u64, EtcdError> {
        let body = json!({ "ID": lease.to_string() });
        let reply = self.call("/v3/lease/keepalive", &body, deadline)?;
        Ok(number(&reply["result"]["TTL"]))
    }

    /// Ends a lease and removes its keys.
    ///
    /// # Errors
    /// `Unavailable`, `Refused`.
    pub fn revoke(&self, lease: u64, deadline: Duration) -> Result<(), EtcdError> {
        let body = json!({ "ID": lease.to_string() });
        self.call("/v3/lease/revoke", &body, deadline).map(drop)
    }

    /// Returns the endpoints that are asked, the first of them first.
    pub fn endpoints(&self) -> Vec<String> {
        self.endpoints.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks these endpoints from now on.
    pub fn set_endpoints(&self, endpoints: Vec<String>) {
        let mut known = self.endpoints.write().unwrap_or_else(PoisonError::into_inner);
        if *known != endpoints {
            *known = endpoints;
            self.current.store(0, Ordering::Relaxed);
        }
    }

    /// Replaces the HTTP client, for example after its certificate was renewed.
    pub fn set_http(&self, http: reqwest::Client) {
        *self.http.write().unwrap_or_else(PoisonError::into_inner) = http;
    }

    fn http(&self) -> reqwest::Client {
        self.http.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks endpoints in turn until one answers, within `deadline`.
    pub(super) fn call(
        &self,
        path: &str,
        body: &Value,
        deadline: Duration,
    ) -> Result<Value, EtcdError> {
        self.in_turn(deadline, |endpoint, left| self.call_at(endpoint, path, body, left))
    }

    /// Asks endpoints in turn, the one that answered last first, until one answers, within
    /// `deadline` and with a time for each.
    pub(super) fn in_turn<T>(
        &self,
        deadline: Duration,
        ask: impl Fn(&str, Duration) -> Result<T, EtcdError>,
    ) -> Result<T, EtcdError> {
        let until = Instant::now() + deadline;
        let mut last = EtcdError::Unavailable("there is no endpoint".to_owned());
        for (at, endpoint) in self.in_order() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match ask(&endpoint, left.min(self.config.patience)) {
                Err(EtcdError::Unavailable(why)) => last = EtcdError::Unavailable(why),
                answer => {
                    self.current.store(at, Ordering::Relaxed);
                    return answer;
                }
            }
        }
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        Err(last)
    }

    /// Returns the endpoints, the one that answered last first, each with its place among them.
    pub(super) fn in_order(&self) -> Vec<(usize, String)> {
        let mut all: Vec<_> = self.endpoints().into_iter().enumerate().collect();
        let first = self.current.load(Ordering::Relaxed) % all.len().max(1);
        all.rotate_left(first);
        all
    }

    pub(super) fn call_at(
        &self,
        endpoint: &str,
        path: &str,
        body: &Value,
        deadline: Duration,
    ) -> Result<Value, EtcdError> {
        let url = format!("{}{path}", endpoint.trim_end_matches('/'));
        let mut tried = false;
        loop {
            let token = self.token(endpoint, deadline)?;
            let reply = self.post(&url, body, token.clone(), deadline);
            let void = matches!(&reply, Err(EtcdError::Refused(why)) if is_void(why));
            if !void || tried || token.is_none() {
                return reply;
            }
            tried = true;
            let mut kept = self.token.lock().unwrap_or_else(PoisonError::into_inner);
            // Another thread may have got a new one meanwhile.
            if *kept == token {
                *kept = None;
            }
        }
    }

    /// Returns the token of the configured user, if there is one; etcd forgets it after some
    /// minutes. Requests it outside the lock: renewing a lease must not wait for the requests of
    /// others.
    pub(super) fn token(
        &self,
        endpoint: &str,
        deadline: Duration,
    ) -> Result<Option<String>, EtcdError> {
        let Some((user, _)) = &self.config.user else { return Ok(None) };
        let kept = || self.token.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept().clone();
        if known.is_some() {
            return Ok(known);
        }
        let url = format!("{}/v3/auth/authenticate", endpoint.trim_end_matches('/'));
        let mut reply = Err(EtcdError::Refused("there is no password".to_owned()));
        for password in self.passwords() {
            let body = json!({ "name": user, "password": password });
            reply = self.post(&url, &body, None, deadline);
            if !matches!(&reply, Err(EtcdError::Refused(why)) if why.contains(OTHER_PASSWORD)) {
                break;
            }
        }
        let reply = match reply {
            // That is the state before the password is set: see `protect`.
            Err(EtcdError::Refused(why)) if why.contains("not enabled") => return Ok(None),
            reply => reply?,
        };
        let token = reply["token"].as_str().map(str::to_owned);
        kept().clone_from(&token);
        Ok(token)
    }

    pub(super) fn forget_token(&self) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(super) fn passwords(&self) -> Vec<String> {
        self.passwords.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Authenticates with these passwords from now on, the first that etcd takes: while it is
    /// changed there are two.
    pub fn set_passwords(&self, passwords: Vec<String>) {
        *self.passwords.lock().unwrap_or_else(PoisonError::into_inner) = passwords;
    }

    /// Changes the password of the configured user. etcd forgets all tokens that it gave for the
    /// one before.
    ///
    /// # Errors
    /// `Unavailable`: it may have been done all the same. `Refused`.
    pub fn change_password(&self, password: &str, deadline: Duration) -> Result<(), EtcdError> {
        let Some((user, _)) = &self.config.user else { return Ok(()) };
        let change = json!({ "name": user, "password": password });
        self.call("/v3/auth/user/changepw", &change, deadline).map(drop)
    }

    /// Returns whether there is a token, or none is needed.
    pub(super) fn has_token(&self) -> bool {
        let kept = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        self.config.user.is_none() || kept.is_some()
    }

    /// Returns the answer of an endpoint under a path beside the API, as text.
    pub(super) fn text(
        &self,
        endpoint: &str,
        path: &str,
        deadline: Duration,
    ) -> Result<String, EtcdError> {
        let url = format!("{}{path}", endpoint.trim_end_matches('/'));
        let request = self.http().get(&url).timeout(deadline);
        match self.send(&url, request, deadline)? {
            (status, text) if status.is_success() => Ok(text),
            (status, _) => Err(EtcdError::Refused(format!("HTTP status {status} ({url})"))),
        }
    }

    pub(super) fn post(
        &self,
        url: &str,
        body: &Value,
        token: Option<String>,
        deadline: Duration,
    ) -> Result<Value, EtcdError> {
        let mut request = self
            .http()
            .post(url)
            .timeout(deadline)
            .header("content-type", "application/json")
            .body(body.to_string());
        if let Some(token) = token {
            request = request.header("authorization", token);
        }
        let unavailable = |why: String| EtcdError::Unavailable(format!("{why} ({url})"));
        let (status, text) = self.send(url, request, deadline)?;
        let reply: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
        let complaint = [&reply["error"], &reply["message"], &reply["error"]["message"]]
            .into_iter()
            .find_map(Value::as_str);
        match complaint {
            // Codes of gRPC: unavailable, deadline exceeded, aborted, cancelled, unknown. The last
            // is etcd's answer if it has no leader, or a leader that changes.
            Some(why) if [14, 4, 10, 1, 2].contains(&number(&reply["code"])) => {
                Err(unavailable(why.to_owned()))
            }
            Some(why) => Err(EtcdError::Refused(why.to_owned())),
            None if !status.is_success() => {
                let text: String = text.trim().chars().take(200).collect();
                Err(unavailable(format!("HTTP status {status}: {text}")))
            }
            None if reply.is_null() => Err(EtcdError::Answer(text.chars().take(200).collect())),
            None => Ok(reply),
        }
    }

    /// Sends a request and returns its answer, on the thread that serves the network.
    fn send(
        &self,
        url: &str,
        request: reqwest::RequestBuilder,
        deadline: Duration,
    ) -> Result<(reqwest::StatusCode, String), EtcdError> {
        let Some(runtime) = &self.runtime else {
            return Err(EtcdError::Unavailable("the client has ended".to_owned()));
        };
        let (done, answer) = mpsc::sync_channel(1);
        runtime.spawn(async move {
            let outcome = async {
                let response = request.send().await?;
                Ok::<_, reqwest::Error>((response.status(), response.text().await?))
            };
            // An error here means that the caller has stopped waiting: the deadline has passed.
            let _ = done.send(outcome.await);
        });
        let unavailable = |why: String| EtcdError::Unavailable(format!("{why} ({url})"));
        match answer.recv_timeout(deadline) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(unavailable(words(&error))),
            Err(_) => Err(unavailable("no answer in time".to_owned())),
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// The answer of etcd to a password that is not the user's.
const OTHER_PASSWORD: &str = "authentication failed";

/// Returns whether etcd's message means that a token is void: etcd forgets tokens after some
/// minutes, and on a restart.
fn is_void(why: &str) -> bool {
    ["auth token", "revision of auth store"].iter().any(|text| why.contains(text))
}

fn words(error: &reqwest::Error) -> String {
    let mut inner: &dyn std::error::Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    inner.to_string()
}

fn compare_json(compare: &Compare) -> Value {
    match compare {
        Compare::Created(key, revision) => json!({
            "key": BASE64.encode(key.as_bytes()), "target": "CREATE", "result": "EQUAL",
            "create_revision": revision.to_string(),
        }),
        Compare::Value(key, value) => json!({
            "key": BASE64.encode(key.as_bytes()), "target": "VALUE", "result": "EQUAL",
            "value": BASE64.encode(value),
        }),
    }
}

fn operation_json(operation: &Operation) -> Value {
    let key = |key: &str| BASE64.encode(key.as_bytes());
    let end = |prefix: &str| BASE64.encode(&end_of(prefix));
    match operation {
        Operation::Put(name, value, lease) => {
            assert!(value.len() <= VALUE_BYTES_MAX, "a value beyond its limit");
            json!({"request_put": {
                "key": key(name), "value": BASE64.encode(value), "lease": lease.to_string(),
            }})
        }
        Operation::Delete(name) => json!({"request_delete_range": {"key": key(name)}}),
        Operation::DeletePrefix(prefix) => {
            json!({"request_delete_range": {"key": key(prefix), "range_end": end(prefix)}})
        }
        Operation::Get(name) => json!({"request_range": {"key": key(name)}}),
        Operation::GetPrefix(prefix) => {
            json!({"request_range": {"key": key(prefix), "range_end": end(prefix)}})
        }
    }
}

/// Returns the first key behind all that begin with `prefix`, which ends in `/`.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

fn key_values(list: &Value) -> Result<Vec<KeyValue>, EtcdError> {
    let damaged = |what: &str| EtcdError::Answer(format!("a {what} that is no base64"));
    let decode = |value: &Value, what: &str| {
        BASE64.decode(value.as_str().unwrap_or_default().as_bytes()).map_err(|_| damaged(what))
    };
    let one = |entry: &Value| {
        let key = String::from_utf8(decode(&entry["key"], "key")?).map_err(|_| damaged("key"))?;
        Ok(KeyValue {
            key,
            value: decode(&entry["value"], "value")?,
            created: number(&entry["create_revision"]),
            written: number(&entry["mod_revision"]),
            lease: number(&entry["lease"]),
        })
    };
    list.as_array().into_iter().flatten().map(one).collect()
}
