//! The one tree that all packages, the archives and `make install` are made from.

use std::fs::{self, File, FileTimes};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail};
use flate2::{Compression, GzBuilder};

use super::command::output;

/// Directory of the unit, and of files that other services read, below the root of the project.
const SYSTEM: &str = "packaging/system";
/// The program's place in the unit as it is in the project.
const PACKAGED_PROGRAM: &str = "/usr/bin/penstock";
/// Pages of the manual, of all commands.
const MANUAL: &str = "share/man/man1";
/// Documents, below the prefix.
pub(crate) const DOCUMENTS: &str = "share/doc/penstock";
/// The text of our licence, below the prefix.
pub(crate) const LICENCE: &str = "share/doc/penstock/LICENSE";
/// Place of the unit where systemd does not look below the prefix. This file and the next one are
/// no configuration: an upgrade replaces them, and a removal removes them.
const UNIT: &str = "etc/systemd/system/penstock.service";
/// Place of the daemon's user in that case.
const USERS: &str = "etc/sysusers.d/penstock.conf";
/// Place in which zsh looks for completions, below the prefix, but for that of Debian.
pub(crate) const ZSH: &str = "share/zsh/site-functions/_penstock";

/// Target directory of an installation: `/usr`, or `/usr/local`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The prefix without its first slash.
    prefix: String,
}

impl Layout {
    /// Returns the layout of packages.
    pub(crate) fn of_packages() -> Self {
        Self { prefix: "usr".to_owned() }
    }

    /// Returns the layout below a prefix.
    ///
    /// # Errors
    /// The prefix is not an absolute path.
    pub(crate) fn below(prefix: &str) -> anyhow::Result<Self> {
        match prefix.strip_prefix('/') {
            Some(prefix) if !prefix.trim_matches('/').is_empty() => {
                Ok(Self { prefix: prefix.trim_end_matches('/').to_owned() })
            }
            _ => bail!("PREFIX is an absolute path, such as /usr/local, and not `{prefix}`"),
        }
    }

    /// Returns a place below the prefix.
    pub(crate) fn place(&self, below: &str) -> String {
        format!("{}/{below}", self.prefix)
    }

    /// Returns the places of the system's files. The program, systemd and ufw read those of `etc`
    /// wherever the program lies. Of prefixes, systemd knows `/usr` and `/usr/local`
    /// (systemd.unit(5), sysusers.d(5)), and firewalld `/usr` alone (`firewalld.dirs`).
    fn system(&self) -> Vec<(&'static str, String)> {
        let firewall = match self.prefix.as_str() {
            "usr" => "usr/lib/firewalld/services/penstock.xml",
            _ => "etc/firewalld/services/penstock.xml",
        };
        let (unit, users) = match self.prefix.as_str() {
            "usr" | "usr/local" => (
                self.place("lib/systemd/system/penstock.service"),
                self.place("lib/sysusers.d/penstock.conf"),
            ),
            _ => (UNIT.to_owned(), USERS.to_owned()),
        };
        let selinux = |name| self.place(&format!("share/penstock/selinux/{name}"));
        vec![
            ("penstock.service", unit),
            ("sysusers.d/penstock.conf", users),
            ("penstock.toml", "etc/penstock/penstock.toml".to_owned()),
            ("firewalld/penstock.xml", firewall.to_owned()),
            ("ufw/penstock", "etc/ufw/applications.d/penstock".to_owned()),
            ("selinux/penstock.te", selinux("penstock.te")),
            ("selinux/penstock.if", selinux("penstock.if")),
            ("selinux/penstock.fc", selinux("penstock.fc")),
        ]
    }
}

/// A file or an empty directory of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its path, without a slash before it.
    pub(crate) path: String,
    pub(crate) mode: u32,
    pub(crate) content: Content,
}

/// Content of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The content of a file on this machine.
    Copy(PathBuf),
    Bytes(Vec<u8>),
    Directory,
}

