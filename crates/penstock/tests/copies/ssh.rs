//! Copies over ssh, by a real sshd that each test starts: no daemon, no account, no configuration.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Instant;

use penstock_testkit::{
    Ended, Mount, Run, SshHost, SshOptions, assert_same_files, figure, is_root, make_small_tree,
    program, signal, tool,
};
use rustix::process::{Pid, Signal, kill_process};

/// Enough that a run can be broken in its middle.
const LARGE: &str = "mem:files=24,size=32M";

fn installed() -> SshHost {
    let host = SshHost::start(&SshOptions::default());
    host.install();
    host
}

/// The last words are the summary of a copy that is done.
fn assert_done(ended: Ended) -> Ended {
    let ended = ended.expect(0);
    assert_eq!(ended.last["state"], "done", "{}", ended.last);
    ended
}

/// Runs a copy until some of it is durable at the target. That is so after two seconds, and the
/// rate is such that most of `LARGE` is left to break then, however fast this machine is.
fn begin(host: &SshHost, arguments: &[&str]) -> Run {
    let mut run = host.spawn(&[arguments, &["--bwlimit", "400Mbit/s"]].concat());
    run.wait_for(|event| event["bytes_durable"].as_u64().unwrap_or(0) > 0)
        .expect("it ended before anything was durable");
    run
}

/// Promise: a tree or a file arrives whole, pushed or pulled, under the rules about slashes that
/// hold on one host; relative paths are relative to the home directory; nothing is left at either
/// end but the data.
#[test]
fn trees_and_files_go_both_ways() {
    let host = installed();
    make_small_tree(&host.path("local/tree"));
    assert_done(host.run(&["tree", "127.0.0.1:in/"]));
    assert_same_files(&host.path("local/tree"), &host.path("home/in/tree"));
    assert_done(host.run(&["tree/", &host.remote("contents")]));
    assert_same_files(&host.path("local/tree"), &host.path("contents"));
    assert_done(host.run(&["127.0.0.1:~/in/tree/", "back"]));
    assert_same_files(&host.path("local/tree"), &host.path("local/back"));
    assert_done(host.run(&["tree/large", &host.remote("renamed")]));
    assert_done(host.run(&["127.0.0.1:in/tree/sub/file7", "."]));
    assert_eq!(fs::read(host.path("local/file7")).unwrap(), b"7\n");
    tool("cmp", &[&host.path("local/tree/large"), &host.path("renamed")]);
    host.assert_nothing_left();
}

/// C6: over ssh a move empties the source, at this host and at the other, by the login's own right.
#[test]
fn c6_moves_go_both_ways() {
    let host = installed();
    make_small_tree(&host.path("local/tree"));
    tool("cp", &[&"-a", &host.path("local/tree"), &host.path("as-it-was")]);
    let empty = |root: &std::path::Path| fs::read_dir(root).unwrap().next().is_none();
    assert_done(host.run(&["--remove-source", "tree/", &host.remote("there")]));
    assert_same_files(&host.path("as-it-was"), &host.path("there"));
    assert!(empty(&host.path("local/tree")), "the source at this host is empty");
    assert_done(host.run(&["--remove-source", &host.remote("there/"), "back"]));
    assert_same_files(&host.path("as-it-was"), &host.path("local/back"));
    assert!(empty(&host.path("there")), "the source at the other host is empty");
    host.assert_nothing_left();
}

/// Promise: names are bytes, also through two shells and JSON.
#[test]
fn j_odd_paths_are_taken_as_they_are() {
    let host = installed();
    let name = "a 'b' \"c\" $(x) `y` \\ ; *\n";
    fs::write(host.path("local/file"), "data").unwrap();
    assert_done(host.run(&["./file", &host.remote(&format!("{name}/"))]));
    assert_done(host.run(&[&host.remote(&format!("{name}/file")), "./a:b"]));
    assert_eq!(fs::read(host.path("local/a:b")).unwrap(), b"data");
}

