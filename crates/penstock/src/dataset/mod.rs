//! `penstock dataset`: test data of known shape, and the shape of data at hand.
//!
//! `make` fills a directory with incompressible files. The same arguments and `--seed` give the
//! same names, sizes and bytes, whatever the number of threads, so a set need not be kept: it can
//! be made again where it is needed. `histogram` counts the files of a directory by powers of two
//! of their size, in the form in which the shapes of production data are published.
//!
//! How the presets are scaled to `--bytes` is told in [`preset`].

mod histogram;
mod make;
mod preset;
mod shape;

use clap::{Args, Subcommand};

use penstock_exit::ExitCode;

pub(crate) use histogram::{Class, Counts};
pub(crate) use make::{Filled, fill, path_within, shuffle};
pub(crate) use shape::Shape;

/// Arguments of `penstock dataset`.
#[derive(Args)]
pub(crate) struct DatasetArgs {
    #[command(subcommand)]
    command: DatasetCommand,
}

#[derive(Subcommand)]
enum DatasetCommand {
    /// Fills a directory with files of given or published sizes and incompressible content
    Make(make::MakeArgs),
    /// Counts the files of a directory by powers of two of their size
    Histogram(histogram::HistogramArgs),
}

/// Runs the command; blocks until it is done.
pub(crate) fn run(args: DatasetArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        DatasetCommand::Make(args) => make::run(&args),
        DatasetCommand::Histogram(args) => histogram::run(&args),
    }
}
