//! `penstock site`: sets a site up, pairs it with others, shows it.

pub(crate) mod rotation;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use penstock_api::endpoints::{EXAMINE_PAIR, LIST_SITES, LIST_STORES, OFFER_PAIRING, PAIR, UNPAIR};
use penstock_api::paths::PairReport;
use penstock_api::rest::{JoinReply, JoinRequest, SiteView, StoreView, TokenReply};
use penstock_net::trust::SiteAuthority;
use penstock_proto::id::{Name, PeerId};

use crate::client::Client;
use crate::commands::cluster::recover::{self, RecoverArgs, TakeoverArgs};
use crate::commands::cluster::{self, ClusterArgs, GrowArgs};
use crate::commands::events;
use crate::commands::join::{self, JoinArgs};
use crate::commands::paths;
use crate::commands::status;
use crate::commands::support::doctor;
use crate::options::address::address;
use crate::options::directory::DirectoryArgs;
use crate::options::grants::GrantArgs;
use crate::rights_dialog::{Questions, WrongWord};
use crate::token::TokenArgs;
use penstock_daemon::config::{
    AuthConfig, Config, PORT_DEFAULT, StoreConfig, WebConfig, WebhookConfig,
};
use penstock_daemon::site_directory::{
    TRUST_DIRECTORY, act_as_owner, check_free, make_directory, write_drop_in,
};
use penstock_exit::{self as exit, ExitCode, Failure};

/// All peers of a site have heard of a pairing after this.
const HEARD_MAX: Duration = Duration::from_secs(5);
/// How often a peer is asked whether it has.
const LOOK: Duration = Duration::from_millis(200);

/// Sets up a site, pairs it with other sites, and shows its status
#[derive(clap::Args)]
pub(crate) struct SiteArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(subcommand)]
    command: SiteCommand,
}

#[derive(clap::Subcommand)]
enum SiteCommand {
    /// Creates a site directory with authority, certificate and configuration
    Init(Box<InitArgs>),
    /// Prints a pairing token for another site, or pairs with the site that printed TOKEN
    Pair(PairArgs),
    /// Grants a paired site rights to stores of this site, effective immediately; revoke them in
    /// `penstock.toml`
    #[command(after_help = exit::help_of(&[
        (ExitCode::Done, "done"),
        (ExitCode::Unclassified, ""),
        (ExitCode::Usage, "wrong command line, no such store, or no site directory"),
        (ExitCode::Fatal, "penstock.toml cannot be read or written"),
    ]))]
    Grant {
        /// Its name
        site: Name,
        #[command(flatten)]
        grants: GrantArgs,
    },
    /// Lists this site and the sites that are paired with it
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Tests each path to a paired site, from both ends, and shows the result
    Paths {
        /// Name of the site. Default: all paired sites
        site: Option<Name>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Prints a token for another host, or joins the site that printed TOKEN
    Join(JoinArgs),
    /// Turns a site of one peer into a site of several, with all its data; its daemon must not run
    Grow(GrowArgs),
    /// Continues with the etcd of this host alone, when the other hosts that run etcd are lost
    Takeover(TakeoverArgs),
    /// Recovers the site after etcd was lost or restored from a backup
    Recover(RecoverArgs),
    /// Removes a host that will not return from the etcd of the site
    Remove {
        /// Its name
        host: Name,
    },
    /// Replaces the keys of the site while it works, and informs paired sites
    ///
    /// The old keys sign the statement about the new keys, so no site has to pair again.
    Rotate {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Prints the certificate of the site's authority, which programs trust that use the HTTPS API
    Ca,
    /// Ends the pairing with a site
    Unpair {
        /// Its name
        site: Name,
    },
    /// Shows the health of the site: its controller, peers, stores and etcd
    #[command(after_help = exit::help_of(&[
        (ExitCode::Done, "all is well"),
        (ExitCode::Unclassified, ""),
        (ExitCode::Usage, ""),
        (ExitCode::SomeFailed, "it works, with warnings"),
        (ExitCode::Temporary, "no daemon answers"),
        (ExitCode::Fatal, "something does not work"),
    ]))]
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Lists events of peers, controllers, paths, stores and transfers; oldest first
    Events {
        /// List at most this many, the latest ones
        #[arg(long, value_name = "NUMBER", default_value_t = 100)]
        limit: usize,
        /// Print JSON Lines
        #[arg(long)]
        json: bool,
    },
}

