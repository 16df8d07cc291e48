//! A site of several peers on one machine, with a real etcd, one directory as their store and one
//! as their journal.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use crate::site::{Site, free_port};

/// Seconds that a target peer may be silent in these tests.
const GRANT_SECONDS: u64 = 5;

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

impl Etcd {
    /// Starts so many members; `None`, which it prints, where etcd is not installed.
    pub fn start(root: &Path, count: usize) -> Option<Self> {
        if !Self::is_installed() {
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

    /// Returns whether etcd is installed; prints that the test is skipped if not.
    pub fn is_installed() -> bool {
        let is = Command::new("etcd").arg("--version").output().is_ok();
        if !is {
            println!("SKIPPED: there is no etcd; scripts/setup.sh installs it (etcd-server)");
        }
        is
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

    /// Kills a member by `kill -9`.
    pub fn kill(&mut self, number: usize) {
        if let Some(mut child) = self.members[number].child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Returns the addresses for clients.
    pub fn endpoints(&self) -> Vec<String> {
        self.members.iter().map(|member| member.client.clone()).collect()
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        (0..self.members.len()).for_each(|number| self.kill(number));
    }
}

impl Site {
    /// Makes the first peer of a site, whose daemon runs and leads; its journal is below `root`
    /// too.
    ///
    /// A site of patient people waits five seconds for a controller, tests do not; but an etcd of
    /// three needs two to elect another leader of its own.
    pub fn first_peer(root: &Path, name: &'static str, etcd: &Etcd) -> Self {
        let (dir, store) = (root.join(format!("{name}-1")), root.join(format!("store-{name}")));
        fs::create_dir(&store).unwrap();
        let mut site = Self::adopt(name, dir, store);
        let journal = format!("--journal={}", root.join(format!("journal-{name}")).display());
        let endpoints: Vec<_> = etcd.endpoints().iter().map(|it| format!("--etcd={it}")).collect();
        let options = ["--peer", "h1", "--listen", "127.0.0.1:0", &journal].into_iter();
        let options: Vec<_> = options.chain(endpoints.iter().map(String::as_str)).collect();
        site.init_with(&options);
        let seconds = if etcd.members.len() == 1 { 2 } else { 8 };
        let lease = format!("lease_seconds = {seconds}\ngrant_seconds = {GRANT_SECONDS}");
        site.reconfigure("lease_seconds = 5", &lease);
        site.start();
        site.status_until(|status| status["cluster"]["is_leader"] == true);
        site
    }

    /// Joins another peer to this site, and starts its daemon.
    pub fn join(&self, root: &Path, peer: &str) -> Self {
        let mut site = self.add_loopback_peer(root, peer);
        site.start();
        for at in [self, &site] {
            at.status_until(|status| {
                let peers = status["cluster"]["peers"].as_array();
                peers.is_some_and(|peers| peers.iter().any(|card| card["peer"] == peer))
                    && !status["cluster"]["leader"].is_null()
            });
        }
        site
    }

    /// Makes another peer of this site that listens on any port; its daemon is not started.
    pub fn add_loopback_peer(&self, root: &Path, peer: &str) -> Self {
        let dir = root.join(format!("{}-{peer}", self.name));
        self.add_peer(dir, peer, &["--listen", "127.0.0.1:0"])
    }
}
