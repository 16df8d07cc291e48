//! The configuration of a real daemon: checked before the start, shown with its layers, reloaded
//! while it runs.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;
use std::sync::Arc;

use penstock_net::trust::web_client_config;
use penstock_testkit::{Scratch, Signal, Site, Wait, penstock, told};
use reqwest::Client;
use serde_json::Value;
use tokio::runtime::Runtime;

fn site(base: &Scratch, more: &str) -> Site {
    let site = Site::init(base.path(), "hpc", None);
    site.set_config(&format!("{}\n{more}", site.config()));
    site
}

fn shown(site: &Site) -> Value {
    let text = site.ok(&["config", "show", "--effective", "--json"]);
    serde_json::from_str(&text).unwrap()
}

fn setting<'a>(view: &'a Value, key: &str) -> &'a Value {
    let settings = view["settings"].as_array().unwrap();
    settings.iter().find(|it| it["key"] == key).unwrap_or_else(|| panic!("{key} in {view}"))
}

fn list(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().filter_map(Value::as_str).collect()
}

/// Returns the address of the HTTPS API that the log names last.
fn url(site: &Site) -> String {
    let log = site.log_text();
    let mut lines = log.lines().rev();
    let line = lines.find(|line| line.contains("the API is served over HTTPS"));
    let address = line.and_then(|line| line.rsplit("address=").next()).unwrap();
    format!("https://{}/healthz", address.trim())
}

/// Promise: SIGHUP takes what a running daemon can take, names what counts at the next start only,
/// and a configuration with a fault leaves the old one in force as a whole.
#[test]
fn sighup_takes_what_it_can() {
    let base = Scratch::on_disk();
    let mut site = site(&base, "[web]\nlisten = [\"127.0.0.1:0\"]\n");
    site.environment.push(("PENSTOCK_WEB__NAMES", "localhost,dtn.hpc".to_owned()));
    site.start_with(&["--cpus", "1"]);
    let view = shown(&site);
    assert_eq!(setting(&view, "running_max")["value"], 4);
    assert_eq!(setting(&view, "cpus")["source"]["name"], "--cpus");
    assert_eq!(setting(&view, "web.names")["source"]["name"], "PENSTOCK_WEB__NAMES");
    assert_eq!(setting(&view, "site")["source"]["line"], 1);
    let old = site.config();
    let more = base.path().join("more");
    fs::create_dir(&more).unwrap();
    let new = old.replace("running_max = 4", "running_max = 7\nlog = \"debug\"");
    let new = new.replace("[\"127.0.0.1:0\"]", "[\"127.0.0.2:0\"]");
    let new = format!(
        "cipher_suites = [\"aes256-gcm\"]\n{new}\n[[store]]\nname = \"more\"\npath = \"{}\"\n",
        more.display()
    );
    site.set_config(&new);
    site.signal(Signal::HUP);
    site.until_log("the configuration was reloaded");
    let view = shown(&site);
    assert_eq!(setting(&view, "running_max")["value"], 7);
    assert_eq!(setting(&view, "log")["value"], "debug");
    assert_eq!(setting(&view, "store[more].path")["value"], more.to_str().unwrap());
    assert_eq!(list(&view["kept"]), ["cipher_suites"]);
    assert!(url(&site).contains("127.0.0.2"), "{}", site.log_text());
    assert!(site.ok(&["store", "list"]).contains("more"));
    site.set_config(&format!("{new}\nlisen = 1\n[wed]\n").replace("= 7", "= \"many\""));
    let output = site.run(&["config", "reload"]);
    let faults = told(&output);
    assert_eq!(output.status.code(), Some(2), "{faults}");
    assert!(faults.contains("did you mean `web`?"), "{faults}");
    assert!(faults.contains("`running_max`: invalid type"), "{faults}");
    assert_eq!(setting(&shown(&site), "running_max")["value"], 7);
    site.set_config(&old);
    let reload = site.ok(&["config", "reload", "--json"]);
    let reload: Value = serde_json::from_str(&reload).unwrap();
    assert_eq!(reload["reloaded"], true, "{reload}");
    let taken = list(&reload["taken"]);
    for key in ["running_max", "log", "web.listen", "store[more]"] {
        assert!(taken.contains(&key), "{key}: {reload}");
    }
    assert!(!site.ok(&["store", "list"]).contains("more"));
    site.stop();
}

