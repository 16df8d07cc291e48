//! Returning pieces: those that another target peer can fetch sooner, and those that a failed sync
//! has lost.
//!
//! A returned piece may be handed to another peer at once. By then none of it is on its way to the
//! disk here, and a piece that another peer only fetches sooner was never written at all. Otherwise
//! dirty data in this host's cache would be written late, and change the times of a finished file
//! (B2, B3).

use std::collections::BTreeSet;

use penstock_proto::slicing::PieceRef;

use super::{FetchMachine, Item};

impl FetchMachine {
    /// Handles the first bytes of an answer: the item may be written from now on, even if the lane
    /// is lost.
    pub fn handle_begun(&mut self, request: u32) {
        let Some(asked) = self.asked.get(&request).filter(|asked| !asked.forgotten) else { return };
        if let Some(progress) = self.pieces.get_mut(&asked.item.piece) {
            progress.begun = true;
        }
    }

    /// Handles a failed sync: forgets every held piece, as its written data may be lost as well
    /// (A4). Returns the pieces to which no lane writes; [`FetchMachine::take_returned`] returns
    /// the others later.
    pub fn handle_sync_failed(&mut self) -> Vec<(PieceRef, u32)> {
        self.queue.clear();
        self.retries.clear();
        self.queued_bytes = 0;
        self.asked.values_mut().for_each(|asked| asked.forgotten = true);
        for (piece, progress) in std::mem::take(&mut self.pieces) {
            self.returning.insert(piece, progress.generation);
        }
        self.take_returned()
    }

    /// Takes the pieces that a failed sync has made forget, with their attempts, to be reported as
    /// returned. Each is returned once the lanes that were asked for some of it have answered, or
    /// ended (B3).
    pub fn take_returned(&mut self) -> Vec<(PieceRef, u32)> {
        let mut returned = Vec::new();
        if self.returning.is_empty() {
            return returned;
        }
        let late = self.asked.values().filter(|asked| asked.forgotten);
        let written: BTreeSet<PieceRef> = late.map(|asked| asked.item.piece).collect();
        self.returning.retain(|piece, generation| {
            let waits = written.contains(piece);
            if !waits {
                returned.push((*piece, *generation));
            }
            waits
        });
        returned
    }

    /// Takes pieces off the end of the queue, worth about `bytes`, of which no byte was asked for
    /// or received, and forgets them. Returns them with the attempts at their files, to be reported
    /// as returned. Keeps the first extent of a file whose temporary file is to be made here:
    /// others wait for it.
    pub fn take_back(&mut self, bytes: u64) -> Vec<(PieceRef, u32)> {
        let mut back = Vec::new();
        let mut given = 0;
        let mut at = self.queue.len();
        while at > 0 && given < bytes {
            at -= 1;
            let item = self.queue[at];
            if !self.is_untouched(&item) {
                continue;
            }
            self.queue.remove(at);
            self.pieces.remove(&item.piece);
            self.queued_bytes -= item.bytes;
            given += item.bytes.max(1);
            back.push((item.piece, item.generation));
        }
        back
    }

    fn is_untouched(&self, item: &Item) -> bool {
        let makes_file = item.fresh && item.length > 0;
        !makes_file
            && item.attempt == 1
            && self.pieces.get(&item.piece).is_some_and(|progress| {
                progress.items == 1
                    && !progress.begun
                    && progress.parts.is_empty()
                    && progress.digests.is_empty()
                    && progress.failures.is_empty()
            })
    }
}

#[cfg(test)]
mod tests {
    use penstock_proto::id::LaneId;
    use penstock_proto::units::{Instant, MIB};

    use super::*;

    fn item(piece: u32, fresh: bool) -> Item {
        Item {
            piece: PieceRef { page: 0, piece },
            generation: 2,
            fresh,
            first_entry: 0,
            end_entry: 1,
            offset: u64::from(piece) * 8 * MIB,
            length: 8 * MIB,
            bytes: 8 * MIB,
            attempt: 1,
        }
    }

    fn small(piece: u32) -> Item {
        let offset = u64::from(piece) * MIB;
        Item { offset, length: MIB, bytes: MIB, ..item(piece, false) }
    }

    /// B2, B3: a piece that a dead lane had begun may be dirty in this host's cache, and would be
    /// written late: it is not returned. A piece that was only asked for is returned.
    #[test]
    fn b2_what_a_dead_lane_has_begun_is_not_given_back() {
        let mut machine = FetchMachine::new();
        machine.handle_lane_up(Instant(0), LaneId(1));
        for piece in 0..3 {
            machine.handle_granted(small(piece));
        }
        let asked = |machine: &mut FetchMachine| {
            machine.poll_request(Instant(0), LaneId(1)).map(|asked| asked.request).unwrap()
        };
        let (begun, _, refused) = (asked(&mut machine), asked(&mut machine), asked(&mut machine));
        machine.handle_begun(begun);
        machine.handle_begun(refused);
        machine.handle_refused(Instant(0), refused, std::time::Duration::ZERO);
        machine.handle_lane_down(LaneId(1));
        // A refused request is repeated.
        machine.handle_lane_up(Instant(1), LaneId(2));
        assert!(machine.poll_request(Instant(1), LaneId(2)).is_some());
        machine.handle_lane_down(LaneId(2));
        let back = machine.take_back(u64::MAX);
        assert_eq!(back.iter().map(|(piece, _)| piece.piece).collect::<Vec<_>>(), [1]);
    }

