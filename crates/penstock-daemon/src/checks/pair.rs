//! Conclusions from two sites' views of the paths between them.
//!
//! From one end, a SYN without an answer does not show whether a firewall drops it, the cable is
//! cut, or the host is absent. Two further facts distinguish these cases: whether the other end
//! reaches this one over the same two addresses, and whether it reaches itself at the address in
//! question.

use std::net::{IpAddr, SocketAddr};

use penstock_api::operate::{Finding, Level};
use penstock_api::paths::{PathView, PathsView, PeerProbe, SiteProbe};
use penstock_proto::id::Name;

use super::expiry::{DAY, expiry};

/// Clocks that differ by more than this are worth a word, in milliseconds; beyond the second one,
/// certificates and capabilities that were just issued are refused.
const CLOCK_MS: (f64, f64) = (2_000.0, 120_000.0);

/// Judges the findings of both sites; `key` is the other site's capability key as the pairing knows
/// it, empty if it is not known; `now` in seconds since 1970.
pub(crate) fn judge(
    paths: &PathsView,
    ours: &SiteProbe,
    theirs: Option<&SiteProbe>,
    key: &str,
    now: u64,
) -> Vec<Finding> {
    let (here, there) = (&ours.site, &paths.site);
    let mut findings = Vec::new();
    if theirs.is_none() {
        findings.push(Finding::new(
            Level::Bad,
            "pair",
            format!("{there} has not tried the paths to here: {}", paths.inward_problem),
            "whether data can go there is not known, and why a path from here fails only guessed",
            format!("run `penstock doctor --pair {here}` at {there}, and check its daemon"),
        ));
    }
    let listening = |probe: Option<&SiteProbe>| -> Vec<(SocketAddr, String)> {
        probe.into_iter().flat_map(|probe| &probe.peers).flat_map(|p| p.listening.clone()).collect()
    };
    let out = Direction {
        from: here,
        to: there,
        paths: &paths.outward,
        back: &paths.inward,
        listening: listening(theirs),
        both: theirs.is_some(),
    };
    findings.extend(out.judge());
    if theirs.is_some() {
        let inward = Direction {
            from: there,
            to: here,
            paths: &paths.inward,
            back: &paths.outward,
            listening: listening(Some(ours)),
            both: true,
        };
        findings.extend(inward.judge());
    }
    for probe in [Some(ours), theirs].into_iter().flatten() {
        findings.extend(silent(probe));
        findings.extend(expiries(probe, now));
        findings.extend(keys(probe));
    }
    if let Some(theirs) = theirs {
        findings.extend(releases(ours, theirs));
        findings.extend(pairing_key(theirs, key));
    }
    findings.extend(clock(paths));
    findings
}

/// The paths from one site to the other.
struct Direction<'a> {
    from: &'a Name,
    to: &'a Name,
    paths: &'a [PathView],
    /// The paths in the other direction, as the other site has tried them.
    back: &'a [PathView],
    /// For each dialled address, whether its peer reaches it.
    listening: Vec<(SocketAddr, String)>,
    /// True if the other site has tried any path.
    both: bool,
}

/// Returns the address in `10.50.1.1%eth1`; none if any address will do.
fn address_of(from: &str) -> Option<IpAddr> {
    from.split('%').next()?.parse().ok()
}

