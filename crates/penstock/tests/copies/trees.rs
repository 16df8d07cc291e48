//! Random trees, copied, changed, synced, killed and resumed again and again, and judged by
//! programs that are not ours: what a file system holds arrives, and nothing else is left.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use penstock_testkit::{Copy, Run, Scratch, assert_no_leftovers, files_below, is_root, rng, tool};
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rustix::fs::{CWD, FileType, Mode, XattrFlags, mknodat, setxattr};

/// A tree that is made and changed at random. What it holds is read from disk, so that it has no
/// second idea of its own.
struct Tree {
    root: PathBuf,
    rng: ChaCha8Rng,
    /// So that no change of contents keeps size and time: `--sync` would rightly pass it over.
    clock: u64,
    made: u64,
}

impl Tree {
    fn new(root: &Path, rng: ChaCha8Rng) -> Self {
        fs::create_dir_all(root).unwrap();
        Self { root: root.to_owned(), rng, clock: 1_000_000_000, made: 0 }
    }

    /// Some existing path that `wanted` accepts, the root among the directories.
    fn pick(&mut self, wanted: impl Fn(&fs::Metadata) -> bool) -> Option<PathBuf> {
        let mut found = Vec::new();
        let mut open = vec![self.root.clone()];
        while let Some(path) = open.pop() {
            let meta = fs::symlink_metadata(&path).unwrap();
            if meta.is_dir() {
                let mut inner: Vec<_> =
                    fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
                // The order of a directory is not the seed's.
                inner.sort();
                open.extend(inner);
            }
            if wanted(&meta) {
                found.push(path);
            }
        }
        found.sort();
        if found.is_empty() {
            return None;
        }
        let at = self.rng.random_range(0..found.len());
        Some(found.swap_remove(at))
    }

    /// A name that nothing has yet, often an odd one.
    fn new_path(&mut self) -> PathBuf {
        let directory = self.pick(fs::Metadata::is_dir).unwrap();
        self.made += 1;
        let odd: &[&[u8]] =
            &[b"", b"\xff\xfe", b"\n", b" ", b"*?[", b"\\", b"e\xcc\x81", b"\xc3\xa9", b"\t'\""];
        let mut name = if self.rng.random_bool(0.1) { b"-".to_vec() } else { Vec::new() };
        name.extend_from_slice(format!("n{}", self.made).as_bytes());
        let at = self.rng.random_range(0..odd.len());
        name.extend_from_slice(odd[at]);
        directory.join(OsStr::from_bytes(&name))
    }

    fn bytes(&mut self) -> Vec<u8> {
        let most = [0, 1, 100, 5000, 70_000, 1_300_000][self.rng.random_range(0..6)];
        let mut bytes = vec![0; self.rng.random_range(0..=most)];
        self.rng.fill_bytes(&mut bytes);
        bytes
    }

    /// Gives a file a time of its own, to the nanosecond.
    fn stamp(&mut self, path: &Path) {
        self.clock += 1;
        let nanoseconds = self.rng.random_range(0..1_000_000_000);
        let time = SystemTime::UNIX_EPOCH + Duration::new(self.clock, nanoseconds);
        // Opening to read serves: futimens(2) asks for the owner, and root is.
        File::open(path).unwrap().set_modified(time).unwrap();
    }

    fn add(&mut self) {
        let path = self.new_path();
        match self.rng.random_range(0..12) {
            0..=4 => {
                let bytes = self.bytes();
                fs::write(&path, bytes).unwrap();
            }
            5 | 6 => fs::create_dir(&path).unwrap(),
            7 => {
                let text = ["nowhere", "..", "/etc/passwd", "a\nb"][self.rng.random_range(0..4)];
                symlink(text, &path).unwrap();
                return;
            }
            8 => {
                let Some(file) = self.pick(fs::Metadata::is_file) else { return };
                fs::hard_link(file, &path).unwrap();
                return;
            }
            9 => {
                let mut file = File::create(&path).unwrap();
                file.seek(SeekFrom::Start(self.rng.random_range(0..3_000_000))).unwrap();
                file.write_all(b"data between holes").unwrap();
                file.set_len(4_000_000).unwrap();
            }
            10 => mknodat(CWD, &path, FileType::Fifo, Mode::from(0o640), 0).unwrap(),
            _ => {
                let big = self.rng.random_range(17 << 20..40 << 20);
                let mut bytes = vec![0; big];
                self.rng.fill_bytes(&mut bytes);
                fs::write(&path, bytes).unwrap();
            }
        }
        if !fs::symlink_metadata(&path).unwrap().file_type().is_symlink() && !is_fifo(&path) {
            self.stamp(&path);
        }
    }

