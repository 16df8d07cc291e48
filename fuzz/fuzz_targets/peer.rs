//! What a controller and a task on another host say to each other (docs/protocol.md, 15.2): hostile
//! messages are refused, or are the same ones after another journey.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_api::remote::{Down, Up};
use penstock_proto::manifest::{Page, page_digest};

fuzz_target!(|bytes: &[u8]| {
    match Up::decode(bytes) {
        // Seconds are printed and read to the last digit but one.
        Ok(Up::Figures(_)) | Err(_) => {}
        Ok(up) => assert_eq!(Up::decode(&up.encode()).unwrap(), up),
    }
    let Ok(down) = Down::decode(bytes) else { return };
    assert_eq!(Down::decode(&down.encode()).unwrap(), down);
    if let Down::Page { page: Ok(page), .. } = down {
        assert!(page.bytes.len() < bytes.len());
        // A page is what its name says, or is not used.
        if page_digest(&page.bytes) == page.digest {
            let _ = Page::decode(&page.bytes);
        }
    }
});
