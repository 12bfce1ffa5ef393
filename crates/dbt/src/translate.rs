//! The translation of one fragment: the per-instruction loop.

use std::time::Instant;

use relive_host::layout::is_low;

use crate::classify::Class;
use crate::code::{Code, Window};
use crate::decode::{Decoded, Insn};
use crate::emit::{EXIT_BYTES, JMP_BYTES};
use crate::entry::{ENTRIES, Entry};
use crate::exit::NONE;
use crate::flags::{self, Dead};
use crate::fragment::Fragment;
use crate::mangle;
use crate::stop::Bad;
use crate::ticks;
use crate::translator::Translator;
use crate::unit::{Flow, Unit};

/// Most bytes that one instruction is translated to, its stubs included.
const INSN_BYTES: u32 = 224;

/// Most instructions that a loop is unrolled to.
const UNROLLED: u32 = 24;

/// Most instructions of a fragment whose memory accesses are checked.
const CHECKED_INSNS: u32 = 64;

impl Translator {
    /// Translates a fragment at `pc`, with entry `kind` in line. Returns its number.
    pub(crate) fn translate(
        &mut self,
        code: &dyn Code,
        pc: u64,
        kind: Entry,
        step: bool,
    ) -> Result<u32, Bad> {
        let (start, before) = (Instant::now(), self.exits.cache.used());
        let result = self.translate_unit(code, pc, kind, step);
        self.stats.translation_ns += start.elapsed().as_nanos() as u64;
        self.count_bytes(before);
        result
    }

    /// Sees to memory for so many bytes of code.
    fn make_room(&mut self, bytes: u32, pc: u64) -> Result<(), Bad> {
        if !self.exits.cache.has_room(bytes) {
            return Err(Bad::CacheFull { pc: pc.into() });
        }
        self.exits.cache.prepare();
        if self.exits.next() == 0 {
            self.exits.add_misses();
        }
        Ok(())
    }

    /// Counts what has been emitted since the cache was so full.
    fn count_bytes(&mut self, before: (u32, u32)) {
        let now = self.exits.cache.used();
        self.stats.hot_bytes += u64::from(now.0 - before.0);
        self.stats.cold_bytes += u64::from(now.1 - before.1);
    }

