//! `--dry-run` and `--plan`: a plan says exactly what a run does, makes nothing at the target, and
//! is followed to the letter or not at all.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use penstock_testkit::{
    Copy, Run, Scratch, Slowly, assert_same, make_files, program, rng, tool, two_sites,
};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;
use serde_json::Value;

/// Everything below a directory, with all that a write would change, as `find` sees it.
fn everything(root: &Path) -> String {
    let format = r"%y %i %m %U %G %s %T@ %C@ %l %P\0";
    let found = tool("find", &[&root, &"-printf", &format]);
    let mut lines: Vec<_> = found.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    lines.sort();
    String::from_utf8_lossy(&lines.join(&b'\n')).into_owned()
}

/// Runs `penstock copy` with these arguments to its end.
fn penstock(copy: &Copy, args: &[&dyn AsRef<OsStr>]) -> Output {
    let mut command = Command::new(program());
    command.arg("copy").args(args.iter().map(|arg| arg.as_ref()));
    command.env("PENSTOCK_STATE_HOME", copy.state()).current_dir(&copy.base).output().unwrap()
}

fn expect(output: &Output, code: i32) -> String {
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{text}\n{errors}");
    errors.into_owned()
}

fn contents(path: &Path) -> PathBuf {
    path.join("")
}

/// The items of a plan by path, and its end.
fn items(plan: &[u8]) -> (BTreeMap<String, Value>, Value) {
    let mut items = BTreeMap::new();
    let mut end = Value::Null;
    for line in plan.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let value: Value = serde_json::from_slice(line).unwrap();
        match value["type"].as_str().unwrap() {
            "item" => {
                let path = value["path"].as_str().unwrap().to_owned();
                // What is deleted in the way of something stands twice.
                if value["action"] != "delete" || !items.contains_key(&path) {
                    items.insert(path, value);
                }
            }
            "end" => end = value,
            _ => {}
        }
    }
    (items, end)
}

/// What is at a path, as far as a copy makes it: inode, mode, size, time of modification, link.
type Stand = (u64, u32, u64, i64, i64, Option<PathBuf>);

fn stands(root: &Path) -> BTreeMap<PathBuf, Stand> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let Ok(meta) = fs::symlink_metadata(&path) else { continue };
        if meta.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        // A directory's size is no attribute of it.
        let size = if meta.is_dir() { 0 } else { meta.size() };
        let link = fs::read_link(&path).ok();
        let stand = (meta.ino(), meta.mode(), size, meta.mtime(), meta.mtime_nsec(), link);
        found.insert(path.strip_prefix(root).unwrap().to_owned(), stand);
    }
    found
}

/// What a run has done with each path, by what stood there before and after.
fn done(
    before: &BTreeMap<PathBuf, Stand>,
    after: &BTreeMap<PathBuf, Stand>,
) -> BTreeMap<PathBuf, &'static str> {
    let mut paths: Vec<_> = before.keys().chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    let what = |path: &PathBuf| match (before.get(path), after.get(path)) {
        (None, _) => "copy",
        (_, None) => "delete",
        (Some(was), Some(is)) if was.0 != is.0 => "replace",
        (Some(was), Some(is)) if was != is => "attributes",
        _ => "skip",
    };
    paths.into_iter().map(|path| (path.clone(), what(path))).collect()
}

/// What a plan says of each path, in the words of [`done`].
fn said(plan: &[u8], before: &BTreeMap<PathBuf, Stand>) -> BTreeMap<PathBuf, String> {
    let (items, _) = items(plan);
    let mut said = BTreeMap::new();
    for (path, item) in items {
        // Names in these trees need no escapes.
        let path = PathBuf::from(path);
        let action = item["action"].as_str().unwrap();
        let action = match action {
            "link" if before.contains_key(&path) => "replace",
            "link" => "copy",
            // It will not be made, or stays as it is.
            "fail" if before.contains_key(&path) => "skip",
            "fail" => continue,
            action => action,
        };
        said.insert(path, action.to_owned());
    }
    said
}

