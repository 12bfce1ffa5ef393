//! Faults anywhere give exact guest state, and the guest can go on from there.

use iced_x86::code_asm::*;
use relive_dbt::{Stop, TrapKind};
use relive_host::{GuestAddr, Reg};

use super::guest::*;
use super::state::State;

const NOWHERE: u64 = 0x3000_0000;
const RW: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// Runs `code` until it faults at offset `at`, with registers recognisable; checks that nothing has
/// changed but as `changes` says.
fn faults(
    base: u64,
    code: &[u8],
    at: u64,
    prepare: impl Fn(&mut Guest),
    changes: impl Fn(&mut State),
) {
    for max in [1, 2, 64] {
        for step in [false, true] {
            let mut guest = Guest::new(max);
            // Behind the code flags live: a system call.
            guest.load(base + code.len() as u64, b"\x0f\x05");
            guest.load(base, code);
            for (i, reg) in guest.ctx.gpr.iter_mut().enumerate() {
                *reg = NOWHERE + 0x100 * i as u64;
            }
            guest.ctx.gpr[4] = TOP;
            guest.ctx.rflags = 0x202 | 0x8d5;
            prepare(&mut guest);
            let mut expected = State::of(&guest);
            changes(&mut expected);
            let mut stop = if step { guest.step() } else { guest.run() };
            while matches!(stop, Stop::Stepped { .. }) {
                stop = guest.step();
            }
            let what = format!("{code:02x?} with {max}, stepping {step}");
            assert_eq!(
                stop,
                Stop::Fault {
                    pc: GuestAddr(base + at)
                },
                "{what}"
            );
            assert_eq!(guest.ctx.rip, base + at, "{what}");
            let diff = expected.diff(&State::of(&guest));
            assert!(diff.is_empty(), "{what}:\n{diff}");
        }
    }
}

fn same(_: &mut State) {}

fn no_stack(guest: &mut Guest) {
    guest.ctx.set_reg(Reg::Rsp, NOWHERE);
}

#[test]
fn plain_accesses() {
    faults(LOW_CODE, b"\x48\x8b\x03", 0, |_| (), same); // mov rax, [rbx]
    faults(LOW_CODE, b"\x90\x48\x8b\x03", 1, |_| (), same);
    faults(LOW_CODE, b"\x48\x89\x0b", 0, |_| (), same); // mov [rbx], rcx
    faults(LOW_CODE, b"\xf4", 0, |_| (), same); // hlt
    faults(LOW_CODE, b"\xec", 0, |_| (), same); // in al, dx
    faults(LOW_CODE, b"\xcd\x20", 0, |_| (), same); // int 0x20
}

#[test]
fn divisions() {
    faults(LOW_CODE, b"\x48\xf7\xf3", 0, |g| g.ctx.gpr[3] = 0, same); // div rbx
}

#[test]
fn calls_and_returns() {
    faults(LOW_CODE, b"\xe8\x00\x00\x00\x00", 0, no_stack, same);
    faults(LOW_CODE, b"\xff\xd0", 0, no_stack, same); // call rax
    faults(LOW_CODE, b"\xff\xd1", 0, no_stack, same); // call rcx
    faults(LOW_CODE, b"\xff\x13", 0, |_| (), same); // call [rbx]
    faults(LOW_CODE, b"\xff\x51\x08", 0, |_| (), same); // call [rcx + 8]
    faults(LOW_CODE, b"\xff\x24\xcd\x00\x00\x00\x30", 0, |_| (), same); // jmp [rcx*8 + 0x30000000]
    faults(LOW_CODE, b"\xff\x23", 0, |_| (), same); // jmp [rbx]
    faults(LOW_CODE, b"\xc3", 0, no_stack, same);
    faults(LOW_CODE, b"\xc2\x10\x00", 0, no_stack, same);
    faults(LOW_CODE, b"\x66\x9d", 0, no_stack, same); // popfw
    faults(LOW_CODE, b"\x9d", 0, no_stack, same); // popfq
}

#[test]
fn calls_from_high_code() {
    faults(HIGH_CODE, b"\xe8\x00\x00\x00\x00", 0, no_stack, same);
    faults(HIGH_CODE, b"\xff\xd0", 0, no_stack, same);
    // call [rip + 0x2000000], jmp [rip + 0x2000000]: nothing there
    faults(HIGH_CODE, b"\xff\x15\x00\x00\x00\x02", 0, |_| (), same);
    faults(HIGH_CODE, b"\xff\x25\x00\x00\x00\x02", 0, |_| (), same);
}

