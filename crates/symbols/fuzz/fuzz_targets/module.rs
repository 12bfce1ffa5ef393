//! Any bytes as an ELF file: every query returns.

#![no_main]

use libfuzzer_sys::fuzz_target;
use relive_symbols::{Kind, Module, sources};

fuzz_target!(|bytes: &[u8]| {
    let Some(module) = Module::parse(bytes) else {
        return;
    };
    let _ = sources(&module);
    for address in [0, 0x1000, 0x1139, 0x40_1000, u64::MAX] {
        let _ = module.symbol_at(address);
        let _ = module.lines_at(address);
    }
    let _ = module.symbols_named("main", Kind::Function);
});
