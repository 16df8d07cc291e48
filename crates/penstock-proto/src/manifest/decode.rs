//! Decoder of pages from an untrusted source: it checks everything on which later code relies.

use std::collections::{BTreeMap, HashSet};

use super::builder::PageBuilder;
use super::page::{
    Amends, Entry, EntryKind, HOLLOW, Identity, LINK_BYTES_MAX, LINKED, OwnerName, PAGE_BYTES_MAX,
    PAGE_ENTRIES_MAX, PAGE_MAGIC, PAGE_PIECES_MAX, Page, SPARSE, SPECIAL,
};
use crate::attributes::{
    DeviceNumber, OWNER_NAME_BYTES_MAX, Owner, XATTRS_BYTES_MAX, check_xattrs,
};
use crate::id::TransferId;
use crate::name;
use crate::slicing::Slicing;
use crate::units::FileTime;
use crate::wire::{DecodeError, Reader};

impl Page {
    /// Reads a page and checks everything on which later code relies: bounds, paths that remain
    /// inside the root, names that are one component, no name twice in a directory.
    ///
    /// # Errors
    /// [`DecodeError`] for anything else; a hostile page costs no more memory than its own length.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() > PAGE_BYTES_MAX {
            return Err(DecodeError::Invalid("page length"));
        }
        let mut input = Reader::new(bytes);
        if input.array::<8>("page magic")? != *PAGE_MAGIC {
            return Err(DecodeError::Invalid("page magic"));
        }
        let transfer = TransferId::decode(&mut input)?;
        let number = input.u32("page number")?;
        let round = input.u8("round")?;
        let slicing = Slicing::decode(&mut input)?;
        let mut builder = PageBuilder::amending(transfer, number, round, slicing);
        let directory_count = input.u32("directory count")?;
        for _ in 0..directory_count {
            let path = input.bytes(name::PATH_BYTES_MAX, "directory")?;
            if builder.page.directories.len() >= PAGE_ENTRIES_MAX {
                return Err(DecodeError::Invalid("directory count"));
            }
            name::check_relative(path)?;
            let span = builder.push_text(path);
            builder.page.directories.push(span);
        }
        builder.page.users = decode_owners(&mut input, &mut builder)?;
        builder.page.groups = decode_owners(&mut input, &mut builder)?;
        let entry_count = input.u32("entry count")?;
        if entry_count as usize > PAGE_ENTRIES_MAX {
            return Err(DecodeError::Invalid("entry count"));
        }
        for _ in 0..entry_count {
            decode_entry(&mut input, &mut builder, directory_count)?;
        }
        if round > 0 {
            for entry in &builder.page.entries {
                builder.page.amends.push(decode_amends(&mut input, number, entry.kind)?);
            }
        }
        input.finish()?;
        let (page, pieces) = (builder.page, builder.pieces);
        if pieces > PAGE_PIECES_MAX {
            return Err(DecodeError::Invalid("size"));
        }
        page.check_names_once()?;
        Ok(page)
    }

    /// Checks that no name occurs twice, which would let one entry be written through another (C5).
    fn check_names_once(&self) -> Result<(), DecodeError> {
        let mut seen = HashSet::with_capacity(self.entries.len());
        for entry in &self.entries {
            if !seen.insert((self.directory(entry), self.name(entry))) {
                return Err(DecodeError::Invalid("name twice"));
            }
        }
        Ok(())
    }
}

/// Reads the names of users or groups, in ascending order of their numbers.
fn decode_owners(
    input: &mut Reader<'_>,
    builder: &mut PageBuilder,
) -> Result<BTreeMap<u32, OwnerName>, DecodeError> {
    let count = input.u32("owner count")?;
    if count as usize > PAGE_ENTRIES_MAX {
        return Err(DecodeError::Invalid("owner count"));
    }
    let mut owners = BTreeMap::new();
    for _ in 0..count {
        let number = input.u32("owner")?;
        let text = input.bytes(OWNER_NAME_BYTES_MAX, "owner name")?;
        let ascends = owners.last_key_value().is_none_or(|(last, _)| *last < number);
        if !ascends || text.is_empty() || text.contains(&0) {
            return Err(DecodeError::Invalid("owner name"));
        }
        owners.insert(number, OwnerName(builder.push_text(text)));
    }
    Ok(owners)
}

