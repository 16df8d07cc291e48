//! Decides which parts of a changed configuration a running daemon adopts.

use penstock_api::settings::TakenBy;

use super::effective::value_at;
use super::table::{SETTINGS, find};
use crate::config::{AuthConfig, Config, StoreConfig};

/// The configuration to be in force after a reload.
#[derive(Clone, Debug)]
pub struct Merged {
    /// The new configuration, with the old values of settings that count at the next start only.
    pub config: Config,
    /// Keys that differ and are in force from now on.
    pub taken: Vec<String>,
    /// Keys that differ and count at the next start only.
    pub kept: Vec<String>,
}

/// Merges a new configuration into the one in force.
///
/// # Errors
/// One of them cannot be written as text, which no valid one is.
pub fn merge(now: &Config, next: &Config) -> Result<Merged, toml::ser::Error> {
    let (old, new) = (toml::Value::try_from(now)?, toml::Value::try_from(next)?);
    let mut merged = Merged { config: next.clone(), taken: Vec::new(), kept: Vec::new() };
    for setting in SETTINGS.iter().filter(|setting| !setting.key.contains('[')) {
        if value_at(&old, setting.key) != value_at(&new, setting.key) {
            merged.note(setting.key.to_owned(), setting.taken_by);
        }
    }
    if now.networks != next.networks {
        merged.taken.push("network".to_owned());
    }
    if now.accounts != next.accounts {
        merged.taken.push("accounts".to_owned());
    }
    merged.take_stores(now, next)?;
    let Config { advertise, running_max, log, networks, web, auth, accounts, stores, .. } =
        merged.config;
    let kept = now.clone();
    // The client of the provider is made at the start.
    let auth = AuthConfig { oidc: now.auth.oidc.clone(), ..auth };
    merged.config =
        Config { advertise, running_max, log, networks, web, auth, accounts, stores, ..kept };
    Ok(merged)
}

impl Merged {
    fn note(&mut self, key: String, taken_by: TakenBy) {
        match taken_by {
            TakenBy::Reload => self.taken.push(key),
            TakenBy::Restart => self.kept.push(key),
        }
    }

