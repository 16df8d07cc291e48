//! Sends this very program to a host that has none of its release.

use std::fs::{self, File};
use std::io::{self, Read as _};

use penstock_proto::units::format_bytes;

use super::arguments::SshArgs;
use super::destination::Destination;
use penstock_exit::{self as exit, ExitCode, Failure};

/// The running program.
const OWN: &str = "/proc/self/exe";
/// Type of the program header that names a dynamic linker (elf(5), `PT_INTERP`).
const PT_INTERP: u32 = 3;

/// BLAKE3 of this program, in hex. Blocks on storage.
///
/// # Errors
/// It cannot be read.
pub(super) fn own_digest() -> Result<String, Failure> {
    let failed = |error| Failure::io("read the own program", error);
    let mut file = File::open(OWN).map_err(failed)?;
    let mut hasher = blake3::Hasher::new();
    let mut bytes = vec![0; 1 << 20];
    loop {
        match file.read(&mut bytes).map_err(failed)? {
            0 => return Ok(hasher.finalize().to_hex().to_string()),
            count => hasher.update(&bytes[..count]),
        };
    }
}

/// Whether this program needs the C library of its host.
fn is_dynamic() -> bool {
    // 64-bit ELF: offset, size and number of program headers are at 32, 54 and 56.
    let read = || -> Option<bool> {
        let mut head = vec![0; 16 << 10];
        let count = File::open(OWN).ok()?.read(&mut head).ok()?;
        head.truncate(count);
        let half = |at: usize| Some(u16::from_ne_bytes(head.get(at..at + 2)?.try_into().ok()?));
        let word = |at: usize| Some(u32::from_ne_bytes(head.get(at..at + 4)?.try_into().ok()?));
        let first = usize::try_from(word(32)?).ok()?;
        let (size, number) = (usize::from(half(54)?), usize::from(half(56)?));
        Some((0..number).any(|at| word(first + at * size) == Some(PT_INTERP)))
    };
    read().unwrap_or(true)
}

fn own_kind() -> String {
    let linked = if is_dynamic() { ", linked with glibc" } else { ", static" };
    format!("Linux {}{linked}", std::env::consts::ARCH)
}

/// Answers the far shell, which has said in `words` that it has no program of this release: why,
/// system, machine. Blocks until the program is taken.
///
/// # Errors
/// It is not to be sent, or would not run there: exit 7. It is not taken: exit 5.
pub(super) fn send(
    args: &SshArgs,
    destination: &Destination,
    words: &str,
    digest: &str,
    input: &mut impl io::Write,
) -> anyhow::Result<()> {
    let mut parts = words.rsplitn(3, ' ');
    let (machine, system) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
    let found = parts.next().unwrap_or("none");
    let release = env!("CARGO_PKG_VERSION");
    let what = match found {
        "none" => format!("{destination} has no penstock in its PATH"),
        "named" => {
            let named = args.remote_penstock.as_deref().unwrap_or(std::path::Path::new(""));
            let named = named.display();
            let message = format!("`{named}` at {destination} is not penstock {release}");
            return Err(Failure::new(ExitCode::Fatal, message)
                .hint("install that release there, or leave --remote-penstock out")
                .into());
        }
        path => format!("`{path}` at {destination} is not penstock {release}"),
    };
    if args.no_bootstrap {
        return Err(Failure::new(ExitCode::Fatal, what)
            .hint("install that release there, or allow it to be sent: without --no-bootstrap")
            .into());
    }
    let alike = match std::env::consts::ARCH {
        "aarch64" => ["aarch64", "arm64"].contains(&machine),
        own => own == machine,
    };
    if system != "Linux" || !alike {
        let message = format!("{what}, and this program does not run there");
        return Err(Failure::new(ExitCode::Fatal, message)
            .caused_by(format!("it is for {}, and the host is {system} {machine}", own_kind()))
            .hint("install a penstock there that is built for its system")
            .into());
    }
    let program = fs::read(OWN).map_err(|error| Failure::io("read the own program", error))?;
    let size = format_bytes(program.len() as u64);
    exit::warn(&format!(
        "{what}: sending this one, {size}, to ~/.cache/penstock/bin/penstock-{release}-{digest}"
    ));
    let sent = writeln!(input, "{}", program.len())
        .and_then(|()| input.write_all(&program))
        .and_then(|()| input.flush());
    sent.map_err(|error| {
        Failure::new(ExitCode::Temporary, format!("the program could not be sent to {destination}"))
            .caused_by(error)
    })?;
    Ok(())
}

/// The program is there and does not run.
pub(super) fn unfit(destination: &Destination, words: &str) -> Failure {
    if let Some(directory) = words.strip_prefix("unwritten ") {
        let message = format!("the program cannot be written to `{directory}` at {destination}");
        return Failure::new(ExitCode::Fatal, message)
            .hint("free space there, or install penstock and name it with --remote-penstock");
    }
    let message = format!("the program that was sent does not run at {destination}");
    let hint = if is_dynamic() {
        "build a static one (`make static`) and use that here, or install penstock there"
    } else {
        "install penstock there"
    };
    Failure::new(ExitCode::Fatal, message)
        .caused_by(format!("it is for {}; there: {}", own_kind(), words.trim()))
        .hint(hint)
}
