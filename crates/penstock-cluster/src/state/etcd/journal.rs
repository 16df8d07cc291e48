//! The part of the shared journal about the site's records in etcd: the incarnation that the
//! journal belongs to, and a copy of the records.
//!
//! ```text
//! JOURNAL/incarnation.XXXX     the incarnation of the records that this journal belongs to; its
//!                              time is when a controller was at work last
//! JOURNAL/records/EPOCH.log    all records, as the controller of that epoch found and wrote them
//! JOURNAL/voters.json          the members with a vote in the site's own etcd; see `voters`
//! ```
//! A log begins with all records that its controller read when it was elected. Each write that etcd
//! has confirmed is appended and synced. The log is as new as etcd except for writes in progress.
//! Each line carries the revision of etcd at which it held, and a checksum. Writes that were in
//! progress at once may be appended in any order: of a key's lines the one with the highest
//! revision counts.
//!
//! So a lost etcd can be made again. An etcd restored from a backup is recognised by its revision,
//! which is lower than that of the log: no peer leads with it before `penstock site recover` has
//! given the records another incarnation (B4).
//!
//! The mark separates two etcds of one site, each of which may have a majority: no peer is elected
//! with records of an incarnation whose mark is missing. An etcd receives another incarnation only
//! after its mark was made, by one host alone, and the earlier marks were removed. So at most one
//! of the incarnations that any etcd holds is the journal's.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};

/// Prefix of the files that name the incarnation to which the journal belongs.
const MARK: &str = "incarnation";
const RECORDS: &str = "records";
/// Bits of an epoch that are of the revision; those above are of the incarnation.
const REVISION_BITS: u32 = 40;
/// Bits of an incarnation that epochs hold, and that are counted up.
const COUNTED_BITS: u32 = 64 - REVISION_BITS;
/// Hexadecimal digits of a line's checksum.
const CHECK_DIGITS: usize = 16;
/// Bytes at the end of a log among which its last line is: no line is half as long.
const TAIL_BYTES: u64 = 256 << 10;

/// The journal that all peers of a site share, as far as it is about their records in etcd.
#[derive(Clone, Debug)]
pub struct SharedJournal {
    root: PathBuf,
}

/// The reason why a peer may not lead, or not begin a site, with this journal.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The journal cannot be read or written.
    #[error("the journal `{}` cannot be used: {cause}", .root.display())]
    Unusable {
        /// The journal.
        root: PathBuf,
        /// The error of the system.
        cause: io::Error,
    },
    /// The journal moved on from the records, and no host gave etcd the next incarnation.
    #[error(
        "a takeover or a recovery of this site is not complete; if no other host continues it, \
         `penstock site recover` completes it"
    )]
    CutShort,
    /// The journal never was that of the records.
    #[error(
        "the journal `{}` is not the one that the other peers of the site use; is it mounted?",
        .0.display()
    )]
    Foreign(PathBuf),
    /// etcd went back in time.
    #[error(
        "etcd is older than the journal: its records are of revision {etcd}, the journal has seen \
         {journal}; if etcd was restored from a backup, `penstock site recover` continues from the \
         journal"
    )]
    EtcdIsOlder {
        /// Revision of etcd at which a record was written last.
        etcd: u64,
        /// Revision that the copy in the journal has seen.
        journal: u64,
    },
    /// etcd is empty and the journal is not.
    #[error(
        "etcd has no records of this site, but the journal `{}` has: etcd was lost, or is another \
         one; `penstock site recover` continues from the journal",
        .0.display()
    )]
    HasRecords(PathBuf),
}

/// The newest copy of the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Newest {
    pub(super) path: PathBuf,
    /// Epoch of its controller.
    pub(super) epoch: u64,
    /// Highest revision of etcd among its last lines.
    pub(super) revision: u64,
}

impl Newest {
    /// Returns the position in the history of the site: incarnation, then revision.
    pub(super) fn place(&self) -> u64 {
        place(self.epoch >> REVISION_BITS, self.revision)
    }
}

