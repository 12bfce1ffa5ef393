//! Instructions that leave to the host, and those that need care with processor state.

use relive_host::context::{EXIT_TOLD, off};
use relive_host::layout::is_low;

use super::branch::{fall_through, tick};
use crate::behind::SYSCALL_BYTES;
use crate::classify::Class;
use crate::decode::Insn;
use crate::emit::{EXIT_BYTES, RCX, RSP, STORE_IMM_BYTES};
use crate::exit::{Exit, ExitKind};
use crate::instr_op::InstrOp;
use crate::marks::Undo;
use crate::options::AtPause;
use crate::unit::{Flow, Unit};

/// Names of refused cases that are no opcode of their own; the others follow them.
const NAMES: [&str; 2] = ["branch through the GS segment", "16-bit branch"];
pub(super) const GS_PREFIX: u32 = 0;
pub(super) const BRANCH_16: u32 = 1;

/// The name for an exit of kind [`ExitKind::Unsupported`].
pub(crate) fn unsupported_name(aux: u32) -> &'static str {
    match NAMES.get(aux as usize) {
        Some(name) => name,
        None => crate::classify::unsupported_name((aux as usize - NAMES.len()) as u8),
    }
}

pub(super) fn translate(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    match insn.class {
        Class::Syscall => call(unit, insn),
        Class::Int3 => unit.stop_at(insn, ExitKind::Int3, 0),
        Class::Int1 => unit.stop_at(insn, ExitKind::Int1, 0),
        Class::Undefined => match InstrOp::of_vdso(&insn.iced) {
            Some(op) => answered(unit, insn, op),
            None => unit.stop_at(insn, ExitKind::Undefined, 0),
        },
        Class::Unsupported(i) => unit.stop_at(
            insn,
            ExitKind::Unsupported,
            NAMES.len() as u32 + u32::from(i),
        ),
        Class::Instr => instr(unit, insn),
        Class::Popf => popf(unit, insn),
        Class::Int => int(unit, insn),
        Class::StoresFip => stores_fip(unit, insn),
        Class::Pause => pause(unit, insn),
        class => unreachable!("{class:?} is no system instruction"),
    }
}

/// The exit of a system call in low code itself says where it stands and where to go on: answering
/// it does not need the translator.
fn call(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    let known = u32::try_from(insn.pc()).ok().filter(|_| is_low(insn.pc()));
    let (Some(pc), false, true) = (known, unit.step, insn.bytes().len() == SYSCALL_BYTES) else {
        return unit.stop_at(insn, ExitKind::Syscall, 0);
    };
    let mut exit = Exit::new(ExitKind::Syscall, unit.frag, insn.pc());
    exit.len = SYSCALL_BYTES as u8;
    let behind = unit.asm.here() + 2 * STORE_IMM_BYTES + EXIT_BYTES;
    unit.asm.store_imm(off::RIP, pc);
    unit.asm.store_imm(off::ENTRY, behind);
    let number = unit.exits.add_inline(exit, unit.asm.here());
    unit.asm.exit(number | EXIT_TOLD);
    debug_assert_eq!(unit.asm.here(), behind);
    fall_through(unit, insn.next());
    Flow::End
}

/// The thread goes on behind its tick by itself, or the host counts the tick and goes on behind the exit.
fn pause(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    if unit.step {
        unit.leave(Exit::new(ExitKind::Pause, unit.frag, insn.next()));
        return Flow::End;
    }
    if unit.at_pause == AtPause::GoOn {
        unit.asm.bytes(insn.bytes());
        tick(unit, insn.next());
        return Flow::End;
    }
    let dead = unit.dead_flags(insn.next());
    let behind = unit.asm.here() + EXIT_BYTES;
    let word = unit.exits.add_pause(insn.next(), dead, behind);
    unit.asm.exit(word);
    fall_through(unit, insn.next());
    Flow::End
}

/// Bytes that are no instruction.
pub(crate) fn undefined(unit: &mut Unit<'_>, pc: u64) {
    unit.leave(Exit::new(ExitKind::Undefined, unit.frag, pc));
}

fn instr(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    let op = InstrOp::of(&insn.iced)
        .unwrap_or_else(|| panic!("opcode {} has no operation", insn.iced.code() as usize));
    answered(unit, insn, op)
}

/// An instruction that the engine answers.
fn answered(unit: &mut Unit<'_>, insn: &Insn, op: InstrOp) -> Flow {
    let index = unit.exits.add_op(op);
    unit.stop_at(insn, ExitKind::Instr, index)
}

/// An instruction that stores the x87 instruction pointer, which the host then clears. The result
/// of the XSAVE family depends on more than values, so the host does it itself (`xsave`): the
/// instruction follows for where it faults, and if it then does not.
fn stores_fip(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    if !crate::fip::is_xsave(&insn.iced) {
        super::memory::copy_plain(unit, insn);
        return unit.stop_at(insn, ExitKind::Fip, 0);
    }
    let mut exit = Exit::new(ExitKind::Xsave, unit.frag, insn.pc());
    exit.len = insn.bytes().len() as u8;
    (exit.aux, exit.site) = crate::xsave::describe(&insn.iced).unwrap_or_default();
    unit.leave(exit);
    let over = unit.asm.jump_ahead();
    super::memory::copy_plain(unit, insn);
    unit.stop_at(insn, ExitKind::Fip, 0);
    unit.asm.land(over);
    match unit.step {
        true => Flow::End,
        false => Flow::Continue,
    }
}

/// `int n`: vectors open to user mode would trap to a handler that the guest does not expect; all
/// others fault at the instruction.
fn int(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    match insn.iced.immediate8() {
        3 => unit.stop_at(insn, ExitKind::Int3, 0),
        n @ (4 | 0x80) => unit.stop_at(insn, ExitKind::Int1, n.into()),
        _ => super::memory::copy_plain(unit, insn),
    }
}

/// popf must not set the trap flag: emitted code would trap. The engine does a popf that would set
/// it; a flag that another thread sets in between is cleared. The value goes through the context,
/// so that guest memory stays as it is.
fn popf(unit: &mut Unit<'_>, insn: &Insn) -> Flow {
    const KEPT: u32 = !(1 << 8);
    const ZERO: u8 = 4;
    let (value, old_rsp) = (off::SPILL, off::SPILL + 8);
    let narrow = insn.iced.code() == iced_x86::Code::Popfw;
    let prefix: &[u8] = if narrow { &[0x66] } else { &[] };
    let op = unit.exits.add_op(InstrOp::Popf { narrow });
    unit.mark(insn, Undo::Exact);
    unit.asm.bytes(&[0xf6, 0x44, 0x24, 1, 1]); // test byte ptr [rsp + 1], 1
    let clear = unit.asm.jump_ahead_if(ZERO);
    // Flags are lost on this path: all of them come from the stack.
    unit.stop_at(insn, ExitKind::Instr, op);
    unit.asm.land(clear);
    let asm = &mut *unit.asm;
    asm.spill_rcx();
    unit.mark(insn, Undo::Exact);
    let asm = &mut *unit.asm;
    asm.bytes(prefix);
    asm.bytes(&[0x59]); // pop rcx
    asm.bytes(&[0x81, 0xe1]); // and ecx, imm32
    asm.bytes(&KEPT.to_le_bytes());
    asm.store(value, RCX);
    asm.store(old_rsp, RSP);
    asm.load(RSP, off::THIS);
    asm.add_rsp(value);
    asm.bytes(prefix);
    asm.bytes(&[0x9d]); // popf
    asm.load(RSP, old_rsp);
    asm.restore_rcx();
    Flow::Continue
}
