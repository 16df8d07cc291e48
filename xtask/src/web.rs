//! The web page in `web/`: built by Node, packed here, and tested in a browser.
//!
//! Users build Penstock without Node: `web/dist.tar` is committed, and the daemon contains it. The
//! gate builds the page again and compares every byte, so that the page contains only code of the
//! sources. Its files are compressed here, as the zlib of Node differs between CPUs and releases.

use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};
use flate2::{Compression, GzBuilder};

/// The project, below the root.
const PROJECT: &str = "web";
/// The packed page, within the project.
const ARCHIVE: &str = "dist.tar";
/// The file that a browser loads first, within the built page.
const INDEX: &str = "index.html";
/// The oldest Node that builds the page, as Vite has it.
const NODE_OLDEST: (u32, u32) = (20, 19);
/// Most bytes, compressed, that a browser loads before the page appears: the files that
/// `index.html` names.
const FIRST_MAX: Weight = Weight { scripts: 180 << 10, styles: 36 << 10 };
/// Most bytes of all pages, compressed: one that grows is noticed. A browser fetches the rest while
/// it is idle, so that this bounds the archive in git and the program, and not a wait.
const WHOLE_MAX: Weight = Weight { scripts: 400 << 10, styles: 36 << 10 };

/// Builds the page, and writes the archive.
///
/// # Errors
/// There is no Node of the right age, a check of the page fails, or it has grown too large.
pub(crate) fn write(root: &Path) -> anyhow::Result<()> {
    let project = root.join(PROJECT);
    need_node()?;
    let archive = build(&project)?;
    let path = project.join(ARCHIVE);
    fs::write(&path, &archive).with_context(|| format!("write {}", path.display()))?;
    println!("{}: {} bytes", path.display(), archive.len());
    Ok(())
}

/// Checks the page, builds it again, compares the archive byte by byte, and tests its pages in
/// Chromium. Skipped where Node is missing or packages cannot be fetched, except in CI.
///
/// # Errors
/// A check or a test fails, or the archive is another one. In CI also if they cannot run.
pub(crate) fn check(root: &Path) -> anyhow::Result<()> {
    let project = root.join(PROJECT);
    let program = crate::suite::program_under_test(root)?;
    if let Err(error) = need_node().and_then(|()| install(&project)) {
        if super::is_ci() {
            return Err(error);
        }
        println!("SKIPPED: {error:#}");
        return Ok(());
    }
    let archive = build(&project)?;
    let path = project.join(ARCHIVE);
    let committed = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    if archive != committed {
        bail!("web/dist.tar is not what the sources make: run `cargo xtask web`, and commit it");
    }
    let Some(browser) = browser() else {
        let lacks = "pages are not tested: there is no Chromium; `scripts/setup.sh test` installs \
                     it where the release has it, and `CHROMIUM` names another one";
        if super::is_ci() {
            bail!(lacks);
        }
        println!("SKIPPED: {lacks}");
        return Ok(());
    };
    let program = program.to_str().context("the path of the program is not UTF-8")?;
    let variables = [("PENSTOCK_BIN", program), ("CHROMIUM", &browser)];
    run(&project, "npm", &["test", "--silent"], &variables)
}

/// Returns the path of a Chromium, if there is one.
fn browser() -> Option<String> {
    let named = std::env::var("CHROMIUM").ok();
    let usual = ["chromium", "chromium-browser", "google-chrome"];
    let usual = usual.iter().map(|name| format!("/usr/bin/{name}"));
    named.into_iter().chain(usual).find(|path| Path::new(path).exists())
}

/// Checks that there is a Node that builds the page.
///
/// # Errors
/// Node is missing, or too old.
fn need_node() -> anyhow::Result<()> {
    let hint = "the web page needs Node 20.19 or later, and npm; `scripts/setup.sh test` installs \
                them";
    let output = Command::new("node").arg("--version").output().context(hint)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut parts = text.trim().trim_start_matches('v').split('.').map(|part| part.parse().ok());
    let version = (parts.next().flatten(), parts.next().flatten());
    match version {
        (Some(major), Some(minor)) if (major, minor) >= NODE_OLDEST => Ok(()),
        _ => bail!("{hint}: this is {}", text.trim()),
    }
}

/// Installs the packages of the lock file, unless they are there. None of them runs a script.
///
/// # Errors
/// npm fails: its output has been printed.
fn install(project: &Path) -> anyhow::Result<()> {
    let lock = project.join("package-lock.json");
    let wanted = fs::read(&lock).with_context(|| format!("read {}", lock.display()))?;
    let marker = project.join("node_modules/.installed");
    if fs::read(&marker).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let words = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"];
    run(project, "npm", &words, &[]).context("the packages of the web page cannot be installed")?;
    fs::write(&marker, wanted).with_context(|| format!("write {}", marker.display()))
}

