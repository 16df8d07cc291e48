//! The table of all settings: kinds, defaults, and when a changed value counts.
//!
//! The types define which keys there are, and a test compares them with the table. From it come the
//! names of environment variables, `penstock config show` and the reference.

use penstock_api::settings::TakenBy;

use super::tree::Step;

/// The form of an environment variable's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text, as it is.
    Text,
    /// A number.
    Number,
    /// `true` or `false`.
    Switch,
    /// Texts with commas between them.
    List,
    /// A table, which no variable sets.
    Table,
}

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its key, as `web.listen`; `store[].path` is a key of each `[[store]]`.
    pub key: &'static str,
    /// The form of an environment variable's text.
    pub kind: Kind,
    /// The value that holds if no layer sets one.
    pub default: &'static str,
    /// The moment at which a changed value takes effect.
    pub taken_by: TakenBy,
    /// The meaning, in a few words.
    pub what: &'static str,
}

impl Setting {
    /// Returns the variable of the environment that sets it. Tables and keys of lists of tables
    /// have none.
    pub fn variable(&self) -> Option<String> {
        let name = self.key.replace('.', "__").to_uppercase();
        let has_one = self.kind != Kind::Table && !name.contains('[');
        has_one.then(|| format!("PENSTOCK_{name}"))
    }

    /// Returns whether the value is a secret: it is not shown, and no file may have it.
    pub fn is_secret(&self) -> bool {
        ["cluster.password", "auth.oidc.client_secret"].contains(&self.key)
    }
}

const fn setting(
    key: &'static str,
    kind: Kind,
    default: &'static str,
    taken_by: TakenBy,
    what: &'static str,
) -> Setting {
    Setting { key, kind, default, taken_by, what }
}

use Kind::{List, Number, Switch, Table, Text};
use TakenBy::{Reload, Restart};

