//! The pass of tracked accesses: before each access to memory it looks into the filter of those that
//! the host knows already, and tells the host of all others (see [`relive_host::track`]).
//!
//! Not tracked: the stack's words of pushes, pops, calls and returns; reads of the head of a thread's
//! control block by FS; accesses with 32-bit addresses; gathers, scatters and state areas, of which only the first bytes are. It must never change a flag
//! that is alive, or touch guest memory.

use iced_x86::{Instruction, Mnemonic, Register, UsedMemory};
use relive_host::context::off;
use relive_host::track::{self, Tracked};

use super::address::Place;
use super::order;
use super::pass::Pass;
use crate::access::{access_kinds, string_item, used_memory};
use crate::decode::Insn;
use crate::emit::{Asm, JCC_BYTES, JMP_BYTES, OLD_RSP, RAX, RCX, RSP};
use crate::options::Options;
use crate::sites::Sites;
use crate::unit::{Flow, Unit};

/// Most bytes for one instruction, stubs included.
const BYTES: u32 = 640;
/// Most accesses of one instruction that are tracked.
const MOST: usize = 3;
const RDX: u8 = 2;
const RDX_SLOT: i32 = off::TRACK_SPILL;
const RAX_SLOT: i32 = off::TRACK_SPILL + 8;
const NOT_EQUAL: u8 = 5;
/// Length of `mov rdx, imm64`.
const IMM64_BYTES: u32 = 10;
/// Length of a load or store of the context.
const SLOT_BYTES: u32 = 9;
/// Length of [`tell`].
const TELL_BYTES: u32 = IMM64_BYTES + 3 * SLOT_BYTES + 8;
/// Length of the comparison with the filter.
const CMP_BYTES: u32 = 8;

/// The pass; on while accesses are tracked.
pub(crate) struct Track {
    on: bool,
    sites: Sites,
}

impl Track {
    /// Off.
    pub(super) fn new(options: &Options) -> Self {
        Self {
            on: false,
            sites: options.sites,
        }
    }

    /// Switches it; whether it was the other way.
    pub(crate) fn set(&mut self, on: bool) -> bool {
        std::mem::replace(&mut self.on, on) != on
    }
}

impl Pass for Track {
    fn name(&self) -> &'static str {
        "track"
    }

    fn is_on(&self, _step: bool) -> bool {
        self.on
    }

    /// It is switched on in the middle of a program.
    fn key(&self) -> Option<u64> {
        None
    }

    fn around_bytes(&self) -> u32 {
        BYTES
    }

    fn unrolls(&self) -> bool {
        false
    }

    fn before(&self, unit: &mut Unit<'_>, insn: &Insn) -> Flow {
        let all = used_memory(insn);
        if all.is_empty() {
            return Flow::Continue;
        }
        let spans = &mut unit.spans;
        let ordered = order::kind(self.sites, unit.code, insn, |from, to| {
            spans.push((from, to))
        });
        let plan = |memory| plan(insn, memory, ordered.is_some());
        let tracked: Vec<(Place, Tracked)> = all.iter().filter_map(plan).take(MOST).collect();
        if tracked.is_empty() {
            return Flow::Continue;
        }
        let dead = unit.dead_flags(insn.pc()).all();
        for (place, access) in tracked {
            emit(unit, &place, access, dead);
        }
        Flow::Continue
    }
}

fn plan(insn: &Insn, memory: &UsedMemory, atomic: bool) -> Option<(Place, Tracked)> {
    let (reads, writes) = access_kinds(memory.access());
    let iced = &insn.iced;
    let implicit = iced.is_stack_instruction() && memory.base() == Register::RSP;
    if !(reads || writes) || implicit || is_head(memory) || iced.mnemonic() == Mnemonic::Nop {
        return None;
    }
    // Comparisons and searches end where they find something, which is not known yet.
    let searches = matches!(
        iced.mnemonic(),
        Mnemonic::Cmpsb
            | Mnemonic::Cmpsw
            | Mnemonic::Cmpsd
            | Mnemonic::Cmpsq
            | Mnemonic::Scasb
            | Mnemonic::Scasw
            | Mnemonic::Scasd
            | Mnemonic::Scasq
    );
    let size = match memory.memory_size().size() as u64 {
        _ if iced.is_string_instruction() => string_item(iced),
        0 => 8,
        n => n,
    };
    let access = Tracked {
        pc: insn.pc(),
        size,
        writes,
        atomic,
        repeated: insn.is_repeated() && !searches,
        masked: masked(iced, size)?,
    };
    Some((Place::of(memory)?, access))
}

