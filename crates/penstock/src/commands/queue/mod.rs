//! `penstock queue`: the order of the transfers that wait, and the rules of operators.

mod shares;

use std::fmt::Display;
use std::str::FromStr;

use penstock_api::deadline::{DeadlineView, Promise};
use penstock_api::endpoints::{
    Endpoint, REMOVE_GROUP_SHARE, REMOVE_PAUSE_RULE, REMOVE_QUEUE_LIMIT, REMOVE_SHARE,
    REMOVE_WINDOW, SET_GROUP_SHARE, SET_PAUSE_RULE, SET_QUEUE_LIMIT, SET_SHARE, SET_WINDOW,
    SHOW_QUEUE,
};
use penstock_api::problem::ObjectKind;
use penstock_api::queue::{
    Day, LimitKind, PauseRule, PauseRuleRequest, QueueFilter, QueueLimit, QueueLimitRequest,
    QueueLimitView, QueueShareRequest, QueueView, QueueWindow, QueueWindowRequest, TimeOfDay,
    WEIGHT_MAX, WindowView,
};
use penstock_api::rest::WaitingView;
use penstock_api::timestamp::Timestamp;
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::id::Name;
use penstock_proto::units::format_rate;

use crate::client::Client;
use crate::options::directory::DirectoryArgs;
use crate::options::limits::rate;
use crate::options::turn::parse_start;
use crate::output::table::table;
use crate::output::time::minute;

/// Shows the queue of this site, and steers it by limits, shares, windows and holds
#[derive(clap::Args)]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    #[command(subcommand)]
    command: QueueCommand,
}

#[derive(clap::Subcommand)]
enum QueueCommand {
    /// Shows the transfers that wait, in the order in which they would start, with reasons and
    /// forecasts; then users, limits, windows and holds
    Show {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Limits what the transfers of the site, or of a pair, store or user, use together
    Limit(LimitArgs),
    /// Gives a user, or a group of users, a greater share of the queue than others
    Share {
        /// The user; `@SITE` for those that a paired site submits. With `--group` the group
        user: String,
        /// The weight, 1 to 1000, or `none` for the usual one, 1
        #[arg(value_name = "WEIGHT|none", value_parser = parse_weight)]
        weight: Weight,
        /// It is a group, as `penstock user set --group` names it; `none` is that of all users
        /// without one
        #[arg(long)]
        group: bool,
    },
    /// Shows the shares of groups and of users, and what each was served lately
    Shares {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Makes or changes a window: a time of the week in which other limits hold
    Window(Box<WindowArgs>),
    /// Holds transfers: those that fit do not start, and those that run are stopped
    Hold(HoldArgs),
    /// Ends a hold
    Release {
        /// The name of the hold
        name: Name,
    },
}

#[derive(clap::Args)]
struct LimitArgs {
    /// The kind of object: site, pair, store or user. A limit of a store counts those that read it
    /// and those that write it
    kind: LimitKind,
    /// Its name; `@SITE` for those that a paired site submits, as a user
    name: String,
    /// Most transfers that run at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
        required_unless_present_any = ["bwlimit", "remove"])]
    running: Option<u32>,
    /// Most file content per second of all of them together, as in 500Mbit/s or 60MB/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    bwlimit: Option<u64>,
    /// Remove the limit
    #[arg(long, conflicts_with_all = ["running", "bwlimit"])]
    remove: bool,
}

/// A weight, or the usual one.
#[derive(Clone, Copy, Debug)]
struct Weight(Option<u32>);

fn parse_weight(text: &str) -> Result<Weight, String> {
    if text == "none" {
        return Ok(Weight(None));
    }
    let weight = text.parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight));
    weight.map(|weight| Weight(Some(weight))).ok_or_else(|| format!("1 to {WEIGHT_MAX}, or none"))
}

