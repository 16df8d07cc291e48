//! The cause that limits the rate of a transfer.

use serde::{Deserialize, Serialize};

pub use penstock_proto::time_use::bottleneck::{BottleneckCode, Side};

/// The cause that limits the rate of a transfer, with the words for it. Of a transfer that has
/// ended: the cause that limited it as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Bottleneck {
    /// The cause, for programs.
    pub code: BottleneckCode,
    /// The side of it; absent where it is between both, or of neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Side>,
    /// The part of the time of lanes that the cause takes, from 0 to 1. Of `cpu`: the part of the
    /// side's processors that is in use or waited for. Absent where it was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// The peer of that side of whose time the cause takes a clearly greater part than of that of
    /// all others; absent where none stands out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "crate::text::optional_field")]
    pub peer: Option<String>,
    /// The cause, for people, as it follows "limited by".
    #[serde(deserialize_with = "crate::text::field")]
    pub text: String,
}

impl Bottleneck {
    /// Returns a cause that was measured.
    pub fn measured(code: BottleneckCode, at: Option<Side>, share: f64) -> Self {
        let share = share.clamp(0.0, 1.0);
        let of = if code == BottleneckCode::Cpu { "busy" } else { "of the time" };
        let text = format!("{}, {:.0} % {of}", code.text(at), share * 100.0);
        Self { code, at, share: Some(share), peer: None, text }
    }

    /// Returns the cause with the peer that stands out.
    #[must_use]
    pub fn most_of_all_at(mut self, peer: &str) -> Self {
        self.text.push_str(&format!("; most of all at peer {peer}"));
        self.peer = Some(peer.to_owned());
        self
    }

    /// Returns a cause that is known without a measurement.
    pub fn known(code: BottleneckCode, at: Option<Side>) -> Self {
        Self { code, at, share: None, peer: None, text: code.text(at) }
    }

    /// Returns the cause that a peer has reported in words alone; `None` for an empty text.
    pub fn of(text: &str) -> Option<Self> {
        let (code, at) = BottleneckCode::of_text(text).unwrap_or((BottleneckCode::Several, None));
        (!text.is_empty()).then(|| Self {
            code,
            at,
            share: None,
            peer: None,
            text: text.to_owned(),
        })
    }

    /// Returns the words without the share.
    pub fn words(&self) -> String {
        match self.code {
            BottleneckCode::Several => self.text.clone(),
            code => code.text(self.at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: what limits a transfer has a code and a side, and no two share words: those of an
    /// earlier release lead to them.
    #[test]
    fn each_bottleneck_has_words() {
        let sides = [None, Some(Side::Source), Some(Side::Target)];
        for (code, at) in BottleneckCode::ALL.iter().flat_map(|code| sides.map(|at| (*code, at))) {
            let known = Bottleneck::known(code, at);
            assert_eq!(Bottleneck::of(&known.words()), Some(known));
        }
        let earlier = Bottleneck::of("checking and writing at the target").unwrap();
        assert_eq!((earlier.code, earlier.at), (BottleneckCode::Write, Some(Side::Target)));
        assert_eq!(earlier.text, "checking and writing at the target");
        let several = Bottleneck::of("h1: the scan; h2: the network or the source").unwrap();
        assert_eq!(several.code, BottleneckCode::Several);
        assert_eq!(several.words(), several.text);
        assert_eq!(Bottleneck::of(""), None);
        let json = serde_json::to_value(BottleneckCode::NetworkOrSource).unwrap();
        assert_eq!(json, "network-or-source");
    }

    /// Promise: the words tell the share, and of what it is one.
    #[test]
    fn the_words_tell_the_share() {
        let read = Bottleneck::measured(BottleneckCode::Read, Some(Side::Source), 0.812);
        assert_eq!(read.text, "reading at the source, 81 % of the time");
        assert_eq!(read.words(), "reading at the source");
        let cpu = Bottleneck::measured(BottleneckCode::Cpu, Some(Side::Target), 1.2);
        assert_eq!(cpu.text, "the processors at the target, 100 % busy");
        let slow = read.clone().most_of_all_at("h2");
        assert_eq!(slow.text, "reading at the source, 81 % of the time; most of all at peer h2");
        assert_eq!((slow.words(), slow.peer.as_deref()), (read.words(), Some("h2")));
        let json = serde_json::to_value(&read).unwrap();
        assert_eq!((&json["code"], &json["at"]), (&"read".into(), &"source".into()));
        assert_eq!(serde_json::from_value::<Bottleneck>(json).unwrap(), read);
    }
}
