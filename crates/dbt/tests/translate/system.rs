//! Instructions that stop, and processor state that must not leak or change.

use iced_x86::code_asm::*;
use relive_dbt::{AtPause, GeneralProtection, InstrOp, Options, Stop, TrapKind, Width};
use relive_host::{GuestAddr, Reg};

use super::guest::*;

fn instr(code: &[u8]) -> (Guest, InstrOp, GuestAddr) {
    let mut guest = Guest::new(64);
    guest.load(LOW_CODE, code);
    guest.ctx.gpr = [u64::MAX; 16];
    guest.ctx.gpr[4] = TOP;
    guest.ctx.rflags = 0x202 | 0x8d5;
    let stop = guest.run();
    let Stop::Instr { op, pc, next } = stop else {
        panic!("{stop:?} for {code:02x?}")
    };
    assert_eq!((pc.0, guest.ctx.rip), (LOW_CODE, LOW_CODE));
    assert_eq!(next.0, LOW_CODE + code.len() as u64);
    (guest, op, next)
}

#[test]
fn answered_instructions() {
    let value = 0x1122_3344_5566_7788;
    type Row<'a> = (&'a [u8], [u64; 4], &'a [(Reg, u64)], u64);
    let (low, high, all) = (0x5566_7788, 0x1122_3344, 0x202 | 0x8d5);
    let rows: [Row; 11] = [
        (
            b"\x0f\x31",
            [value, 0, 0, 0],
            &[(Reg::Rax, low), (Reg::Rdx, high)],
            all,
        ),
        (
            b"\x0f\x01\xf9",
            [value, 9, 0, 0],
            &[(Reg::Rax, low), (Reg::Rdx, high), (Reg::Rcx, 9)],
            all,
        ),
        (
            b"\x0f\xa2",
            [1, 2, 3, 4],
            &[(Reg::Rax, 1), (Reg::Rbx, 2), (Reg::Rcx, 3), (Reg::Rdx, 4)],
            all,
        ),
        (
            b"\x48\x0f\xc7\xf3",
            [value, 1, 0, 0],
            &[(Reg::Rbx, value)],
            0x203,
        ),
        (b"\x0f\xc7\xf3", [value, 1, 0, 0], &[(Reg::Rbx, low)], 0x203),
        (
            b"\x66\x0f\xc7\xf3",
            [value, 1, 0, 0],
            &[(Reg::Rbx, 0xffff_ffff_ffff_7788)],
            0x203,
        ),
        (
            b"\x49\x0f\xc7\xf1",
            [value, 0, 0, 0],
            &[(Reg::R9, 0)],
            0x202,
        ),
        (
            b"\x48\x0f\xc7\xfb",
            [value, 1, 0, 0],
            &[(Reg::Rbx, value)],
            0x203,
        ),
        (b"\x0f\xc7\xfb", [value, 0, 0, 0], &[(Reg::Rbx, 0)], 0x202),
        (
            b"\xf3\x0f\xc7\xfb",
            [value, 0, 0, 0],
            &[(Reg::Rbx, low)],
            all,
        ),
        (b"\xf3\x0f\xae\xd3", [0; 4], &[], all), // wrfsbase ebx
    ];
    for (code, values, regs, flags) in rows {
        let (guest, op, next) = instr(code);
        let mut expected = guest.ctx.gpr;
        regs.iter()
            .for_each(|(reg, value)| expected[*reg as usize] = *value);
        op.apply(guest.ctx, next, values).expect("no fault");
        assert_eq!(guest.ctx.gpr, expected, "{op:?}");
        assert_eq!((guest.ctx.rip, guest.ctx.rflags), (next.0, flags), "{op:?}");
    }
}

#[test]
fn xgetbv_and_wrfsbase_can_fault() {
    let (guest, op, next) = instr(b"\x0f\x01\xd0");
    assert_eq!(
        op.apply(guest.ctx, next, [7, 0, 0, 0]),
        Err(GeneralProtection)
    );
    guest.ctx.set_reg(Reg::Rcx, 0);
    assert_eq!(op.apply(guest.ctx, next, [7, 0, 0, 0]), Ok(()));
    assert_eq!((guest.ctx.reg(Reg::Rax), guest.ctx.reg(Reg::Rdx)), (7, 0));
    drop(guest);
    let (guest, op, next) = instr(b"\xf3\x48\x0f\xae\xd3"); // wrfsbase rbx
    assert_eq!(
        op,
        InstrOp::WrFsBase {
            reg: 3,
            width: Width::W64
        }
    );
    guest.ctx.set_reg(Reg::Rbx, 1 << 60);
    assert_eq!(op.apply(guest.ctx, next, [0; 4]), Err(GeneralProtection));
    guest.ctx.set_reg(Reg::Rbx, DATA + 64);
    assert_eq!(op.apply(guest.ctx, next, [0; 4]), Ok(()));
    assert_eq!(guest.ctx.guest_fs, DATA + 64);
}

