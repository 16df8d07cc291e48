//! Reads the bytes of one request, hashes them while they are in the cache, and passes on frames.
//!
//! The source's lanes use it, and local lanes where source and target are one host. One stride is
//! in memory at a time: it is read, hashed, passed on, dropped. Small files are read one behind the
//! other into the same buffer, with a record each. They are hashed several at a time, and leave in
//! one frame.
//!
//! A lane over distance begins with small frames ([`crate::lane::slow_start`]).
//!
//! Every file is checked again after its bytes were read (C1, C2): see
//! [`crate::source::read_check`].

use std::borrow::Cow;
use std::time::{Duration, Instant};

use penstock_engine::slice::travels_whole;
use penstock_proto::digest::{Digest, DigestKind, TOGETHER_BYTES_MAX};
use penstock_proto::frame::{EntryStatus, Fetch, RECORDS_MAX, RUNS_MAX, Record};
use penstock_proto::manifest::{Entry, EntryKind, Page};
use penstock_proto::name;
use penstock_proto::time_use::Activity;
use penstock_proto::units::FileTime;
use penstock_store::{DIRECT_BYTES_MIN, Dir, DirCache, ReadFile, Source, StoreError};
use penstock_sys::buffer::{Buffer, BufferPool, Holder};

use crate::lane::slow_start::{FIRST_FRAME_BYTES, may_part, part_bytes};
use crate::lane::thread_time::ThreadTime;
use crate::source::read_check::{Freshness, ReadCheck};

/// Time that a receiver takes for a frame of at most one stride, from which on it is a slow holder
/// of buffers: less than 8 Mbit/s. Several of them would hold all that the lanes of a site share.
const SLOW_FRAME: Duration = Duration::from_secs(1);

/// Requests without a slow frame after which a receiver is known as quick. A single one is weak
/// evidence: the socket may have taken its frame while the lane waited for a buffer.
const QUICK_REQUESTS: u32 = 4;

/// Takes the frames of a reply.
pub(crate) trait FrameSink {
    /// The reason why a frame could not be handed on, which ends the request.
    type Error;

    /// Takes one frame: records and their bytes. `last` ends the reply.
    fn frame(&mut self, records: &[Record], payload: &[u8], last: bool) -> Result<(), Self::Error>;
}

/// A reader for the requests of one data set. Each lane has its own.
pub(crate) struct PieceReader {
    source: Source,
    root: Vec<u8>,
    kind: DigestKind,
    /// True if bytes are hashed; otherwise all digests are zeros.
    hashes: bool,
    dirs: DirCache,
    pool: BufferPool,
    time: ThreadTime,
    records: Records,
    served: ReadCheck,
    /// Payload that the next frame may have, if that is less than a stride.
    ramp: Option<usize>,
    /// The speed of the receiver, by its last requests.
    holder: Holder,
    /// Requests since the last one with a slow frame.
    quick_requests: u32,
}

/// The request does not fit the page: only a peer that breaks the protocol sends such.
#[derive(Debug, thiserror::Error)]
#[error("the request does not fit the page: {0}")]
pub(crate) struct BadRequest(&'static str);

/// The reasons for an early end of a reply.
#[derive(Debug)]
pub(crate) enum ServeError<E> {
    /// The request is at fault.
    Request(BadRequest),
    /// The sink is.
    Sink(E),
}

/// The records of a frame, kept from frame to frame for their memory.
#[derive(Default)]
struct Records {
    all: Vec<Record>,
    /// Records of whole small files that have no digest yet, with the offsets of their bytes.
    unhashed: Vec<(usize, usize)>,
    digests: Vec<Digest>,
}

impl Records {
    /// Computes the digests of the small files, together.
    fn hash(&mut self, kind: DigestKind, payload: &[u8]) {
        let bytes = |(record, start): &(usize, usize)| {
            let length = self.all[*record].length as usize;
            &payload[*start..*start + length]
        };
        kind.whole_files(self.unhashed.iter().map(bytes), &mut self.digests);
        for ((record, _), digest) in self.unhashed.drain(..).zip(self.digests.drain(..)) {
            self.all[record].digest = digest;
        }
    }
}

/// The buffer of a frame that is being filled.
struct Fill<'a, S: FrameSink> {
    sink: &'a mut S,
    kind: DigestKind,
    time: &'a ThreadTime,
    records: Records,
    pool: &'a BufferPool,
    /// Taken for the first byte of a frame. A slow receiver's goes back with each frame.
    buffer: Option<Buffer>,
    /// The holder for which buffers are taken: the receiver's last speed, or slow since this
    /// request.
    holder: Holder,
    /// True if a frame of this request took [`SLOW_FRAME`].
    was_slow: bool,
    used: usize,
    stride: usize,
    /// Payload that this frame may have: less than a stride while the lane begins.
    frame_bytes: usize,
}

