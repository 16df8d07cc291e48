//! Directories that wait to be listed, in bounded memory (promise (g)).

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Paths that are kept in memory: half of them go into the file when there are more. Ten million
/// directories in one directory need about 1 MiB so, and 16 bytes for each 4,096 of them.
const KEPT_MAX: usize = 8192;

/// Waiting paths, newest first. A walk that takes the newest has few of them at a time, except for
/// very wide directories. Paths beyond the memory limit wait in a file without a name.
pub(crate) struct PathStack {
    kept: Vec<Vec<u8>>,
    /// Offsets and lengths of the parts in the file.
    parts: Vec<(u64, u64)>,
    count: usize,
    file: Option<File>,
    /// Directory in which the file is made.
    directory: PathBuf,
    kept_max: usize,
}

impl Default for PathStack {
    /// Creates a stack with the directory for temporary files.
    fn default() -> Self {
        Self::new(&std::env::temp_dir())
    }
}

impl PathStack {
    /// Creates an empty stack. Paths beyond the memory limit go into a file in `directory`.
    pub(crate) fn new(directory: &Path) -> Self {
        let (kept, parts) = (Vec::new(), Vec::new());
        Self {
            kept,
            parts,
            count: 0,
            file: None,
            directory: directory.to_owned(),
            kept_max: KEPT_MAX,
        }
    }

    /// Leaves a path. Where the file cannot be written, memory takes it.
    pub(crate) fn push(&mut self, path: Vec<u8>) {
        self.count += 1;
        self.kept.push(path);
        if self.kept.len() > self.kept_max
            && let Err(error) = self.spill()
        {
            tracing::warn!(
                %error, directory = %self.directory.display(),
                "cannot spill pending directories to a file; keeping them in memory"
            );
            self.kept_max = self.kept_max.saturating_mul(2);
        }
    }

    /// Takes the newest path.
    ///
    /// # Errors
    /// The file cannot be read: its waiting paths are lost.
    pub(crate) fn pop(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.kept.is_empty() {
            self.take_back()?;
        }
        let newest = self.kept.pop();
        self.count -= usize::from(newest.is_some());
        Ok(newest)
    }

    /// Returns the number of waiting paths.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Returns whether no path waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Moves the older half into the file.
    fn spill(&mut self) -> io::Result<()> {
        let half = self.kept.len() / 2;
        let mut bytes = Vec::new();
        for path in &self.kept[..half] {
            bytes.extend_from_slice(&(path.len() as u64).to_le_bytes());
            bytes.extend_from_slice(path);
        }
        let file = match &self.file {
            Some(file) => file,
            None => self.file.insert(nameless_file(&self.directory)?),
        };
        let at = self.parts.last().map_or(0, |(at, length)| at + length);
        file.write_all_at(&bytes, at)?;
        self.parts.push((at, bytes.len() as u64));
        self.kept.drain(..half);
        Ok(())
    }

    fn take_back(&mut self) -> io::Result<()> {
        let (Some((at, length)), Some(file)) = (self.parts.pop(), &self.file) else {
            return Ok(());
        };
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.read_exact_at(&mut bytes, at)?;
        let mut rest = bytes.as_slice();
        while let Some((length, behind)) = rest.split_first_chunk() {
            let length = usize::try_from(u64::from_le_bytes(*length)).map_err(io::Error::other)?;
            let damaged = || io::Error::from(io::ErrorKind::InvalidData);
            let (path, behind) = behind.split_at_checked(length).ok_or_else(damaged)?;
            self.kept.push(path.to_vec());
            rest = behind;
        }
        Ok(())
    }
}

/// Creates a file without a name, which disappears when it is closed.
fn nameless_file(directory: &Path) -> io::Result<File> {
    let path = directory.join(format!("penstock-waiting-{:032x}", rand::random::<u128>()));
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    /// Promise (g): however many directories wait, memory holds a bounded number of them, none is
    /// lost, and the newest comes first, as it would from memory.
    #[test]
    // The output of the test has its seed.
    #[allow(clippy::print_stdout)]
    fn g_paths_that_wait_in_a_file_come_back_in_order() {
        let seed = rand::random::<u64>();
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let directory = tempfile::tempdir().unwrap();
        let mut stack = PathStack { kept_max: 8, ..PathStack::new(directory.path()) };
        let mut expected = Vec::new();
        for round in 0..20_000 {
            // More come than go at first, then the reverse.
            if rng.random_range(0..20_000) > round {
                let path = vec![rng.random(); rng.random_range(0..300)];
                expected.push(path.clone());
                stack.push(path);
            } else {
                assert_eq!(stack.pop().unwrap(), expected.pop());
            }
            assert!(stack.kept.len() <= 9, "{} in memory", stack.kept.len());
        }
        while let Some(path) = expected.pop() {
            assert_eq!(stack.pop().unwrap(), Some(path));
        }
        assert_eq!(stack.pop().unwrap(), None);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "a file was left");
    }

    /// Promise: where nothing can be kept in a file, nothing is lost.
    #[test]
    fn without_a_file_memory_takes_them() {
        let mut stack = PathStack { kept_max: 4, ..PathStack::new(Path::new("/proc/none")) };
        for at in 0..100u8 {
            stack.push(vec![at]);
        }
        for at in (0..100u8).rev() {
            assert_eq!(stack.pop().unwrap(), Some(vec![at]));
        }
    }
}
