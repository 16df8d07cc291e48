//! Soaks: rounds are repeated, things break and are mended, the soak is killed, and nothing is
//! lost.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use penstock_testkit::{Run, Scratch, Site, Wait, free_port, program, told};
use rustix::process::Signal;
use serde_json::Value;

/// A site whose daemon a script starts and kills, as a unit would.
pub(crate) struct Unit {
    pub(crate) site: Site,
    /// The file with the number of its process.
    pub(crate) process: PathBuf,
}

impl Unit {
    /// Makes the site `b` below `root`, and starts its daemon.
    pub(crate) fn start(root: &Path) -> Self {
        let site = Site::at_port(root, "b", &root.join("store-b"));
        let unit = Self { site, process: root.join("b.pid") };
        let started = Command::new("sh").arg("-c").arg(unit.script()).status().unwrap();
        assert!(started.success());
        unit
    }

    /// Starts the daemon unless it answers, and waits until it does: it may run twice, as where a
    /// soak was killed between its notice of a fault and the fault.
    pub(crate) fn script(&self) -> String {
        let (program, directory) = (program(), self.site.dir.display());
        let process = self.process.display();
        let answers = format!("{program} site status --dir {directory} > /dev/null 2>&1");
        format!(
            "{answers} && exit 0; \
             {program} daemon --dir {directory} > {process}.log 2>&1 & echo $! > {process}; \
             for look in $(seq 300); do {answers} && exit 0; sleep 0.1; done; exit 1"
        )
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        if let Ok(text) = fs::read_to_string(&self.process) {
            // It may be killed already.
            let _ = Command::new("kill").args(["-9", text.trim()]).status();
            let _ = fs::remove_file(&self.process);
        }
    }
}

/// Makes the site `a` with a generated data set of 512 MiB, paired with `b`.
fn source(root: &Path, b: &Site) -> Site {
    let listen = format!("127.0.0.1:{}", free_port());
    let options = ["--listen", &listen, "--store", "mem=mem:files=16,size=32M,dirs=4"];
    let mut a = Site::create(root, "a", &root.join("store-a"), &options);
    a.start();
    a.pair(b);
    a
}

