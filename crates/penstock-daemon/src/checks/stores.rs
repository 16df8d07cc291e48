//! Stores, the state directory, the shared journal: their presence, durability and free space (A3,
//! A5, A8).

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use penstock_api::operate::{Finding, Level};
use penstock_exit::chain;
use penstock_proto::units::format_bytes;
use penstock_store::{
    DurabilityMethod, FileSystemKind, PosixOptions, PosixStore, Space, StoreError,
};

use crate::config::{Config, StoreAccount, StoreConfig};

const GIB: u64 = 1 << 30;
/// Inodes below which a data set of small files fills the store before its bytes do.
const INODES_LEAST: u64 = 100_000;

pub(super) fn look(config: &Config, directory: &Path) -> Vec<Finding> {
    let mut findings: Vec<_> = config.stores.iter().flat_map(store).collect();
    findings.extend(state(config, directory));
    if let Some(cluster) = &config.cluster {
        findings.extend(journal(&cluster.journal));
    }
    findings
}

fn open(path: &Path) -> Result<PosixStore, StoreError> {
    PosixStore::open(path, PosixOptions { read_only: true, ..PosixOptions::default() })
}

fn store(config: &StoreConfig) -> Vec<Finding> {
    let (code, name) = ("store", &config.name);
    let Some(path) = config.directory() else { return Vec::new() };
    let store = match open(&path) {
        Ok(store) => store,
        Err(error) => {
            return vec![Finding::new(
                Level::Bad,
                code,
                format!("store `{name}` is not there: {}", chain(&error)),
                "transfers that use it wait, with the reason \"store is offline\"",
                format!("mount it, or correct its path `{}` in penstock.toml", path.display()),
            )];
        }
    };
    let mut findings = Vec::new();
    if let Ok(space) = store.space() {
        findings.extend(room(&format!("store `{name}`"), space));
        if space.read_only && !config.read_only && is_mounted_read_only(&path) {
            findings.push(Finding::new(
                Level::Bad,
                code,
                format!("store `{name}` is mounted read-only"),
                "nothing can be written to it; ext4 and others do that after an error of the disk",
                "check the kernel log; remount it, or set `read_only` for the store",
            ));
        }
    }
    if config.account == StoreAccount::Mapped && !penstock_sys::may_act_as_others() {
        findings.push(Finding::new(
            Level::Bad,
            "accounts",
            format!("store `{name}` is mapped, and the daemon may not act as accounts of users"),
            "transfers of all users but its own are refused",
            "run the daemon as root, or with CAP_SETUID and CAP_SETGID",
        ));
    }
    findings.push(durability(config, &store));
    findings
}

fn is_mounted_read_only(path: &Path) -> bool {
    PosixStore::open(path, PosixOptions::default())
        .and_then(|store| store.space())
        .is_ok_and(|space| space.read_only)
}

fn room(of: &str, space: Space) -> Vec<Finding> {
    let Space { free_bytes: free, total_bytes: total, free_inodes, .. } = space;
    let mut findings = Vec::new();
    let share = if total == 0 { 1.0 } else { free as f64 / total as f64 };
    let level = match () {
        () if free < GIB && share < 0.01 => Some(Level::Bad),
        () if free < 10 * GIB && share < 0.05 => Some(Level::Warning),
        () => None,
    };
    if let Some(level) = level {
        let what = format!("{of}: {} free of {}", format_bytes(free), format_bytes(total));
        let why = "a transfer waits while the disk is full, and keeps its progress";
        findings.push(Finding::new(level, "space", what, why, "make room"));
    }
    if let Some(inodes) = free_inodes.filter(|inodes| *inodes < INODES_LEAST) {
        findings.push(Finding::new(
            Level::Warning,
            "space",
            format!("{of}: {inodes} more files may be made"),
            "each file and directory takes one, however small",
            "remove files, or make the file system with more inodes",
        ));
    }
    findings
}

/// Returns the finding about the effect of a sync there (docs/durability.md).
fn durability(config: &StoreConfig, store: &PosixStore) -> Finding {
    let (code, name) = ("durability", &config.name);
    let methods = store.durability();
    let words: Vec<_> = methods.iter().map(ToString::to_string).collect();
    let what = format!("store `{name}` is made durable by {}", words.join(", "));
    let lossy = |method: &&DurabilityMethod| {
        matches!(method, DurabilityMethod::Syncfs(FileSystemKind::Tmpfs))
    };
    if methods.iter().any(|method| lossy(&method)) {
        let why = "a restart of the host loses all of its data, even files that a receipt calls \
                   durable";
        return Finding::new(Level::Note, code, what, why, "use it for scratch data only");
    }
    match methods.first() {
        Some(DurabilityMethod::Fsync(kind)) if kind.is_network() => Finding::new(
            Level::Note,
            code,
            what,
            "each file is synced separately, and the server decides what that means: NFS exported \
             `async`, BeeGFS and some FUSE servers reply before the data is on disk",
            "see docs/durability.md for this file system; `--readback` does not prove it either",
        ),
        Some(DurabilityMethod::Fsync(_)) => Finding::new(
            Level::Note,
            code,
            what,
            "one sync for all files may not be enough on it, so each file is synced separately: \
             many small files take at least ten times as long",
            "for speed: ext4, XFS or Btrfs, and Linux 5.8 or later",
        ),
        _ => Finding::ok(code, what),
    }
}

