//! Source and target of a copy, each on the host where it is: the rules about slashes, existing
//! directories and special files, and the check that neither lies within the other (B8).

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use penstock_api::transfer::PathText;
use penstock_peer::StoreKind;
use penstock_proto::name;
use penstock_store::MemSpec;
use serde::{Deserialize, Serialize};

use penstock_exit::{ExitCode, Failure};

/// What the place of a target depends on: what its source is, wherever that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceFacts {
    /// Last component of its path; may be empty.
    pub(crate) name: PathText,
    /// Whether it is a directory.
    pub(crate) directory: bool,
    /// Whether the contents of the directory are meant, not the directory itself.
    pub(crate) contents: bool,
    /// Whether it is a device or a pipe.
    pub(crate) special: bool,
}

/// The source, on the host where it is.
pub(crate) struct SourcePlace {
    pub(crate) kind: StoreKind,
    /// Root of the data set within the store.
    pub(crate) root: Vec<u8>,
    /// Absolute path, for messages and for the name of the state directory.
    pub(crate) path: PathBuf,
    directory: bool,
    slash: bool,
    special: bool,
}

impl SourcePlace {
    /// Looks at the source.
    ///
    /// # Errors
    /// There is none, or it cannot be looked at.
    pub(crate) fn find(source: &Path) -> anyhow::Result<Self> {
        let slash = ends_in_slash(source);
        if let Some(text) = source.to_str()
            && text.starts_with("mem:")
        {
            let spec: MemSpec = text.parse().map_err(|error| {
                Failure::new(ExitCode::Usage, format!("cannot read `{text}`")).caused_by(error)
            })?;
            let (kind, path) = (StoreKind::Mem(spec), PathBuf::from(text));
            let (directory, special) = (true, false);
            return Ok(Self { kind, root: Vec::new(), path, directory, slash, special });
        }
        let meta = fs::symlink_metadata(source).map_err(|error| unexamined(source, error))?;
        let followed = if slash { fs::metadata(source).ok() } else { None };
        if followed.as_ref().unwrap_or(&meta).is_dir() {
            let path = canonical(source)?;
            let kind = StoreKind::Posix(path.clone());
            let (directory, special) = (true, false);
            return Ok(Self { kind, root: Vec::new(), path, directory, slash, special });
        }
        let parent = source.parent().filter(|path| !path.as_os_str().is_empty());
        let parent = canonical(parent.unwrap_or(Path::new(".")))?;
        let root = source.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
        let path = parent.join(OsStr::from_bytes(&root));
        check_name(&path, &root, "has not finished, or keeps for itself")?;
        let kind = StoreKind::Posix(parent);
        let special = is_special(meta.file_type());
        Ok(Self { kind, root, path, directory: false, slash, special })
    }

    /// What the place of the target depends on.
    pub(crate) fn facts(&self) -> SourceFacts {
        let name = self.path.file_name().map(|name| name.as_bytes().to_vec()).unwrap_or_default();
        let contents = self.slash || name.is_empty();
        let (directory, special) = (self.directory, self.special);
        SourceFacts { name: PathText(name), directory, contents, special }
    }
}

/// The target, on the host where it is, after all rules about slashes and existing directories.
pub(crate) struct TargetPlace {
    pub(crate) kind: StoreKind,
    /// What the data set's root becomes within the store.
    pub(crate) root: Vec<u8>,
    /// Absolute path, for messages and for the name of the state directory.
    pub(crate) path: PathBuf,
}

