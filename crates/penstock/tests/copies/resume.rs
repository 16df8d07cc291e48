//! A run that is resumed ends as one that begins now: what came, changed or went at the source
//! since the interruption, and what was lost or altered at the target, is seen. What is done is not
//! moved again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use penstock_testkit::{
    Copy, Ended, Run, Scratch, Signal, assert_no_leftovers, assert_same, bytes_below, figure,
    files_below, make_files, rng, tool, two_sites,
};
use rand::RngExt as _;
use rand_chacha::ChaCha8Rng;

const MIB: usize = 1 << 20;
/// Slow enough to be interrupted.
const SLOWLY: [&str; 2] = ["--bwlimit", "20MiB/s"];
/// Files that have arrived when a copy is interrupted, where its source has so many.
const SMALL_DONE: usize = 12;

struct World {
    _base: Scratch,
    source: PathBuf,
    target: PathBuf,
    copy: Copy,
}

impl World {
    fn new(rng: &mut ChaCha8Rng) -> Self {
        Self::at(Scratch::on_disk(), rng)
    }

    fn at(base: Scratch, rng: &mut ChaCha8Rng) -> Self {
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        make_files(rng, &source, 300, 200_000, &[70 * MIB, 40 * MIB + 1]);
        let copy = Copy::new(base.path());
        Self { _base: base, source, target, copy }
    }

    fn command(&self, options: &[&str]) -> Command {
        let mut command = self.copy.command(format!("{}/", self.source.display()), &self.target);
        command.args(options);
        command
    }

    fn run(&self, options: &[&str]) -> Ended {
        Run::spawn(&mut self.command(options)).end()
    }

    /// Kills a copy once so much of it is durable, and some small files have their names.
    fn interrupt(&self, options: &[&str], durable: u64) {
        let mut run = Run::spawn(self.command(options).args(SLOWLY));
        let small = files_below(&self.source).len().min(SMALL_DONE);
        let is_enough = |line: &serde_json::Value| {
            figure(line, "bytes_durable") >= durable
                && (self.arrived().len() > small || small < SMALL_DONE)
        };
        let seen = run.wait_for(is_enough);
        assert!(seen.is_some_and(|line| line["type"] != "summary"), "it ended before");
        run.kill();
    }

    /// Files that have arrived whole, by their paths below the root.
    fn arrived(&self) -> Vec<PathBuf> {
        let found = files_below(&self.target);
        let names = found.iter().map(|path| path.strip_prefix(&self.target).unwrap().to_owned());
        names.filter(|name| self.source.join(name).exists()).collect()
    }
}

/// What may happen while no copy runs.
struct Changes {
    /// Gone at the source, though the target has it.
    gone: PathBuf,
}

fn change_everything(world: &World, rng: &mut ChaCha8Rng) -> Changes {
    let World { source, target, .. } = world;
    fs::write(source.join("dir1/added"), "new").unwrap();
    fs::create_dir(source.join("new directory")).unwrap();
    fs::write(source.join("new directory/x"), "new").unwrap();
    let mut arrived = world.arrived();
    arrived.retain(|name| fs::metadata(source.join(name)).unwrap().len() > 0);
    assert!(arrived.len() > 6, "{arrived:?}");
    let mut take = || arrived.swap_remove(rng.random_range(0..arrived.len()));
    let size = |path: &Path| fs::metadata(path).unwrap().len() as usize;
    // Other contents of the same length, and less of it.
    let rewritten = source.join(take());
    fs::write(&rewritten, vec![b'x'; size(&rewritten)]).unwrap();
    fs::write(source.join(take()), "short").unwrap();
    fs::remove_file(target.join(take())).unwrap();
    fs::write(target.join(take()), "altered at the target").unwrap();
    let gone = take();
    fs::remove_file(source.join(&gone)).unwrap();
    // A directory takes the place of a file that has arrived.
    let turned = take();
    fs::remove_file(source.join(&turned)).unwrap();
    fs::create_dir(source.join(&turned)).unwrap();
    fs::write(source.join(&turned).join("y"), "new").unwrap();
    Changes { gone }
}

