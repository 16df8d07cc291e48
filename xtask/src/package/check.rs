//! The gate's check of packages: with a program of a few lines, as one of the real size takes a
//! minute to compress.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::command::output;
use super::{Kinds, Source, make, text, tree};

/// The committed lists of contents, below the root.
const CONTENTS: &str = "packaging/contents.txt";
/// Scripts of shells, below the root.
const SCRIPTS: [&str; 5] = [
    "packaging/deb/postinst",
    "packaging/deb/prerm",
    "packaging/deb/postrm",
    "packaging/scripts/restart.sh",
    "scripts/install.sh",
];
/// Tests of packages on hosts of their own.
const TESTS: [&str; 6] = [
    "test_restart.py",
    "test_install.py",
    "test_packages.py",
    "test_upgrade.py",
    "test_quickstart.py",
    "test_arm64.py",
];
/// Scriptlets of a package of rpm, by their tags.
const SCRIPTLETS: [&str; 4] = ["POSTIN", "PREUN", "POSTUN", "POSTTRANS"];
/// The requirements that an rpm package may have: the C library, its loader, a shell, and forms of
/// rpm.
const REQUIRED: [&str; 8] = [
    "/bin/sh",
    "rpmlib(",
    "rtld(GNU_HASH)",
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libdl.so.2",
    "ld-linux",
];

/// Makes packages of a stand-in twice and compares them; compares their contents with the committed
/// lists; checks scripts and requirements. Skipped where dpkg-deb or rpmbuild is missing, except in
/// CI.
///
/// # Errors
/// A difference or a fault, with its place.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    for (tool, package) in [("dpkg-deb", "dpkg"), ("rpmbuild", "rpm"), ("readelf", "binutils")] {
        if Command::new(tool).arg("--version").output().is_err() {
            let lacks = format!("there is no {tool}: `scripts/setup.sh test` installs {package}");
            if crate::is_ci() {
                bail!(lacks);
            }
            println!("SKIPPED: {lacks}");
            return Ok(());
        }
    }
    let contents = checked_contents(root, &crate::suite::program_under_test(root)?)?;
    let committed = fs::read_to_string(root.join(CONTENTS)).unwrap_or_default();
    if contents != committed {
        tell_differences(&committed, &contents);
        bail!("packages have other files than {CONTENTS}: `cargo xtask package --contents`");
    }
    Ok(())
}

/// Writes the lists of contents, of packages with the manual that a program prints: the one under
/// test unless it is given.
///
/// # Errors
/// Packages cannot be made, or the file not written.
pub(crate) fn write_contents(root: &Path, papers: Option<&str>) -> anyhow::Result<()> {
    let papers = match papers {
        Some(papers) => std::path::absolute(papers)?,
        None => crate::suite::program_under_test(root)?,
    };
    let contents = checked_contents(root, &papers)?;
    fs::write(root.join(CONTENTS), contents).with_context(|| format!("write {CONTENTS}"))?;
    println!("wrote {CONTENTS}");
    Ok(())
}

/// Returns the lists of contents, after all other checks.
///
/// # Errors
/// Scripts or requirements are wrong, or two runs differ.
fn checked_contents(root: &Path, papers: &Path) -> anyhow::Result<String> {
    check_scripts(root)?;
    let made = stand_in_packages(root, papers)?;
    made.iter().try_for_each(|path| check_requirements(path))?;
    contents(&made)
}

/// Installs packages, upgrades and removes them in roots of their own, and runs each line of the
/// quickstart from a package on, by the tests in `packaging/tests`. Needs root, mmdebstrap, dnf,
/// qemu, and the mirrors of Debian.
///
/// # Errors
/// A test failed; its output has been printed.
pub(crate) fn check_in_roots(root: &Path) -> anyhow::Result<()> {
    super::cross::install(root)?;
    crate::packaging::check(root, &TESTS)
}

/// Makes the packages of a program that does nothing, twice, with the manual that another one
/// prints, and returns their paths.
///
/// # Errors
/// The packages differ, or cannot be made.
fn stand_in_packages(root: &Path, papers: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let source = Source::read_from(root)?;
    let directory = source.work("check");
    tree::remove(&directory)?;
    let [first, second] = ["first", "second"].map(|name| directory.join(name));
    for out in [&first, &second] {
        fs::create_dir_all(out).with_context(|| format!("make {}", out.display()))?;
    }
    let program = directory.join("penstock");
    let code = directory.join("main.rs");
    fs::write(&code, "fn main() {}\n").context("write a program")?;
    output("rustc", &["-C", "strip=symbols", "-o", text(&program)?, text(&code)?], &[])?;
    let kinds = Kinds { packages: true, archive: false };
    let made = make(&source, &program, papers, kinds, &first)?;
    let again = make(&source, &program, papers, kinds, &second)?;
    for (one, other) in made.iter().zip(&again) {
        let [bytes, others] = [one, other].map(|path| fs::read(path).context("read a package"));
        if bytes? != others? {
            bail!("{} differs from {}: `diffoscope` tells how", one.display(), other.display());
        }
    }
    Ok(made)
}

/// Returns the contents of packages: mode, owner and path, a line each.
///
/// # Errors
/// A package cannot be read.
fn contents(made: &[PathBuf]) -> anyhow::Result<String> {
    let mut all = String::new();
    for path in made {
        let (kind, lines) = match path.extension().and_then(|kind| kind.to_str()) {
            Some("deb") => ("deb", deb_contents(path)?),
            _ => ("rpm", rpm_contents(path)?),
        };
        all += &format!("# {kind}\n");
        let mut lines: Vec<String> = lines.iter().map(|line| shortened(line)).collect();
        lines.sort_by(|a, b| a.split(' ').nth(2).cmp(&b.split(' ').nth(2)));
        lines.dedup();
        all += &(lines.join("\n") + "\n");
    }
    Ok(all)
}

