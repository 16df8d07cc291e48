//! One transfer shared by several target peers, in one process, on one directory.

use std::fs;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use penstock_api::peers::PartNews;
use penstock_api::problem::{Exit, Problem, ProblemCode};
use penstock_api::transfer::PeerShare;
use penstock_controller::runner::RunOutcome;
use penstock_store::{PosixOptions, PosixStore};
use penstock_testkit::{
    At, Fate, InProcessSite, Mount, PATIENCE, Scratch, Wait, bytes, files_below, is_root,
};

const MIB: usize = 1 << 20;
/// Long enough that none lapses by itself.
const LONG: Duration = Duration::from_secs(60);
/// So short that a test can wait for it, and longer than a busy machine keeps a peer from being
/// heard.
const SHORT: Duration = Duration::from_secs(4);

/// Bits per second for this many MiB per second.
fn rate(mib_per_s: u64) -> Option<u64> {
    Some(mib_per_s * 8 * MIB as u64)
}

/// A wait that looks often: a run may end soon.
fn wait(what: &str) -> Wait {
    Wait::new(what).every(Duration::from_millis(5))
}

/// No limit to speak of: all that had to be seen while a run went on has been seen.
fn go_on(site: &InProcessSite) {
    site.control.set_rate(rate(256));
}

/// Ends the tenure of a controller, as its run and the tasks of these peers see it; returns how the
/// run fails.
fn end_tenure(tenure: &AtomicBool, fates: &[&Arc<Fate>], run: JoinHandle<RunOutcome>) -> Problem {
    tenure.store(false, Ordering::Release);
    fates.iter().for_each(|fate| fate.end_tenure());
    let RunOutcome::Failed(problem) = run.join().unwrap() else { panic!("it leads no more") };
    problem
}

/// Returns what writes to a finished file once more, as a call that lands late does.
fn late_write(path: PathBuf) -> impl FnOnce() + Send + 'static {
    move || {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.write_all_at(&bytes(1, 4096), 0).unwrap();
    }
}

fn small_files(base: &Path, files: usize) {
    for directory in 0..files.div_ceil(50) {
        fs::create_dir_all(base.join(format!("d{directory}/sub"))).unwrap();
    }
    for file in 0..files {
        let sub = if file % 3 == 0 { "sub/" } else { "" };
        let path = base.join(format!("d{}/{sub}f{file}", file / 50));
        fs::write(&path, bytes(file as u64, file * 37 % 9000)).unwrap();
    }
}

fn mixed(base: &Path) {
    small_files(base, 600);
    fs::write(base.join("large"), bytes(1001, 24 * MIB + 4097)).unwrap();
    fs::write(base.join("d0/another"), bytes(1002, 9 * MIB)).unwrap();
    fs::hard_link(base.join("large"), base.join("d1/again")).unwrap();
    fs::hard_link(base.join("d2/f101"), base.join("d3/sub/twice")).unwrap();
    std::os::unix::fs::symlink("../large", base.join("d4/link")).unwrap();
    fs::set_permissions(base.join("d5/f251"), fs::Permissions::from_mode(0o440)).unwrap();
    fs::set_permissions(base.join("d6"), fs::Permissions::from_mode(0o555)).unwrap();
}

/// Promises (b), (c), B3: all peers write one file at once, each piece by one of them alone.
#[test]
fn b3_one_huge_file_is_written_by_all_at_once() {
    let mut site = InProcessSite::new(LONG);
    site.options.limits.rate_bits_per_s = rate(24);
    fs::write(site.source().join("huge"), bytes(1, 128 * MIB + 12_345)).unwrap();
    let fates = ["one", "two", "three"].map(|peer| site.join(peer));
    let run = site.run();
    site.end(run);
    let written = fates.map(|fate| fate.written());
    let [one, two, three] = &written;
    assert!(written.iter().all(|pieces| pieces.len() >= 8), "{written:?}");
    assert!(one.is_disjoint(two) && two.is_disjoint(three) && one.is_disjoint(three));
}

/// Issue 5: a limit is that of the transfer: of three peers, one of which can do a twentieth of its
/// part, the others get what it leaves; and nobody waits for it.
#[test]
fn a_slow_peer_slows_only_its_share() {
    let mut site = InProcessSite::new(LONG);
    site.options.limits.rate_bits_per_s = rate(24);
    site.options.lanes_max = 5;
    fs::write(site.source().join("huge"), bytes(1, 96 * MIB + 12_345)).unwrap();
    let fates = ["one", "two", "slow"].map(|peer| site.join(peer));
    fates[2].able.store(rate(1).unwrap() / 2, Ordering::Release);
    let run = site.run();
    site.end(run);
    let [one, two, slow] = fates.map(|fate| {
        let told = fate.told.lock().unwrap().clone();
        (fate.written().len(), told.clone(), told.last().copied().unwrap())
    });
    // Since all three take part.
    let since = slow.1[0].serial;
    let most = |told: &[penstock_api::limits::Share]| {
        let later = told.iter().filter(|share| share.serial > since);
        later.filter_map(|share| share.rate_bits_per_s).max().unwrap_or(0)
    };
    let (part, more) = (rate(8).unwrap(), most(&one.1).min(most(&two.1)));
    assert!(more > part * 5 / 4, "what one leaves is the others': {one:?} {two:?}");
    let least = slow.1.iter().filter_map(|share| share.rate_bits_per_s).min();
    assert!(least < Some(part / 2), "{slow:?}");
    assert!(one.0 >= 8 && two.0 >= 8 && slow.0 >= 1 && slow.0 <= 16, "{one:?} {two:?} {slow:?}");
    assert!([one, two, slow].iter().all(|(_, _, share)| (1..=2).contains(&share.lanes_max)));
}

