//! MooseFS on loopback: a master, chunk servers and clients, each a process of the test, in a
//! directory and a network namespace of its own (chunk servers refuse a master at 127.0.0.1). The
//! clients are mounted at several places of one host and represent several hosts: each has caches
//! and a session of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::program::{signal, told};
use crate::site::print_tail;
use crate::wait::Wait;

/// Address of all daemons, in their namespace.
const ADDRESS: &str = "10.97.0.1";
/// Port of the first chunk server.
const CHUNK_PORT: usize = 9500;
/// Programs that a test needs, and the package of each.
const PROGRAMS: [(&str, &str); 5] = [
    ("ip", "iproute2"),
    ("mfsmaster", "moosefs-master"),
    ("mfschunkserver", "moosefs-chunkserver"),
    ("mfsmount", "moosefs-client"),
    ("mfssetgoal", "moosefs-client"),
];

/// A file system that is there as long as this lives.
pub struct MooseFs {
    root: PathBuf,
    namespace: String,
    master: Option<Child>,
    chunk_servers: Vec<Option<Child>>,
    clients: Vec<Option<Child>>,
}

fn program(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    // Services lie outside the PATH of users.
    command.env("PATH", format!("{path}:/usr/sbin:/sbin")).stdin(Stdio::null());
    command
}

/// Runs `ip` on a namespace.
fn ip(args: &[&str]) {
    let output = program("ip").args(args).output().unwrap();
    assert!(output.status.success(), "ip {args:?}: {}", told(&output));
}

fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns why MooseFS cannot be run here, if it cannot.
fn lacks() -> Option<String> {
    for (name, package) in PROGRAMS {
        if program(name).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
            return Some(format!("there is no {name}; scripts/setup.sh installs it ({package})"));
        }
    }
    if !rustix::process::geteuid().is_root() {
        return Some("needs root, to mount".to_owned());
    }
    let fuse = File::options().read(true).write(true).open("/dev/fuse");
    fuse.err().map(|error| format!("/dev/fuse cannot be used: {error}"))
}

impl MooseFs {
    /// Starts it below `root`, with copies of everything on two of the chunk servers; `None`, which
    /// it prints, where that cannot be.
    pub fn start(root: &Path, chunk_servers: usize, clients: usize) -> Option<Self> {
        if let Some(why) = lacks() {
            println!("SKIPPED: {why}");
            return None;
        }
        let root = root.join("moosefs");
        let data = root.join("master");
        fs::create_dir_all(&data).unwrap();
        fs::write(data.join("metadata.mfs"), "MFSM NEW").unwrap();
        fs::write(root.join("exports"), "* / rw,alldirs,maproot=0\n").unwrap();
        let text = format!(
            "DATA_PATH = {}\nEXPORTS_FILENAME = {}\n{COMMON}",
            data.display(),
            root.join("exports").display()
        );
        fs::write(root.join("master.cfg"), text).unwrap();
        let (mut servers, mut mounts) = (Vec::new(), Vec::new());
        servers.resize_with(chunk_servers, || None);
        mounts.resize_with(clients, || None);
        let namespace = format!("pst-moose-{:08x}", rand::random::<u32>());
        ip(&["netns", "add", &namespace]);
        let mut moose =
            Self { root, namespace, master: None, chunk_servers: servers, clients: mounts };
        ip(&["-n", &moose.namespace, "link", "set", "lo", "up"]);
        ip(&["-n", &moose.namespace, "addr", "add", &format!("{ADDRESS}/32"), "dev", "lo"]);
        moose.master = Some(moose.daemon("mfsmaster", "master.cfg"));
        let log = moose.root.join("master.log");
        Wait::new("the master").is(|| {
            fs::read_to_string(&log).is_ok_and(|text| text.contains("initialized properly"))
        });
        (0..chunk_servers).for_each(|number| moose.start_chunk_server(number));
        (0..clients).for_each(|number| moose.mount(number));
        let root = moose.path(0);
        let copies = chunk_servers.min(2).to_string();
        let probe = root.join("probe");
        Wait::new("the chunk servers").is(|| {
            rustix::fs::statvfs(&root).is_ok_and(|told| told.f_bavail > 0)
                && fs::write(&probe, [1; 4096]).is_ok()
        });
        fs::remove_file(probe).unwrap();
        // Told by the mount, which listens in its namespace.
        let set = moose.inside("mfssetgoal").args(["-r", &copies]).arg(root).output().unwrap();
        assert!(set.status.success(), "{set:?}");
        Some(moose)
    }

