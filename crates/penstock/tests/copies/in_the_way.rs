//! What is in the way: a directory at the target where the source has something else, or the
//! reverse. With `--delete` it goes first, under all guards; without it, it stays and is named.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use penstock_testkit::{
    Copy, Ended, Run, Scratch, Signal, Slowly, assert_no_leftovers, assert_same, bytes_below,
    copy_with, figure, is_root, make_files, rng, rsync_would, tool, two_sites,
};
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use rand_chacha::ChaCha8Rng;

/// A copy of a source of which `swapped` has then been made at the target the other kind of thing:
/// a directory with files for a file and for a link, a file and a link for a directory.
fn copied(base: &Path) -> (PathBuf, PathBuf, Copy) {
    let (source, target) = (base.join("src"), base.join("dst"));
    for directory in ["a/deep", "b", "c", "d"] {
        fs::create_dir_all(source.join(directory)).unwrap();
        for at in 0..4 {
            fs::write(source.join(directory).join(format!("f{at}")), format!("file {at}")).unwrap();
        }
    }
    symlink("a", source.join("link")).unwrap();
    let copy = Copy::new(base);
    copy_with(&copy, &source, &target, &[]).expect(0);
    fs::remove_dir_all(target.join("a")).unwrap();
    fs::write(target.join("a"), "a file where a directory should be").unwrap();
    fs::remove_dir_all(target.join("b")).unwrap();
    symlink("/etc", target.join("b")).unwrap();
    for name in ["c/f1", "link"] {
        fs::remove_file(target.join(name)).unwrap();
        fs::create_dir_all(target.join(name).join("x/y")).unwrap();
        fs::write(target.join(name).join("x/y/z"), "only here").unwrap();
    }
    (source, target, copy)
}

/// Items of [`copied`] that have to go: a file, a link, and two directories with three things each.
const IN_THE_WAY: u64 = 10;

/// Promise: with `--delete` what is in the way goes, is counted among what was deleted, and what
/// the source has takes its place; no link is followed. The judge is rsync.
#[test]
fn what_is_in_the_way_goes_with_delete() {
    for options in [&["--delete"][..], &["--sync", "--delete"]] {
        let base = Scratch::on_disk();
        let (source, target, copy) = copied(base.path());
        let ended = copy_with(&copy, &source, &target, options).expect(0);
        assert_eq!(ended.figure("deleted"), IN_THE_WAY, "{}", ended.last);
        assert!(Path::new("/etc/passwd").exists(), "no link is followed");
        assert_same(&source, &target);
        copy.assert_no_state();
    }
}

/// Promise: without `--delete` nothing in the way is touched, and the error names the option; all
/// else is copied. What may not be replaced is not removed either.
#[test]
fn what_is_in_the_way_stays_without_delete() {
    let base = Scratch::on_disk();
    let (source, target, copy) = copied(base.path());
    for options in [&[][..], &["--sync"], &["--delete", "--if-exists=fail"]] {
        fs::write(source.join("d/f0"), "new").unwrap();
        let ended = copy_with(&copy, &source, &target, options).expect(3);
        println!("{}", ended.errors);
        assert!(target.join("c/f1").is_dir() && target.join("a").is_file());
        assert_eq!(fs::read_link(target.join("b")).unwrap(), Path::new("/etc"));
        assert_no_leftovers(&target);
        if !options.contains(&"--delete") {
            assert_eq!(fs::read(target.join("c/f1/x/y/z")).unwrap(), b"only here");
            assert_eq!(fs::read(target.join("d/f0")).unwrap(), b"new");
            assert!(ended.errors.contains("`--delete` removes it"), "{}", ended.errors);
        }
    }
}