/// Promise: the same command after `kill -9` ends with what a command that begins now ends with,
/// as one that deletes too; what is done and unchanged at both sides is not moved again.
#[test]
fn a_resumed_mirror_ends_as_one_begun_now() {
    let mut rng = rng("resumed mirror");
    let world = World::new(&mut rng);
    let options = ["--sync", "--delete"];
    world.interrupt(&options, 40 << 20);
    let changes = change_everything(&world, &mut rng);
    let total = bytes_below(&world.source);
    let ended = world.run(&options).expect(0);
    assert!(ended.errors.contains("resuming"), "{}", ended.errors);
    assert!(!world.target.join(changes.gone).exists());
    assert_same(&world.source, &world.target);
    let (verified, resumed) = (ended.figure("bytes_verified"), ended.figure("bytes_resumed"));
    println!("{resumed} resumed, {verified} moved of {total}");
    // A file that got its name a moment before the kill is in no ledger: it stays, as any other.
    let skipped = ended.figure("bytes_skipped");
    assert!(resumed + skipped >= 30 << 20, "{}", ended.last);
    assert!(verified + resumed <= total + (2 << 20), "{}", ended.last);
    assert_eq!(ended.figure("bytes"), total - skipped);
    assert_no_leftovers(&world.target);
    world.copy.assert_no_state();
}

/// Promise: the same without deletion: what is gone at the source stays at the target, as with any
/// copy, and is in no list. Digests that earlier attempts have proven are in the list.
#[test]
fn a_resumed_copy_lists_what_there_is_now() {
    let mut rng = rng("resumed list");
    // In memory, where a sync waits for no disk: the copy is to be interrupted in time.
    let world = World::at(Scratch::in_memory_for(700 << 20), &mut rng);
    let list = world.copy.base.join("list");
    let options = ["--write-digests", list.to_str().unwrap()];
    world.interrupt(&options, 60 << 20);
    fs::write(world.source.join("dir1/added"), "new").unwrap();
    let arrived = world.arrived();
    let gone = arrived.iter().find(|name| name.components().count() == 2).unwrap();
    fs::remove_file(world.source.join(gone)).unwrap();
    world.interrupt(&options, 60 << 20);
    world.run(&options).expect(0);
    let text = fs::read_to_string(&list).unwrap();
    let files = files_below(&world.source);
    assert_eq!(text.lines().count(), files.iter().filter(|path| !path.is_symlink()).count());
    let has =
        |name: &Path| text.lines().any(|line| line.ends_with(&format!("  {}", name.display())));
    assert!(!has(gone) && has(Path::new("dir1/added")));
    assert!(world.target.join(gone).exists());
    fs::remove_file(world.target.join(gone)).unwrap();
    for line in text.lines() {
        let (digest, name) = line.split_once("  ").unwrap();
        let now = blake3::hash(&fs::read(world.target.join(name)).unwrap());
        assert_eq!(now.to_hex().as_str(), digest, "{name}");
    }
    assert_no_leftovers(&world.target);
    world.copy.assert_no_state();
}

/// Promise: a large file that was half done goes on where it was, though other files came before it
/// in the list; one that changed at its source begins anew, and nothing of the old one is left.
#[test]
fn a_half_done_file_goes_on_unless_it_changed() {
    for changed in [false, true] {
        let mut rng = rng("half done");
        let base = Scratch::on_disk();
        let (source, target) = (base.path().join("src"), base.path().join("dst"));
        make_files(&mut rng, &source, 0, 1, &[200 * MIB]);
        let copy = Copy::new(base.path());
        let world = World { _base: base, source, target, copy };
        world.interrupt(&[], 60 << 20);
        for at in 0..40 {
            fs::write(world.source.join(format!("dir0/a{at}")), vec![b'a'; 100_000]).unwrap();
        }
        if changed {
            let file = fs::File::options().write(true).open(world.source.join("dir0/large0"));
            std::os::unix::fs::FileExt::write_all_at(&file.unwrap(), b"changed", 5).unwrap();
        }
        let ended = world.run(&[]).expect(0);
        let total = bytes_below(&world.source);
        let (verified, resumed) = (ended.figure("bytes_verified"), ended.figure("bytes_resumed"));
        if changed {
            assert!(resumed < MIB as u64, "{}", ended.last);
        } else {
            assert!(resumed >= 60 << 20, "{}", ended.last);
            assert_eq!(verified + resumed, total);
        }
        assert_same(&world.source, &world.target);
        assert_no_leftovers(&world.target);
        world.copy.assert_no_state();
    }
}