fn touch(path: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Changes some of a tree: content, times, modes, names; makes and removes files, links and
/// directories.
fn mutate(rng: &mut ChaCha8Rng, root: &Path, round: usize) {
    for _ in 0..30 {
        let directory = root.join(format!("dir{}", rng.random_range(0..8)));
        let file = directory.join(format!("small{}", rng.random_range(0..200)));
        let new = directory.join(format!("new{round}-{}", rng.random_range(0..10_000)));
        if new.symlink_metadata().is_ok() {
            continue;
        }
        match rng.random_range(0..9) {
            0 => fs::write(&new, vec![1; rng.random_range(0..9000)]).unwrap(),
            1 => fs::create_dir_all(new.join("deeper")).unwrap(),
            2 => symlink(format!("to{round}"), &new).unwrap(),
            3 if file.exists() => fs::remove_file(&file).unwrap(),
            4 if file.exists() => touch(&file, rng.random_range(1..1 << 31)),
            5 if file.exists() => fs::write(&file, vec![2; rng.random_range(0..9000)]).unwrap(),
            6 if file.exists() => {
                let mode = [0o600, 0o644, 0o755][rng.random_range(0..3)];
                fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            }
            7 if file.exists() => fs::hard_link(&file, &new).unwrap(),
            8 => fs::set_permissions(&directory, fs::Permissions::from_mode(0o750)).unwrap(),
            _ => {}
        }
    }
}

/// Promise: what a plan says of each path is what the run that follows does with it, as judged by
/// what stood there before and after; totals are those of the items.
#[test]
fn a_plan_says_just_what_a_run_does() {
    let mut rng = rng("just what");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 150, 4_000, &[300_000]);
    let copy = Copy::new(base.path());
    let all: [&[&str]; 8] = [
        &[],
        &["--sync"],
        &["--sync", "--delete", "--max-delete", "1000"],
        &["--if-exists", "skip"],
        &["--if-exists", "newer", "--delete", "--max-delete", "1000"],
        &["--sync", "--if-exists", "newer"],
        &["--sync", "--delete", "--max-delete", "1000", "--exclude", "*7"],
        &["--sync", "--delete", "--max-delete", "1000"],
    ];
    for (round, options) in all.iter().enumerate() {
        if round > 0 {
            mutate(&mut rng, &source, round);
            mutate(&mut rng, &target, round + 100);
        }
        let before = stands(&target);
        let plan = copy.command(contents(&source), &target).arg("-n").args(*options).output();
        let plan = plan.unwrap();
        let code = plan.status.code().unwrap();
        assert!([0, 3].contains(&code), "{}", String::from_utf8_lossy(&plan.stderr));
        assert_eq!(stands(&target), before, "a dry run touches nothing");
        let run = copy.command(contents(&source), &target).args(*options).output().unwrap();
        expect(&run, code);
        let after = stands(&target);
        let (mut said, done) = (said(&plan.stdout, &before), done(&before, &after));
        // What is at the target alone, or not chosen, is no part of a plan, unless it is deleted.
        let excludes = options.contains(&"--exclude");
        let chosen =
            |path: &Path| !excludes || !path.iter().any(|name| name.as_bytes().ends_with(b"7"));
        for (path, what) in &done {
            let alone = !source.join(path).exists() || !chosen(path);
            // A directory that something was made in or deleted from has a time of its own making.
            if alone && ["skip", "attributes"].contains(what) && before.contains_key(path) {
                said.entry(path.clone()).or_insert_with(|| (*what).to_owned());
            }
        }
        // A further name shows what is set on the file under another one.
        let set = said.iter().filter(|(_, action)| *action == "attributes");
        let set: Vec<u64> = set.filter_map(|(path, _)| Some(before.get(path)?.0)).collect();
        for (path, what) in &done {
            let planned = said.get(path).map(String::as_str);
            let by_another = before.get(path).is_some_and(|stand| set.contains(&stand.0));
            if planned == Some("skip") && *what == "attributes" && by_another {
                continue;
            }
            assert_eq!(planned, Some(*what), "{options:?}, round {round}: {}", path.display());
        }
        assert_eq!(said.len(), done.len(), "{options:?}");
        let (items, end) = items(&plan.stdout);
        for action in ["copy", "replace", "link", "attributes", "delete", "skip", "fail"] {
            let of: Vec<_> = items.values().filter(|item| item["action"] == action).collect();
            assert!(end["totals"][action]["items"].as_u64() >= Some(of.len() as u64), "{action}");
        }
    }
    copy.assert_no_state();
}

