//! The log-ins of a user of this host: one file, for its owner alone.
//!
//! The file is `penstock/credentials` in `$XDG_CONFIG_HOME`, else in `~/.config` (XDG Base
//! Directory Specification 0.8). The Python client reads it too.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use penstock_api::access::Secret;
use penstock_exit::{ExitCode, Failure};
use penstock_proto::id::Name;
use serde::{Deserialize, Serialize};

/// Longest file that is read, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// All log-ins.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Credentials {
    /// Address of the daemon that commands ask unless the environment names another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) default: Option<String>,
    /// The log-ins, by the addresses of the daemons, as `https://HOST:PORT`.
    #[serde(default)]
    pub(crate) sites: BTreeMap<String, Login>,
}

/// A log-in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Login {
    /// The user.
    pub(crate) user: Name,
    /// The token.
    pub(crate) token: Secret,
    /// Time at which it expires, in seconds since 1970.
    pub(crate) expires: u64,
    /// The authority of the daemon's certificate, PEM.
    pub(crate) ca: String,
}

impl Credentials {
    /// Reads the file; none has no log-ins. Blocks on storage.
    ///
    /// # Errors
    /// It cannot be read, others may read it, or it is damaged.
    pub(crate) fn load() -> Result<Self, Failure> {
        match path() {
            Some(path) => Self::load_from(&path),
            None => Ok(Self::default()),
        }
    }

    fn load_from(path: &Path) -> Result<Self, Failure> {
        let failed = |error| Failure::io(format!("read `{}`", path.display()), error);
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error)),
        };
        let mode = file.metadata().map_err(failed)?.mode();
        if mode & 0o077 != 0 {
            let title = format!("others may read `{}`, which has tokens", path.display());
            let hint = format!("`chmod 600 {}`, and log in again", path.display());
            return Err(Failure::new(ExitCode::NotAuthorised, title).hint(hint));
        }
        let mut text = String::new();
        file.take(BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
        toml::from_str(&text).map_err(|error| {
            // The error of the parser would repeat lines, and with them tokens.
            let title = format!("`{}` is damaged: {}", path.display(), error.message());
            Failure::new(ExitCode::Usage, title).hint("remove it, and log in again")
        })
    }

    /// Writes the file, whole or not at all, for its owner alone. Blocks on storage.
    ///
    /// # Errors
    /// There is no home directory, or the file cannot be written.
    pub(crate) fn save(&self) -> Result<(), Failure> {
        let path = path().ok_or_else(|| {
            let title = "no place for the log-in: neither `HOME` nor `XDG_CONFIG_HOME` is set";
            Failure::new(ExitCode::Usage, title).hint("set `HOME`")
        })?;
        self.save_to(&path)
    }

    fn save_to(&self, path: &Path) -> Result<(), Failure> {
        let text = toml::to_string(self).map_err(|error| {
            Failure::new(ExitCode::Unclassified, "cannot encode the log-in").caused_by(error)
        })?;
        let parent = path.parent().unwrap_or(Path::new("."));
        let write = || -> io::Result<()> {
            DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
            // No other process of this user has this name.
            let temporary = path.with_extension(format!("{}.new", std::process::id()));
            let mut file = OpenOptions::new();
            let mut file = file.write(true).create_new(true).mode(0o600).open(&temporary)?;
            let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
            let renamed = written.and_then(|()| fs::rename(&temporary, path));
            if renamed.is_err() {
                let _ = fs::remove_file(&temporary);
            }
            renamed
        };
        write().map_err(|error| Failure::io(format!("write `{}`", path.display()), error))
    }
}

/// Returns the path of the file; `None` without a home directory. A path that is relative does not
/// count (XDG Base Directory Specification).
fn path() -> Option<PathBuf> {
    let of = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    let config = of("XDG_CONFIG_HOME").or_else(|| of("HOME").map(|home| home.join(".config")));
    config.map(|config| config.join("penstock/credentials"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Promise: a log-in is read as it was written, by its owner alone; one that others may read
    /// is refused, and an error about the file shows no token.
    #[test]
    fn log_ins_are_for_their_owner() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("penstock/credentials");
        assert_eq!(Credentials::load_from(&path).unwrap(), Credentials::default());
        let login = Login {
            user: "anna".parse().unwrap(),
            token: Secret::new("pstk_secret"),
            expires: 7,
            ca: "-----BEGIN CERTIFICATE-----\nAA\n-----END CERTIFICATE-----\n".to_owned(),
        };
        let url = "https://hpc:7443".to_owned();
        let stored = Credentials { default: Some(url.clone()), sites: [(url, login)].into() };
        stored.save_to(&path).unwrap();
        assert_eq!(Credentials::load_from(&path).unwrap(), stored);
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert!(!format!("{stored:?}").contains("secret"));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("expires = 7", "expires = \"pstk_secret\"")).unwrap();
        let damaged = Credentials::load_from(&path).unwrap_err();
        assert!(!format!("{damaged:?}").contains("secret"), "{damaged:?}");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let open = Credentials::load_from(&path).unwrap_err();
        assert!(open.to_string().contains("others may read"), "{open}");
    }
}