impl Entry {
    /// Returns whether it is configuration, which an administrator's changes survive.
    pub(crate) fn is_configuration(&self) -> bool {
        self.path.starts_with("etc/")
            && ![UNIT, USERS].contains(&self.path.as_str())
            && self.content != Content::Directory
    }
}

/// The files and directories that go onto a host.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) entries: Vec<Entry>,
}

impl Tree {
    /// Collects the tree of a program. `papers` prints its manual and its completions: the program
    /// itself, or one for this machine.
    ///
    /// # Errors
    /// A part is missing, or `papers` fails.
    pub(crate) fn collect(
        root: &Path,
        layout: &Layout,
        program: &Path,
        papers: &Path,
        notices: &str,
    ) -> anyhow::Result<Self> {
        let mut tree = Self::default();
        tree.add(layout.place("bin/penstock"), 0o755, Content::Copy(program.to_owned()));
        let restart = Content::Copy(root.join("packaging/scripts/restart.sh"));
        tree.add(layout.place("libexec/penstock/restart"), 0o755, restart);
        for (from, to) in layout.system() {
            let from = root.join(SYSTEM).join(from);
            let text =
                fs::read_to_string(&from).with_context(|| format!("read {}", from.display()))?;
            let place = format!("/{}", layout.place("bin/penstock"));
            let text = text.replace(PACKAGED_PROGRAM, &place);
            tree.add(to, 0o644, Content::Bytes(text.into_bytes()));
        }
        tree.add("etc/penstock/conf.d".to_owned(), 0o755, Content::Directory);
        tree.add_papers(root, layout, papers)?;
        tree.add_documents(root, layout, notices)?;
        tree.entries.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    pub(crate) fn add(&mut self, path: String, mode: u32, content: Content) {
        self.entries.push(Entry { path, mode, content });
    }

    /// Adds manual and completions.
    ///
    /// # Errors
    /// The program fails, or its pages cannot be read.
    fn add_papers(&mut self, root: &Path, layout: &Layout, program: &Path) -> anyhow::Result<()> {
        let manual = root.join("target/packaging/man");
        remove(&manual)?;
        let program = super::text(program)?;
        output(program, &["reference", "--man", super::text(&manual)?], &[])?;
        for name in names(&manual)? {
            let page = fs::read(manual.join(&name)).with_context(|| format!("read {name}"))?;
            let place = layout.place(&format!("{MANUAL}/{name}.gz"));
            self.add(place, 0o644, Content::Bytes(compressed(&page)?));
        }
        for (shell, place) in [
            ("bash", "share/bash-completion/completions/penstock"),
            ("zsh", ZSH),
            ("fish", "share/fish/vendor_completions.d/penstock.fish"),
        ] {
            let script = output(program, &["completions", shell], &[])?;
            self.add(layout.place(place), 0o644, Content::Bytes(script.into_bytes()));
        }
        Ok(())
    }

    /// Adds documents for users, and licences.
    ///
    /// # Errors
    /// A document cannot be read.
    fn add_documents(&mut self, root: &Path, layout: &Layout, notices: &str) -> anyhow::Result<()> {
        let place = |name: &str| layout.place(&format!("{DOCUMENTS}/{name}"));
        for name in ["README.md", "CHANGELOG.md", "SECURITY.md"] {
            self.add(place(name), 0o644, Content::Copy(root.join(name)));
        }
        for name in names(&root.join("docs"))?.iter().filter(|name| name.ends_with(".md")) {
            let document = Content::Copy(root.join("docs").join(name));
            self.add(place(&format!("docs/{name}")), 0o644, document);
        }
        self.add(layout.place(LICENCE), 0o644, Content::Copy(root.join("LICENSE")));
        let notices = Content::Bytes(compressed(notices.as_bytes())?);
        self.add(place("THIRD-PARTY.txt.gz"), 0o644, notices);
        Ok(())
    }

    /// Writes the tree below an empty or missing directory, with one time for all.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub(crate) fn write(&self, directory: &Path, time: SystemTime) -> anyhow::Result<()> {
        remove(directory)?;
        for entry in &self.entries {
            write_entry(directory, entry, Some(time))?;
        }
        Ok(())
    }
}

