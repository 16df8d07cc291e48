//! The option that makes a copy a move.

/// What becomes of the source.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Source")]
pub(crate) struct MoveArgs {
    /// Move: remove each item at the source when it is durable at the target, if it has not changed
    /// since. The source directory itself and directories that are not empty remain. Between sites,
    /// the source store must allow it
    #[arg(long, conflicts_with = "plan")]
    pub(crate) remove_source: bool,
}
