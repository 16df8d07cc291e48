//! The package of Red Hat's and SUSE's systems, by rpmbuild.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::Source;
use super::command::output;
use super::program::Program;
use super::tree::{self, Content, LICENCE, Layout, Tree};

/// Places of services that these systems do not have.
const ELSEWHERE: &str = "etc/ufw/";
/// Settings of rpmbuild: the same bytes on every host, and the program as it is.
const SETTINGS: [&str; 8] = [
    "_buildhost penstock",
    "_build_id_links none",
    "use_source_date_epoch_as_buildtime 1",
    "clamp_mtime_to_source_date_epoch 1",
    "source_date_epoch_from_changelog 0",
    "debug_package %{nil}",
    "__os_install_post %{nil}",
    "_docdir /usr/share/doc",
];

/// Makes the package of a tree in a directory, and returns its path. rpmbuild finds the libraries
/// and the versions of symbols that the program needs.
///
/// # Errors
/// rpmbuild is missing or fails.
pub(crate) fn make(
    source: &Source,
    program: &Program,
    tree: &Tree,
    out: &Path,
) -> anyhow::Result<PathBuf> {
    let work = source.work("rpm");
    let mut tree = tree.clone();
    tree.entries.retain(|entry| !entry.path.starts_with(ELSEWHERE));
    let staged = work.join("tree");
    tree::remove(&work)?;
    tree.write(&staged, source.system_time())?;
    let version = source.version.replace('-', "~");
    let text = source
        .read("packaging/rpm/penstock.spec.in")?
        .replace("@VERSION@", &version)
        .replace("@HOMEPAGE@", &source.homepage)
        .replace("@TREE@", super::text(&staged)?)
        .replace("@FILES@", &files(&tree))
        .replace("@DATE@", &source.date("+%a %b %d %Y")?);
    let spec = work.join("penstock.spec");
    fs::write(&spec, text).with_context(|| format!("write {}", spec.display()))?;
    let machine = program.machine.name();
    let top = format!("_topdir {}", work.display());
    // The rpm of EL8, 4.14, reads xz for certain.
    let payload = format!("_binary_payload w{}.xzdio", source.level);
    let mut words = vec!["-bb", "--target", machine, "--define", &top, "--define", &payload];
    for setting in &SETTINGS {
        words.extend(["--define", setting]);
    }
    words.push(super::text(&spec)?);
    output("rpmbuild", &words, &[("SOURCE_DATE_EPOCH", &source.epoch())])
        .context("the package rpm has rpmbuild; `scripts/setup.sh test` installs it")?;
    let name = format!("penstock-{version}-1.{machine}.rpm");
    let made = work.join("RPMS").join(machine).join(&name);
    let path = out.join(name);
    fs::copy(&made, &path).with_context(|| format!("copy {}", made.display()))?;
    tree::remove(&work)?;
    Ok(path)
}

/// Returns the list of files for the package, with the directories that are its own: those below
/// one of our name.
fn files(tree: &Tree) -> String {
    let layout = Layout::of_packages();
    let mut directories = BTreeSet::new();
    let mut lines = String::new();
    for entry in &tree.entries {
        let path = Path::new(&entry.path);
        let is_own = |above: &&Path| above.iter().any(|part| part == "penstock");
        directories.extend(path.ancestors().skip(1).filter(is_own));
        let kind = match entry.content {
            Content::Directory => "%dir ",
            _ if entry.is_configuration() => "%config(noreplace) ",
            _ if entry.path == layout.place(LICENCE) => "%license ",
            _ => "",
        };
        lines += &format!("{kind}%attr({:04o},root,root) /{}\n", entry.mode, entry.path);
    }
    for directory in directories {
        lines += &format!("%dir %attr(0755,root,root) /{}\n", directory.display());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: directories of our name belong to the package, those of the system do not, and
    /// configuration is never replaced.
    #[test]
    fn own_directories_are_listed() {
        let mut tree = Tree::default();
        let file = || Content::Bytes(Vec::new());
        tree.add("etc/penstock/conf.d".to_owned(), 0o755, Content::Directory);
        tree.add("etc/penstock/penstock.toml".to_owned(), 0o644, file());
        tree.add("usr/bin/penstock".to_owned(), 0o755, file());
        tree.add("usr/share/doc/penstock/docs/a.md".to_owned(), 0o644, file());
        let files = files(&tree);
        let lines: Vec<_> = files.lines().collect();
        assert_eq!(
            lines,
            [
                "%dir %attr(0755,root,root) /etc/penstock/conf.d",
                "%config(noreplace) %attr(0644,root,root) /etc/penstock/penstock.toml",
                "%attr(0755,root,root) /usr/bin/penstock",
                "%attr(0644,root,root) /usr/share/doc/penstock/docs/a.md",
                "%dir %attr(0755,root,root) /etc/penstock",
                "%dir %attr(0755,root,root) /usr/share/doc/penstock",
                "%dir %attr(0755,root,root) /usr/share/doc/penstock/docs",
            ]
        );
    }
}
