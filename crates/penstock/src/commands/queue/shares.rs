//! `penstock queue shares`: who has which share, and was served how much lately.

use penstock_api::endpoints::SHOW_QUEUE;
use penstock_api::queue::{NO_GROUP, QueueGroupView, QueueUserView, QueueView};
use penstock_exit as exit;
use penstock_proto::units::format_bytes;
use serde::Serialize;

use crate::client::Client;
use crate::output::table::table;

/// The shares as `--json` prints them.
#[derive(Serialize)]
struct Shares {
    groups: Vec<QueueGroupView>,
    users: Vec<QueueUserView>,
}

/// Prints the shares of groups and users.
///
/// # Errors
/// No daemon answers, or the daemon refuses.
pub(super) fn show(client: &Client, json: bool) -> anyhow::Result<()> {
    let view: QueueView = client.get(&SHOW_QUEUE.uri(&[]))?;
    let text = match json {
        true => serde_json::to_string(&Shares { groups: view.groups, users: view.users })?,
        false => text(&view),
    };
    Ok(exit::print(&text)?)
}

/// Returns the tables of groups and of users. Where all users are in one group there is one table.
pub(super) fn text(view: &QueueView) -> String {
    let groups = || {
        let head = ["GROUP", "WEIGHT", "SERVED", "RUNNING", "WAITING"].map(str::to_owned);
        let rows = view.groups.iter().map(|it| {
            let [weight, served, running, waiting] =
                lately(it.weight, it.served_bytes, it.running, it.waiting);
            [it.group.clone(), weight, served, running, waiting]
        });
        let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
        format!("{}\n\n", table(&rows))
    };
    let has_groups = view.groups.iter().any(|it| it.group != NO_GROUP);
    let head = ["USER", "GROUP", "WEIGHT", "SERVED", "RUNNING", "WAITING"].map(str::to_owned);
    let rows = view.users.iter().map(|it| {
        let group = it.group.as_ref().map_or("-", |group| group.as_str());
        let [weight, served, running, waiting] =
            lately(it.weight, it.served_bytes, it.running, it.waiting);
        [it.user.clone(), group.to_owned(), weight, served, running, waiting]
    });
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    format!("{}{}", if has_groups { groups() } else { String::new() }, table(&rows))
}

fn lately(weight: u32, served: u64, running: u64, waiting: u64) -> [String; 4] {
    [weight.to_string(), format_bytes(served), running.to_string(), waiting.to_string()]
}
