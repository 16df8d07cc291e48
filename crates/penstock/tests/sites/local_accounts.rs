//! The socket for accounts of the host, used by processes of other users.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use penstock_api::access::{Principal, Right, Role, Via};
use penstock_api::endpoints::{Endpoint, FOLLOW_TRANSFERS, LOG_IN, ROTATE_KEYS, TABLE};
use penstock_testkit::{Site, Wait, penstock, program_of_others, told};
use rustix::process::Signal;
use serde_json::Value;

use super::accounts::{ANNA, BEN, NOT_AUTHORISED, Person, World, give, set_mode, start};

const OLGA: u32 = 61_004;
const VERA: u32 = 61_005;
const BOSS: u32 = 61_006;
/// The group whose accounts may connect.
const SOCKET_GROUP: u32 = 61_020;

/// A site with a socket for accounts.
struct Host {
    site: Site,
    /// The directory of the socket.
    run: PathBuf,
    /// The lines that make the socket.
    lines: String,
    world: World,
}

impl Host {
    fn start(test: &str) -> Option<Self> {
        let world = World::new(test)?;
        let mut site = world.site("hpc");
        let run = world.base.path().join("run");
        let lines = format!(
            "[auth]\nsocket_group = \"penstock\"\nsocket = \"{}/penstock.sock\"\n[auth.unix]\n\
             anna = \"anna\"\n\"@ops\" = \"role:operator\"\n\"@look\" = \"role:viewer\"\n\
             \"@users\" = \"self\"\n",
            run.display()
        );
        site.set_config(&format!("{}\n{lines}", site.config()));
        start(&mut site);
        Some(Self { site, run, lines, world })
    }

    fn socket(&self) -> PathBuf {
        self.run.join("penstock.sock")
    }

    /// A command of the command line as a user of the host, who is in a group.
    fn command(&self, (user, group): (u32, u32), args: &[&str]) -> Command {
        let mut command = Command::new(program_of_others(self.world.base.path()));
        command.env("NO_COLOR", "1").stdin(Stdio::null());
        command.args(args).uid(user).gid(group).current_dir("/");
        command.env("PENSTOCK_DIR", &self.run).env("HOME", "/nonexistent");
        command
    }

    fn run(&self, user: u32, args: &[&str]) -> Output {
        self.command((user, SOCKET_GROUP), args).output().unwrap()
    }

