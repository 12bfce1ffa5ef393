//! Instructions whose outcome is not determined by guest state: the engine provides the values, and
//! this module stores them in the instruction's destinations.

use iced_x86::{Code, Instruction, Register};
use relive_host::{Context, GuestAddr, Reg, layout, reading};

use crate::flags::ARITHMETIC;

/// Operand size of a general register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Width {
    W16,
    W32,
    W64,
}

/// The instruction raises a general protection fault instead of having a result; the
/// context is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("general protection fault")]
pub struct GeneralProtection;

/// An instruction for the engine to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum InstrOp {
    /// Values: time stamp counter.
    Rdtsc,
    /// Values: time stamp counter, TSC_AUX.
    Rdtscp,
    /// Values: eax, ebx, ecx, edx (for leaf `ctx` eax, subleaf ecx).
    Cpuid,
    /// Values: random number, 1 for success.
    Rdrand { reg: u8, width: Width },
    /// Values: random number, 1 for success.
    Rdseed { reg: u8, width: Width },
    /// Values: TSC_AUX.
    Rdpid { reg: u8 },
    /// Values: the extended control register that ecx names (0 or 1).
    Xgetbv,
    /// Values: seconds, nanoseconds; -1 nanoseconds for a clock that is not readable. The clock is
    /// in edi. Not an instruction of the processor: code of [`layout::in_vdso`] only.
    Clock,
    /// Values: processor, node. The same.
    Cpu,
    /// Values: none; the new FS base comes from the context.
    WrFsBase { reg: u8, width: Width },
    /// The same for GS.
    WrGsBase { reg: u8, width: Width },
    /// Value: the top of the stack. The engine handles the trap flag in it.
    Popf { narrow: bool },
    /// Values: none; the GS base goes into a register.
    RdGsBase { reg: u8, width: Width },
    /// Values: none. A selector for FS or GS: the base is 0 then.
    LoadBase { reg: u8, gs: bool },
    /// Values: TSC_AUX, which is the limit of one descriptor. The selector is in `from`.
    Lsl { reg: u8, width: Width, from: u8 },
}

const CARRY: u64 = 1;
const ZERO: u64 = 1 << 6;
/// [`InstrOp::to_bytes`]: the first of three tags, for each width.
const LSL: u8 = 14;
/// Flags that a program may pop, without the trap flag: arithmetic, DF, NT, AC, ID.
const POPPED: u64 = 0x24_4cd5;

impl Width {
    const ALL: [Self; 3] = [Self::W16, Self::W32, Self::W64];
}

impl InstrOp {
    /// As three bytes, for later processes.
    pub(crate) fn to_bytes(self) -> [u8; 3] {
        match self {
            Self::Rdtsc => [0, 0, 0],
            Self::Rdtscp => [1, 0, 0],
            Self::Cpuid => [2, 0, 0],
            Self::Rdrand { reg, width } => [3, reg, width as u8],
            Self::Rdseed { reg, width } => [4, reg, width as u8],
            Self::Rdpid { reg } => [5, reg, 0],
            Self::Xgetbv => [6, 0, 0],
            Self::WrFsBase { reg, width } => [7, reg, width as u8],
            Self::Clock => [8, 0, 0],
            Self::Cpu => [9, 0, 0],
            Self::WrGsBase { reg, width } => [10, reg, width as u8],
            Self::RdGsBase { reg, width } => [11, reg, width as u8],
            Self::Popf { narrow } => [12, narrow.into(), 0],
            Self::LoadBase { reg, gs } => [13, reg, gs.into()],
            Self::Lsl { reg, width, from } => [LSL + width as u8, reg, from],
        }
    }

