//! The pass of permissions: before each access to memory it looks into the table of its thread
//! ([`relive_host::permissions`]), and leaves to the host where the access is not permitted. Instructions whose accesses
//! are not one or two at plain addresses always leave: the host takes all of their lines, and steps them. Single steps
//! are not checked.
//!
//! One look serves all accesses of a fragment within 64 bytes at any address ([`crate::looks`]): an entry also says whether
//! the next line is permitted. Only where that is not so, code beside the fragment finds out whether it is needed. Nobody
//! takes a permission while its thread is in translated code, and who comes back from the host does so at a fragment's start.
//!
//! It must never change a flag that is alive, or touch guest memory.

use iced_x86::UsedMemory;
use relive_host::context::off;
use relive_host::permissions::{
    LINE, LINE_SHIFT, LINES, READ, READ_ON, WHOLE, WRITE, WRITE_ON, WRITES,
};

use super::address::Place;
use super::pass::Pass;
use crate::access::{access_kinds, used_memory};
use crate::code::Window;
use crate::decode::Insn;
use crate::emit::{Asm, JCC_BYTES, RAX, RCX};
use crate::exit::{Exit, ExitKind};
use crate::unit::{Flow, Unit};

/// Most bytes that the checks of one instruction take, stubs included.
const BYTES: u32 = 640;
/// Most accesses of one instruction that are checked in line.
const IN_LINE: usize = 2;
const RDX_SLOT: i32 = off::PERMIT_SPILL;
const RAX_SLOT: i32 = off::PERMIT_SPILL + 8;
const EQUAL: u8 = 4;
const BELOW_OR_EQUAL: u8 = 6;
/// Length of the look at the entry.
const TEST_BYTES: u32 = 3;

/// The pass; on while memory is ordered by its lines.
#[derive(Default)]
pub(crate) struct Permit {
    on: bool,
}

/// A look, and what the host is told where it fails.
struct LookCheck {
    place: Place,
    size: u64,
    writes: bool,
    /// It is all that the instruction accesses.
    whole: bool,
}

impl Permit {
    /// Switches it; whether it was the other way.
    pub(crate) fn set(&mut self, on: bool) -> bool {
        std::mem::replace(&mut self.on, on) != on
    }
}

impl Pass for Permit {
    fn name(&self) -> &'static str {
        "permit"
    }

    fn is_on(&self, step: bool) -> bool {
        self.on && !step
    }

    /// It is switched on in the middle of a program.
    fn key(&self) -> Option<u64> {
        None
    }

    fn around_bytes(&self) -> u32 {
        BYTES
    }

    fn before(&self, unit: &mut Unit<'_>, insn: &Insn) -> Flow {
        let all = used_memory(insn);
        unit.looks
            .come_to(Window::new(unit.code), insn, unit.rounds);
        let checks = match all.len() <= IN_LINE {
            true => checks(unit, insn, &all),
            false => None,
        };
        let Some(checks) = checks else {
            unit.asm.store_imm(off::PERMIT_WHAT, 0);
            unit.leave(Exit::new(ExitKind::Permission, unit.frag, insn.pc()));
            return Flow::End;
        };
        if checks.is_empty() {
            return Flow::Continue;
        }
        let dead = unit.dead_flags(insn.pc()).all();
        for check in &checks {
            emit(unit, insn, check, dead);
        }
        Flow::Continue
    }
}

/// The looks that an instruction needs; `None`: the host is to look.
fn checks(unit: &mut Unit<'_>, insn: &Insn, all: &[UsedMemory]) -> Option<Vec<LookCheck>> {
    let mut checks = Vec::new();
    for (operand, memory) in all.iter().enumerate() {
        let size = memory.memory_size().size() as u64;
        // A masked access counts as a whole.
        if insn.is_repeated() || !(1..=LINE).contains(&size) || memory.vsib_size() != 0 {
            return None;
        }
        let place = Place::of(memory)?;
        if unit.looks.serve(operand) {
            continue;
        }
        let (_, writes) = access_kinds(memory.access());
        let look = unit.looks.reach(operand, size, writes, LINE);
        checks.push(LookCheck {
            place: place.before(look.before)?,
            size: look.size,
            writes: look.writes,
            whole: all.len() == 1,
        });
    }
    Some(checks)
}

/// Puts the address of an access into rcx.
fn address(asm: &mut Asm, place: &Place) {
    match place {
        Place::Fixed(at) => asm.mov_imm64(RCX, *at),
        Place::Computed(address) => address.emit(asm, RDX_SLOT),
    }
}

/// `test byte [rcx], bit`
fn test(asm: &mut Asm, bit: u8) {
    asm.bytes(&[0xf6, 0x01, bit]);
}

/// Flags that are alive are the guest's again.
fn restore_flags(asm: &mut Asm, dead: bool) {
    if !dead {
        asm.bytes(&[0x04, 0x7f, 0x9e]); // add al, 0x7f; sahf
        asm.load(RAX, RAX_SLOT);
    }
}

/// Emits a look; `dead`: flags may be lost.
fn emit(unit: &mut Unit<'_>, insn: &Insn, check: &LookCheck, dead: bool) {
    let (narrow, wide) = match check.writes {
        true => (WRITE, WRITE_ON),
        false => (READ, READ_ON),
    };
    let bit = if check.size == 1 { narrow } else { wide };
    let asm = &mut *unit.asm;
    asm.spill_rcx();
    address(asm, &check.place);
    if !dead {
        asm.store(RAX_SLOT, RAX);
        asm.bytes(&[0x9f, 0x0f, 0x90, 0xc0]); // lahf; seto al
    }
    // The table is that of the low half of addresses.
    const { assert!(LINES << LINE_SHIFT == 1 << 32) };
    asm.bytes(&[0xc1, 0xe9, LINE_SHIFT as u8]); // shr ecx, 6
    asm.gs(Some(0x48), 0x03, RCX, off::PERMISSIONS); // add rcx, gs:[PERMISSIONS]
    asm.keep_whole(TEST_BYTES + JCC_BYTES);
    let back = asm.here() + TEST_BYTES + JCC_BYTES;
    let exit = Exit::new(ExitKind::Permission, unit.frag, insn.pc());
    let stub = unit.exits.add_at(exit, |stub| {
        if check.size > 1 {
            test(stub, narrow);
            let denied = stub.jump_ahead_if(EQUAL);
            // Is it all in this line?
            stub.restore_rcx();
            address(stub, &check.place);
            stub.bytes(&[0x83, 0xe1, LINE as u8 - 1]); // and ecx, 63
            stub.bytes(&[0x83, 0xf9, (LINE - check.size) as u8]); // cmp ecx, 64 - size
            stub.jcc(BELOW_OR_EQUAL, back);
            stub.land(denied);
        }
        restore_flags(stub, dead);
        stub.restore_rcx();
        address(stub, &check.place);
        stub.store(off::PERMIT_AT, RCX);
        stub.restore_rcx();
        let writes = if check.writes { WRITES } else { 0 };
        let whole = if check.whole { WHOLE } else { 0 };
        stub.store_imm(off::PERMIT_WHAT, (check.size | writes | whole) as u32);
    });
    let asm = &mut *unit.asm;
    test(asm, bit);
    asm.jcc(EQUAL, stub);
    restore_flags(asm, dead);
    asm.restore_rcx();
}
