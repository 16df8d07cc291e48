//! What is written from the command line's own definition: the reference, man pages, completions.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use clap::{Arg, Command};
use clap_complete::Shell;
use penstock_api::endpoints::TABLE;
use penstock_api::problem::ProblemCode;
use penstock_daemon::metrics::TABLE as FAMILIES;

use crate::settings;
use penstock_exit::{self as exit, ExitCode, Failure};

/// Prints a script that completes commands and options in a shell
///
/// Bash: `penstock completions bash > /etc/bash_completion.d/penstock`, or below
/// `~/.local/share/bash-completion/completions/`. Zsh: into a directory of `$fpath`, as
/// `_penstock`. Fish: `~/.config/fish/completions/penstock.fish`.
#[derive(clap::Args)]
#[command(after_help = exit::help_of(&[
    (ExitCode::Done, "done"),
    (ExitCode::Usage, ""),
    (ExitCode::Fatal, "standard output cannot be written"),
]))]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Writes the references of commands, of problems and of the API, or man pages, for `cargo xtask
/// reference` and packages
#[derive(clap::Args)]
pub(crate) struct ReferenceArgs {
    /// Write a man page for each command into this directory, instead of printing the reference
    #[arg(long, value_name = "DIR")]
    man: Option<PathBuf>,
    /// Print the codes of problems instead of the commands
    #[arg(long, conflicts_with = "man")]
    problems: bool,
    /// Print the endpoints of the API instead of the commands
    #[arg(long, conflicts_with_all = ["man", "problems"])]
    endpoints: bool,
    /// Print the OpenAPI document of the API instead of the commands
    #[arg(long, conflicts_with_all = ["man", "problems", "endpoints"])]
    openapi: bool,
}

/// Prints the completions of a shell.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn completions(
    args: &CompletionsArgs,
    mut command: Command,
) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "penstock", &mut script);
    exit::print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(ExitCode::Done)
}

/// Prints the reference, or writes man pages.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn run(args: &ReferenceArgs, mut command: Command) -> anyhow::Result<ExitCode> {
    // Options that hold for all commands are then at each of them.
    command.build();
    match &args.man {
        Some(directory) => {
            fs::create_dir_all(directory).map_err(|error| {
                Failure::io(format!("make the directory `{}`", directory.display()), error)
            })?;
            for (names, command) in commands(&command) {
                let name = names.join("-");
                let path = directory.join(format!("{name}.1"));
                let man = clap_mangen::Man::new(command.clone());
                let mut page = Vec::new();
                man.render(&mut page)?;
                fs::File::create(&path)
                    .and_then(|mut file| file.write_all(&page))
                    .map_err(|error| Failure::io(format!("write `{}`", path.display()), error))?;
            }
        }
        None if args.problems => exit::print(problems().trim_end())?,
        None if args.endpoints => exit::print(endpoints().trim_end())?,
        None if args.openapi => exit::print(penstock_daemon::openapi_document().trim_end())?,
        None => {
            let text = markdown(&command) + &settings::reference::markdown();
            exit::print(text.trim_end())?;
        }
    }
    Ok(ExitCode::Done)
}

/// A command and all below it that people use, each with its name from the program on.
fn commands(root: &Command) -> Vec<(Vec<String>, &Command)> {
    fn collect<'a>(
        command: &'a Command,
        above: &[String],
        all: &mut Vec<(Vec<String>, &'a Command)>,
    ) {
        let names = [above, &[command.get_name().to_owned()]].concat();
        all.push((names.clone(), command));
        for inner in command.get_subcommands() {
            if !inner.is_hide_set() && inner.get_name() != "help" {
                collect(inner, &names, all);
            }
        }
    }
    let mut all = Vec::new();
    collect(root, &[], &mut all);
    all
}

