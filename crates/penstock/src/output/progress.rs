//! Shows how a transfer stands while a command waits for it: a bar on a terminal, now and then a
//! line elsewhere, or JSON Lines. Bars and lines are talk, on standard error; JSON is data, on
//! standard output.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use penstock_api::problem::Exit;
use penstock_api::rest::{ErrorEvent, Event, TransferEvent};
use penstock_api::transfer::TransferState;
use penstock_proto::units::{counted, format_bytes, format_rate};

use super::duration;
use super::pace::Pace;
use penstock_exit as exit;

/// How often a line is printed where there is no terminal: if progress is asked for, and if not.
const LINE_INTERVALS: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(60)];
/// Widest and narrowest bar, in columns; where there is less room there is none.
const BAR_COLUMNS: [usize; 2] = [24, 8];
/// What has a greater rank (see [`Part`]) is left out where it would leave no room for a bar.
const BAR_RANK: u8 = 3;
/// Columns by which the bar grows, so that it keeps its width while the text beside it changes.
const BAR_STEP: usize = 4;
/// Columns of a terminal that does not say how wide it is.
const COLUMNS: usize = 80;

/// Whether a user wants to see progress.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct ProgressArgs {
    /// Show progress where standard error is not a terminal: one line every 10 s instead of every
    /// minute
    #[arg(short = 'P', long)]
    progress: bool,
    /// Show no progress, even on a terminal
    #[arg(long, conflicts_with = "progress")]
    no_progress: bool,
}

impl ProgressArgs {
    /// Whether it is asked for.
    pub(crate) fn is_asked_for(self) -> bool {
        self.progress
    }

    /// With progress, unless it is forbidden.
    pub(crate) fn or_asked_for(self) -> Self {
        Self { progress: !self.no_progress, ..self }
    }
}

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A bar that is drawn again and again.
    Bar,
    /// A line every ten seconds.
    Lines,
    /// A line a minute.
    SparseLines,
    /// Every event as one line of JSON.
    Json,
    /// Nothing but errors and the summary.
    Quiet,
}

impl Mode {
    /// JSON if asked for; else a bar if standard error is a terminal that can draw one, else lines.
    pub(crate) fn choose(json: bool, args: ProgressArgs) -> Self {
        let terminal = std::io::stderr().is_terminal()
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        match args {
            _ if json => Self::Json,
            ProgressArgs { no_progress: true, .. } => Self::Quiet,
            _ if terminal => Self::Bar,
            ProgressArgs { progress: true, .. } => Self::Lines,
            ProgressArgs { progress: false, .. } => Self::SparseLines,
        }
    }

    fn line_interval(self) -> Option<Duration> {
        match self {
            Self::Lines => Some(LINE_INTERVALS[0]),
            Self::SparseLines => Some(LINE_INTERVALS[1]),
            Self::Bar | Self::Json | Self::Quiet => None,
        }
    }
}

/// Shows the events of one transfer.
pub(crate) struct Reporter {
    mode: Mode,
    bar: Option<ProgressBar>,
    line_due: Option<Instant>,
    pace: Pace,
    last_error: String,
}

impl Reporter {
    /// A reporter; with a bar, it is drawn from the first event on.
    pub(crate) fn new(mode: Mode) -> Self {
        let bar = (mode == Mode::Bar).then(new_bar);
        let line_due = mode.line_interval().map(|interval| Instant::now() + interval);
        Self { mode, bar, line_due, pace: Pace::default(), last_error: String::new() }
    }

    /// Shows an event, whichever it is.
    ///
    /// # Errors
    /// Standard output cannot be written.
    pub(crate) fn show(&mut self, event: &Event) -> anyhow::Result<()> {
        if self.mode == Mode::Json {
            exit::print(&serde_json::to_string(event)?)?;
            return Ok(());
        }
        match event {
            Event::Status(status) => self.update(status),
            Event::Error(error) => self.error(error),
            Event::Summary(summary) => self.finish(summary),
            // The next status tells all.
            Event::Reset => {}
        }
        Ok(())
    }

