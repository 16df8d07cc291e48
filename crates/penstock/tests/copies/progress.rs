//! What a copy shows while it goes on: on a terminal, and elsewhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use penstock_testkit::{Scratch, program};

/// Bytes of the file, which take some seconds at [`LIMIT`].
const BYTES: usize = 6 << 20;
const LIMIT: &str = "2MB/s";

/// Output of a copy on a terminal of script(1); `None` if there is no such program here.
fn on_a_terminal(work: &Path, options: &str, term: &str) -> Option<String> {
    let (program, state) = (program(), work.join("state"));
    let _ = fs::remove_dir_all(work.join("o"));
    let line = format!("stty cols 90; {program} copy --bwlimit {LIMIT} {options} s/ o");
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(work);
    script.env("PENSTOCK_STATE_HOME", state).env("TERM", term).env_remove("NO_COLOR");
    let output = script.output().ok()?;
    assert!(output.status.success(), "{output:?}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The numbers before ` % `.
fn percents(text: &str) -> BTreeSet<u32> {
    let parts =
        text.split(" % ").filter_map(|part| part.rsplit([' ', '\n', '\r', 'K', 'm']).next());
    parts.filter_map(|number| number.parse().ok()).collect()
}

/// Promise (f): on a terminal a copy shows without being asked how far it is, as bytes come, where
/// one file is one piece; `--no-progress`, `TERM=dumb` and no terminal show nothing of it.
#[test]
fn a_terminal_shows_bytes_as_they_come() {
    let work = Scratch::on_disk();
    fs::create_dir(work.path().join("s")).unwrap();
    let bytes: Vec<u8> = (0..BYTES).map(|at| (at * 31 % 251) as u8).collect();
    fs::write(work.path().join("s/f"), bytes).unwrap();
    let Some(text) = on_a_terminal(work.path(), "", "xterm") else {
        eprintln!("SKIPPED: there is no script(1) here");
        return;
    };
    let shown = percents(&text);
    assert!(shown.len() >= 4 && shown.iter().all(|percent| *percent <= 100), "{shown:?}: {text}");
    assert!(text.contains("of 6.0 MiB") && text.contains(" left"), "{text}");
    let last = text.trim_end().lines().last().unwrap();
    assert!(last.contains("done: 1 file, 6.0 MiB in "), "{text}");
    for (options, term) in [("--no-progress", "xterm"), ("", "dumb")] {
        let text = on_a_terminal(work.path(), options, term).unwrap();
        assert!(percents(&text).is_empty() && !text.contains('\x1b'), "{options} {term}: {text}");
    }
    fs::remove_dir_all(work.path().join("o")).unwrap();
    let mut plain = Command::new(program());
    plain.args(["copy", "--bwlimit", LIMIT, "s/", "o"]).current_dir(work.path());
    let plain = plain.env("PENSTOCK_STATE_HOME", work.path().join("state")).output().unwrap();
    let said = String::from_utf8_lossy(&plain.stderr);
    assert_eq!(said.lines().count(), 1, "a short copy says how it has ended: {said}");
}
