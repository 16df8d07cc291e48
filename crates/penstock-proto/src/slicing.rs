//! Parameters for cutting a page into pieces. They are chosen when a page is sealed, stored in it
//! and never changed (hard case A10): a bit in a ledger always means the same bytes.
//!
//! `penstock_engine::slice` does the cutting; this module has only the parameters and the
//! arithmetic on which digests depend.

use crate::units::{GIB, KIB, MIB};
use crate::version;
use crate::wire::{DecodeError, Reader, Writer};

/// Smallest extent of a large file; hard case D1 requires at least 1 MiB.
pub const EXTENT_BYTES_FLOOR: u64 = MIB;
/// Largest extent of a large file.
pub const EXTENT_BYTES_CEILING: u64 = GIB;
/// Extents double in size until a file has at most this many, so that one file's pieces and
/// digests fit in memory: 4,096 × 32 B of digests.
pub const EXTENTS_PER_FILE: u64 = 4096;
/// Most extents of any file: beyond 1 PiB they double past [`EXTENT_BYTES_CEILING`], so that a
/// sparse file of 8 EiB, which costs its owner nothing, costs no more memory than one of 1 PiB.
pub const EXTENTS_PER_FILE_MAX: u64 = 1024 * 1024;
/// Largest stride, which is also the largest payload of a frame.
pub const STRIDE_BYTES_MAX: u32 = 1024 * 1024;
/// Largest number of files that one pack may hold.
pub const PACK_FILES_MAX: u32 = 4096;

const _: () = assert!(STRIDE_BYTES_MAX as u64 <= EXTENT_BYTES_FLOOR, "an extent is whole strides");

/// The parameters by which one page is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slicing {
    /// Algorithm that cuts; see `penstock_engine::slice`. The newest one that the readers of the
    /// page know, see [`version`].
    pub version: u16,
    /// Bytes that are read, hashed, sent, checked and written at a time: a power of two, 16 KiB to
    /// 1 MiB. Chosen so that a stride stays in one core's L2 cache.
    pub stride_bytes: u32,
    /// Size of an extent of files that are not huge: a power of two, 1 MiB to 1 GiB. A file of at
    /// most this size travels whole.
    pub extent_bytes: u64,
    /// Whole files are packed together up to this many bytes.
    pub pack_bytes: u64,
    /// Whole files are packed together up to this many files, at most [`PACK_FILES_MAX`].
    pub pack_files: u32,
}

impl Default for Slicing {
    fn default() -> Self {
        Self {
            version: version::known().slicers().newest,
            stride_bytes: 512 * KIB as u32,
            extent_bytes: 16 * MIB,
            pack_bytes: 8 * MIB,
            pack_files: 1024,
        }
    }
}

impl Slicing {
    /// Returns the default with extents of `extent_bytes` and packs of half of that, as in the
    /// default. [`Slicing::check`] checks the bounds.
    pub fn with_extent_bytes(extent_bytes: u64) -> Self {
        Self { extent_bytes, pack_bytes: extent_bytes / 2, ..Self::default() }
    }

    /// Returns the parameters with a version that is no newer than `version`.
    pub fn no_newer_than(self, version: u16) -> Self {
        Self { version: self.version.min(version), ..self }
    }

    /// Returns the most files of a pack. The next version, known only to tests of upgrades, packs
    /// half of them, so that a mix of both versions is detected.
    pub fn files_per_pack(&self) -> u32 {
        match self.version {
            0 | 1 => self.pack_files,
            _ => self.pack_files.div_ceil(2),
        }
    }

    /// Returns the size of the extents of a file of `file_bytes`. This is `extent_bytes`, doubled
    /// until the file has at most [`EXTENTS_PER_FILE`] or the extent is [`EXTENT_BYTES_CEILING`],
    /// and then until it has at most [`EXTENTS_PER_FILE_MAX`].
    pub fn extent_bytes_of(&self, file_bytes: u64) -> u64 {
        let mut extent = self.extent_bytes;
        loop {
            let count = file_bytes.div_ceil(extent);
            let enough = count <= EXTENTS_PER_FILE
                || (extent >= EXTENT_BYTES_CEILING && count <= EXTENTS_PER_FILE_MAX);
            if enough {
                return extent;
            }
            extent *= 2;
        }
    }

