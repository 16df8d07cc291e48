//! The health of an etcd, and whether a site can rely on it (E6).

use std::thread;
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use penstock_api::cluster::EtcdView;
use serde_json::{Value, json};

use super::client::{Etcd, EtcdError, number};
use super::members::EtcdMember;
use super::metrics::metric;

/// The hint for an etcd that keeps all of its history.
pub const COMPACTION_HINT: &str = "start each member with --auto-compaction-retention=1h, or \
    ETCD_AUTO_COMPACTION_RETENTION=1h in its environment";
/// Length in revisions of a history without a cut from which it is assumed that none will be made.
const HISTORY_MAX: u64 = 20_000;

/// The setting for compaction of an etcd, as far as it can be seen from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// Compaction is on.
    On,
    /// Compaction is off: sooner or later the quota is used up, and etcd rejects all requests.
    Off,
    /// The etcd is too young to tell.
    Unknown,
}

/// Returns the meaning of a complaint of etcd for an operator.
fn explain(complaint: &str) -> String {
    if complaint.contains("NOSPACE") {
        return "NOSPACE: its quota is used up, and it refuses all writes; cut its history \
                (`etcdctl compact REVISION`), then `etcdctl defrag` and `etcdctl alarm disarm`"
            .to_owned();
    }
    if complaint.contains("CORRUPT") {
        return "CORRUPT: its data differs from the other members'; stop it, remove it with \
                `etcdctl member remove`, and add it again with an empty data directory"
            .to_owned();
    }
    if complaint.contains("no leader") {
        return "it has no leader: the majority is lost".to_owned();
    }
    complaint.to_owned()
}

/// Asks all of them at once; one after the other where no more threads can be started.
fn at_once<T: Send>(endpoints: Vec<String>, ask: impl Fn(String) -> T + Sync) -> Vec<T> {
    let ask = &ask;
    thread::scope(|scope| {
        let begin = |endpoint: String| {
            let asked = endpoint.clone();
            let thread = thread::Builder::new().spawn_scoped(scope, move || ask(asked));
            thread.map_err(|_| endpoint)
        };
        let asked: Vec<_> = endpoints.into_iter().map(begin).collect();
        let answers = asked.into_iter().filter_map(|asked| match asked {
            Ok(thread) => thread.join().ok(),
            Err(endpoint) => Some(ask(endpoint)),
        });
        answers.collect()
    })
}

/// The state of one member of an etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The address at which it is asked.
    pub endpoint: String,
    /// The reason why it does not serve, as the rest of a sentence about it; empty if it does.
    pub trouble: String,
}

impl Etcd {
    /// Returns whether each endpoint answers and follows a leader. All are asked at once. Checks
    /// less than [`Etcd::health`], for callers that ask every few seconds. Blocks for a few times
    /// `deadline` at most.
    pub fn standing(&self, deadline: Duration) -> Vec<Standing> {
        at_once(self.endpoints(), |endpoint| self.standing_of(endpoint, deadline))
    }

    fn standing_of(&self, endpoint: String, deadline: Duration) -> Standing {
        let trouble = match self.status_at(&endpoint, deadline) {
            Ok(status) if status.leader == 0 => "has no leader".to_owned(),
            Ok(_) => String::new(),
            Err(_) => "does not answer".to_owned(),
        };
        Standing { endpoint, trouble }
    }

    /// Returns the version, database bytes, quota and troubles of each endpoint, all asked at once.
    /// Blocks for some times `deadline` at most.
    pub fn health(&self, deadline: Duration) -> Vec<EtcdView> {
        let members = self.members(deadline).unwrap_or_default();
        at_once(self.endpoints(), |endpoint| self.health_of(endpoint, &members, deadline))
    }

