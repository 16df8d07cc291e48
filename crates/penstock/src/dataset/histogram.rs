//! `penstock dataset histogram`: regular files of a tree counted by powers of two of their size.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use penstock_proto::units::format_bytes;
use serde::Serialize;

use penstock_exit::{self as exit, ExitCode, Failure};

/// Arguments of `penstock dataset histogram`.
#[derive(Args)]
#[command(after_help = exit::help_of(&[
    (ExitCode::Done, "all files are counted"),
    (ExitCode::Unclassified, ""),
    (ExitCode::Usage, ""),
    (ExitCode::SomeFailed, "some directories or files could not be read; they are listed"),
    (ExitCode::Fatal, "the directory cannot be read"),
]))]
pub(crate) struct HistogramArgs {
    /// Directory whose regular files are counted, at any depth. Symbolic links are not followed; a
    /// file with several names counts once per name
    dir: PathBuf,
    /// Print one line of JSON, sizes in bytes
    #[arg(long)]
    json: bool,
}

/// What was counted.
#[derive(Default)]
pub(crate) struct Counts {
    /// Files and bytes by the smallest size of the class: 0, or a power of two.
    classes: BTreeMap<u64, (u64, u64)>,
    directories: u64,
    largest_bytes: u64,
    errors: u64,
}

/// One line of the histogram.
#[derive(Serialize)]
pub(crate) struct Class {
    /// Sizes from this on, up to below its double.
    pub(crate) from_bytes: u64,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Bytes of this class and all smaller ones.
    accumulated_bytes: u64,
}

/// Runs the command; blocks until the tree is walked.
pub(crate) fn run(args: &HistogramArgs) -> anyhow::Result<ExitCode> {
    let counts = walk(&args.dir)?;
    let text = if args.json { counts.json() } else { counts.table() };
    exit::print(&text)?;
    if counts.errors == 0 {
        return Ok(ExitCode::Done);
    }
    exit::warn(&format!("error: {} entries could not be counted", counts.errors));
    Ok(ExitCode::SomeFailed)
}

/// Counts everything beneath `root`. What cannot be read is said and counted as an error; only
/// an unreadable root is a failure.
fn walk(root: &Path) -> Result<Counts, Failure> {
    let mut counts = Counts::default();
    let mut open = vec![root.to_owned()];
    while let Some(dir) = open.pop() {
        match list(&dir, &mut counts, &mut open) {
            Ok(()) => counts.directories += 1,
            Err(error) if dir == root => {
                return Err(Failure::io(format!("list directory `{}`", dir.display()), error));
            }
            Err(error) => counts.missed(&dir, &error),
        }
    }
    Ok(counts)
}

fn list(dir: &Path, counts: &mut Counts, open: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type();
        if kind.as_ref().is_ok_and(|kind| kind.is_dir()) {
            open.push(entry.path());
        } else if kind.as_ref().is_ok_and(|kind| !kind.is_file()) {
            continue;
        } else {
            match kind.and_then(|_| entry.metadata()) {
                Ok(metadata) => counts.add(metadata.len()),
                Err(error) => counts.missed(&entry.path(), &error),
            }
        }
    }
    Ok(())
}

impl Counts {
    /// Counts a file of that size.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.add_equal(1, bytes);
    }

    /// Counts files of one size.
    pub(crate) fn add_equal(&mut self, files: u64, bytes: u64) {
        let class = bytes.checked_ilog2().map_or(0, |power| 1 << power);
        let (count, sum) = self.classes.entry(class).or_default();
        *count += files;
        *sum += files.saturating_mul(bytes);
        self.largest_bytes = self.largest_bytes.max(bytes);
    }

    fn missed(&mut self, path: &Path, error: &std::io::Error) {
        self.errors += 1;
        exit::warn(&format!("error: count `{}`\ncause: {error}", path.display()));
    }

    /// Returns the number of files.
    pub(crate) fn files(&self) -> u64 {
        self.classes.values().map(|(files, _)| files).sum()
    }

    /// Returns the bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        self.classes.values().map(|(_, bytes)| bytes).sum()
    }

    fn mean_bytes(&self) -> f64 {
        self.bytes() as f64 / self.files().max(1) as f64
    }

    /// Returns the classes that have files, the smallest size first.
    pub(crate) fn classes(&self) -> Vec<Class> {
        let mut accumulated_bytes = 0;
        let class = |(&from_bytes, &(files, bytes)): (&u64, &(u64, u64))| {
            accumulated_bytes += bytes;
            Class { from_bytes, files, bytes, accumulated_bytes }
        };
        self.classes.iter().map(class).collect()
    }

    fn json(&self) -> String {
        let summary = serde_json::json!({
            "type": "summary",
            "version": 1,
            "state": if self.errors == 0 { "done" } else { "failed" },
            "files": self.files(),
            "bytes": self.bytes(),
            "directories": self.directories,
            "mean_bytes": self.mean_bytes(),
            "largest_bytes": self.largest_bytes,
            "errors": self.errors,
            "classes": self.classes(),
        });
        summary.to_string()
    }

    fn table(&self) -> String {
        let row = |size: &str, files: &str, bytes: &str, accumulated: &str| {
            format!("{size:>10} {files:>12} {bytes:>12} {accumulated:>12}\n")
        };
        let mut text = row("size from", "files", "bytes", "accumulated");
        for class in self.classes() {
            text.push_str(&row(
                &format_bytes(class.from_bytes),
                &class.files.to_string(),
                &format_bytes(class.bytes),
                &format_bytes(class.accumulated_bytes),
            ));
        }
        text.push_str(&format!(
            "{} files in {} directories, {} ({} bytes), mean {}, largest {}",
            self.files(),
            self.directories,
            format_bytes(self.bytes()),
            self.bytes(),
            format_bytes(self.mean_bytes() as u64),
            format_bytes(self.largest_bytes),
        ));
        text
    }
}
