//! `--also-digest` and `--readback`: checksums that other programs agree with, and storage that is
//! not believed.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use penstock_testkit::{
    Copy, Run, Scratch, Signal, Wait, assert_same, is_root, make_files, program, rng, two_sites,
};

/// Every kind, and the program that judges it, where there is one.
const JUDGES: [(&str, Option<&str>); 8] = [
    ("md5", Some("md5sum")),
    ("sha1", Some("sha1sum")),
    ("sha256", Some("sha256sum")),
    ("sha512", Some("sha512sum")),
    ("xxh64", Some("xxhsum")),
    ("adler32", None),
    ("crc32", None),
    ("crc32c", None),
];

fn all_kinds() -> String {
    JUDGES.map(|(kind, _)| kind).join(",")
}

fn beside(list: &Path, kind: &str) -> PathBuf {
    PathBuf::from(format!("{}.{kind}", list.display()))
}

/// Judges the lists of all kinds by the programs that are not ours, and by ours where there is
/// none; each names every file.
fn judge(list: &Path, root: &Path, files: usize) {
    for (kind, judge) in JUDGES {
        let list = beside(list, kind);
        let lines = fs::read(&list).unwrap().iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(lines, files, "{kind}: a line for every file");
        let mut command = match judge {
            Some("xxhsum") => {
                let mut command = Command::new("xxhsum");
                command.args(["-H1", "--check", "--quiet"]);
                command
            }
            Some(judge) => {
                let mut command = Command::new(judge);
                command.args(["--check", "--strict", "--quiet"]);
                command
            }
            None => {
                let mut command = Command::new(program());
                command.args(["verify", "--digest", kind, "--digest-list"]);
                command
            }
        };
        command.arg(&list).current_dir(root);
        if judge.is_none() {
            command.arg(".");
        }
        match command.output() {
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{kind}: {text}");
            }
            Err(error) => eprintln!("SKIPPED: {judge:?}: {error}"),
        }
    }
}

/// Files of all shapes: empty, small, one byte beyond an extent, sparse.
fn make_set(root: &Path, test: &str) -> usize {
    make_files(&mut rng(test), root, 40, 100_000, &[40 << 20, (16 << 20) + 1, 16 << 20]);
    let sparse = File::create(root.join("sparse")).unwrap();
    sparse.set_len(50 << 20).unwrap();
    sparse.write_all_at(b"data", 20 << 20).unwrap();
    let mut files = 0;
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            files += usize::from(kind.is_file());
            if kind.is_dir() {
                open.push(entry.path());
            }
        }
    }
    files
}

/// Every kind of checksum is what other programs say, of packs, large files, empty ones and holes,
/// by `copy`; python's zlib agrees with Adler-32.
#[test]
fn checksums_of_a_copy_are_those_of_other_programs() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    let files = make_set(&source, "copy");
    let list = base.path().join("list");
    let copy = Copy::new(base.path());
    let mut command = copy.command(format!("{}/", source.display()), &target);
    command.arg("--write-digests").arg(&list).args(["--also-digest", &all_kinds()]);
    let ended = Run::spawn(&mut command).end();
    let ended = ended.expect(0);
    assert_eq!(ended.figure("bytes_read_back"), ended.figure("bytes"), "{}", ended.last);
    judge(&list, &target, files);
    let adler = fs::read_to_string(beside(&list, "adler32")).unwrap();
    let script = "import sys,zlib; print('%08x' % zlib.adler32(open(sys.argv[1],'rb').read()))";
    let line = adler.lines().find(|line| line.ends_with("  sparse")).unwrap();
    let judged = Command::new("python3").args(["-c", script]).arg(target.join("sparse")).output();
    match judged {
        Ok(judged) => {
            assert_eq!(String::from_utf8_lossy(&judged.stdout).trim(), &line[..8]);
        }
        Err(error) => eprintln!("SKIPPED: python3: {error}"),
    }
}

/// What is interrupted while it is read again is not called done, and its lists hold every file
/// after the same command has gone on.
#[test]
fn a_proof_that_was_interrupted_is_no_proof() {
    let base = Scratch::on_disk();
    let (target, list) = (base.path().join("dst"), base.path().join("list"));
    let copy = Copy::new(base.path());
    let spawn = || {
        let mut command = copy.command("mem:files=1,size=384M", &target);
        command.arg("--write-digests").arg(&list).args(["--also-digest", &all_kinds()]);
        Run::spawn(&mut command)
    };
    let mut run = spawn();
    let reads = |event: &serde_json::Value| event["bytes_read_back"].as_u64().unwrap_or(0) > 0;
    run.wait_for(reads).expect("it ended before it read anything again");
    run.signal(rustix::process::Signal::INT);
    run.end().expect(130);
    assert!(!list.exists(), "no list of what is not proved");
    let ended = spawn().end().expect(0);
    assert_eq!(ended.figure("bytes_resumed"), 384 << 20, "{}", ended.last);
    assert_eq!(ended.figure("bytes_read_back"), 384 << 20, "{}", ended.last);
    for (kind, _) in JUDGES {
        let lines = fs::read_to_string(beside(&list, kind)).unwrap();
        assert_eq!(lines.lines().count(), 1, "{kind}: {lines}");
    }
}

