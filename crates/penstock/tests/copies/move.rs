//! `--remove-source`: what is durable at the target goes at the source, and nothing else ever does
//! (C6, C4, C3). Judged by `find` and `sha256sum` on both sides.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use penstock_testkit::{
    Copy, Ended, Mount, PATIENCE, Run, Scratch, Site, Slowly, Wait, assert_finals_right,
    assert_no_leftovers, assert_same, figure, files_below, is_root, make_files, remember, rng,
    tool, two_sites,
};
use rand::RngExt as _;

const MIB: usize = 1 << 20;

fn move_with(copy: &Copy, source: &Path, target: &Path, options: &[&str]) -> Ended {
    moving(copy, source, target, options).end()
}

fn moving(copy: &Copy, source: &Path, target: &Path, options: &[&str]) -> Run {
    let contents = format!("{}/", source.display());
    Run::spawn(copy.command(contents, target).arg("--remove-source").args(options))
}

/// What `find` sees below a directory, itself left out.
fn below(root: &Path) -> Vec<String> {
    let found = tool("find", &[&root, &"-mindepth", &"1", &"-printf", &"%P\\n"]);
    let mut found: Vec<_> = String::from_utf8_lossy(&found).lines().map(str::to_owned).collect();
    found.sort();
    found
}

/// A tree with everything in it that a user can make.
fn make_tree(base: &Path) -> (PathBuf, PathBuf) {
    let mut rng = rng("tree");
    let (source, target) = (base.join("src"), base.join("dst"));
    make_files(&mut rng, &source, 60, 9_000, &[9 * MIB]);
    fs::create_dir_all(source.join("deep/deeper/deepest")).unwrap();
    fs::write(source.join("deep/deeper/deepest/file"), "x").unwrap();
    fs::hard_link(source.join("dir1/small1"), source.join("deep/second name")).unwrap();
    fs::hard_link(source.join("dir1/small1"), source.join("dir2/third name")).unwrap();
    symlink("/nowhere", source.join("deep/dangling")).unwrap();
    fs::create_dir(source.join("pipes")).unwrap();
    tool("mkfifo", &[&source.join("pipes/pipe")]);
    let odd = source.join(std::ffi::OsStr::from_bytes(b"not \xff utf8\n"));
    fs::write(odd, "odd").unwrap();
    let sparse = File::create(source.join("sparse")).unwrap();
    sparse.set_len(30 << 20).unwrap();
    fs::set_permissions(source.join("dir3"), fs::Permissions::from_mode(0o711)).unwrap();
    (source, target)
}

/// Promise: a moved tree is at the target, whole, and nothing of it at the source but its own
/// directory, with a slash and without.
#[test]
fn a_moved_tree_is_gone_from_the_source() {
    for contents in [true, false] {
        let base = Scratch::on_disk();
        let (source, target) = make_tree(base.path());
        let (kept, copy) = (remember(&source), Copy::new(base.path()));
        let count = below(&source).len() as u64 - 1; // the newline in a name
        let ended = if contents {
            move_with(&copy, &source, &target, &[])
        } else {
            let mut command = copy.command(&source, &target);
            Run::spawn(command.arg("--remove-source")).end()
        };
        let ended = ended.expect(0);
        let root = if contents { target } else { target.join("src") };
        // rsync says something of every pipe.
        for tree in [&kept, &root] {
            tool("test", &[&"-p", &tree.join("pipes/pipe")]);
            fs::remove_dir_all(tree.join("pipes")).unwrap();
            tool("touch", &[&"-d", &"2001-01-01", tree]);
        }
        assert_same(&kept, &root);
        let names = fs::metadata(root.join("dir1/small1")).unwrap().nlink();
        assert_eq!(names, 3, "a file with three names is one");
        assert_eq!(below(&source), [""; 0], "the source is empty");
        assert_eq!(ended.figure("removed"), count, "{}", ended.last);
        assert_eq!(ended.figure("stayed"), 0, "{}", ended.last);
        copy.assert_no_state();
    }
}

/// Promise: a single file moves as a tree does.
#[test]
fn a_single_file_moves() {
    let base = Scratch::on_disk();
    let copy = Copy::new(base.path());
    fs::write(base.path().join("file"), "bytes").unwrap();
    let mut command = copy.command(base.path().join("file"), base.path().join("moved"));
    let ended = Run::spawn(command.arg("--remove-source")).end().expect(0);
    assert_eq!(ended.figure("removed"), 1);
    assert!(!base.path().join("file").exists());
    assert_eq!(fs::read(base.path().join("moved")).unwrap(), b"bytes");
    copy.assert_no_state();
}

