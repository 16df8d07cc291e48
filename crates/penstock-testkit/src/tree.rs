//! Trees of files: their content, and comparisons of two. The judges are programs that are not
//! ours: find(1), sha256sum(1), rsync(1) and diff(1).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use penstock_proto::name::STORE_PRIVATE_NAME;

use crate::program::{told, tool};

/// Calls `each` with every path below a directory. Entries may vanish meanwhile: transfers run.
pub fn walk(directory: &Path, each: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        each(&entry.path());
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), each);
        }
    }
}

/// Returns the regular files below a directory.
pub fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(root, &mut |path| {
        let is_file = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
        found.extend(is_file.then(|| path.to_owned()));
    });
    found
}

/// Returns the sum of the sizes of the regular files below a directory.
pub fn bytes_below(root: &Path) -> u64 {
    files_below(root).iter().map(|path| fs::metadata(path).unwrap().len()).sum()
}

/// Copies a tree by `cp -a`, to compare with what will be left of it; returns the copy.
pub fn remember(source: &Path) -> PathBuf {
    let kept = source.with_extension("as-it-was");
    tool("cp", &[&"-a", &source, &kept]);
    kept
}

/// Returns the stamps that show whether an item was changed: inode, time of change, size. Leaves
/// out the private directory of a store, whose markers change.
pub fn stamps(root: &Path) -> BTreeMap<PathBuf, (u64, i64, i64, u64)> {
    let mut stamps = BTreeMap::new();
    walk(root, &mut |path| {
        if !path.iter().any(|part| part == private_name()) {
            let meta = fs::symlink_metadata(path).unwrap();
            let stamp = (meta.ino(), meta.ctime(), meta.ctime_nsec(), meta.len());
            stamps.insert(path.to_owned(), stamp);
        }
    });
    stamps
}

fn private_name() -> &'static str {
    std::str::from_utf8(STORE_PRIVATE_NAME).unwrap()
}

/// Asserts that no temporary file is left below a directory.
pub fn assert_no_leftovers(root: &Path) {
    let found = tool("find", &[&root, &"-name", &".pst-*"]);
    assert_eq!(String::from_utf8_lossy(&found), "", "temporary files are left");
}

/// Asserts that two trees hold the same files with the same content, and something at all.
pub fn assert_same_files(source: &Path, target: &Path) {
    let some = fs::read_dir(source).is_ok_and(|mut entries| entries.next().is_some());
    assert!(some, "{} is empty", source.display());
    let mut diff = Command::new("diff");
    diff.args(["-rq", "--no-dereference"]).arg(format!("--exclude={}", private_name()));
    let output = diff.args([source, target]).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
}

/// Asserts that two trees are the same, with modes, times and links, and that no temporary file is
/// left in `target`.
pub fn assert_same(source: &Path, target: &Path) {
    assert_no_leftovers(target);
    let (left, right) = (listing(source), listing(target));
    if left != right {
        let ours: BTreeSet<_> = left.lines().collect();
        let theirs: BTreeSet<_> = right.lines().collect();
        let only: Vec<_> = ours.symmetric_difference(&theirs).take(20).collect();
        panic!("{} and {} differ: {only:#?}", source.display(), target.display());
    }
    if Command::new("rsync").arg("--version").stdout(Stdio::null()).status().is_ok() {
        let exclude = format!("--exclude=/{}", private_name());
        let changes = rsync("-rlptni", source, target, &["--delete", &exclude]);
        assert_eq!(changes, "", "rsync would change something");
    }
}

/// Lists modes, times, sizes and links of a tree, by find(1), and digests of its files, by
/// sha256sum(1). The private directory of a store is left out.
fn listing(root: &Path) -> String {
    let script = r#"cd -- "$1" && find . -path "./.penstock-store-*" -prune -o \( \
        -type d -printf 'd %m %T@ %P\0' -o -type f -printf 'f %m %T@ %s %P\0' \
        -o -printf '%y %T@ %l %P\0' \) | sort -z | tr '\0' '\n' \
        && find . -path "./.penstock-store-*" -prune -o -type f -print0 \
        | sort -z | xargs -0r sha256sum"#;
    let listed = tool("bash", &[&"-o", &"pipefail", &"-c", &script, &"bash", &root]);
    String::from_utf8_lossy(&listed).into_owned()
}

/// Returns what rsync would still change at the target, with more options; a line for each item.
pub fn rsync_would(source: &Path, target: &Path, options: &[&str]) -> String {
    rsync("-aHni", source, target, options)
}

fn rsync(flags: &str, source: &Path, target: &Path, options: &[&str]) -> String {
    let (from, to) = (source.join(""), target.join(""));
    let mut command = Command::new("rsync");
    command.args([flags, "--checksum"]).args(options).args([from, to]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Asserts that every final name below `target` is complete and right: its bytes and times are
/// those of the same name below `source` (promise (b)). Returns the number of files looked at.
pub fn assert_finals_right(source: &Path, target: &Path) -> usize {
    let mut looked_at = 0;
    for path in files_below(target) {
        let relative = path.strip_prefix(target).unwrap();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if relative.starts_with(private_name()) || name.starts_with(".pst-") {
            continue;
        }
        let expected = source.join(relative);
        let same = fs::read(&path).unwrap() == fs::read(&expected).unwrap();
        assert!(same, "{} has its name but not its bytes", path.display());
        let times = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        assert_eq!(times(&path), times(&expected), "{}", path.display());
        looked_at += 1;
    }
    looked_at
}