/// Bytes of the head of a thread's control block: its own address, and the stack's guard.
const HEAD: u64 = 0x30;

/// Whether this is a read of that head by FS. Its form is fixed by the ABI, and nobody else writes it.
fn is_head(memory: &UsedMemory) -> bool {
    let is_fixed = memory.base() == Register::None && memory.index() == Register::None;
    let (_, writes) = access_kinds(memory.access());
    memory.segment() == Register::FS && is_fixed && !writes && memory.displacement() < HEAD
}

/// The mask register of an access, and log2 of the bytes of its elements. `None` if the elements that
/// it accesses are told in another way.
fn masked(iced: &Instruction, size: u64) -> Option<Option<(u8, u8)>> {
    use Mnemonic as M;
    if matches!(
        iced.mnemonic(),
        M::Maskmovq
            | M::Maskmovdqu
            | M::Vmaskmovdqu
            | M::Vmaskmovps
            | M::Vmaskmovpd
            | M::Vpmaskmovd
            | M::Vpmaskmovq
            | M::Vcompressps
            | M::Vcompresspd
            | M::Vpcompressb
            | M::Vpcompressw
            | M::Vpcompressd
            | M::Vpcompressq
            | M::Vexpandps
            | M::Vexpandpd
            | M::Vpexpandb
            | M::Vpexpandw
            | M::Vpexpandd
            | M::Vpexpandq
    ) {
        return None;
    }
    let is_plain = iced.op_mask() == Register::None || size < 16;
    if is_plain {
        return Some(None);
    }
    // The element of the mask is that of the operation, and as wide as the memory's.
    let element = iced.memory_size().element_size().clamp(1, 8);
    let element = match iced.mnemonic() {
        M::Vmovdqu8 => 1,
        M::Vmovdqu16 => 2,
        M::Vmovdqu32 | M::Vmovdqa32 => 4,
        M::Vmovdqu64 | M::Vmovdqa64 => 8,
        _ => element,
    };
    Some(Some((
        iced.op_mask().number() as u8,
        element.trailing_zeros() as u8,
    )))
}

/// Emits the check of one access; `dead`: flags may be lost.
fn emit(unit: &mut Unit<'_>, place: &Place, access: Tracked, dead: bool) {
    let asm = &mut *unit.asm;
    asm.spill_rcx();
    match place {
        Place::Fixed(at) => asm.mov_imm64(RCX, *at),
        Place::Computed(address) => address.emit(asm, RCX, RDX_SLOT),
    }
    asm.store(RDX_SLOT, RDX);
    if !dead {
        asm.store(RAX_SLOT, RAX);
        asm.bytes(&[0x9f, 0x0f, 0x90, 0xc0]); // lahf; seto al
    }
    if access.atomic || access.repeated || access.masked.is_some() {
        tell(asm, access);
    } else {
        asm.bytes(&[0x89, 0xca, 0xc1, 0xea, track::ENTRY_SHIFT as u8]); // mov edx, ecx; shr edx, 2
        asm.bytes(&[0x0f, 0xb7, 0xd2]); // movzx edx, dx
        add_key(asm);
        asm.keep_whole(CMP_BYTES + JCC_BYTES);
        asm.bytes(&[0x48, 0x3b, 0x0c, 0xd5]); // cmp rcx, [rdx*8 + table]
        asm.bytes(&(track::table(access.size, access.writes) as u32).to_le_bytes());
        let back = asm.here() + JCC_BYTES;
        let stub = unit
            .exits
            .add_code(SLOT_BYTES + TELL_BYTES + JMP_BYTES, |stub| {
                // The address again.
                add_key(stub);
                tell(stub, access);
                stub.jmp(back);
            });
        unit.asm.jcc(NOT_EQUAL, stub);
    }
    let asm = &mut *unit.asm;
    if !dead {
        asm.bytes(&[0x04, 0x7f, 0x9e]); // add al, 0x7f; sahf
        asm.load(RAX, RAX_SLOT);
    }
    asm.load(RDX, RDX_SLOT);
    asm.restore_rcx();
}

const _: () = assert!(track::ENTRIES == 1 << 16);

/// `xor rcx, gs:[key]`
fn add_key(asm: &mut Asm) {
    asm.gs(Some(0x48), 0x33, RCX, off::TRACK_KEY);
}

/// Tells the host of an access at rcx.
fn tell(asm: &mut Asm, access: Tracked) {
    asm.mov_imm64(RDX, access.word());
    asm.begin_host_call(off::TRACK_FNS + 8 * access.kind() as i32);
    asm.load(RSP, OLD_RSP);
}
