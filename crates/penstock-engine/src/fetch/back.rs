//! Giving pieces back that another target peer can fetch sooner.

use penstock_proto::slicing::PieceRef;

use super::{FetchMachine, Item};

impl FetchMachine {
    /// Takes pieces off the end of the queue, worth about `bytes`, of which nothing was asked for
    /// yet, and forgets them; gives them with the attempts at their files, to be reported as
    /// returned. The first extent of a file whose temporary file is to be made here is kept: others
    /// wait for it.
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

    /// B3: what is given back was never asked for, so nothing of it is written here any more; and
    /// the file that is to be made here is.
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
    /// Issue 5: where others could do it, a peer holds what it brings in a few seconds, and asks
    /// for what it brings in a fraction of one; a fast one as much as if it were alone.
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