    /// The inverse of [`InstrOp::to_bytes`].
    pub(crate) fn from_bytes([tag, reg, width]: [u8; 3]) -> Option<Self> {
        if let Some(&of) = tag
            .checked_sub(LSL)
            .and_then(|n| Width::ALL.get(usize::from(n)))
        {
            return (reg < 16 && width < 16).then_some(Self::Lsl {
                reg,
                width: of,
                from: width,
            });
        }
        let width = *Width::ALL.get(usize::from(width))?;
        let reg = (reg < 16).then_some(reg)?;
        Some(match tag {
            0 => Self::Rdtsc,
            1 => Self::Rdtscp,
            2 => Self::Cpuid,
            3 => Self::Rdrand { reg, width },
            4 => Self::Rdseed { reg, width },
            5 => Self::Rdpid { reg },
            6 => Self::Xgetbv,
            7 => Self::WrFsBase { reg, width },
            8 => Self::Clock,
            9 => Self::Cpu,
            10 => Self::WrGsBase { reg, width },
            11 => Self::RdGsBase { reg, width },
            12 => Self::Popf { narrow: reg != 0 },
            13 => Self::LoadBase {
                reg,
                gs: width as u8 != 0,
            },
            _ => return None,
        })
    }

    /// Executes the instruction with the outcome `values` (see the variants; the rest is
    /// ignored): writes registers and flags and moves `ctx.rip` to `next`.
    ///
    /// # Errors
    /// The instruction faults; nothing has changed.
    pub fn apply(
        self,
        ctx: &mut Context,
        next: GuestAddr,
        values: [u64; 4],
    ) -> Result<(), GeneralProtection> {
        let low = |v: u64| v & 0xffff_ffff;
        match self {
            Self::Clock | Self::Cpu => {
                ctx.set_reg(Reg::Rax, values[0]);
                ctx.set_reg(Reg::Rdx, values[1]);
            }
            Self::Rdtsc | Self::Rdtscp => {
                ctx.set_reg(Reg::Rax, low(values[0]));
                ctx.set_reg(Reg::Rdx, values[0] >> 32);
                if self == Self::Rdtscp {
                    ctx.set_reg(Reg::Rcx, low(values[1]));
                }
            }
            Self::Cpuid => {
                for (reg, value) in [Reg::Rax, Reg::Rbx, Reg::Rcx, Reg::Rdx]
                    .into_iter()
                    .zip(values)
                {
                    ctx.set_reg(reg, low(value));
                }
            }
            Self::Rdrand { reg, width } | Self::Rdseed { reg, width } => {
                let ok = values[1] & CARRY;
                set(ctx, reg, width, if ok == 1 { values[0] } else { 0 });
                ctx.rflags = ctx.rflags & !u64::from(ARITHMETIC) | ok;
            }
            Self::Rdpid { reg } => ctx.gpr[reg as usize] = low(values[0]),
            Self::Xgetbv => {
                if low(ctx.reg(Reg::Rcx)) > 1 {
                    return Err(GeneralProtection);
                }
                ctx.set_reg(Reg::Rax, low(values[0]));
                ctx.set_reg(Reg::Rdx, values[0] >> 32);
            }
            Self::Popf { narrow } => {
                let (kept, size) = if narrow { (0xffff, 2) } else { (u64::MAX, 8) };
                let set = POPPED & kept;
                ctx.rflags = ctx.rflags & !set | values[0] & set | 2;
                ctx.set_reg(Reg::Rsp, ctx.reg(Reg::Rsp).wrapping_add(size));
            }
            Self::RdGsBase { reg, width } => set(ctx, reg, width, ctx.guest_gs),
            Self::LoadBase { reg, gs } => {
                let selector = ctx.gpr[reg as usize] as u16;
                if selector > RPL && !descriptor(selector) {
                    return Err(GeneralProtection);
                }
                match gs {
                    true => ctx.guest_gs = 0,
                    false => ctx.guest_fs = 0,
                }
            }
            Self::Lsl { reg, width, from } => {
                let selector = ctx.gpr[from as usize] as u16;
                let there = descriptor(selector);
                if there {
                    let limit = match selector & !RPL {
                        CPU_NODE => low(values[0]),
                        _ => 0xffff_ffff,
                    };
                    set(ctx, reg, width, limit);
                }
                ctx.rflags = ctx.rflags & !ZERO | if there { ZERO } else { 0 };
            }
            Self::WrFsBase { reg, width } | Self::WrGsBase { reg, width } => {
                let value = ctx.gpr[reg as usize];
                let base = if width == Width::W64 {
                    value
                } else {
                    low(value)
                };
                if !is_canonical(base) {
                    return Err(GeneralProtection);
                }
                match self {
                    Self::WrFsBase { .. } => ctx.guest_fs = base,
                    _ => ctx.guest_gs = base,
                }
            }
        }
        ctx.rip = next.0;
        Ok(())
    }

