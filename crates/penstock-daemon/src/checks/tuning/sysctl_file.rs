//! A file of settings for sysctl(8) that suits a host which moves data.

use aws_lc_rs::digest::SHA256;
use data_encoding::HEXLOWER;
use penstock_proto::units::{format_bytes, format_rate};
use penstock_sys::HostTuning;

use super::host::{Host, LANES};
use super::tcp::{advised_buffers, buffer_max, lane_rate, with_buffer_max};

/// Begin of the first line of a file that this program wrote; a digest of the others follows.
const MARK: &str = "# Written by `penstock doctor --write-sysctl`; digest of all below: ";
/// Digits of that digest, of the 64 of SHA-256; packaging/deb/postrm computes them too.
const DIGITS: usize = 32;
/// Least backlog that is written where packets were dropped.
const BACKLOG: u64 = 30_000;
const ABOUT: &str = "\
# Settings for a host that moves data, as fasterdata.es.net advises them. A setting behind a #
# gains Penstock nothing here: remove the # for the sake of other programs. Values that are
# already higher on this host are kept. --write-sysctl replaces this file unless you change it.
";

/// A setting of the file.
struct Setting {
    name: &'static str,
    value: String,
    comment: String,
    /// True if it takes effect; else it is there for the reader.
    in_force: bool,
}

/// A file of settings, for `/etc/sysctl.d` (sysctl.d(5)).
pub struct SysctlFile {
    settings: Vec<Setting>,
}

impl SysctlFile {
    /// Makes the file for a host whose interfaces for data are `devices`; empty for all cards. The
    /// same host has the same file, also after its settings were loaded.
    #[must_use]
    pub fn new(tuning: &HostTuning, devices: &[String]) -> Self {
        let host = Host { tuning, devices, cpus: &[], measured: &[] };
        let all = [
            buffer(&host, "net.ipv4.tcp_rmem", "received and not read"),
            buffer(&host, "net.ipv4.tcp_wmem", "sent and not acknowledged"),
            socket_buffer(&host, "net.core.rmem_max"),
            socket_buffer(&host, "net.core.wmem_max"),
            mtu_probing(&host),
            metrics(&host),
            backlog(&host),
            queue(&host),
            congestion(&host),
        ];
        Self { settings: all.into_iter().flatten().collect() }
    }

    /// Returns how many settings take effect.
    #[must_use]
    pub fn in_force(&self) -> usize {
        self.settings.iter().filter(|setting| setting.in_force).count()
    }

    /// Returns the text of the file, which [`Self::is_unchanged`] knows.
    #[must_use]
    pub fn text(&self) -> String {
        let mut below = ABOUT.to_owned();
        for Setting { name, value, comment, in_force } in &self.settings {
            let mark = if *in_force { "" } else { "#" };
            below += &format!("\n{}\n{mark}{name} = {value}\n", commented(comment));
        }
        format!("{MARK}{}\n{below}", digest(&below))
    }

    /// Returns whether a text is one that this program wrote, without a later change.
    #[must_use]
    pub fn is_unchanged(text: &str) -> bool {
        let rest = text.strip_prefix(MARK).and_then(|rest| rest.split_once('\n'));
        rest.is_some_and(|(said, below)| said == digest(below))
    }
}

fn digest(text: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&SHA256, text.as_bytes());
    HEXLOWER.encode(&digest.as_ref()[..DIGITS / 2])
}

/// Breaks a comment into lines of 78 columns.
fn commented(text: &str) -> String {
    const COLUMNS: usize = 78;
    let mut lines = vec!["#".to_owned()];
    for word in text.split(' ') {
        let line = lines.last_mut().filter(|line| line.len() + word.len() < COLUMNS);
        match line {
            Some(line) => *line += &format!(" {word}"),
            None => lines.push(format!("# {word}")),
        }
    }
    lines.join("\n")
}

