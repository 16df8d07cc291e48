//! The time that the threads of a transfer spend, by activity, peer and side.

use penstock_proto::time_use::{Activity, TimeUse};
use serde::{Deserialize, Serialize};

/// Peers of a side that are told apart; the time of further ones is in the last.
pub const PEERS_MAX: usize = 64;

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// Seconds of threads by activity: those of several threads are added up, so that there may be
/// more of them than have passed. Activities without any are left out.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ActivitySeconds {
    /// Source: reading bytes of files.
    #[serde(skip_serializing_if = "is_zero")]
    pub read: f64,
    /// Source: hashing.
    #[serde(skip_serializing_if = "is_zero")]
    pub hash: f64,
    /// Source: encrypting, or authenticating.
    #[serde(skip_serializing_if = "is_zero")]
    pub seal: f64,
    /// Handing bytes to the network, with the time in which it takes none.
    #[serde(skip_serializing_if = "is_zero")]
    pub send: f64,
    /// Target: taking the bytes of a frame that has begun to arrive.
    #[serde(skip_serializing_if = "is_zero")]
    pub receive: f64,
    /// Target: decrypting and checking records.
    #[serde(skip_serializing_if = "is_zero")]
    pub open: f64,
    /// Target: hashing, and comparing with the digests of the source.
    #[serde(skip_serializing_if = "is_zero")]
    pub compare: f64,
    /// Target: writing bytes to files.
    #[serde(skip_serializing_if = "is_zero")]
    pub write: f64,
    /// Opening and making files, looking at them, setting attributes, closing.
    #[serde(skip_serializing_if = "is_zero")]
    pub metadata: f64,
    /// Target: making data durable.
    #[serde(skip_serializing_if = "is_zero")]
    pub sync: f64,
    /// Target: giving complete files their names.
    #[serde(skip_serializing_if = "is_zero")]
    pub publish: f64,
    /// Target: waiting for an answer of the source.
    #[serde(skip_serializing_if = "is_zero")]
    pub wait_source: f64,
    /// Source: waiting for a request of the target.
    #[serde(skip_serializing_if = "is_zero")]
    pub wait_target: f64,
    /// Target: waiting for work, with nothing left to ask for.
    #[serde(skip_serializing_if = "is_zero")]
    pub wait_grant: f64,
    /// Target: waiting until what was written is durable and named.
    #[serde(skip_serializing_if = "is_zero")]
    pub wait_disk: f64,
    /// Sleeping under a limit that a user has set.
    #[serde(skip_serializing_if = "is_zero")]
    pub wait_limit: f64,
    /// Waiting for a buffer.
    #[serde(skip_serializing_if = "is_zero")]
    pub wait_memory: f64,
    /// Target: nothing to do, as other lanes do all that there is.
    #[serde(skip_serializing_if = "is_zero")]
    pub idle: f64,
    /// The rest.
    #[serde(skip_serializing_if = "is_zero")]
    pub other: f64,
    /// Processor time, a part of all of the above.
    #[serde(skip_serializing_if = "is_zero")]
    pub cpu: f64,
    /// Waiting for a processor, a part of all of the above.
    #[serde(skip_serializing_if = "is_zero")]
    pub cpu_wait: f64,
}

impl ActivitySeconds {
    /// Returns the time of an activity.
    pub fn get(&self, activity: Activity) -> f64 {
        let mut copy = *self;
        *copy.slot(activity)
    }

    fn slot(&mut self, activity: Activity) -> &mut f64 {
        match activity {
            Activity::Read => &mut self.read,
            Activity::Hash => &mut self.hash,
            Activity::Seal => &mut self.seal,
            Activity::Send => &mut self.send,
            Activity::Receive => &mut self.receive,
            Activity::Open => &mut self.open,
            Activity::Compare => &mut self.compare,
            Activity::Write => &mut self.write,
            Activity::Metadata => &mut self.metadata,
            Activity::Sync => &mut self.sync,
            Activity::Publish => &mut self.publish,
            Activity::WaitSource => &mut self.wait_source,
            Activity::WaitTarget => &mut self.wait_target,
            Activity::WaitGrant => &mut self.wait_grant,
            Activity::WaitDisk => &mut self.wait_disk,
            Activity::WaitLimit => &mut self.wait_limit,
            Activity::WaitMemory => &mut self.wait_memory,
            Activity::Idle => &mut self.idle,
            Activity::Other => &mut self.other,
            Activity::Cpu => &mut self.cpu,
            Activity::CpuWait => &mut self.cpu_wait,
        }
    }

    /// Adds the time of others.
    pub fn add(&mut self, more: &Self) {
        for &activity in Activity::ALL {
            *self.slot(activity) += more.get(activity);
        }
    }

    fn is_empty(&self) -> bool {
        Activity::ALL.iter().all(|&activity| self.get(activity) == 0.0)
    }
}

impl From<&TimeUse> for ActivitySeconds {
    /// Microseconds are exact.
    fn from(time: &TimeUse) -> Self {
        let mut seconds = Self::default();
        for (activity, nanoseconds) in time.parts() {
            *seconds.slot(activity) = (nanoseconds / 1_000) as f64 / 1e6;
        }
        seconds
    }
}