#[derive(clap::Args)]
struct WindowArgs {
    /// The name of the window
    name: Name,
    /// The days on which it begins, as in `mon-fri` or `sat,sun`
    #[arg(long, value_name = "DAYS", default_value = "mon-sun")]
    days: Days,
    /// Its begin by the wall clock, as in 08:00
    #[arg(long, value_name = "HH:MM", required_unless_present = "remove")]
    from: Option<TimeOfDay>,
    /// Its end; on the next day if that is not after its begin
    #[arg(long, value_name = "HH:MM", required_unless_present = "remove")]
    to: Option<TimeOfDay>,
    /// The time zone of both, as in `Europe/Zurich`
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    zone: String,
    /// Limit the transfers with this site. Without an object the window is of all transfers
    #[arg(long, value_name = "SITE")]
    pair: Option<Name>,
    /// Limit the transfers that read or write this store
    #[arg(long, conflicts_with = "pair")]
    store: Option<Name>,
    /// Limit the transfers of this user
    #[arg(long, conflicts_with_all = ["pair", "store"])]
    user: Option<String>,
    /// Most transfers that run at a time within it. With 0 none runs, and those that do are stopped
    #[arg(long, value_name = "N", required_unless_present_any = ["bwlimit", "remove"])]
    running: Option<u32>,
    /// Most file content per second of all of them together, as in 500Mbit/s or 60MB/s
    #[arg(long, value_name = "RATE", value_parser = rate)]
    bwlimit: Option<u64>,
    /// Remove the window
    #[arg(long, conflicts_with_all = ["from", "to", "running", "bwlimit"])]
    remove: bool,
}

/// Days of the week on the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Days(Vec<Day>);

impl FromStr for Days {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut days = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last): (Day, Day) = (first.parse()?, last.parse()?);
            let from_first = Day::ALL.into_iter().cycle().skip_while(|day| *day != first);
            for day in from_first.take(Day::ALL.len()) {
                days.push(day);
                if day == last {
                    break;
                }
            }
        }
        days.sort_unstable();
        days.dedup();
        Ok(Self(days))
    }
}

#[derive(clap::Args)]
struct HoldArgs {
    /// A name for the hold
    name: Name,
    /// Hold every transfer of this site
    #[arg(long, conflicts_with_all = ["user", "site", "store", "label"],
        required_unless_present_any = ["user", "site", "store", "label"])]
    all: bool,
    /// Hold those of this user; `@SITE` for those that a paired site submitted
    #[arg(long)]
    user: Option<String>,
    /// Hold those with this site
    #[arg(long)]
    site: Option<Name>,
    /// Hold those that read or write this store of this site
    #[arg(long)]
    store: Option<Name>,
    /// Hold those with this in their labels
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// The reason, which their users see
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    reason: String,
    /// Release them at this time: 2026-11-26T20:00:00Z, or after 2h, 1d
    #[arg(long, value_name = "TIME", value_parser = parse_start)]
    until: Option<u64>,
}

/// Runs it.
///
/// # Errors
/// No daemon answers, or the daemon refuses.
pub(crate) fn run(args: QueueArgs) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.directory.directory)?;
    match args.command {
        QueueCommand::Show { json } => show(&client, json)?,
        QueueCommand::Limit(args) => set_limit(&client, &args)?,
        QueueCommand::Share { user, weight, group } => set_share(&client, &user, weight, group)?,
        QueueCommand::Shares { json } => shares::show(&client, json)?,
        QueueCommand::Window(args) => set_window(&client, *args)?,
        QueueCommand::Hold(args) => hold(&client, args)?,
        QueueCommand::Release { name } => remove(&client, &REMOVE_PAUSE_RULE, &[&name])?,
    }
    Ok(ExitCode::Done)
}

fn remove(
    client: &Client,
    endpoint: &'static Endpoint,
    names: &[&dyn Display],
) -> anyhow::Result<()> {
    client.delete(&endpoint.uri(names)).map(drop)
}

fn set_share(
    client: &Client,
    name: &str,
    Weight(weight): Weight,
    is_group: bool,
) -> anyhow::Result<()> {
    let (set, unset, kind) = match is_group {
        true => (&SET_GROUP_SHARE, &REMOVE_GROUP_SHARE, "group"),
        false => (&SET_SHARE, &REMOVE_SHARE, "user"),
    };
    let Some(weight) = weight else { return remove(client, unset, &[&name]) };
    let request = QueueShareRequest { weight };
    // The answer repeats what was asked for.
    let _: serde_json::Value = client.post(&set.uri(&[&name]), &request)?;
    exit::warn(&format!("{kind} {name} has the weight {weight}"));
    Ok(())
}

