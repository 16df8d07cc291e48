//! Takes secrets out of texts: values that are known, and what looks like a secret.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER};
use penstock_daemon::config::Config;
use penstock_daemon::settings::Layers;
use regex::{Captures, Regex};
use serde_json::Value;

/// The words in the place of a secret.
const REMOVED: &str = "[removed]";
/// Shortest known value that is searched for: shorter ones are in many other words.
const VALUE_BYTES_MIN: usize = 6;
/// Shortest line of a key file that is searched for by itself.
const LINE_BYTES_MIN: usize = 16;
/// Shortest run of characters that may be a secret of many bits.
const RUN_BYTES_MIN: usize = 32;
/// Longest file of a secret that is read.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// What secrets look like, each with the words in its place.
static PATTERNS: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let patterns = [
        // PEM (RFC 7468), also within JSON, where line ends are escaped.
        (
            r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
            "[removed]",
        ),
        // User information of an address (RFC 3986, 3.2.1).
        (r#"([A-Za-z][A-Za-z0-9+.-]*://)[^/\s"'`\\]*@"#, "$1[removed]@"),
        // Credentials of requests (RFC 6750, RFC 7617).
        (r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{6,}", "$1 [removed]"),
        // Options of commands.
        (
            r#"(?imx)((?:^|[\s"'`])--?[a-z0-9-]*
                (?:passw(?:or)?d|passphrase|pass|pwd|secret|token|credential|api-?key)s?)
                \s+ \\* (?: "[^"]*" | '[^']*' | [^\s"'`\\]+ )"#,
            "$1 [removed]",
        ),
        (r#"(?i)(--(?:etcd-|proxy-)?user[\s=]+)[^\s:"'`\\]+:[^\s"'`\\]+"#, "$1[removed]"),
        // Parameters of links, also without their hosts (RFC 6749, 4.1.2).
        (
            r#"(?ix)([?&\#][a-z_-]*(?:code|state|ticket|sig|signature|key|token)=)
                [^\s&\#"'`\\]+"#,
            "$1[removed]",
        ),
        // Our own tokens, pairing codes and secrets of webhooks.
        (r"\bpstk_[A-Za-z0-9]+", "[removed]"),
        (r#"\bpst1:[^\s"'`\\]+"#, "[removed]"),
        (r"\bwhsec_[A-Za-z0-9+/=_-]+", "[removed]"),
        // JSON Web Tokens, hashes of passwords, keys of S3, GitHub, GitLab, Slack.
        (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?", "[removed]"),
        (r#"\$(?:argon2[a-z]*|2[aby]|5|6|y)\$[^\s"'`\\]+"#, "[removed]"),
        (r"\b(?:AKIA|ASIA|AROA)[A-Z0-9]{16}\b", "[removed]"),
        (r"\b(?:gh[pousr]|github_pat|glpat|xox[abeprs])[_-][A-Za-z0-9_-]{10,}", "[removed]"),
    ];
    let compiled = patterns.into_iter().map(|(pattern, by)| (regex(pattern), by));
    compiled.collect()
});

/// Words of a key that names a secret.
const SECRET_WORDS: &str = r"(?: passw(?:or)?d | passphrase | secret | token | cookie
    | (?: api | access | private | account | signing | shared | session )[_-]?key
    | credential | authorization | (?: \b | _ ) (?: pass | pwd ) )";

/// A key of JSON that names a secret.
static SECRET_KEY: LazyLock<Regex> = LazyLock::new(|| regex(&format!("(?ix){SECRET_WORDS}")));

/// An option that has a secret as its next argument.
static SECRET_OPTION: LazyLock<Regex> =
    LazyLock::new(|| regex(&format!("(?ix)^ --? [a-z0-9-]* {SECRET_WORDS} s? $")));

/// A key that names a secret, and its value in quotes, in brackets, or its first word. Within JSON
/// that cannot be read as such, quotes are escaped.
static ASSIGNED: LazyLock<Regex> = LazyLock::new(|| {
    let key = format!(r"[a-z0-9_.-]* {SECRET_WORDS} s? [a-z0-9_-]*");
    regex(&format!(
        r#"(?ix)
        (?P<key> {key} (?: \\*["'`] )? \s* (?: => | [=:] ) \s* )
        (?P<value> \[removed\]
            | \\+" (?: [^"\\] | \\+ [^"\\] )* (?: \\+" )?
            | " (?: [^"\\] | \\. )* " | ' (?: [^'\\] | \\. )* '
            | [\[{{] [^\]}}]* | [^\s,;&)}}\]\\]+ )"#
    ))
});