impl<S: FrameSink> Fill<'_, S> {
    fn flush(&mut self, last: bool) -> Result<(), S::Error> {
        if self.records.all.is_empty() && !last {
            return Ok(());
        }
        let payload = self.buffer.as_ref().map_or(&[][..], |buffer| &buffer[..self.used]);
        if !self.records.unhashed.is_empty() {
            let (records, kind) = (&mut self.records, self.kind);
            self.time.measure(Activity::Hash, || records.hash(kind, payload));
        }
        let begun = Instant::now();
        self.sink.frame(&self.records.all, payload, last)?;
        if begun.elapsed() >= SLOW_FRAME {
            (self.holder, self.was_slow) = (Holder::Slow, true);
        }
        if self.holder == Holder::Slow {
            self.buffer = None;
        }
        self.records.all.clear();
        self.used = 0;
        self.frame_bytes = (self.frame_bytes * 2).min(self.stride);
        Ok(())
    }

    fn push(&mut self, record: Record) -> Result<(), S::Error> {
        self.used += record.payload_bytes() as usize;
        self.records.all.push(record);
        if self.records.all.len() >= RECORDS_MAX { self.flush(false) } else { Ok(()) }
    }

    /// Makes room for `bytes`: a frame that is too full is handed on first.
    fn make_room(&mut self, bytes: usize) -> Result<(), S::Error> {
        let room = self.frame_bytes.saturating_sub(self.used);
        if bytes > room { self.flush(false) } else { Ok(()) }
    }
}

impl PieceReader {
    /// Creates a reader of the data set below `root` of `source`, for a thread whose time is
    /// `time`.
    pub(crate) fn new(
        source: Source,
        root: Vec<u8>,
        kind: DigestKind,
        pool: BufferPool,
        time: &ThreadTime,
    ) -> Self {
        let time = time.clone();
        let dirs = DirCache::default();
        let (records, served) = (Records::default(), ReadCheck::default());
        let (holder, quick_requests) = (Holder::New, 0);
        Self {
            source,
            root,
            kind,
            hashes: true,
            dirs,
            pool,
            time,
            records,
            served,
            ramp: None,
            holder,
            quick_requests,
        }
    }

    /// Reads without digests from now on: for a benchmark, whose bytes are dropped.
    pub(crate) fn omit_digests(&mut self) {
        self.hashes = false;
    }

    /// Begins with small frames: for a lane over distance.
    pub(crate) fn begin_small(&mut self) {
        self.ramp = Some(FIRST_FRAME_BYTES);
    }