/// C3: what is in the way counts with all else that would go, and if that is too much, nothing at
/// all is deleted (exit 6): not what is in the way, and not the rest.
#[test]
fn c3_what_is_in_the_way_is_under_the_guards() {
    let base = Scratch::on_disk();
    let (source, target, copy) = copied(base.path());
    fs::write(target.join("d/surplus"), "x").unwrap();
    let most = (IN_THE_WAY).to_string();
    let ended = copy_with(&copy, &source, &target, &["--delete", "--max-delete", &most]).expect(6);
    assert!(ended.errors.contains("11 items would go"), "{}", ended.errors);
    assert_eq!(ended.figure("deleted"), 0, "{}", ended.last);
    assert_eq!(fs::read(target.join("link/x/y/z")).unwrap(), b"only here");
    assert!(target.join("a").is_file() && target.join("d/surplus").exists());
    let most = (IN_THE_WAY + 1).to_string();
    let ended = copy_with(&copy, &source, &target, &["--delete", "--max-delete", &most]).expect(0);
    assert_eq!(ended.figure("deleted"), 11, "{}", ended.last);
    assert_same(&source, &target);
    // Files that this run makes do not count as what stood there before.
    for at in 0..9 {
        fs::create_dir_all(target.join(format!("d/f1{at}"))).unwrap();
        fs::write(source.join(format!("d/f1{at}")), "x").unwrap();
    }
    for at in 0..2000 {
        fs::write(source.join(format!("a/deep/more{at}")), "x").unwrap();
    }
    for at in 0..30 {
        fs::write(target.join(format!("d/surplus{at}")), "x").unwrap();
    }
    copy_with(&copy, &source, &target, &["--sync", "--delete"]).expect(6);
    assert!(target.join("d/f18").is_dir() && target.join("d/surplus29").exists());
}

/// Promise: with `--backup-dir` what was in the way is kept, in the same structure.
#[test]
fn what_is_in_the_way_goes_to_the_backup_directory() {
    let base = Scratch::on_disk();
    let (source, target, copy) = copied(base.path());
    copy_with(&copy, &source, &target, &["--delete", "--backup-dir", "old"]).expect(0);
    let old = target.join("old");
    assert_eq!(fs::read(old.join("a")).unwrap(), b"a file where a directory should be");
    assert_eq!(fs::read_link(old.join("b")).unwrap(), Path::new("/etc"));
    assert_eq!(fs::read(old.join("c/f1/x/y/z")).unwrap(), b"only here");
    fs::remove_dir_all(&old).unwrap();
    copy_with(&copy, &source, &target, &["--sync"]).expect(0);
    assert_same(&source, &target);
}

/// Promise: where the list of the source has many pages, those behind the one that something is in
/// the way of are gathered and follow; what stood there before is counted over all of them, so that
/// a target of which more than half would go is refused whatever page the conflict is on (C3).
#[test]
fn c3_pages_behind_wait_and_follow() {
    let base = Scratch::in_memory_for(1 << 30);
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    for directory in 0..12 {
        fs::create_dir_all(source.join(format!("d{directory:02}"))).unwrap();
        for file in 0..1000 {
            fs::write(source.join(format!("d{directory:02}/f{file}")), b"").unwrap();
        }
    }
    let copy = Copy::new(base.path());
    let block = |directory: usize| {
        let path = target.join(format!("d{directory:02}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&target).unwrap();
        fs::write(&path, "in the way").unwrap();
    };
    // Of five things at the target four would go: what this run makes meanwhile does not count.
    [0, 5, 11].into_iter().for_each(block);
    fs::write(target.join("surplus"), "x").unwrap();
    fs::create_dir(target.join("d07")).unwrap();
    let ended = copy_with(&copy, &source, &target, &["--delete"]).expect(6);
    assert!(ended.errors.contains("more than half"), "{}", ended.errors);
    assert!(target.join("d05").is_file() && target.join("surplus").exists());
    assert!(target.join("d03/f999").exists(), "what nothing is in the way of is there");
    let ended = copy_with(&copy, &source, &target, &["--sync", "--delete"]).expect(0);
    assert_eq!(ended.figure("deleted"), 4, "{}", ended.last);
    assert_eq!(ended.figure("files"), 3000, "{}", ended.last);
    assert_same(&source, &target);
    copy.assert_no_state();
}

/// Turns some things below `root` into the other kind, at random.
///
/// Each new file has a time of its own. Both sides may get a file of one path and size within one
/// step of the clock, and `--sync` compares no content of files with the same size and time.
fn swap(rng: &mut ChaCha8Rng, root: &Path, changes: usize) {
    static FILES: AtomicU64 = AtomicU64::new(0);
    let write = |path: &Path, content: u64| {
        fs::write(path, content.to_string()).unwrap();
        let age = Duration::from_secs(FILES.fetch_add(1, Ordering::Relaxed));
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(SystemTime::now() - age)
            .unwrap();
    };
    for _ in 0..changes {
        let mut open = vec![root.to_owned()];
        let mut found = Vec::new();
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(&directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    open.push(path.clone());
                }
                found.push(path);
            }
        }
        let path = found.choose(rng).unwrap();
        if path.is_dir() && !path.is_symlink() {
            fs::remove_dir_all(path).unwrap();
            write(path, rng.random());
        } else {
            fs::remove_file(path).unwrap();
            fs::create_dir_all(path.join("within")).unwrap();
            write(&path.join("within/file"), rng.random());
        }
    }
}

