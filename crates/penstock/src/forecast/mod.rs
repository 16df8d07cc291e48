//! `penstock forecast`: the time of a transfer, from the transfers of the past and from what was
//! measured (docs/design/0066-forecasts.md).
//!
//! | module | what it owns |
//! |---|---|
//! | `arguments` | the command line |
//! | `dataset` | the files that would be moved |
//! | `extent` | files and bytes |
//! | `evidence` | the questions to the daemons |
//! | `cost_model` | the line through files and bytes, and its fit |
//! | `small_files` | the cost of files below the sizes of past transfers |
//! | `history` | forecasts from past transfers, and their grades |
//! | `storage_time`, `network_time` | the least time by measurements |
//! | `outlook` | the forecast with its limit and basis |
//! | `report` | the text |
//!
//! Only `dataset` and `evidence` ask a daemon. The others are pure.

mod arguments;
pub(crate) mod cost_model;
mod dataset;
mod evidence;
pub(crate) mod extent;
mod history;
pub(crate) mod network_time;
mod outlook;
mod report;
mod small_files;
mod storage_time;

use penstock_api::timestamp::Timestamp;
use penstock_exit::{self as exit, ExitCode, Failure};
use penstock_proto::id::TransferId;
use serde::Serialize;

pub(crate) use arguments::ForecastArgs;
use extent::Extent;
pub(crate) use history::seconds_of;
use history::{Graded, median_error};
use outlook::Forecast;

use crate::client::Client;

/// The grades of past transfers, as JSON has them.
#[derive(Serialize)]
struct Grades {
    transfers: Vec<Grade>,
    /// Median of the errors without their signs, as a part of the time.
    median_error: Option<f64>,
}

#[derive(Serialize)]
struct Grade {
    id: TransferId,
    ended: Timestamp,
    #[serde(flatten)]
    extent: Extent,
    seconds: f64,
    forecast: Option<f64>,
    error: Option<f64>,
}

impl Grades {
    fn of(graded: &[Graded<'_>]) -> Self {
        let grade = |one: &Graded<'_>| Grade {
            id: one.past.id,
            ended: one.past.ended,
            extent: one.past.extent,
            seconds: one.past.seconds,
            forecast: one.forecast.map(|forecast| forecast.seconds),
            error: one.error(),
        };
        Self { transfers: graded.iter().map(grade).collect(), median_error: median_error(graded) }
    }
}

/// Runs it.
///
/// # Errors
/// No daemon answers, or what it answers; nothing was measured.
pub(crate) fn run(args: &ForecastArgs) -> anyhow::Result<ExitCode> {
    let client = Client::new(&args.directory.directory)?;
    let evidence = evidence::ask(&client, args)?;
    if args.grade {
        let graded = evidence.grade();
        if graded.is_empty() {
            let message = "no transfer between these stores tells its time";
            return Err(Failure::new(ExitCode::Refused, message)
                .hint(
                    "transfers count that moved all of their files in one attempt, without limits",
                )
                .into());
        }
        let text = match args.json {
            true => serde_json::to_string(&Grades::of(&graded))?,
            false => report::grade_text(&graded),
        };
        exit::print(&text)?;
        return Ok(ExitCode::Done);
    }
    let classes = dataset::classes(&client, args)?;
    let mut forecast = evidence.forecast(&classes);
    if forecast.extent.files == 0 {
        (forecast.seconds, forecast.interval) = (Some(0.0), None);
        let text = match args.json {
            true => serde_json::to_string(&forecast)?,
            false => "nothing is to be moved".to_owned(),
        };
        exit::print(&text)?;
        return Ok(ExitCode::Done);
    }
    if forecast.seconds.is_none() {
        return Err(unknown(&forecast).into());
    }
    let now = Timestamp::of_seconds(penstock_sys::now_seconds());
    let text = match args.json {
        true => serde_json::to_string(&forecast)?,
        false => report::forecast_text(&forecast, now),
    };
    exit::print(&text)?;
    Ok(ExitCode::Done)
}

/// Returns the error of a forecast for which nothing was measured.
fn unknown(forecast: &Forecast) -> Failure {
    let reasons: Vec<&str> = forecast.parts.iter().map(|part| part.basis.as_str()).collect();
    let commands = forecast.parts.iter().filter_map(|part| part.command.as_deref());
    let commands: Vec<String> = commands.map(|command| format!("`{command}`")).collect();
    let failure = Failure::new(ExitCode::Refused, "no transfer and no measurement tells the time");
    let failure = match reasons.is_empty() {
        true => failure,
        false => failure.caused_by(reasons.join("; ")),
    };
    let hint = "move something between these stores";
    match commands.is_empty() {
        true => failure.hint(hint),
        false => failure.hint(format!("{hint}, or run {}", commands.join(", "))),
    }
}
