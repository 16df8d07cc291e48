//! `penstock copy` from or to another host by the user's own ssh: no daemon, no configuration.
//!
//! ```text
//! local:  ssh host penstock ssh-serve ──── messages (`message`, `link`) ────▶ far: `serve`
//!         one end is the source: scan, pages, lanes   (`ends::SourceEnd`)
//!         the other the target: runner, ledger        (`ends::TargetParts`)
//!         lanes: direct, or through a port that ssh forwards (`lanes`, `client`)
//! ```
//! Whoever may log in is trusted, for this copy alone: the ends exchange authorities made for it
//! over the ssh channel (docs/design/0011). State for a resume stays where it is needed: the
//! ledger at the target, pages at the source, and at the local end the id under which the far end
//! keeps its part. The same command again finds it. After a copy that is done nothing is left but
//! the program in the far user's cache, if it had to be sent.

mod bootstrap;
mod client;
mod ends;
mod lanes;
mod link;
mod local;
mod message;
mod serve;

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use penstock_api::problem::{Exit, Problem};
use penstock_proto::name;

use crate::exit::{self, ExitCode, Failure};

use bootstrap::own_digest;
pub(crate) use ends::{check_apart, trace};
pub(crate) use local::{Wish, run};
pub(crate) use serve::{ServeArgs, run as serve};

/// How another host is reached.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Over ssh")]
pub(crate) struct SshArgs {
    /// The command that logs in, as in `ssh -p 2222 -i key`; OpenSSH or something that takes its
    /// options
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    ssh: String,
    /// Ports at which lanes may be listened for, as in 50000-50100; by default 64 that are drawn
    #[arg(long, value_name = "A-B", value_parser = parse_ports)]
    ports: Option<(u16, u16)>,
    /// Address or name of the other host to dial lanes at, where it also listens if it can; by
    /// default the host name of the ssh configuration. No address that the other host tells is
    /// dialled
    #[arg(long, value_name = "ADDRESS")]
    lane_address: Option<String>,
    /// The program at the other host; by default the one in its PATH or in ~/.cache/penstock
    #[arg(long, value_name = "PATH")]
    remote_penstock: Option<PathBuf>,
    /// Never send this program to the other host
    #[arg(long)]
    no_bootstrap: bool,
}

fn parse_ports(text: &str) -> Result<(u16, u16), String> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse(), last.trim().parse()) {
        (Ok(first), Ok(last)) if 0 < first && first <= last => Ok((first, last)),
        _ => Err("two ports, the lower first, as in 50000-50100".to_owned()),
    }
}

/// Whom ssh logs in to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    /// `host` or `user@host`, as ssh takes it.
    login: String,
    port: Option<u16>,
}

impl Destination {
    /// Adds it to a command of OpenSSH; what follows is the far command.
    fn add_to(&self, command: &mut Command) {
        if let Some(port) = self.port {
            command.arg("-p").arg(port.to_string());
        }
        command.arg("--").arg(&self.login);
    }

    fn host(&self) -> &str {
        self.login.rsplit_once('@').map_or(&self.login, |(_, host)| host)
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.login)?;
        self.port.map_or(Ok(()), |port| write!(out, ":{port}"))
    }
}

/// A path at another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    destination: Destination,
    path: Vec<u8>,
}

impl fmt::Display for Remote {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.destination, name::escape(&self.path))
    }
}

