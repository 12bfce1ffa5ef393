//! The guest memory that a call reads and writes, from its row in the table; and the bounce
//! buffers that a sleeping call uses while other threads of the guest run.
//!
//! A call that gives up the baton must not have the kernel write into guest memory while
//! other threads run: they could see the bytes earlier than a replay would show them. So
//! its buffers are the host's, and are copied when the baton is back. Where threads run together that
//! goes for every call: the thread itself writes to guest memory, whose pages another thread may guard
//! at any moment, and changes that others make meanwhile in vectors and lengths have no effect.

use relive_host::{GuestAddr, copy};
use relive_kabi::{Arg, Dir, Len, Special, Written};

use super::own;
use crate::call::Call;
use crate::call::astray::{NOWHERE, is_astray};
use crate::failure::{self, answered};
use crate::space::{Region, WRITE};
use crate::task::Task;

/// Buffers of more bytes than this are not bounced, where one thread runs at a time.
const BOUNCE_MAX: u64 = 16 << 20;
/// The same where threads run together: the kernel moves no more in one call (`MAX_RW_COUNT`).
const BOUNCE_MAX_TOGETHER: u64 = 0x7fff_f000;
const MSGHDR: u64 = 56;
const MMSGHDR: u64 = 64;

/// One flat guest range that the kernel may read or write.
struct Piece {
    guest: u64,
    cap: u64,
    dir: Dir,
    rule: Rule,
    /// Offset in the bounce arena.
    host: usize,
}

/// The rule by which the number of written bytes of a piece is known.
#[derive(Clone, Copy)]
enum Rule {
    /// The row of the table.
    Table(Len, Written),
    /// Its share of the result, of data spread over several buffers; numbered by message.
    Share(usize),
    /// All of it, after success.
    All,
    /// The number in the guest's length word at this address, of `size` bytes.
    Word(u64, u64),
}

/// The buffers of one call.
pub struct Buffers {
    pieces: Vec<Piece>,
    /// `msg_len` addresses of an mmsghdr array; empty for other calls.
    lengths: Vec<u64>,
    arena: Vec<u8>,
    /// Words in the arena that hold pointers into it: (offset of the word, offset of its target).
    pointers: Vec<(usize, usize)>,
    /// Descriptors of the host's that were replaced in the arena: their offsets, and the guest's bytes.
    hidden: Vec<(usize, [u8; 4])>,
    bounced: bool,
    overflow: bool,
    /// Arguments that point outside the guest's windows, as bits.
    astray: u8,
    /// A pointer in memory points there.
    astray_within: bool,
}

/// Whether an argument is an address that the kernel follows.
pub(super) fn points(arg: Arg) -> bool {
    match arg {
        // The host reads these masks itself.
        Arg::Addr | Arg::TempMask { .. } | Arg::TempMaskPair | Arg::Select => false,
        other => !other.is_value(),
    }
}

impl Buffers {
    /// Collects the memory that `call` may touch. The kernel refuses bad pointers; see
    /// [`Buffers::arguments`].
    pub fn collect(task: &Task, call: &Call) -> Self {
        let mut b = Self {
            pieces: Vec::new(),
            lengths: Vec::new(),
            arena: Vec::new(),
            pointers: Vec::new(),
            hidden: Vec::new(),
            bounced: false,
            overflow: false,
            astray: 0,
            astray_within: false,
        };
        let Some(row) = call.row else { return b };
        for (i, arg) in row.args.iter().enumerate() {
            let arg = if *arg == Arg::Select {
                call.sub.map_or(Arg::Hex, |s| s.arg)
            } else {
                *arg
            };
            b.argument(task, call, i, arg);
        }
        b
    }

