//! All exits of the code cache, which grow with it: their records, their stubs, and the words that
//! emitted code reads from the cache.

use relive_host::layout;

use crate::cache::Cache;
use crate::cache_window::{HASHED_MISS, TABLE_MISS};
use crate::emit::Asm;
use crate::exit::{Exit, ExitKind, ExitRecord, NONE};
use crate::instr_op::InstrOp;
use crate::records::Records;

/// The cache and the exits out of it, which grow together.
pub(crate) struct Exits {
    pub(crate) cache: Cache,
    pub(crate) all: Records<ExitRecord>,
    pub(crate) ops: Vec<InstrOp>,
    stub: Asm,
}

impl Exits {
    pub(crate) fn new(cache: Cache) -> Self {
        Self {
            cache,
            all: Records::default(),
            ops: Vec::new(),
            stub: Asm::new(),
        }
    }

    /// Adds an exit with a stub of its own, which does `before` first. Returns the stub's
    /// cache address.
    pub(crate) fn add(&mut self, mut exit: Exit, before: impl FnOnce(&mut Asm)) -> u32 {
        self.stub.start(0);
        before(&mut self.stub);
        self.stub.exit(self.all.len() as u32);
        exit.stub = self.cache.reserve_cold(self.stub.buf.len() as u32);
        self.cache.write(exit.stub, &self.stub.buf);
        self.all.push(ExitRecord::of(&exit));
        exit.stub
    }

    /// Adds an exit whose code the caller emits at `at`. Returns its number.
    pub(crate) fn add_inline(&mut self, mut exit: Exit, at: u32) -> u32 {
        exit.stub = at;
        self.all.push(ExitRecord::of(&exit));
        self.all.len() as u32 - 1
    }

    /// Puts a word into the cache, for emitted code to read. Returns its address.
    pub(crate) fn add_word(&mut self, word: u64) -> u32 {
        let at = self.cache.reserve_cold(8);
        self.cache.write(at, &word.to_le_bytes());
        at
    }

    pub(crate) fn add_op(&mut self, op: InstrOp) -> u32 {
        self.ops.push(op);
        self.ops.len() as u32 - 1
    }

    pub(crate) fn next(&self) -> usize {
        self.all.len()
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
