//! Sweeps: real daemons move the data sets of a matrix, cell by cell, whatever breaks.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::chown;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

use penstock_testkit::{
    Scratch, Site, Wait, files_below, is_root, program_of_others, signal, told,
};
use rustix::process::Signal;
use serde_json::Value;

use super::accounts::{NOT_AUTHORISED, set_mode};

/// Two data sets in two modes, twice: eight cells.
const MATRIX: &str = r#"
source = "lab:data/eval"
target = "hpc:data/eval"
datasets = ["40x4KiB", "3x1MiB"]
repeats = 2
warmup = 0
cool_down_s = 0
seed = 7
verify = "all"

[modes]
encryption = ["tls", "off"]
"#;

/// One cell: a data set in one mode, once.
fn one_cell(lab: &Site) -> String {
    let cell = MATRIX.replace("\"40x4KiB\", ", "").replace(", \"off\"", "");
    let cell = cell.replace("repeats = 2", "repeats = 1");
    format!("{cell}[daemons]\nlab = \"{}\"\n", lab.dir.display())
}

/// Starts two sites with the directories of the matrix.
fn sites(root: &Path) -> (Site, Site) {
    let mut hpc = Site::init(root, "hpc", None);
    hpc.start();
    let lab = hpc.paired_lab(root);
    for site in [&hpc, &lab] {
        fs::create_dir(site.store.join("eval")).unwrap();
    }
    (hpc, lab)
}

/// Starts a command, and returns its standard error too.
fn start_told(command: &mut Command) -> (Child, BufReader<ChildStderr>) {
    let mut child = start(command.stderr(Stdio::piped()));
    let errors = BufReader::new(child.stderr.take().unwrap());
    (child, errors)
}

/// Reads lines until one has some words.
fn until_told(errors: &mut BufReader<ChildStderr>, words: &str) {
    let mut text = String::new();
    while !text.contains(words) {
        assert_ne!(errors.read_line(&mut text).unwrap(), 0, "no `{words}`: {text}");
    }
}

/// Returns the rest of what a process says, and its exit code.
fn ended((mut child, mut errors): (Child, BufReader<ChildStderr>)) -> (String, Option<i32>) {
    let mut text = String::new();
    errors.read_to_string(&mut text).unwrap();
    (text, child.wait().unwrap().code())
}

fn cells(out: &Path) -> Vec<Value> {
    lines(&out.join("cells.jsonl"))
}

