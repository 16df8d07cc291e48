//! A read-only file system by FUSE, served by the test: a directory tree once more, with inode
//! numbers of its own, and a store's slowness. Root only.
//!
//! The messages are those of linux/fuse.h, protocol 7.31 (fuse(4)); the few that a scan and reading
//! files need. Each request is answered after the latency, many at a time.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Requests that are answered at a time.
const THREADS: usize = 24;
/// Longest request: we are never written to.
const REQUEST_BYTES_MAX: usize = 256 * 1024;
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const ENOSYS: i32 = 38;

/// Slowness and faults of the file system.
#[derive(Default)]
pub struct Latency {
    lookup_us: AtomicU64,
    read_us: AtomicU64,
    broken: AtomicBool,
    unreadable: AtomicBool,
    hung: AtomicBool,
    /// Reads of files called `stuck` wait.
    stuck: AtomicBool,
    /// Size that is reported of every file, and 1; 0 for the true one.
    size: AtomicU64,
}

impl Latency {
    /// Sets the time of each look-up, each listing and each look at attributes.
    pub fn set_lookup(&self, latency: Duration) {
        self.lookup_us.store(latency.as_micros() as u64, Ordering::Relaxed);
    }

    /// Fails everything from now on, with `EIO`.
    pub fn break_down(&self) {
        self.broken.store(true, Ordering::Relaxed);
    }

    /// Fails reads of files from now on, with `EIO`; they are listed all the same.
    pub fn break_reads(&self) {
        self.unreadable.store(true, Ordering::Relaxed);
    }

    /// Answers nothing from now on, or all that was asked meanwhile.
    pub fn hang(&self, hung: bool) {
        self.hung.store(hung, Ordering::Relaxed);
    }

    /// Has reads of files called `stuck` wait from now on, until one is interrupted; or has all
    /// return that have waited.
    pub fn stick(&self, stuck: bool) {
        self.stuck.store(stuck, Ordering::Relaxed);
    }

    /// Reports this size of every file from now on, for any content.
    pub fn report_size(&self, size: u64) {
        self.size.store(size + 1, Ordering::Relaxed);
    }

    /// Sets the time of each read, of 128 KiB at most.
    pub fn set_read(&self, latency: Duration) {
        self.read_us.store(latency.as_micros() as u64, Ordering::Relaxed);
    }
}

/// A mount, gone when dropped.
pub struct Fuse {
    /// Its mount point.
    pub path: PathBuf,
    /// Its slowness and faults, to be changed at any time.
    pub latency: Arc<Latency>,
}

struct Tree {
    /// Inode numbers are those of the tree, and this.
    salt: u64,
    latency: Arc<Latency>,
    paths: Mutex<(HashMap<u64, PathBuf>, HashMap<PathBuf, u64>)>,
}

impl Fuse {
    /// Mounts `tree` at `path` with inode numbers that `salt` makes others; `None`, which it
    /// prints, where that is not allowed.
    pub fn mount(tree: &Path, path: &Path, salt: u64) -> Option<Self> {
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let Ok(device) = device else {
            println!("SKIPPED: /dev/fuse cannot be opened; this test needs root and FUSE");
            return None;
        };
        fs::create_dir_all(path).unwrap();
        let latency = Arc::new(Latency::default());
        let root = (HashMap::from([(1, tree.to_owned())]), HashMap::from([(tree.to_owned(), 1)]));
        let served =
            Arc::new(Tree { salt, latency: Arc::clone(&latency), paths: Mutex::new(root) });
        let options = "fd=0,rootmode=40755,user_id=0,group_id=0,allow_other,ro";
        let mut command = Command::new("mount");
        command.args(["-i", "-t", "fuse", "-o", options, "penstock-test"]).arg(path);
        let mounted = command.stdin(Stdio::from(device.try_clone().unwrap())).output().unwrap();
        if !mounted.status.success() {
            let why = String::from_utf8_lossy(&mounted.stderr).into_owned();
            println!("SKIPPED: FUSE cannot be mounted here: {}", why.trim());
            return None;
        }
        for _ in 0..THREADS {
            let (served, device) = (Arc::clone(&served), device.try_clone().unwrap());
            // The threads end when the file system is unmounted.
            std::thread::spawn(move || served.serve(device));
        }
        Some(Self { path: path.to_owned(), latency })
    }

    /// Unmounts lazily, even while files are open there.
    pub fn unmount(&self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).stderr(Stdio::null()).status();
    }
}

impl Drop for Fuse {
    fn drop(&mut self) {
        self.latency.hang(false);
        self.latency.stick(false);
        self.unmount();
    }
}

/// Puts numbers together, little-endian.
#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn long(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn word(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

impl Tree {
    fn serve(&self, mut device: File) {
        let mut request = vec![0; REQUEST_BYTES_MAX];
        // ENODEV when it is unmounted.
        while let Ok(length) = device.read(&mut request) {
            let request = &request[..length];
            let (opcode, unique, node) = (word(request, 4), long(request, 8), long(request, 16));
            let answer = match opcode {
                // FORGET, BATCH_FORGET: the kernel waits for no answer.
                2 | 42 => continue,
                // INTERRUPT: a process that is killed ends when its reads have returned.
                36 => {
                    self.latency.stick(false);
                    continue;
                }
                _ => self.answer(opcode, node, &request[40..]),
            };
            let (error, body) = match answer {
                Ok(body) => (0, body),
                Err(error) => (-error, Vec::new()),
            };
            let mut out = Out::default();
            out.word(16 + body.len() as u32).word(error as u32).long(unique);
            out.0.extend(body);
            // The caller may have been interrupted.
            let _ = device.write(&out.0);
        }
    }