    /// Returns whether a file of `file_bytes` travels as several extents rather than whole.
    pub fn is_split(&self, file_bytes: u64) -> bool {
        file_bytes > self.extent_bytes_of(file_bytes)
    }

    /// Returns the number of extents of a file of `file_bytes`; 1 for a file that travels whole.
    pub fn extent_count(&self, file_bytes: u64) -> u64 {
        file_bytes.div_ceil(self.extent_bytes_of(file_bytes)).max(1)
    }

    /// Checks the conditions on which all arithmetic relies; to be called for any parameters from
    /// outside.
    ///
    /// # Errors
    /// `Invalid` names the field that is out of its bounds, `Unknown` is a version not known here.
    pub fn check(&self) -> Result<(), DecodeError> {
        let stride_sound = self.stride_bytes.is_power_of_two()
            && (16 * KIB as u32..=STRIDE_BYTES_MAX).contains(&self.stride_bytes);
        let extent_sound = self.extent_bytes.is_power_of_two()
            && (EXTENT_BYTES_FLOOR..=EXTENT_BYTES_CEILING).contains(&self.extent_bytes);
        if !version::known().slicers().contains(self.version) {
            return Err(DecodeError::Unknown("slicer version"));
        }
        if !stride_sound {
            return Err(DecodeError::Invalid("stride bytes"));
        }
        if !extent_sound || self.pack_bytes > EXTENT_BYTES_CEILING {
            return Err(DecodeError::Invalid("extent bytes"));
        }
        if self.pack_files == 0 || self.pack_files > PACK_FILES_MAX {
            return Err(DecodeError::Invalid("pack files"));
        }
        Ok(())
    }

    pub(crate) fn encode(&self, out: &mut Writer) {
        out.u16(self.version);
        out.u32(self.stride_bytes);
        out.u64(self.extent_bytes);
        out.u64(self.pack_bytes);
        out.u32(self.pack_files);
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let slicing = Self {
            version: input.u16("slicer version")?,
            stride_bytes: input.u32("stride bytes")?,
            extent_bytes: input.u64("extent bytes")?,
            pack_bytes: input.u64("pack bytes")?,
            pack_files: input.u32("pack files")?,
        };
        slicing.check()?;
        Ok(slicing)
    }
}

/// Reference to one piece of one transfer: its page and its index in the page's cutting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PieceRef {
    /// Number of the page, from 0.
    pub page: u32,
    /// Index of the piece within the page, from 0.
    pub piece: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::TIB;

    /// Promise (g): no size that a file system can tell makes more pieces than memory holds, and
    /// files up to 1 PiB are cut into extents of at most 1 GiB.
    #[test]
    fn the_number_of_extents_is_bounded() {
        let slicing = Slicing { extent_bytes: EXTENT_BYTES_FLOOR, ..Slicing::default() };
        for power in 0..63 {
            for bytes in [(1 << power) - 1, 1 << power, (1 << power) + 1, i64::MAX as u64] {
                let extent = slicing.extent_bytes_of(bytes);
                assert!(extent.is_power_of_two(), "{bytes}");
                assert!(slicing.extent_count(bytes) <= EXTENTS_PER_FILE_MAX, "{bytes}");
                let ordinary = bytes <= 1024 * TIB;
                assert!(!ordinary || extent <= EXTENT_BYTES_CEILING, "{bytes}");
            }
        }
    }

    /// Parameters that would divide by zero or overrun a buffer are refused.
    #[test]
    fn unsound_parameters_are_refused() {
        let sound = Slicing::default();
        assert_eq!(sound.check(), Ok(()));
        for bad in [
            Slicing { version: 0, ..sound },
            Slicing { stride_bytes: 0, ..sound },
            Slicing { stride_bytes: 2 * STRIDE_BYTES_MAX, ..sound },
            Slicing { extent_bytes: 0, ..sound },
            Slicing { extent_bytes: 3 * MIB, ..sound },
            Slicing { pack_files: 0, ..sound },
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
