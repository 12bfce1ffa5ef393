//! Signals that processes send each other, as they get them: which one, from where, and when. One that is sent to a whole group reaches
//! several processes, which tell each other by this that it was the same. Must never allocate: a signal handler uses it.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::sys;

/// So far apart are the moments at most at which the members of a group get a signal, in milliseconds.
const NEAR: u64 = 200;
/// Bits of a process's number (`PID_MAX_LIMIT`) and of a signal's.
const SENDER_BITS: u32 = 22;
const SIGNAL_BITS: u32 = 7;

/// The signals that somebody who does not know the program ends it by.
pub const ENDINGS: [i32; 2] = [libc::SIGTERM, libc::SIGHUP];

/// The first of the real-time signals that the C library leaves to programs, and the last.
const REAL_TIME: [i32; 2] = [34, 64];

/// The signals that are meant for a program where another process gets them that stands for it: those whose default action ends a process
/// (signal(7)), but for those of faults, of limits and of the keyboard.
pub const FOR_PROGRAMS: [i32; 12] = [
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGABRT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGSTKFLT,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGPWR,
];

/// All of [`FOR_PROGRAMS`], and those of real time.
pub fn for_programs() -> impl Iterator<Item = i32> {
    let [first, last] = REAL_TIME;
    FOR_PROGRAMS.into_iter().chain(first..=last)
}

/// One word for each signal number.
pub type Words = [AtomicU64; 65];

/// A signal that a process got.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SentSignal {
    /// Its number.
    pub signal: i32,
    /// The process that sent it; 0: the kernel.
    pub sender: u32,
    /// Milliseconds of the machine's clock since its start.
    pub when: u64,
}

impl SentSignal {
    /// The one with this siginfo, now.
    #[must_use]
    pub fn now(info: &[u8; 128]) -> Self {
        // SAFETY: any bytes are a siginfo_t; the sender lies behind the padding of the union that it is in.
        let (info, sender) = unsafe {
            let info = info.as_ptr().cast::<libc::siginfo_t>().read_unaligned();
            (info, info.si_pid())
        };
        // By kill(2), tgkill(2) or sigqueue(3).
        let is_sent = info.si_code <= 0;
        Self {
            signal: info.si_signo,
            sender: if is_sent { sender as u32 } else { 0 },
            when: now(),
        }
    }

    /// As a word, which is not 0.
    #[must_use]
    pub fn pack(self) -> u64 {
        let sender = u64::from(self.sender) & ((1 << SENDER_BITS) - 1);
        self.when << (SENDER_BITS + SIGNAL_BITS) | sender << SIGNAL_BITS | self.signal as u64
    }

    /// The signal in a word; `None` for 0.
    #[must_use]
    pub fn unpack(word: u64) -> Option<Self> {
        let bits = |from: u32, count: u32| word >> from & ((1 << count) - 1);
        (word != 0).then(|| Self {
            signal: bits(0, SIGNAL_BITS) as i32,
            sender: bits(SIGNAL_BITS, SENDER_BITS) as u32,
            when: word >> (SENDER_BITS + SIGNAL_BITS),
        })
    }

    /// Whether another process got the same one.
    #[must_use]
    pub fn is(self, other: Self) -> bool {
        (self.signal, self.sender) == (other.signal, other.sender)
            && self.when.abs_diff(other.when) <= NEAR
    }

    /// Milliseconds since then.
    #[must_use]
    pub fn age(self) -> u64 {
        now().saturating_sub(self.when)
    }
}

/// Milliseconds of `CLOCK_MONOTONIC`.
fn now() -> u64 {
    let mut time = [0u64; 2];
    let args = [
        libc::CLOCK_MONOTONIC as u64,
        time.as_mut_ptr() as u64,
        0,
        0,
        0,
        0,
    ];
    // SAFETY: fills the structure.
    unsafe { sys::syscall(libc::SYS_clock_gettime as u64, args) };
    time[0] * 1000 + time[1] / 1_000_000
}

/// Where the process notes the last one of each number. Process-wide: so are signals.
static NOTED: AtomicPtr<Words> = AtomicPtr::new(std::ptr::null_mut());
/// That process: its forked children are others. Process-wide: as that.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// From here on this process notes in `words` the last one of each number that it has got.
pub fn note_in(words: &'static Words) {
    OWNER.store(std::process::id(), Ordering::Relaxed);
    NOTED.store(std::ptr::from_ref(words).cast_mut(), Ordering::Release);
}

/// The process has got a signal.
pub(crate) fn note(sig: i32, info: &[u8; 128]) {
    // SAFETY: null, or from a reference that is there for good.
    let words = unsafe { NOTED.load(Ordering::Acquire).as_ref() };
    let Some(word) = words.and_then(|words| words.get(sig as usize)) else {
        return;
    };
    if OWNER.load(Ordering::Relaxed) == std::process::id() {
        word.store(SentSignal::now(info).pack(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn got(signal: i32, sender: u32, when: u64) -> SentSignal {
        SentSignal {
            signal,
            sender,
            when,
        }
    }

    #[test]
    fn a_word_holds_all_of_it() {
        for one in [
            got(15, 0, 0),
            got(1, (1 << 22) - 1, 1 << 34),
            got(15, 4711, 123_456_789),
        ] {
            assert_eq!(SentSignal::unpack(one.pack()), Some(one));
        }
        assert_eq!(SentSignal::unpack(0), None);
    }

    #[test]
    fn the_same_one_has_the_same_sender_at_the_same_time() {
        let one = got(15, 7, 1000);
        assert!(one.is(one) && one.is(got(15, 7, 850)) && got(15, 7, 850).is(one));
        for other in [got(1, 7, 1000), got(15, 8, 1000), got(15, 7, 1201)] {
            assert!(!one.is(other), "{other:?}");
        }
    }

    #[test]
    fn a_process_is_a_sender_and_the_kernel_is_none() {
        let signal = libc::SIGUSR2;
        let mut info = [0; 128];
        // SAFETY: the signal is blocked in this thread, which alone gets it, before it comes.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, signal);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            libc::pthread_kill(libc::pthread_self(), signal);
            let args = [&raw const set as u64, info.as_mut_ptr() as u64, 0, 8, 0, 0];
            sys::syscall(libc::SYS_rt_sigtimedwait as u64, args);
        }
        let got = SentSignal::now(&info);
        assert_eq!((got.signal, got.sender), (signal, std::process::id()));
        assert!(got.age() < 1000);
        info[8..12].copy_from_slice(&0x80i32.to_ne_bytes());
        assert_eq!(SentSignal::now(&info).sender, 0);
    }
}
