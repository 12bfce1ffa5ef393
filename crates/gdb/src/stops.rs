//! Breakpoints and watchpoints, in any number, and system calls that are caught.

use gdbstub::target::ext::breakpoints::{
    Breakpoints, HwBreakpoint, HwBreakpointOps, HwWatchpoint, HwWatchpointOps, SwBreakpoint,
    SwBreakpointOps, WatchKind,
};
use gdbstub::target::ext::catch_syscalls::{CatchSyscalls, SyscallNumbers};
use gdbstub::target::{TargetError, TargetResult};
use relive_engine::timeline::{StopSet, Watching, Watchpoint};

use crate::debuggee::{Debuggee, ENOMEM};

/// Limit on the breakpoints, and on the watchpoints, of a client: those for a replay must fit into
/// one message.
const MOST: usize = 1 << 16;
/// Most bytes of conditions.
const MOST_CONDITIONS: usize = 1 << 20;
/// Most bytes of packets with conditions that are noted before the process goes on.
const MOST_NOTED: usize = 4 << 20;

impl Debuggee {
    /// Notes the conditions of a breakpoint, which came in a packet of `bytes` bytes. Beyond the
    /// limit breakpoints have no conditions: the client checks them itself then.
    pub(crate) fn note(&mut self, at: u64, conditions: Vec<Vec<u8>>, bytes: usize) {
        self.noted += bytes;
        if conditions.is_empty() || self.noted > MOST_NOTED {
            self.conditions.remove(&at);
        } else {
            self.conditions.insert(at, conditions);
        }
    }

    /// Makes the noted conditions fit: those of removed breakpoints are dropped.
    pub(crate) fn learn(&mut self) {
        self.noted = 0;
        let mut room = MOST_CONDITIONS;
        self.conditions.retain(|at, all| {
            let bytes: usize = all.iter().map(|c| c.len() + size_of::<Vec<u8>>()).sum();
            let kept = self.breakpoints.contains(at) && bytes <= room;
            room -= if kept { bytes } else { 0 };
            kept
        });
    }

    fn add_breakpoint(&mut self, addr: u64) -> TargetResult<bool, Self> {
        if self.breakpoints.len() >= MOST && !self.breakpoints.contains(&addr) {
            return Err(TargetError::Errno(ENOMEM));
        }
        self.breakpoints.insert(addr);
        Ok(true)
    }

    /// The stops of the timeline.
    pub(crate) fn stops(&self) -> StopSet {
        StopSet {
            breakpoints: self.breakpoints.iter().copied().collect(),
            conditions: self
                .conditions
                .iter()
                .filter(|(at, all)| self.breakpoints.contains(at) && !all.is_empty())
                .map(|(at, all)| (*at, all.clone()))
                .collect(),
            watchpoints: self.watchpoints.clone(),
            signals: true,
            calls: self.calls.clone(),
            execs: true,
            // Going backwards, forks are no stops: a child has never been.
            forks: !self.order.is_back(),
        }
    }
}

impl CatchSyscalls for Debuggee {
    fn enable_catch_syscalls(
        &mut self,
        filter: Option<SyscallNumbers<'_, u64>>,
    ) -> TargetResult<(), Self> {
        let numbers = filter.into_iter().flatten();
        // An invalid number is never called.
        self.calls = Some(
            numbers
                .map(|n| u32::try_from(n).unwrap_or(u32::MAX))
                .collect(),
        );
        Ok(())
    }

    fn disable_catch_syscalls(&mut self) -> TargetResult<(), Self> {
        self.calls = None;
        Ok(())
    }
}

/// The client's kind of a watchpoint.
pub fn kind_of(kind: WatchKind) -> Watching {
    match kind {
        WatchKind::Write => Watching::Writes,
        WatchKind::Read => Watching::Reads,
        WatchKind::ReadWrite => Watching::Both,
    }
}

/// The inverse.
pub fn kind_to(kind: Watching) -> WatchKind {
    match kind {
        Watching::Writes => WatchKind::Write,
        Watching::Reads => WatchKind::Read,
        Watching::Both => WatchKind::ReadWrite,
    }
}

impl Breakpoints for Debuggee {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_breakpoint(&mut self) -> Option<HwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Debuggee {
    fn add_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.add_breakpoint(addr)
    }

    fn remove_sw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.breakpoints.remove(&addr))
    }
}

impl HwBreakpoint for Debuggee {
    fn add_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        self.add_breakpoint(addr)
    }

    fn remove_hw_breakpoint(&mut self, addr: u64, _: usize) -> TargetResult<bool, Self> {
        Ok(self.breakpoints.remove(&addr))
    }
}

impl HwWatchpoint for Debuggee {
    fn add_hw_watchpoint(
        &mut self,
        addr: u64,
        len: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        if len == 0 {
            return Ok(false);
        }
        if self.watchpoints.len() >= MOST {
            return Err(TargetError::Errno(ENOMEM));
        }
        let kind = kind_of(kind);
        let new = Watchpoint { addr, len, kind };
        if !self.watchpoints.contains(&new) {
            self.watchpoints.push(new);
        }
        Ok(true)
    }

    fn remove_hw_watchpoint(
        &mut self,
        addr: u64,
        len: u64,
        kind: WatchKind,
    ) -> TargetResult<bool, Self> {
        let kind = kind_of(kind);
        let gone = Watchpoint { addr, len, kind };
        let at = self.watchpoints.iter().position(|w| *w == gone);
        at.map(|at| self.watchpoints.swap_remove(at));
        Ok(at.is_some())
    }
}