/// Promise: after a rotation of the site's keys the HTTPS API shows a certificate of the new
/// authority, without a restart.
#[test]
fn the_certificate_follows_the_keys() {
    let base = Scratch::on_disk();
    let mut site = site(&base, "[web]\nlisten = [\"127.0.0.1:0\"]\n");
    site.start();
    site.until_log("the API is served over HTTPS");
    let (runtime, url) = (Runtime::new().unwrap(), url(&site));
    let answers = |ca: &str| {
        let tls = Arc::unwrap_or_clone(web_client_config(Some(ca.as_bytes()), None).unwrap());
        let client = Client::builder().tls_backend_preconfigured(tls).no_proxy().build().unwrap();
        runtime.block_on(client.get(&url).send()).is_ok()
    };
    let old = site.ok(&["site", "ca"]);
    assert!(answers(&old));
    site.ok(&["site", "rotate"]);
    let new = site.ok(&["site", "ca"]);
    assert_ne!(old, new);
    Wait::new("a certificate of the new authority").is(|| answers(&new));
    assert!(!answers(&old), "the old authority vouches for nothing any more");
    site.stop();
}

/// Promise: a check lists every fault with its line and ends with the documented code, and the
/// start of the daemon lists the same faults.
#[test]
fn a_check_and_a_start_list_the_same_faults() {
    let base = Scratch::on_disk();
    let site = site(&base, "");
    let check = || {
        let command = penstock().args(["config", "check", "--dir"]).arg(&site.dir).output();
        let output = command.unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(check(), (0, "0 errors, 0 warnings\n".to_owned()));
    let good = site.config();
    site.set_config(&format!("{good}\n[[store]]\nname = \"far\"\npath = \"/no/such\"\n"));
    let (code, text) = check();
    assert!(code == 3 && text.contains("`/no/such` does not exist"), "{code} {text}");
    site.set_config(&format!("lisen = 1\nrunning_mx = 2\n{good}"));
    let (code, text) = check();
    assert_eq!(code, 2, "{text}");
    let file = site.dir.join("penstock.toml");
    let output = penstock().args(["daemon", "--dir"]).arg(&site.dir).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let start = told(&output);
    for (line, key, nearest) in [(1, "lisen", "listen"), (2, "running_mx", "running_max")] {
        let place = format!("{}:{line}:1", file.display());
        for part in [&place, &format!("`{key}`"), &format!("did you mean `{nearest}`?")] {
            assert!(text.contains(part) && start.contains(part), "{part}: {text}\n{start}");
        }
    }
    // Files that are named are layers of their own.
    let (one, two) = (base.path().join("one.toml"), base.path().join("two.toml"));
    fs::write(&one, "site = \"a\"\npeer = \"b\"\nrunning_max = 0\n").unwrap();
    fs::write(&two, "running_max = 2\n").unwrap();
    let files = |files: &[&std::path::Path]| {
        let output = penstock().args(["config", "check"]).args(files).output().unwrap();
        output.status.code()
    };
    assert_eq!((files(&[&one]), files(&[&one, &two])), (Some(2), Some(0)));
}

/// Promise: a right is granted in the file that lists the stores, also where that is a drop-in.
#[test]
fn a_grant_goes_to_the_file_with_the_stores() {
    let base = Scratch::on_disk();
    let mut site = site(&base, "");
    let text = site.config();
    let (main, stores) = text.split_at(text.find("[[store]]").unwrap());
    let stores: Vec<_> = stores.lines().filter(|line| !line.starts_with("write")).collect();
    site.set_config(main);
    let folder = site.dir.join("conf.d");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("stores.toml"), stores.join("\n")).unwrap();
    site.start();
    site.ok(&["site", "grant", "far", "--write", "data"]);
    assert_eq!(site.config(), main);
    assert!(fs::read_to_string(folder.join("stores.toml")).unwrap().contains("write = [\"far\"]"));
    let listed = site.ok(&["store", "list"]);
    assert!(listed.contains("write: far"), "{listed}");
    site.stop();
}

