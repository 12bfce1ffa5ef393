//! The pass of permissions: before each access to memory it looks into the table of its thread
//! ([`relive_host::permissions`]), and leaves to the host where the access is not permitted. Instructions whose accesses
//! are not one or two at plain addresses always leave: the host takes all of their lines, and steps them. So do repeated
//! ones, but for stores and copies, whose ranges a routine of the host's looks at. Single steps are not checked.
//!
//! One look serves all accesses of a fragment within 64 bytes at any address ([`crate::looks`]): an entry also says whether
//! the next line is permitted. Only where that is not so, code beside the fragment finds out whether it is needed. Nobody
//! takes a permission while its thread is in translated code, and who comes back from the host does so at a fragment's start.
//!
//! Instructions are fetched: where the program may write to its code, a thread looks whether it may read the lines of
//! a fragment before it executes them. Who writes there takes them from it first, and has the translations dropped.
//!
//! It must never change a flag that is alive, or touch guest memory.

use iced_x86::{Mnemonic, Register, UsedMemory};
use relive_host::context::off;
use relive_host::permissions::{
    COPIES, LINE, LINE_SHIFT, LINES, READ, READ_ON, WHOLE, WRITE, WRITE_ON, WRITES,
};

use super::address::Place;
use super::pass::Pass;
use crate::access::{access_kinds, string_item, used_memory};
use crate::code::{Window, is_written};
use crate::decode::Insn;
use crate::emit::{Asm, JCC_BYTES, OLD_RSP, RAX, RSP};
use crate::exit::{Exit, ExitKind};
use crate::unit::{Flow, Unit};

/// Most bytes that the checks of one instruction take, stubs included: of two accesses, and of two lines of code.
const BYTES: u32 = 1088;
/// Most accesses of one instruction that are checked in line.
const IN_LINE: usize = 2;
const RDX_SLOT: i32 = off::PERMIT_SPILL;
const RAX_SLOT: i32 = off::PERMIT_SPILL + 8;
const FLAGS_SLOT: i32 = off::SPILL;
const RDX: u8 = 2;
const EQUAL: u8 = 4;
const BELOW_OR_EQUAL: u8 = 6;

/// The pass; on while memory is ordered by its lines.
#[derive(Default)]
pub(crate) struct Permit {
    on: bool,
}

/// The looks that an instruction needs.
struct Checks {
    looks: Vec<LookCheck>,
    /// The argument of the host's routine, for a repeated store or copy.
    range: Option<u32>,
}

/// A look, and what the host is told where it fails.
struct LookCheck {
    place: Place,
    size: u64,
    writes: bool,
    /// It is all that the instruction accesses.
    whole: bool,
}

impl LookCheck {
    /// A line of code, by an address in it.
    fn of_code(at: u64) -> Self {
        Self {
            place: Place::Fixed(at),
            size: 1,
            writes: false,
            whole: false,
        }
    }
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

    fn ticks_may_be_ahead(&self) -> bool {
        true
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
            unit.leave(denied(unit, insn));
            return Flow::End;
        };
        if checks.looks.is_empty() && checks.range.is_none() {
            return Flow::Continue;
        }
        let dead = unit.dead_flags(insn.pc()).all();
        for check in &checks.looks {
            emit(unit, insn, check, dead);
        }
        if let Some(range) = checks.range {
            emit_range(unit, insn, range, dead);
        }
        Flow::Continue
    }
}

/// The exit at an instruction that the thread has to ask for.
fn denied(unit: &Unit<'_>, insn: &Insn) -> Exit {
    let mut exit = Exit::new(ExitKind::Permission, unit.frag, insn.pc());
    exit.ahead = unit.ahead;
    exit
}