fn decode_entry(
    input: &mut Reader<'_>,
    builder: &mut PageBuilder,
    directory_count: u32,
) -> Result<(), DecodeError> {
    let kind = decode_kind(input)?;
    let flags = input.u8("flags")?;
    let (file, hard_link) = (kind == EntryKind::File, kind == EntryKind::HardLink);
    let may_be_special = file || hard_link || kind == EntryKind::Directory;
    let unfit =
        (flags & (SPARSE | HOLLOW) != 0 && !file) || (flags & SPECIAL != 0 && !may_be_special);
    if flags & !(SPARSE | LINKED | SPECIAL | HOLLOW) != 0 || unfit {
        return Err(DecodeError::Invalid("flags"));
    }
    let directory = input.u32("directory")?;
    if directory >= directory_count {
        return Err(DecodeError::Invalid("directory"));
    }
    let name_bytes = input.bytes(name::NAME_BYTES_MAX, "name")?;
    let is_root = name_bytes.is_empty() && builder.page.directories[directory as usize].length == 0;
    if !is_root && !name::is_component(name_bytes) {
        return Err(DecodeError::Invalid("name"));
    }
    let mode = input.u32("mode")?;
    if mode > 0o7777 {
        return Err(DecodeError::Invalid("mode"));
    }
    let owner = decode_owner(input)?;
    let size = input.u64("size")?;
    if size > i64::MAX as u64 || (!file && !hard_link && size != 0) {
        return Err(DecodeError::Invalid("size"));
    }
    let mtime = FileTime::decode(input)?;
    let identity = Identity { inode: input.u64("inode")?, ctime: FileTime::decode(input)? };
    let device = match kind {
        EntryKind::CharDevice | EntryKind::BlockDevice => {
            DeviceNumber { major: input.u32("major")?, minor: input.u32("minor")? }
        }
        _ => DeviceNumber::default(),
    };
    let link_bytes = decode_link(input, kind)?;
    let xattr_bytes = input.bytes(XATTRS_BYTES_MAX, "attributes")?;
    check_xattrs(xattr_bytes)?;
    if file {
        builder.pieces += builder.page.slicing.extent_count(size);
    }
    let name = builder.push_text(name_bytes);
    let link = builder.push_text(link_bytes);
    let xattrs = builder.push_text(xattr_bytes);
    let (sparse, linked) = (flags & SPARSE != 0, flags & LINKED != 0);
    let (special, hollow) = (flags & SPECIAL != 0, flags & HOLLOW != 0);
    builder.page.entries.push(Entry {
        kind,
        sparse,
        hollow,
        linked,
        special,
        mode,
        owner,
        size,
        mtime,
        identity,
        device,
        directory,
        name,
        link,
        xattrs,
    });
    Ok(())
}

/// Reads the reference to an amended entry, for an entry that is itself a file.
fn decode_amends(
    input: &mut Reader<'_>,
    number: u32,
    kind: EntryKind,
) -> Result<Amends, DecodeError> {
    let (page, entry) = (input.u32("amended page")?, input.u32("amended entry")?);
    let same_bytes = match input.u8("amends flags")? {
        0 => false,
        1 => true,
        _ => return Err(DecodeError::Invalid("amends flags")),
    };
    if page >= number || entry as usize >= PAGE_ENTRIES_MAX || kind != EntryKind::File {
        return Err(DecodeError::Invalid("amends"));
    }
    Ok(Amends { page, entry, same_bytes })
}

fn decode_owner(input: &mut Reader<'_>) -> Result<Owner, DecodeError> {
    let owner = Owner { uid: input.u32("uid")?, gid: input.u32("gid")? };
    // chown(2) interprets that number as "unchanged".
    if owner.uid == u32::MAX || owner.gid == u32::MAX {
        return Err(DecodeError::Invalid("owner"));
    }
    Ok(owner)
}

fn decode_kind(input: &mut Reader<'_>) -> Result<EntryKind, DecodeError> {
    let number = input.u8("entry kind")?;
    let known = EntryKind::ALL.into_iter().find(|kind| kind.number() == number);
    known.ok_or(DecodeError::Invalid("entry kind"))
}

/// Reads the text of a symbolic link, or the path of a hard link's primary, which remains inside
/// the root.
fn decode_link<'a>(input: &mut Reader<'a>, kind: EntryKind) -> Result<&'a [u8], DecodeError> {
    match kind {
        EntryKind::Symlink => {
            let text = input.bytes(LINK_BYTES_MAX, "link")?;
            let sound = !text.is_empty() && !text.contains(&0);
            if sound { Ok(text) } else { Err(DecodeError::Invalid("link")) }
        }
        EntryKind::HardLink => {
            let path = input.bytes(name::PATH_BYTES_MAX, "primary")?;
            name::check_relative(path)?;
            if path.is_empty() { Err(DecodeError::Invalid("primary")) } else { Ok(path) }
        }
        _ => Ok(&[]),
    }
}