/// Checks and builds the page, and returns its archive.
///
/// # Errors
/// A check fails, or the page has grown too large.
fn build(project: &Path) -> anyhow::Result<Vec<u8>> {
    install(project)?;
    run(project, "npm", &["run", "--silent", "check"], &[])?;
    run(project, "npm", &["run", "--silent", "build"], &[])?;
    let directory = project.join("dist");
    let mut names = Vec::new();
    list(&directory, "", &mut names)?;
    names.sort();
    pack(&directory, &names)
}

/// Packs files: each compressed, in the order of their names, without times and owners.
///
/// # Errors
/// A file cannot be read, or there are too many bytes.
fn pack(directory: &Path, names: &[String]) -> anyhow::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let index = fs::read_to_string(directory.join(INDEX)).context("read the index of the page")?;
    let (mut first, mut whole) = (Weight::default(), Weight::default());
    for name in names {
        let path = directory.join(name);
        let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
        let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
        encoder.write_all(&bytes).context("compress")?;
        let compressed = encoder.finish().context("compress")?;
        whole.add(name, compressed.len());
        if index.contains(&format!("/{name}\"")) {
            first.add(name, compressed.len());
        }
        let mut header = tar::Header::new_ustar();
        header.set_size(compressed.len() as u64);
        header.set_mode(0o644);
        archive
            .append_data(&mut header, format!("{name}.gz"), &*compressed)
            .with_context(|| format!("pack {name}"))?;
    }
    first.check(&FIRST_MAX, "the first load of the page")?;
    whole.check(&WHOLE_MAX, "the whole page")?;
    archive.into_inner().context("pack the page")
}

/// Bytes of files, compressed.
#[derive(Default)]
struct Weight {
    scripts: usize,
    styles: usize,
}

impl Weight {
    fn add(&mut self, name: &str, bytes: usize) {
        match name.rsplit('.').next() {
            Some("js") => self.scripts += bytes,
            Some("css") => self.styles += bytes,
            _ => {}
        }
    }

    /// Prints the weight of a part of the page.
    ///
    /// # Errors
    /// The part weighs more than `most`.
    fn check(&self, most: &Self, what: &str) -> anyhow::Result<()> {
        let Self { scripts, styles } = self;
        println!("{what} has {scripts} bytes of scripts and {styles} of styles, compressed");
        if *scripts > most.scripts || *styles > most.styles {
            let Self { scripts, styles } = most;
            bail!("{what} has at most {scripts} bytes of scripts and {styles} of styles");
        }
        Ok(())
    }
}

fn list(directory: &Path, prefix: &str, names: &mut Vec<String>) -> anyhow::Result<()> {
    let failed = || format!("list {}", directory.display());
    for entry in fs::read_dir(directory).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            list(&entry.path(), &format!("{name}/"), names)?;
        } else {
            names.push(name);
        }
    }
    Ok(())
}

fn run(
    project: &Path,
    program: &str,
    words: &[&str],
    variables: &[(&str, &str)],
) -> anyhow::Result<()> {
    println!("$ {program} {}", words.join(" "));
    let status = Command::new(program)
        .args(words)
        .envs(variables.iter().copied())
        .current_dir(project)
        .status()
        .with_context(|| format!("start {program}"))?;
    if !status.success() {
        bail!("`{program} {}` failed: {status}", words.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a part of the page above its limit is refused by name.
    #[test]
    fn a_page_has_a_bound() {
        let mut weight = Weight::default();
        for (name, bytes) in [("a.js", 3), ("a.css", 2), ("a.svg", 9), ("b.js", 4)] {
            weight.add(name, bytes);
        }
        weight.check(&Weight { scripts: 7, styles: 2 }, "it").unwrap();
        for most in [Weight { scripts: 6, styles: 2 }, Weight { scripts: 7, styles: 1 }] {
            assert!(weight.check(&most, "it").unwrap_err().to_string().starts_with("it has"));
        }
    }

    /// Promise: the same files make the same archive, byte by byte, for any time and owner of the
    /// files.
    #[test]
    fn an_archive_depends_on_its_files_alone() {
        let directory = std::env::temp_dir().join(format!("xtask-web-{}", std::process::id()));
        fs::create_dir_all(directory.join("assets")).unwrap();
        let mut archives = Vec::new();
        for _ in 0..2 {
            fs::write(directory.join("assets/a.js"), "let a = 1;\n").unwrap();
            fs::write(directory.join("index.html"), "<!doctype html>").unwrap();
            let mut names = Vec::new();
            list(&directory, "", &mut names).unwrap();
            names.sort();
            assert_eq!(names, ["assets/a.js", "index.html"]);
            archives.push(pack(&directory, &names).unwrap());
        }
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(archives[0], archives[1]);
        let mut archive = tar::Archive::new(&*archives[0]);
        let mut entries = archive.entries().unwrap();
        let first = entries.next().unwrap().unwrap();
        assert_eq!(first.path().unwrap().to_str(), Some("assets/a.js.gz"));
        assert_eq!(first.header().mtime().unwrap(), 0);
    }
}
