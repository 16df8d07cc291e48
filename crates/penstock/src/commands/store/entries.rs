//! `penstock store ls` and `penstock store mkdir`: entries of directories.

use std::io::Write as _;

use penstock_api::endpoints::{
    EndpointUri, LIST_ENTRIES, LIST_SITE_ENTRIES, MAKE_DIRECTORY, MAKE_SITE_DIRECTORY,
};
use penstock_api::plan::ItemKind;
use penstock_api::rest::{DirectoryRequest, EntryList, EntrySort, EntryView, SORTED_NAMES_MAX};
use penstock_daemon::http;
use penstock_exit::{self as exit, Failure, failure};

use super::place::{Place, place_parser};
use crate::client::Client;
use crate::output::table::aligned;

/// Options of `store ls`.
#[derive(clap::Args)]
pub(super) struct LsArgs {
    /// The directory. A path may have `\n`, `\\` or `\xHH`, as this command prints names
    #[arg(value_name = "[SITE:]STORE[/PATH]", value_parser = place_parser())]
    place: Place,
    /// Print kind and mode, owner, group, size and time of each entry, and the target of a link
    #[arg(short, long)]
    long: bool,
    /// The order: by name, or the newest or the largest first
    #[arg(long, value_enum, default_value = "name")]
    sort: SortArg,
    /// Only names that begin with this text
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
    /// Print JSON, an entry a line
    #[arg(long)]
    json: bool,
}

/// Options of `store mkdir`.
#[derive(clap::Args)]
pub(super) struct MkdirArgs {
    /// The directory. The one that is to hold it exists
    #[arg(value_name = "[SITE:]STORE/PATH", value_parser = place_parser())]
    place: Place,
}

/// Order of entries.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum SortArg {
    /// By the bytes of the names
    Name,
    /// The newest first
    Mtime,
    /// The largest first
    Size,
}

impl From<SortArg> for EntrySort {
    fn from(sort: SortArg) -> Self {
        match sort {
            SortArg::Name => Self::Name,
            SortArg::Mtime => Self::Newest,
            SortArg::Size => Self::Largest,
        }
    }
}

/// Prints all entries of a directory, as they come.
///
/// # Errors
/// What the daemon answers, or standard output cannot be written.
pub(super) fn list(client: &Client, args: &LsArgs) -> anyhow::Result<()> {
    let Place { site, store, path } = &args.place;
    let base = match site {
        Some(site) => LIST_SITE_ENTRIES.uri(&[site, store]),
        None => LIST_ENTRIES.uri(&[store]),
    };
    let base = base.query("path", path).query("sort", EntrySort::from(args.sort).as_str());
    let base = match &args.prefix {
        Some(prefix) => base.query("prefix", prefix),
        None => base,
    };
    let mut out = exit::output();
    let mut cursor: Option<String> = None;
    loop {
        let uri = match &cursor {
            Some(cursor) => base.clone().query("cursor", cursor),
            None => base.clone(),
        };
        let list: EntryList = client.get(&uri)?;
        if cursor.is_none() && !list.sorted && args.sort != SortArg::Name {
            exit::warn(&format!(
                "the entries are not sorted: the directory has more than {SORTED_NAMES_MAX} \
                 names, or the store is slow"
            ));
        }
        let text = match (args.json, args.long) {
            (true, _) => lines(list.items.iter().map(serde_json::to_string))?,
            (false, true) => aligned(&list.items.iter().map(row).collect::<Vec<_>>(), &RIGHT),
            (false, false) => lines(list.items.iter().map(|entry| Ok(entry.name.to_string())))?,
        };
        let written = match text.is_empty() {
            true => Ok(()),
            false => writeln!(out, "{text}"),
        };
        match written.and_then(|()| if list.next.is_none() { out.flush() } else { Ok(()) }) {
            // A reader that has gone away, as `head`, has all it wants.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(Failure::io("write to standard output", error).into()),
            Ok(()) => {}
        }
        cursor = list.next;
        if cursor.is_none() {
            return Ok(());
        }
    }
}

