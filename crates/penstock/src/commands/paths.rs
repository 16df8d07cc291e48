//! `penstock site paths`: which addresses of two sites reach each other.

use penstock_api::endpoints::{LIST_SITES, SHOW_PATHS};
use penstock_api::paths::{PathView, PathsView};
use penstock_api::rest::SiteView;
use penstock_proto::id::Name;
use penstock_proto::units::format_rate;

use crate::client::Client;
use penstock_exit as exit;
use penstock_sys::now_seconds;

/// Has the daemon try the paths to one site, or to all that are paired, and prints them.
///
/// # Errors
/// No daemon answers, or what it answers.
pub(crate) fn show(client: &Client, site: Option<Name>, json: bool) -> anyhow::Result<()> {
    let sites = match site {
        Some(site) => vec![site],
        None => {
            let all: Vec<SiteView> = client.list(&LIST_SITES.uri(&[]))?;
            all.into_iter().filter(|site| !site.own).map(|site| site.name).collect::<Vec<_>>()
        }
    };
    if sites.is_empty() {
        exit::warn("this site is paired with no other: `penstock site pair` begins a pairing");
    }
    for site in sites {
        let view: PathsView = client.get(&SHOW_PATHS.uri(&[&site]))?;
        if json {
            exit::print(&serde_json::to_string(&view)?)?;
            continue;
        }
        exit::print(&words(&view))?;
    }
    Ok(())
}

/// Paths for people to read.
pub(crate) fn words(view: &PathsView) -> String {
    let site = &view.site;
    let mut lines = vec![format!("paths to {site}: they bring data from there")];
    if view.outward.is_empty() {
        lines.push("  none: no address for data here is of the family of one there".to_owned());
    }
    lines.extend(view.outward.iter().map(line));
    lines.push(format!("paths from {site}, as it sees them: they take data there"));
    lines.extend(view.inward.iter().map(line));
    if !view.inward_problem.is_empty() {
        lines.push(format!("  not tried: {}", view.inward_problem));
    } else if view.inward.is_empty() {
        lines.push("  none: no address for data there is of the family of one here".to_owned());
    }
    lines.join("\n")
}

fn line(path: &PathView) -> String {
    let PathView { from, to, network, .. } = path;
    let network = if network.is_empty() { String::new() } else { format!("{network}  ") };
    let PathView { peer, to_peer, .. } = path;
    let mut text = format!("  {network}{peer} {from} -> {to_peer} {to}  ");
    if path.reachable && !path.large.is_empty() {
        text += &path.large;
    } else if path.reachable {
        text += "ok";
    } else {
        text += &path.why;
    }
    if let Some(rtt) = path.rtt_us.filter(|_| path.reachable) {
        text += &format!(", round trip {:.1} ms", rtt as f64 / 1000.0);
    }
    if path.state != "untried" {
        text += &format!(", {}", path.state);
        let carried = path.rate_bits_per_s.filter(|_| path.state == "carrying");
        if let Some(rate) = carried {
            text += &format!(" {}", format_rate(rate));
        }
        if ["dead", "crawling"].contains(&path.state.as_str()) {
            let seconds = now_seconds().saturating_sub(path.since);
            text += &format!(" for {seconds} s: {}", path.last_failure);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a path that is not reached says why, and one that is says what it brings.
    #[test]
    fn each_path_is_told_in_words() {
        let good = PathView {
            peer: "dtn1".parse().unwrap(),
            to_peer: "h1".parse().unwrap(),
            large: String::new(),
            clock_ahead_ms: Some(0.1),
            from: "10.50.1.1%net0".to_owned(),
            to: "10.50.2.1:7444".parse().unwrap(),
            network: "fast0".to_owned(),
            reachable: true,
            proven: true,
            why: String::new(),
            rtt_us: Some(90_100),
            rtt_now_us: Some(90_300),
            rate_bits_per_s: Some(2e8),
            state: "carrying".to_owned(),
            since: 1,
            last_failure: String::new(),
        };
        let expected = "  fast0  dtn1 10.50.1.1%net0 -> h1 10.50.2.1:7444  ok, round trip 90.1 ms, \
                        carrying 200.00 Mbit/s";
        assert_eq!(line(&good), expected);
        let why = "no SYN-ACK from hpc 10.50.2.1:7444 within 3 s: firewall at hpc?".to_owned();
        let bad = PathView { reachable: false, why, state: "untried".to_owned(), ..good };
        assert!(line(&bad).ends_with("firewall at hpc?"), "{}", line(&bad));
    }
}
