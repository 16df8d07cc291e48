//! Attributes of an entry beside its bytes: owner, device number, extended attributes. Defines the
//! classes in which attributes are preserved, withheld or refused.
//!
//! Extended attributes travel as one encoded list per entry ([`encode_xattrs`], [`Xattrs`]), at
//! most [`XATTRS_BYTES_MAX`] bytes. POSIX ACLs are extended attributes too, in the form of Linux
//! (`system.posix_acl_access`, acl(5), linux/posix_acl_xattr.h).

use serde::{Deserialize, Serialize};

use crate::wire::{DecodeError, Reader, Writer};

/// Longest name of an extended attribute, in bytes (`XATTR_NAME_MAX`, linux/limits.h).
pub const XATTR_NAME_BYTES_MAX: usize = 255;
/// Longest value of an extended attribute, in bytes (`XATTR_SIZE_MAX`, linux/limits.h).
pub const XATTR_VALUE_BYTES_MAX: usize = 64 * 1024;
/// Most bytes of one entry's encoded extended attributes; others are withheld and counted. ext4
/// holds less than 4 KiB of them, or 64 KiB a value with `ea_inode`. XFS and Btrfs hold 64 KiB a
/// value, and as many as their names fit into a list of 64 KiB. A page holds four such entries at
/// most.
pub const XATTRS_BYTES_MAX: usize = 1024 * 1024;
/// Longest name of a user or group, in bytes (`LOGIN_NAME_MAX`, limits.h).
pub const OWNER_NAME_BYTES_MAX: usize = 256;
/// The access ACL of a file or directory.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// The default ACL of a directory, which its new entries start with.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

/// Numbers of an entry's user and group, as its own host has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// The number of a character or block device; zeros for all other entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub struct DeviceNumber {
    /// Its driver.
    pub major: u32,
    /// The device among those of the driver.
    pub minor: u32,
}

/// A class of attributes: kept, withheld or refused as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum AttributeClass {
    /// User and group.
    Owner,
    /// The setuid, setgid and sticky bits.
    SpecialMode,
    /// POSIX ACLs.
    Acls,
    /// Extended attributes `user.*`.
    UserXattrs,
    /// Extended attributes `trusted.*`.
    TrustedXattrs,
    /// Extended attributes `security.*`, capabilities among them.
    SecurityXattrs,
    /// FIFOs and device nodes: entries that are nothing but an attribute.
    Devices,
    /// Permission bits, without those of [`AttributeClass::SpecialMode`].
    Mode,
    /// Times of last modification of files, links and devices: a later comparison distinguishes
    /// versions of a file by them.
    Times,
    /// Times of last modification of directories.
    DirectoryTimes,
}

impl AttributeClass {
    /// Number of classes.
    pub const COUNT: usize = 10;
    /// All classes.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Owner,
        Self::SpecialMode,
        Self::Acls,
        Self::UserXattrs,
        Self::TrustedXattrs,
        Self::SecurityXattrs,
        Self::Devices,
        Self::Mode,
        Self::Times,
        Self::DirectoryTimes,
    ];

    /// Returns whether it is a class of extended attributes, ACLs included.
    pub fn is_of_xattrs(self) -> bool {
        use AttributeClass::{Acls, SecurityXattrs, TrustedXattrs, UserXattrs};
        matches!(self, Acls | UserXattrs | TrustedXattrs | SecurityXattrs)
    }

    /// Returns the text for messages.
    pub fn words(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::SpecialMode => "setuid, setgid and sticky bits",
            Self::Acls => "ACLs",
            Self::UserXattrs => "user attributes",
            Self::TrustedXattrs => "trusted attributes",
            Self::SecurityXattrs => "security attributes",
            Self::Devices => "FIFOs and devices",
            Self::Mode => "mode",
            Self::Times => "times",
            Self::DirectoryTimes => "directory times",
        }
    }
}

/// A set of classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ClassSet(u16);

impl ClassSet {
    /// Returns the set of `classes`.
    pub fn of(classes: impl IntoIterator<Item = AttributeClass>) -> Self {
        Self(classes.into_iter().fold(0, |bits, class| bits | 1 << class as u8))
    }