/// Promise (C6): a resumed move moves what came meanwhile too, and nothing is lost: what is not at
/// the source any more is at the target.
#[test]
fn c6_a_resumed_move_moves_all_there_is() {
    let mut rng = rng("resumed move");
    let world = World::new(&mut rng);
    world.interrupt(&["--remove-source"], 40 << 20);
    fs::write(world.source.join("dir1/added"), "new").unwrap();
    let rewritten = world.arrived().swap_remove(0);
    fs::write(world.source.join(rewritten), "another version").unwrap();
    let expected = world.copy.base.join("expected");
    tool("cp", &[&"-a", &world.source, &expected]);
    let ended = world.run(&["--remove-source"]).expect(0);
    assert!(ended.figure("bytes_resumed") > 20 << 20, "{}", ended.last);
    assert_eq!(files_below(&world.source), Vec::<PathBuf>::new());
    assert_same(&expected, &world.target);
    assert_no_leftovers(&world.target);
}

/// Promise: what an earlier attempt has brought is no reason to fail or to skip, where the user
/// wants what stood at the target before to stay.
#[test]
fn what_an_attempt_brought_is_its_own() {
    let mut rng = rng("resumed beside others");
    let world = World::new(&mut rng);
    fs::create_dir_all(world.target.join("dir3")).unwrap();
    fs::write(world.target.join("dir3/small3"), "of somebody else").unwrap();
    let options = ["--if-exists", "skip"];
    world.interrupt(&options, 40 << 20);
    let ended = world.run(&options).expect(0);
    assert_eq!(ended.figure("skipped"), 1, "{}", ended.last);
    let other = fs::read_to_string(world.target.join("dir3/small3")).unwrap();
    assert_eq!(other, "of somebody else");
    fs::copy(world.target.join("dir3/small3"), world.source.join("dir3/small3")).unwrap();
    tool("touch", &[&"-r", &world.target.join("dir3/small3"), &world.source.join("dir3/small3")]);
    tool("touch", &[&"-r", &world.target.join("dir3"), &world.source.join("dir3")]);
    assert_same(&world.source, &world.target);
}

/// Promise: a single file that changed after an interruption arrives in its new version.
#[test]
fn a_single_file_arrives_as_it_is_now() {
    let mut rng = rng("resumed file");
    let world = World::new(&mut rng);
    let (file, target) = (world.source.join("dir0/large0"), world.target.join("file"));
    fs::create_dir(&world.target).unwrap();
    let mut run = Run::spawn(world.copy.command(&file, &target).args(SLOWLY));
    run.wait_for(|line| figure(line, "bytes_durable") > 0).unwrap();
    run.kill();
    fs::write(&file, vec![7; 50 * MIB]).unwrap();
    world.copy.run(&file, &target).expect(0);
    assert!(fs::read(&file).unwrap() == fs::read(&target).unwrap());
    assert_no_leftovers(&world.target);
    world.copy.assert_no_state();
}

/// Promise: a copy that was interrupted and is done by a command with other options leaves nothing
/// of the first one: no temporary file, and no state.
#[test]
fn other_options_finish_what_was_begun() {
    let mut rng = rng("resumed otherwise");
    let world = World::new(&mut rng);
    world.interrupt(&[], 40 << 20);
    let ended = world.run(&["--sync", "--delete"]).expect(0);
    assert!(ended.figure("bytes_resumed") > 20 << 20, "{}", ended.last);
    assert_same(&world.source, &world.target);
    assert_no_leftovers(&world.target);
    world.copy.assert_no_state();
}