/// Where the HTTPS API listens unless an address is given: only this host reaches it.
const WEB_ADDRESS: &str = "127.0.0.1:7443";

#[derive(clap::Args)]
struct PairArgs {
    #[command(flatten)]
    token: TokenArgs,
    #[command(flatten)]
    grants: GrantArgs,
}

#[derive(clap::Args)]
#[command(after_help = exit::help_of(&[
    (ExitCode::Done, "done; a store that is not there yet is only a warning"),
    (ExitCode::Unclassified, ""),
    (ExitCode::Usage, ""),
    (ExitCode::Refused, "refused: there is a site already"),
    (ExitCode::Fatal, "the site directory cannot be written, or there is no etcd to run"),
]))]
struct InitArgs {
    /// Name of the site: a-z, 0-9, `-`, `_`
    #[arg(long)]
    name: Name,
    /// Name of this host within the site
    #[arg(long, default_value = "dtn1")]
    peer: Name,
    /// Address to listen at for other sites and data [default: 0.0.0.0:7444]
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    listen: Option<SocketAddr>,
    /// Address that other sites use, if it is not the one to listen at
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    advertise: Vec<SocketAddr>,
    /// Serve the API over HTTPS, at this address [default: 127.0.0.1:7443]
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true,
        default_missing_value = WEB_ADDRESS)]
    web: Option<SocketAddr>,
    /// A store: a name for a directory. May be given more than once
    #[arg(long = "store", value_name = "NAME=PATH")]
    stores: Vec<String>,
    /// A paired site that may submit transfers to these stores: they make what is new, and replace
    /// nothing; `*` for all that are paired. By default only users of this site may; on a terminal
    /// the command asks. May be given again
    #[arg(long, value_name = "SITE")]
    write: Vec<String>,
    /// A site of --write whose transfers may also replace and delete items
    #[arg(long, value_name = "SITE")]
    delete: Vec<String>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Runs it.
///
/// # Errors
/// The directory is taken, no daemon answers, or what it answers.
pub(crate) fn run(args: SiteArgs) -> anyhow::Result<ExitCode> {
    let directory = &args.directory.directory;
    let client = || Client::new(directory);
    match args.command {
        SiteCommand::Init(mut init) => {
            check_free(directory)?;
            ask_sites(&mut init)?;
            make(directory, *init)?;
        }
        SiteCommand::Pair(pair) => match pair.token.read()? {
            Some(token) => join(&client()?, token, directory, &pair.grants)?,
            None if !pair.grants.is_empty() => return Err(too_early().into()),
            None => offer(&client()?, directory)?,
        },
        SiteCommand::Grant { site, grants } => {
            grants.give(directory, &site)?;
            let stores = Config::load(directory)?.stores;
            let stores: Vec<_> = stores.iter().map(StoreConfig::view).collect();
            exit::warn(&granted(&stores, Some(&site), directory));
            if let Some(why) = unpaired(&client()?, &site) {
                exit::warn(&why);
            }
        }
        SiteCommand::Join(join) => match join.token.read()? {
            Some(token) => join::join(directory, &join, &token)?,
            None => join::invite(&client()?)?,
        },
        SiteCommand::Grow(grow) => cluster::grow(directory, &grow)?,
        SiteCommand::Takeover(takeover) => recover::takeover(&client()?, takeover)?,
        SiteCommand::Recover(recover) => recover::recover(&client()?, &recover)?,
        SiteCommand::Remove { host } => recover::remove(&client()?, &host)?,
        SiteCommand::Rotate { json } => rotation::rotate(&client()?, json)?,
        SiteCommand::Ca => {
            let path = directory.join(TRUST_DIRECTORY).join("authority.pem");
            let text = std::fs::read_to_string(&path)
                .map_err(|error| Failure::io(format!("read `{}`", path.display()), error))?;
            exit::print(text.trim_end())?;
        }
        SiteCommand::List { json } => list(&client()?, json)?,
        SiteCommand::Paths { site, json } => paths::show(&client()?, site, json)?,
        SiteCommand::Unpair { site } => {
            client()?.delete(&UNPAIR.uri(&[&site]))?;
            exit::warn(&format!("site `{site}` is no longer trusted here; unpair there as well"));
        }
        SiteCommand::Status { json } => return status::show(&client()?, json),
        SiteCommand::Events { limit, json } => events::show(&client()?, None, limit, json)?,
    }
    Ok(ExitCode::Done)
}

