//! Classic BPF as seccomp(2) uses it: the check of a program, and its interpreter. Pure; sees
//! nothing but the program and the data of one system call. Source: the kernel's
//! `Documentation/networking/filter.rst` and seccomp(2).

use serde::{Deserialize, Serialize};

/// One instruction, `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Insn {
    /// Operation.
    pub code: u16,
    /// Instructions to pass over if a condition holds.
    pub yes: u8,
    /// The same, if it does not.
    pub no: u8,
    /// Its constant.
    pub k: u32,
}

/// Bytes of `struct sock_filter`.
pub const INSN: usize = 8;
/// Bytes of `struct seccomp_data`.
pub const DATA: usize = 64;
/// Longest program (BPF_MAXINSNS).
pub const MOST: usize = 4096;
/// Words of scratch memory (BPF_MEMWORDS).
const WORDS: u32 = 16;

const CLASS: u16 = 0x07;
const LD: u16 = 0;
const LDX: u16 = 1;
const ST: u16 = 2;
const STX: u16 = 3;
const ALU: u16 = 4;
const JMP: u16 = 5;
const RET: u16 = 6;
const MISC: u16 = 7;
/// Source of an ALU or jump operation: X instead of the constant.
const X: u16 = 0x08;
const ABS: u16 = 0x20;
const MEM: u16 = 0x60;
const LEN: u16 = 0x80;
const RET_A: u16 = 0x10;
const TXA: u16 = 0x80;

const ADD: u16 = 0x00;
const SUB: u16 = 0x10;
const MUL: u16 = 0x20;
const DIV: u16 = 0x30;
const OR: u16 = 0x40;
const AND: u16 = 0x50;
const LSH: u16 = 0x60;
const RSH: u16 = 0x70;
const NEG: u16 = 0x80;
const XOR: u16 = 0xa0;

const JA: u16 = 0x00;
const JEQ: u16 = 0x10;
const JGT: u16 = 0x20;
const JGE: u16 = 0x30;
const JSET: u16 = 0x40;

impl Insn {
    /// From the bytes of `struct sock_filter`.
    #[must_use]
    pub fn decode(b: &[u8; INSN]) -> Self {
        Self {
            code: u16::from_le_bytes([b[0], b[1]]),
            yes: b[2],
            no: b[3],
            k: u32::from_le_bytes([b[4], b[5], b[6], b[7]]),
        }
    }
}

/// Whether the kernel would take the program: known operations, all jumps inside and forwards,
/// loads of whole words of the data, scratch words written before they are read, an end.
#[must_use]
pub fn check(program: &[Insn]) -> bool {
    let n = program.len();
    if n == 0 || n > MOST || program[n - 1].code & CLASS != RET {
        return false;
    }
    // The scratch words that are written on every way to an instruction.
    let mut written = vec![u16::MAX; n];
    let mut now = 0u16;
    for (at, i) in program.iter().enumerate() {
        now &= written[at];
        let left = n - 1 - at;
        let fine = match i.code & CLASS {
            LD if i.code == LD | ABS => i.k < DATA as u32 && i.k.is_multiple_of(4),
            LD | LDX => match i.code & !CLASS {
                0 | LEN => true,
                MEM => i.k < WORDS && now >> i.k & 1 == 1,
                _ => false,
            },
            ST | STX if i.code & !CLASS == 0 && i.k < WORDS => {
                now |= 1 << i.k;
                true
            }
            ALU => match i.code & !(CLASS | X) {
                ADD | SUB | MUL | OR | AND | XOR => true,
                DIV => i.code & X != 0 || i.k != 0,
                LSH | RSH => i.code & X != 0 || i.k < 32,
                NEG => i.code == ALU | NEG,
                _ => false,
            },
            JMP if i.code == JMP | JA => {
                let inside = (i.k as usize) < left;
                if inside {
                    written[at + 1 + i.k as usize] &= now;
                }
                now = u16::MAX;
                inside
            }
            JMP => {
                let known = matches!(i.code & !(CLASS | X), JEQ | JGT | JGE | JSET);
                let inside = usize::from(i.yes.max(i.no)) < left;
                if known && inside {
                    written[at + 1 + usize::from(i.yes)] &= now;
                    written[at + 1 + usize::from(i.no)] &= now;
                }
                now = u16::MAX;
                known && inside
            }
            RET => matches!(i.code & !CLASS, 0 | RET_A),
            MISC => matches!(i.code & !CLASS, 0 | TXA),
            _ => false,
        };
        if !fine {
            return false;
        }
    }
    true
}

