//! The room of code that is out of use, and of code that was translated long ago, is used again.

use relive_dbt::{Options, Stop};
use relive_host::GuestAddr;
use relive_sched::Rng;

use super::guest::*;
use super::snapshot::{NAME, RANGE, file, same, saved};

/// Functions that call each other down to a system call.
const DEPTH: u64 = 40;
const ROUNDS: u64 = 60;

/// Code that is only translated, never executed.
const JUNK: u64 = LOW_CODE + 0x8000;
const JUNK_BYTES: u64 = 0x8000;

/// A program with functions that change while they are being executed.
struct Changing {
    guest: Guest,
    /// Where the functions are.
    at: u64,
    /// The numbers that they add on their way down, and up.
    numbers: Vec<u32>,
    rng: Rng,
    /// The values that rax and rbx will have.
    sums: (u64, u64),
    junk: u64,
}

impl Changing {
    fn new(at: u64, options: Options) -> Self {
        let mut guest = Guest::with(options);
        guest.fill(JUNK, &b"\xff\xc0".repeat(JUNK_BYTES as usize / 2));
        let mut changing = Self {
            guest,
            at,
            numbers: vec![0; DEPTH as usize],
            rng: Rng::new(7),
            sums: (0, 0),
            junk: 0,
        };
        (0..DEPTH).for_each(|i| changing.write(i, 1));
        // The last: syscall; ret
        changing.guest.fill(at + DEPTH * 64, b"\x0f\x05\xc3");
        changing.guest.assemble(LOW_CODE, |a| {
            use iced_x86::code_asm::*;
            let mut head = a.create_label();
            a.mov(r14d, ROUNDS as u32)?;
            a.set_label(&mut head)?;
            a.mov(rdx, at)?;
            a.call(rdx)?;
            a.dec(r14d)?;
            a.jne(head)?;
            a.int3()
        });
        changing
    }

    /// add rax, n; call the next one, directly or not; add rbx, n; ret
    fn write(&mut self, i: u64, n: u32) {
        let (from, next) = (self.at + i * 64, self.at + (i + 1) * 64);
        let mut code = vec![0x48, 0x05];
        code.extend_from_slice(&n.to_le_bytes());
        if i.is_multiple_of(3) {
            code.extend_from_slice(&[0x48, 0xba]);
            code.extend_from_slice(&next.to_le_bytes());
            code.extend_from_slice(&[0xff, 0xd2]);
        } else {
            let rel = next.wrapping_sub(from + code.len() as u64 + 5) as u32;
            code.push(0xe8);
            code.extend_from_slice(&rel.to_le_bytes());
        }
        code.extend_from_slice(&[0x48, 0x81, 0xc3]);
        code.extend_from_slice(&n.to_le_bytes());
        code.push(0xc3);
        let rip = self.guest.ctx.rip;
        self.guest.load(from, &code);
        self.guest.ctx.rip = rip;
        self.guest.t.invalidate(GuestAddr(from), GuestAddr(from + 64)).expect("the code can be changed");
        self.numbers[i as usize] = n;
    }

    fn sum(&self) -> u64 {
        self.numbers.iter().map(|n| u64::from(*n)).sum()
    }

    /// At the bottom: some functions get other numbers.
    fn change(&mut self) {
        self.sums.0 += self.sum();
        for i in 0..DEPTH {
            if self.rng.one_in(4) {
                let n = self.rng.below(1000) as u32;
                self.write(i, n);
            }
        }
        self.sums.1 += self.sum();
    }

    /// Translates so many pieces of code that nobody needs.
    fn crowd(&mut self, pieces: u64) {
        for _ in 0..pieces {
            self.junk = (self.junk + 2) % (JUNK_BYTES - 0x400);
            let pc = GuestAddr(JUNK + self.junk);
            while self.guest.t.entry(&self.guest.memory, pc).is_err() {
                self.guest.t.reclaim().expect("memory");
            }
        }
    }

    /// Runs to the end; `bottom` is called at each system call. Returns the ticks.
    fn run(&mut self, mut bottom: impl FnMut(&mut Self)) -> u64 {
        loop {
            match self.guest.run() {
                Stop::Syscall { next, .. } => {
                    self.change();
                    bottom(self);
                    self.guest.ctx.rip = next.0;
                }
                Stop::CacheFull { .. } => self.guest.t.reclaim().expect("memory"),
                Stop::Trap { .. } => break,
                stop => panic!("{stop:?}"),
            }
        }
        let ctx = &self.guest.ctx;
        assert_eq!((ctx.gpr[0], ctx.gpr[3]), self.sums);
        ctx.ticks()
    }
}

fn small(bytes: u64) -> Options {
    Options {
        cache_bytes: bytes,
        ..options(64)
    }
}

/// The same ticks and results whatever goes away, and wherever the guest stands then: deep in calls
/// whose callers are gone.
#[test]
fn code_goes_away_under_its_callers() {
    for at in [LOW_CODE + 0x2000, HIGH_CODE + 0x2000] {
        let plain = Changing::new(at, options(64)).run(|_| ());
        for pieces in [0, 100, 500] {
            let mut changing = Changing::new(at, small(1 << 19));
            let ticks = changing.run(|c| {
                c.crowd(pieces);
                c.guest.t.reclaim().expect("memory");
            });
            assert_eq!(ticks, plain);
            let stats = changing.guest.t.stats();
            assert_eq!(stats.flushes, 0, "{stats:?}");
            assert!(stats.reused_bytes > 0 || pieces == 0, "{stats:?}");
            assert!(stats.evicted > 5000 || pieces < 500, "{stats:?}");
        }
    }
}

