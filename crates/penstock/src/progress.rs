//! Shows how a transfer stands while a command waits for it: a bar on a terminal, a line every ten
//! seconds elsewhere, or JSON Lines. Bars and lines are talk, on standard error; JSON is data, on
//! standard output.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use penstock_api::problem::Exit;
use penstock_api::rest::{ErrorEvent, Event, TransferEvent};
use penstock_api::transfer::{Progress, TransferState};
use penstock_proto::units::{format_bytes, format_rate};

use crate::exit;

/// How often a line is printed where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A bar that is drawn again and again.
    Bar,
    /// A line every ten seconds.
    Lines,
    /// Every event as one line of JSON.
    Json,
    /// Nothing but errors and the summary.
    Quiet,
}

impl Mode {
    /// JSON if asked for; else a bar if standard error is a terminal, else lines; nothing while it
    /// runs unless `progress` is wanted.
    pub(crate) fn choose(json: bool, progress: bool) -> Self {
        match (json, progress) {
            (true, _) => Self::Json,
            (false, false) => Self::Quiet,
            (false, true) if std::io::stderr().is_terminal() => Self::Bar,
            (false, true) => Self::Lines,
        }
    }
}

/// Shows the events of one transfer.
pub(crate) struct Reporter {
    mode: Mode,
    bar: Option<ProgressBar>,
    line_due: Instant,
    last_error: String,
}

impl Reporter {
    /// A reporter; with a bar, it is drawn from the first event on.
    pub(crate) fn new(mode: Mode) -> Self {
        let bar = (mode == Mode::Bar).then(new_bar);
        let line_due = Instant::now() + LINE_INTERVAL;
        Self { mode, bar, line_due, last_error: String::new() }
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
        }
        Ok(())
    }

    fn update(&mut self, event: &TransferEvent) {
        let progress = &event.progress;
        if let Some(bar) = &self.bar {
            bar.set_length(progress.bytes_found.max(1));
            bar.set_position(progress.bytes + progress.bytes_skipped);
            let (standing, reason) = status_parts(event);
            bar.set_message(standing);
            bar.set_prefix(reason);
            bar.tick();
        } else if self.mode == Mode::Lines && Instant::now() >= self.line_due {
            self.line_due = Instant::now() + LINE_INTERVAL;
            exit::warn(&status_line(event));
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
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
    let coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let template = if coloured {
        "[{bar:24.cyan}] {wide_msg}\n{prefix}"
    } else {
        "[{bar:24}] {wide_msg}\n{prefix}"
    };
    // The templates are constants; were one wrong, the default style would do.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// How a transfer stands, in one line.
pub(crate) fn status_line(event: &TransferEvent) -> String {
    let (standing, reason) = status_parts(event);
    if reason.is_empty() { standing } else { format!("{standing}; {reason}") }
}

/// How far a transfer is, and what it waits for or is limited by. On a terminal they are two lines,
/// so that neither hides the other.
fn status_parts(event: &TransferEvent) -> (String, String) {
    let progress = &event.progress;
    let mut line = match event.state {
        TransferState::Running => String::new(),
        state => format!("{}: ", state_name(state)),
    };
    line.push_str(&counts(progress));
    if event.state == TransferState::Running && progress.rate_bits_per_s > 0.0 {
        line.push_str(&format!(", {}", format_rate(progress.rate_bits_per_s)));
        if let Some(left) = time_left(progress) {
            line.push_str(&format!(", {left} left"));
        }
    }
    if progress.errors > 0 {
        line.push_str(&format!(", {} failed", progress.errors));
    }
    let limit = if event.state.is_ended() { "" } else { progress.limit.as_str() };
    let reason = match (event.reason.as_str(), limit) {
        ("", "") => String::new(),
        ("", limit) => format!("limited by {limit}"),
        (reason, _) => reason.to_owned(),
    };
    (line, reason)
}

fn counts(progress: &Progress) -> String {
    let (bytes, found) = (format_bytes(progress.bytes), format_bytes(progress.bytes_found));
    let more = if progress.scan_complete { "" } else { "+" };
    let percent = if progress.scan_complete && progress.bytes_found > 0 {
        let settled = progress.bytes + progress.bytes_skipped;
        let share = settled as f64 / progress.bytes_found as f64 * 100.0;
        format!("{:.0} % ", share.floor())
    } else {
        String::new()
    };
    format!(
        "{percent}{bytes} of {found}{more}, {} of {}{more} files",
        progress.files, progress.files_found
    )
}

/// Time that the rest takes at the mean rate so far, once the total is known.
fn time_left(progress: &Progress) -> Option<String> {
    let rate = progress.mean_bits_per_s();
    if !progress.scan_complete || rate <= 0.0 {
        return None;
    }
    let rest = progress.bytes_found.saturating_sub(progress.bytes + progress.bytes_skipped);
    let rest = rest as f64 * 8.0;
    Some(duration((rest / rate) as u64))
}

/// Whole seconds as `5 s`, `3:20 min` or `2:05 h`.
fn duration(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        _ => format!("{}:{:02} h", seconds / 3600, seconds / 60 % 60),
    }
}

/// The word for a state, as JSON has it.
pub(crate) fn state_name(state: TransferState) -> &'static str {
    match state {
        TransferState::Queued => "queued",
        TransferState::Running => "running",
        TransferState::Paused => "paused",
        TransferState::Done => "done",
        TransferState::Failed => "failed",
        TransferState::Cancelled => "cancelled",
    }
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
        "{}: {} file{}, {} in {:.1} s{rate}{verified}",
        state_name(event.state),
        progress.files,
        if progress.files == 1 { "" } else { "s" },
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
    for (count, what) in [
        (progress.repairs, "pieces repaired"),
        (progress.skipped.saturating_sub(progress.sockets), "items skipped"),
        (progress.excluded, "items not chosen"),
        (progress.sockets, "sockets skipped"),
        (progress.deleted, "items deleted"),
        (progress.not_listed, "files of holes without a standard digest"),
        (progress.removed, "items removed at the source"),
        (progress.stayed, "items stay at the source"),
        (progress.errors, "items failed"),
    ] {
        if count > 0 {
            more.push(format!("{count} {what}"));
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
        let line = status_line(&event(progress.clone(), "the source is silent"));
        assert!(line.starts_with("99 % ") && line.ends_with("; the source is silent"), "{line}");
        let mut ended = event(Progress { limit: "source".to_owned(), ..progress.clone() }, "");
        assert!(status_line(&ended).ends_with("limited by source"));
        ended.state = TransferState::Done;
        let text = format!("{} {}", status_line(&ended), summary_text(&ended));
        assert!(!text.contains("limited") && !text.contains("bit/s"), "{text}");
        let scanning = Progress { scan_complete: false, ..progress };
        let line = status_line(&event(scanning, ""));
        assert!(line.contains("of 2+ files"), "{line}");
    }
}
