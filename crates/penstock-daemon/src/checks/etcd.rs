//! The etcd that a site of several peers keeps its state in (E6).

use std::path::Path;
use std::time::Duration;

use penstock_api::cluster::EtcdView;
use penstock_api::operate::{Finding, Level};
use penstock_cluster::etcd::Etcd;
use penstock_proto::units::format_bytes;

use crate::config::ClusterConfig;
use crate::managed_etcd::client;

/// The time that an endpoint has for each question.
const ASK: Duration = Duration::from_secs(2);
/// An answer that takes longer costs a commit of the ledger as much.
const SLOW_US: u64 = 100_000;
/// Oldest version that is tested.
const VERSION_LEAST: (u32, u32) = (3, 4);

/// Looks at the etcd of a site's configuration without a daemon. Blocks for some seconds at most.
pub fn of_config(cluster: &ClusterConfig, directory: &Path) -> Vec<Finding> {
    let etcd = client::config(cluster, directory).and_then(|config| Ok(Etcd::new(config)?));
    match etcd {
        Ok(etcd) => judge(&etcd.health(ASK)),
        Err(error) => vec![Finding::new(
            Level::Bad,
            "etcd",
            format!("etcd cannot be asked: {error:#}"),
            "the daemon cannot either",
            "correct [cluster] in penstock.toml",
        )],
    }
}

/// Returns the findings about etcd's endpoints.
pub(crate) fn judge(endpoints: &[EtcdView]) -> Vec<Finding> {
    let mut findings = members(endpoints);
    for view in endpoints.iter().filter(|view| view.trouble.is_empty()) {
        findings.extend(storage(view));
        if view.answer_us > SLOW_US {
            findings.push(Finding::new(
                Level::Warning,
                "etcd-slow",
                format!("etcd {} took {} ms to answer", view.endpoint, view.answer_us / 1000),
                "each commit of a ledger takes as long, and a lease may end for nothing",
                "give etcd a disk of its own, since each write syncs its log, or use a nearer \
                 member",
            ));
        }
        if version(view).is_some_and(|version| version < VERSION_LEAST) {
            findings.push(Finding::new(
                Level::Bad,
                "etcd",
                format!("etcd {} has version {}", view.endpoint, view.version),
                "3.4 is the oldest that this program is made for",
                "upgrade it by one minor version after the other",
            ));
        }
    }
    if let Some(view) = endpoints.iter().find(|view| view.is_uncompacted) {
        findings.push(Finding::new(
            Level::Bad,
            "etcd-compaction",
            format!("etcd {} keeps its whole history", view.endpoint),
            "its database grows until the quota is full; then it refuses all writes, of everybody \
             who shares it, and transfers stop",
            "etcd --auto-compaction-retention=1h; once: etcdctl compaction REVISION, and defrag",
        ));
    }
    if let Some(view) = endpoints.iter().find(|view| view.endpoint.starts_with("http://")) {
        let local = view.endpoint.contains("//127.") || view.endpoint.contains("//localhost");
        let what = format!("etcd {} is spoken to in clear", view.endpoint);
        let why = "any host of that network can change the state of the site";
        let level = if local { Level::Note } else { Level::Warning };
        findings.push(Finding::new(level, "etcd-tls", what, why, "TLS with client certificates"));
    }
    findings
}

