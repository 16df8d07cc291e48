//! `penstock transfer show --stats` and `penstock peer stats`: how figures were spread over time.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use penstock_api::endpoints::{GET_SERIES, GET_STATISTICS, SHOW_STATISTICS};
use penstock_api::statistics::{
    CipherEnergy, ColumnSpread, CoreSpread, Energy, POINTS_MAX, PeerHistory, PeerStatistics,
    SiteStatistics, Spread, TransferStatistics,
};
use penstock_api::timestamp::Timestamp;
use penstock_proto::id::Name;
use penstock_proto::units::format_bytes;

use crate::client::Client;
use crate::output::output_file::OutputFile;
use crate::output::table::aligned;
use crate::output::time::utc;
use penstock_exit as exit;
use penstock_sys::now_seconds;

/// Columns of the table: a name, and seven figures.
const COLUMNS: usize = 8;
/// Most processors that are listed.
const CORES_MAX: usize = 32;
/// Steps from a unit to the next greater one.
const DECIMAL: f64 = 1000.0;
const BINARY: f64 = 1024.0;

/// A table, row by row.
type Rows = Vec<[String; COLUMNS]>;

/// The unit of a figure, with what it is called.
enum Unit {
    /// A plain number.
    One(&'static str),
    /// Bits per second.
    Bits(&'static str),
    /// Bytes.
    Bytes(&'static str),
    /// Bytes per second.
    ByteRate(&'static str),
}

/// The figures in the order in which they are shown; others follow under their own names.
const FIGURES: [(&str, Unit); 20] = [
    ("rate_bits_per_s", Unit::Bits("rate")),
    ("lanes", Unit::One("lanes")),
    ("transfers", Unit::One("transfers")),
    ("total_rate_bits_per_s", Unit::Bits("all peers")),
    ("total_lanes", Unit::One("lanes of all")),
    ("peers", Unit::One("peers")),
    ("files_per_s", Unit::One("files, /s")),
    ("cpu_busy_percent", Unit::One("processors, %")),
    ("cpu_busiest_percent", Unit::One("busiest one, %")),
    ("cpu_steal_percent", Unit::One("stolen, %")),
    ("cpu_guest_percent", Unit::One("guests, %")),
    ("cpu_iowait_percent", Unit::One("disk waits, %")),
    ("memory_used_bytes", Unit::Bytes("memory used")),
    ("memory_daemon_bytes", Unit::Bytes("its memory")),
    ("cards_in_bits_per_s", Unit::Bits("cards in")),
    ("cards_out_bits_per_s", Unit::Bits("cards out")),
    ("disks_read_bytes_per_s", Unit::ByteRate("disks read")),
    ("disks_written_bytes_per_s", Unit::ByteRate("disks write")),
    ("package_watts", Unit::One("processors, W")),
    ("dram_watts", Unit::One("memory, W")),
];

/// Prints the statistics of a transfer, for people or as JSON.
///
/// # Errors
/// No daemon answers, or what it answers.
pub(crate) fn show(client: &Client, id: &str, json: bool) -> anyhow::Result<()> {
    let view: TransferStatistics = client.get(&GET_STATISTICS.uri(&[&id]))?;
    if json {
        exit::print(&serde_json::to_string(&view)?)?;
        return Ok(());
    }
    warn_of(&view.silent);
    if let Some(why) = no_figures(view.peers.is_empty(), &view.silent) {
        exit::warn(why);
    }
    let texts: Vec<String> = view.peers.iter().map(text_of).collect();
    if !texts.is_empty() {
        exit::print(&texts.join("\n\n"))?;
    }
    Ok(())
}

/// Writes the series of a transfer to a file, as CSV. Warns of peers whose part is missing.
///
/// # Errors
/// No daemon answers, or what it answers; the file cannot be written.
pub(crate) fn write_csv(client: &Client, id: &str, to: &Path) -> anyhow::Result<()> {
    let uri = GET_SERIES.uri(&[&id]).query("format", "csv").query("points", POINTS_MAX);
    OutputFile::open(to)?.write(&AtomicBool::new(false), |out| {
        let mut counted = Counted { out, lines: 0 };
        let silent = client.get_table_into(&uri, &mut counted)?;
        warn_of(&silent);
        // The first one has the names of the columns.
        if let Some(why) = no_figures(counted.lines <= 1, &silent) {
            exit::warn(why);
        }
        Ok(())
    })
}

/// Returns what the absence of figures means; `None` if there are some, or if a peer that did not
/// answer may have them.
fn no_figures(is_empty: bool, silent: &[Name]) -> Option<&'static str> {
    (is_empty && silent.is_empty()).then_some(
        "no peer of this site has figures of the transfer: it has not run for a whole second here, \
         or that was too long ago",
    )
}

/// A writer that counts the lines that go through it.
struct Counted<'a> {
    out: &'a mut dyn Write,
    lines: usize,
}

impl Write for Counted<'_> {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        let written = self.out.write(part)?;
        self.lines += part[..written].iter().filter(|byte| **byte == b'\n').count();
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Prints the statistics of the peers of the site, or of one, over the last `hours`.
///
/// # Errors
/// No daemon answers, or what it answers.
pub(crate) fn show_peers(
    client: &Client,
    peer: Option<&Name>,
    hours: u32,
    json: bool,
) -> anyhow::Result<()> {
    let since = now_seconds().saturating_sub(u64::from(hours) * 3600);
    let uri = SHOW_STATISTICS.uri(&[]).query("since", Timestamp::of_seconds(since));
    let uri = match peer {
        Some(peer) => uri.query("peer", peer),
        None => uri,
    };
    let view: SiteStatistics = client.get(&uri)?;
    if json {
        exit::print(&serde_json::to_string(&view)?)?;
        return Ok(());
    }
    warn_of(&view.silent);
    let texts: Vec<String> = view.peers.iter().map(history_of).collect();
    exit::print(&texts.join("\n\n"))?;
    Ok(())
}

fn warn_of(silent: &[Name]) {
    for peer in silent {
        exit::warn(&format!("peer `{peer}` did not answer: its part is missing"));
    }
}

/// Returns what is printed of a peer for a transfer.
fn text_of(peer: &PeerStatistics) -> String {
    let from = utc(peer.since.ms());
    let cipher = match peer.cipher.as_str() {
        "" | "none" => String::new(),
        cipher => format!(", {cipher}"),
    };
    let head =
        |seconds| format!("peer {}: {seconds} s from {} UTC{cipher}", peer.peer, &from[..19]);
    part_of(&head, &peer.columns, &peer.cores, &peer.energy)
}

/// Returns what is printed of a peer.
fn history_of(peer: &PeerHistory) -> String {
    let name = &peer.series.peer;
    let head = |seconds| format!("peer {name}: {seconds} s; each processor over the last 10 min");
    part_of(&head, &peer.columns, &peer.cores, &peer.energy)
}

fn part_of(
    head: &dyn Fn(u64) -> String,
    columns: &[ColumnSpread],
    cores: &[CoreSpread],
    energy: &Energy,
) -> String {
    let seconds = columns.iter().map(|column| column.spread.seconds).max().unwrap_or(0);
    let names = ["", "min", "25 %", "median", "75 %", "95 %", "max", "mean"];
    let mut rows: Rows = vec![names.map(str::to_owned)];
    for (name, unit) in &FIGURES {
        let column = columns.iter().find(|column| column.name == *name);
        rows.extend(column.map(|column| row_of(unit, &column.spread)));
    }
    let is_known = |column: &&ColumnSpread| FIGURES.iter().any(|(name, _)| *name == column.name);
    let others = columns.iter().filter(|column| !is_known(column));
    rows.extend(others.map(|column| row(column.name.clone(), &column.spread, 1.0)));
    rows.extend(core_rows(cores));
    let right = std::array::from_fn(|at| at > 0);
    let mut lines = vec![head(seconds), aligned(&rows, &right)];
    if cores.len() > CORES_MAX {
        let more = cores.len() - CORES_MAX;
        lines.push(format!("{more} processors that were less busy: --json lists them"));
    }
    lines.extend(energy_lines(energy));
    lines.join("\n")
}

fn core_rows(cores: &[CoreSpread]) -> Rows {
    let mut shown: Vec<&CoreSpread> = cores.iter().collect();
    shown.sort_by(|a, b| b.busy_percent.mean.total_cmp(&a.busy_percent.mean));
    shown.truncate(CORES_MAX);
    shown.sort_by_key(|core| core.core);
    let row_of = |core: &&CoreSpread| row(format!("CPU {}, %", core.core), &core.busy_percent, 1.0);
    shown.iter().map(row_of).collect()
}

/// Returns the row of a figure, in a unit in which its greatest value has few digits.
fn row_of(unit: &Unit, spread: &Spread) -> [String; COLUMNS] {
    const BITS: [&str; 5] = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
    const BYTES: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let (name, step, units, ending) = match unit {
        Unit::One(name) => return row((*name).to_owned(), spread, 1.0),
        Unit::Bits(name) => (name, DECIMAL, BITS, ""),
        Unit::Bytes(name) => (name, BINARY, BYTES, ""),
        Unit::ByteRate(name) => (name, BINARY, BYTES, "/s"),
    };
    let mut divisor = 1.0;
    let mut units = units.into_iter();
    let mut named = units.next().unwrap_or_default();
    for next in units {
        if spread.max / divisor < step {
            break;
        }
        (divisor, named) = (divisor * step, next);
    }
    row(format!("{name}, {named}{ending}"), spread, divisor)
}

fn row(name: String, spread: &Spread, divisor: f64) -> [String; COLUMNS] {
    let Spread { min, q1, median, q3, p95, max, mean, .. } = *spread;
    let values = [min, q1, median, q3, p95, max, mean].map(|value| short(value / divisor));
    let [min, q1, median, q3, p95, max, mean] = values;
    [name, min, q1, median, q3, p95, max, mean]
}

/// Returns a number with about three digits, in six characters at most.
fn short(value: f64) -> String {
    match value.abs() {
        big if big >= 999_999.5 => format!("{value:.1e}"),
        whole if whole.fract() == 0.0 => format!("{value:.0}"),
        small if small < 10.0 => format!("{value:.2}"),
        medium if medium < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn energy_lines(energy: &Energy) -> Vec<String> {
    if !energy.is_available {
        return vec!["energy: not measurable here".to_owned(), format!("  {}", energy.why)];
    }
    energy.ciphers.iter().flat_map(energy_line).collect()
}

fn energy_line(energy: &CipherEnergy) -> Vec<String> {
    let part = |name: &str, joules: Option<f64>, per_tib: Option<f64>| {
        let joules = joules?;
        let per_tib = per_tib.map(|joules| format!(", {joules:.0} J for each TiB"));
        Some(format!("{name} {joules:.0} J{}", per_tib.unwrap_or_default()))
    };
    let package = part("processors", energy.package_joules, energy.package_joules_per_tib);
    let dram = part("memory", energy.dram_joules, energy.dram_joules_per_tib);
    let parts: Vec<_> = package.into_iter().chain(dram).collect();
    let (cipher, bytes) = (&energy.cipher, format_bytes(energy.bytes));
    let cipher = if cipher.is_empty() { "unknown" } else { cipher };
    let mut lines =
        vec![format!("energy: {}", parts.join("; ")), format!("  for {bytes}, cipher {cipher}")];
    if energy.shared_seconds > 0 {
        let (shared, all) = (energy.shared_seconds, energy.seconds);
        lines.push(format!(
            "  other transfers ran in {shared} of {all} s, and their energy is in it"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(max: f64) -> Spread {
        let quarter = max / 4.0;
        Spread {
            seconds: 30,
            min: 0.0,
            p5: 0.0,
            q1: quarter,
            median: 2.0 * quarter,
            q3: 3.0 * quarter,
            p95: max,
            p99: max,
            max,
            mean: 2.0 * quarter,
        }
    }

    /// Promise: nothing is said about a transfer without figures while a peer is silent.
    #[test]
    fn a_silent_peer_may_have_figures() {
        assert!(no_figures(true, &[]).is_some_and(|text| text.contains("has not run")));
        assert_eq!(no_figures(true, &["h2".parse().unwrap()]), None);
        assert_eq!(no_figures(false, &[]), None);
    }

    fn peer() -> PeerStatistics {
        let column = |name: &str, max| ColumnSpread { name: name.to_owned(), spread: spread(max) };
        let names = FIGURES.iter().map(|(name, _)| column(name, 9.41e9));
        let core = |core| CoreSpread { core, busy_percent: spread(f64::from(core)) };
        PeerStatistics {
            peer: "dtn1".parse().unwrap(),
            cipher: "AES-128-GCM".to_owned(),
            since: Timestamp::of_seconds(0),
            until: Timestamp::of_seconds(29),
            columns: names.chain([column("of_a_later_release", 5.0)]).collect(),
            cores: (0..100).map(core).collect(),
            energy: Energy::default(),
        }
    }

    /// Promise: the table fits a terminal of 80 columns, names the units, and lists the processors
    /// that were busiest.
    #[test]
    fn statistics_fit_a_terminal() {
        let mut peer = peer();
        peer.columns.retain(|column| column.name.ends_with("s") || column.name.contains("later"));
        let text = text_of(&peer);
        assert!(
            text.starts_with("peer dtn1: 30 s from 1970-01-01 00:00:00 UTC, AES-128-GCM\n"),
            "{text}"
        );
        assert!(text.contains("rate, Gbit/s"), "{text}");
        assert!(text.contains("of_a_later_release"), "{text}");
        assert!(text.contains("CPU 99, %") && !text.contains("CPU 67, %"), "{text}");
        assert!(text.contains("68 processors that were less busy"), "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    /// Promise: energy is told with its bytes and its cipher, and what is not measurable with the
    /// reason.
    #[test]
    fn energy_is_told() {
        let mut peer = peer();
        peer.energy.why = "the kernel shows no energy counters".to_owned();
        let lines = ["energy: not measurable here", "  the kernel shows no energy counters"];
        assert_eq!(energy_lines(&peer.energy), lines);
        let energy = CipherEnergy {
            cipher: "AES-256-GCM".to_owned(),
            bytes: 1 << 39,
            seconds: 60,
            shared_seconds: 20,
            package_joules: Some(1000.0),
            package_joules_per_tib: Some(2000.0),
            ..CipherEnergy::default()
        };
        peer.energy = Energy { is_available: true, why: String::new(), ciphers: vec![energy] };
        let lines = [
            "energy: processors 1000 J, 2000 J for each TiB",
            "  for 512.0 GiB, cipher AES-256-GCM",
            "  other transfers ran in 20 of 60 s, and their energy is in it",
        ];
        assert_eq!(energy_lines(&peer.energy), lines);
    }
}