    fn path(&self, node: u64) -> Result<PathBuf, i32> {
        self.paths.lock().unwrap().0.get(&node).cloned().ok_or(ENOENT)
    }

    fn pause(&self, microseconds: &AtomicU64) {
        let pause = microseconds.load(Ordering::Relaxed);
        if pause > 0 {
            std::thread::sleep(Duration::from_micros(pause));
        }
    }

    fn answer(&self, opcode: u32, node: u64, body: &[u8]) -> Result<Vec<u8>, i32> {
        while self.latency.hung.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        if self.latency.broken.load(Ordering::Relaxed) {
            return Err(EIO);
        }
        // INIT and DESTROY are of no file.
        let path = if [26, 38].contains(&opcode) { PathBuf::new() } else { self.path(node)? };
        let mut out = Out::default();
        match opcode {
            // INIT: directories may be looked at by several at a time (bit 18).
            26 => {
                out.word(7).word(31).word(word(body, 8)).word(word(body, 12) & (1 << 18 | 1));
                out.word(16 | 12 << 16).word(128 * 1024).word(1).0.resize(64, 0);
            }
            // LOOKUP
            1 => {
                self.pause(&self.latency.lookup_us);
                let name = body.split(|byte| *byte == 0).next().unwrap_or_default();
                let child = path.join(std::ffi::OsStr::from_bytes(name));
                let meta = fs::symlink_metadata(&child).map_err(|_| ENOENT)?;
                out.long(self.node_of(&child)).long(0).long(1).long(0).word(0).word(0);
                self.attributes(&meta, &mut out);
            }
            // GETATTR
            3 => {
                self.pause(&self.latency.lookup_us);
                let meta = fs::symlink_metadata(&path).map_err(|_| ENOENT)?;
                out.long(0).long(0);
                self.attributes(&meta, &mut out);
            }
            // READLINK
            5 => {
                out.0 = fs::read_link(&path).map_err(|_| EIO)?.into_os_string().into_encoded_bytes()
            }
            // OPEN, OPENDIR; reads of files with a wrong size are not bounded by it (bit 0).
            14 | 27 => {
                let direct = opcode == 14 && self.latency.size.load(Ordering::Relaxed) > 0;
                out.long(0).word(u32::from(direct)).word(0);
            }
            // READ
            15 => {
                self.pause(&self.latency.read_us);
                while path.ends_with("stuck") && self.latency.stuck.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(20));
                }
                if self.latency.unreadable.load(Ordering::Relaxed) {
                    return Err(EIO);
                }
                out.0 = vec![0; word(body, 16) as usize];
                let file = File::open(&path).map_err(|_| EIO)?;
                let read = file.read_at(&mut out.0, long(body, 8)).map_err(|_| EIO)?;
                out.0.truncate(read);
            }
            // STATFS
            17 => out.long(1 << 20).0.resize(80, 0),
            // RELEASE, RELEASEDIR, DESTROY
            18 | 29 | 38 => {}
            // READDIR
            28 => self.list(&path, long(body, 8), word(body, 16) as usize, &mut out)?,
            _ => return Err(ENOSYS),
        }
        Ok(out.0)
    }

    fn node_of(&self, path: &Path) -> u64 {
        let mut paths = self.paths.lock().unwrap();
        let next = paths.0.len() as u64 + 1;
        let node = *paths.1.entry(path.to_owned()).or_insert(next);
        if node == next {
            paths.0.insert(node, path.to_owned());
        }
        node
    }

    fn attributes(&self, meta: &fs::Metadata, out: &mut Out) {
        let reported = self.latency.size.load(Ordering::Relaxed).checked_sub(1);
        let size = reported.filter(|_| meta.is_file()).unwrap_or(meta.size());
        out.long(meta.ino() ^ self.salt).long(size).long(meta.blocks());
        out.long(meta.atime() as u64).long(meta.mtime() as u64).long(meta.ctime() as u64);
        for nanoseconds in [meta.atime_nsec(), meta.mtime_nsec(), meta.ctime_nsec()] {
            out.word(nanoseconds as u32);
        }
        out.word(meta.mode()).word(meta.nlink() as u32).word(meta.uid()).word(meta.gid());
        out.word(0).word(4096).word(0);
    }

    fn list(&self, path: &Path, from: u64, most: usize, out: &mut Out) -> Result<(), i32> {
        self.pause(&self.latency.lookup_us);
        let mut names: Vec<_> = fs::read_dir(path).map_err(|_| EIO)?.flatten().collect();
        names.sort_by_key(fs::DirEntry::file_name);
        for (at, entry) in names.iter().enumerate().skip(from as usize) {
            let name = entry.file_name();
            let kind = entry.file_type().map_err(|_| EIO)?;
            let padded = name.len().next_multiple_of(8);
            if out.0.len() + 24 + padded > most {
                break;
            }
            let number = match (kind.is_dir(), kind.is_symlink()) {
                (true, _) => 4,
                (_, true) => 10,
                _ => 8,
            };
            out.long(7).long(at as u64 + 1).word(name.len() as u32).word(number);
            let end = out.0.len() + padded;
            out.0.extend(name.as_bytes());
            out.0.resize(end, 0);
        }
        Ok(())
    }
}
