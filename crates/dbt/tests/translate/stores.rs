//! Instructions that store state of the processor: no address of the cache gets into guest memory, and the
//! components of the XSAVE family are those that the processor stores.

use iced_x86::code_asm::*;
use relive_dbt::{GeneralProtection, InstrOp, Stop, TrapKind, Width};
use relive_host::{GuestAddr, Reg};
use super::guest::*;

/// Stores x87 state in all ways, in low and in high code, stepping or not; the pointers in memory
/// must be 0, all bytes around them the processor's.
#[test]
fn no_cache_address_gets_into_guest_memory() {
    // With operand [r15 + 0x400]; the pointers' offset and size.
    let rows: [(&[u8], usize, usize); 10] = [
        (b"\x41\xd9\xb7", 12, 14),    // fnstenv
        (b"\x66\x41\xd9\xb7", 6, 8),  // fnstenv, 16-bit
        (b"\x41\xdd\xb7", 12, 14),    // fnsave
        (b"\x66\x41\xdd\xb7", 6, 8),  // fnsave, 16-bit
        (b"\x41\x0f\xae\x87", 6, 18), // fxsave
        (b"\x49\x0f\xae\x87", 6, 18), // fxsave64
        (b"\x41\x0f\xae\xa7", 6, 18), // xsave
        (b"\x49\x0f\xae\xa7", 6, 18), // xsave64
        (b"\x49\x0f\xc7\xa7", 6, 18), // xsavec64
        (b"\x49\x0f\xae\xb7", 6, 18), // xsaveopt64
    ];
    for (opcode, offset, len) in rows {
        let native = stored(opcode, LOW_CODE, None);
        for (base, step) in [(LOW_CODE, false), (LOW_CODE, true), (HIGH_CODE, false)] {
            let got = stored(opcode, base, Some(step));
            let what = format!("{opcode:02x?} at {base:#x}, stepping {step}");
            let pointers = X87_AT..X87_AT + offset + len;
            assert_eq!(got[X87_AT + offset..pointers.end], vec![0; len], "{what}");
            let mut expected = native.clone();
            expected[X87_AT + offset..pointers.end].fill(0);
            let differing: Vec<_> = (0..got.len()).filter(|i| got[*i] != expected[*i]).collect();
            assert!(differing.is_empty(), "{what}: bytes {differing:?}");
            assert_ne!(native, expected, "{what}: there was nothing to clear");
        }
    }
}

const X87_AT: usize = 0x400;

/// Runs an instruction that stores x87 state, natively or translated, after one that has left an
/// exception pending: then processors store pointers that they otherwise do not. Returns the data
/// around.
fn stored(opcode: &[u8], base: u64, step: Option<bool>) -> Vec<u8> {
    let mut guest = Guest::new(64);
    guest.fill(DATA, &[0xaa; 0x2000]);
    guest.fill(DATA + X87_AT as u64 + 512, &[0; 64]);
    guest.ctx.gpr[15] = DATA;
    guest.ctx.gpr[0] = 7;
    guest.fill(DATA, &0x37b_u16.to_le_bytes());
    // fldcw [r15]; fld1; fldz; fdivp; store; fnclex; the end
    let mut code = b"\x41\xd9\x2f\xd9\xe8\xd9\xee\xde\xf9".to_vec();
    code.extend_from_slice(opcode);
    code.extend_from_slice(b"\x00\x04\x00\x00\xdb\xe2");
    match step {
        None => {
            code.extend_from_slice(&native_end());
            guest.load(base, &code);
            guest.run_native();
        }
        Some(step) => {
            code.extend_from_slice(b"\x0f\x05");
            guest.load(base, &code);
            let mut stop = if step { guest.step() } else { guest.run() };
            while matches!(stop, Stop::Stepped { .. }) {
                stop = guest.step();
            }
            assert!(
                matches!(stop, Stop::Syscall { .. }),
                "{stop:?} for {opcode:02x?}"
            );
        }
    }
    guest.read(DATA, 0x2000)
}

/// XSAVE without the x87 component leaves its place alone.
#[test]
fn xsave_of_other_components_is_left_alone() {
    let mut guest = Guest::new(64);
    let at = DATA + 0x400;
    guest.fill(DATA, &[0xaa; 0x2000]);
    guest.fill(at + 512, &[0; 64]);
    guest.ctx.gpr[15] = DATA;
    guest.ctx.gpr[0] = 6;
    guest.ctx.gpr[1] = 0x1234;
    guest.ctx.rflags = 0x202 | 0x8d5;
    guest.load(
        LOW_CODE,
        b"\xd9\xe8\x49\x0f\xae\xa7\x00\x04\x00\x00\x0f\x05",
    );
    guest.expect_syscall();
    assert_eq!(guest.read(at, 24), [0xaa; 24]);
    assert_eq!(guest.ctx.gpr[1], 0x1234);
    assert_eq!(guest.ctx.rflags & 0x8d5, 0x8d5);
}

