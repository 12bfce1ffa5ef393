//! Any bytes as an image: an image that decodes must encode to the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use relive_trace::Image;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(image) = Image::decode(bytes) {
        let mut again = Vec::new();
        image.encode(&mut again);
        assert_eq!(again, bytes);
    }
});
