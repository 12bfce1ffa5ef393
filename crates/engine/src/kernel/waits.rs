//! Whether a call sleeps, and whether it waits with a limit, by the descriptors that it moves bytes
//! between.

use relive_kabi::Transfer;

use crate::call::Call;
use crate::input::descriptors::is_regular;
use crate::task::Task;

/// Whether a call that may sleep by its row may sleep on these descriptors. A call that only moves
/// bytes to and from regular files does not, and need not cost a switch.
pub fn may_sleep(task: &Task, call: &Call) -> bool {
    if task.log.keeps_baton {
        return false;
    }
    if !task.mode().others_see(task) {
        return true;
    }
    let mut ends = ends(call).map(|(fd, _)| is_regular(task, fd));
    match ends.next() {
        None => true,
        Some(first) => !first || !ends.all(|regular| regular),
    }
}

/// The descriptors that a call reads from or writes to, each with the socket option that limits how
/// long the call waits there.
fn ends(call: &Call) -> impl Iterator<Item = (i32, i32)> {
    let end = |column: Transfer, option: i32| Some((call.arg(column.fd()?) as i32, option));
    let input = call.row.and_then(|r| end(r.input, libc::SO_RCVTIMEO));
    let output = call.row.and_then(|r| end(r.output, libc::SO_SNDTIMEO));
    input.into_iter().chain(output)
}

/// Whether a call waits on a socket for as long as SO_RCVTIMEO or SO_SNDTIMEO allows: then it is
/// never made again (signal(7)).
pub fn times_out(call: &Call) -> bool {
    ends(call).any(|(fd, option)| limits_waits(fd, option))
}

/// Whether the option of a socket limits how long calls wait.
fn limits_waits(fd: i32, option: i32) -> bool {
    let mut limit = libc::timeval {
        tv_sec: 0,
        tv_usec: 0,
    };
    let mut size = size_of::<libc::timeval>() as u32;
    // SAFETY: fills the structure, or fails on a file that is no socket.
    let asked = unsafe {
        let (to, size) = ((&raw mut limit).cast(), &raw mut size);
        libc::getsockopt(fd, libc::SOL_SOCKET, option, to, size)
    };
    asked == 0 && (limit.tv_sec, limit.tv_usec) != (0, 0)
}
