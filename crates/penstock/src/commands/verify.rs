//! `penstock verify`: compares two trees on this host, or a tree with a list of checksums.

use std::io::IsTerminal as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use penstock_peer::verify::{
    Finding, TreeEnd, TreeOptions, VerifyFigures, verify_list, verify_trees,
};
use penstock_proto::checksum::ChecksumKind;
use penstock_proto::name;
use penstock_proto::units::{counted, format_bytes, format_rate};
use serde_json::json;

use penstock_exit::{self as exit, ExitCode, Failure};

/// How often the figures are shown on a terminal, and elsewhere.
const SHOW_INTERVALS: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(10)];
/// Most threads: a disk gives no more to further ones.
const WORKERS_MAX: usize = 32;

/// Compares two trees, or a tree with a list of checksums
#[derive(clap::Args)]
#[command(after_help = exit::help_of(&[
    (ExitCode::Done, "the same"),
    (ExitCode::Unclassified, ""),
    (ExitCode::Usage, ""),
    (ExitCode::SomeFailed, "incomplete: some files are unreadable, or unfinished files of copies"),
    (ExitCode::SourceChanged, "incomplete: some files changed meanwhile"),
    (ExitCode::Fatal, "nothing was compared: a place or the list is missing or unreadable"),
    (ExitCode::Integrity, "different: files differ, are missing, or are there in addition"),
]))]
pub(crate) struct VerifyArgs {
    /// The original: a file or directory. A trailing slash means the contents of the directory. Not
    /// with --digest-list
    #[arg(value_name = "SRC", required_unless_present = "digest_list")]
    source: Option<PathBuf>,
    /// The copy to check, as `penstock copy SRC DST` would have made it
    #[arg(value_name = "DST", required_unless_present = "digest_list")]
    target: Option<PathBuf>,
    /// Compare the files of the directory with a list of `b3sum`, `sha256sum`, `md5sum`, `xxhsum`
    /// or similar, with or without `--tag`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "attributes"],
        requires = "source")]
    digest_list: Option<PathBuf>,
    /// Kind of the checksums, if the list does not name it: blake3, sha256, sha512, sha1, md5,
    /// xxh128, xxh3, xxh64, crc32, crc32c or adler32. Default: all kinds of the right length are
    /// tried until a file matches
    #[arg(long, value_name = "KIND", requires = "digest_list")]
    digest: Option<ChecksumKind>,
    /// Also compare mode, owner, times and extended attributes
    #[arg(long)]
    attributes: bool,
    /// Show progress where standard error is not a terminal: one line every 10 s
    #[arg(short = 'P', long)]
    progress: bool,
    /// Print JSON Lines
    #[arg(long)]
    json: bool,
}

/// Runs the command; blocks until everything is compared.
pub(crate) fn run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    penstock_sys::raise_file_limit();
    let figures = VerifyFigures::default();
    let watch = Watch::new(&figures, args);
    let broken = Mutex::new(None);
    let tell = |finding: Finding, path: &[u8], message: &str| {
        if let Err(error) = watch.tell(finding, path, message) {
            broken.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    };
    let workers = penstock_sys::available_cpus().clamp(2, WORKERS_MAX);
    let settled = std::thread::scope(|scope| {
        // Where there can be no other thread, nobody shows how far it is.
        let shown = std::thread::Builder::new().spawn_scoped(scope, || watch.show()).ok();
        let _end = shown.as_ref().map(|shown| End { watch: &watch, shown: shown.thread() });
        match (&args.digest_list, &args.source, &args.target) {
            (Some(list), Some(directory), _) => {
                check_list(list, directory, args.digest, workers, &figures, &tell)
            }
            (None, Some(source), Some(target)) => {
                let options = TreeOptions { attributes: args.attributes, workers };
                check_trees(source, target, options, &figures, &tell).map(|()| None)
            }
            // clap asks for them.
            _ => Err(Failure::new(ExitCode::Usage, "give SRC and DST").into()),
        }
    })?;
    if let Some(error) = broken.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error.into());
    }
    watch.summary(settled)
}