/// Rights are of a site, and nobody knows yet which one will use a token.
fn too_early() -> Failure {
    Failure::new(ExitCode::Usage, "`--write` and `--delete` go with a token of another site")
        .hint("once a site has paired with the new token: `penstock site grant SITE --write STORE`")
}

/// Asks on a terminal which sites may write to the stores of a new site, where no flag says so.
///
/// # Errors
/// The terminal cannot be read.
fn ask_sites(init: &mut InitArgs) -> Result<(), Failure> {
    if init.stores.is_empty() || !init.write.is_empty() || !init.delete.is_empty() {
        return Ok(());
    }
    let check = |word: &str| match word {
        "*" => Ok(()),
        name => Ok(name.parse::<Name>().map(drop)?),
    };
    let questions = Questions {
        write: "sites that may write new data to these stores (`*`: all that are paired)".into(),
        delete: "those of them that may also replace and delete what is there".into(),
        check: &check,
    };
    let rights = questions.ask()?;
    (init.write, init.delete) = (rights.write, rights.delete);
    Ok(())
}

/// Asks on a terminal to which stores a site may write that has just been paired.
///
/// # Errors
/// The terminal cannot be read.
fn ask_stores(stores: &[StoreView], site: &Name) -> Result<GrantArgs, Failure> {
    let writable = stores.iter().filter(|store| !store.read_only);
    let names: Vec<&str> = writable.map(|store| store.name.as_str()).collect();
    if names.is_empty() {
        return Ok(GrantArgs::default());
    }
    let check = |word: &str| match names.contains(&word) {
        true => Ok(()),
        false => Err(WrongWord::NoStore(word.to_owned())),
    };
    let all = names.join(", ");
    let questions = Questions {
        write: format!("stores to which site {site} may write new data (of {all})"),
        delete: "those of them in which it may also replace and delete".into(),
        check: &check,
    };
    Ok(GrantArgs::of(questions.ask()?))
}

fn make(directory: &Path, init: InitArgs) -> anyhow::Result<()> {
    let path = Config::path(directory);
    check_free(directory)?;
    let store = |text: &String| -> anyhow::Result<StoreConfig> {
        let (write, delete) = (init.write.clone(), init.delete.clone());
        Ok(StoreConfig { write, delete, ..store_of(text)? })
    };
    let stores = init.stores.iter().map(store).collect::<Result<_, _>>()?;
    let mut config = Config {
        site: init.name.clone(),
        peer: init.peer.clone(),
        listen: init.listen.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], PORT_DEFAULT))),
        advertise: init.advertise.clone(),
        running_max: penstock_controller::manager::RUNNING_MAX_DEFAULT,
        cpus: None,
        webhook: WebhookConfig::default(),
        notify: None,
        log: None,
        web: init.web.map(WebConfig::at),
        auth: AuthConfig::default(),
        cipher_suites: Vec::new(),
        networks: Vec::new(),
        audit: None,
        cluster: None,
        accounts: BTreeMap::new(),
        stores,
    };
    config.cluster = init.cluster.settings(&config)?;
    config.check().map_err(Failure::from)?;
    config.check_places(directory)?;
    cluster::check_program(&config)?;
    let acting = act_as_owner(directory)?;
    let authority = make_keys(directory, &config)?;
    cluster::prepare(directory, &config)?;
    fs::write(&path, config.to_text()?)
        .map_err(|error| Failure::io(format!("write `{}`", path.display()), error))?;
    drop(acting);
    exit::print(&format!(
        "site {} in {}\nfingerprint {}",
        config.site,
        directory.display(),
        authority.fingerprint()
    ))?;
    let stores: Vec<_> = config.stores.iter().map(StoreConfig::view).collect();
    exit::warn(&granted(&stores, None, directory));
    for warning in config.stores.iter().filter_map(lack_of) {
        exit::warn(&warning);
    }
    write_drop_in(directory, &config).iter().for_each(|note| exit::warn(note));
    cluster::tell_next(directory, &config);
    Ok(())
}

