//! A look at a data set and at its target, for plans.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use penstock_api::delete::SurplusQuery;
use penstock_api::heads::LedgerHead;
use penstock_api::plan::PlanItem;
use penstock_api::problem::{Problem, ProblemCode};
use penstock_api::scan::{PageReply, ScanSummary};
use penstock_api::task::{TaskPage, TaskSpec};
use penstock_api::update::IfExists;
use penstock_proto::compared::EntrySet;
use penstock_proto::manifest::{EntryKind, Page, page_digest};

use crate::runner::input::RunInput;
use crate::runner::journal::{Journal, Scratch};
use crate::runner::pages::found::{Found, checked_page};
use crate::runner::phases::deletion_guards::check_scan;

/// The longest time that one request for a page may wait at the source, in milliseconds.
const WAIT_MS: u32 = 1_000;

/// Looks at a data set and at its target, and touches neither.
pub(super) struct Looker<'a> {
    pub(super) input: &'a mut RunInput,
    pub(super) spec: TaskSpec,
    pub(super) journal: Journal,
    /// Entries with something under their name at the target.
    pub(super) existed: u64,
    found: Found,
}

impl<'a> Looker<'a> {
    /// Begins; `store` is the id of the target's store, if it has one.
    pub(super) fn new(input: &'a mut RunInput, store: Option<u64>) -> Result<Self, Problem> {
        let head = LedgerHead { store: store.unwrap_or(0), ..LedgerHead::default() };
        let spec = input.task_spec(&head);
        let journal = Journal::open(&input.journal, input.fence.epoch(), &[])?;
        Ok(Self { input, spec, journal, existed: 0, found: Found::default() })
    }

    /// Looks at all that is at the source; `None` if it was asked to stop.
    pub(super) fn entries(
        &mut self,
        visit: &mut dyn FnMut(PlanItem) -> Result<(), Problem>,
    ) -> Result<Option<ScanSummary>, Problem> {
        let mut number = 0;
        loop {
            if self.input.control.is_asked_to_stop() {
                return Ok(None);
            }
            let encoded = match self.input.pages.page(number, WAIT_MS)? {
                PageReply::NotYet => continue,
                PageReply::End(scan) => return Ok(Some(scan)),
                PageReply::Page(encoded) => encoded,
            };
            let page = checked_page(self.input.id, number, &encoded)?;
            self.journal.write_page(number, &encoded)?;
            for item in self.input.peer().look(&self.spec, &page)? {
                let replaces = self.spec.update.if_exists == IfExists::Replace;
                let stands = item.there.is_some() && !(replaces && item.is_blocked());
                self.existed += u64::from(stands);
                visit(item)?;
            }
            self.found.add(&page);
            let found = self.found;
            self.input.control.update(|view| {
                view.progress.entries_found = found.entries;
                view.progress.files_found = found.files;
                view.progress.bytes_found = found.bytes;
                "looking at source and target".clone_into(&mut view.reason);
            });
            number += 1;
        }
    }

    fn page(&self, number: u32) -> Result<TaskPage, Problem> {
        let gone = || {
            let title = format!("page {number} is not in the journal store");
            Problem::new(ProblemCode::JournalDamaged, title)
        };
        let encoded = self.journal.read_page(number)?.ok_or_else(gone)?;
        let page = Page::decode(&encoded).map_err(|cause| gone().because(cause))?;
        let left = Arc::new(EntrySet::default());
        Ok(TaskPage { page: Arc::new(page), digest: page_digest(&encoded), left })
    }

    /// Finds entries at the target that are not in the data set, once [`Self::entries`] has ended.
    ///
    /// # Errors
    /// Code `delete-refused`: nothing may be deleted. The target cannot be listed.
    pub(super) fn surplus(
        &self,
        scan: &ScanSummary,
        choose: &mut dyn FnMut(PlanItem) -> Result<bool, Problem>,
    ) -> Result<(), Problem> {
        let directory = || {
            let first = self.page(0)?;
            let root = first.page.entries().first();
            Ok(root.is_none_or(|root| root.kind == EntryKind::Directory))
        };
        if !check_scan(scan, directory)? {
            return Ok(());
        }
        let scratch = Scratch::new(self.journal.directory(), self.spec.fence.epoch())?;
        let mut pages = (0..scan.pages).map(|number| self.page(number));
        let query = SurplusQuery {
            pages: &mut pages,
            entries: scan.entries,
            scratch: scratch.path(),
            choose,
            list: &scratch.path().join("list"),
            stop: &AtomicBool::new(false),
        };
        self.input.peer().find_surplus(&self.spec, query).map(drop)
    }
}
