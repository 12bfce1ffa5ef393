//! Conditions of breakpoints, evaluated where they are hit: gdb's agent expressions (the
//! appendix "The GDB Agent Expression Mechanism" of its manual). An expression comes from a
//! debugger that is not trusted: it can read the guest's registers and memory, and nothing
//! else. An expression that cannot be evaluated counts as true, so that the debugger looks itself.

use relive_host::Context;

/// Values on the stack, at most.
const DEPTH: usize = 256;
/// Steps at one breakpoint, at most: of all its conditions together, for a run that passes it
/// often is to be interrupted soon.
const STEPS: usize = 10_000;

/// Encoding numbers of gdb's general registers 0 to 15.
const GENERAL: [usize; 16] = [0, 3, 1, 2, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15];

/// Reads all of these bytes, if all of them are the guest's.
type Read<'a> = &'a dyn Fn(u64, &mut [u8]) -> bool;

/// Whether one of the conditions holds.
pub fn holds(conditions: &[Vec<u8>], ctx: &Context, read: Read<'_>) -> bool {
    let mut steps = STEPS;
    conditions
        .iter()
        .any(|code| evaluate(code, ctx, read, &mut steps).is_none_or(|value| value != 0))
}

/// The value of an expression; `None` if it has none, or none after so many steps.
fn evaluate(code: &[u8], ctx: &Context, read: Read<'_>, steps: &mut usize) -> Option<u64> {
    let mut machine = BytecodeMachine {
        code,
        at: 0,
        stack: Vec::new(),
    };
    while *steps > 0 {
        *steps -= 1;
        if machine.step(ctx, read)? {
            return machine.pop();
        }
    }
    None
}

struct BytecodeMachine<'c> {
    code: &'c [u8],
    at: usize,
    stack: Vec<u64>,
}

