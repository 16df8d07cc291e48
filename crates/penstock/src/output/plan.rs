//! Shows plans: a line for each item that would change, totals, a forecast.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};

use penstock_api::plan::{
    ItemKind, PlanAction, PlanCount, PlanEnd, PlanHead, PlanItem, PlanLine, location_of,
};
use penstock_proto::units::{counted, format_bytes, format_rate};

use penstock_exit::{self as exit, ExitCode, Failure, failure};

use super::duration;

/// How a plan is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) enum Show {
    /// What would change, in words.
    #[default]
    Changes,
    /// What would stay as it is too.
    All,
    /// The plan itself: JSON Lines.
    Json,
}

impl Show {
    /// As options say.
    pub(crate) fn choose(json: bool, verbose: bool) -> Self {
        match (json, verbose) {
            (true, _) => Self::Json,
            (false, true) => Self::All,
            (false, false) => Self::Changes,
        }
    }
}

/// Shows a plan; gives how the transfer would end, as far as that is known.
///
/// # Errors
/// The plan cannot be read; standard output cannot be written; nothing would be deleted, though
/// that was asked for.
pub(crate) fn show(plan: File, show: Show) -> anyhow::Result<ExitCode> {
    let lost = |error| Failure::io("read the plan", error);
    let mut input = BufReader::with_capacity(1 << 18, plan);
    let mut out = exit::output();
    let mut end = None;
    let mut forecaster = None;
    let mut text = Vec::new();
    while input.read_until(b'\n', &mut text).map_err(lost)? > 0 {
        let line = serde_json::from_slice(&text)?;
        let written = match (&line, show) {
            (_, Show::Json) => out.write_all(&text),
            (PlanLine::Item(item), _) => write_item(&mut out, item, show),
            (PlanLine::End(end), _) => write_end(&mut out, end, forecaster.as_deref()),
            (PlanLine::Plan(head), _) => {
                forecaster = forecast_command(head);
                Ok(())
            }
        };
        match written {
            // A reader that has gone away, as in `| head`, has all it wants.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(ExitCode::Done),
            written => written.map_err(|error| Failure::io("write to standard output", error))?,
        }
        if let PlanLine::End(found) = line {
            end = Some(*found);
        }
        text.clear();
    }
    match out.flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            return Err(Failure::io("write to standard output", error).into());
        }
        _ => {}
    }
    let end = end.ok_or_else(|| Failure::new(ExitCode::Unclassified, "the plan has no end"))?;
    outcome(&end)
}

/// How a transfer would end that does what a plan says, as far as that is known.
///
/// # Errors
/// A guard would refuse to delete.
pub(crate) fn outcome(end: &PlanEnd) -> anyhow::Result<ExitCode> {
    if let Some(problem) = end.refused.clone() {
        return Err(failure(problem).into());
    }
    let fails = end.totals.fail.items + end.unlisted > 0;
    Ok(if fails { ExitCode::SomeFailed } else { ExitCode::Done })
}

fn write_item(out: &mut dyn Write, item: &PlanItem, show: Show) -> io::Result<()> {
    if item.action == PlanAction::Skip && show != Show::All {
        return Ok(());
    }
    let slash = if item.kind == ItemKind::Directory { "/" } else { "" };
    let path = if item.path.0.is_empty() { ".".to_owned() } else { item.path.to_string() };
    write!(out, "{:<10} {path}{slash}", item.action.as_str())?;
    if item.action.moves() && item.kind == ItemKind::File {
        write!(out, "  ({})", format_bytes(item.size))?;
    }
    if let Some(link) = &item.link
        && item.action != PlanAction::Skip
    {
        write!(out, " -> {link}")?;
    }
    if !item.why.is_empty() {
        write!(out, "  ({})", item.why)?;
    }
    writeln!(out)
}

/// Returns the command that forecasts a transfer from measurements; a copy has none.
fn forecast_command(head: &PlanHead) -> Option<String> {
    let is_transfer = [&head.source, &head.target].into_iter().all(|it| location_of(it).is_ok());
    is_transfer.then(|| format!("penstock forecast {} {}", head.source, head.target))
}

