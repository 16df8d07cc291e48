//! `penstock user`: the users of a site.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use hyper::StatusCode;
use hyper::header::ETAG;
use penstock_api::access::{
    AuthMethods, LinkView, MeView, PasswordRequest, Role, StoreGrant, UserRequest, UserView,
};
use penstock_api::endpoints::{
    INVITE_USER, LIST_AUTH_METHODS, LIST_USERS, PUT_USER, REMOVE_USER, SET_PASSWORD, SHOW_ME,
    SHOW_USER,
};
use penstock_daemon::http;
use penstock_exit::{self as exit, ExitCode, failure};
use penstock_proto::id::Name;

use super::password_prompt::PasswordSource;
use super::web::print_link;
use crate::client::Client;
use crate::options::directory::DirectoryArgs;
use crate::output::table::table;

/// Tries to change a user that others change too.
const CHANGE_TRIES: u32 = 3;
/// Time within which every peer hears of a change.
const CHANGE_HEARD: Duration = Duration::from_secs(1);

/// Manages the users of this site: roles, grants, passwords, accounts
#[derive(clap::Args)]
pub(crate) struct UserArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(subcommand)]
    command: UserCommand,
}

#[derive(clap::Subcommand)]
enum UserCommand {
    /// Lists the users of this site
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Makes a user, or changes its role and its grants
    ///
    /// A viewer sees the site and its transfers. A user also submits transfers between stores
    /// that grants name, and steers its own. An operator submits and steers all transfers, and
    /// operates the queue and the peers. An administrator also manages users and pairings.
    Set(SetArgs),
    /// Removes a user and all its tokens
    Remove {
        /// The user
        name: Name,
    },
    /// Sets the password of a user, and ends its browser sessions
    ///
    /// Users set their own one, and name the present one; administrators set any.
    Passwd {
        /// The user
        name: Name,
        /// Read the new password from standard input, and the present one from a second line
        #[arg(long)]
        stdin: bool,
    },
    /// Prints a link by which a user sets its own password, once within three days
    Invite {
        /// The user
        name: Name,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Prints the user, role and rights of the caller
    Me {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(clap::Args)]
struct SetArgs {
    /// The user
    name: Name,
    /// The role: viewer, user, operator or administrator. Default for a new user: user
    #[arg(long)]
    role: Option<Role>,
    /// Rights in a store of this site: `list`, `read` and `write`, or `none` to end the grant. May
    /// be repeated
    #[arg(long = "grant", value_name = "STORE=RIGHT[,RIGHT…]")]
    grants: Vec<GrantArg>,
    /// Account of the hosts as which the transfers of the user read and write mapped stores;
    /// `none` takes it away
    #[arg(long)]
    account: Option<String>,
    /// Group of users with which the user shares the queue: groups take turns before their users
    /// do; `none` takes it away
    #[arg(long)]
    group: Option<String>,
    /// Identifier of the user at the site's OpenID provider (claim `sub`), by which it logs in
    /// there from now on; `none` takes it away
    #[arg(long)]
    subject: Option<String>,
    /// Disable the user: its tokens, password and sessions are rejected
    #[arg(long, conflicts_with = "enable")]
    disable: bool,
    /// Enable a disabled user again
    #[arg(long)]
    enable: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A grant on the command line; `None` ends it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GrantArg {
    store: Name,
    grant: Option<StoreGrant>,
}

impl FromStr for GrantArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (store, rights) =
            text.split_once('=').ok_or("a grant is STORE=RIGHT,…, such as `raw=list,read`")?;
        let store = store.parse().map_err(|error| format!("{error}"))?;
        if rights == "none" {
            return Ok(Self { store, grant: None });
        }
        let mut grant = StoreGrant::default();
        for right in rights.split(',') {
            match right {
                "list" => grant.list = true,
                "read" => grant.read = true,
                "write" => grant.write = true,
                _ => return Err(format!("`{right}` is not a right: list, read, write or none")),
            }
        }
        Ok(Self { store, grant: Some(grant) })
    }
}

/// Runs it.
///
/// # Errors
/// No daemon answers, or the daemon refuses.
pub(crate) fn run(args: UserArgs) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.directory.directory)?;
    match args.command {
        UserCommand::List { json } => {
            let users: Vec<UserView> = client.list(&LIST_USERS.uri(&[]))?;
            print(&users, json)?;
        }
        UserCommand::Set(args) => set(&client, args)?,
        UserCommand::Remove { name } => drop(client.delete(&REMOVE_USER.uri(&[&name]))?),
        UserCommand::Passwd { name, stdin } => passwd(&client, &name, stdin)?,
        UserCommand::Invite { name, json } => {
            let methods: AuthMethods = client.get(&LIST_AUTH_METHODS.uri(&[]))?;
            let link: LinkView = client.post(&INVITE_USER.uri(&[&name]), &())?;
            print_link(&methods, &link, json)?;
        }
        UserCommand::Me { json } => me(&client.get(&SHOW_ME.uri(&[]))?, json)?,
    }
    Ok(ExitCode::Done)
}

