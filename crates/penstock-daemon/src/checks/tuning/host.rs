//! The host that is judged: its settings, and its parts that carry data.

use penstock_api::operate::{Finding, Level};
use penstock_sys::{CardTuning, HostTuning};

use crate::checks::measured::Measured;

/// From this speed on the page on 100 Gbit/s advises more than for all hosts, in Mbit/s
/// (<https://fasterdata.es.net/host-tuning/linux/100g-tuning/>: "40G/100G").
pub(super) const FAST_MBIT: u64 = 40_000;
/// Lanes that a path over distance begins with (docs/design/0017).
pub(super) const LANES: u64 = 8;

/// A host as it is judged.
pub(crate) struct Host<'a> {
    /// Its settings.
    pub(crate) tuning: &'a HostTuning,
    /// Interfaces for data; empty if data goes by the routes, over any card.
    pub(crate) devices: &'a [String],
    /// Processors that the process may use.
    pub(crate) cpus: &'a [usize],
    /// Figures of paths.
    pub(crate) measured: &'a [Measured],
}

impl Host<'_> {
    /// Returns the cards that carry data: those of the networks for data, else all with a carrier.
    pub(super) fn cards(&self) -> Vec<&CardTuning> {
        let cards = self.tuning.cards.iter();
        cards
            .filter(|card| match self.devices.is_empty() {
                true => card.running,
                false => self.devices.contains(&card.device),
            })
            .collect()
    }

    /// Returns the speed of the fastest of these cards, in Mbit/s; 0 if none is known.
    pub(super) fn speed_mbit(&self) -> u64 {
        self.cards().iter().filter_map(|card| card.speed_mbit).max().unwrap_or(0)
    }

    pub(super) fn setting(&self, name: &str) -> Option<&str> {
        self.tuning.settings.get(name).map(String::as_str)
    }

    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.setting(name)?.parse().ok()
    }

    /// Returns whether flows of this host are paced by a model of the path.
    pub(super) fn uses_bbr(&self) -> bool {
        self.setting("net.ipv4.tcp_congestion_control").is_some_and(|name| name.starts_with("bbr"))
    }
}

/// Returns a note about a setting that may be worth a change.
pub(super) fn note(
    code: &str,
    what: impl Into<String>,
    gain: impl Into<String>,
    action: impl Into<String>,
) -> Finding {
    Finding::new(Level::Note, code, what, gain, action)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: cards of the networks for data are judged, and without such networks those with a
    /// carrier.
    #[test]
    fn cards_for_data_are_judged() {
        let card = |device: &str, running, speed_mbit| CardTuning {
            device: device.to_owned(),
            running,
            speed_mbit: Some(speed_mbit),
            ..CardTuning::default()
        };
        let cards =
            vec![card("eth0", true, 1000), card("eth1", true, 100_000), card("eth2", false, 1)];
        let tuning = HostTuning { cards, ..HostTuning::default() };
        let speed = |devices: &[String]| {
            let host = Host { tuning: &tuning, devices, cpus: &[], measured: &[] };
            (host.cards().len(), host.speed_mbit())
        };
        assert_eq!(speed(&[]), (2, 100_000));
        assert_eq!(speed(&["eth0".to_owned(), "eth2".to_owned()]), (2, 1000));
        assert_eq!(speed(&["bond0".to_owned()]), (0, 0));
    }
}
