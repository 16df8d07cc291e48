//! Crash safety with real processes: `kill -9` of `copy`, of the source's daemon, of the target's,
//! of both, at random moments; and the polite signals.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use penstock_testkit::{
    Copy, Ended, Run, Scratch, Signal, Site, Slowly, assert_finals_right, assert_no_leftovers,
    assert_same, bytes_below, figure, files_below, make_files, rng, two_sites,
};
use rand::RngExt as _;

const MIB: usize = 1 << 20;
/// A report is committed within a second (A7), on a machine that is busy with other tests, or
/// stands still, some later.
const COMMITTED_AFTER: Duration = Duration::from_secs(8);

/// What a killed run had said to be durable, or to be done so long before its death that it must be
/// committed.
fn committed_at_least(killed: &Ended, died: Instant) -> u64 {
    let lines = killed.seen.iter().map(|(at, line)| {
        let is_old = died.duration_since(*at) >= COMMITTED_AFTER;
        figure(line, if is_old { "bytes" } else { "bytes_durable" })
    });
    lines.max().unwrap_or(0)
}

/// Promise (d), A7: `kill -9` of `copy` at any moment costs what was in flight and the last
/// second's reports; the same command goes on, and ends with a tree that is the same.
#[test]
fn d_a_copy_that_is_killed_again_and_again_goes_on_where_it_was() {
    let mut rng = rng("copy killed");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 400, 200_000, &[150 * MIB, 100 * MIB + 1, 60 * MIB - 1]);
    let total = bytes_below(&source);
    let copy = Copy::new(base.path());
    let contents = format!("{}/", source.display());
    let (mut fetched, mut expected, mut kept, mut kills) = (0, 0, 0, 0);
    let mut finished = None;
    for kill in 0..10 {
        let mut run = copy.spawn(&contents, &target);
        let slowly = Slowly::with_stops(run.id(), Duration::from_millis(150));
        let time = Duration::from_millis(rng.random_range(0..1800));
        let goal = kept + rng.random_range(0..total / 10);
        run.wait_for(|line| figure(line, "bytes") >= goal.min(total - 1));
        let running = run.watch_for(time);
        drop(slowly);
        let ended = run.seen().back().is_some_and(|(_, line)| line["type"] == "summary");
        if !running || ended {
            println!("kill {kill}, {time:?} after {goal}, came too late");
            finished = Some(run.end());
            break;
        }
        let died = Instant::now();
        let killed = run.kill();
        kills += 1;
        if killed.last.is_null() {
            continue;
        }
        if killed.last["type"] == "summary" {
            // It was done; the next command is another copy, from the beginning.
            println!("kill {kill} came while it tidied up");
            (fetched, expected, kept) = (0, 0, 0);
            continue;
        }
        // The resumed bytes are told once all pages are open again.
        let told: Vec<u64> =
            killed.seen.iter().map(|(_, line)| figure(line, "bytes_resumed")).collect();
        let resumed = told.iter().copied().max().unwrap_or(0);
        kept = resumed;
        fetched += figure(&killed.last, "bytes_verified");
        println!(
            "kill {kill} after {time:?}: {resumed} resumed, {} of {total} there",
            figure(&killed.last, "bytes"),
        );
        expected = expected.max(committed_at_least(&killed, died));
    }
    assert!(kills >= 3, "the copy ended after {kills} kills");
    let last = finished.unwrap_or_else(|| copy.run(&contents, &target)).expect(0);
    let (verified, resumed) = (last.figure("bytes_verified"), last.figure("bytes_resumed"));
    println!("{kills} kills: {resumed} resumed at last, {verified} fetched, {fetched} before");
    assert_eq!(verified + resumed, total, "what is there is not fetched: {}", last.last);
    assert!(resumed >= expected, "{resumed} resumed of {expected} that were committed");
    assert!(resumed > 0 || kept == 0);
    assert_same(&source, &target);
    assert!(!target.join(".penstock-store-7q2mv0kd9j").exists());
    copy.assert_no_state();
}

/// Promises (b), (d), B1: `kill -9` takes no small file that was reported, whether it had its name
/// or only a temporary one. None is taken for one of another attempt, and nothing is left under
/// temporary names.
#[test]
fn d_small_files_survive_kills() {
    let mut rng = rng("small files killed");
    let base = Scratch::in_memory_for(1 << 30);
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 20_000, 10_000, &[]);
    let total = bytes_below(&source);
    let copy = Copy::new(base.path());
    let contents = format!("{}/", source.display());
    let (mut kills, mut expected, mut finished) = (0, 0, None);
    for _ in 0..5 {
        let mut command = copy.command(&contents, &target);
        let mut run = Run::spawn(command.args(["--bwlimit", "20MiB/s"]));
        run.wait_for(|line| figure(line, "bytes") > figure(line, "bytes_resumed"));
        if !run.watch_for(Duration::from_millis(rng.random_range(0..1200))) {
            finished = Some(run.end());
            break;
        }
        let died = Instant::now();
        let killed = run.kill();
        kills += 1;
        expected = expected.max(committed_at_least(&killed, died));
        println!("{} of {total} there, {expected} for sure", figure(&killed.last, "bytes"));
        assert_finals_right(&source, &target);
    }
    assert!(kills >= 2, "it was killed {kills} times");
    let last = finished.unwrap_or_else(|| copy.run(&contents, &target)).expect(0);
    let (verified, resumed) = (last.figure("bytes_verified"), last.figure("bytes_resumed"));
    assert_eq!(verified + resumed, total, "{}", last.last);
    assert!(resumed >= expected, "{resumed} resumed of {expected} that were durable");
    assert_same(&source, &target);
    assert_no_leftovers(&target);
}