    /// Adopts new stores, drops removed ones, and adopts the changes of the others as far as that
    /// is possible.
    fn take_stores(&mut self, now: &Config, next: &Config) -> Result<(), toml::ser::Error> {
        let named = |stores: &[StoreConfig], like: &StoreConfig| {
            stores.iter().find(|store| store.name == like.name).cloned()
        };
        let gone = now.stores.iter().filter(|store| named(&next.stores, store).is_none());
        gone.for_each(|store| self.taken.push(format!("store[{}]", store.name)));
        let mut stores = Vec::new();
        for new in &next.stores {
            let Some(old) = named(&now.stores, new) else {
                self.taken.push(format!("store[{}]", new.name));
                stores.push(new.clone());
                continue;
            };
            let (before, after) = (toml::Value::try_from(&old)?, toml::Value::try_from(new)?);
            for key in SETTINGS.iter().filter_map(|it| it.key.strip_prefix("store[].")) {
                if value_at(&before, key) != value_at(&after, key) {
                    let key = format!("store[{}].{key}", new.name);
                    let taken_by = find(&key).map_or(TakenBy::Restart, |setting| setting.taken_by);
                    self.note(key, taken_by);
                }
            }
            let StoreConfig { name, path, read_only, allow_privileged, io, account, .. } = old;
            let StoreConfig { read, write, delete, remove, encryption, .. } = new.clone();
            stores.push(StoreConfig {
                name,
                path,
                read_only,
                read,
                write,
                delete,
                remove,
                encryption,
                allow_privileged,
                io,
                account,
            });
        }
        self.config.stores = stores;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"
        site = "lab"
        peer = "dtn1"
        running_max = 4
        [web]
        [[store]]
        name = "raw"
        path = "/raw"
        [[store]]
        name = "gone"
        path = "/gone"
    "#;

    /// Promise: adopted settings are in force, the others are named and keep their values, and each
    /// key that differs is in one of the two lists.
    #[test]
    fn a_reload_takes_what_it_can() {
        let old: Config = toml::from_str(OLD).unwrap();
        let text = OLD.replace("running_max = 4", "running_max = 9\nlisten = \"0.0.0.0:1\"");
        let text = text.replace("[web]", "").replace("\"gone\"", "\"new\"");
        let text = text.replace("path = \"/raw\"", "path = \"/other\"\nwrite = [\"*\"]");
        let new: Config = toml::from_str(&text).unwrap();
        let merged = merge(&old, &new).unwrap();
        let taken = ["running_max", "web.listen", "store[gone]", "store[raw].write", "store[new]"];
        assert_eq!(merged.taken, taken);
        let kept = vec!["listen".to_owned(), "store[raw].path".to_owned()];
        assert_eq!(merged.kept, kept);
        let config = merged.config;
        assert_eq!((config.running_max, config.listen), (9, old.listen));
        assert_eq!(
            (&*config.stores[0].path, &*config.stores[0].write),
            ("/raw", &["*".into()][..])
        );
        assert_eq!((&*config.stores[1].path, config.web), ("/gone", None));
        let cluster = "[cluster]\netcd = [\"https://h:1\"]\njournal = \"/j\"\n";
        let (one, two) = (format!("{OLD}{cluster}"), format!("{text}{cluster}"));
        let merged = merge(&toml::from_str(&one).unwrap(), &toml::from_str(&two).unwrap()).unwrap();
        assert_eq!((merged.taken, merged.kept), (taken.map(str::to_owned).into(), kept));
        let names = merged.config.stores.iter().map(|store| store.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["raw", "new"], "they come and go among peers too");
        let text = format!("{OLD}[accounts.hpc]\nall = \"xfer\"\n[audit]\nkeep = \"9d\"\n");
        let text = format!("{text}[auth]\npassword = false\n");
        let merged = merge(&old, &toml::from_str(&text).unwrap()).unwrap();
        assert_eq!(merged.taken, ["auth.password", "accounts"]);
        assert_eq!(merged.kept, ["audit.keep"]);
        assert!(merged.config.accounts.len() == 1 && !merged.config.auth.password);
        assert!(merged.config.audit.is_none());
        let oidc = "[auth.oidc]\nissuer = \"https://sso.lab\"\nclient_id = \"penstock\"\n";
        let merged = merge(&old, &toml::from_str(&format!("{OLD}{oidc}")).unwrap()).unwrap();
        assert!(merged.taken.is_empty() && merged.config.auth.oidc.is_none());
        assert!(merged.kept.iter().all(|key| key.starts_with("auth.oidc.")), "{:?}", merged.kept);
        assert!(merged.kept.contains(&"auth.oidc.issuer".to_owned()), "{:?}", merged.kept);
        let same = merge(&old, &old).unwrap();
        assert_eq!((same.config, same.taken, same.kept), (old, Vec::new(), Vec::new()));
    }

    /// Promise: the decision follows the table of settings.
    #[test]
    fn the_decision_follows_the_table() {
        let restart = |prefix: &str| {
            let all = SETTINGS.iter().filter(|it| it.taken_by == TakenBy::Restart);
            let keys = all.filter_map(|it| it.key.strip_prefix(prefix));
            keys.filter(|key| !key.contains(['.', '['])).collect::<Vec<_>>()
        };
        assert_eq!(restart(""), ["site", "peer", "listen", "cpus", "cipher_suites"]);
        assert_eq!(restart("store[]."), ["path", "read_only", "allow_privileged", "io", "account"]);
        for live in ["web.", "auth.", "network[].", "accounts[]."] {
            assert!(restart(live).is_empty(), "{live}");
        }
        let reload = SETTINGS.iter().filter(|it| it.taken_by == TakenBy::Reload);
        let tables = ["web.", "auth.", "network[].", "accounts[].", "store[]."];
        let of_root = reload.filter(|it| tables.iter().all(|table| !it.key.starts_with(table)));
        let of_root: Vec<_> = of_root.map(|it| it.key).collect();
        assert_eq!(of_root, ["advertise", "running_max", "log"]);
    }
}