/// Promise: what was not chosen, and what the target had already, stays at the source with the
/// directories that it is in; that is no error, and is counted.
#[test]
fn what_was_not_moved_stays() {
    let base = Scratch::on_disk();
    let (source, target) = make_tree(base.path());
    let copy = Copy::new(base.path());
    fs::write(source.join("dir0/keep.log"), "x").unwrap();
    let ended = move_with(&copy, &source, &target, &["--exclude", "*.log"]).expect(0);
    assert_eq!(below(&source), ["dir0", "dir0/keep.log"]);
    assert_eq!(ended.figure("stayed"), 1, "the directory: {}", ended.last);
    fs::write(source.join("new"), "new").unwrap();
    tool("cp", &[&"-a", &source.join("dir0/keep.log"), &target.join("dir0/keep.log")]);
    let ended = move_with(&copy, &source, &target, &["--sync"]).expect(0);
    assert_eq!(below(&source), ["dir0", "dir0/keep.log"], "not moved by this transfer");
    assert_eq!((ended.figure("removed"), ended.figure("stayed")), (1, 2), "{}", ended.last);
    let ended = move_with(&copy, &source, &target, &["--if-exists", "fail"]).expect(3);
    assert_eq!(below(&source), ["dir0", "dir0/keep.log"], "failed");
    assert_eq!(ended.figure("removed"), 0, "{}", ended.last);
    move_with(&copy, &source, &target, &[]).expect(0);
    assert_eq!(below(&source), [""; 0]);
}

/// Starts a move that is slow once its small files are at the target, and waits for that.
fn slow_move(copy: &Copy, source: &Path, target: &Path) -> Run {
    for at in 0..40 {
        fs::create_dir_all(source.join(format!("d{}", at % 4))).unwrap();
        fs::write(source.join(format!("d{}/f{at}", at % 4)), format!("file {at}")).unwrap();
    }
    fs::write(source.join("large"), vec![7; 24 * MIB]).unwrap();
    // What was changed less than 2 s before it is read is looked at again at the end (C1), and then
    // moves in its newer version; here it is to be older, so that time itself is waited for.
    std::thread::sleep(Duration::from_millis(2_200));
    let mut run = moving(copy, source, target, &["--bwlimit", "5MB/s"]);
    run.wait_for(|line| figure(line, "files") >= 40).expect("the small files are there first");
    run
}

/// C6: a file that changes after it was moved (content, times, inode or attributes) is not removed,
/// is listed, and the command exits with 4; all others go.
#[test]
fn c6_a_file_that_changed_after_it_was_moved_stays() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    let copy = Copy::new(base.path());
    let run = slow_move(&copy, &source, &target);
    File::options().append(true).open(source.join("d0/f0")).unwrap().write_all(b"!").unwrap();
    fs::write(source.join("other"), "file 1").unwrap();
    fs::rename(source.join("other"), source.join("d1/f1")).unwrap();
    fs::set_permissions(source.join("d2/f2"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(source.join("d3/f3")).unwrap();
    let ended = run.end().expect(4);
    assert_eq!(below(&source), ["d0", "d0/f0", "d1", "d1/f1", "d2", "d2/f2"]);
    assert_eq!(fs::read(source.join("d0/f0")).unwrap(), b"file 0!");
    assert_eq!(fs::read(target.join("d0/f0")).unwrap(), b"file 0");
    assert_eq!(ended.figure("errors"), 3, "{}", ended.last);
    assert!(ended.errors.contains("it changed after it was moved"), "{}", ended.errors);
}

/// C6: a file with several names that changes before anything is removed keeps all of them: that
/// removing one name moves the change time of the others explains nothing then.
#[test]
fn c6_a_file_with_several_names_that_changed_stays() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    let copy = Copy::new(base.path());
    fs::create_dir_all(source.join("names")).unwrap();
    fs::write(source.join("names/a"), "one file").unwrap();
    fs::hard_link(source.join("names/a"), source.join("names/b")).unwrap();
    let run = slow_move(&copy, &source, &target);
    Wait::new("names of small files")
        .is(|| target.join("names/a").exists() || target.join("names/b").exists());
    fs::set_permissions(source.join("names/a"), fs::Permissions::from_mode(0o600)).unwrap();
    let ended = run.end().expect(4);
    assert_eq!(below(&source), ["names", "names/a", "names/b"]);
    assert_eq!(ended.figure("errors"), 2, "{}", ended.last);
}