/// Promise (B6): a further name whose first name stays another version is planned as one that
/// fails, and fails; the plan ends with the exit code of the run.
#[test]
fn b6_a_further_name_without_its_first_is_planned_as_failed() {
    let base = Scratch::on_disk();
    let source = base.path().join("src");
    fs::create_dir(&source).unwrap();
    fs::write(source.join("one"), "of the source").unwrap();
    touch(&source.join("one"), 10);
    fs::hard_link(source.join("one"), source.join("two")).unwrap();
    let copy = Copy::new(base.path());
    let all: [&[&str]; 3] =
        [&["--sync", "--if-exists", "newer"], &["--if-exists", "newer"], &["--if-exists", "skip"]];
    for (at, options) in all.iter().enumerate() {
        let mut failed = 0;
        for (taken, other) in [("one", "two"), ("two", "one")] {
            let target = base.path().join(format!("dst-{at}-{taken}"));
            fs::create_dir(&target).unwrap();
            fs::write(target.join(taken), "another version").unwrap();
            let run = |more: &[&str]| {
                let mut command = copy.command(contents(&source), &target);
                command.args(*options).args(more).output().unwrap()
            };
            let plan = run(&["-n"]);
            let (items, _) = items(&plan.stdout);
            let fails = items[other]["action"] == "fail";
            let code = if fails { 3 } else { 0 };
            expect(&plan, code);
            expect(&run(&[]), code);
            assert_eq!(items[taken]["action"], "skip", "{options:?}");
            assert_eq!(target.join(other).exists(), !fails, "{options:?}, {taken}");
            assert_eq!(fs::read_to_string(target.join(taken)).unwrap(), "another version");
            failed += u32::from(fails);
        }
        // The directory decides which name is the first.
        assert_eq!(failed, 1, "{options:?}");
    }
}

/// Promise: a dry run writes nothing at the target, to the last time stamp, and makes no directory
/// there, no store and no journal; nor does it take away what an interrupted copy has left.
#[test]
fn a_dry_run_writes_nothing() {
    let mut rng = rng("nothing");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 60, 4_000, &[300_000]);
    make_files(&mut rng, &target, 90, 4_000, &[]);
    fs::create_dir(target.join(".penstock-store-7q2mv0kd9j")).unwrap();
    fs::write(target.join(".penstock-store-7q2mv0kd9j/store"), "of an interrupted copy").unwrap();
    fs::remove_file(target.join(".penstock-store-7q2mv0kd9j/store")).unwrap();
    let copy = Copy::new(base.path());
    let before = everything(&target);
    let options: [&[&str]; 4] =
        [&["-n"], &["-nv", "--sync"], &["-n", "--sync", "--delete", "--json"], &["-n", "--delete"]];
    for options in options {
        let mut args: Vec<&dyn AsRef<OsStr>> = vec![];
        args.extend(options.iter().map(|option| option as &dyn AsRef<OsStr>));
        let (from, to) = (contents(&source), target.clone());
        args.extend([&from as &dyn AsRef<OsStr>, &to]);
        let ended = penstock(&copy, &args);
        assert!(!ended.stdout.is_empty(), "{}", String::from_utf8_lossy(&ended.stderr));
        assert_eq!(everything(&target), before, "{options:?}");
    }
    let nowhere = base.path().join("not/there/yet");
    let told = penstock(&copy, &[&"-n", &contents(&source), &nowhere]);
    expect(&told, 0);
    assert!(!base.path().join("not").exists(), "a dry run makes no directory");
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(text.contains("copy       dir0/small0"), "{text}");
    assert!(text.ends_with("nothing is known of the rate between these places\n"), "{text}");
    let limited = penstock(&copy, &[&"-n", &"--bwlimit", &"8Mbit/s", &contents(&source), &nowhere]);
    let text = String::from_utf8(limited.stdout).unwrap();
    assert!(text.contains("at 8.00 Mbit/s, the limit that was set"), "{text}");
    copy.assert_no_state();
}