fn set(client: &Client, args: SetArgs) -> anyhow::Result<()> {
    let mut tries_left = CHANGE_TRIES;
    let answer = loop {
        let answer = client.exchange(&SHOW_USER.uri(&[&args.name]), None, &[])?;
        let tag = answer.headers.get(ETAG).and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        let is_new = answer.status == StatusCode::NOT_FOUND;
        let known = if is_new { None } else { Some(answer.object::<UserView>()?) };
        let body = http::encode(&request_of(&args, known.as_ref())).map_err(failure)?;
        let condition = tag.filter(|_| !is_new).map(|tag| ("if-match", tag));
        let put = PUT_USER.uri(&[&args.name]);
        let answer = client.exchange(&put, Some(body), condition.as_slice())?;
        tries_left -= 1;
        if answer.status != StatusCode::PRECONDITION_FAILED || tries_left == 0 {
            break answer;
        }
        // Another administrator has changed the user, or this peer has not heard of it yet.
        std::thread::sleep(CHANGE_HEARD);
    };
    print(&[answer.object()?], args.json)
}

/// Returns the request that makes a user, or changes one; what is not given stays as it is.
fn request_of(args: &SetArgs, known: Option<&UserView>) -> UserRequest {
    let mut grants: BTreeMap<_, _> = known.map(|user| user.grants.clone()).unwrap_or_default();
    for arg in &args.grants {
        match arg.grant {
            Some(grant) => drop(grants.insert(arg.store.clone(), grant)),
            None => drop(grants.remove(&arg.store)),
        }
    }
    let was_disabled = known.is_some_and(|user| user.disabled);
    let or_none = |text: &String| if text == "none" { String::new() } else { text.clone() };
    UserRequest {
        role: args.role.or(known.map(|user| user.role)).unwrap_or(Role::User),
        disabled: args.disable || (was_disabled && !args.enable),
        grants: Some(grants),
        account: args.account.as_ref().map(or_none),
        group: args.group.as_ref().map(or_none),
        subject: args.subject.as_ref().map(or_none),
    }
}

fn passwd(client: &Client, name: &Name, stdin: bool) -> anyhow::Result<()> {
    let source = PasswordSource::choose(stdin)?;
    let me: MeView = client.get(&SHOW_ME.uri(&[]))?;
    let password = source.read_new()?;
    let is_own = me.user == *name;
    let current = is_own.then(|| source.read("present password")).transpose()?;
    let request = PasswordRequest { password, current };
    client.post_empty(&SET_PASSWORD.uri(&[name]), &request)
}

fn print(users: &[UserView], json: bool) -> anyhow::Result<()> {
    if json {
        for user in users {
            exit::print(&serde_json::to_string(user)?)?;
        }
        return Ok(());
    }
    let head = ["USER", "ROLE", "GROUP", "ACCOUNT", "PASSWORD", "TOKENS", "SESSIONS", "GRANTS"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(users.iter().map(|user| {
        let lacks_role = user.identity.as_ref().is_some_and(|identity| !identity.has_role);
        let locked = match (user.disabled, lacks_role) {
            (true, _) => ", locked",
            (false, true) => ", without a group",
            (false, false) => "",
        };
        let grants = user.grants.iter().map(|(store, grant)| format!("{store}={grant}"));
        let grants: Vec<_> = grants.collect();
        [
            user.name.to_string(),
            format!("{}{locked}", user.role),
            user.group.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            user.account.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            (if user.has_password { "yes" } else { "no" }).to_owned(),
            user.tokens.to_string(),
            user.sessions.to_string(),
            grants.join(" "),
        ]
    }));
    exit::print(&table(&rows))?;
    Ok(())
}

/// Prints the caller.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn me(view: &MeView, json: bool) -> anyhow::Result<()> {
    if json {
        exit::print(&serde_json::to_string(view)?)?;
        return Ok(());
    }
    let (via, id) = (view.via.as_str(), view.via_id.as_deref().unwrap_or_default());
    let by = match (via, id) {
        ("socket", "") => "by the socket of the host, as root or the daemon's own user".to_owned(),
        ("socket", account) => format!("by the socket of the host, as its account `{account}`"),
        _ => format!("by {via} {id}"),
    };
    exit::print(&format!("user {}, role {}, {}", view.user, view.role, by.trim_end()))?;
    exit::print(&format!("rights: {}", view.rights.join(", ")))?;
    if let Some(scopes) = &view.scopes {
        let scopes: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
        exit::print(&format!("scopes: {}", scopes.join(", ")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a grant on the command line means what it says, and a mistyped one is refused.
    #[test]
    fn grants_are_read() {
        let grant: GrantArg = "raw=list,read".parse().unwrap();
        let rights = StoreGrant { list: true, read: true, write: false };
        assert_eq!((grant.store.as_str(), grant.grant), ("raw", Some(rights)));
        assert_eq!("raw=none".parse::<GrantArg>().unwrap().grant, None);
        for bad in ["raw", "raw=", "raw=all", "Raw=read", "=read"] {
            assert!(bad.parse::<GrantArg>().is_err(), "`{bad}`");
        }
    }
}
