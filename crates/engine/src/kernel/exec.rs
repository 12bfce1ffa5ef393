//! exec: the host starts afresh on the new program, in the same process, with the same tape.

use std::ffi::CString;
use std::fs::File;

use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};

use relive_host::signal::{Mask, set_mask};
use relive_host::{GuestAddr, copy};
use rustix::fs::{Access, AtFlags, CWD, accessat, stat, statat};
use rustix::io::{Errno, FdFlags, fcntl_setfd};

use super::operation::{Operation, Prepared};
use super::refuse::refuse;
use super::resume::ERESTART;
use crate::call::Call;
use crate::descriptor;
use crate::descriptor_limit::{Limit, Room};
use crate::failure::Result;
use crate::loader;
use crate::own_descriptors::outlive_exec;
use crate::remarks::{self, Remark};
use crate::start_data::{Boot, Continuation};
use crate::task::Task;
use crate::task::ending::quiesce_without_visitors;
use crate::vforked;

const OWN: &[u8] = b"/proc/self/exe";
const MAX_STRING: usize = 128 * 1024;
const MAX_STRINGS: usize = 1 << 20;

/// The executable of an exec, after `#!` lines are resolved.
pub struct Executable {
    /// The ELF executable.
    pub file: File,
    /// The path by which the exec named it, also if that is a script.
    pub called: Vec<u8>,
    /// Its canonical path.
    pub path: Vec<u8>,
    /// Its arguments.
    pub argv: Vec<Vec<u8>>,
}

/// execve(2). A successful one does not return, and a tape has it as an event of its own.
pub struct Execve;

impl Operation for Execve {
    /// Nothing: a replay does not read the arguments of a failed exec.
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        if task.lodges {
            return Ok(refuse(call, libc::EPERM));
        }
        let [_, argv, envp, ..] = call.args;
        let path = path(task, call, 0);
        path.map_or_else(Ok, |path| attempt(task, &path, argv, envp))
    }
}

/// execveat(2): as [`Execve`].
pub struct Execveat;

impl Operation for Execveat {
    type Plan = ();

    fn prepare(_: &mut Task, _: &Call) -> Prepared<()> {
        Ok(())
    }

    fn perform(task: &mut Task, call: &Call, (): &mut ()) -> Result<i64> {
        if task.lodges {
            return Ok(refuse(call, libc::EPERM));
        }
        let [_, _, argv, envp, ..] = call.args;
        match path_at(task, call) {
            Err(errno) => Ok(errno),
            Ok(path) if call.int(4) & AT_EXECVE_CHECK != 0 => Ok(check(&path, argv, envp)),
            Ok(path) => attempt(task, &path, argv, envp),
        }
    }
}

/// The path by which execveat(2) finds its file, or the negative errno.
fn path_at(task: &Task, call: &Call) -> std::result::Result<Vec<u8>, i64> {
    let (fd, flags) = (call.int(0), call.int(4));
    let path = path(task, call, 1)?;
    if flags & !(libc::AT_EMPTY_PATH | libc::AT_SYMLINK_NOFOLLOW | AT_EXECVE_CHECK) != 0 {
        return Err(-i64::from(libc::EINVAL));
    }
    if flags & libc::AT_SYMLINK_NOFOLLOW != 0 && is_link(fd, &path) {
        return Err(-i64::from(libc::ELOOP));
    }
    if path.is_empty() && flags & libc::AT_EMPTY_PATH != 0 {
        if fd == libc::AT_FDCWD {
            // A folder.
            return Err(-i64::from(libc::EACCES));
        }
        if descriptor::flags(fd).is_none() {
            return Err(-i64::from(libc::EBADF));
        }
        if vanishing_script(fd) {
            return Err(-i64::from(libc::ENOENT));
        }
        return Ok(name_of(fd));
    }
    if path.is_empty() {
        return Err(-i64::from(libc::ENOENT));
    }
    if path.first() == Some(&b'/') || fd == libc::AT_FDCWD {
        return Ok(path);
    }
    if descriptor::flags(fd).is_none() {
        return Err(-i64::from(libc::EBADF));
    }
    Ok([&name_of(fd)[..], b"/", &path].concat())
}

