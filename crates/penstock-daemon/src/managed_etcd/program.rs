//! The program `etcd`: where it is, whether it is one to trust records to, and how it is called.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::config::OwnEtcdConfig;
use penstock_exit::{ExitCode, Failure};

/// Bytes of its database beyond which etcd refuses writes: many times the data that a site may have
/// (E6).
const QUOTA_BYTES: u64 = 2 << 30;
/// Milliseconds between the heartbeats of its leader.
const HEARTBEAT_MS: u32 = 250;
/// Milliseconds of silence after which its members elect another leader; at random up to twice it.
const ELECTION_MS: u32 = 2500;
/// Hours of history that etcd keeps; no part of the program reads it.
const HISTORY: &str = "1h";
/// Its password is 128 random bits: hashing it slowly would guard nothing.
const BCRYPT_COST: u32 = 4;

/// An etcd that is installed.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    version: (u32, u32, u32),
}

/// The way in which a member starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Begin {
    /// The member starts as the first of a new etcd.
    New,
    /// The member joins those that are named, `NAME=URL` each, itself included.
    Join(String),
    /// The member starts with its data on disk.
    Again,
    /// The member starts with its data on disk, as the only member left.
    Alone,
}

/// The addresses and directories of a member.
pub(super) struct Place<'a> {
    pub(super) name: &'a str,
    /// Tells two sites' members apart that find each other by mistake.
    pub(super) token: &'a str,
    pub(super) own: &'a OwnEtcdConfig,
    pub(super) data: &'a Path,
    pub(super) authority: &'a Path,
    pub(super) certificate: &'a Path,
    pub(super) key: &'a Path,
}

impl Program {
    /// Finds the program, and asks it for its version.
    ///
    /// # Errors
    /// The program is not installed, cannot be run, or is a release that loses data or lacks a
    /// needed feature.
    pub fn find(configured: Option<&Path>) -> anyhow::Result<Self> {
        let path = configured.unwrap_or(Path::new("etcd")).to_path_buf();
        let asked = Command::new(&path).arg("--version").stdin(Stdio::null()).output();
        let output = asked.map_err(|error| {
            let message = format!("the program `{}` cannot be run", path.display());
            Failure::new(ExitCode::Fatal, message).caused_by(error).hint(
                "install etcd 3.4 or later: the package `etcd-server` of Debian and Ubuntu 23.04 \
                 and later, `etcd` of Fedora and earlier Ubuntu, or a release of etcd.io",
            )
        })?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let version = version_of(&text).ok_or_else(|| {
            let message = format!("`{} --version` prints no version", path.display());
            Failure::new(ExitCode::Fatal, message).caused_by(text)
        })?;
        check_version(version)?;
        Ok(Self { path, version })
    }

    /// Returns a command that runs a member. The daemon's environment does not reach it: etcd would
    /// read options from there (such as `ETCD_UNSAFE_NO_FSYNC`).
    pub(super) fn command(&self, place: &Place<'_>, begin: &Begin) -> Command {
        let mut command = Command::new(&self.path);
        command.args(self.arguments(place, begin)).env_clear();
        // Where temporary files go; nothing else of it is of use to etcd.
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
    }

    /// Returns the arguments of a member's program, without the program's name.
    pub(super) fn arguments(&self, place: &Place<'_>, begin: &Begin) -> Vec<OsString> {
        let (client, peer) = (place.own.client_url(), place.own.peer_url());
        let alone = format!("{}={peer}", place.name);
        let (cluster, state) = match begin {
            Begin::New => (alone.as_str(), "new"),
            Begin::Join(cluster) => (cluster.as_str(), "existing"),
            Begin::Again | Begin::Alone => (alone.as_str(), "existing"),
        };
        let (heartbeat, election) = (HEARTBEAT_MS.to_string(), ELECTION_MS.to_string());
        let (quota, cost) = (QUOTA_BYTES.to_string(), BCRYPT_COST.to_string());
        let text = [
            ("name", place.name),
            ("listen-client-urls", &client),
            ("advertise-client-urls", &client),
            ("listen-peer-urls", &peer),
            ("initial-advertise-peer-urls", &peer),
            ("initial-cluster", cluster),
            ("initial-cluster-state", state),
            ("initial-cluster-token", place.token),
            ("heartbeat-interval", &heartbeat),
            ("election-timeout", &election),
            ("auto-compaction-mode", "periodic"),
            ("auto-compaction-retention", HISTORY),
            ("quota-backend-bytes", &quota),
            ("bcrypt-cost", &cost),
            ("client-cert-auth", "true"),
            ("peer-client-cert-auth", "true"),
            ("logger", "zap"),
            ("log-outputs", "stderr"),
            ("log-level", "warn"),
        ];
        let files = [
            ("data-dir", place.data),
            ("trusted-ca-file", place.authority),
            ("cert-file", place.certificate),
            ("key-file", place.key),
            ("peer-trusted-ca-file", place.authority),
            ("peer-cert-file", place.certificate),
            ("peer-key-file", place.key),
        ];
        let option = |name: &str, value: &std::ffi::OsStr| {
            let mut option = OsString::from(format!("--{name}="));
            option.push(value);
            option
        };
        let mut options: Vec<_> =
            text.iter().map(|(name, value)| option(name, value.as_ref())).collect();
        options.extend(files.iter().map(|(name, path)| option(name, path.as_os_str())));
        // A member whose data differs from the others' does not start.
        options.push(OsString::from(match self.version {
            (3, ..6, _) => "--experimental-initial-corrupt-check=true",
            _ => "--feature-gates=InitialCorruptCheck=true",
        }));
        if *begin == Begin::Alone {
            options.push(OsString::from("--force-new-cluster=true"));
        }
        options
    }
}