impl From<&ActivitySeconds> for TimeUse {
    fn from(seconds: &ActivitySeconds) -> Self {
        let mut time = Self::default();
        for &activity in Activity::ALL {
            // A cast of a float saturates; no number is none.
            time.add(activity, (seconds.get(activity) * 1e9) as u64);
        }
        time
    }
}

/// The time that a peer's threads spend on a transfer.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PeerTime {
    /// Its name; empty for the only peer of a target site, and in copies.
    #[serde(default, deserialize_with = "crate::text::field")]
    pub peer: String,
    /// Processors that it may use; 0 if that is not known.
    #[serde(default)]
    pub cores: u32,
    /// Time of its lanes.
    #[serde(default)]
    pub lanes: ActivitySeconds,
    /// Time of the threads that make durable and name what lanes have written; none at a source.
    #[serde(default, skip_serializing_if = "ActivitySeconds::is_empty")]
    pub publishers: ActivitySeconds,
}

impl PeerTime {
    fn add(&mut self, more: &Self) {
        self.cores = self.cores.max(more.cores);
        self.lanes.add(&more.lanes);
        self.publishers.add(&more.publishers);
    }
}

/// The time that the threads of a transfer spend on it, since its attempt began.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct TransferTime {
    /// True if one thread reads and writes, at one host: what belongs to neither side is then with
    /// the target.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_local: bool,
    /// Peers of the source, 64 at most; none where it reports no times, being of an earlier
    /// release.
    #[serde(default)]
    pub source: Vec<PeerTime>,
    /// Peers of the target, 64 at most.
    #[serde(default)]
    pub target: Vec<PeerTime>,
}

impl TransferTime {
    /// Returns whether no lane has accounted for anything.
    pub fn is_empty(&self) -> bool {
        self.source.is_empty() && self.target.is_empty()
    }

    /// Adds the time of others, by the names of their peers.
    pub fn add(&mut self, more: &Self) {
        self.is_local |= more.is_local;
        let sides = [(&mut self.source, &more.source), (&mut self.target, &more.target)];
        for (sums, more) in sides {
            for peer in more {
                let is_full = sums.len() >= PEERS_MAX;
                match sums.iter_mut().find(|sum| sum.peer == peer.peer) {
                    Some(sum) => sum.add(peer),
                    None if is_full => sums[PEERS_MAX - 1].add(peer),
                    None => sums.push(peer.clone()),
                }
            }
        }
    }

    /// Names the peer of the target whose time this is.
    pub fn name_target(&mut self, name: &str) {
        for peer in &mut self.target {
            name.clone_into(&mut peer.peer);
        }
    }
}

/// Returns the sum of a side's peers.
pub fn sum_of(peers: &[PeerTime]) -> PeerTime {
    let mut sum = PeerTime::default();
    for peer in peers {
        sum.lanes.add(&peer.lanes);
        sum.publishers.add(&peer.publishers);
        sum.cores = sum.cores.saturating_add(peer.cores);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(name: &str, activity: Activity, seconds: f64) -> PeerTime {
        let mut lanes = ActivitySeconds::default();
        *lanes.slot(activity) = seconds;
        PeerTime { peer: name.to_owned(), cores: 4, lanes, ..PeerTime::default() }
    }

    /// Promise: each activity has a field of its name; what a later or an earlier release lacks or
    /// adds is no error.
    #[test]
    fn fields_are_named_as_activities() {
        let mut time = TimeUse::default();
        for (place, &activity) in Activity::ALL.iter().enumerate() {
            time.add(activity, (place as u64 + 1) * 1_000_000);
        }
        let seconds = ActivitySeconds::from(&time);
        let json = serde_json::to_value(seconds).unwrap();
        assert_eq!(json.as_object().unwrap().len(), Activity::ALL.len());
        for &activity in Activity::ALL {
            assert_eq!(json[activity.name()], seconds.get(activity));
        }
        assert_eq!(TimeUse::from(&seconds), time);
        let later = r#"{"read": 1.5, "dream": 3}"#;
        let read: ActivitySeconds = serde_json::from_str(later).unwrap();
        assert_eq!(read.read, 1.5);
        assert_eq!(serde_json::to_string(&ActivitySeconds::default()).unwrap(), "{}");
        let none: PeerTime = serde_json::from_str("{}").unwrap();
        assert_eq!(none, PeerTime::default());
    }

    /// Promise: times of one peer are added, those of several are told apart, up to a bound beyond
    /// which none is lost.
    #[test]
    fn times_are_added_by_peer() {
        let part = |name: &str| {
            let mut part = TransferTime {
                source: vec![peer("s", Activity::Read, 1.0)],
                target: vec![peer("", Activity::Write, 2.0)],
                ..TransferTime::default()
            };
            part.name_target(name);
            part
        };
        let mut sum = TransferTime::default();
        (0..100).for_each(|number| sum.add(&part(&format!("t{}", number / 2 * 2))));
        assert_eq!(sum.source, [peer("s", Activity::Read, 100.0)]);
        assert_eq!((sum.target.len(), sum.target[0].lanes.write), (50, 4.0));
        (0..100).for_each(|number| sum.add(&part(&format!("u{number}"))));
        assert_eq!(sum.target.len(), 64);
        let all = sum_of(&sum.target);
        assert_eq!((all.lanes.write, all.cores), (400.0, 256));
    }
}