    fn argument(&mut self, task: &Task, call: &Call, i: usize, arg: Arg) {
        let at = call.args[i];
        if at == 0 {
            return;
        }
        if points(arg) && is_astray(at) {
            self.astray |= 1 << i;
            return;
        }
        match arg {
            Arg::Buf {
                dir,
                cap,
                out,
                when,
            } => {
                let cap = length(call, cap, 0).unwrap_or(0);
                self.piece(at, cap, dir, Rule::Table(out, when));
            }
            Arg::Iovec { dir, count } => {
                self.iovec(task, at, call.args[usize::from(count)], dir, 0)
            }
            Arg::Msghdr { dir } => self.message(task, at, dir, 0),
            Arg::Mmsghdr { dir, count } => {
                for m in 0..(call.args[usize::from(count)] as u32).min(1024) as usize {
                    let header = at + MMSGHDR * m as u64;
                    self.message(task, header, dir, m);
                    self.lengths.push(header + MSGHDR);
                }
            }
            Arg::LengthAndBuffer => {
                let word = |o: u64| task.read_u64(at + o).unwrap_or(0);
                let len = u64::try_from(word(0) as i32).unwrap_or(0);
                self.piece(word(8), len, Dir::Out, Rule::Word(at, 4));
                self.piece(at, 4, Dir::InOut, Rule::All);
            }
            _ => {}
        }
    }

    fn piece(&mut self, guest: u64, cap: u64, dir: Dir, rule: Rule) {
        if guest != 0 && cap != 0 {
            self.astray_within |= is_astray(guest);
            self.pieces.push(Piece {
                guest,
                cap,
                dir,
                rule,
                host: usize::MAX,
            });
        }
    }

    fn iovec(&mut self, task: &Task, at: u64, count: u64, dir: Dir, message: usize) {
        for k in 0..count.min(1024) {
            let (Ok(base), Ok(len)) = (task.read_u64(at + 16 * k), task.read_u64(at + 16 * k + 8))
            else {
                return;
            };
            self.piece(base, len, dir, Rule::Share(message));
        }
    }

    fn message(&mut self, task: &Task, at: u64, dir: Dir, message: usize) {
        let word = |o: u64| task.read_u64(at + o).unwrap_or(0);
        let (name, name_len, control, control_len) =
            (word(0), word(8) & 0xffff_ffff, word(32), word(40));
        self.iovec(task, word(16), word(24), dir, message);
        if dir == Dir::In {
            self.piece(name, name_len, dir, Rule::All);
            self.piece(control, control_len, dir, Rule::All);
            return;
        }
        self.piece(name, name_len, dir, Rule::Word(at + 8, 4));
        self.piece(control, control_len, dir, Rule::Word(at + 40, 8));
        self.piece(at + 8, 4, dir, Rule::All);
        self.piece(at + 40, 8, dir, Rule::All);
        self.piece(at + 48, 4, dir, Rule::All);
    }

    /// The arguments for the kernel. The kernel sees the host's memory, the guest must not: arguments
    /// that point there are replaced by unmapped addresses.
    ///
    /// # Errors
    /// EFAULT, for a pointer that the kernel would find in memory.
    pub fn arguments(&self, call: &Call) -> Result<[u64; 6], i32> {
        if self.astray_within {
            return Err(libc::EFAULT);
        }
        let kept = |i: usize| self.astray >> i & 1 == 0;
        Ok(std::array::from_fn(|i| match call.args[i] {
            at if kept(i) => at,
            at => NOWHERE + at % NOWHERE,
        }))
    }

    /// Whether another thread, or through shared memory another process, could see these buffers, or
    /// change memory that the arguments point to, while the call sleeps.
    pub fn seen_by_others(&self, task: &Task, call: &Call) -> bool {
        let machine = task.machine();
        if !machine.registry.single() {
            return true;
        }
        let memory = machine.memory();
        let shared = |start: u64, end: u64| {
            let mut there = memory.space.overlapping(start, end);
            there.any(|region| region.shared || region.common)
        };
        let ends = |p: &Piece| p.guest.saturating_add(p.cap);
        self.pieces.iter().any(|p| shared(p.guest, ends(p)))
            || call.args.iter().any(|&at| shared(at, at.saturating_add(1)))
    }

