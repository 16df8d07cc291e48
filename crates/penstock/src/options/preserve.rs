//! Which attributes are kept: `--preserve`, `--no-preserve`, `--owner-map`.

use std::fs;

use penstock_api::preserve::{OwnerRule, Preserve};

use penstock_exit::{ExitCode, Failure};

/// The options. All that a file system holds is kept by default, as far as the target lets it in.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Attributes")]
pub(crate) struct PreserveArgs {
    /// Preserve only these: mode, owner, times, links (symbolic ones), hardlinks, sparse, xattrs,
    /// acls, devices (and FIFOs), all. With `strict`, an item whose attributes cannot be set fails;
    /// without it, such items are counted. `--preserve=strict` alone preserves all. Between sites,
    /// owners, special modes, devices, ACLs, trusted and security attributes need `allow_privileged
    /// = true` at the target store
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "all")]
    preserve: Vec<String>,
    /// Preserve all but these; see --preserve
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    no_preserve: Vec<String>,
    /// Map owners of the source to owners of the target: FROM:TO for users, @FROM:@TO for groups;
    /// names or numbers, `*` for all others; as a list, or a file with one rule per line. For
    /// transfers between sites. Owners without a rule are mapped by name, or by number if the
    /// target lacks the name
    #[arg(long, value_name = "FILE|LIST")]
    owner_map: Option<String>,
}

impl PreserveArgs {
    /// What they mean.
    ///
    /// # Errors
    /// A word or rule is not known, or the file of rules cannot be read.
    pub(crate) fn preserve(&self) -> anyhow::Result<Preserve> {
        let only_strict = self.preserve.iter().all(|word| word == "strict");
        let mut preserve = if only_strict { Preserve::default() } else { Preserve::nothing() };
        for (words, kept) in [(&self.preserve, true), (&self.no_preserve, false)] {
            for word in words {
                if !preserve.set(word.trim(), kept) {
                    let known = Preserve::WORDS.join(", ");
                    let message = format!("`{word}` is nothing that can be preserved");
                    return Err(Failure::new(ExitCode::Usage, message)
                        .hint(format!("known: {known}, all, strict"))
                        .into());
                }
            }
        }
        if let Some(map) = &self.owner_map {
            preserve.owner_map = owner_rules(map)?;
        }
        Ok(preserve)
    }
}

/// Rules in a list, or, where the text is no list of rules, in the file of that name.
fn owner_rules(text: &str) -> anyhow::Result<Vec<OwnerRule>> {
    let parse = |line: &str| line.parse::<OwnerRule>();
    if let Ok(rules) = text.split(',').map(parse).collect() {
        return Ok(rules);
    }
    let lines = fs::read_to_string(text).map_err(|error| {
        Failure::io(format!("read the owner map `{text}`"), error)
            .hint("give FROM:TO,... or a file with one FROM:TO a line")
    })?;
    let lines = lines.trim_start_matches('\u{feff}').lines().map(str::trim);
    let rules = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(parse);
    let rules: Result<Vec<_>, _> = rules.collect();
    Ok(rules.map_err(|error| {
        Failure::new(ExitCode::Usage, format!("the owner map `{text}` cannot be read"))
            .caused_by(error)
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: PreserveArgs,
    }

    fn read(line: &[&str]) -> anyhow::Result<Preserve> {
        let line = std::iter::once("x").chain(line.iter().copied());
        Line::try_parse_from(line)?.args.preserve()
    }

    /// Promise: all is kept unless said otherwise, and a word that is not known is an error.
    #[test]
    fn lists_mean_what_they_say() {
        assert_eq!(read(&[]).unwrap(), Preserve::default());
        let strict = Preserve { strict: true, ..Preserve::default() };
        assert_eq!(read(&["--preserve=strict"]).unwrap(), strict);
        let few = Preserve { mode: true, times: true, ..Preserve::nothing() };
        assert_eq!(read(&["--preserve", "mode,times"]).unwrap(), few);
        let most = Preserve { acls: false, owner: false, ..Preserve::default() };
        assert_eq!(read(&["--no-preserve", "acls,owner"]).unwrap(), most);
        assert!(read(&["--preserve", "colour"]).is_err());
    }

    /// Promise (D7): rules come in a list or a file; one that is half is an error.
    #[test]
    fn d7_owner_rules_come_in_a_list_or_a_file() {
        let listed = read(&["--owner-map", "a:b,@c:@d"]).unwrap().owner_map;
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("map");
        fs::write(&path, "\u{feff}# users\na:b\n\n@c:@d\n").unwrap();
        let path = path.to_str().unwrap();
        assert_eq!(read(&["--owner-map", path]).unwrap().owner_map, listed);
        assert_eq!(listed.len(), 2);
        fs::write(path, "a:b\nc\n").unwrap();
        assert!(read(&["--owner-map", path]).is_err());
        assert!(read(&["--owner-map", "no such file"]).is_err());
    }
}
