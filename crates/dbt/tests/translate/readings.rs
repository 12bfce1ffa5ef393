//! Readings of counters out of a window of values: no stop, and nothing else changes.

use relive_dbt::{InstrOp, Stop};
use relive_host::reading::{Entry, TSC, TSCP, Window};
use relive_host::{Context, Reg};

use super::guest::*;

const RDTSC: [u8; 2] = *b"\x0f\x31";
const RDTSCP: [u8; 3] = *b"\x0f\x01\xf9";
const SYSCALL: [u8; 2] = *b"\x0f\x05";
/// All arithmetic flags, which nothing overwrites before the system call reads them.
const FLAGS: u64 = 0x202 | 0x8d5;

fn entry(source: usize, value: u64, extra: u32) -> Entry {
    Entry {
        value,
        source: source as u32,
        extra,
    }
}

/// A guest at this code whose next readings are these, of which the first is due at `tick`.
fn guest(code: &[u8], entries: &[Entry], tick: u64) -> Guest {
    let mut guest = Guest::new(64);
    guest.load(LOW_CODE, code);
    for (i, value) in guest.ctx.gpr.iter_mut().enumerate() {
        *value = 0x0101_0101_0101_0101 * (i as u64 + 1);
    }
    guest.ctx.gpr[4] = TOP;
    guest.ctx.rflags = FLAGS;
    let start = entries.as_ptr() as u64;
    guest.ctx.readings = Window {
        start,
        next: start,
        end: start + size_of_val(entries) as u64,
        first: tick,
    };
    guest
}

fn registers(ctx: &Context) -> ([u64; 16], u64) {
    (ctx.gpr, ctx.rflags)
}

#[test]
fn values_come_from_the_window_and_nothing_else_changes() {
    let entries = [
        entry(TSC, 0x1122_3344_5566_7788, 0),
        entry(TSCP, 0xaabb_ccdd_eeff_0011, 77),
    ];
    for flags in [FLAGS, 0x202, 0x202 | 0x801, 0x202 | 0xd4, 0x202 | 0x400] {
        let code = [&RDTSC[..], &SYSCALL].concat();
        let mut guest = guest(&code, &entries, 0);
        guest.ctx.rflags = flags;
        let mut expected = guest.ctx.gpr;
        assert!(matches!(guest.run(), Stop::Syscall { .. }));
        (expected[0], expected[2]) = (0x5566_7788, 0x1122_3344);
        assert_eq!(registers(guest.ctx), (expected, flags));
    }
    let code = [&RDTSC[..], &RDTSCP, &SYSCALL].concat();
    let mut guest = guest(&code, &entries, 0);
    let mut expected = guest.ctx.gpr;
    assert!(matches!(guest.run(), Stop::Syscall { .. }));
    (expected[0], expected[1], expected[2]) = (0xeeff_0011, 77, 0xaabb_ccdd);
    assert_eq!(registers(guest.ctx), (expected, FLAGS));
    assert_eq!(guest.ctx.readings.next, guest.ctx.readings.end);
}

#[test]
fn what_does_not_fit_is_left_to_the_host_with_nothing_changed() {
    let code = [&RDTSC[..], &SYSCALL].concat();
    let rows = [
        (vec![], 0),
        (vec![entry(TSCP, 1, 2)], 0),
        (vec![entry(TSC, 1, 0)], 1),
    ];
    for (entries, tick) in rows {
        let mut guest = guest(&code, &entries, tick);
        let before = registers(guest.ctx);
        let stop = guest.run();
        let op = InstrOp::Rdtsc;
        assert!(matches!(stop, Stop::Instr { op: o, pc, .. } if o == op && pc.0 == LOW_CODE));
        assert_eq!(registers(guest.ctx), before);
        assert_eq!(guest.ctx.readings.next, guest.ctx.readings.start);
    }
}

#[test]
fn a_step_is_one_reading() {
    let entries = [entry(TSC, 5, 0), entry(TSC, 6, 0)];
    let mut guest = guest(&[RDTSC, RDTSC, SYSCALL].concat(), &entries, 0);
    for value in [5, 6] {
        assert!(matches!(guest.step(), Stop::Stepped { .. }));
        assert_eq!(guest.ctx.reg(Reg::Rax), value);
    }
    assert!(matches!(guest.step(), Stop::Syscall { .. }));
}

#[test]
fn the_first_reading_is_checked_at_its_tick() {
    let mut guest = guest(&[], &[], 0);
    let entries = [entry(TSC, 9, 0)];
    // Four ticks by a loop; then the reading.
    guest.assemble(LOW_CODE, |a| {
        let mut top = a.create_label();
        a.mov(iced_x86::code_asm::ecx, 5)?;
        a.set_label(&mut top)?;
        a.dec(iced_x86::code_asm::ecx)?;
        a.jnz(top)?;
        a.rdtsc()?;
        a.syscall()
    });
    let start = entries.as_ptr() as u64;
    guest.ctx.readings = Window {
        start,
        next: start,
        end: start + 16,
        first: 4,
    };
    assert!(matches!(guest.run(), Stop::Syscall { .. }));
    assert_eq!((guest.ctx.reg(Reg::Rax), guest.ctx.ticks()), (9, 4));
}