/// Returns the files of a package of dpkg.
///
/// # Errors
/// The package cannot be read.
fn deb_contents(path: &Path) -> anyhow::Result<Vec<String>> {
    let printed = output("dpkg-deb", &["--contents", text(path)?], &[])?;
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [mode, owner, .., path] = words[..] else { return None };
        (!mode.starts_with('d') || path.contains("penstock"))
            .then(|| format!("{mode} {owner} {}", path.trim_start_matches('.')))
    };
    let mut lines: Vec<String> = printed.lines().filter_map(line).collect();
    let kept = output("dpkg-deb", &["--info", text(path)?, "conffiles"], &[])?;
    let kept: BTreeSet<&str> = kept.lines().collect();
    for line in &mut lines {
        if line.rsplit(' ').next().is_some_and(|path| kept.contains(path)) {
            *line += " configuration";
        }
    }
    Ok(lines)
}

/// Returns the files of a package of rpm.
///
/// # Errors
/// The package cannot be read.
fn rpm_contents(path: &Path) -> anyhow::Result<Vec<String>> {
    let form = "[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILENAMES} \
                %{FILEFLAGS:fflags}\n]";
    let printed = output("rpm", &["-qp", "--queryformat", form, text(path)?], &[])?;
    let line = |line: &str| {
        let line = line.trim_end();
        match line.strip_suffix(" cn") {
            Some(line) => format!("{line} configuration"),
            None => line.split(' ').take(3).collect::<Vec<_>>().join(" "),
        }
    };
    Ok(printed
        .lines()
        .map(line)
        .map(|line| {
            let slash = if line.starts_with('d') { "/" } else { "" };
            line + slash
        })
        .collect())
}

/// Returns a line where pages of the manual and documents, which are many, have one name.
fn shortened(line: &str) -> String {
    for (directory, kind) in [("/man/man1/", "gz"), ("/doc/penstock/docs/", "md")] {
        if let Some((before, name)) = line.split_once(directory)
            && name.ends_with(kind)
        {
            return format!("{before}{directory}*.{kind}");
        }
    }
    line.to_owned()
}

fn tell_differences(committed: &str, found: &str) {
    for line in committed.lines().filter(|line| !found.lines().any(|other| other == *line)) {
        println!("- {line}");
    }
    for line in found.lines().filter(|line| !committed.lines().any(|other| other == *line)) {
        println!("+ {line}");
    }
}

/// Checks scripts with `sh -n`, and with shellcheck where it is.
///
/// # Errors
/// One of them is wrong.
fn check_scripts(root: &Path) -> anyhow::Result<()> {
    let has_shellcheck = Command::new("shellcheck").arg("--version").output().is_ok();
    for script in SCRIPTS {
        let path = root.join(script);
        let shell = if is_for_bash(&path)? { "bash" } else { "sh" };
        output(shell, &["-n", text(&path)?], &[]).with_context(|| format!("check {script}"))?;
        if has_shellcheck {
            output("shellcheck", &["--shell", shell, text(&path)?], &[])
                .with_context(|| format!("check {script}"))?;
        }
    }
    Ok(())
}

/// Returns whether the first line of a script names bash.
///
/// # Errors
/// The script cannot be read.
fn is_for_bash(script: &Path) -> anyhow::Result<bool> {
    let text = fs::read_to_string(script).with_context(|| format!("read {}", script.display()))?;
    Ok(text.lines().next().is_some_and(|line| line.ends_with("bash")))
}

/// Checks the requirements of an rpm package, and its scriptlets.
///
/// # Errors
/// The package requires more than a C library, or a scriptlet is wrong.
fn check_requirements(path: &Path) -> anyhow::Result<()> {
    if path.extension().is_none_or(|kind| kind != "rpm") {
        return Ok(());
    }
    let required = output("rpm", &["-qp", "--requires", text(path)?], &[])?;
    let is_known = |line: &&str| REQUIRED.iter().any(|known| line.starts_with(known));
    // The package requires its own configuration.
    let strange: Vec<&str> = required
        .lines()
        .filter(|line| !is_known(line) && !line.starts_with("config(penstock)"))
        .collect();
    if !strange.is_empty() {
        bail!("{} requires {}", path.display(), strange.join(", "));
    }
    for tag in SCRIPTLETS {
        let form = format!("%{{{tag}}}");
        let script = output("rpm", &["-qp", "--queryformat", &form, text(path)?], &[])?;
        output("sh", &["-n", "-c", &script], &[]).with_context(|| format!("check {tag}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a new command or document changes no list, any other file does.
    #[test]
    fn many_files_have_one_line() {
        let page = "-rw-r--r-- root/root /usr/share/man/man1/penstock-copy.1.gz";
        assert_eq!(shortened(page), "-rw-r--r-- root/root /usr/share/man/man1/*.gz");
        let document = "-rw-r--r-- root/root /usr/share/doc/penstock/docs/guide.md";
        assert_eq!(shortened(document), "-rw-r--r-- root/root /usr/share/doc/penstock/docs/*.md");
        let program = "-rwxr-xr-x root/root /usr/bin/penstock";
        assert_eq!(shortened(program), program);
    }
}