/// Nothing is asked for before enough is out of use, and then room is used again though there is
/// more: a large cache does not fill up with code that nobody needs.
#[test]
fn code_that_changes_for_ever_stays_in_a_bounded_part() {
    const ROUND: u64 = 64;
    let mut changing = Changing::new(LOW_CODE + 0x2000, small(32 << 20));
    let mut reclaims = 0;
    for _ in 0..400 {
        for i in 0..ROUND {
            let pc = GuestAddr(JUNK + 0x100 * i);
            while changing.guest.t.entry(&changing.guest.memory, pc).is_err() {
                changing.guest.t.reclaim().expect("memory");
                reclaims += 1;
            }
        }
        let (start, end) = (GuestAddr(JUNK), GuestAddr(JUNK + 0x100 * ROUND));
        changing.guest.t.invalidate(start, end).expect("the code can be changed");
    }
    let stats = changing.guest.t.stats();
    let fresh = stats.hot_bytes + stats.cold_bytes - stats.reused_bytes;
    assert!(reclaims > 2 && stats.reclaims == reclaims, "{stats:?}");
    assert!(stats.reused_bytes > 4 * fresh, "{stats:?}");
    // Retired units have some code left that is in use.
    assert!(stats.evicted < stats.fragments / 8 && stats.flushes == 0);
    changing.run(|_| ());
}

/// A program that needs all of its code again and again, in a cache that cannot hold it.
#[test]
fn a_full_cache_gives_back_what_was_translated_first() {
    let mut changing = Changing::new(LOW_CODE + 0x2000, small(1 << 20));
    for _ in 0..4 {
        changing.crowd(JUNK_BYTES / 2);
    }
    let stats = changing.guest.t.stats();
    assert!(stats.evicted > 4000 && stats.flushes == 0, "{stats:?}");
    changing.run(|_| ());
    // Code in use stays where it is while there is room.
    let entry = |c: &mut Changing| {
        c.guest.t.reclaim().expect("memory");
        let entry = c.guest.t.entry(&c.guest.memory, GuestAddr(LOW_CODE));
        entry.expect("code")
    };
    assert_eq!(entry(&mut changing), entry(&mut changing));
}

/// The smallest caches, and fragments that are large for them.
#[test]
fn there_is_always_room_for_one_more() {
    for (bytes, max_insns) in [(1 << 17, 64), (1 << 17, 256), (1 << 18, 256), (1 << 18, 1)] {
        let mut changing = Changing::new(
            LOW_CODE + 0x2000,
            Options {
                cache_bytes: bytes,
                ..options(max_insns)
            },
        );
        changing.run(|c| c.crowd(50));
        changing.crowd(5000);
    }
}

/// After a fork the code from before is not in the second mapping any more.
#[test]
fn room_from_before_a_fork_is_used_again() {
    let mut changing = Changing::new(LOW_CODE + 0x2000, small(1 << 20));
    changing.crowd(1000);
    changing.run(|c| {
        c.guest.t.about_to_fork();
        c.crowd(100);
    });
    assert_eq!(changing.guest.t.stats().flushes, 0);
}

/// Calls one piece of code after the other, and most of them only once. `ready` is called when
/// the code is there. Returns how many fragments were translated.
fn walk(guest: &mut Guest, rounds: u64, ready: impl FnOnce(&mut Guest)) -> u64 {
    let mut code = b"\xff\xc0".repeat(0x1000);
    code.push(0xc3);
    guest.fill(LOW_CODE + 0x1000, &code);
    guest.assemble(LOW_CODE, |a| {
        use iced_x86::code_asm::*;
        let mut head = a.create_label();
        a.set_label(&mut head)?;
        a.call(rdx)?;
        a.sub(rdx, 4)?;
        a.dec(r14d)?;
        a.jne(head)?;
        a.syscall()
    });
    ready(guest);
    reset(guest.ctx);
    guest.ctx.rip = LOW_CODE;
    // Ends at the same place, however long it is.
    guest.ctx.gpr[2] = LOW_CODE + 0x1000 + 4 * (rounds - 1);
    guest.ctx.gpr[14] = rounds;
    loop {
        match guest.run() {
            Stop::CacheFull { .. } => guest.t.reclaim().expect("memory"),
            Stop::Syscall { .. } => break,
            stop => panic!("{stop:?}"),
        }
    }
    let all = (0..rounds).map(|i| 0x1000 - 2 * i).sum::<u64>();
    assert_eq!((guest.ctx.gpr[0], guest.ctx.ticks()), (all, 2 * rounds - 1));
    guest.t.stats().fragments
}

/// A cache in which units are filled for the second time is kept, and taken over, as any other.
#[test]
fn what_was_filled_anew_is_kept() {
    const ROUNDS: u64 = 100;
    let mut guest = Guest::with(small(8 << 20));
    walk(&mut guest, ROUNDS, |_| ());
    let code = (GuestAddr(LOW_CODE), GuestAddr(LOW_CODE + CODE_LEN));
    while guest.t.stats().reused_bytes < 100 << 10 {
        guest.t.invalidate(code.0, code.1).expect("the code can be changed");
        walk(&mut guest, ROUNDS, |_| ());
    }
    let stats = guest.t.stats();
    assert!(stats.reclaims > 0 && stats.flushes == 0, "{stats:?}");
    let kept = file(&saved(&guest.t));
    drop(guest);
    let mut guest = Guest::with(small(8 << 20));
    let made = walk(&mut guest, ROUNDS, |guest| {
        let key = guest.t.key(NAME);
        assert!(guest.t.load(key, &kept, false) > ROUNDS);
        guest.t.activate(RANGE.0, RANGE.1, &mut same);
    });
    // The first paired return finds no shadow, and may go on where no return has led.
    assert!(made <= 1, "{made}");
}
