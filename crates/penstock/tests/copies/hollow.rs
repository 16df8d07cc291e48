//! Files that are nearly all holes: neither copying nor a digest list costs their size (D2).

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::time::{Duration, Instant};

use penstock_testkit::{Copy, Scratch, assert_same, copy_with};

/// D2: a file of 1 TiB with 1 MiB of data is copied with a digest list and a receipt in the time of
/// its data: its holes are not hashed, it is not in the list, and that is said. One whose holes are
/// small is in the list, with the digest that `b3sum` finds.
#[test]
fn d2_holes_beyond_a_hundred_times_the_data_are_not_hashed() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir(&source).unwrap();
    let hollow = File::create(source.join("hollow")).unwrap();
    if let Err(error) = hollow.set_len(1 << 40) {
        eprintln!("SKIPPED: no file of 1 TiB here: {error}");
        return;
    }
    let part = vec![7; 64 << 10];
    for at in 0..16_u64 {
        hollow.write_all_at(&part, at * (60 << 30) + 12_288).unwrap();
    }
    let sparse = File::create(source.join("sparse")).unwrap();
    sparse.set_len(100 << 20).unwrap();
    sparse.write_all_at(&vec![9; 4 << 20], 50 << 20).unwrap();
    let list = base.path().join("list");
    let receipt = base.path().join("receipt.json");
    let options = ["--write-digests", list.to_str().unwrap(), "--receipt"];
    let options = [&options[..], &[receipt.to_str().unwrap()]].concat();
    let copy = Copy::new(base.path());
    let began = Instant::now();
    let ended = copy_with(&copy, &source, &target, &options).expect(0);
    println!("{:?}: {}", began.elapsed(), ended.last);
    // Zeros of 1 TiB take minutes, and in a debug build hours.
    assert!(began.elapsed() < Duration::from_secs(600));
    assert_eq!(ended.figure("not_listed"), 1, "{}", ended.last);
    let lines = fs::read_to_string(&list).unwrap();
    assert_eq!(lines.lines().count(), 1, "{lines}");
    let expected = blake3::hash(&fs::read(source.join("sparse")).unwrap());
    assert_eq!(lines, format!("{}  sparse\n", expected.to_hex()));
    let receipt: serde_json::Value = serde_json::from_slice(&fs::read(&receipt).unwrap()).unwrap();
    assert_eq!(receipt.to_string().matches("\"sparse_files\":1").count(), 1, "{receipt}");
    let copied = File::open(target.join("hollow")).unwrap();
    assert_eq!(copied.metadata().unwrap().len(), 1 << 40);
    assert!(copied.metadata().unwrap().blocks() * 512 < 8 << 20, "holes are not allocated");
    let mut bytes = vec![0; (64 << 10) + 2];
    for at in 0..16_u64 {
        copied.read_exact_at(&mut bytes, at * (60 << 30) + 12_287).unwrap();
        assert!(bytes[1..bytes.len() - 1] == part && bytes[0] == 0 && bytes[65_537] == 0);
    }
}

/// D2: holes between the data of large files are holes at the target too, although blocks of files
/// without holes are allocated ahead of direct writes: those of several strides, those within a
/// stride, and those at the end.
#[test]
fn d2_no_block_is_allocated_in_a_hole() {
    const MIB: u64 = 1 << 20;
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir(&source).unwrap();
    let striped = File::create(source.join("striped")).unwrap();
    striped.set_len(150 * MIB + 77).unwrap();
    let part = vec![7; MIB as usize];
    for at in (0..148).step_by(3) {
        striped.write_all_at(&part, at * MIB).unwrap();
        striped.write_all_at(&part[..4096], at * MIB + MIB + 65_536).unwrap();
    }
    let dense = File::create(source.join("dense")).unwrap();
    for at in 0..70 {
        dense.write_all_at(&part, at * MIB).unwrap();
    }
    let copy = Copy::new(base.path());
    copy_with(&copy, &source, &target, &[]).expect(0);
    assert_same(&source, &target);
    let allocated = |file: &std::path::Path| {
        let file = File::open(file).unwrap();
        file.sync_all().unwrap();
        file.metadata().unwrap().blocks() * 512
    };
    for name in ["striped", "dense"] {
        let (there, here) = (allocated(&source.join(name)), allocated(&target.join(name)));
        // The file system keeps its lists of extents in blocks too.
        assert!(here <= there + (64 << 10), "{name}: {here} of {there}");
    }
}
