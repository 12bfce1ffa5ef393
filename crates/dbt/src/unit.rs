//! A fragment under construction: the state that the emitters of single instructions share. It
//! knows no instruction.

use relive_host::layout::is_low;

use crate::addr_map::AddrMap;
use crate::arrival::Arrival;
use crate::code::Code;
use crate::decode::Insn;
use crate::emit::{Asm, EXIT_BYTES};
use crate::exit::{Exit, ExitKind};
use crate::exits::Exits;
use crate::flags::{self, DeadFlags};
use crate::looks::{Looks, Rounds};
use crate::marks::{Mark, Undo};
use crate::neighbours::Neighbours;
use crate::options::AtPause;

/// Whether the fragment goes on behind an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    Continue,
    End,
}

/// A fragment under construction.
pub(crate) struct Unit<'t> {
    /// Guest code.
    pub(crate) code: &'t dyn Code,
    pub(crate) asm: &'t mut Asm,
    pub(crate) exits: &'t mut Exits,
    pub(crate) marks: &'t mut Vec<Mark>,
    /// Its number.
    pub(crate) frag: u32,
    /// Its guest address.
    pub(crate) pc: u64,
    /// Start of its body in `asm`.
    pub(crate) body: usize,
    /// Whether it is for single-stepping: no links, no table.
    pub(crate) step: bool,
    /// Start of the last instruction in `asm`, if processors may fuse it with a conditional branch
    /// that follows.
    pub(crate) fused: Option<usize>,
    /// Guest bytes that it depends on beside those that it is made from: code by which flags
    /// are dead, or are not.
    pub(crate) spans: Vec<(u64, u64)>,
    /// The loop that it unrolls, if it does.
    pub(crate) rounds: Rounds,
    /// Ticks that have been counted already and are not executed yet, in front of the code that is emitted next.
    pub(crate) ahead: u8,
    /// Whether nothing in it reads ticks so far, or leaves without telling how many are ahead.
    pub(crate) may_count_ahead: bool,
    /// The looks at permissions that have been emitted.
    pub(crate) looks: Looks,
    /// The atomic instructions near plain ones.
    pub(crate) neighbours: &'t mut Neighbours,
    /// Whether an access of a site is in it.
    pub(crate) has_site: bool,
    /// Whether calls and returns are paired.
    pub(crate) pairs: bool,
    /// What a thread does at a `pause`.
    pub(crate) at_pause: AtPause,
    /// If the hashed table is mapped: the branches in low code that use it.
    pub(crate) hashed: Option<&'t AddrMap<()>>,
    /// If landings check by `loop` whether they are meant: those that were not.
    pub(crate) misled: Option<&'t AddrMap<()>>,
}

impl Unit<'_> {
    /// Whether an indirect branch goes through the hashed table.
    pub(crate) fn is_hashed(&self, insn: &Insn) -> bool {
        self.hashed
            .is_some_and(|sites| !is_low(insn.pc()) || sites.contains_key(&insn.pc()))
    }

    /// The flags that may be lost before the instruction at `pc`. A pass that asks may lose them.
    pub(crate) fn dead_flags(&mut self, pc: u64) -> DeadFlags {
        let dead = flags::scan(self.code, pc);
        self.spans.extend(dead.spans);
        dead.flags
    }

    /// The arrival where a further round of an unrolled loop begins.
    pub(crate) fn next_round(&mut self, round: usize, dead: DeadFlags) -> Arrival<'_> {
        Arrival {
            asm: self.asm,
            exits: self.exits,
            frag: self.frag,
            pc: self.pc,
            round,
            dead,
            spilled: false,
        }
    }

    /// Code may have been emitted from `start` on between two instructions: then processors do not
    /// fuse them.
    pub(crate) fn parted(&mut self, start: usize) {
        if self.asm.buf.len() != start {
            self.fused = None;
        }
    }

    /// Notes how to recover from a fault of the host instruction emitted next.
    pub(crate) fn mark(&mut self, insn: &Insn, undo: Undo) {
        let cache = (self.asm.buf.len() - self.body) as u16;
        let guest = insn.pc().wrapping_sub(self.pc) as u16;
        let ahead = self.ahead;
        self.marks.push(Mark {
            cache,
            guest,
            ahead,
            undo,
        });
    }

    /// Notes the fault behind the first byte of the code emitted next: see [`Asm::loop_into_load`].
    /// It is reported with the guest address behind `insn`.
    pub(crate) fn mark_misled(&mut self, insn: &Insn) {
        self.marks.push(Mark {
            cache: (self.asm.buf.len() - self.body) as u16 + 1,
            guest: insn.next().wrapping_sub(self.pc) as u16,
            ahead: self.ahead,
            undo: Undo::Misled,
        });
    }

    /// Pushes the guest return address. `undo` says how to recover from a fault of the push. A high
    /// address comes from memory: after two stores of its halves the return that loads it would
    /// have to wait.
    pub(crate) fn push_return(&mut self, insn: &Insn, undo: Undo) {
        let next = insn.next();
        if next as i32 as u64 == next {
            self.mark(insn, undo);
            self.asm.push_imm(next as u32);
        } else {
            let at = self.exits.add_word(next);
            self.mark(insn, undo);
            self.asm.push_at(at);
        }
    }

    /// A new exit with its stub; returns the stub's cache address.
    pub(crate) fn exit(&mut self, exit: Exit) -> u32 {
        self.exits.add(exit, |_| ())
    }

    /// Ends the fragment with an exit at an instruction.
    pub(crate) fn stop_at(&mut self, insn: &Insn, kind: ExitKind, aux: u32) -> Flow {
        let mut exit = Exit::new(kind, self.frag, insn.pc());
        (exit.aux, exit.len) = (aux, insn.bytes().len() as u8);
        self.leave(exit);
        Flow::End
    }

    /// Leaves to the host unconditionally, in line.
    pub(crate) fn leave(&mut self, exit: Exit) {
        let number = self.exits.add_inline(exit, self.asm.here());
        let start = self.asm.here();
        self.asm.exit(number);
        debug_assert_eq!(self.asm.here() - start, EXIT_BYTES);
    }
}
