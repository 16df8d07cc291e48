//! The values of one scrape, until they are encoded.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};

use super::table::{Family, Kind, SERIES_LEFT_OUT};

/// Series of one family that are shown; further ones are counted.
const SERIES_MAX: usize = 1000;
/// Whole numbers below this are exact in a float.
const EXACT: f64 = (1_u64 << 53) as f64;

/// Samples by family and labels. Values of equal labels are added.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    families: BTreeMap<&'static str, Series>,
    left_out: u64,
}

#[derive(Debug)]
struct Series {
    family: &'static Family,
    values: BTreeMap<Vec<String>, f64>,
}

impl Samples {
    /// Adds a value, with one text for each label of the family.
    pub(crate) fn add(&mut self, family: &'static Family, labels: &[&str], value: f64) {
        debug_assert_eq!(labels.len(), family.labels.len(), "labels of {}", family.name);
        let new = || Series { family, values: BTreeMap::new() };
        let series = self.families.entry(family.name).or_insert_with(new);
        let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
        if series.values.len() >= SERIES_MAX && !series.values.contains_key(&labels) {
            self.left_out += 1;
            return;
        }
        *series.values.entry(labels).or_default() += value;
    }

    /// Adds a whole number.
    pub(crate) fn count(&mut self, family: &'static Family, labels: &[&str], value: u64) {
        self.add(family, labels, value as f64);
    }

    /// Adds whether something is so.
    pub(crate) fn flag(&mut self, family: &'static Family, labels: &[&str], value: bool) {
        self.count(family, labels, value.into());
    }

    /// Adds all samples of another part.
    pub(super) fn merge(&mut self, other: Self) {
        self.left_out += other.left_out;
        for (_, series) in other.families {
            for (labels, value) in series.values {
                let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
                self.add(series.family, &labels, value);
            }
        }
    }

    /// Adds the number of series that are not shown. Call it last.
    pub(super) fn finish(&mut self) {
        self.count(&SERIES_LEFT_OUT, &[], self.left_out);
    }
}

impl Collector for Samples {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Series { family, values } in self.families.values() {
            let (name, unit) = family.parts();
            let kind = family.kind.metric_type();
            let mut encoder = encoder.encode_descriptor(name, family.help, unit, kind)?;
            for (labels, value) in values {
                let labels: Vec<_> =
                    family.labels.iter().copied().zip(labels.iter().map(String::as_str)).collect();
                match labels.is_empty() {
                    true => encode_value(&mut encoder, family.kind, *value)?,
                    false => {
                        encode_value(&mut encoder.encode_family(&labels)?, family.kind, *value)?
                    }
                }
            }
        }
        Ok(())
    }
}

fn encode_value(encoder: &mut MetricEncoder<'_>, kind: Kind, value: f64) -> fmt::Result {
    let is_whole = value.fract() == 0.0 && value.abs() < EXACT;
    match (kind, is_whole) {
        (Kind::Counter, true) => {
            encoder.encode_counter::<NoLabelSet, _, u64>(&(value as u64), None)
        }
        (Kind::Counter, false) => encoder.encode_counter::<NoLabelSet, _, u64>(&value, None),
        (_, true) => encoder.encode_gauge(&(value as i64)),
        (_, false) => encoder.encode_gauge(&value),
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::prometheus_text;
    use prometheus_client::registry::Registry;

    use super::*;
    use crate::metrics::table::{BYTES, CPU, LANES, TRANSFER_FILES};

    fn text(samples: Samples) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(samples));
        let mut text = String::new();
        prometheus_text::encode(&mut text, &registry).unwrap();
        text
    }

    /// Promise: each family has its help and type once, before its series; equal labels are one
    /// series; and the text of a label cannot end it.
    #[test]
    fn samples_become_series() {
        let mut samples = Samples::default();
        samples.count(&BYTES, &["in", "a\"b"], 1);
        samples.count(&BYTES, &["in", "a\"b"], 2);
        samples.add(&CPU, &[], 0.5);
        let mut other = Samples::default();
        other.count(&LANES, &["out", "hpc", ""], 3);
        samples.merge(other);
        let text = text(samples);
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with("# HELP")).collect();
        assert_eq!(
            lines,
            [
                "# TYPE penstock_bytes_total counter",
                r#"penstock_bytes_total{direction="in",site="a\"b"} 3"#,
                "# TYPE penstock_lanes gauge",
                r#"penstock_lanes{direction="out",site="hpc",network=""} 3"#,
                "# TYPE process_cpu_seconds_total counter",
                "process_cpu_seconds_total 0.5",
            ]
        );
        assert_eq!(text.lines().filter(|line| line.starts_with("# HELP")).count(), 3);
    }

    /// Promise: the number of series of a family is bounded, and omitted ones are counted.
    #[test]
    fn series_are_bounded() {
        let mut samples = Samples::default();
        for number in 0..SERIES_MAX + 3 {
            samples.count(&TRANSFER_FILES, &[&number.to_string(), "lab"], 1);
        }
        samples.finish();
        let text = text(samples);
        assert!(text.contains("penstock_series_left_out 3\n"), "{text}");
        let shown = text.lines().filter(|line| line.starts_with("penstock_transfer_files{"));
        assert_eq!(shown.count(), SERIES_MAX);
    }
}