    fn translate_unit(
        &mut self,
        code: &dyn Code,
        pc: u64,
        kind: Entry,
        step: bool,
    ) -> Result<u32, Bad> {
        let max = if step { 1 } else { self.options.max_insns };
        let (max, insn_bytes) = match self.watch.is_empty() || step {
            true => (max, INSN_BYTES),
            false => (max.min(CHECKED_INSNS), INSN_BYTES + mangle::CHECK_BYTES),
        };
        self.make_room(
            max * insn_bytes + 2 * ticks::ENTRY_BYTES + 4 * EXIT_BYTES + 64,
            pc,
        )?;
        let mut window = Window::new(code);
        let mut insn = Insn::new();
        let mut decoded = insn.decode(&mut window, pc);
        if let Decoded::Truncated { addr } = decoded {
            return Err(Bad::NoCode {
                pc: pc.into(),
                addr: addr.into(),
            });
        }

        let hashed = (!is_low(pc) || !self.hashed_sites.is_empty()) && self.hashed.need().is_ok();
        let first_exit = self.exits.next();
        let frag = self.frags.next_id();
        let mut end = pc.wrapping_add(1);
        self.asm.start(self.exits.cache.next_hot());
        self.marks.clear();
        let mut entries = [0; ENTRIES.len()];
        let mut spans = Vec::new();
        let (mut unrolls, mut all_dead) = (false, false);
        if kind != Entry::Plain {
            let dead = flags::scan(code, pc);
            let meant = self.is_meant(pc);
            let (asm, exits) = (&mut self.asm, &mut self.exits);
            entries[kind as usize] = ticks::emit(asm, exits, kind, frag, pc, &dead, meant);
            unrolls = dead.all_but_carry() && !step && max > 1 && self.watch.is_empty();
            all_dead = dead.all();
            spans = dependence(dead);
        }
        let body = self.asm.buf.len();
        entries[Entry::Plain as usize] = self.asm.here();
        let mut unit = Unit {
            asm: &mut self.asm,
            exits: &mut self.exits,
            marks: &mut self.marks,
            frag,
            pc,
            body,
            step,
            fused: None,
            pairs: self.pairs,
            hashed: hashed.then_some(&self.hashed_sites),
            misled: self.options.loops.then_some(&self.misled),
        };
        self.paired |= self.pairs;

        let mut at = pc;
        let (mut count, mut copies) = (0, 0);
        if !step && self.breakpoints.contains(&pc) {
            mangle::breakpoint(&mut unit, pc);
            decoded = Decoded::Skipped;
        }
        loop {
            match decoded {
                Decoded::Insn => {}
                Decoded::Skipped => break,
                Decoded::Undefined => {
                    mangle::undefined(&mut unit, at);
                    end = end.max(at.wrapping_add(15));
                    break;
                }
                Decoded::Truncated { .. } => {
                    mangle::fall_through(&mut unit, at);
                    break;
                }
            }
            count += 1;
            at = insn.next();
            end = end.max(at);
            if unrolls
                && leads_back(&insn, pc)
                && count / (copies + 1) * (copies + 2) <= UNROLLED.min(max)
            {
                copies += 1;
                mangle::leave_loop(&mut unit, &insn);
                let further = copies as usize;
                ticks::tick_by_flags(unit.asm, unit.exits, frag, pc, further, all_dead);
                decoded = insn.decode(&mut window, pc);
                continue;
            }
            if !step && mangle::check(&mut unit, &insn, &self.watch) == Flow::End {
                break;
            }
            let start = unit.asm.buf.len();
            if mangle::translate(&mut unit, &insn) == Flow::End {
                break;
            }
            unit.fused = insn.fuses().then_some(start);
            if copies > 0 && leads_back(&insn, pc) {
                mangle::fall_through(&mut unit, at);
                break;
            }
            if !step && self.breakpoints.contains(&at) {
                mangle::fall_through(&mut unit, at);
                break;
            }
            let may_join = matches!(insn.class, Class::Jcc | Class::Call | Class::CallIndirect);
            let joins = may_join && !step && self.frags.find(at).is_some();
            if count == max || joins {
                mangle::fall_through(&mut unit, at);
                break;
            }
            decoded = insn.decode(&mut window, at);
        }

        self.exits.cache.push_hot(&self.asm.buf);
        self.stats.guest_insns += u64::from(count);
        self.fresh += u64::from(!step);
        *(if step {
            &mut self.stats.step_fragments
        } else {
            &mut self.stats.fragments
        }) += 1;
        let fragment = Fragment {
            pc,
            end,
            entries,
            zero: 0,
            first_mark: 0,
            incoming: NONE,
            region: NONE,
            marks: 0,
            live: 1,
            step: step.into(),
        };
        let id = self.frags.add(fragment, &self.marks);
        debug_assert_eq!(id, frag);
        self.frags.depend(id, &spans);
        self.link_new(first_exit);
        self.log_fragment(code, id, kind);
        Ok(id)
    }

    /// Whether the landings for `pc` look by `loop` whether they are meant.
    fn is_meant(&self, pc: u64) -> bool {
        self.options.loops && !self.misled.contains_key(&pc)
    }

    /// Makes sure that a fragment has entry `kind`; returns its cache address.
    pub(crate) fn ensure_entry(
        &mut self,
        code: &dyn Code,
        id: u32,
        kind: Entry,
    ) -> Result<u32, Bad> {
        let fragment = *self.frags.get(id);
        if let Some(at) = fragment.entry(kind) {
            return Ok(at);
        }
        self.make_room(ticks::ENTRY_BYTES + 4 * EXIT_BYTES + 64, fragment.pc)?;
        let before = self.exits.cache.used();
        let dead = flags::scan(code, fragment.pc);
        self.asm.start(self.exits.cache.next_hot());
        let meant = self.is_meant(fragment.pc);
        let (asm, exits) = (&mut self.asm, &mut self.exits);
        let at = ticks::emit(asm, exits, kind, id, fragment.pc, &dead, meant);
        self.asm.keep_whole(JMP_BYTES);
        self.asm.jmp(fragment.plain());
        self.exits.cache.push_hot(&self.asm.buf);
        self.frags.get_mut(id).entries[kind as usize] = at;
        self.frags.depend(id, &dependence(dead));
        self.stats.late_entries += 1;
        self.count_bytes(before);
        Ok(at)
    }
}

/// Whether an instruction is the direct branch that closes the loop which begins at `pc`.
fn leads_back(insn: &Insn, pc: u64) -> bool {
    matches!(insn.class, Class::Jcc | Class::Jmp)
        && !insn.is_16_bit_branch()
        && insn.iced.near_branch_target() == pc
}

/// The guest bytes that an entry depends on: those that let it lose the flags, if it does.
fn dependence(dead: Dead) -> Vec<(u64, u64)> {
    if dead.all_but_carry() {
        dead.spans
    } else {
        Vec::new()
    }
}
