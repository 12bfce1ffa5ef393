//! The debug log of every fragment (tracing target `dbt`, level debug): guest code and the code
//! emitted for it. It must never influence translation.

use std::fmt::Write;

use iced_x86::{Decoder, DecoderOptions, FastFormatter, Instruction};
use relive_host::GuestAddr;

use crate::code::Code;
use crate::entry::Entry;
use crate::translator::Translator;

impl Translator {
    /// Logs fragment `id`, just translated with entry `kind` in line.
    pub(crate) fn log_fragment(&self, code: &dyn Code, id: u32, kind: Entry) {
        if !tracing::enabled!(target: "dbt", tracing::Level::DEBUG) {
            return;
        }
        let fragment = self.frags.get(id);
        let mut guest = Vec::new();
        let mut chunk = [0; 16];
        while (guest.len() as u64) < fragment.end - fragment.pc {
            let n = code.fetch(GuestAddr(fragment.pc + guest.len() as u64), &mut chunk);
            guest.extend_from_slice(&chunk[..n.min(16)]);
            if n < 16 {
                break;
            }
        }
        guest.truncate((fragment.end - fragment.pc) as usize);
        let start = fragment.entry(kind).unwrap_or(fragment.plain());
        let used = self.exits.cache.used().0 + relive_host::layout::CACHE_START as u32;
        let emitted = self.exits.cache.read(start, used - start);
        let (pc, step) = (GuestAddr(fragment.pc), fragment.step);
        let text = listing(&guest, fragment.pc) + " =>\n" + &listing(&emitted, u64::from(start));
        tracing::debug!(target: "dbt", id, %pc, ?kind, step, "fragment\n{text}");
    }
}

fn listing(code: &[u8], at: u64) -> String {
    let mut decoder = Decoder::with_ip(64, code, at, DecoderOptions::NONE);
    let mut formatter = FastFormatter::new();
    let mut insn = Instruction::default();
    let mut text = String::new();
    while decoder.can_decode() {
        let start = decoder.position();
        decoder.decode_out(&mut insn);
        let bytes: String =
            code[start..decoder.position()]
                .iter()
                .fold(String::new(), |mut s, b| {
                    // Writing to a String cannot fail.
                    let _ = write!(s, "{b:02x}");
                    s
                });
        let _ = write!(text, "  {:x} {bytes:30} ", insn.ip());
        formatter.format(&insn, &mut text);
        text.push('\n');
    }
    text
}
