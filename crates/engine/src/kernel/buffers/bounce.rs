//! Bounce buffers: host memory in place of the guest's, for a call during which other threads of the
//! guest run.
//!
//! A call that gives up the baton must not have the kernel write into guest memory while
//! other threads run: they could see the bytes earlier than a replay would show them. So
//! its buffers are the host's, and are copied when the baton is back. Where threads run together that
//! goes for every call: the thread itself writes to guest memory, whose pages another thread may guard
//! at any moment, and changes that others make meanwhile in vectors and lengths have no effect.

use relive_host::addr::PAGE;
use relive_host::{GuestAddr, copy};
use relive_kabi::{Arg, Dir, Len, Special};

use super::{Buffers, MMSGHDR, MSGHDR, Piece, Rule, UIO_MAXIOV, list_len};
use crate::call::Call;
use crate::call::astray::NOWHERE;
use crate::kernel::own;
use crate::space::{Region, WRITE};
use crate::task::Task;

/// Buffers of more bytes than this are not bounced, where one thread runs at a time.
const BOUNCE_MAX: u64 = 16 << 20;
/// The same where threads run together: the kernel moves no more in one call (`MAX_RW_COUNT`).
const BOUNCE_MAX_TOGETHER: u64 = 0x7fff_f000;

/// The kernel may demand of the buffers of a file that they begin and end at such places (`O_DIRECT`).
const SECTOR: u64 = 512;

impl Buffers {
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
        let has_list = row.args.iter().any(|arg| matches!(arg, Arg::Iovec { .. }));
        self.make_room(has_list);
        for p in &self.pieces {
            let is_read = p.dir != Dir::Out;
            // All of such a one goes back, and the kernel may leave a part of it alone, or all.
            if !is_read && !p.is_fixed() {
                continue;
            }
            let bytes = &mut self.arena[p.host..p.host + p.cap as usize];
            if copy::read(GuestAddr(p.guest), bytes).is_err() && is_read {
                self.overflow = true;
                return args;
            }
        }
        if keeps_pages(call) || together && !self.is_as_collected(call) {
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
                Arg::Iovec { count, .. } => {
                    self.copy_iovec(at, list_len(call.args[usize::from(count)]))
                }
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

    /// Makes all room first, at offsets that stay valid. Untouched zeros cost nothing.
    fn make_room(&mut self, has_list: bool) {
        let (mut room, mut aligned) = (0_usize, false);
        for p in &mut self.pieces {
            if p.guest % SECTOR == 0 && p.cap % SECTOR == 0 {
                aligned = true;
                room = room.next_multiple_of(1 << p.guest.trailing_zeros().min(PAGE.ilog2()));
            }
            p.host = room;
            room += (p.cap as usize).next_multiple_of(16);
        }
        if !aligned {
            self.arena = vec![0; room];
            return;
        }
        // A list that is copied behind them must not move them.
        let list = usize::from(has_list) * 16 * UIO_MAXIOV as usize;
        self.arena = vec![0; PAGE as usize + room + list];
        let skew = self.arena.as_ptr().align_offset(PAGE as usize);
        self.arena.truncate(skew + room);
        self.pieces.iter_mut().for_each(|p| p.host += skew);
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
        if !(1..=UIO_MAXIOV).contains(&count) {
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
