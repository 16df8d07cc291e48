//! Directories of all shapes, listed as users list them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use penstock_api::place::PathText;
use penstock_api::plan::ItemKind;
use penstock_api::problem::ProblemCode;
use penstock_api::rest::{EntrySort, EntryView, SORTED_NAMES_MAX};
use penstock_store::{IoMode, PosixOptions, PosixStore};

use super::*;
use crate::stores::{StoreKind, StoreSpec};

fn stores(root: &Path) -> Stores {
    let spec = |name: &str, kind, read_only| StoreSpec {
        name: name.parse().unwrap(),
        kind,
        read_only,
        ephemeral: false,
        allow_privileged: false,
        mapped: name == "home",
        io: IoMode::Auto,
    };
    let posix = StoreKind::Posix(root.to_owned());
    Stores::new([
        spec("data", posix.clone(), false),
        spec("home", posix.clone(), false),
        spec("fixed", posix, true),
        spec("null", StoreKind::Null, false),
        spec("mem", StoreKind::Mem("mem:files=30000,size=1K".parse().unwrap()), false),
    ])
}

fn query(path: &str) -> EntriesQuery {
    EntriesQuery { path: text(path.as_bytes()), ..EntriesQuery::default() }
}

fn text(bytes: &[u8]) -> PathText {
    PathText(bytes.to_vec())
}

fn ask(stores: &Stores, store: &str, query: &EntriesQuery) -> Result<EntryList, Problem> {
    list_entries(stores, &store.parse().unwrap(), query)
}

fn code(stores: &Stores, query: &EntriesQuery) -> ProblemCode {
    ask(stores, "data", query).unwrap_err().code
}

/// Follows the cursor to the end; returns the entries, the number of parts, and whether all parts
/// are sorted.
fn all(stores: &Stores, store: &str, mut query: EntriesQuery) -> (Vec<EntryView>, usize, bool) {
    let (mut items, mut parts, mut sorted) = (Vec::new(), 0, true);
    loop {
        let part = ask(stores, store, &query).unwrap();
        assert!(part.items.len() <= query.limit.unwrap_or(ENTRIES_MAX) as usize);
        items.extend(part.items);
        parts += 1;
        sorted &= part.sorted;
        query.cursor = part.next;
        if query.cursor.is_none() {
            return (items, parts, sorted);
        }
    }
}

fn names(items: &[EntryView]) -> Vec<String> {
    items.iter().map(|entry| entry.name.to_string()).collect()
}

/// Promise (j, C5): each entry is shown with its kind, links with their targets and never followed,
/// names as bytes. Penstock's own files are not shown.
#[test]
fn j_each_kind_is_shown_as_it_is() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path();
    fs::create_dir(root.join("dir")).unwrap();
    fs::write(root.join("file"), b"12345").unwrap();
    fs::write(root.join("new\nline"), b"").unwrap();
    fs::write(root.join(OsStr::from_bytes(b"\xff")), b"").unwrap();
    symlink("/etc/passwd", root.join("link")).unwrap();
    assert!(Command::new("mkfifo").arg(root.join("pipe")).status().unwrap().success());
    let _socket = UnixListener::bind(root.join("socket")).unwrap();
    let device = Command::new("mknod").arg(root.join("zero")).args(["c", "1", "5"]).status();
    let has_device = device.unwrap().success();
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_500_000_000_250);
    File::open(root.join("file")).unwrap().set_modified(time).unwrap();
    // The identity of the store lies in its private directory.
    let store = PosixStore::open(root, PosixOptions::default()).unwrap();
    penstock_store::Target::Posix(store).open_or_init_identity().unwrap();
    let stores = stores(root);
    let (items, parts, sorted) = all(&stores, "data", query(""));
    let mut expected = vec!["dir", "file", "link", "new\\nline", "pipe", "socket", "zero", "\\xff"];
    expected.retain(|name| *name != "zero" || has_device);
    assert_eq!(
        (names(&items), parts, sorted),
        (expected.iter().map(|n| n.to_string()).collect(), 1, true)
    );
    let of = |name: &str| items.iter().find(|entry| entry.name.to_string() == name).unwrap();
    let file = of("file");
    assert_eq!((file.kind, file.bytes), (ItemKind::File, Some(5)));
    assert_eq!(file.mtime.as_deref(), Some("2017-07-14T02:40:00.25Z"));
    assert!(file.mode.as_ref().is_some_and(|mode| mode.starts_with("06")), "{file:?}");
    assert_eq!(file.owner.as_ref().unwrap().uid, penstock_sys::own_numbers().0);
    let link = of("link");
    assert_eq!((link.kind, link.bytes), (ItemKind::Symlink, None));
    assert_eq!(link.target, Some(text(b"/etc/passwd")));
    let kinds = [of("dir").kind, of("pipe").kind, of("socket").kind];
    assert_eq!(kinds, [ItemKind::Directory, ItemKind::Fifo, ItemKind::Other]);
    let only = EntriesQuery { kind: Some(ItemKind::Fifo), ..query("") };
    assert_eq!(names(&all(&stores, "data", only).0), ["pipe"]);
    let only = EntriesQuery { prefix: text(b"\xff"), ..query("") };
    assert_eq!(names(&all(&stores, "data", only).0), ["\\xff"]);
}