#[test]
fn the_guest_has_a_gs_base() {
    let mut guest = Guest::new(64);
    guest.fill(DATA + 0x40, &[9, 0, 0, 0, 0, 0, 0, 0]);
    guest.ctx.gpr[3] = DATA + 0x40;
    let fs_base = guest.ctx.guest_fs;
    // wrgsbase rbx; add qword gs:[0], 5; mov rax, gs:[0]; rdgsbase rdx; rdfsbase rcx; syscall
    let code = b"\xf3\x48\x0f\xae\xdb\x65\x48\x83\x04\x25\0\0\0\0\x05\x65\x48\x8b\x04\x25\0\0\0\0\xf3\x48\x0f\xae\xca\xf3\x48\x0f\xae\xc6\x0f\x05";
    guest.load(LOW_CODE, code);
    for _ in 0..2 {
        let Stop::Instr { op, next, .. } = guest.run() else {
            panic!("the GS base is the engine's")
        };
        assert_eq!(op.apply(guest.ctx, next, [0; 4]), Ok(()));
    }
    assert!(matches!(guest.run(), Stop::Syscall { .. }));
    assert_eq!(guest.ctx.guest_gs, DATA + 0x40);
    assert_eq!((guest.ctx.gpr[0], guest.ctx.gpr[2]), (14, DATA + 0x40));
    assert_eq!(guest.ctx.gpr[6], fs_base);
}

#[test]
fn the_guest_sees_its_own_fs() {
    let mut guest = Guest::new(64);
    guest.fill(DATA + 0x40, &[9, 0, 0, 0, 0, 0, 0, 0]);
    guest.ctx.gpr[3] = DATA + 0x40;
    // mov rax, fs:[0x40]; wrfsbase rbx; rdfsbase rdx; mov rcx, fs:[0]; syscall
    let code =
        b"\x64\x48\x8b\x04\x25\x40\0\0\0\xf3\x48\x0f\xae\xd3\xf3\x48\x0f\xae\xc2\x64\x48\x8b\x0c\x25\0\0\0\0\x0f\x05";
    guest.load(LOW_CODE, code);
    let Stop::Instr { op, next, .. } = guest.run() else {
        panic!("no wrfsbase")
    };
    op.apply(guest.ctx, next, [0; 4]).expect("canonical");
    guest.expect_syscall();
    let ctx = &guest.ctx;
    assert_eq!((ctx.gpr[0], ctx.gpr[1], ctx.gpr[2]), (9, 9, DATA + 0x40));
}

#[test]
fn system_calls_stop_in_front_with_everything_in_place() {
    let mut guest = Guest::new(64);
    guest.load(LOW_CODE, b"\x90\x0f\x05\x90");
    guest.ctx.gpr[1] = 11;
    guest.ctx.gpr[11] = 12;
    guest.ctx.rflags = 0x202 | 0x8d5;
    let stop = guest.run();
    assert_eq!(
        stop,
        Stop::Syscall {
            pc: GuestAddr(LOW_CODE + 1),
            next: GuestAddr(LOW_CODE + 3)
        }
    );
    assert_eq!(
        (guest.ctx.gpr[1], guest.ctx.gpr[11], guest.ctx.rflags),
        (11, 12, 0x202 | 0x8d5)
    );
}

/// Direction, nested task, alignment check, identification.
const UNUSUAL_FLAGS: [u64; 4] = [1 << 10, 1 << 14, 1 << 18, 1 << 21];

#[test]
fn flags_are_the_guests_and_stay_with_it() {
    let mut guest = Guest::new(64);
    guest.load(LOW_CODE, &FLAGS_READER);
    let arithmetic = |n: u64| [0, 2, 4, 6, 7, 11].map(|bit| (n & 1) << bit);
    for n in 0..64u64 {
        let set = (0..6).fold(0, |set, i| set | arithmetic(n >> i)[i]);
        for unusual in UNUSUAL_FLAGS {
            for flags in [0x202 | set | unusual, 0x202 | set] {
                (guest.ctx.rip, guest.ctx.rflags) = (LOW_CODE, flags);
                guest.expect_syscall();
                assert_eq!((guest.ctx.gpr[3], guest.ctx.rflags), (flags, flags));
            }
        }
    }
}

