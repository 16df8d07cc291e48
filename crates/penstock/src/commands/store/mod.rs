//! `penstock store`: the stores of this site, and the entries of stores.

mod entries;
mod place;

use penstock_api::endpoints::{LIST_SITE_STORES, LIST_STORES, SHOW_SITE_STORE_USAGE, SHOW_STORE};
use penstock_api::rest::{
    SiteStoreView, StoreDetails, StoreSpace, StoreState, StoreUsage, StoreView,
};
use penstock_exit::{self as exit, ExitCode};
use penstock_proto::id::Name;

use crate::client::Client;
use crate::options::directory::DirectoryArgs;
use crate::output::table::table;
use place::Place;

/// Shows stores, and what is in them
#[derive(clap::Args)]
pub(crate) struct StoreArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(clap::Subcommand)]
enum StoreCommand {
    /// Lists the stores of this site, or those of a paired site that this one may use
    List {
        /// A paired site
        site: Option<Name>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Shows the state of a store, its room, and the peers that have it; of a paired site its room
    Show {
        /// The store
        #[arg(value_name = "[SITE:]STORE", value_parser = place::store_parser())]
        store: Place,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Lists a directory of a store, of this site or of a paired one
    ///
    /// Names are printed one a line, escaped as in lists of failed items. A directory of more than
    /// 20,000 names comes in the order of its file system. Links are shown and never followed.
    Ls(entries::LsArgs),
    /// Makes a directory in a store, of this site or of a paired one
    Mkdir(entries::MkdirArgs),
}

/// Runs it.
///
/// # Errors
/// No daemon answers, or what it answers.
pub(crate) fn run(args: StoreArgs) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.directory.directory)?;
    match &args.command {
        StoreCommand::List { site: None, json } => list(&client, *json)?,
        StoreCommand::List { site: Some(site), json } => list_of_site(&client, site, *json)?,
        StoreCommand::Show { store: Place { site: Some(site), store, .. }, json } => {
            show_of_site(&client, (site, store), *json)?;
        }
        StoreCommand::Show { store, json } => show(&client, &store.store, *json)?,
        StoreCommand::Ls(args) => entries::list(&client, args)?,
        StoreCommand::Mkdir(args) => entries::make_directory(&client, args)?,
    }
    Ok(ExitCode::Done)
}

fn list(client: &Client, json: bool) -> anyhow::Result<()> {
    let stores: Vec<StoreView> = client.list(&LIST_STORES.uri(&[]))?;
    if stores.is_empty() {
        exit::warn("this site has no stores: add a [[store]] to penstock.toml");
    }
    for store in &stores {
        if json {
            exit::print(&serde_json::to_string(store)?)?;
            continue;
        }
        let sites = |sites: &[String]| match sites {
            _ if store.read_only => "nobody".to_owned(),
            [] => "nobody".to_owned(),
            sites => sites.join(","),
        };
        let (write, delete) = (sites(&store.write), sites(&store.delete));
        let remove = match store.remove.as_slice() {
            [] => String::new(),
            sites => format!("  remove: {}", sites.join(",")),
        };
        exit::print(&format!(
            "{:<16} {}  read: {}  write: {write}  delete: {delete}{remove}",
            store.name.as_str(),
            store.place,
            store.read.join(",")
        ))?;
    }
    Ok(())
}

fn list_of_site(client: &Client, site: &Name, json: bool) -> anyhow::Result<()> {
    let stores: Vec<SiteStoreView> = client.list(&LIST_SITE_STORES.uri(&[site]))?;
    if stores.is_empty() {
        exit::warn(&format!("site `{site}` lets this one use none of its stores"));
    }
    for store in &stores {
        if json {
            exit::print(&serde_json::to_string(store)?)?;
            continue;
        }
        let all = [
            (store.read, "read"),
            (store.write, "write"),
            (store.delete, "delete"),
            (store.remove, "remove"),
        ];
        let rights: Vec<_> = all.iter().filter(|right| right.0).map(|right| right.1).collect();
        exit::print(&format!("{:<16} {}", store.name.as_str(), rights.join(",")))?;
    }
    Ok(())
}

fn show(client: &Client, store: &Name, json: bool) -> anyhow::Result<()> {
    let details: StoreDetails = client.get(&SHOW_STORE.uri(&[store]))?;
    if json {
        exit::print(&serde_json::to_string(&details)?)?;
        return Ok(());
    }
    let mut state = match details.state {
        StoreState::Online => "online".to_owned(),
        StoreState::Offline => "offline".to_owned(),
        StoreState::Hung => "hung".to_owned(),
    };
    if !details.why.is_empty() {
        state = format!("{state}: {}", details.why);
    }
    let mut rows = vec![
        ["store".to_owned(), details.store.name.to_string()],
        ["place".to_owned(), details.store.place.clone()],
        ["state".to_owned(), state],
    ];
    rows.extend(details.space.map(room));
    for peer in &details.peers {
        let why = if peer.why.is_empty() { String::new() } else { format!(": {}", peer.why) };
        rows.push(["peer".to_owned(), format!("{} ({}{why})", peer.peer, peer.is)]);
    }
    rows.push(["rights".to_owned(), details.rights.to_string()]);
    exit::print(&table(&rows))?;
    Ok(())
}

/// Prints how full a store of a paired site is.
fn show_of_site(client: &Client, (site, store): (&Name, &Name), json: bool) -> anyhow::Result<()> {
    let usage: StoreUsage = client.get(&SHOW_SITE_STORE_USAGE.uri(&[site, store]))?;
    if json {
        exit::print(&serde_json::to_string(&usage)?)?;
        return Ok(());
    }
    let unknown = || ["room".to_owned(), "it has no file system of its own".to_owned()];
    let of_store = ["store".to_owned(), format!("{site}:{store}")];
    exit::print(&table(&[of_store, usage.space.map_or_else(unknown, room)]))?;
    Ok(())
}

/// Returns the row of the room in a file system.
fn room(space: StoreSpace) -> [String; 2] {
    let gigabytes = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    let (free, total) = (gigabytes(space.free_bytes), gigabytes(space.total_bytes));
    // Blocks that the file system reserves for root are neither free nor used.
    let share = match space.total_bytes {
        0 => String::new(),
        total => format!(" ({:.0} %)", 100.0 * space.free_bytes as f64 / total as f64),
    };
    let files = space.free_files.map(|files| format!(", {files} files can be made"));
    ["room".to_owned(), format!("{free} of {total} free{share}{}", files.unwrap_or_default())]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: room is told as free, in all, and as a share; an empty file system divides nothing.
    #[test]
    fn room_is_told_in_one_line() {
        let space = StoreSpace {
            free_bytes: 25_000_000_000,
            total_bytes: 100_000_000_000,
            free_files: Some(7),
        };
        assert_eq!(room(space)[1], "25.0 GB of 100.0 GB free (25 %), 7 files can be made");
        let none = StoreSpace { free_bytes: 0, total_bytes: 0, free_files: None };
        assert_eq!(room(none)[1], "0.0 GB of 0.0 GB free");
    }
}
