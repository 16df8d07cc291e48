//! Series as a table for spreadsheets (RFC 4180): a line for each peer and point.

use std::collections::BTreeSet;

use penstock_api::statistics::{PeerSeries, SeriesColumn};
use penstock_api::timestamp::Timestamp;

/// Returns the table. Columns that one peer alone has are empty in the lines of others.
pub(crate) fn table(peers: &[PeerSeries]) -> String {
    let names: BTreeSet<(&str, &str)> = peers
        .iter()
        .flat_map(|peer| &peer.columns)
        .map(|column| (column.name.as_str(), column.of.as_str()))
        .collect();
    let mut text = "peer,at,seconds".to_owned();
    for (name, of) in &names {
        let of = if of.is_empty() { String::new() } else { format!("[{of}]") };
        for value in ["min", "mean", "max"] {
            text.push(',');
            text.push_str(&field(&format!("{name}{of}_{value}")));
        }
    }
    text.push_str("\r\n");
    for peer in peers {
        let find = |(name, of): &(&str, &str)| {
            peer.columns.iter().find(|column| column.name == *name && column.of == *of)
        };
        let columns: Vec<Option<&SeriesColumn>> = names.iter().map(find).collect();
        for (row, (at, seconds)) in peer.at.iter().zip(&peer.seconds).enumerate() {
            let at = Timestamp::of_seconds(*at);
            text.push_str(&format!("{},{at},{seconds}", field(peer.peer.as_str())));
            for column in &columns {
                let lists = column.map(|column| [&column.min, &column.mean, &column.max]);
                for list in lists.map_or([None; 3], |lists| lists.map(Some)) {
                    let value = list.and_then(|list| list.get(row).copied().flatten());
                    text.push(',');
                    text.push_str(&value.map_or_else(String::new, |value| value.to_string()));
                }
            }
            text.push_str("\r\n");
        }
    }
    text
}

/// Returns a field; in quotes if it needs them.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: a table has a line for each peer and point, with empty fields for unknown values.
    #[test]
    fn series_become_a_table() {
        let column = |name: &str, of: &str, values: Vec<Option<f64>>| SeriesColumn {
            name: name.to_owned(),
            of: of.to_owned(),
            min: values.clone(),
            mean: values.clone(),
            max: values,
        };
        let peers = [
            PeerSeries {
                peer: "h1".parse().unwrap(),
                at: vec![0, 1],
                seconds: vec![1, 1],
                columns: vec![column("lanes", "", vec![Some(2.0), None])],
            },
            PeerSeries {
                peer: "h2".parse().unwrap(),
                at: vec![10],
                seconds: vec![10],
                columns: vec![column("card_in", "a,b", vec![Some(0.5)])],
            },
        ];
        let table = table(&peers);
        let lines: Vec<&str> = table.split("\r\n").collect();
        let card = r#""card_in[a,b]_min","card_in[a,b]_mean","card_in[a,b]_max""#;
        let head = format!("peer,at,seconds,{card},lanes_min,lanes_mean,lanes_max");
        let wanted = [
            head.as_str(),
            "h1,1970-01-01T00:00:00.000Z,1,,,,2,2,2",
            "h1,1970-01-01T00:00:01.000Z,1,,,,,,",
            "h2,1970-01-01T00:00:10.000Z,10,0.5,0.5,0.5,,,",
            "",
        ];
        assert_eq!(lines, wanted);
    }
}
