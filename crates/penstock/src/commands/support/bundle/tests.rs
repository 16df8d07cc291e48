use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;

use flate2::read::GzDecoder;

use super::*;

/// Returns the files of an archive, by their names below its directory.
fn unpacked(path: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(path).unwrap()));
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        assert_eq!(entry.header().mode().unwrap(), 0o600);
        let name = entry.path().unwrap().strip_prefix("penstock-support").unwrap().to_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        files.insert(name.display().to_string(), text);
    }
    files
}

fn args(directory: &Path, output: &Path, redact_names: bool) -> BundleArgs {
    let directory = DirectoryArgs { directory: directory.to_owned() };
    BundleArgs { directory, output: Some(output.to_owned()), transfers: Vec::new(), redact_names }
}

/// A site directory with a secret in every place that may have one.
fn site_with_canaries(directory: &Path) -> Vec<&'static str> {
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    let config = "site = \"lab\"\npeer = \"h1\"\nlisten = \"127.0.0.1:7444\"\n\
                  [web]\nlisten = [\"127.0.0.1:0\"]\nnames = [\"hpc.example.org\"]\n\
                  [auth.oidc]\nissuer = \"https://sso.example.org/realms/lab\"\n\
                  client_id = \"penstock\"\nclient_secret_file = \"oidc.secret\"\n\
                  [notify]\ncommand = [\"/usr/bin/tell\", \"--key\", \"canary-argument\"]\n\
                  [[store]]\nname = \"raw\"\npath = \"/canary-store\"\n";
    write("penstock.toml", config);
    write("oidc.secret", "canary-client\n");
    let pem = "-----BEGIN PRIVATE KEY-----\ncanaryMIGHAgEAMBMG\n-----END PRIVATE KEY-----\n";
    write("trust/authority.key", pem);
    write("trust/receipt.key", "canary-receipt-key");
    write("etcd/password", "canary-etcd");
    let lines = [
        "etcd refused canary-etcd",
        "key canaryMIGHAgEAMBMG and canary-receipt-key are shown",
        "the provider refused canary-client",
        "POST https://hooks.example.org/canary-hook?x=canary-query failed",
        "https://anna:canary-url@hooks.example.org/",
        "authorization: Bearer canary.bearer",
        "password=canary-password",
        "pst1:canarypairing and pstk_canarytoken and whsec_canaryhook=",
    ];
    let event = |text: &&str| {
        let text = serde_json::to_string(text).unwrap();
        format!(
            "{{\"at_ms\":1,\"peer\":\"h1\",\"kind\":\"problem\",\"subject\":\"anna\",\
             \"text\":{text}}}\n"
        )
    };
    write("events.jsonl", &lines.iter().map(event).collect::<String>());
    let record = "{\"at\":\"2026-11-26T10:00:00Z\",\"count\":1,\"attempt\":1,\
                  \"kind\":\"attempt-end\",\"text\":\"cannot read `secret-plan/a.h5`: secret = \
                  canary-record\"}\n";
    write("flights/9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f.jsonl", record);
    vec![
        "canary-argument",
        "canary-client",
        "canaryMIGH",
        "canary-receipt",
        "canary-etcd",
        "canary-hook",
        "canary-query",
        "canary-url",
        "canary.bearer",
        "canary-password",
        "canarypairing",
        "canarytoken",
        "canaryhook",
        "canary-record",
    ]
}

/// Promise (E14): without a daemon there is a bundle all the same. It says what is missing, is for
/// its owner alone, replaces no file, and has none of the secrets that were planted in the site
/// directory, its events and its flight records.
#[test]
fn e14_a_bundle_without_a_daemon_has_no_secret() {
    let (site, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let canaries = site_with_canaries(site.path());
    let path = out.path().join("bundle.tar.gz");
    run(&args(site.path(), &path, false)).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let files = unpacked(&path);
    for canary in canaries {
        for (name, text) in &files {
            assert!(!text.contains(canary), "{name} has `{canary}`:\n{text}");
        }
    }
    for name in [
        "MANIFEST",
        "version.txt",
        "host.txt",
        "sysctl.txt",
        "settings.json",
        "config-check.txt",
        "doctor.json",
        "events.jsonl",
    ] {
        assert!(files.contains_key(name), "{name}: {:?}", files.keys());
    }
    let manifest = &files["MANIFEST"];
    assert!(manifest.contains("What could not be had:\n"), "{manifest}");
    assert!(manifest.contains("status.json"), "{manifest}");
    assert!(files["settings.json"].contains("/canary-store"), "what is no secret stays");
    assert!(files["events.jsonl"].contains("the provider refused [removed]"));
    let again = run(&args(site.path(), &path, false)).unwrap_err();
    assert_eq!(exit::code_of(&again), ExitCode::Refused);
}

/// Promise: faults of a configuration are told with their places, and without the lines and values
/// that may be secrets.
#[test]
fn faults_are_told_without_values() {
    let names = "site = \"lab\"\npeer = \"h1\"\nlisten = \"127.0.0.1:7444\"\n";
    let faulty = [
        "clientphrase = \"canary\"\n",
        "rights_file = \"canary\n",
        "[notify]\ncommand = [\"/usr/bin/tell\", \"canary\", 1]\n",
        "[web]\nlisten = \"canary, expected `x`\"\n",
        "[log]\nlevel = \"can`ary\"\n",
    ];
    for fault in faulty {
        let (site, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(site.path().join("penstock.toml"), format!("{names}{fault}")).unwrap();
        let path = out.path().join("bundle.tar.gz");
        run(&args(site.path(), &path, false)).unwrap();
        let files = unpacked(&path);
        for (name, text) in &files {
            assert!(!text.contains("canary") && !text.contains("can`ary"), "{name}: {text}");
        }
        let check = &files["config-check.txt"];
        assert!(check.contains("error: ") && check.contains("penstock.toml:"), "{check}");
        let is_of_value = fault.starts_with("[web]");
        assert!(!is_of_value || check.contains("string [removed], expected "), "{check}");
    }
}

/// Promise: `--redact-names` leaves no name of a file in what tells of transfers.
#[test]
fn names_of_files_are_replaced_if_asked_for() {
    let (site, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    site_with_canaries(site.path());
    let path = out.path().join("bundle.tar.gz");
    run(&args(site.path(), &path, true)).unwrap();
    let files = unpacked(&path);
    let flight = files.iter().find(|(name, _)| name.ends_with("flight.jsonl")).unwrap().1;
    assert!(flight.contains("cannot read `n-"), "{flight}");
    for (name, text) in &files {
        assert!(!text.contains("secret-plan"), "{name}: {text}");
    }
    let manifest = &files["MANIFEST"];
    assert!(manifest.contains("are pseudonyms") && manifest.contains("random key"), "{manifest}");
    for (name, text) in &files {
        assert!(!text.contains("anna"), "{name}: {text}");
    }
}

/// Promise: a bundle that cannot be written leaves no half of it.
#[test]
fn half_a_bundle_is_removed() {
    let out = tempfile::tempdir().unwrap();
    let path = out.path().join("bundle.tar.gz");
    drop(Archive::create(&path).unwrap());
    assert!(!path.exists());
    Archive::create(&path).unwrap().finish(&Collected::default(), 0, None).unwrap();
    assert!(path.exists());
}