/// Promise: kills within the first second of a run each leave something behind: a copy under a
/// supervisor that keeps killing it is done one day. In memory, where a sync waits for no disk.
#[test]
fn d_runs_that_are_killed_young_make_progress() {
    let mut rng = rng("killed young");
    let world = World::at(Scratch::in_memory_for(400 << 20), &mut rng);
    let total = bytes_below(&world.source);
    let (mut verified, mut is_done) = (0, false);
    for _ in 0..6 {
        let mut run = Run::spawn(world.command(&[]).args(["--bwlimit", "40MiB/s"]));
        let goal = rng.random_range(10 << 20..30 << 20);
        let done = |line: &serde_json::Value| figure(line, "bytes_verified") >= goal;
        let Some(line) = run.wait_for(done).filter(|line| line["type"] != "summary") else {
            is_done = true;
            break;
        };
        verified += figure(&line, "bytes_verified");
        run.watch_for(Duration::from_millis(rng.random_range(0..300)));
        let last = run.kill().last;
        is_done = last["type"] == "summary";
        verified = verified.max(figure(&last, "bytes_verified"));
        if is_done {
            break;
        }
    }
    let ended = world.run(&[]).expect(0);
    let resumed = ended.figure("bytes_resumed");
    println!("{resumed} of {total} resumed after {verified} were moved; done before: {is_done}");
    // A run that came to its end has made the most progress, and leaves nothing to resume.
    assert!(is_done || resumed > 0, "{}", ended.last);
    assert_same(&world.source, &world.target);
    assert_no_leftovers(&world.target);
}

/// Promise: a transfer that goes on after a pause, and one that is tried again after a failure,
/// list their source anew.
#[test]
fn a_paused_transfer_goes_on_with_what_there_is_now() {
    let mut rng = rng("paused transfer");
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("data-a"), base.path().join("data-b"));
    let source = data_a.join("set");
    make_files(&mut rng, &source, 200, 200_000, &[80 * MIB, 40 * MIB]);
    let (_a, b) = two_sites(base.path(), &data_a, &data_b);
    let submit = ["transfer", "submit", "a:data/set/", "b:data/set/", "--sync", "--delete"];
    let id = b.ok(&[&submit[..], &SLOWLY].concat()).trim().to_owned();
    let moving = |view: &serde_json::Value| figure(&view["progress"], "bytes_durable") > 20 << 20;
    b.show_until(&id, moving);
    b.ok(&["transfer", "pause", &id]);
    b.show_until(&id, |view| view["state"] == "paused");
    fs::write(source.join("dir1/added"), "new").unwrap();
    fs::write(source.join("dir1/small1"), "rewritten").unwrap();
    fs::remove_file(source.join("dir2/small2")).unwrap();
    b.ok(&["transfer", "resume", &id]);
    let ended = b.follow(&id).expect(0);
    assert!(ended.figure("bytes_resumed") > 10 << 20, "{}", ended.last);
    assert_same(&source, &data_b.join("set"));
    assert_no_leftovers(&data_b);
}

/// Promise: a source whose daemon was restarted while a transfer ran is listed again at the end of
/// the run: what changed after the first list arrives too, and what went is deleted.
#[test]
fn a_restarted_source_is_listed_again() {
    let mut rng = rng("restarted source");
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("data-a"), base.path().join("data-b"));
    let source = data_a.join("set");
    make_files(&mut rng, &source, 200, 200_000, &[80 * MIB, 40 * MIB]);
    let (mut a, b) = two_sites(base.path(), &data_a, &data_b);
    let submit = ["transfer", "submit", "a:data/set/", "b:data/set/", "--sync", "--delete"];
    let id = b.ok(&[&submit[..], &SLOWLY].concat()).trim().to_owned();
    let moving = |view: &serde_json::Value| {
        figure(&view["progress"], "bytes_durable") > 20 << 20
            && view["progress"]["scan_complete"] == true
    };
    b.show_until(&id, moving);
    a.kill();
    fs::write(source.join("dir1/added"), "new").unwrap();
    fs::write(source.join("dir1/small1"), "rewritten").unwrap();
    fs::remove_file(source.join("dir2/small2")).unwrap();
    fs::remove_file(source.join("dir3/small3")).unwrap();
    fs::create_dir(source.join("dir3/small3")).unwrap();
    a.start();
    b.follow(&id).expect(0);
    assert_same(&source, &data_b.join("set"));
    assert_no_leftovers(&data_b);
}

/// Promise: SIGHUP, as a session that ends sends it, pauses a copy like SIGTERM, and costs nothing
/// that was written.
#[test]
fn a_session_that_ends_pauses_a_copy() {
    let mut rng = rng("hung up");
    let world = World::new(&mut rng);
    let mut run = Run::spawn(world.command(&[]).args(SLOWLY));
    run.wait_for(|line| figure(line, "bytes") > 20 << 20).unwrap();
    run.signal(Signal::HUP);
    let paused = run.end().expect(130);
    let done = paused.figure("bytes");
    let ended = world.run(&[]).expect(0);
    assert!(ended.figure("bytes_resumed") >= done, "{} of {done}", ended.last);
    assert_same(&world.source, &world.target);
}