/// Reads `[user@]host:path` and `ssh://[user@]host[:port]/path`; `None` if it is a path here: one
/// without a colon, or with a slash before it, or `mem:` and `null:`.
///
/// # Errors
/// It means another host and cannot be read.
pub(crate) fn parse(argument: &Path) -> anyhow::Result<Option<Remote>> {
    let bytes = argument.as_os_str().as_bytes();
    if bytes.starts_with(b"mem:") || bytes == b"null:" {
        return Ok(None);
    }
    if let Some(rest) = bytes.strip_prefix(b"ssh://") {
        return parse_url(argument, rest).map(Some);
    }
    check_scheme(argument)?;
    // An IPv6 address is in brackets, so that its colons are not taken for the one before the path.
    let from = bytes.iter().position(|byte| *byte == b']').filter(|_| {
        let open = bytes.iter().position(|byte| *byte == b'[');
        open.is_some_and(|at| at == 0 || bytes[at - 1] == b'@')
    });
    let from = from.unwrap_or(0);
    let Some(colon) = bytes[from..].iter().position(|byte| *byte == b':').map(|at| from + at)
    else {
        return Ok(None);
    };
    if bytes[..colon].contains(&b'/') {
        return Ok(None);
    }
    let path = &bytes[colon + 1..];
    if path.starts_with(b":") {
        let message = format!("`{}` is of an rsync daemon", argument.display());
        return Err(Failure::new(ExitCode::Usage, message)
            .hint("write `host:path`, for which ssh is used")
            .into());
    }
    let destination = destination(argument, &bytes[..colon], None)?;
    Ok(Some(Remote { destination, path: path.to_vec() }))
}

/// Refuses addresses of other programs, which would be taken for hosts of ssh.
fn check_scheme(argument: &Path) -> anyhow::Result<()> {
    let bytes = argument.as_os_str().as_bytes();
    let refused = |message: String, hint: String| {
        Err(Failure::new(ExitCode::Usage, message).hint(hint).into())
    };
    if let [letter, b':', b'\\', ..] = bytes
        && letter.is_ascii_alphabetic()
    {
        let message = format!("`{}` is a path of Windows", argument.display());
        return refused(message, "write the path as this host has it".to_owned());
    }
    let Some(at) = bytes.windows(3).position(|part| part == b"://") else { return Ok(()) };
    let scheme = &bytes[..at];
    let sound = |byte: &u8| byte.is_ascii_alphanumeric() || b"+.-".contains(byte);
    if !scheme.first().is_some_and(u8::is_ascii_alphabetic) || !scheme.iter().all(sound) {
        return Ok(());
    }
    let (scheme, rest) = (scheme.to_ascii_lowercase(), &bytes[at + 3..]);
    let rest = OsStr::from_bytes(rest).display().to_string();
    let scheme = String::from_utf8_lossy(&scheme).into_owned();
    let message = format!("`{}`: penstock does not speak `{scheme}`", argument.display());
    let hint = match scheme.as_str() {
        "file" => format!("write the path alone: `{rest}`"),
        "sftp" | "scp" | "rsync" | "rsync+ssh" | "ssh+rsync" => {
            format!("where ssh may log in, write `ssh://{rest}`")
        }
        _ => format!(
            "write a path, `host:path` or `ssh://host/path`; `./{scheme}:…` for a file of that name"
        ),
    };
    refused(message, hint)
}

fn parse_url(argument: &Path, rest: &[u8]) -> anyhow::Result<Remote> {
    let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
    let (login, path) = rest.split_at(end);
    // As others have it, `/~/` is below the home directory.
    let path = if path.starts_with(b"/~/") || path == b"/~" { &path[1..] } else { path };
    let path = if path.is_empty() { b"~".as_slice() } else { path };
    let colon = login.iter().rposition(|byte| *byte == b':');
    let (login, port) = match colon.filter(|at| !login[*at..].contains(&b']')) {
        Some(at) => {
            let port =
                std::str::from_utf8(&login[at + 1..]).ok().and_then(|port| port.parse().ok());
            (&login[..at], Some(port.ok_or_else(|| unreadable(argument, "its port is no number"))?))
        }
        None => (login, None),
    };
    let destination = destination(argument, login, port)?;
    Ok(Remote { destination, path: path.to_vec() })
}