/// C3: a plan says that nothing would be deleted where a guard would say no, and ends as the run
/// would, with exit 6.
#[test]
fn c3_a_plan_that_would_delete_too_much_says_so() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir_all(&source).unwrap();
    fs::create_dir_all(&target).unwrap();
    fs::write(source.join("kept"), "x").unwrap();
    for at in 0..20 {
        fs::write(target.join(format!("gone{at}")), "x").unwrap();
    }
    let copy = Copy::new(base.path());
    let refused = penstock(&copy, &[&"-n", &"--delete", &contents(&source), &target]);
    let errors = expect(&refused, 6);
    assert!(errors.contains("--max-delete 20"), "{errors}");
    let text = String::from_utf8(refused.stdout).unwrap();
    assert!(!text.contains("delete "), "{text}");
    let args: [&dyn AsRef<OsStr>; 6] =
        [&"-n", &"--delete", &"--max-delete", &"20", &contents(&source), &target];
    let text = String::from_utf8(penstock(&copy, &args).stdout).unwrap();
    assert!(text.contains("delete     gone7\n") && text.contains("delete     20 items"), "{text}");
}

/// A source and a target that differ in all ways, and the plan that brings them in step.
struct Planned {
    _base: Scratch,
    copy: Copy,
    source: PathBuf,
    target: PathBuf,
    plan: PathBuf,
}

impl Planned {
    fn new() -> Self {
        let base = Scratch::on_disk();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        fs::create_dir_all(source.join("d/new")).unwrap();
        fs::create_dir_all(target.join("d/old")).unwrap();
        for (name, text, seconds) in [
            ("d/copied", "to be copied", 10),
            ("d/new/copied", "in a new directory", 11),
            ("d/replaced", "the new version", 12),
            ("d/same", "the same", 13),
            ("d/mode", "another mode", 14),
        ] {
            fs::write(source.join(name), text).unwrap();
            touch(&source.join(name), seconds);
        }
        let odd = OsStr::from_bytes(b"d/odd\n\xff name");
        fs::write(source.join(odd), "odd").unwrap();
        fs::hard_link(source.join("d/copied"), source.join("d/linked")).unwrap();
        symlink("somewhere", source.join("d/symlink")).unwrap();
        for (name, text, seconds) in [
            ("d/replaced", "old", 2),
            ("d/same", "the same", 13),
            ("d/mode", "another mode", 14),
            ("d/surplus", "surplus", 3),
            ("d/old/surplus", "surplus too", 4),
        ] {
            fs::write(target.join(name), text).unwrap();
            touch(&target.join(name), seconds);
        }
        let odd = OsStr::from_bytes(b"d/old\t\xfe name");
        fs::write(target.join(odd), "odd").unwrap();
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(source.join("d/mode"), mode).unwrap();
        let copy = Copy::new(base.path());
        let plan = base.path().join("plan");
        let planned = Self { _base: base, copy, source, target, plan };
        planned.make();
        planned
    }

    fn make(&self) {
        let options = ["-n", "--sync", "--delete", "--max-delete", "9"];
        let mut command = self.copy.command(contents(&self.source), &self.target);
        let made = command.args(options).output().unwrap();
        expect(&made, 0);
        fs::write(&self.plan, made.stdout).unwrap();
    }

    fn follow(&self) -> Output {
        penstock(&self.copy, &[&"--json", &"--plan", &self.plan])
    }
}