fn buffer(host: &Host<'_>, name: &'static str, holds: &str) -> Option<Setting> {
    let now = host.setting(name)?;
    let most = buffer_max(now)?;
    let (_, advised) = advised_buffers(host.speed_mbit());
    let wanted = advised.max(most);
    let rate = |bytes| format_rate(lane_rate(bytes, 0.1));
    let comment = format!(
        "Most that is {holds}, of each connection. With {} a lane carries {} over 100 ms; a path \
         begins with {LANES} lanes. (fasterdata.es.net/host-tuning/linux)",
        format_bytes(wanted),
        rate(wanted)
    );
    Some(Setting { name, value: with_buffer_max(now, wanted)?, comment, in_force: true })
}

fn socket_buffer(host: &Host<'_>, name: &'static str) -> Option<Setting> {
    let now = host.number(name)?;
    let (advised, _) = advised_buffers(host.speed_mbit());
    let comment = "Most that a program may ask for. Lanes ask for 512 KiB within a room and for \
                   nothing over distance; iperf3 -w and others ask for more. \
                   (fasterdata.es.net/host-tuning/linux)";
    let (value, comment) = (advised.max(now).to_string(), comment.to_owned());
    Some(Setting { name, value, comment, in_force: true })
}

fn mtu_probing(host: &Host<'_>) -> Option<Setting> {
    let name = "net.ipv4.tcp_mtu_probing";
    let now = host.number(name)?;
    let has_jumbo = host.cards().iter().any(|card| card.mtu > 1500);
    let comment = "With jumbo frames: TCP finds the size that passes where a router's message of \
                   too large packets is filtered. (fasterdata.es.net/network-tuning/mtu-issues)";
    let (value, comment) = (now.max(1).to_string(), comment.to_owned());
    Some(Setting { name, value, comment, in_force: has_jumbo || now > 0 })
}

fn metrics(host: &Host<'_>) -> Option<Setting> {
    let name = "net.ipv4.tcp_no_metrics_save";
    let now = host.number(name)?;
    let forgets = host.number("net.ipv4.tcp_no_ssthresh_metrics_save") == Some(1);
    let comment = "Connections do not begin with what earlier ones to the same host had lost; from \
                   Linux 5.6 on they do not anyway. (fasterdata.es.net/host-tuning/linux)";
    let (value, comment) = ("1".to_owned(), comment.to_owned());
    Some(Setting { name, value, comment, in_force: now == 1 || !forgets })
}

fn backlog(host: &Host<'_>) -> Option<Setting> {
    let name = "net.core.netdev_max_backlog";
    let now = host.number(name)?;
    let dropped = host.tuning.backlog_dropped;
    let comment = format!(
        "Packets that may wait for a processor. {dropped} were dropped since the boot as the queue \
         was full; with 0 a longer one gains nothing."
    );
    let in_force = dropped > 0 || now >= BACKLOG;
    Some(Setting { name, value: now.max(BACKLOG).to_string(), comment, in_force })
}

fn queue(host: &Host<'_>) -> Option<Setting> {
    let name = "net.core.default_qdisc";
    let now = host.setting(name)?;
    let comment = "Cards that come up from now on spread out what a flow sends. BBR does so by \
                   itself; with CUBIC it helps where bursts are dropped. `tc qdisc replace dev \
                   DEVICE root fq` does it for a card that is up. \
                   (fasterdata.es.net/host-tuning/packet-pacing)";
    let (value, comment) = ("fq".to_owned(), comment.to_owned());
    Some(Setting { name, value, comment, in_force: now == "fq" || !host.uses_bbr() })
}