/// Promise (d): whatever has become of the other kind at either side, and though the copy is killed
/// again and again, it ends with a target that is as the source is; the judge is rsync.
#[test]
fn d_random_swaps_survive_kills() {
    let mut rng = rng("swaps");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 200, 3_000, &[9 << 20]);
    let copy = Copy::new(base.path());
    copy_with(&copy, &source, &target, &[]).expect(0);
    let contents = format!("{}/", source.display());
    let options = ["--sync", "--delete", "--max-delete", "1000000"];
    for round in 0..4 {
        swap(&mut rng, &source, 4);
        swap(&mut rng, &target, 4);
        for _ in 0..2 {
            let mut run = Run::spawn(copy.command(&contents, &target).args(options));
            let slowly = Slowly::with_stops(run.id(), Duration::from_millis(40));
            let alive = run.wait_for(|line| figure(line, "skipped") > 0).is_some();
            let running = alive && run.watch_for(Duration::from_millis(rng.random_range(0..600)));
            drop(slowly);
            if !running {
                run.end();
                break;
            }
            run.kill();
        }
        let ended = copy_with(&copy, &source, &target, &options);
        assert_eq!(ended.code, 0, "round {round}: {}\n{}", ended.last, ended.errors);
        if Command::new("rsync").arg("--version").output().is_ok() {
            assert_eq!(rsync_would(&source, &target, &["--delete"]), "", "round {round}");
        }
        assert_same(&source, &target);
    }
    copy.assert_no_state();
}

/// Promise: between sites what is in the way goes under the same rules.
#[test]
fn sites_clear_the_way_too() {
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("a"), base.path().join("b"));
    make_files(&mut rng("sites in the way"), &data_a.join("set"), 50, 5_000, &[]);
    let (a, b) = two_sites(base.path(), &data_a, &data_b);
    let submit = |options: &[&str]| {
        let mut args = vec!["transfer", "submit", "a:data/set", "b:data/"];
        args.extend(options);
        b.follow(b.ok(&args).trim())
    };
    submit(&[]).expect(0);
    fs::remove_file(data_b.join("set/nothing")).unwrap();
    fs::create_dir(data_b.join("set/nothing")).unwrap();
    fs::remove_dir(data_b.join("set/empty")).unwrap();
    fs::write(data_b.join("set/empty"), "x").unwrap();
    submit(&["--sync"]).expect(3);
    let ended = submit(&["--sync", "--delete"]).expect(0);
    assert_eq!(ended.figure("deleted"), 2, "{}", ended.last);
    assert_same(&data_a.join("set"), &data_b.join("set"));
    drop(a);
}