/// Writes totals and forecast. `forecaster` is a command that knows more of the time than the plan.
pub(crate) fn write_end(
    out: &mut dyn Write,
    end: &PlanEnd,
    forecaster: Option<&str>,
) -> io::Result<()> {
    let totals = &end.totals;
    writeln!(out)?;
    for action in PlanAction::ALL {
        let PlanCount { items, bytes } = totals.of(action);
        if items == 0 {
            continue;
        }
        let bytes = if bytes > 0 { format!(", {}", format_bytes(bytes)) } else { String::new() };
        writeln!(out, "{:<10} {}{bytes}", action.as_str(), counted(items, "item"))?;
    }
    for item in &end.unlisted_items {
        writeln!(out, "{:<10} {}: {}", "left out", item.path, item.message)?;
    }
    if totals.items() == totals.skip.items {
        writeln!(out, "nothing would change")?;
    }
    for (count, what) in [
        (end.not_chosen, "not chosen"),
        (end.not_carried, "not carried: sockets and kinds that are not wanted"),
        (end.own_state, "of penstock's own state"),
        (end.unlisted, "that could not be listed at the source, and would fail"),
    ] {
        if count > 0 {
            writeln!(out, "{:<10} {} {what}", "left out", counted(count, "item"))?;
        }
    }
    let moved = totals.bytes_moved();
    match &end.forecast {
        _ if moved == 0 => Ok(()),
        Some(forecast) => writeln!(
            out,
            "forecast   about {} for {} at {}, {}",
            duration::estimated(forecast.seconds),
            format_bytes(moved),
            format_rate(forecast.rate_bits_per_s),
            forecast.basis
        ),
        None => {
            let command = forecaster
                .map(|command| format!("; `{command}` uses measurements of the stores, if any"));
            writeln!(
                out,
                "forecast   none for {}: nothing is known of the rate between these places{}",
                format_bytes(moved),
                command.unwrap_or_default()
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_api::plan::Forecast;
    use penstock_api::transfer::PathText;

    fn text(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Promise (j): an item is one line, whatever its name is.
    #[test]
    fn j_an_item_is_one_line() {
        let mut item = PlanItem {
            action: PlanAction::Replace,
            path: PathText(b"a\nb\xff".to_vec()),
            kind: ItemKind::File,
            size: 2048,
            mtime: (0, 0),
            link: None,
            why: String::new(),
            there: None,
        };
        let line = text(|out| write_item(out, &item, Show::Changes));
        assert_eq!(line, "replace    a\\nb\\xff  (2.0 KiB)\n");
        item.action = PlanAction::Skip;
        item.why = "the same".to_owned();
        assert_eq!(text(|out| write_item(out, &item, Show::Changes)), "");
        assert!(text(|out| write_item(out, &item, Show::All)).ends_with("(the same)\n"));
    }

    /// Promise: a forecast names what it goes by, and where nothing is known none is given.
    #[test]
    fn a_forecast_is_told_with_its_basis() {
        let mut end = PlanEnd::default();
        assert!(text(|out| write_end(out, &end, None)).contains("nothing would change"));
        end.totals.copy = PlanCount { items: 2, bytes: 1 << 30 };
        let none = text(|out| write_end(out, &end, None));
        assert!(none.ends_with("nothing is known of the rate between these places\n"), "{none}");
        let command = "penstock forecast a:data b:data";
        let none = text(|out| write_end(out, &end, Some(command)));
        assert!(none.contains("places; `penstock forecast a:data b:data` uses"), "{none}");
        let basis = "the limit that was set".to_owned();
        end.forecast = Some(Forecast { seconds: 600.0, rate_bits_per_s: 1e9, basis });
        let told = text(|out| write_end(out, &end, Some(command)));
        assert!(told.contains("about 10 min for 1.0 GiB at 1.00 Gbit/s, the limit"), "{told}");
    }
}
