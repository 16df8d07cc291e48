//! The figures of a cell, from what the peers have seen each second.

use std::collections::BTreeMap;

use penstock_api::statistics::{PeerHistory, PeerSeries, PeerStatistics, SeriesColumn};
use penstock_api::time_use::{PeerTime, TransferTime, sum_of};
use penstock_api::timestamp::Timestamp;
use serde::Serialize;

use super::modes::Mode;
use super::record::{Cpu, SideSeconds};

/// Fewest points with bytes for a steady rate.
const STEADY_POINTS: usize = 5;
/// Part of the processors' time that the hypervisor gives to others, in percent, and processors
/// that are in use before a transfer, above which a cell is flagged.
const STEAL_MAX: f64 = 5.0;
const LOAD_MAX: f64 = 0.5;

/// The observations of a transfer at one site.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) site: String,
    /// True at the site that received.
    pub(super) is_target: bool,
    pub(super) series: Vec<PeerSeries>,
    pub(super) statistics: Vec<PeerStatistics>,
}

/// A line of `series/<cell>.jsonl`: a second at one peer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Sample {
    site: String,
    peer: String,
    role: &'static str,
    at: u64,
    t: f64,
    seconds: u64,
    values: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    min: BTreeMap<String, f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    max: BTreeMap<String, f64>,
}

fn column<'a>(series: &'a PeerSeries, name: &str) -> Option<&'a SeriesColumn> {
    series.columns.iter().find(|column| column.name == name && column.of.is_empty())
}

/// Returns the points of a column: begin, length in seconds, mean.
fn points<'a>(
    series: &'a PeerSeries,
    name: &str,
) -> impl Iterator<Item = (f64, f64, f64)> + use<'a> {
    let means = column(series, name).map_or(&[][..], |column| &column.mean);
    let times = series.at.iter().zip(&series.seconds);
    let point = |((at, seconds), mean): ((&u64, &u64), &Option<f64>)| {
        Some((*at as f64, *seconds as f64, (*mean)?))
    };
    times.zip(means).filter_map(point)
}

/// Returns the samples of all peers, by site, peer and time.
pub(super) fn samples(observed: &[Observed], submitted: Timestamp) -> Vec<Sample> {
    let mut samples = Vec::new();
    for site in observed {
        for peer in &site.series {
            samples.extend((0..peer.at.len()).map(|at| sample(site, peer, at, submitted)));
        }
    }
    samples.sort_by(|one, other| {
        (&one.site, &one.peer, one.at).cmp(&(&other.site, &other.peer, other.at))
    });
    samples
}

fn sample(site: &Observed, peer: &PeerSeries, at: usize, submitted: Timestamp) -> Sample {
    let values = |of: fn(&SeriesColumn) -> &Vec<Option<f64>>| {
        let value = |column: &SeriesColumn| {
            let name = match column.of.is_empty() {
                true => column.name.clone(),
                false => format!("{}:{}", column.name, column.of),
            };
            Some((name, (*of(column).get(at)?)?))
        };
        peer.columns.iter().filter_map(value).collect::<BTreeMap<_, _>>()
    };
    let (begin, seconds) = (peer.at[at], peer.seconds.get(at).copied().unwrap_or(1));
    let is_long = seconds > 1;
    Sample {
        site: site.site.clone(),
        peer: peer.peer.to_string(),
        role: if site.is_target { "target" } else { "source" },
        at: begin,
        t: begin as f64 - submitted.ms() as f64 / 1000.0,
        seconds,
        values: values(|column| &column.mean),
        min: if is_long { values(|column| &column.min) } else { BTreeMap::new() },
        max: if is_long { values(|column| &column.max) } else { BTreeMap::new() },
    }
}

/// Returns the rate between 20 % and 80 % of the bytes, in bytes per second; none where too few
/// seconds were seen.
pub(super) fn steady(observed: &[Observed]) -> Option<f64> {
    let whole = |site: &Observed| {
        let has = |peer: &&PeerSeries| column(peer, "total_rate_bits_per_s").is_some();
        let peer = site.series.iter().find(has)?;
        Some(points(peer, "total_rate_bits_per_s").collect::<Vec<_>>())
    };
    let sums = |site: &Observed| {
        let mut sums = BTreeMap::new();
        for peer in &site.series {
            for (at, seconds, rate) in points(peer, "rate_bits_per_s") {
                let sum = sums.entry(at as u64).or_insert((seconds, 0.0));
                sum.1 += rate;
            }
        }
        sums.into_iter().map(|(at, (seconds, rate))| (at as f64, seconds, rate)).collect()
    };
    let points: Vec<(f64, f64, f64)> =
        observed.iter().find_map(whole).or_else(|| observed.first().map(sums))?;
    steady_of(&points)
}

