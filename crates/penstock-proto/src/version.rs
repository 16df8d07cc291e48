//! Versions of messages and records that a build knows, and the choice of a common one by two
//! builds.
//!
//! The records that a site writes for itself (in etcd, page logs, pages) have one *format*, a
//! number that is stored beside them. A peer that does not know the format can neither lead the
//! site nor take part in it. The format is raised only when every peer that takes part knows the
//! next one. Messages to other sites, and the cutting of pages, follow from the site's format, so
//! that any of its peers can continue the work of another. Only lanes are between two peers, which
//! choose the newest version that both speak.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::wire::{DecodeError, Reader, Writer};

/// Versions from the oldest to the newest, both included. In text `1` or `1-2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct VersionRange {
    /// The oldest.
    pub oldest: u16,
    /// The newest, not less than the oldest.
    pub newest: u16,
}

impl VersionRange {
    /// The range of the present release by default.
    pub const FIRST: Self = Self { oldest: 1, newest: 1 };

    /// Returns whether a version is in the range.
    pub fn contains(self, version: u16) -> bool {
        (self.oldest..=self.newest).contains(&version)
    }

    /// Returns the newest version in both.
    pub fn common(self, other: Self) -> Option<u16> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }

    pub(crate) fn encode(self, out: &mut Writer) {
        out.u16(self.oldest);
        out.u16(self.newest);
    }

    pub(crate) fn decode(input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let (oldest, newest) = (input.u16("oldest version")?, input.u16("newest version")?);
        (oldest <= newest)
            .then_some(Self { oldest, newest })
            .ok_or(DecodeError::Invalid("versions"))
    }
}

impl fmt::Display for VersionRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest == self.newest {
            true => write!(f, "{}", self.newest),
            false => write!(f, "{}-{}", self.oldest, self.newest),
        }
    }
}

/// Error: a text is no range of versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`N` or `N-M` is wanted, with M not less than N")]
pub struct RangeError;

impl FromStr for VersionRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, RangeError> {
        let (oldest, newest) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.parse::<u16>().map_err(|_| RangeError);
        let range = Self { oldest: number(oldest)?, newest: number(newest)? };
        (range.oldest <= range.newest).then_some(range).ok_or(RangeError)
    }
}

impl TryFrom<String> for VersionRange {
    type Error = RangeError;

    fn try_from(text: String) -> Result<Self, RangeError> {
        text.parse()
    }
}

impl From<VersionRange> for String {
    fn from(range: VersionRange) -> Self {
        range.to_string()
    }
}

/// Versions of a site's messages and pages while its records have one format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Its number.
    pub number: u16,
    /// Newest version of the site API that it speaks.
    pub site_api: u16,
    /// Newest way of cutting pages that it uses.
    pub slicer: u16,
}

/// Versions that a build knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Versions of the lane protocol.
    pub lane: VersionRange,
    /// All formats, ascending by one; formats that a release does not know any more are missing at
    /// the beginning.
    formats: &'static [Format],
}

/// The first version of the lane protocol in which a source sends the times of a lane.
pub const LANE_WITH_TIMES: u16 = 2;

static THIS: Known = Known {
    lane: VersionRange { oldest: 1, newest: LANE_WITH_TIMES },
    formats: &[Format { number: 1, site_api: 1, slicer: 1 }],
};

/// The next version, for tests of upgrades. It differs from this one in its numbers and in the
/// cutting of pages. No release has it.
#[cfg(debug_assertions)]
static NEXT: Known = Known {
    lane: VersionRange { oldest: 1, newest: 3 },
    formats: &[
        Format { number: 1, site_api: 1, slicer: 1 },
        Format { number: 2, site_api: 2, slicer: 2 },
    ],
};

#[cfg(debug_assertions)]
static IS_NEXT: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Returns the versions that this build knows.
pub fn known() -> &'static Known {
    #[cfg(debug_assertions)]
    if IS_NEXT.load(std::sync::atomic::Ordering::Relaxed) {
        return &NEXT;
    }
    &THIS
}

/// Turns this process into one of the next version, for tests of upgrades. Only builds with debug
/// assertions have it; to be called before anything else.
#[cfg(debug_assertions)]
pub fn become_next() {
    IS_NEXT.store(true, std::sync::atomic::Ordering::Relaxed);
}

impl Known {
    fn last(&self) -> Format {
        self.formats[self.formats.len() - 1]
    }

    /// Returns the range of all formats.
    pub fn formats(&self) -> VersionRange {
        VersionRange { oldest: self.formats[0].number, newest: self.last().number }
    }

    /// Returns a format; for an unknown number, the oldest one.
    pub fn format(&self, number: u16) -> Format {
        let found = self.formats.iter().find(|format| format.number == number);
        found.copied().unwrap_or(self.formats[0])
    }

    /// Returns the versions of the site API that a site with this format speaks.
    pub fn site_api(&self, format: u16) -> VersionRange {
        VersionRange { oldest: self.formats[0].site_api, newest: self.format(format).site_api }
    }

    /// Returns the newest cutting version of a build that speaks this version of the site API.
    pub fn slicer_of_site_api(&self, site_api: u16) -> u16 {
        let known = self.formats.iter().rev().find(|format| format.site_api <= site_api);
        known.unwrap_or(&self.formats[0]).slicer
    }

    /// Returns the cutting versions that pages may have: all that ever existed, since a ledger may
    /// name them (A10).
    pub fn slicers(&self) -> VersionRange {
        VersionRange { oldest: 1, newest: self.last().slicer }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise: two builds speak the newest version that both know, or find that there is no common
    /// one.
    #[test]
    fn the_newest_common_version_is_chosen() {
        let range = |text: &str| text.parse::<VersionRange>().unwrap();
        assert_eq!(range("1-3").common(range("2-5")), Some(3));
        assert_eq!(range("2").common(range("1-2")), Some(2));
        assert_eq!(range("1-2").common(range("3-4")), None);
        assert!(range("1-3").contains(3) && !range("1-3").contains(4));
    }

    /// Promise: a range in a header or card is read as it was written, and no other text is.
    #[test]
    fn ranges_are_read_as_they_are_written() {
        for text in ["1", "1-2", "7-65535"] {
            assert_eq!(text.parse::<VersionRange>().unwrap().to_string(), text);
        }
        for text in ["", "-", "2-1", "1-2-3", "a", "1-", "65536", " 1"] {
            assert_eq!(text.parse::<VersionRange>(), Err(RangeError), "{text}");
        }
    }

    /// Each format says no less than the one before it; the next version knows all of this one.
    #[test]
    fn later_formats_know_what_earlier_ones_did() {
        for known in [&THIS, &NEXT] {
            for pair in known.formats.windows(2) {
                assert_eq!(pair[1].number, pair[0].number + 1);
                assert!(pair[1].site_api >= pair[0].site_api && pair[1].slicer >= pair[0].slicer);
            }
            let newest = known.last();
            assert_eq!(known.site_api(newest.number).newest, newest.site_api);
            assert_eq!(known.slicer_of_site_api(newest.site_api), newest.slicer);
        }
        assert_eq!(NEXT.formats[..THIS.formats.len()], *THIS.formats);
        assert_eq!(NEXT.slicer_of_site_api(1), 1);
    }
}