    /// Starts a chunk server, again if it was killed.
    fn start_chunk_server(&mut self, number: usize) {
        let port = CHUNK_PORT + number;
        let name = format!("chunks-{number}");
        let (data, disk) = (self.root.join(&name), self.root.join(format!("{name}-disk")));
        fs::create_dir_all(&data).unwrap();
        fs::create_dir_all(&disk).unwrap();
        let disks = data.join("disks");
        fs::write(&disks, format!("{}\n", disk.display())).unwrap();
        let text = format!(
            "DATA_PATH = {}\nHDD_CONF_FILENAME = {}\nMASTER_HOST = {ADDRESS}\n\
             CSSERV_LISTEN_HOST = {ADDRESS}\nCSSERV_LISTEN_PORT = {port}\n\
             HDD_LEAVE_SPACE_DEFAULT = 0\nMASTER_RECONNECTION_DELAY = 1\n{COMMON}",
            data.display(),
            disks.display(),
        );
        fs::write(self.root.join(format!("{name}.cfg")), text).unwrap();
        self.chunk_servers[number] = Some(self.daemon("mfschunkserver", &format!("{name}.cfg")));
    }

    /// Kills a chunk server by `kill -9`.
    pub fn kill_chunk_server(&mut self, number: usize) {
        kill(self.chunk_servers[number].as_mut().unwrap());
        self.chunk_servers[number] = None;
    }

    /// Mounts a client, again if it was killed.
    pub fn mount(&mut self, number: usize) {
        let path = self.path(number);
        fs::create_dir_all(&path).unwrap();
        let log = File::create(self.root.join(format!("client-{number}.log"))).unwrap();
        let child = self
            .inside("mfsmount")
            .args(["-f", "-H", ADDRESS, "-o", "mfsioretries=10"])
            .arg(&path)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.clients[number] = Some(child);
        Wait::new("a client's mount").is(|| is_fuse(&path));
    }

    /// Kills a client by `kill -9`: data that it had not written to the servers is lost, and users
    /// get the error that the file system is not connected. The file system stays mounted.
    pub fn kill_client(&mut self, number: usize) {
        kill(self.clients[number].as_mut().unwrap());
        self.clients[number] = None;
    }

    /// Stops a client: processes that use it wait in the kernel until it resumes.
    pub fn pause_client(&self, number: usize) {
        self.signal(number, Signal::STOP);
    }

    /// Resumes a client that was stopped.
    pub fn resume_client(&self, number: usize) {
        self.signal(number, Signal::CONT);
    }

    fn signal(&self, number: usize, name: Signal) {
        if let Some(client) = &self.clients[number] {
            signal(client.id(), name);
        }
    }

    /// Takes away the mount of a client that was killed.
    pub fn unmount(&mut self, number: usize) {
        let _ = program("umount").arg("-l").arg(self.path(number)).status();
    }

    /// Returns a command in the namespace of the network; files and mounts are those of the test.
    fn inside(&self, name: &str) -> Command {
        let mut command = program("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.namespace)).arg(name);
        command
    }

    fn daemon(&self, name: &str, config: &str) -> Child {
        let mut log = File::options();
        let log = log.create(true).append(true);
        let log = log.open(self.root.join(config).with_extension("log")).unwrap();
        self.inside(name)
            .args(["-f", "-n", "-c", config, "start"])
            .current_dir(&self.root)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap()
    }

    /// Returns the master's changes to a file, with the seconds of its clock.
    pub fn changes(&self, inode: u64) -> String {
        let text = fs::read_to_string(self.root.join("master/changelog.0.mfs")).unwrap_or_default();
        let of = |line: &&str| line.contains(&format!("({inode},"));
        text.lines().filter(of).fold(String::new(), |all, line| all + line + "\n")
    }

    /// Returns the mount point of a client.
    pub fn path(&self, number: usize) -> PathBuf {
        self.root.join(format!("host-{number}"))
    }
}

/// Configuration of all daemons: they run as the user that started them, and do not change the
/// host's limits.
const COMMON: &str = "WORKING_USER = root\nWORKING_GROUP = root\nNICE_LEVEL = 0\n\
                      DISABLE_OOM_KILLER = 0\n";

fn is_fuse(path: &Path) -> bool {
    rustix::fs::statfs(path).is_ok_and(|told| told.f_type as u32 == 0x6573_5546)
}

impl Drop for MooseFs {
    fn drop(&mut self) {
        // Looking at the mount of one that is stopped would never end.
        (0..self.clients.len()).for_each(|number| self.resume_client(number));
        for number in 0..self.clients.len() {
            if is_fuse(&self.path(number)) || self.clients[number].is_none() {
                self.unmount(number);
            }
            self.clients[number].as_mut().map(kill);
        }
        for child in self.chunk_servers.iter_mut().chain([&mut self.master]) {
            child.as_mut().map(kill);
        }
        let _ = program("ip").args(["netns", "del", &self.namespace]).status();
        if std::thread::panicking() {
            for name in ["master.log", "client-0.log", "chunks-0.log"] {
                print_tail(&self.root.join(name), 15);
            }
        }
    }
}
