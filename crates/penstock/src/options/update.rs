//! The options that say how what is at the target already is treated.

use penstock_api::transfer::PathText;
use penstock_api::update::{CompareBy, IfExists, UpdateOptions};

use penstock_exit::{ExitCode, Failure};

/// How what is at the target already is treated.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "What is at the target already")]
pub(crate) struct UpdateArgs {
    /// Leave files that have the same size and time of modification, and links with the same text
    #[arg(long)]
    sync: bool,
    /// By what --sync tells files of the same size apart; those that are the same get the source's
    /// time of modification
    #[arg(long, value_enum, requires = "sync", value_name = "BY")]
    compare: Option<CompareArg>,
    /// What happens where a name is taken by something that is not the same
    #[arg(long, value_enum, default_value = "replace")]
    if_exists: IfExistsArg,
    /// When all is done, delete at the target what is not at the source: not after an error of the
    /// scan, not for an empty source, and not more than half of what was there. What is in the way
    /// of a directory, or a directory in the way of something else, goes before
    #[arg(long)]
    delete: bool,
    /// Delete this many items at most, and nothing at all if it would be more; more than half of
    /// the target may go then
    #[arg(long, value_name = "N", requires = "delete")]
    max_delete: Option<u64>,
    /// Move what is replaced or deleted into this directory below the target
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
    /// By the time of modification
    Time,
    /// By their BLAKE3: both sides read all files that have the same size, and only digests travel
    Digest,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum IfExistsArg {
    /// It is replaced, in one step, once the new one is complete and durable
    #[default]
    Replace,
    /// It stays, and counts as skipped
    Skip,
    /// It is replaced if the source's was modified later, else it stays
    Newer,
    /// It stays, and the item counts as failed (exit code 3)
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