    fn ok(&self, user: u32, args: &[&str]) -> String {
        let output = self.run(user, args);
        assert!(output.status.success(), "{args:?} as {user}: {}", told(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn refused(&self, user: u32, args: &[&str]) -> String {
        let output = self.run(user, args);
        assert_eq!(output.status.code(), Some(NOT_AUTHORISED), "{args:?}: {}", told(&output));
        told(&output)
    }

    fn me(&self, user: u32) -> Value {
        serde_json::from_str(&self.ok(user, &["whoami", "--json"])).unwrap()
    }

    /// A request by curl, as a user of the host.
    fn curl(&self, user: u32, endpoint: &Endpoint) -> Command {
        let mut path = endpoint.path.to_owned();
        while let Some((begin, rest)) = path.split_once('{') {
            let end = rest.split_once('}').unwrap().1;
            path = format!("{begin}nope{end}");
        }
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--no-buffer", "--max-time", "60", "--unix-socket"]);
        curl.arg(self.socket()).args(["--request", endpoint.method.as_str()]);
        curl.arg(format!("http://penstock{path}")).uid(user).gid(SOCKET_GROUP).current_dir("/");
        curl
    }

    fn reload(&self, config: &str) {
        let reloads = || self.site.log_text().matches("the configuration was reloaded").count();
        let before = reloads();
        self.site.set_config(config);
        self.site.signal(Signal::HUP);
        Wait::new("the reload").is(|| reloads() > before);
    }
}

/// Promise (C1): a person on the host is its user, without a password: it submits as that user, and
/// its files are those of its account; `GET /me` is the same as with a token. It sees and steers
/// what its role allows, and each change has its line in the audit log.
#[test]
fn accounts_are_their_users() {
    let Some(host) = Host::start("accounts_are_their_users") else { return };
    let mode = fs::metadata(host.socket()).unwrap();
    assert_eq!((mode.mode() & 0o777, mode.gid()), (0o660, SOCKET_GROUP));
    let closed = fs::metadata(&host.site.dir).unwrap().mode() & 0o077;
    assert_eq!(closed, 0, "the directory of the keys stays closed");
    let anna = Person::of(&host.site, "anna", "anna");
    give(&host.site.store.join("set/own"), "own", (ANNA, ANNA), 0o600);
    set_mode(&host.site.store.join("set"), 0o755);
    let id = host.ok(ANNA, &["transfer", "submit", "hpc:data/set/", "hpc:data/copy"]);
    let id = id.trim();
    host.ok(ANNA, &["transfer", "wait", id]);
    let view: Value =
        serde_json::from_str(&host.ok(ANNA, &["transfer", "show", id, "--json"])).unwrap();
    assert_eq!((&view["state"], &view["owner"]), (&"done".into(), &"anna".into()), "{view}");
    assert_eq!(fs::metadata(host.site.store.join("copy/own")).unwrap().uid(), ANNA);
    let by_token = penstock().args(["whoami", "--json"]).envs(anna.variables).output().unwrap();
    let mut by_token: Value = serde_json::from_slice(&by_token.stdout).unwrap();
    let mut me = host.me(ANNA);
    assert_eq!((&me["via"], &me["via_id"]), (&"socket".into(), &"anna".into()));
    for view in [&mut me, &mut by_token] {
        view["via"] = Value::Null;
        view["via_id"] = Value::Null;
    }
    assert_eq!(me, by_token);
    let text = host.ok(ANNA, &["whoami"]);
    assert!(text.contains("as its account `anna`"), "{text}");
    // Ben has no user yet, then one that neither sees nor steers what is hers.
    let why = host.refused(BEN, &["transfer", "list"]);
    assert!(why.contains("penstock user set ben"), "{why}");
    host.site.ok(&["user", "set", "ben", "--role", "user"]);
    assert!(host.ok(BEN, &["transfer", "list", "--json"]).trim().is_empty());
    assert!(!host.run(BEN, &["transfer", "cancel", id]).status.success());
    host.refused(BEN, &["transfer", "submit", "hpc:data/set/", "hpc:data/ben"]);
    // An operator by a group has no user, sees all, and steers all.
    let olga = host.me(OLGA);
    assert_eq!((&olga["user"], &olga["role"]), (&"olga".into(), &"operator".into()));
    assert!(host.ok(OLGA, &["transfer", "list", "--json"]).contains(id));
    host.ok(OLGA, &["queue", "share", "anna", "3"]);
    host.refused(OLGA, &["user", "list"]);
    host.refused(OLGA, &["token", "create", "--user", "anna"]);
    assert!(!host.run(OLGA, &["token", "create"]).status.success(), "it is no user");
    let audit = host.site.ok(&["audit", "list", "--json"]);
    for (user, via) in [("anna", "socket uid 61001 (anna)"), ("olga", "socket uid 61004 (olga)")] {
        let lines = audit.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let found = lines
            .filter(|line| line["actor"] == user || line["user"] == user)
            .any(|line| line["via"] == via);
        assert!(found, "{user}: {audit}");
    }
    // Tries at passwords would have no address that bounds them.
    let mut log_in = host.curl(VERA, &LOG_IN);
    log_in.args(["--header", "content-type: application/json", "--data", "{}"]);
    let text = String::from_utf8(log_in.output().unwrap().stdout).unwrap();
    assert!(text.contains("login-off"), "{text}");
    assert_eq!(host.me(0)["role"], "administrator", "root is root at this socket too");
}

/// Promise: who is not in the group does not connect; an account that nothing maps is refused, and
/// so is one whose name a user has that the entry does not mean.
#[test]
fn other_accounts_are_refused() {
    let Some(host) = Host::start("other_accounts_are_refused") else { return };
    let outside = host.command((ANNA, ANNA), &["whoami"]).output().unwrap();
    assert_eq!(outside.status.code(), Some(NOT_AUTHORISED), "{}", told(&outside));
    assert!(told(&outside).contains("group of its socket"), "{}", told(&outside));
    let nobody = host.refused(61_003, &["whoami"]);
    assert!(nobody.contains("account `xfer`") && nobody.contains("auth.unix"), "{nobody}");
    let unknown = host.refused(61_999, &["whoami"]);
    assert!(unknown.contains("no account of number 61999"), "{unknown}");
    assert_eq!(host.me(VERA)["role"], "viewer");
    host.site.ok(&["user", "set", "vera", "--role", "administrator"]);
    let taken = host.refused(VERA, &["whoami"]);
    assert!(taken.contains("may be another person"), "{taken}");
    let mut own = host.command((ANNA, ANNA), &["whoami", "--dir"]);
    let own = own.arg(&host.site.dir).output().unwrap();
    assert_eq!(own.status.code(), Some(NOT_AUTHORISED), "{}", told(&own));
}

/// Promise: a user that is locked out is refused at once, and its streams end; a reload takes the
/// entries and the socket away, and brings them back.
#[test]
fn rights_at_the_socket_end() {
    let Some(host) = Host::start("rights_at_the_socket_end") else { return };
    host.site.ok(&["user", "set", "anna", "--role", "user"]);
    assert_eq!(host.me(ANNA)["user"], "anna");
    let mut stream = host.curl(ANNA, &FOLLOW_TRANSFERS).stdout(Stdio::null()).spawn().unwrap();
    let served = || host.site.ok(&["user", "list"]);
    assert!(served().contains("anna") && stream.try_wait().unwrap().is_none());
    host.site.ok(&["user", "set", "anna", "--disable"]);
    assert!(host.refused(ANNA, &["whoami"]).contains("--enable"));
    Wait::new("the end of the stream").is(|| stream.try_wait().unwrap().is_some());
    host.site.ok(&["user", "set", "anna", "--enable"]);
    // Not only a lock: an entry that names somebody else ends streams too.
    let mut stream = host.curl(ANNA, &FOLLOW_TRANSFERS).stdout(Stdio::null()).spawn().unwrap();
    assert!(served().contains("anna") && stream.try_wait().unwrap().is_none());
    let config = host.site.config();
    host.reload(&config.replace("anna = \"anna\"\n", "anna = \"ben\"\n"));
    assert!(host.refused(ANNA, &["whoami"]).contains("no user `ben`"));
    Wait::new("the end of the stream").is(|| stream.try_wait().unwrap().is_some());
    host.reload(&config.replace(&host.lines, ""));
    assert!(!host.socket().exists());
    host.reload(&config);
    assert_eq!(host.me(ANNA)["user"], "anna");
}

/// Promise (C2, C3): each operation at the socket for accounts is done for those whose role has the
/// right that the table of endpoints names, and refused to others; those of root to all of them.
#[test]
fn each_operation_at_the_socket_needs_its_right() {
    let Some(host) = Host::start("each_operation_at_the_socket_needs_its_right") else { return };
    host.site.ok(&["user", "set", "anna", "--role", "user"]);
    host.site.ok(&["user", "set", "boss", "--role", "administrator"]);
    let callers = [
        (VERA, Role::Viewer),
        (ANNA, Role::User),
        (OLGA, Role::Operator),
        (BOSS, Role::Administrator),
    ];
    let endpoints = TABLE.iter().flat_map(|group| group.endpoints);
    for endpoint in endpoints.filter(|it| **it != &ROTATE_KEYS && **it != &FOLLOW_TRANSFERS) {
        for (uid, role) in callers {
            let (user, account) = ("anna".parse().unwrap(), "anna".parse().unwrap());
            let via = Via::Account { uid, account, role: None };
            let (scopes, grants) = (None, [].into());
            let principal = Principal { user, role, via, scopes, grants, account: None };
            let may = endpoint.right == Right::Public || principal.check(endpoint.right).is_ok();
            let mut curl = host.curl(uid, endpoint);
            if !endpoint.method.as_str().eq("GET") {
                curl.args(["--header", "content-type: application/json", "--data", "{}"]);
            }
            let text = String::from_utf8(curl.output().unwrap().stdout).unwrap();
            let refused = text.contains("lacks the right `");
            assert_eq!(!refused, may, "{} as {role}: {text}", endpoint.name);
        }
    }
}
