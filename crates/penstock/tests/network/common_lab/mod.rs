//! Two real sites in network namespaces, with several interfaces each, joined by the laboratory.

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::common_net::{PATIENCE, Site, has_ended, pair, penstock, scratch, told};

/// Labs of one test binary run one at a time: links are to limit, not the processors.
static TURN: Mutex<()> = Mutex::new(());

/// Whether such a test can run here; says loudly if not.
pub fn can_run(test: &str) -> bool {
    let able = rustix::process::geteuid().is_root()
        && Path::new("/dev/net/tun").exists()
        && Command::new("ip").arg("-V").output().is_ok();
    if !able {
        println!("SKIPPED: {test} needs root, iproute2 and /dev/net/tun");
    }
    able
}

/// A lab that is taken down at the end, whatever happens.
pub struct Lab(penstock_lab::Lab);

impl Lab {
    /// Brings one up; `options` are those of `penstock-lab up --bare`.
    pub fn up(test: &str, options: &[&str]) -> Self {
        let name = format!("t{}-{test}", std::process::id());
        let options = [&["--bare", "--name", &name], options].concat();
        Self(penstock_lab::Lab::up(&options).unwrap())
    }

    /// Runs a command of the lab, which must succeed.
    pub fn ok(&self, verb: &str, options: &[&str]) {
        self.0.tell(&format!("{verb} {}", options.join(" "))).unwrap();
    }

    /// A program inside the namespace of a host.
    pub fn inside(&self, host: &str, program: &str) -> Command {
        self.0.inside(host, program)
    }

    /// Bytes that an interface of a host has received and sent, by its own counters.
    pub fn bytes(&self, host: &str, device: &str) -> u64 {
        self.0.bytes(host, device).unwrap()
    }
}

/// A site whose daemon runs at a host of a lab.
pub struct LabSite {
    site: Site,
    host: String,
}

impl Deref for LabSite {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl DerefMut for LabSite {
    fn deref_mut(&mut self) -> &mut Site {
        &mut self.site
    }
}

impl LabSite {
    /// Makes the site, with `networks` as the rest of its configuration.
    fn init(root: &Path, name: &'static str, networks: &str) -> Self {
        let (dir, store) = (root.join(format!("site-{name}")), root.join(format!("store-{name}")));
        fs::create_dir(&store).unwrap();
        let mut command = penstock();
        command
            .args(["site", "init", "--name", name, "--write=*", "--delete=*", "--dir"])
            .arg(&dir);
        let output = command.arg(format!("--store=data={}", store.display())).output().unwrap();
        assert!(output.status.success(), "{}", told(&output));
        let site = Self { site: Site::adopt(name, dir, store), host: format!("{name}0") };
        let config = site.config() + networks;
        fs::write(site.dir.join("penstock.toml"), config).unwrap();
        site
    }

    /// The text of its configuration.
    pub fn config(&self) -> String {
        fs::read_to_string(self.dir.join("penstock.toml")).unwrap()
    }

    /// Starts the daemon in its namespace, and waits until it listens.
    pub fn start(&mut self, lab: &Lab) {
        let command = lab.inside(&self.host, env!("CARGO_BIN_EXE_penstock"));
        let line = self.site.launch(command, &[]);
        assert!(line.starts_with("ready"), "site {}: {line}", self.name);
    }

    /// Waits until `is` holds of a transfer.
    pub fn until(&self, id: &str, is: impl Fn(&Value) -> bool) -> Value {
        wait_for(|| Some(self.show(id)).filter(|view| is(view)), || self.show(id).to_string())
    }

    /// Waits until a transfer has verified so many bytes.
    pub fn until_bytes(&self, id: &str, bytes: u64) {
        self.until(id, |view| view["progress"]["bytes_verified"].as_u64().unwrap_or(0) >= bytes);
    }

    /// Waits until a transfer is done.
    pub fn until_done(&self, id: &str) -> Value {
        let view = self.until(id, has_ended);
        assert_eq!(view["state"], "done", "{view}");
        view
    }

    /// The paths to `other` as the site sees them.
    pub fn paths(&self, other: &str) -> Value {
        serde_json::from_str(&self.ok(&["site", "paths", other, "--json"])).unwrap()
    }
}

/// Waits until `look` gives something; `last` says what was seen if it never does.
pub fn wait_for<T>(mut look: impl FnMut() -> Option<T>, last: impl Fn() -> String) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain: {}", last());
        // What is waited for is progress of other processes, which tell nobody.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A lab with one host at each of two sites, `a` and `b`, which run and are paired. Of the fields
/// the sites end first, then the lab.
pub struct LabWorld {
    pub a: LabSite,
    pub b: LabSite,
    pub lab: Lab,
    _root: TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl LabWorld {
    /// Brings all of it up; both sites have the same networks.
    pub fn new(test: &str, options: &[&str], networks: &str) -> Self {
        Self::with(test, options, [networks, networks])
    }

    /// The same, with other networks at each site.
    pub fn with(test: &str, options: &[&str], networks: [&str; 2]) -> Self {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let lab = Lab::up(test, options);
        let root = scratch();
        let mut a = LabSite::init(root.path(), "a", networks[0]);
        let mut b = LabSite::init(root.path(), "b", networks[1]);
        a.start(&lab);
        b.start(&lab);
        pair(&a, &b);
        Self { a, b, lab, _root: root, _turn: turn }
    }
}