/// Promise (c), E7: the list of failed items is complete over ssh too, whichever end is the source,
/// and outputs are files of this host.
#[test]
fn e7_lists_of_failures_are_complete_over_ssh() {
    let host = installed();
    let names: Vec<_> = (0..1_200).map(|number| format!("late/{number:05}")).collect();
    fs::write(host.path("local/wanted"), names.join("\n")).unwrap();
    fs::create_dir_all(host.path("local/tree")).unwrap();
    fs::create_dir_all(host.path("far")).unwrap();
    let (far, there) = (host.remote("far/"), host.remote("there"));
    for (source, target) in [("tree/", there.as_str()), (far.as_str(), "back")] {
        let refused = host.run(&["--receipt", "none/r", source, target]);
        assert_eq!(refused.code, 7, "{}", refused.errors);
        assert!(refused.errors.contains("cannot write `none/r`"), "{}", refused.errors);
        host.assert_nothing_left();
        let ended = host.run(&["--files-from", "wanted", "--receipt", "r", source, target]);
        assert_eq!(ended.code, 3, "{}", ended.errors);
        assert!(ended.errors.contains("1200 of 1201 items failed"), "{}", ended.errors);
        let found = fs::read_dir(host.path("local")).unwrap().map(|entry| entry.unwrap().path());
        let list =
            found.into_iter().find(|path| path.to_string_lossy().contains("penstock-failed-"));
        let list = list.expect("a list is written");
        assert_eq!(fs::read_to_string(&list).unwrap().trim_end(), names.join("\n"));
        fs::remove_file(list).unwrap();
        fs::remove_file(host.path("local/r")).unwrap();
    }
}

/// Promise: where no port is open, lanes go through ssh, and the user is told what it costs.
#[test]
fn closed_ports_lead_through_ssh() {
    let host = installed();
    make_small_tree(&host.path("local/tree"));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ended = assert_done(host.run(&["--ports", &port, "tree/", &host.remote("there")]));
    assert!(ended.errors.contains("moving through ssh"), "{}", ended.errors);
    assert_same_files(&host.path("local/tree"), &host.path("there"));
    let ended = assert_done(host.run(&["--ports", &port, &host.remote("there/"), "back"]));
    assert!(ended.errors.contains("moving through ssh"), "{}", ended.errors);
    assert_same_files(&host.path("local/tree"), &host.path("local/back"));
    host.assert_nothing_left();
}

/// E5: where the far end cannot be dialled but can dial, it is asked to over ssh: lanes are direct,
/// whichever end is the source.
#[test]
fn e5_the_far_end_dials_where_it_cannot_be_dialled() {
    // 192.0.2.0/24 is for documentation (RFC 5737): nobody can listen there.
    let profile = "export SSH_CONNECTION='127.0.0.1 5 192.0.2.1 22'\n";
    let host = SshHost::start(&SshOptions { profile, sshd: "AllowTcpForwarding no" });
    host.install();
    make_small_tree(&host.path("local/tree"));
    assert_done(host.run(&["tree/", &host.remote("there")]));
    assert_same_files(&host.path("local/tree"), &host.path("there"));
    assert_done(host.run(&[&host.remote("there/"), "back"]));
    assert_same_files(&host.path("local/tree"), &host.path("local/back"));
    host.assert_nothing_left();
}

/// Promise: where not even ssh may forward, the error says what was tried and what to do.
#[test]
fn no_way_for_lanes_is_a_clear_error() {
    let special = SshOptions { sshd: "AllowTcpForwarding no", ..SshOptions::default() };
    let host = SshHost::start(&special);
    host.install();
    fs::write(host.path("local/file"), "data").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ended = host.run(&["--ports", &port, "file", &host.remote("there")]).expect(7);
    assert!(ended.errors.contains("no lane leads to"), "{}", ended.errors);
    assert!(ended.errors.contains("--ports"), "{}", ended.errors);
    host.assert_nothing_runs();
}

/// Promise (d): the local end may be killed at any moment; the far end goes with it in seconds, and
/// the same command again sends only what was not there.
#[test]
fn d_a_killed_local_end_is_resumed() {
    let host = installed();
    for (from, to) in [(LARGE.to_owned(), host.remote("t")), (host.remote("t/"), "p".to_owned())] {
        let arguments = [from.as_str(), to.as_str()];
        let run = begin(&host, &arguments);
        run.kill();
        host.assert_nothing_runs();
        let ended = assert_done(host.run(&arguments));
        assert!(ended.errors.contains("resuming"), "{}", ended.errors);
        assert!(figure(&ended.last, "bytes_resumed") > 0, "{}", ended.last);
    }
    assert_same_files(&host.path("t"), &host.path("local/p"));
    host.assert_nothing_runs();
}