/// Promise: a plan that is followed brings the target in step, with names of any bytes (j); the
/// second time the world is another.
#[test]
fn a_plan_is_followed() {
    let planned = Planned::new();
    let (items, _) = items(&fs::read(&planned.plan).unwrap());
    let action = |path: &str| items[path]["action"].as_str().unwrap();
    assert_eq!((action("d/copied"), action("d/linked")), ("copy", "link"));
    assert_eq!((action("d/replaced"), action("d/same")), ("replace", "skip"));
    assert_eq!((action("d/mode"), action("d/old")), ("attributes", "delete"));
    assert_eq!(action(r"d/odd\n\xff name"), "copy");
    expect(&planned.follow(), 0);
    assert_same(&planned.source, &planned.target);
    let link = |root: &Path| fs::metadata(root.join("d/linked")).unwrap().nlink();
    assert_eq!((link(&planned.source), link(&planned.target)), (2, 2));
    let errors = expect(&planned.follow(), 4);
    assert!(errors.contains("since the plan was made"), "{errors}");
    planned.copy.assert_no_state();
}

/// Promise: what has appeared since the plan was made is neither copied nor deleted, and nothing
/// else suffers by it.
#[test]
fn what_has_appeared_since_is_left_alone() {
    let planned = Planned::new();
    let (source, target) = (&planned.source, &planned.target);
    fs::write(source.join("d/appeared"), "x").unwrap();
    fs::create_dir_all(source.join("d/appeared too")).unwrap();
    fs::write(source.join("d/appeared too/file"), "x").unwrap();
    fs::write(source.join("d/both"), "source").unwrap();
    fs::write(target.join("d/both"), "target").unwrap();
    fs::write(target.join("d/appeared there"), "x").unwrap();
    let both = fs::metadata(target.join("d/both")).unwrap();
    expect(&planned.follow(), 0);
    assert!(!target.join("d/appeared").exists() && !target.join("d/appeared too").exists());
    assert!(target.join("d/appeared there").exists() && !target.join("d/surplus").exists());
    assert_eq!(fs::read_to_string(target.join("d/replaced")).unwrap(), "the new version");
    let now = fs::metadata(target.join("d/both")).unwrap();
    assert_eq!((now.ino(), now.ctime_nsec()), (both.ino(), both.ctime_nsec()));
    planned.copy.assert_no_state();
}

/// Promise: where the world has changed since the plan was made, the run ends with exit 4, names
/// what has changed, and has touched nothing: neither that nor anything else.
#[test]
fn a_changed_world_stops_a_plan_before_anything_is_done() {
    type Change = fn(&Path, &Path);
    let changes: [(&str, &str, Change); 9] = [
        ("d/copied", "changed at the source", |source, _| {
            fs::write(source.join("d/copied"), "longer than before it was").unwrap();
        }),
        ("d/same", "changed at the source", |source, _| touch(&source.join("d/same"), 77)),
        ("d/replaced", "vanished from the source", |source, _| {
            fs::remove_file(source.join("d/replaced")).unwrap();
        }),
        ("d/symlink", "changed at the source", |source, _| {
            fs::remove_file(source.join("d/symlink")).unwrap();
            symlink("elsewhere", source.join("d/symlink")).unwrap();
        }),
        ("d/copied", "exists at the target", |_, target| {
            fs::write(target.join("d/copied"), "somebody's").unwrap();
        }),
        ("d/replaced", "changed at the target", |_, target| {
            fs::write(target.join("d/replaced"), "somebody's").unwrap();
        }),
        ("d/same", "vanished from the target", |_, target| {
            fs::remove_file(target.join("d/same")).unwrap();
        }),
        ("d/surplus", "changed at the target", |_, target| {
            fs::write(target.join("d/surplus"), "somebody's").unwrap();
        }),
        ("d/surplus", "vanished from the target", |_, target| {
            fs::remove_file(target.join("d/surplus")).unwrap();
        }),
    ];
    for (path, why, change) in changes {
        let planned = Planned::new();
        change(&planned.source, &planned.target);
        let before = (everything(&planned.source), everything(&planned.target));
        let errors = expect(&planned.follow(), 4);
        assert!(errors.contains(&format!("{path}: {why}")), "{path}, {why}: {errors}");
        let after = (everything(&planned.source), everything(&planned.target));
        assert_eq!(after, before, "{path}, {why}");
        planned.copy.assert_no_state();
    }
}

