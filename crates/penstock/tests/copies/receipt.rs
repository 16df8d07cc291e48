//! Receipts: what they say is true, anybody can check it, and nobody can alter it.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use penstock_testkit::{
    Copy, Run, Scratch, Site, copy_with, make_files, program, rng, tool, two_sites,
};
use serde_json::{Value, json};

fn check(receipt: &Path, more: &[&str]) -> Output {
    Command::new(program()).args(["receipt", "check"]).arg(receipt).args(more).output().unwrap()
}

fn assert_check(receipt: &Path, more: &[&str], exit: i32) -> String {
    let output = check(receipt, more);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(exit), "{more:?}: {text}{errors}");
    text
}

fn authority(site: &Site) -> PathBuf {
    site.dir.join("trust/authority.pem")
}

/// The root digest of docs/protocol.md, computed from a digest list by `b3sum` and Python's sort.
fn root_of(list: &Path) -> Option<String> {
    let b3sum = |bytes: &[u8]| {
        let mut child = Command::new("b3sum")
            .arg("--no-names")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        child.stdin.take().unwrap().write_all(bytes).unwrap();
        let output = child.wait_with_output().unwrap();
        Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    };
    let mut leaves = Vec::new();
    for line in fs::read(list).unwrap().split_inclusive(|byte| *byte == b'\n') {
        leaves.push(b3sum(line)?);
    }
    leaves.sort();
    let all = data_encoding::HEXLOWER.decode(leaves.concat().as_bytes()).unwrap();
    b3sum(&all)
}

/// Every leaf of the JSON, as a path of keys and indices.
fn leaves(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                leaves(value, &format!("{at}/{key}"), found);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                leaves(value, &format!("{at}/{index}"), found);
            }
        }
        _ => found.push(at.to_owned()),
    }
}

/// Another value of the same type.
fn altered(value: &Value) -> Value {
    match value {
        Value::Bool(value) => json!(!value),
        Value::Number(number) => json!(number.as_u64().unwrap_or(0) ^ 1),
        Value::String(text) if text.is_empty() => json!("x"),
        Value::String(text) => {
            let mut bytes = text.clone().into_bytes();
            let middle = bytes.len() / 2;
            bytes[middle] = if bytes[middle] == b'b' { b'c' } else { b'b' };
            json!(String::from_utf8_lossy(&bytes))
        }
        _ => json!("x"),
    }
}

/// Alters every field, adds one and takes some away: each is found out.
fn nobody_can_alter(receipt: &Value, base: &Path) {
    let mut paths = Vec::new();
    leaves(receipt, "", &mut paths);
    assert!(paths.len() > 60, "{} fields", paths.len());
    let copy = base.join("altered.json");
    let refused = |value: &Value, what: &str| {
        fs::write(&copy, serde_json::to_vec(value).unwrap()).unwrap();
        let output = check(&copy, &[]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(8), "{what} was altered unseen: {text}");
    };
    for path in &paths {
        let mut value = receipt.clone();
        let leaf = value.pointer_mut(path).unwrap();
        *leaf = altered(leaf);
        refused(&value, path);
    }
    let mut value = receipt.clone();
    value["receipt"]["more"] = json!(1);
    refused(&value, "a field more");
    let mut value = receipt.clone();
    value["receipt"].as_object_mut().unwrap().remove("durable_by");
    refused(&value, "a field less");
    let mut value = receipt.clone();
    value["signatures"].as_array_mut().unwrap().remove(0);
    refused(&value, "the target's signature");
    // Readers differ in which of two equal keys they show.
    let text = receipt.to_string();
    let twice = text.replacen("\"receipt\":{", "\"receipt\":{\"durable_by\":\"magic\",", 1);
    assert_ne!(twice, text);
    fs::write(&copy, twice).unwrap();
    assert_check(&copy, &[], 8);
}

/// A target that takes the source's signature off is found out.
fn no_signature_is_missed(receipt: &Value, base: &Path, trust: &[&str]) {
    let (mut lone, copy) = (receipt.clone(), base.join("lone.json"));
    lone["signatures"].as_array_mut().unwrap().retain(|signature| signature["role"] == "target");
    fs::write(&copy, lone.to_string()).unwrap();
    let text = assert_check(&copy, trust, 8);
    assert!(text.contains("WRONG   the source, site `a`"), "{text}");
    let text = assert_check(&copy, &[], 3);
    assert!(text.contains("UNKNOWN the source, site `a`, has not signed"), "{text}");
}

