//! Replaces names of files and users by pseudonyms, the same for the same name in all bundles of a
//! site.
//!
//! A pseudonym is a keyed hash, and the key comes from a secret of the site: who does not have it
//! cannot try names. Names of sites, stores, peers and hosts stay, and so do the places of stores:
//! without them a bundle tells little.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use penstock_api::problem::ProblemCode;
use regex::{Captures, Regex};
use serde_json::Value;

use super::collected::{Collected, CollectedFile};

/// What the key of the pseudonyms is derived for (BLAKE3, key derivation).
const CONTEXT: &str = "penstock 2026-11-26 pseudonyms of support bundles";
/// Fields of JSON whose text is a name of a user, an account or a label.
const NAME_FIELDS: &[&str] = &["owner", "user", "label", "account", "by", "group", "actor"];
/// Keys of settings whose values have names of users and accounts.
const USER_SETTINGS: &[&str] = &["auth.unix", "accounts"];
/// Fields of JSON whose text is a path, or a text of names alone.
const PATH_FIELDS: &[&str] = &["path"];
/// Shortest name of a user or a label that is replaced within texts.
const WORD_CHARS_MIN: usize = 3;
/// Parts of paths that are the same on every host, and words that quotes of messages have.
const COMMON: &[&str] = &[
    "", ".", "..", "bin", "dev", "etc", "home", "lib", "local", "mnt", "opt", "penstock", "proc",
    "root", "run", "sbin", "self", "srv", "sys", "tmp", "usr", "var", "journal", "trust", "etcd",
    "kernel", "net", "core", "ipv4", "api", "v1", "http", "https",
];

/// A span between backquotes, and a text with a slash in it.
static SPANS: LazyLock<[Regex; 2]> = LazyLock::new(|| {
    // Constants, and a test uses both.
    [r"`(?P<span>[^`\n]+)`", r"(?P<span>[\w.@%+~-]*(?:/[\w.@%+~-]+)+/?)"]
        .map(|pattern| Regex::new(pattern).unwrap_or_else(|error| panic!("{error}")))
});

/// A name of a user in a line of a log or of mounts.
static USERS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?x) \b (?: user | username | owner | account | login ) \\* ["']? [=:] \s*
        \\* ["'`]? (?P<name> [^\s"'`\\,;:(){}\[\]]+ )"#;
    Regex::new(pattern).unwrap_or_else(|error| panic!("{error}"))
});

/// The pseudonyms of one site.
#[derive(Debug)]
pub(super) struct Pseudonyms {
    key: [u8; 32],
    is_of_site: bool,
    /// Names that stay.
    kept: BTreeSet<String>,
    /// Names of users and labels, longest first.
    words: Vec<String>,
}

impl Pseudonyms {
    /// Returns the pseudonyms of the site of a directory, for the names in these files. A process
    /// that cannot read the key that all peers of the site share has a random one.
    pub(super) fn of(directory: &Path, files: &[CollectedFile]) -> Self {
        let shared = fs::read(directory.join("trust/capability.key"));
        let is_of_site = shared.is_ok();
        let secret = shared.unwrap_or_else(|_| rand::random::<[u8; 32]>().to_vec());
        let key = blake3::derive_key(CONTEXT, &secret);
        let mut kept: BTreeSet<String> = COMMON.iter().map(|&word| word.to_owned()).collect();
        let mut words = BTreeSet::new();
        for file in files {
            for value in values_of(&file.text) {
                gather(&value, &mut kept, &mut words);
            }
            let found = USERS.captures_iter(&file.text).map(|found| found["name"].to_owned());
            words.extend(found.filter(|name| !is_common(name)));
        }
        words.retain(|word| {
            let is_none = word == "[removed]" || word.parse::<u64>().is_ok();
            word.chars().count() >= WORD_CHARS_MIN && !is_none && !kept.contains(word)
        });
        let mut words: Vec<_> = words.into_iter().collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        Self { key, is_of_site, kept, words }
    }

    /// Returns whether all bundles of the site have the same pseudonyms.
    pub(super) fn is_of_site(&self) -> bool {
        self.is_of_site
    }

    /// Replaces the names in all files.
    pub(super) fn replace(&self, collected: &mut Collected) {
        for file in &mut collected.files {
            if file.names_items {
                file.text = self.in_items(&file.text);
            } else {
                file.text = self.in_words(&file.text);
            }
        }
        for (_, why) in &mut collected.missing {
            *why = self.in_text(why);
        }
    }

    /// Replaces names in JSON, JSON Lines or text about files.
    fn in_items(&self, text: &str) -> String {
        if let Ok(mut value) = serde_json::from_str::<Value>(text) {
            self.in_value(&mut value);
            return serde_json::to_string_pretty(&value).unwrap_or_default() + "\n";
        }
        let mut out = String::new();
        for line in text.lines() {
            match serde_json::from_str::<Value>(line) {
                Ok(mut value) if value.is_object() => {
                    self.in_value(&mut value);
                    out += &value.to_string();
                }
                _ => out += &self.in_text(line),
            }
            out.push('\n');
        }
        out
    }