    /// Returns whether `class` is in the set.
    pub fn contains(self, class: AttributeClass) -> bool {
        self.0 & (1 << class as u8) != 0
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// Extended attributes that belong to one file system or host rather than to the data: labels of a
/// host's own policy, hashes over the inode, and the layouts of Lustre and Gluster.
const NEVER_CARRIED: [&[u8]; 8] = [
    b"security.selinux",
    b"security.evm",
    b"trusted.lov",
    b"trusted.lma",
    b"trusted.link",
    b"trusted.som",
    b"trusted.gfid",
    b"trusted.glusterfs",
];

/// Returns the class of an extended attribute by its name; `None` for one that is never carried.
pub fn class_of(name: &[u8]) -> Option<AttributeClass> {
    let is = |known: &&[u8]| {
        name.strip_prefix(*known).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"."))
    };
    if NEVER_CARRIED.iter().any(is) {
        return None;
    }
    if name == ACL_ACCESS || name == ACL_DEFAULT {
        return Some(AttributeClass::Acls);
    }
    // A prefix alone is no name, and the error of Linux for it suggests that the class is missing.
    let at = name.iter().position(|&byte| byte == b'.').filter(|at| at + 1 < name.len())?;
    match &name[..at] {
        b"user" => Some(AttributeClass::UserXattrs),
        b"trusted" => Some(AttributeClass::TrustedXattrs),
        b"security" => Some(AttributeClass::SecurityXattrs),
        _ => None,
    }
}

/// Encodes names and values, in their order, as far as they fit; returns the bytes and the number
/// of attributes left out. Names that no manifest may hold are left out too.
pub fn encode_xattrs<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> (Vec<u8>, usize) {
    let mut out = Writer::new();
    let mut left_out = 0;
    for (name, value) in pairs {
        let bytes = 8 + name.len() + value.len();
        let long = value.len() > XATTR_VALUE_BYTES_MAX;
        if !is_carried(name) || long || out.len() + bytes > XATTRS_BYTES_MAX {
            left_out += 1;
            continue;
        }
        out.bytes(name);
        out.bytes(value);
    }
    (out.into_bytes(), left_out)
}

fn is_carried(name: &[u8]) -> bool {
    name.len() <= XATTR_NAME_BYTES_MAX && !name.contains(&0) && class_of(name).is_some()
}

/// Checks an encoded list for the properties on which [`Xattrs`] relies.
///
/// # Errors
/// `Truncated`; `Invalid` for a name that is never carried, or a list that is too long.
pub(crate) fn check_xattrs(encoded: &[u8]) -> Result<(), DecodeError> {
    if encoded.len() > XATTRS_BYTES_MAX {
        return Err(DecodeError::Invalid("attributes"));
    }
    let mut input = Reader::new(encoded);
    let mut names = Vec::new();
    while input.remaining() > 0 {
        let name = input.bytes(XATTR_NAME_BYTES_MAX, "attribute name")?;
        input.bytes(XATTR_VALUE_BYTES_MAX, "attribute value")?;
        if !is_carried(name) {
            return Err(DecodeError::Invalid("attribute name"));
        }
        names.push(name);
    }
    names.sort_unstable();
    match names.windows(2).any(|pair| pair[0] == pair[1]) {
        true => Err(DecodeError::Invalid("attribute twice")),
        false => Ok(()),
    }
}

/// The extended attributes of an entry: names and values, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Xattrs<'a> {
    encoded: &'a [u8],
}

impl<'a> Xattrs<'a> {
    /// Returns the attributes of an encoded list that was checked; unsound parts are passed over.
    pub fn of(encoded: &'a [u8]) -> Self {
        Self { encoded }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.encoded.is_empty()
    }

    /// Returns the value of an attribute.
    pub fn get(&self, wanted: &[u8]) -> Option<&'a [u8]> {
        self.into_iter().find(|(name, _)| *name == wanted).map(|(_, value)| value)
    }
}

impl<'a> IntoIterator for Xattrs<'a> {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = XattrIter<'a>;

    fn into_iter(self) -> XattrIter<'a> {
        XattrIter { input: Reader::new(self.encoded) }
    }
}

