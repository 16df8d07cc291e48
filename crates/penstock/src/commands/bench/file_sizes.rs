//! Sizes of files that a storage benchmark measures, as users write them.

use penstock_proto::units::parse_size;
use serde::{Deserialize, Serialize};

/// The word for a value that the program chooses.
pub(super) const AUTOMATIC: &str = "auto";

/// Sizes in bytes, each at least 1; none where the site chooses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "WrittenSizes", into = "String")]
pub(super) struct FileSizes(Vec<u64>);

/// Sizes in a file: the text of an option, or a list of sizes and ranges.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "sizes are a text, as \"1KiB-1GiB\", or a list, as [\"4KiB\", \"1MiB\"]"
)]
enum WrittenSizes {
    Text(String),
    List(Vec<WrittenSize>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenSize {
    Bytes(u64),
    Text(String),
}

impl FileSizes {
    /// Reads `auto`, a list as `4KiB,1M`, or a range as `1KiB-1GiB`: both ends and all powers of
    /// two between them.
    ///
    /// # Errors
    /// The text is none of these; the message says why.
    pub(super) fn of(text: &str) -> Result<Self, String> {
        let size = |text: &str| match parse_size(text) {
            Ok(0) => Err("a size is at least 1 byte".to_owned()),
            size => size.map_err(|error| error.to_string()),
        };
        if text == AUTOMATIC {
            return Ok(Self::default());
        }
        list_or_range(text, "size", size).map(Self)
    }

    /// Returns the sizes in bytes; none where the site chooses.
    pub(super) fn bytes(&self) -> &[u64] {
        &self.0
    }
}

/// Reads a list as `1,4`, or a range as `1-16`: both ends and all powers of two between them.
/// `thing` names a value, and `read` reads one.
///
/// # Errors
/// Those of `read`; a range that begins with its greater end.
pub(super) fn list_or_range(
    text: &str,
    thing: &str,
    read: impl Fn(&str) -> Result<u64, String>,
) -> Result<Vec<u64>, String> {
    let Some((low, high)) = text.split_once('-') else {
        return text.split(',').map(read).collect();
    };
    let (low, high) = (read(low)?, read(high)?);
    if low > high {
        return Err(format!("the smaller {thing} comes first"));
    }
    let first = low.checked_next_power_of_two();
    let doubled = std::iter::successors(first, |one| one.checked_mul(2));
    let between = doubled.filter(|one| *one > low).take_while(|one| *one < high);
    let mut all: Vec<u64> = [low].into_iter().chain(between).chain([high]).collect();
    all.dedup();
    Ok(all)
}

impl TryFrom<WrittenSizes> for FileSizes {
    type Error = String;

    fn try_from(written: WrittenSizes) -> Result<Self, String> {
        let list = match written {
            WrittenSizes::Text(text) => return Self::of(&text),
            WrittenSizes::List(list) => list,
        };
        if list.is_empty() {
            return Err("the list has no size: leave it out for sizes of the site's choice".into());
        }
        let mut all = Vec::new();
        for size in list {
            let text = match size {
                WrittenSize::Bytes(bytes) => bytes.to_string(),
                WrittenSize::Text(text) => text,
            };
            if text == AUTOMATIC {
                return Err(format!("`{AUTOMATIC}` stands alone, not in a list"));
            }
            all.extend(Self::of(&text)?.0);
        }
        Ok(Self(all))
    }
}

impl From<FileSizes> for String {
    fn from(sizes: FileSizes) -> Self {
        if sizes.0.is_empty() {
            return AUTOMATIC.to_owned();
        }
        sizes.0.iter().map(u64::to_string).collect::<Vec<_>>().join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a file may have a list of sizes and ranges, as well as the text of the option.
    #[test]
    fn a_list_of_sizes_is_read() {
        #[derive(Deserialize)]
        struct File {
            sizes: FileSizes,
        }
        let read = |text: &str| {
            let file = toml::from_str::<File>(&format!("sizes = {text}"));
            file.map(|file| file.sizes.0).map_err(|error| error.to_string())
        };
        assert_eq!(read("'4KiB,1M'"), Ok(vec![4096, 1 << 20]));
        assert_eq!(read("['4KiB', 65536, '1M-2M']"), Ok(vec![4096, 65536, 1 << 20, 2 << 20]));
        for (wrong, why) in [("[]", "no size"), ("['auto', 5]", "alone"), ("[0]", "at least 1")] {
            assert!(read(wrong).is_err_and(|error| error.contains(why)), "{wrong}");
        }
        assert!(read("5").is_err_and(|error| error.contains("or a list, as")));
    }

    /// Promise: sizes mean what they say, are read again as they were written, and what makes no
    /// sense is refused.
    #[test]
    fn sizes_are_what_they_say() {
        let sizes = |text: &str| FileSizes::of(text).map(|sizes| sizes.0);
        assert_eq!(sizes("auto"), Ok(Vec::new()));
        assert_eq!(sizes("4KiB,1M"), Ok(vec![4096, 1 << 20]));
        assert_eq!(sizes("1K-4K"), Ok(vec![1024, 2048, 4096]));
        assert_eq!(sizes("3-9"), Ok(vec![3, 4, 8, 9]));
        assert_eq!(sizes("5-5"), Ok(vec![5]));
        let last = [u64::MAX - 1, u64::MAX];
        assert_eq!(sizes(&format!("{}-{}", last[0], last[1])), Ok(last.to_vec()));
        for text in ["auto", "5", "3-9", "1KiB-16GiB"] {
            let read = FileSizes::of(text).unwrap();
            assert_eq!(FileSizes::of(&String::from(read.clone())), Ok(read));
        }
        for wrong in ["", "0", "9-3", "4K,", "x"] {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
    }
}
