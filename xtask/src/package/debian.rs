//! The package of Debian and Ubuntu, by dpkg-deb.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::Source;
use super::command::output;
use super::program::Program;
use super::tree::{self, Content, DOCUMENTS, Entry, LICENCE, Layout, Tree, ZSH};

/// Place in which zsh of Debian looks for completions of packages (zsh-common, README.Debian).
const ZSH_OF_DEBIAN: &str = "share/zsh/vendor-completions/_penstock";
/// Scripts that dpkg runs.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Makes the package of a tree in a directory, and returns its path. dpkg-deb takes no time from
/// the clock while `SOURCE_DATE_EPOCH` is set, and has one thread, as more compress otherwise.
///
/// # Errors
/// The program needs a library that no package is known for; dpkg-deb is missing or fails.
pub(crate) fn make(
    source: &Source,
    program: &Program,
    tree: &Tree,
    out: &Path,
) -> anyhow::Result<PathBuf> {
    let staged = source.work("deb");
    let tree = adapted(source, tree)?;
    tree.write(&staged, source.system_time())?;
    let control = staged.join("DEBIAN");
    fs::create_dir_all(&control).context("make the directory of the control files")?;
    let write = |name: &str, text: &str, mode| {
        let content = Content::Bytes(text.as_bytes().to_vec());
        let entry = Entry { path: name.to_owned(), mode, content };
        tree::write_entry(&control, &entry, Some(source.system_time()))
    };
    write("control", &control_file(source, program, &tree)?, 0o644)?;
    let files = || tree.entries.iter().filter(|entry| entry.content != Content::Directory);
    let lines = |entry: &Entry| format!("/{}\n", entry.path);
    let configuration: String =
        files().filter(|entry| entry.is_configuration()).map(lines).collect();
    write("conffiles", &configuration, 0o644)?;
    let mut sums = String::new();
    for entry in files() {
        let printed = output("md5sum", &[super::text(&staged.join(&entry.path))?], &[])?;
        let sum = printed.split_whitespace().next().unwrap_or_default();
        sums += &format!("{sum}  {}\n", entry.path);
    }
    write("md5sums", &sums, 0o644)?;
    for name in SCRIPTS {
        write(name, &source.read(&format!("packaging/deb/{name}"))?, 0o755)?;
    }
    let name = format!("penstock_{}_{}.deb", source.package_version(), program.machine.debian());
    let path = out.join(name);
    let level = format!("-z{}", source.level);
    let words = ["--root-owner-group", "-Zxz", &level, "--build", super::text(&staged)?];
    let variables = [("SOURCE_DATE_EPOCH", &*source.epoch()), ("DPKG_DEB_THREADS_MAX", "1")];
    output("dpkg-deb", &[&words[..], &[super::text(&path)?]].concat(), &variables)
        .context("`scripts/setup.sh test` installs dpkg-deb")?;
    tree::remove(&staged)?;
    Ok(path)
}

/// Returns the tree as Debian's policy has it: its own names for changes and licences.
///
/// # Errors
/// A file cannot be read.
fn adapted(source: &Source, tree: &Tree) -> anyhow::Result<Tree> {
    let layout = Layout::of_packages();
    let document = |name: &str| layout.place(&format!("{DOCUMENTS}/{name}"));
    let mut tree = tree.clone();
    let (licence, changes) = (layout.place(LICENCE), document("CHANGELOG.md"));
    tree.entries.retain(|entry| entry.path != licence && entry.path != changes);
    for entry in &mut tree.entries {
        if entry.path == layout.place(ZSH) {
            entry.path = layout.place(ZSH_OF_DEBIAN);
        }
    }
    let changes = source.read("CHANGELOG.md")?;
    let packaged = format!(
        "penstock ({}) stable; urgency=medium\n\n  * Release {}: changelog.gz has its changes.\n\n \
         -- The Penstock authors <penstock@users.noreply.github.com>  {}\n",
        source.package_version(),
        source.version,
        source.date("+%a, %d %b %Y %H:%M:%S +0000")?,
    );
    for (name, text) in [("changelog.gz", changes), ("changelog.Debian.gz", packaged)] {
        let text = tree::compressed(text.as_bytes())?;
        tree.add(document(name), 0o644, Content::Bytes(text));
    }
    let copyright = source.root.join("packaging/deb/copyright");
    tree.add(document("copyright"), 0o644, Content::Copy(copyright));
    tree.entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(tree)
}

/// Returns the control file.
///
/// # Errors
/// A library has no package that is known; a file cannot be read.
fn control_file(source: &Source, program: &Program, tree: &Tree) -> anyhow::Result<String> {
    let depends = match depends(program)?.join(", ") {
        none if none.is_empty() => String::new(),
        some => format!("Depends: {some}\n"),
    };
    let mut bytes = 0;
    for entry in &tree.entries {
        bytes += match &entry.content {
            Content::Copy(path) => {
                fs::metadata(path).with_context(|| format!("read {}", path.display()))?.len()
            }
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Directory => 0,
        };
    }
    let text = source.read("packaging/deb/control.in")?;
    Ok(text
        .replace("@VERSION@", &source.package_version())
        .replace("@ARCHITECTURE@", program.machine.debian())
        .replace("@SIZE@", &bytes.div_ceil(1024).to_string())
        .replace("@DEPENDS@", &depends)
        .replace("@HOMEPAGE@", &source.homepage))
}

/// Returns the packages that a program needs. Debian 11, Ubuntu 20.04 and later have them all.
///
/// # Errors
/// No package is known for a library.
fn depends(program: &Program) -> anyhow::Result<Vec<String>> {
    let mut packages = Vec::new();
    if let Some((major, minor)) = program.glibc {
        packages.push(format!("libc6 (>= {major}.{minor})"));
    }
    for library in &program.libraries {
        let begin = library.split(".so").next().unwrap_or(library);
        match begin {
            "libgcc_s" => packages.push("libgcc-s1".to_owned()),
            "libc" | "libm" | "libdl" | "libpthread" | "librt" | "ld-linux-x86-64"
            | "ld-linux-aarch64" => {}
            _ => bail!("no package of Debian is known for the library `{library}`"),
        }
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::program::Machine;

    /// Promise: a package depends on the glibc that the program's symbols ask for, and a library
    /// that no package is known for makes none.
    #[test]
    fn dependencies_follow_symbols() {
        let mut program = Program {
            machine: Machine::X86,
            libraries: ["libc.so.6", "libgcc_s.so.1"].map(str::to_owned).into(),
            glibc: Some((2, 28)),
            lacks: Vec::new(),
        };
        assert_eq!(depends(&program).unwrap(), ["libc6 (>= 2.28)", "libgcc-s1"]);
        program.libraries.insert("libssl.so.3".to_owned());
        assert!(depends(&program).unwrap_err().to_string().contains("`libssl.so.3`"));
        (program.libraries, program.glibc) = Default::default();
        assert!(depends(&program).unwrap().is_empty());
    }
}
