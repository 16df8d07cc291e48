//! Exit statuses of commands.

use serde::{Deserialize, Serialize};

/// Exit status of a command. The numbers are part of the interface (README, *Watch and steer*).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Exit {
    /// 0: every planned item is verified.
    Done,
    /// 1: unclassified.
    Unclassified,
    /// 2: the command line or configuration is wrong.
    Usage,
    /// 3: some items failed; a list of them was written.
    SomeFailed,
    /// 4: a source is missing, changed or vanished.
    SourceChanged,
    /// 5: temporary, a retry may help.
    Temporary,
    /// 6: refused by a safety guard.
    Refused,
    /// 7: fatal, a retry will not help.
    Fatal,
    /// 8: integrity failure.
    Integrity,
    /// 12: not authorised.
    NotAuthorised,
    /// 130: interrupted.
    Interrupted,
}

impl Exit {
    /// Returns the process exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Unclassified => 1,
            Self::Usage => 2,
            Self::SomeFailed => 3,
            Self::SourceChanged => 4,
            Self::Temporary => 5,
            Self::Refused => 6,
            Self::Fatal => 7,
            Self::Integrity => 8,
            Self::NotAuthorised => 12,
            Self::Interrupted => 130,
        }
    }

    /// Returns the HTTP status of a problem of which nothing but this is known.
    pub(super) fn http_status(self) -> u16 {
        match self {
            Self::Usage => 400,
            Self::NotAuthorised => 403,
            Self::Refused
            | Self::SomeFailed
            | Self::SourceChanged
            | Self::Integrity
            | Self::Interrupted => 409,
            Self::Temporary => 503,
            Self::Done | Self::Unclassified | Self::Fatal => 500,
        }
    }
}