/// Promise: the same answers give the same file, byte for byte, by prompts, by a file of answers
/// and by options; the output steers no terminal, and a daemon starts with the file.
#[test]
fn the_wizard_gives_one_file_by_each_way() {
    let base = Scratch::on_disk();
    let store = base.path().join("raw");
    fs::create_dir(&store).unwrap();
    let pairs = [
        ("site", "lab".to_owned()),
        ("peer", "h1".to_owned()),
        ("listen", "127.0.0.1:0".to_owned()),
        ("interfaces", "none".to_owned()),
        ("stores", format!("raw={}, bin=null:", store.display())),
        ("write", "hpc".to_owned()),
        ("web", "none".to_owned()),
        ("names", "auto".to_owned()),
        ("running_max", "6".to_owned()),
        ("cpus", "auto".to_owned()),
        ("log", "info".to_owned()),
    ];
    let run = |name: &str, args: &[String], input: &str| {
        let dir = base.path().join(name);
        let mut command = penstock();
        command.args(["config", "wizard"]).args(args).arg("--dir").arg(&dir).env("TERM", "dumb");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // One that fails early reads nothing.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = told(&output);
        assert!(!text.contains('\u{1b}'), "{text}");
        (output.status.code(), text, fs::read_to_string(dir.join("penstock.toml")).ok())
    };
    let lines: Vec<_> = pairs.iter().map(|(_, answer)| answer.as_str()).collect();
    let (code, text, asked) = run("asked", &[], &format!("{}\nyes\n", lines.join("\n")));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("+site = \"lab\""), "it shows the difference: {text}");
    let file = base.path().join("answers.toml");
    let answers = pairs.iter().map(|(key, answer)| format!("{key} = \"{answer}\"\n"));
    fs::write(&file, answers.collect::<String>()).unwrap();
    let options = ["--answers".to_owned(), file.to_str().unwrap().to_owned()];
    let (code, text, answered) = run("answered", &options, "");
    assert_eq!(code, Some(0), "{text}");
    let set = pairs.iter().flat_map(|(key, answer)| ["--set".into(), format!("{key}={answer}")]);
    let set: Vec<_> = set.chain(["--yes".into()]).collect();
    let (code, text, chosen) = run("chosen", &set, "");
    assert_eq!(code, Some(0), "{text}");
    assert!(asked.is_some() && asked == answered && asked == chosen, "{asked:?}\n{chosen:?}");
    // Without consent, or with a wrong answer, nothing is written.
    for (name, args, input, wanted) in [
        ("no", set[..set.len() - 1].to_vec(), "no\n", 6),
        ("early", Vec::new(), "lab\n", 2),
        ("wrong", vec!["--yes".into(), "--set".into(), "site=Lab".into()], "", 2),
        ("dry", [set.clone(), vec!["-n".into()]].concat(), "", 0),
    ] {
        let (code, text, written) = run(name, &args, input);
        assert_eq!((code, written), (Some(wanted), None), "{name}: {text}");
    }
    let mut site = Site::adopt("lab", base.path().join("chosen"), store.clone());
    site.start();
    assert_eq!(setting(&shown(&site), "running_max")["value"], 6);
    let more = ["config", "wizard", "--yes", "--set", "running_max=7"];
    assert!(site.ok(&more).contains("+running_max = 7"));
    assert!(site.ok(&["config", "reload"]).contains("in force: running_max"));
    assert_eq!(site.ok(&more), "nothing to change\n");
    site.stop();
}
