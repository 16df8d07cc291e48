//! One part of the entries of a directory.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::time::Instant;

use penstock_api::place::PathText;
use penstock_api::plan::ItemKind;
use penstock_api::rest::{EntriesQuery, EntryOwner, EntrySort, EntryView, SORTED_NAMES_MAX};
use penstock_api::text::rfc3339;
use penstock_store::{Dir, DirEntry, Kind, ListBuffer, Meta, Source, StoreError};

use super::cursor::{Key, Position};
use crate::stores::guard::is_missing;

/// Entries, the place where the next part begins, and whether they are sorted.
type Listed = (Vec<EntryView>, Option<Position>, bool);

/// A request for a part, while it is answered.
pub(super) struct Part<'a> {
    source: &'a Source,
    dir: Dir,
    query: &'a EntriesQuery,
    limit: usize,
    /// The time at which the part ends with the entries that it has.
    until: Instant,
    owners: OwnerNames,
}

/// Names of users and groups that were looked up for this part.
#[derive(Default)]
struct OwnerNames {
    users: HashMap<u32, Option<String>>,
    groups: HashMap<u32, Option<String>>,
}

/// The result of a look at an entry.
enum Seen {
    /// The entry has disappeared since the listing.
    Gone,
    /// Only its name may be seen.
    NameAlone,
    Meta(Meta),
}

impl<'a> Part<'a> {
    pub(super) fn new(
        source: &'a Source,
        dir: Dir,
        query: &'a EntriesQuery,
        limit: usize,
        until: Instant,
    ) -> Self {
        Self { source, dir, query, limit, until, owners: OwnerNames::default() }
    }

    /// Lists the part that begins at `from`, or at the start of the list.
    ///
    /// # Errors
    /// The directory cannot be listed. `None` for a sorted list that cannot be continued, because
    /// the directory has become too wide.
    pub(super) fn list(&mut self, from: Option<Position>) -> Result<Option<Listed>, StoreError> {
        match from {
            Some(Position::At(position)) => self.in_directory_order(position).map(Some),
            Some(Position::Behind(key)) => self.sorted(Some(key)),
            None => match self.sorted(None)? {
                Some(listed) => Ok(Some(listed)),
                None => self.in_directory_order(0).map(Some),
            },
        }
    }