/// Returns the version in a text with the line `etcd Version: 3.4.23`.
fn version_of(text: &str) -> Option<(u32, u32, u32)> {
    let line = text.lines().find_map(|line| line.strip_prefix("etcd Version: "))?;
    let mut numbers = line.trim().splitn(3, '.').map(|part| {
        let digits = part.split(|character: char| !character.is_ascii_digit()).next();
        digits.and_then(|digits| digits.parse().ok())
    });
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

fn check_version((major, minor, patch): (u32, u32, u32)) -> Result<(), Failure> {
    let version = format!("{major}.{minor}.{patch}");
    let message = match (major, minor, patch) {
        (3, 5, 0..=2) => format!(
            "etcd {version} may lose confirmed writes when it is killed; install 3.5.3 or later, \
             or 3.4"
        ),
        (3, 4.., _) => return Ok(()),
        _ => format!("etcd {version} is not what this release knows; it wants 3.4 or later"),
    };
    Err(Failure::new(ExitCode::Fatal, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(version: (u32, u32, u32), begin: &Begin) -> Vec<String> {
        let own =
            OwnEtcdConfig { hosts: 3, address: "10.0.0.1:7445".parse().unwrap(), program: None };
        let place = Place {
            name: "h1",
            token: "hpc",
            own: &own,
            data: Path::new("/s/etcd/data"),
            authority: Path::new("/s/etcd/authority.pem"),
            certificate: Path::new("/s/etcd/server.pem"),
            key: Path::new("/s/etcd/server.key"),
        };
        let program = Program { path: "etcd".into(), version };
        let words = program.arguments(&place, begin);
        words.into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    /// Promise: releases that lose data, or lack a needed feature, are not trusted with records.
    #[test]
    fn releases_that_lose_data_are_refused() {
        let text = "etcd Version: 3.4.23\nGit SHA: Not provided\nGo Version: go1.19.8\n";
        assert_eq!(version_of(text), Some((3, 4, 23)));
        assert_eq!(version_of("etcd Version: 3.6.0-rc.1\n"), Some((3, 6, 0)));
        assert_eq!(version_of("something else"), None);
        for good in [(3, 4, 0), (3, 4, 23), (3, 5, 3), (3, 6, 0)] {
            check_version(good).unwrap();
        }
        for bad in [(3, 3, 27), (3, 5, 0), (3, 5, 2), (2, 3, 8), (4, 0, 0)] {
            assert!(check_version(bad).is_err(), "{bad:?}");
        }
    }

    /// Promise: etcd never runs with options that lose confirmed data, nor without mutual TLS on
    /// both of its ports; and it drops its history (E6).
    #[test]
    fn e6_etcd_is_called_so_that_it_keeps_what_it_confirms() {
        for begin in [Begin::New, Begin::Again, Begin::Join("h1=https://x:1".to_owned())] {
            let words = arguments((3, 4, 23), &begin);
            assert!(!words.iter().any(|word| word.contains("unsafe") || word.contains("force")));
            for wanted in [
                "--client-cert-auth=true",
                "--peer-client-cert-auth=true",
                "--auto-compaction-retention=1h",
                "--heartbeat-interval=250",
                "--election-timeout=2500",
                "--listen-client-urls=https://10.0.0.1:7445",
                "--listen-peer-urls=https://10.0.0.1:7446",
            ] {
                assert!(words.iter().any(|word| word == wanted), "{wanted}");
            }
        }
        let alone = arguments((3, 6, 1), &Begin::Alone);
        assert!(alone.iter().any(|word| word == "--force-new-cluster=true"));
        assert!(!alone.iter().any(|word| word.contains("experimental")), "gone in 3.6");
    }
}