/// Promise (d): a copy that is killed at its very end, while it tidies up, is either done or is
/// finished by the same command; it is never taken for one whose target is not mounted (A5).
#[test]
fn d_a_copy_that_is_killed_while_it_tidies_up_is_finished_by_the_next() {
    let mut rng = rng("copy killed at its end");
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng, &source, 100, 1000, &[]);
    let copy = Copy::new(base.path());
    let contents = format!("{}/", source.display());
    for _ in 0..10 {
        let mut run = copy.spawn(&contents, &target);
        run.wait_for(|line| line["type"] == "summary");
        let wait = Duration::from_micros(rng.random_range(0..3000));
        std::thread::sleep(wait);
        run.kill();
        copy.run(&contents, &target).expect(0);
        assert_same(&source, &target);
        copy.assert_no_state();
        assert!(
            !target.join(".penstock-store-7q2mv0kd9j").exists(),
            "killed {wait:?} after the summary"
        );
    }
}

/// Promise: SIGINT, SIGTERM and SIGHUP pause a copy: exit 130, and a hint. What was written by then
/// is kept: the same command moves none of it again. A file that was touched meanwhile moves once
/// more, and one that came meanwhile too.
#[test]
fn a_copy_that_is_interrupted_moves_nothing_twice() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut rng = rng("copy interrupted");
        let base = Scratch::on_disk();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        make_files(&mut rng, &source, 400, 100_000, &[64 * MIB, 64 * MIB, 64 * MIB]);
        let total = bytes_below(&source);
        let copy = Copy::new(base.path());
        let contents = format!("{}/", source.display());
        let mut run = copy.spawn(&contents, &target);
        let moving =
            |line: &serde_json::Value| line["scan_complete"] == true && figure(line, "bytes") > 0;
        let slowly = Slowly::new(run.id());
        assert!(run.wait_for(moving).is_some(), "it ended before it was interrupted");
        drop(slowly);
        run.signal(signal);
        let paused = run.end().expect(130);
        assert_eq!(paused.last["state"], "paused");
        assert!(paused.errors.contains("the same command again"), "{}", paused.errors);
        let done = paused.figure("bytes");
        assert!(done > 0 && done < total, "{done} of {total}");
        let touched = touch_what_is_done(&source, &target);
        let touched = touched.map_or(0, |name| fs::metadata(source.join(name)).unwrap().len());
        fs::write(source.join("late"), b"came after the scan").unwrap();
        let resumed = copy.run(&contents, &target).expect(0);
        assert!(resumed.errors.contains("resuming"), "{}", resumed.errors);
        let moved = resumed.figure("bytes_verified");
        // A file that was young when it was read is looked at again at the end (C1).
        assert!(moved <= total - done + touched + 19 + 100_000, "{moved} of {total}, {done} done");
        assert!(resumed.figure("bytes_resumed") >= done - touched, "{}", resumed.last);
        assert_same(&source, &target);
        copy.assert_no_state();
    }
}