/// Returns the position of records of this incarnation and revision in the history of a site.
pub(super) fn place(incarnation: u64, revision: u64) -> u64 {
    counted(incarnation) << REVISION_BITS | revision & 0xff_ffff_ffff
}

fn counted(incarnation: u64) -> u64 {
    incarnation & ((1 << COUNTED_BITS) - 1)
}

/// Orders incarnations as the epochs within them are.
pub(super) fn rank(incarnation: u64) -> (u64, u64) {
    (counted(incarnation), incarnation)
}

/// Returns whether an incarnation was counted up from another one.
fn is_later(incarnation: u64, than: u64) -> bool {
    incarnation > than && incarnation >> COUNTED_BITS == than >> COUNTED_BITS
}

/// A line of a log.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    /// Revision of etcd.
    r: u64,
    /// Key, without the prefix of the site.
    k: String,
    /// Value in base64; none for one that was removed.
    v: Option<String>,
}

impl SharedJournal {
    /// Returns the journal at `root`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    /// Checks whether a peer that reaches this journal may lead with records of `incarnation` that
    /// were written last at `revision` of etcd. Blocks on storage.
    ///
    /// # Errors
    /// The reason why it may not.
    pub fn check(&self, incarnation: u64, revision: u64) -> Result<(), JournalError> {
        let unusable = |cause| self.unusable(cause);
        if !self.has_mark(incarnation).map_err(unusable)? {
            return Err(match self.is_left(incarnation).map_err(unusable)? {
                true => JournalError::CutShort,
                false => JournalError::Foreign(self.root.clone()),
            });
        }
        match self.newest().map_err(unusable)? {
            Some(newest) if newest.place() > place(incarnation, revision) => {
                Err(JournalError::EtcdIsOlder { etcd: revision, journal: newest.revision })
            }
            _ => Ok(()),
        }
    }

    fn unusable(&self, cause: io::Error) -> JournalError {
        JournalError::Unusable { root: self.root.clone(), cause }
    }

    /// Becomes the journal of the first records of a site, which are to be of `incarnation`. Blocks
    /// on storage.
    ///
    /// # Errors
    /// The journal cannot be used, or has records of the site.
    pub fn begin(&self, incarnation: u64) -> Result<(), JournalError> {
        if self.newest().map_err(|cause| self.unusable(cause))?.is_some() {
            return Err(JournalError::HasRecords(self.root.clone()));
        }
        self.set_mark(incarnation).map_err(|cause| self.unusable(cause))
    }

    /// Takes [`SharedJournal::begin`] back: the first records are of another incarnation. Blocks on
    /// storage.
    ///
    /// # Errors
    /// The journal cannot be used.
    pub fn withdraw(&self, incarnation: u64) -> Result<(), JournalError> {
        self.remove_mark(incarnation).map_err(|cause| self.unusable(cause))
    }

    /// Returns whether the journal moved to an incarnation counted up from this one, which no
    /// longer counts.
    pub(super) fn is_left(&self, incarnation: u64) -> io::Result<bool> {
        let later = |mark: &u64| is_later(*mark, incarnation);
        Ok(!self.has_mark(incarnation)? && self.marks()?.iter().any(later))
    }

