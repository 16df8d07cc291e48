//! Hot, page-aligned buffers that return themselves.
//!
//! A pool hands out buffers of one size, the last returned first. A worker that takes, fills and
//! drops a buffer so gets the same memory again while it is still in the core's cache. Memory is
//! allocated only when every returned buffer is out: it grows with the number of busy workers, not
//! with the number of lanes or files. The memory comes from the kernel and not from the heap, which
//! would write zeros to all of an aligned allocation. The unused part of a buffer therefore costs
//! nothing.
//!
//! A pool is cheap to keep per worker; one shared by many workers costs an uncontended lock for
//! each buffer, never for each byte.

use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Alignment of every buffer in bytes, as direct I/O and page flipping require.
pub const BUFFER_ALIGNMENT_BYTES: usize = 4096;

/// Hands out buffers of one size, at most so many at once. Clones share the same buffers.
#[derive(Clone)]
pub struct BufferPool {
    shared: Arc<Shared>,
}

struct Shared {
    layout: Layout,
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    buffers_max: usize,
    free: Vec<Memory>,
    in_use: usize,
    in_use_max: usize,
    /// Buffers of slow holders.
    slow: usize,
    /// Buffers of new holders.
    new: usize,
    /// Number of takers that wait: a wake-up without any would still cost a system call for each
    /// returned buffer.
    waiting: usize,
    /// Waiting takers that are not quick holders.
    held_back: usize,
}

impl State {
    /// Returns whether a taker gets a buffer now.
    fn has_for(&self, holder: Holder) -> bool {
        let but = |part: usize| (self.buffers_max - self.buffers_max.div_ceil(part)).max(1);
        let fits = match holder {
            Holder::Quick => true,
            Holder::New => self.slow + self.new < but(16),
            Holder::Slow => self.slow < but(8) && self.slow + self.new < but(16),
        };
        self.in_use < self.buffers_max && fits
    }

    fn count_held(&mut self, holder: Holder, held: bool) {
        let step = |count: &mut usize| if held { *count += 1 } else { *count -= 1 };
        step(&mut self.in_use);
        match holder {
            Holder::Quick => {}
            Holder::New => step(&mut self.new),
            Holder::Slow => step(&mut self.slow),
        }
    }

    fn count_waiting(&mut self, holder: Holder, waits: bool) {
        let step = |count: &mut usize| if waits { *count += 1 } else { *count -= 1 };
        step(&mut self.waiting);
        if holder != Holder::Quick {
            step(&mut self.held_back);
        }
    }
}

/// The time for which a taker keeps a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The time that a processor or a disk needs for the buffer.
    Quick,
    /// Longer, as for a receiver that takes in little. Slow holders leave an eighth of the buffers
    /// to the others.
    Slow,
    /// Not known yet. New and slow holders together leave a sixteenth of the buffers to the quick
    /// ones, so that any number of them never stops those.
    New,
}

