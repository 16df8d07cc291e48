//! The page of proof: what a soak has shown, from its records alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use penstock_exit::ExitCode;
use penstock_proto::units::{counted, format_bytes, format_rate};
use serde::Serialize;

use super::course::is_complete;
use super::directory::Records;
use super::record::{FaultRecord, KILLED, RoundRecord, SampleRecord, SoakRecord};
use crate::drift::Drift;
use crate::median;
use crate::output::duration;
use crate::output::time::second;

/// Fewest rounds without a fault of which the drift of the rate is taken; else it is of all.
const CALM_ROUNDS_MIN: usize = 6;
/// Failures that the page lists; all are in `rounds.jsonl`.
const FAILURES_MAX: usize = 20;

/// Everything that the page says; `proof.json`.
#[derive(Debug, Serialize)]
pub(super) struct Proof {
    v: u32,
    soak: SoakRecord,
    /// True if the end was reached.
    is_complete: bool,
    /// True if no round has failed, no check, and no fault stays.
    is_good: bool,
    bytes: u64,
    files: u64,
    rounds: usize,
    good_rounds: usize,
    rates_bits_per_s: Option<Rates>,
    attempts: u64,
    retries: u64,
    repairs: u64,
    countersigned: usize,
    compared: usize,
    damages_found: usize,
    sent_again_bytes: u64,
    faults: Vec<FaultSum>,
    drifts: Vec<FigureDrift>,
    failures: Vec<String>,
}

/// Rates of the rounds, by the time of their transfers.
#[derive(Debug, Serialize)]
struct Rates {
    mean: f64,
    median: f64,
    least: f64,
    greatest: f64,
    /// Median of rounds without a fault.
    median_calm: Option<f64>,
}

/// The faults of one name.
#[derive(Debug, Default, Serialize)]
struct FaultSum {
    name: String,
    count: usize,
    /// Faults whose round was good; where data was damaged, it was found.
    survived: usize,
    median_progress_s: Option<f64>,
    longest_progress_s: Option<f64>,
    sent_again_bytes: u64,
    problems: usize,
}

/// The drift of one figure.
#[derive(Debug, Serialize)]
struct FigureDrift {
    figure: String,
    unit: Unit,
    drift: Drift,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Unit {
    BitsPerSecond,
    Bytes,
    One,
}

impl Proof {
    /// Returns what the records show.
    pub(super) fn of(records: &Records) -> Self {
        let Records { soak, rounds, faults, samples } = records;
        let good: Vec<&RoundRecord> = rounds.iter().filter(|round| round.is_good).collect();
        let sums = fault_sums(rounds, faults);
        let mut failures: Vec<String> = soak.failures.clone();
        for round in rounds {
            let number = round.round;
            failures.extend(round.failures.iter().map(|text| format!("round {number}: {text}")));
        }
        failures.extend(problems(soak, faults));
        let compared = rounds.iter().filter_map(|round| round.compared);
        Self {
            v: super::record::RECORD_VERSION,
            is_complete: is_complete(soak, rounds),
            is_good: good.len() == rounds.len() && failures.is_empty(),
            bytes: good.iter().map(|round| round.bytes).sum(),
            files: good.iter().map(|round| round.files).sum(),
            rounds: rounds.len(),
            good_rounds: good.len(),
            rates_bits_per_s: Rates::of(&good),
            attempts: rounds.iter().map(|round| u64::from(round.attempts)).sum(),
            retries: rounds.iter().map(|round| u64::from(round.retries)).sum(),
            repairs: rounds.iter().map(|round| round.repairs).sum(),
            countersigned: rounds.iter().filter(|round| round.is_countersigned).count(),
            compared: compared.clone().count(),
            damages_found: compared.filter(|it| it.is_damage_expected && it.files > 0).count(),
            sent_again_bytes: rounds.iter().flat_map(|it| &it.sent_again).map(|it| it.bytes).sum(),
            faults: sums,
            drifts: drifts(&good, samples),
            failures,
            soak: soak.clone(),
        }
    }

