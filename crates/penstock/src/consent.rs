//! The user's consent, asked for on the terminal.

use std::io::{self, IsTerminal as _};

use penstock_exit::{self as exit, ExitCode, Failure};

/// Returns whether a user can be asked: standard input and standard error are a terminal.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question that a `y` answers with yes. Blocks until the user has answered.
///
/// # Errors
/// There is no terminal, where `--yes` is to be given; it cannot be read.
pub(crate) fn ask(question: &str) -> anyhow::Result<bool> {
    if !can_ask() {
        return Err(Failure::new(ExitCode::Usage, "there is no terminal to ask for consent")
            .hint("`--yes` does not ask")
            .into());
    }
    Ok(answer(question)?)
}

/// Asks a question of a user who can be asked.
///
/// # Errors
/// The terminal cannot be read.
pub(crate) fn answer(question: &str) -> Result<bool, Failure> {
    exit::prompt(&format!("{question} [y/N] "));
    let mut line = String::new();
    io::stdin().read_line(&mut line).map_err(|error| Failure::io("read the answer", error))?;
    Ok(is_yes(&line))
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim(), "y" | "Y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: only a clear yes is one; an empty line and the end of the input are a no.
    #[test]
    fn only_a_yes_is_one() {
        assert!(["y\n", "Y\n", " yes \n"].iter().all(|line| is_yes(line)));
        assert!(["", "\n", "n\n", "yeah\n", "yes please\n"].iter().all(|line| !is_yes(line)));
    }
}
