//! System V shared memory: attaching and detaching segments (shmop(2)). The kernel has the
//! segments while recording; in replay they are objects of the pool, as files mapped shared are.

use std::fs::File;
use std::os::unix::fs::FileExt;

use relive_host::addr::PAGE;
use relive_host::{GuestAddr, copy, layout, sys};
use relive_kabi::structs::{SEMID_DS, SHMID_DS, SHMID_SIZE};

use super::generic::generic;
use super::mapped;
use super::mm::place::{Held, MAP_FIXED_NOREPLACE, choose};
use super::operation::{Operation, Outcome, Prepared, RecordedResult};
use crate::call::Call;
use crate::call::reply::Reply;
use crate::failure::{Failure, Result, answered};
use crate::memfd;
use crate::memory::Source;
use crate::memory::content::{ContentName, ContentRequest, Opened};
use crate::mode::FileUse;
use crate::sharing::changes::FileRange;
use crate::space::{self, Region, RegionTraits, pages};
use crate::task::Task;

/// The upper half of each segment's identity; no file's identity has it (`mapped::identity`).
const IDENTITY: u64 = 0x5359_5356 << 32;

fn errno(e: i32) -> Result<i64> {
    Ok(-i64::from(e))
}

/// semctl(2): the number of values that `GETALL` writes depends on the set, which is asked for it.
pub fn semctl(task: &mut Task, call: &Call) -> Result<i64> {
    // Behind `struct ipc64_perm` and four words, in `struct semid64_ds`.
    const NSEMS: usize = 80;
    if call.int(2) != libc::GETALL {
        return generic(task, call);
    }
    let mut set = [0u8; SEMID_DS as usize];
    let at = set.as_mut_ptr() as u64;
    let stat = libc::IPC_STAT as u64;
    // SAFETY: fills the structure.
    let known = unsafe { sys::syscall(u64::from(call.nr), [call.args[0], 0, stat, at, 0, 0]) };
    let count = u64::from_le_bytes(set[NSEMS..NSEMS + 8].try_into().unwrap_or_default());
    if known < 0 {
        return Ok(known as i64);
    }
    let len = 2 * count;
    let values = call.args[3];
    task.machine()
        .memory()
        .unguard(values, values.saturating_add(len))?;
    // SAFETY: writes as many values as the set has, into guest memory.
    let result = (unsafe { sys::syscall(u64::from(call.nr), call.args) }) as i64;
    if result >= 0 {
        task.log.wrote(values, len);
    }
    Ok(result)
}

/// shmat(2).
pub struct Attach;

/// An attachment.
#[derive(Default)]
pub struct AttachPlan {
    id: i32,
    addr: u64,
    flags: i32,
    /// Bytes of the segment, where the kernel was asked.
    size: Option<u64>,
    /// The segment, where the kernel was asked.
    opened: Option<Opened>,
    /// The place of the attachment must stay free until it is made.
    held: Held,
}

impl AttachPlan {
    /// The address that the guest asks for, and flags of mmap(2) that ask for it the same way.
    fn place(&self) -> std::result::Result<(u64, i32), i32> {
        let (addr, flags) = (self.addr, self.flags);
        let (addr, how) = match addr {
            0 if flags & libc::SHM_REMAP != 0 => return Err(libc::EINVAL),
            0 => (0, 0),
            _ if flags & libc::SHM_RND != 0 => (addr & !(PAGE - 1), MAP_FIXED_NOREPLACE),
            _ if addr % PAGE != 0 => return Err(libc::EINVAL),
            _ => (addr, MAP_FIXED_NOREPLACE),
        };
        Ok(match flags & libc::SHM_REMAP {
            0 => (addr, how),
            _ => (addr, libc::MAP_FIXED),
        })
    }

    fn writes(&self) -> bool {
        self.flags & libc::SHM_RDONLY == 0
    }
}

impl Operation for Attach {
    type Plan = AttachPlan;

    fn prepare(_: &mut Task, call: &Call) -> Prepared<AttachPlan> {
        Ok(AttachPlan {
            id: call.int(0),
            addr: call.args[1],
            flags: call.int(2),
            ..AttachPlan::default()
        })
    }

