//! Requests to an etcd that a site runs itself: its members, its users, its upkeep.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::client::{Etcd, EtcdError, number};
use super::metrics::{label, metric};

/// The user that may do everything in etcd; it must exist before passwords are asked for.
const ROOT: &str = "root";
/// The longest time that one endpoint may take for a change of the members. etcd itself ends after
/// 5 s and twice its election timeout, which is 2.5 s where a site runs it itself.
const CHANGE: Duration = Duration::from_secs(11);
/// The longest time for finding out the result of a change.
const TELL: Duration = Duration::from_secs(3);

/// A member of etcd, as the others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdMember {
    /// Its number; another one each time that it is added.
    pub id: u64,
    /// Its name; empty until it has been started.
    pub name: String,
    /// The address for the other members.
    pub peer_url: String,
    /// The address for clients; empty until the member has been started.
    pub client_url: String,
    /// Set if the member is a learner so far: it has no vote, and serves no clients.
    pub learner: bool,
}

/// A member that leads, and is not named.
pub const SOMEBODY: u64 = u64::MAX;

/// The state of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdStatus {
    /// Its number.
    pub id: u64,
    /// Number of the member that leads, as this one sees it; 0 if it sees none, [`SOMEBODY`] if it
    /// does not report which.
    pub leader: u64,
    /// Its version.
    pub version: String,
    /// Bytes of its database on disk.
    pub bytes: u64,
    /// Bytes of it that are in use.
    pub bytes_in_use: u64,
    /// Set if the member is a learner so far.
    pub learner: bool,
    /// Its complaints: `NOSPACE`, `CORRUPT`, that it has no leader.
    pub complaints: Vec<String>,
}

fn member_of(value: &Value) -> EtcdMember {
    let first = |list: &Value| list[0].as_str().unwrap_or_default().to_owned();
    EtcdMember {
        id: number(&value["ID"]),
        name: value["name"].as_str().unwrap_or_default().to_owned(),
        peer_url: first(&value["peerURLs"]),
        client_url: first(&value["clientURLs"]),
        learner: value["isLearner"].as_bool().unwrap_or(false),
    }
}

impl Etcd {
    /// Returns all members, as one that answers knows them: etcd 3.4 may be late with that.
    ///
    /// # Errors
    /// `Unavailable`, `Refused`.
    pub fn members(&self, deadline: Duration) -> Result<Vec<EtcdMember>, EtcdError> {
        let reply = self.call("/v3/cluster/member/list", &json!({}), deadline)?;
        Ok(reply["members"].as_array().into_iter().flatten().map(member_of).collect())
    }

    /// Returns all members, as the one at `endpoint` knows them, with a majority behind it or
    /// without.
    ///
    /// # Errors
    /// `Unavailable`. `Refused`.
    pub fn members_at(
        &self,
        endpoint: &str,
        deadline: Duration,
    ) -> Result<Vec<EtcdMember>, EtcdError> {
        let reply = self.call_open(endpoint, "/v3/cluster/member/list", deadline)?;
        Ok(reply["members"].as_array().into_iter().flatten().map(member_of).collect())
    }

    /// Returns all members, as the one at `endpoint` knows them with a majority.
    ///
    /// # Errors
    /// `Unavailable`: there is none. `Refused`.
    pub fn members_now_at(
        &self,
        endpoint: &str,
        deadline: Duration,
    ) -> Result<Vec<EtcdMember>, EtcdError> {
        // A list may be old in etcd 3.4; a read waits for all that was agreed before it.
        let read = json!({ "key": "AA==" });
        self.call_at(endpoint, "/v3/kv/range", &read, deadline)?;
        self.members_at(endpoint, deadline)
    }

    /// Returns all members, as one that answers knows them with a majority behind it.
    ///
    /// # Errors
    /// `Unavailable`: there is none. `Refused`.
    pub fn members_now(&self, deadline: Duration) -> Result<Vec<EtcdMember>, EtcdError> {
        self.in_turn(deadline, |endpoint, left| self.members_now_at(endpoint, left))
    }

