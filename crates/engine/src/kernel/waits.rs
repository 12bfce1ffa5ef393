//! Whether a call sleeps, and whether it waits with a limit, by the descriptors that it moves bytes
//! between.

use relive_kabi::Transfer;
use rustix::fs::OFlags;
use rustix::net::sockopt::{Timeout, socket_timeout};

use crate::call::Call;
use crate::descriptor;
use crate::input::descriptors::is_regular;
use crate::task::Task;

/// The place where a call says that it is not to wait.
#[derive(Clone, Copy)]
enum AtOnce {
    /// The status flags of the descriptor in the first argument.
    Status,
    /// These, or the flags of a message in this argument.
    Message(usize),
    /// A time limit of zero in this argument.
    Limit(usize),
}

/// The table of such calls. Each writes nothing where it finds nothing: others have a turn then before the call is over. So poll
/// is not among them.
const AT_ONCE: &[(i64, AtOnce)] = &[
    (libc::SYS_read, AtOnce::Status),
    (libc::SYS_readv, AtOnce::Status),
    (libc::SYS_write, AtOnce::Status),
    (libc::SYS_writev, AtOnce::Status),
    (libc::SYS_accept, AtOnce::Status),
    (libc::SYS_accept4, AtOnce::Status),
    (libc::SYS_connect, AtOnce::Status),
    (libc::SYS_sendto, AtOnce::Message(3)),
    (libc::SYS_recvfrom, AtOnce::Message(3)),
    (libc::SYS_sendmsg, AtOnce::Message(2)),
    (libc::SYS_recvmsg, AtOnce::Message(2)),
    (libc::SYS_sendmmsg, AtOnce::Message(3)),
    (libc::SYS_recvmmsg, AtOnce::Message(3)),
    (libc::SYS_epoll_wait, AtOnce::Limit(3)),
    (libc::SYS_epoll_pwait, AtOnce::Limit(3)),
];

impl AtOnce {
    fn of(call: &Call) -> Option<Self> {
        let mut rows = AT_ONCE.iter();
        rows.find(|(nr, _)| *nr == i64::from(call.nr))
            .map(|(_, place)| *place)
    }

    /// Whether the call says so. The descriptor's flags are asked for each time: other processes may change them.
    fn is_said(self, call: &Call) -> bool {
        let flags = || descriptor::open_flags(call.args[0] as i32);
        let status = || flags().is_some_and(|flags| flags.contains(OFlags::NONBLOCK));
        match self {
            Self::Status => status(),
            Self::Message(flags) => call.args[flags] as i32 & libc::MSG_DONTWAIT != 0 || status(),
            Self::Limit(limit) => call.args[limit] as i32 == 0,
        }
    }
}

/// Whether a call that was made in the thread's turn, as it does not wait, found nothing: then its turn ends,
/// or a thread that asks again and again would keep it.
pub fn found_nothing(call: &Call, result: i64) -> bool {
    match AtOnce::of(call) {
        Some(AtOnce::Limit(_)) => result == 0,
        Some(_) => result == -i64::from(libc::EAGAIN),
        None => false,
    }
}

/// Whether a call that may sleep by its row may sleep with these arguments. A call that only moves
/// bytes to and from regular files does not, nor does one that says so, and need not cost a switch.
pub fn may_sleep(task: &Task, call: &Call) -> bool {
    if task.log.keeps_baton {
        return false;
    }
    if !task.mode().others_see(task) {
        return true;
    }
    let mut ends = ends(call).map(|(fd, _)| is_regular(task, fd));
    let regular = ends
        .next()
        .is_some_and(|first| first && ends.all(|regular| regular));
    // That is remembered, and flags are asked for. Where threads run at the same time, another one may replace the descriptor
    // meanwhile.
    !regular
        && (task.traits().together || AtOnce::of(call).is_none_or(|place| !place.is_said(call)))
}

/// The descriptors that a call reads from or writes to, each with the socket option that limits how
/// long the call waits there.
fn ends(call: &Call) -> impl Iterator<Item = (i32, Timeout)> {
    let end = |column: Transfer, option: Timeout| Some((call.arg(column.fd()?) as i32, option));
    let input = call.row.and_then(|r| end(r.input, Timeout::Recv));
    let output = call.row.and_then(|r| end(r.output, Timeout::Send));
    input.into_iter().chain(output)
}

/// Whether a call waits on a socket for as long as SO_RCVTIMEO or SO_SNDTIMEO allows: then it is
/// never made again (signal(7)).
pub fn times_out(call: &Call) -> bool {
    ends(call).any(|(fd, option)| limits_waits(fd, option))
}

