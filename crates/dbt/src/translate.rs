//! The translation of one fragment: room for it, its entry, its body, its record.

use std::time::Instant;

use relive_host::layout::is_low;

use crate::arrival::Arrival;
use crate::body::Body;
use crate::code::{Code, Window};
use crate::decode::{Decoded, Insn};
use crate::emit::JMP_BYTES;
use crate::entry::{ENTRIES, Entry};
use crate::exit::NONE;
use crate::flags::{self, DeadFlags};
use crate::fragment::Fragment;
use crate::landing;
use crate::looks::{Looks, Rounds};
use crate::mangle;
use crate::stop::Bad;
use crate::translator::Translator;
use crate::unit::Unit;
use crate::units::{CachePlace, Need};

/// Most bytes of a fragment beside its entries and its instructions: the jump that it may end with,
/// and the gap to the fragment before.
const FRAME_BYTES: u32 = 128;

/// Most bytes of a fragment's body: marks hold offsets in it.
const MOST_BYTES: u32 = u16::MAX as u32;

/// Most instructions that a loop is unrolled to.
const UNROLLED: u32 = 24;

/// Most marks of an instruction.
const MARKS: u32 = 8;

/// Most exits of an instruction, with those of passes, or of an entry.
const EXITS: u32 = 8;

impl Translator {
    /// Translates a fragment at `pc`, with entry `kind` in line. Returns its number.
    pub(crate) fn translate(
        &mut self,
        code: &dyn Code,
        pc: u64,
        kind: Entry,
        step: bool,
    ) -> Result<u32, Bad> {
        let start = Instant::now();
        let result = self.translate_unit(code, pc, kind, step);
        self.stats.translation_ns += start.elapsed().as_nanos() as u64;
        result
    }

    /// Counts the bytes emitted since the cache was filled up to this place.
    ///
    /// # Panics
    /// It is more than was reserved: the budget of the translator or of a pass is wrong.
    fn count(&mut self, before: CachePlace, reserved: Need) {
        let now = self.place();
        let (hot, cold) = (now.hot - before.hot, before.cold - now.cold);
        assert!(
            hot + cold <= reserved.bytes
                && now.marks - before.marks <= reserved.marks
                && now.exits - before.exits <= reserved.exits,
            "{before:?} to {now:?}: more than {reserved:?}"
        );
        self.stats.hot_bytes += u64::from(hot);
        self.stats.cold_bytes += u64::from(cold);
        if self.exits.cache.is_anew() {
            self.stats.reused_bytes += u64::from(hot + cold);
        }
    }

    /// The most that a fragment of so many instructions takes.
    pub(crate) fn need(&self, insns: u32, step: bool) -> Need {
        let insn_bytes = mangle::INSN_BYTES + self.passes.around_bytes(step);
        let entry = self.entry_need(step);
        Need {
            bytes: insns * insn_bytes + entry.bytes + FRAME_BYTES,
            marks: (insns + 1) * MARKS,
            exits: (insns + 1) * EXITS + entry.exits,
        }
    }

    /// The most that an entry takes.
    fn entry_need(&self, step: bool) -> Need {
        Need {
            bytes: landing::BYTES + self.passes.arrival_bytes(step),
            marks: 0,
            exits: EXITS,
        }
    }

