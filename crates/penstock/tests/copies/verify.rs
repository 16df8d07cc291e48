//! `penstock verify`: what it finds is what other tools find, and nothing escapes it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use penstock_testkit::{Scratch, is_root, make_files, program, program_of_others, rng, tool};
use rand::RngExt as _;
use serde_json::Value;

/// What `penstock verify` found: `(code, path)`, its summary, its exit code.
struct Verified {
    found: BTreeSet<(String, String)>,
    summary: Value,
    exit: i32,
}

fn verify(args: &[&dyn AsRef<OsStr>]) -> Verified {
    let mut command = Command::new(program());
    command.args(["verify", "--json"]).args(args.iter().map(|arg| arg.as_ref()));
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut found = BTreeSet::new();
    let mut summary = Value::Null;
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        match line["type"].as_str() {
            Some("error") => {
                let word = |key: &str| line[key].as_str().unwrap().to_owned();
                assert!(found.insert((word("code"), word("path"))), "told twice: {line}");
            }
            Some("summary") => summary = line,
            _ => {}
        }
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    let exit = output.status.code().unwrap();
    assert!(!summary.is_null() || exit == 7 || exit == 2, "no summary: {errors}");
    Verified { found, summary, exit }
}

fn expect(verified: &Verified, exit: i32, found: &[(&str, &str)]) {
    let expected: BTreeSet<_> =
        found.iter().map(|(code, path)| ((*code).to_owned(), (*path).to_owned())).collect();
    assert_eq!(verified.found, expected, "{}", verified.summary);
    assert_eq!(verified.exit, exit, "{}", verified.summary);
}

/// `path/`, whose contents are meant.
fn contents(path: &Path) -> OsString {
    let mut text = path.as_os_str().to_owned();
    text.push("/");
    text
}

fn two_trees(base: &Path, test: &str) -> (PathBuf, PathBuf) {
    let (source, target) = (base.join("a"), base.join("b"));
    make_files(&mut rng(test), &source, 60, 50_000, &[150 << 20]);
    fs::write(source.join(OsStr::from_bytes(b"new\nline \xff \\")), b"bytes").unwrap();
    tool("cp", &[&"-a", &source, &target]);
    (source, target)
}

/// Every kind of difference is told once, with the name escaped, and by exit code 8; what is the
/// same is not told. A difference in the last byte of a large file's last extent counts too.
#[test]
fn every_kind_of_difference_between_trees_is_told() {
    let base = Scratch::on_disk();
    let (source, target) = two_trees(base.path(), "differences");
    let (from, to) = (contents(&source), contents(&target));
    let same = verify(&[&from, &to, &"--attributes"]);
    expect(&same, 0, &[]);
    assert_eq!(same.summary["state"], "same");

    let largest = |root: &Path| {
        let text = tool("find", &[&root, &"-type", &"f", &"-size", &"+100M"]);
        PathBuf::from(OsString::from_vec(text).into_string().unwrap().trim())
    };
    let large = largest(&target);
    let file = File::options().write(true).open(&large).unwrap();
    let last = fs::metadata(&large).unwrap().len() - 1;
    let mut byte = [0];
    File::open(&large).unwrap().read_exact_at(&mut byte, last).unwrap();
    file.write_all_at(&[byte[0] ^ 1], last).unwrap();
    fs::write(target.join(OsStr::from_bytes(b"new\nline \xff \\")), b"bytez").unwrap();
    fs::write(target.join("more"), b"more").unwrap();
    fs::create_dir(target.join("more directory")).unwrap();
    fs::write(target.join("more directory/inside"), b"").unwrap();
    fs::write(source.join("less"), b"less").unwrap();
    fs::create_dir_all(source.join("less directory/inside")).unwrap();
    fs::remove_file(target.join("link")).unwrap();
    symlink("elsewhere", target.join("link")).unwrap();
    fs::write(source.join("kind"), b"").unwrap();
    fs::create_dir(target.join("kind")).unwrap();
    fs::write(source.join("size"), b"12").unwrap();
    fs::write(target.join("size"), b"123").unwrap();
    let different = verify(&[&from, &to]);
    let large = large.strip_prefix(&target).unwrap().to_str().unwrap().to_owned();
    expect(
        &different,
        8,
        &[
            ("differs", &large),
            ("differs", "new\\nline \\xff \\\\"),
            ("differs", "link"),
            ("differs", "kind"),
            ("differs", "size"),
            ("missing", "less"),
            ("missing", "less directory"),
            ("extra", "more"),
            ("extra", "more directory"),
        ],
    );
}