fn set_limit(client: &Client, args: &LimitArgs) -> anyhow::Result<()> {
    if args.remove {
        return remove(client, &REMOVE_QUEUE_LIMIT, &[&args.kind, &args.name]);
    }
    let request = QueueLimitRequest { running: args.running, rate_bits_per_s: args.bwlimit };
    let limit: QueueLimit =
        client.post(&SET_QUEUE_LIMIT.uri(&[&args.kind, &args.name]), &request)?;
    let values = values_text(limit.running, limit.rate_bits_per_s);
    exit::warn(&format!("{} {}: {values}", limit.kind, limit.name));
    Ok(())
}

fn set_window(client: &Client, args: WindowArgs) -> anyhow::Result<()> {
    if args.remove {
        return remove(client, &REMOVE_WINDOW, &[&args.name]);
    }
    let (Some(from), Some(to)) = (args.from, args.to) else {
        return Err(Failure::new(ExitCode::Usage, "a window needs --from and --to").into());
    };
    let request = QueueWindowRequest {
        days: args.days.0,
        from,
        to,
        zone: args.zone,
        pair: args.pair,
        store: args.store,
        user: args.user,
        running: args.running,
        rate_bits_per_s: args.bwlimit,
    };
    let window: QueueWindow = client.post(&SET_WINDOW.uri(&[&args.name]), &request)?;
    exit::warn(&format!("{}: {}", window.name, window_text(&window.rule)));
    Ok(())
}

fn hold(client: &Client, args: HoldArgs) -> anyhow::Result<()> {
    let HoldArgs { name, user, site, store, label, reason, until, .. } = args;
    let filter = QueueFilter { user, store, site, label };
    let request = PauseRuleRequest { filter, reason, until: until.map(Timestamp::of_seconds) };
    let rule: PauseRule = client.post(&SET_PAUSE_RULE.uri(&[&name]), &request)?;
    let until = rule.until.map(|until| format!(" until {} UTC", minute(until.seconds())));
    exit::warn(&format!(
        "{} holds {}{}; `penstock queue release {}` ends it",
        rule.name,
        filter_text(&rule.filter),
        until.unwrap_or_default(),
        rule.name
    ));
    Ok(())
}

/// Returns the code of a wait, its object and its place in the queue.
pub(crate) fn waiting_text(waiting: &WaitingView) -> String {
    let on = waiting.on.as_ref().map(|on| match on.kind {
        ObjectKind::User => format!(" {}", on.name),
        _ => format!(" at {}", on.name),
    });
    let on = on.unwrap_or_default();
    let before = waiting.position.filter(|before| *before > 0);
    let before = before.map(|before| format!(", {before} before it")).unwrap_or_default();
    let until = waiting.until.map(|until| format!(", until {} UTC", minute(until.seconds())));
    format!("{}{on}{before}{}", waiting.code, until.unwrap_or_default())
}

/// Returns a deadline, its meaning and its outlook.
pub(crate) fn deadline_text(deadline: &DeadlineView) -> String {
    let outlook = match deadline.promise {
        Promise::Kept => "",
        Promise::AtRisk => ", at risk",
        Promise::Missed => ", missed",
    };
    let forecast = deadline.forecast_at.map(|at| format!(", forecast {}", minute(at.seconds())));
    format!(
        "{} UTC ({}{outlook}{})",
        minute(deadline.at.seconds()),
        deadline.policy.as_str(),
        forecast.unwrap_or_default()
    )
}

fn values_text(running: Option<u32>, rate_bits_per_s: Option<u64>) -> String {
    let running = running.map(|running| format!("{running} running"));
    let rate = rate_bits_per_s.map(|rate| format_rate(rate as f64));
    running.into_iter().chain(rate).collect::<Vec<_>>().join(", ")
}

fn filter_text(filter: &QueueFilter) -> String {
    let parts = [
        filter.user.as_ref().map(|user| format!("user {user}")),
        filter.site.as_ref().map(|site| format!("site {site}")),
        filter.store.as_ref().map(|store| format!("store {store}")),
        filter.label.as_ref().map(|label| format!("label `{label}`")),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "all transfers".to_owned() } else { parts.join(", ") }
}

