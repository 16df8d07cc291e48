//! What is chosen of a source arrives, and nothing else: each option on its own, then random trees
//! and rules beside rsync(1), which reads the same patterns.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};

use penstock_testkit::{Mount, Scratch, is_root, program, two_sites};
use rand::{RngExt as _, SeedableRng as _};
use serde_json::Value;

struct Bed {
    _work: Scratch,
    source: PathBuf,
    target: PathBuf,
    state: PathBuf,
}

impl Bed {
    fn new(files: &[&str]) -> Self {
        let work = Scratch::on_disk();
        let at = |name: &str| work.path().join(name);
        let bed =
            Self { source: at("source"), target: at("target"), state: at("state"), _work: work };
        fs::create_dir(&bed.source).unwrap();
        for file in files {
            bed.file(file.as_bytes(), 10);
        }
        bed
    }

    fn file(&self, path: &[u8], bytes: usize) {
        let path = self.source.join(OsStr::from_bytes(path));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, vec![7; bytes]).unwrap();
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .arg("copy")
            .arg(self.source.join(""))
            .arg(&self.target)
            .arg("--json")
            .args(arguments)
            .current_dir(self.source.parent().unwrap())
            .env("PENSTOCK_STATE_HOME", &self.state);
        command
    }

    /// Copies what is chosen; gives the summary and what has arrived, and begins anew.
    fn chosen(&self, arguments: &[&str]) -> (Value, Vec<String>) {
        let mut command = self.command(arguments);
        let summary = summary(&command.args(["--durability", "none"]).output().unwrap());
        let found = tree(&self.target).into_iter().map(|path| path.escape_ascii().to_string());
        let found = found.collect();
        fs::remove_dir_all(&self.target).unwrap();
        (summary, found)
    }
}

fn summary(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap();
    serde_json::from_str(last).unwrap()
}

/// All paths below a directory as bytes; directories end in a slash.
fn tree(root: &Path) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    let mut stack = vec![root.to_owned()];
    while let Some(directory) = stack.pop() {
        for entry in fs::read_dir(&directory).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let mut name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            if entry.file_type().unwrap().is_dir() {
                name.push(b'/');
                stack.push(path);
            }
            found.insert(name);
        }
    }
    found
}

/// Promise: `--exclude` leaves out what matches, a directory as a whole; `--include` before it
/// takes something back; the order of the command line decides; what is left out is counted apart.
#[test]
fn include_and_exclude_decide_in_their_order() {
    let bed = Bed::new(&["a.h5", "b.tmp", "keep.tmp", "cache/x", "cache/y", "sub/c.tmp"]);
    let (summary, found) = bed.chosen(&["--exclude", "*.tmp", "--exclude", "cache/"]);
    assert_eq!(found, ["a.h5", "sub/"]);
    assert_eq!((&summary["excluded"], &summary["skipped"]), (&4.into(), &0.into()));
    assert_eq!(summary["files"], 1);
    let (_, found) = bed.chosen(&["--include", "keep.tmp", "--exclude=*.tmp"]);
    assert_eq!(found, ["a.h5", "cache/", "cache/x", "cache/y", "keep.tmp", "sub/"]);
    let (_, found) = bed.chosen(&["--exclude=*.tmp", "--include", "keep.tmp"]);
    assert!(!found.contains(&"keep.tmp".to_owned()));
    let (_, found) = bed.chosen(&["--include", "*/", "--include", "c.*", "--exclude", "*"]);
    assert_eq!(found, ["cache/", "sub/", "sub/c.tmp"], "directories that are not excluded stay");
    let (_, found) = bed.chosen(&["--exclude", "/cache", "--exclude", "sub/**"]);
    assert_eq!(found, ["a.h5", "b.tmp", "keep.tmp", "sub/"]);
}