/// Issue 5: a limit that leaves no room for all leaves some out, and another one lets them in.
#[test]
fn a_small_limit_is_for_few() {
    let mut site = InProcessSite::new(LONG);
    // At least 500 kbit/s each.
    site.options.limits.rate_bits_per_s = Some(900_000);
    small_files(&site.source(), 50);
    fs::write(site.source().join("huge"), bytes(1, 48 * MIB)).unwrap();
    let fates = ["one", "two", "three"].map(|peer| site.join(peer));
    let run = site.run();
    wait("two peers to rest").until(|| {
        let view = site.control.view();
        let peers = view.progress.peers.iter();
        let resting = peers.filter(|share| share.state.starts_with("resting")).count();
        if resting == 2 { Ok(()) } else { Err(format!("{view:?}")) }
    });
    assert_eq!(fates.iter().map(|fate| fate.starts.load(Ordering::Acquire)).sum::<u32>(), 1);
    site.control.set_rate(rate(8));
    // All have a part.
    fates.iter().for_each(|fate| fate.wait_written(2));
    go_on(&site);
    site.end(run);
}

/// Promise: a transfer that is for one peer of the site has one at a time; the others rest.
#[test]
fn a_transfer_for_one_peer_has_one() {
    let mut site = InProcessSite::new(LONG);
    site.options.peers_max = Some(1);
    // Long enough for the others to be looked at several times.
    site.options.limits.rate_bits_per_s = rate(16);
    fs::write(site.source().join("huge"), bytes(1, 24 * MIB)).unwrap();
    let fates = ["one", "two", "three"].map(|peer| site.join(peer));
    let run = site.run();
    site.end(run);
    assert_eq!(fates.iter().map(|fate| fate.starts.load(Ordering::Acquire)).sum::<u32>(), 1);
}

/// Promise: where a transfer is for one peer and that peer fails, another one takes over at once,
/// in the same attempt.
#[test]
fn a_resting_peer_takes_over() {
    let mut site = InProcessSite::new(LONG);
    site.options.peers_max = Some(1);
    site.options.limits.rate_bits_per_s = rate(16);
    fs::write(site.source().join("huge"), bytes(1, 24 * MIB)).unwrap();
    let fates = ["one", "two"].map(|peer| site.join(peer));
    let run = site.run();
    let begun = |fate: &&Arc<Fate>| fate.starts.load(Ordering::Acquire) > 0;
    wait("a peer that has begun").is(|| fates.iter().any(|fate| begun(&fate)));
    let first = fates.iter().find(begun).unwrap();
    first.wait_written(2);
    first.break_with(Problem::new(ProblemCode::StoreReadOnly, "its store is read-only"));
    site.end(run);
    assert!(fates.iter().all(|fate| !fate.written().is_empty()), "both have a part");
}

/// Issue 5: a peer that is being stopped goes on with what it may until that is done: nobody else
/// is given its share before.
#[test]
fn a_peer_that_is_stopped_keeps_its_share_until_then() {
    let mut site = InProcessSite::new(LONG);
    site.options.limits.rate_bits_per_s = rate(6);
    fs::write(site.source().join("huge"), bytes(1, 64 * MIB)).unwrap();
    let (one, two) = (site.join("one"), site.join("two"));
    let ((at_stop, stops), (resume, waits)) = (channel(), channel::<()>());
    two.happens(At::Stop, move || {
        at_stop.send(()).unwrap();
        waits.recv_timeout(PATIENCE).unwrap();
    });
    let run = site.run();
    one.wait_written(8);
    two.wait_written(8);
    two.break_with(Problem::new(ProblemCode::StoreOffline, "its store is offline"));
    stops.recv_timeout(PATIENCE).unwrap();
    site.leave("two");
    let last = |fate: &Fate| {
        let told = fate.told.lock().unwrap();
        told.last().and_then(|share| share.rate_bits_per_s).unwrap_or(0)
    };
    let whole = site.options.limits.rate_bits_per_s.unwrap();
    for _ in 0..10 {
        assert!(last(&one) + last(&two) <= whole, "{} and {}", last(&one), last(&two));
        std::thread::sleep(Duration::from_millis(50));
    }
    resume.send(()).unwrap();
    wait("the whole share").is(|| last(&one) >= whole - whole / 8);
    go_on(&site);
    site.end(run);
}

/// Promises (b), (c): many small files, links and directories, shared by three.
#[test]
fn c_a_mixed_tree_is_shared_and_identical() {
    let mut site = InProcessSite::new(LONG);
    site.options.limits.rate_bits_per_s = rate(8);
    mixed(&site.source());
    let fates = ["one", "two", "three"].map(|peer| site.join(peer));
    let run = site.run();
    site.end(run);
    for fate in fates {
        assert!(!fate.written().is_empty(), "each has a part");
    }
    let peers = site.control.view().progress.peers;
    assert_eq!(peers.len(), 3, "{peers:?}");
}

/// Promise (d), B1: a peer that dies in the middle costs what it had in hand; nothing of it is
/// left under its names.
#[test]
fn d_a_peer_that_dies_costs_what_it_had_in_hand() {
    let mut site = InProcessSite::new(SHORT);
    site.options.limits.rate_bits_per_s = rate(8);
    mixed(&site.source());
    let (_one, two) = (site.join("one"), site.join("two"));
    let run = site.run();
    two.wait_written(3);
    two.kill();
    site.leave("two");
    site.end(run);
    let told = site.told("two");
    assert!(matches!(told[..], [PartNews::Out { is_lost: true, others: 1, .. }]), "{told:?}");
    assert!(site.told("one").is_empty(), "who is there from the beginning is no news");
}