/// The result of a checked program for one system call.
#[must_use]
pub fn run(program: &[Insn], data: &[u8; DATA]) -> u32 {
    let (mut a, mut x) = (0u32, 0u32);
    let mut scratch = [0u32; WORDS as usize];
    let mut at = 0;
    while let Some(&i) = program.get(at) {
        at += 1;
        let operand = if i.code & X != 0 { x } else { i.k };
        match i.code & CLASS {
            class @ (LD | LDX) => {
                let value = match i.code & !CLASS {
                    ABS => word(data, i.k),
                    MEM => scratch[(i.k % WORDS) as usize],
                    LEN => DATA as u32,
                    _ => i.k,
                };
                *(if class == LD { &mut a } else { &mut x }) = value;
            }
            ST => scratch[(i.k % WORDS) as usize] = a,
            STX => scratch[(i.k % WORDS) as usize] = x,
            ALU => match arithmetic(i.code & !(CLASS | X), a, operand) {
                Some(value) => a = value,
                // A division by zero ends the program.
                None => return 0,
            },
            JMP if i.code == JMP | JA => at += i.k as usize,
            JMP => {
                let holds = match i.code & !(CLASS | X) {
                    JEQ => a == operand,
                    JGT => a > operand,
                    JGE => a >= operand,
                    _ => a & operand != 0,
                };
                at += usize::from(if holds { i.yes } else { i.no });
            }
            RET => return if i.code & RET_A != 0 { a } else { i.k },
            _ if i.code & TXA != 0 => a = x,
            _ => x = a,
        }
    }
    0
}

fn word(data: &[u8; DATA], at: u32) -> u32 {
    let bytes = data.get(at as usize..).and_then(|b| b.first_chunk());
    u32::from_le_bytes(bytes.copied().unwrap_or_default())
}

fn arithmetic(op: u16, a: u32, b: u32) -> Option<u32> {
    Some(match op {
        ADD => a.wrapping_add(b),
        SUB => a.wrapping_sub(b),
        MUL => a.wrapping_mul(b),
        DIV => return a.checked_div(b),
        OR => a | b,
        AND => a & b,
        XOR => a ^ b,
        LSH => a.wrapping_shl(b),
        RSH => a.wrapping_shr(b),
        _ => a.wrapping_neg(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn insn(code: u16, yes: u8, no: u8, k: u32) -> Insn {
        Insn { code, yes, no, k }
    }

    #[test]
    fn a_program_decides_by_the_data() {
        let program = [
            insn(LD | ABS, 0, 0, 0),
            insn(JMP | JEQ, 0, 1, 39),
            insn(RET, 0, 0, 7),
            insn(RET, 0, 0, 9),
        ];
        assert!(check(&program));
        let mut data = [0; DATA];
        assert_eq!(run(&program, &data), 9);
        data[0] = 39;
        assert_eq!(run(&program, &data), 7);
    }

    #[test]
    fn scratch_memory_and_arithmetic() {
        let program = [
            insn(LD, 0, 0, 6),
            insn(ST, 0, 0, 3),
            insn(LDX | MEM, 0, 0, 3),
            insn(ALU | MUL | X, 0, 0, 0),
            insn(ALU | LSH, 0, 0, 2),
            insn(ALU | NEG, 0, 0, 0),
            insn(RET | RET_A, 0, 0, 0),
        ];
        assert!(check(&program));
        assert_eq!(run(&program, &[0; DATA]), 144u32.wrapping_neg());
    }

    #[test]
    fn programs_that_could_go_astray_are_refused() {
        let ret = insn(RET, 0, 0, 0);
        let bad = [
            vec![],
            vec![insn(LD, 0, 0, 0)],
            vec![insn(LD | ABS, 0, 0, 3), ret],
            vec![insn(LD | ABS, 0, 0, 64), ret],
            vec![insn(LD | MEM, 0, 0, 0), ret],
            vec![insn(JMP | JA, 0, 0, 1), ret],
            vec![insn(JMP | JEQ, 0, 1, 0), ret],
            vec![insn(ALU | DIV, 0, 0, 0), ret],
            vec![insn(0x28, 0, 0, 0), ret],
            // Written on one of two ways only.
            vec![
                insn(JMP | JEQ, 0, 1, 0),
                insn(ST, 0, 0, 1),
                insn(LD | MEM, 0, 0, 1),
                ret,
            ],
        ];
        for program in &bad {
            assert!(!check(program), "{program:?}");
        }
    }
}
