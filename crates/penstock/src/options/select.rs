//! Which items are wanted: `--include`, `--exclude`, `--filter-from`, `--files-from`, sizes, ages.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgAction, ArgMatches, Command};
use penstock_api::select::{Newer, SelectRule, Selection};
use penstock_api::transfer::PathText;
use penstock_proto::name;
use penstock_proto::select::{Glob, RULES_MAX};
use penstock_proto::units::{FileTime, parse_size};
use time::format_description::well_known::{Iso8601, Rfc3339};
use time::{Date, OffsetDateTime};

use penstock_exit::{ExitCode, Failure};

/// Bytes of a line that a message shows.
const SHOWN_BYTES: usize = 80;
/// Heading of these options in `--help`.
const HEADING: &str = "Selection";

/// What is chosen of the source.
#[derive(clap::Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct SelectArgs {
    #[command(flatten)]
    rules: RuleArgs,
    /// Copy only the paths in FILE (`-`: standard input), one per line, relative to the source. `.`
    /// is the source itself; `\n`, `\t`, `\r`, `\\` and `\xHH` are escapes, as in lists of failed
    /// items
    #[arg(long, value_name = "FILE")]
    files_from: Option<PathBuf>,
    /// Read NUL-terminated paths without escapes from --files-from, as `find -print0` writes them
    #[arg(short = '0', long, requires = "files_from")]
    from0: bool,
    /// Exclude files smaller than SIZE, as in 64K, 1.5GiB, 2GB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    min_size: Option<u64>,
    /// Exclude files larger than SIZE
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// Exclude files that were not modified since WHEN: an age (2d, 1h30m; counted from the first
    /// run), a date (2026-11-01, midnight UTC) or a time (2026-11-01T06:00:00+01:00)
    #[arg(long, value_name = "WHEN", value_parser = parse_newer)]
    newer_than: Option<Newer>,
    /// Do not enter other file systems that are mounted below the source
    #[arg(short = 'x', long)]
    one_file_system: bool,
}

fn size(text: &str) -> Result<u64, String> {
    parse_size(text).map_err(|error| error.to_string())
}

/// What `SelectArgs` come to.
pub(crate) struct Chosen {
    /// For `TransferOptions::files_from`.
    pub(crate) files_from: Vec<PathText>,
    /// For `TransferOptions::select`.
    pub(crate) select: Selection,
}

impl Chosen {
    /// Whether more is left out than the names at the target can tell.
    pub(crate) fn is_partial(&self) -> bool {
        !self.files_from.is_empty() || self.select.leaves_unknown()
    }
}

impl SelectArgs {
    /// Reads the files that are named, and checks every pattern.
    ///
    /// # Errors
    /// A file cannot be read; a pattern or a path cannot be understood: exit 2.
    pub(crate) fn read(&self) -> anyhow::Result<Chosen> {
        let stdin = Path::new("-");
        let filter = |rule: &RuleArg| matches!(rule, RuleArg::File(path) if path == stdin);
        let readers = self.rules.0.iter().filter(|rule| filter(rule)).count();
        if readers + usize::from(self.files_from.as_deref() == Some(stdin)) > 1 {
            let message = "standard input can be read once only";
            return Err(Failure::new(ExitCode::Usage, message)
                .hint("give a file to all but one of --files-from and --filter-from")
                .into());
        }
        if let (Some(min), Some(max)) = (self.min_size, self.max_size)
            && min > max
        {
            let message = format!("no file has at least {min} and at most {max} bytes");
            return Err(Failure::new(ExitCode::Usage, message)
                .hint("swap --min-size and --max-size, or leave one out")
                .into());
        }
        let files_from = self.files_from.as_deref().map(|path| read_paths(path, self.from0));
        let select = Selection {
            rules: self.rules.read()?,
            size_min_bytes: self.min_size,
            size_max_bytes: self.max_size,
            newer_than: self.newer_than,
            one_file_system: self.one_file_system,
        };
        Ok(Chosen { files_from: files_from.transpose()?.unwrap_or_default(), select })
    }
}

/// Rules in the order of the command line, which derived arguments would lose.
struct RuleArgs(Vec<RuleArg>);

