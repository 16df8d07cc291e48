//! The layers of a configuration: files, environment, command line. The later one counts.
//!
//! 1. The defaults.
//! 2. The main file: `DIR/penstock.toml`, or `/etc/penstock/penstock.toml` where the default site
//!    directory has none.
//! 3. Drop-ins in order of their names: for the default site directory those of
//!    `/etc/penstock/conf.d/*.toml`, then for each those of `DIR/conf.d/*.toml`.
//! 4. Variables of the environment.
//! 5. Options of the command line.
//!
//! Tables are merged key by key. Everything else, lists too, is replaced as a whole.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use penstock_api::rest::request_body::nearest;
use penstock_api::settings::{FaultLevel, SettingFault};
use penstock_exit::{ExitCode, Failure};

use super::reading::{FAULTS_MAX, fault, read};
use super::statements::{Remark, host_remarks, remarks};
use super::table::{Kind, SETTINGS};
use super::tree::{Node, Origin, Place, SourceFile, steps};
use crate::config::{Config, DIRECTORY_DEFAULT, FILE_NAME};

/// Directory of the files of packages and configuration management, for the default site directory.
const SYSTEM_DIRECTORY: &str = "/etc/penstock";
/// The folder of drop-ins beside a main file.
const DROP_INS: &str = "conf.d";

/// The layers of the configuration of a site directory.
#[derive(Clone, Debug)]
pub struct Layers {
    directory: PathBuf,
    /// Directory of the files of packages, for the default site directory.
    system: Option<PathBuf>,
    environment: Vec<(String, String)>,
    flags: Vec<(&'static str, &'static str, toml::Value)>,
}

/// A mark that distinguishes a file from its successor: time of modification, size, inode. `None`
/// where no file exists.
pub(crate) type Stamp = Option<(SystemTime, u64, u64)>;

/// The depth of the checks of a configuration.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// By its text alone.
    Text,
    /// With the places of stores and of secrets.
    Places,
}

/// A configuration that was read, with the layer of each value.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: Config,
    /// Faults with which the daemon starts all the same.
    pub warnings: Vec<SettingFault>,
    pub(super) files: Vec<PathBuf>,
    pub(super) tree: Node,
}

impl Loaded {
    /// Returns the same layers with the configuration that is in force of them.
    pub(crate) fn with(self, config: Config) -> Self {
        Self { config, ..self }
    }

    /// Returns a configuration that comes from no file.
    #[cfg(test)]
    pub(crate) fn of(config: Config) -> Self {
        Self { config, warnings: Vec::new(), files: Vec::new(), tree: Node::empty() }
    }
}

/// The reason why a configuration cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// There is no configuration.
    #[error("`{}` is not a site directory", .0.display())]
    Absent(PathBuf),
    /// The configuration has faults.
    #[error("{}", listed(.0))]
    Faults(Vec<SettingFault>),
}

impl LoadError {
    /// Returns the faults, the absence of a configuration as one.
    pub fn faults(self) -> Vec<SettingFault> {
        match self {
            Self::Faults(faults) => faults,
            Self::Absent(_) => {
                vec![fault(FaultLevel::Error, &Origin::Default, self.to_string())]
            }
        }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        match &error {
            LoadError::Absent(_) => Self::new(ExitCode::Usage, error.to_string()).hint(
                "`penstock site init --name NAME --dir DIR` makes one; or name another one by \
                 `--dir`",
            ),
            LoadError::Faults(faults) => {
                let errors = faults.iter().filter(|fault| fault.level == FaultLevel::Error);
                let message = match errors.count() {
                    1 => "the configuration has a fault".to_owned(),
                    count => format!("the configuration has {count} faults"),
                };
                Self::new(ExitCode::Usage, message)
                    .caused_by(error.to_string())
                    .hint("correct it; `penstock config check` checks it without a start")
            }
        }
    }
}

