//! A lab as a whole: what was asked for, what runs, and how commands find it again.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use crate::process::Process;
use crate::spec::{Spec, host_of, letter, socket_path};
use crate::{control, emulator, etcd, network};

/// How long the emulator may take to build a lab.
const BUILD: Duration = Duration::from_secs(60);

/// Sites of daemons, and the networks between them.
#[derive(Debug)]
pub struct Lab {
    pub(crate) spec: Spec,
    /// Where everything of it lies.
    pub(crate) root: PathBuf,
    pub(crate) penstock: PathBuf,
    pub(crate) saved: Saved,
    /// It goes when this value does; its emulator is a thread of this process.
    owned: bool,
    emulator: Option<JoinHandle<anyhow::Result<()>>>,
}

/// What later commands need, in a file below /run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Saved {
    /// As on the command line of `up`.
    options: Vec<String>,
    /// The directory is the lab's own, to be removed.
    made_root: bool,
    /// Daemons, by host.
    pub(crate) daemons: BTreeMap<String, Process>,
    /// Members of an etcd, by site and number.
    pub(crate) members: BTreeMap<String, Process>,
}

/// Whether labs can be made here; why not.
///
/// # Errors
/// What is missing.
pub fn can_run() -> Result<(), String> {
    let missing = [
        (!rustix::process::geteuid().is_root(), "root"),
        (!Path::new("/dev/net/tun").exists(), "/dev/net/tun"),
        (Command::new("ip").arg("-V").output().is_err(), "iproute2"),
        (!etcd::is_installed(), "etcd (Debian: etcd-server)"),
    ];
    let missing: Vec<&str> =
        missing.iter().filter(|(missing, _)| *missing).map(|(_, what)| *what).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("needs {}", missing.join(", "))) }
}

fn saved_path(name: &str) -> PathBuf {
    PathBuf::from(format!("/run/penstock-lab-{name}.json"))
}

impl Lab {
    /// Makes a lab with the options of `penstock-lab up`, daemons started, joined and paired, or
    /// with `--bare` hosts and networks alone. It goes when the value is dropped. Blocks for some
    /// seconds.
    ///
    /// # Errors
    /// The options are wrong, something is missing, or a daemon does not start: the message has the
    /// end of its log.
    pub fn up(options: &[&str]) -> anyhow::Result<Self> {
        let options: Vec<String> = options.iter().map(|&word| word.to_owned()).collect();
        let mut lab = Self::of(options)?;
        lab.owned = true;
        let (spec, (ready, is_ready)) = (lab.spec.clone(), mpsc::channel());
        lab.emulator = Some(std::thread::spawn(move || {
            emulator::run(&spec, || {
                // Nobody waits for it any more if the other end is gone.
                let _ = ready.send(());
            })
        }));
        match is_ready.recv_timeout(BUILD) {
            Ok(()) => {}
            Err(RecvTimeoutError::Timeout) => bail!("the networks take too long to build"),
            Err(RecvTimeoutError::Disconnected) => {
                let ended = lab.emulator.take().and_then(|thread| thread.join().ok());
                let why = ended.and_then(Result::err).context("the emulator has panicked")?;
                return Err(why.context("build the networks"));
            }
        }
        if !lab.spec.bare {
            lab.start()?;
        }
        Ok(lab)
    }

    /// A lab that is to be: its options understood, its directory named.
    pub(crate) fn of(options: Vec<String>) -> anyhow::Result<Self> {
        let spec = Spec::read(&options)?;
        let root = spec.root.clone();
        let root = root
            .unwrap_or_else(|| std::env::temp_dir().join(format!("penstock-lab-{}", spec.name)));
        let root = std::path::absolute(&root).context("find the lab's directory")?;
        let penstock = match &spec.penstock {
            Some(path) => path.clone(),
            None => {
                std::env::current_exe().context("find this program")?.with_file_name("penstock")
            }
        };
        let penstock = std::path::absolute(&penstock).context("find `penstock`")?;
        let saved = Saved { options, ..Saved::default() };
        Ok(Self { spec, root, penstock, saved, owned: false, emulator: None })
    }