/// Promise: a directory that only leads to what `--files-from` names is not removed: nobody has
/// named it.
#[test]
fn what_only_leads_to_a_listed_file_stays() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir_all(source.join("d/e/whole")).unwrap();
    fs::write(source.join("d/e/f"), "listed").unwrap();
    fs::write(source.join("d/e/whole/g"), "listed with its directory").unwrap();
    let list = base.path().join("list");
    fs::write(&list, "d/e/f\nd/e/whole\n").unwrap();
    let list = list.to_str().unwrap();
    move_with(&Copy::new(base.path()), &source, &target, &["--files-from", list]).expect(0);
    assert_eq!(below(&source), ["d", "d/e"]);
    assert_eq!(fs::read(target.join("d/e/whole/g")).unwrap(), b"listed with its directory");
}

/// Promise: a directory that received something meanwhile stays, with that in it; it is no error.
#[test]
fn a_directory_that_received_something_stays() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    let copy = Copy::new(base.path());
    let run = slow_move(&copy, &source, &target);
    fs::write(source.join("d0/new"), "new").unwrap();
    let ended = run.end().expect(0);
    assert_eq!(below(&source), ["d0", "d0/new"]);
    assert_eq!(ended.figure("stayed"), 1, "{}", ended.last);
    assert!(!target.join("d0/new").exists());
}

/// Promise: what somebody has removed or changed at the target meanwhile is not removed at the
/// source, whatever the ledger says.
#[test]
fn what_is_not_at_the_target_any_more_stays() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    let copy = Copy::new(base.path());
    let run = slow_move(&copy, &source, &target);
    Wait::new("names of small files")
        .is(|| target.join("d0/f0").exists() && target.join("d1/f1").exists());
    fs::remove_file(target.join("d0/f0")).unwrap();
    fs::write(target.join("d1/f1"), "another").unwrap();
    let ended = run.end().expect(3);
    assert_eq!(below(&source), ["d0", "d0/f0", "d1", "d1/f1"]);
    assert_eq!(ended.figure("errors"), 2, "{}", ended.last);
}

/// Promise: what could not be read stays, and all else goes; exit 3. Needs root, to be somebody
/// else who may not read a file.
#[test]
fn failed_items_stay() {
    if !is_root("a file that cannot be read") {
        return;
    }
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir_all(source.join("d")).unwrap();
    fs::write(source.join("d/secret"), "x").unwrap();
    fs::write(source.join("d/open"), "x").unwrap();
    fs::write(source.join("open"), "x").unwrap();
    fs::set_permissions(source.join("d/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o777)).unwrap();
    tool("chown", &[&"65534:65534", &source, &source.join("d")]);
    let copy = Copy::new(base.path());
    let contents = PathBuf::from(format!("{}/", source.display()));
    let mut command = copy.command_as_nobody(&contents, &target);
    let ended = Run::spawn(command.arg("--remove-source")).end().expect(3);
    assert_eq!(below(&source), ["d", "d/secret"]);
    assert_eq!(ended.figure("removed"), 2, "{}", ended.last);
    // A directory in which nothing may be removed: at the target, and listed as failed.
    fs::write(source.join("d/secret"), "x").unwrap();
    tool("chown", &[&"-R", &"65534:65534", &source]);
    tool("chown", &[&"0:0", &source.join("d")]);
    let mut command = copy.command_as_nobody(&contents, &target);
    let ended = Run::spawn(command.arg("--remove-source")).end().expect(3);
    assert!(ended.errors.contains("not removed at the source: Permission"), "{}", ended.errors);
    assert_eq!(below(&source), ["d", "d/secret"]);
}

/// Promise: what would lose data, or makes no sense, is refused before anything is touched.
#[test]
fn dangerous_combinations_are_refused() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "x").unwrap();
    let copy = Copy::new(base.path());
    move_with(&copy, &source, &target, &["--delete"]).expect(2);
    move_with(&copy, &source, &target, &["--durability", "none"]).expect(2);
    move_with(&copy, &source, Path::new("null:"), &[]).expect(2);
    let mut command = copy.command("mem:files=3,size=1K", &target);
    Run::spawn(command.arg("--remove-source")).end().expect(2);
    assert_eq!(below(&source), ["file"]);
}

