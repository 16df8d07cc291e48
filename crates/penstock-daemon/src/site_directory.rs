//! A site directory: the names in it that several commands use, and how one is made.

mod mounts;
mod owner;

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use crate::config::Config;
use penstock_exit::{ExitCode, Failure};

pub use mounts::{unescaped, write_drop_in};
pub use owner::act_as_owner;

/// The subdirectory of keys and certificates.
pub const TRUST_DIRECTORY: &str = "trust";

/// Makes a site directory, for its owner alone.
pub fn make_directory(directory: &Path) -> anyhow::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| {
        Failure::io(format!("make the directory `{}`", directory.display()), error)
    })?;
    // An existing directory, as systemd's StateDirectory, may be open to others.
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).map_err(|error| {
        Failure::io(format!("close `{}` to others", directory.display()), error)
    })?;
    Ok(())
}

/// Refuses a directory that is a site directory already.
pub fn check_free(directory: &Path) -> anyhow::Result<()> {
    let trust = directory.join(TRUST_DIRECTORY);
    for taken in [&Config::path(directory), &trust] {
        if taken.exists() {
            let message = format!("`{}` exists: there is a site already", taken.display());
            return Err(Failure::new(ExitCode::Refused, message)
                .hint(
                    "choose another directory, or remove this one if \
                       the site is no longer needed",
                )
                .into());
        }
    }
    Ok(())
}
