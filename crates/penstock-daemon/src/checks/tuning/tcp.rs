//! TCP: buffers, congestion control, cached metrics, the backlog of processors.

use penstock_api::operate::{Finding, Level};
use penstock_proto::units::{format_bytes, format_rate};

use super::host::{FAST_MBIT, Host, LANES, note};
use crate::checks::measured::Measured;

/// From this round trip on, a path is over distance.
const FAR_MS: f64 = 10.0;
/// Round trip for which buffers are judged where no transfer has measured a path: across a
/// continent.
const FAR_SECONDS: f64 = 0.1;
/// Buffers that lanes within a room ask for (`net::socket`).
const ROOM_BYTES: u64 = 512 * 1024;
/// Longest round trip of such a path.
const ROOM_SECONDS: f64 = 0.000_25;

/// Buffers that are advised for cards of a speed.
struct Buffers {
    /// Least speed, in Mbit/s.
    from_mbit: u64,
    /// Most bytes that a program may ask for (`rmem_max`, `wmem_max`).
    socket_bytes: u64,
    /// Most bytes that the kernel allocates by itself (`tcp_rmem`, `tcp_wmem`).
    tcp_bytes: u64,
}

/// <https://fasterdata.es.net/host-tuning/linux/>, and for each speed `fasterdata_tuning.py` by its
/// author (<https://github.com/bltierney/fasterdata-tuning>, 2a340e1, October 2025).
const BUFFERS: [Buffers; 3] = [
    Buffers { from_mbit: 100_000, socket_bytes: KERNEL_BYTES, tcp_bytes: 1 << 30 },
    Buffers { from_mbit: 40_000, socket_bytes: 512 << 20, tcp_bytes: 256 << 20 },
    Buffers { from_mbit: 0, socket_bytes: 64 << 20, tcp_bytes: 32 << 20 },
];

/// Most that the kernel takes for a buffer, in bytes.
const KERNEL_BYTES: u64 = (1 << 31) - 1;

/// Returns the advised buffers for a card: bytes that a program may ask for, and bytes that the
/// kernel allocates by itself. For speeds between those of the advice, and beyond, the first lanes
/// of a path decide: their need over [`FAR_SECONDS`], if that is more.
pub(super) fn advised_buffers(speed_mbit: u64) -> (u64, u64) {
    let row = BUFFERS.iter().find(|row| speed_mbit >= row.from_mbit).unwrap_or(&BUFFERS[2]);
    let need = 2.0 * speed_mbit as f64 * 1e6 / 8.0 / LANES as f64 * FAR_SECONDS;
    let tcp_bytes = row.tcp_bytes.max((need as u64).next_power_of_two().min(KERNEL_BYTES));
    (row.socket_bytes.max(tcp_bytes), tcp_bytes)
}

pub(super) fn judge(host: &Host<'_>) -> Vec<Finding> {
    let mut findings = Vec::from_iter(congestion(host));
    for name in ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"] {
        findings.extend(buffer(host, name));
    }
    findings.extend(socket_buffers(host));
    findings.extend(metrics(host));
    findings.extend(backlog(host));
    findings
}