    /// Answers one request.
    pub(crate) fn read<S: FrameSink>(
        &mut self,
        page: &Page,
        fetch: &Fetch,
        sink: &mut S,
    ) -> Result<(), ServeError<S::Error>> {
        check(page, fetch).map_err(ServeError::Request)?;
        let mut records = std::mem::take(&mut self.records);
        records.all.clear();
        records.unhashed.clear();
        let stride = page.slicing.stride_bytes as usize;
        let (pool, time) = (self.pool.clone(), self.time.clone());
        let mut fill = Fill {
            sink,
            kind: self.kind,
            time: &time,
            records,
            pool: &pool,
            buffer: None,
            holder: self.holder,
            was_slow: false,
            used: 0,
            stride,
            frame_bytes: self.ramp.map_or(stride, |bytes| bytes.min(stride)),
        };
        let outcome = self.read_entries(page, fetch, &mut fill);
        let outcome = outcome.and_then(|()| fill.flush(true));
        self.ramp = Some(fill.frame_bytes).filter(|bytes| *bytes < stride);
        self.quick_requests = if fill.was_slow { 0 } else { self.quick_requests.saturating_add(1) };
        self.holder =
            if self.quick_requests >= QUICK_REQUESTS { Holder::Quick } else { fill.holder };
        self.records = fill.records;
        outcome.map_err(ServeError::Sink)
    }

    fn read_entries<S: FrameSink>(
        &mut self,
        page: &Page,
        fetch: &Fetch,
        fill: &mut Fill<'_, S>,
    ) -> Result<(), S::Error> {
        if fetch.length > 0 {
            let range = fetch.offset..fetch.offset + fetch.length;
            return self.read_file(page, fetch.first_entry, range, fill);
        }
        // Small files would change the account for each call. If that fails, each file reports the
        // failure.
        let _acting = self.source.act().ok();
        for index in fetch.first_entry..fetch.end_entry {
            let entry = &page.entries()[index as usize];
            if !travels_whole(&page.slicing, entry) {
                continue;
            }
            fill.make_room(entry.size as usize)?;
            self.read_file(page, index, 0..entry.size, fill)?;
        }
        Ok(())
    }

    /// Reads `range` of a file; an error of the file becomes a record.
    fn read_file<S: FrameSink>(
        &mut self,
        page: &Page,
        index: u32,
        range: std::ops::Range<u64>,
        fill: &mut Fill<'_, S>,
    ) -> Result<(), S::Error> {
        let entry = &page.entries()[index as usize];
        let file = match fill.time.measure(Activity::Metadata, || self.open(page, entry)) {
            Ok(file) => file,
            Err(error) => return fill.push(failure_of(index, &error)),
        };
        if entry.size >= DIRECT_BYTES_MIN && !entry.sparse {
            fill.time.measure(Activity::Metadata, || file.make_direct(range.clone()));
        }
        self.served.clear();
        let mut at = range.start;
        loop {
            let end = (at + fill.stride as u64).min(range.end);
            if entry.sparse && at < range.end {
                match hole_end(&file, at, range.end, fill.stride as u64) {
                    Ok(end) if end > at => {
                        let last = end >= range.end;
                        self.served.note_hole();
                        let seen = match self.fit(index, entry, &file, last.then_some(end), None) {
                            Ok(seen) => seen,
                            Err(record) => return fill.push(record),
                        };
                        fill.push(Record { seen, ..hole(index, at, end - at, last) })?;
                        at = end;
                        if last {
                            return Ok(());
                        }
                        continue;
                    }
                    Ok(_) => {}
                    Err(error) => return fill.push(failure_of(index, &error)),
                }
            }
            let end = self.part_end(entry, at, &range, fill).unwrap_or(end);
            fill.make_room((end - at) as usize)?;
            let record = self.read_stride(index, entry, &file, at..end, range.end, fill);
            let ended = record.end;
            fill.push(record)?;
            at = end;
            if ended {
                return Ok(());
            }
        }
    }

    /// Returns the end of the stride's part that begins at `at`, if that stride travels in parts.
    fn part_end<S: FrameSink>(
        &self,
        entry: &Entry,
        at: u64,
        range: &std::ops::Range<u64>,
        fill: &Fill<'_, S>,
    ) -> Option<u64> {
        let stride = fill.stride as u64;
        let into = at % stride;
        let begun = into > 0 || fill.frame_bytes < fill.stride;
        let full = at - into + stride <= range.end;
        let parts = begun && full && !entry.sparse && may_part(self.kind, entry.size, stride);
        parts.then(|| at + part_bytes(into, fill.frame_bytes as u64))
    }

