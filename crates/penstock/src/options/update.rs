//! The options that say how what is at the target already is treated.

use penstock_api::transfer::PathText;
use penstock_api::update::{CompareBy, IfExists, UpdateOptions};

use penstock_exit::{ExitCode, Failure};

/// How what is at the target already is treated.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Existing items at the target")]
pub(crate) struct UpdateArgs {
    /// Skip files whose size and modification time are the same at the target, and links with the
    /// same text
    #[arg(long)]
    sync: bool,
    /// How --sync compares files of the same size. Files that are the same get the modification
    /// time of the source
    #[arg(long, value_enum, requires = "sync", value_name = "BY")]
    compare: Option<CompareArg>,
    /// What to do where the target has a different item of the same name
    #[arg(long, value_enum, default_value = "replace")]
    if_exists: IfExistsArg,
    /// Delete items at the target that are not at the source, after everything else. Deletes
    /// nothing after a scan error, for an empty source, or if more than half of the target would
    /// go. An item that blocks a directory, or a directory that blocks another item, is deleted
    /// first
    #[arg(long)]
    delete: bool,
    /// Delete at most N items, and nothing if there are more. Replaces the limit of half of the
    /// target
    #[arg(long, value_name = "N", requires = "delete")]
    max_delete: Option<u64>,
    /// Move replaced and deleted items into this directory below the target
    #[arg(long, value_name = "DIR", value_parser = parse_backup_dir)]
    backup_dir: Option<PathText>,
}

fn parse_backup_dir(text: &str) -> Result<PathText, String> {
    let path = PathText(text.trim_end_matches('/').as_bytes().to_vec());
    let options = UpdateOptions { backup_dir: Some(path.clone()), ..UpdateOptions::default() };
    options.check(false).map(|()| path).map_err(str::to_owned)
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum CompareArg {
    /// By modification time
    Time,
    /// By BLAKE3 digest: both sides read the files of the same size, and only digests are sent
    Digest,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum IfExistsArg {
    /// Replace it atomically when the new item is complete and durable
    #[default]
    Replace,
    /// Leave it, and count the item as skipped
    Skip,
    /// Replace it if the item of the source was modified later; else leave it
    Newer,
    /// Leave it, and count the item as failed (exit code 3)
    Fail,
}

impl UpdateArgs {
    /// The options as a transfer has them; `partial` says that only some of the source is meant.
    ///
    /// # Errors
    /// Options that exclude each other: a usage error.
    pub(crate) fn options(&self, partial: bool) -> anyhow::Result<UpdateOptions> {
        let options = UpdateOptions {
            delete: self.delete,
            max_delete: self.max_delete,
            backup_dir: self.backup_dir.clone(),
            sync: self.sync,
            compare: match self.compare {
                Some(CompareArg::Digest) => CompareBy::Digest,
                Some(CompareArg::Time) | None => CompareBy::Time,
            },
            if_exists: match self.if_exists {
                IfExistsArg::Replace => IfExists::Replace,
                IfExistsArg::Skip => IfExists::Skip,
                IfExistsArg::Newer => IfExists::Newer,
                IfExistsArg::Fail => IfExists::Fail,
            },
            only_new: false,
            kept_state: None,
        };
        options.check(partial).map_err(|why| Failure::new(ExitCode::Usage, why))?;
        Ok(options)
    }
}