/// B1, B4: a peer that is not heard for longer than its grant writes no more, and what it had is
/// another's; once it is heard again, nothing that it says counts.
#[test]
fn b1_a_peer_that_wakes_past_its_grant_spoils_nothing() {
    let mut site = InProcessSite::new(SHORT);
    site.options.limits.rate_bits_per_s = rate(12);
    mixed(&site.source());
    let (one, two) = (site.join("one"), site.join("two"));
    let run = site.run();
    two.wait_written(2);
    two.make_deaf(true);
    one.wait_written(one.written().len() + 8);
    // The other has what this one had in hand when its grant is over.
    wait("the peer to be given up").is(|| two.stops.load(Ordering::Acquire) > 0);
    two.make_deaf(false);
    site.end(run);
    let told = site.told("two");
    assert!(matches!(told.first(), Some(PartNews::Out { is_lost: true, .. })), "{told:?}");
}

/// A7, B4: a controller whose tenure ends in the middle commits nothing more; what its peers wrote
/// since its last commit, and go on to write with what they have in hand, the next controller takes
/// over: no piece that any of them has reported is fetched once more, by it or by another.
#[test]
fn a7_what_is_written_for_a_controller_that_is_one_no_more_is_not_fetched_again() {
    let mut site = InProcessSite::new(LONG);
    site.options.limits.rate_bits_per_s = rate(24);
    mixed(&site.source());
    let fates = ["one", "two"].map(|peer| site.join(peer));
    let tenure = site.lead(1);
    let run = site.run();
    fates.iter().for_each(|fate| fate.wait_written(4));
    let problem = end_tenure(&tenure, &fates.each_ref(), run);
    assert_eq!(problem.code, ProblemCode::NotController);
    assert!(fates.iter().all(|fate| fate.left.load(Ordering::Acquire) == 1), "none is stopped");
    let named = fs::read_dir(site.target()).unwrap().flatten();
    let large = named.filter(|entry| entry.file_name() == "large").count();
    assert_eq!(large, 0, "nothing is finished without a controller");
    site.lead(2);
    // The controller waits for a moment for what its peers have to report, which may take longer
    // for them to begin on a busy machine.
    site.hold_clock(true);
    let run = site.run();
    wait("all to take part again")
        .is(|| fates.iter().all(|fate| fate.starts.load(Ordering::Acquire) == 2));
    site.hold_clock(false);
    site.end(run);
    assert!(fates.iter().all(|fate| fate.twice.load(Ordering::Acquire) == 0), "fetched again");
    let written = fates.map(|fate| fate.written());
    assert!(written[0].is_disjoint(&written[1]), "fetched by both");
}

/// Promise (f), B4: a peer that had no word of the controller's tenure for too long names nothing
/// any more. If it is heard again before its grant is over, it says so and begins anew: what it
/// wrote waits for nobody.
#[test]
fn b4_a_peer_whose_tenure_ran_out_under_its_grant_begins_anew() {
    let mut site = InProcessSite::new(SHORT);
    site.options.limits.rate_bits_per_s = rate(12);
    mixed(&site.source());
    let (_one, two) = (site.join("one"), site.join("two"));
    let run = site.run();
    two.wait_written(2);
    two.end_tenure();
    wait("the end of the run").until(|| {
        let view = site.control.view();
        if run.is_finished() { Ok(()) } else { Err(format!("{view:?}")) }
    });
    site.end(run);
}

/// Of two peers that write one file, the second is lost in the middle, and leaves a thread behind;
/// gives what the transfer has to say when it is done, and who looked at that file again.
fn lose_one(
    site: &mut InProcessSite,
    then: impl FnOnce(&InProcessSite, &Fate),
) -> (String, [u32; 2]) {
    site.options.limits.rate_bits_per_s = rate(8);
    fs::write(site.source().join("huge"), bytes(1, 48 * MIB)).unwrap();
    let (one, two) = (site.join("one"), site.join("two"));
    let run = site.run();
    one.wait_written(2);
    two.wait_written(2);
    two.hangs.store(true, Ordering::Release);
    two.break_with(Problem::new(ProblemCode::StoreOffline, "its store is offline"));
    then(site, &two);
    site.end(run);
    let mends = [one, two].map(|fate| fate.mends.load(Ordering::Acquire));
    assert_eq!(mends.iter().sum::<u32>(), 1);
    (site.control.view().remark, mends)
}

/// B1: a peer that is stopped in order and leaves a thread behind, in a system call, is lost: the
/// large files that it had something of are looked at again at the end. If it was not heard of by
/// then, the transfer is done and says so.
#[test]
fn b1_a_peer_that_does_not_end_in_order_is_lost() {
    let mut site = InProcessSite::new(LONG);
    let (remark, _) = lose_one(&mut site, |site, _| site.leave("two"));
    assert!(remark.contains("peer `two`") && remark.contains("1 file ") && remark.contains("huge"));
    let notes = site.control.take_notes();
    assert!(notes.iter().any(|note| note.code == ProblemCode::SilentWriter), "{notes:?}");
}

/// B1: one that was restarted since, as after a power cut, writes nothing late.
#[test]
fn b1_a_lost_peer_that_was_restarted_is_not_silent() {
    let mut site = InProcessSite::new(LONG);
    let (remark, _) =
        lose_one(&mut site, |site, _| site.change("two", |member| member.instance = 2));
    assert_eq!(remark, "");
    assert!(!site.control.take_notes().iter().any(|note| note.code == ProblemCode::SilentWriter));
}

