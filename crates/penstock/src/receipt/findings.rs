//! The findings of a check of a receipt.

use penstock_proto::text;

use penstock_exit::{self as exit, Failure};

/// Prints the finding of each check, and counts those that are not good.
pub(super) struct Findings {
    pub(super) wrong: u64,
    pub(super) unknown: u64,
}

impl Findings {
    pub(super) fn good(&self, what: &str) -> Result<(), Failure> {
        exit::print(&format!("ok      {}", text::line(what)))
    }

    pub(super) fn note(&self, what: &str) -> Result<(), Failure> {
        exit::print(&format!("note    {}", text::line(what)))
    }

    pub(super) fn unknown(&mut self, what: &str) -> Result<(), Failure> {
        self.unknown += 1;
        exit::print(&format!("UNKNOWN {}", text::line(what)))
    }

    pub(super) fn wrong(&mut self, what: &str) -> Result<(), Failure> {
        self.wrong += 1;
        exit::print(&format!("WRONG   {}", text::line(what)))
    }
}
