//! The table of streams behind calls that change descriptors, and close_range(2) around the host's own.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use libc::{
    SYS_close, SYS_close_range, SYS_dup, SYS_dup3, SYS_open, SYS_pidfd_getfd, SYS_pipe2,
    SYS_recvmsg, SYS_socket,
};
use relive_host::{GuestAddr, copy};
use rustix::io::FdFlags;

use super::*;
use crate::descriptor::flags;
use crate::descriptor_kinds::UNKNOWN;
use crate::streams::{ERR, OUT};
use crate::testing::{Guest, machine};

const AT: u64 = 0x1000_7000_0000;
const EBADF: i64 = -(libc::EBADF as i64);
/// Of some kind that is remembered.
const KNOWN: u8 = 3;
/// Numbers of descriptors that no test has open.
const A: i32 = 700;
const B: i32 = 701;

fn guest() -> Guest {
    let mut guest = Guest::new();
    guest.map(AT, 0x1000);
    guest.is_recorded();
    guest
}

impl Guest {
    fn leads(&mut self, fd: i32, stream: u8) {
        self.task.process.state().streams.leads(fd, stream);
        let kinds = &machine().descriptor_kinds;
        let kind = kinds.of(fd).expect("its number is a low one");
        kind.store(KNOWN, Ordering::Relaxed);
    }

    /// A call has been made.
    fn made(&mut self, nr: i64, args: &[u64], result: i64) {
        let call = self.call(nr, args);
        after(&self.task, &call, result);
    }

    /// The stream of a descriptor, and whether its kind is remembered.
    fn of(&self, fd: i32) -> (u8, bool) {
        let kind = machine().descriptor_kinds.of(fd);
        let known = kind.is_some_and(|kind| kind.load(Ordering::Relaxed) != UNKNOWN);
        (self.task.process.state().streams.of(fd), known)
    }
}

#[test]
fn a_copy_leads_where_its_original_does() {
    let mut guest = guest();
    guest.made(SYS_dup, &[2], A.into());
    assert_eq!(guest.of(A), (ERR, false));
    guest.leads(A, ERR);
    guest.made(SYS_dup3, &[1, A as u64, 0], EBADF);
    assert_eq!(guest.of(A), (ERR, true), "a failure changes nothing");
    guest.made(SYS_dup3, &[B as u64, A as u64, 0], A.into());
    assert_eq!(guest.of(A), (0, false), "the original is no stream");
}

#[test]
fn a_closed_descriptor_is_no_stream_whatever_close_says() {
    let mut guest = guest();
    for result in [0, -i64::from(libc::EIO)] {
        guest.leads(A, OUT);
        guest.made(SYS_close, &[A as u64], result);
        assert_eq!(guest.of(A), (0, false));
    }
}

#[test]
fn a_new_object_is_no_stream() {
    let mut guest = guest();
    guest.leads(A, OUT);
    guest.made(SYS_socket, &[1, 1, 0], A.into());
    assert_eq!(guest.of(A), (0, false));
    guest.leads(A, OUT);
    guest.leads(B, ERR);
    let pair = [A.to_le_bytes(), B.to_le_bytes()];
    copy::write(GuestAddr(AT), pair.as_flattened()).expect("it is mapped");
    guest.made(SYS_pipe2, &[AT, 0], -i64::from(libc::EMFILE));
    assert_eq!((guest.of(A), guest.of(B)), ((OUT, true), (ERR, true)));
    guest.made(SYS_pipe2, &[AT, 0], 0);
    assert_eq!((guest.of(A), guest.of(B)), ((0, false), (0, false)));
}

#[test]
fn a_file_that_names_a_stream_leads_there_if_it_is_written() {
    let mut guest = guest();
    let path = b"/dev/stderr\0";
    copy::write(GuestAddr(AT), path).expect("it is mapped");
    guest.made(SYS_open, &[AT, libc::O_WRONLY as u64], A.into());
    assert_eq!(guest.of(A), (ERR, false));
    guest.made(SYS_open, &[AT, libc::O_RDONLY as u64], A.into());
    assert_eq!(guest.of(A), (0, false));
}

#[test]
fn a_descriptor_from_elsewhere_is_no_stream_unless_its_file_is_one() {
    let mut guest = guest();
    guest.leads(A, OUT);
    guest.made(SYS_pidfd_getfd, &[5, 1, 0], A.into());
    assert_eq!(guest.of(A), (0, false));
    // A message whose control data begin behind it, and bring two.
    guest.leads(A, OUT);
    guest.leads(B, OUT);
    let (control, len) = (AT + 0x100, 24u64);
    let kind = [libc::SOL_SOCKET, libc::SCM_RIGHTS, A, B].map(i32::to_le_bytes);
    let data = [&len.to_le_bytes(), kind.as_flattened()].concat();
    let header = [0, 0, 0, 0, control, len, 0].map(u64::to_le_bytes);
    copy::write(GuestAddr(AT), header.as_flattened()).expect("it is mapped");
    copy::write(GuestAddr(control), &data).expect("it is mapped");
    guest.made(SYS_recvmsg, &[5, AT, 0], 1);
    assert_eq!((guest.of(A), guest.of(B)), ((0, false), (0, false)));
}