    fn update(&mut self, event: &TransferEvent) {
        let now = Instant::now();
        self.pace.add(now, &event.progress);
        if let Some(bar) = &self.bar {
            let columns = console::Term::stderr().size_checked();
            let columns = columns.map(|(_, columns)| usize::from(columns));
            let columns = columns.filter(|columns| *columns > 0).unwrap_or(COLUMNS);
            bar.set_message(drawing(event, &self.pace, columns, is_coloured()));
            bar.tick();
        } else if let Some(due) = self.line_due.filter(|due| now >= *due) {
            self.line_due = self.mode.line_interval().map(|interval| due + interval);
            exit::warn(&status_line(event, &self.pace));
        }
    }

    /// An attempt that failed is told when it happens; what ends the transfer is told at its end.
    fn error(&mut self, event: &ErrorEvent) {
        if event.problem.exit != Exit::Temporary {
            return;
        }
        let text = format!("{}: {}", event.id.short(), event.problem);
        if text != self.last_error {
            self.talk(&text);
            self.last_error = text;
        }
    }

    fn finish(&mut self, event: &TransferEvent) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        exit::warn(&summary_text(event));
    }

    /// Says something beside the bar.
    pub(crate) fn talk(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| exit::warn(text)),
            None => exit::warn(text),
        }
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn new_bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    // The template is a constant; were it wrong, the default style would do.
    if let Ok(style) = ProgressStyle::with_template("{msg}") {
        bar.set_style(style);
    }
    bar
}

fn is_coloured() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// What is drawn on a terminal of so many columns: a bar and how far the transfer is, and beneath
/// what it waits for. What has no room is left out, the least important first.
fn drawing(event: &TransferEvent, pace: &Pace, columns: usize, coloured: bool) -> String {
    let (parts, reason) = status_parts(event, pace);
    // A line that fills the last column would be wrapped by some terminals.
    let room = columns.saturating_sub(1);
    let mut chosen: Vec<&Part> = Vec::new();
    let width = |parts: &[&Part]| parts.iter().map(|part| part.text.chars().count() + 2).sum();
    let mut ranked: Vec<&Part> = parts.iter().collect();
    ranked.sort_by_key(|part| part.rank);
    for part in ranked {
        chosen.push(part);
        let all: usize = width(&chosen);
        let bar = if part.rank > BAR_RANK { BAR_COLUMNS[1] + 3 } else { 0 };
        if all.saturating_sub(2) + bar > room && chosen.len() > 1 {
            chosen.pop();
        }
    }
    let chosen = |part: &&Part| chosen.iter().any(|other| std::ptr::eq(*other, *part));
    let texts: Vec<&str> = parts.iter().filter(chosen).map(|part| part.text.as_str()).collect();
    let text = cut(&texts.join(", "), room);
    let left = room.saturating_sub(text.chars().count());
    let mut line = match (left.saturating_sub(3) / BAR_STEP * BAR_STEP).min(BAR_COLUMNS[0]) {
        columns if columns < BAR_COLUMNS[1] => text,
        columns => format!("[{}] {text}", bar_of(event, pace, columns, coloured)),
    };
    if !reason.is_empty() {
        line.push('\n');
        line.push_str(&cut(&reason, room));
    }
    line
}

fn bar_of(event: &TransferEvent, pace: &Pace, columns: usize, coloured: bool) -> String {
    let total = event.progress.bytes_found.max(1);
    let done = (pace.settled.min(total) as f64 / total as f64 * columns as f64) as usize;
    let head = if done < columns { ">" } else { "" };
    let (bar, rest) = ("=".repeat(done), " ".repeat(columns - done - head.len()));
    if coloured {
        format!("\x1b[36m{bar}{head}\x1b[0m{rest}")
    } else {
        format!("{bar}{head}{rest}")
    }
}

/// A text of at most so many columns.
fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let kept: String = text.chars().take(columns.saturating_sub(1)).collect();
    kept + "…"
}

