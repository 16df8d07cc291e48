//! What a controller and a task on another host say to each other (docs/protocol.md, 15.2): hostile
//! messages are refused, or are the same ones after another journey.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_api::rpc::task::{ControllerMessage, PeerMessage};
use penstock_proto::manifest::{Page, page_digest};

fuzz_target!(|bytes: &[u8]| {
    match PeerMessage::decode(bytes) {
        // Seconds are printed and read to the last digit but one.
        Ok(PeerMessage::Figures(_)) | Err(_) => {}
        Ok(up) => assert_eq!(PeerMessage::decode(&up.encode()).unwrap(), up),
    }
    let Ok(down) = ControllerMessage::decode(bytes) else { return };
    assert_eq!(ControllerMessage::decode(&down.encode()).unwrap(), down);
    if let ControllerMessage::Page { page: Ok(page), .. } = down {
        assert!(page.bytes.len() < bytes.len());
        // A page is what its name says, or is not used.
        if page_digest(&page.bytes) == page.digest {
            let _ = Page::decode(&page.bytes);
        }
    }
});
