//! The rule of a generated data set.

use std::fmt;
use std::str::FromStr;

use penstock_proto::units::parse_size;

use crate::mem::file::mix;

const ENTRIES_MAX: u64 = 1_000_000_000_000;
const FILE_BYTES_MAX: u64 = 1 << 60;

/// The rule of a generated data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemSpec {
    /// Number of files.
    pub files: u64,
    /// Smallest size of a file in bytes.
    pub size_min: u64,
    /// Largest size of a file in bytes; sizes between are equally likely.
    pub size_max: u64,
    /// Number of directories that share the files; 0: all files are in the root.
    pub dirs: u64,
    /// Seed of the bytes and sizes.
    pub seed: u64,
}

impl Default for MemSpec {
    /// Returns a data set of one file of 1 GiB.
    fn default() -> Self {
        Self { files: 1, size_min: 1 << 30, size_max: 1 << 30, dirs: 0, seed: 0 }
    }
}

/// The reason why a text is not the rule of a generated data set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: {reason}; for example `mem:files=1000,size=64K,dirs=10,seed=1`")]
pub struct ParseMemSpecError {
    /// The part that was not understood.
    text: String,
    /// The expected text.
    reason: &'static str,
}

impl FromStr for MemSpec {
    type Err = ParseMemSpecError;

    /// Reads `mem:KEY=VALUE,…`, with or without `mem:`. `size` is one size or `MIN-MAX`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut spec = Self::default();
        let body = text.strip_prefix("mem:").unwrap_or(text);
        for part in body.split(',').filter(|part| !part.is_empty()) {
            let error = |reason| ParseMemSpecError { text: part.to_owned(), reason };
            let (key, value) = part.split_once('=').ok_or_else(|| error("expected KEY=VALUE"))?;
            let count = || value.parse::<u64>().map_err(|_| error("not a whole number"));
            match key {
                "files" => spec.files = count()?,
                "dirs" => spec.dirs = count()?,
                "seed" => spec.seed = count()?,
                "size" => {
                    let (low, high) = value.split_once('-').unwrap_or((value, value));
                    let size = |text| parse_size(text).map_err(|_| error("not a size"));
                    (spec.size_min, spec.size_max) = (size(low)?, size(high)?);
                }
                _ => return Err(error("unknown key: files, size, dirs or seed")),
            }
            if spec.files.max(spec.dirs) > ENTRIES_MAX || spec.size_max > FILE_BYTES_MAX {
                return Err(error("too large: at most 10^12 entries and 1 EiB a file"));
            }
            if spec.size_min > spec.size_max {
                return Err(error("the smaller size comes first"));
            }
        }
        Ok(spec)
    }
}

impl fmt::Display for MemSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mem:files={},size={}", self.files, self.size_min)?;
        if self.size_max != self.size_min {
            write!(f, "-{}", self.size_max)?;
        }
        write!(f, ",dirs={},seed={}", self.dirs, self.seed)
    }
}

impl MemSpec {
    fn files_per_dir(&self) -> u64 {
        self.files.div_ceil(self.dirs.max(1)).max(1)
    }

    /// Numbers of the files in the directory with this number, or in the root.
    pub(crate) fn files_in(&self, dir: Option<u64>) -> std::ops::Range<u64> {
        match dir {
            None if self.dirs == 0 => 0..self.files,
            None => 0..0,
            Some(number) => {
                let start = number.saturating_mul(self.files_per_dir()).min(self.files);
                start..start.saturating_add(self.files_per_dir()).min(self.files)
            }
        }
    }

    pub(crate) fn file_bytes(&self, file: u64) -> u64 {
        let spread = self.size_max - self.size_min;
        if spread == 0 {
            return self.size_min;
        }
        self.size_min + mix(mix(self.seed) ^ !file) % (spread + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a typed rule is read and written without change, and the error of a wrong one names
    /// the fault.
    #[test]
    fn rules_are_read_and_written() {
        let spec: MemSpec = "mem:files=1000,size=64K-1M,dirs=10,seed=7".parse().unwrap();
        assert_eq!((spec.files, spec.size_min, spec.size_max), (1000, 65_536, 1 << 20));
        assert_eq!(spec.to_string().parse(), Ok(spec));
        for bad in ["files", "files=x", "size=9Q", "colour=1", "size=2-1", "files=99999999999999"] {
            assert!(bad.parse::<MemSpec>().is_err(), "`{bad}` must be refused");
        }
    }
}