/// All settings, in the order of the reference.
pub static SETTINGS: &[Setting] = &[
    setting("site", Text, "none: it must be set", Restart, "name of the site"),
    setting("peer", Text, "none: it must be set", Restart, "name of this host within the site"),
    setting("listen", Text, "0.0.0.0:7444", Restart, "address for other peers and their data"),
    setting(
        "advertise",
        List,
        "auto: the addresses of the networks, or of `listen`, or of the default route",
        Reload,
        "addresses told to other sites",
    ),
    setting("running_max", Number, "4", Reload, "transfers that run at a time"),
    setting(
        "cpus",
        Number,
        "auto: all that the cgroup and the affinity mask allow",
        Restart,
        "CPUs that the daemon uses at most",
    ),
    setting(
        "cipher_suites",
        List,
        "auto: all, in the order of their speed on this CPU",
        Restart,
        "TLS 1.3 suites that are spoken, the preferred one first",
    ),
    setting(
        "log",
        Text,
        "info",
        Reload,
        "level of the log: `error`, `warn`, `info`, `debug`, `trace`, or per module as \
         `info,penstock_peer=debug`",
    ),
    setting("web.listen", List, "127.0.0.1:7443", Reload, "addresses of the HTTPS API"),
    setting(
        "web.names",
        List,
        "auto: `localhost` and the addresses of `listen` and `advertise`",
        Reload,
        "names of this host in the certificate of the HTTPS API",
    ),
    setting(
        "web.certificate",
        Text,
        "auto: one of the site's authority",
        Reload,
        "file with the operator's own certificate",
    ),
    setting("web.key", Text, "none", Reload, "file with its private key"),
    setting(
        "web.metrics_from",
        List,
        "none",
        Reload,
        "prefixes of addresses from which metrics may be read without a token",
    ),
    setting(
        "web.trusted_proxies",
        List,
        "none",
        Reload,
        "prefixes of proxies whose headers `X-Forwarded-For` and `X-Forwarded-Prefix` are believed",
    ),
    setting("auth.password", Switch, "true", Reload, "log-in by name and password"),
    setting(
        "auth.session_idle_seconds",
        Number,
        "43200",
        Reload,
        "seconds without a request after which a browser session ends",
    ),
    setting(
        "auth.session_max_seconds",
        Number,
        "604800",
        Reload,
        "seconds after its log-in at which a browser session ends",
    ),
    setting(
        "auth.socket_group",
        Text,
        "none: there is no socket for accounts",
        Reload,
        "group of this host whose accounts may connect to the socket for accounts",
    ),
    setting(
        "auth.socket",
        Text,
        "/run/penstock/penstock.sock",
        Reload,
        "path of the socket for accounts of this host",
    ),
    setting(
        "auth.unix",
        Table,
        "none",
        Reload,
        "users of the site for accounts of this host, and for its groups as `@GROUP`: a name, \
         `self` or `role:ROLE`",
    ),
    setting(
        "auth.oidc.issuer",
        Text,
        "none: it must be set",
        Restart,
        "address of the OpenID provider, as it names itself",
    ),
    setting(
        "auth.oidc.client_id",
        Text,
        "none: it must be set",
        Restart,
        "name of this site as a client of the provider",
    ),
    setting("auth.oidc.client_secret_file", Text, "none", Restart, "file with the client's secret"),
    setting(
        "auth.oidc.client_secret_command",
        List,
        "none",
        Restart,
        "program, with its arguments, that prints the secret",
    ),
    setting(
        "auth.oidc.client_secret",
        Text,
        "none",
        Restart,
        "the secret itself; in the environment only",
    ),
    setting(
        "auth.oidc.ca",
        Text,
        "none",
        Restart,
        "file with further authorities of the provider's certificate",
    ),
    setting(
        "auth.oidc.name",
        Text,
        "auto: the host of `issuer`",
        Restart,
        "name of the provider on the button of the page",
    ),
    setting("auth.oidc.scopes", List, "profile", Restart, "scopes that are asked for"),
    setting(
        "auth.oidc.user_claim",
        Text,
        "preferred_username",
        Restart,
        "claim that names the user at its first log-in",
    ),
    setting(
        "auth.oidc.groups_claim",
        Text,
        "groups",
        Restart,
        "claim with the groups of the user; dots lead into objects",
    ),
    setting(
        "auth.oidc.roles",
        List,
        "none",
        Restart,
        "roles of groups, as `{ dtn-ops = \"operator\" }`; a variable has `dtn-ops=operator,…`",
    ),
    setting(
        "auth.oidc.default",
        Text,
        "none",
        Restart,
        "role of those whom no group gives one; `none` refuses them",
    ),
    setting("audit.keep", Text, "400d", Restart, "days after which audit logs are removed"),
    setting("webhook.allow", List, "none", Restart, "beginnings of the addresses of webhooks"),
    setting("webhook.ca", Text, "none", Restart, "file with further authorities of receivers"),
    setting(
        "notify.command",
        List,
        "none: it must be set",
        Restart,
        "program, with its arguments, that is run for each ended transfer",
    ),
    setting("notify.user", Text, "nobody", Restart, "account that it runs as"),
    setting("notify.on", List, "all", Restart, "ends to tell: `done`, `failed`, `cancelled`"),
    setting("cluster.etcd", List, "none", Restart, "addresses of the operator's etcd"),
    setting(
        "cluster.journal",
        Text,
        "none: it must be set",
        Restart,
        "directory that all peers share",
    ),
    setting(
        "cluster.lease_seconds",
        Number,
        "5",
        Restart,
        "seconds after which a silent controller is replaced",
    ),
    setting(
        "cluster.grant_seconds",
        Number,
        "60",
        Restart,
        "seconds after which the work of a silent target peer is given to others",
    ),
    setting("cluster.ca", Text, "none", Restart, "file with the authority of etcd's certificates"),
    setting("cluster.cert", Text, "none", Restart, "file with the certificate for etcd"),
    setting("cluster.key", Text, "none", Restart, "file with its private key"),
    setting("cluster.user", Text, "none", Restart, "user of etcd"),
    setting("cluster.password_file", Text, "none", Restart, "file with the user's password"),
    setting(
        "cluster.password_command",
        List,
        "none",
        Restart,
        "program, with its arguments, that prints the password",
    ),
    setting(
        "cluster.password",
        Text,
        "none",
        Restart,
        "the password itself; in the environment only",
    ),
    setting("cluster.witness", Switch, "false", Restart, "this host only votes"),
    setting("cluster.own_etcd.hosts", Number, "none: it must be set", Restart, "hosts with etcd"),
    setting(
        "cluster.own_etcd.address",
        Text,
        "none: it must be set",
        Restart,
        "address of this host's etcd",
    ),
    setting(
        "cluster.own_etcd.program",
        Text,
        "auto: `etcd`, as PATH finds it",
        Restart,
        "the etcd program",
    ),
    setting("network[].name", Text, "none: it must be set", Reload, "name of a network"),
    setting("network[].role", Text, "data", Reload, "`data`, `control` or `never`"),
    setting("network[].interface", Text, "none", Reload, "interface of the network"),
    setting("network[].prefix", Text, "none", Reload, "addresses of the network"),
    setting("network[].rate", Text, "auto: measured", Reload, "rate of its interfaces"),
    setting(
        "network[].advertise",
        List,
        "auto: the addresses of the interface",
        Reload,
        "addresses for data that other sites are told",
    ),
    setting(
        "accounts[].all",
        Text,
        "none",
        Reload,
        "account for users of a paired site, as `all` in the table `[accounts.SITE]`",
    ),
    setting("accounts[].users", Table, "none", Reload, "accounts of single users of that site"),
    setting(
        "accounts[].tell_users",
        Switch,
        "false",
        Reload,
        "whether that site is told for which user a request is",
    ),
    setting("store[].name", Text, "none: it must be set", Reload, "name of a store"),
    setting("store[].path", Text, "none: it must be set", Restart, "its directory"),
    setting("store[].read_only", Switch, "false", Restart, "whether writing is refused"),
    setting("store[].read", List, "*", Reload, "sites that may read"),
    setting("store[].write", List, "none", Reload, "sites that may add data"),
    setting("store[].delete", List, "none", Reload, "sites that may replace and delete"),
    setting("store[].remove", List, "none", Reload, "sites whose moves may remove items here"),
    setting(
        "store[].encryption",
        Text,
        "optional",
        Reload,
        "`required` refuses lanes without encryption",
    ),
    setting(
        "store[].allow_privileged",
        Switch,
        "false",
        Restart,
        "whether other sites may set owners and special modes",
    ),
    setting(
        "store[].io",
        Text,
        "auto: past the page cache on ext4, and reads on XFS, but for parity arrays and disks that \
         rotate",
        Restart,
        "`buffered` or `direct` reads and writes of files of 1 MiB or more",
    ),
    setting(
        "store[].account",
        Text,
        "daemon",
        Restart,
        "`mapped` uses files as the account of the user or site whose transfer it is",
    ),
];

