//! Splits the bytes that a call brought into references into the store, and the rest, which is logged by
//! value.

use relive_kabi::At;
use relive_trace::InputRef;

use super::descriptors::is_kept;
use super::find::LEAST;
use super::shared_store::{self, InputStore};
use crate::call::Call;
use crate::task::Task;

/// The multiples at which known bytes are looked for in a stream: archives align their files so.
const STEP: usize = 512;

/// Calls that bring fewer bytes are logged by value. A program that is only loaded (ld.so reads
/// 832 bytes of each library) does not need the store.
const SMALL: u64 = 1024;

/// How the bytes of a call are logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogForm {
    /// By value.
    Value,
    /// By reference if the store has them, by value if not.
    Known,
    /// By reference; bytes that the store lacks are appended.
    Kept,
}

impl LogForm {
    /// How the bytes that a call has brought are logged.
    #[must_use]
    pub fn of(task: &Task, call: &Call, brought: u64) -> Self {
        if brought < SMALL || !task.traits().keeps {
            return Self::Value;
        }
        match call.input().filter(|end| end.memory.is_some()) {
            None => Self::Value,
            Some(end) if end.at != At::Stream && is_kept(task, call.arg(end.fd) as i32) => {
                Self::Kept
            }
            Some(_) => Self::Known,
        }
    }
}

/// The bytes of one call, split.
#[derive(Default)]
pub struct Split<'a> {
    /// The parts in the store.
    pub refs: Vec<InputRef>,
    /// The other parts, by address.
    pub values: Vec<(u64, &'a [u8])>,
}

impl<'a> Split<'a> {
    /// Splits these slices, each with its guest address. `refs` is an empty vector to be used again.
    #[must_use]
    pub fn of(
        task: &mut Task,
        way: LogForm,
        slices: &[(u64, &'a [u8])],
        refs: Vec<InputRef>,
    ) -> Self {
        let mut split = Self {
            refs,
            values: Vec::new(),
        };
        let Some(store) = shared_store::open(task) else {
            split.values.extend_from_slice(slices);
            return split;
        };
        for &(address, bytes) in slices {
            if bytes.len() < LEAST {
                split.value(address, bytes);
            } else if way == LogForm::Kept {
                split.keep(task, store, address, bytes);
            } else {
                split.find(task, store, address, bytes);
            }
        }
        split
    }

    fn value(&mut self, address: u64, bytes: &'a [u8]) {
        if !bytes.is_empty() {
            self.values.push((address, bytes));
        }
    }

    /// Refers to all of the bytes at once: kept in parts, they would be found again in parts only.
    fn keep(&mut self, task: &mut Task, store: &InputStore, address: u64, bytes: &'a [u8]) {
        let found = task.cursors.whole(store, bytes).or_else(|| {
            let offset = store.append(crate::ids::thread_of(task.tid), bytes)?;
            task.cursors.goes_on(offset + bytes.len() as u64);
            Some(offset)
        });
        match found {
            Some(offset) => self.refs.push(InputRef {
                address,
                length: bytes.len() as u64,
                offset,
            }),
            None => self.value(address, bytes),
        }
    }

    /// Refers to the parts of the bytes that the store has.
    fn find(&mut self, task: &mut Task, store: &InputStore, address: u64, bytes: &'a [u8]) {
        let (mut at, mut done) = (0, 0);
        while bytes.len() - at >= LEAST {
            let Some((offset, n)) = task.cursors.beginning(store, &bytes[at..]) else {
                at += STEP;
                continue;
            };
            self.value(address + done as u64, &bytes[done..at]);
            self.refs.push(InputRef {
                address: address + at as u64,
                length: n as u64,
                offset,
            });
            done = at + n;
            at = done.next_multiple_of(STEP).min(bytes.len());
        }
        self.value(address + done as u64, &bytes[done..]);
    }
}