#[test]
fn a_closed_range_has_no_streams_unless_it_is_closed_later() {
    let mut guest = guest();
    let args = |flags: u32| [2, A as u64, flags.into()];
    guest.leads(A, OUT);
    guest.made(SYS_close_range, &args(libc::CLOSE_RANGE_CLOEXEC), 0);
    assert_eq!(guest.of(A), (OUT, false));
    guest.made(SYS_close_range, &args(0), -i64::from(libc::EINVAL));
    assert_eq!((guest.of(2).0, guest.of(A).0), (ERR, OUT));
    guest.made(SYS_close_range, &args(0), 0);
    let left = [1, 2, A].map(|fd| guest.of(fd).0);
    assert_eq!(left, [OUT, 0, 0]);
}

#[test]
fn without_a_trace_no_descriptor_is_followed() {
    let mut guest = Guest::new();
    guest.leads(A, OUT);
    guest.made(SYS_close, &[A as u64], 0);
    assert_eq!(guest.of(A), (OUT, true));
}

#[test]
fn another_process_with_the_same_table_is_seen_by_the_file() {
    let mut guest = guest();
    let identify = |fd: i32| status(fd).map(|st| (st.st_dev, st.st_ino));
    let file = tempfile::tempfile().expect("a file");
    let (lead, copy) = (file.as_raw_fd(), file.try_clone().expect("a descriptor"));
    guest.task.process.state().streams.close_range(0, u32::MAX);
    guest.leads(lead, OUT);
    let find = |guest: &Guest| {
        let streams = &guest.task.process.state().streams;
        streams.find(copy.as_raw_fd(), identify)
    };
    assert_eq!(find(&guest), 0);
    share(&guest.task);
    assert_eq!(find(&guest), OUT);
    assert_eq!(guest.of(lead), (OUT, false), "no kind is remembered");
}

/// Three descriptors in a row; the one in the middle is the host's.
fn row(guest: &mut Guest) -> [i32; 3] {
    let file = tempfile::tempfile().expect("a file");
    let first = 400;
    let row = [first, first + 1, first + 2];
    for fd in row {
        // SAFETY: no other test has descriptors there.
        let made = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, fd) };
        assert_eq!(made, fd);
    }
    guest.has_retained(row[1]);
    row
}

fn open(row: [i32; 3]) -> [bool; 3] {
    row.map(|fd| flags(fd).is_some())
}

fn close(row: [i32; 3]) {
    for fd in row.into_iter().filter(|&fd| flags(fd).is_some()) {
        // SAFETY: this test has made it.
        drop(unsafe { OwnedFd::from_raw_fd(fd) });
    }
}

#[test]
fn a_range_is_closed_around_the_hosts_descriptors() {
    let mut guest = Guest::new();
    for (from, to, left) in [
        (0, 2, [false, true, false]),
        (0, 1, [false, true, true]),
        (1, 2, [true, true, false]),
        (1, 1, [true; 3]),
    ] {
        let fds = row(&mut guest);
        let args = [fds[from] as u64, fds[to] as u64];
        assert_eq!(guest.live(SYS_close_range, &args).ok(), Some(0));
        let found = open(fds);
        close(fds);
        assert_eq!(found, left, "{from} to {to}");
    }
    let own: Vec<i32> = own(&guest.task).collect();
    assert!(own.is_sorted() && own.contains(&machine().memory().translator.fd()));
}

#[test]
fn a_range_that_the_kernel_refuses_or_a_tape_tells_stays_open() {
    let mut guest = Guest::new();
    let fds = row(&mut guest);
    let [first, own, last] = fds.map(|fd| fd as u64);
    let results = [
        guest.live(SYS_close_range, &[own, own, 1]),
        guest.live(SYS_close_range, &[last, first]),
        guest.live(SYS_close_range, &[first, last, 1]),
        guest.told(SYS_close_range, &[first, last], 0, &[]),
    ];
    let found = open(fds);
    let later = guest.live(
        SYS_close_range,
        &[first, last, libc::CLOSE_RANGE_CLOEXEC.into()],
    );
    let closed_later = fds.map(|fd| flags(fd) == Some(FdFlags::CLOEXEC));
    close(fds);
    let einval = -i64::from(libc::EINVAL);
    let expected = [einval, einval, einval, 0].map(Some);
    assert_eq!(results.map(|r| r.ok()), expected);
    assert_eq!(found, [true; 3]);
    assert_eq!((later.ok(), closed_later), (Some(0), [true, false, true]));
}