/// Promise: `--filter-from` reads rules from a file and from standard input.
#[test]
fn rules_come_from_a_file() {
    let bed = Bed::new(&["a.h5", "b.txt", "d/c.h5"]);
    let rules = bed.source.parent().unwrap().join("rules");
    fs::write(&rules, "# data only\n+ *.h5\n\n+ */\n- *\n").unwrap();
    let (_, found) = bed.chosen(&["--filter-from", "rules"]);
    assert_eq!(found, ["a.h5", "d/", "d/c.h5"]);
    let mut command = bed.command(&["--filter-from", "-"]);
    command.stdin(fs::File::open(&rules).unwrap());
    summary(&command.output().unwrap());
    assert!(bed.target.join("d/c.h5").exists() && !bed.target.join("b.txt").exists());
}

/// Promise (j): `--files-from` with `--from0` takes what `find -print0` prints, whatever bytes the
/// names are of; rules apply to what it names.
#[test]
fn j_files_from_takes_names_that_end_in_nul() {
    let bed = Bed::new(&["plain", "not-this"]);
    bed.file(b"new\nline", 1);
    bed.file(b"d/\xff\xfe", 1);
    bed.file(b"d/x.tmp", 1);
    let list = bed.source.parent().unwrap().join("list");
    fs::write(&list, b"./plain\0./new\nline\0d/\xff\xfe\0d/x.tmp\0").unwrap();
    let (summary, found) = bed.chosen(&["--files-from", "list", "--from0", "--exclude", "*.tmp"]);
    assert_eq!(found, ["d/", "d/\\xff\\xfe", "new\\nline", "plain"]);
    assert_eq!(summary["excluded"], 1);
    fs::write(&list, "new\\nline\n").unwrap();
    assert_eq!(bed.chosen(&["--files-from", "list"]).1, ["new\\nline"]);
}

/// Promise: sizes and times choose among files, and never touch directories.
#[test]
fn sizes_and_times_choose_among_files() {
    let bed = Bed::new(&[]);
    for (name, bytes) in [("s", 1), ("m", 1024), ("d/l", 4096)] {
        bed.file(name.as_bytes(), bytes);
    }
    assert_eq!(bed.chosen(&["--min-size", "1K"]).1, ["d/", "d/l", "m"]);
    assert_eq!(bed.chosen(&["--max-size", "1K"]).1, ["d/", "m", "s"]);
    let (summary, found) = bed.chosen(&["--min-size", "2", "--max-size", "1KiB"]);
    assert_eq!((found, &summary["excluded"]), (vec!["d/".to_owned(), "m".to_owned()], &2.into()));
    let old = SystemTime::now() - Duration::from_secs(3 * 86_400);
    fs::File::open(bed.source.join("m")).unwrap().set_modified(old).unwrap();
    assert_eq!(bed.chosen(&["--newer-than", "2d"]).1, ["d/", "d/l", "s"]);
    assert_eq!(bed.chosen(&["--newer-than", "4d"]).1.len(), 4);
    assert_eq!(bed.chosen(&["--newer-than", "2001-09-09"]).1.len(), 4);
    assert_eq!(bed.chosen(&["--newer-than", "2100-01-01T00:00:00Z"]).1, ["d/"]);
}

/// Promise: a single file is chosen by its name and size too; if it is not, nothing is made.
#[test]
fn a_single_file_is_chosen_by_its_name() {
    let bed = Bed::new(&["a.txt"]);
    let run = |exclude: &str| {
        let mut command = Command::new(program());
        command.arg("copy").arg(bed.source.join("a.txt")).arg(&bed.target).arg("--json");
        command.args(["--exclude", exclude]).env("PENSTOCK_STATE_HOME", &bed.state);
        summary(&command.output().unwrap())
    };
    let none = run("*.txt");
    assert_eq!((&none["files"], &none["excluded"]), (&0.into(), &1.into()));
    assert!(!bed.target.exists());
    assert_eq!(run("*.c")["files"], 1);
    assert!(bed.target.exists());
}