/// The operand is there, the stack is not.
#[test]
fn pushes_of_indirect_calls() {
    let code = |guest: &mut Guest| {
        guest.fill(HIGH_DATA, &LOW_CODE.to_le_bytes());
        guest.ctx.set_reg(Reg::Rsp, NOWHERE);
    };
    let disp = (HIGH_DATA - HIGH_CODE - 6) as u32;
    let call = [&[0xff, 0x15][..], &disp.to_le_bytes()].concat();
    faults(HIGH_CODE, &call, 0, code, same);
}

#[test]
fn rip_relative_operands_out_of_reach() {
    // mov [rip + 0x2000000], r; with each register, so that the scratch one differs
    for reg in 0..8u8 {
        faults(
            HIGH_CODE,
            &[0x48, 0x89, 0x05 | reg << 3, 0, 0, 0, 2],
            0,
            |_| (),
            same,
        );
    }
    // mov [rip + ...], ah
    faults(HIGH_CODE, &[0x88, 0x25, 0, 0, 0, 2], 0, |_| (), same);
    // lock cmpxchg16b [rip + ...]
    faults(
        HIGH_CODE,
        &[0xf0, 0x48, 0x0f, 0xc7, 0x0d, 0, 0, 0, 2],
        0,
        |_| (),
        same,
    );
    // vaddps ymm1, ymm2, [rip + ...] with the meaningless base bit set
    faults(
        HIGH_CODE,
        &[0xc4, 0xc1, 0x6c, 0x58, 0x0d, 0, 0, 0, 2],
        0,
        |_| (),
        same,
    );
    // pop [rip + ...]
    faults(HIGH_CODE, &[0x8f, 0x05, 0, 0, 0, 2], 0, |_| (), same);
}

#[test]
fn string_instructions_stop_where_they_are() {
    // rep movsb over the end of the data
    let prepare = |guest: &mut Guest| {
        guest.ctx.set_reg(Reg::Rsi, DATA);
        guest.ctx.set_reg(Reg::Rdi, DATA + DATA_LEN - 16);
        guest.ctx.set_reg(Reg::Rcx, 64);
    };
    faults(LOW_CODE, b"\xf3\xa4", 0, prepare, |state| {
        state.gpr[6] += 16;
        state.gpr[7] += 16;
        state.gpr[1] -= 16;
    });
}

#[test]
fn dead_flags_are_seen_as_zero() {
    let clear = |state: &mut State| state.rflags &= !0x8d5;
    // mov rax, [rbx]; xor edx, edx
    faults(LOW_CODE, b"\x48\x8b\x03\x31\xd2", 0, |_| (), clear);
    // mov rax, [rbx]; inc edx; ret: CF lives
    faults(
        LOW_CODE,
        b"\x48\x8b\x03\xff\xc2\xc3",
        0,
        |_| (),
        |state| state.rflags &= !0x8d4,
    );
    // The tick in front of this loop's head loses the flags; between stc and inc only
    // the carry is the guest's: head: stc; mov rax, [rbx]; inc edx; adc edx, edx
    let code = b"\x31\xc0\xeb\x02\xeb\xfe\xf9\x48\x8b\x03\xff\xc2\x11\xd2";
    faults(
        LOW_CODE,
        code,
        7,
        |_| (),
        |state| {
            state.gpr[0] = 0;
            state.rflags = 0x203;
        },
    );
}

#[test]
fn ticks_that_lose_flags_do_not_show() {
    // head: cmp eax, 3; je out; inc eax; jmp head; out: mov [rbx], rax
    let code = b"\x83\xf8\x03\x74\x04\xff\xc0\xeb\xf7\x48\x89\x03";
    faults(
        LOW_CODE,
        code,
        9,
        |g| g.ctx.gpr[0] = 0,
        |state| {
            state.gpr[0] = 3;
            state.rflags = 0x246;
        },
    );
    // head: mov rdx, [rax]; add rax, 8; jmp head: faults at the end of the data, where
    // all flags are dead
    let code = b"\x48\x8b\x10\x48\x83\xc0\x08\xeb\xf7";
    faults(
        LOW_CODE,
        code,
        0,
        |g| g.ctx.gpr[0] = DATA,
        |state| {
            state.gpr[0] = DATA + DATA_LEN;
            state.gpr[2] = 0;
            state.rflags = 0x202;
        },
    );
}

