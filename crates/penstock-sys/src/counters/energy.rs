//! Energy of the processors and their memory, by RAPL.
//!
//! The kernel shows it in the tree of powercap (Documentation/power/powercap/powercap.rst), that of
//! AMD's processors too: zones `intel-rapl:0` with the `name` `package-0`, and zones below them,
//! one of which may be `dram`. Since CVE-2020-8694 only root reads the counters. Zones
//! `intel-rapl-mmio:0` are the same package a second time, and `psys` is the whole board: both are
//! left out.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The tree of the running kernel.
pub const POWERCAP_ROOT: &str = "/sys/class/powercap";
/// Begin of the names of zones.
const ZONE: &str = "intel-rapl:";

/// A part of the host that a counter is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EnergyDomain {
    /// Processors in their sockets, with their caches.
    Package,
    /// Memory.
    Dram,
}

/// The reason why energy cannot be measured.
#[derive(Debug, thiserror::Error)]
pub enum EnergyError {
    /// The kernel shows no counters.
    #[error("the kernel shows no energy counters in `{}`", .root.display())]
    Absent {
        /// The directory.
        root: PathBuf,
    },
    /// A counter cannot be read.
    #[error("cannot read `{}`: {}", .path.display(), .source.kind())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

/// Energy that was used in a time span, in joules.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Joules {
    /// Energy of all packages.
    pub package: f64,
    /// Energy of their memory; `None` where the processor does not count it.
    pub dram: Option<f64>,
}

/// A counter as it was read.
#[derive(Clone, Copy, Debug)]
struct Counter {
    domain: EnergyDomain,
    micro_joules: u64,
    /// The counter restarts after this value.
    most: u64,
}

/// Reads the counters repeatedly, and returns the energy that was used in between. Its reads must
/// be more frequent than the counters' restarts, which are a minute or more apart.
#[derive(Debug)]
pub struct EnergyMeter {
    root: PathBuf,
    before: BTreeMap<String, Counter>,
}

impl EnergyMeter {
    /// Creates a meter of the counters below `root`, such as [`POWERCAP_ROOT`].
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), before: BTreeMap::new() }
    }

    /// Returns the energy since the last look; `None` at the first one. Reads a few files of the
    /// kernel, and does not block.
    ///
    /// # Errors
    /// There are no counters, or they may not be read.
    pub fn look(&mut self) -> Result<Option<Joules>, EnergyError> {
        let now = counters(&self.root)?;
        let before = std::mem::replace(&mut self.before, now);
        let mut joules = Joules::default();
        let mut is_known = false;
        for (zone, counter) in &self.before {
            let Some(earlier) = before.get(zone) else { continue };
            let used = passed(earlier.micro_joules, counter.micro_joules, counter.most);
            let used = used as f64 / 1e6;
            match counter.domain {
                EnergyDomain::Package => joules.package += used,
                EnergyDomain::Dram => *joules.dram.get_or_insert(0.0) += used,
            }
            is_known = true;
        }
        Ok(is_known.then_some(joules))
    }
}

/// Returns the growth of a counter that restarts after `most`.
fn passed(earlier: u64, later: u64, most: u64) -> u64 {
    match later.checked_sub(earlier) {
        Some(grown) => grown,
        None => most.saturating_sub(earlier).saturating_add(later),
    }
}

/// Reads all counters of packages and of memory, by the names of their zones.
fn counters(root: &Path) -> Result<BTreeMap<String, Counter>, EnergyError> {
    let absent = || EnergyError::Absent { root: root.to_owned() };
    let mut found = BTreeMap::new();
    for zone in fs::read_dir(root).map_err(|_| absent())? {
        let Ok(zone) = zone else { continue };
        let name = zone.file_name().to_string_lossy().into_owned();
        let Some(domain) = domain_of(&name, &zone.path()) else { continue };
        let micro_joules = number(&zone.path().join("energy_uj"))?;
        let most = number(&zone.path().join("max_energy_range_uj")).unwrap_or(0);
        found.insert(name, Counter { domain, micro_joules, most });
    }
    let has_package = found.values().any(|counter| counter.domain == EnergyDomain::Package);
    if has_package { Ok(found) } else { Err(absent()) }
}

