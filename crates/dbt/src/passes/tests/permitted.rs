//! Random programs that look at permissions before each access: they must do the same as natively, whatever is
//! permitted, and make no access that is not: fetches of instructions that may be written are accesses.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::IcedError;
use iced_x86::code_asm::*;
use relive_host::permissions::{LINE, Permissions, READ, SIZE, WHOLE, WRITE, WRITES, lines_of};

use super::guest::DATA_LEN;
use super::*;
use crate::access::{Access, accesses, fetch};

/// The lines that a program accesses, and whether it writes them; its last state and its ticks.
fn stepped(program: Program<'_>) -> (BTreeSet<(u32, bool)>, State, u64) {
    let mut guest = program.guest(64);
    let mut lines = BTreeSet::new();
    loop {
        for access in next_accesses(&guest) {
            lines.extend(lines_of(access.addr, access.len).map(|line| (line, access.writes)));
        }
        match guest.step() {
            Stop::Pause { .. } | Stop::Stepped { .. } => {}
            Stop::Syscall { .. } => break,
            other => panic!("{other:?}"),
        }
    }
    let (state, ticks) = (State::of(&guest), guest.ctx.ticks());
    (lines, state, ticks)
}

fn with(max_insns: u32) -> Options {
    Options {
        count_accesses: false,
        ..options(max_insns)
    }
}

/// A program, its first state, and whether it may not write to its code.
#[derive(Clone, Copy)]
struct Program<'p> {
    code: &'p [u8],
    seed: u64,
    lasting: bool,
}

impl Program<'_> {
    fn guest(self, max_insns: u32) -> Guest {
        let mut guest = guest(with(max_insns), self.code, self.seed);
        guest.memory.lasting = self.lasting;
        guest
    }
}

/// Those of the next instruction, and its own bytes.
fn next_accesses(guest: &Guest) -> Vec<Access> {
    let mut all = accesses(&guest.memory, guest.ctx);
    all.extend(next_fetches(guest));
    all
}

/// One byte in each line of the next instruction.
fn next_fetches(guest: &Guest) -> Vec<Access> {
    let fetch = fetch(&guest.memory, guest.ctx.rip);
    let lines = fetch.map_or(0..0, |f| f.addr / LINE..(f.addr + f.len).div_ceil(LINE));
    let byte = |line: u64| Access {
        addr: guest.ctx.rip.max(line * LINE),
        len: 1,
        reads: true,
        writes: false,
    };
    lines.map(byte).collect()
}

/// The accesses for which the program has left: those of a look, which serves one of the next instruction at least, or all.
fn asked_for(guest: &Guest) -> Vec<Access> {
    let all = next_accesses(guest);
    let data = accesses(&guest.memory, guest.ctx);
    let (addr, what) = (guest.ctx.permit_at, guest.ctx.permit_what);
    if what == 0 {
        return all;
    }
    let (len, writes) = (what & SIZE, what & WRITES != 0);
    let is_served =
        |a: &Access| addr <= a.addr && a.addr + a.len <= addr + len && (writes || !a.writes);
    assert!(
        all.iter().any(is_served),
        "{addr:#x}, {what:#x} for {all:?}"
    );
    assert!(
        what & WHOLE == 0 || data.iter().all(is_served),
        "{addr:#x}, {what:#x} for {data:?}"
    );
    vec![Access {
        addr,
        len,
        reads: true,
        writes,
    }]
}

/// The permissions of a thread: its table, and what is in it.
struct Permitted {
    table: Permissions,
    lines: BTreeMap<u32, u8>,
}

impl Permitted {
    /// Permits what is asked for; whether anything was not.
    fn permit(&mut self, all: &[Access]) -> bool {
        let mut new = false;
        for access in all {
            for line in lines_of(access.addr, access.len) {
                if !self.table.permits(line, access.writes) {
                    let permitted = if access.writes { READ | WRITE } else { READ };
                    self.table.set(line, permitted);
                    self.lines.insert(line, permitted);
                    new = true;
                }
            }
        }
        new
    }

    fn clear(&mut self) {
        self.table.clear();
        self.lines.clear();
    }
}

