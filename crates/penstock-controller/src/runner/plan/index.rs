//! Finds items of a plan by their paths, on disk: a file of hashes in ascending order, each with
//! the offset of its line, and whether it was met.
//!
//! Items are put into [`PARTS`] files by the first byte of their hash. Each file is sorted in
//! memory, and all are joined. A bounded table has the places of the hashes that begin with the
//! same two bytes: a search reads a few records of 32 bytes for any number of items.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use penstock_api::plan::{PlanAction, PlanHead, PlanItem, PlanLine, PlanReader};
use penstock_api::problem::{Problem, ProblemCode};

use crate::runner::journal::failed;
use crate::runner::journal::names::{beside, own};

/// Files that items are put into by hash.
const PARTS: usize = 256;
/// Bytes of a record: hash, offset, whether it was met.
const RECORD: usize = 32;
/// Offset in a record of the flag that is set once the item was met.
const MET: usize = 24;
/// Bytes of a line that are read first: most lines are not longer.
const LINE_BYTES: usize = 512;

/// The set in which an item's path is searched: the data set, or the entries to delete at the
/// target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// The data set.
    Source,
    /// Entries that exist only at the target.
    Target,
}

impl Side {
    pub(super) fn of(item: &PlanItem) -> Self {
        if item.action == PlanAction::Delete { Self::Target } else { Self::Source }
    }
}

fn hash_of(side: Side, path: &[u8]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(if side == Side::Source { b"s" } else { b"t" });
    hasher.update(path);
    let mut hash = [0; 16];
    hash.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    hash
}

fn unsound(why: impl std::fmt::Display) -> Problem {
    Problem::new(ProblemCode::PlanBroken, "the plan is damaged or incomplete").because(why)
}

/// The items of a plan by their paths.
pub(super) struct Index {
    plan: File,
    path: PathBuf,
    records: File,
    /// First record of the hashes that begin with each two bytes, and how many there are.
    table: Vec<u64>,
}

impl Index {
    /// Reads the plan at `plan` and makes its index beside it, which only the controller under
    /// `epoch` writes. Blocks for a walk of the plan.
    ///
    /// # Errors
    /// Code `plan-broken`: it is not whole, not the one with this digest, or names a path twice;
    /// the journal store cannot be written.
    pub(super) fn build(
        plan: &Path,
        digest: &str,
        epoch: u64,
    ) -> Result<(Self, PlanHead), Problem> {
        let lost = |cause: io::Error| failed("read", plan, &cause);
        let file = File::open(plan).map_err(lost)?;
        let (mut reader, head) = PlanReader::open(BufReader::with_capacity(1 << 18, file))?;
        let path = own(&plan.with_extension("index"), epoch);
        let mut parts: Vec<Option<(PathBuf, BufWriter<File>)>> = Vec::new();
        parts.resize_with(PARTS, || None);
        while let Some((offset, item)) = reader.item()? {
            let hash = hash_of(Side::of(&item), &item.path.0);
            let part = usize::from(hash[0]);
            let (part_path, out) = match &mut parts[part] {
                Some(part) => part,
                none => {
                    let part_path = beside(&path, &format!("-{part:03}"));
                    let file = File::create(&part_path)
                        .map_err(|cause| failed("write", &part_path, &cause))?;
                    none.insert((part_path, BufWriter::new(file)))
                }
            };
            out.write_all(&hash)
                .and_then(|()| out.write_all(&offset.to_le_bytes()))
                .map_err(|cause| failed("write", part_path, &cause))?;
        }
        let end = reader.finish()?;
        if end.digest != digest {
            return Err(unsound("it is not the plan that was asked for"));
        }
        let table = join(&path, parts)?;
        let records = OpenOptions::new().read(true).write(true).open(&path);
        let records = records.map_err(|cause| failed("read", &path, &cause))?;
        let plan = File::open(plan).map_err(lost)?;
        Ok((Self { plan, path, records, table }, head))
    }

    /// Returns the item of a path, and its record; `None` if the plan has none.
    ///
    /// # Errors
    /// Plan or index cannot be read.
    pub(super) fn find(&self, side: Side, path: &[u8]) -> Result<Option<(u64, PlanItem)>, Problem> {
        let hash = hash_of(side, path);
        let bucket = usize::from(u16::from_be_bytes([hash[0], hash[1]]));
        let (mut low, mut high) = (self.table[bucket], self.table[bucket + 1]);
        while low < high {
            let middle = low + (high - low) / 2;
            let record = self.record(middle)?;
            match record[..16].cmp(&hash[..]) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Ok(Some((middle, self.item(&record)?))),
            }
        }
        Ok(None)
    }

    /// Notes that an item was met.
    ///
    /// # Errors
    /// The index cannot be written.
    pub(super) fn meet(&self, record: u64) -> Result<(), Problem> {
        let at = record * RECORD as u64 + MET as u64;
        self.records.write_all_at(&[1], at).map_err(|cause| failed("write", &self.path, &cause))
    }

    /// Passes each item that was not met to `visit`.
    ///
    /// # Errors
    /// Plan or index cannot be read; the error of `visit`.
    pub(super) fn unmet(
        &self,
        visit: &mut dyn FnMut(PlanItem) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let lost = |cause: io::Error| failed("read", &self.path, &cause);
        let file = File::open(&self.path).map_err(lost)?;
        let mut input = BufReader::with_capacity(1 << 18, file);
        let mut record = [0; RECORD];
        for _ in 0..self.count() {
            input.read_exact(&mut record).map_err(lost)?;
            if record[MET] == 0 {
                visit(self.item(&record)?)?;
            }
        }
        Ok(())
    }

    fn count(&self) -> u64 {
        self.table.last().copied().unwrap_or(0)
    }

    fn record(&self, number: u64) -> Result<[u8; RECORD], Problem> {
        let mut record = [0; RECORD];
        self.records
            .read_exact_at(&mut record, number * RECORD as u64)
            .map_err(|cause| failed("read", &self.path, &cause))?;
        Ok(record)
    }

    fn item(&self, record: &[u8; RECORD]) -> Result<PlanItem, Problem> {
        let lost = |cause: io::Error| failed("read", &self.path, &cause);
        let mut offset = [0; 8];
        offset.copy_from_slice(&record[16..24]);
        let offset = u64::from_le_bytes(offset);
        let mut text = vec![0; LINE_BYTES];
        let mut length = 0;
        loop {
            let read = self.plan.read_at(&mut text[length..], offset + length as u64);
            let read = read.map_err(lost)?;
            let end = text[length..length + read].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end {
                text.truncate(length + end);
                break;
            }
            if read == 0 {
                return Err(unsound("it was changed while it was followed"));
            }
            length += read;
            text.resize(length * 2 + LINE_BYTES, 0);
        }
        match serde_json::from_slice(&text).map_err(unsound)? {
            PlanLine::Item(item) => Ok(item),
            _ => Err(unsound("it was changed while it was followed")),
        }
    }
}