    fn read_stride<S: FrameSink>(
        &mut self,
        index: u32,
        entry: &Entry,
        file: &ReadFile,
        range: std::ops::Range<u64>,
        last: u64,
        fill: &mut Fill<'_, S>,
    ) -> Record {
        let length = (range.end - range.start) as usize;
        let (pool, holder, time) = (fill.pool, fill.holder, fill.time);
        let take = || time.measure(Activity::WaitMemory, || pool.take_for(holder));
        let buffer = fill.buffer.get_or_insert_with(take);
        let room = &mut buffer[fill.used..];
        let read = time.measure(Activity::Read, || file.read_into(range.start, length, room));
        let bytes = &mut buffer[fill.used..fill.used + length];
        match read {
            Ok(count) if count < length => {
                return Record::failure(index, EntryStatus::Changed, 0);
            }
            Ok(_) => {}
            Err(error) => return failure_of(index, &error),
        }
        let end = range.end >= last;
        let whole = length as u64 == entry.size;
        let together = whole && entry.size <= TOGETHER_BYTES_MAX && !entry.sparse;
        let digest = if together || !self.hashes {
            Digest::default()
        } else {
            let hash = || self.kind.stride(entry.size, range.start, bytes);
            fill.time.measure(Activity::Hash, hash)
        };
        if !together {
            self.served.note(range.start, length, digest);
        }
        let held = together.then_some(&*bytes);
        let seen = match self.fit(index, entry, file, end.then_some(range.end), held) {
            Ok(seen) => seen,
            Err(record) => return record,
        };
        if together && self.hashes {
            fill.records.unhashed.push((fill.records.all.len(), fill.used));
        }
        let runs = if entry.sparse { data_runs(file, &range) } else { Vec::new() };
        if !runs.is_empty() {
            compact(bytes, &runs);
        }
        Record {
            entry: index,
            status: EntryStatus::Ok,
            errno: 0,
            end,
            hole: false,
            offset: range.start,
            length: length as u64,
            digest,
            runs,
            seen,
        }
    }

    /// Checks a file after the last requested byte, before `end`, was read. Returns the change time
    /// at that moment, if the file must be checked again, or a record that names the fault. `held`
    /// holds the bytes of a whole file that was not hashed yet.
    fn fit(
        &self,
        index: u32,
        entry: &Entry,
        file: &ReadFile,
        end: Option<u64>,
        held: Option<&[u8]>,
    ) -> Result<Option<FileTime>, Record> {
        let Some(end) = end else { return Ok(None) };
        let look = || self.served.fit(entry, file, self.kind, held, end == entry.size);
        match self.time.measure(Activity::Metadata, look) {
            Ok(Freshness::Same) => Ok(None),
            Ok(Freshness::LookAgain(ctime)) => Ok(Some(ctime)),
            Ok(Freshness::Changed) => Err(Record::failure(index, EntryStatus::Changed, 0)),
            Err(error) => Err(failure_of(index, &error)),
        }
    }

    fn open(&mut self, page: &Page, entry: &Entry) -> Result<ReadFile, StoreError> {
        let (parent, leaf) = place(&self.root, page, entry);
        let source = &self.source;
        let dir =
            self.dirs.get(penstock_sys::boottime_now(), &parent, |path| source.open_dir(path))?;
        let opened = self.open_in(&dir, &leaf);
        if let Err(error) = &opened
            && error.is_vanished()
        {
            self.dirs.forget(&parent);
        }
        opened
    }

    fn open_in(&self, dir: &Dir, leaf: &[u8]) -> Result<ReadFile, StoreError> {
        self.source.open_read(dir, leaf)
    }
}

