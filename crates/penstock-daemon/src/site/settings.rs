//! The configuration in force, and its reload while the daemon runs.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use penstock_api::settings::{
    FaultLevel, SettingFault, SettingsFaults, SettingsReload, SettingsView,
};

use super::exports::Exports;
use crate::config::Config;
use crate::settings::{Layers, Loaded, merge};

/// Level of the log unless configured.
pub(crate) const LOG_DEFAULT: &str = "info";

/// Puts a new configuration in force where a part of the daemon holds values of it. Blocks.
pub(crate) type Apply = dyn Fn(&Config) -> anyhow::Result<()> + Send + Sync;

/// A stage of a reload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Begins,
    Ended,
}

/// The configuration in force.
pub(crate) struct Settings {
    layers: Layers,
    now: RwLock<InForce>,
    appliers: Mutex<Vec<Box<Apply>>>,
    /// Learns when a reload begins and ends.
    observer: OnceLock<Box<dyn Fn(Stage) + Send + Sync>>,
    /// Held by a reload.
    turn: Mutex<()>,
}

struct InForce {
    config: Arc<Config>,
    /// The files as they were taken last, with the layer of each value.
    loaded: Loaded,
    /// Keys whose values in the files count at the next start only.
    kept: Vec<String>,
}

impl Settings {
    /// Returns the settings of a daemon that starts.
    pub(crate) fn new(loaded: Loaded, layers: Layers) -> Self {
        let config = Arc::new(loaded.config.clone());
        Self {
            layers,
            now: RwLock::new(InForce { config, loaded, kept: Vec::new() }),
            appliers: Mutex::default(),
            observer: OnceLock::new(),
            turn: Mutex::default(),
        }
    }

    /// Returns the layers that a reload reads.
    pub(crate) fn layers(&self) -> Layers {
        self.layers.clone()
    }

