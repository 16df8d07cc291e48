//! Extraneous entries that are obstacles: each must be deleted before the entry of its name can be
//! made.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use penstock_api::delete::Surplus;

use super::path_hash::{HASHES_MAX, PathHash, hash_of, spill_failed};
use super::record::{key_of, read_line};
use crate::task::error::TaskError;

/// The obstacles of a list, with everything in the directories among them.
pub(super) struct Obstacles {
    /// The directories: [`HASHES_MAX`] at most.
    directories: HashSet<PathHash>,
}

impl Obstacles {
    /// Learns from the list which directories are in the way.
    ///
    /// # Errors
    /// The list cannot be read; the directories are too many to be kept in mind.
    pub(super) fn read(list: &Path) -> Result<Self, TaskError> {
        let file = File::open(list).map_err(|cause| spill_failed(list, cause))?;
        let mut directories = HashSet::new();
        for line in BufReader::new(file).lines() {
            let line = line.map_err(|cause| spill_failed(list, cause))?;
            let surplus = read_line(&line, list)?;
            if !surplus.in_the_way || !surplus.is_directory() {
                continue;
            }
            directories.insert(key_of(&surplus));
            if directories.len() as u64 > HASHES_MAX {
                return Err(TaskError::TooManyObstacles(HASHES_MAX));
            }
        }
        Ok(Self { directories })
    }

    /// Returns whether an extraneous entry is an obstacle, or lies in a directory that is one.
    pub(super) fn holds(&self, surplus: &Surplus) -> bool {
        if surplus.in_the_way {
            return true;
        }
        let path = &surplus.path.0;
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        !self.directories.is_empty()
            && slashes
                .map(|(at, _)| hash_of(&path[..at], true))
                .any(|parent| self.directories.contains(&parent))
    }
}