fn check_list(
    list: &Path,
    directory: &Path,
    kind: Option<ChecksumKind>,
    workers: usize,
    figures: &VerifyFigures,
    tell: &penstock_peer::verify::Teller<'_>,
) -> anyhow::Result<Option<ChecksumKind>> {
    let failed = |error| {
        Failure::io(format!("read the list `{}`", list.display()), error)
            .hint("give a list as b3sum or sha256sum write it")
    };
    let mut file = std::fs::File::open(list).map_err(failed)?;
    let there = std::fs::metadata(directory)
        .map_err(|error| Failure::io(format!("examine `{}`", directory.display()), error))
        .map_err(|failure| failure.hint("give the directory in which the names of the list lie"))?;
    if !there.is_dir() {
        let message = format!("`{}` is not a directory", directory.display());
        return Err(Failure::new(ExitCode::Fatal, message)
            .hint("give the directory in which the names of the list lie")
            .into());
    }
    verify_list(&mut file, directory, kind, workers, figures, tell).map_err(|problem| {
        let message = format!("cannot verify `{}`", directory.display());
        Failure::new(ExitCode::Fatal, message)
            .hint(format!("`{}` must be a list as b3sum or sha256sum write it", list.display()))
            .caused_by(problem)
            .into()
    })
}

fn check_trees(
    source: &Path,
    target: &Path,
    options: TreeOptions,
    figures: &VerifyFigures,
    tell: &penstock_peer::verify::Teller<'_>,
) -> anyhow::Result<()> {
    let look = |path: &Path| {
        std::fs::symlink_metadata(path)
            .map_err(|error| Failure::io(format!("examine `{}`", path.display()), error))
            .map_err(|failure| failure.hint("give a file or a directory that exists, and its copy"))
    };
    let meta = look(source)?;
    let contents = ends_in_slash(source);
    let tree = meta.is_dir() || (contents && source.is_dir());
    let made = made_by_copy(source, target, tree)?;
    if let Err(failure) = look(&made) {
        let hint = "compare the contents of two directories with a slash: `verify SRC/ DST`";
        let has_contents = tree && !contents && target.is_dir();
        return Err(if has_contents { failure.hint(hint) } else { failure }.into());
    }
    let (source, target) = match tree {
        true if !look(&made)?.is_dir() && !ends_in_slash(&made) => {
            tell(Finding::Differs, b"", "the target is not a directory");
            return Ok(());
        }
        true => ((source.to_owned(), Vec::new()), (made, Vec::new())),
        false => (parent_and_name(source), parent_and_name(&made)),
    };
    let end = |(directory, name)| TreeEnd { directory, name };
    let (source, target) = (end((&source.0, &source.1[..])), end((&target.0, &target.1[..])));
    verify_trees(source, target, options, figures, tell).map_err(|error| {
        let exit = if error.is_denied() { ExitCode::SomeFailed } else { ExitCode::Fatal };
        let hint = if error.is_denied() {
            "ask the owner for the right to read it"
        } else {
            "check the disk, server or mount of both places"
        };
        Failure::new(exit, "cannot compare").caused_by(error).hint(hint).into()
    })
}

/// Where `penstock copy SOURCE TARGET` puts what it copies.
fn made_by_copy(source: &Path, target: &Path, tree: bool) -> anyhow::Result<PathBuf> {
    let contents = tree && ends_in_slash(source);
    let into = !contents && (tree || ends_in_slash(target) || target.is_dir());
    if !into {
        return Ok(target.to_owned());
    }
    let resolved = if tree { source.canonicalize().ok() } else { Some(source.to_owned()) };
    let name = resolved.as_deref().and_then(Path::file_name).map(std::ffi::OsStr::to_owned);
    Ok(name.map_or_else(|| target.to_owned(), |name| target.join(name)))
}

/// The directory that holds `path`, and its name there.
fn parent_and_name(path: &Path) -> (PathBuf, Vec<u8>) {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let name = path.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
    (parent.unwrap_or(Path::new(".")).to_owned(), name)
}

fn ends_in_slash(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.") || bytes == b"."
}

/// Ends the thread that shows the figures, however the comparison ended.
struct End<'a, 'b> {
    watch: &'a Watch<'b>,
    shown: &'a std::thread::Thread,
}

impl Drop for End<'_, '_> {
    fn drop(&mut self) {
        self.watch.ended.store(true, Ordering::Release);
        self.shown.unpark();
    }
}

/// Shows what is found, and how far it is.
struct Watch<'a> {
    figures: &'a VerifyFigures,
    json: bool,
    bar: Option<ProgressBar>,
    lines: bool,
    began: Instant,
    ended: AtomicBool,
}