impl Direction<'_> {
    fn judge(&self) -> Vec<Finding> {
        let (from, to) = (self.from, self.to);
        if self.paths.is_empty() {
            return vec![Finding::new(
                Level::Bad,
                "path",
                format!("no address for data of {from} can be paired with one of {to}"),
                format!("no data comes from {to} to {from}"),
                "give both an address of the same family (IPv4, IPv6) on a network for data: \
                 [[network]] in penstock.toml",
            )];
        }
        let good = |path: &&PathView| path.reachable && path.large.is_empty();
        let working = self.paths.iter().filter(good).count();
        let level = if working == 0 { Level::Bad } else { Level::Warning };
        let bad = self.paths.iter().filter(|path| !good(path));
        let mut findings: Vec<_> = bad.map(|path| self.finding(path, level)).collect();
        if working > 0 {
            let of = self.paths.len();
            let rtts = self.paths.iter().filter(good).filter_map(|path| path.rtt_us);
            let ms = |rtt: Option<u64>| rtt.unwrap_or(0) as f64 / 1000.0;
            let (least, most) = (ms(rtts.clone().min()), ms(rtts.max()));
            findings.push(Finding::ok(
                "path",
                format!(
                    "{working} of {of} paths from {from} to {to} carry packets of full size both \
                     ways, round trip {least:.1} to {most:.1} ms"
                ),
            ));
        }
        findings
    }

    fn finding(&self, path: &PathView, level: Level) -> Finding {
        let (from, to) = (self.from, self.to);
        let ends = format!("{} {} -> {} {}", path.peer, path.from, path.to_peer, path.to);
        let why = format!("data from {to} to {from} cannot use this path: {from} dials");
        if path.reachable {
            return Finding::new(
                level,
                "mtu",
                format!("{ends}: {}", path.large),
                "handshakes succeed but data hangs, so the path looks alive",
                format!(
                    "`ping -M do -s 1472 {}` (8972 with jumbo frames), until it passes: set \
                     that MTU on the interface, let ICMP \"fragmentation needed\" through, or \
                     sysctl -w net.ipv4.tcp_mtu_probing=1 at both",
                    path.to.ip()
                ),
            );
        }
        let refused = path.why.starts_with("refused");
        let silent = path.why.starts_with("no SYN-ACK");
        let (what, action) = match (refused, silent) {
            (true, _) => self.refused(path),
            (_, true) => self.silent(path),
            _ => (
                path.why.clone(),
                format!("at {from}: `ip route get {}`, `ip link`, [[network]]", path.to.ip()),
            ),
        };
        Finding::new(level, "path", format!("{ends}: {what}"), why, action)
    }

    /// Returns the other end's statement about the address that was dialled.
    fn listens(&self, address: SocketAddr) -> Option<bool> {
        let found = self.listening.iter().find(|(own, _)| *own == address);
        found.map(|(_, why)| why.is_empty())
    }

    fn refused(&self, path: &PathView) -> (String, String) {
        let (to, at) = (self.to, path.to);
        match self.listens(at) {
            Some(true) => (
                format!("refused, though {to} is listening there: a firewall at {to} that rejects"),
                format!("at {to}: let TCP to {at} in"),
            ),
            _ => (
                path.why.clone(),
                format!("at {to}: `ss -ltn`; correct `listen` or `advertise` in penstock.toml"),
            ),
        }
    }

    /// Explains a path without an answer. The text says where to look, by the findings of the other
    /// end.
    fn silent(&self, path: &PathView) -> (String, String) {
        let (from, to, at) = (self.from, self.to, path.to);
        let head = format!("no SYN-ACK from {to} {at}");
        let reverse = self.back.iter().find(|back| {
            let ends = (address_of(&back.from), address_of(&path.from));
            ends.0 == Some(at.ip()) && (ends.1 == Some(back.to.ip()) || ends.1.is_none())
        });
        let open =
            format!("at {to}: let TCP to {at} in (`nft list ruleset`, firewalld, the cloud)");
        match (self.listens(at), reverse.map(|back| back.reachable)) {
            (Some(false), _) => (
                format!("{head}, and {to} does not reach that address itself"),
                format!("at {to}: is the interface up, the daemon listening? `ss -ltn`, `ip link`"),
            ),
            (_, Some(true)) => (
                format!(
                    "{head}, but {to} reaches {} over the same two addresses, and listens there: a \
                     firewall at {to}",
                    address_of(&path.from).map_or_else(|| from.to_string(), |ip| ip.to_string())
                ),
                open,
            ),
            (Some(true), Some(false)) => (
                format!("{head}, nor does {to} reach {from} back: a cut between, or two firewalls"),
                format!("cable, switch, VLAN, routes between {at} and {}; then {open}", path.from),
            ),
            (Some(true), None) => (
                format!("{head}, though it listens there: a firewall at {to}, or a cut between"),
                open,
            ),
            (None, _) if self.both => (
                format!("{head}, and no peer of {to} reports that address"),
                format!("at {to}: correct `advertise`, or the address translation before it"),
            ),
            (None, _) => (format!("{head}: firewall at {to}, or a cut between?"), open),
        }
    }
}

fn silent(probe: &SiteProbe) -> Vec<Finding> {
    let finding = |(peer, why): &(Name, String)| {
        Finding::new(
            Level::Warning,
            "peer",
            format!("peer `{peer}` of {} has not tried its paths: {why}", probe.site),
            "its paths are not known",
            "check its daemon",
        )
    };
    probe.silent.iter().map(finding).collect()
}