/// Makes a site directory with the keys of a new site and of its first peer.
///
/// # Errors
/// The directory cannot be written.
pub(crate) fn make_keys(directory: &Path, config: &Config) -> anyhow::Result<SiteAuthority> {
    let trust = directory.join(TRUST_DIRECTORY);
    make_directory(directory)?;
    let authority =
        SiteAuthority::create(config.site.clone()).context("cannot make the site's keys")?;
    let identity = authority
        .issue_peer(&PeerId { site: config.site.clone(), peer: config.peer.clone() })
        .context("cannot make the peer's certificate")?;
    authority.save(&trust).context("cannot store the site's keys")?;
    identity.save(&trust).context("cannot store the peer's certificate")?;
    Ok(authority)
}

/// Returns the warning about a store whose directory is not there now.
fn lack_of(store: &StoreConfig) -> Option<String> {
    let directory = store.directory()?;
    let what = match fs::metadata(&directory) {
        Ok(there) if there.is_dir() => return None,
        Ok(_) => "is not a directory".to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "does not exist".to_owned(),
        Err(error) => format!("cannot be examined: {error}"),
    };
    let (name, directory) = (&store.name, directory.display());
    Some(format!(
        "warning: store `{name}`: `{directory}` {what}. Until it is mounted or made, transfers \
         that use it wait; to correct the path, edit `penstock.toml`"
    ))
}

/// Returns the note about a site that is not paired with this one, or of which nobody knows.
fn unpaired(client: &Client, site: &Name) -> Option<String> {
    let sites: Vec<SiteView> = match client.list(&LIST_SITES.uri(&[])) {
        Ok(sites) => sites,
        Err(error) => {
            return Some(format!("whether site `{site}` is paired was not checked: {error}"));
        }
    };
    if sites.iter().any(|known| known.name == *site && !known.own) {
        return None;
    }
    if sites.iter().any(|known| known.name == *site) {
        return Some(format!("warning: `{site}` is this site, which needs no grant"));
    }
    let paired: Vec<_> =
        sites.iter().filter(|known| !known.own).map(|known| known.name.as_str()).collect();
    let paired = if paired.is_empty() { "none".to_owned() } else { paired.join(", ") };
    Some(format!(
        "warning: site `{site}` is not paired with this one: the grant counts once it is. Paired \
         sites: {paired}"
    ))
}

/// What a site may do with the stores of this one, or every site that is paired, and how to change
/// it.
fn granted(stores: &[StoreView], site: Option<&Name>, directory: &Path) -> String {
    let named = |of: fn(&StoreView) -> &Vec<String>, changes: bool| {
        let given = |store: &&StoreView| {
            let all = of(store).iter().any(|listed| listed == "*");
            let one = site.is_some_and(|site| of(store).iter().any(|other| other == site.as_str()));
            (all || one) && !(changes && store.read_only)
        };
        let names: Vec<_> = stores.iter().filter(given).map(|store| store.name.as_str()).collect();
        if names.is_empty() { "no store".to_owned() } else { names.join(", ") }
    };
    let who = match site {
        Some(site) => format!("site {site}"),
        None => "every paired site".to_owned(),
    };
    let name = site.map_or("SITE", Name::as_str);
    let (read, write) = (named(|store| &store.read, false), named(|store| &store.write, true));
    let delete = named(|store| &store.delete, true);
    let config = Config::path(directory);
    format!(
        "{who} may read {read}; write new data to {write}; replace and delete in {delete}\n\
         `penstock site grant {name} --write STORE --delete STORE` gives more; `read`, `write` and \
         `delete` of each [[store]] in `{}` have all of it",
        config.display()
    )
}

/// `NAME=PATH`; a relative path is taken from where the command runs.
fn store_of(text: &str) -> anyhow::Result<StoreConfig> {
    let usage = |why: String| Failure::new(ExitCode::Usage, why).hint("--store NAME=/a/directory");
    let (name, path) =
        text.split_once('=').ok_or_else(|| usage(format!("`{text}` is not NAME=PATH")))?;
    let name = name.parse().map_err(|error| usage(format!("{error}")))?;
    if path.starts_with("null:") || path.starts_with("mem:") {
        return Ok(StoreConfig::new(name, path.to_owned()));
    }
    let absolute =
        std::path::absolute(path).map_err(|error| Failure::io(format!("find `{path}`"), error))?;
    let absolute = absolute.to_str().ok_or_else(|| {
        usage("the path of a store must be UTF-8; names below it need not be".to_owned())
    })?;
    Ok(StoreConfig::new(name, absolute.to_owned()))
}