/// Promise: what is in the way of something is told as what is deleted, or where nothing may be
/// deleted, its successor as what will fail; and a plan with it is followed.
#[test]
fn what_is_in_the_way_is_told() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir_all(source.join("dir/inner")).unwrap();
    fs::create_dir_all(target.join("file/inner")).unwrap();
    for (root, name) in
        [(&source, "file"), (&source, "dir/inner/f"), (&target, "dir"), (&target, "file/inner/f")]
    {
        fs::write(root.join(name), name).unwrap();
    }
    for at in 0..9 {
        fs::write(source.join(format!("same{at}")), "same").unwrap();
        fs::write(target.join(format!("same{at}")), "same").unwrap();
    }
    let copy = Copy::new(base.path());
    let plan = |options: &[&str]| {
        let mut command = copy.command(contents(&source), &target);
        let made = command.arg("-n").args(options).output().unwrap();
        let text = String::from_utf8(made.stdout.clone()).unwrap();
        let mut said = Vec::new();
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            if value["type"] == "item" && !value["path"].as_str().unwrap().starts_with("same") {
                let text = |name: &str| value[name].as_str().unwrap().to_owned();
                said.push(format!("{} {}", text("action"), text("path")));
            }
        }
        said.retain(|line| !line.ends_with(' '));
        said.sort();
        (made.status.code().unwrap(), said, text)
    };
    let (code, said, _) = plan(&[]);
    assert_eq!(code, 3);
    assert_eq!(said, ["fail dir", "fail dir/inner", "fail dir/inner/f", "fail file"]);
    let (code, said, text) = plan(&["--delete"]);
    assert_eq!(code, 0, "{text}");
    let expected = [
        "copy dir/inner",
        "copy dir/inner/f",
        "delete dir",
        "delete file",
        "delete file/inner",
        "delete file/inner/f",
        "replace dir",
        "replace file",
    ];
    assert_eq!(said, expected);
    let file = base.path().join("plan");
    fs::write(&file, text).unwrap();
    expect(&penstock(&copy, &[&"--plan", &file]), 0);
    assert_same(&source, &target);
    copy.assert_no_state();
}

/// Promise: half a plan, or one that was edited, is refused with exit 2, and so are options that
/// say anew what the plan says.
#[test]
fn a_plan_that_is_not_whole_is_not_followed() {
    let planned = Planned::new();
    let before = everything(&planned.target);
    let whole = fs::read_to_string(&planned.plan).unwrap();
    let cut = whole.lines().count() - 1;
    let cut: Vec<_> = whole.lines().take(cut).collect();
    for broken in [cut.join("\n"), whole.replace("d/surplus", "d/replaced"), String::new()] {
        fs::write(&planned.plan, broken).unwrap();
        let errors = expect(&planned.follow(), 2);
        assert!(errors.contains("the plan is damaged or incomplete"), "{errors}");
    }
    fs::write(&planned.plan, &whole).unwrap();
    let args: [&dyn AsRef<OsStr>; 3] = [&"--delete", &"--plan", &planned.plan];
    let errors = expect(&penstock(&planned.copy, &args), 2);
    assert!(errors.contains("the options are part of the plan"), "{errors}");
    let args: [&dyn AsRef<OsStr>; 4] = [&"--plan", &planned.plan, &planned.source, &planned.target];
    expect(&penstock(&planned.copy, &args), 2);
    assert_eq!(everything(&planned.target), before);
    planned.copy.assert_no_state();
}

