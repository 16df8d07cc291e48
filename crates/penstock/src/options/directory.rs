//! The site directory that a command works with.

use std::path::PathBuf;

use penstock_daemon::config::DIRECTORY_DEFAULT;

/// Which site directory a command works with.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct DirectoryArgs {
    /// The site directory: keys, configuration, state, socket
    #[arg(long = "dir", env = "PENSTOCK_DIR", default_value = DIRECTORY_DEFAULT, global = true)]
    pub(crate) directory: PathBuf,
}
