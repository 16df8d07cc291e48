//! Shapes of data sets by short names, as evaluations are published with: `1048576x4KiB` for that
//! many files of a size, `esnet@3GiB` for a preset with that many bytes.

use std::fmt;
use std::str::FromStr;

use clap::ValueEnum as _;
use penstock_proto::units::parse_size;

use super::histogram::Counts;
use super::preset::{BYTES_MIN, Preset};

/// Most files of a shape: the list of sizes takes 8 bytes for each.
const FILES_MAX: u64 = 100_000_000;

/// Numbers and sizes of the files of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    name: String,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Equal { files: u64, size: u64 },
    Scaled { preset: Preset, bytes: u64 },
}

impl Shape {
    /// Returns the size of each file, class by class.
    pub(crate) fn sizes(&self) -> Vec<u64> {
        match self.kind {
            Kind::Equal { files, size } => vec![size; files as usize],
            Kind::Scaled { preset, bytes } => preset.sizes(bytes),
        }
    }

    /// Counts the files; of equal ones none is held in memory.
    pub(crate) fn count(&self, counts: &mut Counts) {
        match self.kind {
            Kind::Equal { files, size } => counts.add_equal(files, size),
            Kind::Scaled { preset, bytes } => {
                preset.sizes(bytes).into_iter().for_each(|size| counts.add(size));
            }
        }
    }
}

impl fmt::Display for Shape {
    /// Writes the name as it was given.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.name)
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let kind = match (name.split_once('@'), name.split_once('x')) {
            (Some((preset, bytes)), _) => scaled(preset, bytes)?,
            (None, Some((files, size))) => equal(files, size)?,
            (None, None) => {
                return Err(format!(
                    "`{name}` is no data set: give FILESxSIZE as 1048576x4KiB, PRESET@BYTES as \
                     esnet@3GiB, or dir:PATH"
                ));
            }
        };
        Ok(Self { name: name.to_owned(), kind })
    }
}

fn equal(files: &str, size: &str) -> Result<Kind, String> {
    let number = files.parse().ok().filter(|files| (1..=FILES_MAX).contains(files));
    let files = number.ok_or_else(|| {
        format!("`{files}` is no number of files: give 1 to {FILES_MAX}, as in 20x50GiB")
    })?;
    let size = parse_size(size).map_err(|error| error.to_string())?;
    Ok(Kind::Equal { files, size })
}

fn scaled(preset: &str, bytes: &str) -> Result<Kind, String> {
    let known = Preset::value_variants().iter().filter_map(Preset::to_possible_value);
    let preset = Preset::from_str(preset, false).map_err(|_| {
        let known: Vec<_> = known.map(|value| value.get_name().to_owned()).collect();
        format!("`{preset}` is no preset: there are {}", known.join(", "))
    })?;
    let bytes = parse_size(bytes).map_err(|error| error.to_string())?;
    if bytes < BYTES_MIN {
        return Err("a preset has at least 1 MiB, as in esnet@3GiB".to_owned());
    }
    Ok(Kind::Scaled { preset, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: names of evaluations mean what they say, and what makes no sense is refused.
    #[test]
    fn names_are_read() {
        let shape = |name: &str| name.parse::<Shape>();
        let small = shape("12x4KiB").unwrap();
        assert_eq!((small.sizes(), small.to_string()), (vec![4096; 12], "12x4KiB".to_owned()));
        assert_eq!(shape("1x0").unwrap().sizes(), [0]);
        for name in ["12x4KiB", "jpcs@8MiB"] {
            let (mut all, mut each) = (Counts::default(), Counts::default());
            shape(name).unwrap().count(&mut all);
            shape(name).unwrap().sizes().into_iter().for_each(|size| each.add(size));
            assert_eq!((all.files(), all.bytes()), (each.files(), each.bytes()));
        }
        let preset = shape("jpcs@8MiB").unwrap().sizes();
        assert_eq!(preset.iter().sum::<u64>(), 8 << 20);
        for wrong in ["", "4KiB", "0x4KiB", "x", "1x", "3x4Q", "esnet", "esnet@1K", "essnet@3G"] {
            assert!(shape(wrong).is_err(), "{wrong}");
        }
        assert!(shape("essnet@3G").unwrap_err().contains("slac-losf"));
    }
}