    fn set_attributes(&mut self, root: bool) {
        let plain = |meta: &fs::Metadata| meta.is_file() || meta.is_dir();
        let Some(path) = self.pick(plain) else { return };
        match self.rng.random_range(0..4) {
            0 => {
                let bits = [0o644, 0o600, 0o755, 0o4711, 0o2750, 0o1777, 0o444];
                let mode = bits[self.rng.random_range(0..bits.len())];
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
            1 if root => {
                let (user, group) =
                    (self.rng.random_range(0..4000), self.rng.random_range(0..4000));
                lchown(&path, Some(user), Some(group)).unwrap();
            }
            2 => {
                let name = CString::new(format!("user.n{}", self.rng.random_range(0..5))).unwrap();
                let mut value = vec![0; self.rng.random_range(0..200)];
                self.rng.fill_bytes(&mut value);
                setxattr(&path, &*name, &value, XattrFlags::empty()).unwrap();
            }
            _ => self.stamp(&path),
        }
    }

    fn change(&mut self, root: bool) {
        match self.rng.random_range(0..10) {
            0 | 1 => self.add(),
            2 | 3 => {
                let Some(path) = self.pick(fs::Metadata::is_file) else { return };
                let bytes = self.bytes();
                fs::write(&path, bytes).unwrap();
                self.stamp(&path);
            }
            4 => self.remove(),
            5 => {
                let Some(from) = self.pick(fs::Metadata::is_file) else { return };
                let to = self.new_path();
                fs::rename(from, to).unwrap();
            }
            6 => self.become_another_kind(),
            _ => self.set_attributes(root),
        }
    }

    fn remove(&mut self) {
        let root = self.root.clone();
        let Some(path) = self.pick(|_| true).filter(|path| *path != root) else { return };
        remove(&path);
    }

    /// A file or a link gives way to another kind of its name. A directory never does: what is in
    /// the way of one, or of which one is in the way, is for the user to remove.
    fn become_another_kind(&mut self) {
        let Some(path) = self.pick(|meta| !meta.is_dir()) else { return };
        let was_link = fs::symlink_metadata(&path).unwrap().file_type().is_symlink();
        remove(&path);
        if was_link {
            fs::write(&path, b"was a link").unwrap();
            self.stamp(&path);
        } else {
            symlink("was a file", &path).unwrap();
        }
    }
}

fn is_fifo(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    fs::symlink_metadata(path).unwrap().file_type().is_fifo()
}

fn remove(path: &Path) {
    if fs::symlink_metadata(path).unwrap().is_dir() {
        fs::remove_dir_all(path).unwrap();
    } else {
        fs::remove_file(path).unwrap();
    }
}

/// What two programs that are not ours say of the difference; empty if there is none.
fn judged(source: &Path, target: &Path) -> String {
    assert_no_leftovers(target);
    let (from, to) = (format!("{}/", source.display()), format!("{}/", target.display()));
    let args: [&dyn AsRef<OsStr>; 6] = [
        &"-aHAXni",
        &"--checksum",
        &"--delete",
        &"--exclude=/.penstock-store-7q2mv0kd9j",
        &from,
        &to,
    ];
    let mut said = String::from_utf8_lossy(&tool("rsync", &args)).into_owned();
    let script = r#"cd -- "$1" && find . -path './.penstock-store-*' -prune -o \
        -printf '%y %m %U:%G %T@ %n %l %P\0' | sort -z | tr '\0' '\n'"#;
    let list = |root: &Path| {
        let listed = tool("bash", &[&"-c", &script, &"bash", &root]);
        String::from_utf8_lossy(&listed).into_owned()
    };
    let (left, right) = (list(source), list(target));
    let ours: std::collections::BTreeSet<_> = left.lines().collect();
    let theirs: std::collections::BTreeSet<_> = right.lines().collect();
    for line in ours.symmetric_difference(&theirs).take(20) {
        let side = if ours.contains(line) { "source" } else { "target" };
        said.push_str(&format!("{side}: {line}\n"));
    }
    said
}

/// Blocks that the files below a directory hold, each inode once.
fn blocks(root: &Path) -> u64 {
    let mut seen = std::collections::HashSet::new();
    let files = files_below(root);
    let metas = files.iter().map(|path| fs::metadata(path).unwrap());
    metas.filter(|meta| seen.insert(meta.ino())).map(|meta| meta.blocks()).sum()
}

fn sync(copy: &Copy, source: &str, target: &Path) -> Run {
    let mut command = copy.command(source, target);
    command.args(["--sync", "--delete", "--max-delete", "1000000"]);
    Run::spawn(&mut command)
}

/// The whole promise of the everyday tool: a tree of anything, changed at random between runs, is
/// at the target as it is at the source after each run, however often a run was killed before it
/// came to its end; a run with nothing to do moves nothing.
#[test]
fn a_changing_tree_is_followed_through_kills() {
    let root = is_root("the owners of a changing tree");
    let mut rng = rng("changing tree");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    let copy = Copy::new(base.path());
    let contents = format!("{}/", source.display());
    let mut tree = Tree::new(&source, ChaCha8Rng::from_rng(&mut rng));
    for _ in 0..120 {
        tree.add();
    }
    for round in 0..4 {
        for _ in 0..40 {
            tree.change(root);
        }
        let mut kills = 0;
        while kills < 3 && rng.random_bool(0.7) {
            let mut run = sync(&copy, &contents, &target);
            run.watch_for(Duration::from_millis(rng.random_range(5..400)));
            run.kill();
            kills += 1;
        }
        // One that was killed goes on with the list of its first run; the next sees all.
        let ended = sync(&copy, &contents, &target).end().expect(0);
        let said = judged(&source, &target);
        assert_eq!(said, "", "round {round} after {kills} kills: {}", ended.last);
        let again = sync(&copy, &contents, &target).end().expect(0);
        assert_eq!(again.figure("bytes_verified"), 0, "a sync of the same: {}", again.last);
        assert_eq!(judged(&source, &target), "", "round {round}, a sync of the same");
        println!("round {round}: {kills} kills, {}", ended.last);
    }
    let (have, may) = (blocks(&target), blocks(&source));
    assert!(have <= may + may / 20, "{have} blocks for {may}: holes were filled");
    copy.assert_no_state();
}
