//! `penstock config`: checks, shows, reloads and writes the configuration of a site directory.

pub(crate) mod reference;
mod wizard;

use std::path::{Path, PathBuf};

use penstock_api::endpoints::{RELOAD_SETTINGS, SHOW_SETTINGS};
use penstock_api::settings::{
    FaultLevel, SettingFault, SettingSource, SettingsFaults, SettingsReload, SettingsView,
};
use penstock_daemon::settings::Layers;
use penstock_exit::{self as exit, ExitCode, Failure};

use self::wizard::WizardArgs;
use crate::client::Client;
use crate::options::directory::DirectoryArgs;

/// Checks, shows, reloads and writes the configuration
#[derive(clap::Args)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(clap::Subcommand)]
enum ConfigCommand {
    /// Lists all faults of the configuration, with their lines
    ///
    /// Reads the files of the site directory and the environment as the daemon does at its start,
    /// and looks at directories, addresses and interfaces of this host. With files, checks these
    /// as layers instead, the last one counting most, without the environment.
    #[command(after_help = exit::help_of(&[
        (ExitCode::Done, "no fault"),
        (ExitCode::Unclassified, ""),
        (ExitCode::Usage, "wrong command line, or an error: the daemon would not start"),
        (ExitCode::SomeFailed, "warnings only"),
    ]))]
    Check {
        /// The files
        files: Vec<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows the settings, each with the layer that sets it and when a change of it counts
    ///
    /// Shows those in force if the daemon answers, else those of the files.
    #[command(after_help = exit::help_of(&[
        (ExitCode::Done, "done"),
        (ExitCode::Unclassified, ""),
        (ExitCode::Usage, "wrong command line; without a daemon: an error in the configuration"),
    ]))]
    Show {
        /// Show defaults too
        #[arg(long)]
        effective: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Has the daemon read its configuration again, as SIGHUP does, and shows what it has taken
    #[command(after_help = exit::help_of(&[
        (ExitCode::Done, "all is in force"),
        (ExitCode::Unclassified, ""),
        (ExitCode::Usage, "an error in the configuration: the old one stays in force"),
        (ExitCode::SomeFailed, "some settings count at the next start only, or were not applied"),
        (ExitCode::Temporary, "no daemon answers"),
    ]))]
    Reload {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Asks for what the configuration needs, shows what would change, and writes it
    ///
    /// Takes its defaults from the configuration that is there, else from this host: its name, its
    /// interfaces, its mounts. A directory without a site becomes one, with keys. What operators
    /// have written stays, with its comments. A terminal shows a form, a screen for each subject;
    /// without one, with `TERM=dumb` or `--plain`, it asks line by line. The same answers give the
    /// same file, whichever way they are given. Crashes leave the old file or the new one.
    #[command(after_help = exit::help_of(&[
        (ExitCode::Done, "written, or nothing to change"),
        (ExitCode::Unclassified, ""),
        (ExitCode::Usage, "a wrong or missing answer, or a fault in the configuration"),
        (ExitCode::Refused, "the user did not confirm the change"),
        (ExitCode::Fatal, "the file cannot be written"),
        (ExitCode::Interrupted, "left by Ctrl-C or a signal; nothing was written"),
    ]))]
    Wizard(WizardArgs),
}

/// Runs it.
///
/// # Errors
/// The configuration cannot be read, or no daemon answers where one is needed.
pub(crate) fn run(args: ConfigArgs) -> anyhow::Result<ExitCode> {
    let directory = &args.directory.directory;
    match args.command {
        ConfigCommand::Check { files, json } => check(directory, &files, json),
        ConfigCommand::Show { effective, json } => show(directory, effective, json),
        ConfigCommand::Reload { json } => reload(directory, json),
        ConfigCommand::Wizard(args) => wizard::run(directory, &args),
    }
}

