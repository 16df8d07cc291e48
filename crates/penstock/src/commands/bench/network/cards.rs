//! The bytes that each network card of this site has carried while a transfer ran.
//!
//! They are those of the whole host, headers and other traffic included, as its kernel counts them.
//! A transfer that ends within a second has none.

use penstock_api::statistics::{SeriesColumn, TransferSeries};
use penstock_proto::id::Name;
use serde::Serialize;

/// Column of a card that has what it sent, and what it received.
pub(super) const OUT: &str = "card_out_bits_per_s";
pub(super) const IN: &str = "card_in_bits_per_s";

/// The bytes of a card.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Carried {
    pub(super) peer: Name,
    pub(super) card: String,
    pub(super) bytes: u64,
}

/// Returns the bytes of each card, sent or received, by peer and card.
pub(super) fn carried(series: &TransferSeries, is_outward: bool) -> Vec<Carried> {
    let wanted = if is_outward { OUT } else { IN };
    let mut all = Vec::new();
    for peer in &series.peers {
        let columns = peer.columns.iter().filter(|column| column.name == wanted);
        all.extend(columns.map(|column| Carried {
            peer: peer.peer.clone(),
            card: column.of.clone(),
            bytes: bytes_of(column, &peer.seconds),
        }));
    }
    all
}

fn bytes_of(column: &SeriesColumn, seconds: &[u64]) -> u64 {
    let points = column.mean.iter().zip(seconds);
    let bits: f64 = points.map(|(mean, seconds)| mean.unwrap_or(0.0) * *seconds as f64).sum();
    (bits / 8.0) as u64
}

/// Returns the share of each card in what all have carried, in words; `-` where none has.
pub(super) fn shares(runs: &[&[Carried]]) -> String {
    let mut sums: Vec<(String, u64)> = Vec::new();
    for one in runs.iter().flat_map(|run| run.iter()) {
        let name = format!("{}/{}", one.peer, one.card);
        match sums.iter_mut().find(|(known, _)| *known == name) {
            Some((_, bytes)) => *bytes += one.bytes,
            None => sums.push((name, one.bytes)),
        }
    }
    let total: u64 = sums.iter().map(|(_, bytes)| bytes).sum();
    if total == 0 {
        return "-".to_owned();
    }
    let share = |(name, bytes): &(String, u64)| {
        format!("{name} {:.0} %", *bytes as f64 / total as f64 * 100.0)
    };
    sums.iter().map(share).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Promise: the bytes of a card are those of its own direction, summed over time, and shares
    /// are of all cards.
    #[test]
    fn cards_are_counted_by_direction() {
        let column = |name: &str, of: &str, mean: [Option<f64>; 2]| -> serde_json::Value {
            json!({"name": name, "of": of, "min": mean, "mean": mean, "max": mean})
        };
        let series = json!({
            "transfer": "00".repeat(16),
            "silent": [],
            "peers": [{"peer": "h1", "at": [10, 11], "seconds": [1, 2], "columns": [
                column(OUT, "eth0", [Some(8000.0), Some(8000.0)]),
                column(OUT, "eth1", [None, Some(4000.0)]),
                column(IN, "eth0", [Some(80.0), None]),
            ]}],
        });
        let series: TransferSeries = serde_json::from_value(series).unwrap();
        let out = carried(&series, true);
        let bytes: Vec<u64> = out.iter().map(|card| card.bytes).collect();
        assert_eq!(bytes, [3000, 1000]);
        assert_eq!(carried(&series, false)[0].bytes, 10);
        assert_eq!(shares(&[&out, &out]), "h1/eth0 75 %, h1/eth1 25 %");
        assert_eq!(shares(&[&[]]), "-");
    }
}
