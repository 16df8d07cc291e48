//! Sources that change under our feet (C1, C2): the newer version arrives, or the file is listed
//! and what was at the target stays; what changes in its attributes alone is not sent again.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use penstock_testkit::{
    Copy, Ended, Mount, Run, Scratch, Signal, assert_no_leftovers, assert_same, bytes_below,
    figure, files_below, is_root, make_files, rng, two_sites,
};

const MIB: usize = 1 << 20;
/// A rate at which none of the large files here is read to its end before they change, even on a
/// busy machine: what was read long after its last change may arrive as it was.
const RATE: &str = "80Mbit/s";

fn contents(source: &Path) -> String {
    format!("{}/", source.display())
}

/// A copy at [`RATE`] that stands still somewhere in the middle, while `change` is done.
fn copy_while(base: &Path, source: &Path, change: impl FnOnce()) -> Ended {
    let copy = Copy::new(base);
    let mut command = copy.command(contents(source), base.join("dst"));
    let mut run = Run::spawn(command.args(["--bwlimit", RATE]));
    let total = bytes_below(source);
    let early = run.wait_for(|line| {
        line["scan_complete"] == true && line["bytes_verified"].as_u64() > Some(0)
    });
    assert!(early.is_some_and(|line| figure(&line, "bytes") < total), "it was too fast");
    run.signal(Signal::STOP);
    change();
    run.signal(Signal::CONT);
    let ended = run.end();
    copy.assert_no_state();
    ended
}

fn rewrite(path: &Path, size: usize) {
    let mut bytes = vec![0; size];
    rand::Rng::fill_bytes(&mut rand::rng(), &mut bytes);
    fs::write(path, bytes).unwrap();
}

/// Promise (C1): files that are rewritten, that grow, that shrink, or that give way to another file
/// of their name while they are copied arrive in their new version, small and large, and one that
/// was large and is small then.
#[test]
fn c1_what_changes_once_arrives_in_its_new_version() {
    let mut rng = rng("changes once");
    let base = Scratch::on_disk();
    let source = base.path().join("src");
    make_files(&mut rng, &source, 100, 20_000, &[24 * MIB, 24 * MIB, 24 * MIB, 3 * MIB, 24 * MIB]);
    let ended = copy_while(base.path(), &source, || {
        for (at, path) in files_below(&source).iter().enumerate() {
            let size = fs::metadata(path).unwrap().len() as usize;
            match at % 5 {
                0 => rewrite(path, size),
                1 => rewrite(path, size / 3),
                2 => rewrite(path, size + 100_000),
                3 => {
                    let other = path.with_extension("other");
                    rewrite(&other, size + 1);
                    fs::rename(&other, path).unwrap();
                }
                _ => {}
            }
        }
        rewrite(&source.join("dir1/large1"), 10);
        rewrite(&source.join("dir2/small2"), 20 * MIB);
    })
    .expect(0);
    println!("{}", ended.last);
    let target = base.path().join("dst");
    assert_no_leftovers(&target);
    // What was read before it changed may have arrived as it was, if it was not young then.
    assert_eq!(ended.figure("errors"), 0);
    for large in ["dir0/large0", "dir1/large1", "dir2/large2", "dir4/large4", "dir2/small2"] {
        let same = fs::read(source.join(large)).unwrap() == fs::read(target.join(large)).unwrap();
        assert!(same, "{large}");
    }
}

