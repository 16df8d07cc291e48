//! The host: clock, limits, kernel.

use std::fs;

use penstock_api::operate::{Finding, Level};

/// Files that a peer with a full house has open: lanes, files in progress, and room for both sides.
const FILES_WANTED: u64 = 65_536;
/// Below this, transfers fail.
const FILES_LEAST: u64 = 4096;

/// Returns the load average over one minute; 0 if it cannot be read.
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

/// Features that a kernel of each version lacks.
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