    fn in_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.in_text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.in_value(value)),
            Value::Object(fields) => {
                for (name, mut value) in std::mem::take(fields) {
                    match &mut value {
                        Value::String(text) if NAME_FIELDS.contains(&name.as_str()) => {
                            *text = self.of_name(text);
                        }
                        Value::String(text) if PATH_FIELDS.contains(&name.as_str()) => {
                            *text = self.of_path(text);
                        }
                        value => self.in_value(value),
                    }
                    let name = match name.contains('/') {
                        true => self.of_path(&name),
                        false if self.words.contains(&name) => self.of_name(&name),
                        false => name,
                    };
                    fields.insert(name, value);
                }
            }
            _ => {}
        }
    }

    /// Replaces names in words for people: known ones, and what is quoted or looks like a path.
    fn in_text(&self, text: &str) -> String {
        let quoted = SPANS[0].replace_all(text, |found: &Captures<'_>| {
            let span = &found["span"];
            let shown = if is_order(span) { span.to_owned() } else { self.of_path(span) };
            format!("`{shown}`")
        });
        let paths = SPANS[1].replace_all(&quoted, |found: &Captures<'_>| {
            let is_unit =
                ["bit/s", "MB/s", "operations/s"].iter().any(|it| found["span"].ends_with(it));
            if is_unit { found[0].to_owned() } else { self.of_path(&found["span"]) }
        });
        self.in_words(&paths)
    }

    /// Replaces names of users and labels where they are whole words.
    fn in_words(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for word in &self.words {
            text = replace_word(&text, word, &self.of_name(word));
        }
        text
    }

    /// Returns a path, or a place as `site:store/path`, with pseudonyms for its parts.
    fn of_path(&self, path: &str) -> String {
        let of_part = |part: &str| {
            let names: Vec<_> = part.split(':').map(|name| self.of_name(name)).collect();
            names.join(":")
        };
        path.split('/').map(of_part).collect::<Vec<_>>().join("/")
    }

    /// Returns the pseudonym of a name; the name itself if it stays.
    fn of_name(&self, name: &str) -> String {
        let is_pseudonym = name.len() == 12 && name.starts_with("n-");
        if is_pseudonym || name == "[removed]" || self.kept.contains(name) {
            return name.to_owned();
        }
        let hash = blake3::keyed_hash(&self.key, name.as_bytes());
        format!("n-{}", &hash.to_hex()[..10])
    }
}

/// Returns the objects of JSON or JSON Lines.
fn values_of(text: &str) -> Vec<Value> {
    match serde_json::from_str(text) {
        Ok(value) => vec![value],
        Err(_) => text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
    }
}

/// Gathers the names of sites, stores, peers and the places of stores, which stay, and the names of
/// users and labels.
fn gather(value: &Value, kept: &mut BTreeSet<String>, words: &mut BTreeSet<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| gather(value, kept, words)),
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value.as_str()) {
                    ("site" | "store" | "peer" | "from_peer" | "to_peer" | "code", Some(text)) => {
                        kept.insert(text.to_owned());
                    }
                    ("place", Some(text)) => kept.extend(text.split('/').map(str::to_owned)),
                    (
                        "owner" | "user" | "label" | "account" | "by" | "group" | "actor",
                        Some(text),
                    ) => {
                        words.insert(text.to_owned());
                    }
                    ("subject", Some(text)) if !is_of_site(text) => {
                        words.insert(text.to_owned());
                    }
                    _ => gather(value, kept, words),
                }
            }
            let text_of = |name: &str| fields.get(name).and_then(Value::as_str);
            if text_of("kind") == Some("user") {
                words.extend(text_of("name").map(str::to_owned));
            }
            let key = text_of("key").unwrap_or_default();
            if USER_SETTINGS.iter().any(|setting| key.starts_with(setting)) {
                fields.get("value").into_iter().for_each(|value| gather_users(value, words));
            }
        }
        _ => {}
    }
}

/// Gathers the names in the value of a setting about users: keys, and texts below them.
fn gather_users(value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::String(text) if !text.starts_with("role:") && !is_common(text) => {
            words.insert(text.to_owned());
        }
        Value::Array(values) => values.iter().for_each(|value| gather_users(value, words)),
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = name.trim_start_matches('@');
                words.extend((!is_common(name)).then(|| name.to_owned()));
                gather_users(value, words);
            }
        }
        _ => {}
    }
}

/// Returns whether a span is a command of this program, or an option.
fn is_order(span: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|it| it.is_ascii_lowercase() || it == '-')
    };
    match span.strip_prefix("penstock ") {
        Some(rest) => rest.split(' ').next().is_some_and(is_word),
        None => span.strip_prefix("--").is_some_and(is_word),
    }
}

