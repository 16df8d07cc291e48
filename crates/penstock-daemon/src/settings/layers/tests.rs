use std::os::unix::fs::PermissionsExt as _;

use penstock_api::settings::{SettingSource, SettingsView};
use tempfile::TempDir;

use super::*;

const MAIN: &str = "site = \"lab\"\npeer = \"dtn1\"\nrunning_max = 2\n[web]\nnames = [\"a.lab\"]\n";

/// A site directory and a system directory, each in a directory of the test.
struct Host {
    base: TempDir,
    layers: Layers,
}

impl Host {
    fn new(main: &str) -> Self {
        let base = tempfile::tempdir().unwrap();
        let (directory, system) = (base.path().join("site"), base.path().join("etc"));
        fs::create_dir_all(directory.join(DROP_INS)).unwrap();
        fs::create_dir_all(system.join(DROP_INS)).unwrap();
        let layers =
            Layers { directory, system: Some(system), environment: Vec::new(), flags: Vec::new() };
        let host = Self { base, layers };
        host.write("site/penstock.toml", main);
        host
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.base.path().join(path), text).unwrap();
    }

    fn environment(&mut self, name: &str, value: &str) {
        self.layers.environment.push((name.to_owned(), value.to_owned()));
    }

    fn faults(&self) -> Vec<SettingFault> {
        match self.layers.load() {
            Ok(loaded) => loaded.warnings,
            Err(error) => error.faults(),
        }
    }
}

fn source(view: &SettingsView, key: &str) -> String {
    let setting = view.settings.iter().find(|setting| setting.key == key);
    setting.unwrap_or_else(|| panic!("{key} in {view:?}")).source.to_string()
}

/// Promise: drop-ins count more than the main file, later ones more than earlier ones, then the
/// environment, then flags; each value has its origin.
#[test]
fn the_later_layer_counts_and_is_named() {
    let mut host = Host::new(MAIN);
    host.write("etc/conf.d/20-b.toml", "running_max = 4\n[web]\nlisten = [\"127.0.0.1:2\"]\n");
    host.write("etc/conf.d/10-a.toml", "running_max = 3\nlog = \"warn\"\n");
    host.write("etc/conf.d/30-c.toml.bak", "running_max = 5\n");
    host.write("site/conf.d/00-own.toml", "log = \"debug\"\n");
    host.environment("PENSTOCK_WEB__NAMES", "b.lab, 10.0.0.1");
    host.environment("PENSTOCK_DIR", "/elsewhere");
    host.layers = host.layers.clone().with_flag("cpus", "--cpus", Some(3.into()));
    let loaded = host.layers.load().unwrap();
    let config = &loaded.config;
    assert_eq!(
        (config.running_max, config.log.as_deref(), config.cpus),
        (4, Some("debug"), Some(3))
    );
    let web = config.web.as_ref().unwrap();
    assert_eq!((web.names.len(), web.listen[0].port()), (2, 2), "tables are merged");
    let view = loaded.view(false);
    assert_eq!(view.files.len(), 4);
    let at = |path: &str, line| format!("{}:{line}", host.base.path().join(path).display());
    assert_eq!(source(&view, "site"), at("site/penstock.toml", 1));
    assert_eq!(source(&view, "running_max"), at("etc/conf.d/20-b.toml", 1));
    assert_eq!(source(&view, "web.listen"), at("etc/conf.d/20-b.toml", 3));
    assert_eq!(source(&view, "log"), at("site/conf.d/00-own.toml", 1));
    assert_eq!(source(&view, "web.names"), "PENSTOCK_WEB__NAMES");
    assert_eq!(source(&view, "cpus"), "--cpus");
    assert_eq!(source(&view, "listen"), "default");
    let set = loaded.view(true);
    assert!(set.settings.iter().all(|setting| setting.source != SettingSource::Default));
}

/// Promise: a site of a former release continues unchanged. A main file in the site directory hides
/// that of the system. The latter counts if the site directory has none and it has a setting.
#[test]
fn one_main_file_counts() {
    let host = Host::new(MAIN);
    host.write("etc/penstock.toml", "site = \"other\"\npeer = \"p\"\nlog = \"trace\"\n");
    let config = host.layers.load().unwrap().config;
    assert_eq!((config.site.as_str(), config.log), ("lab", None));
    fs::remove_file(host.base.path().join("site/penstock.toml")).unwrap();
    assert_eq!(host.layers.load().unwrap().config.site.as_str(), "other");
    host.write("etc/penstock.toml", "# A package installs it so.\n\n  # running_max = 6\n");
    assert!(host.layers.main_file().ends_with("site/penstock.toml"));
    assert!(matches!(host.layers.load(), Err(LoadError::Absent(_))));
    fs::remove_file(host.base.path().join("etc/penstock.toml")).unwrap();
    assert!(matches!(host.layers.load(), Err(LoadError::Absent(_))));
}

