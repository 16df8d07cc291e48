//! The options that say how what is at the target already is treated.

use penstock_api::update::{IfExists, UpdateOptions};

/// How what is at the target already is treated.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "What is at the target already")]
pub(crate) struct UpdateArgs {
    /// Leave files that have the same size and time of modification, and links with the same text
    #[arg(long)]
    sync: bool,
    /// What happens where a name is taken by something that is not the same
    #[arg(long, value_enum, default_value = "replace")]
    if_exists: IfExistsArg,
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
    /// The options as a transfer has them.
    ///
    /// # Errors
    /// Options that exclude each other: a usage error.
    pub(crate) fn options(&self) -> anyhow::Result<UpdateOptions> {
        Ok(UpdateOptions {
            sync: self.sync,
            if_exists: match self.if_exists {
                IfExistsArg::Replace => IfExists::Replace,
                IfExistsArg::Skip => IfExists::Skip,
                IfExistsArg::Newer => IfExists::Newer,
                IfExistsArg::Fail => IfExists::Fail,
            },
            ..UpdateOptions::default()
        })
    }
}