    /// The lab of that name, which was made by hand.
    ///
    /// # Errors
    /// There is none with daemons.
    pub fn find(name: &str) -> anyhow::Result<Self> {
        let path = saved_path(name);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("no lab `{name}` with daemons is up ({})", path.display()))?;
        let saved: Saved = serde_json::from_str(&text).context("read how the lab was made")?;
        let mut lab = Self::of(saved.options.clone())?;
        lab.saved = saved;
        Ok(lab)
    }

    /// Remembers what runs, for later commands.
    ///
    /// # Errors
    /// The file below /run cannot be written.
    pub(crate) fn save(&self) -> anyhow::Result<()> {
        if self.owned {
            return Ok(());
        }
        let path = saved_path(&self.spec.name);
        let text = serde_json::to_string(&self.saved).context("write how the lab is")?;
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    /// Makes the directories, starts etcd and daemons, joins and pairs them. Networks are there.
    ///
    /// # Errors
    /// A program is missing, the directory is taken, or a daemon does not start.
    pub(crate) fn start(&mut self) -> anyhow::Result<()> {
        if !self.penstock.exists() {
            let path = self.penstock.display();
            bail!("there is no `{path}`: build it (`cargo build -p penstock`), or say --penstock");
        }
        fs::create_dir(&self.root)
            .with_context(|| format!("make {}, which must not exist", self.root.display()))?;
        self.saved.made_root = true;
        self.save()?;
        let sites = self.sites();
        for site in 0..sites {
            for directory in [self.store_of(site), self.journal_of(site), self.mount_of(site)] {
                fs::create_dir(&directory)
                    .with_context(|| format!("make {}", directory.display()))?;
            }
            if self.has_etcd(site) {
                for number in 0..etcd::MEMBERS {
                    self.start_member(site, number)?;
                }
            }
        }
        for site in 0..sites {
            self.start_site(site)?;
        }
        for second in 1..sites {
            for first in 0..second {
                self.pair(first, second)?;
            }
        }
        Ok(())
    }

    /// Sites of the lab.
    pub(crate) fn sites(&self) -> usize {
        usize::from(self.spec.sites)
    }

    /// Whether a site is one of several peers.
    pub(crate) fn has_etcd(&self, site: usize) -> bool {
        self.spec.peers_of(site) > 1
    }

    /// The directory that is a site's store `data`.
    pub(crate) fn store_of(&self, site: usize) -> PathBuf {
        self.root.join(format!("store-{}", letter(site)))
    }

    /// The directory that is a site's journal store.
    pub(crate) fn journal_of(&self, site: usize) -> PathBuf {
        self.root.join(format!("journal-{}", letter(site)))
    }

    /// Where each peer of a site has the store mounted, in a mount namespace of its own.
    pub(crate) fn mount_of(&self, site: usize) -> PathBuf {
        self.root.join(format!("mnt-{}", letter(site)))
    }

    /// The directory that is the store `data` of a site (`a`).
    ///
    /// # Panics
    /// The lab has no such site.
    pub fn store(&self, site: char) -> PathBuf {
        let number = host_of(&format!("{site}0")).map(|(site, _)| site);
        self.store_of(number.filter(|&site| site < self.sites()).expect("a site of the lab"))
    }

    /// The hosts of a site (`a`): a0, a1 ...
    pub fn hosts(&self, site: char) -> Vec<String> {
        let number = host_of(&format!("{site}0")).map_or(0, |(site, _)| site);
        (0..self.spec.peers_of(number)).map(|host| format!("{site}{host}")).collect()
    }

    /// The directory of everything in the lab.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A program inside the namespace of a host, as which the lab's `penstock` works with that
    /// host's daemon.
    pub fn inside(&self, host: &str, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &format!("{}-{host}", self.spec.name)]).arg(program);
        command.env("PENSTOCK_DIR", self.directory(host)).env("NO_COLOR", "1");
        command
    }

    /// Says something to the emulator: `cut a0.net1`, `restore net2`, `set b0.net1 rate=10m`,
    /// `stat`. Its answer.
    ///
    /// # Errors
    /// It does not run, or does not understand it.
    pub fn tell(&self, line: &str) -> anyhow::Result<String> {
        ask(&self.spec.name, line)
    }

    /// Cuts all networks between the sites, silently; or restores them.
    ///
    /// # Errors
    /// As [`Lab::tell`].
    pub fn partition(&self, cut: bool) -> anyhow::Result<()> {
        let verb = if cut { "cut" } else { "restore" };
        for network in 0..self.spec.networks() {
            self.tell(&format!("{verb} net{network}"))?;
        }
        Ok(())
    }

    /// Bytes that an interface of a host has received and sent, by its own counters.
    ///
    /// # Errors
    /// There is no such host or interface.
    pub fn bytes(&self, host: &str, device: &str) -> anyhow::Result<u64> {
        let files =
            ["rx", "tx"].map(|way| format!("/sys/class/net/{device}/statistics/{way}_bytes"));
        let output = self.inside(host, "cat").args(files).output().context("start `ip`")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let counts: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
        match counts.as_slice() {
            [received, sent] => Ok(received + sent),
            _ => bail!("{host} has no interface {device}"),
        }
    }

    /// Kills a member of a site's etcd (`b1`).
    ///
    /// # Errors
    /// There is no such member.
    pub fn kill_member(&mut self, name: &str) -> anyhow::Result<()> {
        let member = self.saved.members.get_mut(name);
        member.with_context(|| format!("there is no member {name}"))?.kill()
    }

    /// Starts a member of a site's etcd that was killed.
    ///
    /// # Errors
    /// There is no such member, or etcd does not start.
    pub fn resume_member(&mut self, name: &str) -> anyhow::Result<()> {
        if !self.saved.members.contains_key(name) {
            bail!("there is no member {name}");
        }
        let (site, number) = host_of(name).context("a member")?;
        self.start_member(site, number)
    }

    /// Ends all processes of the lab, and removes namespaces and files.
    ///
    /// # Errors
    /// The first thing that did not go; the rest is tried all the same.
    pub fn down(&mut self) -> anyhow::Result<()> {
        let mut outcome = Ok(());
        let mut note = |result: anyhow::Result<()>| {
            if outcome.is_ok() {
                outcome = result;
            }
        };
        for process in self.saved.daemons.values_mut().chain(self.saved.members.values_mut()) {
            note(process.kill());
        }
        // Nobody there: only namespaces may be left.
        let _ = ask(&self.spec.name, "down");
        if let Some(thread) = self.emulator.take() {
            note(thread.join().unwrap_or_else(|_| bail!("the emulator has panicked")));
        }
        note(network::remove(&self.spec.name));
        if std::mem::take(&mut self.saved.made_root) {
            note(fs::remove_dir_all(&self.root).context("remove the lab's directory"));
        }
        if !self.owned {
            let path = saved_path(&self.spec.name);
            note(fs::remove_file(&path).with_context(|| format!("remove {}", path.display())));
        }
        outcome
    }

    /// Sends a signal to the daemon of a host: `STOP`, `CONT`, `TERM`.
    ///
    /// # Errors
    /// No daemon runs there.
    pub(crate) fn signal(&self, host: &str, signal: Signal) -> anyhow::Result<()> {
        self.daemon(host)?.signal(signal)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.owned {
            // A test has ended, well or not: what does not go is seen by the next one.
            let _ = self.down();
        }
    }
}

/// Sends a command to the emulator; its reply.
///
/// # Errors
/// No emulator of that name runs, or what it answers.
pub(crate) fn ask(name: &str, line: &str) -> anyhow::Result<String> {
    let path = socket_path(name);
    let mut emulator =
        UnixStream::connect(&path).with_context(|| format!("no lab `{name}` is up ({path})"))?;
    emulator.write_all(format!("{line}\n").as_bytes()).context("ask the emulator")?;
    let mut reply = String::new();
    emulator.read_to_string(&mut reply).context("hear the emulator")?;
    match reply.strip_prefix(control::ERROR) {
        Some(error) => bail!("{}", error.trim()),
        None => Ok(reply),
    }
}
