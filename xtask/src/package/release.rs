//! The contents of a release, and the parts that it lacks.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use super::command::output;
use super::program::{Machine, Program};
use super::{OUT, SUMS, Source, cross, text};

/// Most bytes of a program: users copy it to other hosts, over ssh too.
const PROGRAM_BYTES_MAX: u64 = 64 << 20;

/// Prints each part of a release, with its faults.
///
/// # Errors
/// A part is missing or wrong; the fault has been printed.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let source = Source::read_from(root)?;
    println!("release {}, of {}", source.version, source.date("+%Y-%m-%d %H:%M UTC")?);
    let mut rows = sources(&source);
    rows.extend(programs(&source));
    rows.extend(packages(&source));
    let mut missing = 0;
    for row in &rows {
        match &row.wrong {
            None => println!("ok       {}", row.part),
            Some(wrong) => {
                missing += 1;
                println!("MISSING  {}: {wrong}", row.part);
            }
        }
    }
    if missing > 0 {
        bail!("{missing} of {} parts of a release are missing or wrong", rows.len());
    }
    Ok(())
}

/// Returns a version as Python writes it (PEP 440).
fn python_version(version: &str) -> String {
    version.replace("-rc.", "rc")
}

/// A part of a release.
struct Row {
    part: String,
    /// The fault of the part, and the remedy.
    wrong: Option<String>,
}

impl Row {
    fn new(part: impl Into<String>, result: Result<(), String>) -> Self {
        Self { part: part.into(), wrong: result.err() }
    }
}

/// Checks commit, tag, changes and the versions of the Python packages.
fn sources(source: &Source) -> Vec<Row> {
    let git = |words: &[&str]| {
        let root = source.root.to_str().unwrap_or(".");
        output("git", &[&["-C", root], words].concat(), &[]).unwrap_or_default()
    };
    let or = |is_right: bool, wrong: String| if is_right { Ok(()) } else { Err(wrong) };
    let version = &source.version;
    let changed = git(&["status", "--porcelain"]);
    let tag = format!("v{version}");
    let tags = git(&["tag", "--points-at", "HEAD"]);
    let changes = source.read("CHANGELOG.md").unwrap_or_default();
    let heading = format!("## {version}");
    let has_heading =
        changes.lines().any(|line| line == heading || line.starts_with(&format!("{heading} ")));
    let python = python_version(version);
    let has_version = |module: &str| {
        let text = source.read(module).unwrap_or_default();
        let is_right = text.contains(&format!("__version__ = \"{python}\""));
        or(is_right, format!("{module} has another version"))
    };
    vec![
        Row::new(
            "a clean work tree",
            or(
                changed.is_empty(),
                format!("{} files differ: commit them", changed.lines().count()),
            ),
        ),
        Row::new(
            format!("tag {tag}"),
            or(tags.lines().any(|one| one == tag), format!("git tag --sign {tag}")),
        ),
        Row::new(
            format!("changes of {version} in CHANGELOG.md"),
            or(has_heading, format!("no heading `{heading}`: rename `## Unreleased`")),
        ),
        Row::new(
            format!("Python client {python}"),
            has_version("sdk/python/src/penstock/__init__.py"),
        ),
        Row::new(
            format!("penstock-eval {python}"),
            has_version("sdk/eval/src/penstock_eval/__init__.py"),
        ),
    ]
}

