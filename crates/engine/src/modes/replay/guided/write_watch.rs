//! Write-protected watchpoints: pages with watched memory are read-only, so that the processor itself
//! reports the first write to one of them, and no access has to be checked.
//!
//! The protection holds only while guest code runs at full speed. It must be off for everything else:
//! host code writes guest memory for the kernel, events change maps, and copies of this process are
//! to inherit nothing of it. Where writes to these pages come too often it costs more than checks
//! of all accesses, and where a page is not plain private data it could be lost unnoticed: there it
//! refuses.

use relive_host::addr::PAGE;
use relive_host::{GuestAddr, copy, sys};

use crate::guide::protocol::{Watching, Watchpoint};
use crate::machine::Machine;
use crate::siginfo::{fault_addr, signo};
use crate::space::{READ, Region, WRITE};
use crate::task::Task;

/// Most pages: each is touched whenever they are protected.
const MOST_PAGES: u64 = 1024;
/// Most ranges of pages: each takes a call to protect.
const MOST_RANGES: usize = 16;
/// Work (`ReplayStatus::work`) that takes about as long as a fault and the step behind it.
const FAULT: u64 = 4000;
/// And as long as to protect the pages and to open them.
const RAISE: u64 = 800;
/// It may cost so much anyhow,
const FREE: u64 = 1 << 22;
/// and this part of the work that is done behind it: checks of all accesses cost more.
const PART: u64 = 2;

/// The pages around watched memory.
pub struct WriteWatch {
    /// Where they start and end, in order, not touching each other.
    ranges: Vec<(u64, u64)>,
    protected: bool,
    /// Its cost so far, as work.
    spent: u64,
    /// Work done before they were first protected.
    began: Option<u64>,
}

impl WriteWatch {
    /// For these watchpoints, if it can report all their accesses.
    pub fn around(watchpoints: &[Watchpoint]) -> Option<Self> {
        let writes_only = watchpoints.iter().all(|w| w.kind == Watching::Writes);
        if watchpoints.is_empty() || !writes_only {
            return None;
        }
        let mut all: Vec<(u64, u64)> = watchpoints
            .iter()
            .map(|w| {
                let last = w.addr.saturating_add(w.len.max(1) - 1);
                (
                    w.addr & !(PAGE - 1),
                    (last & !(PAGE - 1)).saturating_add(PAGE),
                )
            })
            .collect();
        all.sort_unstable();
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (start, end) in all {
            match ranges.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => ranges.push((start, end)),
            }
        }
        let pages: u64 = ranges.iter().map(|(s, e)| (e - s) / PAGE).sum();
        (ranges.len() <= MOST_RANGES && pages <= MOST_PAGES).then_some(Self {
            ranges,
            protected: false,
            spent: 0,
            began: None,
        })
    }

    /// Write-protects the pages, if they are not. `work` is the replay's work so far. `false`: they
    /// are not protected, as they cannot be, or it is not worth it.
    pub fn protect(&mut self, machine: &Machine, work: u64) -> bool {
        if self.protected {
            return true;
        }
        self.spent += RAISE;
        let done = work - *self.began.get_or_insert(work);
        tracing::trace!(target: "watch", "write-protection: {} spent, {done} done", self.spent);
        let plain = |r| is_plain_data(machine, r);
        if self.spent > FREE + done / PART || !self.ranges.iter().all(plain) {
            return false;
        }
        // Only then is it all or nothing.
        self.protected = true;
        let closed = self.ranges.iter().all(|r| set_protection(*r, READ));
        if !closed {
            self.unprotect();
        }
        closed
    }

    /// Opens the pages, if they are protected.
    pub fn unprotect(&mut self) {
        if std::mem::take(&mut self.protected) {
            for range in &self.ranges {
                set_protection(*range, READ | WRITE);
            }
        }
    }

    /// Whether the fault that the task has stopped with is a write to these pages.
    pub fn is_hit(&mut self, task: &Task) -> bool {
        let info = &task.ctx.fault.siginfo;
        let addr = fault_addr(info);
        let hit = self.protected
            && signo(info) == libc::SIGSEGV
            && self.ranges.iter().any(|(s, e)| (*s..*e).contains(&addr));
        if hit {
            self.spent += FAULT;
        }
        hit
    }
}

/// Whether a range is mapped as a whole, and all that may happen to it is that the guest writes it:
/// private, no code, nothing that grows into it.
fn is_plain_data(machine: &Machine, range: &(u64, u64)) -> bool {
    let (start, end) = *range;
    let memory = machine.memory();
    let plain = |r: &Region| r.prot == READ | WRITE && !r.shared && !r.common && !r.traits.grows;
    let mut at = start;
    for region in memory.space.overlapping(start, end) {
        if region.start > at || !plain(region) {
            return false;
        }
        at = region.end;
    }
    drop(memory);
    at >= end && (start..end).step_by(PAGE as usize).all(touch)
}

/// Writes a page's own content to it: this gives the whole map an `anon_vma`, so that the kernel
/// can merge its parts again, where protecting a part makes three. A later mremap(2) accepts one
/// map only.
fn touch(page: u64) -> bool {
    let mut byte = [0];
    copy::read(GuestAddr(page), &mut byte).is_ok() && copy::write(GuestAddr(page), &byte).is_ok()
}

fn set_protection((start, end): (u64, u64), prot: u32) -> bool {
    let args = [start, end - start, u64::from(prot), 0, 0, 0];
    // SAFETY: mapped guest pages that are the guest's to read and write; only their host protection
    // changes, and the kernel keeps their content.
    let got = unsafe { sys::syscall(libc::SYS_mprotect as u64, args) };
    got as i64 >= 0
}