    /// Returns the first entries behind a key; `None` where there are too many names to sort, or
    /// where a list begins and looking at them takes too long. A list that has begun sorted stays
    /// so until the directory has twice as many names as are sorted.
    fn sorted(&mut self, behind: Option<Key>) -> Result<Option<Listed>, StoreError> {
        let mut first: BTreeMap<Key, Option<Kind>> = BTreeMap::new();
        let (mut count, mut gives_up, mut failed) = (0_usize, false, None);
        self.source.list_from(&self.dir, 0, &mut ListBuffer::new(), &mut |entry, _| {
            count += 1;
            let is_slow = count.is_multiple_of(64) && Instant::now() >= self.until;
            let is_wide = count > SORTED_NAMES_MAX;
            if count > 2 * SORTED_NAMES_MAX || behind.is_none() && (is_wide || is_slow) {
                gives_up = true;
                return ControlFlow::Break(());
            }
            match self.key_of(&entry) {
                Ok(Some((key, kind))) if behind.as_ref().is_none_or(|behind| key > *behind) => {
                    first.insert(key, kind);
                    // One more than is needed, which shows that there are more.
                    if first.len() > self.limit + 1 {
                        first.pop_last();
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    failed = Some(error);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        if gives_up {
            return Ok(None);
        }
        let mut items = Vec::new();
        let mut last = None;
        let mut is_whole = true;
        for (key, kind) in first {
            let is_late = last.is_some() && Instant::now() >= self.until;
            if items.len() == self.limit || is_late {
                is_whole = false;
                break;
            }
            items.extend(self.view(&key.name, kind)?);
            last = Some(key);
        }
        let next = last.filter(|_| !is_whole).map(Position::Behind);
        Ok(Some((items, next, true)))
    }

    /// Returns entries in the order of the file system, from a position on.
    fn in_directory_order(&mut self, mut position: u64) -> Result<Listed, StoreError> {
        let (source, dir) = (self.source, self.dir.clone());
        let (mut items, mut next, mut failed) = (Vec::new(), None, None);
        let begin = position;
        source.list_from(&dir, position, &mut ListBuffer::new(), &mut |entry, behind| {
            let is_late = position != begin && Instant::now() >= self.until;
            if items.len() == self.limit || is_late {
                next = Some(Position::At(position));
                return ControlFlow::Break(());
            }
            match self.selected(&entry) {
                Ok(Some(kind)) => match self.view(entry.name, kind) {
                    Ok(view) => items.extend(view),
                    Err(error) => failed = Some(error),
                },
                Ok(None) => {}
                Err(error) => failed = Some(error),
            }
            position = behind;
            if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        match failed {
            Some(error) => Err(error),
            None => Ok((items, next, false)),
        }
    }

    /// Returns the kind of a selected entry, if the listing has it; `None` for an entry that is not
    /// selected.
    fn selected(&self, entry: &DirEntry<'_>) -> Result<Option<Option<Kind>>, StoreError> {
        if entry.own.is_some() || !entry.name.starts_with(&self.query.prefix.0) {
            return Ok(None);
        }
        let Some(wanted) = self.query.kind else { return Ok(Some(entry.kind)) };
        let is_told = entry.kind.is_some_and(|kind| kind != Kind::Other);
        let kind = match is_told {
            true => entry.kind,
            false => match self.look(entry.name)? {
                Seen::Meta(meta) => Some(meta.kind),
                Seen::NameAlone => entry.kind,
                Seen::Gone => return Ok(None),
            },
        };
        Ok((kind.map(item_kind) == Some(wanted)).then_some(kind))
    }

    /// Returns the place of an entry in the sorted list, if it is selected.
    fn key_of(&self, entry: &DirEntry<'_>) -> Result<Option<(Key, Option<Kind>)>, StoreError> {
        let Some(kind) = self.selected(entry)? else { return Ok(None) };
        let name = entry.name.to_vec();
        if self.query.sort == EntrySort::Name {
            return Ok(Some((Key { rank: 0, name }, kind)));
        }
        let meta = match self.look(entry.name)? {
            Seen::Gone => return Ok(None),
            // Behind all others.
            Seen::NameAlone => return Ok(Some((Key { rank: i128::MAX, name }, kind))),
            Seen::Meta(meta) => meta,
        };
        let rank = match self.query.sort {
            EntrySort::Name => 0,
            EntrySort::Largest if meta.kind == Kind::File => -i128::from(meta.size),
            EntrySort::Largest => 0,
            EntrySort::Newest => {
                let seconds = i128::from(meta.mtime.seconds) * 1_000_000_000;
                -(seconds + i128::from(meta.mtime.nanoseconds))
            }
        };
        Ok(Some((Key { rank, name }, Some(meta.kind))))
    }

    /// Looks at an entry of the directory.
    fn look(&self, name: &[u8]) -> Result<Seen, StoreError> {
        match self.source.stat_reported(&self.dir, name) {
            Ok(meta) => Ok(Seen::Meta(meta)),
            Err(error) if is_missing(&error) => Ok(Seen::Gone),
            Err(error) if error.is_offline() || error.is_passing() => Err(error),
            // A directory that may be listed and not entered; a server that hides attributes.
            Err(_) => Ok(Seen::NameAlone),
        }
    }

    /// Returns an entry as users see it; `None` if it is gone.
    fn view(&mut self, name: &[u8], kind: Option<Kind>) -> Result<Option<EntryView>, StoreError> {
        let mut view = EntryView {
            name: PathText(name.to_vec()),
            kind: kind.map_or(ItemKind::Other, item_kind),
            bytes: None,
            mtime: None,
            mode: None,
            owner: None,
            target: None,
        };
        let meta = match self.look(name)? {
            Seen::Gone => return Ok(None),
            Seen::NameAlone => return Ok(Some(view)),
            Seen::Meta(meta) => meta,
        };
        view.kind = item_kind(meta.kind);
        view.bytes = (meta.kind == Kind::File).then_some(meta.size);
        view.mtime = rfc3339(meta.mtime);
        view.mode = Some(format!("{:04o}", meta.mode));
        view.owner = Some(self.owners.of(meta.owner.uid, meta.owner.gid));
        if meta.kind == Kind::Symlink {
            // Gone or replaced meanwhile: it is shown as it was.
            view.target = self.source.read_link(&self.dir, name).ok().map(PathText);
        }
        Ok(Some(view))
    }
}

impl OwnerNames {
    fn of(&mut self, uid: u32, gid: u32) -> EntryOwner {
        let text = |name: Vec<u8>| String::from_utf8(name).ok();
        let user =
            self.users.entry(uid).or_insert_with(|| penstock_sys::user_name(uid).and_then(text));
        let group =
            self.groups.entry(gid).or_insert_with(|| penstock_sys::group_name(gid).and_then(text));
        EntryOwner { uid, gid, user: user.clone(), group: group.clone() }
    }
}

/// Returns a kind as the API names it.
pub(crate) fn item_kind(kind: Kind) -> ItemKind {
    match kind {
        Kind::File => ItemKind::File,
        Kind::Directory => ItemKind::Directory,
        Kind::Symlink => ItemKind::Symlink,
        Kind::Fifo => ItemKind::Fifo,
        Kind::CharDevice => ItemKind::CharDevice,
        Kind::BlockDevice => ItemKind::BlockDevice,
        Kind::Other => ItemKind::Other,
    }
}