fn congestion(host: &Host<'_>) -> Option<Setting> {
    let name = "net.ipv4.tcp_congestion_control";
    let now = host.setting(name)?;
    let comment = "Over distance with lost packets: of 1 Gbit/s over 90 ms with one lost in a \
                   thousand CUBIC keeps 132 Mbit/s and BBR 870. It changes all programs of this \
                   host, and counts at the source of a transfer. (docs/performance.md)";
    let (value, comment) = ("bbr".to_owned(), comment.to_owned());
    Some(Setting { name, value, comment, in_force: now == "bbr" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_sys::{CardTuning, TUNED_SETTINGS};

    fn tuning(speed_mbit: u64, mtu: u32, settings: &[(&str, &str)]) -> HostTuning {
        let card = CardTuning {
            running: true,
            speed_mbit: Some(speed_mbit),
            mtu,
            ..CardTuning::default()
        };
        let settings =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        HostTuning { settings: settings.collect(), cards: vec![card], ..HostTuning::default() }
    }

    const STOCK: [(&str, &str); 10] = [
        ("net.core.default_qdisc", "pfifo_fast"),
        ("net.core.netdev_max_backlog", "1000"),
        ("net.core.rmem_max", "212992"),
        ("net.core.wmem_max", "212992"),
        ("net.ipv4.tcp_congestion_control", "cubic"),
        ("net.ipv4.tcp_mtu_probing", "0"),
        ("net.ipv4.tcp_no_metrics_save", "0"),
        ("net.ipv4.tcp_no_ssthresh_metrics_save", "1"),
        ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
        ("net.ipv4.tcp_wmem", "4096 16384 2147483647"),
    ];

    /// Returns the settings of a text, by lines in force.
    fn in_force(text: &str) -> Vec<&str> {
        text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
    }

    /// Promise: the file has the advised values for the card's speed, never less than the host's
    /// present ones. Settings without a gain are only comments. Each line has its reason above it.
    #[test]
    fn the_file_suits_the_host() {
        let file = SysctlFile::new(&tuning(100_000, 9000, &STOCK), &[]);
        let text = file.text();
        assert_eq!(
            in_force(&text),
            [
                "net.ipv4.tcp_rmem = 4096 131072 1073741824",
                "net.ipv4.tcp_wmem = 4096 16384 2147483647",
                "net.core.rmem_max = 2147483647",
                "net.core.wmem_max = 2147483647",
                "net.ipv4.tcp_mtu_probing = 1",
                "net.core.default_qdisc = fq",
            ]
        );
        assert_eq!(file.in_force(), 6);
        for behind in ["tcp_no_metrics_save = 1", "tcp_congestion_control = bbr"] {
            assert!(text.contains(&format!("#net.ipv4.{behind}")), "{text}");
        }
        let lines: Vec<_> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            assert!(line.len() <= 100, "{line}");
            let is_setting = line.trim_start_matches('#').starts_with("net.");
            assert!(!is_setting || lines[number - 1].starts_with("# "), "{line}");
        }
        let slow = SysctlFile::new(&tuning(10_000, 1500, &STOCK), &[]).text();
        assert!(slow.contains("\nnet.ipv4.tcp_rmem = 4096 131072 33554432\n"), "{slow}");
        assert!(slow.contains("\n#net.ipv4.tcp_mtu_probing = 1\n"), "{slow}");
    }

    /// Promise: a file never lowers how TCP probes for the size of packets.
    #[test]
    fn probing_for_the_size_of_packets_is_kept() {
        for mtu in [1500, 9000] {
            let settings = [("net.ipv4.tcp_mtu_probing", "2")];
            let text = SysctlFile::new(&tuning(100_000, mtu, &settings), &[]).text();
            assert_eq!(in_force(&text), ["net.ipv4.tcp_mtu_probing = 2"], "{mtu}");
        }
    }

    /// Promise: once its settings are loaded, a host has the same file again.
    #[test]
    fn a_loaded_file_is_the_same_again() {
        let mut host = tuning(40_000, 9000, &STOCK);
        let first = SysctlFile::new(&host, &[]).text();
        for line in in_force(&first) {
            let (name, value) = line.split_once(" = ").unwrap();
            assert!(TUNED_SETTINGS.contains(&name));
            host.settings.insert(name.to_owned(), value.to_owned());
        }
        assert_eq!(in_force(&SysctlFile::new(&host, &[]).text()), in_force(&first));
    }

    /// Promise (E41): an unchanged own file is recognized, and no other text is.
    #[test]
    fn e41_a_file_knows_who_wrote_it() {
        let text = SysctlFile::new(&tuning(10_000, 1500, &STOCK), &[]).text();
        assert!(SysctlFile::is_unchanged(&text));
        let changed = text.replace("33554432", "67108864");
        for other in
            ["", "net.core.rmem_max = 1\n", MARK, &changed, &text[1..], &(text.clone() + "\n")]
        {
            assert!(!SysctlFile::is_unchanged(other), "{other}");
        }
        assert_eq!(SysctlFile::new(&HostTuning::default(), &[]).in_force(), 0);
    }
}