/// The host stores the same as the processor: every form with every component, in use or not,
/// natively and translated.
#[test]
fn the_xsave_family_stores_what_the_processor_stores() {
    // xsave64, xsavec64, xsaveopt64, xsave with operand [r15 + 0x400]
    let opcodes: [&[u8]; 4] = [
        b"\x49\x0f\xae\xa7",
        b"\x49\x0f\xc7\xa7",
        b"\x49\x0f\xae\xb7",
        b"\x41\x0f\xae\xa7",
    ];
    let xcr0 = relive_host::cpu::xcr0();
    let mut masks: Vec<u64> = (0..8).map(|i| 1 << i).filter(|m| m & xcr0 != 0).collect();
    masks.extend([0, 3, 6, 7, 0xee, xcr0]);
    let stored = |opcode: &[u8], mask: u64, mxcsr: u32, translated: bool| {
        let mut guest = Guest::new(64);
        guest.fill(DATA, &[0xaa; 0x2000]);
        guest.fill(DATA, &mxcsr.to_le_bytes());
        // Old header bits, for components that are not requested.
        guest.fill(DATA + 0x400 + 512, &[0xff; 8]);
        guest.ctx.gpr[15] = DATA;
        guest.ctx.gpr[0] = mask & xcr0;
        let area = guest.ctx.vectors_mut();
        area.reset();
        area.0[160..416].fill(0x5a);
        let ranges = relive_host::cpu::xsave_layout().ranges;
        ranges.iter().for_each(|r| area.0[r.0..r.1].fill(0xa5));
        area.set_xstate_bv(xcr0);
        // ldmxcsr [r15]; fld1; the instruction
        let mut code = b"\x41\x0f\xae\x17\xd9\xe8".to_vec();
        code.extend_from_slice(opcode);
        code.extend_from_slice(b"\x00\x04\x00\x00");
        match translated {
            false => {
                code.extend_from_slice(&native_end());
                guest.load(LOW_CODE, &code);
                guest.run_native();
            }
            true => {
                code.extend_from_slice(b"\x0f\x05");
                guest.load(LOW_CODE, &code);
                guest.expect_syscall();
            }
        }
        let mut data = guest.read(DATA, 0x2000);
        data[0x400 + 6..0x400 + 24].fill(0);
        data
    };
    for opcode in opcodes {
        for &mask in &masks {
            for mxcsr in [0x1f80, 0x9fc0] {
                let (native, ours) = (
                    stored(opcode, mask, mxcsr, false),
                    stored(opcode, mask, mxcsr, true),
                );
                let differing: Vec<_> =
                    (0..ours.len()).filter(|i| ours[*i] != native[*i]).collect();
                assert!(
                    differing.is_empty(),
                    "{opcode:02x?} of {mask:#x}, MXCSR {mxcsr:#x}: bytes {differing:x?}"
                );
            }
        }
    }
}

#[test]
fn a_fault_of_an_xsave_is_the_guests() {
    for at in [0x3000_0000, DATA + 8] {
        let mut guest = Guest::new(64);
        guest.ctx.gpr[15] = at;
        guest.ctx.gpr[0] = 7;
        guest.load(
            LOW_CODE,
            b"\xd9\xe8\x49\x0f\xc7\xa7\x00\x04\x00\x00\x0f\x05",
        );
        let pc = GuestAddr(LOW_CODE + 2);
        assert_eq!(guest.run(), Stop::Fault { pc }, "at {at:#x}");
    }
}

#[test]
fn a_fault_of_an_x87_store_is_the_guests() {
    let mut guest = Guest::new(64);
    guest.ctx.gpr[15] = 0x3000_0000;
    guest.load(LOW_CODE, b"\xd9\xe8\x41\xd9\xb7\x00\x04\x00\x00\x0f\x05");
    assert_eq!(
        guest.run(),
        Stop::Fault {
            pc: GuestAddr(LOW_CODE + 2)
        }
    );
}

/// The components that xsavec reports as in use, when they hold their initial values, do not depend
/// on whether the thread has stopped in between.
#[test]
fn components_in_use_are_told_by_their_values() {
    let stored = |stops: bool| {
        let mut guest = Guest::new(64);
        let at = DATA + 0x400;
        guest.fill(DATA, &[0xaa; 0x2000]);
        guest.fill(at + 512, &[0; 64]);
        guest.ctx.gpr[15] = DATA;
        // pcmpeqd xmm1, xmm1; pxor xmm1, xmm1: used, and initial again.
        let mut code = b"\x66\x0f\x76\xc9\x66\x0f\xef\xc9".to_vec();
        if stops {
            code.extend_from_slice(b"\x0f\xa2"); // cpuid
        }
        // mov eax, 0xe6; xor edx, edx; xsavec64 [r15 + 0x400]; syscall
        code.extend_from_slice(b"\xb8\xe6\0\0\0\x31\xd2\x49\x0f\xc7\xa7\0\x04\0\0\x0f\x05");
        guest.load(LOW_CODE, &code);
        if let Stop::Instr { op, next, .. } = guest.run() {
            op.apply(guest.ctx, next, [0; 4]).expect("cpuid");
            guest.expect_syscall();
        }
        assert_eq!(
            guest.read_u64(at + 512) & 2,
            0,
            "xmm is in its initial state"
        );
        guest.read(at, 0xa00)
    };
    assert_eq!(stored(false), stored(true));
}