/// B8, C6: one tree by two mounts is not moved into itself. Needs root, for a mount.
#[test]
fn b8_a_tree_is_not_moved_onto_itself_by_another_mount() {
    if !is_root("a bind mount") {
        return;
    }
    let base = Scratch::on_disk();
    let source = base.path().join("src");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "x").unwrap();
    let other = Mount::bind(&source, &base.path().join("other"));
    let copy = Copy::new(base.path());
    move_with(&copy, &source, &other.path, &[]).expect(6);
    move_with(&copy, &source, &other.path.join("within"), &[]).expect(6);
    assert_eq!(fs::read(source.join("file")).unwrap(), b"x");
}

/// Waits until a run removes at the source, and lets that go on for a moment; `false` if it has
/// ended before.
fn removes(run: &mut Run, source: &Path, all: usize, moment: Duration) -> bool {
    let until = Instant::now() + PATIENCE;
    while files_below(source).len() >= all {
        assert!(Instant::now() < until, "nothing is removed");
        if !run.watch_for(Duration::from_millis(5)) {
            return false;
        }
    }
    run.watch_for(moment)
}

/// C6, promise (d): `kill -9` at any moment of the removal; the same command goes on, and in the
/// end everything is at the target and nothing at the source.
#[test]
fn d_a_move_that_is_killed_goes_on() {
    let mut rng = rng("move killed");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 3_000, 300, &[9 * MIB]);
    let (kept, copy) = (remember(&source), Copy::new(base.path()));
    let mut kills = 0;
    for _ in 0..4 {
        let all = files_below(&source).len();
        let mut run = moving(&copy, &source, &target, &[]);
        let slowly = Slowly::with_stops(run.id(), Duration::from_millis(20));
        let moment = Duration::from_millis(rng.random_range(0..300));
        let alive = all > 0 && removes(&mut run, &source, all, moment);
        drop(slowly);
        if !alive {
            run.end().expect(0);
            break;
        }
        run.kill();
        kills += 1;
        let left = files_below(&source).len();
        println!("killed with {left} of {all} files left");
        // All of it is there, beside the marker of the run.
        let right = assert_finals_right(&kept, &target);
        assert_eq!(right, files_below(&kept).len());
    }
    assert!(kills > 0, "it was never killed while it removed");
    if copy.state().join("copy").read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        let last = move_with(&copy, &source, &target, &[]).expect(0);
        println!("{}", last.last);
        assert_eq!(last.figure("stayed"), 0, "{}", last.last);
    }
    assert_eq!(below(&source), [""; 0], "the source is empty");
    assert_same(&kept, &target);
    copy.assert_no_state();
}

/// C6: somebody who replaces files all the time, under their own names, loses none of what he put
/// there last: it is at the source, or it was moved.
#[test]
fn c6_what_an_adversary_puts_there_is_never_lost() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir(&source).unwrap();
    let count = 1_500;
    for at in 0..count {
        fs::write(source.join(format!("f{at}")), format!("{at} version 0")).unwrap();
    }
    let copy = Copy::new(base.path());
    let over = AtomicBool::new(false);
    let mut last = vec![0_u64; count];
    let ended = std::thread::scope(|scope| {
        let (over, last, source) = (&over, &mut last, &source);
        let adversary = scope.spawn(move || {
            let mut rng = rng("adversary");
            let draft = source.parent().unwrap().join("draft");
            let mut version = 0;
            while !over.load(Ordering::Acquire) {
                version += 1;
                let at = rng.random_range(0..count);
                fs::write(&draft, format!("{at} version {version}")).unwrap();
                fs::rename(&draft, source.join(format!("f{at}"))).unwrap();
                last[at] = version;
                std::thread::sleep(Duration::from_micros(rng.random_range(0..300)));
            }
        });
        let ended = moving(&copy, source, &target, &[]).end();
        over.store(true, Ordering::Release);
        adversary.join().unwrap();
        ended
    });
    println!("{}", ended.last);
    let mut at_source = 0;
    for (at, version) in last.iter().enumerate() {
        let name = format!("f{at}");
        let wanted = format!("{at} version {version}");
        let here = fs::read_to_string(source.join(&name));
        at_source += u32::from(here.is_ok());
        let found = here.or_else(|_| fs::read_to_string(target.join(&name)));
        assert_eq!(found.unwrap_or_default(), wanted, "{name}");
    }
    println!("{at_source} of {count} at the source");
    assert_no_leftovers(&source);
    assert!(ended.figure("removed") > 0, "{}", ended.last);
}