fn expiries(probe: &SiteProbe, now: u64) -> Vec<Finding> {
    let soon = probe.peers.iter().filter(|peer| peer.certificate_expires < now + 30 * DAY);
    soon.map(|peer| {
        let what = format!("the certificate of peer `{}` of {}", peer.peer, probe.site);
        expiry("certificate", &what, peer.certificate_expires)
    })
    .collect()
}

/// Checks that the peers of one site check capabilities with one key.
fn keys(probe: &SiteProbe) -> Option<Finding> {
    let mut keys: Vec<_> = probe.peers.iter().map(|peer| &peer.capability_key).collect();
    keys.sort_unstable();
    keys.dedup();
    (keys.len() > 1).then(|| {
        Finding::new(
            Level::Bad,
            "capability-key",
            format!("the peers of {} check capabilities with {} keys", probe.site, keys.len()),
            "some of them refuse lanes that their own controller has allowed",
            format!(
                "at {}: let the peers with another `trust/capability.key` join again",
                probe.site
            ),
        )
    })
}

fn pairing_key(theirs: &SiteProbe, key: &str) -> Option<Finding> {
    let other = |peer: &&PeerProbe| !key.is_empty() && peer.capability_key != key;
    let peer = theirs.peers.iter().find(other)?;
    Some(Finding::new(
        Level::Warning,
        "capability-key",
        format!("{} has another capability key than when it was paired", theirs.site),
        format!(
            "peer `{}` presents it: the site was set up again, or its keys were restored",
            peer.peer
        ),
        "`penstock site unpair` at both, then `penstock site pair`",
    ))
}

fn releases(ours: &SiteProbe, theirs: &SiteProbe) -> Option<Finding> {
    let all: Vec<_> = ours.peers.iter().chain(&theirs.peers).collect();
    let oldest = all.iter().map(|peer| peer.protocol.1).min()?;
    let youngest = all.iter().map(|peer| peer.protocol.0).max()?;
    let first = all.first()?;
    if all.iter().all(|peer| peer.release == first.release) {
        return Some(Finding::ok("version", format!("both sites run {}", first.release)));
    }
    let list = |probe: &SiteProbe| {
        let of = |peer: &PeerProbe| format!("{} {}", peer.peer, peer.release);
        let peers: Vec<_> = probe.peers.iter().map(of).collect();
        format!("{}: {}", probe.site, peers.join(", "))
    };
    let what = format!("releases differ: {}; {}", list(ours), list(theirs));
    if oldest < youngest {
        let why = "no version of the lane protocol is spoken by both: no lane opens";
        return Some(Finding::new(Level::Bad, "version", what, why, "upgrade the older site"));
    }
    let why = format!("they work together, by lane protocol {oldest}");
    Some(Finding::new(Level::Note, "version", what, why, ""))
}

