//! `penstock auth`: log-ins of programs, and browser sessions.

use penstock_api::access::{
    DeviceApproval, DeviceDecision, DeviceView, MeView, SessionId, SessionView, UserCode,
};
use penstock_api::endpoints::{APPROVE_DEVICE, END_SESSION, LIST_SESSIONS, SHOW_DEVICE, SHOW_ME};
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::id::Name;

use crate::client::Client;
use crate::consent;
use crate::options::directory::DirectoryArgs;
use crate::output::table::table;
use crate::output::time::minute;

/// Lets programs in that wait in `penstock login`, and shows browser sessions
#[derive(clap::Args)]
pub(crate) struct AuthArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(subcommand)]
    command: AuthCommand,
}

#[derive(clap::Subcommand)]
enum AuthCommand {
    /// Lets a program in by the code that it shows: it gets a token
    ///
    /// Compare the code, and the host that it comes from, with what you have begun yourself.
    Approve(ApproveArgs),
    /// Lists browser sessions
    Sessions {
        /// Those of this user; for administrators. Default: the caller
        #[arg(long)]
        user: Option<Name>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Ends a browser session: every peer of the site refuses it within two seconds
    End {
        /// Its id, from `penstock auth sessions`
        id: SessionId,
    },
}

#[derive(clap::Args)]
struct ApproveArgs {
    /// The code, such as CMGR-HMLT
    code: UserCode,
    /// The user that the program acts for; needed at a socket. Default: the caller
    #[arg(long)]
    user: Option<Name>,
    /// Refuse it instead
    #[arg(long)]
    deny: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
}

/// Runs it.
///
/// # Errors
/// No daemon answers, or the daemon refuses.
pub(crate) fn run(args: AuthArgs) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.directory.directory)?;
    match args.command {
        AuthCommand::Approve(args) => approve(&client, args)?,
        AuthCommand::Sessions { user, json } => {
            let uri = LIST_SESSIONS.uri(&[]);
            let uri = match user {
                Some(user) => uri.query("user", user),
                None => uri,
            };
            print(&client.list::<SessionView>(&uri)?, json)?;
        }
        AuthCommand::End { id } => drop(client.delete(&END_SESSION.uri(&[&id]))?),
    }
    Ok(ExitCode::Done)
}

fn approve(client: &Client, args: ApproveArgs) -> anyhow::Result<()> {
    let ApproveArgs { code, user, deny, yes } = args;
    let waiting: DeviceView = client.get(&SHOW_DEVICE.uri(&[]).query("user_code", &code))?;
    let rights = match &waiting.scopes {
        None => "all rights of the user".to_owned(),
        Some(scopes) => scopes.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(", "),
    };
    let whose = match &user {
        Some(user) => user.clone(),
        None => client.get::<MeView>(&SHOW_ME.uri(&[]))?.user,
    };
    let from = if waiting.from.is_empty() { "this host" } else { &waiting.from };
    exit::warn(&format!("`{}` at {from} asks to act for `{whose}`: {rights}", waiting.client));
    if !deny && !yes && !consent::ask("let it in?")? {
        return Err(Failure::new(ExitCode::Refused, "the program was not let in").into());
    }
    let decision = if deny { DeviceDecision::Deny } else { DeviceDecision::Approve };
    let approval = DeviceApproval { user_code: code, decision, user };
    client.post_empty(&APPROVE_DEVICE.uri(&[]), &approval)
}

fn print(sessions: &[SessionView], json: bool) -> anyhow::Result<()> {
    if json {
        for session in sessions {
            exit::print(&serde_json::to_string(session)?)?;
        }
        return Ok(());
    }
    let mut rows = vec![["SESSION", "USER", "SINCE", "ENDS", "FROM", "PROGRAM"].map(str::to_owned)];
    rows.extend(sessions.iter().map(|session| {
        [
            session.id.to_string(),
            session.user.to_string(),
            minute(session.created_at.seconds()),
            minute(session.expires_at.seconds()),
            session.from.clone(),
            session.client.clone(),
        ]
    }));
    exit::print(&table(&rows))?;
    Ok(())
}