/// How a transfer stands, in one line.
fn status_line(event: &TransferEvent, pace: &Pace) -> String {
    let (parts, reason) = status_parts(event, pace);
    let texts: Vec<_> = parts.into_iter().map(|part| part.text).collect();
    let standing = texts.join(", ");
    if reason.is_empty() { standing } else { format!("{standing}; {reason}") }
}

/// A part of how a transfer stands.
struct Part {
    /// What is left out first has the greatest.
    rank: u8,
    text: String,
}

/// How far a transfer is, and what it waits for or is limited by.
fn status_parts(event: &TransferEvent, pace: &Pace) -> (Vec<Part>, String) {
    let progress = &event.progress;
    let state = match event.state {
        TransferState::Running => String::new(),
        state => format!("{}: ", state.as_str()),
    };
    let more = if progress.scan_complete { "" } else { "+" };
    let percent = match progress.scan_complete && progress.bytes_found > 0 {
        true => {
            let share = pace.settled as f64 / progress.bytes_found as f64 * 100.0;
            // All of it has come, but not all is verified as a whole.
            let whole = progress.bytes + progress.bytes_skipped >= progress.bytes_found;
            format!("{:.0} % ", if whole { share.floor() } else { share.floor().min(99.0) })
        }
        false => String::new(),
    };
    let (bytes, found) = (format_bytes(pace.moved(progress)), format_bytes(progress.bytes_found));
    let part = |rank, text| Part { rank, text };
    let mut parts = vec![part(0, format!("{state}{percent}{bytes} of {found}{more}"))];
    let rate = pace.bytes_per_s() * 8.0;
    if event.state == TransferState::Running && rate >= 8.0 {
        parts.push(part(2, format_rate(rate)));
        if let Some(left) = pace.seconds_left(progress).map(duration::exact) {
            parts.push(part(1, format!("{left} left")));
        }
    }
    let found = counted(progress.files_found, "file");
    let found =
        if progress.scan_complete { found } else { format!("{}+ files", progress.files_found) };
    let files = format!("{} of {found}", progress.files);
    parts.push(part(4, files));
    if progress.errors > 0 {
        parts.push(part(3, format!("{} failed", progress.errors)));
    }
    let bottleneck = progress.bottleneck.as_ref().map_or(progress.limit.as_str(), |it| &it.text);
    let limit = if event.state.is_ended() { "" } else { bottleneck };
    let reason = match (event.reason.as_str(), limit) {
        ("", "") => String::new(),
        ("", limit) => format!("limited by {limit}"),
        (reason, _) => reason.to_owned(),
    };
    (parts, reason)
}

