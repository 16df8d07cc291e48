//! A file whose name identifies the process that claims a lock: for hosts on which the file system
//! has no locks, and for hosts whose locks are not seen by others.
//!
//! Each process makes a file of its own beside the lock, exclusively (`O_EXCL`), and then looks for
//! those of others. Of two processes that claim at once, at least one sees the other and withdraws.
//! Both may withdraw, and retry after different delays. No two processes ever use one name, so any
//! process can remove the claim of an ended one, at any time.
//!
//! Each process claims, also one that holds a lock of the file system: another host, which mounts
//! the directory in another way, may see the claim alone. A claim records the sort of lock that its
//! process held beside it ([`LockSort`]). A process that gets a lock of the same sort knows that
//! the claimant has lost its own. The claim is then void, whatever its host or container.
//!
//! Otherwise a process of this boot and this process number space is looked up, by number and start
//! time. Only the answer that no such process exists counts as its end. The claims of an earlier
//! boot are void if claimant and observer run outside of containers, on one host. The state of any
//! other process is unknown: its claim holds until an operator removes the file.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use data_encoding::HEXLOWER;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use rustix::system::uname;

use super::lock_error::LockError;
use super::lock_sort::LockSort;
use crate::host::boot_id;

/// Attempts of a process that meets another claim, which may be withdrawn at the same time.
const ATTEMPTS: u32 = 4;
/// Longest part of a host's name in the name of a claim.
const HOST_BYTES_MAX: usize = 64;
/// Field of the start time in `/proc/PID/stat`, counted from behind the program's name.
const START_FIELD: usize = 19;
/// Inode number of the process number space outside of all containers (`PROC_PID_INIT_INO` in
/// linux/proc_ns.h).
const SPACE_OF_HOST: u64 = 0xefff_fffc;

/// A claim of this process; dropping it removes the file.
#[derive(Debug)]
pub(super) struct Claim {
    path: PathBuf,
}

impl Claim {
    /// Claims the lock at `path` for this process, which holds a lock of the sort `held` on it.
    /// Blocks for a fifth of a second at most.
    ///
    /// # Errors
    /// `Held`, `Claimed`, `Io`.
    pub(super) fn make(path: &Path, held: LockSort) -> Result<Self, LockError> {
        let failed = |source| LockError::Io { path: path.to_owned(), source };
        let own = Owner::this(held);
        let prefix = prefix_of(path);
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let directory = directory.unwrap_or(Path::new("."));
        let name = [prefix.as_slice(), own.text().as_bytes()].concat();
        let claimed = directory.join(OsStr::from_bytes(&name));
        let mut attempt = 0;
        loop {
            match File::options().write(true).create_new(true).mode(0o600).open(&claimed) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    let process_id = Some(own.process_id);
                    return Err(LockError::Held { path: path.to_owned(), process_id });
                }
                Err(error) => return Err(failed(error)),
            }
            let claim = Self { path: claimed.clone() };
            let Some((other, owner)) = other(directory, &prefix, &own).map_err(failed)? else {
                return Ok(claim);
            };
            drop(claim);
            attempt += 1;
            if attempt == ATTEMPTS {
                return Err(owner.refusal(path, other, &own));
            }
            // Different moments for processes that began at once.
            let millis = 10 + u64::from(own.process_id.wrapping_mul(7 + attempt) % 40);
            std::thread::sleep(Duration::from_millis(millis));
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // The directory, and the claim with it, may have been removed.
        let _ = fs::remove_file(&self.path);
    }
}

fn prefix_of(path: &Path) -> Vec<u8> {
    let name = path.file_name().map_or(&b"lock"[..], OsStr::as_bytes);
    [name, b".claim."].concat()
}

/// Returns a claim of another process that holds, if there is one. Removes those of processes that
/// ended.
fn other(directory: &Path, prefix: &[u8], own: &Owner) -> io::Result<Option<(PathBuf, Owner)>> {
    let mut found = None;
    for entry in fs::read_dir(directory)? {
        let name = entry?.file_name();
        let Some(text) = name.as_bytes().strip_prefix(prefix) else { continue };
        let owner = std::str::from_utf8(text).ok().and_then(Owner::parse);
        let Some(owner) = owner.filter(|owner| owner != own) else { continue };
        let path = directory.join(&name);
        if owner.has_ended(own) {
            tracing::info!(path = %path.display(), "the process that claimed this has ended");
            let _ = fs::remove_file(&path);
        } else {
            found = Some((path, owner));
        }
    }
    Ok(found)
}

/// The process that claims.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    process_id: u32,
    /// Start time of the process, in ticks since the boot.
    start: u64,
    /// The inode number of its process number space: a container has one of its own.
    space: u64,
    boot: String,
    /// `/etc/machine-id`, as hosts may have the same name.
    machine: String,
    host: String,
    /// The lock that it holds beside the claim.
    held: LockSort,
}

