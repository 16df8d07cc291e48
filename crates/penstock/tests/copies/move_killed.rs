//! A move that is killed at each step of the removal at its source (C6): before and after an item
//! is put aside, before and after it is unlinked, and at each directory. Local, to another host and
//! from it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use penstock_proto::name;
use penstock_testkit::{
    Copy, Run, Scratch, SshHost, SshOptions, assert_no_leftovers, assert_same, assert_same_files,
    can_trace, files_below, program, remember, traced,
};

/// The system calls of a removal: the one that puts an item aside, and the one that removes.
const STEPS: [&str; 2] = ["renameat2", "unlinkat"];
/// More than there are items.
const MOST: u32 = 20;

fn make_source(source: &Path) -> PathBuf {
    fs::create_dir_all(source.join("d")).unwrap();
    for name in ["d/one", "d/two", "d/\u{e4}", "three", "empty"] {
        fs::write(source.join(name), format!("content of {name}")).unwrap();
    }
    fs::write(source.join("empty"), "").unwrap();
    std::os::unix::fs::symlink("d/one", source.join("link")).unwrap();
    remember(source)
}

/// strace(1) that kills the program at this call of a step in the source.
fn killed_at(step: &str, call: u32, source: &Path) -> Command {
    let mut command = traced(&[&format!("{step}:signal=KILL:when={call}")]);
    command.arg("-P").arg(source).arg("-P").arg(source.join("d"));
    command
}

/// Each item is at the source, under its name or put aside, or at the target.
fn assert_nothing_lost(kept: &Path, source: &Path, target: &Path) {
    let aside = |path: &PathBuf| {
        let name = path.file_name().unwrap().as_encoded_bytes();
        name::own(name).is_some()
    };
    let left = files_below(source);
    let count = left.iter().filter(|path| aside(path)).count();
    assert!(count <= 1, "{left:?}");
    for file in files_below(kept) {
        let path = file.strip_prefix(kept).unwrap();
        let (here, there) = (source.join(path), target.join(path));
        let read = |path: &Path| fs::read(path).ok();
        let content = read(&file);
        assert!(read(&here) == content || read(&there) == content, "{} is lost", path.display());
    }
}

/// Runs `each` for each call of each step, until it returns that nothing was killed there.
fn at_each_step(mut each: impl FnMut(&str, u32) -> bool) {
    for step in STEPS {
        let killed = (1..=MOST).take_while(|call| each(step, *call)).count();
        println!("killed at {killed} calls of {step}");
        assert!((4..MOST as usize).contains(&killed), "{killed} calls of {step}");
    }
}

fn assert_moved(kept: &Path, source: &Path, target: &Path) {
    assert_eq!(fs::read_dir(source).unwrap().count(), 0, "the source is empty");
    assert_same(kept, target);
    assert_no_leftovers(target);
}

/// C6: the same command ends a local move that was killed at any step.
#[test]
fn c6_a_move_that_is_killed_at_any_step_ends() {
    if !can_trace("kills at system calls") {
        return;
    }
    at_each_step(|step, call| {
        let base = Scratch::on_disk();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        let (kept, copy) = (make_source(&source), Copy::new(base.path()));
        let contents = format!("{}/", source.display());
        let mut command = killed_at(step, call, &source);
        command.args([program(), "copy", "--json", "--remove-source", &contents]).arg(&target);
        command.env("PENSTOCK_STATE_HOME", copy.state());
        let killed = Run::spawn(&mut command).end().code != 0;
        assert_nothing_lost(&kept, &source, &target);
        if killed {
            let mut command = copy.command(&contents, &target);
            Run::spawn(command.arg("--remove-source")).end().expect(0);
        }
        assert_moved(&kept, &source, &target);
        copy.assert_no_state();
        killed
    });
}

