//! Counters of the transfers that a source serves now.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use penstock_proto::id::TransferId;

use crate::traffic::{add, read};

/// Figures of one transfer at one end of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferTraffic {
    /// The transfer.
    pub transfer: TransferId,
    /// Bytes of payload. They start again with each task; at a source, also when lanes are opened
    /// again after all were closed.
    pub bytes: u64,
    /// Lanes that are open.
    pub lanes: u64,
    /// Cipher of the lanes, as [`penstock_net::LaneStream::cipher`] names it; `None` before the
    /// first is open, and within a host.
    pub cipher: Option<&'static str>,
}

/// Counters of the transfers that a source serves now.
#[derive(Debug, Default)]
pub(crate) struct ServedTransfers(Mutex<BTreeMap<TransferId, Weak<ServedTransfer>>>);

/// Counters of one transfer at its source, while it has lanes.
#[derive(Debug, Default)]
pub(crate) struct ServedTransfer {
    bytes: AtomicU64,
    cipher: OnceLock<&'static str>,
}

impl ServedTransfers {
    /// Returns the counters of a transfer for a lane of it under a cipher. The lane is open until
    /// it drops them.
    pub(crate) fn open_lane(&self, id: TransferId, cipher: &'static str) -> Arc<ServedTransfer> {
        let mut served = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        served.retain(|_, transfer| transfer.strong_count() > 0);
        let transfer = served.get(&id).and_then(Weak::upgrade).unwrap_or_default();
        served.insert(id, Arc::downgrade(&transfer));
        transfer.cipher.get_or_init(|| cipher);
        transfer
    }

    /// Returns the figures of all transfers that have a lane.
    pub(crate) fn figures(&self) -> Vec<TransferTraffic> {
        let served = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let figures = |(id, transfer): (&TransferId, &Weak<ServedTransfer>)| {
            let transfer = transfer.upgrade()?;
            Some(TransferTraffic {
                transfer: *id,
                bytes: read(&transfer.bytes),
                // One of the references is that of this look.
                lanes: Arc::strong_count(&transfer).saturating_sub(1) as u64,
                cipher: transfer.cipher.get().copied(),
            })
        };
        served.iter().filter_map(figures).collect()
    }
}

impl ServedTransfer {
    pub(crate) fn count_bytes(&self, bytes: u64) {
        add(&self.bytes, bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    /// Promise: the bytes that the lanes of a transfer send are counted for it, while it has lanes.
    #[test]
    fn served_transfers_are_counted() {
        let served = ServedTransfers::default();
        let (one, other) = (TransferId([1; 16]), TransferId([2; 16]));
        let lanes = [served.open_lane(one, "clear"), served.open_lane(one, "clear")];
        let far = served.open_lane(other, "AES-256-GCM");
        lanes[0].count_bytes(5);
        lanes[1].count_bytes(6);
        let figures = served.figures();
        let [first, second] = &figures[..] else { panic!("{figures:?}") };
        assert_eq!((first.transfer, first.bytes, first.lanes), (one, 11, 2));
        assert_eq!((second.bytes, second.cipher), (0, Some("AES-256-GCM")));
        drop(lanes);
        assert_eq!(served.figures().len(), 1);
        assert_eq!(served.open_lane(one, "clear").bytes.load(Ordering::Relaxed), 0);
        drop(far);
    }
}