/// What was permitted up to a place: its ticks and its address, which is not passed twice between two ticks.
struct Part {
    ticks: u64,
    pc: u64,
    lines: BTreeMap<u32, u8>,
}

/// Steps a program, of which all accesses must have been permitted in their parts.
fn check_parts(program: Program<'_>, parts: &[Part]) {
    let mut guest = program.guest(64);
    for part in parts {
        while (guest.ctx.ticks(), guest.ctx.rip) != (part.ticks, part.pc) {
            for access in next_accesses(&guest) {
                for line in lines_of(access.addr, access.len) {
                    let permitted = part.lines.get(&line).copied().unwrap_or(0);
                    let wanted = if access.writes { WRITE } else { READ };
                    let is_permitted = permitted & wanted != 0;
                    assert!(is_permitted, "{access:x?} at {:#x}", guest.ctx.rip);
                }
            }
            let stop = guest.step();
            let made = matches!(stop, Stop::Stepped { .. } | Stop::Pause { .. });
            assert!(made, "{stop:?} in front of {:#x}", part.pc);
        }
    }
}

fn check_permitted(program: Program<'_>, forgets: bool) {
    let (lines, state, ticks) = stepped(program);
    for max in [64, 1, 3] {
        let mut guest = program.guest(max);
        let mut permitted = Permitted {
            table: Permissions::new().expect("memory"),
            lines: BTreeMap::new(),
        };
        *guest.ctx.permissions.get_mut() = permitted.table.address();
        guest.t.set_permissions(true).expect("an empty cache");
        let (mut parts, mut stops) = (Vec::new(), 0);
        let part = |guest: &Guest, permitted: &Permitted| Part {
            ticks: guest.ctx.ticks(),
            pc: guest.ctx.rip,
            lines: permitted.lines.clone(),
        };
        loop {
            let stop = guest.run();
            parts.push(part(&guest, &permitted));
            match stop {
                Stop::Pause { .. } => continue,
                Stop::Permission { .. } => {}
                Stop::Syscall { .. } => break,
                other => panic!("{other:?}"),
            }
            stops += 1;
            let all = asked_for(&guest);
            // An instruction needs four looks at most.
            if forgets && stops % 5 == 0 {
                permitted.clear();
            }
            if !permitted.permit(&all) {
                permitted.permit(&next_accesses(&guest));
                let stop = guest.step();
                let made = matches!(stop, Stop::Stepped { .. } | Stop::Pause { .. });
                assert!(made, "{stop:?}");
                parts.push(part(&guest, &permitted));
            }
        }
        let what = format!("fragments of {max}");
        assert_eq!(state.diff(&State::of(&guest)), "", "{what}");
        assert_eq!(guest.ctx.ticks(), ticks, "{what}");
        if !forgets {
            for &(line, writes) in &lines {
                let is_permitted = permitted.table.permits(line, writes);
                assert!(is_permitted, "line {line}, {writes}, {what}");
            }
        }
        *guest.ctx.permissions.get_mut() = 0;
        drop(guest);
        check_parts(program, &parts);
    }
}

/// An instruction that accesses memory, or changes the register that others do it by. Registers are numbers below
/// [`BASES`].
#[derive(Clone, Debug)]
enum Step {
    Load(usize, i32),
    Store(usize, i32),
    /// At a base and the scaled counter.
    LoadIndexed(usize, i32),
    Add(usize, i32),
    Inc(usize),
    Copy(usize, usize),
    Lea(usize, usize, i32),
    LeaIndexed(usize, usize),
    Exchange(usize, usize),
    Conditional(usize, usize),
    /// A change that no constant describes.
    Toggle(usize),
    Low(usize, u32),
    Push(usize),
    Pop(usize),
    Over,
}

const BASES: usize = 4;
/// Most steps of a program, rounds of its loop, and bytes that a step moves an address by: all stays within the data.
const STEPS: usize = 30;
const ROUNDS: u32 = 4;
const MOVED: i32 = 64;

