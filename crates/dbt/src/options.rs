//! Options of translation. No option may change the effect of guest code or how ticks are counted:
//! record and replay may run with different options.

use relive_host::{cpu, layout};

use crate::cache_window::CACHE_USED_END;
use crate::sites::Sites;

/// The calls and returns translated as pairs, with the processor's own `call` and `ret`. That pays
/// where there are so many returns that it does not predict indirect jumps in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// None.
    Never,
    /// Those translated after large code has been mapped.
    Large,
    /// All.
    Always,
}

/// The treatment of ordered instructions: those with a `lock` prefix, and exchanges with memory.
/// All others are the same with each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ordered {
    /// As any other instruction.
    Off,
    /// Counted, and ordered by [`relive_host::order`], which must have been installed.
    Record,
    /// Counted.
    Count,
    /// Counted, and their order is replayed while threads run together: a thread leaves by
    /// [`crate::Stop::Ordered`] in front of an operation that the engine wants to hold back
    /// (`relive_host::Context::to_edge`), and tells others of each one that is complete
    /// (`relive_host::Context::done`).
    Wait,
}

/// What a thread does at a `pause`, behind which a tick is counted in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtPause {
    /// It leaves by [`crate::Stop::Pause`]: another thread may take its turn.
    Leave,
    /// It goes on.
    GoOn,
}

/// Options of a [`crate::Translator`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most guest instructions in a fragment, 1 to 256.
    pub max_insns: u32,
    /// Bytes of the code cache to use, 128 KiB to 320 MiB; rounded up to pages.
    pub cache_bytes: u64,
    /// The translator's one file descriptor gets a number of at least this.
    pub fd_floor: i32,
    /// An open descriptor of this executable's file, which the translator takes over; without one
    /// it opens the file by its name.
    pub own_file: Option<i32>,
    /// Several threads may be in the cache at once.
    pub together: bool,
    /// The calls and returns that are paired.
    pub pairs: Pairs,
    /// Emitted branches keep to blocks of 32 bytes and not to cache lines (see `align`).
    pub short_blocks: bool,
    /// Landings check by `loop` whether they are meant: one operation for AMD's processors, seven
    /// for Intel's.
    pub loops: bool,
    /// What a thread does at a `pause`.
    pub at_pause: AtPause,
    /// The treatment of ordered instructions.
    pub order: Ordered,
    /// Plain accesses that are treated like ordered instructions.
    pub sites: Sites,
    /// The plain accesses near atomic instructions that are ordered too.
    pub neighbours: NeighbourRule,
    /// A pass of the tests is on.
    #[cfg(test)]
    pub count_accesses: bool,
}

/// By which rule plain accesses near atomic instructions are ordered like these: a recording's own, whatever the present one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NeighbourRule {
    /// None is.
    #[default]
    None,
    /// Data behind a lock are told by the register and the distance alone.
    ByRegister,
    /// They are told by what code nearby does with the register and the address too.
    Closely,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_insns: 64,
            cache_bytes: CACHE_USED_END - layout::CACHE_START,
            fd_floor: 3,
            own_file: None,
            together: false,
            pairs: Pairs::Large,
            short_blocks: cpu::is_intel(),
            loops: !cpu::is_intel(),
            at_pause: AtPause::Leave,
            order: Ordered::Off,
            sites: Sites::default(),
            neighbours: NeighbourRule::None,
            #[cfg(test)]
            count_accesses: false,
        }
    }
}

/// The environment variable for the most instructions of a fragment.
pub const FRAGMENT_INSNS: &str = "RELIVE_FRAGMENT_INSNS";

impl Options {
    /// The defaults, with `max_insns` and `cache_bytes` taken from the environment variables
    /// `RELIVE_FRAGMENT_INSNS` and `RELIVE_CACHE_BYTES` if those are numbers, and `pairs` from
    /// `RELIVE_PAIRS` if that is `never`, `large` or `always`.
    #[must_use]
    pub fn from_env() -> Self {
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let mut options = Self::default();
        if let Some(n) = number(FRAGMENT_INSNS) {
            options.max_insns = u32::try_from(n).unwrap_or(u32::MAX);
        }
        if let Some(n) = number("RELIVE_CACHE_BYTES") {
            options.cache_bytes = n;
        }
        options.pairs = match std::env::var("RELIVE_PAIRS").as_deref() {
            Ok("never") => Pairs::Never,
            Ok("always") => Pairs::Always,
            _ => Pairs::Large,
        };
        options.checked()
    }

    pub(crate) fn checked(mut self) -> Self {
        self.max_insns = self.max_insns.clamp(1, 256);
        self.cache_bytes = self
            .cache_bytes
            .clamp(1 << 17, CACHE_USED_END - layout::CACHE_START)
            .next_multiple_of(4096);
        self
    }
}
