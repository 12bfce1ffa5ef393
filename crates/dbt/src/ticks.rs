//! The entries of a fragment: counting ticks, and landing from indirect branches.
//!
//! Ticks belong to guest instructions: every path that takes a tick site leads through
//! exactly one of the tick sequences here, or through the host, which counts by itself.
//! Where flags may be live nothing here changes them. The signal handler of the host knows
//! the bytes of the flag-free sequence; see `relive_host::signal`.

use relive_host::context::{LANES, off};
use relive_host::layout::SHADOW_BELOW;

use crate::emit::{Asm, CMP_BYTES, JCC_BYTES, JRCXZ_BYTES, RCX};
use crate::entry::Entry;
use crate::exit::{Exit, ExitKind};
use crate::exits::Exits;
use crate::flags::Dead;

/// Most bytes that an entry takes, its jump to the body included.
pub(crate) const ENTRY_BYTES: u32 = 128;

/// Emits entry `kind` of fragment `frag` at `pc`; the body, or a jump to it, must follow.
/// Returns the entry's cache address. `meant`: no branch is known that leads elsewhere and comes here.
pub(crate) fn emit(
    asm: &mut Asm,
    exits: &mut Exits,
    kind: Entry,
    frag: u32,
    pc: u64,
    dead: &Dead,
    meant: bool,
) -> u32 {
    match kind {
        Entry::Plain => asm.here(),
        Entry::Ticked if dead.all_but_carry() => {
            let entry = asm.here();
            tick_by_flags(asm, exits, frag, pc, 0, dead.all());
            entry
        }
        Entry::Ticked => {
            let out = trampoline_out(asm, exits, frag, pc);
            let entry = asm.here();
            asm.spill_rcx();
            tick_flag_free(asm, out, pc);
            entry
        }
        Entry::Called if dead.all_but_carry() => {
            let entry = asm.here();
            asm.add_rsp(SHADOW_BELOW as i32);
            tick_by_flags(asm, exits, frag, pc, 0, dead.all());
            entry
        }
        Entry::Called => {
            let out = trampoline_out(asm, exits, frag, pc);
            let entry = asm.here();
            asm.add_rsp(SHADOW_BELOW as i32);
            asm.spill_rcx();
            tick_flag_free(asm, out, pc);
            entry
        }
        Entry::Jump | Entry::HashedJump if dead.all_but_carry() => {
            let entry = asm.here();
            check(asm, exits, kind, frag, pc, dead, meant);
            asm.restore_rcx();
            tick_by_flags(asm, exits, frag, pc, 0, dead.all());
            entry
        }
        Entry::Jump | Entry::HashedJump => {
            let out = trampoline_out(asm, exits, frag, pc);
            let entry = asm.here();
            check(asm, exits, kind, frag, pc, dead, meant);
            tick_flag_free(asm, out, pc);
            entry
        }
        Entry::Return | Entry::HashedReturn => {
            let entry = asm.here();
            check(asm, exits, kind, frag, pc, dead, meant);
            asm.restore_rcx();
            entry
        }
    }
}

/// Compares the target with `pc`; rcx is of no use afterwards.
fn check(
    asm: &mut Asm,
    exits: &mut Exits,
    entry: Entry,
    frag: u32,
    pc: u64,
    dead: &Dead,
    meant: bool,
) {
    let mismatch = match entry {
        Entry::Jump => ExitKind::JumpMismatch,
        Entry::Return => ExitKind::ReturnMismatch,
        Entry::HashedJump => ExitKind::HashedJump,
        Entry::HashedReturn => ExitKind::HashedReturn,
        Entry::Plain | Entry::Ticked | Entry::Called => return,
    };
    let hashed = matches!(entry, Entry::HashedJump | Entry::HashedReturn);
    match (hashed, dead.all()) {
        (false, true) => check_by_flags(asm, exits, mismatch, frag, pc),
        (false, false) if meant => check_by_fault(asm, exits, mismatch, frag, pc),
        (false, false) => check_flag_free(asm, exits, mismatch, frag, pc),
        (true, _) => check_hashed(asm, exits, mismatch, frag, pc),
    }
}