/// Writes to a file without end, until it is dropped.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Writer {
    fn append_to(path: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut file = File::options().append(true).open(path).unwrap();
            while !asked.load(Ordering::Acquire) {
                file.write_all(b"and on\n").unwrap();
                std::thread::yield_now();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Promise (C1, b): a file that is written to all the time is tried a bounded number of times, then
/// listed, with exit 4; the old version stays at the target, nothing temporary is left, and all the
/// rest arrives.
#[test]
fn c1_what_changes_all_the_time_is_listed_and_the_old_version_stays() {
    let mut rng = rng("changes all the time");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 20, 20_000, &[3 * MIB]);
    fs::write(source.join("log"), vec![1; 4 * MIB]).unwrap();
    fs::create_dir(&target).unwrap();
    fs::write(target.join("log"), b"the old version").unwrap();
    let copy = Copy::new(base.path());
    let writer = Writer::append_to(source.join("log"));
    let ended = copy.run(contents(&source), &target).expect(4);
    drop(writer);
    println!("{}", ended.last);
    assert_eq!(ended.figure("errors"), 1, "{}", ended.last);
    assert_eq!(fs::read(target.join("log")).unwrap(), b"the old version");
    assert_no_leftovers(&target);
    copy.assert_no_state();
    assert_eq!(ended.figure("files"), files_below(&source).len() as u64 - 1, "{}", ended.last);
    // Once it is left alone it arrives.
    copy.run(contents(&source), &target).expect(0);
    assert_same(&source, &target);
}

/// Promise (C2): modes that are changed while files are copied arrive with what is read later, and
/// no byte is sent twice for them, nor for those that `--sync` brings up to date.
#[test]
fn c2_a_chmod_arrives_and_costs_nothing() {
    let mut rng = rng("chmod");
    let base = Scratch::on_disk();
    let source = base.path().join("src");
    make_files(&mut rng, &source, 100, 20_000, &[3 * MIB; 10]);
    let total = bytes_below(&source);
    let ended = copy_while(base.path(), &source, || {
        for path in files_below(&source) {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        }
    })
    .expect(0);
    println!("{}", ended.last);
    assert_eq!(ended.figure("bytes_verified"), total, "{}", ended.last);
    assert_eq!(ended.figure("bytes_resent"), 0, "{}", ended.last);
    let files = files_below(&source).len() as u64;
    assert_eq!((ended.figure("files"), ended.figure("skipped")), (files, 0), "{}", ended.last);
    let target = base.path().join("dst");
    let mode_of = |path: &PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let arrived = files_below(&target).iter().filter(|path| mode_of(path) == 0o640).count();
    assert!(arrived > 0, "no mode arrived of {files}");
    let copy = Copy::new(base.path());
    let mut command = copy.command(contents(&source), &target);
    let again = Run::spawn(command.arg("--sync")).end().expect(0);
    assert_eq!(again.figure("bytes_verified"), 0, "{}", again.last);
    assert_same(&source, &target);
}

/// Promise (C2): a file whose size and time of last modification are put back after it was
/// rewritten is not taken for unchanged: it is never old and new at once.
#[test]
fn c2_a_time_that_is_put_back_hides_nothing() {
    let mut rng = rng("put back");
    let base = Scratch::on_disk();
    let source = base.path().join("src");
    make_files(&mut rng, &source, 5, 20_000, &[40 * MIB, 30 * MIB]);
    let ended = copy_while(base.path(), &source, || {
        for path in ["dir0/large0", "dir1/large1"].map(|path| source.join(path)) {
            let meta = fs::metadata(&path).unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            rewrite(&path, meta.len() as usize);
            file.set_modified(meta.modified().unwrap()).unwrap();
        }
    })
    .expect(0);
    println!("{}", ended.last);
    assert_same(&source, &base.path().join("dst"));
}

/// Promise (C1): on a file system that counts whole seconds a file that is rewritten within the
/// second in which it was read arrives in its new version: the same stamps prove nothing there.
/// Needs root, for a loop device.
#[test]
fn c1_a_file_rewritten_within_the_second_of_its_read_arrives_new() {
    if !is_root("a file system on a loop device") {
        return;
    }
    let base = Scratch::on_disk();
    let mount = Mount::on_loop(base.path(), "coarse", "ext3", 64);
    let mut within = 0;
    for attempt in 0..3 {
        let source = mount.path.join(format!("src{attempt}"));
        let target = base.path().join(format!("dst{attempt}"));
        fs::create_dir_all(&source).unwrap();
        // The write, the read and the second write are to lie within one second.
        let into = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        std::thread::sleep(Duration::from_nanos(1_010_000_000 - u64::from(into.subsec_nanos())));
        fs::write(source.join("f"), vec![b'A'; 100_000]).unwrap();
        let before = fs::metadata(source.join("f")).unwrap().modified().unwrap();
        let copy = Copy::new(base.path());
        let run = copy.spawn(contents(&source), &target);
        let arrived = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| meta.len() == 100_000);
        let until = Instant::now() + Duration::from_secs(60);
        while !(target.exists() && entries_of(&target).iter().any(arrived)) {
            assert!(Instant::now() < until, "nothing arrives");
            std::thread::yield_now();
        }
        fs::write(source.join("f"), vec![b'B'; 100_000]).unwrap();
        let after = fs::metadata(source.join("f")).unwrap().modified().unwrap();
        run.end().expect(0);
        assert!(fs::read(target.join("f")).unwrap().iter().all(|byte| *byte == b'B'));
        within += u32::from(before == after);
    }
    println!("{within} of 3 were rewritten within the second");
}

/// What is in a directory, temporary names too.
fn entries_of(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// Promise (B6, c): when another file takes one of several names of a file, the name that nobody
/// has touched is never made a name of that other file, even if size and times say nothing: it
/// fails, or has what it had.
#[test]
fn b6_no_further_name_leads_to_what_took_the_place_of_the_first() {
    let mut rng = rng("first names");
    // Which of two names is the first is the scan's choice.
    for (replaced, untouched) in [("a", "b"), ("b", "a")] {
        let base = Scratch::on_disk();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        make_files(&mut rng, &source, 5, 20_000, &[24 * MIB]);
        fs::write(source.join("a"), b"OLD CONTENT").unwrap();
        fs::hard_link(source.join("a"), source.join("b")).unwrap();
        let copy = Copy::new(base.path());
        let mut command = copy.command(contents(&source), &target);
        let mut run = Run::spawn(command.args(["--bwlimit", RATE, "--no-preserve", "times"]));
        assert!(run.wait_for(|line| line["scan_complete"] == true).is_some());
        fs::write(source.join("new"), b"NEW CONTENT").unwrap();
        fs::rename(source.join("new"), source.join(replaced)).unwrap();
        let ended = run.end();
        assert!([0, 3].contains(&ended.code), "{}", ended.errors);
        match fs::read(target.join(untouched)) {
            Ok(bytes) => assert_eq!(bytes, b"OLD CONTENT", "{untouched}"),
            Err(_) => assert_eq!(ended.code, 3, "{}", ended.last),
        }
    }
}

/// Promise (C1, C2): between two sites as on one host.
#[test]
fn c1_changes_are_followed_between_sites() {
    let mut rng = rng("between sites");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 100, 20_000, &[24 * MIB; 4]);
    let (a, b) = two_sites(base.path(), &source, &target);
    let submitted = b.submit(&["a:data/", "b:data/", "--bwlimit", RATE]);
    b.show_until(&submitted, |view| {
        view["progress"]["scan_complete"] == true
            && view["progress"]["bytes_verified"].as_u64() > Some(0)
    });
    a.signal(Signal::STOP);
    rewrite(&source.join("dir0/large0"), 9 * MIB);
    rewrite(&source.join("dir1/large1"), 30 * MIB);
    rewrite(&source.join("dir2/large2"), 7);
    fs::set_permissions(source.join("dir3/large3"), fs::Permissions::from_mode(0o604)).unwrap();
    a.signal(Signal::CONT);
    let ended = b.follow(&submitted).expect(0);
    println!("{}", ended.last);
    assert_same(&source, &target);
}
