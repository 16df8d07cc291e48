use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::{Duration, SystemTime};

use penstock_api::preserve::Preserve;
use penstock_proto::id::TransferId;
use penstock_proto::manifest::{EntryDraft, PageBuilder};
use penstock_proto::slicing::Slicing;
use penstock_proto::units::FileTime;
use penstock_store::{PosixOptions, PosixStore};

use super::*;

const MIB: usize = 1 << 20;
const MTIME: FileTime = FileTime { seconds: 1_500_000_000, nanoseconds: 7 };

/// A finished file of three extents, and its page.
struct World {
    base: tempfile::TempDir,
    target: Target,
    page: Page,
    bytes: Vec<u8>,
    digest: Digest,
}

fn finished() -> World {
    let base = tempfile::tempdir().unwrap();
    let mut bytes = vec![0; 2 * MIB + 12_345];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    let slicing = Slicing::with_extent_bytes(MIB as u64);
    let mut builder = PageBuilder::new(TransferId([1; 16]), 0, slicing);
    let (size, mode) = (bytes.len() as u64, 0o640);
    let draft = EntryDraft { name: b"f", size, mode, mtime: MTIME, ..EntryDraft::default() };
    builder.push(b"", &draft);
    let (page, digest) = (builder.seal(), Digest(*blake3::hash(&bytes).as_bytes()));
    let target = PosixStore::open(base.path(), PosixOptions::default()).unwrap();
    let world = World { base, target: Target::Posix(target), page, bytes, digest };
    fs::write(world.path(), &world.bytes).unwrap();
    fs::set_permissions(world.path(), fs::Permissions::from_mode(mode)).unwrap();
    set_time(&world.path(), SystemTime::UNIX_EPOCH + Duration::new(1_500_000_000, 7));
    world
}

fn set_time(path: &Path, time: SystemTime) {
    File::open(path).unwrap().set_modified(time).unwrap();
}

impl World {
    fn path(&self) -> std::path::PathBuf {
        self.base.path().join("f")
    }

    fn mend(&self) -> Mended {
        let keeper = AttributePolicy::new(&Preserve::default(), false, false);
        let pool = BufferPool::new(4 * MIB, 2);
        let (root, kind): (&[u8], _) = (b"", DigestKind::Blake3);
        let mender =
            LateWriteRepair { target: &self.target, root, kind, keeper: &keeper, pool: &pool };
        mender.mend(&self.page, &[(0, self.digest.to_hex())]).unwrap()
    }

    /// Writes the same bytes once more, as a peer does that wakes late.
    fn write_late(&self, bytes: &[u8]) {
        let file = OpenOptions::new().write(true).open(self.path()).unwrap();
        file.write_all_at(bytes, MIB as u64).unwrap();
    }

    fn seen(&self) -> (i64, i64, u32, i64, i64) {
        let meta = fs::metadata(self.path()).unwrap();
        (meta.mtime(), meta.mtime_nsec(), meta.mode() & 0o7777, meta.ctime(), meta.ctime_nsec())
    }
}

/// B1: a late write, which repeats the same bytes, is repaired; files without one are not changed.
#[test]
fn b1_a_late_write_is_put_right() {
    let world = finished();
    let before = world.seen();
    assert_eq!(world.mend(), Mended::default());
    assert_eq!(world.seen(), before, "what is right is left alone");
    world.write_late(&world.bytes[MIB..MIB + 4096]);
    assert_ne!(world.seen().0, MTIME.seconds);
    assert_eq!(world.mend(), Mended { mended: 1, others: 0 });
    let (seconds, nanoseconds, mode, ..) = world.seen();
    assert_eq!((seconds, nanoseconds, mode), (MTIME.seconds, 7, 0o640));
    assert_eq!(fs::read(world.path()).unwrap(), world.bytes);
}

/// B1, case 4: a user's change to a finished file stays: other bytes of the same size, another
/// mode, another time, another file of that name, no file at all.
#[test]
fn b1_what_a_user_has_changed_stays() {
    let touch = |world: &World, day| {
        set_time(&world.path(), SystemTime::now() - Duration::from_secs(86_400) * day);
    };
    let changes: [&dyn Fn(&World); 6] = [
        &|world| world.write_late(b"a user's own words"),
        &|world| fs::set_permissions(world.path(), fs::Permissions::from_mode(0o600)).unwrap(),
        &|world| touch(world, 1),
        &|world| {
            world.write_late(&world.bytes[MIB..MIB + 4096]);
            touch(world, 2);
        },
        &|world| {
            fs::write(world.base.path().join("new"), vec![1; world.bytes.len()]).unwrap();
            fs::rename(world.base.path().join("new"), world.path()).unwrap();
        },
        &|world| fs::write(world.path(), b"short").unwrap(),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let world = finished();
        change(&world);
        let (before, bytes) = (world.seen(), fs::read(world.path()).unwrap());
        assert_eq!(world.mend(), Mended { mended: 0, others: 1 }, "change {number}");
        assert_eq!(world.seen(), before, "change {number}");
        assert_eq!(fs::read(world.path()).unwrap(), bytes, "change {number}");
    }
    let world = finished();
    fs::remove_file(world.path()).unwrap();
    assert_eq!(world.mend(), Mended { mended: 0, others: 1 });
}

/// B1 (3): special bits that a write removes count as lost by a late write. Bits that only a user
/// can have set do not, nor do lost bits of a file whose time is unchanged.
#[test]
fn b1_only_what_a_write_takes_away_is_a_late_writes() {
    let world = finished();
    let dir = world.target.open_dir(b"").unwrap();
    let mut there = world.target.meta(&dir, b"f").unwrap().unwrap();
    let entry = &world.page.entries()[0];
    let verdict = |there: &Meta, mode| judge(entry, Some(mode), Some(there.mtime == MTIME), there);
    assert_eq!(verdict(&there, 0o640), Verdict::Right);
    assert_eq!(verdict(&there, 0o6640), Verdict::Others);
    there.mtime = there.ctime;
    assert_eq!(verdict(&there, 0o640), Verdict::Late);
    assert_eq!(verdict(&there, 0o6640), Verdict::Late);
    assert_eq!(verdict(&there, 0o600), Verdict::Others);
    assert_eq!(verdict(&there, 0o660), Verdict::Others);
    there.mtime.seconds += 60;
    assert_eq!(verdict(&there, 0o640), Verdict::Late, "a write that its server is not told of yet");
    there.mtime.seconds -= 60;
    there.ctime.seconds += 60;
    assert_eq!(verdict(&there, 0o640), Verdict::Others, "somebody has touched it since");
    there.links = 2;
    assert_eq!(verdict(&there, 0o640), Verdict::Late, "its other name has moved the time");
}