/// Promise (d): so may the far end; the local end says that it is lost, that trying again helps
/// (exit 5) and how.
#[test]
fn d_a_killed_far_end_is_resumed() {
    let host = installed();
    for (from, to) in [(LARGE.to_owned(), host.remote("t")), (host.remote("t/"), "p".to_owned())] {
        let arguments = [from.as_str(), to.as_str()];
        let run = begin(&host, &arguments);
        signal(host.wait_for_process("penstock ssh-serve"), Signal::KILL);
        let ended = run.end().expect(5);
        assert!(ended.errors.contains("the same command again"), "{}", ended.errors);
        host.assert_nothing_runs();
        let ended = assert_done(host.run(&arguments));
        assert!(figure(&ended.last, "bytes_resumed") > 0, "{}", ended.last);
    }
    assert_same_files(&host.path("t"), &host.path("local/p"));
    host.assert_nothing_left();
}

/// Promise (d): the connection itself may go: both ends stop within seconds and keep their state.
#[test]
fn d_a_lost_connection_stops_both_ends() {
    let host = installed();
    let to = host.remote("t");
    let run = begin(&host, &[LARGE, &to]);
    let ssh = host.processes("ControlPersist");
    let cut = Instant::now();
    for id in ssh {
        // One may have ended with the other.
        let _ = kill_process(Pid::from_raw(id as i32).unwrap(), Signal::KILL);
    }
    let ended = run.end().expect(5);
    assert!(ended.errors.contains("ssh connection was lost"), "{}", ended.errors);
    host.assert_nothing_runs();
    println!("both ends had stopped {:?} after the cut", cut.elapsed());
    assert_done(host.run(&[LARGE, &to]));
    host.assert_nothing_left();
}

/// Promise: at Ctrl-C both ends stop in order, the ledger is kept, and how to go on is said.
#[test]
fn an_interrupt_stops_both_ends_in_order() {
    let host = installed();
    let to = host.remote("t");
    let run = begin(&host, &[LARGE, &to]);
    run.signal(Signal::INT);
    let ended = run.end().expect(130);
    assert!(ended.errors.contains("the same command again"), "{}", ended.errors);
    host.assert_nothing_runs();
    let ended = assert_done(host.run(&[LARGE, &to]));
    assert_eq!(figure(&ended.last, "bytes_resent"), 0, "{}", ended.last);
    host.assert_nothing_left();
}

/// Promise: Ctrl-C while ssh still logs in ends both, at once.
#[test]
fn an_interrupt_ends_a_login() {
    let special = SshOptions { sshd: "ForceCommand sleep 600", profile: "" };
    let host = SshHost::start(&special);
    fs::write(host.path("local/file"), "data").unwrap();
    let run = host.spawn(&["file", &host.remote("there")]);
    host.wait_for_process("ControlPersist");
    run.signal(Signal::INT);
    run.end().expect(130);
    host.assert_nothing_runs();
}

/// Promise: where there is no penstock, or another release of it, this very program is sent, once,
/// and its digest is compared; a damaged one is sent again.
#[test]
fn the_program_is_sent_where_it_is_missing() {
    let host = SshHost::start(&SshOptions::default());
    fs::write(host.path("local/file"), "data").unwrap();
    let to = host.remote("there/");
    let ended = assert_done(host.run(&["file", &to]));
    assert!(ended.errors.contains("sending this one"), "{}", ended.errors);
    let cache = host.path("home/.cache/penstock/bin");
    let names = || -> Vec<_> { fs::read_dir(&cache).unwrap().flatten().collect() };
    assert_eq!(names().len(), 1);
    let program = names().remove(0).path();
    assert_eq!(fs::metadata(&program).unwrap().permissions().mode() & 0o777, 0o700);
    let ended = assert_done(host.run(&["file", &to]));
    assert!(!ended.errors.contains("sending"), "{}", ended.errors);
    // It still runs, and is not what was sent.
    let mut bytes = fs::read(&program).unwrap();
    bytes.push(0);
    fs::write(&program, bytes).unwrap();
    let ended = assert_done(host.run(&["file", &to]));
    assert!(ended.errors.contains("sending this one"), "{}", ended.errors);
    assert_eq!(names().len(), 1);
    host.assert_nothing_left();
}

