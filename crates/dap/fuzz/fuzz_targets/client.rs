//! Any bytes from an editor, to a whole session: it must end when they do. The command that it
//! would start does nothing. Run with `-detect_leaks=0`: the thread that reads the editor ends
//! after the session.

#![no_main]

use std::io::Cursor;
use std::path::Path;

use libfuzzer_sys::fuzz_target;

fuzz_target!(init: {
    // SAFETY: a disposition of this process, before it has other threads.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}, |bytes: &[u8]| {
    let input = Box::new(Cursor::new(bytes.to_vec()));
    // A protocol error is an answer.
    let _ = relive_dap::serve(Path::new("/bin/true"), input, Box::new(std::io::sink()));
});