/// B1: one whose store hung and answers again is called back before the transfer is done, however
/// long it was to be left alone, and looks itself at what it wrote: nobody else may see that yet.
#[test]
fn b1_a_lost_peer_that_answers_again_is_called_back() {
    let mut site = InProcessSite::new(LONG);
    let (remark, mends) = lose_one(&mut site, |_, _| {});
    assert_eq!((remark.as_str(), mends), ("", [0, 1]));
    assert!(!site.control.take_notes().iter().any(|note| note.code == ProblemCode::SilentWriter));
}

/// B1: one that is called back and still hangs holds the transfer up for some seconds only, and is
/// named.
#[test]
fn b1_a_lost_peer_that_hangs_on_is_named() {
    let mut site = InProcessSite::new(LONG);
    let hang = |_: &InProcessSite, two: &Fate| two.refuses.store(true, Ordering::Release);
    let (remark, mends) = lose_one(&mut site, hang);
    assert!(remark.contains("peer `two`") && remark.contains("huge"), "{remark}");
    assert_eq!(mends, [1, 0]);
    let told =
        site.control.take_notes().into_iter().filter(|note| note.code == ProblemCode::SilentWriter);
    assert_eq!(told.count(), 1);
}

/// B1, B4: a controller that is frozen in the middle of a write, as by SIGSTOP, wakes when its
/// successor has finished the file, and its call lands: that is put right, nobody waits for it, and
/// as long as it has not been heard of that is said.
#[test]
fn b1_a_controller_that_wakes_in_the_middle_of_a_write_moves_no_time() {
    let mut site = InProcessSite::new(LONG);
    site.options.limits.rate_bits_per_s = rate(8);
    fs::write(site.source().join("huge"), bytes(1, 48 * MIB)).unwrap();
    let (one, two) = (site.join("one"), site.join("two"));
    site.change("one", |member| member.is_own = true);
    let tenure = site.lead(1);
    let run = site.run();
    [&one, &two].iter().for_each(|fate| fate.wait_written(2));
    end_tenure(&tenure, &[&one, &two], run);
    site.leave("one");
    two.happens(At::LookAgain, late_write(site.target().join("huge")));
    site.lead(2);
    site.control = Arc::default();
    let began = Instant::now();
    let run = site.run();
    site.end(run);
    assert!(began.elapsed() < LONG, "it has waited for a grant");
    assert_eq!(two.mends.load(Ordering::Acquire), 1);
    let remark = site.control.view().remark;
    assert!(remark.contains("1 file ") && remark.contains("huge"), "{remark}");
}

/// B1: one that is called back and cannot put right what it wrote late fails nothing: another does,
/// as far as that sees it, and it is named.
#[test]
fn b1_a_lost_peer_that_comes_back_and_cannot_mend_is_named() {
    let mut site = InProcessSite::new(LONG);
    let (remark, mends) =
        lose_one(&mut site, |_, two| two.read_only.store(true, Ordering::Release));
    assert!(remark.contains("peer `two`") && remark.contains("huge"), "{remark}");
    assert_eq!(mends, [1, 0]);
}

/// Moves a file of which a lost peer writes some once more when it is finished: when that peer is
/// about to look again itself, called back, or when another is, since it is still `away`.
fn move_with_a_late_write(away: bool) {
    let mut site = InProcessSite::new(LONG);
    site.options.limits.rate_bits_per_s = rate(16);
    site.options.remove_source = true;
    let (source, target) = (site.source().join("huge"), site.target().join("huge"));
    fs::write(&source, bytes(1, 48 * MIB)).unwrap();
    let made = fs::metadata(&source).unwrap().modified().unwrap();
    let (one, two) = (site.join("one"), site.join("two"));
    let looks = if away { &one } else { &two };
    looks.happens(At::LookAgain, late_write(target.clone()));
    let run = site.run();
    one.wait_written(2);
    two.wait_written(2);
    two.refuses.store(away, Ordering::Release);
    two.hangs.store(true, Ordering::Release);
    two.break_with(Problem::new(ProblemCode::StoreOffline, "its store is offline"));
    assert_eq!(run.join().unwrap(), RunOutcome::Done, "{:?}", site.control.view());
    assert_eq!(looks.mends.load(Ordering::Acquire), 1);
    assert_eq!(fs::metadata(&target).unwrap().modified().unwrap(), made);
    assert_eq!(fs::read(&target).unwrap(), bytes(1, 48 * MIB));
    assert!(!source.exists(), "it was to be moved");
}

/// B1, C6: what a lost peer writes late into a finished file is put right before the source is
/// emptied: a move ends as one, and not with a file that "is not as it was made there".
#[test]
fn c6_a_move_is_one_though_a_lost_peer_writes_late() {
    move_with_a_late_write(true);
}

/// B1, C6: the same where the lost peer is back by then, and puts it right itself.
#[test]
fn c6_a_move_is_one_though_a_peer_that_comes_back_has_written_late() {
    move_with_a_late_write(false);
}

