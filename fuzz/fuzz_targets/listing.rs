//! What one peer lists for another (docs/protocol.md, 15): a hostile request names nothing outside
//! of a data set, a hostile answer is refused or is bounded, and both encode to the same bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_proto::listing::{LISTED_ENTRIES_MAX, ListPart, ListWork, PART_BYTES_MAX, PartBuffer};
use penstock_proto::name;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(work) = ListWork::decode(bytes) {
        assert_eq!(work.encode(), bytes);
        if let ListWork::Directories(directories) = work {
            directories.iter().for_each(|path| name::check_relative(path).unwrap());
        }
    }
    if let Ok(part) = ListPart::decode(bytes) {
        assert_eq!(&part.encode_framed(Vec::new())[4..], bytes);
    }
    let mut buffer = PartBuffer::default();
    for bytes in bytes.chunks(7) {
        buffer.push(bytes);
        loop {
            match buffer.next_part() {
                Ok(Some(ListPart::Found { entries, .. })) => {
                    assert!(entries.len() <= LISTED_ENTRIES_MAX && bytes.len() < PART_BYTES_MAX);
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
});