/// Returns the steady rate of points of begin, seconds and bits per second.
fn steady_of(points: &[(f64, f64, f64)]) -> Option<f64> {
    if points.iter().filter(|(_, _, rate)| *rate > 0.0).count() < STEADY_POINTS {
        return None;
    }
    let bytes = |(_, seconds, rate): &(f64, f64, f64)| seconds * rate / 8.0;
    let total: f64 = points.iter().map(bytes).sum();
    // The time at which a part of the bytes has come, linear within a point.
    let time_of = |part: f64| {
        let mut come = 0.0;
        for point in points {
            let more = bytes(point);
            if more > 0.0 && come + more >= part * total {
                return point.0 + point.1 * (part * total - come) / more;
            }
            come += more;
        }
        points.last().map_or(0.0, |last| last.0 + last.1)
    };
    let time = time_of(0.8) - time_of(0.2);
    (time > 0.0).then(|| 0.6 * total / time)
}

/// Returns when the first and the last target peer had moved their last bytes, in seconds since the
/// submission, to the second.
pub(super) fn last_bytes(observed: &[Observed], submitted: Timestamp) -> Option<(f64, f64)> {
    let ends = observed.iter().filter(|site| site.is_target).flat_map(|site| &site.series);
    let ends = ends.filter_map(|peer| {
        let moving = points(peer, "rate_bits_per_s").filter(|(_, _, rate)| *rate > 0.0);
        let last = moving.last().map(|(at, seconds, _)| at + seconds)?;
        Some((last - submitted.ms() as f64 / 1000.0).max(0.0))
    });
    ends.fold(None, |found: Option<(f64, f64)>, end| {
        Some(found.map_or((end, end), |(first, last)| (first.min(end), last.max(end))))
    })
}

/// Returns the processor time at each peer by `site/peer`: of the host by the samples, of the
/// transfer's threads by its own account. `sites` are source and target.
pub(super) fn cpu(
    observed: &[Observed],
    time: &TransferTime,
    sites: [&str; 2],
) -> BTreeMap<String, Cpu> {
    let mut all: BTreeMap<String, Cpu> = BTreeMap::new();
    for site in observed {
        for peer in &site.series {
            let statistics = site.statistics.iter().find(|known| known.peer == peer.peer);
            let cores = statistics.map(|known| known.cores.len()).filter(|cores| *cores > 0);
            let seconds = |name: &str| {
                let cores = cores? as f64;
                let used = points(peer, name).map(|(_, seconds, percent)| seconds * percent);
                column(peer, name).map(|_| used.sum::<f64>() / 100.0 * cores)
            };
            let cpu = all.entry(format!("{}/{}", site.site, peer.peer)).or_default();
            *cpu = Cpu {
                cores,
                busy_s: seconds("cpu_busy_percent"),
                iowait_s: seconds("cpu_iowait_percent"),
                steal_s: seconds("cpu_steal_percent"),
                threads_s: cpu.threads_s,
            };
        }
    }
    for (site, peers) in sites.iter().zip([&time.source, &time.target]) {
        for peer in peers {
            let name = peer_name(peer, site, observed);
            let threads = peer.lanes.cpu + peer.publishers.cpu;
            let cpu = all.entry(format!("{site}/{name}")).or_default();
            cpu.threads_s = Some(cpu.threads_s.unwrap_or(0.0) + threads);
        }
    }
    all
}

/// Returns the name of a peer; the only one of a site may not name itself.
pub(super) fn peer_name(peer: &PeerTime, site: &str, observed: &[Observed]) -> String {
    if !peer.peer.is_empty() {
        return peer.peer.clone();
    }
    let mut known = observed.iter().filter(|seen| seen.site == site).flat_map(|seen| &seen.series);
    known.next().map_or_else(|| "peer".to_owned(), |peer| peer.peer.to_string())
}