/// Promise: a file, a dangling link, a link to itself or a file where the top directory has to be
/// ends the copy with what stands there and what to do; nothing is made through a link.
#[test]
fn what_stands_in_the_way_of_the_top_is_told() {
    let base = Scratch::on_disk();
    let copy = Copy::new(base.path());
    fs::create_dir(base.path().join("d")).unwrap();
    fs::write(base.path().join("d/f"), "1").unwrap();
    fs::write(base.path().join("file"), "x").unwrap();
    for (name, text) in [("dang", "nowhere"), ("loop", "loop"), ("to-file", "file")] {
        symlink(text, base.path().join(name)).unwrap();
    }
    for (source, target, told) in [
        ("d/", "file", "`file` is a file, where a directory has to be"),
        ("d", "file", "`file` is a file, where a directory has to be"),
        ("d/", "file/", "`file` is a file, where a directory has to be"),
        ("d/", "file/x/y", "`file` is a file, where a directory has to be"),
        ("d/", "dang", "`dang` is a link to `nowhere`, which does not exist"),
        ("d/", "dang/x", "`dang` is a link to `nowhere`, which does not exist"),
        ("d/", "loop", "`loop` is a link that cannot be followed"),
        ("d/", "to-file", "`to-file` is a link to a file"),
        ("d/f", "file/", "leave out the slash"),
        ("d/f", "file/y", "choose a target inside a directory"),
        ("d/f", "dang/", "`dang` is a link to `nowhere`, which does not exist"),
    ] {
        for options in [&[][..], &["-n"], &["--delete"]] {
            let ended = Run::spawn(copy.command(source, target).args(options)).end();
            println!("{source} {target} {options:?}: {}", ended.errors);
            assert!(ended.errors.contains(told), "{source} {target}: {}", ended.errors);
            assert!(ended.errors.contains("hint:"), "{}", ended.errors);
            ended.expect(7);
        }
    }
    assert!(!base.path().join("nowhere").exists() && !base.path().join("x").exists());
    assert_eq!(fs::read(base.path().join("file")).unwrap(), b"x");
    copy.assert_no_state();
}

/// Devices, pipes and sockets of the test's own, named in `base`.
fn make_special(base: &Path) -> [&'static str; 3] {
    let names = ["device", "pipe", "socket"];
    for name in names {
        let _ = fs::remove_file(base.join(name));
    }
    tool("mknod", &[&base.join("device"), &"c", &"1", &"3"]);
    tool("mkfifo", &[&base.join("pipe")]);
    drop(std::os::unix::net::UnixListener::bind(base.join("socket")).unwrap());
    names
}

fn is_special(path: &Path) -> bool {
    let kind = fs::symlink_metadata(path).unwrap().file_type();
    !kind.is_file() && !kind.is_dir() && !kind.is_symlink()
}

/// Promise: a copy onto a device, pipe or socket, or onto a link to one, is refused unless
/// `--delete` asks for it.
#[test]
fn devices_are_no_names_for_files() {
    if !is_root("device nodes") {
        return;
    }
    let base = Scratch::on_disk();
    let copy = Copy::new(base.path());
    fs::write(base.path().join("f"), "content").unwrap();
    for name in make_special(base.path()) {
        let path = base.path().join(name);
        let link = base.path().join(format!("to-{name}"));
        symlink(name, &link).unwrap();
        for target in [&path, &link] {
            for options in [&[][..], &["-n"], &["--sync"]] {
                let ended = Run::spawn(copy.command("f", target).args(options)).end();
                println!("{}", ended.errors);
                assert!(ended.errors.contains(&format!("a {name}")), "{}", ended.errors);
                ended.expect(6);
            }
            assert!(is_special(&path) && fs::read_link(&link).is_ok());
        }
        Run::spawn(copy.command("f", &link).arg("--delete")).end().expect(0);
        assert!(is_special(&path) && fs::read(&link).unwrap() == b"content");
        Run::spawn(copy.command("f", &path).arg("--delete")).end().expect(0);
        assert_eq!(fs::read(&path).unwrap(), b"content");
    }
    // What is one itself takes the place of one of its kind.
    make_special(base.path());
    tool("mkfifo", &[&base.path().join("other")]);
    copy.run("other", base.path().join("pipe")).expect(0);
    copy.run("other", base.path().join("pipe")).expect(0);
}

