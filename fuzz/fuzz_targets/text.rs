//! Text that people, files and other sites write: names, places, paths, sizes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use penstock_api::transfer::Location;
use penstock_proto::id::{Name, PeerId, TransferId};
use penstock_proto::name;
use penstock_proto::units::{format_bytes, parse_size};
use penstock_store::{MemSpec, StoreFingerprint};

fuzz_target!(|bytes: &[u8]| {
    assert_eq!(name::unescape(&name::escape(bytes)).as_deref(), Some(bytes));
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = name::unescape(text);
    if let Ok(bytes) = parse_size(text) {
        format_bytes(bytes);
    }
    let _ = text.parse::<MemSpec>();
    if let Ok(name) = text.parse::<Name>() {
        assert!(name::is_component(name.as_str().as_bytes()));
    }
    if let Ok(id) = text.parse::<TransferId>() {
        assert_eq!(id.to_string(), text.to_ascii_lowercase());
    }
    if let Some(peer) = PeerId::from_uri(text) {
        assert_eq!(peer.uri(), text);
    }
    if let Ok(fingerprint) = text.parse::<StoreFingerprint>() {
        assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
    }
    if let Ok(location) = text.parse::<Location>() {
        name::check_relative(&location.path.0).unwrap();
    }
});
