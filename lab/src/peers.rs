//! Daemons on the hosts of a lab: site directories, starting, joining, pairing, and what is done to
//! them.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::Signal;
use serde_json::Value;

use crate::lab::Lab;
use crate::process::Process;
use crate::spec::{host_of, letter};

/// How long anything of a site may take: a first election in an etcd that has just begun, too.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a daemon is asked how it is: it tells nobody by itself.
const LOOK: Duration = Duration::from_millis(50);
/// Lines of a daemon's log that are shown where it did not start.
const LOG_LINES: usize = 20;
/// Mounts the store for this process alone, then becomes the daemon.
const MOUNTED: &str = "mount --bind \"$0\" \"$1\" && shift && exec \"$@\"";

/// Which network is for what. Addresses are of IPv4 alone: those of IPv6 stand by for them anyway.
fn networks_text(nics: u8) -> String {
    let management = "\n[[network]]\nname = \"management\"\nrole = \"control\"\n\
                      interface = \"net0\"\nprefix = \"10.50.0.0/16\"\n";
    let data = (1..=nics).map(|number| {
        format!(
            "\n[[network]]\nname = \"data{number}\"\ninterface = \"net{number}\"\n\
             prefix = \"10.{}.0.0/16\"\n",
            50 + u16::from(number)
        )
    });
    std::iter::once(management.to_owned()).chain(data).collect()
}

impl Lab {
    /// The site directory of a host (`b0`).
    pub fn directory(&self, host: &str) -> PathBuf {
        self.root.join(host)
    }

    /// What a host's daemon has said.
    pub fn log(&self, host: &str) -> String {
        fs::read_to_string(self.log_path(host)).unwrap_or_default()
    }

    fn log_path(&self, host: &str) -> PathBuf {
        self.root.join(format!("{host}.log"))
    }

