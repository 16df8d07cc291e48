//! Facts of this host: kernel, processors, memory, cards, disks, mounts, limits, the log.

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::collected::Collected;

/// Settings of the kernel that matter to transfers.
const SYSCTLS: &[&str] = &[
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/core/default_qdisc",
    "net/core/netdev_max_backlog",
    "net/core/somaxconn",
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/ipv4/tcp_congestion_control",
    "net/ipv4/tcp_available_congestion_control",
    "net/ipv4/tcp_mtu_probing",
    "net/ipv4/tcp_slow_start_after_idle",
    "net/ipv4/tcp_sack",
    "net/ipv4/tcp_timestamps",
    "net/ipv4/ip_local_port_range",
    "vm/dirty_ratio",
    "vm/dirty_background_ratio",
    "vm/dirty_bytes",
    "vm/dirty_background_bytes",
    "vm/swappiness",
    "vm/overcommit_memory",
    "fs/file-max",
    "fs/nr_open",
    "kernel/pid_max",
    "kernel/threads-max",
];
/// Longest time that the log may take.
const LOG_MAX: Duration = Duration::from_secs(10);
/// Interval at which its end is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// Lines of the log that are taken, the last ones.
const LOG_LINES: &str = "3000";
/// File systems of the kernel itself: they hold no data.
const KERNEL_FILE_SYSTEMS: &[&str] = &[
    "proc",
    "sysfs",
    "cgroup",
    "cgroup2",
    "devpts",
    "securityfs",
    "debugfs",
    "tracefs",
    "mqueue",
    "pstore",
    "bpf",
    "configfs",
    "fusectl",
    "hugetlbfs",
    "autofs",
    "binfmt_misc",
    "nsfs",
];

/// Adds the facts of the host.
pub(super) fn add(collected: &mut Collected) {
    let mut text = String::new();
    kernel(&mut text);
    section(&mut text, "memory", &lines_of("/proc/meminfo", 5));
    section(&mut text, "load", &read("/proc/loadavg"));
    section(&mut text, "pressure", &pressure());
    section(&mut text, "control group", &control_group());
    section(&mut text, "limits of this process", &read("/proc/self/limits"));
    collected.add("host.txt", "kernel, processors, memory, limits", text);
    let mut text = String::new();
    section(&mut text, "cards", &cards());
    section(&mut text, "disks", &disks());
    section(&mut text, "mounts", &mounts());
    collected.add("devices.txt", "network cards, disks, mounted file systems", text);
    let value = |name: &&str| {
        let value = read(&format!("/proc/sys/{name}"));
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        (!value.is_empty()).then(|| format!("{} = {value}\n", name.replace('/', ".")))
    };
    let text = SYSCTLS.iter().filter_map(value).collect();
    collected.add("sysctl.txt", "settings of the kernel that matter", text);
    match log() {
        Ok(text) if !text.trim().is_empty() => {
            collected.add_items(
                "log.txt",
                "last lines of the daemon's log, from the journal",
                text,
            );
        }
        Ok(_) => collected.lack("log.txt", "the journal has no lines of the daemon"),
        Err(why) => collected.lack("log.txt", why),
    }
}

fn section(out: &mut String, title: &str, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "== {title}\n{}\n", text.trim_end());
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn lines_of(path: &str, most: usize) -> String {
    read(path).lines().take(most).collect::<Vec<_>>().join("\n")
}

fn kernel(out: &mut String) {
    let uname = rustix::system::uname();
    let texts = [uname.sysname(), uname.nodename(), uname.release(), uname.machine()];
    let texts = texts.map(|text| text.to_string_lossy().into_owned());
    section(out, "kernel", &texts.join(" "));
    let release = read("/etc/os-release");
    let name = release.lines().find(|line| line.starts_with("PRETTY_NAME=")).unwrap_or_default();
    section(out, "distribution", name);
    let info = read("/proc/cpuinfo");
    let model = info.lines().find(|line| line.starts_with("model name")).unwrap_or_default();
    let model = model.split(':').nth(1).unwrap_or_default().trim();
    let flags = info.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    let known = ["aes", "vaes", "avx2", "avx512f", "sha_ni", "pclmulqdq", "hypervisor"];
    let flags = flags.split_whitespace().filter(|flag| known.contains(flag));
    let flags = flags.collect::<Vec<_>>().join(" ");
    let count = penstock_sys::available_cpus();
    section(out, "processors", &format!("{count} usable: {model}\n{flags}"));
    let clock = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let uptime = read("/proc/uptime");
    section(out, "clock", &format!("{}\nuptime {} s", clock.trim(), uptime.trim()));
}