    /// A4, B3: after a failed sync no held piece is trusted, and all are returned. Pieces to which
    /// a lane still writes are returned when the lane has answered or ended, so that another peer
    /// may have them.
    #[test]
    fn b3_after_a_failed_sync_what_is_still_written_goes_back_later() {
        let mut machine = FetchMachine::new();
        for lane in [1, 2] {
            machine.handle_lane_up(Instant(0), LaneId(lane));
        }
        for piece in 0..3 {
            machine.handle_granted(small(piece));
        }
        let late = machine.poll_request(Instant(0), LaneId(1)).unwrap();
        let dying = machine.poll_request(Instant(0), LaneId(2)).unwrap();
        let of = |asked: &crate::fetch::Request| (asked.item.piece, asked.item.generation);
        let rest = machine.handle_sync_failed();
        assert_eq!(rest, [(PieceRef { page: 0, piece: 2 }, 2)]);
        assert_eq!(machine.take_returned(), []);
        assert!(machine.is_idle(), "nothing of it counts");
        let answered = machine.handle_answered(Instant(1), late.request, vec![], vec![], MIB);
        assert_eq!(answered, None);
        assert_eq!(machine.take_returned(), [of(&late)]);
        machine.handle_lane_down(LaneId(2));
        assert_eq!(machine.take_returned(), [of(&dying)]);
        assert_eq!(machine.take_returned(), []);
    }

    /// B3: a returned piece was never asked for, so no byte of it is written here later; and the
    /// piece whose file is to be made here is kept.
    #[test]
    fn b3_only_what_is_not_begun_is_given_back() {
        let mut machine = FetchMachine::new();
        for (piece, fresh) in [(0, false), (1, true), (2, false), (3, false)] {
            machine.handle_granted(item(piece, fresh));
        }
        machine.handle_lane_up(Instant(0), LaneId(1));
        let asked = machine.poll_request(Instant(0), LaneId(1)).map(|asked| asked.item.piece.piece);
        assert_eq!(asked, Some(0));
        let back = |machine: &mut FetchMachine, bytes| -> Vec<u32> {
            machine.take_back(bytes).into_iter().map(|(piece, _)| piece.piece).collect()
        };
        assert_eq!(back(&mut machine, 1), [3], "the last first");
        assert_eq!(back(&mut machine, u64::MAX), [2]);
        assert_eq!(back(&mut machine, u64::MAX), [0u32; 0]);
        machine.handle_granted(item(3, false));
        assert_eq!(back(&mut machine, u64::MAX), [3], "given again, it is new");
    }
    /// Issue 5: if others could do the work, a peer holds work of a few seconds, and asks for a
    /// fraction of a second's. A fast peer asks for as much as if it were alone.
    #[test]
    fn nobody_holds_more_than_it_brings_in_a_few_seconds() {
        let held = |machine: &mut FetchMachine| {
            let mut at = 1000;
            while machine.wanted_bytes() > 0 {
                at += 1;
                let extent = Item { offset: u64::from(at) * MIB, length: MIB, ..item(at, false) };
                machine.handle_granted(Item { bytes: MIB, ..extent });
            }
            let asked = |machine: &mut FetchMachine, lane| {
                let request = machine.poll_request(Instant(2_000_000_000), lane)?;
                Some(request.item.bytes)
            };
            let mut bytes = 0;
            while let Some(more) = asked(machine, LaneId(1)).or_else(|| asked(machine, LaneId(2))) {
                bytes += more;
            }
            (machine.pieces.len() as u64 * MIB, bytes)
        };
        let machine_at = |rate: u64, shared: bool| {
            let mut machine = FetchMachine::new();
            if shared {
                machine.share();
            }
            for lane in [LaneId(1), LaneId(2)] {
                machine.handle_lane_up(Instant(0), lane);
            }
            machine.handle_bytes(Instant(0), LaneId(1), 0);
            for tenth in 1..20 {
                machine.handle_bytes(Instant(tenth * 100_000_000), LaneId(1), rate / 10);
            }
            machine
        };
        let (all, asked) = held(&mut machine_at(0, false));
        assert!(all == 48 * MIB && asked >= 32 * MIB, "alone: {all} and {asked}");
        let (all, asked) = held(&mut FetchMachine::default());
        assert_eq!((all, asked), (48 * MIB, 0), "no lane yet");
        let (all, asked) = held(&mut machine_at(4 * MIB, true));
        assert!(all <= 10 * MIB && asked <= 2 * MIB, "slow: {all} and {asked}");
        let (all, asked) = held(&mut machine_at(MIB / 4, true));
        assert!(all <= 3 * MIB && asked <= 2 * MIB, "very slow: {all} and {asked}");
        let (all, asked) = held(&mut machine_at(200 * MIB, true));
        assert!(all == 48 * MIB && asked >= 32 * MIB, "fast: {all} and {asked}");
    }
}