/// Writes an entry below a directory; a file takes its place at once.
///
/// # Errors
/// The entry cannot be read or written.
pub(crate) fn write_entry(
    directory: &Path,
    entry: &Entry,
    time: Option<SystemTime>,
) -> anyhow::Result<()> {
    let path = directory.join(&entry.path);
    let failed = || format!("write {}", path.display());
    let above = if entry.content == Content::Directory { Some(&*path) } else { path.parent() };
    fs::create_dir_all(above.context("a path has a directory")?).with_context(failed)?;
    // A program that runs cannot be written to, but its name can get another file.
    let new = match &entry.content {
        Content::Directory => return Ok(()),
        _ => path.with_extension("penstock-new"),
    };
    match &entry.content {
        Content::Copy(from) => {
            fs::copy(from, &new).with_context(|| format!("copy {}", from.display()))?;
        }
        Content::Bytes(bytes) => fs::write(&new, bytes).with_context(failed)?,
        Content::Directory => {}
    }
    fs::set_permissions(&new, fs::Permissions::from_mode(entry.mode)).with_context(failed)?;
    if let Some(time) = time {
        let times = FileTimes::new().set_modified(time).set_accessed(time);
        let file = File::options().write(true).open(&new).with_context(failed)?;
        file.set_times(times).with_context(failed)?;
    }
    fs::rename(&new, &path).with_context(failed)
}

/// Returns the time of a source, in seconds since 1970, for file systems.
pub(crate) fn system_time(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

/// Compresses a text, without the time and the name of a file.
///
/// # Errors
/// None but those of memory.
pub(crate) fn compressed(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut encoder = GzBuilder::new().write(Vec::new(), Compression::best());
    encoder.write_all(bytes).context("compress")?;
    encoder.finish().context("compress")
}

/// Returns the names of files in a directory, sorted.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn names(directory: &Path) -> anyhow::Result<Vec<String>> {
    let failed = || format!("list {}", directory.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).with_context(failed)? {
        let entry = entry.with_context(failed)?;
        if entry.path().is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Removes a directory and all in it, if it is there.
///
/// # Errors
/// The directory cannot be removed.
pub(crate) fn remove(directory: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a prefix is absolute, and configuration is below `/etc` whatever the prefix is.
    #[test]
    fn a_prefix_is_absolute() {
        assert!(Layout::below("usr/local").is_err());
        assert!(Layout::below("/").is_err());
        let layout = Layout::below("/opt/penstock/").unwrap();
        assert_eq!(layout.place("bin/penstock"), "opt/penstock/bin/penstock");
        let system = layout.system();
        assert!(system.iter().any(|(_, to)| to == "etc/penstock/penstock.toml"));
        assert!(system.iter().any(|(_, to)| to == "etc/firewalld/services/penstock.xml"));
    }

    /// Promise: unit and user lie where systemd looks, and are no configuration, which survives an
    /// upgrade.
    #[test]
    fn systemd_finds_unit_and_user() {
        for (prefix, unit, users) in [
            (
                "/usr/local",
                "usr/local/lib/systemd/system/penstock.service",
                "usr/local/lib/sysusers.d/penstock.conf",
            ),
            ("/opt/x", "etc/systemd/system/penstock.service", "etc/sysusers.d/penstock.conf"),
        ] {
            let system = Layout::below(prefix).unwrap().system();
            for place in [unit, users] {
                assert!(system.iter().any(|(_, to)| to == place), "{prefix}: {place}");
                let content = Content::Bytes(Vec::new());
                let entry = Entry { path: place.to_owned(), mode: 0o644, content };
                assert!(!entry.is_configuration(), "{place}");
            }
        }
    }
}
