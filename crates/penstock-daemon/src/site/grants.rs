//! Rights that a paired site is given to stores, as lines of the site's configuration.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use penstock_proto::id::Name;

use crate::config::Config;
use crate::settings::Layers;
use penstock_exit::{ExitCode, Failure};

/// Adds `site` to the lists of the stores in the configuration of a site directory, in the file
/// that lists them. All else of it stays as its operators have written it; a running daemon follows
/// it.
///
/// # Errors
/// There is no such store; the file cannot be read, changed or written.
pub fn give(
    directory: &Path,
    site: &Name,
    (write, delete): (&[Name], &[Name]),
) -> anyhow::Result<()> {
    let layers = Layers::of(directory);
    let loaded = layers.load().map_err(Failure::from)?;
    check_stores(&loaded.config, write.iter().chain(delete))?;
    let path = loaded.stores_file().unwrap_or_else(|| layers.main_file());
    let failed = |error| Failure::io(format!("write `{}`", path.display()), error);
    let mut text = fs::read_to_string(&path)
        .map_err(|error| Failure::io(format!("read `{}`", path.display()), error))?;
    let by_hand = |why: &dyn std::fmt::Display| {
        let message = format!("`{}` cannot be changed", path.display());
        let hint = format!("add `{site}` to `write` or `delete` of the store by hand");
        Failure::new(ExitCode::Usage, message).caused_by(why.to_string()).hint(hint)
    };
    for store in write.iter().chain(delete) {
        text = with_site(&text, store, "write", site).map_err(|error| by_hand(&error))?;
    }
    for store in delete {
        text = with_site(&text, store, "delete", site).map_err(|error| by_hand(&error))?;
    }
    layers.load_with(&path, &text).map_err(|error| by_hand(&error))?;
    let new = path.with_extension("toml.new");
    let mut file = fs::File::create(&new).map_err(failed)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.set_permissions(fs::metadata(&path)?.permissions()))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&new, &path));
    Ok(written.map_err(failed)?)
}

/// Refuses a store that the configuration does not have.
fn check_stores<'a>(
    config: &Config,
    mut named: impl Iterator<Item = &'a Name>,
) -> Result<(), Failure> {
    let is_known = |name: &Name| config.stores.iter().any(|store| store.name == *name);
    let Some(unknown) = named.find(|name| !is_known(name)) else { return Ok(()) };
    let known: Vec<_> = config.stores.iter().map(|store| store.name.as_str()).collect();
    Err(Failure::new(ExitCode::Usage, format!("store `{unknown}` does not exist here"))
        .hint(format!("known stores: {}", known.join(", "))))
}

/// Returns advice on how an operator of `own` grants `site` a right to a store.
pub fn how_to_grant(own: &Name, site: &Name, right: &str, store: &str) -> String {
    format!(
        "submit it at site `{own}`, or an operator of `{own}` runs there: \
         penstock site grant {site} --{right} {store}"
    )
}

/// Returns the value of `key` in a line of TOML, if the line is one of that key and whole.
fn value(line: &str, key: &str) -> Option<toml::Value> {
    toml::from_str::<toml::Table>(line).ok()?.remove(key)
}

/// The reason why a right cannot be added to the text of a configuration.
#[derive(Debug, thiserror::Error)]
enum GrantError {
    #[error("store `{0}` does not exist")]
    NoStore(Name),
    #[error("`{key}` of store `{store}` is not in one line")]
    SeveralLines { key: &'static str, store: Name },
}

/// Returns the text of a configuration with `site` in the list `key` of a store.
fn with_site(
    text: &str,
    store: &Name,
    key: &'static str,
    site: &Name,
) -> Result<String, GrantError> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let is_table = |line: &String| line.trim_start().starts_with('[');
    let is_name = |line: &String| {
        value(line, "name").is_some_and(|name| name.as_str() == Some(store.as_str()))
    };
    let begins = (0..lines.len()).filter(|at| lines[*at].trim_start().starts_with("[[store]]"));
    let found = begins.into_iter().find_map(|begin| {
        let length = lines[begin + 1..].iter().position(is_table);
        let end = length.map_or(lines.len(), |length| begin + 1 + length);
        let name = (begin + 1..end).find(|at| is_name(&lines[*at]))?;
        Some((begin + 1..end, name))
    });
    let (range, name) = found.ok_or_else(|| GrantError::NoStore(store.clone()))?;
    let is_key = |line: &String| {
        line.trim_start().strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    let Some(at) = range.into_iter().find(|at| is_key(&lines[*at])) else {
        lines.insert(name + 1, format!("{key} = [\"{site}\"]"));
        return Ok(lines.join("\n") + "\n");
    };
    let listed = value(&lines[at], key);
    let listed = listed.as_ref().and_then(toml::Value::as_array);
    let listed = listed.ok_or_else(|| GrantError::SeveralLines { key, store: store.clone() })?;
    let mut sites: Vec<_> = listed.iter().filter_map(toml::Value::as_str).collect();
    if sites.iter().any(|listed| *listed == "*" || *listed == site.as_str()) {
        return Ok(text.to_owned());
    }
    sites.push(site.as_str());
    let sites: Vec<_> = sites.iter().map(|site| format!("\"{site}\"")).collect();
    let rest = lines[at].split_once(']').map_or("", |(_, rest)| rest).to_owned();
    lines[at] = format!("{key} = [{}]{rest}", sites.join(", "));
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a grant adds one name to one list, and keeps all that operators have written.
    #[test]
    fn a_grant_changes_one_line() {
        let text = "# ours\nsite = \"lab\"\npeer = \"h1\"\n\n[[store]]\nname = \"raw\" # data\n\
                    path = \"/raw\"\nwrite = [\"hpc\"] # them\n\n[[store]]\npath = \"/bin\"\n\
                    name = \"bin\"\ndelete = [\n  \"x\",\n]\n";
        let name = |text: &str| text.parse::<Name>().unwrap();
        let add = |text: &str, store: &str, key| with_site(text, &name(store), key, &name("far"));
        let new = add(text, "raw", "write").unwrap();
        assert_eq!(new, text.replace("[\"hpc\"] # them", "[\"hpc\", \"far\"] # them"));
        assert_eq!(add(&new, "raw", "write").unwrap(), new);
        let new = add(text, "bin", "write").unwrap();
        assert_eq!(new, text.replace("\"bin\"\n", "\"bin\"\nwrite = [\"far\"]\n"));
        assert_eq!(toml::from_str::<Config>(&new).unwrap().stores[1].write, ["far"]);
        let refused = |store, key| add(text, store, key).unwrap_err().to_string();
        assert!(refused("bin", "delete").contains("not in one line"));
        assert!(refused("none", "write").contains("store `none` does not exist"));
    }
}