/// B4: a controller that is deposed while it looks for what is to be deleted, and wakes in the
/// middle of its successor's deletion, takes no part in that: what goes is what the successor has
/// found.
#[test]
fn b4_a_deposed_controllers_look_does_not_meet_its_successors() {
    let mut site = InProcessSite::new(LONG);
    site.options.update.delete = true;
    site.options.update.max_delete = Some(1);
    small_files(&site.source(), 40);
    fs::write(site.target().join("surplus"), "x").unwrap();
    let one = site.join("one");
    let tenure = site.lead(1);
    let ((at_find, finds), (wake, sleeps)) = (channel(), channel::<()>());
    one.happens(At::Find, move || {
        at_find.send(()).unwrap();
        sleeps.recv_timeout(PATIENCE).unwrap();
    });
    let deposed = site.run();
    finds.recv_timeout(PATIENCE).unwrap();
    tenure.store(false, Ordering::Release);
    one.end_tenure();
    let ((at_found, found), (go_on, waits)) = (channel(), channel::<()>());
    one.happens(At::Found, move || {
        at_found.send(()).unwrap();
        waits.recv_timeout(PATIENCE).unwrap();
    });
    site.lead(2);
    let successor = site.run();
    found.recv_timeout(PATIENCE).unwrap();
    wake.send(()).unwrap();
    let RunOutcome::Failed(problem) = deposed.join().unwrap() else { panic!("it leads no more") };
    assert_eq!(problem.code, ProblemCode::NotController);
    go_on.send(()).unwrap();
    site.end(successor);
    assert_eq!(site.control.view().progress.deleted, 1);
}

/// A6: a peer that names a large file and dies before anybody knows costs nothing: who is to name
/// it next finds that it has its name, though it wrote to it as well, and though its time, which is
/// not kept, tells nothing.
#[test]
fn a6_a_file_that_a_lost_peer_has_named_is_not_sent_again() {
    let mut site = InProcessSite::new(SHORT);
    site.options.preserve.times = false;
    let size = 64 * MIB + 12_345;
    let content = bytes(1, size);
    fs::write(site.source().join("huge"), &content).unwrap();
    let name = Arc::<AtomicBool>::default();
    let fates = ["one", "two"].map(|peer| site.join(peer));
    fates.iter().for_each(|fate| fate.be_deaf_at_name(&name));
    let outcome = site.run().join().unwrap();
    assert_eq!(outcome, RunOutcome::Done, "{:?}", site.control.view());
    assert!(fs::read(site.target().join("huge")).unwrap() == content);
    assert!(name.load(Ordering::Acquire), "a peer was lost at that moment");
    assert!(fates.iter().all(|fate| !fate.written().is_empty()), "both have written to it");
    let verified = site.control.view().progress.bytes_verified;
    assert!(verified < size as u64 * 3 / 2, "{verified} bytes were sent");
}

/// A peer that comes late gets a part; one that is drained gives back what it has not begun, and
/// leaves without a loss.
#[test]
fn a_peer_joins_late_and_another_is_drained() {
    let mut site = InProcessSite::new(LONG);
    site.options.limits.rate_bits_per_s = rate(4);
    mixed(&site.source());
    let one = site.join("one");
    let run = site.run();
    one.wait_written(3);
    let two = site.join("two");
    two.wait_written(3);
    site.change("one", |member| member.is_draining = true);
    wait("the peer to be let go").is(|| {
        assert!(!run.is_finished(), "the run ended before the peer was let go");
        one.stops.load(Ordering::Acquire) > 0
    });
    let let_go = one.written();
    go_on(&site);
    site.end(run);
    assert_eq!(one.written(), let_go, "a peer that was let go wrote on");
    assert_eq!(one.starts.load(Ordering::Acquire), 1, "it was let in again");
    assert_eq!(site.told("two"), [PartNews::Joined]);
    assert_eq!(site.told("one"), [PartNews::Drained]);
}

/// A peer whose store goes offline is taken out; the run goes on by the other, and shows why.
#[test]
fn a5_a_peer_whose_store_is_offline_does_not_stop_the_others() {
    let mut site = InProcessSite::new(LONG);
    site.options.limits.rate_bits_per_s = rate(4);
    mixed(&site.source());
    let (one, two) = (site.join("one"), site.join("two"));
    let run = site.run();
    two.wait_written(2);
    two.break_with(Problem::new(ProblemCode::StoreOffline, "no store there"));
    one.wait_written(one.written().len() + 6);
    // The figures follow some time after, on a machine that is busy.
    wait("figures that say why").until(|| {
        let view = site.control.view();
        assert!(!run.is_finished(), "{view:?}");
        let says_why = |it: &PeerShare| it.peer == "two" && it.state.contains("no store there");
        let says = view.progress.peers.iter().any(says_why);
        if says { Ok(()) } else { Err(format!("{view:?}")) }
    });
    go_on(&site);
    site.end(run);
    let told = site.told("two");
    let Some(PartNews::Out { why, is_lost, others, again }) = told.first() else {
        panic!("{told:?}")
    };
    assert!(why.contains("no store there") && !is_lost && *others == 1, "{told:?}");
    assert!(again.is_some(), "it is tried again: {told:?}");
}

/// A11: a peer at which everything fails with what may pass, for as long as it does, fails no item:
/// the other one does what it could not, large files and small ones.
#[test]
fn a11_what_one_peer_cannot_write_the_others_do() {
    const EIO: u16 = 5;
    let mut site = InProcessSite::new(LONG);
    site.options.limits.rate_bits_per_s = rate(6);
    mixed(&site.source());
    let (one, two) = (site.join("one"), site.join("two"));
    two.fails.store(EIO, Ordering::Release);
    let run = site.run();
    one.wait_written(8);
    two.wait_written(4);
    two.fails.store(0, Ordering::Release);
    go_on(&site);
    site.end(run);
    assert!(two.failed.load(Ordering::Acquire) > 0);
    assert_eq!(site.control.view().progress.errors, 0);
}

