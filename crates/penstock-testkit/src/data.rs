//! Seeded randomness, and data sets made of it.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;

use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

/// Returns the seed of a test's random choices: `PENSTOCK_TEST_SEED`, or another one each time.
/// Prints it, so that a failure can be repeated.
pub fn seed() -> u64 {
    let given = std::env::var("PENSTOCK_TEST_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    println!("PENSTOCK_TEST_SEED={seed}");
    seed
}

/// Returns random numbers from [`seed`], for the test that is named.
pub fn rng(test: &str) -> ChaCha8Rng {
    print!("{test}: ");
    ChaCha8Rng::seed_from_u64(seed())
}

/// Returns noise that the seed determines, by BLAKE3, which is fast in builds for tests too.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_le_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

/// Writes a file of so many random bytes, and makes its directories.
pub fn random_file(path: &Path, length: usize, rng: &mut ChaCha8Rng) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes(rng.next_u64(), length)).unwrap();
}

/// Makes a data set of files of three sizes: one of `large_mib`, four of 1 MiB, and `small` ones.
pub fn make_set(root: &Path, large_mib: usize, small: usize, seed: u64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    random_file(&root.join("large.bin"), large_mib << 20, &mut rng);
    for number in 0..4 {
        random_file(&root.join(format!("middle/{number}.bin")), 1 << 20, &mut rng);
    }
    for number in 0..small {
        let path = root.join(format!("small/{}/{number}.bin", number % 7));
        random_file(&path, 1 + number * 37 % 20_000, &mut rng);
    }
}

/// Makes files of random sizes in 8 directories: `files` of up to `small` bytes, then one of each
/// of `large`; an empty file and directory, and a link. The bytes are parts of one block of noise.
pub fn make_files(rng: &mut ChaCha8Rng, root: &Path, files: usize, small: usize, large: &[usize]) {
    let noise = bytes(rng.next_u64(), 4 << 20);
    for at in 0..8 {
        fs::create_dir_all(root.join(format!("dir{at}"))).unwrap();
    }
    for at in 0..files {
        let size = rng.random_range(0..=small);
        let from = rng.random_range(0..noise.len() - size);
        let path = root.join(format!("dir{}/small{at}", at % 8));
        fs::write(path, &noise[from..from + size]).unwrap();
    }
    for (at, size) in large.iter().enumerate() {
        let path = root.join(format!("dir{}/large{at}", at % 8));
        let mut file = File::create(path).unwrap();
        let mut left = *size;
        while left > 0 {
            let from = rng.random_range(0..noise.len() - 1);
            let part = left.min(noise.len() - from);
            file.write_all(&noise[from..from + part]).unwrap();
            left -= part;
        }
    }
    fs::create_dir(root.join("empty")).unwrap();
    fs::write(root.join("nothing"), b"").unwrap();
    symlink("dir0/small0", root.join("link")).unwrap();
}

/// Makes a small tree of 200 files, a large one, an empty directory, a link and an odd name.
pub fn make_small_tree(root: &Path) {
    fs::create_dir_all(root.join("sub/empty")).unwrap();
    for number in 0..200 {
        fs::write(root.join(format!("sub/file{number}")), format!("{number}\n")).unwrap();
    }
    fs::write(root.join("large"), bytes(0, 5_000_000)).unwrap();
    fs::write(root.join("odd \n \u{e4}'\""), "odd").unwrap();
    symlink("sub/file1", root.join("link")).unwrap();
}