    fn perform(task: &mut Task, call: &Call, plan: &mut AttachPlan) -> Result<i64> {
        let size = match size(plan.id) {
            Ok(size) => size,
            Err(e) => return Ok(e),
        };
        let (addr, how) = match plan.place() {
            Ok(place) => place,
            Err(e) => return errno(e),
        };
        let Some(len) = pages(size) else {
            return errno(libc::EINVAL);
        };
        let identity = IDENTITY | u64::from(plan.id as u32);
        let name = format!("/SYSV{:08x}", plan.id);
        let used = FileUse {
            part: FileRange {
                file: identity,
                start: 0,
                end: len,
            },
            writes: plan.writes(),
            name: &name,
        };
        task.mode().order().acquire_file(task, call, &used)?;
        let memory = plan.held.lock(task.machine());
        let Ok(start) = choose(&mut memory.space, addr, len, how, false) else {
            // The kernel never replaces a map there: its errno is EINVAL.
            return errno(libc::EINVAL);
        };
        if let Err(e) = task.may_change(memory, start, start + len) {
            return errno(e);
        }
        ContentName::note(&mut task.log.extra, None, identity, &name);
        plan.size = Some(size);
        plan.opened = Some(Opened {
            source: Source::Segment(plan.id),
            writable: plan.writes(),
            file: None,
        });
        Ok(start as i64)
    }

    fn apply(
        task: &mut Task,
        call: &Call,
        mut plan: AttachPlan,
        outcome: &Outcome<'_>,
    ) -> Result<i64> {
        if !outcome.is_good() {
            return Ok(outcome.result);
        }
        let named = ContentName::of(outcome.extra(task))?;
        let Some((identity, name)) = named.as_ref().map(|n| (n.identity(), n.path())) else {
            return Err(Failure::setup(
                "the trace is damaged: a segment has no name",
            ));
        };
        let start = outcome.result as u64;
        let content = task.mode().content(ContentRequest {
            shared: true,
            offset: 0,
            len: plan.size.and_then(pages),
            opened: plan.opened.take(),
            named,
        })?;
        let end = start.checked_add(content.len);
        let Some(end) = end.filter(|&end| layout::guest_may_map_range(start, end)) else {
            let expected = format!("{call} = {start:#x}");
            return Err(task.mode().diverged(task, &expected, "an impossible map"));
        };
        let region = region(start, end, plan.flags, identity, &name);
        let mapped = plan.held.lock(task.machine()).map(region, content.source);
        if let Err(e) = answered(mapped)? {
            task.log.extra.clear();
            return outcome.refused(call, e);
        }
        plan.held.release();
        if let (Some(size), true) = (plan.size, task.traits().keeps) {
            // The content to be copied is read through the guest's attachment.
            let copy = mapped::keep(task.machine(), &snapshot(start, size)?)?;
            ContentName::note_copy(&mut task.log.extra, copy);
        }
        Ok(outcome.result)
    }
}

fn region(start: u64, end: u64, flags: i32, identity: u64, name: &str) -> Region {
    let writes = flags & libc::SHM_RDONLY == 0;
    let mut prot = space::READ;
    if writes {
        prot |= space::WRITE;
    }
    if flags & libc::SHM_EXEC != 0 {
        prot |= space::EXEC;
    }
    Region {
        start,
        end,
        prot,
        shared: true,
        common: writes,
        name: name.into(),
        offset: 0,
        inode: identity,
        copy: None,
        traits: RegionTraits::default(),
    }
}

fn size(id: i32) -> std::result::Result<u64, i64> {
    let mut ds = [0u8; SHMID_DS as usize];
    let at = ds.as_mut_ptr() as u64;
    // SAFETY: fills the structure.
    let got = unsafe {
        sys::syscall(
            libc::SYS_shmctl as u64,
            [id as u64, libc::IPC_STAT as u64, at, 0, 0, 0],
        )
    };
    let word = ds[SHMID_SIZE as usize..].first_chunk::<8>();
    match got {
        0 => Ok(word.map_or(0, |b| u64::from_le_bytes(*b))),
        e => Err(e as i64),
    }
}

/// The content of a segment, as a file.
fn snapshot(start: u64, size: u64) -> Result<File> {
    let no = |e: std::io::Error| Failure::setup(format!("cannot copy a segment: {e}"));
    let file = memfd::with(&[]).map_err(no)?;
    file.set_len(size).map_err(no)?;
    let mut bytes = [0; PAGE as usize];
    for at in (0..size).step_by(PAGE as usize) {
        let n = (size - at).min(PAGE) as usize;
        if copy::read(GuestAddr(start + at), &mut bytes[..n]).is_ok()
            && bytes[..n].iter().any(|&b| b != 0)
        {
            file.write_all_at(&bytes[..n], at).map_err(no)?;
        }
    }
    Ok(file)
}

