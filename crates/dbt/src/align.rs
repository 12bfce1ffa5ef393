//! Alignment of branches and fragments.
//!
//! The displacement of each branch lies in one cache line, so that one store can change it while
//! The displacement of each branch lies in one cache line, so that one store can change it while
//! other threads execute it: no-operations move emitted code so that no branch crosses or ends a
//! line. The Skylake family of Intel's processors, with the microcode against its "jump conditional
//! code" erratum, does not cache decoded code in a block of 32 bytes that a branch crosses or ends:
//! such code is decoded anew each time, which made a translated sort a fifth slower. On these
//! processors branches keep to such blocks. Elsewhere the no-operations only cost: a translated fib
//! was a seventh slower with them (AMD, Zen 3).
//!
//! Fragments start at the start of a line, or of half a line where there are too many of them for
//! that: fib, sort and sqlite gained a tenth over starts at multiples of 16 (Zen 3).

/// Length of a cache line.
pub(crate) const LINE: u32 = 64;
/// Length of the blocks in which Intel's processors cache decoded code.
pub(crate) const SHORT: u32 = 32;
/// Up to this many bytes of fragments each fragment has lines of its own: the second-level caches
/// of present processors hold them easily.
const SPACIOUS: u32 = 256 << 10;

/// The start of a fragment behind `used` bytes of fragments that end at `at`.
pub(crate) fn start(at: u32, used: u32) -> u32 {
    at.next_multiple_of(if used < SPACIOUS { LINE } else { LINE / 2 })
}

/// The padding in front of code of `len` bytes at `at`.
pub(crate) fn padding(at: u32, len: u32, block: u32) -> u32 {
    let over = at % block;
    debug_assert!(len < block, "{len} bytes can not be kept whole");
    if over + len >= block { block - over } else { 0 }
}

/// No-operations of this many bytes.
pub(crate) fn nops(bytes: u32) -> impl Iterator<Item = u8> {
    const NOPS: [&[u8]; 10] = [
        &[],
        &[0x90],
        &[0x66, 0x90],
        &[0x0f, 0x1f, 0x00],
        &[0x0f, 0x1f, 0x40, 0x00],
        &[0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
        &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
        &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
        &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
    ];
    let longest = NOPS.len() as u32 - 1;
    let parts = (0..bytes.div_ceil(longest)).map(move |i| (bytes - i * longest).min(longest));
    parts.flat_map(|n| NOPS[n as usize].iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emit::Asm;
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};

    const BASE: u32 = 0x4000_0000;

    fn whole(from: u32, to: u32, block: u32) -> bool {
        from / block == to / block
    }

    #[test]
    fn branches_neither_cross_nor_end_a_block() {
        let places = (0..64).flat_map(|s| (1..21).map(move |l| (s, l)));
        for ((start, len), block) in places.flat_map(|p| [(p, SHORT), (p, LINE)]) {
            let mut asm = Asm::in_blocks(block);
            asm.start(BASE + start);
            asm.keep_whole(len);
            assert!(whole(asm.here(), asm.here() + len, block));
            let moved = asm.here() - BASE - start;
            assert!(moved == 0 || !whole(BASE + start, BASE + start + len, block));
            let decoder = Decoder::with_ip(64, &asm.buf, 0, DecoderOptions::NONE);
            assert!(decoder.into_iter().all(|i| i.mnemonic() == Mnemonic::Nop));
        }
    }

    #[test]
    fn what_a_branch_is_fused_with_moves_along() {
        const TEST: [u8; 3] = [0x48, 0x85, 0xc0];
        for (start, block) in (0..64).flat_map(|s| [(s, SHORT), (s, LINE)]) {
            let mut asm = Asm::in_blocks(block);
            asm.start(BASE);
            asm.bytes(&vec![0xcc; start]);
            asm.bytes(&TEST);
            let moved = asm.keep_whole_from(start, 6) as usize;
            let at = BASE + (start + moved) as u32;
            assert!(whole(at, at + 9, block));
            assert_eq!(asm.buf[start + moved..], TEST);
            assert_eq!(asm.buf[..start], vec![0xcc; start]);
        }
    }
}