    /// Returns the configuration in force.
    pub(crate) fn now(&self) -> Arc<Config> {
        Arc::clone(&self.read().config)
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, InForce> {
        self.now.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn appliers(&self) -> MutexGuard<'_, Vec<Box<Apply>>> {
        self.appliers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `apply` called with each new configuration, after those that were given before.
    pub(crate) fn on_reload(&self, apply: Box<Apply>) {
        self.appliers().push(apply);
    }

    /// Has `observe` called when a reload begins and ends. Only the first one counts.
    pub(crate) fn observe(&self, observe: Box<dyn Fn(Stage) + Send + Sync>) {
        let _ = self.observer.set(observe);
    }

    /// Returns the settings as the API shows them, with the rights to stores as they are now:
    /// these follow the files without a reload.
    pub(crate) fn view(&self, exports: &Exports) -> SettingsView {
        let now = self.read();
        let mut loaded = now.loaded.clone();
        exports.show_rights(&mut loaded.config);
        SettingsView { kept: now.kept.clone(), ..loaded.view(false) }
    }

    /// Checks a text as if it were the main file, and looks at this host. Blocks on stores.
    pub(crate) fn check(&self, text: &str) -> SettingsFaults {
        SettingsFaults {
            faults: self.layers.examine(self.layers.load_with(&self.layers.main_file(), text)),
        }
    }

    /// Reads the configuration again, and adopts the settings that can be adopted. With an error in
    /// it all stays as it was. Blocks on storage, and for as long as another reload takes.
    pub(crate) fn reload(&self) -> SettingsReload {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let tell = |stage| self.observer.get().into_iter().for_each(|observe| observe(stage));
        tell(Stage::Begins);
        let outcome = self.take();
        log(&outcome);
        tell(Stage::Ended);
        outcome
    }

    fn take(&self) -> SettingsReload {
        let refused = |faults| SettingsReload { faults, ..SettingsReload::default() };
        let loaded = match self.layers.load() {
            Ok(loaded) => loaded,
            Err(error) => return refused(error.faults()),
        };
        let merged = match merge(&self.now(), &loaded.config) {
            Ok(merged) => merged,
            Err(error) => return refused(vec![not_applied(&error)]),
        };
        let mut faults = loaded.warnings.clone();
        let config = Arc::new(merged.config);
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = InForce {
            loaded: loaded.with((*config).clone()),
            config: Arc::clone(&config),
            kept: merged.kept.clone(),
        };
        let level = config.log.as_deref().unwrap_or(LOG_DEFAULT);
        faults.extend(penstock_exit::set_log(level).err().map(|error| not_applied(&error)));
        for apply in self.appliers().iter() {
            faults.extend(apply(&config).err().map(|error| not_applied(&format!("{error:#}"))));
        }
        SettingsReload { reloaded: true, taken: merged.taken, kept: merged.kept, faults }
    }
}

#[cfg(test)]
impl From<Config> for Settings {
    /// Returns settings that come from no file.
    fn from(config: Config) -> Self {
        Self::new(Loaded::of(config), Layers::of(std::path::Path::new("/nonexistent")))
    }
}

fn not_applied(why: &dyn std::fmt::Display) -> SettingFault {
    SettingFault {
        level: FaultLevel::Error,
        place: None,
        line: None,
        column: None,
        text: None,
        message: why.to_string(),
        nearest: None,
        hint: String::new(),
    }
}

/// Writes the outcome of a reload to the log.
fn log(outcome: &SettingsReload) {
    for fault in &outcome.faults {
        let fault = fault.to_string().replace('\n', " ");
        tracing::warn!(fault, "reload");
    }
    if !outcome.reloaded {
        tracing::error!("the configuration has faults: the old one stays in force as a whole");
        return;
    }
    let (taken, kept) = (outcome.taken.join(", "), outcome.kept.join(", "));
    tracing::info!(taken, "the configuration was reloaded");
    if !kept.is_empty() {
        tracing::warn!(kept, "these settings count at the next start only");
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const TEXT: &str = "site = \"lab\"\npeer = \"dtn1\"\nrunning_max = 2\n";

    /// Promise: a reload adopts the settings that it can and names the others. A file with a fault
    /// changes nothing, and a fault of a part of the daemon is reported.
    #[test]
    fn a_reload_takes_all_or_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("penstock.toml");
        fs::write(&file, TEXT).unwrap();
        let layers = Layers::of(directory.path());
        let settings = Settings::new(layers.load().unwrap(), layers);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (stages, applied) = (Arc::clone(&seen), Arc::clone(&seen));
        settings.observe(Box::new(move |stage| stages.lock().unwrap().push(format!("{stage:?}"))));
        settings.on_reload(Box::new(move |config| {
            applied.lock().unwrap().push(config.running_max.to_string());
            anyhow::ensure!(config.running_max != 9, "nine is too many");
            Ok(())
        }));
        let run = |text: &str| {
            fs::write(&file, text).unwrap();
            settings.reload()
        };
        let changed = format!("{}listen = \"0.0.0.0:1\"\n", TEXT.replace('2', "3"));
        let outcome = run(&changed);
        assert!(outcome.reloaded && outcome.faults.is_empty(), "{outcome:?}");
        assert_eq!(
            (outcome.taken, outcome.kept),
            (vec!["running_max".into()], vec!["listen".into()])
        );
        assert_eq!(settings.now().running_max, 3);
        assert_eq!(settings.view(&Exports::default()).kept, ["listen"]);
        let broken = run("site = \"lab\"\nrunning_max = 7\nlisen = 1\n");
        assert!(!broken.reloaded && broken.faults.len() == 2, "{broken:?}");
        assert_eq!(settings.now().running_max, 3, "the old configuration stays whole");
        let failed = run(&TEXT.replace('2', "9"));
        assert_eq!(failed.faults[0].message, "nine is too many");
        let stages = ["Begins", "3", "Ended", "Begins", "Ended", "Begins", "9", "Ended"];
        assert_eq!(*seen.lock().unwrap(), stages);
    }
}
