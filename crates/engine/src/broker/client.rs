//! The replay's side. Nothing here opens anything.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::sync::OnceLock;

use relive_trace::{Error, FileId};

use super::{ANSWER, Outcome, Request, Sum, VARIABLE, decode_answer, socket};
use crate::failure::{Failure, Result};

struct Client {
    socket: i32,
    /// Who has it locked asks. The kernel's lock, because that of a dead process is free.
    lock: File,
}

static CLIENT: OnceLock<Client> = OnceLock::new();

/// The descriptor of the socket, as the environment names it.
pub fn requested() -> Option<i32> {
    std::env::var(VARIABLE).ok()?.parse().ok()
}

/// Makes ready to ask, before the process is confined.
///
/// # Errors
/// No descriptor is free, or the process was not started as a replay.
pub fn attach() -> Result<()> {
    let socket = requested()
        .ok_or_else(|| Failure::setup("this process is a part of Relive: use `relive replay`"))?;
    let lock = crate::kernel::exec::memfd(&[]).map_err(|e| cannot_ask(&e))?;
    match CLIENT.set(Client { socket, lock }) {
        Ok(()) => Ok(()),
        Err(_) => Err(Failure::internal("a replay starts once")),
    }
}

/// Files about this process.
#[derive(Clone, Copy, Debug)]
pub enum Proc {
    /// Which of its pages are there.
    Pagemap,
    /// Its maps.
    Maps,
}

/// The trace's copy of a file, whose content is what its name says.
///
/// # Errors
/// It is missing, or another one.
pub fn copy(trace: &Path, id: FileId) -> Result<File> {
    let (outcome, errno, descriptor) = ask(Request::Copy(id.0))?;
    let folder = trace.join("files");
    let path = folder.join(id.to_string());
    Err(Failure::setup(match (outcome, descriptor) {
        (Outcome::Here | Outcome::Checked, Some(descriptor)) => return Ok(descriptor.into()),
        (Outcome::Here | Outcome::Checked, None) => return Err(no_descriptor()),
        (Outcome::Missing, _) => Error::NoFile { path: folder, id },
        (Outcome::Damaged, _) => Error::Damaged {
            path,
            what: "its content is not what its name says",
        },
        (Outcome::Unreadable, _) => Error::Read {
            path,
            source: io::Error::from_raw_os_error(errno),
        },
    }))
}

/// Kept translations with a key, and whether somebody has checked them, if there are some.
pub fn translations(key: u128) -> Option<(File, bool)> {
    let (outcome, _, descriptor) = ask(Request::Translations(key)).ok()?;
    Some((descriptor?.into(), outcome == Outcome::Checked))
}

/// A file about this process, if it can be had.
pub fn proc_file(which: Proc) -> Option<File> {
    let request = match which {
        Proc::Pagemap => Request::Pagemap,
        Proc::Maps => Request::Maps,
    };
    let (_, _, descriptor) = ask(request).ok()?;
    descriptor.map(File::from)
}

/// Tells the supervisor a checksum.
///
/// # Errors
/// It is gone.
pub fn report(sum: Sum) -> Result<()> {
    send(client()?.socket, Request::Sum(sum), 0)
}

fn client() -> Result<&'static Client> {
    CLIENT
        .get()
        .ok_or_else(|| Failure::internal("a replay asks its supervisor"))
}

fn ask(request: Request) -> Result<(Outcome, i32, Option<OwnedFd>)> {
    let client = client()?;
    let _alone = lock(&client.lock)?;
    let number = unique();
    send(client.socket, request, number)?;
    loop {
        let mut bytes = [0; ANSWER];
        let message = socket::receive(client.socket, &mut bytes).map_err(|e| cannot_ask(&e))?;
        if message.len == 0 {
            return Err(gone());
        }
        // What somebody asked for who is dead comes first, and is closed again.
        if message.len == ANSWER
            && let Some((outcome, errno, to)) = decode_answer(&bytes)
            && to == number
        {
            return Ok((outcome, errno, message.descriptor));
        }
    }
}

fn send(socket: i32, request: Request, number: u64) -> Result<()> {
    let bytes = request.encode(number);
    loop {
        // SAFETY: the buffer outlives the call. Of SIGPIPE a replay does not die.
        let n = unsafe { libc::write(socket, bytes.as_ptr().cast(), bytes.len()) };
        let e = io::Error::last_os_error();
        match n {
            0.. => return Ok(()),
            _ if e.kind() == io::ErrorKind::Interrupted => {}
            _ if e.raw_os_error() == Some(libc::EPIPE) => return Err(gone()),
            _ => return Err(cannot_ask(&e)),
        }
    }
}

/// A number that no other request has, by chance.
fn unique() -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: fills the array.
    unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    u64::from_le_bytes(bytes)
}

/// Gives the lock back when dropped.
struct Alone<'a>(&'a File);

fn lock(file: &File) -> Result<Alone<'_>> {
    while let Err(e) = set(file, libc::F_WRLCK) {
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(cannot_ask(&e));
        }
    }
    Ok(Alone(file))
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        // What the kernel refuses here it frees when the process ends.
        let _ = set(self.0, libc::F_UNLCK);
    }
}

fn set(file: &File, kind: i32) -> io::Result<()> {
    // SAFETY: plain numbers, of which all zeros are a value: the whole file.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as i16;
    // SAFETY: the structure outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLKW, &raw const lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn gone() -> Failure {
    Failure::setup("the process that watches the replay is gone; was it killed?")
}

fn no_descriptor() -> Failure {
    Failure::setup(
        "no descriptor is free for a file of the recording: raise the limit on open files (`ulimit -n`)",
    )
}

fn cannot_ask(e: &io::Error) -> Failure {
    match e.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => no_descriptor(),
        _ => Failure::setup(format!("the replay cannot ask for its files: {e}")),
    }
}
