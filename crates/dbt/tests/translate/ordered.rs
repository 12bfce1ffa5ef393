//! Ordered instructions of one thread: the line that each one holds, and faults in them.

use iced_x86::code_asm::*;
use relive_dbt::{Options, Ordered, Stop};
use relive_host::{Context, GuestAddr, order};

use super::guest::*;
use super::locked::{self, FREE};
use super::raw::INDEX;
use super::state::State;

const NOWHERE: u64 = 0x3000_0000;
/// A thread that no guest is.
pub const OTHER: u32 = 77;
const ALL: i32 = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;

pub fn recorded(max_insns: u32) -> Options {
    Options {
        order: Ordered::Record,
        ..options(max_insns)
    }
}

/// The last operation on a line, as the next thread sees it: thread and ordinal.
pub fn last(addr: u64) -> Option<(u32, u64)> {
    let mut ctx = Context::new();
    ctx.order_id = OTHER;
    let object = order::object_of(addr);
    assert!(!object.is_held());
    object.acquire(&mut ctx);
    object.release();
    ctx.edges().first().map(|edge| (edge.from, edge.from_op))
}

/// The address that a fault was for.
fn fault_addr(guest: &Guest) -> u64 {
    let addr = guest.ctx.fault.siginfo[16..24].try_into();
    u64::from_le_bytes(addr.expect("8 bytes"))
}

/// The processor itself tells the address, by a fault.
#[test]
fn the_object_is_that_of_the_line_which_the_processor_accesses() {
    for seed in 0..3000 {
        let locked = locked::instruction(seed, DATA);
        let mut guest = Guest::with(recorded(64));
        guest.assemble(LOW_CODE, |a| {
            match locked.raw.relative {
                Some(insn) => a.add_instruction(insn)?,
                None => a.db(&locked.raw.bytes)?,
            }
            a.syscall()
        });
        (guest.ctx.gpr[12], guest.ctx.gpr[15]) = (INDEX, DATA);
        if let Some(place) = locked.bit {
            // Bits far from the operand, on both sides.
            let number = (seed * 77 % 0x1000) as i64 - 0x800;
            guest.ctx.gpr[usize::from(FREE[usize::from(place)])] = number as u64;
        }
        let first = State::of(&guest);
        protect(DATA, DATA_LEN, libc::PROT_NONE);
        let stop = guest.run();
        protect(DATA, DATA_LEN, ALL);
        let what = format!("{:02x?}", locked.raw.bytes);
        assert!(matches!(stop, Stop::Fault { .. }), "{stop:?}, {what}");
        assert_eq!(first.diff(&State::of(&guest)), "", "{what}");
        assert_eq!(guest.ctx.ops, 0, "{what}");
        let addr = fault_addr(&guest);
        assert_eq!(last(addr), Some((1, 0)), "{what} at {addr:#x}");
        order::forget().expect("their memory is there");
        assert_eq!(last(addr), None);
        order::forget().expect("their memory is there");
        guest.ctx.rip = LOW_CODE;
        guest.expect_syscall();
        assert_eq!(guest.ctx.ops, 1, "{what}");
        assert_eq!(last(addr), Some((1, 1)), "{what} at {addr:#x}");
    }
}

/// Runs one instruction in the middle of others until it faults; nothing has changed, and nothing
/// is held or counted.
fn faults(base: u64, code: &[u8], prepare: impl Fn(&mut Guest)) {
    for order in [Ordered::Record, Ordered::Count] {
        for (max, step) in [(1, false), (64, false), (64, true)] {
            for ending in [&b"\x0f\x05"[..], &FLAGS_WRITER] {
                let mut guest = Guest::with(Options {
                    order,
                    ..options(max)
                });
                guest.load(base, &[code, ending].concat());
                for (i, reg) in guest.ctx.gpr.iter_mut().enumerate() {
                    *reg = NOWHERE + 0x100 * i as u64;
                }
                guest.ctx.gpr[4] = TOP;
                guest.ctx.rflags = 0x202 | 0x8d5;
                guest.ctx.ops = 5;
                prepare(&mut guest);
                let mut expected = State::of(&guest);
                let stop = if step { guest.step() } else { guest.run() };
                let what = format!("{code:02x?} with {order:?} {max} {step}");
                let pc = GuestAddr(base);
                assert_eq!(stop, Stop::Fault { pc }, "{what}");
                // Dead flags are zero at a stop.
                let dead = relive_dbt::dead_flags_at(&guest.memory, pc);
                expected.rflags &= !dead;
                assert_eq!(expected.diff(&State::of(&guest)), "", "{what}");
                assert_eq!(guest.ctx.ops, 5, "{what}");
            }
        }
    }
}