/// An address, and what comes behind its host: codes of links, signed links, and the secrets that
/// services put into the paths of webhooks.
static ADDRESS: LazyLock<Regex> = LazyLock::new(|| {
    regex(r#"(?i)(?P<origin>\b(?:https?|wss?)://[^\s"'`/?#\\]+)(?P<rest>[/?#][^\s"'`\\]*)"#)
});

/// A line of the configuration that names a file with a secret or a key.
static SECRET_FILE: LazyLock<Regex> =
    LazyLock::new(|| regex(r#"(?m)(?:_file|\bkey)\s*=\s*["'](?P<path>[^"'\n]+)["']"#));

/// A run of characters long enough for a secret of many bits.
static RUN: LazyLock<Regex> = LazyLock::new(|| regex(r"[A-Za-z0-9+/_=-]{32,}"));

fn regex(pattern: &str) -> Regex {
    // The patterns are constants, and a test uses each of them.
    Regex::new(pattern).unwrap_or_else(|error| panic!("{error}"))
}

/// Takes secrets out of texts.
#[derive(Debug)]
pub(super) struct Scrubber {
    /// Secrets of this site that could be read, longest first.
    values: Vec<String>,
}

impl Scrubber {
    /// Returns a scrubber that knows the secrets of a site directory and of the environment, as far
    /// as this process may read them.
    pub(super) fn of(directory: &Path) -> Self {
        let mut values = BTreeSet::new();
        for path in secret_files(directory) {
            values.extend(secrets_in(&path));
        }
        let named = |name: &OsStr| {
            let name = name.to_string_lossy().to_ascii_lowercase();
            let words = ["pass", "_pwd", "secret", "token", "key", "credential"];
            words.iter().any(|word| name.contains(word))
        };
        let given = std::env::vars_os().filter(|(name, _)| named(name));
        values.extend(given.map(|(_, value)| value.to_string_lossy().trim().to_owned()));
        let mut values: Vec<_> =
            values.into_iter().filter(|value| value.len() >= VALUE_BYTES_MIN).collect();
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        Self { values }
    }

    /// Returns the text without secrets, and how many were taken out. JSON stays JSON.
    pub(super) fn scrub(&self, text: &str) -> (String, usize) {
        if let Some((text, count)) = self.scrub_json(text) {
            return (text, count);
        }
        let (mut out, mut plain, mut count) = (String::new(), String::new(), 0);
        let end_plain = |plain: &mut String, out: &mut String| {
            let (text, found) = self.scrub_plain(plain);
            out.push_str(&text);
            plain.clear();
            found
        };
        for line in text.split_inclusive('\n') {
            match self.scrub_json(line) {
                Some((text, found)) => {
                    count += end_plain(&mut plain, &mut out) + found;
                    out += &text;
                }
                // Some secrets have many lines.
                None => plain += line,
            }
        }
        count += end_plain(&mut plain, &mut out);
        (out, count)
    }

    /// Returns an object or an array of JSON without secrets; `None` for another text.
    fn scrub_json(&self, text: &str) -> Option<(String, usize)> {
        if !text.trim_start().starts_with(['{', '[']) {
            return None;
        }
        let mut value: Value = serde_json::from_str(text).ok()?;
        let count = self.scrub_value(&mut value);
        let is_pretty = text.trim_end().contains('\n');
        let end = if text.ends_with('\n') { "\n" } else { "" };
        let scrubbed = match count {
            0 => return Some((text.to_owned(), 0)),
            _ if is_pretty => serde_json::to_string_pretty(&value).ok()?,
            _ => value.to_string(),
        };
        Some((scrubbed + end, count))
    }

    /// Takes secrets out of the keys and texts of JSON. Returns how many they were.
    fn scrub_value(&self, value: &mut Value) -> usize {
        match value {
            Value::String(text) => {
                let (scrubbed, count) = self.scrub(text);
                *text = scrubbed;
                count
            }
            Value::Array(values) => {
                let mut count = 0;
                let mut is_secret = false;
                for value in values {
                    count += if is_secret { remove_texts(value) } else { self.scrub_value(value) };
                    is_secret = value.as_str().is_some_and(|text| SECRET_OPTION.is_match(text));
                }
                count
            }
            Value::Object(fields) => {
                let mut count = 0;
                for (key, mut value) in std::mem::take(fields) {
                    let is_secret = SECRET_KEY.is_match(&key);
                    count += if is_secret {
                        remove_texts(&mut value)
                    } else {
                        self.scrub_value(&mut value)
                    };
                    let (key, found) = self.scrub_plain(&key);
                    count += found;
                    fields.insert(key, value);
                }
                count
            }
            _ => 0,
        }
    }

    /// Returns a text that is no JSON without secrets, and how many were taken out.
    fn scrub_plain(&self, text: &str) -> (String, usize) {
        let (mut text, mut count) = (text.to_owned(), 0);
        for value in &self.values {
            let found = text.matches(value.as_str()).count();
            if found > 0 {
                (text, count) = (text.replace(value.as_str(), REMOVED), count + found);
            }
        }
        for (pattern, by) in PATTERNS.iter() {
            let found = pattern.find_iter(&text).count();
            if found > 0 {
                (text, count) = (pattern.replace_all(&text, *by).into_owned(), count + found);
            }
        }
        let (text, found) = without_assigned(&text);
        count += found;
        let text = ADDRESS.replace_all(&text, |found: &Captures<'_>| {
            let (origin, rest) = (&found["origin"], &found["rest"]);
            let path = rest.split(['?', '#']).next().unwrap_or_default();
            let is_own = path.is_empty() || path == "/" || path.starts_with("/api/");
            if is_own && path == rest {
                return found[0].to_owned();
            }
            count += 1;
            if is_own { format!("{origin}{path}?{REMOVED}") } else { format!("{origin}/{REMOVED}") }
        });
        let text = RUN.replace_all(&text, |found: &Captures<'_>| {
            let is_secret = is_secret_run(&found[0]);
            count += usize::from(is_secret);
            if is_secret { REMOVED.to_owned() } else { found[0].to_owned() }
        });
        (text.into_owned(), count)
    }
}

/// Returns a text without the values of keys that name secrets, and how many these were. A value
/// without quotes may have spaces: it ends with its line.
fn without_assigned(text: &str) -> (String, usize) {
    let (mut out, mut at, mut count) = (String::new(), 0, 0);
    while let Some(found) = ASSIGNED.captures_at(text, at) {
        let (Some(key), Some(value)) = (found.name("key"), found.name("value")) else { break };
        out += &text[at..key.end()];
        at = value.end();
        if is_harmless(key.as_str(), value.as_str()) {
            out += value.as_str();
            continue;
        }
        count += 1;
        let bare = value.as_str().trim_start_matches('\\');
        let escapes = &value.as_str()[..value.len() - bare.len()];
        match bare.chars().next() {
            Some(quote @ ('"' | '\'')) if bare.ends_with(quote) && bare.len() > 1 => {
                out += &format!("{escapes}{quote}{REMOVED}{escapes}{quote}");
            }
            _ => {
                out += REMOVED;
                at += text[at..].find('\n').unwrap_or(text.len() - at);
            }
        }
    }
    (out + &text[at..], count)
}

/// Replaces all texts within the value of a key that names a secret. Returns how many they were.
fn remove_texts(value: &mut Value) -> usize {
    match value {
        Value::String(text) if is_word(text) => 0,
        Value::String(text) => {
            REMOVED.clone_into(text);
            1
        }
        Value::Array(values) => values.iter_mut().map(remove_texts).sum(),
        Value::Object(fields) => fields.values_mut().map(remove_texts).sum(),
        _ => 0,
    }
}

/// Returns whether a text says whether there is a secret, or is removed already.
fn is_word(text: &str) -> bool {
    ["", "set", "none", "null", "true", "false", REMOVED].contains(&text)
}

/// Returns whether the value of a key that names a secret is none: a word that says whether there
/// is one, a number of JSON, or removed already.
fn is_harmless(key: &str, value: &str) -> bool {
    let bare = value.trim_matches(['\\', '"', '\'']);
    let is_json_number = key.trim_end_matches([' ', ':']).ends_with('"')
        && !value.starts_with('"')
        && value.parse::<f64>().is_ok();
    is_word(bare) || is_json_number
}

/// Returns whether a long run of characters is a secret. A path has a part that is one, or is
/// none: in base64 a slash is one of 64 characters.
fn is_secret_run(run: &str) -> bool {
    let is_path = run.starts_with('/') && run.matches('/').count() * 12 > run.len();
    match is_path {
        true => run.split('/').any(|part| part.len() >= RUN_BYTES_MIN && looks_random(part)),
        false => looks_random(run),
    }
}

/// Returns whether a run of characters looks like random bits in base64: capitals, small letters
/// and digits, changing often. Digests and ids are hexadecimal, and paths have words in them.
fn looks_random(run: &str) -> bool {
    let kind = |byte: u8| match byte {
        b'a'..=b'z' => 0_u8,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    };
    let kinds: Vec<u8> = run.bytes().map(kind).collect();
    let has_all = (0..3).all(|wanted| kinds.contains(&wanted));
    let changes = kinds.windows(2).filter(|pair| pair[0] != pair[1]).count();
    has_all && changes * 3 >= run.len()
}

/// Returns the files of a site directory, and of the user, that hold secrets.
fn secret_files(directory: &Path) -> Vec<PathBuf> {
    let below = |name: &str| {
        let entries = fs::read_dir(directory.join(name)).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let mut files = below("trust");
    files.extend(below("trust/next"));
    files.extend(below("etcd"));
    // Certificates and statements are public.
    let is_public = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "pem" || end == "json" || end == "log")
    };
    files.retain(|path| path.is_file() && !is_public(path));
    let config = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".config"));
    files.extend(config.or(home).map(|config| config.join("penstock/credentials")));
    files.extend(std::env::var_os("PENSTOCK_TOKEN_FILE").map(PathBuf::from));
    // Read by lines, not as settings: a configuration with faults names secrets too.
    for path in settings_files(directory) {
        let text = fs::read_to_string(path).unwrap_or_default();
        files.extend(SECRET_FILE.captures_iter(&text).map(|found| directory.join(&found["path"])));
    }
    files
}

