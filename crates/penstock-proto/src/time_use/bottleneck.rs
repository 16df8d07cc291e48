//! The causes that limit the rate of a transfer.

use serde::{Deserialize, Serialize};

/// A side of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// The site, or host, that is read.
    Source,
    /// The site, or host, that is written.
    Target,
}

macro_rules! bottlenecks {
    ($($(#[$doc:meta])* $name:ident $text:literal,)+) => {
        /// The cause that limits the rate of a transfer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
        #[serde(rename_all = "kebab-case")]
        pub enum BottleneckCode {
            $($(#[$doc])* $name,)+
            /// Several peers are limited by different causes; the text names them.
            #[serde(other)]
            Several,
        }

        impl BottleneckCode {
            /// Each of them but the last.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Returns the words for it, without the side.
            fn words(self) -> &'static str {
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
    /// Files at the target are compared with those of the source before anything is fetched.
    Compare "comparing what is in the files with the source",
    /// The controller grants no more work.
    Grant "the grant of the controller",
    /// A limit that a user has set.
    Limit "the limit that was set",
    /// The storage of the source: it is read.
    Read "reading",
    /// The storage of the target: it is written.
    Write "writing",
    /// Opening, making and naming files, of which there are many for their bytes.
    Metadata "opening and naming files",
    /// The processors: they hash, encrypt and copy.
    Cpu "the processors",
    /// The network.
    Link "the network",
    /// The network, or the source, which reports no times: it is of an earlier release.
    NetworkOrSource "the network or the source",
    /// The target: it makes durable what is written.
    Durability "making it durable",
    /// The target: it reads again what it has written.
    Readback "reading again",
    /// A peer that took part before, and may still write.
    FormerPeer "the grant of a peer that took part before",
}

impl BottleneckCode {
    /// Returns the words for it at a side: `reading at the source`.
    pub fn text(self, at: Option<Side>) -> String {
        match at {
            None => self.words().to_owned(),
            Some(Side::Source) => format!("{} at the source", self.words()),
            Some(Side::Target) => format!("{} at the target", self.words()),
        }
    }

    /// Returns the cause and the side of words that [`BottleneckCode::text`] has made, in this or
    /// an earlier release; `None` for others.
    pub fn of_text(text: &str) -> Option<(Self, Option<Side>)> {
        if ["checking and writing at the target", "reading and writing"].contains(&text) {
            return Some((Self::Write, Some(Side::Target)));
        }
        let sides = [None, Some(Side::Source), Some(Side::Target)];
        let all = Self::ALL.iter().flat_map(|&code| sides.map(|at| (code, at)));
        all.into_iter().find(|(code, at)| code.text(*at) == text)
    }
}