/// The kernel's name for a descriptor; but not every system has /dev/fd.
fn name_of(fd: i32) -> Vec<u8> {
    let usual = std::path::Path::new("/dev/fd").exists();
    let folder = if usual { "/dev/fd" } else { "/proc/self/fd" };
    format!("{folder}/{fd}").into_bytes()
}

fn is_link(folder: i32, path: &[u8]) -> bool {
    let folder = match folder {
        libc::AT_FDCWD => Some(CWD),
        folder => descriptor::borrow(folder),
    };
    let st = folder.and_then(|folder| statat(folder, path, AtFlags::SYMLINK_NOFOLLOW).ok());
    st.is_some_and(|st| st.st_mode & libc::S_IFMT == libc::S_IFLNK)
}

/// Whether a descriptor leads to a script and will be closed before the interpreter reads it.
fn vanishing_script(fd: i32) -> bool {
    let vanishes = descriptor::flags(fd).is_some_and(|flags| flags.contains(FdFlags::CLOEXEC));
    let mut head = [0u8; 2];
    // SAFETY: the guest's descriptor is borrowed: ManuallyDrop never closes it.
    let file = std::mem::ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    vanishes && file.read_exact_at(&mut head, 0).is_ok() && head == *b"#!"
}

/// Returns the errno (negative) of an exec that fails; otherwise does not return.
fn attempt(task: &mut Task, path: &[u8], argv: u64, envp: u64) -> Result<i64> {
    // The state that is handed on must not change any more, and no other thread may take the raised
    // limit for the guest's. The kernel ends the other threads where they stand.
    let _quiet = match task.vforked {
        None => quiesce_without_visitors(task)?,
        Some(_) => None,
    };
    let room = Room::make();
    let prepared = (|| {
        let mut argv = strings(argv)?;
        if argv.is_empty() {
            argv.push(Vec::new());
        }
        let env = strings(envp)?;
        let own = OWN == path;
        let path = if own {
            task.process.state().exe.clone()
        } else {
            path.to_vec()
        };
        let mut target = resolve(&path, argv).map_err(|e| -i64::from(e))?;
        if own && target.called == path {
            // Its name, as `PR_GET_NAME` tells it, is the link's.
            target.called = OWN.to_vec();
        }
        Ok((target, env))
    })();
    match prepared {
        Ok((target, env)) => start(task, target, env, room.before()),
        Err(errno) => {
            if errno == -i64::from(libc::ENOEXEC) && is_foreign(path) {
                remarks::note(Remark::Foreign, path);
            }
            Ok(errno)
        }
    }
}

/// Whether a file that cannot be executed is an ELF file all the same, of another machine or class.
fn is_foreign(path: &[u8]) -> bool {
    let mut magic = [0; 4];
    let file = File::open(std::ffi::OsStr::from_bytes(path));
    file.is_ok_and(|file| file.read_exact_at(&mut magic, 0).is_ok() && magic == *b"\x7fELF")
}

/// The path in an argument.
fn path(task: &Task, call: &Call, argument: usize) -> std::result::Result<Vec<u8>, i64> {
    let (strings, mut out) = (&task.strings, Vec::new());
    let read = strings.read(call, argument, libc::PATH_MAX as usize, &mut out);
    match read.is_ok() {
        true => Ok(out),
        false if strings.is_endless(call, argument) => Err(-i64::from(libc::ENAMETOOLONG)),
        false => Err(-i64::from(libc::EFAULT)),
    }
}

/// One of the strings of a vector.
fn string(addr: u64) -> std::result::Result<Vec<u8>, i64> {
    let mut out = Vec::new();
    if copy::read_cstr(GuestAddr(addr), MAX_STRING, &mut out).is_ok() {
        return Ok(out);
    }
    // All of it can be read, and has no end.
    let long = copy::read(GuestAddr(addr), &mut vec![0; MAX_STRING]).is_ok();
    Err(-i64::from(if long { libc::E2BIG } else { libc::EFAULT }))
}

fn strings(mut at: u64) -> std::result::Result<Vec<Vec<u8>>, i64> {
    let mut out = Vec::new();
    if at == 0 {
        return Ok(out);
    }
    loop {
        let p = copy::read_u64(GuestAddr(at)).map_err(|_| -i64::from(libc::EFAULT))?;
        if p == 0 {
            return Ok(out);
        }
        if out.len() >= MAX_STRINGS {
            return Err(-i64::from(libc::E2BIG));
        }
        out.push(string(p)?);
        at += 8;
    }
}