/// Promise: all faults are listed, each with its line, and an unknown key with the nearest one, or
/// with the table that it belongs in.
#[test]
fn all_faults_are_listed_with_their_places() {
    let host = Host::new(
        "site = \"Lab\"\npeer = \"dtn1\"\nrunning_max = \"four\"\nlisen = \"0.0.0.0:1\"\n\
         cpus = 0\nread_only = true\n\n[web]\nnames = [\"a b\"]\ncertificate = \"c.pem\"\n\n\
         [[store]]\nname = \"raw\"\npath = \"data\"\nraed = [\"hpc\"]\n\n[[store]]\nname = \"b\"\n",
    );
    let faults = host.faults();
    let found: Vec<_> = faults
        .iter()
        .map(|fault| (fault.line.unwrap_or_default(), fault.message.as_str()))
        .collect();
    let has = |line, part: &str| {
        assert!(
            found.iter().any(|(at, message)| *at == line && message.contains(part)),
            "{line} {part}: {found:#?}"
        );
    };
    has(1, "`site`");
    has(3, "`running_max`: invalid type");
    has(4, "unknown key `lisen`");
    has(5, "`cpus` must be at least 1");
    has(6, "unknown key `read_only`");
    has(9, "`a b` is neither a DNS name");
    has(10, "`certificate` and `key` belong together");
    has(14, "neither an absolute path");
    has(15, "unknown key `raed`");
    has(17, "the key `path` is missing in `store[1]`");
    assert_eq!(found.len(), 10, "{found:#?}");
    let of = |line| faults.iter().find(|fault| fault.line == Some(line)).unwrap();
    assert_eq!(of(4).nearest.as_deref(), Some("listen"));
    assert_eq!(of(15).nearest.as_deref(), Some("read"));
    assert_eq!(of(15).text.as_deref(), Some("raed = [\"hpc\"]"));
    assert!(of(6).hint.contains("[[store]]"), "{:?}", of(6));
    let text = Failure::from(host.layers.load().unwrap_err()).to_string();
    assert_eq!(text, "the configuration has 10 faults");
}

/// Promise: an element of a list that cannot be read takes neither the fault of another one away,
/// nor its place and number.
#[test]
fn faults_are_of_their_own_elements() {
    let host = Host::new(
        "site = \"lab\"\npeer = \"dtn1\"\n[[store]]\nname = \"a\"\npath = 5\n\
         [[store]]\nname = \"b\"\n[[store]]\nname = \"c\"\npath = \"c\"\nio = 7\n",
    );
    let faults = host.faults();
    let found: Vec<_> = faults
        .iter()
        .map(|fault| (fault.line.unwrap_or_default(), fault.message.as_str()))
        .collect();
    assert_eq!(found.len(), 4, "{found:#?}");
    assert!(found[0].0 == 5 && found[0].1.starts_with("`store[0].path`"), "{found:#?}");
    assert_eq!(found[1], (6, "the key `path` is missing in `store[1]`"));
    assert!(found[2].0 == 10 && found[2].1.contains("neither an absolute path"), "{found:#?}");
    assert!(found[3].0 == 11 && found[3].1.starts_with("`store[2].io`"), "{found:#?}");
}

/// Promise: keys that must be there are named all at once.
#[test]
fn what_is_missing_is_named() {
    let messages: Vec<_> = Host::new("").faults().into_iter().map(|it| it.message).collect();
    assert_eq!(messages, ["the key `site` is missing", "the key `peer` is missing"]);
}

/// Promise: a variable that no setting has, or whose text is wrong, is a fault that names it.
#[test]
fn faults_of_the_environment_are_named() {
    let mut host = Host::new(MAIN);
    host.environment("PENSTOCK_WEB__LISTNE", "127.0.0.1:1");
    host.environment("PENSTOCK_RUNNING_MAX", "many");
    host.environment("PENSTOCK_TOKEN", "of a client");
    let faults = host.faults();
    let place = |at: usize| faults[at].place.clone().unwrap();
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(place(0).contains("PENSTOCK_RUNNING_MAX"), "{faults:?}");
    assert_eq!(faults[1].nearest.as_deref(), Some("PENSTOCK_WEB__LISTEN"));
}