/// A5, C3: the controller's own host has come back without the store, which the others see: it
/// makes no new one in the empty directory, when a transfer is the first to write there.
#[test]
fn a5_the_controllers_own_peer_makes_no_second_store() {
    let site = InProcessSite::new(LONG);
    mixed(&site.source());
    let unmounted = Scratch::on_disk();
    site.join_at("one", unmounted.path());
    site.change("one", |member| member.is_own = true);
    site.join("two");
    let store = PosixStore::open(&site.target, PosixOptions::default()).unwrap();
    store.open_or_init_identity().unwrap();
    let run = site.run();
    site.end(run);
    let beneath = fs::read_dir(unmounted.path()).unwrap().count();
    assert_eq!(beneath, 0, "a second store was made");
}

/// A peer that the other site does not trust yet, because a pairing is news to it or to them, is
/// not out for good: it takes part again while the run goes on.
#[test]
fn a_peer_that_was_not_trusted_takes_part_again() {
    let mut site = InProcessSite::new(LONG);
    site.options.limits.rate_bits_per_s = rate(4);
    mixed(&site.source());
    let (one, two) = (site.join("one"), site.join("two"));
    let run = site.run();
    one.wait_written(1);
    two.wait_written(1);
    two.break_with(Problem::new(ProblemCode::Certificate, "no trust yet"));
    wait("the peer to be let in again").is(|| {
        assert!(!run.is_finished(), "the run ended before it was let in again");
        two.starts.load(Ordering::Acquire) >= 2
    });
    go_on(&site);
    site.end(run);
}

/// Promise (d), A7: a run that is stopped goes on by other peers than before; what is durable is
/// not sent again. Nobody waits for a peer that has ended in order and is not there any more.
#[test]
fn d_other_peers_go_on_where_a_run_was_stopped() {
    let mut site = InProcessSite::new(LONG);
    site.options.limits.rate_bits_per_s = rate(8);
    mixed(&site.source());
    let (one, two) = (site.join("one"), site.join("two"));
    let run = site.run();
    one.wait_written(4);
    two.wait_written(4);
    site.control.pause();
    assert_eq!(run.join().unwrap(), RunOutcome::Paused);
    let durable = site.control.view().progress.bytes_durable;
    site.leave("one");
    site.control = Arc::default();
    let three = site.join("three");
    let run = site.run();
    three.wait_written(1);
    let began = Instant::now();
    site.end(run);
    assert!(began.elapsed() < LONG, "it has waited for a grant");
    let progress = site.control.view().progress;
    assert!(durable > 0 && progress.bytes_resumed >= durable, "{durable} B of {progress:?}");
}

/// Promise (f), B3: a peer that is lost for good holds up the run in which it is lost, until its
/// grant is over, and no run after that.
#[test]
fn b3_a_peer_that_is_lost_for_good_is_waited_for_once() {
    let mut site = InProcessSite::new(SHORT);
    site.options.limits.rate_bits_per_s = rate(12);
    fs::write(site.source().join("huge"), bytes(1, 96 * MIB)).unwrap();
    let (one, two) = (site.join("one"), site.join("two"));
    let run = site.run();
    one.wait_written(2);
    two.wait_written(2);
    two.kill();
    site.leave("two");
    wait("the peer to be given up").is(|| {
        assert!(!run.is_finished(), "it ended before it gave the peer up");
        !site.told("two").is_empty()
    });
    site.control.pause();
    assert_eq!(run.join().unwrap(), RunOutcome::Paused);
    // The next runs would wait for more than a minute.
    site.set_grant(LONG);
    for last in [false, true] {
        site.control = Arc::default();
        site.options.limits.rate_bits_per_s = rate(if last { 64 } else { 12 });
        let before = one.written().len();
        let began = Instant::now();
        let run = site.run();
        one.wait_written(before + 2);
        if last {
            site.end(run);
        } else {
            site.control.pause();
            assert_eq!(run.join().unwrap(), RunOutcome::Paused);
        }
        assert!(began.elapsed() < LONG, "it has waited for a grant");
    }
}

/// B3, B4: of a peer that a controller leaves behind with a grant, and that the next one does not
/// find, nobody knows what it still writes: extents wait until its grant is over, and that is said.
#[test]
fn b3_who_may_still_write_is_waited_for() {
    let mut site = InProcessSite::new(SHORT * 2);
    site.options.limits.rate_bits_per_s = rate(12);
    fs::write(site.source().join("huge"), bytes(1, 48 * MIB)).unwrap();
    let fates = ["one", "two"].map(|peer| site.join(peer));
    let tenure = site.lead(1);
    let run = site.run();
    fates.iter().for_each(|fate| fate.wait_written(2));
    end_tenure(&tenure, &fates.each_ref(), run);
    fates[1].make_deaf(true);
    site.leave("two");
    site.lead(2);
    let run = site.run();
    wait("a reason to wait").is(|| {
        let view = site.control.view();
        assert!(!run.is_finished(), "it has not waited: {view:?}");
        view.reason.contains("may still write to large files")
    });
    site.end(run);
}

/// Promise (f), E3: a full target is the store's matter, not one peer's: when all have found it so,
/// the run ends with that, whatever else was said; and one that alone finds it so holds up nobody.
#[test]
fn e3_a_target_that_all_find_full_ends_the_run() {
    let mut site = InProcessSite::new(LONG);
    site.options.limits.rate_bits_per_s = rate(8);
    fs::write(site.source().join("huge"), bytes(1, 96 * MIB)).unwrap();
    let fates = ["one", "two", "three"].map(|peer| site.join(peer));
    let run = site.run();
    fates.iter().for_each(|fate| fate.wait_written(1));
    let full = |why: &str| Problem::new(ProblemCode::TargetFull, "the target is full").because(why);
    fates[1].break_with(full("quota"));
    fates[0].wait_written(fates[0].written().len() + 4);
    assert!(!run.is_finished());
    fates[0].break_with(full("space"));
    fates[2].break_with(Problem::new(ProblemCode::StoreOffline, "another reason"));
    let RunOutcome::Failed(problem) = run.join().unwrap() else { panic!("it is full") };
    assert_eq!(problem.code, ProblemCode::TargetFull);
    assert!(problem.title.starts_with("peer `"), "{problem}");
    assert!(problem.title.ends_with("`: the target is full"), "{problem}");
    site.control = Arc::default();
    site.options.limits.rate_bits_per_s = None;
    site.end(site.run());
}