fn clock(paths: &PathsView) -> Option<Finding> {
    let known = paths
        .outward
        .iter()
        .filter_map(|path| Some((path.clock_ahead_ms?, path.rtt_us.unwrap_or(0) as f64 / 2000.0)));
    // The shortest round trip is the best measure.
    let (ahead, _) = known.min_by(|a, b| a.1.total_cmp(&b.1))?;
    let site = &paths.site;
    let level = match ahead.abs() {
        ms if ms > CLOCK_MS.1 => Level::Bad,
        ms if ms > CLOCK_MS.0 => Level::Warning,
        ms => {
            let what = format!("the clocks differ by {ms:.0} ms");
            return Some(Finding::ok("clock", what));
        }
    };
    let way = if ahead > 0.0 { "ahead" } else { "behind" };
    Some(Finding::new(
        level,
        "clock",
        format!("the clock of {site} is {:.1} s {way}", ahead.abs() / 1000.0),
        "stamps of files, receipts and events contradict each other; by minutes, certificates and \
         capabilities are refused, and files look changed in the last two seconds",
        "run chrony or another NTP client at both sites",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_api::operate::worst;

    fn path(from: &str, to: &str, why: &str) -> PathView {
        PathView {
            peer: "p".parse().unwrap(),
            to_peer: "q".parse().unwrap(),
            from: from.to_owned(),
            to: to.parse().unwrap(),
            network: String::new(),
            reachable: why.is_empty(),
            proven: why.is_empty(),
            why: why.to_owned(),
            large: String::new(),
            clock_ahead_ms: Some(1.0),
            rtt_us: Some(500),
            rtt_now_us: Some(500),
            rate_bits_per_s: None,
            state: "untried".to_owned(),
            since: 0,
            last_failure: String::new(),
        }
    }

    fn probe(site: &str, listening: &[(&str, bool)]) -> SiteProbe {
        let heard = |(at, well): &(&str, bool)| {
            (at.parse().unwrap(), if *well { String::new() } else { "refused".to_owned() })
        };
        let peer = PeerProbe {
            peer: "p".parse().unwrap(),
            release: "1.0.0".to_owned(),
            protocol: (1, 1),
            certificate_expires: u64::MAX / 2,
            capability_key: "aa".to_owned(),
            paths: Vec::new(),
            listening: listening.iter().map(heard).collect(),
        };
        SiteProbe { site: site.parse().unwrap(), peers: vec![peer], silent: Vec::new() }
    }

    const A: &str = "10.1.0.1:7444";
    const B: &str = "10.2.0.1:7444";
    const NO_ANSWER: &str = "no SYN-ACK from b 10.2.0.1:7444 within 3 s";

    fn judged(out: PathView, back: PathView, theirs: &SiteProbe) -> Vec<Finding> {
        let view = PathsView {
            site: "b".parse().unwrap(),
            outward: vec![out],
            inward: vec![back],
            inward_problem: String::new(),
        };
        judge(&view, &probe("a", &[(A, true)]), Some(theirs), "aa", 1_700_000_000)
    }

    fn first(findings: &[Finding]) -> &Finding {
        findings.iter().find(|finding| finding.level >= Level::Warning).unwrap()
    }

    /// Promise: the views of both ends distinguish four causes: a firewall, a cut, a daemon that
    /// does not listen, and an address that no host has.
    #[test]
    fn a_firewall_is_told_from_a_cut() {
        let out = || path("10.1.0.1%net1", B, NO_ANSWER);
        let (good, bad) = (path("10.2.0.1%net1", A, ""), path("10.2.0.1%net1", A, NO_ANSWER));
        let what = |back: &PathView, theirs: &SiteProbe| {
            first(&judged(out(), back.clone(), theirs)).what.clone()
        };
        let listens = probe("b", &[(B, true)]);
        assert!(what(&good, &listens).ends_with("a firewall at b"), "{}", what(&good, &listens));
        assert!(what(&bad, &listens).contains("a cut between, or two firewalls"));
        let deaf = probe("b", &[(B, false)]);
        assert!(what(&bad, &deaf).contains("does not reach that address itself"));
        let other = probe("b", &[("10.9.9.9:7444", true)]);
        assert!(what(&bad, &other).contains("no peer of b reports that address"));
    }

    /// Promise: a path that opens and carries no packet of full size is not called good.
    #[test]
    fn a_path_of_small_packets_is_not_good() {
        let large = PathView {
            large: "a connection opens, and 64 KiB do not pass".to_owned(),
            ..path("10.1.0.1%net1", B, "")
        };
        let findings = judged(large, path("10.2.0.1%net1", A, ""), &probe("b", &[(B, true)]));
        let found = first(&findings);
        assert_eq!((found.code.as_str(), found.level), ("mtu", Level::Bad));
        assert!(found.action.contains("tcp_mtu_probing"), "{}", found.action);
    }

    /// Promise: two matching sites are reported as healthy, with the measured figures; another key,
    /// a late clock and an old protocol are not.
    #[test]
    fn two_sites_that_fit_are_well() {
        let (out, back) = (path("10.1.0.1%net1", B, ""), path("10.2.0.1%net1", A, ""));
        let theirs = probe("b", &[(B, true)]);
        let well = judged(out.clone(), back.clone(), &theirs);
        assert_eq!(worst(&well), Level::Ok, "{well:?}");
        assert!(well.iter().any(|f| f.what.contains("1 of 1 paths from a to b")), "{well:?}");
        let late = PathView { clock_ahead_ms: Some(-300_000.0), ..out.clone() };
        assert_eq!(worst(&judged(late, back.clone(), &theirs)), Level::Bad);
        let mut key = theirs.clone();
        "bb".clone_into(&mut key.peers[0].capability_key);
        assert_eq!(worst(&judged(out.clone(), back.clone(), &key)), Level::Warning);
        let mut old = theirs;
        "0.9.0".clone_into(&mut old.peers[0].release);
        old.peers[0].protocol = (0, 0);
        assert_eq!(worst(&judged(out, back, &old)), Level::Bad);
    }
}
