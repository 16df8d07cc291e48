//! The files of a `mem:` store that a transfer moves: so many that they have the bytes that are
//! wanted, in the order of the store.

use penstock_api::place::PathText;
use penstock_api::plan::ItemKind;
use penstock_api::rest::EntryList;
use penstock_exit::{ExitCode, Failure};

use super::ways::{Way, entries_uri};
use crate::client::Client;
use crate::forecast::extent::Extent;

/// Most paths of a transfer: a request with these has a few MiB.
const PATHS_MAX: usize = 100_000;

/// Files of a store, or directories with files, in its order.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryFiles {
    units: Vec<(PathText, Extent)>,
    /// True if the units are all that the store has.
    is_whole: bool,
}

/// The part of the files that a transfer moves.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Portion {
    /// Empty for all.
    pub(super) paths: Vec<PathText>,
    /// As far as it is known: directories are taken to be alike.
    pub(super) extent: Extent,
    /// True if no more is known.
    pub(super) is_whole: bool,
}

impl Portion {
    /// Returns whether it is all that the store has.
    pub(super) fn is_all(&self) -> bool {
        self.is_whole && self.paths.is_empty()
    }
}

impl MemoryFiles {
    /// Lists what a store has: files of its root, or those of its first directory and the other
    /// directories. No more is listed than has `bytes_max`.
    ///
    /// # Errors
    /// The store cannot be listed, or has no bytes.
    pub(super) fn list(client: &Client, way: &Way, bytes_max: u64) -> anyhow::Result<Self> {
        let root = entries(client, way, &PathText::default(), bytes_max)?;
        let mut directories = root.of(ItemKind::Directory);
        let Some((first, _)) = directories.next() else {
            let units = root.of(ItemKind::File).collect();
            return Self { units, is_whole: root.is_whole }.checked(way);
        };
        let within = entries(client, way, &first, bytes_max)?;
        let mut units: Vec<(PathText, Extent)> = within.of(ItemKind::File).collect();
        let all: Vec<Extent> = units.iter().map(|(_, extent)| *extent).collect();
        if within.is_whole {
            units.extend(directories.map(|(path, _)| (path, Extent::sum(&all))));
        }
        Self { units, is_whole: within.is_whole && root.is_whole }.checked(way)
    }

    fn checked(self, way: &Way) -> anyhow::Result<Self> {
        if self.units.iter().any(|(_, extent)| extent.bytes > 0) {
            return Ok(self);
        }
        let message = format!("store `{}` has no bytes to move", way.source.store);
        Err(Failure::new(ExitCode::Usage, message)
            .hint("give its `mem:` files of some size")
            .into())
    }

    /// Returns the first files that have so many bytes together.
    pub(super) fn portion(&self, bytes: u64) -> Portion {
        let mut portion = Portion::default();
        for (path, extent) in &self.units {
            if portion.extent.bytes >= bytes {
                return portion;
            }
            portion.paths.push(path.clone());
            portion.extent = Extent::sum(&[portion.extent, *extent]);
        }
        if self.is_whole {
            portion.paths.clear();
        }
        portion.is_whole = true;
        portion
    }
}

/// Entries of a directory: path within the store, kind, bytes.
struct Entries {
    items: Vec<(PathText, ItemKind, u64)>,
    is_whole: bool,
}

impl Entries {
    /// Returns those of a kind, each with its own files and bytes.
    fn of(&self, kind: ItemKind) -> impl Iterator<Item = (PathText, Extent)> {
        let its = self.items.iter().filter(move |(_, its, _)| *its == kind);
        its.map(|(path, _, bytes)| (path.clone(), Extent { files: 1, bytes: *bytes }))
    }
}

fn entries(client: &Client, way: &Way, path: &PathText, bytes_max: u64) -> anyhow::Result<Entries> {
    let uri = entries_uri(way, path);
    let (mut items, mut bytes, mut cursor) = (Vec::new(), 0, None);
    loop {
        let part = match &cursor {
            Some(cursor) => uri.clone().query("cursor", cursor),
            None => uri.clone(),
        };
        let list: EntryList = client.get(&part)?;
        for entry in list.items {
            let between: &[u8] = if path.0.is_empty() { b"" } else { b"/" };
            let full = PathText([&path.0, between, &entry.name.0].concat());
            let size = entry.bytes.unwrap_or(0);
            bytes += size;
            items.push((full, entry.kind, size));
        }
        let Some(next) = list.next else { return Ok(Entries { items, is_whole: true }) };
        if bytes >= bytes_max || items.len() >= PATHS_MAX {
            return Ok(Entries { items, is_whole: false });
        }
        cursor = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a portion has the bytes that are wanted, by whole files; all of a store needs no
    /// list of paths.
    #[test]
    fn a_portion_has_the_bytes_that_are_wanted() {
        let unit = |name: &str| (PathText(name.into()), Extent { files: 2, bytes: 10 });
        let files = MemoryFiles { units: ["a", "b", "c"].map(unit).to_vec(), is_whole: true };
        let portion = files.portion(11);
        assert_eq!(portion.paths, [PathText("a".into()), PathText("b".into())]);
        assert_eq!((portion.extent, portion.is_whole), (Extent { files: 4, bytes: 20 }, false));
        let all = files.portion(1000);
        assert_eq!((all.paths.len(), all.extent.bytes, all.is_whole), (0, 30, true));
        let part = MemoryFiles { is_whole: false, ..files };
        assert_eq!(part.portion(1000).paths.len(), 3, "the store has more, which was not listed");
    }
}