#[test]
fn pause_counts_and_stops() {
    let mut guest = Guest::new(64);
    guest.load(LOW_CODE, b"\xf3\x90\xf3\x90\x0f\x05");
    assert_eq!(
        guest.run(),
        Stop::Pause {
            next: GuestAddr(LOW_CODE + 2)
        }
    );
    assert_eq!(guest.ctx.ticks(), 1);
    guest.ctx.grant(1);
    assert_eq!(
        guest.run(),
        Stop::Budget {
            pc: GuestAddr(LOW_CODE + 4)
        }
    );
    assert_eq!(guest.ctx.ticks(), 2);
}

#[test]
fn pause_counts_and_goes_on() {
    let mut guest = Guest::with(Options {
        at_pause: AtPause::GoOn,
        ..options(64)
    });
    guest.load(LOW_CODE, b"\xf3\x90\xf3\x90\xf3\x90\x0f\x05");
    guest.ctx.grant(2);
    assert_eq!(
        guest.run(),
        Stop::Budget {
            pc: GuestAddr(LOW_CODE + 4)
        }
    );
    assert_eq!(guest.ctx.ticks(), 2);
    guest.ctx.grant(PLENTY);
    guest.expect_syscall();
    assert_eq!(guest.ctx.ticks(), 3);
}

#[test]
fn refused_instructions_are_named() {
    let rows: [(&[u8], &str); 7] = [
        (b"\x0f\x03\x04\x24", "read of a segment descriptor"),
        (b"\x65\xff\x24\x25\0\0\0\0", "branch through the GS segment"),
        (b"\x8e\x24\x24", "load of a segment register"),
        (b"\x0f\xa9", "load of a segment register"),
        (b"\x48\xcf", "iret"),
        (b"\xcb", "far return"),
        (b"\xff\x28", "far return"),
    ];
    for (code, name) in rows {
        let mut guest = Guest::new(64);
        guest.load(LOW_CODE, code);
        assert_eq!(
            guest.run(),
            Stop::Unsupported {
                pc: GuestAddr(LOW_CODE),
                what: name
            },
            "{code:02x?}"
        );
    }
}

#[test]
fn segment_registers_take_what_the_processor_takes() {
    let load = |code: &[u8], selector: u64| {
        let mut guest = Guest::new(64);
        guest.ctx.gpr[0] = selector;
        let mut code = code.to_vec();
        code.extend_from_slice(b"\x8c\xda\x0f\x05"); // mov edx, ds; syscall
        guest.load(LOW_CODE, &code);
        let stop = guest.run();
        (stop, guest.ctx.gpr[2])
    };
    // mov ds, eax
    for (selector, read) in [(0x2b, 0x2b), (0x28, 0x28), (0x33, 0x33), (3, 0), (0, 0)] {
        let (stop, there) = load(b"\x8e\xd8", selector);
        assert!(matches!(stop, Stop::Syscall { .. }), "{selector:#x}: {stop:?}");
        assert_eq!(there, read, "{selector:#x}");
    }
    let (stop, _) = load(b"\x8e\xd8", 0x1234);
    assert!(matches!(stop, Stop::Fault { .. }), "{stop:?}");
    // mov gs, eax, which must never reach the processor
    let (stop, _) = load(b"\x8e\xe8", 0);
    let Stop::Instr { op, .. } = stop else {
        panic!("{stop:?}");
    };
    assert_eq!(op, InstrOp::LoadBase { reg: 0, gs: true });
    // mov cs, eax
    assert!(matches!(load(b"\x8e\xc8", 0x33).0, Stop::Trap { kind: TrapKind::Undefined, .. }));
}

#[test]
fn loads_of_bases_and_limits_know_the_descriptors() {
    let mut guest = Guest::new(64);
    let next = GuestAddr(LOW_CODE + 3);
    let (ctx, value) = (&mut guest.ctx, [0x1007, 0, 0, 0]);
    for (selector, limit) in [(0x33, Some(0xffff_ffff)), (0x28, Some(0xffff_ffff)), (0x7b, Some(0x1007)), (0x10, None), (0, None)] {
        (ctx.gpr[0], ctx.gpr[1], ctx.rflags) = (7, selector, 2);
        let width = relive_dbt::Width::W32;
        InstrOp::Lsl { reg: 0, width, from: 1 }.apply(ctx, next, value).unwrap();
        assert_eq!(ctx.gpr[0], limit.unwrap_or(7), "{selector:#x}");
        assert_eq!(ctx.rflags >> 6 & 1 == 1, limit.is_some(), "{selector:#x}");
    }
    for (selector, good) in [(0, true), (3, true), (0x2b, true), (0x10, false), (0x1234, false)] {
        (ctx.gpr[0], ctx.guest_fs, ctx.guest_gs) = (selector, 1, 2);
        let loaded = InstrOp::LoadBase { reg: 0, gs: true }.apply(ctx, next, value);
        assert_eq!((loaded.is_ok(), ctx.guest_fs), (good, 1), "{selector:#x}");
        assert_eq!(ctx.guest_gs, if good { 0 } else { 2 }, "{selector:#x}");
    }
}

