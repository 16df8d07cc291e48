//! Stores that are used as accounts of users, by daemons of root.
//!
//! The accounts are those of a passwd and a group file that lie over the host's within the mount
//! namespace of each daemon: `anna`, who is in the group `team`, `ben`, `toor`, who is root by
//! another name, `xfer`, to whom a paired site is mapped, and `olga`, `vera` and `boss`, who use
//! the socket for accounts.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use penstock_testkit::{Scratch, Site, Wait, is_root, penstock, program, told};

const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nanna:x:61001:61001::/:/bin/sh\n\
                      ben:x:61002:61002::/:/bin/sh\ntoor:x:0:0::/root:/bin/sh\n\
                      xfer:x:61003:61003::/:/bin/sh\nolga:x:61004:61030::/:/bin/sh\n\
                      vera:x:61005:61005::/:/bin/sh\nboss:x:61006:61006::/:/bin/sh\n";
const GROUP: &str = "root:x:0:\nanna:x:61001:\nben:x:61002:\nxfer:x:61003:\nteam:x:61010:anna\n\
                     penstock:x:61020:\nops:x:61030:\nlook:x:61040:vera\n\
                     users:x:61050:anna,ben,boss\n";
pub(super) const ANNA: u32 = 61_001;
pub(super) const BEN: u32 = 61_002;
const XFER: u32 = 61_003;
const TEAM: u32 = 61_010;
/// Exit status of a command that lacks a right.
pub(super) const NOT_AUTHORISED: i32 = 12;

/// Sites whose daemons know these accounts.
pub(super) struct World {
    pub(super) base: Scratch,
    passwd: PathBuf,
    group: PathBuf,
}

impl World {
    pub(super) fn new(test: &str) -> Option<Self> {
        if !is_root(test) {
            return None;
        }
        let base = Scratch::on_disk();
        set_mode(base.path(), 0o755);
        let (passwd, group) = (base.path().join("passwd"), base.path().join("group"));
        fs::write(&passwd, PASSWD).unwrap();
        fs::write(&group, GROUP).unwrap();
        Some(Self { base, passwd, group })
    }

    /// A site with an API over HTTPS and a mapped store `data`, not started.
    pub(super) fn site(&self, name: &'static str) -> Site {
        let mut site = Site::init(self.base.path(), name, None);
        site.reconfigure("name = \"data\"\n", "name = \"data\"\naccount = \"mapped\"\n");
        site.set_config(&format!("{}\n[web]\nlisten = [\"127.0.0.1:0\"]\n", site.config()));
        set_mode(&site.store, 0o1777);
        let lay = "mount --bind \"$1\" /etc/passwd && mount --bind \"$2\" /etc/group && \
                   shift 2 && exec \"$@\"";
        let mut launcher = Command::new("unshare");
        launcher.args(["--mount", "--propagation", "private", "sh", "-c", lay, "sh"]);
        launcher.arg(&self.passwd).arg(&self.group).arg(program());
        site.launch_by(&launcher);
        site
    }
}

pub(super) fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Makes a file of a user, and its directory.
pub(super) fn give(path: &Path, content: &str, (uid, gid): (u32, u32), mode: u32) {
    let directory = path.parent().unwrap();
    if !directory.exists() {
        fs::create_dir(directory).unwrap();
        chown(directory, Some(uid), Some(gid)).unwrap();
    }
    fs::write(path, content).unwrap();
    chown(path, Some(uid), Some(gid)).unwrap();
    set_mode(path, mode);
}

/// A user of a site, who works over HTTPS.
pub(super) struct Person {
    pub(super) variables: Vec<(&'static str, String)>,
    /// Where its commands run, and list what has failed.
    directory: PathBuf,
}

impl Person {
    pub(super) fn of(site: &Site, name: &str, account: &str) -> Self {
        let grant = "data=list,read,write";
        site.ok(&["user", "set", name, "--role", "user", "--grant", grant, "--account", account]);
        let token = site.ok(&["token", "create", "--user", name]).trim().to_owned();
        let log = site.log_text();
        let line = log.lines().rfind(|line| line.contains("served over HTTPS")).unwrap();
        let address = line.rsplit("address=").next().unwrap().trim();
        let ca = site.dir.join("ca.pem");
        fs::write(&ca, site.ok(&["site", "ca"])).unwrap();
        let variables = vec![
            ("PENSTOCK_URL", format!("https://{address}")),
            ("PENSTOCK_CA", ca.display().to_string()),
            ("PENSTOCK_TOKEN", token),
        ];
        Self { variables, directory: site.dir.clone() }
    }