/// shmdt(2): unmaps the parts that are left of the attachment at this address.
pub fn shmdt(task: &mut Task, call: &Call, _: RecordedResult) -> Result<Reply> {
    let addr = call.args[0];
    let mut memory = task.machine().memory();
    let first = memory
        .space
        .overlapping(addr, u64::MAX)
        .find(|r| is_of(r, addr))
        .map(|r| r.inode);
    let Some(inode) = first.filter(|_| addr.is_multiple_of(PAGE)) else {
        return Ok(Reply::Value(-i64::from(libc::EINVAL)));
    };
    let parts: Vec<(u64, u64)> = memory
        .space
        .overlapping(addr, u64::MAX)
        .filter(|r| r.inode == inode && is_of(r, addr))
        .map(|r| (r.start, r.end))
        .collect();
    let (start, end) = (addr, parts.last().map_or(addr, |part| part.1));
    if let Err(e) = task.may_change(&memory, start, end) {
        return Ok(Reply::Value(-i64::from(e)));
    }
    for (start, end) in parts {
        memory.unmap(start, end)?;
    }
    Ok(Reply::Value(0))
}

/// Whether a region is a part of a segment that was attached at `addr`.
fn is_of(region: &Region, addr: u64) -> bool {
    region.inode >> 32 == IDENTITY >> 32 && region.start.checked_sub(region.offset) == Some(addr)
}

#[cfg(test)]
mod tests {
    use libc::{SYS_shmat, SYS_shmdt};

    use super::{AttachPlan, IDENTITY};
    use crate::failure::FailureClass;
    use crate::kernel::mm::place::MAP_FIXED_NOREPLACE;
    use crate::memory::content::ContentName;
    use crate::testing::{Guest, ModeQuery};

    const AT: u64 = 0x1000_6000_0000;

    #[test]
    fn a_place_is_rounded_or_replaced_as_asked() {
        let (round, remap) = (libc::SHM_RND, libc::SHM_REMAP);
        for (addr, flags, place) in [
            (0, 0, Ok((0, 0))),
            (0, remap, Err(libc::EINVAL)),
            (AT, 0, Ok((AT, MAP_FIXED_NOREPLACE))),
            (AT + 5, 0, Err(libc::EINVAL)),
            (AT + 5, round, Ok((AT, MAP_FIXED_NOREPLACE))),
            (AT + 5, round | remap, Ok((AT, libc::MAP_FIXED))),
        ] {
            let plan = AttachPlan {
                addr,
                flags,
                ..AttachPlan::default()
            };
            assert_eq!(plan.place(), place, "{addr:x} {flags:x}");
        }
    }

    #[test]
    fn a_told_attachment_asks_for_all_of_its_segment() {
        let mut guest = Guest::new();
        let mut extra = Vec::new();
        ContentName::note(&mut extra, None, IDENTITY | 7, "/SYSV00000007");
        let result = guest.told(SYS_shmat, &[7, 0, 0], AT as i64, &extra);
        // The test's mode has no content, and a map without a length is impossible.
        assert!(
            matches!(&result, Err(failure) if failure.class() == FailureClass::Divergence),
            "{result:?}"
        );
        let expected = ModeQuery::Content {
            shared: true,
            named: Some((IDENTITY | 7, "/SYSV00000007".to_owned())),
            offset: 0,
            len: None,
            opened: false,
        };
        assert_eq!(guest.asked().first(), Some(&expected));
        let unnamed = guest.told(SYS_shmat, &[7, 0, 0], AT as i64, &[]);
        assert!(
            matches!(&unnamed, Err(failure) if failure.class() == FailureClass::Setup),
            "{unnamed:?}"
        );
        let refused = guest.told(SYS_shmat, &[7, 0, 0], -22, &[]);
        assert_eq!((refused.ok(), guest.asked()), (Some(-22), Vec::new()));
    }

    #[test]
    fn what_is_no_attachment_is_not_detached() {
        let mut guest = Guest::new();
        guest.map(AT, 0x1000);
        let result = guest.live(SYS_shmdt, &[AT]);
        assert_eq!(result.ok(), Some(-i64::from(libc::EINVAL)));
    }
}