/// Promise: `--cpus` holds at the far end too: all that works hard there runs on so many.
#[test]
fn cpus_are_bounded_at_the_far_end() {
    let host = installed();
    let run = begin(&host, &[LARGE, &host.remote("t"), "--cpus", "1"]);
    let mut lanes = 0;
    for process in host.processes("ssh-serve") {
        for task in fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten() {
            // A thread may end while we look.
            let read = |what| fs::read_to_string(task.path().join(what)).unwrap_or_default();
            if !read("comm").starts_with("lane") {
                continue;
            }
            let status = read("status");
            let allowed = status.lines().find(|line| line.starts_with("Cpus_allowed_list"));
            lanes += usize::from(allowed.is_some());
            assert!(allowed.is_none_or(|list| !list.contains(['-', ','])), "{allowed:?}");
        }
    }
    assert!(lanes > 0, "no lane was looked at");
    run.kill();
    host.assert_nothing_runs();
}

/// Promise: programs of earlier releases do not pile up at the other host: the two that were used
/// last stay, what is not ours is not touched.
#[test]
fn old_programs_are_removed_when_one_is_sent() {
    let host = SshHost::start(&SshOptions::default());
    fs::write(host.path("local/file"), "data").unwrap();
    let cache = host.path("home/.cache/penstock/bin");
    fs::create_dir_all(&cache).unwrap();
    for age in 0..6_u64 {
        let old = cache.join(format!("penstock-0.0.{age}-abc"));
        let file = fs::File::create(&old).unwrap();
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(1000 * (age + 1));
        file.set_modified(time).unwrap();
    }
    fs::write(cache.join("notes"), "of the user").unwrap();
    let ended = assert_done(host.run(&["file", &host.remote("there/")]));
    assert!(ended.errors.contains("sending this one"), "{}", ended.errors);
    let mut names: Vec<_> = fs::read_dir(&cache)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names[..3], ["notes", "penstock-0.0.0-abc", "penstock-0.0.1-abc"], "{names:?}");
    assert_eq!(names.len(), 4, "{names:?}");
    host.assert_nothing_left();
}

/// Promise: another release in the PATH is not used; `--no-bootstrap` and `--remote-penstock` mean
/// what they say, and the errors tell what to do.
#[test]
fn another_release_is_not_used() {
    let host = SshHost::start(&SshOptions::default());
    let other = host.path("bin/penstock");
    fs::write(&other, "#!/bin/sh\necho penstock 9.9.9\nexit 2\n").unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(host.path("local/file"), "data").unwrap();
    let to = host.remote("there/");
    let ended = host.run(&["--no-bootstrap", "file", &to]).expect(7);
    assert!(ended.errors.contains("is not penstock"), "{}", ended.errors);
    let named = other.display().to_string();
    let ended = host.run(&["--remote-penstock", &named, "file", &to]).expect(7);
    assert!(ended.errors.contains("is not penstock"), "{}", ended.errors);
    assert!(!host.path("home/.cache").exists());
    let ended = assert_done(host.run(&["file", &to]));
    assert!(ended.errors.contains("sending this one"), "{}", ended.errors);
    let binary = program();
    assert_done(host.run(&["--no-bootstrap", "--remote-penstock", binary, "file", &to]));
    host.assert_nothing_left();
}

/// Promise: what a shell's start-up files print does no harm.
#[test]
fn a_chatty_profile_is_skipped() {
    let profile = "echo welcome to this host; printf 'no newline at the end'; echo oops >&2\n";
    let host = SshHost::start(&SshOptions { profile, ..SshOptions::default() });
    host.install();
    make_small_tree(&host.path("local/tree"));
    assert_done(host.run(&["tree/", &host.remote("there")]));
    assert_same_files(&host.path("local/tree"), &host.path("there"));
}

/// Promise: a shell that runs no commands is told from an ssh that fails, with what it printed.
#[test]
fn a_shell_that_runs_nothing_is_reported() {
    let special = SshOptions { sshd: "ForceCommand echo This account is closed.", profile: "" };
    let host = SshHost::start(&special);
    fs::write(host.path("local/file"), "data").unwrap();
    let ended = host.run(&["file", &host.remote("there")]).expect(7);
    assert!(ended.errors.contains("This account is closed"), "{}", ended.errors);
}