enum RuleArg {
    Glob { include: bool, glob: OsString },
    File(PathBuf),
}

impl clap::Args for RuleArgs {
    fn augment_args(command: Command) -> Command {
        let rule = |name: &'static str, value: &'static str, help: &'static str| {
            Arg::new(name)
                .long(name)
                .value_name(value)
                .help(help)
                .help_heading(HEADING)
                .value_parser(clap::value_parser!(OsString))
                .action(ArgAction::Append)
                .allow_hyphen_values(true)
        };
        command
            .arg(rule(
                "include",
                "GLOB",
                "Include items that match GLOB, as in .gitignore. The first match among --include, \
                 --exclude and --filter-from, in their order, decides; an item without a match is \
                 included",
            ))
            .arg(rule(
                "exclude",
                "GLOB",
                "Exclude items that match GLOB; a directory with all its contents",
            ))
            .arg(rule(
                "filter-from",
                "FILE",
                "Read rules from this file (`-`: standard input), one a line: `+ GLOB` or \
                 `- GLOB`; empty lines and lines that begin with `#` say nothing",
            ))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl clap::FromArgMatches for RuleArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut rules = Vec::new();
        for name in ["include", "exclude", "filter-from"] {
            let values = matches.get_many::<OsString>(name).unwrap_or_default();
            let places = matches.indices_of(name).unwrap_or_default();
            for (place, value) in places.zip(values) {
                let rule = match name {
                    "filter-from" => RuleArg::File(value.into()),
                    _ => RuleArg::Glob { include: name == "include", glob: value.clone() },
                };
                rules.push((place, rule));
            }
        }
        rules.sort_by_key(|(place, _)| *place);
        Ok(Self(rules.into_iter().map(|(_, rule)| rule).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl RuleArgs {
    fn read(&self) -> anyhow::Result<Vec<SelectRule>> {
        let mut rules = Vec::new();
        for rule in &self.0 {
            match rule {
                RuleArg::Glob { include, glob } => {
                    let option = if *include { "--include" } else { "--exclude" };
                    rules.push(rule_of(*include, glob.as_bytes(), option)?);
                }
                RuleArg::File(path) => read_rules(path, &mut rules)?,
            }
        }
        if rules.len() > RULES_MAX {
            let message =
                format!("there are {} rules; at most {RULES_MAX} are allowed", rules.len());
            return Err(Failure::new(ExitCode::Usage, message)
                .hint("a long list of paths is what --files-from is for")
                .into());
        }
        Ok(rules)
    }
}

fn rule_of(include: bool, glob: &[u8], place: &str) -> Result<SelectRule, Failure> {
    Glob::parse(glob).map_err(|error| {
        Failure::new(ExitCode::Usage, format!("{place}: {error}")).hint(
            "patterns are as in .gitignore: `*.tmp`, `/raw/run7`, `cache/`; quote them, so that \
             the shell leaves them as they are",
        )
    })?;
    Ok(SelectRule { include, glob: PathText(glob.to_vec()) })
}

fn read_rules(path: &Path, rules: &mut Vec<SelectRule>) -> anyhow::Result<()> {
    let text = read_bytes(path)?;
    for (at, line) in lines_of(&text).enumerate() {
        let place = || format!("`{}`, line {}", path.display(), at + 1);
        if line.ends_with(b"\r") {
            return Err(windows_line(path, &place()).into());
        }
        let line = line.trim_ascii_start();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let rule = match line {
            [b'+', blank, glob @ ..] if is_blank(*blank) => Some((true, glob)),
            [b'-', blank, glob @ ..] if is_blank(*blank) => Some((false, glob)),
            _ => None,
        };
        let Some((include, glob)) = rule else {
            let message = format!("{}: `{}` is no rule", place(), name::escape(line));
            return Err(Failure::new(ExitCode::Usage, message)
                .hint("write `+ GLOB` or `- GLOB`, one a line")
                .into());
        };
        rules.push(rule_of(include, trim_blanks(glob), &place())?);
    }
    Ok(())
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// A pattern without the blanks around it, as in `.gitignore`: one that belongs to it stands behind
/// a backslash.
fn trim_blanks(glob: &[u8]) -> &[u8] {
    let mut rest = glob;
    while let [blank, inner @ ..] = rest
        && is_blank(*blank)
    {
        rest = inner;
    }
    while let [inner @ .., blank] = rest
        && is_blank(*blank)
        && inner.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 0
    {
        rest = inner;
    }
    rest
}

/// The lines of a text, without the byte order mark that some editors put before it.
fn lines_of(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.strip_prefix(name::BYTE_ORDER_MARK).unwrap_or(text).split(|&byte| byte == b'\n')
}

fn windows_line(path: &Path, place: &str) -> Failure {
    let message = format!("{place}: the line ends in a carriage return, as lines of Windows do");
    let path = path.display();
    Failure::new(ExitCode::Usage, message).hint(format!(
        "convert the file: `sed -i 's/\\r$//' {path}`; in a list of paths a name that ends in a \
         carriage return is written with `\\r`"
    ))
}

fn read_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    let failed = |error| {
        Failure::io(format!("read the list `{}`", path.display()), error)
            .hint("give a file that exists, or `-` for standard input")
    };
    if path == Path::new("-") {
        let mut text = Vec::new();
        std::io::stdin().lock().read_to_end(&mut text).map_err(failed)?;
        return Ok(text);
    }
    Ok(fs::read(path).map_err(failed)?)
}

/// The paths in a list: one a line, with the escapes of lists of failures, or as they are with a
/// NUL behind each. Each stands once, however often and however it is written.
fn read_paths(list: &Path, nul: bool) -> anyhow::Result<Vec<PathText>> {
    let text = read_bytes(list)?;
    let lines: Box<dyn Iterator<Item = &[u8]>> =
        if nul { Box::new(text.split(|&byte| byte == 0)) } else { Box::new(lines_of(&text)) };
    let (mut paths, mut known) = (Vec::new(), HashSet::new());
    for (at, line) in lines.enumerate().filter(|(_, line)| !line.is_empty()) {
        let place =
            || format!("`{}`, {} {}", list.display(), if nul { "path" } else { "line" }, at + 1);
        if !nul && line.ends_with(b"\r") {
            return Err(windows_line(list, &place()).into());
        }
        let path = if nul { line.to_vec() } else { name::unescape_in_list(line) };
        let path = tidy_path(&path);
        if let Some((why, hint)) = unfit(&path, line) {
            let message = format!("{}: `{}` {why}", place(), shortened(line));
            return Err(Failure::new(ExitCode::Usage, message).hint(hint).into());
        }
        if known.insert(blake3::hash(&path)) {
            paths.push(PathText(path));
        }
    }
    if paths.is_empty() {
        let message = format!("`{}` names no files", list.display());
        return Err(Failure::new(ExitCode::Usage, message)
            .hint("write a path a line; `.` is the source itself")
            .into());
    }
    Ok(paths)
}

/// Why a line of a list names nothing below a source, and what to write instead.
fn unfit(path: &[u8], line: &[u8]) -> Option<(&'static str, &'static str)> {
    let mut names = path.split(|&byte| byte == b'/');
    if line.starts_with(b"/") {
        return Some(("is an absolute path", "write paths relative to the source"));
    }
    if path.contains(&0) {
        return Some(("holds a NUL", "read what `find -print0` writes with `-0`"));
    }
    if names.clone().any(|name| name == b"..") {
        return Some(("leads out of a directory by `..`", "write paths without `..`"));
    }
    if names.any(|name| name.len() > name::NAME_BYTES_MAX) {
        return Some((
            "has a name of more than 255 bytes, which no file has",
            "write one path per line; with `-0`, end each with a NUL",
        ));
    }
    let long = path.len() > name::PATH_BYTES_MAX;
    long.then_some(("is a path of more than 65,536 bytes", "leave it out of the list"))
}

/// A line for a message, up to [`SHOWN_BYTES`].
fn shortened(line: &[u8]) -> String {
    if line.len() <= SHOWN_BYTES {
        return name::escape(line);
    }
    format!("{}…", name::escape(&line[..SHOWN_BYTES]))
}

/// A path as the file system reads it: without empty components and `.`.
fn tidy_path(path: &[u8]) -> Vec<u8> {
    let names = path.split(|&byte| byte == b'/');
    let names: Vec<_> = names.filter(|name| !name.is_empty() && *name != b".").collect();
    names.join(&b'/')
}

const NEWER: &str =
    "neither an age (2d, 1h30m), a date (2026-11-01) nor a time (2026-11-01T06:00:00Z)";

/// Reads `--newer-than`.
fn parse_newer(text: &str) -> Result<Newer, String> {
    if let Some(age) = parse_age(text) {
        return Ok(Newer::AgeSeconds(age));
    }
    let date = || Date::parse(text, &Iso8601::DATE).ok().map(|date| date.midnight().assume_utc());
    let time = OffsetDateTime::parse(text, &Rfc3339).ok().or_else(date).ok_or(NEWER)?;
    Ok(Newer::Time(FileTime { seconds: time.unix_timestamp(), nanoseconds: time.nanosecond() }))
}

/// Seconds of an age as in `90s`, `1h30m`, `2d`, `1w`; `None` if it is not one.
pub(crate) fn parse_age(text: &str) -> Option<u64> {
    let (mut total, mut rest) = (0_u64, text);
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..end].parse().ok()?;
        let unit = match rest.as_bytes()[end] {
            b's' => 1,
            b'm' => 60,
            b'h' => 3_600,
            b'd' => 86_400,
            b'w' => 604_800,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = &rest[end + 1..];
    }
    (!text.is_empty()).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        select: SelectArgs,
    }

    fn read(line: &[&str]) -> anyhow::Result<Chosen> {
        let line = std::iter::once(&"test").chain(line);
        Line::try_parse_from(line)?.select.read()
    }

    /// Promise: rules are tried in the order in which they stand on the command line, with those of
    /// a file in the file's place.
    #[test]
    fn rules_keep_the_order_of_the_command_line() {
        let work = tempfile::tempdir().unwrap();
        let file = work.path().join("rules");
        fs::write(&file, "# what is kept\n\n+ *.h5\n- *\n").unwrap();
        let from = file.to_str().unwrap();
        let line = ["--exclude", "a", "--filter-from", from, "--include=b", "--exclude", "-c"];
        let rules = read(&line).unwrap().select.rules;
        let rules: Vec<_> =
            rules.iter().map(|rule| (rule.include, rule.glob.to_string())).collect();
        let expected = [(false, "a"), (true, "*.h5"), (false, "*"), (true, "b"), (false, "-c")];
        assert_eq!(rules, expected.map(|(include, glob)| (include, glob.to_owned())));
    }

    /// Promise: what is wrong is refused with its place, as a wrong command line.
    #[test]
    fn unreadable_choices_name_their_place() {
        let work = tempfile::tempdir().unwrap();
        let file = work.path().join("rules");
        fs::write(&file, "- ok\n- [a\n").unwrap();
        let from = file.to_str().unwrap();
        let cases: &[(&[&str], &str)] = &[
            (&["--exclude", "[a"], "--exclude: the pattern `[a`"),
            (&["--filter-from", from], "rules`, line 2: the pattern `[a`"),
            (&["--min-size", "2K", "--max-size", "1K"], "no file has"),
            (&["--files-from", "-", "--filter-from", "-"], "once only"),
        ];
        for (line, text) in cases {
            let Err(error) = read(line) else { panic!("{line:?} must be refused") };
            assert!(error.to_string().contains(text), "{error}");
            assert_eq!(penstock_exit::code_of(&error), ExitCode::Usage);
        }
        fs::write(&file, "exclude a\n").unwrap();
        assert!(read(&["--filter-from", from]).is_err());
    }

    /// Promise: ages, dates and times mean what the help says.
    #[test]
    fn ages_dates_and_times_are_read() {
        let at = |seconds| Ok(Newer::Time(FileTime { seconds, nanoseconds: 0 }));
        assert_eq!(parse_newer("2d"), Ok(Newer::AgeSeconds(172_800)));
        assert_eq!(parse_newer("1h30m"), Ok(Newer::AgeSeconds(5_400)));
        assert_eq!(parse_newer("1970-01-02"), at(86_400));
        assert_eq!(parse_newer("1970-01-01T01:00:00+01:00"), at(0));
        assert_eq!(parse_newer("1970-01-01T00:00:10Z"), at(10));
        for bad in ["", "2", "2x", "yesterday", "1970-13-01", "99999999999999999999d"] {
            assert!(parse_newer(bad).is_err(), "`{bad}` must be refused");
        }
    }

    /// Promise (j): a list of find(1) names what find found, whatever bytes; lists of failures are
    /// read as they are written.
    #[test]
    fn j_lists_of_paths_are_read_escaped_or_raw() {
        let work = tempfile::tempdir().unwrap();
        let list = work.path().join("list");
        let paths = |nul| {
            let paths = read_paths(&list, nul)?;
            Ok::<Vec<Vec<u8>>, anyhow::Error>(paths.into_iter().map(|path| path.0).collect())
        };
        fs::write(&list, b"./a\nb\0./\xff/\0.\0").unwrap();
        assert_eq!(paths(true).unwrap(), [&b"a\nb"[..], b"\xff", b""]);
        fs::write(&list, "a\\nb\n./c/d/\n").unwrap();
        assert_eq!(paths(false).unwrap(), [&b"a\nb"[..], b"c/d"]);
        // Whatever the file system takes for the same path is that path, once.
        let same = "d//e/f\n./d/e/f/\nd/./e/f/.\n";
        fs::write(&list, same).unwrap();
        assert_eq!(paths(false).unwrap(), [b"d/e/f"]);
        // A byte order mark is none of the name; a name that begins with one is escaped.
        fs::write(&list, b"\xef\xbb\xbfback\\slash\n\xfe\n  # a\n\\xef\\xbb\\xbfb").unwrap();
        let expected = [&b"back\\slash"[..], b"\xfe", b"  # a", b"\xef\xbb\xbfb"];
        assert_eq!(paths(false).unwrap(), expected);
    }

    /// Promise: a line that can name nothing is refused, with its number and what is wrong with it.
    #[test]
    fn lines_that_name_nothing_are_told_why() {
        let work = tempfile::tempdir().unwrap();
        let list = work.path().join("list");
        let long = "x".repeat(256);
        let cases = [
            ("a\n/etc\n", "line 2: `/etc` is an absolute path"),
            ("a/../b\n", "line 1: `a/../b` leads out"),
            ("a\r\n", "line 1: the line ends in a carriage return"),
            ("a\0b\n", "holds a NUL"),
            (&long, "has a name of more than 255 bytes"),
            ("\n", "names no files"),
        ];
        for (text, why) in cases {
            fs::write(&list, text).unwrap();
            let error = read_paths(&list, false).unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
            assert_eq!(penstock_exit::code_of(&error), ExitCode::Usage);
        }
        fs::write(&list, &long[1..]).unwrap();
        assert!(read_paths(&list, false).is_ok());
    }

    /// Promise: blanks around a pattern and a byte order mark do not make it match nothing.
    #[test]
    fn rules_are_read_whatever_an_editor_puts_around_them() {
        let work = tempfile::tempdir().unwrap();
        let file = work.path().join("rules");
        let text = "\u{feff}-  *.tmp\n \n  + a \n-\tb\\ \n  # c\n+ \\ d";
        fs::write(&file, text).unwrap();
        let mut rules = Vec::new();
        read_rules(&file, &mut rules).unwrap();
        let globs: Vec<_> = rules.iter().map(|rule| (rule.include, &rule.glob.0[..])).collect();
        let expected = [(false, &b"*.tmp"[..]), (true, b"a"), (false, b"b\\ "), (true, b"\\ d")];
        assert_eq!(globs, expected);
        fs::write(&file, "- a\r\n").unwrap();
        let error = read_rules(&file, &mut rules).unwrap_err();
        assert!(error.to_string().contains("line 1: the line ends in a carriage return"));
    }
}
