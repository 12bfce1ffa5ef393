//! The guest memory that a call reads and writes, from its row in the table. The kernel must never follow
//! a pointer of the guest's into the host's memory.

mod bounce;
mod written_back;

use relive_host::{GuestAddr, copy, layout};
use relive_kabi::{Arg, Dir, Len, Written};
use smallvec::SmallVec;

use crate::call::Call;
use crate::call::astray::{NOWHERE, is_astray};
use crate::failure;
use crate::task::Task;

const MSGHDR: u64 = 56;
const MMSGHDR: u64 = 64;
/// The most parts of a list (include/uapi/linux/uio.h): the kernel refuses a longer one before it looks at
/// any part.
pub const UIO_MAXIOV: u64 = libc::UIO_MAXIOV as u64;

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

impl Piece {
    /// Whether it is written back as a whole.
    fn is_fixed(&self) -> bool {
        matches!(self.rule, Rule::All | Rule::Table(Len::Fixed(_), _))
    }
}

/// The buffers of one call.
pub struct Buffers {
    /// Most calls have one or two, and are made without an allocation.
    pieces: SmallVec<[Piece; 2]>,
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
pub(super) const fn points(arg: Arg) -> bool {
    match arg {
        // The host reads these masks itself.
        Arg::Addr | Arg::TempMask { .. } | Arg::TempMaskPair | Arg::Select => false,
        other => !other.is_value(),
    }
}

impl Buffers {
    /// Those of a call that touches no memory.
    pub fn none() -> Self {
        Self {
            pieces: SmallVec::new(),
            lengths: Vec::new(),
            arena: Vec::new(),
            pointers: Vec::new(),
            hidden: Vec::new(),
            bounced: false,
            overflow: false,
            astray: 0,
            astray_within: false,
        }
    }

    /// Collects the memory that `call` may touch. The kernel refuses bad pointers; see
    /// [`Buffers::arguments`].
    pub fn collect(&mut self, task: &Task, call: &Call) {
        let Some(row) = call.row else { return };
        for (i, arg) in row.args.iter().enumerate() {
            let arg = match arg {
                Arg::Select => call.sub.map_or(Arg::Hex, |s| s.arg),
                arg => *arg,
            };
            self.argument(task, call, i, arg);
        }
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
                let count = list_len(call.args[usize::from(count)]);
                self.iovec(task, at, count, dir, 0)
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
            // Where no process has memory the kernel finds none of the host's, and a list with such a part
            // is written or read as far as that.
            self.astray_within |= is_astray(guest) && guest >= layout::WINDOW_START;
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
        if count > UIO_MAXIOV {
            return;
        }
        for k in 0..count {
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

    /// All of it: address, bytes, and whether the kernel writes it.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64, bool)> {
        let pieces = self.pieces.iter();
        let lengths = self.lengths.iter().map(|&at| (at, 4, true));
        pieces
            .map(|p| (p.guest, p.cap, p.dir != Dir::In))
            .chain(lengths)
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

/// The number of parts of a list that is an argument: the kernel takes 32 bits of it.
pub(super) fn list_len(count: u64) -> u64 {
    u64::from(count as u32)
}

fn length(call: &Call, len: Len, result: i64) -> Option<u64> {
    call.row?.bytes(len, &call.args, result, |at, buf| {
        copy::read(GuestAddr(at), buf).is_ok()
    })
}
