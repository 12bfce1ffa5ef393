//! Any bytes from an editor, to a whole session: it must end when they do. The command that it
//! would start is one that does nothing.

#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let input = Box::new(Cursor::new(bytes.to_vec()));
    // That the bytes are no protocol is an answer.
    let _ = relive_dap::serve(Path::new("/bin/true"), input, Box::new(std::io::sink()));
});