/// A transfer has a receipt at both sites, signed by both, that says what is so; it outlives
/// restarts and the source's pages; whoever alters any field of it is found out.
#[test]
fn a_receipt_is_true_and_cannot_be_altered() {
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("data-a"), base.path().join("data-b"));
    let set = data_a.join("set");
    make_files(&mut rng("receipt"), &set, 30, 60_000, &[20 << 20]);
    symlink("nowhere", set.join("dangling")).unwrap();
    fs::write(set.join("back\\slash"), b"name").unwrap();
    // B6: every name of a file is in the lists, and in the root.
    fs::hard_link(set.join("back\\slash"), set.join("another name")).unwrap();
    fs::hard_link(set.join("dir0/small0"), set.join("dir1/small0 too")).unwrap();
    let (mut a, mut b) = two_sites(base.path(), &data_a, &data_b);
    let (list, file) = (base.path().join("list"), base.path().join("receipt.json"));
    let (list_text, file_text) = (list.to_str().unwrap(), file.to_str().unwrap());
    let submit = ["transfer", "submit", "a:data/set/", "b:data/set/", "--wait"];
    let papers = ["--write-digests", list_text, "--receipt", file_text, "--also-digest", "md5"];
    let id = b.ok(&[&submit[..], &papers].concat()).lines().next().unwrap().trim().to_owned();

    let receipt: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let facts = &receipt["receipt"]["facts"];
    let lines = fs::read(&list).unwrap().iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(facts["root_files"], lines, "{facts}");
    assert_eq!(facts["catalogue"][0]["kind"], "md5");
    assert_eq!(facts["verified"][0]["what"], "arrival");
    let path = facts["paths"][0].as_str().unwrap();
    assert!(path.contains("of a/") && path.contains("TLS 1.3 with "), "{path}");
    assert_eq!(receipt["signatures"].as_array().unwrap().len(), 2, "both have signed");
    tool(
        "sh",
        &[
            &"-c",
            &format!(
                "cd '{}' && md5sum --strict --quiet -c '{}.md5'",
                data_b.join("set").display(),
                list.display()
            ),
        ],
    );
    let names = tool("find", &[&data_b.join("set"), &"-type", &"f"]);
    assert_eq!(names.iter().filter(|byte| **byte == b'\n').count(), lines, "every name");
    match root_of(&list) {
        Some(root) => assert_eq!(facts["root_digest"], root, "recomputed from the digest list"),
        None => eprintln!("SKIPPED: b3sum is not installed"),
    }

    let (trust_a, trust_b) = (authority(&a), authority(&b));
    let target = data_b.join("set");
    let trust = ["--trust", trust_a.to_str().unwrap(), "--trust", trust_b.to_str().unwrap()];
    let against = ["--against", target.to_str().unwrap()];
    let text = assert_check(&file, &[&trust[..], &against].concat(), 0);
    assert!(!text.contains("WRONG") && text.matches("which you trust").count() == 2, "{text}");
    // D4: a site that one does not trust has not signed anything that counts.
    assert_check(&file, &["--trust", trust_a.to_str().unwrap()], 8);

    for site in [&mut a, &mut b] {
        site.kill();
        site.start();
    }
    for site in [&a, &b] {
        let again: Value = serde_json::from_str(&site.ok(&["transfer", "receipt", &id])).unwrap();
        assert_eq!(again, receipt, "the same receipt at site {}", site.name);
    }

    no_signature_is_missed(&receipt, base.path(), &trust);
    nobody_can_alter(&receipt, base.path());
    fs::write(target.join("more"), b"").unwrap();
    let text = assert_check(&file, &against, 8);
    assert!(text.contains("WRONG   content"), "{text}");
}

/// `copy --receipt`: signed by the user's key, which is the same each time; a changed byte, a
/// renamed file and a missing one are found by `--against`.
#[test]
fn a_copy_has_a_receipt_of_its_user() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    make_files(&mut rng("copy receipt"), &source, 20, 10_000, &[]);
    fs::write(source.join("plain"), b"content").unwrap();
    let copy = Copy::new(base.path());
    let file = base.path().join("receipt.json");
    let mut command = copy.command(format!("{}/", source.display()), &target);
    Run::spawn(command.arg("--receipt").arg(&file)).end().expect(0);
    let against = ["--against", target.to_str().unwrap()];
    let text = assert_check(&file, &against, 0);
    assert!(text.contains("no site certifies") && text.contains("one hand"), "{text}");
    let receipt: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let key = receipt["signatures"][0]["key"].as_str().unwrap().to_owned();
    assert_check(&file, &["--trust", &key], 0);
    assert_check(&file, &["--trust", &"0".repeat(64)], 8);

    let root = receipt["receipt"]["facts"]["root_digest"].clone();
    let (again, other) = (base.path().join("again.json"), base.path().join("dst2"));
    let mut command = copy.command(format!("{}/", source.display()), &other);
    Run::spawn(command.arg("--receipt").arg(&again)).end().expect(0);
    let second: Value = serde_json::from_slice(&fs::read(&again).unwrap()).unwrap();
    assert_eq!(second["receipt"]["facts"]["root_digest"], root, "the same data, the same root");
    assert_eq!(second["signatures"][0]["key"].as_str(), Some(key.as_str()));

    for change in [
        &(|| fs::write(target.join("plain"), b"contenT").unwrap()) as &dyn Fn(),
        &|| fs::rename(target.join("plain"), target.join("other")).unwrap(),
        &|| fs::remove_file(target.join("other")).unwrap(),
    ] {
        change();
        assert_check(&file, &against, 8);
    }
    tool("cp", &[&"-a", &source.join("plain"), &target.join("plain")]);
    assert_check(&file, &against, 0);
}

