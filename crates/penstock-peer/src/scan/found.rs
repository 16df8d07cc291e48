//! One name as a scan finds it: its attributes, as far as the transfer wants them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use penstock_api::preserve::Preserve;
use penstock_proto::attributes::{AttributeClass, ClassSet};
use penstock_proto::listing::{ListedEntry, ListedKind};
use penstock_proto::manifest::{EntryDraft, EntryKind};
use penstock_store::{Dir, Kind, Meta, Source, StoreError};

/// Names of owners that are remembered; beyond that all are asked for again.
const NAMES_MAX: usize = 16 * 1024;

/// The attributes that a scan reads of each entry.
pub(super) struct WantedAttributes {
    xattrs: ClassSet,
    links: bool,
    devices: bool,
    sparse: bool,
    names: Option<OwnerNames>,
}

/// The names of a user and a group; empty if there is none.
type Names = [Arc<[u8]>; 2];

#[derive(Default)]
struct OwnerNames {
    users: Mutex<HashMap<u32, Arc<[u8]>>>,
    groups: Mutex<HashMap<u32, Arc<[u8]>>>,
}

impl WantedAttributes {
    pub(super) fn of(preserve: &Preserve, owner_names: bool) -> Self {
        let is_xattr = |class: &AttributeClass| {
            use AttributeClass::{Acls, SecurityXattrs, TrustedXattrs, UserXattrs};
            matches!(class, Acls | SecurityXattrs | TrustedXattrs | UserXattrs)
                && preserve.classes().contains(*class)
        };
        Self {
            xattrs: ClassSet::of(AttributeClass::ALL.into_iter().filter(is_xattr)),
            links: preserve.links,
            devices: preserve.devices,
            sparse: preserve.sparse,
            names: (owner_names && preserve.owner).then(OwnerNames::default),
        }
    }

    /// Returns whether entries of that kind belong to the data set.
    fn takes(&self, kind: EntryKind) -> bool {
        match kind {
            EntryKind::Symlink => self.links,
            EntryKind::Fifo | EntryKind::CharDevice | EntryKind::BlockDevice => self.devices,
            EntryKind::File | EntryKind::Directory | EntryKind::HardLink => true,
        }
    }
}

impl OwnerNames {
    fn of(&self, meta: &Meta) -> Names {
        [
            name_of(&self.users, meta.owner.uid, penstock_sys::user_name),
            name_of(&self.groups, meta.owner.gid, penstock_sys::group_name),
        ]
    }
}

fn name_of(
    known: &Mutex<HashMap<u32, Arc<[u8]>>>,
    number: u32,
    ask: fn(u32) -> Option<Vec<u8>>,
) -> Arc<[u8]> {
    let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
    if known.len() >= NAMES_MAX {
        known.clear();
    }
    Arc::clone(known.entry(number).or_insert_with(|| ask(number).unwrap_or_default().into()))
}

/// A name of a directory and its attributes.
pub(super) struct Found {
    pub(super) name: Vec<u8>,
    pub(super) meta: Result<Meta, StoreError>,
    link: Vec<u8>,
    pub(super) xattrs: Vec<u8>,
    /// Extended attributes that are too large, or may not be read.
    pub(super) left_out: usize,
    owner_names: Names,
}

impl Found {
    /// Learns the rest of `name` in `dir`, which was looked at; the empty name is `dir` itself.
    pub(super) fn with(
        source: &Source,
        dir: &Dir,
        name: &[u8],
        meta: Result<Meta, StoreError>,
        wants: &WantedAttributes,
    ) -> Self {
        let none: Arc<[u8]> = Arc::default();
        let mut found = Self {
            name: name.to_vec(),
            meta,
            link: Vec::new(),
            xattrs: Vec::new(),
            left_out: 0,
            owner_names: [Arc::clone(&none), none],
        };
        if let Err(error) = found.complete(source, dir, wants) {
            found.meta = Err(error);
        }
        found
    }

    /// Converts an entry that another peer has listed. Returns also its attributes as that peer
    /// sees them.
    pub(super) fn of_listed(entry: ListedEntry) -> (Self, Meta) {
        let [user, group] = entry.owner_names;
        let meta = Meta {
            kind: kind_of(entry.kind),
            size: entry.size,
            mode: entry.mode,
            owner: entry.owner,
            special: entry.special,
            mtime: entry.mtime,
            ctime: entry.ctime,
            inode: entry.inode,
            blocks: entry.blocks,
            links: entry.links,
            device: entry.device,
            made: entry.made,
        };
        let found = Self {
            name: entry.name,
            meta: Ok(meta),
            link: entry.link,
            xattrs: entry.xattrs,
            left_out: entry.left_out as usize,
            owner_names: [user.into(), group.into()],
        };
        (found, meta)
    }

