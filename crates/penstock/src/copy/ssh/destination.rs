//! A place at another host, as the command line names it.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use penstock_proto::name;

use penstock_exit::{ExitCode, Failure};

/// Whom ssh logs in to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    /// `host` or `user@host`, as ssh takes it.
    pub(super) login: String,
    pub(super) port: Option<u16>,
}

impl Destination {
    /// Adds it to a command of OpenSSH; what follows is the far command.
    pub(super) fn add_to(&self, command: &mut Command) {
        if let Some(port) = self.port {
            command.arg("-p").arg(port.to_string());
        }
        command.arg("--").arg(&self.login);
    }

    pub(super) fn host(&self) -> &str {
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
    pub(super) destination: Destination,
    pub(super) path: Vec<u8>,
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