/// <https://fasterdata.es.net/host-tuning/linux/recent-tcp-enhancements/bbr-tcp/>; figures with
/// losses are those of bench/runs/2026-11-22-loss and 2026-11-25-wan-again.
fn congestion(host: &Host<'_>) -> Option<Finding> {
    let code = "congestion";
    let used = host.setting("net.ipv4.tcp_congestion_control")?;
    let there = host.setting("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
    let milliseconds = |path: &Measured| path.rtt.as_secs_f64() * 1000.0;
    let far = host.measured.iter().filter(|path| milliseconds(path) >= FAR_MS);
    let far = far.max_by_key(|path| path.rtt);
    let Some(far) = far.filter(|_| !host.uses_bbr()) else {
        return Some(Finding::ok(code, format!("TCP uses {used}")));
    };
    let action = match there.split(' ').any(|name| name == "bbr") {
        true => "sysctl -w net.ipv4.tcp_congestion_control=bbr, with net.core.default_qdisc=fq",
        false => "modprobe tcp_bbr, then sysctl -w net.ipv4.tcp_congestion_control=bbr",
    };
    let (site, round_trip) = (&far.site, milliseconds(far));
    Some(note(
        code,
        format!("TCP uses {used}; the path to {site} has a round trip of {round_trip:.0} ms"),
        "over distance a single lost packet slows a lane of it down for seconds; bbr hardly minds: \
         of 1 Gbit/s over 90 ms, one lost packet in a thousand leaves CUBIC 132 Mbit/s, BBR 870. \
         What counts is the sender: the source of a transfer",
        action,
    ))
}

/// Returns the most that a socket's buffer grows to by itself: the last of three numbers.
pub(super) fn buffer_max(setting: &str) -> Option<u64> {
    setting.split(' ').next_back()?.parse().ok()
}

/// Returns a setting of three numbers with another last one, which is the most bytes of a buffer.
pub(super) fn with_buffer_max(setting: &str, bytes: u64) -> Option<String> {
    let (rest, _) = setting.rsplit_once(' ')?;
    Some(format!("{rest} {bytes}"))
}

/// Returns the rate of one lane whose buffer grows to `bytes`. Half of a receive buffer is window,
/// by the kernel's default (tcp_adv_win_scale); a send buffer needs about as much beside the
/// payload.
pub(super) fn lane_rate(bytes: u64, round_trip_s: f64) -> f64 {
    bytes as f64 / 2.0 * 8.0 / round_trip_s
}

/// "Increase TCP autotuning buffer limits": <https://fasterdata.es.net/host-tuning/linux/>.
/// Measurements of transfers rank above the speed of a card.
fn buffer(host: &Host<'_>, name: &str) -> Option<Finding> {
    let now = host.setting(name)?;
    let most = buffer_max(now)?;
    let need =
        |path: &Measured| 2.0 * path.rate_bits_per_s / 8.0 / LANES as f64 * path.rtt.as_secs_f64();
    let greatest = host.measured.iter().max_by(|a, b| need(a).total_cmp(&need(b)));
    let Some(path) = greatest else { return Some(buffer_of_card(host, name, most)) };
    let (code, grows) = ("buffers", format!("{name} grows to {}", format_bytes(most)));
    let (need, rtt) = (need(path), path.rtt.as_secs_f64());
    if need <= most as f64 {
        return Some(Finding::ok(code, format!("{grows}: enough for what was measured")));
    }
    if most >= KERNEL_BYTES {
        return Some(Finding::ok(code, format!("{grows}: the kernel takes no more")));
    }
    let wanted = with_buffer_max(now, (need as u64).next_power_of_two().min(KERNEL_BYTES))?;
    Some(Finding::new(
        Level::Warning,
        code,
        format!(
            "{grows}; {} over {:.1} ms to {} by {LANES} lanes needs {} each",
            format_rate(path.rate_bits_per_s),
            rtt * 1000.0,
            path.site,
            format_bytes(need as u64)
        ),
        format!(
            "a lane of {} carries {} at most, so that more lanes are opened than needed",
            path.path,
            format_rate(lane_rate(most, rtt))
        ),
        format!("sysctl -w {name}=\"{wanted}\", and keep it in /etc/sysctl.d"),
    ))
}

/// Judges a buffer where no transfer has measured a path.
fn buffer_of_card(host: &Host<'_>, name: &str, most: u64) -> Finding {
    let (code, speed) = ("buffers", host.speed_mbit() as f64 * 1e6);
    let lanes = (speed / lane_rate(most, FAR_SECONDS)).ceil() as u64;
    let what = format!(
        "{name} grows to {}: one lane carries {} at 10 ms, {} at 100 ms",
        format_bytes(most),
        format_rate(lane_rate(most, 0.01)),
        format_rate(lane_rate(most, FAR_SECONDS))
    );
    if lanes <= LANES {
        return Finding::ok(code, format!("{what}; no transfer has measured a path yet"));
    }
    let (_, advised) = advised_buffers(host.speed_mbit());
    note(
        code,
        format!("{what}; advised for {}: {}", format_rate(speed), format_bytes(advised)),
        format!(
            "over 100 ms this card needs {lanes} lanes then, not the {LANES} that a path begins \
             with: the others come by and by, and many lanes cost more CPU (256 of them a third \
             more than 2). Near paths gain nothing"
        ),
        "penstock doctor --write-sysctl",
    )
}

/// "Allow TCP with buffers up to …": the same page. Lanes ask for buffers within a room only, so
/// that these limits do not bind them over distance (`net::socket`).
fn socket_buffers(host: &Host<'_>) -> Option<Finding> {
    let code = "socket-buffers";
    let names = ["net.core.rmem_max", "net.core.wmem_max"];
    let least = names.iter().filter_map(|name| host.number(name)).min()?;
    let (advised, _) = advised_buffers(host.speed_mbit());
    let what = format!(
        "rmem_max and wmem_max are {} or more; advised: {}",
        format_bytes(least),
        format_bytes(advised)
    );
    if least >= ROOM_BYTES || host.speed_mbit() < FAST_MBIT {
        let why = "which gains nothing: lanes leave their buffers to the kernel over distance, and \
                   ask for 512 KiB within a room";
        return Some(Finding::ok(code, format!("{what}, {why}")));
    }
    Some(note(
        code,
        what,
        format!(
            "lanes within a room ask for 512 KiB; with this each carries {} at most over 0.25 ms, \
             and more lanes are opened. A daemon with CAP_NET_ADMIN is not bound by it",
            format_rate(lane_rate(2 * least, ROOM_SECONDS))
        ),
        "penstock doctor --write-sysctl",
    ))
}

/// "Don't cache TCP metrics from previous connection": the same page. From Linux 5.6 on the one
/// that harms, the threshold of slow start, is not kept by default (ip-sysctl.rst).
fn metrics(host: &Host<'_>) -> Option<Finding> {
    let (code, name) = ("tcp-metrics", "net.ipv4.tcp_no_metrics_save");
    if host.number(name)? != 0 {
        return Some(Finding::ok(code, format!("{name} is 1")));
    }
    if host.number("net.ipv4.tcp_no_ssthresh_metrics_save") == Some(1) {
        let what = format!(
            "{name} is 0; advised: 1, which gains nothing: this kernel does not keep the threshold \
             of slow start"
        );
        return Some(Finding::ok(code, what));
    }
    Some(note(
        code,
        format!("{name} is 0; advised: 1"),
        "after a lane has lost packets, the next lanes to that host leave slow start as early. Not \
         measured here",
        "penstock doctor --write-sysctl",
    ))
}

/// Checks `netdev_max_backlog`: the older advice was 30,000 and 250,000; today's page has none for
/// Linux 5 and later. Packets that were dropped decide.
fn backlog(host: &Host<'_>) -> Option<Finding> {
    let (code, name) = ("backlog", "net.core.netdev_max_backlog");
    let value = host.number(name)?;
    let dropped = host.tuning.backlog_dropped;
    if dropped == 0 {
        let what = format!("{name} is {value}; no packet was dropped for it: more gains nothing");
        return Some(Finding::ok(code, what));
    }
    Some(note(
        code,
        format!("{name} is {value}; {dropped} packets were dropped as that many waited"),
        "each is a lost packet, for which TCP slows down",
        "penstock doctor --write-sysctl; look at `interrupts` too: one processor takes in too much",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_sys::{CardTuning, HostTuning};
    use std::time::Duration;

    fn path(rtt_ms: u64, rate_bits_per_s: f64) -> Measured {
        let (site, path) = ("hpc".parse().unwrap(), "a to b".to_owned());
        Measured { site, path, rtt: Duration::from_millis(rtt_ms), rate_bits_per_s }
    }

    fn tuning(speed_mbit: u64, settings: &[(&str, &str)]) -> HostTuning {
        let card =
            CardTuning { running: true, speed_mbit: Some(speed_mbit), ..CardTuning::default() };
        let settings =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        HostTuning { settings: settings.collect(), cards: vec![card], ..HostTuning::default() }
    }

    fn found(tuning: &HostTuning, measured: &[Measured], code: &str) -> Vec<Finding> {
        let host = Host { tuning, devices: &[], cpus: &[], measured };
        judge(&host).into_iter().filter(|found| found.code == code).collect()
    }

    const STOCK: (&str, &str) = ("net.ipv4.tcp_rmem", "4096 131072 6291456");

    /// Promise: buffers are judged by measured paths: 100 Gbit/s over 90 ms by eight lanes needs
    /// 281 MB each. A path within a room needs no larger buffers.
    #[test]
    fn buffers_are_judged_by_what_was_measured() {
        let tuning = tuning(100_000, &[STOCK]);
        let far = &found(&tuning, &[path(1, 1e10), path(90, 1e11)], "buffers")[0];
        assert_eq!(far.level, Level::Warning);
        assert!(far.action.contains("4096 131072 536870912"), "{}", far.action);
        let near = &found(&tuning, &[path(1, 1e10)], "buffers")[0];
        assert_eq!(near.level, Level::Ok);
    }

    /// Promise: an advised buffer is one that the kernel takes, and keeps the other two numbers of
    /// the host; a host that has the greatest buffer already needs nothing.
    #[test]
    fn an_advised_buffer_is_one_that_the_kernel_takes() {
        let path = [path(100, 4e11)];
        let stock = tuning(400_000, &[("net.ipv4.tcp_wmem", "4096 16384 4194304")]);
        let far = &found(&stock, &path, "buffers")[0];
        assert_eq!(far.level, Level::Warning);
        let command = "sysctl -w net.ipv4.tcp_wmem=\"4096 16384 2147483647\"";
        assert!(far.action.contains(command), "{}", far.action);
        let full = tuning(400_000, &[("net.ipv4.tcp_wmem", "4096 16384 2147483647")]);
        assert_eq!(found(&full, &path, "buffers")[0].level, Level::Ok);
    }

    /// Promise: before a transfer has measured a path, buffers are judged by the card, and the
    /// advice for its speed is enough for the first lanes of a path.
    #[test]
    fn buffers_are_judged_by_the_card() {
        let level = |speed, most: u64| {
            let value = format!("4096 131072 {most}");
            found(&tuning(speed, &[("net.ipv4.tcp_rmem", &value)]), &[], "buffers")[0].clone()
        };
        assert_eq!(level(1_000, 6 << 20).level, Level::Ok);
        let stock = level(10_000, 6 << 20);
        assert_eq!(stock.level, Level::Note);
        assert!(
            stock.what.contains("32.0 MiB") && stock.why.contains("needs 40 lanes"),
            "{stock:?}"
        );
        assert_eq!(level(100_000, 16 << 20).level, Level::Note);
        assert_eq!(level(0, 4096).level, Level::Ok);
        for speed in [1_000, 10_000, 25_000, 40_000, 100_000, 400_000] {
            let (_, advised) = advised_buffers(speed);
            assert_eq!(level(speed, advised).level, Level::Ok, "{speed}");
        }
        assert_eq!(advised_buffers(25_000), (128 << 20, 128 << 20));
    }

    /// Promise (E40): other settings are judged by their use in this program and by counted losses.
    #[test]
    fn e40_settings_are_judged() {
        let far = [path(90, 1e9)];
        let (cc, there) =
            ("net.ipv4.tcp_congestion_control", "net.ipv4.tcp_available_congestion_control");
        let (saved, early) =
            ("net.ipv4.tcp_no_metrics_save", "net.ipv4.tcp_no_ssthresh_metrics_save");
        let (rmem, wmem) = ("net.core.rmem_max", "net.core.wmem_max");
        type Row<'a> = (u64, &'a [(&'a str, &'a str)], &'a [Measured], &'a str, Level, &'a str);
        let table: [Row<'_>; 10] = [
            (1, &[(cc, "cubic")], &[], "congestion", Level::Ok, "cubic"),
            (
                1,
                &[(cc, "cubic"), (there, "reno cubic")],
                &far,
                "congestion",
                Level::Note,
                "modprobe",
            ),
            (1, &[(cc, "cubic"), (there, "bbr cubic")], &far, "congestion", Level::Note, "870"),
            (1, &[(cc, "bbr")], &far, "congestion", Level::Ok, "bbr"),
            (
                100_000,
                &[(rmem, "4194304"), (wmem, "212992")],
                &[],
                "socket-buffers",
                Level::Note,
                "208.0 KiB",
            ),
            (10_000, &[(rmem, "212992")], &[], "socket-buffers", Level::Ok, "gains nothing"),
            (100_000, &[(rmem, "4194304")], &[], "socket-buffers", Level::Ok, "gains nothing"),
            (1, &[(saved, "1")], &[], "tcp-metrics", Level::Ok, "is 1"),
            (1, &[(saved, "0"), (early, "1")], &[], "tcp-metrics", Level::Ok, "gains nothing"),
            (1, &[(saved, "0")], &[], "tcp-metrics", Level::Note, "advised: 1"),
        ];
        for (number, (speed, settings, measured, code, level, words)) in
            table.into_iter().enumerate()
        {
            let [found] = &found(&tuning(speed, settings), measured, code)[..] else {
                panic!("{number}")
            };
            assert_eq!(found.level, level, "{number}: {found:?}");
            let text = format!("{} {} {}", found.what, found.why, found.action);
            assert!(text.contains(words), "{number}: {text}");
        }
        let mut tuning = tuning(1, &[("net.core.netdev_max_backlog", "1000")]);
        assert_eq!(found(&tuning, &[], "backlog")[0].level, Level::Ok);
        tuning.backlog_dropped = 9;
        assert_eq!(found(&tuning, &[], "backlog")[0].level, Level::Note);
    }
}