    fn translate_unit(
        &mut self,
        code: &dyn Code,
        pc: u64,
        kind: Entry,
        step: bool,
    ) -> Result<u32, Bad> {
        let max = if step { 1 } else { self.options.max_insns };
        let insn_bytes = mangle::INSN_BYTES + self.passes.around_bytes(step);
        let max = max.min((MOST_BYTES - FRAME_BYTES) / insn_bytes);
        let reserved = self.need(max, step);
        let before = self.make_room(reserved, pc)?;
        let mut window = Window::new(code);
        let mut insn = Insn::new();
        let decoded = insn.decode(&mut window, pc);
        if let Decoded::Truncated { addr } = decoded {
            return Err(Bad::NoCode {
                pc: pc.into(),
                addr: addr.into(),
            });
        }

        let hashed = (!is_low(pc) || !self.hashed_sites.is_empty()) && self.hashed.need().is_ok();
        let first_exit = self.exits.next();
        let frag = self.frags.next_id();
        self.asm.start(self.exits.cache.next_hot());
        self.marks.clear();
        let mut entries = [0; ENTRIES.len()];
        let mut spans = Vec::new();
        let (mut unrolls, mut dead) = (false, DeadFlags::default());
        // Whoever comes back from the host in the midst of a loop begins it there, by the plain entry.
        let may_loop = !step && max > 1 && self.passes.unroll();
        if kind != Entry::Plain || may_loop {
            let scanned = flags::scan(code, pc);
            (dead, spans) = (scanned.flags, scanned.spans);
            unrolls = dead.all_but_carry() && may_loop;
        }
        if kind != Entry::Plain {
            let meant = self.is_meant(pc);
            entries[kind as usize] = self.emit_entry(kind, frag, pc, dead, meant);
        }
        let body = self.asm.buf.len();
        entries[Entry::Plain as usize] = self.asm.here();
        let mut unit = Unit {
            code,
            asm: &mut self.asm,
            exits: &mut self.exits,
            marks: &mut self.marks,
            frag,
            pc,
            body,
            step,
            fused: None,
            spans,
            rounds: Rounds {
                pc,
                most: if unrolls { UNROLLED.min(max) } else { 0 },
            },
            ahead: 0,
            may_count_ahead: true,
            looks: Looks::default(),
            neighbours: &mut self.neighbours,
            has_site: false,
            pairs: self.pairs,
            at_pause: self.options.at_pause,
            hashed: hashed.then_some(&self.hashed_sites),
            misled: self.options.loops.then_some(&self.misled),
        };
        self.paired |= self.pairs;

        let body = Body {
            passes: &self.passes,
            frags: &self.frags,
            breakpoints: &self.breakpoints,
            max,
            dead,
        };
        let made = body.emit(&mut unit, &mut window, insn, decoded);

        let (spans, has_site) = (unit.spans, unit.has_site);
        if has_site {
            self.with_sites.insert(pc, ());
        }
        self.exits.tell_entry(entries[Entry::Plain as usize]);
        self.exits.cache.push_hot(&self.asm.buf);
        self.stats.guest_insns += u64::from(made.insns);
        self.fresh += u64::from(!step);
        *(if step {
            &mut self.stats.step_fragments
        } else {
            &mut self.stats.fragments
        }) += 1;
        let fragment = Fragment {
            pc,
            end: made.end,
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
        self.units.made();
        self.count(before, reserved);
        self.frags.depend(id, &spans);
        self.link_new(first_exit);
        self.log_fragment(code, id, kind);
        Ok(id)
    }

    /// Whether the landings for `pc` check by `loop` whether they are meant.
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
        let reserved = self.entry_need(false);
        let before = self.make_room(reserved, fragment.pc)?;
        let scanned = flags::scan(code, fragment.pc);
        self.asm.start(self.exits.cache.next_hot());
        let meant = self.is_meant(fragment.pc);
        let at = self.emit_entry(kind, id, fragment.pc, scanned.flags, meant);
        self.asm.keep_whole(JMP_BYTES);
        self.asm.jmp(fragment.plain());
        self.exits.cache.push_hot(&self.asm.buf);
        self.frags.get_mut(id).entries[kind as usize] = at;
        self.exits.tell_entry(fragment.plain());
        self.frags.depend(id, &scanned.spans);
        self.stats.late_entries += 1;
        self.units.made_late(id);
        self.count(before, reserved);
        Ok(at)
    }

    /// Emits entry `kind` of fragment `frag` at `pc`. Returns its cache address.
    fn emit_entry(&mut self, kind: Entry, frag: u32, pc: u64, dead: DeadFlags, meant: bool) -> u32 {
        let mut at = Arrival {
            asm: &mut self.asm,
            exits: &mut self.exits,
            frag,
            pc,
            round: 0,
            dead,
            spilled: false,
        };
        landing::emit(&mut at, &self.passes, kind, meant)
    }
}
