//! Packages: one tree, staged once, becomes the packages of Debian and Red Hat, archives, and an
//! installation by `make install`.
//!
//! Everything follows from the commit: times are the commit's, the order of files is that of their
//! names, and owners are root. Two runs make the same bytes.

mod archive;
mod bill;
mod check;
mod command;
mod cross;
mod debian;
mod dependency;
mod install;
mod program;
mod release;
mod rpm;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};

pub(crate) use check::{check, check_in_roots, write_contents};
pub(crate) use cross::check_bytes;
pub(crate) use install::stage;
pub(crate) use release::check as check_release;

use command::output;
use cross::Target;
use program::Program;
use tree::{Layout, Tree};

/// Directory in which packages are made, below the root.
const OUT: &str = "target/packages";
/// Level of xz for packages of a release. A higher one takes as much memory as users may lack.
const LEVEL: u32 = 6;
/// Name of the file with the digests of all others.
const SUMS: &str = "SHA256SUMS";

/// The project from which packages are made, and the time of its commit.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    root: PathBuf,
    /// The version of the workspace: `0.2.0-rc.1`.
    version: String,
    homepage: String,
    /// Time of the commit, in seconds since 1970.
    time: u64,
    /// Level of xz, from 0, which is fast, to 9.
    level: u32,
}

impl Source {
    /// Reads version and time of a work tree. The time is `SOURCE_DATE_EPOCH`, or the commit's.
    ///
    /// # Errors
    /// There is neither, or the manifest cannot be read.
    fn read_from(root: &Path) -> anyhow::Result<Self> {
        let manifest = fs::read_to_string(root.join("Cargo.toml")).context("read Cargo.toml")?;
        let field = |key: &str| {
            let line = manifest.lines().find_map(|line| line.strip_prefix(key));
            let value = line.map(|line| line.trim_matches([' ', '=', '"']).to_owned());
            value.with_context(|| format!("Cargo.toml has no `{key}`"))
        };
        let time = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(time) => time,
            Err(_) => output("git", &["-C", text(root)?, "log", "-1", "--format=%ct"], &[])
                .context("without git SOURCE_DATE_EPOCH says when the source was made")?,
        };
        Ok(Self {
            root: root.to_owned(),
            version: field("version = ")?,
            homepage: field("repository = ")?,
            time: time.trim().parse().context("SOURCE_DATE_EPOCH is a number of seconds")?,
            level: LEVEL,
        })
    }

    /// Returns the version of the packages: a candidate comes before its release.
    fn package_version(&self) -> String {
        format!("{}-1", self.version.replace('-', "~"))
    }

    fn epoch(&self) -> String {
        self.time.to_string()
    }

    fn system_time(&self) -> SystemTime {
        tree::system_time(self.time)
    }

    /// Returns the time in a form of date(1).
    ///
    /// # Errors
    /// `date` is missing.
    fn date(&self, form: &str) -> anyhow::Result<String> {
        let time = format!("@{}", self.time);
        Ok(output("date", &["--utc", "--date", &time, form], &[])?.trim().to_owned())
    }

    /// Reads a file of the source.
    ///
    /// # Errors
    /// The file cannot be read.
    fn read(&self, place: &str) -> anyhow::Result<String> {
        fs::read_to_string(self.root.join(place)).with_context(|| format!("read {place}"))
    }

    /// Returns a directory for intermediate files of one kind.
    fn work(&self, kind: &str) -> PathBuf {
        self.root.join("target/packaging").join(kind)
    }
}

/// The kinds of product that are made from a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kinds {
    packages: bool,
    archive: bool,
}

/// Makes the packages that arguments ask for: those of one program (`--program FILE`), or all of a
/// release. `--out DIR` is their directory. `--papers FILE` prints manual and completions for a
/// program that this machine does not run. `--version VERSION` names a build between releases, and
/// `--level 0` compresses fast.
///
/// # Errors
/// An argument is not known; a part is missing; a tool is missing or fails.
pub(crate) fn run(root: &Path, arguments: &[&str]) -> anyhow::Result<()> {
    let names = ["--program", "--out", "--papers", "--version", "--level"];
    let [program, out, papers, version, level] = values(arguments, names)?;
    let out = match out {
        Some(out) => std::path::absolute(out)?,
        None => root.join(OUT),
    };
    let mut source = Source::read_from(root)?;
    if let Some(version) = version {
        version.clone_into(&mut source.version);
    }
    if let Some(level) = level {
        source.level = level.parse().context("the level of compression is a number")?;
    }
    fs::create_dir_all(&out).with_context(|| format!("make {}", out.display()))?;
    let made = match program {
        Some(program) => {
            let program = std::path::absolute(program)?;
            let kinds = Kinds { packages: true, archive: Program::read(&program)?.is_static() };
            let papers = papers.map_or(Ok(program.clone()), std::path::absolute)?;
            make(&source, &program, &papers, kinds, &out)?
        }
        None => all(&source, &out)?,
    };
    write_sums(&out, &made)?;
    for path in &made {
        println!("{}", path.display());
    }
    Ok(())
}