/// Whether the option of a socket limits how long calls wait.
fn limits_waits(fd: i32, option: Timeout) -> bool {
    // Fails on a file that is no socket.
    let limit = descriptor::borrow(fd).and_then(|fd| socket_timeout(fd, option).ok());
    limit.flatten().is_some()
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use libc::{
        SYS_epoll_wait, SYS_nanosleep, SYS_poll, SYS_read, SYS_recvfrom, SYS_sendfile, SYS_sendto,
        SYS_splice,
    };
    use relive_host::sys::INTERRUPTED;

    use super::*;
    use crate::kernel::enter::interrupted;
    use crate::kernel::resume::ERESTART;
    use crate::testing::Guest;

    const CLOSED: u64 = i32::MAX as u64;

    fn sleeps(guest: &mut Guest, nr: i64, args: &[u64]) -> bool {
        let call = guest.call(nr, args);
        assert!(call.blocks(), "{call}");
        may_sleep(&guest.task, &call)
    }

    fn pipe() -> (OwnedFd, OwnedFd) {
        rustix::pipe::pipe().expect("there are descriptors")
    }

    #[test]
    fn only_what_moves_bytes_between_regular_files_needs_no_switch() {
        let mut guest = Guest::new();
        guest.mode().has_other_threads();
        let (file, (reader, writer)) = (tempfile::tempfile().expect("a file"), pipe());
        let [file, reader, writer] =
            [file.as_raw_fd(), reader.as_raw_fd(), writer.as_raw_fd()].map(|fd| fd as u64);
        for (nr, args, expected) in [
            (SYS_read, [file, 0, 0], false),
            (SYS_read, [reader, 0, 0], true),
            (SYS_read, [CLOSED, 0, 0], true),
            (SYS_sendfile, [file, file, 0], false),
            (SYS_sendfile, [writer, file, 0], true),
            (SYS_splice, [reader, 0, file], true),
            (SYS_splice, [file, 0, writer], true),
            (SYS_nanosleep, [0; 3], true),
        ] {
            assert_eq!(sleeps(&mut guest, nr, &args), expected, "{nr} {args:?}");
        }
    }

    #[test]
    fn what_says_that_it_does_not_wait_needs_no_switch() {
        let mut guest = Guest::new();
        guest.mode().has_other_threads();
        let (reader, _writer) = pipe();
        let fd = reader.as_raw_fd() as u64;
        let dont = libc::MSG_DONTWAIT as u64;
        for (nr, args, expected) in [
            (SYS_recvfrom, [fd, 0, 0, 0], true),
            (SYS_recvfrom, [fd, 0, 0, dont], false),
            (SYS_sendto, [fd, 0, 0, dont], false),
            (SYS_poll, [0, 0, 0, 0], true),
            (SYS_epoll_wait, [fd, 0, 0, 0], false),
            (SYS_epoll_wait, [fd, 0, 0, 7], true),
        ] {
            assert_eq!(sleeps(&mut guest, nr, &args), expected, "{nr} {args:?}");
        }
        rustix::io::ioctl_fionbio(&reader, true).expect("a pipe");
        for nr in [SYS_read, SYS_recvfrom] {
            assert!(!sleeps(&mut guest, nr, &[fd]), "{nr}");
        }
        rustix::io::ioctl_fionbio(&reader, false).expect("a pipe");
        assert!(sleeps(&mut guest, SYS_read, &[fd]), "asked for each time");
    }

    #[test]
    fn a_turn_ends_where_nothing_was_found() {
        let mut guest = Guest::new();
        let again = -i64::from(libc::EAGAIN);
        for (nr, result, expected) in [
            (SYS_read, again, true),
            (SYS_read, 0, false),
            (SYS_recvfrom, 1, false),
            (SYS_epoll_wait, 0, true),
            (SYS_epoll_wait, 1, false),
            (SYS_poll, 0, false),
            (SYS_nanosleep, 0, false),
        ] {
            let call = guest.call(nr, &[]);
            assert_eq!(found_nothing(&call, result), expected, "{call} {result}");
        }
    }

    #[test]
    fn nobody_needs_a_switch_where_none_is_possible_or_seen() {
        let mut guest = Guest::new();
        let file = tempfile::tempfile().expect("a file");
        let args = [file.as_raw_fd() as u64];
        assert!(sleeps(&mut guest, SYS_read, &args), "it costs nothing");
        guest.mode().has_other_threads();
        guest.task.log.keeps_baton = true;
        assert!(!sleeps(&mut guest, SYS_nanosleep, &args));
    }

    #[test]
    fn a_call_with_a_limit_of_the_socket_is_not_made_again() {
        let mut guest = Guest::new();
        let (limited, other) = UnixStream::pair().expect("there are descriptors");
        let limit = limited.set_read_timeout(Some(Duration::from_secs(100)));
        limit.expect("it is a socket");
        let (reader, _writer) = pipe();
        let eintr = -i64::from(libc::EINTR);
        for (nr, fd, then) in [
            (SYS_recvfrom, limited.as_raw_fd(), eintr),
            (SYS_read, limited.as_raw_fd(), eintr),
            (SYS_sendto, limited.as_raw_fd(), ERESTART),
            (SYS_recvfrom, other.as_raw_fd(), ERESTART),
            (SYS_read, reader.as_raw_fd(), ERESTART),
            (SYS_read, CLOSED as i32, ERESTART),
        ] {
            let call = guest.call(nr, &[fd as u64]);
            let result = interrupted(&guest.task, &call, INTERRUPTED as i64);
            assert_eq!(result, then, "{call}");
        }
    }
}