impl<'a> Watch<'a> {
    fn new(figures: &'a VerifyFigures, args: &VerifyArgs) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (terminal && !args.json).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            // The template is a constant; were it wrong, the default style would do.
            if let Ok(style) = ProgressStyle::with_template("{spinner} {wide_msg}") {
                bar.set_style(style);
            }
            bar
        });
        Self {
            figures,
            json: args.json,
            lines: args.progress && bar.is_none(),
            bar,
            began: Instant::now(),
            ended: AtomicBool::new(false),
        }
    }

    fn tell(&self, finding: Finding, path: &[u8], message: &str) -> Result<(), Failure> {
        let path = if path.is_empty() { b"." } else { path };
        let path = name::escape(path);
        let line = if self.json {
            let code = finding.as_str();
            json!({ "type": "error", "v": 1, "code": code, "path": path, "message": message })
                .to_string()
        } else if message.is_empty() {
            format!("{}: {path}", finding.as_str())
        } else {
            format!("{}: {path}: {message}", finding.as_str())
        };
        match &self.bar {
            Some(bar) => bar.suspend(|| exit::print(&line)),
            None => exit::print(&line),
        }
    }

    /// Shows how far it is, until it has ended.
    fn show(&self) {
        let interval = SHOW_INTERVALS[usize::from(self.bar.is_none())];
        loop {
            std::thread::park_timeout(interval);
            if self.ended.load(Ordering::Acquire) {
                break;
            }
            if let Some(bar) = &self.bar {
                bar.set_message(self.standing());
                bar.tick();
            } else if self.lines && self.json {
                let status = json!({
                    "type": "status", "v": 1, "files": self.load(|figures| &figures.files),
                    "bytes": self.load(|figures| &figures.bytes),
                });
                // The summary tells it if standard output is gone.
                let _ = exit::print(&status.to_string());
            } else if self.lines {
                exit::warn(&self.standing());
            }
        }
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn load(&self, of: impl Fn(&VerifyFigures) -> &std::sync::atomic::AtomicU64) -> u64 {
        of(self.figures).load(Ordering::Relaxed)
    }

    fn rate(&self) -> f64 {
        let seconds = self.began.elapsed().as_secs_f64();
        self.load(|figures| &figures.bytes) as f64 * 8.0 / seconds.max(1e-6)
    }

    fn standing(&self) -> String {
        let (files, bytes) = (self.load(|figures| &figures.files), self.load(|all| &all.bytes));
        let files = counted(files, "file");
        format!("{files}, {} compared, {}", format_bytes(bytes), format_rate(self.rate()))
    }

    fn summary(&self, settled: Option<ChecksumKind>) -> anyhow::Result<ExitCode> {
        let count = |finding| self.figures.count(finding);
        let [differing, missing, extra] =
            [Finding::Differs, Finding::Missing, Finding::Extra].map(count);
        let [unreadable, changed, unfinished] =
            [Finding::Unreadable, Finding::Changed, Finding::Unfinished].map(count);
        let (state, code) = if differing + missing + extra > 0 {
            ("different", ExitCode::Integrity)
        } else if unreadable + unfinished > 0 {
            ("incomplete", ExitCode::SomeFailed)
        } else if changed > 0 {
            ("incomplete", ExitCode::SourceChanged)
        } else {
            ("same", ExitCode::Done)
        };
        if self.json {
            let summary = json!({
                "type": "summary", "v": 1, "state": state, "exit": code as u8,
                "files": self.load(|figures| &figures.files),
                "bytes": self.load(|figures| &figures.bytes),
                "directories": self.load(|figures| &figures.directories),
                "others": self.load(|figures| &figures.others),
                "skipped": self.load(|figures| &figures.skipped),
                "differing": differing, "missing": missing, "extra": extra,
                "unreadable": unreadable, "changed": changed, "unfinished": unfinished,
                "own_state": self.load(|figures| &figures.own_state),
                "digest": settled, "seconds": self.began.elapsed().as_secs_f64(),
                "rate_bits_per_s": self.rate(),
            });
            exit::print(&summary.to_string())?;
            return Ok(code);
        }
        let kind = settled.map(|kind| format!(" by {kind}")).unwrap_or_default();
        let mut more = String::new();
        for (count, thing, what) in [
            (unfinished, "unfinished file", "of copies"),
            (self.load(|figures| &figures.own_state), "item", "of penstock's own state left out"),
            (self.load(|figures| &figures.skipped), "socket", "passed over"),
        ] {
            if count > 0 {
                more.push_str(&format!(", {} {what}", counted(count, thing)));
            }
        }
        exit::warn(&format!(
            "{state}: {} in {:.1} s{kind}; {differing} differing, {missing} missing, {extra} \
             extra, {unreadable} unreadable, {changed} changed meanwhile{more}",
            self.standing(),
            self.began.elapsed().as_secs_f64(),
        ));
        if unfinished > 0 {
            exit::warn("hint: `penstock copy --clean DIR` removes what interrupted copies left");
        }
        Ok(code)
    }
}