    /// Returns whether the journal belongs to this incarnation's records.
    pub(super) fn has_mark(&self, incarnation: u64) -> io::Result<bool> {
        // A network file system asks again at each open whether a file exists.
        match File::open(self.mark(incarnation)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the path of a file of the journal.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    fn mark(&self, incarnation: u64) -> PathBuf {
        self.root.join(format!("{MARK}.{incarnation:016x}"))
    }

    /// Makes the journal that of an incarnation's records.
    pub(super) fn set_mark(&self, incarnation: u64) -> io::Result<()> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.root)?;
        File::create(self.mark(incarnation))?.sync_all()?;
        self.sync()
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.root)?.sync_all()
    }

    /// Returns the incarnation after all that are known: of the marks, of the copy, and the one
    /// that etcd was `seen` to hold. Epochs within it come after all others.
    pub(super) fn next(&self, seen: u64) -> io::Result<u64> {
        let copied = self.newest()?.map(|copy| copy.epoch >> REVISION_BITS);
        let known = self.marks()?.into_iter().chain(copied).chain([seen]);
        let last = known.max_by_key(|known| rank(*known)).unwrap_or(0);
        Ok(last.wrapping_add(1).max(1))
    }

    /// Moves the journal to the incarnation after all known ones. Returns that incarnation, or
    /// `None` if another host was faster. `seen` is the one that etcd held last, or 0. Blocks on
    /// storage.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn take_next(&self, seen: u64) -> io::Result<Option<u64>> {
        let next = self.next(seen)?;
        Ok(self.take(next)?.then_some(next))
    }

    /// Moves the journal to `incarnation` and away from all earlier ones: from then on no peer is
    /// elected with those. `false` if another host has moved it to this one or a later one
    /// meanwhile: two hosts never move it to the same one.
    pub(super) fn take(&self, incarnation: u64) -> io::Result<bool> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.root)?;
        let beaten = self.beats()?.into_values().max();
        match File::create_new(self.mark(incarnation)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            made => {
                let mark = made?;
                if let Some(beaten) = beaten {
                    // No controller was at work since.
                    mark.set_modified(beaten)?;
                }
                mark.sync_all()?;
            }
        }
        self.sync()?;
        let marks = self.marks()?;
        let is_last = marks.iter().all(|mark| rank(*mark) <= rank(incarnation));
        for mark in marks.into_iter().filter(|mark| (*mark == incarnation) != is_last) {
            self.remove_mark(mark)?;
        }
        self.sync()?;
        Ok(is_last)
    }

    fn remove_mark(&self, incarnation: u64) -> io::Result<()> {
        match fs::remove_file(self.mark(incarnation)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Marks the journal as in use by a controller with records of `incarnation`. `false` if the
    /// journal belongs to another incarnation by now, so that the controller no longer leads.
    /// Blocks on storage.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub fn beat(&self, incarnation: u64) -> io::Result<bool> {
        match OpenOptions::new().write(true).open(self.mark(incarnation)) {
            Ok(mark) => mark.set_modified(SystemTime::now()).map(|()| true),
            // Not where nothing is mounted at the moment.
            Err(error) if error.kind() == io::ErrorKind::NotFound && !self.marks()?.is_empty() => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Returns when controllers have last marked the journal, by incarnation. Blocks on storage.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn beats(&self) -> io::Result<BTreeMap<u64, SystemTime>> {
        let mut beats = BTreeMap::new();
        for incarnation in self.marks()? {
            // A network file system asks for a file's times again when it is opened.
            match File::open(self.mark(incarnation)) {
                Ok(mark) => drop(beats.insert(incarnation, mark.metadata()?.modified()?)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(beats)
    }

    /// Incarnations whose records it belongs to: one, or more where a change was cut short.
    pub(super) fn marks(&self) -> io::Result<Vec<u64>> {
        let mut marks = Vec::new();
        for name in names(&self.root)? {
            let digits = name.strip_prefix(MARK).and_then(|rest| rest.strip_prefix('.'));
            marks.extend(digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
        }
        Ok(marks)
    }

    fn records(&self) -> PathBuf {
        self.root.join(RECORDS)
    }

    fn log(&self, epoch: u64) -> PathBuf {
        self.records().join(format!("{epoch:016x}.log"))
    }

    fn epochs(&self) -> io::Result<Vec<u64>> {
        let names = names(&self.records())?;
        let epoch = |name: &String| u64::from_str_radix(name.strip_suffix(".log")?, 16).ok();
        Ok(names.iter().filter_map(epoch).collect())
    }

    /// Returns the copy of the last controller, if there was any.
    pub(super) fn newest(&self) -> io::Result<Option<Newest>> {
        let Some(epoch) = self.epochs()?.into_iter().max() else { return Ok(None) };
        let path = self.log(epoch);
        let mut file = File::open(&path)?;
        let from = file.metadata()?.len().saturating_sub(TAIL_BYTES);
        file.seek(SeekFrom::Start(from))?;
        let mut tail = Vec::new();
        file.read_to_end(&mut tail)?;
        let lines = tail.split(|byte| *byte == b'\n');
        let lines = lines.filter_map(|line| parse(std::str::from_utf8(line).ok()?));
        let revision = lines.map(|line| line.r).max().unwrap_or(0);
        Ok(Some(Newest { path, epoch, revision }))
    }
}

/// Names in a directory; none where there is no directory.
fn names(directory: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string().ok());
    }
    Ok(names)
}

fn check_of(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..CHECK_DIGITS].to_owned()
}

fn parse(line: &str) -> Option<Line> {
    let (check, text) = line.split_once(' ')?;
    if check != check_of(text) {
        return None;
    }
    serde_json::from_str(text).ok()
}

fn write_line(out: &mut Vec<u8>, revision: u64, key: &str, value: Option<&[u8]>) -> io::Result<()> {
    let line = Line { r: revision, k: key.to_owned(), v: value.map(|value| BASE64.encode(value)) };
    let text = serde_json::to_string(&line)?;
    writeln!(out, "{} {text}", check_of(&text))
}

/// Returns all records of a copy, by key. A last line that was cut short is left out.
///
/// # Errors
/// The file cannot be read.
pub(super) fn read(path: &Path) -> io::Result<BTreeMap<String, Vec<u8>>> {
    let mut records: BTreeMap<String, (u64, Option<Vec<u8>>)> = BTreeMap::new();
    // The revision of the first line: earlier writes are in the lines with which the copy began.
    let mut begun = None;
    for line in BufReader::new(File::open(path)?).lines() {
        let Some(Line { r, k, v }) = parse(&line?) else { break };
        let Ok(value) = v.map(|value| BASE64.decode(value.as_bytes())).transpose() else { break };
        let known = records.get(&k).map_or(*begun.get_or_insert(r), |(revision, _)| *revision);
        if r >= known {
            records.insert(k, (r, value));
        }
    }
    let whole = records.into_iter().filter_map(|(key, (_, value))| Some((key, value?)));
    Ok(whole.collect())
}

/// The copy that a controller writes.
pub(super) struct Copy {
    file: File,
    bytes: u64,
    /// Bytes that it began with.
    begun: u64,
}

/// Bytes of changes after which a copy is started again.
const CHANGES_BYTES_MAX: u64 = 32 << 20;

impl Copy {
    /// Begins a copy with all records there are, each with the revision at which it was written
    /// last, and drops those of earlier controllers. The records must include all writes up to
    /// `revision`.
    pub(super) fn begin<'a>(
        journal: &SharedJournal,
        epoch: u64,
        revision: u64,
        records: impl Iterator<Item = (&'a str, &'a [u8], u64)>,
    ) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(journal.records())?;
        let mut text = Vec::new();
        // One line at least, so that the revision is known.
        write_line(&mut text, revision, "", None)?;
        for (key, value, written) in records {
            write_line(&mut text, revision.max(written), key, Some(value))?;
        }
        let path = journal.log(epoch);
        let new = path.with_extension("new");
        let mut file = File::create(&new)?;
        file.write_all(&text)?;
        file.sync_all()?;
        fs::rename(&new, &path)?;
        File::open(journal.records())?.sync_all()?;
        for earlier in journal.epochs()?.into_iter().filter(|other| *other < epoch) {
            fs::remove_file(journal.log(earlier))?;
        }
        let file = OpenOptions::new().append(true).open(&path)?;
        let bytes = text.len() as u64;
        Ok(Self { file, bytes, begun: bytes })
    }

    /// Appends writes that etcd has confirmed. Returns whether the copy must be started again.
    pub(super) fn append(
        &mut self,
        revision: u64,
        changes: &[(&str, Option<&[u8]>)],
    ) -> io::Result<bool> {
        let mut text = Vec::new();
        for (key, value) in changes {
            write_line(&mut text, revision, key, *value)?;
        }
        self.file.write_all(&text)?;
        self.file.sync_data()?;
        self.bytes += text.len() as u64;
        Ok(self.bytes > self.begun + CHANGES_BYTES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(journal: &SharedJournal, epoch: u64, revision: u64) -> Copy {
        let records = [("transfers/a", b"1".as_slice(), 1), ("pairings/b", b"2", 1)];
        Copy::begin(journal, epoch, revision, records.into_iter()).unwrap()
    }

    /// B4, A12: a copy has the last written records, without those that a crash cut short. The
    /// newest copy counts, and a later controller drops earlier ones.
    #[test]
    fn b4_a_copy_gives_what_was_confirmed_last() {
        let directory = tempfile::tempdir().unwrap();
        let journal = SharedJournal::new(&directory.path().join("shared"));
        assert_eq!(journal.newest().unwrap(), None);
        let mut copy = begin(&journal, place(7, 10), 10);
        assert!(!copy.append(12, &[("transfers/a", Some(b"3")), ("heads/c", Some(b"4"))]).unwrap());
        copy.append(13, &[("pairings/b", None)]).unwrap();
        let newest = journal.newest().unwrap().unwrap();
        assert_eq!((newest.epoch, newest.revision), (place(7, 10), 13));
        let torn = fs::read(&newest.path).unwrap();
        fs::write(&newest.path, &torn[..torn.len() - 3]).unwrap();
        let records = read(&newest.path).unwrap();
        let keys: Vec<_> = records.keys().map(String::as_str).collect();
        assert_eq!(keys, ["heads/c", "pairings/b", "transfers/a"]);
        assert_eq!(records["transfers/a"], b"3");
        begin(&journal, place(7, 20), 20);
        assert_eq!(journal.epochs().unwrap(), vec![place(7, 20)]);
        begin(&journal, place(8, 2), 2);
        assert_eq!(journal.newest().unwrap().unwrap().place(), place(8, 2));
    }

    /// B4: a controller records in the journal that it works, and learns there that another
    /// incarnation has replaced it. An unmounted journal does not prove that.
    #[test]
    fn b4_a_controller_at_work_is_seen_in_the_journal() {
        let directory = tempfile::tempdir().unwrap();
        let journal = SharedJournal::new(&directory.path().join("shared"));
        assert!(journal.beat(7).is_err(), "nothing is mounted");
        journal.set_mark(7).unwrap();
        let before = journal.beats().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(journal.beats().unwrap(), before);
        assert!(journal.beat(7).unwrap());
        assert!(journal.beats().unwrap()[&7] > before[&7]);
        assert!(journal.take(8).unwrap());
        assert!(!journal.beat(7).unwrap());
        assert_eq!(journal.marks().unwrap(), vec![8], "nothing is made anew");
    }

    /// B4: no peer leads with an etcd that was restored from a backup, or is empty, if the journal
    /// is newer; nor with a journal of another site.
    #[test]
    fn b4_an_etcd_that_has_gone_back_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let journal = SharedJournal::new(&directory.path().join("shared"));
        journal.begin(7).unwrap();
        journal.check(7, 1).unwrap();
        assert!(matches!(journal.check(8, 1), Err(JournalError::Foreign(_))));
        let mut copy = begin(&journal, place(7, 10), 10);
        copy.append(50, &[("heads/c", None)]).unwrap();
        journal.check(7, 50).unwrap();
        let older = journal.check(7, 49).unwrap_err();
        assert!(matches!(older, JournalError::EtcdIsOlder { etcd: 49, journal: 50 }), "{older}");
        assert!(matches!(journal.begin(9), Err(JournalError::HasRecords(_))));
        assert!(journal.take(8).unwrap());
        journal.check(8, 1).unwrap();
        assert_eq!(journal.marks().unwrap(), vec![8]);
        let why = journal.check(7, 60).unwrap_err();
        assert!(matches!(why, JournalError::CutShort), "the incarnation before: {why}");
    }

    /// B4: one host takes a journal for each incarnation, and none takes it for an earlier one: a
    /// slower host changes nothing. The mark of that host does not count as a working controller.
    #[test]
    fn b4_a_journal_is_taken_once_and_never_back() {
        let directory = tempfile::tempdir().unwrap();
        let journal = SharedJournal::new(&directory.path().join("shared"));
        journal.begin(7).unwrap();
        let beaten = journal.beats().unwrap()[&7];
        std::thread::sleep(std::time::Duration::from_millis(20));
        // Two hosts that have both seen 7.
        let (one, other) = (journal.next(7).unwrap(), journal.next(7).unwrap());
        assert_eq!((one, other), (8, 8));
        assert!(journal.take(one).unwrap());
        assert!(!journal.take(other).unwrap());
        assert_eq!(journal.beats().unwrap(), BTreeMap::from([(8, beaten)]));
        assert_eq!(journal.take_next(7).unwrap(), Some(9));
        assert!(!journal.take(8).unwrap(), "one that was away for long");
        assert_eq!(journal.marks().unwrap(), vec![9]);
        assert!(journal.is_left(7).unwrap() && !journal.is_left(9).unwrap());
    }

    /// B4: of two peers that begin a site at once one withdraws; the mark of one that died
    /// meanwhile does not turn the order of epochs round.
    #[test]
    fn b4_a_beginning_that_lost_leaves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let journal = SharedJournal::new(&directory.path().join("shared"));
        // Higher as a whole, lower in the part that epochs hold.
        let (first, other) = (0x1_0000_0005, 0x2_0000_0003);
        journal.begin(first).unwrap();
        journal.begin(other).unwrap();
        assert_eq!(journal.next(first).unwrap(), first + 1);
        journal.withdraw(other).unwrap();
        journal.withdraw(other).unwrap();
        assert_eq!(journal.marks().unwrap(), vec![first]);
        // The marks are lost with all of etcd, and the copy is not.
        begin(&journal, place(first, 10), 10);
        journal.withdraw(first).unwrap();
        assert!(place(journal.next(0).unwrap(), 1) > place(first, 10));
    }

    /// B4, A12: concurrent writes that are appended in another order than etcd's leave the values
    /// of etcd; a value that the copy began with does not return.
    #[test]
    fn b4_a_late_line_does_not_win() {
        let directory = tempfile::tempdir().unwrap();
        let journal = SharedJournal::new(&directory.path().join("shared"));
        let records = [("heads/c", b"12".as_slice(), 12)];
        let mut copy = Copy::begin(&journal, place(7, 10), 10, records.into_iter()).unwrap();
        copy.append(14, &[("transfers/a", Some(b"14"))]).unwrap();
        copy.append(13, &[("transfers/a", Some(b"13"))]).unwrap();
        assert_eq!(journal.newest().unwrap().unwrap().revision, 14);
        copy.append(11, &[("heads/c", Some(b"11"))]).unwrap();
        copy.append(16, &[("pairings/b", None)]).unwrap();
        copy.append(15, &[("pairings/b", Some(b"15"))]).unwrap();
        copy.append(9, &[("stubs/d", Some(b"9"))]).unwrap();
        let records = read(&journal.newest().unwrap().unwrap().path).unwrap();
        let expected = [("heads/c", b"12"), ("transfers/a", b"14")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_vec()));
        assert_eq!(records, BTreeMap::from(expected));
    }
}
