//! Plans: what a transfer would do, item by item; and transfers that do exactly what a plan says.
//!
//! A plan is JSON Lines: a [`PlanHead`], a [`PlanItem`] for each item that is at the source or is
//! to be deleted at the target, a [`PlanEnd`]. The end holds the BLAKE3 of all lines before it, so
//! that a plan that was cut off or edited is refused. The plan does not name its author: a user
//! with the right to submit a transfer may submit any plan.
//!
//! Written and read a line at a time: memory does not grow with the number of items (promise (g)).

use std::io::{self, BufRead, Write};

use penstock_proto::units::FileTime;
use serde::{Deserialize, Serialize};

use crate::outcome::FailedItem;
use crate::place::{Location, ParseLocationError, PathText};
use crate::problem::{Problem, ProblemCode};
use crate::transfer::TransferOptions;

pub use crate::options::plan_use::PlanUse;

/// Version of the lines of a plan.
pub const PLAN_VERSION: u32 = 1;
/// Longest line of a plan that is read: the head may hold many paths.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// First line of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PlanHead {
    /// [`PLAN_VERSION`].
    pub v: u32,
    /// Source as it was asked for: a location, or an absolute path.
    pub source: PathText,
    /// Target as it was asked for, likewise.
    pub target: PathText,
    /// Root of the data set within the target's store.
    pub root: PathText,
    /// Identity of the target's store, in hexadecimal digits; none if it has none yet.
    #[serde(default)]
    pub store: Option<String>,
    /// Time when it was made, in seconds since 1970. Ages in the options are counted from an
    /// earlier moment, and settled.
    pub made: u64,
    /// Options of the transfer.
    pub options: TransferOptions,
}

/// Returns a location as the head of a plan names it, with its path unescaped.
pub fn location_text(location: &Location) -> PathText {
    let mut text = format!("{}:{}/", location.site, location.store).into_bytes();
    text.extend_from_slice(&location.path.0);
    if location.slash && !location.path.0.is_empty() {
        text.push(b'/');
    }
    PathText(text)
}

/// Returns the location that the head of a plan names.
///
/// # Errors
/// The text is no location: the plan is of a copy.
pub fn location_of(text: &PathText) -> Result<Location, ParseLocationError> {
    let store_end = text.0.iter().position(|byte| *byte == b'/').unwrap_or(text.0.len());
    let (place, path) = text.0.split_at(store_end);
    let mut location: Location = String::from_utf8_lossy(place).parse()?;
    let path = path.strip_prefix(b"/").unwrap_or(path);
    location.slash = path.ends_with(b"/");
    location.path = PathText(path.strip_suffix(b"/").unwrap_or(path).to_vec());
    Ok(location)
}

/// Action that a plan names for an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum PlanAction {
    /// Move the item, or make the directory: nothing has its name.
    Copy,
    /// Replace what is there.
    Replace,
    /// Make a further name of a file that is there by then.
    Link,
    /// Set only attributes: of a file that is otherwise the same, or of a directory.
    Attributes,
    /// Delete it at the target, or move it to the backup directory.
    Delete,
    /// Leave it as it is.
    Skip,
    /// Report it as failed.
    Fail,
}

impl PlanAction {
    /// All actions, in the order in which totals are shown.
    pub const ALL: [Self; 7] = [
        Self::Copy,
        Self::Replace,
        Self::Link,
        Self::Attributes,
        Self::Delete,
        Self::Skip,
        Self::Fail,
    ];

    /// Returns its name in lines and totals.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Replace => "replace",
            Self::Link => "link",
            Self::Attributes => "attributes",
            Self::Delete => "delete",
            Self::Skip => "skip",
            Self::Fail => "fail",
        }
    }

    /// Returns whether content is moved.
    pub fn moves(self) -> bool {
        matches!(self, Self::Copy | Self::Replace)
    }
}

/// Kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ItemKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A further name of another item of the source.
    HardLink,
    /// A socket, or an unknown kind.
    Other,
}

/// A time of a file: seconds since 1970 and nanoseconds.
pub type PlanTime = (i64, u32);

/// Returns a time as plans write it.
pub fn plan_time(time: FileTime) -> PlanTime {
    (time.seconds, time.nanoseconds)
}

/// The item under the same name at the target, as it was when it was examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct ThereItem {
    /// Kind.
    pub kind: ItemKind,
    /// Size in bytes.
    pub size: u64,
    /// Time of last modification.
    pub mtime: PlanTime,
    /// Inode number.
    pub inode: u64,
    /// Change time.
    pub ctime: PlanTime,
    /// Number of names.
    pub links: u32,
}

