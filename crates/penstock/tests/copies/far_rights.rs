//! What a paired site may do at another: to write is one right, to replace and delete another, and
//! nobody has either by default.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use penstock_testkit::{Scratch, Site, program, two_sites};

/// Takes all rights but reading away in the one store of a site, whose daemon runs.
fn take_rights(of: &Site) {
    let text = of.config();
    let line = |line: &&str| !line.starts_with("write =") && !line.starts_with("delete =");
    let kept: Vec<_> = text.lines().filter(line).collect();
    of.set_config(&kept.join("\n"));
}

fn refused(site: &Site, args: &[&str], told: &[&str]) {
    let errors = site.fails(12, args);
    for words in told {
        assert!(errors.contains(words), "`{words}` is not in: {errors}");
    }
}

const SUBMIT: [&str; 3] = ["transfer", "submit", "--wait"];
const ROUTE: [&str; 2] = ["a:data/set/", "b:data/"];

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| format!("{}: {error}", path.display()))
}

/// Promise: a site that was only paired writes nothing; one that may write makes what is new, and
/// neither replaces nor deletes, whatever it asks for; one that may delete does both.
#[test]
fn a_site_may_do_what_it_was_given() {
    let base = Scratch::on_disk();
    let (data_a, data_b) = (base.path().join("a"), base.path().join("b"));
    fs::create_dir_all(data_a.join("set/sub")).unwrap();
    fs::create_dir_all(&data_b).unwrap();
    for (name, text) in [("new", "1"), ("sub/new", "22"), ("there", "theirs")] {
        fs::write(data_a.join("set").join(name), text).unwrap();
    }
    for (name, text) in [("there", "ours"), ("other", "precious")] {
        fs::write(data_b.join(name), text).unwrap();
    }
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    fs::set_permissions(&data_b, fs::Permissions::from_mode(0o751)).unwrap();
    fs::set_permissions(data_a.join("set"), fs::Permissions::from_mode(0o700)).unwrap();
    let (a, b) = two_sites(base.path(), &data_a, &data_b);
    let ask = |more: &[&'static str]| [&SUBMIT[..], &ROUTE[..], more].concat();

    take_rights(&b);
    let hint = ["`a` may not write to", "penstock site grant a --write"];
    for more in [&[][..], &["--sync", "--delete"], &["--if-exists", "skip"], &["--dry-run"]] {
        refused(&a, &ask(more), &hint);
    }
    assert_eq!(fs::read_dir(&data_b).unwrap().count(), 2);

    b.ok(&["site", "grant", "a", "--write", "data"]);
    for more in [
        &["--sync", "--delete", "--max-delete", "1000000000"][..],
        &["--delete"],
        &["--backup-dir", "old"],
        &["--if-exists", "newer"],
        &["--dry-run", "--delete"],
    ] {
        refused(
            &a,
            &ask(more),
            &["may not replace or delete", "asks for", "site grant a --delete data"],
        );
    }
    for more in [&[][..], &["--sync"], &["--if-exists", "replace"]] {
        let output = a.run(&ask(more));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{errors}");
        assert!(errors.contains("replace nothing in b:data"), "{errors}");
        assert!(errors.contains("failed: there"), "{errors}");
        assert_eq!(read(&data_b.join("there")), "ours");
        assert_eq!(read(&data_b.join("sub/new")), "22");
        assert_eq!(mode(&data_b), 0o751, "a directory that was there keeps its mode");
        fs::remove_dir_all(data_b.join("sub")).unwrap();
        fs::remove_file(data_b.join("new")).unwrap();
    }
    a.ok(&ask(&["--if-exists", "skip"]));
    assert_eq!(
        (read(&data_b.join("there")), read(&data_b.join("new"))),
        ("ours".into(), "1".into())
    );
    assert_eq!(read(&data_b.join("other")), "precious");
    // The site's own users may do what they like.
    b.ok(&ask(&["--if-exists", "replace"]));
    assert_eq!(read(&data_b.join("there")), "theirs");

    fs::write(data_b.join("there"), "ours again").unwrap();
    b.ok(&["site", "grant", "a", "--delete", "data"]);
    a.ok(&ask(&["--sync", "--delete"]));
    assert_eq!(read(&data_b.join("there")), "theirs");
    assert!(!data_b.join("other").exists());
    assert_eq!(mode(&data_b), 0o700);
}

/// Promise: setting a site up and pairing say what was granted and how to change it, and grant
/// nothing but reading where nothing is asked for.
#[test]
fn what_is_granted_is_said() {
    let base = Scratch::on_disk();
    let mut told = Vec::new();
    for (name, flags) in [("lab", &[][..]), ("hpc", &["--write=lab", "--delete=lab"])] {
        let data = base.path().join(format!("{name}-data"));
        fs::create_dir(&data).unwrap();
        let mut command = std::process::Command::new(program());
        let store = format!("raw={}", data.display());
        command.args(["site", "init", "--name", name, "--listen=127.0.0.1:0", "--store", &store]);
        let dir = base.path().join(name);
        let output = command.args(flags).arg("--dir").arg(&dir).output().unwrap();
        assert!(output.status.success());
        told.push(String::from_utf8(output.stderr).unwrap());
    }
    let [lab, hpc] = &told[..] else { panic!("two sites") };
    for words in ["every paired site may read raw", "write new data to no store", "penstock.toml"] {
        assert!(lab.contains(words) && hpc.contains(words), "{lab}\n{hpc}");
    }
    let config = read(&base.path().join("lab/penstock.toml"));
    assert!(config.contains("write = []") && config.contains("delete = []"), "{config}");
    let config = read(&base.path().join("hpc/penstock.toml"));
    assert!(config.contains("write = [\"lab\"]") && config.contains("delete = [\"lab\"]"));
    let (data_a, data_b) = (base.path().join("da"), base.path().join("db"));
    let (a, b) = two_sites(base.path(), &data_a, &data_b);
    take_rights(&b);
    assert_eq!(b.run(&["site", "pair", "--write", "data"]).status.code(), Some(2));
    let token = a.ok(&["site", "pair"]);
    let output = b.run(&["site", "pair", token.trim(), "--write", "data"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let granted = "site a may read data; write new data to data; replace and delete in no store";
    assert!(said.contains(granted), "{said}");
    let list = b.ok(&["store", "list"]);
    assert!(list.contains("write: a  delete: nobody"), "{list}");
}