/// Returns the setting of a key, as `web.listen` or `store[raw].path`.
pub fn find(key: &str) -> Option<&'static Setting> {
    let general = match (key.find('['), key.find(']')) {
        (Some(begin), Some(end)) if begin < end => {
            format!("{}[]{}", &key[..begin], &key[end + 1..])
        }
        _ => key.to_owned(),
    };
    SETTINGS.iter().find(|setting| setting.key == general)
}

/// Returns the key at the end of some steps, as `store[1].path`.
pub(super) fn name_of(path: &[Step]) -> String {
    let mut name = String::new();
    for step in path {
        match step {
            Step::Key(key) if name.is_empty() => name += key,
            Step::Key(key) => name += &format!(".{key}"),
            Step::At(at) => name += &format!("[{at}]"),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::config::Config;

    /// Returns the keys that the types know in a table.
    fn known(table: &str) -> BTreeSet<String> {
        let text = match table {
            "" => "no_such_key = 1".to_owned(),
            "accounts[]" => "[accounts.hpc]\nno_such_key = 1".to_owned(),
            _ if table.ends_with("[]") => {
                format!("[[{}]]\nno_such_key = 1", table.trim_end_matches("[]"))
            }
            _ => format!("[{table}]\nno_such_key = 1"),
        };
        let message = toml::from_str::<Config>(&text).unwrap_err().message().to_owned();
        assert!(message.contains("unknown field"), "{table}: {message}");
        message.split('`').skip(3).step_by(2).map(str::to_owned).collect()
    }

    /// Promise: the table has each key of the types, and no other.
    #[test]
    fn the_table_has_the_keys_of_the_types() {
        let one = ["", "web", "auth", "auth.oidc", "audit", "webhook", "notify", "cluster"];
        let nested = ["cluster.own_etcd", "network[]", "accounts[]", "store[]"];
        let tables = one.into_iter().chain(nested);
        for table in tables {
            let prefix = if table.is_empty() { String::new() } else { format!("{table}.") };
            let mut listed = BTreeSet::new();
            for setting in SETTINGS {
                let Some(rest) = setting.key.strip_prefix(&prefix) else { continue };
                let first = rest.split('.').next().unwrap();
                listed.insert(first.trim_end_matches("[]").to_owned());
            }
            assert_eq!(listed, known(table), "table `{table}`");
        }
    }

    /// Promise: a key of a list of tables is found by the name of its element, and has no variable.
    #[test]
    fn keys_of_elements_are_found() {
        assert_eq!(find("store[raw].path").unwrap().key, "store[].path");
        assert_eq!(find("store[raw].path").unwrap().variable(), None);
        assert_eq!(find("web.listen").unwrap().variable().unwrap(), "PENSTOCK_WEB__LISTEN");
        assert!(find("web.lisen").is_none());
    }
}
