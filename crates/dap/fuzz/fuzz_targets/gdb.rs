//! Any bytes from gdb: each line is a record, and text quoted for gdb is one word of one line.

#![no_main]

use libfuzzer_sys::fuzz_target;
use relive_dap::mi::{Record, parse, quote};

fuzz_target!(|bytes: &[u8]| {
    for line in bytes.split(|b| *b == b'\n') {
        parse(line);
    }
    let quoted = quote(&String::from_utf8_lossy(bytes));
    assert!(!quoted.contains(['\n', '\r']));
    let said = parse(format!("~{quoted}").as_bytes());
    assert!(matches!(said, Record::Console(_)));
});