/// C3: a source that is unmounted while it is listed is a store that is offline: the copy waits and
/// says so; no item has vanished, and nothing is removed or deleted. Needs root, for a mount.
#[test]
fn c3_a_source_that_is_unmounted_is_offline() {
    if !is_root("a tmpfs") {
        return;
    }
    let base = Scratch::on_disk();
    let mut mount = Mount::tmpfs(base.path(), "src", 64);
    for at in 0..3_000 {
        fs::create_dir_all(mount.path.join(format!("d{}", at % 50))).unwrap();
        fs::write(mount.path.join(format!("d{}/f{at}", at % 50)), "x").unwrap();
    }
    let (copy, target) = (Copy::new(base.path()), base.path().join("dst"));
    let slow = ["--max-metadata-ops", "400"];
    let mut run = moving(&copy, &mount.path, &target, &slow);
    run.wait_for(|line| figure(line, "files_found") > 0).expect("it lists");
    mount.unmount_lazily();
    let line = run
        .wait_for(|line| line["reason"].as_str().is_some_and(|why| why.contains("is offline")))
        .expect("it says that the store is offline");
    assert_eq!(figure(&line, "errors"), 0, "no item failed: {line}");
    assert_eq!(line["scan_complete"], false, "{line}");
    run.kill();
}

/// The right to remove in the configuration of a site's one store.
fn allow_removal(site: &Site, by: &str) {
    site.reconfigure("[[store]]", &format!("[[store]]\nremove = [\"{by}\"]"));
}

fn submit_move(site: &Site, source: &str, target: &str) -> String {
    site.submit(&["--remove-source", source, target])
}

/// C4: to remove is a right of its own: a site that may read may not move, whoever submits it; the
/// transfer fails with exit 12 before anything is touched, and says what to do.
#[test]
fn c4_a_site_without_the_right_may_not_move() {
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("a"), base.path().join("b"));
    let mut rng = rng("sites right");
    make_files(&mut rng, &data_a.join("set"), 20, 5_000, &[]);
    let (mut a, mut b) =
        (Site::at_port(base.path(), "a", &data_a), Site::at_port(base.path(), "b", &data_b));
    allow_removal(&a, "c");
    a.start();
    b.start();
    a.pair(&b);
    for site in [&a, &b] {
        let id = submit_move(site, "a:data/set/", "b:data/copy/");
        let ended = site.follow(&id).expect(12);
        assert!(ended.errors.contains("may not remove"), "{}", ended.errors);
    }
    assert!(!data_b.join("copy").exists(), "nothing was moved");
    assert_eq!(files_below(&data_a.join("set")).len(), 21);
    let id = b.submit(&["a:data/set/", "b:data/copy/"]);
    b.follow(&id).expect(0);
    assert_same(&data_a.join("set"), &data_b.join("copy"));
}