fn window_text(rule: &QueueWindowRequest) -> String {
    let days: Vec<_> = rule.days.iter().map(|day| day.as_str()).collect();
    let object = [
        rule.pair.as_ref().map(|pair| format!("pair {pair}")),
        rule.store.as_ref().map(|store| format!("store {store}")),
        rule.user.as_ref().map(|user| format!("user {user}")),
    ];
    let object = object.into_iter().flatten().next().unwrap_or_else(|| "site".to_owned());
    let values = values_text(rule.running, rule.rate_bits_per_s);
    format!("{} {}-{} {}: {object}: {values}", days.join(","), rule.from, rule.to, rule.zone)
}

/// Prints the queue, its users and its rules.
fn show(client: &Client, json: bool) -> anyhow::Result<()> {
    let view: QueueView = client.get(&SHOW_QUEUE.uri(&[]))?;
    if json {
        exit::print(&serde_json::to_string(&view)?)?;
        return Ok(());
    }
    exit::warn(&format!("{} running, {} waiting", view.running, view.waiting));
    let head = ["TRANSFER", "USER", "WAITS FOR", "STARTS", "FROM", "TO", "LABEL"];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(view.transfers.iter().map(|entry| {
        let mut waits = waiting_text(&entry.waiting);
        if entry.urgent {
            waits.push_str(", urgent");
        }
        if let Some(deadline) = &entry.deadline {
            waits.push_str(&format!(", deadline {}", deadline_text(deadline)));
        }
        [
            entry.id.short(),
            entry.owner.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            waits,
            entry.forecast_start.map_or_else(|| "-".to_owned(), |at| minute(at.seconds())),
            entry.source.to_string(),
            entry.target.to_string(),
            entry.label.clone(),
        ]
    }));
    exit::print(&table(&rows))?;
    show_rules(&view)
}

fn show_rules(view: &QueueView) -> anyhow::Result<()> {
    let section = |rows: Vec<String>| match rows.is_empty() {
        true => Ok(()),
        false => exit::print(&format!("\n{}", rows.join("\n"))),
    };
    if !view.users.is_empty() {
        exit::print(&format!("\n{}", shares::text(view)))?;
    }
    section(view.limits.iter().map(limit_text).collect())?;
    section(view.windows.iter().map(window_line).collect())?;
    let holds = view.pause_rules.iter().map(|it| {
        let rule = &it.rule;
        let over = if it.in_force { "" } else { " (over)" };
        let reason =
            if rule.reason.is_empty() { String::new() } else { format!(": {}", rule.reason) };
        let what = filter_text(&rule.filter);
        format!("hold {}{over}: {what}; {} held, by {}{reason}", rule.name, it.holds, rule.by)
    });
    section(holds.collect())?;
    Ok(())
}

fn limit_text(view: &QueueLimitView) -> String {
    let limit = &view.limit;
    let values = values_text(limit.running, limit.rate_bits_per_s);
    let now = format_rate(view.rate_now_bits_per_s as f64);
    let window = view.by_window.as_ref().map(|name| format!(" (window {name})"));
    format!(
        "limit {} {}: {values}{}; now {} running, {now}",
        limit.kind,
        limit.name,
        window.unwrap_or_default(),
        view.running_now
    )
}

fn window_line(view: &WindowView) -> String {
    let state = if view.in_force { "in force" } else { "not in force" };
    let turns = view.turns_at.map(|at| format!(" until {} UTC", minute(at.seconds())));
    let rule = window_text(&view.window.rule);
    format!("window {}: {rule}; {state}{}", view.window.name, turns.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: days are read as names, as spans, also over the end of the week, and as lists.
    #[test]
    fn days_are_read() {
        let days = |text: &str| text.parse::<Days>().map(|days| days.0);
        assert_eq!(days("mon-sun").unwrap(), Day::ALL);
        assert_eq!(days("sat,sun,sat").unwrap(), [Day::Sat, Day::Sun]);
        assert_eq!(days("fri-mon").unwrap(), [Day::Mon, Day::Fri, Day::Sat, Day::Sun]);
        for bad in ["", "monday", "mon-", "mon fri"] {
            assert!(days(bad).is_err(), "`{bad}`");
        }
    }
}