/// Promise (f), A4, A5: when the last peer can never go on, and another waits for its store to come
/// back, the transfer waits for that and has not failed.
#[test]
fn a5_what_passes_at_one_peer_is_waited_for() {
    let mut site = InProcessSite::new(LONG);
    site.options.limits.rate_bits_per_s = rate(8);
    fs::write(site.source().join("huge"), bytes(1, 96 * MIB)).unwrap();
    let (one, two) = (site.join("one"), site.join("two"));
    let run = site.run();
    one.wait_written(1);
    two.wait_written(1);
    one.break_with(Problem::new(ProblemCode::StoreOffline, "its store is offline"));
    two.wait_written(two.written().len() + 4);
    two.break_with(Problem::new(ProblemCode::Sync, "its store fails to sync"));
    let RunOutcome::Failed(problem) = run.join().unwrap() else { panic!("nobody is left") };
    assert_eq!((problem.exit, &problem.code), (Exit::Temporary, &ProblemCode::StoreOffline));
}

/// Promise (f), E3: a file system that is too small ends the run of several peers within moments,
/// and the next one finishes what the first has left, once there is room.
#[test]
fn e3_a_full_file_system_ends_the_run_and_the_next_one_goes_on() {
    let mut site = InProcessSite::new(LONG);
    let target = site.target();
    if !is_root("a full file system of several peers") {
        return;
    }
    let disk = Mount::tmpfs(target.parent().unwrap(), "dst", 24);
    site.options.limits.rate_bits_per_s = rate(24);
    mixed(&site.source());
    let fates = ["one", "two"].map(|peer| site.join(peer));
    let RunOutcome::Failed(problem) = site.run().join().unwrap() else { panic!("it does not fit") };
    assert_eq!(problem.code, ProblemCode::TargetFull, "{problem}");
    assert!(fates.iter().all(|fate| fate.starts.load(Ordering::Acquire) == 1), "tried again");
    let view = site.control.view();
    assert_eq!(view.progress.errors, 0, "a full disk is no item's fault: {view:?}");
    disk.remount("size=100m");
    site.control = Arc::default();
    site.end(site.run());
}

/// What a writer has left at the target: temporary files and markers.
fn left_of_ours(target: &Path) -> Vec<PathBuf> {
    let mut left = files_below(target);
    left.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(".pst-") || name.starts_with("marker")
    });
    left
}

/// The temporary files among them.
fn temporary_files(target: &Path) -> usize {
    let all = left_of_ours(target);
    let is_temporary = |path: &&PathBuf| path.to_string_lossy().contains("/.pst-");
    all.iter().filter(is_temporary).count()
}

/// Promise (d), B1, B4: a peer dies, and the controller with it before it has committed anything of
/// the page that the peer worked on: whoever leads next finds what that one has left.
#[test]
fn b1_what_a_dead_peer_left_in_a_page_without_a_head_goes() {
    for attempt in 1.. {
        let mut site = InProcessSite::new(SHORT);
        site.options.limits.rate_bits_per_s = rate(8);
        small_files(&site.source(), 2000);
        let (one, two) = (site.join("one"), site.join("two"));
        let tenure = site.lead(1);
        let run = site.run();
        two.wait_written(1);
        // Before the peer dies, so that nothing of its page is committed meanwhile.
        tenure.store(false, Ordering::Release);
        two.kill();
        end_tenure(&tenure, &[&one], run);
        assert_ne!(temporary_files(&site.target()), 0);
        let is_without_head = site.heads().is_empty();
        site.leave("two");
        site.lead(2);
        site.end(site.run());
        if is_without_head {
            return;
        }
        assert!(attempt < 10, "its first commit was always sooner");
    }
}

/// Promise (d), B1, B4: a peer dies, others complete its pages, and the controller dies before the
/// transfer is done: whoever leads next finds what the peer has left in pages that are complete.
#[test]
fn b1_what_a_dead_peer_left_in_a_complete_page_goes() {
    let mut site = InProcessSite::new(SHORT);
    site.options.limits.rate_bits_per_s = rate(8);
    site.options.remove_source = true;
    small_files(&site.source(), 2000);
    let (one, two) = (site.join("one"), site.join("two"));
    let run = site.run_until_moved(1, &one);
    two.wait_written(1);
    two.kill();
    site.leave("two");
    assert!(matches!(run.join().unwrap(), RunOutcome::Failed(_)), "it leads no more");
    assert!(temporary_files(&site.target()) > 0 && site.heads().iter().all(|head| head.complete));
    site.lead(2);
    assert_eq!(site.run().join().unwrap(), RunOutcome::Done);
    assert_eq!(left_of_ours(&site.target()), Vec::<PathBuf>::new());
}