/// Returns the place of an entry: the path of its directory within the store, and its name there.
pub(crate) fn place<'a>(
    root: &[u8],
    page: &'a Page,
    entry: &Entry,
) -> (Cow<'a, [u8]>, Cow<'a, [u8]>) {
    let below = page.directory(entry);
    let directory =
        if root.is_empty() { Cow::Borrowed(below) } else { Cow::Owned(name::join(root, below)) };
    let leaf = page.name(entry);
    if !leaf.is_empty() {
        return (directory, Cow::Borrowed(leaf));
    }
    match name::split(&directory) {
        Some((parent, leaf)) => (Cow::Owned(parent.to_vec()), Cow::Owned(leaf.to_vec())),
        None => Default::default(),
    }
}

fn check(page: &Page, fetch: &Fetch) -> Result<(), BadRequest> {
    if fetch.end_entry as usize > page.entries().len() {
        return Err(BadRequest("no such entry"));
    }
    if fetch.length == 0 {
        return Ok(());
    }
    let entry = &page.entries()[fetch.first_entry as usize];
    let stride = u64::from(page.slicing.stride_bytes);
    if entry.kind != EntryKind::File || fetch.offset + fetch.length > entry.size {
        return Err(BadRequest("the range is not in the file"));
    }
    if !fetch.offset.is_multiple_of(stride) {
        return Err(BadRequest("the range does not begin at a stride"));
    }
    if !fetch.length.is_multiple_of(stride) && fetch.offset + fetch.length != entry.size {
        return Err(BadRequest("the range does not end at a stride"));
    }
    Ok(())
}

fn failure_of(index: u32, error: &StoreError) -> Record {
    let errno = error.errno().and_then(|errno| u16::try_from(errno).ok()).unwrap_or(0);
    let status = if error.is_vanished() {
        EntryStatus::Vanished
    } else if error.is_denied() {
        EntryStatus::Denied
    } else if matches!(error, StoreError::WrongKind { .. }) {
        EntryStatus::Changed
    } else {
        EntryStatus::Failed
    };
    tracing::debug!(error = %crate::stores::chain(error), "an entry could not be read");
    Record::failure(index, status, errno)
}

fn hole(index: u32, offset: u64, length: u64, end: bool) -> Record {
    Record {
        entry: index,
        status: EntryStatus::Ok,
        errno: 0,
        end,
        hole: true,
        offset,
        length,
        digest: Digest::default(),
        runs: Vec::new(),
        seen: None,
    }
}

/// Returns the end of the whole strides of a hole that begins at `at`, or `at` if there are none.
fn hole_end(file: &ReadFile, at: u64, last: u64, stride: u64) -> Result<u64, StoreError> {
    let data = file.next_data(at)?.unwrap_or(last).min(last);
    if data >= last {
        return Ok(last);
    }
    Ok(data - (data - at) % stride)
}

/// Returns the data within `range` of a file that also has holes there. Returns nothing if all of
/// it is data, or if it has too many runs to report.
fn data_runs(file: &ReadFile, range: &std::ops::Range<u64>) -> Vec<(u32, u32)> {
    let mut runs = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let Ok(Some(data)) = file.next_data(at) else { break };
        if data >= range.end {
            break;
        }
        let Ok(hole) = file.next_hole(data) else { return Vec::new() };
        let end = hole.min(range.end);
        runs.push(((data - range.start) as u32, (end - data) as u32));
        if runs.len() > RUNS_MAX {
            return Vec::new();
        }
        at = end;
    }
    match runs.as_slice() {
        [(0, length)] if u64::from(*length) == range.end - range.start => Vec::new(),
        _ => runs,
    }
}

