//! A lane without a network: source and target are stores of this host.
//!
//! One thread reads a stride into a hot buffer, hashes it and writes it. The bytes are hashed once:
//! between the hash and the write they do not leave the buffer, so there is nothing to compare.

use std::time::Duration;

use penstock_engine::fetch::Request;
use penstock_engine::paths::PathId;
use penstock_net::LaneWork;
use penstock_proto::frame::{Fetch, Record};
use penstock_proto::id::LaneId;
use penstock_proto::time_use::Activity;
use penstock_store::Source;

use crate::lane::byte_tally::ByteTally;
use crate::lane::thread_time::{ThreadTime, TimeKeeper};
use crate::source::read::{FrameSink, PieceReader, ServeError};
use crate::stores::access::AccessError;
use crate::stores::errors::Cause;
use crate::stores::guard::Guard;
use crate::task::context::{Pieces, TaskContext};
use crate::task::error::TaskError;
use crate::write::PieceWriter;

/// Runs until the task stops or drops the lane.
pub(crate) fn run(
    shared: &TaskContext,
    lane: LaneId,
    (source, root, digests): (Source, Vec<u8>, bool),
    guard: &Guard,
) {
    let kind = shared.spec.digest;
    let (reading, time) = (ThreadTime::default(), ThreadTime::default());
    let mut keeper = TimeKeeper::new(&time);
    let mut reader = PieceReader::new(source, root, kind, shared.pool.clone(), &reading);
    if !digests {
        reader.omit_digests();
    }
    let mut writer = PieceWriter::new(shared.tree.clone(), shared.large.clone(), false, &time);
    let mut tally = ByteTally::new(lane);
    shared.lane_up((lane, PathId::default()), Duration::ZERO, None);
    while !shared.is_stopping() {
        let Some(request) = shared.next_request(lane) else {
            let reason = shared.idle_reason();
            time.measure(reason, || shared.wait_for_request());
            settle(shared, &mut keeper, &reading);
            continue;
        };
        let pieces = match shared.page(request.item.piece.page) {
            Ok(pieces) => pieces,
            Err(error) => {
                shared.broken(error);
                break;
            }
        };
        let fetch = fetch_of(&request, &pieces);
        shared.handle_begun(request.request);
        let mut sink = LocalSink {
            writer: &mut writer,
            pieces: &pieces,
            request: &request,
            shared,
            tally: &mut tally,
            guard,
            reading: &reading,
            time: &time,
            keeper: &mut keeper,
        };
        match reader.read(&pieces.page.page, &fetch, &mut sink) {
            Ok(()) => {
                tally.flush(shared, 0);
                let written = writer.finish(&pieces.page, &request.item);
                shared.handle_answered(request, &pieces, written);
            }
            Err(ServeError::Sink(End::Stopped)) => writer.abandon(),
            Err(ServeError::Sink(End::Offline(error))) => {
                writer.abandon();
                shared.broken(*error);
                break;
            }
            Err(ServeError::Request(error)) => {
                shared.broken(TaskError::Misfit(Cause::of(&error)));
                break;
            }
        }
    }
    settle(shared, &mut keeper, &reading);
    shared.lane_down(lane, None);
}

/// Hands on the time of the thread, of which the reader has counted its own.
fn settle(shared: &TaskContext, keeper: &mut TimeKeeper, reading: &ThreadTime) {
    let read = reading.take();
    shared.add_lane_time(&keeper.settle(LaneWork::default(), &read));
    shared.add_reading_time(read);
}

/// Returns the fetch that asks a source for a request.
pub(crate) fn fetch_of(request: &Request, pieces: &Pieces) -> Fetch {
    let mut page_digest = [0; 16];
    page_digest.copy_from_slice(&pieces.page.digest.0[..16]);
    let item = &request.item;
    Fetch {
        page: item.piece.page,
        page_digest,
        first_entry: item.first_entry,
        end_entry: item.end_entry,
        generation: item.generation,
        offset: item.offset,
        length: item.length,
    }
}

/// The reasons why the rest of a request is not read.
#[derive(Debug)]
enum End {
    /// The task is stopping.
    Stopped,
    /// The source has changed, so that nothing counts as vanished from it (C3).
    Offline(Box<AccessError>),
}

struct LocalSink<'a> {
    writer: &'a mut PieceWriter,
    pieces: &'a Pieces,
    request: &'a Request,
    shared: &'a TaskContext,
    tally: &'a mut ByteTally,
    guard: &'a Guard,
    reading: &'a ThreadTime,
    time: &'a ThreadTime,
    keeper: &'a mut TimeKeeper,
}

impl FrameSink for LocalSink<'_> {
    type Error = End;

    fn frame(&mut self, records: &[Record], payload: &[u8], _last: bool) -> Result<(), End> {
        if self.shared.is_stopping() {
            return Err(End::Stopped);
        }
        self.guard.check_records(records).map_err(|error| End::Offline(Box::new(error)))?;
        let bytes = payload.len() as u64;
        self.shared.pace.take_telling(bytes, |slept| {
            self.time.add(Activity::WaitLimit, slept);
            if self.keeper.is_due() {
                settle(self.shared, self.keeper, self.reading);
            }
        });
        self.writer.frame(&self.pieces.page, &self.request.item, records, payload);
        self.tally.add(self.shared, bytes, 0);
        if self.keeper.is_due() {
            settle(self.shared, self.keeper, self.reading);
        }
        Ok(())
    }
}