/// D2: a file with holes is in the root digest where the receipt was asked for; where it was not,
/// and where something was left as it was, `check` says that it cannot judge, not that it is wrong.
#[test]
fn d2_what_a_receipt_cannot_judge_it_calls_unknown() {
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("data-a"), base.path().join("data-b"));
    fs::create_dir_all(data_a.join("set")).unwrap();
    fs::write(data_a.join("set/plain"), b"plain").unwrap();
    fs::File::create(data_a.join("set/sparse")).unwrap().set_len(30 << 20).unwrap();
    let (_a, b) = two_sites(base.path(), &data_a, &data_b);
    let file = base.path().join("receipt.json");
    let text = file.to_str().unwrap();
    for (target, options, exit) in [
        ("one", &[][..], 3),
        ("two", &["--receipt", text][..], 0),
        ("two", &["--receipt", text, "--sync"][..], 3),
    ] {
        let place = format!("b:data/{target}/");
        let submit = ["transfer", "submit", "a:data/set/", &place, "--wait"];
        let id = b.ok(&[&submit[..], options].concat()).lines().next().unwrap().to_owned();
        b.ok(&["transfer", "receipt", id.trim(), "--output", text]);
        let directory = data_b.join(target);
        let said = assert_check(&file, &["--against", directory.to_str().unwrap()], exit);
        assert_eq!(said.contains("UNKNOWN"), exit == 3, "{target}: {said}");
    }
}

/// Promise: where a directory holds more than was moved, the digest list, proved by the receipt,
/// tells exactly which files it covers, and whether these are as they were; another list is wrong.
#[test]
fn a_list_that_the_receipt_proves_tells_what_is_covered() {
    let base = Scratch::on_disk();
    let (source, target) = (base.path().join("src"), base.path().join("dst"));
    for name in ["a", "b", "kept"] {
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join(name), name).unwrap();
    }
    let copy = Copy::new(base.path());
    copy_with(&copy, &source, &target, &[]).expect(0);
    for name in ["a", "b"] {
        fs::write(source.join(name), format!("{name} is new")).unwrap();
    }
    let (file, list) = (base.path().join("receipt.json"), base.path().join("list"));
    let text = list.to_str().unwrap();
    let options = ["--sync", "--receipt", file.to_str().unwrap(), "--write-digests", text];
    copy_with(&copy, &source, &target, &options).expect(0);
    let against = ["--against", target.to_str().unwrap()];
    let said = assert_check(&file, &against, 3);
    assert!(said.contains("UNKNOWN") && said.contains("--digest-list"), "{said}");
    let with_list = [&against[..], &["--digest-list", text]].concat();
    let said = assert_check(&file, &with_list, 0);
    assert!(said.contains("not covered: `kept`") && said.contains("2 of 2 files"), "{said}");
    assert_check(&file, &["--digest-list", text], 0);
    fs::write(target.join("b"), "b is bad").unwrap();
    let said = assert_check(&file, &with_list, 8);
    assert!(said.contains("differs `b`"), "{said}");
    let lines = fs::read_to_string(&list).unwrap();
    fs::write(&list, lines.lines().next().unwrap()).unwrap();
    let said = assert_check(&file, &with_list, 8);
    assert!(said.contains("is not the list of what was moved"), "{said}");
}

/// Promise (c): a transfer that has failed items has a receipt that says so.
#[test]
fn a_receipt_tells_what_failed() {
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("data-a"), base.path().join("data-b"));
    fs::create_dir_all(data_a.join("set")).unwrap();
    fs::write(data_a.join("set/good"), b"good").unwrap();
    fs::write(data_a.join("set/bad"), b"bad").unwrap();
    // A directory stands where the file is to go.
    fs::create_dir_all(data_b.join("set/bad/inside")).unwrap();
    let (_a, b) = two_sites(base.path(), &data_a, &data_b);
    let id = b.submit(&["a:data/set/", "b:data/set/"]);
    b.follow(&id).expect(3);
    let receipt: Value = serde_json::from_str(&b.ok(&["transfer", "receipt", &id])).unwrap();
    assert_eq!(receipt["receipt"]["state"], "failed");
    assert_eq!(receipt["receipt"]["facts"]["failed"], 1);
    assert_eq!(receipt["receipt"]["failures"][0]["path"], "bad");
    assert_eq!(receipt["receipt"]["facts"]["root_files"], 1);
}
