//! Questions to a replaying process about the place where it stands, and changes there. Must never make
//! it go on.

use super::{ReplayProcess, unexpected};
use crate::failure::Result;
use crate::guide::protocol::{MapLine, Past, ReplayStatus, Request, Response, Thread};
use crate::guide::register_set::Registers;
use crate::memory::page_list::PageRange;
use crate::proc_stat;
use std::collections::BTreeMap;

/// The state of a process, and the parts of its memory that belong to it.
pub(in crate::timeline) type ImageParts = (Vec<u8>, Vec<PageRange>);

impl ReplayProcess {
    /// Lets it write the guest's output from here on.
    ///
    /// # Errors
    /// The process is gone. (So below.)
    pub fn show_output(&mut self) -> Result<()> {
        match self.ask(&Request::Output)? {
            Response::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// Where it is.
    ///
    /// # Errors
    /// The process is gone. (So below.)
    pub fn status(&mut self) -> Result<ReplayStatus> {
        match self.ask(&Request::Status)? {
            Response::Status(s) => Ok(s),
            other => Err(unexpected(&other)),
        }
    }

    /// The past of a thread.
    ///
    /// # Errors
    /// The process is gone.
    pub fn past(&mut self, slot: u32) -> Result<Past> {
        match self.ask(&Request::Past(slot))? {
            Response::Past(p) => Ok(p),
            other => Err(unexpected(&other)),
        }
    }

    /// All threads, by slot.
    ///
    /// # Errors
    /// The process is gone.
    pub fn threads(&mut self) -> Result<Vec<Thread>> {
        match self.ask(&Request::Threads)? {
            Response::Threads(t) => Ok(t),
            other => Err(unexpected(&other)),
        }
    }

    /// By the slots of the threads: bits of RFLAGS that are certainly overwritten before the thread can read them.
    ///
    /// # Errors
    /// The process is gone.
    pub fn dead_flags(&mut self) -> Result<BTreeMap<u32, u64>> {
        match self.ask(&Request::DeadFlags)? {
            Response::DeadFlags(all) => Ok(all.into_iter().collect()),
            other => Err(unexpected(&other)),
        }
    }

    /// The guest's memory map.
    ///
    /// # Errors
    /// The process is gone.
    pub fn maps(&mut self) -> Result<Vec<MapLine>> {
        match self.ask(&Request::Maps)? {
            Response::Maps(m) => Ok(m),
            other => Err(unexpected(&other)),
        }
    }

    /// A sum over guest memory and registers.
    ///
    /// # Errors
    /// The process is gone.
    pub fn checksum(&mut self) -> Result<u64> {
        match self.ask(&Request::Checksum)? {
            Response::Checksum(c) => Ok(c),
            other => Err(unexpected(&other)),
        }
    }

    /// Events that it has compared with the recording.
    ///
    /// # Errors
    /// The process is gone.
    pub fn compared(&mut self) -> Result<u64> {
        match self.ask(&Request::Compared)? {
            Response::Compared(events) => Ok(events),
            other => Err(unexpected(&other)),
        }
    }

    /// The state of the process, as bytes, and where its memory has content; `None` where it cannot be
    /// described: a little later it can.
    ///
    /// # Errors
    /// It cannot be described anywhere in this process, or the process is gone.
    pub(in crate::timeline) fn image(&mut self) -> Result<Option<ImageParts>> {
        match self.ask_with(&Request::Image, &[])? {
            (Response::Pages(pages), state) => Ok(Some((state, pages))),
            (Response::Absent, _) => Ok(None),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// The content of a part of memory from its start on, as much as one answer holds.
    ///
    /// # Errors
    /// The process is gone.
    pub(in crate::timeline) fn content(&mut self, start: u64, end: u64) -> Result<Vec<u8>> {
        match self.ask_with(&Request::Content(start, end), &[])? {
            (Response::Done, bytes) if !bytes.is_empty() => Ok(bytes),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Registers of the thread of a slot.
    ///
    /// # Errors
    /// The process is gone.
    pub fn registers(&mut self, slot: u32) -> Result<Option<Registers>> {
        match self.ask_with(&Request::Registers(slot), &[])? {
            (Response::Done, bytes) => Ok(Registers::from_bytes(&bytes)),
            (Response::Absent, _) => Ok(None),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Guest memory, up to the first byte that is not there.
    ///
    /// # Errors
    /// The process is gone.
    pub fn read(&mut self, addr: u64, len: u64) -> Result<Vec<u8>> {
        match self.ask_with(&Request::Read(addr, len), &[])? {
            (Response::Done, mut bytes) => {
                bytes.truncate(len as usize);
                Ok(bytes)
            }
            (Response::Absent, _) => Ok(Vec::new()),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Sets registers. The copy cannot go back to the recording afterwards. `false`: there is
    /// no such thread.
    ///
    /// # Errors
    /// The process is gone.
    pub fn set_registers(&mut self, slot: u32, registers: &Registers) -> Result<bool> {
        let (reply, _) = self.ask_with(&Request::SetRegisters(slot), &registers.to_bytes())?;
        Ok(matches!(reply, Response::Done))
    }

    /// Writes memory; as [`ReplayProcess::set_registers`].
    ///
    /// # Errors
    /// The process is gone.
    pub fn write(&mut self, addr: u64, bytes: &[u8]) -> Result<bool> {
        let (reply, _) = self.ask_with(&Request::Write(addr), bytes)?;
        Ok(matches!(reply, Response::Done))
    }

    /// Pages that were copied when this process wrote to them, about: its page faults without
    /// those that only brought new memory (proc(5), `stat`). Only differences mean something.
    #[must_use]
    pub fn copied(&self) -> u64 {
        let stat = proc_stat::stat(self.pid as u32);
        stat.map_or(0, |stat| stat.faults.saturating_sub(stat.resident))
    }

    /// The processor's time that it has used, where the kernel tells (`schedstat`).
    #[must_use]
    pub fn cpu(&self) -> Option<std::time::Duration> {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", self.pid)).ok()?;
        let ns = text.split_whitespace().next()?.parse().ok()?;
        Some(std::time::Duration::from_nanos(ns))
    }

    /// The `siginfo_t` of the signal that the process stands before, if it does.
    ///
    /// # Errors
    /// The process is gone, or has no copy.
    pub fn siginfo(&mut self) -> Result<Option<Vec<u8>>> {
        match self.fork()?.ask_with(&Request::SigInfo, &[])? {
            (Response::Done, bytes) => Ok(Some(bytes)),
            (Response::Absent, _) => Ok(None),
            (other, _) => Err(unexpected(&other)),
        }
    }

    /// Bytes of memory that it uses and shares with its copies in parts (PSS, proc(5)).
    #[must_use]
    pub fn memory(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid));
        let text = text.unwrap_or_default();
        let line = text.lines().find_map(|l| l.strip_prefix("Pss:"));
        let kib = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    }
}
