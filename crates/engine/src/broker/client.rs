//! The replay's side. Nothing here opens anything.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, OnceLock};

use relive_trace::{Error, FileId};
use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use rustix::rand::{GetRandomFlags, getrandom};

use super::socket;
use super::wire::{ANSWER, BrokerOutcome, BrokerRequest, Sum, VARIABLE, decode_answer};
use crate::descriptor_limit;
use crate::failure::{Failure, Result};
use crate::messages::{self, MOST};

struct Client {
    /// Copies that are open already; a forked process has them too.
    copies: Mutex<BTreeMap<FileId, File>>,
    /// How many may be.
    most: usize,
    socket: OwnedFd,
    /// Held by the thread that asks: the lock behind it is the process's.
    asks: Mutex<()>,
    /// Its holder may ask. A lock of the kernel's, because the kernel frees that of a dead process.
    lock: File,
}

/// The broker's client. Process-wide: a confined process has one way to ask, for all that is below and
/// above the machine.
static CLIENT: OnceLock<Client> = OnceLock::new();

/// The descriptor of the socket, as the environment names it.
pub fn requested() -> Option<i32> {
    std::env::var(VARIABLE).ok()?.parse().ok()
}

/// Takes the socket over, before the process is confined.
///
/// # Errors
/// No descriptor is free, or the process was not started as a replay.
pub fn attach() -> Result<()> {
    let socket = requested()
        .ok_or_else(|| Failure::setup("this process is a part of Relive: use `relive replay`"))?;
    let lock = crate::memfd::with(&[]).map_err(|e| cannot_ask(&e))?;
    let client = Client {
        copies: Mutex::default(),
        asks: Mutex::new(()),
        most: most(),
        // SAFETY: the starter has left it open for this process, and nothing else has the number.
        socket: unsafe { OwnedFd::from_raw_fd(socket) },
        lock,
    };
    if CLIENT.set(client).is_err() {
        return Err(Failure::internal("a replay starts once"));
    }
    take_known()
}

/// How many copies may stay open: a part of the descriptors that there can be, and no more than
/// come with one answer.
fn most() -> usize {
    let soft = descriptor_limit::limit().map_or(0, |(soft, _)| soft);
    (soft / 8).min(MOST as u64) as usize
}

/// Takes the copies that need not be asked for one by one.
fn take_known() -> Result<()> {
    let client = client()?;
    let answer = ask(BrokerRequest::Known(client.most as u32))?;
    let mut copies = client
        .copies
        .lock()
        .expect("no thread panics: panics abort");
    for (id, file) in answer.names.chunks_exact(32).zip(answer.descriptors) {
        copies.insert(FileId(id.try_into().unwrap_or_default()), file.into());
    }
    Ok(())
}

/// Files about this process.
#[derive(Clone, Copy, Debug)]
pub enum Proc {
    /// Which of its pages are there.
    Pagemap,
    /// Its maps.
    Maps,
    /// Its memory, to be read and written.
    Memory,
}

/// The trace's copy of the file with this content.
///
/// # Errors
/// It is missing, or has other content.
pub fn copy(trace: &Path, id: FileId) -> Result<File> {
    let client = client()?;
    let mut open = client
        .copies
        .lock()
        .expect("no thread panics: panics abort");
    let again = |file: &File| file.try_clone().map_err(|e| cannot_ask(&e));
    if let Some(file) = open.get(&id) {
        return again(file);
    }
    let file = ask_copy(trace, id)?;
    if open.len() < client.most {
        open.insert(id, again(&file)?);
    }
    Ok(file)
}

fn ask_copy(trace: &Path, id: FileId) -> Result<File> {
    let BrokerAnswer {
        outcome,
        errno,
        mut descriptors,
        ..
    } = ask(BrokerRequest::Copy(id.0))?;
    let descriptor = descriptors.pop();
    let folder = trace.join("files");
    let path = folder.join(id.to_string());
    Err(Failure::setup(match (outcome, descriptor) {
        (BrokerOutcome::Here | BrokerOutcome::Checked, Some(descriptor)) => {
            return Ok(descriptor.into());
        }
        (BrokerOutcome::Here | BrokerOutcome::Checked, None) => return Err(no_descriptor()),
        (BrokerOutcome::Missing, _) => Error::NoFile { path: folder, id },
        (BrokerOutcome::Damaged, _) => Error::Damaged {
            path,
            what: "its content is not the one that its name stands for",
        },
        (BrokerOutcome::Unreadable, _) => Error::Read {
            path,
            source: io::Error::from_raw_os_error(errno),
        },
    }))
}

/// The kept translations with a key, if there are some, and whether an earlier run has checked
/// them.
pub fn translations(key: u128) -> Option<(File, bool)> {
    let mut answer = ask(BrokerRequest::Translations(key)).ok()?;
    let file = answer.descriptors.pop()?.into();
    Some((file, answer.outcome == BrokerOutcome::Checked))
}

/// A file about this process, if it can be had.
pub fn proc_file(which: Proc) -> Option<File> {
    let request = match which {
        Proc::Pagemap => BrokerRequest::Pagemap,
        Proc::Maps => BrokerRequest::Maps,
        Proc::Memory => BrokerRequest::Memory,
    };
    ask(request).ok()?.descriptors.pop().map(File::from)
}

