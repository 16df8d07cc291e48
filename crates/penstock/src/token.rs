//! A token as a command takes it: from standard input, from a file, or from its command line, which
//! other users of the host may read.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read};
use std::path::PathBuf;

use penstock_exit::{self as exit, ExitCode, Failure};

/// Longer than any token, with the line ends of one that is broken up.
const BYTES_MAX: u64 = 4096;

#[derive(clap::Args)]
#[group(id = "given", multiple = false)]
pub(crate) struct TokenArgs {
    /// The token; `-` reads it from standard input, since other users of this host can read a
    /// command line. Without TOKEN, a new token is printed
    token: Option<String>,
    /// Read the token from a file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl TokenArgs {
    /// The token that is given, if any. Blocks on standard input if it is to come from there.
    ///
    /// # Errors
    /// Standard input or the file cannot be read, or is longer than a token.
    pub(crate) fn read(&self) -> anyhow::Result<Option<String>> {
        if let Some(path) = &self.token_file {
            let shown = format!("the token file `{}`", path.display());
            return match File::open(path) {
                Ok(file) => text(file, &shown).map(Some),
                Err(error) => Err(Failure::io(format!("read {shown}"), error).into()),
            };
        }
        match self.token.as_deref() {
            Some("-") if io::stdin().is_terminal() => {
                exit::prompt("token: ");
                let mut line = String::new();
                let read = io::stdin().read_line(&mut line);
                read.map_err(|error| Failure::io("read the token", error))?;
                Ok(Some(line))
            }
            Some("-") => text(io::stdin().lock(), "standard input").map(Some),
            Some(token) => {
                exit::warn(
                    "other users of this host can read a token on the command line; `-` reads it \
                     from standard input",
                );
                Ok(Some(token.to_owned()))
            }
            None => Ok(None),
        }
    }
}

fn text(from: impl Read, shown: &str) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = from.take(BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::io(format!("read {shown}"), error))?;
    if text.len() as u64 > BYTES_MAX || text.trim().is_empty() {
        let message = format!("{shown} holds no token");
        return Err(Failure::new(ExitCode::Usage, message)
            .hint("a token is one line, which begins with `pst1:`")
            .into());
    }
    Ok(text)
}