/// Returns the greatest resident memory of each daemon in bytes, by `site/peer`.
pub(super) fn peak_memory(observed: &[Observed]) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for site in observed {
        for peer in &site.series {
            let most = column(peer, "memory_daemon_bytes")
                .and_then(|column| column.max.iter().flatten().copied().reduce(f64::max));
            if let Some(most) = most {
                all.insert(format!("{}/{}", site.site, peer.peer), most);
            }
        }
    }
    all
}

/// Returns the seconds of the threads of each side by activity.
pub(super) fn side_seconds(time: &TransferTime) -> SideSeconds {
    let side = |peers: &[PeerTime]| {
        let sum = sum_of(peers);
        let mut all = sum.lanes;
        all.add(&sum.publishers);
        // An activity without time has no field.
        serde_json::to_value(all)
            .ok()
            .and_then(|value| serde_json::from_value(value).ok())
            .unwrap_or_default()
    };
    SideSeconds { source: side(&time.source), target: side(&time.target) }
}

/// Returns the cipher that protected the lanes, as the first peer that knows it has seen it.
pub(super) fn suite(observed: &[Observed]) -> Option<String> {
    let mut peers = observed.iter().flat_map(|site| &site.statistics);
    let known = peers.find(|peer| !peer.cipher.is_empty() && peer.cipher != "none");
    known.map(|peer| peer.cipher.clone())
}

/// Returns the reason why a mode was not measured under the suite that it asks for, or may not have
/// been.
pub(super) fn suite_flag(mode: &Mode) -> Option<String> {
    let asked = mode.cipher_suite?;
    // A cipher is named as in `ChaCha20-Poly1305`, and a suite as in `chacha20-poly1305`.
    let plain = |name: &str| name.replace('-', "").to_lowercase();
    match &mode.suite {
        Some(seen) if plain(seen) == plain(asked.name()) => None,
        Some(seen) => Some(format!("cipher {seen} instead of {asked}")),
        None => Some(format!("cipher not seen, {asked} asked for")),
    }
}

/// Returns the processors in use at each peer of a site, by `site/peer`.
pub(super) fn busy_cores(site: &str, peers: &[PeerHistory]) -> BTreeMap<String, f64> {
    let busy = |peer: &PeerHistory| {
        let seen: Vec<f64> =
            points(&peer.series, "cpu_busy_percent").map(|(_, _, percent)| percent).collect();
        let mean = seen.iter().sum::<f64>() / seen.len() as f64;
        let is_known = !seen.is_empty() && !peer.cores.is_empty();
        let name = format!("{site}/{}", peer.series.peer);
        is_known.then(|| (name, mean / 100.0 * peer.cores.len() as f64))
    };
    peers.iter().filter_map(busy).collect()
}

/// Returns the reasons for which a cell is to be looked at with care.
pub(super) fn flags(observed: &[Observed], before: &BTreeMap<String, f64>) -> Vec<String> {
    let mut flags = Vec::new();
    for site in observed {
        for peer in &site.series {
            let (mut sum, mut time) = (0.0, 0.0);
            for (_, seconds, percent) in points(peer, "cpu_steal_percent") {
                sum += seconds * percent;
                time += seconds;
            }
            let steal = sum / time;
            if steal > STEAL_MAX {
                flags.push(format!("steal {steal:.1} % at {}/{}", site.site, peer.peer));
            }
        }
    }
    for (peer, cores) in before.iter().filter(|(_, cores)| **cores > LOAD_MAX) {
        flags.push(format!("load {cores:.1} cores at {peer} before the run"));
    }
    flags
}

#[cfg(test)]
mod tests {
    use penstock_api::time_use::ActivitySeconds;
    use penstock_proto::frame::CipherSuite;

    use super::super::record::examples;
    use super::*;

    fn known(values: &[f64]) -> Vec<Option<f64>> {
        values.iter().copied().map(Some).collect()
    }

    fn observed(columns: &[(&str, &[f64])]) -> Observed {
        let count = columns[0].1.len() as u64;
        let columns = columns.iter().map(|(name, values)| {
            let (name, of) = name.split_once(':').unwrap_or((name, ""));
            let (name, of, mean) = (name.to_owned(), of.to_owned(), known(values));
            SeriesColumn { name, of, min: mean.clone(), max: mean.clone(), mean }
        });
        let series = PeerSeries {
            peer: "h1".parse().unwrap(),
            at: (100..100 + count).collect(),
            seconds: vec![1; count as usize],
            columns: columns.collect(),
        };
        let (site, is_target) = ("hpc".to_owned(), true);
        Observed { site, is_target, series: vec![series], statistics: Vec::new() }
    }