impl Owner {
    fn this(held: LockSort) -> Self {
        let process_id = std::process::id();
        let space = fs::read_link("/proc/self/ns/pid").ok().and_then(|link| {
            let digits = link.to_str()?.strip_prefix("pid:[")?.strip_suffix(']')?.to_owned();
            digits.parse().ok()
        });
        let machine = fs::read_to_string("/etc/machine-id").unwrap_or_default();
        let machine = machine.trim().chars().filter(char::is_ascii_alphanumeric).take(32);
        let named = uname();
        let host = named.nodename().to_bytes().iter().take(HOST_BYTES_MAX);
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        Self {
            process_id,
            start: match state_of(process_id) {
                State::Began(start) => start,
                State::Ended | State::Unknown => 0,
            },
            space: space.unwrap_or(0),
            boot: boot_id().map(|boot| HEXLOWER.encode(&boot)).unwrap_or_default(),
            machine: machine.collect(),
            host: host.map(|byte| if plain(byte) { char::from(*byte) } else { '_' }).collect(),
            held,
        }
    }

    fn text(&self) -> String {
        let Self { process_id, start, space, boot, machine, host, held } = self;
        format!("{process_id}.{start}.{space}.{boot}.{machine}.{host}.{}", held.text())
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let owner = Self {
            process_id: parts.next()?.parse().ok()?,
            start: parts.next()?.parse().ok()?,
            space: parts.next()?.parse().ok()?,
            boot: parts.next()?.to_owned(),
            machine: parts.next()?.to_owned(),
            host: parts.next()?.to_owned(),
            held: LockSort::parse(parts.next()?)?,
        };
        parts.next().is_none().then_some(owner)
    }

    /// Returns whether `own`, the owner in this process, can look up the process by its number.
    fn is_seen_by(&self, own: &Self) -> bool {
        let known = !self.boot.is_empty() && self.space != 0;
        known && self.boot == own.boot && self.space == own.space
    }

    /// Returns whether the process has certainly ended, as `own` sees it.
    fn has_ended(&self, own: &Self) -> bool {
        if self.held == own.held && own.held.excludes() {
            return true;
        }
        if self.is_seen_by(own) {
            return match state_of(self.process_id) {
                State::Ended => true,
                State::Began(start) => self.start != 0 && start != self.start,
                State::Unknown => false,
            };
        }
        // A machine id that comes with the image of a container is that of many hosts.
        let hosts = self.space == SPACE_OF_HOST && own.space == SPACE_OF_HOST;
        let same = (&self.machine, &self.host) == (&own.machine, &own.host);
        let boots = !self.boot.is_empty() && !own.boot.is_empty() && self.boot != own.boot;
        hosts && same && !self.machine.is_empty() && boots
    }

    fn refusal(&self, lock: &Path, claim: PathBuf, own: &Self) -> LockError {
        let process_id = self.process_id;
        if self.is_seen_by(own) {
            return LockError::Held { path: lock.to_owned(), process_id: Some(process_id) };
        }
        let made = fs::metadata(&claim).and_then(|meta| meta.modified()).ok();
        let age = made.and_then(|made| made.elapsed().ok()).unwrap_or_default();
        let (host, age_seconds) = (self.host.clone(), age.as_secs());
        LockError::Claimed { path: claim, host, process_id, age_seconds }
    }
}

/// The state of a process of this process number space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No process has this number, or only a zombie until its parent has asked for its end
    /// (proc_pid_stat(5)).
    Ended,
    /// There is one, which began then, in ticks since the boot.
    Began(u64),
    /// A process has this number, or its state is unknown: `/proc` is missing, belongs to another
    /// space, or hides the processes of other users.
    Unknown,
}

fn state_of(process_id: u32) -> State {
    let number = i32::try_from(process_id).ok().and_then(Pid::from_raw);
    // A signal finds even a process that /proc hides.
    if number.is_none_or(|number| test_kill_process(number) == Err(Errno::SRCH)) {
        return State::Ended;
    }
    let own = fs::read_link("/proc/self").ok();
    if own.is_none_or(|own| own != Path::new(&std::process::id().to_string())) {
        return State::Unknown;
    }
    match fs::read(format!("/proc/{process_id}/stat")) {
        Ok(text) => state_in(&text).unwrap_or(State::Unknown),
        Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => State::Ended,
        Err(_) => State::Unknown,
    }
}