    /// `penstock` for the daemon of a host.
    pub fn penstock(&self, host: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.penstock);
        command.args(arguments).env("PENSTOCK_DIR", self.directory(host)).env("NO_COLOR", "1");
        command.stdin(Stdio::null());
        command
    }

    /// Runs `penstock` for the daemon of a host; what it prints.
    ///
    /// # Errors
    /// It fails; with what it said.
    pub fn call(&self, host: &str, arguments: &[&str]) -> anyhow::Result<String> {
        said(self.penstock(host, arguments))
            .with_context(|| format!("`penstock {}` at {host}", arguments.join(" ")))
    }

    /// How the daemon of a host is; nothing while it does not answer. What is wrong with its site
    /// is no failure here, where things are broken on purpose.
    pub fn status(&self, host: &str) -> Value {
        let output = self.penstock(host, &["site", "status", "--json"]).output();
        output.ok().and_then(|told| serde_json::from_slice(&told.stdout).ok()).unwrap_or_default()
    }

    /// The host whose daemon leads a site, as the daemon of `host` sees it.
    pub fn leader(&self, host: &str) -> Option<String> {
        Some(self.status(host)["cluster"]["leader"]["peer"].as_str()?.to_owned())
    }

    /// Process id of the daemon of a host.
    ///
    /// # Errors
    /// None was started there.
    pub fn process_id(&self, host: &str) -> anyhow::Result<i32> {
        Ok(self.daemon(host)?.id())
    }

    pub(crate) fn daemon(&self, host: &str) -> anyhow::Result<&Process> {
        self.saved.daemons.get(host).with_context(|| format!("no daemon runs at {host}"))
    }

    /// Makes the first peer of a site, and joins the others.
    pub(crate) fn start_site(&mut self, site: usize) -> anyhow::Result<()> {
        let first = format!("{}0", letter(site));
        let mut init = self.inside(&first, &self.penstock);
        let name = letter(site).to_string();
        init.args(["site", "init", "--name", &name, "--peer", &first]);
        init.args(["--write=*", "--delete=*"]);
        init.arg(format!("--store=data={}", self.mount_of(site).display()));
        init.args(self.spec.stores.iter().map(|store| format!("--store={store}")));
        if self.has_etcd(site) {
            init.arg("--journal").arg(self.journal_of(site));
            init.args(self.etcd_endpoints(site).iter().map(|url| format!("--etcd={url}")));
        }
        said(init).with_context(|| format!("make site {name}"))?;
        let path = self.directory(&first).join("penstock.toml");
        let text = fs::read_to_string(&path).context("read the site's configuration")?;
        let (lease, grant) = (self.spec.lease_seconds, self.spec.grant_seconds);
        let lease = format!("lease_seconds = {lease}\ngrant_seconds = {grant}");
        let text = text.replace("lease_seconds = 5", &lease) + &networks_text(self.spec.nics);
        fs::write(&path, text).context("write the site's configuration")?;
        self.start_daemon(&first)?;
        if self.has_etcd(site) {
            self.until(&first, "leads", |status| status["cluster"]["is_leader"] == true)?;
        }
        (1..self.spec.joined_of(site))
            .try_for_each(|number| self.join(&format!("{}{number}", letter(site))))
    }

    /// Lets a host that waits take part in its site: joins it, starts its daemon.
    ///
    /// # Errors
    /// There is no such host, it takes part already, or its site does not take it.
    pub fn join(&mut self, host: &str) -> anyhow::Result<()> {
        let (site, number) = host_of(host).context("a host is a letter and a number")?;
        if site >= self.sites() || number >= self.spec.peers_of(site) {
            bail!("the lab has no host {host}");
        }
        let there = |(name, daemon): (&String, &Process)| {
            (name.starts_with(letter(site)) && daemon.is_there()).then(|| name.clone())
        };
        let first = self.saved.daemons.iter().find_map(there);
        let first = first.with_context(|| format!("no daemon of {host}'s site runs"))?;
        let token = self.call(&first, &["site", "join"])?;
        let mut join = self.inside(host, &self.penstock);
        join.args(["site", "join", token.trim(), "--peer", host]);
        said(join).with_context(|| format!("join {host}"))?;
        self.start_daemon(host)?;
        let is_there = |status: &Value| {
            let peers = status["cluster"]["peers"].as_array();
            peers.is_some_and(|peers| peers.iter().any(|peer| peer["peer"] == host))
        };
        self.until(&first, "sees the new peer", is_there)?;
        self.until(host, "sees who leads", |status| !status["cluster"]["leader"].is_null())
    }

    /// Pairs two sites.
    pub(crate) fn pair(&self, first: usize, second: usize) -> anyhow::Result<()> {
        let token = self.call(&format!("{}0", letter(first)), &["site", "pair"])?;
        self.call(&format!("{}0", letter(second)), &["site", "pair", token.trim()])?;
        Ok(())
    }

    /// Starts the daemon of a host, again if it was killed, and waits until it listens.
    ///
    /// # Errors
    /// It runs already, or does not start; with the end of its log.
    pub fn start_daemon(&mut self, host: &str) -> anyhow::Result<()> {
        let (site, _) = host_of(host).context("a host is a letter and a number")?;
        if self.daemon(host).is_ok_and(Process::is_there) {
            bail!("the daemon of {host} runs already");
        }
        let log = File::options().create(true).append(true).open(self.log_path(host));
        let mut command = self.inside(host, "sh");
        command.args(["-c", MOUNTED]).arg(self.store_of(site)).arg(self.mount_of(site));
        command.arg(&self.penstock).arg("daemon").arg("--dir").arg(self.directory(host));
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(log.with_context(|| format!("make a log for {host}"))?);
        let (process, output) = Process::start(&mut command)?;
        self.saved.daemons.insert(host.to_owned(), process);
        self.save()?;
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output).read_line(&mut line).context("hear from the daemon")?;
        }
        if !line.starts_with("ready") {
            let log = self.log(host);
            let lines: Vec<&str> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
            bail!("the daemon of {host} does not start: {line}{end}");
        }
        Ok(())
    }

    /// `kill -9` of the daemon of a host.
    ///
    /// # Errors
    /// None was started there.
    pub fn kill_daemon(&mut self, host: &str) -> anyhow::Result<()> {
        let daemon = self.saved.daemons.get_mut(host);
        daemon.with_context(|| format!("no daemon runs at {host}"))?.kill()
    }

    /// SIGSTOP to the daemon of a host: it does not notice, but for its clocks.
    ///
    /// # Errors
    /// None runs there.
    pub fn stop_daemon(&self, host: &str) -> anyhow::Result<()> {
        self.signal(host, Signal::STOP)
    }

    /// SIGCONT to the daemon of a host that was stopped.
    ///
    /// # Errors
    /// None runs there.
    pub fn continue_daemon(&self, host: &str) -> anyhow::Result<()> {
        self.signal(host, Signal::CONT)
    }

    /// Takes the store away from under the daemon of a host, though it has files open there; other
    /// peers keep it.
    ///
    /// # Errors
    /// No daemon runs there, or the store is not mounted.
    pub fn unmount(&self, host: &str) -> anyhow::Result<()> {
        let (site, _) = host_of(host).context("a host is a letter and a number")?;
        let mut command = self.nsenter(host)?;
        command.args(["umount", "--lazy"]).arg(self.mount_of(site));
        said(command).map(drop)
    }

    /// Gives the store back to the daemon of a host.
    ///
    /// # Errors
    /// No daemon runs there.
    pub fn mount(&self, host: &str) -> anyhow::Result<()> {
        let (site, _) = host_of(host).context("a host is a letter and a number")?;
        let mut command = self.nsenter(host)?;
        command.args(["mount", "--bind"]).arg(self.store_of(site)).arg(self.mount_of(site));
        said(command).map(drop)
    }

    /// A command that sees the mounts of a host's daemon.
    fn nsenter(&self, host: &str) -> anyhow::Result<Command> {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &self.process_id(host)?.to_string()]);
        Ok(command)
    }

    /// Waits until `is` holds of the status of a host's daemon.
    fn until(&self, host: &str, what: &str, is: impl Fn(&Value) -> bool) -> anyhow::Result<()> {
        let until = Instant::now() + PATIENCE;
        loop {
            let status = self.status(host);
            if is(&status) {
                return Ok(());
            }
            if Instant::now() > until {
                bail!("it is awaited in vain that {host} {what}: {status}");
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Runs a command to its end; what it prints.
fn said(mut command: Command) -> anyhow::Result<String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("start {command:?}"))?;
    if !output.status.success() {
        bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