/// Promise: a target that was removed, or renamed away, after an interruption is no store to wait
/// for: the copy says so, and is done by the same command.
#[test]
fn a_target_that_is_gone_is_made_again() {
    for rename in [false, true] {
        let mut rng = rng("target gone");
        let world = World::new(&mut rng);
        world.interrupt(&[], 40 << 20);
        // While it is open, ext4 gives its inode number to no other directory.
        let held = fs::File::open(&world.target).unwrap();
        match rename {
            true => fs::rename(&world.target, world.copy.base.join("aside")).unwrap(),
            false => fs::remove_dir_all(&world.target).unwrap(),
        }
        let ended = world.run(&[]).expect(0);
        drop(held);
        assert!(ended.errors.contains("was removed or replaced"), "{}", ended.errors);
        assert_same(&world.source, &world.target);
        assert_no_leftovers(&world.target);
        world.copy.assert_no_state();
    }
}

/// Promise: another directory in the place of the target proves nothing, though each file there has
/// the name, size and time of one that the copy has written.
#[test]
fn a_target_with_the_same_stamps_proves_nothing() {
    let mut rng = rng("same stamps");
    let world = World::new(&mut rng);
    world.interrupt(&[], 40 << 20);
    let aside = world.copy.base.join("aside");
    fs::rename(&world.target, &aside).unwrap();
    tool("cp", &[&"-a", &aside, &world.target]);
    for name in world.arrived() {
        let (file, path) = (world.target.join(&name), aside.join(&name));
        if file.is_symlink() {
            continue;
        }
        let mut bytes = fs::read(&path).unwrap();
        bytes.iter_mut().for_each(|byte| *byte = !*byte);
        fs::write(&file, bytes).unwrap();
        tool("touch", &[&"-r", &path, &file]);
    }
    let ended = world.run(&[]).expect(0);
    assert_eq!(ended.figure("bytes_resumed"), 0, "{}", ended.last);
    assert!(ended.errors.contains("was removed or replaced"), "{}", ended.errors);
    for file in files_below(&world.source).iter().filter(|file| !file.is_symlink()) {
        let name = file.strip_prefix(&world.source).unwrap();
        assert!(fs::read(file).unwrap() == fs::read(world.target.join(name)).unwrap());
    }
    assert_same(&world.source, &world.target);
    assert_no_leftovers(&world.target);
    world.copy.assert_no_state();
}

/// Promise: a source that was replaced by another directory of its name is copied as it is now.
#[test]
fn a_source_that_was_replaced_is_listed_anew() {
    let mut rng = rng("source replaced");
    let world = World::new(&mut rng);
    world.interrupt(&[], 40 << 20);
    fs::rename(&world.source, world.copy.base.join("aside")).unwrap();
    make_files(&mut rng, &world.source, 20, 1000, &[]);
    world.run(&["--delete", "--max-delete", "1000"]).expect(0);
    assert_same(&world.source, &world.target);
    world.copy.assert_no_state();
}

/// Promise: a damaged or incomplete state of an interrupted copy is said, and costs no data: the
/// same command ends as always.
#[test]
fn a_damaged_state_is_begun_anew() {
    for damaged in ["state.sqlite", "id", "journal/pages/00000000.page", "journal/logs"] {
        let mut rng = rng("state damaged");
        // In memory, where a sync waits for no disk: the copy is to be interrupted in time.
        let world = World::at(Scratch::in_memory_for(700 << 20), &mut rng);
        world.interrupt(&[], 40 << 20);
        let states = fs::read_dir(world.copy.state().join("copy")).unwrap();
        let state = states.map(|entry| entry.unwrap().path()).next().unwrap();
        let path = state.join(damaged);
        match path.is_dir() {
            true => fs::remove_dir_all(&path).unwrap(),
            false => fs::write(&path, "no such thing").unwrap(),
        }
        if damaged == "state.sqlite" {
            let _ = fs::remove_file(state.join("state.sqlite-wal"));
        }
        // The next list has other pages: nothing but their tag tells the first run's files.
        fs::write(world.source.join("a new file"), damaged).unwrap();
        let ended = world.run(&[]).expect(0);
        let said = ended.errors.contains("is damaged");
        assert_eq!(said, !damaged.starts_with("journal"), "{damaged}: {}", ended.errors);
        assert_same(&world.source, &world.target);
        world.copy.assert_no_state();
    }
}