fn offer(client: &Client, directory: &Path) -> anyhow::Result<()> {
    let reply: TokenReply = client.post(&OFFER_PAIRING.uri(&[]), &())?;
    exit::print(&reply.token)?;
    let minutes =
        reply.expires_at.seconds().saturating_sub(penstock_sys::now_seconds()).div_ceil(60);
    exit::warn(&format!(
        "valid for one use, for {minutes} minutes; at the other site: penstock site pair -\n\
         fingerprint of this site: {}",
        reply.fingerprint
    ));
    exit::warn(&granted(&client.list::<StoreView>(&LIST_STORES.uri(&[]))?, None, directory));
    Ok(())
}

fn join(
    client: &Client,
    token: String,
    directory: &Path,
    grants: &GrantArgs,
) -> anyhow::Result<()> {
    let reply: JoinReply = client.post(&PAIR.uri(&[]), &JoinRequest { token })?;
    exit::print(&format!(
        "paired with site {}\n  its fingerprint  {}\n  our fingerprint  {}",
        reply.site.name, reply.site.fingerprint, reply.own_fingerprint
    ))?;
    let site = &reply.site.name;
    let grants = match client.list::<StoreView>(&LIST_STORES.uri(&[])) {
        // The sites are paired by now: a terminal that cannot be read grants nothing.
        Ok(stores) if grants.is_empty() => ask_stores(&stores, site).unwrap_or_else(|error| {
            exit::warn(&format!("no rights are granted: {error:#}"));
            GrantArgs::default()
        }),
        _ => grants.clone(),
    };
    if !grants.is_empty() {
        grants.give(directory, site)?;
    }
    // The sites are paired whatever comes of this.
    match client.list::<StoreView>(&LIST_STORES.uri(&[])) {
        Ok(stores) => exit::warn(&granted(&stores, Some(&reply.site.name), directory)),
        Err(error) => exit::warn(&format!("cannot show the rights of the site: {error:#}")),
    }
    match paths_tried(client, &reply.site.name) {
        Ok(report) => {
            exit::print(&paths::words(&report.paths))?;
            doctor::show(&report.findings, false, false)?;
        }
        Err(error) => {
            exit::warn(&format!("the paths between the sites could not be tried: {error:#}"));
        }
    }
    Ok(())
}

/// What both ends say of the paths between them. A peer that is not the controller of its site
/// hears of the pairing a moment after the controller has made it, and is asked again until then.
fn paths_tried(client: &Client, site: &Name) -> anyhow::Result<PairReport> {
    let until = Instant::now() + HEARD_MAX;
    loop {
        match client.get(&EXAMINE_PAIR.uri(&[site])) {
            Err(error)
                if exit::code_of(&error) == ExitCode::NotAuthorised && Instant::now() < until =>
            {
                std::thread::sleep(LOOK);
            }
            report => return report,
        }
    }
}

fn list(client: &Client, json: bool) -> anyhow::Result<()> {
    let sites: Vec<SiteView> = client.list(&LIST_SITES.uri(&[]))?;
    for site in &sites {
        if json {
            exit::print(&serde_json::to_string(site)?)?;
            continue;
        }
        let addresses: Vec<_> = site.addresses.iter().map(ToString::to_string).collect();
        let own = if site.own { " (this site)" } else { "" };
        let (name, addresses, key) = (&site.name, addresses.join(","), &site.fingerprint);
        let unheard = if site.unheard { "  does not know our new keys yet" } else { "" };
        exit::print(&format!("{name}{own}  {addresses}  {key}{unheard}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Promise: a site directory is for its owner alone, also where the directory was there
    /// already, open to others.
    #[test]
    fn a_site_directory_is_closed_to_others() {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let init = InitArgs {
            name: "lab".parse().unwrap(),
            peer: "dtn1".parse().unwrap(),
            listen: None,
            advertise: Vec::new(),
            web: None,
            stores: Vec::new(),
            write: Vec::new(),
            delete: Vec::new(),
            cluster: ClusterArgs::default(),
        };
        make(directory.path(), init).unwrap();
        let mode = fs::metadata(directory.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
