//! `penstock dataset` as a user runs it: real processes, real directories.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, io};

use penstock_testkit::{Scratch, Signal, program, signal};

fn penstock(args: &[&str]) -> Output {
    Command::new(program())
        .arg("dataset")
        .args(args)
        .output()
        .expect("the binary under test starts")
}

/// Runs `dataset make` into a fresh directory and expects success.
fn make(args: &[&str]) -> (Scratch, serde_json::Value) {
    let dir = Scratch::on_disk();
    let path = dir.path().to_str().expect("its name is UTF-8");
    let output = penstock(&[&["make", path, "--json"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let summary = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    (dir, summary)
}

fn histogram(dir: &Path) -> serde_json::Value {
    let output = penstock(&["histogram", dir.to_str().expect("UTF-8"), "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("one line of JSON")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Every regular file beneath `dir`: path relative to it, and content.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(root: &Path, dir: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) -> io::Result<()> {
        for entry in fs::read_dir(dir)? {
            let path = entry?.path();
            if path.is_dir() {
                walk(root, &path, found)?;
            } else {
                let name = path.strip_prefix(root).expect("beneath the root").to_owned();
                found.insert(name, fs::read(&path)?);
            }
        }
        Ok(())
    }
    let mut found = BTreeMap::new();
    walk(dir, dir, &mut found).expect("the set is readable");
    found
}

/// Promise: the same seed makes the same names, sizes and bytes, whatever the number of threads;
/// another seed makes others.
#[test]
fn a_seed_makes_the_same_set_with_any_number_of_threads() {
    let shape = ["--files", "300", "--sizes", "1-100K"];
    let (one, _) = make(&[&shape[..], &["--seed", "7", "--threads", "1"]].concat());
    let (four, _) = make(&[&shape[..], &["--seed", "7", "--threads", "4"]].concat());
    let (other, _) = make(&[&shape[..], &["--seed", "8"]].concat());
    assert_eq!(files(one.path()).len(), 300);
    assert!(files(one.path()) == files(four.path()), "threads changed the set");
    assert!(files(one.path()) != files(other.path()), "the seed changed nothing");
}

/// Promise: a file that several threads write in segments has its size and the same bytes as one
/// that a single thread writes, and segments are not copies of each other.
#[test]
fn a_large_file_is_the_same_with_any_number_of_threads() {
    let shape = ["--files", "1", "--size", "130M", "--layout", "flat"];
    let (one, _) = make(&[&shape[..], &["--threads", "1"]].concat());
    let (three, _) = make(&[&shape[..], &["--threads", "3"]].concat());
    let read = |dir: &Scratch| fs::read(dir.path().join("f00000000")).expect("the one file");
    let (one, three) = (read(&one), read(&three));
    assert_eq!(one.len(), 130 << 20);
    assert!(one == three, "threads changed the bytes");
    assert_ne!(one[..4096], one[64 << 20..(64 << 20) + 4096], "segments repeat");
}

/// Promise: a preset has the bytes asked for within 1 %, and the shape published for it.
#[test]
fn presets_have_their_bytes_and_shape() {
    for preset in ["esnet", "slac-losf", "slac-large", "jpcs"] {
        let (dir, summary) = make(&["--preset", preset, "--bytes", "24M"]);
        let counted = histogram(dir.path());
        assert_eq!(summary["bytes"], counted["bytes"], "{preset}");
        assert_eq!(summary["files"], counted["files"], "{preset}");
        let bytes = counted["bytes"].as_f64().expect("a number");
        assert!((bytes / 25_165_824.0 - 1.0).abs() < 0.01, "{preset} has {bytes} bytes");
        let classes = counted["classes"].as_array().expect("a list");
        let from = |at: usize| classes[at]["from_bytes"].as_u64().expect("a number");
        let largest = from(classes.len() - 1);
        match preset {
            "esnet" => assert!(classes.len() > 10 && largest >= 4 << 20, "{counted}"),
            "slac-losf" => assert!(largest <= 4 << 20 && from(0) >= 8 << 10, "{counted}"),
            "slac-large" => assert_eq!(counted["files"], 710),
            _ => assert_eq!(classes.len(), 3, "{counted}"),
        }
    }
}

/// Promise: the histogram counts what `find` counts: every regular file at any depth and of any
/// name, no link, no directory.
#[test]
fn the_histogram_agrees_with_find() {
    let (dir, _) = make(&["--files", "2100", "--sizes", "1-3000"]);
    let odd = std::ffi::OsStr::from_bytes(b"new\nline \xff");
    fs::write(dir.path().join(odd), [0; 512]).expect("a file of odd name");
    fs::write(dir.path().join("empty"), []).expect("an empty file");
    std::os::unix::fs::symlink("empty", dir.path().join("link")).expect("a link");
    std::os::unix::fs::symlink(".", dir.path().join("loop")).expect("a looping link");

    let mut find = Command::new("find");
    let find = find.arg(dir.path()).args(["-type", "f", "-printf", "%s\\n"]);
    let found = find.output().expect("find is installed");
    let mut expected = BTreeMap::<u64, (u64, u64)>::new();
    for line in String::from_utf8_lossy(&found.stdout).lines() {
        let size: u64 = line.parse().expect("a size");
        let class = size.checked_ilog2().map_or(0, |power| 1 << power);
        let (files, bytes) = expected.entry(class).or_default();
        *files += 1;
        *bytes += size;
    }
    let counted = histogram(dir.path());
    let mut accumulated = 0;
    let classes = counted["classes"].as_array().expect("a list");
    assert_eq!(classes.len(), expected.len());
    for (class, (from, (files, bytes))) in classes.iter().zip(expected) {
        accumulated += bytes;
        let line = serde_json::json!({
            "from_bytes": from, "files": files, "bytes": bytes, "accumulated_bytes": accumulated,
        });
        assert_eq!(*class, line);
    }
    assert_eq!(counted["files"], 2_102);
    assert_eq!(counted["bytes"], accumulated);
}

/// Promise: a tree has at most 1,000 files in a directory, two levels deep; flat has one level.
#[test]
fn layouts_are_as_described() {
    let (tree, _) = make(&["--files", "4500", "--size", "1"]);
    let mut per_directory = BTreeMap::<PathBuf, usize>::new();
    for path in files(tree.path()).into_keys() {
        assert_eq!(path.components().count(), 3, "{}", path.display());
        *per_directory.entry(path.parent().expect("a parent").to_owned()).or_default() += 1;
    }
    assert_eq!(per_directory.len(), 5);
    assert!(per_directory.values().all(|&files| files <= 1_000), "{per_directory:?}");
    let (flat, _) = make(&["--files", "1500", "--size", "1", "--layout", "flat"]);
    assert!(files(flat.path()).keys().all(|path| path.components().count() == 1));
}

/// Promise: content does not compress, so that no layer below can cheat.
#[test]
fn content_does_not_compress() {
    let (dir, _) = make(&["--files", "4", "--size", "256K", "--layout", "flat"]);
    let tar = Command::new("sh")
        .arg("-c")
        .arg("cat f* | gzip -9 | wc -c")
        .current_dir(dir.path())
        .output()
        .expect("sh, gzip and wc are installed");
    let compressed: u64 = String::from_utf8_lossy(&tar.stdout).trim().parse().expect("a count");
    assert!(compressed >= 1 << 20, "1 MiB was compressed to {compressed} bytes");
}

/// Promise: wrong arguments end with code 2, say what is wrong, and make nothing.
#[test]
fn wrong_arguments_are_explained() {
    let dir = Scratch::on_disk();
    let path = dir.path().join("set");
    let path = path.to_str().expect("UTF-8");
    let cases: [(&[&str], &str); 10] = [
        (&[], "--preset"),
        (&["--files", "3"], "--size"),
        (&["--files", "0", "--size", "1"], "0 is not in 1..="),
        (&["--files", "3", "--size", "12Q"], "`12Q` is not a size"),
        (&["--files", "3", "--sizes", "2K-1K"], "at most the second"),
        (&["--files", "3", "--size", "1", "--sizes", "1-2"], "cannot be used with"),
        (&["--preset", "esnet"], "--bytes"),
        (&["--preset", "moon", "--bytes", "1G"], "possible values: esnet, slac-losf"),
        (&["--preset", "jpcs", "--bytes", "1K"], "at least 1 MiB"),
        (&["--files", "100000000", "--size", "8000000T"], "larger than 8 EiB"),
    ];
    for (args, text) in cases {
        let output = penstock(&[&["make", path], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(text), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).starts_with("error: "), "{args:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty(), "talk belongs on standard error");
        assert!(!Path::new(path).exists(), "{args:?} made something");
    }
}

/// Promise: a directory that holds something is refused with code 6 unless --force is given;
/// then files of the set are replaced, also longer ones, and others stay.
#[test]
fn a_directory_in_use_is_refused() {
    let (dir, _) = make(&["--files", "5", "--size", "2000", "--layout", "flat"]);
    fs::write(dir.path().join("mine"), b"precious").expect("a file of the user's");
    let path = dir.path().to_str().expect("UTF-8");
    let again = ["make", path, "--files", "5", "--size", "1000", "--layout", "flat"];
    let output = penstock(&again);
    assert_eq!(output.status.code(), Some(6));
    let expected = format!("error: directory `{path}` is not empty\nhint:  ");
    assert!(stderr(&output).starts_with(&expected), "{}", stderr(&output));

    let output = penstock(&[&again[..], &["--force"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let found = files(dir.path());
    assert_eq!(found[Path::new("mine")], b"precious");
    assert_eq!(found.values().filter(|content| content.len() == 1_000).count(), 5);
}

/// Promise: a set that the file system has no room for is refused with code 7 before anything is
/// made.
#[test]
fn a_set_without_room_is_refused() {
    let dir = Scratch::on_disk();
    let path = dir.path().join("set");
    let output =
        penstock(&["make", path.to_str().expect("UTF-8"), "--files", "1", "--size", "7000P"]);
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    assert!(stderr(&output).contains("the set needs 6.8 EiB"), "{}", stderr(&output));
    assert!(!path.exists());
}

/// Promise: Ctrl-C ends with code 130, says that the set is a part and how to go on, and prints no
/// summary that a script could take for success.
#[test]
fn an_interrupted_set_is_called_a_part() {
    let dir = Scratch::on_disk();
    let path = dir.path().join("set");
    let path_text = path.to_str().expect("UTF-8");
    let shape = ["--files", "20000", "--size", "64K", "--layout", "flat", "--threads", "1"];
    let child = Command::new(program())
        .args(["dataset", "make", path_text])
        .args(shape)
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the binary under test starts");
    // Signals are caught before the first file is made.
    while !path.join("f00000000").exists() {
        std::thread::yield_now();
    }
    signal(child.id(), Signal::INT);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("holds a part of the set"), "{}", stderr(&output));
    assert!(stderr(&output).contains("with --force"), "{}", stderr(&output));
    assert!(output.stdout.is_empty(), "no summary of a part");
    assert!(!path.join("f00019999").exists(), "the set was complete before the signal");
}

/// Promise: an unreadable root is a clear error, and nothing is counted.
#[test]
fn a_missing_directory_is_a_clear_error() {
    let output = penstock(&["histogram", "/nonexistent/set"]);
    assert_eq!(output.status.code(), Some(7));
    let expected = "error: cannot list directory `/nonexistent/set`\n\
                    cause: No such file or directory (os error 2)\n";
    assert_eq!(stderr(&output), expected);
}