fn pressure() -> String {
    let one = |name| {
        let lines = read(&format!("/proc/pressure/{name}"));
        lines.lines().map(|line| format!("{name} {line}")).collect::<Vec<_>>().join("\n")
    };
    ["cpu", "memory", "io"].map(one).join("\n")
}

fn control_group() -> String {
    let group = read("/proc/self/cgroup");
    let path = group.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    let one = |name: &str| {
        let value = read(&format!("/sys/fs/cgroup{path}/{name}"));
        if value.is_empty() { String::new() } else { format!("{name} {}\n", value.trim()) }
    };
    ["memory.max", "memory.high", "cpu.max", "pids.max", "io.max"].map(one).concat()
}

/// Returns the names in a directory of the kernel, in order.
fn names_in(path: &str) -> Vec<String> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn values_of(directory: &str, names: &[&str]) -> String {
    let values = names.iter().map(|name| {
        let value = read(&format!("{directory}/{name}"));
        let name = Path::new(name).file_name().unwrap_or_default().to_string_lossy();
        (!value.trim().is_empty()).then(|| format!("{name} {}", value.trim()))
    });
    values.flatten().collect::<Vec<_>>().join(", ")
}

fn cards() -> String {
    let addresses = penstock_sys::interface_addresses().unwrap_or_default();
    let card = |name: String| {
        let directory = format!("/sys/class/net/{name}");
        let driver = fs::read_link(format!("{directory}/device/driver")).ok();
        let driver = driver.as_ref().and_then(|path| path.file_name());
        let driver = driver.map(|driver| format!(", driver {}", driver.to_string_lossy()));
        let own = addresses.iter().filter(|address| address.device == name);
        let own: String = own.map(|address| format!(", {}", address.address)).collect();
        let counters = ["rx_dropped", "rx_errors", "tx_dropped", "tx_errors", "rx_missed_errors"]
            .map(|counter| format!("statistics/{counter}"));
        let counters = values_of(&directory, &counters.each_ref().map(String::as_str));
        let facts = values_of(&directory, &["operstate", "speed", "mtu", "tx_queue_len"]);
        format!("{name}: {facts}{}{own}\n    {counters}", driver.unwrap_or_default())
    };
    names_in("/sys/class/net").into_iter().map(card).collect::<Vec<_>>().join("\n")
}

fn disks() -> String {
    let is_real = |name: &String| !name.starts_with("loop") && !name.starts_with("ram");
    let disk = |name: String| {
        let directory = format!("/sys/block/{name}");
        let facts = [
            "size",
            "device/model",
            "queue/rotational",
            "queue/scheduler",
            "queue/nr_requests",
            "queue/read_ahead_kb",
        ];
        format!("{name}: {}", values_of(&directory, &facts))
    };
    let names = names_in("/sys/block").into_iter().filter(is_real);
    names.map(disk).collect::<Vec<_>>().join("\n")
}

fn mounts() -> String {
    let is_of_kernel = |line: &&str| {
        line.split(' ').nth(2).is_some_and(|kind| KERNEL_FILE_SYSTEMS.contains(&kind))
    };
    let table = read("/proc/self/mounts");
    table.lines().filter(|line| !is_of_kernel(line)).collect::<Vec<_>>().join("\n")
}

/// Returns the last lines of the daemon's log from the journal. Blocks for some seconds at most.
///
/// # Errors
/// There is no journal, or it does not answer in time: the reason, in words.
fn log() -> Result<String, String> {
    let mut command = Command::new("journalctl");
    command.args(["--no-pager", "--output=short-iso", "--lines", LOG_LINES]);
    command.args(["--unit=penstock*"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("cannot run journalctl: {error}"))?;
    let Some(mut out) = child.stdout.take() else { return Ok(String::new()) };
    let reader = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is worth showing.
        let _ = out.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    });
    let until = Instant::now() + LOG_MAX;
    let ended = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK),
            _ => break None,
        }
    };
    if ended.is_none() {
        // It may have ended meanwhile.
        let _ = child.kill();
        let _ = child.wait();
    }
    let text = reader.join().unwrap_or_default();
    match ended {
        Some(status) if status.success() || !text.is_empty() => Ok(text),
        Some(status) => Err(format!("journalctl ended with {status}")),
        None => Err(format!("journalctl has not ended after {} s", LOG_MAX.as_secs())),
    }
}
