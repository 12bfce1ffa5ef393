//! Any bytes as a tape: events that decode must encode to the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use relive_trace::{Decoder, Encoder};

fuzz_target!(|bytes: &[u8]| {
    let (mut decoder, mut encoder) = (Decoder::new(), Encoder::new());
    let (mut at, mut again) = (0, Vec::new());
    while let Ok((event, length)) = decoder.decode(&bytes[at..]) {
        assert!(length > 0);
        encoder.encode(&event, &mut again);
        at += length;
    }
    assert_eq!(again, bytes[..at]);
});
