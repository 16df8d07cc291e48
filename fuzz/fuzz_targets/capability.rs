//! Capabilities (docs/protocol.md, 8): nothing unsigned is believed, and what is signed reads back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_net::trust::verify_capability;
use penstock_proto::capability::Capability;

fuzz_target!(|bytes: &[u8]| {
    assert!(verify_capability(bytes, &[7; 32], 0).is_err());
    if let Ok(capability) = Capability::decode(bytes) {
        assert_eq!(capability.encode(), bytes);
    }
});