impl ThereItem {
    /// Returns whether `now` is what this was. A directory remains the same whatever is added to it
    /// or removed from it, and so does a file with several names when another name is removed.
    fn is_still(&self, now: &Self) -> bool {
        let same = self.kind == now.kind && self.inode == now.inode;
        match self.kind {
            ItemKind::Directory => same,
            _ if self.links > 1 => same && self.size == now.size && self.mtime == now.mtime,
            _ => same && self.size == now.size && self.ctime == now.ctime,
        }
    }
}

/// An item of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PlanItem {
    /// Action.
    pub action: PlanAction,
    /// Path relative to the data set's root; empty for the root itself.
    pub path: PathText,
    /// Kind: at the source, or at the target for an item that is deleted.
    pub kind: ItemKind,
    /// Size in bytes, likewise.
    pub size: u64,
    /// Time of last modification, likewise.
    pub mtime: PlanTime,
    /// Text of a symbolic link; of a hard link the path that it is a further name of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<PathText>,
    /// Reason why it is skipped or fails, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[serde(deserialize_with = "crate::text::field")]
    pub why: String,
    /// Item under its name at the target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub there: Option<ThereItem>,
}

impl PlanItem {
    /// Returns whether the item at the target obstructs this one: exactly one of the two is a
    /// directory.
    pub fn is_blocked(&self) -> bool {
        let directory = self.kind == ItemKind::Directory;
        self.there.is_some_and(|there| (there.kind == ItemKind::Directory) != directory)
    }

    /// Returns whether the attributes that were to be set are set now.
    fn are_set(&self, now: &Self) -> bool {
        self.action == PlanAction::Attributes && now.action == PlanAction::Skip
    }

    /// Returns the bytes of content that its action concerns.
    pub fn bytes(&self) -> u64 {
        if self.kind == ItemKind::File { self.size } else { 0 }
    }

    /// Checks that the world is still as this item of a plan says, when a new look gives `now`.
    ///
    /// For a directory only its kind counts, and that it is still there if it was. It may have been
    /// made since, and each thing in it is checked by itself.
    ///
    /// # Errors
    /// The difference, in words.
    pub fn check(&self, now: &Self) -> Result<(), &'static str> {
        let directory = self.kind == ItemKind::Directory && now.kind == ItemKind::Directory;
        let content = self.size == now.size && self.mtime == now.mtime && self.link == now.link;
        let deleted = self.action == PlanAction::Delete;
        if !deleted && (self.kind != now.kind || !(directory || content)) {
            return Err("changed at the source since the plan was made");
        }
        match (&self.there, &now.there) {
            (None, None) => {}
            // A run that follows the plan has deleted the obstacle.
            (Some(_), None) if self.is_blocked() && self.action == PlanAction::Replace => {
                return Ok(());
            }
            (None, Some(there)) if directory && there.kind == ItemKind::Directory => return Ok(()),
            (Some(was), Some(is)) if was.is_still(is) => {}
            // An earlier attempt, or another program, has set them.
            (Some(was), Some(is)) if self.are_set(now) && was.inode == is.inode => return Ok(()),
            (None, Some(_)) => return Err("exists at the target since the plan was made"),
            (Some(_), None) => return Err("vanished from the target since the plan was made"),
            (Some(_), Some(_)) => return Err("changed at the target since the plan was made"),
        }
        let acts = |item: &Self| match item.action {
            PlanAction::Skip if directory => PlanAction::Attributes,
            action => action,
        };
        if acts(self) == acts(now) { Ok(()) } else { Err("would not be treated as in the plan") }
    }
}

/// Items and bytes of one action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PlanCount {
    /// Items.
    pub items: u64,
    /// Bytes of content of these.
    pub bytes: u64,
}

/// Totals of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PlanTotals {
    /// See [`PlanAction::Copy`].
    pub copy: PlanCount,
    /// See [`PlanAction::Replace`].
    pub replace: PlanCount,
    /// See [`PlanAction::Link`].
    pub link: PlanCount,
    /// See [`PlanAction::Attributes`].
    pub attributes: PlanCount,
    /// See [`PlanAction::Delete`].
    pub delete: PlanCount,
    /// See [`PlanAction::Skip`].
    pub skip: PlanCount,
    /// See [`PlanAction::Fail`].
    pub fail: PlanCount,
}

