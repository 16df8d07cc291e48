//! A step that works on names: empty files are made, named, looked at, listed and removed.
//!
//! Each thread has directories of its own, as a transfer hands whole packs to a lane.

use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::thread;
use std::time::{Duration, Instant};

use penstock_api::rpc::benchmark::BenchmarkTimes;
use penstock_proto::benchmark::BenchmarkOperation;
use penstock_proto::digest::Digest;
use penstock_proto::id::{TransferId, WriterId};
use penstock_proto::manifest::{Identity, PAGE_ENTRIES_MAX};
use penstock_proto::name;
use penstock_proto::units::FileTime;
use penstock_store::{
    Attributes, Dir, ListBuffer, StoreError, Target, TemporaryKey, TemporaryName, temporary_name,
};

use crate::benchmark::file_set::{directory_name, file_name};

/// Files of one directory.
const DIRECTORY_FILES: u64 = PAGE_ENTRIES_MAX as u64;

/// The empty files of a benchmark.
pub(super) struct NamedFiles {
    pub(super) target: Target,
    pub(super) id: TransferId,
    pub(super) writer: WriterId,
    pub(super) root: Vec<u8>,
    /// Files of each thread that are there.
    pub(super) made: Mutex<Vec<u64>>,
}

impl NamedFiles {
    /// Runs one operation with `threads` threads, on existing files or on at most `files` new ones.
    /// An operation without changes is repeated for `lasts`, and no further file is made after that
    /// time. The step ends when `stops` returns true.
    ///
    /// # Errors
    /// The first error of any thread.
    pub(super) fn run(
        &self,
        operation: BenchmarkOperation,
        (threads, files): (u32, u64),
        lasts: Duration,
        stops: &(dyn Fn() -> bool + Sync),
    ) -> Result<BenchmarkTimes, StoreError> {
        let threads = threads.max(1) as usize;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if operation == BenchmarkOperation::Create {
            *made = vec![(files / threads as u64).max(1); threads];
        }
        let failed_syncs = self.target.failed_syncs();
        let begun = Instant::now();
        let until = begun + lasts;
        let changes = !matches!(operation, BenchmarkOperation::Stat | BenchmarkOperation::List);
        // All files that were made get their names, and all are removed.
        let by_time = !changes || operation == BenchmarkOperation::Create;
        let over = || stops() || (by_time && Instant::now() >= until);
        let counts = thread::scope(|scope| {
            let work = |(thread, files): (usize, &u64)| {
                let (files, over) = (*files, &over);
                scope.spawn(move || {
                    let mut all = self.work(operation, (thread, files), over)?;
                    let mut more = all;
                    while !changes && more > 0 && !over() {
                        more = self.work(operation, (thread, files), over)?;
                        all += more;
                    }
                    Ok(all)
                })
            };
            let workers: Vec<_> = made.iter().enumerate().map(work).collect();
            let joined = workers.into_iter().map(|worker| match worker.join() {
                Ok(done) => done,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            joined.collect::<Result<Vec<u64>, StoreError>>()
        })?;
        let done_s = begun.elapsed().as_secs_f64();
        if changes {
            self.target.sync_since(failed_syncs)?;
        }
        let durable_s = if changes { begun.elapsed().as_secs_f64() } else { done_s };
        let files = counts.iter().sum();
        if operation == BenchmarkOperation::Create {
            *made = counts;
        }
        let traffic = Vec::new();
        Ok(BenchmarkTimes { bytes: 0, files, units: files, done_s, durable_s, traffic })
    }

    fn work(
        &self,
        operation: BenchmarkOperation,
        (thread, files): (usize, u64),
        over: &(dyn Fn() -> bool + Sync),
    ) -> Result<u64, StoreError> {
        let mut done = 0;
        for first in (0..files).step_by(DIRECTORY_FILES as usize) {
            if over() {
                return Ok(done);
            }
            let number = (first / DIRECTORY_FILES) as u32;
            let own = name::join(&self.root, format!("t{thread}").as_bytes());
            let dir = self.target.make_dirs(&name::join(&own, &directory_name(number)))?;
            if operation == BenchmarkOperation::List {
                let mut listed = 0;
                self.target.list(&dir, &mut ListBuffer::new(), &mut |_| {
                    listed += 1;
                    ControlFlow::Continue(())
                })?;
                done += listed;
                continue;
            }
            for file in first..(first + DIRECTORY_FILES).min(files) {
                if over() {
                    return Ok(done);
                }
                self.touch(operation, &dir, (thread, file))?;
                done += 1;
            }
            if operation == BenchmarkOperation::Rename && dir.durability().is_per_file() {
                self.target.sync_dir(&dir)?;
            }
        }
        Ok(done)
    }

    fn touch(
        &self,
        operation: BenchmarkOperation,
        dir: &Dir,
        (thread, file): (usize, u64),
    ) -> Result<(), StoreError> {
        let name = file_name(file);
        match operation {
            BenchmarkOperation::Create => {
                let temporary = self.temporary(thread, file);
                let made = self.target.create_whole(dir, &temporary, None, None)?;
                made.finish(&Attributes::default(), dir.durability().is_per_file()).map(drop)
            }
            BenchmarkOperation::Rename => {
                self.target.publish(dir, &self.temporary(thread, file), &name, false)
            }
            BenchmarkOperation::Stat => self.target.meta(dir, &name).map(drop),
            BenchmarkOperation::Unlink => self.target.remove(dir, &name).map(drop),
            BenchmarkOperation::List | BenchmarkOperation::Read | BenchmarkOperation::Write => {
                Ok(())
            }
        }
    }

    fn temporary(&self, thread: usize, file: u64) -> TemporaryName {
        temporary_name(&TemporaryKey {
            transfer: self.id,
            of: Digest::default(),
            number: file as u32,
            size: 0,
            mtime: FileTime::default(),
            identity: Identity { inode: thread as u64, ctime: FileTime::default() },
            generation: 0,
            writer: self.writer,
        })
    }
}
