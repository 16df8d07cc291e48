//! `penstock config wizard`: asks for what a configuration needs, with defaults found on this host,
//! shows what would change, and writes it.
//!
//! | module | what it owns |
//! |---|---|
//! | `questions` | the one list of questions |
//! | `host` | what this host has to offer |
//! | `prompts` | answers by lines |
//! | `form` | answers by a full-screen form |
//! | `document` | the text for some answers |
//! | `draft` | that text compared with the file, and its faults |

mod document;
mod draft;
mod form;
mod host;
mod prompts;
mod questions;

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use penstock_daemon::config::Config;
use penstock_daemon::settings::Layers;
use penstock_daemon::site_directory::{TRUST_DIRECTORY, act_as_owner, write_drop_in};
use penstock_exit::{self as exit, ExitCode, Failure};

use self::draft::Draft;
use self::form::Form;
use self::host::Host;
use self::questions::{Answers, Question};
use crate::commands::site;
use crate::terminal::screen;

/// Options of the wizard.
#[derive(clap::Args)]
pub(crate) struct WizardArgs {
    /// Take answers from this TOML file, one key a line as `stores = "raw=/data/raw"`, and the
    /// defaults for all others; ask nothing
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// Answer a question: `--set site=lab`. May be given more than once
    #[arg(long, value_name = "KEY=ANSWER")]
    set: Vec<String>,
    /// Ask by lines, also on a terminal that could show a form
    #[arg(long, conflicts_with_all = ["answers", "yes"])]
    plain: bool,
    /// Take the defaults for what has no answer; ask nothing
    #[arg(long, short)]
    yes: bool,
    /// Show what would change; write nothing
    #[arg(long, short = 'n')]
    dry_run: bool,
}

/// Runs it.
///
/// # Errors
/// An answer is wrong or missing, the configuration that is there has faults, or the file cannot be
/// written.
pub(super) fn run(directory: &Path, args: &WizardArgs) -> anyhow::Result<ExitCode> {
    let layers = Layers::of(directory);
    let path = layers.main_file();
    let old = match fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Failure::io(format!("read `{}`", path.display()), error).into()),
    };
    let now = match &old {
        // Drop-ins and the environment would else be copied into the main file.
        Some(_) => match layers.load_files(std::slice::from_ref(&path)) {
            Ok(loaded) => Some(loaded.config),
            Err(_) => Some(layers.load().map_err(Failure::from)?.config),
        },
        None => None,
    };
    let questions = questions::questions(&Host::look(), now.as_ref());
    let mut answers = given(args, &questions, now.as_ref())?;
    let asks = !args.yes && args.answers.is_none();
    let draft_of = |answers: &Answers| Draft::of(&layers, &path, old.as_deref(), answers);
    let by_form = asks && !args.plain && screen::is_capable();
    if by_form {
        let form = Form::new(&path, &questions, &answers, args.dry_run);
        let Some(agreed) = form::show(form, &draft_of)? else {
            exit::warn("nothing was written");
            return Ok(ExitCode::Interrupted);
        };
        answers = agreed;
    } else if asks {
        prompts::ask(&questions, &mut answers, &mut io::stdin().lock(), &mut say)?;
    }
    complete(&questions, &mut answers);
    let draft = draft_of(&answers)?;
    if !draft.is_change() {
        exit::print("nothing to change")?;
        return Ok(ExitCode::Done);
    }
    exit::print(draft.difference.trim_end())?;
    draft.faults.iter().for_each(|fault| exit::warn(&fault.to_string()));
    if !draft.is_sound() {
        let message = "the daemon would not start with these answers";
        return Err(Failure::new(ExitCode::Usage, message).into());
    }
    if args.dry_run {
        return Ok(ExitCode::Done);
    }
    if asks && !by_form && !prompts::agreed(&mut io::stdin().lock(), &mut say)? {
        exit::warn("nothing was written");
        return Ok(ExitCode::Refused);
    }
    let is_within = path.starts_with(directory);
    let acting = if is_within { act_as_owner(directory)? } else { None };
    if old.is_none() {
        make_site(directory, &draft.config)?;
    }
    replace(&path, &draft.text)?;
    drop(acting);
    write_drop_in(directory, &draft.config).iter().for_each(|note| exit::warn(note));
    tell_next(directory, old.is_none())?;
    Ok(ExitCode::Done)
}