/// Random mutations, each of which `diff -r` finds too: nothing escapes, nothing is made up.
#[test]
fn random_mutations_are_found_as_diff_finds_them() {
    let base = Scratch::on_disk();
    let mut random = rng("mutations");
    let (source, target) = (base.path().join("a"), base.path().join("b"));
    make_files(&mut random, &source, 200, 3_000, &[]);
    tool("cp", &[&"-a", &source, &target]);
    let list = tool("find", &[&target, &"-type", &"f", &"-size", &"+1", &"-print0"]);
    for path in list.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
        let path = Path::new(OsStr::from_bytes(path));
        match random.random_range(0..8) {
            0 => fs::remove_file(path).unwrap(),
            1 => fs::write(path.with_extension("extra"), b"x").unwrap(),
            2 | 3 => {
                let file = File::options().read(true).write(true).open(path).unwrap();
                let at = random.random_range(0..file.metadata().unwrap().len());
                let mut byte = [0];
                file.read_exact_at(&mut byte, at).unwrap();
                file.write_all_at(&[byte[0] ^ 0x40], at).unwrap();
            }
            _ => {}
        }
    }
    let verified = verify(&[&contents(&source), &contents(&target)]);
    let judged = Command::new("diff")
        .args(["-rq", "--no-dereference"])
        .args([&source, &target])
        .env("LC_ALL", "C")
        .output()
        .unwrap();
    let judged = String::from_utf8(judged.stdout).unwrap();
    let count = |word: &str| judged.lines().filter(|line| line.contains(word)).count() as u64;
    let only = |root: &Path| {
        let prefix = format!("Only in {}", root.display());
        let inside = |line: &str| {
            line.strip_prefix(&prefix).is_some_and(|rest| rest.starts_with([':', '/']))
        };
        judged.lines().filter(|line| inside(line)).count() as u64
    };
    assert_eq!(verified.summary["differing"], count(" differ"), "{judged}");
    assert_eq!(verified.summary["missing"], only(&source), "{judged}");
    assert_eq!(verified.summary["extra"], only(&target), "{judged}");
    assert_eq!(verified.exit, if judged.is_empty() { 0 } else { 8 });
}

/// Slashes mean what they mean to `copy`; a single file is compared with where `copy` puts it.
#[test]
fn slashes_mean_what_they_mean_to_copy() {
    let base = Scratch::on_disk();
    let (source, into) = (base.path().join("set"), base.path().join("into"));
    fs::create_dir_all(source.join("d")).unwrap();
    fs::create_dir(&into).unwrap();
    fs::write(source.join("f"), b"content").unwrap();
    tool("cp", &[&"-a", &source, &into]);
    expect(&verify(&[&source, &into]), 0, &[]);
    expect(&verify(&[&contents(&source), &into.join("set")]), 0, &[]);
    let one = verify(&[&source.join("f"), &into.join("set")]);
    expect(&one, 0, &[]);
    assert_eq!(one.summary["files"], 1);
    fs::write(base.path().join("g"), b"contenT").unwrap();
    expect(&verify(&[&source.join("f"), &base.path().join("g")]), 8, &[("differs", "f")]);
    let gone = verify(&[&source, &base.path().join("set/d")]);
    assert_eq!(gone.exit, 7, "a target that is not there at all");
}