    /// Returns the exit code of a command that shows it.
    pub(super) fn exit(&self) -> ExitCode {
        match (self.is_good, self.is_complete) {
            (false, _) => ExitCode::SomeFailed,
            (true, false) => ExitCode::Temporary,
            (true, true) => ExitCode::Done,
        }
    }

    /// Returns the page, in Markdown.
    pub(super) fn page(&self) -> String {
        let mut page = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut page);
        page
    }

    fn write(&self, page: &mut String) -> std::fmt::Result {
        let soak = &self.soak;
        let verdict = match (self.is_good, self.is_complete) {
            (true, true) => "nothing was lost",
            (true, false) => "nothing was lost so far; the end is not reached",
            (false, _) => "SOMETHING FAILED: see Failures",
        };
        writeln!(page, "# Soak {}: {verdict}\n", soak.id.short())?;
        writeln!(page, "`{}` -> `{}`, until {}\n", soak.source, soak.target, soak.until)?;
        self.write_sums(page)?;
        self.write_faults(page)?;
        self.write_drifts(page)?;
        if !self.failures.is_empty() {
            writeln!(page, "## Failures\n")?;
            for failure in self.failures.iter().take(FAILURES_MAX) {
                writeln!(page, "- {failure}")?;
            }
            let more = self.failures.len().saturating_sub(FAILURES_MAX);
            if more > 0 {
                writeln!(page, "- {more} more in `rounds.jsonl`")?;
            }
            writeln!(page)?;
        }
        let every = soak.every_seconds.map(|seconds| format!(", a fault every {seconds} s or so"));
        writeln!(
            page,
            "Began {} UTC, {}, seed {}{}. {}; asked by penstock {}.",
            second(soak.began.ms()),
            counted(soak.starts, "start"),
            soak.seed,
            every.unwrap_or_default(),
            soak.versions.join(", "),
            env!("CARGO_PKG_VERSION")
        )?;
        if let Some(left) = &soak.left {
            writeln!(page, "\n{left}")?;
        }
        Ok(())
    }

    fn write_sums(&self, page: &mut String) -> std::fmt::Result {
        writeln!(page, "| | |\n|---|---|")?;
        writeln!(
            page,
            "| moved and verified | {} ({} bytes) |",
            format_bytes(self.bytes),
            self.bytes
        )?;
        writeln!(page, "| time | {} |", duration::exact(self.soak.seconds as u64))?;
        let files = counted(self.files, "file");
        writeln!(page, "| rounds | {} of {} good, {files} |", self.good_rounds, self.rounds)?;
        if let Some(rates) = &self.rates_bits_per_s {
            let [mean, median, least, greatest] =
                [rates.mean, rates.median, rates.least, rates.greatest].map(format_rate);
            writeln!(page, "| rate, mean | {mean} |")?;
            writeln!(page, "| rate of a round | median {median}, {least} to {greatest} |")?;
            if let Some(calm) = rates.median_calm {
                writeln!(page, "| of a round without a fault | median {} |", format_rate(calm))?;
            }
            for measured in &self.soak.measured {
                let ratio = rates.mean / (measured.bytes_per_s * 8.0);
                writeln!(
                    page,
                    "| of what `{}` did at {} | {:.0} % of {}, measured {} UTC |",
                    measured.store,
                    measured.operation,
                    ratio * 100.0,
                    format_rate(measured.bytes_per_s * 8.0),
                    second(measured.at.ms())
                )?;
            }
        }
        let signed = self.countersigned;
        writeln!(page, "| receipts | all sound of good rounds, {signed} signed by both sites |")?;
        writeln!(
            page,
            "| compared again at rest | {}, damage found {} |",
            counted(self.compared as u64, "time"),
            counted(self.damages_found as u64, "time")
        )?;
        writeln!(page, "| sent again | {} |", format_bytes(self.sent_again_bytes))?;
        writeln!(
            page,
            "| attempts | {}, {} after a failure; {} repaired |\n",
            self.attempts,
            self.retries,
            counted(self.repairs, "piece")
        )
    }