fn check(directory: &Path, files: &[PathBuf], json: bool) -> anyhow::Result<ExitCode> {
    let layers = Layers::of(directory);
    let loaded = if files.is_empty() { layers.load() } else { layers.load_files(files) };
    let faults = layers.examine(loaded);
    if json {
        exit::print(&serde_json::to_string(&SettingsFaults { faults: faults.clone() })?)?;
    } else {
        print_faults(&faults)?;
    }
    Ok(match faults.iter().map(|fault| fault.level).max() {
        None => ExitCode::Done,
        Some(FaultLevel::Warning) => ExitCode::SomeFailed,
        Some(FaultLevel::Error) => ExitCode::Usage,
    })
}

fn print_faults(faults: &[SettingFault]) -> anyhow::Result<()> {
    for fault in faults {
        exit::print(&fault.to_string())?;
    }
    let count = |level| faults.iter().filter(|fault| fault.level == level).count();
    let (errors, warnings) = (count(FaultLevel::Error), count(FaultLevel::Warning));
    let counted = |count, what| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    exit::print(&format!("{}, {}", counted(errors, "error"), counted(warnings, "warning")))?;
    Ok(())
}

fn show(directory: &Path, effective: bool, json: bool) -> anyhow::Result<ExitCode> {
    let mut view: SettingsView = match Client::new(directory)?.get(&SHOW_SETTINGS.uri(&[])) {
        Ok(view) => view,
        Err(error) if exit::code_of(&error) == ExitCode::Temporary => {
            exit::warn("no daemon answers: these are the settings of the files");
            Layers::of(directory).load().map_err(Failure::from)?.view(false)
        }
        Err(error) => return Err(error),
    };
    if !effective {
        view.settings.retain(|setting| setting.source != SettingSource::Default);
    }
    if json {
        exit::print(&serde_json::to_string(&view)?)?;
    } else {
        exit::print(&table(&view))?;
    }
    Ok(ExitCode::Done)
}

/// Returns the settings in columns: key, value, layer, and when a change counts.
fn table(view: &SettingsView) -> String {
    let rows: Vec<[String; 4]> = view
        .settings
        .iter()
        .map(|setting| {
            let kept = if view.kept.contains(&setting.key) { " (changed)" } else { "" };
            let taken_by = format!("{}{kept}", setting.taken_by.as_str());
            let source = setting.source.to_string();
            [setting.key.clone(), setting.value.to_string(), source, taken_by]
        })
        .collect();
    let head = ["setting", "value", "set by", "a change counts after a"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    let width = |column: usize| {
        let widths = rows.iter().map(|row| row[column].chars().count());
        widths.max().unwrap_or_default()
    };
    let widths = [width(0), width(1).min(48), width(2)];
    let line = |row: &[String; 4]| {
        let [key, value, source, taken_by] = row;
        let [a, b, c] = widths;
        format!("{key:<a$}  {value:<b$}  {source:<c$}  {taken_by}")
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn reload(directory: &Path, json: bool) -> anyhow::Result<ExitCode> {
    let client = Client::new(directory)?;
    let outcome: SettingsReload = client.post(&RELOAD_SETTINGS.uri(&[]), &())?;
    if json {
        exit::print(&serde_json::to_string(&outcome)?)?;
    } else {
        for fault in &outcome.faults {
            exit::print(&fault.to_string())?;
        }
        let lists = [("in force", &outcome.taken), ("at the next start only", &outcome.kept)];
        for (what, keys) in lists.iter().filter(|(_, keys)| !keys.is_empty()) {
            exit::print(&format!("{what}: {}", keys.join(", ")))?;
        }
        if !outcome.reloaded {
            exit::print("the old configuration stays in force as a whole")?;
        } else if outcome.taken.is_empty() && outcome.kept.is_empty() {
            exit::print("nothing has changed")?;
        }
    }
    Ok(match &outcome {
        SettingsReload { reloaded: false, .. } => ExitCode::Usage,
        SettingsReload { kept, faults, .. } if kept.is_empty() && faults.is_empty() => {
            ExitCode::Done
        }
        _ => ExitCode::SomeFailed,
    })
}