/// Counts a tick at `pc`, where all flags but CF must be dead: in the lane of `pc`, or one so many
/// further. Where CF is dead too (`dead`) by a subtraction, which takes Intel's processors two
/// operations where a decrement takes three.
pub(crate) fn tick_by_flags(
    asm: &mut Asm,
    exits: &mut Exits,
    frag: u32,
    pc: u64,
    further: usize,
    dead: bool,
) {
    const EQUAL: u8 = 4;
    let out = exits.add(budget(frag, pc), |_| ());
    if dead {
        asm.sub_lane(lane(pc, further));
    } else {
        asm.dec_lane(lane(pc, further));
    }
    asm.keep_whole(JCC_BYTES);
    asm.jcc(EQUAL, out);
}

/// rcx must be spilled; it is restored.
fn tick_flag_free(asm: &mut Asm, out: u32, pc: u64) {
    asm.load(RCX, lane(pc, 0));
    asm.bytes(&relive_host::signal::TICK_LEA);
    asm.store(lane(pc, 0), RCX);
    asm.keep_whole(JRCXZ_BYTES);
    asm.jrcxz(out);
    asm.restore_rcx();
}

/// A jump to the budget exit, near enough for `jrcxz`.
fn trampoline_out(asm: &mut Asm, exits: &mut Exits, frag: u32, pc: u64) -> u32 {
    let out = exits.add(budget(frag, pc), Asm::restore_rcx);
    let at = asm.here();
    asm.jmp(out);
    at
}

/// The counter for entries to `pc`. Any would do: neighbours mostly have different ones.
fn lane(pc: u64, further: usize) -> i32 {
    off::LANES + 8 * (((pc >> 2 ^ pc >> 5) as usize + further) % LANES) as i32
}

fn budget(frag: u32, pc: u64) -> Exit {
    Exit::new(ExitKind::Budget, frag, pc)
}

fn check_by_flags(asm: &mut Asm, exits: &mut Exits, mismatch: ExitKind, frag: u32, pc: u64) {
    const NOT_EQUAL: u8 = 5;
    let stub = exits.add(Exit::new(mismatch, frag, pc), |_| ());
    asm.keep_whole(CMP_BYTES + JCC_BYTES);
    asm.cmp_rcx(low(pc) as u32);
    asm.jcc(NOT_EQUAL, stub);
}

/// Leaves rcx as 0.
fn check_flag_free(asm: &mut Asm, exits: &mut Exits, mismatch: ExitKind, frag: u32, pc: u64) {
    let stub = exits.add(Exit::new(mismatch, frag, pc), |stub| stub.add_rcx(low(pc)));
    asm.add_rcx(-low(pc));
    asm.jmp_unless_zero(stub);
}

/// Leaves rcx as 0. A load from the context must follow.
fn check_by_fault(asm: &mut Asm, exits: &mut Exits, mismatch: ExitKind, frag: u32, pc: u64) {
    asm.expect_rcx(low(pc));
    exits.add_inline(Exit::new(mismatch, frag, pc), asm.here() + 1);
}

/// Compares the target in the context with `pc`. Another target, for which flags may be alive,
/// gets here by the same slot: no flag changes. What is left in rcx is of no use.
fn check_hashed(asm: &mut Asm, exits: &mut Exits, mismatch: ExitKind, frag: u32, pc: u64) {
    const RDX: u8 = 2;
    const RDX_SLOT: i32 = off::SPILL + 8;
    let stub = exits.add(Exit::new(mismatch, frag, pc), |_| ());
    asm.store(RDX_SLOT, RDX);
    asm.load(RDX, off::TARGET);
    asm.mov_imm64(RCX, pc.wrapping_neg());
    asm.add_rdx_to_rcx();
    asm.load(RDX, RDX_SLOT);
    asm.jmp_unless_zero(stub);
}

fn low(pc: u64) -> i32 {
    assert!(relive_host::layout::is_low(pc), "{pc:#x} has no slot");
    pc as i32
}
