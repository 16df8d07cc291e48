//! `penstock token`: tokens by which programs reach the API.

use penstock_api::access::{Scope, TokenId, TokenRequest, TokenView};
use penstock_api::endpoints::{CREATE_TOKEN, LIST_TOKENS, REVOKE_TOKEN};
use penstock_exit::{self as exit, ExitCode};
use penstock_proto::id::Name;

use crate::client::Client;
use crate::options::directory::DirectoryArgs;
use crate::output::table::table;
use crate::output::time::minute;

/// Makes, lists and revokes tokens, by which programs act for a user
#[derive(clap::Args)]
pub(crate) struct TokenArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(clap::Subcommand)]
enum TokenCommand {
    /// Makes a token and prints it once: the site cannot show it again
    Create(CreateArgs),
    /// Lists tokens, without their secrets
    List {
        /// Only those of this user
        #[arg(long)]
        user: Option<Name>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revokes a token: every peer of the site refuses it within two seconds
    Revoke {
        /// Its id, from `penstock token list`
        id: TokenId,
    },
}

#[derive(clap::Args)]
struct CreateArgs {
    /// The user that the token acts for. Default: the caller
    #[arg(long)]
    user: Option<Name>,
    /// A note that `list` shows
    #[arg(long, default_value = "")]
    label: String,
    /// Take away all rights but those of this scope: site:read, transfers:read, transfers:write,
    /// stores:list, site:operate, site:admin, audit:read or metrics:read. May be repeated
    #[arg(long = "scope")]
    scopes: Vec<Scope>,
    /// Days until the token expires, 1 to 366. Default: 90
    #[arg(long)]
    days: Option<u32>,
    /// Print JSON, with the id
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// No daemon answers, or the daemon refuses.
pub(crate) fn run(args: TokenArgs) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.directory.directory)?;
    match args.command {
        TokenCommand::Create(args) => create(&client, args)?,
        TokenCommand::List { user, json } => {
            let uri = LIST_TOKENS.uri(&[]);
            let uri = match user {
                Some(user) => uri.query("user", user),
                None => uri,
            };
            print(&client.list::<TokenView>(&uri)?, json)?;
        }
        TokenCommand::Revoke { id } => drop(client.delete(&REVOKE_TOKEN.uri(&[&id]))?),
    }
    Ok(ExitCode::Done)
}

fn create(client: &Client, args: CreateArgs) -> anyhow::Result<()> {
    let CreateArgs { user, label, scopes, days, json } = args;
    let scopes = (!scopes.is_empty()).then_some(scopes);
    let request = TokenRequest { user, label, scopes, days };
    let token: TokenView = client.post(&CREATE_TOKEN.uri(&[]), &request)?;
    if json {
        exit::print(&serde_json::to_string(&token)?)?;
        return Ok(());
    }
    let until = minute(token.expires_at.seconds());
    exit::warn(&format!(
        "token {} of user `{}`, valid until {until} UTC; keep it secret, it is not shown again",
        token.id, token.user
    ));
    exit::print(token.token.as_deref().unwrap_or_default())?;
    Ok(())
}

fn print(tokens: &[TokenView], json: bool) -> anyhow::Result<()> {
    if json {
        for token in tokens {
            exit::print(&serde_json::to_string(token)?)?;
        }
        return Ok(());
    }
    let mut rows = vec![["TOKEN", "USER", "EXPIRES", "SCOPES", "LABEL"].map(str::to_owned)];
    rows.extend(tokens.iter().map(|token| {
        let scopes = token.scopes.as_ref().map_or_else(
            || "all".to_owned(),
            |scopes| scopes.iter().map(|scope| scope.as_str()).collect::<Vec<_>>().join(","),
        );
        [
            token.id.to_string(),
            token.user.to_string(),
            minute(token.expires_at.seconds()),
            scopes,
            token.label.clone(),
        ]
    }));
    exit::print(&table(&rows))?;
    Ok(())
}