/// Promise (i, C5): no path leads out of the store, through a link or into a file, and the error
/// names the fault.
#[test]
fn c5_no_path_leads_out() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path().join("root");
    fs::create_dir_all(root.join("dir/deep")).unwrap();
    fs::write(base.path().join("secret"), b"").unwrap();
    fs::write(root.join("file"), b"").unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("dir", root.join("down")).unwrap();
    assert!(Command::new("mkfifo").arg(root.join("pipe")).status().unwrap().success());
    let stores = stores(&root);
    for bad in ["..", ".", "/", "/etc", "dir/..", "dir/../..", "dir//deep", "dir/", "a\0b"] {
        assert_eq!(code(&stores, &query(bad)), ProblemCode::Query, "{bad}");
    }
    for kind in ["up", "down", "down/deep", "file", "file/x", "pipe"] {
        assert_eq!(code(&stores, &query(kind)), ProblemCode::EntryKind, "{kind}");
    }
    assert_eq!(code(&stores, &query("none")), ProblemCode::EntryUnknown);
    assert_eq!(code(&stores, &query("dir/none/deeper")), ProblemCode::EntryUnknown);
    for limit in [0, ENTRIES_MAX + 1] {
        let query = EntriesQuery { limit: Some(limit), ..query("") };
        assert_eq!(code(&stores, &query), ProblemCode::Query);
    }
    assert_eq!(names(&all(&stores, "data", query("dir")).0), ["deep"]);
    assert_eq!(ask(&stores, "null", &query("")).unwrap_err().code, ProblemCode::StoreKind);
    assert_eq!(ask(&stores, "none", &query("")).unwrap_err().code, ProblemCode::StoreUnknown);
}

/// E11: parts of a sorted list follow each other without a gap or a double, in each order, also
/// while names are added and removed. A cursor of another list or directory is refused.
#[test]
fn e11_parts_of_a_sorted_list_follow_each_other() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path();
    for number in 0..50_u64 {
        let path = root.join(format!("f{number:02}"));
        fs::write(&path, vec![0; (number % 7) as usize]).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000 + number % 5);
        File::open(path).unwrap().set_modified(time).unwrap();
    }
    let stores = stores(root);
    for sort in [EntrySort::Name, EntrySort::Newest, EntrySort::Largest] {
        let query = EntriesQuery { limit: Some(7), sort, ..query("") };
        let (items, parts, sorted) = all(&stores, "data", query);
        assert_eq!((items.len(), parts, sorted), (50, 8, true));
        let rank = |entry: &EntryView| match sort {
            EntrySort::Name => (String::new(), entry.name.clone()),
            EntrySort::Newest => (entry.mtime.clone().unwrap(), entry.name.clone()),
            EntrySort::Largest => (format!("{:?}", entry.bytes), entry.name.clone()),
        };
        let mut expected = items.clone();
        expected.sort_by(|one, two| {
            let ((one, one_name), (two, two_name)) = (rank(one), rank(two));
            two.cmp(&one).then(one_name.cmp(&two_name))
        });
        assert_eq!(names(&items), names(&expected), "{sort:?}");
    }
    let query = EntriesQuery { limit: Some(20), ..query("") };
    let first = ask(&stores, "data", &query).unwrap();
    let next = EntriesQuery { cursor: first.next, ..query.clone() };
    fs::remove_file(root.join("f19")).unwrap();
    fs::remove_file(root.join("f20")).unwrap();
    fs::write(root.join("f00-new"), b"").unwrap();
    fs::write(root.join("f21-new"), b"").unwrap();
    let second = ask(&stores, "data", &next).unwrap();
    assert_eq!(names(&second.items)[..3], ["f21", "f21-new", "f22"]);
    let other = EntriesQuery { sort: EntrySort::Newest, ..next.clone() };
    assert_eq!(code(&stores, &other), ProblemCode::Cursor);
    let other = EntriesQuery { cursor: Some("x".to_owned()), ..query };
    assert_eq!(code(&stores, &other), ProblemCode::Cursor);
    let moved = tempfile::tempdir().unwrap();
    fs::create_dir(moved.path().join("d")).unwrap();
    let elsewhere = super::tests::stores(moved.path());
    assert_eq!(ask(&elsewhere, "data", &next).unwrap_err().code, ProblemCode::Cursor);
}