impl TargetPlace {
    /// Finds the directory that is written to. Where it is missing it is made, unless `make` says
    /// that nothing may be: then all that is looked for there is missing. `apart` refuses a target
    /// that overlaps its source (B8). Without `delete` a single file is refused whose name a
    /// device, pipe or socket has.
    ///
    /// # Errors
    /// It cannot be made, or is refused; something else is where a directory has to be.
    pub(crate) fn find(
        target: &Path,
        source: &SourceFacts,
        apart: &dyn Fn(&Path) -> anyhow::Result<()>,
        make: bool,
        delete: bool,
    ) -> anyhow::Result<Self> {
        if target.as_os_str() == "null:" {
            let path = PathBuf::from("null:");
            let root = if source.directory { Vec::new() } else { source.name.0.clone() };
            return Ok(Self { kind: StoreKind::Null, root, path });
        }
        let into = source.directory || ends_in_slash(target) || target.is_dir();
        let (directory, root) = match (into, source.directory && source.contents) {
            (true, true) => (target.to_owned(), Vec::new()),
            (true, false) => (target.to_owned(), source.name.0.clone()),
            (false, _) => {
                let leaf = target.file_name().map(|name| name.as_bytes().to_vec());
                let parent = target.parent().filter(|path| !path.as_os_str().is_empty());
                (parent.unwrap_or(Path::new(".")).to_owned(), leaf.unwrap_or_default())
            }
        };
        let whole = absolute(&directory)?.join(OsStr::from_bytes(&root));
        check_name(&whole, &root, "would take for its own")?;
        apart(&whole)?;
        check_way(&directory, source, into)?;
        if !source.directory && !source.special && !delete {
            check_no_special(&directory.join(OsStr::from_bytes(&root)))?;
        }
        if !make && !directory.exists() {
            return Ok(Self { kind: StoreKind::Null, root, path: whole });
        }
        fs::create_dir_all(&directory).map_err(|error| {
            Failure::io(format!("make the directory `{}`", directory.display()), error)
                .hint("choose a target in a directory that this user may write to")
        })?;
        let directory = canonical(&directory)?;
        let path = directory.join(OsStr::from_bytes(&root));
        apart(&path)?;
        Ok(Self { kind: StoreKind::Posix(directory), root, path })
    }
}

/// Returns the failure of a source that cannot be examined.
fn unexamined(source: &Path, error: io::Error) -> Failure {
    let message = format!("cannot examine the source `{}`", source.display());
    let (exit, hint) = match error.kind() {
        // As a transfer between sites ends: the source may have been there before.
        io::ErrorKind::NotFound => {
            (ExitCode::SourceChanged, "give a file or a directory that exists")
        }
        io::ErrorKind::PermissionDenied => {
            (ExitCode::Fatal, "ask its owner for the right to read it")
        }
        _ => (ExitCode::of_io(&error), "give a file or a directory that exists"),
    };
    Failure::new(exit, message).caused_by(error).hint(hint)
}

/// Refuses a target where something else is that has to be a directory: itself, or one on the way.
/// `into` says that the directory is the target as the user wrote it, and not its parent.
fn check_way(directory: &Path, source: &SourceFacts, into: bool) -> Result<(), Failure> {
    // Without a slash at the end, which would follow a link.
    let whole: PathBuf = directory.components().collect();
    for place in whole.ancestors().filter(|place| !place.as_os_str().is_empty()) {
        let there = match fs::symlink_metadata(place) {
            Ok(there) => there,
            Err(error) if is_nothing(&error) => continue,
            // Making it says why.
            Err(_) => return Ok(()),
        };
        if place.is_dir() {
            return Ok(());
        }
        let found = words_of(place, there.file_type());
        let message = format!("`{}` is {found}, where a directory has to be", place.display());
        let hint = if place != whole || !into {
            "choose a target inside a directory"
        } else if source.directory {
            "remove it, or choose another target: a directory takes the place of nothing else"
        } else {
            "leave out the slash at the end to give the file that name, or choose another target"
        };
        return Err(Failure::new(ExitCode::Fatal, message).hint(hint));
    }
    Ok(())
}

/// Refuses to put a file in the place of a device, pipe or socket, or of a link to one.
fn check_no_special(target: &Path) -> Result<(), Failure> {
    let leads_to = fs::metadata(target).map(|there| there.file_type());
    if !leads_to.is_ok_and(is_special) {
        return Ok(());
    }
    let Ok(there) = fs::symlink_metadata(target) else { return Ok(()) };
    let found = words_of(target, there.file_type());
    let message =
        format!("`{}` is {found}: a copy would put a file in its place", target.display());
    Err(Failure::new(ExitCode::Refused, message)
        .hint("`--delete` replaces it; `cat` writes into it; or choose another target"))
}