type Parts = Vec<Option<(PathBuf, BufWriter<File>)>>;

/// Sorts the parts into one file. Returns its table.
fn join(path: &Path, parts: Parts) -> Result<Vec<u64>, Problem> {
    let lost = |cause: io::Error| failed("write", path, &cause);
    let mut out = BufWriter::new(File::create(path).map_err(lost)?);
    let mut table = vec![0u64; (1 << 16) + 1];
    for (part_path, mut file) in parts.into_iter().flatten() {
        let lost_part = |cause: io::Error| failed("read", &part_path, &cause);
        file.flush().map_err(lost_part)?;
        let bytes = std::fs::read(&part_path).map_err(lost_part)?;
        std::fs::remove_file(&part_path).map_err(lost_part)?;
        let mut records: Vec<&[u8]> = bytes.chunks_exact(24).collect();
        records.sort_unstable();
        if records.windows(2).any(|pair| pair[0][..16] == pair[1][..16]) {
            return Err(unsound("it names a path twice"));
        }
        for record in records {
            let bucket = usize::from(u16::from_be_bytes([record[0], record[1]]));
            table[bucket + 1] += 1;
            out.write_all(record).and_then(|()| out.write_all(&[0; 8])).map_err(lost)?;
        }
    }
    out.flush().map_err(lost)?;
    for bucket in 0..1 << 16 {
        table[bucket + 1] += table[bucket];
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_api::plan::{ItemKind, PLAN_VERSION, PlanEnd, PlanWriter};
    use penstock_api::transfer::{PathText, TransferOptions};

    fn item(action: PlanAction, path: &[u8], size: u64) -> PlanItem {
        PlanItem {
            action,
            path: PathText(path.to_vec()),
            kind: ItemKind::File,
            size,
            mtime: (0, 0),
            link: None,
            why: String::new(),
            there: None,
        }
    }

    fn write(path: &Path, items: &[PlanItem]) -> String {
        let mut out = File::create(path).unwrap();
        let head = PlanHead {
            v: PLAN_VERSION,
            source: PathText::default(),
            target: PathText::default(),
            root: PathText::default(),
            store: None,
            made: 0,
            options: TransferOptions::default(),
        };
        let mut writer = PlanWriter::begin(&mut out, head).unwrap();
        items.iter().for_each(|item| writer.add(item.clone()).unwrap());
        writer.end(PlanEnd::default()).unwrap().digest
    }

    /// Promise (g): any item of a plan is found by its path without the plan in memory. An item
    /// that the plan does not name is not found, and unused items are reported.
    #[test]
    fn items_are_found_by_their_paths() {
        let work = tempfile::tempdir().unwrap();
        let path = work.path().join("plan.jsonl");
        let long = vec![b'\n'; 4000];
        let mut items: Vec<_> = (0..5000u64)
            .map(|at| item(PlanAction::Copy, format!("d/{at}").as_bytes(), at))
            .collect();
        items.push(item(PlanAction::Delete, b"d/7", 70));
        items.push(item(PlanAction::Skip, &long, 1));
        let digest = write(&path, &items);
        let (index, _) = Index::build(&path, &digest, 0).unwrap();
        for item in &items {
            let (record, found) = index.find(Side::of(item), &item.path.0).unwrap().unwrap();
            assert_eq!(&found, item);
            if item.size != 4321 {
                index.meet(record).unwrap();
            }
        }
        assert!(index.find(Side::Source, b"d/5000").unwrap().is_none());
        assert!(index.find(Side::Target, b"d/8").unwrap().is_none());
        let mut unmet = Vec::new();
        index
            .unmet(&mut |item| {
                unmet.push(item.size);
                Ok(())
            })
            .unwrap();
        assert_eq!(unmet, [4321]);
        assert_eq!(Index::build(&path, "another", 0).err().unwrap().code, ProblemCode::PlanBroken);
        items.push(item(PlanAction::Copy, b"d/9", 0));
        let digest = write(&path, &items);
        let twice = Index::build(&path, &digest, 0).err().unwrap();
        assert!(twice.detail.contains("twice"), "{twice}");
        let (empty, _) = Index::build(&path, &write(&path, &[]), 0).unwrap();
        assert!(empty.find(Side::Source, b"").unwrap().is_none());
    }
}