/// Promise: who may not log in gets ssh's own words and exit 12; a host that does not answer may
/// answer later (exit 5).
#[test]
fn a_failed_login_is_not_authorised() {
    let host = installed();
    fs::write(host.path("local/file"), "data").unwrap();
    let to = host.remote("there");
    let run = |ssh: &str| {
        let mut command = std::process::Command::new(program());
        command.args(["copy", "--json", "--ssh", ssh, "file", &to]);
        host.place(&mut command);
        Run::spawn(&mut command).end()
    };
    let ended = run(&host.ssh_with("other", "known")).expect(12);
    assert!(ended.errors.contains("Permission denied"), "{}", ended.errors);
    fs::write(host.path("unknown"), "").unwrap();
    let ended = run(&host.ssh_with("user", "unknown")).expect(12);
    assert!(ended.errors.contains("Host key verification failed"), "{}", ended.errors);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ended = run(&format!("{} -o Port={closed}", host.ssh().replace(" -p ", " -o X=")));
    assert_ne!(ended.code, 0);
    run(&format!("ssh -F none -p {closed} -o BatchMode=yes")).expect(5);
    host.assert_nothing_runs();
}

/// Promise: `~user` means another user's home for every shell, so it never becomes a directory of
/// that name; one may still be asked for.
#[test]
fn another_users_home_is_not_guessed() {
    let host = installed();
    fs::write(host.path("local/file"), "data").unwrap();
    let ended = host.run(&["file", "127.0.0.1:~nobody/x/"]).expect(2);
    assert!(ended.errors.contains("is not looked up"), "{}", ended.errors);
    assert!(!host.path("home/~nobody").exists());
    assert_done(host.run(&["file", "127.0.0.1:./~nobody/x/"]));
    assert_eq!(fs::read(host.path("home/~nobody/x/file")).unwrap(), b"data");
    host.assert_nothing_left();
}

/// Promise: the control socket has a place where `XDG_RUNTIME_DIR` is long, or not for this user.
#[test]
fn any_runtime_directory_will_do() {
    let host = installed();
    fs::write(host.path("local/file"), "data").unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let base = host.path("local").display().to_string();
    for runtime in ["/proc/nothing".to_owned(), format!("{base}/{}", "x".repeat(70))] {
        // It cannot be made in the first case.
        let _ = fs::create_dir(&runtime);
        let mut command = host.command(&["--ports", &port, "file", &host.remote("there/")]);
        assert_done(Run::spawn(command.env("XDG_RUNTIME_DIR", &runtime)).end());
    }
    host.assert_nothing_left();
}

/// Promise: what is wrong at the other host is told with the host: a missing source, a target that
/// cannot be made, a target within its source (B8), and a usage that makes no sense.
#[test]
fn b8_errors_at_the_other_host_name_it() {
    let host = installed();
    make_small_tree(&host.path("local/tree"));
    let ended = host.run(&[&host.remote("missing"), "."]).expect(4);
    assert!(ended.errors.contains("at 127.0.0.1: cannot examine the source"), "{}", ended.errors);
    let ended = host.run(&["tree", "127.0.0.1:/proc/version/x"]).expect(7);
    assert!(ended.errors.contains("at 127.0.0.1: `/proc/version` is a file"), "{}", ended.errors);
    for (from, to) in [("tree", "local/tree/sub"), ("tree", "local"), ("tree/", "local")] {
        let ended = host.run(&[from, &host.remote(to)]).expect(6);
        assert!(ended.errors.contains("overlap"), "{}", ended.errors);
    }
    host.run(&[&host.remote("local/tree"), "tree/sub"]).expect(6);
    host.run(&["127.0.0.1:a", "127.0.0.1:b"]).expect(2);
    host.run(&["missing", &host.remote("x")]).expect(4);
    host.assert_nothing_left();
}