fn destination(argument: &Path, login: &[u8], port: Option<u16>) -> anyhow::Result<Destination> {
    let login = std::str::from_utf8(login).map_err(|_| unreadable(argument, "no such host"))?;
    let (user, host) = match login.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, login),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    // What begins with a dash would be an option of ssh.
    let sound = |text: &str| {
        !text.is_empty()
            && !text.starts_with('-')
            && !text.contains(|letter: char| letter.is_whitespace() || letter.is_control())
    };
    if !sound(host) || !user.is_none_or(sound) {
        return Err(unreadable(argument, "it names no host").into());
    }
    let login = user.map_or(host.to_owned(), |user| format!("{user}@{host}"));
    Ok(Destination { login, port })
}

fn unreadable(argument: &Path, why: &str) -> Failure {
    Failure::new(ExitCode::Usage, format!("`{}` cannot be read: {why}", argument.display()))
        .hint("write `[user@]host:path`, or `./a:b` for a local file with a colon in its name")
}

/// An error of this program as the other end is told it.
fn problem_of(error: &anyhow::Error) -> Problem {
    let exit = match exit::code_of(error) {
        ExitCode::Done => Exit::Done,
        ExitCode::Unclassified => Exit::Unclassified,
        ExitCode::Usage => Exit::Usage,
        ExitCode::SomeFailed => Exit::SomeFailed,
        ExitCode::SourceChanged => Exit::SourceChanged,
        ExitCode::Temporary => Exit::Temporary,
        ExitCode::Refused => Exit::Refused,
        ExitCode::Fatal => Exit::Fatal,
        ExitCode::Integrity => Exit::Integrity,
        ExitCode::NotAuthorised => Exit::NotAuthorised,
        ExitCode::Interrupted => Exit::Interrupted,
    };
    let causes: Vec<String> = error.chain().skip(1).map(ToString::to_string).collect();
    Problem::new(exit, "ssh", error.to_string())
        .because(causes.join(": "))
        .hint(exit::hint_of(error).unwrap_or_default())
}

/// Up to `bytes_max` bytes of a file; none at its end or if there is no such file.
fn read_part(path: &Path, offset: u64, bytes_max: usize) -> std::io::Result<Vec<u8>> {
    let mut file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?,
    };
    file.seek(SeekFrom::Start(offset))?;
    let mut part = Vec::new();
    file.take(bytes_max as u64).read_to_end(&mut part)?;
    Ok(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<(String, Option<u16>, String)> {
        parse(Path::new(text)).unwrap().map(|remote| {
            let path = String::from_utf8(remote.path).unwrap();
            (remote.destination.login, remote.destination.port, path)
        })
    }

    /// Promise: places at other hosts are written as for scp and rsync; a local file with a colon
    /// in its name can be named, and no host name becomes an option of ssh.
    #[test]
    fn places_are_read_as_by_scp_and_rsync() {
        let here = ["a", "/a:b", "./a:b", "a/b:c", "mem:files=1", "null:", "dir/"];
        for text in here {
            assert_eq!(read(text), None, "{text}");
        }
        for (text, login, port, path) in [
            ("host:a/b", "host", None, "a/b"),
            ("me@host:/x/", "me@host", None, "/x/"),
            ("host:", "host", None, ""),
            ("me@dom@host:a:b", "me@dom@host", None, "a:b"),
            ("[fe80::1]:/x", "fe80::1", None, "/x"),
            ("me@[::1]:x]", "me@::1", None, "x]"),
            ("ssh://host/x/y", "host", None, "/x/y"),
            ("ssh://me@host:2222/~/x", "me@host", Some(2222), "~/x"),
            ("ssh://[::1]:22/", "::1", Some(22), "/"),
            ("ssh://host", "host", None, "~"),
            ("host:null:", "host", None, "null:"),
        ] {
            assert_eq!(read(text), Some((login.to_owned(), port, path.to_owned())), "{text}");
        }
        for bad in ["-oProxyCommand=x:y", "me@-x:y", ":x", "ssh://host:x/", "a b:c", "h::m"] {
            assert!(parse(Path::new(bad)).is_err(), "{bad}");
        }
    }
}