    fn write_faults(&self, page: &mut String) -> std::fmt::Result {
        if self.faults.is_empty() {
            return writeln!(page, "No fault was injected.\n");
        }
        let some = |seconds: Option<f64>| seconds.map_or("-".to_owned(), |it| format!("{it:.1} s"));
        writeln!(page, "## Faults\n")?;
        writeln!(
            page,
            "| fault | times | survived | progress after, median | longest | sent again |"
        )?;
        writeln!(page, "|---|---|---|---|---|---|")?;
        for sum in &self.faults {
            writeln!(
                page,
                "| {} | {} | {} | {} | {} | {} |",
                sum.name,
                sum.count,
                sum.survived,
                some(sum.median_progress_s),
                some(sum.longest_progress_s),
                format_bytes(sum.sent_again_bytes)
            )?;
        }
        writeln!(
            page,
            "\nSurvived: the round in which the fault began was good, and damage at rest was \
             found. Times are from its begin until further bytes were seen to be verified, where \
             that was before the next fault."
        )?;
        let problems: usize = self.faults.iter().map(|sum| sum.problems).sum();
        if problems > 0 {
            let problems = counted(problems as u64, "fault");
            writeln!(page, "{problems} had a problem of its own: see `faults.jsonl`.")?;
        }
        writeln!(page)
    }

    fn write_drifts(&self, page: &mut String) -> std::fmt::Result {
        if self.drifts.is_empty() {
            return writeln!(page, "Too few points for a drift.\n");
        }
        writeln!(page, "## Drift\n")?;
        writeln!(page, "| figure | median | change per hour | 95 % | points | |")?;
        writeln!(page, "|---|---|---|---|---|---|")?;
        for FigureDrift { figure, unit, drift } in &self.drifts {
            let [middle, change, least, greatest] =
                [drift.median, drift.per_hour, drift.least, drift.greatest]
                    .map(|value| unit.format(value));
            let word = if drift.is_certain() { "drifts" } else { "no drift seen" };
            let points = drift.points;
            writeln!(
                page,
                "| {figure} | {middle} | {change} | {least} to {greatest} | {points} | {word} |"
            )?;
        }
        writeln!(page)
    }
}

impl Unit {
    fn format(self, value: f64) -> String {
        let (sign, size) = if value < 0.0 { ("-", -value) } else { ("", value) };
        match self {
            Self::BitsPerSecond => format!("{sign}{}", format_rate(size)),
            Self::Bytes => format!("{sign}{}", format_bytes(size as u64)),
            Self::One => format!("{sign}{size:.1}"),
        }
    }
}

impl Rates {
    fn of(good: &[&RoundRecord]) -> Option<Self> {
        let rates: Vec<f64> = good.iter().map(|round| rate(round)).collect();
        let calm = good.iter().filter(|round| round.faults == 0).map(|round| rate(round));
        let bits = good.iter().map(|round| round.bytes as f64 * 8.0).sum::<f64>();
        let seconds: f64 = good.iter().map(|round| round.seconds).sum();
        Some(Self {
            mean: bits / seconds.max(1e-3),
            least: rates.iter().copied().reduce(f64::min)?,
            greatest: rates.iter().copied().reduce(f64::max)?,
            median_calm: median::of(calm.collect()),
            median: median::of(rates)?,
        })
    }
}

/// Returns the bits per second of a round.
fn rate(round: &RoundRecord) -> f64 {
    round.bytes as f64 * 8.0 / round.seconds.max(1e-3)
}