    fn transfer(&self, from: &str, to: &str) -> Output {
        let mut command = penstock();
        command.args(["transfer", "submit", from, to, "--wait"]);
        command.current_dir(&self.directory);
        command.envs(self.variables.clone()).output().unwrap()
    }
}

pub(super) fn start(site: &mut Site) {
    site.start();
    site.until_log("the API is served over HTTPS");
}

/// Checks that no thread of a daemon has been left with the rights of a user.
fn assert_own(site: &Site) {
    let tasks = fs::read_dir(format!("/proc/{}/task", site.process())).unwrap();
    for task in tasks.map(Result::unwrap) {
        let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
        for key in ["Uid:", "Gid:"] {
            let line = status.lines().find(|line| line.starts_with(key)).unwrap();
            assert_eq!(line.split_whitespace().nth(4), Some("0"), "{line} in {status}");
        }
    }
}

/// Promise: through the daemon a user reads what its account may read, by its groups too, and
/// nothing else; what it writes is its own. Directories that are closed to it are not listed.
#[test]
fn a_user_reads_and_writes_as_its_account() {
    let Some(world) = World::new("a_user_reads_and_writes_as_its_account") else { return };
    let mut site = world.site("hpc");
    start(&mut site);
    let (anna, ben) = (Person::of(&site, "anna", "anna"), Person::of(&site, "ben", "ben"));
    let set = site.store.join("set");
    give(&set.join("open"), "open", (ANNA, ANNA), 0o644);
    give(&set.join("own"), "own", (ANNA, ANNA), 0o600);
    give(&set.join("team"), "team", (BEN, TEAM), 0o640);
    set_mode(&set, 0o755);
    let told_all = anna.transfer("hpc:data/set/", "hpc:data/copy");
    assert!(told_all.status.success(), "{}", told(&told_all));
    for name in ["open", "own", "team"] {
        let copied = site.store.join("copy").join(name);
        assert_eq!(fs::read_to_string(&copied).unwrap(), name);
        let made = fs::metadata(&copied).unwrap();
        assert_eq!(made.uid(), ANNA, "{name}");
    }
    assert_eq!(fs::metadata(site.store.join("copy")).unwrap().uid(), ANNA);
    // Ben is not in the group of that file, which is his own, and may not read Anna's.
    let refused = ben.transfer("hpc:data/set/", "hpc:data/ben");
    assert!(!refused.status.success());
    assert!(told(&refused).contains("own"), "{}", told(&refused));
    assert!(!site.store.join("ben/own").exists());
    assert_eq!(fs::read_to_string(site.store.join("ben/team")).unwrap(), "team");
    assert_eq!(fs::metadata(site.store.join("ben/open")).unwrap().uid(), BEN);
    // Nor may he write among hers, or look into what is closed.
    let refused = ben.transfer("hpc:data/ben/", "hpc:data/copy");
    assert!(!refused.status.success(), "{}", told(&refused));
    give(&site.store.join("closed/secret"), "secret", (ANNA, ANNA), 0o644);
    set_mode(&site.store.join("closed"), 0o700);
    let refused = ben.transfer("hpc:data/closed/", "hpc:data/ben2");
    assert!(!refused.status.success(), "{}", told(&refused));
    assert!(!site.store.join("ben2/secret").exists());
    assert_own(&site);
}

/// Promise: a transfer that cannot have an account is refused when it is submitted, with the reason
/// and the remedy; root at the socket is root.
#[test]
fn a_transfer_without_an_account_is_refused() {
    let Some(world) = World::new("a_transfer_without_an_account_is_refused") else { return };
    let mut site = world.site("hpc");
    start(&mut site);
    give(&site.store.join("set/open"), "open", (ANNA, ANNA), 0o644);
    for (account, why) in [
        ("none", "penstock user set"),
        ("nobody-here", "no account `nobody-here`"),
        ("toor", "rights of root"),
    ] {
        let refused = Person::of(&site, "anna", account).transfer("hpc:data/set", "hpc:data/x/");
        assert_eq!(refused.status.code(), Some(NOT_AUTHORISED), "{}", told(&refused));
        assert!(told(&refused).contains(why), "{}", told(&refused));
    }
    assert!(site.ok(&["transfer", "list", "--json"]).trim().is_empty());
    site.ok(&["transfer", "submit", "hpc:data/set", "hpc:data/x/", "--wait"]);
    assert_eq!(fs::metadata(site.store.join("x/set/open")).unwrap().uid(), ANNA, "as it was");
    assert_own(&site);
}

/// Promise: a transfer that a restart of the daemon cuts short continues as the account that it had
/// when it was submitted.
#[test]
fn a_resumed_transfer_keeps_its_account() {
    let Some(world) = World::new("a_resumed_transfer_keeps_its_account") else { return };
    let mut site = world.site("hpc");
    start(&mut site);
    for number in 0..200 {
        give(&site.store.join(format!("set/{number}")), "x", (ANNA, ANNA), 0o600);
    }
    let anna = Person::of(&site, "anna", "anna");
    let mut command = penstock();
    command.args([
        "transfer",
        "submit",
        "hpc:data/set/",
        "hpc:data/copy",
        "--max-metadata-ops",
        "60",
    ]);
    let submitted = command.envs(anna.variables.clone()).output().unwrap();
    assert!(submitted.status.success(), "{}", told(&submitted));
    let copy = site.store.join("copy");
    Wait::new("the first files").is(|| fs::read_dir(&copy).is_ok_and(|found| found.count() > 20));
    // The account of the user is another one by now, for what is submitted later.
    site.ok(&["user", "set", "anna", "--account", "ben"]);
    site.kill();
    start(&mut site);
    Wait::new("all files").is(|| {
        let found = fs::read_dir(&copy).unwrap().map(Result::unwrap);
        found.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')).count() == 200
    });
    let owners = fs::read_dir(&copy).unwrap().map(|entry| entry.unwrap().metadata().unwrap().uid());
    assert!(owners.into_iter().all(|uid| uid == ANNA));
    assert_own(&site);
}

/// Promise: a paired site has the account that it is mapped to, each of its users the own one where
/// that site tells them; a site that is not mapped has none.
#[test]
fn a_paired_site_has_its_account() {
    let Some(world) = World::new("a_paired_site_has_its_account") else { return };
    let (mut lab, mut hpc) = (world.site("lab"), world.site("hpc"));
    lab.set_config(&format!("{}\n[accounts.hpc]\ntell_users = true\n", lab.config()));
    start(&mut lab);
    start(&mut hpc);
    hpc.pair(&lab);
    give(&lab.store.join("set/own"), "own", (ANNA, ANNA), 0o600);
    let anna = Person::of(&lab, "anna", "anna");
    let refused = anna.transfer("lab:data/set/", "hpc:data/a");
    assert_eq!(refused.status.code(), Some(NOT_AUTHORISED), "{}", told(&refused));
    let map = "[accounts.lab]\nall = \"xfer\"\nusers = { ben = \"ben\" }\n";
    hpc.set_config(&format!("{}\n{map}", hpc.config()));
    let done = anna.transfer("lab:data/set/", "hpc:data/a");
    assert!(done.status.success(), "{}", told(&done));
    assert_eq!(fs::metadata(hpc.store.join("a/own")).unwrap().uid(), XFER);
    let ben = Person::of(&lab, "ben", "ben");
    give(&lab.store.join("set/own"), "own", (BEN, BEN), 0o600);
    let done = ben.transfer("lab:data/set/", "hpc:data/b");
    assert!(done.status.success(), "{}", told(&done));
    assert_eq!(fs::metadata(hpc.store.join("b/own")).unwrap().uid(), BEN);
    assert_own(&lab);
    assert_own(&hpc);
}

/// Promise: a daemon that may not change the user of its threads refuses at submission, and says
/// what it lacks.
#[test]
fn a_daemon_without_the_right_refuses() {
    let Some(world) = World::new("a_daemon_without_the_right_refuses") else { return };
    let mut site = world.site("hpc");
    let lay = "mount --bind \"$1\" /etc/passwd && mount --bind \"$2\" /etc/group && shift 2 && \
               exec setpriv --bounding-set -setuid,-setgid --inh-caps -setuid,-setgid \"$@\"";
    let mut launcher = Command::new("unshare");
    launcher.args(["--mount", "--propagation", "private", "sh", "-c", lay, "sh"]);
    launcher.arg(&world.passwd).arg(&world.group).arg(program());
    site.launch_by(&launcher);
    start(&mut site);
    give(&site.store.join("set/open"), "open", (ANNA, ANNA), 0o644);
    let refused = Person::of(&site, "anna", "anna").transfer("hpc:data/set", "hpc:data/x/");
    assert_eq!(refused.status.code(), Some(NOT_AUTHORISED), "{}", told(&refused));
    assert!(told(&refused).contains("CAP_SETUID"), "{}", told(&refused));
    site.ok(&["transfer", "submit", "hpc:data/set", "hpc:data/x/", "--wait"]);
}