fn state_in(text: &[u8]) -> Option<State> {
    // The program's name is in parentheses and may hold any bytes.
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let mut fields = std::str::from_utf8(&text[end + 1..]).ok()?.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return Some(State::Ended);
    }
    fields.nth(START_FIELD - 1)?.parse().ok().map(State::Began)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    /// Promise (A8): on a file system without locks one process holds a claim, and it is free again
    /// when that is dropped.
    #[test]
    fn a8_a_claim_is_held_by_one_and_freed_by_drop() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let held = Claim::make(&path, LockSort::None).unwrap();
        match Claim::make(&path, LockSort::None) {
            Err(LockError::Held { process_id, .. }) => {
                assert_eq!(process_id, Some(std::process::id()));
            }
            other => panic!("expected Held, got {other:?}"),
        }
        drop(held);
        assert_eq!(claims(directory.path()), 0);
        drop(Claim::make(&path, LockSort::None).unwrap());
    }

    /// Promise (A8): the claim of a process that ended is void, also if its number belongs to
    /// another process or the host was restarted. The claim of a live process, or of another host,
    /// holds.
    #[test]
    fn a8_a_claim_of_a_process_that_ended_is_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("lock");
        let own = Owner::this(LockSort::None);
        assert!(own.start > 0 && Owner::parse(&own.text()) == Some(own.clone()));
        let put = |owner: &Owner| {
            let name = format!("lock.claim.{}", owner.text());
            fs::write(directory.path().join(&name), "").unwrap();
            directory.path().join(name)
        };
        let other_start = Owner { start: own.start + 1, ..own.clone() };
        let mut ended = vec![other_start, Owner { process_id: u32::MAX - 1, ..own.clone() }];
        if !own.machine.is_empty() && own.space == SPACE_OF_HOST {
            ended.push(Owner { boot: "0".repeat(32), ..own.clone() });
        }
        for owner in ended {
            put(&owner);
            drop(Claim::make(&path, LockSort::None).unwrap());
            assert_eq!(claims(directory.path()), 0, "{owner:?}");
        }
        // A real process of another number: the parent of this one.
        let parent = std::os::unix::process::parent_id();
        if let State::Began(start) = state_of(parent) {
            let held = put(&Owner { process_id: parent, start, ..own.clone() });
            let error = Claim::make(&path, LockSort::None).unwrap_err();
            assert!(error.to_string().contains(&format!("process {parent}")), "{error}");
            fs::remove_file(held).unwrap();
        }
        let boot = "f".repeat(32);
        let far = put(&Owner { host: "far".to_owned(), machine: "m".to_owned(), boot, ..own });
        match Claim::make(&path, LockSort::None) {
            Err(LockError::Claimed { host, path, .. }) => assert_eq!((&*host, path), ("far", far)),
            other => panic!("expected Claimed, got {other:?}"),
        }
    }

    /// Promise (A8): a process counts as dead only if the system reports that. It does not if it is
    /// hidden, or runs in another container of the same name and boot, or in a container of another
    /// boot.
    #[test]
    fn a8_nobody_is_taken_for_dead_without_proof() {
        let own = Owner { machine: "m".to_owned(), ..Owner::this(LockSort::None) };
        let boot = "0".repeat(32);
        let parent = std::os::unix::process::parent_id();
        let alive = [
            Owner { process_id: u32::MAX - 1, space: own.space + 1, ..own.clone() },
            Owner { process_id: u32::MAX - 1, space: 0, ..own.clone() },
            Owner { process_id: u32::MAX - 1, boot: String::new(), ..own.clone() },
            Owner { boot: boot.clone(), space: 17, ..own.clone() },
            Owner { boot, host: "other".to_owned(), ..own.clone() },
            // Its start is not known: it had no /proc.
            Owner { process_id: parent, start: 0, ..own.clone() },
        ];
        for owner in alive {
            assert!(!owner.has_ended(&own), "{owner:?}");
        }
        assert_eq!(state_in(b"7 (a) b) Z 1 2"), Some(State::Ended));
        assert_eq!(state_in(b"7 (a) S 1"), None);
        assert_eq!(state_of(u32::MAX - 1), State::Ended);
    }

    /// Promise (A8): of two processes with locks that exclude each other only one can have its
    /// lock, so the claim of the other is void. Locks of two sorts exclude no process.
    #[test]
    fn a8_a_lock_that_was_got_voids_the_claim_of_one_that_held_the_same() {
        let far = |held| {
            let own = Owner::this(LockSort::None);
            Owner { space: 17, boot: "0".repeat(32), host: "far".to_owned(), held, ..own }
        };
        let sorts = [LockSort::None, LockSort::Local, LockSort::Server, LockSort::Unproven];
        for held in sorts {
            for mine in sorts {
                let void = far(held).has_ended(&Owner::this(mine));
                let proof = held == mine && [LockSort::Local, LockSort::Server].contains(&held);
                assert_eq!(void, proof, "{held:?} {mine:?}");
                assert_eq!(LockSort::parse(held.text()), Some(held));
            }
        }
    }

    /// Promise (A8): of many that claim at once no two hold a claim at the same time.
    #[test]
    fn a8_claims_exclude_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let own = Owner::this(LockSort::None);
        // Two threads as two processes: each looks for the other's file after it made its own.
        let names = [own.clone(), Owner { space: own.space + 1, ..own }];
        let barrier = std::sync::Barrier::new(2);
        for _ in 0..200 {
            let race = |own: &Owner| {
                let path = directory.path().join(format!("lock.claim.{}", own.text()));
                barrier.wait();
                fs::write(&path, "").unwrap();
                let alone = other(directory.path(), b"lock.claim.", own).unwrap().is_none();
                barrier.wait();
                fs::remove_file(&path).unwrap();
                alone
            };
            let alone = std::thread::scope(|scope| {
                let other = scope.spawn(|| race(&names[1]));
                [race(&names[0]), other.join().unwrap()]
            });
            assert_ne!(alone, [true, true]);
        }
    }
}