impl BufferPool {
    /// Makes a pool of buffers of `buffer_bytes` (rounded up to whole pages), at most `buffers_max`
    /// of them. No memory is allocated yet.
    ///
    /// # Panics
    /// If `buffer_bytes` or `buffers_max` is zero: such a pool could never serve a taker.
    pub fn new(buffer_bytes: usize, buffers_max: usize) -> Self {
        assert!(buffer_bytes > 0 && buffers_max > 0, "a pool holds at least one byte");
        let layout = Layout::from_size_align(buffer_bytes, BUFFER_ALIGNMENT_BYTES)
            .map(|layout| layout.pad_to_align());
        let Ok(layout) = layout else { panic!("{buffer_bytes} bytes are no buffer size") };
        let state = State {
            buffers_max,
            free: Vec::new(),
            in_use: 0,
            in_use_max: 0,
            slow: 0,
            new: 0,
            waiting: 0,
            held_back: 0,
        };
        let shared = Shared { layout, state: Mutex::new(state), returned: Condvar::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the size of each buffer in bytes.
    pub fn buffer_bytes(&self) -> usize {
        self.shared.layout.size()
    }

    /// Acquires a buffer; blocks while all of them are out. The buffer still has its earlier bytes.
    ///
    /// The wait ends when any holder drops its buffer; a caller that cannot be sure of that uses
    /// [`BufferPool::take_within`].
    pub fn take(&self) -> Buffer {
        self.take_for(Holder::Quick)
    }

    /// Acquires a buffer, as [`BufferPool::take`], for a holder that may be slow.
    pub fn take_for(&self, holder: Holder) -> Buffer {
        let mut state = self.shared.lock();
        while !state.has_for(holder) {
            state.count_waiting(holder, true);
            state = self.shared.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.count_waiting(holder, false);
        }
        self.hand_out(state, holder)
    }

    /// Takes a buffer, waiting at most `patience`; `None` if all of them stayed out.
    pub fn take_within(&self, patience: Duration) -> Option<Buffer> {
        let deadline = Instant::now() + patience;
        let mut state = self.shared.lock();
        while !state.has_for(Holder::Quick) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            state.waiting += 1;
            let waited = self.shared.returned.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        Some(self.hand_out(state, Holder::Quick))
    }

    /// Takes a buffer if one may be had at once; never blocks.
    pub fn try_take(&self) -> Option<Buffer> {
        let state = self.shared.lock();
        state.has_for(Holder::Quick).then(|| self.hand_out(state, Holder::Quick))
    }

    /// Sets another limit. If more buffers are out, they stay with their holders, and takers wait
    /// until enough of them are dropped. Frees idle buffers beyond the limit.
    ///
    /// # Panics
    /// If `buffers_max` is zero.
    pub fn set_buffers_max(&self, buffers_max: usize) {
        assert!(buffers_max > 0, "a pool holds at least one buffer");
        let mut state = self.shared.lock();
        state.buffers_max = buffers_max;
        let keep = buffers_max.saturating_sub(state.in_use).min(state.free.len());
        let idle = state.free.split_off(keep);
        drop(state);
        drop(idle);
        self.shared.returned.notify_all();
    }

    /// Frees all buffers without a holder.
    pub fn trim(&self) {
        let idle = std::mem::take(&mut self.shared.lock().free);
        drop(idle);
    }

    /// Returns how much the pool holds and has held, for metrics.
    pub fn usage(&self) -> BufferUsage {
        let state = self.shared.lock();
        BufferUsage {
            in_use: state.in_use,
            idle: state.free.len(),
            in_use_max: state.in_use_max,
            buffers_max: state.buffers_max,
        }
    }

    fn hand_out(&self, mut state: MutexGuard<'_, State>, holder: Holder) -> Buffer {
        state.count_held(holder, true);
        state.in_use_max = state.in_use_max.max(state.in_use);
        let reused = state.free.pop();
        drop(state);
        let memory = reused.unwrap_or_else(|| Memory::allocate(self.shared.layout));
        Buffer { memory: Some(memory), holder, shared: Arc::clone(&self.shared) }
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool")
            .field("buffer_bytes", &self.buffer_bytes())
            .field("usage", &self.usage())
            .finish()
    }
}

/// Counts of buffers of one pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferUsage {
    /// Buffers with a holder now.
    pub in_use: usize,
    /// Allocated, and waiting for the next taker.
    pub idle: usize,
    /// Most that were ever held at once.
    pub in_use_max: usize,
    /// The limit; at it, takers wait.
    pub buffers_max: usize,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under the lock can leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A buffer of a pool, as a slice of bytes; dropping it returns it to the pool.
pub struct Buffer {
    memory: Option<Memory>,
    holder: Holder,
    shared: Arc<Shared>,
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.memory.as_ref().map_or(&[], Memory::bytes)
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.memory.as_mut().map_or(&mut [], Memory::bytes_mut)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let Some(memory) = self.memory.take() else { return };
        let mut state = self.shared.lock();
        state.count_held(self.holder, false);
        // Beyond a limit that was lowered meanwhile, the memory goes.
        let fits = state.in_use + state.free.len() < state.buffers_max;
        let surplus = if fits {
            state.free.push(memory);
            None
        } else {
            Some(memory)
        };
        let (waiting, held_back) = (state.waiting, state.held_back);
        drop(state);
        drop(surplus);
        if held_back > 0 {
            // A single taker that wakes may be slow and have to wait on, while a quick one could
            // run.
            self.shared.returned.notify_all();
        } else if waiting > 0 {
            self.shared.returned.notify_one();
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("bytes", &self.len()).finish()
    }
}

/// Owned, initialised, aligned memory.
struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: `Memory` owns its allocation alone and has no interior mutability, like `Box<[u8]>`.
unsafe impl Send for Memory {}
// SAFETY: as above; shared references only read.
unsafe impl Sync for Memory {}

impl Memory {
    fn allocate(layout: Layout) -> Self {
        // SAFETY: asks for new memory at no given place, so that no existing memory is touched. A
        // size of zero, which `BufferPool::new` rules out, would be an error.
        let start = unsafe {
            libc::mmap(
                ptr::null_mut(),
                layout.size(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let start = if start == libc::MAP_FAILED { None } else { NonNull::new(start) };
        let Some(start) = start else { handle_alloc_error(layout) };
        // After a fork, a direct read that is under way could reach the child's copy of the memory
        // instead of ours (open(2), O_DIRECT). A failure of the advice leaves that danger to
        // kernels that do not pin such memory.
        // SAFETY: the mapping has this length, and the advice changes no byte of it.
        unsafe { libc::madvise(start.as_ptr(), layout.size(), libc::MADV_DONTFORK) };
        Self { start: start.cast(), layout }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: `start` points to `layout.size()` bytes that the kernel zeroed, owned by `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes it the only reference.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by `allocate` with this very size, unmapped once, and no reference to it
        // is left. It cannot fail for a whole mapping.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.layout.size()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise (B7): no child process gets the memory of a buffer, so that a direct read during a
    /// fork(2) reaches this process. `dc` is the flag of such memory (proc_pid_smaps(5)).
    #[test]
    fn b7_children_do_not_share_buffers() {
        let buffer = BufferPool::new(1 << 20, 1).take();
        let address = buffer.as_ptr() as u64;
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut is_ours = false;
        let flags = maps.lines().find(|line| {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            let number = |text| u64::from_str_radix(text, 16).ok();
            if let Some((Some(begin), Some(end))) = range.map(|(a, b)| (number(a), number(b))) {
                is_ours = (begin..end).contains(&address);
            }
            is_ours && line.starts_with("VmFlags:")
        });
        assert!(flags.unwrap().split(' ').any(|flag| flag == "dc"), "{flags:?}");
    }

    /// Promise: the hot buffer comes back first, and memory follows those at work.
    #[test]
    fn the_last_buffer_returned_is_the_next_one_taken() {
        let pool = BufferPool::new(512 * 1024 + 1, 4);
        assert_eq!(pool.buffer_bytes() % BUFFER_ALIGNMENT_BYTES, 0);
        let (mut first, second) = (pool.take(), pool.take());
        assert_eq!(first.as_ptr() as usize % BUFFER_ALIGNMENT_BYTES, 0);
        first[0] = 7;
        let address = first.as_ptr();
        drop(second);
        drop(first);
        assert_eq!(pool.take().as_ptr(), address);
        assert_eq!(pool.usage().idle, 2);
        assert_eq!(pool.usage().in_use_max, 2);
        pool.trim();
        assert_eq!(pool.usage().idle, 0);
    }

    /// Promise (g): a pool never hands out more than its limit, and a waiter is woken.
    #[test]
    fn a_pool_at_its_limit_makes_takers_wait() {
        let pool = BufferPool::new(4096, 1);
        let held = pool.take();
        assert!(pool.try_take().is_none());
        assert!(pool.take_within(Duration::from_millis(1)).is_none());
        let waiter = std::thread::spawn({
            let pool = pool.clone();
            move || pool.take().len()
        });
        drop(held);
        assert_eq!(waiter.join().unwrap(), 4096);
        assert_eq!(pool.usage().in_use, 0);
    }

    /// Promise (g): slow holders never take the last eighth, and one of them follows another.
    #[test]
    fn slow_holders_leave_buffers_to_the_others() {
        let pool = BufferPool::new(4096, 16);
        let mut slow: Vec<_> = (0..14).map(|_| pool.take_for(Holder::Slow)).collect();
        let waiter = std::thread::spawn({
            let pool = pool.clone();
            move || pool.take_for(Holder::Slow).len()
        });
        let quick = [pool.take(), pool.take()];
        assert!(pool.try_take().is_none());
        drop(quick);
        assert!(pool.try_take().is_some());
        slow.pop();
        assert_eq!(waiter.join().unwrap(), 4096);
        // New holders leave one of 16, together with slow ones.
        slow.truncate(13);
        let new: Vec<_> = (0..2).map(|_| pool.take_for(Holder::New)).collect();
        assert!(
            !pool.shared.lock().has_for(Holder::New) && !pool.shared.lock().has_for(Holder::Slow)
        );
        assert!(pool.try_take().is_some());
        drop(new);
        // The only buffer of a pool serves all of them.
        for holder in [Holder::Slow, Holder::New, Holder::Quick] {
            assert_eq!(BufferPool::new(4096, 1).take_for(holder).len(), 4096);
        }
    }

    /// Promise (g): a lower limit applies to the next takes, and frees memory; a higher one wakes
    /// waiters.
    #[test]
    fn another_limit_counts_at_once() {
        let pool = BufferPool::new(4096, 4);
        let mut held: Vec<_> = (0..4).map(|_| pool.take()).collect();
        pool.set_buffers_max(2);
        held.truncate(3);
        assert_eq!((pool.usage().in_use, pool.usage().idle), (3, 0));
        held.truncate(2);
        assert!(pool.try_take().is_none());
        let waiter = std::thread::spawn({
            let pool = pool.clone();
            move || pool.take().len()
        });
        pool.set_buffers_max(3);
        assert_eq!(waiter.join().unwrap(), 4096);
        held.clear();
        assert_eq!(pool.usage().idle, 3);
        pool.set_buffers_max(1);
        assert_eq!(pool.usage().idle, 1);
    }
}