/// Finds the executable behind a path: follows `#!` lines, checks permission and format.
///
/// # Errors
/// The errno of execve(2).
pub fn resolve(path: &[u8], mut argv: Vec<Vec<u8>>) -> std::result::Result<Executable, i32> {
    // As `exec_binprm` in the kernel: the sixth is an executable, or it is a loop.
    const SCRIPTS: usize = 5;
    let mut at = path.to_vec();
    for _ in 0..=SCRIPTS {
        let file = open(&at)?;
        let mut head = [0u8; 256];
        file.read_at(&mut head, 0).map_err(|_| libc::EIO)?;
        if !head.starts_with(b"#!") {
            loader::check(&file)?;
            let canonical = loader::canonical(&file, &at);
            return Ok(Executable {
                file,
                called: path.to_vec(),
                path: canonical,
                argv,
            });
        }
        let (interpreter, argument) = shebang(&head).ok_or(libc::ENOEXEC)?;
        if interpreter.is_empty() {
            // To the kernel it is the working folder.
            return Err(libc::EACCES);
        }
        let mut new = vec![interpreter.clone()];
        new.extend(argument);
        new.push(at);
        new.extend(argv.into_iter().skip(1));
        (argv, at) = (new, interpreter);
    }
    Err(libc::ELOOP)
}

/// Opens a file that the caller may execute.
fn open(path: &[u8]) -> std::result::Result<File, i32> {
    let c = CString::new(path).map_err(|_| libc::ENOENT)?;
    let is_file = |mode| mode & libc::S_IFMT == libc::S_IFREG;
    // Before it is opened: a FIFO waits for a writer, and a device may do anything.
    let there = stat(&c).map_err(Errno::raw_os_error)?;
    if !is_file(there.st_mode) || there.st_mode & 0o111 == 0 {
        return Err(libc::EACCES);
    }
    accessat(CWD, &c, Access::EXEC_OK, AtFlags::EACCESS).map_err(Errno::raw_os_error)?;
    let file = File::open(std::ffi::OsStr::from_bytes(path));
    let file = file.map_err(|e| e.raw_os_error().unwrap_or(libc::EACCES))?;
    match file.metadata() {
        Ok(meta) if is_file(meta.mode()) => {}
        _ => return Err(libc::EACCES),
    }
    may_execute(&file)?;
    Ok(file)
}

/// Only asks whether a file may be executed. Linux before 6.14 does not know that.
const AT_EXECVE_CHECK: i32 = 0x10000;

/// What the kernel answers to whether the file of a descriptor, or of a path, may be executed.
fn ask(fd: i32, path: &std::ffi::CStr, flags: i32) -> std::result::Result<(), i32> {
    let none = [c"".as_ptr(), std::ptr::null()];
    // SAFETY: only asks, with strings that outlive the call.
    let asked = unsafe {
        libc::syscall(
            libc::SYS_execveat,
            fd,
            path.as_ptr(),
            none.as_ptr(),
            none[1..].as_ptr(),
            flags | AT_EXECVE_CHECK,
        )
    };
    match std::io::Error::last_os_error().raw_os_error() {
        Some(errno) if asked < 0 => Err(errno),
        _ => Ok(()),
    }
}

/// Asks the kernel whether a file to be executed is open for writing at this moment.
fn may_execute(file: &File) -> std::result::Result<(), i32> {
    match ask(file.as_raw_fd(), c"", libc::AT_EMPTY_PATH) {
        Err(busy @ libc::ETXTBSY) => Err(busy),
        _ => Ok(()),
    }
}

/// execveat(2) with [`AT_EXECVE_CHECK`]: the result.
fn check(path: &[u8], argv: u64, envp: u64) -> i64 {
    let answer = || {
        strings(argv)?;
        strings(envp)?;
        let path = CString::new(path).map_err(|_| -i64::from(libc::ENOENT))?;
        ask(libc::AT_FDCWD, &path, 0).map_err(|errno| -i64::from(errno))
    };
    answer().map_or_else(|errno| errno, |()| 0)
}