fn lines(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    // The last line may still be written.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn read(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// Returns the names of a directory that a sweep has made.
fn left(site: &Site) -> Vec<String> {
    let names = fs::read_dir(site.store.join("eval")).unwrap();
    names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Returns the transfers of sweeps that have not ended.
fn open(site: &Site) -> Vec<Value> {
    let is_open = |transfer: &Value| {
        let state = transfer["state"].as_str().unwrap();
        let label = transfer["label"].as_str().unwrap_or_default();
        label.starts_with("sweep ") && !["done", "failed", "cancelled"].contains(&state)
    };
    site.list().into_iter().filter(is_open).collect()
}

fn start(command: &mut Command) -> Child {
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

/// Waits until the hold keeps a transfer of the sweep.
fn until_held(site: &Site) -> Value {
    Wait::new("a transfer that is held").until(|| {
        let open = open(site);
        let held = open.iter().find(|transfer| transfer["state"] == "queued");
        held.map(|transfer| transfer["id"].clone()).ok_or(format!("{open:?}"))
    })
}

/// Promise: a sweep that is killed, and then interrupted, continues with the same command: each
/// cell is there once, right and whole, with the time of all processors of its span; what was
/// running is cancelled; nothing is left in either store. A matrix that has changed is refused.
#[test]
fn a_sweep_survives_kills() {
    let root = Scratch::in_memory();
    let (hpc, lab) = sites(root.path());
    let (matrix, out) = (root.path().join("m.toml"), root.path().join("out"));
    let daemon = format!("[daemons]\nlab = \"{}\"\n", lab.dir.display());
    fs::write(&matrix, format!("{MATRIX}{daemon}")).unwrap();
    let (matrix, shown) = (matrix.to_str().unwrap(), out.to_str().unwrap());
    let args = ["bench", "sweep", matrix, "--out", shown];
    let plan = hpc.ok(&["bench", "sweep", matrix, "--plan"]);
    assert!(plan.contains("8 cells") && plan.contains("3 files, 3.0 MiB"), "{plan}");
    assert!(!out.exists() && left(&lab).is_empty());

    let mut first = start(&mut hpc.command(&args));
    Wait::new("two cells").is(|| cells(&out).len() >= 2);
    hpc.ok(&["queue", "hold", "test", "--store", "data"]);
    let abandoned = until_held(&hpc);
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(left(&hpc).len(), 1, "the sweep has not ended");
    let before = cells(&out);

    let mut second = start(&mut hpc.command(&args));
    Wait::new("another transfer").is(|| {
        let open = open(&hpc);
        !open.is_empty() && open.iter().all(|transfer| transfer["id"] != abandoned)
    });
    let held = until_held(&hpc);
    assert_eq!(hpc.show(abandoned.as_str().unwrap())["state"], "cancelled");
    signal(second.id(), Signal::INT);
    assert_eq!(second.wait().unwrap().code(), Some(130));
    assert_eq!(hpc.show(held.as_str().unwrap())["state"], "cancelled");
    assert_eq!(cells(&out), before, "the cell that was interrupted has no line");
    hpc.ok(&["queue", "release", "test"]);

    let table = hpc.ok(&args);
    check(&out, &table);
    assert!(left(&hpc).is_empty() && left(&lab).is_empty(), "{:?} {:?}", left(&hpc), left(&lab));
    assert_eq!(cells(&out)[..before.len()], before, "what was measured stays");
    assert!(open(&hpc).is_empty());
    assert_eq!(hpc.ok(&["bench", "sweep", "--show", shown]), table);
    assert_eq!(hpc.ok(&args), table, "a sweep that is complete moves nothing more");
    fs::write(matrix, format!("{}{daemon}", MATRIX.replace("repeats = 2", "repeats = 3"))).unwrap();
    let refused = hpc.fails(6, &args);
    assert!(refused.contains("repeats: 2 before, 3 now"), "{refused}");
}

/// Promise: a matrix that cannot be read, a directory that is missing and a place for results that
/// is none are told before anything is made.
#[test]
fn hopeless_sweeps_are_refused_at_once() {
    let root = Scratch::in_memory();
    let mut hpc = Site::init(root.path(), "hpc", None);
    hpc.start();
    let lab = hpc.paired_lab(root.path());
    fs::create_dir(lab.store.join("eval")).unwrap();
    let (matrix, out) = (root.path().join("m.toml"), root.path().join("out"));
    let (file, shown) = (matrix.to_str().unwrap(), out.to_str().unwrap());
    let refused = |text: &[u8], out: &str, words: &[&str]| {
        fs::write(&matrix, text).unwrap();
        let said = hpc.fails(2, &["bench", "sweep", file, "--out", out]);
        assert!(words.iter().all(|words| said.contains(words)), "{words:?}: {said}");
    };
    refused(&[MATRIX.as_bytes(), b"# \xff\n"].concat(), shown, &["not UTF-8", "line 13"]);
    let missing = ["the directory of `target`", "`penstock store mkdir hpc:data/eval`"];
    refused(MATRIX.as_bytes(), shown, &missing);
    fs::create_dir(hpc.store.join("eval")).unwrap();
    let existing = MATRIX.replace("\"3x1MiB\"", "\"dir:nope\"");
    let missing = ["data set `dir:nope`", "`lab:data/nope`, does not exist"];
    refused(existing.as_bytes(), shown, &missing);
    fs::create_dir(lab.store.join("nope")).unwrap();
    refused(existing.as_bytes(), shown, &["data set `dir:nope` has no file"]);
    refused(MATRIX.as_bytes(), file, &["is not a directory", "--out"]);
    let said = hpc.fails(2, &["bench", "sweep", "--show", shown]);
    assert!(said.contains("has no sweep"), "{said}");
    assert!(!out.exists() && left(&lab).is_empty() && left(&hpc).is_empty());
}

/// Promise: a sweep measures both stores before and after its cells, with the sizes that the matrix
/// gives, and without its own copies; the results are in the run directory, and nothing is left in
/// either store. It waits for a transfer that uses a store and ends soon.
#[test]
fn a_sweep_measures_both_stores() {
    let root = Scratch::in_memory();
    let (hpc, lab) = sites(root.path());
    let (matrix, out) = (root.path().join("m.toml"), root.path().join("out"));
    let cells = MATRIX.replace("\"40x4KiB\", ", "").replace(", \"off\"", "");
    let measured = format!(
        "{cells}[storage]\nmeasure = true\nsizes = \"8KiB\"\nseconds = 1\nrepeats = 1\n\
         [daemons]\nlab = \"{}\"\n",
        lab.dir.display()
    );
    fs::write(&matrix, measured).unwrap();
    let args = ["bench", "sweep", matrix.to_str().unwrap(), "--out", out.to_str().unwrap()];
    // The source is measured first.
    fs::write(lab.store.join("other"), vec![7; 6 << 20]).unwrap();
    let slow = ["--bwlimit=1MiB/s", "--piece-size=1M"];
    let other = lab.submit(&[&["lab:data/other", "lab:data/others/"], &slow[..]].concat());
    Wait::new("the other transfer runs").is(|| lab.show(&other)["state"] == "running");
    let mut sweep = start(&mut hpc.command(&args));
    // The target is measured after the source, for some seconds.
    Wait::new("the last benchmark").is(|| out.join("storage/lab-data.after.json").exists());
    let own = left(&hpc).pop().expect("the sweep has a directory in the target");
    let copies = fs::read_dir(hpc.store.join("eval").join(own).join("run")).unwrap();
    assert_eq!(copies.count(), 0, "a copy takes the room that the benchmark needs");
    assert_eq!(sweep.wait().unwrap().code(), Some(0));
    for name in ["lab-data.before", "hpc-data.before", "lab-data.after", "hpc-data.after"] {
        let result = read(&out.join(format!("storage/{name}.json")));
        assert_eq!((&result["state"], &result["with_load"]), (&"done".into(), &false.into()));
        let points = result["points"].as_array().unwrap();
        let sizes = points.iter().filter_map(|point| point["size_bytes"].as_u64());
        let sizes: Vec<u64> = sizes.filter(|size| *size > 0).collect();
        assert_eq!(sizes, [8192, 8192], "written and read: {result}");
    }
    assert_eq!(fs::read_to_string(out.join("cells.jsonl")).unwrap().lines().count(), 2);
    assert!(left(&hpc).is_empty() && left(&lab).is_empty(), "{:?} {:?}", left(&hpc), left(&lab));
    let last = out.join("storage/hpc-data.after.json");
    let measured = read(&last);
    hpc.ok(&args);
    assert_eq!(read(&last), measured, "a sweep that is complete measures nothing more");
}

/// Promise: a transfer that makes no progress is cancelled after `stall_s`; the line of its cell
/// and the terminal have the reason. `--retry-failed` runs the cell again, also where the daemon
/// answers later, and the record has both lines.
#[test]
fn a_stalled_cell_fails_and_is_run_again() {
    let root = Scratch::in_memory();
    let (mut hpc, lab) = sites(root.path());
    let (matrix, out) = (root.path().join("m.toml"), root.path().join("out"));
    fs::write(&matrix, format!("stall_s = 5\n{}", one_cell(&lab))).unwrap();
    let args = ["bench", "sweep", matrix.to_str().unwrap(), "--out", out.to_str().unwrap()];
    hpc.ok(&["queue", "hold", "test", "--store", "data"]);
    let said = hpc.fails(3, &args);
    let held = "held by the rule `test` of an operator";
    assert!(said.contains(&format!("makes no progress: {held}")), "{said}");
    assert!(said.contains("the same command with `--retry-failed`"), "{said}");
    let failed = cells(&out);
    assert_eq!(failed.len(), 1);
    let error = failed[0]["error"]["text"].as_str().unwrap();
    assert!(error.contains(&format!("no progress for 5 s: {held}")), "{error}");
    assert!(open(&hpc).is_empty() && left(&hpc).is_empty() && left(&lab).is_empty());
    assert_eq!(hpc.show(failed[0]["transfer"].as_str().unwrap())["state"], "cancelled");

    hpc.ok(&["queue", "release", "test"]);
    assert!(hpc.fails(3, &args).contains("1 of 1 cells are done"), "it is not run again unasked");
    hpc.kill();
    let again = [&args[..], &["--retry-failed"]].concat();
    let mut sweep = start_told(&mut hpc.command(&again));
    until_told(&mut sweep.1, "waiting for 600 s at most");
    hpc.start();
    let (said, code) = ended(sweep);
    assert!(code == Some(0) && said.contains("1 failed cell to run again"), "{said}");
    let [cell] = &cells(&out)[..] else { panic!("one line for one cell") };
    assert!(cell["error"].is_null() && cell["id"] == failed[0]["id"], "{cell}");
    assert!(cell["flags"][0].as_str().unwrap().starts_with("retried"), "{cell}");
    assert_eq!(lines(&out.join("retried.jsonl")), failed);
    assert!(hpc.ok(&["bench", "sweep", "--show", args[4]]).contains(" failed before: "));
    assert!(left(&hpc).is_empty() && left(&lab).is_empty());
}

/// Promise: an interrupted sweep, and one that is refused, name what they have left in the stores
/// and the command that removes it. The command removes all of it, also after a kill, and also if a
/// data set has changed; the results stay.
#[test]
fn an_abandoned_sweep_is_removed() {
    let root = Scratch::in_memory();
    let (hpc, lab) = sites(root.path());
    fs::create_dir(lab.store.join("set")).unwrap();
    fs::write(lab.store.join("set/one"), "1").unwrap();
    let (matrix, out) = (root.path().join("m.toml"), root.path().join("out"));
    let text = one_cell(&lab).replace("[\"3x1MiB\"]", "[\"3x1MiB\", \"dir:set\"]");
    fs::write(&matrix, &text).unwrap();
    let shown = out.to_str().unwrap();
    let args = ["bench", "sweep", matrix.to_str().unwrap(), "--out", shown];
    let clean = ["bench", "sweep", "--clean", shown];
    assert!(hpc.fails(2, &clean).contains("has no sweep"));
    hpc.ok(&["queue", "hold", "test", "--store", "data"]);
    let sweep = start_told(&mut hpc.command(&args));
    until_held(&hpc);
    signal(sweep.0.id(), Signal::INT);
    let (said, code) = ended(sweep);
    let id = read(&out.join("run.json"))["id"].as_str().unwrap().to_owned();
    let places = ["lab", "hpc"].map(|site| format!("{site}:data/eval/.penstock-sweep-{id}"));
    let names = |said: &str| {
        let command = format!("`penstock bench sweep --clean {shown}` removes");
        let is_named = said.contains(&command) && places.iter().all(|place| said.contains(place));
        assert!(is_named, "{said}");
    };
    assert_eq!(code, Some(130), "{said}");
    names(&said);

    let mut killed = start(&mut hpc.command(&args));
    let held = until_held(&hpc);
    killed.kill().unwrap();
    killed.wait().unwrap();
    fs::write(&matrix, format!("warmup = 1\n{}", text.replace("warmup = 0\n", ""))).unwrap();
    let said = hpc.fails(6, &args);
    assert!(said.contains("another matrix"), "{said}");
    names(&said);
    fs::write(&matrix, &text).unwrap();
    fs::write(lab.store.join("set/two"), "2").unwrap();
    let said = hpc.fails(6, &args);
    assert!(said.contains("data set `dir:set` has changed"), "{said}");
    names(&said);

    assert_eq!((left(&hpc).len(), left(&lab).len()), (1, 1));
    let cleaned = hpc.ok(&clean);
    assert_eq!(cleaned, format!("removed {}\nremoved {}\n", places[0], places[1]));
    assert!(left(&hpc).is_empty() && left(&lab).is_empty());
    assert_eq!(hpc.show(held.as_str().unwrap())["state"], "cancelled");
    assert!(lab.store.join("set/two").exists() && out.join("run.json").exists());
    assert!(hpc.ok(&clean).contains("is not there"));
}

/// Promise: a storage benchmark that a restart of its daemon has lost is begun again, and the sweep
/// continues.
#[test]
fn a_benchmark_is_begun_again_after_a_restart() {
    let root = Scratch::in_memory();
    let (hpc, mut lab) = sites(root.path());
    let (matrix, out) = (root.path().join("m.toml"), root.path().join("out"));
    let storage = "[storage]\nmeasure = true\nsizes = \"8KiB\"\nseconds = 1\nrepeats = 1\n";
    fs::write(&matrix, format!("{}{storage}", one_cell(&lab))).unwrap();
    let args = ["bench", "sweep", matrix.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let sweep = start_told(&mut hpc.command(&args));
    let mut known = Value::Null;
    Wait::new("a benchmark of the source").is(|| {
        let list = lab.lines(&["bench", "show", "data", "--json"]);
        known = list.first().map(|first| first["id"].clone()).unwrap_or_default();
        !known.is_null()
    });
    lab.kill();
    lab.start();
    let (said, code) = ended(sweep);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the benchmark has gone") && said.contains("begun again"), "{said}");
    let before = read(&out.join("storage/lab-data.before.json"));
    assert!(before["state"] == "done" && before["id"] != known, "{before}");
    assert!(left(&hpc).is_empty() && left(&lab).is_empty());
}

/// Promise: a user who may not write in the directories is told what to do before anything is made;
/// where only the directories of the daemon are closed, before any data set is.
#[test]
fn another_user_is_told_before_a_data_set_is_made() {
    if !is_root("another_user_is_told_before_a_data_set_is_made") {
        return;
    }
    let root = Scratch::on_disk();
    let (mut hpc, lab) = sites(root.path());
    let (run, home) = (root.path().join("run"), root.path().join("home"));
    for directory in [&run, &home] {
        fs::create_dir(directory).unwrap();
    }
    let socket = run.join("penstock.sock");
    let accounts = format!(
        "[auth]\nsocket_group = \"nogroup\"\nsocket = \"{}\"\n[auth.unix]\n\
         \"@nogroup\" = \"role:operator\"\n",
        socket.display()
    );
    hpc.set_config(&format!("{}\n{accounts}", hpc.config()));
    hpc.kill();
    hpc.start();
    let matrix = root.path().join("m.toml");
    let text = one_cell(&lab);
    fs::write(&matrix, text.split("[daemons]").next().unwrap()).unwrap();
    set_mode(root.path(), 0o755);
    set_mode(&home, 0o777);
    for site in [&hpc, &lab] {
        set_mode(&site.store, 0o755);
    }
    let out = home.join("out");
    let refused = || {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(program_of_others(root.path())).args(["bench", "sweep"]).arg(&matrix);
        command.arg("--out").arg(&out).arg("--dir").arg(&run).current_dir(&home);
        let output = command.env("HOME", &home).stdin(Stdio::null()).output().unwrap();
        let said = told(&output);
        assert_eq!(output.status.code(), Some(NOT_AUTHORISED), "{said}");
        assert!(said.contains("this user may not write in"), "{said}");
        assert!(said.contains("run the sweep as root or as the user of the daemon"), "{said}");
        said
    };
    refused();
    assert!(!out.exists() && left(&hpc).is_empty() && left(&lab).is_empty());
    for site in [&hpc, &lab] {
        chown(site.store.join("eval"), Some(65534), Some(65534)).unwrap();
    }
    let said = refused();
    assert!(said.contains("--clean"), "{said}");
    for site in [&hpc, &lab] {
        assert_eq!(files_below(&site.store.join("eval")).len(), 0);
    }
    let said = hpc.ok(&["bench", "sweep", "--clean", out.to_str().unwrap()]);
    assert!(left(&hpc).is_empty() && said.contains("removed hpc:data/eval"), "{said}");
    // The store of the other site is not known to be here: its empty directories stay.
    assert_eq!(files_below(&lab.store.join("eval")).len(), 0);
}

/// Checks that both hosts have counted the time of all their processors from the submission to the
/// end, also of a transfer without any sample.
fn check_processors(cell: &Value, done: f64) {
    let hosts = cell["cpu"].as_object().unwrap();
    for site in ["lab/", "hpc/"] {
        assert!(hosts.keys().any(|host| host.starts_with(site)), "{cell}");
    }
    for host in hosts.values() {
        let [cores, busy, available] =
            ["cores", "busy_s", "available_s"].map(|name| host[name].as_f64().expect(name));
        // The kernel counts hundredths of a second.
        assert!(available > 0.9 * cores * (done - 0.05), "{cell}");
        assert!(cores >= 1.0 && busy > 0.0 && busy <= available, "{cell}");
    }
}

/// Checks the files of a complete run.
fn check(out: &Path, table: &str) {
    let run = read(&out.join("run.json"));
    assert!(run["format"] == 1 && run["ended"].is_string(), "{run}");
    let cells = cells(out);
    let ids: Vec<&Value> = cells.iter().map(|cell| &cell["id"]).collect();
    assert_eq!(ids, run["cells"].as_array().unwrap().iter().collect::<Vec<_>>());
    assert_eq!(ids.len(), 8);
    let sizes = BTreeMap::from([("40x4KiB", (40, 40 * 4096)), ("3x1MiB", (3, 3 << 20))]);
    for cell in &cells {
        assert!(cell["error"].is_null(), "{cell}");
        let (files, bytes) = sizes[cell["dataset"]["name"].as_str().unwrap()];
        let moved = (cell["files"].as_u64().unwrap(), cell["bytes"].as_u64().unwrap());
        assert_eq!(moved, (files, bytes), "{cell}");
        let verify = &cell["verify"];
        assert_eq!((&verify["ok"], verify["files"].as_u64()), (&true.into(), Some(files)));
        let done = cell["t"]["done"].as_f64().unwrap();
        let rate = cell["rate"]["effective"].as_f64().unwrap();
        assert!((rate * done - bytes as f64).abs() < 1.0, "{cell}");
        let id = cell["id"].as_str().unwrap();
        let receipt = read(&out.join(format!("receipts/{id}.json")));
        assert_eq!(receipt["receipt"]["id"], cell["transfer"]);
        let is_off = cell["mode"]["encryption"] == "off";
        assert!(!is_off || cell["mode"]["suite"] == "clear", "{cell}");
        assert!(table.contains(cell["mode"]["name"].as_str().unwrap()), "{table}");
        assert!(cell["time"]["target"]["write"].as_f64().unwrap() > 0.0, "{cell}");
        check_processors(cell, done);
    }
    assert_eq!(fs::read_dir(out.join("statistics")).unwrap().count(), 8);
    let facts = read(&out.join("facts.json"));
    assert_eq!(facts["sites"].as_array().unwrap().len(), 2);
    for site in facts["sites"].as_array().unwrap() {
        assert_eq!(site["missing"], serde_json::json!([]), "{site}");
        assert!(!site["findings"].as_array().unwrap().is_empty(), "{site}");
    }
}