/// How a transfer ended, for people.
fn summary_text(event: &TransferEvent) -> String {
    let progress = &event.progress;
    let verified = if event.exit == Some(Exit::Done) { ", all verified" } else { "" };
    // Where nothing was moved there is no rate.
    let rate = match progress.rate_bits_per_s {
        rate if rate > 0.0 => format!(", {}", format_rate(rate)),
        _ => String::new(),
    };
    let mut text = format!(
        "{}: {}, {} in {:.1} s{rate}{verified}",
        event.state.as_str(),
        counted(progress.files, "file"),
        format_bytes(progress.bytes),
        progress.seconds,
    );
    let mut more = Vec::new();
    for (bytes, what) in
        [(progress.bytes_resumed, "resumed"), (progress.bytes_resent, "sent again")]
    {
        if bytes > 0 {
            more.push(format!("{} {what}", format_bytes(bytes)));
        }
    }
    let stay = if progress.stayed == 1 { "stays at the source" } else { "stay at the source" };
    for (count, thing, what) in [
        (progress.repairs, "piece", "repaired"),
        (progress.skipped.saturating_sub(progress.sockets), "item", "skipped"),
        (progress.excluded, "item", "not chosen"),
        (progress.sockets, "socket", "skipped"),
        (progress.own_state, "item", "of penstock's own state left out"),
        (progress.deleted, "item", "deleted"),
        (progress.not_listed, "file", "of holes without a standard digest"),
        (progress.removed, "item", "removed at the source"),
        (progress.stayed, "item", stay),
        (progress.errors, "item", "failed"),
    ] {
        if count > 0 {
            more.push(format!("{} {what}", counted(count, thing)));
        }
    }
    more.extend(progress.not_kept.iter().map(ToString::to_string));
    if !event.durable_by.is_empty() {
        more.push(format!("durable by {}", event.durable_by));
    }
    if progress.cpu_seconds > 0.0 {
        more.push(format!("{:.1} CPU s", progress.cpu_seconds));
    }
    if !more.is_empty() {
        text.push_str(&format!(" ({})", more.join(", ")));
    }
    // Done, and yet there is something to say.
    if event.exit == Some(Exit::Done) && !event.reason.is_empty() {
        text.push_str(&format!("; {}", event.reason));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_api::rest::EVENT_VERSION;
    use penstock_api::transfer::Progress;
    use penstock_proto::id::TransferId;

    fn event(progress: Progress, reason: &str) -> TransferEvent {
        TransferEvent {
            v: EVENT_VERSION,
            id: TransferId([1; 16]),
            state: TransferState::Running,
            reason: reason.to_owned(),
            progress,
            durable_by: String::new(),
            exit: None,
            failures: Vec::new(),
        }
    }

    fn pace_of(progress: &Progress) -> Pace {
        Pace::known(progress.bytes_settled(), 0.0)
    }

    /// Promise (f): a line says how far it is and what it waits for, and never 100 % too early.
    #[test]
    fn a_line_says_where_it_stands_and_why() {
        let progress = Progress {
            bytes: 999,
            bytes_found: 1000,
            files: 1,
            files_found: 2,
            scan_complete: true,
            ..Progress::default()
        };
        let pace = pace_of(&progress);
        let line = status_line(&event(progress.clone(), "the source is silent"), &pace);
        assert!(line.starts_with("99 % ") && line.ends_with("; the source is silent"), "{line}");
        let come = Progress { bytes: 0, bytes_verified: 1000, ..progress.clone() };
        let line = status_line(&event(come.clone(), ""), &pace_of(&come));
        assert!(line.starts_with("99 % 1000 B of 1000 B"), "{line}");
        let mut ended = event(Progress { limit: "source".to_owned(), ..progress.clone() }, "");
        assert!(status_line(&ended, &pace).ends_with("limited by source"));
        ended.state = TransferState::Done;
        let text = format!("{} {}", status_line(&ended, &pace), summary_text(&ended));
        assert!(!text.contains("limited") && !text.contains("bit/s"), "{text}");
        let scanning = Progress { scan_complete: false, ..progress };
        let line = status_line(&event(scanning, ""), &pace);
        assert!(line.contains("of 2+ files"), "{line}");
    }

    /// Promise (f): whatever the width of a terminal, no line is wider; the percentage is there,
    /// and what has room beside it.
    #[test]
    fn drawings_fit_their_terminal() {
        let progress = Progress {
            bytes: 600_000_000,
            bytes_found: 1_000_000_000,
            files: 1,
            files_found: 2,
            scan_complete: true,
            ..Progress::default()
        };
        let pace = Pace::known(progress.bytes_settled(), 1e6);
        let event = event(progress, "the source has been silent for quite a while now");
        for columns in [20, 40, 60, 80, 200] {
            let drawn = drawing(&event, &pace, columns, false);
            assert!(drawn.lines().all(|line| line.chars().count() < columns), "{drawn}");
            assert_eq!(drawn.lines().count(), 2, "{drawn}");
            assert!(drawn.contains("60 % "), "{drawn}");
            assert_eq!(drawn.contains("left"), columns >= 60, "{drawn}");
            assert!(drawn.contains("[====") || columns < 80, "{drawn}");
        }
        assert!(drawing(&event, &pace, 80, true).contains("\x1b[36m"));
    }
}
