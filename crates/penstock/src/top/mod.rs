//! `penstock top`: a site and its transfers at one glance, on a terminal.
//!
//! | module | what it owns |
//! |---|---|
//! | `model` | the state: facts about the site, and what the user looks at |
//! | `update` | messages of the daemon and of the clock |
//! | `keys` | keys of the user |
//! | `looks` | when the daemon is asked about what |
//! | `rows`, `rate_history` | the transfers that are known, and their rates |
//! | `sections`, `entry` | the lists of the overview, and places in them |
//! | `view` | the cells of a frame for a state |
//! | `feed` | the threads that ask the daemon and follow its events |
//! | `moment` | the time of a message |
//!
//! Messages change the state, and give orders for the edges: `feed`, and the loop here. The loop
//! paints at most twice a second for news of the daemon, and at once for a key.

mod entry;
mod feed;
mod keys;
mod looks;
mod model;
mod moment;
mod rate_history;
mod rows;
mod sections;
#[cfg(test)]
mod tests;
mod update;
mod view;

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use penstock_api::access::{MeView, Right};
use penstock_api::endpoints::{SHOW_ME, SHOW_STATUS, SHOW_TRANSFER};
use penstock_api::rest::{Event, StatusView, TransferView};
use penstock_exit::{self as exit, ExitCode, Failure};

use self::feed::Feed;
use self::looks::Subject;
use self::model::{Model, Order};
use self::moment::Moment;
use self::update::{Message, Stream};
use crate::client::Client;
use crate::options::directory::DirectoryArgs;
use crate::terminal::input;
use crate::terminal::screen::{self, Screen};
use crate::terminal::theme::Theme;

/// Least time between two frames that no key asked for.
const FRAME_INTERVAL: Duration = Duration::from_millis(500);
/// Running transfers that are asked for one by one for a frame that is printed.
const ONCE_MAX: usize = 50;
/// Columns of a frame that is printed where there is no terminal.
const COLUMNS: usize = 100;

/// Shows a site and its transfers on the terminal, and steers them by keys
///
/// Alerts come first, then the transfers that run, wait and have ended, and the peers. `?` lists
/// the keys. The program follows the daemon's events, and finds the daemon again after a restart.
/// `NO_COLOR` is respected.
#[derive(clap::Args)]
#[command(after_help = exit::help_of(&[
    (ExitCode::Done, "quit by the user"),
    (ExitCode::Unclassified, ""),
    (ExitCode::Usage, "wrong command line, or no terminal"),
    (ExitCode::Temporary, "no daemon answers, or the terminal cannot be used"),
    (ExitCode::Refused, "refused; the message says why"),
    (ExitCode::NotAuthorised, ""),
    (ExitCode::Interrupted, "ended by Ctrl-C or a signal"),
]))]
pub(crate) struct TopArgs {
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Ask the daemon at this address, `https://HOST:PORT`, as the user of the log-in there
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Print the overview once, as plain text, and end
    #[arg(long)]
    once: bool,
}

/// Runs it.
///
/// # Errors
/// There is no terminal, or no daemon answers at the begin.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    if !args.once && !screen::is_capable() {
        let message = "`penstock top` needs a terminal";
        return Err(Failure::new(ExitCode::Usage, message)
            .hint("use `penstock top --once` for the whole overview, or `penstock transfer list`")
            .into());
    }
    let client = Client::at(args.url.as_deref(), &args.directory.directory)?;
    let status: StatusView = client.get(&SHOW_STATUS.uri(&[]))?;
    let me: MeView = client.get(&SHOW_ME.uri(&[]))?;
    let model = Model::new(status, me, Moment::now().ms);
    if args.once { once(&client, model) } else { show(&client, model) }
}

/// Prints the overview.
fn once(client: &Client, mut model: Model) -> anyhow::Result<ExitCode> {
    let theme = Theme::of_environment();
    model.contact = model::Contact::Live;
    for subject in Subject::ALL {
        let is_needed = match subject {
            Subject::Sent | Subject::Detail => false,
            Subject::Queue => model.may(Right::Operate),
            _ => true,
        };
        if is_needed {
            model.handle(feed::answer_of(client, subject, None), Moment::now());
        }
    }
    // A list counts whole pieces only.
    let running = model.rows.iter().filter(|row| row.runs()).take(ONCE_MAX);
    let running: Vec<_> = running.map(|row| row.summary.id).collect();
    for id in running {
        let view: TransferView = client.get(&SHOW_TRANSFER.uri(&[&id]))?;
        let event = Stream::Event(Box::new(Event::of_view(&view)));
        model.handle(Message::Stream(event), Moment::now());
    }
    let size = console::Term::stdout().size_checked();
    let columns = size.map_or(COLUMNS, |(_, columns)| usize::from(columns));
    exit::print(&view::text(&model, theme, columns))?;
    Ok(ExitCode::Done)
}

/// Shows the state until the user quits.
fn show(client: &Client, mut model: Model) -> anyhow::Result<ExitCode> {
    let theme = Theme::of_environment();
    let (to, messages) = mpsc::channel();
    let mut screen = Screen::enter()?;
    input::listen(&to)?;
    let feed = Feed::start(client, &to)?;
    let mut painted: Option<Instant> = None;
    loop {
        let due = painted.map_or(Duration::ZERO, |at| FRAME_INTERVAL.saturating_sub(at.elapsed()));
        let (batch, has_input) = received(&messages, due);
        let mut orders = Vec::new();
        for message in batch {
            orders.extend(model.handle(message, Moment::now()));
        }
        orders.extend(model.handle_time(Moment::now()));
        for order in orders {
            match order {
                Order::Look(subject, open) => feed.ask(subject, open),
                Order::Act(id, action) => feed.act(id, action),
                Order::Repaint => screen.repaint()?,
                Order::Resume => screen.resume()?,
                Order::Suspend => screen.suspend()?,
                Order::Quit(code) => return Ok(code),
            }
        }
        let is_due = painted.is_none_or(|at| at.elapsed() >= FRAME_INTERVAL);
        if has_input || is_due {
            let mut scroll_max = 0;
            screen.paint(|area, buffer| scroll_max = view::paint(&model, theme, area, buffer))?;
            model.scroll_max = scroll_max;
            painted = Some(Instant::now());
        }
    }
}

/// Waits for a message, at most for a time; returns all that are there, and whether one of them is
/// of the terminal.
fn received(messages: &Receiver<Message>, within: Duration) -> (Vec<Message>, bool) {
    let first = match messages.recv_timeout(within) {
        Ok(first) => Some(first),
        Err(RecvTimeoutError::Timeout) => None,
        // This program holds a sender itself.
        Err(RecvTimeoutError::Disconnected) => Some(Message::Broken),
    };
    let all: Vec<_> = first.into_iter().chain(messages.try_iter()).collect();
    let has_input = all.iter().any(|message| matches!(message, Message::Input(_)));
    (all, has_input)
}