#[test]
fn a_fault_changes_and_counts_nothing() {
    let none = |_: &mut Guest| ();
    faults(LOW_CODE, b"\xf0\x48\x0f\xc1\x0b", none); // lock xadd [rbx], rcx
    faults(LOW_CODE, b"\x48\x87\x03", none); // xchg [rbx], rax
    faults(LOW_CODE, b"\x87\x0c\x0b", none); // xchg [rbx + rcx], ecx
    faults(LOW_CODE, b"\xf0\xff\x03", none); // lock inc dword [rbx]
    faults(LOW_CODE, b"\xf0\xf6\x13", none); // lock not byte [rbx]
    faults(LOW_CODE, b"\xf0\x11\x03", none); // lock adc [rbx], eax
    faults(LOW_CODE, b"\xf0\x0f\xab\x03", none); // lock bts [rbx], eax
    faults(LOW_CODE, b"\xf0\x48\x0f\xc7\x0c\x37", none); // lock cmpxchg16b [rdi + rsi]
    faults(LOW_CODE, b"\x65\x48\x87\x03", none); // xchg gs:[rbx], rax
    faults(LOW_CODE, b"\x64\x48\x87\x0b", none); // xchg fs:[rbx], rcx
    // lock cmpxchg16b [r15 + 8]: not aligned
    faults(LOW_CODE, b"\xf0\x49\x0f\xc7\x4f\x08", |g| {
        g.ctx.gpr[15] = DATA;
    });
}

#[test]
fn a_fault_with_an_operand_out_of_reach_changes_and_counts_nothing() {
    let none = |_: &mut Guest| ();
    for reg in [0, 1, 2, 3, 5, 6, 7] {
        // xchg [rip + 0x2000000], reg
        faults(HIGH_CODE, &[0x48, 0x87, 0x05 | reg << 3, 0, 0, 0, 2], none);
    }
    // lock cmpxchg16b [rip + 0x2000000], and xchg [rip + ...], ah
    faults(HIGH_CODE, &[0xf0, 0x48, 0x0f, 0xc7, 0x0d, 0, 0, 0, 2], none);
    faults(HIGH_CODE, &[0x86, 0x25, 0, 0, 0, 2], none);
}

#[test]
fn operands_in_both_segments_are_those_of_the_guest() {
    for order in [Ordered::Off, Ordered::Count, Ordered::Record] {
        let mut guest = Guest::with(Options {
            order,
            ..options(64)
        });
        guest.assemble(LOW_CODE, |a| {
            // The second one keeps the flags of the first.
            a.lock().xadd(qword_ptr(rbx).fs(), rax)?;
            a.xchg(qword_ptr(rbx + 8).gs(), rcx)?;
            a.syscall()
        });
        guest.ctx.guest_gs = DATA + 0x1000;
        (guest.ctx.gpr[0], guest.ctx.gpr[1], guest.ctx.gpr[3]) = (u64::MAX, 7, 0x40);
        guest.fill(DATA + 0x40, &1u64.to_le_bytes());
        guest.fill(DATA + 0x1048, &9u64.to_le_bytes());
        guest.expect_syscall();
        assert_eq!((guest.ctx.gpr[0], guest.ctx.gpr[1]), (1, 9));
        assert_eq!(guest.read_u64(DATA + 0x40), 0);
        assert_eq!(guest.read_u64(DATA + 0x1048), 7);
        // CF, ZF, AF, PF of a carry out of all bits to 0.
        assert_eq!(guest.ctx.rflags & 0x8d5, 0x55);
        let ops = if order == Ordered::Off { 0 } else { 2 };
        assert_eq!(guest.ctx.ops, ops);
        if order == Ordered::Record {
            assert_eq!(last(DATA + 0x40), Some((1, 1)));
            assert_eq!(last(DATA + 0x1048), Some((1, 2)));
        }
    }
}

/// The cost of operations that no other thread disturbs, in nanoseconds; with `--nocapture`.
#[test]
#[ignore = "a measurement"]
fn cost() {
    const ROUNDS: u64 = 1_000_000;
    type Emit = fn(&mut CodeAssembler) -> Result<(), IcedError>;
    let programs: [(&str, Emit); 3] = [
        ("lock xadd", |a| a.lock().xadd(qword_ptr(rbx), rax)),
        ("xchg, flags alive", |a| a.xchg(qword_ptr(rbx), rax)),
        ("lock xadd, then 30 others", |a| {
            a.lock().xadd(qword_ptr(rbx), rax)?;
            (0..30).try_for_each(|_| a.lea(rdx, rdx + rdx * 2 + 1))
        }),
    ];
    for (name, emit) in programs {
        for order in [Ordered::Off, Ordered::Count, Ordered::Record] {
            let mut guest = Guest::with(Options {
                order,
                ..options(64)
            });
            guest.assemble(LOW_CODE, |a| {
                let mut head = a.create_label();
                a.set_label(&mut head)?;
                emit(a)?;
                // The loop reads no flag of the instruction's, but may let it keep them.
                a.lea(r9, r9 - 1)?;
                a.mov(rcx, r9)?;
                let mut out = a.create_label();
                a.jrcxz(out)?;
                a.jmp(head)?;
                a.set_label(&mut out)?;
                a.syscall()
            });
            let mut best = f64::INFINITY;
            for _ in 0..20 {
                reset(guest.ctx);
                guest.ctx.rip = LOW_CODE;
                (guest.ctx.gpr[3], guest.ctx.gpr[9]) = (DATA, ROUNDS);
                guest.ctx.grant(2 * ROUNDS as i64);
                let start = std::time::Instant::now();
                guest.expect_syscall();
                best = best.min(start.elapsed().as_secs_f64() * 1e9 / ROUNDS as f64);
            }
            eprintln!("{name}, {order:?}: {best:.2} ns");
        }
    }
}