/// Builds the programs of a release and makes everything that belongs to it.
///
/// # Errors
/// As for [`run`].
fn all(source: &Source, out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    cross::check_libraries()?;
    tree::remove(out)?;
    fs::create_dir_all(out).with_context(|| format!("make {}", out.display()))?;
    let mut made = Vec::new();
    let mut papers = None;
    for target in Target::ALL {
        let program = cross::build(&source.root, target)?;
        let facts = Program::read(&program)?;
        facts.check(Some(cross::GLIBC))?;
        let is_static = target != Target::X86Glibc;
        if is_static != facts.is_static() {
            bail!("the program for {} is not linked as it should be", target.triple());
        }
        if facts.machine.is_here() {
            papers.get_or_insert_with(|| program.clone());
        }
        // On arm64 one static program serves all; on x86-64 that with glibc is for packages.
        let packages = target != Target::X86Static;
        let papers = papers.as_ref().unwrap_or(&program);
        made.extend(make(source, &program, papers, Kinds { packages, archive: is_static }, out)?);
    }
    let parts = dependency::all(&source.root, Target::X86Glibc.triple())?;
    let bill = bill::cyclone_dx(&source.version, &source.date("+%Y-%m-%dT%H:%M:%SZ")?, &parts)?;
    let path = out.join(format!("penstock-{}.cdx.json", source.version));
    fs::write(&path, bill).with_context(|| format!("write {}", path.display()))?;
    made.push(path);
    made.extend(crate::sdk::package(&source.root, out, &source.epoch())?);
    Ok(made)
}

/// Makes packages and archives of a program.
///
/// # Errors
/// The program lacks a protection; a part or a tool is missing.
fn make(
    source: &Source,
    program: &Path,
    papers: &Path,
    kinds: Kinds,
    out: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let facts = Program::read(program)?;
    facts.check(None)?;
    println!("{}: {}, {}", program.display(), facts.machine.name(), facts.glibc_text());
    let triple = match (facts.machine, facts.is_static()) {
        (program::Machine::X86, false) => Target::X86Glibc.triple(),
        (program::Machine::X86, true) => Target::X86Static.triple(),
        (program::Machine::Arm, _) => Target::ArmStatic.triple(),
    };
    let notices = bill::notices(&dependency::all(&source.root, triple)?)?;
    let collect = |layout: &Layout| Tree::collect(&source.root, layout, program, papers, &notices);
    let mut made = Vec::new();
    if kinds.packages {
        let tree = collect(&Layout::of_packages())?;
        made.push(debian::make(source, &facts, &tree, out)?);
        made.push(rpm::make(source, &facts, &tree, out)?);
    }
    if kinds.archive {
        let tree = collect(&Layout::below(archive::PREFIX)?)?;
        made.push(archive::make(source, &facts, &tree, out)?);
    }
    Ok(made)
}

/// Writes the digests of files that lie in one directory.
///
/// # Errors
/// A file cannot be read, or the list not written.
fn write_sums(out: &Path, made: &[PathBuf]) -> anyhow::Result<()> {
    let mut lines = Vec::new();
    for path in made {
        let printed = output("sha256sum", &["--binary", text(path)?], &[])?;
        let sum = printed.split_whitespace().next().unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        lines.push(format!("{sum} *{name}\n"));
    }
    lines.sort_by(|a, b| a.split('*').nth(1).cmp(&b.split('*').nth(1)));
    let path = out.join(SUMS);
    fs::write(&path, lines.concat()).with_context(|| format!("write {}", path.display()))
}

/// Returns the values of options, each given once at most as `--name VALUE`.
///
/// # Errors
/// Another word, an option without a value, or one that is given twice.
fn values<'a, const N: usize>(
    arguments: &[&'a str],
    names: [&str; N],
) -> anyhow::Result<[Option<&'a str>; N]> {
    let mut values = [None; N];
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        let index = names.iter().position(|name| name == word);
        let index = index.with_context(|| format!("no option `{word}`: {}", names.join(" ")))?;
        let value = rest.next().with_context(|| format!("`{word}` needs a value"))?;
        if values[index].replace(*value).is_some() {
            bail!("`{word}` is given twice");
        }
    }
    Ok(values)
}

/// Returns a path as text.
///
/// # Errors
/// The path is not UTF-8.
pub(crate) fn text(path: &Path) -> anyhow::Result<&str> {
    path.to_str().with_context(|| format!("the path {} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: options have one value each, and an unknown option is refused by name.
    #[test]
    fn options_have_values() {
        let names = ["--program", "--out"];
        assert_eq!(values(&["--out", "d"], names).unwrap(), [None, Some("d")]);
        for (words, message) in [
            (&["--out"][..], "`--out` needs a value"),
            (&["--aut", "d"], "no option `--aut`: --program --out"),
            (&["--out", "d", "--out", "e"], "`--out` is given twice"),
        ] {
            assert_eq!(values(words, names).unwrap_err().to_string(), message);
        }
    }

    /// Promise: a candidate is older than its release for dpkg and rpm.
    #[test]
    fn a_candidate_comes_first() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut source = Source::read_from(&root).unwrap();
        source.version = "0.2.0-rc.1".to_owned();
        assert_eq!(source.package_version(), "0.2.0~rc.1-1");
    }
}