impl BytecodeMachine<'_> {
    fn pop(&mut self) -> Option<u64> {
        self.stack.pop()
    }

    fn push(&mut self, value: u64) -> Option<()> {
        (self.stack.len() < DEPTH).then(|| self.stack.push(value))
    }

    /// The next `n` bytes of the code, most significant first.
    fn number(&mut self, n: usize) -> Option<u64> {
        let bytes = self.code.get(self.at..self.at + n)?;
        self.at += n;
        Some(bytes.iter().fold(0, |v, b| v << 8 | u64::from(*b)))
    }

    fn two(&mut self, f: impl FnOnce(u64, u64) -> Option<u64>) -> Option<()> {
        let (b, a) = (self.pop()?, self.pop()?);
        self.push(f(a, b)?)
    }

    /// One operation; whether it was the end.
    fn step(&mut self, ctx: &Context, read: Read<'_>) -> Option<bool> {
        let op = self.number(1)?;
        match op {
            0x02 => self.two(|a, b| Some(a.wrapping_add(b)))?,
            0x03 => self.two(|a, b| Some(a.wrapping_sub(b)))?,
            0x04 => self.two(|a, b| Some(a.wrapping_mul(b)))?,
            0x05 => self.two(|a, b| (a as i64).checked_div(b as i64).map(|v| v as u64))?,
            0x06 => self.two(u64::checked_div)?,
            0x07 => self.two(|a, b| (a as i64).checked_rem(b as i64).map(|v| v as u64))?,
            0x08 => self.two(u64::checked_rem)?,
            0x09 => self.two(|a, b| Some(a.checked_shl(b as u32).unwrap_or(0)))?,
            0x0a => self.two(|a, b| Some(((a as i64) >> b.min(63)) as u64))?,
            0x0b => self.two(|a, b| Some(a.checked_shr(b as u32).unwrap_or(0)))?,
            0x0e => {
                let a = self.pop()?;
                self.push(u64::from(a == 0))?;
            }
            0x0f => self.two(|a, b| Some(a & b))?,
            0x10 => self.two(|a, b| Some(a | b))?,
            0x11 => self.two(|a, b| Some(a ^ b))?,
            0x12 => {
                let a = self.pop()?;
                self.push(!a)?;
            }
            0x13 => self.two(|a, b| Some(u64::from(a == b)))?,
            0x14 => self.two(|a, b| Some(u64::from((a as i64) < b as i64)))?,
            0x15 => self.two(|a, b| Some(u64::from(a < b)))?,
            // Sign and zero extension from so many bits.
            0x16 | 0x2a => {
                let unused = 64u32.checked_sub(self.number(1)? as u32)?;
                let shifted = self.pop()?.checked_shl(unused)?;
                self.push(match op {
                    0x16 => ((shifted as i64) >> unused) as u64,
                    _ => shifted >> unused,
                })?;
            }
            0x17..=0x1a => {
                let mut bytes = [0; 8];
                let n = 1 << (op - 0x17);
                read(self.pop()?, &mut bytes[..n]).then_some(())?;
                self.push(u64::from_le_bytes(bytes))?;
            }
            0x20 => {
                let to = self.number(2)? as usize;
                if self.pop()? != 0 {
                    self.at = to;
                }
            }
            0x21 => self.at = self.number(2)? as usize,
            0x22..=0x25 => {
                let value = self.number(1 << (op - 0x22))?;
                self.push(value)?;
            }
            0x26 => {
                let value = match self.number(2)? as usize {
                    n @ 0..16 => ctx.gpr[GENERAL[n]],
                    16 => ctx.rip,
                    17 => ctx.rflags,
                    _ => return None,
                };
                self.push(value)?;
            }
            0x27 => return Some(true),
            0x28 => {
                let top = *self.stack.last()?;
                self.push(top)?;
            }
            0x29 => {
                self.pop()?;
            }
            0x2b => {
                let n = self.stack.len();
                (n >= 2).then(|| self.stack.swap(n - 1, n - 2))?;
            }
            0x32 => {
                let n = self.number(1)? as usize;
                let at = self.stack.len().checked_sub(n + 1)?;
                self.push(self.stack[at])?;
            }
            0x33 => {
                let n = self.stack.len().checked_sub(3)?;
                self.stack[n..].rotate_right(1);
            }
            _ => return None,
        }
        Some(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_evaluated() {
        let mut ctx = Context::new();
        ctx.gpr[7] = 0xffff_ffff_0000_004d;
        let value = |code: &[u8]| {
            let mut steps = STEPS;
            evaluate(code, &ctx, &|_, _| false, &mut steps)
        };
        // reg rdi; zero_ext 32; const8 77; equal; end
        assert_eq!(value(b"\x26\x00\x05\x2a\x20\x22\x4d\x13\x27"), Some(1));
        // reg rdi; ext 64; const8 0; less_signed; end
        assert_eq!(value(b"\x26\x00\x05\x16\x40\x22\x00\x14\x27"), Some(1));
        // const16 0x1234; const8 4; rsh_unsigned; const8 0xff; bit_and; end
        assert_eq!(
            value(b"\x23\x12\x34\x22\x04\x0b\x22\xff\x0f\x27"),
            Some(0x23)
        );
        // const8 1; if_goto 8; const8 7; end; const8 9; end
        assert_eq!(
            value(b"\x22\x01\x20\x00\x08\x22\x07\x27\x22\x09\x27"),
            Some(9)
        );
    }

    #[test]
    fn bad_expressions_have_no_value_and_end() {
        let ctx = Context::new();
        for code in [
            &b""[..],
            b"\x27",
            b"\x02\x27",
            b"\x22\x01\x22\x00\x05\x27",
            b"\x26\x01\x00\x27",
            b"\x21\x00\x00",
            b"\x22\x01\x16\x41\x27",
            b"\x22\x01\x21\x00\x00",
            b"\x32\x00\x27",
            b"\xff",
        ] {
            let mut steps = STEPS;
            assert_eq!(
                evaluate(code, &ctx, &|_, _| false, &mut steps),
                None,
                "{code:x?}"
            );
        }
        let nothing: Read<'_> = &|_, _| false;
        // Many that never end take no longer than one.
        let endless = vec![b"\x21\x00\x00".to_vec(); 1 << 20];
        assert!(holds(&endless, &ctx, nothing));
        assert!(holds(&[vec![]], &ctx, nothing) && !holds(&[vec![0x22, 0, 0x27]], &ctx, nothing));
    }
}
