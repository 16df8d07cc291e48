//! Secrets of the configuration, and where they come from: a file, a command or the environment.

use std::fmt;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use penstock_exit::{ExitCode, Failure};
use serde::Deserialize;

/// Longest time that a command may take to print a secret.
const COMMAND_MAX: Duration = Duration::from_secs(30);
/// Interval at which its end is looked for.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of a secret at most.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// The places that may set one secret.
#[derive(Clone, Copy, Debug)]
pub(super) struct SecretPlaces<'a> {
    /// The key of the secret itself; those of the other places begin with it.
    pub(super) key: &'static str,
    /// The secret itself.
    pub(super) itself: Option<&'a Secret>,
    /// The file that holds it; a relative path is taken from the site directory.
    pub(super) file: Option<&'a Path>,
    /// The program that prints it, with its arguments.
    pub(super) command: &'a [String],
}

impl SecretPlaces<'_> {
    /// Returns the number of places that are configured.
    pub(super) fn count(&self) -> usize {
        usize::from(self.file.is_some())
            + usize::from(!self.command.is_empty())
            + usize::from(self.itself.is_some())
    }

    /// Returns the secret, if a place is configured. Blocks on storage, and for up to 30 s on the
    /// command.
    ///
    /// # Errors
    /// The file cannot be read; the command fails, prints nothing, or does not end in time.
    pub(super) fn read(&self, directory: &Path) -> anyhow::Result<Option<Secret>> {
        if let Some(secret) = self.itself {
            return Ok(Some(secret.clone()));
        }
        if let Some(file) = self.file {
            return Secret::read(&directory.join(file)).map(Some);
        }
        match self.command.split_first() {
            Some((program, rest)) => Secret::printed(self.key, program, rest).map(Some),
            None => Ok(None),
        }
    }
}

/// A secret. Neither messages nor files show it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Returns a secret without the white space at its end, as of the line that an editor adds.
    fn of(text: &str) -> Self {
        Self(text.trim_end().to_owned())
    }

    /// Reads a secret from a file. Blocks on storage.
    ///
    /// # Errors
    /// The file cannot be read.
    fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path)
            .map_err(|error| Failure::io(format!("read `{}`", path.display()), error))?;
        Ok(Self::of(&text))
    }

    /// Returns the secret of a key that a program prints. Its standard error goes to the log.
    /// Blocks for up to 30 s.
    ///
    /// # Errors
    /// The program fails, prints nothing, or does not end in time.
    fn printed(key: &str, program: &str, arguments: &[String]) -> anyhow::Result<Self> {
        let failed = |why: String| {
            let message = format!("`{program}` does not print the secret `{key}`");
            Failure::new(ExitCode::Fatal, message)
                .caused_by(why)
                .hint(format!("run the command of `{key}_command` as the daemon's user"))
        };
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let out = child.stdout.take().context("the command has no standard output")?;
        // The pipe is read beside the wait: a program that prints much would block otherwise.
        let reader = std::thread::spawn(move || {
            let mut text = String::new();
            out.take(SECRET_BYTES_MAX).read_to_string(&mut text).map(|_| text)
        });
        let until = Instant::now() + COMMAND_MAX;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() > until {
                let _ = child.kill();
                let _ = child.wait();
                return Err(
                    failed(format!("it did not end within {} s", COMMAND_MAX.as_secs())).into()
                );
            }
            std::thread::sleep(LOOK);
        };
        if !status.success() {
            return Err(failed(status.to_string()).into());
        }
        let text = reader.join().map_err(|_| failed("its output cannot be read".into()))?;
        let secret = Self::of(&text.map_err(|error| failed(error.to_string()))?);
        if secret.0.is_empty() {
            return Err(failed("it printed nothing".into()).into());
        }
        Ok(secret)
    }

    /// Returns the text of the secret, to be sent to the party that requires it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ClusterConfig;

    /// Promise: a secret comes from its file, its command or the environment, without the end of
    /// the line. A command that fails is an error. No text that is shown has a secret.
    #[test]
    fn a_secret_comes_from_its_place() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("password"), "of a file\n").unwrap();
        let read = |settings: ClusterConfig| settings.read_password(directory.path());
        let shown = |secret: Option<Secret>| secret.map(|secret| secret.expose().to_owned());
        let command = |words: &[&str]| ClusterConfig {
            password_command: words.iter().map(|word| (*word).to_owned()).collect(),
            ..ClusterConfig::default()
        };
        let file =
            ClusterConfig { password_file: Some("password".into()), ..ClusterConfig::default() };
        assert_eq!(shown(read(file).unwrap()).unwrap(), "of a file");
        let echo = command(&["echo", "of a command"]);
        assert_eq!(shown(read(echo).unwrap()).unwrap(), "of a command");
        assert!(read(ClusterConfig::default()).unwrap().is_none());
        for bad in [&["false"][..], &["true"], &["/no/such/program"]] {
            assert!(read(command(bad)).is_err(), "{bad:?}");
        }
        let kept =
            ClusterConfig { password: Some(Secret::of("hunter2")), ..ClusterConfig::default() };
        assert!(!format!("{kept:?}").contains("hunter2"), "{kept:?}");
        assert!(!toml::to_string(&kept).unwrap().contains("password"));
    }
}
