//! Messages that appear only on a terminal.

use std::fs::File;
use std::io::Read;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::sandbox::{Sandbox, wait};

/// A terminal: the end that a person looks at, and the one that programs get.
fn terminal() -> (File, OwnedFd) {
    let (mut person, mut program) = (0, 0);
    let null = std::ptr::null_mut();
    // SAFETY: fills the two numbers; the null pointers ask for no name and for defaults.
    let made = unsafe {
        libc::openpty(
            &raw mut person,
            &raw mut program,
            null,
            null.cast(),
            null.cast(),
        )
    };
    assert_eq!(made, 0);
    // SAFETY: fresh descriptors that nobody else owns.
    unsafe { (File::from_raw_fd(person), OwnedFd::from_raw_fd(program)) }
}

/// The text that `relive` with these words writes to a terminal as its standard error.
fn said(sandbox: &Sandbox, words: &[&str]) -> String {
    let (mut person, program) = terminal();
    let mut command = sandbox.command(words);
    // Without a kind of terminal nothing is drawn.
    command
        .env("TERM", "xterm")
        .stdout(std::process::Stdio::null())
        .stderr(program);
    let mut child = command.spawn().unwrap();
    // The last copy of the program's end must be closed for the reader to see an end.
    drop(command);
    let reader = std::thread::spawn(move || {
        let (mut text, mut part) = (Vec::new(), [0; 1024]);
        // The kernel says EIO when the other end is closed.
        while let Ok(n @ 1..) = person.read(&mut part) {
            text.extend_from_slice(&part[..n]);
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    wait(&mut child);
    reader.join().unwrap()
}

#[test]
fn a_recording_is_announced_in_one_line() {
    let sandbox = Sandbox::new();
    assert_eq!(
        said(&sandbox, &["record", "sh", "-c", "exit 7"]),
        "relive: recorded as sh-0 (exit status 7); next: relive replay\r\n"
    );
    assert_eq!(
        said(&sandbox, &["record", "-o", "x", "true"]),
        "relive: recorded as x (exit status 0); next: relive replay x\r\n"
    );
    assert_eq!(said(&sandbox, &["replay"]), "");
    assert_eq!(said(&sandbox, &["run", "true"]), "");
}

#[test]
fn a_hunt_shows_its_progress() {
    let sandbox = Sandbox::new();
    // Longer than the time between two drawings.
    let hunt = ["hunt", "-n", "3", "sleep", "0.3"];
    assert!(said(&sandbox, &hunt).contains(" of at most 3"));
}