fn domain_of(zone: &str, path: &Path) -> Option<EnergyDomain> {
    zone.strip_prefix(ZONE)?;
    let name = fs::read_to_string(path.join("name")).ok()?;
    match name.trim() {
        "dram" => Some(EnergyDomain::Dram),
        name if name.starts_with("package") => Some(EnergyDomain::Package),
        _ => None,
    }
}

fn number(path: &Path) -> Result<u64, EnergyError> {
    let unreadable = |source| EnergyError::Unreadable { path: path.to_owned(), source };
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let none = || io::Error::from(io::ErrorKind::InvalidData);
    text.trim().parse().map_err(|_| unreadable(none()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a tree as a server of two sockets shows it, with these counters of the packages, and
    /// of the memory of the first.
    fn record(root: &Path, packages: [u64; 2], dram: Option<u64>) {
        let zone = |zone: &str, name: &str, micro_joules: u64| {
            let directory = root.join(zone);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("name"), format!("{name}\n")).unwrap();
            fs::write(directory.join("energy_uj"), format!("{micro_joules}\n")).unwrap();
            fs::write(directory.join("max_energy_range_uj"), "262143328850\n").unwrap();
        };
        zone("intel-rapl:0", "package-0", packages[0]);
        zone("intel-rapl:1", "package-1", packages[1]);
        zone("intel-rapl:0:0", "core", 77);
        // The same package a second time, and the whole board.
        zone("intel-rapl-mmio:0", "package-0", packages[0]);
        zone("intel-rapl:2", "psys", 99);
        if let Some(dram) = dram {
            zone("intel-rapl:0:1", "dram", dram);
        }
        fs::create_dir_all(root.join("intel-rapl")).unwrap();
        fs::write(root.join("intel-rapl/enabled"), "1\n").unwrap();
    }

    /// Promise: packages count once each, memory apart, and a counter that restarts loses nothing.
    #[test]
    fn energy_is_read_from_a_recorded_tree() {
        let directory = tempfile::tempdir().unwrap();
        record(directory.path(), [1_000_000, 262_143_328_850 - 500_000], Some(10));
        let mut meter = EnergyMeter::new(directory.path());
        assert_eq!(meter.look().unwrap(), None);
        record(directory.path(), [4_000_000, 1_500_000], Some(2_000_010));
        let joules = meter.look().unwrap().unwrap();
        assert_eq!(joules, Joules { package: 5.0, dram: Some(2.0) });
        assert_eq!(meter.look().unwrap(), Some(Joules { package: 0.0, dram: Some(0.0) }));
    }

    /// Promise: a processor that does not count its memory, as those of AMD, has no figure of it,
    /// instead of zero.
    #[test]
    fn memory_that_is_not_counted_has_no_figure() {
        let directory = tempfile::tempdir().unwrap();
        record(directory.path(), [0, 0], None);
        let mut meter = EnergyMeter::new(directory.path());
        meter.look().unwrap();
        record(directory.path(), [1_000_000, 0], None);
        assert_eq!(meter.look().unwrap(), Some(Joules { package: 1.0, dram: None }));
    }

    /// Promise: a host without counters, or with counters for root alone, returns that as the
    /// error.
    #[test]
    fn what_cannot_be_measured_is_said() {
        let directory = tempfile::tempdir().unwrap();
        let nowhere = directory.path().join("nowhere");
        let why = EnergyMeter::new(&nowhere).look().unwrap_err();
        assert!(matches!(why, EnergyError::Absent { .. }), "{why}");
        let why = EnergyMeter::new(directory.path()).look().unwrap_err();
        assert!(why.to_string().starts_with("the kernel shows no energy counters in"), "{why}");
        record(directory.path(), [1, 2], None);
        // Root reads a file without any right; no user can read a directory as a file.
        let counter = directory.path().join("intel-rapl:0/energy_uj");
        fs::remove_file(&counter).unwrap();
        fs::create_dir(&counter).unwrap();
        let why = EnergyMeter::new(directory.path()).look().unwrap_err();
        assert!(matches!(&why, EnergyError::Unreadable { path, .. } if *path == counter), "{why}");
    }
}
