//! The option that makes a copy a move.

/// What becomes of the source.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "What becomes of the source")]
pub(crate) struct MoveArgs {
    /// Move: remove each item at the source once it is durable at the target and stands there, if
    /// it is still what was moved. The source's own directory stays, and so does every directory
    /// that holds something. Between sites the source's store must allow it
    #[arg(long, conflicts_with = "plan")]
    pub(crate) remove_source: bool,
}