    fn health_of(&self, endpoint: String, members: &[EtcdMember], deadline: Duration) -> EtcdView {
        let mut view = EtcdView { endpoint, ..EtcdView::default() };
        let begun = Instant::now();
        match self.status_at(&view.endpoint, deadline) {
            Ok(status) => {
                view.answer_us = begun.elapsed().as_micros() as u64;
                view.version = status.version;
                view.bytes = status.bytes;
                view.bytes_in_use = status.bytes_in_use;
                view.leads = status.leader == status.id && status.id != 0;
                view.learner = status.learner;
                view.members = members.len() as u32;
                let own = members.iter().find(|member| member.id == status.id);
                view.member = own.map_or_else(String::new, |member| member.name.clone());
                let mut troubles: Vec<_> =
                    status.complaints.iter().map(|complaint| explain(complaint)).collect();
                if status.leader == 0 {
                    troubles.push(explain("no leader"));
                }
                troubles.dedup();
                view.trouble = troubles.join("; ");
                let metrics = self.metrics(&view.endpoint, deadline).unwrap_or_default();
                view.quota_bytes = metric(&metrics, "etcd_server_quota_backend_bytes").unwrap_or(0);
            }
            Err(EtcdError::Unavailable(why)) => {
                // The endpoint is named beside it.
                let why = why.split(" (http").next().unwrap_or_default();
                view.trouble = format!("it does not answer: {why}");
            }
            Err(error) => view.trouble = error.to_string(),
        }
        view
    }

    /// Returns whether the history is cut from time to time (E6). etcd does not report its
    /// configuration. Evidence is an option on its command line, a history that was cut, or one
    /// that is long and never was. `key` is one that may be read.
    ///
    /// # Errors
    /// No endpoint answers.
    pub fn compaction(&self, key: &str, deadline: Duration) -> Result<Compaction, EtcdError> {
        let mut last = EtcdError::Unavailable("there is no endpoint".to_owned());
        for endpoint in self.endpoints() {
            match self.compaction_at(&endpoint, key, deadline) {
                Ok(found) => return Ok(found),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn compaction_at(
        &self,
        endpoint: &str,
        key: &str,
        deadline: Duration,
    ) -> Result<Compaction, EtcdError> {
        let first = json!({ "key": BASE64.encode(key.as_bytes()), "revision": "1" });
        let (was_cut, revision) = match self.call_at(endpoint, "/v3/kv/range", &first, deadline) {
            Ok(reply) => (false, number(&reply["header"]["revision"])),
            Err(EtcdError::Refused(why)) if why.contains("compacted") => (true, 0),
            // The first revision may not be there yet.
            Err(EtcdError::Refused(why)) if why.contains("future") => (false, 0),
            Err(error) => return Err(error),
        };
        if was_cut {
            return Ok(Compaction::On);
        }
        let arguments = self.text(endpoint, "/debug/vars", deadline).ok();
        let arguments: Option<Value> = arguments.and_then(|text| serde_json::from_str(&text).ok());
        let arguments = arguments.unwrap_or_default();
        Ok(match from_arguments(&arguments["cmdline"]) {
            Compaction::Unknown if revision > HISTORY_MAX => Compaction::Off,
            told => told,
        })
    }

    pub(super) fn metrics(&self, endpoint: &str, deadline: Duration) -> Result<String, EtcdError> {
        self.text(endpoint, "/metrics", deadline)
    }
}

/// Returns the compaction setting on a command line.
fn from_arguments(arguments: &Value) -> Compaction {
    let words: Vec<&str> =
        arguments.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let value = words.iter().enumerate().find_map(|(at, word)| {
        let rest = word.trim_start_matches('-').strip_prefix("auto-compaction-retention")?;
        Some(rest.strip_prefix('=').or_else(|| words.get(at + 1).copied()).unwrap_or_default())
    });
    match value {
        Some("0" | "") => Compaction::Off,
        Some(_) => Compaction::On,
        // The option may be in the environment of etcd or in a file.
        None => Compaction::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// E6: the options for compaction on a command line are understood in each form that etcd
    /// accepts. Their absence does not count as an answer.
    #[test]
    fn e6_a_command_line_tells_of_compaction() {
        let of = |words: &[&str]| from_arguments(&json!(words));
        assert_eq!(of(&["etcd", "--auto-compaction-retention=1h"]), Compaction::On);
        assert_eq!(of(&["etcd", "-auto-compaction-retention", "5m", "--name=x"]), Compaction::On);
        assert_eq!(of(&["etcd", "--auto-compaction-retention", "0"]), Compaction::Off);
        assert_eq!(of(&["etcd", "--config-file", "x"]), Compaction::Unknown);
        assert_eq!(from_arguments(&Value::Null), Compaction::Unknown);
    }

    /// E6: figures are read from etcd's metrics, whichever others begin alike.
    #[test]
    fn e6_metrics_are_read() {
        let text = "# TYPE a_b gauge\na_b_c 7\na_b 2.147483648e+09\n";
        assert_eq!(metric(text, "a_b"), Some(2 << 30));
        assert_eq!(metric(text, "a"), None);
    }
}
