//! The main thread's stack as exec leaves it (System V x86-64 ABI, section 3.4.1): arguments,
//! environment, auxiliary vector (getauxval(3)).

use object::LittleEndian as LE;
use object::elf::ProgramHeader64;
use relive_host::addr::PAGE;
use relive_host::{cpu, layout};
use relive_trace::Image;
use rustix::process::{Resource, getegid, geteuid, getgid, getuid};
use rustix::rand::{GetRandomFlags, getrandom};

use super::elf::Elf;
use super::exec_args::Program;
use crate::resource_limits;

/// The least size of an alternate signal stack, getauxval(3).
const AT_MINSIGSTKSZ: u64 = 51;

/// Size of the main thread's stack under a soft limit, mapped at once: within reason.
#[must_use]
pub fn bytes(limit: u64) -> u64 {
    limit.clamp(256 << 10, 512 << 20) & !(PAGE - 1)
}

/// Its size under the limit that holds now.
pub fn size() -> u64 {
    let limit = resource_limits::get(Resource::Stack);
    bytes(limit.map_or(8 << 20, |(soft, _)| soft))
}

/// The auxiliary vector but for the entries that point into the stack block. The program's headers and
/// its entry lie at these addresses, its interpreter at `base`.
pub fn auxv(exe: &Elf, (phdr, entry): (u64, u64), base: u64) -> Vec<(u64, u64)> {
    // SAFETY: only reads the auxiliary vector that the kernel has given this process.
    let host = |kind: u64| unsafe { libc::getauxval(kind) };
    let ids = [
        getuid().as_raw(),
        geteuid().as_raw(),
        getgid().as_raw(),
        getegid().as_raw(),
    ]
    .map(u64::from);
    // FSGSBASE instructions would hide changes of FS from us; the guest is told to use arch_prctl.
    let hwcap2 = host(libc::AT_HWCAP2) & !2;
    vec![
        (libc::AT_HWCAP, host(libc::AT_HWCAP)),
        (libc::AT_PAGESZ, PAGE),
        (libc::AT_CLKTCK, host(libc::AT_CLKTCK)),
        (libc::AT_PHDR, phdr),
        (libc::AT_PHENT, size_of::<ProgramHeader64<LE>>() as u64),
        (libc::AT_PHNUM, exe.segments.len() as u64),
        (libc::AT_BASE, base),
        (libc::AT_FLAGS, 0),
        (libc::AT_ENTRY, entry),
        (libc::AT_UID, ids[0]),
        (libc::AT_EUID, ids[1]),
        (libc::AT_GID, ids[2]),
        (libc::AT_EGID, ids[3]),
        (libc::AT_SECURE, 0),
        (libc::AT_HWCAP2, hwcap2),
        (AT_MINSIGSTKSZ, least_signal_stack(host(AT_MINSIGSTKSZ))),
    ]
}

/// The room that a signal frame of the guest's takes, from the room that one takes natively: without the components
/// of the processor's state that the guest has not.
fn least_signal_stack(natively: u64) -> u64 {
    let missing = cpu::native_xsave_size().saturating_sub(cpu::xsave_size());
    match natively {
        0 => 0,
        natively => natively.saturating_sub(missing as u64).next_multiple_of(16),
    }
}

/// Builds the block at the top of the stack; returns its address (the first stack pointer)
/// and its bytes.
///
/// # Errors
/// E2BIG: arguments and environment are too large for this stack; EIO: there are no random bytes.
pub fn block(program: &Program, aux: &[(u64, u64)], stack: u64) -> Result<(u64, Vec<u8>), i32> {
    let mut strings: Vec<u8> = Vec::new();
    let mut offsets = Vec::new();
    let mut put = |s: &[u8], nul: bool| {
        let at = strings.len() as u64;
        strings.extend_from_slice(s);
        if nul {
            strings.push(0);
        }
        at
    };
    for s in program.argv.iter().chain(&program.env) {
        offsets.push(put(s, true));
    }
    let execfn = put(&program.called, true);
    let platform = put(b"x86_64", true);
    let random = put(&random_bytes()?, false);
    if strings.len() as u64 > stack / 4 * 3 {
        return Err(libc::E2BIG);
    }
    let base = (layout::STACK_TOP - strings.len() as u64 - 16) & !15;
    let mut words: Vec<u64> = vec![program.argv.len() as u64];
    words.extend(offsets[..program.argv.len()].iter().map(|o| base + o));
    words.push(0);
    words.extend(offsets[program.argv.len()..].iter().map(|o| base + o));
    words.push(0);
    let pointers = [
        (libc::AT_RANDOM, random),
        (libc::AT_EXECFN, execfn),
        (libc::AT_PLATFORM, platform),
    ];
    for &(kind, value) in aux {
        words.extend([kind, value]);
    }
    for (kind, at) in pointers {
        words.extend([kind, base + at]);
    }
    words.extend([libc::AT_NULL, 0]);
    let rsp = (base - 8 * words.len() as u64) & !15;
    let mut block: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    block.resize((base - rsp) as usize, 0);
    block.extend_from_slice(&strings);
    Ok((rsp, block))
}

/// The auxiliary vector of an image, as `/proc/self/auxv` shows it (proc(5)): it lies behind the
/// arguments and the environment at the first stack pointer.
#[must_use]
pub fn shown_auxv(image: &Image, program: &Program) -> Vec<u8> {
    let Some((_, block)) = image.writes.last() else {
        return Vec::new();
    };
    let before = 8 * (program.argv.len() + program.env.len() + 3);
    let pairs = block.get(before..).unwrap_or_default().chunks_exact(16);
    let ends = |pair: &&[u8]| pair[..8] == [0; 8];
    let length = pairs.clone().position(|pair| ends(&pair)).unwrap_or(0) + 1;
    pairs.take(length).flatten().copied().collect()
}

fn random_bytes() -> Result<[u8; 16], i32> {
    let mut b = [0u8; 16];
    match getrandom(&mut b, GetRandomFlags::empty()) {
        Ok(16) => Ok(b),
        _ => Err(libc::EIO),
    }
}