/// Promise: `--one-file-system` makes the directory that something is mounted on, and nothing of
/// what is mounted there. Needs root.
#[test]
fn another_file_system_is_left_alone() {
    if !is_root("another file system within a source") {
        return;
    }
    let bed = Bed::new(&["a"]);
    let mount = Mount::tmpfs(&bed.source, "mounted", 1);
    fs::write(mount.path.join("inside"), "x").unwrap();
    let (summary, alone) = bed.chosen(&["--one-file-system"]);
    let (_, all) = bed.chosen(&[]);
    assert_eq!(
        (alone, &summary["excluded"]),
        (vec!["a".to_owned(), "mounted/".to_owned()], &1.into())
    );
    assert_eq!(all, ["a", "mounted/", "mounted/inside"]);
}

/// Promise: a pattern that cannot be read ends with 2, its place and what to do, before anything is
/// made.
#[test]
fn an_unreadable_pattern_is_a_wrong_command_line() {
    let bed = Bed::new(&["a"]);
    let output = bed.command(&["--exclude", "x", "--exclude", "[a"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("--exclude: the pattern `[a`") && told.contains("hint:"), "{told}");
    assert!(!bed.target.exists());
}

/// Promise (d): a copy that chooses goes on where it was, and so does one to the same place that
/// chooses otherwise: it moves what it has chosen, and nothing of that twice.
#[test]
fn d_a_copy_that_chooses_goes_on_whatever_it_chooses_then() {
    let bed = Bed::new(&["a.tmp"]);
    for at in 0..4 {
        bed.file(format!("large{at}").as_bytes(), 20 << 20);
    }
    let choice = ["--exclude", "*.tmp", "--newer-than", "1h", "--max-lanes", "1"];
    // Slow enough that the last file is far off, also where a sync takes seconds.
    let mut command = bed.command(&[&choice[..], &["--bwlimit", "64Mbit/s"]].concat());
    let mut copy = command.stdout(Stdio::piped()).spawn().unwrap();
    let events = BufReader::new(copy.stdout.take().unwrap()).lines();
    let mut events = events.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    assert!(events.any(|event| event["bytes_durable"].as_u64() > Some(20 << 20)));
    let interrupted = Command::new("kill").args(["-INT", &copy.id().to_string()]).status();
    assert!(interrupted.unwrap().success());
    assert_eq!(copy.wait().unwrap().code(), Some(130));
    let again = |choice: &[&str]| summary(&bed.command(choice).output().unwrap());
    let other = again(&["--exclude", "*.tmp", "--exclude", "large3", "--newer-than", "1h"]);
    assert!(other["bytes_verified"].as_u64() <= Some(60 << 20), "{other}");
    assert_eq!((&other["files"], &other["excluded"]), (&3.into(), &2.into()), "{other}");
    assert!(!bed.target.join("large3").exists());
    let same = again(&choice);
    assert_eq!((&same["files"], &same["excluded"]), (&4.into(), &1.into()), "{same}");
}

/// Promise: a transfer between sites chooses as a copy does, at the source, and counts what was not
/// chosen.
#[test]
fn a_transfer_chooses_as_a_copy_does() {
    let base = Scratch::on_disk();
    let data = |name: &str| base.path().join(name);
    let set = data("a").join("set");
    fs::create_dir_all(set.join("cache")).unwrap();
    for file in ["a.h5", "b.tmp", "cache/x", "large"] {
        fs::write(set.join(file), vec![1; if file == "large" { 4096 } else { 10 }]).unwrap();
    }
    let (_a, b) = two_sites(base.path(), &data("a"), &data("b"));
    let rules = ["--exclude", "cache/", "--include", "*.h5", "--max-size", "1K"];
    let place = ["transfer", "submit", "a:data/set", "b:data/", "--wait", "--json"];
    let ended = b.ok(&[&place[..], &rules, &["--newer-than=1d", "--exclude=*.tmp"]].concat());
    let ended: Value = serde_json::from_str(ended.lines().last().unwrap()).unwrap();
    assert_eq!((&ended["state"], &ended["excluded"]), (&"done".into(), &3.into()), "{ended}");
    assert_eq!(tree(&data("b").join("set")), BTreeSet::from([b"a.h5".to_vec()]));
}

const NAMES: [&[u8]; 8] = [b"a", b"b", b"ab", b"a.c", b"b.c", b".c", b"x[y]", b"\xff\xfe"];

fn random_tree(bed: &Bed, seed: &mut rand_chacha::ChaCha8Rng) {
    let mut directories = vec![Vec::new()];
    for _ in 0..40 {
        let parent = directories[seed.random_range(0..directories.len())].clone();
        let path: Vec<u8> = [parent, NAMES[seed.random_range(0..NAMES.len())].to_vec()].concat();
        let place = bed.source.join(OsStr::from_bytes(&path));
        if place.exists() {
            continue;
        }
        if seed.random_bool(0.4) {
            fs::create_dir(&place).unwrap();
            directories.push([path, b"/".to_vec()].concat());
        } else {
            bed.file(&path, 3);
        }
    }
}

/// A pattern that means the same to rsync: without a slash within, or anchored; a backslash only
/// beside a wildcard, for else rsync takes it as it is; `**` only as the whole of a component that
/// others follow.
fn random_glob(seed: &mut rand_chacha::ChaCha8Rng) -> Vec<u8> {
    const PARTS: [&[u8]; 10] =
        [b"a", b"*", b"?", b"*.c", b"[ab]", b"[!a]*", b"a*", b"\\a*", b"\xff*", b"[[:alpha:]]"];
    let mut part = || PARTS[seed.random_range(0..PARTS.len())].to_vec();
    let (first, second, third) = (part(), part(), part());
    let mut glob = match seed.random_range(0..6) {
        0 | 1 => first,
        2 => [b"/", &first[..]].concat(),
        3 => [b"/", &first[..], b"/", &second].concat(),
        4 => [b"/", &first[..], b"/**/", &third].concat(),
        _ => [b"/", &first[..], b"/", &second, b"/", &third].concat(),
    };
    if seed.random_bool(0.25) {
        glob.push(b'/');
    }
    glob
}

/// Promise: rules choose what rsync chooses by the same rules, in any tree. `/a/**/b` is given to
/// rsync as two rules, for its `**` takes one directory at least.
#[test]
fn random_rules_choose_what_rsync_chooses() {
    if Command::new("rsync").arg("--version").stdout(Stdio::null()).status().is_err() {
        eprintln!("SKIPPED: rsync is not installed");
        return;
    }
    let seed = std::env::var("PENSTOCK_SEED").ok().and_then(|text| text.parse().ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    eprintln!("seed {seed}: repeat with PENSTOCK_SEED={seed}");
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    for round in 0..12 {
        let bed = Bed::new(&[]);
        random_tree(&bed, &mut random);
        let judged = bed.source.parent().unwrap().join("judged");
        let mut ours = bed.command(&["--durability", "none"]);
        let mut rsync = Command::new("rsync");
        rsync.arg("-r");
        for _ in 0..random.random_range(1..6) {
            let option = if random.random_bool(0.4) { "--include" } else { "--exclude" };
            let glob = random_glob(&mut random);
            let given = |glob: &[u8]| std::ffi::OsString::from_vec(glob.to_vec());
            ours.arg(option).arg(given(&glob));
            if let Some(at) = glob.windows(4).position(|part| part == b"/**/") {
                let near = [&glob[..at], &glob[at + 3..]].concat();
                rsync.arg(option).arg(given(&near));
            }
            rsync.arg(option).arg(given(&glob));
        }
        rsync.arg(bed.source.join("")).arg(&judged);
        assert!(rsync.status().unwrap().success(), "seed {seed}, round {round}: {rsync:?}");
        summary(&ours.output().unwrap());
        let (wanted, found) = (tree(&judged), tree(&bed.target));
        assert_eq!(found, wanted, "seed {seed}, round {round}: {ours:?}\nbeside {rsync:?}");
    }
}