fn soak(b: &Site, root: &Path, until: &str, more: &[&str]) -> Command {
    let out = root.join("soak");
    let faults = root.join("faults.toml");
    let (out, faults) = (out.to_str().unwrap(), faults.to_str().unwrap());
    let fixed = ["soak", "a:mem", "b:data", "--until", until, "--out", out, "--every", "1s"];
    b.command(&[&fixed[..], &["--faults", faults, "--json"], more].concat())
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// The directories of soaks in a store.
fn own_directories(store: &Path) -> usize {
    own_names(store).len()
}

/// The directory of the only soak in a store.
fn own_place(store: &Path) -> String {
    let names = own_names(store);
    assert_eq!(names.len(), 1, "{names:?}");
    names[0].clone()
}

fn own_names(store: &Path) -> Vec<String> {
    let names = fs::read_dir(store).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    names.filter(|name| name.starts_with("penstock-soak-")).collect()
}

/// Promise: a soak outlives kills of the target's daemon and of itself. The fault that it has left
/// open is undone by the next start, which continues with what was counted; damage at rest is
/// found; every round is proved; the target store holds nothing of it at the end.
#[test]
fn a_soak_outlives_faults_and_its_own_death() {
    let root = Scratch::in_memory();
    let unit = Unit::start(root.path());
    let a = source(root.path(), &unit.site);
    let (killed, store) = (unit.process.display(), unit.site.store.display());
    let flip = format!(
        "printf '\\377\\377' | dd conv=notrunc bs=1 seek=4096 \
         of=$(find {store}/$PENSTOCK_SOAK_TARGET -type f | sort | head -n 1)"
    );
    let faults = format!(
        "[kill]\nrun = \"kill -9 $(cat {killed})\"\nheal = '''{}'''\nfor = 3\n\
         [freeze]\nrun = 'kill -STOP {a}'\nheal = 'kill -CONT {a}'\nfor = 1\n\
         [flip]\nrun = '''{flip}'''\nat_rest = true\n",
        unit.script(),
        a = a.process(),
    );
    fs::write(root.path().join("faults.toml"), faults).unwrap();
    let out = root.path().join("soak");
    // Nobody is there to be asked.
    let asked = soak(&unit.site, root.path(), "1-round", &[]).output().unwrap();
    assert_eq!(asked.status.code(), Some(2), "{}", told(&asked));
    let mut run = Run::spawn(&mut soak(&unit.site, root.path(), "1000-rounds", &["--yes"]));
    let is = |kind: &'static str, name: &'static str| {
        move |line: &Value| line["type"] == kind && line["name"] == name
    };
    run.until(is("fault", "freeze"));
    run.until(is("fault-begins", "kill"));
    run.kill();
    assert_eq!(json(&out.join("open-faults.json"))["name"], "kill");
    let rounds = || fs::read_to_string(out.join("rounds.jsonl")).unwrap_or_default();
    let shown = unit.site.run(&["soak", "--show", out.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("nothing was lost so far"));
    assert!(String::from_utf8_lossy(&shown.stderr).contains("is open now"));
    // An end that is not reached is no success.
    assert_eq!(shown.status.code(), Some(5), "{}", told(&shown));

    // A fault that damages has to come, whatever the seed.
    let mut flips = fs::read_to_string(out.join("faults.jsonl")).unwrap().contains("flip");
    let mut run = Run::spawn(&mut soak(&unit.site, root.path(), "1000-rounds", &["--yes"]));
    while !flips {
        flips = run.until(|line| line["type"] == "fault")["name"] == "flip";
    }
    run.until(|line| line["type"] == "round");
    run.signal(Signal::INT);
    run.end().expect(130);
    assert_eq!(json(&out.join("open-faults.json")), Value::Null);
    let until = format!("{}-rounds", rounds().lines().count() + 1);
    let ended = Run::spawn(&mut soak(&unit.site, root.path(), &until, &["--yes"])).end().expect(0);
    assert!(ended.seen.iter().any(|(_, line)| line["type"] == "round"));

    let proof = json(&out.join("proof.json"));
    assert_eq!((&proof["is_good"], &proof["is_complete"]), (&true.into(), &true.into()), "{proof}");
    let all: Vec<Value> =
        rounds().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for (at, round) in all.iter().enumerate() {
        assert_eq!((&round["round"], &round["bytes"]), (&(at + 1).into(), &(512 << 20).into()));
        assert_eq!(round["root_digest"], all[0]["root_digest"]);
    }
    assert_eq!(proof["bytes"], all.len() << 29);
    assert!(proof["damages_found"].as_u64().unwrap() >= 1, "{proof}");
    let faults = proof["faults"].as_array().unwrap();
    let freeze = faults.iter().find(|fault| fault["name"] == "freeze").unwrap();
    assert!(freeze["survived"].as_u64().unwrap() >= 1, "{proof}");
    assert_eq!(own_directories(&unit.site.store), 0);
    let page = unit.site.ok(&["soak", "--show", out.to_str().unwrap()]);
    assert!(page.contains(": nothing was lost") && page.contains("| kill |"), "{page}");
}

/// Promise: damage that a comparison should have found and did not is a failure, and so says the
/// exit code; without faults nothing is injected.
#[test]
fn damage_that_is_not_found_fails_the_soak() {
    let root = Scratch::in_memory();
    let mut b = Site::at_port(root.path(), "b", &root.path().join("store-b"));
    b.start();
    let _a = source(root.path(), &b);
    fs::write(root.path().join("faults.toml"), "[claim]\nrun = 'true'\nat_rest = true\n").unwrap();
    let mut run = Run::spawn(&mut soak(&b, root.path(), "1000-rounds", &["--yes"]));
    run.until(|line| line["type"] == "round" && line["is_good"] == false);
    run.signal(Signal::INT);
    run.end().expect(130);
    let out = root.path().join("soak");
    let page = b.fails(3, &["soak", "--show", out.to_str().unwrap()]);
    assert_eq!(page, "");
    // A command that fails may have damaged something or not: that is looked at, and told.
    fs::remove_dir_all(&out).unwrap();
    fs::write(root.path().join("faults.toml"), "[fails]\nrun = 'exit 5'\nat_rest = true\n")
        .unwrap();
    let mut run = Run::spawn(&mut soak(&b, root.path(), "1000-rounds", &["--yes"]));
    let round = run.until(|line| line["type"] == "round" && !line["compared"].is_null());
    assert_eq!((&round["is_good"], &round["compared"]["files"]), (&true.into(), &0.into()));
    run.signal(Signal::INT);
    run.end().expect(130);
    let shown = b.run(&["soak", "--show", out.to_str().unwrap()]);
    let page = String::from_utf8_lossy(&shown.stdout);
    assert!(page.contains("`fails`: its command ended with"), "{page}");
    let calm = root.path().join("calm");
    let calm = calm.to_str().unwrap();
    let args = ["soak", "a:mem", "b:data", "--until", "2-rounds", "--out", calm, "--compare"];
    let page = b.ok(&args);
    assert!(page.contains("No fault was injected") && page.contains("2 of 2 good"), "{page}");
    assert!(page.contains("compared again at rest | 2 times"), "{page}");
    Wait::new("the last directory is removed").is(|| own_directories(&b.store) == 2);
}

/// Promise: a soak whose source or target cannot do is refused with what to do before anything is
/// made, and so is an option that makes no sense.
#[test]
fn hopeless_soaks_are_refused_at_once() {
    let root = Scratch::in_memory();
    let mut b = Site::at_port(root.path(), "b", &root.path().join("store-b"));
    b.start();
    let a = source(root.path(), &b);
    for directory in ["set", "empty", "to"] {
        fs::create_dir(b.store.join(directory)).unwrap();
    }
    fs::write(b.store.join("set/file"), "x").unwrap();
    let path = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("file"), "").unwrap();
    fs::write(path("wrong.toml"), "[cut]\nrun = 'true'\nheel = 'true'\n").unwrap();
    let out = path("out");
    let refused = |code: i32, (from, to): (&str, &str), more: &[&str], words: &str| {
        let said = b.fails(code, &[&["soak", from, to], more].concat());
        assert!(said.contains(words), "{from} {to} {more:?}: {said}");
    };
    let usual = ["--until", "1-round", "--out", &out];
    for (code, from, to, words) in [
        (4, "b:data/nope", "b:data/to", "the source `b:data/nope` does not exist"),
        (4, "b:data/nope/", "b:data/to", "penstock store ls b:data/"),
        (2, "b:data/empty", "b:data/to", "the source `b:data/empty` is empty"),
        (2, "b:data/set", "b:data/nope", "`penstock store mkdir b:data/nope`"),
        (2, "b:data/set", "b:data/set", "within the source"),
        (2, "b:data/set", "b:data/set/file", "cannot be used"),
        (2, "b:data/set", "b:typo/x", "has no store `typo`"),
        (2, "b:typo/x", "b:data/to", "has no store `typo`"),
        (2, "b:data/set", "a:mem", "ask a daemon of site `a`"),
        (12, "a:typo/x", "b:data/to", "use no store `typo`"),
        (12, "c:data/x", "b:data/to", "not paired with site `c`"),
        (4, "a:mem/nope", "b:data/to", "does not exist"),
    ] {
        refused(code, (from, to), &usual, words);
    }
    let sound = ("b:data/set", "b:data/to");
    let (file, store, wrong) = (path("file"), path("store-b"), path("wrong.toml"));
    for (code, more, words) in [
        (2, &["--until", "10", "--out", &out][..], "no unit"),
        (2, &["--until", "0s", "--out", &out], "reached at once"),
        (2, &["--until", "1-round", "--out", &file], "not a directory"),
        (6, &["--until", "1-round", "--out", &store], "not empty"),
        (2, &["--until", "1-round", "--out", &out, "--every", "0s"], "1s or more"),
        (2, &["--until", "1-round", "--out", &out, "--faults", &wrong], "heel"),
        (5, &["--until", "1-round", "--out", &out, "--watch", &file], "daemon"),
    ] {
        refused(code, sound, more, words);
    }
    refused(2, sound, &["--until", "1-round"], "--out");
    let said = b.fails(2, &["soak", "--show", &file]);
    assert!(said.contains("has no soak"), "{said}");
    assert!(!Path::new(&out).exists(), "a refused soak makes nothing");
    assert_eq!((own_directories(&b.store.join("to")), b.list().len()), (0, 0));
    drop(a);
    // A file is a source as well.
    b.ok(&["soak", "b:data/set/file", "b:data/to", "--until", "1-round", "--out", &out]);
}

/// Promise: a source that changes is told by its root digest, and three rounds in a row without
/// success end the soak.
#[test]
fn a_source_that_changes_ends_the_soak() {
    let root = Scratch::in_memory();
    let mut b = Site::at_port(root.path(), "b", &root.path().join("store-b"));
    b.start();
    for directory in ["set", "to"] {
        fs::create_dir(b.store.join(directory)).unwrap();
    }
    fs::write(b.store.join("set/file"), "before").unwrap();
    let out = root.path().join("soak");
    let shown = out.to_str().unwrap();
    let args =
        ["soak", "b:data/set", "b:data/to", "--until", "1000-rounds", "--out", shown, "--json"];
    let mut run = Run::spawn(&mut b.command(&args));
    run.until(|line| line["type"] == "round" && line["is_good"] == true);
    fs::write(b.store.join("set/file"), "changed").unwrap();
    let ended = run.end().expect(3);
    assert!(ended.errors.contains("3 rounds in a row were no success"), "{}", ended.errors);
    let place = own_place(&b.store.join("to"));
    let hint = format!("`penstock soak --clean {shown}` removes `b:data/to/{place}`");
    assert!(ended.errors.contains(&hint), "{}", ended.errors);
    let rounds: Vec<&Value> = ended.seen.iter().map(|(_, line)| line).collect();
    let last: Vec<bool> = rounds.iter().rev().take(4).map(|it| it["is_good"] == true).collect();
    assert_eq!(last, [false, false, false, true], "{rounds:?}");
    let shown = b.run(&["soak", "--show", shown]);
    let page = String::from_utf8_lossy(&shown.stdout);
    assert_eq!(shown.status.code(), Some(3), "{page}");
    assert!(page.contains("root digest is not that of the first good round"), "{page}");
    assert!(page.contains(&format!("`b:data/to/{place}` holds data of the soak")), "{page}");
    assert!(page.contains(&format!("`penstock soak --clean {}`", out.display())), "{page}");
    b.ok(&["soak", "--clean", out.to_str().unwrap()]);
    assert_eq!(own_directories(&b.store.join("to")), 0);
    let shown = b.run(&["soak", "--show", out.to_str().unwrap()]);
    assert!(!String::from_utf8_lossy(&shown.stdout).contains("--clean"), "{}", told(&shown));
}

/// Promise: a fault that cannot be undone is tried five times; then no further one is injected, and
/// the result has it. A start that finds such a fault left open is refused, and says what to do.
#[test]
fn a_fault_that_cannot_be_undone_is_told() {
    let root = Scratch::in_memory();
    let mut b = Site::at_port(root.path(), "b", &root.path().join("store-b"));
    b.start();
    let _a = source(root.path(), &b);
    let stuck = "[stuck]\nrun = 'true'\nheal = 'exit 7'\nfor = 0\n";
    fs::write(root.path().join("faults.toml"), stuck).unwrap();
    let mut run = Run::spawn(&mut soak(&b, root.path(), "1000-rounds", &["--yes"]));
    let fault = run.until(|line| line["type"] == "fault");
    let problem = fault["problem"].as_str().unwrap();
    assert!(problem.contains("is not undone") && problem.contains("exit status: 7"), "{fault}");
    run.until(|line| line["type"] == "round");
    run.signal(Signal::INT);
    let ended = run.end().expect(130);
    assert!(ended.errors.contains("no further fault is injected"), "{}", ended.errors);
    let begun = ended.seen.iter().filter(|(_, line)| line["type"] == "fault-begins");
    assert_eq!(begun.count(), 1);
    let out = root.path().join("soak");
    let log = fs::read_to_string(out.join("commands.log")).unwrap();
    assert_eq!(log.matches("$ exit 7").count(), 5, "{log}");
    let shown = b.run(&["soak", "--show", out.to_str().unwrap()]);
    assert_eq!(shown.status.code(), Some(3), "{}", told(&shown));
    assert!(String::from_utf8_lossy(&shown.stdout).contains("`stuck`, is not undone"));
    let again = soak(&b, root.path(), "1000-rounds", &["--yes"]).output().unwrap();
    assert_eq!(again.status.code(), Some(6), "{}", told(&again));
    let said = String::from_utf8_lossy(&again.stderr);
    assert!(said.contains("undo it by hand, and remove `open-faults.json`"), "{said}");
}

/// Makes the site `b` with a small data set in its store, which its soaks move within the store.
fn small(root: &Path) -> Site {
    let mut b = Site::at_port(root, "b", &root.join("store-b"));
    b.start();
    for directory in ["set", "to"] {
        fs::create_dir(b.store.join(directory)).unwrap();
    }
    fs::write(b.store.join("set/file"), "bytes").unwrap();
    b
}

/// A soak of that data set.
fn small_soak(b: &Site, out: &Path, until: &str, more: &[&str]) -> Command {
    let out = out.to_str().unwrap();
    let fixed = ["soak", "b:data/set", "b:data/to", "--until", until, "--out", out, "--json"];
    b.command(&[&fixed[..], more].concat())
}

fn is_good_round(line: &Value) -> bool {
    line["type"] == "round" && line["is_good"] == true
}

/// Promise: a transfer that waits is reported once with the reason, and once when it moves again. A
/// wait that lasts too long fails the round, and at an emptying the soak, instead of lasting for
/// ever.
#[test]
fn a_soak_that_waits_says_so_and_ends() {
    let root = Scratch::in_memory();
    let b = small(root.path());
    let out = root.path().join("soak");
    let mut run = Run::spawn(&mut small_soak(&b, &out, "1000-rounds", &[]));
    run.until(is_good_round);
    b.ok(&["queue", "hold", "stop", "--store", "data", "--reason", "new disks"]);
    let waits = run.until(|line| line["type"] == "waits");
    let reason = waits["reason"].as_str().unwrap();
    assert!(reason.contains("the end of a hold") && reason.contains("new disks"), "{waits}");
    b.ok(&["queue", "release", "stop"]);
    let moves = run.until(|line| line["type"] == "waits" || line["type"] == "moves");
    assert_eq!((&moves["type"], &moves["transfer"]), (&"moves".into(), &waits["transfer"]));
    run.until(is_good_round);
    run.signal(Signal::INT);
    run.end().expect(130);
    assert_eq!(json(&out.join("soak.json"))["stall_seconds"], 900);

    // A round that is held for too long fails, and so does the emptying after it.
    let held = root.path().join("held");
    b.ok(&["queue", "hold", "stop", "--store", "data"]);
    let ended = Run::spawn(&mut small_soak(&b, &held, "9-rounds", &["--stall", "4s"])).end();
    let ended = ended.expect(3);
    let said = "cannot be emptied: nothing has moved for 12 s: the transfer waits for the end of";
    assert!(ended.errors.contains(said), "{}", ended.errors);
    let rounds: Vec<&Value> =
        ended.seen.iter().map(|(_, line)| line).filter(|line| line["type"] == "round").collect();
    assert_eq!((rounds.len(), &rounds[0]["is_good"]), (1, &false.into()), "{rounds:?}");
    let failure = rounds[0]["failures"][0].as_str().unwrap();
    assert!(failure.contains("stalls and is cancelled: nothing has moved for 4 s"), "{failure}");
    let id = rounds[0]["transfer"].as_str().unwrap();
    assert_eq!(b.show(id)["state"], "cancelled");
    b.ok(&["queue", "release", "stop"]);
    // The value is kept, and the same command continues.
    let ended = Run::spawn(&mut small_soak(&b, &held, "3-rounds", &[])).end().expect(3);
    assert_eq!(ended.seen.iter().filter(|(_, line)| is_good_round(line)).count(), 2);
    assert_eq!(json(&held.join("soak.json"))["stall_seconds"], 4);
    assert!(own_directories(&b.store.join("to")) == 1, "that of the first soak");
}

/// Promise: a far site that dies ends the soak after three rounds, while one that a fault keeps
/// away for longer than a round may stall ends nothing: time in which a fault is open does not
/// count.
#[test]
fn a_dead_site_ends_the_soak() {
    let root = Scratch::in_memory();
    let mut b = Site::at_port(root.path(), "b", &root.path().join("store-b"));
    b.start();
    let mut a = source(root.path(), &b);
    let process = a.process();
    let faults = format!(
        "[freeze]\nrun = '[ $PENSTOCK_SOAK_FAULT = 1 ] && kill -STOP {process}'\n\
         heal = 'kill -CONT {process} || true'\nfor = 14\n"
    );
    let file = root.path().join("faults.toml");
    fs::write(&file, faults).unwrap();
    let out = root.path().join("soak");
    let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
    let fixed = ["soak", "a:mem", "b:data", "--until", "1000-rounds", "--out", out, "--json"];
    let more = ["--faults", file, "--every", "4s", "--stall", "10s", "--yes"];
    let mut run = Run::spawn(&mut b.command(&[&fixed[..], &more[..]].concat()));
    let fault = run.until(|line| line["type"] == "fault");
    assert!(fault["open_seconds"].as_f64().unwrap() >= 14.0, "{fault}");
    // Its round may have ended before the end of the fault was told.
    let is_later = |line: &Value| line["round"].as_u64() >= fault["round"].as_u64();
    let round = run.until(|line| line["type"] == "round" && is_later(line));
    assert_eq!(round["is_good"], true, "{round}");
    a.kill();
    let ended = run.end().expect(3);
    assert!(ended.errors.contains("3 rounds in a row were no success"), "{}", ended.errors);
    let is_bad = |line: &&Value| line["type"] == "round" && line["is_good"] == false;
    let bad: Vec<&Value> = ended.seen.iter().map(|(_, line)| line).filter(is_bad).collect();
    assert_eq!(bad.len(), 3, "{bad:?}");
    for round in bad {
        let failure = round["failures"][0].as_str().unwrap();
        assert!(failure.contains("nothing has moved for 10 s"), "{round}");
    }
    assert!(ended.seen.iter().any(|(_, line)| line["type"] == "waits"), "{:?}", ended.seen);
}

/// Promise: what a soak has left in the target store after an interruption or a kill is named with
/// the command that removes it. That command also undoes the fault that is open, and the soak can
/// still be continued to a good end.
#[test]
fn a_soak_that_is_not_continued_is_cleaned() {
    let root = Scratch::in_memory();
    let mut b = Site::at_port(root.path(), "b", &root.path().join("store-b"));
    b.start();
    let _a = source(root.path(), &b);
    let mark = root.path().join("mark");
    let shown = mark.display();
    let faults = format!("[mark]\nrun = 'touch {shown}'\nheal = 'rm -f {shown}'\nfor = 600\n");
    fs::write(root.path().join("faults.toml"), faults).unwrap();
    let out = root.path().join("soak");
    let clean = ["soak", "--clean", out.to_str().unwrap()];
    assert!(b.fails(2, &clean).contains("has no soak"));
    let mut run = Run::spawn(&mut soak(&b, root.path(), "1000-rounds", &["--yes"]));
    run.until(|line| line["type"] == "fault-begins");
    Wait::new("the fault").is(|| mark.exists());
    assert!(b.fails(6, &clean).contains("another soak works"));
    run.kill();
    let place = own_place(&b.store);
    let said = b.ok(&clean);
    assert!(said.contains("left nothing in `b:data/`"), "{said}");
    assert_eq!((own_directories(&b.store), mark.exists()), (0, false));
    assert_eq!(json(&out.join("open-faults.json")), Value::Null);
    let all = b.list();
    let has_ended = |it: &Value| it["state"] == "done" || it["state"] == "cancelled";
    assert!(all.iter().all(has_ended), "{all:?}");
    assert!(b.ok(&clean).contains("left nothing"), "it may be repeated");

    // A soak that was cleaned continues with new transfers.
    let counted = fs::read_to_string(out.join("rounds.jsonl")).unwrap_or_default().lines().count();
    let until = format!("{}-rounds", counted + 2);
    let fixed = ["soak", "a:mem", "b:data", "--out", out.to_str().unwrap(), "--json", "--until"];
    let again = [&fixed[..], &[&until]].concat();
    let mut run = Run::spawn(&mut b.command(&again));
    run.until(is_good_round);
    run.signal(Signal::INT);
    let ended = run.end().expect(130);
    let hint = format!("`penstock soak --clean {}` removes `b:data/{place}`", out.display());
    assert!(ended.errors.contains(&hint), "{}", ended.errors);
    Run::spawn(&mut b.command(&again)).end().expect(0);
    b.ok(&["soak", "--show", out.to_str().unwrap()]);
    assert_eq!(own_directories(&b.store), 0);
}

/// Promise: a soak that compares after each round does so after a start without `--compare` too.
#[test]
fn a_soak_keeps_comparing() {
    let root = Scratch::in_memory();
    let b = small(root.path());
    let out = root.path().join("soak");
    let mut run = Run::spawn(&mut small_soak(&b, &out, "1000-rounds", &["--compare"]));
    run.until(is_good_round);
    run.signal(Signal::INT);
    run.end().expect(130);
    let text = fs::read_to_string(out.join("rounds.jsonl")).unwrap();
    let until = format!("{}-rounds", text.lines().count() + 2);
    let ended = Run::spawn(&mut small_soak(&b, &out, &until, &[])).end().expect(0);
    let rounds: Vec<&Value> =
        ended.seen.iter().map(|(_, line)| line).filter(|line| is_good_round(line)).collect();
    assert!(rounds.len() >= 2 && rounds.iter().all(|it| !it["compared"].is_null()), "{rounds:?}");
    assert!(ended.errors.contains("compares as before"), "{}", ended.errors);
}