/// Interpreter and optional argument of a `#!` line (execve(2), "Interpreter scripts"), of the first bytes of a file, with zeros behind its
/// end, as `load_script` of the kernel finds them; `None`: it names none, or its name is cut off.
fn shebang(head: &[u8; 256]) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    let blank = |b: &u8| *b == b' ' || *b == b'\t';
    let line = &head[2..head.len() - 1];
    let end = line.iter().position(|b| *b == b'\n' || *b == 0);
    let line = match end.filter(|&end| line[end] == b'\n') {
        Some(end) => {
            let last = line[..end].iter().rposition(|b| !blank(b))?;
            &line[..=last]
        }
        None => {
            let start = line.iter().position(|b| !blank(b))?;
            // Else it may go on.
            line[start..].iter().position(|b| blank(b) || *b == 0)?;
            let last = line.iter().rposition(|b| !blank(b))?;
            &line[..=last]
        }
    };
    let string = |bytes: &[u8]| bytes.split(|b| *b == 0).next().unwrap_or_default().to_vec();
    let line = &line[line.iter().position(|b| !blank(b))?..];
    let end = line.iter().position(|b| blank(b) || *b == 0);
    let end = end.unwrap_or(line.len());
    let rest = match line.get(end) {
        Some(0) | None => &[],
        Some(_) => &line[end..],
    };
    let argument = rest.iter().position(|b| !blank(b));
    let argument = argument.map(|start| string(&rest[start..]));
    Some((line[..end].to_vec(), argument))
}

/// Replaces the host by a fresh one that runs `target`. Returns the errno on refusal.
///
/// # Errors
/// The readings of clocks before it are lost.
fn start(
    task: &mut Task,
    target: Executable,
    env: Vec<Vec<u8>>,
    descriptors: Option<Limit>,
) -> Result<i64> {
    let m = task.machine();
    task.flush_readings()?;
    let alone = task.vforked.is_none();
    let handed_on = task.mode().handed_on(task, alone)?;
    let host = m.memory().translator.fd();
    let argv = target.argv.clone();
    let boot = Boot {
        mode: m.name,
        handed_on,
        trace: m.trace.clone(),
        supervisor: m
            .shm
            .map(|s| s.descriptor())
            .or_else(crate::stats::descriptor),
        called: target.called,
        path: target.path,
        file: Some(target.file.as_raw_fd()),
        argv: target.argv,
        env,
        go_on: Some(Continuation {
            task: task.capture(),
            process: task.process.capture(),
            cpu: *relive_host::cpu::known(),
            cpuid: crate::cpuid::kept(),
            vdso: crate::vdso::found(),
            host,
        }),
    };
    if alone {
        crate::translations::save(&m.memory(), &task.process.state().exe);
    }
    // An exec would lose a signal that was noted. With the mask set, a new signal stays pending in
    // the kernel until the new program takes it.
    let mask = set_mask(Mask::all_async());
    if task.ctx.pending != 0 {
        return Ok(ERESTART);
    }
    let visit = match alone {
        true => None,
        false => vforked::recorded(task, task.process.index).map(|slot| &slot.visit),
    };
    if visit.is_some_and(|visit| !visit.leave()) {
        // It has been killed, and ends at its next safe point.
        return Ok(ERESTART);
    }
    if alone {
        task.mode().executes(task);
    }
    // The new host gets the executable as a descriptor: the file may have no name any more. If exec
    // fails, it is closed. The flags of an open descriptor can always be changed.
    let _ = outlive_exec(&target.file);
    let fds = task.process.state().retained_fds;
    let pass_on = |on: bool| {
        if let Some(fds) = fds {
            fds.inherit(on);
            let flags = match on {
                true => FdFlags::empty(),
                false => FdFlags::CLOEXEC,
            };
            // The flags of an open descriptor can always be changed.
            let _ = descriptor::borrow(host).map(|host| fcntl_setfd(host, flags));
        }
    };
    pass_on(true);
    let becomes = |tick| {
        if let Some(parent) = &task.vforked {
            parent.becomes(tick);
        }
    };
    becomes(Some(task.ctx.ticks()));
    let Err(e) = boot.exec(&argv, descriptors, &[]);
    becomes(None);
    if let Some(visit) = visit {
        visit.begin();
    }
    pass_on(false);
    set_mask(mask);
    Ok(-i64::from(e))
}

#[cfg(test)]
mod tests;
