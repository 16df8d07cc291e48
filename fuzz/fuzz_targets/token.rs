//! Pairing tokens (docs/protocol.md, 10): any text is refused or is the token that it says.
#![no_main]

use aws_lc_rs::digest;
use data_encoding::BASE64URL_NOPAD;
use libfuzzer_sys::fuzz_target;
use penstock_net::trust::PairingToken;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        check(text);
        check(&format!("pst1:{text}"));
    }
    // The fuzzer does not find checksums, so it gets one for nothing.
    let mut content = bytes.to_vec();
    content.extend_from_slice(&digest::digest(&digest::SHA256, bytes).as_ref()[..4]);
    check(&format!("pst1:{}", BASE64URL_NOPAD.encode(&content)));
});

fn check(text: &str) {
    if let Ok(token) = text.parse::<PairingToken>() {
        assert_eq!(token.to_text().parse::<PairingToken>(), Ok(token));
    }
}
