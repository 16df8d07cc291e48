//! The speed of the machine itself, step by step: the parts of the bounds in `docs/performance.md`.
//!
//! ```text
//! cargo run --release -p penstock-net --example primitives DIRECTORY [REPETITIONS]
//! ```
//! Each step is a necessary part of a data path, in the plainest form and with the libraries that
//! Penstock uses: no framing, no queues, no waiting for a peer. CPU is user and system time of this
//! process. One JSON object goes to stdout: for each step the median, in seconds per GiB or
//! microseconds per file. DIRECTORY is where files are read and written (a tmpfs, for the bounds of
//! the loopback benchmark); 5.5 GiB are needed there, and freed at the end.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use penstock_net::aead::{Cipher, Key, Library, NONCE_BYTES};
use penstock_proto::digest::DigestKind;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxFlags, Timespec, Timestamps};
use rustix::net::sockopt;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const STRIDE: usize = 512 * 1024;
const RECORD: usize = 16 * 1024;
const GIB: usize = 1 << 30;
/// Sizes of the small files, and how many of each: as the benchmark's data sets have them, since a
/// large directory costs more a file than a small one.
const SMALL: [(usize, usize); 2] = [(4096, 100_000), (65536, 20_000)];

fn main() -> Outcome<()> {
    let mut arguments = std::env::args_os().skip(1);
    let usage = "usage: primitives DIRECTORY [REPETITIONS]";
    let directory = arguments.next().ok_or(usage)?;
    let repetitions = match arguments.next() {
        Some(text) => text.to_str().ok_or(usage)?.parse()?,
        None => 5,
    };
    let work = Path::new(&directory).join(format!("primitives-{}", std::process::id()));
    fs::create_dir(&work)?;
    let outcome = all(&work, repetitions);
    fs::remove_dir_all(&work)?;
    let medians: Vec<String> = outcome?
        .into_iter()
        .map(|(name, mut values)| {
            values.sort_by(f64::total_cmp);
            format!("\"{name}\": {:.4}", values[values.len() / 2])
        })
        .collect();
    writeln!(std::io::stdout(), "{{{}}}", medians.join(", "))?;
    Ok(())
}

/// Runs all steps as often as asked, in turn, so that a drift of the machine meets all of them.
fn all(work: &Path, repetitions: usize) -> Outcome<BTreeMap<String, Vec<f64>>> {
    let source = work.join("large");
    let mut buffer = noise(STRIDE);
    let mut file = File::create(&source)?;
    for _ in 0..GIB / STRIDE {
        file.write_all(&buffer)?;
    }
    for (size, files) in SMALL {
        fill(&work.join(format!("from-{size}")), size, files)?;
    }
    let mut found = BTreeMap::<String, Vec<f64>>::new();
    for _ in 0..repetitions {
        let mut note = |name: &str, value: f64| {
            found.entry(name.to_owned()).or_default().push(value);
        };
        note("blake3 s/GiB", hash(DigestKind::Blake3, &buffer));
        note("xxh3-128 s/GiB", hash(DigestKind::Xxh3, &buffer));
        note("blake3 of 4 KiB s/GiB", hash_files(DigestKind::Blake3, &buffer));
        note("xxh3-128 of 4 KiB s/GiB", hash_files(DigestKind::Xxh3, &buffer));
        note("aes-128-gcm s/GiB", seal(&mut buffer)?);
        note("socket s/GiB", socket()?);
        // Once before it counts: pages that a virtual machine's host has taken back cost more.
        copy(&source, &work.join("copy"))?;
        note("file s/GiB", copy(&source, &work.join("copy"))?);
        for (size, files) in SMALL {
            for (step, value) in small_files(work, size, files)? {
                note(&format!("{step} of {} KiB us/file", size / 1024), value);
            }
        }
    }
    Ok(found)
}

/// Returns the CPU seconds of `work`.
fn timed<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let before = penstock_sys::cpu_seconds();
    let result = work();
    (penstock_sys::cpu_seconds() - before, result)
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    })
    .take(bytes)
    .collect()
}

/// Measures a hash of a GiB of cached data, message by message.
fn hash(kind: DigestKind, message: &[u8]) -> f64 {
    let (seconds, ()) = timed(|| {
        for _ in 0..GIB / message.len() {
            let message = std::hint::black_box(message);
            std::hint::black_box(kind.stride(message.len() as u64, 0, message));
        }
    });
    seconds
}

/// Hashes the same bytes as files of 4 KiB, several of which are hashed together.
fn hash_files(kind: DigestKind, buffer: &[u8]) -> f64 {
    let mut digests = Vec::new();
    let (seconds, ()) = timed(|| {
        for _ in 0..GIB / buffer.len() {
            let files = std::hint::black_box(buffer).chunks_exact(4096);
            digests.clear();
            kind.whole_files(files, &mut digests);
            std::hint::black_box(&digests);
        }
    });
    seconds
}

/// Measures the sealing of a GiB of cached data in place, record by record, each with its tag
/// behind it.
fn seal(buffer: &mut [u8]) -> Outcome<f64> {
    let cipher = Cipher::Aes128Gcm;
    let key = Key::new(Library::fastest(cipher), cipher, &[7; 16])?;
    let (seconds, outcome) = timed(|| {
        let mut count = 0u64;
        for _ in 0..GIB / buffer.len() {
            for record in buffer.chunks_mut(RECORD) {
                let mut nonce = [0; NONCE_BYTES];
                nonce[..8].copy_from_slice(&count.to_le_bytes());
                count += 1;
                key.seal_in_place(nonce, &[], 0, record)?;
            }
        }
        Ok::<_, penstock_net::aead::Failed>(())
    });
    outcome?;
    Ok(seconds)
}

