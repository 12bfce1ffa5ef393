//! Any bytes as a part of a file: its runs lie in order, inside of the part and of the bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use relive_trace::{Encoded, PartReader};

fuzz_target!(|bytes: &[u8]| {
    let Ok(mut reader) = PartReader::new(Encoded::Inline(bytes)) else {
        return;
    };
    let (part, mut least, mut total) = (reader.part(), 0, 0);
    while let Ok(Some(run)) = reader.run() {
        assert!(run.offset >= part.start.max(least) && run.len > 0);
        least = run.offset + run.len;
        assert!(least <= part.end.min(part.size));
        total += run.len as usize;
        assert!(total < bytes.len());
        let mut there = vec![0; run.len as usize];
        reader.read(&run, &mut there, 0).expect("it is there");
    }
});
