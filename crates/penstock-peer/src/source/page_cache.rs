//! Decoded pages at a source: the ones that a scan keeps, and the memory for those of one site.
//!
//! Lanes of one scan share the pages that they used last. The pages of all scans of one site share
//! a limit of memory ([`PageMemory`]). A page that finds no room first displaces idle ones, of its
//! own scan and then of others. If all are in use, its request waits until one of these ends. No
//! request needs two pages at a time, and one page always finds room where there is no other. So
//! the wait ends with the answers under way, at the latest when TCP drops a target that reads none.

use std::collections::VecDeque;
use std::mem::size_of;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::time::Duration;

use penstock_proto::manifest::{Entry, PAGE_ENTRIES_MAX, Page, page_digest};

use crate::stores::access::AccessError;

/// Number of decoded pages that the lanes of a transfer keep together.
const PAGES_KEPT: usize = 16;
/// Interval at which a request that waits for room looks for pages that are idle by then.
const LOOK: Duration = Duration::from_millis(100);

/// Name of a page in requests: its number, and the first bytes of its digest.
pub(crate) type PageName = (u32, [u8; 16]);

/// A decoded page, and its room.
pub(crate) struct KeptPage {
    page: Page,
    _room: Room,
}

impl Deref for KeptPage {
    type Target = Page;

    fn deref(&self) -> &Page {
        &self.page
    }
}

/// Pages by number and digest, most recently used first.
type Kept = VecDeque<(PageName, Arc<KeptPage>)>;

/// The decoded pages that lanes of a transfer used last. Memory follows the pages in use, not the
/// number of lanes.
#[derive(Default)]
pub(crate) struct PageCache {
    kept: Mutex<Kept>,
}

impl PageCache {
    /// Returns the page of this number and digest. If it is not kept, takes the page of `read` if
    /// its digest is the right one, in the form of `see`. Blocks during the read, and while there
    /// is no room in `memory`; other lanes that ask for a page of the scan wait for it.
    ///
    /// # Errors
    /// Those of `see`.
    pub(crate) fn get(
        self: &Arc<Self>,
        asked: PageName,
        memory: &PageMemory,
        read: impl FnOnce() -> Option<Vec<u8>>,
        see: impl FnOnce(Page) -> Result<Page, AccessError>,
    ) -> Result<Option<Arc<KeptPage>>, AccessError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().position(|(name, _)| *name == asked) {
            let Some(found) = kept.remove(at) else { return Ok(None) };
            let page = Arc::clone(&found.1);
            kept.push_front(found);
            return Ok(Some(page));
        }
        let encoded = read().filter(|encoded| page_digest(encoded).0.starts_with(&asked.1));
        let Some(encoded) = encoded else { return Ok(None) };
        let room = memory.enter(self, &mut kept, bytes_of(&encoded));
        let Ok(page) = Page::decode(&encoded) else { return Ok(None) };
        let page = Arc::new(KeptPage { page: see(page)?, _room: room });
        kept.push_front((asked, Arc::clone(&page)));
        kept.truncate(PAGES_KEPT);
        Ok(Some(page))
    }
}

/// Returns the most that a page takes when it is decoded: its text, and its entries.
fn bytes_of(encoded: &[u8]) -> usize {
    encoded.len() + PAGE_ENTRIES_MAX * size_of::<Entry>()
}

/// The memory for decoded pages that the lanes of one site share.
#[derive(Clone, Default)]
pub(crate) struct PageMemory(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    freed: Condvar,
}

struct State {
    used: usize,
    bytes_max: usize,
    caches: Vec<Weak<PageCache>>,
}

impl Default for Shared {
    fn default() -> Self {
        let state = State { used: 0, bytes_max: usize::MAX, caches: Vec::new() };
        Self { state: Mutex::new(state), freed: Condvar::new() }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room(&self, bytes: usize) -> bool {
        self.used == 0 || self.used.saturating_add(bytes) <= self.bytes_max
    }
}

impl PageMemory {
    /// Returns the bytes in use, and the limit; `usize::MAX` means no limit.
    pub(super) fn usage(&self) -> (usize, usize) {
        let state = self.0.lock();
        (state.used, state.bytes_max)
    }