    /// Makes host copies and returns the arguments to use instead of `args`. Calls with message
    /// headers or vectors get copies of those too.
    pub fn bounce(&mut self, task: &Task, call: &Call, mut args: [u64; 6]) -> [u64; 6] {
        let total: u64 = self
            .pieces
            .iter()
            .map(|p| p.cap)
            .fold(0, u64::saturating_add);
        let together = task.traits().together;
        let most = if together {
            BOUNCE_MAX_TOGETHER
        } else {
            BOUNCE_MAX
        };
        if total > most {
            self.overflow = true;
            return args;
        }
        // The kernel reports inaccessible memory better than the host could.
        let Some(row) = call.row.filter(|_| self.is_accessible(task)) else {
            self.overflow = true;
            return args;
        };
        // All room first, at offsets that stay valid. Untouched zeros cost nothing.
        let mut room = 0;
        for p in &mut self.pieces {
            p.host = room;
            room += (p.cap as usize).next_multiple_of(16);
        }
        self.arena = vec![0; room];
        for p in self.pieces.iter().filter(|p| p.dir != Dir::Out) {
            let bytes = &mut self.arena[p.host..p.host + p.cap as usize];
            if copy::read(GuestAddr(p.guest), bytes).is_err() {
                self.overflow = true;
                return args;
            }
        }
        if together && (keeps_pages(call) || !self.is_as_collected(call)) {
            self.overflow = true;
            return args;
        }
        let mut patches = [None; 6];
        for (i, arg) in row.args.iter().enumerate() {
            let arg = if *arg == Arg::Select {
                call.sub.map_or(Arg::Hex, |s| s.arg)
            } else {
                *arg
            };
            let at = call.args[i];
            if at == 0 {
                continue;
            }
            patches[i] = match arg {
                Arg::Buf { .. } => self.find(at).map(|p| self.pieces[p].host),
                Arg::Iovec { count, .. } => self.copy_iovec(at, call.args[usize::from(count)]),
                Arg::Msghdr { .. } => self.copy_headers(at, 1, MSGHDR),
                Arg::Mmsghdr { count, .. } => self.copy_headers(
                    at,
                    (call.args[usize::from(count)] as u32).min(1024).into(),
                    MMSGHDR,
                ),
                _ => None,
            };
        }
        let base = self.arena.as_ptr() as u64;
        for &(word, target) in &self.pointers {
            self.arena[word..word + 8].copy_from_slice(&(base + target as u64).to_le_bytes());
        }
        for (arg, patch) in args.iter_mut().zip(patches) {
            if let Some(offset) = patch {
                *arg = base + offset as u64;
            }
        }
        self.bounced = true;
        args
    }

    /// Replaces the host's descriptors in the copy for poll(2) by closed ones: to the guest they are
    /// closed.
    pub fn hide(&mut self, task: &Task) {
        let polled =
            |p: &&Piece| matches!(p.rule, Rule::Table(Len::Special(Special::PollFds(_)), _));
        let Some(p) = self.pieces.iter().find(polled).filter(|_| self.bounced) else {
            return;
        };
        let (at, end) = (p.host, p.host + p.cap as usize);
        let hidden = own::hide_polled(task, &mut self.arena[at..end]);
        self.hidden = hidden
            .into_iter()
            .map(|(offset, fd)| (at + offset, fd))
            .collect();
    }

    /// Whether the guest may write all memory that the kernel may write, and all memory that it may read
    /// is mapped.
    fn is_accessible(&self, task: &Task) -> bool {
        let memory = task.machine().memory();
        let fits = |p: &Piece| {
            let end = p.guest.saturating_add(p.cap);
            let region = memory.space.at(p.guest);
            let accessible = |r: &Region| p.dir == Dir::In || r.prot & WRITE != 0;
            region.is_some_and(|r| accessible(r) && end <= r.end)
                || memory.space.is_mapped(p.guest, end)
                    && memory.space.overlapping(p.guest, end).all(accessible)
        };
        self.pieces.iter().all(fits)
    }