fn fault_sums(rounds: &[RoundRecord], faults: &[FaultRecord]) -> Vec<FaultSum> {
    let names: BTreeMap<u64, String> =
        faults.iter().map(|fault| (fault.fault, fault.name.to_string())).collect();
    let mut sums = BTreeMap::<String, (FaultSum, Vec<f64>)>::new();
    for fault in faults {
        let name = fault.name.to_string();
        let (sum, times) = sums.entry(name.clone()).or_default();
        sum.name = name;
        sum.count += 1;
        sum.problems += usize::from(fault.problem.is_some());
        sum.survived += usize::from(is_survived(fault, rounds));
        times.extend(fault.progress_seconds);
    }
    for again in rounds.iter().flat_map(|round| &round.sent_again) {
        let name = again.fault.and_then(|fault| names.get(&fault));
        if let Some((sum, _)) = name.and_then(|name| sums.get_mut(name)) {
            sum.sent_again_bytes += again.bytes;
        }
    }
    let finished = sums.into_values().map(|(mut sum, times)| {
        sum.longest_progress_s = times.iter().copied().reduce(f64::max);
        sum.median_progress_s = median::of(times);
        sum
    });
    finished.collect()
}

/// Returns the problems of faults, but for a death of the soak, which is none, and for those that
/// the soak has as its own failures.
fn problems(soak: &SoakRecord, faults: &[FaultRecord]) -> impl Iterator<Item = String> {
    faults.iter().filter_map(|FaultRecord { fault, name, problem, .. }| {
        let is_other = |text: &&String| *text != KILLED && !soak.failures.contains(text);
        let problem = problem.as_ref().filter(is_other)?;
        Some(format!("fault {fault}, `{name}`: {problem}"))
    })
}

/// Returns whether the round in which a fault began was good, and damage was found.
fn is_survived(fault: &FaultRecord, rounds: &[RoundRecord]) -> bool {
    let found = |round: &RoundRecord| round.compared.is_some_and(|it| it.files > 0);
    let is_good = |round: &RoundRecord| round.is_good && (!fault.at_rest || found(round));
    fault.problem.is_none()
        && rounds.iter().any(|round| round.round == fault.round && is_good(round))
}

fn drifts(good: &[&RoundRecord], samples: &[SampleRecord]) -> Vec<FigureDrift> {
    let calm: Vec<_> = good.iter().filter(|round| round.faults == 0).collect();
    let (which, rounds) = match calm.len() >= CALM_ROUNDS_MIN {
        true => ("rate of rounds without a fault", calm),
        false => ("rate of all rounds", good.iter().collect()),
    };
    let points: Vec<_> = rounds.iter().map(|round| (round.at_seconds, rate(round))).collect();
    let rate = Drift::of(&points).map(|drift| FigureDrift {
        figure: which.to_owned(),
        unit: Unit::BitsPerSecond,
        drift,
    });
    let daemons: BTreeSet<&String> = samples.iter().map(|sample| &sample.daemon).collect();
    rate.into_iter().chain(daemons.into_iter().flat_map(|name| of_daemon(name, samples))).collect()
}

/// A figure of samples.
type Figure = fn(&SampleRecord) -> Option<f64>;