/// Iterator over the names and values of [`Xattrs`].
#[derive(Clone, Debug)]
pub struct XattrIter<'a> {
    input: Reader<'a>,
}

impl<'a> Iterator for XattrIter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let name = self.input.bytes(XATTR_NAME_BYTES_MAX, "attribute name").ok()?;
        let value = self.input.bytes(XATTR_VALUE_BYTES_MAX, "attribute value").ok()?;
        Some((name, value))
    }
}

/// Returns the permissions of the owning group in an access ACL. With an ACL the group bits of the
/// mode are its mask. Without the ACL they must be these permissions, or the group would gain
/// rights that the ACL did not grant. Returns `None` for an ACL of another version than that of
/// Linux (2).
pub fn acl_group_bits(acl: &[u8]) -> Option<u32> {
    const GROUP_OBJECT: u16 = 0x04;
    const MASK: u16 = 0x10;
    let mut input = Reader::new(acl);
    if input.u32("version").ok()? != 2 {
        return None;
    }
    let (mut group, mut mask) = (None, 7);
    while input.remaining() > 0 {
        let tag = input.u16("tag").ok()?;
        let bits = u32::from(input.u16("permissions").ok()?) & 7;
        input.u32("id").ok()?;
        match tag {
            GROUP_OBJECT => group = Some(bits),
            MASK => mask = bits,
            _ => {}
        }
    }
    group.map(|bits| bits & mask)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// D7: attributes of one host or file system are never carried, and every other attribute is in
    /// the class by which a target allows or withholds it.
    #[test]
    fn d7_attributes_are_classed_by_their_names() {
        for (name, class) in [
            (&b"user.a"[..], Some(AttributeClass::UserXattrs)),
            (b"trusted.overlay.opaque", Some(AttributeClass::TrustedXattrs)),
            (b"security.capability", Some(AttributeClass::SecurityXattrs)),
            (b"system.posix_acl_access", Some(AttributeClass::Acls)),
            (b"security.selinux", None),
            (b"trusted.glusterfs.volume-id", None),
            (b"system.nfs4_acl", None),
            (b"btrfs.compression", None),
            (b"userx.a", None),
            (b"user", None),
            (b"user.", None),
            (b"security", None),
        ] {
            assert_eq!(class_of(name), class, "{}", crate::name::escape(name));
        }
    }

    /// Promise: without its ACL a file grants its group no more than the ACL did.
    #[test]
    fn the_group_bits_behind_a_mask_are_found() {
        let mut acl = Writer::new();
        acl.u32(2);
        for (tag, bits, id) in
            [(1u16, 6u16, u32::MAX), (2, 6, 7), (4, 5, u32::MAX), (0x10, 6, u32::MAX), (0x20, 0, 0)]
        {
            acl.u16(tag);
            acl.u16(bits);
            acl.u32(id);
        }
        assert_eq!(acl_group_bits(&acl.into_bytes()), Some(4));
        assert_eq!(acl_group_bits(b"\x03\0\0\0"), None);
    }

    proptest! {
        /// Promise: encoded lists are read back, and hostile bytes never panic.
        #[test]
        fn lists_survive_and_hostile_ones_are_refused(
            values in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..70_000), 0..24),
            noise in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let names: Vec<_> = (0..values.len()).map(|at| format!("user.{at}")).collect();
            let pairs = names.iter().map(String::as_bytes).zip(values.iter().map(Vec::as_slice));
            let (encoded, left_out) = encode_xattrs(pairs.clone());
            prop_assert_eq!(check_xattrs(&encoded), Ok(()));
            let read: Vec<_> = Xattrs::of(&encoded).into_iter().collect();
            prop_assert_eq!(read.len() + left_out, values.len());
            prop_assert!(read.iter().all(|pair| pairs.clone().any(|known| known == *pair)));
            if check_xattrs(&noise).is_ok() {
                let bytes = Xattrs::of(&noise).into_iter().map(|(n, v)| 8 + n.len() + v.len());
                prop_assert_eq!(bytes.sum::<usize>(), noise.len());
            }
            let _ = acl_group_bits(&noise);
        }
    }
}