fn version(view: &EtcdView) -> Option<(u32, u32)> {
    let mut numbers = view.version.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Returns findings about the number of members that answer, and its consequences.
fn members(endpoints: &[EtcdView]) -> Vec<Finding> {
    let code = "etcd";
    let good = endpoints.iter().filter(|view| view.trouble.is_empty()).count();
    let members = endpoints.iter().map(|view| view.members as usize).max().unwrap_or(0);
    let members = members.max(endpoints.len());
    let mut findings = Vec::new();
    for view in endpoints.iter().filter(|view| !view.trouble.is_empty()) {
        let stops = ["NOSPACE", "CORRUPT"].iter().any(|alarm| view.trouble.contains(alarm));
        let level = if good == 0 || stops { Level::Bad } else { Level::Warning };
        findings.push(Finding::new(
            level,
            code,
            format!("etcd {}: {}", view.endpoint, view.trouble),
            match good {
                0 => "without a majority no peer leads: running transfers continue until their \
                      lease ends, and no file is finished or counts as durable"
                    .to_owned(),
                _ => format!("{good} of {members} members answer; no majority, no controller"),
            },
            "`systemctl status etcd` on that host; its log; its disk",
        ));
    }
    if members > endpoints.len() {
        findings.push(Finding::new(
            Level::Note,
            code,
            format!("etcd has {members} members; {} are configured here", endpoints.len()),
            "this peer does not know the others when these fail",
            "list all client addresses under `etcd` in [cluster]; if Penstock runs etcd, wait: \
             this peer finds them by itself",
        ));
    }
    match (good, members) {
        (_, 0) | (0, _) => {}
        (_, 1) => findings.push(Finding::new(
            Level::Note,
            code,
            "etcd has one member",
            "while it is down, no peer leads",
            "three members, on three hosts",
        )),
        (_, 2) => findings.push(Finding::new(
            Level::Warning,
            code,
            "etcd has two members",
            "both are needed for a majority: it fails more often than one alone",
            "a third one, on a host that need not be a peer",
        )),
        _ if good == members => {
            let view = endpoints.iter().find(|view| view.leads).unwrap_or(&endpoints[0]);
            let what = format!("etcd {}: all {members} members answer", view.version);
            findings.push(Finding::ok(code, what));
        }
        _ => {}
    }
    findings
}

/// Checks the room of one member.
fn storage(view: &EtcdView) -> Vec<Finding> {
    let code = "etcd-space";
    let mut findings = Vec::new();
    let share = view.bytes as f64 / view.quota_bytes.max(1) as f64;
    if view.quota_bytes > 0 && share > 0.8 {
        findings.push(Finding::new(
            if share > 0.95 { Level::Bad } else { Level::Warning },
            code,
            format!(
                "etcd {}: {} of its quota of {}, {} in use",
                view.endpoint,
                format_bytes(view.bytes),
                format_bytes(view.quota_bytes),
                format_bytes(view.bytes_in_use)
            ),
            "when it is full etcd refuses all writes, and transfers stop",
            "etcdctl compaction, then defrag, one member after the other; or a greater quota",
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(trouble: &str) -> EtcdView {
        EtcdView {
            endpoint: "https://e1:2379".to_owned(),
            version: "3.4.23".to_owned(),
            bytes: 1 << 20,
            quota_bytes: 2 << 30,
            members: 3,
            trouble: trouble.to_owned(),
            ..EtcdView::default()
        }
    }

    fn worst(endpoints: &[EtcdView]) -> Level {
        penstock_api::operate::worst(&judge(endpoints))
    }

    /// E6: an etcd that is never compacted, full, or has raised an alarm is bad before it stops.
    /// One lost member of three is a warning; the loss of all is bad.
    #[test]
    fn e6_etcd_is_judged() {
        let good = || vec![view(""), view(""), view("")];
        assert_eq!(worst(&good()), Level::Ok);
        assert_eq!(worst(&[view(""), view(""), view("gone")]), Level::Warning);
        assert_eq!(worst(&[view("gone"), view("gone"), view("gone")]), Level::Bad);
        let with = |change: &dyn Fn(&mut EtcdView)| {
            let mut views = good();
            change(&mut views[1]);
            worst(&views)
        };
        assert_eq!(with(&|view| view.is_uncompacted = true), Level::Bad);
        assert_eq!(with(&|view| "NOSPACE: its quota".clone_into(&mut view.trouble)), Level::Bad);
        assert_eq!(with(&|view| view.bytes = 1_900_000_000), Level::Warning);
        assert_eq!(with(&|view| view.answer_us = 900_000), Level::Warning);
        assert_eq!(with(&|view| "3.3.10".clone_into(&mut view.version)), Level::Bad);
    }
}
