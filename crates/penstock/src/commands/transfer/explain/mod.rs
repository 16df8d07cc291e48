//! `penstock transfer explain`: why a transfer waits, is slow, failed, or took as long as it did.
//!
//! The command asks for what the site knows, and `explanation` says it in plain words: a pure
//! function of these facts.

mod advice;
mod explanation;
mod facts;

use penstock_exit as exit;

use self::explanation::{Explanation, explain};
use self::facts::Facts;
use crate::client::Client;
use crate::output::table::table;

/// Decisions that are printed, the last ones.
const DECISIONS_SHOWN: usize = 12;

/// Prints the explanation of a transfer, with its last decisions or all that are kept.
///
/// # Errors
/// No daemon answers, or the transfer is not known.
pub(super) fn run(client: &Client, id: &str, all: bool, json: bool) -> anyhow::Result<()> {
    let mut explanation = explain(&Facts::fetch(client, id)?);
    if !all {
        let surplus = explanation.decisions.len().saturating_sub(DECISIONS_SHOWN);
        explanation.decisions.drain(..surplus);
    }
    let text = if json { serde_json::to_string(&explanation)? } else { text(&explanation) };
    Ok(exit::print(&text)?)
}

/// Returns the explanation of a transfer in words, with its last decisions.
///
/// # Errors
/// No daemon answers, or the transfer is not known.
pub(crate) fn text_of(client: &Client, id: &str) -> anyhow::Result<String> {
    Ok(text(&explain(&Facts::fetch(client, id)?)) + "\n")
}

fn text(explanation: &Explanation) -> String {
    let mut text = explanation.summary.clone();
    let rows: Vec<_> = explanation
        .evidence
        .iter()
        .map(|evidence| [format!("  {}", evidence.about), evidence.text.clone()])
        .collect();
    if !rows.is_empty() {
        text += &format!("\n\n{}", table(&rows));
    }
    for (at, advice) in explanation.advice.iter().enumerate() {
        let before = if at == 0 { "\n\nWhat to do:" } else { "" };
        text += &format!("{before}\n  - {advice}");
    }
    if !explanation.decisions.is_empty() {
        let rows: Vec<_> = explanation.decisions.iter().map(explanation::row).collect();
        text += &format!("\n\nLast decisions (UTC):\n{}", table(&rows));
    }
    text
}