/// Returns whether a word is one of settings and messages, and no name of a user.
fn is_common(word: &str) -> bool {
    ["all", "users", "tell_users", "self", "none", "null", "true", "false", "user", "site"]
        .contains(&word)
}

/// Returns whether the subject of an event is a transfer or a problem. Sites, stores and peers stay
/// by their names, alone or with more words behind them.
fn is_of_site(subject: &str) -> bool {
    let is_id = subject.len() == 32 && subject.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut known = ProblemCode::TABLE.iter().flat_map(|group| group.codes);
    is_id || subject.contains(' ') || subject == "transfers" || known.any(|it| it.code == subject)
}

/// Replaces a word where no letter or digit is beside it.
fn replace_word(text: &str, word: &str, by: &str) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(word) {
        let (before, from) = rest.split_at(at);
        let after = &from[word.len()..];
        let is_part = |side: Option<char>| side.is_some_and(char::is_alphanumeric);
        let is_within = is_part(before.chars().next_back()) || is_part(after.chars().next());
        out += before;
        out += if is_within { word } else { by };
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collected() -> Collected {
        let mut collected = Collected::default();
        let transfer = r#"{"owner":"anna","label":"beamtime 7","state":"failed",
            "source":{"site":"lab","store":"raw","path":"secret/plan.h5"},
            "reason":"cannot open `secret/plan.h5` of store `raw`: permission denied",
            "failures":{"first":[{"path":"secret/b-2026T10:00:00.h5","code":"denied",
            "message":"cannot open: permission denied"}]}}"#;
        collected.add_items("transfer.json", "", transfer.to_owned());
        let log = "anna writes lab:raw/secret/plan.h5 at 3.5 Mbit/s; see `penstock doctor`\n\
                   `--files-from` moves just `penstock set7.h5`\n\
                   {\"path\":\"secret/plan.h5\",\"text\":\"annabel stays\"}\n";
        collected.add_items("log.txt", "", log.to_owned());
        let events = "{\"subject\":\"berta\",\"by\":\"carla\",\"group\":\"guests\",\
                      \"kind\":\"x\",\"text\":\"of emil\"}\n\
                      {\"subject\":\"store-offline\",\"counts\":{\"berta\":1}}\n";
        collected.add_items("events.jsonl", "", events.to_owned());
        let settings = r#"{"settings":[{"key":"auth.unix","value":{"doris":"emil","@team":"self"}},
            {"key":"accounts.hpc.users","value":{"fritz":"gerda"}}]}"#;
        collected.add("settings.json", "", settings.to_owned());
        let text = "rw,username=hanna,uid=0\nopened user=ingo owner=\"jonas\"\n";
        collected.add("devices.txt", "", text.to_owned());
        let stores = r#"{"items":[{"store":"raw","place":"/data/raw"}]}"#;
        collected.add("stores.json", "", stores.to_owned());
        collected
    }

    /// Promise: no name of a file, a user or a label stays; names that help do, and the text stays
    /// readable; a name has one pseudonym, in every file and in every bundle of a site.
    #[test]
    fn names_have_one_pseudonym() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("trust")).unwrap();
        fs::write(directory.path().join("trust/capability.key"), "a key").unwrap();
        let replaced = || {
            let mut collected = collected();
            Pseudonyms::of(directory.path(), &collected.files).replace(&mut collected);
            collected.files.into_iter().map(|file| file.text).collect::<Vec<_>>()
        };
        let texts = replaced();
        assert_eq!(texts, replaced());
        for name in
            ["anna ", "\"anna\"", "secret", "plan.h5", "2026T10", "beamtime", "penstock set"]
        {
            assert!(!texts.concat().contains(name), "{name}: {texts:?}");
        }
        let users = ["berta", "carla", "guests", "doris", "emil", "team", "fritz", "gerda"];
        for name in users.iter().chain(&["hanna", "ingo", "jonas"]) {
            assert!(!texts.concat().contains(name), "{name}: {texts:?}");
        }
        assert!(texts.concat().contains("store-offline"), "{texts:?}");
        let value: Value = serde_json::from_str(&texts[0]).unwrap();
        assert_eq!((&value["source"]["store"], &value["state"]), (&"raw".into(), &"failed".into()));
        let path = value["source"]["path"].as_str().unwrap();
        assert!(texts[1].contains(&format!("lab:raw/{path}")), "{path}: {}", texts[1]);
        for kept in ["3.5 Mbit/s", "`penstock doctor`", "`--files-from`", "annabel stays"] {
            assert!(texts[1].contains(kept), "{kept}: {}", texts[1]);
        }
        let reason = value["reason"].as_str().unwrap();
        let expected = format!("cannot open `{path}` of store `raw`: permission denied");
        assert_eq!(reason, expected);
        assert!(texts.concat().contains("/data/raw"), "{texts:?}");
        fs::write(directory.path().join("trust/capability.key"), "another key").unwrap();
        assert_ne!(texts[0], replaced()[0]);
    }
}
