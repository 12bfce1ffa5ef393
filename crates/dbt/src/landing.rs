//! The entries of a fragment: the code executed before guest state is complete. Landings, the
//! entries of indirect branches, compare the target with their own address, because slots of the
//! branch tables are shared; paired calls have left the guest's stack.
//!
//! Nothing here changes flags that may be alive.

use relive_host::context::off;
use relive_host::layout::SHADOW_BELOW;

use crate::arrival::Arrival;
use crate::emit::{CMP_BYTES, JCC_BYTES, LOAD, RCX};
use crate::entry::Entry;
use crate::exit::{Exit, ExitKind};
use crate::passes::Passes;

/// Most bytes of an entry without the code of passes; its stub, its alignment and its jump to the
/// body are included.
pub(crate) const BYTES: u32 = 176;

/// Emits entry `kind` of a fragment; the body, or a jump to it, must follow. Returns the entry's
/// cache address. `meant`: no branch to another target is known to come here.
pub(crate) fn emit(at: &mut Arrival<'_>, passes: &Passes, kind: Entry, meant: bool) -> u32 {
    let ahead = kind.is_counted().then(|| passes.ahead(at));
    let entry = at.asm.here();
    if kind == Entry::Called {
        at.asm.add_rsp(SHADOW_BELOW as i32);
    }
    let into_load = check(at, kind, meant);
    let behind = at.asm.buf.len();
    if let Some(ahead) = ahead {
        passes.arrive(at, ahead);
    }
    at.restore_rcx();
    let loads = at.asm.buf[behind..].starts_with(&LOAD);
    assert!(
        loads || !into_load,
        "no load behind the landing of {:#x}",
        at.pc
    );
    entry
}

/// Compares the target of an indirect branch, which has spilled rcx, with the entry's own address.
/// Returns whether a load from the context must follow.
fn check(at: &mut Arrival<'_>, kind: Entry, meant: bool) -> bool {
    let mismatch = match kind {
        Entry::Jump => ExitKind::JumpMismatch,
        Entry::Return => ExitKind::ReturnMismatch,
        Entry::HashedJump => ExitKind::HashedJump,
        Entry::HashedReturn => ExitKind::HashedReturn,
        Entry::Plain | Entry::Ticked | Entry::Called => return false,
    };
    let hashed = matches!(kind, Entry::HashedJump | Entry::HashedReturn);
    let exit = Exit::new(mismatch, at.frag, at.pc);
    let into_load = !hashed && !at.dead.all() && meant;
    match (hashed, at.dead.all()) {
        (true, _) => by_target(at, exit),
        (false, true) => by_flags(at, exit),
        (false, false) if meant => by_fault(at, exit),
        (false, false) => flag_free(at, exit),
    }
    at.spilled = true;
    into_load
}

fn by_flags(at: &mut Arrival<'_>, mismatch: Exit) {
    const NOT_EQUAL: u8 = 5;
    let stub = at.exits.add(mismatch, |_| ());
    at.asm.keep_whole(CMP_BYTES + JCC_BYTES);
    at.asm.cmp_rcx(low(at.pc) as u32);
    at.asm.jcc(NOT_EQUAL, stub);
}

fn flag_free(at: &mut Arrival<'_>, mismatch: Exit) {
    let own = low(at.pc);
    let stub = at.exits.add(mismatch, |stub| stub.add_rcx(own));
    at.asm.add_rcx(-own);
    at.asm.jmp_unless_zero(stub);
}

/// Another target faults in the load that follows.
fn by_fault(at: &mut Arrival<'_>, mismatch: Exit) {
    at.asm.expect_rcx(low(at.pc));
    at.exits.add_inline(mismatch, at.asm.here() + 1);
}

/// Compares the target in the context. A branch with another target, for which flags may be alive,
/// gets here by the same slot: no flag changes.
fn by_target(at: &mut Arrival<'_>, mismatch: Exit) {
    const RDX: u8 = 2;
    const RDX_SLOT: i32 = off::SPILL + 8;
    let stub = at.exits.add(mismatch, |_| ());
    at.asm.store(RDX_SLOT, RDX);
    at.asm.load(RDX, off::TARGET);
    at.asm.mov_imm64(RCX, at.pc.wrapping_neg());
    at.asm.add_rdx_to_rcx();
    at.asm.load(RDX, RDX_SLOT);
    at.asm.jmp_unless_zero(stub);
}

fn low(pc: u64) -> i32 {
    assert!(relive_host::layout::is_low(pc), "{pc:#x} has no slot");
    pc as i32
}
