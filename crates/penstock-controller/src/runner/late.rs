//! Files that a peer which was given up may have written to after they were finished (B1).

use std::collections::BTreeMap;

use penstock_api::problem::Problem;

use super::Run;

impl Run {
    /// Has their attributes looked at again, and set where a late write has moved them. All tasks
    /// are over by now, but those of peers that are silent.
    pub(super) fn mend_late(&mut self) -> Result<(), Problem> {
        let mut pages: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (_, page, entry) in self.shared.machine().late_files() {
            pages.entry(page).or_default().push(entry);
        }
        for (number, mut entries) in pages {
            entries.sort_unstable();
            entries.dedup();
            let page = self.shared.read_page(number)?;
            let mended = self.peer.mend(&self.spec, &page.page, &entries.into_iter().collect())?;
            if mended > 0 {
                tracing::warn!(
                    transfer = %self.id, page = number, files = mended,
                    "a peer that was given up had written late: attributes were set again"
                );
            }
        }
        Ok(())
    }
}