    /// Whether the lengths in the copied memory are those read before, which gave the buffers their
    /// sizes; and whether the kernel writes to buffers only.
    fn is_as_collected(&self, call: &Call) -> bool {
        let copied = |at: u64, buf: &mut [u8]| {
            let inside = |p: &&Piece| {
                p.dir != Dir::Out && p.guest <= at && at + buf.len() as u64 <= p.guest + p.cap
            };
            let Some(p) = self.pieces.iter().find(inside) else {
                return copy::read(GuestAddr(at), buf).is_ok();
            };
            let from = p.host + (at - p.guest) as usize;
            buf.copy_from_slice(&self.arena[from..from + buf.len()]);
            true
        };
        let args = call.row.map_or(&[][..], |row| row.args);
        args.iter().enumerate().all(|(i, arg)| {
            let arg = if *arg == Arg::Select {
                call.sub.map_or(Arg::Hex, |s| s.arg)
            } else {
                *arg
            };
            match arg {
                Arg::Buf { cap, .. } if call.args[i] != 0 && self.astray >> i & 1 == 0 => {
                    let cap = call.row.and_then(|r| r.bytes(cap, &call.args, 0, copied));
                    let cap = cap.unwrap_or(0);
                    cap == 0 || self.find_whole(call.args[i], cap).is_some()
                }
                Arg::LengthAndBuffer => false,
                _ => true,
            }
        })
    }

    fn find(&self, guest: u64) -> Option<usize> {
        self.pieces.iter().position(|p| p.guest == guest)
    }

    fn find_whole(&self, guest: u64, cap: u64) -> Option<usize> {
        let mut pieces = self.pieces.iter();
        pieces.position(|p| (p.guest, p.cap) == (guest, cap))
    }

    fn append(&mut self, guest: u64, len: u64) -> Option<usize> {
        let at = self.arena.len();
        self.arena
            .resize(at + (len as usize).next_multiple_of(16), 0);
        copy::read(GuestAddr(guest), &mut self.arena[at..at + len as usize]).ok()?;
        Some(at)
    }

    fn copy_iovec(&mut self, at: u64, count: u64) -> Option<usize> {
        let count = count.min(1024);
        if count == 0 {
            return None;
        }
        let copy = self.append(at, 16 * count)?;
        for entry in (0..count as usize).map(|k| copy + 16 * k) {
            self.point(entry, self.word(entry + 8));
        }
        Some(copy)
    }

    /// A word of the arena.
    fn word(&self, at: usize) -> u64 {
        let bytes = self.arena[at..].first_chunk();
        bytes.map_or(0, |b| u64::from_le_bytes(*b))
    }

    fn copy_headers(&mut self, at: u64, count: u64, size: u64) -> Option<usize> {
        let copy = self.append(at, size * count)?;
        for m in 0..count {
            let (guest, host) = (at + size * m, copy + (size * m) as usize);
            let (iov, n) = (self.word(host + 16), self.word(host + 24));
            self.point(host, self.word(host + 8) & 0xffff_ffff);
            self.point(host + 32, self.word(host + 40));
            match self.copy_iovec(iov, n) {
                Some(v) => self.pointers.push((host + 16, v)),
                None if n == 0 => {}
                None => self.lead_nowhere(host + 16),
            }
            // The kernel writes lengths and flags into the copy of the header: their pieces lie
            // there, not at the places that `bounce` gave them.
            for p in &mut self.pieces {
                if (guest..guest + size).contains(&p.guest) {
                    p.host = host + (p.guest - guest) as usize;
                }
            }
            if let Some(&len) = self.lengths.get(m as usize) {
                self.pieces.push(Piece {
                    guest: len,
                    cap: 4,
                    dir: Dir::Out,
                    rule: Rule::All,
                    host: host + MSGHDR as usize,
                });
            }
        }
        Some(copy)
    }

    /// Points a word of the arena, which points to so many bytes of the guest's, to their copy. A word
    /// that has changed since it was collected gets an unmapped address.
    fn point(&mut self, word: usize, len: u64) {
        let guest = self.word(word);
        match self.find_whole(guest, len) {
            Some(p) => self.pointers.push((word, self.pieces[p].host)),
            None if guest == 0 || len == 0 => {}
            None => self.lead_nowhere(word),
        }
    }

    fn lead_nowhere(&mut self, word: usize) {
        self.arena[word..word + 8].copy_from_slice(&NOWHERE.to_le_bytes());
    }

