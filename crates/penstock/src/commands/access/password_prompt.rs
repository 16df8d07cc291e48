//! Reads passwords: from a terminal without showing them, or from standard input.

use std::io::{self, BufRead as _};

use console::Term;
use penstock_api::access::{PASSWORD_BYTES_MAX, Secret};
use penstock_exit::{self as exit, ExitCode, Failure};

use crate::consent;

/// The source of passwords.
pub(super) enum PasswordSource {
    /// The terminal.
    Terminal,
    /// Standard input, one password a line.
    StandardInput,
}

impl PasswordSource {
    /// Returns the terminal, or standard input if the user says so.
    ///
    /// # Errors
    /// There is no terminal.
    pub(super) fn choose(from_stdin: bool) -> Result<Self, Failure> {
        if from_stdin {
            return Ok(Self::StandardInput);
        }
        if consent::can_ask() {
            return Ok(Self::Terminal);
        }
        Err(Failure::new(ExitCode::Usage, "there is no terminal to ask for a password")
            .hint("`--stdin` reads it from standard input"))
    }

    /// Reads a password. Blocks until it is there.
    ///
    /// # Errors
    /// The source ends, or cannot be read.
    pub(super) fn read(&self, question: &str) -> Result<Secret, Failure> {
        let failed = |error| Failure::io("read the password", error);
        let text = match self {
            Self::Terminal => {
                exit::prompt(&format!("{question}: "));
                Term::stderr().read_secure_line().map_err(failed)?
            }
            Self::StandardInput => {
                let mut line = String::new();
                let mut from = io::Read::take(io::stdin().lock(), 2 * PASSWORD_BYTES_MAX as u64);
                if from.read_line(&mut line).map_err(failed)? == 0 {
                    return Err(Failure::new(
                        ExitCode::Usage,
                        format!("standard input has no line for the {question}"),
                    ));
                }
                line
            }
        };
        Ok(Secret::new(text.trim_end_matches(['\n', '\r'])))
    }

    /// Reads a new password; from a terminal twice. Blocks until it is there.
    ///
    /// # Errors
    /// Those of [`Self::read`]; the two are not the same.
    pub(super) fn read_new(&self) -> Result<Secret, Failure> {
        let password = self.read("new password")?;
        if matches!(self, Self::Terminal) && self.read("the same again")? != password {
            return Err(Failure::new(ExitCode::Usage, "the two passwords are not the same"));
        }
        Ok(password)
    }
}
