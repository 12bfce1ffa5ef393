//! Random instructions that processors carry out as one indivisible access to memory: with a `lock`
//! prefix, or exchanges.

use iced_x86::{Decoder, DecoderOptions, Instruction};
use relive_sched::Rng;

use super::guest::DATA;
use super::raw::Raw;

/// One instruction.
pub struct Locked {
    pub raw: Raw,
    /// The place in [`FREE`] of a register with the number of a bit.
    pub bit: Option<u8>,
}

/// Encoding numbers of registers that programs compute with.
pub const FREE: [u8; 11] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11];
/// The instructions that have a register operand: opcode, whether there is one for bytes before it.
const WITH_REGISTER: [(&[u8], bool); 14] = [
    (&[0x01], true),       // add
    (&[0x09], true),       // or
    (&[0x11], true),       // adc
    (&[0x19], true),       // sbb
    (&[0x21], true),       // and
    (&[0x29], true),       // sub
    (&[0x31], true),       // xor
    (&[0x87], true),       // xchg
    (&[0x0f, 0xb1], true), // cmpxchg
    (&[0x0f, 0xc1], true), // xadd
    (&[0x0f, 0xab], false),
    (&[0x0f, 0xb3], false),
    (&[0x0f, 0xbb], false),
    (&[0x87], true),
];
/// Those of them that take the number of a bit: bts, btr, btc.
const BITS: std::ops::Range<u64> = 10..13;
/// The instructions with an extension of the opcode: opcode, extension, bytes of an immediate (4:
/// as wide as the operand, up to that).
const EXTENDED: [(&[u8], u8, u8); 16] = [
    (&[0x81], 0, 4),
    (&[0x83], 2, 1),
    (&[0x83], 3, 1),
    (&[0x81], 5, 4),
    (&[0x80], 6, 1),
    (&[0xf6], 2, 0), // not
    (&[0xf7], 2, 0),
    (&[0xf7], 3, 0), // neg
    (&[0xfe], 0, 0), // inc
    (&[0xff], 0, 0),
    (&[0xff], 1, 0),       // dec
    (&[0x0f, 0xba], 5, 1), // bts
    (&[0x0f, 0xba], 6, 1),
    (&[0x0f, 0xba], 7, 1),
    (&[0x0f, 0xc7], 1, 0), // cmpxchg8b, cmpxchg16b
    (&[0x0f, 0xc7], 1, 0),
];

/// The instruction that `seed` stands for. RIP-relative operands address `rip_data` and on.
pub fn instruction(seed: u64, rip_data: u64) -> Locked {
    let mut rng = Rng::new(seed);
    let mut bytes = vec![0xf0];
    let form = rng.below(5);
    if form == 3 {
        bytes.push(0x64);
    }
    // EIP reaches low data alone.
    if form != 3 && (form != 2 || rip_data == DATA) && rng.one_in(8) {
        bytes.push(0x67);
    }
    let narrow = rng.one_in(5);
    if narrow {
        bytes.push(0x66);
    }
    let wide = rng.one_in(2);
    let at = rng.below(WITH_REGISTER.len() as u64);
    let takes_bit = BITS.contains(&at);
    let with_register = rng.one_in(2);
    let place = rng.below(11) as u8;
    let number = FREE[usize::from(place)];
    let (opcode, field, immediate) = if with_register {
        let (opcode, has_bytes) = WITH_REGISTER[at as usize];
        let mut opcode = opcode.to_vec();
        if has_bytes && rng.one_in(4) {
            *opcode.last_mut().expect("an opcode") -= 1;
        }
        (opcode, number, 0)
    } else {
        let (opcode, field, immediate) = EXTENDED[rng.below(EXTENDED.len() as u64) as usize];
        (opcode.to_vec(), field, immediate)
    };
    let (x, b) = match form {
        0 | 4 => (0, 1),
        1 => (1, 1),
        _ => (0, 0),
    };
    let rex = 0x40 | u8::from(wide) << 3 | (field >> 3) << 2 | x << 1 | b;
    if rex != 0x40 {
        bytes.push(rex);
    }
    bytes.extend(opcode);
    // In the middle of the data, so that bits are within reach on both sides.
    let disp = 0x400 + 16 * rng.below(0x60) as u32;
    let reg = (field & 7) << 3;
    match form {
        0 | 4 => bytes.push(0x87 | reg),
        1 => bytes.extend([0x84 | reg, 0x27 | (rng.below(4) as u8) << 6]),
        2 => bytes.push(0x05 | reg),
        _ => bytes.extend([0x04 | reg, 0x25]),
    }
    bytes.extend(disp.to_le_bytes());
    let immediate = if immediate == 4 && narrow && !wide {
        2
    } else {
        immediate
    };
    bytes.extend_from_slice(&rng.word().to_le_bytes()[..usize::from(immediate)]);
    Locked {
        raw: Raw {
            relative: (form == 2).then(|| relative(&bytes, rip_data + u64::from(disp))),
            bytes,
        },
        bit: (with_register && takes_bit).then_some(place),
    }
}

/// The decoded instruction with an operand at `at`.
fn relative(bytes: &[u8], at: u64) -> Instruction {
    let mut insn = Instruction::default();
    Decoder::new(64, bytes, DecoderOptions::NONE).decode_out(&mut insn);
    insn.set_memory_displacement64(at);
    insn
}