fn is_special(kind: fs::FileType) -> bool {
    !kind.is_file() && !kind.is_dir() && !kind.is_symlink()
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// What stands at `place`, for messages; of a link also what it leads to.
fn words_of(place: &Path, kind: fs::FileType) -> String {
    let plain = |kind: fs::FileType| match kind {
        kind if kind.is_file() => "a file",
        kind if kind.is_fifo() => "a pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_dir() => "a directory",
        _ => "a device",
    };
    if !kind.is_symlink() {
        return plain(kind).to_owned();
    }
    match fs::metadata(place) {
        Ok(there) => format!("a link to {}", plain(there.file_type())),
        Err(error) if is_nothing(&error) => {
            let text = fs::read_link(place).unwrap_or_default();
            format!("a link to `{}`, which does not exist", text.display())
        }
        Err(error) => format!("a link that cannot be followed ({error})"),
    }
}

/// Refuses an own name as the root of a data set.
fn check_name(path: &Path, root: &[u8], why: &str) -> anyhow::Result<()> {
    if name::own(root).is_none() {
        return Ok(());
    }
    let message = format!("`{}` is a file that penstock {why}", path.display());
    Err(Failure::new(ExitCode::Usage, message).hint("give another name").into())
}

/// Whether the contents of a directory are meant, not the directory itself.
pub(crate) fn ends_in_slash(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.") || bytes == b"."
}

fn canonical(path: &Path) -> anyhow::Result<PathBuf> {
    let failed = |error| Failure::io(format!("examine `{}`", path.display()), error);
    Ok(path.canonicalize().map_err(failed)?)
}

/// The path made absolute, with links resolved as far as it exists.
pub(super) fn absolute(path: &Path) -> anyhow::Result<PathBuf> {
    let whole = std::path::absolute(path).context("cannot find the working directory")?;
    let mut existing = whole.as_path();
    let mut rest = Vec::new();
    while !existing.exists() {
        let (Some(parent), Some(name)) = (existing.parent(), existing.file_name()) else { break };
        rest.push(name.to_owned());
        existing = parent;
    }
    let mut resolved = existing.canonicalize().unwrap_or_else(|_| existing.to_owned());
    resolved.extend(rest.iter().rev());
    Ok(resolved)
}

/// Refuses to copy a tree into itself, or over something that contains it (B8).
pub(super) fn check_apart(from: &Path, to: &Path) -> anyhow::Result<()> {
    let apart = !from.starts_with(to) && !to.starts_with(from);
    if apart {
        // A directory may have two paths that tell nothing of each other: by bind mounts.
        return if from.is_dir() { check_traces(&trace(from), to) } else { Ok(()) };
    }
    let message = format!("`{}` and `{}` overlap", from.display(), to.display());
    Err(Failure::new(ExitCode::Refused, message)
        .hint("choose a target that is neither inside the source nor contains it")
        .into())
}

/// A directory, as any process of the same host knows it: boot id, device, inode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DirectoryIdentity {
    boot: String,
    device: u64,
    inode: u64,
}

/// The path and the directories that it lies in, itself first, as far as they exist.
pub(crate) fn trace(path: &Path) -> Vec<DirectoryIdentity> {
    let Ok(boot) = penstock_sys::boot_id() else { return Vec::new() };
    let boot = data_encoding::HEXLOWER.encode(&boot);
    let place = |path: &Path| {
        let meta = fs::symlink_metadata(path).ok()?;
        Some(DirectoryIdentity { boot: boot.clone(), device: meta.dev(), inode: meta.ino() })
    };
    if !path.is_absolute() {
        return Vec::new();
    }
    path.ancestors().filter_map(place).collect()
}

/// Refuses a target that overlaps its source, for a host may be reached from itself, or share a
/// file system under the same boot (B8). `source` is the source's [`trace`].
///
/// # Errors
/// Refused.
pub(crate) fn check_traces(source: &[DirectoryIdentity], to: &Path) -> anyhow::Result<()> {
    let Some(root) = source.first() else { return Ok(()) };
    let target = trace(to);
    let within = target.contains(root);
    let exists = fs::symlink_metadata(to).is_ok();
    let around = exists && target.first().is_some_and(|target| source.contains(target));
    if !within && !around {
        return Ok(());
    }
    let message = format!("the source and the target `{}` overlap", to.display());
    Err(Failure::new(ExitCode::Refused, message)
        .hint("choose a target that is neither inside the source nor contains it")
        .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B8: a tree is not copied into itself by way of ssh to the own host.
    #[test]
    fn b8_a_tree_and_itself_are_not_apart() {
        let work = tempfile::tempdir().unwrap();
        let root = work.path().canonicalize().unwrap();
        let source = root.join("a/b");
        fs::create_dir_all(&source).unwrap();
        let places = trace(&source);
        for (to, apart) in
            [("a/b", false), ("a", false), ("a/b/c/d", false), ("a/x", true), ("x/a/b", true)]
        {
            assert_eq!(check_traces(&places, &root.join(to)).is_ok(), apart, "{to}");
        }
    }
}
