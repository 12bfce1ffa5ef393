//! Any bytes as a tape's file, and a replay of it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use relive_rpc::{Session, Tape};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(tape) = Tape::parse(bytes) {
        let process = tape.process.to_string();
        let _ = Session::replay_tapes(vec![tape], &process, None);
    }
});