/// `--attributes` compares what `rsync -aX` would: mode, owner, nanoseconds, extended attributes.
#[test]
fn attributes_are_compared_when_asked_for() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("a"), base.path().join("b"));
    fs::create_dir(&source).unwrap();
    for name in ["mode", "time", "xattr", "owner"] {
        fs::write(source.join(name), name).unwrap();
    }
    tool("cp", &[&"-a", &source, &target]);
    fs::set_permissions(target.join("mode"), Permissions::from_mode(0o600)).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_700_000_000, 1);
    File::open(target.join("time")).unwrap().set_modified(time).unwrap();
    File::open(source.join("time")).unwrap().set_modified(time + Duration::from_nanos(1)).unwrap();
    let flags = rustix::fs::XattrFlags::empty();
    let set = rustix::fs::setxattr(target.join("xattr"), "user.x", b"1", flags);
    let mut expected = vec![("differs", "mode"), ("differs", "time")];
    match set {
        Ok(()) => expected.push(("differs", "xattr")),
        Err(error) => eprintln!("SKIPPED: extended attributes: {error}"),
    }
    if is_root("owners") {
        std::os::unix::fs::chown(target.join("owner"), Some(12), Some(34)).unwrap();
        expected.push(("differs", "owner"));
    }
    let (from, to) = (contents(&source), contents(&target));
    expect(&verify(&[&from, &to, &"--attributes"]), 8, &expected);
    expect(&verify(&[&from, &to]), 0, &[]);
}

/// What cannot be read is told, and ends with 3: it is neither the same nor different.
#[test]
fn what_cannot_be_read_is_no_match() {
    if !is_root("a verifier without rights") {
        return;
    }
    let base = Scratch::on_disk();
    fs::set_permissions(base.path(), Permissions::from_mode(0o755)).unwrap();
    let (source, target) = (base.path().join("a"), base.path().join("b"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("f"), b"content").unwrap();
    tool("cp", &[&"-a", &source, &target]);
    fs::set_permissions(target.join("f"), Permissions::from_mode(0o000)).unwrap();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(program_of_others(base.path()));
    let output = command.arg("verify").arg(contents(&source)).arg(&target).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.starts_with("unreadable: f: "), "{text}");
}

/// Lists of other programs are understood in both forms, with escaped names, and the kind of a
/// list that does not say it is found by its content; `--digest` decides where that is not wanted.
#[test]
fn lists_of_other_programs_are_checked() {
    let base = Scratch::on_disk();
    let (source, _) = two_trees(base.path(), "lists");
    let list = base.path().join("list");
    let make = |program: &str| {
        let script = format!("find . -type f -print0 | xargs -0 {program} > '{}'", list.display());
        let made = Command::new("sh").args(["-c", &script]).current_dir(&source).status().unwrap();
        made.success()
    };
    // b3sum before 1.5 does not list names that are not UTF-8.
    let odd = source.join(OsStr::from_bytes(b"new\nline \xff \\"));
    for (program, kind) in [
        ("sha256sum", "sha256"),
        ("md5sum", "md5"),
        ("sha1sum", "sha1"),
        ("sha512sum --tag", "sha512"),
        ("md5sum --tag", "md5"),
        ("b3sum", "blake3"),
        ("xxhsum -H2", "xxh128"),
        ("xxhsum -H1", "xxh64"),
    ] {
        let plain = program.starts_with("b3") || program.starts_with("xxh");
        if plain {
            let _ = fs::remove_file(&odd);
        }
        let there = Command::new(program.split(' ').next().unwrap()).arg("--version").output();
        if there.is_err() {
            eprintln!("SKIPPED: {program} is not installed");
            continue;
        }
        assert!(make(program), "{program}");
        let checked = verify(&[&"--digest-list", &list, &source]);
        expect(&checked, 0, &[]);
        if !program.contains("--tag") {
            assert_eq!(checked.summary["digest"], kind, "{program}");
        }
        expect(&verify(&[&"--digest-list", &list, &"--digest", &kind, &source]), 0, &[]);
        let other = if kind == "crc32" { "md5" } else { "crc32" };
        let refused = verify(&[&"--digest-list", &list, &"--digest", &other, &source]);
        assert_eq!(refused.exit, 7, "{program} is not {other}");
    }
    fs::write(source.join("more"), b"").unwrap();
    fs::write(source.join("less"), b"").unwrap();
    assert!(make("sha256sum"));
    fs::remove_file(source.join("less")).unwrap();
    fs::write(source.join("more"), b"1").unwrap();
    fs::write(source.join("third"), b"1").unwrap();
    let expected = [("differs", "more"), ("missing", "less"), ("extra", "third")];
    expect(&verify(&[&"--digest-list", &list, &source]), 8, &expected);
}

