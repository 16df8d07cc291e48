//! Selftests: a sound site passes, a store that alters data is found out, nothing is left.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use penstock_testkit::{Scratch, Site, told};

use crate::soak::Unit;

/// The directories of selftests in a store.
fn own_directories(store: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(store).unwrap().map(|entry| entry.unwrap());
    let own =
        entries.filter(|it| it.file_name().to_string_lossy().starts_with("penstock-selftest"));
    own.map(|entry| entry.path()).collect()
}

/// Promise: a sound site fails no check, a kill of its daemon included; the result is there for
/// test servers too, and nothing is left in the store. Nothing is done without consent.
#[test]
fn a_sound_site_passes() {
    let root = Scratch::in_memory();
    let unit = Unit::start(root.path());
    let site = &unit.site;
    let said = site.fails(2, &["selftest", "--scratch", "data"]);
    assert!(said.contains("killed-daemon") && said.contains("no terminal to ask"), "{said}");
    site.fails(2, &["selftest", "--yes", "--only", "everything"]);
    assert_eq!(own_directories(&site.store), [] as [PathBuf; 0]);
    let kill = format!("kill -9 $(cat {}); {}", unit.process.display(), unit.script());
    let file = root.path().join("junit.xml");
    let junit = file.to_str().unwrap();
    let output = site.run(&["selftest", "--yes", "--kill", &kill, "--junit", junit]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !text.contains("FAIL"), "{}", told(&output));
    for name in ["moves", "flipped-bit", "same-id", "climbs-out", "stranger", "killed-daemon"] {
        assert!(text.contains(&format!("PASS     {name}")), "{}", told(&output));
    }
    let xml = fs::read_to_string(&file).unwrap();
    assert!(xml.contains("tests=\"9\" failures=\"0\""), "{xml}");
    assert_eq!(own_directories(&site.store), [] as [PathBuf; 0]);
}

/// Promise: a store that alters a byte of a file that has its final name is found out: FAIL, exit
/// 3.
#[test]
fn a_store_that_alters_data_fails() {
    let root = Scratch::in_memory();
    let mut site = Site::init(root.path(), "lab", None);
    site.start();
    let store = site.store.clone();
    let altered = thread::spawn(move || {
        loop {
            let copies = own_directories(&store).into_iter();
            let mut copies = copies.map(|own| own.join("copy/large.bin"));
            if let Some(copy) = copies.find(|copy| copy.exists()) {
                let file = fs::File::options().write(true).open(copy).unwrap();
                return file.write_all_at(b"altered", 12_345).unwrap();
            }
            thread::sleep(Duration::from_millis(1));
        }
    });
    let output = site.run(&["selftest", "--yes", "--only", "moves,same-id"]);
    altered.join().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{}", told(&output));
    assert!(text.contains("FAIL     moves") && text.contains("large.bin` differs"), "{text}");
    assert!(text.contains("PASS     same-id"), "{text}");
    assert_eq!(own_directories(&site.store), [] as [PathBuf; 0]);
}
