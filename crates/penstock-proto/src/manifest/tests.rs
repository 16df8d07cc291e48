//! Promises of a page to every reader.

use proptest::prelude::*;

use super::page::Span;
use super::*;
use crate::attributes::{DeviceNumber, Owner, encode_xattrs};
use crate::id::TransferId;
use crate::slicing::Slicing;
use crate::units::FileTime;
use crate::wire::DecodeError;

fn draft(name: &[u8], kind: EntryKind, size: u64) -> EntryDraft<'_> {
    EntryDraft {
        name,
        kind,
        size,
        mtime: FileTime { seconds: -5, nanoseconds: 999_999_999 },
        identity: Identity { inode: 7, ctime: FileTime { seconds: 1, nanoseconds: 2 } },
        link: if kind == EntryKind::Symlink { b"../elsewhere" } else { b"" },
        ..EntryDraft::default()
    }
}

fn sample() -> Page {
    let mut builder = PageBuilder::new(TransferId([3; 16]), 9, Slicing::default());
    builder.push(b"", &draft(b"", EntryKind::Directory, 0));
    builder.push(b"", &draft(b"caf\xff\n", EntryKind::Directory, 0));
    builder.push(b"caf\xff\n", &draft(b"-rf", EntryKind::File, 1 << 40));
    builder.push(b"caf\xff\n", &draft(b"link", EntryKind::Symlink, 0));
    let (xattrs, _) = encode_xattrs([(&b"user.a"[..], &b"\0value"[..])].into_iter());
    let owned = EntryDraft {
        owner: Owner { uid: 7, gid: 9 },
        owner_names: [b"alice", b"staff"],
        device: DeviceNumber { major: 8, minor: 1 },
        xattrs: &xattrs,
        ..draft(b"disk", EntryKind::BlockDevice, 0)
    };
    builder.push(b"caf\xff\n", &owned);
    let hard =
        EntryDraft { link: b"caf\xff\n/-rf", linked: true, ..draft(b"x", EntryKind::File, 1) };
    builder.push(b"caf\xff\n", &EntryDraft { kind: EntryKind::HardLink, ..hard });
    builder.seal()
}

/// Promise (j), A12: a page read back from disk or wire has the entries that the scan saw, names
/// included.
#[test]
fn a_page_survives_encoding() {
    let page = sample();
    let read = Page::decode(&page.encode()).unwrap();
    assert_eq!(read.encode(), page.encode());
    assert_eq!(read.path(&read.entries()[2]), b"caf\xff\n/-rf");
    assert_eq!(read.path(&read.entries()[0]), b"");
    assert_eq!(read.link(&read.entries()[3]), b"../elsewhere");
    assert_eq!(read.file_bytes(), 1 << 40);
    let disk = &read.entries()[4];
    assert_eq!((disk.device.major, disk.device.minor), (8, 1));
    assert_eq!((read.user(7), read.group(9)), (Some(&b"alice"[..]), Some(&b"staff"[..])));
    assert_eq!(read.xattrs(disk).get(b"user.a"), Some(&b"\0value"[..]));
    assert_eq!(read.link(&read.entries()[5]), b"caf\xff\n/-rf");
}

/// C1: a page that amends earlier ones names the entries of which it has newer versions. A page
/// that amends itself, a later page, or anything but files is refused.
#[test]
fn c1_a_page_says_what_it_amends() {
    let (transfer, slicing) = (TransferId([3; 16]), Slicing::default());
    let amends = Amends { page: 2, entry: 17, same_bytes: true };
    let page = |kind, amends| {
        let mut builder = PageBuilder::amending(transfer, 9, 1, slicing);
        builder.push_amending(b"d", &draft(b"f", kind, 0), amends);
        builder.seal().encode()
    };
    let encoded = page(EntryKind::File, amends);
    let read = Page::decode(&encoded).unwrap();
    assert_eq!((read.round, read.amends()), (1, &[amends][..]));
    assert_eq!(read.encode(), encoded);
    assert!(is_amending(&encoded) && !is_amending(&sample().encode()));
    let wrong = Err(DecodeError::Invalid("amends"));
    assert_eq!(Page::decode(&page(EntryKind::Directory, amends)), wrong);
    assert_eq!(Page::decode(&page(EntryKind::File, Amends { page: 9, ..amends })), wrong);
    assert_eq!(Page::decode(&page(EntryKind::File, Amends { entry: 4096, ..amends })), wrong);
}

