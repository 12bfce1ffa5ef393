//! All exits of the code cache, which grow with it: their records, their stubs, and the words that
//! emitted code reads from the cache.

use std::mem::offset_of;

use bytemuck::bytes_of;
use relive_host::layout;

use crate::behind::{DESCRIPTION, Description, described_at};
use crate::cache::Cache;
use crate::cache_window::{HASHED_MISS, TABLE_MISS};
use crate::emit::Asm;
use crate::exit::{Exit, ExitKind, ExitRecord, NONE};
use crate::flags::DeadFlags;
use crate::instr_op::InstrOp;
use crate::records::Records;

/// The cache and the exits out of it, which grow together.
pub(crate) struct Exits {
    pub(crate) cache: Cache,
    pub(crate) all: Records<ExitRecord>,
    pub(crate) ops: Vec<InstrOp>,
    stub: Asm,
    /// Descriptions whose entries are still to be told.
    untold: Vec<u32>,
}

impl Exits {
    pub(crate) fn new(cache: Cache) -> Self {
        Self {
            cache,
            all: Records::default(),
            ops: Vec::new(),
            stub: Asm::new(),
            untold: Vec::new(),
        }
    }

    /// Adds an exit with a stub of its own, which does `before` first. Returns the stub's
    /// cache address.
    pub(crate) fn add(&mut self, mut exit: Exit, before: impl FnOnce(&mut Asm)) -> u32 {
        exit.stub = self.stub(self.all.next() as u32, before);
        self.all.push(ExitRecord::of(&exit));
        exit.stub
    }

    /// Adds an exit with a stub of its own, which does `before` first; that may also go back to code at a known place.
    /// Returns the stub's cache address.
    pub(crate) fn add_at(&mut self, mut exit: Exit, before: impl Fn(&mut Asm)) -> u32 {
        exit.stub = self.stub_at(self.all.next() as u32, before);
        self.all.push(ExitRecord::of(&exit));
        exit.stub
    }

    /// Adds the end of a budget on the way to `pc`, which has no number: the exit describes itself
    /// ([`crate::behind`]). Its entry is still to be told by [`Exits::tell_entry`].
    pub(crate) fn add_budget(
        &mut self,
        pc: u64,
        dead: DeadFlags,
        before: impl FnOnce(&mut Asm),
    ) -> u32 {
        let word = self.budget(pc, dead);
        self.stub(word, before)
    }

    /// The same with a stub that may also go back to code at a known place.
    pub(crate) fn add_budget_at(
        &mut self,
        pc: u64,
        dead: DeadFlags,
        before: impl Fn(&mut Asm),
    ) -> u32 {
        let word = self.budget(pc, dead);
        self.stub_at(word, before)
    }

    /// Adds a `pause` before `pc`, whose code the caller emits. Returns the word that it stores.
    pub(crate) fn add_pause(&mut self, pc: u64, dead: DeadFlags, entry: u32) -> u32 {
        described_at(self.describe(pc, dead, true, entry))
    }

    /// The word of the end of a budget, whose entry is still to be told.
    fn budget(&mut self, pc: u64, dead: DeadFlags) -> u32 {
        let at = self.describe(pc, dead, false, 0);
        self.untold.push(at);
        described_at(at)
    }

    fn describe(&mut self, pc: u64, dead: DeadFlags, pause: bool, entry: u32) -> u32 {
        let description = Description {
            pc,
            entry,
            dead: dead.0,
            pause: pause.into(),
        };
        let at = self.cache.reserve_cold(DESCRIPTION);
        self.cache.write(at, bytes_of(&description));
        at
    }

    /// The ends of budgets that were added last go on at `entry`.
    pub(crate) fn tell_entry(&mut self, entry: u32) {
        for at in self.untold.drain(..) {
            let at = at + offset_of!(Description, entry) as u32;
            self.cache.write(at, &entry.to_le_bytes());
        }
    }

    /// Emits a stub that does `before`, and leaves with this as the exit.
    fn stub(&mut self, word: u32, before: impl FnOnce(&mut Asm)) -> u32 {
        self.stub.start(0);
        before(&mut self.stub);
        self.stub.exit(word);
        let at = self.cache.reserve_cold(self.stub.buf.len() as u32);
        self.cache.write(at, &self.stub.buf);
        at
    }

    /// The same with code that goes elsewhere too: it is emitted at its place.
    fn stub_at(&mut self, word: u32, before: impl Fn(&mut Asm)) -> u32 {
        // Once to know its length.
        self.stub.start(0);
        before(&mut self.stub);
        self.stub.exit(word);
        let at = self.cache.reserve_cold(self.stub.buf.len() as u32);
        self.stub.start(at);
        before(&mut self.stub);
        self.stub.exit(word);
        self.cache.write(at, &self.stub.buf);
        at
    }

    /// Adds an exit whose code the caller emits at `at`. Returns its number.
    pub(crate) fn add_inline(&mut self, mut exit: Exit, at: u32) -> u32 {
        exit.stub = at;
        self.all.push(ExitRecord::of(&exit));
        self.all.next() as u32 - 1
    }

    /// Puts a word into the cache, for emitted code to read. Returns its address.
    pub(crate) fn add_word(&mut self, word: u64) -> u32 {
        let at = self.cache.reserve_cold(8);
        self.cache.write(at, &word.to_le_bytes());
        at
    }

    /// Adds code beside the fragments that is no way out. Returns its cache address.
    pub(crate) fn add_code(&mut self, len: u32, emit: impl FnOnce(&mut Asm)) -> u32 {
        let at = self.cache.reserve_cold(len);
        self.stub.start(at);
        emit(&mut self.stub);
        assert_eq!(self.stub.buf.len(), len as usize, "not as long as said");
        self.cache.write(at, &self.stub.buf);
        at
    }

    pub(crate) fn add_op(&mut self, op: InstrOp) -> u32 {
        // There are few different ones.
        let known = self.ops.iter().position(|known| *known == op);
        let index = known.unwrap_or_else(|| {
            self.ops.push(op);
            self.ops.len() - 1
        });
        index as u32
    }

    pub(crate) fn next(&self) -> usize {
        self.all.next()
    }

    /// The exits that unused table slots lead to, at the addresses that the table expects.
    pub(crate) fn add_misses(&mut self) {
        let [even, odd] = TABLE_MISS;
        let [jump, ret] = HASHED_MISS;
        for (kind, at) in [
            (ExitKind::MissEven, even),
            (ExitKind::MissOdd, odd),
            (ExitKind::HashedJump, jump),
            (ExitKind::HashedReturn, ret),
            (ExitKind::ReturnLost, layout::SHADOW_MISS),
        ] {
            let mut asm = Asm::new();
            asm.start(at as u32);
            if kind == ExitKind::ReturnLost {
                asm.add_rsp(layout::SHADOW_BELOW as i32);
            }
            asm.exit(self.add_inline(Exit::new(kind, NONE, 0), at as u32));
            self.cache.write(at as u32, &asm.buf);
        }
    }
}
