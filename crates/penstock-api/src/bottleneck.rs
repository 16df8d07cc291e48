//! The part of a transfer that limits its rate.

use serde::{Deserialize, Serialize};

macro_rules! bottlenecks {
    ($($(#[$doc:meta])* $name:ident $text:literal,)+) => {
        /// The part of a transfer that limits its rate now.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        pub enum BottleneckCode {
            $($(#[$doc])* $name,)+
            /// Several peers are limited by different parts; the text names them.
            #[serde(other)]
            Several,
        }

        impl BottleneckCode {
            /// Each of them but the last.
            const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the words for it, as a peer reports them.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                    Self::Several => "several",
                }
            }
        }
    };
}

bottlenecks! {
    /// The scan of the source finds no more files.
    Scan "the scan",
    /// A limit that a user has set.
    Limit "the limit that was set",
    /// Source and target of one host.
    Storage "reading and writing",
    /// The network, or the source: the target waits for bytes.
    NetworkOrSource "the network or the source",
    /// The target: it checks and writes.
    Target "checking and writing at the target",
    /// The target: it makes durable what is written.
    Durability "making it durable at the target",
    /// The target: it reads again what it has written.
    Readback "reading again at the target",
    /// A peer that took part before, and may still write.
    FormerPeer "the grant of a peer that took part before",
}

/// The part of a transfer that limits its rate now, with the words for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
pub struct Bottleneck {
    /// The part, for programs.
    pub code: BottleneckCode,
    /// The part, for people.
    #[serde(deserialize_with = "crate::text::field")]
    pub text: String,
}

impl Bottleneck {
    /// Returns the bottleneck that a peer has reported in words; `None` for an empty text.
    pub fn of(text: &str) -> Option<Self> {
        let known = BottleneckCode::ALL.iter().find(|code| code.text() == text);
        let code = known.copied().unwrap_or(BottleneckCode::Several);
        (!text.is_empty()).then(|| Self { code, text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: what limits a transfer has a code of its own, and no two share words.
    #[test]
    fn each_bottleneck_has_a_code() {
        for code in BottleneckCode::ALL {
            assert_eq!(Bottleneck::of(code.text()).unwrap().code, *code);
        }
        let several = Bottleneck::of("h1: the scan; h2: the network or the source").unwrap();
        assert_eq!(several.code, BottleneckCode::Several);
        assert_eq!(Bottleneck::of(""), None);
        let json = serde_json::to_value(BottleneckCode::NetworkOrSource).unwrap();
        assert_eq!(json, "network-or-source");
    }
}