    /// Changes the members by one endpoint, which gets all the time that this may take. If its
    /// answer is lost, the change may have been made all the same, or be about to be. So before
    /// another endpoint is asked the members are read, and `made` returns whether it was.
    fn change(
        &self,
        path: &str,
        body: &Value,
        deadline: Duration,
        made: impl Fn(&[EtcdMember]) -> bool,
    ) -> Result<(), EtcdError> {
        let until = Instant::now() + deadline;
        let mut last = EtcdError::Unavailable("there is no endpoint".to_owned());
        for (_, endpoint) in self.in_order() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            match self.call_at(&endpoint, path, body, left.min(CHANGE)) {
                Err(EtcdError::Unavailable(why)) => last = EtcdError::Unavailable(why),
                answer => return answer.map(drop),
            }
            if made(&self.members_now(TELL)?) {
                return Ok(());
            }
        }
        Err(last)
    }

    /// Adds a learner, a member without a vote (etcd 3.4 accepts one at a time), so that the
    /// majority stays the same. May take etcd ten seconds.
    ///
    /// # Errors
    /// `Unavailable`: it may have been added. `Refused`.
    pub fn add_learner(&self, peer_url: &str, deadline: Duration) -> Result<(), EtcdError> {
        let body = json!({ "peerURLs": [peer_url], "isLearner": true });
        self.change("/v3/cluster/member/add", &body, deadline, |members| {
            members.iter().any(|member| member.peer_url == peer_url)
        })
    }

    /// Promotes a member to a voter. May take etcd ten seconds.
    ///
    /// # Errors
    /// `Refused` while it has not caught up; `Unavailable`.
    pub fn promote_member(&self, id: u64, deadline: Duration) -> Result<(), EtcdError> {
        let body = json!({ "ID": id.to_string() });
        self.change("/v3/cluster/member/promote", &body, deadline, |members| {
            members.iter().any(|member| member.id == id && !member.learner)
        })
    }

    /// Removes a member. It can never come back under this number. May take etcd ten seconds.
    ///
    /// # Errors
    /// `Refused` if the majority would be lost; `Unavailable`.
    pub fn remove_member(&self, id: u64, deadline: Duration) -> Result<(), EtcdError> {
        let body = json!({ "ID": id.to_string() });
        self.change("/v3/cluster/member/remove", &body, deadline, |members| {
            members.iter().all(|member| member.id != id)
        })
    }

    /// Returns the state of the member at `endpoint`. It answers without a majority as well. Since
    /// 3.5.28 and in 3.6 and 3.7 only its metrics do: the rest requires a token, which cannot be
    /// issued without a leader. Some of these releases report it to no user but `root`
    /// (<https://github.com/etcd-io/etcd/issues/21663>). Blocks for a few times `deadline` at most.
    ///
    /// # Errors
    /// `Unavailable`, `Refused`.
    pub fn status_at(&self, endpoint: &str, deadline: Duration) -> Result<EtcdStatus, EtcdError> {
        const PATH: &str = "/v3/maintenance/status";
        let reply = match self.post_open(endpoint, PATH, deadline) {
            Err(EtcdError::Refused(_)) => {
                let leads_nobody = |told: &EtcdStatus| told.leader == 0;
                if !self.has_token()
                    && let Some(told) = self.by_metrics(endpoint, deadline).filter(leads_nobody)
                {
                    return Ok(told);
                }
                match self.call_at(endpoint, PATH, &json!({}), deadline) {
                    Ok(reply) => reply,
                    Err(error) => {
                        let may_not = matches!(error, EtcdError::Refused(_));
                        let told = self.by_metrics(endpoint, deadline);
                        return told.filter(|it| may_not || leads_nobody(it)).ok_or(error);
                    }
                }
            }
            reply => reply?,
        };
        let errors = reply["errors"].as_array().into_iter().flatten();
        Ok(EtcdStatus {
            id: number(&reply["header"]["member_id"]),
            leader: number(&reply["leader"]),
            version: reply["version"].as_str().unwrap_or_default().to_owned(),
            bytes: number(&reply["dbSize"]),
            bytes_in_use: number(&reply["dbSizeInUse"]),
            learner: reply["isLearner"].as_bool().unwrap_or(false),
            complaints: errors.filter_map(Value::as_str).map(str::to_owned).collect(),
        })
    }

    /// Returns the state of the member at `endpoint` from its metrics, which need no token.
    fn by_metrics(&self, endpoint: &str, deadline: Duration) -> Option<EtcdStatus> {
        let text = self.metrics(endpoint, deadline).ok()?;
        let is = |name, value| metric(&text, name) == Some(value);
        let count = |name| metric(&text, name).unwrap_or(0);
        let id = label(&text, "etcd_server_id", "server_id")?;
        let id = u64::from_str_radix(id, 16).ok()?;
        let leader = match metric(&text, "etcd_server_has_leader")? {
            0 => 0,
            _ if is("etcd_server_is_leader", 1) => id,
            _ => SOMEBODY,
        };
        Some(EtcdStatus {
            id,
            leader,
            version: label(&text, "etcd_server_version", "server_version")
                .unwrap_or_default()
                .to_owned(),
            bytes: count("etcd_mvcc_db_total_size_in_bytes"),
            bytes_in_use: count("etcd_mvcc_db_total_size_in_use_in_bytes"),
            learner: is("etcd_server_is_learner", 1),
            complaints: Vec::new(),
        })
    }

    /// Sends the request without a token (none can be issued without a majority); retries with one
    /// if etcd requires it.
    fn call_open(
        &self,
        endpoint: &str,
        path: &str,
        deadline: Duration,
    ) -> Result<Value, EtcdError> {
        match self.post_open(endpoint, path, deadline) {
            Err(EtcdError::Refused(_)) => self.call_at(endpoint, path, &json!({}), deadline),
            reply => reply,
        }
    }

    /// Asks without a token.
    fn post_open(
        &self,
        endpoint: &str,
        path: &str,
        deadline: Duration,
    ) -> Result<Value, EtcdError> {
        let url = format!("{}{path}", endpoint.trim_end_matches('/'));
        self.post(&url, &json!({}), None, deadline)
    }

    /// Makes etcd ask for the password of the configured user, which is to be `root`. May be done
    /// again, in whole or from where it stopped.
    ///
    /// # Errors
    /// `Unavailable`; `Refused`: there is another password.
    pub fn protect(&self, deadline: Duration) -> Result<(), EtcdError> {
        let Some((user, _)) = &self.config.user else { return Ok(()) };
        let password = self.passwords().first().cloned().unwrap_or_default();
        let already = |reply: Result<Value, EtcdError>| match reply {
            Err(EtcdError::Refused(why)) if why.contains("already") => Ok(()),
            reply => reply.map(drop),
        };
        let add = json!({ "name": user, "password": password });
        let user_added = self.call("/v3/auth/user/add", &add, deadline);
        if matches!(&user_added, Err(EtcdError::Refused(why)) if why.contains("already")) {
            // The user exists: from an earlier attempt that was cut short, or from another one with
            // a different password.
            let change = json!({ "name": user, "password": password });
            self.call("/v3/auth/user/changepw", &change, deadline)?;
        } else {
            user_added?;
        }
        already(self.call("/v3/auth/role/add", &json!({ "name": ROOT }), deadline))?;
        let grant = json!({ "user": user, "role": ROOT });
        already(self.call("/v3/auth/user/grant", &grant, deadline))?;
        already(self.call("/v3/auth/enable", &json!({}), deadline))
    }

    /// Returns whether etcd requires passwords.
    ///
    /// # Errors
    /// `Unavailable`; `Refused`: the password is not this one.
    pub fn is_protected(&self, deadline: Duration) -> Result<bool, EtcdError> {
        if self.config.user.is_none() {
            return Ok(false);
        }
        let Some(endpoint) = self.endpoints().first().cloned() else { return Ok(false) };
        self.forget_token();
        self.token(&endpoint, deadline).map(|token| token.is_some())
    }

    /// Returns unused space in the database of the member at `endpoint` to its file system; the
    /// member answers no requests meanwhile. Then disarms the alarm that it is full.
    ///
    /// # Errors
    /// `Unavailable`, `Refused`.
    pub fn make_room(&self, endpoint: &str, id: u64, deadline: Duration) -> Result<(), EtcdError> {
        self.call_at(endpoint, "/v3/maintenance/defragment", &json!({}), deadline)?;
        let body = json!({
            "action": "DEACTIVATE", "memberID": id.to_string(), "alarm": "NOSPACE",
        });
        self.call("/v3/maintenance/alarm", &body, deadline).map(drop)
    }
}

#[cfg(test)]
mod tests;
