//! Files and bytes, of a data set or of those of its files that have about the same size.

use serde::Serialize;

/// Files and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Extent {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

impl Extent {
    /// Returns the mean size of a file in bytes, at least 1.
    pub(crate) fn mean_bytes(&self) -> f64 {
        (self.bytes as f64 / self.files.max(1) as f64).max(1.0)
    }

    /// Returns files and bytes of all classes of a data set.
    pub(crate) fn sum(classes: &[Self]) -> Self {
        classes.iter().fold(Self::default(), |sum, class| Self {
            files: sum.files.saturating_add(class.files),
            bytes: sum.bytes.saturating_add(class.bytes),
        })
    }
}