/// Promise: what an abandoned copy from elsewhere has left in a target goes with the next copy that
/// is done there.
#[test]
fn another_copy_to_the_same_place_removes_what_is_left() {
    let mut rng = rng("abandoned");
    let world = World::new(&mut rng);
    world.interrupt(&[], 40 << 20);
    let other = world.copy.base.join("other");
    make_files(&mut rng, &other, 5, 1000, &[]);
    world.copy.run(format!("{}/", other.display()), &world.target).expect(0);
    assert_no_leftovers(&world.target);
    world.copy.assert_no_state();
}

/// Tables of earlier attempts in the state of the one copy.
fn tables(copy: &Copy) -> Vec<PathBuf> {
    let journal = journal(copy);
    let found = fs::read_dir(journal).unwrap().map(|entry| entry.unwrap().path());
    found.filter(|path| path.extension().is_some_and(|name| name == "sqlite")).collect()
}

/// The journal of the one copy whose state is kept.
fn journal(copy: &Copy) -> PathBuf {
    let states = fs::read_dir(copy.state().join("copy")).unwrap();
    let states: Vec<PathBuf> = states.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(states.len(), 1, "{states:?}");
    states[0].join("journal")
}

/// Promise: a table of proofs that is damaged, in whatever way, is dropped with a warning, and the
/// copy ends as one that begins now.
#[test]
fn a_damaged_table_of_proofs_is_dropped() {
    let damages: [fn(&mut Vec<u8>); 4] = [
        |bytes| bytes.truncate(5_000),
        |bytes| bytes.clear(),
        |bytes| bytes[..100].fill(0xff),
        |bytes| bytes[4096..].fill(0xa5),
    ];
    for (at, damage) in damages.iter().enumerate() {
        let mut rng = rng("damaged proofs");
        // In memory, where a sync waits for no disk: the copy is to be interrupted in time.
        let world = World::at(Scratch::in_memory_for(700 << 20), &mut rng);
        world.interrupt(&[], 40 << 20);
        world.interrupt(&[], 60 << 20);
        let tables = tables(&world.copy);
        assert!(!tables.is_empty());
        for table in tables {
            let mut bytes = fs::read(&table).unwrap();
            damage(&mut bytes);
            fs::write(&table, bytes).unwrap();
        }
        let ended = world.run(&[]).expect(0);
        assert!(ended.errors.contains("is damaged"), "damage {at}: {}", ended.errors);
        assert_same(&world.source, &world.target);
        assert_no_leftovers(&world.target);
        world.copy.assert_no_state();
    }
}

/// Promise: what is kept for a resume does not grow with the number of interruptions, where the
/// source stays as it is and is listed in the same order.
#[test]
fn interruptions_do_not_pile_up_state() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    fs::create_dir(&source).unwrap();
    for at in 0..2_000 {
        fs::write(source.join(format!("small{at}")), vec![at as u8; 2_000]).unwrap();
    }
    fs::write(source.join("large"), vec![7; 70 * MIB]).unwrap();
    let copy = Copy::new(base.path());
    let world = World { _base: base, source, target, copy };
    let slowly = ["--bwlimit", "2MiB/s"];
    let mut sizes = Vec::new();
    for _ in 0..10 {
        let mut run = Run::spawn(&mut world.command(&slowly));
        let begun = run.wait_for(|line| figure(line, "bytes_verified") > 0);
        assert!(begun.is_some_and(|line| line["type"] != "summary"), "it ended before");
        run.kill();
        sizes.push(bytes_below(&journal(&world.copy)));
    }
    println!("{sizes:?} bytes of journal");
    assert!(sizes[9] < sizes[2] + sizes[2] / 2, "{sizes:?}");
    world.run(&[]).expect(0);
    assert_same(&world.source, &world.target);
    assert_no_leftovers(&world.target);
    world.copy.assert_no_state();
}
