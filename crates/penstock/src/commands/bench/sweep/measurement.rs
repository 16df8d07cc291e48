//! The figures of a cell, from what the peers have seen each second.

use std::collections::BTreeMap;

use penstock_api::statistics::{
    PeerHistory, PeerSeries, PeerStatistics, ProcessorTime, SeriesColumn,
};
use penstock_api::time_use::{PeerTime, TransferTime, sum_of};
use penstock_api::timestamp::Timestamp;
use penstock_proto::id::Name;
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
    /// Time of the processors from the submission to the end, by peer.
    pub(super) processors: BTreeMap<String, ProcessorTime>,
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

/// Returns the processor time at each peer by `site/peer`: of the host by the counters of its
/// kernel, or else by the samples; of the transfer's threads by its own account. `sites` are source
/// and target.
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
                available_s: None,
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
    for site in observed {
        for (peer, time) in &site.processors {
            if let Some(cpu) = all.get_mut(&format!("{}/{peer}", site.site)) {
                *cpu = Cpu::counted(time, cpu.threads_s);
            }
        }
    }
    all
}

/// Returns the time of the processors between two answers, by peer. A host that has restarted
/// meanwhile, or whose number of processors has changed, has none.
pub(super) fn processor_time(
    before: &[PeerHistory],
    after: &[PeerHistory],
) -> BTreeMap<String, ProcessorTime> {
    let passed = |peer: &PeerHistory| {
        let is_it = |known: &&PeerHistory| known.series.peer == peer.series.peer;
        let (then, now) = (before.iter().find(is_it)?.processors?, peer.processors?);
        let total_s = now.total_s - then.total_s;
        // The counter of idle time may go back (proc_stat(5)).
        let grown = |now: f64, then: f64| (now - then).max(0.0);
        let time = ProcessorTime {
            processors: now.processors,
            busy_s: grown(now.busy_s, then.busy_s),
            iowait_s: grown(now.iowait_s, then.iowait_s),
            steal_s: grown(now.steal_s, then.steal_s),
            total_s,
        };
        let is_one_span = now.processors == then.processors && total_s > 0.0;
        is_one_span.then(|| (peer.series.peer.to_string(), time))
    };
    after.iter().filter_map(passed).collect()
}

/// Returns the name of a peer; the only one of a site may not name itself.
pub(super) fn peer_name(peer: &PeerTime, site: &str, observed: &[Observed]) -> String {
    if !peer.peer.is_empty() {
        return peer.peer.clone();
    }
    let seen = observed.iter().filter(|seen| seen.site == site);
    let sampled = seen.clone().flat_map(|seen| &seen.series).map(|peer| peer.peer.to_string());
    // A short transfer may have no sample.
    let counted = seen.flat_map(|seen| seen.processors.keys().cloned());
    sampled.chain(counted).next().unwrap_or_else(|| "peer".to_owned())
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

/// Returns the processors in use at each peer of some sites, by `site/peer`.
pub(super) fn busy_cores(sites: &BTreeMap<Name, Vec<PeerHistory>>) -> BTreeMap<String, f64> {
    let busy = |(site, peer): (&Name, &PeerHistory)| {
        let seen: Vec<f64> =
            points(&peer.series, "cpu_busy_percent").map(|(_, _, percent)| percent).collect();
        let mean = seen.iter().sum::<f64>() / seen.len() as f64;
        let is_known = !seen.is_empty() && !peer.cores.is_empty();
        let name = format!("{site}/{}", peer.series.peer);
        is_known.then(|| (name, mean / 100.0 * peer.cores.len() as f64))
    };
    let peers = sites.iter().flat_map(|(site, peers)| peers.iter().map(move |peer| (site, peer)));
    peers.filter_map(busy).collect()
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
    use serde_json::json;

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
        let (statistics, processors) = (Vec::new(), BTreeMap::new());
        Observed { site, is_target, series: vec![series], statistics, processors }
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

    fn history(peer: &str, processors: Option<ProcessorTime>) -> PeerHistory {
        let energy = json!({"is_available": false, "why": "", "ciphers": []});
        let series = json!({"peer": peer, "at": [], "seconds": [], "columns": []});
        serde_json::from_value(json!({
            "series": series, "columns": [], "cores": [], "processors": processors,
            "energy": energy,
        }))
        .unwrap()
    }

    /// Promise: the time of a host's processors is that between two answers, whatever the samples
    /// have, and also without any sample. There is none if the host has restarted, has got another
    /// processor, or did not answer; the samples then remain.
    #[test]
    fn processors_are_counted_at_both_ends() {
        let time = |busy_s, iowait_s, total_s| {
            let (processors, steal_s) = (2, 0.5);
            Some(ProcessorTime { processors, busy_s, iowait_s, steal_s, total_s })
        };
        let before = [history("h1", time(10.0, 2.0, 100.0)), history("h2", time(10.0, 2.0, 100.0))];
        let passed =
            |after: Option<ProcessorTime>| processor_time(&before, &[history("h1", after)]);
        // Within 2.5 s at two processors; the time of waiting for disks went back.
        let counted = passed(time(14.0, 1.9, 105.0));
        let expected = ProcessorTime { steal_s: 0.0, ..time(4.0, 0.0, 5.0).unwrap() };
        assert_eq!(counted, BTreeMap::from([("h1".to_owned(), expected)]));
        let more = ProcessorTime { processors: 3, ..time(14.0, 2.0, 105.0).unwrap() };
        for after in [None, time(0.1, 0.0, 1.0), time(10.0, 2.0, 100.0), Some(more)] {
            assert_eq!(passed(after), BTreeMap::new(), "{after:?}");
        }
        let new = processor_time(&before, &[history("h3", time(14.0, 2.0, 105.0))]);
        assert_eq!(new, BTreeMap::new());

        let seen =
            Observed { processors: counted, ..observed(&[("cpu_busy_percent", &[98.0; 3])]) };
        let peer = PeerTime { cores: 2, ..PeerTime::default() };
        let time = TransferTime { target: vec![peer], ..TransferTime::default() };
        for series in [seen.series.clone(), Vec::new()] {
            let all = cpu(&[Observed { series, ..seen.clone() }], &time, ["lab", "hpc"]);
            let [(name, cpu)] = all.iter().collect::<Vec<_>>()[..] else { panic!("{all:?}") };
            assert_eq!((name.as_str(), cpu.cores), ("hpc/h1", Some(2)));
            assert_eq!((cpu.busy_s, cpu.available_s), (Some(4.0), Some(5.0)));
        }
        let sampled = Observed { processors: BTreeMap::new(), ..seen };
        assert_eq!(cpu(&[sampled], &time, ["lab", "hpc"])["hpc/h1"].available_s, None);
    }
}