#[test]
fn the_guest_goes_on_when_the_page_is_there() {
    let mut guest = Guest::new(64);
    guest.assemble(LOW_CODE, |a| {
        a.mov(rax, DATA + 0x1000)?;
        a.add(qword_ptr(rax), 5)?;
        a.push(qword_ptr(rax))?;
        a.pop(rbx)?;
        a.syscall()
    });
    protect(DATA + 0x1000, 0x1000, libc::PROT_NONE);
    let stop = guest.run();
    assert_eq!(
        stop,
        Stop::Fault {
            pc: GuestAddr(guest.ctx.rip)
        }
    );
    assert_eq!(guest.ctx.fault.trapno, 14);
    protect(DATA + 0x1000, 0x1000, RW);
    guest.expect_syscall();
    assert_eq!(guest.ctx.gpr[3], 5);
}

#[test]
fn traps_name_themselves() {
    let rows: [(&[u8], TrapKind, u64); 12] = [
        (b"\x90\xcc", TrapKind::Int3, 1),
        (b"\x90\xf1", TrapKind::Int1, 1),
        (b"\x90\x0f\x0b", TrapKind::Undefined, 2),
        (b"\x90\x0f\xb9\xc0", TrapKind::Undefined, 3),
        (b"\x90\x06", TrapKind::Undefined, 0),
        (b"\x90\xf0\x90", TrapKind::Undefined, 0),
        (b"\x90\xcd\x04", TrapKind::Overflow, 2),
        (b"\x90\xcd\x80", TrapKind::Gate, 2),
        (b"\x90\xc7\xf8\0\0\0\0", TrapKind::Undefined, 6),
        (b"\x90\x0f\x01\xd6", TrapKind::Undefined, 3),
        (b"\x90\x0f\x01\xef", TrapKind::Undefined, 3),
        (b"\x90\xf2\x0f\xae\xf0", TrapKind::Undefined, 4),
    ];
    for (code, kind, len) in rows {
        let mut guest = Guest::new(64);
        guest.load(LOW_CODE, code);
        let pc = LOW_CODE + 1;
        let stop = guest.run();
        assert_eq!(
            stop,
            Stop::Trap {
                pc: GuestAddr(pc),
                next: GuestAddr(pc + len),
                kind
            }
        );
        assert_eq!(guest.ctx.rip, pc);
    }
}

#[test]
fn instructions_at_the_end_of_executable_memory() {
    let end = LOW_CODE + CODE_LEN;
    // mov eax, imm32, cut; the part before it runs
    let mut guest = Guest::new(64);
    guest.load(end - 4, b"\x90\xb8\x01\x02");
    let stop = guest.run();
    assert_eq!(
        stop,
        Stop::NoCode {
            pc: GuestAddr(end - 3),
            addr: GuestAddr(end)
        }
    );
    assert_eq!(guest.ctx.rip, end - 3);
    drop(guest);
    // A whole one, and then nothing.
    let mut guest = Guest::new(64);
    guest.load(end - 2, b"\xff\xc0");
    let stop = guest.run();
    assert_eq!(
        (stop, guest.ctx.gpr[0]),
        (
            Stop::NoCode {
                pc: GuestAddr(end),
                addr: GuestAddr(end)
            },
            1
        )
    );
}

#[test]
fn x87_exceptions_are_faults_of_the_next_x87_instruction() {
    let mut guest = Guest::new(64);
    // Unmask division by zero: fldcw; fld1; fldz; fdivp; nop; fwait
    guest.fill(DATA, &0x37b_u16.to_le_bytes());
    guest.assemble(LOW_CODE, |a| {
        a.fldcw(word_ptr(DATA))?;
        a.fld1()?;
        a.fldz()?;
        a.fdivp(st1, st0)?;
        a.nop()?;
        a.wait()
    });
    let stop = guest.run();
    assert!(matches!(stop, Stop::Fault { .. }), "{stop:?}");
    assert_eq!(guest.read(guest.ctx.rip, 1), [0x9b]);
    assert_eq!(guest.ctx.fault.trapno, 16);
    assert_eq!(
        guest.ctx.vectors().0[6..24],
        [0; 18],
        "an address in the cache is left"
    );
}
