//! Invariants whenever a unit has been forgotten, or filled anew: nothing leads to free room,
//! and all that is in use lies where nothing will be written.

use relive_host::GuestAddr;
use relive_host::layout::{CACHE_START, TABLE};
use relive_sched::Rng;

use crate::entry::{ENTRIES, Entry};
use crate::exit::{NONE, UNLINKED};
use crate::passes::tests::guest::{CODE_LEN, Guest, HIGH_CODE, LOW_CODE, TOP, options};
use crate::translator::Translator;
use crate::units::Extent;
use crate::{Options, Stop};

/// Bytes of a function.
const ROOM: u64 = 48;
const FUNCTIONS: u64 = 300;
/// Guest addresses of the functions: some low, some high.
const CODE: [u64; 2] = [LOW_CODE + 0x1000, HIGH_CODE];

impl Translator {
    /// Looks at all of it.
    fn check(&self) {
        let free = self.units.free();
        let free_hot = |at: u32| free.iter().any(|e| e.hot().contains(&at));
        let inside = |from: u32, to: u32, n: u32| (from..to).contains(&n);
        let (all, _) = self.frags.parts();
        for (id, fragment) in (0..).zip(all.iter()) {
            let unit = |e: &Extent| inside(e.from.frags, e.to.frags, id);
            if !fragment.is_live() {
                continue;
            }
            assert!(!free.iter().any(unit), "fragment {id} has a free number");
            for at in ENTRIES.iter().filter_map(|kind| fragment.entry(*kind)) {
                assert!(!free_hot(at), "an entry of fragment {id} lies in free room");
            }
            let mut number = fragment.incoming;
            while number != NONE {
                let exit = &self.exits.all[number as usize];
                assert_eq!(exit.pc, fragment.pc, "exit {number} is in a wrong chain");
                assert!(!free_hot(exit.site));
                number = exit.next_incoming;
                assert_ne!(number, UNLINKED);
            }
        }
        for (number, exit) in (0..).zip(self.exits.all.iter()) {
            let unused = free
                .iter()
                .any(|e| inside(e.from.exits, e.to.exits, number));
            assert!(!unused || !exit.linked(), "exit {number} is free");
            if exit.linked() {
                let to = self.frags.get(self.frags.find(exit.pc).expect("in use"));
                let kind = exit.kind().and_then(|kind| kind.entry()).expect("a link");
                let at = i64::from(exit.site + 4) + i64::from(self.word(exit.site));
                assert_eq!(to.entry(kind), u32::try_from(at).ok(), "exit {number}");
            }
        }
        for addr in CODE[0]..CODE[0] + ROOM * FUNCTIONS {
            // SAFETY: the slots of the tests' code are mapped.
            let landing = unsafe { ((TABLE + 8 * addr) as *const u64).read_volatile() };
            self.check_landing(addr, landing);
        }
        for at in self.shadow.landings() {
            assert!(!free_hot(at), "a shadow leads to free room");
        }
    }

    /// A slot leads to a miss, or to a landing that was made for it.
    fn check_landing(&self, addr: u64, landing: u64) {
        let own = |pc: u64, kind: Entry| {
            let entry = self.frags.find(pc).map(|id| self.frags.get(id).entry(kind));
            entry.flatten().map(u64::from) == Some(landing)
        };
        let miss = (CACHE_START..CACHE_START + 64).contains(&landing);
        assert!(
            miss || own(addr, Entry::Jump) || own(addr + 1, Entry::Return),
            "the slot of {addr:#x} leads to {landing:#x}"
        );
    }

    /// The displacement at an address of the cache.
    fn word(&self, at: u32) -> i32 {
        let bytes = self.exits.cache.read(at, 4);
        i32::from_le_bytes(bytes.try_into().expect("four bytes"))
    }
}

fn function(i: u64) -> u64 {
    CODE[(i % 2) as usize] + i / 2 * ROOM
}

/// Calls or jumps to some others, as long as r14 lasts.
fn write(guest: &mut Guest, rng: &mut Rng, i: u64) {
    let at = function(i);
    guest.assemble(at, |a| {
        use iced_x86::code_asm::*;
        let mut out = a.create_label();
        a.dec(r14)?;
        a.js(out)?;
        let (first, second) = (
            function(rng.below(FUNCTIONS)),
            function(rng.below(FUNCTIONS)),
        );
        a.mov(rdx, first)?;
        a.call(rdx)?;
        if second / CODE_LEN == at / CODE_LEN && rng.one_in(2) {
            a.call(second)?;
        }
        a.inc(rax)?;
        a.set_label(&mut out)?;
        a.ret()
    });
    guest
        .t
        .invalidate(GuestAddr(at), GuestAddr(at + ROOM))
        .expect("the code can be changed");
}

/// Runs some functions, with room made whenever there is none.
fn run_some(guest: &mut Guest, rng: &mut Rng) {
    guest.assemble(LOW_CODE, |a| {
        use iced_x86::code_asm::*;
        a.mov(rdx, function(rng.below(FUNCTIONS)))?;
        a.call(rdx)?;
        a.syscall()
    });
    guest
        .t
        .invalidate(GuestAddr(LOW_CODE), GuestAddr(LOW_CODE + 64))
        .expect("the code can be changed");
    (guest.ctx.gpr[4], guest.ctx.gpr[14]) = (TOP, 300);
    loop {
        match guest.run() {
            Stop::CacheFull { .. } => guest.t.reclaim().expect("memory"),
            Stop::Syscall { .. } => break,
            stop => panic!("{stop:?}"),
        }
        guest.t.check();
    }
    guest.t.check();
}

/// A unit that has pages of both kinds: from before a fork, and written through the alias.
#[test]
fn a_unit_from_before_and_behind_a_fork_is_filled_anew() {
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let mut guest = Guest::with(Options {
            cache_bytes: 1 << 20,
            max_insns: 16,
            count_accesses: false,
            ..options(16)
        });
        for _ in 0..80 {
            (0..FUNCTIONS).for_each(|i| write(&mut guest, &mut rng, i));
            run_some(&mut guest, &mut rng);
            if guest.t.stats().reclaims == 0 && rng.one_in(2) {
                guest.t.about_to_fork();
            }
        }
        let stats = guest.t.stats();
        assert!(stats.reclaims > 1 && stats.reused_bytes > 0, "{stats:?}");
    }
}

/// Functions change at random, run at random, and the cache is full and reclaimed all the time.
#[test]
fn nothing_leads_to_free_room() {
    for seed in 0..6 {
        let mut rng = Rng::new(seed);
        let mut guest = Guest::with(Options {
            cache_bytes: (1 << 17) + (seed % 3) * (1 << 17),
            max_insns: 16,
            count_accesses: false,
            ..options(16)
        });
        (0..FUNCTIONS).for_each(|i| write(&mut guest, &mut rng, i));
        for _ in 0..150 {
            if rng.one_in(3) {
                let first = rng.below(FUNCTIONS - 20);
                (first..first + 20).for_each(|i| write(&mut guest, &mut rng, i));
            }
            if rng.one_in(20) {
                guest.t.about_to_fork();
            }
            run_some(&mut guest, &mut rng);
        }
        let stats = guest.t.stats();
        assert!(stats.reclaims > 3 && stats.reused_bytes > 0, "{stats:?}");
        assert!(stats.late_entries > 0 && stats.shadow_faults > 0);
    }
}
