//! `penstock store`: the stores of this site.

use penstock_api::endpoints::LIST_STORES;
use penstock_api::rest::StoreView;

use crate::client::Client;
use crate::options::directory::DirectoryArgs;
use penstock_exit::{self as exit, ExitCode};

/// Shows the stores of this site
#[derive(clap::Args)]
pub(crate) struct StoreArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(clap::Subcommand)]
enum StoreCommand {
    /// Lists the stores of this site
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs it.
///
/// # Errors
/// No daemon answers.
pub(crate) fn run(args: StoreArgs) -> anyhow::Result<ExitCode> {
    let StoreCommand::List { json } = args.command;
    let client = Client::new(&args.directory.directory)?;
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
    Ok(ExitCode::Done)
}
