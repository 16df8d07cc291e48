//! The list of failed items that a copy leaves: complete, and taken back by `--files-from`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use penstock_testkit::{Scratch, program};

/// Names that a list must escape, or that a reader might take for something else.
const ODD: [&[u8]; 18] = [
    b"new\nline",
    b"back\\slash",
    b"\\n",
    b"\\x41",
    b"ends in \r",
    b"  spaces ",
    b" ",
    b"\t",
    b"# no comment",
    b"- no rule",
    b"\xff\xfe no UTF-8",
    b"\xef\xbb\xbfmark",
    b"\\xef\\xbb\\xbf",
    b"d/\xef\xbb\xbf",
    b"...",
    b"\x7f\xc2\x85",
    "\u{202e}gnp.exe\u{2066}\u{200b}".as_bytes(),
    "\u{2028}\u{e0041}\u{9b}2J".as_bytes(),
];

struct Bed {
    work: Scratch,
}

impl Bed {
    fn new() -> Self {
        Self { work: Scratch::on_disk() }
    }

    fn at(&self, path: impl AsRef<OsStr>) -> PathBuf {
        self.work.path().join(path.as_ref())
    }

    fn file(&self, path: impl AsRef<OsStr>, bytes: &[u8]) -> PathBuf {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The exit code, and what is said.
    fn copy(&self, arguments: &[&str]) -> (i32, String) {
        let mut command = Command::new(program());
        command.arg("copy").args(arguments).current_dir(self.work.path());
        let output = command.env("PENSTOCK_STATE_HOME", self.at("state")).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Where the one list of failures is.
    fn list_path(&self) -> PathBuf {
        let is_list = |path: &Path| {
            path.file_name().unwrap().to_string_lossy().starts_with("penstock-failed-")
        };
        let found = fs::read_dir(self.work.path()).unwrap().map(|entry| entry.unwrap().path());
        let lists: Vec<_> = found.filter(|path| is_list(path)).collect();
        assert_eq!(lists.len(), 1, "{lists:?}");
        lists[0].clone()
    }

    /// Takes away the one list of failures.
    fn list(&self) -> Vec<u8> {
        let path = self.list_path();
        let text = fs::read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        text
    }
}

/// Promise (c), (j), E7: the list names all items that failed, whatever their number and names, and
/// `--files-from` with it copies just these; the count in the error is theirs.
#[test]
fn e7_a_list_of_failures_is_complete_and_taken_back() {
    let bed = Bed::new();
    bed.file("s/there", b"1");
    let plain = (0..2_500).map(|number| format!("d{}/f{number:05}", number % 7).into_bytes());
    let mut missing: Vec<Vec<u8>> = ODD.iter().map(|name| name.to_vec()).collect();
    missing.extend(plain);
    bed.file("wanted", &[&b"there"[..], &missing.join(&0)].join(&0));
    let (exit, said) = bed.copy(&["-0", "--files-from", "wanted", "s/", "o"]);
    assert_eq!(exit, 3, "{said}");
    assert!(said.contains("2518 of 2520 items failed"), "{said}");
    bed.file("list", &bed.list());
    assert_eq!(fs::read(bed.at("list")).unwrap().split(|&byte| byte == b'\n').count(), 2_519);
    for path in &missing {
        bed.file(Path::new("s").join(OsStr::from_bytes(path)), path);
    }
    bed.file("s/other", b"2");
    let (exit, said) = bed.copy(&["--files-from", "list", "s/", "o"]);
    assert_eq!(exit, 0, "{said}");
    for path in &missing {
        let name = Path::new("o").join(OsStr::from_bytes(path));
        assert_eq!(&fs::read(bed.at(name)).unwrap(), path);
    }
    assert!(!bed.at("o/other").exists());
}

/// Promise (c), E7: a source that is one file has a name in the list too, which `--files-from`
/// takes back; a list that names something below a file is refused.
#[test]
fn e7_a_single_file_that_fails_is_listed_and_taken_back() {
    let bed = Bed::new();
    bed.file("f", b"x");
    bed.file("q/f/keep", b"");
    let (exit, said) = bed.copy(&["f", "q"]);
    assert_eq!(exit, 3, "{said}");
    assert!(said.contains("failed: f: ") && said.contains("1 of 1 item failed"), "{said}");
    assert!(!said.contains("--delete"), "deleting is not offered for a single file: {said}");
    assert_eq!(bed.file("list", &bed.list()), bed.at("list"));
    assert_eq!(fs::read(bed.at("list")).unwrap(), b".\n");
    let (exit, said) = bed.copy(&["--files-from", "list", "f", "q"]);
    assert_eq!(exit, 3, "it is in the way still: {said}");
    bed.list();
    fs::remove_dir_all(bed.at("q/f")).unwrap();
    let (exit, said) = bed.copy(&["--files-from", "list", "f", "q"]);
    assert_eq!((exit, fs::read(bed.at("q/f")).unwrap()), (0, b"x".to_vec()), "{said}");
    bed.file("below", b"f\n");
    let (exit, said) = bed.copy(&["--files-from", "below", "f", "q"]);
    assert_eq!(exit, 2, "{said}");
    assert!(said.contains("names `f`, but the source is a single file"), "{said}");
}

/// Promise: only the user who copies may read the list of failures.
#[test]
fn a_list_of_failures_is_private() {
    let bed = Bed::new();
    bed.file("f", b"x");
    bed.file("q/f/keep", b"");
    let (exit, said) = bed.copy(&["f", "q"]);
    assert_eq!(exit, 3, "{said}");
    let mode = fs::metadata(bed.list_path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
