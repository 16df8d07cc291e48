//! `penstock webhook`: requests that tell other programs of transfers that have ended.

use penstock_api::endpoints::{
    LIST_DELIVERIES, LIST_WEBHOOKS, PUT_WEBHOOK, REDELIVER, REMOVE_WEBHOOK, ROTATE_WEBHOOK,
    TEST_WEBHOOK,
};
use penstock_api::webhook::{
    Delivery, DeliveryList, DeliveryResult, WebhookKind, WebhookList, WebhookSettings, WebhookView,
};
use penstock_exit::{self as exit, ExitCode};
use penstock_proto::id::Name;

use crate::client::Client;
use crate::options::directory::DirectoryArgs;
use crate::output::table::table;
use crate::output::time::utc;

/// Manages webhooks: HTTPS requests that tell other programs of transfers that have ended
#[derive(clap::Args)]
pub(crate) struct WebhookArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(subcommand)]
    command: WebhookCommand,
}

#[derive(clap::Subcommand)]
enum WebhookCommand {
    /// Lists webhooks, messages that wait for them, and their last failures
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Makes a webhook, or replaces its settings
    ///
    /// A new webhook has a secret, which is printed once. The receiver checks the signatures of
    /// requests with it, by any library of Standard Webhooks.
    Set(SetArgs),
    /// Removes a webhook, and the messages that wait for it
    Remove {
        /// The webhook
        name: Name,
    },
    /// Delivers a test message now, and prints the result
    Test {
        /// The webhook
        name: Name,
    },
    /// Makes another secret and prints it; the former one signs too for a day
    Rotate {
        /// The webhook
        name: Name,
    },
    /// Lists attempts to deliver messages, the newest first
    Deliveries {
        /// The webhook
        name: Name,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delivers a message of an ended transfer again, and prints the result
    Redeliver {
        /// The webhook
        name: Name,
        /// Id of the message, as `deliveries` prints it
        id: String,
    },
}

#[derive(clap::Args)]
struct SetArgs {
    /// The webhook
    name: Name,
    /// The address: below an entry of `webhook.allow` in penstock.toml
    url: String,
    /// Tell only of these ends: `done`, `failed`, `cancelled`. May be repeated. Default: all
    #[arg(long = "on", value_name = "END")]
    kinds: Vec<WebhookKind>,
    /// Tell only of transfers of this user
    #[arg(long)]
    user: Option<Name>,
    /// Include the paths of source and target, and reasons that name them
    #[arg(long)]
    include_paths: bool,
    /// Tell nothing until the webhook is set without this option
    #[arg(long)]
    disable: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs it.
///
/// # Errors
/// No daemon answers, or the daemon refuses.
pub(crate) fn run(args: WebhookArgs) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.directory.directory)?;
    match args.command {
        WebhookCommand::List { json } => {
            let list: WebhookList = client.get(&LIST_WEBHOOKS.uri(&[]))?;
            print_hooks(&list.items, json)?;
        }
        WebhookCommand::Set(args) => set(&client, args)?,
        WebhookCommand::Remove { name } => drop(client.delete(&REMOVE_WEBHOOK.uri(&[&name]))?),
        WebhookCommand::Test { name } => {
            return print_result(&client.post(&TEST_WEBHOOK.uri(&[&name]), &())?);
        }
        WebhookCommand::Rotate { name } => {
            let view: WebhookView = client.post(&ROTATE_WEBHOOK.uri(&[&name]), &())?;
            exit::print(&view.secret.unwrap_or_default())?;
        }
        WebhookCommand::Deliveries { name, json } => {
            let list: DeliveryList = client.get(&LIST_DELIVERIES.uri(&[&name]))?;
            print_deliveries(&list.items, json)?;
        }
        WebhookCommand::Redeliver { name, id } => {
            return print_result(&client.post(&REDELIVER.uri(&[&name, &id]), &())?);
        }
    }
    Ok(ExitCode::Done)
}

fn set(client: &Client, args: SetArgs) -> anyhow::Result<()> {
    let settings = WebhookSettings {
        url: args.url,
        kinds: args.kinds,
        user: args.user,
        include_paths: args.include_paths,
        disabled: args.disable,
    };
    let view: WebhookView = client.post(&PUT_WEBHOOK.uri(&[&args.name]), &settings)?;
    if args.json {
        return Ok(exit::print(&serde_json::to_string(&view)?)?);
    }
    match view.secret {
        Some(secret) => {
            exit::print(&secret)?;
            let text = "this secret is shown once: the receiver checks signatures with it";
            exit::warn(text);
        }
        None => print_hooks(&[view], false)?,
    }
    Ok(())
}

fn print_hooks(hooks: &[WebhookView], json: bool) -> anyhow::Result<()> {
    if json {
        for hook in hooks {
            exit::print(&serde_json::to_string(hook)?)?;
        }
        return Ok(());
    }
    let mut rows = vec![["WEBHOOK", "ON", "WAITING", "STATE", "URL"].map(str::to_owned)];
    rows.extend(hooks.iter().map(|hook| {
        let settings = &hook.settings;
        let kinds: Vec<_> = settings.kinds.iter().map(|kind| kind.as_str()).collect();
        let state = match (&hook.error, settings.disabled) {
            (_, true) => "disabled".to_owned(),
            (Some(error), false) => error.clone(),
            (None, false) => "ok".to_owned(),
        };
        let kinds = if kinds.is_empty() { "all".to_owned() } else { kinds.join(",") };
        [hook.name.to_string(), kinds, hook.pending.to_string(), state, settings.url.clone()]
    }));
    Ok(exit::print(&table(&rows))?)
}

fn print_deliveries(deliveries: &[Delivery], json: bool) -> anyhow::Result<()> {
    if json {
        for delivery in deliveries {
            exit::print(&serde_json::to_string(delivery)?)?;
        }
        return Ok(());
    }
    let mut rows = vec![["TIME", "ATTEMPT", "RESULT", "STATUS", "MESSAGE"].map(str::to_owned)];
    rows.extend(deliveries.iter().map(|delivery| {
        let result = if delivery.error.is_empty() {
            delivery.result.as_str().to_owned()
        } else {
            format!("{}: {}", delivery.result.as_str(), delivery.error)
        };
        let status = delivery.status.map_or_else(|| "-".to_owned(), |status| status.to_string());
        let time = utc(delivery.at.ms());
        [time, delivery.attempt.to_string(), result, status, delivery.id.clone()]
    }));
    Ok(exit::print(&table(&rows))?)
}

/// Prints what came of one attempt; a failure is exit status 1.
fn print_result(delivery: &Delivery) -> anyhow::Result<ExitCode> {
    if delivery.result == DeliveryResult::Delivered {
        let status =
            delivery.status.map_or_else(String::new, |status| format!(", status {status}"));
        exit::print(&format!("delivered in {} ms{status}", delivery.took_ms))?;
        return Ok(ExitCode::Done);
    }
    Err(exit::Failure::new(ExitCode::Temporary, format!("not delivered: {}", delivery.error))
        .into())
}
