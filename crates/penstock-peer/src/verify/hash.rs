//! The BLAKE3 of every file of a tree, by several threads.

use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use penstock_proto::digest::Digest;
use penstock_proto::name::{self, RunTag};
use penstock_proto::slicing::STRIDE_BYTES_MAX;
use penstock_store::{Kind, ListBuffer, PosixOptions, PosixStore, StoreError};

use super::jobs::Jobs;
use crate::stores::chain;
use crate::stores::worker_pool;
use crate::verify::hashing::digest_of_file;

/// The result for one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hashed<'a> {
    /// The file was read.
    File {
        /// Path below the directory.
        path: &'a [u8],
        /// Its BLAKE3.
        digest: Digest,
        /// Its size in bytes.
        size: u64,
    },
    /// The file is one that a copy has not finished.
    Unfinished {
        /// Path below the directory.
        path: &'a [u8],
        /// The run that made it.
        run: RunTag,
    },
    /// The file or directory could not be read or listed, or changed meanwhile.
    Unreadable {
        /// Path below the directory.
        path: &'a [u8],
        /// Reason, in words.
        why: &'a str,
    },
}

enum Job {
    Directory(Vec<u8>),
    File(Vec<u8>),
}

/// Hashes every regular file below `root`, or `root` itself if it is one. Reports each, in no
/// order. Blocks. Private and temporary names are passed over, and links are not followed.
///
/// # Errors
/// The root cannot be opened.
pub fn hash_tree(
    root: &Path,
    workers: usize,
    tell: &mut (dyn FnMut(Hashed<'_>) + Send),
) -> Result<(), StoreError> {
    let options = PosixOptions { read_only: true, ..PosixOptions::default() };
    let single = root.is_file();
    let parent = root.parent().filter(|path| !path.as_os_str().is_empty());
    let directory = if single { parent.unwrap_or(Path::new(".")) } else { root };
    let store = PosixStore::open(directory, options)?;
    let jobs = Jobs::new();
    match root.file_name().filter(|_| single) {
        Some(name) => jobs.force(Job::File(name.as_bytes().to_vec())),
        None => jobs.force(Job::Directory(Vec::new())),
    }
    jobs.produced();
    let tree = Tree { store, jobs, tell: Mutex::new(tell) };
    worker_pool::at_once(workers.max(1), &|| {
        let mut buffer = vec![0; STRIDE_BYTES_MAX as usize];
        tree.jobs.work(|job| tree.run(job, &mut buffer));
    });
    Ok(())
}

struct Tree<'a> {
    store: PosixStore,
    jobs: Jobs<Job>,
    tell: Mutex<&'a mut (dyn FnMut(Hashed<'_>) + Send)>,
}

impl Tree<'_> {
    fn run(&self, job: Job, buffer: &mut [u8]) {
        match job {
            Job::Directory(path) => self.list(&path, buffer),
            Job::File(path) => self.file(&path, buffer),
        }
    }

    fn say(&self, hashed: Hashed<'_>) {
        (self.tell.lock().unwrap_or_else(PoisonError::into_inner))(hashed);
    }

    fn list(&self, path: &[u8], buffer: &mut [u8]) {
        let mut names = ListBuffer::new();
        let listed = self.store.open_dir(path).and_then(|dir| {
            self.store.list(&dir, &mut names, &mut |entry| {
                let path = name::join(path, entry.name);
                if let Some(own) = entry.own {
                    if own.kind.holds_data() {
                        self.say(Hashed::Unfinished { path: &path, run: own.run });
                    }
                    return ControlFlow::Continue(());
                }
                let asked = || self.store.stat(&dir, entry.name).map(|meta| meta.kind);
                match entry.kind.map_or_else(asked, Ok) {
                    Ok(Kind::Directory) => self.jobs.force(Job::Directory(path)),
                    // Where too many wait it is hashed here.
                    Ok(Kind::File) => {
                        if let Some(Job::File(path)) = self.jobs.offer(Job::File(path)) {
                            self.file(&path, buffer);
                        }
                    }
                    Ok(_) => {}
                    Err(error) => self.say(Hashed::Unreadable { path: &path, why: &chain(&error) }),
                }
                ControlFlow::Continue(())
            })
        });
        if let Err(error) = listed {
            self.say(Hashed::Unreadable { path, why: &chain(&error) });
        }
    }

    fn file(&self, path: &[u8], buffer: &mut [u8]) {
        match self.hash(path, buffer) {
            Ok(Some((digest, size))) => self.say(Hashed::File { path, digest, size }),
            Ok(None) => self.say(Hashed::Unreadable { path, why: "it changed while it was read" }),
            Err(error) => self.say(Hashed::Unreadable { path, why: &chain(&error) }),
        }
    }

    fn hash(&self, path: &[u8], buffer: &mut [u8]) -> Result<Option<(Digest, u64)>, StoreError> {
        let (parent, leaf) = name::split(path).unwrap_or((b"", b""));
        let file = self.store.open_read(&self.store.open_dir(parent)?, leaf)?;
        Ok(digest_of_file(&file, buffer)?.map(|(digest, meta)| (digest, meta.size)))
    }
}