/// Checks the programs that packages are made of.
fn programs(source: &Source) -> Vec<Row> {
    let row = |target: cross::Target| {
        let path = source.root.join("target").join(target.triple()).join("release/penstock");
        let part = format!("program for {}", target.triple());
        let Ok(metadata) = fs::metadata(&path) else {
            return Row::new(part, Err("it is not built: make packages".to_owned()));
        };
        let bytes = metadata.len();
        let part = format!("{part}, {:.1} MiB", bytes as f64 / f64::from(1 << 20));
        let facts = Program::read(&path).and_then(|facts| {
            facts.check(Some(cross::GLIBC))?;
            Ok(facts)
        });
        match facts {
            Err(error) => Row::new(part, Err(format!("{error:#}"))),
            Ok(_) if bytes > PROGRAM_BYTES_MAX => {
                Row::new(part, Err(format!("more than {} MiB", PROGRAM_BYTES_MAX >> 20)))
            }
            Ok(facts) => Row::new(format!("{part}, {}", facts.glibc_text()), Ok(())),
        }
    };
    cross::Target::ALL.into_iter().map(row).collect()
}

/// Checks that each package exists, with its digest.
fn packages(source: &Source) -> Vec<Row> {
    let out = source.root.join(OUT);
    let sums = fs::read_to_string(out.join(SUMS)).unwrap_or_default();
    let names = names(source).into_iter();
    names.map(|name| Row::new(&*name, package(&out, &name, &sums))).collect()
}

/// Returns the names of the files of a release, sorted.
fn names(source: &Source) -> Vec<String> {
    let version = &source.version;
    let python = python_version(version);
    let mut names = vec![format!("penstock-{version}.cdx.json")];
    for package in ["penstock", "penstock_eval"] {
        names.push(format!("{package}-{python}-py3-none-any.whl"));
        names.push(format!("{package}-{python}.tar.gz"));
    }
    for machine in [Machine::X86, Machine::Arm] {
        let name = machine.name();
        names.push(format!("penstock_{}_{}.deb", source.package_version(), machine.debian()));
        names.push(format!("penstock-{}-1.{name}.rpm", version.replace('-', "~")));
        names.push(format!("penstock-{version}-{name}.tar.gz"));
    }
    names.sort();
    names
}

/// Checks one package by its digest.
fn package(out: &Path, name: &str, sums: &str) -> Result<(), String> {
    let path = out.join(name);
    if !path.is_file() {
        return Err(format!("not in {OUT}: make packages"));
    }
    let line = sums.lines().find_map(|line| line.strip_suffix(&format!(" *{name}")));
    let Some(wanted) = line else { return Err(format!("not in {SUMS}: make packages")) };
    let found = text(&path)
        .and_then(|path| output("sha256sum", &[path], &[]))
        .context("compute its digest")
        .map_err(|error| format!("{error:#}"))?;
    match found.starts_with(wanted) {
        true => Ok(()),
        false => Err(format!("it is not the file of {SUMS}: make packages")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a candidate has all its files, and versions as each system orders them.
    #[test]
    fn a_release_has_all_files() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut source = Source::read_from(&root).unwrap();
        source.version = "0.2.0-rc.1".to_owned();
        let wanted = [
            "penstock-0.2.0-rc.1-aarch64.tar.gz",
            "penstock-0.2.0-rc.1-x86_64.tar.gz",
            "penstock-0.2.0-rc.1.cdx.json",
            "penstock-0.2.0rc1-py3-none-any.whl",
            "penstock-0.2.0rc1.tar.gz",
            "penstock-0.2.0~rc.1-1.aarch64.rpm",
            "penstock-0.2.0~rc.1-1.x86_64.rpm",
            "penstock_0.2.0~rc.1-1_amd64.deb",
            "penstock_0.2.0~rc.1-1_arm64.deb",
            "penstock_eval-0.2.0rc1-py3-none-any.whl",
            "penstock_eval-0.2.0rc1.tar.gz",
        ];
        assert_eq!(names(&source), wanted);
    }

    /// Promise: this tree's Python packages have the version of the workspace.
    #[test]
    fn python_packages_have_the_version() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let source = Source::read_from(&root).unwrap();
        let rows = sources(&source);
        for part in ["Python client", "penstock-eval"] {
            let row = rows.iter().find(|row| row.part.starts_with(part)).unwrap();
            assert_eq!(row.wrong, None, "{part}");
        }
    }
}