/// Moves the runs together at the start of `bytes`, after they were hashed in place.
fn compact(bytes: &mut [u8], runs: &[(u32, u32)]) {
    let mut to = 0;
    for &(start, length) in runs {
        let (start, length) = (start as usize, length as usize);
        bytes.copy_within(start..start + length, to);
        to += length;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;

    use penstock_proto::id::TransferId;
    use penstock_proto::manifest::{EntryDraft, PageBuilder};
    use penstock_proto::slicing::Slicing;
    use penstock_proto::units::MIB;
    use penstock_store::MemStore;

    use super::*;

    /// A receiver that reports each frame, and takes it when the test allows it.
    struct Gate {
        frames: Sender<usize>,
        allowed: Receiver<()>,
    }

    impl FrameSink for Gate {
        type Error = std::convert::Infallible;

        fn frame(&mut self, _: &[Record], payload: &[u8], _: bool) -> Result<(), Self::Error> {
            self.frames.send(payload.len()).unwrap();
            // An error is the end of the test: all that is left may pass.
            let _ = self.allowed.recv();
            Ok(())
        }
    }

    /// A memory of 16 strides, and a page of one file.
    struct Lanes {
        source: Source,
        page: Page,
        pool: BufferPool,
    }

    impl Lanes {
        fn new() -> Self {
            let store = MemStore::new("mem:files=1,size=4MiB".parse().unwrap());
            let meta = store.stat(store.root(), b"f0000000000").unwrap();
            assert_eq!(meta.size, 4 * MIB);
            let source = Source::Mem(store);
            let mut builder = PageBuilder::new(TransferId([1; 16]), 0, Slicing::default());
            let name = b"f0000000000";
            let draft =
                EntryDraft { name, size: 4 * MIB, mtime: meta.mtime, ..EntryDraft::default() };
            builder.push(b"", &draft);
            let page = builder.seal();
            let pool = BufferPool::new(page.slicing.stride_bytes as usize, 16);
            Self { source, page, pool }
        }

        /// Begins to answer a request for the whole file on a thread of its own.
        fn answer(&self, holder: Holder) -> (Receiver<usize>, Sender<()>, thread::JoinHandle<()>) {
            let (frames, told) = channel();
            let (allow, allowed) = channel();
            let (source, page) = (self.source.clone(), self.page.clone());
            let kind = DigestKind::default();
            let pool = self.pool.clone();
            let answers = thread::spawn(move || {
                let time = ThreadTime::default();
                let mut reader = PieceReader::new(source, Vec::new(), kind, pool, &time);
                reader.holder = holder;
                let fetch = Fetch {
                    page: 0,
                    page_digest: [0; 16],
                    first_entry: 0,
                    end_entry: 1,
                    generation: 0,
                    offset: 0,
                    length: 4 * MIB,
                };
                let mut sink = Gate { frames, allowed };
                assert!(reader.read(&page, &fetch, &mut sink).is_ok());
            });
            (told, allow, answers)
        }
    }

    /// Begins 20 requests whose receivers take nothing, waits until they hold `most` buffers, and
    /// answers a quick receiver beside them.
    fn answer_beside(crowd: Holder, most: usize) {
        let lanes = Lanes::new();
        let held = || lanes.pool.usage().in_use;
        let crowd: Vec<_> = (0..20).map(|_| lanes.answer(crowd)).collect();
        while held() < most {
            thread::yield_now();
        }
        let (frames, allow, answers) = lanes.answer(Holder::Quick);
        let mut bytes = 0;
        while bytes < 4 * MIB as usize {
            bytes += frames.recv().unwrap();
            assert!(held() <= most + 1, "the crowd holds the buffers of others");
            allow.send(()).unwrap();
        }
        drop(allow);
        answers.join().unwrap();
        let mut threads = Vec::new();
        let mut told = Vec::new();
        for (frames, allow, answers) in crowd {
            drop(allow);
            told.push(frames);
            threads.push(answers);
        }
        threads.into_iter().for_each(|answers| answers.join().unwrap());
        assert_eq!(held(), 0);
    }

    /// Promise (g), E12: any number of slow receivers, whether known as slow or new, never stops
    /// one that is known as quick.
    #[test]
    fn slow_receivers_leave_buffers_to_the_others() {
        answer_beside(Holder::Slow, 14);
        answer_beside(Holder::New, 15);
    }
}