/// Promise: within a tree a device, pipe or socket that has the name of a file stays, and that file
/// alone fails; with `--delete` it goes. The plan says so before.
#[test]
fn devices_within_the_target_stay_without_delete() {
    if !is_root("device nodes") {
        return;
    }
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir_all(&source).unwrap();
    fs::create_dir_all(&target).unwrap();
    fs::write(source.join("plain"), "plain").unwrap();
    let names = make_special(&target);
    for name in names {
        fs::write(source.join(name), name).unwrap();
    }
    fs::write(source.join("large"), vec![1; 20 << 20]).unwrap();
    tool("mkfifo", &[&target.join("large")]);
    symlink("plain", source.join("link")).unwrap();
    tool("mkfifo", &[&target.join("link")]);
    let copy = Copy::new(base.path());
    for options in [&[][..], &["--sync"], &["--durability", "none"]] {
        let ended = copy_with(&copy, &source, &target, options).expect(3);
        println!("{}", ended.errors);
        assert_eq!(ended.figure("errors"), 5, "{}", ended.last);
        let told = "a device, pipe or socket of its name is in the way; `--delete` removes it";
        assert!(ended.errors.contains(told), "{}", ended.errors);
        for name in names.into_iter().chain(["large", "link"]) {
            assert!(is_special(&target.join(name)), "{name}");
        }
        assert_eq!(fs::read(target.join("plain")).unwrap(), b"plain");
        assert_no_leftovers(&target);
    }
    copy_with(&copy, &source, &target, &["--delete"]).expect(0);
    assert_same(&source, &target);
}

/// Copies large and small files and links slowly. In the middle another program makes entries of
/// other content under four of the names. Returns how the copy ended.
fn copied_while_names_are_taken(base: &Path, options: &[&str]) -> (Ended, Vec<PathBuf>) {
    let (source, target) = (base.join("src"), base.join("dst"));
    make_files(&mut rng("taken names"), &source, 8, 20_000, &[24 << 20, 24 << 20]);
    fs::hard_link(source.join("dir1/large1"), source.join("second")).unwrap();
    let copy = Copy::new(base);
    let mut command = copy.command(format!("{}/", source.display()), &target);
    let mut run = Run::spawn(command.args(["--bwlimit", "80Mbit/s"]).args(options));
    let early = run.wait_for(|line| {
        line["scan_complete"] == true && line["bytes_verified"].as_u64() > Some(0)
    });
    assert!(early.is_some_and(|line| figure(&line, "bytes") < bytes_below(&source)));
    run.signal(Signal::STOP);
    let mut taken = Vec::new();
    for name in ["dir0/large0", "dir0/small0", "link", "second"] {
        let path = target.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match File::create_new(&path) {
            Ok(mut file) => file.write_all(b"of another program").unwrap(),
            // The only one that may have its name by then.
            Err(error) => assert_eq!(name, "dir0/small0", "{error}"),
        }
        if fs::read(&path).unwrap() == b"of another program" {
            taken.push(path);
        }
    }
    run.signal(Signal::CONT);
    (run.end(), taken)
}

