//! A site of several peers on one machine: real daemons, a real etcd, one directory as their store
//! and one as their journal.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use crate::common_net::{LOOK, PATIENCE, Site, told};

/// How long a target peer may be silent in these tests.
pub const GRANT_SECONDS: u64 = 5;

/// etcd of one or three members on free ports.
pub struct Etcd {
    members: Vec<Member>,
}

struct Member {
    name: String,
    directory: PathBuf,
    client: String,
    peer: String,
    child: Option<Child>,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Etcd {
    /// Starts them; `None`, loudly, where etcd is not installed.
    pub fn start(root: &Path, count: usize) -> Option<Self> {
        if Command::new("etcd").arg("--version").output().is_err() {
            println!("SKIPPED: there is no etcd; scripts/setup.sh installs it (etcd-server)");
            return None;
        }
        let member = |number: usize| Member {
            name: format!("m{number}"),
            directory: root.join(format!("etcd-{number}")),
            client: format!("http://127.0.0.1:{}", free_port()),
            peer: format!("http://127.0.0.1:{}", free_port()),
            child: None,
        };
        let mut etcd = Self { members: (0..count).map(member).collect() };
        (0..count).for_each(|number| etcd.resume(number));
        Some(etcd)
    }

    /// Starts a member, again if it was stopped.
    pub fn resume(&mut self, number: usize) {
        let all = self.members.iter().map(|member| format!("{}={}", member.name, member.peer));
        let all = all.collect::<Vec<_>>().join(",");
        let member = &mut self.members[number];
        let log = fs::File::create(member.directory.with_extension("log")).unwrap();
        let child = Command::new("etcd")
            .args(["--name", &member.name, "--initial-cluster", &all])
            .args(["--listen-client-urls", &member.client, "--listen-peer-urls", &member.peer])
            .args(["--advertise-client-urls", &member.client])
            .args(["--initial-advertise-peer-urls", &member.peer])
            .args(["--heartbeat-interval", "100", "--election-timeout", "1000"])
            .arg("--data-dir")
            .arg(&member.directory)
            .stderr(log)
            .spawn();
        member.child = Some(child.unwrap());
    }

    /// `kill -9` of a member.
    pub fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.members[number].child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| member.client.clone()).collect()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|number| self.kill(number));
    }
}

/// Sends a signal to a daemon.
pub fn signal(site: &Site, name: &str) {
    signal_process(site.process(), name);
}

/// Sends a signal to a process.
pub fn signal_process(process: u32, name: &str) {
    let mut kill = Command::new("kill");
    kill.arg(format!("-{name}")).arg(process.to_string()).stdout(Stdio::null());
    assert!(kill.status().unwrap().success());
}

/// Makes the first peer of a site, whose daemon is started and leads.
///
/// A site of patient people waits five seconds for a controller, tests do not; but an etcd of three
/// needs two to elect another leader of its own.
pub fn first_peer(root: &Path, name: &'static str, etcd: &Etcd) -> Site {
    let (dir, store) = (root.join(format!("{name}-1")), root.join(format!("store-{name}")));
    let journal = root.join(format!("journal-{name}"));
    fs::create_dir(&store).unwrap();
    let mut site = Site::adopt(name, dir.clone(), store.clone());
    let mut command = crate::common_net::penstock();
    command.args(["site", "init", "--name", name, "--peer", "h1", "--listen", "127.0.0.1:0"]);
    command.arg("--dir").arg(&dir).arg(format!("--store=data={}", store.display()));
    command.arg("--journal").arg(&journal).args(["--write=*", "--delete=*"]);
    command.args(etcd.endpoints().iter().map(|endpoint| format!("--etcd={endpoint}")));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    let path = dir.join("penstock.toml");
    let text = fs::read_to_string(&path).unwrap();
    let seconds = if etcd.members.len() == 1 { 2 } else { 8 };
    let lease = format!("lease_seconds = {seconds}\ngrant_seconds = {GRANT_SECONDS}");
    fs::write(&path, text.replace("lease_seconds = 5", &lease)).unwrap();
    site.start();
    status_until(&site, |status| status["cluster"]["is_leader"] == true);
    site
}

/// Joins another peer to the site of `at`, and starts its daemon.
pub fn join(root: &Path, at: &Site, peer: &str) -> Site {
    let token = at.ok(&["site", "join"]);
    let dir = root.join(format!("{}-{peer}", at.name));
    let mut site = Site::adopt(at.name, dir.clone(), at.store.clone());
    let mut command = crate::common_net::penstock();
    command.args(["site", "join", token.trim(), "--peer", peer, "--listen", "127.0.0.1:0"]);
    let output = command.arg("--dir").arg(&dir).output().unwrap();
    assert!(output.status.success(), "{}", told(&output));
    site.start();
    let there = |status: &Value, peer: &str| {
        status["cluster"]["peers"]
            .as_array()
            .is_some_and(|peers| peers.iter().any(|card| card["peer"] == peer))
    };
    for site in [at, &site] {
        status_until(site, |status| there(status, peer) && !status["cluster"]["leader"].is_null());
    }
    site
}

/// Looks at a daemon's status again and again until `is` holds of it.
pub fn status_until(site: &Site, is: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let output = site.run(&["site", "status", "--json"]);
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if is(&status) {
            return status;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain: {}", told(&output));
        std::thread::sleep(LOOK);
    }
}
