//! The answers of a stopped tracee to the requests of its tracer. Must never run guest code, nor change the tracee
//! but by events of its tape ([`View::make`]).

use super::change::Change;
use super::registers::{self, RIP, RSP};
use super::requests::{ask, event, file};
use super::slots::{ROOM, Slot, TraceRequest};
use super::stop::{StopPlace, View, trap_info};
use crate::call::registers as arguments;
use crate::failure::Result;
use crate::task::Task;

impl View {
    pub(super) fn answer(
        &mut self,
        task: &mut Task,
        slot: &Slot,
        request: TraceRequest,
    ) -> Result<i64> {
        let TraceRequest {
            what,
            argument,
            length,
        } = request;
        let mut bytes = [0; ROOM];
        let given = &mut bytes[..length];
        slot.get(given);
        Ok(match what {
            ask::READ => read(task, slot, argument, length)?,
            ask::WRITE => self.write(task, argument, given)?,
            ask::REGISTERS => show(slot, &registers::bytes(&self.words)),
            ask::SET_REGISTERS => match registers::of_bytes(given) {
                words if registers::are_good(&words) => {
                    self.words = words;
                    0
                }
                _ => -i64::from(libc::EIO),
            },
            ask::EXTENDED => match &self.extended {
                Some(set) => show(slot, set),
                None => show(slot, &registers::extended(task)),
            },
            ask::SET_EXTENDED => {
                let mut all = match self.extended.take() {
                    Some(set) => set,
                    None => registers::extended(task),
                };
                let n = all.len().min(given.len());
                all[..n].copy_from_slice(&given[..n]);
                if n <= 512 {
                    // The registers of `struct user_fpregs_struct` are in use then.
                    all[512] |= 3;
                }
                self.extended = Some(all);
                0
            }
            ask::SIGINFO => match &self.stop.info {
                Some(info) => show(slot, info),
                None => -i64::from(libc::EINVAL),
            },
            ask::SET_SIGINFO => match &mut self.stop.info {
                Some(info) => {
                    info.copy_from_slice(&given[..128]);
                    0
                }
                None => -i64::from(libc::EINVAL),
            },
            ask::MASK => show(
                slot,
                &task
                    .signals
                    .saved_mask
                    .unwrap_or(task.signals.mask)
                    .0
                    .to_le_bytes(),
            ),
            ask::SET_MASK => {
                let mask = u64::from_le_bytes(given[..8].try_into().unwrap_or_default());
                self.make(task, &[Change::Mask(mask)])?;
                0
            }
            ask::CALL => show(slot, &self.call(task)),
            ask::FILE => show(slot, &part_of_file(task, argument)),
            _ => -i64::from(libc::EIO),
        })
    }

    /// Answers for the parent, in whose memory the task runs until it executes or ends.
    pub(super) fn answer_for_parent(
        &mut self,
        task: &mut Task,
        parent: &Slot,
        request: TraceRequest,
    ) -> Result<i64> {
        let mut bytes = vec![0; request.length];
        parent.get(&mut bytes);
        Ok(match request.what {
            ask::READ => read(task, parent, request.argument, request.length)?,
            ask::WRITE => self.write(task, request.argument, &bytes)?,
            ask::REGISTERS => {
                let words = task.traced.as_ref().and_then(|t| t.parent.as_ref());
                let words = words.map(|(_, words)| registers::bytes(words));
                show(parent, &words.unwrap_or_default())
            }
            ask::EXTENDED => show(parent, &registers::extended(task)),
            ask::SIGINFO => show(parent, &trap_info(event::VFORK, task)),
            _ => -i64::from(libc::EIO),
        })
    }

    fn write(&mut self, task: &mut Task, at: u64, bytes: &[u8]) -> Result<i64> {
        let end = at.saturating_add(bytes.len() as u64);
        if task.machine().memory().space.mapped_until(at, end) < end {
            return Ok(-i64::from(libc::EIO));
        }
        self.make(task, &[Change::Memory(at, bytes.to_vec())])?;
        Ok(bytes.len() as i64)
    }

    /// `struct ptrace_syscall_info`
    fn call(&self, task: &Task) -> Vec<u8> {
        const ARCH: u32 = 0xc000_003e;
        let (op, rest) = match self.stop.place {
            StopPlace::Safe => (0_u32, Vec::new()),
            StopPlace::Entry => {
                let mut words = vec![u64::from(task.ctx.reg(relive_host::Reg::Rax) as u32)];
                words.extend(arguments(&task.ctx));
                (1, words.iter().flat_map(|w| w.to_le_bytes()).collect())
            }
            StopPlace::Exit => {
                let result = registers::shown(task)[10];
                let mut bytes = result.to_le_bytes().to_vec();
                bytes.push(u8::from((-4095..0).contains(&(result as i64))));
                (2, bytes)
            }
        };
        let head = [op.to_le_bytes(), ARCH.to_le_bytes()].concat();
        let ip = [self.words[RIP], self.words[RSP]]
            .map(u64::to_le_bytes)
            .concat();
        [head, ip, rest].concat()
    }
}

fn show(slot: &Slot, bytes: &[u8]) -> i64 {
    let bytes = &bytes[..bytes.len().min(ROOM)];
    slot.put(bytes);
    bytes.len() as i64
}

fn read(task: &Task, slot: &Slot, at: u64, length: usize) -> Result<i64> {
    let end = at.saturating_add(length as u64);
    let memory = task.machine().memory();
    let there = memory.space.mapped_until(at, end).min(end);
    if there <= at {
        return Ok(-i64::from(libc::EIO));
    }
    Ok(show(slot, &memory.content(at, there)?))
}

/// A part of a file in `/proc`, as the guest has it.
fn part_of_file(task: &Task, argument: u64) -> Vec<u8> {
    let state = task.process.state();
    let mut all = match argument & 0xff {
        file::MAPS => task.machine().memory().space.proc_maps().into_bytes(),
        file::AUXV => state.auxv.clone(),
        file::ENVIRON => state.environ.clone(),
        _ => state.exe.clone(),
    };
    let from = (argument >> 8) as usize;
    let mut part = all.split_off(from.min(all.len()));
    part.truncate(ROOM);
    part
}