/// C6: a copy that keeps its source, after a move that was killed at any step, gives what was put
/// aside its name back; so does the move with other options.
#[test]
fn c6_another_copy_gives_names_back() {
    if !can_trace("kills at system calls") {
        return;
    }
    for options in [&["--sync"][..], &["--remove-source", "--exclude", "*"]] {
        at_each_step(|step, call| {
            let base = Scratch::on_disk();
            let (source, target) = (base.path().join("src"), base.path().join("dst"));
            let (kept, copy) = (make_source(&source), Copy::new(base.path()));
            let contents = format!("{}/", source.display());
            let mut command = killed_at(step, call, &source);
            command.args([program(), "copy", "--json", "--remove-source", &contents]).arg(&target);
            command.env("PENSTOCK_STATE_HOME", copy.state());
            let killed = Run::spawn(&mut command).end().code != 0;
            if killed {
                let before = files_below(&source).len();
                let mut command = copy.command(&contents, &target);
                Run::spawn(command.args(options)).end().expect(0);
                assert_eq!(files_below(&source).len(), before);
                assert_no_leftovers(&source);
                assert_nothing_lost(&kept, &source, &target);
                assert_same_files(&kept, &target);
                copy.assert_no_state();
            }
            killed
        });
    }
}

/// C6: a move that was killed while it removed, and finds its target gone, moves there what the
/// source still holds: nothing waits for the target that was, and no name of ours stays.
#[test]
fn c6_a_move_whose_target_was_removed_begins_anew() {
    if !can_trace("kills at system calls") {
        return;
    }
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    let copy = Copy::new(base.path());
    make_source(&source);
    let contents = format!("{}/", source.display());
    let mut command = killed_at("unlinkat", 3, &source);
    command.args([program(), "copy", "--json", "--remove-source", &contents]).arg(&target);
    command.env("PENSTOCK_STATE_HOME", copy.state());
    assert_ne!(Run::spawn(&mut command).end().code, 0);
    let left = files_below(&source).len();
    assert!(left > 0);
    fs::remove_dir_all(&target).unwrap();
    let mut command = copy.command(&contents, &target);
    let ended = Run::spawn(command.arg("--remove-source")).end().expect(0);
    assert!(ended.errors.contains("was removed or replaced"), "{}", ended.errors);
    assert_eq!(files_below(&target).len(), left);
    assert_eq!(files_below(&source), Vec::<PathBuf>::new());
    assert_no_leftovers(&target);
    copy.assert_no_state();
}

/// Runs a move by ssh whose source process is killed at a call of a step; returns whether it was.
fn move_by_ssh(host: &SshHost, push: bool, number: usize, at: (&str, u32)) -> bool {
    let root = host.path(&format!("{number}-{}-{}-{push}", at.0, at.1));
    let (source, target) = (root.join("src"), root.join("dst"));
    let kept = make_source(&source);
    let far_program = host.path("bin/penstock");
    let _ = fs::remove_file(&far_program);
    let mut traced = killed_at(at.0, at.1, &source);
    let words: Vec<String> = std::iter::once(traced.get_program())
        .chain(traced.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let far = if push { String::new() } else { words.join(" ") };
    let by = |far: &str| format!("#!/bin/sh\nexec {far} '{}' \"$@\"\n", program());
    fs::write(&far_program, by(&far)).unwrap();
    fs::set_permissions(&far_program, fs::Permissions::from_mode(0o755)).unwrap();
    let name = |path: &Path, remote: bool, end: &str| {
        let path = format!("{}{end}", path.display());
        if remote { format!("127.0.0.1:{path}") } else { path }
    };
    let words = ["--remove-source", &name(&source, !push, "/"), &name(&target, push, "")];
    let first = if push {
        traced.args([program(), "copy", "--json", "--ssh", &host.ssh()]).args(words);
        host.place(&mut traced);
        Run::spawn(&mut traced).end()
    } else {
        host.run(&words)
    };
    let killed = first.code != 0;
    assert_nothing_lost(&kept, &source, &target);
    if killed {
        fs::write(&far_program, by("")).unwrap();
        host.run(&words).expect(0);
    }
    assert_moved(&kept, &source, &target);
    host.assert_nothing_runs();
    for home in ["home", "local"] {
        let copies = host.path(home).join(".local/state/penstock/copy");
        assert_eq!(fs::read_dir(copies).map_or(0, Iterator::count), 0, "state is left in {home}");
    }
    killed
}

/// C6: the same command ends a move to another host, and from another host, that was killed at any
/// step.
#[test]
fn c6_a_move_by_ssh_that_is_killed_at_any_step_ends() {
    if !can_trace("kills at system calls") {
        return;
    }
    let host = SshHost::start(&SshOptions::default());
    for push in [true, false] {
        let mut number = 0;
        at_each_step(|step, call| {
            number += 1;
            move_by_ssh(&host, push, number, (step, call))
        });
    }
}