/// Returns faults one below the other.
pub fn listed(faults: &[SettingFault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

impl Layers {
    /// Returns the layers of a site directory, with the environment of this process.
    pub fn of(directory: &Path) -> Self {
        let variable = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            let name = name.into_string().ok().filter(|name| name.starts_with("PENSTOCK_"))?;
            // An empty variable is ignored.
            let value = value.to_string_lossy().into_owned();
            (!value.is_empty()).then_some((name, value))
        };
        let mut environment: Vec<_> = std::env::vars_os().filter_map(variable).collect();
        environment.sort();
        let is_default = directory == Path::new(DIRECTORY_DEFAULT);
        let system = is_default.then(|| PathBuf::from(SYSTEM_DIRECTORY));
        Self { directory: directory.to_owned(), system, environment, flags: Vec::new() }
    }

    /// Adds an option of the command line, if it is given, for a key as `web.listen`.
    pub fn with_flag(
        mut self,
        key: &'static str,
        flag: &'static str,
        value: Option<toml::Value>,
    ) -> Self {
        self.flags.extend(value.map(|value| (key, flag, value)));
        self
    }

    /// Returns the site directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the main file. A file of the system without a setting, as packages install it, does
    /// not count.
    pub fn main_file(&self) -> PathBuf {
        let own = self.directory.join(FILE_NAME);
        let system = self.system.as_ref().map(|system| system.join(FILE_NAME));
        match system {
            Some(system) if !own.exists() && has_settings(&system) => system,
            _ => own,
        }
    }

    /// Returns the folders of drop-ins.
    fn folders(&self) -> Vec<PathBuf> {
        let roots = self.system.iter().chain([&self.directory]);
        roots.map(|root| root.join(DROP_INS)).collect()
    }

    /// Returns all drop-ins, in their order.
    fn drop_ins(&self) -> io::Result<Vec<PathBuf>> {
        let mut all = Vec::new();
        for folder in self.folders() {
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let mut found = Vec::new();
            for entry in entries {
                let path = entry?.path();
                let hidden =
                    path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
                if path.extension() == Some(OsStr::new("toml")) && !hidden {
                    found.push(path);
                }
            }
            found.sort();
            all.extend(found);
        }
        Ok(all)
    }

    /// Returns the marks of all files of the configuration, by which changes are noticed.
    pub(crate) fn stamps(&self) -> Vec<Stamp> {
        let stamp = |path: PathBuf| {
            let meta = fs::metadata(path).ok()?;
            Some((meta.modified().ok()?, meta.len(), meta.ino()))
        };
        let files = self.drop_ins().unwrap_or_default();
        std::iter::once(self.main_file()).chain(files).map(stamp).collect()
    }

    /// Reads the configuration, and checks it without a look at stores and interfaces.
    ///
    /// # Errors
    /// There is none, or it has faults: all of them, warnings too.
    pub fn load(&self) -> Result<Loaded, LoadError> {
        let main = self.main_file();
        let text = match fs::read_to_string(&main) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(LoadError::Absent(self.directory.clone()));
            }
            text => text,
        };
        let mut files = vec![(main, text)];
        files.extend(self.listed_drop_ins()?.into_iter().map(read_file));
        self.build(files, Depth::Places)
    }

    /// Returns the drop-ins, in the order in which they are read.
    ///
    /// # Errors
    /// A folder cannot be listed: without its files the rest would mean something else.
    fn listed_drop_ins(&self) -> Result<Vec<PathBuf>, LoadError> {
        self.drop_ins().map_err(|error| {
            let message = format!("cannot list the folders of drop-ins: {error}");
            LoadError::Faults(vec![fault(FaultLevel::Error, &Origin::Default, message)])
        })
    }

    /// Reads the configuration for its rights, without a look at a directory of a store, which
    /// might hang.
    ///
    /// # Errors
    /// As [`Layers::load`].
    pub(crate) fn load_rights(&self) -> Result<Config, LoadError> {
        let paths = std::iter::once(self.main_file()).chain(self.listed_drop_ins()?);
        let loaded = self.build(paths.map(read_file).collect(), Depth::Text)?;
        Ok(loaded.config)
    }

    /// Reads and checks other files instead of those of the site directory, without environment
    /// and command line.
    ///
    /// # Errors
    /// As [`Layers::load`].
    pub fn load_files(&self, files: &[PathBuf]) -> Result<Loaded, LoadError> {
        let bare = Self { environment: Vec::new(), flags: Vec::new(), ..self.clone() };
        bare.build(files.iter().cloned().map(read_file).collect(), Depth::Places)
    }

    /// Reads and checks the configuration as it would be with another text of one of its files.
    ///
    /// # Errors
    /// As [`Layers::load`].
    pub fn load_with(&self, file: &Path, text: &str) -> Result<Loaded, LoadError> {
        let paths = std::iter::once(self.main_file()).chain(self.listed_drop_ins()?);
        let read = |path: PathBuf| {
            if path == file { (path, Ok(text.to_owned())) } else { read_file(path) }
        };
        self.build(paths.map(read).collect(), Depth::Places)
    }

    fn build(
        &self,
        files: Vec<(PathBuf, io::Result<String>)>,
        depth: Depth,
    ) -> Result<Loaded, LoadError> {
        let mut faults = Vec::new();
        let paths: Vec<_> = files.iter().map(|(path, _)| path.clone()).collect();
        let mut tree = Node::empty();
        for (path, text) in files {
            match text {
                Ok(text) => add_file(&mut tree, path, text, &mut faults),
                Err(error) => faults.push(fault(
                    FaultLevel::Error,
                    &Origin::Default,
                    format!("cannot read `{}`: {error}", path.display()),
                )),
            }
        }
        if !faults.is_empty() {
            return Err(LoadError::Faults(faults));
        }
        refuse_secrets(&mut tree, &mut faults);
        self.add_environment(&mut tree, &mut faults);
        for (key, flag, value) in &self.flags {
            tree.set(key, value.clone(), &Origin::Flag(flag));
        }
        let config: Option<Config> = read(&mut tree, SETTINGS, &mut faults);
        if let Some(config) = &config {
            self.judge(config, &tree, depth, &mut faults);
        }
        // The gravest ones stay where there are too many.
        faults.sort_by_key(|fault| std::cmp::Reverse(fault.level));
        faults.truncate(FAULTS_MAX);
        faults.sort_by(|one, other| {
            (&one.place, one.line, one.column).cmp(&(&other.place, other.line, other.column))
        });
        match config {
            Some(config) if faults.iter().all(|fault| fault.level == FaultLevel::Warning) => {
                Ok(Loaded { config, warnings: faults, files: paths, tree })
            }
            _ => Err(LoadError::Faults(faults)),
        }
    }

    fn add_environment(&self, tree: &mut Node, faults: &mut Vec<SettingFault>) {
        let known: Vec<_> =
            SETTINGS.iter().filter_map(|setting| Some((setting.variable()?, setting))).collect();
        for (name, value) in &self.environment {
            let origin = Origin::Environment(name.clone());
            let Some((_, setting)) = known.iter().find(|(known, _)| known == name) else {
                // Other variables are for other programs of Penstock, or for its commands.
                if name.contains("__") {
                    let message = format!("no setting has the variable `{name}`");
                    let mut fault = fault(FaultLevel::Error, &origin, message);
                    let names = known.iter().map(|(name, _)| name.as_str());
                    fault.nearest = nearest(name, names).map(str::to_owned);
                    faults.push(fault);
                }
                continue;
            };
            tree.set(setting.key, parsed(setting.kind, value), &origin);
        }
    }

    /// Checks rules that the types alone do not express.
    fn judge(&self, config: &Config, tree: &Node, depth: Depth, faults: &mut Vec<SettingFault>) {
        for (key, error) in config.wrong_statements() {
            let at = &tree.nearest(&steps(&key)).origin;
            faults.push(fault(FaultLevel::Error, at, error.to_string()));
        }
        if depth == Depth::Text {
            return;
        }
        let places = config.wrong_places(&self.directory);
        for (at, failure) in places.unwrap_or_default() {
            let key = format!("store[{at}].path");
            let at = &tree.nearest(&steps(&key)).origin;
            faults.push(fault(FaultLevel::Error, at, failure.to_string()));
        }
        faults.extend(remarks(config, &self.directory).iter().map(|remark| noted(remark, tree)));
    }

    /// Returns all faults of a configuration that was read: its warnings, and the findings of a
    /// look at this host. Blocks for as long as a file system hangs.
    pub fn examine(&self, read: Result<Loaded, LoadError>) -> Vec<SettingFault> {
        match read {
            Ok(loaded) => {
                let found = host_remarks(&loaded.config, &self.directory);
                let found = found.iter().map(|remark| noted(remark, &loaded.tree));
                loaded.warnings.into_iter().chain(found).collect()
            }
            Err(error) => error.faults(),
        }
    }
}