fn lines(lines: impl Iterator<Item = serde_json::Result<String>>) -> serde_json::Result<String> {
    let lines: Vec<_> = lines.collect::<Result<_, _>>()?;
    Ok(lines.join("\n"))
}

/// Columns of numbers.
const RIGHT: [bool; 6] = [false, false, false, true, false, false];

/// Returns the columns of an entry, as `ls -l` has them.
fn row(entry: &EntryView) -> [String; 6] {
    let (user, group) = match &entry.owner {
        Some(owner) => (
            owner.user.clone().unwrap_or_else(|| owner.uid.to_string()),
            owner.group.clone().unwrap_or_else(|| owner.gid.to_string()),
        ),
        None => ("?".to_owned(), "?".to_owned()),
    };
    let bytes = entry.bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    let time = entry.mtime.as_deref().and_then(|time| time.get(..16)).unwrap_or("?");
    let name = match &entry.target {
        Some(target) => format!("{} -> {target}", entry.name),
        None => entry.name.to_string(),
    };
    [mode(entry), user, group, bytes, time.replace('T', " "), name]
}

/// Returns kind and mode as ten characters.
fn mode(entry: &EntryView) -> String {
    let kind = match entry.kind {
        ItemKind::File | ItemKind::HardLink => '-',
        ItemKind::Directory => 'd',
        ItemKind::Symlink => 'l',
        ItemKind::Fifo => 'p',
        ItemKind::CharDevice => 'c',
        ItemKind::BlockDevice => 'b',
        ItemKind::Other => '?',
    };
    let bits = entry.mode.as_deref().and_then(|mode| u32::from_str_radix(mode, 8).ok());
    let Some(bits) = bits else { return format!("{kind}?????????") };
    let mut text = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let of = (bits >> shift) & 0o7;
        text.push(if of & 4 != 0 { 'r' } else { '-' });
        text.push(if of & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & special != 0, of & 1 != 0) {
            (true, true) => letter,
            (true, false) => letter.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// Makes a directory.
///
/// # Errors
/// What the daemon answers.
pub(super) fn make_directory(client: &Client, args: &MkdirArgs) -> anyhow::Result<()> {
    let Place { site, store, path } = &args.place;
    let uri: EndpointUri = match site {
        Some(site) => MAKE_SITE_DIRECTORY.uri(&[site, store]),
        None => MAKE_DIRECTORY.uri(&[store]),
    };
    let body = http::encode(&DirectoryRequest { path: path.clone() }).map_err(failure)?;
    client.post_bytes(&uri, body)
}

#[cfg(test)]
mod tests {
    use penstock_api::place::PathText;
    use penstock_api::rest::EntryOwner;

    use super::*;

    /// Promise: a long line has the columns of `ls -l`, and what is not known is a `?`.
    #[test]
    fn long_lines_are_those_of_ls() {
        let mut entry = EntryView {
            name: PathText(b"new\nline".to_vec()),
            kind: ItemKind::File,
            bytes: Some(1234),
            mtime: Some("2026-11-22T10:17:29.5Z".to_owned()),
            mode: Some("4751".to_owned()),
            owner: Some(EntryOwner { uid: 7, gid: 8, user: Some("anna".to_owned()), group: None }),
            target: None,
        };
        let line = |entry: &EntryView| aligned(&[row(entry)], &RIGHT);
        assert_eq!(line(&entry), "-rwsr-x--x  anna  8  1234  2026-11-22 10:17  new\\nline");
        entry.kind = ItemKind::Symlink;
        entry.mode = Some("1776".to_owned());
        entry.bytes = None;
        entry.target = Some(PathText(b"../x".to_vec()));
        let expected = "lrwxrwxrwT  anna  8  -  2026-11-22 10:17  new\\nline -> ../x";
        assert_eq!(line(&entry), expected);
        entry = EntryView { mode: None, mtime: None, owner: None, target: None, ..entry };
        assert_eq!(line(&entry), "l?????????  ?  ?  -  ?  new\\nline");
    }
}
