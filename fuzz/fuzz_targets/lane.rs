//! What comes over a lane after its hello (docs/protocol.md, 3): raw bytes, and bytes that a
//! hostile peer has protected as it should, as TLS records and as frames in clear.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_net::fuzz;

fuzz_target!(|bytes: &[u8]| {
    let Some((&how, bytes)) = bytes.split_first() else { return };
    match how % 4 {
        0 => fuzz::tls_raw(bytes),
        1 => fuzz::tls_sealed(bytes),
        2 => fuzz::clear_raw(bytes),
        _ => fuzz::clear_sealed(bytes),
    }
});