impl Config {
    /// Reads the configuration of a site directory with its drop-ins and the environment, and
    /// checks it. Blocks on storage.
    ///
    /// # Errors
    /// There is none, or it has faults: the message lists them all.
    pub fn load(directory: &Path) -> anyhow::Result<Self> {
        Ok(Layers::of(directory).load().map_err(Failure::from)?.config)
    }

    /// Returns the main file of the configuration of a site directory.
    pub fn found(directory: &Path) -> PathBuf {
        Layers::of(directory).main_file()
    }
}

fn noted(remark: &Remark, tree: &Node) -> SettingFault {
    let level = if remark.is_error { FaultLevel::Error } else { FaultLevel::Warning };
    fault(level, &tree.nearest(&steps(&remark.key)).origin, remark.text.clone())
}

fn add_file(tree: &mut Node, path: PathBuf, text: String, faults: &mut Vec<SettingFault>) {
    let file = Arc::new(SourceFile { path, text });
    match Node::parse(&file) {
        Ok(node) => tree.merge(node),
        Err(found) => {
            for (span, message) in found {
                let at = Origin::File(Place::of(&file, span.start));
                faults.push(fault(FaultLevel::Error, &at, message.trim_end()));
            }
        }
    }
}

/// Returns whether a file has more than comments. A file that cannot be read may have.
fn has_settings(file: &Path) -> bool {
    let is_setting = |line: &str| !line.is_empty() && !line.starts_with('#');
    match fs::read_to_string(file) {
        Ok(text) => text.lines().map(str::trim).any(is_setting),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Returns the value that the text of a variable means. A text that is no number stays a text, and
/// is a fault then.
fn parsed(kind: Kind, text: &str) -> toml::Value {
    let text = text.trim();
    let kept = || toml::Value::String(text.to_owned());
    match kind {
        Kind::Text | Kind::Table => kept(),
        Kind::Number => text.parse().map_or_else(|_| kept(), toml::Value::Integer),
        Kind::Switch => text.parse().map_or_else(|_| kept(), toml::Value::Boolean),
        Kind::List => {
            let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
            parts.map(str::to_owned).collect::<Vec<_>>().into()
        }
    }
}

/// Reads a file of the configuration.
fn read_file(path: PathBuf) -> (PathBuf, io::Result<String>) {
    let text = fs::read_to_string(&path);
    (path, text)
}

/// Replaces secrets in files by a placeholder, each with a fault that does not show it.
fn refuse_secrets(tree: &mut Node, faults: &mut Vec<SettingFault>) {
    for setting in SETTINGS.iter().filter(|setting| setting.is_secret()) {
        let origin = tree.origin_of(&steps(setting.key));
        if let Origin::File(_) = origin {
            let message = format!("`{}` is a secret, and stands in no file", setting.key);
            let mut fault = fault(FaultLevel::Error, &origin, message);
            fault.text = None;
            fault.hint = format!(
                "use `{0}_file`, `{0}_command` or {1}",
                setting.key,
                setting.variable().unwrap_or_default()
            );
            faults.push(fault);
            tree.set(setting.key, toml::Value::String("refused".to_owned()), &origin);
        }
    }
}

#[cfg(test)]
mod tests;