/// Promise: between sites a move empties the source, from either end, and within one site too; the
/// receipt and `show` say how much.
#[test]
fn sites_move_too() {
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("a"), base.path().join("b"));
    let mut rng = rng("sites move");
    for set in ["one", "two", "three"] {
        make_files(&mut rng, &data_a.join(set), 300, 5_000, &[9 * MIB]);
        tool("mkfifo", &[&data_a.join(set).join("pipe")]);
    }
    fs::write(data_a.join("single"), "bytes").unwrap();
    let kept = remember(&data_a);
    let (mut a, mut b) =
        (Site::at_port(base.path(), "a", &data_a), Site::at_port(base.path(), "b", &data_b));
    allow_removal(&a, "b");
    a.start();
    b.start();
    a.pair(&b);
    // A pipe is a device node to a target that allows none from elsewhere: it stays (D7).
    let same = |set: &str, target: &Path| {
        fs::remove_file(kept.join(set).join("pipe")).unwrap();
        let _ = fs::remove_file(target.join("pipe"));
        fs::write(kept.join(set).join("x"), "").unwrap();
        fs::write(target.join("x"), "").unwrap();
        for root in [&kept.join(set), target] {
            fs::remove_file(root.join("x")).unwrap();
            tool("touch", &[&"-d", &"2001-01-01", &root]);
        }
        assert_same(&kept.join(set), target);
    };
    for (site, set) in [(&a, "one"), (&b, "two")] {
        let target = format!("b:data/{set}");
        let id = submit_move(site, &format!("a:data/{set}/"), &target);
        let ended = site.follow(&id).expect(0);
        let left = below(&data_a.join(set));
        assert!(left.is_empty() || left == ["pipe"], "{left:?}");
        assert_eq!(ended.figure("stayed"), left.len() as u64, "{}", ended.last);
        assert!(ended.figure("removed") >= 310, "{}", ended.last);
        assert_eq!(site.show(&id)["progress"]["removed"], ended.last["removed"]);
        let receipt = b.ok(&["transfer", "receipt", &id]);
        let receipt: serde_json::Value = serde_json::from_str(&receipt).unwrap();
        assert_eq!(receipt["receipt"]["facts"]["removed"], ended.last["removed"], "{receipt}");
        assert_eq!(receipt["signatures"].as_array().unwrap().len(), 2, "{receipt}");
        same(set, &data_b.join(set));
    }
    let id = submit_move(&b, "a:data/single", "b:data/moved");
    b.follow(&id).expect(0);
    assert!(!data_a.join("single").exists());
    assert_eq!(fs::read(data_b.join("moved")).unwrap(), b"bytes");
    let id = submit_move(&a, "a:data/three/", "a:data/four");
    a.follow(&id).expect(0);
    assert_eq!(below(&data_a.join("three")), [""; 0]);
    same("three", &data_a.join("four"));
}

/// C6, promise (d): either daemon is killed while it removes; once it is back the transfer goes on,
/// and ends with everything at the target and an empty source.
#[test]
fn d_daemons_that_are_killed_while_they_move_go_on() {
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("a"), base.path().join("b"));
    let mut rng = rng("sites killed");
    let source = data_a.join("set");
    make_files(&mut rng, &source, 3_000, 300, &[]);
    let kept = remember(&source);
    let (mut a, mut b) =
        (Site::at_port(base.path(), "a", &data_a), Site::at_port(base.path(), "b", &data_b));
    allow_removal(&a, "b");
    a.start();
    b.start();
    a.pair(&b);
    let id = submit_move(&b, "a:data/set/", "b:data/set");
    let mut kills = 0;
    for kill_a in [true, false, true] {
        let all = files_below(&source).len();
        let slowly = Slowly::with_stops(a.process(), Duration::from_millis(25));
        Wait::new("a removal")
            .every(Duration::from_millis(5))
            .is(|| all == 0 || files_below(&source).len() < all);
        drop(slowly);
        let killed = if kill_a { &mut a } else { &mut b };
        killed.kill();
        kills += u32::from(!files_below(&source).is_empty());
        println!("{} of {all} files are left", files_below(&source).len());
        killed.start();
    }
    assert!(kills > 0, "none was killed while it removed");
    let ended = b.follow(&id).expect(0);
    println!("{}", ended.last);
    assert_eq!(below(&source), [""; 0], "the source is empty");
    assert_same(&kept, &data_b.join("set"));
}

/// Promise: from a store that is read-only nothing is moved, not by the site's own users either.
#[test]
fn a_read_only_store_is_not_emptied() {
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("a"), base.path().join("b"));
    fs::create_dir_all(data_a.join("set")).unwrap();
    fs::write(data_a.join("set/file"), "x").unwrap();
    let (mut a, b) = two_sites(base.path(), &data_a, &data_b);
    drop(b);
    a.kill();
    a.reconfigure("read_only = false", "read_only = true");
    let other = format!("[[store]]\nname = \"other\"\npath = \"{}\"\n", data_b.display());
    a.set_config(&format!("{}\n{other}", a.config()));
    a.start();
    let id = submit_move(&a, "a:data/set/", "a:other/set");
    let ended = a.follow(&id).expect(6);
    assert!(ended.errors.contains("read-only"), "{}", ended.errors);
    assert_eq!(fs::read(data_a.join("set/file")).unwrap(), b"x");
}
