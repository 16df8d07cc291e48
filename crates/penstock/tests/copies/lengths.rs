//! Files whose file system does not tell how long they are (C7): `/proc`, `/sys`, FUSE.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use penstock_testkit::{Copy, Fuse, Run, Scratch, is_root, program, tool};

fn verify(source: &Path, target: &Path) -> Output {
    Command::new(program()).arg("verify").args([source, target]).output().unwrap()
}

fn assert_verified(source: &Path, target: &Path) {
    let told = verify(source, target);
    assert!(told.status.success(), "{told:?}");
}

/// Promise: a file of `/proc` or `/sys` arrives with its content, which reading returns and stat(2)
/// does not tell; its digest is of that content, `--readback` reads it, `verify` compares it, and
/// `--sync` never takes a stamp of such a file for proof that the content is the same.
#[test]
fn files_of_the_kernel_arrive_with_their_content() {
    let base = Scratch::on_disk();
    let copy = Copy::new(base.path());
    for (at, source) in ["/proc/version", "/proc/sys/kernel/ostype", "/sys/kernel/mm/ksm/run"]
        .iter()
        .map(Path::new)
        .filter(|path| path.exists())
        .enumerate()
    {
        let (target, list) = (base.path().join(format!("t{at}")), base.path().join("list"));
        let mut command = copy.command(source, &target);
        let ended = Run::spawn(command.arg("--readback").arg("--write-digests").arg(&list)).end();
        ended.expect(0);
        let content = fs::read(source).unwrap();
        assert!(!content.is_empty());
        assert_eq!(fs::read(&target).unwrap(), content, "{}", source.display());
        let listed = fs::read_to_string(&list).unwrap();
        assert!(listed.starts_with(blake3::hash(&content).to_hex().as_str()), "{listed}");
        assert_verified(source, &target);
        // The content at the target has the size and the time of the source, and is another one.
        let modified = fs::metadata(&target).unwrap().modified().unwrap();
        fs::set_permissions(&target, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        fs::write(&target, vec![b'x'; content.len()]).unwrap();
        fs::File::options().write(true).open(&target).unwrap().set_modified(modified).unwrap();
        assert_eq!(verify(source, &target).status.code(), Some(8));
        Run::spawn(copy.command(source, &target).arg("--sync")).end().expect(0);
        assert_eq!(fs::read(&target).unwrap(), content, "{}", source.display());
        // A copy that lacks the content is told.
        fs::write(&target, b"").unwrap();
        assert_eq!(verify(source, &target).status.code(), Some(8));
    }
}

/// Promise: a tree of the kernel's is copied whole, and is the same afterwards.
#[test]
fn trees_of_the_kernel_arrive_with_their_content() {
    let base = Scratch::on_disk();
    let (copy, target) = (Copy::new(base.path()), base.path().join("t"));
    Run::spawn(&mut copy.command("/proc/sys/kernel/random/", &target)).end();
    assert_eq!(fs::read(target.join("poolsize")).unwrap().last(), Some(&b'\n'));
    let uuid = fs::read_to_string(target.join("uuid")).unwrap();
    assert_eq!(uuid.trim().len(), 36, "one read of a file that is another at each read: {uuid}");
}

/// Promise: a file that has no end that a read reaches fails with that reason, and holds up
/// nothing.
#[test]
fn a_file_without_an_end_fails() {
    if !is_root("files without an end") {
        return;
    }
    let base = Scratch::on_disk();
    let copy = Copy::new(base.path());
    let source = Path::new("/proc/self/pagemap");
    let ended = Run::spawn(&mut copy.command(source, base.path().join("t"))).end();
    println!("{}", ended.errors);
    assert!(ended.code != 0 && ended.code != 5, "{} {}", ended.code, ended.errors);
    assert!(!base.path().join("t").exists());
}

/// Promise: over FUSE a reported size of 0, or one larger or smaller than the content, changes
/// nothing: what reading returns is copied, and `verify` compares that.
#[test]
fn sizes_that_a_server_invents_are_not_believed() {
    if !is_root("FUSE") {
        return;
    }
    let base = Scratch::on_disk();
    let (tree, mount) = (base.path().join("tree"), base.path().join("mount"));
    fs::create_dir_all(tree.join("d")).unwrap();
    fs::write(tree.join("d/text"), b"some text\n").unwrap();
    fs::write(tree.join("large"), vec![7; 9 << 20]).unwrap();
    fs::write(tree.join("none"), b"").unwrap();
    tool("touch", &[&"-d", &"2024-05-06", &tree.join("d/text"), &tree.join("large")]);
    for (at, size) in [0, 4096, 3].into_iter().enumerate() {
        let Some(fuse) = Fuse::mount(&tree, &mount, 0) else { return };
        fuse.latency.report_size(size);
        let copy = Copy::new(base.path());
        let (contents, target) =
            (format!("{}/", mount.display()), base.path().join(at.to_string()));
        Run::spawn(copy.command(&contents, &target).arg("--readback")).end().expect(0);
        for name in ["d/text", "large", "none"] {
            let same = fs::read(target.join(name)).unwrap() == fs::read(tree.join(name)).unwrap();
            assert!(same, "{name}, reported to have {size} bytes");
        }
        assert_verified(Path::new(&contents), &target);
        fs::write(target.join("d/text"), b"some tex.\n").unwrap();
        assert_eq!(verify(Path::new(&contents), &target).status.code(), Some(8));
    }
}

/// Promise: a file behind FUSE whose reads never return fails, with the reason, and holds up
/// nothing else; one that is longer than a scan reads arrives whole, though its size is reported
/// as 0.
#[test]
fn a_scan_reads_no_file_without_bound() {
    if !is_root("FUSE") {
        return;
    }
    let base = Scratch::on_disk();
    let (tree, mount) = (base.path().join("tree"), base.path().join("mount"));
    fs::create_dir_all(tree.join("d")).unwrap();
    fs::write(tree.join("d/stuck"), b"some text\n").unwrap();
    fs::write(tree.join("d/text"), b"some text\n").unwrap();
    fs::write(tree.join("long"), vec![7; 70 << 20]).unwrap();
    tool("touch", &[&"-d", &"2024-05-06", &tree.join("d/text"), &tree.join("long")]);
    let Some(fuse) = Fuse::mount(&tree, &mount, 0) else { return };
    fuse.latency.report_size(0);
    fuse.latency.stick(true);
    let (copy, target) = (Copy::new(base.path()), base.path().join("t"));
    let contents = format!("{}/", mount.display());
    let ended = Run::spawn(&mut copy.command(&contents, &target)).end().expect(3);
    assert!(ended.errors.contains("d/stuck"), "{}", ended.errors);
    assert!(ended.errors.contains("does not report its length"), "{}", ended.errors);
    for name in ["d/text", "long"] {
        let same = fs::read(target.join(name)).unwrap() == fs::read(tree.join(name)).unwrap();
        assert!(same, "{name}");
    }
    assert!(!target.join("d/stuck").exists());
    fuse.latency.stick(false);
    Run::spawn(&mut copy.command(&contents, &target)).end().expect(0);
    assert_eq!(fs::read(target.join("d/stuck")).unwrap(), b"some text\n");
}

/// Promise: a file of the kernel whose reads wait for what happens next fails, with the reason.
#[test]
fn a_log_of_the_kernel_is_not_waited_for() {
    let logs = ["/proc/kmsg", "/sys/kernel/tracing/trace_pipe"].map(Path::new);
    for (at, log) in logs.into_iter().filter(|log| fs::File::open(log).is_ok()).enumerate() {
        let base = Scratch::on_disk();
        let (copy, target) = (Copy::new(base.path()), base.path().join(format!("t{at}")));
        let ended = Run::spawn(&mut copy.command(log, &target)).end();
        assert!(ended.code != 0 && ended.code != 5, "{} {}", ended.code, ended.errors);
        assert!(ended.errors.contains("does not report its length"), "{}", ended.errors);
        assert!(!target.exists());
    }
}
