//! The check that compares the clocks of a site's peers, and of the sites that are paired with it.

use penstock_api::endpoints::{EXAMINE_PAIR, LIST_SITES, SHOW_HEALTH};
use penstock_api::operate::{Finding, Level, PeersView, SiteHealthView};
use penstock_api::paths::PairReport;
use penstock_api::rest::SiteView;
use penstock_proto::id::Name;

use super::outcome::{Outcome, broken, not_run, passed};
use super::trial::Trial;

/// Code of the findings about clocks.
const CLOCK: &str = "clock";

/// Has the daemon compare its clock with those of other peers, and measure its paths to each paired
/// site. The limits are those of the doctor: 1 s between peers, 2 s between sites.
pub(super) fn clocks(trial: &Trial<'_>) -> anyhow::Result<Outcome> {
    let health: SiteHealthView = trial.client.get(&SHOW_HEALTH.uri(&[]))?;
    let mut sites: Vec<SiteView> = trial.client.list(&LIST_SITES.uri(&[]))?;
    sites.retain(|site| !site.own);
    let examined = sites.into_iter().map(|site| {
        let report = trial.client.get::<PairReport>(&EXAMINE_PAIR.uri(&[&site.name]));
        let clock = report.map(|report| report.findings.into_iter().find(is_of_clock));
        (site.name, clock.map_err(|error| format!("{error:#}")))
    });
    judge(&health, &examined.collect::<Vec<_>>())
}

/// A paired site, with the finding about its clock, or the reason why there is no report. A site
/// that has not told its clock has no finding.
type Examined = (Name, Result<Option<Finding>, String>);

fn judge(health: &SiteHealthView, sites: &[Examined]) -> anyhow::Result<Outcome> {
    let of_peers = health.findings.iter().filter(|finding| is_of_clock(finding));
    let of_sites = sites.iter().filter_map(|(site, found)| match found {
        Ok(Some(finding)) => Some((site.as_str(), finding)),
        _ => None,
    });
    let all = of_peers.map(|finding| (finding.peer.as_str(), finding)).chain(of_sites);
    let is_wrong = |(_, finding): &(&str, &Finding)| finding.level >= Level::Warning;
    let wrong: Vec<_> = all.filter(is_wrong).map(|(of, it)| format!("{of}: {}", it.what)).collect();
    if !wrong.is_empty() {
        return broken(wrong.join("; "));
    }
    let peers = words_of_peers(&health.peers);
    let is_compared =
        peers.is_some() || sites.iter().any(|(_, found)| matches!(found, Ok(Some(_))));
    let sites = sites.iter().map(|(site, found)| match found {
        Ok(Some(finding)) => format!("site {site}: {}", finding.what),
        Ok(None) => format!("site {site} has not told its clock"),
        Err(why) => format!("site {site} was not asked: {why}"),
    });
    let words = peers.into_iter().chain(sites).collect::<Vec<_>>().join("; ");
    match is_compared {
        true => passed(words),
        false if words.is_empty() => not_run("no other peer answers, and no site is paired"),
        false => not_run(words),
    }
}

/// Returns how far the clocks of the other peers differ from that of the peer that answers, or
/// nothing where no other peer has told its clock.
fn words_of_peers(view: &PeersView) -> Option<String> {
    let others = view.peers.iter().filter(|peer| !peer.own);
    let ahead: Vec<f64> = others.filter_map(|peer| peer.clock_ahead_ms).map(f64::abs).collect();
    let most = ahead.iter().copied().reduce(f64::max)?;
    Some(format!("other peers, {}: the clocks differ by {most:.0} ms at most", ahead.len()))
}

fn is_of_clock(finding: &Finding) -> bool {
    finding.code == CLOCK
}

#[cfg(test)]
mod tests {
    use penstock_api::operate::Presence;
    use serde_json::json;

    use super::*;

    fn health(ahead_ms: &[f64], findings: Vec<Finding>) -> SiteHealthView {
        let peer = |(at, ahead): (usize, &f64)| {
            json!({
                "peer": format!("p{at}"), "own": at == 0, "presence": Presence::Up, "since": 1,
                "addresses": [], "version": "1", "controller_since": 0, "stores": [],
                "draining": null, "load": null, "clock_ahead_ms": ahead, "trouble": "",
            })
        };
        let all: Vec<_> = [0.0].iter().chain(ahead_ms).enumerate().map(peer).collect();
        let peers = serde_json::from_value(json!({ "site": "hpc", "peers": all })).unwrap();
        SiteHealthView { level: Level::Ok, findings, peers, cluster: None }
    }

    fn finding(level: Level, what: &str) -> Finding {
        Finding::new(level, CLOCK, what, "why", "do")
    }

    /// Promise: clocks are compared where another peer or a paired site tells its own. A finding
    /// about one of them is a failure that names it; other findings are none of this check.
    #[test]
    fn clocks_are_judged() {
        let site = |found| [("hpc".parse::<Name>().unwrap(), found)];
        let other = Finding::new(Level::Bad, "disk", "it is full", "", "");
        let well = finding(Level::Ok, "the clocks differ by 3 ms");
        let passed = judge(&health(&[-7.2, 2.0], vec![other]), &site(Ok(Some(well)))).unwrap();
        let words = "other peers, 2: the clocks differ by 7 ms at most; \
                     site hpc: the clocks differ by 3 ms";
        assert_eq!(passed, Outcome::Pass(words.to_owned()));
        let late = finding(Level::Warning, "its clock is 1.5 s behind").of(&"p1".parse().unwrap());
        let failed = judge(&health(&[-1500.0], vec![late]), &[]);
        assert_eq!(Outcome::of(failed), Outcome::Fail("p1: its clock is 1.5 s behind".to_owned()));
        let late = finding(Level::Bad, "the clock of hpc is 300.0 s ahead");
        let failed = judge(&health(&[], vec![]), &site(Ok(Some(late))));
        assert!(matches!(Outcome::of(failed), Outcome::Fail(why) if why.contains("hpc is 300")));
        for (sites, words) in [
            (&[][..], "no other peer answers, and no site is paired"),
            (&site(Ok(None)), "site hpc has not told its clock"),
            (&site(Err("it is off".to_owned())), "site hpc was not asked: it is off"),
        ] {
            let skipped = judge(&health(&[], vec![]), sites).unwrap();
            assert_eq!(skipped, Outcome::NotRun(words.to_owned()));
        }
    }
}