/// The looks that an instruction needs; `None`: the host is to look.
fn checks(unit: &mut Unit<'_>, insn: &Insn, all: &[UsedMemory]) -> Option<Checks> {
    let mut checks = Vec::new();
    let range = match insn.is_repeated() {
        true => Some(range(insn, all)?),
        false => None,
    };
    if is_written(unit.code, insn.pc(), insn.next()) {
        checks.extend(unit.looks.fetch(insn).map(LookCheck::of_code));
    }
    let single = if range.is_none() { all } else { &[] };
    for (operand, memory) in single.iter().enumerate() {
        let size = memory.memory_size().size() as u64;
        // A masked access counts as a whole.
        if !(1..=LINE).contains(&size) || memory.vsib_size() != 0 {
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
    Some(Checks {
        looks: checks,
        range,
    })
}

/// The argument of the host's routine for a repeated instruction, if it can tell.
fn range(insn: &Insn, all: &[UsedMemory]) -> Option<u32> {
    use Mnemonic as M;
    let copies = match insn.iced.mnemonic() {
        M::Movsb | M::Movsw | M::Movsd | M::Movsq => COPIES,
        M::Stosb | M::Stosw | M::Stosd | M::Stosq => 0,
        _ => return None,
    };
    let is_plain = |memory: &UsedMemory| {
        memory.base().is_gpr64() && !matches!(memory.segment(), Register::FS | Register::GS)
    };
    let item = string_item(&insn.iced).trailing_zeros();
    all.iter().all(is_plain).then_some(item | copies)
}

/// The code of a look, in the fragment and in its stub.
struct LookCode<'c> {
    check: &'c LookCheck,
    /// Its scratch register.
    scratch: u8,
    /// Whether flags may be lost.
    dead: bool,
}

impl LookCode<'_> {
    fn spill(&self, asm: &mut Asm) {
        asm.store(off::SPILL_RCX, self.scratch);
    }

    fn restore(&self, asm: &mut Asm) {
        asm.load(self.scratch, off::SPILL_RCX);
    }

    /// Puts the address into the scratch register, which is the guest's still.
    fn address(&self, asm: &mut Asm) {
        match &self.check.place {
            Place::Fixed(at) => asm.mov_imm64(self.scratch, *at),
            Place::Computed(address) => address.emit(asm, self.scratch, RDX_SLOT),
        }
    }

    /// An instruction with this field and the scratch register as operands, and an immediate.
    fn op(&self, asm: &mut Asm, opcode: u8, field: u8, immediate: u8) {
        if self.scratch >= 8 {
            asm.bytes(&[0x41]);
        }
        asm.bytes(&[opcode, 0xc0 | field << 3 | self.scratch & 7, immediate]);
    }

    fn test_bytes(&self) -> u32 {
        4 + u32::from(self.scratch >= 8)
    }

    /// `test byte [scratch], bit`
    fn test(&self, asm: &mut Asm, bit: u8) {
        if self.scratch >= 8 {
            asm.bytes(&[0x41]);
        }
        asm.bytes(&[0xf6, 0x40 | self.scratch & 7, 0, bit]);
    }

    /// Goes on at `back` if this line is permitted, and all lies in it.
    fn look_at_one(&self, stub: &mut Asm, narrow: u8, back: u32) {
        let size = self.check.size;
        self.test(stub, narrow);
        let denied = stub.jump_ahead_if(EQUAL);
        if !self.dead {
            // The address may be made from it.
            stub.store(FLAGS_SLOT, RAX);
            stub.load(RAX, RAX_SLOT);
        }
        self.restore(stub);
        self.address(stub);
        self.op(stub, 0x83, 4, LINE as u8 - 1); // and scratch, 63
        self.op(stub, 0x83, 7, (LINE - size) as u8); // cmp scratch, 64 - size
        if !self.dead {
            stub.load(RAX, FLAGS_SLOT);
        }
        stub.jcc(BELOW_OR_EQUAL, back);
        stub.land(denied);
    }

    /// Tells the host what was looked at.
    fn tell(&self, stub: &mut Asm) {
        restore_flags(stub, self.dead);
        self.restore(stub);
        self.address(stub);
        stub.store(off::PERMIT_AT, self.scratch);
        self.restore(stub);
        let writes = if self.check.writes { WRITES } else { 0 };
        let whole = if self.check.whole { WHOLE } else { 0 };
        let what = self.check.size | writes | whole;
        stub.store_imm(off::PERMIT_WHAT, what as u32);
    }
}

/// Saves the flags in rax, but for dead ones.
fn keep_flags(asm: &mut Asm, dead: bool) {
    if !dead {
        asm.store(RAX_SLOT, RAX);
        asm.bytes(&[0x9f, 0x0f, 0x90, 0xc0]); // lahf; seto al
    }
}

/// Flags that are alive are the guest's again, and so is rax.
fn restore_flags(asm: &mut Asm, dead: bool) {
    if !dead {
        asm.bytes(&[0x04, 0x7f, 0x9e]); // add al, 0x7f; sahf
        asm.load(RAX, RAX_SLOT);
    }
}

/// Emits a look; `dead`: flags may be lost.
fn emit(unit: &mut Unit<'_>, insn: &Insn, check: &LookCheck, dead: bool) {
    // The table is that of the low half of addresses.
    const { assert!(LINES << LINE_SHIFT == 1 << 32) };
    let (narrow, wide) = match check.writes {
        true => (WRITE, WRITE_ON),
        false => (READ, READ_ON),
    };
    let scratch = unit.looks.scratch();
    let look = LookCode {
        check,
        scratch,
        dead,
    };
    let asm = &mut *unit.asm;
    look.spill(asm);
    look.address(asm);
    keep_flags(asm, dead);
    look.op(asm, 0xc1, 5, LINE_SHIFT as u8); // shr scratch, 6: of 32 bits
    let rex = 0x48 | scratch >> 3 << 2;
    asm.gs(Some(rex), 0x03, scratch, off::PERMISSIONS); // add scratch, gs:[PERMISSIONS]
    asm.keep_whole(look.test_bytes() + JCC_BYTES);
    let back = asm.here() + look.test_bytes() + JCC_BYTES;
    let exit = denied(unit, insn);
    let stub = unit.exits.add_at(exit, |stub| {
        if check.size > 1 {
            look.look_at_one(stub, narrow, back);
        }
        look.tell(stub);
    });
    let asm = &mut *unit.asm;
    look.test(asm, if check.size == 1 { narrow } else { wide });
    asm.jcc(EQUAL, stub);
    restore_flags(asm, dead);
    look.restore(asm);
}

/// Emits the look at the ranges of a repeated store or copy.
fn emit_range(unit: &mut Unit<'_>, insn: &Insn, range: u32, dead: bool) {
    /// Length of `test edx, edx`.
    const TEST_BYTES: u32 = 2;
    let restore = |asm: &mut Asm| {
        restore_flags(asm, dead);
        asm.load(RDX, RDX_SLOT);
    };
    let asm = &mut *unit.asm;
    asm.store(RDX_SLOT, RDX);
    keep_flags(asm, dead);
    asm.bytes(&[0xba]); // mov edx, imm32
    asm.bytes(&range.to_le_bytes());
    asm.begin_host_call(off::RANGE_FN);
    asm.load(RSP, OLD_RSP);
    asm.keep_whole(TEST_BYTES + JCC_BYTES);
    asm.bytes(&[0x85, 0xd2]); // test edx, edx
    let exit = denied(unit, insn);
    let stub = unit.exits.add_at(exit, |stub| {
        restore(stub);
        stub.store_imm(off::PERMIT_WHAT, 0);
    });
    unit.asm.jcc(EQUAL, stub);
    restore(unit.asm);
}
