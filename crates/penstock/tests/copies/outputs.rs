//! Files that a copy writes for its user: opened first, whole at the end, never put in the place of
//! a device, a pipe or a link.

use std::fs;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use penstock_testkit::{Mount, Scratch, can_trace, is_root, program, program_of_others};

struct Bed {
    work: Scratch,
}

impl Bed {
    fn new() -> Self {
        let bed = Self { work: Scratch::on_disk() };
        fs::create_dir(bed.at("s")).unwrap();
        fs::write(bed.at("s/f"), b"bytes").unwrap();
        bed
    }

    fn at(&self, path: &str) -> PathBuf {
        self.work.path().join(path)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg("copy").args(["s/", "o"]).args(arguments).current_dir(self.work.path());
        command.env("PENSTOCK_STATE_HOME", self.at("state"));
        command
    }

    fn copy(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    fn ok(&self, arguments: &[&str]) -> Output {
        let output = self.copy(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", told(&output));
        output
    }

    /// It fails with this exit code before anything is copied.
    fn refused(&self, exit: i32, arguments: &[&str]) -> String {
        let output = self.copy(arguments);
        let said = told(&output);
        assert_eq!(output.status.code(), Some(exit), "{arguments:?}: {said}");
        assert!(!self.at("o/f").exists(), "{arguments:?}: it has copied before that: {said}");
        said
    }

    fn run(&self, program: &str, arguments: &[&str]) -> bool {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.work.path());
        command.status().is_ok_and(|status| status.success())
    }
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn is_receipt(text: &[u8]) -> bool {
    serde_json::from_slice::<serde_json::Value>(text).is_ok_and(|receipt| {
        receipt["receipt"]["program"].as_str().is_some_and(|name| name.starts_with("penstock"))
    })
}

/// E8: an output that is a device is written into, and stays one.
#[test]
fn e8_a_device_stays_a_device() {
    let bed = Bed::new();
    if !bed.run("mknod", &["-m", "666", "null", "c", "1", "3"]) {
        eprintln!("SKIPPED: no device nodes may be made here");
        return;
    }
    symlink("null", bed.at("link")).unwrap();
    let mut silent = bed.command(&["--receipt", "/dev/null", "--write-digests", "null", "--json"]);
    assert!(silent.stdout(Stdio::null()).status().unwrap().success());
    for name in ["null", "link"] {
        bed.ok(&["--receipt", name, "--write-digests", name]);
        assert!(fs::symlink_metadata(bed.at("null")).unwrap().file_type().is_char_device());
        assert!(fs::symlink_metadata(bed.at("link")).unwrap().file_type().is_symlink());
    }
}

/// E8: an output is written through links, also through one to nothing; the link stays, and so
/// does the mode of the file that it leads to.
#[test]
fn e8_links_are_written_through() {
    let bed = Bed::new();
    fs::write(bed.at("old"), "old").unwrap();
    fs::set_permissions(bed.at("old"), fs::Permissions::from_mode(0o640)).unwrap();
    for (link, to) in [("a", "old"), ("b", "new"), ("c", "b")] {
        symlink(to, bed.at(link)).unwrap();
    }
    for (link, file) in [("a", "old"), ("b", "new"), ("c", "new")] {
        bed.ok(&["--receipt", link]);
        assert!(fs::symlink_metadata(bed.at(link)).unwrap().file_type().is_symlink());
        assert!(is_receipt(&fs::read(bed.at(file)).unwrap()), "{link}");
    }
    let mode = fs::metadata(bed.at("old")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    symlink("loop", bed.at("loop")).unwrap();
    fs::remove_dir_all(bed.at("o")).unwrap();
    assert!(bed.refused(7, &["--receipt", "loop"]).contains("cannot write `loop`"));
}

/// E8: standard output is an output by each of its names, and is neither replaced nor cut,
/// whatever it is.
#[test]
fn e8_standard_output_is_an_output() {
    let bed = Bed::new();
    symlink("/proc/self/fd/1", bed.at("link")).unwrap();
    for name in ["-", "/dev/stdout", "/proc/self/fd/1", "link"] {
        let output = bed.ok(&["--receipt", name]);
        assert!(is_receipt(&output.stdout), "{name}: {}", told(&output));
        let path = bed.at("out");
        fs::write(&path, "before\n").unwrap();
        let out = fs::File::options().append(true).open(&path).unwrap();
        let inode = || std::os::unix::fs::MetadataExt::ino(&fs::metadata(&path).unwrap());
        let before = inode();
        let ran = bed.command(&["--receipt", name]).stdout(out).output().unwrap();
        assert!(ran.status.success(), "{}", told(&ran));
        let text = fs::read(&path).unwrap();
        assert!(text.starts_with(b"before\n") && is_receipt(&text[7..]), "{name}");
        assert_eq!(inode(), before, "{name}");
    }
    // What a socket is cannot be opened by its name.
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut command = bed.command(&["--receipt", "/dev/stdout"]);
    let mut copying = command.stdout(OwnedFd::from(theirs)).spawn().unwrap();
    drop(command);
    let mut text = Vec::new();
    (&ours).read_to_end(&mut text).unwrap();
    assert!(copying.wait().unwrap().success() && is_receipt(&text));
    assert!(!bed.at("-").exists());
    assert!(fs::symlink_metadata(bed.at("link")).unwrap().file_type().is_symlink());
    fs::remove_dir_all(bed.at("o")).unwrap();
    bed.refused(2, &["--receipt", "-", "--write-digests", "/dev/stdout"]);
    bed.refused(2, &["--receipt", "-", "--json"]);
}

/// E8: a named pipe is written into; the command says so when it waits for a reader, and a
/// signal ends the waiting.
#[test]
fn e8_a_named_pipe_is_written_into() {
    let bed = Bed::new();
    assert!(bed.run("mkfifo", &["pipe"]));
    let mut copying = bed.command(&["--receipt", "pipe"]);
    let mut copying = copying.stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    let mut errors = std::io::BufReader::new(copying.stderr.take().unwrap());
    while !said.contains("waiting for a reader of the named pipe `pipe`") {
        assert!(std::io::BufRead::read_line(&mut errors, &mut said).unwrap() > 0, "{said}");
    }
    let text = fs::read(bed.at("pipe")).unwrap();
    assert!(copying.wait().unwrap().success());
    assert!(is_receipt(&text));
    assert!(fs::symlink_metadata(bed.at("pipe")).unwrap().file_type().is_fifo());
    let mut waiting = bed.command(&["--receipt", "pipe"]);
    let mut waiting = waiting.stderr(Stdio::piped()).spawn().unwrap();
    let mut errors = std::io::BufReader::new(waiting.stderr.take().unwrap());
    said.clear();
    while !said.contains("waiting for a reader") {
        assert!(std::io::BufRead::read_line(&mut errors, &mut said).unwrap() > 0, "{said}");
    }
    assert!(bed.run("kill", &["-TERM", &waiting.id().to_string()]));
    assert_eq!(waiting.wait().unwrap().code(), Some(130));
    errors.read_to_string(&mut said).unwrap();
    assert!(said.contains("no process reads the named pipe `pipe`"), "{said}");
}

/// E8: an output that cannot be written is told before anything is copied, and leaves nothing
/// behind, neither beside it nor in the state directory.
#[test]
fn e8_outputs_are_opened_first() {
    let bed = Bed::new();
    fs::create_dir(bed.at("directory")).unwrap();
    let long = "x".repeat(300);
    let cases = [
        (7, "none/r", "cannot write `none/r`"),
        (7, "s/f/r", "cannot write `s/f/r`"),
        (7, &long, "cannot write `xxx"),
        (2, "directory", "it is a directory"),
    ];
    for (exit, name, why) in cases {
        for option in ["--receipt", "--write-digests"] {
            let said = bed.refused(exit, &[option, name]);
            assert!(said.contains(why), "{said}");
        }
    }
    // One that is there stays as it is when another one cannot be written.
    fs::write(bed.at("old"), "old").unwrap();
    bed.refused(7, &["--write-digests", "old", "--receipt", "none/r"]);
    assert_eq!(fs::read(bed.at("old")).unwrap(), b"old");
    let copies = fs::read_dir(bed.at("state/copy")).into_iter().flatten();
    assert_eq!(copies.count(), 0);
    bed.ok(&["--write-digests", "old", "--receipt", "r"]);
    assert!(fs::read(bed.at("old")).unwrap().ends_with(b"  f\n"));
    let left = fs::read_dir(bed.work.path()).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(left.into_iter().all(|name| !name.contains("penstock-new")));
}

/// E8: two outputs of one file are refused, however the file is written.
#[test]
fn e8_two_outputs_of_one_name_are_refused() {
    let bed = Bed::new();
    fs::write(bed.at("a"), "").unwrap();
    fs::hard_link(bed.at("a"), bed.at("hard")).unwrap();
    symlink("a", bed.at("soft")).unwrap();
    symlink("new", bed.at("dangling")).unwrap();
    let same = [("a", "a"), ("a", "./a"), ("a", "hard"), ("a", "soft"), ("new", "s/../new")];
    for (one, other) in same.into_iter().chain([("new", "dangling")]) {
        let said = bed.refused(2, &["--write-digests", one, "--receipt", other]);
        assert!(said.contains("--write-digests and --receipt would both write"), "{said}");
    }
    let also = ["--write-digests", "b", "--also-digest", "md5", "--receipt", "b.md5"];
    assert!(bed.refused(2, &also).contains("--also-digest and --receipt"));
    bed.refused(2, &["--write-digests", "-", "--also-digest", "md5"]);
    bed.ok(&["--write-digests", "b", "--also-digest", "md5", "--receipt", "c"]);
    for name in ["b", "b.md5", "c"] {
        assert!(Path::new(&bed.at(name)).metadata().unwrap().len() > 0);
    }
}

/// E8: an output does not take the place of the file that is copied, nor of its copy.
#[test]
fn e8_an_output_spares_what_is_copied() {
    let bed = Bed::new();
    let copy = |receipt: &str| {
        let mut command = Command::new(program());
        command.args(["copy", "s/f", "g", "--receipt", receipt]).current_dir(bed.work.path());
        command.env("PENSTOCK_STATE_HOME", bed.at("state")).output().unwrap()
    };
    for receipt in ["s/f", "g", "./g"] {
        let output = copy(receipt);
        assert_eq!(output.status.code(), Some(2), "{}", told(&output));
        assert_eq!(fs::read(bed.at("s/f")).unwrap(), b"bytes");
        assert!(!bed.at("g").exists());
    }
}

impl Bed {
    /// No file of ours is left in `directory`.
    fn assert_no_left_over(&self, directory: &str) {
        let names = fs::read_dir(self.at(directory)).unwrap();
        let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        assert_eq!(names.find(|name| name.starts_with(".pst-")), None, "in {directory}");
    }
}

/// Promise (E8): where there is no room for a new output the old one stays, byte for byte, also one
/// that can only be written over.
#[test]
fn e8_a_full_disk_keeps_the_old_output() {
    if !is_root("a full disk") {
        return;
    }
    let bed = Bed::new();
    for number in 0..500 {
        fs::write(bed.at(&format!("s/{number:0200}")), "").unwrap();
    }
    let full = Mount::tmpfs(bed.work.path(), "full", 1);
    let old = "old\n".repeat(1000);
    fs::write(full.path.join("list"), &old).unwrap();
    fs::write(full.path.join("kept"), &old).unwrap();
    let _bound = Mount::bind(&full.path.join("kept"), &bed.at("bound"));
    let mut ballast = fs::File::create(full.path.join("ballast")).unwrap();
    while std::io::Write::write_all(&mut ballast, &[0; 4096]).is_ok() {}
    for name in ["full/list", "bound"] {
        let output = bed.copy(&["--write-digests", name]);
        let said = told(&output);
        assert!(!output.status.success() && said.contains(&format!("cannot write `{name}`")));
        assert!(said.contains("No space left"), "{said}");
        assert!(fs::read_to_string(bed.at(name)).unwrap() == old, "{name} is another file now");
        bed.assert_no_left_over("full");
    }
    drop(ballast);
    fs::remove_file(full.path.join("ballast")).unwrap();
    for name in ["full/list", "bound"] {
        bed.ok(&["--write-digests", name]);
        let list = fs::read_to_string(bed.at(name)).unwrap();
        assert!(list.lines().count() == 501 && list.len() > old.len(), "{name}");
    }
}

/// Promise (E8): a command that is killed before an output is complete leaves the old one, and
/// nothing beside it.
#[test]
fn e8_a_killed_command_keeps_the_old_outputs() {
    if !is_root("files that are mount points") {
        return;
    }
    let bed = Bed::new();
    assert!(bed.run("mkfifo", &["pipe"]));
    for name in ["replaced", "kept"] {
        fs::write(bed.at(name), "old").unwrap();
    }
    let _bound = Mount::bind(&bed.at("kept"), &bed.at("bound"));
    for name in ["replaced", "bound"] {
        let mut command = bed.command(&["--write-digests", "pipe", "--receipt", name]);
        let mut copying = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut errors = std::io::BufReader::new(copying.stderr.take().unwrap());
        while !said.contains("waiting for a reader") {
            assert!(std::io::BufRead::read_line(&mut errors, &mut said).unwrap() > 0, "{said}");
        }
        copying.kill().unwrap();
        copying.wait().unwrap();
        assert_eq!(fs::read_to_string(bed.at(name)).unwrap(), "old");
        bed.assert_no_left_over(".");
        bed.ok(&["--receipt", name]);
        assert!(is_receipt(&fs::read(bed.at(name)).unwrap()), "{name}");
    }
}

/// Promise (E8): a file that a user may write, in a directory that he may not, is written; the old
/// content stays until the new one is complete.
#[test]
fn e8_a_file_in_a_directory_of_others_is_written() {
    if !is_root("another user") {
        return;
    }
    let bed = Bed::new();
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    open(bed.work.path(), 0o755).unwrap();
    for (directory, mode) in [("state", 0o777), ("o", 0o777), ("theirs", 0o755)] {
        fs::create_dir(bed.at(directory)).unwrap();
        open(&bed.at(directory), mode).unwrap();
    }
    let long = "old content that is longer than any receipt\n".repeat(200);
    fs::write(bed.at("theirs/r"), &long).unwrap();
    open(&bed.at("theirs/r"), 0o666).unwrap();
    let as_nobody = |arguments: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(program_of_others(bed.work.path())).args(["copy", "s/", "o"]).args(arguments);
        command.current_dir(bed.work.path()).env("PENSTOCK_STATE_HOME", bed.at("state"));
        command.output().unwrap()
    };
    // Nothing is written before the copy has ended: this one is refused.
    let refused = as_nobody(&["--receipt", "theirs/r", "--write-digests", "theirs/new"]);
    assert_eq!(refused.status.code(), Some(7), "{}", told(&refused));
    assert_eq!(fs::read_to_string(bed.at("theirs/r")).unwrap(), long);
    let written = as_nobody(&["--receipt", "theirs/r"]);
    assert!(written.status.success(), "{}", told(&written));
    assert!(is_receipt(&fs::read(bed.at("theirs/r")).unwrap()));
    assert_eq!(fs::read_dir(bed.at("theirs")).unwrap().count(), 1);
}

/// Promise (E8): an output gets its name without `/proc`, and where a file without a name cannot
/// get one.
#[test]
fn e8_outputs_need_no_proc() {
    if !is_root("mount namespaces") {
        return;
    }
    let bed = Bed::new();
    let ran = |by: &str, arguments: &[&str], name: &str| {
        fs::write(bed.at(name), "old").unwrap();
        let mut command = Command::new(by);
        command.args(arguments).arg(program()).args(["copy", "s/", "o"]);
        command.args(["--receipt", name]).current_dir(bed.work.path());
        let ran = command.env("PENSTOCK_STATE_HOME", bed.at("state")).output().unwrap();
        assert!(ran.status.success(), "{}", told(&ran));
        assert!(is_receipt(&fs::read(bed.at(name)).unwrap()), "{name}");
        bed.assert_no_left_over(".");
    };
    let script = "umount -l /proc && exec \"$@\"";
    ran("unshare", &["--mount", "sh", "-c", script, "sh"], "no-proc");
    if can_trace("files that cannot get a name") {
        let faults = ["-f", "-qq", "-o", "/dev/null", "-e", "inject=linkat:error=ENOENT"];
        ran("strace", &faults, "a");
    }
}