/// Gives one file that has its final name another time at the source, and says which.
fn touch_what_is_done(source: &Path, target: &Path) -> Option<PathBuf> {
    let done = files_below(target);
    let mut names = done.iter().map(|path| path.strip_prefix(target).unwrap());
    let touched = names.find(|name| source.join(name).exists())?;
    println!("touched {}", touched.display());
    let file = fs::File::options().write(true).open(source.join(touched)).unwrap();
    file.set_modified(std::time::SystemTime::now()).unwrap();
    Some(touched.to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Victim {
    Source,
    Target,
    Both,
}

fn strike(victim: Victim, a: &mut Site, b: &mut Site) {
    if victim != Victim::Target {
        a.kill();
    }
    if victim != Victim::Source {
        b.kill();
    }
    if victim != Victim::Target {
        a.start();
    }
    if victim != Victim::Source {
        b.start();
    }
}

/// Kills daemons at random progress, and gives the summary of the transfer.
fn transfer_with_kills(test: &str, victims: &[Victim]) {
    let mut rng = rng(test);
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("data-a"), base.path().join("data-b"));
    let source = data_a.join("set");
    make_files(&mut rng, &source, 400, 200_000, &[100 * MIB, 80 * MIB + 1, 60 * MIB, 30 * MIB]);
    let total = bytes_below(&source);
    let (mut a, mut b) = two_sites(base.path(), &data_a, &data_b);
    let id = b.submit(&["a:data/set/", "b:data/set/"]);
    let step = total / (victims.len() as u64 + 1);
    for (at, victim) in victims.iter().enumerate() {
        let slowly = Slowly::new(b.process());
        let goal = rng.random_range(step * at as u64 / 2..step * (at as u64 + 1));
        let view = b.show_until(&id, |view| {
            view["state"] == "done" || figure(&view["progress"], "bytes") > goal
        });
        let progress = &view["progress"];
        println!(
            "{victim:?} killed at {} of {total}, {} resumed",
            figure(progress, "bytes"),
            figure(progress, "bytes_resumed")
        );
        assert!(view["state"] != "done", "the transfer ended before kill {at}");
        drop(slowly);
        strike(*victim, &mut a, &mut b);
    }
    let summary = b.follow(&id).expect(0);
    let (verified, resumed) = (summary.figure("bytes_verified"), summary.figure("bytes_resumed"));
    let resent = summary.figure("bytes_resent");
    println!("{verified} verified in the last run, {resumed} resumed, {resent} sent again");
    assert_eq!(summary.last["state"], "done");
    assert!(resumed + verified <= total + resent, "{}", summary.last);
    assert!(resumed + verified >= total, "{}", summary.last);
    assert_same(&source, &data_b.join("set"));
    assert_no_leftovers(&data_b);
    let orphans = b.ok(&["transfer", "orphans", "--json"]);
    assert!(!orphans.contains(&id), "{orphans}");
}

/// Promise (d): `kill -9` of the source's daemon: the transfer heals by itself when it is back.
#[test]
fn d_a_transfer_survives_kills_of_the_source_daemon() {
    transfer_with_kills("source killed", &[Victim::Source; 3]);
}

/// Promise (d): `kill -9` of the target's daemon: the transfer goes on from its ledger.
#[test]
fn d_a_transfer_survives_kills_of_the_target_daemon() {
    transfer_with_kills("target killed", &[Victim::Target; 4]);
}

/// Promise (d): `kill -9` of both daemons at once.
#[test]
fn d_a_transfer_survives_kills_of_both_daemons() {
    transfer_with_kills("both killed", &[Victim::Both, Victim::Target, Victim::Both]);
}

/// Promise (c), over distance: pieces that travel in parts arrive whole, sparse ones too, with the
/// digests that whole pieces have; and a target that is killed in between goes on (promise (d)).
#[test]
fn c_pieces_in_parts_arrive_whole_and_with_the_same_digests() {
    let mut rng = rng("parts of pieces");
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("a"), base.path().join("b"));
    let source = data_a.join("src");
    make_files(&mut rng, &source, 1500, 20_000, &[70 * MIB, 33 * MIB + 1, 20 * MIB - 1]);
    let sparse = fs::File::create(source.join("dir0/sparse")).unwrap();
    sparse.set_len(40 << 20).unwrap();
    for offset in [1 << 20, 17 << 20, (17 << 20) + 5000, 39 << 20] {
        sparse.write_all_at(b"island", offset).unwrap();
    }
    let (mut near, mut far) = (Site::at_port(base.path(), "a", &data_a), None);
    let mut lists = Vec::new();
    for way in ["0", "40"] {
        // The source sends small frames first over distance, and strides in parts.
        near.kill();
        near.environment = vec![("PENSTOCK_TEST_RTT_MS", way.to_owned())];
        near.start();
        let mut b = Site::at_port(base.path(), if way == "0" { "b" } else { "c" }, &data_b);
        b.environment.push(("PENSTOCK_TEST_RTT_MS", way.to_owned()));
        b.start();
        near.pair(&b);
        let list = base.path().join(format!("list-{way}"));
        let target = format!("{}:data/digests-{way}", b.name);
        let write = ["--wait", "--write-digests", list.to_str().unwrap()];
        b.ok(&[&["transfer", "submit", "a:data/src/", &target], write.as_slice()].concat());
        assert_same(&source, &data_b.join(format!("digests-{way}")));
        let mut lines: Vec<String> =
            fs::read_to_string(list).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        lists.push(lines);
        far = Some(b);
    }
    assert_eq!(lists[0], lists[1], "the way changes no digest");
    let mut far = far.unwrap();
    let id = far.submit(&["a:data/src/", "c:data/dst"]);
    let goal = bytes_below(&source) / 4;
    far.show_until(&id, |view| figure(&view["progress"], "bytes_verified") >= goal);
    far.kill();
    far.start();
    let _ = far.follow(&id).expect(0);
    assert_same(&source, &data_b.join("dst"));
}