    /// Converts an entry for another peer; `None` if its attributes could not be read.
    pub(super) fn listed(self) -> Option<ListedEntry> {
        let meta = self.meta.ok()?;
        Some(ListedEntry {
            name: self.name,
            kind: listed_kind(meta.kind),
            size: meta.size,
            mode: meta.mode,
            owner: meta.owner,
            special: meta.special,
            mtime: meta.mtime,
            ctime: meta.ctime,
            inode: meta.inode,
            blocks: meta.blocks,
            links: meta.links,
            device: meta.device,
            made: meta.made,
            link: self.link,
            xattrs: self.xattrs,
            left_out: u32::try_from(self.left_out).unwrap_or(u32::MAX),
            owner_names: self.owner_names.map(|name| name.to_vec()),
        })
    }

    fn complete(
        &mut self,
        source: &Source,
        dir: &Dir,
        wants: &WantedAttributes,
    ) -> Result<(), StoreError> {
        let Ok(meta) = &self.meta else { return Ok(()) };
        if meta.kind == Kind::Symlink && wants.links {
            self.link = source.read_link(dir, &self.name)?;
        }
        if meta.kind.entry_kind().is_some_and(|kind| wants.takes(kind)) {
            (self.xattrs, self.left_out) = source.xattrs(dir, &self.name, wants.xattrs)?;
        }
        if let Some(names) = &wants.names {
            self.owner_names = names.of(meta);
        }
        Ok(())
    }

    /// Returns the manifest entry under `name`; `None` if it is not part of the data set.
    pub(super) fn draft<'a>(
        &'a self,
        name: &'a [u8],
        meta: &Meta,
        wants: &WantedAttributes,
    ) -> Option<EntryDraft<'a>> {
        let kind = meta.kind.entry_kind().filter(|kind| wants.takes(*kind))?;
        let [user, group] = &self.owner_names;
        Some(EntryDraft {
            name,
            kind,
            sparse: kind == EntryKind::File && wants.sparse && meta.is_sparse(),
            hollow: kind == EntryKind::File && wants.sparse && meta.is_hollow(),
            linked: false,
            special: kind == EntryKind::File && meta.made,
            mode: meta.mode,
            owner: meta.owner,
            owner_names: [user, group],
            size: if kind == EntryKind::File { meta.size } else { 0 },
            mtime: meta.mtime,
            identity: meta.identity(),
            device: match kind {
                EntryKind::CharDevice | EntryKind::BlockDevice => meta.special,
                _ => Default::default(),
            },
            link: &self.link,
            xattrs: &self.xattrs,
        })
    }
}

/// Returns the kind that a message carries.
pub(super) fn kind_of(kind: ListedKind) -> Kind {
    match kind {
        ListedKind::File => Kind::File,
        ListedKind::Directory => Kind::Directory,
        ListedKind::Symlink => Kind::Symlink,
        ListedKind::Fifo => Kind::Fifo,
        ListedKind::CharDevice => Kind::CharDevice,
        ListedKind::BlockDevice => Kind::BlockDevice,
        ListedKind::Other => Kind::Other,
    }
}

/// Returns the kind as messages carry it.
pub(super) fn listed_kind(kind: Kind) -> ListedKind {
    match kind {
        Kind::File => ListedKind::File,
        Kind::Directory => ListedKind::Directory,
        Kind::Symlink => ListedKind::Symlink,
        Kind::Fifo => ListedKind::Fifo,
        Kind::CharDevice => ListedKind::CharDevice,
        Kind::BlockDevice => ListedKind::BlockDevice,
        Kind::Other => ListedKind::Other,
    }
}

/// Returns whether another file system than `device` begins at a directory, which is then left
/// alone. A directory that cannot be examined is listed, and its error is reported.
pub(super) fn is_mount(source: &Source, dir: &Dir, device: Option<u64>) -> bool {
    let Some(device) = device else { return false };
    source.stat(dir, b"").is_ok_and(|meta| meta.device != device)
}