/// Measures two GiB over two loopback connections at a time, per GiB.
fn socket() -> Outcome<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    // Before there is a connection; the host's own will do where it is not there.
    let _ = sockopt::set_tcp_congestion(&listener, "cubic");
    let address = listener.local_addr()?;
    let (seconds, outcome) = timed(|| {
        std::thread::scope(|scope| {
            let mut ends = Vec::new();
            for _ in 0..2 {
                let receiver = TcpStream::connect(address)?;
                let (sender, _) = listener.accept()?;
                for end in [&sender, &receiver] {
                    sockopt::set_socket_send_buffer_size(end, STRIDE)?;
                    sockopt::set_socket_recv_buffer_size(end, STRIDE)?;
                }
                ends.push(scope.spawn(move || send(sender)));
                ends.push(scope.spawn(move || receive(receiver)));
            }
            ends.into_iter().try_for_each(|end| end.join().map_err(|_| "a thread died")?)
        })
    });
    outcome?;
    Ok(seconds / 2.0)
}

fn send(mut stream: TcpStream) -> Outcome<()> {
    let buffer = vec![1; STRIDE];
    for _ in 0..GIB / STRIDE {
        stream.write_all(&buffer)?;
    }
    Ok(())
}

fn receive(mut stream: TcpStream) -> Outcome<()> {
    let mut buffer = vec![0; STRIDE];
    for _ in 0..GIB / STRIDE {
        stream.read_exact(&mut buffer)?;
    }
    Ok(())
}

/// Measures the copy of a GiB from one file to a new one.
fn copy(from: &Path, to: &Path) -> Outcome<f64> {
    let mut buffer = vec![0; STRIDE];
    let (seconds, outcome) = timed(|| {
        let (source, target) = (File::open(from)?, File::create(to)?);
        for stride in 0..GIB / STRIDE {
            let offset = (stride * STRIDE) as u64;
            source.read_exact_at(&mut buffer, offset)?;
            target.write_all_at(&buffer, offset)?;
        }
        Ok::<_, std::io::Error>(())
    });
    outcome?;
    fs::remove_file(to)?;
    Ok(seconds)
}

fn fill(directory: &Path, size: usize, files: usize) -> Outcome<()> {
    fs::create_dir(directory)?;
    let content = noise(size);
    for number in 0..files {
        fs::write(directory.join(format!("file-{number:06}")), &content)?;
    }
    Ok(())
}

/// Measures the calls of the kernel that every small file needs. Reading a file: list it, look at
/// it, get its attributes; open, read, look at again, close. Writing it: make, write, set its time,
/// close, rename. Returns microseconds per file.
fn small_files(work: &Path, size: usize, files: usize) -> Outcome<Vec<(&'static str, f64)>> {
    let from = work.join(format!("from-{size}"));
    let to = work.join("to");
    fs::create_dir(&to)?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let source = rustix::fs::openat(CWD, &from, flags, Mode::empty())?;
    let target = rustix::fs::openat(CWD, &to, flags, Mode::empty())?;
    let mut buffer = vec![0; size];
    let wanted = StatxFlags::BASIC_STATS;
    let (list, names) = timed(|| {
        let mut names = Vec::new();
        for entry in fs::read_dir(&from)? {
            let name = entry?.file_name();
            rustix::fs::statx(&source, &name, AtFlags::SYMLINK_NOFOLLOW, wanted)?;
            let mut attributes = [0; 1024];
            if let Some(told) =
                penstock_sys::list_xattrs_at(source.as_fd(), name.as_bytes(), &mut attributes)
            {
                told?;
            }
            names.push(name);
        }
        Ok::<_, std::io::Error>(names)
    });
    let names = names?;
    let (read, outcome) = timed(|| {
        for name in &names {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let file = rustix::fs::openat(&source, name, flags, Mode::empty())?;
            rustix::io::pread(&file, &mut buffer, 0)?;
            rustix::fs::statx(&file, c"", AtFlags::EMPTY_PATH, wanted)?;
        }
        Ok::<_, rustix::io::Errno>(())
    });
    outcome?;
    let time = Timespec { tv_sec: 1_700_000_000, tv_nsec: 1 };
    let times = Timestamps { last_access: time, last_modification: time };
    let temporary = |number: usize| format!(".pst-{number:026}");
    let (write, outcome) = timed(|| {
        for number in 0..names.len() {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o644);
            let file = rustix::fs::openat(&target, temporary(number), flags, mode)?;
            rustix::io::pwrite(&file, &buffer, 0)?;
            rustix::fs::futimens(&file, &times)?;
        }
        Ok::<_, rustix::io::Errno>(())
    });
    outcome?;
    let (rename, outcome) = timed(|| {
        for (number, name) in names.iter().enumerate() {
            rustix::fs::renameat(&target, temporary(number), &target, name)?;
        }
        Ok::<_, rustix::io::Errno>(())
    });
    outcome?;
    fs::remove_dir_all(&to)?;
    let per_file = |seconds: f64| seconds / files as f64 * 1e6;
    let steps = [("list", list), ("read", read), ("write", write), ("rename", rename)];
    Ok(steps.into_iter().map(|(step, seconds)| (step, per_file(seconds))).collect())
}