/// The reference of every command as Markdown.
fn markdown(root: &Command) -> String {
    let mut text = String::from(
        "# Reference\n\n\
         Every command, option, setting and knob, written from the program by `cargo xtask \
         reference`: change\nthe code, not this file. `docs/guide.md` explains with examples; \
         `penstock COMMAND --help`\nprints the same, and the exit codes of that command.\n",
    );
    for (names, command) in commands(root) {
        text.push_str(&format!("\n## `{}`\n", names.join(" ")));
        let about = command.get_long_about().or_else(|| command.get_about());
        if let Some(about) = about {
            text.push_str(&format!("\n{about}\n"));
        }
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage:").trim();
        text.push_str(&format!("\n```\n{usage}\n```\n"));
        arguments(command, &mut text);
        // Of other commands their help tells.
        if names.len() == 1
            && let Some(after) = command.get_after_help()
        {
            text.push_str(&format!("\n```\n{after}\n```\n"));
        }
    }
    text.push_str(&metrics());
    text
}

/// Returns the reference of the families of metrics as Markdown.
fn metrics() -> String {
    let mut text = String::from(
        "\n## Metrics\n\n\
         `GET /metrics` of each peer returns these families. [monitoring.md](monitoring.md) says \
         how to\nread them. Counters begin at zero with the daemon; those of the controller begin \
         with its lead.\n",
    );
    for group in FAMILIES {
        text.push_str(&format!(
            "\n| {} | type | labels | shown by | meaning |\n|---|---|---|---|---|\n",
            group.name
        ));
        for family in group.families {
            text.push_str(&format!(
                "| `{}` | {} | {} | {} | {} |\n",
                family.name,
                family.kind.as_str(),
                family.labels.join(", "),
                family.shown_by.as_str(),
                family.help
            ));
        }
    }
    text
}

/// Returns the reference of the codes of problems as Markdown.
fn problems() -> String {
    let mut text = String::from(
        "# Problems\n\n\
         Every code of a problem, written from the program by `cargo xtask reference`: change\n\
         `crates/penstock-api/src/problem/code.rs`, not this file.\n\n\
         An error of the API has the type `application/problem+json` (RFC 9457). `code`, `type` \
         and `title` are fixed; programs branch on `code`. `detail` says what failed, `cause` why, \
         and `hint` what to do next. `status`, `exit`, `retryable` and `retry_after_s` say whether \
         waiting helps. `errors` points at fields of the request, as JSON Pointers. `object` names \
         the object. `request_id` is the header `Request-Id` of the answer: the audit log and the \
         log of the daemon have it. Events and `--json` have the same fields, but for those of a \
         request.\n\n\
         *HTTP* and *exit* are the usual status of a reply and of a command. A few problems have \
         others,\nwhere the cause decides whether waiting helps. *Retry* says whether the same \
         request may succeed:\n*later* without a change, *after a change*, or *never*.\n",
    );
    for group in ProblemCode::TABLE {
        text.push_str(&format!(
            "\n## {}\n\n| code | HTTP | exit | retry | meaning | what to do |\n\
             |---|---|---|---|---|---|\n",
            group.name
        ));
        for facts in group.codes {
            text.push_str(&format!(
                "| `{}` | {} | {} | {} | {} | {} |\n",
                facts.code,
                facts.status,
                facts.exit.code(),
                facts.retry.as_str(),
                facts.title,
                facts.advice
            ));
        }
    }
    text
}

/// The section of the reference of endpoints on their OpenAPI document.
const OPENAPI: &str = "\
## The OpenAPI document

`openapi/penstock-v1.json` describes all endpoints for tools, in OpenAPI 3.1: parameters, bodies,
replies, problems, examples. A daemon serves its own document without authentication, and
`penstock reference --openapi` prints that of a program.

```
curl --unix-socket /var/lib/penstock/penstock.sock http://localhost/api/v1/openapi.json > api.json
npx openapi-typescript@7 api.json --output api.ts
datamodel-codegen --input api.json --input-file-type openapi --output api.py
```

- *Clients must ignore unknown values.* Within `/api/v1`, a later release adds fields and events; a
  client must ignore them. It also adds words of enumerations and codes of problems; a client must
  handle them as a general case. The enumerations of replies are therefore strings, with the words
  of this release in `x-extensible-enum`. Later releases remove none.
