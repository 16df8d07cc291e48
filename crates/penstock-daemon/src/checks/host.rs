//! The host: clock, limits, kernel, TCP.

use std::fs;

use penstock_api::operate::{Finding, Level};
use penstock_proto::units::format_bytes;
use penstock_proto::units::format_rate;

use super::measured::Measured;

/// Files that a peer with a full house has open: lanes, files in progress, and room for both sides.
const FILES_WANTED: u64 = 65_536;
/// Below this, transfers fail.
const FILES_LEAST: u64 = 4096;
/// Lanes that a path over distance begins with (docs/design/0017).
const LANES: f64 = 8.0;
/// From this round trip on, a path is over distance.
const FAR_MS: f64 = 10.0;

/// Load average over one minute; 0 if it cannot be read.
pub(crate) fn host_load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

pub(super) fn clock() -> Finding {
    let code = "clock";
    let why = "certificates, capabilities and the times in receipts and events go by the clock; \
               leases do not";
    match penstock_sys::clock_error() {
        Ok(Some(error)) => Finding::ok(code, format!("the clock is synchronised within {error:?}")),
        Ok(None) => Finding::new(
            Level::Warning,
            code,
            "the kernel reports that the clock is not synchronised",
            why,
            "run chrony, systemd-timesyncd or ptp4l",
        ),
        Err(error) => {
            let what = format!("cannot read the state of the clock from the kernel: {error}");
            Finding::new(Level::Note, code, what, why, "")
        }
    }
}

pub(super) fn open_files() -> Finding {
    let (code, limit) = ("nofile", penstock_sys::raise_file_limit());
    let level = match limit {
        FILES_WANTED.. => return Finding::ok(code, "files that may be open: enough"),
        FILES_LEAST.. => Level::Warning,
        _ => Level::Bad,
    };
    Finding::new(
        level,
        code,
        format!("this process may have {limit} files open (hard limit)"),
        "each lane and each file in progress takes one; beyond the limit lanes are refused",
        format!("LimitNOFILE={FILES_WANTED} in the unit, or `ulimit -Hn {FILES_WANTED}`"),
    )
}

/// What a kernel of each version lacks.
const LACKS: [((u32, u32), Level, &str); 5] = [
    ((4, 18), Level::Bad, "it is older than anything this program is made for"),
    (
        (5, 6),
        Level::Note,
        "openat2 (5.6): paths are resolved component by component, which is slower",
    ),
    ((5, 7), Level::Note, "SO_BINDTODEVICE without CAP_NET_RAW (5.7)"),
    ((5, 8), Level::Warning, "errors from syncfs (5.8): each file is synced separately instead"),
    (
        (6, 8),
        Level::Note,
        "unique mount ids (6.8): a remounted file system may look like the old \
                           one",
    ),
];

pub(super) fn kernel() -> Finding {
    let (code, version) = ("kernel", penstock_sys::kernel_version());
    let lacks: Vec<_> = LACKS.iter().filter(|(since, ..)| version < *since).collect();
    let Some(level) = lacks.iter().map(|(_, level, _)| *level).max() else {
        return Finding::ok(code, format!("Linux {}.{}", version.0, version.1));
    };
    let lacks: Vec<_> = lacks.iter().map(|(_, _, what)| *what).collect();
    Finding::new(
        level,
        code,
        format!("Linux {}.{} lacks: {}", version.0, version.1, lacks.join("; ")),
        "what is lacking is done in another way, slower or with less certainty",
        "a newer kernel, when there is an occasion",
    )
}

fn sysctl(name: &str) -> Option<String> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