/// Writes lines, and prompts behind which the user answers.
fn say(text: &str) {
    match text.strip_suffix('\n') {
        Some(line) => exit::warn(line),
        None => exit::prompt(text),
    }
}

/// Takes the defaults for what has no answer.
fn complete(questions: &[Question], answers: &mut Answers) {
    for question in questions {
        answers.entry(question.key).or_insert_with(|| question.default.clone());
    }
}

fn tell_next(directory: &Path, is_new: bool) -> Result<(), Failure> {
    let shown = directory.display();
    exit::warn(&match is_new {
        true => format!("start it with: penstock daemon --dir {shown}"),
        false => format!("put it in force with: penstock config reload --dir {shown}"),
    });
    Ok(())
}

/// Makes the keys of a site that is new. A directory with keys keeps them.
fn make_site(directory: &Path, config: &Config) -> anyhow::Result<()> {
    if directory.join(TRUST_DIRECTORY).exists() {
        return Ok(());
    }
    let authority = site::make_keys(directory, config)?;
    exit::print(&format!("site {}\nfingerprint {}", config.site, authority.fingerprint()))?;
    Ok(())
}

/// Returns the answers of the file and of the options, each checked.
fn given(
    args: &WizardArgs,
    questions: &[Question],
    now: Option<&Config>,
) -> Result<Answers, Failure> {
    let usage = |why: String| Failure::new(ExitCode::Usage, why);
    let mut found: Vec<(String, String)> = Vec::new();
    if let Some(path) = &args.answers {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::io(format!("read `{}`", path.display()), error))?;
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            usage(format!("`{}` holds no answers", path.display())).caused_by(error.to_string())
        })?;
        found.extend(table.into_iter().map(|(key, value)| (key, text_of(&value))));
    }
    for text in &args.set {
        let (key, answer) =
            text.split_once('=').ok_or_else(|| usage(format!("`{text}` is not KEY=ANSWER")))?;
        found.push((key.to_owned(), answer.to_owned()));
    }
    let mut answers = Answers::new();
    for (key, answer) in found {
        let Some(question) = questions.iter().find(|question| question.key == key) else {
            if is_settled(&key, &answer, now)? {
                continue;
            }
            let known: Vec<_> = questions.iter().map(|question| question.key).collect();
            return Err(usage(format!("the wizard does not ask for `{key}`"))
                .hint(format!("it asks for {}", known.join(", "))));
        };
        question.check(&answer).map_err(|why| usage(format!("`{key}`: {why}")))?;
        answers.insert(question.key, answer);
    }
    Ok(answers)
}

/// Returns whether an answer is to a question about a new site alone, and this one has settled it:
/// the answers that made a site may be given again, as by a container at each start.
///
/// # Errors
/// The answer is another name than the site or the peer has.
fn is_settled(key: &str, answer: &str, now: Option<&Config>) -> Result<bool, Failure> {
    let name = match (key, now) {
        ("site", Some(now)) => &now.site,
        ("peer", Some(now)) => &now.peer,
        ("write", Some(_)) => return Ok(true),
        _ => return Ok(false),
    };
    if name.as_str() != answer.trim() {
        let message = format!("`{key}` is `{name}` already, and its certificates have that name");
        return Err(Failure::new(ExitCode::Usage, message));
    }
    Ok(true)
}

/// Returns the answer that a value of a file means: a list is one with commas.
fn text_of(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(items) => items.iter().map(text_of).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Replaces a file: a crash leaves the old one or the new one, whole. A new file is for its owner
/// alone; one that is there keeps its mode.
///
/// # Errors
/// It cannot be written.
fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let failed = |error| Failure::io(format!("write `{}`", path.display()), error);
    let mode = fs::metadata(path).map_or(0o600, |meta| meta.permissions().mode() & 0o7777);
    let next = path.with_extension("toml.new");
    let write = || -> io::Result<()> {
        match fs::remove_file(&next) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&next)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&next, path)?;
        fs::File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
    };
    write().map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a new file is for its owner alone, one that is there keeps its mode, and what a
    /// killed wizard left behind is in nobody's way.
    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("penstock.toml");
        fs::write(path.with_extension("toml.new"), "half").unwrap();
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        replace(&path, "one").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode()), ("one", 0o600));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&path, "two").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode()), ("two", 0o640));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