- *Requests are strict*: the daemon rejects an unknown field or word with status 400 if the schema
  of the request forbids it. A type with a different form in requests has two schemas, such as
  `Limits` and `LimitsInput`.
- `operationId` is the name of the endpoint. `x-penstock-right`, `x-penstock-repeat` and
  `x-penstock-answered-by` are the columns of the tables below. `x-penstock-since` is the first
  release with the endpoint.
- `x-item-schema` is the schema of each line of `application/jsonl`, and of the data of each event
  of `text/event-stream`.
";

/// The reference of the endpoints, before its tables.
const ENDPOINTS: &str = "\
# The API

Use this page to call the daemon from a program. `cargo xtask reference` writes this list of every
endpoint from the program: change `crates/penstock-api/src/endpoints/table.rs`, not this file.

The daemon serves HTTP/1.1 in three places ([users.md](users.md)):

- at the Unix socket `penstock.sock` of its site directory, to root and the daemon's own user,
- at a second socket, to accounts of the host,
- over HTTPS, to users with tokens.

Bodies are JSON, unless a purpose names another type. Objects have the same form as in the output
of `--json`. An error is a problem with a stable `code` ([problems.md](problems.md)).

```
curl --unix-socket /var/lib/penstock/penstock.sock http://localhost/api/v1/peers
```

- *Answered by* is the peer of a site that answers. A client may send a request for the controller
  to any peer, which forwards it. *Any peer* answers for the site, also without a controller. *This
  peer* answers only for its own host.
- *Repeat* is the effect of a second request, for example after a lost reply. *Safe* requests only
  read. An *idempotent* request has the same result again. *By client id*: the request contains the
  id of the new object, so a repeat finds that object. Do not repeat a *once* request: check its
  result first.
- *Right* is the right that a caller needs. At the socket, root and the daemon's own user have all
  rights. Other callers have the rights of their role, restricted by the scopes of their token.
- Events of all transfers have ids. A client that sends the last id as `Last-Event-ID` gets all
  later events. If some are no longer available, an event of the type `reset` comes first.
- Times are RFC 3339 in UTC, as `2026-11-26T07:08:09.123Z`. Requests may use any offset.
- A list is `{\"items\": […], \"next\": \"…\"}`. `next` is the `cursor` of the next part; the last
  part has no `next`. A cursor is valid only with the same filter and order.
- A request may contain only known fields and parameters. In a later release, a reply may have more
  fields.
- `GET /transfers` accepts `state` (several, with commas), `site`, `store`, `owner`, `label` (a part
  of it), `since`, `until`, `attention=true`, `sort` (`-created` or `created`) and `limit`, 100 by
  default and at most 500.
- Transfers and users have an `ETag` over the fields that a request can change. `PATCH` and `PUT`
  with `If-Match` fail with 412 `changed-meanwhile` if the `ETag` has changed.
- Each reply has a `Request-Id`: that of the request, if it has up to 64 letters, digits, `.`, `_`
  and `-`. `Penstock-Version` is the release. 429 and 503 have `Retry-After`.
";

/// Returns the reference of the endpoints as Markdown.
fn endpoints() -> String {
    let mut text = String::from(ENDPOINTS);
    text.push('\n');
    text.push_str(OPENAPI);
    for group in TABLE {
        text.push_str(&format!(
            "\n## {}\n\n| request | purpose | answered by | repeat | right |\n\
             |---|---|---|---|---|\n",
            group.name
        ));
        for endpoint in group.endpoints {
            text.push_str(&format!(
                "| `{} {}` | {} | {} | {} | {} |\n",
                endpoint.method.as_str(),
                endpoint.path,
                endpoint.summary,
                endpoint.answered_by.as_str(),
                endpoint.repeat.as_str(),
                endpoint.right.as_str()
            ));
        }
    }
    text
}