/// Promise (g), E11: a directory with more names than are sorted is listed in the order of its file
/// system, which the answer states. Each name that stays appears once, and a part costs no more
/// than its entries.
#[test]
fn e11_a_wide_directory_comes_unsorted() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path();
    for number in 0..=SORTED_NAMES_MAX {
        File::create(root.join(format!("f{number}"))).unwrap();
    }
    let stores = stores(root);
    let (items, parts, sorted) = all(&stores, "data", query(""));
    let mut listed = names(&items);
    listed.sort();
    listed.dedup();
    let count = SORTED_NAMES_MAX + 1;
    assert_eq!((items.len(), listed.len(), sorted), (count, count, false));
    assert!(parts >= count / ENTRIES_MAX as usize);
    let few = EntriesQuery { prefix: text(b"f2000"), ..query("") };
    // f2000, f20000
    assert_eq!(all(&stores, "data", few).0.len(), 2);
    fs::remove_file(root.join("f7")).unwrap();
    let (items, _, sorted) = all(&stores, "data", query(""));
    assert_eq!((items.len(), sorted), (SORTED_NAMES_MAX, true));
    let (items, _, sorted) = all(&stores, "mem", query(""));
    assert_eq!((items.len(), sorted), (30_000, false));
}

/// Promise (g), E11: a cursor that claims a sorted list of a very wide directory costs no more than
/// the begin of one; nothing sorts a directory without a bound.
#[test]
fn e11_a_made_up_cursor_sorts_no_wide_directory() {
    let base = tempfile::tempdir().unwrap();
    let root = base.path();
    let stores = stores(root);
    for number in 0..=2 * SORTED_NAMES_MAX {
        File::create(root.join(format!("f{number}"))).unwrap();
    }
    let query = EntriesQuery { sort: EntrySort::Newest, ..query("") };
    let inode = fs::metadata(root).unwrap().ino();
    let list = cursor::list_of(&"data".parse().unwrap(), &query);
    let behind = cursor::Position::Behind(cursor::Key { rank: i128::MIN, name: Vec::new() });
    let cursor = Some(cursor::encode(list, inode, &behind));
    let found = ask(&stores, "data", &EntriesQuery { cursor, ..query }).unwrap_err();
    assert_eq!(found.code, ProblemCode::Cursor);
    assert!(found.to_string().contains("too wide to sort"), "{found}");
}

/// Promise: a mapped store, which belongs to the accounts of users, is not looked into with the
/// rights of the daemon.
#[test]
fn a_mapped_store_is_not_looked_into() {
    let base = tempfile::tempdir().unwrap();
    let stores = stores(base.path());
    let found = ask(&stores, "home", &query("")).unwrap_err();
    assert_eq!((found.code, found.hint.as_str()), (ProblemCode::AccountMissing, ""));
    let made = make_directory(&stores, &"home".parse().unwrap(), b"new").unwrap_err();
    assert_eq!(made.code, ProblemCode::AccountMissing);
    assert!(!base.path().join("new").exists());
}

/// Promise (f): a slow store returns a part with the entries so far, and the begin of the next
/// part.
#[test]
fn f_a_slow_store_gives_short_parts() {
    let base = tempfile::tempdir().unwrap();
    for number in 0..100 {
        File::create(base.path().join(format!("f{number}"))).unwrap();
    }
    let source = stores(base.path()).source(&"data".parse().unwrap(), None).unwrap();
    let name = "data".parse().unwrap();
    let (mut query, mut found) = (query(""), Vec::new());
    loop {
        // The time is over before each part begins.
        let part = part_of(&source, &name, &query, Instant::now()).unwrap();
        assert!(part.items.len() <= 1, "{}", part.items.len());
        found.extend(names(&part.items));
        query.cursor = part.next;
        if query.cursor.is_none() {
            break;
        }
    }
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 100);
}

/// Promise: one directory is made, or the error has the reason.
#[test]
fn one_directory_is_made() {
    let base = tempfile::tempdir().unwrap();
    let stores = stores(base.path());
    let make = |store: &str, path: &str| {
        let made = make_directory(&stores, &store.parse().unwrap(), path.as_bytes());
        made.map_err(|problem| (problem.code, problem.status))
    };
    assert_eq!(make("data", "new"), Ok(()));
    assert_eq!(make("data", "new/deeper"), Ok(()));
    assert_eq!(make("data", "new"), Err((ProblemCode::EntryExists, 409)));
    assert_eq!(make("data", ""), Err((ProblemCode::EntryExists, 409)));
    assert_eq!(make("data", "none/deeper"), Err((ProblemCode::EntryUnknown, 404)));
    assert_eq!(make("data", "../out"), Err((ProblemCode::Query, 400)));
    assert_eq!(make("fixed", "other"), Err((ProblemCode::StoreReadOnly, 409)));
    assert_eq!(make("mem", "other"), Err((ProblemCode::StoreKind, 400)));
    assert!(base.path().join("new/deeper").is_dir());
    let space = store_space(&stores, &"data".parse().unwrap()).unwrap().unwrap();
    assert!(space.total_bytes >= space.free_bytes && space.total_bytes > 0);
    assert_eq!(store_space(&stores, &"mem".parse().unwrap()), Ok(None));
}
