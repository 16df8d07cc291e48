//! Forecasts and grades as text.

use penstock_api::timestamp::Timestamp;
use penstock_api::transfer::Encryption;
use penstock_proto::units::{counted, format_bytes, format_rate};

use super::history::{Graded, Method, median_error};
use super::outlook::{Forecast, HistoryBasis, PartTime};
use super::small_files::SmallFiles;
use crate::output::duration;
use crate::output::table::{aligned, table};
use crate::output::time::minute;

const DAY_SECONDS: u64 = 24 * 3600;

/// Returns what is printed of a forecast.
pub(super) fn forecast_text(of: &Forecast, now: Timestamp) -> String {
    let (files, bytes) = (counted(of.extent.files, "file"), format_bytes(of.extent.bytes));
    let clear = if of.mode.encryption == Encryption::Off { ", without encryption" } else { "" };
    let mut rows = vec![["data".to_owned(), format!("{files}, {bytes}{clear}")]];
    rows.push(["time".to_owned(), time_text(of)]);
    if let (Some(limit), Some(basis)) = (&of.limit, &of.limit_basis) {
        rows.push(["limit".to_owned(), format!("{limit}: {basis}")]);
    }
    if let Some(history) = &of.history {
        rows.push(["history".to_owned(), history_text(history, now)]);
    }
    rows.extend(of.parts.iter().map(|part| part_row(part, now)));
    let head = format!("{} to {}", of.source, of.target);
    let mut text = format!("{head}\n{}", table(&rows));
    if of.is_lower_bound {
        text += "\nA lower bound: it leaves out the processors, the list of the files and the end. \
                 Where both\nsites share a host, its parts also share its processors and disks. A \
                 few transfers between\nthese stores give a forecast.";
    }
    text
}

fn time_text(of: &Forecast) -> String {
    let seconds = of.seconds.unwrap_or_default();
    if of.is_lower_bound {
        return format!("at least {}", duration::estimated(seconds));
    }
    let Some(interval) = of.interval else {
        let why = match of.history.as_ref().is_some_and(|history| !history.is_within) {
            true => "no transfer with such files tells",
            false => "too few transfers tell",
        };
        return format!("{}; {why} how far that may be off", duration::estimated(seconds));
    };
    format!(
        "{}, from {} to {} ({:.0} % of the cases, as past transfers erred)",
        duration::estimated(seconds),
        duration::estimated(interval.least_s),
        duration::estimated(interval.greatest_s),
        interval.coverage * 100.0
    )
}

fn history_text(of: &HistoryBasis, now: Timestamp) -> String {
    let between = if of.same_places { "these places" } else { "these stores" };
    let (newest, oldest) = (age(of.newest, now), age(of.oldest, now));
    let when = if newest == oldest { newest } else { format!("{oldest} to {newest}") };
    let transfers = counted(of.transfers as u64, "transfer");
    let how = match of.method {
        Method::Fit { line, small } => {
            let start = duration::estimated(line.start_s);
            let below = |small: SmallFiles| {
                let size = format_bytes(small.below_bytes as u64);
                format!("; below {size} {}", cost_text(small.file_s, small.byte_s))
            };
            let below = small.map(below).unwrap_or_default();
            format!("a start of {start}, {}{below}", cost_text(line.file_s, line.byte_s))
        }
        Method::Factor { factor } => format!("{factor:.2} times the bound by measurements"),
        Method::Rate { bytes_per_s } => format!("{}, as these had", format_rate(bytes_per_s * 8.0)),
    };
    let beyond = match of.is_within {
        true => "",
        false => "; none had files of about this size",
    };
    format!("{transfers} between {between}, {when}: {how}{beyond}")
}

/// Returns the cost of files and bytes in words.
fn cost_text(file_s: f64, byte_s: f64) -> String {
    let per_byte = match byte_s > 0.0 {
        true => format!("{}/s", format_bytes((1.0 / byte_s) as u64)),
        false => "no time for bytes beside that".to_owned(),
    };
    format!("{} a file, {per_byte}", duration::estimated(file_s))
}

fn part_row(part: &PartTime, now: Timestamp) -> [String; 2] {
    let name = part.part.as_str().to_owned();
    let text = match (part.seconds, part.measured_at) {
        (Some(seconds), Some(at)) => {
            format!("at least {}: {}, {}", duration::estimated(seconds), part.basis, age(at, now))
        }
        _ => match &part.command {
            Some(command) => format!("{}: run `{command}`", part.basis),
            None => part.basis.clone(),
        },
    };
    [name, text]
}

/// Returns what is printed of the grades of past transfers.
pub(super) fn grade_text(graded: &[Graded<'_>]) -> String {
    let heads = ["ID", "ENDED", "FILES", "BYTES", "SECONDS", "FORECAST", "ERROR"];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(graded.iter().map(|one| {
        let past = one.past;
        let unknown = || "-".to_owned();
        [
            past.id.short(),
            minute(past.ended.seconds()),
            past.extent.files.to_string(),
            format_bytes(past.extent.bytes),
            format!("{:.2}", past.seconds),
            one.forecast.map_or_else(unknown, |forecast| format!("{:.2}", forecast.seconds)),
            one.error().map_or_else(unknown, |error| format!("{:+.1} %", error * 100.0)),
        ]
    }));
    let list = aligned(&rows, &[false, false, true, true, true, true, true]);
    let known = graded.iter().filter(|one| one.forecast.is_some()).count();
    match median_error(graded) {
        Some(error) => {
            let of = counted(known as u64, "transfer");
            format!("{list}\nmedian error {:.1} %, {of}", error * 100.0)
        }
        None => format!("{list}\ntoo few transfers to forecast any from the others"),
    }
}

/// Returns the age of a measurement in words.
fn age(at: Timestamp, now: Timestamp) -> String {
    match now.seconds().saturating_sub(at.seconds()) / DAY_SECONDS {
        0 => "today".to_owned(),
        days => format!("{} ago", counted(days, "day")),
    }
}