/// An empty file has one value as CRC-32 and as CRC-32C: it does not settle which of them a list
/// holds.
#[test]
fn an_empty_file_does_not_settle_a_kind() {
    let base = Scratch::on_disk();
    let directory = base.path().join("tree");
    fs::create_dir(&directory).unwrap();
    let mut lines = String::new();
    for number in 0..40 {
        fs::write(directory.join(format!("empty{number}")), "").unwrap();
        lines += &format!("00000000  empty{number}\n");
    }
    for (kind, value) in [("crc32c", "9a71bb4c"), ("crc32", "3610a686")] {
        fs::write(directory.join("hello"), "hello").unwrap();
        let list = base.path().join(kind);
        fs::write(&list, format!("{lines}{value}  hello\n")).unwrap();
        let verified = verify(&[&"--digest-list", &list, &directory]);
        expect(&verified, 0, &[]);
        assert_eq!(verified.summary["digest"], kind);
    }
}

/// Promise (i): a list that names something outside of the directory leads nowhere.
#[test]
fn i_a_list_leads_nowhere_else() {
    let base = Scratch::on_disk();
    let directory = base.path().join("d");
    fs::create_dir(&directory).unwrap();
    fs::write(base.path().join("secret"), b"").unwrap();
    symlink("../secret", directory.join("link")).unwrap();
    let list = base.path().join("list");
    let empty = "d41d8cd98f00b204e9800998ecf8427e";
    let text = format!("{empty}  ../secret\n{empty}  /etc/hostname\n{empty}  link\n");
    fs::write(&list, text).unwrap();
    let verified = verify(&[&"--digest-list", &list, &directory]);
    let expected =
        [("unreadable", "../secret"), ("unreadable", "/etc/hostname"), ("differs", "link")];
    expect(&verified, 8, &expected);
}

/// Promise: what keeps `verify` and `receipt check` from their work is told with what to do about
/// it, and by the exit codes of their own help.
#[test]
fn errors_say_what_next() {
    let base = Scratch::on_disk();
    let at = |name: &str| base.path().join(name).into_os_string().into_string().unwrap();
    fs::create_dir(base.path().join("tree")).unwrap();
    fs::write(base.path().join("junk"), "junk\n").unwrap();
    let [tree, junk, none] = ["tree", "junk", "none"].map(at);
    for (args, code) in [
        (vec!["verify", &none, &tree], 7),
        (vec!["verify", &junk, &none], 7),
        (vec!["verify", "--digest-list", &none, &tree], 7),
        (vec!["verify", "--digest-list", &junk, &tree], 7),
        (vec!["verify", "--digest-list", &junk, &none], 7),
        (vec!["receipt", "check", &none], 7),
        (vec!["receipt", "check", &junk, "--trust", &none], 2),
    ] {
        let output = Command::new(program()).args(&args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.contains("\nhint:  "), "{args:?}: {said}");
    }
}