/// Returns the files of the configuration of a site directory.
fn settings_files(directory: &Path) -> Vec<PathBuf> {
    let in_directory = |path: PathBuf| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let mut files = vec![Config::path(directory), Layers::of(directory).main_file()];
    files.extend(in_directory(directory.join("conf.d")));
    files.extend(in_directory(PathBuf::from("/etc/penstock/conf.d")));
    files
}

/// Returns the secrets in a file: its whole text, and its longer lines. Bytes that are no text are
/// searched for in the forms in which texts write them.
fn secrets_in(path: &Path) -> Vec<String> {
    let is_short = fs::metadata(path).is_ok_and(|found| found.len() <= SECRET_BYTES_MAX);
    let Some(bytes) = is_short.then(|| fs::read(path).ok()).flatten() else { return Vec::new() };
    let mut found =
        vec![HEXLOWER.encode(&bytes), BASE64.encode(&bytes), BASE64URL_NOPAD.encode(&bytes)];
    if let Ok(text) = String::from_utf8(bytes) {
        found.push(text.trim().to_owned());
        let is_part = |line: &&str| line.len() >= LINE_BYTES_MIN && !line.starts_with("-----");
        found.extend(text.lines().map(str::trim).filter(is_part).map(str::to_owned));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubbed(text: &str) -> String {
        Scrubber { values: vec!["swordfish".to_owned()] }.scrub(text).0
    }

    /// Promise: no known value and nothing that looks like a secret stays, in text, TOML, JSON,
    /// addresses, headers and mount options.
    #[test]
    fn secrets_are_taken_out() {
        let key =
            "-----BEGIN PRIVATE KEY-----\\nMIGHAgEAMBMGByqGSM49AgEG\\n-----END PRIVATE KEY-----";
        let secrets = [
            ("it is swordfish, really", "swordfish"),
            (key, "MIGHAgEAMBMGByqGSM49AgEG"),
            ("https://anna:hunter2@hooks.example.org/x", "hunter2"),
            ("s3://AKIAIOSFODNN7EXAMPLE:wJalrXUt@bucket", "wJalrXUt"),
            ("https://h.example.org/a?signature=abc123&x=1", "abc123"),
            ("https://hpc:7443/setup#4k2jh5k2h5kj2h5kj2", "4k2jh5k2h5kj2h5kj2"),
            ("https://hooks.slack.com/services/T01/B02/xoxoxoxo", "xoxoxoxo"),
            ("authorization: Bearer abc.def-123", "abc.def-123"),
            ("Basic YW5uYTpodW50ZXIy", "YW5uYTpodW50ZXIy"),
            ("token pstk_abcdefgh234567 is bad", "pstk_abcdefgh"),
            ("pair with pst1:Zm9vYmFyYmF6", "Zm9vYmFyYmF6"),
            ("whsec_AAECAwQFBgcICQoL", "AAECAwQFBgcICQoL"),
            ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln", "eyJzdWIiOiJhIn0"),
            ("$argon2id$v=19$m=19456$c2FsdA$aGFzaA", "aGFzaA"),
            ("AKIAIOSFODNN7EXAMPLE", "AKIAIOSFODNN7EXAMPLE"),
            ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "K7MDENG"),
            ("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "16C7e42F292c"),
            ("client_secret = \"hush hush\"", "hush hush"),
            ("{\"password\":\"p w\",\"x\":1}", "p w"),
            ("password=letmein,vers=3.0", "letmein"),
            ("//nas/share /mnt cifs rw,username=a,pass=pw99,uid=0", "pw99"),
            ("PENSTOCK_AUTH__OIDC__CLIENT_SECRET=q1", "=q1"),
            ("aws_secret_access_key: abcd", "abcd"),
            ("session-cookie: 77af", "77af"),
            ("-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIXb", "MHcCAQEEIIXb"),
            ("SMTP_PASS=canary", "canary"),
            ("MYSQL_PWD=canary", "canary"),
            ("tool --password canary --x", "canary"),
            ("ran \\\"tool --password \\\"x canary\\\"", "canary"),
            ("etcdctl --etcd-user root:canary get", "canary"),
            ("curl --user root:canary", "canary"),
            ("https://a:p@canary@host/", "canary"),
            ("Authorization: token canary", "canary"),
            ("Authorization: ApiKey canary", "canary"),
            ("HTTPS://hooks.example.org/canary", "canary"),
            ("passphrase: correct horse canary", "canary"),
            ("password=ab;canary", "canary"),
            ("cookie: a=b; session=canary", "canary"),
            ("it has \"secrets\":[\"a\", \"canary\"]", "canary"),
            ("password = { value = \"canary\" }", "canary"),
            ("key /K7MDENGbPxRfiCYwJalrXUtnFEMI4kQ9/x7Zp", "K7MDENG"),
            ("GET /auth/callback?code=canary&state=x1", "canary"),
            ("GET /auth/callback?code=c&state=canary", "canary"),
            ("sent \\\"password\\\":\\\"canary\\\" to it", "canary"),
            ("said \"client_secret = \\\"canary\\\"\"", "canary"),
        ];
        for (text, secret) in secrets {
            let left = scrubbed(text);
            assert!(!left.contains(secret), "`{left}` has `{secret}`");
            assert!(left.contains(REMOVED), "{left}");
        }
    }

    /// Promise: secrets within JSON go, however they are escaped, and JSON stays JSON.
    #[test]
    fn json_loses_secrets_and_stays_json() {
        let secrets = [
            r#"{"label":"token=\"canary\""}"#,
            r#"{"text":"client_secret = \"canary\"","x":1}"#,
            r#"{"text":"{\"password\":\"canary\"}"}"#,
            r#"{"text":"see \"https://h.example.org/canary\" and \"pst1:canary\""}"#,
            r#"{"secrets":["canary"],"x":1}"#,
            r#"{"password":{"value":"canary"}}"#,
            r#"{"argv":["tool","--password","canary","--x"]}"#,
            r#"{"token=\"canary\"":1}"#,
            "[\n  {\n    \"api_key\": \"canary\"\n  }\n]",
        ];
        for text in secrets {
            for lines in [text.to_owned(), format!("{text}\n"), format!("begin\n{text}\nend")] {
                let left = scrubbed(&lines);
                assert!(!left.contains("canary"), "{left}");
                let json = left.trim_start_matches("begin\n").trim_end_matches("\nend");
                if !text.contains('\n') || lines == text {
                    assert!(serde_json::from_str::<Value>(json).is_ok(), "{left}");
                }
            }
        }
    }

    /// Promise: ids, digests, paths, numbers and the words of settings stay, and JSON stays JSON.
    #[test]
    fn what_helps_stays() {
        let texts = [
            "9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f9f",
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
            "/var/lib/penstock/journal/receipts/transfers/listing",
            "/dev/shm/penstock-4FtMhiwmF/moosefs/host-0/a1B2c3",
            "{\"key\":\"auth.oidc.client_secret\",\"value\":\"set\",\"taken_by\":\"restart\"}",
            "{\"tokens\":5,\"token_max\":366,\"secret\":null}",
            "penstock_http_requests_total{operation=\"list_tokens\",status=\"200\"} 5",
            "https://hpc.example.org:7443/api/v1/transfers",
            "sha256 fingerprint of site `lab`: 4f:2a:99",
            "net.ipv4.tcp_congestion_control = bbr",
        ];
        for text in texts {
            assert_eq!(scrubbed(text), text);
        }
        let json = "{\"a\":{\"api_key\":\"x y\"},\"b\":[\"Bearer abcdef\"],\"passwords\":2}";
        let left: serde_json::Value = serde_json::from_str(&scrubbed(json)).unwrap();
        assert_eq!(left["passwords"], 2);
    }

    /// Promise: bytes of a key file are found in the forms in which a text may show them.
    #[test]
    fn a_binary_key_is_found_in_any_form() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("capability.key");
        fs::write(&path, [0xff, 0xfe, 1, 2, 3, 4, 5, 6]).unwrap();
        let found = secrets_in(&path);
        assert!(found.contains(&"fffe010203040506".to_owned()), "{found:?}");
        assert!(found.contains(&"//4BAgMEBQY=".to_owned()), "{found:?}");
    }
}
