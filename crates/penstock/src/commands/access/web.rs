//! `penstock web`: the HTTPS API of this host.

use penstock_api::access::{AuthMethods, LinkView};
use penstock_api::endpoints::{LIST_AUTH_METHODS, MAKE_SETUP_LINK};
use penstock_exit::{self as exit, ExitCode, Failure};

use crate::client::Client;
use crate::options::directory::DirectoryArgs;
use crate::output::time::minute;

/// Sets up the HTTPS API of this host for its users
#[derive(clap::Args)]
pub(crate) struct WebArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(subcommand)]
    command: WebCommand,
}

#[derive(clap::Subcommand)]
enum WebCommand {
    /// Prints a link with which a new administrator chooses a name and a password
    ///
    /// The link is valid for one use, for 15 minutes, and ends an earlier one. It can be made again
    /// at any time, on a host of the site, by root or the daemon's user.
    Setup {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs it.
///
/// # Errors
/// No daemon answers, or the daemon refuses.
pub(crate) fn run(args: WebArgs) -> anyhow::Result<ExitCode> {
    let WebCommand::Setup { json } = args.command;
    let client = Client::local(&args.directory.directory)?;
    let methods: AuthMethods = client.get(&LIST_AUTH_METHODS.uri(&[]))?;
    if methods.url.is_none() {
        let title = "this host serves no HTTPS API";
        return Err(Failure::new(ExitCode::Refused, title)
            .hint("add the table `web` to penstock.toml, and run `penstock config reload`")
            .into());
    }
    let link: LinkView = client.post(&MAKE_SETUP_LINK.uri(&[]), &())?;
    print_link(&methods, &link, json)?;
    Ok(ExitCode::Done)
}

/// Prints a link, with its end as a remark.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn print_link(methods: &AuthMethods, link: &LinkView, json: bool) -> anyhow::Result<()> {
    if json {
        exit::print(&serde_json::to_string(link)?)?;
        return Ok(());
    }
    let url = methods.url.as_deref().unwrap_or_default();
    exit::warn(&format!(
        "valid for one use, until {} UTC; keep it secret",
        minute(link.expires_at.seconds())
    ));
    exit::print(&format!("{url}{}", link.link.expose()))?;
    Ok(())
}