fn arguments(command: &Command, text: &mut String) {
    let shown =
        |arg: &&Arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    let (places, options): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(shown).partition(|arg| arg.is_positional());
    let mut headings: Vec<&str> = Vec::new();
    for arg in &options {
        let heading = arg.get_help_heading().unwrap_or("Options");
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    headings.sort_by_key(|heading| *heading != "Options");
    table("Arguments", &places, text);
    for heading in headings {
        let of = |arg: &&&Arg| arg.get_help_heading().unwrap_or("Options") == heading;
        let group: Vec<&Arg> = options.iter().filter(of).copied().collect();
        table(heading, &group, text);
    }
}

fn table(heading: &str, args: &[&Arg], text: &mut String) {
    if args.is_empty() {
        return;
    }
    text.push_str(&format!("\n| {heading} | default | what |\n|---|---|---|\n"));
    for arg in args {
        let defaults: Vec<_> =
            arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let switch = !arg.get_action().takes_values();
        let default = if switch || defaults.is_empty() {
            String::new()
        } else {
            format!("`{}`", defaults.join(" "))
        };
        let line = format!("| `{}` | {default} | {} |\n", cell(&name_of(arg)), cell(&what(arg)));
        text.push_str(&line);
    }
}

/// As it is typed: `-P, --progress`, `--digest DIGEST`, `<SRC>`.
fn name_of(arg: &Arg) -> String {
    if arg.is_positional() {
        return arg.to_string();
    }
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let names: Vec<_> = short.into_iter().chain(long).collect();
    let mut text = names.join(", ");
    if arg.get_action().takes_values() {
        for value in arg.get_value_names().unwrap_or_default() {
            text.push_str(&format!(" {value}"));
        }
    }
    text
}

fn what(arg: &Arg) -> String {
    let help = arg.get_long_help().or_else(|| arg.get_help());
    let mut text = help.map(ToString::to_string).unwrap_or_default().replace('\n', " ");
    let values: Vec<_> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}`: {help}", value.get_name()),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if arg.get_action().takes_values() && !values.is_empty() {
        let described = arg.get_possible_values().iter().any(|value| value.get_help().is_some());
        text.push_str(&format!(". One of {}", values.join(if described { "; " } else { ", " })));
    }
    if let Some(variable) = arg.get_env() {
        text.push_str(&format!(". Environment: `{}`", variable.to_string_lossy()));
    }
    text
}

/// A bar would end the cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: each command and option that people may use has its line in the reference and its
    /// man page, with what it is for; hidden ones have none.
    #[test]
    fn every_option_has_a_line_and_a_text() {
        let mut command = crate::command();
        command.build();
        let text = markdown(&command);
        for (names, command) in commands(&command) {
            assert!(text.contains(&format!("\n## `{}`\n", names.join(" "))), "{names:?}");
            assert!(command.get_about().is_some(), "{names:?} says nothing of itself");
            for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
                assert!(arg.get_help().is_some(), "{names:?}: `{arg}` says nothing of itself");
                // A heading holds for all that stands behind it in a struct.
                let common = matches!(arg.get_id().as_str(), "json" | "progress" | "wait");
                assert!(!common || arg.get_help_heading().is_none(), "{names:?}: `{arg}`");
            }
        }
        for option in ["--bwlimit RATE", "--exclude GLOB", "-x, --one-file-system"] {
            assert!(text.contains(option), "{option}");
        }
        assert!(!text.contains("penstock ssh-serve"));
        let work = tempfile::tempdir().unwrap();
        let man = Some(work.path().to_owned());
        let args = ReferenceArgs { man, problems: false, endpoints: false, openapi: false };
        run(&args, crate::command()).unwrap();
        let page = fs::read_to_string(work.path().join("penstock-transfer-submit.1")).unwrap();
        assert!(
            page.contains(".TH penstock-transfer-submit 1") && page.contains("bwlimit"),
            "{page}"
        );
    }

    /// Promise: a completion script knows the options.
    #[test]
    fn completions_know_the_options() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut crate::command(), "penstock", &mut script);
            assert!(String::from_utf8(script).unwrap().contains("bwlimit"), "{shell}");
        }
    }
}