impl PlanTotals {
    /// Returns the totals of one action.
    pub fn of(&self, action: PlanAction) -> PlanCount {
        match action {
            PlanAction::Copy => self.copy,
            PlanAction::Replace => self.replace,
            PlanAction::Link => self.link,
            PlanAction::Attributes => self.attributes,
            PlanAction::Delete => self.delete,
            PlanAction::Skip => self.skip,
            PlanAction::Fail => self.fail,
        }
    }

    fn add(&mut self, item: &PlanItem) {
        let count = match item.action {
            PlanAction::Copy => &mut self.copy,
            PlanAction::Replace => &mut self.replace,
            PlanAction::Link => &mut self.link,
            PlanAction::Attributes => &mut self.attributes,
            PlanAction::Delete => &mut self.delete,
            PlanAction::Skip => &mut self.skip,
            PlanAction::Fail => &mut self.fail,
        };
        count.items += 1;
        count.bytes = count.bytes.saturating_add(item.bytes());
    }

    /// Returns the number of items of all actions.
    pub fn items(&self) -> u64 {
        PlanAction::ALL.iter().map(|action| self.of(*action).items).sum()
    }

    /// Returns the bytes that would be moved.
    pub fn bytes_moved(&self) -> u64 {
        self.copy.bytes.saturating_add(self.replace.bytes)
    }
}

/// Estimate of the time that a plan would take.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Forecast {
    /// Seconds for the bytes that are moved.
    pub seconds: f64,
    /// Rate on which the estimate is based.
    pub rate_bits_per_s: f64,
    /// Origin of that rate, in words.
    #[serde(deserialize_with = "crate::text::field")]
    pub basis: String,
}

/// Last line of a plan.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct PlanEnd {
    /// Totals.
    pub totals: PlanTotals,
    /// Time that it would take; none if nothing is known of the rate.
    #[serde(default)]
    pub forecast: Option<Forecast>,
    /// Items of kinds that are not carried, such as sockets.
    #[serde(default)]
    pub not_carried: u64,
    /// Items that were not chosen; an excluded directory counts as one.
    #[serde(default)]
    pub not_chosen: u64,
    /// Items that could not be listed or examined: they will count as failed.
    #[serde(default)]
    pub unlisted: u64,
    /// The first items of these, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlisted_items: Vec<FailedItem>,
    /// Left out: state of runs, markers of copies, private directories of stores.
    #[serde(default)]
    pub own_state: u64,
    /// Reason why nothing would be deleted although deletion was asked for.
    #[serde(default)]
    pub refused: Option<Problem>,
    /// BLAKE3 of all lines before, in hexadecimal digits.
    pub digest: String,
}

/// A line of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum PlanLine {
    /// The first line.
    Plan(Box<PlanHead>),
    /// All lines between.
    Item(PlanItem),
    /// The last line.
    End(Box<PlanEnd>),
}

/// Writer of a plan.
pub struct PlanWriter<'a> {
    out: &'a mut dyn Write,
    hasher: blake3::Hasher,
    totals: PlanTotals,
}

impl<'a> PlanWriter<'a> {
    /// Starts a plan with its head.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn begin(out: &'a mut dyn Write, head: PlanHead) -> io::Result<Self> {
        let mut writer = Self { out, hasher: blake3::Hasher::new(), totals: PlanTotals::default() };
        writer.line(&PlanLine::Plan(Box::new(head)))?;
        Ok(writer)
    }

    fn line(&mut self, line: &PlanLine) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.hasher.update(&text);
        self.out.write_all(&text)
    }

    /// Adds an item.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn add(&mut self, item: PlanItem) -> io::Result<()> {
        self.totals.add(&item);
        self.line(&PlanLine::Item(item))
    }

    /// Returns the totals so far.
    pub fn totals(&self) -> &PlanTotals {
        &self.totals
    }

    /// Ends the plan with its totals and digest.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn end(mut self, end: PlanEnd) -> io::Result<PlanEnd> {
        let digest = self.hasher.finalize().to_hex().to_string();
        let end = PlanEnd { totals: self.totals, digest, ..end };
        self.line(&PlanLine::End(Box::new(end.clone())))?;
        self.out.flush()?;
        Ok(end)
    }
}

/// Reader of a plan that checks that the plan is whole.
pub struct PlanReader<R> {
    input: R,
    hasher: blake3::Hasher,
    offset: u64,
    totals: PlanTotals,
    end: Option<PlanEnd>,
}