/// Promise (B9): where nothing may be replaced, an entry that another program makes after the
/// comparison survives, and the item fails; all else is copied. The next copy finds its own files.
#[test]
fn a_name_that_is_taken_meanwhile_stays() {
    for options in [["--if-exists", "fail"], ["--if-exists", "skip"], ["--if-exists", "newer"]] {
        let base = Scratch::on_disk();
        let (ended, taken) = copied_while_names_are_taken(base.path(), &options);
        let ended = ended.expect(3);
        // If `second` was found first, the other name of its file fails with it.
        let errors = taken.len() as u64..=taken.len() as u64 + 1;
        assert!(errors.contains(&ended.figure("errors")), "{options:?}: {}", ended.last);
        for path in &taken {
            assert_eq!(fs::read(path).unwrap(), b"of another program", "{options:?} {path:?}");
            fs::remove_file(path).unwrap();
        }
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        copy_with(&Copy::new(base.path()), &source, &target, &["--sync", options[0], options[1]])
            .expect(0);
        assert_same(&source, &target);
        assert_no_leftovers(&target);
    }
}

/// Promise (B9): a file of another program is not replaced where nothing may be, even if it has the
/// size of the one that was to get its name and times are not kept.
#[test]
fn a_file_of_the_same_size_that_is_made_meanwhile_stays_without_times() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng("same size"), &source, 1, 0, &[24 << 20]);
    let copy = Copy::new(base.path());
    let mut command = copy.command(format!("{}/", source.display()), &target);
    command.args(["--bwlimit", "80Mbit/s", "--if-exists", "fail", "--no-preserve", "times"]);
    let mut run = Run::spawn(&mut command);
    let early = run.wait_for(|line| line["bytes_verified"].as_u64() > Some(0));
    assert!(early.is_some());
    run.signal(Signal::STOP);
    let path = target.join("dir0/large0");
    File::create_new(&path).unwrap().set_len(24 << 20).unwrap();
    run.signal(Signal::CONT);
    run.end().expect(3);
    assert!(fs::read(&path).unwrap().iter().all(|byte| *byte == 0), "the other program's file");
}

/// Promise (A5): a copy into a directory of an overlay, as containers have, ends well though the
/// first write copies the directory up.
#[test]
fn a_directory_of_an_overlay_is_one_store() {
    if !is_root("an overlay") {
        return;
    }
    let base = Scratch::on_disk();
    let at = |name: &str| base.path().join(name);
    for name in ["lower/data", "upper", "work", "merged", "src/d"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    for name in ["a", "d/b"] {
        fs::write(at("src").join(name), name).unwrap();
    }
    let layers = ["lower", "upper", "work"].map(|name| at(name).display().to_string());
    let [lower, upper, work] = layers;
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    tool("mount", &[&"-t", &"overlay", &"-o", &options, &"overlay", &at("merged")]);
    let target = at("merged").join("data");
    let ended = copy_with(&Copy::new(base.path()), &at("src"), &target, &[]);
    let copied = fs::read(target.join("d/b"));
    tool("umount", &[&at("merged")]);
    ended.expect(0);
    assert_eq!(copied.unwrap(), b"d/b");
}

/// Promise: a single file may be copied to nowhere.
#[test]
fn a_single_file_is_discarded() {
    let base = Scratch::on_disk();
    fs::write(base.path().join("file"), "bytes").unwrap();
    let copy = Copy::new(base.path());
    let mut command =
        copy.command(base.path().join("file").display().to_string(), Path::new("null:"));
    let ended = Run::spawn(&mut command).end().expect(0);
    assert_eq!(ended.figure("files"), 1, "{}", ended.last);
}

/// Promise (B9): where entries may be replaced, those that are made meanwhile are replaced too.
#[test]
fn a_name_that_is_taken_meanwhile_is_replaced_if_it_may_be() {
    let base = Scratch::on_disk();
    let (ended, _) = copied_while_names_are_taken(base.path(), &[]);
    ended.expect(0);
    assert_same(&base.path().join("src"), &base.path().join("dst"));
}