/// Promise: a target that fills up ends the copy in order, exit 5; once there is room, the same
/// command goes on.
#[test]
fn a_full_target_is_said_and_resumed() {
    if !is_root("a_full_target_is_said_and_resumed") {
        return;
    }
    let host = installed();
    let disk = Mount::tmpfs(&host.path(""), "small", 16);
    let to = host.remote("small/t");
    let ended = host.run(&["mem:files=8,size=4M", &to]);
    assert_eq!(ended.code, 5, "{}", ended.errors);
    assert!(ended.errors.contains("at 127.0.0.1: the target is full"), "{}", ended.errors);
    disk.remount("size=64m");
    host.run(&["mem:files=8,size=4M", &to]).expect(0);
    host.assert_nothing_runs();
}

/// Promise: failed items and digest lists of a run at the other host come here.
#[test]
fn lists_of_the_far_end_come_here() {
    let host = installed();
    make_small_tree(&host.path("local/tree"));
    for (from, to) in [("tree/", host.remote("there")), (&host.remote("there/"), "back".into())] {
        let lists = ["--write-digests", "list", "--also-digest", "sha256,crc32c"];
        assert_done(host.run(&[&[from, &to], &lists[..]].concat()));
        for list in ["list", "list.sha256", "list.crc32c"] {
            let text = fs::read_to_string(host.path("local").join(list)).unwrap();
            assert_eq!(text.lines().count(), 202, "{list}: {text}");
            fs::remove_file(host.path("local").join(list)).unwrap();
        }
    }
    let missing = "large\nno such file\n";
    fs::write(host.path("local/some"), missing).unwrap();
    let ended = host.run(&["tree/", &host.remote("some"), "--files-from", "some"]);
    assert_ne!(ended.code, 0);
    assert!(ended.errors.contains("no such file"), "{}", ended.errors);
    tool("cmp", &[&host.path("local/tree/large"), &host.path("some/large")]);
    host.assert_nothing_left();
}

/// Promise: options mean the same over ssh: what is chosen at the source, what is left alone at the
/// target, and a receipt that can be checked.
#[test]
fn options_go_with_the_copy() {
    let host = installed();
    make_small_tree(&host.path("local/tree"));
    let to = host.remote("there");
    let receipt = ["--receipt", "receipt.json", "--sync"];
    for (from, to) in [("tree/", to.as_str()), (&format!("{to}/"), "back")] {
        assert_done(host.run(&[from, to, "--exclude", "sub"]));
        let ended = assert_done(host.run(&[[from, to].as_slice(), &receipt].concat()));
        assert_eq!((ended.figure("files"), ended.figure("skipped")), (200, 2), "{}", ended.last);
        let again = assert_done(host.run(&[[from, to].as_slice(), &receipt].concat()));
        assert_eq!(again.figure("bytes_verified"), 0, "{}", again.last);
        let mut check = std::process::Command::new(program());
        check.args(["receipt", "check", "receipt.json"]);
        host.place(&mut check);
        Run::spawn(&mut check).end().expect(0);
    }
    assert!(!host.path("there/sub/nothing").exists());
    assert_same_files(&host.path("local/tree"), &host.path("local/back"));
    host.assert_nothing_runs();
}

/// D7: a copy by ssh is by one's own hand at both ends, so set-id bits, hard links, holes and
/// nanoseconds arrive as on one host; rsync finds nothing to do.
#[test]
fn d7_attributes_are_kept_as_on_one_host() {
    let host = installed();
    let tree = host.path("local/tree");
    make_small_tree(&tree);
    let mode = |name: &str, bits| {
        fs::set_permissions(tree.join(name), fs::Permissions::from_mode(bits)).unwrap();
    };
    mode("sub/file3", 0o4755);
    mode("sub/empty", 0o2750);
    fs::hard_link(tree.join("large"), tree.join("sub/same")).unwrap();
    fs::File::create(tree.join("sparse")).unwrap().set_len(64 << 20).unwrap();
    assert_done(host.run(&["tree/", &host.remote("there")]));
    assert_done(host.run(&[&host.remote("there/"), "back"]));
    for copy in [host.path("there/"), host.path("local/back/")] {
        let difference = tool(
            "rsync",
            &[&"-aHn", &"--checksum", &"--delete", &"-i", &host.path("local/tree/"), &copy],
        );
        assert_eq!(String::from_utf8_lossy(&difference), "", "{}", copy.display());
        let blocks =
            std::os::unix::fs::MetadataExt::blocks(&fs::metadata(copy.join("sparse")).unwrap());
        assert!(blocks < 1000, "{blocks} blocks");
    }
}