#[test]
fn popf_sets_all_flags_and_leaves_the_trap_flag_to_the_engine() {
    for (pop, wide) in [(&b"\x9d"[..], true), (b"\x66\x9d", false)] {
        for trap in [0, 1 << 8] {
            let mut guest = Guest::new(64);
            let value: u64 = 0x8d5 | trap | 1 << 10 | 1 << 18 | 1 << 21;
            guest.ctx.gpr[0] = value;
            guest.ctx.gpr[1] = 5;
            let mut code = vec![0x50]; // push rax
            code.extend_from_slice(pop);
            code.extend_from_slice(b"\x90\x90\x0f\x05");
            guest.load(LOW_CODE, &code);
            if trap != 0 {
                let Stop::Instr { op, next, .. } = guest.run() else {
                    panic!("the trap flag is nobody's");
                };
                assert_eq!(op, InstrOp::Popf { narrow: !wide });
                assert_eq!((guest.ctx.gpr[1], guest.ctx.gpr[4]), (5, TOP - 8));
                op.apply(guest.ctx, next, [value, 0, 0, 0]).unwrap();
            }
            guest.expect_syscall();
            let high = if wide { 1 << 18 | 1 << 21 } else { 0 };
            assert_eq!(guest.ctx.rflags, 0x202 | 0x8d5 | 1 << 10 | high);
            assert_eq!(guest.ctx.gpr[1], 5);
            assert_eq!(guest.ctx.gpr[4], if wide { TOP } else { TOP - 6 });
            assert_eq!(guest.read_u64(TOP - 8), value, "guest memory has changed");
        }
    }
}

#[test]
fn rip_relative_through_the_guests_fs() {
    // mov eax, fs:[rip + d] with d such that rip + d is 0x40
    for base in [LOW_CODE, HIGH_CODE] {
        let mut guest = Guest::new(64);
        guest.ctx.guest_fs = (DATA + 0x40).wrapping_sub(base + 0x1000);
        guest.fill(DATA + 0x40, &[1, 2, 3, 4]);
        let disp = 0x1000u32 - 7;
        let code = [b"\x64\x8b\x05", &disp.to_le_bytes()[..], b"\x0f\x05"].concat();
        guest.load(base, &code);
        guest.expect_syscall();
        assert_eq!(guest.ctx.gpr[0], 0x0403_0201);
        guest.ctx.guest_fs = DATA;
    }
}

#[test]
fn cpuid_in_a_loop_does_not_disturb_registers() {
    let mut guest = Guest::new(64);
    guest.assemble(LOW_CODE, |a| {
        let mut head = a.create_label();
        a.mov(r14d, 3)?;
        a.set_label(&mut head)?;
        a.cpuid()?;
        a.add(r8, rax)?;
        a.dec(r14d)?;
        a.jne(head)?;
        a.syscall()
    });
    for n in 1..=3 {
        let Stop::Instr { op, next, .. } = guest.run() else {
            panic!("no cpuid")
        };
        op.apply(guest.ctx, next, [n, 0, 0, 0]).expect("no fault");
    }
    guest.expect_syscall();
    assert_eq!(guest.ctx.gpr[8], 6);
}

/// A RIP-relative operand ignores the bit that extends a base register.
#[test]
fn rip_relative_operands_with_the_base_bit_set() {
    let value = 0x1122_3344_5566_7788_u64;
    for (base, data) in [(LOW_CODE, DATA), (HIGH_CODE, HIGH_DATA)] {
        // mov rax, [rip + d]; vmovq xmm1, [rip + d]; the same with EVEX; syscall
        let forms: [&[u8]; 3] = [
            b"\x49\x8b\x05",
            b"\xc4\xc1\x7a\x7e\x0d",
            b"\x62\xd1\xfe\x08\x7e\x0d",
        ];
        let avx512 = std::arch::is_x86_feature_detected!("avx512f");
        for form in forms.into_iter().filter(|f| f[0] != 0x62 || avx512) {
            let mut guest = Guest::new(64);
            guest.fill(data + 0x40, &value.to_le_bytes());
            for reg in 8..16 {
                guest.ctx.gpr[reg] = data;
            }
            let disp = (data + 0x40 - base - form.len() as u64 - 4) as u32;
            let code = [form, &disp.to_le_bytes(), b"\x66\x48\x0f\x7e\xca\x0f\x05"].concat(); // movq rdx, xmm1
            guest.load(base, &code);
            guest.expect_syscall();
            let got = if form[0] == 0x49 {
                guest.ctx.gpr[0]
            } else {
                guest.ctx.gpr[2]
            };
            assert_eq!(got, value, "{form:02x?} at {base:#x}");
        }
    }
}