/// Promise (d), B1, B4: the controller's host dies while its peer makes a link, when all pages are
/// complete: whoever leads next finds what that one has left.
#[test]
fn b1_a_link_that_a_dead_peer_has_half_made_goes() {
    let mut site = InProcessSite::new(SHORT);
    site.options.remove_source = true;
    small_files(&site.source(), 20);
    std::os::unix::fs::symlink("somewhere", site.source().join("d0/link")).unwrap();
    let (one, _two) = (site.join("one"), site.join("two"));
    let outcome = site.run_until_moved(1, &one).join().unwrap();
    assert!(matches!(outcome, RunOutcome::Failed(_)), "it leads no more");
    assert_eq!(temporary_files(&site.target()), 0);
    // What it had made, and not named.
    let half_made = site.target().join("d0").join(site.temporary_name("d0/link", "two"));
    std::os::unix::fs::symlink("somewhere", &half_made).unwrap();
    site.leave("two");
    site.lead(2);
    assert_eq!(site.run().join().unwrap(), RunOutcome::Done);
    assert_eq!(left_of_ours(&site.target()), Vec::<PathBuf>::new());
}

/// Cancelled, nothing of any writer is left, of one that died before neither.
#[test]
fn a_cancelled_run_leaves_nothing_of_any_writer() {
    let mut site = InProcessSite::new(SHORT);
    site.options.limits.rate_bits_per_s = rate(8);
    mixed(&site.source());
    let (one, two) = (site.join("one"), site.join("two"));
    let run = site.run();
    one.wait_written(2);
    two.wait_written(2);
    two.kill();
    site.leave("two");
    site.control.cancel();
    assert_eq!(run.join().unwrap(), RunOutcome::Cancelled);
    assert_eq!(left_of_ours(&site.target()), Vec::<PathBuf>::new());
}

/// A5: a run that is cancelled when the store is not there any more keeps what tells where its
/// temporary files are.
#[test]
fn a5_a_run_cancelled_without_its_store_keeps_its_ledger() {
    let mut site = InProcessSite::new(SHORT);
    site.options.limits.rate_bits_per_s = rate(8);
    mixed(&site.source());
    let one = site.join("one");
    let run = site.run();
    one.wait_written(2);
    let own = site.target().join(".penstock-store-7q2mv0kd9j");
    one.happens(At::Stop, move || fs::rename(&own, own.with_file_name("aside")).unwrap());
    site.control.cancel();
    assert_eq!(run.join().unwrap(), RunOutcome::Cancelled);
    assert_eq!(site.ledgers(), 1);
}

/// A transfer of which half goes to where something may be mounted, stopped in the middle; what is
/// mounted there is the directory that is given too.
fn stopped_in_the_middle(mounted: bool) -> (InProcessSite, PathBuf, Option<Mount>) {
    let mut site = InProcessSite::new(LONG);
    site.options.limits.rate_bits_per_s = rate(6);
    small_files(&site.source(), 300);
    fs::write(site.source().join("d1/large"), bytes(1, 20 * MIB)).unwrap();
    let (at, aside) = (site.target().join("d1"), site.target().with_file_name("aside"));
    for directory in [&at, &aside] {
        fs::create_dir(directory).unwrap();
    }
    let mount = mounted.then(|| Mount::bind(&aside, &at));
    let one = site.join("one");
    let run = site.run();
    one.wait_written(8);
    site.control.pause();
    assert_eq!(run.join().unwrap(), RunOutcome::Paused);
    site.control = Arc::default();
    site.options.limits.rate_bits_per_s = None;
    (site, aside, mount)
}

/// A5: what was mounted where the data set goes, and is not when the transfer goes on, is named;
/// nothing is written beneath it, and all goes on when it is back.
#[test]
fn a5_nothing_is_written_beneath_a_mount_that_is_missing() {
    if !is_root("a mount within the target") {
        return;
    }
    let (mut site, aside, mount) = stopped_in_the_middle(true);
    drop(mount);
    let RunOutcome::Failed(problem) = site.run().join().unwrap() else { panic!("it is missing") };
    assert_eq!((&problem.code, problem.exit), (&ProblemCode::StoreOffline, Exit::Temporary));
    assert!(problem.to_string().contains("`d1`"), "{problem}");
    assert_eq!(fs::read_dir(site.target().join("d1")).unwrap().count(), 0);
    site.control = Arc::default();
    let _mount = Mount::bind(&aside, &site.target().join("d1"));
    site.end(site.run());
}

/// A5: what comes to be mounted over something that the ledger calls durable hides it: it is looked
/// for, and fetched again.
#[test]
fn a5_what_a_later_mount_hides_is_fetched_again() {
    if !is_root("a mount within the target") {
        return;
    }
    let (site, aside, _) = stopped_in_the_middle(false);
    let _mount = Mount::bind(&aside, &site.target().join("d1"));
    site.end(site.run());
}

/// Promise (f): a task is woken whenever there may be work for it. One that never asks by itself,
/// of a controller that commits only what is urgent, comes to the end.
#[test]
fn f_a_task_that_never_asks_by_itself_is_woken_for_all_of_it() {
    let large = |base: &Path| fs::write(base.join("large"), bytes(1, 3 * MIB)).unwrap();
    for (peers, make) in [(1, &mixed as &dyn Fn(&Path)), (2, &mixed), (1, &large)] {
        let mut site = InProcessSite::new(LONG);
        site.unhurried = true;
        make(&site.source());
        for peer in 0..peers {
            site.join(&format!("p{peer}")).only_woken.store(true, Ordering::Release);
        }
        let (ended, end) = channel();
        let run = site.run();
        let run = std::thread::spawn(move || {
            let outcome = run.join().unwrap();
            ended.send(()).unwrap();
            outcome
        });
        end.recv_timeout(PATIENCE).expect("work waits for a task that waits to be woken");
        site.end(run);
    }
}
