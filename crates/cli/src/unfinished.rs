//! Files and folders that a command has begun and not finished: they go if a signal ends the command. Must never remove
//! what is finished, nor anything in a process that the command has made.

use std::fs;
use std::io::{PipeReader, Read};
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use crate::interrupt;

const ENDINGS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];
/// Tries to remove a folder, into which the command goes on to write meanwhile.
const TRIES: u32 = 20;

/// What is unfinished. Process-wide: a signal ends the process.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
/// Where the handler tells the thread that removes. Process-wide: the handler is.
static TOLD: AtomicI32 = AtomicI32::new(-1);
/// The process that removes. Process-wide: the handler is, in processes that are forked too.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Something unfinished; finished, or removed by the command itself, when this goes.
pub struct Unfinished(PathBuf);

impl Unfinished {
    /// Makes a file or folder, the path of which is `path`, and which is unfinished from then on: no signal comes in between.
    ///
    /// # Errors
    /// It is not made.
    pub fn begin<T, E>(
        make: impl FnOnce() -> Result<T, E>,
        path: impl FnOnce(&T) -> &Path,
    ) -> Result<(T, Self), E> {
        /// Process-wide: so is the handler.
        static ONCE: Once = Once::new();
        ONCE.call_once(watch);
        all(|unfinished| {
            let made = make()?;
            let path = path(&made);
            let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
            unfinished.push(path.clone());
            Ok((made, Self(path)))
        })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        all(|unfinished| unfinished.retain(|path| *path != self.0));
    }
}

fn all<T>(deed: impl FnOnce(&mut Vec<PathBuf>) -> T) -> T {
    deed(&mut UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Signals go to a thread from here on. Without a pipe or a thread they end the process as ever.
fn watch() {
    let Ok((reader, writer)) = std::io::pipe() else {
        return;
    };
    let remover = std::thread::Builder::new().name("remover".to_owned());
    if remover.spawn(|| remove(reader)).is_err() {
        return;
    }
    OWNER.store(std::process::id(), Ordering::Relaxed);
    TOLD.store(writer.into_raw_fd(), Ordering::Relaxed);
    for signal in ENDINGS {
        // SAFETY: the handler makes but calls that signal-safety(7) allows.
        unsafe { interrupt::handle(signal, tell) };
    }
}

extern "C" fn tell(signal: i32) {
    let byte = signal as u8;
    // SAFETY: the calls are allowed in handlers, and the byte is there for the call.
    unsafe {
        if OWNER.load(Ordering::Relaxed) == libc::getpid() as u32 {
            libc::write(TOLD.load(Ordering::Relaxed), (&raw const byte).cast(), 1);
        } else {
            end(signal);
        }
    }
}

/// Ends the process by the signal, as it would have without a handler: at once, or behind the handler.
///
/// # Safety
/// None but what signal-safety(7) allows: a handler may call it.
unsafe fn end(signal: i32) {
    // SAFETY: both calls are allowed in handlers, and take no pointers.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
}

/// Waits for a signal, removes, and ends the process by it.
fn remove(mut told: PipeReader) {
    let mut signal = [0];
    if told.read_exact(&mut signal).is_err() {
        return;
    }
    all(|unfinished| {
        for path in unfinished.drain(..) {
            let mut tries = 0..TRIES;
            while path.symlink_metadata().is_ok() && tries.next().is_some() {
                let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
            }
        }
        // With the list held: nothing else begins.
        // SAFETY: this is no handler.
        unsafe { end(i32::from(signal[0])) };
    });
}
