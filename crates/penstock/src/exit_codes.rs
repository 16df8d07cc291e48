//! The section on exit codes in the help of each command.

use clap::Command;

use penstock_exit::{self as exit, ExitCode};

/// The exit codes of a command that asks the daemon, and names no others.
const ASKING: [(ExitCode, &str); 7] = [
    (ExitCode::Done, "done"),
    (ExitCode::Unclassified, ""),
    (ExitCode::Usage, "wrong command line, or no transfer, peer or store has that name"),
    (ExitCode::Temporary, "no daemon answers, or another temporary failure; retry later"),
    (ExitCode::Refused, "refused; the message says why"),
    (ExitCode::Fatal, ""),
    (ExitCode::NotAuthorised, "not authorised, or the sites are not paired"),
];

/// Returns the command with a section on exit codes in the help of each command below it that has
/// none of its own and no commands below itself.
pub(crate) fn completed(mut command: Command) -> Command {
    let below: Vec<_> = command.get_subcommands().map(|it| it.get_name().to_owned()).collect();
    if below.is_empty() && command.get_after_help().is_none() {
        return command.after_help(exit::help_of(&ASKING));
    }
    for name in below {
        command = command.mut_subcommand(name, completed);
    }
    command
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The commands that have no commands below them, each with its name from the program on.
    fn leaves(command: &Command, above: &str) -> Vec<(String, Command)> {
        let name = format!("{above}{}", command.get_name());
        let below: Vec<_> = command.get_subcommands().collect();
        if below.is_empty() {
            return vec![(name, command.clone())];
        }
        below.into_iter().flat_map(|it| leaves(it, &format!("{name} "))).collect()
    }

    /// Promise: the help of each command lists its exit codes in ascending order, what they mean
    /// for it, and those of no other command.
    #[test]
    fn each_command_lists_its_own_exit_codes() {
        let leaves = leaves(&crate::command(), "");
        assert!(leaves.len() > 40, "{}", leaves.len());
        for (name, command) in &leaves {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let mut lines = help.lines();
            assert_eq!(lines.next(), Some("Exit codes:"), "{name}");
            let codes: Vec<u8> = lines.map(|line| line[..5].trim().parse().unwrap()).collect();
            let ascends = codes.is_sorted_by(|one, next| one < next);
            assert!(ascends && codes.starts_with(&[0]), "{name}: {codes:?}");
            let known = |code: &u8| ExitCode::ALL.iter().any(|known| *known as u8 == *code);
            assert!(codes.iter().all(known), "{name}: {codes:?}");
        }
        let help = |name: &str| {
            let found = leaves.iter().find(|(found, _)| found == name);
            found.and_then(|(_, it)| it.get_after_help()).map(ToString::to_string).unwrap()
        };
        for own in ["verify", "receipt check", "doctor", "site status", "daemon"] {
            assert!(!help(&format!("penstock {own}")).contains("planned item"), "{own}");
        }
        assert!(help("penstock doctor").contains("\n   12  "));
    }

    /// Promise: the guide has each exit code, in ascending order, and no other.
    #[test]
    fn the_guide_has_all_exit_codes() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide.md");
        let page = fs::read_to_string(page).unwrap();
        let (_, section) = page.split_once("\n### Exit codes\n").unwrap();
        let table = section.lines().skip_while(|line| !line.starts_with('|'));
        let rows = table.take_while(|line| line.starts_with('|')).skip(2);
        let rows: Vec<Vec<&str>> =
            rows.map(|row| row.split('|').map(str::trim).collect()).collect();
        // The table has two columns of codes.
        let column = |at: usize| rows.iter().filter_map(move |row| row[at].parse::<u8>().ok());
        let listed: Vec<u8> = column(1).chain(column(3)).collect();
        assert_eq!(listed, ExitCode::ALL.map(|code| code as u8));
    }

    /// Promise: a command offers no option that does nothing there, and none of another command.
    #[test]
    fn no_option_does_nothing() {
        let leaves = leaves(&crate::command(), "");
        let of = |name: &str| leaves.iter().find(|(found, _)| found == name).unwrap().1.clone();
        let plan = of("penstock transfer plan");
        for option in ["wait", "id", "progress", "no_progress", "receipt", "durability", "lanes"] {
            assert!(plan.get_arguments().all(|arg| arg.get_id() != option), "{option}");
        }
        let daemon = of("penstock daemon");
        let cpus = daemon.get_arguments().find(|arg| arg.get_id() == "cpus").unwrap();
        assert!(!cpus.get_help().unwrap().to_string().contains("ssh"));
    }
}
