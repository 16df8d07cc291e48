//! Transfers for tests.

use super::*;

/// Returns a transfer that took so long, which ended at that second.
pub(crate) fn past(files: u64, mean: u64, seconds: f64, ended: u64) -> PastTransfer {
    PastTransfer {
        id: TransferId([ended as u8; 16]),
        ended: Timestamp::of_seconds(ended),
        source: "lab:raw/set".parse().unwrap(),
        target: "hpc:scratch/set".parse().unwrap(),
        extent: Extent { files, bytes: files * mean },
        seconds,
        file_share: None,
        limit: Some("writing at the target".to_owned()),
    }
}
