//! `penstock site status`: at one glance, whether all is well with a site.

use penstock_api::cluster::{ClusterView, EtcdView, PeerCard};
use penstock_api::endpoints::{SHOW_HEALTH, SHOW_STATUS};
use penstock_api::operate::{Finding, Level, PeerView, SiteHealthView};
use penstock_api::rest::StatusView;
use penstock_proto::units::format_bytes;
use penstock_sys::now_seconds;

use super::support::doctor;
use crate::client::Client;
use crate::commands::peer::{lasting, peer_state};
use penstock_exit::{self as exit, ExitCode};

/// Prints how the site is, and ends as that is: 0 well, 3 with warnings, 7 if something does not
/// work.
///
/// # Errors
/// No daemon answers.
pub(crate) fn show(client: &Client, json: bool) -> anyhow::Result<ExitCode> {
    let status: StatusView = client.get(&SHOW_STATUS.uri(&[]))?;
    let health: SiteHealthView = client.get(&SHOW_HEALTH.uri(&[]))?;
    if json {
        let mut value = serde_json::to_value(&status)?;
        if let (Some(value), serde_json::Value::Object(health)) =
            (value.as_object_mut(), serde_json::to_value(&health)?)
        {
            value.extend(health);
        }
        exit::print(&value.to_string())?;
    } else {
        exit::print(&text(&status, &health, now_seconds()))?;
    }
    Ok(doctor::exit_of(health.level))
}

/// The headline: what a person who was woken wants to know first.
fn headline(health: &SiteHealthView) -> String {
    let site = &health.peers.site;
    let of = |level| health.findings.iter().filter(move |finding| finding.level == level);
    match health.level {
        Level::Ok | Level::Note => format!("site {site}: all is well"),
        Level::Warning => match of(Level::Warning).count() {
            1 => format!("site {site}: it works, with 1 warning"),
            count => format!("site {site}: it works, with {count} warnings"),
        },
        Level::Bad => {
            let first = of(Level::Bad).next().map_or("", |finding| finding.what.as_str());
            match of(Level::Bad).count() {
                1 => format!("site {site}: NOT WELL: {first}"),
                count => format!("site {site}: NOT WELL: {first}; and {} more", count - 1),
            }
        }
    }
}

fn text(status: &StatusView, health: &SiteHealthView, now: u64) -> String {
    let mut lines = vec![headline(health)];
    let mut row = |key: &str, value: String| lines.push(format!("{key:<11} {value}"));
    if let Some(cluster) = &health.cluster {
        row("controller", controller(cluster, now));
    }
    // The controller knows; any other peer has none of its own.
    let leads = health.peers.peers.iter().filter_map(|peer| peer.load.as_ref()).find(|l| l.leads);
    let (running, queued) =
        leads.map_or((status.running, status.queued), |load| (load.running, load.queued));
    row("transfers", format!("{running} running, {queued} queued"));
    let mut key = "peers";
    for peer in &health.peers.peers {
        row(key, peer_line(peer, now));
        key = "";
    }
    if let Some(cluster) = &health.cluster {
        key = "etcd";
        for member in &cluster.etcd {
            row(key, etcd_line(member));
            key = "";
        }
        let (runs, wanted) = (cluster.etcd.len(), cluster.etcd_hosts);
        if runs < wanted {
            let bears = (runs - runs.min(1)) / 2;
            row(
                "",
                format!(
                    "on {runs} of {wanted} hosts so far, bears the loss of {bears}; \
                     `penstock site join` adds a host"
                ),
            );
        }
        row("records", records(cluster));
        row(
            "written",
            format!(
                "{} transactions, {} to etcd by this peer since it started",
                cluster.etcd_transactions,
                format_bytes(cluster.etcd_bytes)
            ),
        );
    }
    row(
        "this peer",
        format!("{}, process {}, listening on {}", status.peer, status.pid, status.listen),
    );
    row("fingerprint", status.site.fingerprint.clone());
    let mut said: Vec<&Finding> = health.findings.iter().filter(|f| f.level > Level::Ok).collect();
    said.sort_by_key(|finding| std::cmp::Reverse(finding.level));
    lines.extend(said.into_iter().map(doctor::text));
    lines.join("\n")
}

fn controller(cluster: &ClusterView, now: u64) -> String {
    let Some(leader) = &cluster.leader else {
        return format!("none; a lease lasts {} s", cluster.lease_seconds);
    };
    format!(
        "{} for {}, epoch {}, lease {} s",
        leader.peer,
        lasting(now.saturating_sub(leader.since)),
        cluster.epoch,
        cluster.lease_seconds
    )
}

/// Of which format the site's records are; and who knows which, while that is not this one alone.
fn records(cluster: &ClusterView) -> String {
    let format = cluster.format;
    let mut text = format!("format {format}");
    if cluster.peers.iter().any(|card| card.formats.newest != format) {
        let knows = |card: &PeerCard| format!("{} knows {}", card.peer, card.formats);
        text += &format!("; {}", cluster.peers.iter().map(knows).collect::<Vec<_>>().join(", "));
    }
    text
}

fn peer_line(peer: &PeerView, now: u64) -> String {
    let mut line = format!("{}  {}", peer.peer, peer_state(peer, now));
    if !peer.version.is_empty() {
        line += &format!(", version {}", peer.version);
    }
    if peer.own {
        line += ", asked";
    }
    line
}

fn etcd_line(view: &EtcdView) -> String {
    if !view.trouble.is_empty() {
        return format!("{}  {}", view.endpoint, view.trouble);
    }
    let quota = match view.quota_bytes {
        0 => String::new(),
        quota => format!(" of {}", format_bytes(quota)),
    };
    let name = if view.member.is_empty() { "a member" } else { &view.member };
    let leads = match (view.leads, view.learner) {
        (true, _) => ", leads",
        (_, true) => ", has no vote yet",
        _ => "",
    };
    format!(
        "{}  {name}{leads}, version {}, {}{quota}, answered in {:.1} ms",
        view.endpoint,
        view.version,
        format_bytes(view.bytes),
        view.answer_us as f64 / 1000.0
    )
}
