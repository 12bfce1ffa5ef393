//! The messages between a replay and its supervisor: the bytes of requests and answers. Nothing
//! here may open or send anything.

/// Names the descriptor of the socket in the environment of a replaying process.
pub const VARIABLE: &str = "RELIVE_BROKER";

/// Bytes of a request.
pub const REQUEST: usize = 48;
/// Bytes of an answer; the one to [`BrokerRequest::Known`] has the names of the copies behind that.
pub const ANSWER: usize = 16;

/// A checksum of a process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sum {
    /// Index of the process.
    pub process: u32,
    /// The thread that runs.
    pub thread: u32,
    /// Events of the process so far.
    pub event: u64,
    /// Ticks of the thread.
    pub tick: u64,
    /// The sum.
    pub memory: u64,
}

/// The subject of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerRequest {
    /// The trace's copy of a file with this content.
    Copy([u8; 32]),
    /// The copies that have been checked already, so many at most. Asked once, at the start.
    Known(u32),
    /// Kept translations with this key.
    Translations(u128),
    /// The sender's own list of present pages, `/proc/PID/pagemap`.
    Pagemap,
    /// The sender's own maps, `/proc/PID/maps`.
    Maps,
    /// The sender's own memory, `/proc/PID/mem`, to be written: for changes of pages that the
    /// sender has mapped without the right to write. It could give itself that right as well.
    Memory,
    /// A checksum of memory, which is not answered.
    Sum(Sum),
}

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum BrokerOutcome {
    /// A descriptor comes with the answer.
    Here = 0,
    /// As [`BrokerOutcome::Here`], and the content has been checked.
    Checked = 1,
    /// There is none.
    Missing = 2,
    /// Its content is not the one that its name stands for.
    Damaged = 3,
    /// It cannot be opened or read; the error number gives the reason.
    Unreadable = 4,
}

impl BrokerRequest {
    /// As it is sent, with its number.
    pub fn encode(self, number: u64) -> [u8; REQUEST] {
        let mut bytes = [0; REQUEST];
        let body = &mut bytes[16..];
        let kind: u32 = match self {
            Self::Copy(id) => {
                body.copy_from_slice(&id);
                1
            }
            Self::Translations(key) => {
                body[..16].copy_from_slice(&key.to_le_bytes());
                2
            }
            Self::Known(most) => {
                body[..4].copy_from_slice(&most.to_le_bytes());
                6
            }
            Self::Pagemap => 3,
            Self::Maps => 4,
            Self::Memory => 7,
            Self::Sum(sum) => {
                body.copy_from_slice(&sum.encode());
                5
            }
        };
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[8..16].copy_from_slice(&number.to_le_bytes());
        bytes
    }

    /// A request and its number; `None` if it makes no sense.
    pub fn decode(bytes: &[u8]) -> Option<(Self, u64)> {
        let bytes: &[u8; REQUEST] = bytes.try_into().ok()?;
        let (kind, rest) = bytes.split_first_chunk::<4>()?;
        let (_, rest) = rest.split_first_chunk::<4>()?;
        let (number, body) = rest.split_first_chunk::<8>()?;
        let body: &[u8; 32] = body.try_into().ok()?;
        let request = match u32::from_le_bytes(*kind) {
            1 => Self::Copy(*body),
            2 => Self::Translations(u128::from_le_bytes(*body.first_chunk()?)),
            3 => Self::Pagemap,
            4 => Self::Maps,
            5 => Self::Sum(Sum::decode(body)),
            7 => Self::Memory,
            6 => Self::Known(u32::from_le_bytes(*body.first_chunk()?)),
            _ => return None,
        };
        Some((request, u64::from_le_bytes(*number)))
    }
}

impl Sum {
    fn encode(self) -> [u8; 32] {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&self.process.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.thread.to_le_bytes());
        for (part, word) in bytes[8..]
            .chunks_exact_mut(8)
            .zip([self.event, self.tick, self.memory])
        {
            part.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8; 32]) -> Self {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        Self {
            process: word(0) as u32,
            thread: (word(0) >> 32) as u32,
            event: word(8),
            tick: word(16),
            memory: word(24),
        }
    }
}

/// Outcome, error number and number of the request.
pub fn encode_answer(outcome: BrokerOutcome, errno: i32, number: u64) -> [u8; ANSWER] {
    let mut bytes = [0; ANSWER];
    bytes[..4].copy_from_slice(&(outcome as u32).to_le_bytes());
    bytes[4..8].copy_from_slice(&errno.to_le_bytes());
    bytes[8..].copy_from_slice(&number.to_le_bytes());
    bytes
}

/// The reverse; `None` if it makes no sense.
pub fn decode_answer(bytes: &[u8]) -> Option<(BrokerOutcome, i32, u64)> {
    let bytes: &[u8; ANSWER] = bytes.try_into().ok()?;
    let (outcome, rest) = bytes.split_first_chunk::<4>()?;
    let (errno, number) = rest.split_first_chunk::<4>()?;
    let outcome = match u32::from_le_bytes(*outcome) {
        0 => BrokerOutcome::Here,
        1 => BrokerOutcome::Checked,
        2 => BrokerOutcome::Missing,
        3 => BrokerOutcome::Damaged,
        4 => BrokerOutcome::Unreadable,
        _ => return None,
    };
    let number = number.try_into().map(u64::from_le_bytes).ok()?;
    Some((outcome, i32::from_le_bytes(*errno), number))
}