/// Promise (d): `kill -9` while a plan is followed costs what was in flight: the same command goes
/// on with the plan, though the world is by then half as the plan wants it.
#[test]
fn d_a_plan_is_followed_on_after_kill() {
    let mut rng = rng("followed on");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 3_000, 9_000, &[60 << 20, 40 << 20]);
    make_files(&mut rng, &target, 3_400, 9_000, &[1 << 20]);
    let copy = Copy::new(base.path());
    let options = ["-n", "--sync", "--delete", "--max-delete", "5000"];
    let made = copy.command(contents(&source), &target).args(options).output().unwrap();
    expect(&made, 0);
    let plan = base.path().join("plan");
    fs::write(&plan, made.stdout).unwrap();
    let follow = || {
        let mut command = Command::new(program());
        command.args(["copy", "--json", "--plan"]).arg(&plan).current_dir(base.path());
        command.env("PENSTOCK_STATE_HOME", copy.state());
        command
    };
    let mut kills = 0;
    for _ in 0..4 {
        let mut run = Run::spawn(&mut follow());
        let slowly = Slowly::new(run.id());
        let moved = run.wait_for(|event| event["bytes"].as_u64() > Some(0));
        drop(slowly);
        if moved.is_none_or(|event| event["type"] == "summary") {
            run.end().expect(0);
            break;
        }
        run.kill();
        kills += 1;
    }
    println!("killed {kills} times");
    if kills == 4 {
        Run::spawn(&mut follow()).end().expect(0);
    }
    assert_same(&source, &target);
    copy.assert_no_state();
}

/// Promise: between sites a plan is made by either, without a trace at the target, and followed
/// when it is submitted at either; where the world has changed, the transfer ends with exit 4 and
/// has done nothing.
#[test]
fn plans_between_sites_are_made_and_followed() {
    let mut rng = rng("sites plan");
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("a"), base.path().join("b"));
    let (source, target) = (data_a.join("set"), data_b.join("set"));
    make_files(&mut rng, &source, 200, 20_000, &[17 << 20]);
    let (a, b) = two_sites(base.path(), &data_a, &data_b);
    let told = b.ok(&["transfer", "submit", "-n", "a:data/set", "b:data/"]);
    assert!(told.contains("copy       dir0/small0"), "{told}");
    assert!(told.contains("`penstock forecast a:data/set b:data"), "{told}");
    assert_eq!(fs::read_dir(&data_b).unwrap().count(), 0, "a plan writes nothing");
    let first = b.submit(&["a:data/set", "b:data/"]);
    b.follow(&first).expect(0);
    fs::write(source.join("dir1/small1"), b"changed").unwrap();
    fs::remove_file(source.join("dir2/small2")).unwrap();
    fs::write(source.join("dir3/new"), vec![7; 1000]).unwrap();
    let before = everything(&data_b);
    let plan = base.path().join("plan");
    let wish = ["a:data/set", "b:data/", "--sync", "--delete", "--max-delete", "9"];
    for site in [&b, &a] {
        let mut args = vec!["transfer", "plan", "--out", plan.to_str().unwrap()];
        args.extend(wish);
        site.ok(&args);
        let (items, end) = items(&fs::read(&plan).unwrap());
        let action = |path: &str| items[path]["action"].as_str().unwrap();
        assert_eq!((action("dir1/small1"), action("dir2/small2")), ("replace", "delete"));
        assert_eq!((action("dir3/new"), action("dir0/large0")), ("copy", "skip"));
        assert_eq!(end["totals"]["copy"]["items"], 1);
        assert!(end["forecast"]["basis"].as_str().unwrap().contains("last transfer"), "{end}");
        assert_eq!(everything(&data_b), before, "a plan writes nothing");
    }
    fs::write(source.join("dir3/appeared"), b"since").unwrap();
    let follow = ["transfer", "submit", "--wait", "--plan", plan.to_str().unwrap()];
    a.ok(&follow);
    assert_eq!(fs::read(target.join("dir1/small1")).unwrap(), b"changed");
    assert!(target.join("dir3/new").exists() && !target.join("dir2/small2").exists());
    assert!(!target.join("dir3/appeared").exists());
    let before = everything(&target);
    let again = b.run(&follow);
    let errors = expect(&again, 4);
    assert!(errors.contains("since the plan was made"), "{errors}");
    assert_eq!(everything(&target), before);
    // Whoever has no plan sends none.
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, &text[..text.len() - 10]).unwrap();
    expect(&b.run(&follow), 2);
}
