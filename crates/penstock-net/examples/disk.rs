//! The plainest mover from memory to a disk: the bound that `penstock-bench disk` holds Penstock
//! against.
//!
//! ```text
//! cargo run --release -p penstock-net --example disk SOURCE TARGET \
//!     xxh3|blake3|tls-blake3 [direct|buffered [LANES]]
//! ```
//! Files of SOURCE go over loopback connections, one for each lane, into new files of TARGET: read,
//! hashed, sealed; opened, hashed, written past the page cache or through it, all synced at the
//! end. The program has no frames, no requests, no ledger, no resume. One JSON object goes to
//! stdout: seconds, and CPU seconds of this process. Files are whole strides.

use std::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use penstock_net::aead::{Cipher, Key, Library, NONCE_BYTES, TAG_BYTES};
use penstock_proto::digest::DigestKind;
use penstock_sys::buffer::BufferPool;
use rustix::fs::{OFlags, syncfs};
use rustix::net::sockopt;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const STRIDE: usize = 512 * 1024;
const RECORD: usize = 16 * 1024;
/// A record and its tag.
const SEALED: usize = RECORD + TAG_BYTES;
const USAGE: &str = "usage: disk SOURCE TARGET xxh3|blake3|tls-blake3 [direct|buffered [LANES]]";

/// The work that each stride costs beside its move.
#[derive(Clone, Copy)]
struct Care {
    digest: DigestKind,
    sealed: bool,
    /// Past the page cache.
    direct: bool,
}

fn main() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [source, target, care, rest @ ..] = arguments.as_slice() else { return Err(USAGE.into()) };
    let direct = match rest.first().map(String::as_str) {
        None | Some("direct") => true,
        Some("buffered") => false,
        Some(_) => return Err(USAGE.into()),
    };
    let (digest, sealed) = match care.as_str() {
        "xxh3" => (DigestKind::Xxh3, false),
        "blake3" => (DigestKind::Blake3, false),
        "tls-blake3" => (DigestKind::Blake3, true),
        _ => return Err(USAGE.into()),
    };
    let care = Care { digest, sealed, direct };
    let lanes = rest.get(1).map_or(Ok(4), |text| text.parse())?;
    let mut files = Vec::new();
    for entry in fs::read_dir(source)? {
        files.push(entry?.path());
    }
    files.sort();
    let (cpu, begun) = (penstock_sys::cpu_seconds(), Instant::now());
    move_all(&files, Path::new(target), care, lanes)?;
    syncfs(File::open(target)?)?;
    let (wall, cpu) = (begun.elapsed().as_secs_f64(), penstock_sys::cpu_seconds() - cpu);
    writeln!(std::io::stdout(), "{{\"wall_s\": {wall:.3}, \"cpu_s\": {cpu:.3}}}")?;
    Ok(())
}

fn move_all(files: &[PathBuf], target: &Path, care: Care, lanes: usize) -> Outcome<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    // The host's own will do where it is not there.
    let _ = sockopt::set_tcp_congestion(&listener, "cubic");
    let pool = &BufferPool::new(2 * STRIDE, 4 * lanes);
    std::thread::scope(|scope| {
        let mut ends = Vec::new();
        for lane in 0..lanes {
            let receiver = TcpStream::connect(listener.local_addr()?)?;
            let (sender, _) = listener.accept()?;
            for end in [&sender, &receiver] {
                sockopt::set_socket_send_buffer_size(end, STRIDE)?;
                sockopt::set_socket_recv_buffer_size(end, STRIDE)?;
            }
            let mine = move || files.iter().skip(lane).step_by(lanes);
            ends.push(scope.spawn(move || send(sender, mine(), care, pool)));
            ends.push(scope.spawn(move || receive(receiver, mine(), target, care, pool)));
        }
        ends.into_iter().try_for_each(|end| end.join().map_err(|_| "a thread died")?)
    })
}

fn send<'a>(
    mut stream: TcpStream,
    files: impl Iterator<Item = &'a PathBuf>,
    care: Care,
    pool: &BufferPool,
) -> Outcome<()> {
    let key = key()?;
    for path in files {
        let (file, size) = (File::open(path)?, fs::metadata(path)?.len());
        for at in (0..size).step_by(STRIDE) {
            let mut stride = pool.take();
            let stride = &mut stride[..STRIDE];
            file.read_exact_at(stride, at)?;
            std::hint::black_box(care.digest.stride(size, at, stride));
            if care.sealed {
                let mut sealed = pool.take();
                for (record, out) in stride.chunks(RECORD).zip(sealed.chunks_mut(SEALED)) {
                    let (last, content) = record.split_last().ok_or("a record is empty")?;
                    key.seal(nonce(at), &[], content, *last, out)?;
                }
                stream.write_all(&sealed[..sent_bytes(care)])?;
            } else {
                stream.write_all(stride)?;
            }
        }
    }
    Ok(())
}

fn receive<'a>(
    mut stream: TcpStream,
    files: impl Iterator<Item = &'a PathBuf>,
    target: &Path,
    care: Care,
    pool: &BufferPool,
) -> Outcome<()> {
    let key = key()?;
    for path in files {
        let size = fs::metadata(path)?.len();
        let flags = if care.direct { OFlags::DIRECT } else { OFlags::empty() };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).custom_flags(i32::try_from(flags.bits())?);
        let file = options.open(target.join(path.file_name().ok_or("a file has a name")?))?;
        file.set_len(size)?;
        for at in (0..size).step_by(STRIDE) {
            let mut buffer = pool.take();
            stream.read_exact(&mut buffer[..sent_bytes(care)])?;
            if care.sealed {
                let mut opened = pool.take();
                let records = buffer.chunks(SEALED).zip(opened[..STRIDE].chunks_mut(RECORD));
                for (record, into) in records {
                    key.open(nonce(at), &[], record, into)?;
                }
                buffer = opened;
            }
            std::hint::black_box(care.digest.stride(size, at, &buffer[..STRIDE]));
            file.write_all_at(&buffer[..STRIDE], at)?;
        }
    }
    Ok(())
}

fn sent_bytes(care: Care) -> usize {
    if care.sealed { STRIDE / RECORD * SEALED } else { STRIDE }
}

fn key() -> Outcome<Key> {
    let cipher = Cipher::Aes128Gcm;
    Ok(Key::new(Library::fastest(cipher), cipher, &[7; 16])?)
}

fn nonce(at: u64) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    nonce[..8].copy_from_slice(&at.to_le_bytes());
    nonce
}