fn step() -> impl Strategy<Value = Step> {
    let base = || 0..BASES;
    let near = || -MOVED..=MOVED;
    prop_oneof![
        4 => (base(), near()).prop_map(|(r, d)| Step::Load(r, d)),
        4 => (base(), near()).prop_map(|(r, d)| Step::Store(r, d)),
        1 => (base(), near()).prop_map(|(r, d)| Step::LoadIndexed(r, d)),
        2 => (base(), near()).prop_map(|(r, d)| Step::Add(r, d)),
        1 => base().prop_map(Step::Inc),
        1 => (base(), base()).prop_map(|(r, s)| Step::Copy(r, s)),
        1 => (base(), base(), near()).prop_map(|(r, s, d)| Step::Lea(r, s, d)),
        1 => (base(), base()).prop_map(|(r, s)| Step::LeaIndexed(r, s)),
        1 => (base(), base()).prop_map(|(r, s)| Step::Exchange(r, s)),
        1 => (base(), base()).prop_map(|(r, s)| Step::Conditional(r, s)),
        1 => base().prop_map(Step::Toggle),
        1 => (base(), any::<u32>()).prop_map(|(r, v)| Step::Low(r, v)),
        1 => base().prop_map(Step::Push),
        1 => base().prop_map(Step::Pop),
        1 => Just(Step::Over),
    ]
}

/// A loop of these steps. Each base holds an address of its own at first, and whenever it may have got too far away.
fn assemble(steps: &[Step]) -> Result<Vec<u8>, IcedError> {
    let bases = [rax, rbp, r8, r14];
    let middle = DATA + DATA_LEN / 2;
    let mut a = CodeAssembler::new(64)?;
    for (n, base) in bases.into_iter().enumerate() {
        a.mov(base, middle + 192 * n as u64)?;
    }
    a.mov(ecx, ROUNDS)?;
    let mut top = a.create_label();
    a.set_label(&mut top)?;
    for step in steps {
        match *step {
            Step::Load(r, d) => a.mov(r9, qword_ptr(bases[r] + d))?,
            Step::Store(r, d) => a.mov(dword_ptr(bases[r] + d), edx)?,
            Step::LoadIndexed(r, d) => a.add(r9, qword_ptr(bases[r] + rcx * 8 + d))?,
            Step::Add(r, d) => a.add(bases[r], d)?,
            Step::Inc(r) => a.inc(bases[r])?,
            Step::Copy(r, s) => a.mov(bases[r], bases[s])?,
            Step::Lea(r, s, d) => a.lea(bases[r], qword_ptr(bases[s] + d))?,
            Step::LeaIndexed(r, s) => a.lea(bases[r], qword_ptr(bases[s] + rcx * 4))?,
            Step::Exchange(r, s) => a.xchg(bases[r], bases[s])?,
            Step::Conditional(r, s) => a.cmovb(bases[r], bases[s])?,
            Step::Toggle(r) => a.xor(bases[r], 64)?,
            Step::Low(r, v) => a.mov(bases[r], middle + u64::from(v % 1024))?,
            Step::Push(r) => a.push(bases[r])?,
            Step::Pop(r) => {
                a.push(bases[(r + 1) % BASES])?;
                a.pop(bases[r])?;
            }
            Step::Over => {
                let mut over = a.create_label();
                a.jb(over)?;
                a.mov(r9b, byte_ptr(bases[0] + 8))?;
                a.set_label(&mut over)?;
            }
        }
    }
    a.dec(ecx)?;
    a.jne(top)?;
    a.syscall()?;
    a.assemble(LOW_CODE)
}

proptest! {
    #![proptest_config(Config { cases: CASES, failure_persistence: None, ..Config::default() })]

    #[test]
    fn accesses_are_permitted_and_nothing_else_differs(
        items in programs(30),
        seed in any::<u64>(),
        forgets in any::<bool>(),
        lasting in any::<bool>(),
    ) {
        let code = &build(&items, LOW_CODE, DATA);
        check_permitted(Program { code, seed, lasting }, forgets);
    }

    #[test]
    fn looks_serve_accesses_whose_addresses_are_a_constant_apart(
        steps in prop::collection::vec(step(), 1..STEPS),
        seed in any::<u64>(),
        forgets in any::<bool>(),
        lasting in any::<bool>(),
    ) {
        let code = &assemble(&steps).expect("encodable");
        check_permitted(Program { code, seed, lasting }, forgets);
    }
}
