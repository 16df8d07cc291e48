//! `--sync --compare digest`: what is in the files decides, as with `rsync --checksum`.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, SystemTime};

use penstock_testkit::{
    Copy, Ended, Run, Scratch, assert_no_leftovers, assert_same, bytes_below, files_below,
    make_files, rng, tool, two_sites,
};

const MIB: usize = 1 << 20;

fn sync_by_digest(copy: &Copy, source: &Path, target: &Path) -> Ended {
    let contents = format!("{}/", source.display());
    let mut command = copy.command(contents, target);
    Run::spawn(command.args(["--sync", "--compare", "digest"])).end()
}

fn stamp(path: &Path, time: SystemTime) {
    File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

/// Changes one byte in the middle; size and time of modification stay.
fn flip(path: &Path) {
    let time = fs::metadata(path).unwrap().modified().unwrap();
    let mut bytes = fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
    stamp(path, time);
}

/// What a program that is not ours would still do.
fn rsync_says(source: &Path, target: &Path) -> String {
    let (from, to) = (format!("{}/", source.display()), format!("{}/", target.display()));
    let flags = ["-rlptni", "--checksum", "--exclude=/.penstock-store-7q2mv0kd9j"];
    let [a, b, c] = flags;
    String::from_utf8(tool("rsync", &[&a, &b, &c, &from, &to])).unwrap()
}

/// Promise: files of the same size and time with other bytes are found and replaced, and just these
/// are moved; files with the same bytes and another time are not moved, and get the source's time.
#[test]
fn what_is_in_the_files_decides() {
    let mut rng = rng("compare digest");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 100, 20_000, &[20 * MIB, 9 * MIB, 3 * MIB]);
    let copy = Copy::new(base.path());
    copy.run(format!("{}/", source.display()), &target).expect(0);
    let past = SystemTime::now() - Duration::from_secs(1_000_000);
    let other = ["dir0/large0", "dir2/large2", "dir3/small3", "dir4/small4"];
    for path in files_below(&target) {
        let relative = path.strip_prefix(&target).unwrap().to_str().unwrap();
        if !relative.starts_with(".penstock-store-7q2mv0kd9j") && !other.contains(&relative) {
            stamp(&path, past);
        }
    }
    fs::write(source.join("dir3/small3"), vec![3; 5000]).unwrap();
    fs::write(source.join("dir4/small4"), vec![4; 6000]).unwrap();
    copy.run(format!("{}/", source.join("dir3").display()), target.join("dir3")).expect(0);
    copy.run(format!("{}/", source.join("dir4").display()), target.join("dir4")).expect(0);
    other.iter().for_each(|path| flip(&target.join(path)));
    let bytes: u64 = other.iter().map(|path| fs::metadata(source.join(path)).unwrap().len()).sum();
    let ended = sync_by_digest(&copy, &source, &target).expect(0);
    println!("{}", ended.last);
    assert_eq!(ended.figure("files"), other.len() as u64, "{}", ended.last);
    assert_eq!(ended.figure("bytes_verified"), bytes, "{}", ended.last);
    assert_eq!(rsync_says(&source, &target), "");
    assert_same(&source, &target);
    let again = sync_by_digest(&copy, &source, &target).expect(0);
    assert_eq!(again.figure("bytes_verified"), 0, "{}", again.last);
    copy.assert_no_state();
}

/// Promise: between two sites only digests travel of what is the same; a kill in the middle of
/// comparing changes nothing of the outcome.
#[test]
fn sites_compare_by_digest_through_kills() {
    let mut rng = rng("compare digest between sites");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 200, 20_000, &[30 * MIB, 30 * MIB]);
    tool("cp", &[&"-r", &source, &target]);
    flip(&target.join("dir1/large1"));
    let (mut a, mut b) = two_sites(base.path(), &source, &target);
    let args = ["transfer", "submit", "a:data/", "b:data/", "--sync", "--compare", "digest"];
    let id = b.ok(&args).trim().to_owned();
    b.kill();
    a.kill();
    a.start();
    b.start();
    let ended = b.follow(&id).expect(0);
    println!("{}", ended.last);
    assert!(ended.figure("bytes") < bytes_below(&source) / 2, "{}", ended.last);
    assert_eq!(rsync_says(&source, &target), "");
    assert_no_leftovers(&target);
}
