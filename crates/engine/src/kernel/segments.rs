//! System V shared memory: attaching and detaching segments (shmop(2)). The kernel has the
//! segments while recording; in replay they are objects of the pool, as files mapped shared.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use relive_host::addr::PAGE;
use relive_host::{GuestAddr, copy, layout, sys};
use relive_kabi::structs::{SEMID_DS, SHMID_DS, SHMID_SIZE};

use super::live::generic;
use super::memory::{MAP_FIXED_NOREPLACE, choose};
use super::shown::MapData;
use super::{Answer, Call, Reply};
use crate::failure::{Failure, Result};
use crate::machine::machine;
use crate::memfd;
use crate::memory::Source;
use crate::space::{self, Region, Traits, pages};
use crate::task::Task;

/// Begins the identity of each segment; no file has one like it (`mapped::identity`).
const IDENTITY: u64 = 0x5359_5356 << 32;

fn errno(e: i32) -> Result<Reply> {
    Ok(Reply::Value(-i64::from(e)))
}

/// semctl(2): of `GETALL` the set alone says how much it writes.
pub fn semctl(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    // Behind `struct ipc64_perm` and four words, in `struct semid64_ds`.
    const NSEMS: usize = 80;
    if let Some(a) = answer {
        return Ok(Reply::Value(a.result));
    }
    if call.int(2) != libc::GETALL {
        return Ok(Reply::Value(generic(task, call)));
    }
    let mut set = [0u8; SEMID_DS as usize];
    let at = set.as_mut_ptr() as u64;
    let stat = libc::IPC_STAT as u64;
    // SAFETY: fills the structure.
    let known = unsafe { sys::syscall(u64::from(call.nr), [call.args[0], 0, stat, at, 0, 0]) };
    let count = u64::from_le_bytes(set[NSEMS..NSEMS + 8].try_into().unwrap_or_default());
    if known < 0 {
        return Ok(Reply::Value(known as i64));
    }
    let len = 2 * count;
    let values = call.args[3];
    machine()
        .memory()
        .unguard(values, values.saturating_add(len));
    // SAFETY: writes as many values as the set has, into guest memory.
    let result = (unsafe { sys::syscall(u64::from(call.nr), call.args) }) as i64;
    if result >= 0 {
        task.log.wrote(values, len);
    }
    Ok(Reply::Value(result))
}

/// shmat(2).
pub fn shmat(task: &mut Task, call: &Call, answer: Option<&Answer>) -> Result<Reply> {
    let (id, addr, flags) = (call.int(0), call.args[1], call.int(2));
    if let Some(a) = answer {
        return attach_recorded(task, call, a);
    }
    let size = match size(id) {
        Ok(size) => size,
        Err(e) => return Ok(Reply::Value(e)),
    };
    let (addr, fixed) = match addr {
        0 if flags & libc::SHM_REMAP != 0 => return errno(libc::EINVAL),
        0 => (0, 0),
        _ if flags & libc::SHM_RND != 0 => (addr & !(PAGE - 1), MAP_FIXED_NOREPLACE),
        _ if addr % PAGE != 0 => return errno(libc::EINVAL),
        _ => (addr, MAP_FIXED_NOREPLACE),
    };
    let fixed = match flags & libc::SHM_REMAP {
        0 => fixed,
        _ => libc::MAP_FIXED,
    };
    let Some(len) = pages(size) else {
        return errno(libc::EINVAL);
    };
    let (identity, writes) = (
        IDENTITY | u64::from(id as u32),
        flags & libc::SHM_RDONLY == 0,
    );
    let name = format!("/SYSV{id:08x}");
    let mode = task.mode();
    mode.order()
        .acquire_file(task, call, identity, writes, &name)?;
    let mut memory = machine().memory();
    let start = match choose(&mut memory.space, addr, len, fixed, false) {
        Ok(a) => a,
        // What is mapped there stays: the kernel says so with EINVAL.
        Err(_) => return errno(libc::EINVAL),
    };
    let region = region(start, len, flags, identity, &name);
    if let Err(e) = memory.map(region, Source::Segment(id)) {
        return errno(e);
    }
    drop(memory);
    if task.mode().traits().keeps {
        let content = snapshot(start, size)?;
        task.log.extra.extend_from_slice(&super::keep(&content)?.0);
        task.log.extra.extend_from_slice(&identity.to_le_bytes());
        task.log.extra.extend_from_slice(name.as_bytes());
    }
    Ok(Reply::Value(start as i64))
}

fn region(start: u64, len: u64, flags: i32, identity: u64, name: &str) -> Region {
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
        end: start + len,
        prot,
        shared: true,
        common: writes,
        name: name.into(),
        offset: 0,
        inode: identity,
        traits: Traits::default(),
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

/// The same attachment again, at the recorded address.
fn attach_recorded(task: &Task, call: &Call, answer: &Answer) -> Result<Reply> {
    if (-4095..0).contains(&answer.result) {
        return Ok(Reply::Value(answer.result));
    }
    let MapData {
        shown,
        inode: identity,
        name,
    } = MapData::decode(&answer.extra)?;
    let start = answer.result as u64;
    let content = crate::modes::replay::open_copy(&answer.extra)?;
    let size = crate::sharing::objects::length(&content).map_err(Failure::setup)?;
    let (Some(len), true) = (pages(size), layout::guest_may_map(start)) else {
        return Err(crate::modes::replay::divergence(
            task,
            &format!("{call} = {start:#x}"),
            "an impossible map",
        ));
    };
    let (pool, base) = crate::modes::replay::shared_copy(identity, &shown, (0, len))?;
    let name = String::from_utf8_lossy(name);
    let region = region(start, len, call.int(2), identity, &name);
    let source = Source::File(pool.as_raw_fd(), base);
    machine().memory().map(region, source).map_err(|e| {
        Failure::setup(format!(
            "replaying {call}: the kernel refuses the map (errno {e})"
        ))
    })?;
    Ok(Reply::Value(answer.result))
}

/// shmdt(2): all that is left of the attachment at this address.
pub fn shmdt(_: &mut Task, call: &Call, _: Option<&Answer>) -> Result<Reply> {
    let addr = call.args[0];
    let mut memory = machine().memory();
    let first = memory
        .space
        .overlapping(addr, u64::MAX)
        .find(|r| is_of(r, addr))
        .map(|r| r.inode);
    let Some(inode) = first.filter(|_| addr.is_multiple_of(PAGE)) else {
        return errno(libc::EINVAL);
    };
    let parts: Vec<(u64, u64)> = memory
        .space
        .overlapping(addr, u64::MAX)
        .filter(|r| r.inode == inode && is_of(r, addr))
        .map(|r| (r.start, r.end))
        .collect();
    for (start, end) in parts {
        memory.unmap(start, end);
    }
    Ok(Reply::Value(0))
}

/// Whether a region is a part of a segment that was attached at `addr`.
fn is_of(region: &Region, addr: u64) -> bool {
    region.inode >> 32 == IDENTITY >> 32 && region.start.checked_sub(region.offset) == Some(addr)
}