/// C5: a manifest with a name twice could write through a link that it planted before.
#[test]
fn c5_a_name_twice_is_refused() {
    let mut builder = PageBuilder::new(TransferId([3; 16]), 0, Slicing::default());
    builder.push(b"", &draft(b"a", EntryKind::Symlink, 0));
    builder.push(b"", &draft(b"a", EntryKind::File, 1));
    let bytes = builder.seal().encode();
    assert_eq!(Page::decode(&bytes), Err(DecodeError::Invalid("name twice")));
}

/// Promise (g): a small page that claims huge files is refused before it is cut into pieces,
/// and sums of their sizes do not overflow.
#[test]
fn a_page_of_impossible_sizes_is_refused() {
    let slicing = Slicing::default();
    let mut builder = PageBuilder::new(TransferId([3; 16]), 0, slicing);
    builder.push(b"", &draft(b"a", EntryKind::File, i64::MAX as u64));
    assert!(builder.is_full_for(b"", &draft(b"b", EntryKind::File, 1)));
    let mut page = builder.seal();
    assert!(Page::decode(&page.encode()).is_ok(), "one such file, sparse, is legitimate");
    for name in [b"b", b"c"] {
        let mut other = PageBuilder::new(TransferId([3; 16]), 0, slicing);
        other.push(b"", &draft(name, EntryKind::File, i64::MAX as u64));
        let start = page.text.len() as u32;
        page.text.extend_from_slice(name);
        page.entries.push(Entry { name: Span { start, length: 1 }, ..other.page.entries[0] });
    }
    assert_eq!(page.file_bytes(), u64::MAX);
    assert_eq!(Page::decode(&page.encode()), Err(DecodeError::Invalid("size")));
}

proptest! {
    /// Hostile bytes in a page end in an error or in a page that encodes again, never a panic.
    #[test]
    fn damaged_pages_never_panic(at in 0usize..700, value in any::<u8>(), cut in 0usize..400) {
        let mut bytes = sample().encode();
        let at = at % bytes.len();
        bytes[at] = value;
        bytes.truncate(bytes.len().saturating_sub(cut % 8));
        if let Ok(page) = Page::decode(&bytes) {
            prop_assert_eq!(page.encode(), bytes);
        }
    }
}

/// C5, B6: a hard link that climbs out of the data set, or a list of attributes that is not sound,
/// makes the page a broken one.
#[test]
fn c5_a_hard_link_out_of_the_root_is_refused() {
    for (link, field) in [(&b"../x"[..], "path"), (b"/etc/shadow", "path"), (b"", "primary")] {
        let mut builder = PageBuilder::new(TransferId([3; 16]), 0, Slicing::default());
        builder.push(b"", &EntryDraft { link, ..draft(b"a", EntryKind::HardLink, 0) });
        let bytes = builder.seal().encode();
        assert_eq!(Page::decode(&bytes), Err(DecodeError::Invalid(field)));
    }
    let (selinux, _) = encode_xattrs([(&b"user.ab"[..], &b"x"[..])].into_iter());
    let mut twice = selinux.clone();
    twice.extend_from_slice(&selinux);
    let mut builder = PageBuilder::new(TransferId([3; 16]), 0, Slicing::default());
    builder.push(b"", &EntryDraft { xattrs: &twice, ..draft(b"a", EntryKind::File, 0) });
    let bytes = builder.seal().encode();
    assert_eq!(Page::decode(&bytes), Err(DecodeError::Invalid("attribute twice")));
}

/// D7: the number that chown(2) takes for "no change" is no owner: it would leave ours.
#[test]
fn d7_an_owner_that_is_none_is_refused() {
    for owner in [Owner { uid: u32::MAX, gid: 0 }, Owner { uid: 0, gid: u32::MAX }] {
        let mut builder = PageBuilder::new(TransferId([3; 16]), 0, Slicing::default());
        builder.push(b"", &EntryDraft { owner, ..draft(b"a", EntryKind::File, 0) });
        let bytes = builder.seal().encode();
        assert_eq!(Page::decode(&bytes), Err(DecodeError::Invalid("owner")));
    }
}