    /// Sets the limit in bytes. Memory in use beyond it stays until its requests end.
    pub(super) fn set_bytes_max(&self, bytes_max: usize) {
        self.0.lock().bytes_max = bytes_max;
        self.0.freed.notify_all();
    }

    /// Takes room for a page of a scan, whose pages are `kept`. Blocks.
    fn enter(&self, cache: &Arc<PageCache>, kept: &mut Kept, bytes: usize) -> Room {
        loop {
            let mut state = self.0.lock();
            if state.has_room(bytes) {
                state.used += bytes;
                let this = Arc::downgrade(cache);
                state.caches.retain(|known| known.strong_count() > 0);
                if !state.caches.iter().any(|known| known.ptr_eq(&this)) {
                    state.caches.push(this);
                }
                return Room { memory: Arc::clone(&self.0), bytes };
            }
            drop(state);
            if kept.pop_back().is_some() || self.displace_other() {
                continue;
            }
            let state = self.0.lock();
            if !state.has_room(bytes) {
                // A page that was in use before may be idle in another scan's cache.
                let waited = self.0.freed.wait_timeout(state, LOOK);
                drop(waited.unwrap_or_else(PoisonError::into_inner));
            }
        }
    }

    /// Lets go of the page of another scan that was used the longest ago there. Returns whether
    /// there was one.
    fn displace_other(&self) -> bool {
        let caches: Vec<_> = self.0.lock().caches.iter().filter_map(Weak::upgrade).collect();
        caches.iter().any(|cache| {
            // A locked cache is at work, perhaps on this.
            let mut kept = match cache.kept.try_lock() {
                Ok(kept) => kept,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => return false,
            };
            kept.pop_back().is_some()
        })
    }
}

/// Room that a page takes, until it is dropped.
struct Room {
    memory: Arc<Shared>,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.memory.lock().used -= self.bytes;
        self.memory.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use penstock_proto::id::TransferId;
    use penstock_proto::manifest::{EntryDraft, PageBuilder};
    use penstock_proto::slicing::Slicing;

    use super::*;

    fn encoded(number: u32) -> Vec<u8> {
        let mut builder = PageBuilder::new(TransferId([1; 16]), number, Slicing::default());
        builder.push(b"", &EntryDraft { name: b"file", size: 1, ..EntryDraft::default() });
        builder.seal().encode()
    }

    fn name_of(number: u32) -> PageName {
        let mut digest = [0; 16];
        digest.copy_from_slice(&page_digest(&encoded(number)).0[..16]);
        (number, digest)
    }

    fn get(cache: &Arc<PageCache>, memory: &PageMemory, number: u32) -> Arc<KeptPage> {
        cache.get(name_of(number), memory, || Some(encoded(number)), Ok).unwrap().unwrap()
    }

    /// Promise (g): decoded pages of all scans of a site stay within its memory, and an idle page
    /// makes room for another. A request waits for pages in use and then gets its page.
    #[test]
    fn pages_of_a_site_share_a_limit() {
        let memory = PageMemory::default();
        let one = bytes_of(&encoded(0));
        memory.set_bytes_max(2 * one);
        let scans: Vec<Arc<PageCache>> = (0..3).map(|_| Arc::default()).collect();
        for number in 0..50 {
            let page = get(&scans[number as usize % 3], &memory, number);
            assert_eq!(page.number, number);
            assert!(memory.0.lock().used <= 2 * one);
        }
        let (first, second) = (get(&scans[0], &memory, 1), get(&scans[1], &memory, 2));
        let (send, received) = mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| send.send(get(&scans[2], &memory, 3).number).unwrap());
            assert!(received.recv_timeout(Duration::from_millis(300)).is_err(), "both are in use");
            drop(first);
            assert_eq!(received.recv_timeout(Duration::from_secs(20)), Ok(3));
        });
        assert_eq!(second.number, 2);
        memory.set_bytes_max(1);
        drop(second);
        assert_eq!(get(&scans[0], &memory, 4).number, 4, "one page always finds room");
    }
}