/// Checks the site directory: SQLite and, at a site of one peer, ledgers (A8).
fn state(config: &Config, directory: &Path) -> Vec<Finding> {
    let code = "state";
    let store = match open(directory) {
        Ok(store) => store,
        Err(error) => {
            let what = format!("the site directory cannot be opened: {}", chain(&error));
            let why = "the daemon does not start without it";
            return vec![Finding::new(
                Level::Bad,
                code,
                what,
                why,
                "name the site directory by `--dir`",
            )];
        }
    };
    let mut findings = Vec::new();
    if let Ok(space) = store.space() {
        findings.extend(room("site directory", space));
    }
    let kind = store.file_system();
    if kind.is_network() {
        findings.push(Finding::new(
            Level::Bad,
            code,
            format!("the site directory `{}` is on {kind}", directory.display()),
            "SQLite and the lock against a second daemon need a local file system: over a network \
             two daemons may both get the lock",
            "move it to a local disk, and mount that at every start",
        ));
    }
    let same = |store: &&StoreConfig| {
        let place = store.directory().and_then(|place| place.metadata().ok());
        let own = directory.metadata().ok();
        !store.read_only
            && place.zip(own).is_some_and(|(place, own)| place.dev() == own.dev())
            && kind != FileSystemKind::Tmpfs
    };
    if let Some(store) = config.stores.iter().find(same) {
        findings.push(Finding::new(
            Level::Note,
            code,
            format!("the site directory is on the file system of store `{}`", store.name),
            "each commit of the ledger waits behind what is written to the store, and a full store \
             stops the ledger as well",
            "give the site directory a small disk of its own, if the rate matters",
        ));
    }
    if findings.is_empty() {
        findings.push(Finding::ok(code, format!("the site directory is on {kind}")));
    }
    findings
}

/// Checks the journal that peers of a site share (A12).
fn journal(path: &Path) -> Vec<Finding> {
    let code = "journal";
    let store = match open(path) {
        Ok(store) => store,
        Err(error) => {
            return vec![Finding::new(
                Level::Bad,
                code,
                format!("the shared journal is not there: {}", chain(&error)),
                "this peer cannot lead, and cannot serve lanes of scans, whose pages are in the \
                 journal",
                format!("mount `{}`", path.display()),
            )];
        }
    };
    let mut findings = Vec::new();
    if let Ok(space) = store.space() {
        findings.extend(room("shared journal", space));
    }
    let kind = store.file_system();
    if !kind.is_network() && !matches!(kind, FileSystemKind::Other(_)) {
        findings.push(Finding::new(
            Level::Note,
            code,
            format!("the shared journal `{}` is on {kind}, a local file system", path.display()),
            "peers on other hosts reach it only if it is exported to them: a controller elsewhere \
             would find none of the ledgers",
            "put it on storage that all peers mount under this path",
        ));
    } else {
        findings.push(Finding::ok(code, format!("the shared journal is on {kind}")));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a nearly full disk is reported, a small one with room is not.
    #[test]
    fn little_room_is_said() {
        let space = |free_bytes, total_bytes, free_inodes| Space {
            free_bytes,
            total_bytes,
            free_inodes,
            read_only: false,
        };
        assert_eq!(room("x", space(GIB / 2, 100 * GIB, None))[0].level, Level::Bad);
        assert_eq!(room("x", space(2 * GIB, 100 * GIB, None))[0].level, Level::Warning);
        assert!(room("x", space(GIB / 2, GIB, Some(1 << 20))).is_empty());
        assert!(room("x", space(50 * GIB, 100 * GIB, Some(10)))[0].what.contains("10 more files"));
    }

    /// A3: the effect of a sync at a store is reported, and for a store in memory its loss.
    #[test]
    fn a3_how_durable_a_store_is_is_said() {
        let memory = Path::new("/dev/shm");
        if !memory.is_dir() {
            return;
        }
        let config = StoreConfig::new("data".parse().unwrap(), "/dev/shm".to_owned());
        let found = durability(&config, &open(memory).unwrap());
        assert!(found.what.contains("loses everything with the host"), "{}", found.what);
        assert_eq!(found.level, Level::Note);
    }
}
