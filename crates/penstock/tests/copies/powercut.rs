//! Power cuts: a file system on a loop device stops in mid-write and forgets what it had not
//! logged; the daemon is killed; the host "boots" again under another boot id. Needs root.

use penstock_testkit::{
    Mount, Scratch, Site, Slowly, assert_finals_right, assert_no_leftovers, assert_same,
    bytes_below, figure, is_root, make_files, rng, tool, two_sites,
};
use rand::RngExt as _;

const MIB: usize = 1 << 20;

/// Where the ledger of the target is when the power goes.
#[derive(Clone, Copy, PartialEq)]
enum Ledger {
    /// On the disk that loses power, as the data.
    SameDisk,
    /// On another one, which keeps all that the ledger said: it knows of data that are gone.
    OtherDisk,
}

/// Cuts the power of the target `cuts` times in mid-transfer; after each cut no final name may be
/// wrong (A1, promise (b)), and at the end the trees are the same.
fn transfer_with_power_cuts(test: &str, kind: &str, ledger: Ledger, cuts: u64) {
    if !is_root(test) {
        return;
    }
    let mut rng = rng(test);
    let base = Scratch::on_disk();
    let mut disk = Mount::on_loop(base.path(), "disk", kind, 900);
    let (data_a, data_b) = (base.path().join("data-a"), disk.path.join("data"));
    let source = data_a.join("set");
    make_files(&mut rng, &source, 600, 300_000, &[90 * MIB, 60 * MIB + 1, 40 * MIB, 30 * MIB]);
    let total = bytes_below(&source);
    let place = if ledger == Ledger::SameDisk { &disk.path } else { base.path() };
    let (a, mut b) = pair_at(base.path(), place, &data_a, &data_b);
    tool("sync", &[]);
    let id = b.submit(&["a:data/set/", "b:data/set/"]);
    let mut resumed = 0;
    for cut in 0..cuts {
        let slowly = Slowly::new(b.process());
        // In turn: when more is durable than at the last cut, and at any moment.
        let goal = (resumed + rng.random_range(0..total / 3)).min(total - 1);
        let view = b.show_until(&id, |view| {
            let (bytes, durable) = ("bytes", "bytes_durable");
            let name = if cut % 2 == 0 { durable } else { bytes };
            let wanted = if cut % 2 == 0 { resumed } else { goal };
            view["state"] == "done" || figure(&view["progress"], name) > wanted
        });
        let progress = &view["progress"];
        println!(
            "power cut at {} of {total} ({} durable, {} resumed)",
            figure(progress, "bytes"),
            figure(progress, "bytes_durable"),
            figure(progress, "bytes_resumed"),
        );
        resumed = figure(progress, "bytes_durable");
        disk.cut_power();
        drop(slowly);
        b.kill();
        disk.unmount();
        disk.mount();
        let finals = if data_b.join("set").exists() {
            assert_finals_right(&source, &data_b.join("set"))
        } else {
            0
        };
        println!("{finals} files have their names, and all are right");
        let boot = format!("{:032x}", rng.random::<u128>());
        b.environment = vec![("PENSTOCK_TEST_BOOT_ID", boot)];
        b.start();
        assert!(view["state"] != "done" || cut > 0, "the transfer ended before the power went");
        if view["state"] == "done" {
            break;
        }
    }
    let summary = b.follow(&id).expect(0);
    let (verified, again) = (summary.figure("bytes_verified"), summary.figure("bytes_resumed"));
    println!("in the last run {verified} of {total} sent, {again} resumed or read back");
    assert_same(&source, &data_b.join("set"));
    assert_no_leftovers(&data_b);
    drop((a, b));
}

/// As `pair`, with the site directory of `b` at another place.
fn pair_at(
    base: &std::path::Path,
    place: &std::path::Path,
    data_a: &std::path::Path,
    data_b: &std::path::Path,
) -> (Site, Site) {
    if place == base {
        return two_sites(base, data_a, data_b);
    }
    let (mut a, mut b) = (Site::at_port(base, "a", data_a), Site::at_port(place, "b", data_b));
    a.start();
    b.start();
    a.pair(&b);
    (a, b)
}

/// A1, A2, A5 on XFS: the ledger remembers what the disk forgot.
#[test]
fn a1_power_cut_on_xfs_with_the_ledger_on_another_disk() {
    transfer_with_power_cuts("XFS, ledger elsewhere", "xfs", Ledger::OtherDisk, 3);
}

/// A1, A2, A8 on XFS: data and ledger lose power at once.
#[test]
fn a1_power_cut_on_xfs_with_the_ledger_on_the_same_disk() {
    transfer_with_power_cuts("XFS, ledger there", "xfs", Ledger::SameDisk, 3);
}

/// A1, A2, A5 on ext4.
#[test]
fn a1_power_cut_on_ext4_with_the_ledger_on_another_disk() {
    transfer_with_power_cuts("ext4, ledger elsewhere", "ext4", Ledger::OtherDisk, 3);
}

/// A1, A2, A8 on ext4.
#[test]
fn a1_power_cut_on_ext4_with_the_ledger_on_the_same_disk() {
    transfer_with_power_cuts("ext4, ledger there", "ext4", Ledger::SameDisk, 3);
}
