//! Any bytes as a peer's header: refused, or exactly the text that would be written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use relive_rpc::{Header, Mark};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(header) = Header::parse(bytes) {
        assert_eq!(header.to_text().as_bytes(), bytes);
    }
    if let Ok(mark) = Mark::parse(bytes) {
        assert_eq!(mark.to_text().as_bytes(), bytes);
    }
});
