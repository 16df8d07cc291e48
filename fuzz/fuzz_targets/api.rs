//! Bodies of the site API (docs/protocol.md, 9 and 10), which a paired site may fill as it likes:
//! they are refused, or read back as they were, with a slicing that can be worked with.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_api::problem::Problem;
use penstock_api::scan::{ScanRequest, ScanSummary};
use penstock_api::site::{OpenScan, OpenedScan, PairHalf};
use penstock_api::transfer::{TransferReport, TransferRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, body)) = bytes.split_first() else { return };
    match which % 7 {
        0 => {
            if let Some(open) = same::<OpenScan>(body) {
                let request = ScanRequest::from(open);
                request.slicing.check().unwrap();
                request.slicing.extent_count(i64::MAX as u64);
            }
        }
        1 => drop(same::<OpenedScan>(body)),
        2 => drop(same::<PairHalf>(body)),
        3 => drop(same::<TransferRequest>(body)),
        4 => drop(serde_json::from_slice::<TransferReport>(body)),
        5 => drop(same::<ScanSummary>(body)),
        _ => drop(same::<Problem>(body)),
    }
});

/// Reads a body; what is read is the same after another journey.
fn same<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(body: &[u8]) -> Option<T> {
    let read: T = serde_json::from_slice(body).ok()?;
    let text = serde_json::to_vec(&read).unwrap();
    assert_eq!(serde_json::from_slice::<T>(&text).unwrap(), read);
    Some(read)
}