/// The same between sites; the source's site gets the lists too.
#[test]
fn checksums_of_a_transfer_are_to_be_had_at_both_sites() {
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("data-a"), base.path().join("data-b"));
    let files = make_set(&data_a.join("set"), "transfer");
    let (a, b) = two_sites(base.path(), &data_a, &data_b);
    let list = base.path().join("list");
    let text = list.to_str().unwrap();
    let kinds = all_kinds();
    let options = ["--wait", "--readback", "--write-digests", text, "--also-digest", &kinds];
    let submit = [&["transfer", "submit", "a:data/set/", "b:data/set/"][..], &options].concat();
    let id = b.ok(&submit).lines().next().unwrap().trim().to_owned();
    judge(&list, &data_b.join("set"), files);
    let other = base.path().join("other");
    a.ok(&["transfer", "digests", &id, "--output", other.to_str().unwrap()]);
    judge(&other, &data_b.join("set"), files);
}

/// Promise (d): a kill while files are read again costs no correctness: the same command goes on,
/// sends nothing again, and the lists are whole.
#[test]
fn d_reading_again_goes_on_after_a_kill() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    let list = base.path().join("list");
    make_files(&mut rng("killed"), &source, 5, 1000, &[200 << 20]);
    let copy = Copy::new(base.path());
    let command = || {
        let mut command = copy.command(format!("{}/", source.display()), &target);
        command.arg("--write-digests").arg(&list).args(["--also-digest", "md5,sha512"]);
        command
    };
    let mut first = Run::spawn(&mut command());
    let reading = first.wait_for(|line| line["limit"] == "reading again at the target");
    assert!(reading.is_some(), "it was never seen to read again");
    first.kill();
    let ended = Run::spawn(&mut command()).end().expect(0);
    assert_eq!(ended.figure("bytes_verified"), 0, "{}", ended.last);
    let mut judge = Command::new("md5sum");
    judge.args(["--check", "--strict", "--quiet"]).arg(beside(&list, "md5")).current_dir(&target);
    assert!(judge.status().unwrap().success());
    assert_same(&source, &target);
}

/// A4, and "in transit" is not "at rest": a byte that storage gives wrong after the sync is found
/// by `--readback`, fetched again and right at the end. The byte is changed below the file system,
/// where the page cache does not see it; only a read from storage does.
#[test]
fn a4_what_storage_lost_is_found_and_fetched_again() {
    if !is_root("a file system on a loop device") {
        return;
    }
    let base = Scratch::on_disk();
    let (image, mount) = (base.path().join("image"), base.path().join("mount"));
    File::create(&image).unwrap().set_len(400 << 20).unwrap();
    fs::create_dir(&mount).unwrap();
    let run = |program: &str, args: &[&std::ffi::OsStr]| {
        Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
    };
    let blocks = ["-q", "-F", "-b", "4096"].map(std::ffi::OsStr::new);
    let made = run("mkfs.ext4", &[&blocks[..], &[image.as_os_str()]].concat())
        && run("mount", &["-o".as_ref(), "loop".as_ref(), image.as_os_str(), mount.as_os_str()]);
    if !made {
        eprintln!("SKIPPED: no ext4 on a loop device here");
        return;
    }
    let _unmount = Unmount(mount.clone());
    let source = base.path().join("src");
    fs::create_dir(&source).unwrap();
    // A pattern of its own for each file, by which it is found in the image.
    let small = pattern(b"small file, ", 64 << 10);
    let large = pattern(b"large file, ", 40 << 20);
    fs::write(source.join("small"), &small).unwrap();
    fs::write(source.join("large"), &large).unwrap();
    let target = mount.join("dst");
    let copy = Copy::new(base.path());
    let mut command = copy.command(format!("{}/", source.display()), &target);
    command.arg("--readback");
    let copying = Run::spawn(&mut command);
    // Names come after the sync of their data, and before the sync that makes them durable too.
    Wait::new("both files")
        .every(Duration::from_millis(1))
        .is(|| ["small", "large"].iter().all(|name| target.join(name).exists()));
    copying.signal(Signal::STOP);
    let device = File::options().read(true).write(true).open(&image).unwrap();
    flip(&device, &small[..4096], 100);
    flip(&device, &large[20 << 20..(20 << 20) + 4096], 200);
    copying.signal(Signal::CONT);
    let ended = copying.end().expect(0);
    assert_eq!(ended.figure("repairs"), 2, "{}", ended.last);
    assert!(ended.figure("bytes_read_back") >= ended.figure("bytes"), "{}", ended.last);
    assert_same(&source, &target);
}

fn pattern(word: &[u8], bytes: usize) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes + 64);
    while text.len() < bytes {
        text.extend_from_slice(word);
        text.extend_from_slice(text.len().to_string().as_bytes());
    }
    text.truncate(bytes);
    text
}

/// Changes one byte of the block that holds `block`, on the device.
fn flip(device: &File, block: &[u8], at: u64) {
    let mut found = vec![0; 4096];
    let size = device.metadata().unwrap().len();
    let offset = (0..size / 4096).map(|index| index * 4096).find(|offset| {
        device.read_exact_at(&mut found, *offset).unwrap();
        found == block
    });
    let offset = offset.expect("the block is on the device") + at;
    let mut byte = [0];
    device.read_exact_at(&mut byte, offset).unwrap();
    device.write_all_at(&[byte[0] ^ 1], offset).unwrap();
    device.sync_all().unwrap();
}

struct Unmount(PathBuf);

impl Drop for Unmount {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.0).status();
        assert!(unmounted.is_ok() || std::thread::panicking(), "umount {}", self.0.display());
    }
}