    /// The operation of an undefined instruction that reads clocks: `ud1` with eax as the second
    /// operand and eax (a clock) or ecx (the processor) as the first.
    pub(crate) fn of_vdso(insn: &Instruction) -> Option<Self> {
        if insn.code() != Code::Ud1_r32_rm32
            || insn.op1_register() != Register::EAX
            || !layout::in_vdso(insn.ip())
        {
            return None;
        }
        match insn.op0_register() {
            Register::EAX => Some(Self::Clock),
            Register::ECX => Some(Self::Cpu),
            _ => None,
        }
    }

    /// The host routine that does it without leaving translated code.
    pub(crate) fn routine(self) -> Option<usize> {
        Some(match self {
            Self::Rdtsc => reading::TSC,
            Self::Rdtscp => reading::TSCP,
            Self::Clock => reading::CLOCK,
            Self::Cpu => reading::CPU,
            _ => return None,
        })
    }

    /// The operation to ask the engine for; `None` if the instruction is not of this kind.
    pub(crate) fn of(insn: &Instruction) -> Option<Self> {
        let (reg, width) = register(insn.op0_register());
        Some(match insn.code() {
            Code::Rdtsc => Self::Rdtsc,
            Code::Rdtscp => Self::Rdtscp,
            Code::Cpuid => Self::Cpuid,
            Code::Xgetbv => Self::Xgetbv,
            Code::Rdrand_r16 | Code::Rdrand_r32 | Code::Rdrand_r64 => Self::Rdrand { reg, width },
            Code::Rdseed_r16 | Code::Rdseed_r32 | Code::Rdseed_r64 => Self::Rdseed { reg, width },
            Code::Rdpid_r32 | Code::Rdpid_r64 => Self::Rdpid { reg },
            Code::Wrfsbase_r32 | Code::Wrfsbase_r64 => Self::WrFsBase { reg, width },
            Code::Wrgsbase_r32 | Code::Wrgsbase_r64 => Self::WrGsBase { reg, width },
            Code::Rdgsbase_r32 | Code::Rdgsbase_r64 => Self::RdGsBase { reg, width },
            Code::Lsl_r16_rm16 | Code::Lsl_r32_r32m16 | Code::Lsl_r64_r64m16 => Self::Lsl {
                reg,
                width,
                from: register(insn.op1_register()).0,
            },
            Code::Mov_Sreg_rm16 | Code::Mov_Sreg_r32m16 | Code::Mov_Sreg_r64m16 => Self::LoadBase {
                reg: register(insn.op1_register()).0,
                gs: insn.op0_register() == Register::GS,
            },
            _ => return None,
        })
    }
}

/// The requested privilege level of a selector.
const RPL: u16 = 3;
/// The descriptor whose limit encodes processor and node.
const CPU_NODE: u16 = 0x78;

/// Whether a program may use a descriptor, of those that Linux has: 32-bit code, data, 64-bit code,
/// and the one of processor and node.
fn descriptor(selector: u16) -> bool {
    matches!(selector & !RPL, 0x20 | 0x28 | 0x30 | CPU_NODE)
}

/// Whether bits 47 to 63 are all equal.
pub(crate) const fn is_canonical(addr: u64) -> bool {
    let top = (addr as i64) >> 47;
    top == 0 || top == -1
}

fn register(reg: Register) -> (u8, Width) {
    let width = match reg.size() {
        2 => Width::W16,
        4 => Width::W32,
        _ => Width::W64,
    };
    (
        if reg.is_gpr() {
            reg.full_register().number() as u8
        } else {
            0
        },
        width,
    )
}

fn set(ctx: &mut Context, reg: u8, width: Width, value: u64) {
    let slot = &mut ctx.gpr[reg as usize];
    *slot = match width {
        Width::W16 => *slot & !0xffff | value & 0xffff,
        Width::W32 => value & 0xffff_ffff,
        Width::W64 => value,
    };
}