pub(super) fn congestion(measured: &[Measured]) -> Option<Finding> {
    let code = "congestion";
    let used = sysctl("net.ipv4.tcp_congestion_control")?;
    let there = sysctl("net.ipv4.tcp_available_congestion_control").unwrap_or_default();
    let far = measured.iter().filter(|path| path.rtt.as_secs_f64() * 1000.0 >= FAR_MS);
    let Some(far) = far.max_by_key(|path| path.rtt) else {
        return Some(Finding::ok(code, format!("TCP uses {used}")));
    };
    if used == "bbr" {
        return Some(Finding::ok(code, "TCP uses bbr"));
    }
    let action = match there.split(' ').any(|name| name == "bbr") {
        true => "sysctl -w net.ipv4.tcp_congestion_control=bbr, with net.core.default_qdisc=fq",
        false => "modprobe tcp_bbr, then sysctl -w net.ipv4.tcp_congestion_control=bbr",
    };
    Some(Finding::new(
        Level::Note,
        code,
        format!(
            "TCP uses {used}; the path to {} has a round trip of {:.0} ms",
            far.site,
            far.rtt.as_secs_f64() * 1000.0
        ),
        "over distance a single lost packet slows a lane of it down for seconds; bbr hardly minds. \
         What counts is the sender: the source of a transfer",
        action,
    ))
}

/// The most that a socket's buffer grows to by itself: the last of three numbers.
fn buffer_most(name: &str) -> Option<u64> {
    sysctl(name)?.split_whitespace().next_back()?.parse().ok()
}

pub(super) fn buffers(measured: &[Measured]) -> Vec<Finding> {
    let names = ["net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"];
    names.iter().filter_map(|name| buffer(name, buffer_most(name)?, measured)).collect()
}

/// Half of a receive buffer is window, by the kernel's default (tcp_adv_win_scale); what is sent
/// needs about as much beside the payload.
fn buffer(name: &str, most: u64, measured: &[Measured]) -> Option<Finding> {
    let code = "buffers";
    let need = |path: &Measured| 2.0 * path.rate_bits_per_s / 8.0 / LANES * path.rtt.as_secs_f64();
    let greatest = measured.iter().max_by(|a, b| need(a).total_cmp(&need(b)));
    let one_lane = |seconds: f64| format_rate(most as f64 / 2.0 * 8.0 / seconds);
    let Some(path) = greatest else {
        let what = format!(
            "{name} grows to {}: one lane carries {} at 10 ms, {} at 100 ms; no transfer has \
             measured a path yet",
            format_bytes(most),
            one_lane(0.01),
            one_lane(0.1)
        );
        return Some(Finding::ok(code, what));
    };
    let (need, rtt) = (need(path), path.rtt.as_secs_f64());
    if need <= most as f64 {
        let what = format!("{name} grows to {}: enough for what was measured", format_bytes(most));
        return Some(Finding::ok(code, what));
    }
    let wanted = (need as u64).next_power_of_two();
    Some(Finding::new(
        Level::Warning,
        code,
        format!(
            "{name} grows to {}; {} over {:.1} ms to {} by {LANES} lanes needs {} each",
            format_bytes(most),
            format_rate(path.rate_bits_per_s),
            rtt * 1000.0,
            path.site,
            format_bytes(need as u64)
        ),
        format!(
            "a lane of {} carries {} at most, so that more lanes are opened than needed",
            path.path,
            one_lane(rtt)
        ),
        format!("sysctl -w {name}=\"4096 131072 {wanted}\", and keep it in /etc/sysctl.d"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn path(rtt_ms: u64, rate_bits_per_s: f64) -> Measured {
        let (site, path) = ("hpc".parse().unwrap(), "a to b".to_owned());
        Measured { site, path, rtt: Duration::from_millis(rtt_ms), rate_bits_per_s }
    }

    /// Promise: buffers are judged by what was measured: 100 Gbit/s over 90 ms by eight lanes needs
    /// 281 MB each; a path within a room needs nothing that is not there.
    #[test]
    fn buffers_are_judged_by_what_was_measured() {
        let far = buffer("net.ipv4.tcp_rmem", 6 << 20, &[path(1, 1e10), path(90, 1e11)]).unwrap();
        assert_eq!(far.level, Level::Warning);
        assert!(far.action.contains("4096 131072 536870912"), "{}", far.action);
        let near = buffer("net.ipv4.tcp_rmem", 6 << 20, &[path(1, 1e10)]).unwrap();
        assert_eq!(near.level, Level::Ok);
        assert_eq!(buffer("net.ipv4.tcp_rmem", 6 << 20, &[]).unwrap().level, Level::Ok);
    }
}
