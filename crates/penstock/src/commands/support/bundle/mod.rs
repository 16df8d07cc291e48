//! `penstock support-bundle`: one archive of facts for those who are asked for help, without any
//! secret.
//!
//! ```text
//!   site_facts, host_facts, transfer_facts   collect texts
//!        |
//!   Scrubber      takes out secrets: values that are known, and texts that look like one
//!        |
//!   Pseudonyms    with `--redact-names`: replaces names of files and users
//!        |
//!   Archive       tar.gz with a manifest, mode 0600, never over another file
//! ```
//! Files that hold secrets are never read into the bundle; the scrubber is the second line.
//! Everything goes through it, in one place, before it can be written.

mod archive;
mod collected;
mod host_facts;
mod pseudonyms;
mod scrubber;
mod site_facts;
mod transfer_facts;

use std::path::{Path, PathBuf};

use penstock_exit::{self as exit, ExitCode};
use penstock_proto::units::format_bytes;

use self::archive::Archive;
use self::collected::Collected;
use self::pseudonyms::Pseudonyms;
use self::scrubber::Scrubber;
use self::site_facts::Answers;
use crate::client::Client;
use crate::options::directory::DirectoryArgs;
use crate::options::transfer_id::parse_id_digits;
use crate::output::time::utc;

/// Writes an archive of facts about this host, its site and its transfers, for those who are asked
/// for help
///
/// Passwords, tokens, keys and codes are taken out of the archive. Its file MANIFEST says what each
/// file is, and what could not be had. Read it before you send it. Works without a daemon too, with
/// less. Run it as the user of the daemon, or as root, on the host that has the trouble.
#[derive(clap::Args)]
#[command(after_help = exit::help_of(&[
    (ExitCode::Done, "written"),
    (ExitCode::Unclassified, ""),
    (ExitCode::Usage, "wrong command line"),
    (ExitCode::Refused, "the file exists already"),
    (ExitCode::Fatal, "the file cannot be written"),
]))]
pub(crate) struct BundleArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Write the archive to FILE. Default: `penstock-support-HOST-TIME.tar.gz` here
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Include this transfer, by its id or its first digits; may be given several times. Default:
    /// the last ones that run, wait or have failed
    #[arg(long = "transfer", value_name = "ID", value_parser = parse_id_digits)]
    transfers: Vec<String>,
    /// Replace names of files, users and labels by pseudonyms. A name has the same pseudonym in
    /// all bundles of one site
    #[arg(long)]
    redact_names: bool,
}

/// Runs it.
///
/// # Errors
/// The file exists, or cannot be written.
pub(crate) fn run(args: &BundleArgs) -> anyhow::Result<ExitCode> {
    let directory = &args.directory.directory;
    let path = args.output.clone().unwrap_or_else(default_path);
    archive::refuse_existing(&path)?;
    let mut collected = collect(directory, &args.transfers);
    let scrubber = Scrubber::of(directory);
    let mut removed = 0;
    for file in &mut collected.files {
        let (text, count) = scrubber.scrub(&file.text);
        (file.text, removed) = (text, removed + count);
    }
    for (_, why) in &mut collected.missing {
        *why = scrubber.scrub(why).0;
    }
    let pseudonyms = args.redact_names.then(|| Pseudonyms::of(directory, &collected.files));
    if let Some(pseudonyms) = &pseudonyms {
        pseudonyms.replace(&mut collected);
    }
    // Made now: what ends this command while it collects leaves no file.
    let archive = Archive::create(&path)?;
    let bytes = archive.finish(&collected, removed, pseudonyms.as_ref())?;
    exit::print(&path.display().to_string())?;
    exit::warn(&format!(
        "{} files, {}, {removed} secrets taken out; read its MANIFEST before you send it",
        collected.files.len() + 1,
        format_bytes(bytes)
    ));
    for (name, why) in &collected.missing {
        exit::warn(&format!("missing: {name}: {why}"));
    }
    Ok(ExitCode::Done)
}

fn collect(directory: &Path, transfers: &[String]) -> Collected {
    let mut collected = Collected::default();
    let client = Client::new(directory);
    let mut answers = Answers::of(client.as_ref());
    site_facts::add(&mut collected, &mut answers, directory);
    host_facts::add(&mut collected);
    transfer_facts::add(&mut collected, &mut answers, (directory, transfers));
    collected
}

fn default_path() -> PathBuf {
    let uname = rustix::system::uname();
    let host = uname.nodename().to_string_lossy().into_owned();
    let is_plain = |character: &char| character.is_ascii_alphanumeric() || *character == '-';
    let host: String = host.chars().filter(is_plain).collect();
    let time = utc(penstock_sys::now_seconds() * 1000);
    let time: String = time.chars().filter(char::is_ascii_digit).take(14).collect();
    PathBuf::from(format!("penstock-support-{host}-{time}.tar.gz"))
}

#[cfg(test)]
mod tests;