fn of_daemon(name: &str, samples: &[SampleRecord]) -> Vec<FigureDrift> {
    let own: Vec<_> = samples.iter().filter(|sample| sample.daemon == name).collect();
    // Memory and descriptors are those of one process: the one with most samples.
    let mut counts = BTreeMap::<u32, usize>::new();
    own.iter().for_each(|sample| *counts.entry(sample.process).or_default() += 1);
    let longest = counts.iter().max_by_key(|(_, count)| **count).map(|(process, _)| *process);
    let of_process: [(&str, Unit, Figure); 3] = [
        ("memory", Unit::Bytes, |sample| sample.memory_bytes),
        ("open files", Unit::One, |sample| sample.open_files),
        ("threads", Unit::One, |sample| sample.threads),
    ];
    let of_directory: [(&str, Unit, Figure); 2] = [
        ("state", Unit::Bytes, |sample| sample.state_bytes),
        ("logs", Unit::Bytes, |sample| sample.log_bytes),
    ];
    let drift = |(word, unit, figure): (&str, Unit, Figure), process: Option<u32>| {
        let its = own.iter().filter(|sample| process.is_none_or(|it| sample.process == it));
        let points: Vec<_> =
            its.filter_map(|sample| Some((sample.at_seconds, figure(sample)?))).collect();
        Some(FigureDrift { figure: format!("{word} of {name}"), unit, drift: Drift::of(&points)? })
    };
    let mut found: Vec<_> = of_process.into_iter().filter_map(|it| drift(it, longest)).collect();
    found.extend(of_directory.into_iter().filter_map(|it| drift(it, None)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Records {
        let soak = r#"{"v":1,"id":"00112233445566778899aabbccddeeff","seed":7,"source":"a:mem/",
            "target":"b:null/","until":{"rounds":8},"every_seconds":60,
            "began":"2026-11-26T20:00:00Z","seconds":3600.0,"starts":2,"faults":2,"is_null":true,
            "round":null,"failures":[],"versions":["b/b penstock 0.1.0"],"measured":[{
            "store":"null","operation":"write","bytes_per_s":2e9,"at":"2026-11-25T20:00:00Z"}]}"#;
        let round = |number: u64| {
            let faults = u64::from(number == 2);
            format!(
                r#"{{"round":{number},"transfer":"00112233445566778899aabbccddeeff",
                "began":"2026-11-26T20:00:00Z","at_seconds":{at},"seconds":1.0,"is_good":true,
                "files":4,"bytes":1000000000,"attempts":1,"retries":0,"repairs":0,
                "faults":{faults},"sent_again":[{{"fault":{faults},"bytes":{again}}}],
                "root_digest":"aa","is_countersigned":true,"compared":null,"failures":[]}}"#,
                at = number * 60,
                again = faults * 4096
            )
        };
        let fault = r#"{"fault":1,"name":"kill","round":2,"began":"2026-11-26T20:00:00Z",
            "open_seconds":5.0,"progress_seconds":6.5,"problem":null}"#;
        Records {
            soak: serde_json::from_str(soak).unwrap(),
            rounds: (1..=8).map(|at| serde_json::from_str(&round(at)).unwrap()).collect(),
            faults: vec![serde_json::from_str(fault).unwrap()],
            samples: Vec::new(),
        }
    }

    /// Promise: the page has the sums of the records, and a failure of one round or of one fault
    /// changes its head and the exit code, as an end that is not reached does; a death of the soak
    /// does not.
    #[test]
    fn a_page_says_what_the_records_say() {
        let mut records = records();
        let proof = Proof::of(&records);
        let page = proof.page();
        assert_eq!(proof.exit(), ExitCode::Done, "{page}");
        for line in [
            "# Soak 00112233: nothing was lost",
            "| moved and verified | 7.5 GiB (8000000000 bytes) |",
            "| rounds | 8 of 8 good, 32 files |",
            "| rate, mean | 8.00 Gbit/s |",
            "| of what `null` did at write | 50 % of 16.00 Gbit/s, measured 2026-11-25 20:00:00",
            "| receipts | all sound of good rounds, 8 signed by both sites |",
            "| kill | 1 | 1 | 6.5 s | 6.5 s | 4.0 KiB |",
            "| rate of rounds without a fault | 8.00 Gbit/s | 0.00 bit/s |",
            "seed 7, a fault every 60 s or so. b/b penstock 0.1.0",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
        records.soak.is_given_up = true;
        assert_eq!(Proof::of(&records).exit(), ExitCode::Temporary, "a round is to be done anew");
        records.soak.is_given_up = false;
        records.rounds[4].is_good = false;
        records.rounds[4].failures.push("2 items failed".to_owned());
        let proof = Proof::of(&records);
        let page = proof.page();
        assert_eq!(proof.exit(), ExitCode::SomeFailed);
        assert!(page.contains(": SOMETHING FAILED: see Failures"), "{page}");
        assert!(page.contains("- round 5: 2 items failed"), "{page}");
        records.rounds.truncate(4);
        records.faults[0].problem = Some("its command ended with 3".to_owned());
        let page = Proof::of(&records).page();
        assert!(page.contains("- fault 1, `kill`: its command ended with 3"), "{page}");
        records.faults[0].problem = Some(KILLED.to_owned());
        let proof = Proof::of(&records);
        assert!(proof.page().contains("nothing was lost so far"));
        assert_eq!(proof.exit(), ExitCode::Temporary);
    }
}
