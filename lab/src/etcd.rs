//! An etcd of three members for a site of several peers, with the times that a test wants.

use std::fs::File;
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::lab::Lab;
use crate::process::Process;
use crate::spec::{addresses, letter};

/// Members of a site's etcd: one may be lost.
pub(crate) const MEMBERS: usize = 3;
const CLIENT_PORT: usize = 2379;
const HEARTBEAT_MS: &str = "250";
const ELECTION_MS: &str = "2500";

impl Lab {
    /// Name of a member: `b1`.
    fn member_name(site: usize, number: usize) -> String {
        format!("{}{number}", letter(site))
    }

    /// Host and addresses for clients and for other members: over the management network.
    fn member_place(&self, site: usize, number: usize) -> (usize, String, String) {
        let host = number % self.spec.peers_of(site);
        let [address, _] = addresses(0, site, host);
        // Members that share a host need ports of their own.
        let port = CLIENT_PORT + 10 * number;
        (host, format!("http://{address}:{port}"), format!("http://{address}:{}", port + 1))
    }

    /// Where a site's etcd takes requests.
    pub(crate) fn etcd_endpoints(&self, site: usize) -> Vec<String> {
        (0..MEMBERS).map(|number| self.member_place(site, number).1).collect()
    }

    /// Starts a member of a site's etcd, again if it was killed.
    ///
    /// # Errors
    /// etcd is not installed, or cannot start.
    pub(crate) fn start_member(&mut self, site: usize, number: usize) -> anyhow::Result<()> {
        let name = Self::member_name(site, number);
        let all = (0..MEMBERS).map(|number| {
            format!("{}={}", Self::member_name(site, number), self.member_place(site, number).2)
        });
        let all = all.collect::<Vec<_>>().join(",");
        let (host, client, peer) = self.member_place(site, number);
        let directory = self.root.join(format!("etcd-{name}"));
        let log = directory.with_extension("log");
        let log = File::options().create(true).append(true).open(log);
        let mut command = self.inside(&format!("{}{host}", letter(site)), "etcd");
        command.args(["--name", &name, "--initial-cluster", &all]);
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--heartbeat-interval", HEARTBEAT_MS, "--election-timeout", ELECTION_MS]);
        command.arg("--data-dir").arg(&directory);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(log.context("make a log for etcd")?);
        let (process, _) = Process::start(&mut command).context("start etcd")?;
        self.saved.members.insert(name, process);
        self.save()
    }
}

/// Whether there is an etcd to start.
pub(crate) fn is_installed() -> bool {
    Command::new("etcd").arg("--version").output().is_ok()
}