/// Sends a checksum to the supervisor.
///
/// # Errors
/// It is gone.
pub fn report(sum: Sum) -> Result<()> {
    send(&client()?.socket, BrokerRequest::Sum(sum), 0)
}

/// Looks whether the supervisor is there: its end of the socket is open. What lies there stays for whom it is meant for.
///
/// # Errors
/// It is gone.
pub fn need_supervisor() -> Result<()> {
    let Some(client) = CLIENT.get() else {
        return Ok(());
    };
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match messages::receive(client.socket.as_fd(), &mut [0], flags) {
        Ok(message) if message.len == 0 => Err(gone()),
        Err(e) if e.raw_os_error() == Some(libc::ECONNRESET) => Err(gone()),
        _ => Ok(()),
    }
}

fn client() -> Result<&'static Client> {
    CLIENT
        .get()
        .ok_or_else(|| Failure::internal("a replay asks its supervisor"))
}

struct BrokerAnswer {
    outcome: BrokerOutcome,
    errno: i32,
    /// Content of the descriptors, where there may be several.
    names: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

fn ask(request: BrokerRequest) -> Result<BrokerAnswer> {
    client()?.ask(request, unique())
}

impl Client {
    fn ask(&self, request: BrokerRequest, number: u64) -> Result<BrokerAnswer> {
        let _first = self.asks.lock().expect("no thread panics: panics abort");
        let _alone = lock(&self.lock)?;
        send(&self.socket, request, number)?;
        loop {
            let mut bytes = [0; ANSWER + 32 * MOST];
            let message = socket::receive(&self.socket, &mut bytes).map_err(|e| cannot_ask(&e))?;
            if message.len == 0 {
                return Err(gone());
            }
            // The answers to requests of dead processes come first; their descriptors are closed.
            let whole = bytes.get(..message.len);
            let Some((head, names)) = whole.and_then(|b| b.split_at_checked(ANSWER)) else {
                continue;
            };
            if let Some((outcome, errno, to)) = decode_answer(head)
                && to == number
            {
                return Ok(BrokerAnswer {
                    outcome,
                    errno,
                    names: names.to_vec(),
                    descriptors: message.descriptors,
                });
            }
        }
    }
}

fn send(socket: &OwnedFd, request: BrokerRequest, number: u64) -> Result<()> {
    let bytes = request.encode(number);
    loop {
        // A replay ignores SIGPIPE.
        match rustix::io::write(socket, &bytes) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::PIPE) => return Err(gone()),
            Err(e) => return Err(cannot_ask(&e.into())),
        }
    }
}

/// A number that no other request has, by chance.
fn unique() -> u64 {
    let mut bytes = [0; 8];
    // Eight bytes come at once, even with signals; without getrandom(2) there is no replay either.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    u64::from_le_bytes(bytes)
}

/// Gives the lock back when dropped.
struct Alone<'a>(&'a File);

fn lock(file: &File) -> Result<Alone<'_>> {
    loop {
        match fcntl_lock(file, FlockOperation::LockExclusive) {
            Ok(()) => return Ok(Alone(file)),
            Err(Errno::INTR) => {}
            Err(e) => return Err(cannot_ask(&e.into())),
        }
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        // The kernel frees it at the end of the process in any case.
        let _ = fcntl_lock(self.0, FlockOperation::Unlock);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::wire::{REQUEST, encode_answer};
    use rustix::process::{Pid, WaitOptions, getpid, waitpid};
    use std::os::fd::{AsFd, BorrowedFd};

    fn client(socket: OwnedFd) -> Client {
        Client {
            asks: Mutex::new(()),
            copies: Mutex::default(),
            most: 0,
            socket,
            lock: crate::memfd::with(&[]).expect("a memory file"),
        }
    }

    #[test]
    fn an_answer_to_the_dead_is_thrown_away() {
        let (server, end) = socket::pair().expect("a socket");
        let client = client(end);
        let answer = |errno, number, descriptors: &[BorrowedFd<'_>]| {
            let bytes = encode_answer(BrokerOutcome::Unreadable, errno, number);
            socket::send(&server, &bytes, descriptors).expect("there is room");
        };
        answer(1, 7, &[std::io::stderr().as_fd()]);
        answer(2, 8, &[]);
        answer(3, 9, &[]);
        let got = client.ask(BrokerRequest::Maps, 9).expect("an answer");
        assert_eq!(got.errno, 3);
        assert!(got.descriptors.is_empty(), "that was the dead one's");
        let mut bytes = [0; REQUEST];
        let asked = socket::receive(&server, &mut bytes).expect("a request");
        assert_eq!(asked.sender, Some(getpid()));
        drop(server);
        assert!(
            client.ask(BrokerRequest::Maps, 10).is_err(),
            "the server is gone"
        );
    }

    #[test]
    fn a_dead_holder_loses_the_lock() {
        let file = crate::memfd::with(&[]).expect("a memory file");
        // SAFETY: the child makes plain calls and ends.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let taken = fcntl_lock(&file, FlockOperation::LockExclusive).is_ok();
            relive_host::sys::exit_group(i32::from(!taken));
        }
        let status = waitpid(Pid::from_raw(pid), WaitOptions::empty()).expect("the child ends");
        let code = status.and_then(|(_, status)| status.exit_status());
        assert_eq!(code, Some(0));
        drop(lock(&file).expect("it is free again"));
    }
}
