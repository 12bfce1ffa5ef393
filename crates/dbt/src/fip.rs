//! Instructions that store the x87 pointers. Translated, they would store an address in the code
//! cache as the last instruction's. Whether the other pointers (operand, opcode) survive a stop in
//! the host depends on the make of the processor. All of them are overwritten with 0, the value
//! that processors store anyway unless an x87 exception is pending. `sgdt` and `sidt`, which store
//! addresses of the kernel, are treated the same, and so are loads of DS and ES: null selectors
//! have bits that the next interrupt clears.

use iced_x86::{Code as Op, Instruction, Mnemonic, Register};
use relive_host::copy::BadAddress;
use relive_host::segments::Segments;
use relive_host::{Context, GuestAddr, Reg, copy};

use crate::classify::gpr_number;
use crate::code::{Code, Window};
use crate::decode::{Decoded, Insn};
use crate::defect::Defect;

/// Bit 0 of state-component bitmaps: x87.
const X87: u64 = 1;

/// Overwrites the values that the instruction at `pc`, just executed, has stored. Errors say why
/// not.
pub(crate) fn clear_stored(code: &dyn Code, ctx: &Context, pc: u64) -> Result<(), Defect> {
    let mut insn = Insn::new();
    let Decoded::Insn = insn.decode(&mut Window::new(code), pc) else {
        return Err(Defect::Changed("instruction", GuestAddr(pc)));
    };
    let insn = &insn.iced;
    if insn.mnemonic() == Mnemonic::Mov {
        Segments::stored().settled().load();
        return Ok(());
    }
    let base = operand(insn, ctx, pc)?;
    if let Some(dummy) = table_register(insn.mnemonic()) {
        return copy::write(base, &dummy).map_err(stored(base, "overwrite"));
    }
    let (offset, len) = field(insn.code());
    if XSAVE_FAMILY.contains(&insn.mnemonic()) && !x87_stored(insn, ctx, base)? {
        return Ok(());
    }
    let at = base.offset(offset);
    copy::write(at, &[0; 18][..len]).map_err(stored(at, "clear"))
}

fn stored(at: GuestAddr, access: &'static str) -> impl Fn(BadAddress) -> Defect {
    move |bad| Defect::Stored {
        at,
        access,
        bad: bad.0,
    }
}

/// The address of the memory operand of the instruction at `pc`.
pub(crate) fn operand(insn: &Instruction, ctx: &Context, pc: u64) -> Result<GuestAddr, Defect> {
    let address = insn.virtual_address(0, 0, |reg, _, _| register(ctx, reg));
    let address = address.ok_or(Defect::Operand(GuestAddr(pc)))?;
    Ok(GuestAddr(address))
}

/// Limit and base as the kernel emulates them where the processor hides the registers from programs
/// (UMIP): elsewhere they differ from one processor of a machine to the next.
fn table_register(mnemonic: Mnemonic) -> Option<[u8; 10]> {
    let base: u64 = match mnemonic {
        Mnemonic::Sgdt => 0xffff_ffff_fffe_0000,
        Mnemonic::Sidt => 0xffff_ffff_ffff_0000,
        _ => return None,
    };
    let mut bytes = [0; 10];
    bytes[2..].copy_from_slice(&base.to_le_bytes());
    Some(bytes)
}

/// Offset and size of opcode, instruction and operand pointer in the area that FXSAVE and
/// XSAVE share (Intel SDM vol. 1, 10.5.1).
const FX: (u64, usize) = (6, 18);

/// The same in the area that the instruction stores (Intel SDM vol. 1, 8.1.10).
fn field(op: Op) -> (u64, usize) {
    match op {
        Op::Fnstenv_m14byte | Op::Fstenv_m14byte | Op::Fnsave_m94byte | Op::Fsave_m94byte => (6, 8),
        Op::Fnstenv_m28byte | Op::Fstenv_m28byte | Op::Fnsave_m108byte | Op::Fsave_m108byte => {
            (12, 14)
        }
        _ => FX,
    }
}

/// Whether an instruction of the XSAVE family has stored the x87 part.
fn x87_stored(insn: &Instruction, ctx: &Context, base: GuestAddr) -> Result<bool, Defect> {
    const XSTATE_BV: u64 = 512;
    if ctx.reg(Reg::Rax) & X87 == 0 {
        return Ok(false);
    }
    if matches!(insn.code(), Op::Xsave_mem | Op::Xsave64_mem) {
        return Ok(true);
    }
    let at = base.offset(XSTATE_BV);
    copy::read_u64(at)
        .map(|bv| bv & X87 != 0)
        .map_err(stored(base, "read"))
}

const XSAVE_FAMILY: [Mnemonic; 6] = [
    Mnemonic::Xsave,
    Mnemonic::Xsave64,
    Mnemonic::Xsavec,
    Mnemonic::Xsavec64,
    Mnemonic::Xsaveopt,
    Mnemonic::Xsaveopt64,
];

/// Whether the instruction is one of those that the host does itself.
pub(crate) fn is_xsave(insn: &Instruction) -> bool {
    XSAVE_FAMILY.contains(&insn.mnemonic())
}

fn register(ctx: &Context, reg: Register) -> Option<u64> {
    match reg {
        Register::FS => Some(ctx.guest_fs),
        Register::GS => Some(ctx.guest_gs),
        Register::CS | Register::DS | Register::ES | Register::SS => Some(0),
        _ => {
            let value = ctx.gpr[usize::from(gpr_number(reg)?)];
            Some(if reg.is_gpr32() {
                value & 0xffff_ffff
            } else {
                value
            })
        }
    }
}
