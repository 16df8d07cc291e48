//! What removing at the source asks of the scan that listed it (`--remove-source`).

use std::collections::HashSet;
use std::fs;
use std::io;

use penstock_api::problem::Problem;
use penstock_io::sys;
use penstock_proto::units::FileTime;

use super::{Scan, kept, lies_below};

/// File systems stamp with a clock that lags by up to a tick of the kernel (10 ms at 100 Hz).
const TICK_NS: u32 = 20_000_000;

impl Scan {
    /// When the first order to remove came, in the stamps of the source's file system, and never
    /// too late: what we change of a file by removing another of its names is stamped later. Kept,
    /// so that a restart goes on with it.
    ///
    /// # Errors
    /// It cannot be kept.
    pub(crate) fn removal_began(&self) -> Result<FileTime, Problem> {
        let path = self.directory.join("removing");
        match fs::read(&path) {
            Ok(text) => {
                return serde_json::from_slice(&text)
                    .map_err(|cause| kept(&path, &io::Error::from(cause)));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(kept(&path, &error)),
        }
        let now = sys::wall_clock_now();
        let began = match now.nanoseconds.checked_sub(TICK_NS) {
            Some(nanoseconds) => FileTime { nanoseconds, ..now },
            None => FileTime {
                seconds: now.seconds - 1,
                nanoseconds: now.nanoseconds + 1_000_000_000 - TICK_NS,
            },
        };
        let text = serde_json::to_vec(&began).unwrap_or_default();
        self.write_fenced(&path, &text).map_err(|cause| kept(&path, &cause))?;
        Ok(began)
    }

    /// Whether a user has named this path, or a directory above it: what only leads to such a path
    /// is listed too, and is not the transfer's to remove.
    pub(crate) fn is_named(&self, path: &[u8]) -> bool {
        if self.options.files_from.is_empty() {
            return true;
        }
        let named = self
            .named
            .get_or_init(|| self.options.files_from.iter().cloned().collect::<HashSet<Vec<u8>>>());
        named.contains(path) || lies_below(path, |parent| named.contains(parent))
    }
}