/// Promise: a secret that others may read, or that is in a file of the configuration, is an error.
/// A secret from the environment is used and never shown.
#[test]
fn secrets_are_kept() {
    let cluster = "site = \"lab\"\npeer = \"p\"\n[cluster]\netcd = [\"https://h:2379\"]\n\
                   journal = \"/shared\"\nuser = \"root\"\n";
    let mut host = Host::new(&format!("{cluster}password_file = \"secret\"\n"));
    host.write("site/secret", "hunter2");
    let secret = host.base.path().join("site/secret");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(host.faults()[0].message.contains("others may read"), "{:?}", host.faults());
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(host.faults(), []);
    host.write("site/penstock.toml", &format!("{cluster}password = \"hunter2\"\n"));
    let faults = host.faults();
    assert!(faults[0].message.contains("stands in no file"), "{faults:?}");
    assert!(!format!("{faults:?}").contains("hunter2"), "{faults:?}");
    // A value of another type, so that the parser has a text to show.
    host.write("site/penstock.toml", &format!("{cluster}password = 1234567\n"));
    assert!(!format!("{:?}", host.faults()).contains("1234567"), "{:?}", host.faults());
    host.environment("PENSTOCK_CLUSTER__PASSWORD", "hunter2");
    assert!(host.faults()[0].message.contains("stands in no file"), "{:?}", host.faults());
    host.write("site/penstock.toml", cluster);
    let loaded = host.layers.load().unwrap();
    let password = loaded.config.cluster.as_ref().unwrap().password.as_ref().unwrap();
    assert_eq!(password.expose(), "hunter2");
    let shown = serde_json::to_string(&loaded.view(false)).unwrap();
    assert!(!shown.contains("hunter2") && shown.contains("\"set\""), "{shown}");
}

/// Promise: if a folder of drop-ins cannot be listed, no configuration is read without its files:
/// rights that one of them removes would return.
#[test]
fn a_folder_that_cannot_be_listed_is_a_fault() {
    let host = Host::new(MAIN);
    assert!(host.layers.load_rights().is_ok());
    fs::remove_dir(host.base.path().join("site/conf.d")).unwrap();
    host.write("site/conf.d", "no folder");
    assert!(host.layers.load_rights().is_err());
    assert!(host.faults()[0].message.contains("cannot list"), "{:?}", host.faults());
}

/// Promise: overlapping stores, void rights, and missing features of this host are warnings, with
/// which the daemon starts.
#[test]
fn doubtful_statements_are_warnings() {
    let host = Host::new(&format!(
        "{MAIN}listen = [\"192.0.2.7:7443\"]\n[[store]]\nname = \"a\"\npath = \"/no/such\"\n\
         [[store]]\nname = \"b\"\npath = \"/no/such/b\"\nread_only = true\nwrite = [\"*\"]\n\
         [[network]]\nname = \"n\"\ninterface = \"none0\"\n"
    ));
    let read = host.layers.load();
    assert_eq!(read.as_ref().unwrap().warnings.len(), 2);
    let faults = host.layers.examine(read);
    let all = listed(&faults);
    assert!(faults.iter().all(|fault| fault.level == FaultLevel::Warning), "{all}");
    for part in ["overlap", "is read-only", "does not exist", "192.0.2.7", "`n` has no address"] {
        assert!(all.contains(part), "{part}: {all}");
    }
}

/// Promise: a change of any file is seen, also of one that comes or goes.
#[test]
fn a_change_of_any_file_is_seen() {
    let host = Host::new(MAIN);
    let first = host.layers.stamps();
    host.write("site/conf.d/a.toml", "log = \"warn\"\n");
    let second = host.layers.stamps();
    assert_ne!(first, second);
    host.write("site/conf.d/a.toml", "log = \"error\"\n");
    assert_ne!(host.layers.stamps(), second);
}

/// Promise: the accounts of each paired site are shown by its name, with the file that sets them.
/// The fault of a key outside of such a table names its right place.
#[test]
fn accounts_are_shown_by_site() {
    let host = Host::new(MAIN);
    host.write(
        "site/conf.d/10-a.toml",
        "[accounts.hpc]\nall = \"xfer\"\nusers = { anna = \"am17\" }\n",
    );
    let view = host.layers.load().unwrap().view(false);
    let file = host.base.path().join("site/conf.d/10-a.toml");
    assert_eq!(source(&view, "accounts[hpc].all"), format!("{}:2", file.display()));
    assert_eq!(source(&view, "accounts[hpc].tell_users"), "default");
    let users = view.settings.iter().find(|it| it.key == "accounts[hpc].users").unwrap();
    assert_eq!(users.value, serde_json::json!({ "anna": "am17" }));
    host.write("site/conf.d/10-a.toml", "tell_users = true\n");
    let faults = host.faults();
    assert!(faults[0].hint.contains("`[accounts.SITE]`"), "{faults:?}");
}