    /// After the call: copies bounced bytes back, and notes the ranges that the kernel wrote in the
    /// task's log.
    ///
    /// # Errors
    /// A page cannot be opened.
    pub fn finish(&mut self, task: &mut Task, call: &Call, result: i64) -> failure::Result<()> {
        for (at, fd) in self.hidden.drain(..) {
            self.arena[at..at + fd.len()].copy_from_slice(&fd);
        }
        let failed = (-4095..0).contains(&result);
        // Length words first: the lengths of other pieces are read from them.
        for p in self
            .pieces
            .iter()
            .filter(|p| p.dir != Dir::In && matches!(p.rule, Rule::All))
        {
            if !failed {
                self.back(task, p, p.cap)?;
            }
        }
        if !self.bounced && !failed {
            for &at in &self.lengths[..self.lengths.len().min(result as usize)] {
                task.log.wrote(at, 4);
            }
        }
        let fixed = |p: &&Piece| matches!(p.rule, Rule::Table(Len::Fixed(_), _));
        for p in self.pieces.iter().filter(|p| p.dir != Dir::In && fixed(p)) {
            self.table(task, call, p, result)?;
        }
        let mut left: Option<(usize, u64)> = None;
        for p in self.pieces.iter().filter(|p| p.dir != Dir::In && !fixed(p)) {
            match p.rule {
                Rule::Table(..) => self.table(task, call, p, result)?,
                Rule::Share(message) if !failed => {
                    let mut rest = match left {
                        Some((m, rest)) if m == message => rest,
                        _ => self.message_len(task, message, result),
                    };
                    let n = rest.min(p.cap);
                    rest -= n;
                    left = Some((message, rest));
                    self.back(task, p, n)?;
                }
                Rule::Word(at, size) if !failed => {
                    let word = task.read_u64(at).unwrap_or(0);
                    let len = if size == 4 { word & 0xffff_ffff } else { word };
                    self.back(task, p, len.min(p.cap))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn message_len(&self, task: &Task, message: usize, result: i64) -> u64 {
        match self.lengths.get(message) {
            None => result as u64,
            Some(_) if message as i64 >= result => 0,
            Some(&at) => task
                .read::<4>(at)
                .map_or(0, |b| u32::from_le_bytes(b).into()),
        }
    }

    fn table(&self, task: &mut Task, call: &Call, p: &Piece, result: i64) -> failure::Result<()> {
        let Rule::Table(out, when) = p.rule else {
            return Ok(());
        };
        if when.after(result) {
            let n = length(call, out, result).unwrap_or(0).min(p.cap);
            self.back(task, p, n)?;
        }
        Ok(())
    }

    fn back(&self, task: &mut Task, p: &Piece, n: u64) -> failure::Result<()> {
        if n == 0 {
            return Ok(());
        }
        if self.bounced {
            // Natively, a bad address would have been EFAULT, before any effect; here the call has
            // been made already. The bytes are not stored.
            let _ = answered(task.write(p.guest, &self.arena[p.host..p.host + n as usize]))?;
        }
        task.log.wrote(p.guest, n);
        Ok(())
    }

    /// Makes guarded pages of the buffers writable: otherwise the kernel would answer EFAULT, or stop
    /// half-way.
    ///
    /// # Errors
    /// One cannot be made so.
    pub fn unguard(&self, task: &Task) -> failure::Result<()> {
        if self.pieces.is_empty() && self.lengths.is_empty() {
            return Ok(());
        }
        let mut memory = task.machine().memory();
        for p in self.pieces.iter().filter(|p| p.dir != Dir::In) {
            memory.unguard(p.guest, p.guest.saturating_add(p.cap))?;
        }
        for &at in &self.lengths {
            memory.unguard(at, at.saturating_add(4))?;
        }
        Ok(())
    }
}

/// Whether the kernel goes on using the buffers themselves after the call.
fn keeps_pages(call: &Call) -> bool {
    let zero_copy = |argument: usize| call.int(argument) & libc::MSG_ZEROCOPY != 0;
    match i64::from(call.nr) {
        libc::SYS_vmsplice => true,
        libc::SYS_sendmsg => zero_copy(2),
        libc::SYS_sendto | libc::SYS_sendmmsg => zero_copy(3),
        _ => false,
    }
}

fn length(call: &Call, len: Len, result: i64) -> Option<u64> {
    call.row?.bytes(len, &call.args, result, |at, buf| {
        copy::read(GuestAddr(at), buf).is_ok()
    })
}