    /// Promise: a cell is flagged if its lanes had another suite than its mode asks for, or if none
    /// was seen.
    #[test]
    fn another_suite_is_flagged() {
        let [mut mode, _] = <[Mode; 2]>::try_from(examples::run().modes).unwrap();
        assert_eq!(suite_flag(&mode), None, "none is asked for");
        for (asked, seen, flag) in [
            (CipherSuite::Chacha20Poly1305, Some("ChaCha20-Poly1305"), None),
            (CipherSuite::Aes256Gcm, Some("AES-256-GCM"), None),
            (CipherSuite::Aes256Gcm, Some("AES-128-GCM"), Some("AES-128-GCM instead of")),
            (CipherSuite::Aes256Gcm, None, Some("not seen")),
        ] {
            mode.cipher_suite = Some(asked);
            mode.suite = seen.map(str::to_owned);
            let found = suite_flag(&mode);
            assert_eq!(found.is_some(), flag.is_some(), "{asked}, {seen:?}");
            assert!(found.is_none_or(|text| text.contains(flag.unwrap())), "{asked}, {seen:?}");
        }
    }

    /// Promise: the steady rate leaves out the begin and the end, and is not told of a short run.
    #[test]
    fn the_steady_rate_is_of_the_middle() {
        let slow_ends = [8.0, 80.0, 80.0, 80.0, 80.0, 8.0];
        let rate = steady(&[observed(&[("total_rate_bits_per_s", &slow_ends)])]).unwrap();
        assert!((rate - 10.0).abs() < 1e-9, "{rate}");
        assert_eq!(steady(&[observed(&[("total_rate_bits_per_s", &[80.0; 4])])]), None);
        assert_eq!(steady(&[]), None);
        // Without the controller's own figure, all peers together.
        let mut two = observed(&[("rate_bits_per_s", &[40.0; 6])]);
        two.series.push(two.series[0].clone());
        assert!((steady(&[two]).unwrap() - 10.0).abs() < 1e-9);
    }

    /// Promise: a sample has each figure by its name, that of a card with the card, and its time
    /// since the submission; the last byte is the end of the last second that moved something.
    #[test]
    fn samples_are_seconds_since_the_submission() {
        let rates = [0.0, 8.0, 0.0];
        let seen = [observed(&[("rate_bits_per_s", &rates), ("card_in_bits_per_s:eth0", &rates)])];
        let submitted = Timestamp::of_ms(99_500);
        let samples = samples(&seen, submitted);
        assert_eq!((samples.len(), samples[1].t, samples[1].at), (3, 1.5, 101));
        assert_eq!(samples[1].values["card_in_bits_per_s:eth0"], 8.0);
        assert_eq!((samples[1].role, samples[1].min.len()), ("target", 0));
        assert_eq!(last_bytes(&seen, submitted), Some((2.5, 2.5)));
        assert_eq!(last_bytes(&[], submitted), None);
    }

    /// Promise: a cell is flagged for a hypervisor that gives processors away and for a load before
    /// it, and for nothing else; times of threads keep their peers.
    #[test]
    fn flags_say_why() {
        let before = |cores| BTreeMap::from([("hpc/h1".to_owned(), cores)]);
        let quiet = [observed(&[("cpu_steal_percent", &[5.0, 5.0])])];
        assert!(flags(&quiet, &before(0.5)).is_empty());
        let busy = [observed(&[("cpu_steal_percent", &[2.0, 10.0])])];
        let expected = ["steal 6.0 % at hpc/h1", "load 0.8 cores at hpc/h1 before the run"];
        assert_eq!(flags(&busy, &before(0.8)), expected);
        let lanes = ActivitySeconds { read: 1.0, cpu: 2.0, ..ActivitySeconds::default() };
        let peer = PeerTime { lanes, ..PeerTime::default() };
        let time = TransferTime { target: vec![peer], ..TransferTime::default() };
        let all = cpu(&busy, &time, ["lab", "hpc"]);
        assert_eq!(all["hpc/h1"].threads_s, Some(2.0));
        let sides = side_seconds(&time);
        let target = BTreeMap::from([("read".to_owned(), 1.0), ("cpu".to_owned(), 2.0)]);
        assert_eq!((sides.source.len(), sides.target), (0, target));
    }
}