/// Returns the problem of a plan that cannot be used; exit 2.
fn broken(why: impl std::fmt::Display) -> Problem {
    Problem::new(ProblemCode::PlanBroken, "the plan is damaged or incomplete")
        .because(why)
        .hint("make another one with `penstock transfer plan` or `penstock copy -n --json`")
}

impl<R: BufRead> PlanReader<R> {
    /// Reads the head.
    ///
    /// # Errors
    /// Code `plan-broken`: the input is no plan, or of another version.
    pub fn open(input: R) -> Result<(Self, PlanHead), Problem> {
        let totals = PlanTotals::default();
        let mut reader =
            Self { input, hasher: blake3::Hasher::new(), offset: 0, totals, end: None };
        let Some((text, PlanLine::Plan(head))) = reader.line()? else {
            return Err(broken("it does not begin as a plan"));
        };
        if head.v != PLAN_VERSION {
            return Err(broken(format!("it is of version {}, not {PLAN_VERSION}", head.v)));
        }
        reader.hasher.update(&text);
        Ok((reader, *head))
    }

    fn line(&mut self) -> Result<Option<(Vec<u8>, PlanLine)>, Problem> {
        let mut text = Vec::new();
        let mut limited = io::Read::take(&mut self.input, LINE_BYTES_MAX);
        let read = limited.read_until(b'\n', &mut text).map_err(broken)?;
        if read == 0 {
            return Ok(None);
        }
        if !text.ends_with(b"\n") {
            return Err(broken("its last line is cut off"));
        }
        let line = serde_json::from_slice(&text).map_err(|cause| {
            broken(format!("a line at byte {} cannot be read: {cause}", self.offset))
        })?;
        self.offset += read as u64;
        Ok(Some((text, line)))
    }

    /// Returns the next item, and the byte at which its line begins; `None` at the end of a whole
    /// plan.
    ///
    /// # Errors
    /// Code `plan-broken`: a line cannot be read, the end is missing, or the digest is another.
    pub fn item(&mut self) -> Result<Option<(u64, PlanItem)>, Problem> {
        if self.end.is_some() {
            return Ok(None);
        }
        let offset = self.offset;
        match self.line()? {
            None => Err(broken("its end is missing")),
            Some((_, PlanLine::Plan(_))) => Err(broken("it has two heads")),
            Some((text, PlanLine::Item(item))) => {
                self.hasher.update(&text);
                self.totals.add(&item);
                Ok(Some((offset, item)))
            }
            Some((_, PlanLine::End(end))) => {
                if end.digest != self.hasher.finalize().to_hex().as_str() {
                    return Err(broken("its digest is another: it was changed"));
                }
                if end.totals != self.totals {
                    return Err(broken("its totals are not those of its items"));
                }
                if self.line()?.is_some() {
                    return Err(broken("something follows its end"));
                }
                self.end = Some(*end);
                Ok(None)
            }
        }
    }

