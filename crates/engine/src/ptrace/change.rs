//! A tracer's changes to its stopped tracee, as an event of the tracee's tape: a signal with number 0, at the
//! tracee's position, whose bytes are the changes. A replay of the tracee applies them there, and needs
//! no tracer. It must trust no byte of them.

use relive_trace::{Kind, Signal};

use super::registers::{self, BYTES, Words};
use crate::failure::{Failure, Result};
use crate::task::Task;

/// The number of the signal that is none.
pub const SIGNO: u8 = 0;

const REGISTERS: u8 = 1;
const EXTENDED: u8 = 2;
const MEMORY: u8 = 3;
const MASK: u8 = 4;

/// One change.
pub enum Change {
    /// All general registers.
    Registers(Box<Words>),
    /// The extended state.
    Extended(Vec<u8>),
    /// Bytes at an address.
    Memory(u64, Vec<u8>),
    /// The signal mask.
    Mask(u64),
}

impl Change {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Registers(words) => {
                out.push(REGISTERS);
                out.extend(registers::bytes(words));
            }
            Self::Extended(bytes) => {
                out.push(EXTENDED);
                out.extend((bytes.len() as u32).to_le_bytes());
                out.extend(bytes);
            }
            Self::Memory(at, bytes) => {
                out.push(MEMORY);
                out.extend(at.to_le_bytes());
                out.extend((bytes.len() as u32).to_le_bytes());
                out.extend(bytes);
            }
            Self::Mask(mask) => {
                out.push(MASK);
                out.extend(mask.to_le_bytes());
            }
        }
    }

    fn apply(&self, task: &mut Task) -> Result<bool> {
        match self {
            Self::Registers(words) if registers::are_good(words) => registers::set(task, words),
            Self::Registers(_) => return Ok(false),
            Self::Extended(bytes) => registers::set_extended(task, bytes),
            Self::Memory(at, bytes) => {
                task.mode().wrote(*at, bytes.len() as u64);
                return Ok(task.machine().memory().poke(*at, bytes)?.is_ok());
            }
            Self::Mask(mask) => {
                let fixed = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
                task.signals.mask = relive_host::signal::Mask(mask & !fixed);
                task.mode().host().mask(task.signals.mask);
            }
        }
        Ok(true)
    }
}

/// Logs changes at the present position and makes them. With `steps` at [`crate::tape::SYNCHRONOUS`] the task stands
/// at a call or a fault of its own; from then on the position has a name.
///
/// # Errors
/// The event is lost.
pub fn make(task: &mut Task, steps: u32, changes: &[Change]) -> Result<()> {
    let mut bytes = Vec::new();
    changes.iter().for_each(|c| c.encode(&mut bytes));
    task.record(Kind::Signal(Signal {
        steps,
        signo: SIGNO,
        siginfo: &bytes,
    }))?;
    for change in changes {
        change.apply(task)?;
    }
    Ok(())
}

/// Makes the changes of an event in a replay, which has been consumed.
///
/// # Errors
/// A damaged trace, or nothing is mapped where memory was changed.
pub fn replay(task: &mut Task, bytes: &[u8]) -> Result<()> {
    let damaged = || Failure::setup("the trace is damaged: changes by a tracer");
    let mut rest = bytes;
    while let Some((tag, behind)) = rest.split_first() {
        let (change, left) = decode(*tag, behind).ok_or_else(damaged)?;
        if !change.apply(task)? {
            return Err(damaged());
        }
        rest = left;
    }
    Ok(())
}

fn decode(tag: u8, bytes: &[u8]) -> Option<(Change, &[u8])> {
    let sized = |bytes: &'_ [u8]| -> Option<(Vec<u8>, usize)> {
        let (len, rest) = bytes.split_first_chunk::<4>()?;
        let len = u32::from_le_bytes(*len) as usize;
        Some((rest.get(..len)?.to_vec(), 4 + len))
    };
    Some(match tag {
        REGISTERS => {
            let words = registers::of_bytes(bytes.get(..BYTES)?);
            (Change::Registers(Box::new(words)), &bytes[BYTES..])
        }
        EXTENDED => {
            let (area, used) = sized(bytes)?;
            (Change::Extended(area), &bytes[used..])
        }
        MEMORY => {
            let (at, rest) = bytes.split_first_chunk::<8>()?;
            let (there, used) = sized(rest)?;
            (
                Change::Memory(u64::from_le_bytes(*at), there),
                &rest[used..],
            )
        }
        MASK => {
            let (mask, rest) = bytes.split_first_chunk::<8>()?;
            (Change::Mask(u64::from_le_bytes(*mask)), rest)
        }
        _ => return None,
    })
}
