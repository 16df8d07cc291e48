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
}