    /// Reads the rest of the plan.
    ///
    /// # Errors
    /// As [`PlanReader::item`].
    pub fn finish(mut self) -> Result<PlanEnd, Problem> {
        while self.item()?.is_some() {}
        self.end.ok_or_else(|| broken("its end is missing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Exit;

    fn item(path: &[u8], action: PlanAction) -> PlanItem {
        PlanItem {
            action,
            path: PathText(path.to_vec()),
            kind: ItemKind::File,
            size: 7,
            mtime: (-5, 999_999_999),
            link: None,
            why: String::new(),
            there: None,
        }
    }

    fn head() -> PlanHead {
        PlanHead {
            v: PLAN_VERSION,
            source: PathText(b"/a".to_vec()),
            target: PathText(b"/b".to_vec()),
            root: PathText(b"a".to_vec()),
            store: None,
            made: 1,
            options: TransferOptions::default(),
        }
    }

    fn plan(items: &[PlanItem]) -> Vec<u8> {
        let mut text = Vec::new();
        let mut writer = PlanWriter::begin(&mut text, head()).unwrap();
        items.iter().for_each(|item| writer.add(item.clone()).unwrap());
        writer.end(PlanEnd::default()).unwrap();
        text
    }

    fn read(text: &[u8]) -> Result<(Vec<PlanItem>, PlanEnd), Problem> {
        let (mut reader, _) = PlanReader::open(text)?;
        let mut items = Vec::new();
        while let Some((offset, item)) = reader.item()? {
            let line = &text[offset as usize..];
            assert!(line.starts_with(b"{\"type\":\"item\""), "{offset}");
            items.push(item);
        }
        Ok((items, reader.finish()?))
    }

    /// Promise: a plan has the same meaning for every reader, with names of any bytes (j).
    #[test]
    fn j_a_plan_is_read_as_it_was_written() {
        let items = [
            item(b"a\nb", PlanAction::Copy),
            item(b"\xff\xfe \\ \"", PlanAction::Delete),
            item(b"", PlanAction::Skip),
        ];
        let text = plan(&items);
        let (read, end) = read(&text).unwrap();
        assert_eq!(read, items);
        assert_eq!((end.totals.items(), end.totals.bytes_moved()), (3, 7));
        assert_eq!(text.split(|byte| *byte == b'\n').count(), 6, "a line is one line");
    }

    /// Promise (j): a plan names the places that it was asked for, with any bytes.
    #[test]
    fn j_places_are_named_as_they_are() {
        for text in ["lab:raw/run7", "lab:raw/run7/", "lab:raw/", "lab:raw/a\\nb/c"] {
            let location: Location = text.parse().unwrap();
            assert_eq!(location_of(&location_text(&location)).unwrap().path, location.path);
            assert_eq!(location_text(&location).0, text.as_bytes());
        }
        let odd = PathText(b"lab:raw/a\xff\n/b/".to_vec());
        let location = location_of(&odd).unwrap();
        assert_eq!((location.path.0.as_slice(), location.slash), (&b"a\xff\n/b"[..], true));
        assert_eq!(location_text(&location), odd);
        assert!(location_of(&PathText(b"/a/b".to_vec())).is_err());
    }

    /// Promise: a plan that was cut off anywhere, or of which a line was taken, changed or added,
    /// is refused: nothing is done by half a plan.
    #[test]
    fn a_plan_that_is_not_whole_is_refused() {
        let names: Vec<_> = (0..20).map(|at| format!("file{at}").into_bytes()).collect();
        let items: Vec<_> = names.iter().map(|name| item(name, PlanAction::Delete)).collect();
        let text = plan(&items);
        for length in 0..text.len() {
            let refused = read(&text[..length]).unwrap_err();
            assert_eq!((&refused.code, refused.exit), (&ProblemCode::PlanBroken, Exit::Usage));
        }
        let lines: Vec<_> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let without = [&lines[..3], &lines[4..]].concat().concat();
        assert!(read(&without).is_err(), "a line was taken");
        let twice = [&lines[..4], &lines[3..]].concat().concat();
        assert!(read(&twice).is_err(), "a line was added");
        let text = String::from_utf8(text).unwrap();
        assert!(read(text.replace("file3", "file4").as_bytes()).is_err(), "a path was changed");
        assert!(read(text.replace("\"file\"", "\"fifo\"").as_bytes()).is_err());
        assert!(read(format!("{text}{text}").as_bytes()).is_err(), "two plans");
    }

    /// Promise: a plan is followed only where the world is as it says.
    #[test]
    fn what_has_changed_is_told() {
        let there = ThereItem {
            kind: ItemKind::File,
            size: 3,
            mtime: (1, 1),
            inode: 5,
            ctime: (2, 2),
            links: 1,
        };
        let old = PlanItem { there: Some(there), ..item(b"x", PlanAction::Replace) };
        old.check(&old.clone()).unwrap();
        let other = |change: &dyn Fn(&mut PlanItem)| {
            let mut now = old.clone();
            change(&mut now);
            old.check(&now).unwrap_err()
        };
        assert!(other(&|now| now.size = 8).contains("at the source"));
        assert!(other(&|now| now.mtime = (-5, 0)).contains("at the source"));
        assert!(other(&|now| now.there = None).contains("vanished"));
        let touched = ThereItem { ctime: (2, 3), ..there };
        assert!(other(&|now| now.there = Some(touched)).contains("at the target"));
        let skip = |now: &mut PlanItem| now.action = PlanAction::Skip;
        assert!(other(&skip).contains("treated"));
        let new = item(b"x", PlanAction::Copy);
        assert!(new.check(&old).unwrap_err().contains("exists"));
        // Of a directory only that counts what it is.
        let dir =
            |action, there| PlanItem { kind: ItemKind::Directory, there, ..item(b"d", action) };
        let made = ThereItem { kind: ItemKind::Directory, ..there };
        let later = PlanItem { mtime: (9, 9), ..dir(PlanAction::Skip, Some(made)) };
        dir(PlanAction::Copy, None).check(&later).unwrap();
        dir(PlanAction::Attributes, Some(made)).check(&later).unwrap();
        assert!(later.check(&dir(PlanAction::Copy, None)).is_err());
    }
}
